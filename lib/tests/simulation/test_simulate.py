"""Invariants of the simulator on any network and traffic; repetition, cancellation, errors."""

from __future__ import annotations

import _thread
import threading
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed

from netrepro import _core
from netrepro.emulation import emulate
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.errors import NetreproError
from netrepro.networks import (
    ROUTINGS,
    Cable,
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
    Red,
    Requests,
    Routing,
    Sfq,
    SharedBuffer,
    Slotted,
    Tcp,
    Topology,
    dumbbell,
    fat_tree,
    from_graph,
    leaf_spine,
    star,
)
from netrepro.networks.checks import CHECK_COLUMNS
from netrepro.networks.flow_sizes import load_flow_sizes
from netrepro.networks.tables import FLOW_COLUMNS, LINK_COLUMNS, PACKET_COLUMNS, QUEUE_COLUMNS, WINDOW_COLUMNS
from netrepro.networks.workloads import CONTROLS_OF_LINKS, RECEIVERS_ECN
from netrepro.simulation import Hosts, simulate
from netrepro.simulation.simulate import build

LINK = Link(100, 0.1, DropTail(packets=50))
PASSING_BY_FQ = 8  # packets that a queue of fq holds beside those of flows, and does not count for its limit
TABLES = ("flows", "queues", "links", "windows", "packets", "fidelity")

queues = st.one_of(
    st.builds(DropTail, packets=st.integers(1, 60)),
    st.builds(DropTail, bytes=st.integers(1514, 60_000)),
    st.builds(EcnThreshold, st.integers(10, 60), st.integers(1, 10)),
    st.builds(Red, st.integers(30, 60), st.floats(2, 5), st.floats(6, 30), ecn=st.booleans()),
    st.builds(CoDel, st.integers(1, 60), st.floats(0.1, 5), st.floats(5, 100), ecn=st.booleans()),
    st.builds(Pie, st.integers(1, 60), st.floats(0.1, 5), st.floats(0.1, 15), st.floats(0, 20), ecn=st.booleans()),
    st.builds(PhantomQueue, st.integers(1, 60), st.floats(0.5, 1), st.integers(0, 9000)),
    st.builds(SharedBuffer, st.just(60_000), st.floats(0.1, 8), st.none() | st.integers(1, 20)),
    st.builds(Sfq, st.integers(1, 60), st.integers(100, 3000), st.integers(1, 8)),
    st.builds(DualPi2, st.integers(1, 60), st.floats(0.1, 20), classic_share=st.floats(0, 1)),
    st.builds(Slotted, st.integers(1, 60), st.floats(0, 1), st.floats(1, 5), st.none() | st.integers(1, 20)),
    st.builds(Fq, st.integers(1, 60), st.integers(1, 60), ce_threshold_ms=st.none() | st.floats(0.1, 5)),
    st.builds(
        FqCoDel, st.integers(1, 60), st.floats(0.1, 5), st.floats(5, 100), st.booleans(), flows=st.integers(1, 8)
    ),
)
shares = st.sampled_from([0.0, 0.01, 0.3])
jitters = st.sampled_from([0.0, 1.0])
links = st.builds(Link, st.floats(1, 1000), st.floats(0, 20), queues, shares, jitters, shares, st.just(2.0))
routings = st.builds(Routing, st.sampled_from(ROUTINGS), st.integers(1, 4), rerouting_ms=st.sampled_from([0.0, 50.0]))
tcps = st.builds(
    Tcp,
    st.sampled_from(["reno", "cubic", "dctcp", "bbr", "bbr3", "lia", "olia", "balia", "rcp", "xcp", "prague"]),
    st.integers(1, 20),
    receive_window_bytes=st.integers(1448, 300_000),
    min_rto_ms=st.sampled_from([1.0, 200.0]),
    initial_rto_ms=st.sampled_from([10.0, 1000.0]),
    delayed_ack_ms=st.sampled_from([0.0, 1.0, 40.0]),
    sack=st.booleans(),
    ecn=st.booleans(),
    accurate_ecn=st.booleans(),
    receiver_ecn=st.sampled_from(RECEIVERS_ECN),
    pacing=st.booleans(),
)


def offloading(links):
    """The same, some with segmentation offload at the host's end."""
    return st.builds(lambda link, size: replace(link, offload_bytes=size), links, st.sampled_from([0, 65_536]))


