"""The queueing model of RepFlow: Liu et al., "RepNet" (IEEE TSC 2018), section 3, Figs 5 to 8.

Two computations of the same quantities: the paper's formulas, and a simulation of what they describe.
Completion times are normalised by the time without contention and have no unit; packet times are at the rate
of a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.errors import NetreproError, nearest
from netrepro.networks.flow_sizes import KNOWN_FLOW_SIZES, FlowSizeDistribution, load_flow_sizes
from netrepro.queueing.mg1 import (
    md1_wait_quantile,
    mean_wait,
    mm1_wait_quantile,
    tail_wait_exponential,
    tail_wait_when_busy,
)
from netrepro.queueing.replicated_flows import (
    ReplicatedPaths,
    simulate_delays,
    slow_start_rounds,
    window_rounds,
)
from netrepro.queueing.replication import ReplicationModel
from netrepro.queueing.service import ConstantService, ExponentialService, Service
from netrepro.study import Progress, of_profile, rankings
from netrepro.study.setting import setting
from netrepro.style import new_figure, scheme, use_logarithm

LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
QUANTITIES = {
    "short_mean": (5, "mean completion time of short flows"),
    "long_mean": (6, "mean completion time of long flows"),
    "short_p99": (7, "99th percentile of short flows"),
    "long_p99": (8, "99th percentile of long flows"),
}
FCT_AXIS = "completion time / time without contention"
LOAD_AXIS = "load without replicas (share of capacity)"


@dataclass(frozen=True)
class Scale:
    """The number of flows that a profile simulates, for each load and repetition; 0 leaves such flows out."""

    short_flows: int
    long_flows: int


def scale(profile: str) -> Scale:
    """Return the scale of profile "quick" or "paper". Raises NetreproError for another."""
    scales = {"quick": Scale(40_000, 10_000), "paper": Scale(500_000, 100_000)}
    return of_profile(profile, scales)


@dataclass(frozen=True)
class Setting:
    """The model's assumptions; the defaults are the paper's.

    workload : a name or file for load_flow_sizes, or flow sizes of one's own.
    extra_load : ε; None for the share of bytes that the workload has in short flows.
    initial_window_packets, burst_packets, long_flow_packets : k, M, S_L.
    copies, paths, path_choice, correlation : of replicated flows, see ReplicatedPaths; the analysis takes
        the paths of the two copies as different and independent.
    short_round_gap_packets : mean time between rounds of short flows: the testbed's round trip, 178 us at
        1 Gb/s.
    long_round_gap_packets : the same of long flows, whose window takes 44 packet times to send.
    window_packets : what a long flow sends a round.
    whole_rounds : round a flow's rounds up, as TCP must; the formulas do not.
    exponential_bursts : burst sizes exponential instead of constant, which breaks (3) to (8).

    The formulas know nothing of paths, choice, correlation, gaps, whole rounds and exponential bursts.
    """

    workload: str | FlowSizeDistribution = setting(
        "web_search", "flow sizes; a CSV file holds a distribution", one_of=("web_search", "data_mining", "a file")
    )
    extra_load: float | None = setting(
        0.05, "load that one more copy of each short flow adds, the paper's ε", "share of the load", low=0, high=1
    )
    initial_window_packets: float = setting(
        3.0, "first window of slow start, the paper's k", "packets", low=1, high=1000
    )
    burst_packets: float = setting(44.0, "window of long flows, the paper's M", "packets", low=1, high=100_000)
    long_flow_packets: float = setting(
        68.0, "flows up to this size are short, the paper's S_L", "packets", low=1, high=1_000_000
    )
    copies: int = 2
    paths: int = 2
    path_choice: str = "distinct"
    correlation: float = 0.0
    short_round_gap_packets: float = 15
    long_round_gap_packets: float = 44
    window_packets: float = 44
    whole_rounds: bool = False
    exponential_bursts: bool = False

    @cached_property
    def flow_sizes(self) -> FlowSizeDistribution:
        """The workload, in packets."""
        workload = self.workload
        return (load_flow_sizes(workload) if isinstance(workload, str) else workload).in_packets()

    @cached_property
    def model(self) -> ReplicationModel:
        """The formulas under these assumptions."""
        return ReplicationModel(
            self.flow_sizes,
            self.extra_load,
            self.initial_window_packets,
            self.burst_packets,
            self.long_flow_packets,
        )

    @property
    def bursts(self) -> Service:
        """The bursts that load the paths."""
        kind = ExponentialService if self.exponential_bursts else ConstantService
        return kind(self.burst_packets)


PRINTED = Setting()
# Of the readings of the web-search figure the one that the authors themselves drew from: data/flow_sizes/SOURCES.md.
DRAWN_SIZES = "web_search_authors"
DRAWN_SETTING = Setting(workload=DRAWN_SIZES, extra_load=None)
DRAWN = "the sizes that the authors drew, with their own ε"
# Packet times: 17 times the memory of a queue at load .5, M / (1 - load)^2, and 6 times that at .7.
INDEPENDENT_ROUNDS = 3_000.0


def testbed(setting: Setting = PRINTED) -> Setting:
    """Return the same setting on the paper's testbed: three paths chosen by hashing, whole rounds, the workload's own
    ε."""
    return replace(setting, extra_load=None, paths=3, path_choice="hashed", whole_rounds=True)


# Closed form.


def closed_form(setting: Setting = PRINTED, loads: Sequence[float] | np.ndarray = LOADS) -> pd.DataFrame:
    """Compute Figs 5 to 8 by (3) to (8).

    Returns one row a quantity, scheme and load: quantity (key of QUANTITIES), scheme ("tcp", "repflow"),
    load, normalised_fct (infinite where the replicas fill the paths). Raises NetreproError for loads outside
    [0, 1).
    """
    model = setting.model
    formulas = {
        "short_mean": model.short_mean,
        "long_mean": model.long_mean,
        "short_p99": model.short_tail,
        "long_p99": model.long_tail,
    }
    parts = [
        pd.DataFrame(
            {
                "quantity": quantity,
                "scheme": name,
                "load": np.asarray(loads, dtype=float),
                "normalised_fct": formula(np.asarray(loads, dtype=float), copies),
            }
        )
        for quantity, formula in formulas.items()
        for name, copies in (("tcp", 1), ("repflow", setting.copies))
    ]
    return pd.concat(parts, ignore_index=True)


def wait_tails(loads: Sequence[float] = LOADS, setting: Setting = PRINTED) -> pd.DataFrame:
    """Return the 99th percentile of the wait of bursts of M packets: exact (M/D/1) and by two approximations.

    Returns one row a load and method: load, method, wait_packet_times.
    """
    rows = []
    for load in loads:
        mean = mean_wait(load, ConstantService(setting.burst_packets))
        rows += [
            (load, "exact", md1_wait_quantile(0.99, load, setting.burst_packets)),
            (load, "the paper's: 2 ln 10 E[W]", tail_wait_exponential(0.99, mean)),
            (load, "ln(100 ρ)/ρ E[W]", tail_wait_when_busy(0.99, load, mean)),
        ]
    return pd.DataFrame(rows, columns=["load", "method", "wait_packet_times"])


# Simulation.


def _simulate_once(
    setting: Setting, load: float, scale: Scale, seed: int, repetition: int, with_looks: bool
) -> list[tuple]:
    """Simulate one repetition: (quantity, scheme, value). The seed is the same for both schemes, so that ratios are
    paired."""
    sizes_seed, *queue_seeds = np.random.SeedSequence([seed, repetition]).generate_state(4, np.uint64).tolist()
    random = np.random.default_rng(sizes_seed)
    limit, sizes, whole = setting.long_flow_packets, setting.flow_sizes, setting.whole_rounds
    short = sizes.conditional(None, limit).sample(random, scale.short_flows)
    long = sizes.conditional(limit, None).sample(random, scale.long_flows)
    short_rounds = slow_start_rounds(short, setting.initial_window_packets, whole)
    long_rounds = window_rounds(long, setting.window_packets, whole)
    rows = []
    for name, copies in (("tcp", 1), ("repflow", setting.copies)):
        # Short flows are sent several times, long ones once, on paths that carry the copies.
        replicated, alone = (
            ReplicatedPaths(
                float(setting.model.path_load(load, copies)),
                setting.bursts,
                paths=setting.paths,
                copies=count,
                path_choice=setting.path_choice,
                correlation=setting.correlation,
                round_gap_packets=gap,
                flow_gap_packets=max(1000.0, gap),
            )
            for count, gap in ((copies, setting.short_round_gap_packets), (1, setting.long_round_gap_packets))
        )
        if scale.short_flows and with_looks:
            looks = simulate_delays(replicated, np.ones(scale.short_flows), seed=queue_seeds[0]).min(axis=1)
            rows.append(("busy", name, float(np.mean(looks > 0))))
        if scale.short_flows:
            delays = simulate_delays(replicated, short_rounds, seed=queue_seeds[1]).min(axis=1)
            rows += _summary("short", name, delays / short + 1)
        if scale.long_flows:
            delays = simulate_delays(alone, long_rounds, seed=queue_seeds[2])[:, 0]
            rows += _summary("long", name, delays / long + 1)
    return rows


def _summary(kind: str, name: str, completion: np.ndarray) -> list[tuple]:
    return [
        (f"{kind}_mean", name, float(completion.mean())),
        (f"{kind}_p99", name, float(np.quantile(completion, 0.99))),
    ]


def simulate(
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    loads: Sequence[float] = LOADS,
    with_looks: bool = True,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Compute Figs 5 to 8 by simulation: per-flow delays over parallel queues, the least over the copies of a flow.

    Loads are those without replicas; RepFlow's paths carry (1 + (copies - 1) ε) times as much. `progress`
    wraps the list of (load, repetition) that is worked through.

    Returns one row a quantity, scheme, load and repetition: quantity (key of QUANTITIES; with_looks also "busy",
    the share of looks at which every copy would wait, which cost as much as the short flows do), scheme, load,
    repetition, value; attrs["flows"] holds the "short" and "long" flows of a load and repetition. Raises NetreproError
    when the paths of a load would be full.
    """
    for load in loads:
        if not 0 < setting.model.path_load(load, setting.copies) < 1:
            raise NetreproError(
                f"load {load:g} and ε = {setting.model.epsilon:g} load the paths to"
                f" {float(setting.model.path_load(load, setting.copies)):.3g}",
                "simulate loads above 0 that leave the paths below 1 with the replicas on them",
            )
    work = [(load, repetition) for load in loads for repetition in range(repetitions)]
    rows = [
        (quantity, name, load, repetition, value)
        for load, repetition in progress(work)
        for quantity, name, value in _simulate_once(setting, load, scale, seed, repetition, with_looks)
    ]
    table = pd.DataFrame(rows, columns=["quantity", "scheme", "load", "repetition", "value"])
    table.attrs["flows"] = {"short": scale.short_flows, "long": scale.long_flows}
    return table


