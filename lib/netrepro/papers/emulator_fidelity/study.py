"""How true an emulated link is: Handigol et al., "Reproducible Network Experiments Using Container-Based Emulation"
(Mininet-HiFi, CoNEXT 2012), Figs 1, 7 and 9(c).

A busy link sends a full packet every 1514 bytes / rate. How far the packets of an emulated link are from that tells
whether its results can be believed (section 3.3); and what one host computes must not slow another host's network.
Neither the simulator nor the virtual kernel is evidence: there every gap is right by construction.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.emulation.fidelity import LEAST_BUSY_GAPS, STALLED, STARVED, inter_dequeue_deviation
from netrepro.emulation.real_time.guests import Guest
from netrepro.emulation.real_time.machine import guest_prefix
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.tiers import missing_feature, probe_tiers
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow
from netrepro.papers.emulator_fidelity.builds import COLUMNS, OURS, compare_builds
from netrepro.study import SIMULATED, VIRTUAL, Check, Evidence, Reading, Runs, Scale, Study, each
from netrepro.study.measuring import in_real_time, run_experiment
from netrepro.study.pictures import panels, say_not_measured
from netrepro.study.setting import setting
from netrepro.study.trust import trust_of
from netrepro.style import PUBLISHED_GREY, draw_published, new_figure

PORT = ("s1", "s2")
GUEST_CORES = 1.0  # that all background hosts share, where they are isolated
BUSY_LOOP = ["sh", "-c", "read begin; while :; do :; done"]
FRAMES_BYTES = 131_072  # of a bucket that lets any frame that TCP builds pass whole
PERCENT = np.geomspace(0.01, 1e4, 240)  # deviations at which distributions are kept
COLOURS = {"10 Mb/s": "#009E73", "100 Mb/s": "#0072B2", "1000 Mb/s": "#D55E00"}
MANY_COLOUR = "#CC79A7"
LINKS = TEN, HUNDRED, GIGABIT = tuple(COLOURS)
MANY_FLOWS, OFFLOADED = "800 flows, 62.5 Mb/s", "100 Mb/s, offloading left on"
BESIDE_BUSY, WITH_HTB = "1000 Mb/s beside 16 busy hosts", "100 Mb/s, HTB"
ALONE, ISOLATED, SHARED = FIG_1 = "Fig. 1, alone", "Fig. 1, isolated", "Fig. 1, not isolated"

# Shares of the time beside the link of 100 Mb/s, which keeps no processor busy: from these on others used the machine.
# Beside much other work the second was 0.95.
MOST_WAITED = {STARVED: 0.1, STALLED: 0.5}
MISSED = "packets missed"  # by the recording
# A link whose queue is empty behind most packets shows its senders' spacing, not its own.
LEAST_BUSY_SHARE = 0.5


@dataclass(frozen=True)
class Setting:
    """One link under `flows` long TCP flows, and `rate_mbps` that of Fig. 1; `busy_hosts` others compute beside it,
    isolated or not.

    large_frames : segmentation offload as Linux has it by default, and a shaper that lets its frames pass. htb : shaped
    as the paper's links were. is_judged : its gaps are compared with published ones, and only believed where the link
    was busy.
    """

    rate_mbps: float = setting(200.0, "of the link of Fig. 1", "Mb/s", low=1, high=10_000)
    link_mbps: float = 100.0
    flows: int = 1
    delay_ms: float = 0.0
    buffer_packets: int = 100
    busy_hosts: int = 0
    isolated: bool = False
    large_frames: bool = False
    htb: bool = False
    is_judged: bool = False

    @property
    def settle_s(self) -> float:
        """The time after which the queue waits: a slow start, or the arrival of all flows."""
        return 0.2 if self.flows == 1 else 1.5


def cannot(setting: Setting, tier: str) -> str:
    """Say why a tier has no such link; else ""."""
    if not in_real_time(tier):
        only_real = setting.busy_hosts or setting.large_frames or setting.htb
        return "hosts that compute cost no virtual time, nor are its shapers changed" if only_real else ""
    if (setting.large_frames or setting.htb) and not (shutil.which("ip") and shutil.which("tc")):
        return "no ip and tc on this machine"
    return missing_feature("netem", tier) if setting.delay_ms else ""


def experiment(setting: Setting, window_s: float, seed: int) -> Experiment:
    """Make the experiment that every tier runs: hosts h1... left and right of the port that is looked at; h1's flows
    cross it."""
    pairs = 1 + -(-setting.busy_hosts // 2)
    access = Link(min(10 * setting.link_mbps, 2000.0), 0.0, DropTail(packets=1000))
    link = Link(setting.link_mbps, setting.delay_ms, DropTail(packets=setting.buffer_packets))
    until_s = setting.settle_s + window_s
    # They begin one after the other; 800 at once would be one burst.
    starts_s = np.arange(setting.flows) / setting.flows * 0.5
    flows = tuple(Flow("h1", f"h{pairs + 1}", duration_s=until_s - start, start_s=float(start)) for start in starts_s)
    # Reading a queue holds its lock, so seldom; yet most packets should have been seen to wait.
    seen_packets_ms = 0.4 * setting.buffer_packets * FULL_PACKET_BYTES * 8 / (setting.link_mbps * 1e3)
    interval_ms = float(np.clip(seen_packets_ms, 0.4, 5.0))
    measure = Measure(queues=(PORT,), queue_interval_ms=interval_ms, packets=(PORT,))
    # Hosts take no time of ours: what is looked at is how exact the links are.
    return Experiment(dumbbell(pairs, access, link), flows, until_s, seed, measure, host_delay_packets=0)


def leave_offloading_on(net: RealTimeNetwork) -> None:
    """Undo at the link's two senders what keeps a frame to one packet."""
    bucket = f"burst {FRAMES_BYTES} limit {2 * FRAMES_BYTES}"
    renew_shapers(
        net, "ip link set {name} gso_max_segs 65535", f"tc qdisc add dev {{name}} root tbf rate {{rate}}mbit {bucket}"
    )


