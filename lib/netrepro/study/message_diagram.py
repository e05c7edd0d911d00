"""Diagrams of messages over time: a line for each host, an arrow for each message, a cross where one was lost.

They also show TCP's segments.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Measurements
from netrepro.networks.queues import FULL_PACKET_BYTES
from netrepro.protocols.judge import COMMIT, LEADER, NOTE
from netrepro.protocols.message_log import ARRIVED, LOST, MESSAGE_COLUMNS, UNDER_WAY
from netrepro.style import CURVES, new_figure

INK = "#444444"
MOST_ARROWS = 600
SAME_S, SKEW = 1e-7, 2e-4  # by which times of a packet at two ports may differ: rounding, clock skew
SOON_S = 1.0  # before the end: a packet that is missing then may still wait in a queue
DATA, ACK = "data", "acknowledgement"


def draw_messages(
    messages: pd.DataFrame,
    *,
    between: tuple[float, float] | None = None,
    names: Sequence[Hashable] | None = None,
    lives: pd.DataFrame | None = None,
    announced: pd.DataFrame | None = None,
    cuts: pd.DataFrame | None = None,
    title: str = "Messages over time",
) -> Figure:
    """Draw messages between hosts: time runs to the right, and each host is a line, from the top down.

    Parameters
    ----------
    messages : a table of `MessageLog`: sender, receiver, kind, sent_s, received_s, fate.
    between : (from, to) in seconds; messages that are sent in this time are drawn. None: all.
    names : the hosts to draw, from the top, with the messages between them; None: all that send or receive.
    lives : table (node, up_s, down_s): a host's line has a gap where it was down, and none if the host has no row.
    announced : table of announcements, as `judge` takes it: a star with its term where a node begins to lead, a tick
        where it commits, a text where it noted something.
    cuts : table (names, begins_s, ends_s): a time in which these hosts were cut off from all others is shaded.

    A lost message ends half-way, in a cross: where it was lost is not known. A message under way at the end has no
    arrowhead. Raises NetreproError for an unknown host, a time without messages, and more than MOST_ARROWS arrows.
    """
    known = list(dict.fromkeys([*messages["sender"], *messages["receiver"]]))
    names = sorted(known, key=str) if names is None else list(names)
    if strange := [name for name in names if name not in known]:
        raise NetreproError(f"no message of {strange[0]!r}", nearest(str(strange[0]), map(str, known)))
    from_s, to_s = between or (float(messages["sent_s"].min()), _end_s(messages))
    shown = messages[messages["sender"].isin(names) & messages["receiver"].isin(names)]
    shown = shown[shown["sent_s"].between(from_s, to_s)]
    if shown.empty or len(shown) > MOST_ARROWS:
        raise NetreproError(
            f"{len(shown)} messages from {from_s:g} to {to_s:g} s",
            f"give between=(from, to) with 1 to {MOST_ARROWS}, or fewer names",
        )
    figure, axis = new_figure(title, "time (s)", "")
    figure.set_size_inches(10.0, 1.2 + 0.7 * len(names))
    height = {name: -place for place, name in enumerate(names)}
    last_s = float(np.nanmax([to_s, *shown["received_s"]]))
    for name in names:
        for begins_s, ends_s in _times_up(name, lives, from_s, last_s):
            axis.plot([begins_s, ends_s], [height[name]] * 2, color=INK, linewidth=1, gid="host", zorder=1)
    colours = _colours(messages["kind"])
    longest_s = (shown["received_s"] - shown["sent_s"]).median()
    half_s = 0.5 * (longest_s if math.isfinite(longest_s) else 0.05 * (to_s - from_s))
    for row in shown.itertuples():
        ends = (row.sent_s, height[row.sender]), (row.received_s, height[row.receiver])
        _draw_arrow(axis, ends, str(row.fate), colours[row.kind], half_s)
    if cuts is not None:
        _draw_cuts(axis, cuts, from_s, last_s)
    commits = announced is not None and _draw_announced(axis, announced, height, from_s, to_s)
    axis.set(yticks=list(height.values()), ylim=(-len(names) + 0.4, 0.6))
    axis.set_yticklabels([str(name) for name in names])
    axis.set_xlim(from_s, last_s)
    axis.grid(False)
    kinds = [kind for kind in colours if kind in set(shown["kind"])]
    marks = [Line2D([], [], color=colours[kind], label=kind) for kind in kinds]
    if (shown["fate"] == LOST).any():
        marks.append(Line2D([], [], color=INK, marker="x", linestyle="none", label="lost"))
    if commits:
        marks.append(Line2D([], [], color=INK, marker="|", markersize=11, linestyle="none", label="commits"))
    axis.legend(handles=marks, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _end_s(messages: pd.DataFrame) -> float:
    return float(messages[["sent_s", "received_s"]].max().max())


def _times_up(name: Hashable, lives: pd.DataFrame | None, from_s: float, to_s: float) -> list[tuple[float, float]]:
    """List the (begin, end) of each time in which a host was up, within from_s to to_s."""
    rows = [] if lives is None else list(lives[lives["node"] == name][["up_s", "down_s"]].itertuples(index=False))
    if not rows:
        return [(from_s, to_s)]
    return [(max(up_s, from_s), min(down_s, to_s)) for up_s, down_s in rows if up_s < to_s and down_s > from_s]


def _colours(kinds: pd.Series) -> Mapping[str, str]:
    """Give each kind a colour, the same in every picture of the same messages."""
    names = sorted(set(kinds))
    return {name: CURVES[place % len(CURVES)] for place, name in enumerate(names)}


def _draw_arrow(
    axis: Axes, ends: tuple[tuple[float, float], tuple[float, float]], fate: str, colour: str, half_s: float
) -> None:
    (sent_s, begins), (received_s, arrives) = ends
    head = (received_s, arrives) if fate == ARRIVED else (sent_s + half_s, (begins + arrives) / 2)
    look = "-|>" if fate == ARRIVED else "-"
    axis.add_patch(
        FancyArrowPatch(
            (sent_s, begins),
            head,
            arrowstyle=look,
            mutation_scale=7,
            color=colour,
            linewidth=0.9,
            shrinkA=0,
            shrinkB=0,
            gid=fate,
        )
    )
    if fate == LOST:
        axis.plot(*head, marker="x", color=colour, markersize=6, linestyle="none", gid="cross")


def _draw_announced(
    axis: Axes, announced: pd.DataFrame, height: Mapping[Hashable, int], from_s: float, to_s: float
) -> bool:
    """Draw where nodes begin to lead, commit and note something; tell whether any commits."""
    rows = announced[announced["time_s"].between(from_s, to_s) & announced["node"].isin(height)]
    for row in rows[rows["kind"] == LEADER].itertuples():
        axis.plot(row.time_s, height[row.node], marker="*", markersize=13, color=INK, zorder=5, gid="leader")
        axis.annotate(
            f"leads term {row.term}",
            (row.time_s, height[row.node]),
            xytext=(7, 5),
            textcoords="offset points",
            fontsize=8,
        )
    for row in rows[rows["kind"] == NOTE].itertuples():
        axis.annotate(
            row.entry,
            (row.time_s, height[row.node]),
            xytext=(2, -10),
            textcoords="offset points",
            fontsize=8,
            color=INK,
        )
    commits = rows[rows["kind"] == COMMIT]
    places = [height[name] for name in commits["node"]]
    axis.plot(commits["time_s"], places, marker="|", markersize=11, color=INK, linestyle="none", gid="commits")
    return not commits.empty


def _draw_cuts(axis: Axes, cuts: pd.DataFrame, from_s: float, to_s: float) -> None:
    """Shade the times in which somebody was cut off."""
    for row in cuts[(cuts["begins_s"] < to_s) & (cuts["ends_s"] > from_s)].itertuples():
        begins_s = max(row.begins_s, from_s)
        axis.axvspan(begins_s, min(row.ends_s, to_s), color=INK, alpha=0.08, linewidth=0, zorder=0, gid="cut")
        axis.annotate(
            f"cut off: {row.names}", (begins_s, 0.6), xytext=(3, -9), textcoords="offset points", fontsize=8, color=INK
        )


# TCP's segments.


def segments_of(measured: Measurements, flow: int) -> pd.DataFrame:
    """Return the packets of a TCP flow as messages between its two hosts: MESSAGE_COLUMNS, number, lost_before.

    kind is DATA or ACK; number counts the packets of a kind in the order in which they left; lost_before is the node
    whose port never forwarded a lost packet ("" for a packet that arrived, None for one under way). A packet is sent
    when its last bit leaves its host. The packets of every port on the path, in both directions, must have been
    recorded (`Measure(packets=...)`).

    Raises NetreproError for an unknown flow, a path that was not recorded from end to end, and a last link that loses
    packets. It also refuses links that change or have random delays, because packets cannot be told apart there.
    """
    experiment, flows = measured.experiment, measured.flows
    if flow not in flows.index:
        raise NetreproError(f"no flow {flow}", f"there are {len(flows)}, counted from 0")
    ends = flows.loc[flow, "source"], flows.loc[flow, "destination"]
    links = [experiment.topology.link(*port) for port in experiment.measure.packets]
    if experiment.changes or experiment.host_delay_packets or any(link.jitter_ms or link.reordering for link in links):
        raise NetreproError(
            "packets of links that vary", "draw segments of links with one delay, and hosts without one"
        )
    ways = [(DATA, *ends), (ACK, *reversed(ends))]
    tables = [_crossing(measured, flow, kind, source, destination) for kind, source, destination in ways]
    return pd.concat(tables, ignore_index=True).sort_values("sent_s", kind="stable", ignore_index=True)


def _crossing(measured: Measurements, flow: int, kind: str, source: str, destination: str) -> pd.DataFrame:
    """Follow a flow's packets in one direction, port by port."""
    topology = measured.experiment.topology
    by_port = {port: table[table["flow"] == flow] for port, table in measured.packets_by_port.items()}
    by_port = {port: table for port, table in by_port.items() if len(table)}
    way = [source]
    while way[-1] != destination:
        following = [port for port in by_port if port[0] == way[-1] and port[1] not in way]
        if len(following) != 1:
            raise NetreproError(
                f"no packets were recorded from {way[-1]} on to {destination}",
                "give Measure(packets=...) each port of the way there and back, and the flow one way",
            )
        way.append(following[0][1])
    ports = list(pairwise(way))
    if topology.link(*ports[-1]).loss:
        raise NetreproError(
            f"the link to {destination} loses packets", "let another link lose: nobody records who arrives"
        )
    first = by_port[ports[0]]
    times_s = first["time_s"].to_numpy(copy=True)
    fate, lost_before = np.full(len(first), ARRIVED, dtype=object), np.full(len(first), "", dtype=object)
    there = np.arange(len(first))  # the packets that have come as far as this port, in the order of leaving it
    for port, then in pairwise(ports):
        due_s = times_s[there] + topology.link(*port).delay_ms / 1e3
        table, link = by_port[then], topology.link(*then)
        came_s = table["time_s"] - table["size_bytes"] * 8e-6 / link.rate_mbps - table["wait_ms"] / 1e3
        leaves = _places(due_s, came_s.to_numpy(), SAME_S + SKEW * FULL_PACKET_BYTES * 8e-6 / link.rate_mbps)
        missing = leaves < 0
        sent_on = leaves.max(initial=-1)
        # Packets that came after the last forwarded one may still wait there at the end.
        waits = missing & (np.arange(len(due_s)) > (np.flatnonzero(~missing).max() if sent_on >= 0 else -1))
        fate[there[missing]], lost_before[there[missing]] = LOST, port[1]
        late = waits & (due_s > measured.experiment.duration_s - SOON_S)
        fate[there[late]], lost_before[there[late]] = UNDER_WAY, None
        times_s[there[~missing]] = table["time_s"].to_numpy()[leaves[~missing]]
        there = there[~missing]
    received_s = np.full(len(first), np.nan)
    received_s[there] = times_s[there] + topology.link(*ports[-1]).delay_ms / 1e3
    return pd.DataFrame(
        {
            "sender": source,
            "receiver": destination,
            "kind": kind,
            "sent_s": by_port[ports[0]]["time_s"].to_numpy(),
            "received_s": received_s,
            "fate": fate,
            "number": np.arange(1, len(first) + 1),
            "lost_before": lost_before,
        }
    )[[*MESSAGE_COLUMNS, "number", "lost_before"]]


