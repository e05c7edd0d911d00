"""RepNet's experiments: path diversity, what the schemes gain and where not, and the claims with their controls."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netrepro.claims import judge, load_claims
from netrepro.emulation.plan import BURST_S, PACKET_BURST_BYTES
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.links import SharedBuffer
from netrepro.networks.workloads import Flow
from netrepro.papers import _bucket_sort
from netrepro.papers import repnet as paper
from netrepro.papers._repnet_library import emulate_with_library
from netrepro.papers._repnet_sorting import Sort, emulate_sort, simulate_sort
from netrepro.simulation import simulate
from netrepro.transport import open_connection, start_server

SMALL = replace(
    paper.scale("quick"),
    flows=400,
    fewer_flows=400,
    oversubscribed_flows=200,
    fat_tree_flows=120,
    incast_mice=50,
    knob_flows=400,
    loads=(0.1, 0.2, 0.4, 0.5),
    fat_tree_loads=(0.1, 0.4, 0.6, 0.8),
    probes=300,
    path_s=6.0,
    loopback_flows=10,
)


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(SMALL, 2, 1)


@pytest.fixture(scope="module")
def probed() -> pd.DataFrame:
    return paper.probe_congestion(600, 2, 1)


@pytest.fixture(scope="module")
def trips() -> pd.DataFrame:
    return paper.measure_paths(SMALL.path_s, 2, 1)


def overhead(**means: float) -> pd.DataFrame:
    values = {"tcp": 1.0, "repflow": 1.07, "repsyn": 1.04, "tcp again": 1.0} | means
    rows = [(r, name, mean * (1 + 1e-3 * r), 0.1) for r in range(3) for name, mean in values.items()]
    return pd.DataFrame(rows, columns=["repetition", "scheme", "mean_ms", "deviation_ms"])


def sorting(jobs_of_a_run: int = 24, tier: str = "simulated") -> paper.SortRuns:
    """Jobs of 100 ms and a long tail, which RepSYN halves unless it is broken, and a large memory takes from TCP."""
    random, rows = np.random.default_rng(1), []
    schemes = [("tcp", ""), ("repflow", ""), ("repflow", paper.SAME_PATH), ("repsyn", ""), ("repsyn", paper.SAME_PATH)]
    if tier == "simulated":
        schemes += [("tcp", paper.CROWDED), ("tcp", paper.LARGE)]
    for repetition in range(2):
        for name, control in schemes:
            ours = {("tcp", paper.LARGE): 0.0, ("repflow", ""): 0.2, ("repsyn", ""): 0.2}.get((name, control), 1.0)
            tail = np.where(random.random(jobs_of_a_run) < 0.05, 1200.0, 0.0) * ours
            spread = 30 if control == paper.CROWDED else 1
            took_ms = 100 + random.normal(0, spread, jobs_of_a_run) + tail
            label = {"tier": tier, "scheme": name, "control": control, "repetition": repetition, "start_s": 0.0}
            rows.append(pd.DataFrame({"took_ms": took_ms}).assign(**label))
    jobs = pd.concat(rows, ignore_index=True)
    checks = pd.DataFrame([(tier, "a check", 0.0, 0.0, True)], columns=["tier", "check", "value", "bound", "holds"])
    return paper.SortRuns(jobs, checks)


def measured_claims(runs, probed, trips, overhead, many_jobs: bool = False):
    return paper.measured_claims("simulated", runs, probed, trips, overhead, {}, sorting(6000 if many_jobs else 24))


def test_one_connection_is_congested_a_third_of_the_time_and_both_a_ninth(probed):
    """Section 2.1. 5 standard deviations of 1200 probes."""
    shares = paper.slow_shares(probed).mean(axis=1)
    assert shares["congested", "tcp", 1] == pytest.approx(1 / 3, abs=0.07)
    assert shares["congested", "repflow", 1] == pytest.approx(1 / 9, abs=0.05)
    assert shares["congested", "repsyn", 1] == pytest.approx(1 / 9, abs=0.05)


def test_without_a_congested_path_nothing_is_slow_and_with_one_path_two_connections_are_as_slow_as_one(probed):
    shares = paper.slow_shares(probed)
    assert (shares.loc["idle"] == 0).all(axis=None)
    for name in ("repflow", "repsyn"):
        same, alone = shares.loc["same path", name], shares.loc["congested", "tcp"]
        assert np.allclose(same, alone, atol=0.02)


def test_the_round_trip_of_the_syn_tells_how_the_data_will_fare(probed):
    """Fig. 3: RepSYN avoids the congested path for the data of 100 KB as RepFlow does."""
    shares = paper.slow_shares(probed).mean(axis=1)
    assert shares["congested", "repsyn", paper.MOUSE_BYTES] < 0.5 * shares["congested", "tcp", paper.MOUSE_BYTES]


def test_the_three_paths_share_no_port_and_the_controls_share_all_between_switches():
    paths = [paper._ports_of_path(i, i) for i in range(3)]
    assert len({port for path in paths for port in path}) == 30
    shared = set(paths[0]) & set(paper._ports_of_path(0, 1))
    assert len(shared) == 8
    topology = paper.PRINTED.fat_tree()
    assert all(port in topology.ports for path in paths for port in path)


def test_round_trips_begin_at_the_propagation_there_and_back(trips):
    assert trips.round_trip_ms.min() == pytest.approx(12 * paper.PRINTED.link_delay_ms, abs=0.25)


def test_paths_over_the_same_switches_are_correlated(trips):
    table = paper.correlations(trips).groupby("shares_links").correlation.mean()
    assert table[True] > 0.3 and abs(table[False]) < 0.5 * table[True]


def test_all_schemes_of_a_repetition_get_the_same_flows():
    tables = [
        paper.experiment(paper.Case("1:1", name, 0.3), paper.PRINTED, 200, 7).flow_table for name in paper.SCHEMES
    ]
    columns = ["source", "destination", "start_s", "size_bytes"]
    assert tables[0][columns].equals(tables[1][columns]) and tables[0][columns].equals(tables[2][columns])


def test_only_mice_are_replicated_unless_the_control_asks_for_all():
    case = paper.Case("1:1", "repflow", 0.3)
    table = paper.experiment(case, paper.PRINTED, 200, 7).flow_table
    assert ((table.replication == "repflow") == (table.size_bytes <= paper.MOUSE_BYTES)).all()
    everything = paper.experiment(replace(case, replicate_all=True), paper.PRINTED, 200, 7).flow_table
    assert (everything.replication == "repflow").all()


def test_an_idle_round_trip_is_the_testbeds_178_us():
    """Section 5.1: a ping of 98 bytes over four links and back."""
    setting = paper.PRINTED
    round_trip_ms = 8 * (setting.link_delay_ms + 98 * 8 / (setting.rate_mbps * 1e3))
    assert round_trip_ms == pytest.approx(0.178, abs=0.001)


@pytest.mark.parametrize("network", ["1:1", "2:1"])
def test_the_load_of_the_uplinks_is_the_one_asked_for(network):
    case = paper.Case(network, "tcp", 0.4)
    experiment = paper.experiment(case, paper.PRINTED, 3000, 3)
    flows = experiment.flow_table
    offered = flows.size_bytes.sum() * 8e-6 / flows.start_s.max() / (2 * 3 * paper.PRINTED.rate_mbps)
    assert offered == pytest.approx(0.4, rel=0.15)


def test_every_mouse_of_the_incast_comes_from_eleven_hosts_at_once():
    flows = paper.experiment(paper.Case("incast", "repsyn", 0.2), paper.PRINTED, 40, 5).flow_table
    mice = flows[flows.size_bytes <= paper.MOUSE_BYTES].groupby(["start_s", "destination"])
    assert (mice.size() == 11).all() and (mice.source.nunique() == 11).all() and (mice.size_bytes.nunique() == 1).all()
    elephants = flows[flows.size_bytes > paper.MOUSE_BYTES]
    assert not elephants.duplicated(["start_s"]).any()


def test_size_groups_are_the_rounds_of_slow_start():
    """Fig. 13, with three segments first: 1, 2, 3, 4 and 5 rounds."""
    for size, rounds in ((4380, 1), (4381, 2), (13140, 2), (13141, 3), (30661, 4), (65701, 5), (100_000, 5)):
        assert np.searchsorted(paper.SIZE_GROUPS_BYTES, size, side="left") == rounds
        assert np.ceil(np.log2(np.ceil(size / 1460) / 3 + 1)) == rounds


def test_replication_helps_the_median_under_load_and_not_on_one_path(runs):
    for name in ("repflow", "repsyn"):
        gained = paper.reductions(runs, "median_ms", "1:1", 0.5, name).mean()
        assert gained > 10
        assert paper.reductions(runs, "median_ms", "1:1", 0.5, name, same_path=True).mean() < 0.5 * gained


def test_repflow_aggravates_incast_and_repsyn_does_not(runs):
    """Section 5.2.4; without the software's extra time, which both have."""
    plain = paper.pooled(runs, "median", paper.Case("incast", "tcp", 0.2))
    longer = {
        name: paper.pooled(runs, "median", paper.Case("incast", name, 0.2)) - extra_ms - plain
        for name, extra_ms in (("repflow", 0.49), ("repsyn", 0.32))
    }
    assert longer["repflow"] > 0.1 * plain and longer["repsyn"] < 0.05 * plain


