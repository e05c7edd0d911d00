"""Programs inside that compute without a system call, such as a spin lock: they are found and lose the processor."""

from __future__ import annotations

import os
import signal
from math import inf, isinf

from netrepro.emulation.virtual.outside import Outside, state_of, stops_of, used_s_of
from netrepro.errors import NetreproError

SPIN_AFTER_S = 5.0
LOOK_S = 0.5  # real time between two looks while nobody spins
_AGAIN_S = 0.002  # and after a program has spun; also the processor time of its next turns
_RUNS = "R"  # state of a process; one that enters its kernel is stopped by it, and is another one


class Spins:
    """The watch over one kernel's programs; `count` is how often it has let a millisecond pass.

    A program of the kernel is a process of this machine, which the kernel stops at each system call and page fault.
    One that has computed for `after_s` of processor time without such a stop spins. It gets SIGVTALRM, at which the
    kernel lets one tick pass (lib/kernel/patches/spin.patch), and again every 2 ms of its processor time: once it has
    spun, it is not given `after_s` again.
    """

    def __init__(self, outside: Outside, after_s: float):
        self.count = 0
        self.wait_s = LOOK_S  # until the next look
        self._outside, self._after_s = outside, after_s
        self._stretches: dict[int, tuple[int, float]] = {}  # process -> its stops; processor time at the first look
        self._known: set[int] = set()

    def look(self) -> None:
        """Let a tick pass if a program spins, and decide when to look again."""
        if isinf(self._after_s):
            return
        self.wait_s = min(2 * self.wait_s, LOOK_S)
        running = [process for process in self._outside.programs() if state_of(process) == _RUNS]
        self._stretches = {process: self._stretches[process] for process in running if process in self._stretches}
        for process in running:
            try:
                stops, used_s = stops_of(process), used_s_of(process)
                known, began_s = self._stretches.get(process, (-1, 0.0))
                if stops != known:
                    self._stretches[process] = stops, used_s
                elif used_s - began_s >= (_AGAIN_S if process in self._known else self._after_s):
                    os.kill(process, signal.SIGVTALRM)
                    self._stretches[process] = stops, inf  # until it has stopped for the signal
                    self._known.add(process)
                    self.count += 1
            except OSError:  # it has ended meanwhile
                continue
            if process in self._known:
                self.wait_s = _AGAIN_S


def check_spin_after(seconds: float) -> float:
    """Return the processor time (s) after which a program spins. Raises NetreproError for one that is not positive."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise NetreproError(
            f"spin_after_s = {seconds!r}", "give seconds above 0, such as 5.0; float('inf') watches nobody"
        )
    return float(seconds)
