"""The scorecard as a person sees it: a picture, a README's excerpt, a page, a table of claims to sort and filter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import itables
import pandas as pd
from itables.javascript import generate_init_offline_itables_html
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon, Rectangle

from netrepro.claims import TIERS, VERDICTS, coverage_text, paper_level
from netrepro.claims.scorecard import beside, combined, paper_summary
from netrepro.style import new_figure
from netrepro.workbench.console import run_words
from netrepro.workbench.looks import BADGES, VERDICT_LOOKS
from netrepro.workbench.templating import Markup, macros, render


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


def scorecard_page(table: pd.DataFrame, mine: pd.DataFrame | None = None) -> str:
    """A page of its own, which needs nothing from elsewhere: the papers, then every claim.

    table : what is published. With `mine`, a user's scorecard, each claim has both.
    """
    summary = paper_summary(table if mine is None else combined(mine, table))
    slugs = list(summary["paper"])
    summary.insert(0, "level_", [f"{BADGES[level]} {level}" for level in summary["level"]])
    summary["paper"] += ": " + summary["title"]
    if mine is not None:
        run = set(mine.loc[mine["date"] != "", "paper"])
        summary.insert(1, "whose", ["mine" if slug in run else "published only" for slug in slugs])
    papers = summary.drop(columns=["title", "level"]).rename(columns=lambda name: name.strip("_").replace("_", " "))
    return render(
        "scorecard",
        whose="What is published" if mine is None else "Mine beside what is published",
        papers=sortable(papers.astype(object), "papers", paging=False),
        claims=claims_table(table, mine),
        script=sorting_script(),
    )


def claims_table(
    table: pd.DataFrame, mine: pd.DataFrame | None = None, links: Mapping[str, str] | None = None
) -> Markup:
    """The claims as a table to sort and filter, 25 at a time, in a page or output that has `sorting_script`.

    links : of a slug the page whose anchors `claim-<id>` a claim's name leads to.
    """
    return sortable(
        claim_cells(table, mine, links=links),
        "claims",
        pageLength=25,
        columnDefs=[
            {"targets": 0, "width": "9%", **_CHOICE},  # the verdict
            {"targets": 1, "width": "14%", **_CHOICE},  # the paper
            {"targets": -1, "width": "34%", "orderable": False},
        ],
    )


_CHOICE = {"columnControl": [["searchList"]]}  # a menu in the head


def claim_cells(
    table: pd.DataFrame,
    mine: pd.DataFrame | None = None,
    names: tuple[str, str] = ("mine", "published here"),
    links: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """A row a claim, cells as HTML: verdict (the user's if there is one), paper, each side's value and run, the number
    in the paper, and the claim, whose reasons fold out.

    names : what the two sides are called.
    """
    sides = {"published": names[1]} if mine is None else dict(zip(("mine", "published"), names, strict=True))
    cells, html = [], macros("claim")
    records = beside(table if mine is None else mine, table).to_dict("records")
    for row, record in zip(records, table.to_dict("records"), strict=True):
        decides = "mine" if mine is not None and row["mine_date"] else "published"
        reasons = [(words, row[f"{side}_reason"]) for side, words in sides.items() if row[f"{side}_date"]]
        said = row["published"] if isinstance(row["published"], str) else f"{row['published']:.4g}"
        cells.append(
            {
                "verdict": row[f"{decides}_verdict"],
                "paper": row["paper"],
                **{words: _side_cell(row, side, record) for side, words in sides.items()},
                "in the paper": html.number(row, said),
                "claim": html.claim(row, (links or {}).get(row["paper"]), reasons),
            }
        )
    return pd.DataFrame(cells, columns=["verdict", "paper", *sides.values(), "in the paper", "claim"], dtype=object)


def _side_cell(row: Mapping[str, Any], side: str, record: Mapping[str, Any]) -> str:
    if not row[f"{side}_date"]:
        return "published only" if side == "mine" else "not published"
    value, low, high = (row[f"{side}_{name}"] for name in ("value", "interval_low", "interval_high"))
    spread = "" if math.isnan(low) or low == high else f" ({low:.4g} to {high:.4g})"
    return macros("claim").side(
        row,
        side,
        look=VERDICT_LOOKS[row[f"{side}_verdict"]],
        value="" if math.isnan(value) else f"{value:.4g}{spread}",
        run=", ".join(run_words(row, side)),
        difference=_difference(record) if side == "published" else "",
    )


def _difference(row: Mapping[str, Any]) -> str:
    """The verdicts of the tiers that measured a claim, where they are not all the same."""
    verdicts = {tier: row[f"verdict_{tier}"] for tier in TIERS if row[f"verdict_{tier}"] != "not measured"}
    differ = len(set(verdicts.values())) > 1
    return ", ".join(f"{tier} {verdict}" for tier, verdict in verdicts.items()) if differ else ""


def sortable(table: pd.DataFrame, name: str, **options: Any) -> Markup:
    """A table, its cells HTML, that a click on a column's head sorts and words filter; `name` is its id."""
    how: dict[str, Any] = {
        "table_id": name,
        "classes": "compact stripe",
        "style": "width: 100%",
        "layout": _LAYOUT,
        "order": [],  # as the rows come
        "maxBytes": 0,  # all of them
        "allow_html": True,
        "showIndex": False,
        "autoWidth": False,
        "connected": False,
        "display_logo_when_loading": False,
        "text_in_header_can_be_selected": False,
    }
    return Markup(itables.to_html_datatable(table, **(how | options)))


_LAYOUT = {"topStart": "search", "topEnd": "info", "bottomStart": "pageLength", "bottomEnd": "paging"}


def sorting_script() -> Markup:
    """What makes the `sortable` tables of a page or of an output so, whole: nothing is fetched."""
    return Markup(generate_init_offline_itables_html(itables.options.dt_bundle))