def take_htb(net: RealTimeNetwork) -> None:
    """Give the link's two senders Mininet's shaper, with its burst of 15 KB, in place of ours (TBF)."""
    renew_shapers(
        net,
        "tc qdisc add dev {name} root handle 1: htb default 1",
        "tc class add dev {name} parent 1: classid 1:1 htb rate {rate}mbit burst 15k",
        "tc qdisc add dev {name} parent 1:1 handle 2: pfifo limit {packets}",
    )


def renew_shapers(net: RealTimeNetwork, *commands: str) -> None:
    """Take away the shapers of the link's two senders, and make others by these commands."""
    for node, neighbour in (("h1", "s1"), PORT):
        name, link = net.plan.ports[neighbour, node].arrival_interface, net.topology.link(node, neighbour)
        values = {"name": name, "rate": f"{link.rate_mbps:g}", "packets": getattr(link.queue, "packets", 0)}
        for command in ("tc qdisc del dev {name} root", *commands):
            net[node].run(command.format(**values).split())


class BusyHosts:
    """Hosts that compute while the traffic runs, started by `prefix`: before and after it they would only delay us."""

    def __init__(self, count: int, prefix: list[str]):
        self._count, self._prefix = count, prefix
        self._guests: list[Guest] = []

    def prepare(self, net: RealTimeNetwork) -> None:
        """Start them; they wait."""
        ends = {"h1", f"h{len(net.topology.hosts) // 2 + 1}"}
        others = [host for host in net.topology.hosts if host not in ends]
        self._guests = [net[host].popen([*self._prefix, *BUSY_LOOP]) for host in others[: self._count]]

    def follow(self, share: float) -> None:
        """Compute from the beginning of the traffic to its end (share 1)."""
        for guest in self._guests:
            if share < 1:
                guest.stdin.close()  # type: ignore[union-attr]
            else:
                guest.kill()


