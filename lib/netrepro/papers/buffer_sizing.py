"""How large a router's buffer must be: Handigol et al., "Reproducible Network Experiments Using Container-Based
Emulation" (Mininet-HiFi, CoNEXT 2012), section 5.3, Fig. 9; Appenzeller et al., "Sizing Router Buffers" (SIGCOMM 2004).

n long flows share a bottleneck. A binary search finds the smallest buffer with which the link is busy for 99 % of the
time; theory says RTT C / sqrt(n), because flows that halve their windows at different times even each other out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from netrepro.claims import Measured, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.topology import Cable, Topology, host_cable
from netrepro.networks.workloads import Flow, Tcp
from netrepro.papers._running import run_experiment
from netrepro.papers._runs import CheckedRuns, Progress, of_profile
from netrepro.paths import data_dir
from netrepro.simulation import simulate
from netrepro.style import CURVES, PUBLISHED_GREY, draw_published, new_figure, scheme

PORT = ("s1", "s2")
ROOMY = DropTail(packets=10_000)  # of every port but the bottleneck's: nothing is lost elsewhere
HOST_MBPS = 1000.0
SLOPE_RANGE = (2, 100)  # flows
HARDWARE_FLOWS = (5, 10, 50, 100, 200)
CONTROL_FLOWS = (2, 5, 10, 20, 50, 100, 200)
FLOW_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 400)
PAPER_FLOW_COUNTS = (*FLOW_COUNTS, 600, 800)
MOST_PIPES = 1.5  # RTT C: the largest buffer that is tried
PERIODS = 3  # of a sawtooth, measured
CLOSE = 0.002  # of the target: a probe that near is too close to call from one run
RESOLUTION = 1.2  # the search ends when the buffers either side of the target differ by less than this factor
DEVIATIONS = (*range(1, 100), 99.5, 99.9)  # percentiles of Fig. 9(c) that are kept


@dataclass(frozen=True)
class Setting:
    """The experiment of section 5.3; flows start at random in the first `start_spread_s` seconds.

    target : share of the bottleneck's rate that a buffer must keep busy.
    round_trip_spread : senders' round trips lie evenly within round_trip_ms times 1 - spread to 1 + spread.
    jitter_ms : of the senders' links, as Link takes it; none is published.
    senders : hosts that the flows are shared out among, at most. clock_skew_ppm : as simulate takes it.

    Raises NetreproError for a target or spread that is no such share.
    """

    rate_mbps: float = 62.5
    round_trip_ms: float = 87.0
    target: float = 0.99
    congestion_control: str = "reno"
    round_trip_spread: float = 0.0
    jitter_ms: float = 0.0
    start_spread_s: float = 3.0
    senders: int = 20
    delayed_ack_ms: float = 40.0
    clock_skew_ppm: float = 100.0

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise NetreproError(f"target = {self.target}", "give a share of the link's rate between 0 and 1")
        if not 0 <= self.round_trip_spread < 1:
            raise NetreproError(f"round_trip_spread = {self.round_trip_spread}", "give a share from 0 to below 1")

    @property
    def pipe_packets(self) -> float:
        """RTT C, the bandwidth-delay product, in full packets."""
        return self.rate_mbps * 1e3 * self.round_trip_ms / 8 / FULL_PACKET_BYTES


PRINTED = Setting()


def synchronised(setting: Setting) -> Setting:
    """The control: nothing tells the flows apart, so that they lose packets, and halve, together.

    One host, starts within a millisecond, identical clocks, one acknowledgement a segment.
    """
    return replace(setting, senders=1, start_spread_s=0.001, clock_skew_ppm=0.0, delayed_ack_ms=0.0)


@dataclass(frozen=True)
class Scale:
    """What a profile measures: numbers of flows, and the least time that a run is measured for.

    control_flows : numbers of synchronised flows. around_theory : buffers from a sixteenth of theory's to four times it
    are tried, not all up to MOST_PIPES. most_repetitions : None for any.
    """

    flow_counts: tuple[int, ...]
    least_s: float
    control_flows: tuple[int, ...] = CONTROL_FLOWS
    around_theory: bool = False
    resolution: float = RESOLUTION
    most_repetitions: int | None = None

    def range_packets(self, flows: int, setting: Setting) -> tuple[int, int]:
        """The least and the largest buffer that a search tries."""
        most = MOST_PIPES * setting.pipe_packets
        if not self.around_theory:
            return 1, round(most)
        theory = float(theory_packets(flows, setting))
        return max(1, round(theory / 16)), round(min(most, 4 * theory))


def scale(profile: str, tier: str = "simulated") -> Scale:
    """The scale of profile "quick" or "paper" on a tier. Raises NetreproError for another.

    A kernel works for a second or two for each run, and twenty for one of one flow.
    """
    scales = {"quick": Scale(FLOW_COUNTS, 10.0), "paper": Scale(PAPER_FLOW_COUNTS, 60.0)}
    if tier != "simulated":
        scales = {
            "quick": Scale((50, 100), 5.0, (50, 100), around_theory=True, resolution=1.4, most_repetitions=2),
            "paper": Scale(PAPER_FLOW_COUNTS, 10.0),
        }
    return of_profile(profile, scales)


def theory_packets(flows: float | np.ndarray, setting: Setting = PRINTED) -> float | np.ndarray:
    """RTT C / sqrt(n) in full packets."""
    return setting.pipe_packets / np.sqrt(flows)


def sawtooth_utilisation(buffer_over_pipe: float) -> float:
    """Utilisation by one Reno flow whose window falls to half of pipe and buffer together, in closed form.

    The window grows by a packet a round trip; below the pipe a round trip carries a window of it, above it the
    queue stretches the round trip and nothing is lost. Share of RTT C as buffer, 0 to 1.
    """
    b = buffer_over_pipe
    filling, waiting = (1 - b) / 2, b + b * b / 2
    return 1 - (1 - b) ** 2 / 8 / (filling + waiting)


def sawtooth_s(flows: int, setting: Setting = PRINTED) -> float:
    """Time between halvings of one of n Reno flows, with the buffer of theory."""
    share = 1 / np.sqrt(flows)
    rounds = setting.pipe_packets * (1 + share) / flows / 2
    return float(rounds * setting.round_trip_ms * 1e-3 * (1 + share / 2))


def warm_up_s(flows: int, setting: Setting = PRINTED) -> float:
    """Flows have started, and slow start's overshoot is repaired, a period of the sawtooth later."""
    return setting.start_spread_s + 3.0 + sawtooth_s(flows, setting)


