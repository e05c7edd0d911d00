"""What is read of one run of RepNet's: mice and elephants, probes, round trips, software, bucket sort."""

from __future__ import annotations

import asyncio
import base64
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from netrepro.applications.repnet.run import emulate_with_library
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers.repnet.setting import (
    ELEPHANT_BYTES,
    MOUSE_BYTES,
    OF_LINUX,
    SCHEMES,
    Setting,
    experiment,
    paths_of_fat_tree,
    probing,
    watching,
)
from netrepro.papers.repnet.sorting import emulate_sort, simulate_sort, sort_in_virtual_time
from netrepro.simulation import simulate
from netrepro.study import SIMULATED, VIRTUAL, Check, Reading, jackknife, run_experiment
from netrepro.transport import open_connection, start_server

PERCENTILES = {"median": 0.5, "p99": 0.99, "p999": 0.999}
CURVE = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
# Rounds of slow start from three segments on: 3, 9, 21, 45 and more than 45 segments of 1460 bytes.
SIZE_GROUPS_BYTES = (0, 3 * 1460, 9 * 1460, 21 * 1460, 45 * 1460, MOUSE_BYTES)
GROUPS = tuple(f"p99_group{i}_ms" for i in range(len(SIZE_GROUPS_BYTES) - 1))
SLOW_MS = 2.24  # later than without congestion: the 9 ms of Fig. 3(c), less TCP's median of 6.76 ms
FAT_TREE_LONGEST_MS = 400.0  # the authors' scripts drop longer samples behind Fig. 18
AGAIN = "tcp again"  # plain streams once more, the control of Fig. 16


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Measure one run of the setting's network, on its tier; the functions below say what is read. A kernel in virtual
    time has timers of its own in place of the setting's."""
    del seconds  # the setting's size says how much
    if tier == VIRTUAL:
        setting = replace(setting, **OF_LINUX)
    others = {
        "probes": read_probes,
        "paths": read_round_trips,
        "loopback": read_loopback,
        "sort": read_sort,
        "kernel sort": read_sort,
    }
    return others.get(setting.network, read_flows)(setting, seed, tier)


# Mice and elephants (Figs 4, 11 to 15 and 18).


def read_flows(setting: Setting, seed: int, tier: str = SIMULATED) -> Reading:
    """Read the setting's experiment with `read`. In virtual time a kernel's own connections carry all flows. On real
    kernels RepNet's asyncio library sends the mice, from a program in every host; both connections on one path are then
    routers that choose paths by addresses alone."""
    planned = experiment(setting, seed)
    if tier in (SIMULATED, VIRTUAL):
        return read(run_experiment(planned, tier, until_complete=tier == VIRTUAL), setting)
    return read(emulate_with_library(planned, MOUSE_BYTES, tier, hash_ports=not setting.same_path), setting)


def read(found: Measurements, setting: Setting) -> Reading:
    """Read numbers: flows, mice, elephants, smallest_group (mice of the rarest size group), unfinished; of mice, with
    what their software takes beyond TCP's (extra_ms), mean_ms, median_ms, p99_ms, p999_ms; normalised_mean (FCT over
    that of an idle network, of flows whose SYN was not lost), p99 by size group (GROUPS); elephant_mbps (median),
    timeouts, dropped_packets. Tables: elephants (share, mbps) and mice, the times of `times`; in the fat-tree those
    below FAT_TREE_LONGEST_MS, here and in the numbers. A flow that never ends took at least until the end."""
    flows = found.flows
    mice, elephants = flows[flows["size_bytes"] <= MOUSE_BYTES], flows[flows["size_bytes"] > ELEPHANT_BYTES]
    alone_ms = mice["completion_ms"].fillna((found.experiment.duration_s - mice["start_s"]) * 1e3).to_numpy()
    longest_ms = FAT_TREE_LONGEST_MS if setting.network == "fat-tree" else math.inf
    kept = alone_ms + setting.extra_ms < longest_ms
    took_ms = (alone_ms + setting.extra_ms)[kept]
    group = np.searchsorted(SIZE_GROUPS_BYTES, mice["size_bytes"][kept], side="left") - 1
    ideal_ms = np.interp(mice["size_bytes"], *idle_ms(setting))
    speeds = elephants["goodput_mbps"].to_numpy()
    levels = np.quantile(speeds, CURVE) if len(speeds) else np.full(len(CURVE), math.nan)
    numbers = {
        "flows": len(flows),
        "mice": len(mice),
        "elephants": len(elephants),
        "smallest_group": int(np.bincount(group, minlength=len(GROUPS)).min()),
        "unfinished": int(mice["completion_ms"].isna().sum()),
        "mean_ms": float(took_ms.mean()),
        **{f"{name}_ms": float(np.quantile(took_ms, share)) for name, share in PERCENTILES.items()},
        "normalised_mean": float(np.mean((alone_ms / ideal_ms)[alone_ms < found.experiment.tcp.initial_rto_ms])),
        "extra_ms": setting.extra_ms,
        **{
            name: float(np.quantile(took_ms[group == i], 0.99)) if (group == i).any() else math.nan
            for i, name in enumerate(GROUPS)
        },
        "elephant_mbps": float(elephants["goodput_mbps"].median()),
        "timeouts": int(mice["timeouts"].sum()),
        "dropped_packets": int(found.links["dropped_packets"].sum()),
    }
    tables = {
        "elephant_speeds": pd.DataFrame({"share": CURVE, "mbps": levels}),
        "mice_times": pd.DataFrame({"took_ms": [_packed(took_ms)]}),
    }
    complete = Check("mice that are complete", float(mice["completion_ms"].notna().mean()), at_least=0.9995)
    return Reading(numbers, tables, [complete], found.fidelity)


