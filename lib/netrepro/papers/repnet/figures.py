"""RepNet's figures. All but those by tier show the simulator, whatever tier was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.claims import load_claims
from netrepro.papers.repnet.measuring import CURVE, GROUPS, PERCENTILES, SIZE_GROUPS_BYTES, pooled, reduction, times
from netrepro.papers.repnet.setting import (
    ELEPHANT_LOADS,
    MESSAGE_MS,
    MOUSE_BYTES,
    REPLICATED,
    SCHEMES,
    SOFTWARE_MS,
    SUBFLOWS,
    Setting,
    experiment,
)
from netrepro.paths import data_dir
from netrepro.study import SIMULATED, VIRTUAL, Runs, pictures
from netrepro.study.figures import Bars, Course, Level, Panel, Picture, Published, Sweep, beside, plot, shown
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

FOLD_MS = 200.0
NAMES = {"mean": "mean", "median": "median", "p99": "99th percentile", "p999": "99.9th percentile"}
PUBLISHED_LOOK: dict[str, Any] = {"color": PUBLISHED_GREY, "markersize": 11, "linestyle": "none", "fillstyle": "none"}
SLOWER_JOBS = "share of slower jobs"
COMPLETION = "completion time (ms)"
REDUCTION = "reduction against TCP (%)"


def folded(runs: Runs, load: float = 0.5) -> pd.DataFrame:
    """Compute for each scheme (1:1) the 99.9th percentile of the mice of all repetitions together (ms), with their
    times as they are and as the authors' script folds them (SOURCES.md, 6), and the share of times that it folds
    (%)."""
    rows = {}
    for name in SCHEMES:
        took_ms = times(runs.reading("mice_times", f"1:1 {name}", SIMULATED), load)
        fold_ms = np.where(took_ms > FOLD_MS, took_ms % FOLD_MS + 10 * (took_ms // FOLD_MS), took_ms)
        share = float(np.mean(took_ms > FOLD_MS)) * 100
        rows[name] = share, *(float(np.quantile(each, PERCENTILES["p999"])) for each in (took_ms, fold_ms))
    columns = ["above 200 ms (%)", "p99.9 (ms)", "p99.9, folded (ms)"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def reductions(runs: Runs, whichs: Sequence[str], *cases: str, against: str = "") -> pd.DataFrame:
    """Compute the reductions against TCP in the same run (%), with a `jackknife` value for each repetition: a row for
    each case, load and repetition, a column for each statistic. against : another case of TCP."""
    rows = []
    for case in cases:
        network, _, rest = case.partition(" ")
        _, comma, control = rest.partition(", ")
        tcp_case = against or f"{network} tcp{comma}{control}"
        ours, tcp = (runs.reading("mice_times", each) for each in (case, tcp_case))
        for load in sorted(set(ours[0]["load"])):
            values = {which: reduction(which, load)(ours, tcp) for which in whichs}
            rows.append(pd.DataFrame(values).assign(case=case, load=load).rename_axis("repetition").reset_index())
    return pd.concat(rows, ignore_index=True)


def samples(name: str) -> pd.DataFrame:
    """Read the authors' samples: "bucket_sort" (Fig. 17: scheme, jobs, p50_ms, p90_ms, p99_ms, p99.7_ms, p99.9_ms) or
    "fat_tree" (Fig. 18: load, scheme, flows, mean_ms, median_ms, p99_ms, p999_ms)."""
    return pd.read_csv(data_dir("repnet") / f"{name}_samples.csv", comment="#")


def draw_idea() -> Figure:
    """Draw the testbed (Fig. 10) and the two connections of one flow."""
    figure, axis = new_figure("One flow, two connections, three paths (Fig. 10)", "", "")
    axis.axis("off")
    places = {"sender": (0.0, 0.0), "leaf 1": (1.2, 0.0), "leaf 2": (3.8, 0.0), "receiver": (5.0, 0.0)}
    places |= {f"spine {i + 1}": (2.5, 1.2 - 1.2 * i) for i in range(3)}
    for i in range(3):
        graph = nx.path_graph(["sender", "leaf 1", f"spine {i + 1}", "leaf 2", "receiver"])
        nx.draw_networkx_edges(graph, places, ax=axis, edge_color="#bbbbbb")
    for name, label, spine, shift in (("tcp", "port p", "spine 1", 0.05), ("repflow", "port p + 1", "spine 3", -0.05)):
        along = np.array([places[node] for node in ("sender", "leaf 1", spine, "leaf 2", "receiver")])
        axis.plot(along[:, 0], along[:, 1] + shift, color=scheme(name).colour, linewidth=2.5, label=label)
    for name, place in places.items():
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": pictures.INK}
        axis.text(*place, name, ha="center", va="center", bbox=box)
    axis.set(xlim=(-0.6, 5.6), ylim=(-1.6, 1.6))
    axis.legend(loc="lower right")
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the testbed without oversubscription: six hosts, two leaves, three spines."""
    return pictures.draw_network(experiment(replace(setting, flows=2), 0.0, 1), "Two racks and three spines (Fig. 10)")


