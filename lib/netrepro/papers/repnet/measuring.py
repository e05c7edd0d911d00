"""Readings of one run of RepNet's: mice and elephants, probes, round trips, software, bucket sort."""

from __future__ import annotations

import asyncio
import base64
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from netrepro.applications.bucket_sort.run import emulate_sort, simulate_sort, sort_as_released, sort_in_virtual_time
from netrepro.applications.repnet.run import emulate_with_library
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers.repnet.setting import (
    ELEPHANT_BYTES,
    FAT_TREE_RATE_MBPS,
    MOUSE_BYTES,
    REPLICATED,
    SCHEMES,
    FatTree,
    Incast,
    Loopback,
    MoreMice,
    Paths,
    Probes,
    ReleasedSorting,
    Setting,
    Sorting,
    Timed,
    experiment,
    fat_tree_experiment,
    incast_experiment,
    is_mixed,
    paths_of_fat_tree,
    probing,
    watching,
    with_more_mice,
)
from netrepro.simulation import simulate
from netrepro.study import (
    HOST_DELAY_PACKETS,
    SIMULATED,
    VIRTUAL,
    Check,
    OneRun,
    Part,
    Progress,
    Reading,
    in_real_time,
    jackknife,
    run_all,
    run_experiment,
)
from netrepro.transport import open_connection, start_server

PERCENTILES = {"median": 0.5, "p99": 0.99, "p999": 0.999}
CURVE = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
# Groups by rounds of slow start from three segments on: 3, 9, 21, 45 and more than 45 segments of 1460 bytes.
SIZE_GROUPS_BYTES = (0, 3 * 1460, 9 * 1460, 21 * 1460, 45 * 1460, MOUSE_BYTES)
GROUPS = tuple(f"p99_group{i}_ms" for i in range(len(SIZE_GROUPS_BYTES) - 1))
SLOW_MS = 2.24  # delay beyond that of an idle network: the 9 ms of Fig. 3(c), less TCP's median of 6.76 ms
FAT_TREE_LONGEST_MS = 400.0  # for Fig. 18 the authors' scripts drop longer samples
AGAIN = "tcp_again"  # plain streams a second time, the control of Fig. 16
Tables = Mapping[int, pd.DataFrame]  # repetition -> table of a case


# Mice and elephants (Figs 4, 11 to 15 and 18).


def measure_incast(setting: Incast, _: float, seed: int, tier: str) -> Reading:
    """Measure incast with `read`."""
    setting = setting.on(tier)
    return read(run_experiment(incast_experiment(setting, seed), tier, until_complete=True), setting)


def measure_more_mice(setting: MoreMice, _: float, seed: int, tier: str) -> Reading:
    """Measure the racks with additional mice with `read`. In virtual time a kernel's own connections carry all flows.
    On real kernels RepNet's asyncio library sends the mice, from a program in every host. There, to put both
    connections on one path, routers choose paths by addresses alone."""
    setting = setting.on(tier)
    planned = with_more_mice(setting, seed)
    if in_real_time(tier):
        return read(emulate_with_library(planned, MOUSE_BYTES, tier, hash_ports=not setting.same_path), setting)
    return read(run_experiment(planned, tier, until_complete=True), setting)


