"""EPaxos Revisited (Tollman, Park and Ousterhout, NSDI 2021), Fig. 7: the load, the claims and their controls."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.errors import NetreproError
from netrepro.networks.zipf import exact_ranks, gray_ranks, zeta
from netrepro.papers import epaxos_revisited as paper
from netrepro.papers.epaxos_revisited import figures, readings, setting, study
from netrepro.simulation.replication import simulate_replication
from netrepro.study import SIMULATED, VIRTUAL, OneRun, Reading, Runs, measure, points, vary

PRINTED = paper.Setting()


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, profile="test", repetitions=1, seed=5)


def settings_of(kind: str, **changed) -> dict[str, paper.Setting]:
    """Settings by case."""
    cases = {name: changes for name, changes in paper.STUDY.cases.items() if changes.get("kind") == kind}
    return {point.case: replace(point.setting, **changed) for point in points(cases, PRINTED)}


def read_all(settings: dict[str, paper.Setting], tier: str) -> dict[str, Reading]:
    """Readings by case, of one repetition."""
    work = [OneRun(each, 1.0, (1, 0), tier) for each in settings.values()]
    return dict(zip(settings, readings.measure_all(work, iter), strict=True))


def test_a_run_that_is_not_linearizable_would_be_noticed():
    own = replace(PRINTED, theta=0.99, writes=0.5)
    run = simulate_replication(setting.deployment(own, 1), setting.demand(own, 1.0, 1))
    after = readings.settled(run, 0.2)
    assert all(check.holds for check in readings.checks_of(run, own, after))
    seen = run.commands.copy()
    reads = seen[~seen.is_write & (seen.value >= 0)]
    first = reads.sort_values("sent_s").groupby("key").value.first()
    late = reads.groupby("key").sent_s.idxmax()  # the last read of each key sees the first value again
    seen.loc[late, "value"] = first.reindex(reads.loc[late].key).to_numpy()
    broken = readings.checks_of(replace(run, commands=seen), own, after)
    assert [check.name for check in broken if not check.holds] == ["keys that are not linearizable"]


# Real processes.


@needs_virtual
def test_real_processes_take_as_long_as_the_simulator_says_command_by_command():
    asked = settings_of("light", clients_per_region=2, light_s=0.9)
    readings_of = {tier: read_all(asked, tier) for tier in (VIRTUAL, SIMULATED)}
    for name, reading in readings_of[VIRTUAL].items():
        assert all(check.holds for check in reading.checks), reading.checks
        # Where two commands meet at the same moment, either may come first.
        ours, theirs = (of[name]["commands"].set_index("command").ms for of in readings_of.values())
        assert len(ours) == pytest.approx(len(theirs), rel=0.05)
        assert ((ours - theirs).abs() < readings.SAME_MS).mean() > (0.85 if "0.99" in name else 0.95)


@needs_virtual
def test_the_least_latencies_of_real_processes_are_exact_to_microseconds():
    idle = read_all(settings_of("idle"), VIRTUAL)
    table = pd.concat([reading["regions"] for reading in idle.values()])
    assert (table.least_ms >= table.must_ms).all()
    assert (table.least_ms - table.must_ms).max() < 0.2  # a place of Multi-Paxos' log may wait for the one before
    assert (table.least_ms - table.must_ms).median() < 0.003


def test_without_real_processes_the_figure_says_so(runs):
    assert paper.process_table(runs).empty
    said = [text.get_text() for axis in figures.draw_processes(runs).axes for text in axis.texts]
    assert said == ["not measured on the virtual tier"] * 4


def test_of_real_processes_no_claim_is_judged():
    real = set(settings_of("idle")) | set(settings_of("light"))
    for claim, evidence in paper.STUDY.claims.items():
        assert not set(evidence.case_names) & real, claim
    assert all(paper.STUDY.cannot(point.setting, VIRTUAL) for point in points({"multi": study.MULTI_PAXOS}, PRINTED))


# The setting.


def test_the_delay_matrix_gives_all_four_published_minima():
    """The authors' base latencies; TOQ of all five was published, too, and rounded to whole milliseconds."""
    published = figures.PUBLISHED_MINIMA | {"EPaxos, TOQ of all": (100, 105, 94, 159, 175)}
    idle = read_all(settings_of("idle"), SIMULATED)
    for scheme, least in published.items():
        table = idle[f"idle, {scheme}"]["regions"].set_index("region").loc[list(setting.REGIONS)]
        assert table.least_ms.to_numpy() == pytest.approx(table.must_ms.to_numpy())
        assert table.least_ms.to_numpy() == pytest.approx(least, abs=1.0)


