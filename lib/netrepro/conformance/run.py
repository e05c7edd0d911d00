"""Runs suites over a subject, and judges each sentence by the trace."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from netrepro.applications.own_control import INTERFACE_VERSION
from netrepro.conformance.readings import READINGS
from netrepro.conformance.scenarios import SUITES, ConformanceScenario, Sentence, Suite, chosen, load_controls
from netrepro.conformance.subjects import Subject, subject_of
from netrepro.conformance.traces import TcpTrace
from netrepro.files import write_atomically
from netrepro.networks.qlog import RECORD_SEPARATOR, qlog_files
from netrepro.paths import all_data
from netrepro.simulation import OwnCongestionControl, simulate

PASS, FAIL, DEPARTS, NOT_APPLICABLE = "pass", "fail", "departs", "not applicable"
VERDICTS = (PASS, FAIL, DEPARTS, NOT_APPLICABLE)
GOLDEN = "golden_traces.sha256"  # in data/conformance, as sha256sum writes it
GOLDEN_BLOCKS = "golden_blocks.txt"  # beside it: of each trace, four digits of the hash of each block of events
EVENTS_A_BLOCK, DIGITS_A_BLOCK = 100, 4
GOLDEN_OF = {"reno": "rfc", "cubic": "rfc", "dctcp": "rfc", "bbr3": "bbr"}  # control -> the suite of its golden traces
AT_A_TIME = 2
MOST_PACKETS = 50_000  # of a trace as qlog; longer runs have windows only


@dataclass(frozen=True)
class Judged:
    """A sentence and what became of it. value : the reading (NaN: the trace has none). why : of a departure, or of
    what is not applicable."""

    suite: str
    scenario: str
    sentence: Sentence
    verdict: str
    value: float = math.nan
    reference: float = math.nan
    why: str = ""

    @property
    def bound(self) -> str:
        """The bounds in words, as "at most 10 segments"."""
        parts = [
            f"{words} {limit:g}"
            for words, limit in (("at least", self.sentence.at_least), ("at most", self.sentence.at_most))
            if limit is not None
        ]
        unit = "times the reference's" if self.sentence.than_reference else READINGS[self.sentence.reading].unit
        return f"{' and '.join(parts)} {unit}"

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        said = self.sentence
        return {
            "suite": self.suite,
            "scenario": self.scenario,
            "id": said.id,
            "verdict": self.verdict,
            "level": said.level,
            "says": said.says,
            "source": said.source,
            "measured": self.value if math.isfinite(self.value) else None,
            "reference": self.reference if math.isfinite(self.reference) else None,
            "bound": self.bound,
            "bound_from": said.bound or said.source,
            "why": self.why,
        }


@dataclass(frozen=True)
class GoldenDifference:
    """A trace that is not the golden one. The first event that differs is among `events` from event number `event` on,
    at `time_s`; without a time, the shorter of both traces is the beginning of the other."""

    scenario: str
    trace: str
    event: int
    time_s: float
    events: int = EVENTS_A_BLOCK

    @property
    def where(self) -> str:
        """The place in words."""
        if math.isnan(self.time_s):
            return f"after {self.event} events one of both ends"
        return f"from {self.time_s:.6g} s on (events {self.event + 1} to {self.event + self.events})"


@dataclass(frozen=True)
class ConformanceReport:
    """The report on a subject: sentences in the order of the suites, and the traces of the scenarios that ran."""

    subject: Subject
    judged: tuple[Judged, ...]
    suites: tuple[Suite, ...]
    traces: Mapping[str, TcpTrace] = field(repr=False)
    references: Mapping[str, TcpTrace] = field(repr=False)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each sentence."""
        return pd.DataFrame([each.row() for each in self.judged])

    def counts(self) -> dict[str, int]:
        """Count sentences by verdict."""
        return {verdict: sum(each.verdict == verdict for each in self.judged) for verdict in VERDICTS}

    def by_scenario(self) -> dict[tuple[str, str], list[Judged]]:
        """Return the sentences of each (suite, scenario), in order."""
        groups: dict[tuple[str, str], list[Judged]] = {}
        for each in self.judged:
            groups.setdefault((each.suite, each.scenario), []).append(each)
        return groups

    def failed(self) -> list[str]:
        """List the sentences that failed, by id."""
        return [each.sentence.id for each in self.judged if each.verdict == FAIL]

    def holds(self, *, strict: bool = False) -> bool:
        """Tell whether nothing failed, and with `strict` nothing departs either."""
        wrong = (FAIL, DEPARTS) if strict else (FAIL,)
        return not any(each.verdict in wrong for each in self.judged)

    def to_json(self) -> str:
        """Write the report as JSON, which is the same for the same subject."""
        content = {
            "subject": self.subject.name,
            "tier": self.subject.tier,
            "claims": list(self.subject.claims),
            "interface": INTERFACE_VERSION,
            "counts": self.counts(),
            "sentences": [each.row() for each in self.judged],
            "golden": {
                "compared": list(self.golden_scenarios),
                "differ": [
                    {
                        "scenario": each.scenario,
                        "trace": each.trace,
                        "from_event": each.event,
                        "from_s": each.time_s if math.isfinite(each.time_s) else None,
                    }
                    for each in self.golden_differences
                ],
            },
            "not_visible": {suite.suite: suite.not_visible for suite in self.suites if suite.not_visible},
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    def to_junit(self) -> str:
        """Write the report as JUnit XML: a suite for each scenario, a case for each sentence, without times. Where a
        scenario has golden traces, its suite has a property "golden traces": "same", or where they differ."""
        differ: dict[str, list[str]] = {}
        for other in self.golden_differences:
            differ.setdefault(other.scenario, []).append(f"{other.trace}: {other.where}")
        root = ElementTree.Element("testsuites", name=f"netrepro conform {self.subject.name}")
        for (suite, scenario), cases in self.by_scenario().items():
            node = ElementTree.SubElement(
                root,
                "testsuite",
                name=f"{suite}.{scenario}",
                tests=str(len(cases)),
                failures=str(sum(each.verdict == FAIL for each in cases)),
                skipped=str(sum(each.verdict in (NOT_APPLICABLE, DEPARTS) for each in cases)),
            )
            if scenario in self.golden_scenarios:
                told = "; ".join(differ.get(scenario, ["same"]))
                properties = ElementTree.SubElement(node, "properties")
                ElementTree.SubElement(properties, "property", name="golden traces", value=told)
            for each in cases:
                case = ElementTree.SubElement(node, "testcase", classname=f"{suite}.{scenario}", name=each.sentence.id)
                told = f"{each.sentence.says} ({each.sentence.source}): {words_of(each.value)}, {each.bound}"
                if each.verdict == FAIL:
                    ElementTree.SubElement(case, "failure", message=told)
                elif each.verdict != PASS:
                    ElementTree.SubElement(case, "skipped", message=f"{each.verdict}: {each.why or told}")
        ElementTree.indent(root)
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"

    def qlogs(self) -> dict[str, str]:
        """Return the traces as qlog: "<scenario>/<flow>.sqlog" -> text. Runs of more than MOST_PACKETS packets have
        windows only."""
        return self._qlogs_of(self.traces)

    def _qlogs_of(self, names: Iterable[str]) -> dict[str, str]:
        files: dict[str, str] = {}
        for name in names:
            trace = self.traces[name]
            run = trace.measured
            packets = run.packets[run.packets["source"] != "s1"]
            tables = (run.flows, run.windows, packets if len(packets) <= MOST_PACKETS else packets[:0])
            texts = qlog_files(name, self.subject.tier, run.experiment.duration_s, *tables)
            files |= {f"{name}/{file}": text for file, text in texts}
        return files

    @cached_property
    def golden_scenarios(self) -> tuple[str, ...]:
        """The scenarios that have run as when the golden traces were made: a control of the simulator, as it is."""
        subject = self.subject
        if subject.tier != "simulated" or subject.own is not None or subject.tcp or subject.name not in GOLDEN_OF:
            return ()
        made = {name.split("/")[1] for name in golden_hashes() if name.startswith(f"{subject.name}/")}
        own = {each.name for suite in self.suites if suite.suite == GOLDEN_OF[subject.name] for each in suite.scenarios}
        return tuple(name for name in self.traces if name in made & own)

    @cached_property
    def golden_differences(self) -> tuple[GoldenDifference, ...]:
        """The traces of `golden_scenarios` that are not the golden ones, and from where on."""
        golden, blocks = golden_hashes(), _read_golden(GOLDEN_BLOCKS)
        differences = []
        for name, text in self._qlogs_of(self.golden_scenarios).items():
            full = f"{self.subject.name}/{name}"
            if golden.get(full) != _hash(text):
                event, time_s = _first_difference(text, blocks.get(full, ""))
                scenario, trace = name.split("/", 1)
                differences.append(GoldenDifference(scenario, trace, event, time_s))
        return tuple(differences)

    def write_traces(self, folder: Path) -> None:
        """Write the traces as qlog into a folder, with their hashes in SHA256SUMS."""
        texts = self.qlogs()
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
        write_atomically(folder / "SHA256SUMS", _as_sha256sum(_hashes(texts)))

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each trace, by "<subject>/<scenario>/<flow>.sqlog"."""
        return {f"{self.subject.name}/{name}": digest for name, digest in _hashes(self.qlogs()).items()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _hashes(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: _hash(text) for name, text in texts.items()}


def _blocks(text: str) -> list[list[str]]:
    """Return a trace's events, in blocks; what stands before the first event is no event."""
    events = text.removesuffix("\n").split("\n")[1:]
    return [events[place : place + EVENTS_A_BLOCK] for place in range(0, len(events), EVENTS_A_BLOCK)]


def _block_digits(text: str) -> str:
    return "".join(_hash("\n".join(block))[:DIGITS_A_BLOCK] for block in _blocks(text))


def _first_difference(text: str, golden: str) -> tuple[int, float]:
    """Return the number of the first event of the first block that differs from the golden digits, and its time in s
    (NaN where one trace is the beginning of the other)."""
    digits, blocks = _block_digits(text), _blocks(text)
    for place, block in enumerate(blocks):
        part = slice(place * DIGITS_A_BLOCK, (place + 1) * DIGITS_A_BLOCK)
        if part.start >= len(golden):
            return place * EVENTS_A_BLOCK, math.nan
        if digits[part] != golden[part]:
            return place * EVENTS_A_BLOCK, json.loads(block[0].lstrip(RECORD_SEPARATOR))["time"] / 1e3
    return sum(map(len, blocks)), math.nan


def _as_sha256sum(hashes: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in hashes.items())


def _read_golden(file: str) -> dict[str, str]:
    path = all_data() / "conformance" / file
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def golden_hashes() -> dict[str, str]:
    """Read the hashes of golden traces: "<control>/<scenario>/<flow>.sqlog" -> SHA-256."""
    return _read_golden(GOLDEN)


def write_golden_hashes() -> dict[str, str]:
    """Write the hashes of the golden traces and of their blocks anew, into data/conformance, and return the traces'
    hashes that have changed."""
    before = golden_hashes()
    texts = {
        f"{control}/{name}": text
        for control, suite in GOLDEN_OF.items()
        for name, text in conform(control, [suite]).qlogs().items()
    }
    hashes = _hashes(texts)
    write_atomically(all_data() / "conformance" / GOLDEN, _as_sha256sum(hashes))
    blocks = {name: _block_digits(text) for name, text in texts.items()}
    write_atomically(all_data() / "conformance" / GOLDEN_BLOCKS, _as_sha256sum(blocks))
    return {name: digest for name, digest in hashes.items() if before.get(name) != digest}


def words_of(value: float) -> str:
    """Write a reading as text: "not in the trace" for NaN."""
    return "not in the trace" if math.isnan(value) else f"{value:.4g}"


def conform(
    what: str | type[OwnCongestionControl] | Sequence[str] | Subject,
    suites: Sequence[str | Path] = SUITES,
    *,
    scenarios: Sequence[str] = (),
    claims: Sequence[str] = (),
    tier: str | None = None,
    tcp: Mapping[str, Any] | None = None,
    references: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> ConformanceReport:
    """Test a congestion control: run scenarios, and judge each sentence by the trace.

    Parameters
    ----------
    what, claims, tier, tcp : the subject, as for `subject_of`.
    suites : names of suites, or YAML files of one's own.
    scenarios : names of scenarios; empty: all.
    references : also run each scenario with its reference, for pictures. Sentences that compare need it anyway.
    progress : called with a scenario's name once it has run.

    The same subject gives the same report. Raises NetreproError for an unknown suite or scenario, and as `subject_of`
    and the tier do.
    """
    subject = subject_of(what, claims=claims, tier=tier, tcp=tcp)
    pairs = chosen(suites, scenarios)
    wanted = [scenario for _, scenario in pairs if any(_applies(each, subject) for each in scenario.sentences)]
    refused = {scenario.name: why for scenario in wanted if (why := subject.why_not(scenario))}
    applicable = [scenario for scenario in wanted if scenario.name not in refused]

    def one(scenario: ConformanceScenario) -> tuple[TcpTrace, TcpTrace | None]:
        trace = TcpTrace(subject.run(scenario.experiment(subject.name, subject.tcp)))
        compares = any(each.than_reference and _applies(each, subject) for each in scenario.sentences)
        beside = None
        if references or compares:
            beside = TcpTrace(simulate(scenario.experiment(scenario.reference)))
        progress(scenario.name)
        return trace, beside

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        done = list(pool.map(one, applicable))
    traces = {scenario.name: trace for scenario, (trace, _) in zip(applicable, done, strict=True)}
    beside = {scenario.name: other for scenario, (_, other) in zip(applicable, done, strict=True) if other}
    departs = {**load_controls().stack, **subject.departs}
    judged = tuple(
        _judge(suite.suite, scenario, sentence, subject, traces, beside, departs)
        if scenario.name not in refused
        else Judged(suite.suite, scenario.name, sentence, NOT_APPLICABLE, why=refused[scenario.name])
        for suite, scenario in pairs
        for sentence in scenario.sentences
    )
    kept = tuple({suite.suite: suite for suite, _ in pairs}.values())
    return ConformanceReport(subject, judged, kept, traces, beside)


def _applies(sentence: Sentence, subject: Subject) -> bool:
    return not sentence.claims or bool(set(sentence.claims) & set(subject.claims))


def _judge(
    suite: str,
    scenario: ConformanceScenario,
    sentence: Sentence,
    subject: Subject,
    traces: Mapping[str, TcpTrace],
    references: Mapping[str, TcpTrace],
    known: Mapping[str, str],
) -> Judged:
    if not _applies(sentence, subject):
        return Judged(suite, scenario.name, sentence, NOT_APPLICABLE, why=f"for {' or '.join(sentence.claims)}")
    read = READINGS[sentence.reading].read
    value, unit, reference = read(traces[scenario.name], **sentence.with_), 1.0, math.nan
    if sentence.than_reference:
        unit = reference = read(references[scenario.name], **sentence.with_)
    low = -math.inf if sentence.at_least is None else sentence.at_least * unit
    high = math.inf if sentence.at_most is None else sentence.at_most * unit
    if low <= value <= high:
        return Judged(suite, scenario.name, sentence, PASS, value, reference)
    why = known.get(sentence.id, "")
    departs = why or sentence.level == "SHOULD"
    return Judged(suite, scenario.name, sentence, DEPARTS if departs else FAIL, value, reference, why)