def experiment(flows: int, buffer_packets: int, setting: Setting, least_s: float, seed: int) -> Experiment:
    """n long flows from the senders to one receiver, over one bottleneck: what any tier runs."""
    senders = min(flows, setting.senders)
    stretch = setting.round_trip_spread * (np.linspace(-1, 1, senders) if senders > 1 else np.zeros(1))
    cables = [
        host_cable(
            f"h{i + 1}",
            "s1",
            Link(HOST_MBPS, float(setting.round_trip_ms / 2 * (1 + share)), ROOMY, jitter_ms=setting.jitter_ms),
        )
        for i, share in enumerate(stretch)
    ]
    bottleneck = Link(setting.rate_mbps, 0.0, DropTail(packets=buffer_packets))
    receiver = f"h{senders + 1}"
    cables += [
        Cable(*PORT, bottleneck, replace(bottleneck, queue=ROOMY)),
        host_cable(receiver, "s2", Link(HOST_MBPS, 0.0, ROOMY)),
    ]
    seconds = warm_up_s(flows, setting) + max(least_s, PERIODS * sawtooth_s(flows, setting))
    starts = np.random.default_rng(seed).uniform(0, setting.start_spread_s, flows)
    traffic = [
        Flow(f"h{i % senders + 1}", receiver, duration_s=seconds - start, start_s=start)
        for i, start in enumerate(starts.tolist())
    ]
    return Experiment(
        Topology(tuple(cables), f"{flows} flows"),
        tuple(traffic),
        seconds,
        seed,
        Measure(packets=(PORT,)),
        Tcp(setting.congestion_control, delayed_ack_ms=setting.delayed_ack_ms),
    )


# Measuring.


def utilisation(found: Measurements, from_s: float) -> float:
    """Bits that left the bottleneck from `from_s` on, as a share of what it could have sent."""
    packets = found.packets
    bits = 8 * packets["size_bytes"].to_numpy()[packets["time_s"].to_numpy() >= from_s].sum()
    rate_bps = found.experiment.topology.link(*PORT).rate_mbps * 1e6
    return float(bits / rate_bps / (found.experiment.duration_s - from_s))


