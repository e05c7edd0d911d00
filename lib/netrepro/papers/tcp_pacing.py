"""TCP pacing: Aggarwal, Savage and Anderson, "Understanding the Performance of TCP Pacing", INFOCOM 2000.

A paced sender spreads its window evenly over a round trip instead of sending it in bursts. A single flow gains, since
bursts overflow a small buffer early. Of fifty flows that start together, all learn of the overflow late, and at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, Link, Queue, Red, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import (
    DROPPED_PACKETS,
    GOODPUT_OF_FLOWS,
    Check,
    Evidence,
    Gauge,
    Knob,
    Live,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first, jain, least_first, ratio
from netrepro.study.figures import Bars, Course, Level, Look, Mark, Panel, Picture, Published, Sweep, beside, plot
from netrepro.study.setting import parameter
from netrepro.style import new_figure, scheme

HEADER_BYTES = 66  # TCP with time stamps, IPv4, Ethernet
WINDOWS_MS = 10.0
SETTLED_ROUNDS = 100  # of a single flow: in the paper, paced senders are back at their sawtooth after about 90
PEAK_ROUNDS, FALL_ROUNDS = 20, 12  # rounds in which the windows' peak is sought, and then the least after it
INITIAL_ROUNDS = 40  # in which losses are at first, not later; figures have windows at every look, later every fifth
LOOKS_AHEAD = 12  # a little more than a round trip
MIXED_THINK_S = 1.0
CORE = ("s1", "s2")
PAYLOAD = "throughput (Mb/s, payload)"
LOSS_SHARES = ("first_loss_share", "later_loss_share")


@dataclass(frozen=True)
class Setting:
    """The paper's path and senders; the defaults are those of its single flow.

    paced : whether the flows labelled paced pace; `paced_share` : share of flows with this label. host_delay_packets :
    see Experiment; None for all papers' value, which is none for one flow, as in ns-2. starts_within_s : flows start at
    random in this time. size_packets : size of flows that end; every `every_s` each sender starts one, after a random
    time with a mean of a second. seconds : length of a run, 0 for the profile's. far_round_trip_ms : for the second
    half of the flows, over longer side links; 0 for the others' value. buffer_share : replaces `buffer_packets`, as a
    share of the path's own packets; 0 not to. many_s : greatest length of runs with several flows, 0 for that of runs
    with one. trips_s : length of runs with two round trips, and of their controls.
    """

    rate_mbps: float = parameter(5.0, "of the single flow's bottleneck", "Mb/s", low=0.1, high=1000)
    buffer_packets: int = parameter(25, "of the single flow's bottleneck", "packets", low=1, high=10_000)
    flows: int = 1
    paced: bool = False
    paced_share: float = 1.0
    core_delay_ms: float = parameter(40.0, "of the bottleneck, one way", "ms", low=0.1, high=1000)
    side_delay_ms: float = 5.0
    host_delay_packets: float | None = None
    far_round_trip_ms: float = 0.0
    packet_bytes: int = parameter(576, "on the wire", "bytes", low=100, high=9000)
    initial_window_segments: int = parameter(1, "of every flow", "segments", low=1, high=1000)
    min_rto_ms: float = parameter(200.0, "least variation in a retransmission timeout", "ms", low=1, high=10_000)
    delayed_ack_ms: float = 0.0
    recovery: str = "reno"
    slow_start_ratio: float = 1.0
    red: bool = False
    starts_within_s: float = 0.0
    size_packets: int = 0
    every_s: float = 15.0
    seconds: float = 0.0
    buffer_share: float = 0.0
    many_s: float = 0.0
    trips_s: float = 60.0

    @property
    def round_trip_ms(self) -> float:
        """The round trip of an empty path (ms), which is the figures' unit of time."""
        return 2 * (self.core_delay_ms + 2 * self.side_delay_ms)

    def round_trip_of(self, flow: int) -> float:
        """Return this flow's round trip over an empty path (ms). The second half of the flows are the far ones."""
        return self.far_round_trip_ms if self.far_round_trip_ms and flow >= self.flows / 2 else self.round_trip_ms

    @property
    def path_packets(self) -> float:
        """The packets that the path itself holds: rate times round trip."""
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms, self.packet_bytes)

    @property
    def queue_packets(self) -> int:
        """The bottleneck's buffer in packets, from `buffer_share` or `buffer_packets`."""
        return max(1, round(self.buffer_share * self.path_packets)) if self.buffer_share else self.buffer_packets

    @property
    def segment_bytes(self) -> int:
        """The payload of a packet (bytes)."""
        return self.packet_bytes - HEADER_BYTES


