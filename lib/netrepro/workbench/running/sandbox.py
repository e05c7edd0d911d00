"""Run an untrusted program in its own namespaces, with only the files that it needs, and within limits.

The program sees the interpreter, the library and the data, read-only; a folder to write to; its own processes and a
network with only the loopback interface. Home folders, other runs, the checkout's history and other environment
variables are hidden. When root starts it, the program runs as the user nobody.

All that it writes is in memory, in file systems of its own, which end with it: nothing that it makes has a name outside
of the sandbox. Who started it reads the folder through a descriptor. A filter of system calls (seccomp) refuses setuid
bits, further namespaces, and memory that belongs to no process and no file.

This file is started as a script that imports only the standard library, since opening a user namespace needs a process
without threads.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import json
import os
import platform
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

NEW_USER, NEW_MOUNTS, NEW_PROCESSES, NEW_NETWORK, NEW_IPC = 0x10000000, 0x20000, 0x20000000, 0x40000000, 0x08000000
BIND, RECURSIVE, PRIVATE, NO_SETUID_DEVICE_EXEC, DETACH = 0x1000, 0x4000, 0x40000, 0xE, 2
SET_ATTRIBUTES, HERE, ALL_BELOW = 442, -100, 0x8000  # mount_setattr(2), of Linux 5.12
READ_ONLY, NO_SETUID, NO_DEVICES = 1, 2, 4
DIE_WITH_PARENT, DROP_CAPABILITY, TAKE_ORPHANS, NO_NEW_PRIVILEGES, CAPABILITIES = 1, 24, 36, 38, 64
SET_INTERFACE_FLAGS, INTERFACE_UP = 0x8914, 1
NOBODY = 65534
HOME = "/student"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
SETTINGS = ("alternatives", "fonts", "group", "ld.so.cache", "localtime", "mime.types", "nsswitch.conf", "passwd")
DEVICES = ("null", "zero", "full", "random", "urandom")
VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
NOT_READY = 125  # exit code where the sandbox could not be set up
READY_S = 120.0  # longest time to set it up, on a busy machine

# The filter of system calls (seccomp(2)): instructions of classic BPF over struct seccomp_data.
FILTER_SYSTEM_CALLS, BY_PROGRAM = 22, 2
LOAD, IF_EQUAL, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
CALL, MACHINE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; an argument has 8 bytes
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
OTHER_NUMBERS = 0x40000000  # bit of the numbers of x32
SETUID_BITS, NEW_NAMESPACES = 0o6000, 0x7E020080
NO_CALL, NO_RIGHT = errno.ENOSYS, errno.EPERM
# Refused calls: (the error, the argument that decides, the bits of it that are refused); without an argument, always.
# Programs take NO_CALL for an older kernel and go on without. The arguments of clone3 and openat2 are in memory, where
# no filter sees them, and calls of io_uring pass no filter.
REFUSED: dict[str, tuple[int, int | None, int]] = {
    "open": (NO_RIGHT, 2, SETUID_BITS),
    "creat": (NO_RIGHT, 1, SETUID_BITS),
    "chmod": (NO_RIGHT, 1, SETUID_BITS),
    "mknod": (NO_RIGHT, 1, SETUID_BITS),
    "fchmod": (NO_RIGHT, 1, SETUID_BITS),
    "fchmodat": (NO_RIGHT, 2, SETUID_BITS),
    "fchmodat2": (NO_RIGHT, 2, SETUID_BITS),
    "openat": (NO_RIGHT, 3, SETUID_BITS),
    "mknodat": (NO_RIGHT, 2, SETUID_BITS),
    "clone": (NO_RIGHT, 0, NEW_NAMESPACES & ~0xFF),  # the lowest byte is a signal
    "unshare": (NO_RIGHT, 0, NEW_NAMESPACES),
    "setns": (NO_RIGHT, None, 0),
    "clone3": (NO_CALL, None, 0),
    "openat2": (NO_CALL, None, 0),
    "io_uring_setup": (NO_CALL, None, 0),
    "memfd_create": (NO_CALL, None, 0),
    "memfd_secret": (NO_CALL, None, 0),
    "shmget": (NO_CALL, None, 0),
    "semget": (NO_CALL, None, 0),
    "msgget": (NO_CALL, None, 0),
}
_NEW_CALLS = {"io_uring_setup": 425, "clone3": 435, "openat2": 437, "memfd_secret": 447, "fchmodat2": 452}
# Of each machine: its number in linux/audit.h, and its numbers of the refused calls.
NUMBERS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        _NEW_CALLS
        | {"open": 2, "shmget": 29, "clone": 56, "semget": 64, "msgget": 68, "creat": 85, "chmod": 90, "fchmod": 91}
        | {"mknod": 133, "openat": 257, "mknodat": 259, "fchmodat": 268, "unshare": 272, "setns": 308}
        | {"memfd_create": 319},
    ),
    "aarch64": (
        0xC00000B7,
        _NEW_CALLS
        | {"mknodat": 33, "fchmod": 52, "fchmodat": 53, "openat": 56, "unshare": 97, "msgget": 186, "semget": 190}
        | {"shmget": 194, "clone": 220, "setns": 268, "memfd_create": 279},
    ),
}


@dataclass(frozen=True)
class Sandbox:
    """The files and limits of a sandboxed program.

    folder : path in the sandbox of the folder that the program may change; it is empty but for `copied`.
    read_only : files and folders that it may read beside the system's, path in the sandbox -> path outside.
    copied : small files of which it gets a copy, likewise.
    memory_mb : limit for each of its processes, and for all temporary files together.
    folder_mb, folder_files : limits of what the folder holds: sizes together, and files and folders.
    processes : limit for processes and threads at a time.
    processor_s : limit of processor time for each process.
    group : folder of the control group that all its processes belong to; empty for none.
    """

    folder: str
    read_only: dict[str, str]
    copied: dict[str, str] = field(default_factory=dict)
    memory_mb: int = 4000
    folder_mb: int = 200
    folder_files: int = 10_000
    processes: int = 1000
    processor_s: int = 3600
    group: str = ""

    def start(self, words: Sequence[str], environment: dict[str, str]) -> Started:
        """Start the command `words` in the sandbox, with some environment variables and `environment`.

        Its two output streams are one pipe, which the caller reads.
        """
        kept = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", __file__, json.dumps(asdict(self)), str(theirs.fileno()), *words],
                env=kept | {"HOME": HOME, "TMPDIR": "/tmp"} | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # so that Ctrl-C reaches only who started it
            )
            theirs.close()
            ours.settimeout(READY_S)
            try:
                _, descriptors, _, _ = socket.recv_fds(ours, 1, 2)
            except OSError:
                process.kill()  # all that it has started then ends too
                descriptors = []
        return Started(process, *descriptors)


@dataclass(frozen=True)
class Started:
    """A program that was started in a sandbox.

    folder, root : descriptors of its folder and of its root folder, also when it has ended; -1 where the sandbox could
    not be set up. Then the process says why and ends with NOT_READY.
    """

    process: subprocess.Popen[bytes]
    folder: int = -1
    root: int = -1

    def read(self, name: str, most: int) -> bytes | None:
        """Read at most `most` bytes of a plain file directly in the folder; None for a link, a pipe, a file that cannot
        be read or none."""
        if self.folder < 0:
            return None
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=self.folder)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(most)
        finally:
            os.close(descriptor)

    def full(self) -> bool:
        """Tell whether the folder holds all that it may: its sizes or its files are at their limits."""
        if self.folder < 0:
            return False
        room = os.fstatvfs(self.folder)
        return room.f_bavail < 16 or room.f_favail < 1

    def temporary_mb(self) -> float:
        """Return the size of all temporary files, also of those without a name, in MB."""
        rooms = [os.fstatvfs(each) for each in (self.folder, self.root) if each >= 0]
        return sum((room.f_blocks - room.f_bfree) * room.f_frsize for room in rooms) / (1 << 20)

    def close(self) -> None:
        """Give the folder up, whose files then end."""
        for descriptor in (self.folder, self.root):
            if descriptor >= 0:
                os.close(descriptor)


def library_paths(root: Path) -> dict[str, str]:
    """Return the paths that a notebook of the workbench `root` must read: interpreter, packages, data; no notebooks.

    Returns path in the sandbox -> path outside.
    """
    import netrepro._core as core
    from netrepro.emulation.virtual.kernel import cache

    hidden = {Path.home(), root, Path(tempfile.gettempdir()), Path("/")}
    wanted = [sys.prefix, sys.base_prefix, *sys.path, str(Path(core.__file__).parent), str(Path(__file__).parents[2])]
    paths = [Path(each).absolute() for each in wanted if each]
    paths += [root / name for name in ("lib", "data", "figures")]
    shown = [path for path in paths if path.exists() and not any(each.is_relative_to(path) for each in hidden)]
    seen = {str(path): str(path.resolve()) for path in shown}
    if cache().is_dir():
        seen[f"{HOME}/.cache/netrepro/kernel"] = str(cache())
    return seen


def font_lists() -> dict[str, str]:
    """Return matplotlib's files of fonts, path in the sandbox -> path outside. Without them matplotlib needs a second
    of processor time to make them."""
    from netrepro.paths import user_cache

    folder = Path(os.environ.get("MPLCONFIGDIR") or user_cache() / "matplotlib")
    return {f"{HOME}/.cache/matplotlib/{path.name}": str(path.resolve()) for path in folder.glob("fontlist-*.json")}


@functools.cache
def why_not() -> str:
    """Try a sandbox once, and say why none works on this machine; "" where it works."""
    from netrepro.paths import workbench_root

    tried = Sandbox("/run/mine", library_paths(workbench_root())).start(
        [sys.executable, "-c", "import netrepro._core"], {}
    )
    try:
        said = tried.process.communicate(timeout=READY_S)[0].decode(errors="replace").strip().splitlines()
    except subprocess.TimeoutExpired:
        tried.process.kill()
        return "a trial did not end"
    finally:
        tried.close()
    code = tried.process.returncode
    return (said or [f"a trial ended with code {code}"])[-1] if code else ""


# In the process that is started ---------------------------------------------------------------------

_C = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    words = [text.encode() for text in (source, target, kind, options)]
    _checked(_C.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def _show(source: str, target: Path, attributes: int) -> None:
    """Mount a file or folder of the machine at `target`, with all that is mounted below it."""
    if Path(source).is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(Path(source).readlink())
        return
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(source, str(target), "", BIND | RECURSIVE)
    wanted = struct.pack("=4Q", attributes, 0, 0, 0)
    number, here, below = (ctypes.c_long(each) for each in (SET_ATTRIBUTES, HERE, ALL_BELOW))
    status = _C.syscall(number, here, str(target).encode(), below, wanted, ctypes.c_size_t(len(wanted)))
    _checked(status, f"mount_setattr {target}")


def _enter(root: str, old: str) -> None:
    os.chdir(root)
    _checked(_C.pivot_root(b".", old.encode()), "pivot_root")


def _build(around: Sandbox, user: int, group: int) -> None:
    """Make a new root file system and enter it; the machine's root is then out of reach.

    user, group : the owner of the folder that may be changed.
    """
    os.umask(0o022)  # whatever the caller's: the program, which may be another user, goes through these folders
    _mount("none", "/", "", RECURSIVE | PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m")
    for name in ("old", "new"):
        Path("/tmp", name).mkdir()
    _enter("/tmp", "old")
    os.chdir("/")
    new = Path("/new")
    own = NO_SETUID | NO_DEVICES
    _mount("tmpfs", "/new", "tmpfs", own, f"size={around.memory_mb}m,nr_inodes=200k,mode=755")
    untouchable = READ_ONLY | NO_SETUID | NO_DEVICES
    for path in SYSTEM:
        if os.path.lexists(f"/old{path}"):
            _show(f"/old{path}", new / path[1:], untouchable)
    shown = {f"/etc/{name}": f"/etc/{name}" for name in SETTINGS if os.path.lexists(f"/old/etc/{name}")}
    for path, outside in sorted((shown | around.read_only).items()):
        if not (new / path[1:]).exists():  # else a system folder shows it already
            _show(f"/old{outside}", new / path[1:], untouchable)
    folder = new / around.folder[1:]
    folder.mkdir(parents=True)
    limits = f"size={around.folder_mb}m,nr_inodes={around.folder_files}"
    _mount("tmpfs", str(folder), "tmpfs", own, f"{limits},mode=700,uid={user},gid={group}")
    (new / "dev").mkdir()
    for name in DEVICES:
        _show(f"/old/dev/{name}", new / "dev" / name, NO_SETUID)
    (new / "dev/fd").symlink_to("/proc/self/fd")
    (new / "proc").mkdir()
    _mount("proc", "/new/proc", "proc", NO_SETUID_DEVICE_EXEC)
    for path in ("sys", "run"):  # empty: a virtual kernel mounts its own there
        (new / path).mkdir(exist_ok=True)
    for path in ("tmp", "dev/shm", HOME[1:]):
        (new / path).mkdir(parents=True, exist_ok=True)
        (new / path).chmod(0o1777)
    for path, outside in around.copied.items():
        target = new / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(f"/old{outside}").read_bytes())
        if target.parent != folder:
            target.parent.chmod(0o1777)
    _enter("/new", ".")
    _checked(_C.umount2(b".", DETACH), "umount2")
    os.chdir("/")


def _connect_to_itself() -> None:
    """Bring the loopback interface up, over which processes of some notebooks communicate."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_INTERFACE_FLAGS, struct.pack("16sh14x", b"lo", INTERFACE_UP))


