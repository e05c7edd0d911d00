"""The user-space Dummynet: its rule language, and the engine against a plain twin and closed forms."""

from __future__ import annotations

import dummynet_twin as twin
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.dummynet import (
    Dummynet,
    Pipe,
    Rule,
    headers_of_capture,
    parse_rules,
    synthetic_headers,
    time_packets,
)
from netrepro.errors import NetreproError
from netrepro.networks.links import CoDel, DropTail, EcnThreshold, Pie, Red

ALL_TO_PIPE = "add 1 pipe 1 ip from any to any\n"


def through(pipe: str, headers: pd.DataFrame, **options) -> pd.DataFrame:
    return Dummynet(f"pipe 1 config {pipe}\n{ALL_TO_PIPE}", **options).run(headers).packets


# The rule language.


def test_rules_are_read_in_full():
    rules = parse_rules(
        """
        # a comment
        pipe 1 config bw 10Mbit/s delay 20ms plr 0.01 queue 50 reorder 0.1
        pipe 2 config bw 1250KByte/s delay 500us queue 64Kbytes   # and one behind
        pipe 3 config bw 1Gbit/s red 0.002/10/30/0.1 queue 100 ecn
        pipe 4 config bw 5Mbit/s codel target 5ms interval 100ms ecn
        pipe 5 config bw 5Mbit/s queue 100 threshold 20
        pipe 6 config bw 5Mbit/s pie target 20ms tupdate 30ms max_burst 100ms ecn delay 5ms
        pipe 7 config bw 5Mbit/s queue 1000 pie
        add 200 pipe 1 udp from 10.0.0.0/8 to any 5000-6000
        add 100 prob 0.5 deny tcp from any 1024-65535 to 192.168.1.7 80
        add count ip from any to any
        add allow 89 from any to any
        """
    )
    assert rules.pipes == (
        Pipe(1, 10.0, 20.0, 0.01, 0.1, DropTail(packets=50)),
        Pipe(2, 10.0, 0.5, queue=DropTail(bytes=65536)),
        Pipe(3, 1000.0, queue=Red(100, 10, 30, max_probability=0.1, weight=0.002, ecn=True, variant="floyd1993")),
        Pipe(4, 5.0, queue=CoDel(50, 5.0, 100.0, ecn=True, variant="rfc8289")),
        Pipe(5, 5.0, queue=EcnThreshold(100, 20)),
        Pipe(6, 5.0, 5.0, queue=Pie(50, 20.0, 30.0, 100.0, ecn=True, variant="rfc8033")),
        Pipe(7, 5.0, queue=Pie(1000, variant="rfc8033")),
    )
    assert [(rule.number, rule.action, rule.protocol) for rule in rules.rules] == [
        (100, "deny", 6),
        (200, "pipe", 17),
        (200, "count", None),  # 100 more than the line before, which is 100
        (300, "allow", 89),
    ]
    deny = rules.rules[0]
    assert (deny.probability, deny.source_ports, deny.destination_ports) == (0.5, (1024, 65535), (80, 80))
    assert str(deny.destination) == "192.168.1.7/32" and str(rules.rules[1].source) == "10.0.0.0/8"


