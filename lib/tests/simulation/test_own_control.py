"""Congestion controls written in Python."""

from __future__ import annotations

import pytest
from own_reno import MyReno

from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Tcp, dumbbell
from netrepro.simulation import OwnCongestionControl, simulate


class MyConstant(OwnCongestionControl):
    """A window that never changes."""

    def grow(self, window, delivery):
        window.segments = 20

    def threshold_after_loss(self, window):
        return 20.0


class MyMistake(MyReno):
    def grow(self, window, delivery):
        raise ValueError("a mistake of the reader's")


def experiment(control: str, **tcp) -> Experiment:
    net = dumbbell(2, Link(1000, 1, DropTail(packets=1000)), Link(20, 10, DropTail(packets=30), loss=0.001))
    flows = (Flow("h1", "h3", duration_s=5), Flow("h2", "h4", 500_000, start_s=1), Flow("h2", "h4", 20_000, start_s=2))
    measure = Measure(queues=(("s1", "s2"),), windows_interval_ms=10, packets=(("s1", "s2"),))
    return Experiment(net, flows, 5, measure=measure, tcp=Tcp(control, **tcp))


@pytest.mark.parametrize("tcp", [{}, {"sack": False}, {"ecn": True, "pacing": True}])
def test_reno_in_python_gives_the_same_bytes_as_reno_in_the_core(tcp):
    core = simulate(experiment("reno", **tcp))
    own = simulate(experiment("my_reno", **tcp), congestion_controls={"my_reno": MyReno})
    for name in ("queues", "links", "windows", "packets"):
        assert getattr(core, name).to_csv() == getattr(own, name).to_csv()
    assert core.flows.drop(columns="congestion_control").equals(own.flows.drop(columns="congestion_control"))
    assert core.flows["retransmitted_packets"].sum() > 0


def test_every_connection_has_an_object_of_its_own():
    made = []

    class MyCounted(MyReno):
        def __init__(self):
            made.append(self)

    simulate(experiment("my_counted"), congestion_controls={"my_counted": MyCounted})
    assert len(made) == 3 == len(set(map(id, made)))


def test_a_window_that_never_changes_is_what_the_sender_has():
    windows = simulate(experiment("my_constant"), congestion_controls={"my_constant": MyConstant}).windows
    assert windows.query("time_s > 0.2 and flow == 0")["window_bytes"].median() == 20 * 1448


def test_an_exception_in_a_control_ends_the_run_and_comes_through_with_class_and_method():
    with pytest.raises(ValueError, match="a mistake of the reader's") as told:
        simulate(experiment("my_mistake"), congestion_controls={"my_mistake": MyMistake})
    assert told.value.__notes__ == ["in the middle of the run, in MyMistake.grow"]


@pytest.mark.parametrize(
    ("grow", "says"),
    [
        (lambda self, window, delivery: window.slow_start("x"), "window.slow_start: acknowledged = 'x'"),
        (lambda self, window, delivery: window.avoid_congestion(None, 2), "avoid_congestion: acknowledged = None"),
        (lambda self, window, delivery: window.avoid_congestion(1, "2"), "avoid_congestion: per_segment = '2'"),
    ],
)
def test_segments_that_are_no_number_are_refused_with_class_and_method(grow, says):
    mine = type("Mine", (MyReno,), {"grow": grow})
    with pytest.raises(NetreproError, match="give a number of segments") as told:
        simulate(experiment("my_own"), congestion_controls={"my_own": mine})
    assert says in told.value.problem and told.value.__notes__ == ["in the middle of the run, in Mine.grow"]


@pytest.mark.parametrize(
    ("controls", "says"),
    [
        ({}, "give its class"),
        ({"my_rena": MyReno}, "did you mean 'my_rena'"),
        ({"reno": MyReno}, "call it my_reno"),
        ({"my_reno": int}, "derive it from OwnCongestionControl"),
        ({"my_reno": MyReno()}, "derive it from OwnCongestionControl"),
        ([MyReno], "give a dict"),
        ({"my_reno": type("Half", (MyReno,), {"grow": OwnCongestionControl.grow})}, "Half has no method grow"),
        ({"my_reno": type("Half", (OwnCongestionControl,), {"grow": MyReno.grow})}, "no method threshold_after_loss"),
        ({"my_reno": type("Bare", (MyReno,), {"grow": lambda self: None})}, "does not take (self, window, delivery)"),
        ({"my_reno": type("Wants", (MyReno,), {"__init__": lambda self, gain: None})}, "made without arguments"),
    ],
)
def test_a_control_that_is_not_there_is_said_before_the_start(controls, says):
    with pytest.raises(NetreproError) as caught:
        simulate(experiment("my_reno"), congestion_controls=controls)
    assert says in str(caught.value)
