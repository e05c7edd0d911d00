"""Which tiers this machine supports: a kernel in virtual time, its own kernel with or without root, simulated.

Nothing is concluded from versions or user ids: a child process (`real_time/probe.py`) tries each tier and reports why.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from netrepro.emulation.virtual.probe import try_virtual
from netrepro.errors import NetreproError
from netrepro.tiers_and_profiles import REAL_TIME_TIERS, TIERS, check_tier

VIRTUAL_TIME_TIERS = ("virtual", "simulated")  # other work on the machine does not matter
FEATURE_COLUMNS = ["feature", "works", "why", "needed_by"]
_PROBE = Path(__file__).with_name("real_time") / "probe.py"
_REMEDIES = {
    "ENOSPC": "raise the limits: sysctl user.max_user_namespaces, user.max_net_namespaces, user.max_pid_namespaces",
    "no veth pair can be added in it: ENOTSUP": "load the kernel's veth: sudo modprobe veth",
    "ENOSYS": "this kernel or sandbox has no namespaces; use another machine",
}


@dataclass(frozen=True)
class TierStatus:
    """The status of a tier on this machine: whether it can be used, and the trial or the errno that shows it."""

    available: bool
    why: str


@dataclass(frozen=True)
class TierProbe:
    """The status found for each tier."""

    privileged: TierStatus
    rootless: TierStatus
    simulated: TierStatus
    virtual: TierStatus = TierStatus(False, "not tried")

    def __getitem__(self, tier: str) -> TierStatus:
        return getattr(self, tier)

    @property
    def best(self) -> str:
        """The first available tier of privileged, rootless, simulated; never "virtual"."""
        return next(tier for tier in (*REAL_TIME_TIERS, "simulated") if self[tier].available)

    def table(self) -> pd.DataFrame:
        """Return a row for each tier, best first: tier, available, why."""
        rows = [(tier, self[tier].available, self[tier].why) for tier in TIERS]
        return pd.DataFrame(rows, columns=["tier", "available", "why"])


def _ask_probe(*arguments: str) -> object:
    """Run probe.py and return its reply. Raises NetreproError, with the last line of errors, where there is none."""
    # -P: no file beside probe.py may replace a module of the standard library.
    command = [sys.executable, "-P", str(_PROBE), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetreproError(f"the probe of this machine gave no answer: {error}") from error
    try:
        return json.loads(result.stdout)
    except ValueError:
        last = (result.stderr.strip().splitlines() or [f"exit status {result.returncode}"])[-1]
        raise NetreproError(f"the probe of this machine gave no answer: {last}") from None


@functools.cache
def probe_tiers() -> TierProbe:
    """Try each tier once per calling process, in a child process: the caller's namespaces never change."""
    simulated, virtual = TierStatus(True, "virtual time needs nothing of the machine"), TierStatus(*try_virtual())
    try:
        reply = _ask_probe("tiers")
    except NetreproError as error:
        nothing = TierStatus(False, error.problem)
        return TierProbe(nothing, nothing, simulated, virtual)
    assert isinstance(reply, dict)
    return TierProbe(TierStatus(*reply["privileged"]), TierStatus(*reply["rootless"]), simulated, virtual)


def why_no_processes() -> str:
    """Return why this machine cannot run real programs in virtual time; "" where it can."""
    virtual = probe_tiers().virtual
    return "" if virtual.available else f"no virtual kernel: {virtual.why}"


@functools.cache
def _features(tier: str) -> pd.DataFrame:
    return pd.DataFrame(_ask_probe("features", tier), columns=FEATURE_COLUMNS)


def check_feature(feature: str, tier: str, remedy: str) -> None:
    """Raise NetreproError, with the reason, where the kernel lacks a feature of kernel_features (see there)."""
    missing = missing_feature(feature, tier)
    if missing:
        raise NetreproError(f"no {feature} on the {tier} tier of this machine: {missing}", remedy)


def missing_feature(feature: str, tier: str) -> str:
    """Return why a tier lacks a feature, named as in kernel_features; "" where it has it. It is tried only once."""
    if not probe_tiers()[tier].available:
        return probe_tiers()[tier].why
    for row in _features(tier).query("feature == @feature").itertuples():
        return "" if row.works else row.why
    return "it is not tried"


def kernel_features(tier: str | None = None) -> pd.DataFrame:
    """Try the kernel features that experiments need, in a network namespace like that of `tier`.

    tier : "privileged" or "rootless"; None for the better one that the machine allows. Returns columns feature, works
    (bool), why (what was tried, or the errno), needed_by; no rows where no namespace can be opened. The trial of a
    feature may make the kernel load the feature's module; nothing else remains after the call.
    """
    probe = probe_tiers()
    tier = tier or probe.best
    check_tier(tier)
    if tier not in REAL_TIME_TIERS or not probe[tier].available:
        return pd.DataFrame(columns=FEATURE_COLUMNS)
    return pd.DataFrame(_ask_probe("features", tier), columns=FEATURE_COLUMNS)


def _remedy(tier: str, status: TierStatus) -> str:
    for name, remedy in _REMEDIES.items():
        if name in status.why:
            return remedy
    if tier == "virtual":
        return "see `netrepro kernel build`, or use tier 'simulated'"
    if tier == "privileged":
        return "run as root on a machine, not in an unprivileged container"
    return (
        "allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), "
        "kernel.unprivileged_userns_clone=1 (Debian), or the container's seccomp profile"
    )


def resolve_tier(requested: str, supported: Sequence[str], probe: TierProbe) -> tuple[str, str]:
    """Return the tier to use, and the reason.

    requested : a tier, or "auto" for the first of `supported` that the machine allows.
    supported : the tiers that the notebook can run on, the preferred one first.

    Raises NetreproError for an unknown tier, and for one that the machine or the notebook does not support.
    """
    for tier in supported:
        check_tier(tier)
    check_tier(requested, or_auto=True)
    offered = list(dict.fromkeys(supported))
    usable = [tier for tier in offered if probe[tier].available]
    if requested == "auto":
        if not usable:
            wanted = offered[-1] if offered else "none"
            why = "; ".join(f"{tier}: {probe[tier].why}" for tier in offered)
            raise NetreproError(
                f"this experiment needs a tier that this machine lacks ({why or 'it names no tier'})",
                _remedy(wanted, probe[wanted]) if offered else "name its tiers in the notebook's metadata",
            )
        missed = offered[: offered.index(usable[0])]
        reasons = [probe[usable[0]].why, *(f"not {tier}: {probe[tier].why}" for tier in missed)]
        return usable[0], "; ".join(reasons)
    if requested not in offered:
        raise NetreproError(
            f"this experiment does not run on the {requested} tier",
            f"it runs on: {', '.join(offered) or 'none'}",
        )
    if requested not in usable:
        instead = f", or choose tier {usable[0]!r}" if usable else ""
        raise NetreproError(
            f"the {requested} tier cannot be had on this machine: {probe[requested].why}",
            _remedy(requested, probe[requested]) + instead,
        )
    return requested, f"asked for; {probe[requested].why}"
