"""What emulation costs a packet: M. Carbone and L. Rizzo, "Dummynet Revisited", ACM SIGCOMM CCR 40(2), 2010.

One flow of smallest UDP datagrams; packets are dropped before the classifier (A), by the first rule (B), after 100
rules (B100), or behind a pipe without delay (C0), with 20 ms (Cd), with a bandwidth limit (Cr). Our engine runs on a
virtual clock, so that 20 ms cost no time and the timer that lets packets out of a pipe can be charged as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.dummynet import Dummynet, synthetic_headers, time_packets
from netrepro.errors import NetreproError
from netrepro.papers.dummynet.kernel_costs import time_kernel
from netrepro.paths import data_dir
from netrepro.study import Progress, of_profile
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

MAIN = ("A", "B", "B100", "C0", "Cd", "Cr")
PORT = 5000  # of the generator's packets
BEHIND_MANY = "Cd behind 10000 rules"  # only has to break a bound: few packets, and not checked
BANDWIDTH_MBPS = 600.0
MOST_SPREAD = 0.2
BATCH_PACKETS = 1000  # at a packet every microsecond a batch lasts one tick of Dummynet's timer, 1 ms
SINGLE_PACKETS = 20_000  # of a case and repetition that are timed one by one
VISITS = 5  # to a case in a repetition: what disturbs the machine for a moment then spoils a part of its batches
COLOURS = {"arrivals_ns": scheme("tcp").colour, "timer_ns": scheme("repflow").colour}


@dataclass(frozen=True)
class Case:
    """Rules for the engine; with `drop_at_entry` no packet reaches them."""

    rules: str
    drop_at_entry: bool = False


def deny_at(place: int, rules: int) -> str:
    """Write so many rules, of which the one at `place` drops the flow. The others want other ports."""
    numbers = range(1, rules + 1)
    return "\n".join(f"add {n} deny udp from any to any {PORT if n == place else 6000 + n}" for n in numbers)


def pipe(words: str, rules_before: int = 0) -> str:
    """Write the rules that send all packets into one pipe, behind so many rules that want other ports."""
    before = deny_at(0, rules_before)
    return f"{before}\npipe 1 config {words}\nadd {rules_before + 1} pipe 1 udp from any to any\n"


def cases(delay_ms: float = 20.0, rules: int = 100, bandwidth_mbps: float = BANDWIDTH_MBPS) -> dict[str, Case]:
    """Return the paper's six cases, and behind them what the controls need. `rules` is even.

    Raises NetreproError for fewer than 4 rules, or more than a port of its own can be given.
    """
    if not 4 <= rules <= 20_000 or rules % 2:
        raise NetreproError(f"rules = {rules}", "give an even number from 4 to 20000")
    limited = f"bw {bandwidth_mbps:g}Mbit/s" if bandwidth_mbps else ""
    return {
        "A": Case("", drop_at_entry=True),
        "B": Case(deny_at(1, 1)),
        "B100": Case(deny_at(rules, rules)),
        "C0": Case(pipe("")),
        "Cd": Case(pipe(f"delay {delay_ms:g}ms")),
        "Cr": Case(pipe(limited)),
        "A again": Case("", drop_at_entry=True),
        "B50": Case(deny_at(rules // 2, rules // 2)),
        "match before the others": Case(deny_at(1, rules)),
        "match half-way": Case(deny_at(rules // 2, rules)),
        BEHIND_MANY: Case(pipe(f"delay {delay_ms:g}ms", 10_000)),
    }


def packets_a_case(profile: str) -> int:
    """Return the packets of each case and repetition. Raises NetreproError for another profile than quick and paper."""
    packets = {"quick": 1_000_000, "paper": 10_000_000}
    return of_profile(profile, packets)


@dataclass(frozen=True)
class Runs:
    """Costs of packets, in nanoseconds.

    batches : case, repetition, batch, arrivals_ns, timer_ns, whole_ns: of our engine, wall time a packet.
    kernel : case, repetition, batch, wall_ns, processor_ns: of Linux; empty on tier simulated.
    single : the same of the paper's cases, every packet timed by itself: case, repetition, batch, whole_ns.
    out_of_order : packets that left in another order than that in which they came.
    rules, delay_ms : of the cases B100 and Cd.
    """

    batches: pd.DataFrame
    single: pd.DataFrame
    kernel: pd.DataFrame
    out_of_order: int
    rules: int
    delay_ms: float

    def medians(self, column: str = "whole_ns") -> pd.DataFrame:
        """Compute the medians over the batches: a row for each repetition and a column for each case."""
        return self.batches.pivot_table(column, "repetition", "case", aggfunc="median")

    def kernel_medians(self) -> pd.DataFrame:
        """Compute the same as `medians`, for the processor time in Linux."""
        return self.kernel.pivot_table("processor_ns", "repetition", "case", aggfunc="median")

    @property
    def checked(self) -> dict[str, pd.Series]:
        """Costs by case, repetition and batch of what is checked by itself: our engine, and Linux."""
        found = {
            "engine": (self.batches[self.batches.case != BEHIND_MANY], "whole_ns"),
            "Linux": (self.kernel, "processor_ns"),
        }
        order = ["case", "repetition", "batch"]
        return {name: rows.set_index(order)[column] for name, (rows, column) in found.items() if len(rows)}


def measure(
    packets: int,
    repetitions: int,
    seed: int,
    *,
    tier: str = "simulated",
    tested: dict[str, Case] | None = None,
    rules: int = 100,
    delay_ms: float = 20.0,
    progress: Progress = iter,
) -> Runs:
    """Time so many packets of every case in each repetition, in several visits whose order is drawn from `seed`; Linux
    too where `tier` has namespaces.

    `rules` and `delay_ms` are those of `tested`; Linux's rules are always 100, and its delay is not measured. The case
    of 10000 rules gets a hundredth of the packets, in one visit. Of the paper's cases 20,000 packets a repetition are
    timed one by one as well. Linux gets `packets` a case in all repetitions together.
    """
    tested = tested or cases(rules=rules)
    random = np.random.default_rng(seed)
    rounds = [list(tested), *([name for name in tested if name != BEHIND_MANY] for _ in range(VISITS - 1))]
    work = [
        (repetition, str(name))
        for repetition in range(repetitions)
        for names in rounds
        for name in random.permutation(names)
    ]
    batches, single, out_of_order = [], [], 0
    for repetition, name in progress(work):
        case = tested[name]
        count = max(packets // (100 if name == BEHIND_MANY else VISITS), BATCH_PACKETS)
        engine = Dummynet(case.rules, tick_ms=1.0, seed=seed)
        timing = time_packets(engine, count, drop_at_entry=case.drop_at_entry, batch_packets=BATCH_PACKETS)
        batches.append(timing.batches.assign(case=name, repetition=repetition))
        out_of_order += timing.out_of_order
    for repetition, name in progress([(repetition, name) for repetition in range(repetitions) for name in MAIN]):
        case = tested[name]
        engine = Dummynet(case.rules, tick_ms=1.0, seed=seed)
        timing = time_packets(engine, SINGLE_PACKETS, drop_at_entry=case.drop_at_entry, batch_packets=1)
        single.append(timing.batches[["batch", "whole_ns"]].assign(case=name, repetition=repetition))
    kernel = [pd.DataFrame(columns=["case", "repetition", "batch", "wall_ns", "processor_ns"])]
    kernel_batches = -(-packets // (repetitions * BATCH_PACKETS))
    if tier != "simulated":
        kernel += [time_kernel(tier, kernel_batches, BATCH_PACKETS, repetitions=repetitions)]
    ours, alone, linux = (pd.concat(parts, ignore_index=True) for parts in (batches, single, kernel[1:] or kernel))
    return Runs(ours, alone, linux, out_of_order, rules, delay_ms)


def published() -> pd.DataFrame:
    """Read the paper's table with the class report's, by case: means and standard deviations (ns)."""
    return pd.read_csv(data_dir("dummynet") / "table.csv", comment="#").set_index("case")


def summary(runs: Runs) -> pd.DataFrame:
    """Return a row for each case, beside the published ones (ns a packet).

    ours_ns: median over repetitions of the median over batches; spread, drift and deviation (of batches, median over
    repetitions): as the functions of those names; arrivals_ns and timer_ns: what ours consists of; linux_ns: processor
    time (NaN where not measured).
    """
    table = published()
    for column, name in (("whole_ns", "ours_ns"), ("arrivals_ns", "arrivals_ns"), ("timer_ns", "timer_ns")):
        table[name] = runs.medians(column).median()
    table["spread"], table["drift"] = spread(runs.checked["engine"]), drift(runs.checked["engine"])
    table["deviation"] = deviation(runs.batches).median()
    table["linux_ns"] = runs.kernel_medians().median() if len(runs.kernel) else np.nan
    table["ours_to_class_report"] = table.ours_ns / table.class_report_ns
    return table


def spread(costs: pd.Series) -> pd.Series:
    """Compute the median absolute deviation over the median of a case's batches, for the worst repetition."""
    share = costs.groupby(["case", "repetition"]).agg(
        lambda cost: (cost - cost.median()).abs().median() / cost.median()
    )
    return share.groupby("case").max()


