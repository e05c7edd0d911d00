"""Scorecards as plain lines."""

from __future__ import annotations

import math

import pandas as pd

from netrepro.claims import TIERS, VERDICTS, Run
from netrepro.claims.scorecard import BADGES, VERDICT_LOOKS, paper_summary, run_words
from netrepro.workbench.lines import columns_of, folded, side_by_side

SIGNS = {verdict: sign or "·" for verdict, (_, sign) in VERDICT_LOOKS.items()} | {"not_counted": "□"}


def summary_lines(mine: pd.DataFrame, published: pd.DataFrame) -> list[str]:
    """A line a paper: the user's level, how many of its claims it rests on, and counts; then the published ones."""
    if published.empty:
        return []
    run = set(mine.loc[mine["date"] != "", "paper"])
    own = dict(zip(mine["paper"].unique(), paper_summary(mine).to_dict("records"), strict=True))
    rows = [["paper", "mine", "published"]]
    for row in paper_summary(published).to_dict("records"):
        slug = row["paper"]
        measured = (published.loc[published["paper"] == slug, "date"] != "").any()
        rows.append(
            [slug, _counts(own[slug]) if slug in run else "not run", _counts(row) if measured else "not published"]
        )
    levels = [f"{badge} {level}" for level, badge in BADGES.items()]
    signs = [f"{sign} {name.replace('_', ' ')}" for name, sign in SIGNS.items()]
    return [*columns_of(rows), "", *side_by_side(levels), *side_by_side(signs)]


def untrusted_lines(mine: pd.DataFrame, published: pd.DataFrame) -> list[str]:
    """A line a paper and tier whose run does not pass its own checks. The counts show nothing of it where another tier
    decides."""
    lines: list[str] = []
    for whose, table in (("mine", mine), ("published", published)):
        for slug, claims in table.groupby("paper", sort=False):
            for tier in TIERS:
                count = int((claims[f"verdict_{tier}"] == "untrusted").sum())
                if count:
                    words = f"{slug} on tier {tier} ({whose}): {count} of {len(claims)} claims untrusted"
                    lines += folded(words, f"{SIGNS['untrusted']} ", "  ")
    return lines


def distrust(run: Run) -> str:
    """How many claims a run measured without being trusted, and the checks that failed; "" for none."""
    whys = [each.why for each in run.measured if not each.trusted]
    if not whys:
        return ""
    return f"{len(whys)} of {len(run.measured)} measured claims untrusted: {'; '.join(dict.fromkeys(whys))}"


def _counts(row: dict) -> str:
    counts = " ".join(f"{row[name]}{SIGNS[name]}" for name in (*VERDICTS, "not_counted") if row[name])
    return f"{BADGES[row['level']]} {row['coverage'].removesuffix(' claims')}: {counts}"


def claim_lines(table: pd.DataFrame, names: tuple[str, str] = ("mine", "published")) -> list[str]:
    """A few lines a claim of a table from `beside`: what the paper says, what is mine, what is published."""
    lines: list[str] = []
    for row in table.to_dict("records"):
        lines += folded(f"{row['paper']}: {row['claim']}. {row['says']}", "", "  ")
        said = row["published"] if isinstance(row["published"], str) else f"{row['published']:.4g}"
        lines += folded(f"{said} {row['unit']} ({row['where']})", "  paper      ", " " * 13)
        for side, name in zip(("mine", "published"), names, strict=True):
            lines += folded(side_words(row, side), f"  {name:<9}  ", " " * 13)
    return lines


def side_words(row: dict, side: str) -> str:
    """Verdict, value with interval, and run of one side of a row of `beside`."""
    if not row[f"{side}_date"]:
        return "not run: published only" if side == "mine" else "nothing published"
    verdict, value = row[f"{side}_verdict"], row[f"{side}_value"]
    words = f"{SIGNS[verdict]} {verdict}" + _not_counted(row[f"{side}_counts"], verdict)
    if not math.isnan(value):
        low, high = row[f"{side}_interval_low"], row[f"{side}_interval_high"]
        spread = "" if math.isnan(low) or low == high else f" ({low:.4g} to {high:.4g})"
        words += f", {value:.4g}{spread}"
    return f"{words}; {', '.join(run_words(row, side))}"


def _not_counted(counts: bool, verdict: str) -> str:
    return "" if counts or verdict == "not measured" else ", not counted"


def difference_lines(table: pd.DataFrame) -> list[str]:
    """A line a claim, below its paper, of a table from `beside`: those that the user has run and whose verdict or
    count is not the published one; verdict and value of both. Nothing where there are none."""
    other = (table["mine_verdict"] != table["published_verdict"]) | (table["mine_counts"] != table["published_counts"])
    differing = table[(table["mine_date"] != "") & other]
    rows = [["mine is not what is published", "mine", "published"]]
    for slug, claims in differing.groupby("paper", sort=False):
        rows.append([str(slug), "", ""])
        for row in claims.to_dict("records"):
            rows.append([f"  {row['claim']}", _short_side(row, "mine"), _short_side(row, "published")])
    return [*columns_of(rows), "each in full, with profile and tier: netrepro scorecard SLUG"] if len(rows) > 1 else []


def _short_side(row: dict, side: str) -> str:
    """Sign and value of one side of a row of `beside`."""
    verdict, value = row[f"{side}_verdict"], row[f"{side}_value"]
    hollow = "" if row[f"{side}_counts"] or verdict == "not measured" else SIGNS["not_counted"]
    return f"{SIGNS[verdict]}{hollow}" + ("" if math.isnan(value) else f" {value:.4g}")
