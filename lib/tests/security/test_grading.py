"""Attacks of a student's notebook on those who grade it: on their account, on others' grades, on the grading itself."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from deep_folders import make_deep

from netrepro.errors import NetreproError
from netrepro.files import remove
from netrepro.workbench import grade
from netrepro.workbench.catalogue.notebooks import catalogue, find
from netrepro.workbench.catalogue.parameters import read_parameters
from netrepro.workbench.catalogue.ranges import read_range
from netrepro.workbench.classroom import grading
from netrepro.workbench.classroom.class_formats import hidden_test
from netrepro.workbench.classroom.exercises import exercises
from netrepro.workbench.cli.console import _LivePerNotebook, console
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.events import RunEvent
from netrepro.workbench.running.run_folder import Job, Status
from netrepro.workbench.running.supervise import _status

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
HONEST = {
    "answer_1": "answer_1 = 2 * load",
    "answer_2": "answer_2 = [load, load + 1]",
    "answer_4": "answer_4 = load / 2",
}
BEGIN = "import json, os, signal, time\nhere = os.environ['NETREPRO_RUN_DIR'] + '/'\n"
# A program with the setuid bit in the run's folder, under every name that a reader takes, and in its log.
SETUID = (
    BEGIN
    + """
program = open("/bin/sh", "rb").read()
for name in ("sh", "answers.csv", "fig.png", "results.json", "log.txt"):
    for path in (here + name, "/proc/self/fd/1", "/proc/1/fd/1"):
        try:
            open(path, "wb").write(program)
            os.chmod(path, 0o6755)
        except OSError:
            pass
answer_1 = 2 * load"""
)
# Another run's status, with right answers that are wrong, and then an end before the true ones are written.
FORGED = (
    BEGIN
    + """
NAME, SLUG = {name!r}, "echo"
status = dict(slug=SLUG, name=NAME, outcome="ok", seconds=1, budget_s=1, command="rm -rf .", reused=True,
              folder="/etc", stays="/etc", exception="", parameters={{"load": 7}})
wrong = {{str(number): [[77.0], []] for number in (1, 2, 4)}}
def forge():
    manifest = {{"outcome": "forged"}}
    for name, content in (("status.json", status), ("expected.json", wrong), ("manifest.json", manifest)):
        open(here + name, "w").write(json.dumps(content))
    given = dict(shown="77", error="", numbers=[77.0], words=[])
    open(here + "answers.json", "w").write(json.dumps({{str(number): given for number in (1, 2, 4)}}))
forge()
os.mkdir(here + "inside")
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(60)"""
)
DEEP = (
    BEGIN
    + """
os.chdir(here)
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
os.chdir(here)
open("inside", "w").write("a file")
answer_4 = load / 2"""
)
MANY = (
    BEGIN
    + """
for number in range(20_000):
    open(f"{here}{number}", "w").close()"""
)
NONSENSE = (
    BEGIN
    + """
text = {text}
def write():
    open(here + {name!r}, "w").write(text)
write()
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(60)"""
)
ENDLESS_DEPTH = "'[' * 1_000_000"
NO_NUMBERS = (
    "json.dumps(dict(slug='echo', name='x', outcome='ok', seconds=1, budget_s=1, cpu_s=float('inf'), peak_mb=1e400))"
)


@pytest.fixture
def graded(hand_in, tmp_path, workbench) -> Callable[[], dict[str, list[str]]]:
    """Grade the class; return the results of each file's exercises, its name without the suffix."""

    def run(on_event: Callable[[RunEvent], None] = lambda event: None) -> dict[str, list[str]]:
        table = grade(tmp_path / "class", jobs=2, on_event=on_event)
        return {name.removesuffix(".ipynb"): list(rows.result) for name, rows in table.groupby("file")}

    return run


