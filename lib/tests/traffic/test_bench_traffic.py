"""The benchmark of traffic: what it counts, and what it says of meters that are not there. No speeds."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "bench_traffic.py"
spec = importlib.util.spec_from_file_location("bench_traffic", PATH)
assert spec and spec.loader
bench = sys.modules["bench_traffic"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)

SPIN = "import time\nwhile time.process_time() < 0.3: pass"


def test_processor_time_is_that_of_children_too():
    before = time.process_time()
    spin = SPIN + "\nprint('done')"
    wall, seconds, printed = bench.seconds_and_processor_seconds_of(lambda: bench.called(sys.executable, "-c", spin))
    assert printed == "done\n"
    assert wall >= 0.3 and seconds >= 0.3 > time.process_time() - before


def test_every_meter_that_is_there_finds_the_same_flows(tmp_path):
    connections = bench.write_header_only_capture(capture := tmp_path / "capture.pcap", 2000)
    found = {
        one.name: bench.measure_meter(replace(one, packets=2000), capture)[2:] for one in bench.METERS if one.is_there
    }
    assert found["netrepro meter"] == found["netrepro meter, cores=2"] == (connections, 73)
    # Some cut a connection in two where it is silent, and nfpcapd counts each way.
    for name, (flows, columns) in found.items():
        assert flows / (2 if name.startswith("nfpcapd") else 1) == pytest.approx(connections, rel=0.1), name
        assert columns >= 5, name


def test_a_meter_whose_flows_nothing_here_can_read_is_not_there(tmp_path, monkeypatch):
    meters = [one for one in bench.METERS if len(one.programs) > 1]
    assert {one.programs for one in meters} >= {("argus", "ra"), ("nfpcapd", "nfdump")}
    for one in meters:
        for name in one.programs:
            (tmp_path / name).write_text("")
            (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for one in meters:
        assert one.is_there
        for name in one.programs:
            (tmp_path / name).rename(tmp_path / "away")
            assert not one.is_there, name
            (tmp_path / "away").rename(tmp_path / name)


def test_a_meter_that_is_not_there_says_where_it_comes_from(monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(bench, "find_spec", lambda module: module == "netrepro")
    monkeypatch.setattr(bench, "LARGE", 2000)
    monkeypatch.setattr(bench, "MIDDLE", 1000)
    monkeypatch.setattr(bench, "SMALL", 500)
    ours, others = bench.METERS[:2], bench.METERS[2:]
    monkeypatch.setattr(bench, "METERS", (*(replace(each, packets=2000) for each in ours), *others))
    table = bench.compare_meters()
    assert table["packets"].count() == 2
    assert list(table.index[2:]) == [f"{one.name} is not installed ({one.remedy})" for one in others]
