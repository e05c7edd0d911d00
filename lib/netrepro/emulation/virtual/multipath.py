"""Flows of several subflows on the virtual kernel: MPTCP (RFC 8684); the hosts' path managers open the subflows.

The flow's own connection is the first subflow, over the first of its `subflow_paths`. For each further path the
destination has another address, which it announces. The source then opens a subflow to this address; answers take the
same path back. So a receiving host announces one set of paths, to one source.

The kernel schedules subflows, and sends the data of a silent subflow again, in its own way. Each subflow has the flow's
congestion control; only LIA (lib/kernel/modules/tcp_lia.c) couples them. A small receive window is shared by all
subflows.
"""

from __future__ import annotations

from collections.abc import Iterable

from netrepro.emulation.source_routes import FlowConnection
from netrepro.emulation.tcp import FULL_SEGMENT_BYTES, LARGE_WINDOW_BYTES, SocketKind
from netrepro.emulation.virtual.instance import Instance
from netrepro.emulation.virtual.plan import VirtualPlan
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.networks.workloads import Flow, Tcp, Traffic

MOST_SUBFLOWS = 8  # limit of the kernel's path manager
SCHEDULER = "lowest_rtt"  # nearest to the kernel's only one ("default": the subflow whose queue would empty first)
BUFFER_PER_SHARED_WINDOW = 2304 / FULL_SEGMENT_BYTES  # the kernel charges 2304 bytes for a full segment


def has_subflows(entry: Traffic) -> bool:
    """Tell whether the entry's flows have several subflows (MPTCP)."""
    return getattr(entry, "subflows", 1) > 1


def socket_kind_of_subflows(tcp: Tcp) -> SocketKind:
    """Return the SocketKind of MPTCP, whose window only the socket's receive buffer limits."""
    window_bytes = tcp.receive_window_bytes
    buffer_bytes = round(BUFFER_PER_SHARED_WINDOW * window_bytes) if window_bytes < LARGE_WINDOW_BYTES else 0
    return SocketKind(0, buffer_bytes, 0, tcp.pacing, multipath=True)


def check_subflows(experiment: Experiment, made: Iterable[FlowConnection]) -> None:
    """Raise NetreproError for subflows that the kernel cannot open or treat as described."""
    remedy = "use tier 'simulated'"
    for entry in filter(has_subflows, experiment.traffic):
        if experiment.ipv6:
            raise NetreproError("subflows over IPv6, of which path managers are told IPv4's addresses", remedy)
        if not isinstance(entry, Flow) or not entry.subflow_paths:
            raise NetreproError(
                f"flows of {entry.subflows} subflows without paths; a kernel has one for each pair of addresses",  # type: ignore[union-attr]
                f"give Flow its subflow_paths, or {remedy}",
            )
        if entry.subflows > MOST_SUBFLOWS or len(set(entry.subflow_paths)) < entry.subflows:
            raise NetreproError(
                f"a flow over {entry.subflows} paths, {len(set(entry.subflow_paths))} of them different",
                f"give each its own, {MOST_SUBFLOWS} at most, or {remedy}",
            )
        tcp = experiment.tcp_of(entry)
        if tcp.send_buffer_bytes is not None:
            raise NetreproError(
                f"Tcp: send_buffer_bytes = {tcp.send_buffer_bytes} of subflows", f"leave it, or {remedy}"
            )
        for name in ("opportunistic_retransmission", "penalisation"):
            if getattr(tcp, name):
                raise NetreproError(
                    f"Tcp: {name} of subflows, which Linux's MPTCP has not", f"leave it off, or {remedy}"
                )
        if tcp.scheduler != SCHEDULER:
            raise NetreproError(
                f"Tcp: scheduler = {tcp.scheduler!r} of subflows, for which the kernel has its own",
                f"give {SCHEDULER!r}, or {remedy}",
            )
        if tcp.segment_bytes != FULL_SEGMENT_BYTES:
            raise NetreproError(
                f"Tcp: segment_bytes = {tcp.segment_bytes} of subflows, whose size the kernel chooses",
                f"give {FULL_SEGMENT_BYTES}, or {remedy}",
            )
    announced: dict[str, tuple] = {}
    for each in made:
        if each.further and announced.setdefault(each.accepter, (each.opener, each.further)) != (
            each.opener,
            each.further,
        ):
            raise NetreproError(
                f"flows with subflows to {each.accepter} over different paths; it announces the same to all",
                f"give them a host each, or {remedy}",
            )
    for opener, _ in announced.values():
        if opener in announced:
            raise NetreproError(
                f"{opener} sends and receives flows with subflows", f"give them a host each, or {remedy}"
            )


def tell_path_managers(instance: Instance, plan: VirtualPlan, made: Iterable[FlowConnection]) -> None:
    """Let destinations announce their paths' addresses, and sources open subflows to announced addresses."""
    told: dict[str, str] = {}
    for each in made:
        if each.further:
            most = len(each.further)
            told[each.opener] = f"ip mptcp limits set subflows {most} add_addr_accepted {most}"
            addresses = [plan.address_over(path, each.accepter) for path in each.further]
            announces = [f"ip mptcp endpoint add {address} signal" for address in addresses]
            told[each.accepter] = " && ".join([f"ip mptcp limits set subflows {most}", *announces])
    for host, command in told.items():
        _run(instance, host, command)


def _run(instance: Instance, host: str, command: str) -> None:
    started = instance.order(
        "start",
        node=host,
        command=["sh", "-c", command],
        environment={},
        folder="/run",
        output="/run/told",
        errors="/run/told",
        stdin="/dev/null",
    )
    status = instance.order("wait", program=started["program"], seconds=None)["status"]
    if status:
        raise NetreproError(
            f"{host} could not be told its subflows: status {status} of {command}",
            "see whether this machine's ip (iproute2) knows mptcp",
        )
