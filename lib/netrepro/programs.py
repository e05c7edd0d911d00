"""Programs of others that this library starts. Whoever starts one asks here for it by name, before it starts."""

from __future__ import annotations

import os
import shutil

from netrepro.errors import NetreproError

# Program -> its package on Debian and Ubuntu.
PACKAGE_OF = {
    "c++": "g++",
    "cc": "gcc",
    "gcc": "gcc",
    "make": "make",
    "git": "git",
    "emcc": "emscripten",
    "node": "nodejs",
    "npm": "npm",
    "clang": "clang",
    "bpftool": "bpftool",
    "ethtool": "ethtool",
    "tcpdump": "tcpdump",
    "iperf3": "iperf3",
    "ping": "iputils-ping",
    "etcd": "etcd-server",
    "bird": "bird2",
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
    "sysctl": "procps",
    "nice": "coreutils",
    **dict.fromkeys(("ip", "tc", "bridge"), "iproute2"),
    **dict.fromkeys(("iptables", "iptables-restore"), "iptables"),
    **dict.fromkeys(("mount", "umount"), "mount"),
    **dict.fromkeys(("nsenter", "setpriv", "taskset", "chrt"), "util-linux"),
}


def find_program(name: str) -> str | None:
    """Find a program; None where it is missing.

    It is looked for in PATH, and in a folder `sbin` beside each `bin` there, which an ordinary user's PATH often lacks.
    """
    folders = os.get_exec_path()
    beside = [f"{folder[: -len('bin')]}sbin" for folder in folders if folder.endswith("/bin")]
    return shutil.which(name, path=os.pathsep.join([*folders, *beside]))


def why_missing(*names: str) -> str:
    """Return, in words, which of these programs are missing; "" where all are there."""
    missing = [name for name in names if find_program(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def need_program(name: str, remedy: str = "") -> str:
    """Return the path of a program that is about to start.

    remedy : what to do where it is missing; by default, to install its package. Raises NetreproError where it is
    missing.
    """
    path = find_program(name)
    if path is None:
        raise NetreproError(f"{name} is not installed", remedy or f"install the package {PACKAGE_OF.get(name, name)}")
    return path
