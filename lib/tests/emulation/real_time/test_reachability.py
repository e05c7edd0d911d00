"""Every host pings every other one, and a port of a network in virtual time is captured while programs run."""

import pytest
from emulation_traffic import emulation, rootless
from virtual_kernel import needs_virtual

from netrepro.dummynet import headers_of_capture
from netrepro.emulation import Emulation, ping_all
from netrepro.emulation.check import probe_command
from netrepro.emulation.reachability import described_round_trip_ms
from netrepro.errors import NetreproError
from netrepro.networks import Cable, Link, Topology, dumbbell

NETWORK = Topology(
    [
        Cable("h1", "s1", Link(100, 1)),
        Cable("h2", "s1", Link(1, 0)),
        Cable("s1", "s2", Link(10, 10), Link(10, 5)),
        Cable("h3", "s2", Link(100, 1)),
    ]
)


def test_a_round_trip_is_the_sum_of_its_links():
    transmission_ms = 2 * (98 * 8e-3 / 100 + 98 * 8e-3 / 10 + 98 * 8e-3 / 100)
    assert described_round_trip_ms(NETWORK, "h1", "h3") == pytest.approx(4 + 15 + transmission_ms)


@needs_virtual
def test_in_virtual_time_everybody_answers_after_what_the_links_say():
    with Emulation(NETWORK, tier="virtual") as net:
        found = ping_all(net)
        net.change_link("s1", "s2", up=False)
        cut = ping_all(net, count=1, timeout_s=0.5)
    assert list(zip(found["from"], found["to"], strict=True))[:3] == [("h1", "h2"), ("h1", "h3"), ("h2", "h1")]
    assert (found.answered == 3).all()
    assert (found.round_trip_ms - found.described_ms).abs().max() < 0.01
    near = cut[cut["from"].isin(["h1", "h2"]) & cut.to.isin(["h1", "h2"])]
    assert (near.answered == 1).all() and len(near) == 2
    assert (cut.drop(near.index).answered == 0).all() and cut.drop(near.index).round_trip_ms.isna().all()


@rootless
def test_in_real_time_everybody_answers():
    with emulation(dumbbell(1, Link(100, 0), Link(10, 0))) as net:
        found = ping_all(net)
    assert len(found) == 2 and (found.answered == 3).all()


@needs_virtual
def test_a_port_is_captured_while_programs_run_and_only_then(tmp_path):
    def ping(net, count):
        net["h1"].run(probe_command("ping", count, 1, f"h3={net['h3'].address}"))

    with Emulation(NETWORK, tier="virtual") as net:
        ping(net, 1)
        with net.record(packets=[("s1", "s2"), ("s2", "s1")], captures=tmp_path):
            ping(net, 2)
        ping(net, 1)
        there, back = (headers_of_capture(tmp_path / f"{name}.pcap") for name in ("s1-s2", "s2-s1"))
        assert list(there.destination) == [str(net["h3"].address)] * 2 == list(back.source)
        assert there.time_s.diff().iloc[1] == pytest.approx(
            described_round_trip_ms(NETWORK, "h1", "h3") / 1e3, rel=1e-3
        )
        with net.record(packets=[("s1", "s2")], captures=tmp_path):
            ping(net, 1)
        assert len(headers_of_capture(tmp_path / "s1-s2.pcap")) == 1
        with pytest.raises(NetreproError, match="no folder"):
            net.record(packets=[("s1", "s2")], captures=tmp_path / "nowhere")
        with pytest.raises(NetreproError, match="s1"):
            net.record(packets=[("s1", "h3")], captures=tmp_path)
