"""What emulation costs a packet: M. Carbone and L. Rizzo, "Dummynet Revisited", ACM SIGCOMM CCR 40(2), 2010.

`study` has the paper's experiments; `kernel_costs` times a Linux kernel beside them. This package exports what a
notebook needs.
"""

from netrepro.papers.dummynet.study import EXAMPLE, STUDY, Setting, answer, deny_at, draw_idea, stages, summary

__all__ = ["EXAMPLE", "STUDY", "Setting", "answer", "deny_at", "draw_idea", "stages", "summary"]
