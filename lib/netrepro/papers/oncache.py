"""A cache beside an overlay network: Lin et al., "ONCache", NSDI 2025, Fig. 5.

Rates and processor times are of this machine's kernel (tier privileged), in rounds through all networks; what the
caches must never do is tried packet by packet there, in virtual time, and with a model of them (tier simulated).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.emulation.overlay.network import KINDS, Cache, Overlay, OverlayNetwork, missing_for_overlays
from netrepro.emulation.overlay.trials import AFTER, COLUMNS, WARM_UP, run_trials
from netrepro.errors import NetreproError
from netrepro.paths import data_dir
from netrepro.protocols import oncache as model
from netrepro.study import CHECK_COLUMNS, Check, Progress, check_table, of_profile
from netrepro.study.pictures import share_legend
from netrepro.study.setting import check_setting, setting
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

PRIVILEGED, VIRTUAL, SIMULATED = "privileged", "virtual", "simulated"
BARE, AGAIN, OVERLAY, ONCACHE, UNMARKED = "bare", "bare again", "overlay", "ONCache", "no marks"
MAIN = {BARE: "bare", OVERLAY: "overlay", ONCACHE: "ONCache", UNMARKED: "control"}  # network -> scheme
TITLES = {
    "tcp_stream": "TCP, throughput (Gbit/s)",
    "tcp_rr": "TCP, transactions (1000/s)",
    "udp_stream": "UDP, datagrams (1000/s)",
    "udp_rr": "UDP, transactions (1000/s)",
}
UNITS = {"tcp_stream": 8e-9, "tcp_rr": 1e-3, "udp_stream": 1e-3, "udp_rr": 1e-3}
CLASS_COLUMNS = {"tcp_stream": "gbps", "udp_stream": "gbps", "tcp_rr": "rr", "udp_rr": "rr"}
TOGETHER = ", one processor"  # both ends of a flow on it
PORT = 49_152  # of the control whose packets all have one
MANY = 32
LEAST_FAST, MOST_APART = 0.95, 0.2
TRIALS = {"as published": {}, "no reverse check": {"reverse_check": False}, "route checked too": {"route_check": True}}
REFUSALS = {"deletes": True, "does not delete": False}


@dataclass(frozen=True)
class Setting:
    """The values that a person may change: the tunnel, rules in the chain that matches nothing, and how the cache is
    made."""

    tunnel: str = setting("vxlan", "geneve only where the kernel has it", one_of=("vxlan", "geneve"))
    rules: int = setting(0, "in the chain that forwarded packets pass, none of which matches", low=0, high=60_000)
    filter_entries: int = setting(4096, "of the cache of the filter's answers", low=1, high=1_000_000)
    reverse_check: bool = setting(True, "whether the way back must be on the fast path as well")
    constant_port: int = setting(
        0, "UDP source port of all tunnelled packets, 0 for one from the flow's hash", low=0, high=65_535
    )
    prints: bool = setting(False, "whether the programs print where they miss or learn, to the kernel's trace")

    def __post_init__(self) -> None:
        check_setting(self)


@dataclass(frozen=True)
class Scale:
    """Seconds of a cell, flows of the figure, and rules of the knob."""

    seconds: float
    flows: tuple[int, ...]
    rules: tuple[int, ...] = (100, 1000)


def scale_of(profile: str) -> Scale:
    """Return the sizes of a profile. Raises NetreproError for another than quick and paper."""
    return of_profile(
        profile, {"quick": Scale(0.08, (1, 8, MANY)), "paper": Scale(0.5, (1, 2, 4, 8, 16, MANY), (10, 100, 1000))}
    )


@dataclass(frozen=True)
class Cell:
    """One measurement of a round."""

    network: str
    kind: str
    flows: int


def networks(setting: Setting, scale: Scale) -> dict[str, Overlay]:
    """Return every network that is measured, by name; `bare` is not among them, as it is the overlay's own hosts."""
    cache = Cache(
        filter_entries=setting.filter_entries,
        reverse_check=setting.reverse_check,
        constant_port=setting.constant_port,
        prints=setting.prints,
    )
    plain = Overlay(tunnel=setting.tunnel, rules=setting.rules)
    cached = replace(plain, cache=cache)
    found = {
        OVERLAY: plain,
        ONCACHE: cached,
        UNMARKED: replace(cached, marks=False),
        "constant port": replace(cached, cache=replace(cache, constant_port=PORT)),
        "steered": replace(cached, steering=True),
        "steered, constant port": replace(cached, steering=True, cache=replace(cache, constant_port=PORT)),
        "no marks, prints": replace(cached, marks=False, cache=replace(cache, prints=True)),
        "overlay, no segmentation": replace(plain, segmentation=False),
        "ONCache, no segmentation": replace(cached, segmentation=False),
    }
    for rules in scale.rules:
        found[f"overlay, {rules} rules"] = replace(plain, rules=rules)
        found[f"ONCache, {rules} rules"] = replace(cached, rules=rules)
    return found