def test_the_ports_of_a_switch_share_its_memory_and_one_alone_takes_700_kb():
    """Alpha over 1 + alpha of 4 MB. Two flows meet at the receiver's port, or at the uplink that both are hashed to."""
    setting, queue = paper.PRINTED, paper.PRINTED.queue
    assert isinstance(queue, SharedBuffer)
    assert queue.bytes * queue.alpha / (1 + queue.alpha) == pytest.approx(700e3, rel=0.01)
    both = tuple(Flow(host, "h4", duration_s=1.0) for host in ("h1", "h2"))
    ports = Measure(queues=(("s2", "h4"), *(("s1", f"s{3 + i}") for i in range(paper.SPINES))), queue_interval_ms=0.5)
    found = simulate(Experiment(setting.leaf_spine(), both, 1.0, 1, ports, setting.tcp))
    assert 600e3 < found.queues["queue_bytes"].max() < 705e3


def test_a_percentile_is_that_of_all_repetitions_together_and_its_spread_the_jackknifes():
    """One run of five at 3 s makes a mean of 600 ms, which no mouse took; together the median is 20 ms."""
    tcp, fast = paper.Case("1:1", "tcp", 0.5), paper.Case("1:1", "repflow", 0.5)
    mice = {tcp: [np.full(9, 40.0)] * 5, fast: [np.full(9, 20.0)] * 4 + [np.full(9, 3000.0)]}
    runs = paper.Runs(pd.DataFrame(), pd.DataFrame(), pd.DataFrame(), mice)
    assert paper.pooled(runs, "median", fast) == 20.0
    gained = paper.pooled_reductions(runs, "median", "1:1", (0.5,), "repflow")
    assert np.allclose(gained, 50.0)
    mean = paper.pooled_reductions(runs, "mean", "1:1", (0.5,), "repflow")
    means = np.array([each.mean() for each in mice[fast]])
    assert mean.mean() == pytest.approx((1 - means.mean() / 40) * 100)
    assert mean.std() == pytest.approx(means.std() / 40 * 100)


