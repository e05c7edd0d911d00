"""The closed form, the experiment and its readings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import trim_mean

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import HOST_QUEUE, Cable, Topology
from netrepro.networks.workloads import Requests, Tcp
from netrepro.papers.initial_window.clients import (
    APART_S,
    AT_99TH,
    LEAST_GAIN_MS,
    NEW,
    OLD,
    PANELS,
    PATIENCE_S,
    PERCENTILES,
    REQUEST_BYTES,
    SEGMENT_BYTES,
    TRIMMED,
    WIRE_BYTES,
    ClassProject,
    Maps,
    Setting,
    Transport,
    class_clients,
    population,
    published,
    published_buckets,
    sizes_of,
)
from netrepro.study import Check, Part, Reading, Runs, jackknife, least_first

# The closed form, and a version that models idle times.


def rounds(segments: Any, window: float, growth: float = 2.0) -> Any:
    """Count the round trips for sending `segments`, when each round's window is larger by a factor, `growth` (Eq.
    1)."""
    exact = np.log(np.asarray(segments) * (growth - 1) / window + 1) / np.log(growth)
    return np.ceil(exact - 1e-9)


def model_ms(size_bytes: Any, window: float, round_trip_ms: Any, rate_kbps: Any) -> Any:
    """Compute Eq. 1: the rounds times the round trip, plus the sending time at the link's rate (ms). It counts twice
    the data that a full link carries while the sender waits for acknowledgements."""
    segments = np.ceil(np.asarray(size_bytes) / SEGMENT_BYTES)
    return rounds(segments, window) * round_trip_ms + _on_wire_bytes(size_bytes) * 8 / rate_kbps


def pipelined_ms(size_bytes: Any, window: float, round_trip_ms: Any, rate_kbps: Any) -> Any:
    """Compute model_ms, but let a round be idle only for the part of the round trip that its window does not fill."""
    segments = np.ceil(np.asarray(size_bytes, dtype=float) / SEGMENT_BYTES)
    packet_ms = WIRE_BYTES * 8 / np.asarray(rate_kbps, dtype=float)
    idle_ms = np.zeros(np.broadcast(segments, packet_ms, round_trip_ms).shape)
    sent = burst = float(window)
    while np.any(segments > sent):
        waits = np.maximum(0, round_trip_ms - (burst - 1) * packet_ms)
        idle_ms = idle_ms + np.where(segments > sent, waits, 0)
        sent, burst = sent + 2 * burst, 2 * burst
    return round_trip_ms + _on_wire_bytes(size_bytes) * 8 / rate_kbps + idle_ms


def _on_wire_bytes(size_bytes: Any) -> Any:
    return np.asarray(size_bytes) + np.ceil(np.asarray(size_bytes) / SEGMENT_BYTES) * (WIRE_BYTES - SEGMENT_BYTES)


# One run.


def experiment(setting: Setting, _: float, seed: int) -> Experiment:
    """Make the experiment with searches."""
    clients = population(setting, seed)
    return _ask(setting, clients, seed, responses=setting.responses, back_end_ms=setting.back_end_ms)


def maps_experiment(setting: Maps, _: float, seed: int) -> Experiment:
    """Make the experiment with Maps."""
    return _ask(setting, population(setting, seed), seed, sizes_of(setting, seed))


def class_experiment(setting: ClassProject, _: float, seed: int) -> Experiment:
    """Make the class project's experiment."""
    return _ask(setting, class_clients(), seed)


