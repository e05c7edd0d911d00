"""Labelled flows and packets in the files of other tools."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import unibs_format
from nfstream import NFStreamer
from packet_builder import (
    CLIENT,
    CLIENT_PORT,
    SERVER,
    SERVER_PORT,
    Packet,
    block,
    connection,
    in_link,
    interface,
    ipv4,
    ipv6,
    pcap,
    records_of,
    section,
    tcp,
)

from netrepro.errors import NetreproError
from netrepro.paths import data_dir
from netrepro.traffic import load_labelled
from netrepro.traffic.auditing import compare_with_meter
from netrepro.traffic.tables import FLOW, PACKET, captures_in, make_table, read_packets
from netrepro.traffic.tables.datazoo import read_datazoo
from netrepro.traffic.tables.flow_files import read_flow_csv
from netrepro.traffic.tables.labelled_packets import parse_comment

START_US = 1_700_000_000_000_000


def commented(packets: list[Packet], comments: list[str], order: str = "<") -> bytes:
    """A pcapng whose packets have comments, as pcapml writes it."""
    blocks = []
    for packet, comment in zip(packets, comments, strict=True):
        data = in_link(packet.to_ip(), 1)
        ticks, text = packet.time_us, comment.encode()
        body = struct.pack(order + "5I", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
        body += data + bytes(-len(data) % 4)
        body += struct.pack(order + "HH", 1, len(text)) + text + bytes(-len(text) % 4) + bytes(4)
        blocks.append(block(6, body, order))
    return section(order) + interface(1, order) + b"".join(blocks)


# CSV ----------------------------------------------------------------------------------------------

CIC_2017 = """\
Flow ID, Source IP, Source Port, Destination IP, Destination Port, Protocol, Timestamp, Flow Duration, Fwd PSH Flags, \
Bwd PSH Flags, Flow Bytes/s, Label
1.1.1.1-2.2.2.2-1-2-6,1.1.1.1,40000,2.2.2.2,80,6,7/7/2017 8:59,100,0,0,Infinity,BENIGN
1.1.1.1-2.2.2.2-1-3-6,1.1.1.1,40001,2.2.2.2,80,6,7/7/2017 1:05,200,1,0,12.5,DDoS
"""


def test_cicflowmeters_csv_is_told_by_its_columns_and_its_day_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text(CIC_2017)
    table = load_labelled(path)
    assert table.kind == "CICFlowMeter's CSV" and table.labels.tolist() == ["BENIGN", "DDoS"]
    assert table.features == ["Protocol", "Flow Duration", "Fwd PSH Flags", "Bwd PSH Flags", "Flow Bytes/s"]
    assert table.identifiers == {
        "addresses": ["Source IP", "Destination IP"],
        "source port": ["Source Port"],
        "destination port": ["Destination Port"],
        "times": ["Timestamp"],
    }
    assert pd.Timestamp(table.ends["start_s"][0], unit="s") == pd.Timestamp(2017, 7, 7, 8, 59)
    assert table.columns["Flow Bytes/s"].tolist() == [np.inf, 12.5]


def test_a_header_that_is_repeated_in_a_file_is_left_out(tmp_path: Path) -> None:
    """CSE-CIC-IDS2018's files have such headers; here it comes after the part that is sniffed."""
    path = tmp_path / "flows.csv"
    rows = [f"{port},6,0.5,1,1,{'BENIGN' if port % 2 else 'Bot'}" for port in range(3000)]
    head = "Dst Port,Protocol,Flow Duration,Fwd PSH Flags,Bwd PSH Flags,Label"
    path.write_text("\n".join([head, *rows, head, "443,6,0.5,1,1,Bot"]) + "\n")
    table = load_labelled(path)
    assert len(table) == 3001 and "1 rows without a label are left out" in table.notes
    assert table.columns["Dst Port"].iloc[-1] == 443


