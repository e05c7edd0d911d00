"""How papers run what they measure: profiles, seeds of repetitions, so many runs at a time, on the tier that a notebook
names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from joblib import Parallel, delayed

from netrepro.emulation import emulate
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.tiers import REAL_TIME_TIERS, probe_tiers, resolve_tier
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.errors import NetreproError, nearest
from netrepro.networks.experiment import Experiment, Measurements
from netrepro.processes import dearest_first
from netrepro.simulation import simulate
from netrepro.tiers_and_profiles import TIERS

Progress = Callable[[Iterable], Iterable]  # wraps what is worked through, to show how far it is
Value = TypeVar("Value")


def of_profile(profile: str, values: Mapping[str, Value]) -> Value:
    """What a profile stands for. Raises NetreproError, with the nearest name, for another than those of `values`."""
    if profile not in values:
        raise NetreproError(f"no profile {profile!r}", nearest(profile, values))
    return values[profile]


def seed_of(seed: int, repetition: int) -> int:
    """The seed of one repetition's experiment."""
    return int(np.random.SeedSequence([seed, repetition]).generate_state(1)[0])


def in_parallel(
    function: Callable[..., Value],
    work: Sequence[tuple],
    n_jobs: int = -1,
    progress: Progress = iter,
    cost: Callable[..., float] | None = None,
) -> list[Value]:
    """What `function` says of each of `work` (its arguments), in their order, so many at a time; -1: one a processor.

    What costs most starts first. Threads suffice: the simulator lets others run.
    """
    order = dearest_first(work, cost)
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", pre_dispatch="n_jobs")
    found = parallel(delayed(function)(*each) for each in progress([work[place] for place in order]))
    return [each for _, each in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]


def in_real_time(tier: str) -> bool:
    """Whether runs on this tier take as long as they say, and share the machine's clock with everything else."""
    return tier in REAL_TIME_TIERS


def run_experiment(
    experiment: Experiment,
    tier: str = "simulated",
    progress: Callable[[float], None] | None = None,
    *,
    prepare: Callable[[RealTimeNetwork], None] | None = None,
    clock_skew_ppm: float = 100.0,
    until_complete: bool = False,
) -> Measurements:
    """What the tier measures in the experiment: `simulate` or `emulate`, both told the share that has passed.

    tier : "simulated", "virtual", "rootless", "privileged", or "auto" for the best that this machine allows. prepare,
    until_complete : of the emulated tiers, as emulate takes them; the simulator takes none.
    clock_skew_ppm : of virtual time; real clocks have their own.

    Raises NetreproError for a tier that is none or cannot be had, and for what it cannot honour.
    """
    # Only "auto" and real kernels have to ask what this machine allows.
    chosen = tier if tier == "simulated" else resolve_tier(tier, TIERS, probe_tiers())[0]
    if chosen == "simulated":
        return simulate(experiment, progress, clock_skew_ppm=clock_skew_ppm)
    if chosen == "virtual":
        return emulate_virtually(experiment, progress, until_complete=until_complete, clock_skew_ppm=clock_skew_ppm)
    return emulate(experiment, chosen, progress, prepare, until_complete=until_complete)


def run_all(
    function: Callable[..., Value],
    work: Sequence[tuple],
    tier: str,
    progress: Progress = iter,
    *,
    n_jobs: int = -1,
) -> list[Value]:
    """As `in_parallel`; in real time, one after the other."""
    return in_parallel(function, work, 1 if in_real_time(tier) else n_jobs, progress)


def run_by_tier(
    function: Callable[..., Value],
    work: Callable[[str], Sequence[tuple]],
    tier: str,
    progress: Progress = iter,
    *,
    n_jobs: int = -1,
) -> dict[str, list[Value]]:
    """In the simulator and, where `tier` is real kernels, there too: `run_all` of that tier, by tier.

    work : a tier -> what is done on it; `function` takes the tier before it.
    """
    wanted = [(where, *each) for where in dict.fromkeys(("simulated", tier)) for each in work(where)]
    found: dict[str, list[Value]] = {}
    for (where, *_), value in zip(wanted, run_all(function, wanted, tier, progress, n_jobs=n_jobs), strict=True):
        found.setdefault(where, []).append(value)
    return found
