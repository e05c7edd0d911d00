"""The simulator as WebAssembly under node beside the native core, in one run: processor time of the same experiments.

Both take the described experiment and give the same bytes. WebAssembly's time is that of a second run, as a page's is
once its first has been compiled; `first_s` has that of the first one. Read the ratio: the machine's speed cancels.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

import pandas as pd

from benchmarks.bench_simulation import dumbbell_experiment
from netrepro import _core
from netrepro.networks import DropTail, Experiment, Flow, Link, fat_tree
from netrepro.simulation.described import describe
from netrepro.simulation.simulate import EVENTS_AT_A_TIME
from netrepro.workbench.publishing.webassembly import SCRIPT, need_tool, web_script

RUN = """
const [script, file] = process.argv.slice(1);
const { run } = require(script);
const text = require("fs").readFileSync(file, "utf8");
(async () => {
  const seconds = [];
  for (let i = 0; i < 2; ++i) {
    const before = process.cpuUsage();
    await run(text);
    const { user, system } = process.cpuUsage(before);
    seconds.push((user + system) * 1e-6);
  }
  console.log(JSON.stringify(seconds));
})();
"""


def run(quick: bool = True) -> pd.DataFrame:
    """Measure both; a row for each experiment. Raises NetreproError where Emscripten or node is missing."""
    seconds = 10.0 if quick else 60.0
    experiments = {"dumbbell, 10 flows": dumbbell_experiment(seconds), "fat-tree, 8 flows": _tree(seconds / 50)}
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, SCRIPT).write_text(web_script(), encoding="utf-8")
        for name, experiment in experiments.items():
            text = json.dumps(describe(experiment))
            Path(folder, "experiment.json").write_text(text, encoding="utf-8")
            began = time.process_time()
            native = _core.DescribedRun(text)
            while not native.run(EVENTS_AT_A_TIME):
                pass
            native.columns()
            native_s = time.process_time() - began
            command = [need_tool("node"), "-e", RUN, f"{folder}/{SCRIPT}", f"{folder}/experiment.json"]
            first_s, again_s = json.loads(subprocess.check_output(command, text=True))
            rows[name] = {"native_s": native_s, "first_s": first_s, "again_s": again_s, "ratio": again_s / native_s}
    return pd.DataFrame(rows).T


def _tree(seconds: float) -> Experiment:
    flows = tuple(Flow(f"h{i + 1}", f"h{16 - i}", duration_s=seconds) for i in range(8))
    return Experiment(fat_tree(4, Link(1000, 0.01, DropTail(packets=100))), flows, seconds)
