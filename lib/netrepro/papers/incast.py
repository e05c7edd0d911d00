"""TCP incast: Vasudevan et al., "Safe and Effective Fine-grained TCP Retransmissions for Datacenter Communication",
SIGCOMM 2009.

A client asks many servers at once for equal fragments of a block and goes on when it has them all. The answers meet
at one port; where its buffer is small, somebody loses the end of a fragment and waits for a timeout, and all wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.emulation.tcp import LEAST_RTO_MS
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, EcnThreshold, Link, Queue
from netrepro.networks.topology import star
from netrepro.networks.workloads import Requests, Tcp
from netrepro.papers._running import run_all, run_experiment
from netrepro.papers._runs import CheckedRuns, Progress, in_parallel, of_profile, seed_of
from netrepro.simulation import gap_shares, simulate
from netrepro.style import CURVES, new_figure, scheme

CLIENT = "h1"
PORT = ("s1", CLIENT)
REQUEST_BYTES = 100
SERVERS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
KNOB_SERVERS = (2, 4, 8, 16, 32, 64)
MANY = (32, 48, 64)  # servers among which the claims look for the collapse
MOST_REAL_MBPS = 100.0  # a rate that real kernels hold in emulation
SAMPLED_EVERY_MS = 1.0  # the port's queue on real kernels, so that gaps between its packets can be judged


@dataclass(frozen=True)
class Setting:
    """The authors' simulation (their public scripts); our choice are `scatter_ms`, how far apart servers answer, and
    `jitter_ms`, by how much a link's delay varies from packet to packet at most.
    """

    rate_mbps: float = 1000.0
    link_delay_ms: float = 0.025
    buffer_packets: int = 64
    block_bytes: int = 1_024_000
    min_rto_ms: float = 200.0
    congestion_control: str = "reno"
    threshold_packets: int = 0  # marking threshold of the port, 0 for none
    initial_window_segments: int = 3
    receive_window_segments: int = 20  # ns-2's default, which the scripts leave
    delayed_ack_ms: float = 0.0
    scatter_ms: float = 0.05
    jitter_ms: float = 0.0

    @property
    def ideal_block_ms(self) -> float:
        """How long the client's link is busy with one block of full packets."""
        return self.block_bytes / 1448 * FULL_PACKET_BYTES * 8 / (self.rate_mbps * 1e3)

    def in_slow_motion(self, factor: float) -> Setting:
        """All times `factor` times as long and the rate as much lower, so that all shares and counts stay."""
        times = ("link_delay_ms", "min_rto_ms", "delayed_ack_ms", "scatter_ms", "jitter_ms")
        longer = {name: factor * getattr(self, name) for name in times}
        return replace(self, rate_mbps=self.rate_mbps / factor, **longer)


PRINTED = Setting()
# What the main measurement varies; the last is the control in which nothing can be lost.
TIMEOUTS_MS = {"200 ms": 200.0, "10 ms": 10.0, "1 ms": 1.0, "200 us": 0.2}
DEEP = 2000  # packets: a block and more


def cases(setting: Setting = PRINTED) -> dict[str, Setting]:
    """Name -> setting: the four minimum timeouts, and "<timeout>, deep buffer" for those that a control needs."""
    small = {name: replace(setting, min_rto_ms=timeout) for name, timeout in TIMEOUTS_MS.items()}
    deep = {
        f"{name}, deep buffer": replace(small[name], buffer_packets=max(DEEP, 2 * _packets(setting)))
        for name in ("200 ms", "10 ms", "1 ms")
    }
    return small | deep


