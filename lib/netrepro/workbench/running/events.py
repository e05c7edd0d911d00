"""What the runner tells: events while notebooks run, and how each ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from netrepro.workbench.running import run_folder
from netrepro.workbench.running.run_folder import Progress, Status


@dataclass(frozen=True)
class RunEvent:
    """An event while notebooks run. The command line shows it; a notebook may do so, too."""

    kind: Literal["started", "progress", "ended", "skipped", "waiting", "kernel", "note"]
    name: str
    budget_s: float
    elapsed_s: float = 0.0
    progress: Progress | None = None
    status: Status | None = None
    reason: str = ""


@dataclass
class RunReport:
    """The end of every notebook. A failed run leaves the folder of the last good run unchanged."""

    statuses: list[Status] = field(default_factory=list)
    interrupted: bool = False
    no_kernel: str = ""  # why the virtual kernel was not built, where it was to be

    @property
    def ok(self) -> bool:
        """True where every run ended well and none was interrupted."""
        return not self.interrupted and all(status.ok for status in self.statuses)

    @property
    def exit_code(self) -> int:
        """0: all ran; 1: some did not; 130: interrupted."""
        return 130 if self.interrupted else int(not self.ok)

    def table(self) -> pd.DataFrame:
        """Return one row for each run: name, outcome, seconds, budget_s, cpu_s, peak_mb, reused, exception, folder,
        stays."""
        columns = ["name", "outcome", "seconds", "budget_s", "cpu_s", "peak_mb", "reused", "exception"]
        columns += ["folder", "stays"]
        return pd.DataFrame([status.model_dump(include=set(columns)) for status in self.statuses], columns=columns)

    def claims(self, parameters: Sequence[str] = ()) -> pd.DataFrame:
        """Return one row for each claim of every run that ended well: name, the run's values of `parameters`, claim,
        unit, value, interval_low, interval_high, verdict, reason."""
        from netrepro.claims import judge, load_claims, read_results

        rows = []
        for status in self.statuses:
            if not status.ok or status.folder is None or not (status.folder / run_folder.RESULTS).exists():
                continue
            given = {"name": status.name} | {name: status.parameters[name] for name in parameters}
            for result in read_results(status.folder / run_folder.RESULTS).runs.values():
                for claim in load_claims(status.slug).claims:
                    judgement = judge(claim, result.measurement(claim.id), result.tier)
                    low, high = judgement.interval or (None, None)
                    row = {"claim": claim.id, "unit": claim.unit, "value": judgement.value}
                    row |= {"interval_low": low, "interval_high": high}
                    rows.append(given | row | {"verdict": judgement.verdict, "reason": judgement.reason})
        return pd.DataFrame(rows)