def cells(scale: Scale) -> list[Cell]:
    """List all cells of a round."""
    main = [Cell(name, kind, 1) for name in MAIN for kind in KINDS]
    more = [
        Cell(name, kind, flows)
        for name in (BARE, OVERLAY, ONCACHE)
        for kind in KINDS
        for flows in scale.flows
        if flows > 1 and (kind.endswith("rr") or len(scale.flows) > 3)
    ]
    odd = [Cell(AGAIN, "tcp_rr", 1), Cell(UNMARKED, "tcp_rr", MANY), Cell("no marks, prints", "tcp_rr", 1)]
    odd += [Cell(name, "udp_rr", MANY) for name in ("constant port", "steered", "steered, constant port")]
    odd += [Cell(f"{name}, no segmentation", "tcp_stream", 1) for name in (OVERLAY, ONCACHE)]
    odd += [Cell(f"{name}, {rules} rules", "tcp_rr", 1) for name in (OVERLAY, ONCACHE) for rules in scale.rules]
    together = [Cell(name + TOGETHER, kind, 1) for name in (BARE, OVERLAY, ONCACHE) for kind in ("tcp_rr", "udp_rr")]
    return [*main, *more, *odd, *together]


@dataclass(frozen=True)
class Runs:
    """All that was measured.

    rates : repetition, network, kind, flows, rate (transactions, bytes or datagrams a second, all flows together),
    processor_us (of one); empty but on tier privileged. trials : tier, and the columns of
    `emulation.overlay_trials.run_trials`. fast : network -> share of its containers' packets that left by the fast
    path. why_not : why there are no rates, or "".
    """

    tier: str
    setting: Setting
    rates: pd.DataFrame
    trials: pd.DataFrame
    fast: Mapping[str, float]
    why_not: str = ""

    def rate(self, network: str, kind: str, flows: int = 1, column: str = "rate") -> pd.Series:
        """Return one number for every repetition."""
        rows = self.rates.query("network == @network and kind == @kind and flows == @flows")
        return rows.set_index("repetition")[column].sort_index()

    def ratio(self, ours: str, other: str, kind: str, flows: int = 1, column: str = "rate") -> pd.Series:
        """Compute the ratio of two networks in the same round."""
        return self.rate(ours, kind, flows, column) / self.rate(other, kind, flows, column)

    def share(self, what: str, case: str, tier: str = "") -> float:
        """Return the share of trials of a case that hold, on the tier asked for unless named."""
        rows = self.trials[self.trials["tier"] == (tier or self.tier)]
        return float(rows.query("what == @what and case == @case")["holds"].mean())

    @property
    def trusted(self) -> bool:
        """True where every check holds."""
        return bool(check(self)["holds"].all())


def why_no_rates(tier: str) -> str:
    """Say why a tier can measure no costs, or ""."""
    if tier != PRIVILEGED:
        return f"costs are of a processor in real time, which tier {tier} has not; root's tier privileged has"
    return missing_for_overlays()


