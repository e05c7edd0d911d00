"""Tables and figures of ONCache's runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.papers.oncache.measuring import (
    BARE,
    COST_UNITS,
    EIGHT_KB,
    FRESH,
    IN_FRAGMENTS,
    KUBE_PROXY,
    OF_CLASS,
    ONCACHE,
    OVERLAY,
    PARTS,
    PUBLISHED,
    TITLES,
    TOGETHER,
    TRIALS,
    UNCUT,
    UNITS,
    UNMARKED,
    WHOLE,
)
from netrepro.paths import data_dir
from netrepro.study import SIMULATED, Evidence, Reading, Runs
from netrepro.study.figures import Mark, Panel, Sweep
from netrepro.style import PUBLISHED_GREY, new_figure, scheme


def trial_table(runs: Runs) -> pd.DataFrame:
    """Return the share of trials that hold: a row for each case, a column for each tier."""
    tried = runs.values[runs.values["case"].isin(TRIALS)]
    return tried.pivot_table("holds", "case", "tier", sort=False).round(3)


def rates(runs: Runs) -> pd.DataFrame:
    """Return the rows of traffic; none where costs were not measured."""
    columns = ["repetition", "case", "kind", "flows", "rules", "rate", *PARTS]
    return runs.values.reindex(columns=columns).dropna(subset="rate").astype({"flows": int, "rules": int})


def rate(runs: Runs, case: str, kind: str, flows: int = 1, column: str = "rate") -> pd.Series:
    """Return one reading of one kind of traffic in a case, by repetition."""
    rows = rates(runs).query("case == @case and kind == @kind and flows == @flows")
    return rows.set_index("repetition")[column].sort_index()


def ratio(runs: Runs, ours: str, other: str, kind: str, flows: int = 1, column: str = "rate") -> pd.Series:
    """Compute the ratio of two networks in the same round."""
    return rate(runs, ours, kind, flows, column) / rate(runs, other, kind, flows, column)


def summary(runs: Runs) -> pd.DataFrame:
    """Return a row for each network, kind and number of flows: median rate and processor time, and the rate over that
    of the overlay with the same changes, or where there is none of the overlay."""
    table = rates(runs).groupby(["kind", "flows", "case", "rules"], sort=False)[["rate", "processor_us"]].median()
    rate_of = table["rate"].to_dict()

    def overlay(kind: str, flows: int, case: str, rules: int) -> float:
        changed = kind, flows, case.replace(ONCACHE, OVERLAY).replace(BARE, OVERLAY), rules
        return rate_of.get(changed) or rate_of[kind, flows, OVERLAY, 0]

    return table.assign(to_overlay=[own / overlay(*key) for key, own in rate_of.items()]).sort_index()


def processor_times(runs: Runs) -> pd.DataFrame:
    """Return the processor time of the client, the server and both (medians), and that of both over the overlay's, for
    each kind of traffic, network and number of flows: seconds a gigabyte of streams, microseconds a transaction."""
    rows = rates(runs).query("case in @LOOKS").groupby(["kind", "case", "flows"], sort=False)[PARTS].median()
    both = rows["processor_us"]
    overlay = both.xs(OVERLAY, level="case").reindex(both.index.droplevel("case")).to_numpy() if len(both) else both
    times = rows.mul(rows.index.get_level_values("kind").map(COST_UNITS).to_numpy(), axis=0) if len(both) else rows
    return times.set_axis(["client", "server", "both"], axis=1).assign(to_overlay=both / overlay).sort_index()


def bare_hosts(runs: Runs) -> pd.DataFrame:
    """Return the request-response rates of hosts without an overlay, over those of fresh hosts in the same round
    (medians): a row for what netfilter has, a column for each kind of traffic."""
    hosts = {FRESH: "nothing", BARE: "connection tracking", KUBE_PROXY: "connection tracking, kube-proxy's rules"}
    return pd.DataFrame(
        {
            kind: {what: ratio(runs, case, FRESH, kind).median() for case, what in hosts.items()}
            for kind in ("tcp_rr", "udp_rr")
        }
    )


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    where = runs.tier if runs.has(PUBLISHED) else SIMULATED
    back, whose = float(runs.numbers(PUBLISHED, where)["holds"].iloc[0]), "in the model " if where == SIMULATED else ""
    learns = f"{whose}a flow is learned again after {back:.0%} of the evictions"
    if why := runs.why_not(ONCACHE):
        return f"Costs were not measured here ({why}); {learns}."
    tcp, udp, stream = (ratio(runs, ONCACHE, OVERLAY, kind).median() for kind in ("tcp_rr", "udp_rr", "tcp_stream"))
    words = (
        f"The cache makes request and response {tcp:.2f} times as fast as this overlay with TCP (published 1.36) and "
        f"{udp:.2f} times with UDP (1.34), and TCP's throughput {stream:.2f} times (1.12); {learns}."
    )
    return words if runs.trusted else f"Untrusted (see section 6): {words}"


# Figures.


def published() -> pd.DataFrame:
    """Read the class project's tables: rows by transport, network and flows; gbps, processors and rr of one flow."""
    table = pd.read_csv(data_dir("oncache") / "class_rates.csv", comment="#")
    return table.set_index(["transport", "network", "flows"]).sort_index()


