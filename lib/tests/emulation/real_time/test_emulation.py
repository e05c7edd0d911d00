"""Networks of real kernels, without root: what is built, what runs inside, what is left behind, what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

import cloudpickle
import pytest
from emulation_traffic import emulation, needs, rootless, send, serve, transfer
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

import netrepro
from netrepro.emulation import Emulation
from netrepro.emulation.plan import has_hash_seeds, hashed_fields, make_plan
from netrepro.emulation.real_time.launcher import RT_SIGACTION
from netrepro.emulation.refusals import check_experiment
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    CoDel,
    DropTail,
    Experiment,
    Flow,
    Link,
    LinkChange,
    Topology,
    dumbbell,
    fat_tree,
    star,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes need not import the tests
LIBRARY = Path(netrepro.__file__).parents[1]
FAST = Link(100, 0)
CORES = range(17, 21)  # of the fat-tree with k = 4


pytestmark = rootless
needs_root = pytest.mark.skipif(not probe_tiers().privileged.available, reason="needs root")
both_tiers = pytest.mark.parametrize("tier", ["rootless", pytest.param("privileged", marks=needs_root)])


def queue_totals(net: Emulation, node: str) -> dict[str, dict]:
    """Interface -> what tc says of its root queue."""
    listed = json.loads(net[node].run(["tc", "-j", "-s", "qdisc"]).stdout)
    return {entry["dev"]: entry for entry in listed if entry.get("root")}


# What is built -------------------------------------------------------------------------------------


def test_every_host_of_a_dumbbell_reaches_every_other_by_name():
    with emulation(dumbbell(2, FAST, Link(10, 0))) as net:
        for destination in net.topology.hosts:
            receiver = net[destination].start(serve, 4)
            for source in net.topology.hosts:
                net[source].python(send, destination, 100)
            assert [size for size, _ in receiver.result(30)] == [100] * 4


@both_tiers
def test_programs_have_their_nodes_name_and_only_the_streams_that_they_are_given(tier):
    own = os.uname().nodename
    with Emulation(star(2, FAST), tier=tier) as net:
        for node in ("h1", "h2", "s1"):
            assert net[node].run(["uname", "-n"]).stdout == f"{node}\n"
        assert net["h1"].run(["ls", "/proc/self/fd"]).stdout.split() == ["0", "1", "2", "3"]  # 3: the folder itself
        assert os.uname().nodename == own


def test_hosts_have_their_addresses_and_links_their_rates_and_buffers():
    needs("tc")
    topology = dumbbell(1, FAST, Link(10, 0, DropTail(bytes=30_000)))
    with emulation(topology) as net:
        assert net["h2"].address == "10.0.0.2"
        (entry,) = json.loads(net["h2"].run(["ip", "-j", "address", "show", "h2-eth0"]).stdout)
        assert [each["local"] for each in entry["addr_info"]] == ["10.0.0.2"]
        queues = queue_totals(net, "s1")
        assert queues["s1-eth2"]["options"]["rate"] * 8 == 10_000_000
        bucket_and_buffer_ms = 22.592  # tc's "lat": (30 000 B - 1760 B of the bucket) at 10 Mb/s
        assert f"lat {bucket_and_buffer_ms:.1f}ms" in net["s1"].run(["tc", "qdisc", "show", "dev", "s1-eth2"]).stdout
        access = net["s1"].run(["tc", "qdisc", "show", "dev", "s1-eth1"]).stdout
        assert "limit 100p" in access


def test_routes_are_the_shortest_paths_that_networkx_finds():
    import networkx as nx

    needs("ip")
    topology = fat_tree(4, FAST)
    plan = make_plan(topology)
    with emulation(topology) as net:
        for node in ("s1", "s9", "s20"):
            listed = json.loads(net[node].run(["ip", "-j", "route"]).stdout)
            ways = {route["dst"]: route.get("nexthops", [route]) for route in listed}
            for host in topology.hosts:
                paths = nx.all_shortest_paths(topology.graph, node, host)
                wanted = {path[1] for path in paths}
                neighbours = {
                    f"{node}-eth{index - 1}": neighbour
                    for (of, neighbour), index in plan._cabling.index_towards.items()
                    if of == node
                }
                assert {neighbours[way["dev"]] for way in ways[str(plan.addresses[host])]} == wanted


def test_no_interface_has_an_index_of_the_namespace_that_makes_it():
    """Kernels before 6.15 would refuse it, wherever the interface is to be."""
    plan = make_plan(star(3, Link(10, 5)))
    makers = {index for each in plan.wires for index in (each.from_index, each.to_index)}
    assert len(makers) == 2 * 3 and not makers & set(plan._cabling.index_towards.values())


def test_a_host_with_two_cables_is_reached_over_both():
    needs("ip")
    topology = Topology((Cable("h1", "s1", FAST), Cable("h1", "s2", FAST), Cable("s1", "s3", FAST),
                         Cable("s2", "s3", FAST), Cable("h2", "s3", FAST)))  # fmt: skip
    with emulation(topology) as net:
        routes = net["s3"].run(["ip", "route", "show", net["h1"].address]).stdout
        assert routes.count("nexthop") == 2
        assert transfer(net, "h1", "h2", 100_000)[0] == 100_000
        assert transfer(net, "h2", "h1", 100_000)[0] == 100_000


@both_tiers
def test_the_machines_own_network_is_not_touched_and_inside_only_loopback_and_cables_exist(tier):
    outside = interfaces()
    assert "lo" in outside
    with Emulation(star(2, FAST), tier) as net:
        assert net["h1"].python(interfaces) == ["h1-eth0", "lo"]
        assert interfaces() == outside
    assert interfaces() == outside


def interfaces():
    import socket

    return sorted(name for _, name in socket.if_nameindex())


# Traps: each test also breaks the cure and sees the trap ----------------------------------------------


def frame_sizes(net: Emulation) -> list[int]:
    """Sizes of the frames that the switch takes in while h1 sends 2 MB."""
    with net["s1"].socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0008) as tap:  # IPv4, network byte order
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        transfer(net, "h1", "h2", 2_000_000)
        tap.setblocking(False)
        sizes = []
        with contextlib.suppress(BlockingIOError):
            while True:
                part, sender = tap.recvfrom(65536)
                if sender[2] != socket.PACKET_OUTGOING:
                    sizes.append(len(part))
    return sizes


def test_a_frame_is_one_packet_because_tcp_may_not_build_larger_ones():
    needs("ip")
    with emulation(star(2, Link(1000, 0))) as net:  # a burst of 17.6 kB lets large frames pass the shaper
        assert max(frame_sizes(net)) <= 1514
        net["h1"].run(["ip", "link", "set", "h1-eth0", "gso_max_segs", "65535"])
        assert max(frame_sizes(net)) > 1514


def cores_used(net: Emulation, flows: int) -> int:
    """Count the core switches that carry more than a stray packet while h1 sends to another pod."""
    carried = {core: int(net[f"s{core}"].python(received_packets)) for core in CORES}
    transfer(net, "h1", "h16", 20_000, flows)
    after = {core: int(net[f"s{core}"].python(received_packets)) for core in CORES}
    return sum(after[core] - carried[core] > 10 for core in CORES)


def received_packets():
    from pathlib import Path

    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split()[2]) for line in lines if not line.strip().startswith("lo"))


@pytest.mark.parametrize(
    "seeded",
    [
        pytest.param(True, marks=pytest.mark.skipif(not has_hash_seeds(), reason="needs a kernel of 6.11 or later")),
        False,
    ],
)
def test_flows_spread_over_all_equal_paths_because_each_router_hashes_anew(seeded, monkeypatch):
    monkeypatch.setattr("netrepro.emulation.plan.has_hash_seeds", lambda: seeded)
    with emulation(fat_tree(4, FAST)) as net:
        assert cores_used(net, flows=40) == 4
        for switch in net.topology.switches:
            net[switch].python(set_setting, "net/ipv4/fib_multipath_hash_policy", "1")
        assert cores_used(net, flows=40) < 4  # the same hash at edge and aggregation: half of the paths


def test_where_routers_have_no_seeds_those_nearby_hash_other_fields_and_all_hash_the_ports():
    topology = fat_tree(4, FAST)
    fields = hashed_fields(topology, seed=1)
    assert all(fields[a] != fields[b] for a, b in topology.graph.edges if {a, b} <= set(topology.switches))
    assert all(each & 0x30 == 0x30 and each & ~0x37 == 0 for each in fields.values())
    assert len({fields[switch] for switch in topology.switches}) == 8
    assert fields == hashed_fields(topology, seed=1) != hashed_fields(topology, seed=2)


def set_setting(name: str, value: str):
    from pathlib import Path

    Path("/proc/sys", name).write_text(value)


def test_both_ends_of_a_connection_use_the_congestion_control_asked_for_whatever_the_machines_default():
    with emulation(star(3, FAST), congestion_control={"h1": "reno"}) as net:
        assert transfer(net, "h1", "h2", 1000)[1:] == ("reno", "cubic")
        assert transfer(net, "h2", "h1", 1000)[1:] == ("cubic", "reno")


def test_a_buffer_drops_at_the_router_and_never_at_the_host_that_sends():
    needs("tc")
    topology = dumbbell(1, FAST, Link(10, 0, DropTail(packets=10)))
    with emulation(topology) as net:
        transfer(net, "h1", "h2", 1_000_000)
        assert queue_totals(net, "s1")["s1-eth2"]["drops"] > 0
        assert queue_totals(net, "h1")["h1-eth0"]["drops"] == 0


def test_a_bucket_holds_a_packet_or_what_a_late_timer_must_catch_up():
    needs("tc")
    for rate_mbps, burst_bytes in ((10, 1760), (1000, 17_600)):
        with emulation(star(2, Link(rate_mbps, 0))) as net:
            assert abs(queue_totals(net, "s1")["s1-eth1"]["options"]["burst"] - burst_bytes) <= 0.01 * burst_bytes


def test_iperf3_fills_the_bottleneck():
    needs("iperf3")
    with (
        emulation(dumbbell(1, FAST, Link(20, 0))) as net,
        net["h2"].popen(["iperf3", "-s", "-1", "--forceflush"]) as server,
    ):
        assert "listening" in "".join(server.stdout.readline() for _ in range(2))
        report = json.loads(net["h1"].run(["iperf3", "-c", "h2", "-t", "2", "-J"], timeout=30).stdout)
        assert report["end"]["sum_received"]["bits_per_second"] < 20e6
        assert report["end"]["sum_received"]["bytes"] > 1e6


# Programs and functions inside -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def net():
    with emulation(star(2, FAST)) as built:
        yield built


def test_a_program_runs_with_its_output_status_environment_and_folder(net, tmp_path):
    done = net["h1"].run(
        ["sh", "-c", "echo $GREETING; pwd; echo bad >&2; exit 3"],
        check=False, environment={**os.environ, "GREETING": "hello"}, folder=str(tmp_path),
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == (f"hello\n{tmp_path}\n", "bad\n", 3)
    assert net["h1"].run(["cat"], input="through").stdout == "through"
    long = "x" * 300_000
    assert net["h1"].run(["cat"], input=long).stdout == long


def test_a_program_that_fails_or_takes_too_long_is_an_error(net):
    with pytest.raises(NetreproError, match="status 3: bad"):
        net["h1"].run(["sh", "-c", "echo bad >&2; exit 3"])
    with pytest.raises(subprocess.TimeoutExpired):
        net["h1"].run(["sleep", "60"], timeout=0.1)
    with pytest.raises(NetreproError, match="no program 'iperf4'"):
        net["h1"].run(["iperf4"])
    with pytest.raises(NetreproError, match="cannot be started: ENOENT"):
        net["h1"].run(["true"], folder="/no/such/folder")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("ping -c 1 h2", r"one string, 'ping -c 1 h2'\n.*\['ping', '-c', '1', 'h2'\]"),
        ([], "without a word"),
        (["ping", "-c", 1, "h2"], "1 in a command"),
        (["echo", "a\0b"], "NUL"),
    ],
)
def test_what_is_no_command_is_refused_in_words(net, command, says):
    with pytest.raises(NetreproError, match=says):
        net["h1"].run(command)
    with pytest.raises(NetreproError, match=r"EINVAL.*\n.*environment"):
        net["h1"].run(["true"], environment={"COUNT": 1})


def test_a_program_that_takes_too_long_ends_with_what_it_started_and_leaves_its_output(net):
    script = "echo begun; echo bad >&2; sleep 601 & echo $!; wait"
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        net["h1"].run(["sh", "-c", script], timeout=0.5)
    begun, child = caught.value.output.split()
    assert (begun, caught.value.stderr) == ("begun", "bad\n")
    assert net["h1"].run(["sh", "-c", f"sleep 0.1; kill -0 {child}"], check=False).returncode == 1  # no such process


def test_output_read_until_a_time_is_up_is_not_lost(net):
    slow = net["h1"].popen(["sh", "-c", "echo first; sleep 1; echo last"])
    with pytest.raises(subprocess.TimeoutExpired):
        slow.communicate(timeout=0.3)
    assert slow.communicate()[0] == "first\nlast\n"


def test_one_thread_can_end_a_program_that_another_waits_for(net):
    guest = net["h1"].popen(["sleep", "600"])
    waiting = threading.Thread(target=guest.wait, daemon=True)
    waiting.start()
    time.sleep(0.2)
    assert guest.poll() is None
    guest.kill()
    waiting.join(10)
    assert not waiting.is_alive() and guest.returncode == -signal.SIGKILL


def test_an_unknown_signal_is_refused_and_the_network_lives_on(net):
    with net["h1"].popen(["sleep", "600"]) as guest:
        with pytest.raises(NetreproError, match="no signal 999"):
            guest.send_signal(999)
        assert guest.poll() is None
        guest.kill()


def test_programs_run_from_a_process_with_many_open_files(net):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2048), hard), hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):  # select() knows descriptors below 1024 only
            held.enter_context(Path(os.devnull).open())
        assert net["h1"].run(["echo", "many"]).stdout == "many\n"


def test_a_request_that_fails_is_told_and_ends_nothing(net):
    with pytest.raises(NetreproError, match=r"failed to send: OSError.*Bad file descriptor"):
        net.launcher.ask("send", batches=[(9999, [])])
    assert net["h1"].run(["echo", "alive"]).stdout == "alive\n"


def test_an_interrupted_request_ends_the_network_instead_of_answering_the_next():
    with emulation(star(2, FAST)) as interrupted:
        first = interrupted.launcher.first_process
        os.kill(first, signal.SIGSTOP)  # so that no answer comes
        interrupt = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            interrupted["h1"].run(["echo", "first"])
        os.kill(first, signal.SIGCONT)
        with pytest.raises(NetreproError, match="a request to it was interrupted"):
            interrupted["h1"].run(["echo", "second"])


def test_a_started_program_is_polled_signalled_and_read_like_popen(net):
    guest = net["h1"].popen(["cat"])
    assert guest.poll() is None
    guest.stdin.write("line\n")
    guest.stdin.flush()
    assert guest.stdout.readline() == "line\n"
    guest.terminate()
    assert guest.wait(5) == -signal.SIGTERM
    guest.kill()  # already gone: nothing happens
    guest.__exit__()


def test_a_program_ignores_no_signal_that_the_launcher_ignores(net):
    assert "SigIgn:\t0000000000000000" in net["h1"].run(["cat", "/proc/self/status"]).stdout


IGNORING = """
    import ctypes, signal
    from netrepro.emulation import Emulation
    from netrepro.networks import Link, star

    ignore = (ctypes.c_ulong * 4)(1)
    for number in (signal.SIGHUP, 32):  # the C library keeps 32 for itself
        assert ctypes.CDLL(None).syscall(RT_SIGACTION, number, ignore, None, 8) == 0
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    with Emulation(star(2, Link(100.0, 0.0)), tier="rootless") as net:
        print(net["h1"].run(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]).stdout)
