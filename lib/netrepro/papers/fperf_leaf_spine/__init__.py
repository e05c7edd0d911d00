"""FPerf on schedulers and on a leaf-spine network: the report's query, the case studies, Figure 7c.

Paper: Tahmasbi Arashloo, Beckett and Agarwal, "Formal Methods for Network Performance Analysis" (NSDI 2023).

`setting` has the parameters, `query` the report's query, `cases` the case studies and questions. `packets` runs the
same input in the packet simulator, `times` measures Figure 7c. `study` has tasks and claims, `figures` the pictures.
This package exports what a notebook needs.
"""

from netrepro.papers.fperf_leaf_spine.cases import loom_analysis
from netrepro.papers.fperf_leaf_spine.figures import draw_idea
from netrepro.papers.fperf_leaf_spine.packets import packet_summary
from netrepro.papers.fperf_leaf_spine.query import CORRECTED_FORMULA, REPORT_FORMULA, is_tautology, throughput_analysis
from netrepro.papers.fperf_leaf_spine.setting import Setting
from netrepro.papers.fperf_leaf_spine.study import STUDY, answer, answers
from netrepro.papers.fperf_leaf_spine.times import fit_growth, spread_summary
from netrepro.verification.analysis import Analysis
from netrepro.verification.parsing import parse_query, parse_workload

__all__ = [
    "CORRECTED_FORMULA",
    "REPORT_FORMULA",
    "STUDY",
    "Analysis",
    "Setting",
    "answer",
    "answers",
    "draw_idea",
    "fit_growth",
    "is_tautology",
    "loom_analysis",
    "packet_summary",
    "parse_query",
    "parse_workload",
    "spread_summary",
    "throughput_analysis",
]
