"""claims.yaml is read strictly: what cannot be judged is refused, by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from netrepro.claims import all_papers, claims_schema, load_claims, models
from netrepro.errors import NetreproError
from netrepro.tiers_and_profiles import TIERS

from .conftest import CLAIMS, write_claims

DATA = Path(__file__).parents[3] / "data"


def refusal(workbench, text: str) -> str:
    write_claims(workbench, text)
    with pytest.raises(NetreproError) as caught:
        load_claims("constructed")
    return str(caught.value)


def changed(old: str, new: str) -> str:
    assert CLAIMS.count(old) >= 1
    return CLAIMS.replace(old, new, 1)


def test_a_sound_file_is_read_whole(workbench):
    paper = load_claims("constructed")
    assert paper.title.startswith("A constructed paper")
    gain, order = paper.claims
    assert (gain.published, gain.class_report, gain.accept.relative) == (0.5, 0.6, 0.1)
    assert (gain.neutral, gain.comparable_on[0]) == (1.0, "privileged")
    assert (order.published, order.fixed, order.blame) == (["a", "b", "c"], "before", None)


def test_a_claim_of_the_class_report_needs_no_number_of_the_papers(workbench):
    write_claims(workbench, changed("    published: 0.5\n", "    source: class\n"))
    claim = load_claims("constructed").claims[0]
    assert (claim.published, claim.expected) == (None, 0.6) and claim.accepted_band() == pytest.approx((0.54, 0.66))


def test_the_declared_evidence_needs_no_list_of_tiers(workbench):
    evidence = "decided_by: {tier: virtual, profile: paper, because: what Linux did}"
    write_claims(workbench, changed("comparable_on: [simulated]", evidence))
    claim = load_claims("constructed").claims[1]
    assert claim.decided_by.key == "paper/virtual"
    assert all(claim.may_be_judged_on(tier) for tier in TIERS)


def test_the_table_puts_orderings_and_acceptance_in_words(workbench):
    table = load_claims("constructed").table().set_index("claim")
    assert table.loc["best-first", "published"] == "a > b > c"
    assert table.loc["mean-gain", "accepted"] == "± 10 %"
    assert table.loc["best-first", "accepted"] == "Kendall tau ≥ 0.8"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    where:", "    wher:", r"claim 'mean-gain'.*unknown key 'wher' \(did you mean 'where'\?\)"),
        ("{relative: 0.1}", "{relativ: 0.1}", r"accept: unknown key 'relativ' \(did you mean 'relative'\?\)"),
        ('title: "A', 'tilte: "A', r"yaml: unknown key 'tilte' \(did you mean 'title'\?\)"),
        ("kind: effect", "kind: efect", r"'mean-gain': kind: unknown value 'efect' \(did you mean 'effect'"),
        ("[simulated]", "[simulatd]", r"'best-first': comparable_on: 0: .*did you mean 'simulated'\?"),
        ("[simulated]", "[]", r"'best-first': decided_by: say which evidence judges it"),
        (
            "    note:",
            "    decided_by: {tier: rootless, profile: paper, because: so}\n    note:",
            r"not among comparable",
        ),
        ("    note:", "    decided_by: {tier: simulated, profile: paper}\n    note:", r"key 'because' is missing"),
        ("    note:", "    role: major\n    note:", r"role: unknown value 'major' \(valid: main, detail"),
        ("    note:", "    settled: section 10\n    note:", r"settles does not say which experiment"),
        (
            "    note:",
            "    blame: unknown\n    settles: x\n    settled: section 10\n    note:",
            r"the experiment has not shown whose fault it is",
        ),
        ("    note:", "    source: class\n    note:", r"class_report: a claim of source 'class' needs it"),
        (
            "    note:",
            "    source: memory\n    note:",
            r"source: unknown value 'memory' \(valid: paper, artefact, second_hand",
        ),
        ("[simulated]", "[simulated, simulated]", r"a tier is named twice"),
        ("id: best-first", "id: mean-gain", r"id 'mean-gain' is used more than once"),
        ("fixed: before", "fixed: later", r"'mean-gain': fixed: unknown value 'later'"),
        ("    fixed: before\n", "", r"'mean-gain'.*fixed"),
        ("    note:", "    monotonic: true\n    note:", r"'best-first': monotonic: only curves are"),
        ("    note:", "    blame: paper\n    note:", r"'best-first': blame and settles go together"),
        ("    note:", "    blame: them\n    note:", r"'best-first': blame: unknown value 'them'"),
        ("    control:", "    control_weakness:", r"'mean-gain': control_weakness: there is no control"),
        ("{relative: 0.1}", "{}", r"'mean-gain': accept: needs exactly one of .*has none"),
        ("{relative: 0.1}", "{relative: 0.1, factor: 2}", r"exactly one of .*has relative, factor"),
        ("{relative: 0.1}", "{kendall_at_least: 0.5}", r"'kendall_at_least' does not fit kind 'effect'"),
        ("{relative: 0.1}", "{curve_distance: 0.5}", r"'curve_distance' does not fit kind 'effect'"),
        ("{kendall_at_least: 0.8}", "{relative: 0.1}", r"'relative' does not fit kind 'ordering'"),
        ("{kendall_at_least: 0.8}", "{kendall_at_least: 1.8}", r"kendall_at_least: input should be less"),
        ("{relative: 0.1}", "{factor: 0.9}", r"factor: input should be greater than 1; got 0.9"),
        ("{relative: 0.1}", "{band: [0.6, 0.4]}", r"needs low ≤ high"),
        ("{relative: 0.1}", "{band: [0.6, 0.7]}", r"0.6 to 0.7 excludes the published 0.5"),
        ("{relative: 0.1}", "{band: [-.inf, .inf]}", r"accepts everything"),
        ("{relative: 0.1}", "{band: [.nan, 1]}", r"needs low ≤ high"),
        ("published: 0.5", "published: half", r"published: kind 'effect' needs a number; got 'half'"),
        ("published: 0.5", "published: .nan", r"needs a number; got nan"),
        ("published: 0.5", "published: 0", r"relative of 0 is nothing"),
        ("class_report: 0.6", "class_report: [1, 2]", r"class_report: kind 'effect' needs a number"),
        ("[a, b, c]", "[a]", r"two or more names, each once"),
        ("[a, b, c]", "[a, b, b]", r"two or more names, each once"),
        ("[a, b, c]", "[1, 2]", r"published: kind 'ordering' needs a list of names"),
        ("kind: effect", "kind: absolute", r"'mean-gain': unit: an absolute number needs one"),
        ("    note:", "    neutral: 0\n    note:", r"'best-first': neutral: only effects"),
        ("    published: 0.5\n", "", r"claim 'mean-gain': published: a claim of source 'paper' needs it"),
        ("id: mean-gain", "id: mean gain", r"id: string should match pattern"),
        ("paper: constructed", "paper: other", r"paper is 'other'\s+its folder asks for 'constructed'"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(workbench, old, new, expected):
    message = refusal(workbench, changed(old, new))
    assert message.startswith("data/constructed/claims.yaml")
    assert re.search(expected, message), message


def test_a_paper_without_any_control_is_refused(workbench):
    without = "\n".join(line for line in CLAIMS.splitlines() if "control:" not in line)
    assert re.search(r"none has a 'control'", refusal(workbench, without))


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ("[[1, 2]]", "two or more points"),
        ("[[2, 1], [1, 2]]", "x ascending"),
        ("[[1, 1], [1, 2], [2, 3]]", "x ascending"),
        ("[[1, 5], [2, 5]]", "flat curve"),
        ("[[1, 2, 3], [2, 3, 4]]", "needs a list of \\[x, y\\] points"),
        ("[1, 2]", "needs a list of \\[x, y\\] points"),
    ],
)
def test_a_curve_that_nothing_can_be_compared_with_is_refused(workbench, points, expected):
    text = changed("kind: ordering", "kind: curve").replace("[a, b, c]", points)
    text = text.replace("{kendall_at_least: 0.8}", "{curve_distance: 0.1}")
    assert re.search(expected, refusal(workbench, text))


def test_every_mistake_of_a_file_is_reported_at_once(workbench):
    text = changed("kind: effect", "kind: efect").replace("[simulated]", "[simulatd]")
    message = refusal(workbench, text)
    assert "'efect'" in message and "'simulatd'" in message


def test_a_proportion_outside_0_to_1_is_refused(workbench):
    text = changed("kind: effect", "kind: proportion").replace("published: 0.5", "published: 50")
    assert "a proportion lies in 0 to 1; got 50" in refusal(workbench, text)


def test_a_file_without_claims_is_refused(workbench):
    assert "there are none" in refusal(workbench, "paper: constructed\ntitle: t\nclaims: []\n")
    assert "input should be a valid" in refusal(workbench, "- a\n- b\n")
    assert "input should be a valid" in refusal(workbench, "")


def test_malformed_yaml_is_refused_with_its_line(workbench):
    message = refusal(workbench, changed("    kind: effect\n", "    kind: effect\n   unit: [\n"))
    assert re.search(r"claims.yaml line \d+: ", message)


@pytest.mark.parametrize(
    "value", ["2026-13-45", "2026-02-30 10:00:00", "1" * 5000, "!!int x", "!!bool x", "!!timestamp x"]
)
def test_an_impossible_value_is_refused_with_its_line(workbench, value):
    message = refusal(workbench, changed("published: 0.5", f"published: {value}"))
    assert re.match(r"data/constructed/claims.yaml line 9: impossible value '", message), message


@pytest.mark.parametrize("value", ["[" * 4000 + "]" * 4000, "&a [*a]"])
def test_lists_without_end_are_refused(workbench, value):
    assert "constructed/claims.yaml" in refusal(workbench, changed("published: 0.5", f"published: {value}"))


def test_a_key_given_twice_is_refused_with_its_line(workbench):
    message = refusal(workbench, changed("    kind: effect\n", "    kind: effect\n    kind: absolute\n"))
    assert "claims.yaml line 8: key 'kind' is given twice" in message


def test_a_missing_file_names_the_nearest_paper(workbench):
    with pytest.raises(NetreproError, match="did you mean 'constructed'"):
        load_claims("construted")


def test_an_exponent_without_a_point_is_still_a_number(workbench):
    """YAML 1.1 reads 5e-1 as a string; who writes a claim means a number."""
    write_claims(workbench, changed("published: 0.5", "published: 5e-1"))
    assert load_claims("constructed").claims[0].published == 0.5


def test_papers_come_in_the_order_of_their_notebooks(workbench):
    for slug in ("alpha", "omega"):
        write_claims(workbench, CLAIMS.replace("paper: constructed", f"paper: {slug}"), slug)
    (workbench / "notebooks" / "12_alpha.ipynb").touch()
    (workbench / "notebooks" / "11_omega.ipynb").touch()
    (workbench / "data" / "flow_sizes").mkdir()
    assert [paper.paper for paper in all_papers()] == ["omega", "alpha", "constructed"]


def test_an_unknown_claim_names_the_nearest(workbench):
    with pytest.raises(NetreproError, match="did you mean 'mean-gain'"):
        load_claims("constructed").claim("meangain")


# The schema for editors.

SCHEMA = Path(models.__file__).parent / "claims.schema.json"


def test_the_committed_schema_is_that_of_the_models():
    again = "python -c 'from netrepro.claims import claims_schema as c; print(c(), end=str())'"
    assert SCHEMA.read_text(encoding="utf-8") == claims_schema(), f"write it again: {again} >{SCHEMA.name}"


def test_every_key_is_explained_to_an_editor():
    kinds = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    assert all("description" in key for key in kinds["Claim"]["properties"].values())
    assert "description" in kinds["Accept"] and "description" in kinds["Claim"]


@pytest.mark.parametrize("path", sorted(DATA.glob("*/claims.yaml")), ids=lambda path: path.parent.name)
def test_each_claims_file_names_the_schema_and_keeps_it(path):
    schema = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / schema).resolve() == SCHEMA.resolve()
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), json.loads(SCHEMA.read_text()))


def test_the_schema_refuses_a_key_that_is_none(workbench):
    wrong = yaml.safe_load(changed("    where:", "    wher:"))
    with pytest.raises(jsonschema.ValidationError, match="wher"):
        jsonschema.validate(wrong, json.loads(SCHEMA.read_text()))
