"""TCP incast: Vasudevan et al., "Safe and Effective Fine-grained TCP Retransmissions for Datacenter Communication",
SIGCOMM 2009.

A client asks many servers at once for equal fragments of a block, and asks for the next block when it has them all. The
answers meet at one port. If its buffer is small, some server loses the end of its fragment and waits for a timeout, and
all others wait for that server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.errors import NetreproError
from netrepro.networks.compiled import ETHERNET_HEADER_BYTES, HEADER_BYTES
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, EcnThreshold, Link
from netrepro.networks.topology import star
from netrepro.networks.workloads import MAX_RTO_MS, Requests, Tcp
from netrepro.study import VIRTUAL, Check, Evidence, Gauge, Knob, Live, Play, Reading, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first
from netrepro.study.live import WAIT
from netrepro.study.measuring import HOST_DELAY_PACKETS
from netrepro.study.setting import parameter
from netrepro.study.trust import gap_checks
from netrepro.style import new_figure, scheme

CLIENT = "h1"
PORT = ("s1", CLIENT)
REQUEST_BYTES = 100
SERVERS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
MANY = (32, 48, 64)  # numbers of servers among which the claims look for the collapse
NS2_LEAST_MS = 200.0  # ns-2's own minimum timeout
DEEP = 2000  # packets: more than a block
MARKING = 20  # DCTCP's threshold (packets)


@dataclass(frozen=True)
class Setting:
    """The authors' simulation (their public scripts). Our choices are `scatter_ms`, within which servers answer at
    random, and `host_delay_packets`, see Experiment. `blocks` are fetched one after the other.

    short_timers_double : whether a timeout doubles whose least is below ns-2's own of 200 ms. In the scripts' sweep of
    timeouts the least and the greatest are the same, so that it does not. segment_bytes : of payload.
    """

    rate_mbps: float = parameter(1000.0, "of every link", "Mb/s", low=1, high=100_000)
    link_delay_ms: float = parameter(0.025, "of every link, one way", "ms", low=0, high=1000)
    buffer_packets: int = parameter(64, "buffer of the port to the client", "packets", low=1, high=100_000)
    block_bytes: int = parameter(1_024_000, "of all servers together", "bytes", low=1, high=1_000_000_000)
    min_rto_ms: float = 200.0
    congestion_control: str = "reno"
    initial_window_segments: int = parameter(3, "of every connection", "segments", low=1, high=1000)
    receive_window_segments: int = 20  # ns-2's default, which the scripts keep
    delayed_ack_ms: float = parameter(
        0.0, "how long the client holds an acknowledgement back, 0 for not at all", "ms", low=0, high=1000
    )
    segment_bytes: int = 1000
    short_timers_double: bool = False
    scatter_ms: float = 0.05
    host_delay_packets: float = HOST_DELAY_PACKETS
    servers: int = 32
    blocks: int = 3

    @property
    def packet_bytes(self) -> int:
        """The size of a full packet on the wire; 1040 in the scripts."""
        return self.segment_bytes + HEADER_BYTES + ETHERNET_HEADER_BYTES

    @property
    def ideal_block_ms(self) -> float:
        """The time (ms) for which one block of full packets keeps the client's link busy."""
        return self.block_bytes / self.segment_bytes * self.packet_bytes * 8 / (self.rate_mbps * 1e3)


