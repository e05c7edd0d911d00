"""Running nodes (user-written processes, or machines) on hosts of a simulated network, with clients, crashes and cuts.

Nodes n1, n2, ... and clients client1, client2, ... have a host each, by default on one switch. Time is that of the
simulation, and the same scenario and programs give the same trial.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

import pandas as pd

from netrepro.applications.own_node.program import Board, NodeProgram, size_bytes
from netrepro.errors import NetreproError, nearest
from netrepro.networks import Experiment, Link, LinkChange, Measurements, Topology, star
from netrepro.protocols.judge import announcements_of, judge
from netrepro.protocols.machine import Machine, Output
from netrepro.protocols.message_log import Letter, MessageLog, kind_of
from netrepro.protocols.registers import READ, SHARES, RegisterClient, history_of
from netrepro.simulation import simulate_machines

LEADER = "leader"  # in a fault: the running node that has announced the highest term
MOST_NODES, MOST_CLIENTS = 9, 9
ONLY_READS = {READ: 1.0}
CRASH, CUT = "crash", "cut"  # kinds of faults
FAULT_COLUMNS = ["kind", "names", "begins_s", "ends_s"]
LIFE_COLUMNS = ["node", "life", "up_s", "down_s"]


@dataclass(frozen=True)
class Crash:
    """A crash of a node at `at_s`; it restarts at `back_s` (math.inf: never), with only its saved state."""

    node: str
    at_s: float
    back_s: float = math.inf

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the affected nodes."""
        return (self.node,)

    @property
    def ends_s(self) -> float:
        """The time at which it is over."""
        return self.back_s


@dataclass(frozen=True)
class Cut:
    """A partition from `at_s` to `until_s` between these nodes and clients and all others: no message passes."""

    names: tuple[str, ...]
    at_s: float
    until_s: float = math.inf

    @property
    def ends_s(self) -> float:
        """The time at which it is over."""
        return self.until_s


@dataclass(frozen=True)
class Scenario:
    """A network, its nodes and clients, and the faults of a run.

    client1 only reads; the other clients read, write and compare-and-set.

    delay_ms, jitter_ms : mean and standard deviation of a message's delay, without its transmission time. loss : share
    of messages that are lost. keys : the clients' registers. interval_s, timeout_s : as in RegisterClient.
    within_s : longest time without an answer that the judge allows after the last fault; high loss needs a longer one.
    network : its first hosts are for the nodes, the next ones for the clients; None for a star of links with this
    delay, jitter and loss. changes : changes of the network's links.

    Raises NetreproError for a number out of its range, for unknown nodes, and for a fault that begins after the end.
    """

    nodes: int = 3
    seconds: float = 5.0
    seed: int = 1
    delay_ms: float = 5.0
    jitter_ms: float = 1.0
    loss: float = 0.0
    faults: tuple[Crash | Cut, ...] = ()
    clients: int = 3
    keys: tuple[str, ...] = ("x", "y")
    interval_s: float = 0.05
    timeout_s: float = 0.5
    within_s: float = 2.0
    network: Topology | None = None
    changes: tuple[LinkChange, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "faults", tuple(self.faults))
        for name in ("nodes", "clients", "seed"):
            if not isinstance(getattr(self, name), int) or isinstance(getattr(self, name), bool):
                raise NetreproError(f"{name} = {getattr(self, name)!r}", "give a whole number")
        ranges = {"nodes": (1, MOST_NODES), "clients": (0, MOST_CLIENTS), "loss": (0.0, 0.99), "seed": (0, math.inf)}
        for name, (least, most) in ranges.items():
            if not least <= getattr(self, name) <= most:
                raise NetreproError(f"{name} = {getattr(self, name)}", f"give {least} to {most}")
        for name in ("seconds", "interval_s", "timeout_s", "within_s", "delay_ms"):
            if not 0 < getattr(self, name) < math.inf:
                raise NetreproError(f"{name} = {getattr(self, name)}", "give more than 0")
        known = [*self.node_names, *self.client_names, LEADER]
        for fault in self.faults:
            for name in fault.names:
                if name not in known or (isinstance(fault, Crash) and name in self.client_names):
                    raise NetreproError(f"{fault}: no node {name!r}", nearest(name, known))
            if not 0 <= fault.at_s < min(fault.ends_s, self.seconds):
                raise NetreproError(
                    f"{fault} in {self.seconds:g} s", "let it begin before its end, and before the run's"
                )
        if self.network is not None and len(self.network.hosts) < self.nodes + self.clients:
            raise NetreproError(
                f"{len(self.network.hosts)} hosts for {self.nodes} nodes and {self.clients} clients", "add hosts"
            )
        _ = self.topology  # raises for an impossible jitter or network

    @property
    def node_names(self) -> list[str]:
        """The nodes' names."""
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    @property
    def client_names(self) -> list[str]:
        """The clients' names."""
        return [f"client{number}" for number in range(1, self.clients + 1)]

    @property
    def topology(self) -> Topology:
        """The network; on the star, a message crosses two links, and each contributes half of the delay."""
        if self.network is not None:
            return self.network
        one_link_loss = 1 - math.sqrt(1 - self.loss)
        link = Link(1000.0, self.delay_ms / 2, loss=one_link_loss, jitter_ms=self.jitter_ms / math.sqrt(2))
        return star(max(self.nodes + self.clients, 2), link)

    @property
    def hosts(self) -> dict[Hashable, str]:
        """The host of each node and client."""
        return dict(zip([*self.node_names, *self.client_names], self.topology.hosts, strict=False))

    @property
    def calm_s(self) -> float:
        """The time at which the last fault or link change is over; math.inf if a cut stays or no majority is left."""
        crashes = [fault for fault in self.faults if isinstance(fault, Crash)]
        gone = sum(math.isinf(each.back_s) for each in crashes)
        if 2 * (self.nodes - gone) <= self.nodes:
            return math.inf
        ends = [each.at_s if each in crashes and math.isinf(each.ends_s) else each.ends_s for each in self.faults]
        return max([0.0, *ends, *(change.at_s for change in self.changes)])


