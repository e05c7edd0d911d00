"""Raft as real processes: `keep` runs and restarts a server; `crash` kills leaders and measures the time without one.

    guest.py LIBRARY keep NAME ADDRESSES      the keeper of one server, in the server's network
    guest.py LIBRARY crash PLAN ADDRESSES     the tester, in a network of its own

LIBRARY is the folder of the package; ADDRESSES and PLAN are JSON. A keeper forks its server at each SIGUSR1, first and
after each kill, which needs no new interpreter. A server's term, vote and log are lines of a file in /run. They are
written and synchronised before a message that depends on them is sent; the duration of a write is a parameter. The
tester and all servers share one kernel, and so one clock.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, sys.argv[1])

from netrepro.applications.datagrams import Post, drive_over_sockets
from netrepro.protocols.machine import Event, Output, Send
from netrepro.protocols.raft import (
    Appended,
    AppendEntries,
    Disk,
    Entry,
    Propose,
    Raft,
    RequestVote,
    Vote,
)

TESTER = "tester"
FOLDER = Path("/run")
SETTING = FOLDER / "setting"


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the tester, valid from now on.

    what "lag" : the value names followers from which the leader withholds entries. "seed" : the value seeds timeouts.
    """

    what: str
    value: Any


@dataclass(frozen=True, slots=True)
class Report:
    """A report to the tester: an event of a server, with its time and process number."""

    time_s: float
    process: int
    kind: str
    value: Any


KINDS = (RequestVote, Vote, AppendEntries, Appended, Entry, Propose, Order, Report)


def journal_of(name: str) -> Path:
    return FOLDER / f"raft-{name}"


def post_of(name: str, addresses: dict[str, str]) -> Post:
    places = {each: (address, 7000) for each, address in addresses.items()}
    return Post(places, places[name], KINDS)


# A server.


class Journal:
    """Stable storage: a file with one line for each change (term, vote, number of log entries kept, new entries)."""

    def __init__(self, name: str):
        self.path = journal_of(name)
        log: list[Entry] = []
        term, voted_for = 0, None
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            term, voted_for, kept, added = json.loads(line)
            log[kept:] = [Entry(*each) for each in added]
        self.disk = Disk(term, voted_for, tuple(log))
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._written = self._state()

    def _state(self) -> tuple[int, Any, tuple[Entry, ...]]:
        return self.disk.term, self.disk.voted_for, self.disk.log

    def save(self) -> None:
        """Write and synchronise the changes, if there are any."""
        if (state := self._state()) == self._written:
            return
        term, voted_for, log = state
        pairs = enumerate(zip(log, self._written[2], strict=False))
        kept = next((place for place, (new, old) in pairs if new != old), min(len(log), len(self._written[2])))
        line = [term, voted_for, kept, [(entry.term, entry.command) for entry in log[kept:]]]
        os.write(self.file, json.dumps(line).encode() + b"\n")
        os.fsync(self.file)
        self._written = state


class Server:
    """The machine of `netrepro.protocols.raft` with a file as its disk; it reports to the tester and obeys it."""

    def __init__(self, name: str, peers: list[str], setting: dict[str, Any], starts: int):
        self.journal, self.lagging, own = Journal(name), (), f"{setting['seed']} {name} {starts}"
        self.timeouts, writes, late = Random(own), Random(f"{own} writes"), Random(f"{own} late")

        def delayed(mean_s: float, random: Random) -> float:
            return random.expovariate(1 / mean_s) if mean_s else 0.0

        def timeout_s() -> float:
            drawn = self.timeouts.uniform(setting["least_s"], setting["greatest_s"])
            if setting["whole_ms"]:
                drawn = math.floor(1e3 * drawn + 0.5) / 1e3
            return drawn + delayed(setting["timer_late_s"], late)

        self.machine = Raft(
            name,
            peers,
            self.journal.disk,
            election_timeout_s=timeout_s,
            heartbeat_s=setting["heartbeat_s"],
            write_s=lambda: setting["least_write_s"] + delayed(setting["extra_write_s"], writes),
            two_writes=setting["two_writes"],
        )

    @property
    def wake_at_s(self) -> float:
        return self.machine.wake_at_s

    def start(self, now_s: float) -> Iterable[Output]:
        return [Send(TESTER, Report(now_s, os.getpid(), "started", None)), *self.machine.start(now_s)]

    def receive(self, now_s: float, sender: Any, message: Any) -> Iterable[Output]:
        if not isinstance(message, Order):
            return self._put_out(now_s, self.machine.receive(now_s, sender, message))
        if message.what == "lag":
            self.lagging = message.value
        else:
            self.timeouts = Random(str(message.value))
        return ()

    def wake(self, now_s: float) -> Iterable[Output]:
        return self._put_out(now_s, self.machine.wake(now_s))

    def _put_out(self, now_s: float, outputs: Iterable[Output]) -> Iterable[Output]:
        self.journal.save()
        for output in outputs:
            if isinstance(output, Event):
                yield Send(TESTER, Report(now_s, os.getpid(), output.kind, output.value))
            elif output.to in self.lagging and isinstance(output.message, AppendEntries):
                yield Send(output.to, replace(output.message, entries=()))
            else:
                yield output


