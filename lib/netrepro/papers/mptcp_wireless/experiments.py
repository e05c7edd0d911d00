"""The setting of MPTCP over WiFi and 3G, its experiment and what is read of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from netrepro.applications.mptcp.run import told_handover
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, CoDel, DropTail, Link, bandwidth_delay_packets
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Cable, Topology
from netrepro.networks.workloads import Flow, Tcp
from netrepro.programs import why_missing
from netrepro.study import SIMULATED, VIRTUAL, Check, Reading, Runs
from netrepro.study.measuring import run_experiment
from netrepro.study.setting import parameter

KB = 1024
BLOCK_BYTES = 8 * KB
SWITCHES = {"wifi": "s3", "3g": "s4"}
WIRE = Link(1000, 0, DropTail(packets=10_000))
RECEIVE_BUFFERS_KB = (50, 100, 200, 400, 600, 1000)
WIFI_MBPS = (8.0, 16.0, 32.0, 64.0)  # 4, 8, 16 and 32 times the rate of 3G
CLASS_KB, LARGE_KB, PLENTY_KB, SMALL_KB = 32, 6 * 1024, 8 * 1024, 40


BOTH = "mptcp with M1 and M2"
FIG7 = ("mptcp", BOTH, "tcp over wifi", "tcp over 3g")


@dataclass(frozen=True)
class Setting:
    """Links as the class took them from the paper's other experiment. Buffers of links are in time at the link's rate.

    networks : one name for TCP, two for MPTCP with a subflow on each. receive_buffer_kb : as large as the send buffer
    unless a case says otherwise, since the paper gives only the latter. mobile_queue : "drop tail" or "codel".
    own_buffers : MPTCP's send and receive buffer are separate, as in the authors' kernel; otherwise one buffer of the
    smaller size serves as both, as with TCP. follows_blocks : False where only goodput is needed, which is faster.
    """

    wifi_mbps: float = 8.0
    wifi_round_trip_ms: float = 20.0
    wifi_buffer_ms: float = 80.0
    wifi_loss: float = 0.0
    mobile_mbps: float = 2.0
    mobile_round_trip_ms: float = 150.0
    mobile_buffer_ms: float = 2000.0
    mobile_jitter_ms: float = parameter(50.0, "of 3G, each way: deviation of the delay", "ms", low=0, high=1000)
    mobile_queue: str = "drop tail"
    mobile_loss: float = 0.0
    send_buffer_kb: int = parameter(200, "of the application's socket", "KB", low=2, high=100_000)
    receive_buffer_kb: int = 200
    congestion_control: str = parameter(
        "lia",
        "of the subflows (no olia, balia on the virtual kernel)",
        one_of=("lia", "olia", "balia", "reno", "cubic"),
    )
    networks: tuple[str, ...] = ("wifi", "3g")
    retransmits: bool = False
    penalises: bool = False
    own_buffers: bool = True
    follows_blocks: bool = True

    @property
    def carried_mbps(self) -> float:
        """The payload rate (Mb/s) that both links together can carry."""
        return (self.wifi_mbps + self.mobile_mbps) * 1448 / FULL_PACKET_BYTES


@dataclass(frozen=True)
class Outage(Setting):
    """The same links, but WiFi fails from `down` to `up`, shares of the run's time. told : the path manager learns of
    it at once."""

    follows_blocks: bool = False
    down: float = 1 / 3
    up: float = 2 / 3
    told: bool = False

    def without_wifi_s(self, seconds: float) -> tuple[float, float]:
        """Return when WiFi fails and when it is back (s), in a run of `seconds`."""
        return self.down * seconds, self.up * seconds


def buffer_packets(mbps: float, buffer_ms: float) -> int:
    """Return a link's buffer in packets of 1500 bytes, by the class's rule: 54 for WiFi and 334 for 3G."""
    return max(1, math.ceil(bandwidth_delay_packets(mbps, buffer_ms, 1500)))


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: one endless stream from h1 to h2. s3 is WiFi, s4 is 3G; each has its rate and queue before
    it, its delay behind it.

    Raises NetreproError for buffers below a packet.
    """
    if min(setting.send_buffer_kb, setting.receive_buffer_kb) < 2:
        raise NetreproError("a buffer of less than a packet", "give 2 KB or more")
    wifi = buffer_packets(setting.wifi_mbps, setting.wifi_buffer_ms)
    mobile = buffer_packets(setting.mobile_mbps, setting.mobile_buffer_ms)
    queue = {"drop tail": DropTail, "codel": CoDel}[setting.mobile_queue](packets=mobile)
    delayed = replace(WIRE, delay_ms=setting.mobile_round_trip_ms / 2, jitter_ms=setting.mobile_jitter_ms)
    network = Topology(
        (
            Cable("h1", "s1", WIRE),
            Cable("s1", "s3", Link(setting.wifi_mbps, 0, DropTail(packets=wifi), loss=setting.wifi_loss)),
            Cable("s3", "s2", replace(WIRE, delay_ms=setting.wifi_round_trip_ms / 2)),
            Cable("s1", "s4", Link(setting.mobile_mbps, 0, queue, loss=setting.mobile_loss)),
            Cable("s4", "s2", delayed),
            Cable("s2", "h2", WIRE),
        )
    )
    paths = tuple(("h1", "s1", SWITCHES[name], "s2", "h2") for name in setting.networks)
    how: dict[str, Any] = {"path": paths[0]}
    if len(paths) > 1:
        how = {"subflows": len(paths), "subflow_paths": paths, "congestion_control": setting.congestion_control}
    # Bytes that are not acknowledged fill the send buffer, too.
    buffers: dict[str, Any] = {"receive_window_bytes": min(setting.send_buffer_kb, setting.receive_buffer_kb) * KB}
    if setting.own_buffers and len(paths) > 1:
        sizes_kb = {"receive_window_bytes": setting.receive_buffer_kb, "send_buffer_bytes": setting.send_buffer_kb}
        buffers = {name: size_kb * KB for name, size_kb in sizes_kb.items()}
    return Experiment(
        network,
        (Flow("h1", "h2", duration_s=seconds, **how),),
        seconds,
        seed,
        Measure(
            packets=tuple(port for switch in SWITCHES.values() for port in (("s2", switch), (switch, "s1"))),
            deliveries=(0,),
        ),
        Tcp(
            "cubic",
            **buffers,
            syn_linear_timeouts=0,
            opportunistic_retransmission=setting.retransmits,
            penalisation=setting.penalises,
        ),
    )


