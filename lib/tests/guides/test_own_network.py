"""The notebook about a network of one's own: it says why there is no kernel, and its pictures take what it has."""

import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.errors import NetreproError
from netrepro.guides import own_network as own
from netrepro.networks import Experiment, Flow, Link, Measure, cellular_trace, dumbbell
from netrepro.simulation import simulate


def test_a_tier_is_one_of_two_and_simulated_has_no_kernel():
    assert own.why_no_kernel("simulated") == "the tier is simulated"
    with pytest.raises(NetreproError, match="privileged"):
        own.why_no_kernel("privileged")


def test_the_tiers_stand_side_by_side():
    network = dumbbell(2, Link(100, 1), Link(10, 10))
    flows = [Flow("h1", "h3", duration_s=2), Flow("h2", "h4", duration_s=2)]
    experiment = Experiment(network, flows, 2.0, measure=Measure(queues=[("s1", "s2")]))
    found = simulate(experiment)
    table = own.side_by_side({"simulated": found, "virtual": found})
    assert list(table.columns) == ["simulated", "virtual"] and len(table) == 3
    assert table.loc["h1, goodput (Mb/s)", "virtual"] == found.flows.goodput_mbps.iloc[0]
    assert len(own.draw_queue({"simulated": found}).axes[0].lines) == 1
    assert own.draw_network(experiment).axes


def test_a_link_that_changes_is_drawn_beside_its_queue():
    trace = cellular_trace(10.0, 2.0, seed=1)
    changes = trace.changes("s1", "s2", 2.0)
    network, look = dumbbell(1, Link(100, 1), Link(10, 10)), Measure(queues=[("s1", "s2")])
    found = simulate(Experiment(network, [Flow("h1", "h2", duration_s=2)], 2.0, changes=changes, measure=look))
    rate, queue = own.draw_trace(trace, {"simulated": found}).axes
    assert len(rate.lines) == len(queue.lines) == 1 and len(rate.lines[0].get_xdata()) == 20


def test_no_capture_and_no_answers_are_drawn_too():
    (axis,) = own.draw_waits({}).axes
    assert not axis.lines and "not measured" in axis.texts[0].get_text()
    packets = pd.DataFrame({"time_s": [0.0, 1.0], "source": "a", "destination": "b", "size_bytes": [100, 200]})
    (line,) = own.draw_capture(packets).axes[0].lines
    assert list(line.get_ydata()) == [0.1, 0.3]


@needs_virtual
def test_a_check_without_a_link_says_what_fails():
    found = own.check_without(("s1", "s2"), dumbbell(1, Link(100, 1), Link(10, 10)), {"h1 reaches h2": True}, 1)
    assert list(found.holds) == [False]