def check_fidelity(found: Measurements) -> pd.DataFrame:
    """The tier's own checks, and Fig. 9(c)'s: full packets must leave the busy link one packet time apart.

    At least 90 % within 10 % of the ideal (193.8 us at 62.5 Mb/s), as in the paper with 800 flows; and the busy
    link's rate within 1 %. Columns: check, value, bound, holds.
    """
    ideal_s, gap_s = _busy_gaps_s(found)
    off = abs(ideal_s / gap_s.mean() - 1) if len(gap_s) else np.nan
    near = float((abs(gap_s - ideal_s) <= 0.1 * ideal_s).mean()) if len(gap_s) else np.nan
    rows = [
        ("gaps within 10 %", near, 0.9, bool(near >= 0.9)),
        ("busy link off its rate", off, 0.01, bool(off <= 0.01)),
    ]
    ours = pd.DataFrame(rows, columns=["check", "value", "bound", "holds"])
    return pd.concat([found.fidelity, ours], ignore_index=True)


def _busy_gaps_s(found: Measurements) -> tuple[float, np.ndarray]:
    """The ideal gap between full packets, and the gaps that were a busy link's, where packets say how they waited."""
    ideal_s = FULL_PACKET_BYTES * 8 / (found.experiment.topology.link(*PORT).rate_mbps * 1e6)
    gap_s = np.diff(found.packets["time_s"].to_numpy())
    rest = found.packets.iloc[1:]
    # A packet that waited longer than the gap before it found the link busy from end to end.
    busy = (rest["wait_ms"].to_numpy() * 1e-3 >= gap_s) & (rest["size_bytes"].to_numpy() == FULL_PACKET_BYTES)
    return ideal_s, gap_s[busy]


def gap_deviations(found: Measurements) -> np.ndarray:
    """How far the gaps of the busy bottleneck are from the ideal, as shares of it (Fig. 9c), shape (gaps,)."""
    ideal_s, gap_s = _busy_gaps_s(found)
    return np.abs(gap_s - ideal_s) / ideal_s


@dataclass(frozen=True)
class Search:
    """The outcome of a search: the buffer, whether any buffer was enough, and what was tried (packets, share)."""

    buffer_packets: float
    reached: bool
    probes: tuple[tuple[int, float], ...]


def smallest_buffer(
    probe: Callable[[int], float],
    target: float,
    most_packets: int,
    least_packets: int = 1,
    resolution: float = RESOLUTION,
    expected_packets: float | None = None,
) -> Search:
    """The smallest buffer (packets) whose utilisation is `target`, searched from `least_packets` to `most_packets`.

    Bisection on a logarithmic scale to within `resolution`, of the whole range, or of what halving or doubling the
    `expected_packets` until the target is passed leaves of it. `probe` is noisy, and one wrong answer would mislead a
    bisection for good; so all that was measured is fitted by a line that never falls (isotonic regression), and the
    buffer is where that line crosses the target. `most_packets` where even that is not enough, and `reached` False.
    """
    tried: dict[int, float] = {}

    def enough(buffer_packets: int) -> bool:
        tried[buffer_packets] = probe(buffer_packets)
        return tried[buffer_packets] >= target

    low, high = least_packets, most_packets
    guess = least_packets if expected_packets is None else round(expected_packets)
    while low < guess < high and not {low, high} <= tried.keys():
        if enough(guess):
            high, guess = guess, guess // 2
        else:
            low, guess = guess, guess * 2
    while high - low > 1 and high / low > resolution:
        middle = min(max(round(np.sqrt(low * high)), low + 1), high - 1)
        low, high = (low, middle) if enough(middle) else (middle, high)
    for end in {low, high} - tried.keys():  # an end of the range that the bisection ran into
        enough(end)
    probes = tuple(sorted(tried.items()))
    buffers, shares = np.array(probes).T
    line = isotonic_regression(shares).x
    if line[-1] < target:
        return Search(float(most_packets), False, probes)
    above = int(np.argmax(line >= target))
    if above == 0:
        return Search(float(buffers[0]), True, probes)
    part = (target - line[above - 1]) / (line[above] - line[above - 1])
    return Search(float(buffers[above - 1] * (buffers[above] / buffers[above - 1]) ** part), True, probes)


