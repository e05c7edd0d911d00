"""The table of section 3: what a paper's notebook runs in each profile on each tier, and what that costs."""

from __future__ import annotations

import math

import pandas as pd

from netrepro.claims import load_claims, published_results
from netrepro.study import Study
from netrepro.study.declaration import LEAST_REPETITIONS
from netrepro.tiers_and_profiles import PROFILES
from netrepro.workbench.catalogue.notebooks import find

THIS_RUN = "◂ this run"


def sizes_table(study: Study, profile: str = "", tier: str = "") -> pd.DataFrame:
    """Tabulate the profiles and tiers of a paper's notebook, a row each: quick before paper.

    profile, tier : those of the present run, which its row names. Columns: profile, tier, "one run" (simulated seconds,
    on real kernels seconds; "" where the experiment itself knows when to end), repetitions (at most), "processor time"
    (that of the published run; the declared budget where none was timed), memory (declared), decides (number of
    claims).
    """
    declared = find(study.slug).declaration
    published = published_results(study.slug)
    decided = [claim.decided_by.key for claim in load_claims(study.slug).claims if claim.decided_by]
    rows = []
    for one in PROFILES:
        for where in declared.tiers:
            key = f"{one}/{where}"
            scale = study.scale(one, where)
            run = published.runs.get(key) if published else None
            used_s = run.cpu_s if run else None
            asked = max(study.repetitions, LEAST_REPETITIONS) if one == "paper" else study.repetitions
            cost = _duration(used_s) if used_s else f"at most {_duration(declared.budget_on(where, one))}"
            rows.append(
                {
                    "profile": one,
                    "tier": where,
                    "one run": f"{scale.seconds:g} s" if scale.seconds else "",
                    "repetitions": max(scale.least_repetitions, scale.at_most(asked)),
                    "processor time": cost,
                    "memory": f"{declared.memory_mb[one]} MB",
                    "decides": f"{n} claim{'s' * (n > 1)}" if (n := decided.count(key)) else "",
                    "": THIS_RUN if (one, where) == (profile, tier) else "",
                }
            )
    return pd.DataFrame(rows)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{math.ceil(seconds / 60)} min"
