"""Runs and figures of the notebook about a reader's own protocol: programs in any language, message by message."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from netrepro.applications.own_control import simulate_controls
from netrepro.applications.own_node.raft import run_raft
from netrepro.applications.own_node.run import CUT, Crash, Cut, Scenario, Trial, run_programs
from netrepro.errors import NetreproError
from netrepro.networks import Cable, DropTail, Experiment, Flow, Link, Measure, Measurements, Tcp, Topology, dumbbell
from netrepro.protocols.epaxos import EPaxosReplica
from netrepro.protocols.judge import BROKEN, LEADER
from netrepro.protocols.machine import Machine
from netrepro.protocols.message_log import LOST, Letter, MessageLog
from netrepro.protocols.replicated_store import Command, StoreClient
from netrepro.simulation import simulate, simulate_machines
from netrepro.study.message_diagram import draw_messages, draw_time_sequence, segments_of
from netrepro.study.pictures import panels
from netrepro.style import CURVES, use_style

__all__ = [
    "Crash",
    "Cut",
    "Scenario",
    "broken_rules",
    "draw",
    "draw_around",
    "draw_epaxos",
    "draw_segments",
    "draw_windows",
    "first_broken",
    "leaderless_ms",
    "lost_share",
    "race_python",
    "run_python",
    "run_raft",
    "side_by_side",
]

OWN_CONTROL = "my_control"
PROGRAM = "program.py"
PROTOCOL_BYTES = 100  # size of each message of EPaxos and its clients
FLOW_PORTS = (("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("h2", "s2"), ("s2", "s1"), ("s1", "h1"))


def run_python(source: str, scenario: Scenario, *, patience_s: float = 20.0) -> Trial:
    """Run a Python program, given as text, as every node of a scenario, from a temporary folder.

    Raises NetreproError for a text that is not Python, and as `run_programs` does, which runs other languages.
    """
    with written_program(source) as command:
        return run_programs(command, scenario, patience_s=patience_s)


@contextmanager
def written_program(source: str) -> Iterator[list[str]]:
    """Write a Python program into a temporary folder; yield the command that runs it. Raises NetreproError for a text
    that is not Python."""
    try:
        compile(source, PROGRAM, "exec")
    except SyntaxError as error:
        raise NetreproError(f"{PROGRAM} line {error.lineno}: {error.msg}", "mend that line") from None
    with tempfile.TemporaryDirectory(prefix="netrepro-") as folder:
        program = Path(folder) / PROGRAM
        program.write_text(source, encoding="utf-8")
        yield [sys.executable, "-B", str(program)]


def race_python(source: str, rivals: Iterable[str], seconds: float = 10.0, seed: int = 1) -> dict[str, Measurements]:
    """Race a congestion control in Python, given as text and named OWN_CONTROL, against each rival. The path has
    10 Mb/s, 40 ms and a buffer of one bandwidth-delay product; the windows of both flows are sampled.

    rivals : congestion controls of the simulator, or OWN_CONTROL itself. Raises NetreproError as `simulate_controls`
    does, which runs other languages.
    """
    network = dumbbell(2, Link(500, 1), Link(10, 18, DropTail(packets=33)))
    runs = {}
    with written_program(source) as command:
        for rival in rivals:
            flows = tuple(
                Flow(
                    f"h{place}", f"h{place + 2}", duration_s=seconds - start_s, start_s=start_s, congestion_control=name
                )
                for place, start_s, name in ((1, 0.0, OWN_CONTROL), (2, 0.5, rival))
            )
            experiment = Experiment(network, flows, seconds, seed, Measure(windows_interval_ms=20))
            runs[f"{OWN_CONTROL} and {rival}"] = simulate_controls(experiment, {OWN_CONTROL: command}, patience_s=20.0)
    return runs


def draw_windows(runs: Mapping[str, Measurements]) -> Figure:
    """Draw the congestion windows of both flows over time, with a panel for each race."""
    use_style()
    figure, axes = panels("Two flows, one bottleneck", "time (s)", "congestion window (segments)", list(runs))
    for axis, measured in zip(axes, runs.values(), strict=True):
        names = measured.flows["congestion_control"]
        for flow, table in measured.windows.groupby("flow"):
            segments = table["window_bytes"] / measured.experiment.tcp.segment_bytes
            label = f"{names[flow]}, {measured.flows['goodput_mbps'][flow]:.1f} Mb/s"
            axis.plot(table["time_s"], segments, label=label, color=CURVES[2 * int(flow)])
        axis.legend(fontsize=8)
    return figure


def broken_rules(trial: Trial) -> list[str]:
    """List the rules that a trial broke."""
    verdict = trial.verdict
    return list(verdict["rule"][verdict["verdict"] == BROKEN])


def first_broken(source: str, scenario: Scenario, seeds: Sequence[int]) -> Trial:
    """Run a node with one seed after the other; return the first trial that breaks a rule, or else the last one.

    Raises NetreproError for an empty list of seeds, and as run_python does.
    """
    if not seeds:
        raise NetreproError("no seed to try", "give one at least")
    for seed in seeds:
        trial = run_python(source, replace(scenario, seed=seed))
        if broken_rules(trial):
            break
    return trial


def side_by_side(trials: Mapping[str, Trial]) -> pd.DataFrame:
    """Put verdicts side by side: a row for each rule, a column for each trial."""
    return pd.DataFrame({name: trial.verdict.set_index("rule")["verdict"] for name, trial in trials.items()})


def leaderless_ms(trial: Trial, crash_s: float) -> float:
    """Return the time from a crash until a node announces that it leads, in ms; NaN where no node does."""
    leads = trial.announced[(trial.announced["kind"] == LEADER) & (trial.announced["time_s"] > crash_s)]
    return float(leads["time_s"].min() - crash_s) * 1e3


def lost_share(trial: Trial, until_s: float) -> float:
    """Return the share of the messages between nodes, sent until `until_s`, that the network lost."""
    nodes, table = trial.scenario.node_names, trial.messages
    table = table[table["sender"].isin(nodes) & table["receiver"].isin(nodes) & (table["sent_s"] <= until_s)]
    return float((table["fate"] == LOST).mean())


def draw(trial: Trial, begins_s: float, ends_s: float, *, clients: bool = False, title: str = "") -> Figure:
    """Draw the messages that nodes, and with `clients` also clients, send between `begins_s` and `ends_s`."""
    use_style()
    scenario = trial.scenario
    names: list[Hashable] = [*scenario.node_names, *(scenario.client_names if clients else ())]
    return draw_messages(
        trial.messages,
        between=(begins_s, ends_s),
        names=names,
        lives=trial.lives,
        announced=trial.announced,
        cuts=trial.faults[trial.faults["kind"] == CUT],
        title=title or f"{scenario.nodes} nodes, {begins_s:g} to {ends_s:g} s",
    )


def draw_around(trial: Trial, rule: str, before_s: float = 0.05, after_s: float = 0.02, **how: Any) -> Figure:
    """Draw the messages around the moment at which a rule was evidently broken; for a rule that was not broken, around
    the first announcement. how : further arguments of `draw`."""
    row = trial.verdict.set_index("rule").loc[rule]
    is_broken = row["verdict"] == BROKEN
    time_s = row["evident_s"] if is_broken else float(trial.announced["time_s"].min())
    begins_s, ends_s = max(time_s - before_s, 0.0), time_s + after_s
    title = f"Broken: {rule}" if is_broken else f"Not broken in this run: {rule}"
    return draw(trial, round(begins_s, 3), round(ends_s, 3), title=title, **how)


def draw_epaxos(hop_ms: float = 4.0) -> Figure:
    """Draw EPaxos among five replicas in a row, with a client at each end. Two writes of one key meet, and one needs a
    second round. Then a write of another key meets no other and needs one round."""
    use_style()
    names = ["a", "b", "c", "d", "e"]
    asks: dict[str, list[Command]] = {
        "client a": [Command("client a", 0, 1, True), Command("client a", 1, 2, True)],
        "client e": [Command("client e", 0, 1, True)],
    }
    switches = ["s1", "s2", "s3", "s4", "s5", "s1", "s5"]
    hosts: dict[Hashable, str] = {name: f"h{place}" for place, name in enumerate([*names, *asks], 1)}
    local, hop = Link(1000.0, 0.5), Link(1000.0, hop_ms)
    cables = [Cable(host, switch, local) for host, switch in zip(hosts.values(), switches, strict=True)]
    cables += [Cable(*pair, hop) for pair in pairwise(switches[:5])]
    log = MessageLog()
    machines: dict[Hashable, Machine] = {name: log.recorded(name, EPaxosReplica(name, names)) for name in names}
    for name, commands in asks.items():
        machines[name] = log.recorded(name, StoreClient(name[-1], [0.01, 0.1][: len(commands)], commands, 1, 1.0))
    experiment = Experiment(Topology(tuple(cables), name="five replicas in a row"), (), 0.25)
    simulate_machines(experiment, machines, _few_bytes, hosts)
    title = "EPaxos: two writes of one key meet, then a write of another key meets nobody"
    return draw_messages(log.table(0.25), names=["client a", *names, "client e"], title=title)


def _few_bytes(letter: Letter) -> int:
    return PROTOCOL_BYTES


def draw_segments(control: str = "reno") -> tuple[Figure, Figure]:
    """Draw the beginning of a TCP flow whose slow start overruns a short queue. Two figures: its packets between both
    hosts, and its segments by number over time."""
    use_style()
    network = dumbbell(1, Link(100, 2), Link(10, 10, DropTail(packets=12)))
    look = Measure(packets=FLOW_PORTS)
    experiment = Experiment(network, (Flow("h1", "h2", 300_000),), 2.0, measure=look, tcp=Tcp(control))
    segments = segments_of(simulate(experiment), 0)
    begin_s = float(segments["sent_s"].min())
    title = "A TCP flow's first round trips: a segment an arrow"
    first = draw_messages(segments, between=(begin_s, begin_s + 0.1), names=["h1", "h2"], title=title)
    return first, draw_time_sequence(segments, title="Slow start overruns a queue of 12 packets")
