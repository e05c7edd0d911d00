"""Faulty congestion controls: each fails the sentence that its fault breaks, and what is right keeps it."""

from __future__ import annotations

import pytest
from reno_by_rfc import Cubic, Reno

from netrepro.conformance import FAIL, PASS, SUITES, ConformanceReport, Subject, conform, load_suite


class NoHalving(Reno):
    def threshold_after_loss(self, window):
        return window.segments


class GivesBackAnEighth(Reno):
    def threshold_after_loss(self, window):
        return 7 / 8 * window.segments


class ThresholdFromTheWindow(Reno):
    def threshold_after_loss(self, window):
        return max(window.segments / 2, 2.0)


class FourfoldSlowStart(Reno):
    def grow(self, window, delivery):
        if delivery.window_limited and window.in_slow_start:
            window.slow_start(3 * delivery.segments)
        else:
            super().grow(window, delivery)


class NoSlowStart(Reno):
    def grow(self, window, delivery):
        if delivery.window_limited:
            window.avoid_congestion(delivery.segments, window.segments)


class TwoSegmentsARound(Reno):
    def grow(self, window, delivery):
        super().grow(window, delivery)
        if not window.in_slow_start:
            super().grow(window, delivery)


class NeverGrowsAgain(Reno):
    def grow(self, window, delivery):
        if window.in_slow_start:
            super().grow(window, delivery)


class DeafToMarks(Reno):
    def threshold_after_mark(self, window):
        return window.segments


class GrowsUnused(Reno):
    def grow(self, window, delivery):
        left = delivery.segments
        if window.in_slow_start:
            left = window.slow_start(left)
        if left > 0:
            window.avoid_congestion(left, window.segments)


class JumpsBackAfterRecovery(Reno):
    lost = 0.0

    def threshold_after_loss(self, window):
        self.lost = window.segments
        return super().threshold_after_loss(window)

    def grow(self, window, delivery):
        super().grow(window, delivery)
        window.segments, self.lost = max(window.segments, self.lost), 0.0


class ConvexCubic(Cubic):
    def grow(self, window, delivery):
        super().grow(window, delivery)
        self.k_s = 0.0


class KeepsNineTenths(Cubic):
    def threshold_after_loss(self, window):
        super().threshold_after_loss(window)
        return 0.9 * window.segments


# name -> the control that is right, the faulty one (or settings of its TCP), what it claims, the sentence that breaks
MUTANTS = {
    "no halving": (Reno, NoHalving, "rfc5681", "halves-after-a-loss"),
    "an eighth is given back": (Reno, GivesBackAnEighth, "rfc5681", "halves-after-a-loss"),
    "threshold from the window": (Reno, ThresholdFromTheWindow, "rfc5681", "threshold-from-flight-size"),
    "fourfold slow start": (Reno, FourfoldSlowStart, "rfc5681", "slow-start-at-most-doubles"),
    "no slow start": (Reno, NoSlowStart, "rfc5681", "slow-start-grows"),
    "two segments a round": (Reno, TwoSegmentsARound, "rfc5681", "at-most-a-segment-a-round"),
    "never grows again": (Reno, NeverGrowsAgain, "rfc5681", "about-a-segment-a-round"),
    "deaf to marks": (Reno, DeafToMarks, "rfc5681", "reduction-after-marks"),
    "grows unused": (Reno, GrowsUnused, "rfc5681", "unused-window-does-not-grow"),
    "back to the old window": (Reno, JumpsBackAfterRecovery, "rfc5681", "deflates-after-recovery"),
    "no restart after idle": (Reno, {"slow_start_after_idle": False}, "rfc5681", "restart-window"),
    "no pacing": ({"pacing": True}, {"slow_start_after_idle": False}, "rfc9002", "limits-bursts"),
    "a large initial window": (Reno, {"initial_window_segments": 40}, "rfc5681", "initial-window"),
    "no tail loss probe": (Reno, {"tail_loss_probe": False}, "rfc5681", "tail-loss-probe"),
    "fast retransmit of 1988": (Reno, {"recovery": "reno", "sack": False}, "rfc5681", "newreno-reduces-once"),
    "an impatient first timer": (Reno, {"initial_rto_ms": 200.0}, "rfc5681", "first-timer-is-a-second"),
    "a convex cubic": (Cubic, ConvexCubic, "rfc9438", "cubic-is-concave"),
    "nine tenths": (Cubic, KeepsNineTenths, "rfc9438", "cubic-keeps-seven-tenths"),
    "Reno as CUBIC": (Cubic, Reno, "rfc9438", "cubic-keeps-seven-tenths"),
}

SCENARIO_OF = {
    sentence.id: scenario.name
    for suite in map(load_suite, SUITES)
    for scenario in suite.scenarios
    for sentence in scenario.sentences
}


def report_of(control, claims: str, scenarios=()) -> ConformanceReport:
    own, tcp = (Reno, control) if isinstance(control, dict) else (control, {})
    return conform(Subject("my_control", (claims,), own=own, tcp=tcp), ["rfc"], scenarios=scenarios)


def verdicts(report: ConformanceReport) -> dict[str, str]:
    return {each.sentence.id: each.verdict for each in report.judged}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_breaks_its_sentence_and_the_control_without_it_keeps_that(name):
    right, faulty, claims, sentence = MUTANTS[name]
    where = [SCENARIO_OF[sentence]]
    assert verdicts(report_of(right, claims, where))[sentence] == PASS
    broken = {each.sentence.id: each for each in report_of(faulty, claims, where).judged}[sentence]
    # What a source only recommends departs; it fails where the report is strict.
    assert broken.verdict == FAIL or (broken.sentence.level == "SHOULD" and not broken.why)


@pytest.mark.parametrize(("control", "claims"), [(Reno, "rfc5681"), (Cubic, "rfc9438")])
def test_what_follows_its_rfc_fails_nothing(control, claims):
    report = report_of(control, claims)
    assert report.failed() == [] and report.counts()[PASS] > 25
    # These two are the stack's, which is Linux's, whatever the control.
    departs = {each.sentence.id for each in report.judged if each.verdict == "departs"}
    assert departs == {"timer-of-a-second", "restart-window-after-one-timeout"}
