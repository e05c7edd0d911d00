"""RepNet: Liu et al., "RepNet: Cutting Latency with Flow Replication in Data Center Networks" (IEEE TSC 2018),
sections 2, 4 and 5.

RepFlow sends a short flow over two connections, RepSYN opens two and uses the one that opens first; their ports differ,
and where paths are chosen by a hash (ECMP), so may their paths. Section 3, the queueing model, is repflow_model's.

`setting` has the networks and their traffic, `measuring` what is read of a run, `study` the cases, claims and profiles,
`figures` the pictures. What a notebook needs is here. Bucket sort is in `applications.bucket_sort`.
"""

from netrepro.papers.repnet.figures import draw_idea, draw_network, folded
from netrepro.papers.repnet.setting import PRINTED, Setting
from netrepro.papers.repnet.study import STUDY

__all__ = ["PRINTED", "STUDY", "Setting", "draw_idea", "draw_network", "folded"]
