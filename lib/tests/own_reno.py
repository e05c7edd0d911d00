"""Reno as a congestion control written in Python."""

from __future__ import annotations

from netrepro.simulation import OwnCongestionControl


class MyReno(OwnCongestionControl):
    def grow(self, window, delivery):
        if not delivery.window_limited:
            return
        left = delivery.segments
        if window.in_slow_start:
            left = window.slow_start(left)
        if left > 0:
            window.avoid_congestion(left, window.segments)

    def threshold_after_loss(self, window):
        return max(window.segments // 2, 2.0)
