"""TCP pacing: Aggarwal, Savage and Anderson, "Understanding the Performance of TCP Pacing", INFOCOM 2000.

A sender that spreads its window evenly over a round trip instead of sending it in bursts. A single one gains, as
bursts overflow a small buffer early; of fifty that start together all learn of the overflow late, and at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.applications.bulk.run import bytes_each_second
from netrepro.emulation.tcp import UNPACED_SEGMENTS
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, Link, Queue, Red, bandwidth_delay_packets
from netrepro.networks.topology import Topology, dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, each
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first, jain, least_first, ratio
from netrepro.study.figures import Bars, Course, Level, Look, Mark, Panel, Picture, Published, Sweep, beside, plot
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
    several flows last at most, 0 for as long as those of one. trips_s : how long runs with two round trips last, and
    their controls.
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
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms, self.packet_bytes)

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
    return Reading(numbers, {"windows": shown.assign(rounds=shown.time_s / round_s)}, checks)


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
    for axis, look, sent in zip(axes, (RENO, PACED_LOOK), (np.arange(8) * 0.25, np.arange(8) * 1.25), strict=True):
        axis.vlines(sent, 0, 1, color=look["color"], linewidth=3)
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


def throughput_of(knob: str) -> Callable[[Runs], pd.DataFrame]:
    """Make the function that computes throughputs over time from a knob's carried_mbit: so_far_mbps, cumulative, and
    second_mbps, of the time since the row before; no rows where the knob was not turned."""

    def throughput(runs: Runs) -> pd.DataFrame:
        table = runs.knobs.get(knob, pd.DataFrame(columns=["case", "seconds", "carried_mbit"]))
        rows = table.sort_values(["case", "seconds"])
        since = rows.groupby("case")[["seconds", "carried_mbit"]].diff().fillna(rows[["seconds", "carried_mbit"]])
        second_mbps = since.carried_mbit / since.seconds
        return rows.assign(so_far_mbps=rows.carried_mbit / rows.seconds, second_mbps=second_mbps)

    return throughput


def _throughput(column: str, reno: str, paced: str, title: str, knob: str = "course") -> Panel:
    style = {"marker": "", "drawstyle": "default" if column == "so_far_mbps" else "steps-pre"}
    looks = {reno: RENO | style, paced: PACED_LOOK | style}
    return Panel(
        "time (s)",
        "throughput (Mb/s, payload)",
        Sweep("seconds", column, throughput_of(knob), looks=looks),
        title=title,
    )


def _both_throughputs(title: str, reno: str, paced: str) -> Picture:
    return Picture(
        title,
        _throughput("so_far_mbps", reno, paced, "cumulative, as published"),
        _throughput("second_mbps", reno, paced, "in each second, as iperf3 shows it"),
    )


def _class_throughput(title: str, knob: str) -> Picture:
    names = {"buffer of 1000 packets": "", "buffer of a quarter of the path (10 packets)": ", small buffer"}
    each_second = [
        _throughput("second_mbps", f"class reno{which}", f"class paced{which}", name, knob)
        for name, which in names.items()
    ]
    return Picture(title, *each_second)


def _windows(cases: dict[str, Look], rounds: float, *marks: Mark, title: str = "", tiers: bool = False) -> Panel:
    course = Course("windows", "packets", cases, x="rounds", rows=f"rounds <= {rounds}", tiers=tiers)
    return Panel("time (round trips)", "sum of windows (packets)", course, *marks, title=title)


def _holds(runs: Runs) -> float:
    setting = runs.study.case("fifty reno", runs.setting)
    return setting.path_packets + setting.queue_packets


def gain(runs: Runs) -> pd.DataFrame:
    """Compute what pacing adds to the throughput (percent): a row for each buffer (as a share of the path's own) and
    path (packets)."""
    rows = runs.knobs["buffer"]
    means = rows.pivot_table(index=["rate_mbps", "buffer_share"], columns="case", values="carried_mbit")
    table = (100 * (means["paced"] / means["reno"] - 1)).rename("gain_percent").reset_index()
    paths = [replace(runs.setting, rate_mbps=rate).path_packets for rate in table.rate_mbps]
    return table.assign(path_packets=np.round(paths))


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


RENO = {"color": scheme("reno").colour, "label": "Reno"}
PACED_LOOK = {"color": scheme("tcp").colour, "label": "paced"}
BOTH: dict[str, Look] = {"reno": RENO, "paced": PACED_LOOK}
OF_FIFTY: dict[str, Look] = {"fifty reno": RENO, "fifty paced": PACED_LOOK}
CONTROL = scheme("control").colour
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
TRIPS_AND_CONTROLS = {
    name: dict(zip(pair, BOTH.values(), strict=True))
    for name, pair in (("100 and 280 ms", TWO_TRIPS), ("all 100 ms", ONE_TRIP), ("buffer of 31", SMALL_BUFFER))
}


def _senders(changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"reno": changes, "paced": PACED | changes}


def _thrice(cases: dict[str, dict[str, Any]], seconds: float) -> Knob:
    return Knob(cases, Scale(seconds), repetitions=3, quick=Scale(seconds, repetitions=2))


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
                **_senders({"seconds": COURSE_S}),
                **{f"fifty {name}": FIFTY | changes for name, changes in _senders({"seconds": CLASS_S}).items()},
                **{name: changes | {"seconds": CLASS_S} for name, changes in CLASS.items()},
            },
            Scale(40.0),
            quick=Scale(40.0, only={"seconds": COURSE_S.values[1::2]}),
        ),
        "buffer": Knob(
            _senders(ROUNDS_150 | {"rate_mbps": each(2.0, 5.0, 20.0), "buffer_share": each(*BUFFER_SHARES)}),
            Scale(15.0),
        ),
        "recovery": _thrice(
            _senders(FIFTY | FIRST | {"recovery": each("tahoe", "reno", "newreno", "sack", "linux")}), 4.0
        ),
        "hosts": _thrice(_senders(FIFTY | {"host_delay_packets": each(0.0, 1.0, 4.0, 12.0)}), 20.0),
        "hosts_of_one": Knob(
            _senders(ROUNDS_150 | {"host_delay_packets": each(0.0, 0.25, 0.5, 1.0)}),
            Scale(15.0),
            repetitions=5,
            quick=Scale(15.0, repetitions=2),
        ),
        "mix": _thrice(
            {
                name: changes | PACED | {"paced_share": each(0.1, 0.3, 0.5, 0.7, 0.9)}
                for name, changes in (("5000 packets", MIXED), ("300 packets", SHORT))
            },
            120.0,
        ),
        "ratio": _thrice(
            {"paced": FIFTY | PACED | FIRST | {"slow_start_ratio": each(1.0, 1.25, 1.5, 2.0, 3.0, 4.0)}}, 4.0
        ),
    },
    figures={
        "fig3_throughput": _both_throughputs("A single flow, 5 Mb/s, buffer of 25 packets (Fig. 3)", "reno", "paced"),
        "fig4_window": Picture(
            "Window of a single flow (Fig. 4)",
            _windows(
                BOTH,
                250,
                Published({5: 62, 15: 213}, "published ends of slow start (62, 213; their times are not known)"),
                Level(135, "published top ({})"),
                Level(67, "published bottom ({})"),
            ),
        ),
        "fig5_gain": plot(
            "What pacing adds in 150 round trips (Fig. 5)",
            "buffer (of the path's own packets)",
            "gain (%)",
            Sweep("buffer_share", "gain_percent", gain, by="path_packets", label="path of {} packets"),
            Level(0, published=False),
            Level(0.5, "published: no gain from here on", upright=True),
            log="x",
            y_range=(None, None),
        ),
        "fig6_throughput_of_fifty": _both_throughputs(
            "Fifty flows, 57 Mb/s, buffer of 312 packets (Fig. 6)", "fifty reno", "fifty paced"
        ),
        "fig8_windows_of_fifty": Picture(
            "All windows of fifty flows (Fig. 8)",
            _windows(
                OF_FIFTY,
                80,
                Published({8: 3300, 14: 200}, "published, paced (3300 and 200)"),
                Level(2400, "published peak of Reno (2400)"),
                Level(_holds, "path and buffer hold {}", published=False),
            ),
        ),
        "fig9_11_two_round_trips": beside(
            "Fifty flows, 20 Mb/s, buffer of 312 packets (Figs 9 to 11)",
            "",
            {
                "fairness": "Jain's index (1: all alike)",
                "dropped_share": "share of packets that are dropped",
                "goodput_mbps": "throughput (Mb/s, payload)",
            },
            lambda reading: Bars(reading, TRIPS_AND_CONTROLS),
        ),
        "fig14_15_mix": plot(
            "Paced among Reno flows (Figs 14, 15)",
            "share of flows that are paced",
            "latency of Reno (of that of paced)",
            Sweep("paced_share", "latency_ratio", "mix", label="flows of {}"),
            Level(1, published=False),
            Published({0.1: 0.27}, "published, 5000 packets"),
        ),
        "class_throughput": _class_throughput("The class's five flows, in each second", "course"),
        "class_each_second": _class_throughput("The class's five flows as programs see them", "each_second"),
        "tiers_windows": Picture(
            "The kernel and the simulator",
            _windows(BOTH, 250, title="one flow", tiers=True),
            _windows(OF_FIFTY, 80, title="fifty flows", tiers=True),
        ),
        "control": Picture(
            "Broken on purpose",
            _windows(
                {
                    "fifty paced": {"label": "paced, start together", "color": scheme("tcp").colour},
                    "fifty paced, random starts": {"label": "paced, start within 10 s", "color": CONTROL},
                },
                150,
            ),
            _windows({"fifty reno, RED": RENO, "fifty paced, RED": PACED_LOOK}, 150, title="with RED"),
        ),
        "knob_hosts": Picture(
            "Hosts that do not keep step (of fifty flows a packet takes 0.08 ms, of one 0.92 ms)",
            *(
                Panel("time of hosts (packets' times)", said, Sweep("host_delay_packets", reading, knob, looks=BOTH))
                for knob, reading, said in (
                    ("hosts", "first_loss_share", "share of flows that lose together, at first"),
                    ("hosts", "later_loss_share", "share of flows that lose together, later"),
                    ("hosts_of_one", "carried_mbit", "carried by a single flow (Mbit)"),
                )
            ),
        ),
        "knob_recovery": Picture(
            "Fifty flows, the first 40 round trips",
            Panel(
                "sender's recovery",
                "throughput (Mb/s, payload)",
                Bars("goodput_mbps", "recovery", "recovery", looks=BOTH),
            ),
            Panel(
                "pacing ratio in slow start (of window per round trip)",
                "throughput (Mb/s, payload)",
                Sweep("slow_start_ratio", "goodput_mbps", "ratio", looks=BOTH),
            ),
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
