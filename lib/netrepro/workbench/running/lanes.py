"""The places where notebooks run: two lanes of this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from netrepro.workbench.running.events import RunEvent
from netrepro.workbench.running.run_folder import Status
from netrepro.workbench.running.supervise import supervise

if TYPE_CHECKING:
    from netrepro.workbench.running.cluster_lane import Cluster


class Lane(Protocol):
    """A place where jobs run."""

    def submit(self, folder: Path) -> Future[Status]:
        """Queue the job of a folder; return the future of its status."""

    def look(self) -> None:
        """Do the lane's periodic work; called while jobs run."""

    def stop(self) -> None:
        """Ask all jobs to end, in addition to the file `cancel` in their folders."""

    def end(self) -> None:
        """Give the lane up, as this process cannot go on; the jobs' folders ask them to end already."""


class Here:
    """A lane of this machine."""

    def __init__(self, executor: Executor):
        self.executor = executor

    def submit(self, folder: Path) -> Future[Status]:
        return self.executor.submit(supervise, folder)

    def look(self) -> None:
        """Do nothing: jobs of this machine need no periodic work."""

    def stop(self) -> None:
        """Do nothing: the file `cancel` in each folder is enough."""

    def end(self) -> None:
        self.executor.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class There:
    """A lane of a cluster."""

    cluster: Cluster
    quiet: bool

    def submit(self, folder: Path) -> Future[Status]:
        return self.cluster.submit(folder, quiet=self.quiet)

    def look(self) -> None:
        self.cluster.look()

    def stop(self) -> None:
        self.cluster.stop()

    def end(self) -> None:
        if self.cluster.client.status == "running":  # a lost scheduler would not answer
            self.cluster.stop()


@contextmanager
def lanes(
    workers: int, scheduler: str | None, on_event: Callable[[RunEvent], None]
) -> Iterator[Callable[[str, bool], Lane]]:
    """Yield the function that chooses a group's lane, from its name and whether it comes last. What comes last reads
    other runs: it stays on this machine."""
    with ThreadPoolExecutor(workers) as compute, ThreadPoolExecutor(1) as quiet:
        here = {"compute": Here(compute), "quiet": Here(quiet)}
        if scheduler is None:
            yield lambda lane, last: here[lane]
            return
        from netrepro.workbench.running.cluster_lane import Cluster

        cluster = Cluster(scheduler, lambda reason: on_event(RunEvent("waiting", "", 0, reason=reason)))
        try:
            yield lambda lane, last: here[lane] if last else There(cluster, lane == "quiet")
        finally:
            cluster.close()
