"""How large a router's buffer must be: Handigol et al., "Reproducible Network Experiments Using Container-Based
Emulation" (Mininet-HiFi, CoNEXT 2012), section 5.3, Fig. 9; Appenzeller et al., "Sizing Router Buffers" (SIGCOMM 2004).

n long flows share a bottleneck. A binary search finds the smallest buffer with which the link is busy for 99 % of the
time; theory says RTT C / sqrt(n), because flows that halve their windows at different times even each other out. The
law is measured with Reno and long windows of time; the authors' own points with their own search (BIC, 98 %, 3 s).
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

from netrepro.claims import load_claims
from netrepro.networks.experiment import Experiment, Measure, Measurements, Port
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link, bandwidth_delay_packets
from netrepro.networks.topology import Cable, Topology, host_cable
from netrepro.networks.workloads import Flow, Tcp
from netrepro.paths import data_dir
from netrepro.study import Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, each, gap_checks, run_experiment
from netrepro.study import pictures as drawing
from netrepro.study.figures import Level, Sweep, plot
from netrepro.study.setting import setting
from netrepro.style import CURVES, PUBLISHED_GREY, Scheme, draw_published, new_figure, scheme

PORT = ("s1", "s2")
ROOMY = DropTail(packets=10_000)  # of every port but the bottleneck's: nothing is lost elsewhere
HOST_MBPS = 1000.0
FLOW_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 400, 600, 800)
TOGETHER_COUNTS = (2, 5, 10, 20, 50, 100, 200)
SLOPE_RANGE = (2, 100)  # flows
HARDWARE_FLOWS = (5, 10, 50, 100, 200)
EMULATED_FLOWS = (2, 4, 10, 20, 100)
AUTHORS_FLOWS = (2, 4, 5, 10, 20, 50, 100, 200, 400, 600, 800)
MANY_FLOWS = (200, 400)
BOUNDED_FLOWS = tuple(flows for flows in AUTHORS_FLOWS if flows <= 400)
MOST_PIPES = 1.5  # RTT C: the largest buffer that is tried
PERIODS = 3  # of a sawtooth, measured
RAMP_S, WAIT_S = 10.0, 3.0  # the authors' scripts skip ten samples at first, and 3 s before every probe
CLOSE = 0.002  # of the target: a probe that near is too close to call from one run
DEVIATIONS = (*range(1, 100), 99.5, 99.9)  # percentiles of Fig. 9(c) that are kept


@dataclass(frozen=True)
class Setting:
    """The experiment of section 5.3; flows start at random in the first `start_spread_s` seconds.

    target : share of the bottleneck's rate that a buffer must keep busy. round_trip_spread : senders' round trips lie
    evenly within round_trip_ms times 1 - spread to 1 + spread. jitter_ms : of the senders' links, standard deviation;
    none is published, and there is no path without. senders : hosts that the flows are shared out among, at most.
    clock_skew_ppm : how far links' rates are off at most.

    samples : of a second each, the median of which a probe of the authors' search is; 0: our search, whose probes last
    for some periods of the sawtooth. resolution : our search ends when the buffers either side of the target differ by
    less than this factor; authors_resolution : the authors', which goes on to single packets at 1. theories : of
    RTT C / sqrt(n), a sixteenth of it to so many times it are searched; 0 for all buffers. buffer_packets : is used,
    and nothing searched; 0 to search.
    """

    target: float = setting(
        0.99, "share of the bottleneck's rate that the buffer must keep busy, our search", above=0, below=1
    )
    congestion_control: str = setting("reno", "of all senders, our search", one_of=("reno", "cubic", "bic"))
    rate_mbps: float = setting(62.5, "of the bottleneck", "Mb/s", low=0.1, high=10_000)
    round_trip_ms: float = setting(87.0, "without queues", "ms", low=0.1, high=10_000)
    round_trip_spread: float = setting(0.0, "of the senders' round trips about it", "share", low=0, below=1)
    jitter_ms: float = setting(0.5, "of the senders' links, standard deviation", "ms", low=0, high=10)
    flows: int = 100
    senders: int = 20
    start_spread_s: float = 3.0
    delayed_ack_ms: float = 40.0
    clock_skew_ppm: float = 100.0
    samples: int = 0
    resolution: float = 1.2
    authors_resolution: float = 1.0
    theories: float = 0.0
    buffer_packets: int = 0

    @property
    def pipe_packets(self) -> float:
        """RTT C, the bandwidth-delay product, in full packets."""
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms)

    @property
    def range_packets(self) -> tuple[int, int]:
        """The least and the largest buffer that our search tries."""
        most, theory = MOST_PIPES * self.pipe_packets, float(theory_packets(self.flows, self))
        if not self.theories:
            return 1, round(most)
        return max(1, round(theory / 16)), round(min(most, self.theories * theory))

    @property
    def warm_up_s(self) -> float:
        """The time after which flows have started, and a period of the sawtooth has repaired slow start's overshoot.
        For the authors' search it is the time of their pauses."""
        return self.start_spread_s + (RAMP_S + WAIT_S if self.samples else 3.0 + sawtooth_s(self.flows, self))


