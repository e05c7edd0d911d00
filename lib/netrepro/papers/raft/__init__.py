"""Raft's elections: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014.

`setting` has the cluster and the readings of its trials, `processes` its elections among real processes, `study` the
cases, claims and figures. This package exports what a notebook needs.
"""

from netrepro.papers.raft.setting import Setting
from netrepro.papers.raft.study import (
    STUDY,
    answer,
    calibrate,
    calibrated,
    classes,
    draw_etcd,
    draw_idea,
    line_table,
    measure_etcd,
    measure_virtual_etcd,
    tier_table,
    without_randomness,
)

__all__ = ["STUDY", "Setting", "answer", "calibrate", "calibrated", "classes", "draw_etcd", "draw_idea", "line_table"]
__all__ += ["measure_etcd", "measure_virtual_etcd", "tier_table", "without_randomness"]
