"""Suites, subjects and reports; that known controls keep what they claim, and what each is known to break."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from reno_by_rfc import Reno
from virtual_kernel import needs_virtual

from netrepro.conformance import (
    CLAIMS,
    DEPARTS,
    FAIL,
    NOT_APPLICABLE,
    PASS,
    SUITES,
    TcpTrace,
    conform,
    golden_hashes,
    load_controls,
    load_suite,
    subject_of,
)
from netrepro.conformance.pictures import draw_scenario
from netrepro.errors import NetreproError
from netrepro.paths import all_data

# What fails though the control is as its authors made it. Of BBR version 1, RFC 9743 says so in section 5.1.3; the
# virtual kernel's fails the same; its dual queue was not asked. BBR version 3 accepts the few drops of CoDel. The dual
# queue's coupling is meant for equal round trips, and CUBIC's is longer by the classic queue.
KNOWN_FAILURES = {
    "reno": set(),
    "cubic": set(),
    "dctcp": set(),
    "bbr": {
        "leaves-reno-its-share",
        "avoids-high-loss",
        "leaves-cubic-its-share-in-a-shallow-buffer",
        "leaves-cubic-its-share-in-a-dual-queue",
        "leaves-cubic-its-share-at-codel",
    },
    "bbr3": {"leaves-cubic-its-share-at-codel"},
    "prague": {"leaves-cubic-its-share-in-a-dual-queue"},
}


def sentences():
    return [said for suite in map(load_suite, SUITES) for scenario in suite.scenarios for said in scenario.sentences]


def test_every_suite_is_sound_and_every_sentence_has_a_source_and_known_claims():
    assert len({said.id for said in sentences()}) == len(sentences()) > 70
    assert all(said.source and set(said.claims) <= set(CLAIMS) for said in sentences())


def test_known_departures_are_of_sentences_that_there_are():
    known, ids = load_controls(), {said.id for said in sentences()}
    departs = [*known.stack, *(name for control in known.controls.values() for name in control.departs)]
    assert set(departs) <= ids and all(set(each.claims) <= set(CLAIMS) for each in known.controls.values())


@pytest.mark.parametrize("name", KNOWN_FAILURES)
def test_a_known_control_fails_only_what_it_is_known_to_fail(name):
    assert set(conform(name).failed()) == KNOWN_FAILURES[name]


def test_a_control_without_bbrs_phases_fails_its_suite():
    failed = conform("reno", ["bbr"], claims=["bbr", "bbr3"]).failed()
    assert {"startup-ends-on-a-plateau", "probe-down-drains-the-probe", "probe-rtt-every-five-seconds"} <= set(failed)


@needs_virtual
@pytest.mark.parametrize(
    ("name", "suite", "scenarios"),
    [
        ("reno", "rfc", ["one_loss", "flight_below_window"]),
        ("cubic", "rfc", ["one_loss", "cubic_growth"]),
        ("dctcp", "rfc", ["one_loss", "step_marks"]),
        ("bbr", "bbr", ["bbr_less_than_a_packet"]),
    ],
)
def test_linuxs_own_control_keeps_what_it_claims_and_departs_where_ours_does(name, suite, scenarios):
    linux, ours = (conform(name, [suite], scenarios=scenarios, tier=tier) for tier in ("virtual", "simulated"))
    assert linux.failed() == [] and linux.counts()[PASS] > 0
    assert [each.verdict for each in linux.judged] == [each.verdict for each in ours.judged]


MODULE = Path(__file__).parent / "my_half.c"


@needs_virtual
def test_a_module_of_the_kernel_is_tested():
    report = conform(str(MODULE), ["rfc"], scenarios=["one_loss"])
    assert report.subject.name == "my_half" and report.subject.tier == "virtual" and report.failed() == []


def test_the_same_subject_gives_the_same_bytes():
    first, again = (conform("cubic", ["rfc"], scenarios=["one_loss", "blackout"]) for _ in range(2))
    assert first.to_json() == again.to_json() and first.to_junit() == again.to_junit()
    assert first.qlogs() == again.qlogs()


def test_json_and_junit_tell_the_same():
    report = conform("reno", ["rfc"], scenarios=["one_loss", "cubic_growth", "flight_below_window"])
    told = {each["id"]: each["verdict"] for each in json.loads(report.to_json())["sentences"]}
    assert told == {each.sentence.id: each.verdict for each in report.judged}
    assert {PASS, DEPARTS, NOT_APPLICABLE} == set(told.values())
    cases = ElementTree.fromstring(report.to_junit()).iter("testcase")
    silent = {case.get("name") for case in cases if not list(case)}
    assert silent == {name for name, verdict in told.items() if verdict == PASS}


def test_a_failure_is_one_in_junit_and_says_what_was_measured():
    report = conform("reno", ["rfc"], scenarios=["cubic_growth"], claims=["rfc9438"])
    assert report.failed() == ["cubic-returns-to-the-plateau", "cubic-is-concave"] and not report.holds()
    failures = list(ElementTree.fromstring(report.to_junit()).iter("failure"))
    assert len(failures) == 2 and "RFC 9438" in failures[0].get("message")


def test_departures_count_only_where_the_report_is_strict():
    report = conform("reno", ["rfc"], scenarios=["blackout"])
    assert report.holds() and not report.holds(strict=True)


def test_traces_are_qlog_with_their_hashes(tmp_path):
    report = conform("reno", ["rfc"], scenarios=["lost_tail"])
    report.write_traces(tmp_path)
    digest, name = (tmp_path / "SHA256SUMS").read_text().strip().split("  ")
    text = (tmp_path / name).read_bytes()
    assert hashlib.sha256(text).hexdigest() == digest
    records = [json.loads(line) for line in text.decode().split("\x1e")[1:]]
    assert records[0]["qlog_format"] == "JSON-SEQ"
    assert sum(each.get("name") == "transport:packet_sent" for each in records) == 13  # a SYN's, ten, and two again


@pytest.mark.parametrize(("name", "suite"), [("reno", "rfc"), ("cubic", "rfc"), ("dctcp", "rfc"), ("bbr3", "bbr")])
def test_golden_traces_are_what_these_controls_do(name, suite):
    golden = {trace: digest for trace, digest in golden_hashes().items() if trace.startswith(f"{name}/")}
    measured = conform(name, [suite]).hashes()
    changed = sorted(trace for trace in golden.keys() | measured.keys() if golden.get(trace) != measured.get(trace))
    assert changed == [], "if that is meant, netrepro.conformance.write_golden_hashes() writes the new ones"


def test_a_report_says_which_traces_differ_from_the_golden_ones_and_from_where_on():
    report = conform("reno", ["rfc"], scenarios=["lost_tail", "lost_syn"])
    assert report.golden_scenarios == ("lost_syn", "lost_tail") and report.golden_differences == ()
    # A segment is lost that was not: the trace is another one from this time on.
    suite = load_suite("rfc")
    tail = next(each for each in suite.scenarios if each.name == "lost_tail")
    (change,) = tail.changes
    later = tail.model_copy(update={"changes": (change.model_copy(update={"for_s": 0.0015}),)})
    traces = {**report.traces, "lost_tail": TcpTrace(report.subject.run(later.experiment("reno")))}
    changed = replace(report, traces=traces)
    (difference,) = changed.golden_differences
    assert difference.scenario == "lost_tail" and difference.trace == "0-h1-h2.sqlog"
    assert change.at_s - 0.1 < difference.time_s < change.at_s + 0.3
    (told,) = json.loads(changed.to_json())["golden"]["differ"]
    assert told["from_s"] == difference.time_s
    values = {each.get("value") for each in ElementTree.fromstring(changed.to_junit()).iter("property")}
    assert values == {"same", f"0-h1-h2.sqlog: {difference.where}"}
    assert changed.holds() == report.holds(), "it is no failure"


def test_only_what_ran_as_the_golden_traces_did_is_compared():
    assert conform("reno", ["rfc"], scenarios=["lost_syn"], tcp={"hystart": False}).golden_scenarios == ()
    assert conform("bbr", ["bbr"], scenarios=["bbr_aggregation"]).golden_scenarios == ()


def test_a_suite_of_ones_own_is_a_file(tmp_path):
    suite = load_suite("rfc")
    own = tmp_path / "mine.yaml"
    scenario = next(each for each in suite.scenarios if each.name == "one_loss")
    content = suite.model_copy(update={"suite": "mine", "scenarios": (scenario,)}).model_dump(
        mode="json", by_alias=True
    )
    own.write_text(json.dumps(content))
    assert {each.suite for each in conform("reno", [own]).judged} == {"mine"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("reading: first_flight", "reading: first_fligt"), "did you mean 'first_flight'"),
        (lambda text: text.replace("with: {from_s: 0.15, to_s: 0.6}", "with: {from: 0.15}"), "takes no 'from'"),
        (lambda text: text.replace("level: MUST", "level: MAY"), "MUST"),
        (lambda text: text.replace("        at_most: 10\n", ""), "has no bound"),
        (lambda text: text.replace("buffer_bdp: 4", "buffer: 4"), "buffer"),
        (lambda text: text.replace("name: one_loss", "name: slow_start"), "named twice: slow_start"),
        (lambda text: text + "\t- x", "no YAML"),
    ],
)
def test_a_mistake_in_a_suite_is_named(change, says, tmp_path):
    own = tmp_path / "mine.yaml"
    own.write_text(change((all_data() / "conformance" / "rfc.yaml").read_text()))
    with pytest.raises(NetreproError) as error:
        load_suite(own)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("what", "more", "says"),
    [
        ("rena", {}, "did you mean 'reno'"),
        ("./not_there", {}, "no program './not_there'"),
        ("not_there.c", {}, "no file not_there.c"),
        ("", {}, "no congestion control to test"),
        ("reno", {"claims": ["rfc5682"]}, "did you mean 'rfc5681'"),
        ("reno", {"tier": "rootless"}, "use simulated or virtual"),
        (Reno, {"tier": "virtual"}, "it runs in the simulator"),
        (str(MODULE), {"tier": "simulated"}, "runs in the virtual kernel"),
    ],
)
def test_a_subject_that_cannot_be_is_refused(what, more, says):
    with pytest.raises(NetreproError) as error:
        subject_of(what, **more)
    assert says in str(error.value)


def test_an_unknown_scenario_and_suite_are_refused():
    with pytest.raises(NetreproError, match="did you mean 'one_loss'"):
        conform("reno", ["rfc"], scenarios=["one_los"])
    with pytest.raises(NetreproError, match="no suite 'rcf'"):
        conform("reno", ["rcf"])


def test_what_a_tier_cannot_run_is_not_applicable_and_says_why(tmp_path):
    suite = tmp_path / "paced.yaml"
    suite.write_text(
        (all_data() / "conformance" / "fairness.yaml").read_text().replace("{kind: DualPi2}", "{kind: NicPacer}")
    )
    report = conform("reno", [str(suite)], scenarios=["dual_queue"], tier="virtual")
    assert {each.verdict for each in report.judged} == {NOT_APPLICABLE} and "NicPacer" in report.judged[0].why


def test_a_program_that_is_wrong_is_said(tmp_path):
    program = tmp_path / "control.py"
    program.write_text("import sys\nfor line in sys.stdin:\n    print('{}', flush=True)\n")
    with pytest.raises(NetreproError, match="is no action"):
        conform(f"{sys.executable} {program}", ["rfc"], scenarios=["lost_syn"])


def test_verdicts_follow_the_bounds():
    report = conform("bbr", ["fairness"], scenarios=["shallow_buffer"])
    (judged,) = report.judged
    assert judged.verdict == FAIL and judged.value > judged.sentence.at_most


@pytest.mark.parametrize("name", ["one_loss", "lost_tail"])
def test_a_picture_shows_rates_over_a_round_trip_or_longer(name):
    """Shorter bins show a beat with the bursts that leave once a round trip."""
    report = conform("reno", ["rfc"], scenarios=[name])
    (line, *_) = draw_scenario(report, name).axes[0].lines
    gaps_s = np.diff(np.asarray(line.get_xdata(), dtype=float))
    assert gaps_s.min() >= report.traces[name].round_trip_s(0) * 0.999