def _give_up_rights(around: Sandbox, user: int, group: int) -> None:
    for number in range(CAPABILITIES):
        _C.prctl(DROP_CAPABILITY, number, 0, 0, 0)
    if os.getuid() != user:
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    _checked(_C.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    _filter_system_calls()
    memory = around.memory_mb << 20
    for what, most in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, memory),
        (resource.RLIMIT_CPU, around.processor_s),
        (resource.RLIMIT_NPROC, around.processes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, highest = resource.getrlimit(what)
        most = most if highest == resource.RLIM_INFINITY else min(most, highest)
        resource.setrlimit(what, (most, most))


def _filter_system_calls() -> None:
    """Let this process and all that it starts no longer make the calls of REFUSED."""
    machine = platform.machine()
    if machine not in NUMBERS:
        raise OSError(NO_CALL, f"there is no filter of system calls for {machine}")
    lines = [struct.pack("=HBBI", *line) for line in _filter(*NUMBERS[machine])]
    code = ctypes.create_string_buffer(b"".join(lines))
    program = struct.pack("@HP", len(lines), ctypes.addressof(code))
    _checked(_C.prctl(FILTER_SYSTEM_CALLS, BY_PROGRAM, program, 0, 0), "seccomp")


def _filter(machine: int, numbers: dict[str, int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the filter's instructions: (what to do, lines to skip where a test holds, and where not, value)."""
    yield LOAD, 0, 0, MACHINE
    yield IF_EQUAL, 1, 0, machine
    yield RETURN, 0, 0, REFUSE | NO_CALL  # a call of 32-bit programs
    yield LOAD, 0, 0, CALL
    yield IF_ANY_BIT, 0, 1, OTHER_NUMBERS
    yield RETURN, 0, 0, REFUSE | NO_CALL
    for name, number in numbers.items():
        error, argument, bits = REFUSED[name]
        if argument is None:
            yield IF_EQUAL, 0, 1, number
        else:
            yield IF_EQUAL, 0, 4, number
            yield LOAD, 0, 0, ARGUMENTS + 8 * argument
            yield IF_ANY_BIT, 1, 0, bits
            yield RETURN, 0, 0, ALLOW
        yield RETURN, 0, 0, REFUSE | error
    yield RETURN, 0, 0, ALLOW


def _first_process(around: Sandbox, words: Sequence[str], tells: int, user: int, group: int) -> int:
    """Set the sandbox up, start the program, and return its exit code. It runs in process 1 of the new namespace: when
    this process ends, all others there end.

    tells : the socket that hands the descriptors of the folder and of the root folder out.
    """
    _C.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    _build(around, user, group)
    _connect_to_itself()
    with socket.socket(fileno=tells) as out:
        socket.send_fds(out, [b"1"], [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (around.folder, "/")])
    program = os.fork()
    if program == 0:
        _leave_with(lambda: _program(around, words, user, group))
    while True:
        ended, status = os.wait()
        if ended == program:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _program(around: Sandbox, words: Sequence[str], user: int, group: int) -> NoReturn:
    _give_up_rights(around, user, group)
    os.execvp(words[0], list(words))


def _second_process(
    around: Sandbox, words: Sequence[str], tells: int, may_go_on: int, is_ready: int, ids: tuple[int, int]
) -> int:
    """Leave the namespaces of the caller, and start the first process of the new ones.

    may_go_on, is_ready : pipes from and to the parent, which writes the user mapping in between.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getppid()
    flags = NEW_USER | NEW_MOUNTS | NEW_PROCESSES | NEW_NETWORK | NEW_IPC
    _checked(_C.unshare(flags), "no user namespace")
    _C.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return NOT_READY
    os.write(is_ready, b"1")
    if os.read(may_go_on, 1) != b"1":
        return NOT_READY
    os.close(may_go_on)
    os.close(is_ready)
    return _forked(lambda: _first_process(around, words, tells, *ids))


def _forked(function: Callable[[], int]) -> int:
    """Call a function in a forked process and return its exit code."""
    child = os.fork()
    if child == 0:
        _leave_with(function)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF


def _leave_with(function: Callable[[], int]) -> NoReturn:
    code = NOT_READY
    try:
        code = function()
    except OSError as error:
        print(f"it cannot be shut in: {error.strerror or error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def main(around: Sandbox, tells: int, words: Sequence[str]) -> int:
    """Run the command `words` in the sandbox and return its exit code. When this returns, also after SIGTERM, all
    processes in the sandbox have ended.

    tells : the socket that hands the folder's descriptors out.
    """
    os.set_inheritable(tells, False)
    if around.group:
        Path(around.group, "cgroup.procs").write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, lambda *_: None)  # the child gets the signal too and ends; this waits for it
    _C.prctl(TAKE_ORPHANS, 1, 0, 0, 0)
    is_root = os.getuid() == 0
    user, group = (NOBODY, NOBODY) if is_root else (os.getuid(), os.getgid())
    ready, is_ready = os.pipe()
    may_go_on, let_go_on = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(let_go_on)
        os.close(ready)
        _leave_with(lambda: _second_process(around, words, tells, may_go_on, is_ready, (user, group)))
    for descriptor in (is_ready, may_go_on, tells):
        os.close(descriptor)
    if os.read(ready, 1) == b"1":
        try:
            if not is_root:
                Path(f"/proc/{child}/setgroups").write_text("deny")
            for name, own in (("uid_map", user), ("gid_map", group)):
                Path(f"/proc/{child}/{name}").write_text(f"0 0 1\n{own} {own} 1" if is_root else f"{own} {own} 1")
            os.write(let_go_on, b"1")
        except OSError as error:
            print(f"no user namespace: {error.strerror}", file=sys.stderr, flush=True)
    os.close(let_go_on)
    code = NOT_READY
    while True:
        try:
            ended, status = os.wait()
        except ChildProcessError:
            return code
        if ended == child:
            code = os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main(Sandbox(**json.loads(sys.argv[1])), int(sys.argv[2]), sys.argv[3:]))
