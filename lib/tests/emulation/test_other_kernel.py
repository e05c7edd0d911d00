"""The same networks on another kernel: what this machine's has not, such as netem, and what kernels differ in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from other_kernel import named_kernel, run_on

HERE = Path(__file__).parent
TESTED = (
    "test_netem.py",
    "test_emulation.py::test_every_host_of_a_dumbbell_reaches_every_other_by_name",
    "test_emulate.py::test_experiments_share_a_fabric_and_each_is_told_what_was_its_own",
)


@pytest.mark.timeout(700)
def test_networks_hold_on_another_kernel_and_netem_where_it_has_it():
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", "--color=no"]
    command += [str(HERE / each) for each in TESTED]
    try:
        status, said = run_on(named_kernel(), command, HERE.parents[1], timeout_s=600)
    except subprocess.TimeoutExpired:
        pytest.skip("the machine is too busy: another kernel's tests took more than 10 minutes, usually three")
    assert status == 0, said
    assert int(re.search(r"(\d+) passed", said)[1]) >= 20 and "needs a kernel with netem" not in said, said
