"""The runner: what a notebook does never escapes its status, what a person mistypes never starts anything."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import nbformat
import pytest

from netrepro import provenance
from netrepro.emulation.tiers import TierProbe, TierStatus
from netrepro.errors import NetreproError
from netrepro.files import held
from netrepro.provenance import code_hash
from netrepro.tiers_and_profiles import TIERS
from netrepro.workbench.catalogue.notebooks import Declaration
from netrepro.workbench.running import runner, supervise
from netrepro.workbench.running.run_folder import Status, good_status, own_results
from netrepro.workbench.running.runner import RunEvent, RunReport, run, run_variants

FIXTURES = Path(__file__).parents[1] / "notebooks"
DAMAGED = (
    "broken_json",
    "endless_cell",
    "killed_kernel",
    "missing_kernel",
    "no_parameters_cell",
    "no_results",
    "raised_exception",
    "untyped_parameter",
)


def our_processes(folder: Path) -> list[str]:
    """Command lines of processes whose environment names a run below `folder`, or who write their output there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            writes = (process / "fd" / "1").readlink().is_relative_to(folder)
            if writes or str(folder).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def damaged_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, RunReport, list[RunEvent]]]:
    """One run over every damaged notebook and a good one, two at a time."""
    root = tmp_path_factory.mktemp("damaged")
    (root / "data").mkdir()
    (root / "notebooks").mkdir()
    for slug in (*DAMAGED, "well_behaved"):
        shutil.copy(FIXTURES / f"{slug}.ipynb", root / "notebooks" / f"10_{slug}.ipynb")
    events: list[RunEvent] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETREPRO_ROOT", str(root))
        report = run(jobs=2, on_event=events.append, patience=6)
        yield root, report, events


def status_of(report: RunReport, slug: str) -> Status:
    return next(status for status in report.statuses if status.slug == slug)


@pytest.mark.parametrize(
    ("slug", "outcome", "words"),
    [
        ("raised_exception", "failed", "ZeroDivisionError: float division by zero"),
        ("killed_kernel", "kernel died", "out of memory"),
        ("endless_cell", "timed out", "longer than 6 s"),
        ("missing_kernel", "failed", "no Jupyter kernel called 'no-such-kernel'"),
        ("no_parameters_cell", "failed", "no cell tagged `parameters`"),
        ("untyped_parameter", "failed", "load = 0.5"),
        ("broken_json", "failed", "not valid JSON"),
        ("no_results", "failed", "without report.finish"),
    ],
)
def test_each_damage_gets_its_own_status_and_says_what_happened(damaged_set, slug, outcome, words):
    status = status_of(damaged_set[1], slug)
    assert status.outcome == outcome
    assert words in status.exception
    assert status.command == f"netrepro run {slug}"


def test_one_damaged_notebook_does_not_stop_the_others(damaged_set):
    root, report, _ = damaged_set
    assert status_of(report, "well_behaved").ok
    assert "load 0.5, 4 flows, quick, simulated" in (root / "runs/quick/10_well_behaved/log.txt").read_text()
    assert len(report.statuses) == len(DAMAGED) + 1
    assert report.exit_code == 1


def test_a_failure_names_heading_and_cell_and_shows_the_last_lines_of_the_log(damaged_set):
    status = status_of(damaged_set[1], "raised_exception")
    assert status.heading == "5 Measure"
    assert "in '5 Measure', cell 4" in status.explanation()
    assert any("about to divide" in line for line in status.log_tail)
    assert status.explanation().endswith("again: netrepro run raised_exception")


def test_a_notebook_out_of_time_says_which_line_it_was_at(damaged_set):
    told = status_of(damaged_set[1], "endless_cell").explanation()
    assert re.search(r"it was here:\n.*ipykernel_\d+/\d+\.py\", line 5 in <module>", told), told


@pytest.mark.parametrize("slug", ["killed_kernel", "endless_cell", "raised_exception"])
def test_the_executed_copy_never_calls_a_cell_completed_that_did_not_run(damaged_set, slug):
    executed = nbformat.read(damaged_set[0] / f"runs/quick/10_{slug}--failed/executed.ipynb", as_version=4)
    cells = [cell for cell in executed.cells if cell.cell_type == "code" and "papermill" in cell.metadata]
    states = [cell.metadata.papermill.status for cell in cells if cell.metadata.papermill.get("status")]
    assert states[-1] == "pending" and "failed" in states
    assert executed.metadata.papermill.exception is True


