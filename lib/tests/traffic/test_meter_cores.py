"""The meter by one core and by two, with many flows at once: the same table, whatever the order of its work."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_builder import ETHERNET, Packet, connection, in_link, ipv4, pcap, pcapng, records_of
from pandas.testing import assert_frame_equal

from netrepro.errors import NetreproError
from netrepro.traffic import MeterResult, meter

START_US = 1_700_000_000_000_000
SETTINGS = {
    "as netmate": {},
    "a time-out of 2 s": {"timeout_s": 2.0, "quirks": False, "forward": "opener"},
    "no time-out": {"timeout_s": None, "first_packets": 5, "handshake": False, "first_lengths": 0},
    "no end on close": {"timeout_s": 30.0, "end_on_close": False, "idle_threshold_s": 0.01, "first_lengths": 30},
}
FLAGS = [0x02, 0x12, 0x10, 0x10, 0x18, 0x18, 0x11, 0x11, 0x04, 0x14]


@cache
def frames(seed: int, packets: int, hosts: int, gap_us: float) -> list[tuple[int, bytes]]:
    """Time stamps and frames of TCP and UDP packets among hosts with few ports: connections that open, close, fall
    silent and come back, some packets late, one from the future."""
    random = np.random.default_rng(seed)
    times_us = START_US + np.cumsum(random.exponential(gap_us, packets)).astype(np.int64)
    late = random.random(packets) < 0.03
    times_us -= late * random.exponential(5 * gap_us, packets).astype(np.int64)
    times_us[packets // 2] += 10**12
    made = []
    for time_us in times_us.tolist():
        source, destination = (f"10.0.0.{host}" for host in random.integers(1, hosts + 1, 2))
        ports = [int(port) for port in random.integers(1000, 1003, 2)]
        flags, payload = FLAGS[random.integers(len(FLAGS))], int(random.choice([0, 0, 10, 900]))
        protocol = 6 if random.random() < 0.8 else 17
        packet = Packet(0, payload_bytes=payload, flags=flags, protocol=protocol)
        made.append((time_us, in_link(ipv4(packet.to_transport(*ports), source, destination, protocol), ETHERNET)))
    return made


def meter_frames(path: Path, made: list[tuple[int, bytes]], **settings: object) -> MeterResult:
    path.write_bytes(pcap(made))
    return meter(path, **settings)


def assert_same(one: MeterResult, other: MeterResult) -> None:
    assert_frame_equal(one.flows, other.flows, check_exact=True)
    assert_frame_equal(one.report, other.report, check_exact=True)


@pytest.mark.parametrize("chosen", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("gap_us", [1_000, 100_000])
def test_two_cores_give_the_table_of_one(tmp_path: Path, chosen: dict[str, object], gap_us: int) -> None:
    made = frames(1, 10_000, 60, gap_us)  # more than what waits between the two cores
    one = meter_frames(tmp_path / "a.pcap", made, **chosen)
    assert len(one.flows) > 1_000
    assert_same(one, meter(tmp_path / "a.pcap", cores=2, **chosen))


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), packets=st.integers(1, 400), hosts=st.integers(1, 12), gap=st.integers(1, 10**7))
def test_any_capture_is_metered_alike_by_two_cores(
    tmp_path_factory: pytest.TempPathFactory, seed: int, packets: int, hosts: int, gap: int
) -> None:
    path = tmp_path_factory.mktemp("cores") / "a.pcap"
    made = frames(seed, packets, hosts, gap)
    for chosen in SETTINGS.values():
        assert_same(meter_frames(path, made, **chosen), meter(path, cores=2, **chosen))


def test_a_flow_is_metered_alike_alone_and_among_thousands(tmp_path: Path) -> None:
    made = frames(3, 6_000, 40, 1_000)
    # Without time-outs, and with the clock of the packets alone, no flow depends on another.
    made = made[: len(made) // 2] + made[len(made) // 2 + 1 :]
    together = meter_frames(tmp_path / "all.pcap", made, timeout_s=None).flows
    connections: dict[frozenset[bytes], list[tuple[int, bytes]]] = {}
    for time_us, frame in made:
        ip = frame[14:]
        ends = frozenset([ip[12:16] + ip[20:22], ip[16:20] + ip[22:24], ip[9:10]])
        connections.setdefault(ends, []).append((time_us, frame))
    alone = [meter_frames(tmp_path / "one.pcap", each, timeout_s=None).flows for each in connections.values()]
    order = list(together.columns)
    assert_frame_equal(
        together.sort_values(order, ignore_index=True),
        pd.concat(alone).sort_values(order, ignore_index=True),
        check_exact=True,
    )


@settings(max_examples=100)
@given(
    changes=st.lists(st.tuples(st.integers(12, 54), st.integers(0, 255)), max_size=4),
    protocol=st.sampled_from([6, 17]),
    payload=st.sampled_from([0, 40]),
    cut=st.integers(0, 30),
    missing=st.integers(0, 12),
)
def test_a_frame_is_decoded_as_it_is_in_a_vlan_tag(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, int]],
    protocol: int,
    payload: int,
    cut: int,
    missing: int,
) -> None:
    """The most common packets have a decoder of their own, which knows no tags."""
    frame = bytearray(in_link(Packet(0, payload_bytes=payload, flags=0x18, protocol=protocol).to_ip(), ETHERNET))
    for place, value in changes:
        frame[place % len(frame)] = value
    if frame[12:14] != b"\x08\x00":
        return  # the tag would be another one's
    folder = tmp_path_factory.mktemp("tags")

    def metered(name: str, tag: bytes) -> MeterResult:
        content = bytes(frame[:12]) + tag + bytes(frame[12:])
        kept = content[: len(content) - min(cut, len(frame) - 15)]
        header = struct.pack("<IIII", 1_700_000_000, 0, len(kept), len(content) - missing)
        (folder / name).write_bytes(pcap([]) + header + kept)
        return meter(folder / name, quirks=False)

    plain, tagged = metered("plain.pcap", b""), metered("tagged.pcap", b"\x81\x00\x00\x07")
    assert_frame_equal(plain.flows, tagged.flows, check_exact=True)
    counts = tagged.report["count"]
    assert counts.pop("vlan_tagged") == 1
    assert plain.report["count"].drop("vlan_tagged").to_dict() == counts.to_dict()


@pytest.mark.parametrize("content", [pcap(records_of(connection()))[:-5], pcapng(records_of(connection()))[:-5]])
def test_a_capture_that_breaks_off_is_told_alike_by_two_cores(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.cap").write_bytes(content)
    assert_same(meter(tmp_path / "a.cap"), two := meter([tmp_path / "a.cap"], cores=2))
    assert two.report.loc["truncated_records", "count"] == 1


def test_an_error_in_the_middle_ends_both_cores(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap(frames(5, 9_000, 30, 1_000)))

    def refuse(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        meter(tmp_path / "a.pcap", cores=2, progress=refuse)


@pytest.mark.parametrize("cores", [0, 3, True, 1.5, "2", None])
def test_other_numbers_of_cores_are_refused(tmp_path: Path, cores: object) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap(records_of(connection())))
    with pytest.raises(NetreproError, match=r"cores is .*\n +give a whole number from 1 to 2"):
        meter(tmp_path / "a.pcap", cores=cores)
