"""Ports of a network in virtual time under observation, from the events that their lines write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Protocol

import pandas as pd

from netrepro.emulation.network import Recording
from netrepro.emulation.recording import throughput_in
from netrepro.emulation.virtual.events import Events
from netrepro.emulation.virtual.plan import VirtualPlan
from netrepro.errors import NetreproError
from netrepro.files import whole_file
from netrepro.networks.experiment import LINK_COLUMNS

Port = tuple[str, str]


class ObservedNetwork(Protocol):
    """The side of VirtualNetwork that recordings need."""

    def observe(self, ports: Sequence[Port], captured: Sequence[Port]) -> dict[Port, IO[bytes]]: ...

    def unobserve(self, ports: Sequence[Port], files: Mapping[Port, IO[bytes]]) -> None: ...

    def report(self) -> tuple[int, int]: ...

    def events(self, first: int, last: int) -> bytes: ...

    @property
    def monotonic_s(self) -> float: ...

    @property
    def plan(self) -> VirtualPlan: ...


class VirtualRecording(Recording):
    """Ports under observation: every packet that they queue, send or drop, at its time.

    A queue's first sample is 0 until something comes or leaves.
    """

    def __init__(
        self,
        net: ObservedNetwork,
        queues: Sequence[Port],
        packets: Sequence[Port],
        interval_ms: float,
        captures: Path | None,
    ):
        self._net, self._interval_s, self._captures = net, interval_ms / 1e3, captures
        self._sampled, self._recorded = list(dict.fromkeys((*queues, *packets))), list(packets)
        self._seen: Events | None = None

    def __enter__(self) -> VirtualRecording:
        self._files = self._net.observe(self._sampled, self._recorded if self._captures else ())
        self._from, self._begun = self._net.report()
        self._began_s = self._net.monotonic_s
        return self

    def __exit__(self, *exception: object) -> None:
        failed = any(exception)
        with suppress(NetreproError) if failed else nullcontext():  # the network may have ended: what failed says more
            if not failed:
                self._collect()
            self._net.unobserve(self._sampled, self._files)
        if not failed and self._captures:
            for port, file in self._files.items():
                file.seek(0)
                with whole_file(self._captures / f"{'-'.join(port)}.pcap") as part:
                    part.write_bytes(file.read())

    def _collect(self) -> None:
        self._duration_s = self._net.monotonic_s - self._began_s
        _, ended = self._net.report()
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
        found = self._events.packets(self._recorded, dict(flows or {}), self._duration_s)
        kept = ["source", "destination", *(["flow"] if flows is not None else []), "time_s", "size_bytes"]
        return found[kept]

    def throughput(self, window_ms: float = 10.0) -> pd.DataFrame:
        return throughput_in(self._events.sent(self._sampled, self._interval_s, self._duration_s), window_ms)

    def links(self) -> pd.DataFrame:
        table, before = self._events.totals(), self._before.totals()
        counted = table.columns[2:]
        table[counted] -= before[counted]
        table["utilisation"] = (table.pop("busy_s") / self._duration_s).clip(upper=1.0)
        return table[LINK_COLUMNS]