def measure_one(setting: Setting, window_s: float, seed: int, tier: str) -> Reading:
    """Run one link, beside its busy hosts or with its large frames, and read it."""
    with ExitStack() as opened:
        isolated = setting.isolated and setting.busy_hosts
        prefix, how = opened.enter_context(guest_prefix(GUEST_CORES)) if isolated else ([], "")
        busy = BusyHosts(setting.busy_hosts, prefix)
        prepare = leave_offloading_on if setting.large_frames else take_htb if setting.htb else busy.prepare
        found = run_experiment(experiment(setting, window_s, seed), tier, busy.follow, prepare=prepare)
    return read(found, setting) | Reading(tables={"isolation": pd.DataFrame({"how": [how]})} if how else {})


def read(found: Measurements, setting: Setting) -> Reading:
    """Read throughput and utilisation (bytes on the wire), and how far gaps are from the ideal.

    gaps : between full packets behind which a queue waited. busy_share : of all gaps. within_1, within_10, within_40,
    within_10_if_faster : shares of gaps, the last for a link that claimed a rate 15 % higher. certified : the tier's
    own checks hold, of a link that was busy at all. Tables: beyond (the share of gaps that are further off than so many
    per cent), certificates (the tier's checks: a link that fails one is a result, and no reason to distrust it).
    """
    packets = found.packets[found.packets["time_s"] >= setting.settle_s]
    full = packets[packets["size_bytes"] >= FULL_PACKET_BYTES]
    gaps, faster = (
        inter_dequeue_deviation(
            full["time_s"].to_numpy(),
            np.full(len(full), FULL_PACKET_BYTES),  # what the paper divides by, whatever the frame
            setting.link_mbps * factor,
            found.queues["time_s"].to_numpy(),
            found.queues["queue_packets"].to_numpy(),
        ).deviation
        for factor in (1.0, 1.15)
    )
    throughput_mbps = float(packets["size_bytes"].sum()) * 8e-6 / (found.experiment.duration_s - setting.settle_s)
    numbers = {
        "throughput_mbps": throughput_mbps,
        "utilisation": min(1.0, throughput_mbps / setting.link_mbps),  # a packet at the ends
        "gaps": len(gaps),
        "busy_share": len(gaps) / max(1, len(full) - 1),
        "within_1": share_within(gaps, 0.01),
        "within_10": share_within(gaps, 0.1),
        "within_40": share_within(gaps, 0.4),
        "within_10_if_faster": share_within(faster, 0.1),
        "certified": float(found.trusted and len(gaps) >= LEAST_BUSY_GAPS),  # an idle port fails no check
    }
    inside = np.searchsorted(np.sort(gaps.astype(np.float32)) * 100, PERCENT, side="right")
    beyond = pd.DataFrame({"percent": PERCENT, "share": 1 - inside / len(gaps)} if len(gaps) else {})
    tables = {"beyond": beyond, "certificates": found.fidelity}
    return Reading(numbers, tables, list(checks_of(found.fidelity, setting, numbers)))


def share_within(deviation: np.ndarray, bound: float) -> float:
    """Compute the share of gaps that are at most `bound` off; 0 where the link was never busy: nothing shows it to be
    true."""
    return float(np.mean(deviation <= bound)) if len(deviation) else 0.0


def checks_of(fidelity: pd.DataFrame, setting: Setting, numbers: dict[str, float]) -> Iterator[Check]:
    """Check that no packet escaped, that others left the machine alone, and that a judged link was busy."""
    told = dict(zip(fidelity["check"], fidelity["value"], strict=True))
    bounds = {MISSED: 0.0} | (MOST_WAITED if setting.is_judged and setting.link_mbps == 100 else {})
    for name, bound in bounds.items():
        if not np.isnan(told.get(name, np.nan)):
            yield Check(name, told[name], at_most=bound)
    if setting.is_judged:
        yield Check("gaps of a busy link", numbers["gaps"], at_least=LEAST_BUSY_GAPS)
        yield Check("share of packets behind which a queue waited", numbers["busy_share"], at_least=LEAST_BUSY_SHARE)


