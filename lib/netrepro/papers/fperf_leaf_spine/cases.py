"""The schedulers' case studies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netrepro.errors import NetreproError, nearest
from netrepro.papers.fperf_leaf_spine.query import throughput_analysis
from netrepro.papers.fperf_leaf_spine.setting import Size
from netrepro.verification.analysis import Analysis
from netrepro.verification.leaf_spine import leaf_spine, path_queues
from netrepro.verification.loom import loom, loom_inputs, steady_tenants, unfair_query
from netrepro.verification.parsing import parse_query, parse_workload
from netrepro.verification.points import ContentionPoint
from netrepro.verification.queues import Queue
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.search import Search
from netrepro.verification.shapers import TokenBucket
from netrepro.verification.workloads import Comp, Query, Workload


@dataclass(frozen=True)
class Case:
    """A case study: a problem that arises, and a control without its cause, in which it must not arise.

    published_form : the original program's workload, "" where it is not known.
    """

    problem: str
    build: Callable[[], Analysis]
    build_control: Callable[[], Analysis]
    control: str
    published_form: str = ""


def _case(kind: str, flows: int, horizon: int, query: str, base: str = "*", **options: Any) -> Analysis:
    point = scheduler_point(kind, flows, horizon, **options)
    return Analysis(point, parse_query(query), parse_workload(base))


def loom_analysis(cores: int = 4) -> Analysis:
    """Make the question whether a network card with a queue for each of `cores` treats two steady tenants unequally."""
    point = loom(cores)
    return Analysis(point, unfair_query(point), steady_tenants(point))


def _latency(and_so: str = "") -> Analysis:
    point = leaf_spine(2, 3, 2, 10, max_enqueue=5)
    query = Query("forall", (10, 10), path_queues(point, 0, (5, 0), hosts_per_leaf=2), "qsize", ">=", 10)
    base = "[1,10]: cenq(host1,t) <= t and [1,10]: dst(host1,t) = 5 and [1,10]: ecmp(host1,t) = 0"
    return Analysis(point, query, parse_workload(base + and_so))


def _token_bucket(max_tokens: int) -> Analysis:
    queue, output = Queue("q0", 10, 10, 6), Queue("out", 10, 6, 6)
    point = ContentionPoint("token bucket", 6, [TokenBucket("bucket", queue, output, rate=3, max_tokens=max_tokens)])
    base = parse_workload("[3,3]: cenq(q0,t) >= 3 and [4,4]: cenq(q0,t) >= 6")
    return Analysis(point, Query("exists", (1, 6), "q0", "deq", ">", 3), base)


_TENANTS = [loom_inputs(4, flow) for flow in ("tenant1", "tenant2_spark")]
# The source gives no ranges for the lines after the first: the whole horizon is taken.
_LOOM_PUBLISHED = " and ".join(
    [
        f"[1,9]: sum cenq({{{','.join(_TENANTS[0][core] for core in (0, 1, 3))}}},t) <= 0",
        f"[1,10]: sum cenq({{{','.join(_TENANTS[1][core] for core in (0, 1))}}},t) >= t",
        f"[1,10]: cenq({_TENANTS[1][3]},t) >= t",
        f"[1,10]: cenq({_TENANTS[1][2]},t) >= 1",
    ]
)
_RR_BASE = " and ".join(
    [
        *(f"[5,5]: cenq(q{i},t) >= 4 and [10,10]: cenq(q{i},t) >= 8" for i in range(5)),
        "[10,10]: cenq(q1,t) > cenq(q2,t)",
    ]
)
_RR_QUERY = "forall t in [6,10]: cdeq(q2,t) - cdeq(q1,t) >= 3"
_BACKLOGGED = " and ".join(f"[1,10]: cenq(q{i},t) >= t" for i in range(5))
_FQ_BASE = " and ".join(f"[1,14]: cenq(q{i},t) >= t" for i in range(4))
_FQ_QUERY = "forall t in [14,14]: cdeq(q4,t) >= 5"

CASES = {
    "strict priority": Case(
        "q2 is starved: blocked for more than 5 steps in a row",
        lambda: _case("strict_priority", 4, 7, "exists t in [1,7]: cblocked(q2,t) > 5"),
        lambda: _case("round_robin", 4, 7, "exists t in [1,7]: cblocked(q2,t) > 5"),
        "round robin instead of priority",
        "[1,7]: sum cenq({q0,q1},t) >= t and [1,7]: cenq(q2,t) > t",
    ),
    "round robin": Case(
        "q2 is served 3 packets more than q1, although q1 sends more",
        lambda: _case("round_robin", 5, 10, _RR_QUERY, _RR_BASE),
        lambda: _case("round_robin", 5, 10, _RR_QUERY, _RR_BASE + " and " + _BACKLOGGED),
        "all flows backlogged from the first step",
        "[1,4]: sum cenq({q0,q1,q3,q4},t) <= 0 and [1,4]: cenq(q2,t) >= t",
    ),
    "FQ-CoDel": Case(
        "a thin flow is served 5 packets of 14, more than its share, and delays four busy ones",
        lambda: _case("flow_queue", 5, 14, _FQ_QUERY, _FQ_BASE),
        lambda: _case("flow_queue", 5, 14, _FQ_QUERY, _FQ_BASE, is_fixed=True),
        "RFC 8290's rule: a new queue that runs empty joins the old ones",
        "[1,4]: cenq(q4,t) <= 0 and [6,13]: aipg(q4,t) >= 2 and [13,14]: cenq(q4,t) >= 5",
    ),
    "Loom": Case(
        "tenant 2 is more than 3 packets ahead of tenant 1, although both always have some to send",
        lambda: loom_analysis(cores=4),
        lambda: loom_analysis(cores=1),
        "one core, on which both tenants are served in turn",
        _LOOM_PUBLISHED,
    ),
    "leaf-spine": Case(
        "10 packets or more wait on host 1's way to host 6, although it sends no more than one a step",
        _latency,
        lambda: _latency(" and [1,10]: sum cenq({host2,host3,host4,host5,host6},t) <= 0"),
        "all other hosts silent",
    ),
    "token bucket": Case(
        "more than a step's 3 tokens are spent in one step, although packets come early",
        lambda: _token_bucket(max_tokens=6),
        lambda: _token_bucket(max_tokens=3),
        "a bucket that holds one step's tokens",
        "[1,2]: cenq(q0,t) <= 2 and [4,6]: aipg(q0,t) >= 1 and [6,6]: cenq(q0,t) >= 9",
    ),
}


def synthesise(name: str, seed: int = 0) -> dict[str, Any]:
    """Synthesise the workload of one case study, and check its negative control.

    Keys: case, problem, status ("proven"), workload, size_nodes, questions, published_form_status (of the original's
    workload, checked here; "" where none is known), control, control_status (must be "unsat"). Raises NetreproError for
    an unknown case.
    """
    if name not in CASES:
        raise NetreproError(f"no case is called {name!r}", nearest(name, CASES))
    case = CASES[name]
    analysis = case.build().copy(backend="cadical")
    result = Search(analysis, seed=seed, starts=1).run()
    published = analysis.verify(parse_workload(case.published_form)).status if case.published_form else ""
    return {
        "case": name,
        "problem": case.problem,
        "status": result.status,
        "workload": str(result.workload) if result.workload else "",
        "size_nodes": result.workload.size if result.workload else None,
        "questions": result.questions,
        "published_form_status": published,
        "control": case.control,
        "control_status": case.build_control().copy(backend="cadical").satisfy_query().status,
    }


HALF, NOTHING = "fewer than half is received", "nothing at all is received"
FREE_TO_BE_SILENT = f"{NOTHING}, host 1 being free to be silent"
OTHERS_SILENT = f"{HALF} though the other hosts are silent"
QUESTIONS = (HALF, NOTHING, FREE_TO_BE_SILENT, OTHERS_SILENT)


def ask_with_and_without_base(question: str, size: Size = (2, 3, 6), horizon: int = 10) -> dict[str, str]:
    """Ask one of QUESTIONS with and without the base workload: question, with_base, without_base.

    The base workload must change the verdict on NOTHING, since without it silence is an answer. When all other hosts
    are silent, host 1 is not slowed.
    """
    analysis = throughput_analysis(size, horizon)
    point, query = analysis.point, analysis.query
    nothing = Query("forall", (horizon, horizon), query.queues[0], "cenq", "=", 0)
    others = ",".join(point.inputs[1:])
    alone = parse_workload(f"[1,{horizon}]: sum cenq({{{others}}},t) <= 0") if question == OTHERS_SILENT else None
    others_only = Workload(tuple(timed for timed in analysis.base.specs if not isinstance(timed.spec, Comp)))
    base = others_only if question == FREE_TO_BE_SILENT else analysis.base
    asked = query if question in (HALF, OTHERS_SILENT) else nothing
    with_base, without = (
        Analysis(point, asked, kept, backend="cadical").ask(alone, query=True).status for kept in (base, None)
    )
    return {"question": question, "with_base": with_base, "without_base": without}
