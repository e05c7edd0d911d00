"""A trial of whether this machine can run a kernel in virtual time, and of what is missing."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

from netrepro.emulation.virtual.instance import Instance, folder_for_memory
from netrepro.emulation.virtual.kernel import kernel_path
from netrepro.emulation.virtual.launch import landlock_version
from netrepro.errors import NetreproError

_TRACE_ME, _CONTINUE = 0, 7


def try_virtual() -> tuple[bool, str]:
    """Try the tier; return whether it works, and the reason: a kernel is built, may use ptrace, has room, starts."""
    try:
        path = kernel_path()
        folder_for_memory()
    except NetreproError as error:
        return False, f"{error.problem}: {error.remedy}"
    problem = _ptrace_problem()
    if problem:
        return False, problem
    try:
        instance = Instance(1, patience_s=20.0)
    except NetreproError as error:
        return False, "; ".join([error.problem, *(line.strip(" |") for line in error.remedy.splitlines()[-1:])])
    with instance:
        return True, f"Linux {instance.kernel} was started ({path.parent.name}); {_files_inside()}"


def _files_inside() -> str:
    """Return, in words, what a program inside may do to the machine's files."""
    if landlock_version():
        return "root inside reads files with your rights, and writes none (Landlock)"
    return "root inside reads files with your rights, and could mount them to write: this machine has no Landlock"


def _ptrace_problem() -> str:
    """Return why a process may not trace its child (ptrace), "" where it may."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if libc.ptrace(_TRACE_ME, 0, None, None) == 0:
                os.kill(os.getpid(), signal.SIGSTOP)
                code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        libc.ptrace(_CONTINUE, child, None, ctypes.c_void_p(0))
        _, status = os.waitpid(child, 0)
        return ""
    return f"ptrace is refused here: {why_no_ptrace()}"


def why_no_ptrace(root: Path = Path("/")) -> str:
    """Return what forbids ptrace on this machine and what to do, as far as files below `root` show."""

    def read(name: str) -> str:
        try:
            return (root / name).read_text()
        except OSError:
            return ""

    scope = read("proc/sys/kernel/yama/ptrace_scope").strip()
    if scope in ("2", "3"):
        until = "; from 3 only a restart leads back" if scope == "3" else ""
        return f"kernel.yama.ptrace_scope is {scope}, have it set to 1 (sysctl kernel.yama.ptrace_scope=1{until})"
    if read("sys/fs/selinux/booleans/deny_ptrace").startswith("1"):
        return "SELinux's deny_ptrace is on, have it switched off (setsebool -P deny_ptrace off)"
    if "Seccomp:\t2" in read("proc/self/status"):
        return "a seccomp filter, such as a container's; start the container with --cap-add SYS_PTRACE"
    return "a sandbox or policy that does not say so; use another machine, or tier 'simulated'"
