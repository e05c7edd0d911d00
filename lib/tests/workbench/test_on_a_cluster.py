"""The page "On a cluster": its examples run, as far as they can without a cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import netrepro.workbench.running

PAGE = (Path(netrepro.workbench.running.__file__).with_name("on_a_cluster.md")).read_text(encoding="utf-8")
ON_ONE_MACHINE, ON_SLURM, ON_KUBERNETES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_a_notebook_runs_on_workers_of_one_machine(echo_paper, workbench, capsys):
    names: dict[str, Any] = {}
    exec(ON_ONE_MACHINE.replace('"dctcp"', '"echo"'), names)  # the page's own text
    assert names["report"].ok and "10_echo" in capsys.readouterr().out
    assert (workbench / "runs/quick/10_echo/results.json").exists()


def test_slurm_gets_a_script_that_starts_workers_with_this_python(capsys):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    names: dict[str, Any] = {}
    exec(ON_SLURM, names)
    with names["cluster"]:
        script = capsys.readouterr().out
    assert "#SBATCH --cpus-per-task=4" in script and "#SBATCH -t 02:00:00" in script
    assert "/srv/netrepro/.venv/bin/python -m distributed.cli.dask_worker tcp://" in script
    assert "--nworkers 4" in script and "--nthreads 1" in script


def test_kubernetes_gets_a_specification_of_workers_with_the_image():
    pytest.importorskip("dask_kubernetes.operator", reason="dask-kubernetes is not installed")
    names: dict[str, Any] = {}
    exec(ON_KUBERNETES, names)
    worker = names["specification"]["spec"]["worker"]
    (container,) = worker["spec"]["containers"]
    assert worker["replicas"] == 10 and container["image"] == "registry.example/netrepro:1"
    assert container["args"][:2] == ["dask", "worker"]