def _ask(
    setting: Transport,
    clients: pd.DataFrame,
    seed: int,
    sizes: np.ndarray | None = None,
    responses: int = 1,
    back_end_ms: float = 0.0,
) -> Experiment:
    """Make an experiment: servers on fast links, one for each connection of a client, and clients on narrow links, all
    at one switch. sizes : bytes of a response, by client (rows) and connection; None: one connection, of
    `size_bytes`."""
    sizes = clients.size_bytes.to_numpy()[:, None] if sizes is None else sizes
    servers = tuple(f"h{place + 1}" for place in range(sizes.shape[1]))
    fast = Link(10_000, 0.0, HOST_QUEUE)
    cables = [Cable(server, "s1", fast) for server in servers]
    traffic = []
    for place, client in enumerate(clients.itertuples()):
        name, one_way_ms = f"h{place + 1 + len(servers)}", client.round_trip_ms / 2
        queue = DropTail(bytes=int(client.buffer_bytes))
        down = Link(client.rate_kbps / 1e3, one_way_ms, queue, loss=client.loss)
        cables.append(Cable("s1", name, down, Link(1000, one_way_ms, HOST_QUEUE)))
        parts: dict[str, Any] = {"start_s": APART_S * place}
        if back_end_ms:
            parts |= {"first_bytes": int(client.header_bytes), "rest_after_ms": back_end_ms}
        for server, size_bytes in zip(servers, map(int, sizes[place]), strict=True):
            traffic.append(Requests(name, (server,), REQUEST_BYTES, size_bytes, responses, **parts))
    tcp = Tcp(
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=SEGMENT_BYTES,
        receive_window_bytes=setting.receive_window_segments * SEGMENT_BYTES,
        initial_rto_ms=setting.initial_rto_ms,
        syn_linear_timeouts=0,
        pacing=setting.pacing,
        unpaced_segments=0,
        tail_loss_probe=False,  # Linux got it after the paper
        counts="acknowledgements",
    )
    seconds = PATIENCE_S + APART_S * len(clients)
    # Clients share no link, so they cannot synchronise; a host delay would be that of the narrowest link for all.
    topology = Topology(tuple(cables), "clients")
    return Experiment(topology, tuple(traffic), seconds, seed, tcp=tcp, host_delay_packets=0)


def latencies(measured: Measurements) -> np.ndarray:
    """Measure each client's wait for a response (ms; the mean of several), in the order of the clients. NaN where one
    never came."""
    rows = measured.requests.assign(place=measured.requests["client"].str[1:].astype(int))
    waits = rows.pivot(index="place", columns=["server", "request"], values="completion_ms")
    return waits.mean(axis=1, skipna=False).to_numpy()


def read(measured: Measurements, setting: Setting) -> Reading:
    """Read what `read_clients` does of searches."""
    return read_clients(measured, setting, population(setting, measured.experiment.seed))


def read_maps(measured: Measurements, setting: Maps) -> Reading:
    """Read what `read_clients` does, and the table `responses`: each is compared with the same with another window."""
    every = measured.requests[["client", "server", "request", "completion_ms"]].reset_index(drop=True)
    clients = population(setting, measured.experiment.seed)
    return read_clients(measured, setting, clients) | Reading(tables={"responses": every})


def read_class(measured: Measurements, setting: ClassProject) -> Reading:
    """Read what `read_clients` does of a class project."""
    return read_clients(measured, setting, class_clients())


def read_clients(measured: Measurements, setting: Transport, clients: pd.DataFrame) -> Reading:
    """Read mean_ms and percentiles of latency, model_ms and pipelined_ms (closed forms, means over the same clients),
    resent_percent (of all segments), and timeouts per connection. Table: the means by bucket of Figs 5 to 7."""
    waits = latencies(measured)
    at = (clients.size_bytes, setting.initial_window_segments, clients.round_trip_ms, clients.rate_kbps)
    table = clients.assign(mean_ms=waits, model_ms=model_ms(*at), pipelined_ms=pipelined_ms(*at))
    table["size_segments"] = clients.size_bytes / SEGMENT_BYTES
    asked: Any = measured.experiment.traffic
    segments = sum(each.count * math.ceil(each.response_bytes / SEGMENT_BYTES) for each in asked)
    resent = measured.flows.retransmitted_packets.sum()
    every = measured.requests.completion_ms.dropna()
    numbers = {
        **{name: float(table[name].mean()) for name in TIMES},
        **dict(zip(QUANTILES, np.percentile(every, PERCENTILES), strict=True)),
        "resent_percent": 100 * float(resent / segments),  # as Table 7: over unique bytes
        "timeouts": float(measured.flows.timeouts.mean()),
    }
    complete = Check("responses complete", float(np.isfinite(waits).mean()), at_least=1.0)
    return Reading(numbers, {"buckets": in_buckets(table)}, [complete])


MAPS = Part(setting=Maps(), experiment=maps_experiment, read=read_maps, until_complete=True)
CLASS = Part(setting=ClassProject(), experiment=class_experiment, read=read_class, until_complete=True)
CURVED = {"round_trip_ms": 1000, "rate_kbps": 5000, "size_segments": 50}  # claims look at gains up to these
TIMES = ("mean_ms", "model_ms", "pipelined_ms")
QUANTILES = tuple(f"p{percentile:g}" for percentile in PERCENTILES)


def published_gains(centre: str) -> pd.Series:
    """Read the published gains at percentiles (Table 3)."""
    return published("percentiles").set_index(["centre", "percentile"]).gain_percent[centre]


def published_losses() -> pd.Series:
    """Read how much later Maps's responses ended, by percentile (Table 8)."""
    return published("maps").set_index("percentile").loss_ms