@dataclass(frozen=True)
class Trial:
    """The results of a run.

    messages : one row for each message (`message_log`). announced : the nodes' announcements (`judge`). history : the
    clients' operations (`registers`). lives : one row for each start of a node: node, life, up_s, down_s. faults : one
    row for each fault that had an effect: kind, names (of the actual nodes, also for "leader"), begins_s, ends_s.
    errors : node -> its standard error from all its lives. measured : the network's own measurements.
    """

    scenario: Scenario
    messages: pd.DataFrame
    announced: pd.DataFrame
    history: pd.DataFrame
    lives: pd.DataFrame
    faults: pd.DataFrame
    errors: Mapping[str, str]
    measured: Measurements

    @cached_property
    def verdict(self) -> pd.DataFrame:
        """The judge's verdict, one row for each rule (`judge`)."""
        scenario = self.scenario
        return judge(
            self.announced, self.history, end_s=scenario.seconds, calm_s=scenario.calm_s, within_s=scenario.within_s
        )


MakeNode = Callable[[str, list[str], int, Board], Machine]  # name, peers, seed and board


def run_programs(command: Sequence[str], scenario: Scenario, *, patience_s: float = 10.0) -> Trial:
    """Run a user's program as every node; `program` describes what it reads and writes.

    patience_s : largest time in real seconds that a node's answer may take. Every process is killed at the end,
    whatever happens. Raises NetreproError for a program that cannot be started, hangs, ends, floods, or writes a line
    that is not an action.
    """

    def make(name: str, peers: list[str], seed: int, board: Board) -> NodeProgram:
        return NodeProgram(name, command, peers, seed, board, patience_s=patience_s)

    return run_nodes(make, scenario)


def run_nodes(make: MakeNode, scenario: Scenario, *, kind: Callable[[Any], str] = kind_of) -> Trial:
    """Run machines as nodes. make : function that makes a node, at its start and at each restart; state that must
    survive a crash belongs in `board.saved`. kind : function from a message to its name in diagrams."""
    stage = _Stage(make, scenario, MessageLog(kind))
    with contextlib.closing(stage):
        stage.begin()
        experiment = Experiment(scenario.topology, (), scenario.seconds, scenario.seed, changes=scenario.changes)
        _, measured = simulate_machines(
            experiment, stage.machines, _size_of_letter, scenario.hosts, at=stage.timetable(), most_events=1_000_000
        )
    return Trial(
        scenario,
        stage.log.table(scenario.seconds),
        announcements_of(stage.board.announced),
        history_of(stage.clients),
        pd.DataFrame(stage.lives, columns=LIFE_COLUMNS),
        pd.DataFrame(stage.befell(), columns=FAULT_COLUMNS),
        {name: "".join(said) for name, said in stage.errors.items()},
        measured,
    )


def _size_of_letter(letter: Letter) -> int:
    try:
        return size_bytes(letter.message)
    except TypeError:  # a machine's own message: the length of its text counts
        return len(repr(letter.message))


