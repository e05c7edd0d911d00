"""The queueing model of RepFlow: Liu et al., "RepNet" (IEEE TSC 2018), section 3, Figs 5 to 8.

Two computations of the same quantities: the paper's formulas, and a simulation of the model behind them. Completion
times are divided by the time without contention and have no unit. Packet times are at the rate of a path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.errors import NetreproError
from netrepro.networks.flow_sizes import FlowSizeDistribution, load_flow_sizes
from netrepro.queueing.mg1 import md1_wait_quantile, mean_wait, mm1_wait_quantile, tail_wait_exponential
from netrepro.queueing.replicated_flows import (
    ReplicatedPaths,
    simulate_delays,
    simulate_first_open_delays,
    slow_start_rounds,
    window_rounds,
)
from netrepro.queueing.replication import ReplicationModel
from netrepro.queueing.service import ConstantService, ExponentialService, Service
from netrepro.study import (
    Check,
    Evidence,
    Knob,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    pictures,
    seed_and_repetition,
    swept,
)
from netrepro.study.evidence import least_first
from netrepro.study.figures import Course, Level, Mark, Panel, Picture, Sweep, plot
from netrepro.study.setting import parameter
from netrepro.style import CURVES, new_figure, scheme

LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
QUANTITIES = {
    "short_mean": (5, "mean completion time of short flows", ReplicationModel.short_mean),
    "long_mean": (6, "mean completion time of long flows", ReplicationModel.long_mean),
    "short_p99": (7, "99th percentile of short flows", ReplicationModel.short_tail),
    "long_p99": (8, "99th percentile of long flows", ReplicationModel.long_tail),
}
FCT_AXIS = "completion time (times that without contention)"
LOAD_AXIS = "load without replicas (share of capacity)"


@dataclass(frozen=True)
class Setting:
    """The model's assumptions; the defaults are the paper's.

    workload : a name or file for load_flow_sizes, or a flow size distribution. extra_load : None for the share of bytes
        that the workload has in short flows.
    copies, paths, path_choice : of replicated flows, see ReplicatedPaths; the analysis assumes that the paths of the
        two copies are different and independent.
    short_round_gap_packets : mean time between rounds of short flows (packet times): the testbed's round trip, 178 us
        at 1 Gb/s. long_round_gap_packets : of long flows, whose window takes 44 packet times to send.
    window_packets : packets that a long flow sends in a round.
    whole_rounds : round a flow's rounds up, as TCP must; the formulas do not.
    exponential_bursts : burst sizes exponential instead of constant, which breaks (3) to (8).
    short_flows, long_flows : number of simulated flows in a run; 0 leaves such flows out.
    with_looks : sample how often the paths are busy, which costs as much as the short flows do.
    with_repsyn : simulate short flows with RepSYN, too: as many connections as `copies`, of which the one whose SYN
        waited least carries the data. Its paths carry no copies.

    The formulas do not use paths, choice, gaps, whole rounds and exponential bursts, and there is none for RepSYN.
    """

    workload: str | FlowSizeDistribution = parameter(
        "web_search", "flow sizes; a CSV file holds a distribution", one_of=("web_search", "data_mining", "a file")
    )
    extra_load: float | None = parameter(
        0.05, "load that one more copy of each short flow adds, the paper's ε", "share of the load", low=0, high=1
    )
    initial_window_packets: float = parameter(
        3.0, "first window of slow start, the paper's k", "packets", low=1, high=1000
    )
    burst_packets: float = parameter(44.0, "window of long flows, the paper's M", "packets", low=1, high=100_000)
    long_flow_packets: float = parameter(
        68.0, "flows up to this size are short, the paper's S_L", "packets", low=1, high=1_000_000
    )
    load: float = parameter(0.5, "load at which section 10 turns its knobs", "share of capacity", above=0, below=0.71)
    copies: int = 2
    paths: int = 2
    path_choice: str = "distinct"
    short_round_gap_packets: float = 15
    long_round_gap_packets: float = 44
    window_packets: float = 44
    whole_rounds: bool = False
    exponential_bursts: bool = False
    short_flows: int = 0
    long_flows: int = 0
    with_looks: bool = False
    with_repsyn: bool = False

    @property
    def sizes(self) -> FlowSizeDistribution:
        """The workload's flow sizes."""
        return load_flow_sizes(self.workload) if isinstance(self.workload, str) else self.workload

    @cached_property
    def model(self) -> ReplicationModel:
        """The formulas under these assumptions."""
        own = (self.extra_load, self.initial_window_packets, self.burst_packets, self.long_flow_packets)
        return ReplicationModel(self.sizes.in_packets(), *own)

    @property
    def bursts(self) -> Service:
        """The bursts that load the paths."""
        kind = ExponentialService if self.exponential_bursts else ConstantService
        return kind(self.burst_packets)


