"""RepNet's experiments: path diversity, what the schemes gain and where not, and the claims with their controls."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.applications.bucket_sort.guest import NUMBER_BYTES
from netrepro.applications.bucket_sort.run import simulate_sort
from netrepro.applications.repnet.run import emulate_with_library
from netrepro.claims import judge, load_claims
from netrepro.emulation.plan import BURST_S, PACKET_BURST_BYTES
from netrepro.emulation.tiers import probe_tiers
from netrepro.emulation.virtual.experiment import check_virtually
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure
from netrepro.networks.links import SharedBuffer
from netrepro.networks.workloads import Flow
from netrepro.papers.repnet import figures, measuring, study
from netrepro.papers.repnet import setting as model
from netrepro.papers.repnet.setting import MOUSE_BYTES, SCALED, SCHEMES, FatTree, Incast, Setting, Sorting
from netrepro.simulation import simulate
from netrepro.study import HOST_DELAY_PACKETS, SIMULATED, VIRTUAL, Runs, check_table, measure
from netrepro.study.declaration import points

STUDY = study.STUDY
PRINTED = Setting()
SMALL = replace(STUDY.scales["test"], without=[*study.of_network("sort"), *study.AT_FULL_RATE])


@pytest.fixture(scope="module")
def runs() -> Runs:
    """Every load of every claim, with few flows; bucket sort has tests of its own."""
    return measure(replace(STUDY, scales={"test": SMALL}, claims={}, on_kernels={}), profile="test", seed=1)


def flows_of(setting: Setting, seed: int, count: int) -> pd.DataFrame:
    """The flows of the experiment with so many for each scheme."""
    return made(setting, seed, count).flow_table


def made(setting: Setting, seed: int, count: int) -> Experiment:
    numbers = dict.fromkeys(("flows", "fewer_flows", "oversubscribed_flows"), count)
    return model.experiment(replace(setting, **numbers), 0.0, seed)


def value(runs: Runs, claim: str, control: bool = False) -> float:
    """The mean of what a claim's evidence (or its control) makes of the runs."""
    evidence = STUDY.claims[claim]
    if control:
        assert evidence.broken is not None
        evidence = evidence.broken
    return float(np.mean(runs.values_of(evidence)))


def packed(*runs_ms: list[float]) -> dict[int, pd.DataFrame]:
    """The rows of mice_times of a case at load .5, a repetition after the other."""
    rows = [{"load": 0.5, "took_ms": base64.b64encode(np.array(took_ms).tobytes())} for took_ms in runs_ms]
    return {repetition: pd.DataFrame([row]) for repetition, row in enumerate(rows)}


def jobs(jobs_of_a_run: int, network: str = "sort", tier: str = SIMULATED) -> Runs:
    """Runs of bucket sort whose jobs take 100 ms and have a long tail, which RepNet halves unless it is broken, and a
    large memory takes from TCP."""
    random, rows = np.random.default_rng(1), []
    for repetition in range(2):
        for case in study.of_network(network):
            ours = 0.0 if "memory" in case else 0.2 if case.endswith(("repflow", "repsyn")) else 1.0
            tail = np.where(random.random(jobs_of_a_run) < 0.05, 1200.0, 0.0) * ours
            took_ms = 100 + random.normal(0, 0 if "alone" in case else 1, jobs_of_a_run) + tail
            label = {"tier": tier, "case": case, "repetition": repetition, "load": 0.5, "size_bytes": 1, "start_s": 0.0}
            rows.append(pd.DataFrame({"took_ms": took_ms}).assign(**label))
    table = pd.concat(rows, ignore_index=True)
    values = table.groupby(["tier", "case", "repetition"], as_index=False)[["load", "size_bytes"]].first()
    checks = check_table([]).assign(tier="")
    return Runs(STUDY, PRINTED, tier, "paper", 1, 2, 0.0, values, {"jobs": table}, checks)


