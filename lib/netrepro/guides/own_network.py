"""Functions of the notebook about a reader's own network: its figures, tables, and a check for a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from netrepro.emulation import Emulation
from netrepro.emulation.tiers import VIRTUAL_TIME_TIERS, probe_tiers, resolve_tier, why_no_processes
from netrepro.networks import LinkTrace, Topology
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.study import pictures as drawing
from netrepro.style import CURVES, new_figure


def why_no_kernel(tier: str) -> str:
    """Say why programs cannot run on a tier, "" where they can.

    Raises NetreproError for a tier that is not auto, virtual or simulated, or that this machine lacks.
    """
    if tier == "auto":
        return why_no_processes()
    resolved, _ = resolve_tier(tier, VIRTUAL_TIME_TIERS, probe_tiers())
    return "the tier is simulated" if resolved == "simulated" else ""


def check_without(link: tuple[str, str], network: Topology, expected: Mapping[str, Any], seed: int) -> pd.DataFrame:
    """Check the network in virtual time while a link is down in both directions; see Emulation.check."""
    with Emulation(network, "virtual", seed=seed) as net:
        net.change_link(*link, up=False)
        return net.check(expected)


def draw_network(experiment: Experiment) -> Figure:
    """Draw the network, with recorded links as broad lines."""
    return drawing.draw_network(experiment, "Two hosts share an uplink to a third")


def draw_queue(runs: Mapping[str, Measurements]) -> Figure:
    """Draw the number of packets in the recorded queue over time, with a curve for each tier."""
    figure, axis = new_figure("What waits in front of the uplink", "time (s)", "packets waiting")
    for colour, (tier, measured) in zip(CURVES, runs.items(), strict=False):
        axis.plot("time_s", "queue_packets", data=measured.queues, color=colour, linewidth=1, label=tier)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def draw_trace(trace: LinkTrace, runs: Mapping[str, Measurements]) -> Figure:
    """Draw the rate of the changing link and, beside it, the packets that wait for it, with a curve for each tier."""
    figure, (rate, queue) = new_figure("A link that changes", "time (s)", "packets waiting", columns=2)
    duration_s = max((measured.experiment.duration_s for measured in runs.values()), default=trace.period_s)
    changes = trace.changes("s1", "s2", duration_s)
    rate.set_ylabel("rate (Mb/s)")
    rate.step([each.at_s for each in changes], [each.rate_mbps for each in changes], where="post", color=CURVES[2])
    for colour, (tier, measured) in zip(CURVES, runs.items(), strict=False):
        queue.plot("time_s", "queue_packets", data=measured.queues, color=colour, linewidth=1, label=tier)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def side_by_side(runs: Mapping[str, Measurements]) -> pd.DataFrame:
    """Compare the tiers, which are the columns: a row with the goodput (Mb/s) of each flow, and one with the mean of
    the queue (packets)."""
    columns = {}
    for tier, measured in runs.items():
        flows = measured.flows.set_index("source").goodput_mbps
        columns[tier] = {f"{source}, goodput (Mb/s)": goodput for source, goodput in flows.items()}
        columns[tier] |= {"uplink's queue, mean (packets)": measured.queues.queue_packets.mean()}
    return pd.DataFrame(columns)


def draw_waits(waits_ms: Mapping[str, list[float]]) -> Figure:
    """Draw the time until the answer to each question of a program, with a row of dots for each case (name -> ms)."""
    figure, axis = new_figure("How long an answer takes", "question (number)", "time (ms)", log_y=True)
    if not waits_ms:
        drawing.say_not_measured(axis, "simulated")
        return figure
    for colour, (case, values) in zip(CURVES, waits_ms.items(), strict=False):
        axis.plot(range(1, len(values) + 1), values, "o", color=colour, label=case)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def draw_capture(packets: pd.DataFrame) -> Figure:
    """Draw the bytes sent so far from each address to each other, over time. packets : from headers_of_capture."""
    figure, axis = new_figure("What the uplink carried", "time (s)", "sent so far (kB)")
    for colour, (ends, sent) in zip(CURVES, packets.groupby(["source", "destination"]), strict=False):
        axis.plot(sent.time_s, sent.size_bytes.cumsum() / 1e3, color=colour, label=" to ".join(map(str, ends)))
    figure.legend(loc="outside lower center", ncols=2)
    return figure
