"""What the compiled simulator refuses: places that there are not, times that cannot be, two users at once."""

import gc
import math
import re
import sys
import threading
from typing import Any

import pytest

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.networks import Datagrams, Experiment, Flow, Link, Measure, Tcp, star
from netrepro.networks.compiled import tcp_settings
from netrepro.simulation import OwnCongestionControl, simulate
from netrepro.simulation.simulate import build

NETWORK = star(3, Link(10, 1))  # links 0 to 5, nodes 0 to 3


def simulator(*traffic: Any, **more: Any) -> _core.Simulator:
    return build(Experiment(NETWORK, traffic or [Flow("h1", "h2", 10_000)], 5, clock_skew_ppm=0.0, **more))


@pytest.mark.parametrize(
    ("method", "arguments"),
    {
        "record_departures": (6, 10),
        "change_link": (1.0, 6, 1e6, None),
        "give_path": (1, 0, [0], [1]),
        "sample_queues": ([0, 6], 0.1),
        "request": (0, 2, 1, 1, 1, True, 0.0, 0.0, 1, 0.0),
        "set_paths": (0, 9, [[0, 3]]),
        "give_control": (1, object),
    }.items(),
)
def test_a_link_node_or_flow_that_there_is_not_is_refused(method: str, arguments: tuple) -> None:
    with pytest.raises(IndexError, match=r"no link 6|no node 9|no TCP flow 1|beyond the last flow"):
        getattr(simulator(), method)(*arguments)


@pytest.mark.parametrize("links", [[], [0, 6]])
def test_a_path_is_of_links_that_there_are(links: list[int]) -> None:
    with pytest.raises((IndexError, ValueError), match=r"a path of no link|no link 6"):
        simulator().give_path(0, 0, [0, 3], links)


def test_datagrams_are_asked_for_no_path_control_or_answers() -> None:
    found = simulator(Datagrams("h1", "h2", 1, 1))
    for method, arguments in {
        "give_path": (0, 0, [0, 3], [2, 1]),
        "give_control": (0, object),
        "request": (0, 1, 1, 1, 1, True, 0.0, 0.0, 1, 0.0),
    }.items():
        with pytest.raises(IndexError, match="no TCP flow 0"):
            getattr(found, method)(*arguments)


def test_a_flow_that_has_its_connections_gets_no_others() -> None:
    found = simulator(Flow("h1", "h2", 10_000), Flow("h3", "h2", 10_000))
    found.request(1, 1, 1, 1, 1, True, 0.0, 0.0, 1, 0.0)
    with pytest.raises(ValueError, match="flow 1 has its connections already"):
        found.request(0, 2, 1, 1, 1, True, 0.0, 0.0, 1, 0.0)
    assert found.run(1 << 30)
    assert list(found.flows()["delivered_bytes"]) == [10_000, 1]


@pytest.mark.parametrize("time_s", [math.nan, math.inf, -1.0, 9.3e6])
def test_a_time_that_no_run_can_hold_is_refused(time_s: float) -> None:
    for method, arguments in {
        "change_link": (time_s, 0, 1e6, None),
        "use_links": (time_s, [True] * 6),
        "sample_windows": (time_s,),
        "sample_queues": ([0], time_s),
    }.items():
        with pytest.raises(ValueError, match="a time of"):
            getattr(simulator(), method)(*arguments)
    with pytest.raises(ValueError, match="a time of"):
        _core.Simulator(nodes=2, seed=1, duration_s=time_s, clock_skew=0.0, segment_bytes=1448)


@pytest.mark.parametrize("loss", [-0.1, 1.0, math.nan])
def test_a_link_gets_no_loss_that_is_no_probability(loss: float) -> None:
    with pytest.raises(ValueError, match="no loss for a link"):
        simulator().change_link(1.0, 0, 0.0, None, None, loss)


def test_samples_have_time_between_them() -> None:
    for method, arguments in {"sample_queues": ([0], 0.0), "sample_windows": (0.0,)}.items():
        with pytest.raises(ValueError, match="samples without time"):
            getattr(simulator(), method)(*arguments)


def test_a_network_that_runs_is_set_up() -> None:
    found = simulator()
    found.run(10)
    with pytest.raises(RuntimeError, match="set up before it runs"):
        found.change_link(1.0, 0, 1e6, None)


@pytest.mark.parametrize("subflows", [65, 1000])
def test_a_flow_has_at_most_64_subflows(subflows: int) -> None:
    found = _core.Simulator(nodes=2, seed=1, duration_s=1.0, clock_skew=0.0, segment_bytes=1448)
    one = dict(is_tcp=[True], source=[0], destination=[1], start_s=[0.0], size_bytes=[1000], duration_s=[0.0])
    speech = dict(control=[0], controls=["reno"], tcp=[0], tcps=[_core.TcpSettings(**tcp_settings(Tcp()))])
    rest = dict(replication=[0], same_path=[False], rate=[0.0], packet_bytes=[0], poisson=[False])
    with pytest.raises(ValueError, match=rf"{subflows} subflows"):
        found.add_flows(**one, **speech, **rest, subflows=[subflows])
    with pytest.raises(IndexError, match="no node 7"):
        found.add_flows(**one | dict(source=[7]), **speech, **rest, subflows=[1])


