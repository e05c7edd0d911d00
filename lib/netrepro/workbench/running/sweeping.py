"""Sweeps: the runner executes a notebook over ranges of its parameters, which gives one tidy table and one figure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from netrepro.emulation.tiers import probe_tiers, resolve_tier
from netrepro.errors import NetreproError, nearest
from netrepro.files import write_atomically
from netrepro.paths import runs_dir
from netrepro.style import CURVES, save_figure
from netrepro.workbench.catalogue.notebooks import Notebook, find
from netrepro.workbench.catalogue.parameters import Parameter, check_parameters
from netrepro.workbench.catalogue.ranges import NUMBER
from netrepro.workbench.notebook.looks import VERDICT_LOOKS
from netrepro.workbench.running.run_folder import folder_suffix
from netrepro.workbench.running.runner import RunEvent, RunReport, lane_on, run_variants, workers

RANGE = re.compile(rf"(?P<low>{NUMBER})\s*\.\.\s*(?P<high>{NUMBER})")
WORDS_AS_RANGE = re.compile(r"[^./,]+\.\.[^./,]+")
POINTS = 9
MOST_RUNS = 10_000


@dataclass(frozen=True)
class Sweep:
    """A finished sweep.

    table : one row for each combination of values and claim; columns: each varied parameter, claim, unit, value,
        interval_low, interval_high, verdict, reason.
    folder : holds sweep.csv, sweep.png and the executed notebook of every combination. Its name has all settings.
    report : how each run ended.
    names : the names of the varied parameters.
    """

    table: pd.DataFrame
    figure: Figure
    folder: Path
    report: RunReport
    names: list[str]


def parse_range(text: str, parameter: Parameter, points: int) -> list[Any]:
    """Return the values of `a..b` (evenly spaced, whole numbers for an int) or `a,b,c`, in the parameter's type.

    points : number of values of a range. Raises NetreproError for a value that the parameter refuses, and for a range
    where the parameter is no number or points < 2.
    """
    match = RANGE.fullmatch(text.strip()) if parameter.is_number else WORDS_AS_RANGE.fullmatch(text)
    if match is None:
        return list(dict.fromkeys(parameter.parse(part.strip()) for part in text.split(",") if part.strip()))
    if not parameter.is_number or points < 2:
        raise NetreproError(
            f"{text!r} is a range, but {parameter.name} is of type {parameter.type} and points = {points}",
            "list its values: name=a,b,c",
        )
    low, high = (parameter.parse(match[end].strip()) for end in ("low", "high"))
    values = np.linspace(low, high, points)
    if parameter.type == "int":
        return list(dict.fromkeys(int(value) for value in np.rint(values)))
    return [float(f"{value:.12g}") for value in values]


def grid(notebook: Notebook, vary: str | Sequence[str], points: int = POINTS) -> list[dict[str, Any]]:
    """List every combination of values, each as name -> value.

    vary : `name=a..b` (`points` values) or `name=a,b,c`, or several of these. Raises NetreproError for a parameter that
    is unknown or varied twice, for profile and tier, for a malformed range, and for more than MOST_RUNS combinations.
    """
    if points > MOST_RUNS:
        raise NetreproError(f"points = {points}", f"give {MOST_RUNS} or fewer")
    values: dict[str, list[Any]] = {}
    for each in _each(vary):
        name, separator, text = each.partition("=")
        if not separator:
            raise NetreproError(f"cannot vary {each!r}", "write name=a..b or name=a,b,c")
        if name not in notebook.parameters:
            raise NetreproError(f"{notebook.slug} has no parameter {name!r}", nearest(name, notebook.parameters))
        if name in values:
            raise NetreproError(f"{name} is varied twice", f"list all its values once: {name}=a,b,c")
        values[name] = parse_range(text, notebook.parameters[name], points)
        if not values[name]:
            raise NetreproError(f"{each!r} has no value", "write name=a..b or name=a,b,c")
        if name in ("profile", "tier"):
            raise NetreproError(f"{name} cannot be varied", f"sweep once for each, with --{name}")
    if (count := math.prod(map(len, values.values()))) > MOST_RUNS:
        raise NetreproError(f"{count} runs, one for each combination", f"vary less, for {MOST_RUNS} or fewer")
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def _planned(
    notebook: Notebook, vary: str | Sequence[str], points: int, parameters: Mapping[str, Any] | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the checked values of the fixed parameters, and every combination of the varied ones."""
    fixed = check_parameters(notebook.parameters, parameters or {}, notebook.slug)
    combinations = grid(notebook, vary, points)
    if both := sorted(fixed.keys() & combinations[0].keys()):
        raise NetreproError(f"{both[0]} is given and varied", "choose one of them")
    return fixed, combinations


def _each(vary: str | Sequence[str]) -> list[str]:
    return [vary] if isinstance(vary, str) else list(vary)


