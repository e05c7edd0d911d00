"""Receivers that acknowledge dishonestly: Savage, Cardwell, Wetherall, Anderson, "TCP Congestion Control with a
Misbehaving Receiver", CCR 1999.

A sender's window grows with every acknowledgement, so the receiver controls it. A receiver gets its document sooner if
it acknowledges each segment in pieces (ACK division), repeats acknowledgements (duplicate-ACK spoofing), or
acknowledges data that have not come yet (optimistic acknowledgements).

In virtual time the sender is a real Linux kernel, and the receiver a program that writes its own packets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.applications.misbehaving_receiver.run import ReceivingClient, fetch
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, Link
from netrepro.networks.receivers import AckDivision, DuplicateSpoofing, OptimisticAck, Receiver
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.programs import why_missing
from netrepro.study import VIRTUAL, Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.evidence import least_first
from netrepro.study.figures import Bars, Course, Level, Panel, Picture, Published, Sweep, plot
from netrepro.study.measuring import run_experiment
from netrepro.study.setting import parameter
from netrepro.style import CURVES, new_figure, scheme

BOTTLENECK = ("s1", "s2")
NO_DATA_BYTES = 100  # packets up to this size carry no data
SEGMENT_BYTES = 1460
RECEIVERS = ("honest", "division", "spoofing", "optimistic")
EXAMPLE = (487, 973, 1461)  # the acknowledgements of bytes 1 to 1460 in the paper's example
PIECES = (1, 2, 3, 4, 5, 8, 10, 20)
PUBLISHED_MS = {"honest": 530, "division": 220, "spoofing": 220}  # last data, read off Figs 4 and 5
NO_SACK = "linux without sack"
# What the sender counts -> the kernel's variant of Reno that counts it. Linux counts whole segments, never bytes.
KERNEL_CONTROLS = {"acknowledgements": "piece_counting", "bytes": "reno", "segments": "reno"}
PLENTY = DropTail(packets=100_000)  # for return paths, where only acknowledgements wait, and for hosts


@dataclass(frozen=True)
class Setting:
    """A document that a client fetches over one bottleneck, from a sender of 1999.

    Document and segment size are published. The round trip is read off the figures, and drawn for every seed within
    `round_trip_spread_ms`; the figures' six rounds imply an initial window of one segment. Our choices are the rate and
    the strength of attacks: `pieces` of a segment, `copies` of an acknowledgement, `ack_interval_ms` between the
    acknowledgements of two segments.

    first_only : a spoofer repeats only its first acknowledgement. rival : an endless transfer instead of the document,
    beside one to an honest receiver. jitter_ms : variation of a sender's link delay, so that two flows do not
    synchronise. recovery : see Tcp; or NO_SACK, Linux's with a receiver that offers no SACK. nonce : the sender has the
    paper's cumulative nonce. boundary_spread_bytes : see Tcp.
    """

    document_bytes: int = parameter(60_000, "what the client fetches", "bytes", low=1461, high=100_000_000)
    round_trip_ms: float = parameter(72.0, "of the path, without queues", "ms", low=6, high=10_000)
    round_trip_spread_ms: float = 2.5
    rate_mbps: float = parameter(100.0, "of the path", "Mb/s", low=0.1, high=10_000)
    buffer_packets: int = 500
    initial_window_segments: int = 1
    receiver: str = "honest"
    pieces: int = parameter(50, "in which a divider acknowledges each segment", low=1, high=1460)
    copies: int = parameter(50, "of an acknowledgement that a spoofer repeats", low=1, high=10_000)
    first_only: bool = False
    ack_interval_ms: float = parameter(
        5.0, "between optimistic acknowledgements of a segment each", "ms", low=0.01, high=1000
    )
    counts: str = "acknowledgements"
    recovery: str = "reno"
    congestion_control: str = "reno"
    rival: bool = False
    jitter_ms: float = 0.0
    nonce: bool = False
    boundary_spread_bytes: int = 0

    @property
    def sack(self) -> bool:
        """True where both ends have SACK."""
        return self.recovery in ("sack", "linux")

    @property
    def how_many(self) -> float:
        """The parameter of the receiver's attack: pieces, copies, or milliseconds between acknowledgements; 0 for other
        receivers."""
        return {"division": self.pieces, "spoofing": self.copies, "optimistic": self.ack_interval_ms}.get(
            self.receiver, 0
        )


def receiver_of(setting: Setting) -> Receiver | None:
    """Return the receiver that the setting names; None for an honest one."""
    if setting.receiver == "division":
        return AckDivision(setting.pieces)
    if setting.receiver == "spoofing":
        return DuplicateSpoofing(setting.copies, setting.first_only)
    if setting.receiver == "optimistic":
        return OptimisticAck(SEGMENT_BYTES * 8e-3 / setting.ack_interval_ms)
    return None


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: h1 sends to the client behind s2. With `rival`, h2 sends to an honest receiver, and both
    send until the end."""
    spread_ms = setting.round_trip_spread_ms
    round_trip_ms = setting.round_trip_ms + Random(seed).uniform(-spread_ms, spread_ms)
    tcp = Tcp(
        setting.congestion_control,
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=SEGMENT_BYTES,
        delayed_ack_ms=0,
        sack=setting.sack,
        tail_loss_probe=False,
        recovery="linux" if setting.recovery == NO_SACK else setting.recovery,
        counts=setting.counts,
        cumulative_nonce=setting.nonce,
        boundary_spread_bytes=setting.boundary_spread_bytes,
    )
    pressing = replace(tcp, receiver=receiver_of(setting))
    access = Link(100 * setting.rate_mbps, 0.01, PLENTY)
    towards, back = (
        Link(setting.rate_mbps, round_trip_ms / 2 - 0.02, queue)
        for queue in (DropTail(packets=setting.buffer_packets), PLENTY)
    )
    flows = [Flow("h1", "h2", setting.document_bytes, tcp=pressing)]
    if setting.rival:
        starts_s = [Random(seed + place).uniform(0, 1) for place in range(2)]
        flows = [
            Flow(f"h{place + 1}", f"h{place + 3}", duration_s=seconds - start_s, start_s=start_s, tcp=how)
            for place, (start_s, how) in enumerate(zip(starts_s, (pressing, tcp), strict=True))
        ]
    pairs = range(1, 1 + len(flows))
    cables = [Cable(f"h{pair}", "s1", replace(access, jitter_ms=setting.jitter_ms), access) for pair in pairs]
    cables += [Cable(f"h{len(flows) + pair}", "s2", access) for pair in pairs]
    net = Topology((*cables, Cable(*BOTTLENECK, towards, back)), "one bottleneck")
    return Experiment(net, tuple(flows), seconds, seed, Measure(packets=(BOTTLENECK,)), tcp)


def arrivals(run: Measurements) -> pd.DataFrame:
    """Return data packets of the first flow as the client sees them: time_ms since its SYN, as if it had opened the
    connection and then asked, and kilobytes so far, including retransmissions."""
    data = run.packets[(run.packets.size_bytes > NO_DATA_BYTES) & (run.packets.flow == 0)]
    header_bytes = data.size_bytes.max() - SEGMENT_BYTES
    time_ms = data.time_s * 1e3 + 2 * run.experiment.topology.link(*BOTTLENECK).delay_ms
    return pd.DataFrame({"time_ms": time_ms, "kilobytes": (data.size_bytes - header_bytes).cumsum() / 1e3})


def read(run: Measurements, setting: Setting) -> Reading:
    """Read one run. For a document: last_data_ms (since the client's SYN; NaN if never complete), segments of the
    second round, segments sent again, packets dropped, and the table `course`. With a rival: the first flow's share of
    goodput, and the goodput_mbps of both together."""
    flow, one_way_ms = run.flows.iloc[0], run.experiment.topology.link(*BOTTLENECK).delay_ms
    if setting.rival:
        together = run.flows.delivered_bytes.sum()
        goodput_mbps = float(together * 8e-6 / run.experiment.duration_s)
        return Reading({"goodput_share": float(flow.delivered_bytes / together), "goodput_mbps": goodput_mbps})
    dropped = int(run.links_by_port.dropped_packets.loc[[BOTTLENECK]].sum())
    numbers = {
        "last_data_ms": float(flow.completion_ms) + one_way_ms,
        "sent_again": int(flow.retransmitted_packets),
        "dropped_packets": dropped,
    }
    complete = Check("document complete", float(not np.isnan(flow.completion_ms)), at_least=1)
    return Reading(numbers, checks=[] if dropped else [complete]) | _course(arrivals(run), 2 * one_way_ms)


def _course(course: pd.DataFrame, round_trip_ms: float) -> Reading:
    rounds = np.round((course.time_ms - course.time_ms.min()) / round_trip_ms)
    return Reading({"second_round_segments": int((rounds == 1).sum())}, {"course": course})


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Measure one run with `read` or, on the virtual kernel, with `read_kernel`."""
    if tier == VIRTUAL:
        return read_kernel(setting, seconds, seed)
    run = run_experiment(experiment(setting, seconds, seed), tier)
    return replace(read(run, setting), fidelity=run.fidelity)


def read_kernel(setting: Setting, seconds: float, seed: int) -> Reading:
    """Measure a document's readings as in `read`, with a real Linux sender and a client program. It does not measure
    dropped packets. `cannot` says what this tier cannot run."""
    asked = experiment(setting, seconds, seed)
    tcp = Tcp("reno", initial_window_segments=setting.initial_window_segments, sack=setting.sack, tail_loss_probe=False)
    control = KERNEL_CONTROLS[setting.counts] if setting.congestion_control == "reno" else setting.congestion_control
    receiver = "first spoofing" if setting.receiver == "spoofing" and setting.first_only else setting.receiver
    client = ReceivingClient(receiver, setting.how_many, SEGMENT_BYTES, setting.sack)
    size_bytes, route = setting.document_bytes, ("h2", "s2", "s1", "h1")
    packets, counted = fetch(asked.topology, route, client, size_bytes, control, tcp, seconds=seconds, seed=seed)
    kilobytes = packets.size_bytes.cumsum() / 1e3
    course = pd.DataFrame({"time_ms": packets.time_s * 1e3, "kilobytes": kilobytes})
    whole_s, held = completion_s(packets, size_bytes)
    complete = Check("document complete", held / size_bytes, at_least=1)
    reading = Reading({"last_data_ms": whole_s * 1e3, **counted}, checks=[complete])
    return reading | _course(course, 2 * asked.topology.link(*BOTTLENECK).delay_ms)


def completion_s(packets: pd.DataFrame, size_bytes: int) -> tuple[float, int]:
    """Find the time when the whole document has come (s; NaN if never), and how many of its bytes came in the end.

    packets : time_s, size_bytes, start_bytes; in order of time.
    """
    missing = np.ones(size_bytes, bool)
    left = size_bytes
    for time_s, size, start in packets.itertuples(index=False):
        left -= int(missing[start : start + size].sum())
        missing[start : start + size] = False
        if not left:
            return float(time_s), size_bytes
    return float("nan"), size_bytes - left


def cannot(setting: Setting, tier: str) -> str:
    """Return why a tier cannot run a setting, or ""."""
    if tier != VIRTUAL:
        return ""
    if setting.rival:
        return "two flows at once, of which the client in user space has one only"
    if setting.nonce:
        return "cumulative_nonce = True: no kernel's segments bear nonces"
    if setting.boundary_spread_bytes:
        return f"boundary_spread_bytes = {setting.boundary_spread_bytes}: no kernel varies where its segments end"
    if setting.receiver == "spoofing" and setting.recovery not in ("sack", "linux", NO_SACK):
        return (
            f"recovery = {setting.recovery!r} is how a sender of 1999 took duplicates; kernels of today are Linux's, "
            "which the cases of Linux show"
        )
    return why_missing("ip")


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """Compute how much sooner (ms) than an honest receiver each of the others has the document: a row for each sender,
    a column for each receiver."""
    times = table.pivot_table(index="case", columns="receiver", values="last_data_ms", sort=False)
    return pd.DataFrame({name: times.honest - times[name] for name in RECEIVERS[1:]})


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    ends = runs.summary().last_data_ms.groupby(level="case", sort=False).first()
    spoofing = "spoofing" if "spoofing" in ends else f"{LINUX}, spoofing"
    whose = "" if spoofing == "spoofing" else " (from Linux of today)"
    counted = "whole segments" if runs.tier == VIRTUAL else "bytes"
    return (
        f"By how it acknowledges: the last data come {ends['division']:.0f} ms after the start with segments "
        f"acknowledged in pieces, after {ends[spoofing]:.0f} with spoofed duplicates{whose} and after "
        f"{ends['optimistic']:.0f} with optimistic acknowledgements, where an honest receiver waits "
        f"{ends['honest']:.0f}; of a sender that counts {counted} pieces bring nothing "
        f"({ends['division, bytes counted']:.0f})."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw the paper's example: one segment, acknowledged at once or in three pieces, and the round that follows."""
    figure, axes = drawing.panels("One segment, acknowledged once or in three pieces", "", "", ["honest", "in pieces"])
    for axis, acknowledgements in zip(axes, (EXAMPLE[-1:], EXAMPLE), strict=True):
        _draw_ladder(axis, acknowledgements)
    return figure