PRINTED = Setting()
# The control: nothing tells the flows apart, so that they lose packets, and halve, together.
SYNCHRONISED = {"senders": 1, "start_spread_s": 0.001, "clock_skew_ppm": 0.0, "delayed_ack_ms": 0.0, "jitter_ms": 0.0}
AUTHORS = {"congestion_control": "bic", "target": 0.98, "samples": 3, "senders": 2}  # their scripts


def theory_packets(flows: float | np.ndarray, setting: Setting = PRINTED) -> float | np.ndarray:
    """Compute RTT C / sqrt(n) in full packets."""
    return setting.pipe_packets / np.sqrt(flows)


def sawtooth_utilisation(buffer_over_pipe: float) -> float:
    """Compute the utilisation by one Reno flow whose window falls to half of pipe and buffer together, in closed form.

    The window grows by a packet a round trip; below the pipe a round trip carries a window of it, above it the
    queue stretches the round trip and nothing is lost. Share of RTT C as buffer, 0 to 1.
    """
    b = buffer_over_pipe
    filling, waiting = (1 - b) / 2, b + b * b / 2
    return 1 - (1 - b) ** 2 / 8 / (filling + waiting)


def sawtooth_s(flows: int, setting: Setting = PRINTED) -> float:
    """Compute the time between halvings of one of n Reno flows, with the buffer of theory."""
    share = 1 / np.sqrt(flows)
    rounds = setting.pipe_packets * (1 + share) / flows / 2
    return float(rounds * setting.round_trip_ms * 1e-3 * (1 + share / 2))


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: n long flows from the senders to one receiver, over one bottleneck with the setting's
    buffer, or else theory's; measured for `seconds`, or longer where the sawtooth is longer."""
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
    traffic = [
        Flow(f"h{i % senders + 1}", receiver, duration_s=end_s - start, start_s=start)
        for i, start in enumerate(starts.tolist())
    ]
    return Experiment(
        Topology(tuple(cables), f"{flows} flows"),
        tuple(traffic),
        end_s,
        seed,
        Measure(packets=(PORT,)),
        Tcp(setting.congestion_control, delayed_ack_ms=setting.delayed_ack_ms, syn_linear_timeouts=0),
        host_delay_packets=0,  # `jitter_ms` is instead, of which cases have none
    )


# What runs and searches say.


def utilisation(found: Measurements, setting: Setting) -> float:
    """Compute the bits that left the bottleneck, as a share of what it could have sent, from the end of the warm-up on;
    where there are samples, the median of theirs."""
    edges = np.linspace(setting.warm_up_s, found.experiment.duration_s, 1 + (setting.samples or 1))
    packets = found.packets
    bits = np.histogram(packets["time_s"], edges, weights=8 * packets["size_bytes"])[0]
    rate_bps = found.experiment.topology.link(*PORT).rate_mbps * 1e6
    return float(np.median(bits / np.diff(edges)) / rate_bps)


def gap_deviations(found: Measurements) -> np.ndarray:
    """Compute how far the gaps between full packets of the busy bottleneck differ from a packet time, as shares of it
    (Fig. 9c). Shape (gaps,)."""
    ideal_s = FULL_PACKET_BYTES * 8 / (found.experiment.topology.link(*PORT).rate_mbps * 1e6)
    gap_s, rest = np.diff(found.packets["time_s"].to_numpy()), found.packets.iloc[1:]
    # A packet that waited longer than the gap before it found the link busy from end to end.
    busy = (rest["wait_ms"].to_numpy() * 1e-3 >= gap_s) & (rest["size_bytes"].to_numpy() == FULL_PACKET_BYTES)
    return np.abs(gap_s[busy] - ideal_s) / ideal_s