@dataclass(frozen=True)
class Case:
    """A change of the model, the loads at which it is needed, the shares of a scale's flows that suffice, and whether
    it is asked how often its paths are busy."""

    change: dict[str, Any]
    loads: tuple[float, ...]
    short_share: float = 0.0
    long_share: float = 0.0
    with_looks: bool = False


_FAR_APART = {"short_round_gap_packets": INDEPENDENT_ROUNDS}
CASES = {
    "same path": Case({"path_choice": "same"}, LOADS, short_share=1, with_looks=True),
    "independent rounds": Case(_FAR_APART, (0.1, 0.3, 0.5, 0.7), short_share=0.25),
    "same path, independent rounds": Case(_FAR_APART | {"path_choice": "same"}, (0.5,), short_share=0.25),
    "exponential bursts": Case({"exponential_bursts": True}, (0.5, 0.8), short_share=1, long_share=1),
    DRAWN: Case({"workload": DRAWN_SIZES, "extra_load": None}, (0.5, 0.9), long_share=1),
    "copies add half": Case({"workload": DRAWN_SIZES, "extra_load": 0.5}, (0.5,), long_share=1),
    "copies add a tenth": Case({"workload": DRAWN_SIZES, "extra_load": 0.1}, (0.9,), long_share=1),
    "one packet a round": Case(
        {"window_packets": 1, "long_round_gap_packets": 1}, (0.5,), short_share=1, long_share=0.2
    ),
}


