"""The README's example of the emulator, as it stands there."""

from __future__ import annotations

import re

import matplotlib as mpl
from virtual_kernel import needs_virtual

from netrepro.paths import workbench_root
from netrepro.simulation import simulate


@needs_virtual
def test_the_readmes_five_lines_fill_the_queue_of_the_bottleneck_in_both_worlds():
    code = re.search(r"```python\n(.*?)```", (workbench_root() / "README.md").read_text(), re.DOTALL)
    assert code
    mpl.use("Agg")
    names: dict = {}
    exec(code[1], names)  # the README's own text
    run = names["run"]
    assert run.tier == "virtual" and run.trusted
    for queues in (run.queues, simulate(run.experiment).queues):
        assert 20 < queues.queue_packets.max() <= 51