def _bits(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


@pytest.mark.usefixtures("sandbox")
def test_no_handed_in_notebook_changes_anything_but_its_own_grade(hand_in, graded, workbench, tmp_path):
    # Files are executed in the order of their names. Our own run is made after the first: it is number 1.
    for name, of_whom in (("a_forged", "001_echo"), ("b_forged", "003_echo")):
        hand_in(name, **HONEST | {"answer_2": FORGED.format(name=of_whom)})
    honest = hand_in("c_honest", **HONEST)
    hand_in("d_hostile", **HONEST | {"answer_1": SETUID, "answer_4": DEEP})
    hand_in("e_many", **HONEST | {"answer_4": MANY})
    hand_in("f_no_status", **HONEST | {"answer_2": NONSENSE.format(text=NO_NUMBERS, name="status.json")})
    hand_in("g_no_answers", **HONEST | {"answer_2": NONSENSE.format(text=ENDLESS_DEPTH, name="answers.json")})
    before = honest.read_bytes()
    kept = workbench / "runs" / grading.KEPT
    seen: list[str] = []

    def look(event: RunEvent) -> None:
        seen.append(event.kind)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o700

    came = graded(look)
    assert "progress" in seen
    assert came["c_honest"] == came["d_hostile"] == ["right"] * 3, came
    assert came["a_forged"] == came["b_forged"] == ["wrong"] * 3, came
    assert came["e_many"] == ["right", "right", "error"], came
    assert came["f_no_status"][0] == "right" and came["g_no_answers"] == ["error"] * 3, came
    assert honest.read_bytes() == before
    assert not _bits(workbench) and not list(kept.rglob("inside")) and not list(kept.glob(".*"))
    for folder in filter(Path.is_dir, kept.iterdir()):
        files = {path.name for path in folder.iterdir()}
        ours = {run_folder.STATUS, run_folder.MANIFEST, run_folder.EXECUTED, run_folder.LOG, "answers.json"}
        assert files <= ours or folder.name == "001_echo", files
        status = Status.model_validate_json((folder / run_folder.STATUS).read_text())
        assert folder.name.removesuffix(run_folder.FAILED) == status.name and "rm" not in status.command
    assert (kept / "001_echo" / grading.EXPECTED).exists() and (kept / "003_echo").exists()
    # What was left stops no later grading.
    for path in honest.parent.glob("*.ipynb"):
        path.unlink() if path != honest else None
    assert graded() == {"c_honest": ["right"] * 3}


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.usefixtures("sandbox")
def test_an_accomplice_on_the_same_machine_sees_nothing_of_a_grading(hand_in, graded, workbench):
    hand_in("honest", **HONEST)
    (workbench / "runs").mkdir()
    runs = os.open(workbench / "runs", os.O_RDONLY)  # a stranger's way there does not depend on the folders above
    strangers = {"user": 65533, "group": 65533, "extra_groups": [], "pass_fds": [runs], "capture_output": True}

    def can_list(name: str) -> bool:
        return subprocess.run(["/bin/ls", f"/proc/self/fd/{runs}/{name}"], **strangers).returncode == 0

    seen: list[bool] = []
    graded(lambda event: seen.append(can_list(grading.KEPT)) if len(seen) < 3 else None)
    assert can_list("") and seen == [False] * 3
    os.close(runs)


def test_a_status_says_how_a_run_ended_and_never_which_run_it_was(tmp_path):
    job = Job(
        slug="echo",
        name="003_echo",
        kind="guide",
        notebook=tmp_path,
        folder=tmp_path,
        root=tmp_path,
        parameters={},
        budget_s=2,
        cell_limit_s=1,
        total_limit_s=1,
        memory_mb=1,
        command="ours",
        manifest={},
        fingerprint="of ours",
        code="of ours",
    )
    said = Status(slug="raft", name="000_echo", outcome="ok", seconds=1, budget_s=9, command="theirs", reused=True)
    said.folder = said.stays = Path("/etc")
    (tmp_path / run_folder.STATUS).write_text(said.model_dump_json())
    status = _status(job, tmp_path, 0, None, "")
    assert (status.slug, status.name, status.command, status.budget_s) == ("echo", "003_echo", "ours", 2)
    assert status.ok and (status.folder, status.stays, status.reused) == (None, None, False)


@pytest.mark.parametrize("name", ["d", "d" * 250])
def test_a_deep_folder_is_removed_whatever_its_names_and_rights(tmp_path, name):
    top = tmp_path / "top"
    top.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    made = os.open(top, os.O_RDONLY)
    for number in range(1500):
        os.mkdir(name, dir_fd=made)
        below = os.open(name, os.O_RDONLY, dir_fd=made)
        os.close(os.open(f"file{number}", os.O_CREAT | os.O_WRONLY, dir_fd=made))
        os.symlink(tmp_path / "elsewhere", "link", dir_fd=made)
        os.fchmod(made, 0)
        os.close(made)
        made = below
    os.close(made)
    remove(top)
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"] and (tmp_path / "elsewhere" / "kept").exists()


def test_a_help_text_of_many_digits_is_read_at_once():
    """In a process of its own, which is ended if it takes minutes: 20,000 digits did."""
    code = "from netrepro.workbench.catalogue.ranges import read_range\n"
    code += "try:\n read_range('[' + '1' * 200_000 + 'x]', 'load')\n"
    code += "except Exception as error:\n print(type(error).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "NetreproError\n"
    assert read_range("of it [1_000.5 to 2.e3]", "load").low == 1000.5


# A student's settings ------------------------------------------------------------------------------


def _with_setting(path: Path, line: str, old: str = "") -> None:
    """Add a line to a notebook's parameters cell, in the place of a line where one is given."""
    notebook = nbformat.read(path, as_version=4)
    (cell,) = [each for each in notebook.cells if "parameters" in each.metadata.get("tags", [])]
    cell.source = cell.source.replace(old, line) if old else f"{cell.source}\n{line}"
    nbformat.write(notebook, path)


@pytest.mark.usefixtures("sandbox")
def test_a_setting_names_no_file_of_who_grades(lesson, hand_in, graded, tmp_path):
    line = 'trace: str = "standin"  # the pages [one of standin, a file]'
    _with_setting(lesson, line)
    secret = tmp_path / "secret.txt"
    secret.write_text("the first line of a private key\n")
    for name, value in (("spy", secret), ("absent", tmp_path / "nothing"), ("word", "a file")):
        _with_setting(hand_in(name, **HONEST), line.replace('"standin"', repr(str(value))), line)
    # A setting of the student's own says itself that it takes a folder.
    _with_setting(hand_in("own", **HONEST), 'all: str = "/proc"  # of it [one of nothing, a folder]')
    assert graded() == {"spy": ["error"] * 3, "absent": ["error"] * 3, "word": ["error"] * 3, "own": ["right"] * 3}
    text = (tmp_path / "class" / grading.GRADED).read_text()
    assert "private key" not in text and text.count("its setting trace names a file or folder") == 9


@pytest.mark.parametrize("slug", [each.slug for each in catalogue(NOTEBOOKS)])
def test_no_setting_of_a_notebook_of_ours_takes_a_path_from_a_student(slug):
    notebook = find(slug, NOTEBOOKS)
    for name, parameter in notebook.parameters.items():
        if "str" in parameter.type and name not in ("profile", "tier"):  # of these, our own run takes its own
            value = ["/etc/passwd"] if parameter.type.startswith("list") else "/etc/passwd"
            with pytest.raises(NetreproError, match=name):
                grading._changed(notebook, {name: value})


def test_a_students_ranges_are_not_read(lesson):
    notebook = nbformat.read(lesson, as_version=4)
    notebook.cells[1].source += '\nall: str = "/proc"  # of it [one of nothing, a folder]'
    own = read_parameters(notebook, helps=False)
    assert own["all"].default == "/proc" and not own["all"].names_path("/proc") and own["load"].help == ""
    assert read_parameters(notebook)["all"].names_path("/proc")


def test_a_handed_in_file_that_is_too_large_is_not_read(hand_in, tmp_path):
    os.truncate(hand_in("large"), grading.LARGEST_NOTEBOOK + 1)
    table = grade(tmp_path / "class", trust=True)
    assert set(table.why) == {"large.ipynb has more than 100 MB"}


def test_folders_handed_in_too_deep_are_named_and_stop_no_grading(hand_in, tmp_path):
    path = hand_in("shallow")
    os.truncate(path, grading.LARGEST_NOTEBOOK + 1)  # so that nothing is executed
    make_deep(tmp_path / "class", 1500)
    table = grade(tmp_path / "class", trust=True)
    deep = table[table.file.str.startswith("deep/")]
    assert len(deep) == 1 and "more than 20 folders deep" in deep.why.iloc[0]
    assert set(table.file) - set(deep.file) == {"shallow.ipynb"}
    remove(tmp_path / "class")


def test_a_reason_without_end_is_cut():
    assert len(grading.in_one_line("x" * 5_000_000)) == grading.LONGEST_TEXT + 1


# Tables and terminals ------------------------------------------------------------------------------

FORMULAS = ["=1+1", "+1+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1"]


@pytest.mark.usefixtures("sandbox")
def test_no_table_holds_a_formula_and_no_terminal_a_command(hand_in, graded, tmp_path):
    folder = tmp_path / "class"
    hand_in("=HYPERLINK(1)", **HONEST | {"answer_4": "answer_4 = -0.25"})
    hand_in("a\x1b[2Jb\nc", answer_1=r"raise ValueError('\x1b]0;title\x07')", answer_2="answer_2 = '=1+1'")
    for cell in (notebook := nbformat.read(folder / "=HYPERLINK(1).ipynb", as_version=4)).cells:
        cell.source = cell.source.replace("## 5 Measure", "## 5 Measure \x1b[2J")
    notebook.cells[3].source += "\nimport time\ntime.sleep(2)"
    nbformat.write(notebook, folder / "=HYPERLINK(1).ipynb")
    (folder / os.fsdecode(b"bytes\xff.ipynb")).write_text("{}")
    shown: list[str] = []
    headings: set[str] = set()

    def show(event: RunEvent) -> None:
        shown.append(event.name)
        headings.add(event.progress.heading if event.progress else "")

    came = graded(show)
    assert came["=HYPERLINK(1)"] == ["right", "right", "wrong"]
    for name in (grading.GRADED, grading.STUDENTS):
        text = (folder / name).read_text()
        assert text.isascii() and all(each.isprintable() for each in text.split("\n"))
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))] in (["-0.25"], [])
    assert r"a\x1b[2Jb\nc.ipynb" in shown and all(name.isprintable() for name in shown)
    assert r"5 Measure \x1b[2J" in headings
    assert pd.read_csv(folder / grading.GRADED).file.str.startswith("'=").any()


