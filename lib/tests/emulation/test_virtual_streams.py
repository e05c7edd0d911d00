"""Sources and sinks of the virtual kernel's own (lib/kernel/built_in/streams.c), through which flows go."""

from __future__ import annotations

import errno
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.virtual import instance
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import star
from netrepro.networks.workloads import Datagrams, Flow, Tcp

pytestmark = needs_virtual
SMALL = star(2, Link(10.0, 5.0))
BYTES = 1_000_000
PORTS = count(5000)


# Programs of two hosts: a receiver that prints how many bytes came, when the last did and when it ended, and a sender
# that prints when it began, how many bytes went out, and the connection's error.
COMMON = """
import fcntl, select, socket, struct, sys, time
FIELDS, SEND, RECEIVE = "=iIQQqII", 0xC0287301, 0xC0287302
def order(streams, what, connection, size):
    asked = struct.pack(FIELDS, connection.fileno(), 7, size, 0, 0, 0, 0)
    return struct.unpack(FIELDS, fcntl.ioctl(streams, what, asked))
"""
RECEIVER = """
_, port, how, size = sys.argv
size = int(size)
server = socket.create_server(("0.0.0.0", int(port)))
if how == "reads late":
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
connection, _ = server.accept()
received, at_s = 0, 0.0
if how == "sinks":
    streams = open("/dev/streams", "r+b", buffering=0)
    order(streams, RECEIVE, connection, size)
    select.select([streams], [], [])
    at_ns, number, _ = struct.unpack("=qII", streams.read(16))
    assert number == 7
    ended = select.poll()
    ended.register(connection, select.POLLRDHUP)
    ended.poll()
    received, at_s = order(streams, RECEIVE, connection, size)[3], at_ns / 1e9
else:
    if how == "reads late":
        time.sleep(3.0)
    while received < (size // 2 if how == "resets" else size):
        received += len(connection.recv(1 << 20))
    at_s = time.monotonic()
    if how == "resets":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
print(received, at_s, time.monotonic())
"""
SENDER = """
_, address, port, how, size, wait_s = sys.argv
begun_s, size, done, error = time.monotonic(), int(size), int(size), 0
connection = socket.create_connection((address, int(port)))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
connection.setsockopt(socket.IPPROTO_TCP, 25, 1 << 17)  # TCP_NOTSENT_LOWAT, as flows have it
if how == "source":
    streams = open("/dev/streams", "r+b", buffering=0)
    order(streams, SEND, connection, size)
    time.sleep(float(wait_s))
    done = order(streams, SEND, connection, size)[3]
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
else:
    connection.sendall(bytes(size))
    time.sleep(float(wait_s))
print(begun_s, done, error)
"""
REFUSED = """
streams = open("/dev/streams", "r+b", buffering=0)
for each in (socket.socket(), socket.create_server(("", 0)), socket.socket(type=socket.SOCK_DGRAM), streams):
    try:
        order(streams, SEND, each, 1)
    except OSError as error:
        print(error.errno)
"""
PYTHON = [sys.executable, "-I", "-S", "-c"]


@pytest.fixture(scope="module")
def net() -> Iterator[Emulation]:
    with Emulation(SMALL, tier="virtual", seed=3, tcp=Tcp("cubic"), syscall_cost_ns=0) as made:
        yield made


@dataclass(frozen=True)
class Passed:
    """The bytes that went out and that came, how long it took until the last did and until the receiver ended, and the
    sender's error."""

    sent: int
    received: int
    took_s: float
    ended_s: float
    error: int


def passed(
    net: Emulation, receiver: str, sender: str, wait_s: float = 20.0, down_s: float = 0.0, size: int = BYTES
) -> Passed:
    """Send so many bytes; down_s : from half a second on no packet passes for so long."""
    port = str(next(PORTS))
    server = net["h2"].popen([*PYTHON, COMMON + RECEIVER, port, receiver, str(size)])
    net.sleep(0.5)
    client = net["h1"].popen([*PYTHON, COMMON + SENDER, net["h2"].address, port, sender, str(size), str(wait_s)])
    if down_s:
        net.sleep(0.5)
        net.change_link("h1", "s1", up=False)
        net.sleep(down_s)
        net.change_link("h1", "s1", up=True)
    (received, at_s, ended_s), (begun_s, sent, error) = (
        map(float, program.communicate(timeout=60.0)[0].split()) for program in (server, client)
    )
    return Passed(int(sent), int(received), at_s - begun_s, ended_s - begun_s, int(error))