def _packed(values: np.ndarray) -> str:
    """Encode values as a text. A million numbers with labels of their own would make tables of 100 MB."""
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


def times(runs: Mapping[int, pd.DataFrame], load: float, left_out: int | None = None) -> np.ndarray:
    """Return the completion times (ms) of the mice of all repetitions together, or of all but one; runs : repetition ->
    the rows of the table mice_times of a case (load, took_ms)."""
    texts = [
        text
        for repetition, rows in runs.items()
        for text in rows["took_ms"][rows["load"] == load]
        if repetition != left_out
    ]
    return np.concatenate([np.frombuffer(base64.b64decode(text), "<f8") for text in texts])


def pooled(runs: Mapping[int, pd.DataFrame], which: str, load: float, left_out: int | None = None) -> float:
    """Compute a statistic ("mean", or of PERCENTILES) of `times`, in ms."""
    took_ms = times(runs, load, left_out)
    return float(took_ms.mean() if which == "mean" else np.quantile(took_ms, PERCENTILES[which]))


def reduction(
    which: str, *loads: float, idle_ms: float = 0.0
) -> Callable[[Mapping[int, pd.DataFrame], Mapping[int, pd.DataFrame]], np.ndarray]:
    """Make the function that computes by how much less one case has than the other, TCP (%), of the mice of all
    repetitions together, mean of `loads`; a value for each repetition, as `jackknife` has them.

    idle_ms : what any scheme takes besides, such as software.
    """

    def at(ours: Mapping[int, pd.DataFrame], tcp: Mapping[int, pd.DataFrame], load: float, out: int | None) -> float:
        mine, plain = (pooled(runs, which, load, out) for runs in (ours, tcp))
        return (1 - (mine + idle_ms) / (plain + idle_ms)) * 100

    return lambda ours, tcp: jackknife(tcp, lambda out: float(np.mean([at(ours, tcp, load, out) for load in loads])))


