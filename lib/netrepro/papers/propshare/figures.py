"""The paper's pictures."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims.verdicts import student_interval
from netrepro.papers.propshare.readings import (
    CLASS_CASES,
    FIGURE_8,
    IDENTITIES,
    OURS,
    PERMUTED,
    PROCESSES,
    gains,
    of_trials,
    over_both_places,
    ratios,
    sybil_gain,
)
from netrepro.papers.propshare.setting import BETWEEN, Setting, swarm
from netrepro.protocols.bittorrent.chokers import PropShare, TitForTat
from netrepro.study import SIMULATED, VIRTUAL, Reading, Runs, seed_of
from netrepro.study.pictures import say_not_measured
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

PUBLISHED_RANGE_S = (125.0, 225.0)  # of Fig. 8's vertical axis, as a class report gives it
EXAMPLE_BYTES = {"A": 9, "B": 6, "C": 4, "D": 1}  # for the picture of the idea
KNOBS = {
    "pieces": "pieces of the file (count)",
    "reserve": "PropShare's reserve for newcomers (share)",
    "free_riders": "share of free riders",
    "stays_s": "time as a seed after the download (s)",
}


def _bars(axis: Any, x: Sequence[float] | np.ndarray, values: Sequence[pd.Series], look: str, **more: Any) -> None:
    """Draw means with their 95 % intervals, joined by a line."""
    means = np.array([each.mean() for each in values])
    ends = np.array([student_interval(list(each)) for each in values]).T
    own = scheme(look)
    axis.errorbar(
        x, means, abs(ends - means), color=own.colour, marker=own.marker, capsize=3, **({"label": own.label} | more)
    )


def draw_idea() -> Figure:
    """Draw what four peers sent, and what they get back: by the auction, and in proportion."""
    names = list(EXAMPLE_BYTES)
    received = {name: float(value) for name, value in EXAMPLE_BYTES.items()}
    others = [*names, "E", "F"]
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
    """Draw upload rates of the peers of a mixed swarm, sorted."""
    peers = sorted(swarm(setting, seed_of(seed, 0)), key=lambda peer: peer.upload_kilobytes_per_s)
    title = f"{setting.leechers} leechers and {setting.seeds} seeds, {setting.file_bytes / 1e6:.1f} MB"
    figure, axis = new_figure(title, "peers, sorted", "upload rate (kB/s)")
    colours = {"seed": "#999999"} | {kind: scheme(kind).colour for kind in ("bittorrent", "propshare", "free rider")}
    for kind in dict.fromkeys(peer.kind for peer in peers):
        places = [i for i, peer in enumerate(peers) if peer.kind == kind]
        label = "seed" if kind == "seed" else scheme(kind).label
        axis.bar(places, [peers[i].upload_kilobytes_per_s for i in places], color=colours[kind], label=label)
    axis.legend()
    return figure


def draw_figure_8(runs: Runs) -> Figure:
    """Draw Fig. 8: mean download time of both kinds of clients over the fraction of PropShare's, 95 % intervals."""
    figure, axis = new_figure(
        "Download time in mixed swarms (Fig. 8)", "share of PropShare clients", "mean download time (s)"
    )
    axis.axhspan(*PUBLISHED_RANGE_S, color=PUBLISHED_GREY, alpha=0.15, linewidth=0, label="range of the published axis")
    for kind, name, shift in (("bittorrent", "bittorrent_s", -0.004), ("propshare", "ours_s", 0.004)):
        found = of_trials(runs, name).groupby("fraction")
        _bars(axis, [fraction + shift for fraction, _ in found], [values for _, values in found], kind)
    axis.set_ylim(0, 1.1 * PUBLISHED_RANGE_S[1])
    axis.legend(loc="lower center", ncols=3, fontsize=9)
    return figure


