"""One experiment on the tier that a notebook names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from netrepro.emulation import Emulation, check_backend, emulate
from netrepro.emulation.machine import watch_machine
from netrepro.emulation.tiers import REAL_TIME_TIERS, TIERS, probe_tiers, resolve_tier
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.networks.experiment import Experiment, Measurements, Port
from netrepro.networks.side_by_side import apart, side_by_side
from netrepro.papers._runs import Progress, Value, in_parallel
from netrepro.simulation import simulate


def in_real_time(tier: str) -> bool:
    """Whether runs on this tier take as long as they say, and share the machine's clock with everything else."""
    return tier in REAL_TIME_TIERS


def run_experiment(
    experiment: Experiment,
    tier: str = "simulated",
    progress: Callable[[float], None] | None = None,
    *,
    prepare: Callable[[Emulation], None] | None = None,
    clock_skew_ppm: float = 100.0,
    backend: str = "kernel",
    until_complete: bool = False,
    attempts: int = 1,
    paced: Iterable[Port] = (),
) -> Measurements:
    """What the tier measures in the experiment: `simulate` or `emulate`, both told the share that has passed.

    tier : "simulated", "virtual", "rootless", "privileged", or "auto" for the best that this machine allows. prepare,
    backend, until_complete, paced : of the emulated tiers, as emulate takes them; the simulator takes none.
    attempts : on real kernels, where other work may come between: until a run is trusted, so many runs at most. What it
    measured has no say in that.
    clock_skew_ppm : of virtual time; real clocks have their own.

    Raises NetreproError for a tier or backend that is none, for a tier that cannot be had, and for what it cannot
    honour.
    """
    check_backend(backend)
    # Only "auto" and real kernels have to ask what this machine allows.
    chosen = tier if tier == "simulated" else resolve_tier(tier, TIERS, probe_tiers())[0]
    if chosen == "simulated":
        return simulate(experiment, progress, clock_skew_ppm=clock_skew_ppm)
    if chosen == "virtual":
        return emulate_virtually(experiment, progress, until_complete=until_complete, clock_skew_ppm=clock_skew_ppm)
    for _ in range(attempts):
        found = emulate(
            experiment, chosen, progress, prepare, backend=backend, until_complete=until_complete, paced=paced
        )
        if found.trusted:
            break
    return found


# What a fabric on two processors hands over in time: within 0.3 ms, 99 % of packets.
MOST_FABRIC_MBPS = 400.0


def at_once(most: int, mbps: float) -> int:
    """How many networks that carry `mbps` a fabric bears together, at most `most`."""
    return max(1, min(most, int(MOST_FABRIC_MBPS // mbps)))


def run_together(
    experiments: Sequence[Experiment],
    tier: str = "simulated",
    *,
    backend: str = "kernel",
    attempts: int = 1,
    until_complete: bool = False,
) -> list[Measurements]:
    """What the tier measures in each of the experiments; where that takes real time, they share it as parts of one
    fabric's network (see side_by_side, which also says what it refuses). Else one after the other."""
    how: dict[str, Any] = {"backend": backend, "attempts": attempts, "until_complete": until_complete}
    if not in_real_time(tier) or backend != "fabric" or len(experiments) == 1:
        return [run_experiment(each, tier, **how) for each in experiments]
    return apart(run_experiment(side_by_side(experiments), tier, **how), experiments)


def idle_checks(tier: str, **label: Any) -> list[pd.DataFrame]:
    """Whether others use the machine now, which would slow hosts without any port's showing it: what watch_machine
    sees, with the columns of `label`; in virtual time, nothing."""
    return [watch_machine().assign(**label)] if in_real_time(tier) else []


def run_all(
    function: Callable[..., Value],
    work: Sequence[tuple],
    tier: str,
    progress: Progress = iter,
    *,
    n_jobs: int = -1,
    **label: Any,
) -> tuple[list[Value], list[pd.DataFrame]]:
    """What `function` says of each of `work` (its arguments), in their order, and `idle_checks` from before and after.

    As `in_parallel`; on real kernels, which run in real time, one after the other.
    """
    before = idle_checks(tier, **label)
    found = in_parallel(function, work, 1 if in_real_time(tier) else n_jobs, progress)
    return found, [*before, *idle_checks(tier, **label)]


def run_in_groups(
    describe: Callable[..., Experiment],
    read: Callable[[Measurements], Value],
    work: Sequence[tuple],
    tier: str,
    progress: Progress = iter,
    *,
    backend: str,
    together: int,
    attempts: int = 1,
    **label: Any,
) -> tuple[list[Value], list[pd.DataFrame]]:
    """What `read` says of the experiment that `describe` makes of each of `work` (its arguments), in their order, and
    `idle_checks` from before and after.

    together : so many run together on real kernels; in virtual time each is one of run_all's.
    """
    size = together if in_real_time(tier) and backend == "fabric" else 1
    groups = [tuple(work[place : place + size]) for place in range(0, len(work), size)]

    def run_group(*group: tuple) -> list[Value]:
        experiments = [describe(*each) for each in group]
        return [read(found) for found in run_together(experiments, tier, backend=backend, attempts=attempts)]

    found, idle = run_all(run_group, groups, tier, progress, **label)
    return [value for group in found for value in group], idle


def run_by_tier(
    function: Callable[..., Value],
    work: Callable[[str], Sequence[tuple]],
    tier: str,
    progress: Progress = iter,
    *,
    n_jobs: int = -1,
    **label: Any,
) -> dict[str, tuple[list[Value], list[pd.DataFrame]]]:
    """In the simulator and, where `tier` is real kernels, there too: `run_all` of that tier, by tier.

    work : a tier -> what is done on it; `function` takes the tier before it.
    """
    wanted = [(where, *each) for where in dict.fromkeys(("simulated", tier)) for each in work(where)]
    values, idle = run_all(function, wanted, tier, progress, n_jobs=n_jobs, **label)
    found: dict[str, tuple[list[Value], list[pd.DataFrame]]] = {}
    for (where, *_), value in zip(wanted, values, strict=True):
        found.setdefault(where, ([], idle if where == tier else []))[0].append(value)
    return found
