"""Whether this machine can run a kernel in virtual time, and what is missing."""

from __future__ import annotations

import ctypes
import os
import signal

from netrepro.emulation.virtual.instance import Instance, folder_for_memory
from netrepro.emulation.virtual.kernel import kernel_path
from netrepro.errors import NetreproError

_TRACE_ME, _CONTINUE = 0, 7


def try_virtual() -> tuple[bool, str]:
    """Try the tier; return whether it works, and why: the kernel exists, may trace, has room, and starts."""
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
        return False, error.problem
    with instance:
        return True, f"Linux {instance.kernel} was started ({path.parent.name})"


def _ptrace_problem() -> str:
    """Say why a process may not trace its child, "" where it may."""
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
    return "ptrace is refused here (a container's seccomp profile; give it SYS_PTRACE)"