def with_outage(setting: Outage, seconds: float, seed: int) -> Experiment:
    """Make the experiment in which WiFi fails and comes back."""
    down_s, up_s = setting.without_wifi_s(seconds)
    changes = (LinkChange(down_s, "s1", "s3", up=False), LinkChange(up_s, "s1", "s3", up=True))
    return replace(experiment(setting, seconds, seed), changes=changes)


# Blocks.


def acknowledged(measured: Measurements) -> pd.DataFrame:
    """Return when the sender learns how much the receiver has: time_s, acknowledged_bytes, a row for each
    acknowledgement.

    Of a simulation it is computed: each acknowledgement reports the bytes held when it left. As networks keep the order
    of packets, the nth to leave is the nth to arrive.
    """
    if measured.tier != SIMULATED:
        return measured.acknowledgements
    parts, delivered = [], measured.deliveries
    for switch in SWITCHES.values():
        left_s, came_s = (_times_s(measured, *port) for port in (("s2", switch), (switch, "s1")))
        held = held_at(delivered, left_s[: len(came_s)])
        parts.append(pd.DataFrame({"time_s": came_s, "acknowledged_bytes": held}))
    table = pd.concat(parts, ignore_index=True).sort_values("time_s", kind="stable", ignore_index=True)
    return table.assign(acknowledged_bytes=table.acknowledged_bytes.cummax())


def _times_s(measured: Measurements, source: str, destination: str) -> np.ndarray:
    packets = measured.packets
    return packets.time_s[(packets.source == source) & (packets.destination == destination)].to_numpy()


