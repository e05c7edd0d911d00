"""JupyterLab in a clone: notebook files keep their committed form, and their outputs are kept elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from nbformat import NotebookNode

from netrepro.files import write_atomically
from netrepro.paths import notebooks_dir, runs_dir
from netrepro.workbench.catalogue.clean_notebook import clean_notebook


def with_outputs(notebook: NotebookNode, seen: NotebookNode) -> NotebookNode:
    """Return `notebook` with each unchanged cell replaced by that of `seen`, the copy last saved with outputs."""
    if clean_notebook(nbformat.writes(notebook)) == clean_notebook(nbformat.writes(seen)):
        return seen
    before = {cell.get("id"): cell for cell in seen.cells}
    for place, cell in enumerate(notebook.cells):
        saved = before.get(cell.get("id"))
        if saved and (saved.cell_type, saved.source) == (cell.cell_type, cell.source):
            notebook.cells[place] = saved
    return notebook


def is_change(clean: str, before: str) -> bool:
    """Tell whether a cleaned notebook differs from the file's text `before`; from a damaged file it always does."""
    try:
        return clean != clean_notebook(before)
    except (ValueError, KeyError, TypeError):
        return True


class OutputsAside(AsyncLargeFileManager):
    """JupyterLab's file manager, except that a notebook of notebooks/ is saved without its outputs.

    Git then sees only what a person changed, and `git pull` still works. The notebook with its outputs is saved in
    runs/lab/, and gets them back from there when it is opened.
    """

    def _whole(self, os_path: str) -> Path | None:
        path = Path(os_path).resolve()
        is_ours = path.suffix == ".ipynb" and path.parent == notebooks_dir()
        return runs_dir() / "lab" / path.name if is_ours else None

    async def _read_notebook(
        self, os_path: str, as_version: int = 4, capture_validation_error: Any = None, raw: bool = False
    ) -> Any:
        read = await super()._read_notebook(os_path, as_version, capture_validation_error, raw)
        whole = self._whole(os_path)
        if whole is None or not whole.exists():
            return read
        try:
            seen = nbformat.read(whole, as_version=as_version)
        except (OSError, ValueError):  # the outputs are lost; the notebook is not
            return read
        notebook = with_outputs(read[0] if raw else read, seen)
        return (notebook, read[1]) if raw else notebook

    async def _save_notebook(self, os_path: str, nb: NotebookNode, capture_validation_error: Any = None) -> None:
        whole, path = self._whole(os_path), Path(os_path)
        if whole is None:
            await super()._save_notebook(os_path, nb, capture_validation_error)
            return
        written = nbformat.writes(nb, capture_validation_error=capture_validation_error)
        try:
            whole.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(whole, written)
        except OSError:  # runs/lab/ cannot be written: outputs that git sees are better than lost work
            await super()._save_notebook(os_path, nb, capture_validation_error)
            return
        clean = clean_notebook(written)
        if not path.exists() or is_change(clean, path.read_text(encoding="utf-8")):
            write_atomically(path, clean)