def test_one_connection_is_congested_a_third_of_the_time_and_both_a_ninth(runs):
    """Section 2.1. 4 standard deviations of 600 probes."""
    share = slow_shares(runs)[1].groupby("case").mean()
    assert share["probes tcp"] == pytest.approx(1 / 3, abs=0.08)
    assert share["probes repflow"] == pytest.approx(1 / 9, abs=0.06)
    assert share["probes repsyn"] == pytest.approx(1 / 9, abs=0.06)


def slow_shares(runs: Runs) -> pd.DataFrame:
    """A row a case and repetition, a column a size of probes."""
    return runs.values.pivot_table(index=["case", "repetition"], columns="size_bytes", values="slow_share")


def test_without_a_congested_path_nothing_is_slow_and_with_one_path_two_connections_are_as_slow_as_one(runs):
    shares = slow_shares(runs)
    assert (shares.loc["probes tcp, idle"] == 0).all(axis=None)
    for name in ("repflow", "repsyn"):
        assert np.allclose(shares.loc[f"probes {name}, same path"], shares.loc["probes tcp"], atol=0.02)


def test_the_round_trip_of_the_syn_tells_how_the_data_will_fare(runs):
    """Fig. 3: RepSYN avoids the congested path for the data of 100 KB as RepFlow does."""
    share = slow_shares(runs)[MOUSE_BYTES].groupby("case").mean()
    assert share["probes repsyn"] < 0.5 * share["probes tcp"]


def test_the_three_paths_share_no_port_and_the_controls_share_all_between_switches():
    paths = model.paths_of_fat_tree()
    assert len({port for name in "123" for port in paths[name]}) == 30
    assert all(len(set(paths["1"]) & set(paths[name])) == 8 for name in ("1b", "1c"))
    assert all(port in PRINTED.fat_tree().ports for path in paths.values() for port in path)


def test_round_trips_begin_at_the_propagation_there_and_back(runs):
    least_ms = runs.tables["round_trips"]["round_trip_ms"].min()
    assert least_ms == pytest.approx(12 * PRINTED.link_delay_ms, abs=0.25)


def test_paths_over_the_same_switches_are_correlated(runs):
    apart, together = value(runs, "paths-uncorrelated"), value(runs, "paths-uncorrelated", control=True)
    assert together > 0.3 and abs(apart) < 0.5 * together


def test_all_schemes_share_one_network_and_alone_they_get_the_same_flows():
    mixed = [made(Setting(scheme=name, load=0.3), 7, 200) for name in SCHEMES]
    assert mixed[0] == mixed[1] == mixed[2]
    columns = ["source", "destination", "start_s", "size_bytes"]
    for name in SCHEMES:
        alone = flows_of(Setting(scheme=name, load=0.3, alone=True), 7, 600)
        assert alone[columns].equals(mixed[0].flow_table[columns])


def test_a_third_of_the_mice_takes_each_scheme_and_no_other_flow_is_replicated():
    table = flows_of(Setting(), 7, 3000)
    mice = table[table.size_bytes <= MOUSE_BYTES]
    shares = mice.label.value_counts(normalize=True)
    assert set(shares.index) == set(SCHEMES) and shares.between(0.3, 0.37).all()
    assert (mice.replication == mice.label.where(mice.label != "tcp", "")).all()
    assert (table[table.size_bytes > MOUSE_BYTES].replication == "").all()


def test_only_mice_are_replicated_unless_the_control_asks_for_all():
    table = flows_of(STUDY.case("1:1 repflow, alone"), 7, 200)
    assert ((table.replication == "repflow") == (table.size_bytes <= MOUSE_BYTES)).all()
    everything = flows_of(STUDY.case("1:1 repflow, all twice"), 7, 200)
    assert (everything.replication == "repflow").all()


