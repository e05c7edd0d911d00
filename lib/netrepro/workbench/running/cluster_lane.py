"""Jobs on the workers of a Dask cluster, which share no folder with this machine.

A worker gets the workbench's notebooks, data and published results once. With each job it gets the notebook and the
files that the job's parameters name, and it sends the run's folder back. This module chooses the worker of each job, so
that no job waits for a worker that is gone, and a worker with other code gets no job.
"""

from __future__ import annotations

import functools
import io
import json
import os
import shutil
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from netrepro.cluster import SCHEDULER_VARIABLE, connect, refusal, wrong_workers
from netrepro.errors import NetreproError
from netrepro.files import unique_word, write_atomically
from netrepro.paths import workbench_root
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.manifest import git_state
from netrepro.workbench.running.run_folder import Job, Progress, Status
from netrepro.workbench.running.standard import commit_name
from netrepro.workbench.running.supervise import supervise

QUIET_RESOURCE = "quiet_machine"
LOOK_EVERY_S = 0.5
FIRST_WORD_S, NEXT_WORD_S = 30.0, 60.0  # without a worker: time until the first report, and between reports
LOST_S = 5.0  # a scheduler that cannot be reached for so long counts as lost
STOP_S = 10.0  # a worker has so long to end its jobs when it is asked
MOST_STARTS = 3  # of a job whose workers were lost


@dataclass
class _Sent:
    """A job: its folder, the worker that runs it, and the future that gets its status."""

    folder: Path
    quiet: bool
    future: Future[Status] = field(default_factory=Future)
    worker: str = ""
    task: Any = None
    starts: int = 0


