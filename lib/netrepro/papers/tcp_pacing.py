"""TCP pacing: Aggarwal, Savage and Anderson, "Understanding the Performance of TCP Pacing", INFOCOM 2000.

A sender that spreads its window evenly over a round trip instead of sending it in bursts. A single one gains, as
bursts overflow a small buffer early; of fifty that start together all learn of the overflow late, and at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.applications.bulk.run import bytes_each_second
from netrepro.emulation.tcp import UNPACED_SEGMENTS
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, Link, Queue, Red
from netrepro.networks.topology import Topology, dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import (
    Check,
    Evidence,
    Knob,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    each,
    greatest_first,
    jain,
    least_first,
    ratio,
)
from netrepro.study import pictures as drawing
from netrepro.study.setting import setting
from netrepro.style import new_figure, scheme

HEADER_BYTES = 66  # TCP with time stamps, IPv4, Ethernet
WINDOWS_MS = 10.0
SETTLED_ROUNDS = 100  # of a single flow: published, paced senders are back at their sawtooth after about 90
PEAK_ROUNDS, FALL_ROUNDS = 20, 12  # where the windows' peak is looked for, and the least after it
INITIAL_ROUNDS = 40  # of the claims' initial period; its windows are kept at every look for figures, later every fifth
LOOKS_AHEAD = 12  # a little more than a round trip
MIXED_THINK_S = 1.0
RED_PACKETS, RED_SHARE, RED_PROBABILITY = 5, 0.9, 0.02  # the best of the paper's
CORE = ("s1", "s2")
QUEUES = ("drop tail", "red")
LOSS_SHARES = ("first_loss_share", "later_loss_share")


@dataclass(frozen=True)
class Setting:
    """The paper's path and senders, those of its single flow.

    packet_bytes : on the wire. paced : whether the paced flows pace; `paced_share` of all flows are called so.
    host_delay_packets : as of Experiment, None for what all papers have: none for one flow, as in ns-2.
    starts_within_s : flows start at random so far apart at most. size_packets : of flows that end; every `every_s` such
    a flow of every sender, after a random time with a mean of a second. seconds : how long a run lasts, 0 for what the
    profile says.
    far_round_trip_ms : of half of the flows, by longer side links; 0 for that of the others.
    buffer_share : of the path's own packets, in place of `buffer_packets`, 0 for none. many_s : how long runs of
    several flows last at most, 0 for as long as those of one. trips_s : how long runs with two
    round trips last, and their controls. exit_share : of its window that a flow keeps where a loss ends slow start.
    """

    rate_mbps: float = setting(5.0, "of the single flow's bottleneck", "Mb/s", low=0.1, high=1000)
    buffer_packets: int = setting(25, "of the single flow's bottleneck", "packets", low=1, high=10_000)
    flows: int = 1
    paced: bool = False
    paced_share: float = 1.0
    core_delay_ms: float = setting(40.0, "of the bottleneck, one way", "ms", low=0.1, high=1000)
    side_delay_ms: float = 5.0
    host_delay_packets: float | None = None
    far_round_trip_ms: float = 0.0
    packet_bytes: int = setting(576, "on the wire", "bytes", low=100, high=9000)
    initial_window_segments: int = setting(1, "of every flow", "segments", low=1, high=1000)
    min_rto_ms: float = setting(200.0, "least variation in a retransmission timeout", "ms", low=1, high=10_000)
    delayed_ack_ms: float = 0.0
    recovery: str = "reno"
    slow_start_ratio: float = 1.0
    pacing_ratio: float = 1.0
    queue: str = "drop tail"
    starts_within_s: float = 0.0
    size_packets: int = 0
    every_s: float = 15.0
    seconds: float = 0.0
    buffer_share: float = 0.0
    many_s: float = 0.0
    trips_s: float = 60.0
    exit_share: float = 0.5

    @property
    def round_trip_ms(self) -> float:
        """The round trip of an empty path, which is a round trip of the figures."""
        return 2 * (self.core_delay_ms + 2 * self.side_delay_ms)

    def round_trip_of(self, flow: int) -> float:
        """Return this flow's round trip over an empty path (ms). The second half of the flows are the far ones."""
        is_far = self.far_round_trip_ms and flow >= self.flows / 2
        return self.far_round_trip_ms if is_far else self.round_trip_ms

    @property
    def path_packets(self) -> float:
        """The packets that the path itself holds: rate times round trip."""
        return self.rate_mbps * self.round_trip_ms * 1e3 / 8 / self.packet_bytes

    @property
    def queue_packets(self) -> int:
        """The buffer, as it is given."""
        return max(1, round(self.buffer_share * self.path_packets)) if self.buffer_share else self.buffer_packets

    @property
    def segment_bytes(self) -> int:
        """Payload of a packet."""
        return self.packet_bytes - HEADER_BYTES


def _queue(setting: Setting) -> Queue:
    packets = setting.queue_packets
    if setting.queue == "red":
        variant = "linux" if setting.recovery == "linux" else "floyd1993"  # the one of whoever sends: Linux's or ns-2's
        return Red(packets, RED_PACKETS, RED_SHARE * packets, RED_PROBABILITY, variant=variant)
    return DropTail(packets=packets)


