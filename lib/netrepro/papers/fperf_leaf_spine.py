"""FPerf on schedulers and on a leaf-spine network: the report's query, the case studies, Figure 7c.

Paper: Tahmasbi Arashloo, Beckett and Agarwal, "Formal Methods for Network Performance Analysis" (NSDI 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import z3
from matplotlib.figure import Figure
from scipy.special import stdtrit  # scipy.stats costs two seconds to import

from netrepro import networks
from netrepro.claims import Measured, load_claims
from netrepro.errors import NetreproError, nearest
from netrepro.paths import data_dir
from netrepro.processes import as_they_come, in_processes
from netrepro.simulation import simulate
from netrepro.style import PUBLISHED_GREY, new_figure
from netrepro.verification.analysis import Analysis, Answer
from netrepro.verification.encodings import CircuitEncoding
from netrepro.verification.examples import base_example
from netrepro.verification.leaf_spine import (
    base_workload,
    host,
    leaf_spine,
    path_queues,
    received,
    throughput_query,
)
from netrepro.verification.loom import loom, loom_inputs, steady_tenants, unfair_query
from netrepro.verification.points import ContentionPoint
from netrepro.verification.queues import Queue
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.search import Search
from netrepro.verification.shapers import TokenBucket
from netrepro.verification.traces import Trace
from netrepro.verification.workloads import Comp, Query, Workload, parse_query, parse_workload

Size = tuple[int, int, int]  # spines, leaves, hosts
Clock = Callable[[], float]
LABELS = {
    "satisfy": "satisfy the query",
    "satisfy (peer)": "satisfy the query, integers",
    "base example": "base example",
    "search": "search",
    "verify": "verify",
}
COLOURS = {
    "satisfy": "#0072B2",
    "satisfy (peer)": "#0072B2",
    "base example": "#D55E00",
    "search": "#009E73",
    "verify": "#CC79A7",
}
MARKERS = {"satisfy": "o", "satisfy (peer)": "x", "base example": "s", "search": "^", "verify": "D"}


@dataclass(frozen=True)
class Scale:
    """Sizes, steps and the most seeds of a profile; for the slow reference encoding, seeds per size and steps."""

    sizes: tuple[Size, ...]
    horizon: int
    most_seeds: int
    reference_seeds: dict[Size, int]
    reference_horizon: int
    search_sizes: tuple[Size, ...]

    def seeds(self, repetitions: int, first: int) -> list[int]:
        """`repetitions` seeds from the first on, as far as the profile takes them."""
        return list(range(first, first + min(repetitions, self.most_seeds)))


SCALES = {
    "quick": Scale(
        sizes=((2, 2, 4), (2, 3, 6), (2, 4, 8), (2, 5, 10)),
        horizon=8,
        most_seeds=2,
        reference_seeds={(2, 2, 4): 1},
        reference_horizon=6,
        search_sizes=((2, 2, 4), (2, 3, 6)),
    ),
    "paper": Scale(
        sizes=((2, 2, 4), (2, 3, 6), (2, 4, 8), (2, 5, 10), (2, 6, 12), (3, 4, 12), (4, 4, 16)),
        horizon=10,
        most_seeds=5,
        reference_seeds={(2, 2, 4): 5, (2, 3, 6): 5},  # S2-L4-H8: more than ten minutes each
        reference_horizon=10,
        search_sizes=((2, 2, 4), (2, 3, 6), (2, 4, 8), (2, 5, 10)),
    ),
}


def scale(profile: str) -> Scale:
    """The sizes of a profile. Raises NetreproError for an unknown one."""
    if profile not in SCALES:
        raise NetreproError(f"no profile is called {profile!r}", nearest(profile, SCALES))
    return SCALES[profile]


def size_name(size: Size) -> str:
    """Si-Lj-Hk, as in Figure 7c."""
    return f"S{size[0]}-L{size[1]}-H{size[2]}"


# --- the report's query ---


def throughput_analysis(size: Size = (2, 3, 6), horizon: int = 10, **options: Any) -> Analysis:
    """Section 8: can the last host receive fewer than half of the line rate although host 1 sends to it
    steadily?

    `options` go to `Analysis`. Raises NetreproError where hosts do not divide evenly among leaves.
    """
    spines, leaves, hosts = size
    if hosts % leaves:
        raise NetreproError(f"{hosts} hosts on {leaves} leaves", "give each leaf the same number of hosts")
    point = leaf_spine(spines, leaves, hosts // leaves, horizon)
    return Analysis(point, throughput_query(point, hosts - 1), base_workload(point, hosts - 1), **options)


def received_packets(trace: Trace, victim: int) -> pd.DataFrame:
    """Columns time_step, sent_packets (host 1), received_packets (victim), line_rate_packets (the most)."""
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
    """For each number of packets: whether the victim may receive no more than that, base workload kept.

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
    """The formula of the class report, as it stands there, with the declarations that it needs."""
    return """
(declare-fun dst (Int Int) Int) (declare-fun cenq (Int Int) Int) (declare-const Out_6 Int)
(assert (=> (and
  (forall ((t Int)) (and (>= t 1) (<= t 10) (= (dst 1 t) 6)))
  (forall ((i Int) (j Int)) (=> (and (>= i 1) (<= i 6) (>= j 1) (<= j 6) (not (= i j)))
    (forall ((t Int)) (and (>= t 1) (<= t 10) (not (= (dst i t) (dst j t))))))))
  (forall ((t Int)) (and (>= t 1) (<= t 10) (< (cenq Out_6 t) 5)))))
"""


def corrected_formula() -> str:
    """The same with ranges as guards, and asking for a counterexample: workload and query, no implication."""
    return """
(declare-fun dst (Int Int) Int) (declare-fun cenq (Int Int) Int) (declare-const Out_6 Int)
(assert (forall ((t Int)) (=> (and (>= t 1) (<= t 10)) (= (dst 1 t) 6))))
(assert (forall ((i Int) (j Int) (t Int))
  (=> (and (>= i 1) (<= i 6) (>= j 1) (<= j 6) (not (= i j)) (>= t 1) (<= t 10))
      (not (= (dst i t) (dst j t))))))
(assert (< (cenq Out_6 10) 5))
"""


