"""Traffic classified by Gaussian mixtures: H. Alizadeh, H. Vranken, A. Zúquete, A. Miri, "Timely Classification and
Verification of Network Traffic Using Gaussian Mixture Models", IEEE Access 8, 2020.

A flow's first packets become 59 numbers; a forward search picks some of them; each class gets a mixture whose number
of components finds itself; a flow goes to the class of the largest posterior. The paper's trace, UNIBS-2009, is used
where it is present; else a stand-in made by real applications, on which no published number can be judged.

`setting` has what is set, the models and the trace, `measuring` the conditions, `own_capture` a capture of one's own,
`study` what is measured and judged, `figures` tables and pictures. What a notebook needs is here.
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
