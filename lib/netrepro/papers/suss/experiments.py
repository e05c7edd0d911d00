"""SUSS's setting, its paths and flows, and what is read of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import Check, Reading, swept
from netrepro.study.setting import parameter

PORT = ("s1", "s2")
SEGMENT_BYTES = 1448
INITIAL_WINDOW = 10
MOST_FOURFOLD = 3  # rounds, in the authors' code
SIZES_MB = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0)
ROUND_TRIPS_MS = (25.0, 50.0, 75.0, 100.0, 150.0, 250.0)
NEAR_MS = (1.0, 5.0, 9.0)  # round trips at which SUSS switches itself off
CLASS_MS = (40.0, 540.0)  # a site some 40 ms away, and the same with 500 ms more
EXAMPLE_MB = (0.2, 0.5, 1.0, 2.0, 4.0, 16.0)
LIMIT_MB = 5.0  # from the abstract: flows below
# What Fig. 12 shows of it, by inference (data/suss/SOURCES.md): paths from Tokyo to Sweden and New Zealand, and sizes
# of more than a few flights.
JUDGED_MB, JUDGED_MS = 0.5, (100.0, 300.0)
FAIR = 0.95  # Jain's index
ACCESS_MBPS, ACCESS_MS = 1000.0, 0.01


@dataclass(frozen=True)
class Setting:
    """A bottleneck and its senders.

    buffer_bdp : the bottleneck's buffer in bandwidth-delay products, unless `buffer_packets` is given. size_mb : size
    of the flow, unless `lasts_s` gives its duration. mended : HyStart tells rounds apart from the first on, as in
    kernels since 2025. joins_s : with five flows, start of the fifth. watch : record windows and packets. module_cubic
    : CUBIC with HyStart's fault is SUSS without fourfold rounds, because the virtual kernel's own CUBIC has been
    mended.
    """

    rate_mbps: float = parameter(50.0, "of the bottleneck in Fig. 12 and the knobs", "Mb/s", low=1, high=1000)
    round_trip_ms: float = 100.0
    buffer_bdp: float = 1.0
    buffer_packets: int = 0
    jitter_ms: float = parameter(
        0.0, "by how much its delay varies from packet to packet at most", "ms", low=0, high=100
    )
    size_mb: float = 2.0
    lasts_s: float = 0.0
    flows: int = 1
    joins_s: float = 0.0
    congestion_control: str = "cubic"
    hystart: bool = True
    mended: bool = False
    suss_rounds: int = MOST_FOURFOLD
    suss_guard: bool = True
    suss_pacing: bool = True
    watch: bool = False
    module_cubic: bool = False

    @property
    def bdp_packets(self) -> float:
        """The number of full packets that fill the path."""
        return bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms)

    @property
    def control(self) -> tuple[str, int]:
        """The congestion control, and the number of rounds in which SUSS may grow fourfold."""
        if self.module_cubic and self.congestion_control == "cubic" and not self.mended:
            return "suss", 0
        return self.congestion_control, self.suss_rounds

    @property
    def queue_packets(self) -> int:
        """The bottleneck's buffer (packets)."""
        return self.buffer_packets or max(1, round(self.buffer_bdp * self.bdp_packets))


SUSS: dict[str, Any] = {"congestion_control": "suss"}
NONE_FOURFOLD = SUSS | {"suss_rounds": 0}