@pytest.mark.parametrize(
    "line, column, problem",
    [
        ("pip 1 config", 1, "did you mean 'pipe'"),
        ("pipe 1 confg bw 1Mbit/s", 8, "did you mean 'config'"),
        ("pipe 1 config bandwith 1Mbit/s", 15, "bandwith"),
        ("pipe 1 config dely 20ms", 15, "did you mean 'delay'"),
        ("pipe 1 config bw 10Mbits", 18, "did you mean 'mbit/s'"),
        ("pipe 1 config bw", 17, "the bandwidth is missing"),
        ("pipe 1 config delay 1.2.3ms", 21, "give a number and a unit"),
        ("pipe 1 config plr 1.5", 19, "from 0 to 1"),
        ("pipe 1 config reorder 0.1", 15, "give bw as well"),
        ("pipe 1 config queue 100bytes", 21, "full packet"),
        ("pipe 1 config red 1/2/3", 19, "weight/min/max/probability"),
        ("pipe 1 config queue 20 red 0.002/10/30/0.1", 24, "max_threshold_packets"),
        ("pipe 1 config codel red 0.002/10/30/0.1", 15, "give one of them"),
        ("pipe 1 config pie codel", 15, "a pipe with codel and pie"),
        ("pipe 1 config pie tupdat 15ms", 19, "tupdat"),
        ("pipe 1 config pie target 15mz", 26, "unknown unit 'mz' for pie's target"),
        ("pipe 1 config pie target 0ms", 15, "target_ms"),
        ("pipe 1 config pie tupdate", 26, "pie's tupdate is missing"),
        ("pipe 1 config pie tupdate .0000000001us", 27, "give 0, or 0.001ms to 1e+09ms"),
        ("pipe 1 config bw .0000000001bit/s", 18, "give 0, or 1bit/s to 1e+13bit/s"),
        ("pipe 1 config bw .0001bit/s", 18, "the bandwidth is"),
        ("pipe 1 config bw 1Mbit/s delay 10000000s", 32, "1e+09ms"),
        (f"pipe 1 config bw 1{'0' * 400}", 18, "the bandwidth is"),
        (f"pipe 1 config queue {'9' * 5000}", 21, "the queue is"),
        (f"pipe {'9' * 5000} config", 6, "from 1 to 65535"),
        (f"add 100 allow udp from any to any {'9' * 5000}", 35, "none above 65535"),
        ("pipe 1 config pie queue 64Kbytes", 19, "pie with a queue in bytes"),
        ("pipe 1 config delay 1ms delay 2ms", 25, "given twice"),
        ("pipe 1 config ecn", 15, "drop-tail never marks"),
        ("pipe 0 config", 6, "from 1 to 65535"),
        ("add 100 denny ip from any to any", 9, "did you mean 'deny'"),
        ("add 100 pipe 7 ip from any to any", 14, "pipe 7 is not configured"),
        ("add 100 allow udpp from any to any", 15, "did you mean 'udp'"),
        ("add 100 allow ip form any to any", 18, "did you mean 'from'"),
        ("add 100 allow ip from 10.0.0.1/8 to any", 23, "host bits"),
        ("add 100 allow ip from anny to any", 23, "did you mean 'any'"),
        ("add 100 allow ip from any to any 80", 34, "tcp, udp or sctp"),
        ("add 100 allow udp from any to any 6000-5000", 35, "the lower first"),
        ("add 100 allow udp from any too any", 28, "did you mean 'to'"),
        ("add 100 allow ip from any to", 29, "an address is missing"),
        ("add 100 prob 2 allow ip from any to any", 14, "from 0 to 1"),
        ("add 100 allow udp from any to any 80 extra", 38, "extra"),
    ],
)
def test_a_mistake_is_named_with_line_column_and_what_was_meant(line, column, problem):
    with pytest.raises(NetreproError) as caught:
        parse_rules(f"# first line\n{line}")
    text = str(caught.value)
    assert text.startswith(f"line 2, column {column}:")
    assert problem in text
    assert f"\n  {line}\n  {' ' * (column - 1)}^" in text


# The classifier.

addresses = st.integers(0, 255).map(lambda low: f"10.0.{low % 2}.{low}")
ports = st.integers(0, 40)
protocols = st.sampled_from([1, 6, 17])


@st.composite
def rule_lines(draw) -> str:
    action = draw(st.sampled_from(["allow", "deny", "count", "pipe 1", "pipe 2"]))
    protocol = draw(st.sampled_from(["ip", "tcp", "udp", "icmp", "17"]))

    def end() -> str:
        address = draw(st.sampled_from(["any", "10.0.0.0/24", "10.0.1.0/24", "10.0.0.0/28", "10.0.1.7", "10.0.0.6/31"]))
        if protocol not in ("tcp", "udp", "17") or draw(st.booleans()):
            return address
        low, high = sorted((draw(ports), draw(ports)))
        return f"{address} {low}-{high}"

    return f"add {draw(st.integers(1, 50))} {action} {protocol} from {end()} to {end()}"


