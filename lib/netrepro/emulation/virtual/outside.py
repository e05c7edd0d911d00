"""A kernel in virtual time as its machine sees it: processes, the clock, and why virtual time stands still.

Each program of the kernel is a process of this machine, which the kernel traces: it stops at each system call and page
fault, and the kernel carries them out meanwhile. So at most one of all these processes computes at a time.
"""

from __future__ import annotations

import functools
import mmap
import os
import re
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_SYMBOL_TABLE = 2  # SHT_SYMTAB
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
_WAITS_FOR_A_PROGRAM = 61  # wait4
# Numbers of system calls on x86-64 with which programs poll, and in which a machine's file keeps the kernel waiting.
_CALLS = {
    **{0: "read", 1: "write", 2: "open", 4: "stat", 7: "poll", 17: "pread64", 18: "pwrite64", 21: "access"},
    **{23: "select", 24: "sched_yield", 35: "nanosleep", 45: "recvfrom", 47: "recvmsg", 61: "wait4"},
    **{96: "gettimeofday", 201: "time", 202: "futex", 228: "clock_gettime", 230: "clock_nanosleep"},
    **{232: "epoll_wait", 257: "openat", 262: "newfstatat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait"},
    **{332: "statx", 439: "faccessat2"},
}
_TELLS = re.compile(r"on the processor: (\d+) (\S+) (.*)")  # of lib/kernel/patches/spin.patch
_SAMPLE_S, _SAMPLES = 0.002, 100
_HEARD_S = 0.5  # for a program's name; it comes within milliseconds
_MOST_NAMED = 3


@dataclass
class _Seen:
    """Counts of a program's samples: processor time (s), number of stops, and system calls seen at them."""

    used_s: float = 0.0
    stops: int = 0
    calls: Counter[str] = field(default_factory=Counter)


class Outside:
    """The view of one kernel from its machine. launcher : process id of the kernel's parent. kernel : its file."""

    def __init__(self, launcher: int, kernel: Path):
        self._launcher, self._file = launcher, kernel

    @property
    def kernel(self) -> int:
        """The process id of the kernel; 0 where it has ended or cannot be seen."""
        return next(iter(_children(self._launcher)), 0)

    def programs(self) -> list[int]:
        """List the processes in which the kernel runs its programs."""
        kernel = self.kernel
        return _children(kernel) if kernel else []

    def clock_ns(self) -> int | None:
        """Read the virtual clock (ns) from the kernel's memory; None where this machine does not allow it."""
        address = _address(self._file, "time_travel_time")
        try:
            with Path(f"/proc/{self.kernel}/mem").open("rb", buffering=0) as memory:
                return int.from_bytes(os.pread(memory.fileno(), 8, address), "little") if address else None
        except OSError:
            return None

    def why_time_stands(self, console: Callable[[], str], cost_ns: int) -> tuple[str, str]:
        """Look for a fifth of a second what keeps virtual time from passing; return it, and what to do, in words.

        console : reads what the kernel has said so far. cost_ns : what a system call takes.
        """
        kernel = self.kernel
        before = {process: (_used_s(process), stops_of(process)) for process in self.programs()}
        kernels_s, kernel_in, seen = _used_s(kernel), Counter[int | None](), dict[int, _Seen]()
        for _ in range(_SAMPLES):
            kernel_in[_call_of(kernel)] += 1
            for process in before:
                call = _call_of(process)
                if call is not None and call >= 0 and state_of(process) == "t":
                    name = _CALLS.get(call, f"system call {call}")
                    seen.setdefault(process, _Seen()).calls[name] += 1
            time.sleep(_SAMPLE_S)
        for process, (used_s, stops) in before.items():
            each = seen.setdefault(process, _Seen())
            each.used_s, each.stops = _used_s(process) - used_s, stops_of(process) - stops
        busy = sorted((process for process in seen if seen[process].used_s > 0), key=lambda it: -seen[it].used_s)
        if not busy:
            return _without_programs(kernel_in, _used_s(kernel) > kernels_s)
        names = {process: self._name(process, console) for process in busy[:_MOST_NAMED]}
        said = [f"{name} {_does(seen[process])}" for process, name in names.items()]
        return "; ".join(said), _remedy(all(seen[process].calls for process in busy), cost_ns)

    def _name(self, process: int, console: Callable[[], str]) -> str:
        """Ask the kernel which program a process runs now; return its name and host, or "a program" without answer."""
        known = len(console())
        with suppress(OSError):
            os.kill(process, signal.SIGPROF)
            until = time.monotonic() + _HEARD_S
            while time.monotonic() < until:
                if told := _TELLS.search(console()[known:]):
                    number, host, name = told.groups()
                    return f"{name.strip()} (process {number}{'' if host == '(none)' else f' on {host}'})"
                time.sleep(_SAMPLE_S)
        return "a program"


