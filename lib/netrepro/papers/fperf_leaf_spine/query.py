"""The report's query, and its formula."""

from __future__ import annotations

from typing import Any

import pandas as pd
import z3

from netrepro.errors import NetreproError
from netrepro.papers.fperf_leaf_spine.setting import Size
from netrepro.verification.analysis import Analysis
from netrepro.verification.leaf_spine import base_workload, host, leaf_spine, received, throughput_query
from netrepro.verification.traces import Trace


def throughput_analysis(size: Size = (2, 3, 6), horizon: int = 10, **options: Any) -> Analysis:
    """Make the question of section 8: can the last host receive fewer than half of the line rate, although host 1
    steadily sends to it?

    `options` go to `Analysis`. Raises NetreproError where hosts do not divide evenly among leaves.
    """
    spines, leaves, hosts = size
    if hosts % leaves:
        raise NetreproError(f"{hosts} hosts on {leaves} leaves", "give each leaf the same number of hosts")
    point = leaf_spine(spines, leaves, hosts // leaves, horizon)
    return Analysis(point, throughput_query(point, hosts - 1), base_workload(point, hosts - 1), **options)


def received_packets(trace: Trace, victim: int) -> pd.DataFrame:
    """Count packets up to each step: time_step, sent_packets (host 1), received_packets (victim), line_rate_packets
    (the possible number)."""
    rows = [
        (t, trace.metric("cdeq", host(0), t), trace.metric("cenq", received(victim), t), max(0, t - 3))
        for t in range(1, trace.horizon + 1)
    ]
    return pd.DataFrame(rows, columns=["time_step", "sent_packets", "received_packets", "line_rate_packets"])


# The formula exactly as in the class report, with the declarations that it needs.
REPORT_FORMULA = """
(declare-fun dst (Int Int) Int) (declare-fun cenq (Int Int) Int) (declare-const Out_6 Int)
(assert (=> (and
  (forall ((t Int)) (and (>= t 1) (<= t 10) (= (dst 1 t) 6)))
  (forall ((i Int) (j Int)) (=> (and (>= i 1) (<= i 6) (>= j 1) (<= j 6) (not (= i j)))
    (forall ((t Int)) (and (>= t 1) (<= t 10) (not (= (dst i t) (dst j t))))))))
  (forall ((t Int)) (and (>= t 1) (<= t 10) (< (cenq Out_6 t) 5)))))
"""
# The same formula with ranges as guards. It asks for a counterexample: workload and query, without implication.
CORRECTED_FORMULA = """
(declare-fun dst (Int Int) Int) (declare-fun cenq (Int Int) Int) (declare-const Out_6 Int)
(assert (forall ((t Int)) (=> (and (>= t 1) (<= t 10)) (= (dst 1 t) 6))))
(assert (forall ((i Int) (j Int) (t Int))
  (=> (and (>= i 1) (<= i 6) (>= j 1) (<= j 6) (not (= i j)) (>= t 1) (<= t 10))
      (not (= (dst i t) (dst j t))))))
(assert (< (cenq Out_6 10) 5))
"""


def is_tautology(formula: str, timeout_s: float = 10) -> bool | None:
    """Return True where an SMT-LIB formula holds whatever its functions are; None after a time-out."""
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("timeout", round(timeout_s * 1000))
    solver.add(z3.Not(z3.And(*z3.parse_smt2_string(formula, ctx=context))))
    answer = solver.check()
    return None if answer == z3.unknown else answer == z3.unsat