@dataclass(frozen=True)
class Search:
    """The outcome of a search: the buffer, whether any buffer was enough, and what was tried (packets, share)."""

    buffer_packets: float
    reached: bool
    probes: tuple[tuple[int, float], ...]


def smallest_buffer(
    probe: Callable[[int], float],
    target: float,
    most_packets: int,
    least_packets: int = 1,
    resolution: float = PRINTED.resolution,
    expected_packets: float | None = None,
) -> Search:
    """Search the smallest buffer (packets) whose utilisation is `target`, from `least_packets` to `most_packets`.

    Bisection on a logarithmic scale to within `resolution`, of the whole range, or of what halving or doubling the
    `expected_packets` until the target is passed leaves of it. `probe` is noisy, and one wrong answer would mislead a
    bisection for good; so all that was measured is fitted by a line that never falls (isotonic regression), and the
    buffer is where that line crosses the target. `most_packets` where even that is not enough, and `reached` False.
    """
    tried: dict[int, float] = {}

    def enough(buffer_packets: int) -> bool:
        tried[buffer_packets] = probe(buffer_packets)
        return tried[buffer_packets] >= target

    low, high = least_packets, most_packets
    guess = least_packets if expected_packets is None else round(expected_packets)
    while low < guess < high and not {low, high} <= tried.keys():
        if enough(guess):
            high, guess = guess, guess // 2
        else:
            low, guess = guess, guess * 2
    while high - low > 1 and high / low > resolution:
        middle = min(max(round(np.sqrt(low * high)), low + 1), high - 1)
        low, high = (low, middle) if enough(middle) else (middle, high)
    for end in {low, high} - tried.keys():  # an end of the range that the bisection ran into
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
    """Search the buffer (packets) as the authors' scripts do. They halve what lies between 1 and RTT C, believe every
    probe, and answer with the last buffer that was enough, which is 2 packets at least. `reached` is False where none
    was. Then the answer is RTT C, of which no probe is made."""
    least, most, probes = 1, most_packets, []
    while most - least >= 2 and most / least > resolution:
        middle = (least + most) // 2
        probes.append((middle, probe(middle)))
        least, most = (least, middle) if probes[-1][1] >= target else (middle + 1, most)
    return Search(float(most), most < most_packets, tuple(sorted(probes)))


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Measure the smallest buffer by search, whether it was enough, its ratio to theory, what was tried (probes),
    percentiles of the gaps of all runs (deviations) and their checks; with a buffer given its utilisation, and the
    queue.

    A probe of our search that is within CLOSE of the target is repeated with two further seeds, and is their mean. All
    buffers see the same seeds, so that they are compared on equal terms.
    """
    seeds = np.random.SeedSequence(seed).generate_state(3).tolist()
    fidelity: list[pd.DataFrame] = []
    checks: list[Check] = []
    gaps: list[np.ndarray] = []

    def run(buffer_packets: int, place: int, *queues: Port) -> Measurements:
        asked = experiment(replace(setting, buffer_packets=buffer_packets), seconds, place)
        asked = replace(asked, measure=replace(asked.measure, queues=queues))
        found = run_experiment(asked, tier, clock_skew_ppm=setting.clock_skew_ppm)
        fidelity.append(found.fidelity)
        checks.extend(gap_checks(found, PORT))
        gaps.append(gap_deviations(found))
        return found

    def share(buffer_packets: int, place: int) -> float:
        return utilisation(run(buffer_packets, place), setting)

    def probe(buffer_packets: int) -> float:
        shares = [share(buffer_packets, seeds[0])]
        if not setting.samples and abs(shares[0] - setting.target) <= CLOSE:
            shares += [share(buffer_packets, place) for place in seeds[1:]]
        return float(np.mean(shares))

    if setting.buffer_packets:
        one = run(setting.buffer_packets, seeds[0], PORT)
        shares = {"flows": setting.flows, "utilisation": utilisation(one, setting)}
        return Reading(shares, {"queue": one.queues}, checks, one.fidelity)
    if setting.samples:
        found = authors_search(probe, setting.target, int(setting.pipe_packets), setting.authors_resolution)
    else:
        least, most = setting.range_packets
        theory = float(theory_packets(setting.flows, setting))
        found = smallest_buffer(probe, setting.target, most, least, setting.resolution, theory)
    numbers = {
        "flows": setting.flows,
        "buffer_packets": found.buffer_packets,
        "reached": found.reached,
        "over_theory": found.buffer_packets / float(theory_packets(setting.flows, setting)),
        "over_pipe": found.buffer_packets / setting.pipe_packets,
    }
    tables = {
        "probes": pd.DataFrame(found.probes, columns=["tried_packets", "utilisation"]).assign(flows=setting.flows),
        "deviations": _percentiles(np.concatenate(gaps)).assign(flows=setting.flows),
    }
    return Reading(numbers, tables, checks, pd.concat(fidelity, ignore_index=True))


def _percentiles(gaps: np.ndarray) -> pd.DataFrame:
    off = np.percentile(gaps, DEVIATIONS) if len(gaps) else np.nan
    return pd.DataFrame({"percent": DEVIATIONS, "deviation": off})


def published_buffers() -> pd.DataFrame:
    """Read the buffers that hardware and Mininet-HiFi needed (Fig. 9b): source, flows, mean_packets, low_packets,
    high_packets."""
    return pd.read_csv(data_dir("buffer_sizing") / "published_buffers.csv", comment="#")


def authors_case(flows: int, together: bool = False) -> str:
    """Return the name of the case of the authors' search with so many flows."""
    return f"authors, {flows}" + ", synchronised" * together


