"""The scorecard as a picture, a table and pages, from constructed results whose verdicts are known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon

from netrepro.claims import Measured, Results, Run, publish_run
from netrepro.claims.reproduction import reproduction
from netrepro.claims.scorecard import beside, scorecard
from netrepro.errors import NetreproError
from netrepro.workbench.cli.console import claim_lines, distrust, summary_lines, untrusted_lines
from netrepro.workbench.notebook.guide import claims_table, class_projects
from netrepro.workbench.notebook.looks import VERDICT_LOOKS
from netrepro.workbench.publishing.scorecard import claim_cells, draw_scorecard, scorecard_page, to_markdown

GOOD, FAIR, BAD = 0.5, 0.8, 1.5  # agrees, agrees in direction, disagrees
CLAIMS = """\
paper: SLUG
title: "A constructed paper (Nobody, NOWHERE 1999)"
claims:
  - id: mean-gain
    says: "the mechanism halves <b>the</b> mean & more"
    where: "Fig. 1"
    kind: effect
    fixed: before
    published: 0.5
    accept: {relative: 0.1}
    comparable_on: [privileged, rootless, simulated]
    control: "mechanism off: the ratio must return to 1"
"""


@pytest.fixture
def three_papers(workbench: Path) -> Path:
    """A workbench in which alpha disagrees, constructed agrees, and omega was not measured."""
    for slug in ("alpha", "constructed", "omega"):
        (workbench / "data" / slug).mkdir()
        (workbench / "data" / slug / "claims.yaml").write_text(CLAIMS.replace("SLUG", slug))
    publish_run("alpha", a_run(BAD))
    publish_run("constructed", a_run(GOOD))
    return workbench


def a_run(value: float, *, control: float | None = 1.0, tier: str = "simulated", why: str = "") -> Run:
    broken = None if control is None else [control, control + 0.001]
    measured = Measured(
        claim="mean-gain", values=[value, value + 0.001], control=broken, trusted=not why, why=why
    ).model_dump()
    how = {"date": "2026-11-21", "commit": "abc1234", "profile": "quick", "tier": tier, "seed": 1, "repetitions": 2}
    return Run.model_validate(how | {"parameters": {}, "answer": "", "measured": [measured]})


def results(*runs: Run) -> Results:
    return Results(paper="constructed", runs={run.key: run for run in runs})


def only(*runs: Run):
    return scorecard(["constructed"], results=lambda slug: results(*runs))


def test_the_table_has_a_line_a_paper(three_papers):
    lines = to_markdown(scorecard()).splitlines()
    assert len(lines) == 5
    assert lines[2].endswith("| ○ not reproduced | 1 of 1 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 0 |")
    assert lines[3].endswith("| ● replicated | 1 of 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |")
    assert lines[4].endswith("| · not measured | 0 of 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 0 |")


def test_details_are_counted_beside_the_main_claims(three_papers):
    claims = three_papers / "data/constructed/claims.yaml"
    (first,) = re.findall(r"(?s)  - id: .*", claims.read_text())
    main = first.replace("mean-gain", "said-in-the-abstract") + "    role: main\n"
    claims.write_text(claims.read_text() + main)
    measured = a_run(BAD).measured[0].model_copy(update={"claim": "said-in-the-abstract"})
    table = only(a_run(GOOD).model_copy(update={"measured": [measured, *a_run(GOOD).measured]}))
    assert list(table["claim"]) == ["said-in-the-abstract", "mean-gain"]
    assert "| ○ not reproduced | 1 of 1 main | 0 + 1 | 0 + 0 | 1 + 0 |" in to_markdown(table)
    assert any("○ 1 of 1 main: 1✗; details 1✓" in line for line in summary_lines(table, table))
    edges = [to_hex(cell.get_edgecolor()) for cell in draw_scorecard(table).axes[0].patches]
    assert edges[0] == "#000000" != edges[1]


def test_what_other_runs_say_stands_beside_a_claim_whose_deciding_run_is_missing(three_papers):
    claims = three_papers / "data/constructed/claims.yaml"
    decided_by = "    decided_by: {tier: virtual, profile: paper, because: only kernels have it}\n"
    claims.write_text(claims.read_text() + decided_by)
    quick, nothing = only(a_run(GOOD)), only()
    assert any("· 0 of 1: 1·; other runs say 1✓" in line for line in summary_lines(quick, quick))
    words = " ".join(" ".join(claim_lines(beside(quick, nothing))).split())
    assert "mine not measured by paper/virtual, which decides; beside it: quick simulated agrees" in words
    assert "published nothing published" in words


def test_the_picture_has_one_cell_a_claim_in_its_verdicts_colour(three_papers):
    axis = draw_scorecard(scorecard()).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["alpha", "constructed", "omega"]
    colours = [to_hex(cell.get_facecolor()).upper() for cell in axis.patches]
    assert colours == [VERDICT_LOOKS[verdict][0].upper() for verdict in ("disagrees", "agrees", "not measured")]


def test_a_cell_that_does_not_count_is_hollow(three_papers):
    cell = draw_scorecard(only(a_run(GOOD, control=None))).axes[0].patches[0]
    assert to_hex(cell.get_facecolor()) == "#ffffff"


@pytest.mark.parametrize(
    ("kernel", "simulator", "colour"),
    [(GOOD, BAD, "disagrees"), (BAD, GOOD, "agrees"), (GOOD, GOOD, None)],
)
def test_another_verdict_elsewhere_marks_the_cells_corner_in_its_colour(three_papers, kernel, simulator, colour):
    patches = draw_scorecard(only(a_run(kernel, tier="privileged"), a_run(simulator))).axes[0].patches
    corners = [to_hex(patch.get_facecolor()).upper() for patch in patches if isinstance(patch, Polygon)]
    assert corners == ([VERDICT_LOOKS[colour][0]] if colour else [])


def test_a_settled_disagreement_and_a_stale_result_have_marks_of_their_own(three_papers):
    claims = three_papers / "data/constructed/claims.yaml"
    claims.write_text(claims.read_text() + '    blame: paper\n    settles: "x"\n    settled: "section 10"\n')
    old = a_run(BAD).model_copy(update={"code": "then"})
    table = scorecard(["constructed"], results=lambda slug: results(old), code=lambda slug, tier: "now")
    axis = draw_scorecard(table).axes[0]
    assert to_hex(axis.patches[0].get_facecolor()).upper() == VERDICT_LOOKS["settled"][0]
    assert "⊠*" in [text.get_text() for text in axis.texts]
    (words,) = [line for line in claim_lines(beside(table, table)) if line.startswith("  mine")]
    assert "⊠ disagrees, settled: section 10, stale" in words


def test_the_class_projects_of_2012_stand_beside_our_claims():
    """Table 2 of the Mininet-HiFi paper, section 6.2: 18 projects, of which 16 replicated a result and four added to
    it. A claim that no longer exists is a KeyError."""
    outcomes = class_projects().data["class of 2012"]
    assert len(outcomes) == 18
    assert (outcomes == "unable to reproduce").sum() == 2 and outcomes.str.contains("extra").sum() == 4


def test_a_table_of_claims_is_chosen_by_verdict(three_papers):
    assert "alpha" in claims_table(verdict="disagrees").data and "alpha" not in claims_table(verdict="settled").data
    claims = three_papers / "data/alpha/claims.yaml"
    claims.write_text(claims.read_text() + '    blame: paper\n    settles: "x"\n    settled: "section 10"\n')
    assert "alpha" in claims_table(verdict="settled").data and "alpha" not in claims_table(verdict="disagrees").data
    with pytest.raises(NetreproError, match="unknown verdict 'setled'\n  did you mean 'settled'"):
        claims_table(verdict="setled")


def test_a_claim_says_why_and_whose_fault_a_disagreement_is(three_papers):
    claims = three_papers / "data/constructed/claims.yaml"
    text = claims.read_text() + '    blame: unknown\n    settles: "the authors\' trace"\n'
    claims.write_text(text)
    fault = "fault unknown; what would settle it: the authors' trace"
    for run, disagrees in ((a_run(BAD), True), (a_run(GOOD), False)):
        table = scorecard(["constructed"], results=lambda slug, run=run: results(run))
        words = " ".join(" ".join(claim_lines(beside(table, table))).split())
        assert f"why {table['reason'].iloc[0]}" in words and (fault in words) == disagrees
        page = scorecard_page(table)
        assert ("the authors&#39; trace" in page or "the authors' trace" in page) == disagrees
    claims.write_text(text.replace("blame: unknown", "blame: ours") + '    settled: "section 10"\n')
    settled = scorecard(["constructed"], results=lambda slug: results(a_run(BAD)))
    assert any(line == "  fault      ours" for line in claim_lines(beside(settled, settled)))


def test_the_published_card_stays_in_sight_and_a_dot_says_what_my_run_says(three_papers):
    own = {"constructed": results(a_run(BAD))}
    mine, published = scorecard(results=own.get), scorecard()
    axis = draw_scorecard(published, reproduction(published, own.get)).axes[0]
    colours = [to_hex(cell.get_facecolor()).upper() for cell in axis.patches]
    assert colours == [VERDICT_LOOKS[verdict][0].upper() for verdict in ("disagrees", "agrees", "not measured")]
    assert [to_hex(dot.get_color()).upper() for dot in axis.lines] == [VERDICT_LOOKS["disagrees"][0].upper()]
    shown = claim_cells(published, mine)
    assert list(shown["mine"] == "published only") == [True, False, True]
    assert list(shown["verdict"]) == ["disagrees", "disagrees", "not measured"]


def test_a_page_escapes_what_it_quotes(three_papers):
    page = scorecard_page(scorecard())
    assert "halves &lt;b&gt;the&lt;/b&gt; mean &amp; more" in page and "<b>the</b>" not in page


def test_the_verdicts_of_tiers_stand_beside_each_other_where_they_differ(three_papers):
    (cell,) = claim_cells(only(a_run(FAIR, tier="rootless"), a_run(GOOD)))["published here"]
    assert "agrees in direction" in cell and "elsewhere: quick simulated agrees" in cell


def test_an_untrusted_run_is_named_though_another_tier_decides(three_papers):
    doubtful = a_run(GOOD, tier="virtual", why="logs that differ, 4")
    mine, published = scorecard(["constructed"], results=lambda slug: None), only(a_run(GOOD), doubtful)
    assert list(published["verdict"]) == ["agrees"]
    assert untrusted_lines(mine, published) == [
        "? constructed on tier virtual (published): 1 of 1 claims untrusted",
    ]
    assert untrusted_lines(mine, mine) == []
    assert distrust(doubtful) == "1 of 1 measured claims untrusted: logs that differ, 4"
    assert distrust(a_run(GOOD)) == ""


def test_a_scorecard_without_papers_is_empty_in_every_form(workbench):
    table = scorecard()
    assert to_markdown(table).count("\n") == 2 and "<h2>Claims</h2>" in scorecard_page(table)
    draw_scorecard(table)
