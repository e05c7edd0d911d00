"""A node in any language: a process that gets events and answers with actions, over standard input and output.

`line_process` describes the exchange of lines. A node needs no socket: the simulated network carries its messages.

Events (each has `time_s`, the time in seconds):

    {"event": "start", "name": "n1", "peers": ["n2", "n3"], "seed": 17, "saved": null}
        comes first; `saved` is the state that the node saved before its last crash, or null
    {"event": "message", "from": "n2", "message": ...}
    {"event": "timer", "name": "election"}
    {"event": "request", "id": "client1-7", "op": "read", "key": "x"}
        `op` is read, write (with `value`) or cas: set `value` if the register holds `expected`

Actions:

    {"do": "send", "to": "n2", "message": ...}      any JSON; its "kind", if it has one, names it in diagrams
    {"do": "timer", "name": "election", "after_s": 0.2}    sets the timer or changes its time; null cancels it
    {"do": "save", "state": ...}                    this state survives a crash; it is saved at once and completely
    {"do": "reply", "id": "client1-7", "value": 3}  the value read; for a cas true or false: whether it has set
    {"do": "refuse", "id": "client1-7", "leader": "n2"}    it has not happened and never will; leader may be null
    {"do": "leader", "term": 4}                     the node leads this term
    {"do": "commit", "index": 1, "entry": ...}      the entry at this index of the log is agreed for ever
    {"do": "note", "text": "..."}                   a text for diagrams
    {"do": "done"}
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netrepro.applications.line_process import BadAction, Doing, LineProcess
from netrepro.errors import nearest
from netrepro.protocols.judge import COMMIT, LEADER, NOTE
from netrepro.protocols.machine import Output, Send
from netrepro.protocols.registers import CAS, READ, WRITE, Refusal, Reply, Request

MOST_AT_ONCE = 5_000  # largest number of a node's events at the same virtual time
MOST_EVENTS = 100_000  # largest number of a node's events
MOST_MESSAGE_BYTES = 65_507  # largest payload of a UDP datagram over IPv4


@dataclass
class Board:
    """The record of a run for the judge: the nodes' announcements and saved states, and the clients' requests."""

    announced: list[tuple[Any, ...]] = field(default_factory=list)  # rows of ANNOUNCEMENT_COLUMNS
    saved: dict[str, Any] = field(default_factory=dict)  # node -> saved state
    asked: dict[str, tuple[Hashable, str]] = field(default_factory=dict)  # request -> (client, operation)
    lives: dict[str, int] = field(default_factory=dict)  # node -> number of its starts

    def announce(
        self, now_s: float, node: str, kind: str, *, term: Any = None, index: Any = None, entry: Any = None
    ) -> None:
        """Record a node's announcement. kind : LEADER, COMMIT or NOTE. entry : a text."""
        self.announced.append((now_s, node, self.lives.get(node, 1), kind, term, index, entry))

    def leader(self, among: Collection[str]) -> str | None:
        """Name the node of `among` that has announced the highest term; None if none has announced a term."""
        leads = [(row[4], row[0], row[1]) for row in self.announced if row[3] == LEADER and row[1] in among]
        return max(leads)[2] if leads else None


