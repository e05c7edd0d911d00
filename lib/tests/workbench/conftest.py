"""A lesson: a notebook with exercises."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from netrepro.workbench.exercises import FOLDED

SECRET = "double = 2 * load\ndouble, [load, load + 1]"


@pytest.fixture
def lesson(echo_paper) -> Path:
    """The paper `echo` with four exercises, of which the third is read by a person."""
    notebook = nbformat.read(echo_paper, as_version=4)
    text = f"## 12 Try next\n\n1. Twice the load?\n2. Its neighbours?\n3. Why?\n4. Half of it?\n\n{FOLDED}"
    notebook.cells.append(nbformat.v4.new_markdown_cell(text))
    both = {"exercise": [1, 2], "answer": ["the load, doubled", "the load and one more"], "within": [0.05, 0]}
    half = {"exercise": 4, "answer": "half of the load", "within": 0.01}
    for source, said in ((SECRET, both), ("'because'", {"exercise": 3}), ("load / 2", half)):
        cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["solution"], "netrepro": said})
        notebook.cells.append(cell)
    nbformat.write(notebook, echo_paper)
    return echo_paper
