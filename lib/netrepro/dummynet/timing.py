"""The time that the engine takes for a packet."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from netrepro.dummynet.engine import Dummynet
from netrepro.errors import NetreproError


@dataclass(frozen=True)
class Timing:
    """The cost of packets, in nanoseconds of wall-clock time for each packet; a row for each batch.

    batches : batch, arrivals_ns (generating, entry, rules, entering a pipe, and leaving it where nothing delays),
        timer_ns (what the timer does: leaving the pipes), whole_ns (both).
    account : numbers of packets by their fate; they sum to those offered.
    out_of_order : packets that ended in another order than that in which they came.
    """

    batches: pd.DataFrame
    account: dict[str, int]
    out_of_order: int

    def __post_init__(self) -> None:
        ended = sum(packets for name, packets in self.account.items() if name != "offered")
        if ended != self.account["offered"]:
            raise NetreproError(f"packets vanished: {self.account}", "this is a fault of the engine: report it")


def time_packets(
    dummynet: Dummynet,
    packets: int,
    *,
    drop_at_entry: bool = False,
    spacing_us: float = 1.0,
    batch_packets: int = 1000,
    warm_up_packets: int = 50_000,
) -> Timing:
    """Time the engine with smallest UDP datagrams of one flow, 10.0.0.1:4000 to 10.0.0.2:5000.

    A packet comes every `spacing_us` of virtual time, which costs nothing. With `drop_at_entry` packets end before the
    classifier. The timer runs at the end of every batch, so a batch should last one tick. The warm-up, which fills
    pipes and caches, is not counted. Raises NetreproError for fewer packets than a batch has.
    """
    if packets < batch_packets:
        raise NetreproError(f"{packets} packets in batches of {batch_packets}", "give at least one batch")
    from netrepro import _core

    timing = _core.DummynetTiming(dummynet.engine(), drop_at_entry=drop_at_entry, spacing_s=spacing_us * 1e-6)
    timing.run(-(-warm_up_packets // batch_packets), batch_packets)
    nanoseconds = timing.run(packets // batch_packets, batch_packets) / batch_packets
    batches = pd.DataFrame(nanoseconds, columns=["arrivals_ns", "timer_ns"])
    batches = batches.assign(whole_ns=batches.arrivals_ns + batches.timer_ns).rename_axis("batch").reset_index()
    return Timing(batches, timing.account(), timing.out_of_order())
