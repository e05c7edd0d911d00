"""Runs, tables and figures of the notebook about a reader's own congestion control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from netrepro.conformance import DEPARTS, FAIL, NOT_APPLICABLE, PASS, ConformanceReport, conform
from netrepro.conformance.pictures import draw_scenario
from netrepro.guides.own_protocol import written_program

__all__ = ["DEPARTS", "FAIL", "PASS", "compare", "draw_scenario", "failed", "look", "measured", "run"]


def run(source: str, suite: str = "rfc", scenarios: Sequence[str] = (), claims: str = "rfc5681") -> ConformanceReport:
    """Test a congestion control, given as the text of a Python program, with its references beside it.

    suite, scenarios, claims : as for `conform`. Raises NetreproError for a text that is not Python, and as `conform`
    does, which tests programs in other languages.
    """
    with written_program(source) as command:
        return conform(command, [suite], scenarios=scenarios, claims=[claims], references=True)


def look(report: ConformanceReport, *verdicts: str) -> pd.DataFrame:
    """Return the sentences that apply, with what was measured; `verdicts`: only those with one of these."""
    table = report.table
    wanted = table["verdict"].isin(verdicts) if verdicts else table["verdict"] != NOT_APPLICABLE
    return table.loc[wanted, ["verdict", "id", "measured", "bound", "says", "source"]].reset_index(drop=True)


def failed(report: ConformanceReport) -> list[str]:
    """List the sentences that fail, by id."""
    return report.failed()


def measured(report: ConformanceReport, sentence: str) -> float:
    """Return the reading of a sentence."""
    return float(report.table.set_index("id")["measured"][sentence])


def compare(reports: Mapping[str, ConformanceReport]) -> pd.DataFrame:
    """Put reports side by side: a row for each sentence that applies to one of them, a column for each report."""
    columns = {name: report.table.set_index("id")["verdict"] for name, report in reports.items()}
    table = pd.DataFrame(columns)
    table = table[(table != NOT_APPLICABLE).any(axis="columns")]
    return table.rename_axis("sentence").reset_index()
