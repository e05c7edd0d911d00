"""A result depends on what made it, and on nothing else: the code behind a paper's numbers on a tier, as a hash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from netrepro.workbench import code
from netrepro.workbench.publishing.releasing import deciding_runs

MEASURING = """
from library import backends
def measure(study):
    return backends.run(study.experiment)
"""
BACKENDS = """
def run(experiment):
    from library.simulation.simulate import simulate
    from library.emulation.virtual import emulate
    return simulate() or emulate()
"""
RED = """
from library.study import Study, pictures
from library.queues import Queue
from library.words import title
from library.paths import data_dir

RATES = data_dir("red") / "rates.csv"

def experiment():
    return Queue(), RATES

def draw(runs):
    return pictures.bars(runs), title()

STUDY = Study(experiment=experiment, figures={"fig1": draw})
"""
FPERF = """
from library.applications.prove import prove
from library.proofs import LIMIT
from library.study import Study

STUDY = Study(measure_one=lambda: prove(LIMIT))
"""
PROVE = """
from pathlib import Path
from library._core import Circuit
GUEST = Path(__file__).with_name("guest.py")
SOLVER = Path(__file__).with_name("solver.c")

def prove(limit):
    return GUEST, SOLVER, Circuit()
"""
SOURCES = {
    "__init__.py": "",
    "paths.py": "def data_dir(slug): ...",
    "backends.py": BACKENDS,
    "simulation/__init__.py": "",
    "simulation/simulate.py": "from library import _core\ndef simulate():\n    return _core.Simulator()",
    "emulation/__init__.py": "",
    "emulation/virtual.py": "def emulate(): ...",
    "study/__init__.py": "from library.study.declaration import Study\nfrom library.study import pictures",
    "study/declaration.py": "class Study: ...",
    "study/measuring.py": MEASURING,
    "study/runs.py": "class Runs: ...",
    "study/pictures.py": "def bars(runs): ...",
    "queues.py": "class Queue:\n    def _repr_html_(self):\n        return 1\nclass Other: ...",
    "words.py": "def title(): ...",
    "proofs.py": "LIMIT = 1\nOTHER = 2",
    "papers/__init__.py": "",
    "papers/red.py": RED,
    "papers/fperf/__init__.py": "from library.papers.fperf.study import STUDY",
    "papers/fperf/study.py": FPERF,
    "papers/fperf/figures.py": "",
    "applications/__init__.py": "",
    "applications/prove.py": PROVE,
    "applications/guest.py": "from library.proofs import LIMIT, OTHER\nprint(OTHER)",
    "applications/solver.c": "int a;",
    "../core/bindings/module.cpp": "",
    "../core/bindings/simulation.cpp": '#include "queues/queue.hpp"\nclass_<Simulator>(module, "Simulator")',
    "../core/bindings/proofs.cpp": '#include "proofs/circuit.hpp"\nclass_<Circuit>(module, "Circuit")',
    "../core/queues/queue.hpp": "struct Queue {};",
    "../core/queues/queue.cpp": "int queue;",
    "../core/queues/queue_drops.cpp": "int drops;",
    "../core/proofs/circuit.hpp": "struct Circuit {};",
    "../kernel/patches/clock.patch": "",
}


@pytest.fixture(autouse=True)
def read_anew(workbench: Path):
    """In an empty workbench, so that notebooks and data are only those that a test writes."""
    code.forget()
    yield
    code.forget()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of two papers: red runs an experiment, fperf a program of its own."""
    package = tmp_path / "library"
    for name, text in SOURCES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def hashes(library: Path) -> list[str]:
    """List the hashes of red simulated, red virtual and fperf simulated."""
    code.forget()
    return [
        code.code_of(slug, tier, library)
        for slug, tier in (("red", "simulated"), ("red", "virtual"), ("fperf", "simulated"))
    ]