def _cases(name: str, common: dict[str, Any], **schemes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{name}, {label.replace('_', ' ')}": common | changes for label, changes in schemes.items()}


_three = partial(_cases, cubic={}, suss=SUSS, none_fourfold=NONE_FOURFOLD)
GRID = {"size_mb": swept(*SIZES_MB), "round_trip_ms": swept(*ROUND_TRIPS_MS), "buffer_bdp": swept(0.5, 1.0, 2.0)}
LATER_PATH = {"rate_mbps": 50.0, "round_trip_ms": 100.0}
TWO_SECONDS = {"rate_mbps": 100.0, "round_trip_ms": 270.0, "lasts_s": 2.0, "watch": True}
EXAMPLE = {
    "rate_mbps": 48.0,
    "round_trip_ms": 49.5,
    "buffer_packets": 1000,
    "size_mb": swept(*EXAMPLE_MB),
    "watch": True,
}
LATER = LATER_PATH | {"buffer_packets": 413, "size_mb": swept(5.0, 20.0), "mended": True, "watch": True}
CLASS = {"rate_mbps": 50.0, "round_trip_ms": swept(*CLASS_MS), "size_mb": 12.0, "watch": True}
FIFTH = LATER_PATH | {"flows": 5, "joins_s": 90.0, "lasts_s": 150.0, "watch": True}
CASES: dict[str, dict[str, Any]] = {
    **_cases("fig12", GRID, cubic={}, suss=SUSS),
    "fig12, none fourfold": GRID
    | NONE_FOURFOLD
    | {"round_trip_ms": swept(75.0, 100.0, 250.0), "buffer_bdp": swept(1.0)},
    **_three("fig10", TWO_SECONDS),
    **_three("example", EXAMPLE),
    "example, mended": EXAMPLE | SUSS | {"mended": True},
    **_cases("later", LATER, none={"hystart": False}, hystart={}, suss=SUSS, none_fourfold=NONE_FOURFOLD),
    "later, not mended": LATER | SUSS | {"mended": False},
    **_cases("class", CLASS, cubic={}, suss=SUSS, bbr={"congestion_control": "bbr"}),
    **_three("fifth", FIFTH),
    **_cases("near", {"round_trip_ms": swept(*NEAR_MS), "size_mb": swept(0.5, 2.0)}, cubic={}, suss=SUSS),
}


def experiment(setting: Setting, _: float, seed: int) -> Experiment:
    """Make the experiment: one flow over the bottleneck, or several long ones. These begin within a second, except the
    last."""
    one_way_ms = setting.round_trip_ms / 2 - 2 * ACCESS_MS
    bottleneck = Link(setting.rate_mbps, one_way_ms, DropTail(setting.queue_packets), jitter_ms=setting.jitter_ms)
    net = dumbbell(setting.flows, Link(ACCESS_MBPS, ACCESS_MS, DropTail(packets=100_000)), bottleneck)
    lasts_s, flows = _flows(setting, seed)
    congestion_control, suss_rounds = setting.control
    tcp = Tcp(
        congestion_control,
        receive_window_bytes=64 * 2**20,
        receive_window_grows=False,  # SUSS's window outgrows a growing one, so its authors had SUSS ignore that
        hystart=setting.hystart,
        hystart_rounds_from_start=setting.mended,
        suss_rounds=suss_rounds,
        suss_guard=setting.suss_guard,
        suss_pacing=setting.suss_pacing,
    )
    watch = Measure(packets=(PORT,), windows_interval_ms=5.0 if setting.flows == 1 else None)
    return Experiment(net, flows, lasts_s, seed, watch if setting.watch else Measure(), tcp)


def _flows(setting: Setting, seed: int) -> tuple[float, tuple[Flow, ...]]:
    """Return the length of the experiment in seconds, and its traffic."""
    last = f"h{2 * setting.flows}"
    if setting.flows > 1:
        starts_s = [*np.random.default_rng(seed).uniform(0, 1, setting.flows - 1), setting.joins_s]
        pairs = [(f"h{i + 1}", f"h{i + 1 + setting.flows}", float(start)) for i, start in enumerate(starts_s)]
        long = (Flow(here, there, None, setting.lasts_s - start, start) for here, there, start in pairs)
        return setting.lasts_s, tuple(long)
    if setting.lasts_s:
        # As in a sender's log: from the first data sent to their acknowledgement. The receiver has them half a round
        # trip earlier, and the connection was opened a round trip before.
        lasts_s = setting.lasts_s + setting.round_trip_ms / 2e3
        return lasts_s, (Flow("h1", last, None, lasts_s),)
    lasts_s = 10.0 + 40 * setting.round_trip_ms / 1e3 + 3 * setting.size_mb * 8 / setting.rate_mbps
    return lasts_s, (Flow("h1", last, round(setting.size_mb * 1e6)),)


def read(run: Measurements, setting: Setting) -> Reading:
    """Read one run. For one flow: completion_ms (from the connect call), completion_s (from the first data's arrival,
    as in logs), delivered_mb, dropped_packets. For a watched run: exit_segments (where slow start ended; NaN: never)
    and the tables `windows` and `carried`. For five flows: seconds until they are fair, the first four's index before
    the fifth, and the table `fairness`."""
    flow = run.flows.iloc[0]
    bottleneck = run.links_by_port.loc[PORT]
    numbers: dict[str, float] = {
        "completion_ms": float(flow.completion_ms),
        "completion_s": float(flow.completion_ms - 1.5 * setting.round_trip_ms) / 1e3,
        "delivered_mb": float(run.flows.delivered_bytes.sum()) / 1e6,
        "dropped_packets": int(bottleneck.dropped_packets),
        "exit_segments": np.nan,
        "fair_after_s": np.nan,
    }
    tables: dict[str, pd.DataFrame] = {}
    checks = [Check("packets at the bottleneck's rate (utilisation)", float(bottleneck.utilisation), at_most=1.001)]
    if setting.flows == 1 and not setting.lasts_s:
        least_ms = 1.5 * setting.round_trip_ms + flow.size_bytes * 8e-3 / setting.rate_mbps
        checks.append(Check("bytes delivered / sent", flow.delivered_bytes / flow.size_bytes, 1.0, 1.0))
        checks.append(Check("completion / least possible", flow.completion_ms / least_ms, at_least=1.0))
    if setting.flows > 1:
        fairness = jain_by_second(run.packets, setting.flows)
        numbers["fair_after_s"], tables["fairness"] = fair_after_s(fairness, setting), fairness
        before = fairness[fairness.time_s.between(setting.joins_s - 10, setting.joins_s - 1)]
        numbers["four_fair"] = float(before.jain.mean() * setting.flows / (setting.flows - 1))
    elif setting.watch:
        numbers["exit_segments"], tables = _course(run, setting)
    return Reading(numbers, tables, checks)


def _course(run: Measurements, setting: Setting) -> tuple[float, dict[str, pd.DataFrame]]:
    """Compute how a flow's window grew since the first acknowledgement of data, and what was acknowledged since the
    first data. Packets that leave the bottleneck are acknowledged a round trip later; data wait one for the
    connection."""
    windows = run.windows.assign(time_s=run.windows.time_s - 2 * setting.round_trip_ms / 1e3)
    left = windows.slow_start_threshold_bytes[np.isfinite(windows.slow_start_threshold_bytes)]
    data = run.packets[run.packets.size_bytes > FULL_PACKET_BYTES / 2]
    carried = pd.DataFrame({"time_s": data.time_s.to_numpy()})
    carried["carried_mb"] = np.arange(1, len(data) + 1) * SEGMENT_BYTES / 1e6
    window = pd.DataFrame({"time_s": windows.time_s, "window_segments": windows.window_bytes / SEGMENT_BYTES})
    exit_segments = float(left.iloc[0] / SEGMENT_BYTES) if len(left) else np.nan
    return exit_segments, {"windows": window[window.time_s.between(0.0, 2.0)], "carried": carried.iloc[::10]}


def jain_by_second(packets: pd.DataFrame, flows: int) -> pd.DataFrame:
    """Compute Jain's index of `flows` over the bytes that each sent through the port in each second: time_s, jain."""
    second = np.floor(packets.time_s).astype(int).rename("time_s")
    shares = packets.size_bytes.groupby([second, packets.flow]).sum().unstack(fill_value=0)
    index = shares.sum(axis=1) ** 2 / (flows * (shares**2).sum(axis=1))
    return index.rename("jain").reset_index()


def fair_after_s(fairness: pd.DataFrame, setting: Setting) -> float:
    """Compute the whole seconds from the fifth flow's start until the index is FAIR, or until the end if it never
    is."""
    after = fairness[fairness.time_s >= setting.joins_s]
    fair = after.time_s[after.jain >= FAIR]
    return float((fair.iloc[0] if len(fair) else setting.lasts_s) - setting.joins_s)
