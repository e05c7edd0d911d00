"""How true an emulated link is: Handigol et al., "Reproducible Network Experiments Using Container-Based Emulation"
(Mininet-HiFi, CoNEXT 2012), Figs 1, 7 and 9(c).

`study` is the paper, `builds` times how fast networks are built. What a notebook needs is here.
"""

from netrepro.papers.emulator_fidelity.study import (
    Case,
    answer,
    build_times,
    cases,
    certificates,
    draw_control,
    draw_idea,
    draw_isolation,
    draw_links,
    draw_load_gaps,
    draw_many_flows,
    draw_virtual,
    experiment,
    measure,
    measure_virtually,
    measured_claims,
    scale,
    summary,
    virtual_table,
)

__all__ = [
    "Case",
    "answer",
    "build_times",
    "cases",
    "certificates",
    "draw_control",
    "draw_idea",
    "draw_isolation",
    "draw_links",
    "draw_load_gaps",
    "draw_many_flows",
    "draw_virtual",
    "experiment",
    "measure",
    "measure_virtually",
    "measured_claims",
    "scale",
    "summary",
    "virtual_table",
]
