"""The rate control protocol (RCP): the parameters by which routers compute the rates of flows."""

from __future__ import annotations

from dataclasses import dataclass

from netrepro.networks.description import NotNegative, Positive, PositiveShare, check_numbers, described


@described
@dataclass(frozen=True)
class Rcp:
    """The computation by which every link offers the same rate R to all flows with `congestion_control="rcp"`.

    Every `update_ms`, or every round trip where that is shorter, R grows by the share T/d (alpha (C - y) - beta q/d)/C:
    C the link's rate, y the traffic that came, q the queue, d the mean round trip that packets report, T the time since
    the last update (Dukkipati and McKeown, "Why Flow-Completion Time is the Right Metric for Congestion Control",
    CCR 2006). The defaults of `alpha` and `beta` are those of public simulations of 2.4 Gb/s and 100 ms; at first R is
    `first_share` of C, and never less than a packet a round trip. A sender learns the least rate on its path with the
    SYN-ACK and every acknowledgement, and spaces its packets by it. With alpha = beta = 0 the first rate stays.

    RCP is made for links that send many packets in a round trip: a queue of one packet lowers the offered rate by
    beta/alpha packets a round trip.
    """

    alpha: NotNegative = 0.1
    beta: NotNegative = 1.0
    update_ms: Positive = 10.0
    first_share: PositiveShare = 0.05

    def __post_init__(self) -> None:
        check_numbers(self)