@pytest.mark.parametrize(("gaps", "least", "deviation"), [("uniform", 0.5, 1 / 12**0.5), ("poisson", 0.0, 1.0)])
def test_the_flows_of_a_host_come_at_even_gaps_or_at_those_of_a_poisson_process(gaps, least, deviation):
    table = flows_of(Setting(gaps=gaps), 7, 3000)
    gaps_s = table.groupby("source").start_s.diff().dropna()
    assert gaps_s.min() >= least * gaps_s.mean() * 0.95
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(deviation, rel=0.1)


def test_a_host_offers_what_the_authors_gaps_make():
    """Exp_code: mean KB x 940 / 1024 / 128 / load / 1000 s; 571 Mb/s of payload at load .5."""
    setting = Setting(load=0.5)
    flows = flows_of(setting, 7, 6000).query("source == 'h1'")
    mean_kb = setting.sizes.mean / 1024
    assert flows.start_s.diff().mean() == pytest.approx(mean_kb * 940 / 1024 / 128 / 0.5 / 1000, rel=0.02)
    assert setting.sizes.mean * 8e-6 / flows.start_s.diff().mean() == pytest.approx(571, rel=0.02)


def test_a_mouses_time_has_neither_the_handshake_nor_the_wait_for_a_lost_syn():
    setting = Setting(load=0.3)
    run = simulate(made(setting, 2, 200))
    flows = run.flows.copy()
    first = flows.index[flows.label == "tcp"][0]
    flows.loc[first, ["completion_ms", "connected_ms"]] += 3000.0
    later = measuring.read(replace(run, flows=flows), setting)
    assert later["mean_ms"] == pytest.approx(measuring.read(run, setting)["mean_ms"])


def test_an_idle_round_trip_is_the_testbeds_178_us():
    """Section 5.1: a ping of 98 bytes over four links and back."""
    setting = PRINTED
    round_trip_ms = 8 * (setting.link_delay_ms + 98 * 8 / (setting.rate_mbps * 1e3))
    assert round_trip_ms == pytest.approx(0.178, abs=0.001)


@pytest.mark.parametrize("oversubscription", [1, 2])
def test_the_load_of_the_uplinks_is_the_one_asked_for(oversubscription):
    flows = flows_of(Setting(oversubscription=oversubscription, load=0.4), 3, 3000)
    offered = flows.size_bytes.sum() * 8e-6 / flows.start_s.max() / (2 * 3 * PRINTED.rate_mbps)
    assert offered == pytest.approx(0.4 * model.OFFERED_AT_LOAD_1, rel=0.15)


def test_every_mouse_of_the_incast_comes_from_eleven_hosts_at_once():
    flows = model.incast_experiment(Incast(scheme="repsyn", load=0.2, bursts=40), 5).flow_table
    mice = flows[flows.size_bytes <= MOUSE_BYTES].groupby(["start_s", "destination"])
    assert (mice.size() == 11).all() and (mice.source.nunique() == 11).all() and (mice.size_bytes.nunique() == 1).all()
    elephants = flows[flows.size_bytes > MOUSE_BYTES]
    assert not elephants.duplicated(["start_s"]).any()


def test_as_many_hosts_answer_at_once_as_the_knob_says():
    for senders in (1, 3):
        setting = Incast(scheme="repflow", load=0.2, incast_senders=senders, bursts=20)
        flows = model.incast_experiment(setting, 5).flow_table
        assert (flows[flows.size_bytes <= MOUSE_BYTES].groupby(["start_s", "destination"]).size() == senders).all()


