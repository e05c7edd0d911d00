"""How the flows of an experiment speak TCP on the virtual kernel.

| of `Tcp`                                                  | told to       | flows may differ in it        |
|-----------------------------------------------------------|---------------|-------------------------------|
| congestion_control, segment_bytes, pacing                 | their sockets | yes                           |
| receive_window_bytes                                      | their sockets | yes, if all are below 1 MiB   |
| initial_window_segments, min_rto_ms (1 or more),          | all hosts     | no                            |
| delayed_ack_ms (0 or 40), sack, tail_loss_probe, ecn,     |               |                               |
| slow_start_after_idle, both ratios of pacing              |               |                               |
| hystart, dctcp_alpha                                      | the kernel    | no                            |

The rest is refused by name: timers, receivers and recoveries that this kernel has not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from netrepro.emulation.plan import check_connections
from netrepro.emulation.tcp import BUFFER_PER_WINDOW, LARGE_WINDOW_BYTES, SocketKind, check_tcp, socket_kind
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.networks.workloads import Datagrams, Tcp

LEAST_RTO_MS = 1.0
OF_SOCKETS = ("congestion_control", "segment_bytes", "pacing", "receive_window_bytes")


@dataclass(frozen=True)
class Speech:
    """tcp : what all hosts, and the kernel, are told. kinds : of sockets; kind_of_flow : flow -> which of them."""

    tcp: Tcp
    kinds: tuple[SocketKind, ...]
    kind_of_flow: tuple[int, ...]


def speech_of(experiment: Experiment) -> Speech:
    """How its flows speak. Raises NetreproError for what this kernel does not do, or not for one flow alone."""
    check_connections(experiment)
    of_entry = [experiment.tcp_of(entry) for entry in experiment.traffic]
    spoken = [tcp for tcp, entry in zip(of_entry, experiment.traffic, strict=True) if not isinstance(entry, Datagrams)]
    ways = list(dict.fromkeys(spoken)) or [experiment.tcp]
    for tcp in ways:
        check_tcp(replace(tcp, hystart=True, dctcp_alpha=1.0), LEAST_RTO_MS)
        _check_alike(ways[0], tcp)
    windows = {tcp.receive_window_bytes for tcp in ways}
    if len(windows) > 1 and max(windows) >= LARGE_WINDOW_BYTES:
        raise NetreproError(
            f"Tcp: flows with receive_window_bytes = {' and '.join(map(str, sorted(windows)))}; windows of 1 MiB or "
            "more grow, as all hosts let them",
            "give all flows the same, or smaller ones, or use tier 'simulated'",
        )
    of_way = [socket_kind(tcp) for tcp in ways]
    if len(windows) > 1:  # the hosts' buffers are those of the largest
        of_way = [kind._replace(receive_buffer_bytes=BUFFER_PER_WINDOW * kind.receive_window_bytes) for kind in of_way]
    kinds = list(dict.fromkeys(of_way))
    kind = {tcp: kinds.index(of_sockets) for tcp, of_sockets in zip(ways, of_way, strict=True)}
    of_flows = tuple(kind.get(of_entry[entry], 0) for entry in experiment.flow_table["entry"])
    return Speech(replace(ways[0], receive_window_bytes=max(windows)), tuple(kinds), of_flows)


def _check_alike(first: Tcp, other: Tcp) -> None:
    for name in (each.name for each in fields(Tcp) if each.name not in OF_SOCKETS):
        values = getattr(first, name), getattr(other, name)
        if values[0] != values[1]:
            raise NetreproError(
                f"Tcp: flows with {name} = {values[0]!r} and {values[1]!r}; the virtual kernel has one for all",
                "give all flows the same, or use tier 'simulated'",
            )
