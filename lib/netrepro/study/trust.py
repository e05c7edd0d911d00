"""Whether runs are to be believed: checks with their bounds, and one table of them for all papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netrepro.networks.experiment import Measurements, Port
from netrepro.networks.gaps import gap_shares

CHECK_COLUMNS = ["check", "value", "at_least", "at_most", "holds"]


@dataclass(frozen=True)
class Check:
    """Something that must hold of a run for its numbers to be believed; without a bound it is only shown."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def holds(self) -> bool:
        """True where the value is within the bounds. NaN is within none; without any bound it is True."""
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)


def check_table(checks: Iterable[Check]) -> pd.DataFrame:
    """Return a row for each check: check, value, at_least and at_most (NaN: no such bound), holds."""
    return _check_table([check_row(each) for each in checks])


def check_row(check: Check) -> tuple[Any, ...]:
    """Return a check as a row of CHECK_COLUMNS."""
    return check.name, check.value, check.at_least, check.at_most, check.holds


def with_directions(fidelity: pd.DataFrame) -> pd.DataFrame:
    """Return a tier's own checks (check, value, bound, holds) as CHECK_COLUMNS, whatever other columns there are."""
    return _check_table(rows_with_directions(fidelity))


def rows_with_directions(fidelity: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return a tier's own checks as rows of CHECK_COLUMNS.

    A bound's direction follows from the rows of a check whose value differs from the bound: where a value below the
    bound holds, or one above it fails, it is an upper bound. Where all values equal it, it bounds both sides.
    """
    rows = list(zip(*(fidelity[name].tolist() for name in ("check", "value", "bound", "holds")), strict=True))
    differing = [row for row in rows if row[1] != row[2] and not (np.isnan(row[1]) or np.isnan(row[2]))]
    decided = {check for check, *_ in differing}
    from_above = {check for check, value, bound, holds in differing if (value > bound) != bool(holds)}
    return [
        (
            check,
            value,
            np.nan if check in from_above else bound,
            bound if check in from_above or check not in decided else np.nan,
            bool(holds),
        )
        for check, value, bound, holds in rows
    ]


def _check_table(rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    numbers = dict.fromkeys(("value", "at_least", "at_most"), float)
    return pd.DataFrame(rows, columns=CHECK_COLUMNS).astype(numbers | {"holds": bool})


def gap_checks(run: Measurements, port: Port) -> list[Check]:
    """Check that full packets leave the busy `port` as far apart as its rate demands.

    99 % of the gaps must be within 10 %, 90 % within 1 % (Handigol et al., CoNEXT 2012, section 5.1). This is for the
    simulator; kernels' own checks are that test already, with a lower bound. The port's packets must be recorded. There
    are no checks where the port was never busy.
    """
    if run.tier != "simulated":
        return []
    shares = gap_shares(run, port)
    return [Check(name, share, at_least=bound) for name, share, bound in shares if not np.isnan(share)]


def trust_table(checks: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each check: its worst value (the least where there is a lower bound, else the greatest), the
    bounds, in how many runs it was made and in how many it failed."""
    rows = []
    for (tier, name), group in checks.groupby(["tier", "check"], sort=False):
        lower = group["at_least"].notna().any()
        rows.append(
            {
                "tier": tier,
                "check": name,
                "worst": group["value"].min() if lower else group["value"].max(),
                "at least": group["at_least"].max(),
                "at most": group["at_most"].min(),
                "runs": len(group),
                "failed": int((~group["holds"]).sum()),
            }
        )
    columns = ["tier", "check", "worst", "at least", "at most", "runs", "failed"]
    return pd.DataFrame(rows, columns=columns).set_index(["tier", "check"])


def trust_of(checks: pd.DataFrame) -> dict[str, Any]:
    """Return `trusted`, True where every check holds, and `why`, as a measured claim takes them."""
    failed: Sequence[Any] = list(checks[~checks["holds"]].itertuples())
    if not failed:
        return {"trusted": True, "why": ""}
    first = failed[0]
    bound = first.at_least if not np.isnan(first.at_least) else first.at_most
    return {
        "trusted": False,
        "why": f"{len(failed)} of {len(checks)} fidelity checks failed, see section 6: first {first.check}, "
        f"{first.value:.4g} (bound {bound:.4g})",
    }
