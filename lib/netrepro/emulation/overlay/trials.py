"""Trials, packet by packet, of what an overlay with caches must never do, on this machine's kernel or a virtual one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pandas as pd

from netrepro.emulation.overlay.network import (
    CACHES,
    Cache,
    Overlay,
    OverlayNetwork,
    compiled_programs,
    missing_for_trials,
)
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.topology import Cable, Topology

COLUMNS = ["what", "case", "trial", "fast_before", "arrived", "sent", "holds"]
FIRST, SECOND = 20_000, 30_000  # ports of conversations
WARM_UP, AFTER = 5, 5  # exchanges before and after the eviction or refusal
FORGET_S = 1  # the kernel's shortest timeout
Row = tuple[str, str, str, bool, int, int, bool]


def run_trials(tier: str, evicted: Mapping[str, Overlay], refused: Mapping[str, bool]) -> pd.DataFrame:
    """Try evictions of every host's caches, for each of `evicted`, and refusals of a flow, for each of `refused`.

    tier : "privileged" or "virtual". evicted : case -> overlay with a cache. refused : case -> whether the daemon
    deletes the flow's entries. Returns a row for each trial: what (evict, refuse), case, trial, fast_before (whether
    the flow was on the fast path before), arrived, sent (packets after it), holds. An eviction holds if everything
    arrived and the flow is on the fast path again; a refusal holds if nothing arrived. Raises NetreproError for other
    tiers and where the kernel lacks something.
    """
    if tier not in ("privileged", "virtual"):
        raise NetreproError(f"no trials on tier {tier!r}", "choose privileged or virtual; the model needs neither")
    if missing := missing_for_trials():
        raise NetreproError(f"no overlay can be built on this machine: {missing}", "see `netrepro doctor`")
    with ExitStack() as opened:
        compile_for = {name: overlay for name, overlay in (*evicted.items(), ("", Overlay())) if name or refused}
        programs = {
            name: opened.enter_context(compiled_programs(overlay.cache or Cache(), overlay.tunnel))
            for name, overlay in compile_for.items()
        }
        if tier == "virtual":
            net = opened.enter_context(
                VirtualNetwork(Topology((Cable("h1", "h2", Link(100.0, 1.0)),)), syscall_cost_ns=0)
            )
            rows = net["h1"].python(_all_trials, dict(evicted), dict(refused), programs, 1)
        else:
            rows = _all_trials(dict(evicted), dict(refused), programs, 8)
    return pd.DataFrame(rows, columns=COLUMNS)


def _all_trials(
    evicted: dict[str, Overlay], refused: dict[str, bool], programs: dict[str, Path], at_once: int
) -> list[Row]:
    """Run all trials, several at once, because most time is spent waiting until connections are forgotten."""
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(_evictions, name, overlay, programs[name]) for name, overlay in evicted.items()]
        if refused:
            waiting.append(pool.submit(_refusals, refused, programs[""]))
        return [row for each in waiting for row in each.result()]


def _evictions(case: str, overlay: Overlay, programs: Path) -> list[Row]:
    rows = []
    with OverlayNetwork(overlay, programs) as net:
        net.forget_connections_after(FORGET_S)
        trials = [(cache, number) for cache in CACHES for number in (1, 2)]
        for place, (cache, number) in enumerate(trials):
            with net.conversation(FIRST + place, SECOND + place) as flow:
                flow.exchange(WARM_UP)
                fast = flow.is_fast()
                time.sleep(FORGET_S + 0.1)
                net.evict(number, cache)
                arrived = flow.exchange(AFTER)
                again = arrived == 2 * AFTER and flow.is_fast()
                rows.append(("evict", case, f"{cache} of host {number}", fast, arrived, 2 * AFTER, again))
    return rows


def _refusals(refused: dict[str, bool], programs: Path) -> list[Row]:
    rows = []
    with OverlayNetwork(Overlay(cache=Cache()), programs) as net:
        for place, (case, delete) in enumerate(refused.items()):
            port = SECOND + 100 + place
            with net.conversation(FIRST + 100 + place, port) as flow:
                flow.exchange(WARM_UP)
                fast = flow.is_fast()
                net.refuse(port, delete)
                arrived = flow.exchange(AFTER)
                rows.append(("refuse", case, f"port {port}", fast, arrived, 2 * AFTER, arrived == 0))
    return rows