# Pictures that are not standard: the mice of all repetitions together, and the paper's numbers relative to our TCP.


def _mice_over_load(network: str, which: str, axis: Axes, runs: Runs) -> set[float]:
    """Draw a statistic of mice over load. Lines: the mice of all repetitions together; points: single repetitions;
    grey, with 1:1: our TCP's value, less the published reduction."""
    loads = sorted(set(runs.numbers(f"{network} tcp")["load"]))
    for name in SCHEMES:
        case, look = f"{network} {name}", scheme(name)
        rows, mice = runs.numbers(case), runs.reading("mice_times", case)
        axis.plot(rows["load"], rows[f"{which}_ms"], look.marker, color=look.colour, alpha=0.3)
        levels = [pooled(mice, which, load) for load in loads]
        axis.plot(loads, levels, look.marker + "-", color=look.colour, linewidth=2.5, markersize=8, label=look.label)
        if network == "1:1" and name != "tcp" and 0.5 in loads:
            left = 1 - load_claims("repnet").claim(f"{name}-{which}").published / 100
            level = left * pooled(runs.reading("mice_times", "1:1 tcp"), which, 0.5)
            axis.plot(0.5, level, look.marker, label=f"published, {look.label}", **PUBLISHED_LOOK)
    return set(loads)


def _mice(network: str, title: str) -> Picture:
    labels = {which: f"{NAMES[which]} of mice (ms)" for which in PERCENTILES}
    return beside(title, "load", labels, lambda which: partial(_mice_over_load, network, which), log="y")


def _multipath(which: str, axis: Axes, runs: Runs) -> set[float]:
    """Draw how many times longer mice take than with TCP: all repetitions together, and single ones faint."""
    places, plain = ["load", "repetition"], "2:1 tcp, alone"
    tcp = runs.numbers(plain).set_index(places)[f"{which}_ms"]
    for case, _, look in shown(axis, runs, OF_MPTCP):
        single = (runs.numbers(case).set_index(places)[f"{which}_ms"] / tcp).reset_index()
        axis.plot(single["load"], single[f"{which}_ms"], ".", color=look["color"], alpha=0.35)
        whole = 1 - reductions(runs, [which], case, against=plain).groupby("load")[which].mean() / 100
        axis.plot(whole.index, whole, **{"marker": "o"} | look)
    return set(whole.index)


def _by_size(axis: Axes, runs: Runs) -> None:
    """Draw medians over the repetitions at load .4, or at the nearest load that was run.

    Lines go from the least to the greatest repetition. With five repetitions they include the median of all runs in 15
    of 16 cases, whatever the distribution. A mean of percentiles with and without a lost SYN (3 s) would say little.
    """
    load = min(runs.numbers("1:1 tcp")["load"], key=lambda each: abs(each - 0.4))
    for i, name in enumerate(SCHEMES):
        groups = runs.numbers(f"1:1 {name}").query("load == @load")[list(GROUPS)]
        places = np.arange(len(GROUPS)) + (i - 1) * 0.27
        axis.bar(places, groups.median(), 0.25, color=scheme(name).colour, label=scheme(name).label)
        axis.vlines(places, groups.min(), groups.max(), color="black", linewidth=1.2)
    axis.set_title(f"load {load:g}", fontsize=10)
    axis.set_xticks(
        range(len(GROUPS)), [f"{low / 1e3:.0f} to {high / 1e3:.0f}" for low, high in pairwise(SIZE_GROUPS_BYTES)]
    )


