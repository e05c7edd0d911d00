"""Whether runs are to be believed: checks with their bounds, and one table of them for all papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from netrepro.networks.checks import Check
from netrepro.networks.experiment import Measurements, Port
from netrepro.networks.gaps import gap_shares


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
