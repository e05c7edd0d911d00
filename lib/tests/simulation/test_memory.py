"""What a simulation takes of the machine's memory."""

import os
import subprocess
import sys

import numpy as np
import pytest

from netrepro.networks import Experiment, Link, PoissonFlows, dumbbell
from netrepro.networks.flow_sizes import empirical_flow_sizes
from netrepro.simulation import simulate

PROGRAM = r"""
import re, sys
from pathlib import Path
from netrepro.networks import DropTail, Experiment, Link, PoissonFlows, fat_tree
from netrepro.networks.flow_sizes import empirical_flow_sizes
from netrepro.simulation import simulate

flows, per_s = int(sys.argv[1]), 1e6
network = fat_tree(8, Link(1000, 0.01, DropTail(packets=100)))
traffic = [PoissonFlows(empirical_flow_sizes([1000, 1448]), per_s, flows)]
measured = simulate(Experiment(network, traffic, flows / per_s + 1))
assert measured.flows["completion_ms"].notna().all()
# Not getrusage: its maximum is no less than what the process that starts this one has.
print(1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]))
"""


def peak_bytes(flows: int) -> int:
    """Most memory of a process that simulates so many short flows over a fat-tree of k = 8."""
    return int(subprocess.run([sys.executable, "-c", PROGRAM, str(flows)], check=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.skipif("NETREPRO_CORE" in os.environ, reason="a sanitizer keeps memory that was freed")
def test_a_flow_that_is_over_takes_its_row_in_the_results_and_no_more() -> None:
    few, many = 1_000, 100_000
    bytes_a_flow = (peak_bytes(many) - peak_bytes(few)) / (many - few)
    # Its columns in tables, description and result. A connection that lasted would take 4,000 more.
    # With copies of the columns, or a string for each name, it is over 800.
    assert bytes_a_flow < 750


def test_results_share_with_the_description_what_nobody_has_changed() -> None:
    network = dumbbell(2, Link(1000, 0.01), Link(1000, 0.01))
    experiment = Experiment(network, [PoissonFlows(empirical_flow_sizes([1000, 1448]), 1e4, 20)], 1.0)
    described, flows = experiment.flow_table.copy(), simulate(experiment).flows
    assert np.shares_memory(flows["size_bytes"].to_numpy(), experiment.flow_table["size_bytes"].to_numpy())
    names = experiment.flow_table["source"].to_numpy(dtype=object)
    assert len({id(name) for name in names}) == len(set(names))
    for column in flows:  # all may be written to, and none is the description's
        flows.loc[0, column] = flows[column].iloc[-1]
    assert flows.iloc[0].equals(flows.iloc[-1].rename(0))
    assert experiment.flow_table.equals(described)
