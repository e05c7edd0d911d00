"""Libraries that real applications import: RepNet, streams over two TCP connections, for asyncio."""

from netrepro.transport.repnet import ReplicatedServer, ReplicatedTransport, State, open_connection, start_server

__all__ = ["ReplicatedServer", "ReplicatedTransport", "State", "open_connection", "start_server"]
