"""Recordings of ports of a network in real time: queue samples, totals of links, time stamps of leaving packets."""

from __future__ import annotations

import mmap
import os
import platform
import signal
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd

from netrepro.emulation import fidelity
from netrepro.emulation.live import Packet, live_capture
from netrepro.emulation.network import Recording
from netrepro.emulation.plan import HUB, Port
from netrepro.emulation.real_time.guests import exit_status, has_ended
from netrepro.emulation.real_time.machine import cpu_stall_us, refused_packets, steal_ticks
from netrepro.emulation.real_time.running import RunningNetwork
from netrepro.emulation.recording import check_asked, check_recorded, pcap_header, throughput_in
from netrepro.emulation.traffic import end_key
from netrepro.errors import NetreproError
from netrepro.files import whole_file
from netrepro.networks.checks import Check, check_table
from netrepro.networks.tables import LINK_COLUMNS, QUEUE_COLUMNS

_SAMPLE = np.dtype(
    [(name, np.int64) for name in ("time_ns", "port", "queue_bytes", "queue_packets", "sent_bytes", "sent", "dropped")]
)
# Sizes of a frame in the ring: room for a packet's headers, or for the part that a capture keeps.
_FRAME_BYTES, _CAPTURED_FRAME_BYTES, _BLOCK_BYTES = 128, 256, 1 << 16
_FRAME_FIELDS = {
    "names": ["status", "size_bytes", "kept_bytes", "frame_at", "seconds", "nanoseconds"],
    "formats": ["<u4", "<u4", "<u4", "<u2", "<u4", "<u4"],
    "offsets": [0, 4, 8, 12, 16, 20],
}
# Offsets in a packet with its Ethernet header; hosts here send no IP options. IPv6: last four bytes of addresses.
_OFFSETS_OF_ENDS = {
    "protocol": 12,
    "source_address": 26, "destination_address": 30, "source_port": 34, "destination_port": 36,
    "ipv6_source_address": 34, "ipv6_destination_address": 50, "ipv6_source_port": 54, "ipv6_destination_port": 56,
}  # fmt: skip
_ENDS = np.dtype(
    {
        "names": list(_OFFSETS_OF_ENDS),
        "formats": [">u4" if name.endswith("address") else ">u2" for name in _OFFSETS_OF_ENDS],
        "offsets": list(_OFFSETS_OF_ENDS.values()),
        "itemsize": 58,
    }
)
_IPV6 = 0x86DD
MOST_AT_A_LOOK = 20_000  # packets of a port that a live capture reads at a time
SAMPLER_PATIENCE_S = 10.0  # longest wait for the sampler's end after SIGTERM
_TOTALS = ("queue_bytes", "queue_packets", "sent_bytes", "sent", "dropped")