def _packets(setting: Setting) -> int:
    return -(-setting.block_bytes // 1448)


def slow_motion(setting: Setting) -> float:
    """How much slower real kernels must run the setting, 1 for not at all: until they hold the rate (MOST_REAL_MBPS),
    and the kernel's timers resolve the minimum timeout (LEAST_RTO_MS)."""
    return max(1.0, setting.rate_mbps / MOST_REAL_MBPS, LEAST_RTO_MS / setting.min_rto_ms)


@dataclass(frozen=True)
class Scale:
    """Blocks of one repetition, in the main measurement and in those of section 10, and numbers of servers."""

    blocks: int
    knob_blocks: int
    servers: tuple[int, ...] = SERVERS


def scale(profile: str, tier: str = "simulated") -> Scale:
    """The sizes of a profile; real kernels take real time. Raises NetreproError for another profile than quick and
    paper."""
    simulated = {"quick": Scale(3, 3), "paper": Scale(20, 10)}
    real = {"quick": Scale(3, 3, (1, 8, *MANY)), "paper": Scale(10, 10)}
    return of_profile(profile, simulated if tier == "simulated" else real)


def experiment(setting: Setting, servers: int, blocks: int, seed: int, *, record_packets: bool = True) -> Experiment:
    """`blocks` blocks over connections opened beforehand, each asked for when the one before is complete: what any
    tier runs. It lasts as long as blocks of 64 timeouts would.

    Raises NetreproError for fewer servers than 1, or a block with less than a byte for each.
    """
    if not 1 <= servers <= setting.block_bytes:
        raise NetreproError(f"{servers} servers for {setting.block_bytes} bytes", "give 1 or more, and a byte for each")
    fragment_bytes = setting.block_bytes // servers
    asked = Requests(
        CLIENT,
        tuple(f"h{i + 2}" for i in range(servers)),
        REQUEST_BYTES,
        fragment_bytes,
        blocks,
        answer_within_ms=setting.scatter_ms,
    )
    queue: Queue = DropTail(packets=setting.buffer_packets)
    if setting.threshold_packets:
        queue = EcnThreshold(setting.buffer_packets, setting.threshold_packets)
    tcp = Tcp(
        setting.congestion_control,
        initial_window_segments=setting.initial_window_segments,
        receive_window_bytes=setting.receive_window_segments * 1448,
        min_rto_ms=setting.min_rto_ms,
        delayed_ack_ms=setting.delayed_ack_ms,
        tail_loss_probe=False,  # Linux got it after the paper
    )
    longest_ms = 64 * setting.min_rto_ms + 20 * setting.ideal_block_ms + setting.scatter_ms
    return Experiment(
        star(servers + 1, Link(setting.rate_mbps, setting.link_delay_ms, queue, jitter_ms=setting.jitter_ms)),
        (asked,),
        1.0 + blocks * longest_ms * 1e-3,
        seed,
        Measure(packets=(PORT,) if record_packets else ()),
        tcp,
    )


def block_times(found: Measurements) -> pd.DataFrame:
    """A row a block that was asked for: asked_s, complete_s (the client has its last byte; NaN if never)."""
    moments = found.requests.pivot(index="request", columns="server", values=["asked_s", "answered_s"])
    return pd.DataFrame(
        {
            "asked_s": moments["asked_s"].min(axis=1),
            "complete_s": moments["answered_s"].max(axis=1, skipna=False),
        }
    )


def fetch(
    setting: Setting, servers: int, blocks: int, seed: int, tier: str = "simulated", backend: str = "fabric"
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Fetch blocks from `servers` servers: what `fetched` says of it, and the fidelity checks (check, value, bound,
    holds). backend : what the switch is on real kernels, as emulate takes it."""
    asked = experiment(setting, servers, blocks, seed)
    if tier != "simulated":
        asked = replace(asked, measure=Measure((PORT,), SAMPLED_EVERY_MS, packets=(PORT,)))
    found = run_experiment(asked, tier, backend=backend, until_complete=True, attempts=2)
    times = block_times(found)
    return fetched(found, times, setting), check_fidelity(found, times, blocks)


def fetched(found: Measurements, times: pd.DataFrame, setting: Setting) -> dict[str, Any]:
    """goodput_mbps (all bytes over all time; a block that never is complete lasts to the end), goodput_share (of what
    full packets leave of the link), median_delay_ms (beyond the link's own time), and a block: timeouts, packets
    dropped at the port, packets sent again although nothing was lost (needless). times : as of `block_times`.
    """
    times_s = times.complete_s.fillna(found.experiment.duration_s) - times.asked_s
    goodput_mbps = float(found.flows.delivered_bytes.sum() * 8e-6 / times_s.sum())
    dropped = found.links.set_index(["source", "destination"]).dropped_packets[PORT]
    return {
        "goodput_mbps": goodput_mbps,
        "goodput_share": goodput_mbps / (setting.rate_mbps * 1448 / FULL_PACKET_BYTES),
        "median_delay_ms": float(times_s.median() * 1e3 - setting.ideal_block_ms),
        "timeouts_per_block": float(found.flows.timeouts.sum() / len(times)),
        "drops_per_block": float(dropped / len(times)),
        "needless_per_block": float((found.flows.retransmitted_packets.sum() - dropped) / len(times)),
    }


def check_fidelity(found: Measurements, times: pd.DataFrame, blocks: int) -> pd.DataFrame:
    """The tier's own checks; full packets that leave the busy port must be as far apart as its rate demands (99 %
    within 10 %, 90 % within 1 %: Handigol et al., CoNEXT 2012, section 5.1; real kernels' own checks are that test
    already, with a lower bound); and all `blocks` must be complete. times : as of `block_times`.
    """
    complete = float(times.complete_s.notna().sum() / blocks)
    rows = [("blocks complete", complete, 1.0)]
    if found.tier == "simulated":
        # One server alone never makes the port wait: then there is nothing to compare.
        rows += [(name, 1.0 if np.isnan(share) else share, bound) for name, share, bound in gap_shares(found, PORT)]
    ours = pd.DataFrame([(*row, row[1] >= row[2]) for row in rows], columns=["check", "value", "bound", "holds"])
    return pd.concat([found.fidelity, ours], ignore_index=True)


@dataclass(frozen=True)
class Runs(CheckedRuns):
    """All repetitions of all cases.

    goodput : case, servers, repetition, slow_motion (how much slower it ran than its case says, 1 for not at all) and
    the columns of `fetched`, as they were measured. fidelity : case, servers, repetition, check, value, bound, holds.
    tier : where they ran.
    """

    goodput: pd.DataFrame
    fidelity: pd.DataFrame
    tier: str = "simulated"

    @property
    def where(self) -> str:
        """The tier, and how much slower than published it ran."""
        factors = sorted(set(self.goodput.slow_motion))
        return self.tier + (f", {factors[0]:g} to {factors[-1]:g} times slower" if factors != [1.0] else "")


def measure(
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    tier: str = "simulated",
    backend: str = "fabric",
    as_on_kernels: bool = False,
    progress: Progress = iter,
) -> Runs:
    """Every case of `cases` for every number of servers; controls only where claims look (1 and MANY).

    Real kernels run each case in slow motion (slow_motion), the simulator only if it is to do as they do
    (as_on_kernels). backend : as of `fetch`. Raises NetreproError when the scale's servers lack 1 or a number of MANY,
    which the claims need.
    """
    missing = {1, *MANY} - set(scale.servers)
    if missing:
        raise NetreproError(f"servers without {sorted(missing)}", f"measure 1 and {MANY} too: the claims compare them")
    work = [
        (name, count, repetition)
        for name in cases(setting)
        for count in scale.servers
        if "deep" not in name or count in (1, *MANY)
        for repetition in range(repetitions)
    ]

    def run_one(name: str, count: int, repetition: int) -> tuple[dict[str, Any], pd.DataFrame]:
        case = cases(setting)[name]
        factor = slow_motion(case) if as_on_kernels or tier != "simulated" else 1.0
        row, checks = fetch(case.in_slow_motion(factor), count, scale.blocks, seed_of(seed, repetition), tier, backend)
        label = {"case": name, "servers": count, "repetition": repetition}
        return label | {"slow_motion": factor} | row, checks.assign(**label)

    found, fidelity = run_all(run_one, work, tier, progress, case="", servers=0, repetition=0)
    fidelity += [checks for _, checks in found]
    return Runs(pd.DataFrame([row for row, _ in found]), pd.concat(fidelity, ignore_index=True), tier)


def beside(
    runs: Runs, scale: Scale, repetitions: int, seed: int, *, setting: Setting = PRINTED, progress: Progress = iter
) -> Runs:
    """The same experiments in the simulator, slow motion included; `runs` itself where they are the simulator's."""
    if runs.tier == "simulated":
        return runs
    return measure(scale, repetitions, seed, setting=setting, as_on_kernels=True, progress=progress)


def tier_table(all_runs: Sequence[Runs]) -> pd.DataFrame:
    """The tiers side by side: a row a number of servers, for each case of small buffers and each tier the mean share of
    the link that is goodput."""
    tables = {runs.tier: summary(runs, "goodput_share")[list(TIMEOUTS_MS)] for runs in all_runs}
    return pd.concat(tables, axis=1).swaplevel(axis=1)[list(TIMEOUTS_MS)]


def summary(runs: Runs, column: str = "goodput_mbps") -> pd.DataFrame:
    """Mean of a column of `Runs.goodput` over repetitions: a row a number of servers, a column a case."""
    return runs.goodput.pivot_table(index="servers", columns="case", values=column, sort=False).sort_index()


# Claims.


def measured_claims(runs: Runs) -> list[Measured]:
    """One measurement a claim of data/incast/claims.yaml."""
    few = tuple(count for count in sorted(set(runs.goodput.servers)) if count >= 4)
    many = runs.goodput[runs.goodput.servers.isin(MANY)]
    many = many.assign(delay_ms=many.median_delay_ms / many.slow_motion)
    delay = many.groupby(["case", "repetition"])["delay_ms"].median()
    values: dict[str, tuple[Any, Any]] = {
        "collapse": (_least(runs, "200 ms", MANY), _least(runs, "200 ms, deep buffer", MANY)),
        "wait-of-a-block": (delay["200 ms"], delay["1 ms"]),
        "cure": (_least(runs, "200 us", few), _least(runs, "200 ms", few)),
        "smaller-is-better": (_orders(runs, ""), _orders(runs, ", deep buffer")),
    }
    return [
        Measured(claim=claim, values=ours, control=broken, **runs.trust) for claim, (ours, broken) in values.items()
    ]


def _goodput(runs: Runs, case: str) -> pd.DataFrame:
    """Goodput as a share of the link: a row a repetition, a column a number of servers."""
    return runs.goodput[runs.goodput.case == case].pivot(index="repetition", columns="servers", values="goodput_share")


def _least(runs: Runs, case: str, among: Sequence[int]) -> list[float]:
    table = _goodput(runs, case)
    return list(table[list(among)].min(axis=1) / table[1])


def _orders(runs: Runs, suffix: str) -> list[list[str]]:
    """Timeouts by mean goodput, a ranking a repetition; what is equal stands in the order that refutes the claim."""
    worst_first = ["200 ms", "10 ms", "1 ms"]
    means = pd.DataFrame({name: _goodput(runs, name + suffix)[list(MANY)].mean(axis=1) for name in worst_first})
    return [list(row.sort_values(ascending=False, kind="stable").index) for _, row in means.iterrows()]


def answer(runs: Runs) -> str:
    """The question answered in one sentence, with this run's numbers."""
    table, slower = summary(runs), summary(runs, "slow_motion").iloc[0]
    return (
        f"One of them loses the end of its answer and waits {200 * slower['200 ms']:g} ms, and all wait for it: a "
        f"block from 32 servers arrives at {table['200 ms'][32]:.0f} Mb/s, from one at {table['200 ms'][1]:.0f}; with "
        f"a minimum timeout of {slower['1 ms']:g} ms it is {table['1 ms'][32]:.0f} Mb/s, with a buffer that holds the "
        f"block {table['200 ms, deep buffer'][32]:.0f}."
    )


# Knobs.


def why_not(
    blocks: int, seed: int, *, setting: Setting = PRINTED, servers: int = 32, progress: Progress = iter
) -> pd.DataFrame:
    """One change at a time to the published setting (two where fewer servers are one): what makes the collapse weaker,
    and what does not.

    Returns change, servers, and the columns of `fetched`.
    """
    packet_ms = FULL_PACKET_BYTES * 8 / (setting.rate_mbps * 1e3)
    changes: dict[str, dict[str, Any]] = {
        "as published": {},
        "8 servers": {"servers": 8},
        "8 servers, delays vary by a packet's time": {"servers": 8, "jitter_ms": packet_ms},
        "delays vary by a packet's time": {"jitter_ms": packet_ms},
        "queue of 1000 packets (Linux's default)": {"buffer_packets": 1000},
        "100 Mb/s": {"rate_mbps": 100.0},
        "10 Mb/s": {"rate_mbps": 10.0},
        "1 MB from every server": {"block_bytes": servers * setting.block_bytes},
        "servers start within 10 ms": {"scatter_ms": 10.0},
        "servers start within 100 ms": {"scatter_ms": 100.0},
        "receive window of 6 MB (Linux's most)": {"receive_window_segments": 4344},
        "initial window of 10 segments": {"initial_window_segments": 10},
        "delayed acknowledgements (40 ms)": {"delayed_ack_ms": 40.0},
        "CUBIC": {"congestion_control": "cubic"},
        "DCTCP, marking from 20 packets on": {"congestion_control": "dctcp", "threshold_packets": 20},
    }

    def run_one(name: str, change: dict[str, Any]) -> dict[str, Any]:
        count = change.get("servers", servers)
        changed = replace(setting, **{key: value for key, value in change.items() if key != "servers"})
        return {"change": name, "servers": count} | fetch(changed, count, blocks, seed)[0]

    return pd.DataFrame(in_parallel(run_one, list(changes.items()), progress=progress))


def vary_buffer(
    blocks: int,
    seed: int,
    *,
    buffers_packets: Sequence[int] = (32, 64, 128, 256, 512),
    servers: Sequence[int] = KNOB_SERVERS,
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Goodput over servers for several buffers: buffer_packets, servers and the columns of `fetched`."""

    def run_one(buffer: int, count: int) -> dict[str, Any]:
        changed = replace(setting, buffer_packets=buffer)
        return {"buffer_packets": buffer, "servers": count} | fetch(changed, count, blocks, seed)[0]

    work = [(buffer, count) for buffer in buffers_packets for count in servers]
    return pd.DataFrame(in_parallel(run_one, work, progress=progress))


def vary_scheme(
    blocks: int,
    seed: int,
    *,
    servers: Sequence[int] = KNOB_SERVERS,
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Goodput over servers for Reno and DCTCP (marking from 20 packets on), minimum timeout as in `setting`.

    Returns scheme, servers and the columns of `fetched`.
    """

    def run_one(name: str, count: int) -> dict[str, Any]:
        marking = min(20, setting.buffer_packets) if name == "dctcp" else 0
        changed = replace(setting, congestion_control=name, threshold_packets=marking)
        return {"scheme": name, "servers": count} | fetch(changed, count, blocks, seed)[0]

    work = [(name, count) for name in ("reno", "dctcp") for count in servers]
    return pd.DataFrame(in_parallel(run_one, work, progress=progress))


def vary_block_time(
    blocks: int,
    seed: int,
    *,
    rates_mbps: Sequence[float] = (10.0, 100.0, 1000.0),
    blocks_bytes: Sequence[int] = (256_000, 1_024_000, 4_096_000, 16_384_000),
    servers: int = 32,
    setting: Setting = PRINTED,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Goodput over the time that a block needs at least, in minimum timeouts, by link rate and by block size.

    Returns rate_mbps, block_bytes, block_in_timeouts and the columns of `fetched`.
    """

    def run_one(rate: float, block: int) -> dict[str, Any]:
        changed = replace(setting, rate_mbps=rate, block_bytes=block)
        label = {"rate_mbps": rate, "block_bytes": block}
        label["block_in_timeouts"] = changed.ideal_block_ms / changed.min_rto_ms
        return label | fetch(changed, servers, blocks, seed)[0]

    work = [(rate, block) for rate in rates_mbps for block in blocks_bytes]
    return pd.DataFrame(in_parallel(run_one, work, progress=progress))


def share_after_timeouts(block_in_timeouts: np.ndarray | float, timeouts: int = 1) -> np.ndarray | float:
    """Share of the goodput that is left when the client's link is idle for `timeouts` minimum timeouts a block."""
    return block_in_timeouts / (block_in_timeouts + timeouts)


def arrivals(setting: Setting, servers: int, seed: int) -> pd.DataFrame:
    """One block: time_ms since it was asked for, block_share (of full and last packets that have left the port) and
    queue wait_ms."""
    found = simulate(experiment(setting, servers, 1, seed))
    packets = found.packets[found.packets.size_bytes > REQUEST_BYTES]  # no acknowledgements of requests
    return pd.DataFrame(
        {
            "time_ms": (packets.time_s - found.requests.asked_s.min()) * 1e3,
            "block_share": packets.size_bytes.cumsum() / packets.size_bytes.sum(),
            "wait_ms": packets.wait_ms,
        }
    )


# Figures.


def draw_network(setting: Setting = PRINTED) -> Figure:
    """Many servers, one switch, one client."""
    figure, axis = new_figure("Every server answers at once; one port takes it all", "", "")
    axis.axis("off")
    box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": scheme("tcp").colour}
    names = ("server 1", "server 2", "...", "server n")
    for y, name in zip((1.2, 0.4, -0.4, -1.2), names, strict=True):
        axis.text(0, y, name, ha="center", va="center", bbox=box, fontsize=11)
        axis.annotate("", (1.75, 0.12 * y), (0.4, 0.95 * y), arrowprops={"arrowstyle": "->"})
    axis.text(2, 0, "switch", ha="center", va="center", bbox=box, fontsize=11)
    axis.text(4, 0, "client", ha="center", va="center", bbox=box, fontsize=11)
    axis.annotate("", (3.65, 0), (2.35, 0), arrowprops={"arrowstyle": "->", "linewidth": 2})
    axis.text(3.0, -0.12, f"buffer\n{setting.buffer_packets} packets", ha="center", va="top", fontsize=9)
    rate = f"every link {setting.rate_mbps:g} Mb/s, {setting.link_delay_ms * 1e3:g} us"
    axis.text(2.0, 1.2, f"{rate}\nblock of {setting.block_bytes / 1e6:g} MB in n fragments", ha="left", va="center")
    axis.set(xlim=(-0.6, 4.5), ylim=(-1.6, 1.6))
    return figure


def draw_block(setting: Setting, seed: int, servers: int = 32) -> Figure:
    """How one block arrives, with a long and with a short minimum timeout."""
    figure, _ = new_figure(f"One block from {servers} servers", "time since the request (ms)", "", columns=2)
    figure.axes[0].set_ylabel("share of the block that has left the port")
    for axis, name in zip(figure.axes, ("200 ms", "1 ms"), strict=True):
        table = arrivals(cases(setting)[name], servers, seed)
        axis.step(table.time_ms, table.block_share, where="post", color=scheme("tcp").colour)
        axis.set_title(f"minimum timeout {name}", fontsize=10)
        axis.set(ylim=(0, 1.02), xlim=(0, None))
    return figure


def draw_collapse(runs: Runs) -> Figure:
    """Goodput over the number of servers, a curve a minimum timeout; every repetition a point."""
    title = f"Goodput against servers, by minimum timeout ({runs.where})"
    figure, axis = new_figure(title, "servers", "goodput (share of the link)", log_x=True)
    for colour, name in zip(CURVES, TIMEOUTS_MS, strict=False):
        rows = runs.goodput[runs.goodput.case == name]
        axis.plot(rows.servers, rows.goodput_share, ".", color=colour, alpha=0.4, markersize=4)
        means = rows.groupby("servers")["goodput_share"].mean()
        axis.plot(means.index, means, "o-", color=colour, label=f"minimum timeout {name}")
    _servers_on(axis, runs.goodput.servers)
    axis.legend()
    return figure


def draw_timeouts(runs: Runs) -> Figure:
    """Timeouts and drops a block over servers, at a minimum timeout of 200 ms."""
    title = f"What a block loses (minimum timeout 200 ms, {runs.where})"
    figure, _ = new_figure(title, "servers", "", columns=2, log_x=True)
    columns = ("drops_per_block", "packets dropped a block"), ("timeouts_per_block", "timeouts a block")
    for axis, (column, label) in zip(figure.axes, columns, strict=True):
        means = summary(runs, column)["200 ms"]
        axis.plot(means.index, means, "o-", color=scheme("tcp").colour)
        axis.set_ylabel(label)
        _servers_on(axis, runs.goodput.servers)
    return figure


def draw_control(runs: Runs) -> Figure:
    """The collapse beside the same with a buffer that holds the whole block."""
    title = f"Broken on purpose: a buffer that holds the block ({runs.where})"
    figure, axis = new_figure(title, "servers", "goodput (share of the link)", log_x=True)
    table = summary(runs, "goodput_share")
    for name, case, look in (("tcp", "200 ms", "-"), ("control", "200 ms, deep buffer", "--")):
        means = table[case].dropna()
        marker, colour = scheme(name).marker, scheme(name).colour
        axis.plot(means.index, means, marker + look, color=colour, label=f"minimum timeout {case}")
    _servers_on(axis, runs.goodput.servers)
    axis.legend()
    return figure


def draw_why_not(table: pd.DataFrame) -> Figure:
    """Goodput share of every single change, as published first."""
    figure, axis = new_figure("One change at a time", "goodput (share of the link)", "")
    rows = table[::-1]
    colours = ["#444444" if name == "as published" else scheme("tcp").colour for name in rows.change]
    bars = axis.barh(rows.change, rows.goodput_share, color=colours)
    axis.bar_label(bars, [f"{share:.2f}" for share in rows.goodput_share], padding=3, fontsize=8)
    axis.set_xlim(0, 1.1)
    return figure


def draw_buffers(table: pd.DataFrame) -> Figure:
    """Goodput over servers, a curve a buffer."""
    title = "Buffers delay the collapse (minimum timeout 200 ms)"
    figure, axis = new_figure(title, "servers", "goodput (Mb/s)", log_x=True)
    for colour, (buffer, rows) in zip(CURVES, table.groupby("buffer_packets"), strict=False):
        axis.plot(rows.servers, rows.goodput_mbps, "o-", color=colour, label=f"{buffer} packets")
    _servers_on(axis, table.servers)
    axis.legend()
    return figure


def draw_schemes(table: pd.DataFrame) -> Figure:
    """Goodput over servers, a curve a congestion control."""
    title = "DCTCP delays the collapse, and no more (minimum timeout 200 ms)"
    figure, axis = new_figure(title, "servers", "goodput (Mb/s)", log_x=True)
    for name, rows in table.groupby("scheme", sort=False):
        look = scheme(str(name))
        axis.plot(rows.servers, rows.goodput_mbps, look.marker + "-", color=look.colour, label=look.label, alpha=0.8)
    _servers_on(axis, table.servers)
    axis.legend()
    return figure


def draw_block_time(table: pd.DataFrame) -> Figure:
    """Goodput share over the block's own time in timeouts, and what one or three idle timeouts a block leave."""
    figure, axis = new_figure(
        "The collapse is deep only where a block is short beside the timeout",
        "time of a block at full rate (minimum timeouts)",
        "goodput (share of the link)",
        log_x=True,
    )
    x = np.geomspace(table.block_in_timeouts.min() / 1.5, table.block_in_timeouts.max() * 1.5, 200)
    for timeouts, look in ((1, "--"), (3, ":")):
        label = f"idle for {timeouts} timeout{'s' if timeouts > 1 else ''} a block"
        axis.plot(x, share_after_timeouts(x, timeouts), look, color="#444444", linewidth=1, label=label)
    for colour, (rate, rows) in zip(CURVES, table.groupby("rate_mbps"), strict=False):
        axis.plot(rows.block_in_timeouts, rows.goodput_share, "o", color=colour, label=f"{rate:g} Mb/s")
    axis.set_ylim(0, 1.02)
    axis.legend()
    return figure


def _servers_on(axis: Any, servers: Iterable[int]) -> None:
    ticks = [count for count in sorted(set(servers)) if count not in (12, 24, 48)]
    axis.set_xticks(ticks, [str(count) for count in ticks])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)


def explore(blocks: int = 3) -> object:
    """Sliders for servers, buffer and rate, a menu for timeout and scheme; one block redrawn at once."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "servers": widgets.IntSlider(16, min=1, max=64, description="servers"),
        "buffer": widgets.IntSlider(64, min=8, max=1024, step=8, description="buffer (packets)"),
        "timeout": widgets.Dropdown(options=TIMEOUTS_MS, description="timeout"),
        "rate": widgets.Dropdown(options=[10.0, 100.0, 1000.0], value=1000.0, description="Mb/s"),
        "control": widgets.Dropdown(options=["reno", "cubic", "dctcp"], description="scheme"),
    }

    def redraw(servers: int, buffer: int, timeout: float, rate: float, control: str) -> None:
        marking = min(20, buffer) if control == "dctcp" else 0
        changed = replace(PRINTED, rate_mbps=rate, buffer_packets=buffer, min_rto_ms=timeout)
        changed = replace(changed, congestion_control=control, threshold_packets=marking)
        row, table = fetch(changed, servers, blocks, 1)[0], arrivals(changed, servers, 1)
        title = f"{row['goodput_mbps']:.0f} Mb/s, {row['timeouts_per_block']:.1f} timeouts a block"
        figure, axis = new_figure(title, "time since the request (ms)", "share of a block")
        axis.step(table.time_ms, table.block_share, where="post", color=scheme("tcp").colour)
        display(figure)

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