def _tcp(setting: Setting) -> Tcp:
    return Tcp(
        "reno",
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=setting.segment_bytes,
        receive_window_bytes=10_000 * setting.segment_bytes,
        min_rto_ms=setting.min_rto_ms,
        syn_linear_timeouts=0,
        delayed_ack_ms=setting.delayed_ack_ms,
        sack=setting.recovery in ("linux", "sack"),
        tail_loss_probe=False,
        pacing=False,
        pacing_slow_start_ratio=setting.slow_start_ratio,
        pacing_ratio=setting.pacing_ratio,
        unpaced_segments=0,
        recovery=setting.recovery,
        counts="acknowledgements",
        slow_start_exit_share=setting.exit_share,
    )


def _flows(setting: Setting, seconds: float, seed: int) -> list[Flow]:
    random = np.random.default_rng([seed, setting.flows])
    paced = round(setting.paced_share * setting.flows)
    begins_s = np.arange(0.0, seconds - setting.every_s + 1e-9, setting.every_s) if setting.size_packets else [0.0]
    flows = []
    for begin_s in begins_s:
        wait_s = random.uniform(0, setting.starts_within_s, setting.flows)
        if setting.size_packets:
            wait_s = random.exponential(MIXED_THINK_S, setting.flows).clip(max=setting.every_s / 2)
        for place in range(setting.flows):
            start_s = float(begin_s + wait_s[place])
            lasts: dict[str, Any] = {"duration_s": seconds - start_s}
            if setting.size_packets:
                lasts = {"size_bytes": setting.size_packets * setting.segment_bytes}
            is_paced = place < paced
            own = replace(_tcp(setting), pacing=setting.paced and is_paced)
            label = "paced" if is_paced else "reno"
            ends = f"h{place + 1}", f"h{setting.flows + place + 1}"
            flows.append(Flow(*ends, **lasts, start_s=start_s, label=label, tcp=own))
    return flows


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment on the dumbbell, whose side links are four times as fast as the bottleneck. All packets have
    the paper's size.

    Raises NetreproError for no flow, an unknown queue, far flows that are nearer than the others, and for runs that end
    before flows that start at random do, or before a round of flows with an end.
    """
    if setting.many_s and setting.flows > 1:
        seconds = min(seconds, setting.many_s)
    seconds = setting.seconds or seconds
    if setting.flows < 1:
        raise NetreproError(f"{setting.flows} flows", "give 1 or more")
    if setting.queue not in QUEUES:
        raise NetreproError(f"no queue {setting.queue!r}", f"give one of {', '.join(QUEUES)}")
    if 0 < setting.far_round_trip_ms < setting.round_trip_ms:
        said = f"far flows at {setting.far_round_trip_ms:g} ms"
        raise NetreproError(said, f"give {setting.round_trip_ms:g}, the round trip of the others, or more")
    least_s = setting.every_s if setting.size_packets else setting.starts_within_s
    if seconds < least_s or (seconds == least_s and not setting.size_packets):
        raise NetreproError(f"a run of {seconds:g} s", f"give seconds above {least_s:g}")
    look = Measure(windows_interval_ms=None if setting.size_packets else WINDOWS_MS)
    flows = tuple(_flows(setting, seconds, seed))
    return Experiment(_network(setting), flows, seconds, seed, look, host_delay_packets=setting.host_delay_packets)


def _network(setting: Setting) -> Topology:
    longer_ms = [(setting.round_trip_of(flow) - setting.round_trip_ms) / 4 for flow in range(setting.flows)]
    sides = [Link(4 * setting.rate_mbps, setting.side_delay_ms + more_ms) for more_ms in longer_ms]
    return dumbbell(setting.flows, sides, Link(setting.rate_mbps, setting.core_delay_ms, _queue(setting)))


def read(found: Measurements, setting: Setting) -> Reading:
    """Read one run. For long flows: carried_mbit (payload in order), goodput_mbps, LOSS_SHARES, dropped_share (of the
    packets that reach the bottleneck), fairness (`normalised_fairness`) and the sum of all windows over time; for one
    flow also exit_packets and top_packets, for several peak_packets and least_packets. For flows with an end: their
    mean latencies, and latency_ratio (Reno over paced). Nothing may carry more than the bottleneck, and flows with an
    end must be complete."""
    seconds = found.experiment.duration_s
    carried_mbit = float(found.flows.delivered_bytes.sum()) * 8e-6
    most_mbit = setting.rate_mbps * seconds * setting.segment_bytes / setting.packet_bytes
    checks = [Check("payload within what the bottleneck carries", carried_mbit / most_mbit, at_most=1.0002)]
    if setting.size_packets:
        done = Check("flows complete", float(found.flows.completion_ms.notna().mean()), at_least=1.0)
        means = found.flows.groupby("label").completion_ms.mean()
        latency = {f"{label}_latency_s": float(mean) / 1e3 for label, mean in means.items()}
        both = {"latency_ratio": means.reno / means.paced} if len(means) == 2 else {}
        return Reading(latency | both, checks=[*checks, done])
    windows = found.windows.assign(
        packets=found.windows.window_bytes / setting.segment_bytes,
        threshold_packets=found.windows.slow_start_threshold_bytes / setting.segment_bytes,
    )
    total = windows.groupby("time_s").packets.sum()
    round_s = setting.round_trip_ms / 1e3
    numbers = {"carried_mbit": carried_mbit, "goodput_mbps": carried_mbit / seconds}
    flows = found.flows.sort_values("flow")
    round_trips_ms = [setting.round_trip_of(flow) for flow in flows.flow]
    numbers |= {"dropped_share": _dropped_share(found)}
    numbers |= {"fairness": normalised_fairness(flows.delivered_bytes, round_trips_ms)}
    numbers |= dict(zip(LOSS_SHARES, shares_that_lose(windows, setting.flows, round_s), strict=True))
    numbers |= _of_one(windows, round_s) if setting.flows == 1 else _of_many(total, round_s)
    first = total.index <= INITIAL_ROUNDS * round_s
    shown = pd.concat([total[first], total[~first].iloc[::5]]).reset_index()
    return Reading(numbers, {"windows": shown}, checks)


def _dropped_share(found: Measurements) -> float:
    core = found.links.set_index(["source", "destination"]).loc[CORE]
    return float(core.dropped_packets / (core.dropped_packets + core.sent_packets))


def normalised_fairness(throughputs: Sequence[float] | pd.Series, round_trips: Sequence[float]) -> float:
    """Compute Jain's index of throughput times round trip: 1 where each flow has its share, which is as one over its
    round trip, and one over the number of flows where one has all (section V)."""
    return jain(np.asarray(throughputs, dtype=float) * np.asarray(round_trips, dtype=float))


def shares_that_lose(windows: pd.DataFrame, flows: int, round_s: float) -> tuple[float, float]:
    """Compute the mean share of flows that lose in the same round trip, of round trips in which any does: in the
    initial period, and after it; NaN where none does."""
    next_look_s = windows.groupby("flow").time_s.shift(-1)
    lost = windows.assign(time_s=next_look_s)[_cuts(windows)]
    rounds = lost.assign(number=lambda rows: (rows.time_s / round_s).astype(int)).groupby("number")
    share = rounds.flow.nunique() / flows
    first = share.index < INITIAL_ROUNDS
    return float(share[first].mean()), float(share[~first].mean())


def tops(windows: pd.DataFrame) -> pd.Series:
    """Find where one flow's window is cut after a loss (packets over time), as it was last seen before."""
    return windows[_cuts(windows.assign(flow=0))].set_index("time_s").packets


