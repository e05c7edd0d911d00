"""Conformance reports as a page, and as the lines of `netrepro conform`."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netrepro.conformance.pictures import draw_scenario
from netrepro.conformance.run import DEPARTS, FAIL, NOT_APPLICABLE, PASS, ConformanceReport, Judged, words_of
from netrepro.files import write_atomically
from netrepro.workbench.cli.console import columns_of, folded
from netrepro.workbench.publishing.templating import render

SIGN = {PASS: "✓", FAIL: "✗", DEPARTS: "!", NOT_APPLICABLE: "·"}
COLOUR = {PASS: "#1b7837", FAIL: "#b2182b", DEPARTS: "#b35806", NOT_APPLICABLE: "#888888"}


def report_lines(report: ConformanceReport) -> list[str]:
    """Write a report as lines: a line a sentence, words for what is not kept, and the counts."""
    lines: list[str] = []
    before = ""
    for (suite, scenario), cases in report.by_scenario().items():
        if all(each.verdict == NOT_APPLICABLE for each in cases):
            continue
        if suite != before:
            lines += [*([""] if lines else []), suite]
        before = suite
        lines += columns_of([[f"  {scenario}", ""]])
        for each in cases:
            if each.verdict != NOT_APPLICABLE:
                lines += _lines_of(each)
    counts = ", ".join(f"{number} {verdict}" for verdict, number in report.counts().items())
    return [*lines, "", f"{report.subject.name} on tier {report.subject.tier}: {counts}", *golden_lines(report)]


def golden_lines(report: ConformanceReport) -> list[str]:
    """Write as lines which traces differ from the golden ones, and where; nothing where none was compared."""
    if not report.golden_scenarios:
        return []
    differ = report.golden_differences
    if not differ:
        return folded(f"the traces of {len(report.golden_scenarios)} scenarios are the golden ones", "", "  ")
    lines = ["these traces differ from the golden ones:"]
    for each in differ:
        lines += folded(f"{each.scenario}/{each.trace}: {each.where}", "  ", "    ")
    return lines


def _lines_of(each: Judged) -> list[str]:
    said = each.sentence
    lines = folded(f"{said.id}: {words_of(each.value)} ({each.bound})", f"    {SIGN[each.verdict]} ", "      ")
    if each.verdict == PASS:
        return lines
    lines += folded(f"{said.level}: {said.says} [{said.source}]", "      ")
    if math.isfinite(each.reference):
        lines += folded(f"the reference has {words_of(each.reference)}", "      ")
    return lines + (folded(each.why, "      ") if each.why else [])


def write_report(report: ConformanceReport, folder: Path, *, pictures: bool = True) -> Path:
    """Write report.html, report.json, junit.xml and the traces (qlog, with their hashes) into a folder; return the
    page's path. The files are the same for the same subject."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "report.json", report.to_json())
    write_atomically(folder / "junit.xml", report.to_junit())
    report.write_traces(folder / "traces")
    drawn = {name: _picture(report, name) for name in report.traces} if pictures else {}
    path = folder / "report.html"
    told = {"report": report, "scenarios": _scenarios(report, drawn), "golden": golden_lines(report), "colour": COLOUR}
    write_atomically(path, render("conformance", **told))
    return path


def _scenarios(report: ConformanceReport, drawn: dict[str, str]) -> Sequence[dict[str, Any]]:
    rows, cases_of = [], report.by_scenario()
    for suite in report.suites:
        for scenario in suite.scenarios:
            if cases := cases_of.get((suite.suite, scenario.name)):
                rows.append(
                    {
                        "suite": suite,
                        "scenario": scenario,
                        "cases": [(each, words_of(each.value)) for each in cases],
                        "picture": drawn.get(scenario.name, ""),
                    }
                )
    return rows


def _picture(report: ConformanceReport, name: str) -> str:
    buffer = io.BytesIO()
    draw_scenario(report, name).savefig(buffer, format="png", dpi=80, metadata={"Software": None})
    return base64.b64encode(buffer.getvalue()).decode()