def draw_ratio(runs: Runs) -> Figure:
    """Draw PropShare's time over BitTorrent's at every mixed fraction: every trial a point, mean with its interval, and
    the mean of three trials, as the paper took them."""
    figure, axis = new_figure(
        "The same swarms, trial by trial", "share of PropShare clients", "PropShare's time / BitTorrent's (ratio)"
    )
    found = list(ratios(runs).groupby("fraction"))
    width = min(0.1, 0.4 * float(np.min(np.diff([f for f, _ in found])))) if len(found) > 1 else 0.1
    for i, (fraction, values) in enumerate(found):
        places = fraction + np.linspace(-width, width, len(values))
        axis.plot(places, values, ".", color="#bbbbbb", zorder=1, label=None if i else "a swarm")
        threes = [values.iloc[j : j + 3].mean() for j in range(0, len(values) - 2, 3)]
        places = fraction + np.linspace(-width, width, len(threes))
        axis.plot(places, threes, "x", color="#444444", zorder=2, label=None if i else "mean of three")
    _bars(axis, [f for f, _ in found], [v for _, v in found], "propshare", label="mean of all, 95 %", linestyle="none")
    axis.axhline(1, color=scheme("bittorrent").colour)
    axis.set_ylim(top=axis.get_ylim()[1] + 0.05)
    axis.legend(ncols=3, fontsize=9, loc="upper center")
    return figure


