"""Requests with barriers, and replicated flows, over the kernel's TCP: closed forms, and the simulator beside it."""

from __future__ import annotations

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.emulation.source_routes import connections
from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Requests, Tcp, dumbbell, fat_tree, star
from netrepro.networks.tables import FLOW_COLUMNS, REQUEST_COLUMNS
from netrepro.simulation import simulate

pytestmark = needs_virtual
SERVERS = ("h2", "h3", "h4")
ROUND_TRIP_MS = 20.0
FAR = star(4, Link(100, ROUND_TRIP_MS / 4, DropTail(packets=1000)))


def run(experiment: Experiment):
    return emulate(experiment, "virtual")


def both(experiment: Experiment):
    return run(experiment), simulate(experiment)


# Requests -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def striped():
    """Reads striped over three servers, with time to think, on both tiers."""
    asked = Requests("h1", SERVERS, 100, 12_345, 10, think_ms=30, start_s=0.1, label="reads")
    return both(Experiment(FAR, (asked, Flow("h2", "h1", 5000, start_s=0.5)), 2.0))


def test_every_request_is_answered_to_the_byte_and_told_as_by_the_simulator(striped):
    emulated, simulated = striped
    ours, theirs = emulated.requests, simulated.requests
    assert list(ours) == REQUEST_COLUMNS and len(ours) == 30
    keys = ["flow", "label", "client", "server", "request"]
    assert ours.sort_values(keys)[keys].values.tolist() == theirs.sort_values(keys)[keys].values.tolist()
    assert ours["answered_s"].notna().all()
    assert emulated.flows["delivered_bytes"].tolist() == [10 * 12_345] * 3 + [5000]
    assert emulated.flows[FLOW_COLUMNS[:9]].equals(simulated.flows[FLOW_COLUMNS[:9]])
    answers_end_ms = ours.groupby("flow")["answered_s"].max().to_numpy() * 1e3 - 100
    assert emulated.flows["completion_ms"].to_numpy()[:3] == pytest.approx(answers_end_ms, abs=0.1)


def test_a_round_behind_a_barrier_waits_for_the_last_answer_and_the_time_to_think(striped):
    rounds = striped[0].requests.groupby("request")
    assert (rounds["asked_s"].nunique() == 1).all() and (rounds.size() == 3).all()
    waited_ms = 1e3 * (rounds["asked_s"].first().to_numpy()[1:] - rounds["answered_s"].max().to_numpy()[:-1])
    assert (waited_ms >= 30).all() and np.median(waited_ms) < 35


def test_an_answer_within_the_initial_window_takes_one_round_trip(striped):
    emulated, simulated = (each.requests["completion_ms"] for each in striped)
    assert emulated.min() >= ROUND_TRIP_MS
    assert emulated.median() == pytest.approx(simulated.median(), rel=0.02)


def test_without_a_barrier_every_server_is_asked_by_itself():
    net = star(3, Link(100, 0))
    asked = Requests("h1", ("h2", "h3"), 100, 60_000, 15, barrier=False)
    requests = run(Experiment(net, (asked,), 1.5)).requests
    assert requests["answered_s"].notna().all() and len(requests) == 30
    for _, own in requests.groupby("server"):
        assert (own["asked_s"].to_numpy()[1:] >= own["answered_s"].to_numpy()[:-1]).all()
    assert requests.groupby("request")["asked_s"].nunique().max() == 2


def test_servers_answer_after_a_time_drawn_evenly():
    within_ms = 30.0
    asked = Requests("h1", SERVERS, 100, 1000, 25, answer_within_ms=within_ms)
    measured = emulate(Experiment(FAR, (asked,), 5.0, seed=3), "virtual", until_complete=True)
    delays_ms = measured.requests["completion_ms"] - ROUND_TRIP_MS
    assert len(delays_ms) == 75 and delays_ms.min() >= 0
    # A shorter time would show in the largest, a longer one in the median.
    assert delays_ms.max() > 0.85 * within_ms
    # Half of it, and three deviations of the median of 75 (a twelfth each).
    assert delays_ms.median() == pytest.approx(within_ms / 2, abs=within_ms / 5)


def test_an_emulation_may_end_when_all_is_answered():
    measure = Measure(queues=(("s1", "h1"),), queue_interval_ms=5)
    experiment = Experiment(FAR, (Requests("h1", SERVERS, 100, 5000, 5),), 30.0, measure=measure)
    measured = emulate(experiment, "virtual", until_complete=True)
    assert measured.requests["answered_s"].notna().sum() == 15
    assert measured.flows["delivered_bytes"].tolist() == [25_000] * 3
    assert measured.requests["answered_s"].max() - 0.01 < measured.queues["time_s"].max() < 10


