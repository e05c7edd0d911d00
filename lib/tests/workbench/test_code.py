"""The hash of the code behind a paper's numbers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from netrepro.workbench import code


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of two papers; one reaches `queues` by a function's import in `study`."""
    package = tmp_path / "library"
    for name, text in {
        "__init__.py": "",
        "study/__init__.py": "from .running import run",
        "study/running.py": "def run():\n    from library.queues import Queue",
        "queues.py": "class Queue: ...",
        "proofs.py": "",
        "papers/__init__.py": "",
        "papers/red.py": "from library.study import run",
        "applications/__init__.py": "",
        "applications/run.py": 'GUEST = Path(__file__).with_name("guest.py")',
        "applications/guest.py": "def talk():\n    from library import words",
        "words.py": "",
        "papers/fperf/__init__.py": "from library import proofs\nfrom library.applications import run",
        "papers/fperf/figures.py": "",
        "../core/queue.cpp": "int queue;",
        "../kernel/patches/clock.patch": "",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def hashes(library: Path) -> tuple[str, str]:
    code._read.cache_clear()
    code._imports.cache_clear()
    code._files_beside.cache_clear()
    code._digest.cache_clear()
    return code.code_of("red", library), code.code_of("fperf", library)


@pytest.mark.parametrize(
    ("changed", "red", "fperf"),
    [
        ("papers/red.py", True, False),
        ("queues.py", True, False),
        ("proofs.py", False, True),
        ("applications/guest.py", False, True),  # a program that is started, not imported
        ("words.py", False, True),
        ("../core/queue.cpp", True, True),
        ("../kernel/patches/clock.patch", True, True),
        ("__init__.py", True, True),
    ],
)
def test_only_what_a_paper_reaches_changes_its_hash(library, changed, red, fperf):
    before = hashes(library)
    (library / changed).write_text((library / changed).read_text() + "\nchanged = 1\n")
    after = hashes(library)
    assert (before[0] != after[0], before[1] != after[1]) == (red, fperf)


def test_what_python_does_not_run_changes_no_hash(library):
    before = hashes(library)
    path = library / "queues.py"
    path.write_text('"""Queues."""\n\n# of switches\n\n' + path.read_text() + "  # not yet\n")
    assert hashes(library) == before
    path.write_text(path.read_text() + "\n# not yet\nQueue()\n")
    assert hashes(library)[0] != before[0]


def without_words(text: str) -> str:
    return code.without_words(text, ast.parse(text))


class _NoDocstrings(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, code._DESCRIBED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Expr(ast.Constant(""))]
        return node


def test_a_module_without_its_words_does_what_it_did():
    for path in sorted(code.PACKAGE.rglob("*.py"))[::5]:  # the rest is like them
        text = path.read_text()
        without = without_words(text)
        assert ast.dump(ast.parse(without)) == ast.dump(_NoDocstrings().visit(ast.parse(text))), path
        assert without_words(without) == without, path


@pytest.mark.parametrize(
    "text",
    [
        "a = 'it is # no comment'  # one\n",
        'b = """two\n\n# lines  \n"""\n\n\n# the end',
        "def f(): 'Return.'; return \"it's\"  # don't\n",
        'class A:\n    """\'"""\n\n    x = r\'\\\\\'  # \'\n',
        "def f():\n    'Return.'; return 1\n",
        "c = f'{1}#{2!r:>{3}}'\nd = b'#' b'#'\n",
    ],
)
def test_strings_stay_as_they_are(text):
    """So does a docstring that stands on a line with other code."""
    before, after = (_NoDocstrings().visit(ast.parse(each)) for each in (text, without_words(text)))
    assert ast.dump(after) == ast.dump(before)


@pytest.mark.parametrize(
    ("changed", "text", "hash_changes"),
    [
        ("data/red/rates.csv", "2", True),
        ("data/flow_sizes/sizes.csv", "2", True),  # of no paper, so perhaps of this one
        ("data/fperf/times.csv", "2", False),
        ("data/red/claims.yaml", "main", False),  # judged anew each time
        ("notebooks/10_red.ipynb", '{"cells": [{"cell_type": "code", "source": ["rate = 2"]}]}', True),
        ("notebooks/10_red.ipynb", '{"cells": [{"cell_type": "markdown", "source": ["# Two"]}]}', False),
    ],
)
def test_data_and_the_notebooks_code_change_a_papers_hash(library, tmp_path, monkeypatch, changed, text, hash_changes):
    for name in ("data/red/rates.csv", "data/red/claims.yaml", "data/flow_sizes/sizes.csv", "data/fperf/claims.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/10_red.ipynb").write_text('{"cells": []}')
    monkeypatch.setenv("NETREPRO_ROOT", str(tmp_path))
    before = hashes(library)[0]
    (tmp_path / changed).write_text(text)
    assert (hashes(library)[0] != before) == hash_changes


def test_papers_of_the_library_have_hashes_and_others_none():
    assert len(code.code_of("dctcp")) == len(code.code_of("gmm_traffic")) == 16
    assert code.code_of("dctcp") != code.code_of("gmm_traffic")
    assert code.code_of("no_such_paper") == ""
