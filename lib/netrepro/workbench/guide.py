"""What the guide notebooks (start_here, scorecard) show: the papers with their badges, parameters, verdicts."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler

from netrepro.claims import TIERS, VERDICTS, load_claims
from netrepro.claims.scorecard import BADGES, VERDICT_LOOKS, draw_scorecard, paper_summary, scorecard
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError, nearest
from netrepro.style import use_style
from netrepro.workbench.catalogue import catalogue, find
from netrepro.workbench.tables import dress, interval_text, number_text, verdict_text

ALL = "all"


def draw_papers() -> Figure:
    """The scorecard in one picture: a row a paper, a coloured cell a claim."""
    use_style()
    return draw_scorecard(scorecard())


def map_of_papers() -> Styler:
    """Every notebook with its question, badge, tiers and cost; names are links."""
    summary = paper_summary(scorecard())
    levels = dict(zip(summary["paper"], summary["level"], strict=True))
    rows = []
    for notebook in catalogue():
        declared = notebook.declaration
        level = levels.get(notebook.slug, "guide" if declared.kind == "guide" else "not measured")
        rows.append(
            {
                "notebook": f'<a href="{notebook.path.name}">{notebook.name}</a>',
                "question": notebook.title,
                "result": f"{BADGES.get(level, '')} {level}".strip(),
                "tiers": ", ".join(declared.tiers),
                "quick": f"{declared.budget_s['quick']:.0f} s",
                "paper": f"{declared.budget_s['paper']:.0f} s",
            }
        )
    return dress(pd.DataFrame(rows))


def parameters_of(slug: str) -> Styler:
    """The parameters of a notebook: name, type, default, help."""
    items = find(slug).parameters.values()
    rows = [{"parameter": p.name, "type": p.type, "default": repr(p.default), "help": p.help} for p in items]
    return dress(pd.DataFrame(rows))


def claims_of(slug: str) -> Styler:
    """What a paper claims, where, what counts as agreement, and the negative control."""
    table = load_claims(slug).table()
    shown = table[["says", "where", "unit", "published", "class_report", "accepted", "fixed", "control"]]
    shown = shown.assign(
        published=table["published"].map(number_text), class_report=table["class_report"].map(number_text)
    )
    names = {"says": "claim", "class_report": "class report", "control": "negative control"}
    return dress(shown.rename(columns=names), wide=["claim", "negative control"])


def tiers() -> Styler:
    """The tiers, whether this machine has them, and why."""
    return dress(probe_tiers().table(), wide=["why"])


def verdicts() -> Styler:
    """What each verdict means."""
    meaning = {
        "agrees": "the whole interval lies in the accepted band",
        "agrees in direction": "the published side and within a factor of 3, but not (or not surely) in the band",
        "disagrees": "neither",
        "untrusted": "the run's own fidelity check failed, so its numbers decide nothing",
        "not measured": "this tier or machine cannot measure it; the reason stands beside it",
    }
    rows = [{"sign": VERDICT_LOOKS[name][1], "verdict": name, "means": meaning[name]} for name in VERDICTS]
    return dress(pd.DataFrame(rows))


def papers_table() -> Styler:
    """A row a paper: its level and how many claims got which verdict."""
    summary = paper_summary(scorecard())
    summary["level"] = [f"{BADGES[level]} {level}" for level in summary["level"]]
    return dress(summary, wide=["title"])


def claims_table(*, paper: str = ALL, verdict: str = ALL, tier: str = ALL) -> Styler:
    """Every claim with the published number and ours, filtered. Raises NetreproError for an unknown filter."""
    table = scorecard(tier=None if tier == ALL else tier)
    for column, chosen, valid in (("paper", paper, sorted(set(table["paper"]))), ("verdict", verdict, VERDICTS)):
        if chosen != ALL and chosen not in valid:
            raise NetreproError(f"unknown {column} {chosen!r}", nearest(chosen, [ALL, *valid]))
        if chosen != ALL:
            table = table[table[column] == chosen]
    ours = [row[f"ours_{row['tier']}"] if row["tier"] else None for row in table.to_dict("records")]
    shown = pd.DataFrame(
        {
            "paper": table["paper"],
            "claim": table["says"],
            "where": table["where"],
            "unit": table["unit"],
            "published": table["published"].map(number_text),
            "class report": table["class_report"].map(number_text),
            "ours": [number_text(value) for value in ours],
            "95 % interval": [
                interval_text((row["interval_low"], row["interval_high"]), row["repetitions"])
                for row in table.to_dict("records")
            ],
            "runs": table["repetitions"],
            "verdict": [
                verdict_text(verdict, counts) for verdict, counts in zip(table["verdict"], table["counts"], strict=True)
            ],
            "tier": table["tier"],
            "date": table["date"],
            "commit": table["commit"],
        }
    )
    return dress(shown, wide=["claim"])


def claims_browser() -> Any:
    """claims_table behind menus for paper, verdict and tier."""
    import ipywidgets as widgets
    from IPython.display import display

    papers = sorted(set(scorecard()["paper"]))
    menus = {
        "paper": widgets.Dropdown(options=[ALL, *papers], description="paper"),
        "verdict": widgets.Dropdown(options=[ALL, *VERDICTS], description="verdict"),
        "tier": widgets.Dropdown(options=[ALL, *TIERS], description="tier"),
    }
    shown = widgets.interactive_output(lambda **chosen: display(claims_table(**chosen)), menus)
    return widgets.VBox([widgets.HBox(list(menus.values())), shown])
