"""Suites as data: `data/conformance/<suite>.yaml`, read strictly; a mistyped key is an error that names it.

A scenario is a path, what happens to it, traffic, and sentences. A sentence says in words what a source (an RFC and its
section) asks for, and names a reading of the trace (`readings.py`) with its bounds. `controls.yaml` lists what each
known congestion control claims to follow, and where it is known to depart from that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from netrepro import networks
from netrepro.conformance.readings import READINGS
from netrepro.errors import NetreproError, nearest
from netrepro.networks import Experiment, Flow, Link, LinkChange, Measure, Policer, Queue, Requests, Tcp, Topology
from netrepro.networks.links import bandwidth_delay_packets
from netrepro.networks.queues import DropTail
from netrepro.networks.topology import Cable
from netrepro.paths import all_data

SUITES = ("rfc", "bbr", "fairness")
SUBJECT = "subject"  # stands for the control under test in a scenario's flows
BOTTLENECK = ("s1", "s2")
ROOMY = DropTail(packets=100_000)
Level = Literal["MUST", "SHOULD", "expected"]  # "expected": said in a document without these words


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PathModel(_Strict):
    """The path: a bottleneck between two switches, and senders whose own links make up the round trip.

    buffer_bdp : size of the bottleneck's drop-tail buffer, in bandwidth-delay products; or `queue`: a queue of
    `netrepro.networks` by its `kind`, with its fields. acknowledgements : the queue of the way back.
    """

    rate_mbps: float = Field(gt=0)
    round_trip_ms: float = Field(gt=0)
    buffer_bdp: float | None = Field(None, gt=0)
    queue: dict[str, Any] | None = None
    acknowledgements: dict[str, Any] | None = None
    policer: dict[str, float] | None = None
    loss: float = 0.0
    reordering: float = 0.0
    reordering_ms: float = 0.0

    @model_validator(mode="after")
    def _one_buffer(self) -> PathModel:
        if (self.buffer_bdp is None) == (self.queue is None):
            raise ValueError("give buffer_bdp or queue")
        return self

    def bottleneck_queue(self) -> Queue:
        """Make the queue in front of the bottleneck."""
        if self.queue is not None:
            return _queue(self.queue)
        packets = bandwidth_delay_packets(self.rate_mbps, self.round_trip_ms) * (self.buffer_bdp or 1)
        return DropTail(packets=max(round(packets), 2))


class FlowModel(_Strict):
    """A sender: long unless it has `size_bytes`; or, with `responses`, it sends so many answers of that size, each
    `pause_ms` after the last was received."""

    control: str = SUBJECT
    start_s: float = 0.0
    round_trip_ms: float | None = None
    size_bytes: int | None = None
    responses: int | None = None
    pause_ms: float = 0.0
    tcp: dict[str, Any] = {}


class ChangeModel(_Strict):
    """A change of the bottleneck at `at_s`, which is taken back after `for_s` (None: never)."""

    at_s: float
    for_s: float | None = None
    loss: float | None = None
    rate_mbps: float | None = None
    extra_delay_ms: float | None = None


class Sentence(_Strict):
    """A sentence: the reading of a trace, and its bounds. `for`: who claims one of these has to follow it; empty: all.

    than_reference : the bounds count in multiples of the same reading of the reference's run. bound : where the bound
    is from, if not from the source itself.
    """

    id: str
    says: str
    source: str
    level: Level
    claims: tuple[str, ...] = Field((), alias="for")
    reading: str
    with_: dict[str, Any] = Field({}, alias="with")
    at_least: float | None = None
    at_most: float | None = None
    than_reference: bool = False
    bound: str = ""

    @model_validator(mode="after")
    def _sound(self) -> Sentence:
        if self.reading not in READINGS:
            raise ValueError(f"no reading {self.reading!r}: {nearest(self.reading, READINGS)}")
        if self.at_least is None and self.at_most is None:
            raise ValueError(f"{self.id} has no bound")
        READINGS[self.reading].check(self.with_)
        return self


class ConformanceScenario(_Strict):
    """A scenario: path, changes, traffic, and the sentences that its trace can show."""

    name: str
    about: str
    path: PathModel
    seconds: float = Field(gt=0)
    flows: tuple[FlowModel, ...] = (FlowModel(),)
    changes: tuple[ChangeModel, ...] = ()
    tcp: dict[str, Any] = {}
    reference: str = "reno"
    seed: int = 1
    sample_ms: float = 2.0
    sentences: tuple[Sentence, ...] = Field(min_length=1)

    def experiment(self, control: str, tcp: Mapping[str, Any] | None = None) -> Experiment:
        """Build the experiment in which `control` stands for the subject; tcp : further settings of its TCP."""
        flows = self.flows
        path, places = self.path, len(self.flows)
        near_ms = min(1.0, path.round_trip_ms / 8)  # of the bottleneck, so that a change comes soon
        policer = Policer(path.policer["rate_mbps"], int(path.policer["burst_bytes"])) if path.policer else None
        forward = Link(
            path.rate_mbps,
            near_ms,
            path.bottleneck_queue(),
            loss=path.loss,
            reordering=path.reordering,
            reordering_ms=path.reordering_ms,
            policer=policer,
        )
        backward = Link(path.rate_mbps, near_ms, _queue(path.acknowledgements) if path.acknowledgements else ROOMY)
        cables, traffic = [Cable(*BOTTLENECK, forward, backward)], []
        for place, flow in enumerate(flows):
            sender, receiver = f"h{place + 1}", f"h{place + 1 + places}"
            round_trip_ms = flow.round_trip_ms or path.round_trip_ms
            fast = 20 * path.rate_mbps
            cables.append(Cable(sender, "s1", Link(fast, round_trip_ms / 2 - near_ms, ROOMY)))
            cables.append(Cable("s2", receiver, Link(fast, 0, ROOMY)))
            name = control if flow.control == SUBJECT else flow.control
            settings = Tcp(name, **{**self.tcp, **flow.tcp, **((tcp or {}) if flow.control == SUBJECT else {})})
            traffic.append(_traffic(flow, sender, receiver, settings, self.seconds))
        hosts = tuple((f"h{place + 1}", "s1") for place in range(places))
        measure = Measure(
            queues=(BOTTLENECK,),
            queue_interval_ms=self.sample_ms,
            windows_interval_ms=self.sample_ms,
            packets=(*hosts, BOTTLENECK),
        )
        return Experiment(
            Topology(tuple(cables), self.name),
            tuple(traffic),
            self.seconds,
            self.seed,
            measure,
            changes=self._changes(near_ms),
            host_delay_packets=1 if places > 1 else 0,  # against phase effects, where there are several flows
            clock_skew_ppm=0,
        )

    def _changes(self, near_ms: float) -> tuple[LinkChange, ...]:
        changes = []
        for change in self.changes:
            extra = change.extra_delay_ms
            new: dict[str, Any] = {
                "loss": change.loss,
                "rate_mbps": change.rate_mbps,
                "delay_ms": extra and near_ms + extra,
            }
            old = {"loss": self.path.loss, "rate_mbps": self.path.rate_mbps, "delay_ms": near_ms}
            back: dict[str, Any] = {name: old[name] for name, value in new.items() if value is not None}
            changes.append(LinkChange(change.at_s, *BOTTLENECK, both_directions=False, **new))
            if change.for_s is not None:
                changes.append(LinkChange(change.at_s + change.for_s, *BOTTLENECK, both_directions=False, **back))
        return tuple(changes)


class Suite(_Strict):
    """A suite of scenarios. `not_visible`: what the source asks for that no trace can show -> where it is tested."""

    suite: str
    title: str
    source: str
    scenarios: tuple[ConformanceScenario, ...]
    not_visible: dict[str, str] = {}

    @model_validator(mode="after")
    def _names_differ(self) -> Suite:
        names = [scenario.name for scenario in self.scenarios]
        names += [sentence.id for scenario in self.scenarios for sentence in scenario.sentences]
        if twice := [name for name, times in Counter(names).items() if times > 1]:
            raise ValueError(f"named twice: {', '.join(twice)}")
        return self


class KnownControl(_Strict):
    """A known congestion control: what it claims, and sentence -> why it is known to depart from it."""

    claims: tuple[str, ...]
    departs: dict[str, str] = {}


def load_suite(name: str | Path) -> Suite:
    """Read a suite by its name, or from a file of one's own. Raises NetreproError for what is missing or malformed."""
    path = Path(name) if str(name).endswith((".yaml", ".yml")) else all_data() / "conformance" / f"{name}.yaml"
    if not path.is_file():
        raise NetreproError(
            f"no suite {str(name)!r}", f"give a YAML file, or {nearest(str(name), SUITES, with_all=True)}"
        )
    return _read(path, Suite)


