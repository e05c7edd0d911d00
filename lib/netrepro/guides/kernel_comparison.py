"""The simulator and a real kernel in virtual time on the same descriptions, looked at closely.

Nothing but the two stacks can differ: both have exact links and clocks, and no other work comes between. So what is
apart is a difference of TCP or of a queue, and has a reason.
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
)
from netrepro.networks.queues import Queue
from netrepro.simulation import simulate
from netrepro.study import Progress, in_parallel, jain, of_profile, seed_of
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
    "CoDel": CoDel(1000),
}


@dataclass(frozen=True)
class Scale:
    """Seconds of a run of long flows, and seeds."""

    seconds: float
    seeds: int


@dataclass(frozen=True)
class Comparison:
    """The values that both tools found. values : part, case, quantity, tool, seed, value; a row for each quantity and
    seed. windows, queues : of the first seed, by part, case and tool. why : the reason where there is no kernel."""

    values: pd.DataFrame
    windows: pd.DataFrame
    queues: pd.DataFrame
    why: str = ""


def scale(profile: str) -> Scale:
    """Return the length of the runs and the number of seeds. Raises NetreproError for another profile than quick and
    paper."""
    return of_profile(profile, {"quick": Scale(10.0, 2), "paper": Scale(60.0, 5)})


def _path(rate_mbps: float, round_trip_ms: float, queue: Queue | None = None, pairs: int = 1) -> Topology:
    packets = max(round(rate_mbps * 1e3 * round_trip_ms / 8 / 1514), 30)
    delay_ms = round_trip_ms / 2
    near, far = Link(10 * rate_mbps, 0.1 * delay_ms, DropTail(100_000)), queue or DropTail(packets)
    return dumbbell(pairs, near, Link(rate_mbps, 0.8 * delay_ms, far))


def _single_flows(rate_mbps: float, round_trip_ms: float, seed: int) -> Experiment:
    """Make the experiment with one flow of each size after the other, none of which meets another."""
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


def _two_flows(control: str, seconds: float, seed: int) -> Experiment:
    queue = EcnThreshold(425, 20) if control == "dctcp" else DropTail(100)
    return two_flows(queue, Tcp(control), seconds, seed, interval_ms=1)


def _ten_flows(seconds: float, seed: int) -> Experiment:
    flows = tuple(Flow(f"h{i + 1}", f"h{i + 11}", duration_s=seconds - i / 100, start_s=i / 100) for i in range(10))
    return Experiment(_path(100.0, 20.0, DropTail(100), 10), flows, seconds, seed, tcp=Tcp("reno"))


def _managed(queue: Queue, seconds: float, seed: int) -> Experiment:
    flows = tuple(Flow(f"h{i + 1}", f"h{i + 5}", duration_s=seconds - i / 10, start_s=i / 10) for i in range(4))
    look = Measure(queues=(PORT,), queue_interval_ms=5)
    tcp = Tcp("reno", ecn=getattr(queue, "ecn", False))
    return Experiment(_path(20.0, 40.0, queue, 4), flows, seconds, seed, look, tcp)


def _burst(control: str, seed: int) -> Experiment:
    """Make the experiment in which slow start overruns a buffer of a fifth of the path. It shows how much is lost, and
    when all has arrived."""
    flow = Flow("h1", "h2", 3_000_000)
    look = Measure(queues=(PORT,), queue_interval_ms=5, windows_interval_ms=20)
    return Experiment(_path(20.0, 80.0, DropTail(30)), (flow,), 20.0, seed, look, Tcp(control))


def _experiments(size: Scale, seed: int) -> dict[tuple[str, str], Experiment]:
    found = {("completion", f"{rate:g} Mb/s, {trip:g} ms"): _single_flows(rate, trip, seed) for rate, trip in PATHS}
    found |= {("window", control): _one_flow(control, size.seconds, seed) for control in CONTROLS}
    found |= {("queue", control): _two_flows(control, size.seconds, seed) for control in CONTROLS[:3]}
    found["shares", "ten Reno flows"] = _ten_flows(size.seconds, seed)
    found |= {("burst", control): _burst(control, seed) for control in CONTROLS[:2]}
    return found | {("managed", name): _managed(queue, size.seconds, seed) for name, queue in QUEUES.items()}


def _read(part: str, found: Measurements) -> dict[str, float]:
    flows, links = found.flows, found.links.set_index(["source", "destination"])
    lost = float(links["dropped_packets"].sum()) if "dropped_packets" in links else float("nan")
    if part == "completion":
        return {
            f"{size / 1000:g} kB (ms)": float(ms) for size, ms in zip(SIZES_BYTES, flows["completion_ms"], strict=True)
        }
    if part == "burst":
        return {"packets lost": lost, "completion (ms)": float(flows["completion_ms"].iloc[0])}
    goodput = {"goodput (Mb/s)": float(flows["goodput_mbps"].sum())}
    if part == "shares":
        return goodput | {"Jain's index": jain(flows["goodput_mbps"])}
    queue = found.queues["queue_packets"][found.queues["time_s"] > found.experiment.duration_s / 4]
    mean = {"mean queue (packets)": float(queue.mean())}
    return goodput | mean | ({"packets lost": lost} if part == "managed" else {})


def measure(profile: str, seed: int, progress: Progress = iter) -> Comparison:
    """Measure everything with both, and every seed. Raises NetreproError for an unknown profile."""
    size, why = scale(profile), why_no_processes()
    runs = {SIMULATOR: simulate} | ({} if why else {KERNEL: emulate_virtually})
    work = [
        (tool, *key, place, experiment)
        for tool in runs
        for place in range(size.seeds)
        for key, experiment in _experiments(size, seed_of(seed, place)).items()
    ]
    measured = in_parallel(lambda tool, part, case, place, each: runs[tool](each), work, progress=progress)
    rows, windows, queues = [], [], []
    for (tool, part, case, place, _), found in zip(work, measured, strict=True):
        rows += [(part, case, quantity, tool, place, value) for quantity, value in _read(part, found).items()]
        if place == 0:
            label = {"part": part, "case": case, "tool": tool}
            windows.append(found.windows.assign(**label))
            queues.append(found.queues.assign(**label))
    values = pd.DataFrame(rows, columns=["part", "case", "quantity", "tool", "seed", "value"])
    return Comparison(values, _together(windows), _together(queues), why)


def _together(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def side_by_side(found: Comparison) -> pd.DataFrame:
    """Return a row for each quantity: what the simulator and the kernel found (means over seeds), how far the simulator
    is off (%), and how far its own seeds are apart (%)."""
    order = ["part", "case", "quantity"]
    means = found.values.pivot_table(index=order, columns="tool", values="value", sort=False)
    means = means.reindex(columns=[SIMULATOR, KERNEL])
    ours = found.values[found.values["tool"] == SIMULATOR].groupby(order, sort=False)["value"]
    means["off by %"] = (means[SIMULATOR] / means[KERNEL] - 1) * 100
    means["seeds, % apart"] = (ours.max() / ours.min() - 1) * 100
    return means


def draw_completions(found: Comparison) -> Figure:
    """Draw the simulator's flow completion times over the kernel's, by size, a line for each path."""
    figure, axis = new_figure("Single flows", "flow size (kB)", "completion time (simulator / kernel)", log_x=True)
    table = side_by_side(found).loc["completion"].reset_index()
    for place, (path, rows) in enumerate(table.groupby("case", sort=False)):
        sizes = [float(quantity.partition(" ")[0]) for quantity in rows["quantity"]]
        axis.plot(sizes, rows[SIMULATOR] / rows[KERNEL], "o-", color=CURVES[place], label=str(path))
    axis.axhline(1, color="#444444", linewidth=0.8)
    axis.legend(fontsize=8)
    return _or_say(figure, found)


def draw_windows(found: Comparison) -> Figure:
    """Draw the congestion windows of one flow by both, a panel for each congestion control."""
    figure, axes = drawing.panels("One flow, 50 Mb/s, 20 ms", "time (s)", "congestion window (kB)", CONTROLS)
    for axis, control in zip(axes, CONTROLS, strict=True):
        rows = found.windows[(found.windows["part"] == "window") & (found.windows["case"] == control)]
        for tool, table in rows.groupby("tool", sort=False):
            axis.plot(table["time_s"], table["window_bytes"] / 1e3, label=str(tool), **_look(str(tool)))
    axes[0].legend(fontsize=8)
    return _or_say(figure, found)


def draw_queues(found: Comparison) -> Figure:
    """Draw the distributions of two flows' queue by both, a panel for each congestion control."""
    names = CONTROLS[:3]
    figure, axes = drawing.panels("Two flows at one port, 100 Mb/s", "queue (packets)", "share of the time", names)
    for axis, control in zip(axes, names, strict=True):
        rows = found.queues[(found.queues["part"] == "queue") & (found.queues["case"] == control)]
        for tool, table in rows.groupby("tool", sort=False):
            values = np.sort(table["queue_packets"])
            axis.step(values, np.linspace(0, 1, len(values)), where="post", label=str(tool), **_look(str(tool)))
    axes[0].legend(fontsize=8)
    return _or_say(figure, found)


def _look(tool: str) -> dict[str, Any]:
    kernel = tool == KERNEL
    return {"color": scheme("emulated" if kernel else "simulated").colour, "linewidth": 1.2 if kernel else 2.4}


def _or_say(figure: Figure, found: Comparison) -> Figure:
    for axis in figure.axes if found.why else ():
        drawing.say_not_measured(axis, "virtual")
    return figure
