"""Can the simulator be believed? Eight scenarios on the emulator, in the simulator and in ns-3.

Every scenario is one Experiment, which all tools run; their results are shown side by side, whether the tools agree or
not. The scenarios are the common ones of the field: shares of a dumbbell, the queue
of two flows (Handigol et al., CoNEXT 2012, Figure 6), DCTCP's queue (Alizadeh et al., SIGCOMM 2010), slow start, the
square-root law (Mathis et al., CCR 1997), a permutation in a fat-tree (Al-Fares et al., SIGCOMM 2008), incast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netrepro.emulation import emulate
from netrepro.emulation.tiers import VIRTUAL_TIME_TIERS, probe_tiers, resolve_tier
from netrepro.errors import NetreproError
from netrepro.networks import (
    Cable,
    DropTail,
    EcnThreshold,
    Experiment,
    Flow,
    Link,
    Measure,
    Queue,
    Tcp,
    Topology,
    dumbbell,
    fat_tree,
    star,
)
from netrepro.paths import runs_dir
from netrepro.simulation import simulate
from netrepro.simulation.ns3 import build_ns3, simulate_ns3
from netrepro.study import Progress, in_parallel, of_profile, seed_of
from netrepro.style import new_figure, scheme, use_style

SIMULATED, EMULATED, NS3 = "simulated", "emulated", "ns-3"
SEEDS = 5  # of the simulator, to show how far apart runs of one tool are
# The tables flows and queues of Measurements or Ns3Run -> a value.
Reading = Callable[[pd.DataFrame, pd.DataFrame], float]
Found = tuple[dict[str, float], str]  # a tool's values by quantity, and a note


@dataclass(frozen=True)
class CheckedScenario:
    """An experiment and its readings: quantity with unit -> function of the run's flows and queues."""

    name: str
    experiment: Experiment
    readings: dict[str, Reading]


@dataclass(frozen=True)
class ScenarioSize:
    """The duration of a long scenario (s), the buffer that two flows share, and the number of incast's blocks."""

    seconds: float
    buffer_packets: int
    blocks: int


def scale(profile: str) -> ScenarioSize:
    """Return the length of the scenarios. Raises NetreproError for a profile other than quick and paper."""
    return of_profile(profile, {"quick": ScenarioSize(3.0, 100, 3), "paper": ScenarioSize(60.0, 425, 30)})


def scenarios(size: ScenarioSize, seed: int) -> list[CheckedScenario]:
    """Return the eight scenarios."""
    shared = DropTail(packets=size.buffer_packets)
    return [
        _ten_flows(size, seed),
        _two_flows("two Reno flows at one port", "reno", shared, size, seed),
        _two_flows("two CUBIC flows at one port", "cubic", shared, size, seed),
        _two_flows("two DCTCP flows, marks from 20 packets on", "dctcp", EcnThreshold(425, 20), size, seed),
        _slow_start(seed),
        _random_loss(size, seed),
        _permutation(size, seed),
        _incast(size, seed),
    ]


def goodput_mbps(flows: pd.DataFrame, queues: pd.DataFrame) -> float:
    """Add up the goodput of all flows, each over its own time."""
    return float(flows["goodput_mbps"].sum())


def _ten_flows(size: ScenarioSize, seed: int) -> CheckedScenario:
    net = dumbbell(10, Link(1000, 0.5, DropTail(packets=1000)), Link(100, 10, DropTail(packets=100)))
    flows = tuple(
        Flow(f"h{i + 1}", f"h{i + 11}", duration_s=size.seconds - i / 100, start_s=i / 100) for i in range(10)
    )
    tcp = Tcp("reno", delayed_ack_ms=0)
    experiment = Experiment(net, flows, size.seconds, seed, tcp=tcp)
    return CheckedScenario("ten Reno flows share 100 Mb/s", experiment, {"goodput (Mb/s)": goodput_mbps})


def _two_flows(
    name: str, control: str, queue: DropTail | EcnThreshold, size: ScenarioSize, seed: int
) -> CheckedScenario:
    def settled(flows: pd.DataFrame, queues: pd.DataFrame) -> pd.Series:
        return queues["queue_packets"][queues["time_s"] > size.seconds / 4]

    experiment = two_flows(queue, Tcp(control), size.seconds, seed)
    readings: dict[str, Reading] = {
        "mean queue (packets)": lambda *tables: float(settled(*tables).mean()),
        "goodput (Mb/s)": goodput_mbps,
    }
    return CheckedScenario(name, experiment, readings)


def two_flows(queue: Queue, tcp: Tcp, seconds: float, seed: int, interval_ms: float = 10.0) -> Experiment:
    """Make the experiment of two flows from two hosts to a third, and sample the queue at the third host's port."""
    # Without jitter, as in ns-3's runs, two flows tend to lock each other out.
    net = star(3, Link(100, 0.075, queue, jitter_ms=0.05))
    flows = (Flow("h1", "h3", duration_s=seconds), Flow("h2", "h3", duration_s=seconds))
    return Experiment(net, flows, seconds, seed, Measure((("s1", "h3"),), interval_ms), tcp)


