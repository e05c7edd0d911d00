"""The generator of labelled traffic, on a tiny run: real applications in virtual time, captured and labelled."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from typer.testing import CliRunner
from virtual_kernel import needs_virtual

from netrepro.applications.labelled_traffic import (
    Day,
    Mix,
    generate,
    make,
    make_capture,
    record_day,
    shorten_day,
    write_standin,
)
from netrepro.errors import NetreproError
from netrepro.traffic import CLASSES, FLOW_FEATURES, LabelledFlows, join_labels, load_standin, meter, read_ground_truth
from netrepro.traffic.standin import FLOWS, KEPT_PACKETS, LOG, RUNS, capture_name
from netrepro.workbench.cli.commands import app

ETHERNET = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
ENDS = ["source_address", "source_port", "destination_address", "destination_port"]
MAIL_PORTS, WEB_PORTS = {25, 110, 143, 465, 587, 993, 995}, {80, 443, 8080}
no_peers = pytest.mark.skipif(
    sys.version_info >= (3, 14) and importlib.util.find_spec("libtorrent") is None,
    reason="libtorrent has no wheel for this Python",
)


class Made(NamedTuple):
    """A small capture from end to end: its folder, its table, its recording, and how often its progress was asked."""

    folder: Path
    table: pd.DataFrame
    day: Day
    asked: int


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The one recording of all programs: to start dozens of them costs more than what they then do."""
    kept, told, days = tmp_path_factory.mktemp("made"), [], []

    def record(folder: Path, **how: Any) -> Day:
        day = record_day(folder, **how)
        days.append(replace(day, capture=Path(shutil.copy(day.capture, kept))))
        return day

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "record_day", record)
        table = make_capture(
            kept / "made", seconds=6, scale=0.02, days=1, seed=4, progress=lambda seconds: told.append(1) or seconds
        )
    return Made(kept / "made", table, days[0], len(told))


@pytest.fixture(scope="module")
def day(made: Made) -> Day:
    return made.day