def test_what_is_not_answered_by_the_end_is_missing():
    measured = run(Experiment(star(2, Link(10, 0)), (Requests("h1", ("h2",), 100, 10**8, 2),), 0.7))
    assert measured.requests["answered_s"].isna().tolist() == [True]
    assert 0 < measured.flows["delivered_bytes"][0] < 10**8 and np.isnan(measured.flows["completion_ms"][0])


def test_windows_and_packets_of_answers_are_those_of_the_server():
    measure = Measure(windows_interval_ms=20, packets=(("s1", "h1"),))
    measured = run(Experiment(FAR, (Requests("h1", ("h2",), 100, 200_000, 4),), 1.5, measure=measure))
    assert measured.windows["window_bytes"].max() > 20 * 1448  # the client's, which sends nothing, stays at ten
    of_flow = measured.packets[measured.packets["flow"] == 0]
    assert of_flow["size_bytes"].sum() >= measured.flows["delivered_bytes"][0]


def incast(servers: int, min_rto_ms: float) -> float:
    """Goodput in Mb/s of striped reads through a port with room for 20 packets."""
    net = star(servers + 1, Link(50, 0.1, DropTail(packets=20)))
    names = tuple(f"h{place + 2}" for place in range(servers))
    asked = Requests("h1", names, 100, 256_000 // servers, 12)
    requests = run(Experiment(net, (asked,), 4.0, tcp=Tcp("reno", min_rto_ms=min_rto_ms))).requests
    done = requests[requests["answered_s"].notna()]
    return len(done) * (256_000 // servers) * 8e-6 / (done["answered_s"].max() - done["asked_s"].min())


def test_many_servers_at_once_collapse_on_a_small_buffer_and_a_short_timeout_cures_it():
    # Vasudevan et al., SIGCOMM 2009: losses of a whole window wait for the timeout, 200 ms by default.
    alone, collapsed, cured = incast(1, 200), incast(16, 200), incast(16, 10)
    assert collapsed < 0.5 * alone
    assert cured > 1.5 * collapsed


# Replicated flows -----------------------------------------------------------------------------------


def test_a_replicated_flow_sends_every_byte_twice_and_repsyn_once():
    net = dumbbell(1, Link(100, 0), Link(20, 5, DropTail(packets=200)))
    sent = {}
    for replication in ("", "repflow", "repsyn"):
        flow = Flow("h1", "h2", size_bytes=60_000, replication=replication)
        measured = run(Experiment(net, (flow,), 1.0, measure=Measure(packets=(("s1", "s2"),))))
        only = measured.flows.iloc[0]
        assert only.delivered_bytes == 60_000 and only.errno == 0 and only.completion_ms > 0
        assert only.connection_attempts == (2 if replication else 1)
        assert (measured.packets["flow"] == 0).all()
        sent[replication] = measured.packets["size_bytes"].sum() / 60_000
    assert sent["repflow"] > 1.7 * sent[""]
    assert sent["repsyn"] < 1.2 * sent[""]


def test_the_first_copy_to_arrive_completes_a_replicated_flow():
    # Losses hit copies independently: of two, the faster one counts (Xu and Li, INFOCOM 2014).
    net = dumbbell(1, Link(200, 0), Link(100, 5, DropTail(packets=500), loss=0.03))
    ends_ms = {}
    for replication in ("", "repflow"):
        flows = tuple(
            Flow("h1", "h2", 30_000, start_s=0.02 * place, replication=replication, label=replication)
            for place in range(100)
        )
        measured = run(Experiment(net, flows, 4.0))
        # A SYN that is lost twice may end after the experiment: it counts as long as it could have.
        ends_ms[replication] = measured.flows["completion_ms"].fillna(4000)
    assert ends_ms["repflow"].mean() < 0.8 * ends_ms[""].mean()


def test_replicas_take_paths_of_their_own():
    net = fat_tree(4, Link(100, 0))
    long_way = [port for port in net.ports if port[0][0] == port[1][0] == "s"]

    def ports_used(replication: str, same_path: bool = False) -> float:
        flow = Flow("h1", "h16", size_bytes=100_000, replication=replication, replica_same_path=same_path)
        used = [
            (run(Experiment(net, (flow,), 0.5, seed=seed)).links_by_port["sent_bytes"]
             > 50_000).loc[long_way].sum()
            for seed in range(1, 5)
        ]  # fmt: skip
        return float(np.mean(used))

    assert ports_used("") == 4
    assert ports_used("repflow") > 4
    assert ports_used("repflow", same_path=True) == 4


def test_flows_whose_replicas_share_their_path_take_all_paths_in_turn():
    flows = tuple(
        Flow("h1", "h16", 1000, start_s=0.01 * place, replication="repsyn", replica_same_path=True)
        for place in range(60)
    )
    made = connections(Experiment(fat_tree(4, Link(100, 0)), flows, 1.0))
    there = [[each.there for each in made if each.place == place] for place in (0, 1)]
    assert there[0] == there[1] and len(set(there[0])) == 4
    assert all(each.back == each.there[::-1] for each in made)
