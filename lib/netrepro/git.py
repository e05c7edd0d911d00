"""Questions to git about the workbench, and whether git can answer them."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from netrepro.errors import NetreproError
from netrepro.paths import workbench_root
from netrepro.programs import need_program

# Variables that lead git to another repository than the folder's. A hook has them, and so has a shell that works on a
# bare repository. `git rev-parse --local-env-vars` lists them, too; those of git's settings are obeyed.
OF_ANOTHER_REPOSITORY = (
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_PREFIX", "GIT_NAMESPACE"),
    *("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE"),
    *("GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS", "GIT_INTERNAL_SUPER_PREFIX"),
)


def git(*words: str, root: Path | None = None) -> str:
    """Run git in the workbench, or in `root`; return its output.

    Raises NetreproError where git is missing or fails, and where the folder is no repository of its own: a copy of the
    workbench inside another repository has no commit.
    """
    root = root or workbench_root()
    _require_own_repository(root)
    return _run(root, *words)


def require_whole_history() -> None:
    """Raise NetreproError where the workbench is no clone, or a shallow one, which lacks old commits."""
    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        raise NetreproError(
            "this clone is shallow (git clone --depth): it lacks the history", "fetch it: git fetch --unshallow"
        )


@cache  # of good answers alone; an error is asked for again
def _require_own_repository(root: Path) -> None:
    top = Path(_run(root, "rev-parse", "--show-toplevel").removesuffix("\n"))
    if not top.samefile(root):
        raise NetreproError(
            f"{root} is no git repository of its own; it lies in that of {top}", "work in a clone of the repository"
        )


def _run(root: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_REPOSITORY}
    own = need_program("git", "install git: it knows what was committed when")
    done = subprocess.run(
        [own, "-C", str(root), *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
        env=environment,
    )
    if done.returncode:
        raise NetreproError(f"git {words[0]}: {done.stderr.strip()}", "work in a clone of the repository")
    return done.stdout
