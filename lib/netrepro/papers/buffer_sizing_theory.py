"""How much buffer do today's senders need? Spang, Arslan and McKeown, "Updating the Theory of Buffer Sizing", 2021.

A flow that loses a packet keeps a share of its window: Reno half, CUBIC seven tenths. The link stays busy if what is
kept fills the pipe (the bandwidth-delay product), so the buffer follows from that share. Of many flows, only those
count that reduce their windows in the same round trip. Where these are few, the buffer may shrink with the square root
of the number of flows, as in `buffer_sizing`. It may not where marks make all flows reduce together, or where one flow
holds most of the pipe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from netrepro.networks import DropTail, EcnThreshold, Experiment, Flow, Link, Measure, Measurements, Tcp, dumbbell
from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.papers import buffer_sizing as older
from netrepro.paths import data_dir
from netrepro.study import (
    VIRTUAL,
    Check,
    Evidence,
    Knob,
    Progress,
    Reading,
    Runs,
    Scale,
    Study,
    gap_checks,
    pictures,
    swept,
)
from netrepro.study.figures import Level, Panel, Picture, Published, Sweep, plot
from netrepro.study.measuring import in_parallel, run_experiment
from netrepro.study.setting import parameter
from netrepro.style import CURVES, new_figure, scheme

PORT = ("s1", "s2")
TARGET = 0.85  # share of the link's rate that the lowest tenth of the intervals must reach, as in the authors' Fig. 5
INTERVAL = 16.7  # round trips: the interval over which the authors count throughput (20 ms)
LOWEST = 0.1  # share of the intervals that counts as lowest; as with the authors, no interval is left out
SETTLED = 0.25  # share of a run after which steps down are counted
MIDDLE, QUANTILE, ABOVE = (1 / 3, 2 / 3), 0.01, 2.5  # the authors' other test: above 2 packets, so between 2 and 3
SAWTEETH, LEAST_ROUNDS, START_ROUNDS = 3, 300, 1
QUEUE_SAMPLES = 20  # of a round trip
KEPT = {"reno": 0.5, "cubic": 717 / 1024}  # share of its window that a flow keeps after a loss
NAMES = {"Reno": "reno", "CUBIC": "cubic", "BBR": "bbr"}
MORE = 1.25  # times another buffer, to count as larger
COUNTS = (1, 2, 4, 8, 16, 32, 64)
SHARES = (0.012, 0.02, 0.03, 0.045, 0.06, 0.09, 0.125, 0.18, 0.25, 0.375, 0.5, 0.75, 1.0, 1.25)
MARKED_FLOWS, UNFAIR_FLOWS = 32, 16  # the authors' Fig. 8; our choice (their Fig. 9 has 2 and 4)
MARKED, ASKED, UNFAIR, WIDE = "Reno, marked", "Reno, asks for marks", "Reno, unfair", "Reno, wide limits"
OLDER_COUNTS = (5, 10, 20, 50, 100)
BUFFER, SHARE = "buffer / bandwidth-delay product (ratio)", "lowest share of the link (ratio)"


@dataclass(frozen=True)
class Setting:
    """Long flows over one bottleneck. The pipe of 166 packets is the authors'; the round trip is our choice.

    buffer_share : the bottleneck's buffer, as a share of the pipe. marks : a queue of that length marks arriving
    packets instead of dropping them. others_segments : the largest window of all flows but the first; 0 for no limit.
    """

    pipe_packets: int = parameter(166, "bandwidth-delay product", "packets", low=20, high=400)
    round_trip_ms: float = parameter(20.0, "without queues", "ms", low=2, high=200)
    congestion_control: str = "reno"
    recovery: str = "linux"
    flows: int = 1
    buffer_share: float = 1.0
    asks_for_ecn: bool = False
    marks: bool = False
    others_segments: int = 0


def enough(kept: float, at_once: float | np.ndarray = 1.0) -> float | np.ndarray:
    """Compute the least buffer with which the link is never idle, as a share of the pipe.

    kept : share of its window that a flow keeps. at_once : share of all windows that is reduced in one round trip, 1
    for a single flow. Before, all windows together fill pipe and buffer; after, they must still fill the pipe.
    """
    lost = (1 - kept) * at_once
    return lost / (1 - lost)


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: each flow between two hosts of its own, starting at random within one round trip, as the
    authors' parallel connections start together. It lasts for `seconds`, or for three sawteeth where that is longer."""
    round_trip_ms, pipe, flows = setting.round_trip_ms, setting.pipe_packets, setting.flows
    packets, rate_mbps = max(1, round(setting.buffer_share * pipe)), pipe * FULL_PACKET_BYTES * 8e-3 / round_trip_ms
    sawtooth_s = older.sawtooth_s(flows, older.Setting(rate_mbps=rate_mbps, round_trip_ms=round_trip_ms))
    end_s = max(seconds, SAWTEETH * sawtooth_s, LEAST_ROUNDS * round_trip_ms * 1e-3)
    queue = EcnThreshold(packets + 4 * pipe, packets) if setting.marks else DropTail(packets=packets)
    access = Link(10 * rate_mbps, round_trip_ms / 40, older.ROOMY)
    network = dumbbell(flows, access, Link(rate_mbps, 0.45 * round_trip_ms, queue))
    tcp = Tcp(setting.congestion_control, recovery=setting.recovery, ecn=setting.asks_for_ecn)
    most_bytes = setting.others_segments * tcp.segment_bytes
    others = replace(tcp, receive_window_bytes=most_bytes) if most_bytes else None
    starts = np.random.default_rng(seed).uniform(0, START_ROUNDS * round_trip_ms * 1e-3, flows).tolist()
    traffic = [
        Flow(f"h{i + 1}", f"h{flows + i + 1}", None, end_s - start, start, tcp=others if i else None)
        for i, start in enumerate(starts)
    ]
    look = Measure((PORT,), round_trip_ms / QUEUE_SAMPLES, round_trip_ms * (1 + setting.buffer_share), (PORT,))
    return Experiment(network, tuple(traffic), end_s, seed, look, tcp)


