"""Mixtures on first packets (Alizadeh et al. 2020), on few flows of the stand-in; and captures of one's own."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap
from threadpoolctl import threadpool_info

from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.papers import gmm_traffic as paper
from netrepro.papers.gmm_traffic import study as gmm_study
from netrepro.papers.gmm_traffic.measuring import Searches, measure_condition, shuffled, workstations
from netrepro.papers.gmm_traffic.setting import MODELS, LabelledTrace
from netrepro.papers.gmm_traffic.threads import one_thread_each
from netrepro.study import Runs, measure
from netrepro.study.setting import check_setting
from netrepro.traffic import CLASSES, NAMED_CLASSES, draw_flows

SETTING = paper.Setting(trace="standin", selected_features=5)


@pytest.fixture(scope="module")
def trace() -> LabelledTrace:
    return paper.open_trace("standin")


@pytest.fixture(scope="module")
def runs() -> Runs:
    return measure(paper.STUDY, SETTING, profile="test", seed=5)


def scores(runs: Runs, name: str, case: str = "right labels") -> pd.Series:
    return runs.numbers(case)[name]


def test_claims_on_the_papers_numbers_wait_for_its_trace(runs):
    measured = {each.claim: each for each in runs.measured_claims()}
    for claim in load_claims("gmm_traffic").claims:
        judgement = judge(claim, measured.get(claim.id), "simulated")
        if claim.needs:
            assert judgement.verdict == "not measured" and "needs UNIBS-2009" in judgement.reason
        else:
            assert judgement.verdict in ("agrees", "agrees in direction", "disagrees", "undecided")


def test_with_the_papers_trace_every_claim_is_measured_and_has_a_control(runs, monkeypatch):
    as_if = LabelledTrace("as if", lambda **_: None, published=True)
    monkeypatch.setattr(gmm_study, "open_trace", lambda which: as_if)
    measured = runs.measured_claims()
    assert {each.claim for each in measured} == {claim.id for claim in load_claims("gmm_traffic").claims}
    assert all(each.has_control() for each in measured)


def test_labels_dealt_out_anew_fail_the_audit_and_the_mixtures(runs, trace):
    broken = shuffled(trace.at(), 5)
    assert runs.trusted and trace.at().audit.passed and not broken.passed
    assert {"MAILS ports", "WEB ports"} <= set(broken.failed)
    assert scores(runs, "flow_macro_f1", "shuffled labels").max() < 0.4 < scores(runs, "flow_macro_f1").min()


def test_fig_3_three_packets_end_with_the_handshake_and_carry_no_payload(trace):
    """Volume is headers only: the forward length of three packets equals their headers."""
    three, four = trace.at(3).flows, trace.at(4).flows
    assert (three["total_fvolume"] == three["total_fhlen"]).mean() > 0.97
    assert (four["total_fvolume"] == four["total_fhlen"]).mean() < 0.97


def test_hosts_apart_means_that_no_workstation_is_on_both_sides(trace):
    flows = draw_flows(trace.at().flows, 1000, seed=1, smallest_class=12)
    stations = workstations(flows, trace.at())
    assert 5 <= len(set(stations)) <= 12
    ends = flows[["source_address", "destination_address"]].to_numpy()
    assert ((ends == np.asarray(stations)[:, None]).any(axis=1)).all()


def test_the_same_seed_gives_the_same_scores_and_another_seed_others():
    few = replace(SETTING, flows=700, condition="few flows")
    first, again, other = (measure_condition(few, seed, Searches())["scores"] for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


def test_steps_side_by_side_have_one_thread_of_openmp_each():
    def threads_here(_: int) -> int:
        return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "openmp")

    assert one_thread_each(threads_here, [(i,) for i in range(4)]) == [1] * 4


def test_tables_hold_every_model_and_class(runs):
    table = paper.table3(runs)
    assert set(MODELS) <= set(table.index)
    assert table.loc["paper's mixtures", "flow accuracy"] == pytest.approx(97.74)
    assert list(paper.by_class(runs).index) == list(CLASSES)
    confusions = runs.table("confusions", "right labels")
    right = confusions[confusions["true"] == confusions["predicted"]]["flows"].sum()
    assert right / confusions["flows"].sum() == pytest.approx(scores(runs, "flow_accuracy").mean(), abs=0.01)


def test_half_total_error_is_the_mean_of_the_named_classes(runs):
    table = runs.table("verification", "verification").query("first_packets == 6")
    errors = table.set_index(["repetition", "class"])["half_total_error"]
    expected = [np.mean([errors[repetition, name] for name in NAMED_CLASSES]) for repetition in (0, 1)]
    errors = runs.numbers("verification").query("first_packets == 6")["half_total_error"]
    assert list(errors) == pytest.approx(expected)
    assert scores(runs, "half_total_error", "verification, shuffled labels").min() > 0.35


# Captures of one's own.


def conversation(client_port: int, start_s: float) -> list:
    """A web page without encryption, from handshake to close."""
    ends = {"src": "192.0.2.1", "dst": "198.51.100.7"}, {"src": "198.51.100.7", "dst": "192.0.2.1"}
    ports = {"sport": client_port, "dport": 80}, {"sport": 80, "dport": client_port}
    request = b"GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: test\r\n\r\n"
    reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 600\r\n\r\n" + b"x" * 600
    script = [(0, "S", b""), (1, "SA", b""), (0, "A", b""), (0, "PA", request), (1, "PA", reply), (0, "A", b""),
              (0, "FA", b""), (1, "FA", b""), (0, "A", b"")]  # fmt: skip
    packets, numbers = [], [1000, 5000]
    for i, (side, flags, payload) in enumerate(script):
        header = TCP(**ports[side], flags=flags, seq=numbers[side], ack=numbers[1 - side] if "A" in flags else 0)
        packet = Ether() / IP(**ends[side]) / header
        packet = packet / Raw(payload) if payload else packet
        packet.time = start_s + 0.01 * i
        numbers[side] += len(payload) + ("S" in flags or "F" in flags)
        packets.append(packet)
    return packets


def test_a_capture_of_ones_own_is_named_by_inspection_and_by_mixtures(runs, trace, tmp_path: Path):
    path = tmp_path / "mine.pcap"
    wrpcap(str(path), [packet for i in range(4) for packet in conversation(40_000 + i, 1e9 + i)])
    own = paper.classify_capture(str(path), trace, SETTING, limit=400)
    assert len(own.flows) == 4
    assert set(own.flows["inspected"]) == {"WEB"}
    assert set(own.flows["predicted"]) <= set(CLASSES)
    assert own.confusion.to_numpy().sum() == 4
    assert "mine.pcap: 4 TCP flows" in own.text
    assert own.text in paper.answer(runs, own) and own.text not in paper.answer(runs)
    assert set(paper.draw_own(own)) == {"own_capture"}
    assert paper.own_tables(own).to_numpy().sum() == 4


def test_without_a_capture_it_says_how_to_give_one():
    own = paper.classify_capture("")
    assert "-p capture=" in own.text and paper.draw_own(own) == {} and paper.own_tables(own).empty


def test_a_file_that_is_no_capture_is_refused_before_anything_is_measured(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("not packets")
    with pytest.raises(NetreproError, match="is not a capture"):
        paper.check_capture(str(path))
    with pytest.raises(NetreproError, match="does not exist"):
        paper.check_capture(str(tmp_path / "nowhere.pcap"))
    assert paper.check_capture("") == ""


def test_a_folder_of_the_papers_trace_is_the_trace_and_no_capture(tmp_path: Path):
    """Whoever has UNIBS-2009 runs it with -p capture=FOLDER."""
    setting = paper.Setting(capture=str(tmp_path))
    assert setting.which_trace == str(tmp_path) and paper.Setting(capture=__file__).which_trace == "auto"
    with pytest.raises(NetreproError, match=r"not complete in .*no unibs20090930\.anon\.pcap"):
        paper.check_capture(str(tmp_path))
    for name in (*(f"unibs{day}.anon.pcap" for day in (20090930, 20091001, 20091002)), "groundtruth.log"):
        (tmp_path / name).touch()
    assert paper.check_capture(str(tmp_path)) == ""
    opened = paper.open_trace(setting.which_trace)
    assert opened.published and opened.name == "UNIBS-2009"


def test_a_capture_without_a_whole_connection_says_what_there_is(trace, tmp_path: Path):
    path = tmp_path / "late.pcap"
    wrpcap(str(path), conversation(40_000, 1e9)[3:6])
    with pytest.raises(NetreproError, match=r"no TCP flow with a handshake.*3 packets, 1 other TCP flows"):
        paper.classify_capture(str(path), trace)
    datagram = Ether() / IP(src="192.0.2.1", dst="198.51.100.7") / UDP(sport=50_000, dport=443) / Raw(b"quic")
    wrpcap(str(path), [datagram])
    with pytest.raises(NetreproError, match="1 UDP flows"):
        paper.classify_capture(str(path), trace)


def test_empty_files_and_captures_are_told_apart(trace, tmp_path: Path):
    nothing, no_packet = tmp_path / "nothing.pcap", tmp_path / "no_packet.pcap"
    nothing.touch()
    with pytest.raises(NetreproError, match="is not a capture: it is empty"):
        paper.check_capture(str(nothing))
    no_packet.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    assert paper.check_capture(str(no_packet))
    with pytest.raises(NetreproError, match=r"no_packet\.pcap has no packet"):
        paper.classify_capture(str(no_packet), trace)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"feature_set": "netmate95"}, "did you mean 'netmate59'"),
        ({"normalisation": "lag"}, "did you mean 'log'"),
        ({"prior": "mape"}, "did you mean 'map'"),
        ({"training_share": 1.0}, "0 < training_share < 1"),
        ({"regularisation": -0.1}, "regularisation = -0.1 must be 0 < regularisation ≤ 1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_the_nearest(change, hint):
    with pytest.raises(NetreproError, match=hint):
        check_setting(paper.Setting(**change))


def test_an_unknown_trace_is_refused():
    with pytest.raises(NetreproError, match="did you mean 'standin'"):
        paper.open_trace("standing")