def test_a_flow_takes_as_long_as_one_of_a_program_that_writes_and_reads_at_once(net):
    """Within a ten-thousandth, where calls take no time (in `net`), as they take none for ours."""
    flow = Flow("h1", "h2", size_bytes=BYTES)
    ours = emulate_virtually(Experiment(SMALL, (flow,), 20.0, 3, Measure(), Tcp("cubic")))
    of_programs = passed(net, "reads", "program")
    assert of_programs.received == BYTES
    assert float(ours.flows["completion_ms"].iloc[0]) == pytest.approx(1e3 * of_programs.took_s, rel=1e-4)


def test_a_sources_bytes_all_come_and_a_sink_says_when(net):
    found, alone = passed(net, "sinks", "source"), passed(net, "reads", "program")
    assert (found.sent, found.received, found.error) == (BYTES, BYTES, 0)
    assert found.took_s == pytest.approx(alone.took_s, rel=1e-4)


def test_a_source_waits_for_a_receiver_whose_window_is_closed(net):
    found = passed(net, "reads late", "source")
    assert (found.sent, found.received, found.error) == (BYTES, BYTES, 0)
    assert found.took_s > 3.0


def test_a_source_ends_where_the_receiver_resets_and_its_socket_says_so(net):
    found = passed(net, "resets", "source")
    assert found.error == errno.ECONNRESET and found.sent < BYTES
    assert passed(net, "sinks", "source").received == BYTES  # the kernel goes on


def test_a_sink_sees_an_end_that_was_sent_again(net):
    """The link is down while the sender closes, and for some time after that."""
    found = passed(net, "sinks", "source", wait_s=0.6, down_s=1.5, size=100_000)
    assert found.received == 100_000 and found.took_s < 0.5 and found.ended_s > 2.0


def test_only_a_connection_of_tcp_gets_a_source(net):
    found = net["h1"].run([*PYTHON, COMMON + REFUSED]).stdout.split()
    assert [int(each) for each in found] == [errno.ENOTCONN, errno.ENOTCONN, errno.EOPNOTSUPP, errno.ENOTSOCK]


def test_a_flow_that_the_end_of_the_experiment_cuts_has_what_its_last_link_carried():
    port = ("s1", "h2")
    for flow in (Flow("h1", "h2", duration_s=5.0), Flow("h1", "h2", size_bytes=10**9)):
        experiment = Experiment(SMALL, (flow,), 2.0, 3, Measure(packets=(port,)), Tcp("cubic"))
        found = emulate_virtually(experiment)
        row = found.flows.iloc[0]
        # A segment travels for 5 ms after its link has sent it, and a hole holds back what is behind it.
        came = found.packets[found.packets["time_s"] < 1.995]["size_bytes"]
        assert math.isnan(row["completion_ms"]) and row["errno"] == 0
        assert row["delivered_bytes"] == (came[came > 100] - 66).sum()


# Datagrams ------------------------------------------------------------------------------------------


@pytest.fixture
def through_sockets(monkeypatch, tmp_path) -> Callable[[Experiment], Measurements]:
    """Run an experiment in a kernel whose traffic generator knows no sources and sinks, and reads and writes itself."""
    guest = instance.GUEST.read_text()
    assert guest.count("streams=streams,") == 1
    without = Path(tmp_path, "guest.py")
    without.write_text(guest.replace("streams=streams,", "streams=-1,"))

    def run(experiment: Experiment) -> Measurements:
        with monkeypatch.context() as patched:
            patched.setattr(instance, "GUEST", without)
            return emulate_virtually(experiment)

    return run


