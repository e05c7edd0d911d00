"""All verdicts as tables: a row a claim, a row a paper. Counts, never averages over claims.

The sheet of what is published, the sheet of a user's own runs, and both beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pandas as pd

from netrepro.claims.models import TIERS, Claim, PaperClaims, all_papers, load_claims, readable
from netrepro.claims.results import PROFILES, Results, Run, published_results
from netrepro.claims.verdicts import VERDICTS, Judgement, coverage_text, judge, paper_level
from netrepro.errors import NetreproError, nearest


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
