"""DCTCP's queue at one switch port: Handigol et al., "Reproducible Network Experiments Using Container-Based
Emulation" (Mininet-HiFi, CoNEXT 2012), section 5.1, Figs 5 and 6.

Two hosts send one long flow each to a third through a port of 100 Mb/s. TCP fills the port's buffer; DCTCP, whose
senders react to the share of marked packets, keeps the queue at the marking threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.emulation.bpf_controls import has_congestion_control, missing_for_bpf
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, EcnThreshold, Link, Queue, Red
from netrepro.networks.topology import star
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers._running import at_once, run_experiment, run_in_groups
from netrepro.papers._runs import CheckedRuns, Progress, of_profile, seed_of
from netrepro.paths import data_dir
from netrepro.simulation import gap_shares
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

PORT = ("s1", "h3")
PERCENTILES = (1, 10, 25, 50, 75, 90, 99)
SETTLED_S = 5.0  # slow start and the second flow's arrival are over by then, and in a third of a short run


@dataclass(frozen=True)
class Setting:
    """The experiment of section 5.1; delays and jitter are those of the authors' scripts."""

    rate_mbps: float = 100.0
    buffer_packets: int = 425
    threshold_packets: int = 20
    host_delay_ms: float = 0.075
    host_jitter_ms: float = 0.05
    red: tuple[float, float] = (10, 30)  # TCP-RED's thresholds (packets)

    def link(self, queue: Queue) -> Link:
        return Link(self.rate_mbps, self.host_delay_ms, queue, jitter_ms=self.host_jitter_ms)


PRINTED = Setting()


@dataclass(frozen=True)
class Case:
    """A congestion control over a queue discipline, and what the experiment changes for it."""

    congestion_control: str
    queue: str  # "drop tail", "ecn" or "red"
    change: tuple[tuple[str, Any], ...] = ()


CASES = {
    "tcp": Case("reno", "drop tail"),
    "dctcp": Case("dctcp", "ecn"),
    "red": Case("reno", "red"),
    "dctcp, no marking": Case("dctcp", "drop tail"),
    "tcp, long path": Case("reno", "drop tail", (("host_delay_ms", 5.0),)),
    "dctcp, long path, K = 1": Case("dctcp", "ecn", (("host_delay_ms", 5.0), ("threshold_packets", 1))),
}


def duration_s(profile: str, tier: str = "simulated") -> float:
    """Seconds of one repetition; real kernels take as long as that. Raises NetreproError for another profile than
    quick and paper."""
    durations = {"quick": 30.0 if tier == "simulated" else 6.0, "paper": 120.0}
    return of_profile(profile, durations)


def repetitions_of(profile: str, tier: str, asked: int) -> int:
    """Repetitions that are run: in the quick profile on real kernels three at most, which take less than a minute."""
    return min(asked, 3) if profile == "quick" and tier != "simulated" else asked


def settled_s(seconds: float) -> float:
    """When the queue of a run of `seconds` begins to count: TCP's sawtooth of four seconds fits into six."""
    return min(SETTLED_S, seconds / 3)


def cases_of(tier: str) -> list[str]:
    """The cases that the tier can run: on real kernels those whose congestion control they have or can load."""
    if tier == "simulated":
        return list(CASES)
    return [name for name, case in CASES.items() if has_congestion_control(case.congestion_control, tier)]


