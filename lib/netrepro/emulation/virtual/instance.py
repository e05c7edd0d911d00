"""One kernel in virtual time as an ordinary process, and the pipes for orders to it and its answers."""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import mmap
import os
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any, BinaryIO

from netrepro.emulation import messages
from netrepro.emulation.messages import NetlinkRequest
from netrepro.emulation.virtual.guest import DEVICE_LINKS
from netrepro.emulation.virtual.kernel import cache, kernel_path
from netrepro.emulation.virtual.outside import Outside
from netrepro.emulation.virtual.spinning import Spins
from netrepro.errors import NetreproError
from netrepro.files import is_own, remove

GUEST = Path(__file__).with_name("guest.py")
_LAUNCH = Path(__file__).with_name("launch.py")
STARTS_AT = "2020-01-01T00:00:00Z"  # start of the kernel's clock
_EPOCH, _LAST_YEAR = datetime(1970, 1, 1, tzinfo=UTC), 2199  # of the kernel's clock, which ends in 2262
SYSCALL_COST_NS = 1000
NO_FILES = "raise the hard limit of open files (ulimit -Hn): every program inside needs three"
_LAST_LINES = 12
_MOST_NAMED = 8  # programs that an error names
_ARGUMENTS = (
    "root=/dev/root",
    "rootfstype=hostfs",
    "rootflags=/",
    "ro",
    "time-travel=inf-cpu",
    "con=null",
    "norandmaps",
    "loglevel=4",
    "umid=kernel",
)
_PREFIX = "netrepro-virtual-"
_SHELL_MOUNTS = (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run"))
_HEAD = struct.Struct("<cII")  # of a message: its kind, the number of its order, the bytes that follow
_NO_MORE_EVENTS = r"takes no more events: -28$"  # panic of line.c where a disk is full (ENOSPC)
MEMORY_MB = 512
_START_S = 60.0  # least patience with a kernel that starts, whose clock hardly advances


class Instance:
    """A kernel that runs until it is closed; everything random in it follows from `seed`.

    Programs inside read the machine's files (hostfs) with the rights of this process, and write only to the kernel's
    own folder (see launch.py). Threads may share an instance: their orders are carried out one after the other. A
    forked copy of this process may not use it.

    descriptors : file descriptors that the kernel's process inherits; its links' events and captures are written to
    them. patience_s : the longest real time (s) in which virtual time stands still while an order is carried out.
    memory_mb : memory of kernel and programs. syscall_cost_ns : the least virtual time (ns) that a system call of a
    program takes; orders take none. starts_at : the date at which the clock starts (clock_start_ns). spin_after_s : the
    processor time (s) after which a program that makes no system call loses the processor (Spins).

    Raises NetreproError where no kernel is built, or where the kernel cannot start.
    """

    def __init__(
        self,
        seed: int,
        descriptors: Sequence[int] = (),
        patience_s: float = 120.0,
        memory_mb: int = MEMORY_MB,
        syscall_cost_ns: int = 0,
        starts_at: str | datetime = STARTS_AT,
        spin_after_s: float = inf,
    ):
        self._patience_s = max(patience_s, _START_S)
        self._folder, self._keeps = _own_folder()
        self._log = _file_in_memory("console")
        self._left, self._closed, self._interrupted = bytearray(), False, False
        self._owner, self._number = os.getpid(), 0
        self._one_at_a_time, self._thread = threading.Lock(), 0  # the thread whose order is carried out
        self.programs: dict[int, str] = {}  # running inside: the program's number -> its name in errors
        kernel = str(kernel_path())
        # The kernel separates its arguments by blanks, and the interpreter's path may contain blanks: so use a file.
        init = Path(self._folder, "init")
        guest = shlex.join([sys.executable, "-I", "-S", "-B", str(GUEST), "inside"])
        init.write_text(f"#!/bin/sh\nexec {guest}\n")
        init.chmod(0o700)
        orders, self._to_guest = os.pipe()
        self._from_guest, answers = os.pipe()
        os.set_blocking(self._from_guest, False)
        self._heard = select.poll()  # select() does not take descriptors beyond 1023
        self._heard.register(self._from_guest, select.POLLIN)
        self._processor = _Processor()
        command = [
            *_launched(self._processor.number, self._folder),
            kernel,
            *_ARGUMENTS,
            f"mem={memory_mb}M",
            f"init={init}",
            f"random-seed={seed}",
            f"syscall-cost={syscall_cost_ns}",
            f"time-travel-start={clock_start_ns(starts_at)}",
            f"door={orders},{answers}",
            "con0=null,fd:1",
            f"uml_dir={self._folder}/",
        ]
        environment = {"HOME": self._folder, "TMPDIR": self._folder, "PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=environment,
                pass_fds=[orders, answers, *descriptors],
                start_new_session=True,
            )
        except OSError as error:
            raise NetreproError(f"the virtual kernel does not start: {error}", "see `netrepro doctor`") from None
        finally:
            os.close(orders)
            os.close(answers)
        self._outside, self._cost_ns = Outside(self._process.pid, Path(kernel)), syscall_cost_ns
        self.spins = Spins(self._outside, spin_after_s)
        try:
            self.begun = self._answer("to start")
        except BaseException:
            self.close()
            raise
        self._patience_s = patience_s

    @property
    def kernel(self) -> str:
        """The kernel's release, such as "6.12.3-netrepro"."""
        return str(self.begun["kernel"])

    @property
    def folder(self) -> Path:
        """The kernel's own folder; it is removed when the kernel is closed."""
        return Path(self._folder)

    def order(
        self,
        what: str,
        /,
        progress: Callable[[float], None] | None = None,
        name: str = "",
        heard: Callable[[dict[str, Any]], None] | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Have the kernel call a method of `guest.Guest`; return its answer and, as `contents`, bytes sent before it.

        what : name of the method. progress : called with the share of its time that has passed. name : what the order
        is about, for errors. heard : called with each message of a program. arguments : the method's arguments.

        Raises NetreproError for an order that is refused, a kernel that has ended, and one whose time stands still.
        Such an order is given up: its answer, which may still come, is nobody else's. Raises NetreproError in a forked
        process, and for an order from within `progress` or `heard`.
        """
        self._check_caller()
        with self._one_at_a_time:
            self._thread = threading.get_ident()
            try:
                return self._exchange(what, f"{what} {name}".strip(), progress, heard, arguments)
            finally:
                self._thread = 0

    def _check_caller(self) -> None:
        if os.getpid() != self._owner:
            raise NetreproError(
                f"the virtual kernel of process {self._owner} in process {os.getpid()}, a fork of it",
                "use the network in the process that built it, or build another one in the fork",
            )
        if self._thread == threading.get_ident():
            raise NetreproError(
                "an order to the virtual kernel while it carries out another one of the same thread",
                "use the network after the call has returned, not in its progress or output_hook",
            )

    def _exchange(
        self,
        what: str,
        named: str,
        progress: Callable[[float], None] | None,
        heard: Callable[[dict[str, Any]], None] | None,
        arguments: Mapping[str, Any],
    ) -> dict[str, Any]:
        if self._closed:
            raise self._ended()
        if self._interrupted:
            raise NetreproError("the virtual kernel has ended: an order was interrupted", "build the network again")
        try:
            self._send(what, arguments)
            return self._answer(named, progress, heard)
        except NetreproError:
            raise
        except BaseException:  # a part of an order or of a message may be lost
            self._interrupted = True
            raise

    def _send(self, what: str, arguments: Mapping[str, Any]) -> None:
        self._number += 1
        content = json.dumps({"do": what, "order": self._number, **arguments}).encode()
        left = memoryview(struct.pack("<I", len(content)) + content)
        try:
            while left:
                left = left[os.write(self._to_guest, left) :]
        except BrokenPipeError:
            raise self._ended() from None

    def load(self, modules: Iterable[Path]) -> None:
        """Load kernel modules (made by kernel.build_module). Raises NetreproError for a module that is refused."""
        for module in modules:
            self.order("load", name=module.name, module=str(module))

    def _answer(
        self,
        what: str,
        progress: Callable[[float], None] | None = None,
        heard: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        contents: list[bytes] = []
        share, told = 0.0, time.monotonic()
        since_ns: int | None = None  # virtual time at the first look after the last message
        while True:
            message = self._message()
            if message is None:
                self.spins.look()
                if since_ns is None:
                    since_ns = self._outside.clock_ns()
                if time.monotonic() - told > self._patience_s:
                    now_ns = self._outside.clock_ns()
                    if not _has_passed(since_ns, now_ns, self._patience_s):
                        raise self._stuck(what, share)
                    told, since_ns = time.monotonic(), now_ns
                continue
            told, since_ns = time.monotonic(), None
            kind, number, content = message
            if kind == b"E":
                self.programs.pop(int(content), None)
            elif number != self._number:
                continue  # of an order that was given up
            elif kind == b"P":
                share = float(content)
                if progress is not None:
                    progress(share)
            elif kind == b"B":
                contents.append(content)
            elif kind == b"M":
                if heard is not None:
                    heard(json.loads(content))
            else:
                answer = json.loads(content)
                if "error" in answer:
                    remedy = NO_FILES if answer["errno"] == errno.EMFILE else self._said()
                    raise NetreproError(f"the virtual kernel refuses {what}: {answer['error']}", remedy)
                return answer | {"contents": contents}

    def _message(self) -> tuple[bytes, int, bytes] | None:
        """Return the next message (kind, number of its order, content), or None when it is time to look again.

        Raises NetreproError for an ended kernel.
        """
        while True:
            if len(self._left) >= _HEAD.size:
                kind, number, size = _HEAD.unpack_from(self._left)
                whole = _HEAD.size + size
                if len(self._left) >= whole:
                    content = bytes(self._left[_HEAD.size : whole])
                    del self._left[:whole]
                    return kind, number, content
            if not self._heard.poll(1e3 * self.spins.wait_s):
                return None
            more = os.read(self._from_guest, 1 << 20)
            if not more:
                raise self._ended()
            self._left += more

    def _console(self) -> str:
        """Return what the kernel has said so far."""
        # The kernel writes through the same position of the file: leave it where it is.
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    def _said(self) -> str:
        """Return the last lines of the kernel's console."""
        lines = self._console().strip().splitlines()
        return "\n".join(f"  | {line}" for line in lines[-_LAST_LINES:])

    def _ended(self) -> NetreproError:
        if self._closed:
            return NetreproError("the virtual kernel has ended: it was closed", "build the network again")
        try:
            status = str(self._process.wait(timeout=5))
        except subprocess.TimeoutExpired:
            status = "that it does not tell"
        said = self._console()
        panic = re.search(r"(Kernel panic.*|BUG: .*)", said)
        full = self._full_disk(panic[0] if panic else "")
        if full:
            return NetreproError(
                f"the virtual kernel has ended: no space is left in {full}", "make room, or set TMPDIR to another disk"
            )
        problem = f"the virtual kernel has ended: {panic[0] if panic else f'status {status}'}"
        if panic is None:
            return NetreproError(problem, f"its last lines:\n{self._said()}")
        trace = [line for line in said[panic.start() :].splitlines() if "?" not in line]
        return NetreproError(problem, "\n".join(["where:", *(f"  | {line}" for line in trace[:_LAST_LINES])]))

    def _full_disk(self, panic: str) -> str:
        """Return the folder whose full disk has ended the kernel, "" for another cause."""
        if re.search(_NO_MORE_EVENTS, panic):
            return tempfile.gettempdir()
        if not panic and shutil.disk_usage(self._folder).free < mmap.PAGESIZE:
            return self._folder  # the kernel's memory is a file there
        return ""

    def _stuck(self, what: str, share: float) -> NetreproError:
        running = _listed(list(self.programs.values()))
        why, remedy = self._outside.why_time_stands(self._console, self._cost_ns)
        return NetreproError(
            f"virtual time has not advanced for {self._patience_s:g} s ({what}, after {share:.0%} of its time): {why}"
            + (f"; while these programs run: {running}" if running else ""),
            remedy,
        )

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the kernel and its programs and remove its folder; do nothing the second time or in a forked process."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        if self._process.poll() is None:
            try:
                content = b'{"do": "end", "order": 0}'
                os.write(self._to_guest, struct.pack("<I", len(content)) + content)
                self._process.wait(timeout=1)
            except (OSError, subprocess.TimeoutExpired):
                pass
        # The kernel's programs are processes of this machine, in the kernel's session.
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        # The order of another thread ends with the kernel. Only then nobody uses the descriptors any more.
        with nullcontext() if self._thread == threading.get_ident() else self._one_at_a_time:
            for descriptor in (self._to_guest, self._from_guest, self._keeps):
                os.close(descriptor)
            self._log.close()
        self._processor.free()
        remove(self.folder)  # however deep programs inside have made it


def _has_passed(before_ns: int | None, after_ns: int | None, seconds: float) -> bool:
    """Tell whether virtual time has passed during so many real seconds: a five-thousandth of them at least.

    A program that polls where calls cost nothing reads a clock that advances by a nanosecond in ten microseconds or
    more. At the usual cost it advances by one microsecond, also beside much other work.
    """
    return before_ns is not None and after_ns is not None and after_ns - before_ns >= 2e5 * seconds


def clock_start_ns(starts_at: str | datetime) -> int:
    """Return a date and time as nanoseconds since 1970-01-01 00:00:00 UTC, of which a clock counts.

    starts_at : in ISO 8601, such as "2026-11-29T08:30:00+01:00", or a datetime. Without a zone it is in UTC; a date
    alone is its first moment. Raises NetreproError for anything else, and for a year before 1970 or after 2199.
    """
    try:
        when = starts_at if isinstance(starts_at, datetime) else datetime.fromisoformat(starts_at)
        when = (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        when = None
    if when is None or not _EPOCH.year <= when.year <= _LAST_YEAR:
        raise NetreproError(
            f"starts_at = {starts_at!r}",
            f'give a date and time in ISO 8601, such as "{STARTS_AT}", from {_EPOCH.year} to {_LAST_YEAR}',
        )
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000


def _listed(names: Sequence[str]) -> str:
    """Join the first _MOST_NAMED names, and add how many more there are."""
    more = len(names) - _MOST_NAMED
    return "; ".join(names[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def batched(requests: Iterable[NetlinkRequest]) -> list[tuple[str, int, list[str]]]:
    """Group messages for `guest.Netlink.send`: (content in base64, number of the last message, purposes)."""
    batches, first = [], 0
    listed = list(requests)
    for content, last in messages.batches(listed):
        purposes = [request.purpose for request in listed[first:last]]
        batches.append((base64.b64encode(content).decode(), last, purposes))
        first = last
    return batches


def batched_by_node(requests: Mapping[str, Iterable[NetlinkRequest]]) -> dict[str, list[tuple[str, int, list[str]]]]:
    return {node: batched(those) for node, those in requests.items()}


def _file_in_memory(name: str) -> BinaryIO:
    """Open a file that tells why a kernel ended even where the disk of temporary files is full. Where that is refused,
    as in a sandbox that counts memory by its files, it is a temporary file."""
    try:
        return os.fdopen(os.memfd_create(name), "w+b")
    except OSError:
        return tempfile.TemporaryFile()


def _own_folder() -> tuple[str, int]:
    """Make a folder and lock it by a file descriptor; remove folders of this user whose owner has ended.

    An owner without an entry in /proc may live in another process namespace. So its lock is checked, too. What other
    users have put there under such a name is left alone.
    """
    home = folder_for_memory()
    for left in Path(home).glob(f"{_PREFIX}*-*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        if (
            owner.isdigit()
            and is_own(left)
            and left.is_dir()
            and not Path("/proc", owner).exists()
            and not _is_kept(left)
        ):
            remove(left)
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=home)
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return folder, descriptor


def _is_kept(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True  # the folder belongs to another user, or was just removed
    try:
        return not _locks(descriptor)
    finally:
        os.close(descriptor)


def _locks(descriptor: int) -> bool:
    """Try to lock the file; tell whether that worked, which means that nobody else has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def folder_for_memory() -> str:
    """Return a folder for a kernel's memory: in RAM if possible, and not mounted noexec.

    Raises NetreproError, with the reason against each candidate, where no folder is suitable.
    """
    reasons = {}
    for folder in filter(None, ("/dev/shm", os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir())):
        reasons[folder] = why_no_memory(folder)
        if not reasons[folder]:
            return folder
    told = ", ".join(f"{folder} {reason}" for folder, reason in reasons.items())
    raise NetreproError(
        f"no folder of temporary files for the virtual kernel's memory: {told}",
        f"set TMPDIR to one that is not mounted noexec, with {MEMORY_MB} MB free",
    )


def why_no_memory(folder: str) -> str:
    """Return why a folder is not suitable for a kernel's memory, "" where it is."""
    if len(folder.split()) != 1:
        return "has a blank in its path, and blanks separate the kernel's arguments"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(mmap.PAGESIZE)
            try:
                mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
            except PermissionError as error:
                return (
                    "is mounted noexec" if error.errno == errno.EPERM else "may not hold programs (SELinux forbids it)"
                )
    except OSError as error:
        return f"cannot be written to ({error.strerror})"
    free_mb = shutil.disk_usage(folder).free >> 20
    return "" if free_mb > MEMORY_MB else f"has only {free_mb} MB free (a container's --shm-size?)"


def _launched(processor: int | None, folder: str) -> list[str]:
    """Return the prefix of a kernel's command: launch.py ends the kernel with this process and lets it write only to
    the folder."""
    python = [sys.executable, "-I", "-S", "-B"]
    return [*python, str(_LAUNCH), str(os.getpid()), "" if processor is None else str(processor), folder]


class _Processor:
    """A processor for one instance: `number` is one that no other instance uses, if there is one."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._file: int | None = None
        allowed = sorted(os.sched_getaffinity(0))
        folder = cache() / f"processors-{os.getuid()}"  # stays after the run, and says nothing about it
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number in allowed:
                file = os.open(folder / str(number), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                if _locks(file):
                    self.number, self._file = number, file
                    return
                os.close(file)
        except OSError:
            pass  # the cache cannot be written to, as in a sandbox: the choice is unknown to other instances
        self.number = allowed[os.getpid() % len(allowed)]

    def free(self) -> None:
        if self._file is not None:
            os.close(self._file)


def run_shell() -> int:
    """Run a shell in a new kernel, on this terminal; return its exit status. While nobody types, time jumps on."""
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=folder_for_memory()) as folder:
        init = Path(folder, "init")
        mounts = "".join(f"mount -t {kind} {kind} {at}\n" for kind, at in _SHELL_MOUNTS)
        links = "".join(f"ln -s /proc/self/fd{at} /dev/{name}\n" for name, at in DEVICE_LINKS.items())
        init.write_text(f"#!/bin/sh\n{mounts}{links}cd /; PS1='virtual# ' setsid -c sh -i; poweroff -f\n")
        init.chmod(0o700)
        own = [f"init={init}", f"syscall-cost={SYSCALL_COST_NS}", f"time-travel-start={clock_start_ns(STARTS_AT)}"]
        kernel = [str(kernel_path()), *_ARGUMENTS, *own, "con0=fd:0,fd:1", f"uml_dir={folder}/"]
        environment = {"HOME": folder, "TMPDIR": folder, "PATH": os.environ.get("PATH", ""), "TERM": "linux"}
        return subprocess.run([*_launched(None, folder), *kernel], env=environment).returncode
