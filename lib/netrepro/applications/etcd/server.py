"""The command of one etcd server of a cluster, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from netrepro.errors import NetreproError
from netrepro.programs import need_program


@dataclass(frozen=True)
class Timing:
    """A cluster's timeouts. Raises NetreproError if etcd is not installed, and for timeouts that etcd refuses."""

    heartbeat_ms: int = 15
    election_ms: int = 150

    def __post_init__(self) -> None:
        need_program("etcd")
        if self.election_ms < 5 * self.heartbeat_ms:
            raise NetreproError(
                f"election_ms {self.election_ms} with heartbeat_ms {self.heartbeat_ms}",
                "etcd wants five heartbeats at least",
            )


def server_command(name: str, folder: Path, client: str, peers: Mapping[str, str], timing: Timing) -> list[str]:
    """Return the command that starts a server whose data are in `folder`.

    client : HOST:PORT at which it serves clients. peers : server -> HOST:PORT at which the other servers reach it.
    """
    own = f"http://{peers[name]}"
    return [
        need_program("etcd"),
        f"--name={name}",
        f"--data-dir={folder / name}",
        f"--heartbeat-interval={timing.heartbeat_ms}",
        f"--election-timeout={timing.election_ms}",
        f"--listen-client-urls=http://{client}",
        f"--advertise-client-urls=http://{client}",
        f"--listen-peer-urls={own}",
        f"--initial-advertise-peer-urls={own}",
        f"--initial-cluster={','.join(f'{each}=http://{at}' for each, at in peers.items())}",
        "--logger=zap",
    ]
