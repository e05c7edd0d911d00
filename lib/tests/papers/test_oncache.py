"""ONCache: its model under hypothesis, the real programs where root and eBPF are to be had, claims and figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.claims import load_claims
from netrepro.claims.verdicts import judge
from netrepro.emulation.overlay.network import Overlay, Traffic, missing_for_trials
from netrepro.errors import NetreproError
from netrepro.papers import oncache as paper
from netrepro.papers.oncache import figures, measuring
from netrepro.protocols import oncache as model
from netrepro.study import Runs, measure

CONTAINERS = {"a": "1", "b": "2", "c": "1", "d": "2"}
FLOWS = [
    model.Packet(source, destination, port, 80)
    for source, destination in (("a", "b"), ("c", "d"), ("b", "a"))
    for port in (1, 2)
]
SIZES = st.fixed_dictionaries({name: st.integers(1, 3) for name in ("to_host", "to_route", "filter")})
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(FLOWS), st.booleans()),
        st.tuples(st.just("evict"), st.sampled_from("12"), st.sampled_from(model.CACHES)),
        st.tuples(st.just("forget"), st.sampled_from("12"), st.just("")),
        st.tuples(st.just("refuse"), st.sampled_from("12"), st.sampled_from((1, 2))),
    ),
    max_size=60,
)


def hosts_with(**changes) -> dict[str, model.Host]:
    return {name: model.Host(name, CONTAINERS, **changes) for name in ("1", "2")}


def play(hosts: dict[str, model.Host], steps) -> None:
    """Follow the steps, and compare each packet's fate with what the overlay's filters say by themselves."""
    for what, first, second in steps:
        if what == "send":
            packet = first.answer if second else first
            wanted = not any(host.refuses(packet) for host in hosts.values())
            assert model.send(hosts, packet).arrived == wanted
        elif what == "evict":
            model.evict(hosts[first], second)
        elif what == "forget":
            hosts[first].tracked.clear()
        else:
            model.refuse(
                hosts, first, lambda packet, port=second: port in (packet.source_port, packet.destination_port)
            )


@given(STEPS, SIZES, st.booleans())
def test_a_cache_changes_no_packets_fate(steps, sizes, reverse_check):
    """Neither a refused packet that passes, nor a black hole, whatever is evicted, forgotten or refused when."""
    play(hosts_with(entries=sizes, reverse_check=reverse_check), steps)


def test_without_the_deletion_a_refused_flow_passes_so_that_the_property_can_fail():
    hosts, request = model.two_hosts(), FLOWS[0]
    model.exchange(hosts, request, 4)
    model.refuse(hosts, "2", lambda packet: True, delete=False)
    assert all(each.arrived for each in model.exchange(hosts, request, 4))


@given(STEPS)
def test_any_flow_that_is_let_through_comes_to_the_fast_path_when_the_route_is_checked_too(steps):
    hosts = hosts_with(route_check=True)
    play(hosts, steps)
    for flow in FLOWS:
        if not any(host.refuses(each) for host in hosts.values() for each in (flow, flow.answer)):
            model.exchange(hosts, flow, 5)
            assert all(each.fast_out and each.fast_in for each in model.exchange(hosts, flow, 2))


def test_the_published_reverse_check_leaves_a_flow_slow_whose_route_alone_was_evicted():
    holds = measuring.model_trials().query("what == 'evict'").set_index(["case", "trial"])["holds"]
    lost = holds["as published"].index[~holds["as published"].astype(bool)]
    assert list(lost) == ["to_route of host 1", "to_route of host 2"]
    assert holds["route checked too"].all()
    assert list(holds["no reverse check"]) == [False] * 6 + [True] * 2  # the filter's entry serves both directions


def test_the_first_packets_miss_exactly_as_often_as_both_directions_need():
    hosts = model.two_hosts()
    model.exchange(hosts, FLOWS[0], 10)
    assert dict(hosts["1"].counters) == {
        "egress_miss": 2, "ingress_miss": 1, "egress_hit": 8, "ingress_hit": 9, "egress_learned": 1,
        "ingress_learned": 1,
    }  # fmt: skip


def test_without_marks_or_without_answers_nothing_is_learned():
    for hosts, passed in (
        (unmarked := model.two_hosts(marks=False), model.exchange(unmarked, FLOWS[0], 10)),
        (one_way := model.two_hosts(), [model.send(one_way, FLOWS[0]) for _ in range(10)]),
    ):
        assert not any(each.fast_out or each.fast_in for each in passed)
        assert not hosts["1"].filter


def test_a_container_cannot_forge_the_marks():
    hosts = model.two_hosts()
    model.send(hosts, model.Packet("a", "b", 1, 80, missed=True, established=True))
    assert not hosts["1"].filter
    assert not hosts["2"].filter


def test_learning_is_paused_while_the_filter_changes():
    hosts = model.two_hosts()
    for host in hosts.values():
        host.paused = True
    model.exchange(hosts, FLOWS[0], 5)
    assert not any(host.filter or host.to_route for host in hosts.values())


def test_a_full_cache_forgets_what_was_used_the_longest_ago():
    cache = model.Lru(2)
    cache.put("x", 1)
    cache.put("y", 2)
    assert cache.used("x") == 1
    cache.put("z", 3)
    assert list(cache) == ["x", "z"]


def test_mistakes_are_named():
    with pytest.raises(NetreproError, match="entries"):
        model.two_hosts(entries={"filter": 0})
    with pytest.raises(NetreproError, match="no cache"):
        model.evict(model.two_hosts()["1"], "route")


# Claims and figures.


class MadeUpNetwork:
    """A network whose cache is so much faster than its overlay, up to a hundredth."""

    gain, uneven, random = 1.36, False, np.random.default_rng(1)
    bare_runs = 0

    def __init__(self, overlay: Overlay):
        self.overlay, self.marked = overlay, overlay.cache is not None and overlay.marks

    def __enter__(self) -> MadeUpNetwork:
        return self

    def close(self) -> None:
        """Leave nothing behind."""

    def run_traffic(self, kind, seconds, flows=1, bare=False, one_processor=False, datagram_bytes=1400) -> Traffic:
        fast = 1.5 if bare else self.gain if self.marked else 1.0
        if self.overlay.steering and self.overlay.cache and self.overlay.cache.constant_port:
            fast /= 3
        if self.uneven and bare and (kind, flows, one_processor) == ("tcp_rr", 1, False):
            self.bare_runs += 1
            fast *= 1 + self.bare_runs % 2
        return Traffic(1e5 * fast * (1 + 0.01 * self.random.standard_normal()), 1.0, 0.75, 0.25)

    def counters(self, number: int) -> dict[str, int]:
        return {"egress_hit": 100 * self.marked, "egress_miss": 1}


@pytest.fixture
def made_up(monkeypatch):
    """Measure, as root would, networks that are made up; the trials of the programs are the model's."""

    def measured(refusal="", **changes) -> Runs:
        monkeypatch.setattr(measuring, "OverlayNetwork", type("Network", (MadeUpNetwork,), changes))
        monkeypatch.setattr(measuring, "kernel_trials", lambda tier: measuring.model_trials())
        monkeypatch.setattr(measuring, "missing_for_overlays", lambda: "")
        monkeypatch.setattr(measuring, "missing_for_kube_proxy", lambda: refusal)
        return measure(paper.STUDY, tier="privileged")

    return measured


