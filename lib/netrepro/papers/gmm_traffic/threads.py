"""One thread for each run, because runs are measured in parallel."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from netrepro.papers.gmm_traffic.setting import neural_models
from netrepro.study import Progress, in_parallel

Value = TypeVar("Value")


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit libraries to one thread. On small problems, threads that wait for each other cost more than they gain; on a
    busy machine a hundred times more."""
    torch = importlib.import_module("torch") if neural_models() else None
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(1):
        try:
            if torch:
                torch.set_num_threads(1)
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


def one_thread_each(
    step: Callable[..., Value],
    work: Sequence[tuple],
    progress: Progress = iter,
    cost: Callable[..., float] | None = None,
) -> list[Value]:
    """Run `in_parallel` with one thread a step. Call it within `one_thread`, whose OpenMP limit holds only in its own
    thread."""

    def alone(*each: Any) -> Value:
        with threadpool_limits(1, user_api="openmp"):
            return step(*each)

    return in_parallel(alone, work, progress=progress, cost=cost)
