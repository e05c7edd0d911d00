"""A real etcd on the loopback, whose leader is killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from optional_programs import needs_programs
from virtual_kernel import needs_virtual

from netrepro.applications.etcd.real_time import EtcdCluster
from netrepro.applications.etcd.run import etcd_without_leader_s
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.topology import star

needs_etcd = needs_programs("etcd")


@needs_etcd
def test_a_killed_leader_is_replaced_after_an_election_timeout_and_nothing_is_left_behind():
    with EtcdCluster(3, heartbeat_ms=20, election_ms=200) as cluster:
        processes, folder = list(cluster._processes.values()), cluster._folder
        times_s = [cluster.time_without_leader_s(0.01) for _ in range(2)]
        processes += cluster._processes.values()
    # A timer that was set just before the crash counts ten ticks at least, of which the first may be short.
    assert min(times_s) > 0.2 - 2 * 0.02 - 0.01
    assert max(times_s) < 10
    assert all(process.poll() is not None for process in processes)
    assert not Path(folder).exists()


@needs_etcd
def test_timeouts_that_etcd_refuses_are_refused_by_name():
    with pytest.raises(NetreproError, match="election_ms 50"):
        EtcdCluster(3, heartbeat_ms=20, election_ms=50)


@needs_etcd
@needs_virtual
def test_in_virtual_time_a_killed_leader_is_replaced_after_an_election_timeout_too():
    network = star(3, Link(1000.0, 0.1, jitter_ms=0.02))
    times_s = etcd_without_leader_s(network, 3, 1, heartbeat_ms=15, election_ms=150)
    assert len(times_s) == 3 and min(times_s) > 0.15 - 2 * 0.015 - 0.01 and max(times_s) < 2


def test_where_there_is_no_etcd_the_package_is_named(monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(NetreproError, match="etcd-server"):
        EtcdCluster()
