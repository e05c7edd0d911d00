"""The 39 netmate-flowcalc features against a twin that computes them from lists, and against sums by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from netmate_twin import twin_meter
from packet_builder import (
    ACK,
    CLIENT,
    FIN,
    PSH,
    RST,
    SERVER,
    SYN,
    URG,
    Packet,
    connection,
    in_link,
    ipv4,
    pcap,
    records_of,
    tcp,
)

from netrepro.errors import NetreproError
from netrepro.traffic import FLOW_FEATURES, MeterResult, feature_sets, meter

START_US = 1_700_000_000_000_000


def meter_packets(folder: Path, packets: list[Packet], **options: object) -> MeterResult:
    path = folder / "packets.pcap"
    path.write_bytes(pcap(records_of(packets)))
    return meter(path, **options)  # type: ignore[arg-type]


steps_us = st.one_of(
    st.integers(0, 50_000),
    st.just(0),
    st.integers(-30_000, -1),
    st.integers(900_000, 1_100_000),
    st.integers(2_000_000, 5_000_000),
    st.sampled_from([1_000_000, 1_000_001, 240_000_000, 240_000_001, 600_000_000, 600_000_001]),
)
flag_sets = st.sampled_from(
    [ACK, ACK, PSH | ACK, SYN, SYN | ACK, FIN | ACK, RST, RST | ACK, URG | ACK, FIN, PSH | URG | ACK, 0]
)


@st.composite
def packet_sequences(draw: st.DrawFn) -> list[Packet]:
    protocol = draw(st.sampled_from([6, 6, 6, 17]))
    shapes = st.tuples(
        steps_us, st.booleans(), st.sampled_from([0, 0, 1, 100, 1460]), flag_sets,
        st.integers(0, 3), st.integers(0, 5),
    )  # fmt: skip
    opening = [(1000, False, 0, SYN, 0, 5), (1000, True, 0, SYN | ACK, 0, 5), (1000, False, 0, ACK, 0, 0)]
    drawn = draw(st.lists(shapes, min_size=1, max_size=40))
    time_us, packets = START_US, []
    for step, backward, payload, flags, ip_words, tcp_words in (opening * draw(st.integers(0, 1))) + drawn:
        time_us += step
        packets.append(Packet(time_us, backward, payload, flags, ip_words, tcp_words, protocol))
    return packets


@given(
    packets=packet_sequences(),
    first_packets=st.sampled_from([None, 1, 3, 9]),
    handshake=st.booleans(),
    quirks=st.booleans(),
)
def test_every_feature_of_every_flow_equals_that_of_the_twin(
    tmp_path_factory: pytest.TempPathFactory,
    packets: list[Packet],
    first_packets: int | None,
    handshake: bool,
    quirks: bool,
) -> None:
    result = meter_packets(
        tmp_path_factory.mktemp("twin"),
        packets,
        first_packets=first_packets,
        handshake=handshake,
        quirks=quirks,
    )
    # The meter's own clock may end a silent flow that a packet with an earlier time would have continued;
    # the twin has no such clock. It needs a step back of minutes, which the sequences do not take.
    expected = twin_meter(
        packets, first_packets=first_packets, handshake=handshake, quirks=quirks, timeout_us=600_000_000
    )
    flows = result.flows
    assert len(flows) == len(expected)
    for row, twin in zip(range(len(flows)), expected, strict=True):
        ours = flows.loc[row, list(FLOW_FEATURES)].to_numpy(float)
        np.testing.assert_allclose(ours, twin.features(1_000_000, quirks), rtol=0 if quirks else 1e-12)
        assert flows.loc[row, "fpl1":"bpl10"].tolist() == twin.first_lengths(10)  # type: ignore[misc]
        assert bool(flows.loc[row, "valid"]) == twin.valid
        assert flows.loc[row, "end_us"] == twin.last_us
        assert flows.loc[row, "flow_fpackets"] + flows.loc[row, "flow_bpackets"] == len(twin.whole)
        assert flows.loc[row, "flow_fbytes"] + flows.loc[row, "flow_bbytes"] == sum(
            packet.ip_bytes for packet in twin.whole
        )


def test_the_features_of_a_plain_connection_are_those_reckoned_by_hand(tmp_path: Path) -> None:
    flow = meter_packets(tmp_path, connection()).flows.iloc[0]
    # forward: SYN 60, ACK 40, request 340, ACK 40, FIN 40, ACK 40; backward: SYN|ACK 60, 1440, 940, FIN 40
    assert (flow.total_fpackets, flow.total_fvolume) == (6, 560)
    assert (flow.total_bpackets, flow.total_bvolume) == (4, 2480)
    assert (flow.min_fpktl, flow.mean_fpktl, flow.max_fpktl, flow.std_fpktl) == (40, 93, 340, 121)
    assert (flow.min_fiat, flow.max_fiat, flow.mean_fiat) == (20_000, 60_000, 36_000)
    assert (flow.duration, flow.max_active, flow.std_active, flow.max_idle) == (180_000, 180_000, 0, 0)
    assert (flow.sflow_fbytes, flow.fpsh_cnt, flow.bpsh_cnt, flow.furg_cnt) == (560, 1, 1, 0)
    assert (flow.total_fhlen, flow.total_bhlen) == (60 + 5 * 40, 60 + 3 * 40)
    assert (flow.start_us, flow.end_us) == (START_US, START_US + 180_000)
    assert flow.end == "closed" and flow.valid and flow.starts_with_syn


def test_a_truncated_flow_keeps_the_totals_of_the_whole(tmp_path: Path) -> None:
    whole = meter_packets(tmp_path, connection()).flows.iloc[0]
    for first_packets in range(1, 11):
        cut = meter_packets(tmp_path, connection(), first_packets=first_packets).flows.iloc[0]
        assert cut.total_fpackets + cut.total_bpackets == first_packets
        assert cut.total_fhlen <= first_packets * 120
        totals = ["flow_fpackets", "flow_fbytes", "flow_bpackets", "flow_bbytes", "valid", "end_us"]
        assert cut[totals].tolist() == whole[totals].tolist()


def test_without_the_handshake_the_first_packet_that_counts_is_the_request(tmp_path: Path) -> None:
    flow = meter_packets(tmp_path, connection(), first_packets=3, handshake=False).flows.iloc[0]
    assert [flow.fpl1, flow.fpl2, flow.bpl1, flow.bpl2] == [340, 0, 1440, 940]
    assert flow.duration == 40_000


def test_a_gap_across_an_idle_period_is_no_inter_arrival_time(tmp_path: Path) -> None:
    times = [0, 100_000, 3_100_000, 3_150_000]
    packets = [Packet(START_US + time, flags=ACK, payload_bytes=10) for time in times]
    flow = meter_packets(tmp_path, packets).flows.iloc[0]
    assert (flow.min_fiat, flow.max_fiat) == (50_000, 100_000)
    assert (flow.min_idle, flow.max_idle) == (3_000_000, 3_000_000)
    assert (flow.min_active, flow.max_active) == (50_000, 100_000)
    assert (flow.sflow_fpackets, flow.sflow_fbytes) == (2, 100)


def test_a_minimum_of_zero_is_lost_only_with_the_quirks(tmp_path: Path) -> None:
    packets = [Packet(START_US + time) for time in (0, 0, 700, 1000)]
    assert meter_packets(tmp_path, packets, quirks=True).flows.loc[0, "min_fiat"] == 300
    assert meter_packets(tmp_path, packets, quirks=False).flows.loc[0, "min_fiat"] == 0


def test_a_packet_from_the_past_is_ignored_by_netmate_but_kept_in_the_totals_and_reported(
    tmp_path: Path,
) -> None:
    packets = [Packet(START_US, payload_bytes=10), Packet(START_US - 5, payload_bytes=20)]
    quirky, plain = (meter_packets(tmp_path, packets, quirks=quirks) for quirks in (True, False))
    assert (quirky.flows.loc[0, "total_fpackets"], plain.flows.loc[0, "total_fpackets"]) == (1, 2)
    assert quirky.flows.loc[0, "flow_fpackets"] == plain.flows.loc[0, "flow_fpackets"] == 2
    assert quirky.report.loc["backwards_in_flow", "count"] == 1


def test_the_udp_header_counts_only_until_the_flow_is_valid(tmp_path: Path) -> None:
    packets = [Packet(START_US + i, payload_bytes=size, protocol=17) for i, size in enumerate([0, 5, 5, 5])]
    assert meter_packets(tmp_path, packets, quirks=True).flows.loc[0, "total_fhlen"] == 4 * 20 + 2 * 8
    assert meter_packets(tmp_path, packets, quirks=False).flows.loc[0, "total_fhlen"] == 4 * 20 + 4 * 8


def test_a_closed_connection_ends_its_flow_and_the_same_ports_begin_another(tmp_path: Path) -> None:
    packets = connection(START_US) + connection(START_US + 1_000_000)
    assert meter_packets(tmp_path, packets).flows["end"].tolist() == ["closed", "closed"]
    one = meter_packets(tmp_path, packets, end_on_close=False).flows
    assert one["end"].tolist() == ["end of capture"] and one.loc[0, "flow_fpackets"] == 12


def remnants(packets: list[Packet], after_us: int = 10_000) -> list[Packet]:
    """Make the packets that follow a close now and then: the last ACK, and the answerer's FIN once more."""
    end_us = packets[-1].time_us + after_us
    return [Packet(end_us), Packet(end_us + 10_000, backward=True, flags=FIN | ACK)]


