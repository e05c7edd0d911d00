"""Every capture format gives the same flows; everything odd is counted, nothing odd is fatal."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_builder import (
    ACK,
    COOKED,
    COOKED_V2,
    ETHERNET,
    LOOP,
    LOOPBACK_NULL,
    RAW,
    SYN,
    Packet,
    block,
    connection,
    enhanced,
    in_link,
    interface,
    ipv4,
    ipv6,
    pcap,
    pcapng,
    records_of,
    section,
    tcp,
)
from scapy.contrib.mpls import MPLS, EoMCW
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, LLC, SNAP, STP, Dot1AD, Dot1Q, Dot3, Ether
from scapy.layers.ppp import PPP, PPP_LCP, PPPoE, PPPoED
from scapy.packet import Packet as ScapyPacket
from scapy.packet import Raw
from scapy.utils import PcapNgWriter, rdpcap, wrpcap

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.traffic import MeterResult, meter

NOT_IP = ["arp", "llc", "ppp_control", "mpls_other", "other_encapsulation", "other_link_protocols"]
LEFT_OUT = [
    "not_ip", "unsupported_link", "cut_in_headers", "bad_ip_header", "later_fragments", "empty_records",
]  # fmt: skip
START_US = 1_700_000_000_000_000
MAC = "02:00:00:00:00:01"
ETHERNET_HEADER = Ether(src=MAC, dst=MAC)  # else scapy asks the network for them
QINQ = ETHERNET_HEADER / Dot1AD(vlan=3) / Dot1Q(vlan=4)
SESSION = PPPoE(sessionid=7) / PPP()
LABELS = MPLS(label=1000, s=0) / MPLS(label=1001, s=1)
PSEUDOWIRE = MPLS(label=16, s=1) / EoMCW(seq=9) / ETHERNET_HEADER
NOTES = ["vlan_tagged", "mpls_labelled", "pppoe_sessions"]
ENCAPSULATIONS = {  # how much of NOTES each packet counts in
    "pppoe": (ETHERNET_HEADER / SESSION, [0, 0, 1]),
    "pppoe in qinq": (QINQ / SESSION, [1, 0, 1]),
    "one label": (ETHERNET_HEADER / MPLS(label=3, s=1), [0, 1, 0]),
    "labels": (ETHERNET_HEADER / LABELS, [0, 1, 0]),
    "upstream labels": (Ether(src=MAC, dst=MAC, type=0x8848) / LABELS, [0, 1, 0]),
    "labels in qinq": (QINQ / LABELS, [1, 1, 0]),
    "labels in ppp": (ETHERNET_HEADER / PPPoE(sessionid=7) / PPP(proto=0x0281) / LABELS, [0, 1, 1]),
    "pseudowire": (ETHERNET_HEADER / PSEUDOWIRE, [0, 1, 0]),
    "vlan in pseudowire": (ETHERNET_HEADER / PSEUDOWIRE / Dot1Q(vlan=4), [1, 1, 0]),
    "snap": (Dot3(src=MAC, dst=MAC) / LLC() / SNAP(), [0, 0, 0]),
    "snap in vlan": (ETHERNET_HEADER / Dot1Q(vlan=4, type=48) / LLC() / SNAP(), [1, 0, 0]),
    "snap by its own type": (Ether(src=MAC, dst=MAC, type=0x8870) / LLC() / SNAP(), [0, 0, 0]),
}


def meter_bytes(folder: Path, content: bytes) -> MeterResult:
    path = folder / "capture"
    path.write_bytes(content)
    result = meter(path)
    counts = result.report["count"]
    assert counts["packets"] == counts["metered"] + counts[LEFT_OUT].sum()
    flows = result.flows
    assert counts["metered"] == flows["flow_fpackets"].sum() + flows["flow_bpackets"].sum()
    assert counts["not_ip"] == counts[NOT_IP].sum()
    return result


def meter_records(folder: Path, *records: bytes, link_type: int = ETHERNET) -> pd.Series:
    content = pcap([(START_US + i, record) for i, record in enumerate(records)], link_type=link_type)
    return meter_bytes(folder, content).report["count"]


@pytest.fixture
def expected(tmp_path: Path) -> pd.DataFrame:
    return meter_bytes(tmp_path, pcap(records_of(connection()))).flows


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap_reads_the_same_in_both_byte_orders_and_resolutions(
    tmp_path: Path, expected: pd.DataFrame, order: str, nanoseconds: bool
) -> None:
    content = pcap(records_of(connection()), order=order, nanoseconds=nanoseconds)
    pd.testing.assert_frame_equal(meter_bytes(tmp_path, content).flows, expected)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_reads_the_same_in_both_byte_orders(tmp_path: Path, expected: pd.DataFrame, order: str) -> None:
    content = pcapng(records_of(connection()), order=order)
    pd.testing.assert_frame_equal(meter_bytes(tmp_path, content).flows, expected)


@pytest.mark.parametrize("link_type", [ETHERNET, RAW, LOOPBACK_NULL, LOOP, COOKED, COOKED_V2, 12, 14, 228])
def test_each_link_type_gives_the_same_flows(tmp_path: Path, expected: pd.DataFrame, link_type: int) -> None:
    records = records_of(connection(), RAW if link_type in (12, 14, 228) else link_type)
    for content in (pcap(records, link_type=link_type), pcapng(records, link_type=link_type)):
        pd.testing.assert_frame_equal(meter_bytes(tmp_path, content).flows, expected)


@pytest.mark.parametrize("tags", [(0x8100,), (0x88A8, 0x8100), (0x9100, 0x8100), (0x8100, 0x8100, 0x8100)])
def test_vlan_tags_change_nothing_but_their_count(
    tmp_path: Path, expected: pd.DataFrame, tags: tuple[int, ...]
) -> None:
    result = meter_bytes(tmp_path, pcap(records_of(connection(), tags=tags)))
    pd.testing.assert_frame_equal(result.flows, expected)
    assert result.report.loc["vlan_tagged", "count"] == 10


@pytest.mark.parametrize(
    ("resolution", "ticks_per_second"), [(3, 10**3), (6, 10**6), (9, 10**9), (0x80 | 20, 2**20), (0x80, 1)]
)
def test_pcapng_times_follow_the_resolution_and_offset_of_their_interface(
    tmp_path: Path, resolution: int, ticks_per_second: int
) -> None:
    ticks = [1_000 * ticks_per_second, 1_007 * ticks_per_second]
    frame = in_link(Packet(0).to_ip(), ETHERNET)
    content = section() + interface(resolution=resolution, offset_s=500)
    flow = meter_bytes(tmp_path, content + b"".join(enhanced(t, frame) for t in ticks)).flows.iloc[0]
    assert (flow.start_us, flow.end_us) == (1_500_000_000, 1_507_000_000)


def test_pcapng_interfaces_and_sections_may_differ_in_link_type_and_byte_order(tmp_path: Path) -> None:
    one, two, three = (Packet(START_US + i).to_ip() for i in range(3))
    content = (
        section("<") + interface(ETHERNET) + interface(RAW)
        + enhanced(START_US + 1, two, number=1) + enhanced(START_US, in_link(one, ETHERNET), number=0)
        + section(">") + interface(COOKED, ">") + enhanced(START_US + 2, in_link(three, COOKED), ">")
    )  # fmt: skip
    result = meter_bytes(tmp_path, content)
    assert result.flows["flow_fpackets"].tolist() == [3]
    assert result.report.loc["backwards_in_capture", "count"] == 1


def test_pcapng_simple_and_obsolete_packet_blocks_are_read(tmp_path: Path) -> None:
    frame = in_link(Packet(0).to_ip(), ETHERNET)
    simple = block(3, struct.pack("<I", len(frame)) + frame)
    fields = (0, 0, START_US >> 32, START_US & 0xFFFFFFFF, len(frame), len(frame))
    obsolete = block(2, struct.pack("<HHIIII", *fields) + frame)
    result = meter_bytes(tmp_path, section() + interface() + obsolete + simple)
    assert result.flows["flow_fpackets"].tolist() == [2]
    assert result.flows["end_us"].tolist() == [START_US]  # a simple packet has the time of the one before
    assert result.report.loc["without_time", "count"] == 1


def test_scapy_reads_the_same_times_and_lengths_from_what_scapy_wrote(tmp_path: Path) -> None:
    packets = [
        ETHERNET_HEADER
        / Dot1AD(vlan=3)
        / Dot1Q(vlan=4)
        / IP(src="1.2.3.4", dst="5.6.7.8")
        / TCP(dport=80)
        / Raw(b"x" * i)
        for i in (0, 5, 900)
    ] + [ETHERNET_HEADER / IPv6(src="::1", dst="::2") / UDP(dport=53) / Raw(b"y" * 33)]
    for i, packet in enumerate(packets):
        packet.time = 1_600_000_000 + i / 8
    classic, next_generation = str(tmp_path / "a.pcap"), str(tmp_path / "a.pcapng")
    wrpcap(classic, packets)
    with PcapNgWriter(next_generation) as writer:
        for packet in packets:
            writer.write(packet)
    for path in (classic, next_generation):
        read = rdpcap(path)
        flows = meter(path).flows
        assert flows["source_address"].tolist() == ["1.2.3.4", "::1"]
        assert flows["flow_fbytes"].tolist() == [sum(p[IP].len for p in read[:3]), read[3][IPv6].plen + 40]
        assert flows["start_us"].tolist() == [int(read[0].time * 10**6), int(read[3].time * 10**6)]


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def tar_of(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            described = tarfile.TarInfo(name)
            described.size = len(content)
            archive.addfile(described, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("packer", PACKERS)
def test_compression_is_told_by_content_and_changes_nothing(
    tmp_path: Path, expected: pd.DataFrame, packer: str
) -> None:
    content = pcap(records_of(connection()))
    for packed in (content, tar_of({"day.pcap": content})):
        result = meter_bytes(tmp_path, PACKERS[packer](packed))
        pd.testing.assert_frame_equal(result.flows, expected)
        assert result.report.loc["captures", "count"] == 1


def test_an_archive_is_read_member_by_member_and_what_is_no_capture_is_counted(tmp_path: Path) -> None:
    days = {f"day{i}.pcap": pcap(records_of(connection(START_US + i * 10**9))) for i in range(3)}
    result = meter_bytes(tmp_path, bz2.compress(tar_of({"README": b"hello", "empty": b"", **days})))
    assert len(result.flows) == 3
    assert result.report.loc[["captures", "skipped_members"], "count"].tolist() == [3, 2]


def test_a_flow_goes_on_from_one_file_to_the_next(tmp_path: Path, expected: pd.DataFrame) -> None:
    packets = records_of(connection())
    paths = [tmp_path / "first.pcap", tmp_path / "second.pcapng.gz"]
    paths[0].write_bytes(pcap(packets[:4]))
    paths[1].write_bytes(gzip.compress(pcapng(packets[4:])))
    pd.testing.assert_frame_equal(meter(paths).flows, expected)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello, world", b"\x00" * 600, gzip.compress(b"no capture", mtime=0), tar_of({"a": b"no"}), b"BZh91A"],
)
def test_what_is_no_capture_is_an_error_at_once(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(NetreproError, match="not a capture"):
        meter_bytes(tmp_path, content)


def test_no_file_is_metered_before_every_file_is_known_to_be_a_capture(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pcap", tmp_path / "bad.pcap"
    good.write_bytes(pcap(records_of(connection())))
    bad.write_bytes(b"hello, world")
    told: list[tuple[int, int]] = []
    with pytest.raises(NetreproError, match=r"bad\.pcap is not a capture"):
        meter([good, bad], progress=lambda *step: told.append(step))
    assert told == []


def test_a_missing_file_and_a_folder_are_errors_that_say_so(tmp_path: Path) -> None:
    with pytest.raises(NetreproError, match="does not exist"):
        meter(tmp_path / "nowhere.pcap")
    with pytest.raises(NetreproError, match="not a file"):
        meter(tmp_path)
    with pytest.raises(NetreproError, match="no capture was given"):
        meter([])
    for none in (None, 5, [None], b"bytes"):
        with pytest.raises(NetreproError, match=r"a capture .*\n.*give one path or a list of paths"):
            meter(none)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout_s", float("inf")),
        ("timeout_s", float("nan")),
        ("timeout_s", "600"),
        ("timeout_s", 0),
        ("idle_threshold_s", float("nan")),
        ("idle_threshold_s", -1),
        ("first_packets", "10"),
        ("first_packets", 2.5),
        ("first_lengths", -1),
    ],
)
def test_a_setting_of_the_meter_that_is_no_number_of_its_kind_is_refused(
    tmp_path: Path, name: str, value: object
) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap(records_of(connection())))
    with pytest.raises(NetreproError, match=rf"{name} is .*\n.*give a"):
        meter(tmp_path / "a.pcap", **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["pcap.gz", "pcap.bz2", "pcap.xz", "tar", "tar.gz"])
def test_a_packed_capture_that_breaks_off_gives_what_came_before(tmp_path: Path, form: str) -> None:
    random = np.random.default_rng(1)  # bytes that no compression makes much smaller, in bzip2's blocks of 900 kB too
    frames = [in_link(Packet(START_US + i, payload_bytes=0).to_ip(), ETHERNET) + random.bytes(600) for i in range(6000)]
    content = pcap([(START_US + i, frame) for i, frame in enumerate(frames)])
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("day.pcap")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    packed = {
        "pcap.gz": lambda: gzip.compress(content, 1),
        "pcap.bz2": lambda: bz2.compress(content),
        "pcap.xz": lambda: lzma.compress(content, preset=0),
        "tar": archive.getvalue,
        "tar.gz": lambda: gzip.compress(archive.getvalue(), 1),
    }[form]()
    counts = meter_bytes(tmp_path, packed[: len(packed) // 2]).report["count"]
    assert counts["damaged_archives"] == 1
    least = 0.25 if form == "pcap.bz2" else 0.49
    assert least * 6000 < counts["packets"] <= 3000


def test_a_file_that_ends_within_a_record_gives_every_record_before_it(tmp_path: Path) -> None:
    whole = pcap(records_of(connection()))
    for missing in (1, 30):
        result = meter_bytes(tmp_path, whole[:-missing])
        assert result.report.loc[["packets", "truncated_records"], "count"].tolist() == [9, 1]
        assert result.report.loc["unread_bytes", "count"] == 16 + 54 - missing


def test_a_record_of_impossible_length_ends_the_file_and_the_rest_is_counted_as_unread(
    tmp_path: Path,
) -> None:
    good = pcap(records_of(connection()))
    bad = struct.pack("<IIII", 0, 0, 0x7FFFFFFF, 60) + bytes(500)
    counts = meter_bytes(tmp_path, good + bad).report["count"]
    assert counts[["packets", "corrupt_records", "unread_bytes"]].tolist() == [10, 1, 516]


def test_a_corrupt_pcapng_block_is_counted_and_the_next_one_read(tmp_path: Path) -> None:
    frame = in_link(Packet(0).to_ip(), ETHERNET)
    good = enhanced(START_US, frame)
    wrong_end = good[:-4] + b"\xff\xff\xff\x7f"
    wrong_interface = enhanced(START_US, frame, number=9)
    too_long = block(6, struct.pack("<IIIII", 0, 0, 0, 5000, 5000) + frame)
    unknown, statistics = block(77, b"?"), block(5, bytes(12))
    content = section() + interface() + wrong_end + wrong_interface + too_long + unknown + statistics + good
    counts = meter_bytes(tmp_path, content).report["count"]
    assert counts[["packets", "corrupt_records", "unknown_blocks", "other_blocks"]].tolist() == [1, 3, 1, 1]


@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_ip_is_found_in_every_encapsulation_and_the_flows_are_the_same(
    tmp_path: Path, expected: pd.DataFrame, name: str
) -> None:
    around, notes = ENCAPSULATIONS[name]
    records = [(packet.time_us, bytes(around / IP(packet.to_ip()))) for packet in connection()]
    result = meter_bytes(tmp_path, pcap(records))
    pd.testing.assert_frame_equal(result.flows, expected)
    assert (result.report.loc[NOTES, "count"] == [10 * note for note in notes]).all()

    padded = [(time_us, frame + bytes(9)) for time_us, frame in records]
    pd.testing.assert_frame_equal(meter_bytes(tmp_path, pcap(padded)).flows, expected)
    six = bytes(around / IPv6(src="::1", dst="::2") / UDP(sport=7, dport=8) / Raw(b"12345"))
    flow = meter_bytes(tmp_path, pcap([(START_US, six)])).flows.iloc[0]
    assert (flow.source_port, flow.destination_address, flow.flow_fbytes) == (7, "::2", 40 + 8 + 5)


def ethernet(ether_type: int) -> ScapyPacket:
    return Ether(src=MAC, dst=MAC, type=ether_type) / Raw(b"\x45" + bytes(60))


@pytest.mark.parametrize(("kind", "frames"), {
    "arp": [ETHERNET_HEADER / ARP(), QINQ / ARP(), ethernet(0x8035), ETHERNET_HEADER / PSEUDOWIRE / ARP()],
    "llc": [Dot3(src=MAC, dst=MAC) / LLC() / STP(), Dot3(src=MAC, dst=MAC) / LLC() / SNAP(OUI=0x0C, code=0x2000)],
    "ppp_control": [ETHERNET_HEADER / PPPoED() / Raw(bytes(30)), QINQ / PPPoE() / PPP() / PPP_LCP(),
                    ETHERNET_HEADER / PPPoE(code=0xA7) / Raw(b"\0\x21" + bytes(40))],
    # An associated channel, a pseudowire without control word, and one that carries no type that is known.
    "mpls_other": [ETHERNET_HEADER / MPLS(s=1) / Raw(content) for content in (b"\x10" * 60, b"\xAA" * 60, bytes(60))],
    "other_encapsulation": [ethernet(0x88E5), ethernet(0x893F), ethernet(0x8926)],
    "other_link_protocols": [ethernet(0x88CC), ethernet(0x888E)],
}.items())  # fmt: skip
def test_what_is_not_ip_is_counted_by_its_kind(tmp_path: Path, kind: str, frames: list[ScapyPacket]) -> None:
    counts = meter_records(tmp_path, *map(bytes, frames))
    assert counts["not_ip"] == counts[kind] == len(frames)


@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_an_encapsulation_that_is_cut_is_counted_wherever_the_cut_is(tmp_path: Path, name: str) -> None:
    around = ENCAPSULATIONS[name][0]
    frame = bytes(around / IP(Packet(0).to_ip()))
    whole = len(frame) - 40 + 34  # up to the TCP flags
    counts = meter_records(tmp_path, *(frame[:size] for size in range(1, len(frame) + 1)))
    # The first bytes of a pseudowire do not tell what it is.
    assert counts["cut_in_headers"] + counts["mpls_other"] == whole - 1
    assert counts["metered"] == len(frame) - whole + 1
    assert counts["mpls_other"] == ("pseudowire" in name) * 17


@given(
    around=st.sampled_from([around for around, _ in ENCAPSULATIONS.values()]),
    changes=st.lists(st.tuples(st.integers(12, 60), st.integers(0, 255)), max_size=4),
    size=st.integers(1, 120),
)
def test_no_damaged_encapsulation_is_read_beyond_its_end(
    around: ScapyPacket, changes: list[tuple[int, int]], size: int
) -> None:
    frame = bytearray(bytes(around / IP(Packet(0).to_ip())))
    for place, value in changes:
        frame[place % len(frame)] = value
    # What follows in memory, another record, must change nothing.
    one, other = (
        columns_by_chunks(pcap([(START_US, bytes(frame[:size])), (START_US + later_us, filler * 99)]), [])[1]
        for later_us, filler in ((0, b"\x45"), (2_500_000_000_000_000, b"\xff"))
    )
    assert one == other
    assert one["packets"] == one["metered"] + sum(one[name] for name in LEFT_OUT) == 2
    assert one["not_ip"] == sum(one[name] for name in NOT_IP) >= 1


def test_an_unsupported_link_type_is_counted(tmp_path: Path) -> None:
    assert meter_records(tmp_path, bytes(60), bytes(60), link_type=105)["unsupported_link"] == 2


def test_the_link_types_that_are_not_decoded_are_named(tmp_path: Path) -> None:
    wireless, unknown = (pcap([(START_US, bytes(60))], link_type=number) for number in (105, 147))
    result = meter_bytes(tmp_path, tar_of({"a": wireless, "b": unknown}))
    said = result.report["meaning"]["unsupported_link"]
    assert said.endswith("not decoded: 105 (IEEE 802.11 wireless LAN), 147")
    known = meter_bytes(tmp_path, pcap(records_of(connection()))).report["meaning"]["unsupported_link"]
    assert known.endswith("not decoded")


def test_an_empty_record_is_counted(tmp_path: Path) -> None:
    assert meter_records(tmp_path, b"", in_link(Packet(0).to_ip(), ETHERNET))["empty_records"] == 1


def test_headers_that_are_cut_are_counted_wherever_the_cut_is(tmp_path: Path) -> None:
    frame = in_link(Packet(0).to_ip(), ETHERNET)
    whole = 14 + 20 + 14  # up to the TCP flags
    counts = meter_records(tmp_path, *(frame[:size] for size in range(1, 54)))
    assert counts["cut_in_headers"] == whole - 1
    assert counts["metered"] == 54 - whole


def test_a_contradictory_ip_header_is_counted(tmp_path: Path) -> None:
    content = tcp(1, 2, ACK)
    shorter_than_its_header = ipv4(content, total=19)
    four_in_six = in_link(ipv4(content), ETHERNET, ether_type=0x86DD)
    short_header = b"\x44" + ipv4(content)[1:]
    frames = [in_link(shorter_than_its_header, ETHERNET), four_in_six, in_link(short_header, ETHERNET)]
    assert meter_records(tmp_path, *frames)["bad_ip_header"] == 3


def test_fragments_after_the_first_are_counted_and_the_first_is_metered(tmp_path: Path) -> None:
    first = ipv4(tcp(1, 2, ACK, bytes(100)), fragment=0x2000)
    later = ipv4(bytes(100), fragment=0x0010)
    six = [
        bytes(
            ETHERNET_HEADER
            / IPv6()
            / IPv6ExtHdrFragment(offset=offset, m=1 - bool(offset), nh=17)
            / UDP()
            / Raw(b"z" * 32)
        )
        for offset in (0, 5)
    ]
    counts = meter_records(tmp_path, in_link(first, ETHERNET), in_link(later, ETHERNET), *six)
    assert counts[["first_fragments", "later_fragments", "metered"]].tolist() == [2, 2, 2]


def test_ipv6_extension_headers_count_as_header_and_lead_to_the_ports(tmp_path: Path) -> None:
    packet = IPv6(src="::1", dst="::2") / IPv6ExtHdrHopByHop() / TCP(sport=7, dport=8, flags="S") / Raw(b"12345")
    path = tmp_path / "six.pcap"
    wrpcap(str(path), [ETHERNET_HEADER / packet])
    flow = meter(path).flows.iloc[0]
    assert (flow.source_port, flow.destination_port, flow.protocol) == (7, 8, 6)
    assert (flow.flow_fbytes, flow.total_fhlen) == (40 + 8 + 20 + 5, 40 + 8 + 20)
    assert len(meter_bytes(tmp_path, pcap([(0, in_link(ipv6(b"", 59), ETHERNET))])).flows) == 1


def test_a_length_of_zero_is_taken_from_the_wire(tmp_path: Path) -> None:
    offloaded = in_link(ipv4(tcp(1, 2, ACK, bytes(3000)), total=0), ETHERNET)
    result = meter_bytes(tmp_path, pcap([(START_US, offloaded[:60], len(offloaded))]))
    assert result.flows["flow_fbytes"].tolist() == [3040]
    assert result.report.loc[["zero_ip_length", "shortened_records"], "count"].tolist() == [1, 1]


def test_lengths_come_from_the_ip_header_however_little_was_captured(tmp_path: Path) -> None:
    records = records_of(connection())
    cut = [(time_us, frame[:54], len(frame)) for time_us, frame in records]
    pd.testing.assert_frame_equal(meter_bytes(tmp_path, pcap(cut)).flows, meter_bytes(tmp_path, pcap(records)).flows)


def test_wrong_transport_headers_are_metered_and_counted(tmp_path: Path) -> None:
    offset_of_two = tcp(1, 2, ACK)[:12] + b"\x20" + tcp(1, 2, ACK)[13:]
    udp_of_three = struct.pack("!HHHH", 1, 2, 3, 0)
    frames = [in_link(ipv4(offset_of_two), ETHERNET), in_link(ipv4(udp_of_three, protocol=17), ETHERNET)]
    assert meter_records(tmp_path, *frames)[["bad_transport_header", "metered"]].tolist() == [2, 2]


def test_one_time_stamp_in_the_far_future_does_not_end_the_other_flows(tmp_path: Path) -> None:
    others = [in_link(ipv4(tcp(i, 2, ACK), "1.1.1.1", "2.2.2.2"), ETHERNET) for i in range(5)]
    records = [(START_US + i, frame) for i, frame in enumerate(others)]
    stray = (START_US + 10**13, in_link(ipv4(tcp(9, 9, SYN)), ETHERNET))
    again = [(START_US + 100 + i, frame) for i, frame in enumerate(others)]
    flows = meter_bytes(tmp_path, pcap([*records, stray, *again])).flows
    assert flows["flow_fpackets"].tolist() == [2, 2, 2, 2, 2, 1]


@pytest.mark.parametrize(
    ("nanoseconds", "fraction"), [(False, 10**6), (False, 2**31), (True, 10**9), (True, 2**32 - 1)]
)
def test_a_fraction_of_a_second_or_more_is_no_time(tmp_path: Path, nanoseconds: bool, fraction: int) -> None:
    second_s = START_US // 10**6
    frame = in_link(Packet(0).to_ip(), ETHERNET)
    good, bad = (struct.pack("<IIII", second_s, part, len(frame), len(frame)) + frame for part in (999_999, fraction))
    result = meter_bytes(tmp_path, pcap([], nanoseconds=nanoseconds) + good + bad + bad)
    good_us = START_US + (999 if nanoseconds else 999_999)
    assert result.flows[["start_us", "end_us", "flow_fpackets"]].to_numpy().tolist() == [[good_us, good_us, 3]]
    assert result.report.loc["without_time", "count"] == 2
    first = meter_bytes(tmp_path, pcap([], nanoseconds=nanoseconds) + bad + good).flows
    assert first[["start_us", "end_us"]].to_numpy().tolist() == [[START_US, good_us]]


NOISE = pcapng(records_of(connection())) + section(">") + interface(RAW, ">")
CAPTURES = [
    pcap(records_of(connection())),
    pcap(records_of(connection()), order=">", nanoseconds=True),
    NOISE,
]


def columns_by_chunks(content: bytes, sizes: list[int]) -> tuple[dict, dict]:
    core = _core.FlowMeter(
        timeout_us=10**9, idle_threshold_us=10**6, first_packets=0, handshake=True, netmate_quirks=True,
        end_on_close=True, forward_is_opener=False, first_lengths=10, two_cores=False,
    )  # fmt: skip
    start = 0
    for size in sizes:
        core.feed(content[start : start + size])
        start += size
    core.feed(content[start:])
    core.end_file()
    core.end_capture()
    return core.columns(), core.counts()


@settings(max_examples=60)
@given(content=st.sampled_from(CAPTURES), sizes=st.lists(st.integers(0, 90), max_size=40))
def test_it_does_not_matter_in_what_chunks_a_capture_arrives(content: bytes, sizes: list[int]) -> None:
    (columns, counts), (whole_columns, whole_counts) = (
        columns_by_chunks(content, sizes),
        columns_by_chunks(content, []),
    )
    assert counts == whole_counts
    assert all((columns[name] == whole_columns[name]).all() for name in columns)


@given(
    content=st.sampled_from(CAPTURES),
    changes=st.lists(st.tuples(st.integers(4, 900), st.integers(0, 255)), max_size=12),
    cut=st.integers(0, 400),
)
def test_no_damage_is_fatal_and_every_packet_found_is_accounted_for(
    content: bytes, changes: list[tuple[int, int]], cut: int
) -> None:
    damaged = bytearray(content[: len(content) - cut])
    for place, value in changes:
        damaged[place % len(damaged)] = value
    columns, counts = columns_by_chunks(bytes(damaged), [])
    assert counts["packets"] == counts["metered"] + sum(counts[name] for name in LEFT_OUT)
    assert counts["metered"] == columns["forward_packets"].sum() + columns["backward_packets"].sum()
    assert counts["not_ip"] == sum(counts[name] for name in NOT_IP)
    assert counts["unread_bytes"] <= len(damaged)


def test_the_progress_ends_at_the_size_of_the_files(tmp_path: Path) -> None:
    paths = [tmp_path / "a.gz", tmp_path / "b.pcap"]
    paths[0].write_bytes(gzip.compress(pcap(records_of(connection()))))
    paths[1].write_bytes(pcap(records_of(connection())))
    seen: list[tuple[int, int]] = []
    meter(paths, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == sum(path.stat().st_size for path in paths)
    assert seen == sorted(seen)


def test_memory_does_not_grow_with_the_length_of_the_capture(tmp_path: Path) -> None:
    frame = in_link(Packet(0).to_ip(), ETHERNET)
    record = struct.pack("<IIII", 1_700_000_000, 0, len(frame), len(frame)) + frame
    path = tmp_path / "long.pcap"
    path.write_bytes(pcap([]) + record * 600_000)  # 42 MB, one flow
    script = (
        "import resource, sys; from netrepro.traffic import meter; from pathlib import Path\n"
        "small = Path(sys.argv[1]).with_name('small.pcap')\n"
        "small.write_bytes(Path(sys.argv[1]).open('rb').read(24 + 70 * 40_000)); meter(small)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert meter(sys.argv[1]).report.loc['metered', 'count'] == 600_000\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    grown = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert int(grown.stdout) < 8_000  # kB; the capture is 42,000
