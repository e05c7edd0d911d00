"""RepNet's figures, and the tables beside them. All but those by tier show the simulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.claims.verdicts import student_interval
from netrepro.papers.repnet.measuring import (
    AGAIN,
    CURVE,
    GROUPS,
    PERCENTILES,
    SIZE_GROUPS_BYTES,
    pooled,
    reduction,
    times,
)
from netrepro.papers.repnet.setting import (
    ELEPHANT_LOADS,
    MOUSE_BYTES,
    PRINTED,
    REPLICATED,
    SCHEMES,
    SOFTWARE_MS,
    Setting,
    experiment,
)
from netrepro.paths import data_dir
from netrepro.queueing.replication import ReplicationModel
from netrepro.study import SIMULATED, VIRTUAL, Runs
from netrepro.study import pictures as drawing
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme, use_logarithm

FOLD_MS = 200.0
NAMES = {"mean": "mean", "median": "median", "p99": "99th percentile", "p999": "99.9th percentile"}
PUBLISHED_LOOK: dict[str, Any] = {"color": PUBLISHED_GREY, "markersize": 11, "linestyle": "none", "fillstyle": "none"}


# What was measured, and what is set beside it.


def _mice(runs: Runs, case: str, tier: str = SIMULATED) -> dict[int, pd.DataFrame]:
    return runs.reading("mice_times", case, tier)


def _reductions(runs: Runs, which: str, case: str, load: float) -> list[float]:
    """Compute the reductions against TCP on the same network (%), with a value for each repetition, as the jackknife
    has them."""
    return list(reduction(which, load)(_mice(runs, case), _mice(runs, f"{case.split()[0]} tcp")))


def _loads(runs: Runs, network: str) -> list[float]:
    return sorted(set(runs.numbers(f"{network} tcp", SIMULATED)["load"]))


def folded(runs: Runs, load: float = 0.5) -> pd.DataFrame:
    """Compute 99.9th percentiles (1:1) as they are, and as the authors' script folds times (SOURCES.md, 6), of the mice
    of all repetitions together (ms), and reductions against TCP (%): a row for each scheme."""
    rows = {}
    for name in SCHEMES:
        took_ms = times(_mice(runs, f"1:1 {name}"), load)
        fold_ms = np.where(took_ms > FOLD_MS, took_ms % FOLD_MS + 10 * (took_ms // FOLD_MS), took_ms)
        share = float(np.mean(took_ms >= PRINTED.initial_rto_ms)) * 100
        rows[name] = {"3 s or more (%)": share} | {
            f"p99.9{label} (ms)": float(np.quantile(values, PERCENTILES["p999"]))
            for label, values in (("", took_ms), (", folded", fold_ms))
        }
    table = pd.DataFrame(rows).T
    for label in ("p99.9", "p99.9, folded"):
        table[f"{label}: less than TCP (%)"] = (1 - table[f"{label} (ms)"] / table.loc["tcp", f"{label} (ms)"]) * 100
    return table


def overhead_table(runs: Runs) -> pd.DataFrame:
    """Make the table of Fig. 16: a row for each scheme: mean and deviation (ms), and what it takes more than plain
    streams (ms)."""
    rows = runs.table("overhead", "loopback", runs.tier if runs.has("loopback") else SIMULATED)
    table = rows.groupby("scheme", sort=False)[["mean_ms", "deviation_ms"]].mean().loc[[*SCHEMES, AGAIN]]
    return table.assign(extra_ms=table["mean_ms"] - table.loc["tcp", "mean_ms"])


def sorting_table(runs: Runs) -> pd.DataFrame:
    """Make the table of Fig. 17: a row for each tier and case: jobs, and percentiles of a job's time (ms), of all runs
    together."""
    took = runs.tables["jobs"].groupby(["tier", "case"], sort=False)["took_ms"]
    names = {"p50 (ms)": 0.5, "p90 (ms)": 0.9, "p99 (ms)": 0.99, "p99.9 (ms)": 0.999}
    return pd.DataFrame({"jobs": took.size()} | {name: took.quantile(q) for name, q in names.items()}).reset_index()


def samples(name: str) -> pd.DataFrame:
    """Read the authors' samples: "bucket_sort" (Fig. 17: scheme, jobs, p50_ms, p90_ms, p99_ms, p99.7_ms, p99.9_ms) or
    "fat_tree" (Fig. 18: load, scheme, flows, mean_ms, median_ms, p99_ms, p999_ms)."""
    return pd.read_csv(data_dir("repnet") / f"{name}_samples.csv", comment="#")


def predicted(runs: Runs) -> pd.DataFrame:
    """Compute the mean FCT of mice over that of an idle network (1:1), ours and by (3) and (4) of the queueing model.

    The model knows no losses; ours are those of flows whose SYN was not lost.
    Returns load, scheme, measured, formula.
    """
    model = ReplicationModel(runs.setting.sizes.in_packets(), None, runs.setting.initial_window_segments)
    copies = {"tcp": 1, "repflow": 2}
    rows = []
    for name in SCHEMES:
        measured = runs.numbers(f"1:1 {name}", SIMULATED).groupby("load")["normalised_mean"].mean()
        for load, value in measured.items():
            formula = float(model.short_mean(load, copies[name])) if name in copies else math.nan
            rows.append((load, name, value, formula))
    return pd.DataFrame(rows, columns=["load", "scheme", "measured", "formula"])


# Figures.


def draw_idea() -> Figure:
    """Draw the testbed (Fig. 10) and the two connections of one flow."""
    figure, axis = new_figure("One flow, two connections, three paths (Fig. 10)", "", "")
    axis.axis("off")
    nodes = {"sender": (0.0, 0.0), "leaf 1": (1.2, 0.0), "leaf 2": (3.8, 0.0), "receiver": (5.0, 0.0)}
    nodes |= {f"spine {i + 1}": (2.5, 1.2 - 1.2 * i) for i in range(3)}
    cables = [("sender", "leaf 1"), ("leaf 2", "receiver")]
    cables += [(leaf, f"spine {i + 1}") for leaf in ("leaf 1", "leaf 2") for i in range(3)]
    for first, second in cables:
        axis.plot(*zip(nodes[first], nodes[second], strict=True), color="#bbbbbb", linewidth=1, zorder=1)
    routes = (("tcp", "port p", "spine 1", 0.05), ("repflow", "port p + 1", "spine 3", -0.05))
    for name, label, spine, shift in routes:
        along = np.array([nodes[node] for node in ("sender", "leaf 1", spine, "leaf 2", "receiver")])
        axis.plot(along[:, 0], along[:, 1] + shift, color=scheme(name).colour, linewidth=2.5, label=label, zorder=2)
    for name, (x, y) in nodes.items():
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": drawing.INK}
        axis.text(x, y, name, ha="center", va="center", bbox=box, zorder=3)
    axis.set(xlim=(-0.6, 5.6), ylim=(-1.6, 1.6))
    axis.legend(loc="lower right")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the testbed without oversubscription: six hosts, two leaves, three spines."""
    return drawing.draw_network(experiment(setting, 1, 2), "Two racks and three spines (Fig. 10)")


