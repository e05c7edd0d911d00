"""Process 1 of a kernel in virtual time: a script that carries out orders. It uses only the standard library.

Orders come through /dev/door (the two pipes of Instance). Each order is a JSON object, and so is its answer; other
messages may come before the answer. Each message carries the number of its order, because Instance may have given that
order up. While this process waits for an order, the kernel and its time stand still. A
system call costs 25 to 50 us of real time. To save calls, the kernel itself writes and reads flows (/dev/streams).
"""

from __future__ import annotations

import base64
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NETWORK = 0x40000000
NEW_HOST_NAME = 0x04000000
BIND = 0x1000  # MS_BIND
HOSTS = Path("/etc/hosts")
DUMP, DUMP_ENDS, GET_FILTER, EGRESS = 0x301, 3, 46, 0xFFFFFFF3
APPENDS = os.O_WRONLY | os.O_CREAT | os.O_APPEND
POWER_OFF = 0x4321FEDC
MOUNTS = (
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("tmpfs", "/run", "mode=755"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("devpts", "/dev/pts", ""),
)
# Links that udev makes on a machine; the shell's <(...) needs the first.
DEVICE_LINKS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
# The kernel activates the queues of new interfaces at a rate of 100 a second at most.
SETTLED_S, SETTLED_INTERFACES, SETTLED_A_SECOND = 2.0, 200, 100
PACKET_BYTES = 1 << 16  # largest read or write at the door
# Python ignores these signals, and programs would inherit that.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
OPEN_FILES = (1024, 1 << 19)  # a program's soft and hard limit, as a machine's usual ones
CONTROLS = "/proc/sys/net/ipv4/tcp_{}_congestion_control"
COUNTERS = ("/proc/self/net/snmp", "/proc/self/net/netstat")
NO_COUNTERS = {
    "IpForwarding",
    "IpDefaultTTL",
    "TcpRtoAlgorithm",
    "TcpRtoMin",
    "TcpRtoMax",
    "TcpMaxConn",
    "TcpCurrEstab",
}
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/run",
    "TMPDIR": "/run",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
}


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def mount(kind: str, at: str, options: str = "") -> None:
    Path(at).mkdir(exist_ok=True)
    checked(LIBC.mount(kind.encode(), at.encode(), kind.encode(), ctypes.c_ulong(0), options.encode()))


def sleep_until(monotonic_ns: int) -> None:
    """Sleep until the monotonic clock shows this time (ns), and read no clock, which takes time."""
    until = struct.pack("=qq", *divmod(monotonic_ns, 10**9))
    failed = LIBC.clock_nanosleep(time.CLOCK_MONOTONIC, 1, until, None)  # TIMER_ABSTIME
    if failed:
        raise OSError(failed, os.strerror(failed))


class Door:
    """The channel to Instance. A message out is a kind (1 byte), its order's number (4 bytes), a length (4 bytes) and
    its content."""

    def __init__(self) -> None:
        self.file = os.open("/dev/door", os.O_RDWR | os.O_CLOEXEC)
        self.left = b""
        self.number = 0  # of the order that is carried out

    def take(self, size: int) -> bytes:
        while len(self.left) < size:
            more = os.read(self.file, PACKET_BYTES)
            if not more:
                power_off()
            self.left += more
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def order(self) -> dict:
        (size,) = struct.unpack("<I", self.take(4))
        order = json.loads(self.take(size))
        self.number = order.pop("order")
        return order

    def send(self, kind: bytes, content: bytes) -> None:
        left = memoryview(struct.pack("<cII", kind, self.number, len(content)) + content)
        while left:
            left = left[os.write(self.file, left[:PACKET_BYTES]) :]


def power_off() -> None:
    LIBC.reboot(POWER_OFF)
    os._exit(1)


