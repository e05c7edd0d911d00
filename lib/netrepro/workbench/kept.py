"""The runs that a user has: what lies in runs/, whether it may be believed, and its results by profile and tier."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netrepro.claims import PROFILES, Results, Run, read_results
from netrepro.errors import NetreproError
from netrepro.paths import runs_dir, workbench_root
from netrepro.workbench import job as files
from netrepro.workbench.job import Status

BY_HAND = "by hand"  # cells run by a person: nobody saw how it ended
FOLDER = re.compile(r"(?:\d\d_)?(?P<slug>[a-z0-9_]+)(--.*)?")


@dataclass(frozen=True)
class Kept:
    """A run's folder.

    outcome : how it ended ("ok", "failed", …); "by hand" for cells run by a person.
    result : what it measured; None where `problem` says why there is nothing to use.
    made : when its results were written, seconds of the epoch.
    manifest : what it stood on; empty for a run by hand.
    """

    folder: Path
    slug: str
    outcome: str
    result: Run | None
    made: float
    problem: str = ""
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Did it end well, and has it results?"""
        return self.outcome == "ok" and self.result is not None

    @property
    def name(self) -> str:
        """Its folder as a person would type it."""
        return shown_path(self.folder)


def shown_path(path: Path) -> str:
    """A path from the workbench on, or whole where it lies elsewhere."""
    root = workbench_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def read_kept(folder: Path) -> Kept:
    """Read a run's folder; what is wrong with it becomes its `problem`, and nothing raises."""
    folder = folder.resolve()
    match = FOLDER.fullmatch(folder.name)
    slug, outcome, manifest = match["slug"] if match else folder.name, BY_HAND, {}
    results = folder / files.RESULTS
    try:
        if (folder / files.STATUS).exists():
            status = Status.model_validate_json((folder / files.STATUS).read_text(encoding="utf-8"))
            slug, outcome = status.slug, status.outcome
            manifest = json.loads((folder / files.MANIFEST).read_text(encoding="utf-8"))
            if not status.ok:
                return Kept(folder, slug, outcome, None, 0.0, f"it {_ended(outcome)}: {status.exception}", manifest)
        (run,) = read_results(results).runs.values()
        return Kept(folder, slug, outcome, run, results.stat().st_mtime, manifest=manifest)
    except NetreproError as error:
        problem = error.problem
    except (OSError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
    return Kept(folder, slug, outcome, None, 0.0, problem, manifest)


def _ended(outcome: str) -> str:
    return outcome if outcome in ("failed", "timed out") else f"ended as {outcome!r}"


def _folders(slug: str) -> Iterator[Path]:
    for place in (*PROFILES, "interactive"):
        for folder in sorted((runs_dir() / place).glob(f"*{slug}*")):
            match = FOLDER.fullmatch(folder.name)
            if match and match["slug"] == slug and folder.is_dir():
                yield folder


def kept_runs(slug: str) -> list[Kept]:
    """Every run of a paper in runs/<profile>/ and runs/interactive/, the newest first, those without results last."""
    return sorted((read_kept(folder) for folder in _folders(slug)), key=lambda kept: -kept.made)


def newest_executed(slug: str) -> Path | None:
    """Of the runs with standard settings that ended well the newest folder with an executed notebook, of guides too: of
    the tier that "auto" takes, or else of another."""
    fitting = [
        kept
        for kept in kept_runs(slug)
        if kept.outcome == "ok" and not kept.manifest.get("changed") and (kept.folder / files.EXECUTED).exists()
    ]
    usual = [kept for kept in fitting if kept.manifest.get("tier") == kept.manifest.get("usual_tier")]
    folders = [kept.folder for kept in usual or fitting]
    return max(folders, key=lambda folder: (folder / files.EXECUTED).stat().st_mtime, default=None)


def own_results(slug: str) -> Results | None:
    """What a user has measured with the standard settings, of each profile and tier the newest; None without a run.

    Runs that failed do not count; cells run by hand do.
    """
    runs: dict[str, Run] = {}
    for kept in kept_runs(slug):
        if kept.result is not None and not kept.result.changed:
            runs.setdefault(kept.result.key, kept.result)
    return Results(paper=slug, runs=dict(sorted(runs.items()))) if runs else None
