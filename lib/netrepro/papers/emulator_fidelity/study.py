"""How true an emulated link is: Handigol et al., "Reproducible Network Experiments Using Container-Based Emulation"
(Mininet-HiFi, CoNEXT 2012), Figs 1, 7 and 9(c).

A busy link sends a full packet every 1514 bytes / rate. How far the packets of an emulated link are from that tells
whether its results can be believed (section 3.3); and what one host computes must not slow another host's network.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.claims import Measured
from netrepro.emulation.fidelity import LEAST_BUSY_GAPS, STALLED, STARVED, inter_dequeue_deviation
from netrepro.emulation.real_time.guests import Guest
from netrepro.emulation.real_time.machine import guest_prefix
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.tiers import missing_feature, probe_tiers, why_no_processes
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow
from netrepro.papers.emulator_fidelity.builds import COLUMNS, OURS, compare_builds
from netrepro.study import Progress, in_real_time, of_profile, run_experiment, seed_of
from netrepro.study.pictures import say_not_measured
from netrepro.style import PUBLISHED_GREY, draw_published, new_figure

PORT = ("s1", "s2")
GUEST_CORES = 1.0  # that all background hosts share, where they are isolated
BUSY_LOOP = ["sh", "-c", "read begin; while :; do :; done"]
FRAMES_BYTES = 131_072  # of a bucket that lets any frame that TCP builds pass whole
PERCENT = np.geomspace(0.01, 1e4, 240)  # deviations at which distributions are drawn
COLOURS = {10: "#009E73", 62.5: "#CC79A7", 100: "#0072B2", 200: "#000000", 1000: "#D55E00"}


# Shares of the time beside the link of 100 Mb/s, from which on the machine was not its own. Beside much other work the
# second was 0.95.
MOST_WAITED = {STARVED: 0.1, STALLED: 0.5}
# A link whose queue is empty behind most packets shows its senders' spacing, not its own.
LEAST_BUSY_SHARE = 0.5


@dataclass(frozen=True)
class Case:
    """One link under `flows` long TCP flows; `busy_hosts` others compute beside it, isolated or not.

    large_frames : segmentation offload as Linux has it by default, and a shaper that lets its frames pass.
    """

    rate_mbps: float
    flows: int = 1
    delay_ms: float = 0.0
    buffer_packets: int = 100
    busy_hosts: int = 0
    isolated: bool = False
    large_frames: bool = False

    @property
    def only_emulated(self) -> bool:
        """True where virtual time has no such thing."""
        return bool(self.busy_hosts) or self.large_frames

    def cannot(self, tier: str) -> str:
        """Say why a tier has no such link; else ""."""
        if not in_real_time(tier):
            return "hosts that compute cost no virtual time" if self.only_emulated else ""
        if self.large_frames and not (shutil.which("ip") and shutil.which("tc")):
            return "no ip and tc on this machine"
        return missing_feature("netem", tier) if self.delay_ms else ""


@dataclass(frozen=True)
class Scale:
    """The seconds for which every run is looked at (the paper: 2 s), and the numbers of hosts that compute beside the
    link of Fig. 1."""

    window_s: float
    busy_hosts: tuple[int, ...]


LINKS = {f"{rate} Mb/s": Case(rate) for rate in (10, 100, 1000)}
MANY_FLOWS, OFFLOADED = "800 flows, 62.5 Mb/s", "100 Mb/s, offloading left on"
BESIDE_BUSY = "1000 Mb/s beside 16 busy hosts"
# Fig. 9(a): the round trip is 87 ms; the buffer is the bandwidth-delay product of one flow.
SPECIAL = {
    MANY_FLOWS: Case(62.5, flows=800, delay_ms=43.5, buffer_packets=450),
    OFFLOADED: Case(100, large_frames=True),
    BESIDE_BUSY: Case(1000, busy_hosts=16),
}


def scale(profile: str) -> Scale:
    """Return the scale of a profile. Raises NetreproError for another than quick and paper."""
    scales = {"quick": Scale(0.7, (0, 16)), "paper": Scale(2.0, (0, 1, 2, 4, 8, 16, 32))}
    return of_profile(profile, scales)


def load_case(busy_hosts: int, isolated: bool, rate_mbps: float = 200.0) -> tuple[str, Case]:
    """Name and case of one point of Fig. 1."""
    how = "alone" if not busy_hosts else f"{busy_hosts} busy hosts, {'isolated' if isolated else 'not isolated'}"
    return f"{rate_mbps:g} Mb/s, {how}", Case(rate_mbps, busy_hosts=busy_hosts, isolated=isolated)


def cases(chosen: Scale, rate_mbps: float = 200.0) -> dict[str, Case]:
    """Return every case of the notebook; `rate_mbps` is that of Fig. 1's link."""
    loads = [load_case(hosts, isolated, rate_mbps) for hosts in chosen.busy_hosts for isolated in (False, True)]
    return LINKS | SPECIAL | dict(loads)