def test_a_controller_serves_the_syns_and_their_answers_one_after_the_other():
    """By hand, with 1 ms each: SYN and answer; with RepFlow the second SYN comes between them; a flow that comes half a
    ms after another one waits for what is before it. Six links of .0215 ms lie between SYN and answer."""
    setting = FatTree(controller_ms=1.0)
    tcp, again = (Flow("h1", "h54", size_bytes=1000, start_s=start_s) for start_s in (0.0, 0.0005))
    repflow = replace(tcp, replication="repflow", replicate_below_bytes=MOUSE_BYTES)
    elephant = replace(repflow, size_bytes=2 * MOUSE_BYTES)
    for traffic, done_ms in (
        ((tcp,), [2.0]),
        ((elephant,), [2.0]),
        ((repflow,), [3.0 - 0.129]),  # served at 1 ms, answered at 1.129, second SYN until 2
        ((tcp, again), [3.0 - 0.129, 3.5 - 0.129]),  # SYN, SYN, answer, answer
    ):
        assert 1e3 * model.controller_s(traffic, setting) == pytest.approx(done_ms)


def test_with_a_controller_mice_begin_later_and_times_from_their_syn_have_it_in_them():
    plain = FatTree(load=0.1)
    held = replace(plain, controller_ms=1.0)
    asked = [model.fat_tree_experiment(setting, 0.0, 3) for setting in (plain, held)]
    starts_s = [experiment.flow_table.start_s for experiment in asked]
    assert (starts_s[1] - starts_s[0]).between(0.0018, 0.05).all()
    settings = zip(asked, (plain, held), strict=True)
    readings = [measuring.read_fat_tree(simulate(experiment), setting) for experiment, setting in settings]
    assert readings[0]["from_syn_ms"] > readings[0]["mean_ms"]
    gap_ms = [reading["from_syn_ms"] - reading["mean_ms"] for reading in readings]
    assert 1.5 < gap_ms[1] - gap_ms[0] < 5


def test_with_dctcp_switches_mark_and_queues_are_short():
    setting = replace(PRINTED, congestion_control="dctcp")
    assert setting.queue.mark_packets == 20 and PRINTED.queue.mark_packets is None and setting.tcp.ecn
    both = tuple(Flow(host, "h4", duration_s=1.0) for host in ("h1", "h2"))
    ports = Measure(queues=(("s2", "h4"), *(("s1", f"s{3 + i}") for i in range(model.SPINES))), queue_interval_ms=0.5)
    found = simulate(Experiment(setting.leaf_spine(), both, 1.0, 1, ports, setting.tcp))
    assert found.queues.query("time_s > 0.5")["queue_bytes"].max() < 100e3


def test_size_groups_are_the_rounds_of_slow_start():
    """Fig. 13, with three segments first: 1, 2, 3, 4 and 5 rounds."""
    for size, rounds in ((4380, 1), (4381, 2), (13140, 2), (13141, 3), (30661, 4), (65701, 5), (100_000, 5)):
        assert np.searchsorted(measuring.SIZE_GROUPS_BYTES, size, side="left") == rounds
        assert np.ceil(np.log2(np.ceil(size / 1460) / 3 + 1)) == rounds


def test_replication_helps_the_median_under_load_and_not_on_one_path(runs):
    for claim in ("repflow-median", "repsyn-median"):
        assert value(runs, claim) > 10 and value(runs, claim, control=True) < 0.5 * value(runs, claim)


def test_repflow_aggravates_incast_and_repsyn_does_not(runs):
    """Section 5.2.4; without the software's extra time, which both have."""
    median_ms = {
        name: measuring.pooled(runs.reading("mice_times", f"incast {name}"), "median", 0.2) for name in SCHEMES
    }
    assert median_ms["repflow"] - 0.49 > 1.1 * median_ms["tcp"] and median_ms["repsyn"] - 0.32 < 1.05 * median_ms["tcp"]


def test_the_ports_of_a_switch_share_its_memory_and_one_alone_takes_700_kb():
    """Alpha over 1 + alpha of 4 MB. Two flows meet at the receiver's port, or at the uplink that both are hashed to."""
    setting, queue = PRINTED, PRINTED.queue
    assert isinstance(queue, SharedBuffer)
    assert queue.bytes * queue.alpha / (1 + queue.alpha) == pytest.approx(700e3, rel=0.01)
    both = tuple(Flow(host, "h4", duration_s=1.0) for host in ("h1", "h2"))
    ports = Measure(queues=(("s2", "h4"), *(("s1", f"s{3 + i}") for i in range(model.SPINES))), queue_interval_ms=0.5)
    found = simulate(Experiment(setting.leaf_spine(), both, 1.0, 1, ports, setting.tcp))
    assert 600e3 < found.queues["queue_bytes"].max() < 705e3