def verdicts(runs: Runs) -> dict[str, tuple[str, bool]]:
    claims = load_claims("oncache")
    judged = [judge(claims.claim(each.claim), each, runs.tier) for each in runs.measured_claims()]
    return {each.claim: (each.verdict, each.counts) for each in judged}


def test_the_published_gain_agrees_and_no_gain_disagrees(made_up):
    fast, none = verdicts(made_up()), verdicts(made_up(gain=1.0))
    assert set(fast) == {claim.id for claim in load_claims("oncache").claims}
    for claim in ("tcp-rr", "udp-rr", "cpu-per-rr", "tcp-rr-many-flows", "gap-to-bare"):
        assert fast[claim] == ("agrees", True), claim
    assert fast["source-port"][0] == "not judged"  # dozens of processors decide it
    for claim in ("tcp-rr", "udp-rr", "tcp-throughput", "udp-throughput", "cpu-per-rr", "gap-to-bare"):
        assert none[claim][0] == "disagrees", claim


def test_processor_time_is_told_for_each_side_and_gigabyte(made_up):
    times = paper.processor_times(made_up()).xs(1, level="flows")
    assert np.allclose(times["client"], 3 * times["server"])
    assert np.allclose(times["both"], times["client"] + times["server"])
    # Made up: a processor second for the overlay's 1e5 bytes, datagrams of 1400 bytes, or transactions.
    for kind, cost in (("tcp_stream", 1e4), ("udp_stream", 1e4 / 1400), ("tcp_rr", 10.0)):
        assert times.loc[(kind, "overlay"), "both"] == pytest.approx(cost, rel=0.03), kind
    assert times.loc[("udp_stream", "ONCache"), "to_overlay"] == pytest.approx(1 / 1.36, rel=0.04)


def test_a_network_is_compared_with_the_overlay_that_has_the_same_changes(made_up):
    def run_traffic(self, kind, seconds, flows=1, bare=False, one_processor=False, datagram_bytes=1400) -> Traffic:
        return Traffic(1e8 * (1 + self.marked) / datagram_bytes / (1 + self.overlay.rules), 1.0, 1.0, 1.0)

    table = paper.summary(made_up(run_traffic=run_traffic))["to_overlay"]
    for case, rules in (("ONCache, 8 KB whole", 0), ("ONCache, 8 KB in fragments", 0), ("ONCache", 0)):
        assert table["udp_stream", 1, case, rules] == pytest.approx(2), case
    assert table["tcp_rr", 1, "ONCache, more rules", 1000] == pytest.approx(2)
    assert table["udp_rr", 1, measuring.FRESH, 0] == 1


