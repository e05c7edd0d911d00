"""A run ends, whatever is asked for; one whose time stood still would end with an error."""

import pytest

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, Tcp, dumbbell, star
from netrepro.networks.compiled import tcp_settings
from netrepro.simulation import hosts, simulate
from netrepro.simulation.hosts import Hosts

RACK_ONCE_STOOD_STILL = {
    "bbr at 8.847 s": (0.5, 400, "bbr", Tcp(), 33),
    "reno with a minimum of 1 ms": (0.1, 20, "reno", Tcp(min_rto_ms=1), 102),
    "bbr with a minimum of 1 ms": (0.1, 20, "bbr", Tcp(min_rto_ms=1), 102),
}


@pytest.mark.parametrize("case", RACK_ONCE_STOOD_STILL)
def test_a_segment_sent_again_on_a_path_that_reorders_is_judged_at_a_time_to_come(case: str) -> None:
    share, held_back_ms, control, tcp, seed = RACK_ONCE_STOOD_STILL[case]
    link = Link(10, 10, DropTail(packets=100), reordering=share, reordering_ms=held_back_ms)
    flow = Flow("h1", "h2", duration_s=30, congestion_control=control)
    found = simulate(Experiment(dumbbell(1, Link(1000, 0), link), [flow], 30, seed=seed, tcp=tcp))
    assert found.trusted
    assert 0 < found.flows["goodput_mbps"][0] < 10


def instant_network(duration_s: float) -> _core.Simulator:
    """Two nodes between which a packet takes no time at all, so that a flow's packets never let time pass."""
    simulator = _core.Simulator(nodes=2, seed=1, duration_s=duration_s, clock_skew=0.0, segment_bytes=1448)
    ends = dict(delay_s=0.0, jitter_s=0.0, loss=0.0, room=4, reordering=0.0, held_back_s=0.0)
    ends |= dict(burst_bytes=0, host_delay_s=0.0)
    for source, destination in ((0, 1), (1, 0)):
        settings = _core.LinkSettings(source=source, destination=destination, rate=1e30, **ends)
        simulator.add_link(settings, "drop_tail", (100, 0))
    one = dict(is_tcp=[True], source=[0], destination=[1], start_s=[0.0], size_bytes=[0], duration_s=[duration_s])
    speech = dict(control=[0], controls=["reno"], tcp=[0], tcps=[_core.TcpSettings(**tcp_settings(Tcp()))])
    rest = dict(replication=[0], same_path=[False], subflows=[1], rate=[0.0], packet_bytes=[0], poisson=[False])
    simulator.add_flows(**one, **speech, **rest)
    return simulator


def test_a_simulator_whose_time_stands_still_says_so_and_what_keeps_it() -> None:
    simulator = instant_network(1.0)
    with pytest.raises(NetreproError, match=r"time stands still at 0\.0.* s: .*(link [01]|flow 0).*\n.*report"):
        for _ in range(100):
            simulator.run(100_000)
    assert simulator.now_s == 0


def test_a_simulator_whose_run_has_failed_is_used_no_more() -> None:
    simulator = instant_network(1.0)
    with pytest.raises(NetreproError, match="stands still"):
        simulator.run(10_000_000)
    for use in (lambda: simulator.run(1), simulator.flows, simulator.links):
        with pytest.raises(NetreproError, match=r"run has failed\n.*build another"):
            use()


def test_a_program_that_is_called_at_one_time_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MOST_CALLS_AT_A_TIME", 1000)
    network = Hosts(Experiment(star(2, Link(10, 1)), [], 5), most_connections=0)

    def again(now_s: float) -> None:
        network.at(now_s, again)

    network.at(2.0, again)
    with pytest.raises(
        NetreproError, match=r"time stands still at 2 s: more than 1,000 calls, now of .*again.*\n.*later"
    ):
        network.run()


def test_a_program_may_be_called_often_as_long_as_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MOST_CALLS_AT_A_TIME", 10)
    network = Hosts(Experiment(star(2, Link(10, 1)), [], 5), most_connections=0)
    calls = []
    for i in range(100):
        network.at(i // 10 / 10, calls.append)
    network.run()
    assert len(calls) == 100
