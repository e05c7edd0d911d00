"""Programs on the tier `virtual` are what they are on a machine, and a caller's mistake costs no other's answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import IO

import pytest
from optional_programs import needs_programs
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.virtual import instance, network
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.emulation.virtual.programs import Program, run_programs
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import star

pytestmark = needs_virtual
NET = star(2, Link(10.0, 5.0))
# Keeps virtual time, where calls cost none, from passing until something is written to a file.
SPIN = "import os, time; time.sleep(0.5)\nwhile not os.path.getsize('go'): pass\nos._exit(5)"


def virtual(hosts: int = 2, **how: object) -> Emulation:
    return Emulation(star(hosts, Link(10.0, 5.0)), tier="virtual", **how)  # type: ignore[arg-type]


def exits(status: int) -> list[str]:
    return ["sh", "-c", f"exit {status}"]


def test_after_time_stood_still_every_call_gets_its_own_answer():
    with virtual(patience_s=2.0, syscall_cost_ns=0) as net:
        (net.folder / "go").touch()
        other = net["h2"].popen(["sh", "-c", "sleep 1; exit 0"])
        spins = net["h1"].popen([sys.executable, "-c", SPIN])
        with pytest.raises(NetreproError, match="not advanced"):
            spins.wait()
        (net.folder / "go").write_text("go")
        assert other.wait() == 0 and spins.poll() == 5
        before = net.now_s
        net.sleep(10)
        assert net.now_s - before == pytest.approx(10, abs=0.01) and before == pytest.approx(1, abs=0.1)
        assert [net["h1"].run(exits(status), check=False).returncode for status in (9, 8)] == [9, 8]


def test_threads_that_share_a_network_get_each_its_own_answer():
    with virtual(8) as net, ThreadPoolExecutor(8) as threads:
        commands = {f"h{i}": ["sh", "-c", f"sleep .1; echo out{i}; exit {i}"] for i in range(1, 9)}
        asked = [threads.submit(net[host].run, command, check=False) for host, command in commands.items()]
        answers = [(each.result().returncode, each.result().stdout) for each in asked]
    assert answers == [(i, f"out{i}\n") for i in range(1, 9)]


def test_a_network_that_is_closed_ends_the_wait_of_another_thread():
    said = []

    def waits(program) -> None:
        with pytest.raises(NetreproError) as error:
            program.wait()
        said.append(error.value.problem)

    with virtual() as net:
        thread = threading.Thread(target=waits, args=[net["h1"].popen(["sleep", "inf"])])
        thread.start()
        while not net.instance._thread:
            pass
    thread.join(10)
    assert said == ["the virtual kernel has ended: it was closed"]


def test_a_forked_process_is_refused_and_ends_nothing():
    with virtual() as net:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                net["h1"].run(["true"])
            except NetreproError as error:
                status = 0 if "a fork of it" in str(error) else 2
            finally:
                net.close()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert net["h1"].run(["echo", "still here"]).stdout == "still here\n"


def test_an_order_from_within_an_order_is_refused_and_costs_no_later_answer():
    with virtual() as net:
        with (
            pytest.raises(NetreproError, match="while it carries out another one"),
            net["h1"].jupyter_kernel() as kernel,
        ):
            kernel.execute_interactive("print(1)", output_hook=lambda _: net.now_s)
        assert net["h1"].run(exits(4), check=False).returncode == 4


def test_who_writes_to_a_closed_pipe_is_ended_by_sigpipe():
    with virtual() as net:
        run = net["h1"].run
        first = run(["sh", "-c", "yes | head -1"])
        assert (first.stdout, first.stderr) == ("y\n", "")
        assert run(["bash", "-c", "while :; do echo x; done | head -1"]).stdout == "x\n"
        piped = run(["bash", "-c", "set -o pipefail; seq 100000 | head -1; echo $?"])
        assert (piped.stdout, piped.stderr) == ("1\n141\n", "")
        assert "SigIgn:\t0000000000000000" in run(["cat", "/proc/self/status"]).stdout


def test_a_program_that_prints_its_folder_says_the_same_in_every_run():
    said = []
    for _ in range(2):
        with virtual() as net:
            said.append(net["h1"].run(["sh", "-c", "pwd; echo inside > f; cat $PWD/given"], check=False).stdout)
            (net.folder / "given").write_text("by the caller\n")
            said.append(net["h1"].run(["sh", "-c", "cat $PWD/given"]).stdout)
            assert (net.folder / "f").read_text() == "inside\n"
    assert said == ["/run/folder\n", "by the caller\n"] * 2


def test_a_relative_folder_is_the_callers_and_a_missing_one_is_named(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    with virtual() as net:
        for folder, real in ((".", tmp_path), ("sub", tmp_path / "sub"), (tmp_path, tmp_path)):
            assert net["h1"].run(["pwd"], folder=folder).stdout == f"{real}\n"
        with pytest.raises(NetreproError, match=r"in the folder nowhere: No such file.*\n.*a folder that exists"):
            net["h1"].run(["pwd"], folder="nowhere")
        with pytest.raises(NetreproError, match=r"no-such-program: No such file.*\n.*install it"):
            net["h1"].run(["no-such-program"])


MANY = """
from netrepro.emulation import Emulation
from netrepro.networks import Link, star
with Emulation(star(2, Link(10.0, 5.0)), tier="virtual") as net:
    programs = [net["h1"].popen(["sleep", "1"]) for _ in range(60)]
    print({program.wait() for program in programs})