def block_latencies(delivered: pd.DataFrame, acknowledged: pd.DataFrame, send_buffer_bytes: int) -> pd.DataFrame:
    """Return a row for each delivered block: accepted_s, when its last byte fitted in the send buffer, and latency_ms
    from then until the whole block had arrived in order.

    The application writes until the buffer ends `send_buffer_bytes` beyond the acknowledged bytes. It then sleeps until
    a third is free, as Linux wakes a writer. delivered : time_s, delivered_bytes. acknowledged : time_s,
    acknowledged_bytes. Both ascend.
    """
    total = delivered.delivered_bytes.max() if len(delivered) else 0
    ends = np.arange(BLOCK_BYTES, total + 1, BLOCK_BYTES)
    arrived_s = delivered.time_s.to_numpy()[np.searchsorted(delivered.delivered_bytes, ends)]
    known, written, woken_s = acknowledged.acknowledged_bytes.to_numpy(), [send_buffer_bytes], [0.0]
    while (place := int(np.searchsorted(known, written[-1] - 2 * send_buffer_bytes / 3))) < len(known):
        written.append(int(known[place]) + send_buffer_bytes)
        woken_s.append(float(acknowledged.time_s.iloc[place]))
    accepted_s = np.array(woken_s)[np.minimum(np.searchsorted(written, ends), len(written) - 1)]
    return pd.DataFrame({"accepted_s": accepted_s, "latency_ms": (arrived_s - accepted_s) * 1e3})


def settled_s(seconds: float) -> float:
    """Return the time (s) from which a run of `seconds` counts. By then 3G's queue of two seconds has had its first
    losses."""
    return min(10.0, seconds / 3)


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    """Measure in one run the blocks' latency, the goodput, and the share of each network.

    Raises NetreproError for tiers in real time.
    """
    return read(run_experiment(experiment(setting, seconds, seed), tier), setting)


def measure_outage(setting: Outage, seconds: float, seed: int, tier: str) -> Reading:
    """Measure in one run what arrives while WiFi is gone.

    Raises NetreproError for tiers in real time.
    """
    asked = with_outage(setting, seconds, seed)
    if tier == VIRTUAL and setting.told:
        delivered = told_handover(asked)
        stream = read_stream(delivered, setting, seconds)
    else:
        measured = run_experiment(asked, tier)
        delivered, stream = measured.deliveries, read(measured, setting)
    return stream | read_outage(delivered, stream["seconds"], setting, seconds)


def cannot(setting: Setting, tier: str) -> str:
    """Return why the tier cannot run a setting, apart from what the kernel refuses; "" where it can."""
    if not isinstance(setting, Outage) or not setting.told:
        return ""
    return "the simulator has no path manager that could be told" if tier == SIMULATED else why_missing("ip")


def read_stream(delivered: pd.DataFrame, setting: Setting, seconds: float) -> Reading:
    """Read goodput_mbps after `settled_s`, and carried_share (of what both links can carry). The table seconds has the
    goodput over time."""
    begin_s, in_all = settled_s(seconds), held_at(delivered, seconds)
    goodput_mbps = (in_all - held_at(delivered, begin_s)) * 8e-6 / (seconds - begin_s)
    carried = in_all * 8e-6 / seconds / setting.carried_mbps
    numbers = {"goodput_mbps": goodput_mbps, "carried_share": goodput_mbps / setting.carried_mbps}
    within = Check("delivered of what both links carry (share)", carried, at_most=1.001)
    return Reading(numbers, {"seconds": bytes_by_second(delivered, seconds)}, [within])


def read_outage(delivered: pd.DataFrame, each_second: pd.DataFrame, setting: Outage, seconds: float) -> Reading:
    """Read progress_share (of whole seconds without WiFi in which bytes arrived), without_wifi_mbps (in these seconds),
    and longest_stall_s (without any byte, from WiFi's loss on). each_second : what `bytes_by_second` returns."""
    mbps = without_wifi(each_second, setting, seconds).goodput_mbps
    return Reading(
        {
            "progress_share": float((mbps > 0).mean()),
            "without_wifi_mbps": float(mbps.mean()),
            "longest_stall_s": longest_stall_s(delivered, setting, seconds),
        }
    )


def read(measured: Measurements, setting: Setting) -> Reading:
    """Read what `read_stream` reads, mobile_share (of packets sent on 3G) and repeated_share (of packets sent again).
    Where blocks are followed, read also what `read_blocks` reads."""
    delivered = measured.deliveries
    stream = read_stream(delivered, setting, measured.experiment.duration_s)
    sent = measured.links_by_port.sent_packets
    wifi, mobile = (sent["s1", switch] for switch in SWITCHES.values())
    counted = max(1, int(measured.flows.delivered_bytes.sum()))
    blocks = read_blocks(measured, setting) if setting.follows_blocks else Reading()
    held = Check("delivered / counted by the receiver", delivered.delivered_bytes.max() / counted, 0.99, 1.01)
    numbers = {
        "mobile_share": float(mobile / max(1, wifi + mobile)),
        "repeated_share": float(measured.flows.retransmitted_packets.sum() / max(1, wifi + mobile)),
    }
    return replace(stream | Reading(numbers, checks=[held]) | blocks, fidelity=measured.fidelity)