def changes(library: Path, edit: Callable[[], object]) -> str:
    """Say whose hashes an edit changes: r, v and f for red simulated, red virtual and fperf."""
    before = hashes(library)
    edit()
    return "".join(name for name, old, new in zip("rvf", before, hashes(library), strict=True) if old != new)


@pytest.mark.parametrize(
    ("changed", "old", "new", "whose"),
    [
        ("papers/red.py", "return Queue(), RATES", "return RATES, Queue()", "rv"),
        ("papers/red.py", "title()", "title().upper()", ""),  # in a function that draws
        ("papers/red.py", '"fig1"', '"fig2"', ""),
        ("papers/red.py", "STUDY = Study(", "STUDY = Study(repetitions=3, ", "rv"),
        ("queues.py", "class Queue:", "class Queue:\n    packets = 1", "rv"),
        ("queues.py", "class Other", "class Another", ""),  # which nobody names
        ("queues.py", "return 1", "return 2", ""),  # how a notebook shows it
        ("proofs.py", "LIMIT = 1", "LIMIT = 2", "f"),
        ("proofs.py", "OTHER = 2", "OTHER = 3", "f"),  # which a program beside names
        ("words.py", "...", "return 1", ""),
        ("study/pictures.py", "...", "return 1", ""),
        ("study/declaration.py", "...", "x = 1", "rvf"),
        ("study/measuring.py", "return", "assert study; return", "rvf"),
        ("applications/guest.py", "(OTHER)", "(LIMIT)", "f"),
        ("applications/solver.c", "a", "b", "f"),
        ("simulation/simulate.py", "Simulator()", "Simulator(1)", "r"),
        ("emulation/virtual.py", "...", "return 1", "v"),
        ("../core/queues/queue.hpp", "{}", "{ int a; }", "r"),
        ("../core/queues/queue.cpp", "queue", "queues", "r"),
        ("../core/queues/queue_drops.cpp", "drops", "drop", "r"),
        ("../core/proofs/circuit.hpp", "{}", "{ int a; }", "f"),
        ("../kernel/patches/clock.patch", "", "+time", "v"),
    ],
)
def test_only_what_made_a_result_changes_its_hash(library, changed, old, new, whose):
    path = library / changed
    text = path.read_text()
    assert old in text
    assert changes(library, lambda: path.write_text(text.replace(old, new) if old else new)) == whose


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ("queues.py", '"""Queues."""\n\n# of switches\n\n{}  # not yet\n'),
        ("papers/red.py", "{}\n\n# The end.\n"),
        ("../core/queues/queue.cpp", "// Of packets.\n\n{} /* of one\n switch */\n"),
        ("applications/solver.c", "{}  // not yet"),
    ],
)
def test_what_only_tells_changes_no_hash(library, changed, text):
    path = library / changed
    assert changes(library, lambda: path.write_text(text.format(path.read_text()))) == ""


def test_a_definition_that_moves_changes_no_hash(library):
    def move() -> None:
        (library / "switches.py").write_text((library / "queues.py").read_text())
        (library / "queues.py").write_text("from library.switches import Queue")

    assert changes(library, move) == ""


def test_a_name_that_comes_from_elsewhere_changes_the_hash(library):
    path = library / "papers/red.py"
    text = path.read_text()
    assert changes(library, lambda: path.write_text(text.replace("library.queues", "other"))) == "rv"


