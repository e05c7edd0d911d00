"""What a simulation takes of the machine's memory."""

import subprocess
import sys

PROGRAM = """
import resource, sys
from netrepro.networks import DropTail, Experiment, Link, PoissonFlows, fat_tree
from netrepro.networks.flow_sizes import empirical_flow_sizes
from netrepro.simulation import simulate

flows, per_s = int(sys.argv[1]), 1e6
network = fat_tree(8, Link(1000, 0.01, DropTail(packets=100)))
traffic = [PoissonFlows(empirical_flow_sizes([1000, 1448]), per_s, flows)]
measured = simulate(Experiment(network, traffic, flows / per_s + 1))
assert measured.flows["completion_ms"].notna().all()
print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_bytes(flows: int) -> int:
    """Most memory of a process that simulates so many short flows over a fat-tree of k = 8."""
    return int(subprocess.run([sys.executable, "-c", PROGRAM, str(flows)], check=True, stdout=subprocess.PIPE).stdout)


def test_a_flow_that_is_over_takes_its_row_in_the_results_and_no_more() -> None:
    few, many = 1_000, 100_000
    bytes_a_flow = (peak_bytes(many) - peak_bytes(few)) / (many - few)
    # Its columns in tables, description and result. A connection that lasted would take 4,000 more.
    assert bytes_a_flow < 1000
