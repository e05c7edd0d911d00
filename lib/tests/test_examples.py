"""The examples in the library's docstrings say what happens."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import netrepro

PACKAGE = Path(netrepro.__file__).parent
WITH_EXAMPLES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


def test_the_library_has_examples():
    assert len(WITH_EXAMPLES) >= 6


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_its_examples_say_what_happens(path):
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    module = importlib.import_module(name.removesuffix(".__init__"))
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
