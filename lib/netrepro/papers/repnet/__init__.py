"""RepNet: Liu et al., "RepNet: Cutting Latency with Flow Replication in Data Center Networks" (IEEE TSC 2018), sections
2, 4 and 5.

RepFlow sends a short flow over two connections; RepSYN opens two and uses the one that opens first. Their ports differ,
so where a hash chooses paths (ECMP), their paths may differ too. Section 3, the queueing model, is in repflow_model.

`setting` has the experiments and their settings, `measuring` their readings, `study` parts, cases, claims and profiles,
`figures` the pictures. Bucket sort is in `applications.bucket_sort`. This package exports what a notebook needs.
"""

from netrepro.papers.repnet.figures import draw_idea, draw_network, folded
from netrepro.papers.repnet.setting import Setting
from netrepro.papers.repnet.study import STUDY

__all__ = ["STUDY", "Setting", "draw_idea", "draw_network", "folded"]
