"""A program that measures the network from a host: `probe.py QUESTION ARGUMENTS...` prints the answer as JSON.

| question                              | answer                                                                     |
|---------------------------------------|----------------------------------------------------------------------------|
| ping COUNT TIMEOUT_S NAME=ADDRESS ... | {name: [round trips in ms]}                                                |
| lost COUNT INTERVAL_S ADDRESS         | the share of pings without an answer, sent without waiting for any         |
| largest ADDRESS                       | the bytes of the largest IP packet that is answered and never fragmented   |
| way ADDRESS                           | addresses that answer pings with a growing hop limit; null for no answer   |
| opens ADDRESS PORT                    | whether a TCP connection is accepted                                       |
| addresses                             | the host's own addresses, IPv4 and IPv6                                    |
| receive ADDRESS PORT                  | rate (Mb/s) of the payload of one TCP connection in 2 s, after 1 s         |
| send ADDRESS PORT                     | null, once the receiver has closed the connection                          |

Pings use raw sockets, so that no program has to be installed; the other host's kernel answers them. The program uses
only the standard library.
"""

import json
import os
import select
import socket
import struct
import sys
import time

REPLY, UNREACHABLE, REQUEST, TIME_EXCEEDED = 0, 3, 8, 11
IPV6_REQUEST, IN_IPV4 = 128, {129: REPLY, 1: UNREACHABLE, 2: UNREACHABLE, 3: TIME_EXCEEDED}  # 2: packet too big
PAYLOAD_BYTES, HEADER_BYTES, IPV6_HEADER_BYTES, MOST_BYTES, MOST_HOPS, TRIES = 56, 28, 48, 65_535, 30, 3
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, NEVER_FRAGMENT, IPV6_NEVER_FRAGMENT = 10, 23, 3, 62
TIMEOUT_S, PATIENCE_S, WARM_UP_S, MEASURED_S = 1.0, 5.0, 1.0, 2.0


def checksum(content: bytes) -> int:
    """Compute the Internet checksum: the complement of the sum of 16-bit words."""
    content += bytes(len(content) % 2)
    total = sum(struct.unpack(f"!{len(content) // 2}H", content))
    while total >> 16:
        total = (total >> 16) + (total & 0xFFFF)
    return ~total & 0xFFFF


