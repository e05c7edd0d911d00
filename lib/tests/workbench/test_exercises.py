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
from netrepro.workbench.classroom import grading
from netrepro.workbench.classroom.exercises import CHECK, FOLDED, difference, exercises, parts_of, solution_of
from netrepro.workbench.running import shut_in
from netrepro.workbench.running.sandbox import Sandbox, library_paths


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
    assert (difference(parts_of(given), parts_of(expected), within) == "") is is_right


def test_a_hint_tells_how_many_but_not_which():
    two = parts_of([471, 472])
    assert difference(parts_of([1]), two, 0) == "2 numbers would be right, 1 numbers were given"
    assert difference(parts_of([471, 9]), two, 0) == "not all of them are right"
    assert difference(parts_of(1), parts_of(471), 0) == "it is another"
    with pytest.raises(NetreproError, match="cannot be of type object"):
        parts_of(object())
    with pytest.raises(NetreproError, match="a number that a float can hold"):
        parts_of([1, -(10**400)])


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


RIGHT = {
    "answer_1": "answer_1 = 2 * load",
    "answer_2": "answer_2 = [load, load + 1]",
    "answer_4": "answer_4 = load / 2",
}
FORGED = """from netrepro.workbench.classroom import answers
from netrepro.workbench.classroom import exercises
exercises.difference = lambda *_: ""
exercises.check_answer = answers.parts_of = lambda *_: ([], [])
import json, os
open(os.path.join(os.environ["NETREPRO_RUN_DIR"], "grades.json"), "w").write(json.dumps({"1": {"result": "right"}}))
answer_1 = 7"""
SPIES = """import os, socket
def tried(action):
    try:
        action()
        return "it worked"
    except OSError:
        return "refused"
root = os.environ["NETREPRO_ROOT"]
found = [tried(lambda: open(OUTSIDE)), tried(lambda: socket.create_connection(("192.0.2.1", 80), 1))]
found += [tried(lambda: open(f"{root}/data/x", "w")), tried(lambda: os.kill(CALLER, 9))]
found += ["SECRET" in os.environ and "it worked" or "refused"]
for name in os.listdir(f"{root}/notebooks"):
    found += ["it worked" if "double = 2" in open(f"{root}/notebooks/{name}").read() else "refused"]
answer_1 = found"""
LINKS = """import os
os.symlink("/dev/zero", os.environ["NETREPRO_RUN_DIR"] + "/a.csv")
os.mkfifo(os.environ["NETREPRO_RUN_DIR"] + "/b.csv")
answer_1 = 2 * load"""