def deviation(costs: pd.DataFrame) -> pd.DataFrame:
    """Compute the standard deviation over the mean of whole_ns: a row for each repetition and a column for each
    case."""
    grouped = costs.groupby(["repetition", "case"]).whole_ns
    return (grouped.std() / grouped.mean()).unstack("case")


def drift(costs: pd.Series) -> pd.Series:
    """Compute the largest distance of a repetition's median from the median of all repetitions, as a share of it, over
    all cases."""
    medians = costs.groupby(["case", "repetition"]).median().unstack("case")
    return ((medians - medians.median()).abs() / medians.median()).max()


def check(runs: Runs) -> pd.DataFrame:
    """Check the spread and drift of the worst case, and that all packets left in order: of, check, value, bound,
    holds."""
    rows: list[tuple[str, str, float, float]] = []
    for name, costs in runs.checked.items():
        for what, found in (("batches of a repetition", spread(costs)), ("repetitions", drift(costs))):
            rows.append((name, f"spread of {what}, worst in {found.idxmax()}", found.max(), MOST_SPREAD))
    rows.append(("engine", "packets out of order", runs.out_of_order, 0))
    table = pd.DataFrame(rows, columns=["of", "check", "value", "bound"])
    return table.assign(holds=table.value <= table.bound)


def trust(runs: Runs, of: str) -> dict[str, Any]:
    """Return `trusted` and `why`, as a measured claim takes them, by the checks of "engine" or "Linux"."""
    failed = check(runs).query("of == @of and not holds")
    why = [f"{each.check}: {each.value:.3g} (bound {each.bound:g}), see section 6" for each in failed.itertuples()]
    return {"trusted": not why, "why": why[0] if why else ""}


