"""What else the machine does, and how its guests are kept from taking what the emulator itself needs."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from netrepro.emulation.cpu_limits import HELD_BACK_NICE, new_groups, remove_group
from netrepro.networks.experiment import FIDELITY_COLUMNS

_LATENCY_REQUESTS = Path("/dev/cpu_dma_latency")  # of the kernel's PM QoS; root's
_STEERING = "net/core/rps_default_mask"  # receive packet steering of interfaces made in a namespace
# Fixed before any run: what may be in use before an emulation begins. Reading /proc/stat is right to a tick or so.
MOST_BUSY_SHARE, MOST_STALLED_SHARE, MOST_STOLEN_SHARE = 0.1, 0.1, 0.02


def watch_machine(seconds: float = 0.5) -> pd.DataFrame:
    """Wait, and see what others do meanwhile: check, value, bound, holds (FIDELITY_COLUMNS).

    An emulation beside other work shows the other work. Values are shares: of the processors in use, of the time in
    which some process waited for one (pressure stall information; NaN where the kernel has none, which holds), and of
    the processors taken by the machine underneath.
    """
    began, idle, stalled_us, stolen = time.monotonic(), _idle_ticks(), cpu_stall_us(), steal_ticks()
    time.sleep(seconds)
    lasted = time.monotonic() - began
    ticks = lasted * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
    found = (
        ("share of the processors in use before", max(1 - (_idle_ticks() - idle) / ticks, 0.0), MOST_BUSY_SHARE),
        ("share of time in which processes waited before", (cpu_stall_us() - stalled_us) * 1e-6 / lasted,
         MOST_STALLED_SHARE),
        ("share of the processors stolen before", (steal_ticks() - stolen) / ticks, MOST_STOLEN_SHARE),
    )  # fmt: skip
    rows = [(check, value, bound, not value > bound) for check, value, bound in found]
    return pd.DataFrame(rows, columns=FIDELITY_COLUMNS)


def _idle_ticks() -> int:
    """Clock ticks in which all processors had nothing to do or waited for a disk."""
    idle, waiting = Path("/proc/stat").read_text().split(maxsplit=6)[4:6]
    return int(idle) + int(waiting)


def can_pace() -> bool:
    """Whether the relay may have a processor for itself, as paced ports take one."""
    return len(os.sched_getaffinity(0)) > 1


def relay_processor() -> int:
    """Where a relay stays that paces ports: the last that this process may use; devices often interrupt the first."""
    return max(os.sched_getaffinity(0))


def receive_elsewhere(processor: int) -> dict[str, str]:
    """Settings of a namespace whose packets are received on any other processor than the one that sends them.

    Else a call that sends a packet also does, before it returns, what its receiver does. {} on kernels before 6.3.
    """
    if not Path("/proc/sys", _STEERING).exists():
        return {}
    mask = sum(1 << other for other in os.sched_getaffinity(0) - {processor})
    words = [f"{mask >> shift & 0xFFFFFFFF:x}" for shift in range(mask.bit_length() // 32 * 32, -1, -32)]
    return {_STEERING: ",".join(words)}


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
    """Words to put before a guest's command so that it cannot starve the network, and what they do.

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
    """For how long some process of the machine had to wait for a CPU (pressure stall information); NaN without."""
    try:
        first = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return float("nan")
    return float(first.rpartition("total=")[2])


def processor_ticks() -> tuple[int, int]:
    """Clock ticks of all CPUs, since the machine started: wanted, and of these taken by the machine under this one."""
    user, nice, system, _idle, _waiting, *interrupts, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
    return user + nice + system + sum(interrupts) + stolen, stolen


def refused_packets() -> int:
    """Packets that the kernel has dropped on their way to a receiver, since it started: too many waited for a CPU."""
    lines = Path("/proc/net/softnet_stat").read_text().splitlines()  # one a CPU; processed, dropped, ... in hexadecimal
    return sum(int(line.split()[1], 16) for line in lines)


def steal_ticks() -> int:
    """Clock ticks that the machine under this one took from all CPUs."""
    return processor_ticks()[1]