def cost_of(
    slug: str,
    vary: str | Sequence[str],
    *,
    points: int = POINTS,
    profile: str = "quick",
    tier: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> str:
    """Say what a sweep would cost: the number of runs, and minutes as the notebook declares; "" for an unknown profile.

    scheduler : address of a Dask scheduler; its workers may come and go, so that only all runs one by one are counted.

    Raises NetreproError, as `sweep` does, for an unknown notebook, parameter or tier, and for a malformed range.
    """
    notebook = find(slug)
    runs = len(_planned(notebook, vary, points, parameters)[1])
    if profile not in notebook.declaration.budget_s:
        return ""
    resolved, _ = resolve_tier(tier, notebook.declaration.tiers, probe_tiers())
    each_s = notebook.declaration.budget_on(resolved, profile)
    told = f"{runs} runs of {notebook.slug}, {each_s:g} s each at most as declared, "
    if scheduler is not None:
        return f"{told}as many at a time as the cluster takes: {runs * each_s / 60:.0f} min in all"
    at_once = 1 if lane_on(notebook.declaration, resolved) == "quiet" else workers(jobs)
    return f"{told}{at_once} at a time: {-(-runs // at_once) * each_s / 60:.0f} min"


def sweep(
    slug: str,
    vary: str | Sequence[str],
    *,
    points: int = POINTS,
    profile: str = "quick",
    tier: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> Sweep:
    """Run a paper's notebook once for every value of a parameter, or for every combination of values of several.

    Parameters
    ----------
    slug : the paper.
    vary : `name=a..b` (`points` values) or `name=a,b,c`, or several of these.
    parameters, profile, tier, jobs, scheduler, resume, on_event : as for `run`.

    Raises
    ------
    NetreproError : as for `run`, and for a malformed range, and when no run ended well.
    """
    notebook = find(slug)
    fixed, combinations = _planned(notebook, vary, points, parameters)
    names = list(combinations[0])
    asked: dict[str, Any] = dict(each.split("=", 1) for each in _each(vary)) | fixed
    asked |= {"points": points} if points != POINTS else {}
    asked |= {"profile": profile} if profile != "quick" else {}
    asked |= {"tier": tier} if tier != "auto" else {}
    folder = runs_dir() / "sweeps" / f"{notebook.slug}{folder_suffix(asked)}"
    report = run_variants(
        notebook.slug,
        [fixed | chosen for chosen in combinations],
        into=folder,
        profile=profile,
        tier=tier,
        jobs=jobs,
        scheduler=scheduler,
        resume=resume,
        on_event=on_event,
    )
    table = report.claims(names)
    if table.empty:
        what = "the sweep was interrupted before a run" if report.interrupted else "no run of the sweep"
        raise NetreproError(f"{what} ended well", report.statuses[0].explanation())
    table = table.drop(columns="name")
    figure = draw_sweep(table, names)
    write_atomically(folder / "sweep.csv", table.to_csv(index=False))
    save_figure(figure, folder, "sweep")
    return Sweep(table, figure, folder, report, names)


def draw_sweep(table: pd.DataFrame, names: Sequence[str]) -> Figure:
    """Draw a small panel for each measured claim: our value and its interval over the first varied parameter, with
    points coloured by verdict and a line for each combination of the other parameters.

    table : as in Sweep. names : the varied parameters.
    """
    first, *others = names
    measured = table.dropna(subset=["value"])
    panels = list(measured.groupby("claim", sort=False))
    columns = 3
    rows = max(1, -(-len(panels) // columns))
    figure, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 2.8 * rows), constrained_layout=True)
    lines: dict[str, Line2D] = {}
    for axis, (claim, panel) in zip(axes.flat, panels, strict=False):
        groups = panel.groupby(others, sort=False) if others else [((), panel)]
        for number, (chosen, group) in enumerate(groups):
            colour = CURVES[number % len(CURVES)] if others else "#999999"
            positions = group[first] if pd.api.types.is_numeric_dtype(group[first]) else group[first].astype(str)
            (line,) = axis.plot(positions, group["value"], color=colour, zorder=1)
            axis.vlines(positions, group["interval_low"], group["interval_high"], color=colour)
            colours = [VERDICT_LOOKS[verdict][0] for verdict in group["verdict"]]
            axis.scatter(positions, group["value"], c=colours, zorder=2)
            if others:
                lines[", ".join(f"{name} = {value}" for name, value in zip(others, chosen, strict=True))] = line
        axis.set_title(claim, fontsize=9)
        axis.set(xlabel=first, ylabel=panel["unit"].iloc[0])
    for axis in list(axes.flat)[len(panels) :]:
        axis.remove()
    used = table["verdict"].unique()
    looks: dict[str, Any] = {
        verdict: Patch(facecolor=look[0]) for verdict, look in VERDICT_LOOKS.items() if verdict in used
    }
    shown = looks | lines
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=min(len(shown), 6))
    return figure