def search(
    flows: int, setting: Setting, scale: Scale, seeds: Sequence[int], tier: str = "simulated"
) -> tuple[Search, pd.DataFrame, np.ndarray]:
    """The smallest buffer for n flows, the fidelity checks of all runs of the search, and percentiles (DEVIATIONS) of
    how far the gaps of the busy link were from the ideal.

    A probe within CLOSE of the target is repeated with the further seeds, and is their mean. All buffers see the same
    seeds, so that they are compared on equal terms.
    """
    runs: list[Run] = []

    def share(buffer_packets: int, seed: int) -> float:
        runs.append(_run(flows, buffer_packets, seed, setting, scale.least_s, tier))
        return runs[-1][0]

    def probe(buffer_packets: int) -> float:
        shares = [share(buffer_packets, seeds[0])]
        if abs(shares[0] - setting.target) <= CLOSE:
            shares += [share(buffer_packets, seed) for seed in seeds[1:]]
        return float(np.mean(shares))

    least, most = scale.range_packets(flows, setting)
    expected = float(theory_packets(flows, setting))
    found = smallest_buffer(probe, setting.target, most, least, scale.resolution, expected)
    _, checks, deviations = zip(*runs, strict=True)
    gaps = np.concatenate(deviations)
    percentiles = np.percentile(gaps, DEVIATIONS) if len(gaps) else np.full(len(DEVIATIONS), np.nan)
    return found, pd.concat(checks, ignore_index=True), percentiles


Run = tuple[float, pd.DataFrame, np.ndarray]  # utilisation, checks, deviations of gaps


def _run(flows: int, buffer_packets: int, seed: int, setting: Setting, least_s: float, tier: str = "simulated") -> Run:
    asked = experiment(flows, buffer_packets, setting, least_s, seed)
    found = run_experiment(asked, tier, clock_skew_ppm=setting.clock_skew_ppm)
    return utilisation(found, warm_up_s(flows, setting)), check_fidelity(found), gap_deviations(found)


@dataclass(frozen=True)
class Sweep(CheckedRuns):
    """Searches over numbers of flows and repetitions, as published and synchronised.

    buffers : case ("published" or "synchronised"), flows, repetition, buffer_packets, reached.
    probes : case, flows, repetition, tried_packets, utilisation. fidelity : case, flows, repetition, check, value,
    bound, holds; a row a check and run. deviations : case, flows, repetition, percent, deviation (share of the ideal
    gap) of the busy link's gaps. tier : where they ran.
    """

    buffers: pd.DataFrame
    probes: pd.DataFrame
    fidelity: pd.DataFrame
    deviations: pd.DataFrame
    tier: str = "simulated"


def measure(
    scale: Scale,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    n_jobs: int = 1,
    tier: str = "simulated",
    progress: Progress = iter,
) -> Sweep:
    """Search for every number of flows, and for the scale's control with synchronised flows (two repetitions of these).

    n_jobs : processes that joblib spreads searches over; the result does not depend on it. Every search draws its seeds
    from SeedSequence([seed, flows, repetition]). `progress` wraps the list of searches.
    """
    repetitions = min(repetitions, scale.most_repetitions or repetitions)
    cases = {"published": (setting, scale.flow_counts), "synchronised": (synchronised(setting), scale.control_flows)}
    work = [
        (case, used, flows, repetition)
        for case, (used, counts) in cases.items()
        for repetition in range(repetitions if case == "published" else min(repetitions, 2))
        for flows in sorted(counts, reverse=True)  # the longest first, so that the processes end together
    ]
    return _search_all(work, scale, seed, n_jobs, progress, tier)


def _search_all(
    work: Sequence[tuple], scale: Scale, seed: int, n_jobs: int, progress: Progress, tier: str = "simulated"
) -> Sweep:
    tasks = [
        delayed(search)(flows, used, scale, _seeds(seed, flows, repetition), tier)
        for _, used, flows, repetition in work
    ]
    outcomes = iter(Parallel(n_jobs=n_jobs, return_as="generator")(tasks))
    buffers, probes, fidelity, deviations = [], [], [], []
    for case, _, flows, repetition in progress(work):
        outcome, checks, off = next(outcomes)
        label = {"case": case, "flows": flows, "repetition": repetition}
        buffers.append(label | {"buffer_packets": outcome.buffer_packets, "reached": outcome.reached})
        probes += [label | {"tried_packets": packets, "utilisation": share} for packets, share in outcome.probes]
        fidelity.append(checks.assign(**label))
        deviations.append(pd.DataFrame({"percent": DEVIATIONS, "deviation": off}).assign(**label))
    checks, gaps = (pd.concat(parts, ignore_index=True) for parts in (fidelity, deviations))
    return Sweep(pd.DataFrame(buffers), pd.DataFrame(probes), checks, gaps, tier)


