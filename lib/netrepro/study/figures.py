"""Figures as values: a Study declares panels and their contents; the library draws them from its Runs.

    plot(
        "Window of a single flow (Fig. 4)",
        "time (s)",
        "window (packets)",
        Course("windows", "packets", {"reno": "reno", "paced": {"label": "paced", "linewidth": 2}}),
        Level(135, "published top"),
    )

A `Picture` is called with the runs. A mark is something in a panel; it is called with the axis and the runs, so that
a paper may also give a function of its own as a mark. The library names tiers, says what was not measured, draws means
with their intervals, and makes one legend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.errors import NetreproError, nearest
from netrepro.study import pictures
from netrepro.study.runs import Runs
from netrepro.style import CURVES, PUBLISHED_GREY, SCHEMES, draw_published, shows_ours, use_logarithm

Look = str | Mapping[str, Any]  # the name of a scheme, a label, or matplotlib's arguments
Mark = Callable[[Axes, Runs], set[float] | None]  # may return the values of x that get named ticks
MOST_TICKS = 12  # of an axis that has one for each value of a sweep
OURS = "ours"
Table = str | Callable[[Runs], pd.DataFrame]  # the name of a knob, or a function that computes a table
Points = Mapping[Any, float] | Callable[[Runs], pd.Series]


def look_of(look: Look, place: int) -> dict[str, Any]:
    """Return a look as matplotlib's arguments; what is not a scheme has the colour at this place in CURVES."""
    if isinstance(look, str):
        known = SCHEMES.get(look)
        look = {"label": look} if known is None else {"label": known.label, "color": known.colour}
    return {"color": CURVES[place % len(CURVES)], **look}


