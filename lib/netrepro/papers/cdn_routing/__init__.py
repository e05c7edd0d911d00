"""How fast traffic leaves a CDN site that fails: Zhu et al., "The Best of Both Worlds: High Availability CDN Routing
Without Compromising Control" (IMC 2022), Fig. 2.

`setting` describes the Internet and the techniques, `failures` computes routes and what clients see. `study` has the
readings, cases and claims, `figures` the pictures. This package exports what a notebook needs.
"""

from netrepro.papers.cdn_routing.failures import share_of_beacons
from netrepro.papers.cdn_routing.figures import draw_network
from netrepro.papers.cdn_routing.setting import Setting
from netrepro.papers.cdn_routing.study import STUDY, answer, tier_table

__all__ = ["STUDY", "Setting", "answer", "draw_network", "share_of_beacons", "tier_table"]
