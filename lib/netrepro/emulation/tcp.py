"""Kernel settings and route attributes that give hosts the TCP that an experiment's `Tcp` describes."""

from __future__ import annotations

from typing import NamedTuple

from netrepro.errors import NetreproError
from netrepro.networks.workloads import MAX_RTO_MS, Tcp

# Values that are constants of the kernel, and the shortest time that its timers resolve (they tick every 1 to 10 ms).
INITIAL_RTO_MS, DELAYED_ACK_MS, LEAST_RTO_MS = 1000.0, 40.0, 10.0
FULL_SEGMENT_BYTES, LEAST_SEGMENT_BYTES = 1448, 76  # limits: an Ethernet frame, the kernel's TCP_MAXSEG
TIMESTAMP_BYTES = 12
OF_LINUX: dict[str, str | float | None] = {
    "recovery": "linux",
    "counts": "segments",
    "receiver": None,
    "cumulative_nonce": False,
    "boundary_spread_bytes": 0,
    "accurate_ecn": False,
    "ect_1": False,
    "receiver_ecn": "accurate",
    "prague_heeds_marks": True,
    "max_rto_ms": MAX_RTO_MS,
    "bursts": False,  # frames are single segments here (gso_max_segs 1)
}
SYN_LINEAR_TIMEOUTS = "net/ipv4/tcp_syn_linear_timeouts"
DCTCP_ALPHA, UNPACED_SEGMENTS, EXIT_SHARE = 1.0, 10, 0.5
SEGMENT_MEMORY_BYTES = 832  # send buffer that a segment takes beside its payload (Linux 6.12 on 64 bits)
# The kernel charges a packet's bookkeeping to the socket's buffer; a window that it grows is at most half the buffer.
BUFFER_PER_WINDOW, BUFFER_PER_GROWN_WINDOW, FIRST_BUFFER_BYTES = 4, 2, 131_072
LARGE_WINDOW_BYTES = 2**20
# Attributes of routes, linux/rtnetlink.h.
LOCK, INITIAL_WINDOW, MINIMUM_TIMEOUT, QUICK_ACKNOWLEDGEMENTS = 1, 11, 13, 15


def check_tcp(tcp: Tcp, least_rto_ms: float = LEAST_RTO_MS, most_segment_bytes: int = FULL_SEGMENT_BYTES) -> None:
    """Raise NetreproError for TCP settings that no kernel lets a host set.

    least_rto_ms : shortest timeout that the kernel's timers resolve. most_segment_bytes : payload that a frame of the
    links holds.
    """

    def refuse(what: str, why: str, instead: str) -> None:
        raise NetreproError(f"Tcp: {what}; {why}", f"{instead}, or use tier 'simulated'")

    if tcp.initial_rto_ms != INITIAL_RTO_MS:
        refuse(
            f"initial_rto_ms = {tcp.initial_rto_ms:g}",
            "the kernel's first timeout is a constant",
            f"give {INITIAL_RTO_MS:g}",
        )
    if tcp.delayed_ack_ms not in (0, DELAYED_ACK_MS):
        refuse(
            f"delayed_ack_ms = {tcp.delayed_ack_ms:g}",
            f"the kernel's delay is at least {DELAYED_ACK_MS:g} ms, or none",
            f"give {DELAYED_ACK_MS:g} or 0",
        )
    if tcp.min_rto_ms < least_rto_ms:
        refuse(
            f"min_rto_ms = {tcp.min_rto_ms:g}",
            "the kernel's timers tick every 1 to 10 ms",
            f"give {least_rto_ms:g} or more",
        )
    if not LEAST_SEGMENT_BYTES <= tcp.segment_bytes <= most_segment_bytes:
        refuse(
            f"segment_bytes = {tcp.segment_bytes}",
            f"frames of emulated links hold {most_segment_bytes}, as Ethernet's or as mtu_bytes says",
            f"give {LEAST_SEGMENT_BYTES} to {most_segment_bytes}",
        )
    if tcp.dctcp_alpha != DCTCP_ALPHA:
        refuse(f"dctcp_alpha = {tcp.dctcp_alpha:g}", "the kernel's DCTCP starts with 1", "give 1")
    if tcp.slow_start_exit_share != EXIT_SHARE:
        refuse(
            f"slow_start_exit_share = {tcp.slow_start_exit_share:g}", "the kernel's Reno halves", f"give {EXIT_SHARE:g}"
        )
    if not tcp.hystart:
        refuse("hystart = False", "the kernel's CUBIC has one switch for the whole machine", "leave it on")
    if not tcp.hystart_rounds_from_start:
        refuse("hystart_rounds_from_start = False", "the kernel begins rounds as its release does", "leave it on")
    for name, only in OF_LINUX.items():
        if getattr(tcp, name) != only:
            refuse(f"{name} = {getattr(tcp, name)!r}", "kernels of today are Linux's", f"give {only!r}")
    if tcp.pacing and tcp.unpaced_segments != UNPACED_SEGMENTS:
        refuse(
            f"unpaced_segments = {tcp.unpaced_segments}",
            f"the kernel does not pace the first {UNPACED_SEGMENTS}",
            f"give {UNPACED_SEGMENTS}",
        )


