"""Elections after a crash of Raft's leader, by the core, whose oracle is the machine of `netrepro.protocols.raft`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import pandas as pd

from netrepro import _core
from netrepro.errors import NetreproError

LONGEST_MS = 1e6  # after which a trial is given up


@dataclass(frozen=True)
class Election:
    """A crashed leader's survivors, and what their network, disks and timers are like; times in ms.

    A message takes between the two delays, evenly; a write least_write_ms and something exponential with the mean
    extra_write_ms. timer_late_ms : mean by which the operating system wakes a server too late, exponential. tick_ms :
    timers count whole ticks (as etcd's do), 0 for none. keeps_leader : who heard from a leader within the least timeout
    disregards requests for votes. log_lengths : of the survivors, of whom there are fewer than
    `servers`; the longest is committed. heartbeat_ms : half the least timeout, unless given. one_seed : all servers
    draw the same timeouts. checks_logs : voters refuse shorter logs. synchronised : the last heartbeat went to all at
    once, and the crash comes anywhere in an interval; else every server's came by itself.

    Raises NetreproError for times that are none, and for delays of which the least is the greater.
    """

    least_delay_ms: float = 0.2
    greatest_delay_ms: float = 0.6
    least_write_ms: float = 0.0
    extra_write_ms: float = 0.0
    timer_late_ms: float = 0.0
    log_lengths: tuple[int, ...] = (10, 10, 10, 10)
    servers: int = 5
    heartbeat_ms: float | None = None
    tick_ms: float = 0.0
    pre_vote: bool = False
    keeps_leader: bool = False
    one_seed: bool = False
    checks_logs: bool = True
    synchronised: bool = True

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name.endswith("_ms") and value is not None and not 0 <= value < math.inf:
                raise NetreproError(f"{name} {value}", "give 0 or more milliseconds")
        if self.greatest_delay_ms < self.least_delay_ms:
            raise NetreproError(f"delays from {self.least_delay_ms} to {self.greatest_delay_ms} ms", "least first")
        if not 2 <= len(self.log_lengths) < self.servers <= 8:
            raise NetreproError(
                f"{len(self.log_lengths)} survivors of {self.servers} servers", "two at least, of eight at most"
            )


def timeouts_of(line: str) -> tuple[float, float]:
    """Read '150-155' as (150.0, 155.0), ms. Raises NetreproError for a text that is no range."""
    try:
        least, greatest = map(float, line.split("-"))
    except ValueError:
        raise NetreproError(f"no range of timeouts {line!r}", "write it like 150-155") from None
    if not 0 < least <= greatest:
        raise NetreproError(f"no range of timeouts {line!r}", "the least first, and more than 0")
    return least, greatest


def elect(timeouts: str, election: Election, trials: int, seed: int) -> pd.DataFrame:
    """Run elections and return a row for each trial. `timeouts` is a range as in `timeouts_of`.

    Returns without_leader_ms, from the crash until every other survivor has heard from one new leader; terms that
    began; elected, whether that came within LONGEST_MS; and safe: never two leaders in a term, nor one without a
    committed entry.
    """
    least, greatest = timeouts_of(timeouts)
    core = _core.RaftElection(
        servers=election.servers,
        log_lengths=list(election.log_lengths),
        committed=max(election.log_lengths),
        least_timeout=least,
        greatest_timeout=greatest,
        tick=election.tick_ms,
        timer_late=election.timer_late_ms,
        heartbeat=least / 2 if election.heartbeat_ms is None else election.heartbeat_ms,
        least_delay=election.least_delay_ms,
        greatest_delay=election.greatest_delay_ms,
        least_write=election.least_write_ms,
        mean_extra_write=election.extra_write_ms,
        pre_vote=election.pre_vote,
        keeps_leader=election.keeps_leader,
        one_seed=election.one_seed,
        checks_logs=election.checks_logs,
        synchronised=election.synchronised,
        longest=LONGEST_MS,
    )
    names = ("without_leader_ms", "terms", "elected", "safe")
    return pd.DataFrame(dict(zip(names, core.run(trials, seed), strict=True)))


def split_vote_share(latency_share: float, survivors: int = 4, servers: int = 5) -> float:
    """Compute the chance that nobody wins the first election, in closed form (Ongaro's dissertation; survivors can all
    win).

    latency_share : what a message takes, as a share of the timeouts' range. Votes are split where so many survivors
    time out within a message of the first that the rest is no majority with it: c > survivors - floor(servers / 2). The
    c-th of s evenly distributed times comes within l of the first with the chance of c - 1 or more hits out of s.
    """
    together = survivors - servers // 2 + 1
    share = min(1.0, latency_share)
    hits = range(together - 1, survivors + 1)
    return sum(math.comb(survivors, k) * share**k * (1 - share) ** (survivors - k) for k in hits)
