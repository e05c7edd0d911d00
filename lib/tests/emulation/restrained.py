"""Starts a command with one of the kernel's rights really taken away: restrained.py RESTRAINT COMMAND...

Every restraint is the process's own (a seccomp filter, or a limit of a user namespace made here).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"unshare": 272, "socket": 41, "mount": 165, "bpf": 321, "ptrace": 101},
    "aarch64": {"unshare": 97, "socket": 198, "mount": 40, "bpf": 280, "ptrace": 117},
}
RETURN_ERRNO, KILL_PROCESS, ALLOW = 0x00050000, 0x80000000, 0x7FFF0000


def filter_system_call(name: str, verdict: int, first_argument: int | None = None) -> None:
    """Give the system call (with that first argument, if one is named) the verdict, allow all others."""

    def load(offset: int) -> bytes:
        return struct.pack("<HBBI", 0x20, 0, 0, offset)

    def unless_equal_skip(value: int, count: int) -> bytes:
        return struct.pack("<HBBI", 0x15, 0, count, value)

    def give(value: int) -> bytes:
        return struct.pack("<HBBI", 0x06, 0, 0, value)

    number = NUMBERS[platform.machine()][name]
    argument = [] if first_argument is None else [load(16), unless_equal_skip(first_argument, 1)]
    program = [load(0), unless_equal_skip(number, len(argument) + 1), *argument, give(verdict), give(ALLOW)]
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("<H6xQ", len(program), ctypes.addressof(code)))
    LIBC.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if LIBC.prctl(22, 2, header, 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "seccomp")


def enter_user_namespace() -> None:
    user, group = os.getuid(), os.getgid()
    if LIBC.unshare(0x10000000):
        raise OSError(ctypes.get_errno(), "no user namespace to restrain")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def restrain(restraint: str) -> None:
    if restraint == "unshare refused":
        filter_system_call("unshare", RETURN_ERRNO | errno.EPERM)
    elif restraint == "unshare kills":
        filter_system_call("unshare", KILL_PROCESS)
    elif restraint == "no netlink":
        filter_system_call("socket", RETURN_ERRNO | errno.EACCES, first_argument=16)
    elif restraint == "no mount":  # as AppArmor has it in Docker
        filter_system_call("mount", RETURN_ERRNO | errno.EACCES)
    elif restraint == "no bpf":
        filter_system_call("bpf", RETURN_ERRNO | errno.ENOSYS)
    elif restraint == "no ptrace":  # as containers had it before Linux 4.8
        filter_system_call("ptrace", RETURN_ERRNO | errno.EPERM)
    elif restraint == "bpf kills":
        filter_system_call("bpf", KILL_PROCESS)
    elif restraint == "inside a user namespace":
        enter_user_namespace()
    elif restraint == "no more user namespaces":
        enter_user_namespace()
        Path("/proc/sys/user/max_user_namespaces").write_text("0")  # the limit of the namespace just made
    elif restraint == "no more process namespaces":
        enter_user_namespace()
        Path("/proc/sys/user/max_pid_namespaces").write_text("0")
    else:
        raise ValueError(restraint)


if __name__ == "__main__":
    restrain(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])