def test_the_two_free_round_trips_do_not_move_the_published_minima_within_their_bounds():
    trips = np.array(setting.round_trips())
    for virginia_london, oregon_japan in ((64, 59), (64, 98), (129, 59), (129, 98)):
        other = trips.copy()
        other[1, 4] = other[4, 1] = virginia_london
        other[2, 3] = other[3, 2] = oregon_japan
        where = setting.deployment(replace(PRINTED, jitter_ms=0), 1)
        least = replace(where, round_trips_ms=tuple(map(tuple, other))).minimum_ms()
        assert least == pytest.approx([64, 64, 59, 98, 129])


def test_the_cost_of_a_message_keeps_the_leader_four_fifths_busy():
    own = replace(PRINTED, protocol="multi-paxos", settle_s=0.8)
    run = simulate_replication(setting.deployment(own, 5), setting.demand(own, 2.2, 5), 5)
    assert dict(zip(setting.REGIONS, run.busy_share, strict=True))["CA"] == pytest.approx(0.8, abs=0.06)
    cycles_s = [late_s + 0.005 for late_s in (0.064, 0.128, 0.090, 0.162, 0.201)]  # a free place is noticed late
    assert sum(100 / each for each in cycles_s) * 5 * 38e-6 == pytest.approx(0.8, abs=0.03)


def test_the_paper_profile_has_both_readings_of_the_99_cells():
    wanted = points({"grid": paper.STUDY.cases["grid"]}, PRINTED, paper.STUDY.scale("paper"))
    cells = {(point.setting.theta, point.setting.writes) for point in wanted}
    released = list(product(setting.SKEWS_AS_RELEASED, setting.WRITES_AS_RELEASED))
    of_the_class = list(product(setting.SKEWS_OF_THE_CLASS, setting.WRITES_OF_THE_CLASS))
    assert len(released) == len(of_the_class) == 99 and cells == {*released, *of_the_class}


def test_every_profile_runs_every_case():
    for profile in paper.STUDY.profiles:
        wanted = points(paper.STUDY.cases, PRINTED, paper.STUDY.scale(profile))
        assert {point.case for point in wanted} == set(paper.STUDY.cases)


# Keys.


@pytest.mark.parametrize(("theta", "hot", "squares"), [(0.6, 0.16, 1.3e-5), (0.8, 1.34, 4.1e-4), (0.99, 6.50, 7.0e-3)])
def test_the_most_popular_of_a_million_keys_has_its_share_by_zipfs_law(theta, hot, squares):
    shares = np.arange(1, 10**6 + 1) ** -theta / zeta(10**6, theta)
    assert 100 * shares[0] == pytest.approx(hot, abs=0.006)
    assert (shares**2).sum() == pytest.approx(squares, rel=0.05)
    uniform = np.random.default_rng(1).random(400_000)
    for ranks in (gray_ranks(uniform, 10**6, theta), exact_ranks(uniform, 10**6, theta)):
        counts = Counter(ranks[ranks < 2].tolist())
        for rank in (0, 1):
            expected = len(uniform) * shares[rank]
            assert abs(counts[rank] - expected) < 4 * np.sqrt(expected)
        assert ranks.min() >= 0 and ranks.max() < 10**6


def test_grays_generator_is_near_the_law_beyond_the_two_exact_keys():
    uniform = np.linspace(0, 1, 200_001)[:-1]
    gray, exact = gray_ranks(uniform, 1000, 0.9), exact_ranks(uniform, 1000, 0.9)
    for first, last in pairwise((0, 10, 100, 1000)):
        mine, law = (np.mean((ranks >= first) & (ranks < last)) for ranks in (gray, exact))
        assert mine == pytest.approx(law, abs=0.03)


def test_zeta_of_a_thousand_million_keys_agrees_with_known_values():
    assert zeta(10**9, 1.0) == pytest.approx(np.log(10**9) + 0.5772156649015329 + 0.5e-9, rel=1e-12)
    assert 100 / zeta(10**9, 0.99) == pytest.approx(4.24, abs=0.005)
    assert zeta(3, 0.5) == pytest.approx(1 + 2**-0.5 + 3**-0.5)


