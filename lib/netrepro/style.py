"""How every figure looks: one colour and marker for each scheme, units on axes, published points in grey.

One registry for the whole workbench: TCP is the same blue in every notebook, and nothing else is that blue. Most
colours are Okabe and Ito's and Paul Tol's, which readers with any colour vision can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

from netrepro.errors import NetreproError, nearest
from netrepro.files import whole_file

PUBLISHED_GREY = "#8c8c8c"
NOT_MEASURED = "not measured"  # gid of the text in a panel for which nothing was measured
# Colours of curves that are not schemes, in this order.
CURVES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#D55E00", "#999999", "#F0E442")


@dataclass(frozen=True)
class Scheme:
    """The label of a scheme in legends, and its colour and marker in every plot."""

    label: str
    colour: str
    marker: str


SCHEMES = {
    "tcp": Scheme("TCP", "#0072B2", "o"),
    "repflow": Scheme("RepFlow", "#D55E00", "s"),
    "repsyn": Scheme("RepSYN", "#009E73", "^"),
    "mptcp": Scheme("MPTCP", "#E69F00", "D"),
    "dctcp": Scheme("DCTCP", "#CC79A7", "D"),
    "cubic": Scheme("CUBIC", "#56B4E9", "v"),
    "reno": Scheme("Reno", "#8C510A", "P"),
    "bbr": Scheme("BBR", "#000000", "X"),
    "bbr3": Scheme("BBRv3", "#A6761D", "*"),
    "QUIC": Scheme("QUIC", "#E31A1C", "x"),
    "QUIC, in order": Scheme("QUIC, in order", "#FB9A99", "+"),
    "RCP": Scheme("RCP", "#01665E", "^"),
    "XCP": Scheme("XCP", "#7B3294", "s"),
    "processor sharing": Scheme("processor sharing", "#444444", "."),
    "fat-tree": Scheme("fat-tree", "#4477AA", "s"),
    "jellyfish": Scheme("Jellyfish", "#EE6677", "o"),
    "non-blocking": Scheme("non-blocking", "#999933", "s"),
    "EPaxos": Scheme("EPaxos", "#C44E52", "o"),
    "EPaxos, TOQ": Scheme("EPaxos, TOQ (quorum)", "#2F9E44", "^"),
    "EPaxos, TOQ union": Scheme("EPaxos, TOQ (quorum union)", "#F4A261", "v"),
    "Multi-Paxos": Scheme("Multi-Paxos", "#1E88E5", "s"),
    "ECMP": Scheme("ECMP", "#33BBEE", "^"),
    "spanning tree": Scheme("spanning tree", "#882255", "v"),
    "first fit": Scheme("global first fit", "#228833", "o"),
    "annealing": Scheme("simulated annealing", "#EE7733", "D"),
    "bittorrent": Scheme("BitTorrent", "#3B5BA9", "o"),
    "propshare": Scheme("PropShare", "#E8590C", "s"),
    "free rider": Scheme("free rider", "#6C757D", "v"),
    "GMM": Scheme("Gaussian mixtures", "#332288", "o"),
    "NB": Scheme("naive Bayes", "#DDCC77", "P"),
    "DT": Scheme("decision tree", "#44AA99", "^"),
    "KNN": Scheme("k nearest neighbours", "#AA4499", "D"),
    "SVM": Scheme("support vector machine", "#88CCEE", "v"),
    "RF": Scheme("random forest", "#117733", "s"),
    "GBT": Scheme("gradient boosting", "#CC6677", "X"),
    "MLP": Scheme("multilayer perceptron", "#555555", "h"),
    "FT-Transformer": Scheme("FT-Transformer", "#661100", "*"),
    "MAILS": Scheme("mail", "#DDAA33", "^"),
    "P2P": Scheme("peer to peer", "#004488", "s"),
    "SKYPE": Scheme("Skype", "#66CCEE", "D"),
    "WEB": Scheme("web", "#BB5566", "o"),
    "OTHERS": Scheme("others", "#777777", "x"),
    "bare": Scheme("no overlay", "#222255", "o"),
    "overlay": Scheme("overlay", "#0099CC", "s"),
    "ONCache": Scheme("ONCache", "#C2410C", "^"),
    "control": Scheme("control", "#7f3c8d", "x"),
    "simulated": Scheme("simulated", "#5AAE61", "."),
    "emulated": Scheme("emulated", "#2166AC", "o"),
    "ns-3": Scheme("ns-3", "#B2182B", "D"),
}


def scheme(name: str) -> Scheme:
    """Return the look of a scheme. Raises NetreproError for an unknown name."""
    if name not in SCHEMES:
        raise NetreproError(f"no colour for scheme {name!r}", nearest(name, SCHEMES))
    return SCHEMES[name]


STYLE: dict[Any, Any] = {
    "figure.figsize": (6.4, 4.0),
    "figure.dpi": 100,
    "savefig.dpi": 120,
    "savefig.bbox": "tight",
    "svg.hashsalt": "netrepro",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "font.size": 10,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
}


def use_style() -> None:
    """Make STYLE matplotlib's default; a notebook's report does it on opening."""
    mpl.rcParams.update(STYLE)


class PlainLogFormatter(LogFormatterSciNotation):
    """Labels of a logarithmic axis: plain numbers from 0.001 to below 100,000, powers of ten beyond."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        label = super().__call__(x, pos)
        return f"{x:g}" if label and 1e-3 <= abs(x) < 1e5 else label