def test_the_manifest_says_what_the_run_stood_on(damaged_set):
    manifest = json.loads((damaged_set[0] / "runs/quick/10_well_behaved/manifest.json").read_text())
    assert manifest["parameters"] == {"profile": "quick", "tier": "simulated", "load": 0.5, "flow_count": 4}
    assert manifest["outcome"] == "ok"
    assert {"git", "cpu", "kernel", "cores", "load_average", "why_tier", "started", "ended"} <= manifest.keys()


def test_a_run_says_what_it_cost_with_the_programs_that_it_started(add_notebook, workbench):
    path = add_notebook("well_behaved")
    notebook = nbformat.read(path, as_version=4)
    busy = "import time; held = b'x' * 320_000_000\nwhile time.process_time() < 1: pass"
    notebook.cells.append(
        nbformat.v4.new_code_cell(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])")
    )
    nbformat.write(notebook, path)
    (status,) = run().statuses
    assert status.ok and status.cpu_s >= 1 and 300 <= status.peak_mb < 1000
    manifest = json.loads((status.folder / "manifest.json").read_text())
    assert (manifest["cpu_s"], manifest["peak_mb"]) == (round(status.cpu_s, 2), round(status.peak_mb))


def test_nothing_is_left_running_or_half_written(damaged_set):
    root, _, _ = damaged_set
    assert our_processes(root / "runs") == []
    assert list((root / "runs/quick").glob(".*")) == []
    for folder in (root / "runs/quick").iterdir():
        assert (folder / "status.json").exists() and (folder / "manifest.json").exists()


def test_progress_names_the_heading_while_a_notebook_runs(damaged_set):
    headings = {e.progress.heading for e in damaged_set[2] if e.kind == "progress" and e.progress}
    assert "5 Measure" in headings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"parameters": {"laod": 0.7}}, "did you mean 'load'"),
        ({"parameters": {"load": "heavy"}}, "not of type float"),
        ({"parameters": {"flow_count": 1.5}}, "not of type int"),
        ({"profile": "papr"}, "did you mean 'paper'"),
        ({"tier": "simulatd"}, "did you mean 'simulated'"),
        ({"names": None, "tier": "simulatd"}, "did you mean 'simulated'"),  # and not: nothing runs on it
        ({"names": ["well_behavd"]}, "did you mean 'well_behaved'"),
        ({"jobs": 0}, "1 or more"),
        ({"patience": 0}, "positive"),
    ],
)
def test_a_mistake_is_refused_before_anything_starts(add_notebook, workbench, arguments, words):
    add_notebook("well_behaved")
    events: list[RunEvent] = []
    with pytest.raises(NetreproError, match=words):
        run(**{"names": ["well_behaved"], **arguments}, on_event=events.append)
    assert events == []
    assert not list((workbench).rglob("executed.ipynb"))


