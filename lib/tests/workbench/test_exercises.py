"""Exercises: copies for a class hold no solution, an answer is checked against the same run, hand-ins are graded."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

from netrepro.errors import NetreproError
from netrepro.workbench import check_answer, grade, write_class_copies
from netrepro.workbench.exercises import CHECK, FOLDED, difference, exercises, solution_of

SECRET = "double = 2 * load\ndouble, [load, load + 1]"


@pytest.fixture
def lesson(echo_paper) -> Path:
    """The paper `echo` with four exercises, of which the third is read by a person."""
    notebook = nbformat.read(echo_paper, as_version=4)
    text = f"## 12 Try next\n\n1. Twice the load?\n2. Its neighbours?\n3. Why?\n4. Half of it?\n\n{FOLDED}"
    notebook.cells.append(nbformat.v4.new_markdown_cell(text))
    both = {"exercise": [1, 2], "answer": ["the load, doubled", "the load and one more"], "within": [0.05, 0]}
    half = {"exercise": 4, "answer": "half of the load", "within": 0.01}
    for source, said in ((SECRET, both), ("'because'", {"exercise": 3}), ("load / 2", half)):
        cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["solution"], "netrepro": said})
        notebook.cells.append(cell)
    nbformat.write(notebook, echo_paper)
    return echo_paper


@pytest.fixture
def hand_in(lesson, tmp_path) -> Callable[..., Path]:
    """Write a class copy as a student hands it in, with answers in the place of the dots."""

    def write(name: str, **answers: str) -> Path:
        (copy,) = write_class_copies(tmp_path / "copies" / name, ["echo"])
        notebook = nbformat.read(copy, as_version=4)
        for cell in notebook.cells:
            for answer, code in answers.items():
                cell.source = cell.source.replace(f"{answer} = ...", code)
        target = tmp_path / "class" / f"{name}.ipynb"
        target.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, target)
        return target

    return write


@pytest.mark.parametrize(
    ("given", "expected", "within", "is_right"),
    [
        (10.4, 10, 0.05, True),
        (10.6, 10, 0.05, False),
        (-10.4, -10, 0.05, True),
        (10.001, 10, 0, False),
        (np.float64(0.1) + 0.2, 0.3, 0, True),  # the last bit of a float is no answer
        ("10", 10, 0, True),
        (0.001, 0, 0.05, False),
        (math.inf, math.inf, 0, True),
        (math.nan, math.nan, 0, True),
        (3.0, math.nan, 0.5, False),
        (" SAT", "sat", 0, True),
        ("unsat", "sat", 0, False),
        (True, np.bool_(True), 0, True),
        ([2, 1], (1, 2), 0, True),
        ([1, 2, 2], [1, 2], 0, False),
        (pd.Series([1.0, 2.0], ["a", "b"]), {"b": 2, "a": 1}, 0, True),
        (pd.DataFrame({"x": [1, 2], "name": ["a", "b"]}), [["b", 2], ["a", 1]], 0, True),
        (pd.DataFrame({"x": [1, 3], "name": ["a", "b"]}), [["b", 2], ["a", 1]], 0, False),
    ],
)
def test_an_answer_is_right_when_its_numbers_and_words_are(given, expected, within, is_right):
    assert (difference(given, expected, within) == "") is is_right


def test_a_hint_tells_how_many_but_not_which():
    assert difference([1], [471, 472], 0) == "2 numbers would be right, 1 numbers were given"
    assert difference([471, 9], [471, 472], 0) == "not all of them are right"
    assert difference(1, 471, 0) == "it is another"
    with pytest.raises(NetreproError, match="cannot be a object"):
        difference(object(), 1, 0)


def test_a_notebook_says_what_its_exercises_ask(lesson):
    first, second, third, fourth = exercises(["echo"])
    assert (first.place, second.place, fourth.place) == (0, 1, None)
    assert (first.how_close, second.how_close, third.answer) == ("within 5 %", "exactly", "")
    assert solution_of(second, {"load": 0.5}) == [0.5, 1.5]


@pytest.mark.parametrize("said", [{}, {"exercise": 9}, {"exercise": [1, 2], "answer": ["one"]}])
def test_a_solution_that_says_not_what_it_solves_is_refused(lesson, said):
    notebook = nbformat.read(lesson, as_version=4)
    notebook.cells[-1].metadata["netrepro"] = said
    nbformat.write(notebook, lesson)
    with pytest.raises(NetreproError, match="does not say which exercise it solves"):
        exercises(["echo"])


def test_a_class_copy_holds_no_solution_and_says_what_to_give(lesson, tmp_path):
    (copy,) = write_class_copies(tmp_path / "class")
    notebook = nbformat.read(copy, as_version=4)
    nbformat.validate(notebook)
    text = copy.read_text()
    assert "double" not in text.replace("the load, doubled", "") and "because" not in text and FOLDED not in text
    sources = [cell.source for cell in notebook.cells]
    assert "# Exercise 1. What to give: the load, doubled (within 5 %).\nanswer_1 = ..." in sources
    assert sum(CHECK in cell.metadata.get("tags", []) for cell in notebook.cells) == 3  # a person reads the third
    with pytest.raises(NetreproError, match="a student may have worked there"):
        write_class_copies(tmp_path / "class")


def test_a_check_compares_with_what_the_same_run_gives(lesson):
    names = {"load": 0.3}
    assert check_answer("echo", 1, 0.6, names).right and not check_answer("echo", 1, 1.0, names).right
    assert check_answer("echo", 1, ..., names).right is None and names == {"load": 0.3}
    assert "0.6" not in check_answer("echo", 1, 1.0, names)._repr_html_()
    with pytest.raises(NetreproError, match=r"NameError.*\n.*run all cells above"):
        check_answer("echo", 1, 0.6, {})
    with pytest.raises(NetreproError, match=r"is read by a person\n  checked are: 1, 2, 4"):
        check_answer("echo", 3, 0.6, names)
    with pytest.raises(NetreproError, match="is not in 10_echo"):
        check_answer("echo", 7, 0.6, names)


def test_hand_ins_are_graded_by_executing_them(hand_in, tmp_path, workbench):
    hand_in("good", answer_1="answer_1 = load + load", answer_2="answer_2 = [load, 1.5]", answer_4="answer_4 = 0.25")
    hand_in("mixed", answer_1="answer_1 = 5", answer_2="answer_2 = no_such_name\nanswer_2 = 1")
    # Names that solutions stand on may be overwritten, a check removed, and another load chosen.
    bold = hand_in("bold", answer_1="%matplotlib inline\nload = 7\nanswer_1 = 14", answer_4="answer_4 = object()")
    stopped = hand_in("stopped")
    stopped.write_text(stopped.read_text().replace("answer_slot(", "no_such_function("))
    (tmp_path / "class" / "broken.ipynb").write_text("{")
    written = bold.read_bytes()
    table = grade(tmp_path / "class", jobs=2)
    found = {(row.file.split(".")[0], row.exercise): row.result for row in table.itertuples()}
    assert [found["good", number] for number in (1, 2, 4)] == ["right", "right", "right"]
    assert [found["mixed", number] for number in (1, 2, 4)] == ["wrong", "error", "missing"]
    assert [found[bold.stem, number] for number in (1, 2, 4)] == ["wrong", "missing", "error"]
    assert {found["stopped", number] for number in (1, 2, 4)} == {"error"} and found["broken", ""] == "error"
    whys = {(row.file.split(".")[0], row.exercise): row.why for row in table.itertuples()}
    assert "no_such_name" in whys["mixed", 2] and "no_such_function" in whys["stopped", 1]
    saved = pd.read_csv(tmp_path / "class" / "grades.csv")
    assert list(saved.result) == list(table.result)
    assert not list((workbench / "runs").glob("quick*")) and bold.read_bytes() == written


def test_a_class_with_broken_files_is_graded_and_nobody_is_lost(hand_in, tmp_path, workbench):
    for number in range(3):
        hand_in(
            f"good{number}",
            answer_1="answer_1 = 2 * load",
            answer_2="answer_2 = [load, 1.5]",
            answer_4="answer_4 = 0.25",
        )
    crashed = hand_in(
        "crashed", answer_1="answer_1 = 1.0", answer_2="import os\nos._exit(1)", answer_4="answer_4 = 0.25"
    )
    raises = hand_in("raises", answer_1="raise ValueError('no idea')")
    incomplete = nbformat.read(hand_in("incomplete", answer_1="answer_1 = 1.0"), as_version=4)
    incomplete.cells = [cell for cell in incomplete.cells if "answer_4" not in cell.source]
    nbformat.write(incomplete, tmp_path / "class" / "incomplete.ipynb")
    for name, text in {
        "half": '{"cells": [',
        "list": "[1, 2]",
        "empty": "",
        "cells": '{"metadata": {"netrepro": 3}}',
    }.items():
        (tmp_path / "class" / f"{name}.ipynb").write_text(text)
    (tmp_path / "class" / "binary.ipynb").write_bytes(b"\xff\xfe\x00")
    named = set()
    table = grade(tmp_path / "class", jobs=2, on_event=lambda event: named.add(event.name))
    assert {"good0.ipynb", "crashed.ipynb"} <= named <= {path.name for path in (tmp_path / "class").glob("*.ipynb")}
    students = pd.read_csv(tmp_path / "class" / "students.csv").set_index("student")
    assert set(students.index) == {path.stem for path in (tmp_path / "class").glob("*.ipynb")}
    assert (
        students.loc["good0":"good2", ["right", "wrong", "missing", "error"]].to_numpy().tolist() == [[3, 0, 0, 0]] * 3
    )
    assert students.loc[crashed.stem, ["right", "error"]].tolist() == [1, 2]  # what was answered before counts
    (why,) = table.why[(table.file == crashed.name) & table.why.str.startswith("it did not end")]
    assert "kernel died" in why
    assert students.loc[raises.stem, ["error", "missing"]].tolist() == [1, 2]
    assert students.loc["incomplete", ["right", "missing"]].tolist() == [1, 2]
    assert (students.loc[["half", "list", "empty", "cells", "binary"], "error"] == 1).all()
    assert students[["right", "wrong", "missing", "error"]].to_numpy().sum() == len(table)


def test_an_interrupted_grading_leaves_the_tables_as_they_were(hand_in, tmp_path):
    hand_in("endless", answer_1="while True:\n    pass")
    tables = [tmp_path / "class" / name for name in ("grades.csv", "students.csv")]
    for path in tables:
        path.write_text("before")
    with pytest.raises(NetreproError, match="interrupted after 0 of 1 files"):
        grade(
            tmp_path / "class",
            on_event=lambda event: os.kill(os.getpid(), signal.SIGINT) if event.kind == "started" else None,
        )
    assert [path.read_text() for path in tables] == ["before", "before"]


def test_the_command_lists_writes_and_refuses(lesson, tmp_path):
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        called = [sys.executable, "-m", "netrepro.workbench.cli", "exercises", *words]
        return subprocess.run(called, capture_output=True, text=True, check=False)

    said = command().stdout
    assert "2. Its neighbours? [checked: the load and one more, exactly]" in said and "[read by a person]" in said
    assert "1 notebooks without solutions" in command("--into", str(tmp_path / "class")).stdout
    assert (tmp_path / "class" / "10_echo.ipynb").exists()
    assert command("--grade", str(tmp_path / "nothing")).returncode == 2
