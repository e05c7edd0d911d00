"""The initial window (CCR 2010): simulated responses beside the closed forms, published tables, what must not gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.claims import load_claims
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.errors import NetreproError
from netrepro.papers import initial_window as paper
from netrepro.papers.initial_window import clients as paper_clients
from netrepro.papers.initial_window import experiments, study
from netrepro.simulation import simulate
from netrepro.study import Runs, measure, read_once

LOSSLESS = paper_clients.Setting(loss_scale=0.0, buffer_kb=1e6, back_end_ms=0.0, clients=300)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, profile="test", repetitions=2, seed=7)


@pytest.mark.parametrize(
    ("segments", "window", "growth", "expected"),
    [
        *[(3, 3, 2, 1), (4, 3, 2, 2), (9, 3, 2, 2), (10, 3, 2, 3), (21, 3, 2, 3), (22, 3, 2, 4), (10, 10, 2, 1)],
        *[(30, 10, 2, 2), (31, 10, 2, 3), (7, 3, 1.5, 2), (8, 3, 1.5, 3), (1, 42, 2, 1)],
    ],
)
def test_equation_1_counts_the_rounds_that_windows_add_up_to(segments, window, growth, expected):
    """3 + 6 + 12 = 21 with growth 2; 3 + 4.5 = 7.5 with 1.5."""
    assert paper.rounds(segments, window, growth) == expected


@given(st.integers(1, 2000), st.integers(1, 60))
def test_equation_1_is_the_loop_it_stands_for(segments, window):
    sent, burst, count = 0, window, 0
    while sent < segments:
        sent, burst, count = sent + burst, 2 * burst, count + 1
    assert paper.rounds(segments, window) == count


@given(st.integers(1, 200_000), st.sampled_from(paper_clients.WINDOWS), st.floats(5, 3000), st.floats(30, 1e5))
def test_what_a_link_carries_meanwhile_only_shortens_equation_1_and_never_below_one_round_and_the_bytes(
    size_bytes, window, round_trip_ms, rate_kbps
):
    at = (size_bytes, window, round_trip_ms, rate_kbps)
    least = round_trip_ms + size_bytes * 8 / rate_kbps
    assert least <= experiments.pipelined_ms(*at) <= experiments.model_ms(*at) + 1e-6


@pytest.mark.parametrize("window", [3, 10, 42])
def test_where_nothing_is_lost_the_simulated_latency_is_the_closed_form_of_idle_times(window):
    """The first timeout of these clients cannot fire in vain, as it does where a segment takes longer; the median
    is exact, and from the 17th segment on every second acknowledgement is held back. The request's acknowledgement
    crosses the narrow link before the response."""
    setting = replace(LOSSLESS, initial_window_segments=window)
    measured = simulate(experiments.experiment(setting, 0.0, 5))
    clients = paper_clients.population(setting, 5)
    expected = experiments.pipelined_ms(clients.size_bytes, window, clients.round_trip_ms, clients.rate_kbps)
    expected += 66 * 8 / clients.rate_kbps
    usual = ((clients.rate_kbps > 100) & (clients.round_trip_ms < 3000)).to_numpy()
    ratio = (experiments.latencies(measured) / expected)[usual]
    assert usual.sum() > 250
    assert np.median(ratio) == pytest.approx(1, abs=2e-3)
    assert np.quantile(ratio, [0.02, 0.95]) == pytest.approx(1, abs=0.02)


@needs_virtual
def test_a_kernel_takes_the_closed_forms_time_where_nothing_is_lost_and_loses_nothing_to_needless_timeouts():
    setting = replace(LOSSLESS, clients=40, **study.OF_KERNEL)
    clients = paper_clients.population(setting, 5)
    for window in (3, 10):
        measured = emulate_virtually(experiments.experiment(replace(setting, initial_window_segments=window), 0.0, 5))
        expected = experiments.pipelined_ms(clients.size_bytes, window, clients.round_trip_ms, clients.rate_kbps)
        ratio = experiments.latencies(measured) / expected
        assert np.median(ratio) == pytest.approx(1, abs=0.01)
        assert np.quantile(ratio, [0.02, 0.95]) == pytest.approx(1, abs=0.05)
        assert (measured.flows.timeouts > 0).mean() < 0.1


@needs_virtual
def test_a_kernel_sends_headers_at_once_and_the_rest_after_the_back_end_as_the_simulator_does():
    setting = replace(LOSSLESS, clients=30, back_end_ms=200.0, **study.OF_KERNEL)
    asked = experiments.experiment(setting, 0.0, 5)
    ratio = experiments.latencies(emulate_virtually(asked)) / experiments.latencies(simulate(asked))
    assert np.median(ratio) == pytest.approx(1, abs=0.01)
    assert np.quantile(ratio, [0.02, 0.95]) == pytest.approx(1, abs=0.05)


def test_on_links_as_fast_as_can_be_latency_is_rounds_times_the_round_trip(monkeypatch):
    clients = paper_clients.population(replace(LOSSLESS, clients=60), 3).assign(rate_kbps=1e6)
    clients = clients.assign(round_trip_ms=np.linspace(10, 900, 60))
    for module in (paper_clients, experiments):
        monkeypatch.setattr(module, "population", lambda *_: clients)
    for window in (3, 10):
        measured = simulate(experiments.experiment(replace(LOSSLESS, initial_window_segments=window), 0.0, 3))
        rounds = paper.rounds(np.ceil(clients.size_bytes / paper_clients.SEGMENT_BYTES), window)
        assert (experiments.latencies(measured) / clients.round_trip_ms).to_numpy() == pytest.approx(rounds, rel=0.06)


def test_clients_follow_the_published_shares_and_medians():
    drawn = paper_clients.population(paper_clients.Setting(clients=40_000), 1)
    slow = paper_clients.population(paper_clients.Setting(clients=40_000, centre="slow"), 1)
    drawn["size_segments"] = drawn.size_bytes / paper_clients.SEGMENT_BYTES
    for clients, centre, panel in (
        (drawn, "average", "round_trip_ms"),
        (drawn, "average", "rate_kbps"),
        (drawn, "average", "size_segments"),
        (slow, "slow", "rate_kbps"),
    ):
        buckets = paper_clients.published_buckets(centre, panel)
        shares = np.histogram(clients[panel], [0, *buckets["upper"].fillna(np.inf)])[0] / len(clients)
        assert 100 * shares == pytest.approx(buckets["share_percent"].to_numpy(), abs=0.8)
    assert drawn.round_trip_ms.median() == pytest.approx(70, rel=0.06)
    assert drawn.size_bytes.mean() == pytest.approx(10_500, rel=0.07)
    assert drawn.loss.mean() == pytest.approx(0.0155, rel=0.03) and slow.loss.mean() == pytest.approx(0.0298, rel=0.03)
    maps = paper_clients.population(paper_clients.Maps(clients=40_000), 1)
    assert maps.size_bytes.mean() == pytest.approx(6400, rel=0.02)
    assert (maps.size_bytes <= 3 * paper_clients.SEGMENT_BYTES).mean() == pytest.approx(0.62, abs=0.01)


def test_rate_and_round_trip_are_tied_as_their_published_product_and_the_slowest_clients_are():
    """Nearest to both: Fig. 5's shares of products alone ask for -.65, the mean of 343 ms up to 56 kb/s for -.48."""
    drawn = paper_clients.population(paper_clients.Setting(clients=40_000), 1)
    buckets = paper_clients.published_buckets("average", "product_kb")
    shares = 100 * np.histogram(drawn.product_kb, [0, *buckets["upper"].fillna(np.inf)])[0] / len(drawn)
    assert np.abs(shares - buckets["share_percent"]).sum() / 2 < 8
    slow = paper_clients.population(paper_clients.Setting(clients=40_000, centre="slow"), 1)
    assert slow.round_trip_ms[slow.rate_kbps <= 56].mean() == pytest.approx(343, rel=0.3)
    between = slow.round_trip_ms[(slow.rate_kbps > 56) & (slow.rate_kbps <= 256)]
    assert between.mean() == pytest.approx(250, rel=0.25)


