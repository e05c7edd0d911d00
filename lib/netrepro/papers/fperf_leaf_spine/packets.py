"""The input of the throughput query, run packet by packet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from netrepro import networks
from netrepro.errors import NetreproError
from netrepro.papers.fperf_leaf_spine.query import throughput_analysis
from netrepro.papers.fperf_leaf_spine.setting import Size, size_name
from netrepro.simulation import simulate
from netrepro.verification.analysis import Analysis
from netrepro.verification.examples import base_example
from netrepro.verification.leaf_spine import received
from netrepro.verification.parsing import parse_workload
from netrepro.verification.search import Search
from netrepro.verification.traces import Trace
from netrepro.verification.workloads import Workload

PACKET_RATE_MBPS = 1000.0
PACKET_BYTES = 1514
STEP_S = PACKET_BYTES * 8 / (PACKET_RATE_MBPS * 1e6)  # a step of the model is one packet's time on a wire


class Burst(NamedTuple):
    """A host's packets, `packets` in each of the steps first..last (from 1), all with the same label, `packet`."""

    source: str
    packet: tuple[int, int]
    packets: int
    first: int
    last: int


def bursts(trace: Trace, inputs: Iterable[str]) -> list[Burst]:
    """Summarise a trace's arrivals as a few bursts. Raises NetreproError where a step's packets have different
    labels."""
    sent = []
    for source in inputs:
        for packets, same in groupby(enumerate(trace.arrived[source], 1), key=lambda arrived: arrived[1]):
            steps = [step for step, _ in same]
            if len(set(packets)) > 1:
                raise NetreproError(
                    f"{source} sends packets of several labels in step {steps[0]}", "ask for steady labels"
                )
            if packets:
                sent.append(Burst(source, packets[0], len(packets), steps[0], steps[-1]))
    return sent


