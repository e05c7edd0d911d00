"""What emulation costs a packet: M. Carbone and L. Rizzo, "Dummynet Revisited", ACM SIGCOMM CCR 40(2), 2010.

`study` is the paper, `kernel_costs` times a kernel beside it. What a notebook needs is here.
"""

from netrepro.papers.dummynet.study import EXAMPLE, STUDY, Setting, answer, deny_at, draw_idea, stages, summary

__all__ = ["EXAMPLE", "STUDY", "Setting", "answer", "deny_at", "draw_idea", "stages", "summary"]