def buffers(runs: Runs, tier: str = "") -> pd.DataFrame:
    """Return a row for each number of flows: theory, published means, and our means (packets) on a tier: the authors'
    search, and the law's, each as published and with synchronised flows."""
    means = runs.summary(tier)["buffer_packets"].reset_index()
    kinds = means["case"].str.replace(r", \d+", "", regex=True)
    ours = means.assign(kind=kinds).pivot_table(index="flows", columns="kind", values="buffer_packets")
    known = published_buffers().pivot(index="flows", columns="source", values="mean_packets")
    table = known.join(ours, how="outer")
    table.insert(0, "theory", theory_packets(table.index.to_numpy(float), runs.setting))
    names = ["theory", "hardware", "Mininet-HiFi", "authors", "authors, synchronised", "law", "synchronised"]
    return table.reindex(columns=[name for name in names if name in table])


# How claims read the buffers, Series over numbers of flows.


def exponent(found: pd.Series) -> float:
    """Fit the exponent of n in buffer ∝ n^e, over the flow counts of SLOPE_RANGE."""
    within = found.loc[SLOPE_RANGE[0] : SLOPE_RANGE[1]]
    return float(np.polyfit(np.log(within.index.to_numpy(float)), np.log(within), 1)[0])


def greatest(over_theory: pd.Series) -> float:
    return float(over_theory[over_theory.index >= 2].max())


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table = buffers(runs)
    if not runs.has("law", "synchronised"):
        found = ", ".join(f"{mean:.0f} packets for {flows} flows" for flows, mean in table["authors"].dropna().items())
        return f"On the {runs.tier} tier the authors' search finds {found}; theory, for larger windows, asks for more."
    slope = np.mean(runs.values_of(runs.study.claims["exponent-of-n"]))
    return (
        f"From 2 to 100 flows the buffer falls as n to the power {slope:.2f} (theory: -0.50): {table.law[1]:.0f} "
        f"packets for one flow, {table.law[100]:.0f} for 100; flows that halve together need "
        f"{table.synchronised[100]:.0f} for 100. The authors' own search finds {table.authors[10]:.0f} packets for 10 "
        f"flows and {table.authors[100]:.0f} for 100."
    )


# Figures.


