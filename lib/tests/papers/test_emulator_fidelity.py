"""The emulator's fidelity (Mininet-HiFi Figs 1, 7, 9c): what is counted, what is believed, and what must be caught."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from optional_programs import needs_programs
from virtual_kernel import needs_virtual

from netrepro.claims import judge, load_claims
from netrepro.emulation.fidelity import STALLED, STARVED
from netrepro.emulation.tiers import probe_tiers
from netrepro.papers import emulator_fidelity as paper
from netrepro.simulation import simulate
from netrepro.study import BESIDE, Reading, Runs, Scale, measure

rootless = pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
CLAIMS = load_claims("emulator_fidelity")


LINK = paper.Setting(is_judged=True)


@pytest.fixture(scope="module")
def simulated() -> Runs:
    return measure(paper.STUDY, profile="test")


@pytest.fixture(scope="module")
def link():
    return simulate(paper.experiment(LINK, 0.3, 1))


def rescaled(link, factor: float):
    """The same packets, every gap longer by `factor`; the queue never was empty."""
    times = {"time_s": link.packets["time_s"] * factor}
    return replace(
        link,
        packets=link.packets.assign(**times),
        queues=pd.DataFrame({"time_s": np.arange(0, 10, 0.001), "queue_packets": 50}),
    )


def made_up(told=None, idle=None, cannot=None) -> Runs:
    """Two repetitions on a real kernel, in which everything is as published.

    told : case -> what the tier tells of the machine (check -> value). idle : what is changed of the 1 Gb/s link.
    """
    told, named = told or {}, {paper.STUDY.case(name): name for name in paper.STUDY.cases}

    def run_one(setting, window_s: float, seed: int, tier: str) -> Reading:
        lost = setting.busy_hosts and not setting.isolated
        numbers = {"throughput_mbps": setting.link_mbps * (0.6 if lost else 1), "utilisation": 0.6 if lost else 1.0}
        within = (0.1, 0.0, 0.2) if setting.large_frames else (0.995, 0.93, 0.995)
        if setting.link_mbps == 1000:
            within = (0.6, 0.5, 0.9)
        numbers |= dict(zip(("within_10", "within_1", "within_40"), within, strict=True))
        numbers |= {"gaps": 5000, "busy_share": 0.95} | (idle or {} if setting.link_mbps == 1000 else {})
        values = {paper.MISSED: 0.0} | told.get(named.get(setting, ""), {})
        fidelity = pd.DataFrame({"check": list(values), "value": list(values.values())})
        return Reading(numbers, checks=list(paper.checks_of(fidelity, setting, numbers)))

    study = replace(paper.STUDY, measure_one=run_one, cannot=cannot)
    return measure(study, tier="rootless", repetitions=2, beside=False)


def verdicts(runs: Runs) -> dict[str, str]:
    return {each.claim: judge(CLAIMS.claim(each.claim), each, "rootless").verdict for each in runs.measured_claims()}


def test_every_claim_is_measured_and_can_fail():
    measured = {each.claim: each for each in made_up().measured_claims()}
    assert set(measured) == {claim.id for claim in CLAIMS.claims}
    for claim in CLAIMS.claims:
        judged = judge(claim, measured[claim.id], "rootless")
        if not claim.comparable:
            assert judged.verdict == "not judged"
            continue
        assert (judged.verdict, judged.counts) == ("agrees", claim.control is not None)
        if claim.control:
            assert judge(claim, measured[claim.id].broken(), "rootless").verdict == "disagrees"


@pytest.mark.parametrize(("check", "value"), [(STARVED, 0.4), (STALLED, 0.9)])
def test_a_machine_with_other_work_decides_nothing(check, value):
    """A link of 100 Mb/s keeps no processor busy: who waits for one beside it waits for others."""
    busy = made_up({paper.HUNDRED: {check: value}})
    assert set(verdicts(busy).values()) == {"untrusted"}
    beside_others = made_up({paper.SHARED: {check: value}})
    assert set(verdicts(beside_others).values()) == {"agrees", "not judged"}


def test_packets_that_escaped_the_recording_decide_nothing():
    assert set(verdicts(made_up({paper.TEN: {paper.MISSED: 3.0}})).values()) == {"untrusted"}


@pytest.mark.parametrize("idle", [{"gaps": 50}, {"busy_share": 0.4}])
def test_a_link_that_its_senders_leave_idle_is_untrusted_alone(idle):
    """Its gaps are the senders'."""
    judged = verdicts(made_up(idle=idle))
    assert judged.pop("gigabit-loses-fidelity") == "untrusted" and set(judged.values()) == {"agrees"}


