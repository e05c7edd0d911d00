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
    Mix,
    PacedPath,
    Setting,
    ShareOfPath,
    Together,
    TwoRoundTrips,
    experiment,
    mix_experiment,
    together_experiment,
    trips_experiment,
)
from netrepro.study import Check, Part, Reading
from netrepro.study.evidence import jain


def read_flows(run: Measurements, setting: PacedPath) -> Reading:
    """Read carried_mbit (payload in order), goodput_mbps, LOSS_SHARES, dropped_share (of the packets that reach the
    bottleneck), and the table `windows`, the sum of all over time."""
    windows, round_s, core = _windows(run, setting), setting.round_trip_ms / 1e3, run.links_by_port.loc[CORE]
    numbers = {
        "carried_mbit": _carried_mbit(run),
        "goodput_mbps": _carried_mbit(run) / run.experiment.duration_s,
        "dropped_share": float(core.dropped_packets / (core.dropped_packets + core.sent_packets)),
        **dict(zip(LOSS_SHARES, shares_that_lose(windows, len(run.flows), round_s), strict=True)),
    }
    total = windows.groupby("time_s").packets.sum()
    first = total.index <= INITIAL_ROUNDS * round_s
    shown = pd.concat([total[first], total[~first].iloc[::5]]).reset_index()
    return Reading(numbers, {"windows": shown.assign(rounds=shown.time_s / round_s)}, [_within(run, setting)])


def read(run: Measurements, setting: Setting) -> Reading:
    """Read what `read_flows` does, exit_packets (slow start's last window), exit_seen_packets (the same, sampled once
    in a round trip), top_packets (mean peak of the sawtooth after SETTLED_ROUNDS, NaN in a run too short for one)."""
    windows, round_s = _windows(run, setting), setting.round_trip_ms / 1e3
    cut, window = tops(windows), windows.set_index("time_s").packets
    until = cut.index[0] if len(cut) else window.index[-1]
    step = round(round_s * 1e3 / WINDOWS_MS)
    seen = window[window.index <= until].iloc[step - 1 :: step]
    numbers = {
        "exit_packets": float(window[:until].max()),
        "exit_seen_packets": float(seen.max()),
        "top_packets": float(cut[cut.index >= SETTLED_ROUNDS * round_s].mean()),
    }
    return read_flows(run, setting) | Reading(numbers)


def read_together(run: Measurements, setting: Together) -> Reading:
    """Read what `read_flows` does, peak_packets of the first rounds, peak_round, and least_packets soon after it."""
    flows = read_flows(run, setting)
    total = flows["windows"].set_index("rounds").packets
    first = total[total.index <= PEAK_ROUNDS]
    peak = float(first.idxmax())
    after = total[(total.index > peak) & (total.index <= peak + FALL_ROUNDS)]
    numbers = {"peak_packets": float(first.max()), "peak_round": peak, "least_packets": float(after.min())}
    return flows | Reading(numbers)


def read_trips(run: Measurements, setting: TwoRoundTrips) -> Reading:
    """Read what `read_flows` does, and fairness (`normalised_fairness`)."""
    delivered = run.flows.sort_values("flow").delivered_bytes
    return read_flows(run, setting) | Reading({"fairness": normalised_fairness(delivered, setting.round_trips_ms)})


def read_mix(run: Measurements, setting: Mix) -> Reading:
    """Read each kind's mean latency, and latency_ratio (Reno over paced). Check that all flows are complete."""
    done = Check("flows complete", float(run.flows.completion_ms.notna().mean()), at_least=1.0)
    means = run.flows.groupby("label").completion_ms.mean()
    latency = {f"{label}_latency_s": float(mean) / 1e3 for label, mean in means.items()}
    ratio = {"latency_ratio": means.reno / means.paced} if len(means) == 2 else {}
    return Reading(latency | ratio, checks=[_within(run, setting), done])


SHARE = Part(setting=ShareOfPath(), experiment=experiment, read=read)
MANY = Part(setting=Together(), experiment=together_experiment, read=read_together)
TWO = Part(setting=TwoRoundTrips(), experiment=trips_experiment, read=read_trips)
MIXED = Part(setting=Mix(), experiment=mix_experiment, read=read_mix)


def _within(run: Measurements, setting: PacedPath) -> Check:
    """Check that the bottleneck's capacity is not exceeded."""
    most_mbit = setting.rate_mbps * run.experiment.duration_s * setting.segment_bytes / setting.packet_bytes
    return Check("payload within what the bottleneck carries", _carried_mbit(run) / most_mbit, at_most=1.0002)


def _carried_mbit(run: Measurements) -> float:
    return float(run.flows.delivered_bytes.sum()) * 8e-6


def _windows(run: Measurements, setting: PacedPath) -> pd.DataFrame:
    """Return the windows, with packets and threshold_packets."""
    return run.windows.assign(
        packets=run.windows.window_bytes / setting.segment_bytes,
        threshold_packets=run.windows.slow_start_threshold_bytes / setting.segment_bytes,
    )


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
