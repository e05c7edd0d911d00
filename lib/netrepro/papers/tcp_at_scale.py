"""TCP at scale: Philip et al., "Revisiting TCP ... Throughput Models & Fairness Properties At Scale", IMC 2021.

Many long flows share a bottleneck, each with the same share: tens at 100 Mb/s (the edge), hundreds and more at gigabits
a second (at scale). Mathis's law says that a NewReno flow carries C / (round trip x root of p) segments a second. In
it, p is the share of packets lost, and each loss halves a window. In fact one halving may cost several packets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, Link, Queue, Red, Sfq, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import (
    DROPPED_PACKETS,
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
    greatest_first,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.evidence import jain
from netrepro.study.figures import Bars, Level, Panel, Picture, Sweep, plot
from netrepro.study.live import LiveRun
from netrepro.study.setting import parameter
from netrepro.style import new_figure, scheme

EDGE_MBPS, *_ = ALL = 100.0, 200.0, 1000.0
DENSITIES, MOST = (10, 30, 50), 50  # flows for 100 Mb/s, the paper's at the edge and at scale
PAIRS, HOST_MBPS, HOST_MS = 10, 25_000.0, 0.1  # the testbed's hosts
SEGMENT_BYTES, ENDLESS_BYTES = 1448, 10**13
WARM_UP, START_WITHIN_S = 0.25, 1.0  # share of a run that is not counted; flows begin at random in this time
DERIVED, LEAST_LEAD = 1.5**0.5, 2.0  # C of Mathis et al.; ratio of shares from which BBR is highly unfair
LONG, LONG_CLAIMS = 3.0, ("newreno-fair-at-scale", "cubic-fair-at-scale")  # factor on their length; not judged in quick
DROP_TAIL, EARLY, FAIR = "drop-tail", "RED", "fair"
KINDS = {"NewReno": "reno", "CUBIC": "cubic", "BBR": "bbr"}
NEWRENO, CUBIC, BBR = KINDS
MIXES = {"CUBIC + NewReno": "cubic reno", "BBR + NewReno": "bbr reno", "BBR + CUBIC": "bbr cubic"}
CUBIC_RENO, *WITH_BBR = MIXES
FAIR_CASES = {f"{case}, fair queue": kinds for case, kinds in {BBR: "bbr", **MIXES}.items()}
SINGLE_DROPS, HALF_GROWTH, FAIR_BBR, *FAIR_MIXES = CONTROLS = ("single drops", "half the growth", *FAIR_CASES)
# Where the effects are, by the reproduction's tables: longer round trips, and the fewest flows for a rate.
FAR_MS, FEWEST = (100.0, 200.0), 10
NEWRENO_FAR, BBR_FAR = (f"{kind}, far" for kind in (NEWRENO, BBR))
SINGLE_DROPS_FAR, FAIR_BBR_FAR = CONTROLS_FAR = (f"{SINGLE_DROPS}, far", f"{FAIR_BBR}, far")
CASES_FAR = (NEWRENO_FAR, BBR_FAR, *CONTROLS_FAR)


@dataclass(frozen=True)
class Setting:
    """The edge's rate, flows for a rate, round trips and both buffers are the paper's, as a reproduction tells them;
    the rest is our choice.

    senders : one or more congestion controls, each used by an equal group of flows. grows_by_acknowledgements : a
    window grows by a segment for each window of acknowledgements, and one acknowledges two segments. offload_bytes :
    largest burst of a host's segmentation offload. lasts : the length of a run as a multiple of the other cases'.
    """

    round_trip_ms: float = parameter(20.0, "round trip without queues", "ms", low=2, high=1000)
    buffer_ms: float = parameter(240.0, "buffer of the bottleneck at the edge", "ms", low=1, high=2000)
    scale_buffer_ms: float = parameter(300.0, "the same at scale, above 100 Mb/s", "ms", low=1, high=2000)
    rate_mbps: float = EDGE_MBPS
    flows_per_100_mbps: int = MOST
    senders: str = "reno"
    queue: str = DROP_TAIL
    grows_by_acknowledgements: bool = False
    offload_bytes: int = 0
    lasts: float = 1.0

    @property
    def flows(self) -> int:
        """The number of flows."""
        return round(self.rate_mbps / 100 * self.flows_per_100_mbps)

    @property
    def queue_ms(self) -> float:
        """The bottleneck's buffer (ms at its rate)."""
        return self.buffer_ms if self.rate_mbps <= EDGE_MBPS else self.scale_buffer_ms