def _completion_ms(place: int) -> Reading:
    return lambda flows, queues: float(flows["completion_ms"].iloc[place])


def _slow_start(seed: int) -> CheckedScenario:
    """Make the scenario in which flows run one after the other and never meet."""
    net = dumbbell(1, Link(200, 1, DropTail(packets=1000)), Link(20, 38, DropTail(packets=1000)))
    sizes_bytes, starts_s = (10_000, 100_000, 500_000), (0.2, 0.6, 1.3)
    flows = tuple(Flow("h1", "h2", size, start_s=start) for size, start in zip(sizes_bytes, starts_s, strict=True))
    experiment = Experiment(net, flows, 2.8, seed, tcp=Tcp("reno"))
    readings = {f"completion of {size // 1000} kB (ms)": _completion_ms(i) for i, size in enumerate(sizes_bytes)}
    return CheckedScenario("slow start over a round trip of 80 ms", experiment, readings)


def _random_loss(size: ScenarioSize, seed: int) -> CheckedScenario:
    """Make the scenario of four flows that do not fill their link, on a wire that loses one packet in a hundred. The
    square-root law gives 113 Mb/s."""
    wire = Link(200, 2.4, DropTail(packets=1000))
    net = Topology((Cable("h1", "s1", replace(wire, loss=0.01), wire), Cable("s1", "h2", replace(wire, delay_ms=0.1))))
    flows = tuple(Flow("h1", "h2", duration_s=size.seconds) for _ in range(4))
    experiment = Experiment(net, flows, size.seconds, seed, tcp=Tcp("reno", delayed_ack_ms=0))
    return CheckedScenario("Reno where 1 % is lost", experiment, {"goodput of four flows (Mb/s)": goodput_mbps})


def _permutation(size: ScenarioSize, seed: int) -> CheckedScenario:
    """Make the scenario in which every host sends to the host half the tree away. The links are slow enough for a
    kernel that emulates all 48 of them."""
    net = fat_tree(4, Link(5, 0.5, DropTail(packets=20)))
    seconds = size.seconds
    flows = tuple(Flow(f"h{i + 1}", f"h{(i + 8) % 16 + 1}", duration_s=seconds - i / 1e3, start_s=i / 1e3)
                  for i in range(16))  # fmt: skip
    experiment = Experiment(net, flows, seconds, seed, tcp=Tcp("reno", delayed_ack_ms=0))
    return CheckedScenario(
        "a permutation in a fat-tree (k = 4)", experiment, {"goodput of 16 flows (Mb/s)": goodput_mbps}
    )


def _incast(size: ScenarioSize, seed: int) -> CheckedScenario:
    """Make the scenario in which eight servers answer at once into a buffer of 20 packets, every two seconds."""
    servers, fragment_bytes, apart_s = 8, 64_000, 2.0

    def block_ms(flows: pd.DataFrame, queues: pd.DataFrame) -> float:
        times = flows["completion_ms"].fillna(np.inf).to_numpy().reshape(size.blocks, servers)
        return float(np.median(times.max(axis=1)))

    net = star(servers + 1, Link(100, 0.1, DropTail(packets=20)))
    flows = tuple(
        Flow(f"h{i + 2}", "h1", fragment_bytes, start_s=0.1 + apart_s * block + i * 2e-4)
        for block in range(size.blocks)
        for i in range(servers)
    )
    tcp = Tcp("reno", delayed_ack_ms=0, tail_loss_probe=False)
    experiment = Experiment(net, flows, apart_s * size.blocks + 0.1, seed, tcp=tcp)
    return CheckedScenario("incast of 8 servers, timeouts of 200 ms", experiment, {"median block (ms)": block_ms})


def measure(profile: str, tier: str, seed: int, progress: Progress = iter) -> pd.DataFrame:
    """Measure all scenarios on all tools. Columns: scenario, quantity, tool, value, least, most (over the seeds of the
    simulator), note.

    tier : "virtual", "simulated" to leave the kernel out, or "auto" for "virtual" where the machine has it. Where a
    tool is missing or cannot run a scenario, the value is NaN and the note has the reason. The note of a kernel's run
    names those of its own checks that failed. Raises NetreproError for an unknown profile or tier.
    """
    size = scale(profile)
    chosen = resolve_tier(tier, VIRTUAL_TIME_TIERS, probe_tiers())[0]
    program = build_ns3(runs_dir() / "ns3")
    wanted, rows = scenarios(size, seed), []

    def run_one(scenario: CheckedScenario) -> tuple[list[dict[str, float]], Found, Found]:
        runs = [_simulated(scenario, seed_of(seed, repetition)) for repetition in range(SEEDS)]
        return runs, _emulated(scenario, chosen), _ns3(scenario, program)

    tools = in_parallel(run_one, [(scenario,) for scenario in wanted], progress=progress)
    for scenario, (runs, (emulated, emulated_note), (ns3, ns3_note)) in zip(wanted, tools, strict=True):
        for quantity in scenario.readings:
            spread = np.array([run[quantity] for run in runs])
            label = {"scenario": scenario.name, "quantity": quantity}
            ours = dict(value=float(np.median(spread)), least=float(spread.min()), most=float(spread.max()), note="")
            rows.append({**label, "tool": SIMULATED, **ours})
            for tool, values_of, note in ((EMULATED, emulated, emulated_note), (NS3, ns3, ns3_note)):
                value = values_of.get(quantity, np.nan)
                rows.append({**label, "tool": tool, "value": value, "least": value, "most": value, "note": note})
    return pd.DataFrame(rows)


