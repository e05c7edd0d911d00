"""The hash of the code behind a paper's numbers."""

from __future__ import annotations

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
        "papers/fperf/__init__.py": "from library import proofs",
        "papers/fperf/figures.py": "",
        "../core/queue.cpp": "int queue;",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def hashes(library: Path) -> tuple[str, str]:
    code._imports.cache_clear()
    code._digest.cache_clear()
    return code.code_of("red", library), code.code_of("fperf", library)


@pytest.mark.parametrize(
    ("changed", "red", "fperf"),
    [
        ("papers/red.py", True, False),
        ("queues.py", True, False),
        ("proofs.py", False, True),
        ("../core/queue.cpp", True, True),
        ("__init__.py", True, True),
    ],
)
def test_only_what_a_paper_reaches_changes_its_hash(library, changed, red, fperf):
    before = hashes(library)
    (library / changed).write_text((library / changed).read_text() + "\n# changed\n")
    after = hashes(library)
    assert (before[0] != after[0], before[1] != after[1]) == (red, fperf)


def test_papers_of_the_library_have_hashes_and_others_none():
    assert len(code.code_of("dctcp")) == len(code.code_of("gmm_traffic")) == 16
    assert code.code_of("dctcp") != code.code_of("gmm_traffic")
    assert code.code_of("no_such_paper") == ""