def measure(
    tier: str, repetitions: int, seed: int, *, profile: str = "quick", setting: Setting | None = None,
    progress: Progress = iter,
) -> Runs:  # fmt: skip
    """Measure trials on the tier and with the model beside it; on tier privileged rates and costs, in so many rounds
    through all cells, each in an order of its own drawn from `seed`.

    Raises NetreproError for fewer than two repetitions, an unknown profile or tier.
    """
    if repetitions < 2:
        raise NetreproError(f"{repetitions} repetitions", "give 2 or more: ratios need an interval")
    if tier not in (PRIVILEGED, VIRTUAL, SIMULATED):
        raise NetreproError(f"tier = {tier!r}", "choose privileged, virtual or simulated")
    setting, scale, why = setting or Setting(), scale_of(profile), why_no_rates(tier)
    trials = [model_trials()]
    if tier == VIRTUAL:
        trials.insert(0, kernel_trials(tier))
    rows, fast = [], {}
    if not why:
        random = np.random.default_rng(seed)
        work = [
            (repetition, each)
            for repetition in range(repetitions)
            for each in random.permutation(np.array(cells(scale), dtype=object))
        ]
        with ThreadPoolExecutor(1) as beside, ExitStack() as opened:
            tried = beside.submit(kernel_trials, tier)  # they mostly wait: time to build the networks
            built = opened.enter_context(_built(networks(setting, scale)))
            trials.insert(0, tried.result())
            for name, net in built.items():  # what is done once (connections, neighbours) belongs to no round
                for kind in ("tcp_rr", "udp_rr") if name in MAIN else ("udp_rr",):
                    net.run_traffic(kind, 0.02)
            for repetition, cell in progress(work):
                name = cell.network.removesuffix(TOGETHER)
                bare, together = name in (BARE, AGAIN), cell.network.endswith(TOGETHER)
                net = built[OVERLAY if bare else name]
                found = net.run_traffic(cell.kind, scale.seconds, cell.flows, bare, together)
                rows.append((repetition, cell.network, cell.kind, cell.flows, found.rate, found.processor_us))
            fast = {name: _share_of_fast(net) for name, net in built.items() if net.overlay.cache}
    rates = pd.DataFrame(rows, columns=["repetition", "network", "kind", "flows", "rate", "processor_us"])
    return Runs(tier, setting, rates, pd.concat(trials, ignore_index=True), fast, why)


@contextmanager
def _built(described: Mapping[str, Overlay]) -> Iterator[dict[str, OverlayNetwork]]:
    with ExitStack() as opened, ThreadPoolExecutor(2) as pool:
        nets = {name: OverlayNetwork(each) for name, each in described.items()}
        for net in nets.values():
            opened.callback(net.close)
        list(pool.map(OverlayNetwork.__enter__, nets.values()))
        yield nets


def _share_of_fast(net: OverlayNetwork) -> float:
    counted = [net.counters(number) for number in (1, 2)]
    hits, misses = (sum(each[f"egress_{name}"] for each in counted) for name in ("hit", "miss"))
    return hits / (hits + misses) if hits + misses else 0.0


# Trials.


def kernel_trials(tier: str) -> pd.DataFrame:
    """Run all trials with the real programs; in virtual time with GENEVE as well."""
    evicted = {case: Overlay(cache=Cache(**changes)) for case, changes in TRIALS.items()}
    if tier == VIRTUAL:
        evicted["as published, GENEVE"] = Overlay(tunnel="geneve", cache=Cache())
    return run_trials(tier, evicted, REFUSALS).assign(tier=tier)


def model_trials() -> pd.DataFrame:
    """Run the same trials with the model."""
    rows: list[tuple[Any, ...]] = []
    for case, changes in TRIALS.items():
        for cache in model.CACHES:
            for number in ("1", "2"):
                hosts, request = model.two_hosts(**changes), model.Packet("a", "b", 1, 2)
                fast = _is_fast(hosts, request)
                for host in hosts.values():
                    host.tracked.clear()
                model.evict(hosts[number], cache)
                arrived = _arrived(model.exchange(hosts, request, AFTER))
                again = arrived == 2 * AFTER and _is_fast(hosts, request, 0)
                rows.append(("evict", case, f"{cache} of host {number}", fast, arrived, 2 * AFTER, again))
    for case, delete in REFUSALS.items():
        hosts, request = model.two_hosts(), model.Packet("a", "b", 1, 2)
        fast = _is_fast(hosts, request)
        model.refuse(hosts, "2", lambda packet: packet.destination_port == 2, delete)
        arrived = _arrived(model.exchange(hosts, request, AFTER))
        rows.append(("refuse", case, "port 2", fast, arrived, 2 * AFTER, arrived == 0))
    return pd.DataFrame(rows, columns=COLUMNS).assign(tier=SIMULATED)


def _is_fast(hosts: dict[str, model.Host], request: model.Packet, warm_up: int = WARM_UP) -> bool:
    model.exchange(hosts, request, warm_up)
    return all(passed.fast_out and passed.fast_in for passed in model.exchange(hosts, request, 3))


def _arrived(passed: Sequence[model.Passed]) -> int:
    return sum(each.arrived for each in passed)