def _cuts(windows: pd.DataFrame) -> pd.Series:
    """Mark each look at a flow that is followed by a cut before the next look. A loss shows in a changed threshold.

    Kernels count windows in whole packets, so that a threshold may be the same as before; then a cut shows in a fall by
    a quarter or more within the next looks, from twice the threshold.
    """
    order = np.argsort(windows.flow.to_numpy(), kind="stable")
    flow, window, threshold = (windows[name].to_numpy()[order] for name in ("flow", "packets", "threshold_packets"))
    places = np.arange(len(flow))

    def has_ahead(looks: int) -> np.ndarray:
        return np.append(flow[looks:] == flow[:-looks], np.zeros(min(looks, len(flow)), bool))

    cuts = has_ahead(1) & (threshold != np.append(threshold[1:], np.nan))
    least_ahead = np.full(len(flow), np.inf)
    for looks in range(1, LOOKS_AHEAD + 1):
        near = places[has_ahead(looks)]
        least_ahead[near] = np.fmin(least_ahead[near], window[near + looks])
    falls = least_ahead < 0.75 * window
    begins = falls & ~np.append(False, falls[:-1] & has_ahead(1)[:-1])
    fall = np.cumsum(begins)[falls]
    # The highest look of each fall, the first of several.
    highest = np.lexsort((places[falls], -window[falls], fall))
    peaks = places[falls][highest[np.unique(fall[highest], return_index=True)[1]]]
    cuts[peaks] |= np.floor(window[peaks] / 2) == threshold[peaks]
    return pd.Series(cuts, windows.index[order]).reindex(windows.index)


def _of_one(windows: pd.DataFrame, round_s: float) -> dict[str, float]:
    """Read exit_packets (slow start's last window), exit_seen_packets (the same, looked at once in a round trip),
    top_packets (mean of the settled sawtooth's, NaN in a run too short for one)."""
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
    """Read peak_packets of the first rounds, peak_round, and least_packets soon after it."""
    first = total[total.index <= PEAK_ROUNDS * round_s]
    at_s = float(first.idxmax())
    after = total[(total.index > at_s) & (total.index <= at_s + FALL_ROUNDS * round_s)]
    return {"peak_packets": float(first.max()), "peak_round": at_s / round_s, "least_packets": float(after.min())}


# The class's set-up, as programs see it.


def measure_each_second(runs: Runs) -> pd.DataFrame:
    """Measure what receivers read in each second of the class's runs, on the virtual kernel: case, seconds,
    carried_mbit (of all flows until then). The table is kept in `runs.knobs["each_second"]`; it is empty on another
    tier."""
    if runs.tier == "virtual":
        table = pd.concat([_each_second(case, runs) for case in CLASS], ignore_index=True)
    else:
        table = pd.DataFrame(columns=["case", "seconds", "carried_mbit"])
    runs.knobs["each_second"] = table
    return table