def certificates(runs: Runs) -> pd.DataFrame:
    """Return the checks of real kernels that failed, and in how many runs: case, check, their mean value, bound,
    failed."""
    table = runs.tables["certificates"]
    failed = table[(table["tier"] == runs.tier) & ~table["holds"].astype(bool)]
    grouped = failed.groupby(["case", "busy_hosts", "check"], sort=False)
    return grouped.agg(value=("value", "mean"), bound=("bound", "first"), failed=("holds", "size"))


def build_times(tier: str) -> pd.DataFrame:
    """Measure the seconds in which this library and its peers build a fat-tree with k = 4, without root. The columns
    are those of compare_builds."""
    if tier == SIMULATED or not probe_tiers().rootless.available:
        row = (OURS, np.nan, np.nan, "not measured: no namespaces without root, or the simulated tier was asked for")
        return pd.DataFrame([row], columns=COLUMNS)
    return compare_builds(times=1)


def answer(runs: Runs) -> str:
    """The result in one sentence."""
    table = runs.summary()
    hundred, gigabit = table.loc[HUNDRED].iloc[0], table.loc[GIGABIT].iloc[0]
    words = (
        f"{hundred.within_10:.1%} of the gaps at 100 Mb/s are within 10 % and {hundred.within_1:.1%} within 1 %; "
        f"at 1 Gb/s {gigabit.within_10:.1%} are within 10 %."
    )
    if runs.tier == SIMULATED:
        return f"In virtual time {words} Real kernels were not measured."
    checks = runs.checks[runs.checks["tier"] == runs.tier]
    why = trust_of(checks[(checks["case"] == HUNDRED) | (checks["check"] == MISSED)])["why"]
    return f"Untrusted ({why}): {words}" if why else words


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


def _beyond(runs: Runs, case: str, tier: str = "") -> pd.DataFrame:
    """Return the share of gaps further off than each of PERCENT, a column a repetition; none where none was seen."""
    if not runs.has(case, tier=tier):
        return pd.DataFrame()
    return runs.table("beyond", case, tier).pivot(index="percent", columns="repetition", values="share")


def beyond_in_all(runs: Runs, case: str, tier: str = "") -> pd.Series:
    """Return the same of all repetitions together."""
    single, gaps = _beyond(runs, case, tier), runs.numbers(case, tier).set_index("repetition")["gaps"]
    return (single * gaps[single.columns]).sum(axis=1) / gaps.sum()


def _draw_beyond(axis: Axes, runs: Runs, case: str, colour: str, label: str, linestyle: str = "-") -> None:
    """Draw the complementary distribution of all repetitions together; shaded: from the least repetition to the
    greatest."""
    single = _beyond(runs, case)
    if single.empty:
        axis.plot([], [], color=colour, linestyle=linestyle, label=f"{label}: no gap seen")
        return
    # None beyond: down to the end of a logarithmic axis.
    least, greatest = single.min(axis=1).replace(0, 1e-9), single.max(axis=1).replace(0, np.nan)
    if not greatest.isna().all():
        axis.fill_between(single.index, least, greatest, color=colour, alpha=0.2, linewidth=0)
    axis.plot(beyond_in_all(runs, case).replace(0, np.nan), color=colour, linestyle=linestyle, lw=1.5, label=label)


def draw_links(runs: Runs) -> Figure:
    """Draw Fig. 7: share of gaps that are further off than so much, at 10, 100 and 1000 Mb/s."""
    label = "deviation from the ideal gap (%)"
    figure, axis = new_figure("Gaps of a busy link (Fig. 7)", label, "share of gaps beyond", log_x=True, log_y=True)
    for name, colour in COLOURS.items():
        _draw_beyond(axis, runs, name, colour, name)
    draw_published(axis, [10, 1], [0.01, 0.1], "Mininet-HiFi, 100 Mb/s")
    axis.plot([10], [0.1], linestyle="none", marker="^", color=PUBLISHED_GREY, label="Mininet-HiFi, 1 Gb/s: above this")
    axis.set(xlim=(PERCENT[0], 1000), ylim=(1e-4, 1.5))
    axis.legend(fontsize=8)
    return figure


