"""Questions to git about the workbench."""

from __future__ import annotations

import subprocess
from pathlib import Path

from netrepro.errors import NetreproError
from netrepro.paths import workbench_root


def git(*words: str, root: Path | None = None) -> str:
    """Run git in the workbench, or in `root`; return its output. Raises NetreproError where git is missing or fails."""
    command = ["git", "-C", str(root or workbench_root()), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    except OSError:
        raise NetreproError("git is not installed", "install git: it knows what was committed when") from None
    if done.returncode:
        raise NetreproError(f"git {words[0]}: {done.stderr.strip()}", "work in a clone of the repository")
    return done.stdout