def test_a_back_end_parts_headers_and_rest_and_a_small_response_leaves_at_once():
    """Where nothing is lost the headers are acknowledged meanwhile, and the rest comes in the window that has grown."""
    clients = paper_clients.population(replace(LOSSLESS, clients=200), 3)
    apart, at_once = (
        experiments.latencies(
            simulate(experiments.experiment(replace(LOSSLESS, clients=200, back_end_ms=wait), 0.0, 3))
        )
        for wait in (200.0, 0.0)
    )
    is_small = (clients.size_bytes <= clients.header_bytes).to_numpy()
    assert 5 < is_small.sum() < 60
    assert apart[is_small] == pytest.approx(at_once[is_small], rel=1e-6)
    near = ~is_small & ((clients.round_trip_ms < 100) & (clients.rate_kbps > 500)).to_numpy()
    assert near.sum() > 50 and (apart[near] > 200 + clients.round_trip_ms[near]).all()
    assert (apart[near] < 200 + at_once[near] + 1).all()


def test_a_window_of_three_segments_at_the_receiver_leaves_nothing_to_gain(runs):
    held, free = (runs.reading("mean_ms", case)[0] for case in ("average, held", "average"))
    assert abs(experiments.gain_percent(held)) < 1 < experiments.gain_percent(free)


