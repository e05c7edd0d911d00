"""What machines put out, in words."""

from __future__ import annotations

from collections.abc import Iterable

from netrepro.protocols import Event
from netrepro.protocols.machine import Output


def kinds(outputs: Iterable[Output]) -> list[str]:
    """Name each output: an event by its kind, a message by its class."""
    return [each.kind if isinstance(each, Event) else type(each.message).__name__ for each in outputs]