def read_blocks(measured: Measurements, setting: Setting) -> Reading:
    """Read the latencies of blocks accepted after `settled_s`: mean_ms, median_ms, spread_ms (10th to 90th percentile),
    late_share (beyond twice the median), and their table."""
    delivered, known = measured.deliveries, acknowledged(measured)
    segment_bytes = measured.experiment.tcp.segment_bytes
    every = block_latencies(delivered, known, setting.send_buffer_kb * KB // segment_bytes * segment_bytes)
    blocks = every[every.accepted_s >= settled_s(measured.experiment.duration_s)].reset_index(drop=True)
    latency = blocks.latency_ms.to_numpy() if len(blocks) else np.array([np.nan])
    low, median, high = np.percentile(latency, (10, 50, 90))
    ports = measured.links_by_port
    backward = [ports.loc[port] for port in measured.experiment.measure.packets]
    numbers = {
        "mean_ms": float(latency.mean()),
        "median_ms": float(median),
        "spread_ms": float(high - low),
        "late_share": float((latency > 2 * median).mean()),
    }
    beyond = known.acknowledged_bytes.to_numpy() - held_at(delivered, known.time_s)
    checks = [
        Check("acknowledgements lost", float(sum(p.dropped_packets + p.lost_packets for p in backward)), at_most=0),
        Check("acknowledged beyond delivered (bytes)", float(np.max(beyond, initial=0)), at_most=0.0),
        Check("blocks that arrived before they were accepted", float((every.latency_ms < 0).sum()), at_most=0.0),
    ]
    return Reading(numbers, {"blocks": blocks}, checks)


def held_at(delivered: pd.DataFrame, time_s: Any) -> Any:
    """Return the bytes that the receiver has at a time, or at each of several (s)."""
    return np.concatenate([[0], delivered.delivered_bytes])[np.searchsorted(delivered.time_s, time_s, side="right")]


def bytes_by_second(delivered: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Compute the goodput in every whole second: second, goodput_mbps."""
    ends = np.arange(math.floor(seconds) + 1, dtype=float)
    return pd.DataFrame({"second": ends[:-1], "goodput_mbps": np.diff(held_at(delivered, ends)) * 8e-6})


def longest_stall_s(delivered: pd.DataFrame, setting: Outage, seconds: float) -> float:
    """Compute the longest time (s) without any byte after the loss of WiFi."""
    down_s, _ = setting.without_wifi_s(seconds)
    times_s = delivered.time_s.to_numpy()
    return float(np.diff(np.concatenate([[down_s], times_s[times_s > down_s], [seconds]])).max())


def without_wifi(each_second: pd.DataFrame, setting: Outage, seconds: float) -> pd.DataFrame:
    """Return the rows of whole seconds without WiFi."""
    down_s, up_s = setting.without_wifi_s(seconds)
    return each_second[(each_second.second >= down_s) & (each_second.second + 1 <= up_s)]


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    tiers = {case: next(tier for tier in runs.tiers if runs.has(case, tier=tier)) for case in FIG7}
    plain, both, wifi, mobile = (runs.numbers(case, tier).mean_ms.mean() for case, tier in tiers.items())
    of_class = runs.numbers("class: mptcp")
    whose = "plain MPTCP" if runs.tier == SIMULATED else "Linux's MPTCP"
    how = "with M1 and M2" if runs.has(BOTH) else "with M1 and M2 in the simulator"
    return (
        f"A block takes {plain:.0f} ms in the mean with {whose} and {both:.0f} ms {how} "
        f"(TCP over WiFi {wifi:.0f}, over 3G {mobile:.0f}); with the class's receive buffer of {CLASS_KB} KB it takes "
        f"{of_class.mean_ms.mean():.0f} ms, and 3G carries {100 * of_class.mobile_share.mean():.1f} % of the packets."
    )
