"""The paper's pictures. All but that of the processes show the simulated swarms, whatever the tier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.papers.propshare.readings import (
    FIGURE_8,
    IDENTITIES,
    PERMUTED,
    PROCESSES,
    RIDERS,
    RIDERS_PERMUTED,
    gains,
    of_trials,
    over_both_places,
    sybil_gain,
)
from netrepro.papers.propshare.setting import BETWEEN, Setting, swarm
from netrepro.protocols.bittorrent.chokers import PropShare, TitForTat
from netrepro.study import SIMULATED, Reading, Runs, seed_of
from netrepro.study.figures import Level, Panel, Picture, Sweep, plot
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

PUBLISHED_RANGE_S = (125.0, 225.0)  # of Fig. 8's vertical axis, as a class report gives it
EXAMPLE_BYTES = {"A": 9, "B": 6, "C": 4, "D": 1}  # for the picture of the idea
BOTH = {"bittorrent": "bittorrent", "propshare": "propshare"}
OTHERS = ("BitTorrent", "PropShare", "PropShare,\npermuted")  # in swarms of one kind
BROKEN = {"as it is": FIGURE_8, "permuted": PERMUTED, "equal\ncapacities": "equal"}
FRACTION = "share of PropShare clients"
RATIO = "PropShare's time / BitTorrent's (ratio)"


def draw_idea() -> Figure:
    """Draw the bytes that four peers sent, and what they get back: by the auction, and in proportion."""
    received = {name: float(value) for name, value in EXAMPLE_BYTES.items()}
    others = [*received, "E", "F"]
    shares = {
        "bittorrent": TitForTat(Random(3)).decide(0, others, received),
        "propshare": PropShare(Random(2)).decide(0, others, received),
    }
    figure, axis = new_figure("Six peers want something", "who sent how much", "share of the upload (%)")
    for i, (kind, each) in enumerate(shares.items()):
        own = scheme(kind)
        place = np.arange(len(others)) + 0.4 * i - 0.2
        bars = axis.bar(place, [100 * each.get(n, 0) for n in others], 0.38, color=own.colour, label=own.label)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    axis.set_xticks(range(len(others)), [f"{name}: {EXAMPLE_BYTES.get(name, 0)}" for name in others])
    axis.legend()
    return figure


def draw_swarm(setting: Setting, seed: int = 1) -> Figure:
    """Draw the sorted upload rates of the peers of a mixed swarm."""
    peers = sorted(swarm(setting, seed_of(seed, 0)), key=lambda peer: peer.upload_kilobytes_per_s)
    title = f"{setting.leechers} leechers and {setting.seeds} seeds, {setting.file_bytes / 1e6:.1f} MB"
    figure, axis = new_figure(title, "peers, sorted", "upload rate (kB/s)")
    looks = {"seed": ("seed", "#999999")} | {kind: (scheme(kind).label, scheme(kind).colour) for kind in BOTH}
    for kind, (label, colour) in looks.items():
        rates = {i: peer.upload_kilobytes_per_s for i, peer in enumerate(peers) if peer.kind == kind}
        axis.bar(list(rates), list(rates.values()), color=colour, label=label)
    axis.legend()
    return figure


def _mean_times(runs: Runs) -> pd.DataFrame:
    names = {"ours_s": "propshare", "bittorrent_s": "bittorrent"}
    rows = runs.numbers(FIGURE_8, SIMULATED).rename(columns=names)
    return rows.melt(["fraction", "repetition"], list(BOTH), "kind", "mean_s").dropna()


def _draw_published_range(axis: Axes, _: Runs) -> None:
    axis.axhspan(*PUBLISHED_RANGE_S, color=PUBLISHED_GREY, alpha=0.15, linewidth=0, label="range of the published axis")


def _by_capacity(runs: Runs, groups: int = 6) -> pd.DataFrame:
    """Return mean times by kind and swarm for clients in groups of similar capacity; a group's place is its mean
    capacity. Clients of one swarm are not independent, so the interval is over the swarms' means."""
    clients = runs.table("clients", FIGURE_8, SIMULATED)
    rates = clients["upload_kilobytes_per_s"]
    places = rates.groupby(pd.qcut(rates, groups, duplicates="drop"), observed=True).transform("mean").round()
    clients = clients.assign(place=places, pure=clients["fraction"].isin(BETWEEN))
    keys = ["pure", "kind", "place", "fraction", "repetition"]
    return clients.groupby(keys)["complete_s"].mean().reset_index()


def _capacity_panel(title: str, rows: str) -> Panel:
    times = Sweep("place", "complete_s", _by_capacity, by="kind", looks=BOTH, rows=rows)
    return Panel("upload capacity (kB/s)", "mean download time (s)", times, title=title, log="x")


def _side_by_side(label: str, values: Callable[[Runs], Mapping[str, pd.Series]], equal: float = 1.0) -> Panel:
    """Show each name's mean over trials with its interval, every trial, and the level at which all are equal."""

    def table(runs: Runs) -> pd.DataFrame:
        parts = {name: pd.DataFrame({"value": series.to_numpy(), "case": ""}) for name, series in values(runs).items()}
        return pd.concat(parts, names=["swarms"]).reset_index()

    trials = Sweep("swarms", "value", table, looks={"": {"linestyle": ""}})
    level = Level(equal, published=False)
    return Panel("", label, trials, level, x_range=(-0.5, 2.5), y_range=(None, None))


