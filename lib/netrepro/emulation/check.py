"""A check of a network against expectations, phrase by phrase: `Network.check`.

| phrase                     | expected    | measured by                                                               |
|----------------------------|-------------|---------------------------------------------------------------------------|
| h1 reaches h3              | True, False | an answer to one of three pings                                           |
| h1 reaches h3:80           | True, False | whether that port of h3 accepts a TCP connection within a second          |
| h1->h3 path                | "h1 s1 h3"  | the nodes that answer pings with a growing hop limit; ? is a silent node  |
| h1->h3 through s1          | True, False | the same path; other flows may take another path of the same length       |
| h1->h3 mtu                 | bytes       | the largest IP packet that is answered and never fragmented               |
| h1->h3 round trip at most  | ms          | the shortest round trip of three pings                                    |
| h1->h3 loss at most        | 0 to 1      | the share of 200 pings, one every 10 ms, that have no answer              |
| h1->h3 rate at least       | Mb/s        | the payload of one TCP connection in 2 s, after 1 s of warm-up            |
| h1 address                 | "10.0.0.1"  | the host's own addresses, IPv4 and IPv6                                   |

In a network with IPv6 a phrase may end in "over IPv6": "h1->h3 mtu over IPv6". The last phrase does not need it.
A ping has 56 bytes of payload, and counts as lost after a second of the network's time.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from netrepro.emulation.plan import check_name
from netrepro.errors import NetreproError
from netrepro.networks.description import REAL
from netrepro.networks.topology import Topology

COLUMNS = ["what", "expected", "found", "holds"]
PROBE = Path(__file__).with_name("probe.py")
LINES = "give a YAML file of lines such as h1 reaches h3: true"
OVER_IPV6 = " over IPv6"
PINGS, TIMEOUT_S, COUNTED_PINGS, INTERVAL_S, PORT = 3, 1.0, 200, 0.01, 47_123


class CheckedNetwork(Protocol):
    """The part of Network that a check uses."""

    topology: Topology

    @property
    def plan(self) -> Any:
        """The addresses, interfaces and routes of its nodes."""

    def __getitem__(self, name: str) -> Any: ...


def probe_command(*words: object) -> list[str]:
    """Make the command that runs probe.py on a host. words : its question and arguments."""
    return [sys.executable, "-I", "-S", "-B", str(PROBE), *map(str, words)]


def check_network(net: CheckedNetwork, expected: Mapping[str, Any] | str | os.PathLike[str]) -> pd.DataFrame:
    """Check the network as Network.check says."""
    wanted = expected if isinstance(expected, Mapping) else _read(Path(expected))
    checks = [_parsed(net.topology, str(phrase), value) for phrase, value in wanted.items()]
    for each in checks:
        _Addressed(net, each.ipv6).address(each.names[0])  # refuses a network without IPv6
    rows = []
    for each in checks:
        value = each.kind.find(_Addressed(net, each.ipv6), *each.names)
        rows.append((each.phrase, each.expected, value, each.kind.holds(each.expected, value)))
    return pd.DataFrame(rows, columns=COLUMNS)


def _read(path: Path) -> Mapping[str, Any]:
    import yaml  # imported here, because most callers do not need it

    try:
        expected = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise NetreproError(f"no checks in {path}: {error}", LINES) from None
    if not isinstance(expected, Mapping):
        raise NetreproError(f"no checks in {path}", LINES)
    return expected


# Measurements by hosts.


def _ask(net: _Addressed, host: str, *words: object) -> Any:
    return json.loads(net[host].run(probe_command(*words)).stdout)


@dataclass(frozen=True)
class _Addressed:
    """A network whose nodes' addresses are those of IPv4, or of IPv6 with `ipv6`."""

    net: CheckedNetwork
    ipv6: bool

    def __getitem__(self, name: str) -> Any:
        return self.net[name]

    def address(self, node: str) -> str:
        return self.net[node].ipv6_address if self.ipv6 else self.net[node].address

    @property
    def name_of_address(self) -> dict[str, str]:
        plan = self.net.plan
        return {str(each): node for node, each in (plan.ipv6_addresses if self.ipv6 else plan.addresses).items()}


def _trips_ms(net: _Addressed, source: str, destination: str) -> list[float]:
    target = f"{destination}={net.address(destination)}"
    return _ask(net, source, "ping", PINGS, TIMEOUT_S, target)[destination]


def _reaches(net: _Addressed, source: str, destination: str) -> bool:
    return bool(_trips_ms(net, source, destination))


def _opens(net: _Addressed, source: str, destination: str, port: str) -> bool:
    return _ask(net, source, "opens", net.address(destination), port)


