"""A stream over MPTCP by real sockets, in virtual time: a standard-library script.

receive PORT BUFFER_BYTES SECONDS : listens at all addresses of its host, and writes [[seconds, bytes so far], ...] as
JSON. send OWN_ADDRESS ADDRESS PORT CONTROL SECONDS : sends as much as the socket takes.
"""

from __future__ import annotations

import json
import socket
import sys
import time

MPTCP = 262  # IPPROTO_MPTCP
CONGESTION = 13  # TCP_CONGESTION
LARGEST_READ = 1 << 16
LISTENS_S = 0.01  # time until the receiver listens


def receive(port: int, buffer_bytes: int, seconds: float) -> None:
    begin_s, rows, held = time.monotonic(), [], 0
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    listener.bind(("", port))
    listener.listen(1)
    stream, _ = listener.accept()
    while (left_s := begin_s + seconds - time.monotonic()) > 0:
        stream.settimeout(left_s)
        try:
            held += len(stream.recv(LARGEST_READ))
        except TimeoutError:
            break
        rows.append((round(time.monotonic() - begin_s, 9), held))
    sys.stdout.write(json.dumps(rows) + "\n")


def send(own: str, address: str, port: int, control: str, seconds: float) -> None:
    begin_s, content = time.monotonic(), bytes(LARGEST_READ)
    time.sleep(LISTENS_S)
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    stream.setsockopt(socket.IPPROTO_TCP, CONGESTION, control.encode())
    stream.bind((own, 0))
    stream.connect((address, port))
    while (left_s := begin_s + seconds - time.monotonic()) > 0:
        stream.settimeout(left_s)
        try:
            stream.send(content)
        except TimeoutError:
            break


if __name__ == "__main__":
    role, *words = sys.argv[1:]
    if role == "receive":
        receive(int(words[0]), int(words[1]), float(words[2]))
    else:
        send(words[0], words[1], int(words[2]), words[3], float(words[4]))