def test_what_is_left_over_belongs_to_the_closed_connection_and_a_syn_begins_the_next(tmp_path: Path) -> None:
    first, second = connection(START_US), connection(START_US + 30_000_000)
    alone = meter_packets(tmp_path, first).flows.iloc[0]
    result = meter_packets(tmp_path, [*first, *remnants(first), *second, *remnants(second)])
    assert result.report.loc["after_close", "count"] == 4
    assert result.flows["starts_with_syn"].tolist() == result.flows["valid"].tolist() == [True, True]
    for _, flow in result.flows.iterrows():
        assert flow[list(FLOW_FEATURES)].tolist() == alone[list(FLOW_FEATURES)].tolist()
        assert (flow.flow_fpackets, flow.flow_bpackets) == (alone.flow_fpackets + 1, alone.flow_bpackets + 1)
        assert (flow.flow_fbytes, flow.flow_bbytes) == (alone.flow_fbytes + 40, alone.flow_bbytes + 40)
        assert flow.end_us - flow.start_us == alone.end_us - alone.start_us + 20_000


def test_remnants_go_to_the_connection_whose_ends_are_theirs(tmp_path: Path) -> None:
    def between(client: str, port: int, packets: list[Packet]) -> Iterator[tuple[int, bytes]]:
        ends = [(client, port), (SERVER, 80)]
        for packet in packets:
            (source, source_port), (to, to_port) = ends[::-1] if packet.backward else ends
            yield packet.time_us, in_link(ipv4(packet.to_transport(source_port, to_port), source, to), 1)

    # More connections than the table of the closed has at first, on either side of the server's address.
    clients = [(f"{net}.0.{i % 200}.1", 1024 + i) for net in (10, 200) for i in range(1500)]
    whole = connection(START_US)
    records = [record for client in clients for record in between(*client, whole)]
    late = [record for client in clients[::-1] for record in between(*client, remnants(whole))]
    path = tmp_path / "many.pcap"
    path.write_bytes(pcap([*sorted(records, key=lambda record: record[0]), *late]))
    flows = meter(path).flows
    assert len(flows) == 3000
    assert (flows["flow_fpackets"].eq(7) & flows["flow_bpackets"].eq(5)).all()