"""


def test_a_program_ignores_and_blocks_no_signal_that_the_caller_does():
    script = textwrap.dedent(IGNORING).replace("RT_SIGACTION", str(RT_SIGACTION[os.uname().machine]))
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16]


def test_pipes_of_one_program_are_not_held_open_by_another(net):
    first = net["h1"].popen(["cat"])
    with net["h2"].popen(["sleep", "60"]) as second:
        assert first.communicate("done", timeout=5)[0] == "done"
        second.kill()


def test_a_function_returns_or_raises_as_if_it_were_here(net):
    assert net["h1"].python(lambda a, b: a + b, 1, b=2) == 3
    with pytest.raises(ZeroDivisionError) as caught:
        net["h1"].python(lambda: 1 / 0)
    assert any("in <lambda>" in note for note in caught.value.__notes__)
    with pytest.raises(NetreproError, match="status 7"):
        net["h1"].python(lambda: os._exit(7))


def test_a_socket_of_a_host_serves_this_process(net):
    with net["h1"].socket() as server, net["h2"].socket() as client:
        server.bind(("", 6000))
        server.listen()
        client.connect((net["h1"].address, 6000))
        connection, sender = server.accept()
        connection.close()
    assert sender[0] == net["h2"].address


def test_what_nsenter_is_told_opens_a_shell_inside(net):
    needs("nsenter")
    words = net["h2"].enter_command.split()
    done = subprocess.run([*words, "cat", "/proc/net/dev"], capture_output=True, text=True)
    assert "h2-eth0" in done.stdout, done.stderr


def test_a_shell_works_on_a_terminal_and_says_what_to_do_without_one(net):
    import pty

    script = textwrap.dedent("""
        from netrepro.emulation import Emulation
        from netrepro.networks import Link, star
        with Emulation(star(2, Link(10, 0)), tier="rootless") as net:
            print("status", net["h2"].shell(["sh"]))
    """)
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", script])
    shown = b""
    with contextlib.suppress(OSError):  # EIO at the end
        while select.select([terminal], [], [], 30)[0] and (part := os.read(terminal, 65536)):
            if shown == b"":  # the prompt
                os.write(terminal, b"cat /proc/net/dev; tty; exit 5\n")
            shown += part
    os.close(terminal)
    os.waitpid(process, 0)
    assert b"h2-eth0" in shown and b"/dev/pts/" in shown and b"status 5" in shown
    with pytest.raises(NetreproError, match="nsenter"):
        net["h1"].shell()


# A Jupyter kernel inside -----------------------------------------------------------------------------


def printed_by(kernel: BlockingKernelClient, code: str) -> str:
    told: list[str] = []
    kernel.execute_interactive(
        code, timeout=30, output_hook=lambda message: told.append(message["content"].get("text", ""))
    )
    return "".join(told)


@both_tiers
def test_a_jupyter_kernel_inside_a_host_sees_its_network_keeps_variables_and_is_joined_by_others(tier, monkeypatch):
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getpid()))  # as in a notebook
    with Emulation(star(2, FAST), tier) as net, net["h1"].jupyter_kernel() as kernel:
        names = "import socket; print(sorted(n for _, n in socket.if_nameindex()))"
        assert printed_by(kernel, names) == "['h1-eth0', 'lo']\n"
        kernel.execute("held = socket.gethostbyname('h2')", reply=True, timeout=30)
        time.sleep(1.5)  # ipykernel looks for its parent each second
        other = BlockingKernelClient(connection_file=kernel.connection_file)
        other.load_connection_file()
        other.start_channels()
        try:
            other.wait_for_ready(30)
            assert printed_by(other, "print(held)") == net["h2"].address + "\n"
        finally:
            other.stop_channels()


def test_a_jupyter_kernel_is_interrupted_and_ends_with_its_block_and_its_files(net):
    with net["h1"].jupyter_kernel() as kernel:
        waiting = kernel.execute("import time; print('begun'); time.sleep(600)")
        while kernel.get_iopub_msg(timeout=30)["msg_type"] != "stream":
            pass
        kernel.guest.send_signal(signal.SIGINT)
        reply = kernel._recv_reply(waiting, timeout=30)["content"]
        assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
        assert len(list(net.launcher.folder.iterdir())) == 6  # the connection file, five sockets
    assert kernel.guest.returncode == -signal.SIGKILL and list(net.launcher.folder.iterdir()) == []


def test_a_jupyter_kernel_that_cannot_start_says_why_and_leaves_nothing(net, tmp_path, monkeypatch):
    (tmp_path / "ipykernel_launcher.py").write_text("raise SystemExit('no kernel today')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(NetreproError, match="kernel on h1 ended with status 1: no kernel today"):
        net["h1"].jupyter_kernel()
    assert list(net.launcher.folder.iterdir()) == []


def test_a_jupyter_kernel_whose_sockets_have_too_long_names_is_refused(tmp_path, monkeypatch):
    (tmp_path / ("long" * 25)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 25)))
    with emulation(star(2, FAST)) as net, pytest.raises(NetreproError, match=r"name too long(.|\n)*TMPDIR"):
        net["h1"].jupyter_kernel()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


# What is left behind --------------------------------------------------------------------------------

NOTEBOOK = """
from netrepro.emulation import Emulation
from netrepro.networks import Link, star