def draw_round_trips(runs: Runs) -> Figure:
    """Draw the round-trip times of three paths in the first repetition (Fig. 1)."""
    trips = runs.reading("round_trips", "paths", SIMULATED)[0].astype({"path": str})
    paths = ("1", "2", "3")
    title, names = "Round trips on three disjoint paths (Fig. 1)", [f"path {name}" for name in paths]
    figure, axes = drawing.panels(title, "time (s)", "round trip (ms)", names)
    limit = trips[trips["path"].isin(paths)]["round_trip_ms"].max() * 1.05
    for axis, name, colour in zip(axes, paths, CURVES, strict=False):
        rows = trips[trips["path"] == name]
        axis.plot(rows["time_s"], rows["round_trip_ms"], color=colour, linewidth=0.8)
        axis.set_ylim(0, limit)
    return figure


def draw_correlations(runs: Runs) -> Figure:
    """Draw the correlation of pairs of paths, every repetition a point (Fig. 2, as coefficients)."""
    paths = runs.table("correlations", "paths", SIMULATED)
    figure, axis = new_figure("Correlation of round-trip times (Fig. 2)", "", "correlation coefficient")
    for shared, name in ((False, "tcp"), (True, "control")):
        rows, look = paths[paths["shares_links"] == shared], scheme(name)
        label = "control: the same switches" if shared else "no common link"
        axis.plot(rows["pair"], rows["correlation"], look.marker, color=look.colour, label=label)
    axis.axhline(0, color=drawing.INK, linewidth=1)
    axis.tick_params(axis="x", labelrotation=20)
    axis.set_ylim(-0.5, 1)
    axis.legend(loc="upper left")
    return figure


