"""Recordings of ports of a network in virtual time, made from the events that the ports' lines write."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import pandas as pd

from netrepro.emulation.live import Packet, live_capture
from netrepro.emulation.network import Recording
from netrepro.emulation.recording import pcap_header, throughput_in
from netrepro.emulation.virtual.events import Events
from netrepro.emulation.virtual.plan import CAPTURED_BYTES, VirtualPlan
from netrepro.errors import NetreproError
from netrepro.files import whole_file

Port = tuple[str, str]
RECORD = struct.Struct("=4I")  # the header of a packet in a pcap
MOST_BYTES_AT_A_LOOK = 1 << 20  # read from a live capture at a time


class ObservedNetwork(Protocol):
    """The part of VirtualNetwork that recordings use."""

    def observe(self, ports: Sequence[Port], captured: Sequence[Port]) -> dict[Port, IO[bytes]]: ...

    def unobserve(self, ports: Sequence[Port], files: Mapping[Port, IO[bytes]]) -> None: ...

    def report(self) -> tuple[int, int]: ...

    def policed(self) -> np.ndarray: ...

    def events(self, first: int, last: int) -> bytes: ...

    @property
    def monotonic_s(self) -> float: ...

    @property
    def plan(self) -> VirtualPlan: ...


class VirtualRecording(Recording):
    """A recording of ports: every packet that they queue, send or drop, with its time.

    A queue's samples are 0 until a packet arrives or leaves for the first time.
    """

    def __init__(
        self,
        net: ObservedNetwork,
        queues: Sequence[Port],
        packets: Sequence[Port],
        interval_ms: float,
        captures: Path | None,
        live: int | str | os.PathLike[str] | None = None,
    ):
        self._net, self._interval_s, self._captures = net, interval_ms / 1e3, captures
        self._live = live_capture(live, packets)
        self._sampled, self._recorded = list(dict.fromkeys((*queues, *packets))), list(packets)
        self._seen: Events | None = None

    def __enter__(self) -> VirtualRecording:
        kept = self._recorded if self._captures or self._live else ()
        self._files = self._net.observe(self._sampled, kept)
        try:
            if self._live:
                self._given = [len(pcap_header(CAPTURED_BYTES)) for _ in self._files]
                self._live.open(self._files, CAPTURED_BYTES, self._new_packets)
        except BaseException:
            self._net.unobserve(self._sampled, self._files)
            raise
        self._from, self._begun = self._net.report()
        self._policed = self._net.policed()
        self._began_s = self._net.monotonic_s
        return self

    def __exit__(self, *exception: object) -> None:
        failed = any(exception)
        with suppress(NetreproError) if failed else nullcontext():  # an ended network: the first error says more
            try:
                if not failed:
                    self._collect()
            finally:
                try:
                    if self._live:
                        self._live.close()
                finally:
                    self._net.unobserve(self._sampled, self._files)
        if not failed and self._captures:
            for port, file in self._files.items():
                file.seek(0)
                with whole_file(self._captures / f"{'-'.join(port)}.pcap") as part:
                    part.write_bytes(file.read())

    def _new_packets(self) -> list[Packet]:
        """Return packets that the kernel has written since the last call, for LiveCapture, by time."""
        packets: list[Packet] = []
        for place, file in enumerate(self._files.values()):
            content = os.pread(file.fileno(), MOST_BYTES_AT_A_LOOK, self._given[place])
            taken = 0
            while len(content) - taken >= RECORD.size:
                seconds, nanoseconds, kept, size_bytes = RECORD.unpack_from(content, taken)
                end = taken + RECORD.size + kept
                if end > len(content):
                    break
                packets.append((place, seconds * 10**9 + nanoseconds, size_bytes, content[taken + RECORD.size : end]))
                taken = end
            self._given[place] += taken
        return sorted(packets, key=lambda packet: packet[1])

    def _collect(self) -> None:
        self._duration_s = self._net.monotonic_s - self._began_s
        _, ended = self._net.report()
        self._policed = self._net.policed() - self._policed
        ports, began_ns = list(self._net.plan.ports), round(self._began_s * 1e9)
        content = self._net.events(self._from, ended)
        self._seen = Events(content, ports, began_ns)
        self._before = Events(content[: self._begun - self._from], ports, began_ns)

    @property
    def _events(self) -> Events:
        if self._seen is None:
            raise NetreproError("this recording has not ended", "read it after its `with` block")
        return self._seen

    def queues(self) -> pd.DataFrame:
        return self._events.sampled(self._sampled, self._interval_s, self._duration_s)

    def packets(self, flows: Mapping[int, int] | None = None) -> pd.DataFrame:
        table = self._events.packets(self._recorded, dict(flows or {}), self._duration_s)
        kept = ["source", "destination", *(["flow"] if flows is not None else []), "time_s", "size_bytes"]
        return table[kept]

    def throughput(self, window_ms: float = 10.0) -> pd.DataFrame:
        return throughput_in(self._events.sent(self._sampled, self._interval_s, self._duration_s), window_ms)

    def links(self) -> pd.DataFrame:
        return self._events.links(self._duration_s, self._before.totals(), self._policed)