# Claims.


def measured_claims(runs: Runs) -> list[Measured]:
    """Return one measurement for each claim of data/dummynet/claims.yaml; Linux's only where Linux was measured."""
    engine = trust(runs, "engine")
    whole, arrivals = runs.medians(), runs.medians("arrivals_ns")
    half = runs.rules // 2
    steps = (half - 1) / half  # rules between B and B50 against those between B50 and B100
    values = {
        "order-of-costs": (_order(whole), _order(arrivals)),
        "delay-costs": (whole.Cd / whole.C0, arrivals.Cd / arrivals.C0),
        "rate-costs": (whole.Cr / whole.C0, arrivals.Cr / arrivals.C0),
        "hundred-rules": (whole.B100 / whole.B, whole["match before the others"] / whole.B),
        "cost-per-rule-is-constant": (
            (whole.B100 - whole.B50) / (whole.B50 - whole.B) * steps,
            (whole["match half-way"] - whole.B50) / (whole.B50 - whole.B) * steps,
        ),
        "classifier-over-entry": (whole.B / whole.A, None),
        "delay-over-entry": (whole.Cd / whole.A, None),
        "pipe-over-entry": (whole.C0 / whole.A, None),
        "rate-over-entry": (whole.Cr / whole.A, None),
        "hundred-rules-over-entry": (whole.B100 / whole.A, None),
        "delayed-packet": (whole.Cd, None),
        "steady-costs": tuple(deviation(costs)[list(MAIN)].max(axis=1) for costs in (runs.batches, runs.single)),
    }
    found = [Measured(claim=claim, values=ours, control=broken, **engine) for claim, (ours, broken) in values.items()]
    if len(runs.kernel):
        linux = runs.kernel_medians()
        ours = list((linux.B100 - linux.B) / 99 / linux.A)
        found.append(Measured(claim="linux-cost-per-rule", values=ours, **trust(runs, "Linux")))
    return found


