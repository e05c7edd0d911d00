"""TCP pacing: Aggarwal, Savage and Anderson, "Understanding the Performance of TCP Pacing", INFOCOM 2000.

A paced sender spreads its window evenly over a round trip instead of sending it in bursts. A single flow gains, since
bursts overflow a small buffer early. Of fifty flows that start together, all learn of the overflow late, and at once.

`experiments` has the path and its senders, `readings` what is read of a run, `figures` the pictures, `study` the cases,
claims and profiles. This package exports what a notebook and its parameters need.
"""

from netrepro.papers.tcp_pacing.experiments import Setting
from netrepro.papers.tcp_pacing.figures import answer, draw_idea
from netrepro.papers.tcp_pacing.study import STUDY, draw_network

__all__ = ["STUDY", "Setting", "answer", "draw_idea", "draw_network"]
