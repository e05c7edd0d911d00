"""The history of a claim in git: since when it has its present acceptance, and when it was first measured.

A claim itself says whether its acceptance was fixed before anything was measured (`fixed`). Git can disprove this. Git
can prove it only where the acceptance was committed before the paper's code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd
import yaml

from netrepro.claims.models import all_papers, load_claims
from netrepro.git import git, require_whole_history

HISTORY_COLUMNS = [
    *("paper", "claim", "fixed", "accepted", "accepted_commit"),
    *("code", "code_commit", "measured", "measured_commit", "git"),
]
JUDGED_BY = ("kind", "accept", "neutral")  # keys that decide a verdict, together with the published number


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
    proves only "before"; otherwise `fixed` has to be believed.

    Raises NetreproError for an unknown paper, and where there is no git, no clone, or a shallow one, whose first commit
    seems to have brought everything.
    """
    require_whole_history()
    rows = []
    for paper in all_papers() if papers is None else map(load_claims, papers):
        accepted = _since(_versions(f"data/{paper.paper}/claims.yaml", _accepted))
        code = _first_code(paper.paper)
        measured = _first(_versions(f"figures/{paper.paper}/results.json", _measured))
        for claim in paper.claims:
            since, first = accepted.get(claim.id), measured.get(claim.id)
            dates = (*_both(since), *_both(code), *_both(first))
            rows.append([paper.paper, claim.id, claim.fixed, *dates, _said(since, code, first)])
    return pd.DataFrame(rows, columns=HISTORY_COLUMNS)


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


def _accepted(text: str) -> Mapping[str, Any]:
    content = yaml.safe_load(text)
    # The same number under the class report's name is no other acceptance.
    return {
        each["id"]: {key: each.get(key) for key in JUDGED_BY}
        | {"expected": each.get("published", each.get("class_report"))}
        for each in content["claims"]
    }


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
