"""Ranges in the declarations of parameters: what is out of them is refused before a kernel starts."""

from __future__ import annotations

import subprocess
import sys

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.workbench.catalogue.parameters import Parameter
from netrepro.workbench.catalogue.ranges import range_of, read_range
from netrepro.workbench.notebook.report import open_report
from netrepro.workbench.running.runner import run


@pytest.mark.parametrize(
    ("help", "inside", "outside"),
    [
        ("offered load [0 < load < 1]", [0.01, 0.999], [-0.5, 0, 1, 1.5]),
        ("of the link (Mb/s) [1 to 1e4]", [1, 1e4], [0.99, 10001]),
        ("[load ≥ 0]", [0, 1e9], [-1e-9]),
        ("[load > 0]", [1e-9], [0]),
        ("[load < 3]", [2.9, -5], [3]),
        ("[-2 ≤ load]", [-2], [-2.1]),
        ("[one of reno, cubic]", ["reno"], ["renoo", "", "a file"]),
        ("[one of empty, a folder]", ["", "/"], ["/no/such", "empty", "a folder", __file__]),
        ("[one of web_search, a file]", ["web_search", __file__], ["", "/no/such", "/"]),
        ("each [0 < load < 1]", [[0.1, 0.2], []], [[0.1, 1.0]]),
    ],
)
def test_a_range_holds_what_it_says(help, inside, outside):
    found = read_range(help, "load")
    assert [found.holds(value) for value in inside] == [True] * len(inside)
    assert [found.holds(value) for value in outside] == [False] * len(outside)


@given(low=st.floats(-1e6, 1e6), high=st.floats(-1e6, 1e6), value=st.floats(-1e6, 1e6))
def test_a_written_range_is_python_s_own_comparison(low, high, value):
    assert read_range(f"[{low!r} ≤ x < {high!r}]", "x").holds(value) == (low <= value < high)


@pytest.mark.parametrize("help", ["[packets]", "[0 < flows < 1]", "[0 <= load]", "[0 > load]", "[load]", "[a < load]"])
def test_brackets_that_are_no_range_of_this_parameter_are_refused(help):
    with pytest.raises(NetreproError, match="cannot read the range"):
        read_range(help, "load")


def test_help_without_brackets_at_its_end_has_no_range_but_for_standard_parameters():
    assert read_range("of the [inner] link (Mb/s)", "rate") is None and read_range("", "rate") is None
    assert range_of("seed", "of all").holds(0) and not range_of("seed", "of all").holds(-1)
    assert range_of("seed", "of all [5 to 6]").holds(5) and not range_of("seed", "[5 to 6]").holds(4)


@pytest.fixture
def trace(echo_paper, workbench, monkeypatch):
    """A file in the folder where commands are typed, which the echo paper's parameter `trace` may name."""
    notebook = nbformat.read(echo_paper, as_version=4)
    settings = notebook.cells[1]
    settings.source += '\ntrace: str = ""  # packets [one of empty, a file]'
    notebook.cells.append(nbformat.v4.new_code_cell("print(open(trace).read() if trace else '')"))
    nbformat.write(notebook, echo_paper)
    (workbench / "elsewhere").mkdir()
    (workbench / "elsewhere/mine.pcap").write_text("what I meant")
    (workbench / "notebooks/mine.pcap").write_text("another of that name")
    monkeypatch.chdir(workbench / "elsewhere")
    monkeypatch.setenv("HOME", str(workbench / "elsewhere"))
    return workbench / "elsewhere/mine.pcap"


def test_a_file_is_that_of_the_folder_where_the_command_was_typed(trace):
    report = run(["echo"], parameters={"trace": "mine.pcap"})
    assert report.ok, report.statuses[0].explanation()
    assert "what I meant" in (report.statuses[0].folder / "log.txt").read_text()
    assert report.statuses[0].parameters["trace"] == str(trace)


def test_a_file_of_the_home_folder_is_found_there(trace, pretended_runs):
    assert run(["echo"], parameters={"trace": "~/mine.pcap"}).statuses[0].parameters["trace"] == str(trace)


def test_resume_runs_again_when_a_parameters_file_has_changed(trace, pretended_runs):
    def again() -> bool:
        (status,) = run(["echo"], parameters={"trace": "mine.pcap"}, resume=True).statuses
        return not status.reused

    assert again() and not again()
    trace.write_text("what I mean now")
    assert again()


def test_a_file_that_is_not_there_is_said_to_be_missing():
    assert read_range("[one of empty, a file]", "x").advice("mine.pcap") == "mine.pcap is not there"
    assert "web_search" in read_range("[one of web_search, a file]", "x").advice("websearch")


def test_numbers_that_are_not_finite_are_refused_and_a_mistyped_word_names_the_nearest():
    for text in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(NetreproError, match="not finite"):
            Parameter("x", "float", 1.0, "").parse(text)
    with pytest.raises(NetreproError, match="did you mean 'cubic'"):
        Parameter("x", "str", "reno", "[one of reno, cubic]").parse("cubc")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"load": "-0.5"}, "0 to 1"),
        ({"repetitions": "0"}, "2 to 10000"),
        ({"repetitions": "'5'"}, "not of type int"),
        ({"seed": "-1"}, "0 to 4294967295"),
        ({"profile": "paper"}, "choose it by --profile"),
        ({"tier": "simulated"}, "choose it by --tier"),
    ],
)
def test_a_run_out_of_range_is_refused_before_anything_starts(echo_paper, workbench, given, words):
    text = echo_paper.read_text().replace("of one path (0 to 1)", "of one path [0 to 1]")
    echo_paper.write_text(text)
    with pytest.raises(NetreproError, match=words):
        run(["echo"], parameters=given)
    assert not (workbench / "runs/quick").exists() or not list((workbench / "runs/quick").iterdir())


@pytest.mark.parametrize(
    ("changed", "words"), [({"seed": -1}, "0 to 4294967295"), ({"repetitions": "5"}, ""), ({"load": 2.0}, "0 to 1")]
)
def test_a_notebook_opened_by_a_person_refuses_the_same(echo_paper, changed, words):
    echo_paper.write_text(echo_paper.read_text().replace("(0 to 1)", "[0 to 1]"))
    settings = {"profile": "quick", "tier": "auto", "repetitions": 2, "seed": 1, "load": 0.5}
    if not words:
        open_report("echo", settings | changed)  # text that is a whole number is one
        return
    with pytest.raises(NetreproError, match=words):
        open_report("echo", settings | changed)


def test_the_smallest_patience_is_a_run_out_of_time_and_no_traceback(add_notebook):
    add_notebook("endless_cell", budget_s={"quick": 0.1, "paper": 1})
    command = [sys.executable, "-m", "netrepro.workbench.cli.commands", "run", "endless_cell", "--patience", "0.01"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 1 and "timed out" in said.stdout and "Trait" not in said.stdout
    assert "executed notebook: " in said.stdout and "runs/quick/10_endless_cell--failed/executed.ipynb" in said.stdout


def test_a_folder_that_cannot_be_written_gets_two_lines(echo_paper):
    command = [sys.executable, "-m", "netrepro.workbench.cli.commands", "scorecard", "--into", "/proc/none"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 2 and "cannot write to /proc/none" in said.stdout and "Traceback" not in said.stderr
