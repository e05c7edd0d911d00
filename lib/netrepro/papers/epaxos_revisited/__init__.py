"""EPaxos Revisited: Tollman, Park and Ousterhout, NSDI 2021, Fig. 7.

`setting` has the sites and the load, `readings` reads runs, `study` has the cases and claims, `figures` the pictures.
This package exports what a notebook needs.
"""

from netrepro.papers.epaxos_revisited.figures import draw_idea, draw_network
from netrepro.papers.epaxos_revisited.readings import process_table
from netrepro.papers.epaxos_revisited.setting import Setting
from netrepro.papers.epaxos_revisited.study import STUDY, answer, class_cases
from netrepro.papers.epaxos_revisited.switches import draw_switches, switch_by_switch

__all__ = [
    "STUDY",
    "Setting",
    "answer",
    "class_cases",
    "draw_idea",
    "draw_network",
    "draw_switches",
    "process_table",
    "switch_by_switch",
]