def experiment(setting: Setting, _: float, seed: int) -> Experiment:
    """Make the experiment: blocks over connections opened beforehand, each requested when the one before is complete.
    It lasts long enough for 64 timeouts in every block.

    Raises NetreproError for fewer servers than 1, or a block with less than a byte for each.
    """
    servers = setting.servers
    if not 1 <= servers <= setting.block_bytes:
        raise NetreproError(f"{servers} servers for {setting.block_bytes} bytes", "give 1 or more, and a byte for each")
    asked = Requests(
        CLIENT,
        tuple(f"h{i + 2}" for i in range(servers)),
        REQUEST_BYTES,
        setting.block_bytes // servers,
        setting.blocks,
        answer_within_ms=setting.scatter_ms,
    )
    marks = setting.congestion_control == "dctcp"
    doubles = setting.short_timers_double or setting.min_rto_ms >= NS2_LEAST_MS
    buffer = setting.buffer_packets
    queue = EcnThreshold(buffer, min(MARKING, buffer)) if marks else DropTail(packets=buffer)
    tcp = Tcp(
        setting.congestion_control,
        initial_window_segments=setting.initial_window_segments,
        segment_bytes=setting.segment_bytes,
        receive_window_bytes=setting.receive_window_segments * setting.segment_bytes,
        min_rto_ms=setting.min_rto_ms,
        max_rto_ms=MAX_RTO_MS if doubles else setting.min_rto_ms,
        syn_linear_timeouts=0,
        delayed_ack_ms=setting.delayed_ack_ms,
        tail_loss_probe=False,  # Linux got it after the paper
    )
    longest_ms = 64 * setting.min_rto_ms + 20 * setting.ideal_block_ms + setting.scatter_ms
    return Experiment(
        star(servers + 1, Link(setting.rate_mbps, setting.link_delay_ms, queue)),
        (asked,),
        1.0 + setting.blocks * longest_ms * 1e-3,
        seed,
        Measure(packets=(PORT,)),
        tcp,
        host_delay_packets=setting.host_delay_packets,
    )


def block_times(run: Measurements) -> pd.DataFrame:
    """Return a row for each requested block: asked_s, complete_s (when the client has its last byte; NaN if never)."""
    moments = run.requests.pivot(index="request", columns="server", values=["asked_s", "answered_s"])
    complete_s = moments["answered_s"].max(axis=1, skipna=False)
    return pd.DataFrame({"asked_s": moments["asked_s"].min(axis=1), "complete_s": complete_s})


def read(run: Measurements, setting: Setting) -> Reading:
    """Read goodput_mbps (all bytes over all blocks' time; a block that is never complete lasts to the end),
    goodput_share (of the link's payload rate), median_delay_ms (a block's time beyond the ideal), and block_in_timeouts
    (ideal time over minimum timeout). Read for each block: timeouts, packets dropped at the port, and retransmissions
    without a loss (needless). For a single block, read its arrivals. Checks: gaps at the port, and that all blocks are
    complete."""
    times = block_times(run)
    times_s = times.complete_s.fillna(run.experiment.duration_s) - times.asked_s
    goodput_mbps = float(run.flows.delivered_bytes.sum() * 8e-6 / times_s.sum())
    dropped = run.links_by_port.dropped_packets[PORT]
    numbers = {
        "goodput_mbps": goodput_mbps,
        "goodput_share": goodput_mbps / (setting.rate_mbps * setting.segment_bytes / setting.packet_bytes),
        "median_delay_ms": float(times_s.median() * 1e3 - setting.ideal_block_ms),
        "timeouts_per_block": float(run.flows.timeouts.sum() / len(times)),
        "drops_per_block": float(dropped / len(times)),
        "needless_per_block": float((run.flows.retransmitted_packets.sum() - dropped) / len(times)),
        "block_in_timeouts": setting.ideal_block_ms / setting.min_rto_ms,
    }
    complete = Check("blocks complete", times.complete_s.notna().sum() / setting.blocks, at_least=1.0)
    course = {"arrivals": arrivals(run)} if setting.blocks == 1 else {}
    return Reading(numbers, course, [complete, *gap_checks(run, PORT)])


def arrivals(run: Measurements) -> pd.DataFrame:
    """Read the first block: time_ms since its request, and block_share, the share of packets that have left the
    port."""
    first = run.requests[run.requests.request == 0]
    large = run.packets[run.packets.size_bytes > REQUEST_BYTES]  # without acknowledgements of requests
    packets = large[large.time_s <= first.answered_s.max()]
    share = packets.size_bytes.cumsum() / packets.size_bytes.sum()
    return pd.DataFrame({"time_ms": (packets.time_s - first.asked_s.min()) * 1e3, "block_share": share})


def share_after_timeouts(block_in_timeouts: np.ndarray | float, timeouts: int = 1) -> np.ndarray | float:
    """Compute the share of the goodput that remains when the client's link is idle for `timeouts` minimum timeouts a
    block."""
    return block_in_timeouts / (block_in_timeouts + timeouts)


