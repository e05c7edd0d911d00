"""The process that owns an emulated network; `netrepro.emulation.real_time.network` starts it and sends it requests.

It runs as a script and is never imported: opening a user namespace needs a process without threads, and starting many
guests is cheapest from a small process. It becomes the first process of a process namespace. So its end, for any
reason, ends every guest, and with them every namespace and interface. It ends when the process that started it ends or
closes the connection. Its parent then removes what belongs to no namespace, because the caller may have ended.

Usage: launcher.py TIER CONNECTION REMOVED CALLER: a tier, the file descriptors of a connected socket and of a file with
a line for each path to be removed, and the caller's process id. A request is a length and a pickled dict. A reply is a
length and a dict in JSON, as a guest that is root here may take this process over, and write to its caller.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import gc
import json
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
LONGEST_WISH_S = 5.0  # longest time until the kernel accepts a nice value for a session
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x00020000, 0x04000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
FREE_DESCRIPTORS, HUB_DESCRIPTOR = 50, 100  # descriptors below those of namespaces, and above those opened at the start
SOL_NETLINK, EXTENDED_ANSWERS, SHORT_ANSWERS = 270, 11, 10
DUMP, GET_QDISC = 0x301, 38
DUMP_QUEUES = struct.pack("=IHHIIBxxxiIII", 36, GET_QDISC, DUMP, 1, 0, 0, 0, 0, 0, 0)
GET_LINK, WITHOUT_STATISTICS = 18, 8
RT_SIGACTION = {"x86_64": 13, "aarch64": 134}  # numbers of the system call
DUMP_LINKS = struct.pack("=IHHIIBxHiIIHHI", 40, GET_LINK, DUMP, 1, 0, 0, 0, 0, 0, 0, 8, 29, WITHOUT_STATISTICS)


def checked(result: int) -> int:
    """Return the result of a C call. Raises OSError where it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def enter(descriptor: int) -> None:
    checked(LIBC.setns(descriptor, CLONE_NEWNET))


def forget_signals() -> None:
    """Give every signal its default and block none, whatever this process or the one that started it ignores.

    The C library keeps signals 32 and 33 for its threads, lets nobody set them, and posix_spawn ignores them in the
    child of a process that has cancelled a thread.
    """
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    set_action = RT_SIGACTION.get(os.uname().machine)
    if set_action:
        default = bytes(32)  # struct sigaction of the kernel: SIG_DFL, no flags, no mask
        for own in (32, 33):
            LIBC.syscall(set_action, own, default, None, 8)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def open_namespaces(tier: str) -> None:
    """Leave the caller's namespaces; the next child is the first process of the new process namespace."""
    user, group = os.getuid(), os.getgid()
    own_user = CLONE_NEWUSER if tier == "rootless" else 0
    checked(LIBC.unshare(own_user | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID))
    if own_user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def mount_own_processes() -> bool:
    """Mount a /proc that shows only the guests' processes; where a container forbids it, they see the machine's.

    Returns whether this process has its own mounts; if not, nothing may be mounted.
    """
    recursive_private, no_setuid_device_exec = 0x44000, 0xE
    if LIBC.mount(b"none", b"/", None, recursive_private, None):
        return False
    LIBC.mount(b"proc", b"/proc", b"proc", no_setuid_device_exec, None)
    return True


def stand_back(nice: int) -> None:
    """Give this process, which leads its session, a nice value that also counts against other sessions.

    On kernels that schedule by session (autogroup) a nice value counts only within a session. These kernels accept an
    ordinary user's nice values for sessions ten times a second, so that many guests start one after the other.
    """
    os.nice(nice)
    until = time.monotonic() + LONGEST_WISH_S
    with suppress(OSError):
        while nice:
            try:
                Path("/proc/self/autogroup").write_text(str(nice))
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)