def _path(net: _Addressed, source: str, destination: str) -> str:
    name_of = net.name_of_address
    answers = _ask(net, source, "way", net.address(destination))
    return " ".join([source, *("?" if each is None else name_of.get(each, each) for each in answers)])


def _through(net: _Addressed, source: str, destination: str, node: str) -> bool:
    return node in _path(net, source, destination).split()


def _mtu_bytes(net: _Addressed, source: str, destination: str) -> int:
    return _ask(net, source, "largest", net.address(destination))


def _round_trip_ms(net: _Addressed, source: str, destination: str) -> float:
    return min(_trips_ms(net, source, destination), default=float("inf"))


def _loss(net: _Addressed, source: str, destination: str) -> float:
    return _ask(net, source, "lost", COUNTED_PINGS, INTERVAL_S, net.address(destination))


def _rate_mbps(net: _Addressed, source: str, destination: str) -> float:
    ends = net.address(destination), PORT
    with net[destination].popen(probe_command("receive", *ends), input="") as receiver:
        net[source].run(probe_command("send", *ends))
        output, _ = receiver.communicate()
    if receiver.returncode:
        raise NetreproError(f"{destination} cannot measure a rate", f"leave its port {PORT} free")
    return json.loads(output)


def _addresses(net: _Addressed, host: str) -> str:
    return " ".join(_ask(net, host, "addresses"))


# Readers of expected values, and comparisons.


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NetreproError(repr(value), "give True or False")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, REAL) or not value >= 0:
        raise NetreproError(repr(value), "give a number of 0 or more")
    return float(value)


def _names(value: Any) -> str:
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not words or not all(isinstance(word, str) for word in words):
        raise NetreproError(repr(value), "give the names in a string")
    return " ".join(words)


def _is_same(expected: Any, value: Any) -> bool:
    return bool(expected == value)


def _is_at_most(expected: float, value: float) -> bool:
    return value <= expected


def _is_at_least(expected: float, value: float) -> bool:
    return value >= expected


def _is_among(expected: str, values: str) -> bool:
    return expected in values.split()


@dataclass(frozen=True)
class _Kind:
    """A kind of phrase.

    words : the phrase, with letters for names: A and B are hosts, S is a switch, P a port. read : checks the expected
    value. find : measures the value in a network, given the names. holds : compares the expected and the found value.
    """

    words: str
    read: Callable[[Any], Any]
    find: Callable[..., Any]
    holds: Callable[[Any, Any], bool] = _is_same

    def names_in(self, phrase: str) -> tuple[str, ...] | None:
        """Return the names in a phrase; None for a phrase of another kind."""
        parts = (re.escape(part) for part in re.split("[ABSP]", self.words))
        pattern = r"(\w+)".join(parts).replace(r"\ ", r"\s+").replace(r"\->", r"\s*->\s*")
        match = re.fullmatch(pattern, phrase.strip())
        return match.groups() if match else None


KINDS = (
    _Kind("A reaches B", _truth, _reaches),
    _Kind("A reaches B:P", _truth, _opens),
    _Kind("A->B path", _names, _path),
    _Kind("A->B through S", _truth, _through),
    _Kind("A->B mtu", _number, _mtu_bytes),
    _Kind("A->B round trip at most", _number, _round_trip_ms, _is_at_most),
    _Kind("A->B loss at most", _number, _loss, _is_at_most),
    _Kind("A->B rate at least", _number, _rate_mbps, _is_at_least),
    _Kind("A address", _names, _addresses, _is_among),
)


@dataclass(frozen=True)
class _Check:
    phrase: str
    kind: _Kind
    names: tuple[str, ...]
    expected: Any
    ipv6: bool


def _parsed(topology: Topology, phrase: str, value: Any) -> _Check:
    """Read one expectation. Raises NetreproError for an unknown phrase or node, and for an unsuitable value."""
    short = phrase.strip().removesuffix(OVER_IPV6)
    ipv6 = short != phrase.strip()
    for kind in KINDS:
        names = kind.names_in(short)
        if names is None:
            continue
        for letter, name in zip(re.findall("[ABSP]", kind.words), names, strict=True):
            if letter in "AB":
                topology.check_host(name)
            elif letter == "S":
                check_name(name, topology.switches, "switch")
            elif not (name.isdecimal() and 0 < int(name) < 65_536):
                raise NetreproError(f"{phrase!r}: no port {name!r}", "give a number from 1 to 65535")
        try:
            return _Check(phrase, kind, names, kind.read(value), ipv6)
        except NetreproError as error:
            raise NetreproError(f"{phrase!r}: {error.problem}", error.remedy) from None
    known = ", ".join(repr(kind.words) for kind in KINDS)
    raise NetreproError(
        f"no check {phrase!r}", f"write one of {known}, with A and B for hosts, S for a switch and P for a port"
    )