def experiment(case: Case, setting: Setting, seconds: float, seed: int) -> Experiment:
    """The experiment of one case: what any tier runs."""
    setting = replace(setting, **dict(case.change))
    low, high = setting.red
    queues: dict[str, Queue] = {
        "drop tail": DropTail(packets=setting.buffer_packets),
        "ecn": EcnThreshold(setting.buffer_packets, setting.threshold_packets),
        "red": Red(setting.buffer_packets, low, high, max_probability=0.1, ecn=True),
    }
    flows = [Flow(host, "h3", duration_s=seconds - start, start_s=start) for host, start in (("h1", 0.0), ("h2", 0.5))]
    return Experiment(
        star(3, setting.link(queues[case.queue])),
        tuple(flows),
        seconds,
        seed,
        Measure(queues=(PORT,), queue_interval_ms=10.0, packets=(PORT,)),
        Tcp(case.congestion_control, ecn=True),  # of no matter where nothing marks
    )


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All repetitions of all cases.

    queues : case, repetition, time_s, queue_packets. totals : case, repetition, goodput_mbps (sum of both flows).
    fidelity : case, repetition, check, value, bound, holds.
    """

    queues: pd.DataFrame
    totals: pd.DataFrame
    fidelity: pd.DataFrame
    tier: str = "simulated"


def measure(
    seconds: float,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    tier: str = "simulated",
    backend: str = "fabric",
    progress: Progress = iter,
) -> Runs:
    """Run every case of cases_of(tier); `progress` wraps the list of (case, repetition) that is worked through.

    backend : what the switch is on real kernels, as emulate takes it.
    """
    cases = cases_of(tier)
    work = [(name, repetition) for repetition in range(repetitions) for name in cases]  # together run different ones

    def describe(name: str, repetition: int) -> Experiment:
        return experiment(CASES[name], setting, seconds, seed_of(seed, repetition))

    def read(found: Measurements) -> tuple[pd.DataFrame, float, pd.DataFrame]:
        settled = found.queues[found.queues.time_s >= settled_s(seconds)]
        return settled[["time_s", "queue_packets"]], total_goodput_mbps(found), check_fidelity(found)

    # A network carries what its port lets through.
    how: dict[str, Any] = {"backend": backend, "together": at_once(3, setting.rate_mbps), "attempts": 2}
    found, fidelity = run_in_groups(describe, read, work, tier, progress, **how, case="", repetition=0)
    queues, totals = [], []
    by_case = sorted(zip(work, found, strict=True), key=lambda each: cases.index(each[0][0]))
    for (name, repetition), (queue, goodput_mbps, checks) in by_case:
        label = {"case": name, "repetition": repetition}
        queues.append(queue.assign(**label))
        totals.append(label | {"goodput_mbps": goodput_mbps})
        fidelity.append(checks.assign(**label))
    return Runs(
        pd.concat(queues, ignore_index=True), pd.DataFrame(totals), pd.concat(fidelity, ignore_index=True), tier
    )


def beside(
    runs: Runs, seconds: float, repetitions: int, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter
) -> Runs:
    """The same experiments in the simulator; `runs` itself where they are the simulator's."""
    if runs.tier == "simulated":
        return runs
    return measure(seconds, repetitions, seed, setting=setting, progress=progress)


def tier_table(all_runs: Sequence[Runs]) -> pd.DataFrame:
    """The tiers side by side: a row a case, for each tier mean and deviation of the queue (packets) and the goodput of
    both flows (Mb/s); NaN where not measured."""
    columns = ["mean_packets", "deviation_packets", "goodput_mbps"]
    tables = {runs.tier: summary(runs)[columns] for runs in all_runs}
    return pd.concat(tables, axis=1).swaplevel(axis=1)[columns].reindex(list(CASES))


def total_goodput_mbps(found: Measurements) -> float:
    """Payload of both flows over the whole experiment."""
    return float(found.flows["delivered_bytes"].sum()) * 8e-6 / found.experiment.duration_s


def check_fidelity(found: Measurements) -> pd.DataFrame:
    """The tier's own checks, and the paper's: gaps between full packets that leave a busy port.

    At least 99 % must lie within 10 % of the ideal (121.1 us at 100 Mb/s) and 90 % within 1 %, as on the paper's
    emulated link (section 5.1). On real kernels the tier's own checks are that test already, with a lower bound.
    Columns: check, value, bound, holds.
    """
    if found.tier != "simulated":
        return found.fidelity
    rows = gap_shares(found, PORT)
    ours = pd.DataFrame([(*row, row[1] >= row[2]) for row in rows], columns=["check", "value", "bound", "holds"])
    return pd.concat([found.fidelity, ours], ignore_index=True)


def hardware_queue() -> pd.DataFrame:
    """Percentiles of the queue at the hardware switch's port: percentile, tcp_packets, dctcp_packets."""
    return pd.read_csv(data_dir("dctcp") / "hardware_queue.csv", comment="#")


def summary(runs: Runs) -> pd.DataFrame:
    """A row a case: mean, standard deviation and percentiles of the queue (packets), total goodput (Mb/s)."""
    grouped = runs.queues.groupby("case", sort=False)["queue_packets"]
    table = pd.DataFrame({"mean_packets": grouped.mean(), "deviation_packets": grouped.std()})
    for percentile in PERCENTILES:
        table[f"p{percentile}"] = grouped.quantile(percentile / 100)
    return table.join(runs.totals.groupby("case")["goodput_mbps"].mean())


