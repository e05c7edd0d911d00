"""The benchmark of the tier `virtual`: what it counts, and what it says of peers that are not there. No speeds."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.networks import DropTail, Link, dumbbell

PATH = Path(__file__).parents[2] / "benchmarks" / "bench_virtual.py"
sys.path.append(str(PATH.parents[1]))  # of the benchmarks that this one imports
spec = importlib.util.spec_from_file_location("bench_virtual", PATH)
assert spec and spec.loader
bench = sys.modules["bench_virtual"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)


def capture(folder: Path, gaps_us: np.ndarray, size: int = 1500) -> Path:
    records = b"".join(
        struct.pack("=4I", *divmod(round(at_us * 1000), 10**9), 4, size) + b"abcd" for at_us in np.cumsum(gaps_us)
    )
    path = folder / "found"
    path.write_bytes(bytes(24) + records)
    return path


def test_gaps_of_a_capture_are_held_against_the_rate(tmp_path):
    even = np.full(1000, 120.0)  # 1500 bytes at 100 Mb/s
    assert bench.gaps_off(capture(tmp_path, even), 100.0).max() < 1e-5
    ten = np.full(1000, 10 * 1514 * 0.08)  # segments at a time, as offload makes them
    assert bench.gaps_off(capture(tmp_path, ten, 66 + 10 * 1448), 100.0).max() < 1e-5
    bursts = np.where(np.arange(1000) % 10 == 0, 1200.0, 0.0)
    off = bench.gaps_off(capture(tmp_path, bursts), 100.0)
    assert len(off) > 500 and off.min() > 0.9  # one of ten comes late, and all others at once
    assert len(bench.gaps_off(capture(tmp_path, 2 * even), 100.0)) == 0  # half of the rate is not busy
    assert len(bench.gaps_off(capture(tmp_path, even[:50]), 100.0)) == 0


@needs_virtual
def test_each_case_has_a_row_for_each_peer_and_ours_is_even(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    link = Link(50.0, 0.0, DropTail(packets=100))
    case = bench.Case("short", dumbbell(2, link, link), (("h1", "h3"), ("h2", "h4")), (("s1", "s2"),), 0.5, 0.5, 1.0)
    table = bench.compare([case])
    assert list(table.columns) == bench.COLUMNS and list(table["peer"]) == [bench.ROOTLESS, bench.MININET]
    assert (table["ours_within_1_percent"] >= 0.999).all() and (table["ours_mbps"].between(40, 50)).all()
    assert (table["ours_times_real_time"] > 0).all()
    rootless, mininet = table.set_index("peer").T[[bench.ROOTLESS, bench.MININET]].T.to_dict("records")
    assert np.isnan(mininet["peer_times_real_time"]) and mininet["remark"] == "mininet is not installed"
    if np.isnan(rootless["peer_times_real_time"]):
        assert rootless["remark"]
    else:
        assert rootless["ratio"] == pytest.approx(rootless["ours_times_real_time"] / rootless["peer_times_real_time"])
        assert 0 < rootless["peer_mbps"] < 50


def test_a_machine_without_a_tier_has_rows_that_say_why(monkeypatch):
    class Nothing:
        def __getitem__(self, tier):
            return type("Status", (), {"available": False, "why": f"no {tier} here"})

    monkeypatch.setattr(bench, "probe_tiers", Nothing)
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    table = bench.compare(bench.cases(1.0)[:1])
    assert table["ours_times_real_time"].isna().all() and table["ratio"].isna().all()
    assert table["remark"][0] == "ours: no virtual here; no rootless here"
