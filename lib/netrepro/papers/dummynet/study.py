"""What emulation costs a packet: M. Carbone and L. Rizzo, "Dummynet Revisited", ACM SIGCOMM CCR 40(2), 2010.

One flow of smallest UDP datagrams. Packets are dropped before the classifier (A), by the first rule (B), after 100
rules (B100), or pass a pipe without delay (C0), with 20 ms (Cd), or with a bandwidth limit (Cr). Our engine runs on a
virtual clock: a delay of 20 ms takes no time, and the work of the timer that empties a pipe can be charged as well. On
every tier costs are times of this machine's processor; tiers with namespaces time Linux as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.dummynet import Dummynet, Timing, synthetic_headers, time_packets
from netrepro.errors import NetreproError
from netrepro.papers.dummynet.kernel_costs import CASES, time_kernel
from netrepro.paths import data_dir
from netrepro.study import (
    TEXT,
    Check,
    Evidence,
    OneRun,
    Play,
    Progress,
    Reading,
    Runs,
    Scale,
    Study,
    seed_and_repetition,
)
from netrepro.study.evidence import least_first, ratio
from netrepro.study.figures import Bars, Sweep, plot
from netrepro.study.measuring import in_real_time
from netrepro.study.setting import parameter
from netrepro.study.trust import trust_of
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure, scheme

MAIN = ("A", "B", "B100", "C0", "Cd", "Cr")
PORT = 5000  # destination port of the generator's packets
BEHIND_MANY = "Cd behind 10000 rules"  # only has to exceed a bound: few packets, not checked
BEFORE_OTHERS, HALF_WAY = "match before the others", "match half-way"
LINUX = "Linux {}"
PLAY = "rules of your own"
EXAMPLE = "pipe 1 config bw 1Mbit/s delay 20ms plr 0.02 queue 30\nadd 100 pipe 1 udp from 10.0.0.0/8 to any 5000-6000"
MOST_SPREAD = 0.2
BATCH_PACKETS = 1000  # at one packet a microsecond a batch lasts one tick of Dummynet's timer, 1 ms
VISITS = 5  # to a case in a repetition, so that a short disturbance affects only some of its batches


@dataclass(frozen=True)
class Setting:
    """The parameters that a reader may change, and the values that cases set.

    stage : where packets end, a name of `stages`. is_linux : measure Linux, where `stage` is one of
    `kernel_costs.CASES`, rules are always 100, and no delay is measured. packets : for a case and repetition; in Linux
    for all repetitions of a case. single_packets : for the paper's cases, packets also timed one by one. own_rules,
    spacing_us : only for PLAY.
    """

    delay_ms: float = parameter(20.0, "of the pipe in case Cd", "ms", low=0.1, high=10_000)
    rules: int = parameter(100, "in case B100, an even number", low=4, high=10_000)
    bandwidth_mbps: float = parameter(
        600.0, "of the pipe in case Cr; packets fill 368 of it, 0 for no limit", "Mb/s", low=0, high=1e6
    )
    stage: str = "A"
    is_linux: bool = False
    packets: int = 1_000_000
    single_packets: int = 20_000
    own_rules: str = EXAMPLE
    spacing_us: float = 350.0


def deny_at(place: int, rules: int) -> str:
    """Write `rules` rules. The rule at `place` drops the flow, the others match other ports."""
    numbers = range(1, rules + 1)
    return "\n".join(f"add {n} deny udp from any to any {PORT if n == place else 6000 + n}" for n in numbers)


def pipe(words: str, rules_before: int = 0) -> str:
    """Write rules that send all packets into one pipe, after `rules_before` rules that match other ports."""
    before = deny_at(0, rules_before)
    return f"{before}\npipe 1 config {words}\nadd {rules_before + 1} pipe 1 udp from any to any\n"


@cache
def stages(setting: Setting) -> dict[str, str]:
    """Return the rules of the paper's six cases, followed by those of the controls. Packets of A are dropped before any
    rule.

    Raises NetreproError for an odd number of rules.
    """
    rules, delay = setting.rules, f"delay {setting.delay_ms:g}ms"
    if rules % 2:
        raise NetreproError(f"rules = {rules}", "give an even number")
    return {
        "A": "",
        "B": deny_at(1, 1),
        "B100": deny_at(rules, rules),
        "C0": pipe(""),
        "Cd": pipe(delay),
        "Cr": pipe(f"bw {setting.bandwidth_mbps:g}Mbit/s" if setting.bandwidth_mbps else ""),
        "B50": deny_at(rules // 2, rules // 2),
        BEFORE_OTHERS: deny_at(1, rules),
        HALF_WAY: deny_at(rules // 2, rules),
        BEHIND_MANY: pipe(delay, 10_000),
    }


ENGINE = tuple(stages(Setting()))
LINUX_CASES = tuple(map(LINUX.format, CASES))


def cannot(setting: Setting, tier: str) -> str:
    """Return why a tier cannot run a setting, or ""."""
    if setting.is_linux and not in_real_time(tier):
        return f"Linux is timed in namespaces of this machine's kernel, which tier {tier} has not"
    return ""


# Measuring.


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Time the engine, then Linux."""
    readings = {run: _play(run) for run in runs if run.setting.stage == PLAY}
    rest = [run for run in runs if run not in readings]
    readings |= _read_engine([run for run in rest if not run.setting.is_linux], progress)
    readings |= _read_linux([run for run in rest if run.setting.is_linux])
    return [readings[run] for run in runs]


