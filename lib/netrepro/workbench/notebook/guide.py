"""Tables and figures of the guide notebooks (start_here, scorecard): papers with badges, parameters, verdicts.

They show the user's own results, where there are any, beside the published ones.
"""

from __future__ import annotations

import warnings

import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler

from netrepro.claims import TIERS, load_claims
from netrepro.claims.reproduction import reproduction
from netrepro.claims.scorecard import look_of, paper_summary, problems_of, scorecard
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError, nearest
from netrepro.paths import data_dir
from netrepro.style import use_style
from netrepro.workbench.catalogue.notebooks import catalogue, find
from netrepro.workbench.classroom.exercises import check_answer as check_answer  # for notebooks
from netrepro.workbench.classroom.exercises import solution as solution
from netrepro.workbench.cli.console import judged_cells
from netrepro.workbench.code import code_of
from netrepro.workbench.notebook.looks import BADGES, SIGNS, VERDICT_LOOKS
from netrepro.workbench.notebook.tables import dress, number_text, verdict_text
from netrepro.workbench.publishing.scorecard import claims_table as sortable_claims
from netrepro.workbench.publishing.scorecard import draw_scorecard, sorting_script
from netrepro.workbench.running.run_folder import own_results

ALL = "all"
LEFT = "<style>#claims th, #claims td { text-align: left }</style>"  # JupyterLab aligns cells to the right


def _both() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the user's scorecard, the published one, and what the user's runs say of the published claims."""
    mine, published = scorecard(results=own_results, code=code_of), scorecard(code=code_of)
    for slug, problem in problems_of(mine, published).items():
        warnings.warn(f"{slug} is left out: {problem}", stacklevel=3)
    return mine, published, reproduction(published, own_results)


def draw_papers() -> Figure:
    """Draw the published scorecard in one picture: a row for each paper, a coloured cell for each claim. A dot in it
    has the colour of what the user's own run says."""
    use_style()
    _, published, own = _both()
    return draw_scorecard(published, own)


def map_of_papers() -> Styler:
    """List every notebook with its question, badge, tiers and cost; names are links."""
    _, published, own = _both()
    summary = paper_summary(published)
    levels = dict(zip(summary["paper"], summary["level"], strict=True))
    judged = _judged_words(own)
    rows = []
    for notebook in catalogue():
        declared = notebook.declaration
        level = levels.get(notebook.slug, "guide" if declared.kind == "guide" else "not measured")
        rows.append(
            {
                "notebook": f'<a href="{notebook.path.name}">{notebook.name}</a>',
                "question": notebook.title,
                "published": f"{BADGES.get(level, '')} {level}".strip(),
                "your runs": judged.get(notebook.slug, ""),
                "tiers": ", ".join(declared.tiers),
                "quick": f"{declared.budget_s['quick']:.0f} s",
                "paper": f"{declared.budget_s['paper']:.0f} s",
            }
        )
    return dress(pd.DataFrame(rows))


def _judged_words(own: pd.DataFrame) -> dict[str, str]:
    """Say for each paper how many of its claims the user's runs judge, and how many as published."""
    words = {}
    for slug, claims in own.groupby("paper"):
        judged, same, *_ = judged_cells(claims)
        words[str(slug)] = judged if not same else f"{judged} judged, {same} as published"
    return words


def parameters_of(slug: str) -> Styler:
    """List the parameters of a notebook: name, type, default, help."""
    items = find(slug).parameters.values()
    rows = [{"parameter": p.name, "type": p.type, "default": repr(p.default), "help": p.help} for p in items]
    return dress(pd.DataFrame(rows))


def claims_of(slug: str) -> Styler:
    """List a paper's claims: where each stands, what counts as agreement, and the negative control."""
    table = load_claims(slug).table()
    columns = ["role", "says", "where", "source", "unit", "published", "class_report", "accepted"]
    shown = table[[*columns, "decided_by", "fixed", "control"]]
    shown = shown.assign(
        published=table["published"].map(number_text), class_report=table["class_report"].map(number_text)
    )
    # A column that says the same in every row is left out, as where claims do not declare it yet.
    shown = shown.drop(columns=[name for name in ("role", "source", "decided_by") if shown[name].nunique() == 1])
    names = {"says": "claim", "class_report": "class report", "control": "negative control", "decided_by": "decided by"}
    names |= {"source": "number from"}
    return dress(shown.rename(columns=names), wide=["claim", "negative control"])