def _each_second(case: str, runs: Runs) -> pd.DataFrame:
    """Measure what programs that start together carry in each second. Linux's senders: a paced one's first ten segments
    leave at once."""
    setting = replace(runs.setting, **CLASS[case])
    lasts_s = round(max(CLASS_S.values))
    asked = experiment(setting, lasts_s, runs.seed)
    pairs = [(flow.source, flow.destination) for flow in asked.traffic if isinstance(flow, Flow)]
    tcp = replace(_tcp(setting), counts="segments", unpaced_segments=UNPACED_SEGMENTS)
    counts = bytes_each_second(asked.topology, pairs, lasts_s, paced=setting.paced, tcp=tcp, seed=runs.seed)
    mbit = np.cumsum(np.sum(counts, axis=0)) * 8e-6
    return pd.DataFrame({"case": case, "seconds": np.arange(1.0, lasts_s + 1), "carried_mbit": mbit})


# Figures.


def draw_idea() -> Figure:
    """Draw one window of eight packets in a round trip, sent as acknowledgements arrive, and paced; the queue of
    each."""
    names = ["Reno: in a burst", "paced: evenly"]
    figure, axes = drawing.panels("The same window, and the queue it makes (not to scale)", "", "", names)
    for axis, name, sent in zip(axes, ("reno", "paced"), (np.arange(8) * 0.25, np.arange(8) * 1.25), strict=True):
        axis.vlines(sent, 0, 1, color=LOOKS[name]["color"], linewidth=3)
        times = np.linspace(0, 10, 400)
        queue = np.array([_backlog(sent, time) for time in times])
        axis.fill_between(times, -queue / 4, 0, color="#999999", alpha=0.6)
        axis.text(9.9, 1.12, "packets sent", ha="right")
        axis.text(9.9, -0.9, "queue at a slower link", ha="right")
        axis.set(xlim=(-0.3, 10), ylim=(-1.8, 1.4), xlabel="time (tenths of a round trip)")
        axis.set_yticks([])
        axis.grid(False)
    return figure


def _backlog(sent: np.ndarray, time: float) -> float:
    """Count the packets that wait at a link which takes one in each unit of time."""
    left = 0.0
    for place, at in enumerate(sent[sent <= time]):
        after = sent[place + 1] if place + 1 < len(sent) else np.inf
        left = max(0.0, left + 1 - (min(after, time) - at))
    return left


def draw_network(setting: Setting) -> Figure:
    """Draw the dumbbell, with the fifty flows' rate and buffer."""
    return drawing.draw_network(
        experiment(STUDY.case("fifty reno", setting), 10.0, 1), "Fifty senders, one bottleneck (packets of 576 bytes)"
    )


def _draw_windows(axis: Axes, runs: Runs, cases: dict[str, str], rounds: float) -> None:
    """Draw the windows of the first repetition over time in round trips. cases : case -> scheme."""
    round_s = runs.setting.round_trip_ms / 1e3
    for case, name in cases.items():
        rows = runs.table("windows", case).query("repetition == 0")
        rows = rows[rows.time_s <= rounds * round_s]
        axis.plot(rows.time_s / round_s, rows.packets, **LOOKS[name])
    axis.set_ylim(bottom=0)


def _draw_points(axis: Axes, points: dict[str, tuple[float, float]]) -> None:
    """Draw published points, named."""
    for said, (x, y) in points.items():
        axis.plot(x, y, "o", color=drawing.PUBLISHED_GREY, markersize=8, zorder=1)
        axis.annotate(said, (x, y), (30, 0), textcoords="offset points", color="#555555", fontsize=9, va="center")


def draw_course(runs: Runs, cases: dict[str, str], title: str, knob: str = "course") -> Figure:
    """Draw the cumulative throughput over time, and what an interval of a second carried: the same runs."""
    names = ["cumulative, as published", "in each second, as iperf3 shows it"]
    figure, axes = drawing.panels(title, "time (s)", "throughput (Mb/s, payload)", names)
    table = runs.knobs.get(knob, pd.DataFrame(columns=["case"]))
    if table.empty:
        for axis in axes:
            drawing.say_not_measured(axis, runs.tier)
        return figure
    for case, name in cases.items():
        rows = table[table.case == case].sort_values("seconds")
        axes[0].plot(rows.seconds, rows.carried_mbit / rows.seconds, **LOOKS[name])
        each_second = np.diff(rows.carried_mbit, prepend=0.0) / np.diff(rows.seconds, prepend=0.0)
        axes[1].step(rows.seconds, each_second, where="pre", **LOOKS[name])
    for axis in axes:
        axis.set_ylim(bottom=0)
    drawing.share_legend(figure)
    return figure


def draw_tiers(runs: Runs) -> Figure:
    """Draw the windows of the same experiments on the virtual kernel and in the simulator."""
    names = ["one flow", "fifty flows"]
    figure, axes = drawing.panels(
        "The kernel and the simulator", "time (round trips)", "sum of windows (packets)", names
    )
    round_s = runs.setting.round_trip_ms / 1e3
    for axis, cases, rounds in ((axes[0], ("reno", "paced"), 250), (axes[1], ("fifty reno", "fifty paced"), 80)):
        for case, look in zip(cases, ("reno", "paced"), strict=True):
            for tier, style in zip(runs.tiers, ("-", ":"), strict=False):
                rows = runs.table("windows", case, tier).query("repetition == 0")
                rows = rows[rows.time_s <= rounds * round_s]
                how = LOOKS[look] | {"linestyle": style, "label": f"{LOOKS[look]['label']}, {tier}"}
                axis.plot(rows.time_s / round_s, rows.packets, **how)
        axis.set_ylim(bottom=0)
    drawing.share_legend(figure)
    return figure