def _order(costs: pd.DataFrame) -> list[list[str]]:
    return [list(row.sort_values().index) for _, row in costs[list(MAIN)].iterrows()]


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table, why = summary(runs), trust(runs, "engine")["why"]
    ours, arrivals = table.ours_ns, table.arrivals_ns
    found = (
        f"In our engine an emulated packet costs {ours.C0:.0f} ns, {ours.Cd:.0f} ns with a delay of {runs.delay_ms:g} "
        f"ms, and {ours.B100:.0f} ns behind {runs.rules} rules; with the timer's work left out, the delayed packet "
        f"seems to cost {arrivals.Cd:.0f} ns, {'less' if arrivals.Cd < arrivals.C0 else 'more'} than one that is not "
        "delayed."
    )
    return f"Untrusted ({why}): {found}" if why else found


# Knobs.

ROUNDS = 3  # through all points, so that a disturbance does not fall on one of them


def vary_rules(
    packets: int, seed: int, *, counts: Sequence[int] = (1, 2, 5, 10, 20, 50, 100, 200), progress: Progress = iter
) -> pd.DataFrame:
    """Measure the cost over the number of rules, by what tells the others apart: the port (looked at late) or the
    address.

    Returns rules, differs_in, whole_ns: the median over three rounds of so many packets each.
    """
    rows = []
    for _, count, field in progress(list(product(range(ROUNDS), counts, ("port", "address")))):
        rules = deny_at(count, count)
        if field == "address":
            others = (f"add {n} deny udp from any to 10.1.0.{n % 256}" for n in range(1, count))
            rules = "\n".join([*others, f"add {count} deny udp from any to any {PORT}"])
        rows.append((count, field, _median_cost(Dummynet(rules, seed=seed), packets)))
    table = pd.DataFrame(rows, columns=["rules", "differs_in", "whole_ns"])
    return table.groupby(["differs_in", "rules"], as_index=False, sort=False).median()


def vary_delay(
    packets: int,
    seed: int,
    *,
    delays_ms: Sequence[float] = (0, 1, 5, 20, 50, 200),
    ticks_ms: Sequence[float] = (1.0, 0.1, 0.0),
    progress: Progress = iter,
) -> pd.DataFrame:
    """Measure the cost over the delay, and so over the packets in flight (1000 a millisecond), for several timers.

    tick 0 is a timer event for each packet. Returns delay_ms, tick_ms, whole_ns as `vary_rules`.
    """
    rows = []
    for _, tick, delay in progress(list(product(range(ROUNDS), ticks_ms, delays_ms))):
        engine = Dummynet(pipe(f"delay {delay:g}ms"), tick_ms=tick, seed=seed)
        until_full = int(1000 * (delay + 10))
        rows.append((delay, tick, _median_cost(engine, packets, until_full)))
    table = pd.DataFrame(rows, columns=["delay_ms", "tick_ms", "whole_ns"])
    return table.groupby(["tick_ms", "delay_ms"], as_index=False, sort=False).median()


def _median_cost(engine: Dummynet, packets: int, warm_up_packets: int = 10_000) -> float:
    return float(time_packets(engine, packets, warm_up_packets=warm_up_packets).batches.whole_ns.median())


# Figures.