@pytest.mark.usefixtures("sandbox")
def test_a_class_is_graded_whatever_is_handed_in(hand_in, tmp_path, workbench, monkeypatch):
    """Each of these in a file of its own would cost seconds: those that end nothing but their own cell share one."""
    monkeypatch.setenv("SECRET", "of who grades")
    (tmp_path / "outside.txt").write_text("of another student")
    folder = tmp_path / "class"
    # Right, with `await`; right and then exit(); far too much printed before what is right.
    waits = "import asyncio\nawait asyncio.sleep(0)\n%matplotlib inline\nanswer_1 = load + load"
    loud = "print('x' * 30_000_000)\nanswer_4 = 0.25"
    hand_in("right", answer_1=waits, answer_2="answer_2 = [load, 1.5]\nexit()", answer_4=loud)
    # Wrong; an error after an answer; nothing.
    hand_in("mixed", answer_1="answer_1 = 5", answer_2="answer_2 = [0.5, 1.5]\nno_such_name")
    # The checker patched and grades written; what is no answer; one that refuses to be looked at.
    vain = "class Vain:\n    def __repr__(self): raise SystemExit\nanswer_4 = Vain()"
    hand_in("forged", answer_1=FORGED, answer_2="answer_2 = object()", answer_4=vain)
    # Files outside, a socket, the caller's process, its variables, the solutions; then links and pipes for the reader.
    spies = SPIES.replace("OUTSIDE", repr(str(tmp_path / "outside.txt"))).replace("CALLER", str(os.getpid()))
    hand_in("spies", answer_1=spies, answer_2=LINKS.replace("answer_1", "answer_2"))
    # A name that solutions stand on is rebound above the exercises; an answer typed into the check's cell.
    rebound = hand_in("rebound", answer_1="answer_1 = 14.0")
    _edit(rebound, 'print("the last cell ran")', "load = 7.0")
    _edit(rebound, 'guide.check_answer("echo", 4', 'answer_4 = 0.25\nguide.check_answer("echo", 4')
    # Settings of their own, and answers that are right with these.
    own = hand_in("settings", **RIGHT)
    _edit(own, "load: float = 0.5", "load: float = 0.25")
    # The kernel ends, after a right answer.
    killed = hand_in("killed", **RIGHT | {"answer_2": "answer_2 = [0.5, 1.5]\nimport os\nos._exit(0)"})
    # One that does not end, and one that fills the disk.
    hand_in("endless", **RIGHT | {"answer_2": "while True:\n    pass"})
    fills = (
        "import os, time\nopen(os.environ['NETREPRO_RUN_DIR'] + '/x', 'wb').write(bytes(50_000_000))\ntime.sleep(60)"
    )
    hand_in("hog", **RIGHT | {"answer_2": fills})
    monkeypatch.setattr(shut_in, "MOST_ON_DISK_MB", 40)
    _refused(hand_in, folder)
    written = killed.read_bytes()
    table = grade(folder, jobs=2, patience=0.15)
    results = {(row.file.removesuffix(".ipynb"), row.exercise): row.result for row in table.itertuples()}
    whys = {(row.file.removesuffix(".ipynb"), row.exercise): row.why for row in table.itertuples()}
    of = lambda name: [results[name, number] for number in (1, 2, 4)]  # noqa: E731
    assert of("right") == ["right", "right", "right"], whys
    assert of("mixed") == ["wrong", "error", "missing"] and "no_such_name" in whys["mixed", 2]
    assert of("forged") == ["wrong", "wrong", "error"]
    (seen,) = table.answer[(table.file == "spies.ipynb") & (table.exercise == 1)]
    assert seen.count("refused") == 6 and "it worked" not in seen
    assert of("rebound") == ["wrong", "missing", "right"]
    assert of("settings") == ["right", "right", "right"]
    assert set(table.settings[table.file == "settings.ipynb"]) == {"load=0.25"}
    assert of("killed") == ["right", "error", "error"] and "kernel died" in whys["killed", 2]
    assert of("endless") == ["right", "error", "error"] and "timed out" in whys["endless", 2]
    assert of("hog") == ["right", "error", "error"] and "it wrote more than 40 MB" in whys["hog", 2]
    assert killed.read_bytes() == written and not list((workbench / "runs").glob("quick*"))
    for name, reason in REFUSED.items():
        assert reason in whys.get((name, ""), whys.get((name, 1), ""))
    for name in ("no_type", "no_number"):
        assert of(name) == ["error"] * 3
    saved = pd.read_csv(folder / "grades.csv")
    assert list(saved.result) == list(table.result)
    students = pd.read_csv(folder / "students.csv").set_index("student")
    assert set(students.index) == {path.stem for path in folder.glob("*.ipynb")}
    assert students[["right", "wrong", "missing", "error"]].to_numpy().sum() == len(table)


REFUSED = {
    "half": "not valid JSON",
    "list": "holds no cells",
    "empty": "not valid JSON",
    "strange": "no cells",
    "binary": "not valid JSON",
    "unknown": "no notebook called 'nothing'",
    "nameless": "does not say which notebook it is",
    "link": "is no file of its own",
    "no_type": "the parameters cell holds `load = 7`",
    "no_number": "is not of type float",
}


def _refused(hand_in: Callable[..., Path], folder: Path) -> None:
    """Hand in what is refused before anything of it runs."""
    texts = {"half": '{"cells": [', "list": "[1, 2]", "empty": "", "strange": '{"metadata": {"netrepro": 3}}'}
    for name, text in texts.items():
        (folder / f"{name}.ipynb").write_text(text)
    (folder / "binary.ipynb").write_bytes(b"\xff\xfe\x00")
    (folder / "link.ipynb").symlink_to("/dev/zero")
    _edit(hand_in("no_type"), "load: float = 0.5", "load = 7")
    _edit(hand_in("no_number"), "load: float = 0.5", "load: float = 'much'")
    for name, slug in (("unknown", "nothing"), ("nameless", "")):
        path = hand_in(name)
        path.write_text(path.read_text().replace('"slug": "echo"', f'"slug": "{slug}"'))


def _edit(path: Path, old: str, new: str) -> None:
    """Change a text in the cells of a notebook."""
    notebook = nbformat.read(path, as_version=4)
    assert any(old in cell.source for cell in notebook.cells)
    for cell in notebook.cells:
        cell.source = cell.source.replace(old, new)
    nbformat.write(notebook, path)


def _shut_in(program: str, **limits: int) -> tuple[int, str, bytes | None]:
    """Run a program in a sandbox; return its exit code, what it said, and its file `begun`."""
    around = Sandbox("/run/mine", library_paths(Path(__file__).parents[3]), **limits)
    started = around.start([sys.executable, "-c", program], {})
    said = started.process.communicate(timeout=60)[0].decode()
    begun = started.read("begun", 10)
    started.close()
    return started.process.returncode, said, begun


