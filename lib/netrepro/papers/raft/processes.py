"""Raft as five real processes in virtual time: leaders are killed by SIGKILL, and logs are compared at the end.

The simulator's elections are checked against the same state machine; sockets, timers and crashes are Linux's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from netrepro.applications.raft.run import CHECKS, network, run, violations
from netrepro.networks.topology import Topology
from netrepro.papers.raft.setting import Setting, read_trials
from netrepro.study import Check, OneRun, Progress, Reading, in_parallel, seed_of

GIVEN_UP_AFTER = 8  # times the greatest timeout, where all servers draw the same timeouts


def crash_processes(runs: Sequence[OneRun], progress: Progress = iter) -> list[Reading]:
    """Read all runs. Those with the same network share a kernel, where their servers are killed and restarted."""
    networks = [network(each.setting.election) for each in runs]
    work = [
        (topology, [each for each, own in zip(runs, networks, strict=True) if own == topology])
        for topology in dict.fromkeys(networks)
    ]
    readings: dict[OneRun, Reading] = {}
    for (_, group), own in zip(work, in_parallel(_crash, work, progress=progress), strict=True):
        readings |= dict(zip(group, own, strict=True))
    return [readings[each] for each in runs]


def _crash(topology: Topology, group: Sequence[OneRun]) -> list[Reading]:
    plan = [_plan(each.setting, seed_of(*each.seed)) for each in group]
    crashed = run(topology, plan, group[0].seed[0])
    return [_read(each.setting, of_one) for each, of_one in zip(group, crashed, strict=True)]


def _read(setting: Setting, crashed: dict[str, Any]) -> Reading:
    """Read trials of real processes, and check their logs. A trial that was given up counts with the time until
    then."""
    trials = pd.DataFrame(crashed["trials"])
    trials = trials.assign(without_leader_ms=1e3 * trials.without_leader_s)
    wrong = violations(crashed)
    checks = [Check(f"processes: {check}", wrong[check], at_most=0) for check in CHECKS]
    if not setting.one_seed:
        open_ends = int((~trials.elected.astype(bool)).sum())
        checks.append(Check("processes: trials that were given up", open_ends, at_most=0))
    return read_trials(setting, trials, checks)


def _plan(setting: Setting, seed: int) -> dict[str, Any]:
    """Describe a run in the form that the processes' program takes; times are in seconds."""
    least, election = setting.least_timeout_ms, setting.election
    greatest = least + setting.timeout_range_ms
    heartbeat = least / 2 if election.heartbeat_ms is None else election.heartbeat_ms
    one_way = setting.greatest_delay_ms
    settle = 2 * heartbeat + 4 * one_way + 6 * (setting.least_write_ms + setting.extra_write_ms)
    times = {"least": least, "greatest": greatest, "heartbeat": heartbeat, "settle": settle}
    times |= {"least_write": setting.least_write_ms, "extra_write": setting.extra_write_ms}
    longest = GIVEN_UP_AFTER * greatest if setting.one_seed else 1e6
    times |= {"timer_late": setting.timer_late_ms, "longest": longest}
    longest_log = max(setting.log_lengths)
    return {f"{name}_s": ms / 1e3 for name, ms in times.items()} | {
        "lagging": sum(length < longest_log for length in setting.log_lengths),
        "victims": election.servers - len(setting.log_lengths),
        "one_seed": setting.one_seed,
        "two_writes": setting.two_writes,
        "whole_ms": setting.whole_ms,
        "trials": setting.process_control_trials if setting.one_seed else setting.process_trials,
        "seed": seed,
    }
