"""CoDel: one link of fixed and of changing rate, drops counted at the port, and what must not hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.claims import load_claims
from netrepro.errors import NetreproError
from netrepro.networks.queues import CoDel, DropTail, FqCoDel, Red
from netrepro.papers.codel import edge, experiments, packmime
from netrepro.papers.codel import study as paper
from netrepro.simulation import simulate
from netrepro.study import points, read_once, run_experiment, run_once

SECONDS = 60.0  # ten at each rate


def run(case: str, seconds: float = SECONDS, **changed):
    return run_once(paper.STUDY, case, seconds, seed=3, **changed)


def numbers(case: str, **changed):
    setting = replace(paper.STUDY.case(case), **changed)
    return read_once(paper.STUDY, setting, SECONDS, seed=3)


def dropped(measured) -> int:
    return int(measured.links_by_port.dropped_packets[experiments.PORT])


@pytest.mark.parametrize("case", [paper.DYNAMIC_CODEL, paper.NEVER, paper.DYNAMIC_RED, paper.UNRESPONSIVE])
def test_drops_are_counted_from_what_comes_and_what_leaves_as_the_link_counts_them(case):
    setting = replace(paper.STUDY.case(case), count_drops=True)
    measured = simulate(experiments.dynamic_experiment(setting, SECONDS, 3))  # by hosts that take no time
    drops = experiments.drops_over_time(measured).drops
    assert np.all(np.diff(drops) >= 0) and drops.iloc[0] >= 0
    assert abs(drops.iloc[-1] - dropped(measured)) <= 1  # one may be on its way in


def test_a_queue_that_drops_nothing_is_seen_to_drop_nothing():
    measured = run(paper.NEVER, count_drops=True, buffer_packets=100_000, web_per_s=0.0, udp_share=0.5)
    calm = replace(measured, queues=measured.queues[measured.queues.time_s < SECONDS / 6])
    assert experiments.drops_over_time(calm).drops.max() == 0


def test_codel_that_never_drops_is_drop_tail_packet_by_packet():
    never, tail = (run(case, count_drops=False) for case in (paper.NEVER, paper.DYNAMIC_TAIL))
    pd.testing.assert_frame_equal(never.packets, tail.packets)
    assert not run(paper.DYNAMIC_CODEL, count_drops=False).packets.equals(tail.packets)


@pytest.mark.parametrize("rate", [10.0, 45.0])
def test_the_buffers_size_does_not_matter_to_codel_and_is_the_delay_of_drop_tail(rate):
    """Section "Simulator configuration": a large buffer, to verify that its size does not matter."""
    ours, tail = (
        [numbers(case, rate_mbps=rate, round_trip_ms=30.0, buffer_packets=size)["median_ms"] for size in (300, 1200)]
        for case in ("codel", "drop tail")
    )
    assert ours[1] == pytest.approx(ours[0], rel=0.25)
    assert max(ours) < 12
    assert tail[1] > 2 * tail[0] > 20 * max(ours) / rate


def test_unresponsive_load_fills_the_buffer_whatever_codel_drops():
    """12 Mb/s into 10: a sixth must go."""
    read = numbers("unresponsive", rate_mbps=10.0, round_trip_ms=100.0, static_s=40.0)
    assert read["drop_share"] == pytest.approx(1 / 6, abs=0.01)
    assert read["utilisation"] == pytest.approx(1, abs=0.001)
    assert numbers("codel", rate_mbps=10.0, round_trip_ms=100.0)["median_ms"] < 10 < read["median_ms"]


def test_packets_of_a_full_buffer_wait_for_all_before_them():
    """830 packets at 1 Mb/s: 10 s, and one of 10 packets a hundredth of that."""
    long, short = (numbers(case, count_drops=False)["greatest_s"] for case in (paper.DYNAMIC_TAIL, paper.TEN_PACKETS))
    assert long <= 831 * 1514 * 8e-6 * 1.001
    assert 9 * 1514 * 8e-6 < short <= 11 * 1514 * 8e-6


def test_the_rate_is_that_of_the_schedule():
    packets = run(paper.UNRESPONSIVE).packets.query("source == 's1'")
    place = (packets.time_s // (SECONDS / 6)).astype(int)
    sent_mbps = packets.groupby(place).size_bytes.sum() * 8e-6 / (SECONDS / 6)
    assert list(sent_mbps[:6]) == pytest.approx(list(experiments.SCHEDULE_MBPS), rel=0.02)


def test_over_time_counts_every_byte_and_is_zero_where_nothing_leaves():
    packets = pd.DataFrame({"time_s": [0.01, 0.02, 0.35], "wait_ms": [1.0, 3.0, 7.0], "size_bytes": [100, 200, 300]})
    course = experiments.over_time(packets, 0.0, 0.5)
    assert list(course.mean_ms) == [2.0, 0.0, 0.0, 7.0, 0.0]
    assert list(course.greatest_ms) == [3.0, 0.0, 0.0, 7.0, 0.0]
    assert course.sent_mb.iloc[-1] * 1e6 == pytest.approx(600)


def test_the_buffer_is_eight_times_the_path_or_what_is_asked_for():
    path = experiments.Setting(rate_mbps=100.0, round_trip_ms=100.0)
    assert path.path_packets == round(1.25e6 / 1514)
    assert path.buffer == 8 * path.path_packets
    assert replace(path, buffer_packets=830).buffer == 830
    assert experiments.Setting(rate_mbps=0.128, round_trip_ms=30.0).buffer == 50


def test_queues_are_those_that_are_asked_for():
    setting = experiments.Setting(packet_bytes=500)
    codel, fair, red, tail = (experiments.queue_of(replace(setting, queue=name)) for name in experiments.QUEUES)
    assert codel == CoDel(setting.buffer, variant="ns2_2012", least_bytes=500)
    assert fair == FqCoDel(setting.buffer, ecn=False, quantum_bytes=500, variant="rfc8290")
    assert red == Red.self_configured(10.0, setting.buffer, adaptive=False, mean_packet_bytes=500)
    assert tail == DropTail(packets=setting.buffer)
    with pytest.raises(NetreproError, match="did you mean 'drop tail'"):
        experiments.queue_of(replace(setting, queue="droptail"))
    with pytest.raises(NetreproError, match="CoDel: variant"):
        experiments.queue_of(replace(setting, reentry="rfc8290"))


def test_web_objects_have_packmimes_mean_and_median():
    """By its fitted curves, worked out here: downloads linear in both logarithms, validations linear."""
    rate = 5.0
    share = packmime.share_of_downloads(rate)
    curves = {kind: rows.sort_values("above") for kind, rows in packmime.curves().groupby("kind")}
    above = (np.arange(1_000_000) + 0.5) / 1e6
    least = curves["download"].above.min()
    downloads = np.exp(
        np.interp(np.log(np.maximum(above, least)), *(np.log(curves["download"][c]) for c in ("above", "size_bytes")))
    )
    validations = np.interp(above, curves["validation"].above, curves["validation"].size_bytes)
    sizes = packmime.response_sizes(rate)
    assert sizes.mean == pytest.approx(share * downloads.mean() + (1 - share) * validations.mean(), rel=0.05)
    drawn = np.concatenate([downloads[:: round(1 / share * 10)], validations[:: round(1 / (1 - share) * 10)]])
    assert float(sizes.quantile(0.5)) == pytest.approx(np.median(drawn), rel=0.05)
    assert float(sizes.cdf(272)) == pytest.approx(1 - share, abs=0.002)  # no validation is larger, no download smaller


def test_packmimes_runs_are_those_of_weibulls_rounded_up():
    random = np.random.default_rng(1)
    for kind, (scale, logit, by_doubling) in packmime.RUNS.items():
        shape = 1 / (1 + np.exp(-(logit + by_doubling * np.log2(2.0))))
        drawn = np.ceil(scale * random.weibull(shape, 400_000))
        assert packmime.mean_run(kind, 2.0) == pytest.approx(drawn.mean(), rel=0.01)
    assert 0.71 < packmime.share_of_downloads(2.0) < packmime.share_of_downloads(5.0) < 0.73


def test_web_objects_end_with_the_run():
    asked = experiments.dynamic_experiment(paper.STUDY.case(paper.DYNAMIC_CODEL), 300.0, 1)
    web = asked.flow_table[asked.flow_table.label == "web"]
    assert len(web) / 300 == pytest.approx(5, rel=0.06)


def test_what_does_not_count_says_why():
    claims = load_claims("codel").claims
    assert [claim.id for claim in claims if claim.control_weakness] == ["new-control-point"]


# Whose packets are dropped.


@pytest.mark.parametrize("queue", ["codel", "red", "codel of 10 packets"])
def test_drops_by_source_are_as_many_as_the_link_counts_and_as_the_senders_repeat(queue):
    """The whole run is counted, but for packets that still wait at its end; a sender may repeat a few in vain."""
    measured = run(queue, rate_mbps=10.0, round_trip_ms=30.0, static_s=20.0)
    drops = edge.drops_by_source(measured, experiments.PORT, 10.0)
    assert list(drops.index) == list(experiments.SENDERS)
    assert drops.dropped.sum() > 50
    assert drops.dropped.sum() == pytest.approx(dropped(measured), abs=5)
    repeated = measured.flows.set_index("source").retransmitted_packets[list(experiments.SENDERS)]
    assert np.all(np.abs(drops.dropped - repeated) <= 5 + 0.1 * repeated)


def test_drops_by_source_of_a_part_of_the_run_are_no_more_than_of_the_whole():
    measured = run("codel", rate_mbps=10.0, round_trip_ms=30.0, static_s=20.0)
    whole, late, never = (
        edge.drops_by_source(measured, experiments.PORT, 10.0, since_s) for since_s in (0.0, 5.0, 19.99)
    )
    assert np.all((late <= whole) & (late >= 0))
    assert 0 < late.dropped.sum() < whole.dropped.sum()
    assert never.dropped.sum() <= 3


def test_the_index_of_drops_is_one_where_all_lose_the_same_share():
    def index(came, dropped):
        return edge.fairness(pd.DataFrame({"came": came, "dropped": dropped}))

    assert index([100, 200, 400], [1, 2, 4]) == pytest.approx(1)
    assert index([100, 100, 100, 100], [7, 0, 0, 0]) == pytest.approx(1 / 4)
    assert index([100, 100], [1, 3]) == pytest.approx(16 / 20)
    assert np.isnan(index([100, 100], [0, 0]))


def test_links_with_few_drops_do_not_rank_the_schemes():
    def table(*rows):
        return pd.DataFrame(rows, columns=["drop_fairness", "dropped"])

    rank = edge.fairer("codel", "red")
    assert rank(table((0.9, 50), (0.1, 39)), table((0.8, 50), (0.9, 500))) == ["codel", "red"]
    assert rank(table((0.7, 50), (0.9, 39)), table((0.8, 50), (0.1, 500))) == ["red", "codel"]
    assert rank(table((0.8, 50)), table((0.8, 50))) == ["red", "codel"]
    assert rank(table((0.9, 10)), table((0.1, 10))) == ["red", "codel"]


def at_edge(case: str, rate: float, **changed):
    (setting,) = [
        point.setting
        for point in points({case: paper.CASES[case]}, experiments.Setting())
        if point.swept["edge_mbps"] == rate
    ]
    return replace(setting, **{"edge_s": 60.0} | changed)


def test_the_edge_has_thirteen_packets_of_buffer_before_both_directions_and_its_own_packets():
    """Section "Consumer edge", and codel.tcl: a path of 100 ms; packets of 500 bytes below 1 Mb/s."""
    for rate, size in ((0.512, 500), (1.5, 1514)):
        asked = experiments.edge_experiment(at_edge(edge.EDGE_TAIL, rate), 0.0, 1)
        for port in (experiments.PORT, experiments.BACK):
            link = asked.topology.link(*port)
            assert (link.rate_mbps, link.queue) == (rate, DropTail(packets=13))
        assert asked.tcp.segment_bytes + experiments.HEADERS_BYTES == size
        assert 13 * size * 8 / rate / 1e3 == pytest.approx(100, rel=0.06)  # ms
        assert asked.tcp.delayed_ack_ms == 0


def test_uploads_are_of_a_megabyte_with_pauses_of_five_to_fifteen_seconds():
    setting = at_edge(edge.EDGE_CODEL, 1.5, edge_s=600.0)
    measured = run_experiment(experiments.edge_experiment(setting, 0.0, 3))
    uploads = measured.requests.sort_values("request")
    assert list(uploads.server.unique()) == ["h8"] and list(uploads.client.unique()) == ["h4"]
    done = uploads.dropna()
    pauses = uploads.asked_s.to_numpy()[1:][: len(done)] - done.answered_s.to_numpy()[: len(uploads) - 1]
    assert len(done) > 25
    assert pauses == pytest.approx(edge.LEAST_PAUSE_S, abs=0.01)  # and the answer is up to 10 s late:
    least_s = edge.UPLOAD_BYTES * 8e-6 / 1.5
    late = done.completion_ms / 1e3 - least_s
    assert late.min() > 0.1 and 3.5 < late.median() < 8.5 and late.max() < 14
    calls = measured.flows[measured.flows.label == "call"]
    assert sorted(calls.source) == ["h3", "h7"] and calls.goodput_mbps.max() <= 0.0641


def test_codel_that_never_drops_is_drop_tail_at_the_edge_too():
    never, tail, ours = (
        read_once(paper.STUDY, at_edge(case, 0.512))["edge"]
        for case in (paper.EDGE_NEVER, edge.EDGE_TAIL, edge.EDGE_CODEL)
    )
    pd.testing.assert_frame_equal(never, tail)
    assert np.all(ours.median_ms < tail.median_ms)


def test_the_edges_table_is_of_what_the_ports_saw():
    setting = at_edge(edge.EDGE_TAIL, 0.512)
    measured = run_experiment(experiments.edge_experiment(setting, 0.0, 3))
    table = experiments.read_edge(measured, setting)["edge"].set_index("direction")
    links = measured.links_by_port
    for direction, port in zip(edge.DIRECTIONS, (experiments.PORT, experiments.BACK), strict=True):
        link = links.loc[port]
        assert table.sent_mb[direction] / 5 == pytest.approx(link.sent_bytes / 1e6, abs=0.002)  # 60 s of 300
        share = link.dropped_packets / (link.dropped_packets + link.sent_packets)
        assert table.dropped_percent[direction] == pytest.approx(100 * share)
        drops = edge.drops_by_source(measured, port, 0.512)
        assert len(drops) == 4 and drops.dropped.sum() == pytest.approx(link.dropped_packets, abs=3)


def test_ratios_of_the_edge_are_taken_link_by_link():
    def table(*values):
        return pd.DataFrame([(*link, value) for link, value in zip(edge.LINKS, values, strict=True)]).set_axis(
            ["edge_mbps", "direction", "median_ms"], axis=1
        )

    ours, baseline = table(1.0, 2.0, 3.0, 4.0), table(2.0, 2.0, 12.0, 8.0)[::-1]
    assert edge.ratio("median_ms", lambda ratios: ratios[1.5, "download"])(ours, baseline) == 0.25
    assert edge.ratio("median_ms", max)(ours, baseline) == 1
    assert edge.ratio("median_ms", pd.Series.mean)(ours, baseline) == pytest.approx(2.25 / 4)


def test_the_published_table_has_the_ratios_that_the_claims_have():
    """The article prints C/T beside C and T; claims take it where it is not rounded away."""
    rows = edge.published()
    theirs = rows.loc["codel"] / rows.loc["drop tail"]
    claims = {claim.id: claim.published for claim in load_claims("codel").claims}
    assert len(rows) == 8
    for name, column in {"drops": "dropped_percent", "delay": "median_ms"}.items():
        for rate, direction in edge.LINKS:
            claim = claims.get(f"edge-{name}-{direction}-{rate * 1000:.0f}")
            assert claim is None or claim == pytest.approx(theirs.loc[(rate, direction), column], abs=0.01)
    assert theirs.dropped_percent.max() == claims["edge-drops-no-more"]
    assert theirs.sent_mb.mean() == pytest.approx(claims["edge-bytes"], abs=0.01)


# The kernel's CoDel, in virtual time.

THERE = {"static_s": 8.0} | paper.LINUX


def on_kernel(case: str, seconds: float = 18.0, tier: str = "virtual", **changed):
    setting = paper.STUDY.case(case)
    there = {name: value for name, value in THERE.items() if hasattr(setting, name)}
    setting = replace(setting, **(there | changed))
    return run_experiment(paper.STUDY.part_of(setting).experiment(setting, seconds, 3), tier), setting


def read_there(case: str, tier: str = "virtual", **changed):
    return experiments.read(*on_kernel(case, tier=tier, **changed))


def test_the_kernel_refuses_the_rules_and_the_red_that_it_has_not():
    scale = paper.STUDY.scale("quick", "virtual")
    wanted = points(
        {name: changes for name, changes in paper.CASES.items() if name not in scale.without},
        experiments.Setting(),
        scale,
    )
    refused = {point.case: why for point in wanted if (why := paper.STUDY.why_not(point, "virtual", 6.0))}
    assert set(refused) == {paper.NS2, paper.LOW_RED}
    assert all("variant" in why for why in refused.values())


def test_linuxs_red_is_that_of_ns2_but_for_what_linux_has_not():
    ns2, linux = (experiments.queue_of(experiments.Setting(queue="red", red=red)) for red in ("ns2", "linux"))
    assert ns2.gentle and ns2.wait and ns2.by_bytes and not (linux.gentle or linux.wait or linux.by_bytes)
    fast = [
        experiments.queue_of(experiments.Setting(rate_mbps=100.0, queue="red", red=red)) for red in ("ns2", "linux")
    ]
    for threshold in ("min_threshold_packets", "max_threshold_packets"):  # the same bytes on a fast link
        ours, theirs = (getattr(queue, threshold) * queue.mean_packet_bytes for queue in fast)
        assert ours == pytest.approx(theirs)
    assert not ns2.adaptive and not linux.adaptive and linux.variant == "linux"


def test_codel_of_a_device_spares_its_greatest_packet():
    assert experiments.queue_of(experiments.Setting(packet_bytes=500, least_bytes=1514)).least_bytes == 1514
    assert experiments.queue_of(experiments.Setting(packet_bytes=500)).least_bytes == 500


def test_claims_of_the_whole_300_s_are_not_judged_by_less():
    quick, whole = (paper.STUDY.scale(profile, "virtual") for profile in ("quick", "paper"))
    assert set(quick.unjudged) == {*paper.OF_LONG_STAYS, *paper.OF_NS2_RED, *paper.OF_UPLOADS}
    assert set(quick.unjudged) <= set(paper.STUDY.claims)
    assert quick.seconds < 300 == whole.seconds and whole.unjudged == paper.OF_NS2_RED


@needs_virtual
def test_the_kernels_codel_says_the_same_of_the_same_seed():
    once, again = (read_there("codel", rate_mbps=10.0, round_trip_ms=100.0, static_s=4.0) for _ in range(2))
    assert once.numbers == again.numbers and once["median_ms"] > 0


@needs_virtual
def test_the_kernels_codel_that_never_drops_is_its_drop_tail_packet_by_packet():
    packets = [on_kernel(case, count_drops=False)[0].packets for case in (paper.NEVER, paper.DYNAMIC_TAIL)]
    pd.testing.assert_frame_equal(*packets)
    assert not on_kernel(paper.DYNAMIC_CODEL, count_drops=False)[0].packets.equals(packets[0])


@needs_virtual
def test_the_kernel_is_near_the_simulator_where_no_setting_differs():
    """Seen at 10 Mb/s and 100 ms: the median waits of CoDel 17 % apart, those of its control 5 %, bytes 3 %."""
    at = {"rate_mbps": 10.0, "round_trip_ms": 100.0}
    for case, median, utilisation in (("codel", 0.35, 0.06), ("unresponsive", 0.12, 0.002), ("drop tail", 0.02, 0.002)):
        kernel, ours = (read_there(case, tier, **at) for tier in ("virtual", "simulated"))
        assert kernel["median_ms"] == pytest.approx(ours["median_ms"], rel=median), case
        assert kernel["utilisation"] == pytest.approx(ours["utilisation"], rel=utilisation), case
        assert kernel["drop_share"] == pytest.approx(ours["drop_share"], rel=0.25, abs=0.01), case


@needs_virtual
def test_unresponsive_load_breaks_the_delay_bound_of_the_kernels_codel_too():
    calm, broken = (read_there(case, rate_mbps=10.0, round_trip_ms=100.0) for case in ("codel", "unresponsive"))
    assert calm["median_ms"] < 10 < 50 < broken["median_ms"]
    assert broken["drop_share"] == pytest.approx(1 / 6, abs=0.015)


@needs_virtual
def test_the_kernels_link_follows_the_schedule():
    """Drop tail keeps the link busy: each sixth of the run sends what its rate can, to 2 %."""
    packets = on_kernel(paper.DYNAMIC_TAIL, buffer_packets=4000)[0].packets.query("source == 's1' and time_s > 3")
    sent_mbps = packets.groupby((packets.time_s // 3).astype(int)).size_bytes.sum() * 8e-6 / 3
    assert list(sent_mbps) == pytest.approx(list(experiments.SCHEDULE_MBPS[1:]), rel=0.02)


@needs_virtual
def test_the_kernels_edge_is_near_the_simulators():
    """Seen over 60 s: medians within 4 ms (a packet lasts 8), megabytes 4 % apart, drops less than a point."""
    for case in (edge.EDGE_CODEL, edge.EDGE_TAIL):
        setting = replace(at_edge(case, 0.512), **paper.LINUX)
        kernel, ours = (
            experiments.read_edge(run_experiment(experiments.edge_experiment(setting, 0.0, 3), tier), setting)[
                "edge"
            ].set_index("direction")
            for tier in ("virtual", "simulated")
        )
        assert list(kernel.median_ms) == pytest.approx(list(ours.median_ms), abs=8), case
        assert kernel.sent_mb["download"] == pytest.approx(ours.sent_mb["download"], rel=0.08), case
        assert list(kernel.dropped_percent) == pytest.approx(list(ours.dropped_percent), abs=1.5), case
