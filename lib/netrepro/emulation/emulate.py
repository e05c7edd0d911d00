"""Chooses the kernel: for an Experiment (`emulate`), or for a network that programs run in (`Emulation`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from netrepro.emulation.network import Network
from netrepro.emulation.real_time.experiment import emulate_in_real_time
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.emulation.virtual.instance import MEMORY_MB
from netrepro.emulation.virtual.network import PATIENCE_S, VirtualNetwork
from netrepro.errors import NetreproError
from netrepro.networks.description import check_not_negative, whole_number
from netrepro.networks.experiment import Experiment, Measurements, check_is_experiment
from netrepro.networks.routing import Path, Routing
from netrepro.networks.topology import Topology
from netrepro.networks.workloads import Tcp


def emulate(
    experiment: Experiment,
    tier: str = "auto",
    progress: Callable[[float], None] | None = None,
    prepare: Callable[[RealTimeNetwork], None] | None = None,
    *,
    programs_control: str = "",
    captures: str | os.PathLike[str] | None = None,
    cpu_limits: Mapping[str, float] | None = None,
    until_complete: bool = False,
) -> Measurements:
    """Run the experiment on this machine's kernel and return what it measured.

    Parameters
    ----------
    experiment : what to run; in real time it takes `duration_s`. Connections have the source ports 10000 + flow, those
        of replicas follow. Requests and answers of one server share a connection, which the client opens.
    tier : "auto", "privileged" or "rootless" in real time, or "virtual", which takes as long as its packets need: see
        emulate_virtually. In virtual time there are no prepare and cpu_limits.
    progress : called with the share of the time that has passed, 0 to 1, ten times a second.
    prepare : called with the network once it is built, before its traffic begins: to start programs in its hosts, which
        end with it, or to change what the experiment cannot describe.
    programs_control : congestion control of what such programs send, and of all flows; "" leaves both to themselves.
    captures : a folder for a pcap of each of `measure.packets`, as Network.record writes it.
    cpu_limits : cores that programs of a host may have, as of Emulation; the traffic itself is not held back.
    until_complete : end when all flows have ended, if that is earlier; rates of links are then of the shorter time.

    Ctrl-C, or an exception from `progress`, ends it at once and leaves nothing behind. Beside FLOW_COLUMNS, `flows`
    has `connection_attempts` (SYNs sent) and `errno` of a connection that broke, else 0. `timeouts` is NaN on kernels
    that do not count them, `wait_ms` of packets is NaN where a kernel's queue does not tell.

    `fidelity` checks every measured port (queue or packets) whose queue was waiting often enough to judge, that no
    packet escaped the recording, that no port may send frames of several packets, and that senders had a
    processor when they wanted one; it says which tier and kernel that was. Raises NetreproError before anything is
    built for what a kernel cannot honour (make_plan, check_tcp, check_experiment) and when the tier cannot be had;
    while it is built for what this kernel lacks.
    """
    check_is_experiment(experiment, progress)
    if tier == "simulated":
        raise NetreproError("emulate(...) on tier 'simulated', which has no kernel", "use simulate(experiment)")
    if tier == "virtual":
        _check_absent(tier, prepare=prepare, programs_control=programs_control, cpu_limits=cpu_limits)
        return emulate_virtually(experiment, progress, captures=captures, until_complete=until_complete)
    return emulate_in_real_time(
        experiment,
        tier,
        progress,
        prepare,
        programs_control=programs_control,
        captures=captures,
        cpu_limits=cpu_limits,
        until_complete=until_complete,
    )


class Emulation:
    """A topology to be built: `with Emulation(topology) as net: net["h1"].run(["ping", "-c", "1", "h2"])`.

    topology : hosts, switches (routers that forward over all shortest paths, chosen flow by flow) and links.
    tier : "auto", "privileged" or "rootless", the machine's kernel in real time (RealTimeNetwork says how); or
        "virtual", a kernel in virtual time (VirtualNetwork).
    congestion_control : of all hosts, or host -> name (others: cubic). Always set, because the machine's own
        default may be anything; "" leaves it to the programs' sockets.
    seed : of the routers' path choice, of losses and, in virtual time, of all else that is random.
    address_pool : hosts take its addresses from the first on (h1 10.0.0.1), switches from the last downwards.
    tcp : how hosts speak TCP, but for the congestion control; None leaves the kernel's own settings. Or host -> Tcp, to
        leave those of other hosts.
    routing : "ecmp", over all shortest paths, or "spanning_tree"; other addresses than those of `paths` have "ecmp"
        with "k_shortest_paths".
    paths : nodes from host to host; `net.path_address(path)` is an address of the last one that leads over the path.
    ipv6 : beside IPv4: `net["h1"].ipv6_address` is fd00::10.0.0.1 (fd00::a00:1), and routes are the same. Off by
        default, because a large network takes longer to build.
    cpu_limits : in real time, host -> cores that its programs and functions may have together, such as 0.2. Control
        groups keep them where this process may make some, else nice +10 holds the programs back: `how_cpu_is_limited`
        of the network says which.
    host_delay_packets : in virtual time, a host takes a random time for each packet that it sends, up to that of so
        many full packets at the slowest link, as in Experiment. None takes none: papers' experiments ask for one
        packet, so that nothing rests on hosts in lock step.
    patience_s, memory_mb : in virtual time, seconds of real time in which it has to advance, and the memory of kernel
        and programs.

    Leaving the `with` block, Ctrl-C, or any end of the calling process ends every program, and so the network. The
    machine's own network is not touched.

    Raises NetreproError before anything is built for what the kernel cannot honour (make_plan, make_virtual_plan), for
    a tier that cannot be had and for what is another tier's; on entering, for what the kernel refuses: a congestion
    control it lacks, a queue, a setting.
    """

    def __init__(
        self,
        topology: Topology,
        tier: str = "auto",
        congestion_control: str | Mapping[str, str] = "cubic",
        seed: int = 1,
        address_pool: str = "10.0.0.0/8",
        tcp: Tcp | Mapping[str, Tcp] | None = None,
        routing: Routing | str = "ecmp",
        paths: Iterable[Path] = (),
        *,
        ipv6: bool = False,
        cpu_limits: Mapping[str, float] | None = None,
        host_delay_packets: float | None = None,
        patience_s: float | None = None,
        memory_mb: int | None = None,
    ):
        if not isinstance(topology, Topology):
            raise NetreproError(
                f"{type(topology).__name__} in place of a network",
                "give a Topology, such as dumbbell(...), or emulate(...) an Experiment",
            )
        for name, value in {"host_delay_packets": host_delay_packets, "patience_s": patience_s}.items():
            if value is not None:
                check_not_negative(value, name)
        if memory_mb is not None:
            whole_number(memory_mb, "memory_mb")
        seed = whole_number(seed, "seed", least=0)
        network: Network
        if tier == "virtual":
            _check_absent(tier, cpu_limits=cpu_limits)
            network = VirtualNetwork(
                topology,
                congestion_control,
                seed,
                address_pool,
                tcp,
                routing,
                paths,
                ipv6=ipv6,
                host_delay_packets=host_delay_packets or 0.0,
                patience_s=PATIENCE_S if patience_s is None else patience_s,
                memory_mb=MEMORY_MB if memory_mb is None else memory_mb,
            )
        else:
            _check_absent(tier, host_delay_packets=host_delay_packets, patience_s=patience_s, memory_mb=memory_mb)
            network = RealTimeNetwork(
                topology, tier, congestion_control, seed, address_pool, tcp, routing, paths, cpu_limits, ipv6
            )
        self._network = network

    def __enter__(self) -> Network:
        return self._network.__enter__()

    def __exit__(self, *exception: object) -> None:
        self._network.__exit__(*exception)


def _check_absent(tier: str, **arguments: object) -> None:
    """Raise NetreproError for an argument that this tier has no use for."""
    for name in (name for name, wanted in arguments.items() if wanted):
        raise NetreproError(f"{name} on tier {tier!r}, which has none", "leave it out, or use another tier")