def _read_engine(runs: Sequence[OneRun], progress: Progress) -> dict[OneRun, Reading]:
    """Time every case in each repetition, in several visits in an order drawn from the seed. Then time some packets of
    the paper's cases one by one. The case of 10000 rules gets a hundredth of the packets, in one visit.

    Read the medians over batches (ns a packet): whole_ns, and its parts arrivals_ns and timer_ns.
    """
    if not runs:
        return {}
    random, visits = np.random.default_rng(runs[0].seed[0]), []
    for seed in dict.fromkeys(run.seed for run in runs):
        own = [run for run in runs if run.seed == seed]
        steady = [run for run in own if run.setting.stage != BEHIND_MANY]
        for those in (own, *[steady] * (VISITS - 1)):
            visits += [those[place] for place in random.permutation(len(those))]
    timed: dict[OneRun, list[Timing]] = defaultdict(list)
    for run in progress(visits):
        share = 100 if run.setting.stage == BEHIND_MANY else VISITS
        timed[run].append(_time(run, max(run.setting.packets // share, BATCH_PACKETS), BATCH_PACKETS))
    main = [run for run in runs if run.setting.stage in MAIN]
    alone = {run: _time(run, run.setting.single_packets, 1).batches["whole_ns"] for run in progress(main)}
    batches = {run: pd.concat([each.batches for each in parts], ignore_index=True) for run, parts in timed.items()}
    readings = read_costs({run: table["whole_ns"] for run, table in batches.items()}, "whole_ns")
    for run, table in batches.items():
        numbers = {name: float(table[name].median()) for name in ("arrivals_ns", "timer_ns")}
        numbers["rules"] = stages(run.setting)[run.setting.stage].count("add ")
        numbers |= {"single_deviation": deviation(alone[run])} if run in alone else {}
        late = Check("packets out of order", float(sum(each.out_of_order for each in timed[run])), at_most=0.0)
        if run.setting.stage == BEHIND_MANY:
            readings[run] = replace(readings[run], checks=[])
        readings[run] |= Reading(numbers, checks=[late])
    return readings


def _time(run: OneRun, packets: int, batch_packets: int) -> Timing:
    stage = run.setting.stage
    engine = Dummynet(stages(run.setting)[stage], tick_ms=1.0, seed=run.seed[0])
    return time_packets(engine, packets, drop_at_entry=stage == "A", batch_packets=batch_packets)


def _read_linux(runs: Sequence[OneRun]) -> dict[OneRun, Reading]:
    """Read the median over batches of the processor time in Linux (ns a packet). The cases take turns."""
    if not runs:
        return {}
    seeds = list(dict.fromkeys(run.seed for run in runs))
    batches = -(-runs[0].setting.packets // (len(seeds) * BATCH_PACKETS))
    table = time_kernel(runs[0].tier, batches, BATCH_PACKETS, repetitions=len(seeds))
    costs = {place: rows["processor_ns"] for place, rows in table.groupby(["case", "repetition"])}
    return read_costs({run: costs[run.setting.stage, seeds.index(run.seed)] for run in runs}, "processor_ns")


def read_costs(costs: Mapping[OneRun, pd.Series], name: str) -> dict[OneRun, Reading]:
    """Read each run's median cost over batches, as number `name`, and its deviation (standard deviation over mean).

    Check the spread of the batches (median absolute deviation over the median), and the median's distance from the
    median of all repetitions, as a share of the latter.
    """
    medians, readings = {run: float(each.median()) for run, each in costs.items()}, {}
    for run, each in costs.items():
        middle = float(np.median([medians[other] for other in costs if other.setting == run.setting]))
        spread = float((each - medians[run]).abs().median()) / medians[run]
        drift = abs(medians[run] - middle) / middle
        checks = [
            Check("spread of the batches of a repetition", spread, at_most=MOST_SPREAD),
            Check("spread of repetitions", drift, at_most=MOST_SPREAD),
        ]
        readings[run] = Reading({name: medians[run], "deviation": deviation(each)}, checks=checks)
    return readings


def deviation(costs: pd.Series) -> float:
    """Compute the standard deviation over the mean."""
    return float(costs.std() / costs.mean())


def _play(run: OneRun) -> Reading:
    """Send 2000 packets through the reader's own rules; read each packet's verdict and departure."""
    headers = synthetic_headers(2000, run.setting.spacing_us)
    return Reading(tables={"packets": Dummynet(run.setting.own_rules).run(headers).packets})


def published() -> pd.DataFrame:
    """Read the paper's table with the class report's, by case: means and standard deviations (ns)."""
    return pd.read_csv(data_dir("dummynet") / "table.csv", comment="#").set_index("case")


def summary(runs: Runs) -> pd.DataFrame:
    """Return a row for each case: the published costs and ours (ns a packet, medians over repetitions). Ours consist of
    arrivals_ns and timer_ns; also deviation, and Linux's processor time (NaN where not measured)."""
    medians = runs.values[runs.values["tier"] == runs.tier].groupby("case").median(numeric_only=True)
    medians = medians.reindex(columns=["whole_ns", "arrivals_ns", "timer_ns", "deviation", "processor_ns"])
    table = published().join(medians.drop(columns="processor_ns").rename(columns={"whole_ns": "ours_ns"}))
    return table.assign(linux_ns=medians["processor_ns"].reindex(map(LINUX.format, table.index)).to_numpy())


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table, why = summary(runs), trust_of(runs.checks[runs.checks["case"].isin(ENGINE)])["why"]
    ours, arrivals = table.ours_ns, table.arrivals_ns
    words = (
        f"In our engine an emulated packet costs {ours.C0:.0f} ns, {ours.Cd:.0f} ns with a delay of "
        f"{runs.setting.delay_ms:g} ms, and {ours.B100:.0f} ns behind {runs.setting.rules} rules; with the timer's "
        f"work left out, the delayed packet seems to cost {arrivals.Cd:.0f} ns, "
        f"{'less' if arrivals.Cd < arrivals.C0 else 'more'} than one that is not delayed."
    )
    return f"Untrusted ({why}): {words}" if why else words


# Knobs.

ROUNDS = 3  # through all points, so that a disturbance does not affect only one of them
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200)
DELAYS_MS, TICKS_MS = (0, 1, 5, 20, 50, 200), (1.0, 0.1, 0.0)


def vary_rules(runs: Runs, progress: Progress) -> pd.DataFrame:
    """Measure the cost over the number of rules. The other rules differ in the port, which is compared late, or the
    address. Returns differs_in, rules, whole_ns: the median over three rounds."""
    rows = []
    for _, count, field in progress(list(product(range(ROUNDS), COUNTS, ("port", "address")))):
        rules = deny_at(count, count)
        if field == "address":
            others = (f"add {n} deny udp from any to 10.1.0.{n % 256}" for n in range(1, count))
            rules = "\n".join([*others, f"add {count} deny udp from any to any {PORT}"])
        rows.append({"differs_in": field, "rules": count, "whole_ns": _median_cost(runs, rules, 1.0)})
    return pd.DataFrame(rows).groupby(["differs_in", "rules"], as_index=False, sort=False).median()


def vary_delay(runs: Runs, progress: Progress) -> pd.DataFrame:
    """Measure the cost over the delay, which sets the packets in flight (1000 a millisecond), for several timer ticks;
    tick 0 is a timer event for each packet. Returns tick_ms, delay_ms, whole_ns as `vary_rules`."""
    rows = []
    for _, tick_ms, delay_ms in progress(list(product(range(ROUNDS), TICKS_MS, DELAYS_MS))):
        cost = _median_cost(runs, pipe(f"delay {delay_ms:g}ms"), tick_ms, until_full=1000 * (delay_ms + 10))
        rows.append({"tick_ms": tick_ms, "delay_ms": delay_ms, "whole_ns": cost})
    return pd.DataFrame(rows).groupby(["tick_ms", "delay_ms"], as_index=False, sort=False).median()


def _median_cost(runs: Runs, rules: str, tick_ms: float, until_full: int = 10_000) -> float:
    packets = max(runs.study.scaled(runs.setting, runs.profile).packets // 20, BATCH_PACKETS)
    engine = Dummynet(rules, tick_ms=tick_ms, seed=runs.seed)
    return float(time_packets(engine, packets, warm_up_packets=until_full).batches.whole_ns.median())


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
    axis.text(8, 0.7, "a timer lets packets out", ha="center", color=CURVES[6])
    axis.set(xlim=(-1, 11), ylim=(-1.6, 1.1))
    return figure


def costs(runs: Runs) -> pd.DataFrame:
    """Return the costs of `summary` as rows: case, of (the column's name), ns."""
    table = summary(runs).rename_axis("case").reset_index()
    return table.melt("case", [*LOOKS], "of", "ns").dropna(subset="ns")


def costs_of_pipes(runs: Runs) -> pd.DataFrame:
    """Return the costs of cases with a pipe."""
    return costs(runs).query("case in ('C0', 'Cd', 'Cr')")


LOOKS = {
    "published_ns": {"label": "published", "color": PUBLISHED_GREY},
    "class_report_ns": {"label": "class report", "color": "#bdbdbd"},
    "ours_ns": {"label": "ours, all work", "color": CURVES[0]},
    "arrivals_ns": {"label": "ours, during arrivals only", "color": CURVES[6]},
    "linux_ns": {"label": "Linux, processor time", "color": CURVES[2]},
}
COST = "cost (ns a packet)"


def _draw_symmetric_logarithm(axis: Axes, _: Runs) -> None:
    axis.set_xscale("symlog", linthresh=1)


def draw_packets(reading: Reading, case: str) -> Figure:
    """Draw each packet's time in the pipe over its arrival; the title counts the verdicts."""
    packets = reading["packets"]
    ends = ", ".join(f"{count} {verdict}" for verdict, count in packets.verdict.value_counts().items() if count)
    figure, axis = new_figure(ends, "arrival (s)", "time in the pipe (ms)")
    axis.plot(packets.time_s, (packets.departure_s - packets.time_s) * 1e3, ".", markersize=3)
    return figure


# The study.


def _rule_over_rule(last: pd.Series, half: pd.Series, first: pd.Series) -> float:
    """Divide the cost of a rule in the second half by the cost of one in the first half."""
    steps = (half["rules"] - 1) / half["rules"]
    return float((last["whole_ns"] - half["whole_ns"]) / (half["whole_ns"] - first["whole_ns"]) * steps)


def _compared(evidence: Evidence) -> tuple[str, ...]:
    """Return the cases that evidence and its control compare. Only their checks bear on a claim: that another program
    took the processor from one case says nothing about the others."""
    broken = evidence.broken
    return (*evidence.case_names, *(broken.case_names if broken else ()))


def _to_pipe(case: str) -> Evidence:
    """Compare a case with a pipe that does nothing. The control leaves out the timer's work."""
    pair = (case, "C0")
    return Evidence("whole_ns", pair, control=Evidence("arrivals_ns", pair, how=ratio), how=ratio)


def _to_entry(case: str) -> Evidence:
    return Evidence("whole_ns", (case, "A"), how=ratio)


ORDER = ("A", "B", "C0", "Cr", "Cd", "B100")
RANKED = Evidence("whole_ns", ORDER, how=least_first(*ORDER))
CLAIMS = {
    "order-of-costs": replace(RANKED, control=replace(RANKED, reading="arrivals_ns")),
    "delay-costs": _to_pipe("Cd"),
    "rate-costs": _to_pipe("Cr"),
    "hundred-rules": Evidence("whole_ns", ("B100", "B"), control=(BEFORE_OTHERS, "B"), how=ratio),
    "cost-per-rule-is-constant": Evidence(
        ("whole_ns", "rules"), ("B100", "B50", "B"), control=(HALF_WAY, "B50", "B"), how=_rule_over_rule
    ),
    "classifier-over-entry": _to_entry("B"),
    "delay-over-entry": _to_entry("Cd"),
    "pipe-over-entry": _to_entry("C0"),
    "rate-over-entry": _to_entry("Cr"),
    "hundred-rules-over-entry": _to_entry("B100"),
    "delayed-packet": Evidence("whole_ns", "Cd"),
    "steady-costs": Evidence("deviation", MAIN, control=Evidence("single_deviation", MAIN, how=max), how=max),
}
LINUX_RULE = Evidence(
    "processor_ns",
    tuple(map(LINUX.format, ("B100", "B", "A"))),
    how=lambda hundred, one, entry: (hundred - one) / 99 / entry,
    checked_by=LINUX_CASES,
)

STUDY = Study(
    slug="dummynet",
    setting=Setting(),
    cases={stage: {"stage": stage} for stage in (*ENGINE, PLAY)}
    | {LINUX.format(stage): {"stage": stage, "is_linux": True} for stage in CASES},
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    scales={
        "quick": Scale(without=(PLAY,)),
        "paper": Scale(changes={"packets": 10_000_000}, without=(PLAY,)),
        "test": Scale(changes={"packets": 5000, "single_packets": 2000}, without=(PLAY,)),
    },
    claims={claim: replace(evidence, checked_by=_compared(evidence)) for claim, evidence in CLAIMS.items()},
    on_kernels={"linux-cost-per-rule": LINUX_RULE},
    knobs={"rules": vary_rules, "delay": vary_delay},
    figures={
        "table_costs": plot(
            "Cost of a packet, one flow",
            "case",
            COST,
            Bars("ns", costs, "case", "of", {name: LOOKS[name] for name in LOOKS if name != "arrivals_ns"}),
            log="y",
        ),
        "control_enqueue_only": plot(
            "Who pays for the exit from the pipe?",
            "case",
            COST,
            Bars(
                "ns",
                costs_of_pipes,
                "case",
                "of",
                {name: LOOKS[name] for name in ("ours_ns", "arrivals_ns", "class_report_ns")},
            ),
        ),
        "knob_rules": plot(
            "Rules are looked at one after the other",
            "rules (number)",
            COST,
            Sweep("rules", "whole_ns", "rules", "differs_in", label="other rules differ in {}", rows="rules >= 10"),
        ),
        "knob_delay": plot(
            "What does delay cost? (0 ms: a timer event a packet)",
            "delay (ms), 1000 packets in flight a millisecond",
            COST,
            _draw_symmetric_logarithm,
            Sweep("delay_ms", "whole_ns", "delay", "tick_ms", label="timer every {} ms"),
            x_range=(-0.2, None),
        ),
    },
    play=Play((PLAY,), {"own_rules": TEXT, "spacing_us": (50.0, 1000.0, 50.0)}, draw_packets),
)
