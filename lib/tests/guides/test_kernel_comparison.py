"""The simulator beside a real kernel in virtual time: only TCP and queues can differ, so tolerances are tight."""

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.errors import NetreproError
from netrepro.guides import kernel_comparison as comparison
from netrepro.guides.kernel_comparison import COMPLETIONS, DROPS, GOODPUT, KERNEL, OUTSIDE, QUEUE, SIMULATOR, UNDECIDED


@pytest.fixture(scope="module")
def found() -> comparison.Comparison:
    measured = comparison.measure("quick", 1)
    assert measured.why == "" and measured.values["value"].notna().all()
    return measured


@pytest.fixture(scope="module")
def tables(found) -> dict[str, pd.DataFrame]:
    """The distances of the simulator from the kernel, by kind."""
    return {kind: comparison.side_by_side(found, kind).sort_index() for kind in comparison.TOLERANCES}


@needs_virtual
def test_single_flows_take_as_long_as_in_the_kernel(tables):
    off = tables[COMPLETIONS].loc["single flows", "off by %"].abs()
    assert len(off) == 25 and off.max() < 0.5


@needs_virtual
def test_one_flow_fills_its_path_and_queue_as_the_kernels_does(tables):
    """BBR too: a probe ends with the burst that is about to leave; without that its queue is half as long again."""
    for kind in (GOODPUT, QUEUE, DROPS):
        assert tables[kind].loc["one flow", "off by %"].abs().max() < comparison.TOLERANCES[kind]


@needs_virtual
def test_a_burst_overruns_a_buffer_by_as_much_as_the_kernels(tables):
    assert tables[DROPS].loc["burst", "off by %"].abs().max() < 3
    assert tables[COMPLETIONS].loc["burst", "off by %"].abs().max() < 0.1


@needs_virtual
def test_flows_that_share_are_no_further_apart_than_their_seeds_explain(tables):
    for kind in (GOODPUT, QUEUE, DROPS):
        shared = tables[kind].loc[["two flows", "ten flows", "four flows"]]
        assert (shared["off by %"].abs() < 5 + 2 * shared["error %"]).all(), shared


@needs_virtual
def test_flows_that_lose_differ_by_how_far_the_receive_window_grows_and_by_nothing_else(tables):
    """Where all of it is offered from the start they take as long as the kernel's to a ten-thousandth. Who mends the
    difference changes the text of notebook 03, "What is apart, and why"."""
    off = tables[COMPLETIONS].loc["losses", "off by %"].abs().unstack("quantity")
    assert off.loc[["reno, all offered", "cubic, all offered"]].max().max() < 0.01
    assert off.loc["reno"].max() < 8 and off.loc["cubic"].max() < 2


@needs_virtual
def test_a_kernels_time_out_rings_with_the_next_of_its_timers_eighths(found):
    """The simulator's rings at its own time, wherever a flow begins."""
    timed_out = found.flows[found.flows["part"] == "time-outs"].groupby("tool")["completion_ms"]
    ours, kernels = (timed_out.get_group(tool).to_numpy() for tool in (SIMULATOR, KERNEL))
    assert np.ptp(ours) < 0.01
    assert kernels[:8] == pytest.approx(kernels[8:], abs=0.01)
    assert np.ptp(kernels) == pytest.approx(7, abs=0.01) and (kernels - ours > 0).all() and (kernels - ours < 9).all()


def values(ours: list[float], kernels: list[float]) -> comparison.Comparison:
    rows = [
        (QUEUE, "part", "case", "packets", tool, seed, value)
        for tool, each in ((SIMULATOR, ours), (KERNEL, kernels))
        for seed, value in enumerate(each)
    ]
    columns = ["kind", "part", "case", "quantity", "tool", "seed", "value"]
    return comparison.Comparison(pd.DataFrame(rows, columns=columns), *[pd.DataFrame()] * 3)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([100.9, 101.1], comparison.WITHIN),
        ([97.9, 98.0], UNDECIDED),
        ([102.9, 103.1], OUTSIDE),
        ([90.0, 110.0], UNDECIDED),
    ],
)
def test_what_reaches_across_the_tolerance_is_undecided(ours, verdict):
    found = values(ours, [100.0, 100.0])
    assert comparison.side_by_side(found, QUEUE).iloc[0, -1] == verdict
    assert comparison.summary(found).loc["mean queues, 2 %"].to_dict() == {
        name: int(name == verdict) for name in (comparison.WITHIN, UNDECIDED, OUTSIDE)
    }


def test_a_quantity_that_a_seed_lacks_is_left_out():
    assert comparison.side_by_side(values([1.0], [1.0, 2.0]), QUEUE).empty


def test_without_a_kernel_the_pictures_say_so(monkeypatch):
    monkeypatch.setattr(comparison, "why_no_processes", lambda: "no virtual kernel: not built")
    monkeypatch.setattr(comparison, "scale", lambda profile: comparison.ComparisonSize(2.0, 1))
    found = comparison.measure("quick", 1)
    table = comparison.side_by_side(found, COMPLETIONS)
    assert found.why and len(table) and table[KERNEL].isna().all() and (table.iloc[:, -1] == "not measured").all()
    for draw in (
        comparison.draw_completions,
        comparison.draw_windows,
        comparison.draw_queues,
        comparison.draw_time_outs,
    ):
        assert any("not measured" in text.get_text() for axis in draw(found).axes for text in axis.texts)


def test_an_unknown_profile_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        comparison.measure("papr", 1)