def test_lists_in_cells_become_columns(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text('splt_ps,label\n"[76, 142, -1]",a\n"[40, -1]",b\n')
    frame = read_flow_csv(path)
    assert frame[["splt_ps_1", "splt_ps_2"]].to_numpy().tolist() == [[76, 142], [40, -1]]
    assert np.isnan(frame["splt_ps_3"][1])


def test_nfstreams_csv_agrees_with_our_meter_on_the_same_capture(tmp_path: Path) -> None:
    flows = [packet for start in range(6) for packet in connection(START_US + start * 1_000_000)]
    capture = tmp_path / "six.pcap"
    capture.write_bytes(pcap(sorted(_of_client_ports(flows))))
    NFStreamer(source=str(capture), n_meters=1, statistical_analysis=True, accounting_mode=1).to_csv(
        path=str(tmp_path / "flows.csv")
    )
    frame = read_flow_csv(tmp_path / "flows.csv").assign(label=list("ababab"))
    table = make_table(frame)
    compared = compare_with_meter(table, [capture]).set_index("quantity")
    assert compared["equal"].eq(1).all() and compared.loc["forward bytes", "counted_as"] == "IP bytes"
    assert compared.loc["duration", "counted_as"] == "milliseconds"
    assert compared.loc["forward packets", "compared"] == 6


def _of_client_ports(packets: list[Packet]) -> list[tuple[int, bytes]]:
    """Give each ten packets a client port of their own."""
    records = []
    for number, packet in enumerate(packets):
        ends = [(CLIENT, CLIENT_PORT + number // 10), (SERVER, SERVER_PORT)]
        (source, source_port), (destination, destination_port) = ends[::-1] if packet.backward else ends
        content = ipv4(packet.to_transport(source_port, destination_port), source, destination)
        records.append((packet.time_us, in_link(content, 1)))
    return records


def test_nfstreams_own_labels_are_called_an_opinion(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text("bidirectional_first_seen_ms,src2dst_packets,application_name\n1,2,TLS\n3,4,DNS\n")
    table = load_labelled(path)
    assert table.kind == "nfstream's CSV" and "opinion" in table.notes[0]


def test_files_of_a_folder_are_one_table_with_a_column_for_the_file(tmp_path: Path) -> None:
    for day, label in (("monday", "BENIGN"), ("friday", "Bot")):
        (tmp_path / f"{day}.csv").write_text(f"size,Label\n1,{label}\n2,{label}\n")
    table = load_labelled(tmp_path)
    assert table.labels.tolist() == ["Bot", "Bot", "BENIGN", "BENIGN"]
    assert table.ends["file"].astype(str).tolist() == ["friday.csv"] * 2 + ["monday.csv"] * 2
    assert load_labelled(tmp_path, label="file").labels.tolist() == ["friday.csv"] * 2 + ["monday.csv"] * 2


# Zeek ---------------------------------------------------------------------------------------------

ZEEK = (
    "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n"
    "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\tduration\torig_bytes\tresp_bytes\t"
    "conn_state\torig_pkts\torig_ip_bytes\tresp_pkts\tresp_ip_bytes{fields}\n#types\ttime\tstring\n"
    "1700000000.5\tC1\t10.0.0.1\t40000\t1.1.1.1\t53\tudp\tdns\t0.25\t30\t90\tSF\t1\t58\t1\t118{first}\n"
    "1700000001.5\tC2\t10.0.0.1\t40001\t1.1.1.1\t443\ttcp\t-\t-\t-\t-\tS0\t1\t60\t0\t0{second}\n"
    "#close\t2023-11-14-22-13-20\n"
)


@pytest.mark.parametrize(
    ("fields", "first", "second"),
    [("\tlabel", "\tBenign", "\tMalicious"), ("\ttunnel_parents   label   detailed-label", "\t-   Benign   -",
                                               "\t(empty)   Malicious   DDoS")],
    ids=["a column", "IoT-23"],
)  # fmt: skip
def test_zeeks_log_is_read_with_its_labels(tmp_path: Path, fields: str, first: str, second: str) -> None:
    path = tmp_path / "conn.log.labeled"
    path.write_text(ZEEK.format(fields=fields, first=first, second=second))
    table = load_labelled(path)
    assert table.kind == "Zeek's conn.log" and table.labels.tolist() == ["Benign", "Malicious"]
    assert table.ends["protocol"].tolist() == [17, 6] and table.ends["start_s"].tolist() == [1700000000.5, 1700000001.5]
    assert table.columns["duration"].iloc[0] == 0.25 and np.isnan(table.columns["duration"].iloc[1])
    assert {"orig_ip_bytes", "resp_pkts"} <= set(table.features) and "uid" not in table.columns


def test_zeeks_log_in_json_needs_a_column_of_labels(tmp_path: Path) -> None:
    path = tmp_path / "conn.log"
    rows = [
        {"ts": 1.5, "id.orig_h": "10.0.0.1", "id.orig_p": 1, "id.resp_h": "1.1.1.1", "id.resp_p": 2, "service": name}
        for name in ("dns", "ssl")
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    with pytest.raises(NetreproError, match="--label COLUMN, of ts"):
        load_labelled(path)
    assert load_labelled(path, label="service").labels.tolist() == ["dns", "ssl"]


# Captures -----------------------------------------------------------------------------------------


def test_headers_of_packets_are_those_that_were_built(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap(records_of(connection(START_US), tags=(0x8100,))))
    packets = read_packets(path)
    assert len(packets) == 10 and packets["flow"].nunique() == 1
    assert packets["source_address"].astype(str).tolist()[:2] == [CLIENT, SERVER]
    assert packets["source_port"].tolist()[:2] == [CLIENT_PORT, SERVER_PORT]
    assert packets["payload_bytes"].tolist() == [0, 0, 0, 300, 1400, 900, 0, 0, 0, 0]
    assert packets["ip_length"].tolist()[:5] == [60, 60, 40, 340, 1440]
    assert packets["tcp_flags"].tolist()[:3] == [2, 18, 16] and packets["ip_ttl"].eq(64).all()
    assert packets["tcp_header_bytes"].tolist()[0] == 40 and np.isnan(packets["udp_checksum"]).all()
    assert packets["time_us"].diff().dropna().eq(20_000).all()
    assert packets["payload_1"].notna().tolist() == [size > 0 for size in packets["payload_bytes"]]


def test_ipv6_packets_and_time_stamps_are_read(tmp_path: Path) -> None:
    stamp = b"\x01\x01\x08\x0a" + struct.pack("!II", 123_456, 654_321)
    header = bytearray(tcp(1000, 2000, 16, option_words=3))
    header[20:32] = stamp
    path = tmp_path / "six.pcap"
    path.write_bytes(pcap([(START_US, in_link(ipv6(bytes(header), 6), 1))]))
    row = read_packets(path).iloc[0]
    assert (row["source_address"], row["destination_address"]) == ("2001:db8::1", "fe80::2")
    assert (row["tcp_tsval"], row["tcp_tsecr"], row["ip_length"]) == (123_456, 654_321, 72)
    assert np.isnan(row["ip_id"])


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapml_labels_packets_in_comments(tmp_path: Path, order: str) -> None:
    path = tmp_path / "labelled.pcapng"
    comments = ["18186043603218801379,google"] * 5 + ["s=7,proc=curl,dst=example.com"] * 5
    path.write_bytes(commented(connection(START_US), comments, order))
    table = load_labelled(path)
    assert table.unit == PACKET and table.labels.tolist() == ["google"] * 5 + ["curl"] * 5
    assert table.ends["sample"].astype(str).tolist() == ["18186043603218801379"] * 5 + ["7"] * 5
    assert {"tcp_seq", "tcp_ack"} <= set(table.identifiers["sequence numbers"]) and "payload_1" in table.features


def test_a_comment_without_a_label_has_none() -> None:
    assert parse_comment("12") == ("12", None) and parse_comment("s=3,dir=lan2wan") == ("3", None)
    assert parse_comment("s=3,label=mail") == ("3", "mail")


def test_folders_of_captures_are_classes(tmp_path: Path) -> None:
    for name in ("chat", "video"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.pcap").write_bytes(pcap(records_of(connection(START_US))))
    packets, flows = load_labelled(tmp_path), load_labelled(tmp_path, unit=FLOW)
    assert packets.labels.tolist() == ["chat"] * 10 + ["video"] * 10 and packets.ends["flow"].nunique() == 2
    assert flows.labels.tolist() == ["chat", "video"] and flows.unit == FLOW and "total_fhlen" in flows.features
    assert len(captures_in(tmp_path)) == 2


def test_captures_without_labels_are_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap(records_of(connection(START_US))))
    with pytest.raises(NetreproError, match="label them with pcapml"):
        load_labelled(path)


def test_every_captures_packets_are_counted_as_the_meter_counts_them() -> None:
    place = data_dir("gmm_traffic") / "standin" / "day1.pcap.xz"
    from netrepro.traffic import meter

    metered = meter(place).report["count"]
    assert len(read_packets(place)) == metered["metered"]


# Whole data sets ----------------------------------------------------------------------------------


def test_a_folder_of_unibs_is_joined_with_its_log(tmp_path: Path) -> None:
    made = unibs_format.connections(150)
    unibs_format.write_captures(tmp_path, made)
    unibs_format.write_log(tmp_path / "groundtruth.log", made)
    table = load_labelled(tmp_path)
    assert set(table.labels) == set(unibs_format.KINDS) and "total_fhlen" in table.features
    assert not {"application", "application_protocol"} & set(table.columns)


needs_tables = pytest.mark.skipif(importlib.util.find_spec("tables") is None, reason="PyTables is not installed")


def write_datazoo(path: Path, days: int = 2, rows: int = 5) -> None:
    """Write a data base as DataZoo has it: a table a day in /flows, with APP as an enumeration and PPI as a matrix."""
    import tables

    apps = tables.Enum({"gmail": 0, "youtube": 1})

    class Flow(tables.IsDescription):
        ID = tables.UInt64Col()
        SRC_IP = tables.StringCol(39)
        DST_PORT = tables.UInt16Col()
        TIME_FIRST = tables.Float64Col()
        TLS_SNI = tables.StringCol(50)
        BYTES = tables.UInt64Col()
        DURATION = tables.Float32Col()
        PPI = tables.Float32Col(shape=(4, 30))
        PHIST_SRC_SIZES = tables.UInt32Col(shape=8)
        APP = tables.EnumCol(apps, "gmail", base="uint8")

    with tables.open_file(str(path), "w") as base:
        base.create_group("/", "flows")
        for day in range(days):
            table = base.create_table("/flows", f"D2021100{day + 4}", Flow)
            for number in range(rows):
                row = table.row
                row["ID"], row["SRC_IP"], row["DST_PORT"] = number, f"10.0.0.{number}", 443
                row["TIME_FIRST"], row["TLS_SNI"] = 1.6e9 + number, "example.org"
                row["BYTES"], row["DURATION"], row["APP"] = 100 * number, 0.5, number % 2
                row["PPI"] = np.arange(120).reshape(4, 30)
                row["PHIST_SRC_SIZES"] = np.arange(8)
                row.append()


@needs_tables
def test_a_data_base_of_datazoo_is_read(tmp_path: Path) -> None:
    path = tmp_path / "CESNET-TLS22-XS.h5"
    write_datazoo(path)
    table = load_labelled(path)
    assert table.labels.tolist() == ["gmail", "youtube", "gmail", "youtube", "gmail"] * 2
    assert table.columns["DIR_1"].eq(30).all() and table.columns["PUSH_30"].eq(119).all()
    assert table.columns["PHIST_SRC_SIZES_8"].eq(7).all()
    assert table.ends["file"].astype(str).unique().tolist() == ["D20211004", "D20211005"]
    assert table.identifiers["names"] == ["TLS_SNI"] and table.identifiers["times"] == ["TIME_FIRST"]
    assert len(read_datazoo(path, most=4)) == 4


@needs_tables
def test_another_hdf5_file_is_refused(tmp_path: Path) -> None:
    import tables

    path = tmp_path / "other.h5"
    with tables.open_file(str(path), "w"):
        pass
    with pytest.raises(NetreproError, match="no data base of DataZoo"):
        load_labelled(path)


@pytest.mark.skipif(importlib.util.find_spec("tables") is not None, reason="PyTables is installed")
def test_without_pytables_a_data_base_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "base.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(NetreproError, match="pip install tables"):
        load_labelled(tmp_path / "base.h5")


@pytest.mark.parametrize(("name", "content", "words"), [("a.txt", b"words", "nothing that can be read"),
                                                       ("a.csv", b"", "no CSV that can be read")])  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NetreproError, match=words):
        load_labelled(tmp_path / name)
    with pytest.raises(NetreproError, match="does not exist"):
        load_labelled(tmp_path / "absent")