def trial_table(runs: Runs) -> pd.DataFrame:
    """Return the share of trials that hold: a row for each case, a column for each tier."""
    table = runs.trials.pivot_table("holds", ["what", "case"], "tier", aggfunc="mean", sort=False)
    return table.astype(float).round(3)


def disagreements(runs: Runs) -> pd.DataFrame:
    """Return trials in which the real programs and the model differ; empty where they agree in each."""
    wide = runs.trials[runs.trials["what"] == "evict"].pivot_table("holds", ["case", "trial"], "tier", aggfunc="first")
    wide = wide.dropna()
    return wide[wide.nunique(axis=1) > 1]


# Trust and claims.


def check(runs: Runs) -> pd.DataFrame:
    """Check what must hold of the run: `of` ("trials" or "costs"), and CHECK_COLUMNS. Claims are trusted by the checks
    of their own kind, those on costs by both."""
    trials = [
        Check("trials that began on the fast path", float(runs.trials["fast_before"].mean()), at_least=1.0),
        Check("trials in which programs and model differ", float(len(disagreements(runs))), at_most=0.0),
    ]
    parts = [check_table(trials).assign(of="trials")]
    if len(runs.rates):
        apart = float(runs.ratio(AGAIN, BARE, "tcp_rr").median())
        costs = [
            Check("packets on the fast path, ONCache", runs.fast[ONCACHE], at_least=LEAST_FAST),
            Check("packets on the fast path, no marks", runs.fast[UNMARKED], at_most=0.0),
            Check("no overlay, twice in a round", apart, at_least=1 / (1 + MOST_APART), at_most=1 + MOST_APART),
        ]
        parts.append(check_table(costs).assign(of="costs"))
    return pd.concat(parts, ignore_index=True)[["of", *CHECK_COLUMNS]]


def trust(runs: Runs, *of: str) -> dict[str, Any]:
    """Return `trusted` and `why`, as a measured claim takes them, by the checks of "trials", "costs" or both."""
    failed = check(runs)
    failed = failed[failed["of"].isin(of) & ~failed["holds"]]
    why = [f"{each.check}: {each.value:.3g}, see section 6" for each in failed.itertuples()]
    return {"trusted": not why, "why": why[0] if why else ""}


def measured_claims(runs: Runs) -> list[Measured]:
    """Return one measurement for each claim of data/oncache/claims.yaml; costs only where they were measured."""
    of_trials, of_costs = trust(runs, "trials"), trust(runs, "trials", "costs")
    tried = (runs.trials["tier"] == runs.tier).any()  # where programs cannot be loaded the model tells nothing of them
    found = [
        Measured(
            claim=claim, values=[runs.share(what, ours)], control=[runs.share(what, broken)], exact=True, **of_trials
        )
        for claim, what, ours, broken in (
            ("refused-stays-refused", "refuse", "deletes", "does not delete"),
            ("learns-again", "evict", "as published", "no reverse check"),
        )
        if tried
    ]
    if not len(runs.rates):
        return found
    values: dict[str, tuple[pd.Series, pd.Series]] = {}
    for claim, kind, flows, column in (
        ("tcp-rr", "tcp_rr", 1, "rate"),
        ("udp-rr", "udp_rr", 1, "rate"),
        ("tcp-throughput", "tcp_stream", 1, "rate"),
        ("udp-throughput", "udp_stream", 1, "rate"),
        ("cpu-per-rr", "tcp_rr", 1, "processor_us"),
        ("tcp-rr-many-flows", "tcp_rr", MANY, "rate"),
    ):
        ours, broken = (runs.ratio(name, OVERLAY, kind, flows, column) for name in (ONCACHE, UNMARKED))
        values[claim] = ours, broken
    values["gap-to-bare"] = gap_won_back(runs, ONCACHE), gap_won_back(runs, UNMARKED)
    costs = [Measured(claim=claim, values=list(a), control=list(b), **of_costs) for claim, (a, b) in values.items()]
    port = runs.ratio("steered", "steered, constant port", "udp_rr", MANY)
    return [*costs, Measured(claim="source-port", values=list(port), **of_costs), *found]