def test_the_command_line_refuses_a_mistyped_parameter_naming_the_right_one(add_notebook):
    add_notebook("well_behaved")
    command = [sys.executable, "-m", "netrepro.workbench.cli.commands", "run", "well_behaved", "-p", "laod=0.5"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert "did you mean 'load'" in result.stdout


def test_a_run_never_touches_what_is_published(echo_paper, workbench):
    published = workbench / "figures/echo/results.json"
    published.parent.mkdir()
    published.write_text('{"paper": "echo", "runs": {}}')
    assert run(["echo"]).ok
    assert published.read_text() == '{"paper": "echo", "runs": {}}' and list(published.parent.iterdir()) == [published]
    assert {"results.json", "fig1_load.png", "fig1_load.svg"} <= {
        path.name for path in (workbench / "runs/quick/10_echo").iterdir()
    }


def result_of(folder: Path) -> dict:
    (result,) = json.loads((folder / "results.json").read_text())["runs"].values()
    return result


def test_a_run_with_other_parameters_gets_a_folder_of_its_own_and_names_them(echo_paper, workbench):
    report = run(["echo"], parameters={"load": "0.7", "seed": "1"})
    assert report.ok, report.statuses[0].explanation()
    assert result_of(workbench / "runs/quick/10_echo--load=0.7")["changed"] == {"load": 0.7}
    assert not (workbench / "runs/quick/10_echo").exists()


def test_a_parameter_given_its_default_is_the_default_run(echo_paper, workbench):
    assert run(["echo"], parameters={"load": "0.5"}).ok
    assert "changed" not in result_of(workbench / "runs/quick/10_echo")


def test_settings_edited_and_saved_are_no_default_run(good_echo, echo_paper, workbench, commit_all):
    commit_all(workbench)
    echo_paper.write_text(echo_paper.read_text().replace("load: float = 0.5", "load: float = 0.7"))
    report = run(["echo"])
    assert report.ok, report.statuses[0].explanation()
    assert result_of(workbench / "runs/quick/10_echo--load=0.7")["changed"] == {"load": 0.7}
    assert report.statuses[0].command == "netrepro run echo -p load=0.7"
    assert "changed" not in result_of(good_echo)
    commit_all(workbench)  # now it is the standard
    assert run(["echo"]).statuses[0].name == "10_echo"


def test_resume_keeps_what_ended_well_and_repeats_what_changed(echo_paper, workbench, pretended_runs):
    assert not run(["echo"]).statuses[0].reused
    assert run(["echo"], resume=True).statuses[0].reused
    claims = workbench / "data/echo/claims.yaml"
    claims.write_text(claims.read_text() + "\n# a changed input\n")
    assert not run(["echo"], resume=True).statuses[0].reused


def test_resume_asks_the_code_behind_the_numbers_and_not_the_whole_library(echo_paper, pretended_runs, monkeypatch):
    monkeypatch.setattr(runner, "code_of", lambda slug, tier: f"code of {slug}")
    run(["echo"])
    monkeypatch.setattr(runner, "code_hash", lambda: "a library with another picture")
    assert run(["echo"], resume=True).statuses[0].reused
    assert not run(["echo"], resume="same library").statuses[0].reused
    assert run(["echo"], resume="same library").statuses[0].reused
    monkeypatch.setattr(runner, "code_of", lambda slug, tier: f"new code of {slug}")
    assert not run(["echo"], resume=True).statuses[0].reused


def test_resume_repeats_a_run_of_another_profile_in_the_same_folder(echo_paper, workbench, pretended_runs):
    into = workbench / "runs/own"
    assert not run(["echo"], into=into).statuses[0].reused
    assert run(["echo"], into=into, resume=True).statuses[0].reused
    assert not run(["echo"], into=into, profile="paper", resume=True).statuses[0].reused


@pytest.mark.parametrize("has_parameter", [True, False])
def test_resume_repeats_a_simulated_run_where_auto_has_become_another_tier(
    add_notebook, pretended_runs, monkeypatch, has_parameter
):
    path = add_notebook("well_behaved")
    if not has_parameter:
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            cell.source = "\n".join(line for line in cell.source.splitlines() if "tier" not in line)
        nbformat.write(notebook, path)
    monkeypatch.setattr(runner, "resolve_tier", lambda *_: ("simulated", "nothing else"))
    for is_reused in (False, True):
        assert run(["well_behaved"], resume=True).statuses[0].reused is is_reused
    monkeypatch.setattr(runner, "resolve_tier", lambda *_: ("virtual", "the kernel is built"))
    assert not run(["well_behaved"], resume=True).statuses[0].reused


def test_resume_keeps_a_run_of_a_notebook_that_was_then_saved_with_outputs(echo_paper, pretended_runs):
    run(["echo"])
    saved = json.loads(echo_paper.read_text())
    code = [cell for cell in saved["cells"] if cell["cell_type"] == "code"]
    code[0]["outputs"], code[0]["execution_count"] = [{"output_type": "stream", "name": "stdout", "text": ["1"]}], 3
    saved["metadata"]["widgets"] = {}
    echo_paper.write_text(json.dumps(saved))
    assert run(["echo"], resume=True).statuses[0].reused
    code[-1]["source"] = [*code[-1]["source"], "\n# another cell"]
    echo_paper.write_text(json.dumps(saved))
    assert not run(["echo"], resume=True).statuses[0].reused


def test_results_name_the_code_that_measured_them(finished_echo):
    assert result_of(finished_echo)["library"] == code_hash()


def test_a_run_of_a_library_that_was_edited_meanwhile_is_refused(echo_paper, monkeypatch):
    monkeypatch.setattr(supervise, "code_hash", lambda: "edited")
    (status,) = run(["echo"]).statuses
    assert status.outcome == "failed" and "the library was edited since the run began" in status.exception


def test_a_core_of_other_sources_is_refused_before_anything_starts(echo_paper, workbench, monkeypatch):
    monkeypatch.setattr(provenance, "core_stamp", lambda: "of yesterday")
    with pytest.raises(NetreproError, match="make setup"):
        run(["echo"])
    assert not (workbench / "runs").exists()


def test_variants_of_one_notebook_run_side_by_side(add_notebook, workbench, pretended_runs):
    add_notebook("well_behaved")
    report = run_variants(
        "well_behaved", [{"flow_count": count} for count in (1, 2)], into=workbench / "runs/variants", jobs=2
    )
    assert report.ok
    names = {status.name for status in report.statuses}
    assert names == {"10_well_behaved--flow_count=1", "10_well_behaved--flow_count=2"}


@pytest.mark.parametrize("patience", [1, 2])
def test_many_short_cells_have_a_limit_in_all_which_patience_stretches(add_notebook, monkeypatch, patience):
    monkeypatch.setattr(runner, "START_S", 0)
    path = add_notebook("well_behaved", budget_s={"quick": 2, "paper": 2})
    notebook = nbformat.read(path, as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell("import time\ntime.sleep(1)") for _ in range(60)]
    nbformat.write(notebook, path)
    (status,) = run(["well_behaved"], patience=patience).statuses
    assert status.outcome == "timed out" and f"longer than {2 * patience} s in all" in status.exception


def test_a_kernel_that_has_not_started_when_its_time_is_over_is_not_asked_where_it_is(
    add_notebook, monkeypatch, tmp_path
):
    """The question is a signal that it cannot take yet: it would die of it, and be said to have failed."""
    (tmp_path / "slow").mkdir()
    slow = "import sys, time\nif any('ipykernel' in word for word in sys.orig_argv):\n    time.sleep(20)\n"
    (tmp_path / "slow/sitecustomize.py").write_text(slow)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "slow"))
    monkeypatch.setattr(runner, "START_S", 0)
    monkeypatch.delattr("os.pidfd_open")  # a fork would be a kernel at once
    add_notebook("well_behaved", budget_s={"quick": 6, "paper": 6})
    (status,) = run(["well_behaved"], patience=1).statuses
    assert (status.outcome, status.cell) == ("timed out", None)


