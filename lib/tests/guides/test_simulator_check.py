"""The page on which emulator, simulator and ns-3 stand side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro.errors import NetreproError
from netrepro.guides import simulator_check as check
from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Requests, Tcp, star
from netrepro.simulation import simulate
from netrepro.simulation.ns3 import build_ns3, simulate_ns3

SMALL = check.ScenarioSize(1.0, 100, 1)


@pytest.fixture(scope="module", params=[False, True], ids=["of Debian", "of PyPI"])
def program(request, tmp_path_factory):
    built = build_ns3(tmp_path_factory.mktemp("ns3"), from_pypi=request.param)
    if built is None:
        pytest.skip("ns-3 is not installed")
    return built


def table_of(values: dict[str, float], notes: dict[str, str] | None = None) -> pd.DataFrame:
    rows = [
        {"scenario": "a", "quantity": "b", "tool": tool, "value": value, "least": value, "most": value,
         "note": (notes or {}).get(tool, "")}
        for tool, value in values.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_there_are_eight_scenarios_and_every_quantity_of_them_can_be_read():
    scenarios = check.scenarios(SMALL, 3)
    assert len({scenario.name for scenario in scenarios}) == 8
    for scenario in scenarios:
        assert Experiment.from_json(scenario.experiment.to_json()) == scenario.experiment
        found = simulate(scenario.experiment)
        values = [reading(found.flows, found.queues) for reading in scenario.readings.values()]
        assert values and np.isfinite(values).all() and min(values) > 0


def test_differences_are_relative_to_the_simulator_and_absent_tools_say_why():
    found = table_of({"simulated": 10.0, "emulated": 11.0, "ns-3": np.nan}, {"ns-3": "not installed"})
    row = check.side_by_side(found).iloc[0]
    assert row["emulated, off by %"] == pytest.approx(10) and np.isnan(row["ns-3, off by %"])
    assert row["note"] == "ns-3: not installed"
    assert check.draw(found).axes


def test_an_unknown_profile_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        check.measure("papr", "simulated", 1)


def test_ns3_is_refused_what_its_program_does_not_do(tmp_path):
    net = star(3, Link(10, 1, DropTail(packets=10)))
    flow = Flow("h1", "h2", 1000)
    for broken in (
        Experiment(net, (Requests("h1", ("h2",), 1, 1, 1),), 1.0),
        Experiment(net, (flow, replace(flow, congestion_control="cubic")), 1.0, tcp=Tcp("reno")),
        Experiment(net, (flow,), 1.0, tcp=Tcp("bbr")),
        Experiment(star(3, Link(10, 1, reordering=0.1, reordering_ms=1)), (flow,), 1.0),
        Experiment(net, (flow,), 1.0, measure=Measure(queues=(("s1", "h1"), ("s1", "h2")))),
    ):
        with pytest.raises(NetreproError, match="use tier 'simulated'"):
            simulate_ns3(broken, tmp_path / "never started")


def test_ns3_and_the_simulator_agree_on_slow_start_and_on_the_share_of_a_dumbbell(program):
    """Within 10 % where only delayed acknowledgements differ, 3 % on a full link (0.8 % is the frames')."""
    ten_flows, *_, slow_start = check.scenarios(check.ScenarioSize(4.0, 100, 1), 1)[:5]
    for scenario, tolerance in ((ten_flows, 0.03), (slow_start, 0.10)):
        found = simulate_ns3(scenario.experiment, program)
        ours = simulate(scenario.experiment)
        for reading in scenario.readings.values():
            assert reading(found.flows, found.queues) == pytest.approx(reading(ours.flows, ours.queues), rel=tolerance)
        assert found.packet_hops > 0