def draw_probes(runs: Runs) -> Figure:
    """Draw the distributions of the probes' completion times, one of three paths congested (Fig. 3 b and c)."""
    titles = {1: "one byte (mostly the handshake, Fig. 3 b)", MOUSE_BYTES: "100 KB (Fig. 3 c)"}
    levels = {1: (0.326, 0.122), MOUSE_BYTES: (0.319, 0.126, 0.115)}
    title = "One of three paths is congested (Fig. 3)"
    figure, axes = drawing.panels(title, "completion time (ms)", "share of probes", list(titles.values()), log_x=True)
    for axis, size_bytes in zip(axes, titles, strict=True):
        for name in SCHEMES:
            rows, look = runs.table("probes", f"probes {name}", SIMULATED), scheme(name)
            took_ms = np.sort(rows[rows["size_bytes"] == size_bytes]["completion_ms"].dropna())
            share = np.arange(1, len(took_ms) + 1) / len(took_ms)
            axis.step(took_ms, share, where="post", color=look.colour, label=look.label)
        for i, level in enumerate(levels[size_bytes]):
            label = "1 - slow share in the authors' samples" if i == 0 else None
            axis.axhline(1 - level, color=PUBLISHED_GREY, linestyle=":", linewidth=1.2, label=label)
        axis.set_ylim(0, 1.02)
        axis.legend(loc="lower right", fontsize=8)
    return figure


def draw_loads(runs: Runs, network: str, title: str, columns: Sequence[str] = ("median", "p99", "p999")) -> Figure:
    """Draw the completion times of mice over load, a panel for each statistic, a line for each scheme (Figs 11, 12 and
    18).

    Lines: the mice of all repetitions together; points: single repetitions; grey, with 1:1: what TCP has here, less
    the published reduction.
    """
    figure, axes = drawing.panels(title, "load", "completion time (ms)", [NAMES[each] for each in columns], log_y=True)
    claims, loads = load_claims("repnet"), _loads(runs, network)
    for axis, column in zip(axes, columns, strict=True):
        for name in SCHEMES:
            rows, look = runs.numbers(f"{network} {name}", SIMULATED), scheme(name)
            axis.plot(rows["load"], rows[f"{column}_ms"], look.marker, color=look.colour, alpha=0.3, markersize=5)
            levels = [pooled(_mice(runs, f"{network} {name}"), column, load) for load in loads]
            axis.plot(
                loads, levels, look.marker + "-", color=look.colour, linewidth=2.5, markersize=8, label=look.label
            )
            if network == "1:1" and name != "tcp" and 0.5 in loads:
                left = 1 - claims.claim(f"{name}-{column}").published / 100
                level = left * pooled(_mice(runs, f"{network} tcp"), column, 0.5)
                axis.plot(0.5, level, look.marker, label=f"published, {look.label}", **PUBLISHED_LOOK)
        axis.title.set_fontsize(14)
        axis.xaxis.label.set_fontsize(14)
        axis.tick_params(which="both", labelsize=13)
        axis.set_xticks(loads)
    figure.suptitle(title, fontsize=16)
    axes[0].yaxis.label.set_fontsize(14)
    axes[0].legend(fontsize=12)
    return figure


