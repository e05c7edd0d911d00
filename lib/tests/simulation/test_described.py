"""Experiments as text: what runs without Python gives what Python's own simulation gives, and reads back the same."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_random_networks import random_experiment

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Tcp, dumbbell, star
from netrepro.networks.experiment import Measurements
from netrepro.simulation.described import describe, described_measurements, read_described
from netrepro.simulation.simulate import EVENTS_AT_A_TIME, simulate

TABLES = ("flows", "queues", "links", "windows", "packets", "fidelity", "requests", "deliveries")
NETWORK = dumbbell(1, access=Link(100, 1), bottleneck=Link(10, 10, DropTail(packets=50)))


def a_flow(**changes: Any) -> Experiment:
    return Experiment(**dict(topology=NETWORK, traffic=[Flow("h1", "h2", duration_s=1)], duration_s=1.0) | changes)


def run_text(text: str) -> dict[str, Any]:
    run = _core.DescribedRun(text)
    while not run.run(EVENTS_AT_A_TIME):
        assert 0 <= run.share < 1
    assert run.share == 1
    return run.columns()


def check_equal(one: Measurements, other: Measurements) -> None:
    for table in TABLES:
        assert getattr(one, table).equals(getattr(other, table)), table


@pytest.mark.parametrize("seed", range(40))
def test_what_is_described_gives_the_same_tables_as_python(seed):
    experiment = random_experiment(seed)
    columns = run_text(json.dumps(describe(experiment)))
    check_equal(described_measurements(experiment, columns), simulate(experiment))


def test_all_that_can_be_recorded_comes_back():
    port = ("s1", "s2")
    measure = Measure(queues=(port,), windows_interval_ms=50, packets=(port,), deliveries=[0], since_s=0.25)
    experiment = a_flow(measure=measure, traffic=[Flow("h1", "h2", duration_s=1, label='é "1"\n\\ \U0001f642')])
    again = described_measurements(experiment, run_text(json.dumps(describe(experiment))))
    assert all(len(getattr(again, table)) for table in TABLES if table != "requests")
    check_equal(again, simulate(experiment))


def test_a_flow_waits_for_another_one():
    flows = [Flow("h1", "h2", size_bytes=20_000), Flow("h1", "h2", size_bytes=10_000)]
    experiment = a_flow(traffic=flows)
    text = json.dumps(describe(experiment, start_after={1: 0}))
    assert read_described(text) == (experiment, {1: 0})
    again = described_measurements(experiment, run_text(text), {1: 0})
    check_equal(again, simulate(experiment, start_after={1: 0}))
    assert again.flows.start_s[1] > 0
    with pytest.raises(NetreproError, match="waits for itself"):
        describe(experiment, start_after={1: 1})


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_a_description_reads_back_to_the_same_experiment(seed):
    experiment = random_experiment(seed)
    text = json.dumps(describe(experiment))
    again, _ = read_described(text)
    assert again == experiment and json.dumps(describe(again)) == text


def test_a_congestion_control_in_python_cannot_be_described():
    with pytest.raises(NetreproError, match="my_control"):
        describe(a_flow(tcp=Tcp("my_control")))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no described experiment"),
        ("[]", "no described experiment"),
        ('{"version": 1}', "experiment"),
        (json.dumps(describe(a_flow()) | {"version": 2}), "version 2"),
        (json.dumps(describe(a_flow()) | {"experiment": {"kind": "Topologie"}}), "Topology"),
    ],
)
def test_another_text_is_refused_in_python(text, problem):
    with pytest.raises(NetreproError, match=problem):
        read_described(text)


def changed(**changes: Any) -> str:
    return json.dumps(describe(a_flow()) | changes)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "from character 0"),
        ("[1, 2", "from character 5"),
        ("{} x", "from character 3"),
        ('{"version": 01e}', "from character"),
        ('{"version": "1"}', "a text in place of a whole number"),
        ("[" * 1000, "from character"),
        ('{"a": "\\q"}', "from character"),
        ("{}", 'without "version"'),
        (changed(version=2), "version 2; this program reads version 1"),
        (changed(set_up=[]), "without a simulator"),
        (changed(set_up=[*describe(a_flow())["set_up"], ["drop_everything"]]), "no drop_everything"),
        (changed(set_up=[*describe(a_flow())["set_up"], ["sample_windows"]]), "too short"),
        (changed(set_up=[["Simulator", {"seed": 1}]]), "an object without"),
    ],
)
def test_another_text_is_refused_by_the_core(text, problem):
    with pytest.raises(ValueError, match=problem):
        _core.DescribedRun(text)


def test_whole_numbers_keep_all_their_digits():
    """A seed beyond 2^53, which no float has."""
    experiment = Experiment(star(2, Link(10, 1, loss=0.1)), [Flow("h1", "h2", duration_s=1)], 1.0, seed=2**64 - 1)
    again = described_measurements(experiment, run_text(json.dumps(describe(experiment))))
    check_equal(again, simulate(experiment))
    rounded = json.dumps(describe(experiment)).replace(str(2**64 - 1), str(2**63))
    assert not described_measurements(experiment, run_text(rounded)).flows.equals(again.flows)
