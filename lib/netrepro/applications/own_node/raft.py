"""The library's Raft as a node: registers on its log, so that the judge of user-written nodes can judge it, too."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from random import Random
from typing import Any

from netrepro.applications.own_node.program import Board
from netrepro.applications.own_node.run import Scenario, Trial, run_nodes
from netrepro.protocols.judge import COMMIT, LEADER
from netrepro.protocols.machine import Event, Output, Send
from netrepro.protocols.message_log import kind_of
from netrepro.protocols.raft import LEADER as LEADS
from netrepro.protocols.raft import AppendEntries, Disk, Raft
from netrepro.protocols.registers import Refusal, Registers, Request

TIMEOUT_S = (0.15, 0.3)
HEARTBEAT_S = 0.05


class RaftNode:
    """A Raft server that executes the committed commands of its log; reads go through the log, too.

    A leader answers the requests that it got in its present term, once they are applied; other servers refuse.
    """

    def __init__(self, name: str, peers: list[str], seed: int, board: Board):
        self.name, self.board, self.registers = name, board, Registers()
        random = Random(seed)
        disk = board.saved.setdefault(name, Disk())
        self.raft = Raft(
            name, peers, disk, election_timeout_s=lambda: random.uniform(*TIMEOUT_S), heartbeat_s=HEARTBEAT_S
        )
        self._asked: dict[str, tuple[Hashable, int]] = {}  # request -> (client, term)

    @property
    def wake_at_s(self) -> float:
        """The time at which the server wants to be woken."""
        return self.raft.wake_at_s

    def start(self, now_s: float) -> Iterable[Output]:
        """Start the server."""
        return self._executed(now_s, self.raft.start(now_s))

    def wake(self, now_s: float) -> Iterable[Output]:
        """Wake the server."""
        return self._executed(now_s, self.raft.wake(now_s))

    def receive(self, now_s: float, sender: Hashable, message: Any) -> Iterable[Output]:
        """Propose a client's request if this server leads; pass other messages to the server."""
        if not isinstance(message, Request):
            return self._executed(now_s, self.raft.receive(now_s, sender, message))
        if self.raft.role != LEADS:
            return [Send(sender, Refusal(message.id, self.raft.leader))]
        self._asked[message.id] = (sender, self.raft.term)
        return self._executed(now_s, self.raft.propose(now_s, message))

    def _executed(self, now_s: float, outputs: Iterable[Output]) -> list[Output]:
        """Announce the server's events, execute applied commands, and return the messages to send."""
        passed: list[Output] = []
        for output in outputs:
            if not isinstance(output, Event):
                passed.append(output)
            elif output.kind == "leader":
                self.board.announce(now_s, self.name, LEADER, term=output.value)
            elif output.kind == "applied":
                index, request = output.value
                self.board.announce(now_s, self.name, COMMIT, index=index, entry=repr(request))
                reply = self.registers.execute(request)
                client, term = self._asked.pop(request.id, (None, None))
                if client is not None and self.raft.role == LEADS and term == self.raft.term:
                    passed.append(Send(client, reply))
        return passed


def kind_of_raft(message: Any) -> str:
    """Name the kind of a Raft message; an AppendEntries without entries is a heartbeat."""
    is_heartbeat = isinstance(message, AppendEntries) and not message.entries
    return "heartbeat" if is_heartbeat else kind_of(message)


def run_raft(scenario: Scenario) -> Trial:
    """Run the library's Raft as every node of a scenario."""
    return run_nodes(RaftNode, scenario, kind=kind_of_raft)
