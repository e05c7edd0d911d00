"""The time that a run has used, which its budget limits: the time that it would take on an idle machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

SAMPLE_S = 0.5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_WANTS_TO_GO_ON = "RD"  # states: runs or waits for a processor (R), or waits for a disk (D)


def used_s(passed_s: float, processor_s: float, wants_to_go_on: bool) -> float:
    """Return the part of `passed_s` that counts. While the run wants a processor, only the processor time that it gets
    counts; while it waits for something else, all time counts.

    processor_s : its time on all processors in `passed_s`; several at once count no more than the clock.
    """
    return min(passed_s, processor_s) if wants_to_go_on else passed_s


class UsedTime:
    """The time that a process and all its descendants have used so far."""

    def __init__(self, process: int):
        self._process = process
        self._used_s, self._processor_s, self._at_s = 0.0, 0.0, time.monotonic()

    def now_s(self) -> float:
        """Return the used seconds. Processes are sampled at most once in SAMPLE_S; in between, the last value is
        returned."""
        passed_s = time.monotonic() - self._at_s
        if passed_s >= SAMPLE_S:
            processor_s, wants_to_go_on = look_at(self._process)
            self._used_s += used_s(passed_s, max(processor_s - self._processor_s, 0.0), wants_to_go_on)
            self._processor_s, self._at_s = processor_s, self._at_s + passed_s
        return self._used_s


def look_at(process: int) -> tuple[float, bool]:
    """Return the processor time (s) of a process and its descendants, and whether one of their threads runs or waits
    for a processor or disk."""
    parents, processor_s = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        if fields := _fields(folder):
            number = int(folder.name)
            parents[number] = int(fields[1])
            processor_s[number] = sum(map(int, fields[11:15])) / _TICKS_PER_S  # its own and its ended children's
    tree = _below(process, parents)
    threads = (thread for number in tree for thread in _threads(number))
    wants_to_go_on = any(fields[0] in _WANTS_TO_GO_ON for thread in threads if (fields := _fields(thread)))
    return sum(processor_s.get(number, 0.0) for number in tree), wants_to_go_on


def tree_of(process: int) -> set[int]:
    """Return the ids of a process and all its descendants."""
    processes = ((int(folder.name), _fields(folder)) for folder in Path("/proc").glob("[0-9]*"))
    return _below(process, {number: int(fields[1]) for number, fields in processes if fields})


def started_at(process: int) -> int:
    """Return when a process has started, in clock ticks since the machine did: with its id, it names one process alone.

    Raises ProcessLookupError where there is none.
    """
    if fields := _fields(Path(f"/proc/{process}")):
        return int(fields[19])
    raise ProcessLookupError(process)


def _below(process: int, parents: Mapping[int, int]) -> set[int]:
    tree, newest = {process}, {process}
    while newest:
        newest = {number for number, parent in parents.items() if parent in newest} - tree
        tree |= newest
    return tree


def _threads(process: int) -> list[Path]:
    """List the folders of a process's threads; none where the process has ended, also while they are listed."""
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return []


def _fields(folder: Path) -> list[str]:
    """Return the fields of a process's or thread's `stat`, from its state on; none where it has ended."""
    try:
        return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
