"""The simulator and a real kernel in virtual time on the same experiments, compared closely.

Only the two network stacks can differ: both have exact links and clocks, and other work on the machine has no effect.
So every difference in the results is one of TCP or of a queue, and has a reason. TOLERANCES fixes how large a
difference may be, for each kind of quantity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.emulation.tiers import why_no_processes
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.guides.simulator_check import two_flows
from netrepro.networks import (
    CoDel,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    Measure,
    Measurements,
    Red,
    Tcp,
    Topology,
    dumbbell,
    star,
)
from netrepro.networks.links import bandwidth_delay_packets
from netrepro.networks.queues import Queue
from netrepro.simulation import simulate
from netrepro.study import Progress, in_parallel, of_profile, seed_of
from netrepro.study import pictures as drawing
from netrepro.style import CURVES, new_figure, scheme

KERNEL, SIMULATOR = "kernel", "simulator"
PORT = ("s1", "s2")
SIZES_BYTES = (2_000, 20_000, 100_000, 1_000_000, 10_000_000)
PATHS = ((10.0, 20.0), (10.0, 200.0), (100.0, 10.0), (100.0, 80.0), (1000.0, 1.0))  # Mb/s, base round trip in ms
CONTROLS = ("reno", "cubic", "dctcp", "bbr")
QUEUES: Mapping[str, Queue] = {
    "RED, drops": Red(200, 20, 80, 0.1),
    "RED, marks": Red(200, 20, 80, 0.1, ecn=True),
    "CoDel, drops": CoDel(1000),
    "CoDel, marks": CoDel(1000, ecn=True),
}
COMPLETIONS, GOODPUT, QUEUE, DROPS = "completion times", "goodput", "mean queues", "drops and marks"
TOLERANCES = {COMPLETIONS: 1.0, GOODPUT: 1.0, QUEUE: 2.0, DROPS: 3.0}  # %
WITHIN, OUTSIDE, UNDECIDED, NOT_MEASURED = "within", "outside", "undecided", "not measured"
LOSSY_SIZES_BYTES, SHORT_BYTES = (20_000, 100_000, 200_000, 500_000), 6_000
SERVERS, FRAGMENT_BYTES, BLOCK_S = 8, 64_000, 0.5  # of incast
LEAST_COUNT = 30  # of drops or marks in a run; with fewer, a tolerance of three in a hundred is less than one
STARTS_MS = tuple(range(16))  # starts of flows that time out, in ms after a whole second


@dataclass(frozen=True)
class ComparisonSize:
    """The duration of a run of long flows, in seconds, and the number of seeds."""

    seconds: float
    seeds: int


@dataclass(frozen=True)
class Comparison:
    """The values that both tools measured.

    values : a row for each quantity and seed; columns kind, part, case, quantity, tool, seed, value. flows, windows,
    queues : the tables of the first seed, with the columns part, case and tool. why : the reason for a missing kernel.
    """

    values: pd.DataFrame
    flows: pd.DataFrame
    windows: pd.DataFrame
    queues: pd.DataFrame
    why: str = ""


def scale(profile: str) -> ComparisonSize:
    """Return the length of the runs and the number of seeds. Raises NetreproError for a profile other than quick and
    paper."""
    return of_profile(profile, {"quick": ComparisonSize(10.0, 2), "paper": ComparisonSize(60.0, 10)})


def _path(rate_mbps: float, round_trip_ms: float, queue: Queue | None = None, pairs: int = 1) -> Topology:
    packets = max(round(bandwidth_delay_packets(rate_mbps, round_trip_ms)), 30)
    delay_ms = round_trip_ms / 2
    near, far = Link(10 * rate_mbps, 0.1 * delay_ms, DropTail(100_000)), queue or DropTail(packets)
    return dumbbell(pairs, near, Link(rate_mbps, 0.8 * delay_ms, far))


def _single_flows(rate_mbps: float, round_trip_ms: float, seed: int) -> Experiment:
    """Make the experiment with a flow of each size, one after the other, so that no flow meets another."""
    flows, start_s = [], 0.1
    for size in SIZES_BYTES:
        flows.append(Flow("h1", "h2", size, start_s=start_s))
        start_s += 2 + 20 * round_trip_ms / 1e3 + 3 * size * 8 / (rate_mbps * 1e6)
    return Experiment(_path(rate_mbps, round_trip_ms), tuple(flows), start_s, seed)


def _one_flow(control: str, seconds: float, seed: int) -> Experiment:
    queue = EcnThreshold(100, 20) if control == "dctcp" else DropTail(100)
    look = Measure(queues=(PORT,), queue_interval_ms=5, windows_interval_ms=20)
    flow = Flow("h1", "h2", duration_s=seconds)
    return Experiment(_path(50.0, 20.0, queue), (flow,), seconds, seed, look, Tcp(control))


def _two_flows(control: str, seconds: float, seed: int, delayed_ack_ms: float = Tcp.delayed_ack_ms) -> Experiment:
    queue = EcnThreshold(425, 20) if control == "dctcp" else DropTail(100)
    return two_flows(queue, Tcp(control, delayed_ack_ms=delayed_ack_ms), seconds, seed, interval_ms=1)


def _ten_flows(seconds: float, seed: int) -> Experiment:
    flows = tuple(Flow(f"h{i + 1}", f"h{i + 11}", duration_s=seconds - i / 100, start_s=i / 100) for i in range(10))
    look = Measure(queues=(PORT,), queue_interval_ms=5)
    net = _path(100.0, 20.0, DropTail(100), 10)
    return Experiment(net, flows, seconds, seed, look, Tcp("reno"), host_delay_packets=1)


def _managed(queue: Queue, seconds: float, seed: int) -> Experiment:
    flows = tuple(Flow(f"h{i + 1}", f"h{i + 5}", duration_s=seconds - i / 10, start_s=i / 10) for i in range(4))
    look = Measure(queues=(PORT,), queue_interval_ms=5)
    tcp = Tcp("reno", ecn=getattr(queue, "ecn", False))
    return Experiment(_path(20.0, 40.0, queue, 4), flows, seconds, seed, look, tcp, host_delay_packets=1)


def _burst(control: str, seed: int) -> Experiment:
    """Make the experiment in which slow start overruns a buffer of a fifth of the path. It shows how many packets are
    lost, and when the flow completes."""
    flow = Flow("h1", "h2", 3_000_000)
    look = Measure(queues=(PORT,), queue_interval_ms=5, windows_interval_ms=20)
    return Experiment(_path(20.0, 80.0, DropTail(30)), (flow,), 20.0, seed, look, Tcp(control))


def _losses(control: str, grows: bool, seed: int) -> Experiment:
    """Make the experiment in which flows, one after the other, lose packets that overflow a buffer of six packets.

    grows : whether the receive window grows as data arrive; else the whole window is offered from the start.
    """
    flows = tuple(Flow("h1", "h2", size, start_s=0.1 + 5 * place) for place, size in enumerate(LOSSY_SIZES_BYTES))
    tcp = Tcp(control, receive_window_grows=grows)
    return Experiment(_path(10.0, 40.0, DropTail(6)), flows, 0.1 + 5 * len(flows), seed, tcp=tcp)


def _time_outs(seed: int) -> Experiment:
    """Make the experiment in which flows lose the last of five segments, so that only a time-out repairs the loss.

    The flows start at the STARTS_MS after whole seconds.
    """
    flows = tuple(Flow("h1", "h2", SHORT_BYTES, start_s=place + ms / 1e3) for place, ms in enumerate(STARTS_MS, 1))
    tcp = Tcp("reno", tail_loss_probe=False)
    return Experiment(_path(10.0, 40.0, DropTail(3)), flows, 2.0 + len(flows), seed, tcp=tcp)


def _incast(seconds: float, seed: int) -> Experiment:
    """Make the experiment in which servers answer within a millisecond into a buffer of 20 packets, block after block.

    The seed determines when each server answers, equally in both tools; hosts have no delay.
    """
    late_s = np.random.default_rng(seed).uniform(0, 1e-3, (round(seconds / BLOCK_S), SERVERS))
    flows = tuple(
        Flow(f"h{server + 2}", "h1", FRAGMENT_BYTES, start_s=0.1 + BLOCK_S * block + late)
        for block, of_block in enumerate(late_s.tolist())
        for server, late in enumerate(of_block)
    )
    net = star(SERVERS + 1, Link(100, 0.1, DropTail(packets=20)))
    return Experiment(net, flows, seconds + BLOCK_S, seed, tcp=Tcp("reno"))


def _experiments(size: ComparisonSize, seed: int) -> dict[tuple[str, str], Experiment]:
    experiments = {
        ("single flows", f"{rate:g} Mb/s, {trip:g} ms"): _single_flows(rate, trip, seed) for rate, trip in PATHS
    }
    experiments |= {("one flow", control): _one_flow(control, size.seconds, seed) for control in CONTROLS}
    experiments |= {("two flows", control): _two_flows(control, size.seconds, seed) for control in CONTROLS[:3]}
    experiments |= {
        ("two flows", f"{control}, each acknowledged"): _two_flows(control, size.seconds, seed, delayed_ack_ms=0)
        for control in CONTROLS[1:3]
    }
    experiments["ten flows", "reno"] = _ten_flows(size.seconds, seed)
    experiments |= {("four flows", name): _managed(queue, size.seconds, seed) for name, queue in QUEUES.items()}
    experiments |= {("burst", control): _burst(control, seed) for control in CONTROLS[:2]}
    experiments |= {("losses", control): _losses(control, True, seed) for control in CONTROLS[:2]}
    experiments |= {("losses", f"{control}, all offered"): _losses(control, False, seed) for control in CONTROLS[:2]}
    return experiments | {
        ("time-outs", "reno"): _time_outs(seed),
        ("incast", "reno"): _incast(size.seconds, seed),
    }


def _read(part: str, run: Measurements) -> list[tuple[str, str, float]]:
    """Return the values of a run as (kind, quantity, value)."""
    flows, links = run.flows, run.links
    times_ms = flows["completion_ms"]
    if part in ("single flows", "losses"):
        sizes = flows["size_bytes"] / 1000
        return [(COMPLETIONS, f"{size:g} kB (ms)", float(ms)) for size, ms in zip(sizes, times_ms, strict=True)]
    dropped = (DROPS, "packets dropped", float(links["dropped_packets"].sum()))
    if part == "time-outs":
        return [(COMPLETIONS, f"{SHORT_BYTES / 1000:g} kB (ms)", float(times_ms.mean()))]
    if part == "burst":
        return [(COMPLETIONS, "3000 kB (ms)", float(times_ms.iloc[0])), dropped]
    if part == "incast":
        blocks_ms = times_ms.fillna(np.inf).to_numpy().reshape(-1, SERVERS).max(axis=1)
        return [(COMPLETIONS, "mean block (ms)", float(blocks_ms.mean())), dropped]
    queue = run.queues["queue_packets"][run.queues["time_s"] > run.experiment.duration_s / 4]
    marked = (DROPS, "packets marked", float(links["marked_packets"].sum()))
    return [
        (GOODPUT, "Mb/s", float(flows["goodput_mbps"].sum())),
        (QUEUE, "packets", float(queue.mean())),
        *(row for row in (dropped, marked) if row[2] >= LEAST_COUNT),
    ]


def measure(profile: str, seed: int, progress: Progress = iter) -> Comparison:
    """Measure every experiment with both tools and every seed; without a kernel, only with the simulator.

    Raises NetreproError for an unknown profile.
    """
    size, why = scale(profile), why_no_processes()
    runs = {SIMULATOR: simulate} | ({} if why else {KERNEL: emulate_virtually})
    work = [
        (tool, *key, place, experiment)
        for tool in runs
        for place in range(size.seeds)
        for key, experiment in _experiments(size, seed_of(seed, place)).items()
    ]

    def run(tool: str, part: str, case: str, place: int, experiment: Experiment) -> tuple[list, list[pd.DataFrame]]:
        measured = runs[tool](experiment)
        rows = [(kind, part, case, quantity, tool, place, value) for kind, quantity, value in _read(part, measured)]
        kept = [measured.flows, measured.windows, measured.queues] if place == 0 else []
        return rows, [table.assign(part=part, case=case, tool=tool) for table in kept]

    read, kept = zip(*in_parallel(run, work, progress=progress), strict=True)
    rows = [row for rows in read for row in rows]
    values = pd.DataFrame(rows, columns=["kind", "part", "case", "quantity", "tool", "seed", "value"])
    flows, windows, queues = (_together(tables) for tables in zip(*filter(None, kept), strict=True))
    return Comparison(values, flows, windows, queues, why)


def _together(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def side_by_side(comparison: Comparison, kind: str) -> pd.DataFrame:
    """Return a row for each quantity of a kind: the means of both tools over seeds, the simulator's deviation (%), the
    error of this deviation (two standard errors over the seeds of both, %), and whether it is within the tolerance.

    The verdict is UNDECIDED where the interval of the error includes the tolerance. A quantity is left out where a seed
    of either tool lacks it.
    """
    order = ["part", "case", "quantity"]
    values = comparison.values[comparison.values["kind"] == kind]
    by = values.groupby([*order, "tool"], sort=False)["value"]
    means, errors, counts = (by.mean(), by.sem().fillna(0.0), by.count())
    table = means.unstack("tool", sort=False).reindex(columns=[SIMULATOR, KERNEL])
    complete = (counts.unstack("tool", sort=False) == values["seed"].nunique()).all(axis=1)
    relative = (errors / means).unstack("tool", sort=False).reindex(columns=[SIMULATOR, KERNEL])
    table["off by %"] = (table[SIMULATOR] / table[KERNEL] - 1) * 100
    table["error %"] = 2 * np.hypot(relative[SIMULATOR], relative[KERNEL]) * 100
    off, error, tolerance = table["off by %"].abs(), table["error %"], TOLERANCES[kind]
    table[f"within {tolerance:g} %"] = np.select(
        [off + error <= tolerance, off - error > tolerance, off.notna()], [WITHIN, OUTSIDE, UNDECIDED], NOT_MEASURED
    )
    return table[complete]


def summary(comparison: Comparison) -> pd.DataFrame:
    """Count the quantities of each kind by verdict."""
    rows = {
        f"{kind}, {tolerance:g} %": side_by_side(comparison, kind).iloc[:, -1].value_counts()
        for kind, tolerance in TOLERANCES.items()
    }
    return pd.DataFrame(rows).T.reindex(columns=[WITHIN, UNDECIDED, OUTSIDE]).fillna(0).astype(int)


def draw_completions(comparison: Comparison) -> Figure:
    """Draw the ratio of the simulator's flow completion times to the kernel's, by size, with a line for each path."""
    figure, axis = new_figure("Single flows", "flow size (kB)", "completion time (simulator / kernel)", log_x=True)
    table = side_by_side(comparison, COMPLETIONS).loc["single flows"].reset_index()
    for place, (path, rows) in enumerate(table.groupby("case", sort=False)):
        sizes = [float(quantity.partition(" ")[0]) for quantity in rows["quantity"]]
        axis.plot(sizes, rows[SIMULATOR] / rows[KERNEL], "o-", color=CURVES[place], label=str(path))
    axis.axhline(1, color="#444444", linewidth=0.8)
    tolerance = TOLERANCES[COMPLETIONS] / 100
    axis.axhspan(1 - tolerance, 1 + tolerance, color="#444444", alpha=0.1, label="tolerance")
    axis.legend(fontsize=8)
    return _or_say(figure, comparison)


def draw_windows(comparison: Comparison) -> Figure:
    """Draw the congestion window of one flow in both tools, with a panel for each congestion control."""
    figure, axes = drawing.panels("One flow, 50 Mb/s, 20 ms", "time (s)", "congestion window (kB)", CONTROLS)
    for axis, control in zip(axes, CONTROLS, strict=True):
        rows = comparison.windows[(comparison.windows["part"] == "one flow") & (comparison.windows["case"] == control)]
        for tool, table in rows.groupby("tool", sort=False):
            axis.plot(table["time_s"], table["window_bytes"] / 1e3, label=str(tool), **_look(str(tool)))
    axes[0].legend(fontsize=8)
    return _or_say(figure, comparison)


def draw_queues(comparison: Comparison) -> Figure:
    """Draw the distribution of two flows' queue in both tools, with a panel for each congestion control."""
    names = CONTROLS[:3]
    figure, axes = drawing.panels("Two flows at one port, 100 Mb/s", "queue (packets)", "share of the time", names)
    for axis, control in zip(axes, names, strict=True):
        rows = comparison.queues[(comparison.queues["part"] == "two flows") & (comparison.queues["case"] == control)]
        for tool, table in rows.groupby("tool", sort=False):
            values = np.sort(table["queue_packets"])
            axis.step(values, np.linspace(0, 1, len(values)), where="post", label=str(tool), **_look(str(tool)))
    axes[0].legend(fontsize=8)
    return _or_say(figure, comparison)


def draw_time_outs(comparison: Comparison) -> Figure:
    """Draw the completion times of flows that timed out, by the millisecond in which they started."""
    figure, axis = new_figure("One time-out each", "start (ms beyond a whole second)", "completion time (ms)")
    for tool, rows in comparison.flows[comparison.flows["part"] == "time-outs"].groupby("tool", sort=False):
        axis.plot(STARTS_MS, rows["completion_ms"], "o-", label=str(tool), **_look(str(tool)))
    axis.legend(fontsize=8)
    return _or_say(figure, comparison)


def _look(tool: str) -> dict[str, Any]:
    kernel = tool == KERNEL
    return {"color": scheme("emulated" if kernel else "simulated").colour, "linewidth": 1.2 if kernel else 2.4}


def _or_say(figure: Figure, comparison: Comparison) -> Figure:
    for axis in figure.axes if comparison.why else ():
        drawing.say_not_measured(axis, "virtual")
    return figure
