"""Raft's cluster and its trials, their readings, and the published lines of Fig. 16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import pandas as pd

from netrepro.paths import data_dir
from netrepro.protocols.raft_elections import Election
from netrepro.study import Check, Reading
from netrepro.study.setting import parameter


@dataclass(frozen=True)
class Setting:
    """The paper's cluster in the terms of `Election`, the range of its timeouts, and the number of trials of a run.

    A disk write takes least_write_ms and an exponential time with mean extra_write_ms; `calibrate` fits both to one
    line. whole_ms, two_writes : LogCabin's rules (Server/RaftConsensus.cc, Core/Random.cc). splits : count split votes
    instead of elections. trials : of a line and repetition (Fig. 16 has 1,000). control_trials : with one seed for all
    servers. calibration_trials : also of split votes. process_trials, process_control_trials : of real processes.
    """

    least_delay_ms: float = parameter(0.2, "of a message, one way, even between this", low=0, high=1000)
    greatest_delay_ms: float = parameter(0.6, "and this", "ms", low=0, high=1000)
    timer_late_ms: float = parameter(0.05, "mean by which a timer fires too late, Linux' slack", "ms", low=0, high=1000)
    etcd_crashes: int = parameter(
        10, "of a real etcd's leader, in section 10, in real and in virtual time; 0 for none", low=0, high=1000
    )
    least_write_ms: float = 0.0
    extra_write_ms: float = 4.0
    log_lengths: tuple[int, ...] = (10, 10, 9, 9)
    least_timeout_ms: float = 150.0
    timeout_range_ms: float = 150.0
    whole_ms: bool = True
    two_writes: bool = True
    pre_vote: bool = False
    one_seed: bool = False
    checks_logs: bool = True
    synchronised: bool = True
    fresh_timers: bool = False
    until_elected: bool = False
    splits: bool = False
    trials: int = 1000
    control_trials: int = 50
    calibration_trials: int = 4000
    process_trials: int = 20
    process_control_trials: int = 1

    @property
    def line(self) -> str:
        """The range of timeouts as Fig. 16 names it."""
        return f"{self.least_timeout_ms:g}-{self.least_timeout_ms + self.timeout_range_ms:g}"

    @property
    def election(self) -> Election:
        """The cluster. Raises NetreproError for an impossible one."""
        own = {each.name for each in fields(self)}
        return Election(**{each.name: getattr(self, each.name) for each in fields(Election) if each.name in own})


@cache
def published() -> Mapping[str, np.ndarray]:
    """Read Fig. 16's lines: percentiles 0, 1, ..., 100 of the time without a leader (ms)."""
    table = pd.read_csv(data_dir("raft") / "election_cdf.csv").groupby("election_timeout_ms")["time_without_leader_ms"]
    return {str(line): rows.to_numpy()[:101] for line, rows in table}  # 150-300 is in both panels


def distance(times_ms: np.ndarray, percentiles_ms: np.ndarray) -> float:
    """Compute the greatest distance between our times' distribution and that of published percentiles 0, 1, ...,
    100."""
    ours, shares = np.sort(times_ms), np.linspace(0, 1, len(percentiles_ms))
    theirs = np.interp(ours, percentiles_ms, shares, left=0.0, right=1.0)
    steps = np.arange(len(ours) + 1) / len(ours)
    return float(max(np.abs(steps[1:] - theirs).max(), np.abs(steps[:-1] - theirs).max()))


def read_trials(setting: Setting, trials: pd.DataFrame, checks: Sequence[Check]) -> Reading:
    """Read statistics of the times without a leader (ms), the mean number of terms that began, and the distance to the
    published line of the same range."""
    times = trials.without_leader_ms.to_numpy()
    numbers = {
        "median_ms": float(np.median(times)),
        "mean_ms": float(np.mean(times)),
        "p90_ms": float(np.percentile(times, 90)),
        "greatest_ms": float(np.max(times)),
        "terms": float(trials.terms.mean()),
        "distance": distance(times, published()[setting.line]) if setting.line in published() else np.nan,
    }
    return Reading(numbers, {"trials": trials[["without_leader_ms", "terms"]]}, checks)
