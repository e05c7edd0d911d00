"""Reno by RFC 5681 in Python, and what goes wrong with it: one change each."""

from __future__ import annotations

from own_reno import MyReno


class Reno(MyReno):
    """Reno, whose threshold follows from what is in flight, and not from the window as Linux's does."""

    flight = 0.0

    def on_delivery(self, window, delivery):
        self.flight = delivery.next - delivery.first + delivery.segments

    def threshold_after_loss(self, window):
        return max(min(self.flight, window.segments) / 2, 2.0)


class Cubic(Reno):
    """CUBIC by RFC 9438, section 4.2, without its region of Reno's speed."""

    plateau, began_s, k_s = 0.0, None, 0.0

    def grow(self, window, delivery):
        if not delivery.window_limited:
            return
        if window.in_slow_start:
            window.slow_start(delivery.segments)
            return
        if self.began_s is None:
            self.began_s = delivery.now_s
            self.k_s = (max(self.plateau - window.segments, 0) / 0.4) ** (1 / 3)
        target = self.plateau + 0.4 * (delivery.now_s + delivery.round_trip_s - self.began_s - self.k_s) ** 3
        if target > window.segments:
            window.segments += delivery.segments * (target - window.segments) / window.segments

    def threshold_after_loss(self, window):
        self.plateau, self.began_s = window.segments, None
        return max(0.7 * window.segments, 2.0)
