"""All that was measured of a paper, as tables: summaries, the tiers side by side, trust, claims; saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.claims import Measured
from netrepro.errors import NetreproError, nearest
from netrepro.files import whole_file, write_atomically
from netrepro.networks.checks import CHECK_COLUMNS
from netrepro.study.declaration import SIMULATED, OneRun, Point, Reading, Study, several, swept_fields
from netrepro.study.evidence import Evidence, as_it_is
from netrepro.study.trust import trust_of, trust_table

TABLES = "tables"  # the folder of `Runs.save` in the folder of a run
LABELS = ["tier", "case", "repetition"]
_SAID = ("tier", "profile", "seed", "repetitions", "seconds")


@dataclass(frozen=True)
class Tables:
    """The readings of one tier: numbers, tables and checks, all with LABELS and the swept fields as columns."""

    values: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    checks: pd.DataFrame


@dataclass
class Runs:
    """All that was measured, on the tier that was asked for and in the simulator beside it.

    seconds : duration of a run. values : a row for each run, with tier, case, repetition, the fields that any case
    sweeps, and the numbers read. tables : name -> table that was read, with the same labels. checks : the same labels
    and CHECK_COLUMNS. knobs : name -> table of `vary`. skipped : "tier: case" -> why it could not be run. known : run
    -> its reading, for runs that a knob needs again.
    """

    study: Study
    setting: Any
    tier: str
    profile: str
    seed: int
    repetitions: int
    seconds: float
    values: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)
    knobs: dict[str, pd.DataFrame] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    known: dict[OneRun, Reading] = field(default_factory=dict, repr=False)

    def add(self, tables: Tables) -> None:
        """Add the readings of one more tier."""
        self.values = _below(self.values, tables.values)
        self.checks = _below(self.checks, tables.checks)
        for name, table in tables.tables.items():
            self.tables[name] = _below(self.tables.get(name, pd.DataFrame()), table)

    @property
    def tiers(self) -> list[str]:
        """The tiers that were measured, the one asked for first."""
        return list(dict.fromkeys([self.tier, *self.values["tier"]]))

    @property
    def beside(self) -> str:
        """The words that introduce results of the simulator beside the tier asked for; "" where it is that tier."""
        return "" if self.tier == SIMULATED else "In the simulator, beside this tier: "

    @property
    def swept(self) -> list[str]:
        """The fields that any measured case sweeps."""
        places = [name for changes in self.study.cases.values() for name in swept_fields(changes)]
        return [name for name in dict.fromkeys(places) if name in self.values]

    def has(self, *cases: str, tier: str = "") -> bool:
        """Tell whether the tier (by default the one asked for) ran all of these cases."""
        return set(cases) <= set(self.values["case"][self.values["tier"] == (tier or self.tier)])

    def why_not(self, case: str) -> str:
        """Say why a case is missing on the tier asked for; "" where it is there."""
        return self.skipped.get(f"{self.tier}: {case}", "")

    def numbers(self, case: str, tier: str = "") -> pd.DataFrame:
        """Return the rows of `values` of one case on one tier."""
        return self.values[(self.values["case"] == case) & (self.values["tier"] == (tier or self.tier))]

    def table(self, name: str, case: str, tier: str = "") -> pd.DataFrame:
        """Return the rows of a table of one case on one tier. Raises NetreproError for an unknown table."""
        if name not in self.tables:
            raise NetreproError(f"{self.study.slug} reads no table {name!r}", nearest(name, self.tables))
        table = self.tables[name]
        return table[(table["case"] == case) & (table["tier"] == (tier or self.tier))]

    def reading(self, name: str | tuple[str, ...], case: str, tier: str = "") -> dict[int, Any]:
        """Return what was read in each repetition of a case (repetition -> reading).

        A reading is a number, or a Series over the grid where the case has one. The name of a table gives that table.
        Several names give a Series of them, or a table over the grid. Raises NetreproError for an unknown name.
        """
        grid = swept_fields(self.study.cases[case])
        if isinstance(name, str) and name in self.tables:
            rows = self.table(name, case, tier)
            drop = [column for column in (*LABELS, *self.swept) if column not in grid]
            return {int(each): group.drop(columns=drop) for each, group in rows.groupby("repetition")}
        rows, names = self.numbers(case, tier), [name] if isinstance(name, str) else list(name)
        known = [column for column in self.values if column not in LABELS]
        for missing in set(names) - set(known):
            raise NetreproError(f"{self.study.slug} reads no {missing!r}", nearest(missing, [*known, *self.tables]))
        readings: dict[int, Any] = {}
        for repetition, group in rows.groupby("repetition"):
            wanted = group.set_index(grid)[names] if grid else group[names].iloc[0]
            readings[int(repetition)] = wanted[name] if isinstance(name, str) else wanted
        return readings

    def summary(self, tier: str = "") -> pd.DataFrame:
        """Compute the mean over repetitions of every number read: a row for each case (and point of its grid)."""
        rows = self.values[self.values["tier"] == (tier or self.tier)]
        return rows.drop(columns=["tier", "repetition"]).groupby(["case", *self.swept], sort=False, dropna=False).mean()

    def tier_table(self, *readings: str) -> pd.DataFrame:
        """Put the tiers side by side: a row for each case, with each tier's mean of every number read (or those named);
        NaN where not measured."""
        means = {tier: self.summary(tier) for tier in self.tiers}
        columns = list(readings) or list(next(iter(means.values())).columns)
        side = pd.concat({tier: table[columns] for tier, table in means.items()}, axis=1).swaplevel(axis=1)
        order = [case for case in self.study.cases if case in set(side.index.get_level_values(0))]
        return side[columns].loc[order]

    def trust_table(self) -> pd.DataFrame:
        """List every check that was made, of all tiers: its worst value, its bounds, how often it was made and
        failed."""
        return trust_table(self.checks)

    @property
    def trusted(self) -> bool:
        """True where every check of the tier asked for holds."""
        return bool(trust_of(self.checks[self.checks["tier"] == self.tier])["trusted"])

    def measured_claims(self, tier: str = "") -> list[Measured]:
        """Return one measurement for each claim whose cases the tier could run, with its control where that could be
        run too. Claims that the scale leaves unjudged have none."""
        where = tier or self.tier
        checks, measured = self.checks[self.checks["tier"] == where], []
        unjudged = self.study.scale(self.profile, self.tier).unjudged
        claims = {**self.study.claims, **(self.study.on_kernels if where != SIMULATED else {})}
        for claim, asked in claims.items():
            counting = [each for each in several(asked) if each.where is None or each.where(self.setting)]
            ran = [each for each in counting if self.has(*each.case_names, tier=where)]
            if claim in unjudged or not ran:
                continue
            evidence = ran[0]
            given = _as_measured(self.values_of(evidence, where), evidence)
            broken = evidence.broken
            if broken is not None and self.has(*broken.case_names, tier=where):
                control = _as_measured(self.values_of(broken, where), broken)
                given |= {"control" if name == "values" else f"control_{name}": each for name, each in control.items()}
            given.pop("control_exact", None)
            measured.append(Measured(claim=claim, **given, **trust_of(self._checks_of(evidence, checks))))
        return measured

    def _checks_of(self, evidence: Evidence, checks: pd.DataFrame) -> pd.DataFrame:
        """Choose the checks that bear on a claim. Raises NetreproError for a name that is neither case nor check."""
        if not evidence.checked_by:
            return checks
        known = [*self.study.cases, *dict.fromkeys(checks["check"])]
        for name in set(evidence.checked_by) - set(known):
            raise NetreproError(f"{self.study.slug} has no case or check {name!r}", nearest(name, known))
        return checks[checks["case"].isin(evidence.checked_by) | checks["check"].isin(evidence.checked_by)]

    def values_of(self, evidence: Evidence, tier: str = "") -> list[Any]:
        """Compute the evidence's value in every repetition that its cases have in common."""
        by_case = [self.reading(evidence.reading, case, tier) for case in evidence.case_names]
        how = evidence.how or (lambda value: value)
        as_value = (lambda value: value) if evidence.counted else as_it_is
        common = sorted(set(by_case[0]).intersection(*by_case))
        if evidence.pooled:
            return list(how(*({each: readings[each] for each in common} for readings in by_case)))
        return [as_value(how(*(readings[each] for readings in by_case))) for each in common]

    def save(self, folder: Path) -> None:
        """Save every table as a CSV file, and run.json, which says how they were measured."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = {"values": self.values, "checks": self.checks, **self.tables}
        tables |= {f"knob_{name}": table for name, table in self.knobs.items()}
        for name, table in tables.items():
            with whole_file(folder / f"{name}.csv") as partial:
                table.to_csv(partial, index=False)
        said = {name: getattr(self, name) for name in _SAID}
        said |= {"slug": self.study.slug, "setting": asdict(self.setting), "skipped": self.skipped}
        write_atomically(folder / "run.json", json.dumps(said, indent=1))


def load_runs(study: Study, folder: Path) -> Runs:
    """Load the runs whose tables `Runs.save` left in a folder. Raises NetreproError where there are none."""
    path = folder / "run.json"
    if not path.is_file():
        raise NetreproError(f"no tables in {folder}", f"measure first: netrepro run {study.slug}")
    said = json.loads(path.read_text())
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in said["setting"].items()}
    runs = Runs(study, replace(study.setting, **plain), *(said[name] for name in _SAID))
    runs.skipped.update(said["skipped"])
    tables = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
    runs.values, runs.checks = tables.pop("values"), tables.pop("checks").astype({"holds": bool})
    for name, table in tables.items():
        target = runs.knobs if name.startswith("knob_") else runs.tables
        target[name.removeprefix("knob_")] = table
    return runs


def gather(readings: Sequence[tuple[Point, int, Reading]], tier: str, swept: Sequence[str]) -> Tables:
    """Make tables of the readings of one tier, given as (point, repetition, reading).

    swept : fields that are columns of all tables, even where this tier sweeps none.

    Raises NetreproError for a number or a table's column that has the name of a swept field or one of LABELS, but
    another value.
    """
    rows, checks = [], []
    tables: dict[str, list[tuple[dict[str, Any], pd.DataFrame]]] = {}
    for point, repetition, read in readings:
        label = {"tier": tier, "case": point.case, "repetition": repetition}
        label |= {name: getattr(point.setting, name, np.nan) for name in swept}  # NaN: its part has no such field
        for name in [each for each in label if each in read.numbers and read.numbers[each] != label[each]]:
            raise NetreproError(
                f"case {point.case!r} reads a number {name!r}, and {name!r} is {_what_it_is(name)}: "
                f"{read.numbers[name]!r} would replace {label[name]!r}",
                "give what is read another name",
            )
        own = [each.row() for each in read.checks]
        own += [] if read.fidelity is None else read.fidelity[CHECK_COLUMNS].itertuples(index=False, name=None)
        checks += [(*label.values(), *row) for row in own]
        for name, table in read.tables.items():
            _check_columns(point.case, name, table, label)
            tables.setdefault(name, []).append((label, table))
        rows.append(label | dict(read.numbers))
    together = {name: _labelled(parts) for name, parts in tables.items()}
    checked = pd.DataFrame(checks, columns=[*LABELS, *swept, *CHECK_COLUMNS])
    numbers = dict.fromkeys(("value", "at_least", "at_most"), float)
    return Tables(pd.DataFrame(rows), together, checked.astype(numbers | {"holds": bool}))


def _what_it_is(name: str) -> str:
    return "a label of every run" if name in LABELS else "a field that is swept"


def _check_columns(case: str, name: str, table: pd.DataFrame, label: Mapping[str, Any]) -> None:
    """Raise NetreproError for a column that a label would replace by other values."""
    for column in [each for each in label if each in table and not (table[each] == label[each]).all()]:
        raise NetreproError(
            f"case {case!r} reads a table {name!r} with a column {column!r}, and {column!r} is {_what_it_is(column)}: "
            f"{label[column]!r} would replace what is in it",
            "give the column another name",
        )


def _labelled(parts: Sequence[tuple[Mapping[str, Any], pd.DataFrame]]) -> pd.DataFrame:
    """Join tables below each other, with their labels as first columns, in place of columns of the same name."""
    lengths = [len(table) for _, table in parts]
    table = pd.concat([table for _, table in parts], ignore_index=True)
    names = list(parts[0][0])
    # Labels of thousands of short tables are repeated all at once.
    labels = pd.DataFrame([label for label, _ in parts]).loc[np.repeat(np.arange(len(parts)), lengths)]
    return pd.concat([labels.reset_index(drop=True), table.drop(columns=names, errors="ignore")], axis=1)


def _below(above: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    parts = [each for each in (above, more) if len(each)]
    return pd.concat(parts, ignore_index=True) if parts else more


def _as_measured(values: list[Any], evidence: Evidence) -> dict[str, Any]:
    if evidence.counted:
        trials = np.concatenate([np.ravel(np.asarray(each, dtype=float)) for each in values])
        return {"successes": int(trials.sum()), "trials": len(trials)}
    return {"values": values[:1], "exact": True} if evidence.exact else {"values": values}
