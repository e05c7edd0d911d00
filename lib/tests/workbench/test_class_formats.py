"""Class copies for nbgrader and Otter, which make the students' version of them and grade it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from netrepro.errors import NetreproError
from netrepro.workbench import write_class_copies
from netrepro.workbench.classroom.class_formats import FORMATS, filled_in, hidden_test
from netrepro.workbench.classroom.exercises import exercises

TOLD = {"answer_1": "2 * load", "answer_2": "[load]", "answer_4": "load / 2"}  # the second is wrong


def answered(released: Path, target: Path, placeholder: str) -> None:
    """Write a released notebook as a student hands it in."""
    notebook = nbformat.read(released, as_version=4)
    for cell in notebook.cells:
        number = cell.metadata.get("netrepro", {}).get("exercise")
        if placeholder in cell.source and "answer" in cell.metadata.get("tags", []):
            cell.source = f"answer_{number} = {TOLD.get(f'answer_{number}', repr('so'))}"
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)


def test_a_solution_ends_in_the_answer_and_its_test_holds_it(lesson):
    first, second, third, _ = exercises(["echo"])
    names = {"load": 0.5}
    exec(filled_in(second), names)
    assert names["answer_2"] == [0.5, 1.5] and names["double"] == 1.0
    assert filled_in(third) == "answer_3 = ('because')"
    assert "answer_1)\nassert checked.right is True, checked.text" in hidden_test(first)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_a_notebook_of_all_exercises(lesson, tmp_path, form):
    (copy,) = write_class_copies(tmp_path / form, ["echo"], form)
    notebook = nbformat.read(copy, as_version=4)
    nbformat.validate(notebook)
    work = [cell for cell in notebook.cells if "answer" in cell.metadata.get("tags", [])]
    assert [cell.metadata["netrepro"]["exercise"] for cell in work] == [1, 2, 3, 4]
    assert ("double" in copy.read_text().replace("the load, doubled", "")) == (form != "netrepro")


def test_an_unknown_format_is_named_before_anything_is_written(lesson, tmp_path):
    with pytest.raises(NetreproError, match=r"no format 'nbgarder'\n.*nbgrader"):
        write_class_copies(tmp_path / "class", ["echo"], "nbgarder")
    assert not (tmp_path / "class").exists()


def test_nbgrader_makes_the_students_version_and_grades_it(lesson, tmp_path, monkeypatch):
    pytest.importorskip("nbgrader", reason="nbgrader is not installed")
    from nbgrader.apps import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # it calls alembic
    course = tmp_path / "course"
    write_class_copies(course / "source" / "week1", ["echo"], "nbgrader")
    config = Config()
    config.CourseDirectory.root, config.CourseDirectory.course_id = str(course), "networks"
    config.CourseDirectory.db_url = f"sqlite:///{tmp_path}/grades.db"
    api = NbGraderAPI(CourseDirectory(config=config), config=config)

    assert api.generate_assignment("week1")["success"]
    released = course / "release" / "week1" / "10_echo.ipynb"
    text = released.read_text()
    assert "HIDDEN" not in text and "double" not in text.replace("the load, doubled", "")
    answered(released, course / "submitted" / "ann" / "week1" / "10_echo.ipynb", "YOUR CODE HERE")

    result = api.autograde("week1", "ann")
    assert result["success"], result["log"]
    (graded,) = api.gradebook.assignment_submissions("week1")
    grades = {
        grade.cell.name: (grade.auto_score, grade.max_score) for book in graded.notebooks for grade in book.grades
    }
    assert grades["test-1"] == grades["test-4"] == (1, 1)
    assert grades["test-2"] == (0, 1)
    assert grades["exercise-3"] == (None, 1)  # a person gives it


def test_otter_makes_the_students_version_and_its_tests(lesson, tmp_path):
    if find_spec("otter") is None:
        pytest.skip("otter-grader is not installed")
    (copy,) = write_class_copies(tmp_path / "class", ["echo"], "otter")
    subprocess.run(
        [sys.executable, "-m", "otter", "assign", str(copy), str(tmp_path / "dist"), "--no-run-tests"], check=True
    )
    released = nbformat.read(tmp_path / "dist" / "student" / "10_echo.ipynb", as_version=4)
    work = [cell.source for cell in released.cells if cell.source.startswith("# Exercise")]
    assert work[0] == "# Exercise 1. What to give: the load, doubled (within 5 %).\nanswer_1 = ..."
    assert len(work) == 4 and not any(
        "double =" in cell.source or "check_answer" in cell.source for cell in released.cells
    )
    tests = nbformat.read(tmp_path / "dist" / "autograder" / "10_echo.ipynb", as_version=4).metadata["otter"]["tests"]
    assert sorted(tests) == ["exercise_1", "exercise_2", "exercise_4"]
    assert all("check_answer" in str(test["suites"]) and test["points"] == 1 for test in tests.values())
