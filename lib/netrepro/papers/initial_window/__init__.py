"""How much a larger initial window shortens web responses: Dukkipati et al., "An Argument for Increasing TCP's Initial
Congestion Window", ACM SIGCOMM CCR 40(3), 2010.

Clients are drawn from the published distributions. Each asks once, over its own narrow link, and the same clients ask
again with every initial window. A front end sends a response's headers at once, and the rest when its back end has made
it. Latency is what this front end measures: from its first segment to the last acknowledgement, without the handshake.

`clients` has the settings and who asks, `experiments` the closed form, the experiments and their readings, `figures`
the pictures, `study` the cases, claims and profiles. This package exports what a notebook and its parameters need.
"""

from netrepro.papers.initial_window.clients import Setting
from netrepro.papers.initial_window.experiments import answer, rounds
from netrepro.papers.initial_window.figures import draw_idea
from netrepro.papers.initial_window.study import STUDY, draw_network

__all__ = ["STUDY", "Setting", "answer", "draw_idea", "draw_network", "rounds"]
