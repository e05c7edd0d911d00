"""A network does the same on every kernel: one script for all of them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from virtual_kernel import needs_virtual

from netrepro.dummynet import headers_of_capture
from netrepro.emulation import Emulation, ping_all
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.networks import Link, dumbbell, star

TIERS = [
    pytest.param("virtual", marks=needs_virtual),
    pytest.param(
        "rootless", marks=pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
    ),
]
DOWN_S = 0.2
PINGS = """
import socket, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(40):
    out.sendto(bytes(1000), ("{address}", 9))
    time.sleep(.005)
"""


@pytest.fixture(scope="module", params=TIERS)
def net(request):
    with Emulation(dumbbell(1, Link(100.0, 0.0), Link(10.0, 0.0)), request.param) as built:
        yield built


def send_datagrams(net) -> None:
    net["h1"].run([sys.executable, "-c", PINGS.format(address=net["h2"].address)])


def test_a_program_runs_to_its_end(net, tmp_path):
    done = net["h1"].run(
        ["sh", "-c", "cat; echo $GREETING; pwd; echo bad >&2; exit 3"],
        input="read\n", check=False, environment={"GREETING": "hello"}, folder=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, f"read\nhello\n{tmp_path}\n", "bad\n")
    with pytest.raises(NetreproError, match="status 3: bad"):
        net["h1"].run(["sh", "-c", "echo bad >&2; exit 3"])
    with pytest.raises(NetreproError, match="in one string"):
        net["h1"].run("ping -c 1 h2")


def test_a_program_that_takes_too_long_ends_with_what_it_has_started_and_leaves_its_output(net):
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        net["h1"].run(["sh", "-c", "sleep 600 & echo $!; wait"], timeout=1.0)
    child = caught.value.output.strip()
    assert net["h1"].run(["sh", "-c", f"sleep .1; kill -0 {child}"], check=False).returncode != 0


def test_a_program_is_started_looked_at_and_ended(net):
    with net["h1"].popen(["sleep", "600"]) as program:
        assert program.poll() is None and program.poll_for(0.1) is None
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.1)
        with pytest.raises(NetreproError, match="no signal 999"):
            program.send_signal(999)
        program.send_signal(signal.SIGTERM)
        assert program.wait(10.0) == -signal.SIGTERM == program.returncode
    program = net["h2"].popen(["cat"], input="through")
    assert program.communicate(timeout=10.0) == ("through", "")


def test_a_function_returns_raises_and_takes_too_long(net):
    def halve(number: int) -> float:
        return 1 / number

    assert net["h1"].python(halve, 2) == 0.5
    call = net["h1"].start(halve, 0)
    with pytest.raises(ZeroDivisionError):
        call.result(60.0)
    assert call.done()

    def sleep() -> None:
        import time

        time.sleep(600.0)

    call = net["h1"].start(sleep)
    with pytest.raises(subprocess.TimeoutExpired):
        call.result(1.0)
    call.stop()
    assert call.done()


def test_every_host_reaches_every_other(net):
    found = ping_all(net, count=1)
    assert (found.answered == 1).all() and (found.round_trip_ms > 0).all()


def test_ports_are_recorded(net, tmp_path):
    port = ("s1", "s2")
    send_datagrams(net)  # so that addresses are known
    with net.record(packets=[port], interval_ms=5.0, captures=tmp_path) as seen:
        send_datagrams(net)
    packets, queues, links = seen.packets(), seen.queues(), seen.links()
    assert list(packets) == ["source", "destination", "time_s", "size_bytes"]
    sent = packets[packets.size_bytes == 1042]  # with the headers of UDP, IP and Ethernet
    assert len(sent) == 40 and packets.time_s.between(0, queues.time_s.max() + 0.1).all()
    assert len(headers_of_capture(tmp_path / "s1-s2.pcap")) == len(packets)
    assert list(queues) == ["source", "destination", "time_s", "queue_packets", "queue_bytes"]
    total = links.set_index(["source", "destination"]).loc[port]
    assert total.sent_packets == len(packets) and total.sent_bytes == packets.size_bytes.sum()
    assert 0 < seen.throughput(50.0).throughput_mbps.max() < 10.5


def test_what_cannot_be_recorded_is_refused_before_it_starts(net, tmp_path):
    with pytest.raises(NetreproError, match="no folder"):
        net.record(packets=[("s1", "s2")], captures=tmp_path / "nowhere")
    with pytest.raises(NetreproError, match="h9"):
        net.record(queues=[("s1", "h9")])
    with pytest.raises(NetreproError, match="interval"):
        net.record(queues=[("s1", "s2")], interval_ms=0)
    seen = net.record(queues=[("s1", "s2")])
    with pytest.raises(NetreproError, match="not ended"):
        seen.queues()


def test_a_link_goes_down_comes_back_and_gets_another_rate(net):
    def lost() -> int:
        return int((ping_all(net, count=1, timeout_s=DOWN_S).answered == 0).sum())

    net.change_link("s1", "s2", up=False)
    assert lost() == 2
    net.change_link("s1", "s2", up=True)
    assert lost() == 0
    net.change_link("s1", "s2", rate_mbps=0.4)
    with net.record(packets=[("s1", "s2")]) as seen:
        send_datagrams(net)
        net.sleep(1.0)
    net.change_link("s1", "s2", rate_mbps=10.0)
    sent = seen.packets()
    assert len(sent) >= 40 and sent.time_s.iloc[-1] - sent.time_s.iloc[0] > 35 * 1042 * 8 / 0.4e6
    with pytest.raises(NetreproError, match="h9"):
        net.change_link("s1", "h9", up=False)


def test_time_passes_while_the_network_sleeps(net):
    before = net.now_s
    net.sleep(0.2)
    assert net.now_s - before >= 0.2


def test_a_jupyter_kernel_runs_cells_inside(net):
    with net["h1"].jupyter_kernel() as kernel:
        reply = kernel.execute_interactive("import socket", user_expressions={"six": "2 * 3"}, output_hook=id)
        assert reply["content"]["user_expressions"]["six"]["data"]["text/plain"] == "6"


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_another_tiers_is_refused_before_anything_is_built(tier):
    wrong = {"virtual": {"cpu_limits": {"h1": 0.5}}, "rootless": {"memory_mb": 512}}[tier]
    with pytest.raises(NetreproError, match=f"{next(iter(wrong))} on tier '{tier}'"):
        Emulation(star(2, Link(10.0, 0.0)), tier, **wrong)


@pytest.mark.parametrize("tier", TIERS[:1])
def test_virtual_time_says_that_it_has_no_socket_and_no_shell_outside(tier):
    with Emulation(star(2, Link(10.0, 1.0)), tier) as net:
        with pytest.raises(NetreproError, match=r"socket.*\n.*python\(\)"):
            net["h1"].socket()
        with pytest.raises(NetreproError, match=r"shell.*\n.*jupyter_kernel"):
            net["h1"].shell()