def draw_many_flows(runs: Runs) -> Figure:
    """Draw Fig. 9(c): distribution of the deviation with 800 flows."""
    title, label = "800 flows on 62.5 Mb/s (Fig. 9 c)", "deviation from the ideal gap (%)"
    figure, axis = new_figure(title, label, "share of gaps within", log_x=True)
    for number, (_, share) in enumerate(_beyond(runs, MANY_FLOWS).items()):
        axis.plot(1 - share, color=MANY_COLOUR, lw=1.2, label=None if number else f"{runs.tier}, every run")
    draw_published(axis, [10, 40], [0.9, 0.99], "Mininet-HiFi")
    if not runs.has(MANY_FLOWS):
        say_not_measured(axis, runs.tier)
    axis.set(xlim=(PERCENT[0], 1000), ylim=(0, 1.03))
    axis.legend(loc="upper left")
    return figure


def draw_virtual(runs: Runs) -> Figure:
    """Draw Figs 7 and 9(c) in virtual time: where gaps are exact, nothing lies beyond any deviation that can be
    drawn."""
    label, names = "deviation from the ideal gap (%)", ("links", MANY_FLOWS)
    figure, axes = panels("Kernels in real and in virtual time", label, "", names, log_x=True)
    axes[0].set(ylabel="share of gaps beyond")
    axes[1].set(ylabel="share of gaps within")
    looks: dict[str, dict[str, Any]] = {runs.tier: {"alpha": 0.4}, VIRTUAL: {"lw": 2.5}}
    for tier, look in looks.items():
        for name in LINKS:
            if len(_beyond(runs, name, tier)):
                axes[0].plot(beyond_in_all(runs, name, tier), color=COLOURS[name], label=f"{name}, {tier}", **look)
        if len(_beyond(runs, MANY_FLOWS, tier)):
            axes[1].plot(1 - beyond_in_all(runs, MANY_FLOWS, tier), color=MANY_COLOUR, label=tier, **look)
    for axis in axes:
        axis.set(xlim=(PERCENT[0], 1000), ylim=(-0.02, 1.03))
        if axis.lines:
            axis.legend(fontsize=8)
        if VIRTUAL not in runs.tiers:
            say_not_measured(axis, VIRTUAL)
    return figure


def draw_isolation(runs: Runs) -> Figure:
    """Draw Fig. 1: throughput beside hosts that compute, with and without isolation."""
    rate = runs.setting.rate_mbps
    title = f"A {rate:g} Mb/s link beside busy hosts (Fig. 1)"
    figure, axis = new_figure(title, "hosts that compute", "throughput (Mb/s)")
    axis.axhline(rate, color=PUBLISHED_GREY, linestyle="--", label="ideal, and Mininet-HiFi")
    _draw_loads(axis, runs, "throughput_mbps")
    axis.set_ylim(0, 1.15 * rate)
    return figure


def draw_load_gaps(runs: Runs) -> Figure:
    """Draw how the same loads change the spacing of the packets that are sent."""
    title, label = "Spacing beside busy hosts", "share of gaps within 10 %"
    figure, axis = new_figure(title, "hosts that compute", label)
    _draw_loads(axis, runs, "within_10")
    axis.set_ylim(0, 1.05)
    return figure


def _draw_loads(axis: Axes, runs: Runs, column: str) -> None:
    alone = runs.numbers(ALONE)
    if runs.tier == SIMULATED:
        axis.plot([0], alone[column].iloc[:1], "o", color="#117733", label="simulated: no host computes")
    for case, label, colour, form in (
        (ISOLATED, "isolated", "#0072B2", "o-"),
        (SHARED, "not isolated", "#D55E00", "s--"),
    ):
        if runs.has(case):
            means = pd.concat([alone, runs.numbers(case)]).groupby("busy_hosts")[column].agg(["mean", "min", "max"])
            axis.plot(means["mean"], form, color=colour, label=label)
            axis.vlines(means.index, means["min"], means["max"], color=colour, lw=1)
    axis.set_xticks(sorted(set(runs.values[runs.values["case"].isin(FIG_1)]["busy_hosts"])))
    axis.legend(loc="lower left")


