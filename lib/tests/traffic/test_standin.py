"""The shipped stand-in for UNIBS-2009, and the loader that reads it as the real trace is read."""

from __future__ import annotations

import lzma
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from netrepro.applications.labelled_traffic.generate import campus
from netrepro.errors import NetreproError
from netrepro.paths import data_dir
from netrepro.traffic import (
    CLASSES,
    FLOW_FEATURES,
    LabelledFlows,
    audit_join,
    join_labels,
    load_standin,
    read_ground_truth,
)
from netrepro.traffic.standin import FLOWS, KEPT_PACKETS, LOG, RUNS
from netrepro.traffic.unibs import labels

SIDES = ("source_address", "destination_address")
FOLDER = data_dir("gmm_traffic") / "standin"
SEED = 2026  # of its campus, see data/gmm_traffic/README.md


@pytest.fixture(scope="module")
def standin() -> LabelledFlows:
    return load_standin(first_packets=9)


def test_it_has_8000_labelled_flows_of_five_classes_on_two_days(standin: LabelledFlows) -> None:
    assert len(standin.flows) >= 8000
    counts = standin.flows.groupby(["day", "class"]).size().unstack()
    assert counts.index.tolist() == [0, 1]
    assert set(counts.columns) == set(CLASSES)
    assert counts.min().min() >= 20


def test_its_join_passes_the_audit_against_the_published_shares(standin: LabelledFlows) -> None:
    assert standin.audit.passed, standin.audit.why
    table = standin.audit.table()
    assert {"class shares", "P2P bytes", "MAILS bytes", "first packets"} <= set(table.index)
    assert table.loc["class shares", "by_design"] and not table.loc["MAILS ports", "by_design"]


def test_a_join_by_time_alone_does_not_pass_the_audit(standin: LabelledFlows) -> None:
    flows = standin.join.flows[[name for name in standin.join.flows if name not in ("class", "application")]]
    wrong = join_labels(flows, standin.ground_truth.records, by="time", clock_offset_s=0)
    assert not audit_join(wrong, trace=standin.trace).passed


def test_peer_to_peer_carries_most_bytes(standin: LabelledFlows) -> None:
    volume = (standin.flows["flow_fbytes"] + standin.flows["flow_bbytes"]).groupby(standin.flows["class"]).sum()
    assert volume["P2P"] > volume.sum() / 2


def test_both_days_were_recorded_without_a_missed_packet_on_one_campus(standin: LabelledFlows) -> None:
    runs = pd.read_csv(FOLDER / RUNS)
    assert (runs["missed_packets"] == 0).all()
    assert runs["flows"].sum() == len(standin.join.flows) and runs["records"].sum() == len(standin.ground_truth.records)
    assert (runs["failed"] < 0.02 * runs["records"]).all()
    days = standin.flows.groupby(["day", "source_address"])["fpl1"].agg(set).unstack("day").dropna()
    assert (days[0] == days[1]).all() and len(days) > 15


def test_round_trips_are_those_of_the_links_that_were_asked_for_shaken_as_much(standin: LabelledFlows) -> None:
    """Two packets of a flow that a workstation opens are SYN and its answer, which crossed the remote host's link."""
    flows = load_standin(first_packets=2).join.flows
    stations = sorted(set(standin.ground_truth.records["source_address"]))
    opened = flows[flows["source_address"].isin(stations) & (flows["total_bpackets"] == 1)]
    links = [cable.forward for cable in campus(SEED).cables if cable.forward.delay_ms]
    remotes = [address for address in opened["destination_address"].unique() if address not in stations]
    remotes.sort(key=lambda address: int(address.rpartition(".")[2]))
    assert len(remotes) == len(links)
    for address, link in zip(remotes, links, strict=True):
        round_trip_ms = opened.loc[opened["destination_address"] == address, "duration"] / 1000
        low, middle, high = round_trip_ms.quantile([0.1, 0.25, 0.5])
        # A quarter of the answers waited in a queue besides, so the lower half tells of the link: from the first
        # decile to the median a normal distribution has 1.28 deviations, and a round trip is shaken twice.
        assert middle == pytest.approx(2 * link.delay_ms, rel=0.1, abs=1)
        assert high - low == pytest.approx(1.28 * 2**0.5 * link.jitter_ms, rel=0.4, abs=0.4)