def draw_idea() -> Figure:
    """Draw where a packet can end: the stages of the chain and the cases named after them."""
    figure, axis = new_figure("A packet's way, and where each case ends", "", "")
    figure.set_size_inches(9, 3)
    axis.axis("off")
    stages = [("generator", ""), ("entry", "A"), ("classifier\nrule 1 ... 100", "B, B100"), ("pipe: queue,\nrate", "")]
    stages += [("delay line", ""), ("exit", "C0, Cd, Cr")]
    for place, (name, ends) in enumerate(stages):
        box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": scheme("tcp").colour}
        axis.text(2 * place, 0, name, ha="center", va="center", bbox=box)
        if place:
            axis.annotate("", (2 * place - 0.75, 0), (2 * place - 1.25, 0), arrowprops={"arrowstyle": "->"})
        if ends:
            axis.annotate(
                ends, (2 * place, -0.35), (2 * place, -1.1), ha="center", va="top", arrowprops={"arrowstyle": "<-"}
            )
    axis.text(8, 0.7, "a timer lets packets out", ha="center", color=COLOURS["timer_ns"])
    axis.set(xlim=(-1, 11), ylim=(-1.6, 1.1))
    return figure


def draw_costs(runs: Runs) -> Figure:
    """Draw the table as bars: paper, class report, ours (arrivals and timer), Linux."""
    table = summary(runs)
    figure, axis = new_figure("Cost of a packet, one flow", "case", "cost (ns a packet)", log_y=True)
    figure.set_size_inches(9, 4.2)
    place = np.arange(len(table))
    bars = [("published", PUBLISHED_GREY, "published_ns"), ("class report", "#bdbdbd", "class_report_ns")]
    bars += [("ours, all work", COLOURS["arrivals_ns"], "ours_ns")]
    if table.linux_ns.notna().any():
        bars.append(("Linux, processor time", scheme("repsyn").colour, "linux_ns"))
    width = 0.8 / len(bars)
    for number, (label, colour, column) in enumerate(bars):
        at = place + (number - (len(bars) - 1) / 2) * width
        drawn = axis.bar(at, table[column], width, label=label, color=colour)
        texts = ["" if np.isnan(cost) else f"{cost:.0f}" for cost in table[column]]
        axis.bar_label(drawn, texts, fontsize=7)
    axis.set_xticks(place, list(table.index))
    axis.margins(y=0.15)
    axis.legend(ncols=2, loc="upper left", bbox_to_anchor=(0, -0.15))
    axis.grid(axis="x", visible=False)
    return figure


def draw_ratios(runs: Runs) -> Figure:
    """Draw each case as a multiple of B, where hardware cancels best."""
    table = summary(runs).loc[["B", "C0", "Cr", "Cd", "B100"]]
    figure, axis = new_figure("The same as multiples of B", "case", "cost / cost of B")
    looks = [("published", "published_ns", "D", PUBLISHED_GREY), ("class report", "class_report_ns", "s", "#bdbdbd")]
    looks += [("ours, all work", "ours_ns", "o", COLOURS["arrivals_ns"])]
    if table.linux_ns.notna().any():
        looks.append(("Linux", "linux_ns", "^", scheme("repsyn").colour))
    for label, column, marker, colour in looks:
        axis.plot(
            table.index,
            table[column] / table[column]["B"],
            marker=marker,
            linestyle="none",
            color=colour,
            label=label,
            ms=8,
        )
    axis.axhline(1, color="black", linewidth=0.6)
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_batches(runs: Runs) -> Figure:
    """Draw every batch's cost, which shows how steady the measurement is."""
    figure, axis = new_figure("Is it steady?", "cost of a batch / median of its case", "share of batches")
    usual = runs.medians().median()
    for name, rows in runs.batches[runs.batches.case.isin(MAIN)].groupby("case"):
        ratio = np.sort(rows.whole_ns / usual[name])
        axis.plot(ratio, np.arange(1, len(ratio) + 1) / len(ratio), label=name, linewidth=1.4)
    axis.axvspan(1 - MOST_SPREAD, 1 + MOST_SPREAD, color=PUBLISHED_GREY, alpha=0.15, label="within 20 %")
    axis.set_xlim(0.7, 1.6)
    axis.legend()
    return figure