class NodeProgram:
    """A node as a Machine: the process runs until `end`, and answers one event at a time.

    Parameters
    ----------
    command : the program and its arguments.
    seed : seed that is passed to the node, so that runs can be repeated exactly.
    patience_s : largest time in real seconds that the node's answer to an event may take.

    Raises NetreproError as LineProcess does, and for a node with too many events.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        peers: Sequence[str],
        seed: int,
        board: Board,
        *,
        patience_s: float = 10.0,
    ):
        self.name, self.peers, self.seed, self.board = name, list(peers), seed, board
        self._timers: dict[str, tuple[float, int]] = {}
        self._events = self._at_once = self._timers_set = 0
        self._now_s = -1.0
        self._outputs: list[Output] = []
        self._doing: Doing = {
            "send": self._send,
            "timer": self._set_timer,
            "save": self._save,
            "reply": self._reply,
            "refuse": self._refuse,
            "leader": self._lead,
            "commit": self._commit,
            "note": self._note,
        }
        self._process = LineProcess(f"node {name}", command, patience_s=patience_s)

    # The interface of a Machine.

    @property
    def wake_at_s(self) -> float:
        """The time of the next timer."""
        return min((due_s for due_s, _ in self._timers.values()), default=math.inf)

    def start(self, now_s: float) -> list[Output]:
        """Send the node the event "start"."""
        known = {"name": self.name, "peers": self.peers, "seed": self.seed, "saved": self.board.saved.get(self.name)}
        return self._tell(now_s, {"event": "start"} | known)

    def receive(self, now_s: float, sender: Hashable, message: Any) -> list[Output]:
        """Pass a peer's message or a client's Request to the node."""
        if not isinstance(message, Request):
            return self._tell(now_s, {"event": "message", "from": sender, "message": message})
        self.board.asked[message.id] = (sender, message.op)
        asked: dict[str, Any] = {"event": "request", "id": message.id, "op": message.op, "key": message.key}
        if message.op != READ:
            asked["value"] = message.value
        if message.op == CAS:
            asked["expected"] = message.expected
        return self._tell(now_s, asked)

    def wake(self, now_s: float) -> list[Output]:
        """Send the node an event for each timer that has run out, in the order of their times."""
        outputs: list[Output] = []
        while self.wake_at_s <= now_s:
            name = min(self._timers, key=lambda each: self._timers[each])
            del self._timers[name]
            outputs += self._tell(now_s, {"event": "timer", "name": name})
        return outputs

    def end(self) -> str:
        """Kill the process and its children; returns the text that it wrote to standard error."""
        return self._process.end()

    # Events and the node's actions.

    def _tell(self, now_s: float, event: Mapping[str, Any]) -> list[Output]:
        self._at_once = self._at_once + 1 if now_s == self._now_s else 0
        self._events += 1
        self._now_s, self._outputs = now_s, []
        if self._at_once > MOST_AT_ONCE:
            raise self._process.wrong(f"more than {MOST_AT_ONCE:,} events at {now_s:g} s", "set timers to a later time")
        if self._events > MOST_EVENTS:
            raise self._process.wrong(
                f"more than {MOST_EVENTS:,} events by {now_s:g} s", "do nodes answer each other without an end?"
            )
        self._process.tell({"time_s": round(now_s, 9)} | dict(event), self._doing)
        return self._outputs

    def _send(self, action: dict[str, Any]) -> None:
        to, message = action["to"], action["message"]
        if to not in self.peers:
            raise BadAction(f"is a message to {to!r}", nearest(str(to), self.peers))
        if (size := size_bytes(message)) > MOST_MESSAGE_BYTES:
            raise BadAction(f"is a message of {size:,} bytes", f"a datagram holds {MOST_MESSAGE_BYTES:,}: send less")
        self._outputs.append(Send(to, message))

    def _set_timer(self, action: dict[str, Any]) -> None:
        name, after_s = action["name"], action["after_s"]
        if after_s is None:
            self._timers.pop(_text(name, "name"), None)
        elif not isinstance(after_s, (int, float)) or isinstance(after_s, bool) or not 0 <= after_s < math.inf:
            raise BadAction(f"sets a timer after {after_s!r}", "give after_s as seconds from now, 0 or more, or null")
        else:
            self._timers_set += 1
            self._timers[_text(name, "name")] = (self._now_s + after_s, self._timers_set)

    def _save(self, action: dict[str, Any]) -> None:
        self.board.saved[self.name] = action["state"]

    def _reply(self, action: dict[str, Any]) -> None:
        client, op = self._client(action)
        value = None if op == WRITE else action["value"]
        if op == CAS and not isinstance(value, bool):
            raise BadAction(f"answers a cas with {value!r}", "give true where it has set, else false")
        if op == READ and (isinstance(value, bool) or not isinstance(value, int | float | str | None)):
            raise BadAction(f"answers a read with {value!r}", "give what was written: a number, a text or null")
        self._outputs.append(Send(client, Reply(action["id"], value)))

    def _refuse(self, action: dict[str, Any]) -> None:
        client, _ = self._client(action)
        leader = action.get("leader")
        if leader is not None and leader not in (*self.peers, self.name):
            raise BadAction(f"names {leader!r} as the leader", nearest(str(leader), [self.name, *self.peers]))
        self._outputs.append(Send(client, Refusal(action["id"], leader)))

    def _client(self, action: dict[str, Any]) -> tuple[Hashable, str]:
        if not isinstance(action["id"], str) or action["id"] not in self.board.asked:
            raise BadAction(f"answers {action['id']!r}", "give the id of a request that came")
        return self.board.asked[action["id"]]

    def _lead(self, action: dict[str, Any]) -> None:
        self.board.announce(self._now_s, self.name, LEADER, term=_whole(action["term"], "term"))

    def _commit(self, action: dict[str, Any]) -> None:
        index, entry = _whole(action["index"], "index"), json.dumps(action["entry"], sort_keys=True)
        self.board.announce(self._now_s, self.name, COMMIT, index=index, entry=entry)

    def _note(self, action: dict[str, Any]) -> None:
        self.board.announce(self._now_s, self.name, NOTE, entry=_text(action["text"], "text"))


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise BadAction(f"has {name} {value!r}", f"give {name} as a text")
    return value


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadAction(f"has {name} {value!r}", f"give {name} as a whole number from 0 on")
    return value


def size_bytes(message: Any) -> int:
    """Return a message's size as JSON, in bytes; requests, replies and refusals count as objects with their fields."""
    if isinstance(message, (Request, Reply, Refusal)):
        message = {name: getattr(message, name) for name in message.__slots__}
    return len(json.dumps(message).encode())