def test_hosts_run_several_classes_so_that_an_address_does_not_tell_the_class(standin: LabelledFlows) -> None:
    sides = [standin.flows.rename(columns={side: "host"})[["host", "class"]] for side in SIDES]
    assert pd.concat(sides).groupby("host")["class"].nunique().min() >= 2
    # Of what workstations open, the other end's address says little more than that most is WEB.
    opened = standin.flows[standin.flows["source_address"].isin(standin.ground_truth.records["source_address"])]
    commonest = opened.groupby("destination_address")["class"].agg(lambda classes: classes.value_counts().iloc[0])
    assert commonest.sum() / len(opened) < (opened["class"] == "WEB").mean() + 0.02


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.pcap.xz")))
def test_captures_hold_headers_only(name: str) -> None:
    data = lzma.decompress((FOLDER / name).read_bytes())
    at, packets = 24, 0
    while at < len(data):
        kept_bytes, _ = struct.unpack_from("<II", data, at + 8)
        packet = data[at + 16 : at + 16 + kept_bytes]
        tcp = 14 + 4 * (packet[14] & 15)
        assert kept_bytes == tcp + 4 * (packet[tcp + 12] >> 4)
        at, packets = at + 16 + kept_bytes, packets + 1
    assert packets > 10_000


def test_it_is_a_few_megabytes() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 5_000_000


def test_more_first_packets_say_more_and_none_says_all(standin: LabelledFlows) -> None:
    three, whole = load_standin(first_packets=3).flows, load_standin().flows
    keys = ["source_address", "source_port", "destination_address", "destination_port", "start_us", "class", "day"]
    pd.testing.assert_frame_equal(three[keys], whole[keys])
    seen = [table["total_fpackets"] + table["total_bpackets"] for table in (three, standin.flows, whole)]
    assert (seen[0] == 3).all() and (seen[1] <= 9).all() and (seen[2] >= seen[1]).all()
    assert seen[2].max() > KEPT_PACKETS
    names = ["flow_fpackets", "flow_bpackets", "flow_fbytes", "flow_bbytes", "end_us"]
    pd.testing.assert_frame_equal(three[names], whole[names])
    assert set(FLOW_FEATURES) <= set(whole.columns)


def test_features_of_more_packets_than_there_are_are_refused() -> None:
    with pytest.raises(NetreproError, match=f"{KEPT_PACKETS} packets"):
        load_standin(first_packets=KEPT_PACKETS + 1)
    with pytest.raises(NetreproError, match="timeout_s"):
        load_standin(timeout_s=60)


@pytest.mark.parametrize("lost", [FLOWS, LOG, "day*.pcap.xz"])
def test_a_missing_file_is_named(tmp_path: Path, lost: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(FOLDER, folder)
    for path in folder.glob(lost):
        path.unlink()
    with pytest.raises(NetreproError, match=r"no .*(csv|log|pcap)"):
        load_standin(folder)


@pytest.mark.parametrize("cut", [lambda log: log[: len(log) // 2], lambda log: b"no archive"])
def test_a_damaged_log_is_named(tmp_path: Path, cut: Callable[[bytes], bytes]) -> None:
    path = tmp_path / LOG
    path.write_bytes(cut((FOLDER / LOG).read_bytes()))
    with pytest.raises(NetreproError, match=f"{LOG} cannot be read"):
        read_ground_truth(path)


def test_labels_and_server_ports_agree_on_every_flow(standin: LabelledFlows) -> None:
    flows = standin.flows
    for name, ports in labels()["server_ports"].items():
        assert ((flows["class"] == name) == flows["destination_port"].isin(ports)).all()
    assert ((flows["class"] == "OTHERS") >= flows["destination_port"].isin([21, 22])).all()


def test_flows_of_another_capture_are_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(FOLDER, folder)
    flows = pd.read_csv(folder / FLOWS)
    flows.assign(start_us=flows["start_us"] + 1).to_csv(folder / FLOWS, index=False)
    with pytest.raises(NetreproError, match="belong to different captures"):
        load_standin(folder)