def test_a_reset_closes_and_what_comes_after_it_begins_no_flow(tmp_path: Path) -> None:
    opening = [Packet(START_US, flags=SYN), Packet(START_US + 1, backward=True, flags=RST | ACK)]
    ignored = [
        Packet(START_US + 2, backward=True, flags=SYN | ACK),
        Packet(START_US + 3),
        Packet(START_US + 4, payload_bytes=9, flags=PSH | ACK),
    ]
    again = [Packet(START_US + 9, backward=True, flags=RST | ACK), Packet(START_US + 10, flags=RST)]
    (flow,) = meter_packets(tmp_path, opening + ignored + again).flows.to_dict("records")
    assert (flow["end"], flow["flow_fpackets"] + flow["flow_bpackets"], flow["total_fpackets"]) == ("closed", 7, 1)

    half_closed = [*connection(START_US)[:-2], Packet(START_US + 10**6, backward=True)]
    resets = [Packet(START_US + 10**6 + i, flags=flags) for i, flags in enumerate([RST | ACK, RST])]
    (flow,) = meter_packets(tmp_path, half_closed + resets).flows.to_dict("records")
    assert (flow["end"], flow["valid"], flow["flow_fpackets"]) == ("closed", True, 7)


@pytest.mark.parametrize(("silence_us", "timeout_s", "flows"), [
    (240_000_000, 600, 1), (240_000_001, 600, 2), (240_000_001, None, 2), (60_000_000, 60, 1), (60_000_001, 60, 2),
])  # fmt: skip
def test_a_closed_connection_waits_for_twice_the_segment_lifetime_or_the_time_out(
    tmp_path: Path, silence_us: int, timeout_s: float | None, flows: int
) -> None:
    packets = connection(START_US)
    packets.append(Packet(packets[-1].time_us + silence_us))
    assert len(meter_packets(tmp_path, packets, timeout_s=timeout_s).flows) == flows