def is_ipv6(address: str) -> bool:
    """Tell whether the address is an IPv6 address."""
    return ":" in address


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of sockets for the address."""
    return socket.AF_INET6 if is_ipv6(address) else socket.AF_INET


def open_raw(address: str) -> socket.socket:
    """Open a socket for pings to the address."""
    protocol = socket.IPPROTO_ICMPV6 if is_ipv6(address) else socket.IPPROTO_ICMP
    return socket.socket(family_of(address), socket.SOCK_RAW, protocol)


def request(address: str, number: int, payload_bytes: int) -> bytes:
    """Make an ICMP echo request; for IPv6 the kernel writes the checksum."""
    kind = IPV6_REQUEST if is_ipv6(address) else REQUEST
    header, payload = struct.pack("!BBHHH", kind, 0, 0, os.getpid() & 0xFFFF, number), bytes(payload_bytes)
    return header[:2] + struct.pack("!H", checksum(header + payload)) + header[4:] + payload


def answer_in(address: str, packet: bytes) -> tuple[int, int]:
    """Return (type, sequence number) of an ICMP message that answers a request of this process, else (-1, -1).

    The types are those of IPv4 for both families. address : destination of the request.
    """
    ipv6 = is_ipv6(address)
    at = 0 if ipv6 else 4 * (packet[0] & 15)  # an IPv6 socket delivers no IP header
    kind = IN_IPV4.get(packet[at], -1) if ipv6 else packet[at]
    if kind in (UNREACHABLE, TIME_EXCEEDED):  # it quotes the beginning of the packet that caused it
        inner = at + 8
        at = inner + (40 if ipv6 else 4 * (packet[inner] & 15))
        if packet[at] != (IPV6_REQUEST if ipv6 else REQUEST):
            return -1, -1
    elif kind != REPLY:
        return -1, -1
    own, number = struct.unpack_from("!HH", packet, at + 4)
    return (kind, number) if own == os.getpid() & 0xFFFF else (-1, -1)


def echo(
    address: str, number: int, timeout_s: float, payload_bytes: int = PAYLOAD_BYTES, hops: int = 64, whole: bool = False
) -> tuple[int, float, str]:
    """Send a ping; return (type of the answer, round trip in ms, address that answered), (-1, 0, "") for no answer.

    whole : True to never fragment the ping. The type is UNREACHABLE for a ping too large for the host's own link.
    """
    with open_raw(address) as opened:
        if is_ipv6(address):
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
            opened.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, NEVER_FRAGMENT)
            opened.setsockopt(socket.IPPROTO_IPV6, IPV6_NEVER_FRAGMENT, int(whole))
        else:
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
            if whole:
                opened.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, NEVER_FRAGMENT)
        began = time.monotonic()
        try:
            opened.sendto(request(address, number, payload_bytes), (address, 0))
        except OSError:  # no route, or too large
            return UNREACHABLE, 0.0, ""
        while (left_s := began + timeout_s - time.monotonic()) > 0:
            if not select.select([opened], [], [], left_s)[0]:
                break
            packet, (by, *_) = opened.recvfrom(MOST_BYTES)
            kind, which = answer_in(address, packet)
            if which == number:
                return kind, (time.monotonic() - began) * 1e3, by
        return -1, 0.0, ""


def ping(count: int, timeout_s: float, targets: dict[str, str]) -> dict[str, list[float]]:
    """Ping every target `count` times, one after the other; return name -> round trips of the answers (ms)."""
    trips = {}
    for name, address in targets.items():
        answers = [echo(address, number, timeout_s) for number in range(count)]
        trips[name] = [trip for kind, trip, _ in answers if kind == REPLY]
    return trips


def lost(count: int, interval_s: float, address: str) -> float:
    """Send pings at even intervals; return the share without an answer one second after the last ping."""
    answered = set()
    with open_raw(address) as opened:
        began = time.monotonic()
        for number in range(count + 1):
            if number < count:
                opened.sendto(request(address, number, PAYLOAD_BYTES), (address, 0))
            until = began + (number + 1) * interval_s + (TIMEOUT_S if number == count else 0.0)
            while (left_s := until - time.monotonic()) > 0 and select.select([opened], [], [], left_s)[0]:
                kind, which = answer_in(address, opened.recv(MOST_BYTES))
                if kind == REPLY:
                    answered.add(which)
    return 1 - len(answered) / count


def largest(address: str) -> int:
    """Return the size (bytes) of the largest IP packet that is answered and never fragmented; 0 for no answer."""
    header_bytes = IPV6_HEADER_BYTES if is_ipv6(address) else HEADER_BYTES

    def passes(size_bytes: int) -> bool:
        for number in range(TRIES):
            kind, _, _ = echo(address, number, TIMEOUT_S, size_bytes - header_bytes, whole=True)
            if kind != -1:
                return kind == REPLY
        return False

    fits, too_large = header_bytes, MOST_BYTES + 1
    if not passes(fits):
        return 0
    while too_large - fits > 1:
        middle = (fits + too_large) // 2
        fits, too_large = (middle, too_large) if passes(middle) else (fits, middle)
    return fits


def way(address: str) -> list[str | None]:
    """List the addresses that answer pings with a growing hop limit, None for no answer.

    The list ends with the address itself, after MOST_HOPS hops or after three silent hops in a row.
    """
    routers: list[str | None] = []
    for hops in range(1, MOST_HOPS + 1):
        answers = (echo(address, number, TIMEOUT_S, hops=hops) for number in range(TRIES))
        kind, _, by = next((each for each in answers if each[0] != -1), (-1, 0.0, ""))
        routers.append(by or None)
        if kind in (REPLY, UNREACHABLE) or routers[-TRIES:] == [None] * TRIES:
            break
    return routers


def opens(address: str, port: int) -> bool:
    """Tell whether a TCP connection is accepted."""
    try:
        with socket.create_connection((address, port), TIMEOUT_S):
            return True
    except OSError:
        return False


def addresses() -> list[str]:
    """List the host's IPv4 and IPv6 addresses, without loopback."""
    known, last = set(), ""
    with open("/proc/net/fib_trie", encoding="ascii") as table:  # noqa: PTH123  it starts faster without pathlib
        for line in table:
            words = line.split()
            if words[0] == "|--":
                last = words[1]
            elif words[:3] == ["/32", "host", "LOCAL"] and not last.startswith("127."):
                known.add(last)
    return sorted(known) + sorted(ipv6_addresses())


def ipv6_addresses() -> list[str]:
    """List the host's IPv6 addresses, without loopback."""
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as table:  # noqa: PTH123
            rows = [line.split() for line in table]
    except OSError:  # a kernel without IPv6
        return []
    packed = [bytes.fromhex(row[0]) for row in rows if row[5] != "lo"]
    return [socket.inet_ntop(socket.AF_INET6, each) for each in packed]


def receive(address: str, port: int) -> float:
    """Accept a TCP connection and return the rate of its payload (Mb/s) after a warm-up; 0 for no connection."""
    with socket.create_server((address, port), family=family_of(address)) as door:
        door.settimeout(PATIENCE_S)
        try:
            opened, _ = door.accept()
        except TimeoutError:
            return 0.0
    came, began = 0, time.monotonic()
    with opened:
        opened.settimeout(WARM_UP_S + MEASURED_S)
        while (now := time.monotonic()) < began + WARM_UP_S + MEASURED_S:
            try:
                size = len(opened.recv(1 << 18))
            except TimeoutError:
                break
            if size == 0:
                break
            came += size if now >= began + WARM_UP_S else 0
    return came * 8e-6 / MEASURED_S


def send(address: str, port: int) -> None:
    """Send by TCP until the receiver closes the connection, PATIENCE_S at most."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            with socket.create_connection((address, port), PATIENCE_S) as opened:
                while time.monotonic() < until:
                    opened.sendall(bytes(1 << 16))
        except ConnectionRefusedError:  # the receiver does not listen yet
            time.sleep(0.02)
        except OSError:
            return


def main(question: str, *words: str) -> object:
    """Answer one question of the table above."""
    if question == "ping":
        return ping(int(words[0]), float(words[1]), dict(word.split("=") for word in words[2:]))
    if question == "lost":
        return lost(int(words[0]), float(words[1]), words[2])
    if question == "addresses":
        return addresses()
    if question in ("largest", "way"):
        return {"largest": largest, "way": way}[question](words[0])
    return {"opens": opens, "receive": receive, "send": send}[question](words[0], int(words[1]))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
