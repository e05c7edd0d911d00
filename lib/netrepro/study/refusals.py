"""Refuses declarations of a Study that could only fail once it is measured.

Nothing here makes a number: the hash of a paper's code leaves calls of these functions out (`netrepro.workbench.code`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from netrepro.errors import NetreproError


def refuse_misfit(study: Any, swept_fields: Callable[[Any], list[str]]) -> None:
    """Raise NetreproError for a `read` that nothing calls, and for evidence whose `how` does not fit its readings and
    cases.

    study : a Study. swept_fields : a function that lists the fields of a case which take several values.
    """
    if study.read is not None and (study.measure_one is not None or study.measure_all is not None):
        raise NetreproError(
            f"{study.slug}: read is never called, as the study measures by a function of its own",
            "give read with experiment alone, or call it in that function",
        )
    for claim, given in [*study.claims.items(), *study.on_kernels.items()]:
        for evidence in given if isinstance(given, Sequence) else (given,):
            for each, name in ((evidence, claim), (evidence.broken, f"{claim} (control)")):
                if each is not None:
                    has_grid = any(swept_fields(study.cases[case]) for case in each.case_names)
                    _refuse_how(each, has_grid, f"{study.slug}: the evidence of claim {name!r}")


def refuse_no_baseline(baseline: Any) -> None:
    """Raise NetreproError for a ratio to 0."""
    if baseline == 0:
        raise NetreproError(
            "a ratio whose second case reads 0", "read what cannot be 0 there, or compare by a difference: how=..."
        )


def _refuse_how(evidence: Any, has_grid: bool, what: str) -> None:
    """Raise NetreproError, named `what`, where `how` is missing or takes another number of arguments."""
    cases, readings = len(evidence.case_names), evidence.reading
    if evidence.how is None:
        if evidence.pooled:
            raise NetreproError(
                f"{what}: pooled without how", "how gets the readings of all repetitions: see jackknife"
            )
        if cases > 1:
            remedy = "say how they become one value: how=ratio, how=least_first(...)"
            raise NetreproError(f"{what}: {cases} cases without how", remedy)
        if isinstance(readings, tuple) and not (has_grid or evidence.counted):
            remedy = "say how they become one value: how=curve((50, 95)), or how=lambda values: values.min()"
            words = f"{len(readings)} readings ({', '.join(readings)}) without how"
            raise NetreproError(f"{what}: {words}", remedy)
        return
    try:
        signature = inspect.signature(evidence.how)
    except ValueError:  # a function that does not tell its arguments
        return
    try:
        signature.bind(*range(cases))
    except TypeError:
        raise NetreproError(
            f"{what}: how cannot be called with {cases} argument{'s' * (cases != 1)}",
            "it gets one argument a case: a number, or a Series where there are several readings or a swept field",
        ) from None