def _places(due_s: np.ndarray, came_s: np.ndarray, same_s: float) -> np.ndarray:
    """Return the place in `came_s` (rising) that is nearest to each of `due_s`, -1 where none is within `same_s`."""
    if not len(came_s):
        return np.full(len(due_s), -1)
    after = np.clip(np.searchsorted(came_s, due_s), 0, len(came_s) - 1)
    before = np.clip(after - 1, 0, None)
    places = np.where(np.abs(came_s[before] - due_s) < np.abs(came_s[after] - due_s), before, after)
    return np.where(np.abs(came_s[places] - due_s) <= same_s, places, -1)


def draw_time_sequence(
    segments: pd.DataFrame, *, between: tuple[float, float] | None = None, title: str = "Segments over time"
) -> Figure:
    """Draw TCP's segments by number over time, from leaving the sender to arriving; a cross where one was lost.

    segments : a table of `segments_of`. between : (from, to) in seconds; None: all.

    A line's length is the segment's travel time, which grows with the queue. A segment that is sent again has a number
    of its own. Raises NetreproError for a time without a segment.
    """
    data = segments[segments["kind"] == DATA]
    from_s, to_s = between or (float(data["sent_s"].min()), _end_s(data))
    data = data[data["sent_s"].between(from_s, to_s)]
    if data.empty:
        raise NetreproError(f"no segment from {from_s:g} to {to_s:g} s", "give another time")
    figure, axis = new_figure(title, "time (s)", "segment, in the order of sending")
    came, lost = data[data["fate"] == ARRIVED], data[data["fate"] == LOST]
    axis.hlines(came["number"], came["sent_s"], came["received_s"], color=CURVES[5], linewidth=0.8, label="on its way")
    axis.plot(data["sent_s"], data["number"], ".", color=CURVES[0], markersize=3, label="sent")
    axis.plot(came["received_s"], came["number"], ".", color=CURVES[2], markersize=3, label="received")
    if len(lost):
        axis.plot(lost["sent_s"], lost["number"], "x", color=CURVES[6], markersize=6, label="lost")
    axis.legend(fontsize=8)
    return figure
