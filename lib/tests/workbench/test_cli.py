"""What is printed fits into 80 columns wherever it goes, drops nothing, and is there as JSON for programs."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys

import command_line
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live

import netrepro
import netrepro.workbench
from netrepro.workbench.cli.console import COLUMNS, _LivePerNotebook, columns_of, folded, live_lines
from netrepro.workbench.running.events import RunEvent
from netrepro.workbench.running.run_folder import Progress

LONG = "a question so long that it does not fit into one line of eighty columns, whatever else stands there?"


def command(*words: str) -> str:
    done = command_line.command(*words)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def long_question(echo_paper):
    echo_paper.write_text(echo_paper.read_text().replace("# Fixture: echo", f"# {LONG}"))
    return echo_paper


@given(st.text(st.characters(categories=("L", "N", "P")), max_size=300), st.integers(0, 30))
def test_folding_keeps_every_character_but_blanks(text, indent):
    lines = folded(text, " " * indent)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(len(line) <= COLUMNS for line in lines)


@given(st.lists(st.tuples(st.text("ab", max_size=9), st.text("cd ", max_size=99)), min_size=1, max_size=5))
def test_columns_keep_every_cell(rows):
    said = "".join("".join(columns_of(rows)).split())
    assert said == "".join("".join(first + last for first, last in rows).split())


@pytest.mark.parametrize("words", [["list"], ["show", "echo"], ["scorecard"], ["scorecard", "echo"]])
def test_a_pipe_gets_at_most_80_columns_and_nothing_is_cut(long_question, words):
    said = command(*words)
    assert max(map(len, said.splitlines())) <= COLUMNS and "…" not in said
    if words[0] in ("list", "show"):
        assert LONG in " ".join(said.split())


def test_a_narrow_terminal_gets_the_same_lines_as_a_pipe(long_question):
    piped = command("list")
    terminal, end = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "TERM": "dumb"}
    called = [sys.executable, "-m", "netrepro.workbench.cli.commands", "list"]
    subprocess.run(called, stdout=end, env=environment, check=True)
    os.close(end)
    said = os.read(terminal, 100_000).decode()
    assert said.replace("\r\n", "\n") == piped


def test_show_gives_name_type_default_range_and_help(echo_paper):
    said = command("show", "echo")
    assert "load: float = 0.5\n    offered load of one path (0 to 1)" in said and "quick: 30 s, 200 MB" in said


def test_the_same_is_there_as_json(echo_paper):
    (listed,) = json.loads(command("list", "--json"))
    assert (listed["slug"], listed["tiers"], listed["budget_s"]["quick"]) == ("echo", ["simulated"], 30)
    shown = json.loads(command("show", "echo", "--json"))
    assert shown == listed and shown["parameters"][-1]["default"] == 0.5
    (claim,) = json.loads(command("scorecard", "--json"))
    assert (claim["claim"], claim["mine_verdict"], claim["mine_value"]) == ("load-is-half", "not measured", None)


def test_what_was_run_swept_and_compared_is_there_as_json(echo_paper, pretended_runs):
    ran = json.loads(command("run", "10_echo", "--json"))
    assert [(each["name"], each["outcome"]) for each in ran["notebooks"]] == [("10_echo", "ok")]
    assert [(each["claim"], each["verdict"]) for each in ran["claims"]] == [("load-is-half", "agrees")]
    swept = json.loads(command("sweep", "10_echo", "--vary", "load=0.5,0.7", "--json"))
    assert [each["load"] for each in swept["claims"]] == [0.5, 0.7]
    assert json.loads(command("scorecard", "10_echo", "--json")) == json.loads(command("scorecard", "echo", "--json"))


def test_the_workbench_lists_what_it_has():
    names = set(dir(netrepro.workbench))
    assert {"run", "sweep", "compare", "guide", "open_report"} <= names
    assert all(getattr(netrepro.workbench, name) for name in names)


SYSTEMS = """
emulator_fidelity dummynet simulator_check kernel_lab tcp_pacing suss initial_window dctcp red codel incast outcast
misbehaving_receiver repflow_model repnet hedera jellyfish dcell mptcp_wireless hull sst flow_completion_time
buffer_sizing oncache cdn_routing propshare raft epaxos_revisited gmm_traffic fperf_leaf_spine
"""


def test_every_system_of_the_plan_is_listed_and_every_paper_has_claims():
    listed = {each["slug"]: each for each in json.loads(command("list", "--json"))}
    assert set(SYSTEMS.split()) <= set(listed)
    papers = {slug for slug, each in listed.items() if each["kind"] == "paper"}
    assert papers == {row["paper"] for row in json.loads(command("scorecard", "--json"))}


def test_it_says_its_version():
    called = [sys.executable, "-m", "netrepro.workbench.cli.commands", "--version"]
    assert subprocess.check_output(called, text=True) == f"netrepro {netrepro.__version__}\n"


def test_a_claim_that_does_not_count_is_counted_as_such(echo_paper, workbench):
    folder = workbench / "runs/interactive/echo"
    folder.mkdir(parents=True)
    measured = [{"claim": "load-is-half", "values": [0.5, 0.5]}]
    run = {"date": "2026-11-25", "commit": "abc", "profile": "quick", "tier": "simulated", "seed": 1, "repetitions": 2}
    run |= {"parameters": {}, "answer": "", "measured": measured}
    (folder / "results.json").write_text(json.dumps({"paper": "echo", "runs": {"quick/simulated": run}}))
    assert "✓ agrees, not counted" in command("scorecard", "echo")


def test_an_output_without_our_signs_gets_question_marks_and_no_traceback(echo_paper, workbench):
    called = [sys.executable, "-m", "netrepro.workbench.cli.commands", "scorecard"]
    done = subprocess.run(called, env=os.environ | {"PYTHONIOENCODING": "latin-1"}, capture_output=True)
    assert done.returncode == 0 and b"Traceback" not in done.stderr and b"replicated" in done.stdout


IN_THE_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")  # as a shell without job control starts `command &`
WAITING = """
import time
from netrepro.workbench.cli import commands as cli
cli.app = lambda: (print("waiting", flush=True), time.sleep(600))
cli.main()
"""


def test_an_interrupt_ends_a_command_that_was_started_in_the_background():
    with subprocess.Popen([*IN_THE_BACKGROUND, sys.executable, "-c", WAITING], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 130
        finally:
            process.kill()


def test_a_parameter_that_is_given_twice_is_refused(echo_paper):
    done = command_line.command("run", "echo", "-p", "load=0.5", "-p", "load = 0.7")
    assert done.returncode == 2 and "load is given twice" in done.stdout


@pytest.mark.parametrize("words", [["exercises", "--into", ""], ["audit", ""], ["publish", "--run="]])
def test_an_empty_value_is_refused(words):
    """`--into "$FOLDER"` is empty where the shell has no FOLDER: it would mean the working directory."""
    called = [sys.executable, "-m", "netrepro.workbench.cli.commands", *words]
    done = subprocess.run(called, capture_output=True, text=True)
    assert done.returncode == 2 and "an empty value" in done.stdout + done.stderr


def test_a_working_directory_that_is_gone_is_named(tmp_path):
    (tmp_path / "gone").mkdir()
    called = [
        "sh",
        "-c",
        'rmdir "$PWD" && exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "netrepro.workbench.cli.commands",
        "list",
    ]
    done = subprocess.run(called, cwd=tmp_path / "gone", capture_output=True, text=True)
    assert done.returncode == 2 and "the working directory is gone" in done.stdout and not done.stderr


def test_brackets_in_words_of_others_are_no_markup(capsys):
    with live_lines() as tell:
        tell(RunEvent("skipped", "10_echo", 0, reason="[Errno 13] in [/tmp] of [red]"))
        tell(RunEvent("waiting", "", 0, reason="no worker at [::1]:8786"))
    assert capsys.readouterr().out.splitlines() == [
        "skipped  10_echo: [Errno 13] in [/tmp] of [red]",
        "waiting  no worker at [::1]:8786",
    ]


def test_a_heading_with_brackets_is_shown_as_it_is():
    screen = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80)
    with Live(console=screen, refresh_per_second=1) as live:
        tell = _LivePerNotebook(live)
        tell(RunEvent("progress", "10_echo", 30, 1.0, Progress(heading="5 Measure [/b] in [0, 1]", cell=1, cells=9)))
    assert "5 Measure [/b] in [0, 1]" in screen.file.getvalue()
