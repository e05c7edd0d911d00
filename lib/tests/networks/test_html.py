"""What a notebook shows of networks and experiments: small, whole, and nothing of theirs taken for HTML."""

from xml.etree import ElementTree

import pytest

from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, Red, Tcp, dumbbell, fat_tree, jellyfish, star

NETWORKS = [
    star(3, Link(10, 1)),
    dumbbell(2, Link(100, 1), Link(10, 10, DropTail(packets=50))),
    fat_tree(4, Link(100, 0.1)),
    jellyfish(20, 5, 2, Link(100, 0.1), seed=1),
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_a_network_is_drawn_with_every_node_and_cable(network):
    page = ElementTree.fromstring(network._repr_html_().replace("<br>", "<br/>"))
    assert len(page.findall(".//rect")) == len(network.hosts)
    assert len(page.findall(".//circle")) == len(network.switches)
    assert len(page.findall(".//line")) == network.graph.number_of_edges()
    for shape in (*page.findall(".//rect"), *page.findall(".//circle")):
        x, y = (float(shape.get(a) or shape.get(b)) for a, b in (("x", "cx"), ("y", "cy")))
        assert 0 <= x <= 420 and 0 <= y <= 200


def test_a_large_network_is_only_counted():
    network = fat_tree(8, Link(100, 0.1))
    assert "<svg" not in network._repr_html_() and f"{len(network.hosts)} hosts" in network._repr_html_()


def test_an_experiment_says_what_differs_from_the_usual():
    network = dumbbell(2, Link(100, 1), Link(10, 10, Red(50, 5, 15, 0.1)))
    flows = tuple(Flow(f"h{i}", f"h{i + 2}", duration_s=5, label="<b>mine</b>") for i in (1, 2))
    look = Measure(queues=(("s1", "s2"),))
    page = Experiment(network, flows, 5.0, 7, look, Tcp("reno", initial_window_segments=3))._repr_html_()
    for words in ("5 s, seed 7", "4 hosts, 2 switches", "10 Mb/s, 10 ms, Red(", "2 × Flow(duration_s=5)",
                  "initial_window_segments=3", "queue s1 to s2"):  # fmt: skip
        assert words in page
    assert "<b>mine" not in page and len(page) < 6000 and "for a packet" not in page
    page = Experiment(network, flows, 5.0, host_delay_packets=1)._repr_html_()
    assert "take up to 1.21 ms for a packet" in page
