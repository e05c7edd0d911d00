"""Running real Raft in real time: etcd servers on this machine's loopback, whose leader can be killed."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from netrepro.applications.etcd.server import Timing, server_command
from netrepro.errors import NetreproError
from netrepro.programs import need_program

_ANSWERS_WITHIN_S = 1.0


class EtcdCluster:
    """A cluster of etcd servers, to be used in a `with`, at whose end they are killed and their data removed.

    The data are in memory where the machine has /dev/shm, so that no disk delays an election. The processes also end
    with their parent. Raises NetreproError if etcd is not installed, for timeouts that etcd refuses, and if no leader
    is elected within 30 s.
    """

    def __init__(self, servers: int = 5, heartbeat_ms: int = 15, election_ms: int = 150):
        self.names = [f"netrepro{place}" for place in range(servers)]
        self._timing = Timing(heartbeat_ms, election_ms)
        self._processes: dict[str, subprocess.Popen] = {}
        self._clients: dict[str, http.client.HTTPConnection] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> EtcdCluster:
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with self._stack as stack:  # cleans up if a later step fails
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="netrepro-etcd-", dir=memory)))
            stack.callback(self._end)
            ports = _free_ports(2 * len(self.names))
            self._ports = dict(zip(self.names, ports[::2], strict=True))
            self._peers = dict(zip(self.names, ports[1::2], strict=True))
            for name in self.names:
                self._start(name)
            self._wait_for_leader()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def time_without_leader_s(self, crash_after_s: float, longest_s: float = 30.0) -> float:
        """Kill the leader (SIGKILL) after `crash_after_s`; return the seconds until all others know one new leader. The
        killed server is then restarted.

        Servers are asked in turn, without a pause; a round takes some milliseconds. Raises NetreproError if there is no
        new leader within `longest_s`.
        """
        while True:
            killed, leader_id = self._wait_for_leader()
            time.sleep(crash_after_s)
            if self._status(killed).get("leader") == leader_id:  # still the leader: a busy machine may have lost it
                break
        self._processes[killed].kill()
        start = time.monotonic()
        others = [name for name in self.names if name != killed]
        while True:
            leaders = {self._status(name).get("leader") for name in others}
            if len(leaders) == 1 and not leaders & {None, "0", leader_id}:
                passed = time.monotonic() - start
                break
            if time.monotonic() - start > longest_s:
                raise NetreproError(f"etcd had no new leader in {longest_s:g} s", "is the machine overloaded?")
        self._processes[killed].wait()
        self._clients.pop(killed).close()
        self._start(killed)
        return passed

    def _start(self, name: str) -> None:
        peers = {each: f"127.0.0.1:{port}" for each, port in self._peers.items()}
        server = server_command(name, self._folder, f"127.0.0.1:{self._ports[name]}", peers, self._timing)
        command = [need_program("setpriv"), "--pdeathsig", "KILL", *server, "--log-level=error"]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def _wait_for_leader(self, longest_s: float = 30.0) -> tuple[str, str]:
        """Return (name, id) of the leader 0.1 s (some heartbeats) after all servers name the same one."""
        end = time.monotonic() + longest_s
        while time.monotonic() < end:
            answers = {name: self._status(name) for name in self.names}
            leaders = {answer.get("leader") for answer in answers.values()}
            if len(leaders) == 1 and leaders != {None}:
                leader = str(leaders.pop())
                for name, answer in answers.items():
                    if answer["header"]["member_id"] == leader:
                        time.sleep(0.1)
                        return name, leader
            time.sleep(0.02)
        logs = "".join((self._folder / f"{name}.log").read_text(errors="replace")[-300:] for name in self.names)
        raise NetreproError(f"etcd has no leader after {longest_s:g} s: {logs or 'its logs are empty'}")

    def _status(self, name: str) -> dict[str, Any]:
        """Ask the server for its status; returns {} if it does not answer."""
        client = self._clients.setdefault(
            name, http.client.HTTPConnection("127.0.0.1", self._ports[name], timeout=_ANSWERS_WITHIN_S)
        )
        try:
            client.request("POST", "/v3/maintenance/status", "{}", {"Content-Type": "application/json"})
            answer = json.loads(client.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            client.close()
            return {}
        return answer if "header" in answer else {}

    def _end(self) -> None:
        for client in self._clients.values():
            client.close()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()


def _free_ports(count: int) -> list[int]:
    """Find loopback ports that are free now; another program may still take one before the server does."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
