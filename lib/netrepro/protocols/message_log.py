"""Every message between machines, as a table: who sent what to whom, when, and whether and when it came."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netrepro.protocols.machine import Event, Machine, Output, Send

MESSAGE_COLUMNS = ["sender", "receiver", "kind", "sent_s", "received_s", "fate"]
ARRIVED, LOST, UNDER_WAY = "arrived", "lost", "under way"


def kind_of(message: Any) -> str:
    """Name what a message is: its `kind` where it is a dictionary that has one, else its class."""
    if isinstance(message, Mapping):
        return str(message.get("kind", "message"))
    return type(message).__name__


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on its way, with its row in the log."""

    number: int
    message: Any


class MessageLog:
    """Notes what recorded machines send each other, under whatever drives them: `drive` or `simulate_machines`.

    kind : message -> its name in the table. Messages travel as Letter, so that a `size_bytes` or a `delay_s` looks at
    `letter.message`.

    `cut_off` and `heal` part the network: what is sent or arrives between a group and all others is lost meanwhile.
    """

    def __init__(self, kind: Callable[[Any], str] = kind_of):
        self.kind = kind
        self._rows: list[tuple[Hashable, Hashable, str, float]] = []
        self._received_s: dict[int, float] = {}
        self._groups: list[frozenset[Hashable]] = []

    def recorded(self, name: Hashable, machine: Machine) -> RecordedMachine:
        """Return the machine that does what `machine` does, and whose messages are noted."""
        return RecordedMachine(self, name, machine)

    def cut_off(self, group: Iterable[Hashable]) -> None:
        """Part a group from all others, from now on."""
        self._groups.append(frozenset(group))

    def heal(self, group: Iterable[Hashable]) -> None:
        """End what `cut_off` of the same group began. Raises ValueError for one that is not cut off."""
        self._groups.remove(frozenset(group))

    def is_cut(self, one: Hashable, other: Hashable) -> bool:
        """Tell whether a group is cut off to which one of the two belongs, and the other does not."""
        return any((one in group) != (other in group) for group in self._groups)

    def send(self, now_s: float, sender: Hashable, receiver: Hashable, message: Any) -> list[Output]:
        """Note a message; returns it as a letter, or nothing where the network is parted."""
        self._rows.append((sender, receiver, self.kind(message), now_s))
        if self.is_cut(sender, receiver):
            return []
        return [Send(receiver, Letter(len(self._rows) - 1, message))]

    def arrives(self, now_s: float, sender: Hashable, receiver: Hashable, letter: Letter) -> bool:
        """Note that a letter has come, and tell whether it has: not where the network is parted."""
        if self.is_cut(sender, receiver):
            return False
        self._received_s[letter.number] = now_s
        return True

    def table(self, end_s: float) -> pd.DataFrame:
        """Return a row for each message, in the order of sending: sender, receiver, kind, sent_s, received_s, fate.

        What had not come by `end_s` (received_s NaN) is under way, where it was sent so late that some other message
        took as long; else it is lost: on a link, in a queue, in a parted network, or at a receiver that was down.
        """
        rows = [(*row, self._received_s.get(number, np.nan)) for number, row in enumerate(self._rows)]
        table = pd.DataFrame(rows, columns=MESSAGE_COLUMNS[:-1]).astype({"sent_s": float, "received_s": float})
        longest_s = (table["received_s"] - table["sent_s"]).max()
        has_come = table["received_s"].notna()
        may_come = table["sent_s"] + longest_s > end_s
        return table.assign(fate=np.where(has_come, ARRIVED, np.where(may_come, UNDER_WAY, LOST)))


class RecordedMachine:
    """A machine whose messages a MessageLog notes."""

    def __init__(self, log: MessageLog, name: Hashable, machine: Machine):
        self.log, self.name, self.machine = log, name, machine

    @property
    def wake_at_s(self) -> float:
        """The time at which the machine wants to be woken."""
        return self.machine.wake_at_s

    def start(self, now_s: float) -> list[Output]:
        """Start the machine."""
        return self._noted(now_s, self.machine.start(now_s))

    def wake(self, now_s: float) -> list[Output]:
        """Wake the machine."""
        return self._noted(now_s, self.machine.wake(now_s))

    def receive(self, now_s: float, sender: Hashable, message: Any) -> list[Output]:
        """Hand over a letter that has come; what is no letter came from outside, and is not noted."""
        if isinstance(message, Letter):
            if not self.log.arrives(now_s, sender, self.name, message):
                return []
            message = message.message
        return self._noted(now_s, self.machine.receive(now_s, sender, message))

    def _noted(self, now_s: float, outputs: Iterable[Output]) -> list[Output]:
        noted: list[Output] = []
        for output in outputs:
            if isinstance(output, Event):
                noted.append(output)
            else:
                noted += self.log.send(now_s, self.name, output.to, output.message)
        return noted
