"""What the papers' modules have in common: profiles, seeds of repetitions, and whether runs are believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from netrepro.errors import NetreproError, nearest
from netrepro.processes import dearest_first

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


class CheckedRuns:
    """Runs that say by a table of checks, `fidelity` (check, value, bound, holds at least), whether to believe them."""

    fidelity: pd.DataFrame

    @property
    def trusted(self) -> bool:
        """Whether every check of every run holds."""
        return bool(self.fidelity["holds"].all())

    @property
    def trust(self) -> dict[str, Any]:
        """`trusted` and `why`, as a measured claim takes them."""
        if self.trusted:
            return {"trusted": True, "why": ""}
        failed = self.fidelity[~self.fidelity["holds"].astype(bool)]
        first = failed.iloc[0]
        return {
            "trusted": False,
            "why": f"{len(failed)} of {len(self.fidelity)} fidelity checks failed, see section 6: first "
            f"{first['check']}, {first['value']:.4g} (bound {first['bound']:.4g})",
        }


def all_checks(*runs: CheckedRuns) -> pd.DataFrame:
    """The checks of all of them: check, value, bound, holds, and whose."""
    return pd.concat([each.fidelity for each in runs], ignore_index=True)
