"""Programs that start and end at given times in a network in virtual time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from netrepro.emulation.plan import check_name
from netrepro.emulation.virtual.network import VirtualNetwork, VirtualProgram
from netrepro.errors import NetreproError
from netrepro.networks.routing import LinkChange
from netrepro.networks.topology import Topology


@dataclass(frozen=True)
class Program:
    """A program for run_programs.

    node : host or switch. start_s : virtual time of its start. end_s : virtual time at which a program that still runs
    gets `end_signal`; None for the end of the run, with SIGTERM. environment : added variables. input : standard input.
    """

    node: str
    command: Sequence[str]
    start_s: float = 0.0
    end_s: float | None = None
    end_signal: int = signal.SIGKILL
    environment: Mapping[str, str] = field(default_factory=dict)
    input: str = ""


@dataclass(frozen=True)
class Ended:
    """The end of a program: exit status (negative for a signal), virtual time, output and error output.

    spins : VirtualNetwork.spins of the whole run; where it is not 0, another run may give other bytes.
    """

    program: Program
    returncode: int
    ended_s: float
    output: str
    errors: str
    spins: int = 0


def run_programs(
    topology: Topology,
    programs: Sequence[Program],
    seconds: float,
    *,
    seed: int = 1,
    events: Sequence[LinkChange] = (),
    files: Mapping[str, str | bytes] | None = None,
    progress: Callable[[float], None] | None = None,
    **network: Any,
) -> list[Ended]:
    """Run programs in a network for so many seconds of virtual time; return how each ended, in the given order.

    These are real, unmodified programs on a real network stack, without privileges; the same seed gives the same
    output. They can read the machine's files. They start in a common folder that holds `files` (name -> content) and to
    which they may write. Programs that still run at the end get SIGTERM and, a second later, SIGKILL.
    events : changes of links. progress : called with the share of the time that has passed (0 to 1). network : further
    arguments of VirtualNetwork.

    Raises NetreproError for unknown nodes, times outside the run, and for a program that cannot be started or that
    never lets time pass.
    """
    for program in programs:
        if not 0 <= program.start_s <= seconds or (program.end_s is not None and program.end_s < program.start_s):
            raise NetreproError(
                f"{program.command[0]} from {program.start_s:g} s to {program.end_s} s in a run of {seconds:g} s",
                "start it within the run, and end it after it has started",
            )
        check_name(program.node, (*topology.hosts, *topology.switches), "host or switch")
    for event in events:
        if event.at_s > seconds:
            raise NetreproError(
                f"a change of the link {event.source} to {event.destination} at {event.at_s:g} s in a run of "
                f"{seconds:g} s",
                "give a time within the run",
            )
        topology.link(event.source, event.destination)
    with VirtualNetwork(topology, seed=seed, **network) as net:
        for name, content in (files or {}).items():
            path = net.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        running: dict[int, VirtualProgram] = {}

        def begin(place: int) -> None:
            each = programs[place]
            running[place] = net[each.node].popen(each.command, input=each.input, environment=each.environment)

        def end(place: int) -> None:
            if running[place].poll() is None:
                running[place].send_signal(programs[place].end_signal)

        moments: list[tuple[float, int, Callable[[], None]]] = [
            (event.at_s, 0, partial(net.carry_out, event)) for event in events
        ]
        for place, each in enumerate(programs):
            moments.append((each.start_s, 1, partial(begin, place)))
            if each.end_s is not None and each.end_s <= seconds:
                moments.append((each.end_s, 2, partial(end, place)))
        for at_s, _, act in sorted(moments, key=lambda moment: moment[:2]):
            net.sleep(at_s - net.now_s)
            if progress is not None:
                progress(min(at_s / seconds, 1.0))
            act()
        net.sleep(seconds - net.now_s)
        for started in running.values():
            if started.poll() is None:
                started.send_signal(signal.SIGTERM)
        net.sleep(1.0)
        ends = [_how_it_ended(each, running[place], net.spins) for place, each in enumerate(programs)]
    if progress is not None:
        progress(1.0)
    return ends


def _how_it_ended(program: Program, started: VirtualProgram, spins: int) -> Ended:
    if started.poll() is None:
        started.kill_all()
        started.wait()
    assert started.returncode is not None and started.ended_s is not None
    return Ended(program, started.returncode, started.ended_s, started.output, started.errors, spins)