class Controls(_Strict):
    """All known congestion controls by name. `stack`: departures of the TCP around them, whatever the control."""

    stack: dict[str, str]
    controls: dict[str, KnownControl]


def load_controls() -> Controls:
    """Read what known congestion controls claim, and where they and their TCP depart from it."""
    return _read(all_data() / "conformance" / "controls.yaml", Controls)


def _read(path: Path, kind: Any) -> Any:
    try:
        return kind.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise NetreproError(f"{path.name} is no YAML: {error}", "mend it") from None
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise NetreproError(f"{path.name}:\n" + "\n".join(lines), "mend these entries") from None


def _queue(given: Mapping[str, Any]) -> Queue:
    fields = dict(given)
    kind = str(fields.pop("kind", ""))
    made = getattr(networks, kind, None)
    if not (isinstance(made, type) and issubclass(made, Queue)):
        raise NetreproError(f"no queue of kind {kind!r}", "give the name of a queue of netrepro.networks")
    return made(**fields)


def _traffic(flow: FlowModel, sender: str, receiver: str, tcp: Tcp, seconds: float) -> Flow | Requests:
    if flow.responses is not None:
        return Requests(
            receiver,
            (sender,),
            100,
            flow.size_bytes or 1,
            flow.responses,
            think_ms=flow.pause_ms,
            start_s=flow.start_s,
            tcp=tcp,
        )
    size = {"size_bytes": flow.size_bytes} if flow.size_bytes else {"duration_s": seconds - flow.start_s}
    return Flow(sender, receiver, start_s=flow.start_s, tcp=tcp, **size)


def chosen(suites: Sequence[str | Path], names: Sequence[str]) -> list[tuple[Suite, ConformanceScenario]]:
    """Return the scenarios of the suites, or those with these names. Raises NetreproError for an unknown name."""
    pairs = [(suite, scenario) for suite in map(load_suite, suites) for scenario in suite.scenarios]
    known = [scenario.name for _, scenario in pairs]
    for name in names:
        if name not in known:
            raise NetreproError(f"no scenario {name!r}", nearest(name, known))
    return [pair for pair in pairs if not names or pair[1].name in names]
