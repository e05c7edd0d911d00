"""The history of a claim in git: since when it has its present acceptance, control and evidence, when it was first
measured, and what has changed since a release.

A claim itself says whether its acceptance was fixed before anything was measured (`fixed`). Git can disprove this. Git
can prove it only where the acceptance was committed before the paper's code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import pandas as pd
import yaml
from pydantic import ValidationError

from netrepro.claims.models import Claim, PaperClaims, all_papers, load_claims, readable
from netrepro.claims.results import Results, Run, published_results
from netrepro.claims.verdicts import NOT_MEASURED, judge
from netrepro.errors import NetreproError, nearest
from netrepro.git import git, require_whole_history

HISTORY_COLUMNS = [
    *("paper", "claim", "fixed", "accepted", "accepted_commit", "evidence", "evidence_commit"),
    *("code", "code_commit", "measured", "measured_commit", "git", "git_evidence"),
]
JUDGED_BY = ("kind", "accept", "neutral")  # keys that decide a verdict, together with the published number
EVIDENCE = ("bounds", "comparable", "comparable_on", "control", "control_weakness")  # and where it is decided
CHANGE_COLUMNS = ["paper", "claim", "what", "before", "after"]


class Commit(NamedTuple):
    """A commit and when it was made (ISO 8601, UTC)."""

    name: str
    date: str


def history(papers: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a row for each claim of papers (slugs; default all), from the claim itself and from git.

    Columns: paper, claim; `fixed`, its own statement; date and commit of its present acceptance (`accepted`), of the
    paper's first code (`code`) and of the claim's first result (`measured`); and `git`, git's statement.

    `git` is "before" (the acceptance came before any code that could measure), "before results" (after or with the
    code, and before results), "with results" (one commit), "after results", "not measured" or "not committed". Git
    proves only "before"; otherwise `fixed` has to be believed. `evidence` and `git_evidence` say the same of control,
    bounds, and the run that decides (its tier and profile).

    Raises NetreproError for an unknown paper, and where there is no git, no clone, or a shallow one, whose first commit
    seems to have brought everything.
    """
    require_whole_history()
    rows = []
    for paper in all_papers() if papers is None else map(load_claims, papers):
        versions = list(_versions(f"data/{paper.paper}/claims.yaml", yaml.safe_load))
        accepted, evidence = (_since(_of_claims(versions, keys)) for keys in (_accepted, _evidence))
        code = _first_code(paper.paper)
        measured = _first(_versions(f"figures/{paper.paper}/results.json", _measured))
        for claim in paper.claims:
            since, shown, first = (commits.get(claim.id) for commits in (accepted, evidence, measured))
            dates = (*_both(since), *_both(shown), *_both(code), *_both(first))
            said = (_said(commit, code, first) for commit in (since, shown))
            rows.append([paper.paper, claim.id, claim.fixed, *dates, *said])
    return pd.DataFrame(rows, columns=HISTORY_COLUMNS)


def changes_since(version: str, papers: Iterable[str] | None = None) -> pd.DataFrame:
    """Return what has changed of papers (slugs; default all) since a release: CHANGE_COLUMNS.

    A row is a claim and one of: "claim" (new or gone), "published", "acceptance", "control", "evidence" (tier and
    profile of the deciding run, whether it is comparable), "run" (repetitions and length of that run), "verdict". Both
    verdicts are of today's rules, of the acceptance and the numbers of their time.

    Raises NetreproError for an unknown paper or release, and as `history`.
    """
    require_whole_history()
    commit = release_commit(version)
    rows: list[list[str]] = []
    for paper in all_papers() if papers is None else map(load_claims, papers):
        now, results = {claim.id: claim for claim in paper.claims}, published_results(paper.paper)
        then, old = _at(commit, paper.paper)
        for name in dict.fromkeys([*then, *now]):
            before, after = _told(then.get(name), old), _told(now.get(name), results)
            rows += [
                [paper.paper, name, what, before.get(what, ""), after.get(what, "")]
                for what in dict.fromkeys([*before, *after])
                if before.get(what) != after.get(what) and (what == "claim" or (before and after))
            ]
    return pd.DataFrame(rows, columns=CHANGE_COLUMNS)


def release_commit(version: str) -> str:
    """Find the first commit that has the results of a release, such as "0.3.0" or "v0.3.0". Raises NetreproError, with
    the nearest version, where there was none."""
    known: dict[str, str] = {}
    for commit, content in _versions("figures/release.json", json.loads):
        known.setdefault(content["version"], commit.name)
    if (asked := version.removeprefix("v")) not in known:
        raise NetreproError(f"no release {asked!r}", nearest(asked, known))
    return known[asked]