@st.composite
def traffic(draw) -> list[twin.Header]:
    gaps = draw(st.lists(st.integers(0, 400), min_size=1, max_size=60))
    return [
        twin.Header(
            int(time),
            draw(addresses),
            draw(addresses),
            draw(ports),
            draw(ports),
            draw(protocols),
            draw(st.sampled_from([46, 600, 1500])),
        )
        for time in np.cumsum(gaps)
    ]


def table_of(headers: list[twin.Header]) -> pd.DataFrame:
    table = pd.DataFrame(headers)
    return table.assign(time_s=table.time_us * 1e-6).drop(columns="time_us")


@given(st.lists(rule_lines(), max_size=8), traffic(), st.sampled_from([3, 20]), st.sampled_from(["bw 25Mbit/s", ""]))
def test_verdicts_rules_and_departures_are_those_of_the_plain_twin(lines, headers, room, rate):
    text = f"pipe 1 config {rate} delay 2ms queue {room}\npipe 2 config bw 40Mbit/s queue 5\n" + "\n".join(lines)
    found = Dummynet(text).run(table_of(headers)).packets
    expected = twin.passage(parse_rules(text), headers)
    assert [(str(row.verdict), row.rule) for row in found.itertuples()] == [each[:2] for each in expected]
    departures = [np.nan if each[2] is None else float(each[2]) * 1e-6 for each in expected]
    np.testing.assert_allclose(found.departure_s, departures, rtol=0, atol=1e-11)


def test_a_rule_matches_with_its_probability_and_the_next_rules_see_the_rest():
    text = "add 1 prob 0.25 deny ip from any to any\nadd 2 count ip from any to any\n"
    passage = Dummynet(text, seed=3).run(synthetic_headers(40_000, 1.0))
    denied = (passage.packets.verdict == "denied").mean()
    assert abs(denied - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 40_000)
    assert list(passage.rules.packets) == [round(40_000 * denied), 40_000 - round(40_000 * denied)]
    assert passage.rules.bytes[1] == passage.rules.packets[1] * 46


def test_equal_numbers_keep_the_order_in_which_they_were_written():
    first, second = "add 7 deny ip from any to any\n", "add 7 allow ip from any to any\n"
    for text, verdict in ((first + second, "denied"), (second + first, "allowed")):
        assert set(Dummynet(text).run(synthetic_headers(3, 1.0)).packets.verdict) == {verdict}


# Pipes.


@pytest.mark.parametrize("rate_mbps, delay_ms", [(10.0, 20.0), (1.0, 0.0), (622.08, 3.5)])
def test_a_burst_leaves_at_the_rate_and_a_delay_later(rate_mbps, delay_ms):
    found = through(f"bw {rate_mbps}Mbit/s delay {delay_ms}ms queue 1000", synthetic_headers(500, 0.0, size_bytes=1000))
    expected = np.arange(1, 501) * 8e-3 / rate_mbps + delay_ms / 1e3
    np.testing.assert_allclose(found.departure_s, expected, rtol=0, atol=1e-9)


def test_a_pipe_without_rate_and_delay_lets_everything_through_at_once():
    found = through("", synthetic_headers(100, 3.0))
    np.testing.assert_allclose(found.departure_s, found.time_s, rtol=0, atol=1e-12)
    assert set(found.verdict) == {"delivered"}


def test_the_buffer_takes_its_packets_and_one_that_is_being_sent():
    found = through("bw 1Mbit/s queue 5", synthetic_headers(20, 0.0))
    assert list(found.verdict == "delivered") == [True] * 6 + [False] * 14
    assert set(found.verdict[6:]) == {"dropped"} and found.departure_s[6:].isna().all()


@pytest.mark.parametrize("loss", [0.01, 0.3])
def test_the_share_lost_is_the_probability_and_losses_are_independent(loss):
    lost = (through(f"delay 1ms plr {loss}", synthetic_headers(50_000, 1.0), seed=5).verdict == "lost").to_numpy()
    assert abs(lost.mean() - loss) < 4 * np.sqrt(loss * (1 - loss) / len(lost))
    pairs = (lost[1:] & lost[:-1]).mean()
    assert abs(pairs - loss**2) < 4 * np.sqrt(loss**2 / len(lost)) + 1e-4