def draw_idea() -> Figure:
    """Draw windows that halve at different times, and how much their sum wavers: sawtooths with random phases."""
    figure, axis = new_figure("Many sawtooths waver less", "time (a flow's periods)", "sum / its mean (ratio)")
    times, random = np.linspace(0, 3, 601), np.random.default_rng(1)
    for flows, colour in zip((1, 16, 400), CURVES, strict=False):
        windows = (1 + (times[:, None] + random.random(flows)) % 1) / 1.5  # from half of the largest to the largest
        axis.plot(times, windows.mean(axis=1), color=colour, label=f"{flows} flow{'s' * (flows > 1)}")
    axis.set_ylim(0, 1.6)
    axis.legend(loc="lower right", ncols=3)
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw senders, the bottleneck with the buffer in question, a receiver (Fig. 9a)."""
    return drawing.draw_network(experiment(setting, 10.0, 1), "n long flows meet at one router (Fig. 9a)")


def draw_buffers(runs: Runs) -> Figure:
    """Draw the smallest buffer over the number of flows, by the authors' search on every tier, beside theory, hardware
    and Mininet-HiFi (Fig. 9b), and the law's."""
    figure, axis = new_figure("Buffer for the target utilisation (Fig. 9b)", "", "", log_x=True, log_y=True)
    _theory_line(axis, runs.setting, 800)
    for (source, rows), marker in zip(published_buffers().groupby("source", sort=False), ("D", "s"), strict=True):
        draw_published(axis, rows["flows"], rows["mean_packets"], f"{source}, mean and range")
        axis.lines[-1].set_marker(marker)
        axis.vlines(rows["flows"], rows["low_packets"], rows["high_packets"], color=PUBLISHED_GREY, lw=1, zorder=1)
    for tier in runs.tiers:
        look = scheme("simulated" if tier == "simulated" else "emulated")
        _sweep(axis, _authors_rows(runs, tier), look, f"authors' search, {tier}")
    if runs.has("law"):
        _sweep(axis, runs.numbers("law"), scheme("reno"), f"our search with Reno, {runs.tier}")
    _flow_axis(axis)
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw synchronised flows beside those as published, for both searches. Synchronised flows need the whole pipe
    again."""
    names = ["our search", "the authors' search"]
    figure, axes = drawing.panels("Broken on purpose: flows that halve together", "", "", names, log_x=True, log_y=True)
    for axis in axes:
        _theory_line(axis, runs.setting, 400)
        axis.axhline(runs.setting.pipe_packets, color="black", linestyle="--", linewidth=1, label="RTT C")
    for case, look in (("law", "simulated"), ("synchronised", "control")):
        if runs.has(case):
            _sweep(axes[0], runs.numbers(case), scheme(look), "as published" if case == "law" else case)
        elif case == "law":
            drawing.say_not_measured(axes[0], runs.tier)
    for together, look in ((False, "simulated"), (True, "control")):
        rows = _authors_rows(runs, runs.tier, together)
        _sweep(axes[1], rows, scheme(look), "synchronised" if together else "as published")
    for axis in axes:
        _flow_axis(axis)
    drawing.share_legend(figure)
    return figure


def draw_search(runs: Runs, shown: tuple[int, ...] = (2, 20, 100, 200)) -> Figure:
    """Draw everything that searches tried: utilisation over the buffer; dashed: the target. The law's with `shown`
    numbers of flows, and the authors' of as many; where these were not measured, of those that were."""
    figure, axes = drawing.panels("What the searches saw", "buffer (packets)", "share of the link's rate",
                                  ["our search", "the authors'"], log_x=True)  # fmt: skip
    probes = runs.tables["probes"][lambda table: table["tier"] == runs.tier]
    measured = sorted(set(probes["flows"]))
    shown = shown if set(shown) <= set(measured) else tuple(measured)
    for axis, own, target in zip(axes, (True, False), (runs.setting.target, AUTHORS["target"]), strict=True):
        for colour, flows in zip(CURVES, shown, strict=False):
            rows = probes[(probes["case"] == ("law" if own else authors_case(flows))) & (probes["flows"] == flows)]
            rows = rows.sort_values("tried_packets")
            axis.plot(rows["tried_packets"], rows["utilisation"], "o", color=colour, label=f"{flows} flows")
        if own and not runs.has("law"):
            drawing.say_not_measured(axis, runs.tier)
        axis.axhline(float(target), color="black", linestyle="--", linewidth=1, label="target")
        axis.set_ylim(0.9, 1.003)
    drawing.share_legend(figure)
    return figure