def test_few_clients_at_even_steps_have_every_bucket_of_round_trips_up_to_1_s_and_the_same_correlation():
    buckets = paper_clients.published_buckets("average", "round_trip_ms").query("upper <= 1000")
    for seed in range(5):
        drawn = paper_clients.population(replace(paper_clients.Setting(), clients=70, evenly=True), seed)
        assert (np.histogram(drawn.round_trip_ms, [0, *buckets["upper"]])[0] > 0).all()
        assert drawn.loss.mean() == pytest.approx(0.0155, rel=0.05)
        assert -0.75 < drawn.round_trip_ms.corr(drawn.rate_kbps, method="spearman") < -0.3


def test_the_same_clients_ask_with_every_initial_window():
    three, ten = (
        experiments.experiment(paper_clients.Setting(clients=20, initial_window_segments=window), 0.0, 4)
        for window in (3, 10)
    )
    assert three.topology == ten.topology and three.traffic == ten.traffic and three.tcp != ten.tcp


def test_responses_of_three_segments_gain_nothing_and_longer_ones_do(runs):
    short, usual = (runs.reading("mean_ms", case)[0] for case in ("average, 3 segments", "average"))
    assert short.nunique() == 1
    assert experiments.gain_percent(usual) > 5


def test_small_buffers_turn_a_gain_into_a_loss():
    """Nothing is lost on the wire: all that a window of 42 loses it loses in its own burst."""
    tiny = replace(paper_clients.Setting(), centre="slow", loss_scale=0.0, clients=200, buffer_kb=8.0)
    small, huge = (read_once(paper.STUDY, replace(tiny, initial_window_segments=window), seed=2) for window in (3, 42))
    assert huge["resent_percent"] > 3 * small["resent_percent"]
    assert huge["mean_ms"] > small["mean_ms"]


def test_a_gain_over_the_round_trip_is_read_as_logarithms_and_no_gain_as_a_tenth_of_a_millisecond():
    rows = pd.DataFrame(
        [
            ("round_trip_ms", upper, window, 10.0 + gain * (window == 3))
            for upper, gain in ((100, 10), (200, -5))
            for window in (3, 10)
        ],
        columns=["panel", "upper", "initial_window_segments", "mean_ms"],
    )
    assert experiments.gain_over("round_trip_ms", rows) == [(2.0, pytest.approx(1.0)), (2.301, pytest.approx(-1.0))]


