"""The manifest of a run, written before it measures: code, packages, machine, tier, parameters."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.files import file_sha256
from netrepro.git import git
from netrepro.paths import workbench_root
from netrepro.provenance import code_hash, core_stamp
from netrepro.workbench.catalogue.notebooks import cell_texts, read_notebook


def git_state(root: Path) -> dict[str, Any]:
    """Return the commit (short hash) and whether tracked files differ from it; None and the reason where git fails."""
    try:
        commit = git("rev-parse", "--short=10", "HEAD", root=root).strip()
        return {"commit": commit, "dirty": bool(git("status", "--porcelain", "--untracked-files=no", root=root))}
    except NetreproError as error:
        return {"commit": None, "dirty": None, "why": error.problem}


def notebook_fingerprint(
    notebook: Path,
    slug: str,
    parameters: dict[str, Any],
    root: Path,
    code: str,
    files: Sequence[Path] = (),
) -> str:
    """Return a hash of all that decides a notebook's result: its cells, its data, its parameters and the code.

    code : the hash of the code behind its numbers. files : the files that the parameters name.
    """
    cells = cell_texts(read_notebook(notebook))
    inputs = [*files, *(path for path in (root / "data" / slug).rglob("*") if path.is_file())]
    words = f"{code} {sorted(parameters.items())!r} {cells!r} {_digest(inputs)}"
    return hashlib.sha256(words.encode()).hexdigest()


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + file_sha256(path).encode())
    return digest.hexdigest()


def cpu_model() -> str:
    """Return the processor's name, as /proc/cpuinfo gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def describe_machine() -> dict[str, Any]:
    """Return the part of a manifest that does not depend on the notebook; it reads the clock and the load."""
    root = workbench_root()
    lock = root / "lib" / "requirements.txt"
    tiers = probe_tiers()
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": git_state(root),
        "code": code_hash(),
        "core": core_stamp(),
        "lock_sha256": file_sha256(lock) if lock.exists() else None,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": list(os.getloadavg()),
        "best_tier": tiers.best,
        "user_id": os.geteuid(),
    }
