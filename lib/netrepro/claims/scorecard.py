"""All verdicts on one sheet: a row a claim, a row a paper, a picture. Counts, never averages over claims.

The sheet of what is published, the sheet of a user's own runs, and both beside each other.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon, Rectangle

from netrepro.claims.models import Claim, PaperClaims, all_papers, load_claims, readable
from netrepro.claims.results import Results, Run, published_results
from netrepro.claims.verdicts import VERDICTS, Judgement, coverage_text, judge, paper_level
from netrepro.errors import NetreproError, nearest
from netrepro.style import new_figure
from netrepro.tiers_and_profiles import PROFILES, TIERS

BADGES = {
    "replicated": "●",
    "replicated with differences": "◕",
    "partly": "◑",
    "not reproduced": "○",
    "undecided": "◌",
    "not measured": "·",
}
VERDICT_LOOKS = {  # colour and sign; Okabe and Ito's colours, and signs for who sees none
    "agrees": ("#009E73", "✓"),
    "agrees in direction": ("#56B4E9", "≈"),
    "disagrees": ("#D55E00", "✗"),
    "untrusted": ("#E69F00", "?"),
    "not measured": ("#dddddd", ""),
}


def scorecard(
    papers: Iterable[str] | None = None,
    profile: str | None = None,
    tier: str | None = None,
    *,
    results: Callable[[str], Results | None] | None = None,
) -> pd.DataFrame:
    """One row a claim of every paper (slugs; default all), judged by today's claims.yaml.

    Columns: paper, title, claim, says, where, kind, unit, published, class_report; for each tier ours_<tier>
    and verdict_<tier>; then fixed, blame, settles as claims.yaml has them; then, of the run that decides, tier,
    profile, verdict, counts, worse, interval_low, interval_high, repetitions, reason, date, commit. Ours and the
    interval are in the claim's unit, for orderings Kendall's tau, for curves the distance as a share of the published
    range.

    The run that decides is the best tier's whose verdict counts if any does, and of a tier the paper profile's, among
    those that measured the claim and are trusted; what it says plays no part. `worse` names the tiers whose trusted
    verdict counts and is worse, and that verdict. `profile` and `tier` restrict the runs. `results` gives the results
    of a slug; default: what is published.
    Where all are asked for, a paper whose claims cannot be read is left out, one whose results cannot is not measured,
    and `attrs["problems"]` says why (slug -> text). Raises NetreproError for an unknown paper, profile or tier, and for
    files of named papers that cannot be read.
    """
    for given, valid in ((profile, PROFILES), (tier, TIERS)):
        if given is not None and given not in valid:
            raise NetreproError(f"unknown {given!r}", nearest(given, valid))
    rows = []
    problems: dict[str, str] = {}
    for paper in all_papers(problems) if papers is None else map(load_claims, papers):
        try:
            found = (results or published_results)(paper.paper)
        except NetreproError as error:
            if papers is not None:
                raise
            problems[paper.paper] = str(error)
            found = None
        runs = [
            run
            for run in (found.runs.values() if found else [])
            if profile in (None, run.profile) and tier in (None, run.tier)
        ]
        runs.sort(key=lambda run: (TIERS.index(run.tier), -PROFILES.index(run.profile)))
        rows += [_row(paper, claim, runs) for claim in paper.claims]
    numbers = [f"ours_{tier}" for tier in TIERS] + ["interval_low", "interval_high"]
    table = pd.DataFrame(rows, columns=_COLUMNS).astype(dict.fromkeys(numbers, float))
    table.attrs["problems"] = problems
    return table


_COLUMNS = [
    *("paper", "title", "claim", "says", "where", "kind", "unit", "published", "class_report"),
    *(f"{column}_{tier}" for column in ("ours", "verdict") for tier in TIERS),
    *("fixed", "blame", "settles", "tier", "profile", "verdict", "counts", "worse"),
    *("interval_low", "interval_high", "repetitions", "reason", "date", "commit"),
]


def _row(paper: PaperClaims, claim: Claim, runs: list[Run]) -> dict[str, object]:
    judged = [(run, judge(claim, run.measurement(claim.id), run.tier)) for run in runs]
    by_tier = {tier: _deciding([each for each in judged if each[0].tier == tier]) for tier in TIERS}
    row: dict[str, object] = {
        "paper": paper.paper,
        "title": paper.title,
        "claim": claim.id,
        "says": claim.says,
        "where": claim.where,
        "kind": claim.kind,
        "unit": claim.unit,
        "published": readable(claim.published),
        "class_report": readable(claim.class_report),
        "fixed": claim.fixed,
        "blame": claim.blame or "",
        "settles": claim.settles or "",
    }
    for tier, (_, judgement) in by_tier.items():
        row |= {f"ours_{tier}": judgement.value, f"verdict_{tier}": judgement.verdict}
    run, judgement = _best(by_tier.values())
    low, high = judgement.interval or (None, None)
    return row | {
        "tier": run.tier if run else "",
        "profile": run.profile if run else "",
        "verdict": judgement.verdict,
        "counts": judgement.counts,
        "worse": _worse(judgement, by_tier),
        "interval_low": low,
        "interval_high": high,
        "repetitions": judgement.repetitions,
        "reason": judgement.reason,
        "date": run.date.isoformat() if run else "",
        "commit": run.commit if run else "",
    }


def _worse(decided: Judgement, by_tier: dict[str, tuple[Run | None, Judgement]]) -> str:
    """The other tiers' trusted verdicts that count and are worse than the one that decides."""
    trusted = VERDICTS[:3]
    if decided.verdict not in trusted:
        return ""
    others = [
        f"{tier} {each.verdict}"
        for tier, (_, each) in by_tier.items()
        if each.counts and each.verdict in trusted and trusted.index(each.verdict) > trusted.index(decided.verdict)
    ]
    return ", ".join(others)