def draw_by_capacity(runs: Runs, groups: int = 6) -> Figure:
    """Draw the mean time over upload capacity in pure swarms (left), and of either kind in mixed ones (right)."""
    figure, axes = new_figure("Who gets what it gives?", "upload capacity (kB/s)", "", columns=2, log_x=True)
    rows = runs.table("clients", FIGURE_8, SIMULATED)
    pure, mixed = rows[rows.fraction.isin(BETWEEN)], rows[~rows.fraction.isin(BETWEEN)]
    edges = np.quantile(rows["upload_kilobytes_per_s"], np.linspace(0, 1, groups + 1))
    edges[0] = 0
    for axis, some, title in ((axes[0], pure, "all of one kind"), (axes[1], mixed, "in the same swarms")):
        for kind in ("bittorrent", "propshare"):
            own = some[some.kind == kind]
            found = own.groupby(pd.cut(own["upload_kilobytes_per_s"], edges), observed=True)
            centres = found["upload_kilobytes_per_s"].mean()
            # Clients of one swarm are not independent: an interval is over the trials' means.
            trials = [each.groupby(["fraction", "repetition"])["complete_s"].mean() for _, each in found]
            _bars(axis, list(centres), trials, kind)
        axis.set_title(title, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.set_ylabel("mean download time (s)")
    axes[0].legend()
    return figure


def draw_strategies(runs: Runs) -> Figure:
    """Draw free riders' time over the contributors', and the Sybil's gain: every trial a point, means with
    intervals."""
    figure, axes = new_figure("Who does not play fair", "", "", columns=2)
    looks = ("bittorrent", "propshare", "control")
    cost = [
        of_trials(runs, "rider_cost", "free riders").loc[0.0],
        of_trials(runs, "rider_cost", "free riders").loc[1.0],
        of_trials(runs, "rider_cost", "free riders, permuted").loc[1.0],
    ]
    gain = [sybil_gain(runs, fraction) for fraction in BETWEEN]
    for axis, values, label in (
        (axes[0], cost, "free riders' time / contributors' (ratio)"),
        (axes[1], gain, f"time as one peer / as {IDENTITIES} (ratio)"),
    ):
        for i, (each, look) in enumerate(zip(values, looks, strict=False)):
            places = i + np.linspace(-0.15, 0.15, len(each))
            axis.plot(places, each, ".", color="#bbbbbb", zorder=1)
            _bars(axis, [i], [each], look)
        names = ["all others\nBitTorrent", "all others\nPropShare", "PropShare,\npermuted"][: len(values)]
        axis.set_xticks(range(len(values)), names)
        axis.set_xlim(-0.5, len(values) - 0.5)
        axis.axhline(1, color="black", linewidth=1)
        axis.set_ylabel(label)
    return figure


def draw_class(runs: Runs) -> Figure:
    """Draw the ratio that each experiment of three trials at a fraction of one half would print, by case."""
    figure, axis = new_figure(
        "What three trials say", "PropShare's time / BitTorrent's, mean of three trials (ratio)", ""
    )
    for i, name in enumerate(CLASS_CASES):
        values = ratios(runs, name).loc[0.5]
        threes = [values.iloc[j : j + 3].mean() for j in range(0, len(values) - 2, 3)]
        axis.plot(threes, i + np.linspace(-0.2, 0.2, len(threes)), "x", color="#444444")
        low, high = student_interval(list(values))
        axis.errorbar(values.mean(), i, xerr=[[values.mean() - low], [high - values.mean()]], **_ALL)
    axis.plot([], [], "x", color="#444444", label="an experiment of three")
    axis.errorbar([], [], **_ALL, label="all trials, 95 %")
    axis.set_yticks(range(len(CLASS_CASES)), [OURS.get(name, name) for name in CLASS_CASES])
    axis.axvline(1, color="black", linewidth=1)
    axis.set_ylim(-0.5, len(CLASS_CASES) + 0.1)
    axis.legend(ncols=2, loc="upper center")
    return figure


_ALL: dict[str, Any] = {"color": scheme("propshare").colour, "marker": "s", "capsize": 4}


def draw_control(runs: Runs) -> Figure:
    """Draw the ratio with the mechanism broken, and where there is nothing to share unequally; rank correlations."""
    figure, axes = new_figure("Broken on purpose", "", "", columns=2)
    found = {
        "as it is": (ratios(runs), "propshare"),
        "permuted": (ratios(runs, PERMUTED), "control"),
        "equal\ncapacities": (ratios(runs, "equal"), "propshare"),
    }
    for i, (values, look) in enumerate(found.values()):
        _bars(axes[0], [i], [values], look)
    axes[0].set_xticks(range(len(found)), list(found))
    axes[0].axhline(1, color=scheme("bittorrent").colour)
    axes[0].set_ylabel("PropShare's time / BitTorrent's (ratio)")
    rewards = {
        "BitTorrent": (of_trials(runs, "rank").loc[0.0], "bittorrent"),
        "PropShare": (of_trials(runs, "rank").loc[1.0], "propshare"),
        "permuted": (of_trials(runs, "rank", PERMUTED).loc[1.0], "control"),
    }
    for i, (values, look) in enumerate(rewards.values()):
        _bars(axes[1], [i], [values], look)
    axes[1].set_xticks(range(len(rewards)), list(rewards))
    axes[1].axhline(0, color="black", linewidth=1)
    axes[1].set_ylabel("rank correlation (coefficient)")
    for axis in axes:
        axis.set_xlim(-0.5, 2.5)
    return figure


def draw_tiers(runs: Runs) -> Figure:
    """Draw swarms of processes and of the simulation with the same peers: mean times by fraction, and all clients'
    times."""
    figure, axes = new_figure("Real processes in virtual time", "", "", columns=2)
    figure8, drawn = (runs.table("clients", PROCESSES, tier) for tier in (VIRTUAL, SIMULATED))
    for kind, shift in (("bittorrent", -0.02), ("propshare", 0.02)):
        own, ours, theirs = scheme(kind), figure8[figure8.kind == kind], drawn[drawn.kind == kind]
        for found, keys, dot, line in (
            (theirs, ["fraction", "repetition", "draw"], {"marker": "_", "alpha": 0.5, "markersize": 12}, _DRAWN),
            (
                ours,
                ["fraction", "repetition"],
                {"marker": own.marker, "markeredgecolor": "black", "label": own.label},
                _REAL,
            ),
        ):
            means = found.groupby(keys)["complete_s"].mean().reset_index()
            axes[0].plot(means["fraction"] + shift, means["complete_s"], linestyle="none", color=own.colour, **dot)
            axes[1].plot(np.sort(found["complete_s"]), np.linspace(0, 100, len(found)), color=own.colour, **line)
    axes[0].plot([], [], "_", color="black", markersize=12, label="simulated")
    axes[0].set(xlabel="share of PropShare clients", ylabel="mean download time of a swarm (s)", ylim=(0, None))
    axes[0].legend(loc="lower center", ncols=3, fontsize=9)
    axes[1].set(xlabel="download time (s)", ylabel="share of all clients (%)", xlim=(0, None))
    for label, line in (("simulated", _DRAWN), ("processes", _REAL)):
        axes[1].plot([], [], color="black", label=label, **line)
    axes[1].legend(loc="upper left", fontsize=9)
    for axis in axes if VIRTUAL not in runs.tiers else ():
        say_not_measured(axis, VIRTUAL)
    return figure


_DRAWN: dict[str, Any] = {"linewidth": 5, "alpha": 0.35}
_REAL: dict[str, Any] = {"linewidth": 1.4}


def draw_knobs(runs: Runs, names: Sequence[str]) -> Figure:
    """Draw the ratio over each knob of KNOBS, side by side."""
    figure, _ = new_figure("Half PropShare, half BitTorrent", "", "", columns=len(names))
    for axis, name in zip(figure.axes, names, strict=True):
        found = list(over_both_places(runs.knobs[name], name).groupby(name)["ratio"])
        _bars(axis, [float(value) for value, _ in found], [values for _, values in found], "propshare")
        axis.axhline(1, color=scheme("bittorrent").colour)
        axis.set_xlabel(KNOBS[name])
        if name == "pieces":
            axis.set_xscale("log")
            axis.set_xticks([value for value, _ in found], [f"{value:g}" for value, _ in found])
            axis.minorticks_off()
        axis.set_ylabel("PropShare's time / BitTorrent's (ratio)")
    return figure


def draw_identities(runs: Runs) -> Figure:
    """Draw the Sybil's gain over its identities, with seeds that serve all of them and with seeds that know better."""
    figure, axis = new_figure(
        "What a Sybil gains, and from whom", "identities (count)", "time as one peer / as several (ratio)"
    )
    table = gains(runs.knobs["identities"], ["case", "seeds_know_clients"])
    for (others, known), rows in table.groupby(["case", "seeds_know_clients"]):
        found = list(rows.groupby("identities")["gain"])
        x, values = [count for count, _ in found], [each for _, each in found]
        label = f"others {scheme(others).label}, seeds serve {'one' if known else 'all'}"
        aside = 0.06 if others == "propshare" else -0.06  # so that intervals do not hide each other
        _bars(axis, np.array(x[1:]) + aside, values[1:], others, linestyle="--" if known else "-", label=label)
    axis.axhline(1, color="black", linewidth=1)
    axis.set_xticks(sorted(set(table["identities"]))[1:])
    axis.set_ylim(top=axis.get_ylim()[1] + 0.3)
    axis.legend(fontsize=9, handlelength=4, loc="upper left")
    return figure


def draw_reserve(runs: Runs) -> Figure:
    """Draw free riders' cost over the reserve (the band is BitTorrent's, 95 %), and the Sybil's gain over the file."""
    figure, axes = new_figure("Who lives on the reserve?", "", "", columns=2)
    riders, sybil = runs.knobs["riders"], gains(runs.knobs["sybil"], ["case", "pieces", "reserve"])
    found = list(riders[riders.case == "propshare"].groupby("reserve")["rider_cost"])
    _bars(axes[0], [float(value) for value, _ in found], [values for _, values in found], "propshare")
    auction = scheme("bittorrent")
    low, high = student_interval(list(riders["rider_cost"][riders.case == "bittorrent"]))
    axes[0].axhspan(low, high, color=auction.colour, alpha=0.2, linewidth=0, label=auction.label)
    axes[0].set_xlabel(KNOBS["reserve"])
    axes[0].set_ylabel("free riders' time / contributors' (ratio)")
    sybil = sybil[sybil.identities > 1].sort_values("case", ascending=False, kind="stable")
    for i, ((look, reserve), rows) in enumerate(sybil.groupby(["case", "reserve"], sort=False)):
        found = list(rows.groupby("pieces")["gain"])
        label = auction.label if look == "bittorrent" else f"PropShare, reserve {reserve:g}"
        line = "--" if i == 0 else "-"
        x = np.array([count for count, _ in found]) + 2.0 * (i - 1)  # aside, as above
        _bars(axes[1], x, [each for _, each in found], look, label=label, linestyle=line)
    axes[1].set_xlabel(KNOBS["pieces"])
    axes[1].set_xticks(sorted(set(sybil["pieces"])))
    axes[1].set_ylabel(f"time as one / as {IDENTITIES}, seeds serve one (ratio)")
    for axis in axes:
        axis.axhline(1, color="black", linewidth=1)
        axis.legend(handlelength=4)
    return figure


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
