"""In which order tests begin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import conftest

TESTS = Path(conftest.__file__).parent


def test_long_files_begin_first_and_all_else_keeps_its_order():
    names = ["claims/a", "papers/b", "test_style.py", "workbench/c", "papers/a", "test_browser.py"]
    items = [SimpleNamespace(path=TESTS / name) for name in names]
    conftest.pytest_collection_modifyitems(items)
    ordered = [item.path.relative_to(TESTS).as_posix() for item in items]
    assert ordered == ["test_browser.py", "workbench/c", "papers/b", "papers/a", "claims/a", "test_style.py"]


def test_what_is_named_as_long_exists():
    assert all((TESTS / name).exists() for name in conftest.LONGEST_FIRST)


def test_no_two_files_have_one_name():
    """Python knows a module that is in no package by its name alone: the second would be taken for the first."""
    files = [file for file in TESTS.rglob("*.py") if not (file.parent / "__init__.py").exists()]
    assert len({file.name for file in files}) == len(files)