@pytest.mark.parametrize(
    "queue", ["queue 50", "queue 60 red 0.1/5/20/0.1", "queue 100 codel target 1ms interval 10ms", "pie"]
)
@pytest.mark.parametrize("tick_ms", [0.0, 1.0])
def test_order_is_kept_and_no_packet_vanishes_without_reordering(queue, tick_ms):
    found = through(f"bw 3Mbit/s delay 7ms {queue}", synthetic_headers(3000, 100.0), tick_ms=tick_ms)
    assert set(found.verdict) == {"delivered", "dropped"}
    delivered = found[found.verdict == "delivered"]
    assert (np.diff(delivered.departure_s) >= 0).all()
    assert (delivered.departure_s >= delivered.time_s + 0.007 + 46 * 8 / 3e6 - 1e-9).all()


def test_reordering_swaps_neighbours_and_keeps_the_departure_times():
    headers = synthetic_headers(4000, 100.0)
    plain, mixed = (through(f"bw 1Mbit/s queue 10000 reorder {share}", headers) for share in (0, 0.1))
    overtaken = np.diff(mixed.departure_s) < 0
    assert 0.05 < overtaken.mean() < 0.15
    np.testing.assert_array_equal(np.sort(mixed.departure_s), plain.departure_s)


def test_a_timer_makes_packets_leave_on_its_ticks_and_never_early():
    headers = synthetic_headers(1000, 37.0)
    exact, ticked = (through("bw 100Mbit/s delay 20ms", headers, tick_ms=tick) for tick in (0.0, 1.0))
    late = ticked.departure_s - exact.departure_s
    assert late.min() >= -1e-12 and late.max() < 1e-3
    np.testing.assert_allclose(ticked.departure_s * 1e3, np.ceil(exact.departure_s * 1e3 - 1e-6), atol=1e-6)


def test_red_drops_early_and_marks_instead_with_ecn():
    pipe = "bw 3Mbit/s queue 1000 red 0.05/5/20/0.1"
    dropped = through(pipe, synthetic_headers(5000, 100.0))
    marked = through(f"{pipe} ecn", synthetic_headers(5000, 120.0, ecn_capable=True))
    assert (dropped.verdict == "dropped").sum() > 100 and not dropped.marked.any()
    assert marked.marked.sum() > 10 and (marked.verdict == "dropped").sum() == 0
    waits = dropped.departure_s - dropped.time_s
    assert waits.max() < 60 * 46 * 8 / 3e6  # far from the buffer of 1000


def test_codel_holds_the_delay_that_drop_tail_lets_grow():
    headers = synthetic_headers(20_000, 110.0)
    codel, tail = (through(f"bw 3Mbit/s queue 1000 {rule}", headers) for rule in ("codel target 2ms interval 20ms", ""))
    assert (codel.departure_s - codel.time_s).dropna().tail(500).median() < 0.03
    assert (tail.departure_s - tail.time_s).dropna().tail(500).median() > 0.1


def test_pie_brings_the_delay_to_its_target_and_marks_instead_with_ecn():
    """It must see the whole queue: one that sees the packet being sent lets the buffer fill."""
    pipe = "bw 3Mbit/s queue 1000 pie target 5ms tupdate 5ms max_burst 0ms"
    dropped = through(pipe, synthetic_headers(20_000, 115.0))
    waits = (dropped.departure_s - dropped.time_s).dropna().tail(5000)
    assert 2e-3 < waits.median() < 10e-3
    assert 0.03 < (dropped.verdict == "dropped").tail(5000).mean() < 0.1  # 6 % more comes than leaves
    marked = through(f"{pipe} ecn", synthetic_headers(5000, 115.0, ecn_capable=True))
    assert marked.marked.sum() > 10 and not dropped.marked.any()