def shown(
    axis: Axes, runs: Runs, cases: Mapping[str, Look], tiers: bool = False
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (case, tier, look) of each case that was measured, and write into the panel which were not.

    tiers : also yield the tiers beside the one asked for, with dotted lines. Raises NetreproError for a case that the
    study does not have.
    """
    if not isinstance(cases, Mapping):
        raise NetreproError(f"{cases!r} in place of cases with their looks", 'give a dict, as in {"paper": "ours"}')
    for case in cases:
        if case not in runs.study.cases:
            raise NetreproError(f"{runs.study.slug} has no case {case!r} to draw", nearest(case, runs.study.cases))
    looks = {case: look_of(look, place) for place, (case, look) in enumerate(cases.items())}
    absent = [look.get("label", case) for case, look in looks.items() if not runs.has(case)]
    if 0 < len(absent) < len(cases):
        pictures.say_not_measured(axis, runs.tier, f"{', '.join(absent)}: ")
    for case, look in looks.items():
        for tier in runs.tiers if tiers else [runs.tier]:
            if runs.has(case, tier=tier):
                own = {"label": f"{look['label']}, {tier}"} if tiers and len(runs.tiers) > 1 else {}
                yield case, tier, {"linestyle": "-" if tier == runs.tier else ":"} | look | own


@dataclass(frozen=True)
class Picture:
    """A figure of panels side by side, with one legend; called with the runs."""

    title: str
    panels: tuple[Panel, ...]

    def __init__(self, title: str, *panels: Panel) -> None:
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "panels", panels)

    def __call__(self, runs: Runs) -> Figure:
        figure, axes = pictures.panels(self.title, "", "", [each.title for each in self.panels])
        for axis, panel in zip(axes, self.panels, strict=True):
            panel.draw(axis, runs)
        pictures.share_legend(figure)
        return figure


class Panel:
    """An axis: labels with their units, and its marks, drawn in their order.

    log : the axes ("x", "y", "xy") that are logarithmic. x_range, y_range : (low, high) of the axes;
    by default, a linear y begins at 0.
    """

    def __init__(
        self,
        x: str,
        y: str,
        *marks: Mark,
        title: str = "",
        log: str = "",
        x_range: tuple[float | None, float | None] | None = None,
        y_range: tuple[float | None, float | None] | None = None,
    ) -> None:
        self.x, self.y, self.marks, self.title, self.log = x, y, marks, title, log
        self.x_range, self.y_range = x_range, y_range or ((None, None) if "y" in log else (0, None))

    def draw(self, axis: Axes, runs: Runs) -> None:
        """Draw all marks; say that nothing was measured where none shows anything of ours."""
        axis.set(xlabel=self.x, ylabel=self.y)
        for which in self.log:
            use_logarithm(axis, which)
        places = {place for mark in self.marks for place in mark(axis, runs) or () if not pd.isna(place)}
        if 0 < len(places) <= MOST_TICKS:
            pictures.name_ticks(axis, "x", places)
        if not shows_ours(axis):
            pictures.say_not_measured(axis, runs.tier)
        axis.set(xlim=self.x_range, ylim=self.y_range)


def plot(title: str, x: str, y: str, *marks: Mark, **panel: Any) -> Picture:
    """Make a picture of one panel."""
    return Picture(title, Panel(x, y, *marks, **panel))


def beside(title: str, x: str, readings: Mapping[str, str], mark: Callable[[str], Mark], **panel: Any) -> Picture:
    """Make a picture with a panel for each of `readings` (reading -> label of y); `mark` makes what draws a reading."""
    return Picture(title, *(Panel(x, label, mark(reading), **panel) for reading, label in readings.items()))


@dataclass(frozen=True)
class Course:
    """Curves of a table that was read: y over x for each case and tier, in the first repetition.

    cases : case -> its look. rows : a query for the rows that are drawn. step : whether y holds until the next x.
    every : draw each repetition, faint, and their mean. tiers : as in `shown`.
    """

    table: str
    y: str
    cases: Mapping[str, Look]
    x: str = "time_s"
    rows: str = ""
    step: bool = False
    tiers: bool = False
    every: bool = False

    def __call__(self, axis: Axes, runs: Runs) -> None:
        style = {"linewidth": 1.3, "drawstyle": "steps-post" if self.step else "default"}
        for case, tier, look in shown(axis, runs, self.cases, self.tiers):
            rows = runs.table(self.table, case, tier)
            rows = check_columns(rows.query(self.rows) if self.rows else rows, self.x, self.y)
            if self.every:
                for _, one in rows.groupby("repetition"):
                    faint = {"color": look["color"], "linewidth": 0.8, "alpha": 0.35}
                    axis.plot(one[self.x], one[self.y], **style | faint)
                rows = rows.groupby(self.x)[self.y].mean().reset_index().assign(repetition=0)
            rows = rows[rows.repetition == 0]
            axis.plot(rows[self.x], rows[self.y], **style | look)


@dataclass(frozen=True)
class Sweep:
    """y over x: means over repetitions with their intervals, and each repetition as a faint point.

    of : case -> its look; or a table, in which each value of column `by` has a curve. looks : value of `by` -> its
    look; other values are left out. Without looks, each value has a curve, named by `label`. rows : a query for the
    rows that are drawn. averaged : average over the other swept fields, within each repetition.
    """

    x: str
    y: str
    of: Mapping[str, Look] | Table
    by: str = "case"
    looks: Mapping[Any, Look] = field(default_factory=dict)
    label: str = "{}"
    rows: str = ""
    tiers: bool = False
    averaged: bool = False

    def __call__(self, axis: Axes, runs: Runs) -> set[float]:
        places: set[float] = set()
        for rows, look in self._curves(axis, runs):
            wanted = check_columns(rows.query(self.rows) if self.rows else rows, self.x, self.y)
            if self.averaged:
                wanted = wanted.groupby([self.x, "repetition"])[self.y].mean().reset_index()
            pictures.draw_sweep(axis, wanted, self.x, self.y, **{"marker": "o"} | look)
            places |= {place for place in wanted[self.x] if not isinstance(place, str)}
        return places

    def _curves(self, axis: Axes, runs: Runs) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
        if isinstance(self.of, Mapping):
            for case, tier, look in shown(axis, runs, self.of, self.tiers):
                yield runs.numbers(case, tier), look
            return
        table = table_of(runs, self.of)
        curves = {} if table.empty else dict(list(table.groupby(self.by, sort=False)))
        looks = self.looks or {value: self.label.format(_named(value)) for value in curves}
        for place, value in enumerate(looks):
            if value in curves:
                yield curves[value], look_of(looks[value], place)


@dataclass(frozen=True)
class Scatter:
    """Two numbers of the same runs against each other: the mean at each point of a case's grid, single runs faint."""

    x: str
    y: str
    cases: Mapping[str, Look]
    joined: bool = False
    tiers: bool = False

    def __call__(self, axis: Axes, runs: Runs) -> None:
        for case, tier, look in shown(axis, runs, self.cases, self.tiers):
            rows = check_columns(runs.numbers(case, tier), self.x, self.y)
            means = runs.summary(tier).loc[case]
            axis.plot(rows[self.x], rows[self.y], ".", color=look["color"], alpha=0.2)
            line = {"linestyle": look["linestyle"] if self.joined else ""}
            axis.plot(means[self.x], means[self.y], **{"marker": "o" if tier == runs.tier else "x"} | look | line)


def _named(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def points_of(runs: Runs, points: Points) -> dict[Any, float]:
    """Return points as they are given, or as a function makes them from the runs."""
    return dict(points(runs) if callable(points) else points)


def table_of(runs: Runs, table: Table) -> pd.DataFrame:
    """Return a knob's table, or the one that a function makes from the runs. Raises NetreproError for a knob that the
    study does not have, or that was not turned."""
    if not isinstance(table, str):
        return table(runs)
    if table not in runs.knobs:
        if table in runs.study.knobs:
            raise NetreproError(f"the knob {table!r} was not turned", f"call report.vary(runs, {table!r}) before")
        raise NetreproError(
            f"{runs.study.slug} has no knob {table!r}", nearest(table, {*runs.study.knobs, *runs.knobs})
        )
    return runs.knobs[table]


def check_columns(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return the table. Raises NetreproError, with the nearest name, for a column that it does not have."""
    for name in names:
        if name not in table:
            raise NetreproError(f"nothing of the name {name!r} was read to draw", nearest(name, table.columns))
    return table


@dataclass(frozen=True)
class Bars:
    """Means of a number with their intervals, in groups of bars; a group has a bar for each look.

    y : the number; or several of one unit, reading -> its look, which stand side by side in each group. of : group -> a
    case, or group -> (case -> its look); or a table with the columns `group` and `by`. looks : value of `by` -> its
    look. published : group -> value, drawn in grey beside ours.
    """

    y: str | Mapping[str, Look]
    of: Mapping[str, str | Mapping[str, Look]] | Table
    group: str = "case"
    by: str = "case"
    looks: Mapping[Any, Look] = field(default_factory=lambda: {OURS: OURS})
    published: Points = field(default_factory=dict)
    tiers: bool = False

    def __call__(self, axis: Axes, runs: Runs) -> None:
        parts = list(self._bars(axis, runs))
        if not parts:
            return
        palette = {look["label"]: look["color"] for _, look in parts} | {"published": PUBLISHED_GREY}
        table = pd.concat([rows.assign(bar=look["label"]) for rows, look in parts])
        known = points_of(runs, self.published)
        theirs = {group: known[group] for group in dict.fromkeys(table.group) if group in known}
        if theirs:
            table = pd.concat(
                [table, pd.DataFrame({"group": list(theirs), _VALUE: list(theirs.values()), "bar": "published"})]
            )
        draw_groups(axis, table, _VALUE, {name: palette[name] for name in dict.fromkeys(table.bar)})

    def _bars(self, axis: Axes, runs: Runs) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
        for rows, look in self._groups(axis, runs):
            if isinstance(self.y, str):
                yield _bars_of(rows, self.y), look
                continue
            if look["label"] != OURS:
                raise NetreproError(
                    "several readings in one group of bars, with several cases or tiers",
                    "give each group one case: of={group: case}",
                )
            for place, (reading, own) in enumerate(self.y.items()):
                yield _bars_of(rows, reading), {"label": reading, **look_of(own, place)}

    def _groups(self, axis: Axes, runs: Runs) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
        """Yield the rows that share a look, with their `group`."""
        if isinstance(self.of, Mapping):
            for group, cases in self.of.items():
                for case, tier, look in shown(
                    axis, runs, {cases: OURS} if isinstance(cases, str) else cases, self.tiers
                ):
                    yield runs.numbers(case, tier).assign(group=group), look
            return
        table = check_columns(table_of(runs, self.of), self.group)
        for place, value in enumerate(self.looks):
            rows = table if value == OURS else table[table[self.by] == value]
            yield rows.assign(group=rows[self.group]), look_of(self.looks[value], place)


_VALUE = "value"  # the column of what the bars show


def _bars_of(rows: pd.DataFrame, reading: str) -> pd.DataFrame:
    return check_columns(rows, reading)[[reading, "group"]].set_axis([_VALUE, "group"], axis="columns")


def draw_groups(axis: Axes, table: pd.DataFrame, y: str, palette: Mapping[str, str]) -> None:
    """Draw the mean of y, with its 95 % interval, for each `group` of a table and, side by side, each `bar` of it."""
    labels = axis.get_xlabel(), axis.get_ylabel()
    how = pictures.means_of(axis) | {"err_kws": {"color": "black", "linewidth": 1.2}}
    how |= {"saturation": 1, "legend": len(palette) > 1}
    sns.barplot(table, x="group", y=y, hue="bar", hue_order=list(palette), palette=palette, ax=axis, **how)
    axis.set(xlabel=labels[0], ylabel=labels[1])


@dataclass(frozen=True)
class Distribution:
    """The share of a table's values up to x: a step curve for each case, tier and repetition."""

    table: str
    column: str
    cases: Mapping[str, Look]
    tiers: bool = False

    def __call__(self, axis: Axes, runs: Runs) -> None:
        for case, tier, look in shown(axis, runs, self.cases, self.tiers):
            pictures.draw_distribution(axis, runs.table(self.table, case, tier), self.column, **look)


@dataclass(frozen=True)
class Level:
    """A line across the whole panel at a value: published (grey, dashed) or ours (dotted).

    value : a number, or a function of the runs. label : "{}" in it stands for the value. upright : at a value of x.
    """

    value: float | Callable[[Runs], float]
    label: str = ""
    published: bool = True
    upright: bool = False

    def __call__(self, axis: Axes, runs: Runs) -> None:
        value = self.value(runs) if callable(self.value) else self.value
        look: dict[str, Any] = {"linewidth": 1.2, "zorder": 1, "label": self.label.format(f"{value:.4g}")}
        look |= {
            "color": PUBLISHED_GREY if self.published else pictures.INK,
            "linestyle": "--" if self.published else ":",
        }
        draw = axis.axvline if self.upright else axis.axhline
        draw(value, **look)


def not_measured(tier: str) -> Mark:
    """Make a mark that says in the panel if a tier was not measured."""

    def draw(axis: Axes, runs: Runs) -> None:
        if tier not in runs.tiers:
            pictures.say_not_measured(axis, tier)

    return draw


@dataclass(frozen=True)
class Published:
    """Published points (x -> y), in grey behind ours; or a curve through them. marker : of the points, where a figure
    has several series."""

    points: Points
    label: str = "published"
    joined: bool = False
    marker: str = "D"

    def __call__(self, axis: Axes, runs: Runs) -> None:
        points = points_of(runs, self.points)
        draw = pictures.draw_published_curve if self.joined else partial(draw_published, marker=self.marker)
        draw(axis, list(points), list(points.values()), self.label)