def _deciding(judged: list[tuple[Run, Judgement]]) -> tuple[Run | None, Judgement]:
    """Of one tier: the first measured and trusted, else the first untrusted, else the first; runs come best first."""
    for wanted in (VERDICTS[:3], VERDICTS[:4], VERDICTS):
        for run, judgement in judged:
            if judgement.verdict in wanted:
                return run, judgement
    return None, Judgement(claim="", tier="", verdict="not measured", reason="no run yet")


def _best(by_tier: Iterable[tuple[Run | None, Judgement]]) -> tuple[Run | None, Judgement]:
    """Of all tiers, best first: the first whose verdict is trusted and counts, else as `_deciding`."""
    decided = [(run, judgement) for run, judgement in by_tier if run is not None]
    counted = [each for each in decided if each[1].counts and each[1].verdict in VERDICTS[:3]]
    return counted[0] if counted else _deciding(decided)


def paper_summary(table: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row a paper of a scorecard: paper, title, level, coverage ("11 of 32 claims" were measured, trusted and
    count), claims, a column a verdict, not_counted.

    The columns of verdicts number the claims that count; with not_counted they add up to claims.
    """
    table = scorecard() if table is None else table
    rows = []
    for slug, claims in table.groupby("paper", sort=False):
        counted = claims[claims["counts"].astype(bool)]
        numbers = [int((counted["verdict"] == verdict).sum()) for verdict in VERDICTS]
        level, title = paper_level(claims.itertuples()), claims["title"].iloc[0]
        covered = coverage_text(claims.itertuples())
        rows.append([slug, title, level, covered, len(claims), *numbers, len(claims) - len(counted)])
    return pd.DataFrame(rows, columns=["paper", "title", "level", "coverage", "claims", *VERDICTS, "not_counted"])


_CLAIM = ["paper", "title", "claim", "says", "where", "kind", "unit", "published", "class_report"]
_SIDE = ["verdict", "value", "interval_low", "interval_high", "counts", "reason"]
_SIDE += ["repetitions", "profile", "tier", "date", "commit"]


def problems_of(*tables: pd.DataFrame) -> dict[str, str]:
    """What could not be read for these scorecards: slug -> text."""
    return {slug: text for table in tables for slug, text in table.attrs["problems"].items()}


def beside(mine: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """A user's scorecard beside the published one, of the same papers: a row a claim.

    Columns: those that say the claim, then mine_… and published_…: verdict, value, interval_low, interval_high,
    counts, reason, repetitions, profile, tier, date, commit. `mine_date` is empty where the user has no run.
    """
    table = published[_CLAIM].copy()
    for name, side in (("mine", mine), ("published", published)):
        shown = side.assign(value=_values(side))
        for column in _SIDE:
            table[f"{name}_{column}"] = shown[column].to_numpy()
    return table


def _values(table: pd.DataFrame) -> list[float]:
    """What decides, of whichever tier."""
    return [row[f"ours_{row['tier']}"] if row["tier"] else math.nan for row in table.to_dict("records")]


def combined(mine: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Of each paper that a user has run the user's rows, of the others the published ones; `source` says which."""
    own = published["paper"].isin(mine.loc[mine["date"] != "", "paper"])
    table = pd.concat([mine[own.to_numpy()], published[~own]]).sort_index(kind="stable")
    return table.assign(source=own.map({True: "mine", False: "published"}))


def regressions(old: Results, new: Results) -> list[str]:
    """What held in `old` and no longer holds in `new` at the same profile and tier, a sentence each.

    Both are judged by today's claims.yaml, so a changed acceptance is no regression; a control that no longer
    flips is one. Runs that `new` does not have, and timed claims, are passed over. Raises NetreproError for the
    results of two papers.
    """
    if old.paper != new.paper:
        raise NetreproError(f"results of {old.paper!r} and {new.paper!r} cannot be compared")
    lost = []
    for claim in (claim for claim in load_claims(old.paper).claims if not claim.timed):
        for key in old.runs.keys() & new.runs.keys():
            before, now = (judge(claim, run.measurement(claim.id), run.tier) for run in (old.runs[key], new.runs[key]))
            if before.holds and not now.holds:
                verdict = now.verdict if now.counts else f"{now.verdict}, not counted"
                lost.append(
                    f"{old.paper}: {claim.id} at {key} was {before.verdict!r} "
                    f"({_amount(before)}), is {verdict!r} ({_amount(now)}): {now.reason}"
                )
    return sorted(lost)


def _amount(judgement: Judgement) -> str:
    if judgement.value is None or judgement.interval is None:
        return "no value"
    low, high = judgement.interval
    return f"{judgement.value:.4g}" if low == high else f"{judgement.value:.4g}, {low:.4g} to {high:.4g}"


# Rendered ------------------------------------------------------------------------------------------


def draw_scorecard(table: pd.DataFrame) -> Figure:
    """Papers as rows, one coloured and signed cell a claim; hollow where a claim does not count, with a corner in the
    colour of another tier's verdict where that is worse.

    Pale where a table from `combined` has nothing but the published verdict.
    """
    papers = list(table.groupby("paper", sort=False))
    columns = max([14, *(len(claims) for _, claims in papers)])
    figure, axis = new_figure("", "", "")
    figure.set_size_inches(2.6 + 0.32 * columns, 1.1 + 0.3 * max(len(papers), 1))
    borrowed = False
    for row, (_, claims) in enumerate(papers):
        pale = "source" in claims and claims["source"].iloc[0] == "published"
        borrowed, strength = borrowed or pale, 0.3 if pale else 1.0
        for column, claim in enumerate(claims.itertuples()):
            colour, sign = VERDICT_LOOKS[str(claim.verdict)]
            inside, ink = (colour, "white") if claim.counts else ("white", colour)
            place = (column, row + 0.08)
            axis.add_patch(Rectangle(place, 0.86, 0.84, facecolor=inside, edgecolor=colour, alpha=strength))
            axis.text(
                column + 0.43, row + 0.5, sign, ha="center", va="center", color=ink, weight="bold", alpha=strength
            )
            if claim.worse:
                worst = next(verdict for verdict in VERDICTS[2::-1] if str(claim.worse).endswith(verdict))
                corner = [(column + 0.86, row + 0.92), (column + 0.86, row + 0.5), (column + 0.44, row + 0.92)]
                axis.add_patch(Polygon(corner, color=VERDICT_LOOKS[worst][0], linewidth=0, alpha=strength))
        level = f"{paper_level(claims.itertuples())}, {coverage_text(claims.itertuples())}"
        level += " (published)" if pale else ""
        axis.text(len(claims) + 0.25, row + 0.5, level, va="center", color="#555555", size=8)
    axis.set(xlim=(-0.05, columns), ylim=(max(len(papers), 1), 0), xticks=[])
    axis.set_yticks([row + 0.5 for row in range(len(papers))], [str(slug) for slug, _ in papers])
    axis.tick_params(length=0)
    axis.grid(False)
    axis.spines[:].set_visible(False)
    looks = VERDICT_LOOKS.items()
    legend = [Patch(facecolor=colour, label=f"{verdict} {sign}") for verdict, (colour, sign) in looks]
    legend.append(
        Patch(facecolor="white", edgecolor="#555555", label="hollow: does not count; corner: worse elsewhere")
    )
    legend += [Patch(facecolor="#777777", alpha=0.3, label="pale: published, not run here")] if borrowed else []
    figure.legend(handles=legend, loc="outside lower left", ncols=3, fontsize=8, frameon=False)
    return figure


def to_markdown(table: pd.DataFrame) -> str:
    """A README's excerpt: one line a paper with its level and counts."""
    lines = [
        "| paper | level | of claims | agrees | in direction | disagrees | untrusted | not measured | not counted |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in paper_summary(table).to_dict("records"):
        title = str(row["title"]).replace("|", "\\|")
        numbers = " | ".join(str(row[column]) for column in (*VERDICTS, "not_counted"))
        level, covered = f"{BADGES[row['level']]} {row['level']}", str(row["coverage"]).removesuffix(" claims")
        lines.append(f"| {title} | {level} | {covered} | {numbers} |")
    return "\n".join(lines) + "\n"


def to_html(table: pd.DataFrame, mine: pd.DataFrame | None = None) -> str:
    """A page of its own: the papers, then every claim, verdicts first; a click on a column's head sorts by it.

    table : what is published. With `mine`, a user's scorecard, each claim has both.
    """
    summary = paper_summary(table if mine is None else combined(mine, table))
    level = [f"{BADGES[level]} {level}" for level in summary["level"]]
    slugs, names = summary["paper"], summary["paper"] + ": " + summary["title"]
    summary = summary.drop(columns=["title", "level"]).assign(paper=names)
    summary.insert(0, "level", level)
    if mine is not None:
        run = set(mine.loc[mine["date"] != "", "paper"])
        summary.insert(1, "whose", ["mine" if slug in run else "published only" for slug in slugs])
    whose = "What is published" if mine is None else "Mine beside what is published"
    return _PAGE.format(
        fixed=1 if mine is None else 2,
        whose=whose,
        papers=_html_table(summary),
        claims=filtered(claims_to_html(table, mine)),
    )


def filtered(claims: str) -> str:
    """A table from `claims_to_html` with a field that shows the claims with given words; a click on a column's head
    sorts any table of the page by it."""
    return f'{_FILTER}\n<div class="claims">{claims}</div>\n{_SCRIPT}'


def claims_to_html(
    table: pd.DataFrame,
    mine: pd.DataFrame | None = None,
    names: tuple[str, str] = ("mine", "published here"),
    links: Mapping[str, str] | None = None,
) -> str:
    """An HTML table, a row a claim: verdict, value and run, first the user's if there is one; reasons fold out.

    names : what the two are called. links : of a slug the page whose anchors `claim-<id>` a claim's name leads to.
    """
    rows = beside(table if mine is None else mine, table).to_dict("records")
    sides = dict(zip(("mine", "published"), names, strict=True))
    sides = {"published": names[1]} if mine is None else sides
    head = "".join(f"<th>{words}</th>" for words in (*sides.values(), "paper", "claim"))
    body = []
    for row, record in zip(rows, table.to_dict("records"), strict=True):
        cells = [_html_side(row, side, _difference(record) if side == "published" else "") for side in sides]
        paper = row["published"] if isinstance(row["published"], str) else f"{row['published']:.4g}"
        cells.append(
            f"<td>{html.escape(paper)} {html.escape(row['unit'])}<br><small>{html.escape(row['where'])}</small>"
        )
        reasons = "".join(
            f"<p>{words}: {html.escape(row[f'{side}_reason'])}</p>"
            for side, words in sides.items()
            if row[f"{side}_date"]
        )
        why = f"<details><summary>why</summary>{reasons}</details>" if reasons else ""
        name = html.escape(f"{row['paper']}: {row['claim']}")
        if links and row["paper"] in links:
            name = f'<a href="{links[row["paper"]]}#claim-{row["claim"]}">{name}</a>'
        cells.append(f"<td><strong>{name}</strong><br>{html.escape(row['says'])}{why}")
        body.append("<tr>" + "</td>".join(cells) + "</td></tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(body) + "\n</tbody></table>"


def _html_side(row: dict, side: str, difference: str) -> str:
    """One side's cell, without its end: verdict, value with interval, run."""
    verdict, date = str(row[f"{side}_verdict"]), row[f"{side}_date"]
    if not date:
        return "<td>" + ("published only" if side == "mine" else "not published")
    colour, sign = VERDICT_LOOKS[verdict]
    lines = [f"{sign} {verdict}" + ("" if row[f"{side}_counts"] or verdict == "not measured" else ", does not count")]
    if not math.isnan(row[f"{side}_value"]):
        low, high = row[f"{side}_interval_low"], row[f"{side}_interval_high"]
        spread = "" if math.isnan(low) or low == high else f" ({low:.4g} to {high:.4g})"
        lines.append(f"{row[f'{side}_value']:.4g}{spread}")
    lines.append("<small>" + html.escape(", ".join(run_words(row, side))) + "</small>")
    lines += [f"<small>{html.escape(difference)}</small>"] if difference else []
    return f'<td style="border-left: 6px solid {colour}">' + "<br>".join(lines)


def run_words(row: dict, side: str) -> list[str]:
    """Profile, tier, date and commit of the run behind one side of a row of `beside`; nothing without a run."""
    words = [str(row[f"{side}_{name}"]) for name in ("profile", "tier", "date", "commit")]
    return words if row[f"{side}_date"] else []


def _difference(row: dict) -> str:
    """The verdicts of the tiers that measured a claim, where they are not all the same."""
    verdicts = {tier: row[f"verdict_{tier}"] for tier in TIERS if row[f"verdict_{tier}"] != "not measured"}
    differ = len(set(verdicts.values())) > 1
    return ", ".join(f"{tier} {verdict}" for tier, verdict in verdicts.items()) if differ else ""


def _html_table(table: pd.DataFrame) -> str:
    head = "".join(f"<th>{html.escape(str(column).replace('_', ' '))}</th>" for column in table.columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in row.values()) + "</tr>"
        for row in table.to_dict("records")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


_FILTER = r"""<input placeholder="show claims with these words" aria-label="filter"
style="font: inherit; width: 24em; margin-bottom: 1em">"""
_SCRIPT = r"""<script>
for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], column = head.cellIndex;
  const down = head.dataset.down = head.dataset.down === "1" ? "" : "1";
  const key = row => row.cells[column].textContent;
  const order = (a, b) => key(a).localeCompare(key(b));
  const number = (a, b) => key(a) - key(b);
  const rows = [...body.rows];
  rows.sort(rows.every(row => !isNaN(key(row))) ? number : order);
  body.append(...(down ? rows : rows.reverse()));
};
document.querySelector("input").oninput = event => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const row of document.querySelectorAll(".claims tbody tr"))
    row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
};
</script>"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>netrepro scorecard</title>
<style>
body {{ font: 13px system-ui, sans-serif; margin: 2em auto; padding: 0 1em; max-width: 1140px; color: #222; }}
table {{ border-collapse: collapse; margin-bottom: 2em; width: 100%; }}
th, td {{ border-bottom: 1px solid #ddd; padding: 4px 8px; text-align: left; vertical-align: top; }}
.claims table {{ table-layout: fixed; overflow-wrap: anywhere; }}
.claims th:last-child {{ width: 40%; }}
th {{ cursor: pointer; position: sticky; top: 0; background: #f4f4f4; }}
.papers td:nth-child(-n + {fixed}) {{ white-space: nowrap; }}
small, summary {{ color: #666; }}
</style></head><body>
<h1>Scorecard</h1>
<p>{whose}. Verdicts compare 95 % intervals over repetitions with what was accepted before the run.
For orderings our value is Kendall's tau, for curves the distance as a share of the published range.</p>
<h2>Papers</h2>
<div class="papers">{papers}</div>
<h2>Claims</h2>
{claims}
</body></html>
"""