@pytest.mark.parametrize(("asked", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGHUP, 1)])
def test_ctrl_c_stops_every_notebook_and_leaves_nothing_half_written(add_notebook, workbench, asked, times):
    """Twice at once is once, as `timeout` asks a process and then its group. SIGHUP: its terminal was closed."""
    add_notebook("endless_cell", 10, budget_s={"quick": 60, "paper": 60})
    add_notebook("well_behaved", 20, budget_s={"quick": 90, "paper": 90})  # so the other one runs first
    command = [sys.executable, "-m", "netrepro.workbench.cli.commands", "run", "--jobs", "1"]
    with tempfile.TemporaryFile("w+") as output:
        # Who runs the tests under nohup ignores the signal of a closed terminal, and would hand that on.
        heard = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
        process = subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=heard)
        log = workbench / "runs/quick"
        deadline = time.monotonic() + 60
        while not any("waiting" in path.read_text() for path in log.glob(".partial*endless*/log.txt")):
            assert time.monotonic() < deadline and process.poll() is None, "the endless cell did not start"
            time.sleep(0.1)
        for _ in range(times):
            process.send_signal(asked)
            time.sleep(0.02)  # else both may arrive as one
        assert process.wait(60) == 130
        output.seek(0)
        text = output.read()
    assert "2 interrupted" in text and "10_endless_cell: interrupted in '5 Measure', cell " in text
    assert "1 not begun; to go on: the same command with --resume" in text
    assert list((workbench / "runs/quick").iterdir()) == []
    assert our_processes(workbench) == []


