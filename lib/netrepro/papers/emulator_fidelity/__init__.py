"""How true an emulated link is: Handigol et al., "Reproducible Network Experiments Using Container-Based Emulation"
(Mininet-HiFi, CoNEXT 2012), Figs 1, 7 and 9(c).

`study` is the paper, `builds` times how fast networks are built. What a notebook needs is here.
"""

from netrepro.papers.emulator_fidelity.study import (
    STUDY,
    Setting,
    answer,
    build_times,
    certificates,
    draw_idea,
    experiment,
    measure_one,
)

__all__ = [
    "STUDY",
    "Setting",
    "answer",
    "build_times",
    "certificates",
    "draw_idea",
    "experiment",
    "measure_one",
]
