"""Dummynet in user space (Carbone and Rizzo, "Dummynet revisited", CCR 40(2), 2010): rules, pipes, a virtual clock.

Rules are written as for ipfw::

    pipe 1 config bw 10Mbit/s delay 20ms plr 0.01 queue 50
    add 100 pipe 1 udp from 10.0.0.0/8 to any 5000-6000
    add 200 prob 0.5 deny tcp from any to 192.168.1.7 80

The first rule that matches decides; a packet that none matches passes.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError, nearest
from netrepro.networks.description import MOST_COUNT, check_count, domain, set_number
from netrepro.networks.queues import FULL_PACKET_BYTES, CoDel, DropTail, EcnThreshold, Pie, Red
from netrepro.traffic.captures import CaptureFile

Action = Literal["allow", "deny", "count", "pipe"]
ACTIONS: dict[str, Action] = {
    "allow": "allow",
    "accept": "allow",
    "pass": "allow",
    "permit": "allow",
    "deny": "deny",
    "drop": "deny",
    "count": "count",
    "pipe": "pipe",
}
PROTOCOLS = {"ip": None, "all": None, "icmp": 1, "tcp": 6, "udp": 17, "sctp": 132}
WITH_PORTS = (6, 17, 132)
ANYWHERE, ANY_PORT = ipaddress.IPv4Network("0.0.0.0/0"), (0, 65_535)
LAST_RULE = 65_534  # ipfw keeps 65535 for its default
LAST_PIPE = 65_535
MOST_S = 1e6  # at which a packet may come
LAST_S = 9e6  # at which it may leave: the virtual clock counts picoseconds in 63 bits
PipeQueue = DropTail | EcnThreshold | Red | CoDel | Pie
DEFAULT_QUEUE = DropTail(packets=50)  # ipfw's
HEADER_COLUMNS = (
    "time_s",
    "source",
    "destination",
    "source_port",
    "destination_port",
    "protocol",
    "size_bytes",
    "ecn_capable",
)
_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9}
_RATES |= {"byte/s": 8.0, "kbyte/s": 8e3, "mbyte/s": 8e6, "gbyte/s": 8e9}
_TIMES_MS = {"ms": 1.0, "us": 1e-3, "s": 1e3}
_SIZES = {"bytes": 1, "b": 1, "kbytes": 1024, "kb": 1024}


@dataclass(frozen=True)
class Pipe:
    """A router queue served at `rate_mbps` (None: at once), then a line of `delay_ms`.

    `loss` and `reorder` are probabilities a packet: of being lost at the end of the line, and of entering the queue
    ahead of the last packet that waits there (Rizzo, "Dummynet: a simple approach to the evaluation of network
    protocols", CCR 27(1), 1997).

    Raises NetreproError for numbers that are none, probabilities outside 0 to 1, and a rate or delay beyond what the
    virtual clock can count: 1 bit/s to 10 Tbit/s, 1 us to 1e6 s.
    """

    number: int
    rate_mbps: float | None = None
    delay_ms: float = 0.0
    loss: float = 0.0
    reorder: float = 0.0
    queue: PipeQueue = DEFAULT_QUEUE

    def __post_init__(self) -> None:
        if not isinstance(self.queue, PipeQueue):
            raise NetreproError(f"a pipe with {self.queue!r}", "give DropTail, EcnThreshold, Red, CoDel or Pie")
        check_count(self, "number", most=LAST_PIPE)
        if self.rate_mbps is not None:
            set_number(self, "rate_mbps", above=0)
        set_number(self, "delay_ms", least=0)
        if self.delay_ms:
            set_number(self, "delay_ms", above=0)
        for name in ("loss", "reorder"):
            set_number(self, name, least=0, most=1)

    def ends_s(self, last_s: float, sizes_bytes: np.ndarray) -> float:
        """No packet leaves later where the last comes at `last_s`: what waits then, and the one under way, is sent."""
        if not len(sizes_bytes) or self.rate_mbps is None:
            return last_s + self.delay_ms / 1e3
        largest = int(sizes_bytes.max())
        room_bytes = self.queue.bytes if isinstance(self.queue, DropTail) and self.queue.bytes else None
        waiting = room_bytes if room_bytes is not None else (self.queue.packets or 0) * largest
        return (
            last_s + min(waiting + largest, int(sizes_bytes.sum())) * 8 / (self.rate_mbps * 1e6) + self.delay_ms / 1e3
        )


@dataclass(frozen=True)
class Rule:
    """What a packet must be, and what happens to it then with `probability`.

    `protocol` None is any. Networks are IPv4. Ports are (first, last), for TCP, UDP and SCTP only. Raises NetreproError
    for a number that no rule has and a probability outside 0 to 1.
    """

    number: int
    action: Action
    pipe: int | None = None
    probability: float = 1.0
    protocol: int | None = None
    source: ipaddress.IPv4Network = ANYWHERE
    source_ports: tuple[int, int] = ANY_PORT
    destination: ipaddress.IPv4Network = ANYWHERE
    destination_ports: tuple[int, int] = ANY_PORT

    def __post_init__(self) -> None:
        check_count(self, "number", most=LAST_RULE)
        set_number(self, "probability", least=0, most=1)


@dataclass(frozen=True)
class RuleSet:
    """Rules in the order of evaluation (by number, equal numbers as written), and the pipes they name."""

    rules: tuple[Rule, ...]
    pipes: tuple[Pipe, ...]


def parse_rules(text: str) -> RuleSet:
    """Read rules and pipes, one a line; `#` begins a comment. Words are those of ipfw(8).

    ``pipe N config [bw 10Mbit/s] [delay 20ms] [plr 0.01] [reorder 0.01] [queue 50 | queue 64Kbytes]
    [red WEIGHT/MIN/MAX/PROBABILITY] [codel [target 5ms] [interval 100ms]]
    [pie [target 15ms] [tupdate 15ms] [max_burst 150ms]] [threshold PACKETS] [ecn]``

    ``add [N] [prob P] allow|deny|count|pipe N ip|tcp|udp|icmp|sctp|<number> from any|PREFIX [PORTS] to ...``

    A rule without number gets the last one plus 100. `reorder` and `threshold` (ECN marking from so many packets on)
    are ours. PIE's gains are those of RFC 8033: ipfw's other words for it, such as alpha and beta, are refused.

    Raises NetreproError with line, column, the line itself and the nearest valid word.
    """
    rules: list[Rule] = []
    pipes: dict[int, Pipe] = {}
    named: list[tuple[int, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = _Words(number, line)
        if words.done:
            continue
        first = words.take("a line", ("pipe", "add"))
        if first == "pipe":
            pipe = _parse_pipe(words)
            if pipe.number in pipes:
                words.fail(f"pipe {pipe.number} is configured twice", "configure it once", at=1)
            pipes[pipe.number] = pipe
        else:
            rule, place = _parse_rule(words, rules[-1].number if rules else 0)
            rules.append(rule)
            if rule.pipe is not None:
                named.append((rule.pipe, place))
    for wanted, fail in named:
        if wanted not in pipes:
            known = ", ".join(map(str, sorted(pipes))) or "none"
            fail(f"pipe {wanted} is not configured", f"add a line 'pipe {wanted} config ...'; configured: {known}")
    return RuleSet(tuple(sorted(rules, key=lambda rule: rule.number)), tuple(pipes.values()))


class _Words:
    """The words of one line with their columns, taken one after the other."""

    def __init__(self, number: int, line: str):
        self.number, self.line = number, line.rstrip()
        self._found = [(each.group(), each.start() + 1) for each in re.finditer(r"\S+", line.split("#")[0])]
        self._next = 0

    @property
    def done(self) -> bool:
        return self._next == len(self._found)

    def peek(self) -> str | None:
        """The next word in small letters, or None."""
        return None if self.done else self._found[self._next][0].lower()

    def take(self, what: str, valid: Iterable[str] | None = None) -> str:
        """The next word, in small letters; with `valid`, one of those."""
        word = self.peek()
        choices = list(valid) if valid is not None else None
        if word is None:
            self.fail(f"{what} is missing", f"valid: {', '.join(choices)}" if choices else "add it", at=self._next)
        self._next += 1
        if choices is not None and word not in choices:
            self.fail(f"unknown word {word!r} for {what}", nearest(word, choices))
        return word

    def fail(self, problem: str, remedy: str, at: int | None = None) -> NoReturn:
        """Raise NetreproError at the word of that place (the last one taken)."""
        at = self._next - 1 if at is None else at
        column = self._found[at][1] if at < len(self._found) else len(self.line) + 1
        shown = f"  {self.line}\n  {' ' * (column - 1)}^"
        raise NetreproError(f"line {self.number}, column {column}: {problem}\n{shown}", remedy)

    def failure_here(self) -> Callable[[str, str], NoReturn]:
        """`fail` at the word taken last, for later."""
        at = self._next - 1
        return lambda problem, remedy: self.fail(problem, remedy, at)

    def integer(self, what: str, least: int, most: int) -> int:
        word = self.take(what)
        if not word.isdecimal() or not least <= _whole(word) <= most:
            self.fail(f"{what} is {word!r}", f"give a whole number from {least} to {most}")
        return _whole(word)

    def probability(self, what: str) -> float:
        word = self.take(what)
        value = _number(word)
        if value is None or not 0 <= value <= 1:
            self.fail(f"{what} is {word!r}", "give a number from 0 to 1")
        return value

    def quantity(self, what: str, units: Mapping[str, float], bare: str, name: str) -> float:
        """A number with a unit, in the unit whose factor is 1; `bare` is the unit of a number without.

        name : of what it becomes, whose unit's domain it must keep, unless it is 0.
        """
        word = self.take(what)
        parts = re.fullmatch(r"([0-9.]+)([a-z/]*)", word)
        value = _number(parts[1]) if parts else None
        if value is None or parts is None:
            self.fail(f"{what} is {word!r}", f"give a number and a unit, such as 10{bare}")
        unit = parts[2] or bare
        if unit not in units:
            self.fail(f"unknown unit {unit!r} for {what}", nearest(unit, units))
        value, (least, most) = value * units[unit], domain(name)
        least, most = (bound * (1e6 if units is _RATES else 1) for bound in (least, most))
        if value and not least <= value <= most:
            one = {factor: unit for unit, factor in units.items()}[1.0]
            self.fail(f"{what} is {word!r}", f"give 0, or {least:g}{one} to {most:g}{one}")
        return value


def _whole(digits: str) -> int:
    """A number of digits; one of thousands, which Python refuses to read, is as large as nothing may be."""
    return int(digits.lstrip("0")[:30] or "0")


def _number(word: str) -> float | None:
    return float(word) if re.fullmatch(r"\d+(\.\d*)?|\.\d+", word) else None


_MANAGED = ("red", "codel", "pie", "threshold")  # queues of which a pipe has one at most
_PIPE_WORDS = ("bw", "delay", "plr", "reorder", "queue", *_MANAGED, "ecn")
_TIMES_OF = {
    "codel": {"target": "target_ms", "interval": "interval_ms"},
    "pie": {"target": "target_ms", "tupdate": "update_ms", "max_burst": "burst_ms"},
}


def _parse_pipe(words: _Words) -> Pipe:
    number = words.integer("the pipe's number", 1, LAST_PIPE)
    words.take("what to do with the pipe", ("config",))
    given: dict[str, Any] = {}
    while not words.done:
        word = words.take("a pipe", _PIPE_WORDS)
        if word in given:
            words.fail(f"{word} is given twice", "give it once")
        given[word] = None
        place = words.failure_here()
        if word == "bw":
            given[word] = words.quantity("the bandwidth", _RATES, "bit/s", "rate_mbps") / 1e6 or None
        elif word == "delay":
            given[word] = words.quantity("the delay", _TIMES_MS, "ms", "delay_ms")
        elif word in ("plr", "reorder"):
            given[word] = words.probability(word)
        elif word == "queue":
            given[word] = _parse_limit(words)
        elif word == "red":
            given[word] = _parse_red(words)
        elif word in _TIMES_OF:
            given[word] = {}
            while (name := words.peek()) in _TIMES_OF[word]:
                words.take(word)
                field = _TIMES_OF[word][name]
                given[word][field] = words.quantity(f"{word}'s {name}", _TIMES_MS, "ms", field)
        elif word == "threshold":
            given[word] = words.integer("the marking threshold", 1, 10**6)
        given[f"{word} at"] = place
    if given.get("reorder") and not given.get("bw"):
        given["reorder at"]("reordering needs a queue, which never forms without bandwidth limit", "give bw as well")
    kinds = [word for word in _MANAGED if word in given]
    if len(kinds) > 1:
        given[f"{kinds[1]} at"](f"a pipe with {kinds[0]} and {kinds[1]}", "give one of them")
    if "ecn" in given and not kinds:
        given["ecn at"]("ecn without red, codel or pie", "give one of them: drop-tail never marks")
    limit = given.get("queue", DEFAULT_QUEUE)
    if kinds and limit.packets is None:
        given["queue at"](f"{kinds[0]} with a queue in bytes", "give the queue in packets")
    try:
        queue = _queue(limit, given)
    except NetreproError as error:
        given[f"{kinds[0]} at"](error.problem, error.remedy)
    return Pipe(
        number,
        given.get("bw"),
        given.get("delay", 0.0),
        given.get("plr", 0.0),
        given.get("reorder", 0.0),
        queue,
    )


def _queue(limit: DropTail, given: Mapping[str, Any]) -> PipeQueue:
    packets, ecn = limit.packets or 0, "ecn" in given
    if "red" in given:
        weight, low, high, most = given["red"]
        return Red(packets, low, high, max_probability=most, weight=weight, ecn=ecn)
    if "codel" in given:
        return CoDel(packets, **given["codel"], ecn=ecn)
    if "pie" in given:
        return Pie(packets, **given["pie"], ecn=ecn)
    if "threshold" in given:
        return EcnThreshold(packets, given["threshold"])
    return limit


def _parse_limit(words: _Words) -> DropTail:
    word = words.take("the queue")
    parts = re.fullmatch(r"(\d+)([a-z]*)", word)
    if not parts or _whole(parts[1]) == 0:
        words.fail(f"the queue is {word!r}", "give packets, such as 50, or bytes, such as 64Kbytes")
    if _whole(parts[1]) > MOST_COUNT:
        words.fail(f"the queue is {word!r}", f"give {MOST_COUNT} at most")
    if not parts[2]:
        return DropTail(packets=int(parts[1]))
    if parts[2] not in _SIZES:
        words.fail(f"unknown unit {parts[2]!r} for the queue", nearest(parts[2], _SIZES))
    size = int(parts[1]) * _SIZES[parts[2]]
    if size < FULL_PACKET_BYTES:
        words.fail(f"a queue of {size} bytes", f"give at least a full packet, {FULL_PACKET_BYTES} bytes")
    return DropTail(bytes=size)


def _parse_red(words: _Words) -> tuple[float, ...]:
    word = words.take("red's parameters")
    values = [_number(part) for part in word.split("/")]
    if len(values) != 4 or None in values:
        words.fail(f"red's parameters are {word!r}", "give weight/min/max/probability, such as 0.002/10/30/0.1")
    return tuple(value for value in values if value is not None)


def _parse_rule(words: _Words, last: int) -> tuple[Rule, Callable[[str, str], NoReturn]]:
    probability, pipe = 1.0, None
    if (words.peek() or "").isdecimal():
        number = words.integer("the rule's number", 1, LAST_RULE)
    else:
        number = min(last + 100, LAST_RULE)
    if words.peek() == "prob":
        words.take("a rule")
        probability = words.probability("prob")
    action = ACTIONS[words.take("the action", ("prob", *ACTIONS) if probability == 1.0 else ACTIONS)]
    if action == "pipe":
        pipe = words.integer("the pipe's number", 1, LAST_PIPE)
    place = words.failure_here()
    word = words.peek() or ""
    if word.isdecimal():
        protocol: int | None = words.integer("the protocol", 0, 255)
    else:
        protocol = PROTOCOLS[words.take("the protocol", PROTOCOLS)]
    words.take("the source", ("from",))
    source, source_ports = _parse_end(words, protocol, "to")
    words.take("the destination", ("to",))
    destination, destination_ports = _parse_end(words, protocol, None)
    if not words.done:
        words.take("the end of a rule", ())
    rule = Rule(number, action, pipe, probability, protocol, source, source_ports, destination, destination_ports)
    return rule, place


def _parse_end(
    words: _Words, protocol: int | None, ends_with: str | None
) -> tuple[ipaddress.IPv4Network, tuple[int, int]]:
    word = words.take("an address")
    try:
        network = ANYWHERE if word == "any" else ipaddress.IPv4Network(word)
    except ValueError as error:
        hint = nearest(word, ["any"]) if word.isalpha() else "give any, 10.0.0.1 or 10.0.0.0/8"
        words.fail(f"no IPv4 address or prefix: {error}", hint)
    if words.done or words.peek() == ends_with:
        return network, ANY_PORT
    word = words.take("ports")
    parts = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
    if not parts:
        hint = f"did you mean {ends_with!r}?" if ends_with else "a rule ends here"
        words.fail(f"{word!r} is neither a port nor a range of ports", f"give 80 or 5000-6000; {hint}")
    low, high = _whole(parts[1]), _whole(parts[2] or parts[1])
    if not low <= high <= 65_535:
        words.fail(f"ports {word!r}", "give the lower first, none above 65535")
    if protocol not in WITH_PORTS:
        words.fail("ports of a protocol that has none", "make the rule for tcp, udp or sctp")
    return network, (low, high)


@dataclass(frozen=True)
class Passage:
    """What became of packets.

    packets : the headers, in their order, with verdict (delivered: through a pipe, allowed, denied, dropped: by a
        pipe's queue, lost: on its line), rule and pipe (their numbers; 0 where there is none), marked (Congestion
        Experienced) and departure_s (NaN for those that did not get through).
    rules : a row a rule in order of evaluation: rule, action, packets, bytes that it matched.
    """

    packets: pd.DataFrame
    rules: pd.DataFrame


class Dummynet:
    """Rules and pipes over packets in virtual time.

    rules : text for `parse_rules`, or a RuleSet.
    tick_ms : pipes are served when a timer fires, every so often (the kernel's Dummynet: 1 ms); 0 serves each packet
        exactly when it is due.
    seed : of losses, reordering, probabilities, RED and PIE.

    Equal arguments and packets give equal passages. Raises NetreproError for what `parse_rules` refuses, a tick that
    is neither 0 nor 1 us to 1e6 s, and a seed outside 0 to 2^63.
    """

    def __init__(self, rules: str | RuleSet, *, tick_ms: float = 0.0, seed: int = 1):
        least, most = domain("tick_ms")
        if tick_ms != 0 and not least <= tick_ms <= most:
            raise NetreproError(
                f"tick_ms = {tick_ms}", f"give a number of milliseconds from {least:g} to {most:g}, 0 for none"
            )
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed <= 2**63:
            raise NetreproError(f"seed = {seed!r}", "give a whole number from 0 to 2**63")
        self.rule_set = parse_rules(rules) if isinstance(rules, str) else rules
        self.tick_ms, self.seed = tick_ms, seed

    def run(self, headers: pd.DataFrame | np.ndarray) -> Passage:
        """Send packets through fresh rules and pipes, and wait until the last has left.

        headers : HEADER_COLUMNS as columns or fields: time_s ascending; addresses as text or numbers; protocol as
            number; size_bytes of the IP packet; ecn_capable may be left out.

        Raises NetreproError for missing columns, times that go back, values out of range, and pipes so slow that a
        packet could leave after 9e6 s, which the virtual clock does not count.
        """
        table = _checked(headers)
        if len(table):
            last_s, sizes_bytes = float(table["time_s"].iloc[-1]), table["size_bytes"].to_numpy()
            for pipe in self.rule_set.pipes:
                if (ends_s := pipe.ends_s(last_s, sizes_bytes) + self.tick_ms / 1e3) > LAST_S:
                    raise NetreproError(
                        f"packets could leave pipe {pipe.number} after {ends_s:.3g} s",
                        f"make it faster or its queue shorter: {LAST_S:g} s is the last",
                    )
        addresses = {name: _addresses(table[name], name) for name in ("source", "destination")}
        columns = {**{name: table[name].to_numpy() for name in HEADER_COLUMNS}, **addresses}
        engine = self.engine()
        found = engine.run(*(columns[name] for name in HEADER_COLUMNS))
        fates = pd.Categorical.from_codes(found["fate"], _core().dummynet_fates)
        numbers = np.array([*(rule.number for rule in self.rule_set.rules), 0])
        pipes = np.array([*(rule.pipe or 0 for rule in self.rule_set.rules), 0])
        packets = table.assign(
            verdict=fates,
            rule=numbers[found["rule"]],
            pipe=pipes[found["rule"]],
            marked=found["marked"],
            departure_s=found["departure_s"],
        )
        rows = [
            (rule.number, rule.action if rule.pipe is None else f"pipe {rule.pipe}", *counted)
            for rule, counted in zip(self.rule_set.rules, engine.counters(), strict=True)
        ]
        return Passage(packets, pd.DataFrame(rows, columns=["rule", "action", "packets", "bytes"]))

    def engine(self) -> Any:
        """A fresh compiled engine with these rules and pipes (netrepro._core.Dummynet)."""
        core = _core()
        engine = core.Dummynet(seed=self.seed, tick_s=self.tick_ms / 1e3)
        places = {}
        for pipe in self.rule_set.pipes:
            rate = (pipe.rate_mbps or 0.0) * 1e6
            queue, numbers = pipe.queue.rule()
            places[pipe.number] = engine.add_pipe(
                rate=rate,
                delay_s=pipe.delay_ms / 1e3,
                loss=pipe.loss,
                reorder=pipe.reorder,
                rule=queue,
                numbers=numbers,
                seed=self.seed + pipe.number,
            )
        for rule in self.rule_set.rules:
            engine.add_rule(
                action=rule.action,
                pipe=places[rule.pipe] if rule.pipe is not None else 0,
                probability=rule.probability,
                protocol=-1 if rule.protocol is None else rule.protocol,
                source=_prefix(rule.source),
                source_ports=rule.source_ports,
                destination=_prefix(rule.destination),
                destination_ports=rule.destination_ports,
            )
        return engine


def _core() -> Any:
    from netrepro import _core as core

    return core


def _prefix(network: ipaddress.IPv4Network) -> tuple[int, int]:
    return int(network.network_address), int(network.netmask)


def _checked(headers: pd.DataFrame | np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(headers).reset_index(drop=True)
    if "ecn_capable" not in table:
        table = table.assign(ecn_capable=False)
    missing = [name for name in HEADER_COLUMNS if name not in table]
    if missing:
        found = nearest(missing[0], [str(name) for name in table])
        raise NetreproError(f"headers without column {missing[0]!r}", f"needs {', '.join(HEADER_COLUMNS)}; {found}")
    times = table["time_s"].to_numpy(dtype=float)
    if len(times) and not (np.isfinite(times).all() and times[0] >= 0 and (np.diff(times) >= 0).all()):
        raise NetreproError("headers whose time_s is negative, not a number or goes back", "sort by time_s, from 0 on")
    if len(times) and times[-1] > MOST_S:
        raise NetreproError(f"headers until time_s = {times[-1]:g}", f"let them begin at 0 and end by {MOST_S:g} s")
    for name, most in (
        ("source_port", 65_535),
        ("destination_port", 65_535),
        ("protocol", 255),
        ("size_bytes", 65_535),
    ):
        if len(table) and not table[name].between(0, most).all():
            raise NetreproError(f"headers with {name} outside 0 to {most}", "mend those rows")
    return table


def _addresses(column: pd.Series, name: str) -> np.ndarray:
    if pd.api.types.is_integer_dtype(column):
        if len(column) and not column.between(0, 2**32 - 1).all():
            raise NetreproError(f"headers with {name} outside IPv4", "give addresses as text, or numbers below 2**32")
        return column.to_numpy(dtype=np.uint32)
    codes, texts = pd.factorize(column)
    try:
        numbers = [int(ipaddress.IPv4Address(text)) for text in texts]
    except ValueError as error:
        raise NetreproError(f"headers with a {name} that is no IPv4 address: {error}", "mend those rows") from None
    return np.array(numbers, dtype=np.uint32)[codes] if len(column) else np.array([], dtype=np.uint32)


def synthetic_headers(
    packets: int,
    spacing_us: float,
    *,
    source: str = "10.0.0.1",
    source_port: int = 4000,
    destination: str = "10.0.0.2",
    destination_port: int = 5000,
    protocol: int = 17,
    size_bytes: int = 46,
    ecn_capable: bool = False,
) -> pd.DataFrame:
    """Headers of one flow of equal packets, evenly spaced from time 0 on."""
    return pd.DataFrame(
        {
            "time_s": np.arange(packets) * (spacing_us * 1e-6),
            "source": source,
            "destination": destination,
            "source_port": source_port,
            "destination_port": destination_port,
            "protocol": protocol,
            "size_bytes": size_bytes,
            "ecn_capable": ecn_capable,
        }
    )


def headers_of_capture(path: str | PathLike[str]) -> pd.DataFrame:
    """Headers of the IPv4 packets of a pcap or pcapng file, time_s from the first on; addresses as text.

    Packets that go back in time are put in order. ECN bits are not read: ecn_capable is False.
    Raises NetreproError for a file that is no capture.
    """
    reader = _core().HeaderReader()
    for chunks in CaptureFile(path).captures():
        for chunk in chunks:
            reader.feed(chunk)
        reader.finish()
    found = reader.columns()
    order = np.argsort(found["time_us"], kind="stable")
    times = found["time_us"][order]
    addresses, ports = found["addresses"][order], found["ports"][order]
    return pd.DataFrame(
        {
            "time_s": (times - times[0]) * 1e-6 if len(times) else times.astype(float),
            "source": _texts(addresses[:, 0]),
            "destination": _texts(addresses[:, 1]),
            "source_port": ports[:, 0],
            "destination_port": ports[:, 1],
            "protocol": found["protocol"][order],
            "size_bytes": found["size_bytes"][order],
            "ecn_capable": False,
        }
    )


def _texts(addresses: np.ndarray) -> np.ndarray:
    codes, numbers = pd.factorize(addresses)
    return np.array([str(ipaddress.IPv4Address(int(number))) for number in numbers], dtype=object)[codes]


@dataclass(frozen=True)
class Timing:
    """What packets cost, in wall nanoseconds a packet, a row a batch.

    batches : batch, arrivals_ns (generating, entry, rules, entering a pipe, and leaving it where nothing delays),
        timer_ns (what the timer does: leaving the pipes), whole_ns (both).
    account : packets by what became of them; they sum to those offered.
    out_of_order : packets that ended in another order than that in which they came.
    """

    batches: pd.DataFrame
    account: dict[str, int]
    out_of_order: int

    def __post_init__(self) -> None:
        ended = sum(packets for name, packets in self.account.items() if name != "offered")
        if ended != self.account["offered"]:
            raise NetreproError(f"packets vanished: {self.account}", "this is a fault of the engine: report it")


def time_packets(
    dummynet: Dummynet,
    packets: int,
    *,
    drop_at_entry: bool = False,
    spacing_us: float = 1.0,
    batch_packets: int = 1000,
    warm_up_packets: int = 50_000,
) -> Timing:
    """Time the engine with smallest UDP datagrams of one flow, 10.0.0.1:4000 to 10.0.0.2:5000.

    A packet comes every `spacing_us` of virtual time, which costs nothing. With `drop_at_entry` packets end before the
    classifier. The timer runs at the end of every batch, so a batch should last one tick. The warm-up, which fills
    pipes and caches, is not counted. Raises NetreproError for fewer packets than a batch has.
    """
    if packets < batch_packets:
        raise NetreproError(f"{packets} packets in batches of {batch_packets}", "give at least one batch")
    timing = _core().DummynetTiming(dummynet.engine(), drop_at_entry=drop_at_entry, spacing_s=spacing_us * 1e-6)
    timing.run(-(-warm_up_packets // batch_packets), batch_packets)
    nanoseconds = timing.run(packets // batch_packets, batch_packets) / batch_packets
    batches = pd.DataFrame(nanoseconds, columns=["arrivals_ns", "timer_ns"])
    batches = batches.assign(whole_ns=batches.arrivals_ns + batches.timer_ns).rename_axis("batch").reset_index()
    return Timing(batches, timing.account(), timing.out_of_order())