def draw_single_windows(runs: Runs) -> Figure:
    """Draw Fig. 4: the window of a single flow."""
    figure, axis = new_figure("Window of a single flow (Fig. 4)", "time (round trips)", "window (packets)")
    _draw_windows(axis, runs, {"reno": "reno", "paced": "paced"}, 250)
    ends = "published ends of slow start (62, 213; their times are not known)"
    axis.hlines([62, 213], 0, 30, color=drawing.PUBLISHED_GREY, linewidth=4, zorder=1, label=ends)
    drawing.draw_published_level(axis, 135, "published top (135)")
    drawing.draw_published_level(axis, 67, "published bottom (67)")
    axis.legend(loc="upper right", fontsize=8)
    return figure


def draw_fifty_windows(runs: Runs) -> Figure:
    """Draw Fig. 8: the sum of all windows."""
    figure, axis = new_figure("All windows of fifty flows (Fig. 8)", "time (round trips)", "sum of windows (packets)")
    _draw_windows(axis, runs, {"fifty reno": "reno", "fifty paced": "paced"}, 80)
    _draw_points(axis, {"3300": (8, 3300), "200": (14, 200)})
    axis.plot([], [], "o", color=drawing.PUBLISHED_GREY, markersize=8, label="published, paced")
    drawing.draw_published_level(axis, 2400, "published peak of Reno (2400)")
    setting = runs.study.case("fifty reno", runs.setting)
    holds = setting.path_packets + setting.queue_packets
    axis.axhline(holds, color="#444444", linestyle=":", linewidth=1, label=f"path and buffer hold {holds:.0f}")
    axis.legend()
    return figure


def gain(table: pd.DataFrame) -> pd.DataFrame:
    """Compute what pacing adds to the throughput (percent), from cases "reno" and "paced": a row for each buffer (as a
    share of the path's own) and rate."""
    means = table.pivot_table(index=["rate_mbps", "buffer_share"], columns="case", values="carried_mbit")
    return (100 * (means["paced"] / means["reno"] - 1)).rename("gain_percent").reset_index()


def draw_gain(runs: Runs) -> Figure:
    """Draw Fig. 5: the gain over the path's size, for buffers."""
    figure, axis = new_figure(
        "What pacing adds in 150 round trips (Fig. 5)", "buffer (of the path's own packets)", "gain (%)", log_x=True
    )
    for colour, (rate, rows) in zip(drawing.CURVES, gain(runs.knobs["buffer"]).groupby("rate_mbps"), strict=False):
        packets = replace(runs.setting, rate_mbps=rate).path_packets
        axis.plot(rows.buffer_share, rows.gain_percent, "o-", color=colour, label=f"path of {packets:.0f} packets")
    axis.axhline(0, color="#444444", linewidth=1)
    axis.axvline(0.5, color=drawing.PUBLISHED_GREY, linestyle="--", label="published: no gain from here on")
    drawing.name_ticks(axis, "x", BUFFER_SHARES)
    axis.legend()
    return figure


def draw_two_round_trips(runs: Runs) -> Figure:
    """Draw Figs 9 to 11: fairness, drops and throughput of fifty flows of which half are far, and of the controls."""
    readings = {
        "fairness": "Jain's index (1: all alike)",
        "dropped_share": "share of packets that are dropped",
        "goodput_mbps": "throughput (Mb/s, payload)",
    }
    groups = {"100 and 280 ms": TWO_TRIPS, "all 100 ms": ONE_TRIP, "100 and 280 ms,\nbuffer of 31": SMALL_BUFFER}
    groups = {name: pair for name, pair in groups.items() if runs.has(*pair)}
    title = "Fifty flows, 20 Mb/s, buffer of 312 packets (Figs 9 to 11)"
    figure, axes = drawing.panels(title, "", "", [""] * len(readings))
    for axis, (reading, said) in zip(axes, readings.items(), strict=True):
        for place, pair in enumerate(groups.values()):
            for side, (case, look) in enumerate(zip(pair, ("reno", "paced"), strict=True)):
                bar = {"color": LOOKS[look]["color"], "label": LOOKS[look]["label"]}
                drawing.draw_bar(axis, place + 0.4 * (side - 0.5), list(runs.numbers(case)[reading]), 0.38, **bar)
        axis.set_xticks(range(len(groups)), list(groups), fontsize=8)
        axis.set_ylabel(said)
    drawing.share_legend(figure)
    return figure


def draw_mix(runs: Runs) -> Figure:
    """Draw Figs 14 and 15: how long Reno flows take among paced ones, over the share of these."""
    figure, axis = new_figure(
        "Paced among Reno flows (Figs 14, 15)", "share of flows that are paced", "latency of Reno (of that of paced)"
    )
    drawing.draw_sweep(axis, runs.knobs["mix"], "paced_share", "latency_ratio", by="case", label="flows of {}")
    axis.axhline(1, color="#444444", linewidth=1)
    _draw_points(axis, {"published, 5000 packets": (0.1, 0.27)})
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_controls(runs: Runs) -> Figure:
    """Draw the windows where the mechanism is broken: random starts, RED."""
    names = ["paced, together and at random", "with RED"]
    figure, axes = drawing.panels("Broken on purpose", "time (round trips)", "sum of windows (packets)", names)
    _draw_windows(axes[0], runs, {"fifty paced": "paced", "fifty paced, random starts": "control"}, 150)
    _draw_windows(axes[1], runs, {"fifty reno, RED": "reno", "fifty paced, RED": "paced"}, 150)
    axes[0].legend(["start together", "start within 10 s"])
    if not runs.has("fifty paced, random starts"):
        axes[0].legend(["start together"])
        drawing.say_not_measured(axes[0], runs.tier, "start within 10 s: ")
    axes[1].legend()
    return figure