def draw_fidelity(runs: Runs) -> Figure:
    """Draw how far the busy link's gaps were from a packet time (Fig. 9c), a curve for each number of flows. The dashed
    line is what the paper states of its own emulator."""
    figure, axis = new_figure(
        "Gaps between packets of the busy link (Fig. 9c)",
        "deviation from a packet time (%)",
        "share of gaps",
        log_x=True,
    )
    rows = runs.tables["deviations"].dropna()
    rows = rows[(rows["tier"] == runs.tier) & ~rows["case"].str.contains("synchronised")]
    for colour, (flows, part) in zip(CURVES, rows.groupby("flows"), strict=False):
        curve = part.groupby("percent")["deviation"].mean()
        label = f"{flows} flow{'s' * (flows > 1)}, {runs.tier}"
        axis.plot(100 * curve.clip(lower=1e-5), curve.index / 100, color=colour, label=label)
    stated = load_claims("emulator_fidelity").claim("many-flows-within-ten-percent").published
    corner = [10, 10, 1e-3], [0, stated, stated]
    axis.plot(*corner, color=PUBLISHED_GREY, linestyle="--", label="800 flows, Mininet-HiFi")
    axis.set_ylim(0, 1)
    axis.legend(fontsize=8, loc="best")
    return figure


def jitters(runs: Runs) -> pd.DataFrame:
    """Return the knob `jitter`, with its values as evenly spaced places."""
    return runs.knobs["jitter"].assign(place=lambda table: table.jitter_ms.astype(str))


def draw_method(runs: Runs) -> Figure:
    """Draw the authors' search, ours, and the authors' with one difference each, beside hardware and Mininet-HiFi."""
    figure, axis = new_figure("What of the authors' search sets the buffer?", "", "", log_x=True, log_y=True)
    _theory_line(axis, runs.setting, 400)
    for source, marker in (("hardware", "D"), ("Mininet-HiFi", "s")):
        rows = published_buffers()[lambda table, name=source: table["source"] == name].query("flows <= 100")
        draw_published(axis, rows["flows"], rows["mean_packets"], source)
        axis.lines[-1].set_marker(marker)
    drawing.draw_sweep(axis, runs.knobs["method"], "flows", "buffer_packets", by="case")
    _flow_axis(axis)
    return figure


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the queue of one run over time, for `explore`."""
    title = f"{100 * reading['utilisation']:.1f} % of the link's rate"
    figure, axis = new_figure(title, "time (s)", "queue (packets)")
    rows = reading["queue"]
    axis.plot(rows.time_s, rows.queue_packets, color=scheme("simulated").colour, linewidth=1)
    return figure


def _authors_rows(runs: Runs, tier: str, together: bool = False) -> pd.DataFrame:
    """Return the numbers of the authors' search, of all numbers of flows."""
    rows = runs.values[(runs.values["tier"] == tier) & runs.values["case"].str.startswith("authors")]
    return rows[rows["case"].str.endswith("synchronised") == together]


def _theory_line(axis: Axes, setting: Setting, most_flows: int) -> None:
    flows = np.geomspace(1, most_flows, 50)
    axis.plot(flows, theory_packets(flows, setting), color=PUBLISHED_GREY, label="theory: RTT C / sqrt(n)")


def _sweep(axis: Axes, rows: pd.DataFrame, look: Scheme, label: str) -> None:
    """Draw every search as a point, and a line through the means."""
    axis.plot(rows["flows"], rows["buffer_packets"], look.marker, color=look.colour, label=label)
    means = rows.groupby("flows")["buffer_packets"].mean()
    axis.plot(means.index, means, color=look.colour, linewidth=1)


def _flow_axis(axis: Axes) -> None:
    axis.set(xlabel="flows, each of them long", ylabel="smallest buffer (packets)")
    drawing.name_ticks(axis, "x", [1, 2, 5, 10, 20, 50, 100, 200, 400, 800])
    axis.legend(fontsize=8)


# What is measured.

