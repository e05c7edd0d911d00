"""BBR version 3 a second time, from the pseudocode of draft-ietf-ccwg-bbr-06 and with its names.

Volumes are segments (C.SMSS is 1), times are picoseconds, rates are segments a second. `v3` marks what the draft leaves
open and Google's tcp_bbr.c says.
"""

from __future__ import annotations

import math
from typing import Any

from queue_twin import Xoshiro

INF = math.inf
SECOND = 10**12
STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT = "startup", "drain", "down", "cruise", "refill", "up", "probe_rtt"
PACING = {STARTUP: 2.77, DRAIN: 0.5, DOWN: 0.9, CRUISE: 1.0, REFILL: 1.0, UP: 1.25, PROBE_RTT: 1.0}
CWND = {STARTUP: 2.0, DRAIN: 2.0, DOWN: 2.0, CRUISE: 2.0, REFILL: 2.0, UP: 2.25, PROBE_RTT: 0.5}
LOSS_THRESH, BETA, HEADROOM, MIN_PIPE_CWND = 0.02, 0.7, 0.15, 4.0


class Bbr3Twin:
    def __init__(self, initial_cwnd: float, srtt: int, now: int, mss: int, has_selective_acks: bool) -> None:
        self.cwnd = self.initial_cwnd = initial_cwnd
        self.mss, self.has_selective_acks = mss, has_selective_acks
        self.random = Xoshiro(0)
        self.now = now
        self.delivered = 0.0
        self.min_rtt: float = srtt or INF
        self.probe_rtt_min_delay = self.min_rtt
        self.min_rtt_stamp = self.probe_rtt_min_stamp = now
        self.probe_rtt_done_stamp = 0
        self.probe_rtt_round_done = self.probe_rtt_expired = False
        self.prior_cwnd = 0.0
        self.undo_state: str | None = None
        self.undo_bw_shortterm = self.undo_inflight_shortterm = self.undo_inflight_longterm = 0.0
        self.idle_restart = False
        self.extra_acked_interval_start, self.extra_acked_delivered = now, 0.0
        self.extra_acked_filter: dict[int, float] = {}
        self.full_bw_reached = False
        self.inflight_longterm = self.probe_up_acked_per_inc = INF
        self.bw_probe_up_acked, self.bw_probe_up_rounds, self.rounds_since_probe_up = 0.0, 0, 0
        self.is_bw_probe_sample = self.prev_probe_too_high = self.prev_probe_precautionary = False
        self.ack_phase = "INIT"
        self.cycle_stamp = self.bw_probe_wait = 0
        self.in_recovery = ""
        self.bw = self.max_bw = 0.0
        self.max_bw_filter: dict[int, float] = {}
        self.cycle_count = 0
        self.loss_round_delivered = 0.0
        self.loss_round_start = self.round_start = False
        self.next_round_delivered, self.round_count, self.drain_start_round = 0.0, 0, 0
        self.lost_ranges: list[int] = []
        self.ecn_alpha, self.acked_in_round, self.ce_in_round, self.startup_ecn_rounds = 1.0, 0.0, 0.0, 0
        self.ecn_ceased = False
        self.reset_congestion_signals()
        self.reset_short_term_model()
        self.reset_full_bw()
        self.has_seen_rtt = False
        self.pacing_rate = 0.0
        self.init_pacing_rate(srtt)
        self.state = STARTUP
        self.app_limit_mark = False

    # Pacing, in bytes a second.

    def init_pacing_rate(self, srtt: int) -> None:
        self.has_seen_rtt = srtt > 0
        self.pacing_rate = 2.77 * self.initial_cwnd * self.mss / ((srtt or SECOND // 1000) / SECOND)

    def set_pacing_rate_with_gain(self, gain: float) -> None:
        rate = gain * self.bw * self.mss * (100 - 1) / 100
        if rate > 0 and (self.full_bw_reached or rate > self.pacing_rate):
            self.pacing_rate = rate

    # Volumes.

    def bdp_multiple(self, bw: float, gain: float) -> float:
        return self.initial_cwnd if self.min_rtt == INF else gain * bw * (self.min_rtt / SECOND)

    def quantization_budget(self, cap: float) -> float:
        send_quantum = max(min(self.pacing_rate * 1e-3, 64 * 1024), 2 * self.mss) / self.mss
        cap = max(cap, 3 * send_quantum, MIN_PIPE_CWND)
        return cap + 2 if self.state == UP else cap

    def inflight(self, bw: float, gain: float) -> float:
        return self.quantization_budget(self.bdp_multiple(bw, gain))

    def inflight_with_headroom(self) -> float:
        if self.inflight_longterm == INF:
            return INF
        headroom = max(1, HEADROOM * self.inflight_longterm)
        return max(self.inflight_longterm - headroom, MIN_PIPE_CWND)

    def target_inflight(self) -> float:
        return min(self.bdp_multiple(self.bw, 1.0), self.cwnd)

    def probe_rtt_cwnd(self) -> float:
        return max(self.bdp_multiple(self.bw, 0.5), MIN_PIPE_CWND)

    # Events.

    def hear(self, segments: float, ce: float) -> None:
        self.delivered += segments
        self.acked_in_round += segments
        self.ce_in_round += ce
        if ce:
            self.ecn_in_round = self.ecn_in_cycle = True

    def ack(self, now: int, rs: dict[str, Any], recovery: str) -> None:
        self.now, self.rs = now, rs
        if self.in_recovery and not recovery:
            self.restore_cwnd()
        self.in_recovery = recovery
        self.delivered = rs["total_delivered"]
        self.has_data = rs["interval"] > 0
        self.delivery_rate = rs["delivered"] / (rs["interval"] / SECOND) if self.has_data else 0.0
        self.rs_delivered = rs["total_delivered"] - rs["prior_delivered"] if self.has_data else 0.0
        self.update_latest_delivery_signals()
        self.update_congestion_signals()
        self.update_ack_aggregation()
        self.check_full_bw_reached()
        self.check_startup_done()
        self.check_drain_done()
        if self.has_data:
            self.update_probe_bw_cycle_phase()
        self.update_min_rtt()
        self.check_probe_rtt()
        if self.loss_round_start:
            self.bw_latest, self.inflight_latest = self.delivery_rate, self.rs_delivered
        self.bw = min(self.max_bw, self.bw_shortterm)
        if not self.has_seen_rtt and rs["round_trip"] > 0:
            self.init_pacing_rate(rs["round_trip"])
        self.set_pacing_rate_with_gain(PACING[self.state])
        self.set_cwnd()

    def lose(self, now: int, segment: int, tx_in_flight: float, lost: float, delivered: float, limited: bool) -> None:
        self.note_loss(now, delivered)
        self.lost_ranges.append(segment)
        if not self.is_bw_probe_sample or not self.is_inflight_too_high(lost, tx_in_flight):
            return
        # v3: losses before may have crossed the threshold already.
        prefix = max((LOSS_THRESH * (tx_in_flight - 1) - (lost - 1)) / (1 - LOSS_THRESH), 0)
        was = self.state
        self.handle_inflight_too_high(tx_in_flight - 1 + prefix, limited)
        if was == UP:
            self.undo_state = UP

    def note_loss(self, now: int, delivered: float) -> None:
        self.now, self.delivered = now, delivered
        if not self.is_loss_in_round:
            self.loss_round_delivered = delivered
            self.save_state_upon_loss()
        self.is_loss_in_round = self.loss_in_cycle = True

    def tlp_recovery(self, now: int, delivered: float, limited: bool) -> None:  # v3
        self.note_loss(now, delivered)
        tx_in_flight = self.inflight_latest + 1
        if self.is_bw_probe_sample and self.is_inflight_too_high(1, tx_in_flight):
            self.handle_inflight_too_high(tx_in_flight, limited)

    def enter_fast_recovery(self) -> None:
        self.save_state_upon_loss()

    def enter_rto(self, in_flight: float) -> None:
        self.save_state_upon_loss()
        self.in_recovery = "loss"
        self.cwnd = in_flight + 1

    def rto_losses_are_told(self) -> None:
        if not self.is_probing_bw() and self.inflight_shortterm == INF:  # v3
            self.inflight_shortterm = self.prior_cwnd

    def restart_from_idle(self, now: int) -> None:
        self.now = now
        self.idle_restart = True
        self.extra_acked_interval_start, self.extra_acked_delivered = now, 0.0  # the latter is v3
        if self.is_in_a_probe_bw_state():
            self.set_pacing_rate_with_gain(1)
        elif self.state == PROBE_RTT:
            self.check_probe_rtt_done()

    def spurious_loss(self) -> None:
        self.restore_cwnd()
        self.is_loss_in_round = False
        self.reset_full_bw()
        self.bw_shortterm = max(self.bw_shortterm, self.undo_bw_shortterm)
        self.inflight_shortterm = max(self.inflight_shortterm, self.undo_inflight_shortterm)
        self.inflight_longterm = max(self.inflight_longterm, self.undo_inflight_longterm)
        if self.undo_state == STARTUP and self.state != STARTUP:
            self.full_bw_reached = False
            if self.state != PROBE_RTT:
                self.state = STARTUP
        elif self.undo_state == UP and self.state not in (UP, PROBE_RTT):
            self.start_probe_bw_refill()
        self.undo_state = None

    # Signals of congestion.

    def update_latest_delivery_signals(self) -> None:
        self.loss_round_start = False
        if not self.has_data:
            return
        self.bw_latest = max(self.bw_latest, self.delivery_rate)
        self.inflight_latest = max(self.inflight_latest, self.rs_delivered)
        if self.rs["prior_delivered"] >= self.loss_round_delivered:
            self.loss_round_delivered = self.delivered
            self.loss_round_start = True

    def update_congestion_signals(self) -> None:
        self.update_max_bw()
        if self.round_start and self.acked_in_round > 0:
            ratio = min(self.ce_in_round / self.acked_in_round, 1)
            self.ecn_alpha = self.ecn_alpha * 15 / 16 + ratio / 16
            self.startup_ecn_rounds = self.startup_ecn_rounds + 1 if ratio >= 0.5 else 0
            self.acked_in_round = self.ce_in_round = 0.0
        if not self.loss_round_start:
            return
        if not self.is_probing_bw():
            self.adapt_lower_bounds()
        self.ecn_ceased = not self.ecn_in_round
        self.is_loss_in_round = self.ecn_in_round = False

    def adapt_lower_bounds(self) -> None:
        ecn_inflight = INF
        if self.ecn_in_round:
            if self.inflight_shortterm == INF:
                self.inflight_shortterm = self.cwnd
            ecn_inflight = self.inflight_shortterm * (1 - self.ecn_alpha / 3)
        if self.is_loss_in_round:
            if self.bw_shortterm == INF:
                self.bw_shortterm = self.max_bw
            if self.inflight_shortterm == INF:
                self.inflight_shortterm = self.cwnd
            self.bw_shortterm = max(self.bw_latest, BETA * self.bw_shortterm)
            self.inflight_shortterm = max(self.inflight_latest, BETA * self.inflight_shortterm)
        self.inflight_shortterm = min(self.inflight_shortterm, ecn_inflight)

    def update_max_bw(self) -> None:
        self.round_start = self.has_data and self.rs["prior_delivered"] >= self.next_round_delivered
        if self.round_start:
            self.start_round()
            self.round_count += 1
            self.rounds_since_probe_up += 1
        rate = self.delivery_rate
        if rate > 0 and (rate >= self.max_bw or not self.rs["application_limited"]):
            cycles = {c: bw for c, bw in self.max_bw_filter.items() if c > self.cycle_count - 2}
            cycles[self.cycle_count] = max(cycles.get(self.cycle_count, 0), rate)
            self.max_bw_filter, self.max_bw = cycles, max(cycles.values())

    def update_ack_aggregation(self) -> None:
        expected = self.bw * ((self.now - self.extra_acked_interval_start) / SECOND)
        if self.extra_acked_delivered <= expected:
            self.extra_acked_delivered, self.extra_acked_interval_start, expected = 0.0, self.now, 0.0
        self.extra_acked_delivered += self.rs["newly_delivered"]
        extra = min(self.extra_acked_delivered - expected, self.cwnd)
        length = 10 if self.full_bw_reached else 1
        self.extra_acked_filter[self.round_count] = max(self.extra_acked_filter.get(self.round_count, -INF), extra)
        self.extra_acked_filter = {r: e for r, e in self.extra_acked_filter.items() if r > self.round_count - length}
        self.extra_acked = max(self.extra_acked_filter.values())

    def is_inflight_too_high(self, lost: float, tx_in_flight: float) -> bool:
        return lost > tx_in_flight * LOSS_THRESH or (lost > 0 and not self.has_selective_acks)

    def handle_inflight_too_high(self, tx_in_flight: float, limited: bool) -> None:
        self.prev_probe_too_high = True
        self.is_bw_probe_sample = False
        if not limited:
            self.inflight_longterm = math.floor(max(tx_in_flight, self.target_inflight() * BETA))
        if self.state == UP:
            self.start_probe_bw_down()

    def reset_congestion_signals(self) -> None:
        self.is_loss_in_round = self.ecn_in_round = self.loss_in_cycle = self.ecn_in_cycle = False
        self.bw_latest = self.inflight_latest = 0.0

    def reset_short_term_model(self) -> None:
        self.bw_shortterm = self.inflight_shortterm = INF

    def save_state_upon_loss(self) -> None:
        self.save_cwnd()
        self.undo_state = None
        self.undo_bw_shortterm = self.bw_shortterm
        self.undo_inflight_shortterm = self.inflight_shortterm
        self.undo_inflight_longterm = self.inflight_longterm

    def save_cwnd(self) -> None:
        calm = not self.in_recovery and self.state != PROBE_RTT
        self.prior_cwnd = self.cwnd if calm else max(self.prior_cwnd, self.cwnd)

    def restore_cwnd(self) -> None:
        self.cwnd = max(self.cwnd, self.prior_cwnd)

    # Startup and Drain.

    def reset_full_bw(self) -> None:
        self.full_bw, self.full_bw_count, self.full_bw_now = 0.0, 0, False

    def check_full_bw_reached(self) -> None:
        if self.full_bw_now or not self.round_start or self.rs["application_limited"]:
            return
        if self.delivery_rate >= self.full_bw * 1.25:
            self.reset_full_bw()
            self.full_bw = self.delivery_rate
            return
        self.full_bw_count += 1
        self.full_bw_now = self.full_bw_count >= 3
        if self.full_bw_now:
            self.full_bw_reached = True

    def check_startup_done(self) -> None:
        ranges = sum(i == 0 or s != self.lost_ranges[i - 1] + 1 for i, s in enumerate(self.lost_ranges))
        in_recovery = self.in_recovery == "recovery" and self.state == STARTUP
        rs = self.rs
        if not self.full_bw_reached:
            high = self.loss_round_start and ranges >= 6
            high = high and self.is_inflight_too_high(rs["lost"], rs["in_flight_at_departure"])
            lossy = in_recovery and (high if self.has_selective_acks else ranges > 0)
            if lossy or self.startup_ecn_rounds >= 2:
                if lossy:
                    self.undo_state = STARTUP
                self.full_bw_now = self.full_bw_reached = True
                self.inflight_longterm = math.floor(max(self.bdp_multiple(self.bw, 1.0), self.inflight_latest))
        if self.loss_round_start:
            self.lost_ranges = []
        if self.state == STARTUP and self.full_bw_reached:
            self.state = DRAIN
            self.drain_start_round = self.round_count

    def check_drain_done(self) -> None:
        if self.state == DRAIN and (
            self.rs["in_flight"] <= self.inflight(self.bw, 1.0) or self.round_count > self.drain_start_round + 3
        ):
            self.start_probe_bw_down()

    # ProbeBW.

    def start_round(self) -> None:
        self.next_round_delivered = self.delivered

    def is_in_a_probe_bw_state(self) -> bool:
        return self.state in (DOWN, CRUISE, REFILL, UP)

    def is_probing_bw(self) -> bool:
        return self.state in (STARTUP, REFILL, UP)

    def start_probe_bw_down(self) -> None:
        self.reset_congestion_signals()
        self.probe_up_acked_per_inc = INF
        self.rounds_since_probe_up = int(self.random.uniform() * 2)
        self.bw_probe_wait = round((2 + self.random.uniform()) * SECOND)
        self.cycle_stamp = self.now
        self.ack_phase = "STOPPING"
        self.start_round()
        self.state = DOWN

    def start_probe_bw_refill(self, rounds: int = 0) -> None:
        self.reset_short_term_model()
        self.bw_probe_up_rounds, self.bw_probe_up_acked = rounds, 0.0
        self.prev_probe_precautionary = False
        self.ack_phase = "REFILLING"
        self.start_round()
        self.state = REFILL

    def start_probe_bw_up(self) -> None:
        self.ack_phase = "STARTING"
        self.start_round()
        self.reset_full_bw()
        self.full_bw = self.delivery_rate
        self.state = UP
        self.raise_inflight_longterm_slope()

    def update_probe_bw_cycle_phase(self) -> None:
        if not self.full_bw_reached or self.adapt_long_term_model():
            return
        if self.state == DOWN:
            if not self.is_time_to_probe_bw() and self.is_time_to_cruise():
                self.state = CRUISE
        elif self.state == CRUISE:
            self.is_time_to_probe_bw()
        elif self.state == REFILL:
            if self.round_start:
                self.is_bw_probe_sample = True
                self.start_probe_bw_up()
        elif self.state == UP and self.is_time_to_go_down():
            self.prev_probe_too_high = False
            self.start_probe_bw_down()

    def is_time_to_probe_bw(self) -> bool:
        quiet = self.ecn_in_cycle and self.ecn_ceased and not self.ecn_in_round and not self.loss_in_cycle
        if quiet and not self.in_recovery:  # v3
            half = self.inflight_longterm / 2
            self.start_probe_bw_refill(0 if half == INF or half < 1 else min(int(math.log2(half)), 30))
            return True
        rounds = min(self.target_inflight(), 63)
        if self.now > self.cycle_stamp + self.bw_probe_wait or self.rounds_since_probe_up >= rounds:
            self.start_probe_bw_refill()
            return True
        return False

    def is_time_to_cruise(self) -> bool:
        if self.rs["in_flight"] > self.inflight_with_headroom():
            return False
        return self.rs["in_flight"] <= self.inflight(self.max_bw, 1.0)

    def is_time_to_go_down(self) -> bool:
        if self.prev_probe_too_high and self.rs["in_flight_before"] >= self.inflight_longterm:  # before: v3
            self.prev_probe_precautionary = True
            return True
        if self.rs["window_limited"] and self.cwnd >= self.inflight_longterm:
            self.reset_full_bw()
            self.full_bw = self.delivery_rate
            return False
        return self.full_bw_now

    def raise_inflight_longterm_slope(self) -> None:
        growth_this_round = 1 << self.bw_probe_up_rounds
        self.bw_probe_up_rounds = min(self.bw_probe_up_rounds + 1, 30)
        self.probe_up_acked_per_inc = max(self.cwnd / growth_this_round, 1)

    def probe_inflight_longterm_upward(self) -> None:
        if not self.rs["window_limited"] or self.cwnd < self.inflight_longterm:
            return
        self.bw_probe_up_acked += self.rs["newly_delivered"]
        if self.bw_probe_up_acked >= self.probe_up_acked_per_inc:
            delta = math.floor(self.bw_probe_up_acked / self.probe_up_acked_per_inc)
            self.bw_probe_up_acked -= delta * self.probe_up_acked_per_inc
            self.inflight_longterm += delta
        if self.round_start:
            self.raise_inflight_longterm_slope()

    def adapt_long_term_model(self) -> bool:
        rs = self.rs
        if self.ack_phase == "STARTING" and self.round_start:
            self.ack_phase = "FEEDBACK"
        if self.ack_phase == "STOPPING" and self.round_start:
            self.is_bw_probe_sample = False
            self.ack_phase = "INIT"
            if self.is_in_a_probe_bw_state():
                if not rs["application_limited"]:
                    self.cycle_count += 1
                if self.prev_probe_precautionary and not self.prev_probe_too_high:
                    self.start_probe_bw_refill()
                    return True
        if rs["marked"] > 0.5 * self.rs_delivered:  # v3
            if self.is_bw_probe_sample:
                self.handle_inflight_too_high(rs["in_flight_at_departure"], rs["application_limited"])
        elif not self.is_inflight_too_high(rs["lost"], rs["in_flight_at_departure"]):
            if self.inflight_longterm == INF:
                return False
            self.inflight_longterm = max(self.inflight_longterm, rs["in_flight_at_departure"])
            if self.state == UP:
                self.probe_inflight_longterm_upward()
        return False

    # ProbeRTT.

    def update_min_rtt(self) -> None:
        rtt = self.rs["round_trip"]
        self.probe_rtt_expired = self.now > self.probe_rtt_min_stamp + 5 * SECOND
        if rtt > 0 and (rtt < self.probe_rtt_min_delay or self.probe_rtt_expired):
            self.probe_rtt_min_delay, self.probe_rtt_min_stamp = rtt, self.now
        if self.probe_rtt_min_delay < self.min_rtt or self.now > self.min_rtt_stamp + 10 * SECOND:
            self.min_rtt, self.min_rtt_stamp = self.probe_rtt_min_delay, self.probe_rtt_min_stamp

    def check_probe_rtt(self) -> None:
        if self.state != PROBE_RTT and self.probe_rtt_expired and not self.idle_restart:
            self.state = PROBE_RTT
            self.save_cwnd()
            self.probe_rtt_done_stamp = 0
            self.ack_phase = "STOPPING"
            self.start_round()
        self.app_limit_mark = self.state == PROBE_RTT
        if self.state == PROBE_RTT:
            if self.probe_rtt_done_stamp == 0 and self.rs["in_flight"] <= self.probe_rtt_cwnd():
                self.probe_rtt_done_stamp = self.now + SECOND // 5
                self.probe_rtt_round_done = False
                self.start_round()
            elif self.probe_rtt_done_stamp != 0:
                if self.round_start:
                    self.probe_rtt_round_done = True
                if self.probe_rtt_round_done:
                    self.check_probe_rtt_done()
        if self.has_data:
            self.idle_restart = False

    def check_probe_rtt_done(self) -> None:
        if self.probe_rtt_done_stamp != 0 and self.now > self.probe_rtt_done_stamp:
            self.probe_rtt_min_stamp = self.now
            self.restore_cwnd()
            self.reset_short_term_model()
            if self.full_bw_reached:
                self.start_probe_bw_down()
                self.state = CRUISE
            else:
                self.state = STARTUP

    # The window.

    def set_cwnd(self) -> None:
        newly_acked = self.rs["newly_delivered"]
        max_inflight = self.quantization_budget(self.bdp_multiple(self.bw, CWND[self.state]) + self.extra_acked)
        if self.full_bw_reached:
            self.cwnd = min(self.cwnd + newly_acked, max_inflight)
        elif self.cwnd < max_inflight or self.delivered < self.initial_cwnd:
            self.cwnd += newly_acked
        self.cwnd = max(self.cwnd, MIN_PIPE_CWND)
        if self.state == PROBE_RTT:
            self.cwnd = min(self.cwnd, self.probe_rtt_cwnd())
        cap = INF
        if self.is_in_a_probe_bw_state() and self.state != CRUISE:
            cap = self.inflight_longterm
        elif self.state in (PROBE_RTT, CRUISE):
            cap = self.inflight_with_headroom()
        self.cwnd = min(self.cwnd, max(min(cap, self.inflight_shortterm), MIN_PIPE_CWND))
