"""The emulator's fidelity (Mininet-HiFi Figs 1, 7, 9c): what is counted, what is believed, and what must be caught."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro.claims import judge, load_claims
from netrepro.emulation.fidelity import STALLED, STARVED
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.papers.emulator_fidelity import study as paper
from netrepro.simulation import simulate

rootless = pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
CLAIMS = load_claims("emulator_fidelity")


@pytest.fixture(scope="module")
def simulated() -> paper.Runs:
    return paper.measure(paper.cases(paper.scale("quick")), 0.3, 2, 1, "simulated")


@pytest.fixture(scope="module")
def found():
    return simulate(paper.experiment(paper.LINKS["100 Mb/s"], 0.3, 1))


def rescaled(found, factor: float):
    """The same packets, every gap longer by `factor`; the queue never was empty."""
    times = {"time_s": found.packets["time_s"] * factor}
    return replace(
        found,
        packets=found.packets.assign(**times),
        queues=pd.DataFrame({"time_s": np.arange(0, 10, 0.001), "queue_packets": 50}),
    )


def runs(**changed) -> paper.Runs:
    """Two repetitions in which everything is as published, but for what is changed: case -> columns."""
    chosen = paper.cases(paper.scale("quick"))
    rows = []
    for name, case in chosen.items():
        lost = case.busy_hosts and not case.isolated
        row = {"case": name, "rate_mbps": case.rate_mbps, "throughput_mbps": case.rate_mbps * (0.6 if lost else 1)}
        within = {"10": 0.1, "1": 0.0} if case.large_frames else {"10": 0.995, "1": 0.93}
        row |= {"within_10": 0.6 if name == "1000 Mb/s" else within["10"], "within_1": within["1"]}
        row |= {
            "within_40": 0.2 if case.large_frames else 0.995,
            "within_10_if_faster": 0.0,
            "gaps": 5000,
            "busy_share": 0.95,
        }
        rows += [row | {"repetition": number} for number in range(2)]
    checks = pd.DataFrame({"case": ["10 Mb/s"], "check": ["packets missed"], "value": [0.0], "bound": [0.0],
                           "holds": [True]})  # fmt: skip
    built = {"gaps": pd.DataFrame(), "totals": pd.DataFrame(rows), "fidelity": checks}
    return paper.Runs("rootless", **(built | changed))


def verdicts(measured: paper.Runs) -> dict[str, str]:
    return {
        each.claim: judge(CLAIMS.claim(each.claim), each, "rootless").verdict
        for each in paper.measured_claims(measured)
    }


def test_every_claim_is_measured_and_can_fail():
    measured = {each.claim: each for each in paper.measured_claims(runs())}
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
    busy = runs().fidelity.assign(case="100 Mb/s", check=check, value=value, holds=False)
    assert set(verdicts(runs(fidelity=busy)).values()) == {"untrusted"}
    beside_others = busy.assign(case="200 Mb/s, 16 busy hosts, not isolated")
    assert set(verdicts(runs(fidelity=beside_others)).values()) == {"agrees", "not judged"}


def test_packets_that_escaped_the_recording_decide_nothing():
    missed = runs().fidelity.assign(value=3.0, holds=False)
    assert set(verdicts(runs(fidelity=missed)).values()) == {"untrusted"}


@pytest.mark.parametrize("idle", [{"gaps": 50}, {"busy_share": 0.4}])
def test_a_link_that_its_senders_leave_idle_is_untrusted_alone(idle):
    """Its gaps are the senders'."""
    totals = runs().totals
    totals.loc[totals["case"] == "1000 Mb/s", list(idle)] = list(idle.values())
    found = verdicts(runs(totals=totals))
    assert found.pop("gigabit-loses-fidelity") == "untrusted" and set(found.values()) == {"agrees"}


def test_a_machine_without_ip_and_tc_has_no_control_and_its_claims_do_not_count():
    totals = runs().totals
    measured = paper.measured_claims(runs(totals=totals[totals["case"] != paper.OFFLOADED]))
    judged = judge(CLAIMS.claim("hundred-within-one-percent"), measured[1], "rootless")
    assert not judged.counts and "control was not run" in judged.reason


def test_in_virtual_time_links_are_exact_and_no_claim_is_measured(simulated):
    totals = simulated.totals.set_index("case")
    assert not any(case.only_emulated for case in (paper.cases(paper.scale("quick"))[name] for name in totals.index))
    single = totals[totals.index != paper.MANY_FLOWS]
    assert (single["within_1"] == 1).all() and single["trusted"].all()
    assert single["throughput_mbps"].to_numpy() == pytest.approx(single["rate_mbps"].to_numpy(), rel=0.01)
    assert paper.measured_claims(simulated) == [] and simulated.why_untrusted == ""
    assert "not measured" in paper.answer(simulated)


def test_fig_1_at_the_rate_of_another_case_is_measured_in_virtual_time_too():
    alone = {name: case for name, case in paper.cases(paper.scale("quick"), 100.0).items() if case.rate_mbps == 100}
    measured = paper.measure(alone, 0.1, 1, 1, "simulated")
    assert set(measured.totals["case"]) == {"100 Mb/s", "100 Mb/s, alone"}
    assert paper.draw_isolation(measured).axes[0].get_xlabel()


def test_section_5_1_800_flows_keep_the_bottleneck_busy(simulated):
    rows = simulated.totals[simulated.totals["case"] == paper.MANY_FLOWS]
    assert (rows["throughput_mbps"] > 0.98 * 62.5).all() and (rows["within_10"] > 0.99).all()