"""


@pytest.mark.parametrize(("limits", "said"), [("ulimit -Sn 100", "{0}"), ("ulimit -n 100", "ulimit -Hn")])
def test_programs_need_descriptors_and_the_soft_limit_is_raised_for_them(limits, said):
    command = ["sh", "-c", f'{limits}; exec "$0" -c "$1"', sys.executable, MANY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert said in done.stdout + done.stderr, done.stderr


def test_a_process_id_that_comes_again_is_another_program():
    with virtual() as net:
        host = net["h1"]
        host.run(["sh", "-c", "echo 330 > /proc/sys/kernel/pid_max"])
        first = host.popen(exits(2))
        net.sleep(0.1)  # it ends, and nobody has asked for its status
        for _ in range(60):
            program = host.popen(["sh", "-c", "sleep 1; echo done; exit 3"])
            assert program.poll() is None
            assert program.wait() == 3 and program.output == "done\n"
        assert first.wait() == 2


def test_endless_output_ends_with_its_program():
    with virtual(memory_mb=100) as net:
        program = net["h1"].popen(["yes"])
        assert program.wait() == -signal.SIGXFSZ
        assert sum(path.stat().st_size for path in net.folder.iterdir()) == 100 << 20
        with pytest.raises(NetreproError, match=r"status -25 \(File size limit exceeded\): y\n"):
            net["h1"].run(["yes"], timeout=1.0)
        assert net["h1"].run(["echo", "still here"]).stdout == "still here\n"


def test_hosts_have_names_and_know_each_others():
    with virtual() as net:
        assert [net[node].run(["hostname"]).stdout for node in ("h1", "h2", "s1")] == ["h1\n", "h2\n", "s1\n"]
        net["h1"].run(["hostname", "other"])
        assert net["h1"].run(["uname", "-n"]).stdout == "other\n" and net["h2"].run(["hostname"]).stdout == "h2\n"
        for name in ("h1", "h2", "s1"):
            assert net["h1"].run(["getent", "hosts", name]).stdout.split()[0] == net[name].address
        assert net["h1"].run(["getent", "hosts", "localhost"]).returncode == 0


IN_USE = """
import socket, sys
with socket.socket() as out:
    for control in sys.argv[1:]:
        out.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    out.connect(("h2", 5001))
    print(out.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(bytes(1)).decode())