def test_a_machine_without_ip_and_tc_has_no_control_and_its_claims_do_not_count(monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(paper, "missing_feature", lambda feature, tier: "")
    runs = made_up(cannot=paper.cannot)
    missing = "not installed: ip, tc"
    assert runs.skipped == {f"rootless: {case}": missing for case in (paper.OFFLOADED, paper.WITH_HTB, paper.UNLIMITED)}
    measured = {each.claim: each for each in runs.measured_claims()}
    judged = judge(CLAIMS.claim("hundred-within-one-percent"), measured["hundred-within-one-percent"], "rootless")
    assert not judged.counts and "control was not run" in judged.reason


def test_in_virtual_time_links_are_exact_and_no_claim_is_measured(simulated):
    table = simulated.values.set_index("case")
    assert set(table.index) == {*paper.LINKS, paper.MANY_FLOWS, paper.ALONE}
    single = table.drop(index=paper.MANY_FLOWS)
    assert (single["within_1"] == 1).all()
    assert single["utilisation"].to_numpy() == pytest.approx(1, rel=0.01)
    assert simulated.measured_claims() == [] and simulated.trusted
    assert "not measured" in paper.answer(simulated)


def test_fig_1_takes_the_rate_that_is_asked_for():
    assert paper.STUDY.case(paper.ISOLATED, paper.Setting(rate_mbps=400.0)).link_mbps == 400
    assert paper.STUDY.case(paper.HUNDRED, paper.Setting(rate_mbps=400.0)).link_mbps == 100


def test_section_5_1_800_flows_keep_the_bottleneck_busy(simulated):
    rows = simulated.numbers(paper.MANY_FLOWS)
    assert (rows["throughput_mbps"] > 0.98 * 62.5).all() and (rows["within_10"] > 0.99).all()


def all_lie_between(reading: Reading, low_percent: float, high_percent: float) -> bool:
    """Tell whether every gap is off by more than the one, and by less than the other."""
    beyond = reading["deviations"].set_index("percent")["beyond"]
    return bool((beyond.loc[:low_percent] == 1).all() and (beyond.loc[high_percent:] == 0).all())


def test_a_link_that_is_slow_by_a_share_is_off_by_that_share(link):
    reading = paper.read(rescaled(link, 1.05), LINK)
    assert all_lie_between(reading, 4.9, 5.1)
    assert (reading["within_1"], reading["within_10"]) == (0, 1)


def test_large_frames_that_keep_the_rate_are_as_far_off_as_they_are_large(link):
    """Each frame of 8 packets comes 8 ideal gaps after the one before: (8 - 1) / 1."""
    even = rescaled(link, 1.0)
    packets = even.packets[even.packets["size_bytes"] == 1514].iloc[::8].assign(size_bytes=8 * 1514)
    assert all_lie_between(paper.read(replace(even, packets=packets), LINK), 690, 710)


def test_a_link_that_never_was_busy_is_not_true(link):
    reading = paper.read(replace(link, queues=link.queues.assign(queue_packets=0)), LINK)
    assert (reading["gaps"], reading["within_10"]) == (0, 0) and reading["deviations"].empty


def test_figure_1_compares_the_most_busy_hosts_with_none():
    (ours,) = [each for each in made_up().measured_claims() if each.claim == "isolated-throughput"]
    assert ours.values == pytest.approx([1, 1]) and ours.control == pytest.approx([0.6, 0.6])


def test_busy_hosts_are_hosts_of_their_own():
    asked = paper.experiment(paper.Setting(busy_hosts=5, isolated=True), 1.0, 1)
    talking = {end for flow in asked.traffic for end in (flow.source, flow.destination)}
    assert len(set(asked.topology.hosts) - talking) >= 5


def test_figures_of_a_real_kernel_show_both_kinds_of_busy_hosts():
    for name in ("fig1_isolation", "knob_busy_hosts_gaps"):
        assert {"isolated", "not isolated"} <= set(
            paper.STUDY.figures[name](made_up()).axes[0].get_legend_handles_labels()[1]
        )


@rootless
@needs_programs("ip", "tc")
def test_offloading_left_on_is_caught_by_the_certificate_and_breaks_the_claims():
    settings = {name: paper.STUDY.case(name) for name in (paper.HUNDRED, paper.OFFLOADED)}
    readings = {name: paper.measure_one(each, 0.3, 1, "rootless") for name, each in settings.items()}
    largest = {}
    for name, reading in readings.items():
        checks = reading["certificates"]
        largest[name] = bool(checks[checks["check"].str.contains("largest packet")]["holds"].all())
    assert largest == {paper.HUNDRED: True, paper.OFFLOADED: False}
    assert readings[paper.OFFLOADED]["within_10"] < 0.5 < readings[paper.HUNDRED]["within_10"]


@rootless
@needs_programs("ip", "tc")
def test_without_a_limit_a_flow_exceeds_the_rate_and_every_run_on_a_real_kernel_has_its_idle_time():
    limited = paper.Setting(link_mbps=20.0)
    readings = [paper.measure_one(each, 0.3, 1, "rootless") for each in (limited, replace(limited, unlimited=True))]
    assert readings[0]["throughput_mbps"] < 21 and readings[1]["throughput_mbps"] > 30
    assert all(0 <= reading["idle_share"] <= 1 for reading in readings)
    assert paper.MISSED in [check.name for check in readings[0].checks] and not readings[1].checks


def test_the_bytes_that_arrive_give_the_throughput_of_the_packets_that_leave(link):
    unlimited = replace(LINK, unlimited=True)
    by_bytes = paper.read(simulate(paper.experiment(unlimited, 0.3, 1)), unlimited)
    assert by_bytes["throughput_mbps"] == pytest.approx(paper.read(link, LINK)["throughput_mbps"], rel=0.02)


def test_idle_time_is_the_share_of_all_processors_time_from_the_first_call_to_the_last(monkeypatch):
    """User, nice, system, idle, iowait, irq, softirq, steal: 60 of 100 ticks were idle or waited for a disk."""
    told = iter(
        ["cpu  100 0 0 500 0 0 0 0 0 0\ncpu0 1", "cpu  120 0 0 530 0 0 0 0 0 0", "cpu  130 5 5 550 10 0 0 0 7 0"]
    )
    monkeypatch.setattr(paper.Path, "read_text", lambda path: next(told))
    idle = paper.IdleTime()
    for share in (0.0, 0.5, 1.0):
        idle.follow(share)
    assert idle.share == pytest.approx(60 / 100)


def test_in_virtual_time_nothing_is_unlimited_and_no_processor_is_idle(simulated):
    assert "runs" not in paper.cannot(paper.STUDY.case(paper.ALONE), "simulated")
    assert paper.cannot(paper.STUDY.case(paper.UNLIMITED), "virtual")
    assert simulated.summary()["idle_share"].isna().all()


def test_a_link_with_a_delay_is_left_out_where_the_kernel_has_no_netem(monkeypatch):
    monkeypatch.setattr(paper, "missing_feature", lambda feature, tier: f"no {feature}")
    many = paper.STUDY.case(paper.MANY_FLOWS)
    assert paper.cannot(many, "rootless") == "no netem"
    assert not paper.cannot(many, "virtual") and not paper.cannot(many, "simulated")
    assert not any(paper.cannot(paper.STUDY.case(name), "rootless") for name in paper.LINKS)


@rootless
def test_busy_hosts_compute_while_the_traffic_runs_and_neither_before_nor_after():
    busy, others, used = paper.BusyHosts(2, []), set(loops()), {}

    def note(when: str) -> None:
        used[when] = [ticks for process, ticks in loops().items() if process not in others]

    def prepare(net):
        busy.prepare(net)
        time.sleep(0.3)
        note("before")

    def follow(share: float) -> None:
        busy.follow(share)
        if share == 1:
            time.sleep(0.3)
        note("after" if share == 1 else "towards the end")

    paper.run_experiment(
        paper.experiment(paper.Setting(200.0, 200.0, busy_hosts=2), 0.8, 1), "rootless", follow, prepare=prepare
    )
    assert len(used["before"]) == 2 and max(used["before"]) <= 2
    assert len(used["towards the end"]) == 2 and min(used["towards the end"]) >= 5
    assert used["after"] == []


def loops() -> dict[str, int]:
    """Processor time (ticks) of every process of this machine that is a busy loop."""
    ticks = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"while :; do :; done" in (process / "cmdline").read_bytes():
                ticks[process.name] = sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks


def test_the_gap_of_a_full_packet_is_the_papers():
    """Section 5.1: 121.1 us at 100 Mb/s; 193.8 us at 62.5 Mb/s."""
    packets = simulate(paper.experiment(LINK, 0.1, 1)).packets
    assert np.median(np.diff(packets["time_s"])) * 1e6 == pytest.approx(121.1, abs=0.1)


@needs_virtual
def test_in_virtual_time_every_gap_is_the_links_beside_any_other_work():
    small = replace(paper.STUDY.scales["quick", BESIDE], seconds=0.2)
    study = replace(paper.STUDY, scales={"quick": Scale(0.2), ("quick", BESIDE): small})
    runs = measure(study, repetitions=1)
    table = runs.values[runs.values["tier"] == "virtual"]
    assert set(table["case"]) == {*paper.LINKS, paper.MANY_FLOWS}
    assert (table["within_1"] > 0.999).all() and (table["gaps"] > 50).all()
    labels = paper.STUDY.figures["knob_virtual_time"](runs).axes[0].get_legend_handles_labels()[1]
    assert {"100 Mb/s, virtual", "800 flows, 62.5 Mb/s, virtual"} <= set(labels)
