"""Limits on the CPU time that the programs of each host may use."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from netrepro.emulation.real_time.guests import LauncherConnection
from netrepro.emulation.real_time.probe import NotHere, control_group_parent, limit_processors, reason
from netrepro.errors import NetreproError
from netrepro.networks.topology import Topology

_PREFIX = "netrepro-"  # then the id of the process that removes the group, a dash, and the host
LEAST_CORES = 0.01  # the kernel's quota is 1 ms at least, of a period of 100 ms
HELD_BACK_NICE = 10


def check_cpu_limits(topology: Topology, limits: Mapping[str, float]) -> None:
    """Raise NetreproError for unknown hosts, and for limits below LEAST_CORES or above the number of CPUs."""
    for host, cores in limits.items():
        topology.check_host(host)
        if not LEAST_CORES <= cores <= (os.cpu_count() or 1):
            raise NetreproError(
                f"a limit of {cores:g} cores for {host}", f"give {LEAST_CORES:g} to {os.cpu_count()} cores"
            )


class CpuLimits:
    """A control group (v1 or v2) for each limited host; where none can be made, its programs run with nice +10.

    The network's launcher removes the groups when it ends. kept_by : the mechanism in words, "" without limits.
    """

    def __init__(self, limits: Mapping[str, float]):
        self._limits = dict(limits)
        self._folders: dict[str, Path] = {}
        self.kept_by = ""

    def open(self, launcher: LauncherConnection) -> None:
        """Make the control groups, and register them with the launcher for removal."""
        if not self._limits:
            return
        self._folders, self.kept_by = new_groups(self._limits, launcher.process)
        launcher.remove_at_end(self._folders.values())
        if not self._folders:
            self.kept_by = f"nice +{HELD_BACK_NICE} only, for control groups are not to be had ({self.kept_by})"

    def folder(self, node: str) -> str:
        """Return the control group that the node's programs join, "" for none."""
        return str(self._folders.get(node, ""))

    def nice(self, node: str) -> int:
        """Return the nice value of the node's programs."""
        return HELD_BACK_NICE if node in self._limits and node not in self._folders else 0


def new_groups(limits: Mapping[str, float], owner: int) -> tuple[dict[str, Path], str]:
    """Make a control group for each name, limited to so many cores; return (name -> folder, version in words).

    owner : id of the process that removes the groups. Groups whose owner has ended are removed first. Where this
    process may not make groups, return ({}, the reasons).
    """
    refusals = []
    for version in (1, 2):
        made: dict[str, Path] = {}
        try:
            parent = control_group_parent(version)
            remove_orphans(parent)
            for name, cores in limits.items():
                folder = parent / f"{_PREFIX}{owner}-{name}"
                folder.mkdir()
                made[name] = folder
                limit_processors(folder, version, cores)
            return made, f"control groups (v{version})"
        except (OSError, NotHere) as error:
            for folder in made.values():
                remove_group(folder)
            refusals.append(f"v{version}: {reason(error)}")
    return {}, "; ".join(refusals)


def remove_orphans(parent: Path) -> None:
    """Remove the control groups in `parent` whose owner has ended."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with suppress(OSError):
                folder.rmdir()


def remove_group(folder: Path) -> None:
    """Remove a control group; wait up to 1 s for killed processes to leave it, else leave it to remove_orphans."""
    for _ in range(100):
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno == errno.EBUSY:
                time.sleep(0.01)
                continue
        return