"""


ACCEPTS = "import socket; server = socket.create_server(('', 5001)); held = [server.accept() for _ in range(3)]"
SYSCTL = "/proc/sys/net/ipv4/tcp_congestion_control"


@pytest.mark.parametrize("given", ["", "cubic", "dctcp", "lia", {"h1": "bbr"}])
def test_a_hosts_sysctl_tells_which_congestion_control_it_has_and_may_change_it(given):
    first = given["h1"] if isinstance(given, dict) else given or "cubic"
    with virtual(congestion_control=given) as net:
        net["h2"].popen([sys.executable, "-c", ACCEPTS])
        net.sleep(0.1)

        def in_use(*chosen: str) -> list[str]:
            read = net["h1"].run(["cat", SYSCTL]).stdout.strip()
            return [read, net["h1"].run([sys.executable, "-c", IN_USE, *chosen]).stdout.strip()]

        assert in_use() == [first, first]
        assert in_use("vegas") == [first, "vegas"]  # a socket may have its own
        for control in ("bbr", "reno"):
            net["h1"].run(["sh", "-c", f"echo {control} > {SYSCTL}"])
        assert in_use() == ["reno", "reno"]
        assert net["h2"].run(["cat", SYSCTL]).stdout.strip() == (first if given == first else "cubic")


def test_a_congestion_control_that_the_kernel_lacks_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(network, "Instance", None)
    with (
        pytest.raises(NetreproError, match=r"the virtual kernel has no quick\n.*bbr.*cubic"),
        virtual(congestion_control={"h2": "quick"}),
    ):
        pass


def test_programs_have_the_usual_limits_and_standard_links_to_their_streams():
    with virtual() as net:
        said = net["h1"].run(
            ["bash", "-c", "ulimit -Sn; ulimit -Hn; umask; cat <(echo inside) /dev/stdin"], input="given"
        )
    assert said.stdout == "1024\n524288\n0022\ninside\ngiven"


def test_a_change_after_the_run_is_refused():
    event = LinkChange(6.0, "s1", "h2", rate_mbps=5.0)
    with pytest.raises(NetreproError, match="s1 to h2 at 6 s in a run of 1 s"):
        run_programs(NET, [Program("h1", ["true"])], 1.0, events=[event])


@pytest.mark.parametrize("at_s", [-3.0, float("nan")])
def test_a_change_at_no_time_is_refused(at_s):
    with pytest.raises(NetreproError, match="at_s"):
        run_programs(NET, [Program("h1", ["true"])], 1.0, events=[LinkChange(at_s, "s1", "h2", rate_mbps=5.0)])


def test_unknown_nodes_are_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr(network, "Instance", None)
    with pytest.raises(NetreproError, match="no cable between s1 and h9"):
        run_programs(NET, [], 1.0, events=[LinkChange(0.5, "s1", "h9", up=False)])
    with pytest.raises(NetreproError, match="h9"):
        run_programs(NET, [Program("h9", ["true"], start_s=0.5)], 1.0)


def test_an_interpreter_may_lie_under_any_name(tmp_path, monkeypatch):
    folder = tmp_path / "v$x \"a\" 'b' é"
    folder.mkdir()
    (folder / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    with instance.Instance(1) as opened:
        assert opened.order("clock")["monotonic_ns"] > 0


class FullDisk(FileIO):
    def truncate(self, size: int | None = None) -> int:
        return 0


def test_a_full_disk_is_said_as_such(monkeypatch):
    """Events of a recording go to a file in TMPDIR; here that is one on which no write has room."""
    temporary, made = network.tempfile.TemporaryFile, []

    def file(**how: str) -> IO[bytes]:
        made.append(FullDisk("/dev/full", "r+") if len(made) == network.MOST_CAPTURES else temporary(**how))
        return made[-1]

    monkeypatch.setattr(network.tempfile, "TemporaryFile", file)
    monkeypatch.setattr(network.tempfile, "tempdir", "/var/tmp")
    with (
        pytest.raises(NetreproError, match=r"no space is left in /var/tmp\n.*make room"),
        VirtualNetwork(NET) as net,
        net.record(packets=[("s1", "h2")]),
    ):
        net["h1"].run(["ping", "-c", "100", "-i", "0.01", net["h2"].address])
        net.report()


@needs_programs("iptables-legacy", "ping")
def test_a_host_has_a_firewall():
    with virtual() as net:
        reaches = ["ping", "-c", "1", "-W", "1", "h2"]
        assert net["h1"].run(reaches).returncode == 0
        net["h2"].run(["iptables-legacy", "-A", "INPUT", "-p", "icmp", "-j", "DROP"])
        assert net["h1"].run(reaches, check=False).returncode == 1