# Claims.


def measured_claims(runs: Runs) -> list[Measured]:
    """One measurement a claim of data/dctcp/claims.yaml, of those whose cases the tier could run."""
    if set(CASES) - set(runs.totals["case"]):
        return _measured_tcp(runs)
    means, curves, deviations = _of_queues(runs, np.mean), _of_queues(runs, _curve), _of_queues(runs, np.std)
    goodput = {case: rows["goodput_mbps"].to_numpy() for case, rows in runs.totals.groupby("case")}
    long_path = goodput["dctcp, long path, K = 1"] / goodput["tcp, long path"]
    values = {
        "dctcp-mean-queue": (means["dctcp"], means["dctcp, no marking"]),
        "tcp-mean-queue": (means["tcp"], means["dctcp"]),
        "tcp-queue-distribution": (curves["tcp"], curves["dctcp"]),
        "dctcp-queue-distribution": (curves["dctcp"], curves["dctcp, no marking"]),
        "dctcp-throughput": (goodput["dctcp"] / goodput["tcp"], long_path),
        "dctcp-steadier-than-red": (
            _order(deviations["dctcp"], deviations["red"]),
            _order(deviations["dctcp, no marking"], deviations["red"]),
        ),
    }
    return [
        Measured(claim=claim, values=ours, control=broken, **runs.trust) for claim, (ours, broken) in values.items()
    ]


def _measured_tcp(runs: Runs) -> list[Measured]:
    """TCP's claims alone, without their controls, which need DCTCP: such a verdict does not count."""
    functions: dict[str, Callable] = {"tcp-mean-queue": np.mean, "tcp-queue-distribution": _curve}
    return [
        Measured(claim=claim, values=_of_queues(runs, function)["tcp"], **runs.trust)
        for claim, function in functions.items()
    ]


def _of_queues(runs: Runs, function: Callable) -> dict[str, list]:
    """A value a repetition, by case."""
    grouped = runs.queues.groupby(["case", "repetition"])["queue_packets"]
    found: dict[str, list] = {}
    for (case, _), queue in grouped:
        found.setdefault(str(case), []).append(function(queue.to_numpy()))
    return found


def _curve(queue: np.ndarray) -> list[tuple[float, float]]:
    return list(zip(PERCENTILES, np.percentile(queue, PERCENTILES), strict=True))


def _order(dctcp: Sequence[float], red: Sequence[float]) -> list[list[str]]:
    return [["dctcp", "red"] if ours < theirs else ["red", "dctcp"] for ours, theirs in zip(dctcp, red, strict=True)]


def answer(runs: Runs) -> str:
    """The paper's question answered in one sentence, with this run's numbers."""
    table = summary(runs)
    if "dctcp" not in table.index:
        return (
            f"TCP keeps {table.loc['tcp'].mean_packets:.0f} packets in the queue (hardware: "
            f"{_hardware_mean('tcp'):.0f}); there is no DCTCP to compare with: {_why_no_dctcp(runs.tier)}."
        )
    tcp, dctcp = table.loc["tcp"], table.loc["dctcp"]
    return (
        f"DCTCP keeps {dctcp.mean_packets:.1f} packets in the queue at {dctcp.goodput_mbps:.1f} Mb/s of goodput where "
        f"TCP keeps {tcp.mean_packets:.0f} at {tcp.goodput_mbps:.1f} Mb/s "
        f"(hardware: {_hardware_mean('dctcp'):.1f} and {_hardware_mean('tcp'):.0f})."
    )


def _why_no_dctcp(tier: str) -> str:
    """Why hosts on this tier's kernels have none, and what to do."""
    lacks = "this kernel lacks it (where it is a module, root's `modprobe tcp_dctcp` helps)"
    if tier != "privileged":
        return f"{lacks}, and tier {tier!r} cannot load ours; tier 'privileged' can"
    return f"{lacks}, and ours cannot be loaded: {missing_for_bpf()}; see `netrepro doctor`"


# Knobs.


