"""Unmodified programs that poll, spin or share a processor get on in virtual time; what that costs, and the clock."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime

import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation, Program, run_programs
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.queues import DropTail
from netrepro.networks.topology import Topology, dumbbell, star

pytestmark = needs_virtual


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if not shutil.which(name)]
    return pytest.mark.skipif(bool(missing), reason=f"needs {' and '.join(missing)}")


needs_iperf3 = needs("iperf3")
SMALL = star(2, Link(10.0, 5.0))
SMALLEST_NS = 1000  # what lib/kernel/README.md declares


def network(delay_ms: float) -> Topology:
    return dumbbell(2, access=Link(100.0, delay_ms / 10), bottleneck=Link(10.0, delay_ms, DropTail(packets=50)))


def measured(delay_ms: float, *options: str, seconds: int = 2) -> str:
    """Run iperf3 from h1 to h3; return the client's output, in JSON."""
    programs = [
        Program("h3", ["iperf3", "-s", "-1"]),
        Program("h1", ["iperf3", "-c", "10.0.0.3", "-t", str(seconds), "--json", *options], start_s=0.1),
    ]
    server, client = run_programs(network(delay_ms), programs, seconds + 3.0)
    assert (server.returncode, client.returncode) == (0, 0), client.output
    return client.output


@needs_iperf3
@pytest.mark.parametrize("delay_ms", [0.0, 0.01, 1.0, 10.0])
def test_iperf3_measures_the_rate_of_the_bottleneck_at_every_delay(delay_ms):
    ends = json.loads(measured(delay_ms))["end"]
    # 1448 of 1538 bytes are data; the delay and the slow start leave a little less.
    assert 9.0e6 < ends["sum_received"]["bits_per_second"] < 1448 / 1514 * 10e6


@needs_iperf3
@pytest.mark.parametrize("options", [["-R"], ["-P", "4"], ["-P", "4", "-R"]])
def test_iperf3_measures_the_other_direction_and_several_connections(options):
    ends = json.loads(measured(10.0, *options, seconds=4))["end"]
    assert 8.5e6 < ends["sum_received"]["bits_per_second"] < 1448 / 1514 * 10e6


@needs_iperf3
def test_iperf3_sends_datagrams_at_the_rate_that_is_asked_for():
    ends = json.loads(measured(10.0, "-u", "-b", "5M"))["end"]["sum"]
    assert ends["bits_per_second"] == pytest.approx(5e6, rel=0.02) and ends["lost_packets"] == 0


@needs_iperf3
def test_the_same_seed_gives_a_program_that_polls_the_same_output():
    assert measured(1.0, seconds=1) == measured(1.0, seconds=1)


@pytest.mark.parametrize(("cost_ns", "each_ns"), [(None, SMALLEST_NS), (250, 250), (0, 1)])
def test_a_read_of_the_clock_takes_what_is_declared(cost_ns, each_ns):
    def read_the_clock(times: int) -> int:
        begun = time.monotonic_ns()
        for _ in range(times):
            time.monotonic_ns()
        return time.monotonic_ns() - begun

    with Emulation(SMALL, "virtual", syscall_cost_ns=cost_ns) as net:
        took_ns = net["h1"].python(read_the_clock, 1000)
    assert took_ns == pytest.approx(1001 * each_ns, rel=0.01)


def test_a_call_that_waits_takes_as_long_as_it_waits_and_no_longer():
    def wait() -> int:
        begun = time.monotonic_ns()
        time.sleep(0.005)
        return time.monotonic_ns() - begun

    with Emulation(SMALL, "virtual", syscall_cost_ns=100_000) as net:
        took_ns = net["h1"].python(wait)
    assert 5_100_000 <= took_ns < 5_200_000  # the sleep, and the second read of the clock


def test_the_callers_own_calls_take_no_time():
    with Emulation(SMALL, "virtual") as net:
        begun = net.now_s
        asked = [net.now_s for _ in range(100)]
    assert asked[-1] - begun < 1e-6


@pytest.mark.parametrize("cost_ns", [-1, 1.5, True, 10**12])
def test_a_cost_that_is_none_is_refused(cost_ns):
    with pytest.raises(NetreproError, match="syscall_cost_ns"):
        Emulation(SMALL, "virtual", syscall_cost_ns=cost_ns)


def test_a_cost_belongs_to_virtual_time():
    with pytest.raises(NetreproError, match="syscall_cost_ns"):
        Emulation(SMALL, "rootless", syscall_cost_ns=1000)


def test_a_pool_of_processes_computes():
    def compute() -> list[int]:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map(abs, [-3, 4, -5])

    with Emulation(SMALL, "virtual") as net:
        assert net["h1"].python(compute) == [3, 4, 5]


