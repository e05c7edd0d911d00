"""Receivers that acknowledge otherwise than they should, to be sent more than their share (Savage et al., CCR 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from netrepro.networks.description import Count, Positive, check_numbers, described, whole

MOST_COPIES = 65_535


@described
@dataclass(frozen=True)
class AckDivision:
    """Every segment is acknowledged in so many `pieces`, each of which covers a part of its bytes."""

    pieces: Count

    def __post_init__(self) -> None:
        check_numbers(self)


@described
@dataclass(frozen=True)
class DuplicateSpoofing:
    """Every acknowledgement of something new is sent so many `copies` more, as if segments beyond it had come.

    Each is a packet; a window's worth of them is what moves a sender, and 65,535 are as many as may be asked for.
    """

    copies: Annotated[int, whole(most=MOST_COPIES)]

    def __post_init__(self) -> None:
        check_numbers(self)


@described
@dataclass(frozen=True)
class OptimisticAck:
    """Acknowledges payload at `rate_mbps`, a segment at a time, from the first that comes on, be it there or not.

    Losses are kept quiet, so that a flow that had one never has all its bytes. What has not been sent is no news to the
    sender; when that waits in vain and sends again what is there, the receiver begins anew from what it holds.
    """

    rate_mbps: Positive

    def __post_init__(self) -> None:
        check_numbers(self)


Receiver = AckDivision | DuplicateSpoofing | OptimisticAck
