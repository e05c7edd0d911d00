"""CDN routing (IMC 2022, Fig. 2): failures of sites in virtual time, what clients see, and controls that must flip."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.papers import cdn_routing as paper

SMALL = replace(paper.PRINTED, top=3, transit=30, stubs=90, watch_s=300.0)


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(SMALL, repetitions=3, seed=1, worlds=3)


@pytest.fixture(scope="module")
def world() -> paper.World:
    return paper.make_world(SMALL, 5)


def test_every_claim_is_measured_and_no_control_of_a_claim_that_counts_agrees(runs):
    claims = load_claims("cdn_routing")
    trusted = replace(runs, fidelity=runs.fidelity.assign(holds=True))  # few failures: the calibration may be off
    measured = {each.claim: each for each in paper.measured_claims(trusted)}
    assert set(measured) == {claim.id for claim in claims.claims}
    for claim in claims.claims:
        if judge(claim, measured[claim.id], "simulated").counts:
            assert judge(claim, measured[claim.id].broken(), "simulated").verdict != "agrees"


def test_a_run_whose_calibration_is_off_is_untrusted(runs):
    off = replace(runs, fidelity=paper._fidelity(runs.times.assign(reconnection_s=40.0), SMALL))
    claim = load_claims("cdn_routing").claims[0]
    measured = next(each for each in paper.measured_claims(off) if each.claim == claim.id)
    assert judge(claim, measured, "simulated").verdict == "untrusted"


def test_without_prepends_proactive_prepending_is_anycast(runs):
    same = [runs.of(name)[["target", "reconnection_s", "failover_s"]].to_numpy() for name in ("anycast", "no prepends")]
    assert np.array_equal(*same)


def test_reconnection_never_comes_after_failover_and_everybody_is_served_again(runs):
    assert (runs.times.reconnection_s <= runs.times.failover_s).all()
    assert (runs.times.failover_s < SMALL.watch_s).all()


def test_without_delays_only_the_links_take_time(runs):
    quick = runs.of("reactive-anycast, no delays")
    assert quick.reconnection_s.max() < 1.5 + SMALL.ping_interval_s


def test_a_late_reaction_is_late_by_as_much(runs):
    late = runs.of("reactive-anycast, a minute late")
    assert late.reconnection_s.min() > 60.0


def test_before_the_failure_every_answer_reaches_a_site_and_afterwards_another(world):
    stubs = world.clients
    failed = world.sites[0]
    for technique in (paper.techniques(SMALL)[name] for name in paper.PAPER):
        changes = paper.fail(world, technique, failed, SMALL, 1.0, 3)
        before, after = paper.arrivals(changes, stubs, np.array([-0.5, SMALL.watch_s])).T
        assert set(before) <= set(world.sites) and set(after) <= set(world.sites) - {failed}


def test_more_prepends_keep_more_clients_at_the_site(world):
    stubs, kept = world.clients, []
    for prepends in (0, 1, 3, 6):
        technique = paper.Technique(paper.SPECIFIC, prepends)
        changes = paper.fail(world, technique, world.sites[0], SMALL, 1.0, 3)
        kept.append(int((paper.arrivals(changes, stubs, np.array([-0.5])) == world.sites[0]).sum()))
    assert kept == sorted(kept) and kept[0] < kept[-1]


def test_a_circle_and_a_missing_route_lose_the_answer_and_the_longer_prefix_wins():
    changes = {
        1: [(-1.0, paper.SPECIFIC, 2)],
        2: [(-1.0, paper.SPECIFIC, 1), (5.0, paper.SPECIFIC, None), (5.0, paper.COVERING, 3)],
        3: [(-1.0, paper.COVERING, 0)],
        4: [],
    }
    found = paper.arrivals(changes, [1, 2, 3, 4], np.array([0.0, 6.0]))
    assert found.tolist() == [[0, 3], [0, 3], [3, 3], [0, 0]]


@given(answered=st.lists(st.booleans(), min_size=1, max_size=40))
def test_the_definitions_of_reconnection_and_failover(answered):
    row, times_s = np.array([answered]), np.arange(len(answered)) + 0.5
    first = answered.index(True) + 0.5 if any(answered) else 99.0
    assert paper.first_answer_s(row, times_s, 99.0)[0] == first
    steady = next((k for k in range(len(answered)) if all(answered[k:])), None)
    assert paper.failover_s(row, times_s, 99.0)[0] == (99.0 if steady is None else steady + 0.5)
    assert paper.consecutive_s(row, times_s, 1, 99.0)[0] == first


def test_ten_answers_in_a_row_take_as_long_as_the_closed_form_says():
    """The expected number of pings until k answers in a row is (q^-k - 1) / (1 - q), q being the share answered."""
    share, count = 0.7, 5
    answered = np.random.default_rng(1).random((4000, 400)) < share
    ends = paper.consecutive_s(answered, np.arange(400.0), count, math.nan) + count
    assert np.nanmean(ends) == pytest.approx((share**-count - 1) / (1 - share), rel=0.03)


def test_lost_answers_alone_make_the_classs_failover(runs):
    table = paper.vary_definition(runs, 1, losses=(0.0, 0.5), counts=(1, 10)).set_index(["loss", "count"]).failover_s
    assert table[0.5, 10] == SMALL.watch_s and table[0.0, 10] < 100 and table[0.5, 1] < 100


def test_every_law_of_delay_has_the_mean_that_was_asked_for():
    import random

    for law in paper.DELAY_LAWS:
        draw = paper.delay_of(law, 3.0, random.Random(1))
        assert np.mean([draw() for _ in range(40_000)]) == pytest.approx(3.0, rel=0.05)


def test_unicast_is_as_slow_as_records_live():
    times_s = paper.unicast_failover_s(20_000, 1, time_to_live_s=60.0)
    assert (times_s > 60).mean() == pytest.approx(0.13, abs=0.13 * 0.6)
    assert np.median(times_s) == pytest.approx(33, abs=4)


def test_mistakes_are_named():
    with pytest.raises(NetreproError, match="did you mean 'exponential'"):
        paper.Setting(delay_law="exponental")
    with pytest.raises(NetreproError, match="sites = 1 must be 2 to 20"):
        paper.Setting(sites=1)
    with pytest.raises(NetreproError, match="announcement_share = 0"):
        paper.Setting(announcement_share=0.0)
    with pytest.raises(NetreproError, match="did you mean 'quick'"):
        paper.setting_of("quik")


# The Internet of a file.


@pytest.fixture
def caida_file(tmp_path) -> str:
    """60 ASes as CAIDA writes them: 3 at the top, 17 that carry traffic, 40 stubs; and the CDN's own AS."""
    lines = ["# serial-1", "1|2|0", "1|3|0", "2|3|0", f"1|{paper.CDN}|-1"]
    lines += [f"{1 + number % 3}|{number}|-1" for number in range(4, 21)]
    lines += [f"{4 + number % 17}|{number}|-1" for number in range(21, 61)]
    lines += [f"{4 + (5 * number + 1) % 17}|{number}|-1" for number in range(21, 61, 2)]
    path = tmp_path / "20261101.as-rel.txt"
    path.write_text("\n".join(dict.fromkeys(lines)) + "\n")
    return str(path)


