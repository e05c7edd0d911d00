"""Elections after a crash of Raft's leader, simulated by the compiled core and checked against `protocols.raft`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import pandas as pd

from netrepro import _core
from netrepro.errors import NetreproError

LONGEST_MS = 1e6  # a trial is given up after this time


@dataclass(frozen=True)
class Election:
    """The survivors of a leader's crash, and the properties of their network, disks and timers; times in ms.

    A message's delay is uniform between the two delays. A write takes least_write_ms plus an exponential time of mean
    extra_write_ms. timer_late_ms : mean of the exponential time by which timers are late. tick_ms : timers count whole
    ticks of this length (as etcd's do); 0 for none. whole_ms : timeouts are rounded to the nearest millisecond.
    two_writes : a voter writes a new term before it compares logs, and its vote in a second write. keeps_leader : a
    server that heard from a leader within the least timeout disregards requests for votes. log_lengths : one for each
    survivor, fewer than `servers`. The longest log that a majority has, together with all dead servers, is committed.
    heartbeat_ms : None for half the least timeout. one_seed : all servers draw the same timeouts. checks_logs : voters
    refuse candidates with shorter logs. synchronised : True if the last heartbeat went to all servers at once, with the
    crash at a random time in the interval; False if each server has its own last heartbeat. fresh_timers : nobody
    crashes, and all survivors begin with new timers. until_elected : a trial ends as soon as there is a leader, before
    the others hear of it.

    Raises NetreproError for negative or infinite times, for a least delay above the greatest, and for fewer than two
    survivors or more than eight servers.
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
    whole_ms: bool = False
    two_writes: bool = False
    pre_vote: bool = False
    keeps_leader: bool = False
    one_seed: bool = False
    checks_logs: bool = True
    synchronised: bool = True
    fresh_timers: bool = False
    until_elected: bool = False

    @property
    def committed(self) -> int:
        """The length of the longest log that a majority of servers has, if all dead ones had it."""
        dead = self.servers - len(self.log_lengths)
        return sorted(self.log_lengths, reverse=True)[max(0, self.servers // 2 - dead)]

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
    """Parse a range of timeouts in ms: '150-155' gives (150.0, 155.0). Raises NetreproError for any other text."""
    try:
        least, greatest = map(float, line.split("-"))
    except ValueError:
        raise NetreproError(f"no range of timeouts {line!r}", "write it like 150-155") from None
    if not 0 < least <= greatest:
        raise NetreproError(f"no range of timeouts {line!r}", "the least first, and more than 0")
    return least, greatest


def elect(timeouts: str, election: Election, trials: int, seed: int) -> pd.DataFrame:
    """Run elections and return one row for each trial. `timeouts` is a range as in `timeouts_of`.

    The columns are without_leader_ms (from the crash until every other survivor has heard from one new leader; see
    `fresh_timers` and `until_elected` for another beginning and end), terms
    (the number of terms that began), elected (whether a leader came within LONGEST_MS), and safe (never two leaders in
    one term, nor a leader that lacks a committed entry).
    """
    least, greatest = timeouts_of(timeouts)
    core = _core.RaftElection(
        servers=election.servers,
        log_lengths=list(election.log_lengths),
        committed=election.committed,
        least_timeout=least,
        greatest_timeout=greatest,
        tick=election.tick_ms,
        step=float(election.whole_ms),
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
        two_writes=election.two_writes,
        synchronised=election.synchronised,
        fresh_timers=election.fresh_timers,
        until_elected=election.until_elected,
        longest=LONGEST_MS,
    )
    names = ("without_leader_ms", "terms", "elected", "safe")
    return pd.DataFrame(dict(zip(names, core.run(trials, seed), strict=True)))


def split_vote_share(latency_share: float, survivors: int = 4, servers: int = 5) -> float:
    """Compute the probability that no server wins the first election, in closed form (Ongaro's dissertation; any
    survivor can win).

    latency_share : a message's delay as a share of the timeouts' range. The vote is split if so many survivors (c) time
    out within one delay of the first that the rest gives it no majority: c > survivors - floor(servers / 2). The
    c-th of s uniform times comes within l of the first with the probability of c - 1 or more hits out of s.
    """
    together = survivors - servers // 2 + 1
    share = min(1.0, latency_share)
    hits = range(together - 1, survivors + 1)
    return sum(math.comb(survivors, k) * share**k * (1 - share) ** (survivors - k) for k in hits)
