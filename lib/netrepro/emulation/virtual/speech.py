"""How the flows of an experiment speak TCP on the virtual kernel.

| of `Tcp`                                                  | told to       | flows may differ in it        |
|-----------------------------------------------------------|---------------|-------------------------------|
| congestion_control, segment_bytes, pacing                 | their sockets | yes                           |
| receive_window_bytes                                      | their sockets | yes, if all are below 1 MiB   |
| counts "segments", or "acknowledgements" with Reno, CUBIC |               |                               |
| unpaced_segments 10, or 0 with Reno, CUBIC                |               |                               |
| initial_window_segments, min_rto_ms (1 or more),          | all hosts     | no                            |
| delayed_ack_ms (0 or 40), sack, tail_loss_probe, ecn,     |               |                               |
| slow_start_after_idle, both ratios of pacing,             |               |                               |
| receive_window_grows                                      |               |                               |
| hystart, dctcp_alpha, suss_rounds, suss_guard,            | the kernel    | no                            |
| suss_pacing, hystart_rounds_from_start                    |               |                               |

Reno and CUBIC that count acknowledgements or pace their first segments, and SUSS, are modules (lib/kernel/modules).
Counted are acknowledgements of whole segments: of others the kernel tells its controls nothing.
CUBIC of the kernel begins rounds of HyStart as its release does; that of the modules, as which SUSS with suss_rounds=0
counts, too, begins them as one says.
The rest is refused by name: timers, receivers, recoveries and cuts of the window that this kernel has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from netrepro.emulation.plan import check_replicas
from netrepro.emulation.source_routes import Connection
from netrepro.emulation.tcp import (
    BUFFER_PER_WINDOW,
    DCTCP_ALPHA,
    LARGE_WINDOW_BYTES,
    UNPACED_SEGMENTS,
    SocketKind,
    check_tcp,
    socket_kind,
)
from netrepro.emulation.virtual.multipath import check_subflows, has_subflows, socket_kind_of_subflows
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.networks.workloads import Datagrams, Tcp

LEAST_RTO_MS = 1.0
# What this kernel takes beyond the others', as they take it.
_HONOURED: dict[str, Any] = {
    "hystart": True,
    "hystart_rounds_from_start": False,
    "dctcp_alpha": DCTCP_ALPHA,
    "counts": "segments",
    "unpaced_segments": UNPACED_SEGMENTS,
}
OF_SOCKETS = (
    "congestion_control", "segment_bytes", "pacing", "receive_window_bytes", "counts", "unpaced_segments"
)  # fmt: skip
# Control -> whether it counts acknowledgements, whether it paces from the first segment on -> its name in the kernel.
VARIANTS = {
    "reno": {
        (False, False): "reno",
        (True, False): "ack_counting",
        (False, True): "paced_reno",
        (True, True): "paced_counting",
    },
    "cubic": {
        (False, False): "cubic",
        (True, False): "cubic_counting",
        (False, True): "cubic_paced",
        (True, True): "cubic_both",
    },
}

OF_MODULE = {"suss", *VARIANTS["cubic"].values()} - {"cubic"}  # those whose HyStart has switches of its own


@dataclass(frozen=True)
class Speech:
    """tcp : what all hosts, and the kernel, are told. kinds : of sockets. Of each flow: which kind it has, and the
    kernel's name of its congestion control, "" for datagrams."""

    tcp: Tcp
    kinds: tuple[SocketKind, ...]
    kind_of_flow: tuple[int, ...]
    control_of_flow: tuple[str, ...]


def speech_of(experiment: Experiment, made: Sequence[Connection]) -> Speech:
    """How its flows speak; `made` are its connections.

    Raises NetreproError for what this kernel does not do, or not for one flow alone.
    """
    check_replicas(experiment)
    check_subflows(experiment, made)
    of_entry = [experiment.tcp_of(entry) for entry in experiment.traffic]
    spoken = [tcp for tcp, entry in zip(of_entry, experiment.traffic, strict=True) if not isinstance(entry, Datagrams)]
    ways = list(dict.fromkeys(spoken)) or [experiment.tcp]
    for tcp in ways:
        check_tcp(replace(tcp, **_HONOURED), LEAST_RTO_MS)
        _check_alike(ways[0], tcp)
    windows = {tcp.receive_window_bytes for tcp in ways}
    if len(windows) > 1 and max(windows) >= LARGE_WINDOW_BYTES:
        raise NetreproError(
            f"Tcp: flows with receive_window_bytes = {' and '.join(map(str, sorted(windows)))}; windows of 1 MiB or "
            "more grow, as all hosts let them",
            "give all flows the same, or smaller ones, or use tier 'simulated'",
        )
    kinds: dict[SocketKind, int] = {}
    of_entries = []
    for entry, tcp in zip(experiment.traffic, of_entry, strict=True):
        if isinstance(entry, Datagrams):
            of_entries.append(0)
            continue
        kind = socket_kind_of_subflows(tcp) if has_subflows(entry) else socket_kind(tcp)
        if len(windows) > 1 and not kind.multipath:  # the hosts' buffers are those of the largest
            kind = kind._replace(receive_buffer_bytes=BUFFER_PER_WINDOW * kind.receive_window_bytes)
        of_entries.append(kinds.setdefault(kind, len(kinds)))
    flows = experiment.flow_table
    of_flows = [of_entry[entry] for entry in flows["entry"]]
    return Speech(
        replace(ways[0], receive_window_bytes=max(windows)),
        tuple(kinds) or (socket_kind(experiment.tcp),),
        tuple(of_entries[entry] for entry in flows["entry"]),
        tuple(_kernel_control(*each) for each in zip(flows["congestion_control"], of_flows, strict=True)),
    )


def _kernel_control(control: str, tcp: Tcp) -> str:
    """The kernel's name of it. Raises NetreproError for what only Reno and CUBIC do, of another."""
    counting = tcp.counts == "acknowledgements"
    paced = tcp.pacing and tcp.unpaced_segments == 0
    names = VARIANTS.get(control, {(False, False): control})
    if control and (tcp.counts == "bytes" or (counting and len(names) == 1)):
        raise NetreproError(f"Tcp: {control} with counts = {tcp.counts!r}", "give 'segments', or use tier 'simulated'")
    if control and tcp.pacing and tcp.unpaced_segments != UNPACED_SEGMENTS and not (paced and len(names) > 1):
        raise NetreproError(
            f"Tcp: {control} with unpaced_segments = {tcp.unpaced_segments}; the kernel does not pace the first "
            f"{UNPACED_SEGMENTS}",
            f"give {UNPACED_SEGMENTS}, or 0 of Reno or CUBIC, or use tier 'simulated'",
        )
    return names[counting, paced] if control else ""


def _check_alike(first: Tcp, other: Tcp) -> None:
    for name in (each.name for each in fields(Tcp) if each.name not in OF_SOCKETS):
        values = getattr(first, name), getattr(other, name)
        if values[0] != values[1]:
            raise NetreproError(
                f"Tcp: flows with {name} = {values[0]!r} and {values[1]!r}; the virtual kernel has one for all",
                "give all flows the same, or use tier 'simulated'",
            )
