"""Why a class reproduction of Alizadeh et al. (IEEE Access 8, 2020) named 20 to 55 % of the flows and not 97.7 %.

Its data and code are not public; its tables are. Each suspicion becomes an experiment on a trace whose labels are known
to be right: wrong joins, labels drawn anew, other truncations, lengths, clocks, time-outs, features, normalisations.
What reproduces the report's tables is a candidate; what does not is cleared.

`setting` has what a profile affords and what was reported, `noise` labels drawn anew and the fit, `captures` captures
changed on purpose, `variants` the suspicions, `measuring` the experiments, `own_captures` a folder of one's own,
`claims` what is judged, `figures` the pictures. What a notebook needs is here.
"""

from netrepro.papers.gmm_diagnosis.claims import answer, audited, measured_claims, packet_lengths
from netrepro.papers.gmm_diagnosis.figures import (
    draw_fit,
    draw_idea,
    draw_noise,
    draw_real,
    draw_remedies,
    draw_scan,
    draw_training_and_verification,
    draw_variants,
    explore,
    header_lengths,
    models_table,
    naive_bayes_table,
    real_text,
    summary,
)
from netrepro.papers.gmm_diagnosis.measuring import measure
from netrepro.papers.gmm_diagnosis.own_captures import check_folder, try_real_captures
from netrepro.papers.gmm_diagnosis.setting import class_report, diagnosis_scale
from netrepro.papers.gmm_traffic.setting import Setting

__all__ = [
    "Setting",
    "answer",
    "audited",
    "check_folder",
    "class_report",
    "diagnosis_scale",
    "draw_fit",
    "draw_idea",
    "draw_noise",
    "draw_real",
    "draw_remedies",
    "draw_scan",
    "draw_training_and_verification",
    "draw_variants",
    "explore",
    "header_lengths",
    "measure",
    "measured_claims",
    "models_table",
    "naive_bayes_table",
    "packet_lengths",
    "real_text",
    "summary",
    "try_real_captures",
]