def beside(
    sweep: Sweep,
    repetitions: int,
    seed: int,
    *,
    setting: Setting = PRINTED,
    n_jobs: int = 1,
    progress: Progress = iter,
) -> Sweep:
    """The same numbers of flows in the simulator, with synchronised ones where the control has them; `sweep` itself
    where that was the simulator's."""
    if sweep.tier == "simulated":
        return sweep
    counts = tuple(sorted(set(sweep.buffers["flows"])))
    scale = Scale(counts, 10.0, tuple(flows for flows in counts if flows in CONTROL_FLOWS))
    return measure(scale, repetitions, seed, setting=setting, n_jobs=n_jobs, progress=progress)


def tier_table(sweeps: Sequence[Sweep], setting: Setting = PRINTED) -> pd.DataFrame:
    """A row a number of flows, a column a tier: the mean of the buffers (packets), beside theory's."""
    means = {each.tier: _table(each, "published").mean() for each in sweeps}
    table = pd.DataFrame(means).dropna(how="all").sort_index()
    table.insert(0, "theory", theory_packets(table.index.to_numpy(float), setting))
    return table


def _seeds(seed: int, flows: int, repetition: int) -> tuple[int, ...]:
    return tuple(np.random.SeedSequence([seed, flows, repetition]).generate_state(3).tolist())


def hardware_buffers() -> pd.DataFrame:
    """What the hardware and Mininet-HiFi needed (Fig. 9b): source, flows, mean_packets, low_packets, high_packets."""
    return pd.read_csv(data_dir("buffer_sizing") / "published_buffers.csv", comment="#")


def summary(sweep: Sweep, setting: Setting = PRINTED) -> pd.DataFrame:
    """A row a number of flows: theory, our mean, least and most, and the synchronised flows' mean (packets)."""
    grouped = sweep.buffers.groupby(["case", "flows"])["buffer_packets"]
    ours = grouped.agg(["mean", "min", "max"]).loc["published"].add_suffix("_packets")
    together = _table(sweep, "synchronised").mean().rename("synchronised_packets")
    ours.insert(0, "theory_packets", theory_packets(ours.index.to_numpy(), setting))
    return ours.assign(over_theory=ours["mean_packets"] / ours["theory_packets"]).join(together)


# Claims.


def measured_claims(sweep: Sweep, setting: Setting = PRINTED) -> list[Measured]:
    """One measurement a claim of data/buffer_sizing/claims.yaml whose numbers of flows were searched.

    Without synchronised flows there are no controls, and such a verdict does not count.
    """
    ours, broken = _table(sweep, "published"), _table(sweep, "synchronised")
    pipe, counts = setting.pipe_packets, set(ours)
    values = {}
    if counts >= set(SLOPE_RANGE):
        values["exponent-of-n"] = _exponents(ours), _exponents(broken)
        values["bounded-by-theory"] = _greatest_ratios(ours, setting), _greatest_ratios(broken, setting)
    if counts >= {1, 100}:
        values["one-flow-needs-the-pipe"] = ours[1] / pipe, ours[100] / pipe
        together = broken[100] / ours[1].mean() if 100 in broken else np.empty(0)
        values["hundred-flows-need-a-tenth"] = ours[100] / ours[1], together
    for flows in counts.intersection(HARDWARE_FLOWS):
        values[f"hardware-{flows}-flows"] = ours[flows], broken[flows] if flows in broken else np.empty(0)
    return [
        Measured(claim=claim, values=list(right), **({"control": list(wrong)} if len(wrong) else {}), **sweep.trust)
        for claim, (right, wrong) in values.items()
    ]


def _table(sweep: Sweep, case: str) -> pd.DataFrame:
    """Buffers (packets), a row a repetition, a column a number of flows."""
    rows = sweep.buffers[sweep.buffers["case"] == case]
    return rows.pivot(index="repetition", columns="flows", values="buffer_packets")


def _exponents(table: pd.DataFrame) -> np.ndarray:
    if table.empty:
        return np.empty(0)
    within = table.loc[:, SLOPE_RANGE[0] : SLOPE_RANGE[1]]
    return np.polyfit(np.log(within.columns.to_numpy(float)), np.log(within.to_numpy().T), 1)[0]


def _greatest_ratios(table: pd.DataFrame, setting: Setting) -> np.ndarray:
    many = table.loc[:, 2:]
    return (many / theory_packets(many.columns.to_numpy(float), setting)).max(axis=1).to_numpy()


