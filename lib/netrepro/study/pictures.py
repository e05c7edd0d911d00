"""The standard pictures of a paper about networks: the network itself, distributions, bars beside published values,
sweeps, published curves and levels.

Each function takes an axis or makes a figure, and draws tidy tables. Where there are repetitions, they have a column
`repetition`, and means are drawn with the 95 % interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from netrepro.intervals import mean_interval
from netrepro.networks.experiment import Experiment
from netrepro.networks.links import DropTail, EcnThreshold, Link, Red
from netrepro.networks.topology import HOST_QUEUE, Topology
from netrepro.networks.workloads import PoissonFlows, Requests
from netrepro.style import CURVES, NOT_MEASURED, PUBLISHED_GREY, SCHEMES, Scheme, new_figure

MOST_SHOWN = 6  # hosts of one role on a switch; of more, the first two, dots and the last
INK = "#444444"
DIGIT_EM, POINT_EM = 0.636, 0.318  # widths of a digit and of a point in the pictures' font, over its size


def panels(title: str, x_label: str, y_label: str, names: Sequence[str], **how: Any) -> tuple[Figure, list[Axes]]:
    """Make a figure with one panel for each name, and return it with its axes. how : as for new_figure."""
    figure, _ = new_figure(title, x_label, y_label, columns=len(names), **how)
    for axis, name in zip(figure.axes, names, strict=True):
        axis.set_title(name, fontsize=10)
    return figure, list(figure.axes)


def draw_distribution(axis: Axes, table: pd.DataFrame, column: str, label: str, **look: Any) -> None:
    """Draw the share of values up to x, a step curve for each repetition."""
    for _, rows in table.groupby("repetition"):
        values = np.sort(rows[column])
        axis.step(values, np.arange(1, len(values) + 1) / len(values), where="post", **{"linewidth": 1} | look)
    axis.plot([], [], label=label, **look)
    axis.set_ylim(0, 1.02)


def draw_published_curve(axis: Axes, x: Any, y: Any, label: str = "published") -> None:
    """Draw a published curve: grey, broad, behind ours."""
    axis.plot(x, y, color=PUBLISHED_GREY, linewidth=3, zorder=1, label=label)


def draw_published_level(axis: Axes, value: float, label: str) -> None:
    """Draw a published value over the whole width: grey, dashed, behind ours."""
    axis.axhline(value, color=PUBLISHED_GREY, linestyle="--", linewidth=1.5, zorder=1, label=label)


def draw_sweep(
    axis: Axes, table: pd.DataFrame, x: str, y: str, *, by: str = "", label: str = "{}", **look: Any
) -> None:
    """Draw y over x: means over repetitions with their intervals, and each repetition as a faint point.

    by : column whose values have a curve each, named by `label`; schemes have their own colours.
    """
    groups = list(table.groupby(by, sort=False)) if by else [("", table)]
    for colour, (value, rows) in zip(CURVES * (1 + len(groups) // len(CURVES)), groups, strict=False):
        known = SCHEMES.get(str(value), Scheme(_named(value), colour, "o"))
        own = {"color": known.colour, "marker": known.marker} | look
        _draw_means(axis, rows, x, y, label=label.format(known.label), **own)


def _named(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def interval_of(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of the 95 % interval of the mean."""
    low, high = mean_interval(list(values))
    return low, high


def means_of(axis: Axes) -> dict[str, Any]:
    """Return arguments with which seaborn draws means of y and their intervals: on a logarithmic axis, its own
    average would be of logarithms, a geometric mean."""
    scale = axis.yaxis.get_transform()
    values = scale.inverted().transform

    def mean(scaled: pd.Series) -> float:
        return float(scale.transform(values(scaled.to_numpy()).mean()))

    def interval(scaled: pd.Series) -> tuple[float, float]:
        low, high = scale.transform(np.array(interval_of(values(scaled.to_numpy()))))
        return low, high

    return {"estimator": mean, "errorbar": interval}


def _draw_means(axis: Axes, rows: pd.DataFrame, x: str, y: str, **look: Any) -> None:
    labels = axis.get_xlabel(), axis.get_ylabel()
    sns.lineplot(rows, x=x, y=y, **means_of(axis), err_style="bars", legend=False, ax=axis, **look)
    axis.set(xlabel=labels[0], ylabel=labels[1])
    if rows.groupby(x).size().min() > 1:
        axis.plot(rows[x], rows[y], ".", color=look["color"], alpha=0.35, markersize=3)


