"""The programs in a notebook's examples."""

from __future__ import annotations

import ast

import nbformat

from netrepro.paths import notebooks_dir


def examples_of(notebook: str) -> dict[str, str]:
    """Read the texts in the cells that are tagged as examples: name of the variable -> text."""
    cells = nbformat.read(notebooks_dir() / f"{notebook}.ipynb", as_version=4).cells
    sources = [cell.source for cell in cells if "example" in cell.metadata.get("tags", [])]
    assigned = [ast.parse(source).body[0] for source in sources]
    return {each.targets[0].id: ast.literal_eval(each.value) for each in assigned}  # type: ignore[attr-defined]