def goodput(runs: Runs, column: str = "goodput_mbps") -> pd.DataFrame:
    """Return a reading's means: a row for each number of servers, a column for each case."""
    return runs.summary()[column].unstack("case").reindex(columns=[case for case in CASES if runs.has(case)])


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = goodput(runs)
    return (
        f"One of them loses the end of its answer and waits 200 ms, and all wait for it: a block from 32 servers "
        f"arrives at {table['200 ms'][32]:.0f} Mb/s, from one at {table['200 ms'][1]:.0f}; with a minimum timeout of "
        f"1 ms it is {table['1 ms'][32]:.0f} Mb/s, with a buffer that holds the block "
        f"{table['200 ms, deep buffer'][32]:.0f}."
    )


# Functions that claims apply to the goodput's share of the link, a Series indexed by the number of servers.


def least_of_many(share: pd.Series) -> float:
    return float(share[list(MANY)].min() / share[1])


def least_from_four(share: pd.Series) -> float:
    return float(share[share.index >= 4].min() / share[1])


def by_mean_of_many(*names: str) -> Callable[..., list[str]]:
    order = greatest_first(*names)
    return lambda *shares: order(*(share[list(MANY)].mean() for share in shares))


# Figures.


def draw_idea() -> Figure:
    """Draw a server's packets, and how busy the client's link is meanwhile. Not to scale."""
    figure, axis = new_figure("One lost end keeps all waiting (not to scale)", "time (arbitrary)", "")
    rows = {"client's link": [(0.3, 3), (9.2, 0.6)], "server 3": [(0, 2.9)], "server 2": [(0, 2.6), (9, 0.5)]}
    rows["server 1"] = [(0, 3)]
    for place, spans in enumerate(rows.values()):
        axis.broken_barh(spans, (place - 0.3, 0.6), color=scheme("tcp").colour if place else "#444444")
    axis.annotate("", (9, 2), (2.6, 2), arrowprops={"arrowstyle": "<->"})
    axis.text(5.8, 2.4, "its last packets are lost: it waits for its timeout", ha="center")
    axis.text(6.2, 0, "idle", ha="center", va="center")
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set_xticks([])
    axis.grid(False)
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw many servers, one switch, one client."""
    asked = experiment(replace(setting, servers=64), 0.0, 1)
    block = f"{setting.block_bytes / 1e6:g} MB"
    return drawing.draw_network(asked, f"Every server sends its part of {block} at once; one port takes it all")


def draw_block(runs: Runs) -> Figure:
    """Draw how one block arrives, with a long and with a short minimum timeout."""
    arrived, label = runs.knobs["one_block_arrivals"], "block that has left the port (share)"
    names = [f"minimum timeout {name}" for name in arrived.case.unique()]
    figure, axes = drawing.panels("One block from 32 servers", "time since the request (ms)", label, names)
    for axis, (_, rows) in zip(axes, arrived.groupby("case", sort=False), strict=True):
        axis.step(rows.time_ms, rows.block_share, where="post", color=scheme("tcp").colour)
        axis.set(ylim=(0, 1.02), xlim=(0, None))
    return figure


def _over_servers(runs: Runs, title: str, *cases: str) -> Figure:
    rows = pd.concat([runs.numbers(case) for case in cases])
    how: dict[str, Any] = {"by": "case", "label": "minimum timeout {}", "ticks": TICKS, "top": 1.05}
    return drawing.sweep_figure(f"{title} ({runs.tier})", rows, OVER_SERVERS, SHARE, **how)


def draw_timeouts(runs: Runs) -> Figure:
    """Draw timeouts and drops in each block over the number of servers, at a minimum timeout of 200 ms."""
    title = f"What a block loses (minimum timeout 200 ms, {runs.tier})"
    columns = {"drops_per_block": "packets dropped (a block)", "timeouts_per_block": "timeouts (a block)"}
    return drawing.sweep_figure(title, runs.numbers("200 ms"), OVER_SERVERS, columns, ticks=TICKS)


def draw_block_time(runs: Runs) -> Figure:
    """Draw the goodput share over a block's ideal time in timeouts, and the share left by one or three idle timeouts a
    block."""
    table, title = runs.knobs["block_time"], "The collapse is deep only where a block is short beside the timeout"
    label = "time of a block at full rate (minimum timeouts)"
    figure, axis = new_figure(title, label, "goodput (share of the link)", log_x=True)
    x = np.geomspace(table.block_in_timeouts.min() / 1.5, table.block_in_timeouts.max() * 1.5, 200)
    for timeouts, look in ((1, "--"), (3, ":")):
        idle = f"idle for {timeouts} timeout{'s' if timeouts > 1 else ''} a block"
        axis.plot(x, share_after_timeouts(x, timeouts), look, color="#444444", linewidth=1, label=idle)
    rates = {"by": "rate_mbps", "label": "{} Mb/s"}
    drawing.draw_sweep(axis, table, "block_in_timeouts", "goodput_share", linestyle="none", **rates)
    axis.set_ylim(0, 1.02)
    axis.legend()
    return figure


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw how the first block of one run arrives."""
    table, timeouts = arrivals(run), run.flows.timeouts.sum() / len(block_times(run))
    title = f"minimum timeout {case}: {timeouts:.1f} timeouts a block"
    figure, axis = new_figure(title, "time since the request (ms)", "block (share)")
    axis.step(table.time_ms, table.block_share, where="post", color=scheme("tcp").colour)
    return figure