def draw_recovery(runs: Runs) -> Figure:
    """Draw what is left of the collapse with other ways to repair losses, and with faster pacing."""
    names = ["how losses are repaired", "how fast slow start paces (window per round trip)"]
    figure, axes = drawing.panels("Fifty flows, the first 40 round trips", "", "", names)
    drawing.draw_sweep(axes[1], runs.knobs["ratio"], "slow_start_ratio", "goodput_mbps", **LOOKS["paced"])
    table = runs.knobs["recovery"]
    for place, (case, rows) in enumerate(table.groupby("case")):
        means = rows.groupby("recovery", sort=False).goodput_mbps.mean()
        at = np.arange(len(means)) + 0.4 * (place - 0.5)
        axes[0].bar(at, means, 0.38, color=LOOKS[case]["color"], label=LOOKS[case]["label"])
        axes[0].set_xticks(range(len(means)), means.index)
    for axis in axes:
        axis.set(ylabel="throughput (Mb/s, payload)", ylim=(0, None))
    axes[0].set_xlabel("sender's recovery")
    axes[1].set_xlabel("pacing ratio in slow start (of window per round trip)")
    axes[0].legend()
    return figure


def draw_run(found: Measurements, case: str) -> Figure:
    """Draw all windows of one run over time."""
    total = found.windows.groupby("time_s").window_bytes.sum() / 1e3
    goodput = float(found.flows.delivered_bytes.sum()) * 8e-6 / found.experiment.duration_s
    figure, axis = new_figure(f"{case}: {goodput:.2f} Mb/s of payload", "time (s)", "sum of windows (kB)")
    axis.plot(total.index, total, linewidth=1.2)
    axis.set_ylim(bottom=0)
    return figure


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    means = runs.summary()
    one = [means.loc[f"{name}, 150 round trips"].carried_mbit for name in ("paced", "reno")]
    paced, reno = means.loc["fifty paced"], means.loc["fifty reno"]
    return (
        f"A single paced flow carries {100 * (one[0] / one[1] - 1):.0f} % more in its first 150 round trips, as bursts "
        f"overflow a small buffer; of fifty that start together the windows grow to {paced.peak_packets:.0f} packets "
        f"in {paced.peak_round:.0f} round trips and fall to {paced.least_packets:.0f} (Reno's: to "
        f"{reno.peak_packets:.0f} and {reno.least_packets:.0f}), and in the long run both carry the same "
        f"({paced.goodput_mbps:.1f} and {reno.goodput_mbps:.1f} Mb/s)."
    )


def mean_of_two(first: float, second: float) -> float:
    return (first + second) / 2


LOOKS: dict[str, dict[str, Any]] = {
    "reno": {"color": scheme("reno").colour, "label": "Reno", "linewidth": 1.3},
    "paced": {"color": scheme("tcp").colour, "label": "paced", "linewidth": 1.3},
    "control": {"color": scheme("control").colour, "label": "control", "linewidth": 1.3, "linestyle": "--"},
}
FIFTY: dict[str, Any] = {"flows": 50, "rate_mbps": 57.0, "buffer_packets": 312}
FIRST, ROUNDS_150 = {"seconds": 4.0}, {"seconds": 15.0}
PACED, RED, DEEP = {"paced": True}, {"queue": "red"}, {"buffer_packets": 108}
MIX: dict[str, Any] = {"flows": 20, "rate_mbps": 25.0, "buffer_share": 0.25, "paced_share": 0.1}
SHORT = MIX | {"size_packets": 300, "every_s": 15.0, "seconds": 150.0}
MIXED = MIX | {"size_packets": 5000, "every_s": 120.0, "seconds": 120.0}
TRIPS: dict[str, Any] = {"flows": 50, "rate_mbps": 20.0, "buffer_packets": 312}
TRIPS |= {"seconds": lambda setting: setting.trips_s}
FAR, TENTH = {"far_round_trip_ms": 280.0}, {"buffer_packets": 31}
LINUX = {"packet_bytes": 1514, "initial_window_segments": 10, "recovery": "linux", "delayed_ack_ms": 40.0}
LINUX |= {"flows": 5, "rate_mbps": 5.0}
BUFFER_SHARES = (0.1, 0.25, 0.5, 1.0, 2.0)
CLASS: dict[str, dict[str, Any]] = {
    "class reno": LINUX | {"buffer_packets": 1000},
    "class paced": LINUX | {"paced": True, "buffer_packets": 1000},
    "class reno, small buffer": LINUX | {"buffer_packets": 10},
    "class paced, small buffer": LINUX | {"paced": True, "buffer_packets": 10},
}
COURSE_S = each(*(float(second) for second in range(1, 31)))
CLASS_S = each(*COURSE_S.values[:20])
CASES: dict[str, dict[str, Any]] = {
    "reno": {},
    "paced": PACED,
    "reno, deep buffer": DEEP,
    "paced, deep buffer": PACED | DEEP,
    "reno, 150 round trips": ROUNDS_150,
    "paced, 150 round trips": PACED | ROUNDS_150,
    "reno, deep buffer, 150 round trips": DEEP | ROUNDS_150,
    "paced, deep buffer, 150 round trips": PACED | DEEP | ROUNDS_150,
    "fifty reno": FIFTY,
    "fifty paced": FIFTY | PACED,
    "fifty reno, RED": FIFTY | RED,
    "fifty paced, RED": FIFTY | PACED | RED,
    "fifty paced, random starts": FIFTY | PACED | {"starts_within_s": 10.0},
    "fifty reno, at first": FIFTY | FIRST,
    "fifty paced, at first": FIFTY | PACED | FIRST,
    "fifty reno, RED, at first": FIFTY | RED | FIRST,
    "fifty paced, RED, at first": FIFTY | PACED | RED | FIRST,
    "two round trips reno": TRIPS | FAR,
    "two round trips paced": TRIPS | FAR | PACED,
    "one round trip reno": TRIPS,
    "one round trip paced": TRIPS | PACED,
    "two round trips reno, small buffer": TRIPS | FAR | TENTH,
    "two round trips paced, small buffer": TRIPS | FAR | TENTH | PACED,
    "mixed, two paced": MIXED | PACED,
    "mixed, none paced": MIXED,
}
TWO_TRIPS = ("two round trips reno", "two round trips paced")
ONE_TRIP = ("one round trip reno", "one round trip paced")
SMALL_BUFFER = ("two round trips reno, small buffer", "two round trips paced, small buffer")
HOST_TIME = ("host_delay_packets", "time of hosts (packets' times)")