class Cluster:
    """A cluster as a lane. `submit` queues jobs; `look` sends them to workers and collects results. The caller calls
    `look` again and again while it waits."""

    def __init__(self, address: str, say: Callable[[str], None]):
        self.address, self.say = address, say
        self.client: Any = connect(address)
        self._archive = pack_workbench(workbench_root())
        self._known: dict[str, str] = {}  # address -> the worker's folder; a restarted worker has another
        self._good: set[str] = set()
        self._queue: deque[_Sent] = deque()
        self._sent: list[_Sent] = []
        self._looked_s, self._alone_since_s, self._said_s = 0.0, time.monotonic(), 0.0
        self._unreached_since_s: float | None = None
        self._ends_s: float | None = None
        self._topic = f"netrepro-{unique_word()}"
        try:
            if wrong := self._welcome(self._workers()):
                raise refusal(wrong)
            self.client.subscribe_topic(self._topic, self._hear)
        except BaseException:
            self.client.close()
            raise

    def submit(self, folder: Path, *, quiet: bool = False) -> Future[Status]:
        """Queue the job of a folder and return the future of its status.

        quiet : whether the job needs a worker with the resource QUIET_RESOURCE. Raises NetreproError where there are
        workers and none has that resource.
        """
        workers = self._workers()
        if quiet and workers and not any(_is_quiet(each) for each in workers.values()):
            raise NetreproError(
                f"no Dask worker has the resource {QUIET_RESOURCE}, which emulated notebooks need",
                f"start one on an otherwise idle machine: dask worker … --nworkers 1 --resources {QUIET_RESOURCE}=1",
            )
        sent = _Sent(folder, quiet)
        if self._ends_s is None:
            self._queue.append(sent)
        else:
            sent.future.set_result(_interrupted(folder))
        return sent.future

    def look(self) -> None:
        """Send queued jobs to workers, collect ended jobs, and report when no worker can run a job.

        Raises NetreproError where the scheduler is lost.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        self._take_in()
        if self._ends_s is not None:
            if now_s > self._ends_s:
                self._give_up()
            return
        workers = self._workers()
        for reason in self._welcome(workers):
            self.say(f"a worker gets nothing, as its netrepro is another: {reason}")
        for sent in [each for each in self._sent if each.worker not in workers]:
            self._again(sent)
        self._hand_out(workers)
        self._say_where_nobody_works(workers, now_s)

    def stop(self) -> None:
        """Ask all jobs to end; jobs that have not ended within STOP_S are given up."""
        for sent in self._queue:
            sent.future.set_result(_interrupted(sent.folder))
        self._queue.clear()
        self._ends_s = time.monotonic() + STOP_S
        self._looked_s = 0.0
        with suppress(Exception):
            busy = [sent.worker for sent in self._sent]
            self.client.run(_cancel_there, self._topic, workers=busy, wait=False, on_error="ignore")

    def close(self) -> None:
        """Leave the cluster; results of jobs that still run there are lost."""
        with suppress(Exception):
            self.client.close(timeout=2)

    def _workers(self) -> dict[str, Any]:
        """Return the workers that the scheduler knows, address -> description.

        While the scheduler cannot be reached, these are the workers with jobs, with empty descriptions. Raises
        NetreproError when the scheduler is lost.
        """
        try:
            if self.client.status == "running":
                workers = self.client.scheduler_info(n_workers=-1)["workers"]
                self._unreached_since_s = None
                return dict(workers)
        except (OSError, TimeoutError, RuntimeError, ValueError):
            pass
        now_s = time.monotonic()
        self._unreached_since_s = self._unreached_since_s or now_s
        if now_s - self._unreached_since_s > LOST_S or self.client.status == "closed":
            raise NetreproError(
                f"the Dask scheduler at {self.address} is lost",
                "start it again; with --resume what has ended well is kept",
            )
        return {sent.worker: {} for sent in self._sent}

    def _welcome(self, workers: dict[str, Any]) -> list[str]:
        """Send the workbench to new workers that have this code. Return, for each of the others, its name and code."""
        here = {address: worker["local_directory"] for address, worker in workers.items() if worker}
        new = [address for address, folder in here.items() if self._known.get(address) != folder]
        if not new:
            return []
        try:
            wrong = wrong_workers(self.client, new)
            able = [address for address in new if address not in wrong]
            if able:
                self.client.run(_take_workbench, self._topic, self._archive, workers=able)
        except (OSError, TimeoutError):  # a worker has just left: the next look tries again
            return []
        self._known |= {address: here[address] for address in new}
        self._good = (self._good - set(wrong)) | set(able)
        return list(wrong.values())

    def _hand_out(self, workers: dict[str, Any]) -> None:
        for address in self._good & workers.keys():
            worker = workers[address]
            if not worker:
                continue
            while True:
                here = [sent for sent in self._sent if sent.worker == address]
                free = worker["nthreads"] - len(here)
                fits = [
                    sent
                    for sent in self._queue
                    if (free > 0 and not sent.quiet) or (sent.quiet and _is_quiet(worker) and not here)
                ]
                if not fits or any(sent.quiet for sent in here):
                    break
                self._queue.remove(fits[0])
                self._send(fits[0], address)

    def _send(self, sent: _Sent, address: str) -> None:
        job = Job.model_validate_json((sent.folder / run_folder.JOB).read_text())
        sent.worker, sent.starts = address, sent.starts + 1
        notebook = job.notebook.read_bytes()
        sent.task = self.client.submit(
            run_there,
            job.model_dump_json(),
            notebook,
            _pack_inputs(job),
            self._topic,
            pure=False,
            workers=[address],
            key=f"{job.name}-{unique_word()}",
        )
        self._sent.append(sent)

    def _take_in(self) -> None:
        for sent in [each for each in self._sent if each.task.status in ("finished", "error", "cancelled", "lost")]:
            if sent.task.status in ("cancelled", "lost"):
                self._again(sent)
                continue
            self._sent.remove(sent)
            try:
                status, files = sent.task.result(timeout=60)
                unpack(files, sent.folder)
                job = Job.model_validate_json((sent.folder / run_folder.JOB).read_text())
                _name_what_ran(job)
                sent.future.set_result(Status.model_validate_json(status))
            except Exception as error:
                sent.future.set_exception(error)

    def _again(self, sent: _Sent) -> None:
        """Queue a job whose worker is gone again; after MOST_STARTS starts it fails."""
        self._sent.remove(sent)
        with suppress(Exception):
            sent.task.cancel()
        if self._ends_s is not None:
            sent.future.set_result(_interrupted(sent.folder))
        elif self.client.status == "running" and sent.starts >= MOST_STARTS:
            problem = f"{sent.starts} workers were lost while they ran it, the last at {sent.worker}"
            sent.future.set_exception(NetreproError(problem, "see the workers' logs: memory is the usual cause"))
        else:
            self._queue.appendleft(sent)

    def _give_up(self) -> None:
        for sent in self._sent:
            with suppress(Exception):
                sent.task.cancel()
            sent.future.set_result(_interrupted(sent.folder))
        self._sent.clear()

    def _say_where_nobody_works(self, workers: dict[str, Any], now_s: float) -> None:
        able = [address for address in self._good & workers.keys() if workers[address]]
        if self._sent or not self._queue or (any(not sent.quiet for sent in self._queue) and able):
            self._alone_since_s, self._said_s = now_s, 0.0
            return
        waited_s = now_s - self._alone_since_s
        if waited_s >= FIRST_WORD_S and now_s - self._said_s >= NEXT_WORD_S:
            self._said_s = now_s
            quiet = " with the resource quiet_machine" if able else ""
            self.say(f"no worker{quiet} at {self.address} for {waited_s:.0f} s: dask worker {self.address}")

    def _hear(self, event: Any) -> None:
        """Write the progress that a worker reports into the job's folder."""
        _, told = event
        for sent in list(self._sent):
            if sent.folder.name == told["job"]:
                with suppress(OSError):
                    write_atomically(sent.folder / run_folder.PROGRESS, told["progress"])


