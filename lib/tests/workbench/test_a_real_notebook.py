"""A paper's own notebook, as a class and a cluster have it: handed in, graded, sent to workers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from dask.distributed import LocalCluster

from netrepro.claims import read_results
from netrepro.workbench import grade, run, write_class_copies
from netrepro.workbench.classroom.class_formats import filled_in
from netrepro.workbench.classroom.exercises import exercises
from netrepro.workbench.running.sandbox import why_not

pytestmark = pytest.mark.skipif("NETREPRO_WHOLE" not in os.environ, reason="only in make test-all")
REPOSITORY = Path(__file__).parents[3]
SLUG, NAME = "dctcp", "14_dctcp"


@pytest.fixture
def paper(workbench: Path) -> Path:
    """The notebook of DCTCP and its claims, in a workbench of their own."""
    shutil.copytree(REPOSITORY / "data" / SLUG, workbench / "data" / SLUG)
    return Path(shutil.copy(REPOSITORY / "notebooks" / f"{NAME}.ipynb", workbench / "notebooks"))


@pytest.fixture
def hand_in(paper: Path) -> Callable[[Path, Path, bool], None]:
    """Write a class copy as a student hands it in: with the solutions' answers, or with ones that are wrong."""
    answers = {each.number: filled_in(each) for each in exercises([SLUG]) if each.answer}
    assert answers

    def write(given: Path, target: Path, is_right: bool) -> None:
        notebook = nbformat.read(given, as_version=4)
        for cell in notebook.cells:
            number = cell.metadata.get("netrepro", {}).get("exercise")
            if number in answers and "answer" in cell.metadata.get("tags", []):
                cell.source = answers[number] if is_right else f"answer_{number} = -1"
        target.parent.mkdir(parents=True)
        nbformat.write(notebook, target)

    return write


def test_nbgrader_grades_it(hand_in, tmp_path, monkeypatch):
    pytest.importorskip("nbgrader", reason="nbgrader is not installed")
    from nbgrader.apps import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # it calls alembic
    course = tmp_path / "course"
    (copy,) = write_class_copies(course / "source" / "week1", [SLUG], "nbgrader")
    assert "BEGIN HIDDEN TESTS" in copy.read_text()
    config = Config()
    config.CourseDirectory.root, config.CourseDirectory.course_id = str(course), "networks"
    config.CourseDirectory.db_url = f"sqlite:///{tmp_path}/grades.db"
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    assert api.generate_assignment("week1")["success"]
    scores = {}
    for student, is_right in (("ann", True), ("ben", False)):
        released = course / "release" / "week1" / f"{NAME}.ipynb"
        hand_in(released, course / "submitted" / student / "week1" / f"{NAME}.ipynb", is_right)
        result = api.autograde("week1", student)
        assert result["success"], result["log"]
        submission = api.gradebook.find_submission("week1", student)
        scores[student] = {
            grade.cell.name: (grade.auto_score, grade.max_score)
            for book in submission.notebooks
            for grade in book.grades
            if grade.cell.name.startswith("test-")
        }
    assert scores["ann"].keys() == scores["ben"].keys() != set()
    assert all(score == most > 0 for score, most in scores["ann"].values())
    assert all(score == 0 for score, _ in scores["ben"].values())


def test_our_own_grading_grades_it_in_its_sandbox(hand_in, tmp_path):
    if reason := why_not():
        pytest.skip(f"needs user namespaces: {reason}")
    (copy,) = write_class_copies(tmp_path / "copies", [SLUG])
    for student, is_right in (("ann", True), ("ben", False)):
        hand_in(copy, tmp_path / "class" / student / f"{NAME}.ipynb", is_right)
    table = grade(tmp_path / "class")
    results = dict(table.groupby(table.file.str.split("/").str[0]).result.agg(set))
    assert results == {"ann": {"right"}, "ben": {"wrong"}}, table.to_string()


def test_workers_without_a_shared_folder_send_its_run_back(paper, workbench, tmp_path):
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=":0",
        local_directory=str(tmp_path / "workers"),
    ) as cluster:
        report = run([SLUG], scheduler=cluster.scheduler_address)
    (status,) = report.statuses
    assert status.ok, status.explanation()
    folder = workbench / "runs" / "quick" / NAME
    assert status.folder == folder
    results = read_results(folder / "results.json").runs["quick/simulated"]
    assert results.measured and not results.changed
    assert {"executed.ipynb", "manifest.json", "fig6ab_queue_over_time.png"} <= {path.name for path in folder.iterdir()}
    assert list((folder / "tables").iterdir())