def answer(sweep: Sweep, setting: Setting = PRINTED) -> str:
    """The paper's question answered in one sentence, with this run's numbers."""
    ours, broken = _table(sweep, "published"), _table(sweep, "synchronised")
    if 100 not in broken or not set(ours) >= {1, *SLOPE_RANGE}:
        found = ", ".join(f"{means:.0f} packets for {flows} flows" for flows, means in ours.mean().items())
        theory = ", ".join(f"{theory_packets(flows, setting):.0f}" for flows in ours)
        return f"On the {sweep.tier} tier the link is {100 * setting.target:g} % busy with {found} (theory: {theory})."
    return (
        f"From 2 to 100 flows the buffer falls as n to the power {_exponents(ours).mean():.2f} (theory: -0.50): "
        f"{ours[1].mean():.0f} packets for one flow, {ours[100].mean():.0f} for 100; flows that halve together need "
        f"{broken[100].mean():.0f} for 100."
    )


# Knobs.


def variants(setting: Setting = PRINTED) -> dict[str, Setting]:
    """The knobs that the paper did not turn, one at a time."""
    return {
        "CUBIC": replace(setting, congestion_control="cubic"),
        "target 98 %": replace(setting, target=0.98),
        "round trips ± 50 %": replace(setting, round_trip_spread=0.5),
        "jitter 0.5 ms": replace(setting, jitter_ms=0.5),
    }


def differences(setting: Setting = PRINTED) -> dict[str, Setting]:
    """From the experiment as published to synchronised flows, one difference taken away after the other."""
    steps = {
        "as published": {},
        "one sending host": {"senders": 1},
        "and identical clocks": {"clock_skew_ppm": 0.0},
        "and starts within 1 ms": {"start_spread_s": 0.001},
        "and no delayed acknowledgements": {"delayed_ack_ms": 0.0},
        "only no delayed acknowledgements": {"delayed_ack_ms": 0.0},
    }
    found: dict[str, Setting] = {}
    for name, change in steps.items():
        before = list(found.values())[-1] if name.startswith("and ") else setting
        found[name] = replace(before, **change)  # type: ignore[arg-type]
    return found


def compare(
    cases: dict[str, Setting],
    flow_counts: Sequence[int],
    scale: Scale,
    seed: int,
    *,
    n_jobs: int = 1,
    progress: Progress = iter,
) -> pd.DataFrame:
    """One simulated search for every case and number of flows: the columns of Sweep.buffers, without repetition."""
    work = [(case, used, flows, 0) for case, used in cases.items() for flows in flow_counts]
    return _search_all(work, scale, seed, n_jobs, progress).buffers.drop(columns="repetition")


def utilisation_curves(
    cases: dict[str, Setting],
    flows: int,
    least_s: float,
    seed: int,
    *,
    tried_packets: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128, 256),
    n_jobs: int = 1,
) -> pd.DataFrame:
    """Utilisation over given buffers, one run each: case, flows, tried_packets, utilisation."""

    work = [(case, used, packets) for case, used in cases.items() for packets in tried_packets]
    place = _seeds(seed, flows, 0)[0]
    tasks = [delayed(_run)(flows, packets, place, used, least_s) for _, used, packets in work]
    shares = [share for share, *_ in Parallel(n_jobs=n_jobs)(tasks)]
    rows = [(case, flows, packets, share) for (case, _, packets), share in zip(work, shares, strict=True)]
    return pd.DataFrame(rows, columns=["case", "flows", "tried_packets", "utilisation"])


# Figures.


def draw_network(setting: Setting = PRINTED) -> Figure:
    """Senders, a router with the buffer in question, a receiver (Fig. 9a)."""
    figure, axis = new_figure("n long flows meet at one router (Fig. 9a)", "", "")
    axis.axis("off")
    places = {"h1": (0, 1), "h2": (0, 0.35), "h20": (0, -1), "s1": (1.5, 0), "s2": (3, 0), "receiver": (4.3, 0)}
    for name, (x, y) in places.items():
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": scheme("tcp").colour}
        axis.text(x, y, name, ha="center", va="center", bbox=box, fontsize=12)
    axis.text(0, -0.35, "...", ha="center", rotation=90)
    for y in (1, 0.35, -1):
        axis.annotate("", (1.25, 0.1 * y), (0.3, 0.9 * y), arrowprops={"arrowstyle": "->"})
    axis.annotate("", (2.75, 0), (1.75, 0), arrowprops={"arrowstyle": "->", "linewidth": 2})
    axis.annotate("", (3.85, 0), (3.25, 0), arrowprops={"arrowstyle": "->"})
    axis.text(2.2, -0.15, f"{setting.rate_mbps:g} Mb/s\nbuffer: how many packets?", ha="center", va="top", fontsize=9)
    axis.text(1.5, 1.05, f"round trip {setting.round_trip_ms:g} ms", ha="center")
    axis.set(xlim=(-0.5, 4.9), ylim=(-1.4, 1.4))
    return figure