def _queue(setting: Setting) -> Queue:
    packets = setting.queue_packets
    if not setting.red:
        return DropTail(packets=packets)
    variant = "linux" if setting.recovery == "linux" else "floyd1993"  # that of the senders: Linux's or ns-2's
    return Red(packets, 5, 0.9 * packets, max_probability=0.02, variant=variant)  # the best in the paper


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
        pacing_ratio=1.0,
        unpaced_segments=0,
        recovery=setting.recovery,
        counts="acknowledgements",
    )


def _flows(setting: Setting, seconds: float, seed: int) -> list[Flow]:
    random = np.random.default_rng([seed, setting.flows])
    tcp, size_bytes = _tcp(setting), setting.size_packets * setting.segment_bytes
    paced = round(setting.paced_share * setting.flows)
    begins_s = np.arange(0.0, seconds - setting.every_s + 1e-9, setting.every_s) if size_bytes else [0.0]
    flows = []
    for begin_s in begins_s:
        starts_s = begin_s + random.uniform(0, setting.starts_within_s, setting.flows)
        if size_bytes:
            starts_s = begin_s + random.exponential(MIXED_THINK_S, setting.flows).clip(max=setting.every_s / 2)
        for place, start_s in enumerate(starts_s.tolist()):
            lasts: dict[str, Any] = {"size_bytes": size_bytes} if size_bytes else {"duration_s": seconds - start_s}
            ends, is_paced = (f"h{place + 1}", f"h{setting.flows + place + 1}"), place < paced
            own = replace(tcp, pacing=setting.paced and is_paced)
            flows.append(Flow(*ends, **lasts, start_s=start_s, label="paced" if is_paced else "reno", tcp=own))
    return flows


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment on the dumbbell, whose side links are four times as fast as the bottleneck. All packets have
    the paper's size.

    Raises NetreproError for far flows that are nearer than the others, and for runs that end before flows start.
    """
    if setting.many_s and setting.flows > 1:
        seconds = min(seconds, setting.many_s)
    seconds = setting.seconds or seconds
    if 0 < setting.far_round_trip_ms < setting.round_trip_ms:
        problem = f"far flows at {setting.far_round_trip_ms:g} ms"
        raise NetreproError(problem, f"give {setting.round_trip_ms:g}, the round trip of the others, or more")
    longer_ms = [(setting.round_trip_of(flow) - setting.round_trip_ms) / 4 for flow in range(setting.flows)]
    sides = [Link(4 * setting.rate_mbps, setting.side_delay_ms + more_ms) for more_ms in longer_ms]
    network = dumbbell(setting.flows, sides, Link(setting.rate_mbps, setting.core_delay_ms, _queue(setting)))
    look = Measure(windows_interval_ms=None if setting.size_packets else WINDOWS_MS)
    flows = tuple(_flows(setting, seconds, seed))
    return Experiment(network, flows, seconds, seed, look, host_delay_packets=setting.host_delay_packets)


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


# Figures.


def draw_idea() -> Figure:
    """Draw one window of eight packets in a round trip, sent as acknowledgements arrive, and paced, with the queue of
    each."""
    names = ["Reno: in a burst", "paced: evenly"]
    figure, axes = drawing.panels("The same window, and the queue it makes (not to scale)", "", "", names)
    times = np.linspace(0, 10, 401)
    for axis, look, sent in zip(axes, (RENO, PACED_LOOK), (np.arange(8) * 0.25, np.arange(8) * 1.25), strict=True):
        ahead = np.searchsorted(sent, times, side="right") - times  # a slower link takes one packet in each unit
        queue = ahead - np.minimum.accumulate(np.minimum(ahead, 0))
        axis.vlines(sent, 0, 1, color=look["color"], linewidth=3)
        axis.fill_between(times, -queue / 4, 0, color="#999999", alpha=0.6)
        axis.text(9.9, 1.12, "packets sent", ha="right")
        axis.text(9.9, -0.9, "queue at a slower link", ha="right")
        axis.set(xlim=(-0.3, 10), ylim=(-1.8, 1.4), xlabel="time (tenths of a round trip)", yticks=[])
        axis.grid(False)
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the dumbbell, with the fifty flows' rate and buffer."""
    return drawing.draw_network(
        experiment(STUDY.case("fifty reno", setting), 10.0, 1), "Fifty senders, one bottleneck (packets of 576 bytes)"
    )