def draw_idea() -> Figure:
    """Draw where the four programs run, and the path past the overlay."""
    figure, axis = new_figure("One host: the overlay's way, and the way past it", "", "")
    figure.set_size_inches(9, 3.2)
    axis.axis("off")
    for x, name in enumerate(("container", "bridge", "routing, filter,\nconnections", "tunnel", "network card")):
        box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": scheme("overlay").colour}
        axis.text(2 * x, 0, name, ha="center", va="center", bbox=box)
        if x:
            axis.annotate("", (2 * x - 0.62, 0), (2 * x - 1.38, 0), arrowprops={"arrowstyle": "<->"})
    for at, above, below in ((0.95, "egress", "ingress-init"), (7.1, "ingress", "egress-init")):
        axis.text(at, 0.72, above, ha="center", color=scheme("ONCache").colour)
        axis.text(at, -0.72, below, ha="center", color=PUBLISHED_GREY)
    fast = {"arrowstyle": "<->", "color": scheme("ONCache").colour, "connectionstyle": "arc3,rad=-0.15", "lw": 2}
    axis.annotate("", (7.0, 1.0), (1.05, 1.0), arrowprops=fast)
    axis.text(4, 1.68, "hit: cached headers, straight across", ha="center", color=scheme("ONCache").colour)
    axis.text(4, -1.2, "miss: marked, through the overlay; what comes out with both marks teaches", ha="center")
    axis.set(xlim=(-1, 9), ylim=(-1.5, 2.0))
    return figure


def of_kind(kind: str) -> Callable[[Runs], pd.DataFrame]:
    """Make the function that returns one kind of traffic with four new columns: rate (for each flow), cost (seconds a
    gigabyte of streams, microseconds a transaction), network (the case without its other changes) and processors
    (whether both ends of a flow share one)."""

    def rows(runs: Runs) -> pd.DataFrame:
        table = rates(runs).query("kind == @kind")
        network = table["case"].str.replace(", one processor|, more rules", "", regex=True)
        together = np.where(table["case"].str.endswith(", one processor"), "one for both", "one a host")
        new = {"network": network, "processors": together, "cost": table["processor_us"] * COST_UNITS[kind]}
        return table.assign(rate=table["rate"] / table["flows"] * UNITS[kind], **new)

    return rows


def _draw_class(kind: str, reading: str = "rate") -> Mark:
    """Draw the class's rates, or a stream's costs, in grey, scaled so that its overlay with one flow coincides with
    ours."""

    def draw(axis: Axes, runs: Runs) -> None:
        if not runs.has(OVERLAY):
            return
        table = published().loc[kind[:3]]
        column = table["rr" if kind.endswith("rr") else "gbps"]
        if reading == "cost":
            column = table["processors"] / column
        ours = of_kind(kind)(runs).query("case == @OVERLAY and flows == 1")[reading]
        scale = ours.median() / column["overlay", 1]
        for (name, label), marker in zip(OF_CLASS.items(), "osv^", strict=True):
            axis.plot(scale * column[name], f"{marker}:", color=PUBLISHED_GREY, lw=1, label=f"class: {label}", zorder=1)

    return draw


def _over_flows(kind: str, reading: str, label: str, *marks: Mark) -> Panel:
    return Panel(
        "flows", label, *marks, Sweep("flows", reading, of_kind(kind), looks=LOOKS), log="x", y_range=(0, None)
    )


def _one_or_two(kind: str) -> Panel:
    cases = [*LOOKS, *map(TOGETHER.format, LOOKS)]
    ours = Sweep("processors", "rate", of_kind(kind), "network", LOOKS, rows=f"flows == 1 and case in {cases}")
    return Panel("processors for both ends of a flow (count)", TITLES[kind], ours)