def test_a_flow_that_is_silent_for_longer_than_the_time_out_becomes_two(tmp_path: Path) -> None:
    for gap_us, flows in [(600_000_000, 1), (600_000_001, 2)]:
        packets = [Packet(START_US), Packet(START_US + gap_us)]
        assert len(meter_packets(tmp_path, packets).flows) == flows


def test_without_a_time_out_no_silence_ends_a_flow(tmp_path: Path) -> None:
    packets = [Packet(START_US), Packet(START_US + 40 * 86_400_000_000)]
    assert meter_packets(tmp_path, packets, timeout_s=None).flows["end"].tolist() == ["end of capture"]
    assert len(meter_packets(tmp_path, packets).flows) == 2


def test_a_flow_that_stays_silent_is_ended_by_the_packets_of_others(tmp_path: Path) -> None:
    other = [(START_US + i * 1_000_000, in_link(ipv4(tcp(1, 2, ACK), "1.1.1.1", "2.2.2.2"), 1)) for i in range(1300)]
    path = tmp_path / "silent.pcap"
    path.write_bytes(pcap([*records_of([Packet(START_US)]), *other]))
    flows = meter(path).flows
    assert flows["end"].tolist() == ["timeout", "end of capture"]


@pytest.mark.parametrize(("forward", "turned"), [("first packet", True), ("opener", False)])
def test_where_a_syn_ack_comes_first_forward_is_who_sent_it_or_who_opened(
    tmp_path: Path, forward: str, turned: bool
) -> None:
    packets = [
        Packet(START_US, backward=True, flags=SYN | ACK),
        Packet(START_US + 1000),
        Packet(START_US + 2000, payload_bytes=300),
    ]
    (flow,) = meter_packets(tmp_path, packets, forward=forward).flows.to_dict("records")
    assert flow["source_address"] == (SERVER if turned else CLIENT)
    assert (flow["flow_fbytes"], flow["flow_bbytes"]) == ((40, 380) if turned else (380, 40))
    assert flow["total_fpackets"] == (1 if turned else 2)


def test_an_unknown_forward_direction_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(NetreproError, match="did you mean 'opener'"):
        meter_packets(tmp_path, connection(), forward="openr")


def test_a_connection_without_data_is_not_valid_and_stays_out_of_the_features(tmp_path: Path) -> None:
    handshake_only = connection()[:3]
    result = meter_packets(tmp_path, handshake_only)
    assert len(result.flows) == 1 and len(result.features("netmate39")) == 0
    assert len(result.features("netmate39", only_valid=False)) == 1


def test_the_feature_sets_have_the_sizes_that_their_names_say() -> None:
    sets = feature_sets()
    assert tuple(sets["netmate39"]) == FLOW_FEATURES
    assert {name: len(columns) for name, columns in sets.items()} == {
        "netmate39": 39, "netmate59": 59, "netmate59p": 59, "netmate59+port": 60,
    }  # fmt: skip
    assert all(len(set(columns)) == len(columns) for columns in sets.values())


def test_an_unknown_feature_set_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(NetreproError, match="did you mean 'netmate59'"):
        meter_packets(tmp_path, connection()).features("netmat59")
