"""FPerf on schedulers and on a leaf-spine network: the report's query, the case studies, Figure 7c.

Paper: Tahmasbi Arashloo, Beckett and Agarwal, "Formal Methods for Network Performance Analysis" (NSDI 2023).

`setting` has what a profile affords, `query` the report's query, `cases` the case studies, `packets` the same input in
the packet simulator, `times` Figure 7c, `claims` what is judged, `figures` the pictures. What a notebook needs is here.
"""

from netrepro.papers.fperf_leaf_spine.cases import loom_analysis, synthesise_all, without_base_workload
from netrepro.papers.fperf_leaf_spine.claims import answer, measured_claims
from netrepro.papers.fperf_leaf_spine.figures import (
    draw_counterexample,
    draw_idea,
    draw_packet_runs,
    draw_spread,
    draw_times,
    explore,
)
from netrepro.papers.fperf_leaf_spine.packets import packet_runs, packet_summary, synthesised_input
from netrepro.papers.fperf_leaf_spine.query import (
    examine_report_formula,
    received_packets,
    report_formula,
    slowest_possible,
    throughput_analysis,
)
from netrepro.papers.fperf_leaf_spine.setting import scale
from netrepro.papers.fperf_leaf_spine.times import (
    NO_SEARCH,
    encoding_ratios,
    fit_growth,
    measure_flat_times,
    measure_spread,
    measure_times,
    spread_summary,
)
from netrepro.verification.analysis import Analysis
from netrepro.verification.examples import base_example
from netrepro.verification.workloads import parse_query, parse_workload

__all__ = [
    "NO_SEARCH",
    "Analysis",
    "answer",
    "base_example",
    "draw_counterexample",
    "draw_idea",
    "draw_packet_runs",
    "draw_spread",
    "draw_times",
    "encoding_ratios",
    "examine_report_formula",
    "explore",
    "fit_growth",
    "loom_analysis",
    "measure_flat_times",
    "measure_spread",
    "measure_times",
    "measured_claims",
    "packet_runs",
    "packet_summary",
    "parse_query",
    "parse_workload",
    "received_packets",
    "report_formula",
    "scale",
    "slowest_possible",
    "spread_summary",
    "synthesise_all",
    "synthesised_input",
    "throughput_analysis",
    "without_base_workload",
]
