"""The process that tries what this machine allows; `netrepro.emulation.tiers` starts it and reads its reply.

It runs as a script, because a process with threads may not open a user namespace. So the caller's process and modules
that start threads (NumPy) cannot do this. Other modules import only its functions for control groups. Everything that
it makes is in namespaces that end with it.
Usage: probe.py tiers | probe.py features <tier>; the reply is JSON on standard output.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
IPV4 = Path("/proc/sys/net/ipv4")
SYSTEM_CALLS = {
    "x86_64": {"bpf": 321, "perf_event_open": 298},
    "aarch64": {"bpf": 280, "perf_event_open": 241},
}


class NotHere(Exception):
    """A feature that this machine lacks for a reason without an errno."""


def reason(error: BaseException) -> str:
    """Return what went wrong, in words, with the name of the kernel's errno if there is one."""
    number = error.code if isinstance(error, NetlinkError) else getattr(error, "errno", None)
    if not number:
        return str(error) or type(error).__name__
    where = getattr(error, "filename", None)
    if number == errno.ENOENT and not where:
        return "ENOENT: this kernel has none"
    return f"{errno.errorcode.get(number, number)}: {os.strerror(number)}" + (f" ({where})" if where else "")


def checked(result: int) -> int:
    """Return the result of a C call. Raises OSError where it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def system_call(name: str, *arguments) -> int:
    numbers = SYSTEM_CALLS.get(platform.machine())
    if numbers is None:
        raise NotHere(f"not tried on {platform.machine()}")
    return checked(LIBC.syscall(numbers[name], *arguments))


def open_namespaces(tier: str) -> None:
    """Move this process into a new network namespace, like an experiment on the tier.

    Raises OSError or NotHere where that is impossible.
    """
    if tier == "privileged":
        checked(LIBC.unshare(CLONE_NEWNET))
        if Path("/proc/self/uid_map").read_text().split() != ["0", "0", str(2**32 - 1)]:
            raise NotHere("root of a user namespace only, whose rights end at eBPF and cgroups")
        return
    user, group = os.getuid(), os.getgid()
    checked(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def try_tier(tier: str) -> str:
    """Open the tier's namespaces and add a veth pair; return, in words, what was done. Raises NotHere with the reason.

    A namespace alone proves nothing: AppArmor can permit to open it and refuse every right in it.
    """
    kind = {"privileged": "network namespace", "rootless": "user and network namespace"}[tier]
    try:
        open_namespaces(tier)
    except (OSError, NotHere) as error:
        raise NotHere(f"no {kind}: {reason(error)}") from error
    try:
        with IPRoute() as netlink:
            netlink.link("add", ifname="probe0", kind="veth", peer="probe1")
    except (OSError, NetlinkError) as error:
        raise NotHere(f"a {kind} opens, but no veth pair can be added in it: {reason(error)}") from error
    try:
        checked(LIBC.unshare(CLONE_NEWNS | CLONE_NEWPID))  # last: afterwards this process cannot start threads
    except OSError as error:
        raise NotHere(f"a {kind} opens, but none of processes and mounts in it: {reason(error)}") from error
    return f"a {kind} was opened and a veth pair added in it"


def tried(attempt: Callable[[], object]) -> tuple[bool, str]:
    """Call `attempt`; return whether it works, and the text that it returns or the reason why it fails."""
    try:
        detail = attempt()
    except (OSError, NetlinkError, NotHere) as error:
        return False, reason(error)
    return True, detail if isinstance(detail, str) else "tried, works"


def apart(attempt: Callable[[], object]) -> tuple[bool, str]:
    """Do the same as `tried` in a child process, so that changed namespaces or a crash affect only the child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(tried(attempt)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if answer:
        works, why = json.loads(answer)
        return works, why
    return False, f"the attempt was ended by {signal.Signals(-status).name}" if status < 0 else "no answer"


class Features:
    """Trials of kernel features, one after another, in a new network namespace."""

    def __init__(self, netlink: IPRoute):
        self.netlink = netlink
        self.pairs = 0

    def new_pair(self) -> int:
        """Make a new veth pair, both ends up, and return the index of one end."""
        self.pairs += 1
        ends = f"a{self.pairs}", f"b{self.pairs}"
        self.netlink.link("add", ifname=ends[0], kind="veth", peer=ends[1])
        indices = [self.netlink.link_lookup(ifname=end)[0] for end in ends]
        for index in indices:
            self.netlink.link("set", index=index, state="up")
        return indices[0]

    def queue(self, kind: str, **options) -> Callable[[], None]:
        return lambda: self.netlink.tc("add", kind, self.new_pair(), 0x10000, **options)

    def link(self, kind: str, **options) -> Callable[[], None]:
        return lambda: self.netlink.link("add", ifname=f"probe-{kind}", kind=kind, **options)

    def bridge(self) -> None:
        self.link("bridge")()
        master = self.netlink.link_lookup(ifname="probe-bridge")[0]
        self.netlink.link("set", index=self.new_pair(), master=master)

    def htb(self) -> None:
        index = self.new_pair()
        self.netlink.tc("add", "htb", index, 0x10000)
        self.netlink.tc("add-class", "htb", index, 0x10010, parent=0x10000, rate="10mbit", burst=1600)

    def wire_of_netem(self) -> None:
        """Make a link with netem: a queue of netem, and a filter that redirects packets to the interface."""
        index = self.new_pair()
        self.netlink.tc("add", "netem", index, 0x10000, delay=1000)
        self.netlink.tc("add", "clsact", index)
        mirred = {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": index}
        try:
            self.netlink.tc("add-filter", "matchall", index, parent=0xFFFFFFF2, protocol=3, prio=1, action=mirred)
        except NetlinkError as error:
            raise NotHere(f"netem works, but not matchall with mirred, which it needs: {reason(error)}") from error

    def segment_limit(self) -> None:
        self.netlink.link("set", index=self.new_pair(), gso_max_segs=1)

    def multipath(self) -> str:
        index = self.new_pair()
        self.netlink.addr("add", index=index, address="10.0.0.1", prefixlen=24)
        ways = [{"gateway": f"10.0.0.{last}", "hops": 0} for last in (2, 3)]
        self.netlink.route("add", dst="10.1.0.0/16", multipath=ways)
        (IPV4 / "fib_multipath_hash_policy").write_text("3")
        (IPV4 / "fib_multipath_hash_fields").write_text("55")
        try:
            (IPV4 / "fib_multipath_hash_seed").write_text("1")
        except OSError as error:
            return f"hash policy 3, and fields in place of a seed of its own for each router ({reason(error)})"
        return "hash policy 3, fields and seed can be set"


def multipath_tcp() -> None:
    Path("/proc/sys/net/mptcp/enabled").write_text("1")
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()


def congestion_control(scheme: str) -> Callable[[], None]:
    def set_scheme() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sender:
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, scheme.encode())

    return set_scheme


def packet_socket() -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as tap:
        tap.setsockopt(263, 10, 1)  # SOL_PACKET, PACKET_VERSION: the ring with nanosecond stamps, TPACKET_V2


def tun_device() -> None:
    with Path("/dev/net/tun").open("r+b", buffering=0) as device:
        request = struct.pack("16sH22x", b"probe-tun", 0x1002)  # IFF_TAP | IFF_NO_PI
        checked(LIBC.ioctl(device.fileno(), ctypes.c_ulong(0x400454CA), request))  # TUNSETIFF


def control_group_parent(version: int) -> Path:
    """Return the control group in which groups with a CPU limit can be made. Raises NotHere where there is none."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    if version == 1:
        roots = [mount[1] for mount in mounts if mount[2] == "cgroup" and "cpu" in mount[3].split(",")]
        own = [path for _, controllers, path in groups if "cpu" in controllers.split(",")]
    else:
        roots = [mount[1] for mount in mounts if mount[2] == "cgroup2"]
        own = [path for number, _, path in groups if number == "0"]
    if not roots or not own:
        raise NotHere(f"no cgroup v{version} hierarchy with a cpu controller is mounted")
    top = Path(roots[0])
    folder = top / own[0].lstrip("/")
    return folder if version == 1 else nearest_with_limits(folder, top)


def nearest_with_limits(folder: Path, top: Path) -> Path:
    """Return the nearest control group (v2), from `folder` up to `top`, that can limit the CPU of groups in it.

    A group with processes, such as our own, cannot do that, except the topmost. Groups with an enabled cpu controller
    are preferred, because enabling it in another group changes that group permanently. Raises NotHere for no group.
    """
    above = [each for each in (folder, *folder.parents) if each.is_relative_to(top) and os.access(each, os.W_OK)]
    for change in (False, True):
        for each in above:
            switches = each / "cgroup.subtree_control"
            with suppress(OSError):
                if change:
                    switches.write_text("+cpu")
                if change or "cpu" in switches.read_text().split():
                    return each
    raise NotHere("no cgroup above this process gives its children the cpu controller")


def limit_processors(folder: Path, version: int, cores: float) -> None:
    """Limit the processes of a control group to so many cores together. Raises NotHere without the cpu controller."""
    limit, period_us = folder / ("cpu.cfs_quota_us" if version == 1 else "cpu.max"), 100_000
    if not limit.exists():
        raise NotHere("control groups can be made, but without the cpu controller")
    quota_us = round(cores * period_us)
    limit.write_text(f"{quota_us}" if version == 1 else f"{quota_us} {period_us}")


def control_group(version: int) -> Callable[[], str]:
    """Return a trial that makes a control group with a CPU limit and removes it."""

    def make() -> str:
        folder = control_group_parent(version) / f"netrepro-probe-{os.getpid()}"
        folder.mkdir()
        try:
            limit_processors(folder, version, 0.5)
        finally:
            folder.rmdir()
        return f"a CPU limit was set in {folder.parent}"

    return make


def load_program() -> int:
    """Load the shortest traffic-control program: r0 = 0; exit."""
    instructions = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "<IIQQIIQII", 3, 2, ctypes.addressof(instructions), ctypes.addressof(licence), 0, 0, 0, 0, 0
    )
    return system_call("bpf", 5, ctypes.create_string_buffer(attributes), len(attributes))


def close_program() -> None:
    os.close(load_program())


def performance_counter(kind: int, event: int) -> Callable[[], None]:
    """Return a trial that opens a counter of this process (perf_event_open(2)), user space only."""

    def count() -> None:
        exclude_kernel_and_hypervisor = 1 << 5 | 1 << 6
        attributes = struct.pack("<IIQQQQQ", kind, 112, event, 0, 0, 0, exclude_kernel_and_hypervisor)
        buffer = ctypes.create_string_buffer(attributes.ljust(112, b"\0"), 112)
        os.close(system_call("perf_event_open", buffer, 0, -1, -1, ctypes.c_ulong(0)))

    return count


def available_schemes() -> list[str]:
    """List this namespace's congestion controls, then further ones of experiments, whose modules a use may load."""
    listed = (IPV4 / "tcp_available_congestion_control").read_text().split()
    return [*listed, *(scheme for scheme in ("bbr", "dctcp") if scheme not in listed)]


def try_features(tier: str) -> list[dict]:
    """Try every feature; return a row for each: feature, works, why, needed_by. A missing feature raises nothing."""
    open_namespaces(tier)
    tbf = {"rate": 1_250_000, "burst": 1600, "limit": 30_000}
    vxlan = {"vxlan_id": 1, "vxlan_local": "10.0.0.1", "vxlan_port": 4789}
    rows: list[tuple[str, str, tuple[bool, str]]] = []
    with IPRoute() as netlink:
        kernel = Features(netlink)
        for feature, needed_by, attempt in (
            ("veth", "every emulated network", kernel.new_pair),
            ("bridge", "switches that forward by address", kernel.bridge),
            ("TBF", "links with a rate and a buffer", kernel.queue("tbf", **tbf)),
            ("HTB", "several rates on one interface", kernel.htb),
            ("one segment a packet", "buffers counted in packets", kernel.segment_limit),
            ("netem", "links with delay or loss in real time", kernel.wire_of_netem),
            ("fq", "the kernel's own pacing", kernel.queue("fq")),
            ("clsact", "eBPF and mirroring at an interface", kernel.queue("clsact")),
            ("IFB", "shaping of what arrives", kernel.link("ifb")),
            ("VXLAN", "overlay networks", kernel.link("vxlan", **vxlan)),
            ("ECMP routes", "fat-tree and leaf-spine networks of kernel routers", kernel.multipath),
        ):
            rows.append((feature, needed_by, tried(attempt)))
    for scheme in available_schemes():
        outcome = apart(congestion_control(scheme))
        rows.append((f"TCP {scheme}", f"flows controlled by the kernel's {scheme}", outcome))
    for feature, needed_by, attempt in (
        ("MPTCP", "one connection over several paths", multipath_tcp),
        ("packet socket", "recorded packets and the fidelity check", packet_socket),
        ("eBPF program", "overlay caching in the kernel", close_program),
        ("/dev/net/tun", "programs that read and write packets themselves", tun_device),
        ("cgroup v1 CPU limit", "hosts with a share of the CPU", control_group(1)),
        ("cgroup v2 CPU limit", "hosts with a share of the CPU", control_group(2)),
        ("perf, software events", "CPU cost of a packet", performance_counter(1, 0)),
        ("perf, hardware events", "cycles of a packet", performance_counter(0, 0)),
    ):
        rows.append((feature, needed_by, apart(attempt)))
    return [
        {"feature": feature, "works": works, "why": why, "needed_by": needed_by}
        for feature, needed_by, (works, why) in rows
    ]


def main(arguments: list[str]) -> None:
    if arguments == ["tiers"]:
        reply: object = {tier: apart(partial(try_tier, tier)) for tier in ("privileged", "rootless")}
    else:
        _, tier = arguments
        reply = try_features(tier)
    json.dump(reply, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