def _twice_in_quick(seconds: float) -> dict[str, Scale]:
    return {"quick": Scale(seconds, repetitions=2)} | dict.fromkeys(("paper", "test"), Scale(seconds))


BY_SENDER = greatest_first("reno", "paced")
STUDY = Study(
    slug="tcp_pacing",
    setting=Setting(),
    repetitions=10,
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    profiles={
        "quick": Scale(30.0, changes={"many_s": 20.0}, fewer=dict.fromkeys((*TWO_TRIPS, *ONE_TRIP, *SMALL_BUFFER), 5)),
        "paper": Scale(120.0),
    },
    on_virtual={  # Linux's senders; in the simulator beside them, too
        "quick": Scale(
            20.0,
            repetitions=2,
            changes={"recovery": "linux", "many_s": 12.0, "trips_s": 30.0},
            without=("fifty paced, random starts", *SMALL_BUFFER),
        ),
        "paper": Scale(60.0, changes={"recovery": "linux"}),
    },
    claims={
        "reno-leaves-slow-start": Evidence("exit_packets", "reno", control="paced"),
        "paced-leaves-slow-start": Evidence("exit_packets", "paced", control="reno"),
        "sawtooth-top": Evidence("top_packets", ("reno", "paced"), how=mean_of_two),
        "single-flow-gain": Evidence(
            "carried_mbit",
            ("paced, 150 round trips", "reno, 150 round trips"),
            control=("paced, deep buffer, 150 round trips", "reno, deep buffer, 150 round trips"),
            how=greatest_first("paced", "reno"),
        ),
        "paced-peak-of-fifty": Evidence("peak_packets", "fifty paced", control="fifty reno"),
        "paced-collapse-of-fifty": Evidence("least_packets", "fifty paced", control="fifty paced, random starts"),
        "reno-peak-of-fifty": Evidence("peak_packets", "fifty reno", control="fifty paced"),
        "reno-better-at-first": Evidence(
            "carried_mbit",
            ("fifty reno, at first", "fifty paced, at first"),
            control=("fifty reno, RED, at first", "fifty paced, RED, at first"),
            how=BY_SENDER,
        ),
        "paced-flows-lose-together": Evidence(
            "first_loss_share",
            ("fifty paced", "fifty reno"),
            control=("fifty paced, RED", "fifty reno"),
            how=greatest_first("paced", "reno"),
        ),
        "paced-flows-lose-apart-later": Evidence(
            "later_loss_share",
            ("fifty reno", "fifty paced"),
            control=("fifty reno, RED", "fifty paced"),
            how=BY_SENDER,
        ),
        "paced-among-reno": Evidence("latency_ratio", "mixed, two paced", control="mixed, none paced"),
        "mixed-round-trips-fairness": Evidence("fairness", TWO_TRIPS, control=ONE_TRIP, how=BY_SENDER),
        "mixed-round-trips-drops": Evidence(
            "dropped_share", TWO_TRIPS[::-1], control=ONE_TRIP[::-1], how=least_first("paced", "reno")
        ),
        "mixed-round-trips-throughput": Evidence("goodput_mbps", TWO_TRIPS[::-1], how=ratio),
    },
    knobs={
        "course": Knob(
            {
                "reno": {"seconds": COURSE_S},
                "paced": PACED | {"seconds": COURSE_S},
                "fifty reno": FIFTY | {"seconds": each(*COURSE_S.values[:20])},
                "fifty paced": FIFTY | PACED | {"seconds": each(*COURSE_S.values[:20])},
                **{name: changes | {"seconds": CLASS_S} for name, changes in CLASS.items()},
            },
            {"quick": Scale(40.0, only={"seconds": COURSE_S.values[1::2]})}
            | dict.fromkeys(("paper", "test"), Scale(40.0)),
        ),
        "buffer": Knob(
            {
                name: changes | ROUNDS_150 | {"rate_mbps": each(2.0, 5.0, 20.0), "buffer_share": each(*BUFFER_SHARES)}
                for name, changes in (("reno", {}), ("paced", PACED))
            },
            Scale(15.0),
        ),
        "recovery": Knob(
            {
                name: changes | FIFTY | FIRST | {"recovery": each("tahoe", "reno", "newreno", "sack", "linux")}
                for name, changes in (("reno", {}), ("paced", PACED))
            },
            _twice_in_quick(4.0),
            repetitions=3,
        ),
        "hosts": Knob(
            {
                name: changes | FIFTY | {"host_delay_packets": each(0.0, 1.0, 4.0, 12.0)}
                for name, changes in (("paced", PACED), ("reno", {}))
            },
            _twice_in_quick(20.0),
            repetitions=3,
        ),
        "hosts_of_one": Knob(
            {
                name: changes | ROUNDS_150 | {"host_delay_packets": each(0.0, 0.25, 0.5, 1.0)}
                for name, changes in (("paced", PACED), ("reno", {}))
            },
            _twice_in_quick(15.0),
            repetitions=5,
        ),
        "mix": Knob(
            {
                name: changes | PACED | {"paced_share": each(0.1, 0.3, 0.5, 0.7, 0.9)}
                for name, changes in (("5000 packets", MIXED), ("300 packets", SHORT))
            },
            _twice_in_quick(120.0),
            repetitions=3,
        ),
        "exit": Knob(
            {
                name: changes | FIFTY | FIRST | {"exit_share": each(0.5, 0.35, 0.25, 0.15)}
                for name, changes in (("reno", {}), ("paced", PACED))
            },
            _twice_in_quick(4.0),
            repetitions=3,
        ),
        "ratio": Knob(
            {"paced": FIFTY | PACED | FIRST | {"slow_start_ratio": each(1.0, 1.25, 1.5, 2.0, 3.0, 4.0)}},
            _twice_in_quick(4.0),
            repetitions=3,
        ),
    },
    figures={
        "fig3_throughput": lambda runs: draw_course(
            runs, {"reno": "reno", "paced": "paced"}, "A single flow, 5 Mb/s, buffer of 25 packets (Fig. 3)"
        ),
        "fig4_window": draw_single_windows,
        "fig5_gain": draw_gain,
        "fig6_throughput_of_fifty": lambda runs: draw_course(
            runs, {"fifty reno": "reno", "fifty paced": "paced"}, "Fifty flows, 57 Mb/s, buffer of 312 packets (Fig. 6)"
        ),
        "fig8_windows_of_fifty": draw_fifty_windows,
        "fig9_11_two_round_trips": draw_two_round_trips,
        "fig14_15_mix": draw_mix,
        "class_throughput": lambda runs: draw_course(
            runs, {"class reno": "reno", "class paced": "paced"}, "The class's five flows, buffer of 1000 packets"
        ),
        "class_small_buffer": lambda runs: draw_course(
            runs,
            {"class reno, small buffer": "reno", "class paced, small buffer": "paced"},
            "The class's five flows, buffer of a quarter of the path (10 packets)",
        ),
        "class_each_second": lambda runs: draw_course(
            runs,
            {"class reno": "reno", "class paced": "paced"},
            "The class's five flows as programs see them, buffer of 1000 packets",
            "each_second",
        ),
        "class_each_second_small_buffer": lambda runs: draw_course(
            runs,
            {"class reno, small buffer": "reno", "class paced, small buffer": "paced"},
            "The class's five flows as programs see them, buffer of 10 packets",
            "each_second",
        ),
        "tiers_windows": draw_tiers,
        "control": draw_controls,
        "knob_hosts": lambda runs: drawing.sweep_figure(
            "Hosts that do not keep step (fifty flows; a packet takes 0.08 ms)",
            runs.knobs["hosts"],
            HOST_TIME,
            {
                "first_loss_share": "share of flows that lose together, at first",
                "later_loss_share": "share of flows that lose together, later",
            },
            by="case",
            log_x=False,
        ),
        "knob_hosts_of_one": lambda runs: drawing.sweep_figure(
            "A single flow, 150 round trips (a packet takes 0.92 ms)",
            runs.knobs["hosts_of_one"],
            HOST_TIME,
            {"carried_mbit": "carried (Mbit)", "dropped_share": "share of packets dropped"},
            by="case",
            log_x=False,
        ),
        "knob_recovery": draw_recovery,
        "knob_exit": lambda runs: drawing.sweep_figure(
            "Another cut where slow start ends (fifty flows, the first 40 round trips)",
            runs.knobs["exit"],
            ("exit_share", "window kept at the first loss (share of it)"),
            {
                "carried_mbit": "carried in 40 round trips (Mbit)",
                "least_packets": "least sum of windows (packets)",
            },
            by="case",
            log_x=False,
        ),
    },
    best=("fig3_throughput", "fig4_window", "fig6_throughput_of_fifty", "fig14_15_mix", "control"),
    play=Play(
        ("reno", "paced", "fifty reno", "fifty paced"),
        {
            "buffer_packets": (5, 1000, 5),
            "slow_start_ratio": (1.0, 4.0, 0.25),
            "recovery": ["reno", "newreno", "sack", "linux"],
        },
        draw_run,
        seconds=20.0,
    ),
)
