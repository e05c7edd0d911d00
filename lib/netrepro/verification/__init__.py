"""Floor 1: performance queries on schedulers and small networks, answered by a solver (the FPerf API).

How to write a contention point
-------------------------------
A `ContentionPoint` is made of queuing modules and the queues that they share, over `horizon` steps. The package has
schedulers (`FirstInFirstOut`, `StrictPriority`, `RoundRobin`, `WeightedRoundRobin`, `FlowQueueScheduler`) and modules
that move packets from one queue to another (`TokenBucket`, `Lossy`, `Relay`, `delay_line`). This example is a token
bucket that lets one packet pass in three steps, and a sender that never stops:

>>> bucket = TokenBucket("bucket", Queue("waiting", max_enqueue=4), Queue("out"), rate=1, max_tokens=1, every=3)
>>> point = ContentionPoint("one packet in three steps", 9, [bucket])
>>> busy = parse_workload("[1,9]: cenq(waiting,t) >= t")
>>> [Analysis(point, parse_query(f"exists t in [1,9]: cdeq(waiting,t) >= {n}"), busy).satisfy_query().status
...  for n in (2, 3)]
['sat', 'unsat']

At most two packets pass in nine steps, because the bucket is empty in the first three.

A module of your own is a subclass of `QueuingModule`. Its method `constraints(step)` is called once for each step and
returns the bits that must hold. `step` (a `Step`) takes packets from input queues and offers them to output queues;
`step.logic` (a `Logic`) combines bits and numbers; `step.remember` and `step.recall` keep a state. `step.time` counts
from 0, while workloads, queries and traces count from 1: t = step.time + 1. A second method, `serve(run)`, does one
step with real packets (`run` is a `PacketRun`); with it, every answer of the solver is replayed. The following module
stops every fourth step:

>>> class Lazy(QueuingModule):
...     def constraints(self, step):
...         works = step.logic.true if (step.time + 1) % 4 else step.logic.false
...         goes = step.logic.all_of([works, step.nonempty(self.inputs[0])])
...         step.take(self.inputs[0], goes)
...         step.offer(self.outputs[0], [step.when(goes, step.packet(self.inputs[0]))])
...         return []
...     def serve(self, run):
...         count = min(len(run.waiting(self.inputs[0].name)), 1 if (run.time + 1) % 4 else 0)
...         run.offer(self.outputs[0].name, run.take(self.inputs[0].name, count))
>>> point = ContentionPoint("lazy", 8, [Lazy("lazy", [Queue("waiting")], [Queue("out")])])
>>> Analysis(point, parse_query("exists t in [4,4]: deq(waiting,t) >= 1")).satisfy_query().status
'unsat'

Section 10 of notebooks/62_fperf_leaf_spine.ipynb has a longer example, which leaves a choice to the solver.
"""

try:
    from netrepro.verification.analysis import Analysis, Answer, Verification
    from netrepro.verification.examples import BaseExample, base_example, examples
    from netrepro.verification.logic import Logic
    from netrepro.verification.parsing import parse_query, parse_workload
    from netrepro.verification.points import ContentionPoint, QueuingModule
    from netrepro.verification.queues import ImmediateQueue, Link, Queue
    from netrepro.verification.schedulers import (
        FirstInFirstOut,
        FlowQueueScheduler,
        RoundRobin,
        Scheduler,
        StrictPriority,
        WeightedRoundRobin,
        scheduler_point,
    )
    from netrepro.verification.search import Search, SearchResult
    from netrepro.verification.shapers import Lossy, Mover, Relay, TokenBucket, delay_line
    from netrepro.verification.step import Step
    from netrepro.verification.traces import PacketRun, Trace
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
    )
except ModuleNotFoundError as error:  # the base installation has no solver
    from netrepro.extras import absent

    __getattr__ = absent(error, __name__)

__all__ = [
    "Analysis",
    "Answer",
    "BaseExample",
    "Comp",
    "Constant",
    "ContentionPoint",
    "Decr",
    "FirstInFirstOut",
    "FlowQueueScheduler",
    "ImmediateQueue",
    "Incr",
    "Line",
    "Link",
    "Logic",
    "Lossy",
    "Metric",
    "Mover",
    "PacketRun",
    "Query",
    "Queue",
    "QueuingModule",
    "Relay",
    "RoundRobin",
    "Same",
    "Scheduler",
    "Search",
    "SearchResult",
    "Step",
    "StrictPriority",
    "Term",
    "Time",
    "TimedSpec",
    "TokenBucket",
    "Trace",
    "Uniq",
    "Verification",
    "WeightedRoundRobin",
    "Workload",
    "base_example",
    "delay_line",
    "examples",
    "parse_query",
    "parse_workload",
    "scheduler_point",
]