def _incast(axis: Axes, runs: Runs) -> None:
    """Draw the tail of mice. Grey: our TCP's values, changed by the published amount."""
    claims = load_claims("repnet")
    plain = {which: pooled(runs.reading("mice_times", "incast tcp"), which, 0.2) for which in ("p99", "p999")}
    for name in SCHEMES:
        look, levels = scheme(name), np.quantile(times(runs.reading("mice_times", f"incast {name}"), 0.2), CURVE)
        axis.plot(levels, 1 - np.array(CURVE), look.marker + "-", color=look.colour, label=look.label)
        if name != "tcp":
            change = {which: claims.claim(f"incast-{name}-{which}").published for which in plain}
            published = [plain[which] * (1 - change[which] / 100) for which in plain]
            if name == "repflow":
                published[0] = plain["p99"] + change["p99"]  # a change that the paper gives in ms
            slower = [1 - PERCENTILES[which] for which in plain]
            axis.plot(published, slower, look.marker, label=f"published, {look.label}", **PUBLISHED_LOOK)


def _probes(size_bytes: int, axis: Axes, runs: Runs) -> None:
    for case, _, look in shown(axis, runs, {f"probes {name}": name for name in SCHEMES}):
        axis.ecdf(runs.table("probes", case).query("size_bytes == @size_bytes")["completion_ms"].dropna(), **look)


def _slow_share(share: float) -> Level:
    return Level(1 - share, "1 - slow share in the authors' samples")


def _mice_by_tier(axis: Axes, runs: Runs) -> None:
    network = "full-rate" if runs.has("full-rate tcp", tier=SIMULATED) else "scaled"
    for case, tier, look in shown(axis, runs, {f"{network} {name}": name for name in SCHEMES}, tiers=True):
        axis.plot(np.quantile(times(runs.reading("mice_times", case, tier), 0.5), CURVE), CURVE, **look)
    axis.set_title("at its own rate" if network == "full-rate" else "at a fiftieth of its rate", fontsize=10)


def _sorting(axis: Axes, runs: Runs) -> None:
    """Draw times of bucket-sort jobs over TCP's median, and the authors' percentiles."""
    for network in ("sort", "kernel sort"):
        for case, tier, look in shown(axis, runs, {f"{network} {name}": name for name in SCHEMES}, tiers=True):
            median = runs.table("jobs", f"{network} tcp", tier)["took_ms"].median()
            axis.ecdf(runs.table("jobs", case, tier)["took_ms"] / median, complementary=True, **look)
    _authors_jobs(axis, relative=True)


def _released_sorting(axis: Axes, runs: Runs) -> None:
    """Draw times of jobs of the authors' program, which only a kernel in virtual time runs, and their samples."""
    lines = dict(zip(MESSAGE_MS, ("--", "-"), strict=True))
    for name in SCHEMES:
        if not runs.has(f"released sort {name}", tier=VIRTUAL):
            continue
        for message_ms, jobs in runs.table("released_jobs", f"released sort {name}", VIRTUAL).groupby("message_ms"):
            label = f"{scheme(name).label}, {message_ms:g} ms a message"
            colour, line = scheme(name).colour, lines[message_ms]
            axis.ecdf(jobs["took_ms"], complementary=True, color=colour, linestyle=line, label=label)
    _authors_jobs(axis)


def _authors_jobs(axis: Axes, relative: bool = False) -> None:
    """Draw the percentiles of the authors' samples, in ms or relative to TCP's median."""
    published = samples("bucket_sort").set_index("scheme")
    shares = {"p50_ms": 0.5, "p90_ms": 0.1, "p99_ms": 0.01, "p99.7_ms": 0.003, "p99.9_ms": 0.001}
    for name in SCHEMES:
        line, label = scheme(name).marker + ":", f"{scheme(name).label}, the authors' samples"
        theirs = published.loc[name, list(shares)] / (published.loc["tcp", "p50_ms"] if relative else 1)
        axis.plot(theirs, list(shares.values()), line, color=PUBLISHED_GREY, label=label)


# Tables that standard pictures draw.


def _overhead(runs: Runs) -> pd.DataFrame:
    rows = runs.values.query("case == 'loopback'")
    more = {scheme(name).label: rows[f"{name}_more_ms"] for name in REPLICATED}
    return pd.DataFrame(more).melt(var_name="scheme", value_name="more_ms")


