"""The paper's pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from netrepro.papers.cdn_routing.failures import CLASS_CASE
from netrepro.papers.cdn_routing.readings import small, times_of
from netrepro.papers.cdn_routing.setting import FIRST_SITE, PAPER, Setting, make_world
from netrepro.protocols.as_graph import Relation
from netrepro.study import SIMULATED, VIRTUAL, Reading, Runs, seed_of
from netrepro.study.pictures import say_not_measured
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure


def unicast_failover_s(count: int, seed: int, *, time_to_live_s: float = 60.0) -> np.ndarray:
    """Sample the times at which `count` clients of a unicast site have asked DNS again, in seconds after the failure.

    A model without any routing: records expire evenly within their time to live; 13 % of clients go on with an expired
    one, half of these for 56 s or more (exponential; figures of the first author's later proposal).
    """
    stream = np.random.default_rng(seed)
    expires = stream.random(count) * time_to_live_s
    stays = stream.random(count) < 0.13
    return expires + stays * stream.exponential(56 / math.log(2), count)


LOOKS = dict(zip(PAPER, CURVES, strict=False))


def draw_idea() -> Figure:
    """Draw a table of what the specific site and the others announce, before and after the failure (Fig. 1)."""
    figure, axis = new_figure("Who announces what (Fig. 1)", "", "")
    axis.axis("off")
    said = {
        "unicast": ("specific prefix", "nothing", "nothing; DNS moves clients"),
        "anycast": ("specific prefix", "specific prefix", "the same"),
        "reactive-anycast": ("specific prefix", "nothing", "specific prefix, from now on"),
        "proactive-prepending": ("specific prefix", "specific prefix,\nlonger path", "the same"),
        "proactive-superprefix": ("specific prefix", "covering prefix", "the same"),
    }
    heads = ("technique", "specific site", "other sites, before", "other sites, after its failure")
    cells = [[name, *row] for name, row in said.items()]
    table = axis.table(cells, colLabels=heads, loc="center", cellLoc="left", colWidths=[0.24, 0.19, 0.24, 0.33])
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 2.4)
    for (row, column), cell in table.get_celld().items():
        cell.set_edgecolor("#dddddd")
        if row == 0 or column == 0:
            cell.set_text_props(weight="bold")
        if row > 0 and column == 0 and cells[row - 1][0] in LOOKS:
            cell.set_text_props(weight="bold", color=LOOKS[cells[row - 1][0]])
    return figure


def draw_network(setting: Setting, seed: int) -> Figure:
    """Draw the Internet by level, and the sites' links into it."""
    world = make_world(setting, seed_of(seed, 0))
    stubs = set(world.clients)
    levels: dict[int, list[int]] = {}
    for number, near in world.graph.neighbours.items():
        is_top = Relation.PROVIDER not in near.values()
        level = 0 if number in world.sites else 1 if number in stubs else 3 if is_top else 2
        levels.setdefault(level, []).append(number)
    place = {
        number: ((index + 0.5) / len(numbers), level)
        for level, numbers in levels.items()
        for index, number in enumerate(numbers)
    }
    figure, axis = new_figure("One of the Internets, and the CDN's sites", "", "")
    for a, b, relation in world.graph.links:
        is_site = a >= FIRST_SITE
        colour = CURVES[6] if is_site else PUBLISHED_GREY if relation == Relation.PROVIDER else CURVES[0]
        look = {"linewidth": 1.6 if is_site else 0.3, "alpha": 0.9 if is_site else 0.4}
        axis.plot(*zip(place[a], place[b], strict=True), color=colour, zorder=2 if is_site else 1, **look)
    names = {3: "top", 2: "transit", 1: "stubs (clients)", 0: "sites of the CDN"}
    for level, numbers in levels.items():
        xs = [place[number][0] for number in numbers]
        axis.plot(
            xs, [level] * len(xs), "s" if level == 0 else "o", color="black", markersize=7 if level in (0, 3) else 2
        )
    axis.set_yticks(list(names), [f"{names[level]}: {len(levels[level])}" for level in names])
    axis.set_xticks([])
    axis.grid(False)
    axis.spines[:].set_visible(False)
    axis.plot([], [], color=CURVES[0], label="peers")
    axis.plot([], [], color=PUBLISHED_GREY, label="provider and customer")
    axis.plot([], [], color=CURVES[6], label="a site's providers")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure


def draw_times(runs: Runs) -> Figure:
    """Draw the distribution of reconnection and failover by technique (Fig. 2), with what was published of it in
    words."""
    figure, _ = new_figure(
        "After a site has failed (Fig. 2)", "time after the failure (s)", "share of clients", columns=2
    )
    published = {
        "reconnection": [(10.0, "published medians: 10 s")],
        "failover": [(10.0, "published: anycast, reactive: 10 s"), (15.0, "published: prepending: 5 s later")],
    }
    for axis, (what, points) in zip(figure.axes, published.items(), strict=True):
        for name in PAPER:
            values = times_of(runs, name, f"{what}_s")
            axis.step(values, np.arange(1, len(values) + 1) / len(values), color=LOOKS[name], label=name, where="post")
        if what == "failover":
            values = np.sort(unicast_failover_s(2000, 0, time_to_live_s=60.0))
            share = np.arange(1, len(values) + 1) / len(values)
            axis.plot(values, share, color=CURVES[4], linestyle=":", label="unicast (a model of DNS)")
        for (time_s, words), marker in zip(points, "Dv", strict=False):
            axis.plot(time_s, 0.5, marker, color=PUBLISHED_GREY, markersize=8, label=words, linestyle="none")
        axis.set(xlim=(0, 120), ylim=(0, 1.02), title=what)
        axis.legend(fontsize=8, loc="lower right")
    return figure


def draw_tiers(runs: Runs) -> Figure:
    """Draw reconnection and failover with BIRD daemons beside our speakers."""
    figure, _ = new_figure(
        "One Internet, routed twice",
        "time after the failure (s)",
        "share of clients",
        columns=2,
    )
    looks: dict[str, dict[str, Any]] = {SIMULATED: {"linewidth": 5, "alpha": 0.35}, VIRTUAL: {"linewidth": 1.4}}
    for axis, what in zip(figure.axes, ("reconnection", "failover"), strict=True):
        for name in PAPER:
            for tier, look in looks.items():
                values = times_of(runs, small(name), f"{what}_s", tier)
                share = np.arange(1, len(values) + 1) / max(len(values), 1)
                axis.step(values, share, color=LOOKS[name], where="post", **look)
        axis.set(title=what, ylim=(0, 1.02))
        axis.set_xlim(left=0)
        if VIRTUAL not in runs.tiers:
            say_not_measured(axis, VIRTUAL)
    lines = [figure.axes[0].plot([], [], color=LOOKS[name], label=name)[0] for name in PAPER]
    names = {SIMULATED: "our speakers", VIRTUAL: "BIRD"}
    lines += [figure.axes[0].plot([], [], color="black", label=names[tier], **look)[0] for tier, look in looks.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw the techniques with their mechanism taken away."""
    figure, axis = new_figure(
        "Broken on purpose", "failover, time after the failure (s)", "share of clients", log_x=True
    )
    broken = {
        "reactive-anycast": ("reactive-anycast, no delays", "reactive-anycast, a minute late"),
        "proactive-prepending": ("proactive-prepending, no delays", "prepending after the failure", "no prepends"),
    }
    for name, others in broken.items():
        for style, each in zip(("-", "--", ":", "-."), (name, *others), strict=False):
            values = times_of(runs, each, "failover_s")
            share = np.arange(1, len(values) + 1) / len(values)
            axis.step(values, share, color=LOOKS[name], linestyle=style, label=each, where="post", linewidth=1.5)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def draw_prepends(runs: Runs) -> Figure:
    """Draw the costs and the benefits of more prepends."""
    table = runs.knobs["prepends"]
    figure, _ = new_figure("How many prepends?", "prepends (count)", "", columns=2)
    left, right = figure.axes
    left.plot(table.prepends, table.share_at_site, "o-", color=LOOKS["proactive-prepending"])
    left.set(ylabel="share of all clients that go to the site", ylim=(0, 1.05))
    right.plot(table.prepends, table.reconnection_s, "o--", color=LOOKS["proactive-prepending"], label="reconnection")
    right.plot(table.prepends, table.failover_s, "o-", color=LOOKS["proactive-prepending"], label="failover")
    right.set(ylabel="median (s)")
    right.set_ylim(bottom=0)
    right.legend()
    return figure


def draw_delays(runs: Runs) -> Figure:
    """Draw the medians of the techniques by the law of delays."""
    table = runs.knobs["delays"]
    figure, axis = new_figure("Does it matter how delays are distributed?", "median failover (s)", "")
    laws = list(dict.fromkeys(table.delays))
    for name in PAPER:
        rows = table[table.technique == name].set_index("delays").loc[laws]
        axis.plot(rows.failover_s, range(len(laws)), "o", color=LOOKS[name], label=name, markersize=8)
    axis.plot([10, 15], [-0.35, -0.35], "D", color=PUBLISHED_GREY, label="published: 10 s, prepending 5 s later")
    axis.set_yticks(range(len(laws)), [law.replace(", ", ",\n") for law in laws])
    axis.set_ylim(-0.6, len(laws) - 0.5)
    axis.set_xlim(left=0)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def draw_definition(runs: Runs) -> Figure:
    """Draw failover over the share of lost answers, a curve for each number of answers in a row; the class's in
    grey."""
    table = runs.table("definition", CLASS_CASE)
    figure, axis = new_figure("What the class measured", "share of answers that are lost", "median failover (s)")
    for colour, (count, rows) in zip(CURVES, table.groupby("count"), strict=False):
        axis.plot(rows.loss, rows.failover_s, "o-", color=colour, label=f"{count} in a row")
    axis.axhline(600.48, color=PUBLISHED_GREY, linestyle="--", label="class report: 600.48 s")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=9)
    return figure


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the distribution of reconnection and failover in one run."""
    figure, axis = new_figure(case, "time after the failure (s)", "share of clients")
    rows = reading["times"]
    for what, line in (("reconnection_s", "--"), ("failover_s", "-")):
        values = np.sort(np.repeat(rows[what], rows["clients"]))
        share = np.arange(1, len(values) + 1) / len(values)
        axis.step(values, share, line, color=LOOKS[case], label=what.removesuffix("_s"), where="post")
    axis.set(xlim=(0, 120), ylim=(0, 1.02))
    axis.legend()
    return figure
