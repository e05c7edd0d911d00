"""Live pages of papers whose own run does not fit into a page. Apart from `declaration`, so that no measurement depends
on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netrepro.networks.experiment import Experiment
from netrepro.study.declaration import Changes, Live

# Readings of a run that several papers' pages draw.
QUEUE = {"table": "queues", "column": "queue_packets"}
WAIT = {"table": "packets", "column": "wait_ms"}


@dataclass(frozen=True)
class LiveRun(Live):
    """A live page as `Live`, with what its runs change.

    changes : fields that the page sets, where the paper's own run would be too large for it. watched : fields of
    Measure that the page adds, to draw them. experiment : as in Study, where the study runs another one for this
    setting. of_setting : gauge -> what a setting adds to its reading. The course may have "distribution": True: its
    values are then drawn against the share of rows up to them.
    """

    changes: Changes = field(default_factory=dict)
    watched: Mapping[str, Any] = field(default_factory=dict)
    experiment: Callable[[Any, float, int], Experiment] | None = None
    of_setting: Mapping[str, Callable[[Any], Mapping[str, Any]]] = field(default_factory=dict)