def test_nfct_has_the_software_of_a_second_connection_and_the_authors_fat_tree_has_not(runs):
    extra = runs.totals.groupby(["network", "scheme"])["extra_ms"].first()
    assert extra["1:1", "repflow"] == 0.49 and extra["1:1", "repsyn"] == 0.32 and extra["1:1", "tcp"] == 0
    assert extra["fat-tree", "repflow"] == 0


def test_times_are_folded_as_the_authors_script_does():
    mice = {paper.Case("1:1", name, 0.5): [np.array([20.0, 3007.0])] for name in paper.SCHEMES}
    runs = paper.Runs(pd.DataFrame(), pd.DataFrame(), pd.DataFrame(), mice)
    table = paper.folded(runs)
    assert table.loc["tcp", "p99.9, folded (ms)"] == pytest.approx(157, abs=0.2)
    assert (table["3 s or more (%)"] == 50).all()


def test_elephants_do_not_notice_the_copies_of_mice_but_would_notice_their_own(runs):
    assert np.all(paper._elephants(runs, replicate_all=False) > 0.8)
    assert np.all(paper._elephants(runs, replicate_all=True) < 0.6)


def test_in_a_multipath_flow_the_bytes_are_spread_and_with_one_subflow_it_is_plain():
    case = paper.Case("2:1", "mptcp", 0.3)
    spread, plain = (
        paper.experiment(replace(case, same_path=one), paper.PRINTED, 100, 7).flow_table for one in (False, True)
    )
    assert (spread["subflows"] == paper.SUBFLOWS).all() and (plain["subflows"] == 1).all()
    assert spread[["source", "destination", "size_bytes", "start_s"]].equals(
        plain[["source", "destination", "size_bytes", "start_s"]]
    )


