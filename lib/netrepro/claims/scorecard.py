"""All verdicts on one sheet: a row a claim, a row a paper, a picture. Counts, never averages over claims."""

from __future__ import annotations

import html
from collections.abc import Iterable

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon, Rectangle

from netrepro.claims.models import TIERS, Claim, PaperClaims, all_papers, load_claims, readable
from netrepro.claims.results import PROFILES, Results, Run, published_results
from netrepro.claims.verdicts import VERDICTS, Judgement, coverage_text, judge, paper_level
from netrepro.errors import NetreproError, nearest
from netrepro.style import new_figure

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


def scorecard(papers: Iterable[str] | None = None, profile: str | None = None, tier: str | None = None) -> pd.DataFrame:
    """One row a claim of every paper (slugs; default all), judged by today's claims.yaml.

    Columns: paper, title, claim, says, where, kind, unit, published, class_report; for each tier ours_<tier>
    and verdict_<tier>; then fixed, blame, settles as claims.yaml has them; then, of the run that decides, tier,
    profile, verdict, counts, worse, interval_low, interval_high, repetitions, reason, date, commit. Ours and the
    interval are in the claim's unit, for orderings Kendall's tau, for curves the distance as a share of the published
    range.

    The run that decides is the best tier's whose verdict counts if any does, and of a tier the paper profile's, among
    those that measured the claim and are trusted; what it says plays no part. `worse` names the tiers
    whose trusted verdict counts and is worse, and that verdict. `profile` and `tier` restrict the runs.
    Raises NetreproError for an unknown paper, profile or tier, and for files that cannot be read.
    """
    for given, valid in ((profile, PROFILES), (tier, TIERS)):
        if given is not None and given not in valid:
            raise NetreproError(f"unknown {given!r}", nearest(given, valid))
    rows = []
    for paper in all_papers() if papers is None else map(load_claims, papers):
        results = published_results(paper.paper)
        runs = [
            run
            for run in (results.runs.values() if results else [])
            if profile in (None, run.profile) and tier in (None, run.tier)
        ]
        runs.sort(key=lambda run: (TIERS.index(run.tier), -PROFILES.index(run.profile)))
        rows += [_row(paper, claim, runs) for claim in paper.claims]
    numbers = [f"ours_{tier}" for tier in TIERS] + ["interval_low", "interval_high"]
    return pd.DataFrame(rows, columns=_COLUMNS).astype(dict.fromkeys(numbers, float))


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
    colour of another tier's verdict where that is worse."""
    papers = list(table.groupby("paper", sort=False))
    columns = max([14, *(len(claims) for _, claims in papers)])
    figure, axis = new_figure("", "", "")
    figure.set_size_inches(2.6 + 0.32 * columns, 1.1 + 0.3 * max(len(papers), 1))
    for row, (_, claims) in enumerate(papers):
        for column, claim in enumerate(claims.itertuples()):
            colour, sign = VERDICT_LOOKS[str(claim.verdict)]
            inside, ink = (colour, "white") if claim.counts else ("white", colour)
            axis.add_patch(Rectangle((column, row + 0.08), 0.86, 0.84, facecolor=inside, edgecolor=colour))
            axis.text(column + 0.43, row + 0.5, sign, ha="center", va="center", color=ink, weight="bold")
            if claim.worse:
                worst = next(verdict for verdict in VERDICTS[2::-1] if str(claim.worse).endswith(verdict))
                corner = [(column + 0.86, row + 0.92), (column + 0.86, row + 0.5), (column + 0.44, row + 0.92)]
                axis.add_patch(Polygon(corner, color=VERDICT_LOOKS[worst][0], linewidth=0))
        level = f"{paper_level(claims.itertuples())}, {coverage_text(claims.itertuples())}"
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


def to_html(table: pd.DataFrame) -> str:
    """A page of its own: the papers, then every claim; a click on a column's head sorts by it."""
    summary = paper_summary(table)
    summary["level"] = [f"{BADGES[level]} {level}" for level in summary["level"]]
    hidden = ["title", "interval_low", "interval_high", *(f"verdict_{tier}" for tier in TIERS)]
    claims = table.drop(columns=hidden)
    records = table.to_dict("records")
    claims.insert(claims.columns.get_loc("verdict"), "interval", [_interval_words(row) for row in records])
    claims.insert(claims.columns.get_loc("reason"), "tiers differ", [_difference(row) for row in records])
    return _PAGE.format(papers=_html_table(summary), claims=_html_table(claims))


def _interval_words(row: dict) -> str:
    return "" if pd.isna(row["interval_low"]) else f"{row['interval_low']:.4g} to {row['interval_high']:.4g}"


def _difference(row: dict) -> str:
    """The verdicts of the tiers that measured a claim, where they are not all the same."""
    verdicts = {tier: row[f"verdict_{tier}"] for tier in TIERS if row[f"verdict_{tier}"] != "not measured"}
    differ = len(set(verdicts.values())) > 1
    return ", ".join(f"{tier} {verdict}" for tier, verdict in verdicts.items()) if differ else ""


def _html_table(table: pd.DataFrame) -> str:
    head = "".join(f"<th>{html.escape(str(column).replace('_', ' '))}</th>" for column in table.columns)
    body = "\n".join(
        "<tr>" + "".join(_html_cell(str(name), value) for name, value in row.items()) + "</tr>"
        for row in table.to_dict("records")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _html_cell(column: str, value: object) -> str:
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "<td></td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, (int, float)):
        return f'<td class="number" data-value="{value!r}">{value:.4g}</td>'
    if column == "verdict":
        colour, sign = VERDICT_LOOKS[str(value)]
        return f'<td style="border-left: 6px solid {colour}">{sign} {html.escape(str(value))}</td>'
    kind = ' class="long"' if column in ("says", "reason") else ""
    return f"<td{kind}>{html.escape(str(value))}</td>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>netrepro scorecard</title>
<style>
body {{ font: 13px system-ui, sans-serif; margin: 2em; color: #222; }}
table {{ border-collapse: collapse; margin-bottom: 2em; }}
th, td {{ border-bottom: 1px solid #ddd; padding: 4px 8px; text-align: left; vertical-align: top; }}
th {{ cursor: pointer; position: sticky; top: 0; background: #f4f4f4; }}
td.long {{ min-width: 15em; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
</style></head><body>
<h1>Scorecard</h1>
<p>Verdicts compare 95 % intervals over repetitions with what was accepted before the run.
For orderings ours is Kendall's tau, for curves the distance as a share of the published range.</p>
<h2>Papers</h2>
{papers}
<h2>Claims</h2>
{claims}
<script>
for (const head of document.querySelectorAll("th")) head.onclick = () => {{
  const body = head.closest("table").tBodies[0], column = head.cellIndex;
  const down = head.dataset.down = head.dataset.down === "1" ? "" : "1";
  const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const order = (a, b) => key(a).localeCompare(key(b));
  const number = (a, b) => key(a) - key(b);
  const rows = [...body.rows];
  rows.sort(rows.every(row => !isNaN(key(row))) ? number : order);
  body.append(...(down ? rows : rows.reverse()));
}};
</script>
</body></html>
"""
