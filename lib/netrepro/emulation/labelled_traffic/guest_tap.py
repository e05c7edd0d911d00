"""Writes a capture of both directions of an interface: Ethernet, IPv4 and TCP headers, never a byte of payload."""

from __future__ import annotations

import socket
import struct

from guest_common import begin, say, told_to_stop

SO_RCVTIMEO, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 20, 33, 35
SOL_PACKET, PACKET_STATISTICS, ETH_P_ALL = 263, 6, 3
ETHERNET_BYTES, MOST_HEADERS_BYTES = 14, 14 + 60 + 60


def main() -> None:
    work = begin()
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    try:
        tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)
    except PermissionError:  # without root the kernel's limit holds
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 28)
    tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVTIMEO, struct.pack("=qq", 0, 200_000))
    tap.bind((work["interface"], ETH_P_ALL))
    stopped = told_to_stop()
    frame = bytearray(MOST_HEADERS_BYTES)
    packets = 0
    with open(work["capture"], "wb", buffering=1 << 20) as capture:  # noqa: PTH123
        capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, MOST_HEADERS_BYTES, 1))
        say("ready")
        while True:
            try:
                wire_bytes, extra, _, _ = tap.recvmsg_into([frame], 64, socket.MSG_TRUNC)
            except BlockingIOError:
                if stopped.is_set():
                    break
                continue
            if frame[12:14] != b"\x08\x00" or frame[23] != 6:
                continue
            tcp = ETHERNET_BYTES + 4 * (frame[14] & 15)
            headers = tcp + 4 * (frame[tcp + 12] >> 4)
            seconds, nanoseconds = struct.unpack("=qq", extra[0][2])
            capture.write(struct.pack("<IIII", seconds, nanoseconds // 1000, headers, wire_bytes) + frame[:headers])
            packets += 1
    missed = struct.unpack("=II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    say({"packets": packets, "missed": missed})


main()