def queue_of(setting: Setting) -> Queue:
    """Make the bottleneck's queue. RED drops from a quarter of the buffer on; at three quarters it drops one in a
    hundred."""
    packets = max(4, round(bandwidth_delay_packets(setting.rate_mbps, setting.queue_ms)))
    if setting.queue == EARLY:
        return Red(packets, packets / 4, 3 * packets / 4, max_probability=0.01)
    return Sfq(packets=packets, buckets=2**16) if setting.queue == FAIR else DropTail(packets=packets)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: long flows between ten pairs of hosts, which all last until the end."""
    seconds *= setting.lasts
    host = Link(HOST_MBPS, HOST_MS, offload_bytes=setting.offload_bytes)
    network = dumbbell(PAIRS, host, Link(setting.rate_mbps, setting.round_trip_ms / 2 - 2 * HOST_MS, queue_of(setting)))
    starts = np.random.default_rng(seed).uniform(0, min(START_WITHIN_S, WARM_UP * seconds), setting.flows)
    traffic, kinds = [], setting.senders.split()
    for place, start in enumerate(map(float, starts)):
        pair, kind = 1 + place % PAIRS, kinds[place * len(kinds) // setting.flows]
        ends = f"h{pair}", f"h{PAIRS + pair}"
        traffic.append(Flow(*ends, size_bytes=ENDLESS_BYTES, start_s=start, congestion_control=kind))
    # A recovery lasts a round trip with a full queue, so there is at most one halving between two samples.
    interval_ms = (setting.round_trip_ms + setting.queue_ms) / 2
    # Slow start loses more than all that follows.
    watched = Measure(windows_interval_ms=interval_ms, since_s=WARM_UP * seconds)
    tcp = Tcp(counts="acknowledgements") if setting.grows_by_acknowledgements else Tcp()
    return Experiment(network, tuple(traffic), seconds, seed, watched, tcp=tcp)


def count_halvings(windows: pd.DataFrame) -> int:
    """Count the halvings of all flows in samples of their windows (flow, window_bytes, slow_start_threshold_bytes).

    A halving changes the threshold. Where it sets the same threshold again, a window that had grown above it falls
    back.
    """
    if windows.empty:
        return 0
    order = windows.assign(sample=windows.groupby("flow").cumcount())
    threshold, window = (
        order.pivot(index="sample", columns="flow", values=name).to_numpy() / SEGMENT_BYTES
        for name in ("slow_start_threshold_bytes", "window_bytes")
    )
    count, is_down, is_grown = 0, np.full(window.shape[1], True), window[0] >= threshold[0] + 3
    for before, limit, now in zip(threshold[:-1], threshold[1:], window[1:], strict=True):
        is_cut = (limit < before) | (limit > before) | (is_grown & (now <= limit + 1))
        count += int(is_cut.sum())
        is_down = (now <= limit + 1) | (is_down & ~is_cut)
        is_grown = ~is_cut & (is_grown | (is_down & (now >= limit + 3)))
    return count


def read(run: Measurements, setting: Setting) -> Reading:
    """Read a run after its warm-up: loss_rate and halving_rate (per packet), the law's constants from both, jain of all
    flows, share of the first kind of senders, mean_round_trip_ms. Halvings are NaN unless all flows are NewReno, the
    share is NaN for one kind of senders."""
    seconds = run.experiment.duration_s - run.experiment.measure.since_s
    mbps = run.flows["delivered_bytes"] * 8e-6 / seconds
    counts = ["sent_packets", "dropped_packets", "sent_bytes"]
    sent, dropped, sent_bytes = map(int, run.links_by_port.loc[("s1", "s2"), counts])
    windows = run.windows
    round_trip_ms, kinds = float(windows["round_trip_ms"].mean()), setting.senders.split()
    halvings = count_halvings(windows) if kinds == ["reno"] else np.nan
    loss_rate, halving_rate = (count / max(1, sent + dropped) for count in (dropped, halvings))
    each_round_trip = float(mbps.mean()) * 125 * round_trip_ms / SEGMENT_BYTES  # segments
    numbers = {
        "flows": setting.flows,
        "loss_rate": loss_rate,
        "halving_rate": halving_rate,
        "losses_per_halving": dropped / halvings if halvings else np.nan,
        "constant_losses": each_round_trip * loss_rate**0.5 if halvings > 0 else np.nan,
        "constant_halvings": each_round_trip * halving_rate**0.5,
        "jain": jain(mbps),
        "share": mbps[run.flows["congestion_control"] == kinds[0]].sum() / mbps.sum() if len(kinds) > 1 else np.nan,
        "mean_round_trip_ms": round_trip_ms,
    }
    busy = sent_bytes * 8e-6 / seconds / setting.rate_mbps
    return Reading(numbers, checks=[Check("utilisation after the warm-up", busy, 0.9, 1.01)])


def at(values: pd.Series, rate_mbps: float | None = None) -> pd.Series:
    """Select the values at a rate, by default the greatest measured; the result is indexed by flows_per_100_mbps."""
    return values.xs(rate_mbps or max(values.index.get_level_values("rate_mbps")), level="rate_mbps")


def scale_to_edge(edge: pd.Series, scale: pd.Series | None = None) -> float:
    """Divide the values at scale by those at the edge with as many flows for 100 Mb/s; return the mean ratio."""
    return float((at(edge if scale is None else scale) / at(edge, EDGE_MBPS)).mean())


def least_at_scale(values: pd.Series) -> float:
    """Return the least value at scale."""
    return float(at(values).min())


def ratio_at_100_ms(values: pd.Series) -> float:
    """Divide the value at scale by that at the edge, both at a round trip of 100 ms."""
    return scale_to_edge(values.xs(FAR_MS[0], level="round_trip_ms"))


def rank_bbr(*shares: pd.Series) -> list[str]:
    """Rank BBR and its loss-based neighbours. BBR is first if its least lead (ratio of shares) is above LEAST_LEAD."""
    share = min(map(least_at_scale, shares))
    return greatest_first(BBR, "loss-based")(share / (1 - share), LEAST_LEAD)


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    low, high = runs.summary().loc[NEWRENO].min(), runs.summary().loc[NEWRENO].max()
    bbr = runs.summary().loc[BBR]["jain"]
    costs = " to ".join(dict.fromkeys(f"{each.losses_per_halving:.2g}" for each in (low, high)))
    return (
        f"From {low.flows:.0f} to {high.flows:.0f} NewReno flows Mathis's constant is {low.constant_halvings:.3g} to "
        f"{high.constant_halvings:.3g} with the halving rate and {low.constant_losses:.3g} to "
        f"{high.constant_losses:.3g} with the loss rate, as a halving costs {costs} packets; "
        f"Jain's index of BBR flows is {bbr.min():.3g} to {bbr.max():.3g}."
    )


CLAIMS = {
    "loss-rate-misleads-at-scale": Evidence("constant_losses", NEWRENO_FAR, SINGLE_DROPS_FAR, ratio_at_100_ms),
    "halving-rate-holds-at-scale": Evidence("constant_halvings", (NEWRENO,) * 2, (NEWRENO, HALF_GROWTH), scale_to_edge),
    "losses-per-halving-at-edge": Evidence(
        "losses_per_halving", NEWRENO, SINGLE_DROPS, lambda it: at(it, EDGE_MBPS).mean()
    ),
    "losses-per-halving-at-scale": Evidence(
        "losses_per_halving", NEWRENO_FAR, SINGLE_DROPS_FAR, lambda it: float(at(it).mean())
    ),
    "newreno-fair-at-scale": Evidence("jain", NEWRENO, CUBIC_RENO, least_at_scale),
    "cubic-fair-at-scale": Evidence("jain", CUBIC, CUBIC_RENO, least_at_scale),
    "bbr-unfair-at-scale": Evidence("jain", BBR_FAR, FAIR_BBR_FAR, least_at_scale),
    "cubic-over-newreno-at-scale": Evidence("share", CUBIC_RENO, FAIR_MIXES[0], least_at_scale),
    "bbr-over-loss-based-at-scale": Evidence("share", tuple(WITH_BBR), tuple(FAIR_MIXES[1:]), rank_bbr),
}


def draw_idea() -> Figure:
    """Draw three windows that are halved at different times, and the packets lost at each halving."""
    figure, axis = new_figure("One halving may cost several packets (x: lost)", "time", "windows of three flows")
    for place, times in enumerate(np.tile(np.linspace(0, 4, 801), (3, 1))):
        axis.plot(times, 3 * place + 1 + (times + place / 3) % 1, color=scheme("reno").colour)
        lost = [cut + 0.06 * packet for cut in np.arange(1, 4.9) - place / 3 for packet in range(1 + place)]
        axis.plot(lost, [3 * place + 0.6] * len(lost), "x", color="black")
    axis.set(xticks=[], yticks=[], ylim=(0, 10))
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network with its rates, delays and buffer."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "Ten pairs of hosts, many flows, one bottleneck")


def of_newreno(y: str, label: str, *levels: Level) -> Panel:
    """Make a panel of NewReno: a reading over the number of flows, with a curve for each number of flows for 100
    Mb/s."""
    sweep = Sweep("flows", y, lambda runs: runs.numbers(NEWRENO), by="flows_per_100_mbps", label="{} for 100 Mb/s")
    return Panel("flows", label, sweep, *levels, log="x", y_range=(0, None))


def bars(y: str, label: str, *cases: str) -> Panel:
    """Make a panel with a bar for each case, above the edge's rate and with most flows for it."""
    lines = {name: name.replace(", ", ",\n").replace(" + ", "\n+ ") for name in cases}

    def rows(runs: Runs) -> pd.DataFrame:
        rows = runs.values.query("tier == @runs.tier and flows_per_100_mbps == @MOST and rate_mbps > @EDGE_MBPS")
        return rows[rows["case"].isin(cases)].replace({"case": lines})

    return Panel("", label, Bars(y, rows))