def test_a_threshold_marks_packets_that_find_so_many_waiting():
    found = through("bw 1Mbit/s queue 50 threshold 4", synthetic_headers(20, 0.0, ecn_capable=True))
    assert list(found.marked) == [False] * 5 + [True] * 15


def test_pipes_share_nothing_and_each_instance_runs_afresh():
    text = (
        "pipe 1 config bw 1Mbit/s queue 3\npipe 2 config delay 1ms\n"
        "add pipe 1 udp from any to any 5000\nadd pipe 2 ip from any to any"
    )
    both = pd.concat([synthetic_headers(10, 0.0), synthetic_headers(10, 0.0, destination_port=80)])
    engine = Dummynet(text)
    found = engine.run(both).packets
    assert (found[found["pipe"] == 2].departure_s == 1e-3).all()
    assert (found[found["pipe"] == 1].verdict == "delivered").sum() == 4
    pd.testing.assert_frame_equal(found, engine.run(both).packets)


def test_the_same_seed_loses_the_same_packets_and_another_seed_others():
    runs = [through("plr 0.5", synthetic_headers(200, 1.0), seed=seed).verdict for seed in (1, 1, 2)]
    assert list(runs[0]) == list(runs[1]) != list(runs[2])


# What packets are read from.


def test_headers_of_a_capture_are_those_that_were_written(tmp_path):
    from scapy.layers.inet import ICMP, IP, TCP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether
    from scapy.utils import wrpcap

    packets = [
        Ether() / IP(src="10.0.0.9", dst="10.0.0.2") / UDP(sport=4000, dport=53) / bytes(10),
        Ether() / IP(src="10.0.0.2", dst="10.0.0.9") / TCP(sport=80, dport=5000),
        Ether() / IPv6() / UDP(),
        Ether() / IP(src="1.2.3.4", dst="10.0.0.9") / ICMP(),
    ]
    for number, packet in enumerate(packets):
        packet.time = 1000 + 0.001 * number
    wrpcap(str(tmp_path / "four.pcap"), packets)
    table = headers_of_capture(tmp_path / "four.pcap")
    rows = list(table.drop(columns=["time_s", "ecn_capable"]).itertuples(index=False, name=None))
    assert rows == [
        ("10.0.0.9", "10.0.0.2", 4000, 53, 17, 38),
        ("10.0.0.2", "10.0.0.9", 80, 5000, 6, 40),
        ("1.2.3.4", "10.0.0.9", 0, 0, 1, 28),
    ]
    np.testing.assert_allclose(table.time_s, [0, 0.001, 0.003], atol=1e-9)
    found = Dummynet("add deny tcp from 10.0.0.2 80 to 10.0.0.9 5000").run(table).packets
    assert list(found.verdict) == ["allowed", "denied", "allowed"]


def test_headers_may_be_a_structured_array_with_numeric_addresses():
    table = synthetic_headers(3, 1.0).assign(source=0x0A000001, destination=0x0A000002)
    found = Dummynet("add deny udp from 10.0.0.1 to 10.0.0.2 5000").run(table.to_records(index=False)).packets
    assert set(found.verdict) == {"denied"}


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"time_s": [0.0, 2.0, 1.0]}, "goes back"),
        ({"time_s": [0.0, 2.0, 1e8]}, r"until time_s = 1e\+08"),
        ({"source": ["10.0.0.1", "10.0.0", "x"]}, "no IPv4 address"),
        ({"destination_port": [1, 2, 70_000]}, "destination_port outside 0 to 65535"),
        ({"source": [-1, 2, 3]}, "outside IPv4"),
    ],
)
def test_headers_that_cannot_be_are_refused(change, problem):
    with pytest.raises(NetreproError, match=problem):
        Dummynet("").run(synthetic_headers(3, 1.0).assign(**change))


def test_a_missing_column_is_named():
    with pytest.raises(NetreproError, match="'source_port'"):
        Dummynet("").run(synthetic_headers(3, 1.0).drop(columns="source_port"))


# The timing harness: what it drives is the engine, and every packet is accounted for.