BOMB = """import os, time
for number in range(50):
    if os.fork() == 0:
        time.sleep(60)"""
TWO_FILES = """for name in ("/tmp/one", "/tmp/another"):
    open(name, "wb").write(bytes(90 << 20))"""
LEFT_BEHIND = """import os, time
if os.fork() == 0:
    os.setsid()
    open("/run/mine/begun", "w")
    time.sleep(60)
time.sleep(1)"""


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("program", "limits", "said"),
    [
        ("bytearray(300 << 20)", {"memory_mb": 200}, "MemoryError"),
        (TWO_FILES, {"memory_mb": 150}, "No space left"),
        ("while True:\n    pass", {"processor_s": 1}, ""),
        (BOMB, {"processes": 20}, "BlockingIOError"),
        ("import os\nassert os.listdir('/sys')", {}, "AssertionError"),
    ],
)
def test_a_sandbox_has_limits_of_memory_files_processor_time_and_processes(program, limits, said):
    code, all_said, _ = _shut_in(program, **limits)
    assert code != 0 and said in all_said


@pytest.mark.usefixtures("sandbox")
def test_what_a_sandbox_has_started_ends_with_it():
    code, _, begun = _shut_in(LEFT_BEHIND)  # this would wait for who holds its streams
    assert code == 0 and begun == b""


def test_a_class_whose_grades_cannot_be_written_is_not_executed(hand_in, workbench):
    folder = hand_in("anna", **RIGHT).parent
    (folder / "grades.csv").mkdir()
    with pytest.raises(NetreproError, match=r"grades.csv is a folder\n  move it away"):
        grade(folder, trust=True)
    assert not (workbench / "runs").exists()


def test_without_namespaces_grading_asks_for_trust(hand_in, tmp_path, monkeypatch):
    hand_in("right", **RIGHT)
    monkeypatch.setattr(grading, "why_not", lambda: "no user namespace: Operation not permitted")
    with pytest.raises(NetreproError, match=r"cannot be shut in on this machine: no user namespace.*\n.*--trust"):
        grade(tmp_path / "class")


def test_an_interrupted_grading_leaves_the_tables_as_they_were(hand_in, tmp_path):
    hand_in("endless", answer_1="while True:\n    pass")
    tables = [tmp_path / "class" / name for name in ("grades.csv", "students.csv")]
    for path in tables:
        path.write_text("before")
    with pytest.raises(NetreproError, match="interrupted after 0 of 1 files"):
        grade(
            tmp_path / "class",
            jobs=1,
            trust=True,
            on_event=lambda event: os.kill(os.getpid(), signal.SIGINT) if event.kind == "started" else None,
        )
    assert [path.read_text() for path in tables] == ["before", "before"]


def test_a_table_that_the_teacher_has_changed_is_kept_when_the_class_is_graded_again(hand_in, tmp_path):
    folder = tmp_path / "class"
    grades, told = folder / "grades.csv", []

    def grade_again() -> list[tuple[Path, Path]]:
        told.clear()
        grade(folder, trust=True, on_kept=lambda *moved: told.append(moved))
        return list(told)

    hand_in("anna", **RIGHT)
    assert grade_again() == []
    hand_in("ben", **RIGHT)
    assert grade_again() == [] and "ben" in grades.read_text(), "a table that nobody has changed is written anew"
    ours = grades.read_text()
    grades.write_text(ours.replace(",right,", ",wrong after all,"))
    edited = grades.read_text()
    (folder / "grades-1.csv").write_text("of somebody else")
    assert grade_again() == [(grades, folder / "grades-2.csv")]
    assert (folder / "grades-2.csv").read_text() == edited != ours == grades.read_text()
    assert (folder / "grades-1.csv").read_text() == "of somebody else"
    (folder / "students.csv").write_text("student,grade\nanna,1\n")
    said = subprocess.run(
        [sys.executable, "-m", "netrepro.workbench.cli.commands", "exercises", "--grade", "class", "--trust"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert "class/students.csv had been changed since: it is kept as class/students-1.csv" in said.stdout
    assert (folder / "students-1.csv").read_text() == "student,grade\nanna,1\n"
    assert grade_again() == []


def test_the_command_lists_writes_and_refuses(lesson, tmp_path):
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        called = [sys.executable, "-m", "netrepro.workbench.cli.commands", "exercises", *words]
        return subprocess.run(called, capture_output=True, text=True, check=False)

    said = command().stdout
    assert "2. Its neighbours? [checked: the load and one more, exactly]" in said and "[read by a person]" in said
    assert "1 notebook without solutions" in command("--into", str(tmp_path / "class")).stdout
    assert (tmp_path / "class" / "10_echo.ipynb").exists()
    assert command("--grade", str(tmp_path / "nothing")).returncode == 2