def vary_threshold(
    seconds: float,
    seed: int,
    *,
    thresholds: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    host_delays_ms: Sequence[float] = (0.075, 1.0, 5.0),
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """DCTCP's goodput and queue over the marking threshold K, for several delays between host and switch.

    Returns threshold_packets, round_trip_ms (without queues), goodput_mbps, mean_queue_packets.
    """
    rows = []
    for delay_ms, threshold in progress([(delay, k) for delay in host_delays_ms for k in thresholds]):
        changed = replace(setting, host_delay_ms=delay_ms, threshold_packets=threshold)
        found = run_experiment(experiment(CASES["dctcp"], changed, seconds, seed))
        queue = found.queues[found.queues.time_s >= settled_s(seconds)]["queue_packets"].mean()
        rows.append((threshold, 4 * delay_ms, total_goodput_mbps(found), float(queue)))
    return pd.DataFrame(rows, columns=["threshold_packets", "round_trip_ms", "goodput_mbps", "mean_queue_packets"])


# Figures.


def draw_network(setting: Setting = PRINTED) -> Figure:
    """Three hosts on one switch (Fig. 5)."""
    figure, axis = new_figure("Two long flows meet at one port (Fig. 5)", "", "")
    axis.axis("off")
    for name, (x, y) in {"h1": (0, 1), "h2": (0, -1), "s1": (1.5, 0), "h3": (3, 0)}.items():
        box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": scheme("tcp").colour}
        axis.text(x, y, name, ha="center", va="center", bbox=box, fontsize=13)
    for start in ((0, 1), (0, -1)):
        axis.annotate("", (1.3, 0.06 * start[1]), (0.25, 0.9 * start[1]), arrowprops={"arrowstyle": "->"})
    axis.annotate("", (2.75, 0), (1.75, 0), arrowprops={"arrowstyle": "->", "linewidth": 2})
    queue = f"buffer {setting.buffer_packets} packets\nmarks from {setting.threshold_packets} packets on"
    axis.text(2.2, -0.15, queue, ha="center", va="top", fontsize=9)
    axis.text(1.5, 1.1, f"every link {setting.rate_mbps:g} Mb/s, {setting.host_delay_ms:g} ms", ha="center")
    axis.set(xlim=(-0.4, 3.4), ylim=(-1.4, 1.4))
    return figure


def draw_queues(runs: Runs, seconds: float = 5.0) -> Figure:
    """The queue over time, one repetition of each scheme (Fig. 6 a and b)."""
    figure, _ = new_figure("Queue at the port (Fig. 6 a, b)", "time (s)", "queue (packets)", columns=2)
    for axis, name in zip(figure.axes, ("tcp", "dctcp"), strict=True):
        if name in set(runs.totals["case"]):
            rows = _first_seconds(runs, name, seconds)
            axis.plot(rows.time_s, rows.queue_packets, color=scheme(name).colour, linewidth=1, label=runs.tier)
        else:
            _say_not_measured(axis, runs)
        median = _hardware_median(name)
        axis.axhline(median, color=PUBLISHED_GREY, linestyle="--", label=f"median on hardware ({median:.0f})")
        axis.set_title(scheme(name).label, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.legend()
    return figure


def _first_seconds(runs: Runs, case: str, seconds: float) -> pd.DataFrame:
    """The queue of a case's first repetition, from when it counts."""
    rows = runs.queues[(runs.queues.case == case) & (runs.queues.repetition == 0)]
    return rows[rows.time_s < rows.time_s.min() + seconds]


def _say_not_measured(axis: Axes, runs: Runs, what: str = "") -> None:
    words = f"{what}not measured on the {runs.tier} tier"
    axis.text(0.97, 0.06, words, transform=axis.transAxes, ha="right")


def _hardware_mean(name: str) -> float:
    """The area beside the distribution: percentiles are what the data have."""
    queue = hardware_queue()
    return float(np.trapezoid(queue[f"{name}_packets"], queue["percentile"] / 100))


def _hardware_median(name: str) -> float:
    return float(hardware_queue().set_index("percentile")[f"{name}_packets"][50])


def draw_distributions(runs: Runs, reference: Runs | None = None) -> Figure:
    """Distribution of the queue beside the hardware's (Fig. 6 c and d), and beside that of `reference`, another tier's
    runs."""
    figure, _ = new_figure("Distribution of the queue (Fig. 6 c, d)", "queue (packets)", "share of time", columns=2)
    hardware = hardware_queue()
    for axis, name in zip(figure.axes, ("tcp", "dctcp"), strict=True):
        axis.plot(
            hardware[f"{name}_packets"], hardware["percentile"] / 100, color=PUBLISHED_GREY, lw=3, label="hardware"
        )
        if reference is not None and reference.tier != runs.tier:
            _draw_distribution(axis, reference, name, color=scheme("simulated").colour, linestyle="--")
        if name in set(runs.totals["case"]):
            _draw_distribution(axis, runs, name, color=scheme(name).colour)
        else:
            _say_not_measured(axis, runs)
        axis.set_title(scheme(name).label, fontsize=10)
        axis.legend(loc="upper left")
    return figure


def _draw_distribution(axis: Axes, runs: Runs, case: str, **look: Any) -> None:
    for _, rows in runs.queues[runs.queues.case == case].groupby("repetition"):
        queue = np.sort(rows["queue_packets"])
        share = np.arange(1, len(queue) + 1) / len(queue)
        axis.step(queue, share, linewidth=1, where="post", **look)
    axis.plot([], [], label=f"{runs.tier}, every repetition", **look)


def draw_control(runs: Runs) -> Figure:
    """What DCTCP's queue becomes without marks, beside TCP's."""
    figure, axis = new_figure("Broken on purpose: DCTCP without marking", "time (s)", "queue (packets)")
    for name, key, look in (
        ("dctcp", "dctcp", {"linewidth": 1}),
        ("tcp", "tcp", {"linewidth": 5, "alpha": 0.35}),
        ("control", "dctcp, no marking", {"linewidth": 1.2, "linestyle": "--"}),
    ):
        if key in set(runs.totals["case"]):
            rows = _first_seconds(runs, key, 5.0)
            axis.plot(rows.time_s, rows.queue_packets, color=scheme(name).colour, label=key, **look)
    if "dctcp" not in set(runs.totals["case"]):
        _say_not_measured(axis, runs, "DCTCP: ")
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_threshold(table: pd.DataFrame, setting: Setting = PRINTED) -> Figure:
    """Goodput and queue over K, a curve a round trip; dotted: the guideline C RTT / 7 at the setting's rate."""
    figure, _ = new_figure(
        "How small may the threshold be?", "marking threshold K (packets)", "", columns=2, log_x=True
    )
    columns = ("goodput_mbps", "goodput of both flows (Mb/s)"), ("mean_queue_packets", "mean queue (packets)")
    for axis, (column, label) in zip(figure.axes, columns, strict=True):
        for colour, (round_trip_ms, rows) in zip(CURVES, table.groupby("round_trip_ms"), strict=False):
            axis.plot(
                rows.threshold_packets, rows[column], "o-", color=colour, label=f"round trip {round_trip_ms:g} ms"
            )
            guideline = setting.rate_mbps * round_trip_ms * 1e3 / 8 / FULL_PACKET_BYTES / 7
            axis.axvline(guideline, color=colour, linestyle=":", linewidth=1)
        axis.set_ylabel(label)
        axis.set_xticks(sorted(set(table.threshold_packets)), [str(k) for k in sorted(set(table.threshold_packets))])
        axis.minorticks_off()
    figure.axes[0].set_ylim(bottom=0)
    figure.axes[0].legend()
    return figure


def explore(seconds: float = 10.0) -> object:
    """Sliders for threshold and delay, and a menu for the scheme; the simulator redraws the queue at once."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "name": widgets.Dropdown(options=["dctcp", "tcp", "red", "dctcp, no marking"], description="scheme"),
        "threshold": widgets.IntSlider(20, min=1, max=100, description="K (packets)"),
        "delay": widgets.FloatSlider(0.075, min=0.025, max=10, step=0.025, description="delay (ms)"),
    }

    def redraw(name: str, threshold: int, delay: float) -> None:
        setting = replace(PRINTED, threshold_packets=threshold, host_delay_ms=delay)
        found = run_experiment(experiment(CASES[name], setting, seconds, 1))
        figure, axis = new_figure(f"{name}: {total_goodput_mbps(found):.1f} Mb/s in all", "time (s)", "queue (packets)")
        axis.plot(found.queues.time_s, found.queues.queue_packets, linewidth=1)
        display(figure)

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
