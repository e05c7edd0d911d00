"""What the notebook about a protocol of one's own runs and draws: nodes in any language, judged, message by message."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from netrepro.applications.own_node.raft import run_raft
from netrepro.applications.own_node.run import Crash, Cut, Scenario, Trial, run_programs
from netrepro.errors import NetreproError
from netrepro.networks import Cable, DropTail, Experiment, Flow, Link, Measure, Tcp, Topology, dumbbell
from netrepro.protocols.epaxos import EPaxosReplica
from netrepro.protocols.judge import BROKEN, LEADER
from netrepro.protocols.machine import Machine
from netrepro.protocols.message_log import ARRIVED, LOST, Letter, MessageLog
from netrepro.protocols.replicated_store import Client, Command
from netrepro.simulation import simulate, simulate_machines
from netrepro.study.message_diagram import draw_messages, draw_time_sequence, segments_of
from netrepro.style import use_style

__all__ = [
    "Crash",
    "Cut",
    "Scenario",
    "broken_rules",
    "draw",
    "draw_around",
    "draw_epaxos",
    "draw_segments",
    "first_broken",
    "leaderless_ms",
    "lost_share",
    "run_python",
    "run_raft",
    "side_by_side",
]

PROTOCOL_BYTES = 100  # of a message of EPaxos and its clients
FLOW_PORTS = (("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("h2", "s2"), ("s2", "s1"), ("s1", "h1"))


def run_python(source: str, scenario: Scenario, *, patience_s: float = 20.0) -> Trial:
    """Run a node written in Python, a text, as every node of a scenario, from a temporary folder.

    Raises NetreproError for one that is not Python, and as `run_programs` does, which runs any other language.
    """
    try:
        compile(source, "node.py", "exec")
    except SyntaxError as error:
        raise NetreproError(f"node.py line {error.lineno}: {error.msg}", "mend that line") from None
    with tempfile.TemporaryDirectory(prefix="netrepro-node-") as folder:
        program = Path(folder) / "node.py"
        program.write_text(source, encoding="utf-8")
        return run_programs([sys.executable, "-B", str(program)], scenario, patience_s=patience_s)


def broken_rules(trial: Trial) -> list[str]:
    """List the rules that a trial broke."""
    verdict = trial.verdict
    return list(verdict["rule"][verdict["verdict"] == BROKEN])


def first_broken(source: str, scenario: Scenario, seeds: Iterable[int]) -> Trial | None:
    """Run a node with one seed after the other; returns the first trial that breaks a rule, or None."""
    for seed in seeds:
        trial = run_python(source, replace(scenario, seed=seed))
        if broken_rules(trial):
            return trial
    return None


def side_by_side(trials: Mapping[str, Trial]) -> pd.DataFrame:
    """Put verdicts side by side: a row a rule, a column a trial."""
    return pd.DataFrame({name: trial.verdict.set_index("rule")["verdict"] for name, trial in trials.items()})


def leaderless_ms(trial: Trial, crash_s: float) -> float:
    """Return the time from a crash until a node announces that it leads, in ms; NaN where none does."""
    leads = trial.announced[(trial.announced["kind"] == LEADER) & (trial.announced["time_s"] > crash_s)]
    return float(leads["time_s"].min() - crash_s) * 1e3


def lost_share(trial: Trial) -> float:
    """Return the share of the messages between nodes that were up and not parted which the network lost.

    What is under way at the end does not count, nor does what was sent to or from a node around its crashes.
    """
    nodes, table = trial.scenario.node_names, trial.messages
    table = table[table["sender"].isin(nodes) & table["receiver"].isin(nodes)]
    for fault in trial.scenario.faults:
        ends_s = fault.back_s if isinstance(fault, Crash) else fault.until_s
        table = table[~table["sent_s"].between(fault.at_s - 0.1, ends_s)]
    return float((table["fate"] == LOST).sum() / table["fate"].isin([ARRIVED, LOST]).sum())


def draw(trial: Trial, begins_s: float, ends_s: float, *, clients: bool = False, title: str = "") -> Figure:
    """Draw the messages between nodes, and clients if asked, that are sent in that time (s)."""
    use_style()
    scenario = trial.scenario
    names: list[Hashable] = [*scenario.node_names, *(scenario.client_names if clients else ())]
    return draw_messages(
        trial.messages,
        between=(begins_s, ends_s),
        names=names,
        lives=trial.lives,
        announced=trial.announced,
        title=title or f"{scenario.nodes} nodes, {begins_s:g} to {ends_s:g} s",
    )


def draw_around(trial: Trial, rule: str, before_s: float = 0.05, after_s: float = 0.02, **how: Any) -> Figure:
    """Draw the messages around the moment in which a rule was seen to be broken. Raises NetreproError where it was
    not."""
    row = trial.verdict.set_index("rule").loc[rule]
    if row["verdict"] != BROKEN:
        raise NetreproError(f"{rule}: {row['verdict']}", "draw any time by draw(trial, begins_s, ends_s)")
    begins_s, ends_s = max(row["evident_s"] - before_s, 0.0), row["evident_s"] + after_s
    return draw(trial, round(begins_s, 3), round(ends_s, 3), title=f"Broken: {rule}", **how)


def draw_epaxos(hop_ms: float = 4.0) -> Figure:
    """Draw EPaxos among five replicas in a row, with a client at each end: two writes of one key meet, and one needs a
    second round; then a write of another key meets nobody, and needs one round."""
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
        machines[name] = log.recorded(name, Client(name[-1], [0.01, 0.1][: len(commands)], commands, 1, 1.0))
    experiment = Experiment(Topology(tuple(cables), name="five replicas in a row"), (), 0.25)
    simulate_machines(experiment, machines, _few_bytes, hosts)
    title = "EPaxos: two writes of one key meet, then a write of another key meets nobody"
    return draw_messages(log.table(0.25), names=["client a", *names, "client e"], title=title)


def _few_bytes(letter: Letter) -> int:
    return PROTOCOL_BYTES


def draw_segments(control: str = "reno") -> tuple[Figure, Figure]:
    """Draw the begin of a TCP flow whose slow start overruns a short queue, twice: its packets between both hosts, and
    its segments by number over time."""
    use_style()
    network = dumbbell(1, Link(100, 2), Link(10, 10, DropTail(packets=12)))
    look = Measure(packets=FLOW_PORTS)
    experiment = Experiment(network, (Flow("h1", "h2", 300_000),), 2.0, measure=look, tcp=Tcp(control))
    segments = segments_of(simulate(experiment), 0)
    begin_s = float(segments["sent_s"].min())
    title = "A TCP flow's first round trips: a segment an arrow"
    first = draw_messages(segments, between=(begin_s, begin_s + 0.1), names=["h1", "h2"], title=title)
    return first, draw_time_sequence(segments, title="Slow start overruns a queue of 12 packets")
