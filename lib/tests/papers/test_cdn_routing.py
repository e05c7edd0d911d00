"""CDN routing (IMC 2022, Fig. 2): failures of sites in virtual time, what clients see, and controls that must flip."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro import backends
from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.papers import cdn_routing as paper
from netrepro.papers.cdn_routing import failures, figures, setting, study
from netrepro.protocols.bgp import arrivals
from netrepro.study import BESIDE, SIMULATED, VIRTUAL, OneRun, Runs, measure, vary

SMALL = paper.Setting(top=3, transit=30, stubs=90, watch_s=300.0)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, replace(SMALL, calibration_worlds=8), profile="test", repetitions=2, seed=1)


def times(runs: Runs, case: str) -> pd.DataFrame:
    return runs.table("times", case)


@pytest.fixture(scope="module")
def world() -> setting.World:
    return setting.make_world(SMALL, 5)


def test_a_run_whose_calibration_is_off_is_untrusted(runs):
    off = replace(SMALL, mean_delay_s=40.0)
    names = [study.ANYCAST, "reactive-anycast"]
    anycast, _ = study.measure_all(
        [OneRun(replace(off, technique=name), 0.0, (1, 0), SIMULATED) for name in names], iter
    )
    assert "anycast's median of reconnection (s)" in [check.name for check in anycast.checks if not check.holds]
    checks = runs.checks.assign(holds=False)
    claim = load_claims("cdn_routing").claims[0]
    measured = next(each for each in replace(runs, checks=checks).measured_claims() if each.claim == claim.id)
    assert judge(claim, measured, "simulated").verdict == "untrusted"


def test_without_prepends_proactive_prepending_is_anycast(runs):
    same = [times(runs, name).drop(columns="case") for name in ("anycast", "no prepends")]
    pd.testing.assert_frame_equal(*(each.reset_index(drop=True) for each in same))


def test_an_announcement_long_before_the_failure_moves_the_clients_as_anycast_does(world):
    """Then the routes just before the failure are anycast's, and a failure strikes those whom anycast brings there."""
    failed, a_moment_before = world.sites[0], np.array([-0.5])
    early, anycast = (
        failures.fail(world, technique, failed, SMALL, 0.1, 3)
        for technique in (setting.Technique(reacts_after_s=-250.0), setting.Technique(setting.SPECIFIC))
    )
    reached = [arrivals(each, setting.PREFIXES, world.clients, a_moment_before)[:, 0] for each in (early, anycast)]
    assert (reached[0] != failed).any()
    np.testing.assert_array_equal(*reached)
    assert max(time_s for changes in early.values() for time_s, *_ in changes) < SMALL.watch_s
    assert "daemons announce" in failures.cannot(replace(SMALL, reaction_s=-1.0), VIRTUAL)


def test_reconnection_never_comes_after_failover_and_everybody_is_served_again(runs):
    table = runs.tables["times"]
    assert (table.reconnection_s <= table.failover_s).all() and (table.failover_s < SMALL.watch_s).all()


def test_without_delays_only_the_links_take_time(runs):
    quick = times(runs, "reactive-anycast, no delays")
    assert quick.reconnection_s.max() < 1.5 + SMALL.ping_interval_s


def test_a_late_reaction_is_late_by_as_much(runs):
    late = times(runs, "reactive-anycast, a minute late")
    assert late.reconnection_s.min() > 60.0


def test_before_the_failure_every_answer_reaches_a_site_and_afterwards_another(world):
    stubs = world.clients
    failed = world.sites[0]
    for technique in (setting.techniques(SMALL)[name] for name in setting.PAPER):
        changes = failures.fail(world, technique, failed, SMALL, 1.0, 3)
        before, after = arrivals(changes, setting.PREFIXES, stubs, np.array([-0.5, SMALL.watch_s])).T
        assert set(before) <= set(world.sites) and set(after) <= set(world.sites) - {failed}


