"""A congestion control in any language: a process for each connection, which is asked for the window's size.

`line_process` describes the exchange of lines. Windows are in segments, and need not be whole numbers. The page
conformance/a_control_as_a_program.md has two programs, and says what the interface's version (INTERFACE_VERSION) means.

Events:

    {"event": "grow", "time_s": 0.25, "segments": 2, "window": 10, "threshold": null, "window_limited": true,
     "marked": false, "round_trip_s": 0.0421, "first": 30, "next": 40}
        an acknowledgement of `segments` segments came, outside loss recovery; slow start ends at `threshold` (null:
        never); `window_limited`: only the window limited the sender; `marked`: the acknowledgement echoes an ECN mark;
        `round_trip_s` is the newest sample (null: none); `first` is the oldest unacknowledged segment, `next` the next
        one to be sent
    {"event": "loss", "window": 20, "threshold": null}    a segment was lost, or the sender timed out
    {"event": "mark", "window": 20, "threshold": null}    an acknowledgement echoed an ECN mark
    {"event": "timeout"}                                  the retransmission timer has run out

Actions:

    {"do": "window", "segments": 11}        answers grow; without it the window stays unchanged
    {"do": "threshold", "segments": 10}     must answer loss and mark: the size of the reduced window; may answer grow
    {"do": "done"}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netrepro.applications.line_process import BadAction, LineProcess
from netrepro.errors import NetreproError
from netrepro.networks import Experiment, Measurements
from netrepro.simulation import OwnCongestionControl, simulate

if TYPE_CHECKING:
    from netrepro._core import CongestionWindow, Delivery

MOST_CONNECTIONS = 200
INTERFACE_VERSION = "1.0"


def simulate_controls(
    experiment: Experiment, commands: Mapping[str, Sequence[str]], *, patience_s: float = 10.0, **how: Any
) -> Measurements:
    """Simulate an experiment whose flows use programs as congestion controls.

    Parameters
    ----------
    commands : name of a control, which starts with "my_" -> the program and its arguments; each connection starts one.
    patience_s : largest time in real seconds that an answer of a program may take.
    how : further arguments of `simulate`.

    Every process is killed at the end, whatever happens. Raises NetreproError as `simulate` does, for the errors of
    LineProcess (a program that cannot be started, hangs, ends, floods, or writes a line that is not an action), and for
    more than MOST_CONNECTIONS connections.
    """
    processes: list[LineProcess] = []

    def control(name: str, command: Sequence[str]) -> type[OwnCongestionControl]:
        class ProgramControl(_ProgramControl):
            def __init__(self) -> None:
                if len(processes) >= MOST_CONNECTIONS:
                    raise NetreproError(
                        f"more than {MOST_CONNECTIONS} connections", "a process each: let there be fewer"
                    )
                who = f"{name} of connection {len(processes)}"
                super().__init__(LineProcess(who, command, patience_s=patience_s))
                processes.append(self.process)

        return ProgramControl

    try:
        classes = {name: control(name, command) for name, command in commands.items()}
        return simulate(experiment, congestion_controls=classes, **how)
    finally:
        for process in processes:
            process.end()


class _ProgramControl(OwnCongestionControl):
    """A congestion control that asks a process."""

    def __init__(self, process: LineProcess):
        self.process = process
        self._answers: dict[str, float] = {}
        self._doing = {"window": self._note, "threshold": self._note}

    def grow(self, window: CongestionWindow, delivery: Delivery) -> None:
        """Ask the process for the window after an acknowledgement."""
        answers = self._ask(
            {
                "event": "grow",
                "time_s": delivery.now_s,
                "segments": delivery.segments,
                **_state(window),
                "window_limited": delivery.window_limited,
                "marked": delivery.marked,
                "round_trip_s": delivery.round_trip_s or None,
                "first": delivery.first,
                "next": delivery.next,
            }
        )
        window.segments = answers.get("window", window.segments)
        window.threshold = answers.get("threshold", window.threshold)

    def threshold_after_loss(self, window: CongestionWindow) -> float:
        """Ask the process for the reduced window after a loss."""
        return self._threshold("loss", window)

    def threshold_after_mark(self, window: CongestionWindow) -> float:
        """Ask the process for the reduced window after an ECN mark."""
        return self._threshold("mark", window)

    def on_timeout(self) -> None:
        """Tell the process that the retransmission timer has run out."""
        self._ask({"event": "timeout"})

    def _threshold(self, event: str, window: CongestionWindow) -> float:
        answers = self._ask({"event": event, **_state(window)})
        if "threshold" not in answers:
            raise self.process.wrong("no threshold", 'answer {"do": "threshold", "segments": ...}, and then done')
        return answers["threshold"]

    def _ask(self, event: Mapping[str, Any]) -> dict[str, float]:
        self._answers = {}
        self.process.tell(event, self._doing)
        return self._answers

    def _note(self, action: dict[str, Any]) -> None:
        segments = action["segments"]
        if not isinstance(segments, (int, float)) or isinstance(segments, bool) or not 0 <= segments < math.inf:
            raise BadAction(f"has segments {segments!r}", "give a number of segments, 0 or more")
        self._answers[action["do"]] = float(segments)


def _state(window: CongestionWindow) -> dict[str, float | None]:
    threshold = window.threshold
    return {"window": window.segments, "threshold": threshold if math.isfinite(threshold) else None}