def draw_multipath(runs: Runs) -> Figure:
    """Draw by how much longer mice take with MPTCP than with TCP, over load (Fig. 4)."""
    title, names = "Mice with MPTCP, 2:1 (Fig. 4)", ("mean", "99.9th percentile")
    figure, axes = drawing.panels(title, "load", "longer than with TCP (%)", names)
    loads, tcp = _loads(runs, "2:1"), runs.numbers("2:1 tcp", SIMULATED)
    for axis, which in zip(axes, ("mean", "p999"), strict=True):
        for case, name, label in (
            ("2:1 mptcp", "mptcp", f"{PRINTED.subflows} subflows"),
            ("2:1 mptcp, one subflow", "control", "control: one subflow"),
        ):
            look, ours = scheme(name), runs.numbers(case, SIMULATED)
            both = ours.merge(tcp, on=["load", "repetition"], suffixes=("", "_tcp"))
            longer = (both[f"{which}_ms"] / both[f"{which}_ms_tcp"] - 1) * 100
            axis.plot(both["load"], longer, look.marker, color=look.colour, alpha=0.25, markersize=4)
            whole = [-np.mean(_reductions(runs, which, case, load)) for load in loads]
            axis.plot(loads, whole, look.marker + "-", color=look.colour, label=label)
        axis.axhline(0, color=drawing.INK, linewidth=1)
        axis.set_yscale("symlog", linthresh=100)
        axis.set_xticks(loads)
    published = load_claims("repnet").claim("mptcp-p999").published
    axes[1].axhline(published, color=PUBLISHED_GREY, linestyle=":", label="the paper: more than this")
    axes[1].legend(fontsize=8)
    return figure


def draw_prediction(runs: Runs) -> Figure:
    """Draw the mean completion time over that of an idle network: measured, and by the M/G/1 model."""
    table, title = predicted(runs), "The queueing model beside the packets (1:1)"
    figure, axis = new_figure(title, "load", "mean FCT of mice / idle network", log_y=True)
    for name, rows in table.groupby("scheme", sort=False):
        look = scheme(str(name))
        axis.plot(rows["load"], rows["measured"], look.marker + "-", color=look.colour, label=look.label)
        if rows["formula"].notna().any():
            label = f"{look.label}, M/G/1"
            axis.plot(rows["load"], rows["formula"], "--", color=look.colour, linewidth=1.2, label=label)
    axis.set_xticks(sorted(set(table["load"])))
    axis.legend()
    return figure


def draw_by_size(runs: Runs, load: float = 0.4) -> Figure:
    """Draw the 99th percentile by size at the load that was run nearest to `load` (Fig. 13): medians of the
    repetitions.

    Lines go from the least to the greatest repetition: of five, they hold the median of all runs in 15 of 16 cases,
    whatever the distribution. A mean of percentiles with and without a lost SYN (3 s) would say little.
    """
    load = min(_loads(runs, "1:1"), key=lambda each: abs(each - load))
    figure, axis = new_figure(f"By size, load {load:g} (Fig. 13)", "size of the flow (KB)", "99th percentile (ms)")
    reach = []  # of bars and of lines
    for i, name in enumerate(SCHEMES):
        rows, look = runs.numbers(f"1:1 {name}", SIMULATED), scheme(name)
        groups, places = rows[rows["load"] == load][list(GROUPS)], np.arange(len(GROUPS)) + (i - 1) * 0.27
        axis.bar(places, groups.median(), 0.25, color=look.colour, label=look.label)
        reach.append((groups.median().max(), groups.max().max()))
        axis.vlines(places, groups.min(), groups.max(), color="black", linewidth=1.2)
    tallest, longest = (max(found) for found in zip(*reach, strict=True))
    if longest > 10 * tallest:  # by a SYN that one repetition lost
        use_logarithm(axis, "y")
        axis.set_ylim(bottom=1)
    edges = [f"{low / 1e3:.0f} to {high / 1e3:.0f}" for low, high in pairwise(SIZE_GROUPS_BYTES)]
    axis.set_xticks(range(len(edges)), edges)
    drawing.share_legend(figure)
    return figure


