"""Random early detection: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
Transactions on Networking 1(4), 1993.

A gateway drops a packet now and then while the average queue, not the queue itself, is between two thresholds. So
bursts pass, the queue stays short, and not all connections lose packets at once.

`experiments` has the networks, the readings and the cases, `figures` the pictures, `study` the claims and profiles.
This package exports what a notebook and its parameters need.
"""

from netrepro.papers.red.experiments import Setting
from netrepro.papers.red.figures import class_commands, draw_idea
from netrepro.papers.red.study import STUDY, answer, draw_network

__all__ = ["STUDY", "Setting", "answer", "class_commands", "draw_idea", "draw_network"]
