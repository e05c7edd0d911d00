"""Readings of one run of TCP pacing's: losses, windows, fairness, latencies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from netrepro.networks.experiment import Measurements
from netrepro.papers.tcp_pacing.experiments import (
    CORE,
    FALL_ROUNDS,
    INITIAL_ROUNDS,
    LOOKS_AHEAD,
    LOSS_SHARES,
    PEAK_ROUNDS,
    SETTLED_ROUNDS,
    WINDOWS_MS,
    Setting,
)
from netrepro.study import Check, Reading
from netrepro.study.evidence import jain


def read(run: Measurements, setting: Setting) -> Reading:
    """Read one run. For long flows: carried_mbit (payload in order), goodput_mbps, LOSS_SHARES, dropped_share (of the
    packets that reach the bottleneck), fairness (`normalised_fairness`) and the table `windows`, the sum of all over
    time. For one flow also exit_packets and top_packets, for several peak_packets and least_packets. For flows with an
    end: their mean latencies, and latency_ratio (Reno over paced). Checks: the bottleneck's capacity is not exceeded,
    and flows with an end are complete."""
    seconds = run.experiment.duration_s
    carried_mbit = float(run.flows.delivered_bytes.sum()) * 8e-6
    most_mbit = setting.rate_mbps * seconds * setting.segment_bytes / setting.packet_bytes
    checks = [Check("payload within what the bottleneck carries", carried_mbit / most_mbit, at_most=1.0002)]
    if setting.size_packets:
        done = Check("flows complete", float(run.flows.completion_ms.notna().mean()), at_least=1.0)
        means = run.flows.groupby("label").completion_ms.mean()
        latency = {f"{label}_latency_s": float(mean) / 1e3 for label, mean in means.items()}
        both = {"latency_ratio": means.reno / means.paced} if len(means) == 2 else {}
        return Reading(latency | both, checks=[*checks, done])
    windows = run.windows.assign(
        packets=run.windows.window_bytes / setting.segment_bytes,
        threshold_packets=run.windows.slow_start_threshold_bytes / setting.segment_bytes,
    )
    total = windows.groupby("time_s").packets.sum()
    round_s = setting.round_trip_ms / 1e3
    core = run.links_by_port.loc[CORE]
    flows = run.flows.sort_values("flow")
    numbers = {
        "carried_mbit": carried_mbit,
        "goodput_mbps": carried_mbit / seconds,
        "dropped_share": float(core.dropped_packets / (core.dropped_packets + core.sent_packets)),
        "fairness": normalised_fairness(flows.delivered_bytes, [setting.round_trip_of(flow) for flow in flows.flow]),
        **dict(zip(LOSS_SHARES, shares_that_lose(windows, setting.flows, round_s), strict=True)),
        **(_of_one(windows, round_s) if setting.flows == 1 else _of_many(total, round_s)),
    }
    first = total.index <= INITIAL_ROUNDS * round_s
    shown = pd.concat([total[first], total[~first].iloc[::5]]).reset_index()
    return Reading(numbers, {"windows": shown.assign(rounds=shown.time_s / round_s)}, checks)


def normalised_fairness(throughputs: Sequence[float] | pd.Series, round_trips: Sequence[float]) -> float:
    """Compute Jain's index of throughput times round trip. It is 1 where shares are inversely proportional to round
    trips, and one over the number of flows where one flow has all (section V)."""
    return jain(np.asarray(throughputs, dtype=float) * np.asarray(round_trips, dtype=float))


def shares_that_lose(windows: pd.DataFrame, flows: int, round_s: float) -> tuple[float, float]:
    """Compute the mean share of flows that lose in the same round trip, over round trips with a loss: in the initial
    period, and after it. NaN where no flow loses."""
    next_look_s = windows.groupby("flow").time_s.shift(-1)
    lost = windows.assign(time_s=next_look_s)[_cuts(windows)]
    rounds = lost.assign(number=lambda rows: (rows.time_s / round_s).astype(int)).groupby("number")
    share = rounds.flow.nunique() / flows
    first = share.index < INITIAL_ROUNDS
    return float(share[first].mean()), float(share[~first].mean())


def tops(windows: pd.DataFrame) -> pd.Series:
    """Find one flow's windows just before they are cut after a loss, as last sampled (packets, indexed by time)."""
    return windows[_cuts(windows.assign(flow=0))].set_index("time_s").packets


def _cuts(windows: pd.DataFrame) -> pd.Series:
    """Mark each look at a flow that is followed by a cut before the next look. A loss shows in a changed threshold.

    Kernels count windows in whole packets, so the threshold may stay the same. Then a cut shows in a fall by a quarter
    or more within the next looks, from twice the threshold.
    """
    by_flow = windows.groupby("flow")
    following = by_flow.threshold_packets.shift(-1)
    cuts = following.notna() & (following != windows.threshold_packets)
    least_ahead = pd.concat([by_flow.packets.shift(-looks) for looks in range(1, LOOKS_AHEAD + 1)], axis=1).min(axis=1)
    falls = least_ahead < 0.75 * windows.packets
    fall = (falls & ~falls.groupby(windows.flow).shift(1, fill_value=False)).groupby(windows.flow).cumsum()
    highest = windows.packets[falls].groupby([windows.flow, fall]).idxmax()
    cuts[highest] |= np.floor(windows.packets[highest] / 2) == windows.threshold_packets[highest]
    return cuts


def _of_one(windows: pd.DataFrame, round_s: float) -> dict[str, float]:
    """Read exit_packets (slow start's last window), exit_seen_packets (the same, sampled once in a round trip),
    top_packets (mean peak of the sawtooth after SETTLED_ROUNDS, NaN in a run too short for one)."""
    cut, window = tops(windows), windows.set_index("time_s").packets
    until = cut.index[0] if len(cut) else window.index[-1]
    step = round(round_s * 1e3 / WINDOWS_MS)
    seen = window[window.index <= until].iloc[step - 1 :: step]
    return {
        "exit_packets": float(window[:until].max()),
        "exit_seen_packets": float(seen.max()),
        "top_packets": float(cut[cut.index >= SETTLED_ROUNDS * round_s].mean()),
    }


def _of_many(total: pd.Series, round_s: float) -> dict[str, float]:
    """Read peak_packets of the first rounds, peak_round, and least_packets soon after the peak."""
    first = total[total.index <= PEAK_ROUNDS * round_s]
    at_s = float(first.idxmax())
    after = total[(total.index > at_s) & (total.index <= at_s + FALL_ROUNDS * round_s)]
    return {"peak_packets": float(first.max()), "peak_round": at_s / round_s, "least_packets": float(after.min())}