def test_a_link_that_is_slow_by_a_share_is_off_by_that_share(found):
    row, gaps = paper.look(paper.LINKS["100 Mb/s"], rescaled(found, 1.05))
    assert gaps["deviation"].to_numpy() == pytest.approx(0.05, abs=2e-4)
    assert row["within_1"] == 0 and row["within_10"] == 1 and row["within_10_if_faster"] == 0
    assert paper.look(paper.LINKS["100 Mb/s"], rescaled(found, 1 / 1.15))[0]["within_10_if_faster"] == 1


def test_large_frames_that_keep_the_rate_are_as_far_off_as_they_are_large(found):
    """Each frame of 8 packets comes 8 ideal gaps after the one before: (8 - 1) / 1."""
    even = rescaled(found, 1.0)
    packets = even.packets[even.packets["size_bytes"] == 1514].iloc[::8].assign(size_bytes=8 * 1514)
    _, gaps = paper.look(paper.LINKS["100 Mb/s"], replace(even, packets=packets))
    assert gaps["deviation"].to_numpy() == pytest.approx(7, abs=0.01)


def test_a_link_that_never_was_busy_is_neither_true_nor_certified(found):
    empty = replace(found, queues=found.queues.assign(queue_packets=0))
    row, gaps = paper.look(paper.LINKS["100 Mb/s"], empty)
    assert len(gaps) == 0 and row["within_10"] == 0 and not row["trusted"]


def test_figure_1_compares_the_most_busy_hosts_with_none():
    ratios = paper.relative_throughput(runs())
    assert ratios[True] == pytest.approx([1, 1]) and ratios[False] == pytest.approx([0.6, 0.6])


def test_busy_hosts_are_hosts_of_their_own():
    _, case = paper.load_case(5, isolated=True)
    asked = paper.experiment(case, 1.0, 1)
    talking = {end for flow in asked.traffic for end in (flow.source, flow.destination)}
    assert len(set(asked.topology.hosts) - talking) >= 5


def test_every_figure_can_be_drawn_from_virtual_time(simulated):
    for draw in (paper.draw_links, paper.draw_many_flows, paper.draw_isolation, paper.draw_load_gaps,
                 paper.draw_control):  # fmt: skip
        assert draw(simulated).axes[0].get_xlabel()


def test_an_unknown_profile_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        paper.scale("papr")


@rootless
@pytest.mark.skipif(not (shutil.which("ip") and shutil.which("tc")), reason="needs iproute2")
def test_offloading_left_on_is_caught_by_the_certificate_and_breaks_the_claims():
    chosen = {"100 Mb/s": paper.LINKS["100 Mb/s"], paper.OFFLOADED: paper.SPECIAL[paper.OFFLOADED]}
    measured = paper.measure(chosen, 0.3, 1, 1, "rootless")
    largest = measured.fidelity[measured.fidelity["check"].str.contains("largest packet")].set_index("case")["holds"]
    assert largest["100 Mb/s"] and not largest[paper.OFFLOADED]
    totals = measured.totals.set_index("case")
    assert not totals.loc[paper.OFFLOADED, "trusted"]
    assert totals.loc[paper.OFFLOADED, "within_10"] < 0.5 < totals.loc["100 Mb/s", "within_10"]


def test_a_link_with_a_delay_is_left_out_where_the_kernel_has_no_netem(monkeypatch):
    monkeypatch.setattr(paper, "missing_feature", lambda feature, tier: f"no {feature}")
    many = paper.SPECIAL[paper.MANY_FLOWS]
    assert many.cannot("rootless") == "no netem" and not many.cannot("virtual") and not many.cannot("simulated")
    assert not any(case.cannot("rootless") for case in paper.LINKS.values())


@rootless
def test_busy_hosts_compute_while_the_traffic_runs_and_neither_before_nor_after():
    _, case = paper.load_case(2, isolated=False)
    busy, others, used = paper.BusyHosts(case, []), set(loops()), {}

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

    paper.run_experiment(paper.experiment(case, 0.8, 1), "rootless", follow, prepare=prepare)
    assert len(used["before"]) == 2 and max(used["before"]) <= 2
    assert len(used["towards the end"]) == 2 and min(used["towards the end"]) >= 5
    assert used["after"] == []


def loops() -> dict[str, int]:
    """Processor time (ticks) of every process of this machine that is a busy loop."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"while :; do :; done" in (process / "cmdline").read_bytes():
                found[process.name] = sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13]))
    return found


def test_the_gap_of_a_full_packet_is_the_papers():
    """Section 5.1: 121.1 us at 100 Mb/s; 193.8 us at 62.5 Mb/s."""
    packets = simulate(paper.experiment(paper.LINKS["100 Mb/s"], 0.1, 1)).packets
    assert np.median(np.diff(packets["time_s"])) * 1e6 == pytest.approx(121.1, abs=0.1)


@needs_virtual
def test_in_virtual_time_every_gap_is_the_links_beside_any_other_work():
    virtual = paper.measure_virtually(paper.Scale(0.2, ()), 1)
    assert virtual is not None
    table = paper.virtual_table(virtual, virtual)["virtual"]
    assert (table["within_1"] > 0.999).all() and (virtual.totals["gaps"] > 50).all()
    assert len(paper.draw_virtual(virtual, virtual).axes) == 2


def test_without_a_virtual_kernel_its_columns_are_empty_and_the_picture_says_so(monkeypatch):
    monkeypatch.setattr(paper, "why_no_processes", lambda: "no virtual kernel: not built")
    runs = paper.measure({"100 Mb/s": paper.LINKS["100 Mb/s"]}, 0.1, 1, 1, "simulated")
    assert paper.measure_virtually(paper.Scale(0.1, ()), 1) is None
    assert paper.virtual_table(runs, None)["virtual"].isna().all(axis=None)
    assert any("not measured" in text.get_text() for axis in paper.draw_virtual(runs, None).axes for text in axis.texts)