def test_a_percentile_is_that_of_all_repetitions_together_and_its_spread_the_jackknifes():
    """One run of five at 3 s makes a mean of 600 ms, which no mouse took; together the median is 20 ms."""
    tcp, fast = packed(*[[40.0] * 9] * 5), packed(*[[20.0] * 9] * 4, [3000.0] * 9)
    assert measuring.pooled(fast, "median", 0.5) == 20.0
    assert np.allclose(measuring.reduction("median", 0.5)(fast, tcp), 50.0)
    mean, means = measuring.reduction("mean", 0.5)(fast, tcp), np.array([20.0] * 4 + [3000.0])
    assert mean.mean() == pytest.approx((1 - means.mean() / 40) * 100)
    assert mean.std() == pytest.approx(means.std() / 40 * 100)


def test_nfct_has_the_software_of_a_second_connection_and_the_authors_fat_tree_has_not():
    extra_ms = {name: Setting(scheme=name).extra_ms for name in SCHEMES}
    assert extra_ms == {"tcp": 0.0, "repflow": 0.49, "repsyn": 0.32}
    assert FatTree(scheme="repflow").extra_ms == 0


def test_times_are_folded_as_the_authors_script_does():
    rows = packed([20.0, 3007.0])[0].assign(tier=SIMULATED, repetition=0, size_bytes=1)
    mice = pd.concat([rows.assign(case=f"1:1 {name}") for name in SCHEMES])
    table = figures.folded(replace(jobs(1), tables={"mice_times": mice}))
    assert table.loc["tcp", "p99.9, folded (ms)"] == pytest.approx(157, abs=0.2)
    assert (table["above 200 ms (%)"] == 50).all()


def test_elephants_do_not_notice_the_copies_of_mice_but_would_notice_their_own(runs):
    assert min(runs.values_of(STUDY.claims["elephants-unaffected"])) > 0.8
    assert value(runs, "elephants-unaffected", control=True) < 0.6


def test_in_a_multipath_flow_the_bytes_are_spread_and_with_one_subflow_it_is_plain():
    cases = (STUDY.case(f"2:1 mptcp{control}") for control in ("", ", one subflow"))
    spread, plain = (flows_of(case, 7, 100) for case in cases)
    assert (spread["subflows"] == model.SUBFLOWS).all() and (plain["subflows"] == 1).all()
    columns = ["source", "destination", "size_bytes", "start_s"]
    assert spread[columns].equals(plain[columns])


ENOUGH_BEYOND = 5  # mice (bursts of incast, jobs) above a percentile, for a claim to rest on it


def beyond(scale: str, claim: str) -> float:
    """Count the flows beyond the percentile that a claim rests on, by the numbers of flows of a profile: in a run, or
    in all repetitions where the claim is on them together."""
    evidence, sizes, profile = STUDY.claims[claim], PRINTED.sizes, STUDY.scales[scale]
    found = []
    # A median or a mean takes as many as a 99th percentile: mice that meet the same elephants fare alike.
    share = 0.001 if "p999" in claim or claim in ("mptcp-p999", "sort-tcp-tail") else 0.01
    broken = evidence.broken.case_names if evidence.broken else ()
    for case in {*evidence.case_names, *broken}:
        settings = [point.setting for point in points({case: STUDY.cases[case]}, STUDY.setting, profile)]
        loads = loads_of(claim) or [settings[0].load] if hasattr(settings[0], "load") else []
        at = {setting.load: setting for setting in settings} if loads else {}
        if case in profile.without or not set(loads) <= set(at):
            return 0.0
        runs = profile.fewer.get(case, STUDY.repetitions) if evidence.pooled else 1
        if isinstance(settings[0], Sorting):
            jobs_of_a_run = len(settings[0].sort.masters) * settings[0].jobs * settings[0].more_jobs
            found.append(jobs_of_a_run * share * runs)
        for load in loads:
            setting = at[load]
            if isinstance(setting, Incast):
                mice = flows = setting.bursts
            else:
                flows = setting.fat_tree_flows if isinstance(setting, FatTree) else setting.count
                mice = flows * sizes.share_of_flows_below(MOUSE_BYTES)
            group = flows * np.diff(sizes.cdf(np.array(measuring.SIZE_GROUPS_BYTES))).min()
            found.append((group if claim == "equal-by-size" else mice) * share * runs)
    return min(found)


