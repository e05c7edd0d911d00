"""SUSS: Arghavani et al., "SUSS: Improving TCP Performance by Speeding Up Slow-Start", SIGCOMM 2024, Figs 10 to 12.

A sender that finds its path empty doubles its window once more than slow start would, and paces the packets beyond the
first doubling. Short flows over long paths are complete sooner; the gain is constant for flows that fill the path.

`experiments` has paths, flows and readings, `closed_form` the saving that is expected, `figures` the pictures, `study`
the claims and profiles. This package exports what a notebook needs.
"""

from netrepro.papers.suss.closed_form import (
    answer,
    at_the_same_time,
    completion_at_full_path_ms,
    improvement,
    rounds_that_grow_fourfold,
)
from netrepro.papers.suss.experiments import Setting
from netrepro.papers.suss.figures import draw_idea, draw_network
from netrepro.papers.suss.study import STUDY

__all__ = [
    "STUDY",
    "Setting",
    "answer",
    "at_the_same_time",
    "completion_at_full_path_ms",
    "draw_idea",
    "draw_network",
    "improvement",
    "rounds_that_grow_fourfold",
]
