"""`netrepro check`: what it finds in a paper that is being written, and that it finds nothing in one in order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netrepro import papers
from netrepro.errors import NetreproError
from netrepro.workbench.catalogue import checking
from netrepro.workbench.catalogue.checking import check_paper
from netrepro.workbench.catalogue.skeleton import new_paper

LIBRARY = Path(__file__).parents[2]


@pytest.fixture
def paper(workbench, monkeypatch) -> dict[str, Path]:
    """The files of a new paper in a workbench of its own, by name; its text says nothing any more to replace."""
    shutil.copy(LIBRARY.parent / "notebooks/_template.ipynb", workbench / "notebooks")
    files = {path.name: path for path in new_paper("checked_paper")}
    for path in files.values():
        path.write_text(path.read_text().replace("TO REPLACE: ", ""))
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(workbench / "lib/netrepro/papers")])
    sys.modules.pop("netrepro.papers.checked_paper", None)  # another test's
    shutil.copy(LIBRARY / "pyproject.toml", workbench / "lib")
    return files


@pytest.fixture
def without_style(monkeypatch) -> None:
    """Leave out ruff and mypy, which take seconds."""
    monkeypatch.setattr(checking, "_style", lambda slug: iter(()))


def problems() -> dict[str, list[str]]:
    sys.modules.pop("netrepro.papers.checked_paper", None)
    return {each.name: each.problems for each in check_paper("checked_paper")}


def test_a_new_paper_lacks_nothing_but_its_own_words(paper, without_style):
    assert [name for name, said in problems().items() if said] == []


def test_what_is_still_to_replace_is_counted(paper, without_style):
    claims = paper["claims.yaml"]
    claims.write_text(claims.read_text().replace("beside a CUBIC", "TO REPLACE: beside a CUBIC", 1))
    paper["SOURCES.md"].write_text("# Sources\n")
    said = problems()["claims.yaml and SOURCES.md"]
    assert len(said) == 2 and "no section Artefacts" in said[0] and "claims.yaml has 1 times" in said[1]


IDLE = '    idle: float = parameter(1.0, "nothing", low=0)\n    delay_ms: float'
# What is written instead of what, the check that finds it, and what it says.
MISTAKES = [
    ('"bbr-takes-more": Ev', '"bbr-tekes-more": Ev', "claims are", "did you mean 'bbr-takes-more"),
    ('cases={"bbr": {}', 'cases={"brr": {}', "Study", "did you mean 'brr'"),
    ("high=10_000)", "high=500)", "settings", "make strip"),
    (
        "    bottleneck_mbps: float",
        "    link_mbps: float",
        "settings",
        "has bottleneck_mbps, which the Setting has not",
    ),
    ("    delay_ms: float", IDLE, "read", "nothing reads idle"),
    ('"""Draw the idea', '"""The idea', "docstrings", "draw_idea: The"),
    ('{"share": share}', '{"share": share / 0}', "case", "ZeroDivisionError: float division by zero (checked_paper.py"),
    ("at_most=1.0", "at_most=0.1", "own checks", "payload of the link at most: 0."),
    ('runs.knobs["knob"], x', 'runs.knobs["nob"], x', "figure", "knob: KeyError: 'nob' (checked_paper.py, line"),
    ('Evidence("share", (', 'Evidence("shar", (', "reading", "shar"),
]


@pytest.mark.parametrize(("right", "wrong", "check", "words"), MISTAKES)
def test_a_mistake_is_found_by_its_check_and_named(paper, without_style, right, wrong, check, words):
    module = paper["checked_paper.py"]
    assert right in module.read_text()
    module.write_text(module.read_text().replace(right, wrong, 1))
    said = {name: lines for name, lines in problems().items() if lines}
    (name,) = [name for name in said if check in name]
    assert any(words in line for line in said[name]), said


ITS_OWN_WAY = """
def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    \"\"\"Measure one run.\"\"\"
    return read(run_experiment(experiment(setting, seconds, seed), tier), setting)
"""


def test_a_networks_own_check_that_a_reading_leaves_out_is_missed(paper, without_style):
    module = paper["checked_paper.py"]
    text = module.read_text().replace("STUDY = Study(", f"{ITS_OWN_WAY}\n\nSTUDY = Study(")
    text = text.replace("    experiment=experiment,\n    read=read,\n", "    measure_one=measure_one,\n")
    module.write_text(text.replace("import Check, ", "import run_experiment, Check, "))
    said = problems()["the runs' own checks hold"]
    assert said == [
        "the network's own check, 'packets unaccounted for', is lost: give Reading(..., fidelity=run.fidelity)"
    ]
    module.write_text(
        module.read_text()
        .replace("return read(run_ex", "run = run_ex")
        .replace(
            "seed), tier), setting)", "seed), tier)\n    return replace(read(run, setting), fidelity=run.fidelity)"
        )
        .replace("import dataclass\n", "import dataclass, replace\n")
    )
    assert problems()["the runs' own checks hold"] == []


def test_outputs_of_a_notebook_are_found(paper, without_style):
    path = paper["70_checked_paper.ipynb"]
    notebook = json.loads(path.read_text())
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["1"]}]
    path.write_text(json.dumps(notebook))
    assert any("make strip" in line for line in problems()["the notebook's settings are the Setting's"])


def test_ruff_and_mypy_are_asked(paper):
    module = paper["checked_paper.py"]
    module.write_text(module.read_text() + "\nimport os\nwrong: int = 'text'\n")
    (said,) = [each.problems for each in check_paper("checked_paper") if "style" in each.name]
    text = "\n".join(said)
    assert "F401" in text and "reformatted" in text
    assert "Incompatible types" in text or "mypy" in text


def test_a_paper_of_the_house_passes_on_the_command_line():
    words = [sys.executable, "-m", "netrepro.workbench.cli.commands", "check", "red", "--json"]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "NETREPRO_ROOT": str(LIBRARY.parent)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not any(json.loads(done.stdout)["red"].values()) and len(json.loads(done.stdout)["red"]) == 11


def test_a_paper_may_be_named_by_its_notebook(paper, without_style):
    assert not any(each.problems for each in check_paper("70_checked_paper.ipynb"))


def test_a_paper_that_is_not_there_is_refused_by_the_nearest_name(workbench, echo_paper):
    with pytest.raises(NetreproError, match="echo"):
        check_paper("ech")