class _Tap:
    """A tap: the kernel writes time stamps and sizes of packets that arrive at an interface into a ring buffer.

    most_packets : room in the ring. capture : file for a pcap. keeps : True to keep the packets' first bytes anyway.
    """

    def __init__(
        self, tap: socket.socket, interface: str, most_packets: int, capture: Path | None = None, keeps: bool = False
    ):
        self._socket, self._capture, self._given = tap, capture, 0
        self._frame_bytes = _CAPTURED_FRAME_BYTES if capture or keeps else _FRAME_BYTES
        blocks = -(-most_packets * self._frame_bytes // _BLOCK_BYTES)
        self._frames = blocks * _BLOCK_BYTES // self._frame_bytes
        tap.setsockopt(263, 10, 1)  # SOL_PACKET, PACKET_VERSION: TPACKET_V2
        tap.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
        tap.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS: time at which the neighbour's queue released it
        ring = struct.pack("=4I", _BLOCK_BYTES, blocks, self._frame_bytes, self._frames)
        tap.setsockopt(263, 5, ring)  # PACKET_RX_RING
        self._ring = mmap.mmap(tap.fileno(), blocks * _BLOCK_BYTES)
        tap.bind((interface, 0x0003))  # all protocols: seen before the hub redirects it to netem

    def new_packets(self) -> list[tuple[int, int, bytes]]:
        """Return at most MOST_AT_A_LOOK new packets since the last call, for write_capture; they stay in the ring."""
        frames = self._content()[self._given : self._given + MOST_AT_A_LOOK]
        filled = frames[: _filled(frames)]
        self._given += len(filled)
        return list(_kept(filled, _times_ns(filled)))

    def _content(self) -> np.ndarray:
        fields = np.dtype({**_FRAME_FIELDS, "itemsize": self._frame_bytes})  # type: ignore[call-overload]
        return np.frombuffer(self._ring, fields, self._frames)

    def close(self) -> tuple[pd.DataFrame, int]:
        """Close the tap and write its capture; return its packets and the number of missed packets.

        Columns: time_ns, size_bytes, sender, receiver (end_keys).
        """
        missed = struct.unpack("=II", self._socket.getsockopt(263, 6, 8))[1]  # PACKET_STATISTICS
        self._socket.close()
        frames = self._content()
        filled = frames[: _filled(frames)]
        time_ns = _times_ns(filled)
        table = pd.DataFrame({"time_ns": time_ns, "size_bytes": filled["size_bytes"].astype(np.int64)})
        table = table.join(_packet_ends(filled))
        if self._capture:
            write_capture(self._capture, _kept(filled, time_ns))
        del frames, filled
        self._ring.close()
        return table, missed


def _filled(frames: np.ndarray) -> int:
    """Count the frames that the kernel has filled, which are the first ones."""
    is_filled = frames["status"] & 1
    return int(np.argmin(is_filled)) if len(frames) and is_filled.min() == 0 else len(frames)


def _times_ns(frames: np.ndarray) -> np.ndarray:
    return frames["seconds"].astype(np.int64) * 10**9 + frames["nanoseconds"]


def _packet_ends(frames: np.ndarray) -> pd.DataFrame:
    if len(frames) == 0:
        return pd.DataFrame({"sender": [], "receiver": []}, dtype=np.int64)
    start = int(frames["frame_at"][0])  # the same for all frames of one socket
    bytes_of = frames.view(np.uint8).reshape(len(frames), frames.itemsize)
    ends = np.ascontiguousarray(bytes_of[:, start : start + _ENDS.itemsize]).view(_ENDS)[:, 0]
    keys = {}
    for name, side in (("sender", "source"), ("receiver", "destination")):
        of_ipv4, of_ipv6 = (
            end_key(ends[f"{kind}{side}_address"].astype(np.int64), ends[f"{kind}{side}_port"].astype(np.int64))
            for kind in ("", "ipv6_")
        )
        keys[name] = np.where(ends["protocol"] == _IPV6, of_ipv6, of_ipv4)
    return pd.DataFrame(keys)


def _kept(frames: np.ndarray, time_ns: np.ndarray) -> Iterator[tuple[int, int, bytes]]:
    """Yield the frames of a ring for write_capture, with the bytes that the ring kept of them."""
    raw = frames.view(np.uint8).reshape(len(frames), frames.itemsize)
    for place, frame in enumerate(frames):
        start = int(frame["frame_at"])
        yield int(time_ns[place]), int(frame["size_bytes"]), raw[place, start : start + frame["kept_bytes"]].tobytes()


def write_capture(path: Path, packets: Iterable[tuple[int, int, bytes]]) -> None:
    """Write packets as a pcap. packets : (time in ns since 1970, size in bytes, first bytes of the frame)."""
    with whole_file(path) as part, part.open("wb") as file:
        file.write(pcap_header(_CAPTURED_FRAME_BYTES))
        for time_ns, size_bytes, frame in packets:
            file.write(struct.pack("=4I", *divmod(time_ns, 10**9), len(frame), size_bytes) + frame)


class RealTimeRecording(Recording):
    """A recording of ports while its `with` block runs; the tables can be read once the block has ended.

    Times are seconds since the block began. Packet sizes include the Ethernet header, as rates and buffers do.
    """

    def __init__(
        self,
        net: RunningNetwork,
        queues: Sequence[tuple[str, str]],
        packets: Sequence[tuple[str, str]],
        interval_ms: float,
        most_packets: int,
        captures: Path | None = None,
        live: int | str | os.PathLike[str] | None = None,
    ):
        check_asked(net.topology, queues, packets, interval_ms, most_packets)
        # Gaps between packets mean something only while the queue is not empty: sample these queues too.
        self._queues: list[Port] = [net.plan.ports[port] for port in dict.fromkeys((*queues, *packets))]
        self._tapped = [net.plan.ports[port] for port in dict.fromkeys(packets)]
        self._net, self._interval_s, self._most_packets = net, interval_ms / 1000, most_packets
        self._captures, self._live = captures, live_capture(live, packets)
        self._samples: pd.DataFrame | None = None
        self._counted_ns = 0
        self._packets: dict[tuple[str, str], tuple[pd.DataFrame, int]] = {}

    def __enter__(self) -> RealTimeRecording:
        self._queue_totals()  # raises where a queue is missing, which the sampler would not notice
        with ExitStack() as undone:
            self._taps = {(port.source, port.destination): self._tap(port, undone) for port in self._tapped}
            self._start_sampler(undone)
            self._totals_at_start = self._queue_totals()
            if self._live:
                self._live.open(self._taps, _CAPTURED_FRAME_BYTES, self._new_packets)
            undone.pop_all()
        self._stall_us, self._steal_ticks, self._refused = cpu_stall_us(), steal_ticks(), refused_packets()
        self._began_ns, self._began = time.clock_gettime_ns(time.CLOCK_REALTIME), time.monotonic()
        return self

    def _tap(self, port: Port, undone: ExitStack) -> _Tap:
        namespace, interface = port.tap
        ends = f"{port.source}-{port.destination}"
        opened = undone.enter_context(self._net.open_socket(namespace, socket.AF_PACKET, socket.SOCK_RAW))
        try:
            capture = self._captures and self._captures / f"{ends}.pcap"
            return _Tap(opened, interface, self._most_packets, capture, keeps=self._live is not None)
        except OSError as error:
            raise NetreproError(
                f"no room to record {self._most_packets} packets of {ends}: {error.strerror}", "give fewer most_packets"
            ) from None

    def _new_packets(self) -> list[Packet]:
        """Return packets that have arrived since the last call, for LiveCapture, by time."""
        packets = [(place, *each) for place, tap in enumerate(self._taps.values()) for each in tap.new_packets()]
        return sorted(packets, key=lambda packet: packet[1])

    def _start_sampler(self, undone: ExitStack) -> None:
        self._file = os.memfd_create("samples")
        undone.callback(os.close, self._file)
        self._sampler_ended, status = os.pipe()
        undone.callback(os.close, self._sampler_ended)
        try:
            answer, _ = self._net.launcher.ask(
                "sample_queues",
                (self._file, status),
                ports=[(self._net.place(port.shaper[0]), port.shaper[1]) for port in self._queues],
                interval_s=self._interval_s,
            )
        finally:
            os.close(status)
        self._sampler = answer["guest"]
        while self._queues and os.fstat(self._file).st_size == 0:  # wait: totals count from the first sample on
            if has_ended(self._sampler_ended, 0.0002):
                raise NetreproError("the queues cannot be sampled: the process that should has ended", "try again")

    def __exit__(self, *exception: object) -> None:
        try:
            try:
                if self._live:
                    self._live.close()
            finally:
                sampled = self._collect()
            if not any(exception):
                self._check_all_ran(sampled)
        except NetreproError:  # such as a network that has ended: the block's error says more
            if not any(exception):
                raise

    def _collect(self) -> int | None:
        """Read all counters, samples and packets; return the sampler's exit status, None if it did not end in time."""
        net = self._net
        self._duration_s = time.monotonic() - self._began
        self._stall_us = cpu_stall_us() - self._stall_us
        self._steal_ticks = steal_ticks() - self._steal_ticks
        self._refused = refused_packets() - self._refused
        self._totals_at_end, self._ended_ns = self._queue_totals(), time.clock_gettime_ns(time.CLOCK_REALTIME)
        self._packets_a_frame = net.launcher.ask("packets_a_frame", ports=self._shapers)[0]["most"]
        net.launcher.ask("signal", guest=self._sampler, number=signal.SIGTERM, all=False)
        sampled = exit_status(self._sampler_ended) if has_ended(self._sampler_ended, SAMPLER_PATIENCE_S) else None
        os.close(self._sampler_ended)
        size = os.fstat(self._file).st_size // _SAMPLE.itemsize * _SAMPLE.itemsize
        samples = np.frombuffer(os.pread(self._file, size, 0), _SAMPLE)
        os.close(self._file)
        self._samples = pd.DataFrame({name: samples[name] for name in _SAMPLE.names or ()})
        for ends, tap in self._taps.items():
            self._packets[ends] = tap.close()
        return sampled

    def _check_all_ran(self, sampled: int | None) -> None:
        """Raise NetreproError where the sampler has failed or not ended: the results would be wrong."""
        if self._queues and sampled != 0:
            raise NetreproError(f"the sampling of queues ended early, with status {sampled}", "run it again")

    def _queue_totals(self) -> pd.DataFrame:
        """Return a row for each port: the counters of its queue, and `lost`, packets that netem dropped behind it.

        Raises NetreproError for a port that has lost its queue.
        """
        net = self._net
        wires = {each.direction: (net.place(HUB), each.to_index) for each in net.plan.wires}
        ports = self._shapers
        answer, _ = net.launcher.ask("queue_totals", ports=[*ports, *wires.values()])
        gone = [port for port, totals in zip(net.plan.ports, answer["totals"], strict=False) if totals is None]
        if gone:
            raise NetreproError(
                f"the link from {' to '.join(gone[0])} has lost its queue", "leave the queues (tc) as they were built"
            )
        table = pd.DataFrame(answer["totals"][: len(ports)], columns=list(_TOTALS), index=list(net.plan.ports))
        lost = dict(zip(wires, (dropped for *_, dropped in answer["totals"][len(ports) :]), strict=True))
        return table.assign(lost=[lost.get(port, 0) for port in net.plan.ports])

    @property
    def _shapers(self) -> list[tuple[int, int]]:
        """The place of each port's queue: (index of the namespace, index of the interface)."""
        return [(self._net.place(port.shaper[0]), port.shaper[1]) for port in self._net.plan.ports.values()]

    def begin_at(self, time_ns: int) -> None:
        """Count times from this instant (ns, CLOCK_REALTIME) instead of the block's beginning."""
        self._began_ns = time_ns

    def count_from_now(self) -> None:
        """Leave out of the links' totals what has happened so far."""
        self._totals_at_start, self._counted_ns = self._queue_totals(), time.clock_gettime_ns(time.CLOCK_REALTIME)

    @property
    def _table(self) -> pd.DataFrame:
        """All samples: source, destination, time_s and the counters. Raises NetreproError before the block's end."""
        if self._samples is None:
            raise NetreproError("this recording has not ended", "read it after its `with` block")
        ports = self._samples["port"].to_numpy()
        return self._samples.assign(
            source=np.array([port.source for port in self._queues])[ports],
            destination=np.array([port.destination for port in self._queues])[ports],
            time_s=(self._samples["time_ns"] - self._began_ns) / 1e9,
        )

    def queues(self) -> pd.DataFrame:
        """Return the samples of the queues: source, destination, time_s, queue_packets, queue_bytes."""
        return self._table[QUEUE_COLUMNS]

    def throughput(self, window_ms: float = 10.0) -> pd.DataFrame:
        """Return the rate of each sampled port: source, destination, time_s (end of the window), throughput_mbps."""
        return throughput_in(self._table, window_ms)

    def links(self) -> pd.DataFrame:
        """Return totals from beginning, or from `count_from_now`, to end: a row for each port of the network.

        Columns are as in Measurements.links.
        """
        _ = self._table
        plan = self._net.plan
        totals = self._totals_at_end - self._totals_at_start
        rates_mbps = np.array([port.link.rate_mbps for port in plan.ports.values()])
        seconds = (self._ended_ns - max(self._began_ns, self._counted_ns)) / 1e9
        sources, destinations = zip(*plan.ports, strict=True)
        return pd.DataFrame(
            {
                "source": sources,
                "destination": destinations,
                "sent_packets": totals["sent"].to_numpy(),
                "sent_bytes": totals["sent_bytes"].to_numpy(),
                "dropped_packets": totals["dropped"].to_numpy(),
                "marked_packets": 0,  # drop-tail marks none
                "lost_packets": totals["lost"].to_numpy(),
                "utilisation": totals["sent_bytes"].to_numpy() * 8e-6 / rates_mbps / seconds,
            },
            columns=LINK_COLUMNS,
        )

    def packets(self, flows: Mapping[int, int] | None = None) -> pd.DataFrame:
        """Return the packets as they left: source, destination, time_s, size_bytes.

        flows : end_key of one end of a flow -> flow; adds the column `flow`, for packets of both directions (-1: none).
        """
        _ = self._table
        parts = []
        for (source, destination), (table, _) in self._packets.items():
            part = table[["size_bytes"]].assign(
                source=source, destination=destination, time_s=(table["time_ns"] - self._began_ns) / 1e9
            )
            if flows is not None:
                towards, back = (table[end].map(flows) for end in ("sender", "receiver"))
                part["flow"] = towards.fillna(back).fillna(-1).astype(int)
            parts.append(part)
        columns = ["source", "destination", *(["flow"] if flows is not None else []), "time_s", "size_bytes"]
        return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)

    def certificate(self, source: str, destination: str) -> pd.DataFrame:
        """Check that the port behaved like the described link (columns: CHECK_COLUMNS).

        Raises NetreproError for a port whose packets were not recorded.
        """
        deviation, missed = self.deviation(source, destination)
        return check_table([*fidelity.port_checks(deviation), *self.machine_checks(missed)])

    def deviation(self, source: str, destination: str) -> tuple[fidelity.Deviation, int]:
        """Measure the gaps between the port's packets; return also the number of packets that were not recorded.

        Raises NetreproError for a port whose packets were not recorded.
        """
        table = self.queues()
        check_recorded((source, destination), self._packets)
        packets, missed = self._packets[source, destination]
        samples = table[(table.source == source) & (table.destination == destination)]
        deviation = fidelity.deviation_in(
            self.rates(source, destination),
            (packets["time_ns"].to_numpy() - self._began_ns) / 1e9,
            packets["size_bytes"].to_numpy(),
            samples["time_s"].to_numpy(),
            samples["queue_packets"].to_numpy(),
        )
        return deviation, missed

    def rates(self, source: str, destination: str) -> list[fidelity.Interval]:
        """List the rates that the port had, each with its interval of time."""
        changes = []
        for each in self._net.made.get((source, destination), ()):
            from_s, to_s = ((at_ns - self._began_ns) / 1e9 for at_ns in (each.begun_ns, each.made_ns))
            changes.append(fidelity.Interval(from_s, to_s, each.rate_mbps))
        return fidelity.intervals(self._net.topology.link(source, destination).rate_mbps, changes)

    def port_checks(self, source: str, destination: str) -> list[Check] | None:
        """Check the port's gaps, with its name before each check; None where it was not busy enough to judge."""
        deviation, _ = self.deviation(source, destination)
        if len(deviation.deviation) < fidelity.LEAST_BUSY_GAPS:
            return None
        return fidelity.port_checks(deviation, f"{source} to {destination}")

    def machine_checks(self, missed_packets: int | None = None) -> list[Check]:
        """Check the machine's state during the recording. missed_packets : missed by taps; None to add up all taps."""
        _ = self._table
        if missed_packets is None:
            missed_packets = sum(missed for _, missed in self._packets.values())
        return fidelity.machine_checks(
            run_by=f"tier {self._net.tier}, kernel {platform.release()}",
            missed_packets=missed_packets + self._refused,
            packets_a_frame=self._packets_a_frame,
            stalled_share=self._stall_us / 1e6 / self._duration_s,
            stolen_share=self._steal_ticks / os.sysconf("SC_CLK_TCK") / self._duration_s,
        )