def window_clamp_bytes(tcp: Tcp) -> int:
    """Return the exact size of a receiver's window (bytes), or 0 to let the kernel grow the window up to its buffer.

    While the kernel grows a window, each segment is acknowledged. The kernel's own steps keep that time short. So only
    small windows, which are reached soon, are set exactly from the start.
    """
    return tcp.receive_window_bytes if tcp.receive_window_bytes < LARGE_WINDOW_BYTES else 0


class SocketKind(NamedTuple):
    """The TCP settings of a socket; 0 leaves the choice to the kernel.

    receive_window_bytes : exact size of the receiver's window. receive_buffer_bytes : receive buffer of this socket, in
    place of the host's. segment_bytes : payload and time stamps of a segment. paces : True to pace segments.
    multipath : True for MPTCP.
    """

    receive_window_bytes: int
    receive_buffer_bytes: int
    segment_bytes: int
    paces: bool
    multipath: bool = False


def socket_kind(tcp: Tcp) -> SocketKind:
    """Return the SocketKind of connections with these settings, on hosts that all have them."""
    segment_bytes = 0 if tcp.segment_bytes == FULL_SEGMENT_BYTES else tcp.segment_bytes + TIMESTAMP_BYTES
    return SocketKind(window_clamp_bytes(tcp), 0, segment_bytes, tcp.pacing)


def host_sysctls(tcp: Tcp) -> dict[str, str]:
    """Return kernel settings (sysctls) of every host's namespace: name -> value."""
    exact = window_clamp_bytes(tcp) > 0
    buffer_bytes = (BUFFER_PER_WINDOW if exact else BUFFER_PER_GROWN_WINDOW) * tcp.receive_window_bytes
    first_bytes = buffer_bytes if exact or not tcp.receive_window_grows else FIRST_BUFFER_BYTES
    return {
        "net/ipv4/tcp_sack": str(int(tcp.sack)),
        "net/ipv4/tcp_ecn": str(int(tcp.ecn)),
        "net/ipv4/tcp_early_retrans": "3" if tcp.tail_loss_probe else "0",
        SYN_LINEAR_TIMEOUTS: str(tcp.syn_linear_timeouts),
        "net/ipv4/tcp_slow_start_after_idle": str(int(tcp.slow_start_after_idle)),
        "net/ipv4/tcp_pacing_ss_ratio": str(round(100 * tcp.pacing_slow_start_ratio)),
        "net/ipv4/tcp_pacing_ca_ratio": str(round(100 * tcp.pacing_ratio)),
        "net/ipv4/tcp_moderate_rcvbuf": str(int(not exact)),
        "net/ipv4/tcp_rmem": f"4096 {first_bytes} {buffer_bytes}",
        "net/ipv4/tcp_wmem": _send_buffer(tcp) or f"4096 16384 {max(buffer_bytes, 1 << 22)}",
    }


def _send_buffer(tcp: Tcp) -> str:
    """Compute net.ipv4.tcp_wmem: the memory of the whole segments that fit the send buffer; "" for no limit."""
    if tcp.send_buffer_bytes is None:
        return ""
    memory = tcp.send_buffer_bytes // tcp.segment_bytes * (tcp.segment_bytes + SEGMENT_MEMORY_BYTES)
    return f"4096 {memory} {memory}"


def route_metrics(tcp: Tcp) -> dict[int, int]:
    """Return attributes of every host's routes: number (RTAX_...) -> value."""
    metrics = {
        LOCK: 1 << MINIMUM_TIMEOUT,
        INITIAL_WINDOW: tcp.initial_window_segments,
        MINIMUM_TIMEOUT: round(tcp.min_rto_ms),
    }
    if tcp.delayed_ack_ms == 0:
        metrics[QUICK_ACKNOWLEDGEMENTS] = 1
    return metrics
