"""A cache beside an overlay network: Lin et al., "ONCache", NSDI 2025, Fig. 5.

Rates and processor times are measured on this machine's kernel (tier privileged), in rounds through all networks.
Trials test packet by packet what the caches must never do: there, in virtual time, and with a model (tier simulated).

`measuring` has the networks and how they are measured, `figures` tables and pictures, `study` the claims and profiles.
This package exports what a notebook and its parameters need.
"""

from netrepro.papers.oncache.figures import answer, bare_hosts, draw_idea, processor_times, ratio, summary, trial_table
from netrepro.papers.oncache.measuring import NETWORKS, Setting
from netrepro.papers.oncache.study import STUDY
from netrepro.protocols import oncache as model

__all__ = [
    "NETWORKS",
    "STUDY",
    "Setting",
    "answer",
    "bare_hosts",
    "draw_idea",
    "model",
    "processor_times",
    "ratio",
    "summary",
    "trial_table",
]