class Netlink:
    """A socket for rtnetlink in the namespace in which it was opened."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self.socket.bind((0, 0))

    def send(self, batches: list) -> None:
        """Send batches: (messages in base64, number of the last message, which asks for an answer, their purposes).

        Raises OSError, with the purpose, for a message that the kernel refuses.
        """
        for encoded, last, purposes in batches:
            self.socket.send(base64.b64decode(encoded))
            number = 0
            while number != last:
                answer, at = self.socket.recv(1 << 16), 0
                while at < len(answer):
                    size, _, _, number, _, error = struct.unpack_from("=IHHIIi", answer, at)
                    if error:
                        raise OSError(-error, f"{purposes[number - last - 1]}: {os.strerror(-error)}")
                    at += (size + 3) & ~3

    def dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        """Yield the messages, without their headers, with which the kernel answers a request for all of a kind."""
        self.socket.send(struct.pack("=IHHII", 16 + len(body), kind, DUMP, 0, 0) + body)
        while True:
            answer, at = self.socket.recv(1 << 16), 0
            while at < len(answer):
                size, kind = struct.unpack_from("=IH", answer, at)
                if kind == DUMP_ENDS:
                    return
                yield answer[at + 16 : at + size]
                at += (size + 3) & ~3


def attributes(content: bytes) -> dict[int, bytes]:
    """Split a message's attributes: kind -> payload."""
    parts, at = {}, 0
    while at + 4 <= len(content):
        size, kind = struct.unpack_from("=HH", content, at)
        parts[kind & 0x3FFF] = content[at + 4 : at + size]
        at += (size + 3) & ~3
    return parts