net = Emulation(star(2, Link(10, 0)), "rootless").__enter__()  # as in a cell, with no block around it
net["h1"].popen(["sleep", "600"])
print("built")
"""
OWNER = """
import os, subprocess, sys, time
from netrepro.emulation import Emulation
from netrepro.networks import Link, star
port = ("s1", "h1")
with Emulation(star(3, Link(10, 0)), {network}) as net, net.record(queues=[port], packets=[port]):
    guest = net["h1"].popen(["sh", "-c", "setsid sleep 600 & sleep 600"])
    call = net["h2"].start(time.sleep, 600)
    {more}
    print("built", flush=True)
    sys.stdin.readline()
    {then}
"""


def marked(marker: str) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if marker.encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
    return found


def held_namespaces(by: Iterable[int] | None = None) -> set[str]:
    """Every network namespace that some process, or one of these, lives in or holds open."""
    found = set()
    for process in Path("/proc").iterdir() if by is None else [Path(f"/proc/{each}") for each in by]:
        if process.name.isdigit():
            links = [process / "ns/net"]
            with contextlib.suppress(OSError):
                links += list((process / "fd").iterdir())
            for link in links:
                with contextlib.suppress(OSError):
                    found |= {name for name in [str(link.readlink())] if name.startswith("net:")}
    return found


NETWORKS = [
    pytest.param("'rootless'", id="rootless"),
    pytest.param("'privileged'", id="privileged", marks=needs_root),
]
every_network = pytest.mark.parametrize("network", NETWORKS)


def outcome_of(end, tmp_path: Path, network: str, more: str = "", then: str = "pass") -> int:
    """Start an owner, let `end` end it; checks that nothing of it is left and returns its exit status."""
    marker = f"NETREPRO_TEST={uuid.uuid4()}"
    environment = {**os.environ, "NETREPRO_TEST": marker.partition("=")[2], "TMPDIR": str(tmp_path)}
    mounts, outside = Path("/proc/self/mounts").read_text(), held_namespaces([os.getpid()])
    script = OWNER.format(network=network, more=more, then=then)
    owner = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True,
        stdin=subprocess.PIPE, start_new_session=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert owner.stdout and owner.stdin
    assert owner.stdout.readline() == "built\n"
    ours = held_namespaces(marked(marker)) - outside  # numbers are given anew: what others hold now may be ours next
    assert len(marked(marker)) >= 6 and len(ours) >= 4  # owner, launcher twice, guests; hub, hosts
    end(owner)
    status = owner.wait(30)
    owner.stdout.close()
    owner.stdin.close()
    deadline = time.monotonic() + 30
    while (marked(marker) or held_namespaces() & ours) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(marker) == []
    assert held_namespaces() & ours == set()
    assert list(tmp_path.iterdir()) == []
    assert Path("/proc/self/mounts").read_text() == mounts
    return status


@every_network
def test_nothing_is_left_after_the_block_ends(network, tmp_path):
    assert outcome_of(lambda owner: owner.communicate("\n"), tmp_path, network) == 0


@every_network
def test_nothing_is_left_after_an_exception(network, tmp_path):
    assert outcome_of(lambda owner: owner.communicate("\n"), tmp_path, network, then="raise ValueError") == 1


@every_network
def test_nothing_is_left_after_control_c(network, tmp_path):
    assert outcome_of(lambda owner: os.killpg(owner.pid, signal.SIGINT), tmp_path, network) == -signal.SIGINT


@every_network
def test_nothing_is_left_when_the_owner_is_killed(network, tmp_path):
    assert outcome_of(lambda owner: owner.kill(), tmp_path, network) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda owner: owner.communicate("\n"), 0),
        (lambda owner: os.killpg(owner.pid, signal.SIGINT), -signal.SIGINT),
        (lambda owner: owner.kill(), -signal.SIGKILL),
    ],
    ids=["its block ends", "Control-C", "it is killed"],
)
def test_nothing_of_a_jupyter_kernel_is_left_after_its_owner(end, status):
    with tempfile.TemporaryDirectory() as folder:  # tmp_path can be too long for the names of sockets
        assert outcome_of(end, Path(folder), "'rootless'", "kernel = net['h3'].jupyter_kernel()") == status


@pytest.mark.parametrize("how", ["asked to end", "killed"])
def test_nothing_is_left_when_a_notebooks_kernel_is_restarted(how):
    outside = held_namespaces()
    manager, client = start_new_kernel(startup_timeout=120)
    try:
        told: list[str] = []
        client.execute_interactive(
            NOTEBOOK, timeout=120, output_hook=lambda message: told.append(message["content"].get("text", ""))
        )
        assert "".join(told) == "built\n"
        ours = held_namespaces() - outside
        assert len(ours) >= 4  # hub, two hosts, a switch
        manager.restart_kernel(now=how == "killed")
        client.wait_for_ready(120)
        deadline = time.monotonic() + 30
        while held_namespaces() & ours and time.monotonic() < deadline:
            time.sleep(0.05)
        assert held_namespaces() & ours == set()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("end", ["is killed", "leaves the block"])
def test_a_fork_of_the_owner_keeps_no_network_alive(end):
    """A forked worker has a copy of the connection, so that its closing alone does not tell."""
    worker = "worker = os.fork()\n    if worker == 0: time.sleep(600)\n    print(worker, flush=True)"
    marker, outside = uuid.uuid4().hex, held_namespaces([os.getpid()])
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(network="'rootless'", more=worker, then="pass")],
        env={**os.environ, "NETREPRO_TEST": marker}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert owner.stdin and owner.stdout
    worker_process = int(owner.stdout.readline())
    try:
        assert owner.stdout.readline() == "built\n"
        ours = held_namespaces(marked(marker)) - outside
        owner.kill() if end == "is killed" else owner.stdin.write("\n")
        owner.stdin.close()
        owner.wait(30)
        deadline = time.monotonic() + 20
        while held_namespaces() & ours and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ours and not held_namespaces() & ours
        os.kill(worker_process, 0)  # it is alive
    finally:
        os.kill(worker_process, signal.SIGKILL)
        owner.stdout.close()


def test_a_fork_that_leaves_the_block_does_not_end_its_parents_network():
    with emulation(star(2, FAST), cpu_limits={"h1": 0.9}) as net:
        worker = os.fork()
        if worker == 0:
            net.close()
            os._exit(0)
        os.waitpid(worker, 0)
        assert net["h1"].run(["echo", "alive"]).stdout == "alive\n"  # joins its control group


def test_a_second_control_c_while_the_network_ends_leaves_no_control_group(monkeypatch):
    with emulation(star(2, FAST), cpu_limits={"h1": 0.9}) as net:
        folder = net.limits_of("h1")["control_group"]
        waiting = subprocess.Popen.wait

        def interrupted(process, *arguments):
            monkeypatch.setattr(subprocess.Popen, "wait", waiting)
            raise KeyboardInterrupt

        monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            net.close()
    deadline = time.monotonic() + 20
    while folder and Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not folder or not Path(folder).exists()


def test_nothing_is_left_when_the_launcher_is_killed_and_the_owner_is_told(net):
    with emulation(star(2, FAST)) as doomed:
        guest = doomed["h1"].popen(["sleep", "600"])
        os.kill(doomed.launcher.first_process, signal.SIGKILL)
        assert guest.wait(30) == -signal.SIGKILL
        with pytest.raises(NetreproError, match="has ended"):
            doomed["h1"].run(["true"])
    assert net["h1"].run(["echo", "other networks live on"]).returncode == 0


def test_two_networks_live_side_by_side_with_the_same_addresses(net):
    with emulation(star(2, FAST)) as other:
        assert other["h1"].address == net["h1"].address
        assert transfer(other, "h1", "h2", 1000)[0] == transfer(net, "h1", "h2", 1000)[0] == 1000


# What is refused, and when ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "options", "says"),
    [
        (lambda: star(2, Link(40_000, 0)), {}, "40000 Mb/s"),
        (lambda: star(2, Link(10, 0, CoDel(100))), {}, "a queue of kind CoDel"),
        (lambda: star(2, FAST), {"routing": "packet_spraying"}, "not by packet_spraying"),
        (lambda: star(2, FAST), {"paths": (("h1", "h2"),)}, "no cable between h1 and h2"),
        (
            lambda: star(120, FAST),
            {"address_pool": "192.168.0.0/25", "paths": [("h1", "s1", f"h{i}") for i in range(2, 20)]},
            "121 hosts and switches and 18 paths, but 126 addresses",
        ),
        (lambda: star(2, FAST), {"cpu_limits": {"h3": 0.1}}, "no host 'h3'"),
        (lambda: star(2, FAST), {"cpu_limits": {"h1": 0.001}}, "a limit of 0.001 cores"),
        (lambda: star(200, FAST), {"address_pool": "192.168.0.0/25"}, "201 hosts and switches, but 126 addresses"),
        (lambda: star(2, FAST), {"address_pool": "10.0.0.1/8"}, "address pool '10.0.0.1/8'"),
        (lambda: star(2, FAST), {"address_pool": "127.1.0.0/16"}, "no packet to an address of 127.0.0.0/8 leaves"),
        (lambda: star(2, FAST), {"address_pool": "224.0.0.0/8"}, "no packet to an address of 224.0.0.0/3 leaves"),
        (lambda: star(2, FAST), {"congestion_control": {"h3": "reno"}}, "no host 'h3'"),
        (lambda: star(2, FAST), {"tier": "simulated"}, "does not run on the simulated tier"),
        (lambda: star(2, FAST), {"tier": "rootles"}, "did you mean 'rootless'"),
        (
            lambda: Topology((Cable("h1", "h2", FAST), Cable("h2", "h3", FAST))),
            {},
            "only through another host",
        ),
    ],
)  # fmt: skip
def test_what_kernels_cannot_honour_is_refused_before_anything_is_built(topology, options, says, monkeypatch):
    monkeypatch.setattr("netrepro.emulation.real_time.network.LauncherConnection", None)
    with pytest.raises(NetreproError, match=says):
        Emulation(topology(), **{"tier": "rootless", **options})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"routing": "packet_spraying"}, "not by packet_spraying"),
        ({"changes": (LinkChange(0.5, "h1", "s1", rate_mbps=50_000),)}, "50000 Mb/s"),
        ({"traffic": (Flow("h1", "h2", 10, subflows=2),)}, "2 subflows"),
    ],
)
def test_what_an_emulated_experiment_cannot_have_is_refused(options, says):
    with pytest.raises(NetreproError, match=says):
        check_experiment(Experiment(star(2, FAST), **{"traffic": (), "duration_s": 1, **options}))


def test_an_unknown_congestion_control_is_refused_with_what_there_is():
    with pytest.raises(NetreproError, match=r"no congestion control 'cubik' \(ENOENT.*\n.*did you mean 'cubic'"):
        emulation(star(2, FAST), congestion_control="cubik").__enter__()


def test_what_the_kernel_refuses_is_told_in_the_users_words_and_leaves_nothing(monkeypatch):
    real = make_plan(star(2, FAST)).requests["s1"][-1]
    before = held_namespaces()
    built = emulation(star(2, FAST))
    built.plan.requests["s1"].append(real)  # the same route again
    with pytest.raises(NetreproError, match="this kernel refuses a route at s1: EEXIST"):
        built.__enter__()
    assert held_namespaces() <= before


def outcome_under(*prefix: str) -> str:
    """The error of someone who builds a fat-tree with k = 4, started by `prefix`."""
    script = "from netrepro.networks import *; from netrepro.emulation import Emulation\n"
    script += "with Emulation(fat_tree(4, Link(10, 0)), tier='rootless'): pass"
    done = subprocess.run([*prefix, sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return done.stderr


def test_who_may_not_open_namespaces_is_told_what_to_do():
    said = outcome_under(sys.executable, str(Path(__file__).parents[1] / "restrained.py"), "unshare refused")
    assert "the rootless tier cannot be had" in said and "allow user namespaces" in said


@both_tiers
def test_where_mounts_are_forbidden_a_network_is_built_whose_hosts_have_addresses_only(tier):
    script = f"""