def sweep_figure(
    title: str,
    table: pd.DataFrame,
    x: tuple[str, str],
    columns: Mapping[str, str],
    *,
    by: str = "",
    label: str = "{}",
    ticks: Iterable[float] = (),
    top: float | None = None,
    log_x: bool = True,
) -> Figure:
    """Draw each column with draw_sweep in a panel of its own, with y from 0 on.

    x : (column, label). columns : column -> label, with its unit. ticks : values of x with a tick; by default all.
    top : upper end of the y axis, as for shares.
    """
    figure, axes = panels(title, x[1], "", [""] * len(columns), log_x=log_x)
    for axis, (column, said) in zip(axes, columns.items(), strict=True):
        draw_sweep(axis, table, x[0], column, by=by, label=label)
        axis.set(ylabel=said, ylim=(0, top))
        name_ticks(axis, "x", ticks or table[x[0]])
    if by:
        share_legend(figure)
    return figure


def changes_figure(title: str, table: pd.DataFrame, column: str, label: str, top: float | None = None) -> Figure:
    """Draw a bar for each case, which changes one thing of the setting; the first (no change) is grey, on top."""
    figure, axis = new_figure(title, label, "")
    means = table.groupby("case", sort=False)[column].mean()[::-1]
    bars = axis.barh(means.index, means, color=[*[CURVES[0]] * (len(means) - 1), INK])
    axis.bar_label(bars, [f"{value:.2g}" for value in means], padding=3, fontsize=8)
    axis.set_xlim(0, top)
    return figure


def draw_bar(axis: Axes, at: float, values: Sequence[float], width: float, **look: Any) -> None:
    """Draw the mean of repetitions as a bar (0 without any), with the 95 % interval; look : arguments of the bar."""
    axis.bar(at, float(np.mean(values)) if len(values) else 0.0, width, **look)
    if len(values) > 1:
        axis.vlines(at, *mean_interval(list(values)), color="black", linewidth=1.2)


def draw_bars(
    axis: Axes,
    ours: Mapping[str, Sequence[float]],
    published: Mapping[str, float] | None = None,
    colours: Mapping[str, str] | None = None,
    published_label: str = "published",
) -> None:
    """Draw a bar for each name: the mean of its repetitions with the interval. Published values are grey bars beside
    them."""
    names, published, colours = list(ours), published or {}, colours or {}
    width = 0.4 if published else 0.7
    for place, (name, values) in enumerate(ours.items()):
        at = place - (width / 2 if published else 0)
        draw_bar(axis, at, values, width, color=colours.get(name, CURVES[0]))
    axis.set_xticks(range(len(names)), names)
    if known := [place for place, name in enumerate(names) if name in published]:
        heights = [published[names[place]] for place in known]
        axis.bar([place + width / 2 for place in known], heights, width, color=PUBLISHED_GREY, label=published_label)
        axis.legend()


def name_ticks(axis: Axes, which: str, values: Iterable[float]) -> None:
    """Set ticks at just these values of the "x" or "y" axis, in plain numbers; NaN, a value that this tier does not
    measure, has none. On the x axis a number that would touch the one before it is left out; its tick stays."""
    ticks = sorted({value for value in values if np.isfinite(value)})
    if not ticks:
        return
    names = [f"{tick:g}" for tick in ticks]
    own = axis.xaxis if which == "x" else axis.yaxis
    own.set_ticks(ticks)
    own.set_minor_locator(NullLocator())
    own.set_ticklabels(_apart(axis, ticks, names) if which == "x" else names)


def _apart(axis: Axes, ticks: Sequence[float], names: Sequence[str]) -> list[str]:
    """Return the names of ticks, "" for one that would touch the one before it."""
    places = axis.get_xaxis_transform().transform([(tick, 0.0) for tick in ticks])[:, 0]
    size = float(axis.xaxis.get_ticklabels()[0].get_fontsize()) * axis.figure.dpi / 72
    kept, end = [], -np.inf
    for place, name in zip(places, names, strict=True):
        half = size * sum(POINT_EM if letter == "." else DIGIT_EM for letter in name) / 2
        kept.append(name if place - half > end else "")
        end = place + half if kept[-1] else end
    return kept