def test_what_responses_lose_is_the_same_ones_difference_at_the_99th_percentile_and_no_single_one_decides():
    """A window of 10 ends 50 ms later for the slowest 2 %, 5 s sooner for all others, and a minute later for one."""
    random = np.random.default_rng(1)
    responses = {}
    for repetition in range(3):
        old_ms = random.permutation(np.arange(1.0, 1001.0)) * 1e4
        new_ms = old_ms + np.where(old_ms > 9.8e6, 50.0, -5e3)
        new_ms[np.argsort(old_ms)[989]] += 6e4 * (repetition == 0)
        responses[repetition] = pd.concat(
            pd.DataFrame({"client": range(1000), "initial_window_segments": window, "completion_ms": times}).assign(
                server="h1", request=0
            )
            for window, times in ((10, new_ms), (3, old_ms))
        )
    assert experiments.paired_loss_ms(responses) == pytest.approx([50.0] * 3)


def test_where_nothing_is_lost_or_a_response_never_ends_the_claim_says_what_it_lacks():
    with pytest.raises(NetreproError, match=r"no segment was sent again with a window of 3.*\n.*more clients"):
        experiments.resent_ratio(pd.Series({3: 0.0, 10: 0.0}))
    assert experiments.resent_ratio(pd.Series({3: 2.0, 10: 3.0})) == 1.5
    rows = [
        {"client": "h1", "server": "h2", "request": 0, "completion_ms": ms, "initial_window_segments": window}
        for window, ms in ((3, 10.0), (10, np.nan))
    ]
    with pytest.raises(NetreproError, match=r"did not end within 900 s.*\n.*size_scale"):
        experiments.paired_loss_ms({0: pd.DataFrame(rows)})


def test_responses_are_kept_where_they_are_compared(runs):
    responses = runs.table("responses", "maps")
    assert len(responses) == 2 * 2 * 150 * 10  # windows, repetitions, clients, connections
    measured = next(each for each in runs.measured_claims() if each.claim == "parallel-connections-lose")
    assert np.isfinite(measured.values).all() and np.isfinite(measured.control).all()


def test_the_class_gains_nothing_at_20_ms_and_30_ms_at_50_as_it_saw(runs):
    """At 1.2 Mb/s three segments take 30 ms: a round trip of 20 ms leaves the link never idle."""
    gains = (
        experiments.bucket_gains(runs.table("buckets", "class")).query("panel == 'round_trip_ms'").set_index("upper")
    )
    seen = paper_clients.published("class_gains").set_index("round_trip_ms").gain_ms
    for round_trip_ms in (20, 50):
        assert gains.gain_ms[round_trip_ms] == pytest.approx(seen[round_trip_ms], abs=1.5)


def test_published_tables_are_those_of_the_claims():
    claims = load_claims("initial_window")
    rows = paper_clients.published("retransmissions").query("service == 'search'")
    rows = rows.pivot(index="centre", columns="initial_window_segments", values="percent")
    for centre in ("average", "slow"):
        ratio = rows.loc[centre, 10] / rows.loc[centre, 3]
        assert claims.claim(f"retransmissions-{centre}").published == pytest.approx(ratio, abs=1e-3)
    for claim, panel in (
        ("gain-over-round-trip", "round_trip_ms"),
        ("gain-over-rate", "rate_kbps"),
        ("gain-over-size", "size_segments"),
    ):
        buckets = paper_clients.published_buckets("average", panel).query("upper <= @experiments.CURVED[@panel]")
        curve = np.array(claims.claim(claim).published)
        assert 10 ** curve[:, 0] == pytest.approx(buckets.upper.to_numpy(), rel=2e-3)
        assert 10 ** curve[:, 1] == pytest.approx(buckets.gain_ms.to_numpy(), rel=3e-3)
    maps = paper_clients.published("maps").set_index("percentile").loss_ms
    assert claims.claim("parallel-connections-lose").published == maps[99]
