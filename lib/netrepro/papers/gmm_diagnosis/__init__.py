"""Why a class reproduction of Alizadeh et al. (IEEE Access 8, 2020) named 20 to 55 % of the flows and not 97.7 %.

Its data and code are not public; its tables are. Each suspicion becomes an experiment on a trace whose labels are known
to be right: wrong joins, labels drawn anew, other truncations, lengths, clocks, time-outs, features, normalisations.
What reproduces the report's tables is a candidate; what does not is cleared.

`setting` has what a profile affords and what was reported, `noise` labels drawn anew and the fit, `variants` the
suspicions, `measuring` the experiments, `own_captures` a folder of one's own, `study` what is measured and judged,
`figures` tables and pictures. What a notebook needs is here.
"""

from netrepro.papers.gmm_diagnosis.figures import audited, draw_idea, models_table, summary
from netrepro.papers.gmm_diagnosis.measuring import packet_lengths
from netrepro.papers.gmm_diagnosis.own_captures import check_folder, try_real_captures
from netrepro.papers.gmm_diagnosis.setting import Setting, class_report
from netrepro.papers.gmm_diagnosis.study import STUDY, answer

__all__ = [
    "STUDY",
    "Setting",
    "answer",
    "audited",
    "check_folder",
    "class_report",
    "draw_idea",
    "models_table",
    "packet_lengths",
    "summary",
    "try_real_captures",
]
