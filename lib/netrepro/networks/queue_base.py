"""What every queue in front of a link has: its rule for the compiled core, and its room."""

from __future__ import annotations

Rule = tuple[str, tuple]  # the core's name of a queue, and its numbers in the core's order; times are seconds


class _Queue:
    packets: int | None

    def rule(self) -> Rule:
        """Return the core's name of the queue, and its numbers in the core's order; times are seconds."""
        raise NotImplementedError

    @property
    def most_packets(self) -> int:
        """The largest number of full packets that fit in."""
        return self.packets or 1

    @property
    def holds_back(self) -> bool:
        """True where packets may wait while the link is free."""
        return False
