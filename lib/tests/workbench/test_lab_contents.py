"""A notebook that was executed and saved in JupyterLab is no change for git, and its outputs are there again."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

from netrepro.workbench.catalogue.clean_notebook import clean_notebook
from netrepro.workbench.catalogue.lab_contents import OutputsAside

REPOSITORY = Path(__file__).parents[3]
WIDGETS = {"application/vnd.jupyter.widget-state+json": {"state": {}, "version_major": 2, "version_minor": 0}}


def after_running(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a notebook as JupyterLab holds it after all of its cells have run."""
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
        cell.execution_count = count
        cell.outputs = [nbformat.v4.new_output("stream", text=f"seen {count}\n")]
        cell.metadata.update(execution={"iopub.execute_input": "2026-11-27T08:00:00Z"}, scrolled=True, trusted=True)
    notebook.metadata.update(widgets=WIDGETS, language_info={"name": "python", "version": "3.12.1"})
    notebook.metadata["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
    return notebook


@pytest.mark.parametrize("path", sorted((REPOSITORY / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_running_changes_nothing_that_is_committed(path):
    committed = path.read_text()
    ran = nbformat.writes(after_running(nbformat.reads(committed, as_version=4)))
    assert clean_notebook(ran) == clean_notebook(committed) == committed


class Lab:
    """A workbench of one committed notebook, and JupyterLab's file manager in it."""

    def __init__(self, root: Path, commit_all: Any):
        self.root, self.path = root, "notebooks/10_echo.ipynb"
        self.file = root / self.path
        self.file.write_text(clean_notebook(self.file.read_text()))
        commit_all(root)
        (root / ".git/info/exclude").write_text("runs/\n.ipynb_checkpoints/\n")
        self.manager = OutputsAside(root_dir=str(root))

    def open(self) -> nbformat.NotebookNode:
        return asyncio.run(self.manager.get(self.path))["content"]

    def save(self, notebook: nbformat.NotebookNode, path: str | None = None) -> None:
        asyncio.run(self.manager.save({"type": "notebook", "content": notebook}, path or self.path))

    def changed(self) -> str:
        command = ["git", "-C", str(self.root), "status", "--porcelain"]
        return subprocess.run(command, check=True, text=True, capture_output=True).stdout


@pytest.fixture
def lab(echo_paper, workbench, commit_all) -> Lab:
    return Lab(workbench, commit_all)


def test_what_was_seen_is_there_again_and_git_sees_nothing(lab):
    lab.save(after_running(lab.open()))
    assert lab.changed() == ""
    again = lab.open()
    assert again.metadata["widgets"] == WIDGETS
    shown = [cell.outputs[0].text for cell in again.cells if cell.cell_type == "code"]
    assert shown and shown == [f"seen {count}\n" for count in range(1, len(shown) + 1)]


def test_an_edited_cell_is_the_only_change(lab):
    before = nbformat.read(lab.file, as_version=4)
    notebook = after_running(lab.open())
    notebook.cells[0].source += "\nA thought of mine."
    lab.save(notebook)
    assert lab.path in lab.changed()
    after = nbformat.read(lab.file, as_version=4)
    assert after.cells[1:] == before.cells[1:] and after.metadata == before.metadata
    assert after.cells[0].source == before.cells[0].source + "\nA thought of mine."


def test_a_cell_that_changed_on_disk_has_lost_its_outputs_and_the_others_have_theirs(lab):
    lab.save(after_running(lab.open()))
    fetched = nbformat.read(lab.file, as_version=4)
    code = [cell for cell in fetched.cells if cell.cell_type == "code"]
    code[0].source += "  # as somebody else has it now"
    lab.file.write_text(clean_notebook(nbformat.writes(fetched)))
    shown = [cell.outputs for cell in lab.open().cells if cell.cell_type == "code"]
    assert shown[0] == [] and shown[1:] and all(shown[1:])


def test_a_notebook_elsewhere_keeps_its_outputs_in_itself(lab):
    (lab.root / "mine").mkdir()
    lab.save(after_running(lab.open()), "mine/copy.ipynb")
    assert "seen 1" in (lab.root / "mine" / "copy.ipynb").read_text()
    assert not (lab.root / "runs" / "lab").exists()


def test_a_damaged_file_is_written_anew(lab):
    notebook = lab.open()
    lab.file.write_text('{"cells": [')
    lab.save(notebook)
    assert lab.changed() == ""


def test_make_lab_keeps_files_so():
    named = f"{OutputsAside.__module__}.{OutputsAside.__name__}"
    assert f"--ServerApp.contents_manager_class={named}" in (REPOSITORY / "Makefile").read_text()


def test_a_damaged_memory_of_what_was_seen_keeps_no_notebook_closed(lab):
    lab.save(after_running(lab.open()))
    (lab.root / "runs/lab/10_echo.ipynb").write_text('{"cells": [')
    assert [cell.source for cell in lab.open().cells] == [c.source for c in nbformat.read(lab.file, as_version=4).cells]


def test_where_nothing_can_be_kept_aside_the_work_is_saved_all_the_same(lab):
    (lab.root / "runs").write_text("a file in the way")
    notebook = after_running(lab.open())
    notebook.cells[0].source += "\nA thought of mine."
    lab.save(notebook)
    assert "A thought of mine." in lab.file.read_text() and "seen 1" in lab.file.read_text()
