"""nfstream as a second opinion, flow by flow: packets, bytes, directions and the first lengths."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest
from nfstream import NFStreamer
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils import wrpcap

from netrepro.traffic import meter

SPLT = 20
ETHERNET = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")  # else scapy asks the network for them
SHARED_CAPTURES = Path(__file__).parents[4] / "shared" / "pcaps"

Flow = tuple[str, int, int, int, int, int, tuple[int, ...], tuple[int, ...]]
Flows = dict[tuple[object, ...], list[Flow]]


def five_tuple(a: str, a_port: int, b: str, b_port: int, protocol: int) -> tuple[object, ...]:
    return (protocol, *sorted([(a, a_port), (b, b_port)]))


def our_flows(path: Path) -> tuple[Flows, pd.Series]:
    # nfstream has no TCP state machine, and its lengths include packets that come out of order
    result = meter(path, end_on_close=False, quirks=False, first_lengths=SPLT)
    flows: Flows = defaultdict(list)
    for row in result.flows.to_dict("records"):
        lengths = [tuple(length for i in range(SPLT) if (length := row[f"{side}pl{i + 1}"])) for side in "fb"]
        ends = (
            row["source_address"],
            row["source_port"],
            row["destination_address"],
            row["destination_port"],
        )
        totals = (row["flow_fpackets"], row["flow_fbytes"], row["flow_bpackets"], row["flow_bbytes"])
        flows[five_tuple(*ends, row["protocol"])].append((*ends[:2], *totals, lengths[0], lengths[1]))
    return flows, result.report["count"]


def nfstream_flows(path: Path) -> Flows:
    flows: Flows = defaultdict(list)
    streamer = NFStreamer(
        source=str(path), accounting_mode=1, splt_analysis=SPLT, n_dissections=0, n_meters=1,
        idle_timeout=600, active_timeout=10**7, decode_tunnels=False,
    )  # fmt: skip
    for flow in streamer:
        sides: list[list[int]] = [[], []]
        for direction, length in zip(flow.splt_direction, flow.splt_ps, strict=True):
            if direction >= 0:
                sides[direction].append(length)
        totals = (flow.src2dst_packets, flow.src2dst_bytes, flow.dst2src_packets, flow.dst2src_bytes)
        key = five_tuple(flow.src_ip, flow.src_port, flow.dst_ip, flow.dst_port, flow.protocol)
        flows[key].append((flow.src_ip, flow.src_port, *totals, tuple(sides[0]), tuple(sides[1])))
    return flows


def agree(ours: list[Flow], theirs: list[Flow]) -> bool:
    """Equal; nfstream keeps the first lengths of both directions together, so it may have fewer of each."""
    return len(ours) == len(theirs) and all(
        a[:6] == b[:6] and a[6][: len(b[6])] == b[6] and a[7][: len(b[7])] == b[7]
        for a, b in zip(ours, theirs, strict=True)
    )


def random_conversations(seed: int, conversations: int = 40) -> list[Packet]:
    choose = random.Random(seed)
    packets = []
    for number in range(conversations):
        a, b = f"10.1.{number}.{choose.randrange(1, 250)}", f"172.16.0.{choose.randrange(1, 250)}"
        six = choose.random() < 0.3
        if six:
            a, b = f"2001:db8::{number + 1:x}", f"2001:db8:1::{choose.randrange(1, 250):x}"
        ports = (choose.randrange(1024, 65000), choose.choice([53, 80, 443, 25]))
        kind = choose.choice(["tcp", "tcp", "udp", "icmp"]) if not six else choose.choice(["tcp", "udp"])
        time_s = 1_650_000_000 + choose.random() * 20
        for _ in range(choose.randrange(1, 60)):
            backward = choose.random() < 0.5
            source, destination = (b, a) if backward else (a, b)
            sport, dport = ports[::-1] if backward else ports
            network = IPv6(src=source, dst=destination) if six else IP(src=source, dst=destination)
            flags = choose.choice(["S", "SA", "A", "PA", "FA", "R"])
            transport = {
                "tcp": TCP(sport=sport, dport=dport, flags=flags),
                "udp": UDP(sport=sport, dport=dport),
            }
            frame = ETHERNET / Dot1Q(vlan=7) if number % 5 == 0 else ETHERNET
            packet = frame / network / transport.get(kind, ICMP()) / Raw(bytes(choose.randrange(0, 1200)))
            time_s += choose.random() * 0.4
            packet.time = time_s
            packets.append(packet)
    return sorted(packets, key=lambda packet: packet.time)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nfstream_sees_the_same_flows_in_generated_conversations(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "conversations.pcap"
    wrpcap(str(path), random_conversations(seed))
    ours, _ = our_flows(path)
    theirs = nfstream_flows(path)
    assert len(ours) == 40
    assert {key: ours[key] for key in ours if not agree(ours[key], theirs.get(key, []))} == {}
    assert set(ours) == set(theirs)


@pytest.mark.skipif(not SHARED_CAPTURES.is_dir(), reason="needs the real captures in ../shared/pcaps")
def test_nfstream_sees_the_same_flows_in_real_captures() -> None:
    """But for packets of IP length 0: nfstream leaves them out, the meter takes their length on the wire."""
    paths = sorted(SHARED_CAPTURES.glob("*.*cap*"))
    assert paths
    for path in paths:
        ours, counts = our_flows(path)
        theirs = nfstream_flows(path)
        different = [key for key in {*ours, *theirs} if not agree(ours.get(key, []), theirs.get(key, []))]
        missing = sum(flow[2] + flow[4] for flows in ours.values() for flow in flows) - sum(
            flow[2] + flow[4] for flows in theirs.values() for flow in flows
        )
        assert missing == counts["zero_ip_length"], path.name
        assert len(different) <= counts["zero_ip_length"], (path.name, different)
