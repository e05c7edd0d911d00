"""How evenly something is shared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd


def jain(shares: Sequence[float] | np.ndarray | pd.Series) -> float:
    """Jain's fairness index (1984): 1 where all get the same, 1/n where one gets all; NaN where nobody gets a share."""
    values = np.asarray(shares, dtype=float)
    return float(values.sum() ** 2 / (len(values) * (values**2).sum())) if values.any() else np.nan
