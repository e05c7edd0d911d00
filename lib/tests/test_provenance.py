"""Which code measured: a result names it, and code that is not the checkout's is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from netrepro import provenance
from netrepro.errors import NetreproError
from netrepro.provenance import PACKAGE, check_code, code_hash, core_stamp, source_stamp


@pytest.fixture
def clone(workbench: Path) -> Path:
    """Another clone's modules and core, at the same state as those that run."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(PACKAGE, workbench / "lib/netrepro", ignore=ignored)
    shutil.copytree(PACKAGE.parent / "core", workbench / "lib/core")
    shutil.copy(PACKAGE.parent / "CMakeLists.txt", workbench / "lib")
    return workbench


def test_the_core_says_which_sources_it_was_built_from():
    assert core_stamp() == source_stamp(PACKAGE.parent)


def test_a_clone_at_the_same_state_runs_with_the_environment_of_another(clone):
    check_code()


def test_two_clones_at_different_states_do_not_share_an_environment(clone):
    (clone / "lib/netrepro/errors.py").write_text("# edited\n")
    with pytest.raises(NetreproError, match=f"{clone} holds another library.*\n.*make setup in"):
        check_code()


@pytest.mark.parametrize("edit", ["base/ring.hpp", "../CMakeLists.txt", "tcp/new.cpp"])
def test_a_core_that_was_not_built_again_after_an_edit_is_refused(clone, edit):
    with (clone / "lib/core" / edit).open("a") as file:
        file.write("\n")
    with pytest.raises(NetreproError, match=r"the core was built from other sources.*\n.*make setup"):
        check_code()


def test_a_workbench_without_the_library_runs_with_what_is_installed(workbench):
    check_code()


def test_code_is_another_when_a_module_moves_or_changes_or_the_core_does(clone, monkeypatch):
    modules = clone / "lib/netrepro"
    seen = {code_hash(modules)}
    (modules / "style.py").rename(modules / "looks.py")
    seen.add(code_hash(modules))
    (modules / "looks.py").write_text("")
    seen.add(code_hash(modules))
    monkeypatch.setattr(provenance._core, "build_stamp", "another")
    seen.add(code_hash(modules))
    assert len(seen) == 4
