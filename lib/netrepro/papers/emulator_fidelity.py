"""How accurate an emulated link is: Handigol et al., "Reproducible Network Experiments Using Container-Based Emulation"
(Mininet-HiFi, CoNEXT 2012), Figs 1, 7 and 9(c).

A busy link sends a full packet every 1514 bytes / rate. How far an emulated link's packets deviate from these gaps
shows whether its results can be believed (section 3.3). Also, computing on one host must not slow another host's
network. Neither the simulator nor the virtual kernel is evidence: there every gap is right by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netrepro.emulation.fidelity import LEAST_BUSY_GAPS, STALLED, STARVED, inter_dequeue_deviation
from netrepro.emulation.real_time.guests import Guest
from netrepro.emulation.real_time.machine import guest_prefix
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.emulation.tiers import missing_feature
from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import FULL_PACKET_BYTES, DropTail, Link
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow
from netrepro.programs import need_program, why_missing
from netrepro.study import BESIDE, SIMULATED, Check, Evidence, Reading, Runs, Scale, Study, swept
from netrepro.study.figures import Course, Level, Look, Published, Sweep, plot
from netrepro.study.measuring import in_real_time, run_experiment
from netrepro.study.setting import parameter
from netrepro.study.trust import trust_of
from netrepro.style import CURVES, PUBLISHED_GREY, new_figure

PORT = ("s1", "s2")
GUEST_CORES = 1.0  # that all busy hosts share, where they are isolated
BUSY_LOOP = ["sh", "-c", "read begin; while :; do :; done"]
FRAMES_BYTES = 131_072  # a token bucket that lets through whole any frame that TCP builds
IDLE_FIELDS = [3, 4]  # of /proc/stat: idle, and waiting for a disk
PERCENT = np.geomspace(0.01, 1e4, 240)  # deviations at which distributions are kept
LINKS = TEN, HUNDRED, GIGABIT = "10 Mb/s", "100 Mb/s", "1000 Mb/s"
MANY_FLOWS, OFFLOADED = "800 flows, 62.5 Mb/s", "100 Mb/s, offloading left on"
BESIDE_BUSY, WITH_HTB = "1000 Mb/s beside 16 busy hosts", "100 Mb/s, HTB"
ALONE, ISOLATED, SHARED = "Fig. 1, alone", "Fig. 1, isolated", "Fig. 1, not isolated"
UNLIMITED = "Fig. 1, no limit"
FIG_1 = (ALONE, ISOLATED, SHARED, UNLIMITED)

# Greatest shares of the time beside the link of 100 Mb/s, which keeps no processor busy: above, others use the machine.
# With much other work the second share was 0.95.
MOST_WAITED = {STARVED: 0.1, STALLED: 0.5}
MISSED = "packets missed"  # by the recording
# If its queue is empty behind most packets, a link shows its senders' spacing, not its own.
LEAST_BUSY_SHARE = 0.5


@dataclass(frozen=True)
class Setting:
    """One link under `flows` long TCP flows. `rate_mbps` is the rate of Fig. 1; there `busy_hosts` other hosts compute
    beside the link, isolated or not.

    large_frames : segmentation offload as Linux has it by default, and a shaper that lets its frames pass. htb : shaped
    like the paper's links. unlimited : no shaper limits the flow, as in Mininet without link limits (Fig. 1). is_judged
    : its gaps are compared with published ones, and believed only if the link was busy.
    """

    rate_mbps: float = parameter(200.0, "of the link of Fig. 1", "Mb/s", low=1, high=10_000)
    link_mbps: float = 100.0
    flows: int = 1
    delay_ms: float = 0.0
    buffer_packets: int = 100
    busy_hosts: int = 0
    isolated: bool = False
    large_frames: bool = False
    htb: bool = False
    unlimited: bool = False
    is_judged: bool = False

    @property
    def settle_s(self) -> float:
        """The time (s) after which a queue is always waiting: a slow start, or the arrival of all flows."""
        return 0.2 if self.flows == 1 else 1.5


def cannot(setting: Setting, tier: str) -> str:
    """Return why a tier cannot have such a link, or ""."""
    if not in_real_time(tier):
        only_real = setting.busy_hosts or setting.large_frames or setting.htb or setting.unlimited
        return "hosts that compute cost no virtual time, nor are its shapers changed" if only_real else ""
    if (setting.large_frames or setting.htb or setting.unlimited) and (missing := why_missing("ip", "tc")):
        return missing
    return missing_feature("netem", tier) if setting.delay_ms else ""


def experiment(setting: Setting, window_s: float, seed: int) -> Experiment:
    """Make the experiment that every tier runs: hosts h1... on both sides of the measured port; h1's flows cross it."""
    pairs = 1 + -(-setting.busy_hosts // 2)
    access = Link(min(10 * setting.link_mbps, 2000.0), 0.0, DropTail(packets=1000))
    link = Link(setting.link_mbps, setting.delay_ms, DropTail(packets=setting.buffer_packets))
    until_s = setting.settle_s + window_s
    # They begin one after the other; 800 at once would be one burst.
    starts_s = np.arange(setting.flows) / setting.flows * 0.5
    flows = tuple(Flow("h1", f"h{pairs + 1}", duration_s=until_s - start, start_s=float(start)) for start in starts_s)
    # Reading a queue holds its lock, so it is rare, but frequent enough to see most packets wait.
    seen_packets_ms = 0.4 * setting.buffer_packets * FULL_PACKET_BYTES * 8 / (setting.link_mbps * 1e3)
    interval_ms = float(np.clip(seen_packets_ms, 0.4, 5.0))
    measure = Measure(queues=(PORT,), queue_interval_ms=interval_ms, packets=(PORT,))
    if setting.unlimited:  # too fast to record every packet
        measure = Measure(since_s=setting.settle_s)
    # Hosts add no delay, because only the links' accuracy is measured.
    return Experiment(dumbbell(pairs, access, link), flows, until_s, seed, measure, host_delay_packets=0)


def leave_offloading_on(net: RealTimeNetwork) -> None:
    """Undo, at the link's two senders, the settings that keep a frame to one packet."""
    bucket = f"burst {FRAMES_BYTES} limit {2 * FRAMES_BYTES}"
    renew_shapers(
        net, "ip link set {name} gso_max_segs 65535", f"tc qdisc add dev {{name}} root tbf rate {{rate}}mbit {bucket}"
    )


def take_htb(net: RealTimeNetwork) -> None:
    """Replace our shaper (TBF) at the link's two senders by Mininet's HTB, with its burst of 15 KB."""
    renew_shapers(
        net,
        "tc qdisc add dev {name} root handle 1: htb default 1",
        "tc class add dev {name} parent 1: classid 1:1 htb rate {rate}mbit burst 15k",
        "tc qdisc add dev {name} parent 1:1 handle 2: pfifo limit {packets}",
    )


def renew_shapers(net: RealTimeNetwork, *commands: str) -> None:
    """Remove the shapers of the link's two senders, and make new ones with these commands."""
    for node, neighbour in (("h1", "s1"), PORT):
        name, link = net.plan.ports[neighbour, node].arrival_interface, net.topology.link(node, neighbour)
        values = {"name": name, "rate": f"{link.rate_mbps:g}", "packets": getattr(link.queue, "packets", 0)}
        for command in ("tc qdisc del dev {name} root", *commands):
            tool, *words = command.format(**values).split()
            net[node].run([need_program(tool), *words])


class BusyHosts:
    """Hosts that compute while the traffic runs; at other times they would only delay us. prefix : starts their
    commands."""

    def __init__(self, count: int, prefix: list[str]):
        self._count, self._prefix = count, prefix
        self._guests: list[Guest] = []

    def prepare(self, net: RealTimeNetwork) -> None:
        """Start the hosts' processes, which wait."""
        ends = {"h1", f"h{len(net.topology.hosts) // 2 + 1}"}
        others = [host for host in net.topology.hosts if host not in ends]
        self._guests = [net[host].popen([*self._prefix, *BUSY_LOOP]) for host in others[: self._count]]

    def follow(self, share: float) -> None:
        """Let the hosts compute from the beginning of the traffic to its end (share 1)."""
        for guest in self._guests:
            if share < 1:
                guest.stdin.close()  # type: ignore[union-attr]
            else:
                guest.kill()


class IdleTime:
    """The share of the processors' time that nobody used while traffic ran, by which the paper tells whether an
    emulator keeps up (section 3.4); NaN before the traffic has ended."""

    def __init__(self) -> None:
        self._began: np.ndarray | None = None
        self.share = np.nan

    def follow(self, share: float) -> None:
        """Begin with the traffic, and end with it (share 1)."""
        spent = np.array(Path("/proc/stat").read_text().split("\n")[0].split()[1:9], dtype=float)
        if self._began is None:
            self._began = spent
        elif share >= 1:
            spent -= self._began
            self.share = float(spent[IDLE_FIELDS].sum() / max(spent.sum(), 1.0))


def measure_one(setting: Setting, window_s: float, seed: int, tier: str) -> Reading:
    """Run one link, with its busy hosts or large frames, and read it."""
    with ExitStack() as opened:
        isolated = setting.isolated and setting.busy_hosts
        prefix, how = opened.enter_context(guest_prefix(GUEST_CORES)) if isolated else ([], "")
        busy, idle = BusyHosts(setting.busy_hosts, prefix), IdleTime()

        def prepare(net: RealTimeNetwork) -> None:
            if setting.unlimited:
                renew_shapers(net, "tc qdisc add dev {name} root pfifo limit {packets}")
            (leave_offloading_on if setting.large_frames else take_htb if setting.htb else busy.prepare)(net)

        def follow(share: float) -> None:
            busy.follow(share)
            idle.follow(share)

        measured = run_experiment(experiment(setting, window_s, seed), tier, follow, prepare=prepare)
    idle_share = idle.share if in_real_time(tier) else np.nan
    tables = {"isolation": pd.DataFrame({"how": [how]})} if how else {}
    return read(measured, setting) | Reading({"idle_share": idle_share}, tables)


def read(measured: Measurements, setting: Setting) -> Reading:
    """Read throughput and utilisation (bytes on the wire), and how far gaps deviate from the ideal. Of an unlimited
    link only the throughput is read, from the bytes that arrive.

    gaps : number of gaps between full packets behind which a queue waited. busy_share : their share of all gaps.
    within_1, within_10, within_40 : shares of these gaps. Tables: deviations (shares of gaps within, and beyond, a per
    cent value), certificates (the tier's checks; a link that fails one is a result, and no reason to distrust it).
    """
    window_s = measured.experiment.duration_s - setting.settle_s
    certified = {"certificates": measured.fidelity}
    if setting.unlimited:
        frames = measured.flows["delivered_bytes"].sum() / measured.experiment.tcp.segment_bytes
        return Reading({"throughput_mbps": float(frames) * FULL_PACKET_BYTES * 8e-6 / window_s}, certified)
    packets = measured.packets[measured.packets["time_s"] >= setting.settle_s]
    full = packets[packets["size_bytes"] >= FULL_PACKET_BYTES]
    gaps = inter_dequeue_deviation(
        full["time_s"].to_numpy(),
        np.full(len(full), FULL_PACKET_BYTES),  # the paper divides by this for every frame
        setting.link_mbps,
        measured.queues["time_s"].to_numpy(),
        measured.queues["queue_packets"].to_numpy(),
    ).deviation
    throughput_mbps = float(packets["size_bytes"].sum()) * 8e-6 / window_s
    numbers = {
        "throughput_mbps": throughput_mbps,
        "utilisation": min(1.0, throughput_mbps / setting.link_mbps),  # a packet at either end may exceed 1
        "gaps": len(gaps),
        "busy_share": len(gaps) / max(1, len(full) - 1),
        "within_1": share_within(gaps, 0.01),
        "within_10": share_within(gaps, 0.1),
        "within_40": share_within(gaps, 0.4),
    }
    inside = np.searchsorted(np.sort(gaps.astype(np.float32)) * 100, PERCENT, side="right") / max(1, len(gaps))
    deviations = pd.DataFrame({"percent": PERCENT, "within": inside, "beyond": 1 - inside})
    tables = {"deviations": deviations if len(gaps) else deviations[:0]}
    return Reading(numbers, tables | certified, list(checks_of(measured.fidelity, setting, numbers)))


def share_within(deviation: np.ndarray, bound: float) -> float:
    """Compute the share of gaps that deviate by at most `bound`; 0 where the link was never busy, since nothing shows
    then that it is accurate."""
    return float(np.mean(deviation <= bound)) if len(deviation) else 0.0


def checks_of(fidelity: pd.DataFrame, setting: Setting, numbers: dict[str, float]) -> Iterator[Check]:
    """Check that the recording missed no packet, that other work left the machine alone, and that a judged link was
    busy."""
    told = dict(zip(fidelity["check"], fidelity["value"], strict=True))
    bounds = {MISSED: 0.0} | (MOST_WAITED if setting.is_judged and setting.link_mbps == 100 else {})
    for name, bound in bounds.items():
        if not np.isnan(told.get(name, np.nan)):
            yield Check(name, told[name], at_most=bound)
    if setting.is_judged:
        yield Check("gaps of a busy link", numbers["gaps"], at_least=LEAST_BUSY_GAPS)
        yield Check("share of packets behind which a queue waited", numbers["busy_share"], at_least=LEAST_BUSY_SHARE)


def certificates(runs: Runs) -> pd.DataFrame:
    """Return the failed checks of real kernels, and the number of runs that failed them: case, check, their mean value,
    bounds, failed."""
    table = runs.tables["certificates"]
    failed = table[(table["tier"] == runs.tier) & ~table["holds"].astype(bool)]
    grouped = failed.groupby(["case", "busy_hosts", "check"], sort=False)
    bounds = {name: (name, "first") for name in ("at_least", "at_most")}
    return grouped.agg(value=("value", "mean"), **bounds, failed=("holds", "size"))


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
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
    """Draw when full packets leave three links: an ideal one, a late one, and one that lets large frames pass."""
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


def beside_loads(runs: Runs) -> pd.DataFrame:
    """Return the rows of Fig. 1 for each kind of busy hosts; both begin with the row without busy hosts."""
    alone = runs.numbers(ALONE)
    return pd.concat([pd.concat([alone, runs.numbers(case)]).assign(case=case) for case in LOADS])


def _by_idle_time(runs: Runs) -> pd.DataFrame:
    rows = pd.concat([runs.numbers(case) for case in (ALONE, ISOLATED, SHARED)])
    return rows.assign(idle_share=rows.idle_share.round(2))


def _draw_bound(axis: Axes, _: Runs) -> None:
    axis.plot([10], [0.1], linestyle="none", marker="^", color=PUBLISHED_GREY, label="Mininet-HiFi, 1 Gb/s: above this")


LOADS: dict[str, Look] = {
    ISOLATED: {"label": "isolated", "color": CURVES[0]},
    SHARED: {"label": "not isolated", "color": CURVES[6], "linestyle": "--"},
}
POINTS: dict[str, Look] = {
    case: {"label": label, "color": colour, "linestyle": "none"}
    for case, label, colour in (
        (ISOLATED, "isolated", CURVES[0]),
        (SHARED, "not isolated", CURVES[6]),
        (ALONE, "no host computes", CURVES[2]),
    )
}
LOOKS: dict[str, dict[str, Any]] = {
    name: {"label": name, "color": colour}
    for name, colour in zip((HUNDRED, GIGABIT, TEN, MANY_FLOWS), (CURVES[0], CURVES[6], *CURVES[2:4]), strict=True)
}
DEVIATION, HOSTS = "deviation from the ideal gap (%)", "hosts that compute"
SEEN: dict[str, Any] = {"log": "x", "x_range": (PERCENT[0], 1000), "y_range": (0, 1.05)}

# The study.


def _of_link(reading: str, link: str, control: str | None = None, judged: str = HUNDRED) -> Evidence:
    """Read a link. It is believed if other work left the machine alone, no packet was missed, and the judged link was
    busy."""
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
                "busy_hosts": swept(1, 2, 4, 8, 16, 32),
                "isolated": name == ISOLATED,
            }
            for name in (ISOLATED, SHARED)
        },
        UNLIMITED: {
            "link_mbps": lambda setting: setting.rate_mbps,
            "busy_hosts": swept(0, 1, 2, 4, 8, 16, 32),
            "unlimited": True,
        },
    },
    measure_one=measure_one,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    scales={
        "quick": Scale(0.7, only={"busy_hosts": (0, 16)}),
        "paper": Scale(2.0),
        "test": Scale(0.3, repetitions=2),
        ("quick", BESIDE): Scale(0.7, repetitions=1, without=ONLY_REAL),
        ("paper", BESIDE): Scale(2.0, repetitions=1, without=ONLY_REAL),
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
        "fig1_isolation": plot(
            "A link beside busy hosts (Fig. 1)",
            HOSTS,
            "throughput (Mb/s)",
            Level(lambda runs: runs.setting.rate_mbps, "ideal, and Mininet-HiFi"),
            Sweep("busy_hosts", "throughput_mbps", beside_loads, looks=LOADS),
            Sweep("busy_hosts", "throughput_mbps", {UNLIMITED: {"label": "no limit on the link", "color": CURVES[2]}}),
        ),
        "idle_time": plot(
            "Is idle time an indicator? (section 3.4; gaps of the link of Fig. 1)",
            "time that the processors were idle (share)",
            "share of gaps within 10 %",
            Sweep("idle_share", "within_10", _by_idle_time, looks=POINTS),
            x_range=(-0.02, 1.02),
            y_range=(0, 1.05),
        ),
        "fig7_deviation": plot(
            "Gaps of a busy link (Fig. 7)",
            DEVIATION,
            "share of gaps beyond",
            Course("deviations", "beyond", {name: LOOKS[name] for name in LINKS}, x="percent", every=True),
            Published({10: 0.01, 1: 0.1}, "Mininet-HiFi, 100 Mb/s"),
            _draw_bound,
            **SEEN | {"log": "xy", "y_range": (1e-4, 1.5)},
        ),
        "fig9c_800_flows": plot(
            "800 flows on 62.5 Mb/s (Fig. 9 c)",
            DEVIATION,
            "share of gaps within",
            Course("deviations", "within", {MANY_FLOWS: LOOKS[MANY_FLOWS]}, x="percent", every=True),
            Published({10: 0.9, 40: 0.99}, "Mininet-HiFi"),
            **SEEN,
        ),
        "control_offloading": plot(
            "Broken on purpose: offloading left on",
            DEVIATION,
            "share of gaps beyond",
            Course(
                "deviations",
                "beyond",
                {
                    HUNDRED: LOOKS[HUNDRED] | {"label": "one packet a frame"},
                    OFFLOADED: {"label": "as TCP builds them", "color": "#7f3c8d", "linestyle": "--"},
                },
                x="percent",
                every=True,
            ),
            log="x",
            y_range=(0, 1.05),
        ),
        "knob_busy_hosts_gaps": plot(
            "Spacing beside busy hosts",
            HOSTS,
            "share of gaps within 10 %",
            Sweep("busy_hosts", "within_10", beside_loads, looks=LOADS),
            y_range=(0, 1.05),
        ),
        "knob_virtual_time": plot(
            "Kernels in real and in virtual time",
            DEVIATION,
            "share of gaps within",
            Course(
                "deviations", "within", {name: LOOKS[name] for name in (HUNDRED, MANY_FLOWS)}, x="percent", tiers=True
            ),
            **SEEN,
        ),
    },
    best=("fig1_isolation", "fig7_deviation", "fig9c_800_flows", "control_offloading", "knob_virtual_time"),
)