def test_sites_join_the_internet_of_a_file_and_fail_there(caida_file):
    setting = paper.Setting(internet=caida_file, sites=3, watch_s=200.0)
    world = paper.make_world(setting, 1)
    assert len(world.graph.neighbours) == 60 + 3 and paper.CDN not in world.graph.neighbours
    assert all(set(world.graph.neighbours[site]) <= set(range(4, 21)) for site in world.sites)
    assert set(world.clients) == set(range(21, 61))
    assert paper.make_world(setting, 1) == world != paper.make_world(setting, 2)
    found = paper.measure(setting, 2, 1, worlds=1)
    assert set(found.times.target) <= set(world.clients) and (found.times.failover_s < 200).all()
    assert paper.draw_network(setting, 1).axes


def test_a_file_with_too_few_transit_ases_is_refused(caida_file):
    with pytest.raises(NetreproError, match="17 ASes have customers and providers"):
        paper.make_world(paper.Setting(internet=caida_file, sites=9), 1)


# Faster announcements.


def test_faster_announcements_help_whoever_waits_for_them_and_the_beacons_show_it():
    table = paper.vary_delays(replace(SMALL, stubs=40), 1, worlds=1).set_index(["delays", "technique"])
    same, fast = "exponential", "exponential, announcements 8 times as fast"
    assert table.everywhere_s[fast, "anycast"] < table.everywhere_s[same, "anycast"]
    slower = table.reconnection_s.unstack("technique")
    slower = slower["reactive-anycast"] / slower["anycast"]
    assert slower[fast] < slower[same]
    assert paper.draw_delays(table.reset_index()).axes


# Daemons.

SMALLEST = paper.Setting(top=3, transit=8, stubs=8, sites=4, watch_s=200.0)


def test_daemons_and_speakers_give_the_same_times_and_a_site_may_have_no_client():
    times, why = paper.compare_tiers(SMALLEST, 8)
    if why:
        pytest.skip(f"no daemons: {why}")
    table = paper.tier_table(times, SMALLEST.ping_interval_s).drop(index="proactive-superprefix")
    assert (table["clients"] > 5).all() and (table["failover_s same"] > 0.8).all(), table
    assert set(times[times.tier == "virtual"].site) == {0, 1, 3}  # nobody is near the third
    assert paper.draw_tiers(times).axes


def test_what_daemons_do_not_have_is_named_and_not_ignored(monkeypatch, caida_file):
    slow = replace(SMALLEST, advertisement_interval_s=30.0)
    with pytest.raises(NetreproError, match="advertisement_interval_s = 30"):
        paper.measure(slow, 2, 1, worlds=1, tier="virtual")
    monkeypatch.setattr(paper, "MOST_DAEMONS", 50)
    with pytest.raises(NetreproError, match="60 ASes"):
        paper.measure(paper.Setting(internet=caida_file), 2, 1, worlds=1, tier="virtual")
    monkeypatch.setattr(paper, "try_virtual", lambda: (True, ""))
    monkeypatch.setattr(paper, "find_bird", lambda: "bird")
    times, why = paper.compare_tiers(slow, 8)
    assert "advertisement_interval_s" in why and set(times.tier) == {"simulated"}


def test_without_daemons_the_speakers_stay_and_it_says_why(monkeypatch):
    monkeypatch.setattr(paper, "try_virtual", lambda: (False, "the kernel is not built"))
    times, why = paper.compare_tiers(SMALLEST, 8)
    assert why == "the kernel is not built" and set(times.tier) == {"simulated"}
    assert paper.draw_tiers(times, why).axes
    assert paper.tier_table(times, 1.5)["failover_s virtual"].isna().all()