AUTHORS_CASES: dict[str, dict[str, Any]] = {authors_case(n): AUTHORS | {"flows": n} for n in AUTHORS_FLOWS} | {
    authors_case(n, together=True): AUTHORS | SYNCHRONISED | {"flows": n} for n in BOUNDED_FLOWS
}
VIRTUAL_CASES = (authors_case(10), authors_case(100), authors_case(100, together=True))
MANY_CASES = tuple(authors_case(n) for n in AUTHORS_FLOWS if n not in BOUNDED_FLOWS)
SOME = each(5, 20, 100)
FEW = Scale(10.0, only={"flows": (5, 10, 100), "jitter_ms": (0.0, 0.1, 0.5, 2.0)})
LAW_CASES: dict[str, dict[str, Any]] = {
    "law": {"flows": each(*FLOW_COUNTS)},
    "synchronised": SYNCHRONISED | {"flows": each(*TOGETHER_COUNTS)},
}

STUDY = Study(
    slug="buffer_sizing",
    setting=PRINTED,
    experiment=experiment,  # so that it is known what kernels refuse
    measure_one=measure_one,
    answer=answer,
    repetitions=3,
    cases=LAW_CASES | AUTHORS_CASES,
    profiles={
        "quick": Scale(10.0, only={"flows": FLOW_COUNTS[:-3]}, without=MANY_CASES),
        "paper": Scale(60.0),
        "test": Scale(3.0, 3, only={"flows": (1, 2, 10, 100)}, without=MANY_CASES),
    },
    # A kernel works for two seconds or three for each run.
    on_virtual={
        "quick": Scale(
            5.0,
            2,
            {"authors_resolution": 1.4},
            without=("law", "synchronised", *(case for case in AUTHORS_CASES if case not in VIRTUAL_CASES)),
        ),
        "paper": Scale(10.0),
    },
    claims={
        "exponent-of-n": Evidence("buffer_packets", "law", control="synchronised", how=exponent),
        "bounded-by-theory": Evidence("over_theory", "law", control="synchronised", how=greatest),
        "one-flow-needs-the-pipe": Evidence("over_pipe", "law", how=lambda found: found[1]),
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
            {"jitter": {"jitter_ms": each(0.0, 0.05, 0.1, 0.5, 2.0), "flows": each(10, 50, 100)}},
            Scale(10.0),
            quick=FEW,
        ),
        "steps": Knob(
            {
                "as published": {"flows": 50},
                "no jitter": {"flows": 50, "jitter_ms": 0.0},
                "and one sending host": {"flows": 50, "jitter_ms": 0.0, "senders": 1},
                "and identical clocks": {"flows": 50, "jitter_ms": 0.0, "senders": 1, "clock_skew_ppm": 0.0},
                "and starts within 1 ms": {"flows": 50} | SYNCHRONISED | {"delayed_ack_ms": 40.0},
                "and no delayed acknowledgements": {"flows": 50} | SYNCHRONISED,
                "only no delayed acknowledgements": {"flows": 50, "delayed_ack_ms": 0.0},
            },
            Scale(10.0),
            quick=FEW,
        ),
        "variants": Knob(
            {
                "as published": {"flows": SOME},
                "CUBIC": {"flows": SOME, "congestion_control": "cubic"},
                "target 98 %": {"flows": SOME, "target": 0.98},
                "round trips ± 50 %": {"flows": SOME, "round_trip_spread": 0.5},
            },
            Scale(10.0),
            quick=FEW,
        ),
        "many": Knob(
            {
                name: changes | {"flows": 200, "buffer_packets": each(1, 2, 4, 8, 16, 32, 64, 128, 256)}
                for name, changes in {
                    "as published": {},
                    "no jitter": {"jitter_ms": 0.0},
                    "round trips ± 50 %": {"round_trip_spread": 0.5},
                }.items()
            },
            Scale(10.0),
            quick=FEW,
        ),
    },
    figures={
        "search_probes": draw_search,
        "fig9b_buffers": draw_buffers,
        "fig9c_fidelity": draw_fidelity,
        "control_synchronised": draw_control,
        "knob_method": draw_method,
        "knob_jitter": plot(
            "How much must hosts jitter?",
            "jitter, standard deviation (ms)",
            "buffer / theory's",
            Sweep("place", "over_theory", jitters, by="flows", label="{} flows"),
            Level(1, "RTT C / sqrt(n)"),
        ),
    },
    play=Play(
        ("law", "synchronised"),
        {"flows": (1, 200, 1), "buffer_packets": (1, 600, 1), "congestion_control": ["reno", "cubic", "bic"]},
        draw_run,
    ),
)
