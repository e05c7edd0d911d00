"""The paper's pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.papers.cdn_routing.setting import PAPER, PREPENDING, REACTIVE, Setting, make_world, small
from netrepro.protocols.as_graph import Relation
from netrepro.study import VIRTUAL, Reading, Runs, seed_of
from netrepro.study.figures import Bars, Level, Look, Mark, Panel, Picture, Published, Sweep, not_measured, plot, shown
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure

COLOURS = dict(zip(PAPER, CURVES, strict=False))
AFTER, SHARE = "time after the failure (s)", "share of clients"


def draw_network(setting: Setting, seed: int) -> Figure:
    """Draw the Internet by level, and the sites' links into it."""
    world = make_world(setting, seed_of(seed, 0))
    inner = [number for number in world.graph.neighbours if number not in {*world.sites, *world.clients}]
    top = [number for number in inner if Relation.PROVIDER not in world.graph.neighbours[number].values()]
    transit = [number for number in inner if number not in top]
    levels = {"sites of the CDN": world.sites, "stubs (clients)": world.clients, "transit": transit, "top": top}
    figure, axis = new_figure("One of the Internets, and the CDN's sites", "", "")
    places: dict[int, tuple[float, int]] = {}
    for level, (name, numbers) in enumerate(levels.items()):
        places |= {number: ((index + 0.5) / len(numbers), level) for index, number in enumerate(numbers)}
        look = {"marker": "s" if level == 0 else "o", "markersize": 2 if name in ("transit", "stubs (clients)") else 7}
        axis.plot(*zip(*(places[number] for number in numbers), strict=True), linestyle="", color="black", **look)
    kinds = {"peers": CURVES[0], "provider and customer": PUBLISHED_GREY, "a site's providers": CURVES[6]}
    for a, b, relation in world.graph.links:
        kind = "peers" if relation == Relation.PEER else "provider and customer"
        kind = "a site's providers" if a in world.sites else kind
        width = 1.6 if a in world.sites else 0.3
        axis.plot(*zip(places[a], places[b], strict=True), color=kinds[kind], linewidth=width, alpha=0.6)
    for name, colour in kinds.items():
        axis.plot([], [], color=colour, label=name)
    axis.set_yticks(range(len(levels)), [f"{name}: {len(numbers)}" for name, numbers in levels.items()])
    axis.set_xticks([])
    axis.grid(False)
    axis.spines[:].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure


def times_of(runs: Runs, case: str, what: str, tier: str = "") -> np.ndarray:
    """Return the times of all clients of a case, sorted."""
    rows = runs.table("times", case, tier)
    return np.sort(np.repeat(rows[f"{what}_s"].to_numpy(), rows["clients"].to_numpy()))


def _step(axis: Axes, times_s: np.ndarray, **look: Any) -> None:
    axis.step(times_s, np.arange(1, len(times_s) + 1) / len(times_s), where="post", **look)


def clients(what: str, cases: Mapping[str, Look], tiers: bool = False) -> Mark:
    """Make a mark: the share of all clients that have reconnected or failed over, for each case (and tier)."""

    def draw(axis: Axes, runs: Runs) -> None:
        for case, tier, look in shown(axis, runs, cases, tiers):
            _step(axis, times_of(runs, case, what, tier), **look)

    return draw


LOOKS: dict[str, Look] = {name: name for name in PAPER}
PUBLISHED = {
    "reconnection": Published({10.0: 0.5}, "published medians"),
    "failover": Published({10.0: 0.5, 15.0: 0.5}, "published medians"),  # prepending is 5 s later
}
draw_times = Picture(
    "After a site has failed (Fig. 2)",
    *(
        Panel(AFTER, SHARE, published, clients(what, LOOKS), title=what, x_range=(0, 120))
        for what, published in PUBLISHED.items()
    ),
)
draw_tiers = Picture(
    "One Internet, routed twice: by speakers of ours (simulated), and by BIRD (virtual)",
    *(
        Panel(
            AFTER,
            SHARE,
            clients(what, {small(name): name for name in PAPER}, tiers=True),
            not_measured(VIRTUAL),
            title=what,
        )
        for what in ("reconnection", "failover")
    ),
)
BROKEN: dict[str, Look] = {
    case: {"label": case, "color": COLOURS[technique], "linestyle": line}
    for technique, line, case in (
        (REACTIVE, "-", REACTIVE),
        (REACTIVE, "--", "reactive-anycast, no delays"),
        (REACTIVE, ":", "reactive-anycast, a minute late"),
        (PREPENDING, "-", PREPENDING),
        (PREPENDING, "--", "proactive-prepending, no delays"),
        (PREPENDING, ":", "prepending after the failure"),
        (PREPENDING, "-.", "no prepends"),
    )
}
draw_control = plot(
    "Broken on purpose", "failover, time after the failure (s)", SHARE, clients("failover", BROKEN), log="x"
)


def _by_prepends(column: str, label: str, line: str = "-") -> Sweep:
    return Sweep("prepends", column, "prepends", looks={PREPENDING: {"label": label, "linestyle": line}})


draw_prepends = Picture(
    "How many prepends?",
    Panel("prepends (count)", "share of all clients that go to the site", _by_prepends("share_at_site", "share")),
    Panel(
        "prepends (count)",
        "median (s)",
        _by_prepends("reconnection_p50_s", "reconnection", "--"),
        _by_prepends("failover_p50_s", "failover"),
    ),
)


def _by_reaction(column: str, label: str, line: str = "-") -> Sweep:
    return Sweep("reaction_s", column, "reaction", looks={REACTIVE: {"label": label, "linestyle": line}})


REACTION = "announcement after the failure (s)"
draw_reactions = Picture(
    "When is immediately?",
    Panel(REACTION, "share of all clients that go to the site", _by_reaction("share_at_site", "share, before")),
    Panel(
        REACTION,
        "time after the failure (s)",
        _by_reaction("reconnection_p5_s", "reconnection, one in twenty", ":"),
        _by_reaction("reconnection_p50_s", "reconnection, median", "--"),
        _by_reaction("failover_p50_s", "failover, median"),
        Level(7.0, "published: begins at 7 s, median 10 s"),
        Level(10.0),
    ),
)
draw_delays = plot(
    "Does it matter how delays are distributed?",
    "law; or share of a withdrawal's time that an announcement takes; or time between announcements",
    "median failover (s)",
    Bars("failover_p50_s", "delays", by="technique", looks=LOOKS),
    Level(10.0, "published: 10 s; prepending 5 s later"),
    Level(15.0),
)


def draw_run(reading: Reading, case: str) -> Figure:
    """Draw the distribution of reconnection and failover in one run."""
    figure, axis = new_figure(case, AFTER, SHARE)
    for what, line in (("reconnection", "--"), ("failover", "-")):
        times_s = np.sort(np.repeat(reading["times"][f"{what}_s"], reading["times"]["clients"]))
        _step(axis, times_s, color=COLOURS[case], linestyle=line, label=what)
    axis.set(xlim=(0, 120), ylim=(0, 1.02))
    axis.legend()
    return figure
