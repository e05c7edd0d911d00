"""`netrepro new`: what it writes runs as it is, its one claim agrees and counts, and nothing is overwritten."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import pytest

from netrepro import papers
from netrepro.claims import judge, load_claims, read_results
from netrepro.errors import NetreproError
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.catalogue.settings_cells import declared_parameters, write_parameters
from netrepro.workbench.catalogue.skeleton import new_paper
from netrepro.workbench.notebook.report import open_report
from netrepro.workbench.running.runner import run

TEMPLATE = Path(__file__).parents[3] / "notebooks/_template.ipynb"


@pytest.fixture
def made(workbench, tmp_path, monkeypatch) -> list[Path]:
    """A new paper in a workbench of its own, whose folder of papers every Python here looks into."""
    shutil.copy(TEMPLATE, workbench / "notebooks")
    files = new_paper("red_queue")
    folder = workbench / "lib/netrepro/papers"
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(folder)])
    sys.modules.pop("netrepro.papers.red_queue", None)  # another test's
    start = workbench / "start"
    start.mkdir()
    lines = f"import netrepro.papers\nnetrepro.papers.__path__.append({str(folder)!r})\n"
    (start / "sitecustomize.py").write_text(lines)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(start), os.environ.get("PYTHONPATH", "")]))
    return files


def test_its_files_stand_where_a_papers_files_stand(made, workbench):
    assert [str(path.relative_to(workbench)) for path in made] == [
        "data/red_queue/claims.yaml",
        "data/red_queue/SOURCES.md",
        "lib/netrepro/papers/red_queue.py",
        "lib/tests/papers/test_red_queue.py",
        "notebooks/70_red_queue.ipynb",
    ]
    notebook = find("red_queue")
    assert notebook.problem == "" and notebook.title == "What does red_queue ask?"
    nbformat.validate(nbformat.read(made[-1], as_version=4))
    assert not [path for path in made if "PAPER_SLUG" in path.read_text()]


def test_its_notebooks_parameters_are_those_of_its_setting(made):
    before = made[-1].read_text()
    assert declared_parameters("red_queue", []) and write_parameters() == [] and made[-1].read_text() == before


def test_a_range_that_changes_in_its_module_is_written_into_its_notebook(made):
    (module,) = (path for path in made if path.match("papers/red_queue.py") and "tests" not in path.parts)
    module.write_text(module.read_text().replace("low=0.1, high=10_000", "low=0.1, high=500"))
    assert write_parameters() == ["70_red_queue"]
    assert find("red_queue").parameters["bottleneck_mbps"].help.endswith("[0.1 to 500]")


def test_a_parameter_that_its_setting_has_no_more_is_refused_until_its_line_is_removed(made):
    notebook = made[-1]
    old = "bottleneck_mbps: float = 10.0  # rate of the bottleneck (Mb/s) [0.1 to 10000]"
    notebook.write_text(
        notebook.read_text().replace(f'"{old}"', f'"{old}\\n", "bottleneck_mps: float = 1.0  # of old"')
    )
    assert "bottleneck_mps" in find("red_queue").parameters
    with pytest.raises(NetreproError, match=r"'bottleneck_mps', and the Setting has none\n.*'bottleneck_mbps'.*strip"):
        run(["red_queue"], parameters={"bottleneck_mps": 5})
    study = import_module("netrepro.papers.red_queue").STUDY
    given = {name: each.default for name, each in find("red_queue").parameters.items()}
    with pytest.raises(NetreproError, match="bottleneck_mps"):
        open_report(study, given)
    assert write_parameters() == ["70_red_queue"]
    assert "bottleneck_mps" not in find("red_queue").parameters and "bottleneck_mbps" in find("red_queue").parameters


def test_its_notebook_runs_its_claim_agrees_and_its_control_does_not(made):
    report = run(["red_queue"])
    assert report.ok, report.statuses[0].explanation()
    folder = report.statuses[0].folder
    (result,) = read_results(folder / "results.json").runs.values()
    (claim,) = load_claims("red_queue").claims
    judgement = judge(claim, result.measurement(claim.id), result.tier)
    assert (judgement.verdict, judgement.counts) == ("agrees", True), judgement
    assert {path.name for path in folder.glob("*.png")} == {"fig1.png", "control.png", "knob.png"}


def test_its_own_test_passes_and_its_module_keeps_the_houses_style(made, workbench):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(made[3])]
    said = subprocess.run(command, cwd=workbench, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout
    config = TEMPLATE.parents[1] / "lib/pyproject.toml"
    for words in (["check", "--ignore", "I001"], ["format", "--check"]):
        command = [
            sys.executable,
            "-m",
            "ruff",
            *words,
            "--no-cache",
            "--config",
            str(config),
            str(made[2]),
            str(made[3]),
        ]
        said = subprocess.run(command, capture_output=True, text=True)
        assert said.returncode == 0, said.stdout
    assert import_module("netrepro.papers.red_queue").STUDY.slug == "red_queue"


@pytest.mark.parametrize("slug", ["Red", "9red", "red-queue", "", "../red", "r", "class", "lambda"])
def test_what_cannot_be_a_slug_is_refused(workbench, slug):
    with pytest.raises(NetreproError, match="cannot be a slug"):
        new_paper(slug)
    assert list((workbench / "data").iterdir()) == []


def test_nothing_is_overwritten_and_a_number_is_given_once(made, workbench):
    made[2].write_text("my work")
    made[-1].unlink()
    with pytest.raises(NetreproError, match="red_queue is there already"):
        new_paper("red_queue")
    assert made[2].read_text() == "my work" and not made[-1].exists()
    new_paper("blue_queue", 71)
    for number in (71, 100, -1):
        with pytest.raises(NetreproError, match=r"cannot have the number.*\n  it has two digits"):
            new_paper("green_queue", number)
    assert new_paper("green_queue")[-1].name == "70_green_queue.ipynb"


@pytest.mark.parametrize("place", ["data/red_queue", "lib/netrepro/papers/red_queue"])
def test_a_folder_that_is_there_is_somebody_elses(workbench, place):
    shutil.copy(TEMPLATE, workbench / "notebooks")
    (workbench / place).mkdir(parents=True)
    with pytest.raises(NetreproError, match=f"red_queue is there already: {place}"):
        new_paper("red_queue")


def test_where_one_file_cannot_be_written_none_is_left(workbench):
    shutil.copy(TEMPLATE, workbench / "notebooks")
    (workbench / "lib").write_text("a file in the way")
    with pytest.raises(NetreproError, match="cannot write"):
        new_paper("red_queue")
    assert list((workbench / "data").iterdir()) == []