def _at(commit: str, slug: str) -> tuple[dict[str, Claim], Results | None]:
    """Return the claims and the results of a paper at a commit; none where it had none, or of a form of their time."""
    claims, results = (
        git("show", f"{commit}:./{path}") if git("ls-tree", commit, "--", path) else ""
        for path in (f"data/{slug}/claims.yaml", f"figures/{slug}/results.json")
    )
    try:
        told = PaperClaims.model_validate(yaml.safe_load(claims)).claims if claims else ()
        return {claim.id: claim for claim in told}, Results.model_validate_json(results) if results else None
    except (yaml.YAMLError, ValidationError):
        return {}, None


def _told(claim: Claim | None, results: Results | None) -> dict[str, str]:
    """Put what `changes_since` compares into words."""
    if claim is None:
        return {}
    run = results.runs.get(claim.decided_by.key) if results and claim.decided_by else None
    return {
        "claim": claim.says,
        "published": str(readable(claim.expected)),
        "acceptance": f"{claim.kind}, {claim.accept}, {claim.neutral:g}",
        "control": claim.control_weakness or claim.control or "none",
        "evidence": (claim.decided_by.key if claim.decided_by else "none")
        + ("" if claim.comparable else ", not comparable"),
        "run": _run_told(run),
        "verdict": _verdict_told(claim, run),
    }


def _run_told(run: Run | None) -> str:
    if run is None:
        return "none"
    return f"{run.repetitions} repetitions" + (f" of {run.seconds:g} s" if run.seconds else "")


def _verdict_told(claim: Claim, run: Run | None) -> str:
    measured = run.measurement(claim.id) if run else None
    if run is None or measured is None:
        return NOT_MEASURED
    judged = judge(claim, measured, run.tier)
    return f"{judged.verdict}{'' if judged.counts else ' (does not count)'}"


def _first_code(slug: str) -> Commit | None:
    """Find the first commit of the paper's module, or of the package that it became."""
    places = (f"lib/netrepro/papers/{slug}.py", f"lib/netrepro/papers/{slug}/__init__.py")
    commits = [_first(_versions(place, lambda _: {"": True})).get("") for place in places]
    return min((each for each in commits if each), key=lambda commit: commit.date, default=None)


def _said(since: Commit | None, code: Commit | None, first: Commit | None) -> str:
    if since is None:
        return "not committed"
    if first is None:
        return "not measured"
    if since.name == first.name:
        return "with results"
    if since.date > first.date:
        return "after results"
    is_alone = code is None or since.date < code.date
    return "before" if is_alone else "before results"


def _both(commit: Commit | None) -> tuple[str, str]:
    return (commit.date[:16].replace("T", " "), commit.name[:7]) if commit else ("", "")


def _since(versions: Iterator[tuple[Commit, Mapping[str, Any]]]) -> dict[str, Commit]:
    """Map every key to the commit in which its present value came."""
    since: dict[str, Commit] = {}
    before: Mapping[str, Any] = {}
    for commit, content in versions:
        since |= {key: commit for key, value in content.items() if key not in before or before[key] != value}
        before = content
    return {key: since[key] for key in before}


def _first(versions: Iterator[tuple[Commit, Mapping[str, Any]]]) -> dict[str, Commit]:
    """Map every key to the first commit that has it."""
    first: dict[str, Commit] = {}
    for commit, content in versions:
        for key in content:
            first.setdefault(key, commit)
    return first


def _of_claims(
    versions: Iterable[tuple[Commit, Mapping[str, Any]]], keys: Callable[[Mapping[str, Any]], Any]
) -> Iterator[tuple[Commit, Mapping[str, Any]]]:
    """Yield of each version what `keys` takes of every claim."""
    for commit, content in versions:
        with suppress(KeyError, TypeError, AttributeError):  # a form of its time
            yield commit, {each["id"]: keys(each) for each in content["claims"]}


def _accepted(claim: Mapping[str, Any]) -> Any:
    # The same number under the class report's name is no other acceptance.
    return [claim.get(key) for key in JUDGED_BY], claim.get("published", claim.get("class_report"))


def _evidence(claim: Mapping[str, Any]) -> Any:
    decided = claim.get("decided_by") or {}
    return [claim.get(key) for key in EVIDENCE], decided.get("tier"), decided.get("profile")


def _measured(text: str) -> Mapping[str, Any]:
    runs = json.loads(text)["runs"].values()
    return {measured["claim"]: True for run in runs for measured in run["measured"]}


def _versions(path: str, read: Any) -> Iterator[tuple[Commit, Mapping[str, Any]]]:
    """Yield each committed version of a file as `read` returns it, oldest first; skip versions that it cannot read.

    Raises NetreproError where git cannot show a version.
    """
    listed = git("log", "--reverse", "--date=iso-strict-local", "--format=%H %ad", "--", path)
    for line in listed.splitlines():
        name, date = line.split(maxsplit=1)
        if not git("ls-tree", name, "--", path):  # the commit removed it
            continue
        text = git("show", f"{name}:./{path}")
        try:
            yield Commit(name, date), read(text)
        except (yaml.YAMLError, ValueError, KeyError, TypeError):
            continue