def in_buckets(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the means of TIMES by bucket of Figs 5 and 7: panel, upper (infinite for the open bucket), TIMES."""
    rows = []
    for panel in PANELS:
        ends = published_buckets("average", panel)["upper"].fillna(np.inf).to_numpy()
        upper = ends[np.searchsorted(ends, table[panel].to_numpy())]
        means = table.groupby(upper)[list(TIMES)].mean().assign(panel=panel)
        rows.append(means.rename_axis("upper").reset_index())
    return pd.concat(rows, ignore_index=True)


# Functions that claims apply to readings.


def gain_ms(latency: pd.Series) -> float:
    """Compute how much sooner responses come with a window of 10 than of 3 (ms). latency : indexed by window."""
    return float(latency[OLD] - latency[NEW])


def gain_percent(latency: pd.Series) -> float:
    """Compute the gain of `gain_ms` in % of the latency with a window of 3."""
    return 100 * gain_ms(latency) / float(latency[OLD])


def resent_ratio(percent: pd.Series) -> float:
    """Compute how many times as much is sent again with a window of 10 as with 3. Raises NetreproError for no loss."""
    if not percent[OLD] > 0:
        raise NetreproError(
            f"initial_window: no segment was sent again with a window of {OLD}, so there is no ratio to judge",
            "measure more clients, or larger responses (size_scale), or more loss (loss_scale)",
        )
    return float(percent[NEW] / percent[OLD])


def rank_windows(latency: pd.Series) -> list[str]:
    """Rank the windows of 3, 6 and 16 segments by latency (ms, a Series by window), fastest first."""
    return least_first("16", "6", "3")(latency[16], latency[6], latency[3])


def loss_ms(latency: pd.Series) -> float:
    """Compute how much longer the new window takes than the old (ms). latency : Series by window."""
    return -gain_ms(latency)


def paired_loss_ms(responses: Mapping[int, pd.DataFrame]) -> np.ndarray:
    """Compute how much later responses at the 99th percentile end with a window of 10 than of 3 (ms). It uses the
    differences of the same responses, see data/initial_window/SOURCES.md, and gives a `jackknife` value for each
    repetition. Raises NetreproError where a response never ended.

    responses : repetition -> the rows of a case's table `responses`, with both windows.
    """
    by_window = {
        repetition: rows.pivot(
            index=["client", "server", "request"], columns="initial_window_segments", values="completion_ms"
        )
        for repetition, rows in responses.items()
    }
    if any(table.isna().any(axis=None) for table in by_window.values()):
        raise NetreproError(
            f"initial_window: some responses did not end within {PATIENCE_S:g} s, so their slowest percent is unknown",
            "measure smaller responses (size_scale), or less loss (loss_scale)",
        )

    def loss(left_out: int | None) -> float:
        times = pd.concat([table for repetition, table in by_window.items() if repetition != left_out])
        first, end = (int(share * len(times)) for share in AT_99TH)
        ours = times.iloc[np.argsort(times.mean(axis=1).to_numpy())[first : max(end, first + 1)]]
        return float(trim_mean(ours[NEW] - ours[OLD], TRIMMED))

    return jackknife(responses, loss)


def bucket_gains(buckets: pd.DataFrame, column: str = "mean_ms") -> pd.DataFrame:
    """Compute the gains from one case's rows of `buckets` with windows of 3 and 10: panel, upper, gain_ms (means over
    repetitions)."""
    where = ["panel", "upper"]
    times = buckets.groupby([*where, "initial_window_segments"], sort=False)[column].mean().unstack()
    return (times[OLD] - times[NEW]).rename("gain_ms").reset_index()


def gain_over(panel: str, buckets: pd.DataFrame) -> list[tuple[float, float]]:
    """Compute the logarithms of each bucket's upper end and gain, up to the panel's end in CURVED."""
    rows = bucket_gains(buckets).query("panel == @panel and upper <= @CURVED[@panel]").sort_values("upper")
    return list(zip(np.log10(rows.upper).round(3), np.log10(rows.gain_ms.clip(lower=LEAST_GAIN_MS)), strict=True))


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = runs.summary()
    average, slow = table.loc["average"].mean_ms, table.loc["slow"].mean_ms
    return (
        f"Ten segments in place of three bring a response {gain_ms(average):.0f} ms sooner to average clients "
        f"({gain_percent(average):.1f} %; published 68 ms, 11.7 %), {gain_ms(slow):.0f} ms to slow ones "
        f"({gain_percent(slow):.1f} %; 72 ms, 8.7 %)."
    )