def read(measurements: Measurements, setting: Timed | FatTree, longest_ms: float = math.inf) -> Reading:
    """Read numbers: mice, unfinished; for mice mean_ms, median_ms, p99_ms, p999_ms and p99 by size group (GROUPS), all
    with extra_ms, their software's time beyond TCP's; elephant_mbps (median), timeouts, dropped_packets. Tables:
    elephant_speeds (share, mbps) and mice_times, for `times`. Only times below `longest_ms` count in both. An
    unfinished mouse counts with the time until the end. Where schemes are mixed, mice are those of the setting's.

    A mouse's time begins when its connection is open, the first where there are two (the authors' exp_code/client.js).
    So neither the handshake nor the wait after a lost SYN is in it. Theirs ends when the server's FIN has come back;
    ours, when the receiver has the last byte."""
    flows = measurements.flows
    mice, elephants = mice_of(flows, setting.scheme), flows[flows["size_bytes"] > ELEPHANT_BYTES]
    until_end_ms = (measurements.experiment.duration_s - mice["start_s"]) * 1e3
    lasted_ms = mice["completion_ms"].fillna(until_end_ms) - mice["connected_ms"].fillna(0.0)
    took_ms = lasted_ms.to_numpy() + setting.extra_ms
    kept = took_ms < longest_ms
    took_ms = took_ms[kept]
    group = np.searchsorted(SIZE_GROUPS_BYTES, mice["size_bytes"][kept], side="left") - 1
    numbers = {
        "mice": len(mice),
        "unfinished": int(mice["completion_ms"].isna().sum()),
        "extra_ms": setting.extra_ms,
        "mean_ms": float(took_ms.mean()),
        **{f"{name}_ms": float(np.quantile(took_ms, share)) for name, share in PERCENTILES.items()},
        **pd.Series(took_ms).groupby(group).agg(np.quantile, 0.99).reindex(range(len(GROUPS))).set_axis(GROUPS),
        "elephant_mbps": float(elephants["goodput_mbps"].median()),
        "timeouts": int(mice["timeouts"].sum()),
        "dropped_packets": int(measurements.links["dropped_packets"].sum()),
    }
    speeds = elephants["goodput_mbps"].quantile(CURVE)
    tables = {
        "elephant_speeds": pd.DataFrame({"share": CURVE, "mbps": speeds.to_numpy()}),
        # As a text: a million numbers with labels of their own would make tables of 100 MB.
        "mice_times": pd.DataFrame({"took_ms": [base64.b64encode(took_ms.astype("<f8").tobytes()).decode()]}),
    }
    complete = Check("mice that are complete", float(mice["completion_ms"].notna().mean()), at_least=0.9995)
    return Reading(numbers, tables, [complete], measurements.fidelity)


def mice_of(flows: pd.DataFrame, scheme: str) -> pd.DataFrame:
    """Return the flows of mice; where schemes are mixed, which their labels tell, those of one scheme."""
    return flows[(flows["size_bytes"] <= MOUSE_BYTES) & flows["label"].isin(("", scheme))]


def read_fat_tree(measurements: Measurements, setting: FatTree) -> Reading:
    """Read the fat-tree with `read`, only times below FAT_TREE_LONGEST_MS. from_syn_ms is the mean of times that begin
    with the SYN, which a controller may hold up."""
    asked = fat_tree_experiment(replace(setting, controller_ms=0.0), 0.0, measurements.experiment.seed).flow_table
    mice = mice_of(measurements.flows, setting.scheme)
    from_syn_ms = mice["completion_ms"] + (mice["start_s"] - asked["start_s"][mice.index]) * 1e3
    mean_ms = float(from_syn_ms[from_syn_ms < FAT_TREE_LONGEST_MS].mean())
    return read(measurements, setting, FAT_TREE_LONGEST_MS) | Reading({"from_syn_ms": mean_ms})


def times(runs: Tables, load: float, left_out: int | None = None) -> np.ndarray:
    """Return the completion times (ms) of the mice of all repetitions together, without `left_out`. runs : repetition
    -> the rows of a case's table mice_times (load, took_ms)."""
    rows = pd.concat([table for repetition, table in runs.items() if repetition != left_out])
    texts = rows["took_ms"][rows["load"] == load]
    return np.concatenate([np.frombuffer(base64.b64decode(text), "<f8") for text in texts])


def pooled(runs: Tables, which: str, load: float, left_out: int | None = None) -> float:
    """Compute a statistic of `times` (ms): "mean", or a key of PERCENTILES."""
    took_ms = times(runs, load, left_out)
    return float(took_ms.mean() if which == "mean" else np.quantile(took_ms, PERCENTILES[which]))


def reduction(which: str, *loads: float, idle_ms: float = 0.0) -> Callable[[Tables, Tables], np.ndarray]:
    """Make the function that computes the reduction of a statistic against TCP (%), for the mice of all repetitions
    together, as the mean over `loads`. It returns a `jackknife` value for each repetition.

    idle_ms : time that every scheme takes in addition, such as software's.
    """

    def at(ours: Tables, tcp: Tables, load: float, out: int | None) -> float:
        mine, plain = (pooled(runs, which, load, out) for runs in (ours, tcp))
        return (1 - (mine + idle_ms) / (plain + idle_ms)) * 100

    return lambda ours, tcp: jackknife(tcp, lambda out: float(np.mean([at(ours, tcp, load, out) for load in loads])))


# Path diversity (Figs 1 to 3).


@lru_cache
def idle_ms(topology: Topology, tcp: Tcp) -> tuple[np.ndarray, np.ndarray]:
    """Return (sizes in bytes, FCT in ms) of single flows between the farthest hosts of an idle network."""
    sizes = np.unique(np.geomspace(1, MOUSE_BYTES, 60).astype(int))
    alone = tuple(
        Flow(topology.hosts[0], topology.hosts[-1], size_bytes=int(size), start_s=i * 0.5)
        for i, size in enumerate(sizes)
    )
    measurements = run_experiment(Experiment(topology, alone, len(sizes) * 0.5 + 1, tcp=tcp))
    return sizes.astype(float), measurements.flows["completion_ms"].to_numpy()


