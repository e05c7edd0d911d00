"""Receivers that acknowledge otherwise than they should, to be sent more than their share (Savage et al., CCR 1999)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from netrepro.networks.description import Count, Positive, check_numbers, described, whole

MOST_COPIES = 65_535


@described
@dataclass(frozen=True)
class AckDivision:
    """A receiver that acknowledges every segment in so many `pieces`, each of which covers a part of its bytes."""

    pieces: Count

    def __post_init__(self) -> None:
        check_numbers(self)


@described
@dataclass(frozen=True)
class DuplicateSpoofing:
    """A receiver that sends `copies` more of every new acknowledgement, as if segments beyond it had come.

    With `first_only` it repeats the first one of a connection alone.

    Each is a packet; a window's worth of them is what moves a sender, and 65,535 are as many as may be asked for.
    """

    copies: Annotated[int, whole(most=MOST_COPIES)]
    first_only: bool = False

    def __post_init__(self) -> None:
        check_numbers(self)


@described
@dataclass(frozen=True)
class OptimisticAck:
    """A receiver that acknowledges payload at `rate_mbps`, a segment at a time, whether it has come or not.

    It begins with the first segment that comes.

    Losses are kept quiet, so that a flow that had one never has all its bytes. The sender ignores acknowledgements of
    what it has not sent; when it waits in vain and sends again what is there, the receiver begins anew from what it
    holds.
    """

    rate_mbps: Positive

    def __post_init__(self) -> None:
        check_numbers(self)


Receiver = AckDivision | DuplicateSpoofing | OptimisticAck
