"""The machine's other load, and limits that keep guests from taking CPU time that the emulator needs."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netrepro.emulation.real_time.cpu_limits import HELD_BACK_NICE, new_groups, remove_group

_LATENCY_REQUESTS = Path("/dev/cpu_dma_latency")  # the kernel's PM QoS; needs root


@contextmanager
def awake_processors() -> Iterator[None]:
    """Keep the machine's processors from sleeping within the block, where this process has the right to request it.

    A processor of a virtual machine takes tens of us to wake up, and timers are late by that time. The request ends
    with the block, or with this process.
    """
    try:
        request = _LATENCY_REQUESTS.open("wb", buffering=0)
    except OSError:
        yield
        return
    with request:
        request.write(struct.pack("=i", 0))  # longest permitted time to wake up, in us
        yield


# A guest leads a session, which is a scheduling group on kernels with autogroup (see launcher.stand_back).
_STAND_BACK = (
    f'[ "$(cut -d " " -f 6 /proc/$$/stat)" != $$ ] || echo {HELD_BACK_NICE} 2>/dev/null >/proc/$$/autogroup; '
    f'exec nice -n {HELD_BACK_NICE} "$@"'
)


@contextmanager
def guest_prefix(cores: float) -> Iterator[tuple[list[str], str]]:
    """Yield (prefix for a guest's command, its effect in words); with the prefix guests cannot starve the network.

    Guests share a control group of `cores` cores where this process may make one; else they run with nice +10. The
    group is removed after the block; its processes must have ended by then.
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
    """Read the total time (us) in which some process waited for a CPU (pressure stall information); NaN without it."""
    try:
        first = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return float("nan")
    return float(first.rpartition("total=")[2])


def processor_ticks() -> tuple[int, int]:
    """Read clock ticks of all CPUs since boot: those that were wanted, and those of them that the hypervisor took."""
    user, nice, system, _idle, _waiting, *interrupts, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
    return user + nice + system + sum(interrupts) + stolen, stolen


def refused_packets() -> int:
    """Count packets that the kernel has dropped since boot, because too many waited for a receiving CPU."""
    lines = Path("/proc/net/softnet_stat").read_text().splitlines()  # each CPU: processed, dropped, ... in hexadecimal
    return sum(int(line.split()[1], 16) for line in lines)


def steal_ticks() -> int:
    """Read the clock ticks that the hypervisor took from all CPUs since boot."""
    return processor_ticks()[1]
