"""SUSS's setting, its paths and flows, and what is read of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow, Tcp
from netrepro.study import Check, Part, Reading, swept
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
UNWATCHED, WATCHED = Measure(), Measure(packets=(PORT,), windows_interval_ms=5.0)


@dataclass(frozen=True)
class SussPath:
    """A bottleneck and its senders.

    buffer_bdp : the bottleneck's buffer in bandwidth-delay products, unless `buffer_packets` is given. mended : HyStart
    tells rounds apart from the first on, as in kernels since 2025. module_cubic : CUBIC with HyStart's fault is SUSS
    without fourfold rounds, because the virtual kernel's own CUBIC has been mended.
    """

    rate_mbps: float = parameter(50.0, "of the bottleneck in Fig. 12 and the knobs", "Mb/s", low=1, high=1000)
    round_trip_ms: float = 100.0
    buffer_bdp: float = 1.0
    buffer_packets: int = 0
    jitter_ms: float = parameter(
        0.0, "by how much its delay varies from packet to packet at most", "ms", low=0, high=100
    )
    congestion_control: str = "cubic"
    hystart: bool = True
    mended: bool = False
    suss_rounds: int = MOST_FOURFOLD
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


@dataclass(frozen=True)
class Setting(SussPath):
    """One flow of a size."""

    size_mb: float = 2.0


@dataclass(frozen=True)
class Watched(Setting):
    """The same, of which windows and packets are recorded."""


@dataclass(frozen=True)
class TwoSeconds(SussPath):
    """One flow for a time."""

    lasts_s: float = 2.0


@dataclass(frozen=True)
class FifthFlow(SussPath):
    """Flows that last, of which the last one joins the others."""

    flows: int = 5
    joins_s: float = 90.0
    lasts_s: float = 150.0


def over_path(setting: SussPath, flows: Sequence[Flow], lasts_s: float, seed: int, measure: Measure) -> Experiment:
    """Make an experiment in which each flow has hosts of its own, in order, and all share the bottleneck."""
    one_way_ms = setting.round_trip_ms / 2 - 2 * ACCESS_MS
    bottleneck = Link(setting.rate_mbps, one_way_ms, DropTail(setting.queue_packets), jitter_ms=setting.jitter_ms)
    net = dumbbell(len(flows), Link(ACCESS_MBPS, ACCESS_MS, DropTail(packets=100_000)), bottleneck)
    congestion_control, suss_rounds = setting.control
    tcp = Tcp(
        congestion_control,
        receive_window_bytes=64 * 2**20,
        receive_window_grows=False,  # SUSS's window outgrows a growing one, so its authors had SUSS ignore that
        hystart=setting.hystart,
        hystart_rounds_from_start=setting.mended,
        suss_rounds=suss_rounds,
    )
    return Experiment(net, tuple(flows), lasts_s, seed, measure, tcp)


def experiment(setting: Setting, _: float, seed: int, measure: Measure = UNWATCHED) -> Experiment:
    """Make the experiment with one flow of a size."""
    lasts_s = 10.0 + 40 * setting.round_trip_ms / 1e3 + 3 * setting.size_mb * 8 / setting.rate_mbps
    return over_path(setting, [Flow("h1", "h2", round(setting.size_mb * 1e6))], lasts_s, seed, measure)


def two_seconds(setting: TwoSeconds, _: float, seed: int) -> Experiment:
    """Make the experiment with one flow for a time, as in a sender's log: from the first data sent to their
    acknowledgement. The receiver has them half a round trip earlier, and the connection was opened a round trip
    before."""
    lasts_s = setting.lasts_s + setting.round_trip_ms / 2e3
    return over_path(setting, [Flow("h1", "h2", None, lasts_s)], lasts_s, seed, WATCHED)


def fifth_flow(setting: FifthFlow, _: float, seed: int) -> Experiment:
    """Make the experiment with flows that last. They begin within a second, except the last."""
    starts_s = [*np.random.default_rng(seed).uniform(0, 1, setting.flows - 1).tolist(), setting.joins_s]
    flows = [
        Flow(f"h{host}", f"h{host + setting.flows}", None, setting.lasts_s - start_s, start_s)
        for host, start_s in enumerate(starts_s, 1)
    ]
    return over_path(setting, flows, setting.lasts_s, seed, Measure(packets=(PORT,)))


def read_path(run: Measurements) -> Reading:
    """Read delivered_mb and dropped_packets."""
    bottleneck, delivered_bytes = run.links_by_port.loc[PORT], run.flows.delivered_bytes.sum()
    numbers = {"delivered_mb": delivered_bytes / 1e6, "dropped_packets": int(bottleneck.dropped_packets)}
    used = Check("packets at the bottleneck's rate (utilisation)", float(bottleneck.utilisation), at_most=1.001)
    return Reading(numbers, {}, [used])


def read(run: Measurements, setting: Setting) -> Reading:
    """Read what `read_path` does, completion_ms (from the connect call) and completion_s (from the first data's
    arrival, as in logs)."""
    flow, opening_ms = run.flows.iloc[0], 1.5 * setting.round_trip_ms
    completion_ms, least_ms = float(flow.completion_ms), opening_ms + flow.size_bytes * 8e-3 / setting.rate_mbps
    checks = [
        Check("bytes delivered / sent", flow.delivered_bytes / flow.size_bytes, 1.0, 1.0),
        Check("completion / least possible", completion_ms / least_ms, at_least=1.0),
    ]
    numbers = {"completion_ms": completion_ms, "completion_s": (completion_ms - opening_ms) / 1e3}
    return read_path(run) | Reading(numbers, {}, checks)


def read_course(run: Measurements, setting: SussPath) -> Reading:
    """Read exit_segments (where slow start ended; NaN: never), the table `windows` since the first acknowledgement of
    data, and the table `carried` of what was acknowledged since the first data. Packets that leave the bottleneck are
    acknowledged a round trip later; data wait one for the connection."""
    windows = run.windows.assign(time_s=run.windows.time_s - 2 * setting.round_trip_ms / 1e3)
    left = windows.slow_start_threshold_bytes[np.isfinite(windows.slow_start_threshold_bytes)]
    data = run.packets[run.packets.size_bytes > FULL_PACKET_BYTES / 2]
    carried = pd.DataFrame({"time_s": data.time_s.to_numpy()})
    carried["carried_mb"] = np.arange(1, len(data) + 1) * SEGMENT_BYTES / 1e6
    window = pd.DataFrame({"time_s": windows.time_s, "window_segments": windows.window_bytes / SEGMENT_BYTES})
    exit_segments = float(left.iloc[0] / SEGMENT_BYTES) if len(left) else np.nan
    tables = {"windows": window[window.time_s.between(0.0, 2.0)], "carried": carried.iloc[::10]}
    return Reading({"exit_segments": exit_segments}, tables)


def read_fifth(run: Measurements, setting: FifthFlow) -> Reading:
    """Read what `read_path` does, fair_after_s (until all are fair), four_fair (the others' index before the last one
    joins) and the table `fairness`."""
    fairness = jain_by_second(run.packets, setting.flows)
    before = fairness.jain[fairness.time_s.between(setting.joins_s - 10, setting.joins_s - 1)]
    four_fair = float(before.mean() * setting.flows / (setting.flows - 1))
    numbers = {"fair_after_s": fair_after_s(fairness, setting), "four_fair": four_fair}
    return read_path(run) | Reading(numbers, {"fairness": fairness})


def jain_by_second(packets: pd.DataFrame, flows: int) -> pd.DataFrame:
    """Compute Jain's index of `flows` over the bytes that each sent through the port in each second: time_s, jain."""
    second = np.floor(packets.time_s).astype(int).rename("time_s")
    shares = packets.size_bytes.groupby([second, packets.flow]).sum().unstack(fill_value=0)
    index = shares.sum(axis=1) ** 2 / (flows * (shares**2).sum(axis=1))
    return index.rename("jain").reset_index()


