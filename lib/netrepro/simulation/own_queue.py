"""A queue discipline of one's own, in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netrepro._core import WaitingPacket


class OwnQueueDiscipline:
    """A queue discipline of one's own: derive from it and give the class to `simulate(queues=...)`.

    The object keeps the packets that wait at one port; the packet that is being sent no longer waits. A `packet` has
    `bytes`, `flow` (the number of its flow; acknowledgements have their flow's), `arrived_s`, `ecn_capable`, `ect_1`
    (with ECT(1), the code point of L4S), `marked`, `mark()` (Congestion Experienced) and `drop()`. Any waiting packet
    may be dropped or marked, not just the new one.

    >>> from collections import deque
    >>> class TailDrop(OwnQueueDiscipline):
    ...     def __init__(self):
    ...         self.waiting = deque()
    ...     def enqueue(self, packet, now_s):
    ...         if len(self.waiting) < 20:
    ...             self.waiting.append(packet)
    ...         else:
    ...             packet.drop()
    ...     def dequeue(self, now_s):
    ...         return self.waiting.popleft()
    ...     def clear(self):
    ...         self.waiting.clear()
    """

    def enqueue(self, packet: WaitingPacket, now_s: float) -> None:
        """Take an arriving packet: keep it, or drop it or others."""
        raise NotImplementedError

    def dequeue(self, now_s: float) -> WaitingPacket | None:
        """Return the packet to send now; called while packets wait. None where the last of them was dropped."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget all packets: the link has gone down, and they are lost."""
        raise NotImplementedError
