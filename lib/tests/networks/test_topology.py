"""Descriptions of networks, traffic and experiments: their shapes, their equality, their errors."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.networks import (
    ROUTINGS,
    Cable,
    Cake,
    CoDel,
    Datagrams,
    DropTail,
    DualPi2,
    EcnThreshold,
    Experiment,
    Flow,
    Fq,
    FqCoDel,
    Link,
    LinkChange,
    Measure,
    PhantomQueue,
    Pie,
    PoissonFlows,
    Rcp,
    Red,
    Requests,
    Routing,
    Sfq,
    SharedBuffer,
    Slotted,
    Tcp,
    Topology,
    Xcp,
    dumbbell,
    fat_tree,
    flows_per_s_at_load,
    from_graph,
    jellyfish,
    leaf_spine,
    star,
)
from netrepro.networks.dcell import DCell, two_level_tree
from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.networks.queues import ISOLATIONS
from netrepro.networks.routing import k_shortest_paths

LINK = Link(rate_mbps=100, delay_ms=0.1)
POOLED, POOLED_MORE = (replace(LINK, queue=SharedBuffer(size)) for size in (10_000, 20_000))
WEB_SEARCH = load_flow_sizes("web_search")


def routed(*path: str) -> Experiment:
    return Experiment(star(2, LINK), (Flow("h1", "h2", 10, path=path),), 1)


@pytest.mark.parametrize("k", [2, 4, 8])
def test_a_fat_tree_has_the_published_numbers_and_full_diversity(k):
    # Al-Fares et al., section 3: k^3/4 hosts, 5k^2/4 switches of k ports, (k/2)^2 paths between pods.
    tree = fat_tree(k, LINK)
    assert len(tree.hosts) == k**3 // 4 and len(tree.switches) == 5 * k**2 // 4
    assert {tree.graph.degree(switch) for switch in tree.switches} == {k}
    paths = list(nx.all_shortest_paths(tree.graph, tree.hosts[0], tree.hosts[-1]))
    assert len(paths) == (k // 2) ** 2 and {len(path) for path in paths} == {7}


def test_a_leaf_spine_has_a_path_over_every_spine():
    net = leaf_spine(3, 4, 2, LINK, LINK)
    assert net.hosts == tuple(f"h{i}" for i in range(1, 7))
    assert len(list(nx.all_shortest_paths(net.graph, "h1", "h6"))) == 4
    assert nx.shortest_path_length(net.graph, "h1", "h2") == 2


def test_a_dumbbell_has_one_bottleneck_that_all_pairs_share():
    slow = Link(10, 5, DropTail(packets=20))
    net = dumbbell(3, LINK, slow)
    assert net.link("s1", "s2") == net.link("s2", "s1") == slow
    for i in (1, 2, 3):
        assert nx.shortest_path(net.graph, f"h{i}", f"h{i + 3}") == [f"h{i}", "s1", "s2", f"h{i + 3}"]


def test_the_pairs_of_a_dumbbell_may_have_links_of_their_own():
    near, far = Link(100, 1, jitter_ms=0.1), Link(100, 50)
    net = dumbbell(2, [near, far], LINK)
    assert [net.link(f"h{i}", switch).delay_ms for i, switch in ((1, "s1"), (2, "s1"), (3, "s2"), (4, "s2"))] == [
        1,
        50,
    ] * 2
    assert dumbbell(2, [near, near], LINK) == dumbbell(2, near, LINK)


def test_the_host_side_of_a_cable_has_the_hosts_queue_and_the_switch_side_the_links():
    net = star(3, LINK)
    assert net.link("s1", "h1").queue == LINK.queue
    assert net.link("h1", "s1").queue == DropTail(packets=1000)


def test_a_graph_of_networkx_becomes_switches_with_hosts():
    graph = nx.random_regular_graph(3, 8, seed=1)
    net = from_graph(graph, LINK, hosts_per_switch=2)
    assert len(net.hosts) == 16 and {net.graph.degree(s) for s in net.switches} == {5}
    fabric = net.graph.subgraph(net.switches)
    assert nx.is_isomorphic(fabric, graph)


def test_an_edge_of_a_graph_may_have_its_own_link():
    slow = Link(1, 1)
    graph = nx.path_graph(3)
    graph.edges[1, 2]["link"] = slow
    net = from_graph(graph, LINK)
    assert net.link("s2", "s3") == slow and net.link("s1", "s2") == LINK


def test_a_jellyfish_is_a_connected_regular_graph_that_its_seed_names():
    # Singla et al., section 3: RRG(N, k, r).
    net = jellyfish(20, 6, 2, LINK, seed=3)
    assert len(net.hosts) == 40 and {net.graph.degree(switch) for switch in net.switches} == {6}
    assert net.fabric.number_of_edges() == 20 * 4 / 2 and nx.is_connected(net.fabric)
    assert jellyfish(20, 6, 2, LINK, seed=3) == net != jellyfish(20, 6, 2, LINK, seed=4)


def test_a_jellyfish_is_connected_even_where_most_regular_graphs_are_in_pieces():
    # A graph of degree 2 is a union of rings; only one ring connects all.
    for seed in range(5):
        net = jellyfish(9, 3, 1, LINK, seed)
        assert nx.is_connected(net.fabric) and {net.graph.degree(switch) for switch in net.switches} == {3}


@pytest.mark.parametrize(("switches", "ports", "hosts"), [(20, 4, 20), (45, 6, 68), (80, 8, 162)])
def test_a_jellyfish_uses_all_ports_but_one_whatever_the_number_of_hosts(switches, ports, hosts):
    # The equipment of fat-trees with k = 4, 6, 8 and about a quarter more hosts.
    counts = [hosts // switches + (i < hosts % switches) for i in range(switches)]
    net = jellyfish(switches, ports, counts, LINK, seed=1)
    assert len(net.hosts) == hosts and nx.is_connected(net.fabric)
    degrees = [net.graph.degree(switch) for switch in net.switches]
    assert sum(degrees) >= switches * ports - 1 and max(degrees) == ports
    assert [sum(peer[0] == "h" for peer in net.graph[switch]) for switch in net.switches] == counts


def test_a_jellyfish_joins_every_pair_of_switches_as_often_as_any_other():
    joined = np.zeros((8, 8))
    for seed in range(600):
        for first, second in jellyfish(8, 4, 1, LINK, seed).fabric.edges:
            joined[int(first[1:]) - 1, int(second[1:]) - 1] += 1
    counts = joined[np.triu_indices(8, 1)] + joined.T[np.triu_indices(8, 1)]
    # 600 graphs of 12 cables over 28 pairs; a binomial's standard deviation is 12.
    assert counts.mean() == pytest.approx(600 * 12 / 28) and np.abs(counts - counts.mean()).max() < 4 * 12


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Link(0, 1), "above 0"),
        (lambda: Link(-5, 1), "above 0"),
        (lambda: Link(float("nan"), 1), "finite"),
        (lambda: Link("fast", 1), "finite"),
        (lambda: Link(1, -1), "from 0"),
        (lambda: Link(1, 1, loss=1.0), "below 1"),
        (lambda: Link(1, 1, queue=100), "DropTail"),
        (lambda: DropTail(), "packets=... or bytes"),
        (lambda: DropTail(packets=1, bytes=9000), "packets=... or bytes"),
        (lambda: DropTail(packets=0), "1 or more"),
        (lambda: DropTail(bytes=1000), "1514 or more"),
        (lambda: EcnThreshold(10, 20), "within the buffer"),
        (lambda: Red(100, 20, 10), "above 20"),
        (lambda: Red(100, 20, 200), "to 100"),
        (lambda: CoDel(target_ms=0), "above 0"),
        (lambda: Pie(target_ms=0), "above 0"),
        (lambda: Cake(2000), "8192 to"),
        (lambda: Cake(isolation="triple"), "did you mean 'triple-isolate'"),
        (lambda: Cake(shaped_mbps=0), "from 0.001"),
        (lambda: PhantomQueue(100, drain_share=1.5), "to 1"),
        (lambda: SharedBuffer(100), "1514 or more"),
        (lambda: SharedBuffer(10_000, alpha=0), "above 0"),
        (lambda: Link(1, 1, reordering=0.1), "reordering_ms"),
        (lambda: Link(1, 1, reordering=1.1, reordering_ms=1), "to 1"),
        (lambda: Topology((Cable("h1", "s1", LINK, POOLED), Cable("h2", "s1", LINK, POOLED_MORE))), "give it one"),
        (lambda: jellyfish(10, 4, 1, LINK, 1).link("s1", "h9"), "no cable"),
        (lambda: jellyfish(4, 6, 1, LINK, 1), "1 to 3 ports"),
        (lambda: jellyfish(10, 2, 1, LINK, 1), "enough to connect"),
        (lambda: jellyfish(10, 4, 0, LINK, 1), "two hosts"),
        (lambda: jellyfish(10, 4, (1, 2), LINK, 1), "one for each switch"),
        (lambda: Topology((Cable("h1", "s1", LINK), Cable("h2", "s2", LINK))), "connect all nodes"),
        (lambda: Topology((Cable("h1", "h1", LINK),)), "two different nodes"),
        (lambda: Topology((Cable("h1", "h2", LINK), Cable("h2", "h1", LINK))), "one cable"),
        (lambda: Topology((Cable("h1", "switch", LINK),)), "call hosts"),
        (lambda: Topology((Cable("h1", "s1", LINK),)), "two hosts"),
        (lambda: Topology(()), "two hosts"),
        (lambda: fat_tree(3, LINK), "even k"),
        (lambda: star(1, LINK), "2 or more"),
        (lambda: dumbbell(0, LINK, LINK), "1 or more"),
        (lambda: dumbbell(3, [LINK, LINK], LINK), "2 access links of 3 pairs"),
        (lambda: leaf_spine(0, 1, 1, LINK, LINK), "1 or more"),
        (lambda: leaf_spine(1, 1, 1, LINK, LINK), "two hosts"),
        (lambda: from_graph(nx.path_graph(3), LINK, [1, 2]), "one for each"),
        (lambda: from_graph(nx.DiGraph([(1, 2)]), LINK), "undirected"),
        (lambda: from_graph({"a": ["b"]}, LINK), "from dict in place of a graph"),
        (lambda: from_graph([("a", "b")], LINK), "from list in place of a graph"),
        (lambda: from_graph(nx.path_graph(2), LINK, {0: 2, 1: 3}), "[hosts[node] for node in graph]"),
        (lambda: Topology([("h1", "h2")]), "give Cable("),
        (lambda: LinkChange(1, "h1", "s1", up="down"), "True or False"),
        (lambda: Flow("h1", "h2", 10, path="h1 s1 h2"), "give its nodes"),
        (lambda: Flow("h1", "h2", 10, subflow_paths=2), "one for each subflow"),
        (lambda: Flow("h1", "h2", 10, congestion_control="mine"), "those of your own begin with my_"),
        (lambda: Tcp("CUBIC"), "did you mean 'cubic'"),
        (lambda: PoissonFlows("web_search", 10, 1), 'load_flow_sizes("web_search")'),
        (lambda: flows_per_s_at_load("web_search", 0.5, 100), 'load_flow_sizes("web_search")'),
        (lambda: Requests("h1", 2, 1, 1, 1), "give hosts"),
        (lambda: Experiment(star(2, LINK), None, 1), "give Flow"),
        (lambda: Experiment(star(2, LINK), (), 1, changes=5), "give LinkChange"),
        (lambda: star(3, LINK).check_host("h33"), "did you mean 'h3'"),
        (lambda: star(2, LINK).link("h1", "h2"), "no cable"),
        (lambda: Flow("h1", "h2"), "size_bytes=... or duration_s"),
        (lambda: Flow("h1", "h2", 10, 1.0), "size_bytes=... or duration_s"),
        (lambda: Flow("h1", "h1", 10), "two different hosts"),
        (lambda: Flow("h1", "h2", 0), "1 or more"),
        (lambda: Flow("h1", "h2", 10, start_s=-1), "from 0"),
        (lambda: Flow("h1", "h2", 10, congestion_control="renu"), "did you mean 'reno', of reno, "),
        (lambda: Tcp(congestion_control="cubik"), "did you mean 'cubic'"),
        (lambda: Tcp(receive_window_bytes=100), "1448 or more"),
        (lambda: Datagrams("h1", "h2", 1, 1, spacing="poison"), "did you mean 'poisson'"),
        (lambda: PoissonFlows(WEB_SEARCH, 10, 0), "1 to"),
        (lambda: PoissonFlows(WEB_SEARCH, 10, 1, replication="repflo"), "did you mean 'repflow'"),
        (lambda: Flow("h1", "h2", 10, replication="repsyn", subflows=2), "one of the two"),
        (lambda: Flow("h1", "h2", 10, subflows=0), "1 to"),
        (lambda: Flow("h1", "h2", 10, subflows=2, subflow_paths=[("h1", "s1", "h2")]), "a path for each"),
        (
            lambda: Experiment(star(3, LINK), (Flow("h1", "h2", 10, subflows=1, subflow_paths=[("h1", "h2")]),), 1),
            "no cable",
        ),
        (lambda: Requests("h1", ("h1",), 1, 1, 1), "two different hosts"),
        (lambda: Requests("h1", (), 1, 1, 1), "one at least"),
        (lambda: Requests("h1", ("h2", "h2"), 1, 1, 1), "different hosts"),
        (lambda: Requests("h1", ("h2",), 1, 1, 1, answer_within_ms=-1), "a number from 0"),
        (lambda: Experiment(star(2, LINK), (Requests("h1", ("h3",), 1, 1, 1),), 1), "did you mean 'h"),
        (lambda: Tcp(pacing_ratio=0), "above 0"),
        (lambda: PoissonFlows(WEB_SEARCH, 10, 1, ("h1",), ("h1",)), "two hosts"),
        (lambda: Experiment(star(2, LINK), (Flow("h1", "h3", 10),), 1), "did you mean 'h"),
        (lambda: Experiment(star(2, LINK), (Flow("h1", "h2", 10, start_s=2),), 1), "start it earlier"),
        (lambda: Experiment(star(2, LINK), ("h1 h2",), 1), "give Flow"),
        (lambda: Experiment(star(2, LINK), (), 0), "above 0"),
        (
            lambda: Experiment(star(2, LINK), (), 1, routing="ecpm"),
            "did you mean 'ecmp', of ecmp, packet_spraying, spanning_tree, k_shortest_paths?",
        ),
        (lambda: Experiment(star(2, LINK), (), 1, routing=Routing(root="s11")), "did you mean 's1'"),
        (lambda: Experiment(star(2, LINK), (), 1, changes=LinkChange(2, "h1", "s1", up=False)), "happen earlier"),
        (lambda: Experiment(star(2, LINK), (), 1, changes=LinkChange(0, "h1", "h2", up=False)), "no cable"),
        (lambda: Experiment(star(2, LINK), (), 1, changes=("h1 s1",)), "give LinkChange"),
        (lambda: LinkChange(1, "h1", "s1"), "give rate_mbps=..., delay_ms=..., loss=... or up=..."),
        (lambda: Routing(paths=0), "1 or more"),
        (lambda: Rcp(alpha=-1), "from 0"),
        (lambda: Rcp(first_share=0), "above 0"),
        (lambda: Xcp(gamma=-1), "from 0"),
        (lambda: routed("h1", "s1"), "end it with h2"),
        (lambda: routed("h1", "s1", "h1", "s1", "h2"), "each node once"),
        (lambda: routed("h1", "s2", "h2"), "no cable"),
        (lambda: Experiment(star(2, LINK), (), 1, measure=Measure(queues=(("h1", "h2"),))), "no cable"),
        (lambda: Experiment.from_json("{"), "to_json"),
        (lambda: Experiment.from_json('{"kind": "DropTail", "packets": 3}'), "not of an experiment"),
        (lambda: Experiment.from_json('{"kind": "Drop"}'), "DropTail"),
        (lambda: Experiment.from_json('{"kind": "DropTail", "package": 3}'), "to_json"),
    ],
)
def test_an_impossible_description_is_refused_with_its_remedy(make, says):
    with pytest.raises(NetreproError) as caught:
        make()
    assert says in str(caught.value)


def test_one_of_a_kind_stands_for_a_list_of_one():
    cable, flow, change = Cable("h1", "h2", LINK), Flow("h1", "h2", 10), LinkChange(0.5, "h1", "h2", up=False)
    net = Topology([cable])
    assert Topology(cable) == net
    assert Experiment(net, flow, 1, changes=change) == Experiment(net, [flow], 1, changes=[change])
    assert Experiment(net, (each for each in [flow]), 1) == Experiment(net, [flow], 1)
    assert Requests("h1", "h2", 1, 1, 1) == Requests("h1", ["h2"], 1, 1, 1)
    ends = PoissonFlows(WEB_SEARCH, 1, 1, "h1", "h2")
    assert ends == PoissonFlows(WEB_SEARCH, 1, 1, ["h1"], ["h2"])
    assert Measure(queues=("h1", "h2")) == Measure(queues=[("h1", "h2")])


GRAPH = nx.path_graph(3)


@pytest.mark.parametrize(
    "build",
    [
        lambda count: star(count, LINK),
        lambda count: dumbbell(count, LINK, LINK),
        lambda count: leaf_spine(count, 1, 2, LINK, LINK),
        lambda count: leaf_spine(2, count, 2, LINK, LINK),
        lambda count: leaf_spine(2, 1, count, LINK, LINK),
        lambda count: fat_tree(count, LINK),
        lambda count: jellyfish(count, 3, 1, LINK, 1),
        lambda count: jellyfish(8, count, 1, LINK, 1),
        lambda count: jellyfish(8, 6, count, LINK, 1),
        lambda count: jellyfish(8, 6, [2] * 7 + [count], LINK, 1),
        lambda count: jellyfish(8, 4, 1, LINK, count),
        lambda count: from_graph(GRAPH, LINK, count),
        lambda count: two_level_tree(count, 2, LINK),
        lambda count: two_level_tree(2, count, LINK),
        lambda count: k_shortest_paths(star(2, LINK), "h1", "h2", count),
    ],
)
@pytest.mark.parametrize("count", [4.0, "4", None, True, np.float64(4)])
def test_a_count_is_a_whole_number_in_every_builder_or_refused(build, count):
    build(np.int64(4))
    with pytest.raises(NetreproError, match="whole number") as caught:
        build(count)
    assert repr(count) in str(caught.value)


def test_a_jellyfish_takes_the_seeds_of_an_experiment():
    for seed in (0, 2**32 - 1, 2**64 - 1):
        assert len(jellyfish(8, 4, 1, LINK, seed).hosts) == 8
    with pytest.raises(NetreproError, match=rf"seed = {2**64}\n.*0 to {2**64 - 1}"):
        jellyfish(8, 4, 1, LINK, 2**64)


@pytest.mark.parametrize(
    "build",
    [
        lambda link: star(2, link),
        lambda link: dumbbell(1, link, LINK),
        lambda link: dumbbell(1, [link], LINK),
        lambda link: dumbbell(1, LINK, link),
        lambda link: leaf_spine(2, 1, 1, link, LINK),
        lambda link: leaf_spine(2, 1, 1, LINK, link),
        lambda link: fat_tree(2, link),
        lambda link: jellyfish(8, 4, 1, link, 1),
        lambda link: from_graph(GRAPH, link),
        lambda link: two_level_tree(2, 1, link),
        lambda link: DCell(2, 1).topology(link, LINK),
        lambda link: Topology((Cable("h1", "h2", link),)),
    ],
)
@pytest.mark.parametrize("link", [None, 0, 1, {"rate_mbps": 10}, star(2, LINK)])
def test_what_is_no_link_is_refused_by_every_builder(build, link):
    build(LINK)
    with pytest.raises(NetreproError, match=r"link = .*\n.*give a Link"):
        build(link)


@pytest.mark.parametrize(
    "build",
    [
        lambda link: fat_tree(2, LINK, link),
        lambda link: from_graph(GRAPH, LINK, 1, link),
        lambda link: two_level_tree(2, 1, LINK, link),
        lambda link: Topology((Cable("h1", "h2", LINK, link),)),
    ],
)
def test_a_second_link_may_be_left_out_but_is_a_link(build):
    build(None)
    with pytest.raises(NetreproError, match="link = 0"):
        build(0)


queues = st.one_of(
    st.builds(DropTail, packets=st.integers(1, 1000)),
    st.builds(DropTail, bytes=st.integers(1514, 10**6)),
    st.builds(EcnThreshold, st.integers(20, 500), st.integers(1, 20)),
    st.builds(Red, st.integers(50, 500), st.floats(1, 10), st.floats(11, 50), ecn=st.booleans()),
    st.builds(CoDel, st.integers(1, 500), st.floats(0.1, 50), ecn=st.booleans()),
    st.builds(Pie, st.integers(1, 500), st.floats(0.1, 50), ecn=st.booleans()),
    st.builds(PhantomQueue, st.integers(1, 500), st.floats(0.5, 1), st.integers(0, 9000)),
    st.builds(SharedBuffer, st.just(10**6), st.floats(0.1, 8), st.none() | st.integers(1, 60)),
    st.builds(Sfq, st.integers(1, 500), st.integers(100, 3000)),
    st.builds(DualPi2, st.integers(1, 500), st.floats(0.1, 50), coupling=st.floats(0, 4)),
    st.builds(Slotted, st.integers(1, 500), st.floats(0, 5), st.floats(5, 50), st.none() | st.integers(1, 60)),
    st.builds(Fq, st.integers(1, 500), st.integers(1, 500), ce_threshold_ms=st.none() | st.floats(0.1, 50)),
    st.builds(FqCoDel, st.integers(1, 500), st.floats(0.1, 50), ecn=st.booleans()),
    st.builds(Cake, st.integers(8192, 10**7), st.floats(1, 500), st.sampled_from(ISOLATIONS), st.booleans()),
    st.builds(Cake, shaped_mbps=st.floats(1, 100)),
)
reordering = st.floats(0, 1)
links = st.builds(
    Link, st.floats(0.1, 1e5), st.floats(0, 500), queues, st.floats(0, 0.5), st.floats(0, 5), reordering, st.just(1)
)
flows = st.builds(
    Flow,
    st.just("h1"),
    st.just("h2"),
    size_bytes=st.integers(1, 10**9),
    start_s=st.floats(0, 0.9),
    congestion_control=st.sampled_from([None, "reno", "dctcp"]),
    label=st.text(),
    replication=st.sampled_from(["", "repflow", "repsyn"]),
)
routed_flows = st.builds(Flow, st.just("h1"), st.just("h2"), st.just(1000), path=st.just(("h1", "s1", "h2")))
changes = st.builds(
    LinkChange, st.floats(0, 0.9), st.just("h1"), st.just("s1"), st.floats(1, 10), st.sampled_from([None, True, False])
)
requests = st.builds(Requests, st.just("h1"), st.just(("h2",)), st.just(100), st.integers(1, 10**6), st.integers(1, 9))
poisson = st.builds(PoissonFlows, st.just(WEB_SEARCH), st.floats(1, 100), st.integers(1, 9))
experiments = st.builds(
    Experiment,
    st.builds(star, st.integers(2, 5), links),
    st.lists(flows | routed_flows | poisson | requests, max_size=4).map(tuple),
    st.floats(1, 100),
    st.integers(0, 2**40),
    st.builds(Measure, queues=st.just((("s1", "h1"),)), windows_interval_ms=st.none() | st.floats(1, 10)),
    st.builds(Tcp, sack=st.booleans(), min_rto_ms=st.floats(0.1, 300)),
    st.builds(Routing, st.sampled_from(ROUTINGS), st.integers(1, 16), st.sampled_from(["", "s1"])),
    st.lists(changes, max_size=3).map(tuple),
    st.builds(Rcp, st.floats(0, 1), st.floats(0, 1)),
    st.sampled_from([0.0, 0.5, 1]),
)


@given(experiments)
def test_an_experiment_survives_json_and_equals_its_copy(experiment):
    copy = Experiment.from_json(experiment.to_json())
    assert copy == experiment and hash(copy) == hash(experiment) and copy.to_json() == experiment.to_json()


def test_whole_and_decimal_numbers_describe_the_same_link():
    assert hash(Link(10, 1)) == hash(Link(10.0, 1.0)) and Link(10, 1) == Link(10.0, 1.0)


def test_experiments_that_differ_in_anything_are_unequal():
    base = Experiment(star(3, LINK), (Flow("h1", "h2", 10),), 1)
    others = [
        replace(base, seed=2),
        replace(base, duration_s=2),
        replace(base, topology=star(3, Link(100, 0.2))),
        replace(base, traffic=(Flow("h1", "h2", 11),)),
        replace(base, tcp=Tcp(sack=False)),
        replace(base, routing="packet_spraying"),
        replace(base, rcp=Rcp(beta=0.5)),
        replace(base, xcp=Xcp(beta=0.5)),
        replace(base, host_delay_packets=1),
        replace(base, changes=(LinkChange(0.5, "h1", "s1", up=False),)),
        replace(base, traffic=(Flow("h1", "h2", 10, path=("h1", "s1", "h2")),)),
    ]
    assert len({base, *others}) == 1 + len(others)


def test_hosts_take_up_to_a_full_packets_time_at_the_slowest_link_or_none_at_all():
    net = dumbbell(2, Link(1000, 0.1), Link(10, 5))
    base = Experiment(net, (Flow("h1", "h3", 10),), 1)
    assert base.host_delay_ms == 0
    assert replace(base, host_delay_packets=1).host_delay_ms == pytest.approx(1514 * 8 / 10e3)
    small = Flow("h2", "h4", 10, tcp=Tcp(segment_bytes=934)), Datagrams("h1", "h3", 1, 1, packet_bytes=200)
    assert replace(base, traffic=small, host_delay_packets=0.5).host_delay_ms == pytest.approx(0.5 * 1000 * 8 / 10e3)
    with pytest.raises(NetreproError, match="host_delay_packets = -1"):
        replace(base, host_delay_packets=-1)


def test_poisson_flows_have_the_rate_the_sizes_and_the_ends_they_were_given():
    entry = PoissonFlows(WEB_SEARCH, flows_per_s=200, count=20_000, sources=("h1", "h2"), start_s=3)
    table = Experiment(star(4, LINK), (entry,), 10**4, seed=5).flow_table
    gaps = np.diff(table["start_s"])
    # Exponential gaps: mean 5 ms and coefficient of variation 1; standard errors are 0.7 % and about 1 %.
    assert gaps.mean() == pytest.approx(1 / 200, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.05)
    mean = WEB_SEARCH.in_bytes().mean
    spread = np.sqrt(WEB_SEARCH.in_bytes().second_moment - mean**2) / np.sqrt(20_000)
    assert abs(table["size_bytes"].mean() - mean) < 4 * spread
    pairs = table.value_counts(["source", "destination"])
    assert len(pairs) == 6 and set(table["source"]) == {"h1", "h2"}
    assert pairs.max() < 1.1 * 20_000 / 6 and pairs.min() > 0.9 * 20_000 / 6


def test_flows_of_one_entry_do_not_depend_on_other_entries_of_other_kinds():
    # The streams belong to the place of an entry and to a purpose.
    entry = PoissonFlows(WEB_SEARCH, 100, 50)
    alone = Experiment(star(4, LINK), (entry,), 100).flow_table
    followed = Experiment(star(4, LINK), (entry, Flow("h1", "h2", 10)), 100).flow_table
    assert followed.iloc[:50].equals(alone)
    faster = Experiment(star(4, LINK), (replace(entry, flows_per_s=200),), 100).flow_table
    assert (faster["size_bytes"] == alone["size_bytes"]).all() and (faster["source"] == alone["source"]).all()


def test_only_small_flows_are_replicated():
    entry = PoissonFlows(WEB_SEARCH, 100, 200, replication="repflow", replicate_below_bytes=50_000)
    table = Experiment(star(4, LINK), (entry, Flow("h1", "h2", duration_s=1, replication="repflow")), 100).flow_table
    assert ((table["replication"] == "repflow") == (table["size_bytes"] <= 50_000)).all()
    assert set(table["replication"]) == {"", "repflow"}


def test_the_answers_to_requests_are_a_flow_from_every_server():
    entry = Requests("h1", ("h2", "h3"), 100, 5000, 7)
    table = Experiment(star(4, LINK), (Flow("h1", "h2", 10), entry), 100).flow_table
    answers = table[table["transport"] == "requests"]
    assert answers["source"].tolist() == ["h2", "h3"] and set(answers["destination"]) == {"h1"}
    assert set(answers["size_bytes"]) == {35_000} and set(answers["entry"]) == {1}


def test_flows_stand_in_the_table_in_the_order_of_the_traffic_whatever_their_kinds():
    traffic = (
        Flow("h1", "h2", 10, label="first"),
        PoissonFlows(WEB_SEARCH, 100, 3, label="many"),
        Datagrams("h2", "h3", 5, 1, start_s=0.5, label="datagrams"),
        Requests("h1", ("h2", "h3"), 100, 5000, 7, label="answers"),
        Flow("h3", "h1", duration_s=2, label="last", congestion_control="reno", subflows=2),
    )
    table = Experiment(star(4, LINK), traffic, 100).flow_table
    assert table["flow"].tolist() == list(range(8))
    assert table["label"].tolist() == ["first", *["many"] * 3, "datagrams", *["answers"] * 2, "last"]
    assert table["entry"].tolist() == [0, 1, 1, 1, 2, 3, 3, 4]
    assert table["congestion_control"].tolist() == [*["cubic"] * 4, "", *["cubic"] * 2, "reno"]
    last = table.iloc[7]
    assert np.isnan(last["size_bytes"]) and last["duration_s"] == 2 and last["subflows"] == 2
    assert table["rate_mbps"].notna().tolist() == [False] * 4 + [True] + [False] * 3


def test_the_offered_load_of_poisson_flows_is_what_was_asked_for():
    rate = flows_per_s_at_load(WEB_SEARCH, 0.5, 1000)
    assert rate * WEB_SEARCH.in_bytes().mean * 8 / 1e6 == pytest.approx(500)