def packets(kind: str) -> Callable[[Runs], pd.DataFrame]:
    """Make the function that returns streams of one kind and flow in ONCache and overlay, with three new columns:
    network, packet (what one holds, in words) and gbps."""
    sizes = {
        "tcp_stream": {UNCUT: 1, WHOLE: 1, "{}": 1},
        "udp_stream": {"{}": 1400, WHOLE: EIGHT_KB, IN_FRAGMENTS: EIGHT_KB},
    }
    words = {UNCUT: "1.4 KB", WHOLE: "8 KB", IN_FRAGMENTS: "8 KB,\nin fragments"}
    words["{}"] = "64 KB" if kind == "tcp_stream" else "1.4 KB"

    def rows(runs: Runs) -> pd.DataFrame:
        table = rates(runs).query("kind == @kind and flows == 1")
        parts = [
            table[table["case"] == case.format(name)].assign(network=name, packet=words[case], counted=size)
            for case, size in sizes[kind].items()
            for name in (OVERLAY, ONCACHE)
        ]
        return pd.concat(parts).eval("gbps = rate * counted * 8e-9")

    return rows


def _by_packet(kind: str, name: str) -> Panel:
    ours = Sweep("packet", "gbps", packets(kind), "network", {each: LOOKS[each] for each in (OVERLAY, ONCACHE)})
    return Panel("what a packet holds (bytes)", f"{name}, throughput (Gbit/s)", ours, y_range=(0, None))


def _draw_symmetric_logarithm(axis: Axes, _: Runs) -> None:
    axis.set_xscale("symlog", linthresh=10)


LOOKS = dict(zip((BARE, OVERLAY, ONCACHE), ("bare", "overlay", "ONCache"), strict=True))  # their schemes


def draw_trials(runs: Runs) -> Figure:
    """Draw after which evictions a flow returns to the fast path, with the programs and with the model."""
    rows = runs.tables["trials"].query("what == 'evict'")
    tiers = list(dict.fromkeys(rows["tier"]))
    figure, axes = new_figure("Back on the fast path after an eviction?", "", "", columns=len(tiers))
    figure.set_size_inches(1.5 + 4.5 * len(tiers), 4.2)
    for place, (axis, tier) in enumerate(zip(np.atleast_1d(axes), tiers, strict=True)):
        wide = rows[rows["tier"] == tier].pivot_table("holds", "trial", "case", aggfunc="first", sort=False)
        axis.imshow(wide.astype(float), cmap="RdYlGn", vmin=-0.3, vmax=1.3, aspect="auto")
        for (y, x), holds in np.ndenumerate(wide.to_numpy()):
            axis.text(x, y, "yes" if holds else "no", ha="center", va="center")
        axis.set_xticks(range(len(wide.columns)), [str(name).replace(" ", "\n") for name in wide.columns])
        axis.set_yticks(range(len(wide)), list(wide.index) if not place else [""] * len(wide))
        axis.set_title(f"tier {tier}" + (" (the model)" if tier == SIMULATED else ""), fontsize=10)
        axis.grid(visible=False)
    return figure


def draw_packets(reading: Reading, case: str) -> Figure:
    """Draw which packets of a conversation took the fast path, out of the sender's host and into the receiver's."""
    figure, axis = new_figure("Packets before and after", "packet (odd: a to b, even: b to a)", "")
    figure.set_size_inches(9, 2.2)
    packets = reading["packets"]
    for y, way in enumerate(("fast_out", "fast_in")):
        for x, (is_fast, arrived) in enumerate(zip(packets[way], packets["arrived"], strict=True), 1):
            colour = scheme("ONCache" if is_fast else "overlay").colour
            axis.plot([x], [y], "s" if arrived else "x", color=colour, ms=9)
    axis.axvline(packets["is_before"].sum() + 0.5, color="black", linewidth=0.8)
    axis.set_yticks([0, 1], ["leaving", "arriving"])
    axis.set(ylim=(-0.6, 1.6), title="fast path (orange) or overlay (blue); the line is the eviction")
    return figure


def _to_overlay(kind: str, flows: int = 1, reading: str = "rate", broken: str = UNMARKED) -> Evidence:
    """Compare ONCache with the overlay in the same round. In the control nothing is marked, so nothing may be
    learned."""

    def how(ours: pd.Series, overlay: pd.Series) -> float:
        return ours[kind, flows] / overlay[kind, flows]

    return Evidence(reading, (ONCACHE, OVERLAY), control=(broken, OVERLAY), how=how)
