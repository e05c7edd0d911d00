"""The audit of a labelled table: every check with its number, and one sentence for each finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.traffic.auditing.against_meter import compare_with_meter
from netrepro.traffic.auditing.cicflowmeter import known_faults
from netrepro.traffic.auditing.columns import look_at_columns
from netrepro.traffic.auditing.duplicates import Duplicates, find_duplicates
from netrepro.traffic.auditing.scores import (
    ALONE,
    CHANCE,
    SHUFFLED,
    SPLIT,
    TREES,
    WITHOUT,
    groups_of,
    measure_scores,
)
from netrepro.traffic.join import JoinAudit, LabelledFlows
from netrepro.traffic.tables import FLOW, PACKET, LabelledTable, load_labelled, table_of
from netrepro.traffic.tables.flow_files import CIC
from netrepro.traffic.tables.labelled_table import TEXT, Told
from netrepro.traffic.tables.open_table import captures_in, load_known_trace

CHECK_COLUMNS = ["check", "value", "limit", "finding", "says"]
SAMPLE_ROWS = 10_000
# Where a number becomes a finding. They are our choice, and were fixed before a data set was audited with them.
LIMITS = {
    "seen": 0.05,  # of the test rows with a duplicate in training
    "contradictory": 0.01,  # of all rows with a duplicate of another class
    "drop": 0.05,  # of macro-F1, by another split or without an identifier
    "alone": 0.5,  # of what the whole table has above chance, by identifiers alone
    "column": 0.95,  # macro-F1 by one column alone
    "largest class": 0.8,  # of all rows
    "rows of a class": 30,
    "wrong": 0.02,  # of the rows, with values that cannot be
    "differs": 0.05,  # of the rows, from the meter's
}


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    table : one row a check, CHECK_COLUMNS: value, the limit beyond which it is a finding (NaN: none), and a sentence.
    scores : see `measure_scores`, with `survives`: the share of what the first row has above chance. columns : see
    `look_at_columns`. classes : rows of each class. duplicates : "exact" and "near". meter : see `compare_with_meter`;
    None without captures. labels : the checks of a join of labels; None for other tables. sample : rows that trained
    and tested the forests.
    """

    name: str
    kind: str
    unit: str
    rows: int
    sample: int
    table: pd.DataFrame
    scores: pd.DataFrame
    columns: pd.DataFrame
    classes: pd.Series
    duplicates: dict[str, Duplicates]
    notes: tuple[str, ...] = ()
    meter: pd.DataFrame | None = None
    labels: JoinAudit | None = None

    @property
    def findings(self) -> list[str]:
        """One sentence for each finding."""
        return self.table.loc[self.table["finding"], "says"].tolist()

    @property
    def passed(self) -> bool:
        """True where nothing was found."""
        return not self.findings

    def content(self) -> dict[str, Any]:
        """Return everything as values for JSON; numbers that are not there are None."""
        tables = {"checks": self.table, "scores": self.scores, "columns": self.columns}
        tables |= {"meter": self.meter} if self.meter is not None else {}
        return {
            "name": self.name,
            "kind": self.kind,
            "unit": self.unit,
            "rows": self.rows,
            "sample": self.sample,
            "classes": {str(name): int(count) for name, count in self.classes.items()},
            "notes": list(self.notes),
            "findings": self.findings,
            **{name: _plain(table) for name, table in tables.items()},
        }


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return [{str(name): plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def audit(
    source: str | PathLike[str] | pd.DataFrame | LabelledTable | LabelledFlows,
    *,
    label: str | None = None,
    unit: str = "auto",
    captures: Iterable[str | PathLike[str]] = (),
    sample: int = SAMPLE_ROWS,
    seed: int = 0,
    jobs: int = 1,
    name: str = "",
    progress: Callable[[str], Told] | None = None,
) -> Audit:
    """Audit labelled flows or packets: can a classifier's score on them be believed?

    source : a path (see `load_labelled`), a data frame, or a loaded trace, whose join of labels is audited too. label,
    unit : see `load_labelled`. captures : what a table of flows was made of; its numbers are then compared with our
    meter's. In a folder, captures beside a table are taken. sample : number of rows that train and test forests (all
    other checks see all rows). seed : of splits and forests. jobs : threads of a forest. progress : called with what
    begins, returns the function to tell (done, of all). Raises NetreproError as the loaders do.
    """
    if sample < 100:
        raise NetreproError(f"a sample of {sample} rows", "give 100 or more")
    told: Callable[[str], Told] = progress or (lambda what: None)
    trace = source if isinstance(source, LabelledFlows) else None
    files = list(captures)
    if isinstance(source, str | PathLike):
        name = name or str(source)
        reading = told("reading")
        trace = load_known_trace(source, reading)
        if trace is None:
            source = load_labelled(source, label=label, unit=unit, progress=reading)
            if not files and source.unit == FLOW and source.kind != "our meter's table":
                files = list(captures_in(name))
        else:
            source = trace
    table = table_of(source, label)
    name = name or f"{len(table):,} {table.unit}s"
    classes = pd.Series(table.labels).value_counts()
    duplicates = find_duplicates(table, seed=seed)
    scores, rows = measure_scores(table, sample=sample, seed=seed, jobs=jobs, progress=told("forests"))
    columns = look_at_columns(table, rows, seed=seed)
    compared = compare_with_meter(table, files, progress=told("our meter")) if files else None
    scores = scores.assign(survives=_survival(scores))
    checks = _Checks(table.unit, scores)
    checks.of_duplicates(duplicates)
    checks.of_splits(table)
    checks.of_identifiers()
    checks.of_classes(classes)
    checks.of_columns(columns)
    if table.kind == CIC:
        for fault in known_faults(table):
            words = f"{fault.share:.0%} of the flows that can tell {fault.says}."
            checks.add(
                f"CICFlowMeter: {fault.name}", fault.share, LIMITS["wrong"], fault.share > LIMITS["wrong"], words
            )
    if compared is not None:
        checks.of_meter(compared)
    labels = trace.audit if trace is not None else None
    if labels is not None:
        checks.of_labels(labels)
    return Audit(
        name=name,
        kind=table.kind,
        unit=table.unit,
        rows=len(table),
        sample=len(rows),
        table=pd.DataFrame(checks.rows, columns=CHECK_COLUMNS),
        scores=scores,
        columns=columns,
        classes=classes,
        duplicates=duplicates,
        notes=table.notes,
        meter=compared,
        labels=labels,
    )


def _survival(scores: pd.DataFrame) -> pd.Series:
    """Return what of the first row's macro-F1 above chance each row has, 0..1 (NaN where there is nothing above)."""
    chance = _chance(scores)
    above = float(scores["macro_f1"].iloc[0]) - chance
    if not above > 0:
        return pd.Series(np.nan, index=scores.index)
    return ((scores["macro_f1"] - chance) / above).clip(lower=0)


def _chance(scores: pd.DataFrame) -> float:
    return float(scores.loc[scores["kind"] == CHANCE, "macro_f1"].iloc[0])


class _Checks:
    """The rows of an audit's table. base : the first row of `scores`, by the usual split. is_learnt : there is a score
    above chance that could be lost."""

    def __init__(self, unit: str, scores: pd.DataFrame):
        self.unit, self.scores, self.base, self.chance = unit, scores, scores.iloc[0], _chance(scores)
        self.is_learnt = bool(self.base["macro_f1"] - self.chance >= LIMITS["drop"])
        self.rows: list[tuple[str, float, float, bool, str]] = []

    def add(self, check: str, value: float, limit: float, finding: bool, says: str) -> None:
        self.rows.append((check, float(value), float(limit), bool(finding), says))

    def of_duplicates(self, duplicates: dict[str, Duplicates]) -> None:
        words = {"exact": "a duplicate", "near": "a near duplicate (all sizes and counts within a tenth)"}
        for kind, each in duplicates.items():
            limit = LIMITS["contradictory"]
            says = (
                f"{each.seen_otherwise:.0%} of the test's {self.unit}s have {words[kind]} of another class among the "
                f"training {self.unit}s of a random split; no classifier of these features can be right in more than "
                f"{each.best_accuracy:.1%} of all."
            )
            if kind == "near":
                says = f"{each.seen_otherwise:.0%} of the test's {self.unit}s have {words[kind]} of another class."
            self.add(f"{kind} duplicates of another class", each.contradictory, limit, each.contradictory > limit, says)
            limit = LIMITS["seen"]
            says = f"{each.seen:.0%} of the test's {self.unit}s have {words[kind]} in training, if split at random."
            self.add(f"{kind} duplicates in training", each.seen, limit, each.seen > limit, says)

    def of_splits(self, table: LabelledTable) -> None:
        scores, base = self.scores, self.base
        for row in scores[scores["kind"] == SPLIT].iloc[1:].to_dict("records"):
            drop = base["macro_f1"] - row["macro_f1"]
            # A worse draw than the worst at random: splits by a few groups vary by themselves.
            finding = drop >= LIMITS["drop"] and row["high"] < base["low"] and self.is_learnt
            says = (
                f"Macro-F1 is {base['macro_f1']:.2f} {base['what']}, {row['macro_f1']:.2f} {row['what']} "
                f"({row['says']})."
                if np.isfinite(drop)
                else f"A split {row['what']} cannot be tested: fewer than two classes are on both sides."
            )
            self.add(f"split {row['what']}", drop, LIMITS["drop"], finding, says)
        groups = groups_of(table)
        labels = pd.Series(table.labels)
        for name in ("file", "host"):
            if name not in groups:
                continue
            counts = pd.Series(groups[name]).groupby(labels.to_numpy()).nunique()
            alone = sorted(counts.index[counts == 1])
            says = f"Classes from one {name} only, so that class and {name} cannot be told apart"
            self.add_list(f"classes of one {name}", f"{says} ({len(alone)} of {len(counts)})", alone)

        says = f"Macro-F1 is {base['macro_f1']:.2f} {base['what']} and {self.chance:.2f} by chance"
        says += "." if self.is_learnt else ": nothing is learnt."
        self.add("above chance", base["macro_f1"], np.nan, not self.is_learnt, says)

    def of_identifiers(self) -> None:
        first = self.base["macro_f1"]
        for row in self.scores.to_dict("records"):
            if row["kind"] in (WITHOUT, SHUFFLED):
                drop = first - row["macro_f1"]
                how = row["what"] if row["kind"] == WITHOUT else "with the identifiers of other classes' rows"
                says = f"Macro-F1 is {first:.2f} with everything, {row['macro_f1']:.2f} {how}."
                self.add(row["what"], drop, LIMITS["drop"], drop >= LIMITS["drop"] and self.is_learnt, says)
            elif row["kind"] == ALONE:
                finding = row["survives"] >= LIMITS["alone"] and self.is_learnt
                says = (
                    f"Macro-F1 is {row['macro_f1']:.2f} with {row['says']}, {first:.2f} with everything and "
                    f"{self.chance:.2f} by chance."
                )
                self.add(row["what"], row["survives"], LIMITS["alone"], finding, says)

    def of_classes(self, classes: pd.Series) -> None:
        share, name, base = float(classes.iloc[0] / classes.sum()), classes.index[0], self.base
        says = (
            f"{share:.0%} of the {self.unit}s are {name}: who always says so has that accuracy; macro-F1 is "
            f"{base['macro_f1']:.2f} where accuracy is {base['accuracy']:.2f}."
        )
        self.add("largest class", share, LIMITS["largest class"], share > LIMITS["largest class"], says)
        few = classes[classes < LIMITS["rows of a class"]]
        says = f"Classes of fewer than {LIMITS['rows of a class']} {self.unit}s ({len(few)} of {len(classes)})"
        self.add_list("classes of few rows", says, [f"{name} {count}" for name, count in few.items()])

    def of_columns(self, columns: pd.DataFrame) -> None:
        constant = columns["constant"]
        self.add_list("constant columns", "Columns with one value only", columns.loc[constant, "column"])
        copies = columns[(columns["copy_of"] != "") & ~constant]
        pairs = [f"{row.column} is {row.copy_of}" for row in copies.itertuples()]
        self.add_list("copies", "Columns that are copies", pairs)
        says = (
            f"Columns that tell the label by themselves (macro-F1 of {LIMITS['column']:.2f} or more; ask whether they "
            "were known before it)"
        )
        self.add_list("columns that tell the label", says, columns.loc[columns["alone"] >= LIMITS["column"], "column"])
        for what, words in (("negative", "below 0, which cannot be"), ("infinite", "infinite")):
            wrong = columns[columns[what] > 0]
            says = f"Columns with values that are {words}"
            shares = [f"{name} ({share:.1%} of it)" for name, share in zip(wrong["column"], wrong[what], strict=True)]
            self.add_list(f"{what} values", says, shares)
        words_left = columns.loc[columns["role"] == TEXT, "column"]
        self.add_list("columns of words", "Columns of words, which are no features", words_left, finding=False)

    def add_list(self, check: str, says: str, names: Iterable[str], *, finding: bool = True) -> None:
        """Add a check that any name fails: its value is their number."""
        listed = list(names)
        shown = ", ".join(listed[:6]) + (f" and {len(listed) - 6} more" if len(listed) > 6 else "")
        self.add(check, len(listed), 0 if finding else np.nan, bool(listed) and finding, f"{says}: {shown or 'none'}.")

    def of_meter(self, compared: pd.DataFrame) -> None:
        for row in compared.to_dict("records"):
            differs = 1 - row["equal"]
            says = {
                "rows with a flow": f"{differs:.0%} of the table's TCP and UDP rows have no flow in the captures.",
                "flows with a row": f"{differs:.0%} of the captures' flows have no row in the table.",
                "direction": f"{differs:.0%} of the rows have source and destination the wrong way round.",
            }.get(
                row["quantity"],
                f"{row['column']} differs from our meter's {row['quantity']} in {differs:.0%} of {row['compared']:,} "
                f"flows (counted as {row['counted_as']}).",
            )
            self.add(f"meter: {row['quantity']}", differs, LIMITS["differs"], differs > LIMITS["differs"], says)

    def of_labels(self, labels: JoinAudit) -> None:
        for check in labels.checks:
            needed = "" if check.needed == "any" else f", {check.needed} is needed"
            says = f"Labels: {check.meaning} is {check.value:.3g}{needed}."
            self.add(f"labels: {check.name}", check.value, np.nan, not check.passed, says)


def forest_words(unit: str, sample: int) -> str:
    """Say what the scores are of."""
    kinds = {PACKET: "packets", FLOW: "flows"}
    return f"a forest of {TREES} trees on {sample:,} {kinds[unit]}"