def use_logarithm(axis: Axes, which: str) -> None:
    """Make the "x" or "y" axis logarithmic, with plain numbers at its ticks."""
    axis.set(**{f"{which}scale": "log"})
    ticks = axis.xaxis if which == "x" else axis.yaxis
    ticks.set_major_formatter(PlainLogFormatter())
    ticks.set_minor_formatter(PlainLogFormatter())


def new_figure(
    title: str, x_label: str, y_label: str, *, columns: int = 1, log_x: bool = False, log_y: bool = False
) -> tuple[Figure, Any]:
    """Make an empty figure with labelled axes (labels name their units).

    Returns (figure, axes); axes is an array where there are several columns. pyplot forgets the figure, so that a
    notebook shows it only once, as the value of a cell.
    """
    width = 6.4 if columns < 3 else 4.6  # of a panel; three or more are narrower, so that text stays large on a page
    figure, axes = plt.subplots(1, columns, figsize=(width * columns, 4.0), layout="constrained")
    plt.close(figure)
    for axis in axes if columns > 1 else [axes]:
        axis.set(xlabel=x_label, ylabel=y_label)
        for which in ("x" * log_x) + ("y" * log_y):
            use_logarithm(axis, which)
    figure.suptitle(title)
    return figure, axes


def save_figure(
    figure: Figure,
    folder: Path,
    name: str,
    description: str | None = None,
    endings: Sequence[str] = (".png", ".svg"),
) -> bool:
    """Save a figure as <name>.png and <name>.svg (or with these `endings`), each whole or not at all.

    The same figure gives the same bytes. A figure that `is_empty` is not saved, and its files of an earlier run are
    removed.
    description : text for the files' metadata (PNG text and SVG element `Description`), not for the picture.

    Returns whether the figure was saved.
    """
    if is_empty(figure):
        for ending in endings:
            (folder / (name + ending)).unlink(missing_ok=True)
        return False
    layout = figure.get_layout_engine()
    with mpl.rc_context(STYLE):
        # Lay out and measure once for both files: savefig would do so for each, which takes most of the time.
        if layout is not None:
            layout.execute(figure)
            figure.set_layout_engine(None)
        box = figure.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])
        for ending, unwanted in ((".png", ("Software",)), (".svg", ("Date", "Creator"))):
            if ending not in endings:
                continue
            metadata = dict.fromkeys(unwanted) | {"Description": description}
            with whole_file(folder / (name + ending)) as partial:
                figure.savefig(partial, format=ending[1:], metadata=metadata, bbox_inches=box)
    figure.set_layout_engine(layout)
    return True


def is_empty(figure: Figure) -> bool:
    """Tell whether no panel of a figure shows anything that we measured.

    Published values (grey) and lines across a panel do not count. A figure without panels is not empty, nor is one
    with texts unless one of them says that nothing was measured.
    """
    texts = [text for axis in figure.axes for text in axis.texts]
    says_so = any(text.get_gid() == NOT_MEASURED for text in texts)
    return bool(figure.axes) and (says_so or not texts) and not any(shows_ours(axis) for axis in figure.axes)


def shows_ours(axis: Axes) -> bool:
    """Tell whether a panel shows anything but published values, lines across it, and text."""
    marks = [(line.get_color(), line.get_transform()) for line in axis.lines if np.size(line.get_xdata())]
    marks += [(patch.get_facecolor(), patch.get_data_transform()) for patch in axis.patches]
    at_values = [colour for colour, transform in marks if all(transform.contains_branch_seperately(axis.transData))]
    for collection in axis.collections:
        colours = [*collection.get_facecolor(), *collection.get_edgecolor()]
        at_values += colours if len(collection.get_paths()) and np.size(collection.get_offsets()) else []
        if collection.get_array() is not None:
            return True
    ours = any(to_hex(colour) != PUBLISHED_GREY for colour in at_values)
    return ours or bool(axis.images or axis.tables or axis.artists)


def draw_published(axis: Axes, x, y, label: str = "published", marker: str = "D") -> None:
    """Draw published points, in grey, behind ours. marker : of one of several series of them."""
    axis.plot(x, y, linestyle="none", marker=marker, color=PUBLISHED_GREY, zorder=1, label=label)
