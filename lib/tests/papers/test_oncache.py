"""ONCache: its model under hypothesis, the real programs where root and eBPF are to be had, claims and figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_kernel import needs_virtual

from netrepro.claims import load_claims
from netrepro.claims.verdicts import judge
from netrepro.emulation.overlay.network import Cache, Overlay
from netrepro.emulation.overlay.trials import run_trials
from netrepro.errors import NetreproError
from netrepro.papers import oncache as paper
from netrepro.protocols import oncache as model

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
    found = paper.model_trials().query("what == 'evict'").set_index(["case", "trial"])["holds"]
    lost = found["as published"].index[~found["as published"].astype(bool)]
    assert list(lost) == ["to_route of host 1", "to_route of host 2"]
    assert found["route checked too"].all()
    assert list(found["no reverse check"]) == [False] * 6 + [True] * 2  # the filter's entry serves both directions


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


def test_flows_that_fit_are_fast_and_one_too_many_in_turn_is_none():
    table = paper.vary_cache(flows=(8, 9), entries=8, rounds=10).query("order == 'in turn'").set_index("flows")
    assert table["fast_share"][8] == 1
    assert table["fast_share"][9] == 0


def test_mistakes_are_named():
    with pytest.raises(NetreproError, match="entries"):
        model.two_hosts(entries={"filter": 0})
    with pytest.raises(NetreproError, match="no cache"):
        model.evict(model.two_hosts()["1"], "route")
    with pytest.raises(NetreproError, match="repetitions"):
        paper.measure("simulated", 1, 1)
    with pytest.raises(NetreproError, match="tier"):
        paper.measure("rootless", 2, 1)
    with pytest.raises(NetreproError, match="profile"):
        paper.measure("simulated", 2, 1, profile="quik")


# Claims and figures.


def made_up(gain: float = 1.36, spread: float = 0.01) -> paper.Runs:
    """Runs whose cache is so much faster than the overlay; the model's trials are real."""
    random, rows = np.random.default_rng(1), []
    scale = paper.scale_of("quick")
    for repetition in range(5):
        for cell in paper.cells(scale):
            name = cell.network.removesuffix(paper.TOGETHER)
            fast = {"bare": 1.5, "bare again": 1.5, "steered, constant port": gain / 3}.get(name, 1.0)
            if name.startswith(("ONCache", "steered", "constant port")) and name != "steered, constant port":
                fast = gain
            rate = 1e5 * fast * (1 + spread * random.standard_normal())
            rows.append((repetition, cell.network, cell.kind, cell.flows, rate, 1e6 / rate))
    rates = pd.DataFrame(rows, columns=["repetition", "network", "kind", "flows", "rate", "processor_us"])
    return paper.Runs("privileged", paper.Setting(), rates, paper.model_trials().assign(tier="privileged"),
                      {paper.ONCACHE: 1.0, paper.UNMARKED: 0.0})  # fmt: skip


def verdicts(runs: paper.Runs) -> dict[str, tuple[str, bool]]:
    claims = load_claims("oncache")
    found = [judge(claims.claim(each.claim), each, runs.tier) for each in paper.measured_claims(runs)]
    return {each.claim: (each.verdict, each.counts) for each in found}


def test_the_published_gain_agrees_and_no_gain_disagrees():
    fast, none = verdicts(made_up(1.36)), verdicts(made_up(1.0))
    for claim in ("tcp-rr", "udp-rr", "cpu-per-rr", "tcp-rr-many-flows", "gap-to-bare"):
        assert fast[claim] == ("agrees", True), claim
    assert fast["source-port"][0] == "not judged"  # dozens of processors decide it
    for claim in ("tcp-rr", "udp-rr", "tcp-throughput", "udp-throughput", "cpu-per-rr", "gap-to-bare"):
        assert none[claim][0] == "disagrees", claim


def test_a_machine_that_does_not_repeat_itself_is_not_believed_but_its_trials_are():
    runs = made_up()
    again = runs.rates["network"] == paper.AGAIN
    runs.rates.loc[again, "rate"] *= 2
    found = verdicts(runs)
    assert found["tcp-rr"][0] == "untrusted"
    assert found["refused-stays-refused"] == ("agrees", True)


def test_a_machine_without_root_gets_the_models_trials_and_is_told_why_there_are_no_costs():
    runs = paper.measure("simulated", 2, 1)
    assert set(verdicts(runs)) == {"refused-stays-refused", "learns-again"}
    assert "real time" in runs.why_not
    assert "not measured" in paper.answer(runs)
    for draw in (paper.draw_flows, paper.draw_processor, paper.draw_ratios, paper.draw_trials, paper.draw_rules,
                 paper.draw_processors):  # fmt: skip
        draw(runs)


def test_root_without_a_compiler_is_told_what_lacks_and_the_model_stands_for_no_program(monkeypatch):
    monkeypatch.setattr(paper, "missing_for_overlays", lambda: "clang is not installed")
    runs = paper.measure("privileged", 2, 1)
    assert paper.measured_claims(runs) == []
    assert "clang is not installed" in paper.answer(runs)
    assert paper.draw_trials(runs).axes


def test_figures_of_a_whole_run():
    runs = made_up()
    for draw in (paper.draw_flows, paper.draw_processor, paper.draw_ratios, paper.draw_rules, paper.draw_processors):
        assert draw(runs).axes
    assert paper.draw_cache(paper.vary_cache(flows=(4, 8), entries=8, rounds=6)).axes


def test_the_class_tables_are_those_of_the_report():
    first = paper.published().loc[1]
    assert first.tcp_oncache_gbps / first.tcp_overlay_gbps == pytest.approx(1.17, abs=0.01)  # "17 % better"
    assert first.tcp_oncache_rr / first.tcp_overlay_rr == pytest.approx(1.38, abs=0.005)
    assert first.udp_oncache_gbps / first.udp_overlay_gbps == pytest.approx(2.19, abs=0.005)
    assert first.udp_oncache_rr / first.udp_overlay_rr == pytest.approx(1.25, abs=0.005)


# The real programs.


@needs_virtual
def test_programs_and_model_agree_in_every_trial_without_privileges():
    cases = {
        "as published": Overlay(tunnel="geneve", cache=Cache()),
        "no reverse check": Overlay(cache=Cache(reverse_check=False)),
    }
    found = run_trials("virtual", cases, paper.REFUSALS).assign(tier="virtual")
    trials = pd.concat([found, paper.model_trials()], ignore_index=True)
    runs = paper.Runs("virtual", paper.Setting(), pd.DataFrame(), trials, {})
    assert trials["fast_before"].all()
    assert len(found) == 18  # eight evictions a case, two refusals
    assert (trials[trials["what"] == "evict"]["arrived"] == 10).all()  # slow perhaps, never lost
    assert paper.disagreements(runs).empty
    assert (runs.share("evict", "as published"), runs.share("evict", "no reverse check")) == (0.75, 0.25)
    assert (runs.share("refuse", "deletes"), runs.share("refuse", "does not delete")) == (1.0, 0.0)