def test_percentiles_of_few_mice_are_no_claims(runs, probed, trips):
    claims = {each.claim for each in measured_claims(runs, probed, trips, overhead())}
    assert "congested-both-paths" in claims
    assert not claims & {
        "repflow-median",
        "repflow-p99",
        "repflow-p999",
        "incast-repsyn-p99",
        "mptcp-p999",
        "equal-by-size",
        "little-at-low-load",
        "longer-median-at-0.1-repsyn",
        "repflow-ahead-p99",
        "fat-tree-from-0.4-repflow",
    }


def test_a_median_of_few_elephants_is_no_claim(runs, probed, trips):
    few = replace(runs, totals=runs.totals.assign(elephants=9))
    with_claim, without = (
        {each.claim for each in measured_claims(each, probed, trips, overhead())} for each in (runs, few)
    )
    assert with_claim - without == {"elephants-unaffected"}


def test_the_paper_profile_is_large_enough_for_every_claim(runs, probed, trips):
    """By the mice that its numbers of flows stand for; the measured values are those of the small runs."""
    large, share = paper.scale("paper"), paper.PRINTED.sizes.share_of_flows_below(paper.MOUSE_BYTES)
    rows = runs.totals.apply(lambda row: large.flows_of(paper.Case(row["network"], row["scheme"], row["load"])), axis=1)
    group = np.diff(paper.PRINTED.sizes.cdf(np.array(paper.SIZE_GROUPS_BYTES))).min()
    mice = np.where(runs.totals["network"] == "incast", rows * paper.INCAST_SENDERS, rows * share)
    assumed = replace(runs, totals=runs.totals.assign(mice=mice, smallest_group=rows * group))
    measured = {each.claim for each in measured_claims(assumed, probed, trips, overhead(), many_jobs=True)}
    assert measured == {claim.id for claim in load_claims("repnet").claims}


def test_every_claim_is_measured_with_its_control(runs, probed, trips):
    claims = load_claims("repnet")
    many = replace(runs, totals=runs.totals.assign(mice=10**6, smallest_group=10**6))
    measured = measured_claims(many, probed, trips, overhead(), many_jobs=True)
    assert {each.claim for each in measured} == {claim.id for claim in claims.claims}
    for each in measured:
        has_control = bool(each.control) or each.control_trials is not None
        assert has_control == (claims.claim(each.claim).control is not None), each.claim
    verdicts = {each.claim: judge(claims.claim(each.claim), each, "simulated").verdict for each in measured}
    assert verdicts["overhead-repflow"] == verdicts["overhead-repsyn"] == "agrees"


def test_a_costly_library_is_noticed(runs, probed, trips):
    claims = load_claims("repnet")
    measured = {m.claim: m for m in measured_claims(runs, probed, trips, overhead(repflow=2.0))}
    verdict = judge(claims.claim("overhead-repflow"), measured["overhead-repflow"], "simulated").verdict
    assert verdict == "disagrees"  # a cost of several times the published one is no agreement in direction


def test_runs_that_fail_a_check_are_untrusted(runs, probed, trips):
    broken, jobs = (replace(each, fidelity=each.fidelity.assign(holds=False)) for each in (runs, sorting(24)))
    claims = load_claims("repnet")
    for measured in paper.measured_claims("simulated", broken, probed, trips, overhead(), {}, jobs):
        assert judge(claims.claim(measured.claim), measured, "simulated").verdict == "untrusted"


def test_mice_that_never_finish_fail_the_check_and_count_as_slow():
    found = simulate(paper.experiment(paper.Case("1:1", "tcp", 0.3), paper.PRINTED, 200, 2))
    assert paper.check_fidelity(found).holds.all()
    mouse = found.flows.index[found.flows.size_bytes <= paper.MOUSE_BYTES][0]
    flows = found.flows.copy()
    flows.loc[mouse, "completion_ms"] = np.nan
    endless = replace(found, flows=flows)
    assert not paper.check_fidelity(endless).holds.all()
    row, _, _ = paper._summary(endless, paper._ideal_ms(paper.PRINTED, "leaf-spine"))
    assert row["unfinished"] == 1 and row["p999_ms"] > 5000


def test_the_model_is_drawn_for_the_schemes_that_it_knows(runs):
    table = paper.predicted(runs).set_index(["scheme", "load"])["formula"]
    assert table["repflow"][0.5] < table["tcp"][0.5] and table["repsyn"].isna().all()


def test_the_same_seed_gives_the_same_runs_on_any_number_of_threads():
    case = [paper.Case("1:1", "repflow", 0.2)]
    first, again = (paper.measure(SMALL, 2, 4, only=case, n_jobs=n) for n in (1, 2))
    assert first.totals.equals(again.totals) and first.curves.equals(again.curves)


