"""RED's figures, and what claims compute from readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.networks.experiment import Measurements
from netrepro.papers.red.experiments import BAND, FLAT_FROM, LATER_SENDERS, REFERENCE_PACKETS, Setting
from netrepro.paths import data_dir
from netrepro.study.figures import Course, Level, Look, Panel, Published, Sweep
from netrepro.style import CURVES, new_figure, scheme

# Functions that claims apply to readings.


def delay_in_band(points: pd.DataFrame) -> float:
    """Compute the mean of delay_ms where carried_share is within BAND. If that is nowhere, return the delay at the
    share nearest to BAND's middle."""
    far = (points.carried_share - sum(BAND) / 2).abs()
    inside = points[far <= (BAND[1] - BAND[0]) / 2]
    return float((inside if len(inside) else points.loc[[far.idxmin()]]).delay_ms.mean())


def delay_ratio(red: pd.DataFrame, drop_tail: pd.DataFrame) -> float:
    """Divide RED's delay by drop tail's, each at the shares of BAND."""
    return delay_in_band(red) / delay_in_band(drop_tail)


def mean_from_5(carried_share: pd.Series) -> float:
    """Compute the mean share that is carried over the minimum thresholds from FLAT_FROM on."""
    return float(carried_share[carried_share.index >= FLAT_FROM].mean())


def _means(rank: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Make the function that ranks cases by each one's mean over its grid."""
    return lambda *shares: rank(*(float(np.mean(each)) for each in shares))


# Figures.

DROP_TAIL: dict[str, Any] = {"label": "drop tail", "color": CURVES[0], "marker": "o"}
RED_LOOK: dict[str, Any] = {"label": "RED", "color": CURVES[6], "marker": "s"}
BROKEN: dict[str, Any] = {"label": "broken on purpose", "color": scheme("control").colour, "marker": "x"}
BROKEN |= {"linestyle": "--"}
UTILISATION, MEAN_QUEUE = "utilisation (share of the link)", "mean queue (packets)"
CARRIED = "new data carried (share of the link)"
RED_2009: dict[str, Any] = {"label": "RED, ns-2 of 2009", "color": CURVES[2], "marker": "^"}
BOTH = {"drop tail": DROP_TAIL, "red": RED_LOOK}
GIVEN = {
    "drop tail": ("buffer_packets", "buffer (packets)"),
    "red": ("min_threshold_packets", "minimum threshold (packets)"),
}


def replica() -> pd.DataFrame:
    """Read others' re-run of Fig. 5 in ns-2: gateway, packets, utilisation, delay_ms. From data/red."""
    return pd.read_csv(data_dir("red") / "replica_fig5.csv", comment="#")


def class_commands() -> pd.DataFrame:
    """Read the `tc` commands of the class project's scripts: gateway, command, and the answer of the kernel in virtual
    time ("" where the command succeeds). From data/red."""
    return pd.read_csv(data_dir("red") / "class_commands.csv", comment="#", keep_default_na=False)


def of_replica(gateway: str, y: str, x: str = "utilisation") -> Published:
    """Show y over x of the others' re-run for one gateway."""
    rows = replica().query("gateway == @gateway")
    points = dict(zip(rows[x], rows[y], strict=True))
    marker = BOTH[gateway]["marker"]
    return Published(points, f"{gateway}, re-run in ns-2", joined=x == "packets", marker=marker)


def draw_idea() -> Figure:
    """Draw the probability of a drop over the average queue (the paper's Fig. 2), with thresholds at 1 and 3."""
    x, y = "average queue (minimum thresholds)", "probability of a drop (share)"
    figure, axis = new_figure("When a packet is dropped", x, y)
    axis.plot([0, 1, 3], [0, 0, 0.1], color=RED_LOOK["color"], label="RED")
    axis.plot([3, 3, 4.5], [0.1, 1, 1], color=RED_LOOK["color"], linestyle=":", label="RED, above")
    axis.plot([3, 6, 6.6], [0.1, 1, 1], color=CURVES[2], linestyle="--", label="gentle (2000)")
    axis.set(xlim=(0, 10.5), ylim=(0, 1.05))
    axis.legend(loc="center right")
    return figure


def _average(case: str, title: str = "") -> Panel:
    """Show the queue and its average over time, for one repetition."""
    return Panel(
        "time (s)",
        "queue (packets)",
        Course("average", "queue_packets", {case: {"label": "queue", "color": CURVES[5], "linewidth": 0.8}}),
        Course("average", "average_packets", {case: {"label": "average", "color": RED_LOOK["color"]}}),
        Level(REFERENCE_PACKETS / Setting.threshold_ratio, published=False),
        Level(REFERENCE_PACKETS, "thresholds", published=False),
        title=title,
    )


def _utilisation(gateway: str, looks: Mapping[str, Look], *published: Published, title: str = "") -> Panel:
    """Show what the link carries over the gateway's parameter."""
    x, label = GIVEN[gateway]
    ours = Sweep(x, "carried_share", looks)
    return Panel(label, CARRIED, *published, ours, title=title or gateway, y_range=(0, 1))


def _beside_replica(gateway: str, looks: Mapping[str, Look], title: str = "") -> Panel:
    return _utilisation(gateway, looks, of_replica(gateway, "utilisation", "packets"), title=title)


def _senders(gateway: str) -> Panel:
    return _utilisation(gateway, {gateway: "as above"} | {f"{gateway}, {sender}": sender for sender in LATER_SENDERS})


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run's queue over time."""
    links = run.links_by_port
    share = float(links.utilisation[run.experiment.measure.queues[0]])
    figure, axis = new_figure(f"{case}: {100 * share:.0f} % of the link", "time (s)", "queue (packets)")
    axis.plot(run.queues.time_s, run.queues.queue_packets, linewidth=1)
    return figure
