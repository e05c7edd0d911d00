"""What was measured, claim by claim, and the answer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from netrepro.claims import Measured
from netrepro.papers.fperf_leaf_spine.times import NO_SEARCH, known_times


def answer(answers: pd.DataFrame, cases: pd.DataFrame, fits: pd.DataFrame) -> str:
    """Answer the paper's question in one sentence, from `without_base_workload`, `synthesise_all`, `fit_growth`."""
    found = answers.set_index("question")["with_base"]["fewer than half is received"]
    words = {"sat": "can receive", "unsat": "cannot receive"}.get(found, "could not be shown to receive")
    proven = int((cases["status"] == "proven").sum())
    growth = fits.set_index("task").loc["base example", "factor_per_host"]
    return (
        f"Host 6 {words} less than half of its line although no two hosts share a destination; "
        f"{proven} of {len(cases)} case studies have a proven workload; time grows {growth:.2f} times a host."
    )


def measured_claims(
    times: pd.DataFrame,
    fits: pd.DataFrame,
    cases: pd.DataFrame,
    spread: pd.DataFrame,
    answers: pd.DataFrame,
    flat_times: pd.DataFrame,
) -> list[Measured]:
    """Return the measured values for each claim of data/fperf_leaf_spine/claims.yaml.

    `answers` is `without_base_workload()`, `flat_times` is `measure_flat_times(...)`; the others as named.
    """

    def is_so(*facts: bool) -> list[float]:
        return [float(all(facts))]

    case = cases.set_index("case")
    found = [
        Measured(
            claim=claim,
            values=is_so(case.loc[name, "status"] == "proven"),
            exact=True,
            control=is_so(case.loc[name, "control_status"] != "unsat"),
        )
        for claim, name in [
            ("starvation-strict-priority", "strict priority"),
            ("unfair-round-robin", "round robin"),
            ("thin-flow-fq-codel", "FQ-CoDel"),
            ("unfair-loom", "Loom"),
            ("latency-leaf-spine", "leaf-spine"),
        ]
    ]
    verdict = answers.set_index("question")

    def base_decides(question: str) -> list[float]:
        return is_so(verdict.loc[question, "with_base"] == "unsat", verdict.loc[question, "without_base"] == "sat")

    found.append(
        Measured(
            claim="half-line-rate",
            values=is_so(verdict.loc["fewer than half is received", "with_base"] == "sat"),
            exact=True,
            control=is_so(
                verdict.loc["fewer than half is received though the other hosts are silent", "with_base"] == "sat"
            ),
        )
    )
    found.append(
        Measured(
            claim="base-workload-matters",
            values=base_decides("nothing at all is received"),
            exact=True,
            control=base_decides("nothing at all is received, host 1 being free to be silent"),
        )
    )
    found.append(
        Measured(
            claim="exponential-growth",
            values=exponential_shares(times),
            control=exponential_shares(flat_times, by="size"),
        )
    )
    found.append(_measured_spread(spread))
    return found


def _measured_spread(spread: pd.DataFrame) -> Measured:
    """Measure by what factor the solver's work differs from its median, on the longest horizon's formula.

    One median for seeds and orders together: who asks the same elsewhere changes both. The control is the same of a
    formula of two time steps, which leaves little to search; without it the claim has none.
    """
    changed = spread[spread["mutation"] != "none"]
    differ = {
        horizon: list(1 + (steps / steps.median() - 1).abs())
        for horizon, steps in changed.groupby("horizon_steps")["solver_steps"]
    }
    return Measured(claim="seeds-explain-15-percent", values=differ[max(differ)], control=differ.get(NO_SEARCH))


def exponential_shares(times: pd.DataFrame, task: str = "base example", by: str = "hosts") -> list[float]:
    """Return for each seed 1.0 if the task's time grows (by half at least) and an exponential is nearer than a line,
    else 0.0.

    `by` is the column of sizes; names count as 0, 1, 2, ... in the order of the table. Both fits are least
    squares with two parameters, the exponential's on log seconds; nearness is judged on seconds.
    """
    own = known_times(times[times["task"] == task])
    shares = []
    for _, group in own.groupby("seed"):
        sizes = group[by].to_numpy(float) if by == "hosts" else np.arange(len(group), dtype=float)
        seconds = group["cpu_s"].to_numpy(float)
        if len(set(sizes)) < 3:
            continue
        line = np.polyval(np.polyfit(sizes, seconds, 1), sizes)
        curve = np.exp(np.polyval(np.polyfit(sizes, np.log(seconds), 1), sizes))
        is_nearer = ((seconds - curve) ** 2).sum() < ((seconds - line) ** 2).sum()
        shares.append(float(is_nearer and seconds[-1] >= 1.5 * seconds[0]))
    return shares