def keep(name: str, addresses: dict[str, str]) -> None:
    """Start the server at every SIGUSR1, after its previous process has ended, until SIGTERM."""
    signals = {signal.SIGUSR1, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    (FOLDER / f"keeper-{name}").write_text(str(os.getpid()))
    peers = [each for each in addresses if each not in (name, TESTER)]
    starts = 0
    while signal.sigwait(signals) == signal.SIGUSR1:
        if starts:
            os.wait()
        starts += 1
        if os.fork() == 0:
            server = Server(name, peers, json.loads(SETTING.read_text()), starts)
            drive_over_sockets({name: server}, post_of(name, addresses), lambda *_: None)


# The tester.


class Cluster:
    """The tester's view of the servers, and its means to start, kill and order them."""

    def __init__(self, addresses: dict[str, str]):
        self.names = [name for name in addresses if name != TESTER]
        self.post = post_of(TESTER, addresses)
        self.keepers: dict[str, int] = {}
        self.processes: dict[str, int] = {}
        self.forget(0)

    def forget(self, seed: int) -> None:
        """Reset the view: the servers begin anew."""
        self.random = Random(seed)
        self.alive: set[str] = set()
        self.leads: dict[int, str] = {}  # term -> leader
        self.heard: dict[str, tuple[int, str]] = {}  # server -> term and name of the last leader that it heard
        self.applied: dict[str, str] = {}  # server -> last command
        self.reports: list[tuple[str, int, float, str, Any]] = []  # name, process, time, kind, value

    def find_keepers(self) -> None:
        """Wait until all keepers have written their process numbers, and read these."""
        while len(self.keepers) < len(self.names):
            time.sleep(0.001)
            for name in self.names:
                file = FOLDER / f"keeper-{name}"
                if file.exists() and (content := file.read_text()):
                    self.keepers[name] = int(content)

    def listen(self, until_s: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Handle reports until `until` holds or the time `until_s` comes; return whether `until` holds."""
        while not until():
            left_s = until_s - time.monotonic()
            letter = self.post.wait(left_s) if left_s > 0 else None
            if letter is None:
                return False
            name, _, report = letter
            self._note(str(name), report)
        return True

    def _note(self, name: str, report: Report) -> None:
        self.processes[name] = report.process
        self.reports.append((name, report.process, report.time_s, report.kind, report.value))
        if report.kind == "leader":
            self.leads[report.value] = name
            self.heard[name] = (report.value, name)
        elif report.kind == "follows":
            self.heard[name] = report.value
        elif report.kind == "applied":
            self.applied[name] = report.value[1]

    def leader(self) -> str | None:
        """Name the leader that all live servers have heard in the same term; None if there is none."""
        known = {self.heard.get(name) for name in self.alive}
        _, leader = known.pop() or (0, None)
        return leader if not known and leader in self.alive else None

    def start(self, names: Iterable[str]) -> None:
        for name in names:
            self.heard.pop(name, None)
            self.applied.pop(name, None)
            self.alive.add(name)
            os.kill(self.keepers[name], signal.SIGUSR1)

    def kill(self, names: Iterable[str]) -> None:
        for name in names:
            self.alive.discard(name)
            os.kill(self.processes[name], signal.SIGKILL)

    def wait_for_leader(self) -> str:
        if not self.listen(time.monotonic() + LONGEST_S, lambda: self.leader() is not None):
            raise SystemExit(f"no leader after {LONGEST_S:g} s")
        leader = self.leader()
        assert leader is not None
        return leader

    def propose(self, name: str, command: str) -> None:
        self.post.send(TESTER, name, Propose(command))

    def order(self, name: str, what: str, value: Any) -> None:
        self.post.send(TESTER, name, Order(what, value))


LAST = "last"
ATTEMPTS = 100
COMMITTED_WITHIN_S = 2.0
LONGEST_S = 1000.0  # longest wait for a leader


def ready_leader(cluster: Cluster, case: dict[str, Any], number: int, followers: list[str]) -> bool:
    """Give the leader a new command, and tell whether the leader is ready to be killed.

    It is ready if a majority has the new command but the first `lagging` followers lack it, and if it still leads at a
    random time between two heartbeats. With `one_seed`, all servers then draw their timeouts from the same sequence.
    """
    leader = cluster.leader()
    if leader is None:
        return False
    cluster.order(leader, "lag", followers[: case["lagging"]])
    cluster.propose(leader, str(number))
    cluster.listen(time.monotonic() + COMMITTED_WITHIN_S, lambda: cluster.applied.get(leader) == str(number))
    for name in cluster.names if case["one_seed"] else ():
        cluster.order(name, "seed", number)
    cluster.listen(time.monotonic() + case["heartbeat_s"] * cluster.random.uniform(1, 2))
    return cluster.leader() == leader and cluster.applied.get(leader) == str(number)


def trial(cluster: Cluster, case: dict[str, Any], number: int) -> dict[str, Any]:
    """Kill the leader together with `victims` - 1 followers, and wait until all survivors have heard one new leader or
    longest_s seconds have passed. The victims are then restarted."""
    while True:
        leader = cluster.wait_for_leader()
        cluster.listen(time.monotonic() + case["settle_s"])
        followers = cluster.random.sample([name for name in cluster.names if name != leader], len(cluster.names) - 1)
        if cluster.leader() == leader and ready_leader(cluster, case, number, followers):
            break
        cluster.order(leader, "lag", ())
    term, seen, killed_s = max(cluster.leads), len(cluster.reports), time.monotonic()
    victims = [leader, *followers[len(followers) + 1 - case["victims"] :]]
    cluster.kill(victims)
    elected = cluster.listen(killed_s + case["longest_s"], lambda: cluster.leader() is not None)
    news = (max(cluster.leads), cluster.leader())
    heard = [at_s for _, _, at_s, kind, value in cluster.reports[seen:] if kind == "follows" and value == news]
    for name in cluster.alive if case["one_seed"] else ():
        cluster.order(name, "seed", f"{number} {name}")
    cluster.start(victims)
    return {
        "command": str(number),
        "killed": victims,
        "elected": elected,
        "terms": news[0] - term,
        "without_leader_s": max(heard) - killed_s if elected else case["longest_s"],
    }


def log_of(name: str) -> tuple[Entry, ...]:
    """Read the log from a server's disk."""
    return Journal(name).disk.log


def level_logs(cluster: Cluster, heartbeat_s: float) -> None:
    """Replicate a last command, and with it all earlier ones, to every disk.

    No follower lags any more. A deposed leader may lose its command, so each attempt uses a new one. The disks are
    checked, because a follower reports a command as applied before its own write has ended.
    """
    for attempt in range(ATTEMPTS):
        last = f"{LAST} {attempt}"
        leader = cluster.wait_for_leader()
        for name in cluster.names:
            cluster.order(name, "lag", ())
        cluster.propose(leader, last)
        end_s = time.monotonic() + COMMITTED_WITHIN_S
        while time.monotonic() < end_s:
            cluster.listen(time.monotonic() + heartbeat_s)
            if all(log and log[-1].command == last for log in map(log_of, cluster.names)):
                return
    raise SystemExit(f"no command has reached every disk in {ATTEMPTS} attempts")


def crashes(cluster: Cluster, case: dict[str, Any]) -> dict[str, Any]:
    """Run a case's trials on servers with empty disks; return the trials, all reports, and the logs at the end."""
    for name in cluster.names:
        journal_of(name).unlink(missing_ok=True)
    SETTING.write_text(json.dumps(case))
    cluster.forget(case["seed"])
    cluster.start(cluster.names)
    trials = [trial(cluster, case, number) for number in range(case["trials"])]
    level_logs(cluster, case["heartbeat_s"])
    cluster.kill(cluster.names)
    cluster.listen(time.monotonic() + case["settle_s"])  # late reports must not count in the next case
    logs = {name: [(entry.term, entry.command) for entry in log_of(name)] for name in cluster.names}
    return {"trials": trials, "reports": cluster.reports, "logs": logs}


def crash(cases: list[dict[str, Any]], addresses: dict[str, str]) -> None:
    """Run every case and write its result as a line of JSON."""
    cluster = Cluster(addresses)
    cluster.find_keepers()
    for case in cases:
        sys.stdout.write(json.dumps(crashes(cluster, case)) + "\n")
        sys.stdout.flush()
    for keeper in cluster.keepers.values():
        os.kill(keeper, signal.SIGTERM)


if __name__ == "__main__":
    what, first, addresses = sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    if what == "keep":
        keep(first, addresses)
    else:
        crash(json.loads(first), addresses)
