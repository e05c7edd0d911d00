"""Connect to a Dask cluster, and refuse workers that would run other code than this process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from netrepro.errors import NetreproError
from netrepro.provenance import code_hash

if TYPE_CHECKING:
    from dask.distributed import Client

SCHEDULER_VARIABLE = "NETREPRO_SCHEDULER"  # environment variable: address of the cluster that notebooks use


def connect(address: str) -> Client:
    """Connect to the scheduler at an address. Raises NetreproError for a malformed address, and where none answers."""
    from dask.distributed import Client

    if not re.fullmatch(r"\w+://.+|.+:\d+", address):  # the client would try for a minute
        raise NetreproError(f"{address!r} is no address of a Dask scheduler", "such as tcp://192.0.2.1:8786")
    try:
        return Client(address, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise NetreproError(
            f"no Dask scheduler answers at {address} ({error})",
            "start one: dask scheduler; dask worker tcp://…",
        ) from None


def wrong_workers(client: Client, addresses: Sequence[str] | None = None) -> dict[str, str]:
    """Ask workers (None: all) for their code hash; return those with another: address -> its name and its answer."""

    def ask() -> str:  # travels as a whole, so that a worker without netrepro can answer
        try:
            from netrepro.provenance import code_hash

            return code_hash()
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    here = code_hash()
    known = client.scheduler_info(n_workers=-1)["workers"]
    told = client.run(ask, workers=list(addresses) if addresses is not None else None, on_error="return")
    names = {address: f"{known[address]['name']} ({address})" if address in known else address for address in told}
    return {address: f"{names[address]}: {answer}" for address, answer in told.items() if answer != here}


def refusal(wrong: Sequence[str]) -> NetreproError:
    """Return the error that names workers with other code."""
    return NetreproError(
        f"Dask workers whose netrepro is not {code_hash()}, the one that runs here: {'; '.join(sorted(wrong))}",
        "install the same one there, from this checkout",
    )


@contextmanager
def cluster_of_notebooks() -> Iterator[bool]:
    """Let joblib work on the cluster that NETREPRO_SCHEDULER names, and yield True; yield False if it is not set.

    Raises NetreproError as `connect` does, for a cluster without workers, and for workers with other code.
    """
    address = os.environ.get(SCHEDULER_VARIABLE)
    if not address:
        yield False
        return
    from joblib import parallel_config

    with connect(address) as client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise NetreproError(
                f"the cluster at {address} has no worker",
                f"start one: dask worker {address}; or unset {SCHEDULER_VARIABLE}",
            )
        if wrong := wrong_workers(client):
            raise refusal(list(wrong.values()))
        with client.as_current(), parallel_config("dask"):
            yield True
