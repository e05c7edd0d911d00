"""Vary one parameter of a notebook over a range, on the runner's machinery: one tidy table, one figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from netrepro.claims import judge, load_claims, read_results
from netrepro.emulation.tiers import probe_tiers, resolve_tier
from netrepro.errors import NetreproError, nearest
from netrepro.files import write_atomically
from netrepro.paths import runs_dir
from netrepro.style import save_figure
from netrepro.workbench import run_folder
from netrepro.workbench.catalogue import find
from netrepro.workbench.looks import VERDICT_LOOKS
from netrepro.workbench.parameters import Parameter
from netrepro.workbench.runner import Event, RunReport, lane_on, run_variants, workers

RANGE = re.compile(r"(?P<low>[^.,][^,]*?)\.\.(?P<high>[^,]+)")


@dataclass(frozen=True)
class Sweep:
    """A finished sweep.

    table : one row a value and claim, columns <parameter>, claim, unit, value, interval_low, interval_high,
        verdict, reason.
    folder : holds sweep.csv, sweep.png and the executed notebook of every value.
    """

    table: pd.DataFrame
    figure: Figure
    folder: Path
    report: RunReport


def parse_range(text: str, parameter: Parameter, points: int) -> list[Any]:
    """The values of `a..b` (evenly spaced, whole numbers for an int) or `a,b,c`, of the parameter's type.

    Raises NetreproError for text that is neither, a range of a parameter that is no number, or points < 2.
    """
    match = RANGE.fullmatch(text.strip())
    if match is None:
        return list(dict.fromkeys(parameter.parse(part.strip()) for part in text.split(",") if part.strip()))
    if parameter.type not in ("int", "float") or points < 2:
        raise NetreproError(
            f"{text!r} is a range, but {parameter.name} is a {parameter.type} and points = {points}",
            "list its values: name=a,b,c",
        )
    low, high = (parameter.parse(match[end].strip()) for end in ("low", "high"))
    values = np.linspace(low, high, points)
    if parameter.type == "int":
        return list(dict.fromkeys(int(value) for value in np.rint(values)))
    return [float(f"{value:.12g}") for value in values]


def cost_of(
    slug: str, vary: str, *, points: int = 9, profile: str = "quick", tier: str = "auto", jobs: int | None = None
) -> str:
    """What a sweep would cost, in words: runs, and the time that the notebook declares; "" of one that sweep refuses.

    Raises NetreproError as it does, for an unknown notebook or tier and a malformed range.
    """
    notebook = find(slug)
    name, separator, text = vary.partition("=")
    if not separator or name not in notebook.parameters or profile not in notebook.declaration.budget_s:
        return ""
    runs = len(parse_range(text, notebook.parameters[name], points))
    resolved, _ = resolve_tier(tier, notebook.declaration.tiers, probe_tiers())
    each_s = notebook.declaration.budget_on(resolved, profile)
    at_once = 1 if lane_on(notebook.declaration, resolved) == "quiet" else workers(jobs)
    minutes = -(-runs // at_once) * each_s / 60
    return (
        f"{runs} runs of {notebook.slug}, {each_s:g} s each at most as declared, {at_once} at a time: {minutes:.0f} min"
    )


def sweep(
    slug: str,
    vary: str,
    *,
    points: int = 9,
    profile: str = "quick",
    tier: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Sweep:
    """Run a paper's notebook once for every value of one parameter.

    Parameters
    ----------
    slug : the paper.
    vary : `name=a..b` (`points` values) or `name=a,b,c`.
    parameters, profile, tier, jobs, scheduler, resume, on_event : as for run.

    Raises
    ------
    NetreproError : as run does, for a malformed range, and when no run ended well.
    """
    notebook = find(slug)
    name, separator, text = vary.partition("=")
    if not separator:
        raise NetreproError(f"cannot vary {vary!r}", "write name=a..b or name=a,b,c")
    if name not in notebook.parameters:
        raise NetreproError(f"{slug} has no parameter {name!r}", nearest(name, notebook.parameters))
    values = parse_range(text, notebook.parameters[name], points)
    folder = runs_dir() / "sweeps" / f"{notebook.slug}-{name}"
    report = run_variants(
        notebook.slug,
        [{**(parameters or {}), name: value} for value in values],
        into=folder,
        profile=profile,
        tier=tier,
        jobs=jobs,
        scheduler=scheduler,
        resume=resume,
        on_event=on_event,
    )
    table = _collect(notebook.slug, name, report)
    if table.empty:
        raise NetreproError("no run of the sweep ended well", report.statuses[0].explanation())
    figure = draw_sweep(table, name)
    write_atomically(folder / "sweep.csv", table.to_csv(index=False))
    save_figure(figure, folder, "sweep")
    return Sweep(table, figure, folder, report)


def _collect(slug: str, name: str, report: RunReport) -> pd.DataFrame:
    """Every claim of every run that ended well, judged."""
    claims, rows = load_claims(slug).claims, []
    for status in report.statuses:
        if not status.ok or status.folder is None:
            continue
        for result in read_results(status.folder / run_folder.RESULTS).runs.values():
            for claim in claims:
                judgement = judge(claim, result.measurement(claim.id), result.tier)
                low, high = judgement.interval or (None, None)
                row = {name: status.parameters[name], "claim": claim.id, "unit": claim.unit, "value": judgement.value}
                row |= {"interval_low": low, "interval_high": high}
                rows.append(row | {"verdict": judgement.verdict, "reason": judgement.reason})
    return pd.DataFrame(rows)


def draw_sweep(table: pd.DataFrame, name: str) -> Figure:
    """One small panel a measured claim: ours with its interval over the varied parameter, coloured by verdict."""
    measured = table.dropna(subset=["value"])
    groups = list(measured.groupby("claim", sort=False))
    columns = 3
    rows = max(1, -(-len(groups) // columns))
    figure, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 2.8 * rows), constrained_layout=True)
    for axis, (claim, group) in zip(axes.flat, groups, strict=False):
        positions = group[name] if pd.api.types.is_numeric_dtype(group[name]) else group[name].astype(str)
        axis.plot(positions, group["value"], color="#999999", zorder=1)
        axis.vlines(positions, group["interval_low"], group["interval_high"], color="#999999")
        colours = [VERDICT_LOOKS[verdict][0] for verdict in group["verdict"]]
        axis.scatter(positions, group["value"], c=colours, zorder=2)
        axis.set_title(claim, fontsize=9)
        axis.set(xlabel=name, ylabel=group["unit"].iloc[0])
    for axis in list(axes.flat)[len(groups) :]:
        axis.remove()
    used = table["verdict"].unique()
    handles = [Patch(facecolor=look[0], label=verdict) for verdict, look in VERDICT_LOOKS.items() if verdict in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure
