"""How large a router's buffer must be: Handigol et al., "Reproducible Network Experiments Using Container-Based
Emulation" (Mininet-HiFi, CoNEXT 2012), section 5.3, Fig. 9; Appenzeller et al., "Sizing Router Buffers" (SIGCOMM 2004).

n long flows share a bottleneck. A binary search finds the smallest buffer with which the link is busy for 99 % of the
time. Theory says RTT C / sqrt(n), because flows that halve their windows at different times even each other out. Our
search measures this law with Reno and long intervals; the authors' own search (BIC, 98 %, 3 s) measures their points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from netrepro.networks.experiment import Experiment, Measure, Measurements, Port
from netrepro.networks.links import DropTail, Link, bandwidth_delay_packets
from netrepro.networks.topology import Cable, Topology, host_cable
from netrepro.networks.workloads import Flow, Tcp
from netrepro.paths import data_dir
from netrepro.study import (
    VIRTUAL,
    Check,
    Evidence,
    Gauge,
    Knob,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    gap_checks,
    run_experiment,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.figures import Level, Panel, Picture, Published, Sweep, plot
from netrepro.study.live import WAIT, LiveRun
from netrepro.study.setting import parameter
from netrepro.style import CURVES, PUBLISHED_GREY, draw_published, new_figure, scheme

PORT = ("s1", "s2")
ROOMY = DropTail(packets=10_000)  # for every port but the bottleneck's, so that no packet is lost elsewhere
HOST_MBPS = 1000.0
FLOW_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 400, 600, 800)
TOGETHER_COUNTS = (2, 5, 10, 20, 50, 100, 200)
SLOPE_RANGE = (2, 100)  # flows
HARDWARE_FLOWS = (5, 10, 50, 100, 200)
EMULATED_FLOWS = (2, 4, 10, 20, 100)
AUTHORS_FLOWS = (2, 4, 5, 10, 20, 50, 100, 200, 400, 600, 800)
MANY_FLOWS = (200, 400)
BOUNDED_FLOWS = tuple(flows for flows in AUTHORS_FLOWS if flows <= 400)
MOST_PIPES = 1.5  # times RTT C: the largest buffer that is tried
PERIODS = 3  # of the sawtooth, which a probe measures
RAMP_S, WAIT_S = 10.0, 3.0  # the authors' scripts skip ten samples at first, and 3 s before every probe
CLOSE = 0.002  # to the target (share): a result so near is too uncertain from one run


@dataclass(frozen=True)
class Setting:
    """The experiment of section 5.3; flows start at random in the first `start_spread_s` seconds.

    target : share of the bottleneck's rate that the buffer must keep busy. round_trip_spread : the senders' round trips
    are evenly spaced from 1 - spread to 1 + spread times round_trip_ms. jitter_ms : standard deviation of the delay of
    the senders' links; the paper gives none, but real paths have some. senders : greatest number of sending hosts,
    among which the flows are divided. clock_skew_ppm : greatest error of a link's rate.

    samples : number of one-second samples in a probe of the authors' search, which takes their median; 0 for our
    search, whose probes last for some periods of the sawtooth. resolution : our search ends when the buffers on both
    sides of the target differ by less than this factor. authors_resolution : the same for the authors' search; 1 for
    single packets. start_gap_s : flows start one after another, so far apart; 0: at random in `start_spread_s`.
    host_delay_packets : the time that hosts take for a packet, where `jitter_ms` does not stand for it.
    buffer_packets : a fixed buffer, without a search; 0 to search.
    """

    target: float = parameter(
        0.99, "share of the bottleneck's rate that the buffer must keep busy, our search", above=0, below=1
    )
    congestion_control: str = parameter("reno", "of all senders, our search", one_of=("reno", "cubic", "bic"))
    rate_mbps: float = parameter(62.5, "of the bottleneck", "Mb/s", low=0.1, high=10_000)
    round_trip_ms: float = parameter(87.0, "without queues", "ms", low=0.1, high=10_000)
    round_trip_spread: float = parameter(0.0, "of the senders' round trips about it", "share", low=0, below=1)
    jitter_ms: float = parameter(0.5, "of the senders' links, standard deviation", "ms", low=0, high=10)
    flows: int = 100
    senders: int = 20
    start_spread_s: float = 3.0
    start_gap_s: float = 0.0
    host_delay_packets: float = 0.0
    delayed_ack_ms: float = 40.0
    clock_skew_ppm: float = 100.0
    samples: int = 0
    resolution: float = 1.2
    authors_resolution: float = 1.0
    buffer_packets: int = 0

    @property
    def pipe_packets(self) -> float:
        """RTT C, the bandwidth-delay product, in full packets."""
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms)

    @property
    def warm_up_s(self) -> float:
        """The time after which all flows have started, and a period of the sawtooth has repaired slow start's
        overshoot. The authors' search has the pauses of their scripts instead."""
        starts_s = self.start_gap_s * self.flows or self.start_spread_s
        return starts_s + (RAMP_S + WAIT_S if self.samples else 3.0 + sawtooth_s(self.flows, self))


PRINTED = Setting()
# The control: all flows are alike, so that they lose packets, and halve their windows, together.
SYNCHRONISED = {"senders": 1, "start_spread_s": 0.001, "clock_skew_ppm": 0.0, "delayed_ack_ms": 0.0, "jitter_ms": 0.0}
# From the authors' scripts. They set no jitter, so hosts take the time that they take elsewhere.
AUTHORS: dict[str, Any] = {"congestion_control": "bic", "target": 0.98, "samples": 3, "senders": 2}
AUTHORS |= {"jitter_ms": 0.0, "host_delay_packets": 1.0, "start_gap_s": 0.001}
AUTHORS_TOGETHER = AUTHORS | SYNCHRONISED | {"host_delay_packets": 0.0, "start_gap_s": 0.0}
AUTHORS_PACKET_BYTES = 1500  # of RTT C, where their search begins


def theory_packets(flows: float | np.ndarray, setting: Setting = PRINTED) -> float | np.ndarray:
    """Compute the buffer of theory, RTT C / sqrt(n), in full packets."""
    return setting.pipe_packets / np.sqrt(flows)


def sawtooth_utilisation(buffer_over_pipe: float) -> float:
    """Compute the utilisation by one Reno flow in closed form. Its window falls to half of pipe and buffer together.

    The window grows by a packet a round trip. While it is smaller than the pipe, each round trip carries one window;
    beyond that the queue lengthens the round trip, and the link is full. buffer_over_pipe : buffer as a share of RTT C,
    0 to 1.
    """
    b = buffer_over_pipe
    filling, waiting = (1 - b) / 2, b + b * b / 2
    return 1 - (1 - b) ** 2 / 8 / (filling + waiting)


def sawtooth_s(flows: int, setting: Setting = PRINTED) -> float:
    """Compute the time between two halvings of one of n Reno flows (s), with the buffer of theory."""
    share = 1 / np.sqrt(flows)
    rounds = setting.pipe_packets * (1 + share) / flows / 2
    return float(rounds * setting.round_trip_ms * 1e-3 * (1 + share / 2))


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: n long flows from the senders to one receiver, over one bottleneck. Its buffer is the
    setting's, or theory's where that is 0. It measures for `seconds`, or longer where the sawtooth is longer."""
    flows, senders = setting.flows, min(setting.flows, setting.senders)
    stretch = setting.round_trip_spread * (np.linspace(-1, 1, senders) if senders > 1 else np.zeros(1))
    ways = [
        Link(HOST_MBPS, float(setting.round_trip_ms / 2 * (1 + share)), ROOMY, jitter_ms=setting.jitter_ms)
        for share in stretch
    ]
    cables = [host_cable(f"h{i + 1}", "s1", way) for i, way in enumerate(ways)]
    buffer_packets = setting.buffer_packets or max(1, round(float(theory_packets(flows, setting))))
    bottleneck = Link(setting.rate_mbps, 0.0, DropTail(packets=buffer_packets))
    receiver = f"h{senders + 1}"
    cables += [
        Cable(*PORT, bottleneck, replace(bottleneck, queue=ROOMY)),
        host_cable(receiver, "s2", Link(HOST_MBPS, 0.0, ROOMY)),
    ]
    lasts_s = setting.samples or max(seconds, PERIODS * sawtooth_s(flows, setting))
    end_s = setting.warm_up_s + lasts_s
    starts = np.random.default_rng(seed).uniform(0, setting.start_spread_s, flows)
    if setting.start_gap_s:
        starts = np.arange(flows, dtype=float) * setting.start_gap_s
    traffic = [
        Flow(f"h{i % senders + 1}", receiver, duration_s=end_s - start, start_s=start)
        for i, start in enumerate(starts.tolist())
    ]
    return Experiment(
        Topology(tuple(cables), f"{flows} flows"),
        tuple(traffic),
        end_s,
        seed,
        Measure(packets=(PORT,), since_s=setting.warm_up_s),
        Tcp(setting.congestion_control, delayed_ack_ms=setting.delayed_ack_ms, syn_linear_timeouts=0),
        host_delay_packets=setting.host_delay_packets,
        clock_skew_ppm=setting.clock_skew_ppm,
    )


# Readings of runs and searches.


def utilisation(measured: Measurements, setting: Setting) -> float:
    """Compute the bits that left the bottleneck after the warm-up, as a share of what it could have sent. With
    `samples`, it is the median of the samples' shares."""
    edges = np.linspace(setting.warm_up_s, measured.experiment.duration_s, 1 + (setting.samples or 1))
    packets = measured.packets
    bits = np.histogram(packets["time_s"], edges, weights=8 * packets["size_bytes"])[0]
    rate_bps = measured.experiment.topology.link(*PORT).rate_mbps * 1e6
    return float(np.median(bits / np.diff(edges)) / rate_bps)


@dataclass(frozen=True)
class Search:
    """The outcome of a search: the buffer, whether any buffer reached the target, and all probes (packets,
    utilisation)."""

    buffer_packets: float
    reached: bool
    probes: tuple[tuple[int, float], ...]


def smallest_buffer(
    probe: Callable[[int], float],
    target: float,
    most_packets: int,
    resolution: float = PRINTED.resolution,
    expected_packets: float | None = None,
) -> Search:
    """Search for the smallest buffer (packets) whose utilisation is `target`, up to `most_packets`.

    The search halves or doubles `expected_packets` until it passes the target. Then it bisects what is left of the
    range, on a logarithmic scale, to within `resolution`. `probe` is noisy, and one wrong result would mislead a
    bisection for good. So a line that never falls (isotonic regression) is fitted to all results, and the buffer is
    where that line crosses the target. Where even `most_packets` does not reach it, that is the buffer, and `reached`
    is False.
    """
    tried: dict[int, float] = {}

    def enough(buffer_packets: int) -> bool:
        tried[buffer_packets] = probe(buffer_packets)
        return tried[buffer_packets] >= target

    low, high = 1, most_packets
    guess = 1 if expected_packets is None else round(expected_packets)
    while low < guess < high and not {low, high} <= tried.keys():
        if enough(guess):
            high, guess = guess, guess // 2
        else:
            low, guess = guess, guess * 2
    while high - low > 1 and high / low > resolution:
        middle = min(max(round(np.sqrt(low * high)), low + 1), high - 1)
        low, high = (low, middle) if enough(middle) else (middle, high)
    for end in {low, high} - tried.keys():  # an end of the range that the bisection never tried
        enough(end)
    probes = tuple(sorted(tried.items()))
    buffers, shares = np.array(probes).T
    line = isotonic_regression(shares).x
    if line[-1] < target:
        return Search(float(most_packets), False, probes)
    above = int(np.argmax(line >= target))
    if above == 0:
        return Search(float(buffers[0]), True, probes)
    part = (target - line[above - 1]) / (line[above] - line[above - 1])
    return Search(float(buffers[above - 1] * (buffers[above] / buffers[above - 1]) ** part), True, probes)


def authors_search(probe: Callable[[int], float], target: float, most_packets: int, resolution: float = 1.0) -> Search:
    """Search for the buffer (packets) as the authors' scripts do: bisect from 1 to `most_packets`, RTT C, and believe
    every probe. The result is the smallest buffer that was enough, at least 2 packets. Where none was, `reached` is
    False, and the result is RTT C, which is not itself probed."""
    least, most, probes = 1, most_packets, []
    while most - least >= 2 and most / least > resolution:
        middle = (least + most) // 2
        probes.append((middle, probe(middle)))
        least, most = (least, middle) if probes[-1][1] >= target else (middle + 1, most)
    return Search(float(most), most < most_packets, tuple(sorted(probes)))


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Search for the smallest buffer. Read it, its ratio to theory and to RTT C, the table `probes`, and the checks of
    all runs. With a buffer given, read its utilisation and the queue instead.

    Our search repeats a probe that is within CLOSE of the target with two more seeds, and takes the mean. All buffers
    are tried with the same seeds, so that they are compared on equal terms.
    """
    seeds = np.random.SeedSequence(seed).generate_state(3).tolist()
    fidelity: list[pd.DataFrame] = []
    checks: list[Check] = []

    def run(buffer_packets: int, place: int, *queues: Port) -> Measurements:
        asked = experiment(replace(setting, buffer_packets=buffer_packets), seconds, place)
        asked = replace(asked, measure=replace(asked.measure, queues=queues))
        measured = run_experiment(asked, tier)
        fidelity.append(measured.fidelity)
        checks.extend(gap_checks(measured, PORT))
        return measured

    def probe(buffer_packets: int) -> float:
        shares = [utilisation(run(buffer_packets, seeds[0]), setting)]
        if not setting.samples and abs(shares[0] - setting.target) <= CLOSE:
            shares += [utilisation(run(buffer_packets, place), setting) for place in seeds[1:]]
        return float(np.mean(shares))

    if setting.buffer_packets:
        one = run(setting.buffer_packets, seeds[0], PORT)
        shares = {"flows": setting.flows, "utilisation": utilisation(one, setting)}
        return Reading(shares, {"queue": one.queues}, checks, one.fidelity)
    theory = float(theory_packets(setting.flows, setting))
    if setting.samples:
        most = int(bandwidth_delay_packets(setting.rate_mbps, setting.round_trip_ms, AUTHORS_PACKET_BYTES))
        search = authors_search(probe, setting.target, most, setting.authors_resolution)
    else:
        most = round(MOST_PIPES * setting.pipe_packets)
        search = smallest_buffer(probe, setting.target, most, setting.resolution, theory)
    numbers = {
        "flows": setting.flows,
        "buffer_packets": search.buffer_packets,
        "over_theory": search.buffer_packets / theory,
        "over_pipe": search.buffer_packets / setting.pipe_packets,
    }
    probes = pd.DataFrame(search.probes, columns=["tried_packets", "utilisation"])
    return Reading(numbers, {"probes": probes}, checks, pd.concat(fidelity, ignore_index=True))


def published_buffers() -> pd.DataFrame:
    """Read the buffers that hardware and Mininet-HiFi needed (Fig. 9b): source, flows, mean_packets, low_packets,
    high_packets."""
    return pd.read_csv(data_dir("buffer_sizing") / "published_buffers.csv", comment="#")


def authors_case(flows: int, together: bool = False) -> str:
    """Return the name of the case of the authors' search with this number of flows."""
    return f"authors, {flows}" + ", synchronised" * together


def searches(runs: Runs) -> pd.DataFrame:
    """Return the rows of `values` of all searches with a column `kind`: "authors" or "law", as published,
    "synchronised" or "authors, synchronised". Rows of a tier other than the one asked for have its name appended."""
    kind = runs.values["case"].str.replace(r", \d+", "", regex=True)
    elsewhere = runs.values["tier"].where(runs.values["tier"] != runs.tier)
    return runs.values.assign(kind=(kind + ", " + elsewhere).fillna(kind))


def buffers(runs: Runs) -> pd.DataFrame:
    """Return a row for each number of flows: the buffers (packets) of theory, the published means, and our means for
    each kind of search on the tier asked for."""
    ours = searches(runs).pivot_table(index="flows", columns="kind", values="buffer_packets")
    known = published_buffers().pivot(index="flows", columns="source", values="mean_packets")
    table = known.join(ours, how="outer")
    table.insert(0, "theory", theory_packets(table.index.to_numpy(float), runs.setting))
    names = ["theory", "hardware", "Mininet-HiFi", "authors", "authors, synchronised", "law", "synchronised"]
    return table.reindex(columns=[name for name in names if name in table])


# Functions that claims apply to the buffers, a Series indexed by the number of flows.


def exponent(packets: pd.Series) -> float:
    """Fit the exponent of n in buffer ∝ n^e, over the flow counts of SLOPE_RANGE."""
    within = packets.loc[SLOPE_RANGE[0] : SLOPE_RANGE[1]]
    return float(np.polyfit(np.log(within.index.to_numpy(float)), np.log(within), 1)[0])


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table = buffers(runs)
    if not runs.has("law", "synchronised"):
        ours = ", ".join(f"{mean:.0f} packets for {flows} flows" for flows, mean in table["authors"].dropna().items())
        return f"On the {runs.tier} tier the authors' search finds {ours}; theory, for larger windows, asks for more."
    slope = np.mean(runs.values_of(runs.study.claims["exponent-of-n"]))
    return (
        f"From 2 to 100 flows the buffer falls as n to the power {slope:.2f} (theory: -0.50): {table.law[1]:.0f} "
        f"packets for one flow, {table.law[100]:.0f} for 100; flows that halve together need "
        f"{table.synchronised[100]:.0f} for 100. The authors' own search finds {table.authors[10]:.0f} packets for 10 "
        f"flows and {table.authors[100]:.0f} for 100."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw sums of windows that halve at different times, and how much they vary: sawtooths with random phases."""
    figure, axis = new_figure("Many sawtooths waver less", "time (a flow's periods)", "sum / its mean (ratio)")
    times, random = np.linspace(0, 3, 601), np.random.default_rng(1)
    for flows, colour in zip((1, 16, 400), CURVES, strict=False):
        windows = (1 + (times[:, None] + random.random(flows)) % 1) / 1.5  # from half of the largest to all of it
        axis.plot(times, windows.mean(axis=1), color=colour, label=f"{flows} flow{'s' * (flows > 1)}")
    axis.set_ylim(0, 1.6)
    axis.legend(loc="lower right", ncols=3)
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the senders, the bottleneck whose buffer is searched, and the receiver (Fig. 9a)."""
    return drawing.draw_network(experiment(setting, 10.0, 1), "n long flows meet at one router (Fig. 9a)")


def _draw_published(axis: Axes, _: Runs) -> None:
    for (source, rows), marker in zip(published_buffers().groupby("source", sort=False), "Ds", strict=True):
        draw_published(axis, rows["flows"], rows["mean_packets"], f"{source}, mean and range")
        axis.lines[-1].set_marker(marker)
        axis.vlines(rows["flows"], rows["low_packets"], rows["high_packets"], color=PUBLISHED_GREY, lw=1, zorder=1)


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw one run's queue over time, for `explore`."""
    title = f"{100 * reading['utilisation']:.1f} % of the link's rate"
    figure, axis = new_figure(title, "time (s)", "queue (packets)")
    rows = reading["queue"]
    axis.plot(rows.time_s, rows.queue_packets, color=scheme("simulated").colour, linewidth=1)
    return figure


FLOWS, SMALLEST = "flows, each of them long", "smallest buffer (packets)"
THEORY = Published(
    lambda runs: pd.Series({n: theory_packets(n, runs.setting) for n in FLOW_COUNTS}), "theory: RTT C / sqrt(n)", True
)


def _apart_and_together(apart: str, together: str, title: str) -> Panel:
    """Show two kinds of search: flows as published, and synchronised."""
    looks = {
        kind: {"label": label, "color": scheme(look).colour}
        for kind, label, look in ((apart, "as published", "simulated"), (together, "synchronised", "control"))
    }
    ours = Sweep("flows", "buffer_packets", searches, "kind", looks)
    pipe = Level(lambda runs: runs.setting.pipe_packets, "RTT C", published=False)
    return Panel(FLOWS, SMALLEST, THEORY, pipe, ours, title=title, log="xy")


# What is measured.

AUTHORS_CASES: dict[str, dict[str, Any]] = {authors_case(n): AUTHORS | {"flows": n} for n in AUTHORS_FLOWS} | {
    authors_case(n, together=True): AUTHORS_TOGETHER | {"flows": n} for n in BOUNDED_FLOWS
}
VIRTUAL_CASES = (authors_case(10), authors_case(100), authors_case(100, together=True))
MANY_CASES = tuple(authors_case(n) for n in AUTHORS_FLOWS if n not in BOUNDED_FLOWS)
SOME = swept(5, 20, 100)
FEW = Scale(5.0, only={"flows": (5, 10, 100), "jitter_ms": (0.0, 0.1, 0.5, 2.0)})
LAW_CASES: dict[str, dict[str, Any]] = {
    "law": {"flows": swept(*FLOW_COUNTS)},
    "synchronised": SYNCHRONISED | {"flows": swept(*TOGETHER_COUNTS)},
}


LIVE = LiveRun(
    {
        "utilisation": Gauge(
            "utilisation of the bottleneck",
            "share",
            {"table": "packets", "column": "size_bytes", "reduce": "sum", "a_second": True},
        )
    },
    WAIT,
    "wait of a packet (ms)",
    {"flows": (5, 10, 20, 50, 100, 200), "buffer_packets": (10, 20, 45, 100, 200, 450)}
    | {"congestion_control": ("reno", "cubic", "bic")},
    lambda _: PORT,
    broken={"law": "synchronised"},
    of_setting={"utilisation": lambda asked: {"times": 8e-6 / asked.rate_mbps}},
    # A search's first run, which measure_one makes of a given buffer.
    experiment=lambda asked, seconds, seed: experiment(
        asked, seconds, int(np.random.SeedSequence(seed).generate_state(3)[0])
    ),
)
STUDY = Study(
    slug="buffer_sizing",
    setting=PRINTED,
    experiment=experiment,  # tells the Study what kernels cannot run
    measure_one=measure_one,
    answer=answer,
    repetitions=3,
    cases=LAW_CASES | AUTHORS_CASES,
    scales={
        "quick": Scale(
            5.0,
            changes={"resolution": 1.4, "authors_resolution": 1.4},
            only={"flows": FLOW_COUNTS[:-3]},
            without=MANY_CASES,
            fewer=dict.fromkeys(("synchronised", *AUTHORS_CASES), 2),
        ),
        "paper": Scale(60.0),
        "test": Scale(3.0, 3, only={"flows": (1, 2, 10, 100)}, without=MANY_CASES),
        # On the virtual kernel each run takes two or three seconds of computing.
        ("quick", VIRTUAL): Scale(
            5.0,
            2,
            {"authors_resolution": 1.4},
            without=("law", "synchronised", *(case for case in AUTHORS_CASES if case not in VIRTUAL_CASES)),
        ),
        ("paper", VIRTUAL): Scale(10.0),
    },
    claims={
        "exponent-of-n": Evidence("buffer_packets", "law", control="synchronised", how=exponent),
        "bounded-by-theory": Evidence(
            "over_theory", "law", control="synchronised", how=lambda ratios: ratios.loc[2:].max()
        ),
        "one-flow-needs-the-pipe": Evidence("over_pipe", "law", how=lambda ratios: ratios[1]),
        "hundred-flows-need-a-tenth": Evidence(
            "buffer_packets",
            ("law", "law"),
            control=("synchronised", "law"),
            how=lambda many, one: many[100] / one[1],
        ),
        **{
            f"{source}-{n}-flows": Evidence("buffer_packets", authors_case(n), authors_case(n, together=True))
            for source, counts in (("hardware", HARDWARE_FLOWS), ("emulated", EMULATED_FLOWS))
            for n in counts
        },
        "emulated-from-200-flows": Evidence(
            "buffer_packets",
            tuple(authors_case(n) for n in MANY_FLOWS),
            control=tuple(authors_case(n, together=True) for n in MANY_FLOWS),
            how=max,
        ),
        "searches-bounded-by-theory": Evidence(
            "over_theory",
            tuple(authors_case(n) for n in BOUNDED_FLOWS),
            control=tuple(authors_case(n, together=True) for n in BOUNDED_FLOWS),
            how=max,
        ),
    },
    knobs={
        "method": Knob(
            {
                "the authors': BIC, 98 %, 3 s": AUTHORS | {"flows": SOME},
                "99 %": AUTHORS | {"flows": SOME, "target": 0.99},
                "long windows": AUTHORS | {"flows": SOME, "samples": 0},
                "Reno": AUTHORS | {"flows": SOME, "congestion_control": "reno"},
                "ours: all three": {"flows": SOME},
            },
            Scale(10.0),
            quick=FEW,
        ),
        "jitter": Knob(
            {"jitter": {"jitter_ms": swept(0.0, 0.05, 0.1, 0.5, 2.0), "flows": swept(10, 50, 100)}},
            Scale(10.0),
            quick=FEW,
        ),
    },
    figures={
        "fig9b_buffers": plot(
            "Buffer for the target utilisation (Fig. 9b)",
            FLOWS,
            SMALLEST,
            THEORY,
            _draw_published,
            Sweep(
                "flows",
                "buffer_packets",
                searches,
                "kind",
                {
                    "authors": {"label": "authors' search", "color": CURVES[0]},
                    "authors, simulated": {"label": "authors' search, simulated", "color": CURVES[2]},
                    "law": {"label": "our search with Reno", "color": scheme("reno").colour},
                },
            ),
            log="xy",
        ),
        "control_synchronised": Picture(
            "Broken on purpose: flows that halve together",
            _apart_and_together("law", "synchronised", "our search"),
            _apart_and_together("authors", "authors, synchronised", "the authors' search"),
        ),
        "knob_method": plot(
            "What of the authors' search sets the buffer?",
            FLOWS,
            SMALLEST,
            THEORY,
            _draw_published,
            Sweep("flows", "buffer_packets", "method"),
            log="xy",
        ),
        "knob_jitter": plot(
            "How much must hosts jitter?",
            "jitter, standard deviation (ms)",
            "buffer / theory's",
            # A linear axis, because a jitter of 0 is one of the values.
            Sweep(
                "place",
                "over_theory",
                lambda runs: runs.knobs["jitter"].assign(place=lambda table: table.jitter_ms.astype(str)),
                by="flows",
                label="{} flows",
            ),
            Level(1, "RTT C / sqrt(n)"),
        ),
    },
    play=Play(
        ("law", "synchronised"),
        {"flows": (1, 200, 1), "buffer_packets": (1, 600, 1), "congestion_control": ["reno", "cubic", "bic"]},
        draw_run,
        live=LIVE,
    ),
)
