"""`netrepro audit`: the audit of labelled traffic on a terminal, and its files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path

from netrepro.files import whole_file, write_atomically
from netrepro.paths import check_writable, runs_dir
from netrepro.style import save_figure, use_style
from netrepro.traffic.auditing import Audit, audit, draw_audit
from netrepro.traffic.auditing.report import forest_words
from netrepro.workbench.cli.console import columns_of, folded

MOST_CLASSES = 12


def audit_path(path: Path, *, label: str | None, unit: str, captures: Iterable[Path], sample: int, seed: int) -> Audit:
    """Audit a file or a folder, with progress bars on a terminal."""
    from tqdm import tqdm

    bars: list[tqdm] = []

    def begin(what: str) -> Callable[[int, int], None]:
        for bar in bars:
            bar.close()
        bars.append(tqdm(desc=what, leave=False, disable=None, bar_format="{desc}: {percentage:3.0f}% {bar}", delay=2))

        def tell(done: int, of: int) -> None:
            bars[-1].total = of
            bars[-1].update(done - bars[-1].n)

        return tell

    try:
        return audit(
            path, label=label, unit=unit, captures=captures, sample=sample, seed=seed, jobs=2, name=path.name,
            progress=begin,
        )  # fmt: skip
    finally:
        for bar in bars:
            bar.close()


def audit_lines(done: Audit) -> list[str]:
    """Write an audit as lines: what it is of, the scores, and the findings."""
    largest = [f"{name} {count:,}" for name, count in done.classes.head(MOST_CLASSES).items()]
    more = len(done.classes) - len(largest)
    lines = folded(
        f"{done.name}: {done.kind}, {done.rows:,} {done.unit}s of {len(done.classes)} classes: {', '.join(largest)}"
        + (f" and {more} more" if more else "")
    )
    lines += [line for note in done.notes for line in folded(note, "  ")]
    rows = [["macro-F1", "accuracy", "survives", f"of {forest_words(done.unit, done.sample)}"]]
    for row in done.scores.to_dict("records"):
        numbers = [_number(row["macro_f1"], ".2f"), _number(row["accuracy"], ".2f"), _number(row["survives"], ".0%")]
        rows.append([*numbers, f"{row['what']}: {row['says']}"])
    lines += ["", *columns_of(rows), ""]
    if done.passed:
        return [*lines, f"no findings in {len(done.table)} checks"]
    lines.append(f"{len(done.findings)} findings in {len(done.table)} checks:")
    for number, says in enumerate(done.findings, 1):
        lines += folded(says, f"{number:3}. ", "     ")
    return lines


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def write_audit(done: Audit, path: Path, into: Path | None = None) -> Path:
    """Write picture, tables and JSON of an audit into a folder, by default below runs/audit/, and return the folder.

    Raises NetreproError where nothing can be written there.
    """
    folder = into if into is not None else runs_dir() / "audit" / path.resolve().name
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)
    use_style()
    save_figure(draw_audit(done), folder, "audit", endings=(".png",))
    tables = {"checks": done.table, "scores": done.scores, "columns": done.columns, "meter": done.meter}
    for name, table in tables.items():
        if table is not None:
            with whole_file(folder / f"{name}.csv") as partial:
                table.to_csv(partial, index=False)
    write_atomically(folder / "audit.json", json.dumps(done.content(), indent=1, ensure_ascii=False))
    return folder
