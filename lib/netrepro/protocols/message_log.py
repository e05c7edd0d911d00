"""A table of all messages between machines: sender, receiver, kind, and the times of sending and arrival."""

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
    """Name the kind of a message: the entry "kind" of a dictionary that has one, else the name of its class."""
    if isinstance(message, Mapping):
        return str(message.get("kind", "message"))
    return type(message).__name__


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on its way, with the number of its row in the log."""

    number: int
    message: Any


class MessageLog:
    """A log of the messages between recorded machines, under any driver (`drive` or `simulate_machines`).

    kind : function from a message to its name in the table. Messages travel as Letter, so functions such as
    `size_bytes` or `delay_s` must look at `letter.message`.

    `cut_off` and `heal` partition the network: between these calls, messages that are sent or arrive between the group
    and all others are lost.
    """

    def __init__(self, kind: Callable[[Any], str] = kind_of):
        self.kind = kind
        self._rows: list[tuple[Hashable, Hashable, str, float]] = []
        self._received_s: dict[int, float] = {}
        self._groups: list[frozenset[Hashable]] = []

    def recorded(self, name: Hashable, machine: Machine) -> RecordedMachine:
        """Return a machine that behaves like `machine` and whose messages are logged."""
        return RecordedMachine(self, name, machine)

    def cut_off(self, group: Iterable[Hashable]) -> None:
        """Partition the network between a group and all others, from now on."""
        self._groups.append(frozenset(group))

    def heal(self, group: Iterable[Hashable]) -> None:
        """End the partition of a group. Raises ValueError for a group that is not cut off."""
        self._groups.remove(frozenset(group))

    def is_cut(self, one: Hashable, other: Hashable) -> bool:
        """Tell whether a partition separates two machines."""
        return any((one in group) != (other in group) for group in self._groups)

    def send(self, now_s: float, sender: Hashable, receiver: Hashable, message: Any) -> list[Output]:
        """Log a message; returns it as a letter to send, or an empty list where a partition separates the two."""
        self._rows.append((sender, receiver, self.kind(message), now_s))
        if self.is_cut(sender, receiver):
            return []
        return [Send(receiver, Letter(len(self._rows) - 1, message))]

    def arrives(self, now_s: float, sender: Hashable, receiver: Hashable, letter: Letter) -> bool:
        """Log the arrival of a letter and return True; return False where a partition separates the two."""
        if self.is_cut(sender, receiver):
            return False
        self._received_s[letter.number] = now_s
        return True

    def table(self, end_s: float) -> pd.DataFrame:
        """Return a row for each message, in the order of sending: sender, receiver, kind, sent_s, received_s, fate.

        A message that had not arrived by `end_s` (received_s NaN) is under way if it was sent so late that the slowest
        message would not have arrived, either. Otherwise it is lost: on a link, in a queue, in a partition, or at a
        receiver that was down.
        """
        rows = [(*row, self._received_s.get(number, np.nan)) for number, row in enumerate(self._rows)]
        table = pd.DataFrame(rows, columns=MESSAGE_COLUMNS[:-1]).astype({"sent_s": float, "received_s": float})
        longest_s = (table["received_s"] - table["sent_s"]).max()
        has_come = table["received_s"].notna()
        may_come = table["sent_s"] + longest_s > end_s
        return table.assign(fate=np.where(has_come, ARRIVED, np.where(may_come, UNDER_WAY, LOST)))


class RecordedMachine:
    """A machine whose messages are logged in a MessageLog."""

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
        """Pass a letter's message to the machine; other messages come from outside, and their arrival is not logged."""
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
