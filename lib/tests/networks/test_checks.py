"""A check has a side: what must be at least, and what at most, so much."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netrepro.networks.checks import CHECK_COLUMNS, Check, check_table


@pytest.mark.parametrize(
    ("value", "bounds", "holds"),
    [
        (0.9, {"at_least": 0.8}, True),
        (0.8, {"at_least": 0.8}, True),
        (0.7, {"at_least": 0.8}, False),
        (3.0, {"at_most": 5.0}, True),
        (9.0, {"at_most": 5.0}, False),
        (0.0, {"at_least": 0.0, "at_most": 0.0}, True),
        (-1.0, {"at_least": 0.0, "at_most": 0.0}, False),
        (math.nan, {"at_least": 0.8}, False),  # what nobody measured does not hold
        (math.nan, {"at_most": 5.0}, False),
        (math.nan, {}, True),  # but may be shown
    ],
)
def test_a_value_holds_within_its_bounds(value, bounds, holds):
    assert Check("x", value, **bounds).holds is holds


def test_a_table_keeps_which_side_a_bound_lies_on():
    table = check_table([Check("share", 0.9, at_least=0.8), Check("late", 9.0, at_most=5.0), Check("shown", 4.0)])
    assert list(table) == list(check_table([])) == CHECK_COLUMNS and table["holds"].tolist() == [True, False, True]
    np.testing.assert_array_equal(table["at_least"], [0.8, np.nan, np.nan])
    np.testing.assert_array_equal(table["at_most"], [np.nan, 5.0, np.nan])