def test_a_file_name_is_no_markup_of_the_display():
    display = _LivePerNotebook(None)
    display(RunEvent("progress", "[/red][link=file:///etc]x[/link].ipynb", 1.0))
    with console.capture() as captured:
        console.print(display._table())
    assert "[/red][link=file:///etc]" in captured.get()


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_begins_like_a_formula_is_only_shown(text):
    written = pd.DataFrame({"answer": [text]}).map(grading.in_one_line).map(grading._no_formula).to_csv(index=False)
    assert written.splitlines()[1].strip('"')[0] in "'\\"
    assert grading._no_formula("-1.5") == "-1.5"


# Classes that nbgrader or Otter grades --------------------------------------------------------------

PATCHES = """from netrepro.workbench import guide
from netrepro.workbench.classroom import exercises
class Right:
    right, text = True, ""
guide.check_answer = exercises.check_answer = lambda *a, **k: Right()
exercises.difference = lambda *a, **k: ""
exercises.Checked = lambda *a, **k: Right()
exercises.parts_of = lambda *a, **k: ([], [])"""


@pytest.mark.parametrize(("answer", "is_right"), [("7", False), ("load * 2", True)])
def test_a_patched_check_earns_no_points_in_nbgrader_or_otter(lesson, answer, is_right):
    """Their tests run in the student's process, after the student's cells."""
    (first, *_) = exercises(["echo"])
    cells = ["load = 0.5", PATCHES, f"answer_1 = {answer}", hidden_test(first)]
    code = "import json, sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
    code += "shell = InteractiveShell.instance()\n"
    code += "print([shell.run_cell(cell).success for cell in json.loads(sys.argv[1])])"
    done = subprocess.run([sys.executable, "-c", code, json.dumps(cells)], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == f"[True, True, True, {is_right}]", done.stdout + done.stderr
