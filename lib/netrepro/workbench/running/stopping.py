"""What a Ctrl-C, a SIGTERM or a closed terminal does while notebooks run."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ONE_REQUEST_S = 1.0  # signals within this time count as one request to stop


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C, SIGTERM or closed terminal sets instead of ending this process. So no
    folder is left half-moved, and no notebook goes on without its runner. The next signal ends this process. Under
    nohup a closed terminal has no effect.

    Signals within `ONE_REQUEST_S` are the same request: `timeout` signals a process and then its group.
    """
    stop, first_s = threading.Event(), math.inf
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        del before[signal.SIGHUP]

    def ask(number: int, frame: Any) -> None:
        nonlocal first_s
        stop.set()
        now_s = time.monotonic()
        first_s = min(first_s, now_s)
        if now_s > first_s + ONE_REQUEST_S:
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
