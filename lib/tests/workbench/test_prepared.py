"""Runs are forks of one process that has imported the library, and nobody can tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from netrepro.workbench.running import prepared, runner

WHO = (
    "import os, sys, random, numpy\n"
    "print('own', os.getppid(), os.environ['OWN_VARIABLE'], os.getcwd(), random.random(), numpy.random.rand())\n"
    "print('inline', 'matplotlib_inline' in __import__('matplotlib').get_backend(), sys.stdin.read())"
)


@pytest.fixture
def tell(add_notebook, monkeypatch):
    """Run a notebook of one cell and return what the cell has printed."""

    def run(source: str = WHO) -> list[list[str]]:
        path = add_notebook("well_behaved")
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.append(nbformat.v4.new_code_cell(source))
        nbformat.write(notebook, path)
        (status,) = runner.run(["well_behaved"]).statuses
        assert status.ok and status.folder, status.explanation()
        executed = nbformat.read(status.folder / "executed.ipynb", as_version=4)
        return [line.split() for line in executed.cells[-1].outputs[0].text.splitlines()]

    monkeypatch.setenv("OWN_VARIABLE", "first")
    return run


def the_prepared() -> int:
    assert prepared._newest.process is not None
    return prepared._newest.process.pid


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_two_runs_are_forks_of_one_process_with_their_own_folder_and_random_numbers(tell, workbench):
    code = WHO.replace("os.getppid()", "int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1])")
    (one, drawn), (other, _) = tell(code), tell(code)
    assert int(one[1]) == int(other[1]) == the_prepared() and parent(the_prepared()) == os.getpid()
    assert Path(one[3]) == workbench / "notebooks" and one[2] == "first"
    assert one[4] != other[4] and one[5] != other[5]
    assert drawn == ["inline", "True"]


def test_another_environment_is_that_of_the_run_and_so_of_what_it_imports(tell, monkeypatch):
    tell()
    before = the_prepared()
    monkeypatch.setenv("OWN_VARIABLE", "second")
    assert tell()[0][2] == "second" and the_prepared() != before


def test_other_code_is_not_run_by_a_process_that_has_read_the_old(tell):
    tell()
    before, (code, environment) = the_prepared(), prepared._newest.key
    prepared._newest.key = (f"older than {code}", environment)
    tell()
    assert the_prepared() != before


def test_a_prepared_process_that_was_killed_is_replaced(tell):
    tell()
    killed = the_prepared()
    os.kill(killed, signal.SIGKILL)
    prepared._newest.process.wait()
    assert tell()[0][2] == "first"  # by its command, or by another
    assert tell()[0][2] == "first" and the_prepared() != killed


def test_without_such_a_process_a_run_imports_for_itself(tell, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    assert tell()[0][2] == "first"


def test_it_ends_with_its_runner():
    code = (
        "import os, sys\nfrom netrepro.workbench.running import prepared\n"
        "prepared._newest.replace('key', dict(os.environ))\nprint(prepared._newest.process.pid)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for _ in range(600):
        if not Path(f"/proc/{int(said.stdout)}").exists():
            return
        time.sleep(0.1)
    pytest.fail("it goes on")