def share_legend(figure: Figure) -> None:
    """Draw one legend below all panels, each label once, in place of one in each and of an earlier one."""
    for earlier in list(figure.legends):
        earlier.remove()
    handles: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
        legend = axis.get_legend()
        if legend is not None:
            legend.remove()
    if handles:
        figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=2 if len(figure.axes) == 1 else 4
        )


def say_not_measured(axis: Axes, tier: str, what: str = "") -> None:
    """Write in a corner of the panel that `what` was not measured on this tier."""
    said = f"{what}not measured on the {tier} tier"
    axis.text(0.97, 0.06, said, transform=axis.transAxes, ha="right", gid=NOT_MEASURED)


# The network.


def draw_network(experiment: Experiment, title: str) -> Figure:
    """Draw the experiment's topology: senders left, receivers right; in larger networks, hosts below.

    Links of one kind have one colour, with their rate, delay and queue in the legend. A link is broad where something
    is recorded. Of many hosts of one role on a switch, only some are shown.
    """
    topology = experiment.topology
    shown, hidden = _shown(experiment)
    places = _places(experiment, shown)
    figure, axis = new_figure(title, "", "")
    axis.axis("off")
    recorded = {*experiment.measure.queues, *experiment.measure.packets}
    kinds = list(dict.fromkeys(_words(topology, *ends) for ends in topology.graph.edges))
    colours = dict(zip(kinds, CURVES * (1 + len(kinds) // len(CURVES)), strict=False))
    for first, second in topology.graph.edges:
        if {first, second} & hidden:
            continue
        broad = {(first, second), (second, first)} & recorded
        (x, y), (to_x, to_y) = places[first], places[second]
        colour = colours[_words(topology, first, second)]
        axis.plot([x, to_x], [y, to_y], color=colour, linewidth=4 if broad else 1.5, zorder=1)
    for node in shown:
        style = "round,pad=0.4" if node[0] == "h" else "square,pad=0.4"
        box = {"boxstyle": style, "facecolor": "white" if node[0] == "h" else "#eeeeee", "edgecolor": INK}
        size = 11 if len(shown) <= 16 else 7
        axis.text(*places[node], node, ha="center", va="center", bbox=box, fontsize=size, zorder=2)
    for group in _groups(experiment).values():
        if len(group) > MOST_SHOWN:
            _draw_dots(axis, places, group)
    handles = [Line2D([], [], color=colours[kind], linewidth=2) for kind in kinds]
    labels = list(kinds)
    if recorded:
        handles.append(Line2D([], [], color=INK, linewidth=4))
        labels.append("recorded here")
    figure.legend(handles, labels, loc="outside lower center", fontsize=9)
    for which, values in zip("xy", zip(*(places[node] for node in shown), strict=True), strict=True):
        margin = 0.15 * (max(values) - min(values)) or 1.0
        axis.set(**{f"{which}lim": (min(values) - margin, max(values) + margin)})
    return figure


def _draw_dots(axis: Axes, places: Mapping[str, tuple[float, float]], group: Sequence[str]) -> None:
    (x, y), (to_x, to_y) = places[group[1]], places[group[-1]]
    middle = ((x + to_x) / 2, (y + to_y) / 2)
    axis.text(*middle, f"… {len(group)} in all …", ha="center", va="center", fontsize=9, color=INK, zorder=3)


def _ends(experiment: Experiment) -> tuple[set[str], set[str]]:
    """Return the hosts that send, and the hosts that receive."""
    table = experiment.flow_table
    sources, destinations = set(table["source"]), set(table["destination"])
    for entry in experiment.traffic:
        if isinstance(entry, PoissonFlows):
            sources |= set(entry.sources)
            destinations |= set(entry.destinations)
        elif isinstance(entry, Requests):
            sources |= set(entry.servers)
            destinations.add(entry.client)
    return sources, destinations


def _groups(experiment: Experiment) -> dict[tuple[str, str], list[str]]:
    """Group hosts: (switch, role) -> its hosts with that role, by number."""
    sources, destinations = _ends(experiment)
    groups: dict[tuple[str, str], list[str]] = {}
    for host in experiment.topology.hosts:
        role = "receives" if host in destinations and host not in sources else "sends"
        switch = next(iter(experiment.topology.graph[host]))
        groups.setdefault((switch, role), []).append(host)
    return groups


def _shown(experiment: Experiment) -> tuple[list[str], set[str]]:
    """Return the nodes that are drawn, and the hosts that dots stand for."""
    hidden = {host for group in _groups(experiment).values() if len(group) > MOST_SHOWN for host in group[2:-1]}
    nodes = [*experiment.topology.switches, *experiment.topology.hosts]
    return [node for node in nodes if node not in hidden], hidden


def _places(experiment: Experiment, shown: Sequence[str]) -> dict[str, tuple[float, float]]:
    topology = experiment.topology
    switches = topology.graph.subgraph(topology.switches)
    if max((degree for _, degree in switches.degree()), default=0) <= 2 and nx.is_forest(switches):
        return _along_a_line(experiment, shown, switches)
    return _in_layers(topology, shown)


def _along_a_line(experiment: Experiment, shown: Sequence[str], switches: nx.Graph) -> dict[str, tuple[float, float]]:
    """Put switches in a row; senders left of the first, receivers right of the last, other hosts above and below."""
    groups = _groups(experiment)
    ends = [node for node, degree in switches.degree() if degree <= 1] or list(switches)[:1]
    sending = [switch for switch, role in groups if role == "sends"]
    first = next((switch for switch in sending if switch in ends), ends[0])
    row = list(nx.dfs_preorder_nodes(switches, first))
    places = {switch: (2.0 * (at + 1), 0.0) for at, switch in enumerate(row)}
    for (switch, role), group in groups.items():
        hosts = [host for host in group if host in shown]
        at = row.index(switch)
        is_left, is_right = at == 0 and role == "sends", at == len(row) - 1 and (role == "receives" or len(row) > 1)
        for place, host in enumerate(hosts):
            across = (len(hosts) - 1) / 2 - place
            if is_left or is_right:
                places[host] = (2.0 * at + (0.0 if is_left else 4.0), across)
            else:
                places[host] = (2.0 * (at + 1) + across, 1.0 if role == "sends" else -1.0)
    return places


def _in_layers(topology: Topology, shown: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Put hosts at the bottom, and switches above by their distance to the nearest host."""
    layer = {host: 0 for host in topology.hosts}
    layer |= {
        node: int(far)
        for node, far in nx.multi_source_dijkstra_path_length(topology.graph, set(topology.hosts)).items()
        if node[0] == "s"
    }
    places: dict[str, tuple[float, float]] = {}
    for level in sorted(set(layer.values())):
        row = [node for node in shown if layer[node] == level]
        for place, node in enumerate(row):
            places[node] = ((place + 0.5) / len(row) * 10, 1.5 * level)
    return places


def _words(topology: Topology, first: str, second: str) -> str:
    """Put a cable into words: its rate, its delay, and the queue of the direction that is not a host's default."""
    link = topology.link(first, second)
    link = topology.link(second, first) if link.queue == HOST_QUEUE else link
    return f"{_rate(link.rate_mbps)}, {link.delay_ms:g} ms{_jitter(link)}; {_queue_words(link.queue)}{_policed(link)}"


def _policed(link: Link) -> str:
    return f", policed to {_rate(link.policer.rate_mbps)}" if link.policer else ""


def _rate(rate_mbps: float) -> str:
    return f"{rate_mbps / 1000:g} Gb/s" if rate_mbps >= 1000 else f"{rate_mbps:g} Mb/s"


def _jitter(link: Link) -> str:
    return (f" ± {link.jitter_ms:g} ms" if link.jitter_ms else "") + (f", loses {link.loss:.2g}" if link.loss else "")


def _queue_words(queue: Any) -> str:
    said = [] if isinstance(queue, (DropTail, EcnThreshold)) else [type(queue).__name__]
    if getattr(queue, "packets", None):
        said.append(f"buffer of {queue.packets} packets")
    elif getattr(queue, "bytes", None):
        said.append(f"buffer of {queue.bytes / 1000:g} kB")
    if getattr(queue, "threshold_packets", None):
        said.append(f"marks from {queue.threshold_packets} on")
    if isinstance(queue, Red):
        what = "marks" if queue.ecn else "drops"
        said.append(f"{what} from {queue.min_threshold_packets:g} to {queue.max_threshold_packets:g}")
    return ", ".join(said)