@st.composite
def experiments(draw, links=links, routings=routings, changing=True) -> Experiment:
    nodes = draw(st.integers(2, 5))
    graph = nx.gnp_random_graph(nodes, 0.5, seed=draw(st.integers(0, 99)))
    nx.add_path(graph, range(nodes))
    for a, b in graph.edges:
        graph.edges[a, b]["link"] = draw(links)
    net = from_graph(graph, LINK, hosts_per_switch=draw(st.integers(1, 2)), host_link=draw(offloading(links)))
    ends = st.permutations(net.hosts).map(lambda hosts: hosts[:2])
    traffic: list = []
    for source, destination in draw(st.lists(ends, min_size=1, max_size=6)):
        start_s = draw(st.floats(0, 0.5))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            connections = draw(
                st.sampled_from([{}, {"replication": "repflow"}, {"replication": "repsyn"}, {"subflows": 3}])
            )
            size_bytes = draw(st.integers(1, 400_000))
            traffic.append(Flow(source, destination, size_bytes, start_s=start_s, **connections))
        elif kind == 1:
            duration_s, subflows = draw(st.floats(0.01, 2)), draw(st.integers(1, 2))
            switches = (next(iter(net.graph[end])) for end in (source, destination))
            paths = list(nx.all_simple_paths(net.fabric, *switches))
            between = draw(st.sampled_from(paths)) if paths else list(net.graph[source])
            path = draw(st.sampled_from([(), (source, *between, destination)])) if subflows == 1 else ()
            lasts = dict(duration_s=min(duration_s, 1.5 - start_s), start_s=start_s)
            traffic.append(Flow(source, destination, **lasts, subflows=subflows, path=path))
        elif kind == 2:
            sizes = draw(st.integers(1, 5000)), draw(st.integers(1, 50_000))
            barrier, think_ms = draw(st.booleans()), draw(st.sampled_from([0.0, 300.0]))
            within_ms = draw(st.sampled_from([0.0, 20.0]))
            asked = source, (destination,), *sizes, 5, barrier, think_ms, start_s
            traffic.append(Requests(*asked, answer_within_ms=within_ms))
        else:
            spacing = draw(st.sampled_from(["constant", "poisson"]))
            rate = draw(st.floats(0.5, 20))
            traffic.append(Datagrams(source, destination, rate, 0.5, spacing=spacing, start_s=start_s))
    ports = tuple(net.ports)
    measure = Measure(queues=ports, queue_interval_ms=20, windows_interval_ms=20, packets=ports)
    changes = st.builds(
        lambda at_s, port, rate, up, both: LinkChange(at_s, *port, rate, up, both),
        st.floats(0, 1.4),
        st.sampled_from(ports),
        st.floats(1, 1000),
        st.sampled_from([None, True, False]),
        st.booleans(),
    )
    found = tuple(draw(st.lists(changes, max_size=4))) if changing else ()
    seed = draw(st.integers(0, 99))
    tcp = draw(tcps)
    if any(getattr(entry, "subflows", 1) > 1 for entry in traffic) and tcp.congestion_control in CONTROLS_OF_LINKS:
        tcp = replace(tcp, congestion_control="lia")
    host_delay_packets = draw(st.sampled_from([0.0, 1.0, 30.0]))
    return Experiment(
        net, tuple(traffic), 1.5, seed, measure, tcp, draw(routings), found, host_delay_packets=host_delay_packets
    )


@given(experiments())
def test_packets_and_bytes_are_conserved_in_any_network(experiment):
    simulator = build(experiment)
    while not simulator.run(1000):
        pass
    account, links, flows = simulator.account, pd.DataFrame(simulator.links()), pd.DataFrame(simulator.flows())
    assert account["created"] == sum(account[end] for end in ("delivered", "dropped", "lost", "inside"))
    assert account["dropped"] == links["dropped_packets"].sum()
    assert account["lost"] == links["lost_packets"].sum()
    # A link sends what it was offered less what it dropped; the rest still waits or is being sent.
    held = links["offered_packets"] - links["dropped_packets"] - links["sent_packets"]
    assert (held >= 0).all() and held.sum() <= account["inside"]
    table = experiment.flow_table
    finished = flows["completion_s"].notna() & table["size_bytes"].notna()
    assert (flows["delivered_bytes"][finished] == table["size_bytes"][finished]).all()
    unfinished = flows["completion_s"].isna() & table["size_bytes"].notna()
    assert (flows["delivered_bytes"][unfinished] < table["size_bytes"][unfinished]).all()