def _is_quiet(worker: dict[str, Any]) -> bool:
    return bool(worker.get("resources", {}).get(QUIET_RESOURCE))


def _interrupted(folder: Path) -> Status:
    job = Job.model_validate_json((folder / run_folder.JOB).read_text())
    return Status(
        slug=job.slug,
        name=job.name,
        outcome="interrupted",
        seconds=0,
        budget_s=job.budget_s,
        exception="stopped on request",
        command=job.command,
    )


def _name_what_ran(job: Job) -> None:
    """Add to a returned manifest and results what only this machine knows: the commit, changed settings and the inputs'
    paths here."""
    results, manifest = job.folder / run_folder.RESULTS, job.folder / run_folder.MANIFEST
    state = git_state(job.root)
    if manifest.exists():
        write_atomically(manifest, json.dumps(json.loads(manifest.read_text()) | {"git": state}, indent=1))
    if results.exists():
        content = json.loads(results.read_text())
        commit = commit_name(state.get("commit"), find(job.slug))
        for run in content["runs"].values():
            run["commit"] = commit
            run["changed"] = job.manifest["changed"]
            run["parameters"] |= {name: job.parameters[name] for name in job.inputs if name in run["parameters"]}
        write_atomically(results, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


# Archives to and from workers ------------------------------------------------------------------------


def pack_workbench(root: Path) -> bytes:
    """Pack the files that notebooks read: all notebooks, the data, and the published results."""
    paths = [*(root / "notebooks").glob("*.ipynb"), *(root / "data").rglob("*")]
    paths += (root / "figures").glob("*/results.json")
    return pack([(path, path.relative_to(root).as_posix()) for path in sorted(paths) if path.is_file()])


def _pack_inputs(job: Job) -> bytes:
    """Pack the files and folders that a job's parameters name."""
    paths = [(name, Path(job.parameters[name])) for name in job.inputs]
    return pack([(path, f"{name}/{path.name}") for name, path in paths if path.exists()])


def pack(files: Sequence[tuple[Path, str]]) -> bytes:
    """Pack files, and folders with their content, into a tar archive. files : (path, name in the archive)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
        for path, name in files:
            archive.add(path, name)
    return stream.getvalue()


def unpack(packed: bytes, into: Path) -> None:
    """Unpack an archive of `pack` into a folder; nothing is written outside of that folder."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(into, filter="data")


# On a worker -----------------------------------------------------------------------------------------

_running: dict[Path, str] = {}  # a job's folder -> topic of the caller that sent the job


def _place() -> Path:
    """Return the worker's local folder, which disappears with the worker."""
    from distributed import get_worker

    return Path(get_worker().local_directory)


@functools.lru_cache(maxsize=4)
def _workbench(digest: str, place: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"netrepro-workbench-{digest[:8]}-", dir=place))


