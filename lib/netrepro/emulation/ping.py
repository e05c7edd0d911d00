"""A program that pings: `ping.py COUNT TIMEOUT_S NAME=ADDRESS ...` prints {NAME: [round trips in ms]} as JSON.

By a raw socket, so that no program need be installed; a kernel answers by itself. The standard library alone.
"""

import json
import os
import select
import socket
import struct
import sys
import time

REQUEST, REPLY = 8, 0
PAYLOAD = bytes(56)


def checksum(content: bytes) -> int:
    """Compute the Internet checksum: the complement of the sum of 16-bit words."""
    total = sum(struct.unpack(f"!{len(content) // 2}H", content))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(address: str, number: int, timeout_s: float) -> float | None:
    """Measure the round trip to an address in ms; None where nothing answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as opened:
        own = os.getpid() & 0xFFFF
        summed = checksum(struct.pack("!BBHHH", REQUEST, 0, 0, own, number) + PAYLOAD)
        began = time.monotonic()
        try:
            opened.sendto(struct.pack("!BBHHH", REQUEST, 0, summed, own, number) + PAYLOAD, (address, 0))
        except OSError:  # no route
            return None
        while (left_s := began + timeout_s - time.monotonic()) > 0:
            if not select.select([opened], [], [], left_s)[0]:
                return None
            packet = opened.recv(2048)
            kind, _, _, theirs, which = struct.unpack_from("!BBHHH", packet, 4 * (packet[0] & 15))
            if (kind, theirs, which) == (REPLY, own, number):
                return (time.monotonic() - began) * 1e3
        return None


def main(count: int, timeout_s: float, targets: dict[str, str]) -> dict[str, list[float]]:
    """Ping every target so many times, one after the other."""
    found = {}
    for name, address in targets.items():
        trips = [ping(address, number, timeout_s) for number in range(count)]
        found[name] = [trip for trip in trips if trip is not None]
    return found


if __name__ == "__main__":
    wanted = dict(word.split("=") for word in sys.argv[3:])
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), float(sys.argv[2]), wanted)))
