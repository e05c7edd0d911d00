"""Run an untrusted program in its own namespaces, with only the files that it needs, and within limits.

The program sees the interpreter, the library and the data, read-only; a folder to write to; its own processes and a
network with only the loopback interface. Home folders, other runs, the checkout's history and other environment
variables are hidden. When root starts it, the program runs as the user nobody.

This file is started as a script that imports only the standard library, since opening a user namespace needs a process
without threads.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
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


@dataclass(frozen=True)
class Sandbox:
    """The files and limits of a sandboxed program.

    read_only : files and folders that it may read beside the system's, path in the sandbox -> path outside.
    writable : folders that it may change, likewise.
    copied : small files of which it gets a copy in a writable folder, likewise.
    memory_mb : limit for each of its processes, and for all temporary files together.
    processes : limit for processes and threads at a time.
    processor_s : limit of processor time for each process.
    """

    read_only: dict[str, str]
    writable: dict[str, str]
    copied: dict[str, str] = field(default_factory=dict)
    memory_mb: int = 4000
    processes: int = 1000
    processor_s: int = 3600

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs the command `words` in the sandbox."""
        return [sys.executable, "-P", __file__, json.dumps(asdict(self)), *words]

    @staticmethod
    def environment(more: dict[str, str]) -> dict[str, str]:
        """Return the environment variables that a program in the sandbox sees, `more` included."""
        kept = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        return kept | {"HOME": HOME, "TMPDIR": "/tmp"} | more


def library_paths(root: Path) -> dict[str, str]:
    """Return the paths that a notebook of the workbench `root` must read: interpreter, packages, data; no notebooks.

    Returns path in the sandbox -> path outside.
    """
    import netrepro._core as core
    from netrepro.emulation.virtual.kernel import cache

    hidden = {Path.home(), root, Path(tempfile.gettempdir()), Path("/")}
    wanted = [sys.prefix, sys.base_prefix, *sys.path, str(Path(core.__file__).parent), str(Path(__file__).parents[1])]
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
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "matplotlib")
    folder = Path(os.environ.get("MPLCONFIGDIR") or cache)
    return {f"{HOME}/.cache/matplotlib/{path.name}": str(path.resolve()) for path in folder.glob("fontlist-*.json")}


@functools.cache
def why_not() -> str:
    """Try a sandbox once, and say why none works on this machine; "" where it works."""
    from netrepro.paths import workbench_root

    with tempfile.TemporaryDirectory(prefix="netrepro-sandbox-") as made:
        tried = Sandbox(library_paths(workbench_root()), {made: made})
        words = [sys.executable, "-c", "import netrepro._core"]
        try:
            done = subprocess.run(
                tried.command(words), env=tried.environment({}), capture_output=True, text=True, timeout=60
            )
        except subprocess.TimeoutExpired:
            return "a trial did not end"
    said = done.stderr.strip().splitlines() or [f"a trial ended with code {done.returncode}"]
    return said[-1] if done.returncode else ""


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


def _build(around: Sandbox) -> None:
    """Make a new root file system and enter it; the machine's root is then out of reach."""
    _mount("none", "/", "", RECURSIVE | PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m")
    for name in ("old", "new"):
        Path("/tmp", name).mkdir()
    _enter("/tmp", "old")
    os.chdir("/")
    new = Path("/new")
    _mount("tmpfs", "/new", "tmpfs", 0, f"size={around.memory_mb}m,nr_inodes=200k,mode=755")
    untouchable = READ_ONLY | NO_SETUID | NO_DEVICES
    for path in SYSTEM:
        if os.path.lexists(f"/old{path}"):
            _show(f"/old{path}", new / path[1:], untouchable)
    shown = {f"/etc/{name}": f"/etc/{name}" for name in SETTINGS if os.path.lexists(f"/old/etc/{name}")}
    for path, outside in sorted((shown | around.read_only).items()):
        if not (new / path[1:]).exists():  # else a system folder shows it already
            _show(f"/old{outside}", new / path[1:], untouchable)
    for path, outside in around.writable.items():
        _show(f"/old{outside}", new / path[1:], NO_SETUID | NO_DEVICES)
    (new / "dev").mkdir()
    for name in DEVICES:
        _show(f"/old/dev/{name}", new / "dev" / name, NO_SETUID)
    (new / "dev/fd").symlink_to("/proc/self/fd")
    (new / "proc").mkdir()
    _mount("proc", "/new/proc", "proc", NO_SETUID_DEVICE_EXEC)
    for path in ("tmp", "dev/shm", HOME[1:]):
        (new / path).mkdir(parents=True, exist_ok=True)
        (new / path).chmod(0o1777)
    for path, outside in around.copied.items():
        target = new / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(f"/old{outside}").read_bytes())
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


def _first_process(around: Sandbox, words: Sequence[str], user: int, group: int) -> int:
    """Set the sandbox up, start the program, and return its exit code. It runs in process 1 of the new namespace: when
    this process ends, all others there end."""
    _C.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    _build(around)
    _connect_to_itself()
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


def _second_process(around: Sandbox, words: Sequence[str], may_go_on: int, is_ready: int, ids: tuple[int, int]) -> int:
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
    return _forked(lambda: _first_process(around, words, *ids))


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


def main(around: Sandbox, words: Sequence[str]) -> int:
    """Run the command `words` in the sandbox and return its exit code. When this returns, also after SIGTERM, all
    processes in the sandbox have ended."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # the child gets the signal too and ends; this waits for it
    _C.prctl(TAKE_ORPHANS, 1, 0, 0, 0)
    is_root = os.getuid() == 0
    user, group = (NOBODY, NOBODY) if is_root else (os.getuid(), os.getgid())
    for path in around.writable.values() if is_root else []:
        for folder, _, files in os.walk(path):
            for each in (Path(folder), *(Path(folder, name) for name in files)):
                os.chown(each, user, group, follow_symlinks=False)
    ready, is_ready = os.pipe()
    may_go_on, let_go_on = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(let_go_on)
        os.close(ready)
        _leave_with(lambda: _second_process(around, words, may_go_on, is_ready, (user, group)))
    os.close(is_ready)
    os.close(may_go_on)
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
    sys.exit(main(Sandbox(**json.loads(sys.argv[1])), sys.argv[2:]))