def throughput(runs: Runs) -> pd.DataFrame:
    """Compute throughputs over time from the carried_mbit of the knob `course`: so_far_mbps, from the start on, and
    second_mbps, since the row before."""
    rows = runs.knobs["course"].sort_values(["case", "seconds"])
    since = rows.groupby("case")[["seconds", "carried_mbit"]].diff().fillna(rows[["seconds", "carried_mbit"]])
    return rows.assign(so_far_mbps=rows.carried_mbit / rows.seconds, second_mbps=since.carried_mbit / since.seconds)


def _course(title: str, reading: str, cases: str) -> Panel:
    style = {"marker": "", "drawstyle": "default" if reading == "so_far_mbps" else "steps-pre"}
    looks = {cases.format(sender): look | style for sender, look in BOTH.items()}
    return Panel("time (s)", PAYLOAD, Sweep("seconds", reading, throughput, looks=looks), title=title)


def _windows(cases: Mapping[str, Look], rounds: float, *marks: Mark, title: str = "", tiers: bool = False) -> Panel:
    course = Course("windows", "packets", cases, x="rounds", rows=f"rounds <= {rounds}", tiers=tiers)
    return Panel("time (round trips)", "sum of windows (packets)", course, *marks, title=title)


def _holds(runs: Runs) -> float:
    setting = runs.study.case("fifty reno", runs.setting)
    return setting.path_packets + setting.queue_packets


