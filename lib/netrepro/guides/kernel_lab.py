"""A reader's own congestion controls and queue disciplines, in C, in a real kernel: compiled, raced and drawn.

A module is C source as in the kernel itself. It is compiled against the virtual kernel (Linux in virtual time) and
loaded into it; the compiler's messages are shown with their lines. A module that panics ends only its own run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.emulation.tiers import why_no_processes
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.emulation.virtual.kernel import build_module
from netrepro.networks import CoDel, DropTail, Experiment, Flow, Link, Measure, OwnQueue, dumbbell
from netrepro.networks.links import bandwidth_delay_packets
from netrepro.networks.queues import Queue
from netrepro.study import Progress, in_parallel
from netrepro.study import pictures as drawing
from netrepro.style import CURVES, SCHEMES, new_figure, scheme

BOTTLENECK = ("s1", "s2")
OWN_COLOUR = CURVES[6]


@dataclass(frozen=True)
class SharedPath:
    """The path that two flows share, and their run: rate, base round trip, buffer (`buffer_share`, in bandwidth-delay
    products), duration and seed."""

    rate_mbps: float = 20.0
    round_trip_ms: float = 40.0
    buffer_share: float = 1.0
    seconds: float = 20.0
    seed: int = 1

    @property
    def buffer_packets(self) -> int:
        """The buffer, in full packets."""
        return max(round(self.buffer_share * bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms)), 2)


@dataclass(frozen=True)
class Found:
    """The results of races or queues.

    totals : a row for each flow. goodput, windows, queues : tables by name of the race or queue: goodput (Mb/s) by
    second, congestion windows, the bottleneck's queue. why : the reason where there is no kernel and so no result.
    """

    totals: pd.DataFrame
    goodput: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    windows: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    queues: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    why: str = ""


def compile_module(source: str) -> str:
    """Compile a module's C source; return that it compiles, or why there is no kernel to compile for.

    Raises NetreproError with the compiler's messages and their lines.
    """
    if why := why_no_processes():
        return why
    build_module(source)
    return "it compiles"


def race(modules: Mapping[str, str], rivals: Sequence[str], path: SharedPath, progress: Progress = iter) -> Found:
    """Run the congestion control in `modules` (name -> C source) against each rival, and against itself, on the path.

    `totals` has a row for each flow: race, control, goodput_mbps, share of the rate, and the race's mean_queue_ms.
    Raises NetreproError for C that does not compile, and with the kernel's last lines for a module that panics.
    """
    (own,) = modules
    pairs = {f"{own} against {rival}": (own, rival) for rival in (*rivals, own)}
    return _run({name: _experiment(pair, DropTail(path.buffer_packets), path) for name, pair in pairs.items()},
                modules, progress)  # fmt: skip


def compare_queues(modules: Mapping[str, str], path: SharedPath, progress: Progress = iter) -> Found:
    """Run two CUBIC flows over the queue in `modules` (name -> C source), and over drop-tail and CoDel of its size."""
    (own,) = modules
    room = 4 * path.buffer_packets
    queues: dict[str, Queue] = {"drop-tail": DropTail(room), "CoDel": CoDel(room), own: OwnQueue(own, room)}
    return _run({name: _experiment(("cubic", "cubic"), queue, path) for name, queue in queues.items()},
                modules, progress)  # fmt: skip


def _experiment(controls: Sequence[str], queue: Queue, path: SharedPath) -> Experiment:
    delay_ms = path.round_trip_ms / 2
    bottleneck = Link(path.rate_mbps, delay_ms * 0.8, queue)
    network = dumbbell(2, access=Link(50 * path.rate_mbps, delay_ms * 0.1, DropTail(10_000)), bottleneck=bottleneck)
    flows = tuple(
        Flow(f"h{place + 1}", f"h{place + 3}", duration_s=path.seconds - place, start_s=float(place),
             congestion_control=control)
        for place, control in enumerate(controls)
    )  # fmt: skip
    look = Measure(queues=(BOTTLENECK,), queue_interval_ms=20.0, packets=(BOTTLENECK,), windows_interval_ms=50.0)
    return Experiment(network, flows, path.seconds, path.seed, measure=look)


def _run(experiments: Mapping[str, Experiment], modules: Mapping[str, str], progress: Progress) -> Found:
    if why := why_no_processes():
        return Found(pd.DataFrame(columns=["race", "control", "goodput_mbps", "share"]), why=why)
    work = [(experiment,) for experiment in experiments.values()]
    measured = in_parallel(lambda each: emulate_virtually(each, modules=modules), work, progress=progress)
    rows, goodput, windows, queues = [], {}, {}, {}
    for (name, experiment), run in zip(experiments.items(), measured, strict=True):
        rate_mbps = experiment.topology.link(*BOTTLENECK).rate_mbps
        controls = list(experiment.flow_table["congestion_control"])
        labels = [control if place == 0 or control != controls[0] else f"{control}, second"
                  for place, control in enumerate(controls)]  # fmt: skip
        sent = run.packets.assign(second=run.packets["time_s"].astype(int))
        by_second = (
            sent.pivot_table(index="second", columns="flow", values="size_bytes", aggfunc="sum").fillna(0) * 8e-6
        )
        goodput[name] = by_second.rename(columns=dict(enumerate(labels)))
        windows[name] = run.windows.assign(
            control=run.windows["flow"].map(dict(enumerate(labels))),
            segments=run.windows["window_bytes"] / experiment.tcp.segment_bytes,
        )
        queues[name] = run.queues.assign(delay_ms=run.queues["queue_bytes"] * 8 / rate_mbps / 1e3)
        for label, mbps in zip(labels, run.flows["goodput_mbps"], strict=True):
            rows.append((name, label, mbps, mbps / rate_mbps))
    totals = pd.DataFrame(rows, columns=["race", "control", "goodput_mbps", "share"])
    waited = {name: table["delay_ms"].mean() for name, table in queues.items()}
    return Found(totals.assign(mean_queue_ms=totals["race"].map(waited)), goodput, windows, queues)


def draw_race(lab: Found) -> Figure:
    """Draw the throughput of both flows over time, with a panel for each race."""
    names = list(lab.goodput) or [""]
    figure, axes = drawing.panels("Two flows, one bottleneck", "time (s)", "throughput (Mb/s)", names)
    for axis, name in zip(axes, names, strict=True):
        if lab.why:
            drawing.say_not_measured(axis, "virtual")
            continue
        for label, curve in lab.goodput[name].items():
            axis.step(curve.index, curve, where="post", label=str(label), **_look(str(label)))
        axis.set_ylim(0, None)
        axis.legend(fontsize=8)
    return figure


def draw_windows(lab: Found) -> Figure:
    """Draw the congestion windows of both flows, with a panel for each race."""
    names = list(lab.windows) or [""]
    figure, axes = drawing.panels(
        "What each congestion control does", "time (s)", "congestion window (segments)", names
    )
    for axis, name in zip(axes, names, strict=True):
        if lab.why:
            drawing.say_not_measured(axis, "virtual")
            continue
        for label, table in lab.windows[name].groupby("control", sort=False):
            axis.plot(table["time_s"], table["segments"], label=str(label), **_look(str(label)))
        axis.legend(fontsize=8)
    return figure


def draw_queues(lab: Found) -> Figure:
    """Draw the time that the bottleneck needs to send its queue, over time and as a distribution."""
    figure, axes = new_figure("The same two flows over three queues", "", "", columns=2)
    for place, (name, table) in enumerate(lab.queues.items()):
        colour = OWN_COLOUR if name.startswith("my_") else CURVES[2 * place]
        axes[0].plot(table["time_s"], table["delay_ms"], color=colour, linewidth=1, label=name)
        axes[1].plot(np.sort(table["delay_ms"]), np.linspace(0, 1, len(table)), color=colour, label=name)
    axes[0].set(xlabel="time (s)", ylabel="queueing delay (ms)")
    axes[1].set(xlabel="queueing delay (ms)", ylabel="share of the time")
    if lab.why:
        for axis in axes:
            drawing.say_not_measured(axis, "virtual")
    else:
        axes[0].legend(fontsize=8)
    return figure


def _look(label: str) -> dict[str, Any]:
    """Return the style of a curve: OWN_COLOUR for a reader's own control, else the control's usual colour. The second
    of two equal flows is dashed."""
    name, _, second = label.partition(", ")
    colour = OWN_COLOUR if name not in SCHEMES else scheme(name).colour
    return {"color": colour, "linestyle": "--" if second else "-"}
