"""The report's query, and its formula."""

from __future__ import annotations

from typing import Any

import pandas as pd
import z3

from netrepro.errors import NetreproError
from netrepro.papers.fperf_leaf_spine.setting import Size
from netrepro.verification.analysis import Analysis, Answer
from netrepro.verification.leaf_spine import base_workload, host, leaf_spine, received, throughput_query
from netrepro.verification.traces import Trace
from netrepro.verification.workloads import Query


def throughput_analysis(size: Size = (2, 3, 6), horizon: int = 10, **options: Any) -> Analysis:
    """Ask the question of section 8: can the last host receive fewer than half of the line rate although host 1 sends
    to it steadily?

    `options` go to `Analysis`. Raises NetreproError where hosts do not divide evenly among leaves.
    """
    spines, leaves, hosts = size
    if hosts % leaves:
        raise NetreproError(f"{hosts} hosts on {leaves} leaves", "give each leaf the same number of hosts")
    point = leaf_spine(spines, leaves, hosts // leaves, horizon)
    return Analysis(point, throughput_query(point, hosts - 1), base_workload(point, hosts - 1), **options)


def received_packets(trace: Trace, victim: int) -> pd.DataFrame:
    """Count the packets: columns time_step, sent_packets (host 1), received_packets (victim), line_rate_packets (the
    most)."""
    steps = range(1, trace.horizon + 1)
    return pd.DataFrame(
        {
            "time_step": list(steps),
            "sent_packets": [trace.metric("cdeq", host(0), t) for t in steps],
            "received_packets": [trace.metric("cenq", received(victim), t) for t in steps],
            "line_rate_packets": [max(0, t - 3) for t in steps],
        }
    )


def slowest_possible(size: Size = (2, 3, 6), horizon: int = 10, *, seed: int = 0) -> pd.DataFrame:
    """Ask for each number of packets whether the victim may receive no more than that, with the base workload kept.

    Columns received_packets, status. From 0 up to the first "sat".
    """
    reference = throughput_analysis(size, horizon)
    rows = []
    for packets in range(horizon):
        query = Query("forall", (horizon, horizon), reference.query.queues[0], "cenq", "<=", packets)
        answer = Analysis(reference.point, query, reference.base, seed=seed, backend="cadical").satisfy_query()
        rows.append((packets, answer.status))
        if answer.status == "sat":
            break
    return pd.DataFrame(rows, columns=["received_packets", "status"])


def report_formula() -> str:
    """Return the formula of the class report, as it stands there, with the declarations that it needs."""
    return """
(declare-fun dst (Int Int) Int) (declare-fun cenq (Int Int) Int) (declare-const Out_6 Int)
(assert (=> (and
  (forall ((t Int)) (and (>= t 1) (<= t 10) (= (dst 1 t) 6)))
  (forall ((i Int) (j Int)) (=> (and (>= i 1) (<= i 6) (>= j 1) (<= j 6) (not (= i j)))
    (forall ((t Int)) (and (>= t 1) (<= t 10) (not (= (dst i t) (dst j t))))))))
  (forall ((t Int)) (and (>= t 1) (<= t 10) (< (cenq Out_6 t) 5)))))
"""


def corrected_formula() -> str:
    """Return the same formula with ranges as guards. It asks for a counterexample: workload and query, no
    implication."""
    return """
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


def examine_report_formula(size: Size = (2, 3, 6), horizon: int = 10) -> pd.DataFrame:
    """Examine what the report's formula asks, as written and as corrected.

    Columns: reading, formula, says_nothing (true of all functions), network_answer, received_packets (by
    the victim in the answer), sender_is_steady (the answer has the base workload), why.
    """
    analysis = throughput_analysis(size, horizon, backend="cadical")
    victim = size[2] - 1
    free = Analysis(analysis.point, analysis.query, backend="cadical")
    free_base = free.encoded.workload_bit(analysis.base)
    query = free.encoded.query_bit(analysis.query)
    logic = free.encoded.logic
    as_implication = free.ask(conditions=[logic.implies(free_base, query), logic.opposite(query)])
    corrected = analysis.satisfy_query()

    def row(reading: str, formula: str, answer: Answer | None, nothing: bool | None, why: str) -> dict[str, Any]:
        trace = answer.trace if answer else None
        return {
            "reading": reading,
            "formula": formula,
            "says_nothing": nothing,
            "network_answer": answer.status if answer else "any network",
            "received_packets": trace.metric("cenq", received(victim), horizon) if trace else None,
            "sender_is_steady": analysis.base.holds(trace) if trace else None,
            "why": why,
        }

    return pd.DataFrame(
        [
            row(
                "as written",
                "(for all t: 1<=t<=10 and A) and ... => (for all t: 1<=t<=10 and Q)",
                None,
                is_tautology(report_formula()),
                "the range is a conjunct, so t = 0 makes each 'for all' false, and false => false is true",
            ),
            row(
                "ranges as guards, still an implication",
                "(for all t: 1<=t<=10 => A) => Q",
                as_implication,
                False if as_implication.status == "sat" else None,
                "satisfied by hosts that break the base workload, although the query is false there",
            ),
            row(
                "corrected",
                "(for all t: 1<=t<=10 => A) and Q",
                corrected,
                is_tautology(corrected_formula()),
                "asks for hosts that keep the base workload and a victim that receives too little",
            ),
        ]
    )
