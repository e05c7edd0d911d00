"""What a network in real time cannot do: rates, delays, queues and TCP settings that it refuses."""

from __future__ import annotations

from netrepro.emulation.netem import check_netem
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, own_settings
from netrepro.networks.links import Link
from netrepro.networks.queues import DropTail, NicPacer
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Flow, PoissonFlows

# A shaped packet costs a core about 6 us (UDP send, tbf, veth, receive): its transmission time at 2 Gb/s.
MAX_RATE_MBPS = 2000.0
NO_SPRAYING = "emulated routers choose a path for each flow, not by packet_spraying"


def check_experiment(experiment: Experiment) -> None:
    """Raise NetreproError for what a network in real time cannot do: packet spraying, and what check_change and
    check_flows refuse."""
    if experiment.routing.scheme == "packet_spraying":
        raise NetreproError(NO_SPRAYING, "use tier 'simulated'")
    for change in experiment.changes:
        check_change(experiment.topology, change)
    check_flows(experiment)


def check_flows(experiment: Experiment) -> None:
    """Raise NetreproError for flows that need subflows or, beside the congestion control, TCP settings of their own."""
    for entry in experiment.traffic:
        if isinstance(entry, (Flow, PoissonFlows)) and entry.subflows > 1:
            raise NetreproError(
                f"a flow of {entry.subflows} subflows on an emulated network", "use tier 'virtual' or 'simulated'"
            )
        own = [name for name in own_settings(experiment, entry) if name != "congestion_control"]
        if own:
            raise NetreproError(
                f"a flow with {', '.join(own)} of its own, and an emulated host has one for all its flows",
                "give it to the experiment's Tcp, or use tier 'virtual' or 'simulated'",
            )


def is_wire(link: Link) -> bool:
    """Tell whether a link is more than a rate and a buffer: it has a delay, jitter, loss or reordering."""
    return bool(link.delay_ms or link.loss or link.jitter_ms or link.reordering)


def check_change(topology: Topology, change: LinkChange) -> None:
    """Raise NetreproError for a change that is impossible in real time: a rate that the kernel cannot keep, or a delay
    or loss of a cable that was built without netem (no delay, loss, jitter or reordering)."""
    what = f"the link from {change.source} to {change.destination} at {change.at_s:g} s"
    if change.rate_mbps is not None:
        check_rate(what, change.rate_mbps)
    ends = change.source, change.destination
    if (change.delay_ms or change.loss) and not any(is_wire(topology.link(*way)) for way in (ends, ends[::-1])):
        raise NetreproError(
            f"{what}: a delay or a loss, and in real time a cable without them has no netem",
            "give the link a small delay_ms from the beginning, or use tier 'virtual' or 'simulated'",
        )


def check_rate(what: str, rate_mbps: float) -> None:
    """Raise NetreproError for a rate above MAX_RATE_MBPS; `what` names the link in errors."""
    if rate_mbps > MAX_RATE_MBPS:
        raise NetreproError(
            f"{what}: {rate_mbps:g} Mb/s; above {MAX_RATE_MBPS:g} Mb/s a packet is over before a kernel has handled it",
            "scale rates down together, or use tier 'virtual' or 'simulated'",
        )


def check_link(what: str, link: Link) -> None:
    """Raise NetreproError for a link that is impossible in real time; `what` names the link in errors."""
    check_rate(what, link.rate_mbps)
    check_host_port(what, link)
    if link.mtu_bytes is not None:
        raise NetreproError(f"{what}: mtu_bytes in real time", "use tier 'virtual' or 'simulated'")
    if link.policer is not None:
        raise NetreproError(f"{what}: a policer in real time", "use tier 'virtual' or 'simulated'")
    if not isinstance(link.queue, DropTail):
        raise NetreproError(
            f"{what}: a queue of kind {type(link.queue).__name__}; in real time links are drop-tail",
            "use tier 'virtual' or 'simulated'",
        )
    check_netem(what, link)


def check_host_port(what: str, link: Link) -> None:
    """Raise NetreproError for a link with segmentation offload or a NicPacer; `what` names the link in errors."""
    if link.offload_bytes or isinstance(link.queue, NicPacer):
        asked = "segmentation offload" if link.offload_bytes else "a NicPacer"
        raise NetreproError(f"{what}: {asked}, which kernels have not as described", "use tier 'simulated'")
