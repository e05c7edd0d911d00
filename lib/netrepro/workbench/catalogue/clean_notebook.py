"""Notebooks as they are committed: without outputs, execution counts and the metadata that JupyterLab adds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LEFT_BY_RUNNING = ("collapsed", "execution", "scrolled", "trusted")


def clean_notebook(written: str) -> str:
    """Return a notebook's JSON text as it is committed. Raises ValueError for text that is not JSON."""
    notebook: dict[str, Any] = json.loads(written)
    for cell in notebook["cells"]:
        for key in LEFT_BY_RUNNING:
            cell["metadata"].pop(key, None)
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    notebook["metadata"].pop("widgets", None)
    notebook["metadata"].update(kernelspec=KERNEL, language_info={"name": "python"})
    return notebook_text(notebook)


def notebook_text(notebook: dict[str, Any]) -> str:
    """Return a notebook as JSON text, with its keys in the order in which JupyterLab writes them."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(clean_notebook(path.read_text(encoding="utf-8")), encoding="utf-8")
