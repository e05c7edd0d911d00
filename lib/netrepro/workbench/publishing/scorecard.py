"""The scorecard as a person sees it: a picture, a README's counts, pages, a table of claims to sort and filter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

import itables
import pandas as pd
from itables.javascript import generate_init_offline_itables_html
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon, Rectangle

from netrepro.claims import DECIDED, coverage_text, paper_level
from netrepro.claims.scorecard import COUNTS, beside, counts_of, look_of, paper_summary, release_text
from netrepro.style import new_figure
from netrepro.workbench.cli.console import blame_words, run_words, said_words, verdict_words, waiting_words
from netrepro.workbench.notebook.looks import BADGES, BADGING, VERDICT_LOOKS
from netrepro.workbench.publishing.templating import Markup, macros, render


def draw_scorecard(table: pd.DataFrame, mine: pd.DataFrame | None = None) -> Figure:
    """Draw a scorecard: a row for each paper, and a cell for each claim with the colour and sign of its verdict.

    Main claims come first and are framed. A cell is hollow where the claim does not count. A corner has the colour of
    other evidence's verdict where that differs, and a star means that other code measured.

    mine : what `reproduction` says of the user's runs; a dot then has the colour of their verdict.
    """
    judged = {} if mine is None else {(row.paper, row.claim): row.mine for row in mine.itertuples() if row.judged_by}
    papers = list(table.groupby("paper", sort=False))
    columns = max([14, *(len(claims) for _, claims in papers)])
    figure, axis = new_figure("", "", "")
    figure.set_size_inches(2.6 + 0.32 * columns, 1.1 + 0.3 * max(len(papers), 1))
    for row, (_, claims) in enumerate(papers):
        for column, claim in enumerate(claims.to_dict("records")):
            colour, sign = VERDICT_LOOKS[look_of(claim)]
            inside, ink = (colour, "white") if claim["counts"] else ("white", colour)
            place = (column, row + 0.08)
            edge, width = ("black", 1.5) if claim["role"] == "main" else (colour, 1.0)
            cell = Rectangle(place, 0.86, 0.84, facecolor=inside, edgecolor=edge, linewidth=width)
            axis.add_patch(cell)
            sign += "*" if claim["stale"] else ""
            middle = {"ha": "center", "va": "center", "color": ink, "weight": "bold"}
            axis.text(column + 0.43, row + 0.5, sign, **middle)
            if claim["elsewhere"]:
                other = next(name for name in DECIDED[::-1] if claim["elsewhere"].endswith(name))
                corner = [(column + 0.86, row + 0.92), (column + 0.86, row + 0.5), (column + 0.44, row + 0.92)]
                axis.add_patch(Polygon(corner, color=VERDICT_LOOKS[other][0], linewidth=0))
            if look := judged.get((claim["paper"], claim["claim"])):
                dot = {"color": VERDICT_LOOKS[look][0], "markeredgecolor": "white", "markersize": 5}
                axis.plot(column + 0.16, row + 0.24, "o", **dot)
        level = f"{paper_level(claims.itertuples())}, {coverage_text(claims.itertuples())}"
        axis.text(len(claims) + 0.25, row + 0.5, level, va="center", color="#555555", size=8)
    axis.set(xlim=(-0.05, columns), ylim=(max(len(papers), 1), 0), xticks=[])
    axis.set_yticks([row + 0.5 for row in range(len(papers))], [str(slug) for slug, _ in papers])
    axis.tick_params(length=0)
    axis.grid(False)
    axis.spines[:].set_visible(False)
    looks = VERDICT_LOOKS.items()
    legend = [Patch(facecolor=colour, label=f"{verdict} {sign}") for verdict, (colour, sign) in looks]
    legend.append(Patch(facecolor="white", edgecolor="#555555", label="hollow: does not count"))
    legend.append(Patch(facecolor="white", edgecolor="black", linewidth=1.5, label="framed: a main claim"))
    legend.append(Patch(facecolor="none", label="corner: other evidence differs; *: of older code"))
    legend += [Patch(facecolor="none", label="dot: your run, in its verdict's colour")] if judged else []
    figure.legend(handles=legend, loc="outside lower left", ncols=3, fontsize=8, frameon=False)
    return figure


def scorecard_text(table: pd.DataFrame) -> str:
    """Return a page in Markdown: the meaning of its words, whose release it is, and the table of `to_markdown`."""
    release = release_text()
    return _HEAD + (f"{release}\n\n" if release else "") + to_markdown(table)


_HEAD = """\
# The scorecard

A row is a paper, and a paper has claims: numbers and statements of its own. Its main claims are those that its abstract
or key result says in words; the others are details. *2 + 5* counts two main claims and five details. The
[picture](scorecard.png) has a cell for each claim; a corner in another colour is what other runs say.
`netrepro scorecard SLUG` says what each claim is, our number, the reason of the verdict, and for a disagreement whose
fault it is, or that this is not known.

| verdict of a claim | meaning |
| --- | --- |
| agrees | our 95 % interval lies inside what is accepted |
| in direction | the effect has the published sign, and another size |
| disagrees | our interval lies outside of what is accepted |
| settled | it disagrees, and a further experiment shows why |
| undecided | our interval contains an edge of what is accepted: more repetitions would decide |
| untrusted | the run failed its own checks |
| not judged | the number is one of hardware, or of runs larger than ours |
| not measured | the run that decides is not published, or its data is not public |
| not counted | it has no negative control, or breaking the mechanism changed nothing; what disagrees always counts |

| level of a paper | meaning |
| --- | --- |
| replicated | all main claims agree |
| replicated with differences | all main claims agree, some only in direction |
| partly | some main claims hold, and some disagree |
| not reproduced | all main claims disagree |
| undecided | it is not *partly*, and a main claim is undecided, not counted or not measured |
| not comparable | hardware, or data that we lack, decides every main claim; details do not stand in for them |
| not measured | no main claim is measured |

