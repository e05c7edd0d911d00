"""DCell: Guo et al., "DCell: A Scalable and Fault-Tolerant Network Structure for Data Centers", SIGCOMM 2008, section
7.3 and Figs 11 and 12.

Twenty servers in a DCell_1 of n = 4 forward for each other. One connection survives a failed link and server on its
path; 380 flows between all servers end in half the time of a two-level tree. Two effects of the authors' machines,
processors that forward packets and switches that send pause frames, can be switched on and off here.

`experiments` has the networks, the traffic and the readings, `figures` the pictures, `study` the cases, claims and
profiles. This package exports what a notebook and its parameters need.
"""

from netrepro.papers.dcell.experiments import Setting, answer, busiest_links
from netrepro.papers.dcell.figures import draw_idea, draw_tree
from netrepro.papers.dcell.study import STUDY

__all__ = ["STUDY", "Setting", "answer", "busiest_links", "draw_idea", "draw_tree"]