def loads_of(claim: str) -> list[float]:
    """The loads that a claim needs where its cases have several."""
    known = {"little": [0.2, 0.5], "longer": [0.1], "equal": [0.4], "incast": [0.2]}
    known |= {"fat-tree-worse": [0.1], "fat-tree-from": [0.4, 0.6, 0.8], "fat-tree": [0.8], "mptcp": []}
    return next((loads for start, loads in known.items() if claim.startswith(start)), [0.5])


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_claims_are_judged_where_there_are_mice_or_jobs_enough_and_only_there(profile):
    counted = ("slow-flows", "paths", "elephants", "overhead", "sort-most", "sort-repsyn-median", "sort-repflow-median")
    tails = [claim for claim in STUDY.claims if not claim.startswith(counted)]
    too_few = {claim for claim in tails if beyond(profile, claim) < ENOUGH_BEYOND}
    assert too_few == set(STUDY.scales[profile].unjudged)


@pytest.mark.parametrize(("more_ms", "verdict"), [(0.5, "agrees"), (2.0, "disagrees")])  # several times the published
def test_a_costly_library_is_noticed(more_ms, verdict):
    values = pd.DataFrame({"repetition": range(3), "repflow_more_ms": more_ms, "repsyn_more_ms": 0.04})
    values = values.assign(tcp_again_more_ms=values["repetition"] * 1e-3, tier=SIMULATED, case="loopback")
    measured = {each.claim: each for each in replace(jobs(1), values=values).measured_claims()}
    assert set(measured) == {"overhead-repflow-ms", "overhead-repsyn-ms"}
    claim = load_claims("repnet").claim("overhead-repflow-ms")
    assert judge(claim, measured["overhead-repflow-ms"], SIMULATED).verdict == verdict


def test_mice_that_never_finish_fail_the_check_and_count_as_slow():
    setting = Setting(load=0.3)
    found = simulate(made(setting, 2, 200))
    assert check_table(measuring.read(found, setting).checks).holds.all()
    flows = found.flows.copy()
    flows.loc[flows.index[flows.label == setting.scheme][0], "completion_ms"] = np.nan
    read = measuring.read(replace(found, flows=flows), setting)
    assert not check_table(read.checks).holds.all()
    assert read["unfinished"] == 1 and read["p999_ms"] > 5000


def test_real_flows_cross_the_loopback_with_every_scheme():
    means_ms = measuring.measure_overhead(5, begin=2)
    assert list(means_ms) == ["repsyn", "tcp_again", "tcp", "repflow"] and min(means_ms.values()) > 0


def test_an_experiment_survives_json():
    experiment = model.fat_tree_experiment(replace(STUDY.case("fat-tree repsyn, same path"), fat_tree_flows=10), 0.0, 1)
    assert Experiment.from_json(experiment.to_json()) == experiment


