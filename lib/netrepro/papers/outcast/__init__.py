"""TCP Outcast: Prakash, Dixit, Hu and Kompella, "The TCP Outcast Problem: Exposing Unfairness in Data Center Networks",
NSDI 2012.

Flows enter a drop-tail switch at two ports and leave by a third. The port with fewer flows loses several packets in a
row. Its flows wait for timeouts and get least, although their round trip is the shortest.

`experiments` has the networks and their traffic, `readings` what is read of a run, `figures` the pictures, `study` the
cases, claims and profiles. This package exports what a notebook and its parameters need.
"""

from netrepro.papers.outcast.experiments import Setting
from netrepro.papers.outcast.figures import draw_idea
from netrepro.papers.outcast.study import STUDY, answer, draw_network

__all__ = ["STUDY", "Setting", "answer", "draw_idea", "draw_network"]
