"""Chooses the kernel: for an Experiment (`emulate`), or for a network in which programs run (`Emulation`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from netrepro.emulation.network import Network
from netrepro.emulation.real_time.experiment import emulate_in_real_time
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.emulation.virtual.instance import MEMORY_MB, STARTS_AT, SYSCALL_COST_NS
from netrepro.emulation.virtual.network import PATIENCE_S, VirtualNetwork
from netrepro.emulation.virtual.spinning import SPIN_AFTER_S
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
    """Run the experiment on this machine's kernel and return its measurements.

    Parameters
    ----------
    experiment : the experiment; in real time it takes `duration_s`. A connection has the source port 10000 + flow;
        replicas have the ports after these. Requests and answers of one server share a connection, which the client
        opens.
    tier : "auto", "privileged" or "rootless" for real time; or "virtual", whose duration depends on the number of
        packets (see emulate_virtually) and which takes no prepare, programs_control and cpu_limits.
    progress : called with the share of the time that has passed, 0 to 1: in real time ten times a second, in virtual
        time at every hundredth.
    prepare : called with the network once it is built, before its traffic begins. It may start programs in hosts, which
        end with the network, or change what the experiment cannot describe.
    programs_control : congestion control of these programs and of all flows; "" lets programs and flows choose theirs.
    captures : a folder for a pcap of each of `measure.packets`, as Network.record writes it.
    cpu_limits : host -> cores that its programs may use, as in Emulation; the traffic itself is not limited.
    until_complete : end when all flows have ended, if that is earlier; link rates then refer to the shorter time.

    Ctrl-C, or an exception from `progress`, ends the run at once and leaves nothing behind. Beside FLOW_COLUMNS,
    `flows` has `connection_attempts` (SYNs sent) and `errno` (of a connection that broke, else 0). `timeouts` is NaN on
    kernels that do not count them. `wait_ms` of packets is NaN where a kernel's queue does not report it.

    `fidelity` checks every measured port (queue or packets) whose queue was busy often enough to judge. In real time it
    also checks that no packet escaped the recording, that no port sends frames of several packets, and that senders had
    a processor when they wanted one. It names tier and kernel.

    Raises NetreproError before anything is built for what a kernel cannot do (make_plan, check_tcp, check_experiment)
    and for a tier that is not available; during the build for what this kernel lacks.
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
    tier : "auto", "privileged" or "rootless" for the machine's kernel in real time (see RealTimeNetwork); or
        "virtual" for a kernel in virtual time (see VirtualNetwork).
    congestion_control : a name for all hosts, or host -> name (others: cubic). It is always set, because the machine's
        own default may be anything. In virtual time it is a host's sysctl net.ipv4.tcp_congestion_control, which
        programs may change, and sockets may choose another. In real time a host's routes set it, because a network
        namespace may not have every control as its sysctl: neither this sysctl nor what sockets choose before they
        connect then has an effect. "" leaves the choice to them.
    seed : seed of the routers' path choice, of losses and, in virtual time, of everything else that is random.
    address_pool : an IPv4 network. Hosts get its first addresses (h1 10.0.0.1), switches its last, counted downwards.
    tcp : TCP settings of all hosts, except the congestion control; or host -> Tcp. None, and hosts not named, keep the
        kernel's own settings.
    routing : "ecmp" (over all shortest paths) or "spanning_tree"; "k_shortest_paths" routes all addresses except those
        of `paths` like "ecmp".
    paths : each a sequence of nodes from host to host; packets from its first node to `net.path_address(path)` take it.
    ipv6 : True for IPv6 beside IPv4, with the same routes: `net["h1"].ipv6_address` is fd00::10.0.0.1 (fd00::a00:1).
        Off by default, because a large network takes longer to build.
    cpu_limits : in real time, host -> cores that its programs and functions may use together, such as 0.2. Control
        groups enforce the limits where this process may make some; else the programs run with nice +10. The network's
        `how_cpu_is_limited` tells which.
    host_delay_packets : in virtual time, the longest delay that a host adds to a packet that it sends. Its unit is the
        time of a full packet at the slowest link, as in Experiment; the delay is random. None adds no delay. Papers'
        experiments use one packet, so that no result depends on hosts in lock step.
    patience_s : in virtual time, the longest real time (s) in which virtual time may stand still.
    memory_mb : in virtual time, the memory of kernel and programs (MB).
    syscall_cost_ns : in virtual time, the least time (ns) that a system call of a program takes, reads of the clock
        included; None for 1000. Computing takes no time. With 0 a program that polls, as iperf3 does, may never get on
        (lib/kernel/README.md tells what the cost does to results).
    spin_after_s : in virtual time, the processor time (s) after which a program that makes no system call, such as a
        spin lock, loses the processor; None for 5. It is not watched with a `syscall_cost_ns` of 0. `net.spins` counts.
    starts_at : in virtual time, the date and time at which the clock starts, in ISO 8601 (without a zone: UTC) or as a
        datetime; None for 2020-01-01T00:00:00Z. Programs and files' times see it, and so do time stamps in captures.

    Leaving the `with` block, Ctrl-C, or any end of the calling process ends every program, and so the network. The
    machine's own network is not touched.

    Raises NetreproError before anything is built for what the kernel cannot do (make_plan, make_virtual_plan), for a
    tier that is not available and for an argument of another tier. On entering, raises it for what the kernel refuses:
    a congestion control it lacks, a queue, a setting.
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
        syscall_cost_ns: int | None = None,
        starts_at: str | datetime | None = None,
        spin_after_s: float | None = None,
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
                syscall_cost_ns=SYSCALL_COST_NS if syscall_cost_ns is None else syscall_cost_ns,
                starts_at=STARTS_AT if starts_at is None else starts_at,
                spin_after_s=SPIN_AFTER_S if spin_after_s is None else spin_after_s,
            )
        else:
            _check_absent(
                tier,
                host_delay_packets=host_delay_packets,
                patience_s=patience_s,
                memory_mb=memory_mb,
                syscall_cost_ns=syscall_cost_ns,
                starts_at=starts_at,
                spin_after_s=spin_after_s,
            )
            network = RealTimeNetwork(
                topology, tier, congestion_control, seed, address_pool, tcp, routing, paths, cpu_limits, ipv6
            )
        self._network = network

    def __enter__(self) -> Network:
        return self._network.__enter__()

    def __exit__(self, *exception: object) -> None:
        self._network.__exit__(*exception)


def _check_absent(tier: str, **arguments: object) -> None:
    """Raise NetreproError for an argument that is given and that this tier does not take."""
    for name in (name for name, wanted in arguments.items() if wanted):
        raise NetreproError(f"{name} on tier {tier!r}, which has none", "leave it out, or use another tier")
