"""Dukkipati and McKeown, "Why Flow-Completion Time is the Right Metric for Congestion Control", CCR 36(1), 2006.

Flows of heavy-tailed sizes meet at one long link. If the link were shared evenly and at once (processor sharing), a
flow would take little more than a round trip; TCP needs many round trips to find its rate. RCP, whose routers tell
every flow the fair rate, comes near processor sharing. TCP runs on the virtual kernel too, on a slower link; RCP
needs routers that no kernel is.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.flow_sizes import FlowSizeDistribution
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.rcp import Rcp
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import PoissonFlows, Tcp, flows_per_s_at_load
from netrepro.papers._running import run_by_tier, run_experiment
from netrepro.papers._runs import CheckedRuns, Progress, all_checks, in_parallel, of_profile, seed_of
from netrepro.style import new_figure, scheme

SEGMENT_BYTES = 1448
PORT = ("s1", "s2")
PAIRS = 10
SMALL_PACKETS = 100  # the claims call flows up to this size small
LEAST_FLOWS = 10  # of a size, for its mean to count
LOOKS = {
    "TCP": scheme("tcp"),
    "RCP": scheme("RCP"),
    "processor sharing": scheme("processor sharing"),
    "RCP without feedback": scheme("control"),
}


@dataclass(frozen=True)
class Setting:
    """Link, round trip, load and sizes of the paper's simulations; the greatest size is our choice, without which
    the load of a run would hang on its largest flow.
    """

    rate_mbps: float = 2400.0
    round_trip_ms: float = 100.0
    load: float = 0.9
    mean_packets: float = 30.0
    shape: float = 1.4
    longest_packets: float = 20_000.0
    initial_window_segments: int = 1
    receive_window_bytes: int = 2**30

    @property
    def buffer_packets(self) -> int:
        """A bandwidth-delay product."""
        return max(10, round(self.rate_mbps * 1e3 * self.round_trip_ms / 8 / FULL_PACKET_BYTES))

    @property
    def packets_per_s(self) -> float:
        """Full packets that the link carries."""
        return self.rate_mbps * 1e6 / 8 / FULL_PACKET_BYTES


PRINTED = Setting()
# On kernels: a rate of which a second costs little, and a window that they allow.
REAL_RATE_MBPS, REAL_WINDOW_BYTES = 50.0, 6 * 2**20


@dataclass(frozen=True)
class Scale:
    """Simulated seconds of one repetition, and of one point of section 10; seconds of a run that kernels have too, and
    how many of these there are at most (None: as many as repetitions)."""

    seconds: float
    knob_seconds: float
    real_seconds: float
    most_real_repetitions: int | None = None


def scale(profile: str) -> Scale:
    """How much is simulated. Raises NetreproError for another profile than quick and paper."""
    scales = {"quick": Scale(20.0, 3.0, 30.0, 2), "paper": Scale(200.0, 40.0, 120.0)}
    return of_profile(profile, scales)


# Closed forms. Sizes in packets, times in s; a flow is complete when the receiver has it, its handshake included.


def slow_start_s(packets: np.ndarray | float, setting: Setting = PRINTED) -> Any:
    """What TCP needs without loss or queue: (log2(L / W + 1) + 1/2) round trips and the link's own time, for a first
    window of W packets.

    A round trip for the handshake; windows W, 2W, 4W, ... a round trip each, n of which carry W (2^n - 1) packets; half
    a round trip for the last one to arrive. Section 2, with W = 1.
    """
    windows = np.log2(np.asarray(packets) / setting.initial_window_segments + 1)
    rounds = np.maximum(windows, 1.0) + 0.5
    return rounds * setting.round_trip_ms * 1e-3 + np.asarray(packets) / setting.packets_per_s


def processor_sharing_s(packets: np.ndarray | float, setting: Setting = PRINTED) -> Any:
    """Handshake and way, one and a half round trips, and the mean time in M/G/1 processor sharing, L / (C (1 - load)),
    which no more of the sizes' distribution enters than its mean. Section 2.
    """
    sharing = np.asarray(packets) / (setting.packets_per_s * (1 - setting.load))
    return 1.5 * setting.round_trip_ms * 1e-3 + sharing


def share_processor(starts_s: Sequence[float] | np.ndarray, work_s: Sequence[float] | np.ndarray) -> np.ndarray:
    """Processor sharing of these very flows, exactly: how long each stays, shape (flows,).

    work_s : what each would take alone. starts_s ascend. Everybody present has had the same since any moment; a flow
    leaves when the common share has grown by its work, so one heap of those values is all.
    """
    stay = np.empty(len(starts_s))
    present: list[tuple[float, int]] = []
    now, share = 0.0, 0.0
    for place, start in enumerate([*starts_s, np.inf]):
        while present and now + (present[0][0] - share) * len(present) <= start:
            until, flow = heapq.heappop(present)
            now, share = now + (until - share) * (len(present) + 1), until
            stay[flow] = now - starts_s[flow]
        if present:
            share += (start - now) / len(present)
        now = start
        if place < len(work_s):
            heapq.heappush(present, (share + work_s[place], place))
    return stay


@lru_cache
def flow_sizes(setting: Setting = PRINTED) -> FlowSizeDistribution:
    """Pareto sizes (bytes) of the wanted shape and mean, cut off at the greatest size."""
    low, high = 1.0, setting.longest_packets
    for _ in range(60):  # the mean grows with the least size
        least = np.sqrt(low * high)
        found = _pareto(setting, least)
        low, high = (least, high) if found.mean < setting.mean_packets * SEGMENT_BYTES else (low, least)
    return found


def _pareto(setting: Setting, least: float) -> FlowSizeDistribution:
    sizes = np.geomspace(least, setting.longest_packets, 400)
    reached = 1 - (least / sizes) ** setting.shape
    points = tuple(zip(sizes * SEGMENT_BYTES, reached / reached[-1], strict=True))
    return FlowSizeDistribution(points, "bytes", f"Pareto, shape {setting.shape:g}", SEGMENT_BYTES)


# Experiments.


@dataclass(frozen=True)
class Case:
    """A congestion control, and how links rate flows where it is RCP."""

    congestion_control: str
    rcp: Rcp = field(default_factory=Rcp)


CASES = {
    "TCP": Case("reno"),
    "RCP": Case("rcp"),
    "RCP without feedback": Case("rcp", Rcp(alpha=0.0, beta=0.0, first_share=1e-4)),
}


def experiment(case: Case, setting: Setting, seconds: float, seed: int) -> Experiment:
    """Poisson flows over one bottleneck: what any tier runs. Flows start during the first three quarters."""
    delay_ms = setting.round_trip_ms / 2
    access = Link(setting.rate_mbps, 0.01 * delay_ms, DropTail(packets=10 * setting.buffer_packets))
    bottleneck = Link(setting.rate_mbps, 0.98 * delay_ms, DropTail(packets=setting.buffer_packets))
    sizes = flow_sizes(setting)
    payload_mbps = setting.rate_mbps * SEGMENT_BYTES / FULL_PACKET_BYTES
    rate = flows_per_s_at_load(sizes, setting.load, payload_mbps)
    flows = PoissonFlows(
        sizes,
        rate,
        round(rate * 0.75 * seconds),
        sources=tuple(f"h{i + 1}" for i in range(PAIRS)),
        destinations=tuple(f"h{PAIRS + i + 1}" for i in range(PAIRS)),
    )
    tcp = Tcp(
        case.congestion_control,
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=SEGMENT_BYTES,
        receive_window_bytes=setting.receive_window_bytes,
        delayed_ack_ms=0.0,  # slow start doubles only where every packet is acknowledged
    )
    queues = Measure(queues=(PORT,), queue_interval_ms=10.0)
    return Experiment(
        dumbbell(PAIRS, access, bottleneck), (flows,), seconds, seed, measure=queues, tcp=tcp, rcp=case.rcp
    )


def run(
    case: Case, setting: Setting, seconds: float, seed: int, tier: str = "simulated"
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """One run: flows (start_s, packets, completion_s, ideal_s), the queue (time_s, queue_packets), and the checks.

    ideal_s is what processor sharing of the very same flows would take, handshake and way included. A flow that does
    not finish counts with the time that it has had.
    """
    found = run_experiment(experiment(case, setting, seconds, seed), tier)
    flows = found.flows.sort_values("start_s")
    packets = np.ceil(flows["size_bytes"].to_numpy() / SEGMENT_BYTES)
    starts_s = flows["start_s"].to_numpy()
    completion_s = flows["completion_ms"].to_numpy() / 1e3
    unfinished = np.isnan(completion_s)
    alone_s = (
        (flows["size_bytes"].to_numpy() + packets * (FULL_PACKET_BYTES - SEGMENT_BYTES)) * 8e-6 / setting.rate_mbps
    )
    sharing_s = _shared_s(starts_s.tobytes(), alone_s.tobytes())
    table = pd.DataFrame(
        {
            "start_s": starts_s,
            "packets": packets,
            "completion_s": np.where(unfinished, seconds - starts_s, completion_s),
            "ideal_s": 1.5e-3 * setting.round_trip_ms + sharing_s,
        }
    )
    least_s = 1.5e-3 * setting.round_trip_ms + alone_s
    exact = 0.999 if tier == "simulated" else 0.99  # kernels' clocks tick
    early = float((table["completion_s"] < least_s * exact).mean())
    checks = [("flows faster than light and link", early, 0.0, early == 0.0)]
    if case.congestion_control != "rcp" or case.rcp.alpha > 0:  # the control is broken on purpose
        share = float(unfinished.mean())
        checks.append(("flows that did not finish", share, 0.01, share <= 0.01))
    frame = pd.DataFrame(checks, columns=["check", "value", "bound", "holds"])
    return table, found.queues[["time_s", "queue_packets"]], pd.concat([found.fidelity, frame], ignore_index=True)


@lru_cache(maxsize=8)
def _shared_s(starts_s: bytes, work_s: bytes) -> np.ndarray:
    """`share_processor`, once for the same flows: all cases of a repetition have them."""
    return share_processor(np.frombuffer(starts_s).tolist(), np.frombuffer(work_s).tolist())


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All repetitions: flows and queues of `run` by case and repetition, and the checks."""

    flows: pd.DataFrame
    queues: pd.DataFrame
    fidelity: pd.DataFrame

    @cached_property
    def by_size(self) -> pd.DataFrame:
        """`by_size` of the flows."""
        return by_size(self.flows)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """A row a case: mean completion (ms) of small, of large and of all flows, of processor sharing, mean queue."""
        small = self.flows["packets"] <= SMALL_PACKETS
        grouped = {"small": self.flows[small], "large": self.flows[~small], "all": self.flows}
        means = {name: 1e3 * rows.groupby("case", sort=False)["completion_s"].mean() for name, rows in grouped.items()}
        table = pd.DataFrame({f"{name}_ms": values for name, values in means.items()})
        table["processor_sharing_ms"] = 1e3 * self.flows.groupby("case")["ideal_s"].mean()
        return table.join(self.queues.groupby("case")["queue_packets"].mean().rename("mean_queue_packets"))


