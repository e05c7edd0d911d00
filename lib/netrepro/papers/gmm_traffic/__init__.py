"""Traffic classified by Gaussian mixtures: H. Alizadeh, H. Vranken, A. Zúquete, A. Miri, "Timely Classification and
Verification of Network Traffic Using Gaussian Mixture Models", IEEE Access 8, 2020.

A flow's first packets become 59 numbers, of which a forward search selects some. Each class gets a mixture that finds
its number of components itself; a flow goes to the class of the largest posterior. The paper's trace, UNIBS-2009, is
used if it is present. If not, a stand-in made by real applications is used, on which no published number can be judged.

`setting` has the parameters, models and trace, `measuring` the conditions, `own_capture` the reader's own capture,
`study` the claims, `figures` tables and pictures. This package exports what a notebook needs.
"""

from netrepro.papers.gmm_traffic.figures import by_class, draw_idea, draw_own, own_tables, table3
from netrepro.papers.gmm_traffic.own_capture import check_capture, classify_capture
from netrepro.papers.gmm_traffic.setting import Setting, open_trace
from netrepro.papers.gmm_traffic.study import STUDY, answer, audits

__all__ = [
    "STUDY",
    "Setting",
    "answer",
    "audits",
    "by_class",
    "check_capture",
    "classify_capture",
    "draw_idea",
    "draw_own",
    "open_trace",
    "own_tables",
    "table3",
]
