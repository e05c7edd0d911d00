"""Capturing both directions of an interface: Ethernet, IPv4 and TCP headers, never a byte of payload."""

from __future__ import annotations

import mmap
import select
import socket
import struct

from common import begin, say, told_to_stop

SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, ETH_P_ALL = 263, 5, 6, 10, 3
SO_TIMESTAMPNS, TPACKET_V2 = 35, 1
ETHERNET_BYTES, MOST_HEADERS_BYTES = 14, 14 + 60 + 60
# The kernel fills a ring, which has room for the packets of the seconds in which a busy machine does not run this
# program. A socket's buffer would hold only hundreds to thousands of packets without root (net.core.rmem_max).
FRAME_BYTES, FRAMES, BLOCK_BYTES = 256, 1 << 17, 1 << 16
FRAME = struct.Struct("=IIIHHII")  # status, packet bytes, captured bytes, its offset, IP's offset, s, ns


def main() -> None:
    work = begin()
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # receives nothing until it is bound
    tap.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
    tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    size = FRAMES * FRAME_BYTES
    shape = struct.pack("=4I", BLOCK_BYTES, size // BLOCK_BYTES, FRAME_BYTES, FRAMES)
    tap.setsockopt(SOL_PACKET, PACKET_RX_RING, shape)
    ring = mmap.mmap(tap.fileno(), size)
    tap.bind((work["interface"], ETH_P_ALL))
    stopped = told_to_stop()
    packets = at = 0
    with open(work["capture"], "wb", buffering=1 << 20) as capture:  # noqa: PTH123
        capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, MOST_HEADERS_BYTES, 1))
        say("ready")
        while True:
            is_last_look = stopped.is_set()
            status, wire_bytes, _, start, _, seconds, nanoseconds = FRAME.unpack_from(ring, at)
            if not status & 1:
                if is_last_look:
                    break
                select.select([tap], [], [], 0.2)
                continue
            frame = ring[at + start : at + start + MOST_HEADERS_BYTES]
            ring[at : at + 4] = b"\0\0\0\0"  # give the frame back to the kernel
            at = (at + FRAME_BYTES) % size
            if frame[12:14] != b"\x08\x00" or frame[23] != 6:
                continue
            tcp = ETHERNET_BYTES + 4 * (frame[14] & 15)
            headers = tcp + 4 * (frame[tcp + 12] >> 4)
            capture.write(struct.pack("<IIII", seconds, nanoseconds // 1000, headers, wire_bytes) + frame[:headers])
            packets += 1
    missed = struct.unpack("=II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
    say({"packets": packets, "missed": missed})


main()