def measure_probes(setting: Probes, _: float, seed: int, tier: str) -> Reading:
    """Read Fig. 3: slow_share, and the table probes (completion_ms, is_slow: SLOW_MS later than in an idle network)."""
    setting = setting.on(tier)
    if tier == VIRTUAL:
        asked = probing(setting, seed, together=True)
    else:
        asked = probing(setting, _seed_of_collision(setting.leaf_spine(2), setting.tcp, seed))
    measurements = run_experiment(asked, tier)
    flows = measurements.flows
    took_ms = flows[flows["label"] == "probe"]["completion_ms"]
    is_slow = took_ms > SLOW_MS + np.interp(setting.size_bytes, *idle_ms(setting.leaf_spine(), setting.tcp))
    table = pd.DataFrame({"completion_ms": took_ms, "is_slow": is_slow})
    return Reading({"slow_share": float(is_slow.mean())}, {"probes": table}, fidelity=measurements.fidelity)


@lru_cache
def _seed_of_collision(topology: Topology, tcp: Tcp, seed: int) -> int:
    """Find a seed with which both long flows take the same spine, which the authors ensured, too."""
    for candidate in range(seed, seed + 100):
        long = tuple(Flow(f"h{i + 1}", f"h{i + 7}", duration_s=0.02) for i in (0, 1))
        links = simulate(Experiment(topology, long, 0.02, candidate, tcp=tcp)).links
        up = links[(links["source"] == "s1") & links["destination"].str.startswith("s")]
        if (up["sent_packets"] > 0).sum() == 1:
            return candidate
    raise NetreproError("no seed among 100 puts two flows on one of three paths", "take another seed")


def read_round_trips(measurements: Measurements, setting: Paths) -> Reading:
    """Read Figs 1 and 2. Instead of sending pings, it adds up the queues at the ports there and back at one instant.

    Means of the correlation coefficients of pairs of paths: apart (no common link), together. Tables: round_trips
    (path, time_s, round_trip_ms), correlations (pair, shares_links, correlation).
    """
    queues, seconds = measurements.queues, setting.watched_s
    queues = queues[(queues["time_s"] > 0.1 * seconds) & (queues["time_s"] < seconds)]
    waits_ms = queues.pivot_table(index="time_s", columns=["source", "destination"], values="queue_bytes")
    waits_ms *= 8e-3 / FAT_TREE_RATE_MBPS
    base_ms = 12 * setting.link_delay_ms
    trips = {name: base_ms + waits_ms[ports].sum(axis=1) for name, ports in paths_of_fat_tree().items()}
    rows = [
        (f"{a} and {b}", shared, float(trips[a].corr(trips[b])))
        for shared, names in ((False, ("1", "2", "3")), (True, ("1", "1b", "1c")))
        for a, b in combinations(names, 2)
    ]
    pairs = pd.DataFrame(rows, columns=["pair", "shares_links", "correlation"])
    means = pairs.groupby("shares_links")["correlation"].mean()
    named = {f"path {name}": trip for name, trip in trips.items()}
    long = pd.concat(named, names=["path"]).rename("round_trip_ms").reset_index()
    numbers = {"apart": float(means[False]), "together": float(means[True])}
    return Reading(numbers, {"round_trips": long, "correlations": pairs}, fidelity=measurements.fidelity)


# Software (Fig. 16).


def measure_loopback(setting: Loopback, _: float, seed: int, tier: str) -> Reading:
    """Read Fig. 16: plain_ms, a plain flow's time, and <scheme>_more_ms, how much longer the others take. Each seed
    begins with another scheme."""
    took_ms = measure_overhead(setting.loopback_flows, seed)
    more_ms = {f"{name}_more_ms": took_ms[name] - took_ms["tcp"] for name in (*REPLICATED, AGAIN)}
    return Reading({"plain_ms": took_ms["tcp"], **more_ms})