def _deep(setting: Setting) -> int:
    return max(DEEP, 2 * -(-setting.block_bytes // setting.segment_bytes))


OVER_SERVERS, SHARE = ("servers", "servers"), {"goodput_share": "goodput (share of the link)"}
GOODPUT = {"goodput_mbps": "goodput (Mb/s)"}
LARGE_BLOCK = "200 ms, block of 4 MB"  # the scripts' other size
TICKS = (1, 2, 4, 8, 16, 32, 64)
TIMEOUTS_MS = {"200 ms": 200.0, "10 ms": 10.0, "1 ms": 1.0, "200 us": 0.2}
CASES: dict[str, dict[str, Any]] = {
    name: {"min_rto_ms": timeout, "servers": swept(*SERVERS)} for name, timeout in TIMEOUTS_MS.items()
} | {
    f"{name}, deep buffer": {"min_rto_ms": timeout, "buffer_packets": _deep, "servers": swept(1, *MANY)}
    for name, timeout in list(TIMEOUTS_MS.items())[:3]  # nothing can be lost: the control
} | {LARGE_BLOCK: {"block_bytes": lambda setting: 4 * setting.block_bytes, "servers": swept(1, *MANY)}}  # fmt: skip
WHY_NOT: dict[str, dict[str, Any]] = {
    "as published": {},
    "16 servers": {"servers": 16},
    "16 servers, hosts take no time": {"servers": 16, "host_delay_packets": 0.0},
    "hosts take no time": {"host_delay_packets": 0.0},
    "queue of 1000 packets (Linux's default)": {"buffer_packets": 1000},
    "100 Mb/s": {"rate_mbps": 100.0},
    "10 Mb/s": {"rate_mbps": 10.0},
    "1 MB from every server": {"block_bytes": lambda setting: 32 * setting.block_bytes},
    "packets of 1514 bytes": {"segment_bytes": 1448},
    "servers start at once": {"scatter_ms": 0.0},
    "servers start within 10 ms": {"scatter_ms": 10.0},
    "servers start within 100 ms": {"scatter_ms": 100.0},
    "receive window of 6 MB (Linux's most)": {"receive_window_segments": 4344},
    "initial window of 10 segments": {"initial_window_segments": 10},
    "delayed acknowledgements (40 ms)": {"delayed_ack_ms": 40.0},
    "CUBIC": {"congestion_control": "cubic"},
    "DCTCP, marking from 20 packets on": {"congestion_control": "dctcp"},
}
KNOB_SERVERS = swept(2, 4, 8, 16, 32, 64)
BLOCKS = {"quick": Scale(changes={"blocks": 3}), "paper": Scale(changes={"blocks": 10})}
OF_KERNELS = {"short_timers_double": True}  # whatever their minimum
BY_TIMEOUT = ("1 ms", "10 ms", "200 ms")
_BLOCKS_MS = {"table": "requests", "column": "completion_ms", "by": "request", "each": "most", "reduce": "sum"}
_A_BLOCK = {"reduce": "sum", "times": 1 / Setting.blocks}
LIVE = Live(
    {
        "goodput_mbps": Gauge(
            "goodput",
            "Mb/s",
            {"table": "flows", "column": "delivered_bytes", "reduce": "sum", "over": _BLOCKS_MS, "times": 8e-3},
        ),
        "timeouts_per_block": Gauge("timeouts", "a block", {"table": "flows", "column": "timeouts"} | _A_BLOCK),
        "drops_per_block": Gauge(
            "packets dropped", "a block", {"table": "links", "column": "dropped_packets"} | _A_BLOCK
        ),
    },
    WAIT,
    "wait of a packet (ms)",
    {"servers": (1, 2, 4, 8, 16, 32, 64), "rate_mbps": (10.0, 100.0, 1000.0)}
    | {"congestion_control": ("reno", "cubic", "dctcp")},
    lambda _: PORT,
    broken={name: f"{name}, deep buffer" for name in list(TIMEOUTS_MS)[:3]},
)
STUDY = Study(
    slug="incast",
    setting=Setting(),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=4,
    until_complete=True,
    scales={
        "quick": Scale(changes={"blocks": 3}, without=(LARGE_BLOCK,)),
        "paper": Scale(changes={"blocks": 20}),
        ("quick", VIRTUAL): Scale(
            repetitions=3,
            changes={"blocks": 3} | OF_KERNELS,
            only={"servers": (1, 8, *MANY)},
            without=(LARGE_BLOCK,),
        ),
        ("paper", VIRTUAL): Scale(changes={"blocks": 10} | OF_KERNELS, without=(LARGE_BLOCK,)),
    },
    claims={
        "collapse": Evidence("goodput_share", "200 ms", control="200 ms, deep buffer", how=least_of_many),
        "wait-of-a-block": Evidence(
            "median_delay_ms", "200 ms", control="1 ms", how=lambda delay: delay[list(MANY)].median()
        ),
        "cure": Evidence("goodput_share", "200 us", control="200 ms", how=least_from_four),
        "smaller-is-better": Evidence(
            "goodput_share",
            BY_TIMEOUT,
            control=tuple(f"{name}, deep buffer" for name in BY_TIMEOUT),
            how=by_mean_of_many(*BY_TIMEOUT),
        ),
    },
    knobs={
        "one_block": Knob(
            {name: {"min_rto_ms": TIMEOUTS_MS[name]} for name in ("200 ms", "1 ms")},
            Scale(changes={"blocks": 1}),
            tables=("arrivals",),
        ),
        "why_not": Knob(WHY_NOT, BLOCKS),
        "block_time": Knob(
            {
                "reno": {
                    "rate_mbps": swept(10.0, 100.0, 1000.0),
                    "block_bytes": swept(*(256_000 * 4**n for n in range(4))),
                }
            },
            BLOCKS,
        ),
        "buffer": Knob({"reno": {"buffer_packets": swept(32, 64, 128, 256, 512), "servers": KNOB_SERVERS}}, BLOCKS),
        "scheme": Knob(
            {name: {"congestion_control": name, "servers": KNOB_SERVERS} for name in ("reno", "dctcp")},
            BLOCKS,
        ),
    },
    figures={
        "one_block": draw_block,
        "goodput_by_timeout": lambda runs: _over_servers(
            runs, "Goodput against servers, by minimum timeout", *TIMEOUTS_MS
        ),
        "drops_and_timeouts": draw_timeouts,
        "control_deep_buffer": lambda runs: _over_servers(
            runs, "Broken on purpose: a buffer that holds the block", "200 ms", "200 ms, deep buffer"
        ),
        "why_not": lambda runs: drawing.changes_figure(
            "One change at a time", runs.knobs["why_not"], "goodput_share", SHARE["goodput_share"], top=1.1
        ),
        "knob_block_time": draw_block_time,
        "knob_buffer": lambda runs: drawing.sweep_figure(
            "Buffers delay the collapse (minimum timeout 200 ms)",
            runs.knobs["buffer"],
            OVER_SERVERS,
            GOODPUT,
            by="buffer_packets",
            label="{} packets",
        ),
        "knob_dctcp": lambda runs: drawing.sweep_figure(
            "DCTCP delays the collapse, and no more (minimum timeout 200 ms)",
            runs.knobs["scheme"],
            OVER_SERVERS,
            GOODPUT,
            by="case",
        ),
    },
    play=Play(
        tuple(TIMEOUTS_MS),
        {
            "servers": (1, 64, 1),
            "buffer_packets": (8, 1024, 8),
            "rate_mbps": [10.0, 100.0, 1000.0],
            "congestion_control": ["reno", "cubic", "dctcp"],
        },
        draw_run,
        live=LIVE,
    ),
)