def is_tautology(formula: str, timeout_s: float = 10) -> bool | None:
    """Whether an SMT-LIB formula holds whatever its functions are; None after a time-out."""
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("timeout", round(timeout_s * 1000))
    solver.add(z3.Not(z3.And(*z3.parse_smt2_string(formula, ctx=context))))
    answer = solver.check()
    return None if answer == z3.unknown else answer == z3.unsat


def examine_report_formula(size: Size = (2, 3, 6), horizon: int = 10) -> pd.DataFrame:
    """What the report's formula asks, as written and corrected.

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


# --- the schedulers' case studies ---


@dataclass(frozen=True)
class Case:
    """A case study: what goes wrong (`kind`: starvation, unfairness, latency or a burst), and the same with the
    cause taken away, where it must not."""

    name: str
    kind: str
    problem: str
    build: Callable[[], Analysis]
    build_control: Callable[[], Analysis]
    control: str
    published_form: str = field(default="")


def _case(kind: str, flows: int, horizon: int, query: str, base: str = "*", **options: Any) -> Analysis:
    point = scheduler_point(kind, flows, horizon, **options)
    return Analysis(point, parse_query(query), parse_workload(base))


def loom_analysis(cores: int = 4) -> Analysis:
    """Are two steady tenants treated unequally by a network card with a queue for each of `cores`?"""
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
# The ranges of all but the first line are not told where the workload is: the whole horizon is taken.
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
    case.name: case
    for case in [
        Case(
            "strict priority",
            "starvation",
            "q2 is starved: blocked for more than 5 steps in a row",
            lambda: _case("strict_priority", 4, 7, "exists t in [1,7]: cblocked(q2,t) > 5"),
            lambda: _case("round_robin", 4, 7, "exists t in [1,7]: cblocked(q2,t) > 5"),
            "round robin instead of priority",
            "[1,7]: sum cenq({q0,q1},t) >= t and [1,7]: cenq(q2,t) > t",
        ),
        Case(
            "round robin",
            "unfairness",
            "q2 is served 3 packets more than q1, although q1 sends more",
            lambda: _case("round_robin", 5, 10, _RR_QUERY, _RR_BASE),
            lambda: _case("round_robin", 5, 10, _RR_QUERY, _RR_BASE + " and " + _BACKLOGGED),
            "all flows backlogged from the first step",
            "[1,4]: sum cenq({q0,q1,q3,q4},t) <= 0 and [1,4]: cenq(q2,t) >= t",
        ),
        Case(
            "FQ-CoDel",
            "starvation",
            "a thin flow is served 5 packets of 14, more than its share, and delays four busy ones",
            lambda: _case("flow_queue", 5, 14, _FQ_QUERY, _FQ_BASE),
            lambda: _case("flow_queue", 5, 14, _FQ_QUERY, _FQ_BASE, is_fixed=True),
            "RFC 8290's rule: a new queue that runs empty joins the old ones",
            "[1,4]: cenq(q4,t) <= 0 and [6,13]: aipg(q4,t) >= 2 and [13,14]: cenq(q4,t) >= 5",
        ),
        Case(
            "Loom",
            "unfairness",
            "tenant 2 is more than 3 packets ahead of tenant 1, although both always have some to send",
            lambda: loom_analysis(cores=4),
            lambda: loom_analysis(cores=1),
            "one core, on which both tenants are served in turn",
            _LOOM_PUBLISHED,
        ),
        Case(
            "leaf-spine",
            "latency",
            "10 packets or more wait on host 1's way to host 6, although it sends no more than one a step",
            _latency,
            lambda: _latency(" and [1,10]: sum cenq({host2,host3,host4,host5,host6},t) <= 0"),
            "all other hosts silent",
        ),
        Case(
            "token bucket",
            "burst",
            "more than a step's 3 tokens are spent in one step, although packets come early",
            lambda: _token_bucket(max_tokens=6),
            lambda: _token_bucket(max_tokens=3),
            "a bucket that holds one step's tokens",
            "[1,2]: cenq(q0,t) <= 2 and [4,6]: aipg(q0,t) >= 1 and [6,6]: cenq(q0,t) >= 9",
        ),
    ]
}


def synthesise(
    name: str, *, seed: int = 0, method: str = "generalise", starts: int = 1, backend: str = "cadical"
) -> dict[str, Any]:
    """One case study: its workload, and its negative control.

    Keys: case, kind, problem, status ("proven"), workload, size_nodes, base_packets, questions, published_form,
    published_form_status (the original's workload checked here; "" where none is known), control,
    control_status (must be "unsat").
    Raises NetreproError for an unknown case.
    """
    if name not in CASES:
        raise NetreproError(f"no case is called {name!r}", nearest(name, CASES))
    case = CASES[name]
    analysis = case.build().copy(backend=backend)
    result = Search(analysis, seed=seed, method=method, starts=starts).run()
    published = analysis.verify(parse_workload(case.published_form)).status if case.published_form else ""
    return {
        "case": name,
        "kind": case.kind,
        "problem": case.problem,
        "status": result.status,
        "workload": str(result.workload) if result.workload else "",
        "size_nodes": result.workload.size if result.workload else None,
        "base_packets": result.base.packets,
        "questions": result.questions,
        "published_form": case.published_form,
        "published_form_status": published,
        "control": case.control,
        "control_status": case.build_control().copy(backend=backend).satisfy_query().status,
    }


def synthesise_all(*, seed: int = 0, progress: Callable[[Iterable[int]], Iterable[int]] = iter) -> pd.DataFrame:
    """`synthesise` for every case, on all processors, the largest first; one row each."""
    work = [(name,) for name in CASES]
    return pd.DataFrame(in_processes(partial(synthesise, seed=seed), work, progress, cost=_size))


def _size(case: str) -> int:
    """Queues, counted in each step."""
    point = CASES[case].build().point
    return len(point.queues) * point.horizon


def without_base_workload(size: Size = (2, 3, 6), horizon: int = 10) -> pd.DataFrame:
    """The same questions with and without the base workload.

    Columns: question, with_base, without_base. The second question must change its verdict; silence then is
    an answer. With all other hosts silent, host 1 is not slowed.
    """
    analysis = throughput_analysis(size, horizon)
    point, query = analysis.point, analysis.query
    nothing = Query("forall", (horizon, horizon), query.queues[0], "cenq", "=", 0)
    others = ",".join(point.inputs[1:])
    others_only = Workload(tuple(timed for timed in analysis.base.specs if not isinstance(timed.spec, Comp)))
    alone = parse_workload(f"[1,{horizon}]: sum cenq({{{others}}},t) <= 0")

    def both(
        name: str, question: Query, workload: Workload | None = None, base: Workload = analysis.base
    ) -> tuple[str, str, str]:
        with_base, without = (
            Analysis(point, question, kept, backend="cadical").ask(workload, query=True).status for kept in (base, None)
        )
        return name, with_base, without

    questions = [
        ("fewer than half is received", query),
        ("nothing at all is received", nothing),
        ("nothing at all is received, host 1 being free to be silent", nothing, None, others_only),
        ("fewer than half is received though the other hosts are silent", query, alone),
    ]
    rows = in_processes(both, questions)
    return pd.DataFrame(rows, columns=["question", "with_base", "without_base"])


# --- the same input, packet by packet ---

PACKET_RATE_MBPS = 1000.0
PACKET_BYTES = 1514
STEP_S = PACKET_BYTES * 8 / (PACKET_RATE_MBPS * 1e6)  # a step of the model is one packet's time on a wire
RUN_COLUMNS = ["run", "spines", "prediction", "time_step", "model_packets", "received_packets"]


@dataclass(frozen=True)
class Burst:
    """`count` packets of one host in each of the steps first..last (from 1), all with one label."""

    source: str
    packet: tuple[int, int]
    count: int
    first: int
    last: int


def bursts(trace: Trace, inputs: Iterable[str]) -> list[Burst]:
    """A trace's arrivals as few bursts. Raises NetreproError where one step's packets have several labels."""
    found: list[Burst] = []
    for source in inputs:
        open_burst: Burst | None = None
        for step, packets in enumerate(trace.arrived[source], 1):
            if len(set(packets)) > 1:
                raise NetreproError(f"{source} sends packets of several labels in step {step}", "ask for steady labels")
            now = (packets[0], len(packets)) if packets else None
            if open_burst and now == (open_burst.packet, open_burst.count):
                found[-1] = open_burst = replace(open_burst, last=step)
            elif now:
                open_burst = Burst(source, now[0], now[1], step, step)
                found.append(open_burst)
            else:
                open_burst = None
    return found


def run_in_packets(size: Size, horizon: int, sent: Sequence[Burst], victim: int, *, seed: int) -> tuple[Any, list[int]]:
    """The bursts on the packet simulator, whose switches choose the spine by a hash of the flow.

    Returns the packets that the victim has received by each step (an array), and the spine of each burst (-1
    inside a leaf).
    """
    spines, leaves, hosts = size
    link = networks.Link(PACKET_RATE_MBPS, 0.0)
    topology = networks.leaf_spine(leaves, spines, hosts // leaves, link, link)
    uplinks = [(f"s{leaf + 1}", f"s{leaves + spine + 1}") for leaf in range(leaves) for spine in range(spines)]
    last_port = (f"s{victim * leaves // hosts + 1}", f"h{victim + 1}")
    traffic = [
        networks.Datagrams(
            source=burst.source.replace("host", "h"),
            destination=f"h{burst.packet[0] + 1}",
            rate_mbps=burst.count * PACKET_RATE_MBPS,
            # Half a gap short, so that rounding adds no packet.
            duration_s=STEP_S * (burst.last - burst.first + 1 - 0.5 / burst.count),
            packet_bytes=PACKET_BYTES,
            start_s=STEP_S * (burst.first - 1),
        )
        for burst in sent
    ]
    most = sum(burst.count * (burst.last - burst.first + 1) for burst in sent)
    experiment = networks.Experiment(
        topology,
        tuple(traffic),
        duration_s=STEP_S * (horizon + most + 6),
        seed=seed,
        measure=networks.Measure(packets=(*uplinks, last_port)),
    )
    packets = simulate(experiment).packets
    up = packets[packets["destination"] != last_port[1]]
    spine_of = {int(flow): int(name[1:]) - leaves - 1 for flow, name in zip(up["flow"], up["destination"], strict=True)}
    arrived = packets.loc[packets["destination"] == last_port[1], "time_s"].to_numpy()
    # Clocks differ by parts in ten thousand: a quarter of a step is ample.
    ends = STEP_S * (np.arange(1, horizon + 1) + 0.25)
    return np.searchsorted(np.sort(arrived), ends), [spine_of.get(flow, -1) for flow in range(len(sent))]


def synthesised_input(size: Size = (2, 3, 6), horizon: int = 10, *, seed: int = 0) -> tuple[Workload, Trace]:
    """A proven workload of the throughput query, and the plainest input that has it.

    Raises NetreproError where no workload is found.
    """
    analysis = throughput_analysis(size, horizon, backend="cadical")
    result = Search(analysis, seed=seed, starts=0).run()
    if result.workload is None:
        raise NetreproError(f"no workload was found for {size_name(size)}", "give another seed")
    both = Workload(analysis.base.specs + result.workload.specs)
    workload = Analysis(analysis.point, analysis.query, both, backend="cadical")
    return result.workload, base_example(workload, steady_labels=True).trace


def packet_runs(
    trace: Trace,
    size: Size = (2, 3, 6),
    horizon: int = 10,
    *,
    runs: int = 32,
    seed: int = 0,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> pd.DataFrame:
    """An input of the throughput query on `runs` packet networks that differ in their hash alone.

    The hash chooses the spines; with these, `prediction` is what the solver says of all inputs with the same
    senders, destinations and spines: "must lose" (the query holds for all), "cannot lose" (for none) or "may
    lose". A row per run and step: RUN_COLUMNS; model_packets is one replay in the model, with the same spines.
    """
    victim = size[2] - 1
    analysis = throughput_analysis(size, horizon, backend="cadical")
    point, sent = analysis.point, bursts(trace, analysis.point.inputs)
    predictions: dict[tuple[int, ...], str] = {}
    tables = []
    for run in progress(range(runs)):
        arrived, chosen = run_in_packets(size, horizon, sent, victim, seed=seed + run)
        arrivals: dict[str, list[list[tuple[int, int]]]] = {}
        for burst, spine in zip(sent, chosen, strict=True):
            steps = arrivals.setdefault(burst.source, [[] for _ in range(horizon)])
            for step in range(burst.first, burst.last + 1):
                steps[step - 1] = [(burst.packet[0], max(spine, 0))] * burst.count
        if tuple(chosen) not in predictions:
            predictions[tuple(chosen)] = _prediction(analysis, sent, chosen)
        model = point.simulate(arrivals, seed=seed + run)
        tables.append(
            pd.DataFrame(
                {
                    "run": run,
                    "spines": ", ".join(f"{b.source}: {s + 1}" for b, s in zip(sent, chosen, strict=True) if s >= 0),
                    "prediction": predictions[tuple(chosen)],
                    "time_step": range(1, horizon + 1),
                    "model_packets": [model.metric("cenq", received(victim), t) for t in range(1, horizon + 1)],
                    "received_packets": arrived,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)[RUN_COLUMNS]


def _prediction(analysis: Analysis, sent: Sequence[Burst], spines: Sequence[int]) -> str:
    """What the solver says of every input with these senders, destinations and spines."""
    silent = [queue for queue in analysis.point.inputs if queue not in {burst.source for burst in sent}]
    lines = [f"[1,{analysis.point.horizon}]: cenq({queue},t) <= 0" for queue in silent]
    for burst, spine in zip(sent, spines, strict=True):
        steps = f"[{burst.first},{burst.last}]"
        lines.append(f"{steps}: dst({burst.source},t) = {burst.packet[0]}")
        if spine >= 0:
            lines.append(f"{steps}: ecmp({burst.source},t) = {spine}")
    workload = parse_workload(" and ".join(lines))
    if analysis.check_workload_with_query(workload).status == "unsat":
        return "cannot lose"
    return "must lose" if analysis.check_workload_without_query(workload).status == "unsat" else "may lose"


def packet_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Per prediction: networks, packets received by the horizon in the packet world and in the model."""
    last = runs[runs["time_step"] == runs["time_step"].max()]
    grouped = last.groupby("prediction")
    return grouped.agg(
        networks=("run", "count"),
        least_received=("received_packets", "min"),
        most_received=("received_packets", "max"),
        least_in_model=("model_packets", "min"),
        most_in_model=("model_packets", "max"),
    ).reset_index()


def share_that_lost(runs: pd.DataFrame, prediction: str) -> float:
    """Of the packet networks of a prediction, those in which the query held: the victim received too little.

    Raises NetreproError where no network has this prediction.
    """
    horizon = runs["time_step"].max()
    last = runs[(runs["time_step"] == horizon) & (runs["prediction"] == prediction)]
    if last.empty:
        raise NetreproError(f"no network of which the solver said {prediction!r}", "run more of them")
    return float((last["received_packets"] <= horizon // 2 - 1).mean())


# --- times ---

TIME_COLUMNS = ["size", "hosts", "horizon_steps", "encoding", "seed", "task", "cpu_s", "status"]


def _timed_work(
    scale: Scale, seeds: Sequence[int], clock: Clock, options: dict[str, Any]
) -> list[Callable[[], Iterator[dict[str, Any]]]]:
    """What there is to time, in the order of the table: each gives its rows as soon as it has them."""
    work: list[Callable[[], Iterator[dict[str, Any]]]] = [
        partial(_timed_tasks, size, scale.horizon, seed, clock, size in scale.search_sizes, options)
        for size in scale.sizes
        for seed in seeds
    ]
    return work + [
        partial(_timed_peer, size, scale.reference_horizon, encoding, seed, clock, options)
        for size, count in scale.reference_seeds.items()
        for encoding in ("circuit", "integers")
        for seed in seeds[:count]
    ]


def _timed_tasks(
    size: Size, horizon: int, seed: int, clock: Clock, with_search: bool, options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    def row(task: str, seconds: float, status: str) -> dict[str, Any]:
        values = (size_name(size), size[2], horizon, "circuit", seed, task, seconds, status)
        return dict(zip(TIME_COLUMNS, values, strict=True))

    start = clock()
    analysis = throughput_analysis(size, horizon, seed=seed, shuffle=seed, **options)
    status = analysis.satisfy_query().status
    satisfied_s = clock() - start
    yield row("satisfy", satisfied_s, status)
    if status == "unknown":
        return
    start = clock()
    status = analysis.verify(parse_workload(f"[1,{horizon}]: ecmp(host1,t) <= 0")).status
    yield row("verify", clock() - start, status)
    start = clock()
    try:
        base = base_example(analysis, on_copy=False)
    except NetreproError:  # no example in time: `satisfy` has shown that there is one
        yield row("base example", satisfied_s + clock() - start, "unknown")
        return
    yield row("base example", satisfied_s + clock() - start, "optimal" if base.is_optimal else "unknown")
    if with_search:
        start = clock()
        result = Search(analysis.copy(), seed=seed, starts=0, base=base).run()
        yield row("search", clock() - start, result.status)


def _timed_peer(
    size: Size, horizon: int, encoding: str, seed: int, clock: Clock, options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    start = clock()
    analysis = throughput_analysis(size, horizon, encoding=encoding, seed=seed, shuffle=seed, **options)
    status = analysis.satisfy_query().status
    values = (size_name(size), size[2], horizon, encoding, seed, "satisfy (peer)", clock() - start, status)
    yield dict(zip(TIME_COLUMNS, values, strict=True))


def measure_times(
    scale: Scale,
    seeds: Sequence[int],
    clock: Clock,
    *,
    backend: str = "z3",
    timeout_s: float | None = None,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> pd.DataFrame:
    """Time every size, seed and task; a row each (see `TIME_COLUMNS`).

    `clock` returns CPU seconds (time.process_time). A size and seed is timed in a process of its own, as many beside
    each other as there are processors, the costly ones first. "satisfy" includes building and loading the formula,
    "base example" all of "satisfy", on which it goes on, and "search" building the formula again; "verify" is a whole
    `Analysis.verify` on a loaded formula. A question
    that takes longer than `timeout_s` makes its row "unknown"; a size and seed ends with it.

    Ctrl-C ends all processes and keeps the rows that there are; `attrs["is_complete"]` tells.
    """
    work = _timed_work(scale, seeds, clock, {"backend": backend, "timeout_s": timeout_s})
    found: list[tuple[int, dict[str, Any]]] = []
    is_complete = True
    try:
        with closing(as_they_come(reversed(work))) as numbered:
            for number, row in progress(numbered):
                found.append((-number, row))
    except KeyboardInterrupt:
        is_complete = False
    rows = [row for _, row in sorted(found, key=lambda pair: pair[0])]
    table = pd.DataFrame(rows, columns=TIME_COLUMNS)
    table.attrs["is_complete"] = is_complete
    return table


def fit_growth(times: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Exponential fit of CPU seconds against hosts, per task.

    Columns: task, factor_per_host with its interval (low, high; t distribution on log seconds), r_squared
    of the exponential, r_squared_line (a straight line), r_squared_power (hosts ** power; all judged on
    seconds), power, is_exponential (the exponential is nearer than the line and the interval lies above 1: few
    sizes do not tell it from a power). Time-outs are left out, and tasks with fewer than three sizes.
    """
    rows = []
    for task, group in _known_times(times[times["task"] != "satisfy (peer)"]).groupby("task"):
        if group["hosts"].nunique() < 3:
            continue
        hosts, seconds = group["hosts"].to_numpy(float), group["cpu_s"].to_numpy(float)
        (slope, intercept), covariance = np.polyfit(hosts, np.log(seconds), 1, cov=True)
        reach = stdtrit(len(hosts) - 2, (1 + confidence) / 2) * np.sqrt(covariance[0, 0])
        line, power = np.polyfit(hosts, seconds, 1), np.polyfit(np.log(hosts), np.log(seconds), 1)
        total = float(((seconds - seconds.mean()) ** 2).sum())
        exponential, straight, raised = (
            1 - float(((seconds - curve) ** 2).sum()) / total
            for curve in (
                np.exp(intercept + slope * hosts),
                np.polyval(line, hosts),
                np.exp(power[1]) * hosts ** power[0],
            )
        )
        low = float(np.exp(slope - reach))
        rows.append(
            {
                "task": task,
                "factor_per_host": float(np.exp(slope)),
                "low": low,
                "high": float(np.exp(slope + reach)),
                "intercept_s": float(np.exp(intercept)),
                "r_squared": exponential,
                "r_squared_line": straight,
                "r_squared_power": raised,
                "power": float(power[0]),
                "is_exponential": bool(exponential > straight and low > 1),
            }
        )
    columns = ["task", "factor_per_host", "low", "high", "intercept_s", "r_squared", "r_squared_line"]
    return pd.DataFrame(rows, columns=[*columns, "r_squared_power", "power", "is_exponential"])


def _known_times(times: pd.DataFrame) -> pd.DataFrame:
    """Without the rows that a time limit ended."""
    return times[times["status"] != "unknown"]


NO_SEARCH = 2  # time steps in which no packet can have arrived: a packet takes three


def measure_spread(size: Size, horizons: Sequence[int], seeds: Sequence[int]) -> pd.DataFrame:
    """z3's work on "satisfy", one formula a horizon, under harmless changes, as Mariposa makes them (FMCAD 2023).

    Columns: horizon_steps, mutation ("none", twice; "reseeded"; "shuffled": parts in another order, variables
    renamed), seed, solver_steps (`Analysis.solver_steps`), status. Steps and not seconds: they repeat exactly, so that
    what differs is the change's doing and not a busy machine's.
    """
    changes: list[tuple[str, int, dict[str, int]]] = [("none", run, {}) for run in range(2)]
    for seed in seeds:
        changes += [("reseeded", seed, {"seed": seed}), ("shuffled", seed, {"shuffle": seed})]
    work = [(size, horizon, *change) for horizon in sorted(horizons, reverse=True) for change in changes]
    rows = sorted(in_processes(_counted, work), key=lambda row: row[0])
    return pd.DataFrame(rows, columns=["horizon_steps", "mutation", "seed", "solver_steps", "status"])


def _counted(
    size: Size, horizon: int, mutation: str, seed: int, options: dict[str, int]
) -> tuple[int, str, int, int, str]:
    analysis = throughput_analysis(size, horizon, backend="z3", **options)
    status = analysis.ask(query=True, with_trace=False).status
    return horizon, mutation, seed, analysis.solver_steps, status


def spread_summary(spread: pd.DataFrame, averaged: int = 5, draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """Per horizon and mutation: median_steps, most_to_least, typical_difference (the median of |steps / median - 1|),
    averages_differ (by how much two averages of `averaged` runs differ in 19 of 20 draws from these runs).

    seed : of the draws.
    """
    dice, rows = np.random.default_rng(seed), []
    for (horizon, mutation), group in spread.groupby(["horizon_steps", "mutation"], sort=False):
        steps = group["solver_steps"].to_numpy(float)
        typical = float(np.median(np.abs(steps / np.median(steps) - 1)))
        ours, theirs = dice.choice(steps, (2, draws, averaged)).mean(axis=2)
        differ = float(np.quantile(np.abs(ours / theirs - 1), 0.95))
        rows.append((horizon, mutation, np.median(steps), steps.max() / steps.min(), typical, differ))
    columns = ["horizon_steps", "mutation", "median_steps", "most_to_least", "typical_difference", "averages_differ"]
    return pd.DataFrame(rows, columns=columns)


def encoding_ratios(times: pd.DataFrame) -> pd.DataFrame:
    """How many times faster the circuit is than the integer encoding, per size and seed of the same run."""
    peers = _known_times(times[times["task"] == "satisfy (peer)"])
    if peers.empty:
        return pd.DataFrame(columns=["size", "seed", "circuit_s", "integers_s", "ratio"])
    wide = peers.pivot_table(index=["size", "seed"], columns="encoding", values="cpu_s").reset_index()
    wide = wide.dropna().rename(columns={"circuit": "circuit_s", "integers": "integers_s"})
    wide.columns.name = None
    return wide.assign(ratio=wide["integers_s"] / wide["circuit_s"])


def original_times() -> pd.DataFrame:
    """The original program's CPU seconds, recorded once on another machine (see SOURCES.md): an order of magnitude.

    Columns size, horizon_steps, task, cpu_s, seeds.
    """
    return pd.read_csv(data_dir("fperf_leaf_spine") / "original_times.csv")


# --- figures ---


def draw_idea() -> Figure:
    """Strict priority with packets: two flows that send all the time, and what becomes of the third."""
    point = scheduler_point("strict_priority", 4, 7)
    packet = [(0, 0)]
    sent = {"q0": [packet] * 5, "q1": [[], packet, packet], "q2": [packet] * 3}
    trace = point.simulate(sent)
    return trace.draw(["q0", "q1", "q2", "q3"], "The scheduler serves q0 first, then q1, q2 and q3")


def draw_times(times: pd.DataFrame, fits: pd.DataFrame) -> Figure:
    """Figure 7c: CPU seconds against network size, a line a task, all seeds, and the fit; dashed the integer encoding.

    In grey the original program's seconds, recorded on another machine, where the horizon is the same.
    """
    figure, axis = new_figure("Figure 7c: time against network size", "network size", "CPU time (s)", log_y=True)
    own = times[times["task"] != "satisfy (peer)"]
    sizes = own[["size", "hosts"]].drop_duplicates().sort_values(["hosts", "size"])
    names = list(sizes["size"])
    peers = _known_times(times[times["encoding"] == "integers"])
    for task, group in pd.concat([own, peers]).groupby("task", sort=False):
        colour, marker, is_peer = COLOURS[str(task)], MARKERS[str(task)], task == "satisfy (peer)"
        label = LABELS[str(task)] + (f", {group['horizon_steps'].iloc[0]} steps" if is_peer else "")
        places = [names.index(name) for name in group["size"]]
        axis.plot(places, group["cpu_s"], linestyle="none", marker=marker, color=colour, alpha=0.35)
        middle = group.groupby("size")["cpu_s"].median()
        shown = [name for name in names if name in middle.index]
        shape: dict[str, Any] = {"linestyle": "--" if is_peer else "-", "marker": marker if is_peer else None}
        axis.plot([names.index(n) for n in shown], [middle[n] for n in shown], color=colour, label=label, **shape)
    base = fits[fits["task"] == "base example"]
    if not base.empty:
        fit = base.iloc[0]
        curve = fit["intercept_s"] * fit["factor_per_host"] ** sizes["hosts"].to_numpy(float)
        label = f"fit: ×{fit['factor_per_host']:.2f} a host ({fit['low']:.2f} to {fit['high']:.2f})"
        axis.plot(range(len(names)), curve, color="#444444", linestyle=":", label=label)
    original = original_times()
    original = original[original["size"].isin(names) & original["horizon_steps"].isin(own["horizon_steps"])]
    for task, group in original[original["task"].isin(["satisfy", "base example"])].groupby("task", sort=False):
        places = [names.index(name) for name in group["size"]]
        label = f"original, elsewhere: {LABELS[str(task)]}"
        axis.plot(places, group["cpu_s"], "--", marker=MARKERS[str(task)], color=PUBLISHED_GREY, label=label)
    axis.set_xticks(range(len(names)), names, rotation=20)
    axis.legend(fontsize=7, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.3))  # below: the originals lie high
    return figure


def draw_counterexample(trace: Trace, size: Size) -> Figure:
    """The answer on the topology: packets carried by each wire; the sender blue, the victim pink."""
    spines, leaves, hosts = size
    per_leaf = hosts // leaves
    figure, axis = new_figure(f"Who shares whose wires ({size_name(size)})", "", "")
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.set_frame_on(False)
    places: dict[str, tuple[float, float]] = {}
    for s in range(spines):
        places[f"spine{s + 1}"] = ((s + 0.5) * hosts / spines, 2.0)
    for leaf in range(leaves):
        places[f"leaf{leaf + 1}"] = (leaf * per_leaf + per_leaf / 2, 1.0)
    for h in range(hosts):
        places[host(h)] = (h + 0.5, 0.0)

    def wire(a: str, b: str, packets: int, shift: float) -> None:
        (x0, y0), (x1, y1) = places[a], places[b]
        width = 0.6 + 5 * packets / trace.horizon
        colour = "#D55E00" if packets else "#cccccc"
        axis.plot([x0 + shift, x1 + shift], [y0, y1], color=colour, linewidth=width, alpha=0.6, zorder=1)
        if packets:
            place = (x0 + 0.62 * (x1 - x0) + shift, y0 + 0.62 * (y1 - y0))
            axis.annotate(str(packets), place, fontsize=8, ha="center", zorder=3)

    for h in range(hosts):
        switch = f"leaf{h // per_leaf + 1}"
        wire(host(h), switch, trace.metric("cdeq", host(h), trace.horizon) or 0, -0.06)
        wire(switch, host(h), trace.metric("cenq", received(h), trace.horizon) or 0, 0.06)
    for leaf in range(leaves):
        for s in range(spines):
            for a, b, shift in (
                (f"leaf{leaf + 1}", f"spine{s + 1}", -0.06),
                (f"spine{s + 1}", f"leaf{leaf + 1}", 0.06),
            ):
                wire(a, b, trace.metric("cenq", f"{a}_{b}", trace.horizon) or 0, shift)
    for name, (x, y) in places.items():
        colour = {host(0): "#0072B2", host(hosts - 1): "#CC79A7"}.get(name, "white")
        box = {"boxstyle": "round", "facecolor": colour, "edgecolor": "#444444"}
        axis.text(x, y, name, ha="center", va="center", fontsize=8, bbox=box, zorder=4)
    axis.set_ylim(-0.3, 2.3)
    return figure


PREDICTION_COLOURS = {"must lose": "#D55E00", "may lose": "#CC79A7", "cannot lose": "#0072B2"}


def draw_packet_runs(runs: pd.DataFrame) -> Figure:
    """Packets received step by step: the packet world's networks as lines, the model's replays as circles."""
    figure, axis = new_figure("The synthesised input in the packet world", "step", "packets received")
    steps = np.arange(1, runs["time_step"].max() + 1)
    axis.plot(steps, np.maximum(0, steps - 3), color=PUBLISHED_GREY, linewidth=7, alpha=0.4, label="line rate")
    axis.axhline(len(steps) // 2 - 1, color="#444444", linestyle=":", label="query: no more than this at the end")
    for prediction, group in runs.groupby("prediction", sort=False):
        colour = PREDICTION_COLOURS[str(prediction)]
        by_step = group.groupby("time_step")[["received_packets", "model_packets"]]
        least, most = by_step.min(), by_step.max()
        label = f"solver: {prediction} ({group['run'].nunique()} networks)"
        axis.fill_between(steps, least["received_packets"], most["received_packets"], color=colour, alpha=0.25)
        axis.plot(steps, by_step.mean()["received_packets"], color=colour, label=label)
        for side in (least, most):
            axis.plot(steps, side["model_packets"], linestyle="none", marker="o", fillstyle="none", color=colour)
    axis.plot([], [], linestyle="none", marker="o", fillstyle="none", color="#444444", label="model, least and most")
    axis.set_xticks(steps)
    axis.legend(fontsize=8, loc="upper left")
    return figure


def draw_spread(spread: pd.DataFrame) -> Figure:
    """Each run's work over the median of its horizon's changed runs; the class report's difference as a band."""
    reported = load_claims("fperf_leaf_spine").claim("seeds-explain-15-percent").class_report - 1
    figure, axis = new_figure("The same question, asked differently", "what was changed", "solver's steps / median")
    label = f"class report: {100 * reported:.0f} %"
    axis.axhspan(1 - reported, 1 + reported, color=PUBLISHED_GREY, alpha=0.25, label=label)
    names, horizons = list(spread["mutation"].unique()), list(spread["horizon_steps"].unique())
    for row, horizon in enumerate(horizons):
        own = spread[spread["horizon_steps"] == horizon]
        ratio = own["solver_steps"] / own.loc[own["mutation"] != "none", "solver_steps"].median()
        place = own["mutation"].map(names.index) + 0.2 * (row - (len(horizons) - 1) / 2)
        axis.plot(place, ratio, linestyle="none", marker="os^Dv"[row % 5], alpha=0.6, label=f"{horizon} steps")
    axis.set_xticks(range(len(names)), names)
    axis.legend()
    return figure


# --- for the verdicts and for play ---


def answer(answers: pd.DataFrame, cases: pd.DataFrame, fits: pd.DataFrame) -> str:
    """The paper's question answered in one sentence, from `without_base_workload`, `synthesise_all`, `fit_growth`."""
    found = answers.set_index("question")["with_base"]["fewer than half is received"]
    words = {"sat": "can receive", "unsat": "cannot receive"}.get(found, "could not be shown to receive")
    proven = int((cases["status"] == "proven").sum())
    growth = fits.set_index("task").loc["base example", "factor_per_host"]
    return (
        f"Host 6 {words} less than half of its line although no two hosts share a destination; "
        f"{proven} of {len(cases)} case studies have a proven workload; time grows {growth:.2f} times a host."
    )


def measured_claims(
    times: pd.DataFrame,
    fits: pd.DataFrame,
    cases: pd.DataFrame,
    spread: pd.DataFrame,
    answers: pd.DataFrame,
    flat_times: pd.DataFrame,
    packets: pd.DataFrame,
) -> list[Measured]:
    """What was measured, per claim of data/fperf_leaf_spine/claims.yaml.

    `answers` is `without_base_workload()`, `flat_times` is `measure_flat_times(...)`,
    `packets` is `packet_runs(...)`; the others as named.
    """

    def is_so(*facts: bool) -> list[float]:
        return [float(all(facts))]

    case = cases.set_index("case")
    found = [
        Measured(
            claim=claim,
            values=is_so(case.loc[name, "status"] == "proven"),
            exact=True,
            control=is_so(case.loc[name, "control_status"] != "unsat"),
        )
        for claim, name in [
            ("starvation-strict-priority", "strict priority"),
            ("unfair-round-robin", "round robin"),
            ("thin-flow-fq-codel", "FQ-CoDel"),
            ("unfair-loom", "Loom"),
            ("latency-leaf-spine", "leaf-spine"),
        ]
    ]
    verdict = answers.set_index("question")

    def base_decides(question: str) -> list[float]:
        return is_so(verdict.loc[question, "with_base"] == "unsat", verdict.loc[question, "without_base"] == "sat")

    found.append(
        Measured(
            claim="half-line-rate",
            values=is_so(verdict.loc["fewer than half is received", "with_base"] == "sat"),
            exact=True,
            control=is_so(
                verdict.loc["fewer than half is received though the other hosts are silent", "with_base"] == "sat"
            ),
        )
    )
    found.append(
        Measured(
            claim="base-workload-matters",
            values=base_decides("nothing at all is received"),
            exact=True,
            control=base_decides("nothing at all is received, host 1 being free to be silent"),
        )
    )
    found.append(
        Measured(
            claim="exponential-growth",
            values=exponential_shares(times),
            control=exponential_shares(flat_times, by="size"),
        )
    )
    found.append(
        Measured(
            claim="packets-lose-too",
            values=[share_that_lost(packets, "must lose")],
            exact=True,
            control=[share_that_lost(packets, "cannot lose")],
        )
    )
    found.append(_measured_spread(spread))
    return found


def _measured_spread(spread: pd.DataFrame) -> Measured:
    """By what factor the solver's work differs from its median, on the longest horizon's formula.

    One median for seeds and orders together: who asks the same elsewhere changes both. The control is the same of a
    formula of two time steps, which leaves little to search; without it the claim has none.
    """
    changed = spread[spread["mutation"] != "none"]
    differ = {
        horizon: list(1 + (steps / steps.median() - 1).abs())
        for horizon, steps in changed.groupby("horizon_steps")["solver_steps"]
    }
    return Measured(claim="seeds-explain-15-percent", values=differ[max(differ)], control=differ.get(NO_SEARCH))


def exponential_shares(times: pd.DataFrame, task: str = "base example", by: str = "hosts") -> list[float]:
    """Per seed: 1.0 if the task's time grows (by half at least) and an exponential is nearer than a line,
    else 0.0.

    `by` is the column of sizes; names count as 0, 1, 2, ... in the order of the table. Both fits are least
    squares with two parameters, the exponential's on log seconds; nearness is judged on seconds.
    """
    own = _known_times(times[times["task"] == task])
    shares = []
    for _, group in own.groupby("seed"):
        sizes = group[by].to_numpy(float) if by == "hosts" else np.arange(len(group), dtype=float)
        seconds = group["cpu_s"].to_numpy(float)
        if len(set(sizes)) < 3:
            continue
        line = np.polyval(np.polyfit(sizes, seconds, 1), sizes)
        curve = np.exp(np.polyval(np.polyfit(sizes, np.log(seconds), 1), sizes))
        is_nearer = ((seconds - curve) ** 2).sum() < ((seconds - line) ** 2).sum()
        shares.append(float(is_nearer and seconds[-1] >= 1.5 * seconds[0]))
    return shares


def measure_flat_times(scale: Scale, seeds: Sequence[int], clock: Clock) -> pd.DataFrame:
    """The negative control of growth: the same network under larger and larger host queues, beyond the
    horizon.

    The question does not grow, so neither may the time. Columns as `TIME_COLUMNS`; `hosts` stays.
    """
    work = [(scale.sizes[0], scale.horizon, seed, packets, clock) for seed in seeds for packets in (40, 400, 4000)]
    return pd.DataFrame(in_processes(_timed_capacity, work), columns=TIME_COLUMNS)


def _timed_capacity(size: Size, horizon: int, seed: int, capacity: int, clock: Clock) -> tuple[Any, ...]:
    spines, leaves, hosts = size
    start = clock()
    point = leaf_spine(spines, leaves, hosts // leaves, horizon, queue_capacity=capacity)
    query, base = throughput_query(point, hosts - 1), base_workload(point, hosts - 1)
    example = base_example(Analysis(point, query, base, seed=seed, shuffle=seed))
    status = "optimal" if example.is_optimal else "unknown"
    name = f"{size_name(size)}, {capacity} packets"
    return name, hosts, horizon, "circuit", seed, "base example", clock() - start, status


def explore() -> Any:
    """A panel: choose the network, the horizon and the threshold; see whether the victim can starve."""
    import ipywidgets
    from IPython.display import display

    def ask(spines: int, leaves: int, hosts_per_leaf: int, horizon: int, at_most_packets: int) -> None:
        point = leaf_spine(spines, leaves, hosts_per_leaf, horizon)
        victim = leaves * hosts_per_leaf - 1
        query = Query("forall", (horizon, horizon), received(victim), "cenq", "<=", at_most_packets)
        answer = Analysis(point, query, base_workload(point, victim), timeout_s=30).satisfy_query()
        if answer.trace is None:
            display(f"{answer.status}: {query}")
        else:
            display(draw_counterexample(answer.trace, (spines, leaves, victim + 1)))

    slider = ipywidgets.IntSlider
    return ipywidgets.interactive(
        ask,
        {"manual": True, "manual_name": "ask"},
        spines=slider(2, 1, 4),
        leaves=slider(3, 2, 5),
        hosts_per_leaf=slider(2, 1, 3),
        horizon=slider(10, 4, 12),
        at_most_packets=slider(4, 0, 8),
    )


def formula_sizes(scale: Scale) -> pd.DataFrame:
    """Columns: size, gates (of the whole model), variables (of the clauses that the question needs)."""
    rows = []
    for size in scale.sizes:
        analysis = throughput_analysis(size, scale.horizon)
        analysis.satisfy_query()
        encoding = analysis.encoded
        assert isinstance(encoding, CircuitEncoding)
        rows.append((size_name(size), encoding.circuit.gate_count, encoding.circuit.variable_count))
    return pd.DataFrame(rows, columns=["size", "gates", "variables"])