def measure_overhead(flows: int, begin: int = 0, size_bytes: int = 1000) -> dict[str, float]:
    """Measure real flows of 1 KB over the loopback, one after the other, with plain asyncio and with our RepNet.

    A flow's time is from opening until the server has the last byte. Client and server share one process and one event
    loop, in a thread of its own. begin : index of the first scheme. Returns the mean in ms by scheme, with the control
    as AGAIN.
    """
    names, means_ms = (*SCHEMES, AGAIN), {}
    first = begin % len(names)
    for name in names[first:] + names[:first]:
        with ThreadPoolExecutor(1) as thread:
            took_ms = thread.submit(asyncio.run, _loopback(name.split("_")[0], flows, size_bytes)).result()
        means_ms[name] = float(np.mean(took_ms))
    return means_ms


async def _loopback(name: str, flows: int, size_bytes: int) -> list[float]:
    arrived: asyncio.Queue[float] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(size_bytes)
        arrived.put_nowait(time.perf_counter())
        await reader.read()
        writer.close()

    host, took_ms = "127.0.0.1", []
    server: Any = await (asyncio.start_server if name == "tcp" else start_server)(serve, host, 0)
    port = server.sockets[0].getsockname()[1]
    for _ in range(flows):
        began = time.perf_counter()
        if name == "tcp":
            reader, writer = await asyncio.open_connection(host, port)
        else:
            reader, writer = await open_connection(host, port, mode=name)
        writer.write(bytes(size_bytes))
        took_ms.append((await arrived.get() - began) * 1e3)
        writer.close()
        await reader.read()
    server.close()
    return took_ms


# Bucket sort (Fig. 17).


def measure_sort(setting: Sorting, _: float, seed: int, tier: str) -> Reading:
    """Run bucket sort on all twelve hosts: in the simulator its traffic, on kernels the application itself. Table: jobs
    (start_s, took_ms)."""
    setting = setting.on(tier)
    count = setting.jobs * setting.more_jobs
    if tier == SIMULATED:
        jobs, fidelity = simulate_sort(setting.sort, count, seed, HOST_DELAY_PACKETS)
    elif tier == VIRTUAL:
        jobs, fidelity = sort_in_virtual_time(setting.sort, count, seed)
    else:
        jobs, fidelity = emulate_sort(setting.sort, setting.sort_s, seed, tier)
    return Reading(tables={"jobs": jobs}, fidelity=fidelity)


def measure_released_sort(setting: ReleasedSorting, _: float, seed: int, tier: str) -> Reading:
    """Run the authors' bucket sort between the racks. Table: released_jobs (start_s, back_share, took_ms)."""
    setting = setting.on(tier)
    jobs, fidelity = sort_as_released(setting.sort, setting.released_jobs, seed)
    return Reading(tables={"released_jobs": jobs}, fidelity=fidelity)


# Each experiment with its setting and its reading; the first is of the cases that name no part.
MIX = Part(setting=Setting(), experiment=experiment, read=read)
FAT_TREE = Part(setting=FatTree(), experiment=fat_tree_experiment, read=read_fat_tree)
INCAST = Part(setting=Incast(), measure_one=measure_incast)
MORE_MICE = Part(setting=MoreMice(), measure_one=measure_more_mice)
PROBES = Part(setting=Probes(), measure_one=measure_probes)
PATHS = Part(setting=Paths(), experiment=watching, read=read_round_trips)
LOOPBACK = Part(setting=Loopback(), measure_one=measure_loopback)
SORTING = Part(setting=Sorting(), measure_one=measure_sort)
RELEASED_SORTING = Part(setting=ReleasedSorting(), measure_one=measure_released_sort)
PARTS = (MIX, FAT_TREE, INCAST, MORE_MICE, PROBES, PATHS, LOOPBACK, SORTING, RELEASED_SORTING)


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Measure runs of one tier. Those of mixed schemes that differ only in the scheme are one run."""
    together: dict[OneRun, list[OneRun]] = {}
    for run in runs:
        whole = run._replace(setting=replace(run.setting, scheme="")) if is_mixed(run.setting) else run
        together.setdefault(whole, []).append(run)
    readings: dict[OneRun, Reading] = {}
    for own in run_all(_measure_together, [(each,) for each in together.values()], runs[0].tier, progress):
        readings |= own
    return [readings[run] for run in runs]


def _measure_together(runs: Sequence[OneRun]) -> dict[OneRun, Reading]:
    setting, seconds, seed, tier = runs[0]
    part = next(each for each in PARTS if type(each.setting) is type(setting))
    if part.measure_one is not None:
        return {runs[0]: part.measure_one(setting, seconds, seed, tier)}
    assert part.experiment is not None and part.read is not None
    measured = run_experiment(part.experiment(setting, seconds, seed), tier)
    return {run: part.read(measured, run.setting) for run in runs}