def gain(runs: Runs) -> pd.DataFrame:
    """Compute how much pacing adds to the throughput (percent): a row for each buffer (as a share of the path's own
    packets) and path (packets)."""
    rows = runs.knobs["buffer"]
    means = rows.pivot_table(index=["rate_mbps", "buffer_share"], columns="case", values="carried_mbit")
    table = (100 * (means["paced"] / means["reno"] - 1)).rename("gain_percent").reset_index()
    paths = [replace(runs.setting, rate_mbps=rate).path_packets for rate in table.rate_mbps]
    return table.assign(path_packets=np.round(paths))


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw all windows of one run over time."""
    total = run.windows.groupby("time_s").window_bytes.sum() / 1e3
    goodput = float(run.flows.delivered_bytes.sum()) * 8e-6 / run.experiment.duration_s
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


RENO = {"color": scheme("reno").colour, "label": "Reno"}
PACED_LOOK = {"color": scheme("tcp").colour, "label": "paced"}
BOTH: dict[str, dict[str, Any]] = {"reno": RENO, "paced": PACED_LOOK}
STAGGERED = {"color": scheme("control").colour, "label": "paced, start within 10 s"}
OF_FIFTY = {"fifty reno": RENO, "fifty paced": PACED_LOOK}
FIFTY: dict[str, Any] = {"flows": 50, "rate_mbps": 57.0, "buffer_packets": 312}
FIRST, ROUNDS_150 = {"seconds": 4.0}, {"seconds": 15.0}
INITIAL = {"seconds": 2.8}  # 28 round trips: twice the time of the collapse in Fig. 8
PACED, RED, DEEP = {"paced": True}, {"red": True}, {"buffer_packets": 108}
MIX: dict[str, Any] = {"flows": 20, "rate_mbps": 25.0, "buffer_share": 0.25, "paced_share": 0.1}
SHORT = MIX | {"size_packets": 300, "every_s": 15.0, "seconds": 150.0}
MIXED = MIX | {"size_packets": 5000, "every_s": 120.0, "seconds": 120.0}
TRIPS: dict[str, Any] = {"flows": 50, "rate_mbps": 20.0, "buffer_packets": 312}
TRIPS |= {"seconds": lambda setting: setting.trips_s}
CLASS = {"packet_bytes": 1514, "initial_window_segments": 10, "recovery": "linux", "delayed_ack_ms": 40.0}
CLASS |= {"flows": 5, "rate_mbps": 5.0}
COURSE_S = swept(*(float(second) for second in range(1, 31)))
UNTIL_20_S = {"seconds": swept(*COURSE_S.values[:20])}


def _senders(changes: dict[str, Any], name: str = "{}") -> dict[str, dict[str, Any]]:
    """Make a case for Reno and one for paced senders; "{}" in the name stands for "reno" and "paced"."""
    return {name.format("reno"): changes, name.format("paced"): PACED | changes}


CASES: dict[str, dict[str, Any]] = {
    **_senders({}),
    **_senders(ROUNDS_150, "{}, 150 round trips"),
    **_senders(DEEP | ROUNDS_150, "{}, deep buffer, 150 round trips"),
    **_senders(FIFTY, "fifty {}"),
    **_senders(FIFTY | RED, "fifty {}, RED"),
    "fifty paced, random starts": FIFTY | PACED | {"starts_within_s": 10.0},
    **_senders(FIFTY | INITIAL, "fifty {}, at first"),
    **_senders(FIFTY | RED | INITIAL, "fifty {}, RED, at first"),
    **_senders(TRIPS | {"far_round_trip_ms": 280.0}, "two round trips {}"),
    **_senders(TRIPS, "one round trip {}"),
    "mixed, two paced": MIXED | PACED,
    "mixed, none paced": MIXED,
}


def _pair(name: str) -> tuple[str, str]:
    return name.format("reno"), name.format("paced")


TWO_TRIPS, ONE_TRIP = _pair("two round trips {}"), _pair("one round trip {}")
TRIPS_AND_CONTROLS = {
    name: dict(zip(pair, BOTH.values(), strict=True))
    for name, pair in (("100 and 280 ms", TWO_TRIPS), ("all 100 ms", ONE_TRIP))
}


def _knob(cases: dict[str, dict[str, Any]], seconds: float, repetitions: int = 3) -> Knob:
    return Knob(cases, Scale(seconds), repetitions, quick=Scale(seconds, repetitions=2))


RENO_FIRST, PACED_FIRST = greatest_first("reno", "paced"), greatest_first("paced", "reno")
LIVE = Live(
    {
        "goodput_mbps": Gauge("goodput", "Mb/s", GOODPUT_OF_FLOWS),
        "dropped_share": DROPPED_PACKETS,
    },
    {"table": "windows", "column": "window_bytes", "times": 1e-3},
    "window of a flow (kB)",
    {"buffer_packets": (5, 10, 25, 50, 100, 250, 500, 1000), "slow_start_ratio": (1.0, 1.5, 2.0, 3.0, 4.0)}
    | {"recovery": ("reno", "newreno", "sack", "linux")},
    lambda _: CORE,
    cases=("reno", "paced"),
    broken={"paced": "reno"},
)
STUDY = Study(
    slug="tcp_pacing",
    setting=Setting(),
    repetitions=10,
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    profiles={
        "quick": Scale(30.0, changes={"many_s": 20.0}, fewer=dict.fromkeys((*TWO_TRIPS, *ONE_TRIP), 5)),
        "paper": Scale(120.0),
    },
    on_virtual={  # Linux's senders; in the simulator beside them, too
        "quick": Scale(
            20.0,
            repetitions=2,
            changes={"recovery": "linux", "many_s": 12.0, "trips_s": 30.0},
            without=("fifty paced, random starts",),
        ),
        "paper": Scale(60.0, changes={"recovery": "linux"}),
    },
    claims={
        "reno-leaves-slow-start": Evidence("exit_packets", "reno", control="paced"),
        "paced-leaves-slow-start": Evidence("exit_packets", "paced", control="reno"),
        "sawtooth-top": Evidence("top_packets", ("reno", "paced"), how=lambda *tops: sum(tops) / 2),
        "single-flow-gain": Evidence(
            "carried_mbit",
            _pair("{}, 150 round trips")[::-1],
            control=_pair("{}, deep buffer, 150 round trips")[::-1],
            how=PACED_FIRST,
        ),
        "paced-peak-of-fifty": Evidence("peak_packets", "fifty paced", control="fifty reno"),
        "paced-collapse-of-fifty": Evidence("least_packets", "fifty paced", control="fifty paced, random starts"),
        "reno-peak-of-fifty": Evidence("peak_packets", "fifty reno", control="fifty paced"),
        "reno-better-at-first": Evidence(
            "carried_mbit",
            _pair("fifty {}, at first"),
            control=_pair("fifty {}, RED, at first"),
            how=RENO_FIRST,
        ),
        "paced-flows-lose-together": Evidence(
            "first_loss_share", _pair("fifty {}")[::-1], ("fifty paced, RED", "fifty reno"), PACED_FIRST
        ),
        "paced-flows-lose-apart-later": Evidence(
            "later_loss_share", _pair("fifty {}"), ("fifty reno, RED", "fifty paced"), RENO_FIRST
        ),
        "paced-among-reno": Evidence("latency_ratio", "mixed, two paced", control="mixed, none paced"),
        "mixed-round-trips-fairness": Evidence("fairness", TWO_TRIPS, control=ONE_TRIP, how=RENO_FIRST),
        "mixed-round-trips-drops": Evidence(
            "dropped_share", TWO_TRIPS[::-1], control=ONE_TRIP[::-1], how=least_first("paced", "reno")
        ),
        "mixed-round-trips-throughput": Evidence("goodput_mbps", TWO_TRIPS[::-1], how=ratio),
    },
    knobs={
        "course": Knob(
            {
                **_senders({"seconds": COURSE_S}),
                **_senders(FIFTY | UNTIL_20_S, "fifty {}"),
                **_senders(CLASS | UNTIL_20_S | {"buffer_packets": 1000}, "class {}"),
                **_senders(CLASS | UNTIL_20_S | {"buffer_packets": 10}, "class {}, small buffer"),
            },
            Scale(40.0),
            quick=Scale(40.0, only={"seconds": COURSE_S.values[1::2]}),
        ),
        "buffer": Knob(
            _senders(
                ROUNDS_150 | {"rate_mbps": swept(2.0, 5.0, 20.0), "buffer_share": swept(0.1, 0.25, 0.5, 1.0, 2.0)}
            ),
            Scale(15.0),
        ),
        "recovery": _knob(
            _senders(FIFTY | FIRST | {"recovery": swept("tahoe", "reno", "newreno", "sack", "linux")}), 4.0
        ),
        "hosts": _knob(_senders(FIFTY | {"host_delay_packets": swept(0.0, 1.0, 4.0, 12.0)}), 20.0),
        "hosts_of_one": _knob(_senders(ROUNDS_150 | {"host_delay_packets": swept(0.0, 0.05, 0.25, 0.5, 1.0)}), 15.0, 5),
        "mix": _knob(
            {
                name: changes | PACED | {"paced_share": swept(0.1, 0.3, 0.5, 0.7, 0.9)}
                for name, changes in (("5000 packets", MIXED), ("300 packets", SHORT))
            },
            120.0,
        ),
        "ratio": _knob(
            {"paced": FIFTY | PACED | FIRST | {"slow_start_ratio": swept(1.0, 1.25, 1.5, 2.0, 3.0, 4.0)}}, 4.0
        ),
    },
    figures={
        "fig3_throughput": Picture(
            "A single flow, 5 Mb/s, buffer of 25 packets (Fig. 3)",
            _course("cumulative, as published", "so_far_mbps", "{}"),
            _course("in each second, as iperf3 shows it", "second_mbps", "{}"),
        ),
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
        "fig6_throughput_of_fifty": Picture(
            "Fifty flows, 57 Mb/s, buffer of 312 packets (Fig. 6)",
            _course("cumulative, as published", "so_far_mbps", "fifty {}"),
            _course("in each second, as iperf3 shows it", "second_mbps", "fifty {}"),
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
                "dropped_share": "dropped packets (share)",
                "goodput_mbps": PAYLOAD,
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
        "class_throughput": Picture(
            "The class's five flows, in each second",
            _course("buffer of 1000 packets", "second_mbps", "class {}"),
            _course("buffer of a quarter of the path (10 packets)", "second_mbps", "class {}, small buffer"),
        ),
        "tiers_windows": Picture(
            "The kernel and the simulator",
            _windows(BOTH, 250, title="one flow", tiers=True),
            _windows(OF_FIFTY, 80, title="fifty flows", tiers=True),
        ),
        "control": Picture(
            "Broken on purpose",
            _windows({"fifty paced": PACED_LOOK, "fifty paced, random starts": STAGGERED}, 150, title="random starts"),
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
            Panel("sender's recovery", PAYLOAD, Bars("goodput_mbps", "recovery", "recovery", looks=BOTH)),
            Panel(
                "pacing ratio in slow start (of window per round trip)",
                PAYLOAD,
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
        live=LIVE,
    ),
)
