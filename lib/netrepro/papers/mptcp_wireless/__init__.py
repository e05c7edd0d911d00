"""One connection over WiFi and 3G: Raiciu et al., "How Hard Can It Be? Designing and Implementing a Deployable
Multipath TCP", NSDI 2012, section 4.2 and Figs 4 and 7.

A stream is spread over a fast path and a slow one with a long queue. Data still on the slow path block the buffer that
both share. Opportunistic retransmission (M1) sends these data again on the fast path; penalisation (M2) halves the slow
path's window. An application that writes blocks sees all this as latency.

`experiments` has the network, the traffic and the readings, `figures` the pictures, `study` the cases, claims and
profiles. This package exports what a notebook, its parameters and the tests of all papers need.
"""

from netrepro.papers.mptcp_wireless.experiments import Setting, answer, experiment
from netrepro.papers.mptcp_wireless.figures import draw_idea, draw_network
from netrepro.papers.mptcp_wireless.study import STUDY

__all__ = ["STUDY", "Setting", "answer", "draw_idea", "draw_network", "experiment"]