def test_a_datagram_has_no_number_of_a_connection() -> None:
    with pytest.raises(ValueError, match="number of a connection"):
        simulator().post(0, 1, 1000, 0)


def test_a_link_far_too_slow_for_what_waits_ends_no_run_early_or_late() -> None:
    slow = star(2, Link(1e-6, 0))  # a packet takes 12,112 s, a queue of a hundred two weeks
    found = simulate(Experiment(slow, [Datagrams("h1", "h2", 1, 900_000)], 1_000_000))
    assert found.trusted
    assert found.links["sent_packets"].max() == 82  # of the two on its way


# Two users.


class MyReno(OwnCongestionControl):
    def grow(self, window: Any, delivery: Any) -> None:
        window.segments += delivery.segments

    def threshold_after_loss(self, window: Any) -> float:
        return max(window.segments / 2, 2.0)


def with_control(control: type[OwnCongestionControl]) -> _core.Simulator:
    asked = Experiment(NETWORK, [Flow("h1", "h2", 1_000_000, congestion_control="my_one")], 5)
    return build(asked, {"my_one": control})


def test_a_simulator_is_not_run_from_inside_its_own_run() -> None:
    class Nested(MyReno):
        def grow(self, window: Any, delivery: Any) -> None:
            found.run(1)

    found = with_control(Nested)
    with pytest.raises(NetreproError, match="from inside its own run"):
        found.run(1 << 30)


def test_a_second_thread_at_a_simulator_is_refused() -> None:
    refusals: list[NetreproError] = []

    def use() -> None:
        for each in (found.flows, lambda: found.run(1)):
            with pytest.raises(NetreproError) as caught:
                each()
            refusals.append(caught.value)

    class Meanwhile(MyReno):
        def grow(self, window: Any, delivery: Any) -> None:
            super().grow(window, delivery)
            if not refusals:
                other = threading.Thread(target=use)
                other.start()
                other.join()

    found = with_control(Meanwhile)
    assert found.run(1 << 30)
    assert len(refusals) == 2 and all("in use, by another thread" in str(each) for each in refusals)
    assert found.flows()["delivered_bytes"][0] == 1_000_000


def test_a_control_that_raises_leaves_no_simulator_to_use() -> None:
    class Raising(MyReno):
        def grow(self, window: Any, delivery: Any) -> None:
            raise ZeroDivisionError("a mistake")

    found = with_control(Raising)
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        found.run(1 << 30)
    for use in (found.flows, lambda: found.run(1)):
        with pytest.raises(NetreproError, match="run has failed"):
            use()


def test_a_control_may_keep_what_it_was_told() -> None:
    kept: list[tuple[Any, Any, float, float]] = []

    class Keeping(MyReno):
        def grow(self, window: Any, delivery: Any) -> None:
            super().grow(window, delivery)
            kept.append((window, delivery, window.segments, delivery.now_s))

    found = with_control(Keeping)
    found.run(1 << 30)
    del found
    gc.collect()
    assert len(kept) > 100
    assert all(window.segments == segments and told.now_s == now_s for window, told, segments, now_s in kept)


@pytest.mark.parametrize("left", [math.nan, -1.0, math.inf])
def test_a_window_that_is_no_number_of_segments_is_refused_with_the_controls_name(left: float) -> None:
    class MyWrong(MyReno):
        def grow(self, window: Any, delivery: Any) -> None:
            window.segments = left

    with pytest.raises(NetreproError, match=rf"MyWrong.grow gives a window of {left} segments\n.*0 or more"):
        with_control(MyWrong).run(1 << 30)


@pytest.mark.parametrize("field", ["segments", "threshold"])
@pytest.mark.parametrize("left", ["two", None, [2.0]])
def test_a_window_that_is_set_to_no_number_is_refused(field: str, left: Any) -> None:
    class MyWrong(MyReno):
        def grow(self, window: Any, delivery: Any) -> None:
            setattr(window, field, left)

    with pytest.raises(NetreproError, match=rf"window.{field} = {re.escape(repr(left))}\n.*number of segments"):
        with_control(MyWrong).run(1 << 30)


@pytest.mark.parametrize("left", [math.nan, -1.0, "two", None])
def test_a_threshold_that_is_no_number_of_segments_is_refused_with_the_controls_name(left: Any) -> None:
    class MyWrong(MyReno):
        def threshold_after_loss(self, window: Any) -> Any:
            return left

    lossy = star(2, Link(10, 1, loss=0.1))
    asked = Experiment(lossy, [Flow("h1", "h2", 1_000_000, congestion_control="my_one")], 5)
    with pytest.raises(NetreproError, match=rf"MyWrong.threshold_after_loss gives a threshold of {left!r} segments"):
        simulate(asked, congestion_controls={"my_one": MyWrong})


# Too much to record.


def test_packets_beyond_the_most_that_are_recorded_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["netrepro.simulation.simulate"], "MOST_SAMPLES", 100)
    flow = [Flow("h1", "h2", duration_s=5)]
    with pytest.raises(NetreproError, match=r"Measure: packets of a port are 100 or more\n.*slower port.*shorter"):
        simulate(Experiment(NETWORK, flow, 5, measure=Measure(packets=[("s1", "h2")])))
    few = Experiment(NETWORK, [Flow("h1", "h2", 10_000)], 5, measure=Measure(packets=[("s1", "h2")]))
    assert 5 < len(simulate(few).packets) < 100