def fair_after_s(fairness: pd.DataFrame, setting: FifthFlow) -> float:
    """Compute the whole seconds from the fifth flow's start until the index is FAIR, or until the end if it never
    is."""
    after = fairness[fairness.time_s >= setting.joins_s]
    fair = after.time_s[after.jain >= FAIR]
    return float((fair.iloc[0] if len(fair) else setting.lasts_s) - setting.joins_s)


WATCH = Part(
    setting=Watched(),
    experiment=partial(experiment, measure=WATCHED),
    read=lambda run, setting: read(run, setting) | read_course(run, setting),
)
SECONDS = Part(
    setting=TwoSeconds(),
    experiment=two_seconds,
    read=lambda run, setting: read_path(run) | read_course(run, setting),
)
FIFTH = Part(setting=FifthFlow(), experiment=fifth_flow, read=read_fifth)
PARTS = (WATCH, SECONDS, FIFTH)
SUSS: dict[str, Any] = {"congestion_control": "suss"}
NONE_FOURFOLD = SUSS | {"suss_rounds": 0}


def _cases(name: str, common: dict[str, Any], **schemes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{name}, {label.replace('_', ' ')}": common | changes for label, changes in schemes.items()}


_three = partial(_cases, cubic={}, suss=SUSS, none_fourfold=NONE_FOURFOLD)
GRID = {"size_mb": swept(*SIZES_MB), "round_trip_ms": swept(*ROUND_TRIPS_MS), "buffer_bdp": swept(0.5, 1.0, 2.0)}
TWO_SECONDS = {"part": SECONDS, "rate_mbps": 100.0, "round_trip_ms": 270.0}
EXAMPLE = {
    "part": WATCH,
    "rate_mbps": 48.0,
    "round_trip_ms": 49.5,
    "buffer_packets": 1000,
    "size_mb": swept(*EXAMPLE_MB),
}
LATER = {"part": WATCH, "rate_mbps": 50.0, "buffer_packets": 413, "size_mb": swept(5.0, 20.0), "mended": True}
CLASS = {"part": WATCH, "rate_mbps": 50.0, "round_trip_ms": swept(*CLASS_MS), "size_mb": 12.0}
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
    **_three("fifth", {"part": FIFTH, "rate_mbps": 50.0}),
    **_cases("near", {"round_trip_ms": swept(*NEAR_MS), "size_mb": swept(0.5, 2.0)}, cubic={}, suss=SUSS),
}
