"""Failures of CDN sites among BIRD daemons: guest.py ASKED FOUND, a standard-library script in the virtual kernel.

It relays the daemons' messages, as `netrepro.applications.bgp.run.run_failures` describes, tells the daemons what to
announce, and sends and counts pings. One process serves all namespaces.
"""

import ctypes
import heapq
import json
import os
import re
import resource
import selectors
import socket
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NETWORK = 0x40000000
HEADER_BYTES, UPDATE = 19, 2  # RFC 4271, section 4.1; an update goes on with the length of its withdrawn prefixes
FIRST_RELAY_PORT = 2000
PING_PORT = 7
FILES = 65536
QUIET_S = 2.0  # time without an update after which routing counts as converged
LONGEST_S = 600.0
ON_THE_WAY_S = 3.0  # longest time that a ping may take


class Lab:
    def __init__(self, asked):
        self.asked, self.namespaces = asked, {int(key): each for key, each in asked["namespaces"].items()}
        self.addresses = {int(key): each for key, each in asked["addresses"].items()}
        self.delays_s = {int(key): each for key, each in asked["delays_s"].items()}
        self.selector = selectors.DefaultSelector()
        self.due, self.order = [], count()
        self.drawn = None  # AS -> number of delays used so far; None: no delays
        self.updates, self.last_update_s, self.relays, self.waiting = 0, time.monotonic(), 0, 0
        self.heard = {}  # (client, ping) -> site
        self.near = {}
        self.inside = None

    # Sockets.

    def enter(self, number):
        if self.inside != number:
            with Path(self.namespaces[number]).open() as file:
                if LIBC.setns(file.fileno(), NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), f"no way into the namespace of AS {number}")
            self.inside = number

    def listen(self, number, address, port, then):
        self.enter(number)
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen()
        self.selector.register(server, selectors.EVENT_READ, lambda: then(server.accept()[0]))

    def dial(self, number, source, address, port):
        self.enter(number)
        opened = socket.socket()
        if source:
            opened.bind((source, 0))
        opened.connect((address, port))
        return opened

    # Sessions: BIRD of a - relay of a - link - relay of b - BIRD of b. Each relay delays updates from the link.

    def join(self, a, b, place_a, place_b):
        relay_port, port = FIRST_RELAY_PORT + place_b, self.asked["port"]

        def from_bird(near):
            far = self.dial(a, None, self.addresses[b], relay_port)
            self.pipe(near, far, None)
            self.pipe(far, near, a)

        def from_link(far):
            near = self.dial(b, f"127.0.2.{place_b}", f"127.0.1.{place_b}", port)
            self.pipe(near, far, None)
            self.pipe(far, near, b)
            self.relays += 1

        self.listen(b, self.addresses[b], relay_port, from_link)
        self.listen(a, f"127.0.2.{place_a}", port, from_bird)

    def pipe(self, source, sink, receiver):
        """Forward data from source to sink; with a receiver (an AS), updates wait for this AS's processing time."""
        source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        left, in_order_s = bytearray(), 0.0

        def readable():
            nonlocal in_order_s
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                raise RuntimeError(f"a session of AS {receiver} ended")
            if receiver is None:
                sink.sendall(data)
                return
            left.extend(data)
            while len(left) >= HEADER_BYTES and len(left) >= (size := left[16] << 8 | left[17]):
                message, kind = bytes(left[:size]), left[18]
                del left[:size]
                if kind == UPDATE:
                    self.updates += 1
                    self.last_update_s = now = time.monotonic()
                    if self.drawn is not None:
                        values, place = self.delays_s[receiver], self.drawn.get(receiver, 0)
                        self.drawn[receiver] = place + 1
                        withdraws = any(message[HEADER_BYTES : HEADER_BYTES + 2])
                        share = 1.0 if withdraws else self.asked["announcement_share"]
                        in_order_s = max(in_order_s, now + share * values[place % len(values)])
                        self.waiting += 1
                        self.at(in_order_s, partial(self.pass_on, sink, message))
                        continue
                sink.sendall(message)

        self.selector.register(source, selectors.EVENT_READ, readable)

    def pass_on(self, sink, message):
        self.waiting -= 1
        self.last_update_s = time.monotonic()
        sink.sendall(message)

    # Time.

    def at(self, time_s, act):
        heapq.heappush(self.due, (time_s, next(self.order), act))

    def run(self, until_s, done=lambda: False):
        while not done():
            now = time.monotonic()
            while self.due and self.due[0][0] <= now:
                heapq.heappop(self.due)[2]()
            if now >= until_s:
                return
            wait_s = min(until_s, self.due[0][0] if self.due else until_s) - now
            for key, _ in self.selector.select(max(wait_s, 1e-6)):
                key.data()

    def settle(self):
        self.last_update_s = time.monotonic()
        until_s = self.last_update_s + LONGEST_S
        while self.waiting or time.monotonic() - self.last_update_s < QUIET_S:
            self.run(time.monotonic() + QUIET_S / 2)
            if time.monotonic() > until_s:
                raise RuntimeError(f"routing does not come to rest within {LONGEST_S:g} s")

    # BIRD.

    def tell(self, number, command):
        control = socket.socket(socket.AF_UNIX)
        control.connect(f"/run/{number}.ctl")
        control.sendall(command.encode() + b"\n")
        said, ends = b"", 0
        while ends < 2:  # BIRD's greeting, and its answer
            more = control.recv(1 << 16)
            if not more:
                raise RuntimeError(f"BIRD of AS {number} went away at {command!r}")
            said += more
            ends = len(re.findall(rb"^\d{4} .*\n", said, re.MULTILINE))
        control.close()
        if re.search(rb"^[89]\d{3} ", said, re.MULTILINE):
            raise RuntimeError(f"BIRD of AS {number} on {command!r}: {said.decode()}")
        return said.decode()

    def announce(self, names):
        for site, wanted in names.items():
            for name in wanted:
                self.tell(int(site), f"enable {name}")

    def paths(self):
        chosen: dict = {}
        for number in self.namespaces:
            said = self.tell(number, "show route primary all")
            own = chosen.setdefault(number, {})
            prefix = None
            for line in said.splitlines():
                if begins := re.search(r"(\d+\.\d+\.\d+\.\d+/\d+)\s+(unicast|blackhole)", line):
                    prefix = begins[1]
                    if begins[2] == "blackhole":
                        own[prefix] = []
                elif (path := re.search(r"BGP\.as_path:([ \d]*)", line)) and own.get(prefix) != []:
                    own[prefix] = [int(each) for each in path[1].split()]
        return chosen

    # Pings.

    def open_ends(self):
        self.senders = {}
        for client in self.asked["clients"]:
            self.enter(client)
            self.senders[client] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for site in self.asked["sites"]:
            self.enter(site)
            LIBC.system(f"ip address add {self.asked['address']}/32 dev lo".encode())
            taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            taken.bind((self.asked["address"], PING_PORT))
            self.selector.register(taken, selectors.EVENT_READ, partial(self.hear, taken, site))

    def hear(self, taken, site):
        client, ping = taken.recv(64).split()
        self.heard[int(client), int(ping)] = site

    def ping(self, clients, number):
        for client in clients:
            try:
                self.senders[client].sendto(b"%d %d" % (client, number), (self.asked["address"], PING_PORT))
            except OSError:
                pass  # the client has no route

    def fail(self, failure):
        failed = failure["failed"]
        self.drawn, self.heard = None, {}
        self.announce(failure["before"])
        self.settle()
        paths = [self.paths()] if failure["first"] else []
        self.ping(self.asked["clients"], -1)
        self.run(time.monotonic() + ON_THE_WAY_S)
        before = {client: self.heard.get((client, -1), 0) for client in self.asked["clients"]}
        going = {client for client, site in before.items() if site == failed}
        if failure["first"]:
            self.near[failed] = going
        clients = sorted(going & self.near[failed])
        began, updates = time.monotonic(), self.updates
        self.last_update_s = began
        self.drawn = {} if failure["delayed"] else None
        for name in failure["before"][str(failed)]:
            self.tell(failed, f"disable {name}")
        if failure["after"]:
            self.at(began + failure["reacts_after_s"], partial(self.announce, failure["after"]))
        reacted_s = began + failure["reacts_after_s"]
        pings = 0
        for ping_s in failure["pings_s"]:
            self.run(began + ping_s)
            if not self.waiting and time.monotonic() > max(self.last_update_s, reacted_s) + ON_THE_WAY_S + QUIET_S:
                break  # no table changes any more: later pings would arrive where the last one did
            self.ping(clients, pings)
            pings += 1
        self.run(time.monotonic() + ON_THE_WAY_S)
        self.settle()
        answers = {client: [self.heard.get((client, number), 0) for number in range(pings)] for client in clients}
        answers = {client: [0 if site == failed else site for site in those] for client, those in answers.items()}
        if failure["first"]:
            paths.append(self.paths())
        updates = self.updates - updates
        self.drawn = None
        for site in self.asked["sites"]:
            for name in self.asked["announcements"]:
                self.tell(site, f"disable {name}")
        self.settle()
        return {"before": before, "answers": answers, "paths": paths, "updates": updates}

    def work(self):
        for session in self.asked["sessions"]:
            self.join(*session)
        self.run(time.monotonic() + LONGEST_S, lambda: self.relays == len(self.asked["sessions"]))
        if self.relays < len(self.asked["sessions"]):
            raise RuntimeError(f"{self.relays} of {len(self.asked['sessions'])} sessions came up")
        self.run(time.monotonic() + 5.0)
        self.open_ends()
        return {"failures": [self.fail(each) for each in self.asked["failures"]]}


def main(asked, into):
    os.environ.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    lab = Lab(json.loads(Path(asked).read_text()))
    try:
        outcome = lab.work()
    except (OSError, RuntimeError) as error:
        outcome = {"problem": str(error)}
    Path(into).write_text(json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
