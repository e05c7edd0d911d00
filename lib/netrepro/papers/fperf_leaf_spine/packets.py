"""The same input, packet by packet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from netrepro.verification.search import Search
from netrepro.verification.traces import Trace
from netrepro.verification.workloads import Workload, parse_workload

PACKET_RATE_MBPS = 1000.0
PACKET_BYTES = 1514
STEP_S = PACKET_BYTES * 8 / (PACKET_RATE_MBPS * 1e6)  # a step of the model is one packet's time on a wire
RUN_COLUMNS = ["run", "spines", "prediction", "time_step", "model_packets", "received_packets"]


@dataclass(frozen=True)
class Burst:
    """`count` packets of one host in each of the steps first..last (from 1), all with one label."""

    source: str
    packet: tuple[int, int]
    count: int
    first: int
    last: int


def bursts(trace: Trace, inputs: Iterable[str]) -> list[Burst]:
    """Summarise a trace's arrivals as few bursts. Raises NetreproError where one step's packets have several labels."""
    found: list[Burst] = []
    for source in inputs:
        open_burst: Burst | None = None
        for step, packets in enumerate(trace.arrived[source], 1):
            if len(set(packets)) > 1:
                raise NetreproError(f"{source} sends packets of several labels in step {step}", "ask for steady labels")
            now = (packets[0], len(packets)) if packets else None
            if open_burst and now == (open_burst.packet, open_burst.count):
                found[-1] = open_burst = replace(open_burst, last=step)
            elif now:
                open_burst = Burst(source, now[0], now[1], step, step)
                found.append(open_burst)
            else:
                open_burst = None
    return found


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
            rate_mbps=burst.count * PACKET_RATE_MBPS,
            # Half a gap short, so that rounding adds no packet.
            duration_s=STEP_S * (burst.last - burst.first + 1 - 0.5 / burst.count),
            packet_bytes=PACKET_BYTES,
            start_s=STEP_S * (burst.first - 1),
        )
        for burst in sent
    ]
    most = sum(burst.count * (burst.last - burst.first + 1) for burst in sent)
    experiment = networks.Experiment(
        topology,
        tuple(traffic),
        duration_s=STEP_S * (horizon + most + 6),
        seed=seed,
        measure=networks.Measure(packets=(*uplinks, last_port)),
    )
    packets = simulate(experiment).packets
    up = packets[packets["destination"] != last_port[1]]
    spine_of = {int(flow): int(name[1:]) - leaves - 1 for flow, name in zip(up["flow"], up["destination"], strict=True)}
    arrived = packets.loc[packets["destination"] == last_port[1], "time_s"].to_numpy()
    # Clocks differ by parts in ten thousand: a quarter of a step is ample.
    ends = STEP_S * (np.arange(1, horizon + 1) + 0.25)
    return np.searchsorted(np.sort(arrived), ends), [spine_of.get(flow, -1) for flow in range(len(sent))]


def synthesised_input(size: Size = (2, 3, 6), horizon: int = 10, *, seed: int = 0) -> tuple[Workload, Trace]:
    """Find a proven workload of the throughput query, and the plainest input that has it.

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
    trace: Trace,
    size: Size = (2, 3, 6),
    horizon: int = 10,
    *,
    runs: int = 32,
    seed: int = 0,
) -> pd.DataFrame:
    """Run an input of the throughput query on `runs` packet networks that differ in their hash alone.

    The hash chooses the spines; with these, `prediction` is what the solver says of all inputs with the same
    senders, destinations and spines: "must lose" (the query holds for all), "cannot lose" (for none) or "may
    lose". A row per run and step: RUN_COLUMNS; model_packets is one replay in the model, with the same spines.
    """
    victim = size[2] - 1
    analysis = throughput_analysis(size, horizon, backend="cadical")
    point, sent = analysis.point, bursts(trace, analysis.point.inputs)
    predictions: dict[tuple[int, ...], str] = {}
    tables = []
    for run in range(runs):
        arrived, chosen = run_in_packets(size, horizon, sent, victim, seed=seed + run)
        arrivals: dict[str, list[list[tuple[int, int]]]] = {}
        for burst, spine in zip(sent, chosen, strict=True):
            steps = arrivals.setdefault(burst.source, [[] for _ in range(horizon)])
            for step in range(burst.first, burst.last + 1):
                steps[step - 1] = [(burst.packet[0], max(spine, 0))] * burst.count
        if tuple(chosen) not in predictions:
            predictions[tuple(chosen)] = _prediction(analysis, sent, chosen)
        model = point.simulate(arrivals, seed=seed + run)
        tables.append(
            pd.DataFrame(
                {
                    "run": run,
                    "spines": ", ".join(f"{b.source}: {s + 1}" for b, s in zip(sent, chosen, strict=True) if s >= 0),
                    "prediction": predictions[tuple(chosen)],
                    "time_step": range(1, horizon + 1),
                    "model_packets": [model.metric("cenq", received(victim), t) for t in range(1, horizon + 1)],
                    "received_packets": arrived,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)[RUN_COLUMNS]


def _prediction(analysis: Analysis, sent: Sequence[Burst], spines: Sequence[int]) -> str:
    """Ask the solver about all inputs with these senders, destinations and spines: "cannot lose", "must lose" or "may
    lose"."""
    silent = [queue for queue in analysis.point.inputs if queue not in {burst.source for burst in sent}]
    lines = [f"[1,{analysis.point.horizon}]: cenq({queue},t) <= 0" for queue in silent]
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
    """Summarise for each prediction the networks, and the packets received by the horizon in the packet world and in
    the model."""
    last = runs[runs["time_step"] == runs["time_step"].max()]
    grouped = last.groupby("prediction")
    return grouped.agg(
        networks=("run", "count"),
        least_received=("received_packets", "min"),
        most_received=("received_packets", "max"),
        least_in_model=("model_packets", "min"),
        most_in_model=("model_packets", "max"),
    ).reset_index()


def share_that_lost(runs: pd.DataFrame, prediction: str) -> float:
    """Compute the share of a prediction's packet networks in which the query held, that is, the victim received too
    little.

    Raises NetreproError where no network has this prediction.
    """
    horizon = runs["time_step"].max()
    last = runs[(runs["time_step"] == horizon) & (runs["prediction"] == prediction)]
    if last.empty:
        raise NetreproError(f"no network of which the solver said {prediction!r}", "run more of them")
    return float((last["received_packets"] <= horizon // 2 - 1).mean())
