"""The one door to what runs an experiment."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest
from virtual_kernel import needs_virtual

from netrepro import backends
from netrepro.emulation.virtual.experiment import emulate_virtually
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, Measurements, Tcp, dumbbell
from netrepro.simulation import simulate

NETWORK = dumbbell(1, access=Link(100, 1), bottleneck=Link(10, 5, DropTail(packets=20)))
SHORT = Experiment(NETWORK, [Flow("h1", "h2", duration_s=1)], duration_s=1)
OF_NO_KERNEL = Experiment(NETWORK, [Flow("h1", "h2", duration_s=1)], duration_s=1, tcp=Tcp("rcp"))


def test_the_simulator_gives_what_it_gives_itself():
    shares: list[float] = []
    run = backends.run(SHORT, "simulated", shares.append)
    pd.testing.assert_frame_equal(run.flows, simulate(SHORT).flows)
    assert shares[-1] == 1 and backends.why_not(SHORT, "simulated") == backends.why_absent("simulated") == ""


def test_runs_are_watched_until_the_block_ends_even_by_an_error():
    watched: list[Measurements] = []
    with pytest.raises(KeyError), backends.watched_runs(watched.append):
        run = backends.run(SHORT)
        raise KeyError
    backends.run(SHORT)
    assert len(watched) == 1 and watched[0] is run


@needs_virtual
def test_the_virtual_kernel_gives_what_it_gives_itself():
    pd.testing.assert_frame_equal(backends.run(SHORT, "virtual").flows, emulate_virtually(SHORT).flows)
    assert backends.why_absent("virtual") == ""


def test_an_unknown_tier_is_refused_by_the_nearest_name():
    with pytest.raises(NetreproError, match="did you mean 'virtual'"):
        backends.run(SHORT, "virtul")


def test_what_the_virtual_kernel_cannot_run_is_said_before_it_starts():
    assert "rcp" in backends.why_not(OF_NO_KERNEL, "virtual")
    assert backends.why_not(SHORT, "virtual") == backends.why_not(OF_NO_KERNEL, "simulated") == ""


def test_a_measurement_in_the_simulator_loads_no_emulator():
    program = (
        "import sys\n"
        "from netrepro.papers import dctcp\n"
        "from netrepro.study import read_once\n"
        "assert read_once(dctcp.STUDY, dctcp.Setting(), 6.0)['mean_packets'] > 0\n"
        "print([name for name in sys.modules if name.startswith('netrepro.emulation')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
