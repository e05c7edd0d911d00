"""A flow that starts when another one is complete."""

from __future__ import annotations

import numpy as np
import pytest

from netrepro.errors import NetreproError
from netrepro.networks import Datagrams, DropTail, Experiment, Flow, Link, dumbbell
from netrepro.simulation import simulate

NETWORK = dumbbell(2, access=Link(100, 1), bottleneck=Link(10, 10, DropTail(packets=50)))
ASK = Flow("h1", "h3", size_bytes=200_000, start_s=0.1)
ANSWER = Flow("h3", "h1", size_bytes=300_000)


def run(*traffic, start_after, duration_s=5.0):
    return simulate(Experiment(NETWORK, traffic, duration_s), start_after=start_after).flows


@pytest.mark.parametrize("how", [{}, {"replication": "repflow", "replicate_below_bytes": 10**6}, {"subflows": 2}])
def test_an_answer_starts_when_the_request_is_there(how):
    asked = Flow("h1", "h3", size_bytes=200_000, start_s=0.1, **how)
    flows = run(asked, ANSWER, start_after={1: 0})
    arrived_s = 0.1 + flows["completion_ms"][0] / 1e3
    assert flows["start_s"].tolist() == pytest.approx([0.1, arrived_s])
    told = run(asked, Flow("h3", "h1", size_bytes=300_000, start_s=arrived_s), start_after={})
    before_or_behind_ms = 0.2  # its SYN may leave before the last acknowledgement
    assert flows["completion_ms"].tolist() == pytest.approx(told["completion_ms"].tolist(), abs=before_or_behind_ms)


def test_flows_go_round_in_a_chain():
    flows = run(ASK, *[ANSWER, ASK] * 3, start_after={number: number - 1 for number in range(1, 7)})
    ends_s = flows["start_s"] + flows["completion_ms"] / 1e3
    assert np.allclose(flows["start_s"][1:], ends_s[:-1])


def test_what_waits_for_a_flow_that_is_never_complete_never_starts():
    flows = run(Flow("h1", "h3", size_bytes=10**9), ANSWER, start_after={1: 0}, duration_s=1.0)
    assert np.isnan(flows["start_s"][1]) and np.isnan(flows["completion_ms"][1]) and np.isnan(flows["goodput_mbps"][1])
    assert flows["delivered_bytes"][1] == 0


@pytest.mark.parametrize("start_after", [{0: 0}, {0: 1, 1: 0}, {1: 7}, {-1: 0}, {1: 2}, {1: 0.5}])
def test_flows_that_can_never_start_are_refused(start_after):
    datagrams = Datagrams("h2", "h4", rate_mbps=1, duration_s=1)
    with pytest.raises(NetreproError, match="start_after"):
        run(ASK, ANSWER, datagrams, start_after=start_after)