def steps_down(windows: pd.DataFrame, interval_ms: float) -> tuple[float, float]:
    """Compute how many flows reduce their windows in one round trip, and their share of all bytes in flight.

    windows : sampled every `interval_ms`, a round trip with a full buffer. In the averages a round trip counts by the
    size of its reduction, so large ones weigh more. Both are NaN where no flow reduces its window.
    """
    places = (windows["time_s"] * 1e3 / interval_ms).round().astype(int)
    sizes = windows.assign(place=places).pivot_table(["window_bytes", "in_flight_bytes"], "place", "flow").dropna()
    before, falls = sizes["in_flight_bytes"].shift(), sizes["window_bytes"].diff() < 0
    begins = falls & ~falls.shift(fill_value=False)
    flows, shares = begins.sum(axis=1), before.where(begins).sum(axis=1) / before.sum(axis=1)
    if not flows.any():
        return np.nan, np.nan
    return float((flows**2).sum() / flows.sum()), float((shares**2).sum() / shares.sum())


def least_queue(run: Measurements) -> float:
    """Compute the 1 % quantile of the queue (packets) that packets leave behind in the middle third of a run: the test
    of the authors' notebook "Figure 5a". NaN where no packet leaves then."""
    first, last = (share * run.experiment.duration_s for share in MIDDLE)
    leave_s = run.packets["time_s"].to_numpy()
    leave_s = leave_s[(leave_s >= first) & (leave_s < last)]
    places = np.searchsorted(run.queues["time_s"], leave_s, side="right") - 1
    return float(np.quantile(run.queues["queue_packets"].to_numpy()[places], QUANTILE)) if len(leave_s) else np.nan


def read(run: Measurements, setting: Setting) -> Reading:
    """Read the utilisation in the lowest tenth of the intervals and over the whole run, and `least_queue`. Read also
    how many flows reduce their windows in the same round trip, and their share of the bytes in flight."""
    end_s = run.experiment.duration_s
    edges = np.arange(0, end_s + 1e-9, INTERVAL * setting.round_trip_ms * 1e-3)
    bits = np.histogram(run.packets["time_s"], edges, weights=8e-6 * run.packets["size_bytes"])[0]
    shares = bits / np.diff(edges) / run.experiment.topology.link(*PORT).rate_mbps
    windows = run.windows[run.windows["time_s"] > SETTLED * end_s]
    flows, at_once = steps_down(windows, setting.round_trip_ms * (1 + setting.buffer_share))
    lowest = float(np.quantile(shares, LOWEST))
    numbers = {"lowest": lowest, "used": float(shares.mean()), "least_queue": least_queue(run)}
    numbers |= {"at_once": at_once, "flows_at_once": flows}
    checks = [Check("share of the link's rate", float(shares.max()), at_most=1.01), *gap_checks(run, PORT)]
    return Reading(numbers, {}, checks)