def test_every_cell_is_measured_once_a_round_and_its_trials_are_tried_once(made_up):
    runs = made_up()
    rounds = figures.rates(runs).groupby("repetition").size()
    assert list(rounds) == [50, 50, 27, 27, 27]  # quick has in two rounds only what no claim needs
    assert (runs.values[runs.values["case"].isin(measuring.TRIALS)].groupby(["tier", "case"]).size() == 1).all()


def test_a_netfilter_that_refuses_kube_proxys_rules_costs_only_that_row(made_up):
    assert paper.bare_hosts(made_up()).notna().all(axis=None)
    runs = made_up(refusal="no addrtype")
    assert runs.why_not(measuring.KUBE_PROXY) == "no addrtype"
    assert list(paper.bare_hosts(runs).notna()["tcp_rr"]) == [True, True, False]
    assert verdicts(runs)["tcp-rr"] == ("agrees", True)


def test_a_machine_that_does_not_repeat_itself_is_not_believed_but_its_trials_are(made_up):
    runs = made_up(uneven=True)
    judged = verdicts(runs)
    assert judged["tcp-rr"][0] == "untrusted" and paper.answer(runs).startswith("Untrusted")
    assert judged["refused-stays-refused"] == ("agrees", True)


def test_packets_that_miss_the_fast_path_make_costs_untrusted(made_up):
    slow = made_up(counters=lambda self, number: {"egress_hit": 80 * self.marked, "egress_miss": 20})
    assert verdicts(slow)["udp-rr"][0] == "untrusted"


def test_a_machine_without_root_gets_the_models_trials_and_is_told_why_there_are_no_costs():
    runs = measure(paper.STUDY)
    assert set(verdicts(runs)) == {"refused-stays-refused", "learns-again"}
    assert "real time" in runs.why_not(measuring.ONCACHE)
    assert "not measured" in paper.answer(runs)
    assert paper.processor_times(runs).empty and paper.bare_hosts(runs).isna().all(axis=None)


def test_root_without_a_compiler_is_told_what_lacks_and_the_model_stands_for_no_program(monkeypatch):
    for tier, name in (("privileged", "missing_for_overlays"), ("virtual", "missing_for_trials")):
        monkeypatch.setattr(measuring, name, lambda: "not installed: clang")
        runs = measure(paper.STUDY, tier=tier)
        assert runs.measured_claims() == []
        assert "not installed: clang" in (paper.answer(runs), runs.why_not(measuring.PUBLISHED))[tier == "virtual"]
        assert "in the model" in paper.answer(runs)
        assert figures.draw_trials(runs).axes


def test_figures_of_a_whole_run_show_every_network(made_up):
    runs = made_up()
    for name in ("fig5_rates", "fig5_processor", "knob_rules", "knob_processors", "knob_packets"):
        for axis in paper.STUDY.figures[name](runs).axes:
            assert len(axis.lines) + len(axis.patches) >= 2, name


def test_the_class_tables_are_those_of_the_report():
    def gain(transport: str, column: str, of: str = "oncache") -> float:
        rows = figures.published()[column]
        return rows[transport, of, 1] / rows[transport, "overlay", 1]

    assert gain("tcp", "gbps") == pytest.approx(1.17, abs=0.01)  # "17 % better"
    assert gain("tcp", "rr") == pytest.approx(1.38, abs=0.005)
    assert gain("udp", "gbps") == pytest.approx(2.19, abs=0.005)
    assert gain("udp", "rr") == pytest.approx(1.25, abs=0.005)
    # Its report: Cilium's throughput is far below Antrea's, and so it needs far more processor a byte of UDP.
    assert gain("tcp", "gbps", "cilium") < 0.5
    assert gain("udp", "processors", "cilium") / gain("udp", "gbps", "cilium") > 2.5


# The real programs.


@needs_virtual
@pytest.mark.skipif(bool(missing_for_trials()), reason=missing_for_trials())
def test_programs_and_model_agree_in_every_trial_without_privileges():
    runs = measure(paper.STUDY, tier="virtual")
    trials = runs.tables["trials"].query("tier == 'virtual'")
    assert len(trials) == 34 and trials["fast_before"].all()  # eight evictions a case, two refusals
    assert (trials[trials["what"] == "evict"]["arrived"] == 10).all()  # slow perhaps, never lost
    assert runs.trusted
    assert dict(paper.trial_table(runs)["virtual"]) == {
        "as published": 0.75, "no reverse check": 0.25, "route checked too": 1.0, "as published, GENEVE": 0.75,
        "deletes": 1.0, "does not delete": 0.0,
    }  # fmt: skip


def test_a_trial_that_differs_from_the_models_is_not_believed():
    table = measuring.model_trials()
    other = table.assign(holds=~table["holds"].astype(bool))
    assert not all(each.holds for each in measuring.read_trials("as published", other, table).checks)