def _draw_ladder(axis: Axes, acknowledgements: Sequence[int]) -> None:
    def arrow(start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": colour})

    arrow((0, 0), (1, -1), scheme("tcp").colour)
    axis.text(0.3, -0.15, "1 to 1460", color=scheme("tcp").colour)
    for place, number in enumerate(acknowledgements):
        arrow((1, -1 - 0.25 * place), (0, -2 - 0.25 * place), CURVES[6])
        axis.text(1.03, -1.04 - 0.25 * place, f"ACK {number}", color=CURVES[6])
    for place in range(1 + len(acknowledgements)):
        arrow((0, -2.1 - 0.25 * place), (1, -3.1 - 0.25 * place), scheme("tcp").colour)
    axis.text(0.5, -4.25, f"{1 + len(acknowledgements)} segments", color=scheme("tcp").colour, ha="center")
    axis.text(0, 0.1, "sender", ha="center")
    axis.text(1, 0.1, "receiver", ha="center")
    axis.set(xlim=(-0.2, 1.5), ylim=(-4.4, 0.3))
    axis.axis("off")


def draw_network(setting: Setting) -> Figure:
    """Draw a sender, a path, a client."""
    asked = experiment(replace(setting, round_trip_spread_ms=0.0), 1.0, 1)
    return drawing.draw_network(asked, "A client fetches a document over a long path")


def _course_of(case: str, title: str, **also: dict[str, Any]) -> Picture:
    """Show the time-sequence picture of a receiver and of an honest one, with the published times of their last
    data."""
    looks: dict[str, dict[str, Any]]
    looks = {"honest": HONEST | {"marker": "o"}, case: {"label": case, "color": CURVES[6], "marker": "s"}, **also}
    levels = [
        Level(PUBLISHED_MS[name], f"{name}, published ({{}} ms)", upright=True)
        for name in ("honest", case)
        if name in PUBLISHED_MS
    ]
    dots = {name: look | {"linestyle": "", "markersize": 4} for name, look in looks.items()}
    x, y = "time since the client's SYN (ms)", "data so far, also sent again (kB)"
    return plot(title, x, y, Course("course", "kilobytes", dots, x="time_ms"), *levels, x_range=(100, None))


def _control(attack: str, mended: str) -> Panel:
    looks = HONEST, {"label": "attacking", "color": CURVES[6]}
    senders = {"of 1999": ("honest", attack), mended: (f"honest, {mended}", f"{attack}, {mended}")}
    bars = {sender: dict(zip(cases, looks, strict=True)) for sender, cases in senders.items()}
    return Panel("sender", LAST_DATA, Bars("last_data_ms", bars), title=attack)


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the time-sequence picture of one run."""
    course = reading["course"]
    title = f"{case}: last data after {course.time_ms.max():.0f} ms"
    figure, axis = new_figure(title, "time since the client's SYN (ms)", "data so far (kB)")
    axis.plot(course.time_ms, course.kilobytes, "s", color=CURVES[6], markersize=4)
    axis.set_ylim(0, None)
    return figure


HONEST = {"label": "honest", "color": scheme("tcp").colour}
LAST_DATA = "last data (ms)"
GROWTH, LINUX, WITHOUT = "growth", "Linux", "Linux without SACK"
TODAY = {"congestion_control": "cubic", "recovery": "linux", "counts": "segments"}
BYTES, SACK, NONCE = {"counts": "bytes"}, {"recovery": "sack"}, {"nonce": True}
VARIED, VARY = "varied segments", {"boundary_spread_bytes": 14}  # 15 places, as the class of 2016 had
ONCE = {"receiver": "spoofing", "first_only": True}  # deduced from the one segment that Fig. 5 shows twice
CASES: dict[str, dict[str, Any]] = {
    **{name: {"receiver": name} for name in RECEIVERS},
    "spoofing": ONCE,
    "honest, bytes counted": BYTES,
    "division, bytes counted": BYTES | {"receiver": "division"},
    "honest, SACK": SACK,
    "spoofing, SACK": SACK | ONCE,
    "honest, nonce": NONCE,
    "optimistic, nonce": NONCE | {"receiver": "optimistic"},
    f"honest, {VARIED}": VARY,
    f"optimistic, {VARIED}": VARY | {"receiver": "optimistic"},
    GROWTH: {"receiver": "division", "pieces": swept(*PIECES)},
    f"{GROWTH}, bytes counted": BYTES | {"receiver": "division", "pieces": swept(*PIECES)},
    **{f"{LINUX}, {name}": TODAY | {"receiver": name} for name in RECEIVERS},
    **{f"{WITHOUT}, {name}": TODAY | {"recovery": NO_SACK, "receiver": name} for name in RECEIVERS},
}
SENDERS: dict[str, dict[str, Any]] = {
    "Tahoe, counts acknowledgements": {"recovery": "tahoe"},
    "Reno, counts acknowledgements": {},
    "NewReno, counts acknowledgements": {"recovery": "newreno"},
    "SACK, counts acknowledgements": SACK,
    "Reno, counts bytes": BYTES,
    "SACK, counts bytes": SACK | BYTES,
    "SACK, counts bytes, nonce": SACK | BYTES | NONCE,
    "SACK, counts bytes, ends at 2 places": SACK | BYTES | {"boundary_spread_bytes": 1},
    "SACK, counts bytes, ends at 15 places": SACK | BYTES | VARY,
    "Linux (SACK, PRR), counts segments": {"recovery": "linux", "counts": "segments"},
}
SHARED = {"rival": True, "rate_mbps": 20.0, "round_trip_ms": 40.0, "buffer_packets": 60, "jitter_ms": 4.0}
RIVAL_SENDERS = [
    name for name in SENDERS if not name.startswith(("Tahoe", "Reno")) and not name.endswith(("nonce", "places"))
]
BUFFERS = (4, 8, 16, 32, 64, 128)
ENOUGH_S = 60.0  # for a document that needs timeouts; a run ends with its document


def sooner(attacking: float, honest: float) -> float:
    """Compute how much earlier the last data come to the attacker (ms)."""
    return honest - attacking


STUDY = Study(
    slug="misbehaving_receiver",
    setting=Setting(),
    cases=CASES,
    measure_one=measure_one,
    cannot=cannot,
    answer=answer,
    scales={
        **dict.fromkeys(("test", "quick", "paper"), Scale(ENOUGH_S)),
        ("quick", VIRTUAL): Scale(10.0, repetitions=3),
        ("paper", VIRTUAL): Scale(10.0),
    },
    claims={
        "growth-by-division": Evidence("second_round_segments", GROWTH, control=f"{GROWTH}, bytes counted"),
        "division-saves": Evidence(
            "last_data_ms",
            ("division", "honest"),
            control=("division, bytes counted", "honest, bytes counted"),
            how=sooner,
        ),
        "spoofing-saves": Evidence(
            "last_data_ms", ("spoofing", "honest"), control=("spoofing, SACK", "honest, SACK"), how=sooner
        ),
        "spoofing-sends-again": Evidence("sent_again", "spoofing", control="spoofing, SACK"),
        "normal-end": Evidence("last_data_ms", "honest"),
        "optimistic-is-faster": Evidence(
            "last_data_ms",
            ("optimistic", "honest"),
            control=("optimistic, nonce", "honest, nonce"),
            how=least_first("optimistic", "honest"),
        ),
        "boundaries-stop-optimism": Evidence(
            "last_data_ms",
            (f"honest, {VARIED}", f"optimistic, {VARIED}"),
            control=("honest", "optimistic"),
            how=least_first("honest", "optimistic"),
        ),
    },
    knobs={
        "senders": Knob(
            {name: how | {"receiver": swept(*RECEIVERS)} for name, how in SENDERS.items()}, Scale(ENOUGH_S)
        ),
        "buffer": Knob(
            {
                f"{receiver}, {name}": {"receiver": receiver, "recovery": recovery, "buffer_packets": swept(*BUFFERS)}
                for receiver, name, recovery in (
                    ("honest", "Reno", "reno"),
                    ("division", "Reno", "reno"),
                    ("division", "SACK", "sack"),
                    ("spoofing", "Reno", "reno"),
                )
            },
            Scale(ENOUGH_S),
        ),
        "rivals": Knob(
            {
                name: SHARED | SENDERS[name] | {"receiver": "division", "pieces": swept(1, 2, 3, 5, 10)}
                for name in RIVAL_SENDERS
            },
            {"test": Scale(10.0), "quick": Scale(30.0), "paper": Scale(120.0)},
            repetitions=4,
        ),
    },
    figures={
        "growth_by_division": plot(
            "One segment, acknowledged in m pieces",
            "pieces m (a segment)",
            "second round (segments)",
            Published({pieces: 1 + pieces for pieces in PIECES}, "published: 1 + m", joined=True),
            Published({len(EXAMPLE): 1 + len(EXAMPLE)}, "the paper's example"),
            Sweep("pieces", "second_round_segments", {GROWTH: "of 1999", f"{GROWTH}, bytes counted": "mended"}),
        ),
        "fig4_division": _course_of("division", "ACK division (Fig. 4)"),
        "fig5_spoofing": _course_of(
            "spoofing",
            "Duplicate-ACK spoofing (Fig. 5)",
            **{f"{WITHOUT}, spoofing": {"label": "spoofing, Linux without SACK", "color": CURVES[3], "marker": "x"}},
        ),
        "fig6_optimistic": _course_of("optimistic", "Optimistic acknowledgements (Fig. 6)"),
        "controls": Picture(
            "Broken on purpose: senders that are mended",
            _control("division", "bytes counted"),
            _control("spoofing", "SACK"),
            _control("optimistic", "nonce"),
            _control("optimistic", VARIED),
        ),
        "linux_today": Picture(
            "Linux of today (CUBIC)",
            *(
                Panel(
                    "receiver",
                    LAST_DATA,
                    Bars("last_data_ms", {name: f"{sender}, {name}" for name in RECEIVERS}),
                    title=sender,
                )
                for sender in (LINUX, WITHOUT)
            ),
        ),
        "knob_buffer": plot(
            "Whose buffer holds the burst?",
            "buffer of the bottleneck (packets)",
            LAST_DATA,
            Sweep("buffer_packets", "last_data_ms", "buffer"),
            log="x",
        ),
        "knob_rivals": Picture(
            "A divider beside an honest flow",
            Panel(
                "pieces (a segment)",
                "divider's goodput (share of both)",
                Sweep("pieces", "goodput_share", "rivals"),
                Level(0.5, published=False),
                log="x",
                y_range=(0, 1.02),
            ),
            Panel(
                "pieces (a segment)",
                "goodput of both (Mb/s)",
                Sweep("pieces", "goodput_mbps", "rivals"),
                log="x",
                y_range=(0, None),
            ),
        ),
    },
    best=("growth_by_division", "fig4_division", "fig5_spoofing", "fig6_optimistic", "controls"),
    play=Play(
        RECEIVERS,
        {
            "pieces": (1, 100, 1),
            "copies": (1, 100, 1),
            "ack_interval_ms": (0.5, 20.0, 0.5),
            "buffer_packets": (4, 1000, 4),
            "counts": ["acknowledgements", "bytes", "segments"],
            "recovery": ["reno", "tahoe", "newreno", "sack", "linux"],
            "nonce": [False, True],
            "boundary_spread_bytes": (0, 64, 1),
        },
        draw_run,
    ),
)