# Claims. Each is judged on the lowest utilisation, a Series indexed by flows and buffer_share.


def needed(lowest: pd.Series, target: float = TARGET) -> float:
    """Interpolate the least buffer, as a share of the pipe, whose lowest utilisation is `target`. Where no buffer
    reaches it, this is the largest one tried; where all do, the smallest. lowest : indexed by buffer_share.

    A line that never falls is fitted to the measurements, as in `buffer_sizing.smallest_buffer`.
    """
    shares, line = lowest.index.to_numpy(float), isotonic_regression(lowest.to_numpy(float)).x
    if line[-1] < target or line[0] >= target:
        return float(shares[0 if line[0] >= target else -1])
    place = int(np.argmax(line >= target))
    return float(np.exp(np.interp(target, line[place - 1 : place + 1], np.log(shares[place - 1 : place + 1]))))


def alone(lowest: pd.Series) -> pd.Series:
    """Return the lowest utilisation of one flow, indexed by buffer_share."""
    return lowest.xs(1, level="flows")


def of_reno(*lowest: pd.Series) -> float:
    """Divide the greatest buffer that one flow needs in all cases but the last by the buffer of the last case, Reno."""
    *newer, reno = (needed(alone(each)) for each in lowest)
    return max(newer) / reno


def over_rule(lowest: pd.Series) -> float:
    """Compute the greatest ratio of the needed buffer to BDP / sqrt(n), for 2 flows or more."""
    rows = lowest.groupby(level="flows")
    return max(needed(part.droplevel("flows")) * np.sqrt(flows) for flows, part in rows if flows >= COUNTS[1])


def rank(few: str, many: str, flows: int, *lowest: pd.Series) -> list[str]:
    """Rank two cases by the buffer that so many flows need: `few` is first only if `many` needs over a quarter more."""
    first, second = (needed(each.xs(flows, level="flows")) for each in lowest)
    return [few, many] if second > MORE * first else [many, few]


def buffers(table: pd.DataFrame) -> pd.DataFrame:
    """Tabulate for each case and repetition the needed buffer: as a share of the pipe, over BDP / sqrt(n), and over the
    same by the authors' other test (see `least_queue`). Further columns: how much is reduced at once (see `steps_down`)
    with the nearest buffer tried."""
    rows = []
    for (case, flows, repetition), part in table.groupby(["case", "flows", "repetition"], sort=False):
        at_shares = part.set_index("buffer_share")[["lowest", "least_queue", "at_once", "flows_at_once"]]
        share, by_queue = needed(at_shares["lowest"]), needed(at_shares["least_queue"], ABOVE) * np.sqrt(flows)
        near = at_shares.iloc[np.abs(np.log(at_shares.index.to_numpy(float) / share)).argmin()]
        rows.append((case, flows, repetition, share, share * np.sqrt(flows), by_queue, *near[2:]))
    columns = ["needed", "over_rule", "by_queue", "at_once", "flows_at_once"]
    return pd.DataFrame(rows, columns=["case", "flows", "repetition", *columns])


def published(sender: str, test: str) -> dict[int, float]:
    """Read the authors' buffers over BDP / sqrt(n) by the number of flows. test : over_rule (85 % of the link) or
    by_queue."""
    table = pd.read_csv(data_dir("buffer_sizing_theory") / "needed.csv", comment="#")
    return dict(table[table["sender"] == sender].set_index("flows")[test])


def own_buffers(runs: Runs) -> pd.DataFrame:
    """Tabulate the needed buffers on the tier asked for."""
    return buffers(runs.values[runs.values["tier"] == runs.tier])


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    means = own_buffers(runs).groupby(["case", "flows"])[["needed", "over_rule"]].mean()
    one, many = means["needed"].xs(1, level="flows"), means["over_rule"].drop(1, level="flows")
    most = many.groupby(level="case").max()
    said = ", ".join(f"{most[name]:.2g} ({name})" for name in NAMES)
    return (
        f"One CUBIC flow needs {one['CUBIC'] / one['Reno']:.2f} and one BBR flow {one['BBR'] / one['Reno']:.2f} of "
        f"Reno's buffer; several need at most {said} times BDP / sqrt(n), {MARKED_FLOWS} that are marked "
        f"{most[MARKED]:.2g}, {UNFAIR_FLOWS} unfair ones {most[UNFAIR]:.2g}."
    )


