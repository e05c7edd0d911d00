"""Receivers that send wrong acknowledgements, to be sent more than their share (Savage et al., CCR 1999)."""

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

    With `first_only` it repeats only the first one of a connection.

    Each copy is a packet. A window's worth of them is enough to move a sender; 65,535 are the most that are allowed.
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

    It hides losses, so that a flow with a loss never gets all its bytes. The sender ignores acknowledgements of data
    that it has not sent. When it waits in vain and sends data again that is there, the receiver begins anew from the
    data that it holds.
    """

    rate_mbps: Positive

    def __post_init__(self) -> None:
        check_numbers(self)


Receiver = AckDivision | DuplicateSpoofing | OptimisticAck