def test_the_scaled_testbed_has_its_load_and_its_mice():
    found = model.with_more_mice(replace(STUDY.case("scaled repsyn"), lasts_s=2000.0), 3).flow_table
    elephants = found[found.size_bytes > MOUSE_BYTES]
    offered_mbps = elephants.size_bytes.sum() * 8e-6 / elephants.start_s.max() / 2
    assert offered_mbps == pytest.approx(0.5 * 60, rel=0.1)
    mice = found[found.size_bytes <= MOUSE_BYTES]
    assert len(mice) == 2000 * model.MICE_PER_S_PER_MBPS * SCALED["rate_mbps"]
    assert (mice.replication == "repsyn").all() and (elephants.replication == "").all()


def test_on_one_simulated_path_the_scaled_testbed_treats_tcp_as_without_the_control(runs):
    plain, broken = (runs.numbers(f"scaled tcp{control}")["median_ms"] for control in ("", ", same path"))
    assert list(plain) == list(broken)


def test_an_undisturbed_job_takes_its_scan_its_ranges_and_its_answers():
    """Section 5.3.2: most jobs take 95 ms."""
    printed = Sorting()
    jobs, checks = simulate_sort(replace(printed.sort, one_master=True), 2, 5, HOST_DELAY_PACKETS)
    answers_ms = printed.numbers * NUMBER_BYTES * 8 / (printed.rate_mbps * 1e3)
    least_ms = printed.scan_ms + printed.range_ms + answers_ms
    assert checks.holds.all() and len(jobs) == 2
    assert jobs.took_ms.between(least_ms, 1.05 * least_ms).all()
    assert jobs.took_ms.between(94, 96).all()


def test_a_tail_that_both_connections_share_is_no_gain_for_bucket_sort():
    claims = load_claims("repnet")
    measured = {each.claim: each for each in jobs(6000).measured_claims()}
    judged = {f"sort-{name}-{which}" for name in model.REPLICATED for which in ("median", "p99")}
    judged |= {"sort-most-in-5-ms", "sort-tcp-tail"}
    assert set(measured) == judged
    verdict = judge(claims.claim("sort-repsyn-p99"), measured["sort-repsyn-p99"], SIMULATED)
    assert verdict.verdict == "agrees" and verdict.counts


def test_real_kernels_run_the_scaled_testbed_and_the_application_and_what_they_judge_ran_there():
    able = [case for case in STUDY.cases if not study.cannot(STUDY.case(case), "rootless")]
    assert set(able) == {*study.of_network("scaled", "kernel sort"), "loopback"}
    for given in study.ON_KERNELS.values():
        if not isinstance(given, list):
            continue  # in virtual time only
        evidence = given[0]
        assert {*evidence.case_names, *(evidence.broken.case_names if evidence.broken else ())} <= set(able)
    there = replace(jobs(600, "kernel sort", "rootless"), skipped={})
    percentiles = [f"sort-{name}-{which}" for name in ("repflow", "repsyn") for which in ("median", "p99")]
    assert {each.claim for each in there.measured_claims()} == set(percentiles)
    few = {each.claim for each in replace(there, profile="quick").measured_claims()}
    assert few == {"sort-repflow-median", "sort-repsyn-median"}


def test_the_released_sort_runs_in_virtual_time_alone_and_in_its_own_profile():
    released = study.of_network("released sort")
    assert len(released) == len(model.SCHEMES)
    for profile, tier in (("quick", SIMULATED), ("paper", SIMULATED), ("quick", VIRTUAL), ("paper", "rootless")):
        assert all(study.cannot(STUDY.case(case), tier) for case in released) or tier == VIRTUAL
        assert set(released) <= set(STUDY.scale(profile, tier).without)
    planned = STUDY.scale("paper", VIRTUAL)
    assert not set(released) & set(planned.without) and all(planned.fewer[case] == 2 for case in released)


def test_both_programs_of_bucket_sort_are_drawn_beside_the_authors_samples():
    ours = jobs(50)
    panels = STUDY.figures["fig17_bucket_sort"](ours).axes
    assert "not measured" in " ".join(text.get_text() for text in panels[1].texts)
    labels = [line.get_label() for line in panels[1].get_lines()]
    assert sum("the authors' samples" in label for label in labels) == len(model.SCHEMES)