def draw_control(runs: Runs) -> Figure:
    """Draw the link at 100 Mb/s as it is, and with segmentation offload left on."""
    title, label = "Broken on purpose: offloading left on", "deviation from the ideal gap (%)"
    figure, axis = new_figure(title, label, "share of gaps beyond", log_x=True)
    _draw_beyond(axis, runs, HUNDRED, COLOURS[HUNDRED], "one packet a frame")
    _draw_beyond(axis, runs, OFFLOADED, "#7f3c8d", "as TCP builds them", "--")
    if not runs.has(OFFLOADED):
        say_not_measured(axis, runs.tier)
    axis.set(xlim=(PERCENT[0], PERCENT[-1]), ylim=(0, 1.05))
    axis.legend(loc="center", bbox_to_anchor=(0.47, 0.5))
    return figure


# The study.


def _of_link(reading: str, link: str, control: str | None = None, judged: str = HUNDRED) -> Evidence:
    """Read a link; believed where others left the machine alone, no packet escaped, and the judged link was busy."""
    return Evidence(reading, link, control=control, checked_by=(HUNDRED, judged, MISSED))


ONLY_REAL = (OFFLOADED, WITH_HTB, BESIDE_BUSY, *FIG_1)

STUDY = Study(
    slug="emulator_fidelity",
    setting=Setting(),
    cases={
        **{name: {"link_mbps": float(name.split()[0]), "is_judged": True} for name in LINKS},
        # Fig. 9(a): the round trip is 87 ms; the buffer is the bandwidth-delay product of one flow.
        MANY_FLOWS: {"link_mbps": 62.5, "flows": 800, "delay_ms": 43.5, "buffer_packets": 450, "is_judged": True},
        OFFLOADED: {"large_frames": True},
        WITH_HTB: {"htb": True},
        BESIDE_BUSY: {"link_mbps": 1000.0, "busy_hosts": 16},
        ALONE: {"link_mbps": lambda setting: setting.rate_mbps},
        **{
            name: {
                "link_mbps": lambda setting: setting.rate_mbps,
                "busy_hosts": each(1, 2, 4, 8, 16, 32),
                "isolated": name == ISOLATED,
            }
            for name in (ISOLATED, SHARED)
        },
    },
    measure_one=measure_one,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    profiles={
        "quick": Scale(0.7, only={"busy_hosts": (16,)}),
        "paper": Scale(2.0),
        "test": Scale(0.3, repetitions=2),
    },
    also_on_virtual={
        "quick": Scale(0.7, repetitions=1, without=ONLY_REAL),
        "paper": Scale(2.0, repetitions=1, without=ONLY_REAL),
    },
    on_kernels={
        "hundred-within-ten-percent": _of_link("within_10", HUNDRED, OFFLOADED),
        "hundred-within-one-percent": _of_link("within_1", HUNDRED, OFFLOADED),
        "gigabit-loses-fidelity": _of_link("within_10", GIGABIT, judged=GIGABIT),
        "many-flows-within-ten-percent": _of_link("within_10", MANY_FLOWS, judged=MANY_FLOWS),
        "many-flows-one-in-a-hundred-far-off": _of_link("within_40", MANY_FLOWS, judged=MANY_FLOWS),
        "gigabit-utilisation": _of_link("utilisation", GIGABIT, BESIDE_BUSY),
        "isolated-throughput": Evidence(
            "throughput_mbps",
            (ISOLATED, ALONE),
            control=(SHARED, ALONE),
            how=lambda beside, alone: beside[max(beside.index)] / alone,
            checked_by=(HUNDRED, MISSED),
        ),
    },
    figures={
        "fig1_isolation": draw_isolation,
        "fig7_deviation": draw_links,
        "fig9c_800_flows": draw_many_flows,
        "control_offloading": draw_control,
        "knob_busy_hosts_gaps": draw_load_gaps,
        "knob_virtual_time": draw_virtual,
    },
    best=("fig1_isolation", "fig7_deviation", "fig9c_800_flows", "control_offloading", "knob_virtual_time"),
)