def draw_incast(runs: Runs) -> Figure:
    """Draw the distribution of mice under incast, and its tail (Fig. 14); grey: what TCP has here, changed as
    published."""
    title = "Eleven hosts answer at once, load .2 (Fig. 14)"
    figure, axis = new_figure(title, "completion time (ms)", "share of slower flows", log_x=True, log_y=True)
    claims = load_claims("repnet")
    plain = {which: pooled(_mice(runs, "incast tcp"), which, 0.2) for which in ("p99", "p999")}
    for name in SCHEMES:
        look, levels = scheme(name), np.quantile(times(_mice(runs, f"incast {name}"), 0.2), CURVE)
        axis.plot(levels, 1 - np.array(CURVE), look.marker + "-", color=look.colour, label=look.label)
        if name == "tcp":
            continue
        published = {
            which: plain[which] + claims.claim("incast-repflow-p99").published
            if (name, which) == ("repflow", "p99")
            else plain[which] * (1 - claims.claim(f"incast-{name}-{which}").published / 100)
            for which in plain
        }
        slower = [1 - PERCENTILES[which] for which in published]
        axis.plot(list(published.values()), slower, look.marker, label=f"published, {look.label}", **PUBLISHED_LOOK)
    axis.legend()
    return figure


def draw_elephants(runs: Runs) -> Figure:
    """Draw the throughput of flows above 1 MB at low and high load (Fig. 15)."""
    title, label = "Elephants hardly notice (Fig. 15)", "throughput of flows above 1 MB (Mb/s)"
    figure, axes = drawing.panels(title, label, "share of flows", [f"load {load:g}" for load in ELEPHANT_LOADS])
    looks = {f"1:1 {name}": ("-", scheme(name), scheme(name).label) for name in SCHEMES}
    looks["1:1 repflow, all twice"] = "--", scheme("control"), "control: elephants sent twice too"
    for axis, load in zip(axes, ELEPHANT_LOADS, strict=True):
        for case, (line, look, label) in looks.items():
            rows = runs.table("elephant_speeds", case, SIMULATED)
            speeds = rows[rows["load"] == load].groupby("share")["mbps"].mean()
            axis.plot(speeds, speeds.index, line, color=look.colour, label=label)
    axes[0].legend(fontsize=8)
    return figure


def draw_overhead(runs: Runs) -> Figure:
    """Draw what a second connection costs in software, with asyncio and RepNet's streams, beside the published cost
    (Fig. 16)."""
    table, published = overhead_table(runs), {"repflow": PRINTED.repflow_extra_ms, "repsyn": PRINTED.repsyn_extra_ms}
    figure, axis = new_figure("1-KB flows over the loopback (Fig. 16)", "", "more than a plain flow takes (ms)")
    label = f"published, beside {SOFTWARE_MS:g} ms of a plain flow (ours: {table.loc['tcp', 'mean_ms']:.2f} ms)"
    drawing.draw_bars(
        axis,
        {scheme(name).label: [table.loc[name, "extra_ms"]] for name in REPLICATED},
        {scheme(name).label: value for name, value in published.items()},
        {scheme(name).label: scheme(name).colour for name in REPLICATED},
        label,
    )
    for bars in axis.containers:
        axis.bar_label(bars, fmt="%.2f", padding=3)
    axis.set_ylim(0, 1.35 * max(*table["extra_ms"], *published.values()))
    return figure