import sys
from netrepro.emulation import Emulation
from netrepro.networks import Link, star
with Emulation(star(2, Link(10, 0)), {tier!r}) as net:
    ask = "import socket; print(socket.create_server(('10.0.0.1', 0)).getsockname()[0])"
    print(net["h1"].run([sys.executable, "-c", ask]).stdout, end="")
    print(net["h1"].run(["cat", "/etc/hosts"]).stdout.count("h2"))
"""
    restrained = [sys.executable, str(Path(__file__).parents[1] / "restrained.py"), "no mount"]
    done = subprocess.run([*restrained, sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["10.0.0.1", "0"], done.stderr


def test_a_network_larger_than_the_machine_allows_is_told_and_ends():
    said = outcome_under("sh", "-c", 'ulimit -n 120; exec "$@"', "sh")
    assert "37 namespaces are needed, and this machine gives 20: " in said and "ulimit -n" in said


def test_names_are_checked(net):
    with pytest.raises(NetreproError, match="did you mean 'h1'"):
        net["h11"]
    with pytest.raises(NetreproError, match="is built already"):
        net.__enter__()
    with pytest.raises(NetreproError, match="is not built"):
        emulation(star(2, FAST))["h1"].run(["true"])


# Other users -------------------------------------------------------------------------------------


def test_root_builds_a_network_without_a_user_namespace():
    if not probe_tiers().privileged.available:
        pytest.skip("needs root")
    with Emulation(dumbbell(1, FAST, Link(10, 0)), tier="privileged") as net:
        owner = Path(f"/proc/{net.launcher.first_process}/ns/user").readlink()
        assert owner == Path("/proc/self/ns/user").readlink()
        assert transfer(net, "h1", "h2", 100_000)[0] == 100_000


def test_an_ordinary_user_builds_a_network_and_moves_bytes_through_it(tmp_path):
    packages = str(Path(pytest.__file__).parents[1])
    script = f"""
import site, sys
site.addsitedir({packages!r})
sys.path.insert(0, {str(LIBRARY)!r})
import os, time
from netrepro.emulation import Emulation
from netrepro.networks import Link, dumbbell
{textwrap.dedent(__import__("inspect").getsource(serve))}
{textwrap.dedent(__import__("inspect").getsource(send))}
with Emulation(dumbbell(1, Link(100, 0), Link(10, 0))) as net:
    receiver = net["h2"].start(serve)
    net["h1"].python(send, net["h2"].address, 100_000)
    print(os.getuid(), net.tier, receiver.result(30)[0][0])
"""
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        with contextlib.suppress(PermissionError, FileNotFoundError):
            done = subprocess.run(
                [python, "-c", script], capture_output=True, text=True, cwd="/", timeout=60,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": packages}, **nobody,
            )  # fmt: skip
            assert done.stdout.split() == [str(nobody.get("user", os.getuid())), "rootless", "100000"], done.stderr
            return
    pytest.skip("needs an interpreter that an ordinary user can start")