@pytest.mark.parametrize("ipv6", [False, True])
def test_datagrams_leave_and_come_as_those_of_a_program_do(ipv6, through_sockets):
    """Two senders, of which one is Poisson's, share a link that is too narrow for both; within ten nanoseconds."""
    net = star(3, Link(10.0, 1.0, DropTail(packets=20)))
    traffic = Datagrams("h1", "h3", 6.0, 2.0), Datagrams("h2", "h3", 5.0, 1.5, 500, spacing="poisson", start_s=0.3)
    ports = ("h1", "s1"), ("h2", "s1"), ("s1", "h3")
    experiment = Experiment(net, traffic, 2.2, 3, Measure(packets=ports), ipv6=ipv6)
    ours, theirs = emulate_virtually(experiment), through_sockets(experiment)
    columns = ["source", "destination", "flow", "size_bytes"]
    assert ours.packets[columns].equals(theirs.packets[columns]) and len(ours.packets) > 3000
    assert np.abs(ours.packets["time_s"] - theirs.packets["time_s"]).max() < 10e-9
    assert ours.flows[["delivered_bytes", "errno"]].equals(theirs.flows[["delivered_bytes", "errno"]])
    assert ours.flows["goodput_mbps"].to_numpy() == pytest.approx(theirs.flows["goodput_mbps"], rel=1e-3)
    late = [found.fidelity.query("check.str.contains('lateness of starts and datagrams')") for found in (ours, theirs)]
    assert late[0]["value"].max() < 0.1 and len(late[0]) == len(late[1]) > 0


def test_datagrams_that_the_end_of_the_experiment_cuts_are_counted_as_far_as_they_came():
    flow = Datagrams("h1", "h2", 8.0, 5.0, 1000)
    found = emulate_virtually(Experiment(SMALL, (flow,), 1.0, 3, Measure(packets=(("s1", "h2"),))))
    came = found.packets["time_s"] < 0.995  # a packet travels for 5 ms after its link has sent it
    assert found.flows["delivered_bytes"][0] == pytest.approx(1000 * came.sum(), abs=1000) and came.sum() > 900


DATAGRAMS = """
import ctypes, fcntl, socket, struct, sys, time
SEND, COUNT = 0xC0207303, 0xC0207304
streams = open("/dev/streams", "r+b", buffering=0)
def send(connection, times):
    due, late = (ctypes.c_int64 * 64)(*times), (ctypes.c_int64 * 64)()
    at = ctypes.addressof(due), ctypes.addressof(late)
    asked = struct.pack("=iIQQII", connection.fileno(), 7, *at, len(times), 100)
    answer = struct.unpack("=iIQQII", fcntl.ioctl(streams, SEND, asked))
    return list(late)[: answer[4]]
def came(connection):
    asked = struct.pack("=iIqQQ", connection.fileno(), 0, 1 << 62, 0, 0)
    return struct.unpack("=iIqQQ", fcntl.ioctl(streams, COUNT, asked))[3]
source, sink, other = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(3))
try:
    send(source, [])
except OSError as error:
    print(error.errno)
for each in (source, sink):
    each.bind(("127.0.0.1", 0))
source.connect(sink.getsockname())
sink.connect(source.getsockname())
came(sink)
now = time.monotonic_ns()
send(source, [now + (i + 1) * 10**9 for i in range(4)])
time.sleep(2.5)
print(came(sink))
late = send(source, [time.monotonic_ns() + 5 * 10**8])  # in place of what is left
print(len(late), max(late) < 100)
time.sleep(2.0)
print(came(sink))
send(source, [time.monotonic_ns() + 10**9])
source.close()
time.sleep(2.0)
print(came(sink))
"""


def test_an_order_of_datagrams_takes_the_place_of_the_last_and_ends_with_its_socket(net):
    done = net["h1"].run([*PYTHON, DATAGRAMS])
    assert done.stdout.split() == [str(errno.ENOTCONN), "2", "2", "True", "3", "3"]