def draw_fat_tree(runs: Runs) -> Figure:
    """Draw the reductions against TCP over load in the fat-tree, beside the authors' samples (Fig. 18).

    With the jackknife's intervals, which few repetitions make longer than the axis: there they are cut.
    """
    title, names = "Fat-tree of 54 hosts (Fig. 18)", ("mean", "99th percentile")
    figure, axes = drawing.panels(title, "load", "reduction against TCP (%)", names)
    published, loads = samples("fat_tree").set_index(["load", "scheme"]), _loads(runs, "fat-tree")
    for axis, which in zip(axes, ("mean", "p99"), strict=True):
        theirs, intervals = published[f"{which}_ms"].unstack(), []
        for shift, name in zip((-0.004, 0.004), REPLICATED, strict=True):
            look, gain = scheme(name), (1 - theirs[name] / theirs["tcp"]) * 100
            label = f"{look.label}, the authors' samples"
            axis.plot(gain.index, gain, look.marker + ":", color=PUBLISHED_GREY, markersize=4, label=label)
            ours = [_reductions(runs, which, f"fat-tree {name}", load) for load in loads]
            at = np.array(loads) + shift  # so that no interval hides another
            axis.plot(at, [np.mean(values) for values in ours], look.marker + "-", color=look.colour, label=look.label)
            if len(ours[0]) > 1:
                intervals.append((at, *np.transpose([student_interval(values) for values in ours]), look.colour))
        axis.axhline(0, color=drawing.INK, linewidth=1)
        axis.set_ylim(axis.get_ylim())
        for interval in intervals:
            axis.vlines(*interval)
    axes[0].legend(fontsize=8, loc="lower right")
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw what is gained when both connections are hashed to one path, with the jackknife's intervals."""
    places = {"leaf-spine 1:1, load .5": ("1:1", 0.5), "fat-tree, load .8": ("fat-tree", 0.8)}
    title = "Broken on purpose: both on one path"
    figure, axes = drawing.panels(title, "", "reduction against TCP (%)", list(places))
    both = [(name, which) for name in REPLICATED for which in ("median", "p99")]
    looks = {"": ("paths by hash", scheme("repflow")), ", same path": ("the same path", scheme("control"))}
    for axis, (network, load) in zip(axes, places.values(), strict=True):
        for shift, (control, (label, look)) in zip((-0.19, 0.19), looks.items(), strict=True):
            for place, (name, which) in enumerate(both):
                found = _reductions(runs, which, f"{network} {name}{control}", load)
                named_once = {"label": label} if place == 0 else {}
                drawing.draw_bar(axis, place + shift, found, 0.36, color=look.colour, **named_once)
        axis.set_xticks(range(len(both)), [f"{scheme(name).label}\n{which}" for name, which in both])
        axis.axhline(0, color=drawing.INK, linewidth=1)
    drawing.share_legend(figure)
    return figure


def _of_tiers(runs: Runs) -> tuple[str, str]:
    """Return (network, its rate in words) that real kernels run beside the simulator."""
    is_virtual = runs.has("full-rate tcp", tier=SIMULATED)
    return ("full-rate", "its own rate") if is_virtual else ("scaled", "a fiftieth of its rate")


def tier_table(runs: Runs) -> pd.DataFrame:
    """Return the numbers that `draw_tiers` shows: a row for each case, with mice's median and 99th percentile (ms) and
    mean over that of an idle network by tier. All are means over repetitions."""
    table, (network, _) = runs.tier_table("median_ms", "p99_ms", "normalised_mean"), _of_tiers(runs)
    return table[[case.split()[0] == network for case in table.index.get_level_values(0)]]


def draw_tiers(runs: Runs) -> Figure:
    """Draw the distribution of mice over the testbed, a panel for each tier; at a fiftieth of its rate but in virtual
    time."""
    network, rate = _of_tiers(runs)
    title, tiers = f"Mice on the testbed at {rate}, load .5", sorted(runs.tiers, key=SIMULATED.__ne__)
    figure, axes = drawing.panels(title, "completion time (ms)", "share of mice", ["", ""], log_x=True)
    for axis, tier in zip(axes, tiers, strict=False):
        for name in SCHEMES:
            levels = np.quantile(times(_mice(runs, f"{network} {name}", tier), 0.5), CURVE)
            axis.plot(levels, CURVE, color=scheme(name).colour, label=scheme(name).label)
        carried = {SIMULATED: "", VIRTUAL: ": a real kernel's connections"}
        axis.set_title(tier + carried.get(tier, ": real kernels, the asyncio library"), fontsize=10)
    for axis in axes[len(tiers) :]:
        axis.axis("off")
        axis.text(
            0.5, 0.5, "real kernels: choose tier virtual, rootless or privileged", ha="center", transform=axis.transAxes
        )
    axes[0].legend(loc="lower right", fontsize=8)
    return figure


