"""Floor 1: performance queries on schedulers and small networks, answered by a solver (the FPerf API)."""

try:
    from netrepro.verification.analysis import Analysis, Answer, Verification
    from netrepro.verification.examples import BaseExample, base_example, examples
    from netrepro.verification.points import ContentionPoint, ImmediateQueue, Link, Queue, QueuingModule
    from netrepro.verification.search import Search, SearchResult
    from netrepro.verification.traces import Trace
    from netrepro.verification.workloads import (
        Comp,
        Constant,
        Decr,
        Incr,
        Line,
        Metric,
        Query,
        Same,
        Term,
        Time,
        TimedSpec,
        Uniq,
        Workload,
        parse_query,
        parse_workload,
    )
except ModuleNotFoundError as error:  # the base installation has no solver
    from netrepro.extras import absent

    __getattr__ = absent(error)

__all__ = [
    "Analysis",
    "Answer",
    "BaseExample",
    "Comp",
    "Constant",
    "ContentionPoint",
    "Decr",
    "ImmediateQueue",
    "Incr",
    "Line",
    "Link",
    "Metric",
    "Query",
    "Queue",
    "QueuingModule",
    "Same",
    "Search",
    "SearchResult",
    "Term",
    "Time",
    "TimedSpec",
    "Trace",
    "Uniq",
    "Verification",
    "Workload",
    "base_example",
    "examples",
    "parse_query",
    "parse_workload",
]