In ACM's words these are replications, by another team and with artifacts of its own: *replicated* is *Results
Replicated*, never *Results Reproduced*.

"""


def counts_by_level(table: pd.DataFrame) -> str:
    """Return a sentence with the number of papers of each level; `table` is a scorecard.

    Levels that no paper has are left out.
    """
    levels = [paper_level(claims.itertuples()) for _, claims in table.groupby("paper", sort=False)]
    counts = [f"{BADGES[level]} {levels.count(level)} {level}" for level in BADGES if level in levels]
    return f"{len(levels)} paper{'' if len(levels) == 1 else 's'}: {', '.join(counts)}."


def to_markdown(table: pd.DataFrame) -> str:
    """Return a Markdown table with a line for each paper: its level, and for each verdict the counts of main claims
    and, after a +, of details."""
    names = {name: name.replace("agrees in direction", "in direction").replace("_", " ") for name in COUNTS[1:]}
    lines = [
        f"| paper | level | rests on | {' | '.join(names.values())} |",
        "| --- | --- | --- |" + " ---: |" * len(names),
    ]
    for slug, claims in table.groupby("paper", sort=False):
        level, title = paper_level(claims.itertuples()), str(claims["title"].iloc[0]).replace("|", "\\|")
        title = f"`{slug}`: {title}"
        main, details = (counts_of(claims[claims["role"] == role]) for role in ("main", "detail"))
        shown = [f"{main[name]} + {details[name]}" if main["claims"] else f"{details[name]}" for name in names]
        covered = coverage_text(claims.itertuples()).removesuffix(" claims")
        lines.append(f"| {title} | {BADGES[level]} {level} | {covered} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def scorecard_page(table: pd.DataFrame, mine: pd.DataFrame | None = None) -> str:
    """Return an HTML page that loads nothing else: the papers, then every claim.

    table : the published scorecard. mine : the user's scorecard; with it, each claim shows both results.
    """
    summary = paper_summary(table)
    summary.insert(0, "level_", [f"{BADGES[level]} {level}" for level in summary["level"]])
    summary["paper"] += ": " + summary["title"]
    papers = summary.drop(columns=["title", "level"]).rename(columns=lambda name: name.strip("_").replace("_", " "))
    return render(
        "scorecard",
        whose="What is published" if mine is None else "Mine beside what is published",
        release=release_text(),
        papers=sortable(papers.astype(object), "papers", paging=False),
        claims=claims_table(table, mine),
        script=sorting_script(),
        badging=BADGING,
    )


def claims_table(
    table: pd.DataFrame, mine: pd.DataFrame | None = None, links: Mapping[str, str] | None = None
) -> Markup:
    """Return the claims as HTML of a table to sort and filter, 25 at a time. The page needs `sorting_script`.

    links : slug -> the paper's page; a claim's name links to the anchor `claim-<id>` there.
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


_CHOICE = {"columnControl": [["searchList"]]}  # a menu of values in the column's head


def claim_cells(
    table: pd.DataFrame,
    mine: pd.DataFrame | None = None,
    names: tuple[str, str] = ("mine", "published here"),
    links: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return a row for each claim, with HTML cells: verdict (the user's if there is one), paper, value and run of each
    side, the paper's number, and the claim with reasons that unfold.

    names : column names of the two sides. links : as for `claims_table`.
    """
    sides = {"published": names[1]} if mine is None else dict(zip(("mine", "published"), names, strict=True))
    cells, html = [], macros("claim")
    for row in beside(table if mine is None else mine, table).to_dict("records"):
        decides = "mine" if mine is not None and row["mine_date"] else "published"
        reasons = [(words, row[f"{side}_reason"]) for side, words in sides.items() if row[f"{side}_date"]]
        cells.append(
            {
                "verdict": look_of(row, f"{decides}_"),
                "paper": row["paper"],
                **{words: _side_cell(row, side) for side, words in sides.items()},
                "it says": html.number(row, said_words(row)),
                "claim": html.claim(row, (links or {}).get(row["paper"]), reasons, blame_words(row)),
            }
        )
    return pd.DataFrame(cells, columns=["verdict", "paper", *sides.values(), "it says", "claim"], dtype=object)


def _side_cell(row: Mapping[str, Any], side: str) -> str:
    if not row[f"{side}_ran"]:
        return "published only" if side == "mine" else "not published"
    if not row[f"{side}_date"]:
        return escape(waiting_words(row, side))
    value, low, high = (row[f"{side}_{name}"] for name in ("value", "interval_low", "interval_high"))
    spread = "" if math.isnan(low) or low == high else f" ({low:.4g} to {high:.4g})"
    return macros("claim").side(
        row,
        side,
        verdict=verdict_words(row, side),
        look=VERDICT_LOOKS[look_of(row, f"{side}_")],
        value="" if math.isnan(value) else f"{value:.4g}{spread}",
        run=", ".join(run_words(row, side)),
    )


def sortable(table: pd.DataFrame, name: str, **options: Any) -> Markup:
    """Return HTML of a table with HTML cells. A click on a column's head sorts it, and typed words filter it.

    name : the table's id. options : further options of itables.
    """
    how: dict[str, Any] = {
        "table_id": name,
        "classes": "compact stripe",
        "style": "width: 100%",
        "layout": _LAYOUT,
        "order": [],  # the order of the rows
        "maxBytes": 0,  # no limit: all rows
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
    """Return the script that lets readers sort the `sortable` tables of a page or output; it loads nothing else."""
    return Markup(generate_init_offline_itables_html(itables.options.dt_bundle))