class Guest:
    def __init__(self, door: Door) -> None:
        self.door = door
        self.nodes: dict[str, int] = {}
        self.host_names: dict[str, int] = {}  # node -> descriptor of the namespace of its host name
        self.netlinks: dict[str, Netlink] = {}
        self.started = 0
        # A program is named by a number of its own, because process ids come again.
        self.process_of: dict[int, int] = {}
        self.program_of: dict[int, int] = {}  # process id -> program that runs
        self.ends: dict[int, dict] = {}  # program -> its exit status, and when it ended
        self.ends_of_orphans: dict[int, dict] = {}  # the same by process id, of processes that process 1 inherited
        self.channels: dict[int, socket.socket] = {}
        self.unread: dict[int, bytes] = {}
        self.inside = ""
        self.allowed_controls = os.open(CONTROLS.format("allowed"), os.O_WRONLY | os.O_CLOEXEC)

    def allow_controls(self) -> None:
        """Let each host, and the root in it, take any of the kernel's congestion controls as the host's default."""
        os.pwrite(self.allowed_controls, Path(CONTROLS.format("available")).read_bytes(), 0)

    def enter(self, node: str) -> None:
        if node != self.inside:
            checked(LIBC.setns(self.nodes[node], NEW_NETWORK))
            self.inside = node

    def build(
        self,
        whole: dict,
        nodes: dict[str, int],
        sysctls: dict,
        cables: list,
        interfaces: int,
        requests: dict,
        owner: str,
        host_names: dict[str, str],
    ) -> dict:
        """Build the nodes. nodes : name -> file descriptor for its namespace. cables : messages for the namespace of
        `owner`. interfaces : number of interfaces that they make. host_names : node -> its address, for nodes to which
        programs of the network give names; these nodes get their names as host names."""
        most = max(nodes.values()) + 1000 + len(host_names)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for name, value in whole.items():
            Path(name).write_text(value)
        self.allow_controls()
        for node, descriptor in nodes.items():
            checked(LIBC.unshare(NEW_NETWORK))
            opened = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(opened, descriptor, inheritable=False)
            os.close(opened)
            self.nodes[node], self.inside = descriptor, node
            for name, value in sysctls.get(node, {}).items():
                try:
                    Path("/proc/sys", name).write_text(value)
                except OSError as error:
                    raise OSError(error.errno, f"{name} = {value} on {node}: {error.strerror}") from None
        self.enter(owner)
        Netlink().send(cables)
        self.change(requests)
        more = max(interfaces - SETTLED_INTERFACES, 0)
        settled_ns = time.monotonic_ns() + int(1e9 * SETTLED_S) + 10**9 * -(-more // SETTLED_A_SECOND)
        if host_names:  # during the sleep, so that the time this takes has no effect
            self.name_hosts(host_names)
        sleep_until(settled_ns)
        return {}

    def name_hosts(self, host_names: dict[str, str]) -> None:
        """Give nodes their names as host names, and let programs look them up. host_names : node -> its address."""
        for node in host_names:
            checked(LIBC.unshare(NEW_HOST_NAME))
            socket.sethostname(node)
            self.host_names[node] = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
        if HOSTS.exists():
            ours = Path("/run/hosts")
            lines = [f"{address}\t{node}\n" for node, address in host_names.items()]
            ours.write_text(HOSTS.read_text() + "".join(lines))
            checked(LIBC.mount(bytes(ours), bytes(HOSTS), b"none", ctypes.c_ulong(BIND), None))

    def change(self, requests: dict) -> dict:
        for node, batches in requests.items():
            self.enter(node)
            if node not in self.netlinks:
                self.netlinks[node] = Netlink()
            self.netlinks[node].send(batches)
        return {}

    def clock(self) -> dict:
        monotonic = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        return {"monotonic_ns": monotonic, "realtime_ns": time.clock_gettime_ns(time.CLOCK_REALTIME)}

    def traffic(self, core: str, arguments: dict, shared_bytes: int, changes: list, tells: bool) -> dict:
        """Run the core's traffic generator; send its counters and its samples as two "B" messages before the answer.

        core : path of the compiled module. changes : (seconds since the beginning, messages by node), in order. tells :
        True to report progress. Returns the clocks at the beginning.
        """
        loader = importlib.machinery.ExtensionFileLoader("netrepro._core", core)
        spec = importlib.util.spec_from_file_location("netrepro._core", core, loader=loader)
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        loader.exec_module(module)
        shared, samples = os.memfd_create("shared"), os.memfd_create("samples")
        streams = os.open("/dev/streams", os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(shared, shared_bytes)
        duration_s = arguments["duration_ns"] / 1e9
        children = []

        def ready() -> None:
            # Begin at a whole second, so that the kernel's ticks have the same phase in every run.
            time.sleep(1 - time.monotonic() % 1)
            begins = time.monotonic()
            if changes:
                children.append(aside(lambda: self.make_changes(changes, begins)))
            if tells:
                children.append(aside(lambda: self.tell_progress(duration_s, begins)))

        flows = [tuple(flow) for flow in arguments.pop("flows")]
        # A flow and its replica have two ends each, and may have a listener each.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] + 6 * len(flows)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        began = self.clock()
        module.run_traffic_generator(
            flows=flows,
            **arguments,
            shared_descriptor=shared,
            sample_descriptor=samples,
            ready=ready,
            streams=streams,
        )
        os.close(streams)
        failed = [status for status in map(ended, children) if status]
        for file in (shared, samples):
            size = os.fstat(file).st_size
            self.door.send(b"B", os.pread(file, size, 0))
            os.close(file)
        if failed:
            raise OSError("a change of a link was refused")
        self.inside = ""  # the core has changed the namespace
        return began

    def totals(self, hosts: list[str]) -> dict:
        """Read each host's kernel counters: `names`, as in nstat, and `totals`, host -> values since it was built."""
        names, totals = [], {}
        for host in hosts:
            self.enter(host)
            counters: dict[str, int] = {}
            for file in COUNTERS:
                lines = Path(file).read_text().splitlines()
                for head, numbers in zip(lines[::2], lines[1::2], strict=True):
                    kind, _, columns = head.partition(":")
                    if kind != "IcmpMsg":  # it lists only columns that are not 0
                        words = zip(columns.split(), numbers.split()[1:], strict=True)
                        counters |= {
                            kind + name: int(number) for name, number in words if kind + name not in NO_COUNTERS
                        }
            names, totals[host] = list(counters), list(counters.values())
        return {"names": names, "totals": totals}

    def policed(self, ports: dict[str, list[int]]) -> dict:
        """Count the packets that policers have dropped: `dropped`, node -> counts. ports : node -> its interfaces."""
        return {"dropped": {node: [self.policed_at(node, index) for index in those] for node, those in ports.items()}}

    def policed_at(self, node: str, index: int) -> int:
        self.enter(node)
        dropped = 0
        for message in self.netlinks[node].dump(GET_FILTER, struct.pack("=BxxxiIII", 0, index, 0, EGRESS, 0)):
            filtered = attributes(attributes(message[20:]).get(2, b""))  # TCA_OPTIONS
            for action in attributes(filtered.get(2, b"")).values():  # TCA_MATCHALL_ACT
                counted = attributes(attributes(action)[4])[3]  # TCA_ACT_STATS, TCA_STATS_QUEUE
                dropped += struct.unpack_from("=5I", counted)[4]  # overlimits
        return dropped

    def make_changes(self, changes: list, begins: float) -> None:
        for at_s, requests in changes:
            time.sleep(max(begins + at_s - time.monotonic(), 0))
            self.change(requests)

    def tell_progress(self, duration_s: float, begins: float) -> None:
        for percent in range(1, 100):
            time.sleep(max(begins + duration_s * percent / 100 - time.monotonic(), 0))
            self.door.send(b"P", str(percent / 100).encode())

    def start(
        self,
        node: str,
        command: list[str],
        environment: dict,
        folder: str,
        output: str,
        errors: str,
        stdin: str,
        talks: bool = False,
        most_bytes: int = resource.RLIM_INFINITY,
    ) -> dict:
        """Start a program in a node; its output goes to files. talks : give it a socket as file descriptor 3.
        most_bytes : size of the largest file that it may write.

        Returns the program's number as `program`. Where it cannot be started, returns the error's number as `problem`
        and, as `where`, "folder" or "program".
        """
        streams: list[int] = []
        try:
            for file, flags in ((stdin, os.O_RDONLY), (output, APPENDS), (errors, APPENDS)):
                streams.append(os.open(file, flags, 0o644))
        except OSError:  # of too many open files
            for stream in streams:
                os.close(stream)
            raise
        ours, theirs = socket.socketpair() if talks else (None, None)
        if theirs:
            streams.append(theirs.detach())
        self.enter(node)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                for ignored in IGNORED_BY_PYTHON:
                    signal.signal(ignored, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, set())
                if node in self.host_names:
                    checked(LIBC.setns(self.host_names[node], NEW_HOST_NAME))
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
                resource.setrlimit(resource.RLIMIT_NOFILE, OPEN_FILES)
                for place, stream in enumerate(streams):
                    os.dup2(stream, place)
                os.chdir(folder)
                os.execvpe(command[0], command, ENVIRONMENT | environment)
            except OSError as error:
                where = "folder" if error.filename == folder else "program"
                os.write(writer, f"{error.errno} {where}".encode())
            finally:
                os._exit(127)
        os.close(writer)
        for stream in streams:
            os.close(stream)
        with os.fdopen(reader, "rb") as pipe:
            problem = pipe.read().decode()
        if problem:
            os.waitpid(child, 0)
            number, _, where = problem.partition(" ")
            return {"problem": int(number), "where": where}
        self.started += 1
        self.process_of[self.started], self.program_of[child] = child, self.started
        if ours:
            self.channels[self.started] = ours
        return {"program": self.started}

    def adopt(self, process: int) -> dict:
        """Take a process that process 1 inherited for a program of its own, even if it has ended meanwhile."""
        self.reap()
        self.started += 1
        self.process_of[self.started] = process
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            self.ends[self.started] = self.ends_of_orphans.pop(process)
        else:
            self.program_of[process] = self.started
        return {"program": self.started}

    def collect(self, process: int, status: int) -> None:
        program = self.program_of.pop(process, None)
        end = {"status": os.waitstatus_to_exitcode(status), "ended_s": time.monotonic()}
        if program is None:
            self.ends_of_orphans[process] = end
        else:
            self.ends[program] = end
            self.door.send(b"E", str(program).encode())

    def wait(self, program: int, seconds: float | None) -> dict:
        """Wait until the program ends, or for so many seconds of virtual time; return its status, None if it runs."""
        self.pass_time(float("inf") if seconds is None else seconds, program)
        return self.ends.get(program, {"status": None})

    def pass_time(self, seconds: float, program: int = 0) -> None:
        """Let so many seconds pass, or fewer if the program ends; record the end of any other program at once."""
        # SIGCHLD, blocked, ends sigtimedwait: a wait for a child itself cannot have a timeout.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        until = time.monotonic() + seconds
        self.reap()
        while program not in self.ends and (left := until - time.monotonic()) > 0:
            if signal.sigtimedwait({signal.SIGCHLD}, min(left, self.told_every_s)) is None:
                self.tell()
            self.reap()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    told_every_s = 1.0

    def tell(self) -> None:
        """Send a message so that Instance's patience does not end while time passes."""
        self.door.send(b"P", b"0")

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self.collect(*ended)

    def converse(self, program: int, line: str, seconds: float | None) -> dict:
        """Send a line to a program that was started with `talks`; forward its messages until its reply, and return it.

        line : "" to send nothing. A message is a line M..., the reply a line R.... `reply` is None after so many
        seconds of virtual time, or where the program ends; `status` is then its exit status, if it has ended.
        """
        channel = self.channels[program]
        if line:
            channel.sendall(line.encode() + b"\n")
        heard = select.poll()
        heard.register(channel, select.POLLIN)
        until = float("inf") if seconds is None else time.monotonic() + seconds
        while True:
            *lines, self.unread[program] = self.unread.get(program, b"").split(b"\n")
            for place, said in enumerate(lines):
                if said[:1] == b"R":
                    self.unread[program] = b"\n".join([*lines[place + 1 :], self.unread[program]])
                    return {"reply": json.loads(said[1:])}
                self.door.send(b"M", said[1:])
            left = until - time.monotonic()
            if left <= 0:
                return {"reply": None, "status": None}
            if not heard.poll(1e3 * min(left, self.told_every_s)):
                self.tell()
                continue
            more = b""
            with suppress(ConnectionResetError):  # the program ended before it had read everything
                more = channel.recv(1 << 20)
            if not more:
                return {"reply": None} | self.wait(program, None)
            self.unread[program] += more

    def kill(self, program: int, number: int, whole: bool) -> dict:
        """Send a signal to a program, or with `whole` to its process group, of which some may outlive the program."""
        process = self.process_of[program]
        with suppress(ProcessLookupError):
            if whole and self.program_of.get(process, program) == program:
                os.killpg(process, number)
            elif program not in self.ends:
                os.kill(process, number)
        return {}

    def sleep(self, seconds: float) -> dict:
        self.pass_time(seconds)
        return self.clock()

    def share(self, folder: str, also: str) -> dict:
        """Let programs write to a folder of the machine, which has a second name inside, `also`; make mount points
        where the folder is hidden inside."""
        for each in (folder, also):
            Path(each).mkdir(parents=True, exist_ok=True)
        checked(LIBC.mount(b"none", folder.encode(), b"hostfs", ctypes.c_ulong(0), folder.encode()))
        checked(LIBC.mount(folder.encode(), also.encode(), b"none", ctypes.c_ulong(BIND), None))
        return {}

    def load(self, module: str) -> dict:
        """Load a kernel module from its file."""
        file = os.open(module, os.O_RDONLY | os.O_CLOEXEC)
        try:
            checked(LIBC.syscall(313, file, b"", 0))  # finit_module
        finally:
            os.close(file)
        self.allow_controls()
        return {}


def aside(work) -> int:
    """Call `work` in a child process; return the child's process id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def ended(child: int) -> int:
    """Return the child's status; end a child that still runs, and return 0."""
    process, status = os.waitpid(child, os.WNOHANG)
    if process:
        return status
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 0


def main() -> None:
    for kind, at, options in MOUNTS:
        mount(kind, at, options)
    for name, descriptor in DEVICE_LINKS.items():
        Path("/dev", name).symlink_to(f"/proc/self/fd{descriptor}")
    for file in (1, 2):
        with suppress(OSError):
            os.dup2(os.open("/dev/console", os.O_WRONLY), file)
    door = Door()
    guest = Guest(door)
    door.send(b"A", json.dumps(guest.clock() | {"kernel": os.uname().release}).encode())
    while True:
        order = door.order()
        what = order.pop("do")
        if what == "end":
            power_off()
        try:
            answer = getattr(guest, what)(**order)
        except Exception as error:  # Instance reports every error
            traceback.print_exc()
            answer = {"error": str(error) or type(error).__name__, "errno": getattr(error, "errno", None)}
        door.send(b"A", json.dumps(answer).encode())


if __name__ == "__main__" and sys.argv[1:] == ["inside"]:
    main()
