"""A congestion control of one's own, in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netrepro._core import CongestionWindow, Delivery


class OwnCongestionControl:
    """A congestion control of one's own: derive from it and give the class to `simulate`.

    A sender calls the methods.

    Every connection has an object of its own, made without arguments. `window` has `segments` (need not be whole),
    `threshold` (where slow start ends) and `in_slow_start`. Its method `slow_start(acknowledged)` grows it up to
    the threshold and returns the segments that are left over. `avoid_congestion(acknowledged, per_segment)` grows it
    by a whole segment each time that `per_segment` segments have been acknowledged.

    `delivery` has `now_s`, `segments` (newly acknowledged), `marked`, `marked_segments` (as many as AccECN tells; else
    all that are acknowledged with the echo of a mark), `window_limited` (the window, and nothing else, held the sender
    back), `round_trip_s` (0 without a sample), `first` and `next` (numbers of the oldest segment not acknowledged and
    of the next to be sent).
    """

    def grow(self, window: CongestionWindow, delivery: Delivery) -> None:
        """Let `window.segments` grow: an acknowledgement came while nothing was wrong."""
        raise NotImplementedError

    def threshold_after_loss(self, window: CongestionWindow) -> float:
        """Return the segments that the window shrinks to after a loss."""
        raise NotImplementedError

    def threshold_after_mark(self, window: CongestionWindow) -> float:
        """Return the segments that the window shrinks to after an ECN mark; as after a loss unless overridden."""
        return self.threshold_after_loss(window)

    def on_delivery(self, window: CongestionWindow, delivery: Delivery) -> None:
        """Note an acknowledgement; called for every one, also during recovery: for measuring."""

    def on_timeout(self) -> None:
        """Note that the retransmission timer has run out."""