def tiers() -> Styler:
    """List the tiers, whether this machine has them, and why."""
    return dress(probe_tiers().table(), wide=["why"])


def verdicts() -> Styler:
    """List the verdicts and their meanings."""
    meaning = {
        "agrees": "the whole interval lies in the accepted band",
        "agrees in direction": "not in the band; all of it on the published side, the mean within a factor of 3",
        "disagrees": "all of it lies outside, and not in direction",
        "settled": "it disagrees, and the experiment that tells why has run",
        "undecided": "the interval straddles an edge; the reason says how many repetitions would decide",
        "untrusted": "the run's own fidelity check failed, so its numbers decide nothing",
        "not judged": "hardware, or data that we lack, decides the number, which is only shown",
        "not measured": "the evidence that decides was not run; the reason stands beside it",
    }
    rows = [{"sign": sign, "verdict": name, "means": meaning[name]} for name, (_, sign) in VERDICT_LOOKS.items()]
    return dress(pd.DataFrame(rows))


def papers_table() -> Styler:
    """Return a row for each paper: its published level, what the user's runs say, and the number of claims with each
    published verdict, in columns named by the verdicts' signs."""
    _, published, own = _both()
    summary = paper_summary(published)
    judged = _judged_words(own)
    summary.insert(0, "published", [f"{BADGES[level]} {level}" for level in summary["level"]])
    summary.insert(1, "your runs", [judged[slug] for slug in summary["paper"]])
    counts = summary.drop(columns=["level", "title"])
    return dress(counts.rename(columns=SIGNS | {"coverage": "rests on"}))


def class_projects() -> Styler:
    """List the 18 class projects of Table 2 in the Mininet-HiFi paper (CoNEXT 2012): what each tried to replicate and
    its outcome, beside our published level of the paper and our verdicts on that result."""
    _, published, _ = _both()
    levels = paper_summary(published).set_index("paper")["level"]
    looks = {
        (row["paper"], row["claim"]): verdict_text(look_of(row), row["counts"]) for row in published.to_dict("records")
    }
    projects = pd.read_csv(data_dir("emulator_fidelity") / "class_projects.csv", comment="#", keep_default_na=False)
    notebooks = {slug: find(slug) for slug in projects["notebook"]}
    rows = [
        {
            "project": each.project,
            "result to replicate": each.result,
            "class of 2012": each.outcome,
            "here, this result": "; ".join(f"{name}: {looks[each.notebook, name]}" for name in each.claims.split())
            or "no claim of ours",
            "here, the paper": f"{BADGES[levels[each.notebook]]} {levels[each.notebook]}",
            "notebook": f'<a href="{notebooks[each.notebook].path.name}">{notebooks[each.notebook].name}</a>',
        }
        for each in projects.itertuples()
    ]
    return dress(pd.DataFrame(rows), wide=["result to replicate", "here, this result"])


def claims_table(*, paper: str = ALL, verdict: str = ALL, tier: str = ALL) -> HTML:
    """List every claim in a sortable table: the paper's number, the user's own result and the published one.

    paper, verdict, tier : show only claims with these, by the published results. A disagreement that is settled has
    the verdict "settled".

    Raises NetreproError for an unknown paper, verdict or tier.
    """
    mine, published, _ = _both()
    shown = published.assign(verdict=[look_of(row) for row in published.to_dict("records")])
    for column, chosen, valid in (
        ("paper", paper, sorted(set(published["paper"]))),
        ("verdict", verdict, VERDICT_LOOKS),
        ("tier", tier, TIERS),
    ):
        if chosen != ALL and chosen not in valid:
            raise NetreproError(f"unknown {column} {chosen!r}", nearest(chosen, [ALL, *valid]))
    fits = pd.Series(True, index=shown.index)
    for column, chosen in (("paper", paper), ("verdict", verdict), ("tier", tier)):
        fits &= (shown[column] == chosen) | (chosen == ALL)
    own = mine[fits] if mine["ran"].any() else None
    return HTML(LEFT + sorting_script() + sortable_claims(published[fits], own))
