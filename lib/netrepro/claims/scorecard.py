"""All verdicts as tables: a row for each claim, a row for each paper. They have counts, never averages over claims.

There are tables of the published runs, of a user's own runs, and of both side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from netrepro.claims.models import Claim, PaperClaims, all_papers, load_claims, readable
from netrepro.claims.release import Release, read_release
from netrepro.claims.results import Results, Run, published_results
from netrepro.claims.verdicts import (
    AGREES,
    DECIDED,
    DIRECTION,
    DISAGREES,
    NOT_JUDGED,
    NOT_MEASURED,
    UNDECIDED,
    UNTRUSTED,
    VERDICTS,
    Judgement,
    coverage_text,
    judge,
    paper_level,
)
from netrepro.errors import NetreproError
from netrepro.tiers_and_profiles import PROFILES, TIERS, check_profile, check_tier


def scorecard(
    papers: Iterable[str] | None = None,
    profile: str | None = None,
    tier: str | None = None,
    *,
    results: Callable[[str], Results | None] | None = None,
    code: Callable[[str, str], str] | None = None,
    as_declared: bool = True,
) -> pd.DataFrame:
    """Return one row for each claim of every paper (slugs; default all), judged by today's claims.yaml.

    Main claims come first. Columns: paper, title, claim, role, comparable, says, where, kind, unit, published,
    class_report, source; for each tier ours_<tier> and verdict_<tier>; then fixed, blame, settles, settled as
    claims.yaml has them; then decided_by ("profile/tier", or "not declared"); then, for the run that decides, tier,
    profile, value, verdict, counts, elsewhere, interval_low, interval_high, repetitions, reason, date, commit,
    code_changed, stale, of_release; ran, whether there is any run of the paper. Ours, value and interval are in the
    claim's unit; for orderings they are Kendall's tau, for curves the distance as a share of the published range.

    The run that decides is the one that claims.yaml declares, whatever else was measured. Where it declares none, it is
    chosen among those that measured the claim and are trusted: the best tier's whose verdict counts, if any does, and
    within a tier the paper profile's. The verdict itself plays no part. `elsewhere` names the other runs whose trusted
    verdict counts and differs, better or worse, and that verdict.

    Without `as_declared` it is chosen so for every claim, whatever claims.yaml declares: what do these runs say?
    `profile` and `tier` restrict the runs. `results` is a function of a slug that returns its results; default: the
    published ones. `code` is a function of a slug and a tier that returns today's hash of the code of the paper's
    numbers there; `code_changed` is true where other code measured the run, or it is not known which code.
    `of_release` is false where other code than the release's measured it (true as long as there is no release).
    `stale` is true where neither today's code nor a release's measured it.

    If `papers` is None, a paper whose claims cannot be read is left out, one whose results cannot be read is not
    measured, and `attrs["problems"]` says why (slug -> text).

    Raises NetreproError for an unknown paper, profile or tier, and for files of named papers that cannot be read.
    """
    if profile is not None:
        check_profile(profile)
    if tier is not None:
        check_tier(tier)
    rows = []
    problems: dict[str, str] = {}
    release = read_release()
    for paper in all_papers(problems) if papers is None else map(load_claims, papers):
        try:
            kept = (results or published_results)(paper.paper)
        except NetreproError as error:
            if papers is not None:
                raise
            problems[paper.paper] = str(error)
            kept = None
        runs = [
            run
            for run in (kept.runs.values() if kept else [])
            if profile in (None, run.profile) and tier in (None, run.tier)
        ]
        runs.sort(key=lambda run: (TIERS.index(run.tier), -PROFILES.index(run.profile)))
        today: dict[str, str] = {tier: code(paper.paper, tier) for tier in {run.tier for run in runs}} if code else {}
        rows += [_row(paper, claim, runs, today, release, as_declared) for claim in paper.main_first()]
    numbers = [f"ours_{tier}" for tier in TIERS] + ["value", "interval_low", "interval_high"]
    table = pd.DataFrame(rows, columns=_COLUMNS).astype(dict.fromkeys(numbers, float))
    table.attrs["problems"] = problems
    return table


_COLUMNS = [
    *("paper", "title", "claim", "role", "comparable", "says", "where", "kind", "unit", "published"),
    *("class_report", "source"),
    *(f"{column}_{tier}" for column in ("ours", "verdict") for tier in TIERS),
    *("fixed", "blame", "settles", "settled", "decided_by", "tier", "profile", "value", "verdict", "counts"),
    *("elsewhere", "interval_low", "interval_high", "repetitions", "reason", "date", "commit"),
    *("code_changed", "stale", "of_release", "ran"),
]


def _row(
    paper: PaperClaims,
    claim: Claim,
    runs: list[Run],
    today: Mapping[str, str],
    release: Release | None,
    as_declared: bool,
) -> dict[str, object]:
    judged = [(run, judge(claim, run.measurement(claim.id), run.tier)) for run in runs]
    declared = claim.decided_by.key if claim.decided_by else ""
    judged.sort(key=lambda each: each[0].key != declared)  # the declared run comes first and so stands for its tier
    by_tier = {tier: _deciding([each for each in judged if each[0].tier == tier]) for tier in TIERS}
    row: dict[str, object] = {
        "paper": paper.paper,
        "title": paper.title,
        "claim": claim.id,
        "role": claim.role,
        "comparable": claim.comparable,
        "says": claim.says,
        "where": claim.where,
        "kind": claim.kind,
        "unit": claim.unit,
        "published": readable(claim.published),
        "class_report": readable(claim.class_report),
        "source": claim.source,
        "fixed": claim.fixed,
        "blame": claim.blame or "",
        "settles": claim.settles or "",
        "settled": claim.settled or "",
        "decided_by": declared or "not declared",
    }
    for tier, (_, judgement) in by_tier.items():
        row |= {f"ours_{tier}": judgement.value, f"verdict_{tier}": judgement.verdict}
    run, judgement = _declared(claim, declared, judged) if declared and as_declared else _best(by_tier.values())
    low, high = judgement.interval or (None, None)
    code_changed = run is not None and bool(code := today.get(run.tier, "")) and run.code != code
    of_release = run is None or release is None or release.holds(paper.paper, run)
    return row | {
        "tier": run.tier if run else "",
        "profile": run.profile if run else "",
        "value": judgement.value,
        "verdict": judgement.verdict,
        "counts": judgement.counts,
        "elsewhere": _elsewhere(run, judgement, judged),
        "interval_low": low,
        "interval_high": high,
        "repetitions": judgement.repetitions,
        "reason": judgement.reason,
        "date": run.date.isoformat() if run else "",
        "commit": run.commit if run else "",
        "code_changed": code_changed,
        "stale": code_changed and (release is None or not of_release),
        "of_release": of_release,
        "ran": bool(runs),
    }


_Judged = tuple[Run | None, Judgement]


def _declared(claim: Claim, key: str, judged: Iterable[_Judged]) -> _Judged:
    """Return the evidence that claims.yaml names, or say that it is missing."""
    for run, judgement in judged:
        if run and run.key == key:
            return run, judgement
    reason = f"{key} decides, and was not run"
    return None, Judgement(claim=claim.id, tier="", verdict="not measured", reason=reason, role=claim.role)


def _elsewhere(deciding: Run | None, decided: Judgement, judged: Iterable[_Judged]) -> str:
    """List the other runs' trusted verdicts that count and differ from the one that decides, worst last."""
    others = [
        (DECIDED.index(each.verdict), f"{run.profile} {run.tier} {each.verdict}")
        for run, each in judged
        if run and run is not deciding and each.counts and each.verdict in DECIDED and each.verdict != decided.verdict
    ]
    return ", ".join(words for _, words in sorted(others, key=lambda each: each[0]))


