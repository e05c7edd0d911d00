"""Real sockets: RepNet, streams over two TCP connections, for asyncio; a BitTorrent peer; machines over datagrams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netrepro.transport.repnet import (
        ReplicatedServer,
        ReplicatedTransport,
        State,
        open_connection,
        start_server,
    )

__all__ = ["ReplicatedServer", "ReplicatedTransport", "State", "open_connection", "start_server"]


def __getattr__(name: str) -> Any:
    """Import RepNet's names when they are asked for: programs that only want datagrams start without asyncio."""
    if name in __all__:
        from netrepro.transport import repnet

        return getattr(repnet, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