_workbenches: dict[str, Path] = {}  # topic of a caller -> the workbench that it sent


def _take_workbench(topic: str, archive: bytes, dask_worker: Any = None) -> None:
    """Unpack a caller's workbench; equal archives share one folder."""
    place = Path(dask_worker.local_directory)
    root = _workbench(sha256(archive).hexdigest(), place)
    if not (root / "notebooks").is_dir():
        unpack(archive, root)
        for name in ("notebooks", "data", "figures"):
            (root / name).mkdir(exist_ok=True)
    _workbenches[topic] = root


async def _cancel_there(topic: str) -> None:  # async, as Dask's `run` with wait=False wants it
    """Ask the jobs of one caller to end."""
    for folder in [folder for folder, whose in list(_running.items()) if whose == topic]:
        (folder / run_folder.CANCEL).touch()


def run_there(asked: str, notebook: bytes, inputs: bytes, topic: str) -> tuple[str, bytes]:
    """Run a job in a folder of this worker; return its status (JSON) and the folder, packed.

    asked : the job (JSON). notebook : the notebook's bytes. inputs : an archive of the files that its parameters name.
    topic : the Dask topic on which the caller hears of progress.
    """
    from distributed import get_worker

    worker, job = get_worker(), Job.model_validate_json(asked)
    made = Path(tempfile.mkdtemp(prefix="netrepro-job-", dir=_place()))
    try:
        folder = made / "run"
        folder.mkdir()
        unpack(inputs, made / "inputs")
        root = _workbenches[topic]
        its = root / "notebooks" / job.notebook.name
        if not its.exists() or its.read_bytes() != notebook:
            its = made / job.notebook.name
            its.write_bytes(notebook)
        named = {name: str(made / "inputs" / name / Path(job.parameters[name]).name) for name in job.inputs}
        here = {"folder": folder, "root": root, "notebook": its, "parameters": job.parameters | named}
        job = job.model_copy(update=here)
        write_atomically(folder / run_folder.JOB, job.model_dump_json())
        _running[folder] = topic
        os.environ.pop(SCHEDULER_VARIABLE, None)  # else its sweeps would wait for workers that wait for this job
        ended = threading.Event()
        name = Path(json.loads(asked)["folder"]).name
        teller = threading.Thread(target=_tell, args=(worker, topic, name, folder, ended), daemon=True)
        teller.start()
        try:
            status = supervise(folder)
        finally:
            ended.set()
            _running.pop(folder, None)
        status.parameters = Job.model_validate_json(asked).parameters
        left = [path for path in folder.iterdir() if path.name not in run_folder.OF_THE_RUNNING]
        return status.model_dump_json(), pack([(path, path.name) for path in left])
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _tell(worker: Any, topic: str, name: str, folder: Path, ended: threading.Event) -> None:
    """Report a job's progress whenever it changes, until the job has ended."""
    before = ""
    while True:
        try:
            progress = (folder / run_folder.PROGRESS).read_text()
        except OSError:
            progress = Progress().model_dump_json()
        if progress != before:
            worker.log_event(topic, {"job": name, "progress": progress})
            before = progress
        if ended.wait(1.0):
            return
