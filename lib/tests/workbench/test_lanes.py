"""The two lanes and the Dask cluster: timing-sensitive notebooks run alone, the rest side by side."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import nbformat
import pytest
from dask.distributed import LocalCluster

from netrepro.errors import NetreproError
from netrepro.provenance import code_hash
from netrepro.study.measuring import in_parallel
from netrepro.workbench.running import cluster_lane, lanes, run_folder
from netrepro.workbench.running.cluster_lane import QUIET_RESOURCE
from netrepro.workbench.running.run_folder import Status
from netrepro.workbench.running.runner import run


def interval(workbench: Path, name: str) -> tuple[datetime, datetime]:
    manifest = json.loads((workbench / f"runs/quick/{name}/manifest.json").read_text())
    started, ended = (datetime.fromisoformat(manifest[key]) for key in ("started", "ended"))
    return started, ended


def test_the_quiet_lane_begins_when_the_compute_lane_has_ended_and_runs_one_at_a_time(
    add_notebook: Callable[..., Path], workbench: Path
):
    for number, lane in ((10, "quiet"), (11, "compute"), (12, "quiet")):
        add_notebook("well_behaved", number, lane=lane, slug=f"copy_{number}")
    assert run(jobs=3).ok
    quiet, compute, other = (interval(workbench, f"{number}_copy_{number}") for number in (10, 11, 12))
    assert compute[1] <= min(quiet[0], other[0])
    assert quiet[1] <= other[0] or other[1] <= quiet[0]


def test_what_is_marked_last_begins_when_all_others_have_ended(add_notebook: Callable[..., Path], workbench: Path):
    first = add_notebook("well_behaved", 20)
    add_notebook("well_behaved", 10, last=True, slug="summary")
    report = run(jobs=2)
    assert [status.slug for status in report.statuses] == ["well_behaved", "summary"]
    assert interval(workbench, first.stem)[1] <= interval(workbench, "10_summary")[0]


def test_the_shortest_runs_first_then_the_longest_as_they_took_last_or_else_by_their_budgets(
    add_notebook, workbench, pretended_runs, monkeypatch
):
    for number, budget_s in ((10, 30), (11, 20), (12, 40), (13, 90)):
        add_notebook("well_behaved", number, slug=f"copy_{number}", budget_s={"quick": budget_s, "paper": 600})
    last = Status(slug="copy_13", name="13_copy_13", outcome="ok", seconds=9, budget_s=90, cpu_s=5)
    folder = workbench / "runs/quick/13_copy_13"
    folder.mkdir(parents=True)
    (folder / run_folder.STATUS).write_text(last.model_dump_json())
    begun, pretend = [], lanes.supervise

    def note_and_pretend(folder: Path) -> Status:
        status = pretend(folder)
        begun.append(status.name)
        return status

    monkeypatch.setattr(lanes, "supervise", note_and_pretend)
    assert run(jobs=1).ok
    assert begun == ["13_copy_13", "12_copy_12", "10_copy_10", "11_copy_11"]


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", resources={QUIET_RESOURCE: 1}
    ) as cluster:
        yield cluster


def test_a_dask_cluster_runs_the_set_and_its_failures_come_back_as_statuses(cluster, add_notebook, workbench):
    add_notebook("well_behaved", 10)
    add_notebook("raised_exception", 11, lane="quiet")
    report = run(scheduler=cluster.scheduler_address)
    outcomes = {status.slug: status.outcome for status in report.statuses}
    assert outcomes == {"well_behaved": "ok", "raised_exception": "failed"}
    again = {status.command for status in report.statuses}
    assert again == {f"netrepro run {slug} --scheduler {cluster.scheduler_address}" for slug in outcomes}
    assert (workbench / "runs/quick/10_well_behaved/executed.ipynb").exists()


def test_a_cluster_without_a_quiet_worker_is_refused_before_an_emulated_notebook_starts(add_notebook, workbench):
    add_notebook("well_behaved", lane="quiet")
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as plain,
        pytest.raises(NetreproError, match=QUIET_RESOURCE),
    ):
        run(scheduler=plain.scheduler_address)
    assert not list((workbench / "runs").rglob("executed.ipynb"))


def test_a_worker_with_other_code_is_refused_by_name_and_reason(cluster, add_notebook, workbench, monkeypatch):
    add_notebook("well_behaved")
    monkeypatch.setattr("netrepro.cluster.code_hash", lambda: "of this checkout")
    with pytest.raises(NetreproError, match=rf"not of this checkout.*\(tcp://.*\): {code_hash()}; .*: {code_hash()}"):
        run(scheduler=cluster.scheduler_address)
    assert not list((workbench / "runs").rglob("executed.ipynb"))


def test_a_scheduler_that_does_not_answer_is_named(add_notebook, workbench):
    add_notebook("well_behaved")
    with pytest.raises(NetreproError, match="no Dask scheduler answers"):
        run(scheduler="tcp://127.0.0.1:9")


def test_what_is_no_address_is_refused_at_once_and_without_a_trace(add_notebook, workbench, capfd):
    add_notebook("well_behaved")
    with pytest.raises(NetreproError, match="'nonsense' is no address"):
        run(scheduler="nonsense")
    gc.collect()  # a client that is half made complains only then
    assert capfd.readouterr().err == ""


def test_a_worker_gets_the_files_that_parameters_name_and_sends_its_folder_back(
    cluster, add_notebook, workbench, tmp_path
):
    """Its folder is no other's: what a lost worker still writes meets nobody."""
    path = add_notebook("well_behaved")
    notebook = nbformat.read(path, as_version=4)
    (settings,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    settings.source += '\nfile: str = ""  # what is read [one of empty, a file]'
    reads = "import os\nfrom pathlib import Path\n\ntext = Path(file).read_text()"
    writes = "Path(os.environ['NETREPRO_RUN_DIR'], 'said.csv').write_text(f'{text} {os.getcwd()} {Path(file).parent}')"
    notebook.cells.append(nbformat.v4.new_code_cell(f"{reads}\n{writes}"))
    nbformat.write(notebook, path)
    mine = tmp_path / "mine.txt"
    mine.write_text("hello")
    report = run(["well_behaved"], parameters={"file": str(mine)}, scheduler=cluster.scheduler_address)
    (status,) = report.statuses
    assert status.ok, status.explanation()
    text, folder, inputs = (status.folder / "said.csv").read_text().split()
    assert text == "hello" and not folder.startswith(str(workbench)) and not Path(inputs).exists()
    assert status.parameters["file"] == str(mine)


def test_a_cluster_without_workers_is_told_as_is_one_with_other_code_that_joins_and_a_stop_ends_the_wait(
    add_notebook, workbench, monkeypatch
):
    monkeypatch.setattr(cluster_lane, "FIRST_WORD_S", 0.5)
    add_notebook("well_behaved")
    told = []

    def listen(event):
        if event.kind != "waiting":
            return
        told.append(event.reason)
        if len(told) == 1:
            monkeypatch.setattr("netrepro.cluster.code_hash", lambda: "of this checkout")
            empty.scale(1)
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    with LocalCluster(n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0") as empty:
        report = run(
            scheduler=empty.scheduler_address, on_event=lambda event: event.kind == "waiting" and listen(event)
        )
        assert report.interrupted and [status.outcome for status in report.statuses] == ["interrupted"]
        nobody, wrong = told
        assert f"no worker at {empty.scheduler_address}" in nobody and "dask worker" in nobody
        assert "a worker gets nothing" in wrong and code_hash() in wrong


def test_a_stop_ends_what_runs_on_a_worker(cluster, add_notebook, workbench):
    add_notebook("endless_cell")
    report = run(
        scheduler=cluster.scheduler_address,
        on_event=lambda event: os.kill(os.getpid(), signal.SIGTERM) if event.kind == "started" else None,
    )
    assert report.interrupted and not list((workbench / "runs").rglob("*"))[1:]


def test_a_lost_scheduler_names_resume(add_notebook, workbench, monkeypatch):
    monkeypatch.setattr(cluster_lane, "LOST_S", 0.5)
    add_notebook("endless_cell")
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as lost,
        pytest.raises(NetreproError, match=r"scheduler at .* is lost\n.*--resume"),
    ):
        run(
            scheduler=lost.scheduler_address,
            on_event=lambda event: lost.close() if event.kind == "started" else None,
        )
    assert not list((workbench / "runs").rglob("executed.ipynb"))


def test_a_sweep_inside_a_notebook_uses_the_cluster_that_a_variable_names(cluster, monkeypatch):
    monkeypatch.setenv("NETREPRO_SCHEDULER", cluster.scheduler_address)
    found = in_parallel(lambda number: (number, os.getpid()), [(3,), (1,), (2,)])
    assert [number for number, _ in found] == [3, 1, 2] and os.getpid() not in {process for _, process in found}