def turn_lockstep(runs: Runs, progress: Progress) -> pd.DataFrame:
    """Search the buffers of `buffer_sizing` with flows as published and synchronised. Columns: over_theory (buffer over
    RTT C / sqrt(n)), counted (the buffer of `enough` over the same), and flows_at_once with that buffer."""

    def run_one(case: str, flows: int) -> tuple:
        changes: dict[str, Any] = older.SYNCHRONISED if case == "synchronised" else {}
        at = replace(older.PRINTED, flows=flows, **changes)
        reading = older.measure_one(at, 10.0, runs.seed, "simulated")
        at = replace(at, buffer_packets=round(reading["buffer_packets"]))
        full_ms = at.round_trip_ms * (1 + at.buffer_packets / at.pipe_packets)
        asked = replace(older.experiment(at, 10.0, runs.seed), measure=Measure(windows_interval_ms=full_ms))
        windows = run_experiment(asked).windows
        at_once, share = steps_down(windows[windows["time_s"] > at.warm_up_s], full_ms)
        counted = enough(KEPT["reno"], share) * np.sqrt(flows)
        return case, flows, 0, reading["over_theory"], counted, at_once

    work = [(case, flows) for case in ("as published", "synchronised") for flows in OLDER_COUNTS]
    columns = ["case", "flows", "repetition", "over_theory", "counted", "flows_at_once"]
    return pd.DataFrame(in_parallel(run_one, work, progress=progress), columns=columns)