def simulate_cases(
    scale: Scale, repetitions: int, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter
) -> pd.DataFrame:
    """Simulate the broken models of the claims' negative controls, (4) with independent rounds, and long flows of DRAWN
    sizes.

    Returns the columns of `simulate` after a column `case` (key of CASES).
    """
    parts = []
    for name, case in progress(list(CASES.items())):
        wanted = Scale(round(scale.short_flows * case.short_share), round(scale.long_flows * case.long_share))
        changed = replace(setting, **case.change)
        table = simulate(wanted, repetitions, seed, setting=changed, loads=case.loads, with_looks=case.with_looks)
        parts.append(table.assign(case=name))
    table = pd.concat(parts, ignore_index=True)
    return table[["case", *table.columns.drop("case")]]


@dataclass(frozen=True)
class Knob:
    """A parameter of Setting that the paper does not turn: its axis label, and values worth trying."""

    label: str
    values: tuple


KNOBS = {
    "paths": Knob("equal-cost paths (each copy hashed alone)", (1, 2, 3, 4, 6, 9)),
    "correlation": Knob("share of bursts common to all paths", (0.0, 0.25, 0.5, 0.75, 1.0)),
    "copies": Knob("copies of each short flow (1 is TCP)", (1, 2, 3, 4)),
    "workload": Knob("workload", ("web_search", "data_mining")),
    "extra_load": Knob("ε, load that each further copy adds (share)", (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)),
    "short_round_gap_packets": Knob("mean time between rounds (packet times)", (5, 15, 50, 150, 500, 1500)),
}