@pytest.mark.parametrize(
    ("changed", "text", "whose"),
    [
        ("data/red/rates.csv", "2", "rv"),
        ("data/red/drawn.csv", "2", ""),  # which no measurement names
        ("data/fperf/rates.csv", "2", ""),
        ("data/red/claims.yaml", "main", ""),  # judged anew each time
        ("notebooks/10_red.ipynb", ["rate: int = 2", "report.measure(red.STUDY, rate)"], "rv"),
        ("notebooks/10_red.ipynb", ["rate: int = 1  # of what", "report.measure(red.STUDY, rate)"], ""),
        ("notebooks/10_red.ipynb", ["rate: int = 1", "report.measure(red.STUDY, rate + 1)"], "rv"),
        ("notebooks/10_red.ipynb", ["rate: int = 1", "report.measure(red.STUDY, rate)\nreport.draw('x')"], ""),
    ],
)
def test_the_data_and_cells_that_a_measurement_reads_change_its_hash(library, workbench, changed, text, whose):
    for name in ("data/red/rates.csv", "data/red/drawn.csv", "data/red/claims.yaml", "data/fperf/rates.csv"):
        (workbench / name).parent.mkdir(parents=True, exist_ok=True)
        (workbench / name).write_text("1")
    write_notebook(workbench / "notebooks/10_red.ipynb", ["rate: int = 1", "report.measure(red.STUDY, rate)"])
    path = workbench / changed
    if isinstance(text, list):
        assert changes(library, lambda: write_notebook(path, text)) == whose
    else:
        assert changes(library, lambda: path.write_text(text)) == whose


def write_notebook(path: Path, cells: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    tags = [["parameters"], []]
    content = [
        {"cell_type": "code", "metadata": {"tags": tag}, "source": [cell]}
        for cell, tag in zip(cells, tags, strict=True)
    ]
    path.write_text(json.dumps({"cells": content}))


def test_a_paper_that_does_not_exist_has_no_hash(library):
    assert code.code_of("no_such_paper", "simulated", library) == ""


# The library's own papers.

DATA = Path(__file__).parents[3] / "data"


@pytest.fixture(scope="module")
def behind() -> dict[tuple[str, str], code.Code]:
    """The code behind every run that decides a claim."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETREPRO_ROOT", str(DATA.parent))
        code.forget()
        runs = {(run.slug, run.tier) for run in deciding_runs()}
        return {run: code.code_behind(*run) for run in sorted(runs)}


def with_module(behind, module: str) -> set[tuple[str, str]]:
    """Collect the (paper, tier) whose code has a definition of a module, or of one below it."""
    prefix = f"netrepro.{module}"
    return {
        run
        for run, own in behind.items()
        if any(some and name.startswith(prefix) for (name, _), some in own.needs.definitions.items())
    }


def with_folder(behind, folder: str) -> set[tuple[str, str]]:
    """Collect the (paper, tier) whose code has a file below a folder of core or kernel."""
    return {
        run
        for run, own in behind.items()
        if any(folder in path.as_posix() for paths in own.files.values() for path in paths)
    }


@pytest.mark.parametrize(
    "module", ["style", "study.pictures", "study.figures", "networks.html", "emulation.virtual.jupyter", "workbench"]
)
def test_what_draws_or_tells_is_behind_no_result(behind, module):
    assert with_module(behind, module) == set()


def test_parts_of_the_core_are_behind_the_papers_that_reach_them(behind):
    gmm = {("gmm_traffic", "simulated"), ("gmm_diagnosis", "simulated")}
    assert with_folder(behind, "core/mixtures/") == gmm
    assert with_folder(behind, "core/verification/") == {("fperf_leaf_spine", "simulated")}
    assert with_folder(behind, "core/dummynet/") == {("dummynet", "simulated")}
    on_tcp = with_folder(behind, "core/tcp/")
    assert {tier for _, tier in on_tcp} == {"simulated"}
    assert ("red", "simulated") in on_tcp and not gmm & on_tcp


def test_the_virtual_kernel_is_behind_the_results_of_its_tier_alone(behind):
    on_virtual = {run for run in behind if run[1] == "virtual"}
    assert with_folder(behind, "lib/kernel/") == with_module(behind, "emulation.virtual") == on_virtual
    assert len(on_virtual) > 3


def test_every_paper_has_a_hash_for_each_of_its_tiers(behind):
    assert {slug for slug, _ in behind} == {path.parent.name for path in DATA.glob("*/claims.yaml")}
    assert all(own is not None and own.needs.definitions for own in behind.values())