def _of_kinds(runs: Runs, name: str, case: str, permuted: str) -> dict[str, pd.Series]:
    plain, broken = of_trials(runs, name, case), of_trials(runs, name, permuted)
    return dict(zip(OTHERS, (plain.loc[0.0], plain.loc[1.0], broken.loc[1.0]), strict=True))


def _gains_of_identities(runs: Runs) -> pd.DataFrame:
    table = gains(runs.knobs["identities"])
    served = table["seeds_know_clients"].map({False: "all", True: "one"})
    return table.assign(
        curve="others " + table["case"].map(lambda kind: scheme(kind).label) + ", seeds serve " + served
    )


def _gains_with_baseline(runs: Runs) -> pd.DataFrame:
    table = runs.knobs["baseline and Sybil"].pivot(
        index=["baseline", "repetition"], columns="identities", values="attacker_s"
    )
    return (table[1] / table[IDENTITIES]).rename("gain").reset_index().assign(case="propshare")


def _half_and_half(knob: str, label: str) -> Panel:
    """Show PropShare's time over BitTorrent's of the same swarm, over a part of PropShare's upload."""

    def both(runs: Runs) -> pd.DataFrame:
        return over_both_places(runs.knobs[knob], knob).assign(case="propshare")

    ours = Sweep(knob, "ratio", both, looks={"propshare": "propshare"})
    title = "half PropShare, half BitTorrent"
    return Panel(label, RATIO, ours, Level(1.0, published=False), title=title, y_range=(None, None))


def _cost_of_auction(runs: Runs) -> float:
    table = runs.knobs["riders"]
    return float(table["rider_cost"][table["case"] == "bittorrent"].mean())


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw every client's time over its capacity, in one swarm."""
    figure, axis = new_figure("One swarm", "upload capacity (kB/s)", "download time (s)")
    for kind, rows in reading["clients"].groupby("kind"):
        own = scheme(str(kind))
        label = f"{own.label}: mean {rows['complete_s'].mean():.0f} s"
        axis.plot(rows["upload_kilobytes_per_s"], rows["complete_s"], own.marker, color=own.colour, label=label)
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


FIGURES = {
    "download_time_fig8": plot(
        "Download time in mixed swarms (Fig. 8)",
        FRACTION,
        "mean download time (s)",
        _draw_published_range,
        Sweep("fraction", "mean_s", _mean_times, by="kind", looks=BOTH),
    ),
    "by_capacity": Picture(
        "Who gets what it gives?",
        _capacity_panel("all of one kind", "pure"),
        _capacity_panel("in the same swarms", "not pure"),
    ),
    "strategies": Picture(
        "Who does not play fair",
        _side_by_side(
            "free riders' time / contributors' (ratio)",
            lambda runs: _of_kinds(runs, "rider_cost", RIDERS, RIDERS_PERMUTED),
        ),
        _side_by_side(
            f"time as one peer / as {IDENTITIES} (ratio)",
            lambda runs: {name: sybil_gain(runs, fraction) for name, fraction in zip(OTHERS, BETWEEN, strict=False)},
        ),
    ),
    "processes": plot(
        "Real processes in virtual time",
        FRACTION,
        "mean download time (s)",
        Sweep("fraction", "bittorrent_s", {PROCESSES: "bittorrent"}, tiers=True),
        Sweep("fraction", "ours_s", {PROCESSES: "propshare"}, tiers=True),
    ),
    "control": Picture(
        "Broken on purpose",
        _side_by_side(RATIO, lambda runs: {name: of_trials(runs, "ratio", case) for name, case in BROKEN.items()}),
        _side_by_side(
            "rank correlation (coefficient)", lambda runs: _of_kinds(runs, "rank", FIGURE_8, PERMUTED), equal=0.0
        ),
    ),
    "knob_reserve": Picture(
        "How large may the reserve be?",
        _half_and_half("reserve", "PropShare's reserve for newcomers (share)"),
        Panel(
            "PropShare's reserve for newcomers (share)",
            "free riders' time / contributors' (ratio)",
            Sweep("reserve", "rider_cost", "riders", looks={"propshare": "propshare"}),
            Level(_cost_of_auction, "BitTorrent's, which has none", published=False),
            title="free riders",
        ),
    ),
    "knob_baseline": Picture(
        "A baseline for all who ask",
        _half_and_half("baseline", "part of the upload for all who ask (share)"),
        Panel(
            "part of the upload for all who ask (share)",
            f"time as one peer / as {IDENTITIES} (ratio)",
            Sweep("baseline", "gain", _gains_with_baseline, looks={"propshare": "propshare"}),
            Level(1.0, published=False),
            title="what a Sybil gains, all PropShare",
            y_range=(None, None),
        ),
    ),
    "knob_identities": plot(
        "What a Sybil gains, and from whom",
        "identities (count)",
        "time as one peer / as several (ratio)",
        Sweep("identities", "gain", _gains_of_identities, by="curve"),
        Level(1.0, published=False),
    ),
}
