"""Raft as five real processes in virtual time: leaders are killed by SIGKILL, and logs are compared at the end.

The machine is the one that the simulator's elections are checked against; sockets, timers and crashes are Linux's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netrepro.applications.raft.run import CHECKS, network, run, violations
from netrepro.emulation.tiers import why_no_processes
from netrepro.networks.topology import Topology
from netrepro.protocols.raft_elections import Election, timeouts_of
from netrepro.study import CheckedRuns, Progress, in_parallel, seed_of

GIVEN_UP_AFTER = 8  # greatest timeouts, where all servers draw the same
COLUMNS = ["case", "line", "repetition", "without_leader_ms", "terms", "elected"]
FIDELITY = ["check", "value", "bound", "holds"]


@dataclass(frozen=True)
class Case:
    """A line of the figure: its timeouts and its setting; case is "Raft" or "one seed"."""

    line: str
    timeouts: str
    setting: Election
    case: str = "Raft"


@dataclass(frozen=True)
class Trials(CheckedRuns):
    """Trials (COLUMNS at least, a row each), and the checks."""

    trials: pd.DataFrame

    def times(self, case: str, line: str) -> list[np.ndarray]:
        """Return the ms without a leader, with an array for each repetition."""
        rows = self.trials[(self.trials.case == case) & (self.trials.line == line)]
        return [times.to_numpy() for _, times in rows.groupby("repetition")["without_leader_ms"]]

    def each(self, statistic: Callable, line: str, case: str = "Raft") -> list[float]:
        """Compute the statistic of the times, with a value for each repetition."""
        return [float(statistic(times)) for times in self.times(case, line)]


@dataclass(frozen=True)
class Crashes(Trials):
    """Trials of real processes (one that was given up counts with the time until then), and the checks of their logs;
    `why` says why there are none."""

    fidelity: pd.DataFrame
    why: str = ""

    @property
    def lines(self) -> list[str]:
        """The lines that were measured."""
        return list(self.trials.line.unique())


def crash_processes(
    cases: Sequence[Case], trials: Mapping[str, int], repetitions: int, seed: int, progress: Progress = iter
) -> Crashes:
    """Run all cases, `trials` by case ("Raft", "one seed") in each repetition; nothing, and why, where there is no such
    kernel.

    Cases with one network share a kernel: their servers are killed and begin anew.
    """
    if why := why_no_processes():
        return Crashes(pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=FIDELITY), why)
    networks = dict.fromkeys(network(each.setting) for each in cases)
    work = [(topology, [each for each in cases if network(each.setting) == topology]) for topology in networks]

    def run_one(topology: Topology, group: Sequence[Case]) -> tuple[pd.DataFrame, list[Counter]]:
        asked = [(each, repetition) for repetition in range(repetitions) for each in group]
        plan = [_plan(each, trials[each.case], seed_of(seed, repetition)) for each, repetition in asked]
        tables, wrong = [], []
        for (each, repetition), found in zip(asked, run(topology, plan, seed), strict=True):
            table = pd.DataFrame(found["trials"]).assign(case=each.case, line=each.line, repetition=repetition)
            tables.append(table.assign(without_leader_ms=1e3 * table.without_leader_s)[COLUMNS])
            wrong.append(violations(found))
        return pd.concat(tables), wrong

    found = in_parallel(run_one, work, progress=progress)
    table = pd.concat([each for each, _ in found], ignore_index=True)
    wrong = sum((each for _, counters in found for each in counters), Counter())
    rows = [(f"processes: {check}", wrong[check], 0, wrong[check] == 0) for check in CHECKS]
    open_ends = int((~table.elected[table.case == "Raft"].astype(bool)).sum())
    rows.append(("processes: trials that were given up", open_ends, 0, open_ends == 0))
    return Crashes(table, pd.DataFrame(rows, columns=FIDELITY))


def _plan(case: Case, trials: int, seed: int) -> dict[str, Any]:
    """Describe a case in the form that the program takes; times are in seconds."""
    least, greatest = timeouts_of(case.timeouts)
    setting, is_control = case.setting, case.case == "one seed"
    heartbeat = least / 2 if setting.heartbeat_ms is None else setting.heartbeat_ms
    one_way = setting.greatest_delay_ms
    settle = 2 * heartbeat + 4 * one_way + 6 * (setting.least_write_ms + setting.extra_write_ms)
    times = {"least": least, "greatest": greatest, "heartbeat": heartbeat, "settle": settle}
    times |= {"least_write": setting.least_write_ms, "extra_write": setting.extra_write_ms}
    times |= {"timer_late": setting.timer_late_ms, "longest": GIVEN_UP_AFTER * greatest if is_control else 1e6}
    longest_log = max(setting.log_lengths)
    return {f"{name}_s": ms / 1e3 for name, ms in times.items()} | {
        "lagging": sum(length < longest_log for length in setting.log_lengths),
        "victims": setting.servers - len(setting.log_lengths),
        "one_seed": is_control,
        "trials": trials,
        "seed": seed,
    }