@pytest.fixture(scope="module")
def folder(day: Day, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one recording shipped as two days."""
    folder = tmp_path_factory.mktemp("shipped")
    write_standin(folder, [shorten_day(day, 0), shorten_day(day, 1)])
    return folder


def one_day(trace: LabelledFlows, number: int = 0) -> pd.DataFrame:
    return trace.flows[trace.flows["day"] == number].sort_values(["start_us", *ENDS], ignore_index=True)


@needs_virtual
@no_peers
def test_every_application_runs_and_the_capture_misses_no_packet(day: Day) -> None:
    assert set(day.records["application"]) == set(generate.PROTOCOLS)
    assert day.missed_packets == 0
    assert sum(day.failed.values()) <= 5, day.failed


@needs_virtual
@no_peers
def test_every_class_appears_on_both_days_and_the_log_agrees_with_the_servers_ports(folder: Path) -> None:
    trace = load_standin(folder, first_packets=9)
    for number in (0, 1):
        assert set(one_day(trace, number)["class"]) == set(CLASSES)
    to_mail, to_web = (trace.flows["destination_port"].isin(ports) for ports in (MAIL_PORTS, WEB_PORTS))
    assert (trace.flows.loc[to_mail, "class"] == "MAILS").all() and to_mail.any()
    assert (trace.flows.loc[to_web, "class"] == "WEB").all() and to_web.any()
    assert not trace.flows.loc[~to_mail & ~to_web, "class"].isin(["MAILS", "WEB"]).any()


@needs_virtual
@no_peers
def test_nearly_every_label_finds_its_flow_and_most_flows_their_label(day: Day, folder: Path) -> None:
    trace = load_standin(folder, first_packets=9)
    assert trace.join.flows["class"].notna().mean() > 0.7
    lines = read_ground_truth(folder / LOG).records
    assert len(lines) == 2 * len(day.records)
    ends = {frozenset([row[:2], row[2:]]) for row in trace.join.flows[ENDS].itertuples(index=False, name=None)}
    logged = lines[ENDS].itertuples(index=False, name=None)
    assert sum(frozenset([row[:2], row[2:]]) in ends for row in logged) > 0.9 * len(lines)
    assert trace.join.flows["record_delay_s"].abs().median() < 1


@needs_virtual
@no_peers
@pytest.mark.parametrize("first_packets", [1, 4, 9, KEPT_PACKETS, None])
def test_what_is_shipped_tells_what_the_whole_capture_tells(day: Day, folder: Path, first_packets: int | None) -> None:
    whole = meter(day.capture, first_packets=first_packets).flows
    shipped = load_standin(folder, first_packets=first_packets)
    whole = whole[whole["valid"]]
    later_us = shipped.join.flows["start_us"].min() - whole["start_us"].min()
    moved = whole.assign(start_us=whole["start_us"] + later_us, end_us=whole["end_us"] + later_us)
    found = one_day(shipped)
    expected = found[[*ENDS, "start_us"]].merge(moved, on=[*ENDS, "start_us"], how="left", validate="one_to_one")
    lengths = [f"{side}pl{i + 1}" for side in "fb" for i in range(10)]
    names = [*FLOW_FEATURES, *lengths, "end_us", "flow_fpackets", "flow_bpackets", "flow_fbytes", "flow_bbytes"]
    pd.testing.assert_frame_equal(found[names], expected[names], check_dtype=False, rtol=1e-9)
    assert len(found) > 30


@needs_virtual
@no_peers
def test_the_capture_itself_holds_no_byte_of_payload(day: Day) -> None:
    data = day.capture.read_bytes()
    at, cut = 24, 0
    while at < len(data):
        kept_bytes, wire_bytes = struct.unpack_from("<II", data, at + 8)
        packet = data[at + 16 : at + 16 + kept_bytes]
        tcp = 14 + 4 * (packet[14] & 15)
        assert kept_bytes == tcp + 4 * (packet[tcp + 12] >> 4)
        cut += wire_bytes > kept_bytes
        at += 16 + kept_bytes
    assert cut > 100


@needs_virtual
@no_peers
def test_hosts_announce_different_options_when_they_open_connections(day: Day) -> None:
    flows = meter(day.capture, first_packets=1).flows
    assert flows.loc[flows["starts_with_syn"], "fpl1"].nunique() > 1


@needs_virtual
@no_peers
def test_a_join_by_the_order_of_the_log_labels_other_flows(folder: Path) -> None:
    trace = load_standin(folder, first_packets=9)
    right = trace.join.flows
    wrong = join_labels(right.drop(columns=["class"]), trace.ground_truth.records, by="order", clock_offset_s=0).flows
    both = right["class"].notna() & wrong["class"].notna()
    assert (right["class"] != wrong["class"])[both].mean() > 0.1


@needs_virtual
@no_peers
def test_a_small_capture_made_from_end_to_end_fails_its_audit_by_nothing_but_the_mix_it_is_too_small_for(
    made: Made,
) -> None:
    """Five mails beside sixty pages are too many, whatever the labels; everything else of the audit must pass."""
    trace = load_standin(made.folder, first_packets=9)
    assert made.asked == 1
    table = made.table
    assert table.index.names == ["day", "class"] and set(table.index.get_level_values("day")) == {0}
    assert table["flows"].sum() == len(trace.flows) and table["flows"].min() >= 1
    runs = pd.read_csv(made.folder / RUNS)
    assert (runs["missed_packets"] == 0).all() and runs["flows"].sum() == len(trace.join.flows)
    checks = trace.audit.table()
    assert checks.loc[~checks["by_design"], "passed"].all(), trace.audit.why
    assert "class shares" in trace.audit.failed
    assert {path.name for path in made.folder.iterdir()} == {FLOWS, LOG, RUNS, capture_name(0)}


@pytest.fixture
def small_campus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer programs have to start."""
    for name in ("WORKSTATIONS", "REMOTES"):
        monkeypatch.setattr(generate, name, getattr(generate, name) // 2 - 1)


@needs_virtual
def test_the_same_seed_gives_the_same_capture_byte_for_byte(tmp_path: Path, small_campus: None) -> None:
    """But for BitTorrent: libtorrent asks the processor for its random numbers."""
    mix = Mix(web=20, p2p=0, mails=6, skype=5, others=5)
    days = []
    for name in ("first", "again"):
        (tmp_path / name).mkdir()
        days.append(record_day(tmp_path / name, seconds=5, mix=mix, seed=3))
    first, again = days
    assert first.capture.read_bytes() == again.capture.read_bytes() and first.packets > 1000
    assert first.records.equals(again.records) and set(first.records["application"]) == {*generate.PROTOCOLS} - {
        "bittorrent"
    }


def test_the_campus_shakes_loses_and_delays_as_the_stand_ins_readme_says() -> None:
    links = [cable.forward for cable in generate.campus(2026).cables if cable.forward.delay_ms]
    assert len(links) == generate.REMOTES
    delays_ms = sorted(link.delay_ms for link in links)
    assert delays_ms[0] > 4 and delays_ms[-1] < 34
    shaken = [link.jitter_ms / link.delay_ms for link in links]
    assert round(min(shaken), 2) == 0.03 and round(max(shaken), 2) == 0.19
    lossy = [link.loss for link in links if link.loss]
    assert len(lossy) == 7 and (min(lossy), max(lossy)) == (0.001, 0.006)
    assert [link.reordering for link in links if link.reordering] == [0.001, 0.001]


def test_a_missing_library_is_named_before_anything_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generate, "LIBRARIES", ("no_such_library",))
    with pytest.raises(NetreproError, match=r"no_such_library[\s\S]*netrepro\[capture\]"):
        make_capture(tmp_path / "into", seconds=10)
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("wrong", [{"seconds": 1}, {"days": 0}, {"scale": 0}, {"seconds": float("nan")}])
def test_a_run_that_cannot_be_is_refused(tmp_path: Path, wrong: dict) -> None:
    with pytest.raises(NetreproError, match="give"):
        make_capture(tmp_path / "into", **wrong)


def test_of_two_flows_between_the_same_ends_the_first_is_shipped_whole(tmp_path: Path) -> None:
    """The second reaches back over a port soon after the first was closed, before any time-out."""
    first, second = (connection_packets(start_s, first="10.0.0.1") for start_s in (1000.0, 1030.0))
    other = connection_packets(1010.0, first="10.0.0.2")
    capture = write_pcap(tmp_path / "all.pcap", sorted([*first, *second, *other]))
    records = pd.DataFrame([(1000.0, "10.0.0.1", 40_000, "10.0.0.9", 80, "browser")], columns=generate.RECORD_COLUMNS)
    assert len(meter(capture).flows) == 3
    short = shorten_day(Day(capture, records, 0, 0, {}), 0)
    assert short.run["flows"] == 2 and short.run["left_out"] == 1
    (tmp_path / "short.pcap").write_bytes(short.capture)
    again = meter(tmp_path / "short.pcap").flows
    assert again["source_address"].tolist() == ["10.0.0.1", "10.0.0.2"]
    assert (again["flow_fpackets"] + again["flow_bpackets"] == KEPT_PACKETS).all()
    assert (short.flows["flow_fpackets"] + short.flows["flow_bpackets"] == len(other)).all()


def connection_packets(start_s: float, first: str, data_packets: int = 10) -> list[tuple[float, bytes]]:
    """A connection from port 40000 of `first` to a server, 10 ms between packets."""
    script = [(True, "S"), (False, "SA"), (True, "A"), *[(True, "PA"), (False, "PA")] * (data_packets // 2)]
    script += [(True, "FA"), (False, "FA"), (True, "A")]
    packets = []
    for i, (forward, flags) in enumerate(script):
        source, destination = (first, "10.0.0.9") if forward else ("10.0.0.9", first)
        ports = {"sport": 40_000, "dport": 80} if forward else {"sport": 80, "dport": 40_000}
        length = 140 if "P" in flags else 40
        headers = ETHERNET / IP(src=source, dst=destination, len=length) / TCP(**ports, flags=flags)
        packets.append((start_s + 0.01 * i, bytes(headers)))
    return packets


def write_pcap(path: Path, packets: list[tuple[float, bytes]]) -> Path:
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 134, 1)
    for time_s, packet in packets:
        whole, fraction = divmod(round(time_s * 1e6), 1_000_000)
        data += struct.pack("<IIII", whole, fraction, len(packet), len(packet)) + packet
    path.write_bytes(data)
    return path


def test_the_command_refuses_what_the_function_refuses(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["capture", "--into", str(tmp_path / "into"), "--seconds", "1"])
    assert isinstance(result.exception, NetreproError)
    assert not (tmp_path / "into").exists()
