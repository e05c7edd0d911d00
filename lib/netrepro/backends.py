"""Floor 2: the one door to what runs an Experiment, by its tier's name: the simulator, or a kernel.

A backend is imported when it is asked for. So a run in the simulator loads no emulator, and none of its code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.tiers_and_profiles import TIERS

if TYPE_CHECKING:
    from netrepro.emulation.real_time.network import RealTimeNetwork

_watchers: list[Callable[[Measurements], None]] = []


@contextmanager
def watched_runs(watcher: Callable[[Measurements], None]) -> Iterator[None]:
    """Call `watcher` meanwhile with the measurements of each run of this process, when it has ended."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def run(
    experiment: Experiment,
    tier: str = "simulated",
    progress: Callable[[float], None] | None = None,
    *,
    prepare: Callable[[RealTimeNetwork], None] | None = None,
    until_complete: bool = False,
) -> Measurements:
    """Run the experiment on a tier, with `simulate`, `emulate_virtually` or `emulate`, and return its measurements.

    tier : one of TIERS, or "auto" for the best that this machine allows. progress : called with the share of time that
    has passed, 0 to 1. prepare : as in `emulate`; for real kernels alone. until_complete : as in `emulate`; the
    simulator ignores it.

    Raises NetreproError for an unknown tier, one that this machine does not allow, and an experiment that the tier
    cannot run.
    """
    measured = _run(experiment, tier, progress, prepare, until_complete)
    for watcher in _watchers:
        watcher(measured)
    return measured


def _run(
    experiment: Experiment,
    tier: str,
    progress: Callable[[float], None] | None,
    prepare: Callable[[RealTimeNetwork], None] | None,
    until_complete: bool,
) -> Measurements:
    # The simulator runs everywhere, so that nothing has to be probed.
    chosen = tier if tier == "simulated" else _allowed(tier)
    if chosen == "simulated":
        from netrepro.simulation.simulate import simulate

        return simulate(experiment, progress)
    if chosen == "virtual":
        from netrepro.emulation.virtual.experiment import emulate_virtually

        return emulate_virtually(experiment, progress, until_complete=until_complete)
    from netrepro.emulation.emulate import emulate

    return emulate(experiment, chosen, progress, prepare, until_complete=until_complete)


def why_not(experiment: Experiment, tier: str) -> str:
    """Say why a tier cannot run an experiment, and what to do; "" where it can, or where only the run itself tells."""
    if tier != "virtual":
        return ""
    from netrepro.emulation.virtual.experiment import check_virtually

    try:
        check_virtually(experiment)
    except NetreproError as refused:
        return str(refused)
    return ""


def why_absent(tier: str) -> str:
    """Say why this machine does not have a tier; "" where it has it."""
    if tier == "simulated":
        return ""
    from netrepro.emulation.tiers import probe_tiers, why_no_processes

    if tier == "virtual":
        return why_no_processes()
    probe = probe_tiers()[tier]
    return "" if probe.available else probe.why


def _allowed(tier: str) -> str:
    from netrepro.emulation.tiers import probe_tiers, resolve_tier

    return resolve_tier(tier, TIERS, probe_tiers())[0]