def measure(
    seconds: float, repetitions: int, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter
) -> Runs:
    """Every case of CASES over the same flows; `progress` wraps the list of (case, repetition)."""

    def run_one(name: str, repetition: int) -> tuple[pd.DataFrame, ...]:
        tables = run(CASES[name], setting, seconds, seed_of(seed, repetition))
        return tuple(table.assign(case=name, repetition=repetition) for table in tables)

    def cost(name: str, _: int) -> float:
        return CASES[name].rcp.alpha == 0  # flows whose rate nobody corrects last longest, thousands at a time

    work = [(name, i) for name in CASES for i in range(repetitions)]
    parts = in_parallel(run_one, work, progress=progress, cost=cost)
    return Runs(*(pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True)))


def measure_by_tier(
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    tier: str = "simulated",
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> dict[str, Runs]:
    """TCP on a slower link, by tier: in the simulator and, where `tier` is another, there too.

    The setting is the same but for REAL_RATE_MBPS. `progress` wraps the list of (tier, repetition). Raises
    NetreproError for a tier that cannot be had.
    """
    slower = replace(setting, rate_mbps=REAL_RATE_MBPS, receive_window_bytes=REAL_WINDOW_BYTES)
    work = [(i,) for i in range(min(repetitions, scale.most_real_repetitions or repetitions))]

    def run_one(where: str, repetition: int) -> tuple[pd.DataFrame, ...]:
        tables = run(CASES["TCP"], slower, scale.real_seconds, seed_of(seed, repetition), where)
        return tuple(table.assign(case="TCP", repetition=repetition) for table in tables)

    found = {}
    for where, (rows, idle) in run_by_tier(run_one, lambda _: work, tier, progress).items():
        flows, queues, checks = zip(*rows, strict=True)
        tables = (pd.concat(parts, ignore_index=True) for parts in (flows, queues, [*checks, *idle]))
        found[where] = Runs(*tables)
    return found


def fidelity(runs: Runs, by_tier: Mapping[str, Runs]) -> pd.DataFrame:
    """All checks: check, value, bound, holds, and whose."""
    return all_checks(runs, *by_tier.values())


def tier_table(by_tier: Mapping[str, Runs]) -> pd.DataFrame:
    """The tiers side by side: a row a tier with flows, what `Runs.summary` says of TCP, the mean slowdown and that of
    the worst size, and whether the runs are to be believed."""
    rows = []
    for tier, runs in by_tier.items():
        ratio, worst = runs.flows["completion_s"] / runs.flows["ideal_s"], worst_slowdown(runs)["TCP"].mean()
        row = runs.summary.loc["TCP"].to_dict() | {"mean_slowdown": ratio.mean(), "worst_slowdown": worst}
        rows.append({"tier": tier, "flows": len(runs.flows)} | row | {"trusted": runs.trusted})
    return pd.DataFrame(rows).set_index("tier")


def by_size(flows: pd.DataFrame, per_decade: int = 4) -> pd.DataFrame:
    """Mean completion by flow size: a row a case, repetition and bin of sizes.

    Returns case, repetition, packets (geometric mean), flows, completion_s, ideal_s, slowdown (ratio of the two).
    """
    # Bins of equal ratio, their edges between whole numbers of packets.
    place = np.floor(np.log10(flows["packets"] - 0.5) * per_decade).rename("bin")
    grouped = flows.assign(log=np.log(flows["packets"])).groupby(["case", "repetition", place], sort=False)
    table = grouped[["log", "completion_s", "ideal_s"]].mean().assign(flows=grouped.size())
    table["packets"] = np.exp(table["log"])
    table["slowdown"] = table["completion_s"] / table["ideal_s"]
    names = ["case", "repetition", "packets", "flows", "completion_s", "ideal_s", "slowdown"]
    return table.reset_index()[names].sort_values(["case", "repetition", "packets"], ignore_index=True)


def active_flows(flows: pd.DataFrame, times_s: np.ndarray) -> np.ndarray:
    """How many flows are under way at each time."""
    starts, ends = np.sort(flows["start_s"]), np.sort(flows["start_s"] + flows["completion_s"])
    return np.searchsorted(starts, times_s, "right") - np.searchsorted(ends, times_s, "right")


def worst_slowdown(runs: Runs) -> pd.Series:
    """Of the size that fares worst, by case and repetition."""
    sizes = runs.by_size
    return sizes[sizes.flows >= LEAST_FLOWS].groupby(["case", "repetition"])["slowdown"].max()


# Claims.


def measured_claims(runs: Runs, tier: str = "simulated") -> list[Measured]:
    """One measurement a claim of data/flow_completion_time/claims.yaml; none on kernels, which have no RCP to
    compare with."""
    if tier != "simulated":
        return []
    worst = worst_slowdown(runs)
    ratio = runs.flows["completion_s"] / runs.flows["ideal_s"]
    typical = ratio.groupby([runs.flows["case"], runs.flows["repetition"]]).mean()
    small = runs.flows[runs.flows.packets <= SMALL_PACKETS].groupby(["case", "repetition"])["completion_s"].mean()
    total = runs.flows.groupby(["case", "repetition"])["completion_s"].mean()
    broken = "RCP without feedback"
    values: dict[str, tuple[Any, Any]] = {
        "longer-than-necessary": (worst["TCP"], worst["RCP"]),
        "rcp-near-the-minimum": (typical["RCP"], typical[broken]),
        "small-flows": (_order(small, "RCP"), _order(small, broken)),
        "all-flows": (_order(total, "RCP"), _order(total, broken)),
    }
    return [Measured(claim=claim, values=ours, control=other, **runs.trust) for claim, (ours, other) in values.items()]


def _order(means: pd.Series, rcp: str) -> list[list[str]]:
    pairs = zip(means[rcp], means["TCP"], strict=True)
    return [["RCP", "TCP"] if ours < theirs else ["TCP", "RCP"] for ours, theirs in pairs]


def answer(runs: Runs) -> str:
    """The question answered in one sentence, with this run's numbers."""
    table, worst = runs.summary, worst_slowdown(runs)["TCP"].mean()
    return (
        f"Because users wait for it, and throughput hides it: on a link that is {PRINTED.load:.0%} full, flows take "
        f"{table.all_ms['TCP']:.0f} ms with TCP and {table.all_ms['RCP']:.0f} ms with RCP, where processor sharing "
        f"takes {table.processor_sharing_ms['TCP']:.0f}; at the worst size TCP takes {worst:.1f} times as long."
    )


# Knobs.


def vary(
    seconds: float,
    seed: int,
    name: str,
    values: Sequence[float],
    *,
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Mean slowdown against processor sharing over one field of the setting: the field, case, slowdown."""

    def run_one(value: float, case: str) -> tuple[float, str, float]:
        changed: dict[str, Any] = {name: value}
        flows = run(CASES[case], replace(setting, **changed), seconds, seed)[0]
        return value, case, (flows["completion_s"] / flows["ideal_s"]).mean()

    work = [(value, case) for value in values for case in ("TCP", "RCP")]
    rows = in_parallel(run_one, work, progress=progress)
    return pd.DataFrame(rows, columns=[name, "case", "slowdown"])


# Figures.


def draw_network(setting: Setting = PRINTED) -> Figure:
    """Many flows over one long link."""
    figure, axis = new_figure("Flows come and go; one long link carries them all", "", "")
    axis.axis("off")
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": scheme("tcp").colour}
    for y in (1, 0, -1):
        axis.text(0, y, "sender", ha="center", va="center", bbox=box)
        axis.text(6, y, "receiver", ha="center", va="center", bbox=box)
        axis.annotate("", (1.7, 0.15 * y), (0.5, 0.92 * y), arrowprops={"arrowstyle": "->"})
        axis.annotate("", (5.4, 0.92 * y), (4.3, 0.15 * y), arrowprops={"arrowstyle": "->"})
    axis.text(2, 0, "router", ha="center", va="center", bbox=box)
    axis.text(4, 0, "router", ha="center", va="center", bbox=box)
    axis.annotate("", (3.6, 0), (2.4, 0), arrowprops={"arrowstyle": "->", "linewidth": 3})
    words = f"{setting.rate_mbps:g} Mb/s, {setting.load:.0%} full\nround trip {setting.round_trip_ms:g} ms"
    axis.text(3, 0.55, words, ha="center", va="bottom")
    axis.text(3, -0.5, f"buffer {setting.buffer_packets} packets", ha="center", va="top", fontsize=9)
    axis.set(xlim=(-0.7, 6.7), ylim=(-1.5, 1.5))
    return figure


def draw_completion(runs: Runs, setting: Setting) -> Figure:
    """Mean completion time over flow size, and the two closed forms (Fig. 1)."""
    figure, axis = new_figure(
        "Completion time by flow size", "flow size (packets)", "mean completion (s)", log_x=True, log_y=True
    )
    table = runs.by_size
    for name in ("TCP", "RCP"):
        rows = table[table.case == name]
        colour, marker = LOOKS[name].colour, LOOKS[name].marker
        axis.plot(rows.packets, rows.completion_s, marker, color=colour, alpha=0.6, label=name)
    x = np.geomspace(runs.flows.packets.min(), runs.flows.packets.max(), 200)
    axis.plot(x, slow_start_s(x, setting), "--", color=LOOKS["TCP"].colour, label="slow start, nothing lost")
    axis.plot(
        x, processor_sharing_s(x, setting), "-", color=LOOKS["processor sharing"].colour, label="processor sharing"
    )
    axis.legend()
    return figure


def draw_slowdown(runs: Runs) -> Figure:
    """How much longer than in processor sharing of the very same flows."""
    figure, axis = new_figure(
        "Longer than necessary", "flow size (packets)", "completion / processor sharing", log_x=True, log_y=True
    )
    table = runs.by_size
    for name in ("TCP", "RCP"):
        colour, marker = LOOKS[name].colour, LOOKS[name].marker
        rows = table[table.case == name]
        axis.plot(rows.packets, rows.slowdown, marker, color=colour, alpha=0.6, label=name)
    axis.axhline(1, color=LOOKS["processor sharing"].colour)
    axis.legend()
    return figure


def draw_active(runs: Runs) -> Figure:
    """Flows under way over time, and the queue: one repetition."""
    figure, _ = new_figure("Flows under way, and what waits", "time (s)", "", columns=2)
    first = runs.flows[runs.flows.repetition == 0]
    times_s = np.arange(0, first["start_s"].max(), 0.05)
    for name in ("TCP", "RCP"):
        rows, queue = first[first.case == name], runs.queues[(runs.queues.case == name) & (runs.queues.repetition == 0)]
        queue = queue[queue.time_s <= times_s[-1]]
        figure.axes[0].plot(times_s, active_flows(rows, times_s), color=LOOKS[name].colour, label=name, linewidth=1.2)
        figure.axes[1].plot(queue.time_s, queue.queue_packets, color=LOOKS[name].colour, label=name, linewidth=0.8)
    ideal = first[first.case == "TCP"].assign(completion_s=lambda table: table.ideal_s)
    figure.axes[0].plot(
        times_s,
        active_flows(ideal, times_s),
        color=LOOKS["processor sharing"].colour,
        label="processor sharing",
        lw=1.2,
    )
    figure.axes[0].set_ylabel("flows under way")
    figure.axes[1].set_ylabel("queue (packets)")
    for axis in figure.axes:
        axis.set_ylim(bottom=0)
        axis.legend()
    return figure


def draw_control(runs: Runs) -> Figure:
    """RCP whose routers keep their first, low rate."""
    figure, axis = new_figure(
        "Broken on purpose: routers that never correct their rate",
        "flow size (packets)",
        "mean completion (s)",
        log_x=True,
        log_y=True,
    )
    table = runs.by_size
    for name in CASES:
        rows = table[table.case == name]
        axis.plot(rows.packets, rows.completion_s, LOOKS[name].marker, color=LOOKS[name].colour, alpha=0.6, label=name)
    axis.legend()
    return figure


def draw_tiers(by_tier: Mapping[str, Runs]) -> Figure:
    """TCP's slowdown by size on the slower link, points of a colour a tier."""
    figure, axis = new_figure(
        f"TCP at {REAL_RATE_MBPS:g} Mb/s, by tier",
        "flow size (packets)",
        "completion / processor sharing",
        log_x=True,
        log_y=True,
    )
    for tier, runs in by_tier.items():
        look, rows = scheme("simulated" if tier == "simulated" else "emulated"), runs.by_size
        rows = rows[rows.flows >= LEAST_FLOWS]
        axis.plot(rows.packets, rows.slowdown, look.marker, color=look.colour, alpha=0.6, label=tier)
    axis.axhline(1, color=LOOKS["processor sharing"].colour)
    axis.legend()
    return figure


def draw_vary(table: pd.DataFrame, label: str) -> Figure:
    """Mean slowdown over a knob, a curve a scheme."""
    name = table.columns[0]
    figure, axis = new_figure(f"Slowdown against the {label}", label, "mean of completion / processor sharing")
    for case, rows in table.groupby("case", sort=False):
        colour, marker = LOOKS[str(case)].colour, LOOKS[str(case)].marker
        axis.plot(rows[name].astype(str), rows.slowdown, marker + "-", color=colour, label=case)
    axis.axhline(1, color=LOOKS["processor sharing"].colour, linewidth=1)
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def explore(seconds: float = 10.0) -> object:
    """Sliders for round trip, load and first window; completion by size redrawn at once."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "round_trip": widgets.FloatLogSlider(100, base=10, min=0, max=2.4, step=0.2, description="round trip (ms)"),
        "load": widgets.FloatSlider(0.9, min=0.1, max=0.95, step=0.05, description="load"),
        "window": widgets.IntSlider(1, min=1, max=50, description="first window"),
    }

    def redraw(round_trip: float, load: float, window: int) -> None:
        setting = replace(PRINTED, rate_mbps=100.0, round_trip_ms=round_trip, load=load, initial_window_segments=window)
        names = [("TCP",), ("RCP",)]
        tables = in_parallel(lambda name: run(CASES[name], setting, seconds, 1)[0].assign(case=name), names)
        display(draw_completion(Runs(pd.concat(tables).assign(repetition=0), pd.DataFrame(), pd.DataFrame()), setting))

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