def test_real_flows_cross_the_loopback_with_every_scheme():
    table = paper.measure_overhead(5, 2)
    assert set(table.scheme) == {"tcp", "repflow", "repsyn", "tcp again"} and (table.mean_ms > 0).all()


def test_an_experiment_survives_json():
    experiment = paper.experiment(paper.Case("fat-tree", "repsyn", 0.3, same_path=True), paper.PRINTED, 10, 1)
    assert Experiment.from_json(experiment.to_json()) == experiment


@pytest.fixture(scope="module")
def scaled() -> dict[str, paper.Runs]:
    return paper.measure_scaled(replace(SMALL, scaled_s=4.0), 2, 1)


def test_the_scaled_testbed_has_its_load_and_its_mice():
    found = paper.scaled_experiment(paper.Case("scaled", "repsyn", 0.5), 2000.0, 3).flow_table
    elephants = found[found.size_bytes > paper.MOUSE_BYTES]
    offered_mbps = elephants.size_bytes.sum() * 8e-6 / elephants.start_s.max() / 2
    assert offered_mbps == pytest.approx(0.5 * 60, rel=0.1)
    mice = found[found.size_bytes <= paper.MOUSE_BYTES]
    assert len(mice) == 2000 * paper.SCALED_MICE_PER_S
    assert (mice.replication == "repsyn").all() and (elephants.replication == "").all()


def test_on_one_simulated_path_the_scaled_testbed_treats_tcp_as_without_the_control(scaled):
    totals = scaled["simulated"].totals.set_index(["scheme", "same_path", "repetition"]).sort_index()["median_ms"]
    assert totals["tcp", True].equals(totals["tcp", False])


def test_a_tier_table_has_a_row_a_scheme_and_control(scaled):
    table = paper.tier_table(scaled)
    assert len(table) == 6 and table["trusted, simulated"].all()