def _deciding(judged: Iterable[_Judged]) -> _Judged:
    """Choose the run that decides for one tier; runs come best first.

    It is the first measured and trusted one, else the first untrusted one, else the first.
    """
    judged = list(judged)
    for wanted in ((*DECIDED, UNDECIDED, NOT_JUDGED), (UNTRUSTED,), VERDICTS):
        for run, judgement in judged:
            if judgement.verdict in wanted:
                return run, judgement
    return None, Judgement(claim="", tier="", verdict="not measured", reason="no run yet")


def _best(by_tier: Iterable[_Judged]) -> _Judged:
    """Choose the run that decides for all tiers; tiers come best first.

    It is the first whose verdict is trusted and counts, else the one that `_deciding` chooses.
    """
    decided = [(run, judgement) for run, judgement in by_tier if run is not None]
    counted = [each for each in decided if each[1].counts and each[1].verdict in (*DECIDED, UNDECIDED)]
    return counted[0] if counted else _deciding(decided)


def paper_summary(table: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row for each paper of a scorecard: paper, title, level, coverage ("3 of 4 main claims" decide the
    level), claims, a column a verdict, settled, not_counted.

    The columns of verdicts give numbers of claims that count. Of those that disagree, `settled` has the ones whose
    settling experiment has run, and `disagrees` the others. Together with not_counted they add up to claims.
    """
    table = scorecard() if table is None else table
    rows = []
    for slug, claims in table.groupby("paper", sort=False):
        level, title = paper_level(claims.itertuples()), claims["title"].iloc[0]
        rows.append([slug, title, level, coverage_text(claims.itertuples()), *counts_of(claims).values()])
    return pd.DataFrame(rows, columns=["paper", "title", "level", "coverage", *COUNTS])


COUNTS = (
    *("claims", AGREES, DIRECTION, DISAGREES, "settled", UNDECIDED, UNTRUSTED, NOT_JUDGED, NOT_MEASURED),
    "not_counted",
)


def counts_of(claims: pd.DataFrame) -> dict[str, int]:
    """Count these rows of a scorecard under each name of COUNTS."""
    names = [
        look_of(row) if row["counts"] or row["verdict"] == NOT_JUDGED else "not_counted"
        for row in claims.to_dict("records")
    ]
    return {"claims": len(claims)} | {name: names.count(name) for name in COUNTS[1:]}


def look_of(row: Mapping[str, Any], side: str = "") -> str:
    """Return a row's verdict, or "settled" where it disagrees and the experiment that settles it has run; `side` is
    "mine_" or "published_" of a row of `beside`."""
    verdict = str(row[f"{side}verdict"])
    return "settled" if verdict == DISAGREES and row["settled"] else verdict


def expected_of(row: Mapping[str, Any]) -> Any:
    """Return the number of a row of a scorecard that results are judged against: the paper's, or the class report's."""
    return row["class_report"] if row["source"] == "class" else row["published"]


_CLAIM = ["paper", "title", "claim", "role", "says", "where", "kind", "unit", "published", "class_report", "source"]
_CLAIM += ["fixed", "blame", "settles", "settled", "decided_by"]
_SIDE = ["verdict", "value", "interval_low", "interval_high", "counts", "reason"]
_SIDE += ["repetitions", "profile", "tier", "date", "commit", "elsewhere", "code_changed", "stale", "of_release", "ran"]


def problems_of(*tables: pd.DataFrame) -> dict[str, str]:
    """Collect what could not be read for these scorecards: slug -> text."""
    return {slug: text for table in tables for slug, text in table.attrs["problems"].items()}


def beside(mine: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Put a user's scorecard beside the published one, of the same papers: a row for each claim.

    Columns: those that say the claim, then mine_… and published_…: verdict, value, interval_low, interval_high,
    counts, reason, repetitions, profile, tier, date, commit, elsewhere, code_changed, stale, of_release, ran.
    `mine_date` is empty where the user has no run that decides, `mine_ran` false where there is none at all.
    """
    table = published[_CLAIM].copy()
    for name, side in (("mine", mine), ("published", published)):
        for column in _SIDE:
            table[f"{name}_{column}"] = side[column].to_numpy()
    return table


def stale_main_claims(table: pd.DataFrame) -> list[str]:
    """List the main claims of a scorecard whose deciding run neither today's code nor the release's measured, a
    sentence each."""
    stale = table[(table["role"] == "main") & table["stale"]]
    return [
        f"{row['paper']}: {row['claim']} stands on {row['commit']}, and the code has changed since"
        for row in stale.to_dict("records")
    ]


def release_text(table: pd.DataFrame | None = None) -> str:
    """Say of which release the published results are; "" before the first release. table : a scorecard, of which it is
    also said how many papers' code has changed since."""
    release = read_release()
    if release is None:
        return ""
    text = f"Results are of release {release.version}."
    if table is None:
        return text
    since = table.loc[table["code_changed"] & table["of_release"], "paper"].nunique()
    if since == 0:
        return text
    papers = f"{since} of {table['paper'].nunique()} papers"
    return f"{text} The code of {papers} has changed since; the next release measures them again."


def regressions(old: Results, new: Results) -> list[str]:
    """List the claims that held in `old` and no longer hold in `new` at the same profile and tier, a sentence each.

    Both are judged by today's claims.yaml, so a changed acceptance is no regression. A control that no longer
    flips is a regression; a claim that more repetitions would decide is not. Runs that `new` does not have, and
    timed claims, are left out. Raises NetreproError for the results of two papers.
    """
    if old.paper != new.paper:
        raise NetreproError(f"results of {old.paper!r} and {new.paper!r} cannot be compared")
    lost = []
    for claim in (claim for claim in load_claims(old.paper).claims if not claim.timed):
        for key in old.runs.keys() & new.runs.keys():
            before, now = (judge(claim, run.measurement(claim.id), run.tier) for run in (old.runs[key], new.runs[key]))
            if before.holds and not now.holds and now.verdict != UNDECIDED:
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
