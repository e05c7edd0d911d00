"""The Dummynet engine beside numpy, pure Python and Linux: packets a second, and the ratio, measured in one run.

numpy matches all packets against one rule at a time and keeps the first that matches, and works out departures by a
running maximum; pure Python does what the engine does, packet by packet. Linux is u32 on the way out of a host.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import IPv4Address

import numpy as np
import pandas as pd

from netrepro.dummynet import Dummynet, RuleSet, parse_rules, synthetic_headers, time_packets
from netrepro.emulation.tiers import probe_tiers
from netrepro.papers.dummynet import deny_at
from netrepro.papers.dummynet.kernel_costs import time_kernel

PIPE = "pipe 1 config bw 600Mbit/s delay 20ms queue 1000000\nadd pipe 1 udp from any to any"


def numpy_first_match(rules: RuleSet, table: pd.DataFrame) -> np.ndarray:
    """Place of the first rule that matches each packet, -1 for none."""
    numbers = {name: table[name].to_numpy() for name in ("source", "destination", "source_port", "destination_port")}
    protocol = table["protocol"].to_numpy()
    found = np.full(len(table), -1)
    for place, rule in enumerate(rules.rules):
        fits = found < 0
        if rule.protocol is not None:
            fits &= protocol == rule.protocol
        for end in ("source", "destination"):
            network, (low, high) = getattr(rule, end), getattr(rule, f"{end}_ports")
            fits &= (numbers[end] & int(network.netmask)) == int(network.network_address)
            fits &= (numbers[f"{end}_port"] >= low) & (numbers[f"{end}_port"] <= high)
        found[fits] = place
    return found


def numpy_departures(table: pd.DataFrame, rate: float, delay_s: float) -> np.ndarray:
    """When packets leave a pipe of unlimited room (seconds): free times as a running maximum."""
    needed = table["size_bytes"].to_numpy() * 8 / rate
    sent = np.cumsum(needed)
    return sent + np.maximum.accumulate(table["time_s"].to_numpy() - (sent - needed)) + delay_s


def python_first_match(rules: RuleSet, table: pd.DataFrame) -> list[int]:
    """As `numpy_first_match`, a packet and a rule at a time."""
    described = [
        (
            rule.protocol,
            int(rule.source.netmask),
            int(rule.source.network_address),
            int(rule.destination.netmask),
            int(rule.destination.network_address),
            *rule.source_ports,
            *rule.destination_ports,
        )
        for rule in rules.rules
    ]
    found = []
    columns = ("source", "destination", "source_port", "destination_port", "protocol")
    for source, destination, from_port, to_port, protocol in zip(
        *(table[name].tolist() for name in columns), strict=True
    ):
        match = -1
        for place, (wanted, mask, network, far_mask, far_network, low, high, far_low, far_high) in enumerate(described):
            if (
                (wanted is None or wanted == protocol)
                and source & mask == network
                and destination & far_mask == far_network
                and low <= from_port <= high
                and far_low <= to_port <= far_high
            ):
                match = place
                break
        found.append(match)
    return found


def _best_rate(task: Callable[[], object], packets: int, rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - started)
    return packets / best


def run(quick: bool = True) -> dict[str, pd.DataFrame]:
    """Packets a second, ours and the peer's: benchmark, ours_per_s, peer, peer_per_s, ratio."""
    packets, rounds = (200_000, 3) if quick else (2_000_000, 5)
    few = packets // 20
    table = synthetic_headers(packets, 1.0).assign(
        source=int(IPv4Address("10.0.0.1")), destination=int(IPv4Address("10.0.0.2"))
    )
    rows = []
    for count in (1, 100):
        rules = parse_rules(deny_at(count, count))
        engine = Dummynet(rules)
        ours = _best_rate(lambda engine=engine: engine.run(table), packets, rounds)
        peers = {
            "numpy": _best_rate(lambda rules=rules: numpy_first_match(rules, table), packets, rounds),
            "pure Python": _best_rate(lambda rules=rules: python_first_match(rules, table[:few]), few, 1),
        }
        rows += [(f"{count} rules over a table of headers", ours, peer, rate) for peer, rate in peers.items()]
    engine = Dummynet(PIPE)
    ours = _best_rate(lambda: engine.run(table), packets, rounds)
    rows.append(
        ("rate and delay", ours, "numpy", _best_rate(lambda: numpy_departures(table, 600e6, 0.02), packets, rounds))
    )
    tier = probe_tiers().best
    if tier != "simulated":
        linux = time_kernel(tier, packets // 4000, cases=("B", "B100")).groupby("case").processor_ns.median()
        for case, count in (("B", 1), ("B100", 100)):
            ours_ns = time_packets(Dummynet(deny_at(count, count)), packets).batches.whole_ns.median()
            peer = "Linux, u32 and a socket's way there"
            rows.append((f"{count} rules, datagrams from a generator", 1e9 / ours_ns, peer, 1e9 / linux[case]))
    found = pd.DataFrame(rows, columns=["benchmark", "ours_per_s", "peer", "peer_per_s"])
    return {"packets a second": found.assign(ratio=found.ours_per_s / found.peer_per_s).set_index("benchmark")}
