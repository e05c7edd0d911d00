"""Figures drawn again: a run whose tables are damaged is named, and hides no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from netrepro.errors import NetreproError
from netrepro.workbench.publishing.redraw import redraw

NOTEBOOK = Path(__file__).parents[3] / "notebooks/14_dctcp.ipynb"


@pytest.fixture
def tables(workbench) -> Path:
    """The folder of tables of a run of a paper that is a Study, still empty."""
    shutil.copy(NOTEBOOK, workbench / "notebooks")
    folder = workbench / "runs/quick/14_dctcp/tables"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("text", ["{", "[]", '{"slug": "dctcp"}'])
def test_damaged_tables_are_named_with_what_to_do(tables, text):
    (tables / "run.json").write_text(text)
    with pytest.raises(NetreproError, match=r"the tables in .*14_dctcp cannot be read: .*\n  measure again"):
        redraw("dctcp", tables.parent)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_damaged_run_is_none(tables, text):
    (tables / "run.json").write_text(text)
    with pytest.raises(NetreproError, match="no run of dctcp has left tables"):
        redraw("dctcp")
