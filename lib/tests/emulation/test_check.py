"""A check of a network says of each phrase what was found and whether it holds, the same on every kernel."""

from __future__ import annotations

import socket

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks import Cable, Link, Topology, dumbbell

TIERS = [
    pytest.param("virtual", marks=needs_virtual),
    pytest.param(
        "rootless", marks=pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
    ),
]


@pytest.fixture(scope="module", params=TIERS)
def net(request):
    with Emulation(dumbbell(1, Link(100.0, 0.0), Link(10.0, 0.0)), request.param) as built:
        yield built


def serve(address: str) -> None:
    with socket.create_server((address, 80)) as door:
        while True:
            door.accept()[0].close()


def test_what_holds_holds_and_what_was_found_is_told(net):
    net["h2"].start(serve, net["h2"].address)
    for _ in range(100):  # it starts in its own time
        if net.check({"h1 reaches h2:80": True}).holds.all():
            break
        net.sleep(0.2)
    expected = {
        "h1 reaches h2": True,
        "h1 reaches h2:80": True,
        "h1->h2 path": "h1 s1 s2 h2",
        "h1->h2 through s2": True,
        "h1->h2 mtu": np.int64(1500),
        "h1->h2 round trip at most": np.float32(1000),
        "h1->h2 loss at most": 0.5,
        "h1->h2 rate at least": 2,
        "h1 address": "10.0.0.1",
    }
    found = net.check(expected)
    assert list(found.columns) == ["what", "expected", "found", "holds"] and list(found.what) == list(expected)
    assert found.holds.all(), found
    values = found.set_index("what").found
    assert values["h1->h2 mtu"] == 1500 and values["h1->h2 path"] == "h1 s1 s2 h2"
    assert values["h1->h2 loss at most"] < 0.1
    assert 2 < values["h1->h2 rate at least"] < 10  # the link's rate


def test_what_does_not_hold_is_told_with_what_is_there_instead(net):
    found = net.check(
        {
            "h1 reaches h2": False,
            "h1 reaches h2:81": True,
            "h1 -> h2 path": ["h1", "s1", "h2"],
            "h1->h2 mtu": 9000,
            "h1->h2 rate at least": 11,
            "h1 address": "10.0.0.9",
        }
    )
    assert not found.holds.any(), found
    assert list(found.found[:4]) == [True, False, "h1 s1 s2 h2", 1500]


def test_a_broken_link_is_found(net, tmp_path):
    lines = ["h1 reaches h2: false", "h1->h2 path: h1 s1 ? ? ?", "h1->h2 mtu: 0", "h1->h2 loss at most: 0.9"]
    (tmp_path / "broken.yaml").write_text("\n".join(lines))
    net.change_link("s1", "s2", up=False)
    try:
        found = net.check(tmp_path / "broken.yaml")
    finally:
        net.change_link("s1", "s2", up=True)
    assert list(found.holds) == [True, True, True, False] and found.found.iloc[3] == 1.0


@needs_virtual
def test_in_virtual_time_the_smallest_mtu_of_a_path_the_delay_and_the_loss_are_found():
    access, narrow = Link(100, 1), Link(10, 10, loss=0.2, mtu_bytes=1400)
    network = Topology((Cable("h1", "s1", access), Cable("s1", "s2", narrow, narrow), Cable("s2", "h2", access)))
    with Emulation(network, "virtual", seed=3) as net:
        trip = "h1->h2 round trip at most"
        found = net.check({"h1->h2 mtu": 1400, trip: 24.1 + 98 * 16e-3 * (1 / 10 + 2 / 100), "h1->h2 loss at most": 1})
    assert list(found.holds) == [True, True, True]
    assert found.found[1] > 24
    assert found.found[2] == pytest.approx(1 - 0.8**2, abs=0.1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"h1 likes h2": True}, "no check 'h1 likes h2'\n.*'A reaches B'.*'A->B mtu'.*'A address'"),
        ({"h1 reaches h9": True}, "no host 'h9'"),
        ({"h1->h2 through s9": True}, "no switch 's9'"),
        ({"h1 reaches h2:99999": True}, "no port '99999'"),
        ({"h1 reaches h2": 1}, "'h1 reaches h2': 1\n.*True or False"),
        ({"h1->h2 mtu": "large"}, "'h1->h2 mtu': 'large'\n.*number"),
        ({"h1->h2 path": 7}, "names in a string"),
        ("nowhere.yaml", "no checks in nowhere.yaml"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_looked_at(line, message):
    net = Emulation(dumbbell(1, Link(100.0, 0.0), Link(10.0, 0.0)), "virtual")._network
    with pytest.raises(NetreproError, match=message):
        net.check(line)