def _on_one_path(runs: Runs, network: str, load: float) -> pd.DataFrame:
    cases = [f"{network} {name}{control}" for name in REPLICATED for control in ("", ", same path")]
    table = reductions(runs, ("median", "p99"), *cases).query("load == @load")
    long = table.melt(["case", "repetition"], ["median", "p99"], "which", "reduction")
    names = long["case"].str.split(",").str[0].str.split().str[-1]
    return long.assign(
        bar=[f"{scheme(name).label}\n{which}" for name, which in zip(names, long["which"], strict=True)],
        path=np.where(long["case"].str.endswith("same path"), "same", "by hash"),
    )


def _memory(runs: Runs) -> pd.DataFrame:
    """Add the most that a port may hold, and the name of a curve, to the knob's table."""
    table = runs.knobs["memory"]
    port_kb = table["buffer_kb"] * table["buffer_alpha"] / (1 + table["buffer_alpha"])
    curves = [_curve(name, rto_ms) for name, rto_ms in zip(table["case"], table["min_rto_ms"], strict=True)]
    return table.assign(port_kb=port_kb.round(), curve=curves)


def _curve(name: str, rto_ms: float) -> str:
    return f"{scheme(name).label}, least timeout {rto_ms:g} ms"


def _published_in_fat_tree(which: str, name: str, _: Runs) -> pd.Series:
    theirs = samples("fat_tree").pivot(index="load", columns="scheme", values=f"{which}_ms")
    return (1 - theirs[name] / theirs["tcp"]) * 100


def in_simulator(picture: Callable[[Runs], Figure]) -> Callable[[Runs], Figure]:
    """Return a picture of the simulator's runs, whatever tier was asked for."""
    return lambda runs: picture(replace(runs, tier=SIMULATED))


