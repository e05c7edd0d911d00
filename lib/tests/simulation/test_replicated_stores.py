"""A replicated store in virtual time: the C++ core against the readable machines, safety, and closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.protocols.linearizability import violations
from netrepro.simulation.replication import Demand, Deployment, drive_replication, simulate_replication

NAMES = ("a", "b", "c", "d", "e")
COLUMNS = ["sent_s", "committed_s", "answered_s", "is_fast", "value"]


def distances(seed: int, size: int = 5) -> tuple[tuple[float, ...], ...]:
    """Round trips without ties: messages that arrive in the same instant may be handled in either order."""
    some = np.triu(np.random.default_rng(seed).uniform(10, 200, (size, size)), 1)
    return tuple(map(tuple, some + some.T))


def wanted(seed: int, *, seconds: float = 0.6, keys: int = 3, writes: float = 0.5, clients: int = 10, cap: int = 3):
    random = np.random.default_rng(seed)
    each = 40
    arrivals = random.exponential(0.02, (clients, each)).cumsum(axis=1).ravel()
    owners = np.repeat(np.arange(clients), each)
    where = tuple(NAMES[i % 5] for i in range(clients))
    drawn = random.integers(keys, size=len(arrivals))
    return Demand(arrivals, owners, drawn, random.random(len(arrivals)) < writes, where, cap, seconds)


def is_safe(run) -> bool:
    return not len(violations(run.commands)) and not run.unlike_keys and not run.unexecuted


CASES = {
    "EPaxos": {},
    "EPaxos without the chain fix": {"chain_fix": False},
    "EPaxos without the fast path": {"fast_path": False},
    "TOQ": {"toq": "quorum", "toq_margin_ms": 1.5},
    "TOQ with clocks apart": {"toq": "union", "clock_errors_ms": (30.0, -50.0, 0.0, 80.0, -20.0)},
    "TOQ of all without the fix": {"toq": "all", "chain_fix": False},
    "Multi-Paxos": {"protocol": "multi-paxos", "leader": "c"},
}
LATE = {
    "EPaxos that looks for what to execute": {"execution_interval_ms": 7.0},
    "Multi-Paxos that looks for what to execute": {"protocol": "multi-paxos", "execution_interval_ms": 7.0},
}


@pytest.mark.parametrize("case", CASES | LATE)
@pytest.mark.parametrize("cost_us", [0.0, 200.0])
def test_the_core_does_the_same_as_the_machines_command_by_command(case, cost_us):
    for seed in range(2):
        where = Deployment(NAMES, distances(seed), message_cost_us=cost_us, **(CASES | LATE)[case])
        quick, plain = simulate_replication(where, wanted(seed)), drive_replication(where, wanted(seed))
        np.testing.assert_allclose(
            quick.commands[COLUMNS].to_numpy(float), plain.commands[COLUMNS].to_numpy(float), atol=1e-9
        )
        assert is_safe(quick) and is_safe(plain) and len(quick.commands) > 50
        share = quick.commands.is_fast.mean()
        if where.toq == "all" or where.protocol == "multi-paxos":
            assert share == 1  # with TOQ of all, all look at the same moment
        else:
            assert share == 0 if not where.fast_path else 0 < share < 1


@pytest.mark.parametrize("cost_us", [0.0, 200.0])
def test_clients_that_look_at_arrivals_do_the_same_in_the_core_and_as_machines(cost_us):
    where = Deployment(NAMES, distances(3), message_cost_us=cost_us)
    load = replace(wanted(3), looks_at_arrivals=True)
    quick, plain = simulate_replication(where, load), drive_replication(where, load)
    np.testing.assert_allclose(
        quick.commands[COLUMNS].to_numpy(float), plain.commands[COLUMNS].to_numpy(float), atol=1e-9
    )
    # Each command is sent at an arrival of its client, and never more than the cap are under way.
    for client, rows in quick.commands.groupby("client"):
        arrivals = load.arrivals_s[load.clients == client]
        assert np.isin(rows.sent_s, arrivals).all()
        under_way = [((rows.sent_s <= at) & (rows.answered_s > at)).sum() for at in rows.sent_s]
        assert max(under_way) <= load.cap
    at_once = simulate_replication(where, replace(load, looks_at_arrivals=False))
    assert len(at_once.commands) > len(quick.commands) > 50


def test_answers_leave_when_the_replica_looks_for_what_it_can_execute():
    """Seven milliseconds apart: an answer comes up to 7 ms later than at once, and at a multiple at its replica."""
    where, load = Deployment(NAMES, distances(4)), wanted(4, clients=5, cap=1)
    late = simulate_replication(replace(where, execution_interval_ms=7.0), load)
    looks = late.commands.answered_s / 7e-3  # clients are where their replicas are
    assert np.abs(looks - looks.round()).max() < 1e-6 and is_safe(late)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    keys=st.integers(1, 4),
    writes=st.sampled_from([0.1, 0.5, 1.0]),
    cap=st.integers(1, 10),
    chain_fix=st.booleans(),
    toq=st.sampled_from(["none", "quorum", "union", "all"]),
    apart_ms=st.sampled_from([0.0, 5.0, 300.0]),
    jitter_ms=st.sampled_from([0.0, 1.0, 50.0]),
    cost_us=st.sampled_from([0.0, 500.0]),
)
def test_epaxos_is_linearizable_and_orders_writes_alike_whatever_the_network(
    seed, keys, writes, cap, chain_fix, toq, apart_ms, jitter_ms, cost_us
):
    errors = tuple(np.random.default_rng(seed).uniform(-apart_ms / 2, apart_ms / 2, 5))
    where = Deployment(NAMES, distances(seed), chain_fix=chain_fix, toq=toq, clock_errors_ms=errors,
                       jitter_ms=jitter_ms, message_cost_us=cost_us)  # fmt: skip
    assert is_safe(simulate_replication(where, wanted(seed, keys=keys, writes=writes, cap=cap), seed))


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), jitter_ms=st.sampled_from([0.0, 50.0]), leader=st.sampled_from(NAMES))
def test_multi_paxos_is_linearizable_and_orders_writes_alike(seed, jitter_ms, leader):
    where = Deployment(NAMES, distances(seed), "multi-paxos", leader, jitter_ms=jitter_ms)
    assert is_safe(simulate_replication(where, wanted(seed), seed))


@pytest.mark.parametrize("case", CASES)
def test_without_load_and_shared_keys_latency_is_what_arithmetic_says(case):
    where = replace(Deployment(NAMES, distances(4), **CASES[case]), clock_errors_ms=(), toq_margin_ms=0.0)
    alone = replace(wanted(1, seconds=3.0, clients=5, cap=1), keys=np.repeat(np.arange(5), 40))
    rows = simulate_replication(where, alone).commands
    latency = 1e3 * (rows.answered_s - rows.sent_s)
    assert latency.groupby(rows.region).min().to_numpy() == pytest.approx(where.minimum_ms())
    if where.protocol == "multi-paxos":
        assert latency.groupby(rows.region).max().to_numpy() == pytest.approx(where.minimum_ms())


def test_keys_do_not_matter_to_multi_paxos():
    where = Deployment(NAMES, distances(2), "multi-paxos", message_cost_us=100.0)
    one, many = (simulate_replication(where, wanted(3, keys=keys)).commands for keys in (1, 1000))
    assert (one.answered_s == many.answered_s).all()


def test_with_three_replicas_the_first_answer_is_a_majority_and_no_conflict_is_possible():
    where = Deployment(NAMES[:3], distances(1, 3))
    some = replace(wanted(1, keys=1, writes=1.0), regions=("a", "b", "c", "a", "b", "c", "a", "b", "c", "a"))
    run = simulate_replication(where, some)
    assert run.commands.is_fast.all() and is_safe(run)


def test_a_run_without_reads_and_writes_that_meet_has_only_the_fast_path_and_reads_alone_too():
    where = Deployment(NAMES, distances(5))
    assert simulate_replication(where, wanted(1, keys=1, writes=0.0)).commands.is_fast.all()
    apart = replace(wanted(1), keys=np.arange(400))
    assert simulate_replication(where, apart).commands.is_fast.all()


def test_equal_seeds_give_equal_runs_and_others_other_ones():
    where = Deployment(NAMES, distances(5), jitter_ms=3.0)
    first, again, other = (simulate_replication(where, wanted(1), seed).commands for seed in (1, 1, 2))
    assert first.equals(again) and not first.answered_s.equals(other.answered_s)


def test_processors_are_busy_for_their_messages():
    where = Deployment(NAMES, distances(5), "multi-paxos", message_cost_us=100.0)
    run = simulate_replication(where, wanted(1))
    busy_s = run.busy_share * run.commands.answered_s.max()
    assert busy_s == pytest.approx(len(run.commands) * 1e-4 * np.array([5, 2, 2, 2, 2]))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"protocol": "raft"}, "raft"),
        ({"toq": "quorums"}, "quorum"),
        ({"leader": "z"}, "'z'"),
        ({"regions": NAMES[:4]}, "3 or 5"),
        ({"round_trips_ms": distances(1, 3)}, "symmetric"),
        ({"clock_errors_ms": (1.0,)}, "clock errors"),
        ({"jitter_ms": -1.0}, "negative"),
    ],
)
def test_a_deployment_that_cannot_be_is_refused_by_name(given, named):
    with pytest.raises(NetreproError, match=named):
        Deployment(**({"regions": NAMES, "round_trips_ms": distances(1)} | given))


def test_a_demand_that_cannot_be_is_refused():
    some = wanted(1)
    for wrong in ({"cap": 0}, {"keys": some.keys[1:]}, {"clients": some.clients[::-1]}):
        with pytest.raises(NetreproError):
            replace(some, **wrong)
    with pytest.raises(NetreproError, match="'z'"):
        simulate_replication(Deployment(NAMES, distances(1)), replace(some, regions=("z",) * 10))
    with pytest.raises(NetreproError, match="jitter"):
        drive_replication(Deployment(NAMES, distances(1), jitter_ms=1.0), some)