@settings(max_examples=60)
@given(experiments())
def test_time_never_runs_backwards_and_no_link_is_faster_than_its_rate(experiment):
    measured = simulate(experiment)
    assert measured.trusted
    assert (measured.links["utilisation"] <= 1 + 1e-12).all()
    for (source, destination), packets in measured.packets.groupby(["source", "destination"]):
        link = experiment.topology.link(source, destination)
        here = [change for change in experiment.changes if (source, destination) in change.links]
        rate_mbps = max([link.rate_mbps, *(change.rate_mbps for change in here)])
        assert packets["time_s"].is_monotonic_increasing and (packets["wait_ms"] >= 0).all()
        gaps_s = np.diff(packets["time_s"])
        needed_s = packets["size_bytes"].to_numpy()[1:] * 8 / rate_mbps / 1e6
        assert (gaps_s >= needed_s * (1 - 1.1e-4) - 2e-12).all()
        limit = getattr(link.queue, "packets", None) or link.queue.bytes // 66
        if isinstance(link.queue, Fq):
            limit += PASSING_BY_FQ
        sampled = measured.queues.query("source == @source and destination == @destination")
        assert sampled["queue_packets"].max() <= limit
    if experiment.changes or experiment.routing.scheme not in ("ecmp", "packet_spraying"):
        return  # other paths may be longer in cables and shorter in time
    # No flow ends before light and three crossings of its path allow.
    graph = experiment.topology.graph
    for flow in measured.flows.query("transport == 'tcp' and completion_ms.notna() and duration_s.isna()").itertuples():
        paths = nx.all_shortest_paths(graph, flow.source, flow.destination)
        hops = [list(pairwise(path)) for path in paths]
        if experiment.flow_table["path"][flow.flow]:
            paths = [experiment.flow_table["path"][flow.flow]]
            hops = [list(pairwise(path)) for path in paths]
        if any(experiment.topology.link(*hop).jitter_ms for path in hops for hop in path):
            continue
        delay_ms = min(sum(experiment.topology.link(*hop).delay_ms for hop in path) for path in hops)
        assert flow.completion_ms > 2 * delay_ms


# Fast enough that no queue outlasts a retransmission timeout: 6 flows of 300 kB at most, 200 ms at least.
clean_links = st.builds(Link, st.floats(200, 1000), st.floats(0, 2), st.just(DropTail(packets=10_000)))

orderly = st.builds(Routing, st.sampled_from([scheme for scheme in ROUTINGS if scheme != "packet_spraying"]))


@settings(max_examples=40)
@given(experiments(links=clean_links, routings=orderly, changing=False))
def test_without_loss_nothing_is_sent_twice_so_order_is_kept(experiment):
    # Three packets out of order would look like a loss, and be answered by a retransmission.
    # Probes are off: one that a queue has overtaken would be sent in vain.
    tcp = replace(experiment.tcp, min_rto_ms=200, initial_rto_ms=1000, tail_loss_probe=False)
    experiment = replace(experiment, tcp=tcp)
    measured = simulate(experiment)
    assert measured.links["dropped_packets"].sum() == 0
    assert measured.flows["retransmitted_packets"].sum() == 0 and measured.flows["timeouts"].sum() == 0


def test_every_flow_ends_however_bad_the_network():
    bad = Link(20, 2, DropTail(packets=4), loss=0.05)
    traffic = tuple(
        Flow(f"h{i + 1}", f"h{i + 5}", 200_000, congestion_control=control)
        for i, control in enumerate(["reno", "cubic", "dctcp", "reno"])
    )
    for sack in (True, False):
        experiment = Experiment(dumbbell(4, LINK, bad), traffic, 600, tcp=Tcp(sack=sack))
        flows = simulate(experiment).flows
        assert flows["completion_ms"].notna().all() and (flows["delivered_bytes"] == 200_000).all()
        assert flows["retransmitted_packets"].min() > 0


# Repetition -------------------------------------------------------------------------------------------