def gap_won_back(runs: Runs, network: str) -> pd.Series:
    """Compute how much a network gives back, in every round, of what the overlay takes from TCP's request-response
    rate."""
    bare, overlay, ours = (runs.rate(name, "tcp_rr") for name in (BARE, OVERLAY, network))
    return (ours - overlay) / (bare - overlay)


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    where = runs.tier if (runs.trials["tier"] == runs.tier).any() else SIMULATED
    back, whose = runs.share("evict", "as published", where), "in the model " if where == SIMULATED else ""
    learns = f"{whose}a flow is learned again after {back:.0%} of the evictions"
    if not len(runs.rates):
        return f"Costs were not measured here ({runs.why_not}); {learns}."
    tcp, udp = (runs.ratio(ONCACHE, OVERLAY, kind).median() for kind in ("tcp_rr", "udp_rr"))
    stream = runs.ratio(ONCACHE, OVERLAY, "tcp_stream").median()
    found = (
        f"The cache makes request and response {tcp:.2f} times as fast as this overlay with TCP (published 1.36) and "
        f"{udp:.2f} times with UDP (1.34), and TCP's throughput {stream:.2f} times (1.12); {learns}."
    )
    return found if runs.trusted else f"Untrusted (see section 6): {found}"


def summary(runs: Runs) -> pd.DataFrame:
    """Return a row for each network, kind and number of flows: rate and processor time (medians), and the ratio to the
    overlay."""
    table = runs.rates.groupby(["kind", "flows", "network"], sort=False)[["rate", "processor_us"]].median()
    if not len(table):
        return table
    of_overlay = table["rate"].xs(OVERLAY, level="network").reindex(table.index.droplevel("network"))
    return table.assign(to_overlay=table["rate"].to_numpy() / of_overlay.to_numpy()).sort_index()


# Figures.


def published() -> pd.DataFrame:
    """Read the class project's tables, by number of flows."""
    return pd.read_csv(data_dir("oncache") / "class_rates.csv", comment="#").set_index("flows")


def draw_idea() -> Figure:
    """Draw where the four programs sit, and the way past the overlay."""
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


def draw_flows(runs: Runs) -> Figure:
    """Draw Fig. 5's rates: a flow's share over the number of flows; the class's in grey, scaled to our overlay at one
    flow.

    Without rates the class's alone, as published.
    """
    figure, axes = new_figure("Rate of a flow (Fig. 5)", "flows", "", columns=4)
    figure.set_size_inches(14, 3.8)
    for axis, kind in zip(axes, TITLES, strict=True):
        in_bits = kind == "udp_stream" and not len(runs.rates)
        axis.set_title("UDP, throughput (Gbit/s)" if in_bits else TITLES[kind], fontsize=10)
        factor = _draw_class(axis, runs, kind)
        for name, look in MAIN.items() if len(runs.rates) else ():
            if name != UNMARKED:
                rows = runs.rates.query("network == @name and kind == @kind")
                each = (rows["rate"] / rows["flows"] * UNITS[kind]).groupby(rows["flows"])
                style = scheme(look)
                low, high = each.quantile(0.25), each.quantile(0.75)
                axis.plot(each.median().index, each.median(), style.marker + "-", color=style.colour, label=style.label)
                axis.fill_between(low.index, low, high, color=style.colour, alpha=0.15, linewidth=0)
        if factor != 1:
            axis.set_xlabel(f"flows (class x {factor:.2g})")
        axis.set_xscale("log", base=2)
        axis.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
        axis.set_ylim(bottom=0)
    share_legend(figure)
    return figure


def _draw_class(axis: Axes, runs: Runs, kind: str) -> float:
    table, protocol = published(), kind[:3]
    columns = {name: f"{protocol}_{name}_{CLASS_COLUMNS[kind]}" for name in ("bare", "overlay", "oncache")}
    factor = 1e-3 if kind.endswith("rr") else 1.0
    scale = 1.0
    if len(runs.rates):
        ours = runs.rate(OVERLAY, kind).median() * UNITS[kind]
        scale = ours / (factor * table[columns["overlay"]].iloc[0])
    for (name, column), marker in zip(columns.items(), "osv", strict=True):
        label = {"bare": "no overlay", "overlay": "Antrea", "oncache": "its ONCache"}[name]
        values = scale * factor * table[column]
        axis.plot(table.index, values, f"{marker}:", color=PUBLISHED_GREY, lw=1, label=f"class: {label}", zorder=1)
    return float(scale)