JAIN, LOSSES, SHARE = "Jain's index (1: fair)", "lost packets / halvings (ratio)", "share of the first kind (ratio)"
OVER_BURSTS = Sweep("offload_bytes", "losses_per_halving", "offload", by="rate_mbps", label="{} Mb/s")
OVER_BUFFERS, OVER_ROUND_TRIPS = Sweep("buffer_ms", "share", "buffer"), Sweep("round_trip_ms", "jain", "round_trip")
LEVELS = Level(1.7, "published, at the edge"), Level(7.5, "published, at scale (6 to 9)")
FIGURES = {
    "constants": Picture(
        "Mathis's law with the loss rate and with the halving rate",
        of_newreno("constant_losses", "C, loss rate (no unit)"),
        of_newreno("constant_halvings", "C, halving rate (no unit)", Level(DERIVED, "derived: {}", published=False)),
        of_newreno("losses_per_halving", LOSSES, *LEVELS),
    ),
    "fairness": plot("Flows that all speak the same", "flows", JAIN, Sweep("flows", "jain", KINDS), log="x"),
    "shares": Picture("As many of one kind as of the other", bars("share", SHARE, *MIXES, *FAIR_MIXES)),
    "control": Picture(
        "With the mechanisms broken",
        bars("losses_per_halving", LOSSES, NEWRENO, SINGLE_DROPS),
        bars("constant_halvings", "C, halving rate (no unit)", NEWRENO, HALF_GROWTH),
        bars("jain", JAIN, BBR, FAIR_BBR),
    ),
    "knob_scale": plot("More flows", "flows", LOSSES, Sweep("flows", "losses_per_halving", "scale"), *LEVELS, log="x"),
    "knob_offload": plot("Bursts make a halving dearer", "burst at most (bytes)", LOSSES, OVER_BURSTS, *LEVELS),
    "knob_buffer": plot("The buffer decides between kinds", "buffer (ms at the link's rate)", SHARE, OVER_BUFFERS),
    "knob_round_trip": plot("Longer round trips", "round trip (ms)", JAIN, OVER_ROUND_TRIPS, y_range=(0, 1.05)),
}


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw what each flow of one run delivered after the warm-up, greatest first."""
    figure, axis = new_figure(case, "flow, the greatest first", "delivered (MB)")
    for kind, rows in run.flows.sort_values("delivered_bytes", ascending=False, ignore_index=True).groupby(
        "congestion_control"
    ):
        axis.bar(rows.index, rows["delivered_bytes"] / 1e6, color=scheme(kind).colour, label=scheme(kind).label)
    axis.legend()
    return figure


def over(rates: tuple[float, ...], densities: tuple[int, ...] = (MOST,), **changes: object) -> dict[str, object]:
    """Make the changes of a case that runs with each of these rates and numbers of flows for 100 Mb/s."""
    return {"rate_mbps": swept(*rates), "flows_per_100_mbps": swept(*densities), **changes}


AT_SCALE, AT_EDGE = [claim for claim in CLAIMS if claim.endswith("at-scale")], {"rate_mbps": ALL[:1]}
ON_KERNEL = Scale(100.0, only=AT_EDGE | {"flows_per_100_mbps": (MOST,)}, unjudged=AT_SCALE, without=CASES_FAR)


def in_part(asked: Setting) -> bool:
    """Tell whether a profile runs it: at scale and 20 ms only with most flows for a rate, as fewer take long for one
    cycle of their windows."""
    return asked.flows_per_100_mbps == MOST or asked.rate_mbps == EDGE_MBPS or asked.round_trip_ms in FAR_MS


PART = Scale(100.0, only={"rate_mbps": ALL[::2]}, where=in_part)
# In half a minute a window at 100 ms has not had its cycle, and BBR has not found the round trip.
FAR_CLAIMS = [claim for claim, evidence in CLAIMS.items() if set(evidence.case_names) <= set(CASES_FAR)]
FAR: dict[str, Any] = {"round_trip_ms": swept(*FAR_MS)}
SHORT, BURSTS, BUFFERS = Scale(30.0), {"offload_bytes": swept(0, 5792, 65_536)}, {"buffer_ms": swept(20.0, 60.0, 240.0)}
FASTER = {"rate_mbps": swept(*ALL, 10_000.0)}  # as in the paper
_DELIVERED = {"table": "flows", "column": "delivered_bytes"}
LIVE = LiveRun(
    {
        "jain": Gauge("Jain's index of all flows", "(1: fair)", _DELIVERED | {"reduce": "jain"}),
        "loss_rate": DROPPED_PACKETS,
        "mean_round_trip_ms": Gauge("mean round trip", "ms", {"table": "windows", "column": "round_trip_ms"}),
    },
    {"table": "windows", "column": "window_bytes", "times": 1e-3},
    "window of a flow (kB)",
    {
        "flows_per_100_mbps": (2, 5, 10, 30, 50),
        "round_trip_ms": (10.0, 20.0, 100.0),
        "buffer_ms": (5.0, 20.0, 240.0),
    },
    lambda _: ("s1", "s2"),
    cases=(NEWRENO, CUBIC, BBR, CUBIC_RENO),
    broken={NEWRENO: SINGLE_DROPS, BBR: FAIR_BBR, CUBIC_RENO: FAIR_MIXES[0]},
    changes={"rate_mbps": EDGE_MBPS, "lasts": 1.0},
)
STUDY = Study(
    slug="tcp_at_scale",
    setting=Setting(),
    cases={
        NEWRENO: over(ALL, DENSITIES, lasts=LONG),
        CUBIC: over(ALL, DENSITIES, senders="cubic", lasts=LONG),
        BBR: over(ALL, DENSITIES, senders="bbr", lasts=2.0),
        **{case: over(ALL[1:], senders=kinds) for case, kinds in MIXES.items()},
        SINGLE_DROPS: over(ALL, queue=EARLY),
        HALF_GROWTH: over(ALL[1:], grows_by_acknowledgements=True),
        **{case: over(ALL[1:], senders=kinds, queue=FAIR) for case, kinds in FAIR_CASES.items()},
        NEWRENO_FAR: over(ALL, (FEWEST,), lasts=LONG, **FAR),
        SINGLE_DROPS_FAR: over(ALL, (FEWEST,), lasts=LONG, queue=EARLY, **FAR),
        BBR_FAR: over(ALL[1:], DENSITIES, senders="bbr", lasts=2.0, **FAR),
        FAIR_BBR_FAR: over(ALL[1:], senders="bbr", lasts=2.0, queue=FAIR, **FAR),
    },
    experiment=experiment,
    read=read,
    answer=answer,
    scales={
        "quick": replace(
            PART,
            seconds=36.0,
            repetitions=3,
            only={"rate_mbps": ALL[:2]},
            fewer=dict.fromkeys(CONTROLS, 2),
            without=CASES_FAR,
            unjudged=[*LONG_CLAIMS, *FAR_CLAIMS],
        ),
        "paper": PART,
        ("quick", VIRTUAL): replace(ON_KERNEL, seconds=18.0, repetitions=1),
        ("paper", VIRTUAL): ON_KERNEL,
    },
    claims=CLAIMS,
    knobs={
        "scale": Knob({NEWRENO: FASTER}, SHORT, quick=replace(SHORT, only={"rate_mbps": ALL})),
        "offload": Knob({NEWRENO: {"rate_mbps": swept(*ALL[:2]), **BURSTS}}, SHORT),
        "buffer": Knob({case: {"senders": kinds, **BUFFERS} for case, kinds in MIXES.items()}, Scale(36.0)),
        "round_trip": Knob({BBR: {"senders": "bbr", "round_trip_ms": swept(20.0, 100.0, 200.0)}}, Scale(100.0)),
    },
    figures=FIGURES,
    play=Play(
        (NEWRENO, CUBIC, BBR, *MIXES),
        {"flows_per_100_mbps": (2, 50, 1), "round_trip_ms": (4.0, 200.0, 2.0), "buffer_ms": (5.0, 300.0, 5.0)},
        draw_run,
        live=LIVE,
    ),
)
