"""Rules and pipes over packets, in virtual time; the compiled core does the work."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netrepro.dummynet.headers import HEADER_COLUMNS, address_numbers, checked_headers
from netrepro.dummynet.language import parse_rules
from netrepro.dummynet.rules import RuleSet
from netrepro.errors import NetreproError
from netrepro.networks.description import domain

LAST_S = 9e6  # at which a packet may leave: the virtual clock counts picoseconds in 63 bits


@dataclass(frozen=True)
class Passage:
    """The fate of packets.

    packets : the headers, in their order, with verdict (delivered: through a pipe, allowed, denied, dropped: by a
        pipe's queue, lost: on its line), rule and pipe (their numbers; 0 where there is none), marked (Congestion
        Experienced) and departure_s (NaN for those that did not get through).
    rules : a row for each rule in order of evaluation: rule, action, and the packets and bytes that it matched.
    """

    packets: pd.DataFrame
    rules: pd.DataFrame


class Dummynet:
    """Rules and pipes over packets in virtual time.

    rules : text for `parse_rules`, or a RuleSet.
    tick_ms : interval of the timer that serves the pipes (the kernel's Dummynet: 1 ms); with 0 each packet is served
        exactly when it is due.
    seed : seed of losses, reordering, probabilities, RED and PIE.

    Equal arguments and packets give equal passages.

    Raises NetreproError for rules that `parse_rules` refuses, a tick that is neither 0 nor 1 us to 1e6 s, and a seed
    outside 0 to 2^63.
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
        table = checked_headers(headers)
        if len(table):
            last_s, sizes_bytes = float(table["time_s"].iloc[-1]), table["size_bytes"].to_numpy()
            for pipe in self.rule_set.pipes:
                if (ends_s := pipe.ends_s(last_s, sizes_bytes) + self.tick_ms / 1e3) > LAST_S:
                    raise NetreproError(
                        f"packets could leave pipe {pipe.number} after {ends_s:.3g} s",
                        f"make it faster or its queue shorter: {LAST_S:g} s is the last",
                    )
        from netrepro import _core

        addresses = {name: address_numbers(table[name], name) for name in ("source", "destination")}
        columns = {**{name: table[name].to_numpy() for name in HEADER_COLUMNS}, **addresses}
        engine = self.engine()
        passed = engine.run(*(columns[name] for name in HEADER_COLUMNS))
        fates = pd.Categorical.from_codes(passed["fate"], _core.dummynet_fates)
        numbers = np.array([*(rule.number for rule in self.rule_set.rules), 0])
        pipes = np.array([*(rule.pipe or 0 for rule in self.rule_set.rules), 0])
        packets = table.assign(
            verdict=fates,
            rule=numbers[passed["rule"]],
            pipe=pipes[passed["rule"]],
            marked=passed["marked"],
            departure_s=passed["departure_s"],
        )
        rows = [
            (rule.number, rule.action if rule.pipe is None else f"pipe {rule.pipe}", *counted)
            for rule, counted in zip(self.rule_set.rules, engine.counters(), strict=True)
        ]
        return Passage(packets, pd.DataFrame(rows, columns=["rule", "action", "packets", "bytes"]))

    def engine(self) -> Any:
        """Make a fresh compiled engine with these rules and pipes (netrepro._core.Dummynet)."""
        from netrepro import _core

        engine = _core.Dummynet(seed=self.seed, tick_s=self.tick_ms / 1e3)
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


def _prefix(network: ipaddress.IPv4Network) -> tuple[int, int]:
    return int(network.network_address), int(network.netmask)