def draw_ratios(runs: Runs) -> Figure:
    """Draw every ratio of a claim with its rounds, the published value (or the class's) and what is accepted."""
    from netrepro.claims import load_claims

    figure, axis = new_figure("Ratios to the overlay, round by round", "ratio", "")
    figure.set_size_inches(9, 4.4)
    found = {each.claim: each for each in measured_claims(runs)}
    shown = [each for each in load_claims("oncache").claims if each.kind == "effect"]
    for y, claim in enumerate(reversed(shown)):
        low, high = claim.accepted_band()
        axis.barh(y, high - low, left=low, height=0.7, color=PUBLISHED_GREY, alpha=0.2, label="accepted" * (y == 0))
        axis.plot([claim.expected], [y], "D", color=PUBLISHED_GREY, label="published" * (y == 0))
        if claim.id in found:
            ours, broken = found[claim.id].values, found[claim.id].control or []
            for values, look, label, up in ((ours, "ONCache", "ours", 0.12), (broken, "control", "control", -0.12)):
                style = scheme(look)
                at = np.full(len(values), y + up)
                axis.plot(values, at, style.marker, color=style.colour, alpha=0.5, ms=4, label=label * (y == 0))
                axis.plot([np.median(values)], [y + up], "|", color=style.colour, ms=16, mew=2)
    axis.set_yticks(range(len(shown)), [claim.id for claim in reversed(shown)])
    axis.axvline(1, color="black", linewidth=0.6)
    handles, labels = axis.get_legend_handles_labels()
    kept = [(handle, label) for handle, label in zip(handles, labels, strict=True) if label]
    axis.legend(*zip(*kept, strict=True), loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def draw_processor(runs: Runs) -> Figure:
    """Draw the processor time of a transaction, by network and number of flows."""
    figure, axes = new_figure(
        "Processor time, client and server together", "flows", "processor time a transaction (µs)", columns=2
    )
    for axis, kind in zip(axes, ("tcp_rr", "udp_rr"), strict=True):
        axis.set_title(TITLES[kind].split(",")[0], fontsize=10)
        for name, look in MAIN.items():
            rows = runs.rates.query("network == @name and kind == @kind")
            if len(rows) and name != UNMARKED:
                found, style = rows.groupby("flows")["processor_us"].median(), scheme(look)
                axis.plot(found.index, found, style.marker + "-", color=style.colour, label=style.label)
        axis.set_xscale("log", base=2)
        axis.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
        axis.set_ylim(bottom=0)
    if len(runs.rates):
        axes[0].legend()
    return figure


def draw_trials(runs: Runs) -> Figure:
    """Draw from which evictions a flow comes back, with the programs and with the model."""
    rows = runs.trials[runs.trials["what"] == "evict"]
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


def draw_rules(runs: Runs) -> Figure:
    """Draw TCP's request-response rate over the length of the chain of rules."""
    figure, axis = new_figure("What the cache saves grows with the rules", "rules in the chain", "1000 transactions/s")
    counts = sorted({int(name.split(", ")[1].split()[0]) for name in runs.rates["network"] if name.endswith(" rules")})
    for name in (OVERLAY, ONCACHE) if counts else ():
        rates = [runs.rate(name, "tcp_rr"), *(runs.rate(f"{name}, {count} rules", "tcp_rr") for count in counts)]
        style, middle = scheme(MAIN[name]), [1e-3 * each.median() for each in rates]
        away = [[m - 1e-3 * each.min(), 1e-3 * each.max() - m] for m, each in zip(middle, rates, strict=True)]
        axis.errorbar(
            [runs.setting.rules, *counts], middle, np.array(away).T, fmt=style.marker + "-", color=style.colour,
            label=style.label, capsize=3,
        )  # fmt: skip
    if counts:
        axis.set_xscale("symlog", linthresh=10)
        axis.legend()
    axis.set_ylim(bottom=0)
    return figure


def draw_processors(runs: Runs) -> Figure:
    """Draw request and response with a processor for each host, and with one for both: what waking the other one
    hides."""
    figure, axes = new_figure("One processor or two?", "", "a transaction of one flow (µs)", columns=2)
    for axis, kind in zip(axes, ("tcp_rr", "udp_rr"), strict=True):
        axis.set_title(TITLES[kind].split(",")[0], fontsize=10)
        for shift, (name, look) in enumerate(list(MAIN.items())[:3] if len(runs.rates) else []):
            times = [1e6 / runs.rate(name + where, kind).median() for where in ("", TOGETHER)]
            at = np.arange(2) + 0.27 * (shift - 1)
            drawn = axis.bar(at, times, 0.25, color=scheme(look).colour, label=scheme(look).label)
            axis.bar_label(drawn, [f"{each:.0f}" for each in times], fontsize=8)
        axis.set_xticks([0, 1], ["one a host", "one for both"])
        axis.grid(axis="x", visible=False)
        axis.margins(y=0.15)
    if len(runs.rates):
        axes[0].legend()
    return figure


# Knobs of the model.


def vary_cache(
    flows: Sequence[int] = (32, 64, 96, 120, 128, 136, 160, 256), entries: int = 128, rounds: int = 20, seed: int = 1
) -> pd.DataFrame:
    """Measure the share of packets on the fast path over the number of flows that share a filter cache; in the model.

    order : "in turn" (each flow once a round, the worst case of forgetting what was used the longest ago) or "drawn".
    Returns flows, entries, order, fast_share.
    """
    rows = []
    for order in ("in turn", "drawn"):
        for count in flows:
            random = np.random.default_rng([seed, count])
            hosts = model.two_hosts(entries={"filter": entries})
            found: list[model.Passed] = []
            for turn in range(rounds):
                chosen = np.arange(count) if order == "in turn" else random.integers(count, size=count)
                for flow in chosen:
                    passed = model.exchange(hosts, model.Packet("a", "b", int(flow), 1))
                    found += passed if turn >= 5 else []  # after they were learned
            rows.append((count, entries, order, float(np.mean([each.fast_out for each in found]))))
    return pd.DataFrame(rows, columns=["flows", "entries", "order", "fast_share"])


def draw_cache(table: pd.DataFrame) -> Figure:
    """Draw `vary_cache` as a picture."""
    figure, axis = new_figure(
        "Too many flows for the filter cache (model)", "flows / entries", "share on the fast path"
    )
    for (order, rows), marker in zip(table.groupby("order", sort=False), "os", strict=False):
        axis.plot(rows["flows"] / rows["entries"], rows["fast_share"], f"{marker}-", label=f"flows {order}")
    axis.axvline(1, color="black", linewidth=0.6)
    axis.set_ylim(-0.03, 1.05)
    axis.legend()
    return figure


def explore() -> object:
    """Evict a cache of the model and see the packets that follow."""
    import ipywidgets as widgets
    from IPython.display import display

    def redraw(cache: str, host: str, reverse_check: bool, route_check: bool, forgotten: bool) -> None:
        hosts = model.two_hosts(reverse_check=reverse_check, route_check=route_check)
        request = model.Packet("a", "b", 1, 2)
        before = model.exchange(hosts, request, 4)
        for each in hosts.values() if forgotten else ():
            each.tracked.clear()
        model.evict(hosts[host], cache)
        display(draw_packets(before, model.exchange(hosts, request, 6)))

    controls = {
        "cache": widgets.Dropdown(options=list(model.CACHES), value="containers", description="evict"),
        "host": widgets.Dropdown(options=["1", "2"], value="2", description="of host"),
        "reverse_check": widgets.Checkbox(True, description="reverse check"),
        "route_check": widgets.Checkbox(False, description="of the route too"),
        "forgotten": widgets.Checkbox(True, description="connections forgotten"),
    }
    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])


def draw_packets(before: Sequence[model.Passed], after: Sequence[model.Passed]) -> Figure:
    """Draw which packets of a conversation took the fast path, out of the sender's host and into the receiver's."""
    figure, axis = new_figure("Packets before and after", "packet (odd: a to b, even: b to a)", "")
    figure.set_size_inches(9, 2.2)
    looks: list[tuple[str, Callable[[model.Passed], bool]]] = [
        ("leaving", lambda each: each.fast_out),
        ("arriving", lambda each: each.fast_in),
    ]
    for y, (_, is_fast) in enumerate(looks):
        for x, each in enumerate([*before, *after], 1):
            colour = scheme("ONCache").colour if is_fast(each) else scheme("overlay").colour
            axis.plot([x], [y], "s" if each.arrived else "x", color=colour, ms=9)
    axis.axvline(len(before) + 0.5, color="black", linewidth=0.8)
    axis.set_yticks([0, 1], [name for name, _ in looks])
    axis.set(ylim=(-0.6, 1.6), title="fast path (orange) or overlay (blue); the line is the eviction")
    return figure