# The reading of the web-search figure that the authors themselves drew from: data/flow_sizes/SOURCES.md.
DRAWN_SIZES = "web_search_authors"
# In packet times: 17 times the memory of a queue at load .5, M / (1 - load)^2, and 6 times that at .7.
INDEPENDENT_ROUNDS = 3_000.0


# Closed form.


def closed_form(setting: Setting, loads: Sequence[float] | np.ndarray = LOADS) -> pd.DataFrame:
    """Compute Figs 5 to 8 by (3) to (8): quantity (key of QUANTITIES), scheme ("tcp", "repflow"), load, normalised_fct
    (infinite where the replicas fill the paths). Raises NetreproError for loads outside [0, 1)."""
    model, at = setting.model, np.asarray(loads, dtype=float)
    parts = [
        pd.DataFrame({"quantity": quantity, "scheme": name, "load": at, "normalised_fct": formula(model, at, copies)})
        for quantity, (*_, formula) in QUANTITIES.items()
        for name, copies in (("tcp", 1), ("repflow", setting.copies))
    ]
    return pd.concat(parts, ignore_index=True)


def tail_over_formula(setting: Setting, load: float) -> float:
    """Divide the 99th percentile of the bursts' wait (M/D/1, or M/M/1) by the paper's 2 ln 10 E[W] for constant
    bursts."""
    exact = mm1_wait_quantile if setting.exponential_bursts else md1_wait_quantile
    mean = mean_wait(load, ConstantService(setting.burst_packets))
    return exact(0.99, load, setting.burst_packets) / tail_wait_exponential(0.99, mean)


def shares(sizes: FlowSizeDistribution) -> dict[str, float]:
    """Compute the shares (0..1) that the paper gives for its flow sizes."""
    in_bytes = sizes.in_bytes()
    return {
        "flows_below_100_kb": in_bytes.share_of_flows_below(100e3),
        "flows_above_1_mb": 1 - in_bytes.share_of_flows_below(1e6),
        "bytes_above_1_mb": 1 - in_bytes.share_of_bytes_below(1e6),
        "bytes_below_100_kb": in_bytes.share_of_bytes_below(100e3),
    }


