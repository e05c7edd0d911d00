"""How much a larger initial window shortens web responses: Dukkipati et al., "An Argument for Increasing TCP's Initial
Congestion Window", ACM SIGCOMM CCR 40(3), 2010.

Clients are drawn from the published distributions. Each asks once, over its own narrow link, and the same clients ask
again with every initial window. A front end sends a response's headers at once, and the rest when its back end has made
it. Latency is what this front end measures: from its first segment to the last acknowledgement, without the handshake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import expon, norm, trim_mean

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import HOST_QUEUE, Cable, Topology
from netrepro.networks.workloads import Requests, Tcp
from netrepro.paths import data_dir
from netrepro.study import (
    Check,
    Evidence,
    Gauge,
    Knob,
    Play,
    Reading,
    Runs,
    Scale,
    Study,
    jackknife,
    least_first,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.figures import Bars, Level, Mark, Panel, Picture, Published, Sweep, beside, plot
from netrepro.study.live import LiveRun
from netrepro.study.setting import parameter
from netrepro.style import CURVES, new_figure, scheme

SEGMENT_BYTES = 1430
WIRE_BYTES = SEGMENT_BYTES + 66  # with headers of TCP (including time stamps), IP and Ethernet
REQUEST_BYTES = 400
WINDOWS = (3, 6, 10, 16, 26, 42)
OLD, NEW = 3, 10
PERCENTILES = (10, 50, 90, 95, 96, 97, 99, 99.9)
LEAST_ROUND_TRIP_MS, MOST_ROUND_TRIP_MS = 5.0, 6000.0
LEAST_RATE_KBPS = 28.0  # a modem's rate
MOST_RATE_KBPS = 10_000.0
RANK_CORRELATION = -0.55  # of rate and round trip; see data/initial_window/SOURCES.md
HEADER_SEGMENTS = (3, 4)
MOST_LOSS = 0.3
APART_S = 0.01  # clients ask one after the other, so that they do not meet at the servers
PATIENCE_S = 900.0
AT_99TH, TRIMMED = (0.985, 0.995), 0.1  # responses at the 99th percentile; share cut at both ends of their differences
LEAST_GAIN_MS = 0.1  # smaller gains count as this for the logarithm
PANELS = {
    "round_trip_ms": "round trip (ms)",
    "rate_kbps": "rate (kb/s)",
    "product_kb": "rate x round trip (kB)",
    "size_segments": "size (segments)",
}
CURVED = {"round_trip_ms": 1000, "rate_kbps": 5000, "size_segments": 50}  # claims look at gains up to these


@dataclass(frozen=True)
class Setting:
    """The clients of a data centre ("average" or "slow"; "class": a class project's), and how they are answered.

    Sizes are the published ones times `size_scale`, of at most `most_segments`; buffers (median in kB) are log-normal,
    and a spread is the logarithm's deviation. Wire loss is the published mean times `loss_scale`. Each client uses this
    many `connections` at once, and on each asks for this many `responses`, one after the other.

    service : "search" or "maps", whose responses are smaller and have no back end. receive_window_segments : of the
    clients. initial_rto_ms : the first timeout, 3 s until RFC 6298 (2011). evenly : few clients represent many. Their
    values are evenly spaced in each distribution; only their combination is random. keeps_responses : keep each
    latency, to compare it with the same response's with another window.
    """

    size_scale: float = parameter(1.0, "size of responses, times the published", low=0.1, high=100)
    back_end_ms: float = parameter(200.0, "time between a response's headers and the rest", "ms", low=0, high=10_000)
    service: str = "search"
    receive_window_segments: int = 4000
    most_segments: int = 10_000
    buffer_kb: float = parameter(64.0, "median buffer of the clients' links", "kB", low=1, high=1_000_000)
    buffer_spread: float = 0.69
    loss_scale: float = parameter(1.0, "loss on the wire, times the published mean", low=0, high=10)
    centre: str = "average"
    clients: int = 1000
    initial_window_segments: int = NEW
    connections: int = 1
    responses: int = 1
    pacing: bool = False
    initial_rto_ms: float = 3000.0
    evenly: bool = False
    keeps_responses: bool = False


def published(name: str) -> pd.DataFrame:
    """Read a table of data/initial_window by its name without .csv."""
    return pd.read_csv(data_dir("initial_window") / f"{name}.csv", comment="#")


def published_buckets(centre: str, panel: str) -> pd.DataFrame:
    """Read the published shares and gains of a centre by one of PANELS: upper (NaN for the open bucket), share_percent,
    gain_ms, gain_percent."""
    return published("buckets").query("centre == @centre and panel == @panel")


# Clients.


@lru_cache(maxsize=8)
def population(setting: Setting, seed: int) -> pd.DataFrame:
    """Return a row for each client: round_trip_ms, rate_kbps, product_kb (of these two), size_bytes and header_bytes
    (of a response), loss (on the wire), buffer_bytes. They depend on the seed, but not on the initial window or on
    pacing."""
    if setting.centre == "class":
        return _class_clients(setting)
    percent = published("retransmissions").set_index(["centre", "service", "initial_window_segments"]).percent
    loss = percent[setting.centre, setting.service, OLD] / 100
    rate, other, size, buffer = np.random.default_rng([seed, 13]).standard_normal((4, setting.clients))
    losses = np.random.default_rng([seed, 14]).exponential(loss, setting.clients)
    headers = np.random.default_rng([seed, 15]).choice(HEADER_SEGMENTS, setting.clients)
    tied = RANK_CORRELATION * rate + np.sqrt(1 - RANK_CORRELATION**2) * other
    if setting.evenly:
        rate, tied, size, buffer = (_evenly(drawn, norm) for drawn in (rate, tied, size, buffer))
        losses = _evenly(losses, expon(scale=loss))
    segments = setting.size_scale * size_quantile(setting.service, norm.cdf(size)) / SEGMENT_BYTES
    return _with_product(
        {
            "round_trip_ms": round_trip_quantile(norm.cdf(tied)),
            "rate_kbps": rate_quantile(setting.centre, norm.cdf(rate)),
            "size_bytes": np.ceil(SEGMENT_BYTES * np.minimum(segments, setting.most_segments)).astype(int),
            "header_bytes": headers * SEGMENT_BYTES,
            "loss": np.minimum(MOST_LOSS, setting.loss_scale * losses),
            "buffer_bytes": np.maximum(
                2 * WIRE_BYTES, 1e3 * setting.buffer_kb * np.exp(setting.buffer_spread * buffer)
            ).astype(int),
        }
    )


def sizes_of(setting: Setting, seed: int) -> np.ndarray:
    """Return the bytes of a response for each client (rows) and connection; those of the first are in `population`."""
    first = population(setting, seed).size_bytes.to_numpy()[:, None]
    drawn = np.random.default_rng([seed, 16]).random((len(first), setting.connections - 1))
    others = np.ceil(setting.size_scale * size_quantile(setting.service, drawn)).astype(int)
    return np.hstack([first, np.clip(others, 1, setting.most_segments * SEGMENT_BYTES)])


def _class_clients(setting: Setting) -> pd.DataFrame:
    """Return a class project's clients: one for each of its round trips, with 28 segments at 1.2 Mb/s and no loss."""
    size_bytes = min(28, setting.most_segments) * SEGMENT_BYTES
    round_trips = published("class_gains")["round_trip_ms"].astype(float)
    fixed = {"rate_kbps": 1200.0, "size_bytes": size_bytes, "loss": 0.0, "buffer_bytes": 100 * WIRE_BYTES}
    fixed["header_bytes"] = 0
    return _with_product({"round_trip_ms": round_trips, **fixed})


def _evenly(drawn: np.ndarray, distribution: Any) -> np.ndarray:
    """Replace drawn values, keeping their order, by the middles of equally probable parts of the distribution."""
    return distribution.ppf((np.argsort(np.argsort(drawn)) + 0.5) / len(drawn))


def _with_product(columns: dict[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame(columns)
    return table.assign(product_kb=table.rate_kbps * table.round_trip_ms / 8e3)


def round_trip_quantile(share: np.ndarray) -> np.ndarray:
    """Compute the round trip (ms) that a share of the average centre's responses does not exceed (Fig. 5). It is
    interpolated in the logarithm within a bucket."""
    buckets = published_buckets("average", "round_trip_ms")
    ends = np.log([LEAST_ROUND_TRIP_MS, *buckets["upper"].fillna(MOST_ROUND_TRIP_MS)])
    return np.exp(_quantile(share, ends, buckets["share_percent"]))


def rate_quantile(centre: str, share: np.ndarray) -> np.ndarray:
    """Compute the rate (kb/s) that a share of a centre's searches does not exceed (Figs 5 and 6). It is interpolated in
    the logarithm within a bucket."""
    buckets = published_buckets(centre, "rate_kbps")
    ends = np.log([LEAST_RATE_KBPS, *buckets["upper"].fillna(MOST_RATE_KBPS)])
    return np.exp(_quantile(share, ends, buckets["share_percent"]))


def size_quantile(service: str, share: np.ndarray) -> np.ndarray:
    """Compute the size (bytes) that a share of a service's responses does not exceed (Figs 7 and 1). It is interpolated
    within a bucket."""
    buckets = published("sizes").query("service == @service")
    return _quantile(share, np.array([0, *buckets["upper_bytes"]]), buckets["share_percent"])


def _quantile(share: np.ndarray, ends: np.ndarray, shares_percent: pd.Series) -> np.ndarray:
    reached = np.concatenate([[0], np.cumsum(shares_percent)])
    return np.interp(share, reached / reached[-1], ends)


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
    """Make the experiment: servers on fast links, one for each connection of a client, and clients on narrow links, all
    at one switch."""
    clients, sizes = population(setting, seed), sizes_of(setting, seed)
    servers = tuple(f"h{place + 1}" for place in range(setting.connections))
    fast = Link(10_000, 0.0, HOST_QUEUE)
    cables = [Cable(server, "s1", fast) for server in servers]
    traffic = []
    for place, client in enumerate(clients.itertuples()):
        name, one_way_ms = f"h{place + 1 + len(servers)}", client.round_trip_ms / 2
        queue = DropTail(bytes=int(client.buffer_bytes))
        down = Link(client.rate_kbps / 1e3, one_way_ms, queue, loss=client.loss)
        cables.append(Cable("s1", name, down, Link(1000, one_way_ms, HOST_QUEUE)))
        parts: dict[str, Any] = {"start_s": APART_S * place}
        if setting.back_end_ms and client.header_bytes:
            parts |= {"first_bytes": int(client.header_bytes), "rest_after_ms": setting.back_end_ms}
        for server, size_bytes in zip(servers, map(int, sizes[place]), strict=True):
            traffic.append(Requests(name, (server,), REQUEST_BYTES, size_bytes, setting.responses, **parts))
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
    """Read mean_ms and percentiles of latency, model_ms and pipelined_ms (closed forms, means over the same clients),
    resent_percent (of all segments), and timeouts per connection. Tables: the means by bucket of Figs 5 to 7, each
    response."""
    clients, waits = population(setting, measured.experiment.seed), latencies(measured)
    window, answered = setting.initial_window_segments, np.isfinite(waits)
    at = (clients.size_bytes, window, clients.round_trip_ms, clients.rate_kbps)
    table = clients.assign(mean_ms=waits, model_ms=model_ms(*at), pipelined_ms=pipelined_ms(*at))
    table["size_segments"] = clients.size_bytes / SEGMENT_BYTES
    resent = measured.flows.retransmitted_packets.sum()
    sizes = sizes_of(setting, measured.experiment.seed)
    segments = np.ceil(sizes / SEGMENT_BYTES).sum() * setting.responses
    every = measured.requests.completion_ms.dropna()
    quantiles = dict(zip(QUANTILES, np.percentile(every, PERCENTILES), strict=True))
    numbers = {
        **{name: float(table[name].mean()) for name in TIMES},
        **quantiles,
        "resent_percent": 100 * float(resent / segments),  # as Table 7: over unique bytes
        "timeouts": float(measured.flows.timeouts.mean()),
    }
    complete = Check("responses complete", float(answered.mean()), at_least=1.0)
    tables = {"buckets": in_buckets(table)}
    if setting.keeps_responses:
        tables["responses"] = measured.requests[["client", "server", "request", "completion_ms"]].reset_index(drop=True)
    return Reading(numbers, tables, [complete])


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
    return least_first("16", "6", "3")(latency[16], latency[6], latency[3])


def loss_ms(latency: pd.Series) -> float:
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


# Figures.


def draw_idea() -> Figure:
    """Draw the round trips that a response takes over its size, a curve for each initial window (Eq. 1)."""
    figure, axis = new_figure("How many round trips a response takes (Eq. 1)", "response (segments)", "count of rounds")
    segments = np.arange(1, 101)
    for colour, window in zip(CURVES, (3, 10, 42), strict=False):
        axis.step(segments, rounds(segments, window), where="mid", color=colour, label=f"initial window of {window}")
    axis.set(ylim=(0, 6.5), ylabel="round trips (count)")
    axis.legend()
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the class project's clients, because these are few."""
    asked = experiment(STUDY.case("class", setting), 0.0, 1)
    return drawing.draw_network(asked, "Every client asks the server over a link of its own (here those of the class)")


def _percentiles(
    title: str, case: str, y: str, how: Callable[[pd.Series], float], theirs: Callable[[], pd.Series], *marks: Mark
) -> Panel:
    """Show a number by percentile, ours and published. theirs : returns a Series indexed by percentile."""

    def ours(runs: Runs) -> pd.DataFrame:
        names = [f"{percentile:g}" for percentile in theirs().index]
        rows = [(name, how(each)) for name in names for each in runs.reading(f"p{name}", case).values()]
        return pd.DataFrame(rows, columns=["percentile", "value"])

    bars = Bars("value", ours, "percentile", published=lambda _: theirs().rename(lambda each: f"{each:g}"))
    x, level = "percentile of the latency (%)", Level(0, published=False)
    return Panel(x, y, bars, level, *marks, title=title, y_range=(None, None))


def _resent(centre: str) -> Panel:
    def theirs(_: Runs) -> pd.Series:
        table = published("retransmissions").set_index(["centre", "service", WINDOWS_OF]).sort_index()
        return table.percent[centre, "search"]

    def ours(runs: Runs) -> pd.DataFrame:
        return runs.numbers(centre).query("initial_window_segments in (@OLD, @NEW)")

    bars = Bars("resent_percent", ours, "initial_window_segments", published=theirs)
    return Panel(WINDOW, "segments sent again (%)", bars, title=f"{centre} clients")


def gains_by_path(runs: Runs) -> pd.DataFrame:
    """Compute the gains by bucket, measured and of the closed forms: case (one of TIMES), panel, upper, gain_ms."""
    parts = [bucket_gains(runs.table("buckets", "average"), column).assign(case=column) for column in OF_TIMES]
    gains = pd.concat(parts).replace(np.inf, np.nan).dropna().sort_values("upper")
    return gains[gains.gain_ms > LEAST_GAIN_MS]


def _gain_by_path(panel: str, label: str) -> Panel:
    def theirs(_: Runs) -> pd.Series:
        return published_buckets("average", panel).dropna(subset="upper").set_index("upper").gain_ms

    ours = Sweep("upper", "gain_ms", gains_by_path, looks=OF_TIMES, rows=f"panel == '{panel}'")
    return Panel(f"{label}, up to", "gain (ms)", Published(theirs, joined=True), ours, log="xy")


def _on_every_tier(case: str) -> Panel:
    """Show the mean latency over the initial window, and the closed form `pipelined_ms`, without loss."""
    ours = Sweep("initial_window_segments", "mean_ms", {case: OF_TIMES["mean_ms"]}, tiers=True)
    form = Sweep("initial_window_segments", "pipelined_ms", {case: IDLE_TIMES})
    return Panel(WINDOW, "mean latency (ms)", ours, form, title=case, log="x")


def _draw_symmetric_logarithm(axis: Axes, _: Runs) -> None:
    """Make the axis logarithmic beyond ten milliseconds on either side."""
    axis.set_yscale("symlog", linthresh=10)
    axis.yaxis.set_major_formatter("{x:g}")


def by_window(runs: Runs) -> pd.DataFrame:
    """Return the knob `buffer` with a name for each curve, from its window and case."""
    rows = runs.knobs["buffer"]
    return rows.assign(curve=rows.initial_window_segments.astype(int).astype(str) + " segments, " + rows.case)


def gains_by_responses(runs: Runs) -> pd.DataFrame:
    """Compute gains of 10 over 3 segments (%) of the mean and two percentiles (column case), for the knob `reuse`."""
    columns = {"mean_ms": "mean", "p50": "median", "p95": "95th percentile"}
    times = runs.knobs["reuse"].pivot(index="responses", columns="initial_window_segments", values=list(columns))
    gains = pd.DataFrame({label: 100 * (1 - times[each][NEW] / times[each][OLD]) for each, label in columns.items()})
    return gains.melt(ignore_index=False, var_name="case", value_name="gain").reset_index()


def draw_run(measured: Measurements, case: str) -> Figure:
    """Draw one run's latencies as a distribution."""
    waits = np.sort(latencies(measured))
    figure, axis = new_figure(f"{case}: mean {waits.mean():.0f} ms", "latency (ms)", "share of responses", log_x=True)
    axis.step(waits, np.arange(1, len(waits) + 1) / len(waits), where="post", color=scheme("tcp").colour)
    axis.set_ylim(0, 1.02)
    return figure


WINDOW, WINDOWS_OF = "initial window (segments)", "initial_window_segments"
OF_TIMES = {
    "mean_ms": {"label": "ours", "color": CURVES[0]},
    "model_ms": {"label": "Eq. 1, nothing lost", "color": drawing.INK, "linestyle": "--", "marker": ""},
    "pipelined_ms": {"label": "idle times, nothing lost", "color": drawing.INK, "linestyle": ":", "marker": ""},
}
IDLE_TIMES = OF_TIMES["pipelined_ms"]
BOTH = {"initial_window_segments": swept(OLD, NEW)}
SLOW: dict[str, Any] = BOTH | {"centre": "slow"}
SHORT, DEEP, HELD = {"most_segments": 3}, {"buffer_kb": 1e6}, {"receive_window_segments": OLD}
THREE = swept(OLD, NEW, 42)
MAPS = SLOW | {"service": "maps", "back_end_ms": 0.0, "keeps_responses": True}
MAPS |= {"clients": lambda setting: max(1, setting.clients // 2)}
CASES: dict[str, dict[str, Any]] = {
    "average": {"initial_window_segments": swept(*WINDOWS)},
    "average, 3 segments": SHORT | {"initial_window_segments": swept(3, 6, 10, 16)},
    "average, held": BOTH | HELD,
    "average, deep buffers": BOTH | DEEP,
    "slow": SLOW,
    "slow, held": SLOW | HELD,
    "slow, deep buffers": SLOW | DEEP,
    "maps": MAPS | {"connections": 10},
    "maps, one connection": MAPS,
    "class": BOTH | {"centre": "class"},
    "nothing lost": DEEP
    | {
        "loss_scale": 0.0,
        "back_end_ms": 0.0,
        "initial_window_segments": THREE,
        "clients": lambda setting: max(1, setting.clients // 4),
    },
}
FEW = Scale(changes={"clients": 300})
NEED_MANY_CLIENTS = ("gain-over-size",)  # of few, a repetition may have no response of 31 to 50 segments
UP_TO_16_AND_42 = {"initial_window_segments": (3, 6, 10, 16, 42)}
OF_KERNEL = {"initial_rto_ms": 1000.0, "evenly": True}  # kernels have no other first timeout; few clients must do
_WAITS = {"table": "requests", "column": "completion_ms"}
LIVE = LiveRun(
    {
        "mean_ms": Gauge("mean latency", "ms", _WAITS),
        "p50": Gauge("median", "ms", _WAITS | {"reduce": "p50"}),
        "p95": Gauge("95th percentile", "ms", _WAITS | {"reduce": "p95"}),
        "timeouts": Gauge("timeouts", "a connection", {"table": "flows", "column": "timeouts"}),
    },
    _WAITS | {"distribution": True},
    "latency of a response (ms)",
    {"pacing": (False, True), "initial_window_segments": (3, 6, 10, 16, 42)}
    | {"buffer_kb": (16.0, 64.0, 256.0), "back_end_ms": (0.0, 200.0)},
    lambda _: ("s1", "h2"),
    cases=("average", "slow", "class"),
    changes={"clients": 60, "evenly": True},  # a page with more would be too large
)
STUDY = Study(
    slug="initial_window",
    setting=Setting(),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    until_complete=True,
    profiles={
        "quick": Scale(changes={"clients": 500}, unjudged=NEED_MANY_CLIENTS),
        "paper": Scale(changes={"clients": 5_000}),
        "test": Scale(changes={"clients": 300}, unjudged=NEED_MANY_CLIENTS),
    },
    on_virtual={
        "quick": Scale(
            changes={"clients": 90} | OF_KERNEL, repetitions=4, only=UP_TO_16_AND_42, unjudged=NEED_MANY_CLIENTS
        ),
        "paper": Scale(changes={"clients": 300} | OF_KERNEL, unjudged=NEED_MANY_CLIENTS),
        "test": Scale(changes={"clients": 70} | OF_KERNEL, unjudged=NEED_MANY_CLIENTS),
    },
    claims={
        "average-gain": Evidence("mean_ms", "average", control="average, held", how=gain_percent),
        "slow-gain": Evidence("mean_ms", "slow", control="slow, held", how=gain_percent),
        "average-gain-ms": Evidence("mean_ms", "average", control="average, held", how=gain_ms),
        "slow-gain-ms": Evidence("mean_ms", "slow", control="slow, held", how=gain_ms),
        **{
            claim: Evidence("buckets", "average", control="average, held", how=partial(gain_over, panel))
            for claim, panel in (
                ("gain-over-round-trip", "round_trip_ms"),
                ("gain-over-rate", "rate_kbps"),
                ("gain-over-size", "size_segments"),
            )
        },
        "optimum": Evidence("mean_ms", "average", how=rank_windows),
        "retransmissions-average": Evidence(
            "resent_percent",
            "average",
            control="average, deep buffers",
            how=resent_ratio,
        ),
        "retransmissions-slow": Evidence("resent_percent", "slow", control="slow, deep buffers", how=resent_ratio),
        "parallel-connections-lose": Evidence(
            "responses", "maps", control="maps, one connection", how=paired_loss_ms, pooled=True
        ),
    },
    knobs={
        "buffer": Knob(
            {
                name: {"centre": "slow", "loss_scale": 0.0, "pacing": paced, "initial_window_segments": THREE}
                | {"buffer_kb": swept(8.0, 16.0, 32.0, 64.0, 128.0)}
                for name, paced in (("at once", False), ("paced", True))
            },
            FEW,
        ),
        "reuse": Knob({"average": BOTH | {"responses": swept(1, 2, 4, 8)}}, FEW),
    },
    figures={
        "fig2_latency_over_window": plot(
            "Mean latency over the initial window (Fig. 2)",
            WINDOW,
            "mean latency (ms)",
            Published(lambda _: published("windows").set_index("initial_window_segments").mean_ms, joined=True),
            Sweep("initial_window_segments", "mean_ms", {"average": OF_TIMES["mean_ms"]}),
            Sweep("initial_window_segments", "model_ms", {"average": OF_TIMES["model_ms"]}),
            Sweep("initial_window_segments", "pipelined_ms", {"average": IDLE_TIMES}),
            log="x",
        ),
        "table3_gain_by_percentile": Picture(
            "Gain of 10 over 3 segments (Table 3)",
            *(
                _percentiles(f"{centre} clients", centre, "gain (%)", gain_percent, partial(published_gains, centre))
                for centre in ("average", "slow")
            ),
        ),
        "fig5_gain_by_path": Picture(
            "Gain by path and size, average clients (Figs 5 and 7)",
            *(_gain_by_path(*panel) for panel in PANELS.items()),
        ),
        "table7_sent_again": Picture("Segments sent again (Table 7)", _resent("average"), _resent("slow")),
        "table8_parallel_connections": Picture(
            "Slow clients, 10 against 3 segments (Table 8)",
            *(
                _percentiles(title, case, "longer by (ms)", loss_ms, published_losses, _draw_symmetric_logarithm)
                for title, case in (
                    ("ten connections at once", "maps"),
                    ("one connection (published: ten)", "maps, one connection"),
                )
            ),
        ),
        "control_three_segments": plot(
            "Broken on purpose: responses of 3 segments at most",
            WINDOW,
            "mean latency (ms)",
            Sweep("initial_window_segments", "mean_ms", {case: case for case in ("average", "average, 3 segments")}),
            log="x",
        ),
        "closed_form_simulator_kernel": Picture(
            "Closed form, simulator, kernel", *map(_on_every_tier, ("nothing lost", "average"))
        ),
        "knob_buffer": beside(
            "Small buffers, nothing lost on the wire (slow clients)",
            "median buffer (kB)",
            {"mean_ms": "mean latency (ms)", "resent_percent": "segments sent again (%)"},
            lambda reading: Sweep("buffer_kb", reading, by_window, "curve"),
            log="x",
        ),
        "knob_reuse": plot(
            "Several responses over one connection",
            "responses over a connection (count)",
            "gain of 10 over 3 segments (%)",
            Sweep("responses", "gain", gains_by_responses),
        ),
    },
    best=(
        "fig2_latency_over_window",
        "table3_gain_by_percentile",
        "fig5_gain_by_path",
        "table7_sent_again",
        "control_three_segments",
    ),
    play=Play(
        ("average", "slow", "maps", "class"),
        {
            "initial_window_segments": (1, 64, 1),
            "buffer_kb": (4.0, 256.0, 4.0),
            "size_scale": (0.1, 10.0, 0.1),
            "back_end_ms": (0.0, 500.0, 10.0),
            "pacing": [False, True],
        },
        draw_run,
        live=LIVE,
    ),
)