class CallerConnection:
    """A connection that carries requests, replies and, in both directions, file descriptors."""

    def __init__(self, stream: socket.socket):
        self.stream = stream

    def receive(self) -> tuple[dict, list[int]]:
        """Return the next request and its file descriptors. Raises EOFError where the caller has ended."""
        header, descriptors, _, _ = socket.recv_fds(self.stream, 4, 16)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        length = struct.unpack("=I", self.rest(header, 4))[0]
        return pickle.loads(self.rest(b"", length)), list(descriptors)

    def rest(self, start: bytes, length: int) -> bytes:
        received = bytearray(start)
        while len(received) < length:
            part = self.stream.recv(min(length - len(received), 1 << 20))
            if not part:
                raise EOFError
            received += part
        return bytes(received)

    def reply(self, answer: dict, descriptors: tuple[int, ...] = ()) -> None:
        payload = json.dumps(answer).encode()
        message = struct.pack("=I", len(payload)) + payload
        sent = socket.send_fds(self.stream, [message], descriptors) if descriptors else 0
        self.stream.sendall(message[sent:])


class Launcher:
    """The owner of the namespaces, which starts guests in them and reports the guests' exit statuses."""

    def __init__(self, connection: CallerConnection, may_mount: bool):
        self.connection, self.may_mount = connection, may_mount
        self.names: list[str] = []  # of the nodes, by the index of their namespaces; "" for the machine's own name
        self.status_of: dict[int, int] = {}  # guest -> file descriptor to which its exit status is written

    # Requests of the caller: each has a method of the same name.

    def congestion_controls(self, request: dict, _: list[int]) -> dict:
        """Return, as `missing`, the names that this kernel lacks or does not permit, each with the errno."""
        missing = {}
        for name in request["names"]:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
                try:
                    tried.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
                except OSError as error:
                    missing[name] = error.errno
        return {"missing": missing}

    def build(self, request: dict, _: list[int]) -> dict:
        """Open the namespaces and send messages to each; stop at the first refusal."""
        if self.may_mount:
            add_host_names(request["host_names"])
        self.names, count = request["names"], len(request["sysctls"])
        for place in range(1, count):
            try:
                checked(LIBC.unshare(CLONE_NEWNET))
                keep_namespace(HUB_DESCRIPTOR + place)
            except OSError as error:
                return {"namespaces": place, "errno": error.errno}
        for place, settings in enumerate(request["sysctls"]):
            if settings:
                enter(HUB_DESCRIPTOR + place)
            for name, value in settings.items():
                try:
                    Path("/proc/sys", name).write_text(value)
                except OSError as error:
                    if isinstance(error, FileNotFoundError) and ("ipv6" in name or "syn_linear" in name):
                        continue  # without IPv6 there is nothing to disable; before 6.5 all SYN timeouts double
                    return {"refused": name, "errno": error.errno, "said": ""}
        refusal = self.send(request, [])
        if refusal:
            return refusal
        for place in range(count):
            enter(HUB_DESCRIPTOR + place)
            await_links()
        enter(HUB_DESCRIPTOR)
        return {}

    def send(self, request: dict, _: list[int]) -> dict:
        """Send messages to namespaces; stop at the first refusal, and return its index in `batches` as `entry`."""
        for entry, (place, batches) in enumerate(request["batches"]):
            enter(HUB_DESCRIPTOR + place)
            refusal = send_batches(batches)
            if refusal:
                return {"entry": entry, **refusal}
        enter(HUB_DESCRIPTOR)
        return {}

    def spawn(self, request: dict, descriptors: list[int]) -> dict:
        """Start a program in a namespace.

        descriptors : the program's file descriptors from 0 on, then one to which its exit status is written. The
        program inherits the descriptors of `namespaces` (indices) under their numbers in this process.
        """
        *standard, status = descriptors
        reader, writer = os.pipe()
        try:
            child = os.fork()
        except OSError as error:
            for descriptor in (reader, writer, *descriptors):
                os.close(descriptor)
            return {"errno": error.errno, "where": "number of processes (ulimit -u)"}
        if child == 0:
            try:
                os.setsid()
                enter(HUB_DESCRIPTOR + request["place"])
                take_name(self.names[request["place"]])
                writer = fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, FREE_DESCRIPTORS)
                standard = [fcntl.fcntl(each, fcntl.F_DUPFD, FREE_DESCRIPTORS) for each in standard]
                for number, descriptor in enumerate(standard):
                    os.dup2(descriptor, number)
                    os.close(descriptor)
                for place in request["namespaces"]:
                    os.set_inheritable(HUB_DESCRIPTOR + place, True)
                if request["terminal"]:
                    fcntl.ioctl(0, 0x540E, 0)  # TIOCSCTTY
                stand_back(request["nice"])
                if request["control_group"]:
                    Path(request["control_group"], "cgroup.procs").write_text("0")
                os.chdir(request["folder"])
                signal.set_wakeup_fd(-1)
                forget_signals()
                os.execvpe(request["command"][0], request["command"], request["environment"])
            except OSError as error:
                where = "folder" if error.filename == request["folder"] else "program"
                os.write(writer, json.dumps([error.errno, where]).encode())
            except (TypeError, ValueError):
                os.write(writer, json.dumps([errno.EINVAL, "environment"]).encode())
            finally:
                os._exit(127)
        os.close(writer)
        for descriptor in standard:
            os.close(descriptor)
        with os.fdopen(reader, "rb") as failure:
            said = failure.read()
        if said:
            os.waitpid(child, 0)
            os.close(status)
            number, where = json.loads(said)
            return {"errno": number, "where": where}
        self.status_of[child] = status
        return {"guest": child}

    def signal(self, request: dict, _: list[int]) -> dict:
        """Send a signal to a guest, or with `all` to its whole process group."""
        if request["guest"] in self.status_of:
            (os.killpg if request["all"] else os.kill)(request["guest"], request["number"])
        return {}

    def socket(self, request: dict, _: list[int]) -> tuple[dict, tuple[int, ...]]:
        """Open a socket in a namespace and pass it to the caller."""
        enter(HUB_DESCRIPTOR + request["place"])
        try:
            made = socket.socket(*request["kind"])
        except OSError as error:
            return {"errno": error.errno}, ()
        finally:
            enter(HUB_DESCRIPTOR)
        return {}, (made.detach(),)

    def sample_queues(self, request: dict, descriptors: list[int]) -> dict:
        """Start a guest that writes samples of queues to a file until SIGTERM.

        descriptors : of the file, and one to which the guest's exit status is written.
        """
        output, status = descriptors
        child = os.fork()
        if child == 0:
            exit_status = 1
            try:
                sample_queues(request["ports"], request["interval_s"], output)
                exit_status = 0
            finally:
                os._exit(exit_status)
        os.close(output)
        self.status_of[child] = status
        return {"guest": child}

    def queue_totals(self, request: dict, _: list[int]) -> dict:
        """Return (bytes waiting, packets waiting, bytes sent, packets sent, dropped) of each of `ports`, in order.

        The entry is None for a port that has lost its queue.
        """
        totals: dict[tuple[int, int], tuple[int, ...]] = {}
        for place in {place for place, _ in request["ports"]}:
            enter(HUB_DESCRIPTOR + place)
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
                netlink.send(DUMP_QUEUES)
                totals |= {(place, index): values for index, values in root_statistics(netlink)}
        enter(HUB_DESCRIPTOR)
        return {"totals": [totals.get(tuple(port)) for port in request["ports"]]}

    def packets_a_frame(self, request: dict, _: list[int]) -> dict:
        """Return, as `most`, the largest number of packets that a frame from any of `ports` may hold."""
        most_of: dict[tuple[int, int], int] = {}
        for place in {place for place, _ in request["ports"]}:
            enter(HUB_DESCRIPTOR + place)
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
                netlink.send(DUMP_LINKS)
                for message in each_message(netlink, GET_LINK - 2):
                    most = dict(each_attribute(message[32:]))[40]  # IFLA_GSO_MAX_SEGS
                    most_of[place, struct.unpack_from("=i", message, 20)[0]] = struct.unpack("=I", most)[0]
        enter(HUB_DESCRIPTOR)
        return {"most": max(most_of[tuple(port)] for port in request["ports"])}

    def reap(self) -> None:
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if child == 0:
                return
            if child in self.status_of:
                descriptor = self.status_of.pop(child)
                with suppress(OSError):  # the reader has closed its end
                    os.write(descriptor, struct.pack("=i", os.waitstatus_to_exitcode(status)))
                os.close(descriptor)

    def answer(self, request: dict, descriptors: list[int]) -> dict | tuple[dict, tuple[int, ...]]:
        """Answer a request; where it fails, the answer has the error as `failed`, and the launcher goes on."""
        try:
            return getattr(self, request.pop("ask"))(request, descriptors)
        except Exception as error:
            enter(HUB_DESCRIPTOR)
            return {"failed": f"{type(error).__name__}: {error}"}

    def serve(self, caller: int, woken: int) -> None:
        """Answer requests until the caller closes the connection or ends.

        caller : pidfd of the caller. woken : file descriptor that can be read after SIGCHLD.
        """
        poller = select.poll()
        for descriptor in (self.connection.stream.fileno(), caller, woken):
            poller.register(descriptor, select.POLLIN)
        while True:
            ready = dict(poller.poll())
            if caller in ready:
                return
            if woken in ready:
                with suppress(BlockingIOError):
                    os.read(woken, 512)
                self.reap()
            if self.connection.stream.fileno() in ready:
                try:
                    request, descriptors = self.connection.receive()
                    answer = self.answer(request, descriptors)
                    sent = answer if isinstance(answer, tuple) else (answer, ())
                    self.connection.reply(*sent)
                    for descriptor in sent[1]:
                        os.close(descriptor)
                except (EOFError, ConnectionError, BrokenPipeError):
                    return