def readings() -> pd.DataFrame:
    """Compare the readings of the web-search figure with the paper's text: a row for each; shares in 0..1."""
    names = (DRAWN_SIZES, "web_search", "web_search_bytes")
    rows = {name: list(shares(load_flow_sizes(name)).values()) for name in names}
    rows["the paper"] = [0.6, 0.3, 0.95, Setting().model.epsilon]
    columns = ["flows below 100 KB", "flows above 1 MB", "bytes above 1 MB", "bytes below 100 KB (ε)"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("reading")


def _formulas(setting: Setting) -> Reading:
    """Read what needs no simulation: the sizes, the tail of the wait, and the curves of Figs 5 to 8."""
    numbers = shares(setting.sizes) | {f"wait_tail_at_{load}": tail_over_formula(setting, load) for load in (0.5, 0.8)}
    curves, here = (closed_form(setting, loads) for loads in (np.linspace(0.02, 0.98, 97), [setting.load]))
    tables = {"formulas": curves, "formulas_at_load": here}
    return Reading(numbers, {name: table.rename(columns={"load": "at_load"}) for name, table in tables.items()})


# Simulation.


def measure_one(setting: Setting, seconds: float, seed: Any, tier: str) -> Reading:
    """Simulate flows at one load: delays over parallel queues, of which a flow has the least over its copies. Without
    flows, read what needs no simulation.

    Loads are those without replicas; RepFlow's paths carry (1 + (copies - 1) ε) times as much. All schemes have the
    same seed, so that ratios are paired. "busy" is the share of looks in which every copy would wait.

    Raises NetreproError when the paths would be full.
    """
    if not (setting.short_flows or setting.long_flows):
        return _formulas(setting)
    model, load = setting.model, setting.load
    if not 0 < (busiest := float(model.path_load(load, setting.copies))) < 1:
        raise NetreproError(
            f"load {load:g} and ε = {model.epsilon:g} load the paths to {busiest:.3g}",
            "simulate loads above 0 that leave the paths below 1 with the replicas on them",
        )
    sizes_seed, *queue_seeds = np.random.SeedSequence(seed).generate_state(4, np.uint64).tolist()
    random = np.random.default_rng(sizes_seed)
    limit, sizes, whole = setting.long_flow_packets, setting.sizes.in_packets(), setting.whole_rounds
    short = sizes.conditional(None, limit).sample(random, setting.short_flows)
    long = sizes.conditional(limit, None).sample(random, setting.long_flows)
    short_rounds = slow_start_rounds(short, setting.initial_window_packets, whole)
    long_rounds = window_rounds(long, setting.window_packets, whole)
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    for name, copies in (("tcp", 1), ("repflow", setting.copies)):
        # Short flows have several copies, long ones one; both use paths that carry the copies.
        path_load = float(model.path_load(load, copies))
        replicated = _paths(setting, path_load, copies, setting.short_round_gap_packets)
        alone = _paths(setting, path_load, 1, setting.long_round_gap_packets)
        if setting.short_flows and setting.with_looks:
            looks = simulate_delays(replicated, np.ones(setting.short_flows), seed=queue_seeds[0]).min(axis=1) > 0
            numbers[f"busy_{name}"] = float(looks.mean())
            checks += [_busy_as_loaded(looks, load)] if copies == 1 else []
        if setting.short_flows:
            delays = simulate_delays(replicated, short_rounds, seed=queue_seeds[1]).min(axis=1)
            numbers |= _summary("short", name, delays / short + 1)
        if setting.long_flows:
            delays = simulate_delays(alone, long_rounds, seed=queue_seeds[2])[:, 0]
            numbers |= _summary("long", name, delays / long + 1)
    if setting.short_flows and setting.with_repsyn:
        opened = _paths(setting, load, setting.copies, setting.short_round_gap_packets)
        delays = simulate_first_open_delays(opened, short_rounds, seed=queue_seeds[1])
        numbers |= _summary("short", "repsyn", delays / short + 1)
    return Reading(numbers | _compared(numbers, setting), checks=checks)


def _paths(setting: Setting, path_load: float, copies: int, round_gap_packets: float) -> ReplicatedPaths:
    return ReplicatedPaths(
        path_load,
        setting.bursts,
        paths=setting.paths,
        copies=copies,
        path_choice=setting.path_choice,
        round_gap_packets=round_gap_packets,
        flow_gap_packets=max(1000.0, round_gap_packets),
    )


def _summary(kind: str, name: str, completion: np.ndarray) -> dict[str, float]:
    p99 = float(np.quantile(completion, 0.99))
    return {f"{kind}_mean_{name}": float(completion.mean()), f"{kind}_p99_{name}": p99}


def _compared(numbers: Mapping[str, float], setting: Setting) -> dict[str, float]:
    """Divide RepFlow's numbers by TCP's, and each scheme's by its formula."""
    ratios = {}
    for quantity, (*_, formula) in QUANTITIES.items():
        if f"{quantity}_tcp" in numbers:
            ratios[f"{quantity}_ratio"] = numbers[f"{quantity}_repflow"] / numbers[f"{quantity}_tcp"]
            for name, copies in (("tcp", 1), ("repflow", setting.copies)):
                expected = float(formula(setting.model, setting.load, copies))
                ratios[f"{quantity}_{name}_over_formula"] = numbers[f"{quantity}_{name}"] / expected
    return ratios


def _busy_as_loaded(looks: np.ndarray, load: float) -> Check:
    """Check that a path is busy with the probability of its load: within 5 standard errors, or 2 %. The error is that
    of batches, since successive looks at a queue are correlated. It uses nothing of the paper."""
    batches = [batch.mean() for batch in np.array_split(looks, min(50, len(looks)))]
    allowed = max(5 * np.std(batches, ddof=1) / np.sqrt(len(batches)), 0.02 * load)
    return Check("busy paths less the load (of what is allowed)", abs(looks.mean() - load) / allowed, at_most=1.0)


# Cases.

AS_PRINTED, SAME_PATH, FAR_APART, FORMULAS = "as printed", "same path", "independent rounds", "formulas"
EXPONENTIAL, AUTHORS_SIZES = f"{FORMULAS}, exponential bursts", f"{FORMULAS}, the sizes that the authors drew"
DRAWN = "the sizes that the authors drew, with their own ε"
OVER_4, OVER_7 = "short_mean_repflow_over_formula", "long_p99_tcp_over_formula"
_DRAWN: dict[str, Any] = {"workload": DRAWN_SIZES, "extra_load": None}
_ALL, _SHORT, _LONG = {"with_looks": True, "with_repsyn": True}, {"long_flows": 0}, {"short_flows": 0}
_NONE = _SHORT | _LONG
_FAR_APART = _SHORT | {
    "short_round_gap_packets": INDEPENDENT_ROUNDS,
    "short_flows": lambda setting: round(setting.short_flows / 4),
}
CASES: dict[str, dict[str, Any]] = {
    AS_PRINTED: {"load": swept(*LOADS), **_ALL},
    SAME_PATH: {"load": swept(*LOADS), "path_choice": "same", **_ALL, **_SHORT},
    FAR_APART: {"load": swept(0.1, 0.3, 0.5, 0.7), **_FAR_APART},
    f"{SAME_PATH}, {FAR_APART}": {"load": swept(0.5), "path_choice": "same", **_FAR_APART},
    "exponential bursts": {"load": swept(0.5, 0.8), "exponential_bursts": True},
    DRAWN: {"load": swept(0.5, 0.9), **_DRAWN, **_LONG},
    "copies add half": {"load": swept(0.5), **_DRAWN, "extra_load": 0.5, **_LONG},
    "copies add a tenth": {"load": swept(0.9), **_DRAWN, "extra_load": 0.1, **_LONG},
    "one packet a round": {
        "load": swept(0.5),
        "window_packets": 1,
        "long_round_gap_packets": 1,
        "long_flows": lambda setting: round(setting.long_flows / 5),
    },
    FORMULAS: _NONE,
    EXPONENTIAL: {"exponential_bursts": True, **_NONE},
    AUTHORS_SIZES: {**_DRAWN, **_NONE},
}


# Figures.


def _formula(quantity: str, name: str, label: str, rows: str = "0.1 <= at_load <= 0.9") -> Course:
    look = {"label": label, "color": scheme(name).colour}
    rows = f"{rows} and quantity == {quantity!r} and scheme == {name!r}"
    return Course("formulas", "normalised_fct", {FORMULAS: look}, "at_load", rows)


def _simulated(quantity: str, name: str, case: str, label: str, **look: Any) -> Sweep:
    own = {"label": f"{scheme(name).label}, {label}", "color": scheme(name).colour, "marker": scheme(name).marker}
    return Sweep("load", f"{quantity}_{name}", {case: own | {"linestyle": "none"} | look})


def _completion(quantity: str, case: str = AS_PRINTED) -> Picture:
    """Make one of Figs 5 to 8: the formulas, and the simulation of a case. Stars mark the sizes on which claims are
    judged."""
    number, words, _ = QUANTITIES[quantity]
    marks: list[Mark] = [_formula(quantity, name, f"{scheme(name).label}, formula") for name in ("tcp", "repflow")]
    marks += [_simulated(quantity, name, case, "simulated") for name in ("tcp", "repflow")]
    if quantity.startswith("short"):
        marks.append(_simulated(quantity, "repsyn", case, "simulated"))
    else:
        star = {
            "marker": "*",
            "markersize": 11,
            "markerfacecolor": "white",
            "markeredgecolor": scheme("repflow").colour,
        }
        marks.append(_simulated(quantity, "repflow", DRAWN, "simulated, with the ε of the sizes", **star))
    title = f"Fig. {number} broken: both copies share one path" if case == SAME_PATH else f"Fig. {number}: {words}"
    return plot(title, LOAD_AXIS, FCT_AXIS, *marks, log="y")


def _tails(runs: Runs) -> pd.DataFrame:
    ratios = [1 / tail_over_formula(runs.setting, load) for load in LOADS]
    return pd.DataFrame({"load": LOADS, "ratio": ratios, "case": "the paper's: 2 ln 10 E[W]"})


def _knob(knob: str) -> Picture:
    """Make the picture of the mean and 99th percentile of short flows over one knob."""
    panels, names = [], ("tcp", "repflow", "repsyn")
    for quantity in ("short_mean", "short_p99"):
        marks = (Sweep(knob, f"{quantity}_{name}", knob, looks={"testbed": name}) for name in names)
        panels.append(Panel(KNOBS[knob][0], FCT_AXIS, *marks, title=QUANTITIES[quantity][1], y_range=(1, None)))
    return Picture("What matters, at the load of section 3", *panels)


def draw_idea() -> Figure:
    """Draw the queues that the two copies of a short flow of four rounds meet on two independent paths.

    The curves are the backlog of two queues fed by Poisson bursts, as in the simulation.
    """
    load, burst_packets, random = 0.7, 44, np.random.default_rng(3)
    times, rounds = np.arange(0, 1200, 0.5), np.array([300, 500, 700, 900])
    title, names = "One flow on two paths: the copy that waits less decides", ["copy on path 1", "copy on path 2"]
    figure, axes = pictures.panels(title, "time (packet times)", "wait (packet times)", names)
    for name, axis in zip(("tcp", "repflow"), axes, strict=True):
        arrivals = np.sort(random.uniform(0, times[-1], random.poisson(load / burst_packets * times[-1])))
        walk = burst_packets * np.searchsorted(arrivals, times, side="right") - times
        wait = walk - np.minimum(np.minimum.accumulate(walk), 0)
        met = np.interp(rounds, times, wait)
        axis.plot(times, wait, color="#444444", linewidth=1, label="backlog of the queue")
        look = scheme(name)
        axis.vlines(rounds, 0, met, color=look.colour, linewidth=3)
        axis.plot(rounds, met, look.marker, color=look.colour, markersize=8, label=f"four rounds wait {met.sum():.0f}")
        axis.set_ylim(0, 160)
        axis.legend(loc="upper left")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the model's network: parallel queues between a sender that hashes its copies and a receiver."""
    figure, axis = new_figure("The model: parallel M/G/1 queues, first come first served", "", "")
    axis.axis("off")
    middle, path_load = (setting.paths - 1) / 2, float(setting.model.path_load(setting.load, setting.copies))
    for path in range(setting.paths):
        for ends in (((0.9, path), (0.0, middle)), ((3.0, middle), (2.1, path))):
            axis.annotate("", *ends, arrowprops={"arrowstyle": "->", "color": "#888888"})
        axis.plot([0.95, 2.1, 2.1, 0.95], [path - 0.2, path - 0.2, path + 0.2, path + 0.2], color=scheme("tcp").colour)
        axis.text(1.5, path, f"path {path + 1}: load {path_load:.3f}", ha="center", va="center", fontsize=9)
    axis.text(-0.05, middle, f"{setting.copies} copies of\neach short flow\n({setting.path_choice} paths)", ha="right")
    axis.text(3.05, middle, "the first copy\nto end counts", ha="left")
    bursts = f"Poisson bursts of {setting.burst_packets:g} packets at load {setting.load:g}"
    axis.text(1.5, -0.7, f"{bursts}, ε = {setting.model.epsilon:.3g} more", ha="center", color="#555555")
    axis.set(xlim=(-1.2, 4.2), ylim=(-0.9, setting.paths - 0.4))
    return figure


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    means = runs.summary()
    short, long = means["short_mean_ratio"], means["long_mean_ratio"]
    return (
        f"In the model, sending short flows on two independent paths cuts their mean completion time by "
        f"{1 - short[AS_PRINTED, 0.5]:.0%} at load .5 and {1 - short[AS_PRINTED, 0.9]:.0%} at load .9; "
        f"with both copies on one path it grows by {short[SAME_PATH, 0.5] - 1:.0%}; "
        f"long flows take {long[DRAWN, 0.9] - 1:.0%} longer at load .9 with the ε of the authors' own sizes."
    )


def draw_panel(reading: Reading, case: str) -> Figure:
    """Draw Figs 5 to 8 side by side by the formulas, with the values at the setting's load."""
    at_load = reading["formulas_at_load"].set_index(["quantity", "scheme"])
    load = at_load.at_load.iloc[0]
    names = [f"Fig. {number}: {words}" for number, words, _ in QUANTITIES.values()]
    figure, axes = pictures.panels(f"By the formulas, at load {load:g}", LOAD_AXIS, FCT_AXIS, names, log_y=True)
    curves = reading["formulas"].groupby(["quantity", "scheme"])
    for axis, quantity in zip(axes, QUANTITIES, strict=True):
        for name in ("tcp", "repflow"):
            rows, here = curves.get_group((quantity, name)), at_load.normalised_fct[quantity, name]
            label = f"{scheme(name).label}: {here:.3g}"
            axis.plot(rows.at_load, rows.normalised_fct, color=scheme(name).colour, label=label)
        axis.axvline(load, color=pictures.INK, linestyle=":")
        axis.set_ylim(1, 100)
        axis.legend()
    return figure


# The study.

# The testbed: three paths chosen by hashing, whole rounds, the workload's own ε.
TESTBED: dict[str, Any] = {"extra_load": None, "paths": 3, "path_choice": "hashed"}
TESTBED |= {"whole_rounds": True, "with_repsyn": True}
KNOBS: dict[str, tuple[str, tuple[int, ...]]] = {
    "paths": ("equal-cost paths (each copy hashed alone)", (1, 2, 3, 4, 6, 9)),
    "copies": ("copies of each short flow, or RepSYN's connections (1 is TCP)", (1, 2, 3, 4)),
}
WHERE_FORMULAS_HOLD = (
    (AS_PRINTED, "short_mean_tcp_over_formula", "(3) short, TCP", "o"),
    (AS_PRINTED, OVER_4, "(4) short, RepFlow", "s"),
    (AS_PRINTED, "long_mean_tcp_over_formula", "(5) long, TCP", "^"),
    (AS_PRINTED, OVER_7, "(7) 99th percentile of long, TCP", "v"),
    (FAR_APART, OVER_4, "(4), independent rounds", "D"),
)
_ENOUGH = {
    profile: Scale(changes={"short_flows": flows, "long_flows": 0})
    for profile, flows in (("quick", 40_000), ("paper", 40_000), ("test", 2_000))
}
_ONCE = dict.fromkeys([case for case in CASES if case.startswith(FORMULAS)], 1)
_LARGE_FLOWS = Evidence("flows_above_1_mb", AUTHORS_SIZES, exact=True)  # their share of bytes if all had equal sizes


def _scale(short_flows: int, long_flows: int) -> Scale:
    return Scale(changes={"short_flows": short_flows, "long_flows": long_flows}, fewer=_ONCE)


def _at(load: float) -> Callable[[pd.Series], float]:
    return lambda values: float(values[load])


def _at_worst_load(ours: Mapping[int, pd.Series], printed: Mapping[int, pd.Series]) -> list[float]:
    """Return each repetition's value at one load, the worst on average as printed. Taking each repetition's own worst
    load would favour noise."""
    worst = pd.DataFrame(printed).mean(axis=1).idxmax()
    return [float(values[worst]) for values in ours.values()]


def _order_of_tails(p99: pd.DataFrame) -> list[str]:
    return least_first("short flows", "long flows")(*p99.loc[0.5])


STUDY = Study(
    slug="repflow_model",
    setting=Setting(),
    cases=CASES,
    measure_one=measure_one,
    seeds=seed_and_repetition,  # several streams are drawn from it
    answer=answer,
    scales={"quick": _scale(40_000, 10_000), "paper": _scale(500_000, 100_000), "test": _scale(8_000, 1_500)},
    claims={
        "flows-below-100-kb": Evidence("flows_below_100_kb", AUTHORS_SIZES, exact=True),
        "flows-above-1-mb": _LARGE_FLOWS,
        "bytes-in-flows-above-1-mb": Evidence("bytes_above_1_mb", AUTHORS_SIZES, control=_LARGE_FLOWS, exact=True),
        "bytes-in-replicated-flows": Evidence("bytes_below_100_kb", AUTHORS_SIZES, exact=True),
        "formula-4-at-load-0.5": Evidence(OVER_4, AS_PRINTED, control=SAME_PATH, how=_at(0.5)),
        "formula-4-independent-rounds-at-load-0.5": Evidence(
            OVER_4, FAR_APART, control=f"{SAME_PATH}, {FAR_APART}", how=_at(0.5)
        ),
        "formula-7-at-load-0.5": Evidence(OVER_7, AS_PRINTED, control="exponential bursts", how=_at(0.5)),
        "tail-of-the-wait-at-load-0.5": Evidence("wait_tail_at_0.5", FORMULAS, control=EXPONENTIAL, exact=True),
        "tail-of-the-wait-at-load-0.8": Evidence("wait_tail_at_0.8", FORMULAS, control=EXPONENTIAL, exact=True),
        "short-mean-margin-at-worst-load": Evidence(
            "short_mean_ratio", (AS_PRINTED,) * 2, (SAME_PATH, AS_PRINTED), how=_at_worst_load, pooled=True
        ),
        "long-mean-at-load-0.5": Evidence("long_mean_ratio", DRAWN, control="copies add half", how=_at(0.5)),
        "long-mean-at-load-0.9": Evidence("long_mean_ratio", DRAWN, control="copies add a tenth", how=_at(0.9)),
        "long-p99-at-load-0.5": Evidence("long_p99_ratio", DRAWN, control="copies add half", how=_at(0.5)),
        "long-p99-at-load-0.9": Evidence("long_p99_ratio", DRAWN, control="copies add a tenth", how=_at(0.9)),
        "long-tail-below-short-tail": Evidence(
            ("short_p99_tcp", "long_p99_tcp"), AS_PRINTED, control="one packet a round", how=_order_of_tails
        ),
    },
    knobs={
        name: Knob({"testbed": {**TESTBED, name: swept(*values)}}, _ENOUGH, repetitions=2)
        for name, (_, values) in KNOBS.items()
    },
    figures={
        **{f"fig{number}_{quantity}": _completion(quantity) for quantity, (number, *_) in QUANTITIES.items()},
        "simulation_over_formula": plot(
            "Where the formulas hold",
            LOAD_AXIS,
            "ratio (simulated / formula)",
            *(
                Sweep("load", reading, {case: {"label": label, "color": colour, "marker": marker}})
                for colour, (case, reading, label, marker) in zip(CURVES, WHERE_FORMULAS_HOLD, strict=False)
            ),
            Level(1, "as the formula says", published=False),
        ),
        "wait_tails": plot(
            "The tail of the wait, approximated",
            "load (share of capacity)",
            "99th percentile (approximate / exact)",
            Sweep("load", "ratio", _tails),
            Level(1, "exact", published=False),
        ),
        "control_same_path": _completion("short_mean", SAME_PATH),
        **{f"knob_{name}": _knob(name) for name in KNOBS},
    },
    best=("fig5_short_mean", "fig7_short_p99", "fig8_long_p99", "control_same_path"),
    play=Play(
        (FORMULAS,),
        {
            "load": (0.05, 0.7, 0.05),
            "workload": ["web_search", "data_mining"],
            "extra_load": (0.0, 0.3, 0.005),
            "initial_window_packets": (1.0, 20.0, 1.0),
            "copies": (1, 4, 1),
        },
        draw_panel,
    ),
)