def test_more_prepends_keep_more_clients_at_the_site(world):
    stubs, kept = world.clients, []
    for prepends in (0, 1, 3, 6):
        technique = setting.Technique(setting.SPECIFIC, prepends)
        changes = failures.fail(world, technique, world.sites[0], SMALL, 1.0, 3)
        kept.append(int((arrivals(changes, setting.PREFIXES, stubs, np.array([-0.5])) == world.sites[0]).sum()))
    assert kept == sorted(kept) and kept[0] < kept[-1]


@given(answered=st.lists(st.booleans(), min_size=1, max_size=40))
def test_the_definitions_of_reconnection_and_failover(answered):
    row, times_s = np.array([answered]), np.arange(len(answered)) + 0.5
    first = answered.index(True) + 0.5 if any(answered) else 99.0
    assert failures.first_answer_s(row, times_s, 99.0)[0] == first
    steady = next((k for k in range(len(answered)) if all(answered[k:])), None)
    assert failures.failover_s(row, times_s, 99.0)[0] == (99.0 if steady is None else steady + 0.5)
    assert failures.consecutive_s(row, times_s, 1, 99.0)[0] == first


def test_ten_answers_in_a_row_take_as_long_as_the_closed_form_says():
    """The expected number of pings until k answers in a row is (q^-k - 1) / (1 - q), q being the share answered."""
    share, count = 0.7, 5
    answered = np.random.default_rng(1).random((4000, 400)) < share
    ends = failures.consecutive_s(answered, np.arange(400.0), count, math.nan) + count
    assert np.nanmean(ends) == pytest.approx((share**-count - 1) / (1 - share), rel=0.03)


def test_lost_answers_alone_make_the_classs_failover(runs):
    table = runs.table("definition", "reactive-anycast").set_index(["loss", "count"]).failover_s
    assert table[0.5, 10] == SMALL.watch_s and table[0.0, 10] < 100 and table[0.5, 1] < 100


def test_every_law_of_delay_has_the_mean_that_was_asked_for():
    import random

    for law in setting.DELAY_LAWS:
        draw = failures.delay_of(law, 3.0, random.Random(1))
        assert np.mean([draw() for _ in range(40_000)]) == pytest.approx(3.0, rel=0.05)


def test_mistakes_are_named():
    for wrong, words in (
        ({"delay_law": "exponental"}, "did you mean 'exponential'"),
        ({"sites": 1}, "sites = 1 must be 2 to 20"),
        ({"announcement_share": 0.0}, "announcement_share = 0"),
    ):
        with pytest.raises(NetreproError, match=words):
            measure(paper.STUDY, replace(SMALL, **wrong), repetitions=1)


# The Internet of a file.


@pytest.fixture
def caida_file(tmp_path) -> str:
    """60 ASes as CAIDA writes them: 3 at the top, 17 that carry traffic, 40 stubs; and the CDN's own AS."""
    lines = ["# serial-1", "1|2|0", "1|3|0", "2|3|0", f"1|{setting.CDN}|-1"]
    lines += [f"{1 + number % 3}|{number}|-1" for number in range(4, 21)]
    lines += [f"{4 + number % 17}|{number}|-1" for number in range(21, 61)]
    lines += [f"{4 + (5 * number + 1) % 17}|{number}|-1" for number in range(21, 61, 2)]
    path = tmp_path / "20261101.as-rel.txt"
    path.write_text("\n".join(dict.fromkeys(lines)) + "\n")
    return str(path)


def test_sites_join_the_internet_of_a_file_and_fail_there(caida_file):
    own = paper.Setting(internet=caida_file, sites=3, watch_s=200.0, worlds=1, mean_delay_s=5.0)
    world = setting.make_world(own, 1)
    assert len(world.graph.neighbours) == 60 + 3 and setting.CDN not in world.graph.neighbours
    assert all(set(world.graph.neighbours[site]) <= set(range(4, 21)) for site in world.sites)
    assert set(world.clients) == set(range(21, 61))
    assert setting.make_world(own, 1) == world != setting.make_world(own, 2)
    (reading,) = study.measure_all([OneRun(replace(own, is_small=True), 0.0, (1, 0), SIMULATED)], iter)
    clients = reading["clients"]
    assert set(clients.target) <= set(world.clients) and (clients.failover_s < 200).all()
    assert paper.draw_network(own, 1).axes