def busy() -> Experiment:
    net = leaf_spine(2, 2, 4, Link(1000, 0.01, EcnThreshold(100, 20)), Link(1000, 0.01, Red(100, 10, 50, 0.1), 0.001))
    poisson = PoissonFlows(load_flow_sizes("web_search"), 500, 100)
    traffic = (poisson, Datagrams("h1", "h8", 50, 0.2, spacing="poisson"), Flow("h2", "h7", duration_s=0.3))
    return Experiment(net, traffic, 1.0, seed=3, tcp=Tcp("dctcp", min_rto_ms=10))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    ports = (("s1", "s3"), ("s3", "s2"))
    experiment = replace(busy(), measure=Measure(queues=ports, windows_interval_ms=5, packets=ports))
    first, second = simulate(experiment), simulate(experiment)
    for name in TABLES:
        assert getattr(first, name).to_csv() == getattr(second, name).to_csv()
    assert len(first.packets) > 1000 and len(first.windows) > 100
    assert simulate(replace(experiment, seed=4)).links.to_csv() != first.links.to_csv()


def test_looking_closer_changes_nothing():
    plain = simulate(busy())
    ports = tuple(busy().topology.ports)
    probed = simulate(replace(busy(), measure=Measure(ports, 0.1, 0.1, ports)))
    assert plain.flows.to_csv() == probed.flows.to_csv() and plain.links.to_csv() == probed.links.to_csv()


@pytest.mark.filterwarnings("ignore:.* lasts until:UserWarning", "ignore:.* start after the end:UserWarning")
def test_the_size_of_the_pieces_of_a_run_changes_nothing():
    results = []
    for events in (1, 977, 1 << 30):
        simulator = build(replace(busy(), duration_s=0.05))
        while not simulator.run(events):
            pass
        results.append(pd.DataFrame(simulator.links()).to_csv())
    assert results[0] == results[1] == results[2]


def test_runs_beside_each_other_give_what_each_gives_alone():
    # In threads, since the core lets go of the global lock, and in processes, to which experiments must travel.
    seeds = [replace(busy(), seed=seed) for seed in (1, 2, 3)]
    alone = [simulate(experiment).links.to_csv() for experiment in seeds]
    assert len(set(alone)) == 3
    for backend in ("threading", "loky"):
        beside = Parallel(n_jobs=2, backend=backend)(delayed(simulate)(experiment) for experiment in seeds)
        assert [measured.links.to_csv() for measured in beside] == alone


def test_every_machine_counts_the_same():
    # Fixed numbers: another machine, compiler or mathematical library must not change them. Who changes what TCP
    # does changes them too, and writes the new ones here.
    sizes = (1_000, 70_000, 1_500_000)
    flows = tuple(Flow(f"h{1 + i % 4}", f"h{5 + i % 3}", sizes[i % 3], start_s=i / 100) for i in range(60))
    measured = simulate(replace(busy(), traffic=(*busy().traffic[1:], *flows)))
    seen = (
        int(measured.flows["delivered_bytes"].sum()),
        int(measured.flows["retransmitted_packets"].sum()),
        int(measured.links["sent_packets"].sum()),
        int(measured.links["marked_packets"].sum()),
    )
    assert seen == PINNED


PINNED = (52575408, 241, 228364, 2439)


# Paths and hosts --------------------------------------------------------------------------------------


def test_flows_spread_over_all_shortest_paths_and_each_stays_on_one():
    net = fat_tree(4, Link(1000, 0.01, DropTail(packets=1000)))
    flows = tuple(Flow("h1", "h16", 14480, start_s=i / 100) for i in range(400))
    cores = [f"s{i}" for i in (17, 18, 19, 20)]
    ports = tuple((a, b) for a, b in net.ports if a in cores and b in ("s15", "s16"))
    measured = simulate(Experiment(net, flows, 10, measure=Measure(packets=ports)))
    data = measured.packets.query("size_bytes > 100")
    assert (data.groupby("flow")["source"].nunique() == 1).all()
    share = data.groupby("source")["flow"].nunique() / 400
    # Binomial: 0.25 +- 0.022.
    assert set(share.index) == set(cores) and share.between(0.25 - 0.08, 0.25 + 0.08).all()


@pytest.mark.parametrize("host_queue", [DropTail(packets=1), DropTail(packets=1000), CoDel(packets=1000)])
def test_a_senders_own_port_holds_it_back_and_drops_nothing(host_queue):
    # As TCP small queues: slow start doubles its window into a port that is the bottleneck, and waits in the socket.
    port = Link(10, 5, host_queue)
    net = Topology((Cable("h1", "s1", port, LINK), Cable("s1", "h2", Link(100, 5, DropTail(packets=1000)))))
    flows = (Flow("h1", "h2", duration_s=5), Flow("h1", "h2", duration_s=5))
    measured = simulate(Experiment(net, flows, 6, measure=Measure(queues=(("h1", "s1"),)), tcp=Tcp("reno")))
    assert measured.links["dropped_packets"].sum() == 0
    assert measured.queues["queue_packets"].max() <= 5
    goodput = measured.flows["goodput_mbps"]
    assert goodput.sum() == pytest.approx(10 * 1448 / 1514, rel=0.02)
    assert goodput.min() == pytest.approx(goodput.max(), rel=0.05)


