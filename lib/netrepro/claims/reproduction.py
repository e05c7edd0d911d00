"""Whether a user's own runs say what is published: for each claim what they say, and where it differs, why.

The published scorecard stays what it is. Beside it stands, for each claim, that run of the user's which judges it best:
the one that decides, where it was run, or else another one, such as a quick run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from netrepro.claims.models import Claim, load_claims
from netrepro.claims.results import Results, Run, published_results
from netrepro.claims.scorecard import look_of
from netrepro.claims.verdicts import UNTRUSTED, Judgement, judge
from netrepro.errors import NetreproError
from netrepro.tiers_and_profiles import PROFILES, REAL_TIME_TIERS, TIERS

COLUMNS = [
    *("paper", "claim", "role", "published", "published_value"),
    *("judged_by", "mine", "mine_value", "as_published", "as_its_run", "why"),
]
NOT_RUN, LONGER, OTHER_TIER = "any run", "a longer run", "another tier"
UNPUBLISHED = "nothing is published"


def reproduction(published: pd.DataFrame, results: Callable[[str], Results | None]) -> pd.DataFrame:
    """Return a row for each claim of a published scorecard, beside the user's runs.

    Columns: paper, claim, role; published, published_value (what the published deciding run says); judged_by
    ("profile/tier" of the user's run that judges the claim, "" where none does), mine, mine_value (what it says),
    as_published (the same verdict), as_its_run (the same verdict as the published run of that profile and tier); why,
    where it is another verdict, or where no run of the user's judges the claim: NOT_RUN, LONGER or OTHER_TIER, which it
    then needs. Verdicts are those of `look_of`. The user's run is the one that decides, where there is one, or else the
    one on the best tier at the largest profile; trusted ones come first.

    results : a function of a slug that returns the user's results.
    """
    rows = []
    for slug, claims in published.groupby("paper", sort=False):
        by_id = {claim.id: claim for claim in load_claims(str(slug)).claims}
        try:
            own = results(str(slug))
        except NetreproError:
            own = None
        theirs = published_results(str(slug))
        rows += [_row(row, by_id[row["claim"]], own, theirs) for row in claims.to_dict("records")]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({"published_value": float, "mine_value": float, "as_published": bool, "as_its_run": bool})


def _row(row: dict[str, Any], claim: Claim, own: Results | None, theirs: Results | None) -> list[Any]:
    declared = claim.decided_by.key if claim.decided_by else ""
    said = look_of(row)
    told = [row["paper"], claim.id, claim.role, said, row["value"]]
    chosen = _best(claim, declared, own)
    if chosen is None:
        tier = claim.decided_by.tier if claim.decided_by else ""
        is_there = own is not None and any(run.tier == tier for run in own.runs.values())
        of_this_tier = NOT_RUN if own is None else LONGER
        needs = OTHER_TIER if tier in REAL_TIME_TIERS and not is_there else of_this_tier
        return [*told, "", "", None, False, False, needs]
    run, judgement = chosen
    mine = _look(claim, judgement)
    same = theirs.runs.get(run.key) if theirs else None
    published = same.measurement(claim.id) if same else None
    its_look = _look(claim, judge(claim, published, run.tier)) if published is not None else ""
    why = (
        ""
        if mine == said
        else UNPUBLISHED
        if theirs is None
        else _why(declared, run, judgement, mine, its_look, same is not None and same.code != run.code)
    )
    return [*told, run.key, mine, judgement.value, mine == said, mine == its_look, why]


def _best(claim: Claim, declared: str, own: Results | None) -> tuple[Run, Judgement] | None:
    runs = sorted(
        own.runs.values() if own else (),
        key=lambda run: (run.key != declared, TIERS.index(run.tier), -PROFILES.index(run.profile)),
    )
    judged = [(run, judge(claim, each, run.tier)) for run in runs if (each := run.measurement(claim.id)) is not None]
    return next((each for each in judged if each[1].verdict != UNTRUSTED), judged[0] if judged else None)


def _look(claim: Claim, judgement: Judgement) -> str:
    return look_of({"verdict": judgement.verdict, "settled": claim.settled or ""})


def _why(declared: str, run: Run, judgement: Judgement, mine: str, its_look: str, of_other_code: bool) -> str:
    """Say why a run has another verdict than the published deciding one. its_look : the verdict of the published run of
    the same profile and tier, "" where there is none. of_other_code : whether other code measured that run."""
    if judgement.verdict == UNTRUSTED:
        return "this run failed its own checks"
    if run.key == declared:
        return f"the same run, and another result{', of other code' * of_other_code}: look at it"
    if not its_look:
        return f"{declared or 'another run'} decides"
    if its_look == mine:
        return f"the published {run.key} says so, too; {declared or 'another run'} decides"
    return f"not what the published {run.key}{', of other code,' * of_other_code} says: look at it"


def reproduction_text(table: pd.DataFrame) -> str:
    """Say whether the user's runs reproduce what is published: how many claims they judged, how many of them as
    published, and what the others need."""
    judged = table[table["judged_by"] != ""]
    new = int((judged["why"] == UNPUBLISHED).sum())
    known = judged[judged["why"] != UNPUBLISHED]
    same = known["as_published"]
    parts = [f"{int(same.sum())} as published"]
    if expected := int((~same & known["as_its_run"]).sum()):
        parts.append(f"{expected} otherwise, as the published runs of the same profile and tier")
    surprising = int((~same & ~known["as_its_run"]).sum())
    if surprising:
        parts.append(f"{surprising} otherwise than those, too: look at them")
    parts += [f"{new} of papers of which {UNPUBLISHED}"] if new else []
    answer = "" if known.empty else "Not everywhere" if surprising else "Yes, as far as your runs go"
    text = f"Did this machine reproduce what is published? {answer}. " * bool(answer)
    text += f"Your runs judged {len(judged)} of {len(table)} claims: {'; '.join(parts)}."
    others = table[table["judged_by"] == ""]["why"]
    unrun, longer, tier = (int((others == need).sum()) for need in (NOT_RUN, LONGER, OTHER_TIER))
    needs = [f"{unrun} {'is' if unrun == 1 else 'are'} of papers that you have not run"] if unrun else []
    needs += [f"{longer} need{'s' * (longer == 1)} a longer run"] if longer else []
    needs += [f"{tier} need{'s' * (tier == 1)} root or another machine"] if tier else []
    return f"{text} {'; '.join(needs)}." if needs else text
