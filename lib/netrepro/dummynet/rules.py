"""Rules: conditions on packets, and the action for packets that meet them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Literal

from netrepro.dummynet.pipes import Pipe
from netrepro.networks.description import check_count, set_number

Action = Literal["allow", "deny", "count", "pipe"]
ANYWHERE, ANY_PORT = ipaddress.IPv4Network("0.0.0.0/0"), (0, 65_535)
LAST_RULE = 65_534  # ipfw keeps 65535 for its default


@dataclass(frozen=True)
class Rule:
    """The conditions on a packet, and the action that it then meets with `probability`.

    `protocol` None means any protocol. Networks are IPv4. Ports are (first, last), for TCP, UDP and SCTP only. Raises
    NetreproError for a number that no rule has and a probability outside 0 to 1.
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