def test_datagrams_keep_their_rate_and_overflow_their_port():
    stream = Datagrams("h1", "h2", rate_mbps=20, duration_s=2, packet_bytes=1000)
    net = Topology((Cable("h1", "h2", Link(10, 1, DropTail(packets=10))),))
    measured = simulate(Experiment(net, (stream,), 3, clock_skew_ppm=0))
    first = measured.links.iloc[0]
    assert first["sent_packets"] + first["dropped_packets"] == 5000
    assert first["sent_packets"] == pytest.approx(2500 + 10, abs=2)
    assert measured.flows["delivered_bytes"][0] == first["sent_bytes"] == 1000 * first["sent_packets"]


def test_flows_of_different_controls_report_what_they_are():
    flows = (Flow("h1", "h3", 10_000, label="mouse"), Flow("h2", "h3", 10_000, congestion_control="cubic"))
    measured = simulate(Experiment(star(3, LINK), flows, 1, tcp=Tcp("reno")))
    assert measured.flows["congestion_control"].tolist() == ["reno", "cubic"]
    assert measured.flows["label"].tolist() == ["mouse", ""]


def test_the_tables_have_the_columns_that_every_tier_promises():
    for traffic in ((), (Flow("h1", "h2", 1000),)):
        measured = simulate(Experiment(star(2, LINK), traffic, 0.1))
        for name, columns in zip(
            TABLES,
            (FLOW_COLUMNS, QUEUE_COLUMNS, LINK_COLUMNS, WINDOW_COLUMNS, PACKET_COLUMNS, CHECK_COLUMNS),
            strict=True,
        ):
            assert set(columns) <= set(getattr(measured, name).columns), name
        assert measured.tier == "simulated" and measured.trusted


# Progress, cancellation, errors -----------------------------------------------------------------------


def endless() -> Experiment:
    return Experiment(star(3, Link(10_000, 0.01)), (Flow("h1", "h3", duration_s=1e5),), 1e5)


def test_progress_rises_to_one():
    seen: list[float] = []
    simulate(Experiment(star(3, Link(1000, 0.01)), (Flow("h1", "h3", duration_s=3),), 3), seen.append)
    assert len(seen) > 3 and seen == sorted(seen) and seen[-1] == 1.0


def test_an_exception_from_progress_ends_the_run():
    calls = []

    def stop(share: float) -> None:
        calls.append(share)
        raise StopIteration

    with pytest.raises(StopIteration):
        simulate(endless(), stop)
    assert len(calls) == 1 and calls[0] < 0.01


def test_control_c_ends_a_run_that_would_take_hours_and_other_threads_go_on_meanwhile():
    # interrupt_main is called by a thread, which needs the global lock that the running simulator has let go.
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulate(endless())
    timer.join()


def test_a_clock_skew_beyond_reason_is_refused():
    for skew_ppm in (-1, 1e6):
        with pytest.raises(NetreproError, match="clock_skew_ppm"):
            replace(busy(), clock_skew_ppm=skew_ppm)


def test_the_core_refuses_what_no_description_can_say():
    with pytest.raises(ValueError, match="no congestion control"):
        zeros = dict.fromkeys(
            (
                "source",
                "start_s",
                "duration_s",
                "control",
                "replication",
                "same_path",
                "rate",
                "packet_bytes",
                "poisson",
                "tcp",
            ),
            np.zeros(1),
        )
        one = dict.fromkeys(("is_tcp", "destination", "size_bytes", "subflows"), np.ones(1))
        build(busy()).add_flows(**zeros, **one, controls=["magic"], tcps=[])
    assert isinstance(build(busy()), _core.Simulator)


@pytest.mark.parametrize("run", [simulate, Hosts, emulate, emulate_virtually])
@pytest.mark.parametrize("other", [dumbbell(1, Link(100, 1), Link(10, 1)), None, "experiment"])
def test_what_is_no_experiment_is_refused_with_how_to_make_one(run, other):
    with pytest.raises(NetreproError, match=r"in place of an experiment\n.*Experiment\(network, flows, seconds\)"):
        run(other)