def draw_sorting(runs: Runs) -> Figure:
    """Draw times of bucket-sort jobs over TCP's median, a panel for each tier, beside the authors' percentiles (Fig.
    17)."""
    known = {SIMULATED: "sort", VIRTUAL: "sort"}
    names = {tier: known.get(tier, "kernel sort") for tier in sorted(runs.tiers, key=SIMULATED.__ne__)}
    names = {tier: network for tier, network in names.items() if runs.has(f"{network} tcp", tier=tier)}
    titles = [tier if tier == SIMULATED else f"{tier}: the application on real kernels" for tier in names]
    label = "time of a job / TCP's median"
    figure, axes = drawing.panels(
        "Bucket sort (Fig. 17)", label, "share of slower jobs", titles, log_x=True, log_y=True
    )
    published = samples("bucket_sort").set_index("scheme")
    shares = {"p50_ms": 0.5, "p90_ms": 0.1, "p99_ms": 0.01, "p99.7_ms": 0.003, "p99.9_ms": 0.001}
    for axis, (tier, network) in zip(axes, names.items(), strict=True):
        median = runs.table("jobs", f"{network} tcp", tier)["took_ms"].median()
        for name in SCHEMES:
            if not runs.has(f"{network} {name}", tier=tier):
                continue
            look, took = scheme(name), np.sort(runs.table("jobs", f"{network} {name}", tier)["took_ms"]) / median
            axis.step(took, 1 - np.arange(len(took)) / len(took), color=look.colour, label=look.label, where="pre")
            theirs = published.loc[name, list(shares)] / published.loc["tcp", "p50_ms"]
            said: dict[str, Any] = {"label": "the authors' samples"} if name == "tcp" else {}
            axis.plot(theirs, list(shares.values()), look.marker + ":", color=PUBLISHED_GREY, **said)
        axis.legend(fontsize=8)
    return figure


def draw_memory(runs: Runs) -> Figure:
    """Draw the 99th and 99.9th percentile over what a port may hold; dashed: a short timeout of the first SYN."""
    table = runs.knobs["memory"]
    table = table.assign(port_kb=table["buffer_kb"] * table["buffer_alpha"] / (1 + table["buffer_alpha"]))
    title = "Memory and the first timeout (1:1, load .5)"
    names = ("99th percentile (ms)", "99.9th percentile (ms)")
    figure, axes = drawing.panels(title, "most that a port may hold (KB)", "", ["", ""], log_x=True, log_y=True)
    for axis, column, label in zip(axes, ("p99_ms", "p999_ms"), names, strict=True):
        for (rto, name), rows in table.sort_values("port_kb").groupby(["initial_rto_ms", "case"], sort=False):
            look, line = scheme(str(name)), "-" if rto == table["initial_rto_ms"].max() else "--"
            text = f"{look.label}, first SYN waits {rto:g} ms"
            axis.plot(rows["port_kb"], rows[column], look.marker + line, color=look.colour, label=text)
        axis.set_ylabel(label)
        drawing.name_ticks(axis, "x", table["port_kb"].round())
        axis.tick_params(axis="x", labelrotation=30)
    drawing.share_legend(figure)
    return figure


FIGURES: Mapping[str, Callable[[Runs], Figure]] = {
    "fig1_round_trips": draw_round_trips,
    "fig2_correlation": draw_correlations,
    "fig3_probes": draw_probes,
    "fig4_multipath": draw_multipath,
    "fig11_mice": partial(draw_loads, network="1:1", title="Mice on the leaf-spine, 1:1 (Fig. 11)"),
    "fig12_mice_oversubscribed": partial(draw_loads, network="2:1", title="Mice on the leaf-spine, 2:1 (Fig. 12)"),
    "model_beside": draw_prediction,
    "fig13_by_size": draw_by_size,
    "fig14_incast": draw_incast,
    "fig15_elephants": draw_elephants,
    "fig16_overhead": draw_overhead,
    "tiers_scaled_testbed": draw_tiers,
    "fig17_bucket_sort": draw_sorting,
    "fig18_fat_tree": draw_fat_tree,
    "fig18_mice": partial(
        draw_loads, network="fat-tree", title="Mice in the fat-tree (Fig. 18)", columns=("mean", "p99", "p999")
    ),
    "control_same_path": draw_control,
    "knob_buffer_and_timeout": draw_memory,
}
