"""Traffic classified by Gaussian mixtures: H. Alizadeh, H. Vranken, A. Zúquete, A. Miri, "Timely Classification and
Verification of Network Traffic Using Gaussian Mixture Models", IEEE Access 8, 2020.

A flow's first packets become 59 numbers; a forward search picks some of them; each class gets a mixture whose number
of components finds itself; a flow goes to the class of the largest posterior. The paper's trace, UNIBS-2009, is used
where it is present; else a stand-in made by real applications, on which no published number can be judged.

`setting` has what is set and the trace, `training` the rows and the models, `measuring` the runs, `analysis` the class
report's looks at the features, `own_capture` a capture of one's own, `claims` what is judged and its tables, `figures`
the pictures. What a notebook needs is here.
"""

from netrepro.papers.gmm_traffic.analysis import analyse
from netrepro.papers.gmm_traffic.claims import answer, audits, by_class, cases_table, measured_claims, table3
from netrepro.papers.gmm_traffic.figures import (
    draw_anova,
    draw_cases,
    draw_confusion,
    draw_distributions,
    draw_idea,
    draw_importance,
    draw_maps,
    draw_normalisations,
    draw_own,
    draw_selection,
    draw_sweep,
    draw_table3,
    draw_verification,
    explore,
    own_tables,
)
from netrepro.papers.gmm_traffic.measuring import measure
from netrepro.papers.gmm_traffic.own_capture import check_capture, classify_capture
from netrepro.papers.gmm_traffic.setting import Setting, open_trace, scale_of

__all__ = [
    "Setting",
    "analyse",
    "answer",
    "audits",
    "by_class",
    "cases_table",
    "check_capture",
    "classify_capture",
    "draw_anova",
    "draw_cases",
    "draw_confusion",
    "draw_distributions",
    "draw_idea",
    "draw_importance",
    "draw_maps",
    "draw_normalisations",
    "draw_own",
    "draw_selection",
    "draw_sweep",
    "draw_table3",
    "draw_verification",
    "explore",
    "measure",
    "measured_claims",
    "open_trace",
    "own_tables",
    "scale_of",
    "table3",
]
