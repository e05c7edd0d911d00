"""Refuses declarations of a Study that could only fail once it is measured.

Nothing here makes a number: the hash of a paper's code leaves calls of these functions out (`netrepro.workbench.code`).
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from netrepro.errors import NetreproError

if TYPE_CHECKING:
    from netrepro.study.declaration import Study
    from netrepro.study.evidence import Evidence


def refuse_misfit(study: Study) -> None:
    """Raise NetreproError for a `read` that nothing calls, and for evidence whose `how` does not fit its readings and
    cases."""
    if study.read is not None and (study.measure_one is not None or study.measure_all is not None):
        raise NetreproError(
            f"{study.slug}: read is never called, as the study measures by a function of its own",
            "give read with experiment alone, or call it in that function",
        )
    for claim, evidence in _all_evidence(study):
        if why := _misfit(study, evidence):
            raise NetreproError(f"{study.slug}: the evidence of claim {claim!r}: {why[0]}", why[1])


def refuse_no_baseline(baseline: Any) -> None:
    """Raise NetreproError for a ratio to 0."""
    if baseline == 0:
        raise NetreproError(
            "a ratio whose second case reads 0", "read what cannot be 0 there, or compare by a difference: how=..."
        )


def _all_evidence(study: Study) -> list[tuple[str, Evidence]]:
    from netrepro.study.declaration import several

    given = [*study.claims.items(), *study.on_kernels.items()]
    own = [(claim, each) for claim, some in given for each in several(some)]
    return own + [(f"{claim} (control)", each.broken) for claim, each in own if each.broken is not None]


def _misfit(study: Study, evidence: Evidence) -> tuple[str, str] | None:
    """Say what does not fit and what to do; None where all does."""
    from netrepro.study.declaration import swept_fields

    cases, readings = len(evidence.case_names), evidence.reading
    if evidence.how is None:
        has_grid = any(swept_fields(study.cases[case]) for case in evidence.case_names)
        if evidence.pooled:
            return "pooled without how", "how gets the readings of all repetitions: see jackknife"
        if cases > 1:
            return f"{cases} cases without how", "say how they become one value: how=ratio, how=least_first(...)"
        if isinstance(readings, tuple) and not (has_grid or evidence.counted):
            words = f"{len(readings)} readings ({', '.join(readings)}) without how"
            return words, "say how they become one value: how=curve((50, 95)), or how=lambda values: values.min()"
        return None
    try:
        inspect.signature(evidence.how).bind(*range(cases))
    except TypeError:
        return (
            f"how cannot be called with {cases} argument{'s' * (cases != 1)}",
            "it gets one argument a case: a number, or a Series where there are several readings or a swept field",
        )
    except ValueError:  # a function without a signature
        return None
    return None
