"""What the tests of emulated networks send through them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import cloudpickle
import pytest

from netrepro.emulation import Network
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.tiers import probe_tiers
from netrepro.networks import Topology

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes need not import the tests
rootless = pytest.mark.skipif(not probe_tiers().rootless.available, reason="needs user namespaces")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def emulation(topology: Topology, **options) -> RealTimeNetwork:
    return RealTimeNetwork(topology, tier="rootless", **options)


def needs(tool: str) -> None:
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}")


# What runs inside a node; each is sent there by value.


def serve(count: int = 1, port: int = 5000):
    """Accept connections, read them to their ends; the bytes of each, and the accepted congestion control."""
    import socket

    received = []
    with socket.create_server(("", port), backlog=64) as server:
        for _ in range(count):
            connection, _ = server.accept()
            with connection:
                control = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
                total = 0
                while part := connection.recv(65536):
                    total += len(part)
                received.append((total, control.decode()))
    return received


def send(address: str, size_bytes: int, count: int = 1, port: int = 5000):
    """Send on `count` connections at once; the congestion control of the last."""
    import socket
    import time

    def connected():
        while True:
            try:
                return socket.create_connection((address, port))
            except ConnectionRefusedError:
                time.sleep(0.01)

    connections = [connected() for _ in range(count)]
    control = connections[-1].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
    for connection in connections:
        connection.sendall(bytes(size_bytes))
        connection.close()
    return control.decode()


def transfer(net: Network, source: str, destination: str, size_bytes: int, count: int = 1):
    """Bytes received and congestion controls of both ends."""
    receiver = net[destination].start(serve, count)
    sent_with = net[source].python(send, net[destination].address, size_bytes, count)
    received = receiver.result(timeout=60)
    return sum(size for size, _ in received), sent_with, received[0][1]
