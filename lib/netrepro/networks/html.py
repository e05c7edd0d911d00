"""What a notebook shows of a network or an experiment: a small picture and a table, in place of a page of fields."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable
from html import escape
from typing import Any

import networkx as nx

MOST_DRAWN = 80  # nodes; larger networks have only the table
WIDTH, HEIGHT, MARGIN = 420, 200, 24
MOST_ROWS = 8  # under one heading


def topology_html(topology: Any) -> str:
    """Draw a Topology: a picture of its nodes and cables, and how many there are of which kind."""
    return _page(topology.name, _svg(topology.graph, topology.hosts), _rows_of_topology(topology))


def experiment_html(experiment: Any) -> str:
    """Draw an Experiment: its network's picture, and a table of links, traffic, TCP and what is measured."""
    topology, measure = experiment.topology, experiment.measure
    rows = [("lasts", f"{experiment.duration_s:g} s, seed {experiment.seed}"), *_rows_of_topology(topology)]
    rows += [("traffic", each) for each in _counted(_said_of_traffic(entry) for entry in experiment.traffic)]
    rows += [("TCP", _changed(experiment.tcp) or "as Linux has it"), ("routing", experiment.routing.scheme)]
    if experiment.ipv6:
        rows += [("packets", "IPv6")]
    if experiment.host_delay_packets:
        rows += [("hosts", f"take up to {experiment.host_delay_ms:.3g} ms for a packet")]
    rows += [("changes", f"{len(experiment.changes)} of links")] if experiment.changes else []
    looks = [f"queue {a} to {b}" for a, b in measure.queues] + [f"packets {a} to {b}" for a, b in measure.packets]
    looks += ["windows"] if measure.windows_interval_ms else []
    rows += [("measures", each) for each in _cut(looks or ["flows and totals of links"])]
    return _page(topology.name, _svg(topology.graph, topology.hosts), rows)


def _rows_of_topology(topology: Any) -> list[tuple[str, str]]:
    counts = (
        f"{len(topology.hosts)} hosts, {len(topology.switches)} switches, {topology.graph.number_of_edges()} cables"
    )
    return [("network", counts), *(("links", each) for each in _counted(map(_said_of_link, topology.ports.values())))]


def _said_of_link(link: Any) -> str:
    policed = "" if link.policer is None else f", {_said(link.policer)}"
    return f"{link.rate_mbps:g} Mb/s, {link.delay_ms:g} ms, {_said(link.queue)}{policed}"


def _said(description: Any) -> str:
    """Return a description's name, and its fields that are neither None nor at their default."""
    return f"{type(description).__name__}({_changed(description)})"


def _changed(description: Any, but: Collection[str] = ()) -> str:
    parts = []
    for field in dataclasses.fields(description):
        if field.name in but:
            continue
        value = getattr(description, field.name)
        default = field.default if field.default is not dataclasses.MISSING else None
        if value is not None and value != default and value != ():
            parts.append(f"{field.name}={value:g}" if isinstance(value, float) else f"{field.name}={value!r}")
    return ", ".join(parts)


def _said_of_traffic(entry: Any) -> str:
    """Describe a kind of traffic without naming the hosts that it is between."""
    between = ("source", "destination", "client", "servers", "sources", "destinations", "start_s", "path", "label")
    return f"{type(entry).__name__}({_changed(entry, between)})"


def _counted(said: Iterable[str]) -> list[str]:
    counts = Counter(said)
    return _cut([f"{count} × {each}" for each, count in counts.most_common()])


def _cut(rows: list[str]) -> list[str]:
    return rows if len(rows) <= MOST_ROWS else [*rows[:MOST_ROWS], f"and {len(rows) - MOST_ROWS} more kinds"]


def _page(name: str, picture: str, rows: list[tuple[str, str]]) -> str:
    body, before = [], ""
    for heading, text in rows:
        body.append(f"<tr><th>{escape(heading if heading != before else '')}</th><td>{escape(text)}</td></tr>")
        before = heading
    style = "text-align:left;vertical-align:top;padding:1px 10px 1px 0"
    table = "".join(body).replace("<th>", f'<th style="{style}">').replace("<td>", f'<td style="{style}">')
    return f"<div><b>{escape(name)}</b><br>{picture}<table>{table}</table></div>"


def _svg(graph: nx.Graph, hosts: Iterable[str]) -> str:
    """Draw hosts as squares and switches as circles; the same network gives the same picture."""
    if not 0 < len(graph) <= MOST_DRAWN:
        return ""
    ends = set(hosts)
    places = _places(graph, ends)
    lines = [
        f'<line x1="{places[a][0]:.0f}" y1="{places[a][1]:.0f}" x2="{places[b][0]:.0f}" y2="{places[b][1]:.0f}" '
        'stroke="#888888"/>'
        for a, b in graph.edges()
    ]
    for node, (x, y) in places.items():
        is_host, size = node in ends, 6 if len(graph) <= 24 else 4
        shape = (
            f'<rect x="{x - size:.0f}" y="{y - size:.0f}" width="{2 * size}" height="{2 * size}" fill="#0072B2">'
            if is_host
            else f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{size + 1}" fill="#E69F00">'
        )
        lines.append(f"{shape}<title>{escape(node)}</title></{'rect' if is_host else 'circle'}>")
        if len(graph) <= 24:
            lines.append(
                f'<text x="{x:.0f}" y="{y + size + 11:.0f}" font-size="10" text-anchor="middle">{escape(node)}</text>'
            )
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="the network">{"".join(lines)}</svg>'


def _places(graph: nx.Graph, hosts: set[str]) -> dict[str, tuple[float, float]]:
    """Place nodes in layers by distance from the nearest host, hosts below; with fewer than three, by springs."""
    far = nx.multi_source_dijkstra_path_length(graph, hosts, weight=None)
    if max(far.values()) >= 2:
        layers: dict[int, list[str]] = {}
        for node in sorted(graph, key=lambda node: int(node[1:])):
            layers.setdefault(int(far[node]), []).append(node)
        places = {
            node: ((place + 0.5) / len(layer), float(height))
            for height, layer in layers.items()
            for place, node in enumerate(layer)
        }
    else:
        places = {node: (float(x), float(y)) for node, (x, y) in nx.kamada_kawai_layout(graph).items()}
    xs, ys = zip(*places.values(), strict=True)
    wide, high = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    return {
        node: (
            MARGIN + (x - min(xs)) / wide * (WIDTH - 2 * MARGIN),
            MARGIN + (max(ys) - y) / high * (HEIGHT - 2 * MARGIN - 10),
        )
        for node, (x, y) in places.items()
    }