def test_a_file_with_too_few_transit_ases_is_refused(caida_file):
    with pytest.raises(NetreproError, match="17 ASes have customers and providers"):
        setting.make_world(paper.Setting(internet=caida_file, sites=9), 1)


# Announcements and withdrawals.


def test_the_share_of_announcements_is_the_one_that_beacons_show():
    """It follows from BEACON alone: 12 Internets of the default size, which nothing else is measured on."""
    assert failures.share_of_beacons(paper.Setting(), 1, 12) == pytest.approx(setting.Setting().announcement_share, 0.2)


def test_what_beacons_show_does_not_hang_on_the_share_it_is_looked_for_with():
    shares = [failures.share_of_beacons(replace(SMALL, announcement_share=share), 1, 4) for share in (0.2, 0.8)]
    assert shares[0] == pytest.approx(shares[1], rel=0.1)


def test_a_beacon_is_seen_everywhere_before_it_is_withdrawn_and_gone_later():
    for half_s, everywhere_s, gone_s in failures.beacons_of(SMALL, 3):
        assert 0 < half_s < everywhere_s and gone_s > half_s


def test_faster_announcements_are_everywhere_sooner_beside_withdrawals():
    same, fast = (failures.beacons_of(replace(SMALL, announcement_share=share), 1) for share in (1.0, 1 / 8))
    assert np.median(fast, axis=0)[1] < np.median(same, axis=0)[1]
    assert failures.slower_withdrawal(fast) > 4 * failures.slower_withdrawal(same)


def test_faster_announcements_help_whoever_waits_for_them(runs):
    table = vary(replace(runs, setting=replace(SMALL, sites=2)), "delays").set_index(["case", "technique"])
    medians_s = table.reconnection_p50_s.unstack("technique")
    slower = medians_s["reactive-anycast"] / medians_s["anycast"]
    assert slower["share 1/8"] < slower["share 1"]


# Daemons.

SMALLEST = {"top": 3, "transit": 8, "stubs": 8, "sites": 4, "watch_s": 200.0}
# Of one small Internet alone.
STUDY = replace(
    paper.STUDY,
    cases={name: changes | SMALLEST for name, changes in paper.STUDY.cases.items() if name.startswith("small")},
    scales={**paper.STUDY.scales, ("quick", BESIDE): replace(study.WITHOUT_LARGE, without=())},
    claims={},
)


@needs_virtual
def test_daemons_and_speakers_give_the_same_times_and_a_site_may_have_no_client():
    runs = measure(STUDY, repetitions=1, seed=8)
    if VIRTUAL not in runs.tiers:
        pytest.skip(f"no daemons: {next(iter(runs.skipped.values()))}")
    table = paper.tier_table(runs).drop(index="proactive-superprefix")
    assert (table["clients"] > 5).all() and (table["failover_s same"] > 0.8).all(), table
    assert set(runs.table("clients", "small, anycast", VIRTUAL).site) == {0, 1, 3}  # nobody is near the third
    assert figures.draw_tiers(runs).axes


def test_what_daemons_do_not_have_is_named_and_not_ignored(monkeypatch, caida_file):
    monkeypatch.setattr(failures, "find_bird", lambda: "bird")
    slow = replace(SMALL, advertisement_interval_s=30.0)
    assert "advertisement_interval_s = 30" in paper.STUDY.cannot(slow, VIRTUAL)
    monkeypatch.setattr(failures, "MOST_DAEMONS", 50)
    assert "60 ASes" in paper.STUDY.cannot(replace(SMALL, internet=caida_file), VIRTUAL)
    assert not paper.STUDY.cannot(SMALL, VIRTUAL) and not paper.STUDY.cannot(slow, SIMULATED)


def test_without_daemons_the_speakers_stay_and_it_says_why(monkeypatch):
    monkeypatch.setattr(backends, "why_absent", lambda tier: "the kernel is not built")
    runs = measure(STUDY, repetitions=1, seed=8)
    assert runs.tiers == [SIMULATED] and runs.skipped["virtual: small, anycast"] == "the kernel is not built"
    assert figures.draw_tiers(runs).axes
    assert paper.tier_table(runs)["failover_s virtual"].isna().all()
