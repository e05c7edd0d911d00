"""Figures and verdicts of a run, made again from the tables in its folder without measuring."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.paths import runs_dir
from netrepro.study import TABLES, Runs, Study, load_runs
from netrepro.style import save_figure, use_style
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.running.run_folder import FAILED, REFUSED, read_kept, strange_entries
from netrepro.workbench.running.standard import made_by as made_by_of


def redraw(slug: str, folder: Path | None = None) -> tuple[Path, pd.DataFrame]:
    """Draw every figure of a paper's Study from a run's tables into its folder, if not empty, and judge the claims.

    folder : the run's; default: the paper's newest below runs/, if possible one that ended well. Returns the folder
    and a table: claim, verdict, value, reason.

    Raises NetreproError for a paper without a Study, where no run has left tables, and where the tables are damaged.
    """
    study = study_of(slug)
    left = sorted(_folders_with_tables(study.slug), key=lambda each: each.stat().st_mtime, reverse=True)
    place = folder or next(iter(sorted(left, key=lambda each: each.name.endswith(FAILED))), None)
    if place is None:
        raise NetreproError(f"no run of {slug} has left tables", f"measure first: netrepro run {slug}")
    if (kept := read_kept(place)).outcome == REFUSED:
        raise NetreproError(f"{kept.name} is not read: {kept.problem}", "take it out, or name another run")
    try:
        runs = load_runs(study, place / TABLES)
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"the tables in {place} cannot be read: {type(error).__name__}: {error}"
        raise NetreproError(problem, "measure again, or name another run") from None
    result = kept.result
    made_by = made_by_of(find(slug), result.profile, result.tier, result.changed) if result else None
    use_style()
    for name, draw in study.figures.items():
        try:
            figure = draw(runs)
        except KeyError as error:
            if not runs.knobs.keys() >= study.knobs.keys():
                raise NetreproError(f"{name} needs {error} of the run in {place}, which ended before it") from None
            raise
        save_figure(figure, place, name, made_by)
        plt.close(figure)
    return place, _verdicts(runs)


def study_of(slug: str) -> Study:
    """Return the Study of a paper. Raises NetreproError for an unknown slug and for a paper without a Study."""
    name = find(slug).slug
    try:
        study = getattr(import_module(f"netrepro.papers.{name}"), "STUDY", None)
    except ModuleNotFoundError as error:
        if error.name != f"netrepro.papers.{name}":
            raise
        study = None
    if not isinstance(study, Study):
        raise NetreproError(f"{name} is no Study", f"run it: netrepro run {name}")
    return study


def _folders_with_tables(slug: str) -> Iterator[Path]:
    for said in runs_dir().glob(f"*/*{slug}*/{TABLES}/run.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # damaged: such a run cannot be drawn
            if not strange_entries(said.parents[1]) and json.loads(said.read_text())["slug"] == slug:
                yield said.parents[1]


def _verdicts(runs: Runs) -> pd.DataFrame:
    claims, measured = load_claims(runs.study.slug), {each.claim: each for each in runs.measured_claims()}
    judged = [judge(claim, measured.get(claim.id), runs.tier) for claim in claims.claims]
    return pd.DataFrame([each.model_dump(include={"claim", "verdict", "value", "reason"}) for each in judged])