def test_the_messages_of_bucket_sort_are_the_numbers_in_the_order_of_a_scan():
    numbers = np.random.default_rng(1).integers(0, 65_536, 3000)
    sent = list(_bucket_sort.messages(numbers, 11))
    for slave in range(11):
        mine = [int(line) for place, text in sent if place == slave for line in text.split()]
        assert mine == [n for n in numbers.tolist() if n * 11 // 65_536 == slave]
    full = [len(text.split()) for _, text in sent]
    assert max(full) == 20 and sum(full) == 3000 and sum(size < 20 for size in full) <= 11
    # A scan that has filled a message has read all of its numbers, and no later message was full before it.
    places = {}
    for place, number in enumerate(numbers.tolist()):
        places.setdefault(number, []).append(place)
    last = [max(places[int(line)][0] for line in text.split()) for _, text in sent if len(text.split()) == 20]
    assert np.mean(np.diff(last) > 0) > 0.95


@pytest.mark.parametrize("name", paper.SCHEMES)
def test_bucket_sort_sorts_over_real_sockets(name):
    async def test() -> bytes:
        server: Any = await (asyncio.start_server if name == "tcp" else start_server)(
            _bucket_sort.sort_bucket, "127.0.0.1", 0
        )
        port = server.sockets[0].getsockname()[1]
        connect: Any = asyncio.open_connection if name == "tcp" else partial(open_connection, mode=name)
        streams = [await connect("127.0.0.1", port) for _ in range(5)]
        sorted_text = await _bucket_sort.sort(numbers, streams)
        server.close()
        return sorted_text

    numbers = np.random.default_rng(2).integers(0, 65_536, 4000)
    assert asyncio.run(test()) == _bucket_sort.as_text(np.sort(numbers))


def test_simulated_answers_start_when_the_numbers_are_there():
    """A single job over an idle network: the slowest slave's numbers, and its answer."""
    job = Sort(paper.SORTED.leaf_spine(2), paper.SORTED.tcp, "tcp", 2000, 1000, 0.0)
    jobs, checks = simulate_sort(job, 1, 5)
    assert len(jobs) == 12 and checks.holds.all()
    bytes_of_a_job = len(_bucket_sort.as_text(np.random.default_rng(1).integers(0, 65_536, 2000)))
    both_ways_ms = 2 * bytes_of_a_job * 8 / (paper.SORTED.rate_mbps * 1e3)
    assert (jobs.took_ms > both_ways_ms).all() and (jobs.took_ms < 6 * both_ways_ms).all()
    again, _ = simulate_sort(job, 1, 5)
    assert again.equals(jobs)


def test_a_tail_that_both_connections_share_is_no_gain_for_bucket_sort():
    claims = load_claims("repnet")
    measured = {each.claim: each for each in paper._sorting_claims(sorting(6000))}
    assert set(measured) == {claim.id for claim in claims.claims if claim.id.startswith("sort-")}
    verdict = judge(claims.claim("sort-repsyn-p99"), measured["sort-repsyn-p99"], "simulated")
    assert verdict.verdict == "agrees" and verdict.counts
    few = {each.claim for each in paper._sorting_claims(sorting())}
    assert few == {"sort-repflow-median", "sort-repsyn-median", "sort-most-in-5-ms"}


def test_on_real_kernels_only_what_ran_there_is_claimed(runs, probed, trips, scaled):
    jobs = sorting(tier="rootless")

    def measured(there: paper.Runs) -> dict[str, Any]:
        tiers = {"simulated": scaled["simulated"], "rootless": there}
        found = paper.measured_claims("rootless", runs, probed, trips, overhead(), tiers, jobs)
        return {each.claim: each for each in found}

    few = scaled["simulated"]
    many = replace(few, totals=few.totals.assign(mice=10**6))
    anyway = {"overhead-repflow", "overhead-repsyn", "sort-repflow-median", "sort-repsyn-median"}
    assert set(measured(few)) == anyway and set(measured(many)) == anyway | set(paper.SCALED_REDUCTIONS)
    broken = replace(many, fidelity=many.fidelity.assign(holds=False))
    assert measured(broken)["repflow-median"].trusted is False


def _tier_of_kernels() -> str:
    tier = probe_tiers().best
    if tier == "simulated":
        pytest.skip("needs user namespaces")
    return tier


def test_the_library_carries_mice_through_real_kernels_and_a_path_less_changes_nothing_but_the_path():
    tier = _tier_of_kernels()
    planned = paper.scaled_experiment(paper.Case("scaled", "repflow", 0.2), 2.0, 1)
    for hash_ports in (True, False):
        found = emulate_with_library(planned, paper.MOUSE_BYTES, tier, hash_ports=hash_ports)
        mice = found.flows[found.flows.size_bytes <= paper.MOUSE_BYTES]
        assert len(found.flows) == len(planned.flow_table) and mice.completion_ms.notna().all()
        # A kernel's shaper that was idle lets its bucket pass at once.
        bytes_per_ms = paper.SCALED.rate_mbps * 125
        bucket_bytes = PACKET_BURST_BYTES + bytes_per_ms * 1e3 * BURST_S
        assert (mice.completion_ms > (mice.size_bytes - bucket_bytes) / bytes_per_ms).all()


@pytest.mark.parametrize("name", ["tcp", "repflow"])
def test_every_host_sorts_through_real_kernels(name):
    tier = _tier_of_kernels()
    job = Sort(paper.SORTED.leaf_spine(1), paper.SORTED.tcp, name, 500, 100, 0.1)
    jobs, checks = emulate_sort(job, 2.0, 1, tier)
    assert len(jobs) >= 6 and (jobs.took_ms > 0).all()
    assert checks.set_index("check").loc["arrays that came out sorted", "holds"]


def test_figures_are_drawn_from_any_scale(runs, probed, trips, scaled):
    figures = [
        paper.draw_network(),
        paper.draw_round_trips(trips),
        paper.draw_correlations(trips),
        paper.draw_probes(probed),
        paper.draw_multipath(runs),
        paper.draw_loads(runs, "2:1", "2:1"),
        paper.draw_prediction(paper.predicted(runs)),
        paper.draw_by_size(runs),
        paper.draw_incast(runs),
        paper.draw_elephants(runs),
        paper.draw_overhead(overhead()),
        paper.draw_fat_tree(runs),
        paper.draw_control(runs),
        paper.draw_tiers(scaled),
        paper.draw_tiers(scaled | {"rootless": scaled["simulated"]}),
        paper.draw_sorting(sorting()),
        paper.draw_knobs(paper.vary(SMALL, 1, memories=((1000, 0.21), (4000, 1.0)))),
    ]
    assert all(figure.axes for figure in figures)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.scale("papr")
    with pytest.raises(NetreproError, match="did you mean 'repsyn'"):
        paper.experiment(paper.Case("1:1", "repsin", 0.2), paper.PRINTED, 10, 1)
    with pytest.raises(NetreproError, match="no network"):
        paper.experiment(paper.Case("3:1", "tcp", 0.2), paper.PRINTED, 10, 1)