def draw_buffers(sweep: Sweep, setting: Setting = PRINTED) -> Figure:
    """The smallest buffer over the number of flows, beside theory, hardware and emulation (Fig. 9b)."""
    figure, axis = new_figure("Buffer for the target utilisation (Fig. 9b)", "", "", log_x=True, log_y=True)
    _theory_line(axis, setting, 800)
    for source, marker in (("hardware", "D"), ("Mininet-HiFi", "s")):
        rows = hardware_buffers()[lambda table, name=source: table["source"] == name]
        draw_published(axis, rows["flows"], rows["mean_packets"], f"{source}, mean and range")
        axis.lines[-1].set_marker(marker)
        axis.vlines(rows["flows"], rows["low_packets"], rows["high_packets"], color=PUBLISHED_GREY, lw=1, zorder=1)
    _points(axis, sweep, "published", "simulated", f"{sweep.tier}, every repetition")
    _flow_axis(axis)
    return figure


def draw_control(sweep: Sweep, setting: Setting = PRINTED) -> Figure:
    """Synchronised flows beside those as published: they need the whole pipe again."""
    figure, axis = new_figure("Broken on purpose: flows that halve together", "", "", log_x=True, log_y=True)
    _theory_line(axis, setting, 400)
    axis.axhline(setting.pipe_packets, color="black", linestyle="--", linewidth=1, label="RTT C")
    _points(axis, sweep, "published", "simulated", "as published")
    _points(axis, sweep, "synchronised", "control", "synchronised")
    _flow_axis(axis)
    return figure


def draw_search(sweep: Sweep, setting: Setting = PRINTED, shown: Sequence[int] = (2, 20, 100, 200)) -> Figure:
    """Everything that the searches tried: utilisation over the buffer; dashed: the target. Of `shown` numbers of flows,
    or where some of these were not measured, of the fewest flows that were."""
    figure, axis = new_figure("What the searches saw", "buffer (packets)", "utilisation", log_x=True)
    published = sweep.probes[sweep.probes["case"] == "published"]
    measured = sorted(set(published["flows"]))
    for colour, flows in zip(CURVES, shown if set(shown) <= set(measured) else measured, strict=False):
        rows = published[published["flows"] == flows]
        rows = rows.sort_values("tried_packets")
        axis.plot(rows["tried_packets"], rows["utilisation"], "o", color=colour, label=f"{flows} flows")
    axis.axhline(setting.target, color="black", linestyle="--", linewidth=1, label="target")
    axis.legend()
    return figure


def draw_fidelity(sweep: Sweep) -> Figure:
    """How far the busy link's gaps were from a packet time (Fig. 9c), a curve a number of flows; dashed: what the paper
    states of its own emulator."""
    figure, axis = new_figure(
        "Gaps between packets of the busy link (Fig. 9c)",
        "deviation from a packet time (%)",
        "share of gaps",
        log_x=True,
    )
    rows = sweep.deviations[sweep.deviations["case"] == "published"].dropna()
    for colour, (flows, part) in zip(CURVES, rows.groupby("flows"), strict=False):
        curve = part.groupby("percent")["deviation"].mean()
        label = f"{flows} flow{'s' * (flows > 1)}, {sweep.tier}"
        axis.plot(100 * curve.clip(lower=1e-5), curve.index / 100, color=colour, label=label)
    stated = load_claims("emulator_fidelity").claim("many-flows-within-ten-percent").published
    corner = [10, 10, 1e-3], [0, stated, stated]
    axis.plot(*corner, color=PUBLISHED_GREY, linestyle="--", label="800 flows, Mininet-HiFi")
    axis.set_ylim(0, 1)
    axis.legend(fontsize=8, loc="best")
    return figure


