"""Small contention points of every kind, and random questions about them."""

from __future__ import annotations

import random

from netrepro.verification.leaf_spine import Forwarder, leaf_spine
from netrepro.verification.loom import TenantQueues, loom
from netrepro.verification.points import ContentionPoint
from netrepro.verification.queues import Queue
from netrepro.verification.schedulers import scheduler_point
from netrepro.verification.shapers import Lossy, TokenBucket, delay_line
from netrepro.verification.workloads import (
    Comp,
    Difference,
    Line,
    Metric,
    Query,
    Same,
    Spec,
    Steps,
    Term,
    TimedSpec,
    Uniq,
    Workload,
)

SMALL_QUEUE = {"capacity": 3, "max_enqueue": 2}


def small_points(horizon: int = 5) -> dict[str, ContentionPoint]:
    return {
        "fifo": scheduler_point("fifo", 1, horizon, queue=SMALL_QUEUE),
        "priority": scheduler_point("strict_priority", 3, horizon, queue=SMALL_QUEUE),
        "round robin": scheduler_point("round_robin", 3, horizon, queue=SMALL_QUEUE),
        "weighted": scheduler_point("weighted_round_robin", 3, horizon, queue=SMALL_QUEUE, weights=[1, 3, 2]),
        "flow queue": scheduler_point("flow_queue", 3, horizon, queue=SMALL_QUEUE),
        "flow queue, fixed": scheduler_point("flow_queue", 3, horizon, queue=SMALL_QUEUE, is_fixed=True),
        "flow queue, any order": scheduler_point("flow_queue", 3, horizon, queue=SMALL_QUEUE, any_order=True),
        "token bucket": ContentionPoint(
            "token bucket",
            horizon,
            [TokenBucket("tbf", Queue("q0", 4, 4, 3), Queue("out", 10, 3, 2), rate=2, max_tokens=3)],
        ),
        "slow token bucket": ContentionPoint(
            "slow token bucket",
            horizon,
            [TokenBucket("tbf", Queue("q0", 4, 4, 2), Queue("out", 10, 2, 2), rate=1, max_tokens=2, every=2)],
        ),
        "lossy, then delayed": ContentionPoint(
            "lossy, then delayed",
            horizon,
            [
                Lossy("lossy", Queue("q0", 3, 3, 2), Queue("middle", 2, 2, 2)),
                *delay_line("delay", Queue("middle", 2, 2, 2), Queue("out", 10, 2, 1), 2),
            ],
            destinations=3,
            paths=2,
        ),
        "loom": loom(2, horizon, queue_capacity=3, max_enqueue=2),
        "three places for two flows": ContentionPoint(
            "three places for two flows",
            horizon,
            [
                TenantQueues(
                    "in turn",
                    [Queue("a", 4, 3, 3), Queue("b", 4, 3, 3)],
                    [Queue("both", 4, 3, 2)],
                    [(0, 1)],
                )
            ],
            destinations=3,
            paths=2,
            sends_to={"a": [0, 2], "b": [1]},
        ),
        "two destinations, one path": ContentionPoint(
            "two destinations, one path",
            horizon,
            [
                Forwarder(
                    "by destination",
                    [Queue("in", 3, 2, 1)],
                    [Queue("left"), Queue("right")],
                    [(frozenset([0]), None), (frozenset([1]), None)],
                )
            ],
            destinations=2,
        ),
        "leaf-spine": leaf_spine(2, 2, 2, horizon, queue_capacity=2, max_enqueue=2),
    }


POINTS = small_points()


def random_spec(dice: random.Random, point: ContentionPoint) -> Spec:
    queues = point.inputs
    metric = dice.choice(list(Metric) if point.destinations > 1 else [m for m in Metric if m not in ("dst", "ecmp")])
    kind = dice.choice(["comp", "comp", "comp", "same", "steps", "uniq"])
    if kind == "same":
        return Same(metric, dice.choice(queues), original=dice.random() < 0.3)
    if kind == "steps":
        return Steps(metric, dice.choice(queues), rising=dice.random() < 0.5)
    if kind == "uniq" and len(queues) > 1:
        return Uniq(metric, tuple(dice.sample(queues, dice.randint(2, len(queues)))))
    left = Term(metric, tuple(dice.sample(queues, dice.randint(1, min(2, len(queues))))))
    sign = dice.choice([">", ">=", "<", "<=", "="])
    if dice.random() < 0.3:
        return Comp(left, sign, Term(metric, (dice.choice(queues),)))
    return Comp(left, sign, Line(dice.choice([0, 0, 1, 2]), dice.randint(0, 3)))


def random_workload(dice: random.Random, point: ContentionPoint, specs: int) -> Workload:
    found = []
    for _ in range(specs):
        first = dice.randint(1, point.horizon)
        found.append(TimedSpec(random_spec(dice, point), first, dice.randint(first, point.horizon)))
    return Workload(tuple(found))


def random_query(dice: random.Random, point: ContentionPoint) -> Query:
    queues = list(point.queues)
    metric = dice.choice(["cenq", "cdeq", "deq", "cblocked", "qsize", "aipg"])
    lhs: Term | Difference = Term(Metric(metric), tuple(dice.sample(queues, min(2, len(queues)))))
    if len(queues) > 1 and dice.random() < 0.4:
        lhs = Difference(Metric(metric), *dice.sample(queues, 2))
    first = dice.randint(1, point.horizon)
    time_range = (first, dice.randint(first, point.horizon))
    sign = dice.choice([">", ">=", "<", "<=", "="])
    return Query(dice.choice(["exists", "forall"]), time_range, lhs, metric, sign, dice.randint(-1, 4))