def vary(
    parameter: str,
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    values: Sequence[Any] | None = None,
    load: float = 0.5,
    setting: Setting | None = None,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Vary one knob of Setting at one load, for short flows; `values` are those of KNOBS unless given.

    Returns the columns of `simulate`, without looks, after `parameter` and `setting` (the value). Raises NetreproError
    for a parameter that KNOBS does not have.
    """
    if parameter not in KNOBS:
        raise NetreproError(f"no knob {parameter!r}", nearest(parameter, KNOBS))
    setting, parts = setting or testbed(), []
    for value in progress(KNOBS[parameter].values if values is None else values):
        changed = replace(setting, **{parameter: value})
        short = replace(scale, long_flows=0)
        table = simulate(short, repetitions, seed, setting=changed, loads=[load], with_looks=False)
        parts.append(table.assign(parameter=parameter, setting=value))
    table = pd.concat(parts, ignore_index=True)
    return table[["parameter", "setting", *table.columns.drop(["parameter", "setting"])]]


def fidelity(simulated: pd.DataFrame) -> pd.DataFrame:
    """Check whether the simulator is sound: a look at a path must find it busy with the probability of its load.

    Needs nothing of the paper. Returns one row a load: load, busy (mean over repetitions), standard_error,
    agrees (within 5 standard errors, or 2 % where few repetitions make those too small).
    """
    rows = simulated[(simulated.quantity == "busy") & (simulated.scheme == "tcp")]
    table = rows.groupby("load").value.agg(busy="mean", standard_error="sem").fillna(0).reset_index()
    allowed = np.maximum(5 * table.standard_error, 0.02 * table.load)
    return table.assign(agrees=(table.busy - table.load).abs() <= allowed)


def vary_all(
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    load: float = 0.5,
    setting: Setting | None = None,
    progress: Progress = iter,
) -> dict[str, pd.DataFrame]:
    """Run `vary` for every knob of KNOBS, by its name."""
    return {name: vary(name, scale, repetitions, seed, load=load, setting=setting) for name in progress(KNOBS)}


# Claims.


def _values(table: pd.DataFrame, quantity: str, name: str, load: float) -> np.ndarray:
    """Return one value for each repetition."""
    rows = table[(table.quantity == quantity) & (table.scheme == name) & np.isclose(table.load, load)]
    if rows.empty:
        raise NetreproError(f"no {quantity} of {name} at load {load}", "simulate that load first")
    return rows.sort_values("repetition").value.to_numpy()


def _ratio(table: pd.DataFrame, quantity: str, load: float) -> np.ndarray:
    return _values(table, quantity, "repflow", load) / _values(table, quantity, "tcp", load)


def _workload_claims() -> list[Measured]:
    """Return the claims on the sizes that the authors drew; `readings` has the other readings of the figure."""
    drawn = load_flow_sizes(DRAWN_SIZES).in_bytes()
    large = 1 - drawn.share_of_flows_below(1e6)
    measured = {
        "flows-below-100-kb": (drawn.share_of_flows_below(100e3), None),
        "flows-above-1-mb": (large, None),
        "bytes-in-flows-above-1-mb": (1 - drawn.share_of_bytes_below(1e6), [large]),  # broken: all flows of equal bytes
        "bytes-in-replicated-flows": (drawn.share_of_bytes_below(100e3), None),
    }
    return [Measured(claim=c, values=[value], control=broken, exact=True) for c, (value, broken) in measured.items()]


def readings() -> pd.DataFrame:
    """Compare the readings of the web-search figure with the paper's words: a row for each; shares in 0..1."""
    rows = {}
    for name in (DRAWN_SIZES, "web_search", "web_search_bytes"):
        flows = load_flow_sizes(name).in_bytes()
        rows[name] = (
            flows.share_of_flows_below(100e3),
            1 - flows.share_of_flows_below(1e6),
            1 - flows.share_of_bytes_below(1e6),
            flows.share_of_bytes_below(100e3),
        )
    rows["the paper"] = (0.6, 0.3, 0.95, PRINTED.model.epsilon)
    columns = ["flows below 100 KB", "flows above 1 MB", "bytes above 1 MB", "bytes below 100 KB (ε)"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("reading")


def price_for_long_flows(simulated: pd.DataFrame, cases: pd.DataFrame) -> pd.DataFrame:
    """Compute RepFlow / TCP of long flows at loads .5 and .9: with the ε of the sizes that the authors drew, and as
    printed.

    Returns a row for each load and quantity: load, quantity, then a column for each ε; means over repetitions.
    """
    drawn = cases[cases.case == DRAWN]
    tables = {f"ε = {DRAWN_SETTING.model.epsilon:.3f}, of the sizes": drawn, "ε = 0.05, as printed": simulated}
    rows = [
        {"load": load, "quantity": QUANTITIES[quantity][1]}
        | {words: float(_ratio(table, quantity, load).mean()) for words, table in tables.items()}
        for load in (0.5, 0.9)
        for quantity in ("long_mean", "long_p99")
    ]
    return pd.DataFrame(rows)


def _formula_claims(
    simulated: pd.DataFrame, cases: dict[str, pd.DataFrame], trust: dict[str, Any], setting: Setting
) -> list[Measured]:
    model = setting.model
    measured = []

    def ratios(table: pd.DataFrame, quantity: str, name: str, load: float, formula: np.ndarray) -> list[float]:
        return (_values(table, quantity, name, load) / float(formula)).tolist()

    exponential, same_path = cases["exponential bursts"], cases["same path"]
    for claim, broken, quantity, name, load, formula in (
        ("formula-4-at-load-0.5", same_path, "short_mean", "repflow", 0.5, model.short_mean(0.5, 2)),
        ("formula-7-at-load-0.5", exponential, "long_p99", "tcp", 0.5, model.long_tail(0.5)),
    ):
        values = ratios(simulated, quantity, name, load, formula)
        control = ratios(broken, quantity, name, load, formula)
        measured.append(Measured(claim=claim, values=values, control=control, **trust))
    formula = model.short_mean(0.5, 2)
    measured.append(
        Measured(
            claim="formula-4-independent-rounds-at-load-0.5",
            values=ratios(cases["independent rounds"], "short_mean", "repflow", 0.5, formula),
            control=ratios(cases["same path, independent rounds"], "short_mean", "repflow", 0.5, formula),
            **trust,
        )
    )
    tails = wait_tails((0.5, 0.8), setting).pivot(index="load", columns="method", values="wait_packet_times")
    for load, row in tails.iterrows():
        approximation = row["the paper's: 2 ln 10 E[W]"]
        broken = mm1_wait_quantile(0.99, load, setting.burst_packets) / approximation
        ratio = row["exact"] / approximation
        measured.append(
            Measured(claim=f"tail-of-the-wait-at-load-{load}", values=[ratio], control=[broken], exact=True)
        )
    return measured


def _figure_claims(simulated: pd.DataFrame, cases: dict[str, pd.DataFrame], trust: dict[str, Any]) -> list[Measured]:
    same_path = cases["same path"]
    # The worst load by its mean over repetitions: the worst of each repetition would favour noise.
    worst = max(LOADS, key=lambda load: _ratio(simulated, "short_mean", load).mean())
    measured = [
        Measured(
            claim="short-mean-margin-at-worst-load",
            values=_ratio(simulated, "short_mean", worst).tolist(),
            control=_ratio(same_path, "short_mean", worst).tolist(),
            **trust,
        )
    ]
    for quantity in ("long_mean", "long_p99"):
        for load, case in ((0.5, "copies add half"), (0.9, "copies add a tenth")):
            measured.append(
                Measured(
                    claim=f"{quantity.replace('_', '-')}-at-load-{load}",
                    values=_ratio(cases[DRAWN], quantity, load).tolist(),
                    control=_ratio(cases[case], quantity, load).tolist(),
                    **trust,
                )
            )

    def tails(table: pd.DataFrame) -> list[list[str]]:
        kinds = {"short flows": "short_p99", "long flows": "long_p99"}
        return rankings({kind: _values(table, q, "tcp", 0.5) for kind, q in kinds.items()})

    measured.append(
        Measured(
            claim="long-tail-below-short-tail",
            values=tails(simulated),
            control=tails(cases["one packet a round"]),
            **trust,
        )
    )
    return measured


def measured_claims(simulated: pd.DataFrame, cases: pd.DataFrame, setting: Setting = PRINTED) -> list[Measured]:
    """Return one measurement for each claim of data/repflow_model/claims.yaml, from `simulate` and `simulate_cases`."""
    by_case = {str(case): rows for case, rows in cases.groupby("case")}
    trusted = bool(fidelity(simulated).agrees.all())
    why = "" if trusted else "the simulated paths are not busy as often as their load says"
    trust = {"trusted": trusted, "why": why}
    return [
        *_workload_claims(),
        *_formula_claims(simulated, by_case, trust, setting),
        *_figure_claims(simulated, by_case, trust),
    ]


# Figures.


def _curve(axis: Axes, table: pd.DataFrame, name: str, **look: Any) -> None:
    rows = table[(table.scheme == name) & np.isfinite(table.normalised_fct)]
    axis.plot(rows.load, rows.normalised_fct, **({"color": scheme(name).colour} | look))


def _points(axis: Axes, rows: pd.DataFrame, x: str, label: str, **look: Any) -> None:
    """Draw the means over repetitions, with twice their standard error."""
    grouped = rows.groupby(x, sort=True).value
    error = 2 * grouped.std().fillna(0) / np.sqrt(grouped.count())
    axis.errorbar(grouped.mean().index, grouped.mean(), yerr=error, label=label, **look)


def _draw_figure(
    quantity: str, closed: pd.DataFrame, simulated: pd.DataFrame | None, cases: pd.DataFrame | None = None
) -> Figure:
    """Draw one of Figs 5 to 8. cases : from `simulate_cases`; long flows of DRAWN sizes, which the claims are judged
    on, are drawn too."""
    number, words = QUANTITIES[quantity]
    figure, axis = new_figure(f"Fig. {number}: {words}", LOAD_AXIS, FCT_AXIS, log_y=True)
    drawn = None if cases is None else cases[(cases.case == DRAWN) & (cases.quantity == quantity)]
    for name in ("tcp", "repflow"):
        look = scheme(name)
        _curve(axis, closed[closed.quantity == quantity], name, label=f"{look.label}, formula")
        if simulated is not None:
            rows = simulated[(simulated.quantity == quantity) & (simulated.scheme == name)]
            style = dict(color=look.colour, marker=look.marker, linestyle="none")
            flows = simulated.attrs.get("flows", {}).get(quantity.split("_")[0])
            size = f", {rows.repetition.nunique()} × {flows:,} flows" if flows else ""
            _points(axis, rows, "load", f"{look.label}, simulated{size}", **style)
    if drawn is not None:
        look, rows = scheme("repflow"), drawn[drawn.scheme == "repflow"]
        star: dict[str, Any] = {"color": look.colour, "marker": "*", "markersize": 11, "markerfacecolor": "white"}
        _points(
            axis,
            rows,
            "load",
            f"{look.label}, simulated, ε = {DRAWN_SETTING.model.epsilon:.3f}",
            linestyle="none",
            **star,
        )
    axis.legend()
    _plain_ticks(axis)
    return figure


def _plain_ticks(axis: Axes) -> None:
    """Show 1, 2, 5, 10 ... instead of powers of ten on a logarithmic axis of completion times."""
    low, high = axis.get_ylim()
    ticks = [step * 10**power for power in range(4) for step in (1, 1.5, 2, 3, 5, 7)]
    shown = [tick for tick in ticks if low <= tick <= high]
    axis.set_yticks(shown, [f"{tick:g}" for tick in shown])
    axis.minorticks_off()


def draw_figure_5(closed: pd.DataFrame, simulated: pd.DataFrame | None = None) -> Figure:
    """Draw the mean of short flows: (3), (4) and, where given, the simulation."""
    return _draw_figure("short_mean", closed, simulated)


def draw_figure_6(
    closed: pd.DataFrame, simulated: pd.DataFrame | None = None, cases: pd.DataFrame | None = None
) -> Figure:
    """Draw the mean of long flows: (5), (6) and, where given, the simulation."""
    return _draw_figure("long_mean", closed, simulated, cases)


def draw_figure_7(closed: pd.DataFrame, simulated: pd.DataFrame | None = None) -> Figure:
    """Draw the 99th percentile of short flows: our analogue of (7) and, where given, the simulation."""
    return _draw_figure("short_p99", closed, simulated)


def draw_figure_8(
    closed: pd.DataFrame, simulated: pd.DataFrame | None = None, cases: pd.DataFrame | None = None
) -> Figure:
    """Draw the 99th percentile of long flows: (7), (8) and, where given, the simulation."""
    return _draw_figure("long_p99", closed, simulated, cases)


def draw_control(closed: pd.DataFrame, cases: pd.DataFrame) -> Figure:
    """Draw Fig. 5 again with both copies of every flow on one path, from `simulate_cases`."""
    figure = draw_figure_5(closed, cases[cases.case == "same path"])
    figure.suptitle("Fig. 5 broken: both simulated copies share one path")
    return figure


def draw_wait_tails(table: pd.DataFrame) -> Figure:
    """Draw the 99th percentile of the wait over its exact value, from `wait_tails`."""
    figure, axis = new_figure(
        "The tail of the wait, approximated",
        "load (share of capacity)",
        "99th percentile, approximate / exact",
    )
    wide = table.pivot(index="load", columns="method", values="wait_packet_times")
    for method, marker in (("the paper's: 2 ln 10 E[W]", "o"), ("ln(100 ρ)/ρ E[W]", "s")):
        axis.plot(wide.index, wide[method] / wide["exact"], marker=marker, label=method)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_simulation_over_formula(
    simulated: pd.DataFrame, cases: pd.DataFrame | None = None, setting: Setting = PRINTED
) -> Figure:
    """Draw simulated values over the formulas as printed, against load."""
    figure, axis = new_figure("Where the formulas hold", LOAD_AXIS, "simulated / formula")
    closed = closed_form(setting, sorted(simulated.load.unique()))
    formula = closed.set_index(["quantity", "scheme", "load"]).normalised_fct
    for quantity, name, label, marker in (
        ("short_mean", "tcp", "(3) short, TCP", "o"),
        ("short_mean", "repflow", "(4) short, RepFlow", "s"),
        ("long_mean", "tcp", "(5) long, TCP", "^"),
        ("long_p99", "tcp", "(7) 99th percentile of long, TCP", "v"),
    ):
        rows = simulated[(simulated.quantity == quantity) & (simulated.scheme == name)]
        rows = rows.assign(value=rows.value / rows.load.map(lambda load, q=quantity, n=name: formula[q, n, load]))
        _points(axis, rows, "load", label, marker=marker)
    if cases is not None:
        far = cases[(cases.case == "independent rounds") & (cases.quantity == "short_mean")]
        far = far[far.scheme == "repflow"]
        far = far.assign(value=far.value / far.load.map(lambda load: formula["short_mean", "repflow", load]))
        _points(axis, far, "load", "(4), independent rounds", marker="D")
    axis.axhline(1, color="black", linewidth=0.8)
    axis.legend()
    return figure


def draw_variation(table: pd.DataFrame) -> Figure:
    """Draw the mean and 99th percentile of short flows against one knob, from `vary`."""
    parameter, load = table.parameter.iloc[0], table.load.iloc[0]
    title = f"What matters at load {load:g}"
    figure, _ = new_figure(title, KNOBS[parameter].label, FCT_AXIS, columns=2)
    order = list(dict.fromkeys(table.setting))
    numeric = not any(isinstance(value, str | None) for value in order)
    places = table.setting if numeric else table.setting.map(order.index)
    for axis, quantity in zip(figure.axes, ("short_mean", "short_p99"), strict=True):
        for name in ("tcp", "repflow"):
            rows = table.assign(place=places)[(table.quantity == quantity) & (table.scheme == name)]
            look = scheme(name)
            line = dict(color=look.colour, marker=look.marker, linestyle="-" if numeric else "none")
            _points(axis, rows, "place", look.label, **line)
        axis.set_title(QUANTITIES[quantity][1], fontsize=10)
        axis.set_ylim(bottom=1)
        if not numeric:
            axis.set_xticks(range(len(order)), [str(value) for value in order])
            axis.set_xlim(-0.5, len(order) - 0.5)
        elif parameter == "short_round_gap_packets":
            use_logarithm(axis, "x")
        elif all(isinstance(value, int) for value in order):
            axis.set_xticks(order)
    figure.axes[0].legend()
    return figure


def draw_variations(tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    """Draw a figure for each knob, named knob_<name>, from `vary_all`."""
    return {f"knob_{name}": draw_variation(table) for name, table in tables.items()}


def settings_table(setting: Setting) -> pd.DataFrame:
    """Return every assumption of the model and its value."""
    return pd.DataFrame(
        {"assumption": list(asdict(setting)), "value": [str(value) for value in asdict(setting).values()]}
    )


def draw_idea() -> Figure:
    """Draw what the two copies of a short flow of four rounds meet on two independent paths.

    The curves are the backlog of two queues fed by Poisson bursts, as the simulation has them.
    """
    load, burst_packets, random = 0.7, 44, np.random.default_rng(3)
    times = np.arange(0, 1200, 0.5)
    rounds = np.array([300, 500, 700, 900])
    figure, _ = new_figure(
        "One flow on two paths: the copy that waits less decides",
        "time (packet times)",
        "wait (packet times)",
        columns=2,
    )
    for path, axis in enumerate(figure.axes, start=1):
        arrivals = np.sort(random.uniform(0, times[-1], random.poisson(load / burst_packets * times[-1])))
        walk = burst_packets * np.searchsorted(arrivals, times, side="right") - times
        wait = walk - np.minimum(np.minimum.accumulate(walk), 0)
        met = np.interp(rounds, times, wait)
        axis.plot(times, wait, color="#444444", linewidth=1, label="backlog of the queue")
        look = scheme(("tcp", "repflow")[path - 1])
        axis.vlines(rounds, 0, met, color=look.colour, linewidth=3)
        axis.plot(rounds, met, look.marker, color=look.colour, markersize=8, label=f"four rounds wait {met.sum():.0f}")
        axis.set_title(f"copy on path {path}", fontsize=10)
        axis.set_ylim(0, 160)
        axis.legend(loc="upper left")
    return figure


def draw_network(setting: Setting = PRINTED, load: float = 0.5) -> Figure:
    """Draw the model's network: parallel queues between a sender that hashes its copies and a receiver."""
    figure, axis = new_figure("The model: parallel M/G/1 queues, first come first served", "", "")
    axis.axis("off")
    middle, count = (setting.paths - 1) / 2, setting.paths
    path_load = float(setting.model.path_load(load, setting.copies))
    for path in range(count):
        axis.annotate("", (0.9, path), (0.0, middle), arrowprops={"arrowstyle": "->", "color": "#888888"})
        axis.annotate("", (3.0, middle), (2.1, path), arrowprops={"arrowstyle": "->", "color": "#888888"})
        axis.plot([0.95, 2.1, 2.1, 0.95], [path - 0.2, path - 0.2, path + 0.2, path + 0.2], color=scheme("tcp").colour)
        axis.text(1.5, path, f"path {path + 1}: load {path_load:.3f}", ha="center", va="center", fontsize=9)
    axis.text(-0.05, middle, f"{setting.copies} copies of\neach short flow\n({setting.path_choice} paths)", ha="right")
    axis.text(3.05, middle, "the first copy\nto end counts", ha="left")
    text = f"Poisson bursts of {setting.burst_packets:g} packets at load {load:g}, ε = {setting.model.epsilon:.3g} more"
    axis.text(1.5, -0.7, text, ha="center", color="#555555")
    axis.set(xlim=(-1.2, 4.2), ylim=(-0.9, count - 0.4))
    return figure


def answer(simulated: pd.DataFrame, cases: pd.DataFrame) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    gains = {load: 1 - _ratio(simulated, "short_mean", load).mean() for load in (0.5, 0.9)}
    same = _ratio(cases[cases.case == "same path"], "short_mean", 0.5).mean() - 1
    cost = _ratio(cases[cases.case == DRAWN], "long_mean", 0.9).mean() - 1
    return (
        f"In the model, sending short flows on two independent paths cuts their mean completion time by "
        f"{gains[0.5]:.0%} at load .5 and {gains[0.9]:.0%} at load .9; with both copies on one path it grows by "
        f"{same:.0%}; long flows take {cost:.0%} longer at load .9 with the ε of the authors' own sizes."
    )


# Something to play with.


def explore() -> Any:
    """Show a panel of sliders that redraws Figs 5 to 8 by the formulas; a marker reads them off at one load."""
    import ipywidgets as widgets
    import matplotlib.pyplot as plt
    from IPython.display import display

    controls = {
        "load": widgets.FloatSlider(0.5, min=0.05, max=0.95, step=0.05, description="load"),
        "workload": widgets.Dropdown(options=KNOWN_FLOW_SIZES, description="workload"),
        "extra_load": widgets.FloatSlider(0.05, min=0, max=0.3, step=0.005, description="ε", readout_format=".3f"),
        "initial_window_packets": widgets.IntSlider(3, min=1, max=20, description="k (packets)"),
        "copies": widgets.IntSlider(2, min=1, max=4, description="copies"),
    }

    def redraw(load: float, **changes: Any) -> None:
        figure = draw_panel(replace(PRINTED, **changes), load)
        display(figure)
        plt.close(figure)

    drawn = widgets.interactive_output(redraw, controls)
    return widgets.VBox([widgets.HBox(list(controls.values())[:2]), *list(controls.values())[2:], drawn])


def draw_panel(setting: Setting, load: float) -> Figure:
    """Draw Figs 5 to 8 side by side by the formulas, read off at one load."""
    loads = np.linspace(0.02, 0.98, 97)
    closed = closed_form(setting, loads)
    at_load = closed_form(setting, [load])
    figure, _ = new_figure(
        f"{setting.flow_sizes.name}: ε = {setting.model.epsilon:.3g}, k = {setting.initial_window_packets:g},"
        f" {setting.copies} copies; at load {load:g}",
        "load",
        FCT_AXIS,
        columns=4,
        log_y=True,
    )
    figure.set_size_inches(15, 3.8)
    for axis, (quantity, (number, words)) in zip(figure.axes, QUANTITIES.items(), strict=True):
        axis.set_title(f"Fig. {number}: {words}", fontsize=9)
        for name in ("tcp", "repflow"):
            here = at_load[(at_load.quantity == quantity) & (at_load.scheme == name)].normalised_fct.iloc[0]
            label = f"{scheme(name).label}: {here:.3g}"
            _curve(axis, closed[closed.quantity == quantity], name, label=label)
            if np.isfinite(here):
                axis.plot([load], [here], color=scheme(name).colour, marker=scheme(name).marker)
        axis.set_ylim(1, 100)
        _plain_ticks(axis)
        axis.legend()
    return figure
