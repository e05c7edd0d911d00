"""PropShare: Levin et al., "BitTorrent is an Auction: Analyzing and Improving BitTorrent's Incentives", SIGCOMM 2008.

`setting` makes the swarms, `readings` reads them, `study` has the cases and claims, `figures` the pictures. This
package exports what a notebook needs.
"""

from netrepro.papers.propshare.figures import draw_idea, draw_swarm
from netrepro.papers.propshare.readings import comparison, lending_table, of_trials, serving_table
from netrepro.papers.propshare.setting import Setting
from netrepro.papers.propshare.study import STUDY, answer

__all__ = [
    "STUDY",
    "Setting",
    "answer",
    "comparison",
    "draw_idea",
    "draw_swarm",
    "lending_table",
    "of_trials",
    "serving_table",
]
