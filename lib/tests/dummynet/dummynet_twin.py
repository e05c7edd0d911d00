"""The Dummynet engine once more, plainly: a pipe is worked through packet by packet with exact fractions."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from fractions import Fraction

from netrepro.dummynet import Pipe, Rule, RuleSet


@dataclass(frozen=True)
class Header:
    time_us: int
    source: str
    destination: str
    source_port: int
    destination_port: int
    protocol: int
    size_bytes: int


def matches(rule: Rule, header: Header) -> bool:
    return (
        rule.protocol in (None, header.protocol)
        and ipaddress.IPv4Address(header.source) in rule.source
        and ipaddress.IPv4Address(header.destination) in rule.destination
        and rule.source_ports[0] <= header.source_port <= rule.source_ports[1]
        and rule.destination_ports[0] <= header.destination_port <= rule.destination_ports[1]
    )


class DropTailPipe:
    """Rate, delay, and room for so many waiting packets; the one being sent does not wait."""

    def __init__(self, pipe: Pipe):
        self.rate = Fraction(pipe.rate_mbps) if pipe.rate_mbps else None  # Mb/s: bits a microsecond
        self.delay_us = Fraction(pipe.delay_ms) * 1000
        self.room = pipe.queue.packets
        self.starts: list[Fraction] = []
        self.free_at = Fraction(0)

    def departure_us(self, header: Header) -> Fraction | None:
        waiting = sum(start > header.time_us for start in self.starts)
        if waiting >= self.room:
            return None
        start = max(self.free_at, Fraction(header.time_us))
        self.starts.append(start)
        self.free_at = start + (header.size_bytes * 8 / self.rate if self.rate else 0)
        return self.free_at + self.delay_us


def passage(rules: RuleSet, headers: list[Header]) -> list[tuple[str, int, Fraction | None]]:
    """(verdict, rule number or 0, departure in microseconds) of each packet, without losses and probabilities."""
    pipes = {pipe.number: DropTailPipe(pipe) for pipe in rules.pipes}
    found: list[tuple[str, int, Fraction | None]] = []
    for header in headers:
        deciding = next((rule for rule in rules.rules if rule.action != "count" and matches(rule, header)), None)
        if deciding is None:
            found.append(("allowed", 0, Fraction(header.time_us)))
        elif deciding.action == "pipe":
            departure = pipes[deciding.pipe].departure_us(header)
            found.append(("dropped" if departure is None else "delivered", deciding.number, departure))
        else:
            denied = deciding.action == "deny"
            verdict = "denied" if denied else "allowed"
            found.append((verdict, deciding.number, None if denied else Fraction(header.time_us)))
    return found
