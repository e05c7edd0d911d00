"""The language of rules and pipes, that of ipfw(8)::

    pipe 1 config bw 10Mbit/s delay 20ms plr 0.01 queue 50
    add 100 pipe 1 udp from 10.0.0.0/8 to any 5000-6000
    add 200 prob 0.5 deny tcp from any to 192.168.1.7 80

The first rule that matches decides; a packet that none matches passes.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from netrepro.dummynet.pipes import DEFAULT_QUEUE, LAST_PIPE, Pipe, PipeQueue
from netrepro.dummynet.rules import ANY_PORT, ANYWHERE, LAST_RULE, Action, Rule, RuleSet
from netrepro.errors import NetreproError, nearest
from netrepro.networks.description import MOST_COUNT, domain
from netrepro.networks.queues import FULL_PACKET_BYTES, CoDel, DropTail, EcnThreshold, Pie, Red

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
_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9}
_RATES |= {"byte/s": 8.0, "kbyte/s": 8e3, "mbyte/s": 8e6, "gbyte/s": 8e9}
_TIMES_MS = {"ms": 1.0, "us": 1e-3, "s": 1e3}
_SIZES = {"bytes": 1, "b": 1, "kbytes": 1024, "kb": 1024}
_MANAGED = ("red", "codel", "pie", "threshold")  # queues of which a pipe has one at most
_PIPE_WORDS = ("bw", "delay", "plr", "reorder", "queue", *_MANAGED, "ecn")
_TIMES_OF = {
    "codel": {"target": "target_ms", "interval": "interval_ms"},
    "pie": {"target": "target_ms", "tupdate": "update_ms", "max_burst": "burst_ms"},
}


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
        return Red(packets, low, high, max_probability=most, weight=weight, ecn=ecn, variant="floyd1993")
    if "codel" in given:
        return CoDel(packets, **given["codel"], ecn=ecn, variant="rfc8289")
    if "pie" in given:
        return Pie(packets, **given["pie"], ecn=ecn, variant="rfc8033")
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
        """Return the next word in small letters, or None."""
        return None if self.done else self._found[self._next][0].lower()

    def take(self, what: str, valid: Iterable[str] | None = None) -> str:
        """Take the next word, in small letters; with `valid`, it must be one of those."""
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
        """Return a function that calls `fail` at the word taken last, for later use."""
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
        """Read a number with a unit, in the unit whose factor is 1; `bare` is the unit of a number without.

        name : the field that the number is for; unless it is 0, it must lie in the domain of the field's unit.
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
    """Read digits; only the first 30 count, as Python refuses thousands of them and no limit has so many."""
    return int(digits.lstrip("0")[:30] or "0")


def _number(word: str) -> float | None:
    return float(word) if re.fullmatch(r"\d+(\.\d*)?|\.\d+", word) else None
