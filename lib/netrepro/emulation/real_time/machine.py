"""What else the machine does, and how its guests are kept from taking what the emulator itself needs."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netrepro.emulation.real_time.cpu_limits import HELD_BACK_NICE, new_groups, remove_group

_LATENCY_REQUESTS = Path("/dev/cpu_dma_latency")  # of the kernel's PM QoS; root's


@contextmanager
def awake_processors() -> Iterator[None]:
    """Keep the machine's processors from going to sleep within the block, where this process may ask for it.

    A processor of a virtual machine takes tens of us to wake up, and timers are late by that. The request ends with the
    block, or with this process.
    """
    try:
        request = _LATENCY_REQUESTS.open("wb", buffering=0)
    except OSError:
        yield
        return
    with request:
        request.write(struct.pack("=i", 0))  # us that waking up may take
        yield


# A guest leads its session, and so a scheduling group of its own where the kernel makes them (see stand_back).
_STAND_BACK = (
    f'[ "$(cut -d " " -f 6 /proc/$$/stat)" != $$ ] || echo {HELD_BACK_NICE} 2>/dev/null >/proc/$$/autogroup; '
    f'exec nice -n {HELD_BACK_NICE} "$@"'
)


@contextmanager
def guest_prefix(cores: float) -> Iterator[tuple[list[str], str]]:
    """Give words to put before a guest's command so that it cannot starve the network, and say what they do.

    Guests share a control group of `cores` cores where this process may make one; else they run with nice +10. The
    group is gone after the block; its processes must be by then.
    """
    folder = new_groups({"guests": cores}, os.getpid())[0].get("guests")
    if folder is None:
        yield ["sh", "-c", _STAND_BACK, "sh"], f"nice +{HELD_BACK_NICE}"
        return
    try:
        join = f'echo 0 > "{folder}/cgroup.procs" && exec "$@"'
        yield ["sh", "-c", join, "sh"], f"a control group of {cores:g} cores"
    finally:
        remove_group(folder)


def cpu_stall_us() -> float:
    """Read how long some process of the machine had to wait for a CPU (pressure stall information); else NaN."""
    try:
        first = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return float("nan")
    return float(first.rpartition("total=")[2])


def processor_ticks() -> tuple[int, int]:
    """Read clock ticks of all CPUs since the start: wanted, and of these taken by the machine under this one."""
    user, nice, system, _idle, _waiting, *interrupts, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
    return user + nice + system + sum(interrupts) + stolen, stolen


def refused_packets() -> int:
    """Count packets that the kernel has dropped before a receiver, since it started: too many waited for a CPU."""
    lines = Path("/proc/net/softnet_stat").read_text().splitlines()  # one a CPU; processed, dropped, ... in hexadecimal
    return sum(int(line.split()[1], 16) for line in lines)


def steal_ticks() -> int:
    """Read the clock ticks that the machine under this one took from all CPUs."""
    return processor_ticks()[1]