def _does(seen: _Seen) -> str:
    if not seen.calls:  # it may still stop, at page faults
        return "computes without a system call" if not seen.stops else "computes, with hardly a system call"
    names = ", ".join(sorted(name for name, _ in seen.calls.most_common(_MOST_NAMED)))
    rate = seen.stops / (_SAMPLES * _SAMPLE_S)
    return f"polls, by about {rate:,.0f} system calls a second" + (f" ({names})" if names else "")


def _remedy(polls: bool, cost_ns: int) -> str:
    if not cost_ns:
        return (
            "system calls take no time here: give a syscall_cost_ns, such as 1000, by which time passes for a program "
            "that polls or spins; or more patience_s for one that computes for long"
        )
    if polls:
        return f"let the program sleep between its calls, or give more than {cost_ns} as syscall_cost_ns"
    return (
        "give more patience_s for a program that computes for long; for one that spins, give a spin_after_s that is "
        "shorter than patience_s: then time passes for it"
    )


def _without_programs(kernel_in: Counter[int | None], computes: bool) -> tuple[str, str]:
    """Tell what the kernel does while no program has the processor. kernel_in : its system calls of this machine."""
    call = kernel_in.most_common(1)[0][0]
    if call is None or call < 0 or call == _WAITS_FOR_A_PROGRAM or computes:
        return (
            "no program has the processor, and the kernel itself computes",
            "packets that take no time keep it busy: give each path a rate, and a delay where packets go round",
        )
    return (
        f"the kernel waits for this machine ({_CALLS.get(call, f'system call {call}')})",
        "a file of this machine does not answer, such as a named pipe that nobody writes to, or one on a disk of the "
        "network: look which files the programs open",
    )


@functools.cache
def _address(file: Path, symbol: str) -> int | None:
    """Find the address of a symbol in an ELF file of 64 bits; None for a file without it."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        (at,) = struct.unpack_from("<Q", content, 40)
        size, count = struct.unpack_from("<HH", content, 58)
        sections = [struct.unpack_from("<IIQQQQI", content, at + place * size) for place in range(count)]
        for _, kind, _, _, start, length, link in sections:
            if kind != _SYMBOL_TABLE:
                continue
            names = sections[link][4]
            name = content.find(f"\0{symbol}\0".encode(), names, names + sections[link][5]) + 1 - names
            for entry in _SYMBOL.iter_unpack(content[start : start + length]):
                if entry[0] == name:
                    return int(entry[4])
    return None


def _children(process: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def state_of(process: int) -> str:
    """Read the letter of a process's state (proc_pid_stat(5)); "" for one that has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def stops_of(process: int) -> int:
    """Count how often a process gave its processor away, as a program does at each stop; 0 for one that has ended."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split(maxsplit=1)[0])


def used_s_of(process: int) -> float:
    """Read a process's processor time (s). Raises OSError for one that has ended."""
    return time.clock_gettime(~process << 3 | 2)  # clock_getcpuclockid(3)


def _used_s(process: int) -> float:
    try:
        return used_s_of(process)
    except OSError:
        return 0.0


def _call_of(process: int) -> int | None:
    """Read the number of the system call in which a process is; None while it computes or where it cannot be read."""
    try:
        return int(Path(f"/proc/{process}/syscall").read_text().split(maxsplit=1)[0])
    except (OSError, ValueError):
        return None