def draw_idea() -> Figure:
    """Draw the closed form: the buffer over the share of all windows that is reduced at once."""
    figure, axis = new_figure("What is kept fills the pipe", "windows that step down together / all (ratio)", BUFFER)
    at_once = np.linspace(0, 1, 101)
    for name, kept in KEPT.items():
        axis.plot(at_once, enough(kept, at_once), color=scheme(name).colour, label=scheme(name).label)
    axis.legend()
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network of sixteen flows."""
    return pictures.draw_network(experiment(replace(setting, flows=16), 1.0, 1), "Long flows meet at one router")


def _beside_the_authors(sender: str) -> Panel:
    """Show a sender's buffers over the rule by both tests, ours in colours and the authors' in grey."""
    ours = own_buffers
    return Panel(
        "flows",
        "buffer over BDP / sqrt(n) (ratio)",
        Level(1, "the rule", published=False),
        Published(partial(_points, sender, "over_rule"), "authors, 85 % of the link"),
        Published(partial(_points, sender, "by_queue"), "authors, queue never empty", joined=True),
        Sweep("flows", "over_rule", ours, looks={sender: {"label": "85 % of the link", "color": CURVES[0]}}),
        Sweep("flows", "by_queue", ours, looks={sender: {"label": "queue never empty", "color": CURVES[1]}}),
        title=sender,
        log="x",
    )


def _points(sender: str, test: str, _: Runs) -> pd.Series:
    return pd.Series(published(sender, test))


MANY = {"flows": swept(*COUNTS), "buffer_share": swept(*SHARES)}
ONE = MANY | {"flows": swept(1)}
TOGETHER, APART = MANY | {"flows": swept(MARKED_FLOWS)}, MANY | {"flows": swept(UNFAIR_FLOWS)}
AGAIN = {name: f"{name}, begins again" for name in NAMES}
MARKS = {"asks_for_ecn": True, "marks": True}
# Quick runs have 500 round trips, half of the authors': the start is one interval of thirty, which the lowest tenth
# leaves aside.
QUICK_SHARES = (0.012, 0.03, 0.06, 0.125, 0.25, 0.375, 0.5, 0.75, 1.25)
QUICK = Scale(10.0, 2, only={"flows": (1, 16, 32), "buffer_share": QUICK_SHARES})
SIZES = {"quick": QUICK, "paper": Scale(20.0)}
FEW = {"flows": (1, 16, 32), "buffer_share": (0.06, 0.25, 0.5, 1.0)}
HALF = {"flows": (1, 4, 16, 32, 64), "buffer_share": (0.03, 0.06, 0.125, 0.25, 0.375, 0.5, 0.75, 1.25)}
FORMULA = [{share: min(kept * (1 + share), 1.0) for share in SHARES} for kept in KEPT.values()]
OTHERS = {name: {"label": name, "color": CURVES[place]} for name, place in ((MARKED, 3), (UNFAIR, 6))}
DASHED = {"label": "closed form", "linestyle": "--", "marker": ""}
CLOSED = {case: DASHED | {"color": CURVES[place]} for place, case in enumerate(("as published", "synchronised"))}
DROPS_FIRST = partial(rank, "drops", "marks", MARKED_FLOWS)
FAIR_FIRST = partial(rank, "fair", "unfair", UNFAIR_FLOWS)
judged, ENOUGH = partial(Evidence, "lowest"), Level(TARGET, "enough", published=False)

STUDY = Study(
    slug="buffer_sizing_theory",
    setting=Setting(),
    cases={name: MANY | {"congestion_control": word} for name, word in NAMES.items()}
    | {AGAIN[name]: ONE | {"congestion_control": word, "recovery": "tahoe"} for name, word in NAMES.items()}
    | {
        MARKED: TOGETHER | MARKS,
        "CUBIC, marked": TOGETHER | MARKS | {"congestion_control": "cubic"},
        ASKED: TOGETHER | {"asks_for_ecn": True},
        UNFAIR: APART | {"others_segments": 2},
        WIDE: APART | {"others_segments": 1000},
    },
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=3,
    scales=SIZES | {("quick", VIRTUAL): Scale(3.0, 2, only=FEW), ("paper", VIRTUAL): Scale(20.0, only=HALF)},
    claims={
        "newer-senders-need-less": judged(("CUBIC", "BBR", "Reno"), (AGAIN["CUBIC"], AGAIN["BBR"], "Reno"), of_reno),
        "bbr-needs-a-quarter": judged(("BBR", "Reno"), how=of_reno),
        "one-reno-flow-needs-the-pipe": judged("Reno", "CUBIC", lambda lowest: needed(alone(lowest))),
        "lowest-use-by-reno": judged("Reno", AGAIN["Reno"], alone),
        "lowest-use-by-cubic": judged("CUBIC", AGAIN["CUBIC"], alone),
        "rule-holds-for-reno": judged("Reno", MARKED, over_rule),
        "rule-holds-for-cubic": judged("CUBIC", "CUBIC, marked", over_rule),
        "rule-holds-for-bbr": judged("BBR", how=over_rule),
        "marks-break-the-rule": judged((ASKED, MARKED), (ASKED, "Reno"), DROPS_FIRST),
        "unfair-flows-break-the-rule": judged(("Reno", UNFAIR), ("Reno", WIDE), FAIR_FIRST),
    },
    knobs={
        "limits": Knob({f"{most} segments": APART | {"others_segments": most} for most in (2, 4, 6, 8, 12)}, SIZES),
        "lockstep": turn_lockstep,
    },
    figures={
        "one_flow": plot(
            "How low does one flow let the link fall?", BUFFER, SHARE, ENOUGH,
            *(Published(points, "authors' closed form", joined=True) for points in FORMULA),
            Sweep("buffer_share", "lowest", NAMES, rows="flows == 1"), log="x",
        ),
        "rule": plot(
            "Does the buffer shrink with the square root of n?", "flows", BUFFER,
            Published({n: n**-0.5 for n in COUNTS}, "BDP / sqrt(n)", joined=True),
            Sweep("flows", "needed", own_buffers, looks={**NAMES, **OTHERS}), log="xy",
        ),
        "authors": Picture("Needed buffers by both of the authors' tests", *map(_beside_the_authors, NAMES)),
        "lockstep": Picture(
            "Notebook 33's flows: who steps down at once, and what that asks for",
            Panel("flows", "step down at once (flows)", Sweep("flows", "flows_at_once", "lockstep"),
                  Published({n: n**0.5 for n in OLDER_COUNTS}, "sqrt(n)", joined=True), log="xy"),
            Panel("flows", "buffer over RTT C / sqrt(n) (ratio)", Sweep("flows", "over_theory", "lockstep"),
                  Sweep("flows", "counted", "lockstep", looks=CLOSED), log="xy"),
        ),
        "control": plot(
            "Broken on purpose: one segment after a loss", BUFFER, SHARE, ENOUGH,
            Sweep("buffer_share", "lowest", {again: NAMES[name] for name, again in AGAIN.items()}), log="x",
        ),
    },
)  # fmt: skip
