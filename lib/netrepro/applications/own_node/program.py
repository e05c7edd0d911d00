"""A node in any language: a process that is told events and answers with actions, over standard input and output.

Each event and each action is one line with a JSON object. The node gets an event, writes any number of actions, and
then `{"do": "done"}`; only then does it get the next. It needs no clock, for every event says the time, which stands
still while the node computes; and no socket, for what it sends is carried over the network that it is run on. What it
wants to say to a person goes to standard error.

Events (each has `time_s`, the time in seconds):

    {"event": "start", "name": "n1", "peers": ["n2", "n3"], "seed": 17, "saved": null}
        comes first; `saved` is what the node saved before it crashed
    {"event": "message", "from": "n2", "message": ...}
    {"event": "timer", "name": "election"}
    {"event": "request", "id": "client1-7", "op": "read", "key": "x"}
        `op` is read, write (with `value`) or cas: set `value` if the register holds `expected`

Actions:

    {"do": "send", "to": "n2", "message": ...}      any JSON; its "kind", if it has one, names it in diagrams
    {"do": "timer", "name": "election", "after_s": 0.2}    set or put off; null takes it back
    {"do": "save", "state": ...}                    survives a crash, at once and whole
    {"do": "reply", "id": "client1-7", "value": 3}  what was read; of a cas true or false: whether it has set
    {"do": "refuse", "id": "client1-7", "leader": "n2"}    it has not happened and never will; leader may be null
    {"do": "leader", "term": 4}                     the node leads that term
    {"do": "commit", "index": 1, "entry": ...}      the entry at this index of the log is agreed for ever
    {"do": "note", "text": "..."}                   is shown in diagrams
    {"do": "done"}
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netrepro.errors import NetreproError, nearest
from netrepro.protocols.judge import COMMIT, LEADER, NOTE
from netrepro.protocols.machine import Output, Send
from netrepro.protocols.registers import CAS, READ, WRITE, Refusal, Reply, Request

MOST_BYTES = 1 << 20  # that a node may write after one event
MOST_ACTIONS = 10_000  # after one event
MOST_AT_ONCE = 5_000  # events of a node at one and the same time
MOST_EVENTS = 100_000  # of a node
MOST_MESSAGE_BYTES = 65_507  # a datagram of UDP over IPv4 holds no more
MOST_FILE_BYTES = 1 << 28  # that it may write into one file, standard error among them
LONGEST_SHOWN = 120  # characters of a line, in an error
LAST_WORDS = 1_000  # characters of standard error, in an error
_DIE_WITH_PARENT = 1  # Linux: PR_SET_PDEATHSIG
_C = ctypes.CDLL(None)


@dataclass
class Board:
    """The notes of all nodes of a run, for the judge: what they announced, what they saved, and who asked for what."""

    announced: list[tuple[Any, ...]] = field(default_factory=list)  # rows of ANNOUNCEMENT_COLUMNS
    saved: dict[str, Any] = field(default_factory=dict)  # by node
    asked: dict[str, tuple[Hashable, str]] = field(default_factory=dict)  # by request: the client and the operation
    lives: dict[str, int] = field(default_factory=dict)  # by node, how often it has been started

    def announce(
        self, now_s: float, node: str, kind: str, *, term: Any = None, index: Any = None, entry: Any = None
    ) -> None:
        """Note what a node announces, as LEADER, COMMIT or NOTE; an entry is a text."""
        self.announced.append((now_s, node, self.lives.get(node, 1), kind, term, index, entry))

    def leader(self, among: Collection[str]) -> str | None:
        """Name the node that leads the highest term that one of these has announced; None where none has."""
        leads = [(row[4], row[0], row[1]) for row in self.announced if row[3] == LEADER and row[1] in among]
        return max(leads)[2] if leads else None


class Program:
    """A node as a Machine: the process runs until `end`, and answers one event at a time.

    Parameters
    ----------
    command : the program and its arguments.
    seed : given to the node, so that a run is the same each time.
    patience_s : real seconds in which the node has to answer an event.

    Raises NetreproError for a program that cannot be started; `start`, `receive` and `wake` for one that is silent for
    longer than patience_s, ends, floods, or writes what is no action, with the node, the event and its line.
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
        self.name, self.command, self.peers, self.seed = name, [str(word) for word in command], list(peers), seed
        self.board, self.patience_s = board, patience_s
        self._timers: dict[str, tuple[float, int]] = {}
        self._lines = self._events = self._at_once = self._timers_set = 0
        self._now_s, self._event, self._unwritten, self._unread = -1.0, "", b"", bytearray()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (until `end`)
        self._process = self._started()
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        for descriptor in (self._input, self._output):
            os.set_blocking(descriptor, False)

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
                env=os.environ | {"PYTHONHASHSEED": "0"},  # the order of a set of texts must be the same each time
                preexec_fn=_prepare,
            )
        except (OSError, IndexError, ValueError) as error:
            self._errors.close()
            raise NetreproError(
                f"node {self.name} cannot be started as {self.command}: {error}",
                'give the program and its arguments, such as ["python3", "node.py"]',
            ) from error

    # A Machine.

    @property
    def wake_at_s(self) -> float:
        """The time of the next timer."""
        return min((due_s for due_s, _ in self._timers.values()), default=math.inf)

    def start(self, now_s: float) -> list[Output]:
        """Tell the node who it is."""
        known = {"name": self.name, "peers": self.peers, "seed": self.seed, "saved": self.board.saved.get(self.name)}
        return self._tell(now_s, {"event": "start"} | known)

    def receive(self, now_s: float, sender: Hashable, message: Any) -> list[Output]:
        """Hand over a message of a peer, or a client's Request."""
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
        """Tell the node of each timer that has run out, in their order."""
        outputs: list[Output] = []
        while self.wake_at_s <= now_s:
            name = min(self._timers, key=lambda each: self._timers[each])
            del self._timers[name]
            outputs += self._tell(now_s, {"event": "timer", "name": name})
        return outputs

    def end(self) -> str:
        """Kill the process and all that it has started; returns what it wrote to standard error."""
        if self._errors.closed:
            return ""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()
        self._errors.seek(0)
        with self._errors:
            return self._errors.read().decode(errors="replace")

    # An event and its answer.

    def _tell(self, now_s: float, event: Mapping[str, Any]) -> list[Output]:
        self._at_once = self._at_once + 1 if now_s == self._now_s else 0
        self._events += 1
        self._now_s, self._event = now_s, json.dumps({"time_s": round(now_s, 9)} | dict(event))
        if self._at_once > MOST_AT_ONCE:
            raise self._wrong(f"more than {MOST_AT_ONCE:,} events at this one time", "set timers to a later time")
        if self._events > MOST_EVENTS:
            raise self._wrong(f"more than {MOST_EVENTS:,} events so far", "do nodes answer each other without an end?")
        self._unwritten = (self._event + "\n").encode()
        outputs: list[Output] = []
        ends_s, written = time.monotonic() + self.patience_s, 0
        for count in range(MOST_ACTIONS + 1):
            line = self._line(ends_s)
            written += len(line)
            self._lines += 1
            action = self._action(line)
            if action["do"] == "done" and not self._unwritten:
                return outputs
            if action["do"] == "done":
                raise self._bad(line, "comes before it has read the event", "write it once, after the event's actions")
            if written > MOST_BYTES or count == MOST_ACTIONS:
                break
            outputs += self._carry_out(now_s, action, line)
        raise self._wrong(
            f"{count:,} actions and {written:,} bytes in answer to one event, and no end",
            'end each answer with {"do": "done"}',
        )

    def _line(self, ends_s: float) -> bytes:
        """Read the next line, and write meanwhile what the node takes of its event."""
        while b"\n" not in self._unread:
            left_s = ends_s - time.monotonic()
            both = select.poll()
            both.register(self._output, select.POLLIN)
            if self._unwritten:
                both.register(self._input, select.POLLOUT)
            ready = [descriptor for descriptor, _ in both.poll(max(left_s, 0.0) * 1e3)]
            if self._output in ready:
                self._read()
            if self._input in ready:
                self._write()
            if not ready and left_s <= 0:
                raise self._wrong(
                    f"no answer within {self.patience_s:g} s of real time",
                    'it must end each answer with the line {"do": "done"}, and flush standard output',
                )
        line, _, rest = bytes(self._unread).partition(b"\n")
        self._unread = bytearray(rest)
        return line

    def _write(self) -> None:
        try:
            self._unwritten = self._unwritten[os.write(self._input, self._unwritten) :]
        except BrokenPipeError:
            raise self._ended() from None

    def _read(self) -> None:
        some = os.read(self._output, 1 << 16)
        if not some:
            raise self._ended()
        self._unread += some
        if len(self._unread) > MOST_BYTES and b"\n" not in self._unread:
            raise self._wrong(f"a line of more than {MOST_BYTES:,} bytes", "write each action as one line of JSON")

    def _ended(self) -> NetreproError:
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return self._wrong("it has closed its standard input or output", "read events until there are no more")
        how = f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}"
        return self._wrong(how, "read events until there are no more; what it said to standard error is above")

    def _action(self, line: bytes) -> dict[str, Any]:
        try:
            action = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):  # bytes that are no text, too
            raise self._bad(line, "is no JSON", "what a person is to read goes to standard error") from None
        if not isinstance(action, dict) or not isinstance(action.get("do"), str):
            raise self._bad(line, "is no action", 'write an object such as {"do": "done"}')
        if action["do"] != "done" and action["do"] not in self._doing:
            raise self._bad(line, f"is no action: {action['do']!r}", nearest(action["do"], [*self._doing, "done"]))
        return action

    def _carry_out(self, now_s: float, action: dict[str, Any], line: bytes) -> Iterable[Output]:
        try:
            return self._doing[action["do"]](self, now_s, action)
        except KeyError as missing:
            raise self._bad(line, f"has no {missing}", f"{action['do']} needs it") from None
        except _BadAction as error:
            raise self._bad(line, error.args[0], error.args[1]) from None

    def _send(self, now_s: float, action: dict[str, Any]) -> Iterable[Output]:
        to, message = action["to"], action["message"]
        if to not in self.peers:
            raise _BadAction(f"is a message to {to!r}", nearest(str(to), self.peers))
        if (size := size_bytes(message)) > MOST_MESSAGE_BYTES:
            raise _BadAction(f"is a message of {size:,} bytes", f"a datagram holds {MOST_MESSAGE_BYTES:,}: send less")
        return [Send(to, message)]

    def _set_timer(self, now_s: float, action: dict[str, Any]) -> Iterable[Output]:
        name, after_s = action["name"], action["after_s"]
        if after_s is None:
            self._timers.pop(_text(name, "name"), None)
        elif not isinstance(after_s, (int, float)) or isinstance(after_s, bool) or not 0 <= after_s < math.inf:
            raise _BadAction(f"sets a timer after {after_s!r}", "give after_s as seconds from now, 0 or more, or null")
        else:
            self._timers_set += 1
            self._timers[_text(name, "name")] = (now_s + after_s, self._timers_set)
        return ()

    def _save(self, now_s: float, action: dict[str, Any]) -> Iterable[Output]:
        self.board.saved[self.name] = action["state"]
        return ()

    def _reply(self, now_s: float, action: dict[str, Any]) -> Iterable[Output]:
        client, op = self._client(action)
        value = None if op == WRITE else action["value"]
        if op == CAS and not isinstance(value, bool):
            raise _BadAction(f"answers a cas with {value!r}", "give true where it has set, else false")
        if op == READ and (isinstance(value, bool) or not isinstance(value, int | float | str | None)):
            raise _BadAction(f"answers a read with {value!r}", "give what was written: a number, a text or null")
        return [Send(client, Reply(action["id"], value))]

    def _refuse(self, now_s: float, action: dict[str, Any]) -> Iterable[Output]:
        client, _ = self._client(action)
        leader = action.get("leader")
        if leader is not None and leader not in (*self.peers, self.name):
            raise _BadAction(f"names {leader!r} as the leader", nearest(str(leader), [self.name, *self.peers]))
        return [Send(client, Refusal(action["id"], leader))]

    def _client(self, action: dict[str, Any]) -> tuple[Hashable, str]:
        if not isinstance(action["id"], str) or action["id"] not in self.board.asked:
            raise _BadAction(f"answers {action['id']!r}", "give the id of a request that came")
        return self.board.asked[action["id"]]

    def _lead(self, now_s: float, action: dict[str, Any]) -> Iterable[Output]:
        self.board.announce(now_s, self.name, LEADER, term=_whole(action["term"], "term"))
        return ()

    def _commit(self, now_s: float, action: dict[str, Any]) -> Iterable[Output]:
        index, entry = _whole(action["index"], "index"), json.dumps(action["entry"], sort_keys=True)
        self.board.announce(now_s, self.name, COMMIT, index=index, entry=entry)
        return ()

    def _note(self, now_s: float, action: dict[str, Any]) -> Iterable[Output]:
        self.board.announce(now_s, self.name, NOTE, entry=_text(action["text"], "text"))
        return ()

    _doing: Mapping[str, Callable[[Program, float, dict[str, Any]], Iterable[Output]]] = {
        "send": _send,
        "timer": _set_timer,
        "save": _save,
        "reply": _reply,
        "refuse": _refuse,
        "leader": _lead,
        "commit": _commit,
        "note": _note,
    }

    # What goes wrong.

    def _bad(self, line: bytes, what: str, remedy: str) -> NetreproError:
        shown = line.decode(errors="replace")
        shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + " ..."
        return self._wrong(f"its line {self._lines} {what}: {shown}", remedy)

    def _wrong(self, what: str, remedy: str) -> NetreproError:
        """End the node, and make the error that says what it did after which event, and what it last said."""
        event, said = self._event, self.end().strip()[-LAST_WORDS:]
        event = event if len(event) <= LONGEST_SHOWN else event[:LONGEST_SHOWN] + " ..."
        words = f"\n  standard error: {said}" if said else ""
        return NetreproError(f"node {self.name} ({' '.join(self.command)}): {what}\n  after {event}{words}", remedy)


class _BadAction(Exception):
    """An action that cannot be carried out: what is wrong with it, and what to do."""


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _BadAction(f"has {name} {value!r}", f"give {name} as a text")
    return value


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _BadAction(f"has {name} {value!r}", f"give {name} as a whole number from 0 on")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")  # which other languages do not read


def _prepare() -> None:
    """End the process with its parent, however that ends, and let it fill no disk; called in the child."""
    _C.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE_BYTES, MOST_FILE_BYTES))


def size_bytes(message: Any) -> int:
    """Return the bytes of a message as JSON; requests, replies and refusals count as the objects of their fields."""
    if isinstance(message, (Request, Reply, Refusal)):
        message = {name: getattr(message, name) for name in message.__slots__}
    return len(json.dumps(message).encode())