def test_a_busy_wait_for_the_clock_ends():
    def spin() -> float:
        begun = time.monotonic()
        while time.monotonic() < begun + 0.002:
            pass
        return time.monotonic() - begun

    with Emulation(SMALL, "virtual") as net:
        assert net["h1"].python(spin) == pytest.approx(0.002, abs=1e-5)


def test_a_thread_that_yields_lets_other_threads_and_other_hosts_run():
    def spin() -> list[str]:
        told: list[str] = []
        threading.Thread(target=lambda: (time.sleep(0.003), told.append("set"))).start()
        while not told:
            os.sched_yield()
        return told

    with Emulation(SMALL, "virtual") as net:
        yielding = [sys.executable, "-c", "import os\nwhile True: os.sched_yield()"]
        spinner = net["h2"].popen(yielding)
        assert net["h1"].python(spin) == ["set"]
        assert net["h1"].run(["sleep", "0.01"]).returncode == 0
        spinner.kill()


# Two threads: one sleeps inside of the lock, so that the other one spins. Then a process spins on a word in memory
# that another one shares with it.
SPIN_LOCK = r"""
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_spinlock_t lock;
static int counted;
static void *hold(void *nothing) {
    for (int turn = 0; turn < 3; turn++) {
        pthread_spin_lock(&lock);
        usleep(1000);
        counted++;
        pthread_spin_unlock(&lock);
        usleep(1000);
    }
    return nothing;
}
int main(void) {
    pthread_t threads[2];
    volatile int *flag = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_spin_init(&lock, 0);
    for (int i = 0; i < 2; i++) pthread_create(threads + i, 0, hold, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (!fork()) {
        usleep(5000);
        *flag = 7;
        _exit(0);
    }
    while (!*flag) ;
    printf("%d %d\n", counted, *flag);
    wait(0);
    return 0;
}
"""


@needs("gcc")
def test_a_spin_lock_and_a_word_in_shared_memory_are_waited_for():
    with Emulation(SMALL, "virtual", spin_after_s=0.1, patience_s=60.0) as net:
        (net.folder / "spin.c").write_text(SPIN_LOCK)
        compiled = subprocess.run(["gcc", "-O1", "-pthread", "-o", net.folder / "spin", net.folder / "spin.c"])
        assert compiled.returncode == 0
        outputs = [net["h1"].run([str(net.folder / "spin")], timeout=30).stdout for _ in range(2)]
        assert net.spins > 0
    assert outputs == ["6 7\n", "6 7\n"]


def test_a_thread_that_waits_for_another_ones_flag_lets_time_pass():
    def wait() -> tuple[list[str], float]:
        told: list[str] = []
        threading.Thread(target=lambda: (time.sleep(0.003), told.append("set"))).start()
        begun = time.monotonic()
        while not told:
            pass
        return told, time.monotonic() - begun

    with Emulation(SMALL, "virtual", spin_after_s=0.1) as net:
        told, took_s = net["h1"].python(wait)
        spins = net.spins
    assert told == ["set"] and spins > 0
    assert 0.003 <= took_s <= 0.003 + 0.001 * spins


def test_a_program_that_spins_for_ever_keeps_nobody_else_waiting():
    with Emulation(SMALL, "virtual", spin_after_s=0.1) as net:
        spinner = net["h2"].popen([sys.executable, "-c", "while True: pass"])
        assert net["h1"].run(["sh", "-c", "sleep .01; echo on"]).stdout == "on\n"
        assert net["h1"].run(["ping", "-c", "1", net["h2"].address]).returncode == 0
        assert spinner.poll() is None
        spinner.kill()
        assert spinner.wait() == -signal.SIGKILL


def test_a_run_counts_the_ticks_of_programs_that_spin():
    spins = "import time; time.sleep(0.01)\nwhile True: pass"
    programs = [Program("h1", [sys.executable, "-c", spins]), Program("h2", ["sleep", "0.1"])]
    spinner, other = run_programs(SMALL, programs, 0.2, spin_after_s=0.1)
    assert spinner.returncode == -signal.SIGTERM and other.returncode == 0
    assert spinner.spins == other.spins > 100  # of 1 ms, nearly all of the 0.2 s and the second in which programs end


def test_who_computes_for_a_short_time_takes_none_and_is_not_counted():
    def compute() -> float:
        begun = time.monotonic()
        sum(number * number for number in range(3_000_000))
        return time.monotonic() - begun

    with Emulation(SMALL, "virtual") as net:
        assert net["h1"].python(compute) < 1e-4
        assert net.spins == 0


def test_at_no_cost_of_calls_nobody_is_watched():
    with (
        Emulation(SMALL, "virtual", syscall_cost_ns=0, spin_after_s=0.1, patience_s=2.0) as net,
        pytest.raises(NetreproError, match="not advanced"),
    ):
        net["h1"].run([sys.executable, "-c", "while True: pass"])


