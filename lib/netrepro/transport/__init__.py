"""RepNet on real sockets: asyncio streams over two TCP connections each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netrepro.transport.replicated_transport import ReplicatedTransport
    from netrepro.transport.repnet import ReplicatedServer, State, open_connection, start_server

__all__ = ["ReplicatedServer", "ReplicatedTransport", "State", "open_connection", "start_server"]


def __getattr__(name: str) -> Any:
    """Import repnet, and with it asyncio, only when one of its names is used."""
    if name in __all__:
        from netrepro.transport import repnet

        return getattr(repnet, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
