"""TCP pacing's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.networks.experiment import Measurements
from netrepro.papers.tcp_pacing.experiments import PAYLOAD
from netrepro.study import Runs
from netrepro.study import pictures as drawing
from netrepro.study.figures import Course, Look, Mark, Panel, Sweep
from netrepro.style import new_figure, scheme

RENO = {"color": scheme("reno").colour, "label": "Reno"}
PACED_LOOK = {"color": scheme("tcp").colour, "label": "paced"}
BOTH: dict[str, dict[str, Any]] = {"reno": RENO, "paced": PACED_LOOK}


def draw_idea() -> Figure:
    """Draw one window of eight packets in a round trip, sent as acknowledgements arrive, and paced, with the queue of
    each."""
    names = ["Reno: in a burst", "paced: evenly"]
    figure, axes = drawing.panels("The same window, and the queue it makes (not to scale)", "", "", names)
    times = np.linspace(0, 10, 401)
    for axis, look, sent in zip(axes, (RENO, PACED_LOOK), (np.arange(8) * 0.25, np.arange(8) * 1.25), strict=True):
        ahead = np.searchsorted(sent, times, side="right") - times  # a slower link takes one packet in each unit
        queue = ahead - np.minimum.accumulate(np.minimum(ahead, 0))
        axis.vlines(sent, 0, 1, color=look["color"], linewidth=3)
        axis.fill_between(times, -queue / 4, 0, color="#999999", alpha=0.6)
        axis.text(9.9, 1.12, "packets sent", ha="right")
        axis.text(9.9, -0.9, "queue at a slower link", ha="right")
        axis.set(xlim=(-0.3, 10), ylim=(-1.8, 1.4), xlabel="time (tenths of a round trip)", yticks=[])
        axis.grid(False)
    return figure


def throughput(runs: Runs) -> pd.DataFrame:
    """Compute throughputs over time from the carried_mbit of the knob `course`: so_far_mbps, from the start on, and
    second_mbps, since the row before."""
    rows = runs.knobs["course"].sort_values(["case", "seconds"])
    since = rows.groupby("case")[["seconds", "carried_mbit"]].diff().fillna(rows[["seconds", "carried_mbit"]])
    return rows.assign(so_far_mbps=rows.carried_mbit / rows.seconds, second_mbps=since.carried_mbit / since.seconds)


def _course(title: str, reading: str, cases: str) -> Panel:
    style = {"marker": "", "drawstyle": "default" if reading == "so_far_mbps" else "steps-pre"}
    looks = {cases.format(sender): look | style for sender, look in BOTH.items()}
    return Panel("time (s)", PAYLOAD, Sweep("seconds", reading, throughput, looks=looks), title=title)


def _windows(cases: Mapping[str, Look], rounds: float, *marks: Mark, title: str = "", tiers: bool = False) -> Panel:
    course = Course("windows", "packets", cases, x="rounds", rows=f"rounds <= {rounds}", tiers=tiers)
    return Panel("time (round trips)", "sum of windows (packets)", course, *marks, title=title)


def _holds(runs: Runs) -> float:
    setting = runs.study.case("fifty reno", runs.setting)
    return setting.path_packets + setting.buffer_packets


def gain(runs: Runs) -> pd.DataFrame:
    """Compute how much pacing adds to the throughput (percent): a row for each buffer (as a share of the path's own
    packets) and path (packets)."""
    rows = runs.knobs["buffer"]
    means = rows.pivot_table(index=["rate_mbps", "buffer_share"], columns="case", values="carried_mbit")
    table = (100 * (means["paced"] / means["reno"] - 1)).rename("gain_percent").reset_index()
    paths = [replace(runs.setting, rate_mbps=rate).path_packets for rate in table.rate_mbps]
    return table.assign(path_packets=np.round(paths))


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw all windows of one run over time."""
    total = run.windows.groupby("time_s").window_bytes.sum() / 1e3
    goodput = float(run.flows.delivered_bytes.sum()) * 8e-6 / run.experiment.duration_s
    figure, axis = new_figure(f"{case}: {goodput:.2f} Mb/s of payload", "time (s)", "sum of windows (kB)")
    axis.plot(total.index, total, linewidth=1.2)
    axis.set_ylim(bottom=0)
    return figure


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    means = runs.summary()
    one = [means.loc[f"{name}, 150 round trips"].carried_mbit for name in ("paced", "reno")]
    paced, reno = means.loc["fifty paced"], means.loc["fifty reno"]
    return (
        f"A single paced flow carries {100 * (one[0] / one[1] - 1):.0f} % more in its first 150 round trips, as bursts "
        f"overflow a small buffer; of fifty that start together the windows grow to {paced.peak_packets:.0f} packets "
        f"in {paced.peak_round:.0f} round trips and fall to {paced.least_packets:.0f} (Reno's: to "
        f"{reno.peak_packets:.0f} and {reno.least_packets:.0f}), and in the long run both carry the same "
        f"({paced.goodput_mbps:.1f} and {reno.goodput_mbps:.1f} Mb/s)."
    )
