"""A program that sends as fast as it may, and one that counts what it reads in each second, as iperf3's server does.

    guest.py send ADDRESS SECONDS paced|unpaced
    guest.py receive SECONDS

The receiver prints a JSON list: bytes in each second since its connection was there. It imports nothing of the house,
so that a virtual host starts it at once. iperf3 itself (3.12) asks without a pause whether it may begin, and virtual
time passes only while programs wait.
"""

from __future__ import annotations

import json
import socket
import sys
import time

PORT = 5201
SO_MAX_PACING_RATE, FASTEST = 47, (2**40).to_bytes(8, sys.byteorder)  # bytes a second: the ratios decide
BLOCK = 131_072


def send(address: str, seconds: float, paced: bool) -> None:
    """Send as Reno for so many seconds, paced or not; the kernel's own first ten segments leave at once."""
    with socket.create_connection((address, PORT)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        if paced:
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, FASTEST)
        connection.settimeout(1.0)
        ends, block = time.monotonic() + seconds, bytes(BLOCK)
        while time.monotonic() < ends:
            try:
                connection.send(block)
            except TimeoutError:
                continue


def receive(seconds: int) -> list[int]:
    """Receive data, and count the bytes read in each second."""
    counts = [0] * seconds
    with socket.create_server(("", PORT)) as server:
        connection, _ = server.accept()
    began = time.monotonic()
    with connection:
        while data := connection.recv(BLOCK):
            second = int(time.monotonic() - began)
            if second < seconds:
                counts[second] += len(data)
    return counts


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], float(sys.argv[3]), sys.argv[4] == "paced")
    else:
        sys.stdout.write(json.dumps(receive(int(sys.argv[2]))))