CONTROL = scheme("control").colour
OF_PATHS = {f"path {i + 1}": {"label": f"path {i + 1}", "color": CURVES[i], "linewidth": 0.8} for i in range(3)}
OF_ELEPHANTS = {f"1:1 {name}, alone": name for name in ("tcp", "repflow")} | {
    "1:1 repflow, all twice": {"label": "control: elephants sent twice too", "color": CONTROL, "linestyle": "--"}
}
OF_MPTCP = {
    "2:1 mptcp": {"label": f"{SUBFLOWS} subflows", "color": scheme("mptcp").colour},
    "2:1 mptcp, one subflow": {"label": "control: one subflow", "color": CONTROL, "marker": "x"},
}
OF_MEMORY = {
    _curve(name, rto_ms): {"label": _curve(name, rto_ms), "color": scheme(name).colour, "linestyle": line}
    for rto_ms, line in ((200.0, "--"), (10.0, "-"))
    for name in SCHEMES
}
OVERHEAD = {"repflow": Setting.repflow_extra_ms, "repsyn": Setting.repsyn_extra_ms}
SIMULATED_FIGURES = {
    "fig1_round_trips": Picture(
        "Round trips on three disjoint paths (Fig. 1)",
        *(
            Panel(
                "time (s)",
                "round trip (ms)",
                Course("round_trips", "round_trip_ms", {"paths": look}, rows=f"path == {name!r}"),
            )
            for name, look in OF_PATHS.items()
        ),
    ),
    "fig2_correlation": plot(
        "Correlation of round-trip times (Fig. 2)",
        "pair of paths",
        "correlation coefficient",
        Bars(
            "correlation",
            lambda runs: runs.table("correlations", "paths"),
            group="pair",
            by="shares_links",
            looks={
                False: {"label": "no common link", "color": scheme("tcp").colour},
                True: {"label": "control: the same switches", "color": CONTROL},
            },
        ),
        y_range=(-0.5, 1),
    ),
    "fig3_probes": Picture(
        "One of three paths is congested (Fig. 3)",
        *(
            Panel(
                COMPLETION,
                "share of probes",
                partial(_probes, size_bytes),
                *map(_slow_share, shares),
                title=title,
                log="x",
            )
            for size_bytes, title, shares in (
                (1, "one byte (mostly the handshake, Fig. 3 b)", (0.326, 0.122)),
                (MOUSE_BYTES, "100 KB (Fig. 3 c)", (0.319, 0.126, 0.115)),
            )
        ),
    ),
    "fig4_multipath": Picture(
        "Mice with MPTCP, 2:1 (Fig. 4)",
        *(
            Panel(
                "load",
                "with MPTCP / with TCP (ratio)",
                partial(_multipath, which),
                *level,
                title=NAMES[which],
                log="y",
            )
            for which, level in (("mean", ()), ("p999", (Level(1.4, "the paper: more than this"),)))
        ),
    ),
    "fig11_mice": _mice("1:1", "Mice on the leaf-spine, 1:1 (Fig. 11)"),
    "fig12_mice_oversubscribed": _mice("2:1", "Mice on the leaf-spine, 2:1 (Fig. 12)"),
    "fig13_by_size": plot("By size (Fig. 13)", "size of the flow (KB)", "99th percentile (ms)", _by_size, log="y"),
    "fig14_incast": plot(
        "Eleven hosts answer at once, load .2 (Fig. 14)", COMPLETION, "share of slower flows", _incast, log="xy"
    ),
    "fig15_elephants": Picture(
        "Elephants hardly notice (Fig. 15)",
        *(
            Panel(
                "share of flows",
                "throughput of flows above 1 MB (Mb/s)",
                Course("elephant_speeds", "mbps", OF_ELEPHANTS, "share", f"load == {load}", every=True),
                title=f"load {load:g}",
            )
            for load in ELEPHANT_LOADS
        ),
    ),
    "fig18_fat_tree": Picture(
        "Fat-tree of 54 hosts (Fig. 18)",
        *(
            Panel(
                "load",
                REDUCTION,
                Sweep(
                    "load",
                    which,
                    lambda runs: reductions(runs, ("mean", "p99"), *(f"fat-tree {name}" for name in REPLICATED)),
                    looks={f"fat-tree {name}": name for name in REPLICATED},
                ),
                Published(
                    partial(_published_in_fat_tree, which, "repflow"), "RepFlow, the authors' samples", joined=True
                ),
                Published(partial(_published_in_fat_tree, which, "repsyn"), "RepSYN, the authors' samples"),
                title=NAMES[which],
                y_range=(-60, 60),
            )
            for which in ("mean", "p99")
        ),
    ),
    "control_same_path": Picture(
        "Broken on purpose: both on one path",
        *(
            Panel(
                "",
                REDUCTION,
                Bars(
                    "reduction",
                    partial(_on_one_path, network=network, load=load),
                    group="bar",
                    by="path",
                    looks={
                        "by hash": {"label": "paths by hash", "color": scheme("repflow").colour},
                        "same": {"label": "the same path", "color": CONTROL},
                    },
                ),
                title=f"{words}, load {load:g}",
                y_range=(-60, 60),
            )
            for network, words, load in (("1:1", "leaf-spine 1:1", 0.5), ("fat-tree", "fat-tree", 0.8))
        ),
    ),
    "knob_buffer_and_timeout": beside(
        "Memory and the least timeout (1:1, load .5)",
        "most that a port may hold (KB)",
        {f"{which}_ms": f"{NAMES[which]} of mice (ms)" for which in ("p99", "p999")},
        lambda reading: Sweep("port_kb", reading, _memory, "curve", OF_MEMORY),
        log="xy",
    ),
}
FIGURES: Mapping[str, Callable[[Runs], Figure]] = {
    **{name: in_simulator(picture) for name, picture in SIMULATED_FIGURES.items()},
    "fig16_overhead": plot(
        f"1-KB flows over the loopback (Fig. 16); published: beside {SOFTWARE_MS:g} ms of a plain flow",
        "",
        "more than a plain flow takes (ms)",
        Bars("more_ms", _overhead, group="scheme", published={scheme(name).label: ms for name, ms in OVERHEAD.items()}),
    ),
    "tiers_scaled_testbed": plot("Mice on the testbed, load .5", COMPLETION, "share of mice", _mice_by_tier, log="x"),
    "fig17_bucket_sort": Picture(
        "Bucket sort (Fig. 17)",
        Panel("time of a job / TCP's median (ratio)", SLOWER_JOBS, _sorting, title="our program", log="xy"),
        Panel("time of a job (ms)", SLOWER_JOBS, _released_sorting, title="the authors' program", log="xy"),
    ),
}
