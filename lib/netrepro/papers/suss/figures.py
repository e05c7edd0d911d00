"""SUSS's figures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.networks.experiment import Measurements
from netrepro.papers.suss.closed_form import (
    improvement,
    improvements,
    round_windows,
    rounds_that_grow_fourfold,
    saved_round_trips,
)
from netrepro.papers.suss.experiments import LIMIT_MB, SEGMENT_BYTES, Setting, experiment
from netrepro.study import Runs
from netrepro.study import pictures as drawing
from netrepro.study.figures import Level, Look, Mark, Panel, Published, Sweep
from netrepro.style import CURVES, new_figure, scheme

CUBIC, WITH_SUSS = {"label": "CUBIC", "color": CURVES[0]}, {"label": "CUBIC with SUSS", "color": CURVES[6]}
WITH_BBR = {"label": scheme("bbr").label, "color": scheme("bbr").colour, "linestyle": "-."}
BROKEN = {"label": "SUSS, no fourfold round", "color": scheme("control").colour}
SIZE, SINCE_ACK, WINDOW = "flow size (MB)", "time since the first acknowledgement (s)", "window (segments)"
SINCE_DATA, CARRIED, SAVED = "time since the first data (s)", "acknowledged (MB)", "saved (% of CUBIC's)"
EXAMPLE_PUBLISHED_MS = {  # with CUBIC and with SUSS
    0.2: (166, 123),
    0.5: (259, 183),
    1.0: (342, 266),
    2.0: (510, 434),
    4.0: (844, 768),
    16.0: (2852, 2776),
}
PUBLISHED_SAVING_MS = {size: cubic - suss for size, (cubic, suss) in EXAMPLE_PUBLISHED_MS.items()}
PUBLISHED_PERCENT = {size: 100 * improvement(suss, cubic) for size, (cubic, suss) in EXAMPLE_PUBLISHED_MS.items()}


def draw_idea() -> Figure:
    """Draw the windows of successive rounds on a path of 826 packets, and where each scheme fills it."""
    bdp = Setting(rate_mbps=100.0).bdp_packets
    figure, axis = new_figure("A path is filled in fewer rounds", "rounds (round trips)", "window (segments)")
    for look, fourfold in ((CUBIC, 0), (WITH_SUSS, rounds_that_grow_fourfold(bdp))):
        windows = np.array([*round_windows(bdp, fourfold), bdp])
        places = np.arange(len(windows) + 1)
        axis.step(places, [*windows, bdp], where="post", linewidth=2, **look)
    axis.axhline(bdp, color="#444444", linestyle=":", label="the path is full (100 Mb/s, 100 ms)")
    axis.set_ylim(0, 1.35 * bdp)
    axis.legend(loc="upper left")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw one pair behind the bottleneck."""
    return drawing.draw_network(experiment(setting, 0.0, 1), "One flow over a long path")


def _both(name: str) -> dict[str, Look]:
    return {f"{name}, cubic": CUBIC, f"{name}, suss": WITH_SUSS}


def _saving(buffer: str) -> Panel:
    """Show the improvement over size, a curve for each round trip."""
    rows = f"buffer_bdp == buffer_bdp.{buffer}()"
    return Panel(
        SIZE,
        SAVED,
        Sweep("size_mb", "percent", improvements, by="round_trip_ms", label="{} ms", rows=rows),
        Level(20, "20 % (abstract, below 5 MB)"),
        Level(LIMIT_MB, upright=True),
        title="the smallest buffer (0.5 BDP)" if buffer == "min" else "the largest buffer (2 BDP)",
        log="x",
        y_range=(-2, 45),
    )


def _example(label: str, reading: str, published: Mapping[float, float], *marks: Mark) -> Panel:
    table = partial(improvements, name="example", column="completion_s", ms=1e3)
    ours = Sweep("size_mb", reading, table, looks={"suss": WITH_SUSS | {"label": "ours"}})
    return Panel(SIZE, label, Published(published, "the authors' logs"), ours, *marks, log="x")


def _closed_ms(setting: Setting) -> float:
    return saved_round_trips(setting.bdp_packets) * setting.round_trip_ms


def mended_saving(runs: Runs) -> pd.DataFrame:
    """Compute the round trips that SUSS saves against CUBIC, with and without HyStart's fault: mended, round_trip_ms,
    size_mb, saved."""
    times = runs.knobs["mended"].pivot_table("completion_ms", ["mended", "round_trip_ms", "size_mb"], "case")
    return (times.cubic - times.suss).rename("saved").reset_index().assign(saved=lambda t: t.saved / t.round_trip_ms)


def _mended(round_trip_ms: float) -> Panel:
    looks = {False: CUBIC | {"label": "as in the paper's kernels"}, True: WITH_SUSS | {"label": "mended"}}
    return Panel(
        SIZE,
        "saved (round trips)",
        Sweep("size_mb", "saved", mended_saving, "mended", looks, rows=f"round_trip_ms == {round_trip_ms}"),
        Level(
            lambda runs: saved_round_trips(Setting(runs.setting.rate_mbps, round_trip_ms).bdp_packets),
            "closed form",
            published=False,
        ),
        title=f"round trip {round_trip_ms:g} ms",
        log="x",
    )


def _draw_jumps(axis: Axes, runs: Runs) -> None:
    """Draw the improvement over size in small steps. It jumps where CUBIC needs one more flight than SUSS, and falls
    between."""
    times = runs.knobs["sizes"].pivot_table("completion_ms", "size_mb", "case")
    axis.plot(100 * improvement(times.suss, times.cubic), color=WITH_SUSS["color"], linewidth=1.5, label="simulated")
    ends = np.cumsum(round_windows(runs.setting.bdp_packets, 0)) * SEGMENT_BYTES / 1e6
    for end in ends:
        axis.axvline(end, color=CUBIC["color"], linestyle=":", linewidth=1, label="CUBIC's flights")
    full = times.cubic[times.index > ends[-1] + 0.3]  # both fill the path
    axis.plot(100 * _closed_ms(runs.setting) / full, "--", color="#444444", label="constant saving / completion")


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw the window of one run."""
    completion_ms = run.flows.completion_ms[0]
    figure, axis = new_figure(f"{case}: complete after {completion_ms:.0f} ms", "time (s)", "window (segments)")
    rows = run.windows[run.windows.time_s <= max(0.1, completion_ms / 1e3)]
    axis.plot(rows.time_s, rows.window_bytes / SEGMENT_BYTES, linewidth=1.5)
    return figure


def _against_cubic(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the cases that show SUSS's saving, and those of the control, which must show none."""
    return (f"{name}, suss", f"{name}, cubic"), (f"{name}, none fourfold", f"{name}, cubic")