def add_host_names(lines: str) -> None:
    """Let guests resolve each other's names, by a mounted /etc/hosts; without mounts they know only addresses."""
    hosts = Path("/etc/hosts")
    aside = b"/mnt"
    if hosts.exists() and LIBC.mount(b"none", aside, b"tmpfs", 0, None) == 0:
        own = Path(aside.decode(), "hosts")
        own.write_text(hosts.read_text() + lines)
        LIBC.mount(bytes(own), bytes(hosts), None, 0x1000, None)  # MS_BIND
        LIBC.umount2(aside, 2)  # MNT_DETACH


def take_name(name: str) -> None:
    """Give this process a host name of its own; "" or a machine that forbids it leaves it the machine's."""
    if name and LIBC.unshare(CLONE_NEWUTS) == 0:
        socket.sethostname(name)


def keep_namespace(descriptor: int) -> None:
    opened = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    os.dup2(opened, descriptor, inheritable=False)
    os.close(opened)


def send_batches(batches: list[tuple[bytes, int]]) -> dict:
    """Send messages to the kernel; return its first refusal (number, errno, said), or an empty dict."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        for option in (EXTENDED_ANSWERS, SHORT_ANSWERS):
            netlink.setsockopt(SOL_NETLINK, option, 1)
        for buffer, last in batches:
            netlink.sendall(buffer)
            number = 0
            while number < last:
                received = netlink.recv(65536)
                while received:
                    length, _, flags, number, _, status = struct.unpack_from("=IHHIIi", received)
                    if status:
                        said = kernel_text(received[36:length]) if flags & 0x200 else ""
                        return {"number": number, "errno": -status, "said": said}
                    received = received[(length + 3) & ~3 :]
    return {}


def kernel_text(attributes: bytes) -> str:
    while len(attributes) >= 4:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind == 1:
            return attributes[4:length].rstrip(b"\0").decode()
        attributes = attributes[(length + 3) & ~3 :]
    return ""


def ethtool(interface: str, command: int) -> None:
    value = array.array("B", struct.pack("=II", command, 0))
    request = struct.pack("=16sQ16x", interface.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8946, request)  # SIOCETHTOOL


def await_links() -> None:
    """Make the kernel finish bringing up this namespace's links.

    The kernel does this some time after both ends are up, and until then silently drops packets. A request for the
    link's state (ETHTOOL_GLINK) makes the kernel do it now.
    """
    for index, interface in socket.if_nameindex():
        if index > 1:
            ethtool(interface, 0x0A)


def sample_queues(ports: list[tuple[int, int]], interval_s: float, output: int) -> None:
    """Append (time in ns, port, bytes waiting, packets waiting, bytes sent, packets sent, dropped) until SIGTERM.

    ports : (index of the namespace, index of the interface). output : file descriptor. The clock is that of packets'
    time stamps, CLOCK_REALTIME. The last sample is taken after the signal.
    """
    gc.disable()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    sockets = {}
    for place in {place for place, _ in ports}:
        enter(HUB_DESCRIPTOR + place)
        sockets[place] = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    number_of = {port: number for number, port in enumerate(ports)}
    due = time.monotonic()
    ended = None
    while True:
        records = bytearray()
        for place, netlink in sockets.items():
            now = time.clock_gettime_ns(time.CLOCK_REALTIME)  # first: packets that leave meanwhile do not count
            netlink.send(DUMP_QUEUES)
            for index, values in root_statistics(netlink):
                number = number_of.get((place, index))
                if number is not None:
                    records += struct.pack("=7q", now, number, *values)
        os.write(output, records)
        if ended:
            return
        due = max(due + interval_s, time.monotonic())
        ended = signal.sigtimedwait({signal.SIGTERM}, max(0.0, due - time.monotonic()))


def root_statistics(netlink: socket.socket):
    """Yield (interface index, (bytes and packets waiting, bytes and packets sent, dropped)) of each root queue.

    A queue of kind "noqueue" does not count: an interface has it when its own queue was removed.
    """
    for message in each_message(netlink, GET_QDISC - 2):
        index, _, parent = struct.unpack_from("=iII", message, 20)
        if parent == 0xFFFFFFFF and not message.startswith(b"noqueue", 40):  # behind the message's headers
            yield index, statistics(message[36:])


def each_message(netlink: socket.socket, wanted: int):
    """Yield the messages of the wanted kind from a dump of the kernel."""
    while True:
        received = netlink.recv(1 << 15)  # no answer is longer, and larger buffers cost more
        start = 0
        while start < len(received):
            length, kind = struct.unpack_from("=IH", received, start)
            if kind == 3:  # NLMSG_DONE
                return
            if kind == wanted:
                yield received[start : start + length]
            start += (length + 3) & ~3


def statistics(attributes: bytes) -> tuple[int, int, int, int, int]:
    sent = packets = queued = waiting = dropped = 0
    for kind, payload in each_attribute(attributes):
        if kind == 7:  # TCA_STATS2
            for inner, values in each_attribute(payload):
                if inner == 1:  # TCA_STATS_BASIC
                    sent, packets = struct.unpack_from("=QI", values)
                elif inner == 3:  # TCA_STATS_QUEUE
                    waiting, queued, dropped = struct.unpack_from("=III", values)
    return queued, waiting, sent, packets, dropped


def each_attribute(attributes: bytes):
    start = 0
    while start + 4 <= len(attributes):
        length, kind = struct.unpack_from("=HH", attributes, start)
        yield kind & 0x3FFF, attributes[start + 4 : start + length]
        start += (length + 3) & ~3


def remove_listed(listed: int) -> None:
    """Remove folders and control groups, which outlive the namespaces. listed : descriptor of a file of paths."""
    with os.fdopen(listed) as lines:
        lines.seek(0)
        for line in lines.read().splitlines():
            remove_folder(Path(line))


def remove_folder(folder: Path) -> None:
    """Remove a control group, or a folder and its files, if it exists."""
    with suppress(OSError):  # a control group's files cannot be removed; they end with the group
        for path in folder.iterdir():
            path.unlink()
    for _ in range(100):
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno == errno.EBUSY:
                time.sleep(0.01)  # just killed processes leave the group a moment later
                continue
        return


def main(tier: str, connection: str, removed: str, caller: str) -> None:
    parent = os.pidfd_open(int(caller))
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # each namespace needs one
    stream = socket.socket(fileno=int(connection))
    stream.set_inheritable(False)
    try:
        open_namespaces(tier)
        first = os.fork()
    except OSError as error:
        CallerConnection(stream).reply({"errno": error.errno})
        return
    if first:
        stream.close()
        os.waitpid(first, 0)
        remove_listed(int(removed))
        return
    os.close(int(removed))
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end when the parent ends
    process = int(Path("/proc/self").readlink().name)  # the process id that the caller sees
    may_mount = mount_own_processes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    keep_namespace(HUB_DESCRIPTOR)
    launcher = Launcher(CallerConnection(stream), may_mount)
    launcher.connection.reply({"process": process})
    launcher.serve(parent, woken)


if __name__ == "__main__":
    main(*sys.argv[1:])
