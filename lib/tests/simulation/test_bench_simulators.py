"""The benchmark's peers of the simulator: what they refuse, what is said of those that are not there. No speeds."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from netrepro.errors import NetreproError
from netrepro.networks import DropTail, EcnThreshold, Experiment, Flow, Link, Measure, Tcp, dumbbell
from netrepro.simulation.ns3 import simulate_ns3

sys.path.append(str(Path(__file__).parents[2]))  # of the benchmarks
peers = importlib.import_module("benchmarks.simulators")
simulation = importlib.import_module("benchmarks.bench_simulation")


def test_a_peer_that_is_not_there_says_where_it_comes_from(monkeypatch, tmp_path):
    monkeypatch.delenv(peers.HTSIM_VARIABLE, raising=False)
    monkeypatch.setattr(peers, "build_ns3", lambda folder, from_pypi: None)
    found = peers.simulators(tmp_path)
    assert list(found) == list(peers.NAMES)
    for name, remedy in {**peers.NS3_REMEDIES, peers.HTSIM: peers.HTSIM_VARIABLE}.items():
        assert found[name].startswith("not installed (") and remedy in found[name]


def test_a_peer_has_a_row_a_benchmark_or_one_that_says_why_not():
    short = simulation.dumbbell_experiment(0.2)
    asked = []

    def peer(experiment):
        asked.append(experiment)
        return 50.0, 7.0

    rows = simulation.beside_simulators({"a": peer, "b": "not installed"}, {"x": (100.0, 8.0)}, lambda name: (short,))
    assert rows[0] == ("x", 100.0, "a", 50.0, 8.0, 7.0) and asked == [short]
    assert len(rows) == 2 and rows[1][2] == "b: not installed" and np.isnan(rows[1][1])


@pytest.mark.parametrize("library", [None, "", "int main() {}"])
def test_a_folder_without_htsim_is_told_without_its_path(library, monkeypatch, tmp_path):
    if library is not None:
        (tmp_path / "libhtsim.a").write_text(library)  # but no headers
    monkeypatch.setenv(peers.HTSIM_VARIABLE, str(tmp_path))
    with pytest.raises(NetreproError) as told:
        peers.build_htsim(tmp_path)
    assert ("no libhtsim.a" if library is None else "does not compile: eventlist.h") in told.value.problem
    assert str(tmp_path) not in str(told.value)


def small(**changes) -> Experiment:
    tcp = Tcp("reno", delayed_ack_ms=0)
    link = Link(100, 1, DropTail(packets=50))
    return replace(Experiment(dumbbell(1, link, link), (Flow("h1", "h2", duration_s=0.2),), 0.2, tcp=tcp), **changes)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"tcp": Tcp("cubic", delayed_ack_ms=0)}, "another control"),
        ({"tcp": Tcp("reno", delayed_ack_ms=40)}, "delayed acknowledgements"),
        ({"traffic": (Flow("h1", "h2", size_bytes=1000),)}, "flows of a size"),
        ({"traffic": (Flow("h1", "h2", duration_s=0.1),)}, "flows that end early"),
        ({"measure": Measure(queues=[("s1", "s2")])}, "measured queues"),
        *(
            ({"topology": dumbbell(1, Link(100, 1), link)}, what)
            for link, what in (
                (Link(100, 1, EcnThreshold(50, 20)), "another queue"),
                (Link(100, 1, loss=0.1), "loss"),
            )
        ),
    ],
)
def test_htsim_is_refused_what_its_program_does_not_do(changes, what):
    peers.check_for_htsim(small())
    peers.check_for_htsim(simulation.dumbbell_experiment(0.2))
    peers.check_for_htsim(simulation.fat_tree_experiment(4, 0.01))
    with pytest.raises(NetreproError, match=what):
        peers.check_for_htsim(small(**changes))


def test_htsim_fills_a_link_and_counts_every_transmission(tmp_path):
    try:
        program = peers.build_htsim(tmp_path)
    except NetreproError as error:
        pytest.skip(f"htsim is {error.problem}")
    found = simulate_ns3(small(), program)
    goodput = float(found.flows["delivered_bytes"].sum()) * 8 / 0.2 / 1e6
    assert 80 < goodput < 100 * 1448 / 1514
    # Each segment and its acknowledgement cross three links; what is on its way at the end has crossed fewer.
    assert found.packet_hops == pytest.approx(6 * found.flows["delivered_bytes"].sum() / 1448, rel=0.1)
