"""Why a class reproduction of Alizadeh et al. (IEEE Access 8, 2020) named 20 to 55 % of the flows and not 97.7 %.

The class's data and code are not public; its tables are. Each suspicion becomes an experiment on a trace whose labels
are known to be right: wrong joins, labels drawn anew, other truncations, lengths, clocks, time-outs, features,
normalisations. A suspicion that reproduces the report's tables is a candidate; one that does not is cleared.

`setting` has the profiles' sizes and the reported numbers, `noise` re-drawn labels and the fit, `variants` the
suspicions, `run` what all experiments use, `measuring` the experiments, `features` those that repeat the class's own
analysis. `own_captures` measures a reader's own folder. `study` has the claims, `figures` and `feature_figures` tables
and pictures. This package exports what a notebook needs.
"""

from netrepro.papers.gmm_diagnosis.feature_figures import columns_table
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
    "columns_table",
    "draw_idea",
    "models_table",
    "packet_lengths",
    "summary",
    "try_real_captures",
]
