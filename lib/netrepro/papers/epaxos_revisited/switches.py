"""From the original evaluation of EPaxos to the new one, switch by switch: the paper's method, by the same machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from netrepro.papers.epaxos_revisited.readings import settled, summary_of
from netrepro.papers.epaxos_revisited.setting import MULTI, Setting, demand, deployment
from netrepro.simulation.replication import simulate_replication
from netrepro.study import Progress, in_parallel
from netrepro.study.pictures import share_legend
from netrepro.style import new_figure, scheme

HOT_SHARES = (0.0, 0.02, 1.0)  # of the released scripts; none, few and all commands interfere
PROTOCOLS = {"EPaxos": "epaxos", MULTI: "multi-paxos"}


@dataclass(frozen=True)
class Step:
    """A switch from the original value to the new one, and all settings that hold from then on."""

    row: str
    new: str
    changes: Mapping[str, Any]
    seconds: float = 2.0
    settle_s: float = 1.0


_ORIGINAL: dict[str, Any] = {
    "looks_at_arrivals": False,
    "lan_round_trip_ms": 0.3,
    "jitter_ms": 0.02,
    "clients_per_region": 1,
    "cap": 1,
    "arrival_ms": 0.1,
    "writes": 1.0,
    "chain_fix": True,
}
_WIDE: dict[str, Any] = {"lan_round_trip_ms": 0.0, "jitter_ms": 0.2, "arrival_ms": 1.0}
_POISSON: dict[str, Any] = {"cap": 10, "arrival_ms": 18.0, "looks_at_arrivals": True}  # 5 % of the capacity or so
_LOADED: dict[str, Any] = {"clients_per_region": 10, "arrival_ms": 4.5}
_ZIPF: dict[str, Any] = {"hot_share": None, "theta": 0.9}
STEPS = (
    Step("original evaluation", "local network, back to back, hot key, only writes", _ORIGINAL, 0.2, 0.05),
    Step("configuration", "wide area", _WIDE),
    Step("operation schedule", "Poisson, cap of 10", _POISSON),
    Step("load", "80 % of the maximum", _LOADED, 1.0),
    Step("interfering keys", "Zipf, theta 0.9", _ZIPF, 1.0),
    Step("operation type", "reads and writes, half each", {"writes": 0.5}, 1.0),
    Step("access pattern", "the grid's cell theta 0.99, only writes", {"theta": 0.99, "writes": 1.0}, 1.0),
)


def switch_by_switch(setting: Setting, seed: int, progress: Progress = iter) -> pd.DataFrame:
    """Simulate the original evaluation, and again after each switch of the paper's table, one on top of the other.

    Returns a row for each switch, share of the hot key (none from Zipf's keys on) and protocol: median until commit
    (commit_ms), mean and 99th percentile until execution (mean_ms, p99_ms), conflicts (share of commands on the slow
    path), and busiest (share of the busiest processor). The first row of the table, which latency is looked at, is in
    the columns.
    """
    work: list[tuple[Step, float | None, str, Setting]] = []
    changes: dict[str, Any] = {}
    for step in STEPS:
        changes |= step.changes
        shares = HOT_SHARES if changes.get("hot_share", 0.0) is not None else (None,)
        for share, protocol in product(shares, PROTOCOLS):
            own = replace(setting, **(changes | {"hot_share": share, "protocol": PROTOCOLS[protocol]}))
            work.append((step, share, protocol, own))

    def run_one(step: Step, share: float | None, protocol: str, own: Setting) -> dict[str, Any]:
        wanted = demand(own, step.settle_s + step.seconds, seed)
        run = simulate_replication(deployment(own, seed), wanted, seed)
        summary = summary_of(settled(run, step.settle_s), step.seconds).loc["all"]
        hot = "" if share is None else f"{share:.0%}"
        numbers = summary[["commit_ms", "mean_ms", "p99_ms", "conflicts"]].to_dict() | {"busiest": run.busy_share.max()}
        return {"switch": step.row, "now": step.new, "hot key": hot, "protocol": protocol} | numbers

    table = pd.DataFrame(in_parallel(run_one, work, progress=progress))
    return table.set_index(["switch", "now", "hot key", "protocol"])


def draw_switches(table: pd.DataFrame) -> Figure:
    """Draw EPaxos's latency over Multi-Paxos's after each switch: the median until commit, which the original
    evaluation had, the mean until execution, which the new one has, and the 99th percentile."""
    figure, axis = new_figure("From the original evaluation to the new one", "", "EPaxos / Multi-Paxos (ratio)")
    figure.set_size_inches(9.0, 4.6)
    by = table.unstack("protocol")
    order = [each for each in table.index.droplevel("protocol").unique() if each in by.index]
    names = [f"{switch}\n{hot and f'hot key {hot}'}" for switch, _, hot in order]
    looks = {
        "commit_ms": ("median, commit", "o"),
        "mean_ms": ("mean, execution", "s"),
        "p99_ms": ("99th, execution", "^"),
    }
    for column, (label, marker) in looks.items():
        ratios = (by[column, "EPaxos"] / by[column, MULTI]).loc[order]
        axis.plot(range(len(order)), ratios, marker, label=label, ms=7)
    axis.axhline(1, color=scheme(MULTI).colour, linewidth=1)
    axis.set_yscale("log")
    axis.set_yticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    axis.minorticks_off()
    axis.set_xticks(range(len(order)), names, rotation=60, ha="right", fontsize=8)
    share_legend(figure)
    return figure
