"""The benchmark beside Unison's published speed: its traffic, and its table without ns-3. No speeds."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2]))  # of the benchmarks
unison = importlib.import_module("benchmarks.bench_unison")


def test_unisons_traffic_loads_the_hosts_as_its_artifact_says():
    experiment = unison.experiment(4, 0.1)
    flows, hosts = experiment.traffic, len(experiment.topology.hosts)
    assert hosts == 16 and all(flow.source != flow.destination for flow in flows)
    sizes = np.array([flow.size_bytes for flow in flows])
    assert sizes.sum() * 8 / 0.1 == pytest.approx(unison.LOAD * hosts * unison.RATE_MBPS * 1e6, rel=0.1)
    for end in ("source", "destination"):
        shares = np.unique([getattr(flow, end) for flow in flows], return_counts=True)[1] / len(flows)
        assert len(shares) == hosts and np.abs(shares * hosts - 1).max() < 0.35
    assert max(flow.start_s for flow in flows) < 0.1 and flows == unison.experiment(4, 0.1).traffic


def test_unisons_factor_stands_in_a_column_of_its_own(monkeypatch):
    full = unison.experiment
    monkeypatch.setattr(unison, "simulators", lambda folder, names: {name: "not installed" for name in names})
    monkeypatch.setattr(unison, "experiment", lambda k, duration_s: full(4, duration_s / 4))
    table = unison.run().set_index("benchmark")
    assert (table["ours_per_s"] > 0).all() and table["ours_times_ns3"].isna().all()
    elsewhere = table["unison_24_cores_times_ns3_elsewhere"]
    assert elsewhere["fat-tree k = 8"] == 40 and np.isnan(elsewhere["fat-tree k = 16"])
    assert table["remark"].str.startswith("ns-3 of Debian: not installed").all()
