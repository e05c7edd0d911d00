"""Hosts that may have a part of the machine's processors only."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from emulation_traffic import emulation, rootless

from netrepro.emulation import Emulation
from netrepro.emulation.real_time import cpu_limits
from netrepro.emulation.real_time.machine import guest_prefix
from netrepro.emulation.real_time.probe import NotHere, control_group_parent, nearest_with_limits
from netrepro.networks import Link, star

pytestmark = rootless
NET = star(2, Link(10, 0))


# CPU time over time of a loop that would take all of a core, once it has begun.
LOOP = """
import time
began, used = time.monotonic(), time.process_time()
while time.monotonic() < began + 2:
    pass
print((time.process_time() - used) / (time.monotonic() - began))
"""
BUSY = [sys.executable, "-I", "-S", "-c", LOOP]


def groups() -> list[Path]:
    """The control groups of hosts that there are below our own."""
    found: list[Path] = []
    for version in (1, 2):
        try:
            found += control_group_parent(version).glob("netrepro-*-h[12]")
        except NotHere:
            continue
    return found


def kept_by_groups(net) -> None:
    if not net.how_cpu_is_limited.startswith("control groups"):
        pytest.skip("needs root, or a control group of its own")


def test_a_busy_loop_gets_the_share_of_its_host_and_no_more():
    with emulation(NET, cpu_limits={"h1": 0.1, "h2": 0.05}) as net:
        kept_by_groups(net)
        limited = float(net["h1"].run(BUSY).stdout)
        # Two loops of one host share its limit.
        pair = [net["h2"].popen(BUSY) for _ in range(2)]
        together = sum(float(each.communicate()[0]) for each in pair)
    # A quota is given every 100 ms: one more or less.
    assert 0.04 < limited < 0.15
    assert 0.02 < together < 0.1


def test_programs_of_other_hosts_are_not_held_back():
    with emulation(NET, cpu_limits={"h1": 0.05}) as net:
        kept_by_groups(net)
        inside = net["h1"].run(["cat", "/proc/self/cgroup"]).stdout
        outside = net["h2"].run(["cat", "/proc/self/cgroup"]).stdout
    assert "netrepro-" in inside and "netrepro-" not in outside


def test_without_control_groups_programs_stand_back_and_it_is_said(monkeypatch):
    def none(version: int) -> Path:
        raise NotHere("none here")

    monkeypatch.setattr(cpu_limits, "control_group_parent", none)
    with emulation(NET, cpu_limits={"h1": 0.2}) as net:
        assert net["h1"].run(["nice"]).stdout.strip() == str(min(os.nice(0) + 10, 19))
        assert net["h2"].run(["nice"]).stdout.strip() == "0"
        assert net.how_cpu_is_limited.startswith("nice +10 only") and "v2: none here" in net.how_cpu_is_limited


def test_a_program_that_stands_back_leaves_its_core_to_others(monkeypatch):
    """Also where the kernel schedules by session (autogroup), which makes nice alone worth nothing."""

    def none(version: int) -> Path:
        raise NotHere("none here")

    monkeypatch.setattr(cpu_limits, "control_group_parent", none)
    core = min(os.sched_getaffinity(0))
    on_one_core = [*BUSY[:-1], f"import os; os.sched_setaffinity(0, [{core}])\n{LOOP}"]
    with emulation(NET, cpu_limits={"h1": 0.2}) as net:
        both = [net[host].popen(on_one_core) for host in ("h1", "h2")]
        held_back, free = (float(each.communicate()[0]) for each in both)
    assert held_back < 0.4 * free  # the kernel weighs nice 10 at 110 of 1024


def killed_owner(with_launcher: bool) -> None:
    """Build a network with a limited host and a program in it, and kill who did."""
    owner = os.fork()
    if owner == 0:
        try:
            net = Emulation(NET, "rootless", cpu_limits={"h1": 0.2}).__enter__()
            net["h1"].popen(["sleep", "600"])
            if with_launcher:
                os.kill(net.launcher.process, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(owner, 0)[1]) == -signal.SIGKILL


def none_left() -> bool:
    deadline = time.monotonic() + 20
    while groups() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not groups()


def test_no_group_is_left_after_the_block_nor_after_a_killed_owner():
    with emulation(NET, cpu_limits={"h1": 0.2}) as net:
        kept_by_groups(net)
        net["h1"].popen(["sleep", "600"])
        assert len(groups()) == 1
    assert groups() == []
    killed_owner(with_launcher=False)
    assert none_left()


def test_groups_whose_launcher_was_killed_too_are_removed_by_whoever_makes_some():
    with emulation(NET, cpu_limits={"h1": 0.2}) as net:
        kept_by_groups(net)
    killed_owner(with_launcher=True)
    assert len(groups()) == 1
    deadline = time.monotonic() + 20
    while groups() and time.monotonic() < deadline:  # until the kernel has ended the program
        with guest_prefix(0.5):
            pass
    assert groups() == []


def test_a_group_that_cannot_be_removed_is_left_and_one_that_is_gone_costs_no_time(tmp_path):
    (tmp_path / "full").mkdir()
    began = time.monotonic()
    cpu_limits.remove_group(tmp_path)
    cpu_limits.remove_group(tmp_path / "gone")
    assert (tmp_path / "full").exists() and time.monotonic() - began < 0.5


def group(folder: Path, switches: str | None) -> Path:
    """Make a folder like a control group whose children have the controllers `switches`; None: it refuses any."""
    folder.mkdir()
    file = folder / "cgroup.subtree_control"
    file.symlink_to("/proc/version") if switches is None else file.write_text(switches)  # the former cannot be written
    return folder


def test_groups_are_made_in_the_nearest_one_above_whose_children_can_have_limits(tmp_path):
    """A group with processes in it cannot give its children controllers (no internal process, cgroups(7))."""
    top = group(tmp_path / "top", "cpuset cpu memory")
    slice_ = group(top / "user.slice", "memory")
    own = group(slice_ / "session.scope", None)
    assert nearest_with_limits(own, top) == top  # which has it already
    (top / "cgroup.subtree_control").write_text("memory")
    assert nearest_with_limits(own, top) == slice_
    assert (slice_ / "cgroup.subtree_control").read_text() == "+cpu"
    assert (top / "cgroup.subtree_control").read_text() == "memory"
    with pytest.raises(NotHere, match="no cgroup above"):
        nearest_with_limits(own, own)