def wait_until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def waits_in_its_endless_cell(workbench: Path) -> bool:
    return any("waiting" in path.read_text() for path in workbench.glob("runs/quick/.partial*endless*/log.txt"))


def test_a_notebook_runs_where_temporary_files_have_a_long_path(echo_paper, tmp_path, monkeypatch):
    """Its kernel is reached over Unix sockets, whose paths have 107 bytes at most."""
    long = tmp_path / ("t" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert [status.outcome for status in run(["echo"], jobs=1).statuses] == ["ok"]


def test_a_runner_whose_output_nobody_reads_any_more_ends_what_it_has_started(add_notebook, workbench):
    """`| head -1` is such a reader: the runner cannot tell of the first notebook, while the second goes on."""
    add_notebook("endless_cell", 10, budget_s={"quick": 600, "paper": 600})
    add_notebook("well_behaved", 20, last=True)
    code = """
from netrepro.workbench import run
from pathlib import Path
def tell(event):
    if any("waiting" in path.read_text() for path in Path("runs/quick").glob(".partial*/log.txt")):
        raise BrokenPipeError
run(on_event=tell)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=workbench, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1 and "BrokenPipeError" in done.stderr
    assert our_processes(workbench) == [] and list((workbench / "runs/quick").iterdir()) == []


def test_nothing_goes_on_without_a_runner_that_was_killed(add_notebook, workbench):
    add_notebook("endless_cell", 10, budget_s={"quick": 600, "paper": 600})
    called = [sys.executable, "-m", "netrepro.workbench.cli.commands", "run"]
    with subprocess.Popen(called, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: waits_in_its_endless_cell(workbench), "the endless cell did not start")
        process.kill()
    wait_until(lambda: our_processes(workbench) == [], "something goes on without its runner")


def test_a_killed_runner_leaves_a_folder_that_the_next_run_removes(add_notebook, workbench, pretended_runs):
    add_notebook("well_behaved")
    runs = workbench / "runs/quick"
    dead, alive, far = (letter * 12 for letter in "abc")
    for name in (
        f".partial-10_well_behaved-{dead}",
        f".aside-10_good-{dead}",
        f".partial-10_other-{alive}",
        f".partial-10_far-{far}",
    ):
        (runs / name).mkdir(parents=True)
    (runs / f".living-{dead}").write_text(socket.gethostname())
    (runs / f".living-{far}").write_text("another-machine")
    with held(runs / f".living-{alive}"):
        assert run(["well_behaved"]).ok
        left = {path.name for path in runs.iterdir()}
    assert left == {
        "10_well_behaved",
        "10_good",
        f".partial-10_other-{alive}",
        f".living-{alive}",
        f".partial-10_far-{far}",
        f".living-{far}",
    }


def fail_at(notebook: Path, code: str) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.cells.append(nbformat.v4.new_code_cell(code))
    nbformat.write(content, notebook)


def test_a_failed_run_leaves_the_good_one_and_is_named_beside_it(good_echo, echo_paper, workbench):
    good = good_echo
    before = {path.name: path.read_bytes() for path in good.iterdir()}
    fail_at(echo_paper, "1 / 0")
    report = run(["echo"])
    (status,) = report.statuses
    assert not status.ok and status.folder == workbench / "runs/quick/10_echo--failed"
    assert {path.name: path.read_bytes() for path in good.iterdir()} == before
    assert own_results("echo").runs["quick/simulated"].answer
    explained = status.explanation()
    assert "what it left: runs/quick/10_echo--failed" in explained
    assert "the last good run stays: runs/quick/10_echo" in explained
    assert list(report.table()["stays"]) == [good]
    assert not run(["echo"], resume=True).ok  # the good one is of another notebook


def test_a_run_out_of_time_leaves_the_good_one(good_echo, echo_paper):
    good = good_echo
    notebook = nbformat.read(echo_paper, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("__import__('time').sleep(60)"))
    nbformat.write(notebook, echo_paper)
    (status,) = run(["echo"], patience=0.01).statuses
    assert status.outcome == "timed out" and good_status(good) is not None and status.stays == good


def test_a_run_that_ends_well_removes_what_the_failed_one_left(echo_paper, workbench, pretended_runs):
    (workbench / "runs/quick/10_echo--failed").mkdir(parents=True)
    assert run(["echo"]).ok
    assert [path.name for path in (workbench / "runs/quick").iterdir()] == ["10_echo"]


def test_two_runs_of_one_notebook_at_once_both_end_well(echo_paper, workbench):
    code = "from netrepro.workbench import run; import sys; sys.exit(run(['echo']).exit_code)"
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert [path.name for path in (workbench / "runs/quick").iterdir()] == ["10_echo"]


def test_a_file_in_place_of_the_runs_folder_is_refused_at_once(add_notebook, workbench):
    add_notebook("well_behaved")
    (workbench / "runs").write_text("not a folder")
    with pytest.raises(NetreproError, match="cannot write"):
        run(["well_behaved"])


def test_a_full_disk_is_a_failed_run_that_says_so(add_notebook, workbench):
    """On a real file system of 1 MB, mounted in a mount namespace of its own."""
    add_notebook("fills_the_disk")
    script = 'mount -t tmpfs -o size=1m tmpfs "$1" && "$2" -m netrepro.workbench.cli.commands run fills_the_disk'
    script += '; status=$?; ls -A "$1"/quick; exit $status'
    (workbench / "runs").mkdir()
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    tried = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True)
    if tried.returncode:
        pytest.skip(f"needs user namespaces: {tried.stderr.decode().strip()}")
    result = subprocess.run([*command, str(workbench / "runs"), sys.executable], capture_output=True, text=True)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "no space left" in result.stdout.lower()
    assert result.stdout.splitlines()[-1] == "10_fills_the_disk--failed", "what it left can be looked at"


def test_real_kernels_may_have_another_budget_in_the_profiles_that_name_one():
    declared = Declaration(slug="echo", budget_s={"quick": 60, "paper": 600}, emulated_budget_s={"paper": 9000})
    assert [declared.budget_on("simulated", profile) for profile in ("quick", "paper")] == [60, 600]
    assert [declared.budget_on("rootless", profile) for profile in ("quick", "paper")] == [60, 9000]


def offer(monkeypatch, *available: str) -> None:
    """Make it a machine of these tiers."""
    found = {tier: TierStatus(available=tier in available, why=f"as {tier} is tried") for tier in TIERS}
    monkeypatch.setattr(runner, "probe_tiers", lambda: TierProbe(**found))


@pytest.mark.parametrize(
    ("available", "second"),
    [(TIERS, "privileged"), (("rootless", "simulated"), "rootless"), (("simulated",), "")],
)
def test_with_both_a_notebook_that_asks_for_it_runs_on_both_kinds_of_tiers(
    echo_paper, add_notebook, workbench, monkeypatch, pretended_runs, available, second
):
    offer(monkeypatch, *available)
    tiers = ["simulated", "privileged", "rootless"]
    budgets = {"tiers": tiers, "emulated_budget_s": {"quick": 77}}
    add_notebook("echo", both_kinds=True, **budgets)
    add_notebook("well_behaved", 11, **budgets)
    report = run(both=True)
    assert report.ok, [status.explanation() for status in report.statuses]
    expected = ["10_echo", *([f"10_echo--tier={second}"] if second else []), "11_well_behaved"]
    assert [status.name for status in report.statuses] == expected
    if second:
        assert report.statuses[1].budget_s == 77 and f"--tier {second}" in report.statuses[1].command
    tiers = [status.parameters["tier"] for status in report.statuses[:-1]]
    assert sorted(tiers) == sorted(["simulated", *([second] if second else [])])


def test_a_notebook_runs_on_one_tier_where_nobody_asks_for_both(add_notebook, workbench, monkeypatch, pretended_runs):
    offer(monkeypatch, *TIERS)
    add_notebook("well_behaved", both_kinds=True, tiers=["privileged", "simulated"])
    assert [status.name for status in run().statuses] == ["10_well_behaved"]
    for options in ({}, {"names": ["well_behaved"]}):
        names = [status.name for status in run(both=True, **options).statuses]
        assert names == ["10_well_behaved", "10_well_behaved--tier=simulated"]


def test_both_tiers_and_one_tier_are_not_asked_for_together(workbench):
    with pytest.raises(NetreproError, match="--both with --tier virtual"):
        run(both=True, tier="virtual")
