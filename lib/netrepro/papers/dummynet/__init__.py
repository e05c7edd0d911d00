"""What emulation costs a packet: M. Carbone and L. Rizzo, "Dummynet Revisited", ACM SIGCOMM CCR 40(2), 2010.

`study` is the paper, `kernel_costs` times a kernel beside it. What a notebook needs is here.
"""

from netrepro.papers.dummynet.study import (
    answer,
    cases,
    check,
    deny_at,
    draw_anomaly,
    draw_batches,
    draw_costs,
    draw_delay,
    draw_idea,
    draw_ratios,
    draw_rules,
    explore,
    measure,
    measured_claims,
    packets_a_case,
    summary,
    vary_delay,
    vary_rules,
)

__all__ = [
    "answer",
    "cases",
    "check",
    "deny_at",
    "draw_anomaly",
    "draw_batches",
    "draw_costs",
    "draw_delay",
    "draw_idea",
    "draw_ratios",
    "draw_rules",
    "explore",
    "measure",
    "measured_claims",
    "packets_a_case",
    "summary",
    "vary_delay",
    "vary_rules",
]