@pytest.mark.parametrize(
    "text, entry, ends",
    [
        ("", True, {"dropped at entry": 6000}),
        ("add deny udp from 10.0.0.1 4000 to 10.0.0.2 5000", False, {"denied": 6000}),
        ("add deny udp from any to any 5001", False, {"allowed": 6000}),
        (f"pipe 1 config\n{ALL_TO_PIPE}", False, {"delivered": 6000}),
        (f"pipe 1 config delay 2ms\n{ALL_TO_PIPE}", False, {"delivered": 4001, "in flight": 1999}),
        (f"pipe 1 config bw 184Mbit/s queue 9\n{ALL_TO_PIPE}", False, {"delivered": 3000, "dropped": 2990}),
    ],
)
def test_the_generators_packets_meet_the_fate_that_the_rules_give_them(text, entry, ends):
    timing = time_packets(Dummynet(text, tick_ms=1.0), 5000, drop_at_entry=entry, warm_up_packets=1000)
    for name, packets in ends.items():
        assert abs(timing.account[name] - packets) <= 1, timing.account
    assert timing.out_of_order == 0 or timing.account["dropped"]
    assert len(timing.batches) == 5 and (timing.batches.whole_ns > 0).all()


def test_less_than_a_batch_cannot_be_timed():
    with pytest.raises(NetreproError, match="at least one batch"):
        time_packets(Dummynet(""), 10)


def test_a_pipe_takes_no_queue_that_it_cannot_serve():
    with pytest.raises(NetreproError, match="DropTail, EcnThreshold, Red, CoDel or Pie"):
        Pipe(1, queue="codel")


def test_a_rule_built_by_hand_is_as_good_as_a_parsed_one():
    assert parse_rules("add 5 deny udp from any to any 53").rules[0] == Rule(
        5, "deny", protocol=17, destination_ports=(53, 53)
    )


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: Pipe(1, rate_mbps=1e-16), "rate_mbps"),
        (lambda: Pipe(1, rate_mbps=0), "rate_mbps"),
        (lambda: Pipe(1, delay_ms=1e10), "delay_ms"),
        (lambda: Pipe(1, delay_ms=1e-10), "delay_ms"),
        (lambda: Pipe(1, loss=1.5), "loss"),
        (lambda: Pipe(0), "number"),
        (lambda: Rule(0, "allow"), "number"),
        (lambda: Rule(5, "allow", probability=2), "probability"),
        (lambda: Dummynet("", tick_ms=1e-10), "tick_ms"),
        (lambda: Dummynet("", tick_ms=float("nan")), "tick_ms"),
        (lambda: Dummynet("", seed=2**64), "seed"),
    ],
)
def test_what_is_built_by_hand_keeps_the_domains_of_the_text(made, problem):
    with pytest.raises(NetreproError, match=problem):
        made()


@given(
    st.floats(-3, 14).map(lambda digits: 10**digits),
    st.floats(-8, 8).map(lambda digits: 10**digits),
    st.sampled_from(["", "queue 3", "queue 200000", "queue 100Kbytes", "codel", "threshold 5 queue 9"]),
    st.floats(0, 7).map(lambda digits: 10**digits - 1),
    st.sampled_from([0.0, 1.0, 1e9]),
)
def test_no_packet_leaves_before_it_came_whatever_rate_and_delay(rate, delay_s, queue, late_s, tick_ms):
    """An answer that can be true, or our error: none is a clock that went round."""
    text = f"pipe 1 config bw {rate:f}bit/s delay {delay_s:f}s {queue}\n{ALL_TO_PIPE}"
    headers = synthetic_headers(40, 1e3, size_bytes=60_000)
    headers["time_s"] += late_s
    try:
        packets = Dummynet(text, tick_ms=tick_ms).run(headers).packets
    except NetreproError:
        return
    through = packets[packets["verdict"] == "delivered"]
    wait_s = (through["departure_s"] - through["time_s"]).to_numpy()
    least_s = delay_s + 60_000 * 8 / rate
    assert len(through) and (wait_s >= least_s * (1 - 1e-6) - 1e-6).all()
    assert (np.diff(through["departure_s"]) >= 0).all()