def _read(scenario: CheckedScenario, flows: pd.DataFrame, queues: pd.DataFrame) -> dict[str, float]:
    return {quantity: reading(flows, queues) for quantity, reading in scenario.readings.items()}


def _simulated(scenario: CheckedScenario, seed: int) -> dict[str, float]:
    run = simulate(replace(scenario.experiment, seed=seed))
    return _read(scenario, run.flows, run.queues)


def _emulated(scenario: CheckedScenario, tier: str) -> Found:
    if tier == "simulated":
        return {}, "not available here"
    try:
        run = emulate(scenario.experiment, tier)
    except NetreproError as error:
        return {}, str(error)
    failed = run.fidelity["check"][~run.fidelity["holds"]]
    note = "" if run.trusted else f"untrusted: {', '.join(failed)}"
    return _read(scenario, run.flows, run.queues), note


def _ns3(scenario: CheckedScenario, program: Path | None) -> Found:
    if program is None:
        return {}, "not installed"
    try:
        run = simulate_ns3(scenario.experiment, program)
    except NetreproError as error:
        return {}, str(error)
    jitters = any(link.jitter_ms for link in scenario.experiment.topology.ports.values())
    return _read(scenario, run.flows, run.queues), "wires without jitter" if jitters else ""


def side_by_side(values: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each quantity: the value of each tool, how far the others are from the simulator (%), the
    simulator's spread over seeds (%), notes."""
    order = ["scenario", "quantity"]
    table = values.pivot(index=order, columns="tool", values="value").reindex(
        pd.MultiIndex.from_frame(values[order].drop_duplicates())
    )[[SIMULATED, EMULATED, NS3]]
    ours = values[values["tool"] == SIMULATED].set_index(order)
    for tool in (EMULATED, NS3):
        table[f"{tool}, off by %"] = (table[tool] / table[SIMULATED] - 1) * 100
    table["seeds, % apart"] = (ours["most"] - ours["least"]) / ours["value"] * 100
    notes = values[values["note"] != ""].groupby(order)[["tool", "note"]]
    table["note"] = notes.apply(lambda rows: "; ".join(dict.fromkeys(rows["tool"] + ": " + rows["note"])))
    return table.assign(note=table["note"].fillna(""))


def draw(values: pd.DataFrame) -> Figure:
    """Draw the results of the emulator and ns-3 as shares of the simulator's. Bars show the simulator's own spread over
    seeds, and hollow points the emulator's runs that failed their own checks."""
    use_style()
    table = side_by_side(values)
    ours = values[values["tool"] == SIMULATED].set_index(["scenario", "quantity"])
    figure, axis = new_figure("The same eight scenarios on three tools", "share of what the simulator found", "")
    places = np.arange(len(table))[::-1]
    axis.barh(
        places,
        (ours["most"] - ours["least"]) / ours["value"],
        left=ours["least"] / ours["value"],
        color=scheme(SIMULATED).colour,
        alpha=0.3,
        label=f"simulator, {SEEDS} seeds",
    )
    for tool in (EMULATED, NS3):
        look, share = scheme(tool), table[tool] / table[SIMULATED]
        believed = ~table["note"].str.contains(f"{tool}: untrusted")
        axis.plot(share[believed], places[believed], look.marker, color=look.colour, label=look.label)
        axis.plot(share[~believed], places[~believed], look.marker, color=look.colour, fillstyle="none")
    axis.axvline(1, color="#444444", linewidth=0.8)
    axis.set_yticks(places, [f"{scenario}\n{quantity}" for scenario, quantity in table.index], fontsize=7)
    figure.set_size_inches(9, 0.5 * len(table) + 1)
    axis.legend()
    return figure


def draw_scenario(seed: int = 1) -> Figure:
    """Draw the queue of two Reno flows in the simulator, for the page's first picture."""
    use_style()
    run = simulate(scenarios(scale("quick"), seed)[1].experiment)
    figure, axis = new_figure("Two Reno flows at one port, 100 packets", "time (s)", "queue (packets)")
    axis.plot(run.queues["time_s"], run.queues["queue_packets"], color=scheme("reno").colour)
    return figure