@pytest.mark.parametrize("seconds", [0, -1.0, True, "5", float("nan")])
def test_a_time_after_which_a_program_spins_is_positive(seconds):
    with pytest.raises(NetreproError, match="spin_after_s = "):
        Emulation(SMALL, "virtual", spin_after_s=seconds)


@needs("redis-server", "redis-cli")
def test_redis_answers():
    with Emulation(SMALL, "virtual") as net:
        server = net["h2"].popen([shutil.which("redis-server"), "--protected-mode", "no", "--save", ""])
        net.sleep(0.5)
        ask = [shutil.which("redis-cli"), "-h", net["h2"].address]
        assert net["h1"].run([*ask, "set", "name", "value"]).stdout.strip() == "OK"
        assert net["h1"].run([*ask, "get", "name"]).stdout.strip() == "value"
        server.kill()


@needs("nginx", "ab")
def test_nginx_serves_what_ab_asks_for():
    settings = (
        "daemon off; pid nginx.pid; error_log stderr; events {} http { access_log off; %s server { listen 80; } }"
    )
    folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    with Emulation(SMALL, "virtual") as net:
        (net.folder / "index.html").write_text("hello\n")
        paths = "".join(f"{name}_temp_path {name};" for name in folders) + f"root {net.folder};"
        (net.folder / "nginx.conf").write_text("user root; " + settings % paths)
        nginx = [shutil.which("nginx"), "-p", str(net.folder), "-c", str(net.folder / "nginx.conf")]
        server = net["h2"].popen(nginx)
        net.sleep(0.5)
        asked = net["h1"].run([shutil.which("ab"), "-n", "50", "-c", "5", f"http://{net['h2'].address}/index.html"])
        server.send_signal(15)
        net.sleep(0.5)
    assert "Complete requests:      50\n" in asked.stdout and "Failed requests:        0\n" in asked.stdout


def test_the_clock_begins_in_2020_and_files_have_its_time():
    script = """
date -u +%F; echo a > a; ln a b; stat -c '%y %z' a; sleep 2; mkdir d; touch a; stat -c '%y %z' a d .
stat -c %y given; echo b >> given; stat -c %y given
"""
    outputs = []
    for _ in range(2):
        with Emulation(SMALL, "virtual") as net:
            (net.folder / "given").write_text("by the caller, at the machine's time")
            outputs.append(net["h1"].run(["sh", "-c", script]).stdout)
    lines = outputs[0].split("\n")
    assert lines[0] == "2020-01-01" and all(line.startswith("2020-01-01") for line in lines[:-1])
    assert lines[2] > lines[1]  # two seconds later
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("starts_at", "first"),
    [
        ("1970-01-01", "1970-01-01T00:00"),
        (datetime(1999, 12, 31, 23, 59), "1999-12-31T23:59"),
        ("2026-11-29T08:30:00+01:00", "2026-11-29T07:30"),
        ("2199-12-31T12:00:00.5Z", "2199-12-31T12:00"),
    ],
)
def test_the_clock_may_begin_at_another_date(starts_at, first):
    with Emulation(SMALL, "virtual", starts_at=starts_at) as net:
        script = "date -u +%FT%R; touch a; date -u -r a +%FT%R; [ $(($(date +%s) - $(stat -c %Y a))) = 0 ]"
        assert net["h1"].run(["sh", "-c", script]).stdout == f"{first}\n{first}\n"
        assert 0 < net.monotonic_s < 60


@pytest.mark.parametrize(
    "wrong", ["tomorrow", "2020-13-01", "", 5, "1969-12-31T23:59:59Z", "1970-01-01T00:30:00+01:00", "2200-01-01"]
)
def test_a_date_that_is_none_is_refused_at_once(wrong):
    with pytest.raises(NetreproError, match=r"starts_at = .*\n.*ISO 8601.* from 1970 to 2199"):
        Emulation(SMALL, "virtual", starts_at=wrong)


def test_a_clock_in_real_time_starts_nowhere_else():
    with pytest.raises(NetreproError, match="starts_at on tier 'rootless'"):
        Emulation(SMALL, "rootless", starts_at="2020-01-01")


def test_make_makes_what_is_old_once_and_again_after_a_change():
    with Emulation(SMALL, "virtual") as net:
        (net.folder / "Makefile").write_text("made: given\n\tcp given made\n")
        (net.folder / "given").write_text("one\n")
        first, second = (net["h1"].run(["make"]) for _ in range(2))
        net.sleep(1.0)
        (net.folder / "given").write_text("two\n")
        third, fourth = (net["h1"].run(["make"]) for _ in range(2))
        said = [each.stdout.strip() for each in (first, second, third, fourth)]
        assert (net.folder / "made").read_text() == "two\n"
        assert not any("skew" in each.stderr for each in (first, second, third, fourth))
    assert said == ["cp given made", "make: 'made' is up to date.", "cp given made", "make: 'made' is up to date."]
