"""SUSS's saving in closed form, and what claims compute from completion times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.papers.suss.experiments import (
    INITIAL_WINDOW,
    JUDGED_MB,
    JUDGED_MS,
    LIMIT_MB,
    MOST_FOURFOLD,
    SEGMENT_BYTES,
    Setting,
)
from netrepro.study import Runs


def rounds_that_grow_fourfold(bdp_packets: float, most: int = MOST_FOURFOLD) -> int:
    """Count how often the window grows fourfold on an empty path of `bdp_packets`.

    The paper's first condition, for acknowledgements that come at the bottleneck's rate: the packet train of the
    fourfold window must fit into the round trip, so that window must not exceed the path. A sender measures the train
    from its first to its last acknowledgement, which is a little too short. So a slightly shorter path may suffice.
    """
    return next((n for n in range(most) if INITIAL_WINDOW * 4 ** (n + 1) > bdp_packets), most)


def round_windows(bdp_packets: float, fourfold: int) -> list[int]:
    """Compute the windows (segments) of successive rounds, up to and without the first that fills the path."""
    windows, window = [], INITIAL_WINDOW
    while window < bdp_packets:
        windows.append(window)
        window *= 4 if len(windows) <= fourfold else 2
    return windows


def idle_round_trips(bdp_packets: float, fourfold: int) -> float:
    """Compute the round trips for which the path is idle until it is full. A round with window W leaves it idle for 1 -
    W / BDP of a round trip."""
    return sum(1 - window / bdp_packets for window in round_windows(bdp_packets, fourfold))


def saved_round_trips(bdp_packets: float, most: int = MOST_FOURFOLD) -> float:
    """Compute the round trips that SUSS saves once both schemes fill the path. Nothing differs from then on, so the
    saving is the difference of their idle times. It depends only on the path, not on the size of the flow."""
    fourfold = rounds_that_grow_fourfold(bdp_packets, most)
    return idle_round_trips(bdp_packets, 0) - idle_round_trips(bdp_packets, fourfold)


def completion_at_full_path_ms(setting: Setting, fourfold: int) -> float:
    """Compute the completion (from the connect call) of a flow large enough to fill the path, without losses. It is one
    and a half round trips until the first data arrive, the idle time until the path is full, and the bytes at its
    rate."""
    waiting_ms = (1.5 + idle_round_trips(setting.bdp_packets, fourfold)) * setting.round_trip_ms
    return waiting_ms + setting.size_mb * 8e3 / setting.rate_mbps * FULL_PACKET_BYTES / SEGMENT_BYTES


# Functions that claims apply to completion times, Series indexed by the grid.


def improvement(suss: Any, cubic: Any) -> Any:
    """Compute the share of the completion time that is saved."""
    return 1 - suss / cubic


def least_improvement(suss: pd.Series, cubic: pd.Series) -> float:
    """Compute the least improvement over all flows and paths of Fig. 12."""
    share = improvement(suss, cubic)
    places = share.index.to_frame()
    sizes = places.size_mb.between(JUDGED_MB, LIMIT_MB, inclusive="left")
    return float(share[sizes & places.round_trip_ms.between(*JUDGED_MS)].min())


def _saved_at_line_rate_ms(suss: pd.Series, cubic: pd.Series) -> float:
    return float((cubic - suss)[cubic.index >= 0.5].mean())


def _of_size(size_mb: float) -> Any:
    return lambda values: float(values[size_mb])


def improvements(
    runs: Runs, name: str = "fig12", column: str = "completion_ms", case: str = "suss", ms: float = 1.0
) -> pd.DataFrame:
    """Return a row for each size, path and repetition: case, both times, saved_ms, improvement (share), percent.

    ms : factor from the column's unit to milliseconds.
    """
    keys = [*runs.swept, "repetition"]
    cubic, other = (runs.numbers(f"{name}, {each}").set_index(keys)[column] for each in ("cubic", case))
    share = improvement(other, cubic)
    numbers = {"cubic": cubic, case: other, "saved_ms": ms * (cubic - other), "improvement": share}
    return pd.DataFrame(numbers).assign(percent=100 * share, case=case).dropna().reset_index()


def at_the_same_time(runs: Runs) -> pd.DataFrame:
    """Compute Fig. 12's other reading, which the authors' plot of their example has: when SUSS has delivered a size,
    the share of it that CUBIC has not. Returns a row for each size, path and repetition: both readings in percent, with
    the clock of the server's log, from the first data.

    What CUBIC has delivered between the sizes of the grid is interpolated, so the share is a little too small.
    """
    rows = improvements(runs, column="completion_s")
    parts = []
    for _, path in rows.groupby(["round_trip_ms", "buffer_bdp", "repetition"]):
        path = path.sort_values("size_mb")
        ends_s, sizes = np.array([0, *path.cubic]), np.array([0, *path.size_mb])
        behind = 1 - np.interp(path.suss, ends_s, sizes) / path.size_mb
        parts.append(path.assign(time_saved_percent=path.percent, data_ahead_percent=100 * behind))
    return pd.concat(parts, ignore_index=True)


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    table = improvements(runs).query("round_trip_ms == 100 and buffer_bdp == 1")
    share = table.groupby("size_mb").improvement.mean()
    example = improvements(runs, "example").query("size_mb >= 0.5")
    near = improvements(runs, "near").saved_ms.abs().max()
    return (
        f"On {runs.setting.rate_mbps:g} Mb/s and 100 ms SUSS saves {share[1.0]:.0%} of the completion time at 1 MB, "
        f"{share[4.0]:.0%} at 4 MB "
        f"and {share[0.1]:.0%} at 0.1 MB; in the authors' example it saves {example.saved_ms.mean():.0f} ms at every "
        f"size from 0.5 MB on (theirs: 76 ms), and below 10 ms of round trip {near:.0f}."
    )