def draw_variants(table: pd.DataFrame, sweep: Sweep, setting: Setting = PRINTED) -> Figure:
    """The buffers of `compare(variants())`, beside the experiment as published and the hardware."""
    figure, axis = new_figure("What else sets the buffer?", "", "", log_x=True, log_y=True)
    _theory_line(axis, setting, 400)
    hardware = hardware_buffers()[lambda rows: rows["source"] == "hardware"]
    draw_published(axis, hardware["flows"], hardware["mean_packets"], "hardware (BIC)")
    _points(axis, sweep, "published", "simulated", "the experiment of Fig. 9(b)")
    for colour, (case, rows) in zip(CURVES, table.groupby("case", sort=False), strict=False):
        axis.plot(rows["flows"], rows["buffer_packets"], "o-", color=colour, linewidth=1, label=case)
    _flow_axis(axis)
    return figure


def draw_curves(table: pd.DataFrame, setting: Setting = PRINTED) -> Figure:
    """Utilisation over the buffer, a curve a case of `utilisation_curves`; dashed: the target."""
    (flows,) = set(table["flows"])
    figure, axis = new_figure(f"{flows} flows: use of the link", "buffer (packets)", "utilisation", log_x=True)
    for colour, (case, rows) in zip(CURVES, table.groupby("case", sort=False), strict=False):
        axis.plot(rows["tried_packets"], rows["utilisation"], "o-", color=colour, linewidth=1, label=case)
    axis.axhline(setting.target, color="black", linestyle="--", linewidth=1, label="target")
    axis.axvline(theory_packets(flows, setting), color=PUBLISHED_GREY, label="RTT C / sqrt(n)")
    axis.legend()
    return figure


def draw_differences(table: pd.DataFrame, setting: Setting = PRINTED) -> Figure:
    """The buffers of `compare(differences())` as bars, beside theory and RTT C."""
    (flows,) = set(table["flows"])
    figure, axis = new_figure(f"What keeps {flows} flows out of step", "smallest buffer (packets)", "")
    axis.barh(table["case"], table["buffer_packets"], color=scheme("simulated").colour)
    axis.axvline(theory_packets(flows, setting), color=PUBLISHED_GREY, label="RTT C / sqrt(n)")
    axis.axvline(setting.pipe_packets, color="black", linestyle="--", linewidth=1, label="RTT C")
    axis.invert_yaxis()
    axis.legend()
    return figure


def _theory_line(axis: Axes, setting: Setting, most_flows: int) -> None:
    flows = np.geomspace(1, most_flows, 50)
    axis.plot(flows, theory_packets(flows, setting), color=PUBLISHED_GREY, label="theory: RTT C / sqrt(n)")


def _points(axis: Axes, sweep: Sweep, case: str, look: str, label: str) -> None:
    rows = sweep.buffers[sweep.buffers["case"] == case]
    kind = scheme(look)
    axis.plot(rows["flows"], rows["buffer_packets"], kind.marker, color=kind.colour, label=label)
    means = rows.groupby("flows")["buffer_packets"].mean()
    axis.plot(means.index, means, color=kind.colour, linewidth=1)


def _flow_axis(axis: Axes) -> None:
    axis.set(xlabel="long flows", ylabel="smallest buffer (packets)")
    ticks = [1, 2, 5, 10, 20, 50, 100, 200, 400, 800]
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.legend(fontsize=8)


def explore() -> object:
    """Sliders for flows and buffer, and a menu for the congestion control; the simulator redraws the queue at once."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "flows": widgets.IntSlider(20, min=1, max=200, description="flows"),
        "buffer_packets": widgets.IntSlider(100, min=1, max=600, description="buffer (packets)"),
        "congestion_control": widgets.Dropdown(options=["reno", "cubic"], description="TCP"),
        "together": widgets.Checkbox(False, description="synchronised"),
    }

    def redraw(flows: int, buffer_packets: int, congestion_control: str, together: bool) -> None:
        setting = replace(PRINTED, congestion_control=congestion_control)
        setting = synchronised(setting) if together else setting
        asked = experiment(flows, buffer_packets, setting, 10.0, 1)
        asked = replace(asked, measure=Measure(queues=(PORT,), packets=(PORT,)))
        found = simulate(asked, clock_skew_ppm=setting.clock_skew_ppm)
        from_s = warm_up_s(flows, setting)
        title = f"{100 * utilisation(found, from_s):.1f} % utilisation; theory's buffer is"
        figure, axis = new_figure(f"{title} {theory_packets(flows):.0f} packets", "time (s)", "queue (packets)")
        rows = found.queues[found.queues.time_s >= from_s]
        axis.plot(rows.time_s, rows.queue_packets, color=scheme("simulated").colour, linewidth=1)
        display(figure)

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])