def test_at_skew_1_grays_generator_gives_a_number_that_is_no_key():
    """IEEE arithmetic: 1 / (1 - theta) is infinite, and 1 to that power is 1."""
    ranks = gray_ranks(np.random.default_rng(1).random(100_000), 10**9, 1.0)
    expected = 1 - 1.5 / zeta(10**9, 1.0)
    assert (ranks == 10**9).mean() == pytest.approx(expected, abs=0.003) and 1 / zeta(10**9, 1.0) < 0.05
    for wrong in (1.2, -0.1):
        with pytest.raises(NetreproError, match="theta"):
            gray_ranks(np.array([0.5]), 10, wrong)
    with pytest.raises(NetreproError, match="million"):
        exact_ranks(np.array([0.5]), 10**9, 1.0)


def test_own_keys_are_shared_by_no_two_clients_and_the_load_is_poisson():
    some = setting.demand(replace(PRINTED, own_keys=True), 5.0, 3)
    owners = {}
    for key, client in zip(some.keys.tolist(), some.clients.tolist(), strict=True):
        assert owners.setdefault(key, client) == client
    assert len(some.keys) == pytest.approx(50 * 5.0 / 0.0045, rel=0.02)
    assert some.arrivals_s.max() < 5.0 and set(some.regions) == set(setting.REGIONS)


@pytest.mark.parametrize("wrong", [{"cap": 0}, {"arrival_ms": 0}, {"clients_per_region": 0}, {"keys": 1}])
def test_an_impossible_load_is_refused(wrong):
    with pytest.raises(NetreproError, match=re.escape(next(iter(wrong)))):
        measure(paper.STUDY, replace(PRINTED, **wrong), profile="test", repetitions=1)


# What the class ran.


def test_the_class_could_see_no_conflicts_but_waits_where_all_regions_run():
    """Three replicas: no conflict is possible; one region at a time: not even a wait."""
    table = paper.class_cases(PRINTED, "test", 1)
    epaxos = table.xs("epaxos", level="protocol")
    assert (epaxos.loc[["one region at a time", "all three at once"]].conflicts == 0).all()
    alone, together = (epaxos.loc[(case, "OR"), "p99_ms"] for case in ("one region at a time", "all three at once"))
    leader = table.loc[("all three at once", "multi-paxos", "OR"), "p99_ms"]
    assert alone < 63 and together > 1.5 * leader


def test_without_a_cap_the_leader_is_overloaded_and_answers_come_later_and_later():
    table = paper.class_cases(PRINTED, "test", 1).loc["five regions, no cap"]
    assert table.loc[("multi-paxos", "CA"), "busiest"] > 0.95
    assert table.loc[("multi-paxos", "CA"), "mean_ms"] > 5 * table.loc[("epaxos", "CA"), "mean_ms"]


# Knobs.


def test_a_leader_in_oregon_is_better_and_clocks_that_are_apart_bring_conflicts_back(runs):
    least = vary(runs, "leader").query("case == 'Multi-Paxos'").set_index("leader").mean_ms
    assert least["OR"] < least["CA"] < least["EU"]
    clocks = vary(runs, "clocks")
    held = clocks[clocks.case == "TOQ quorum"].set_index("clock_error_ms").conflicts
    assert held[0] < held[100]


def test_switch_by_switch_a_few_hot_keys_hurt_only_under_load():
    """Multi-Paxos has no conflicts, whatever the keys; EPaxos has none without a hot key, and many where all use it."""
    table = paper.switch_by_switch(paper.Setting(), 1).droplevel("now")
    assert len(table) == 2 * (4 * 3 + 3)
    assert (table.xs("Multi-Paxos", level="protocol").conflicts == 0).all()
    ours = table.xs("EPaxos", level="protocol")
    assert (ours.xs("0%", level="hot key").conflicts == 0).all()
    assert (ours.xs("100%", level="hot key").conflicts > 0.3).all()
    assert ours.loc[("load", "2%"), "p99_ms"] > 1.5 * ours.loc[("operation schedule", "2%"), "p99_ms"]
    assert ours.loc[("load", "0%"), "busiest"] > 10 * ours.loc[("configuration", "0%"), "busiest"]
    axis = paper.draw_switches(table.assign(now="").set_index("now", append=True).reorder_levels([0, 3, 1, 2])).axes[0]
    assert len(axis.get_xticks()) == 15