def run_in_packets(size: Size, horizon: int, sent: Sequence[Burst], victim: int, *, seed: int) -> tuple[Any, list[int]]:
    """Run the bursts on the packet simulator, whose switches choose the spine by a hash of the flow.

    Returns the packets that the victim has received by each step (an array), and the spine of each burst (-1
    inside a leaf).
    """
    spines, leaves, hosts = size
    link = networks.Link(PACKET_RATE_MBPS, 0.0)
    topology = networks.leaf_spine(leaves, spines, hosts // leaves, link, link)
    uplinks = [(f"s{leaf + 1}", f"s{leaves + spine + 1}") for leaf in range(leaves) for spine in range(spines)]
    last_port = (f"s{victim * leaves // hosts + 1}", f"h{victim + 1}")
    traffic = [
        networks.Datagrams(
            source=burst.source.replace("host", "h"),
            destination=f"h{burst.packet[0] + 1}",
            rate_mbps=burst.packets * PACKET_RATE_MBPS,
            # Half a gap short, so that rounding adds no packet.
            duration_s=STEP_S * (burst.last - burst.first + 1 - 0.5 / burst.packets),
            packet_bytes=PACKET_BYTES,
            start_s=STEP_S * (burst.first - 1),
        )
        for burst in sent
    ]
    most = sum(burst.packets * (burst.last - burst.first + 1) for burst in sent)
    measured = networks.Measure(packets=(*uplinks, last_port))
    experiment = networks.Experiment(topology, tuple(traffic), STEP_S * (horizon + most + 6), seed, measured)
    packets = simulate(experiment).packets
    is_last = packets["destination"] == last_port[1]
    spine_of = {
        int(flow): int(name[1:]) - leaves - 1
        for flow, name in packets.loc[~is_last, ["flow", "destination"]].itertuples(index=False)
    }
    # Clocks differ by parts in ten thousand, so a quarter of a step is enough.
    ends = STEP_S * (np.arange(1, horizon + 1) + 0.25)
    arrived = np.searchsorted(np.sort(packets.loc[is_last, "time_s"]), ends)
    return arrived, [spine_of.get(flow, -1) for flow in range(len(sent))]


def synthesised_input(size: Size = (2, 3, 6), horizon: int = 10, *, seed: int = 0) -> tuple[Workload, Trace]:
    """Find a proven workload of the throughput query, and the simplest input that satisfies it.

    Raises NetreproError where no workload is found.
    """
    analysis = throughput_analysis(size, horizon, backend="cadical")
    result = Search(analysis, seed=seed, starts=0).run()
    if result.workload is None:
        raise NetreproError(f"no workload was found for {size_name(size)}", "give another seed")
    both = Workload(analysis.base.specs + result.workload.specs)
    workload = Analysis(analysis.point, analysis.query, both, backend="cadical")
    return result.workload, base_example(workload, steady_labels=True).trace


def packet_runs(
    trace: Trace, size: Size = (2, 3, 6), horizon: int = 10, *, runs: int = 32, seed: int = 0
) -> pd.DataFrame:
    """Run an input of the throughput query on `runs` packet networks that differ only in their hash.

    The hash chooses the spines. `prediction` is the solver's answer about all inputs with the same senders,
    destinations and spines: "must lose" (the query holds for all), "cannot lose" (for none) or "may lose". A row per
    run and step: run, prediction, time_step, model_packets (of one replay in the model with the same spines),
    received_packets.
    """
    victim, steps = size[2] - 1, range(1, horizon + 1)
    analysis = throughput_analysis(size, horizon, backend="cadical")
    sent = bursts(trace, analysis.point.inputs)
    predictions: dict[tuple[int, ...], str] = {}
    tables = []
    for run in range(runs):
        arrived, chosen = run_in_packets(size, horizon, sent, victim, seed=seed + run)
        arrivals: dict[str, list[list[tuple[int, int]]]] = {burst.source: [[] for _ in steps] for burst in sent}
        for burst, spine in zip(sent, chosen, strict=True):
            for step in range(burst.first, burst.last + 1):
                arrivals[burst.source][step - 1] = [(burst.packet[0], max(spine, 0))] * burst.packets
        if tuple(chosen) not in predictions:
            predictions[tuple(chosen)] = _prediction(analysis, sent, chosen)
        model = analysis.point.simulate(arrivals, seed=seed + run)
        columns = {
            "run": run,
            "prediction": predictions[tuple(chosen)],
            "time_step": steps,
            "model_packets": [model.metric("cenq", received(victim), step) for step in steps],
            "received_packets": arrived,
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _prediction(analysis: Analysis, sent: Sequence[Burst], spines: Sequence[int]) -> str:
    """Ask the solver about all inputs with these senders, destinations and spines: "cannot lose", "must lose" or "may
    lose"."""
    point, senders = analysis.point, {burst.source for burst in sent}
    lines = [f"[1,{point.horizon}]: cenq({queue},t) <= 0" for queue in point.inputs if queue not in senders]
    for burst, spine in zip(sent, spines, strict=True):
        steps = f"[{burst.first},{burst.last}]"
        lines.append(f"{steps}: dst({burst.source},t) = {burst.packet[0]}")
        if spine >= 0:
            lines.append(f"{steps}: ecmp({burst.source},t) = {spine}")
    workload = parse_workload(" and ".join(lines))
    if analysis.check_workload_with_query(workload).status == "unsat":
        return "cannot lose"
    return "must lose" if analysis.check_workload_without_query(workload).status == "unsat" else "may lose"


def packet_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Summarise for each prediction the number of networks, and the packets received by the horizon in the packet
    networks and in the model."""
    last = runs[runs["time_step"] == runs["time_step"].max()]
    columns = {"networks": ("run", "count")}
    for where, column in (("received", "received_packets"), ("in_model", "model_packets")):
        columns |= {f"least_{where}": (column, "min"), f"most_{where}": (column, "max")}
    return last.groupby("prediction").agg(**columns).reset_index()