class _Stage:
    """The nodes and clients of a run, and the faults that hit them."""

    def __init__(self, make: MakeNode, scenario: Scenario, log: MessageLog):
        self.make, self.scenario, self.log, self.board = make, scenario, log, Board()
        self.machines: dict[Hashable, Machine] = {}
        self.clients: list[RegisterClient] = []
        self.lives: list[list[Any]] = []
        self.errors: dict[str, list[str]] = {}
        self._nodes: dict[str, Machine] = {}
        self._victims: dict[int, list[str]] = {}  # number of a fault -> the nodes and clients that it has hit

    def begin(self) -> None:
        scenario = self.scenario
        for name in scenario.node_names:
            self._start(name, 0.0)
        for number, name in enumerate(scenario.client_names, start=1):
            client = RegisterClient(
                name,
                number,
                scenario.node_names,
                scenario.keys,
                scenario.seed,
                interval_s=scenario.interval_s,
                timeout_s=scenario.timeout_s,
                shares=ONLY_READS if number == 1 else SHARES,
            )
            self.clients.append(client)
            self.machines[name] = self.log.recorded(name, client)

    def close(self) -> None:
        """End all nodes."""
        for name in list(self._nodes):
            self._end(name, self.scenario.seconds)

    def timetable(self) -> list[tuple[float, Callable[[float], Iterable[tuple[Hashable, Output]]]]]:
        """List (time_s, function to call) for the beginnings and ends of faults."""
        acts: list[tuple[float, Callable[[float], Iterable[tuple[Hashable, Output]]]]] = []
        for number, fault in enumerate(self.scenario.faults):
            begin, end = (self._crash, self._restart) if isinstance(fault, Crash) else (self._cut, self._mend)
            acts.append((fault.at_s, lambda now_s, number=number, act=begin: act(number, now_s)))  # type: ignore[misc]
            if fault.ends_s < self.scenario.seconds:
                acts.append((fault.ends_s, lambda now_s, number=number, act=end: act(number, now_s)))  # type: ignore[misc]
        return acts

    def befell(self) -> list[tuple[str, str, float, float]]:
        """List the faults that had an effect, as rows of FAULT_COLUMNS."""
        rows = []
        for number, names in sorted(self._victims.items()):
            fault = self.scenario.faults[number]
            kind = CRASH if isinstance(fault, Crash) else CUT
            rows.append((kind, ", ".join(names), fault.at_s, min(fault.ends_s, self.scenario.seconds)))
        return rows

    def _start(self, name: str, now_s: float) -> None:
        peers = [each for each in self.scenario.node_names if each != name]
        life = self.board.lives.get(name, 0) + 1
        seed = Random(f"{self.scenario.seed} {name} {life}").randrange(1 << 31)
        self.board.lives[name] = life
        node = self._nodes[name] = self.make(name, peers, seed, self.board)
        self.machines[name] = self.log.recorded(name, node)
        self.lives.append([name, life, now_s, self.scenario.seconds])

    def _end(self, name: str, now_s: float) -> None:
        node = self._nodes.pop(name)
        self.machines.pop(name, None)
        next(life for life in reversed(self.lives) if life[0] == name)[-1] = now_s
        if isinstance(node, NodeProgram):
            self.errors.setdefault(name, []).append(node.end())

    def _named(self, name: str) -> str | None:
        return self.board.leader(self._nodes) if name == LEADER else name

    def _crash(self, number: int, now_s: float) -> Iterable[tuple[Hashable, Output]]:
        fault = self.scenario.faults[number]
        assert isinstance(fault, Crash)
        name = self._named(fault.node)
        if name in self._nodes:
            self._victims[number] = [name]
            self._end(name, now_s)
        return ()

    def _restart(self, number: int, now_s: float) -> Iterable[tuple[Hashable, Output]]:
        outputs: list[tuple[Hashable, Output]] = []
        for name in self._victims.get(number, ()):
            self._start(name, now_s)
            outputs += [(name, output) for output in self.machines[name].start(now_s)]
        return outputs

    def _cut(self, number: int, now_s: float) -> Iterable[tuple[Hashable, Output]]:
        fault = self.scenario.faults[number]
        assert isinstance(fault, Cut)
        self._victims[number] = [name for each in fault.names if (name := self._named(each))]
        self.log.cut_off(self._victims[number])
        return ()

    def _mend(self, number: int, now_s: float) -> Iterable[tuple[Hashable, Output]]:
        self.log.heal(self._victims[number])
        return ()


def repeat(command: Sequence[str], scenario: Scenario, seeds: Iterable[int], **how: Any) -> pd.DataFrame:
    """Run a program in the same scenario with each seed; returns the verdicts, one row a seed and one column a rule.

    how : further arguments of run_programs. Raises NetreproError as run_programs does.
    """
    rows = {}
    for seed in seeds:
        verdict = run_programs(command, replace(scenario, seed=seed), **how).verdict
        rows[seed] = verdict.set_index("rule")["verdict"]
    return pd.DataFrame(rows).T.rename_axis(index="seed", columns=None)
