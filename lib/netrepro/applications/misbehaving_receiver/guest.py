"""A server, and a client that sends misleading acknowledgements, in virtual time: a standard-library script.

serve PORT BYTES CONTROL : an ordinary TCP server of this kernel. It sends BYTES to the first client, waits for the
client's last byte, and writes its kernel's counters as JSON.

fetch OWN SERVER PORT BYTES SECONDS RECEIVER HOW_MANY SEGMENT SACK : a client without a kernel's TCP. Its address does
not belong to its host, so the kernel does not answer for it. It sends raw packets, and receives by a packet socket.
RECEIVER is honest, division (HOW_MANY pieces of each segment), spoofing (HOW_MANY copies of every acknowledgement),
first spoofing (of the first) or optimistic (a segment acknowledged every HOW_MANY milliseconds).
Writes [[seconds since its SYN, bytes, offset of the first byte], ...] of the arriving data packets as JSON.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from pathlib import Path

ALL_IP, OUTGOING = 0x0800, 4  # packet sockets: ETH_P_IP, PACKET_OUTGOING
CONGESTION, INFORMATION = 13, 11  # TCP_CONGESTION, TCP_INFO
FIN, SYN, PUSH, ACK = 1, 2, 8, 16
CLIENT_PORT, WINDOW, WINDOW_SHIFT = 40_000, 65_535, 10
FIRST, WHOLE = 1_000, 1 << 32
LISTENS_S = 0.01  # time until the server listens
BUFFER_BYTES = 1 << 22
TOTAL_RETRANSMITTED_AT = 100  # offset of the counter in struct tcp_info


def serve(port: int, size: int, control: str) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.IPPROTO_TCP, CONGESTION, control.encode())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    listener.bind(("", port))
    listener.listen(1)
    stream, _ = listener.accept()
    stream.recv(1)
    stream.sendall(bytes(size))
    stream.recv(1)
    told = stream.getsockopt(socket.IPPROTO_TCP, INFORMATION, 232)
    (again,) = struct.unpack_from("=I", told, TOTAL_RETRANSMITTED_AT)
    names, values = (line.split() for line in Path("/proc/net/netstat").read_text().splitlines()[:2])
    timeouts = int(dict(zip(names, values))["TCPTimeouts"])  # noqa: B905
    sys.stdout.write(json.dumps({"sent_again": again, "timeouts": timeouts}) + "\n")
    sys.stdout.flush()
    os._exit(0)


def check_sum(content: bytes) -> int:
    if len(content) % 2:
        content += b"\0"
    total = sum(struct.unpack(f">{len(content) // 2}H", content))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class RawSocketClient:
    """One connection. held : number of bytes received in order. acknowledged : number of bytes acknowledged."""

    def __init__(self, own: str, server: str, port: int, receiver: str, how_many: float, segment: int, sack: bool):
        self.own, self.server, self.port = socket.inet_aton(own), socket.inet_aton(server), port
        self.receiver, self.how_many, self.segment, self.sack = receiver, how_many, segment, sack
        self.out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self.heard = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL_IP))
        self.heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self.sent, self.theirs = FIRST, 0
        self.held = self.acknowledged = self.claimed = 0
        self.early: list[tuple[int, int]] = []
        self.claims_at: float | None = None
        self.rows: list[tuple[float, int, int]] = []

    def send(self, flags: int, told: int, payload: bytes = b"", options: bytes = b"") -> None:
        """Send a packet that acknowledges `told` bytes of the document."""
        number = (self.theirs + 1 + told) % WHOLE if flags & ACK else 0
        words = (5 + len(options) // 4) << 4
        fields = [CLIENT_PORT, self.port, self.sent, number, words, flags, WINDOW, 0, 0]
        tcp = struct.pack(">HHIIBBHHH", *fields) + options + payload
        pseudo = self.own + self.server + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(tcp))
        tcp = tcp[:16] + struct.pack(">H", check_sum(pseudo + tcp)) + tcp[18:]
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0, self.own, self.server
        )
        self.out.sendto(ip + tcp, (socket.inet_ntoa(self.server), 0))
        self.sent += len(payload) + bool(flags & (SYN | FIN))

    def next_packet(self, until: float) -> tuple[int, int, int] | None:
        """Return flags, sequence number and payload size of the server's next packet; None if none comes by `until`."""
        while True:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.heard], [], [], left)[0]:
                return None
            content, (_, _, kind, *_) = self.heard.recvfrom(1 << 16)
            header = (content[0] & 15) * 4
            mine = content[16:20] == self.own and content[9] == socket.IPPROTO_TCP and kind != OUTGOING
            if mine and struct.unpack_from(">H", content, header)[0] == self.port:
                _, _, number, _, words, flags = struct.unpack_from(">HHIIBB", content, header)
                size = struct.unpack_from(">H", content, 2)[0] - header - (words >> 4) * 4
                return flags, number, size

    def fetch(self, size: int, seconds: float) -> None:
        """Connect, send the request, and receive until all bytes have come or `seconds` have passed."""
        began = time.monotonic()
        options = struct.pack(">BBHBBBB", 2, 4, self.segment, 3, 3, WINDOW_SHIFT, 1)
        self.send(SYN, 0, options=options + (b"\x04\x02\x01\x01" if self.sack else b""))
        answer = self.next_packet(began + seconds)
        if answer is None or not answer[0] & SYN:
            raise SystemExit("the server does not answer")
        self.theirs = answer[1]
        self.send(ACK | PUSH, 0, b"?")
        while self.held < size:
            until = min(began + seconds, self.claims_at or began + seconds)
            packet = self.next_packet(until)
            now = time.monotonic()
            if packet is None:
                if now >= began + seconds:
                    break
                self.claim(size)
                continue
            _, number, length = packet
            if length > 0:
                start = (number - self.theirs - 1) % WHOLE
                self.rows.append((round(now - began, 9), length, start))
                self.take(start, length)
        self.send(ACK | PUSH, self.held, b"!")
        sys.stdout.write(json.dumps(self.rows) + "\n")

    def take(self, start: int, length: int) -> None:
        """Note a data packet's bytes and acknowledge them as the kind of receiver does."""
        is_old = start + length <= self.held
        self.early.append((start, start + length))
        for begins, ends in sorted(self.early):
            if begins <= self.held:
                self.held = max(self.held, ends)
        self.early = [piece for piece in self.early if piece[0] > self.held]
        if self.receiver == "optimistic":
            self.begin_to_claim(is_old)
            return
        news, count = self.held - self.acknowledged, int(self.how_many)
        if self.receiver == "division" and news > 0:
            for piece in range(1, min(count, news) + 1):
                self.send(ACK, self.acknowledged + news * piece // min(count, news))
        else:
            is_first = self.receiver == "first spoofing" and self.acknowledged == 0
            spoofs = news > 0 and (is_first or self.receiver == "spoofing")
            for _ in range(1 + count * spoofs):
                self.send(ACK, self.held)
        self.acknowledged = self.held

    def begin_to_claim(self, is_old: bool) -> None:
        if is_old:  # a retransmission: the claimed data were lost
            self.claimed = self.held
        if self.claims_at is None or is_old:
            self.claimed = max(self.claimed, self.held)
            self.send(ACK, self.claimed)
            self.claims_at = time.monotonic() + self.how_many / 1e3

    def claim(self, size: int) -> None:
        """Acknowledge one more segment, whether it has come or not, and set the time of the next claim."""
        self.claimed = min(max(self.claimed, self.held) + self.segment, size)
        self.send(ACK, self.claimed)
        assert self.claims_at is not None
        self.claims_at += self.how_many / 1e3


if __name__ == "__main__":
    role, *words = sys.argv[1:]
    if role == "serve":
        serve(int(words[0]), int(words[1]), words[2])
    else:
        own, server, port, size, seconds, receiver, how_many, segment, sack = words
        time.sleep(LISTENS_S)
        client = RawSocketClient(own, server, int(port), receiver, float(how_many), int(segment), sack == "sack")
        client.fetch(int(size), float(seconds))