def idle_ms(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Return (sizes in bytes, FCT in ms) of single flows between the farthest hosts of an idle network."""
    return _idle_ms(setting.fat_tree() if setting.network == "fat-tree" else setting.leaf_spine(), setting.tcp)


@lru_cache
def _idle_ms(topology: Topology, tcp: Tcp) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.unique(np.geomspace(1, MOUSE_BYTES, 60).astype(int))
    alone = tuple(
        Flow(topology.hosts[0], topology.hosts[-1], size_bytes=int(size), start_s=i * 0.5)
        for i, size in enumerate(sizes)
    )
    found = run_experiment(Experiment(topology, alone, len(sizes) * 0.5 + 1, tcp=tcp))
    return sizes.astype(float), found.flows["completion_ms"].to_numpy()


# Path diversity (Figs 1 to 3).


def read_probes(setting: Setting, seed: int, tier: str = SIMULATED) -> Reading:
    """Read Fig. 3: slow_share, and a table: probes (completion_ms, is_slow: SLOW_MS later than in an idle network)."""
    if tier == VIRTUAL:
        asked = probing(setting, seed, together=True)
    else:
        asked = probing(setting, _seed_of_collision(setting.leaf_spine(2), setting.tcp, seed))
    found = run_experiment(asked, tier)
    took_ms = found.flows[found.flows["label"] == "probe"]["completion_ms"]
    slow = took_ms > SLOW_MS + np.interp(setting.size_bytes, *idle_ms(setting))
    table = pd.DataFrame({"completion_ms": took_ms, "is_slow": slow})
    return Reading({"slow_share": float(slow.mean())}, {"probes": table}, fidelity=found.fidelity)


@lru_cache
def _seed_of_collision(topology: Topology, tcp: Tcp, seed: int) -> int:
    """Find a seed with which both long flows take one spine, as the authors made sure."""
    for candidate in range(seed, seed + 100):
        long = [Flow(f"h{i + 1}", f"h{i + 7}", duration_s=0.02) for i in (0, 1)]
        found = simulate(Experiment(topology, tuple(long), 0.02, candidate, tcp=tcp))
        up = found.links[(found.links["source"] == "s1") & found.links["destination"].str.startswith("s")]
        if (up["sent_packets"] > 0).sum() == 1:
            return candidate
    raise NetreproError("no seed among 100 puts two flows on one of three paths", "take another seed")


def read_round_trips(setting: Setting, seed: int, tier: str = SIMULATED) -> Reading:
    """Read Figs 1 and 2. Instead of sending pings, it adds up at an instant what waits at the ports there and back.

    Correlation coefficients of pairs of paths, means: apart (no common link), together. Tables: round_trips (path,
    time_s, round_trip_ms), correlations (pair, shares_links, correlation).
    """
    found, seconds = run_experiment(watching(setting, seed)), setting.amount
    table = found.queues[(found.queues["time_s"] > 0.1 * seconds) & (found.queues["time_s"] < seconds)]
    waits_ms = table.pivot_table(index="time_s", columns=["source", "destination"], values="queue_bytes")
    waits_ms *= 8e-3 / setting.fat_tree_rate_mbps
    base_ms = 12 * setting.link_delay_ms
    trips = {name: base_ms + waits_ms[ports].sum(axis=1) for name, ports in paths_of_fat_tree().items()}
    rows = [
        (f"{a} and {b}", shared, float(trips[a].corr(trips[b])))
        for shared, names in ((False, ("1", "2", "3")), (True, ("1", "1 again", "1 once more")))
        for a, b in combinations(names, 2)
    ]
    paths = pd.DataFrame(rows, columns=["pair", "shares_links", "correlation"])
    means = paths.groupby("shares_links")["correlation"].mean()
    long = pd.concat(trips, names=["path"]).rename("round_trip_ms").reset_index()
    numbers = {"apart": float(means[False]), "together": float(means[True])}
    return Reading(numbers, {"round_trips": long, "correlations": paths}, fidelity=found.fidelity)


# Software (Fig. 16).


def read_loopback(setting: Setting, seed: int, tier: str = SIMULATED) -> Reading:
    """Read Fig. 16, as `measure_overhead` has it, in a table: overhead. Each seed begins with another scheme."""
    return Reading(tables={"overhead": measure_overhead(int(setting.amount), seed)})


def measure_overhead(flows: int, begin: int = 0, size_bytes: int = 1000) -> pd.DataFrame:
    """Measure real flows of 1 KB over the loopback, one after the other, with plain asyncio and with our RepNet.

    From opening until the server holds the last byte; client and server share one process and one event loop, in a
    thread of its own. begin : which scheme comes first. Returns scheme (SCHEMES, and AGAIN for the control), mean_ms,
    deviation_ms (of single flows).
    """
    names = (*SCHEMES, AGAIN)
    first, rows = begin % len(names), []
    for name in names[first:] + names[:first]:
        with ThreadPoolExecutor(1) as thread:
            took_ms = thread.submit(asyncio.run, _loopback(name.split()[0], flows, size_bytes)).result()
        rows.append((name, float(np.mean(took_ms)), float(np.std(took_ms))))
    return pd.DataFrame(rows, columns=["scheme", "mean_ms", "deviation_ms"])


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


def read_sort(setting: Setting, seed: int, tier: str = SIMULATED) -> Reading:
    """Run bucket sort by all twelve hosts: its traffic in the simulator, on kernels the application itself. Table: jobs
    (start_s, took_ms)."""
    count = max(1, int(setting.amount * setting.more_jobs))
    if tier == SIMULATED:
        jobs, fidelity = simulate_sort(setting.sort, count, seed)
    elif tier == VIRTUAL:
        jobs, fidelity = sort_in_virtual_time(setting.sort, count, seed)
    else:
        jobs, fidelity = emulate_sort(setting.sort, setting.amount, seed, tier)
    return Reading(tables={"jobs": jobs}, fidelity=fidelity)
