"""Whatever may be tested: a control of the simulator, a class, a program, a control or a module of a Linux kernel."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netrepro.applications.own_control import simulate_controls
from netrepro.conformance.scenarios import ConformanceScenario, load_controls
from netrepro.emulation import emulate
from netrepro.emulation.virtual.experiment import check_virtually, emulate_virtually
from netrepro.errors import NetreproError, nearest
from netrepro.networks import Experiment, Measurements
from netrepro.networks.workloads import CONGESTION_CONTROLS, OWN_CONTROL_PREFIX
from netrepro.programs import find_program
from netrepro.simulation import OwnCongestionControl, simulate

OWN_CLAIMS = ("rfc5681",)  # of a control of which nothing is known
CLAIMS = ("rfc5681", "rfc9438", "rfc8257", "bbr", "bbr3", "prague", "paced", "rfc9002")
IN_MODULE = re.compile(r'\.name\s*=\s*"(my_\w+)"')


@dataclass(frozen=True)
class Subject:
    """A congestion control under test.

    name : its name in flows. claims : what it claims to follow (of CLAIMS); sentences for others are not applicable.
    tier : "simulated" or "virtual". own : a class, the command of a program, or the C source of a kernel module; None
    for a control that the tier has. tcp : settings of its TCP. departs : sentence -> why it is known to depart.
    """

    name: str
    claims: tuple[str, ...] = OWN_CLAIMS
    tier: str = "simulated"
    own: type[OwnCongestionControl] | Sequence[str] | Path | None = None
    tcp: Mapping[str, Any] = field(default_factory=dict)
    departs: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = 10.0

    def __post_init__(self) -> None:
        for claim in self.claims:
            if claim not in CLAIMS:
                raise NetreproError(f"no claim {claim!r}", nearest(claim, CLAIMS, with_all=True))
        if self.tier not in ("simulated", "virtual"):
            raise NetreproError(
                f"conformance on tier {self.tier!r}", "use simulated or virtual: both are deterministic"
            )

    def why_not(self, scenario: ConformanceScenario) -> str:
        """Tell why the tier cannot run a scenario; "" where it can."""
        if self.tier == "virtual":
            try:
                check_virtually(scenario.experiment("reno" if isinstance(self.own, Path) else self.name, self.tcp))
            except NetreproError as error:
                return error.problem
        return ""

    def run(self, experiment: Experiment) -> Measurements:
        """Run an experiment whose flows have this control. Raises NetreproError as the tier does."""
        if self.tier == "virtual":
            if isinstance(self.own, Path):
                return emulate_virtually(experiment, modules={self.name: self.own})
            return emulate(experiment, tier="virtual")
        if self.own is None:
            return simulate(experiment)
        if isinstance(self.own, type):
            return simulate(experiment, congestion_controls={self.name: self.own})
        command = [str(word) for word in self.own]  # type: ignore[union-attr]
        return simulate_controls(experiment, {self.name: command}, patience_s=self.patience_s)


def subject_of(
    what: str | type[OwnCongestionControl] | Sequence[str] | Subject,
    *,
    claims: Sequence[str] = (),
    tier: str | None = None,
    tcp: Mapping[str, Any] | None = None,
) -> Subject:
    """Make a subject.

    what : the name of a control; a class; the words of a command, or a text that names a program ("./my_control -v",
    "my_control.py"); a C file of a module of the virtual kernel. claims : what it claims to follow; by default what
    data/conformance/controls.yaml says of a known control, else OWN_CLAIMS.

    Raises NetreproError for a control that the tier lacks, a program or file that is not there, a module on another
    tier than "virtual" or without a name that starts with "my_", and for a mistyped claim.
    """
    if isinstance(what, Subject):
        return what
    more: dict[str, Any] = {"tcp": dict(tcp or {})}
    if isinstance(what, type):
        own = tuple(claims) or OWN_CLAIMS
        return Subject(OWN_CONTROL_PREFIX + what.__name__.lower(), own, _simulated(tier, "a class"), what, **more)
    words = shlex.split(what) if isinstance(what, str) else [str(word) for word in what]
    if not words:
        raise NetreproError("no congestion control to test", "name one, or a program, or a C file")
    if words[0].endswith(".c"):
        return _module(Path(words[0]), tuple(claims) or OWN_CLAIMS, tier, more)
    known = load_controls().controls
    if len(words) == 1 and words[0] in known:
        control = known[words[0]]
        there = tier or "simulated"
        if there == "simulated" and words[0] not in CONGESTION_CONTROLS:
            raise NetreproError(f"the simulator has no {words[0]}", "give --tier virtual, or another control")
        return Subject(words[0], tuple(claims) or control.claims, there, departs=control.departs, **more)
    if tier == "virtual":
        raise NetreproError(
            f"{words[0]!r} on tier virtual", f"give a C file, or {nearest(words[0], known, with_all=True)}"
        )
    command = _command(words, known)
    return Subject("my_program", tuple(claims) or OWN_CLAIMS, _simulated(tier, "a program"), command, **more)


def _simulated(tier: str | None, what: str) -> str:
    if tier not in (None, "simulated"):
        raise NetreproError(f"{what} on tier {tier!r}", "leave the tier out: it runs in the simulator")
    return "simulated"


def _module(path: Path, claims: tuple[str, ...], tier: str | None, more: Mapping[str, Any]) -> Subject:
    if tier not in (None, "virtual"):
        raise NetreproError(f"{path.name} on tier {tier!r}", "leave the tier out: a module runs in the virtual kernel")
    if not path.is_file():
        raise NetreproError(f"no file {path}", "name the C source of a module")
    name = IN_MODULE.search(path.read_text(encoding="utf-8", errors="replace"))
    if name is None:
        raise NetreproError(f"{path.name} names no congestion control of your own", 'write .name = "my_control" in it')
    return Subject(name.group(1), claims, "virtual", path.resolve(), **more)


def _command(words: list[str], known: Mapping[str, Any]) -> list[str]:
    program = Path(words[0])
    if program.suffix == ".py" and program.is_file():
        return [sys.executable, "-B", str(program.resolve()), *words[1:]]
    if program.is_file() or find_program(words[0]):
        return [str(program.resolve()) if program.is_file() else words[0], *words[1:]]
    raise NetreproError(f"no congestion control and no program {words[0]!r}", nearest(words[0], known, with_all=True))