def settle_s(case: Case) -> float:
    """Return the time after which the queue waits: a slow start, or the arrival of all flows."""
    return 0.2 if case.flows == 1 else 1.5


def experiment(case: Case, window_s: float, seed: int) -> Experiment:
    """Make the experiment that every tier runs: hosts h1... left and right of the port that is looked at; h1's flows
    cross it."""
    pairs = 1 + -(-case.busy_hosts // 2)
    access = Link(min(10 * case.rate_mbps, 2000.0), 0.0, DropTail(packets=1000))
    link = Link(case.rate_mbps, case.delay_ms, DropTail(packets=case.buffer_packets))
    until_s = settle_s(case) + window_s
    # They begin one after the other; 800 at once would be one burst.
    starts_s = np.arange(case.flows) / case.flows * 0.5
    flows = tuple(Flow("h1", f"h{pairs + 1}", duration_s=until_s - start, start_s=float(start)) for start in starts_s)
    # Reading a queue holds its lock, so seldom; yet most packets should have been seen to wait.
    seen_packets_ms = 0.4 * case.buffer_packets * FULL_PACKET_BYTES * 8 / (case.rate_mbps * 1e3)
    interval_ms = float(np.clip(seen_packets_ms, 0.4, 5.0))
    measure = Measure(queues=(PORT,), queue_interval_ms=interval_ms, packets=(PORT,))
    # Hosts take no time of ours: what is looked at is how exact the links are.
    return Experiment(dumbbell(pairs, access, link), flows, until_s, seed, measure, host_delay_packets=0)


def leave_offloading_on(net: RealTimeNetwork) -> None:
    """Undo at the link's two senders what keeps a frame to one packet."""
    bucket = f"burst {FRAMES_BYTES} limit {2 * FRAMES_BYTES}"
    for node, neighbour in (("h1", "s1"), PORT):
        name = net.plan.ports[neighbour, node].arrival_interface
        rate = f"{net.topology.link(node, neighbour).rate_mbps:g}mbit"
        renew = f"tc qdisc del dev {name} root && tc qdisc add dev {name} root tbf rate {rate} {bucket}"
        net[node].run(["sh", "-c", f"ip link set {name} gso_max_segs 65535 && {renew}"])


class BusyHosts:
    """Hosts that compute while the traffic runs, started by `prefix`: before and after it they would only delay us."""

    def __init__(self, case: Case, prefix: list[str]):
        self._case, self._prefix = case, prefix
        self._guests: list[Guest] = []

    def prepare(self, net: RealTimeNetwork) -> None:
        """Start them; they wait."""
        ends = {"h1", f"h{len(net.topology.hosts) // 2 + 1}"}
        others = [host for host in net.topology.hosts if host not in ends]
        self._guests = [net[host].popen([*self._prefix, *BUSY_LOOP]) for host in others[: self._case.busy_hosts]]

    def follow(self, share: float) -> None:
        """Compute from the beginning of the traffic to its end (share 1)."""
        for guest in self._guests:
            if share < 1:
                guest.stdin.close()  # type: ignore[union-attr]
            else:
                guest.kill()


@dataclass(frozen=True)
class Runs:
    """All repetitions of all cases.

    gaps : case, repetition, deviation (|gap - ideal| / ideal of full packets, the paper's). totals : case,
    repetition, rate_mbps, throughput_mbps (bytes on the wire), gaps (between packets behind which a queue waited),
    busy_share (of all gaps), within_1, within_10, within_40, within_10_if_faster (shares of gaps, the last for a link
    that claimed a rate 15 % higher), trusted (the certificate holds, of a link that was busy at all), isolation.
    fidelity : the certificates, case, repetition and FIDELITY_COLUMNS.
    """

    tier: str
    gaps: pd.DataFrame
    totals: pd.DataFrame
    fidelity: pd.DataFrame

    @property
    def why_untrusted(self) -> str:
        """The reason why these runs decide nothing, else "". Processes waited beside the link of 100 Mb/s, which keeps
        no processor busy, so that others used the machine; or packets escaped the recording."""
        checks = self.fidelity[["case", "check", "value"]]
        found = []
        for row in checks[checks["case"] == "100 Mb/s"].itertuples():
            bound = MOST_WAITED.get(row.check, np.inf)
            found += [f"{row.case}: {row.check}: {row.value:.2f} > {bound:g}"] if row.value > bound else []
        missed = checks[(checks["check"] == "packets missed") & (checks["value"] > 0)]
        found += [f"{row.case}: {row.value:.0f} packets missed" for row in missed.itertuples()]
        return "; ".join(found[:2]) + (f" and {len(found) - 2} more" if len(found) > 2 else "")


def measure(
    chosen: dict[str, Case], window_s: float, repetitions: int, seed: int, tier: str, *, progress: Progress = iter
) -> Runs:
    """Run every case; `progress` wraps the list of (repetition, case) that is worked through.

    What a tier cannot run is left out. Raises NetreproError as `emulate`.
    """
    wanted = {name: case for name, case in chosen.items() if not case.cannot(tier)}
    gaps, totals, fidelity = [], [], []
    for repetition, name in progress([(number, name) for number in range(repetitions) for name in wanted]):
        case, label = wanted[name], {"case": name, "repetition": repetition}
        place = seed_of(seed, repetition)
        with ExitStack() as stack:
            isolated = case.isolated and case.busy_hosts
            prefix, how = stack.enter_context(guest_prefix(GUEST_CORES)) if isolated else ([], "")
            busy = BusyHosts(case, prefix)
            prepare = leave_offloading_on if case.large_frames else busy.prepare
            found = run_experiment(experiment(case, window_s, place), tier, busy.follow, prepare=prepare)
        row, table = look(case, found)
        totals.append(label | row | {"isolation": how})
        gaps.append(table.assign(**label))
        fidelity.append(found.fidelity.assign(**label))
    join = partial(pd.concat, ignore_index=True)
    return Runs(tier, join(gaps), pd.DataFrame(totals), join(fidelity))


def measure_virtually(chosen: Scale, seed: int, progress: Progress = iter) -> Runs | None:
    """Measure the links of Fig. 7 and the 800 flows, once, on a kernel in virtual time, where hosts that compute cost
    nothing; None where there is no such kernel."""
    if why_no_processes():
        return None
    return measure(LINKS | {MANY_FLOWS: SPECIAL[MANY_FLOWS]}, chosen.window_s, 1, seed, "virtual", progress=progress)


def virtual_table(runs: Runs, virtual: Runs | None) -> pd.DataFrame:
    """Return the shares of gaps within 1 and 10 %, in real and in virtual time; NaN where not measured."""
    columns = ["within_1", "within_10"]
    times = {runs.tier: runs, "virtual": virtual}
    names = [*LINKS, MANY_FLOWS]
    tables = {
        tier: summary(found).reindex(names)[columns]
        if found
        else pd.DataFrame(index=names, columns=columns, dtype=float)
        for tier, found in times.items()
    }
    return pd.concat(tables, axis=1)


def look(case: Case, found: Measurements) -> tuple[dict[str, float | bool], pd.DataFrame]:
    """Read throughput and shares of gaps of one run, with the columns of Runs.totals, and the gaps themselves, with
    those of Runs.gaps."""
    packets = found.packets[found.packets["time_s"] >= settle_s(case)]
    full = packets[packets["size_bytes"] >= FULL_PACKET_BYTES]
    queues = found.queues
    gaps, faster = (
        inter_dequeue_deviation(
            full["time_s"].to_numpy(),
            np.full(len(full), FULL_PACKET_BYTES),  # what the paper divides by, whatever the frame
            case.rate_mbps * factor,
            queues["time_s"].to_numpy(),
            queues["queue_packets"].to_numpy(),
        )
        for factor in (1.0, 1.15)
    )
    deviation = gaps.deviation
    window_s = found.experiment.duration_s - settle_s(case)
    return {
        "rate_mbps": case.rate_mbps,
        "throughput_mbps": float(packets["size_bytes"].sum()) * 8e-6 / window_s,
        "gaps": len(deviation),
        "busy_share": len(deviation) / max(1, len(full) - 1),
        "within_1": share_within(deviation, 0.01),
        "within_10": share_within(deviation, 0.1),
        "within_40": share_within(deviation, 0.4),
        "within_10_if_faster": share_within(faster.deviation, 0.1),
        "trusted": found.trusted and len(deviation) >= LEAST_BUSY_GAPS,  # an idle port fails no check
    }, pd.DataFrame({"deviation": deviation.astype(np.float32)})


def share_within(deviation: np.ndarray, bound: float) -> float:
    """Compute the share of gaps that are at most `bound` off; 0 where the link was never busy: nothing shows it to be
    true."""
    return float(np.mean(deviation <= bound)) if len(deviation) else 0.0


def summary(runs: Runs) -> pd.DataFrame:
    """Return a row for each case: means over the repetitions, and how many of their certificates hold."""
    grouped = runs.totals.groupby("case", sort=False)
    columns = ["throughput_mbps", "gaps", "within_1", "within_10"]
    table = grouped[columns].mean().join(grouped["trusted"].agg(certified="sum", repetitions="size"))
    return table.join(grouped["isolation"].first())


def certificates(runs: Runs) -> pd.DataFrame:
    """Return the checks that failed, and in how many repetitions: case, check, their mean value, bound, failed."""
    failed = runs.fidelity[~runs.fidelity["holds"].astype(bool)]
    grouped = failed.groupby(["case", "check"], sort=False)
    return grouped.agg(value=("value", "mean"), bound=("bound", "first"), failed=("holds", "size"))


def build_times(tier: str) -> pd.DataFrame:
    """Measure the seconds in which this library and its peers build a fat-tree with k = 4, without root. The columns
    are those of compare_builds."""
    if tier == "simulated" or not probe_tiers().rootless.available:
        row = (OURS, np.nan, np.nan, "not measured: no namespaces without root, or the simulated tier was asked for")
        return pd.DataFrame([row], columns=COLUMNS)
    return compare_builds(times=1)


# Claims.


def measured_claims(runs: Runs) -> list[Measured]:
    """Return one measurement for each claim of data/emulator_fidelity/claims.yaml that this tier can give."""
    if runs.tier == "simulated":
        return []
    why = runs.why_untrusted

    def trust(case: str) -> dict[str, bool | str]:
        rows = runs.totals[runs.totals["case"] == case]
        idle = rows[(rows["gaps"] < LEAST_BUSY_GAPS) | (rows["busy_share"] < LEAST_BUSY_SHARE)]
        said = why
        if len(idle) and not why:
            said = (
                f"{case}: its senders left the link idle; a queue waited behind {idle.busy_share.min():.0%} of packets"
            )
        return {"trusted": not said, "why": said}

    def of(case: str, column: str) -> list[float] | None:
        found = runs.totals.loc[runs.totals["case"] == case, column].tolist()
        return found or None

    def utilisation(case: str) -> list[float] | None:
        rows = runs.totals[runs.totals["case"] == case]
        return (rows["throughput_mbps"] / rows["rate_mbps"]).clip(upper=1).tolist() or None  # a packet at the ends

    throughput = relative_throughput(runs)
    values = {
        "hundred-within-ten-percent": (of("100 Mb/s", "within_10"), of(OFFLOADED, "within_10")),
        "hundred-within-one-percent": (of("100 Mb/s", "within_1"), of(OFFLOADED, "within_1")),
        "gigabit-loses-fidelity": (of("1000 Mb/s", "within_10"), None),
        "many-flows-within-ten-percent": (of(MANY_FLOWS, "within_10"), None),
        "many-flows-one-in-a-hundred-far-off": (of(MANY_FLOWS, "within_40"), None),
        "gigabit-utilisation": (utilisation("1000 Mb/s"), utilisation(BESIDE_BUSY)),
        "isolated-throughput": (throughput.get(True), throughput.get(False)),
    }
    judged_by = {"gigabit-loses-fidelity": "1000 Mb/s"}
    judged_by |= dict.fromkeys(("many-flows-within-ten-percent", "many-flows-one-in-a-hundred-far-off"), MANY_FLOWS)
    return [
        Measured(claim=claim, values=ours, control=broken, **trust(judged_by.get(claim, "100 Mb/s")))
        for claim, (ours, broken) in values.items()
        if ours is not None
    ]


def relative_throughput(runs: Runs) -> dict[bool, list[float]]:
    """Compute the throughput beside the most busy hosts over the throughput alone: isolated or not -> a value for each
    repetition."""
    table = of_figure_1(runs)
    found = {}
    for isolated, rows in table.groupby("isolated"):
        by_load = rows.pivot(index="repetition", columns="busy_hosts", values="throughput_mbps")
        found[bool(isolated)] = (by_load[by_load.columns.max()] / by_load[by_load.columns.min()]).tolist()
    return found


def of_figure_1(runs: Runs) -> pd.DataFrame:
    """Return totals of Fig. 1's cases with busy_hosts and isolated; the link alone stands in both."""
    named = runs.totals["case"].str.extract(r"Mb/s, (?:(?P<alone>alone)|(?P<hosts>\d+) busy hosts, (?P<how>.*))$")
    rows = runs.totals[named.notna().any(axis=1)].copy()
    named = named.loc[rows.index]
    rows["busy_hosts"] = named["hosts"].fillna("0").astype(int)
    alone = named["alone"].notna()
    parts = [rows[alone | (named["how"] == how)].assign(isolated=how == "isolated")
             for how in ("isolated", "not isolated")]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def answer(runs: Runs) -> str:
    """The result in one sentence."""
    table = runs.totals.groupby("case")[["within_1", "within_10"]].mean()
    words = "{:.1%} of the gaps at 100 Mb/s are within 10 % and {:.1%} within 1 %; at 1 Gb/s {:.1%} are within 10 %."
    found = words.format(*table.loc["100 Mb/s", ["within_10", "within_1"]], table.loc["1000 Mb/s", "within_10"])
    if runs.tier == "simulated":
        return f"In virtual time {found} Real kernels were not measured."
    return f"Untrusted ({runs.why_untrusted}): {found}" if runs.why_untrusted else found


# Figures.


def draw_idea() -> Figure:
    """Draw when full packets leave an ideal link, a late one, and one that lets large frames pass."""
    figure, axis = new_figure("When do twelve packets leave a busy link?", "time (packets of the ideal link)", "")
    even = np.arange(12.0)
    late = even + np.array([0, 0.1, 0, 0.4, 0.1, 1.2, 0.3, 0, 0.1, 0.9, 0.2, 0])
    frames = np.repeat([3.6, 7.6, 11.6], 4) + np.tile(np.arange(4) * 0.08, 3)
    sets = {"an ideal link": even, "a busy machine": late, "large frames": frames}
    for row, (times, colour) in enumerate(zip(sets.values(), ("#0072B2", "#E69F00", "#D55E00"), strict=True)):
        axis.eventplot(times, lineoffsets=-row, linelengths=0.5, linewidths=2.5, colors=colour)
    axis.set_yticks([0, -1, -2], list(sets))
    axis.grid(visible=False)
    return figure


def draw_links(runs: Runs) -> Figure:
    """Draw Fig. 7: share of gaps that are further off than so much, at 10, 100 and 1000 Mb/s."""
    label = "deviation from the ideal gap (%)"
    figure, axis = new_figure("Gaps of a busy link (Fig. 7)", label, "share of gaps beyond", log_x=True, log_y=True)
    for name, case in LINKS.items():
        _draw_beyond(axis, runs, name, COLOURS[int(case.rate_mbps)], name)
    draw_published(axis, [10, 1], [0.01, 0.1], "Mininet-HiFi, 100 Mb/s")
    axis.plot([10], [0.1], linestyle="none", marker="^", color=PUBLISHED_GREY, label="Mininet-HiFi, 1 Gb/s: above this")
    _limits(axis)
    axis.legend(fontsize=8)
    return figure


def _limits(axis) -> None:
    axis.set(xlim=(PERCENT[0], 1000), ylim=(1e-4, 1.5))


def _draw_beyond(axis, runs: Runs, name: str, colour: str, label: str, linestyle: str = "-") -> None:
    """Draw the complementary distribution of all repetitions together; shaded: from the least repetition to the
    greatest."""
    rows = runs.gaps[runs.gaps["case"] == name]
    if rows.empty:
        axis.plot([], [], color=colour, linestyle=linestyle, label=f"{label}: no gap seen")
        return
    single = [_share_beyond(gaps["deviation"]) for _, gaps in rows.groupby("repetition")]
    least, whole, greatest = (
        np.where(share > 0, share, np.nan)
        for share in (np.min(single, axis=0), _share_beyond(rows["deviation"]), np.max(single, axis=0))
    )
    least = np.nan_to_num(least, nan=1e-9)  # none beyond: down to the end of a logarithmic axis
    if not np.isnan(greatest).all():
        axis.fill_between(PERCENT, least, greatest, color=colour, alpha=0.2, linewidth=0)
    axis.plot(PERCENT, whole, color=colour, linestyle=linestyle, lw=1.5, label=label)


def _share_beyond(deviation: pd.Series) -> np.ndarray:
    """Compute the share of gaps further off than each of PERCENT."""
    inside = np.searchsorted(np.sort(deviation.to_numpy()) * 100, PERCENT, side="right")
    return 1 - inside / max(1, len(deviation))


def draw_many_flows(runs: Runs) -> Figure:
    """Draw Fig. 9(c): distribution of the deviation with 800 flows."""
    figure, axis = new_figure(
        "800 flows on 62.5 Mb/s (Fig. 9 c)", "deviation from the ideal gap (%)", "share of gaps within", log_x=True
    )
    for number, (_, gaps) in enumerate(runs.gaps[runs.gaps["case"] == MANY_FLOWS].groupby("repetition")):
        deviation = np.sort(gaps["deviation"].to_numpy()) * 100
        share = np.searchsorted(deviation, PERCENT, side="right") / len(deviation)
        axis.plot(PERCENT, share, color=COLOURS[62.5], lw=1.2, label=None if number else f"{runs.tier}, every run")
    draw_published(axis, [10, 40], [0.9, 0.99], "Mininet-HiFi")
    if not (runs.gaps["case"] == MANY_FLOWS).any():
        say_not_measured(axis, runs.tier)
    axis.set(xlim=(PERCENT[0], 1000), ylim=(0, 1.03))
    axis.legend(loc="upper left")
    return figure


def draw_virtual(runs: Runs, virtual: Runs | None) -> Figure:
    """Draw Figs 7 and 9(c) in virtual time: where gaps are exact, nothing lies beyond any deviation that can be
    drawn."""
    figure, axes = new_figure("Kernels in real and in virtual time", "deviation from the ideal gap (%)", "", columns=2)
    axes[0].set(ylabel="share of gaps beyond")
    axes[1].set(ylabel="share of gaps within")
    for found, look, when in ((runs, {"alpha": 0.4}, runs.tier), (virtual, {"lw": 2.5}, "virtual")):
        if found is None:
            continue
        for name, case in LINKS.items():
            share = _beyond(found, name)
            label = f"{name}, {when}"
            axes[0].plot(PERCENT, share, color=COLOURS[int(case.rate_mbps)], label=label, **look)
        if (found.gaps["case"] == MANY_FLOWS).any():
            axes[1].plot(PERCENT, 1 - _beyond(found, MANY_FLOWS), color=COLOURS[62.5], label=when, **look)
    for axis in axes:
        axis.set(xscale="log", xlim=(PERCENT[0], 1000), ylim=(-0.02, 1.03))
        if axis.lines:
            axis.legend(fontsize=8)
        if virtual is None:
            say_not_measured(axis, "virtual")
    return figure


def _beyond(runs: Runs, name: str) -> np.ndarray:
    """Compute, over all repetitions, the share of gaps that are further off than each of PERCENT."""
    return _share_beyond(runs.gaps["deviation"][runs.gaps["case"] == name])


def draw_isolation(runs: Runs) -> Figure:
    """Draw Fig. 1: throughput beside hosts that compute, with and without isolation."""
    rate = float(of_figure_1(runs)["rate_mbps"].iloc[0])
    figure, axis = new_figure(
        f"A {rate:g} Mb/s link beside busy hosts (Fig. 1)", "hosts that compute", "throughput (Mb/s)"
    )
    axis.axhline(rate, color=PUBLISHED_GREY, linestyle="--", label="ideal, and Mininet-HiFi")
    _draw_loads(axis, runs, "throughput_mbps")
    axis.set_ylim(0, 1.15 * rate)
    return figure


def draw_load_gaps(runs: Runs) -> Figure:
    """Draw how the same loads change the spacing of the packets that are sent."""
    figure, axis = new_figure("Spacing beside busy hosts", "hosts that compute", "share of gaps within 10 %")
    _draw_loads(axis, runs, "within_10")
    axis.set_ylim(0, 1.05)
    return figure


def _draw_loads(axis, runs: Runs, column: str) -> None:
    looks = {True: ("isolated", "#0072B2", "o-"), False: ("not isolated", "#D55E00", "s--")}
    table = of_figure_1(runs)
    if runs.tier == "simulated":
        axis.plot([0], table[column].iloc[:1], "o", color="#117733", label="simulated: no host computes")
    for isolated, rows in table.groupby("isolated") if runs.tier != "simulated" else ():
        label, colour, form = looks[bool(isolated)]
        mean = rows.groupby("busy_hosts")[column].agg(["mean", "min", "max"])
        axis.plot(mean.index, mean["mean"], form, color=colour, label=label)
        axis.vlines(mean.index, mean["min"], mean["max"], color=colour, lw=1)
    axis.set_xticks(sorted(set(table["busy_hosts"])))
    axis.legend(loc="lower left")


def draw_control(runs: Runs) -> Figure:
    """Draw the link at 100 Mb/s as it is, and with segmentation offload left on."""
    label = "deviation from the ideal gap (%)"
    figure, axis = new_figure("Broken on purpose: offloading left on", label, "share of gaps beyond", log_x=True)
    _draw_beyond(axis, runs, "100 Mb/s", COLOURS[100], "one packet a frame")
    _draw_beyond(axis, runs, OFFLOADED, "#7f3c8d", "as TCP builds them", "--")
    if not (runs.gaps["case"] == OFFLOADED).any():
        axis.text(0.5, 0.5, f"not measured on the {runs.tier} tier", transform=axis.transAxes, ha="center")
    axis.set(xlim=(PERCENT[0], PERCENT[-1]), ylim=(0, 1.05))
    axis.legend(loc="center", bbox_to_anchor=(0.47, 0.5))
    return figure
