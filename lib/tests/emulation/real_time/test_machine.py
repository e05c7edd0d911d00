"""What else the machine does, guests that are held back, and the peers that build the same network."""

from __future__ import annotations

import importlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from emulation_traffic import emulation, needs, rootless

from netrepro.emulation import emulate
from netrepro.emulation.real_time import cpu_limits, machine
from netrepro.emulation.real_time.probe import NotHere
from netrepro.networks import Link, fat_tree, star
from netrepro.networks.experiment import Experiment
from netrepro.networks.workloads import Flow

sys.path.append(str(Path(__file__).parents[3]))
builds = importlib.import_module("benchmarks.builds")


def test_a_guests_command_runs_as_it_is_given_behind_the_prefix_and_no_group_is_left():
    with machine.guest_prefix(1.0) as (prefix, how):
        told = subprocess.run([*prefix, "echo", "two words", "$HOME"], capture_output=True, text=True, check=True)
        assert told.stdout == "two words $HOME\n" and how
    assert not list(Path("/sys/fs/cgroup").glob(f"**/netrepro-{machine.os.getpid()}-guests"))


def test_guests_share_a_control_group_with_a_limit_where_there_can_be_one():
    with machine.guest_prefix(0.5) as (prefix, how):
        if "nice" in how:
            return  # this machine has none, and says so
        told = subprocess.run([*prefix, "cat", "/proc/self/cgroup"], capture_output=True, text=True, check=True)
        assert f"netrepro-{machine.os.getpid()}-guests" in told.stdout


def test_without_control_groups_guests_stand_back(monkeypatch):
    def none(version: int) -> Path:
        raise NotHere("none")

    monkeypatch.setattr(cpu_limits, "control_group_parent", none)
    with machine.guest_prefix(1.0) as (prefix, how):
        told = subprocess.run([*prefix, "nice"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(min(os.nice(0) + 10, 19)) and how == "nice +10"


@rootless
def test_what_is_prepared_finds_the_network_built_and_its_traffic_not_begun():
    seen = []
    asked = Experiment(star(2, Link(100, 0)), (Flow("h1", "h2", size_bytes=10_000),), 0.3)
    found = emulate(asked, "rootless", prepare=lambda net: seen.append(net["h1"].run(["echo", net.tier]).stdout))
    assert seen == ["rootless\n"] and found.flows["delivered_bytes"].tolist() == [10_000]


@rootless
def test_the_peers_build_the_network_that_is_described():
    needs("ip")
    topology = fat_tree(2, builds.LINK)
    wanted = builds.described(topology)
    with emulation(topology) as net:
        links = net["s1"].run(["ip", "-o", "link"]).stdout
    assert links.count("@") == len(wanted["interfaces"]["s1"])
    assert builds.build_with_pyroute2(topology) > 0
    assert builds.build_with_iproute2(topology, batched=True) > 0


@pytest.mark.parametrize("absent", ["mn", "brctl"])
def test_a_peer_that_is_not_installed_is_named_and_has_no_time(monkeypatch, absent):
    monkeypatch.setattr(builds, "build_ours", lambda topology: 0.5)
    monkeypatch.setattr(builds.shutil, "which", lambda name: None if name == absent else f"/usr/bin/{name}")
    table = builds.compare_builds(2, 1, peers=(builds.MININET,)).set_index("built_by")
    assert table.loc["netrepro", "times_ours"] == 1
    assert table.loc["Mininet", "remark"] == f"Mininet needs {absent}, which is not installed"
    assert table["seconds"].isna().tolist() == [False, True]


@rootless
def test_a_peer_that_fails_says_how(monkeypatch):
    monkeypatch.setattr(builds, "_WITH_PYROUTE2", "raise OSError('no such kernel')")
    with pytest.raises(builds.NetreproError, match="no such kernel"):
        builds.build_with_pyroute2(fat_tree(2, builds.LINK))


def test_processors_are_asked_to_stay_awake_within_the_block(monkeypatch, tmp_path):
    asked = tmp_path / "cpu_dma_latency"
    asked.touch()
    monkeypatch.setattr(machine, "_LATENCY_REQUESTS", asked)
    with machine.awake_processors():
        assert asked.read_bytes() == struct.pack("=i", 0)
    monkeypatch.setattr(machine, "_LATENCY_REQUESTS", tmp_path / "none")
    with machine.awake_processors():
        pass  # where it may not ask, it does without


@pytest.mark.skipif(not os.access("/dev/cpu_dma_latency", os.R_OK | os.W_OK), reason="needs root: only it may ask")
def test_the_request_ends_with_the_block():
    def allowed_us() -> int:
        with Path("/dev/cpu_dma_latency").open("rb", buffering=0) as told:
            return struct.unpack("=i", told.read(4))[0]

    before = allowed_us()
    with machine.awake_processors():
        assert allowed_us() == 0
    assert allowed_us() == before != 0