def _tier_of_kernels() -> str:
    tier = probe_tiers().best
    if tier == "simulated":
        pytest.skip("needs user namespaces")
    return tier


def test_the_library_carries_mice_through_real_kernels_and_a_path_less_changes_nothing_but_the_path():
    tier = _tier_of_kernels()
    planned = model.with_more_mice(replace(STUDY.case("scaled repflow"), load=0.2, lasts_s=2.0), 1)
    for hash_ports in (True, False):
        found = emulate_with_library(planned, MOUSE_BYTES, tier, hash_ports=hash_ports)
        mice = found.flows[found.flows.size_bytes <= MOUSE_BYTES]
        assert len(found.flows) == len(planned.flow_table) and mice.completion_ms.notna().all()
        # A kernel's shaper that was idle lets its bucket pass at once.
        bytes_per_ms = SCALED["rate_mbps"] * 125
        bucket_bytes = PACKET_BURST_BYTES + bytes_per_ms * 1e3 * BURST_S
        assert (mice.completion_ms > (mice.size_bytes - bucket_bytes) / bytes_per_ms).all()


def test_in_virtual_time_the_testbed_has_its_own_rate_and_says_why_the_rest_is_left_out():
    reasons = {case: study.cannot(STUDY.case(case), VIRTUAL) for case in STUDY.cases}
    able = {case for case, why in reasons.items() if not why}
    assert able == set(study.of_network("full-rate", "full-rate-2:1", "probes", "incast", "sort", "released sort"))
    for claim, given in study.ON_KERNELS.items():
        evidence = given[-1] if isinstance(given, list) else given
        assert {*evidence.case_names, *(evidence.broken.case_names if evidence.broken else ())} <= able, claim
    assert STUDY.case("full-rate tcp").rate_mbps == PRINTED.rate_mbps
    with pytest.raises(NetreproError, match="first timeout is a constant"):
        check_virtually(model.with_more_mice(model.MoreMice(lasts_s=0.03), 1))
    decided = {claim.id for claim in load_claims("repnet").claims if claim.decided_by.tier == VIRTUAL}
    judged = {claim for claim, each in STUDY.claims.items() if set(each.case_names) <= able} | set(study.ON_KERNELS)
    assert decided <= judged


@needs_virtual
def test_a_kernels_connections_carry_every_scheme_at_the_testbeds_rate_and_copies_share_a_path_where_they_must():
    found = {}
    for case in ("full-rate tcp", "full-rate repflow", "full-rate repsyn", "full-rate repflow, same path"):
        setting = replace(STUDY.case(case), lasts_s=0.03, load=0.5)
        found[case] = read = measuring.measure_more_mice(setting, 0.0, 3, VIRTUAL)
        assert check_table(read.checks).holds.all() and read.fidelity.holds.all()
        assert read["unfinished"] == 0 and read["mice"] == 2 * round(750 * setting.lasts_s)
    assert len({read["mean_ms"] - read["extra_ms"] for read in found.values()}) == 4, "each scheme is another run"


@needs_virtual
def test_on_a_kernel_a_third_of_the_probes_meets_the_full_path_a_ninth_of_the_pairs_and_one_path_helps_nobody():
    """4 standard deviations of 300 probes."""
    share = {}
    for case in ("probes tcp", "probes repflow", "probes repsyn, same path", "probes tcp, idle"):
        setting = replace(STUDY.case(case), probes=300)
        share[case] = measuring.measure_probes(setting, 0.0, 3, VIRTUAL)["slow_share"]
    assert share["probes tcp"] == pytest.approx(1 / 3, abs=0.11)
    assert share["probes repflow"] == pytest.approx(1 / 9, abs=0.08)
    assert share["probes repsyn, same path"] == pytest.approx(1 / 3, abs=0.11)
    assert share["probes tcp, idle"] == 0