def draw_anomaly(runs: Runs) -> Figure:
    """Draw pipes with the timer's work and without it, beside the class report's. They show how far that work lowers
    Cd."""
    figure, axes = new_figure("Who pays for the exit from the pipe?", "case", "cost (ns a packet)", columns=2)
    table = summary(runs).loc[["C0", "Cd", "Cr"]]
    axes[0].bar(table.index, table.arrivals_ns, color=COLOURS["arrivals_ns"], label="during arrivals")
    drawn = axes[0].bar(
        table.index, table.timer_ns, bottom=table.arrivals_ns, color=COLOURS["timer_ns"], label="in the timer"
    )
    labels = [
        f"{arrivals:.1f} + {timer:.1f}" for arrivals, timer in zip(table.arrivals_ns, table.timer_ns, strict=True)
    ]
    axes[0].bar_label(drawn, labels, fontsize=8)
    axes[0].set_title(f"ours: Cd / C0 = {_delay_costs(table.arrivals_ns)} during arrivals", fontsize=10)
    axes[0].margins(y=0.3)
    axes[0].legend(loc="upper right", ncols=2)
    axes[1].bar(table.index, table.class_report_ns, color="#bdbdbd", label="class report")
    axes[1].set_title(f"class report: Cd / C0 = {_delay_costs(table.class_report_ns)}", fontsize=10)
    for axis in axes:
        axis.grid(axis="x", visible=False)
    return figure


def _delay_costs(costs: pd.Series) -> str:
    return f"{costs.Cd / costs.C0:.2f}"


def draw_rules(table: pd.DataFrame) -> Figure:
    """Draw the cost over the number of rules."""
    figure, axis = new_figure("Rules are looked at one after the other", "rules", "cost (ns a packet)")
    for colour, (field, rows) in zip(COLOURS.values(), table.groupby("differs_in"), strict=True):
        slope = np.polyfit(rows.rules, rows.whole_ns, 1)[0]
        axis.plot(
            rows.rules, rows.whole_ns, "o-", color=colour, label=f"other rules differ in {field}: {slope:.2f} ns a rule"
        )
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def draw_delay(table: pd.DataFrame) -> Figure:
    """Draw the cost over the delay, a curve for each timer."""
    figure, axis = new_figure(
        "What does delay cost?", "delay (ms), 1000 packets in flight a millisecond", "cost (ns a packet)"
    )
    for marker, (tick, rows) in zip("os^", table.groupby("tick_ms", sort=False), strict=False):
        label = f"timer every {tick:g} ms" if tick else "a timer event a packet"
        axis.plot(rows.delay_ms, rows.whole_ns, f"{marker}-", label=label)
    axis.set_xscale("symlog", linthresh=1)
    axis.set_xticks(sorted(set(table.delay_ms)), [f"{delay:g}" for delay in sorted(set(table.delay_ms))])
    axis.minorticks_off()
    axis.set_ylim(0, 1.25 * table.whole_ns.max())
    axis.legend()
    return figure


def explore() -> object:
    """Show a box for rules and pipes: what becomes of 2000 packets, and when they leave."""
    import ipywidgets as widgets
    from IPython.display import HTML, display

    text = "pipe 1 config bw 1Mbit/s delay 20ms plr 0.02 queue 30\nadd 100 pipe 1 udp from 10.0.0.0/8 to any 5000-6000"
    rules = widgets.Textarea(text, layout={"width": "40em", "height": "6em"}, description="rules")
    spacing = widgets.FloatSlider(0.35, min=0.05, max=1, step=0.05, description="spacing (ms)")

    def redraw(rules: str, spacing: float) -> None:
        try:
            found = Dummynet(rules).run(synthetic_headers(2000, spacing * 1e3)).packets
        except NetreproError as error:
            display(HTML(f"<pre>{escape(str(error))}</pre>"))
            return
        ends = ", ".join(f"{packets} {verdict}" for verdict, packets in found.verdict.value_counts().items() if packets)
        figure, axis = new_figure(ends, "arrival (s)", "time in the pipe (ms)")
        axis.plot(found.time_s, (found.departure_s - found.time_s) * 1e3, ".", markersize=3)
        display(figure)

    shown = widgets.interactive_output(redraw, {"rules": rules, "spacing": spacing})
    return widgets.VBox([rules, spacing, shown])
