"""SST: what streams without a handshake bring, what must not hold without them, and both tiers beside each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from virtual_kernel import needs_virtual

from netrepro.applications.web.run import least_s, load_pages, share_beside_tcp, why_no_quic
from netrepro.errors import NetreproError
from netrepro.papers import sst as paper
from netrepro.study import Scale, measure, vary

LINE = paper.line_of(paper.Setting())
ROUND_TRIP_MS = 2 * LINE.one_way_ms
PUBLISHED = ("SST", "pipelined", "persistent", "parallel", "serial")
needs_quic = pytest.mark.skipif(bool(why_no_quic()), reason=why_no_quic())
QUIC = pytest.param("QUIC", marks=needs_quic)
PAGES = (*PUBLISHED, QUIC)


@pytest.fixture(scope="module")
def runs():
    return measure(paper.STUDY, profile="test", repetitions=2, seed=3)


@pytest.fixture(scope="module")
def table(runs):
    return runs.summary()


def time_ms(page, case, **changes):
    """Measure the time (ms) of the second of two such pages, on an idle line."""
    way = paper.way_of(replace(paper.STUDY.case(case), **changes))
    loaded = load_pages([page, page], way, LINE, 300, 1.0, 1)[1]
    return 1e3 * (loaded.ended_s - loaded.began_s)


@pytest.mark.parametrize(
    ("case", "requests", "trips"),
    [("SST", 1, 1), ("SST", 2, 2), ("SST", 30, 2), ("persistent", 1, 1), ("persistent", 3, 2), ("persistent", 4, 3),
     ("pipelined", 9, 2), ("pipelined", 10, 3), ("parallel", 1, 2), ("parallel", 9, 4), ("parallel", 10, 6),
     ("serial", 3, 6), ("SST, fresh channel", 1, 2), ("SST, one stream", 4, 4)],
)  # fmt: skip
def test_a_page_of_nothing_takes_its_round_trips(case, requests, trips):
    time = time_ms([1] * requests, case)
    sending = 1e3 * LINE.seconds_for(requests * (300 + 1 + 6 * 80))  # headers of both and of a handshake, too
    assert trips * ROUND_TRIP_MS < time <= trips * ROUND_TRIP_MS + sending


@pytest.mark.parametrize("case", PAGES)
def test_the_closed_form_is_below_every_page_and_near_it_for_small_ones(case, runs):
    pages = runs.table("pages", case)
    assert (pages.time_ms >= pages.bound_ms).all()
    small = pages[(pages.size_bytes < 1000) & (pages.requests == 1)]
    assert (small.time_ms < 1.15 * small.bound_ms).all()


@needs_quic
@pytest.mark.parametrize(
    ("case", "requests", "trips"),
    [("QUIC", 1, 1), ("QUIC", 30, 2), ("QUIC, fresh connection", 1, 2), ("QUIC, fresh connection", 2, 3),
     ("QUIC, fresh, 0-RTT", 1, 1), ("QUIC, fresh, 0-RTT", 2, 2)],
)  # fmt: skip
def test_a_handshake_of_quic_costs_a_round_trip_and_none_with_a_ticket(case, requests, trips):
    time = time_ms([1] * requests, case)
    handshake = 0 if case == "QUIC" else 1e3 * LINE.seconds_for(4 * 1300)  # datagrams of 1200 bytes and headers
    sending = 1e3 * LINE.seconds_for(requests * (300 + 1 + 2 * 120)) + handshake
    assert trips * ROUND_TRIP_MS < time <= trips * ROUND_TRIP_MS + sending


@needs_quic
def test_quic_that_stays_is_as_fast_as_sst_and_a_handshake_a_page_is_not(table):
    assert table.loc["QUIC"].median_ms == pytest.approx(table.loc["SST"].median_ms, rel=0.05)
    fresh, early = table.loc["QUIC, fresh connection"], table.loc["QUIC, fresh, 0-RTT"]
    assert fresh.floor_1 == pytest.approx(table.loc[paper.FRESH].floor_1, rel=0.25)
    assert early.floor_1 < 0.7 * fresh.floor_1


@needs_quic
def test_a_stream_a_request_is_what_makes_quic_fast():
    many, one = (time_ms([200] * 12, "QUIC", connections=count) for count in (0, 1))
    assert one > 4 * many


@needs_quic
def test_responses_in_the_order_of_requests_wait_for_each_other_and_the_page_does_not():
    asked = paper.Setting(pages=60, loss_percent=2.0, **paper.QUIC)
    free, held = (
        paper.measure_one(replace(asked, in_order=in_order), 0.0, 1, "simulated") for in_order in (False, True)
    )
    assert held["response_ms"] > 1.1 * free["response_ms"]
    assert held["mean_ms"] == free["mean_ms"]


def test_without_aioquic_its_cases_are_left_out_with_the_reason(monkeypatch):
    monkeypatch.setattr(paper, "why_no_quic", lambda: "aioquic is not installed")
    few = Scale(40.0, changes={"pages": 20})
    study = replace(paper.STUDY, scales={"quick": few})
    loss = replace(study.knobs["loss"], scale=few)
    runs = measure(replace(study, knobs={"loss": loss}), repetitions=1)
    assert "not installed" in runs.why_not("QUIC") and runs.has(*PUBLISHED) and not runs.has("QUIC")
    assert set(vary(runs, "loss").case) == set(PUBLISHED)
    for name, draw in paper.STUDY.figures.items():
        if "loss" in name or not name.startswith("knob"):
            assert draw(runs).axes
    assert paper.answer(runs)


def test_a_long_response_fills_the_line():
    for case in ("SST", "pipelined"):
        page, way = [200_000], paper.way_of(paper.STUDY.case(case))
        assert time_ms(page, case) < 1.3 * 1e3 * least_s(page, way, LINE, 300)


def test_a_new_connection_waits_for_a_round_trip_beyond_its_first_window():
    short, longer = (time_ms([size], "serial") for size in (3500, 3700))
    assert longer - short > 0.5 * ROUND_TRIP_MS
    assert time_ms([3700], "serial", initial_window_segments=10) - short < 0.1 * ROUND_TRIP_MS
    warm = [time_ms([size], "SST") for size in (3500, 3700)]
    assert warm[1] - warm[0] < 0.1 * ROUND_TRIP_MS


def test_a_handshake_doubles_the_time_and_a_fresh_channel_brings_it_back(table):
    assert table.loc["serial"].floor_1 / table.loc["SST"].floor_1 == pytest.approx(2, rel=0.1)
    assert table.loc[paper.FRESH].floor_1 / table.loc["serial"].floor_1 == pytest.approx(1, rel=0.1)


def test_one_stream_at_a_time_takes_the_advantage_away(table):
    assert table.loc["SST"]["median_9+"] < 0.7 * table.loc["persistent"]["median_9+"]
    assert table.loc["SST, one stream"]["median_9+"] > table.loc["persistent"]["median_9+"]


def test_every_page_is_there_and_the_run_is_trusted(runs):
    assert runs.trusted
    assert set(runs.trust_table().failed) == {0}


def test_controls_of_what_counts_flip(runs):
    measured = {each.claim: each for each in runs.measured_claims()}
    assert set(measured) == set(paper.STUDY.claims)
    for claim, least, most in (
        ("one-request-floor", 50.85, 62.15),
        ("handshake-doubles-one", 1.78, 2.18),
        ("handshake-doubles-two", 1.8, 2.2),
        ("serial-falls-behind", 4.93, 11.1),
        ("as-good-as-pipelined", 0, 1.05),
    ):
        assert all(least <= value <= most for value in measured[claim].values), claim
        assert not any(least <= value <= most for value in measured[claim].control), claim


def test_a_server_without_a_window_takes_the_line_from_tcp():
    shares = {
        name: share_beside_tcp(paper.way_of(paper.STUDY.case(name)), LINE, 60.0, 1)
        for name in ("SST", "SST, no server window")
    }
    assert 0.3 < shares["SST"] < 0.7 < shares["SST, no server window"]


def test_two_tcp_connections_share_the_line_evenly():
    way = paper.way_of(paper.STUDY.case("TCP beside TCP"))
    shares = [share_beside_tcp(way, LINE, 300.0, seed) for seed in (1, 2, 3, 4)]
    assert sum(shares) / 4 == pytest.approx(0.5, abs=0.02) and len(set(shares)) > 1


def test_frames_are_read_with_what_independent_packets_would_bring():
    asked = replace(paper.Setting(pages=20, loss_percent=3.0), frames_over="datagrams", frame_packets=4)
    numbers = paper.measure_one(asked, 0.0, 2, "simulated")
    assert numbers["independent"] == pytest.approx(0.97**4)
    assert 0 <= numbers["in_time"] <= numbers["whole"] <= 1 and numbers["delay_ms"] > 27.5


def test_loss_makes_pages_slower_and_loses_none():
    asked = paper.Setting(pages=60)
    for case in ("SST", "serial", *(() if why_no_quic() else ("QUIC",))):
        readings = [
            paper.measure_one(replace(asked, loss_percent=loss, **paper.SCHEMES[case]), 0.0, 2, "simulated")
            for loss in (0.0, 5.0)
        ]
        assert readings[1]["mean_ms"] > 1.2 * readings[0]["mean_ms"]
        assert all(check.holds for check in readings[1].checks)


def test_the_same_seed_gives_the_same_pages_and_another_one_others():
    for way in (paper.SST, *(() if why_no_quic() else (paper.QUIC | {"fresh": True},))):
        asked = paper.Setting(pages=20, **way)
        first, again, other = (paper.measure_one(asked, 0.0, seed, "simulated")["pages"] for seed in (1, 1, 2))
        assert first.equals(again) and not first.equals(other)


def test_panels_and_levels_are_whole():
    assert [paper.panel_of(count) for count in (1, 2, 3, 4, 5, 8, 9, 60)] == [
        "1", "2", "3-4", "3-4", "5-8", "5-8", "9+", "9+"
    ]  # fmt: skip
    levels = paper.levels()
    assert set(levels.panel) == set(paper.PANELS) and set(levels.case) == set(PUBLISHED) and len(levels) == 25
    assert (levels.least_ms <= levels.most_ms).all()
    assert paper.page_table(paper.Setting())["count"].sum() == 1600


def test_what_makes_no_sense_is_refused():
    with pytest.raises(NetreproError, match="loss"):
        paper.line_of(paper.Setting(loss_percent=100.0))
    with pytest.raises(NetreproError, match=r"no \.tr\.gz"):
        paper.pages_of(paper.Setting(trace="none"), 1)


def test_the_virtual_tier_says_what_it_cannot_run():
    assert "pages only" in paper.cannot(paper.STUDY.case("SST beside TCP"), "virtual")
    assert paper.cannot(paper.STUDY.case("SST"), "virtual") == ""


@pytest.mark.parametrize("case", [*PAGES, paper.FRESH, pytest.param("QUIC, fresh, 0-RTT", marks=needs_quic)])
@needs_virtual
def test_processes_on_the_kernel_take_as_long_as_the_simulator_says(case):
    setting = replace(paper.STUDY.case(case), pages=30)
    kernel, ours = (paper.measure_one(setting, 0.0, 1, tier) for tier in ("virtual", "simulated"))
    assert all(check.holds for check in kernel.checks)
    ratios = kernel["pages"].time_ms / ours["pages"].time_ms
    assert ratios.median() == pytest.approx(1, abs=0.02)
    assert ratios.between(0.8, 1.25).all()


@pytest.mark.parametrize("case", ["SST", pytest.param("QUIC, fresh, 0-RTT", marks=needs_quic)])
@needs_virtual
def test_on_the_kernel_too_lost_packets_are_repaired_and_the_same_seed_gives_the_same_times(case):
    setting = replace(paper.STUDY.case(case), pages=20, loss_percent=2.0)
    first, again, other = (paper.measure_one(setting, 0.0, seed, "virtual") for seed in (1, 1, 2))
    assert all(check.holds for reading in (first, other) for check in reading.checks)
    assert first["pages"].equals(again["pages"]) and not first["pages"].equals(other["pages"])
