"""What the command line prints: plain lines of at most 80 columns, the same on a terminal, in a pipe and in a log.

Nothing is cut off. Modules that need pandas are imported where they are used, so that `netrepro list` is quick.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from netrepro.workbench.notebook.looks import BADGES, SIGNS

if TYPE_CHECKING:
    from pandas import DataFrame

    from netrepro.claims import Run
    from netrepro.workbench.running.events import RunEvent, RunReport

console = Console()
COLUMNS = 80
REPLICATED = "replicated: as ACM's badges have it, without the authors' artifacts"
WIDEST_SIDE = 34  # columns of the left side, where two sides share a line


def folded(text: str, first: str = "", later: str | None = None) -> list[str]:
    """Fold a text into lines of at most 80 columns, with their prefixes; a word that is longer is broken.

    first, later : the prefixes of the first line and of the other lines (default: the same).
    """
    later = first if later is None else later
    lines = textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=later)
    return [line.rstrip() for line in lines] or [first.rstrip()]


def columns_of(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Put rows in columns as wide as their widest cell, two blanks apart; text in the last column is folded."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines: list[str] = []
    for row in rows:
        before = indent + "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines += folded(row[-1], before, " " * len(before))
    return lines


def side_by_side(items: Sequence[str]) -> list[str]:
    """Fill lines with as many items as fit, two blanks apart."""
    lines = [""]
    for item in items:
        longer = f"{lines[-1]}  {item}" if lines[-1] else item
        lines = [*lines, item] if len(longer) > COLUMNS else [*lines[:-1], longer]
    return lines


# Scorecards ---------------------------------------------------------------------------------------


def run_words(row: Mapping[str, Any], side: str) -> list[str]:
    """Return profile, tier, date and commit of the run on one side ("mine" or "published") of a row of `beside`; an
    empty list without a run."""
    words = [str(row[f"{side}_{name}"]) for name in ("profile", "tier", "date", "commit")]
    return words if row[f"{side}_date"] else []


def summary_lines(mine: DataFrame, published: DataFrame) -> list[str]:
    """Write a line for each paper, with two sides: the user's own results and the published ones. A side has the level,
    how many claims it rests on, and counts of verdicts."""
    if published.empty:
        return []
    own = dict(list(mine.groupby("paper")))
    rows = [["paper", "mine", "published"]]
    for slug, theirs in published.groupby("paper", sort=False):
        sides = ((own[slug], "not run"), (theirs, "not published"))
        rows.append([str(slug), *(_counts(side) if side["ran"].any() else none for side, none in sides)])
    if max(len(said) for _, said, _ in rows) > WIDEST_SIDE:
        rows = [line for row in rows[1:] for line in _under_each_other(*row)]
    levels = [f"{badge} {level}" for level, badge in BADGES.items()]
    signs = [f"{sign} {name.replace('_', ' ')}" for name, sign in SIGNS.items()]
    return [*columns_of(rows), "", *side_by_side(levels), *side_by_side(signs), REPLICATED]


def reproduction_lines(table: DataFrame, published: DataFrame) -> list[str]:
    """Write a line for each paper: its published level, and what the user's runs say of its claims. Below stand the
    claims of which they say something that no published run says, and why that may be.

    table : what `reproduction` returns. published : the published scorecard.
    """
    from netrepro.claims import paper_level
    from netrepro.claims.reproduction import UNPUBLISHED

    own = dict(list(table.groupby("paper")))
    rows = [["paper", "published", "judged", "same", "its run", "other"]]
    for slug, claims in published.groupby("paper", sort=False):
        level = paper_level(claims.itertuples())
        rows.append([str(slug), f"{BADGES[level]} {level}", *judged_cells(own[slug])])
    differs = (table["judged_by"] != "") & ~table["as_published"] & ~table["as_its_run"]
    others = table[differs & (table["why"] != UNPUBLISHED)]
    lines = [*columns_of(rows), "", *folded(_COUNTED, "", "")]
    for slug, claims in others.groupby("paper", sort=False):
        lines += ["", f"{slug}: otherwise than published"]
        for row in claims.to_dict("records"):
            mine, theirs = (_value_words(row[side], row[f"{side}_value"]) for side in ("mine", "published"))
            lines += folded(f"{row['claim']}: {mine}, published {theirs}: {row['why']}", "  ", "    ")
    return lines


def judged_cells(claims: DataFrame) -> list[str]:
    """Count a paper's claims of `reproduction` that are judged, of all, and those with the published verdict, with that
    of their own run, and with another one."""
    from netrepro.claims.reproduction import UNPUBLISHED

    judged = claims[claims["judged_by"] != ""]
    if judged.empty:
        return ["not run", "", "", ""]
    same, its_run = judged["as_published"], judged["as_its_run"]
    other = ~same & ~its_run & (judged["why"] != UNPUBLISHED)
    counts = (int(same.sum()), int((~same & its_run).sum()), int(other.sum()))
    return [f"{len(judged)}/{len(claims)}", *(str(count or "") for count in counts)]


def _value_words(look: str, value: float) -> str:
    return f"{SIGNS[look]} {look}" + ("" if math.isnan(value) else f" {value:.4g}")


_COUNTED = (
    "judged: claims that your runs judge, of all. same: with the published verdict. its run: with another one, which "
    "the published run of that profile and tier has, too. other: with a verdict that neither has."
)
SPENT = (
    "42 s of 60 s: time that a notebook used, of its budget; time in which other programs had the processors is left "
    "out (0 s: it did not start). in 145 s: by the clock, where that is much longer. CPU: processor time of all its "
    "programs together. MB: the most memory that they held."
)
NEXT = (
    ("netrepro scorecard SLUG", "each claim of a paper, with its number, verdict and reason"),
    ("make lab", "the notebooks and their figures in JupyterLab"),
    ("make paper", "runs at the published scale, which decide most claims (hours)"),
)


def _under_each_other(slug: str, own: str, theirs: str) -> list[list[str]]:
    """Put the user's own results, where there are any, above the published ones."""
    sides = [["mine", own], ["published", theirs]] if own != "not run" else [["published", theirs]]
    return [[name, *side] for name, side in zip((slug, ""), sides, strict=False)]


def untrusted_lines(mine: DataFrame, published: DataFrame) -> list[str]:
    """Write a line for each paper and tier whose run fails its own checks. The counts do not show this where another
    tier decides."""
    from netrepro.claims import TIERS

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
    """Say how many measured claims of a run are untrusted, and which checks failed; "" where all are trusted."""
    whys = [each.why for each in run.measured if not each.trusted]
    if not whys:
        return ""
    return f"{len(whys)} of {len(run.measured)} measured claims untrusted: {'; '.join(dict.fromkeys(whys))}"


def _counts(claims: DataFrame) -> str:
    """Return a paper's level, the claims that it rests on, and the number of claims with each verdict: first main
    claims, then details."""
    from netrepro.claims import coverage_text, paper_level
    from netrepro.claims.scorecard import counts_of

    main, details = (counts_of(claims[claims["role"] == role]) for role in ("main", "detail"))
    said = [" ".join(f"{each[name]}{SIGNS[name]}" for name in SIGNS if each[name]) for each in (main, details)]
    words = said[1] if not main["claims"] else f"{said[0]}; details {said[1]}" if details["claims"] else said[0]
    covered = coverage_text(claims.itertuples()).removesuffix(" claims")
    return f"{BADGES[paper_level(claims.itertuples())]} {covered}: {words}{_other_evidence(claims)}"


def _other_evidence(claims: DataFrame) -> str:
    """Count, by sign, other runs' verdicts on the claims whose deciding run is missing; one for each claim, of the best
    tier."""
    from netrepro.claims import TIERS

    waiting = claims.loc[claims["verdict"] == "not measured", [f"verdict_{tier}" for tier in TIERS]]
    said = [next((verdict for verdict in row if verdict != "not measured"), "") for row in waiting.to_numpy()]
    counts = " ".join(f"{said.count(name)}{SIGNS[name]}" for name in SIGNS if name in said)
    return f"; other runs say {counts}" if counts else ""


def waiting_words(row: Mapping[str, Any], side: str) -> str:
    """Name the missing run that decides a claim, and what other runs say."""
    elsewhere = f"; beside it: {row[f'{side}_elsewhere']}" if row[f"{side}_elsewhere"] else ""
    return f"not measured by {row['decided_by']}, which decides{elsewhere}"


def claim_lines(table: DataFrame, names: tuple[str, str] = ("mine", "published")) -> list[str]:
    """Write a few lines for each claim of a table from `beside`: the paper's number, then the results of both sides and
    the reason of each verdict, then for a disagreement whose fault it is.

    names : what the two sides are called.
    """
    lines: list[str] = []
    for row in table.to_dict("records"):
        main = " (main)" if row["role"] == "main" else ""
        lines += folded(f"{row['paper']}: {row['claim']}{main}. {row['says']}", "", "  ")
        lines += folded(f"{said_words(row)} {row['unit']} ({row['where']})", "  paper      ", " " * 13)
        for side, name in zip(("mine", "published"), names, strict=True):
            lines += folded(side_words(row, side), f"  {name:<9}  ", " " * 13)
        reasons = dict.fromkeys(row[f"{side}_reason"] for side in ("mine", "published") if row[f"{side}_ran"])
        for reason in filter(None, reasons):
            lines += folded(reason, "  why        ", " " * 13)
        if blame := blame_words(row):
            lines += folded(blame, "  fault      ", " " * 13)
    return lines


def blame_words(row: Mapping[str, Any]) -> str:
    """Say whose fault a disagreement is and, until it is settled, what would settle it; "" for a row of `beside` where
    neither side disagrees."""
    if not row["blame"] or "disagrees" not in (row["mine_verdict"], row["published_verdict"]):
        return ""
    whose = {"paper": "the paper's"}.get(row["blame"], row["blame"])
    return whose if row["settled"] else f"{whose}; what would settle it: {row['settles']}"


def side_words(row: dict, side: str) -> str:
    """Return the verdict, value with interval, and run of one side of a row of `beside`."""
    if not row[f"{side}_ran"]:
        return "not run: published only" if side == "mine" else "nothing published"
    if not row[f"{side}_date"]:
        return waiting_words(row, side)
    words, value = f"{_sign(row, side)} {verdict_words(row, side)}", row[f"{side}_value"]
    if not math.isnan(value):
        low, high = row[f"{side}_interval_low"], row[f"{side}_interval_high"]
        spread = "" if math.isnan(low) or low == high else f" ({low:.4g} to {high:.4g})"
        words += f", {value:.4g}{spread}"
    other = f"; elsewhere {row[f'{side}_elsewhere']}" if row[f"{side}_elsewhere"] else ""
    return f"{words}; {', '.join(run_words(row, side))}{other}"


def said_words(row: Mapping[str, Any]) -> str:
    """Return the number that a claim is judged against: the paper's or, marked as such, the class report's. A number
    that is not from the paper itself says so."""
    from netrepro.claims.scorecard import expected_of

    value = expected_of(row)
    said = value if isinstance(value, str) else f"{value:.4g}"
    marks = {
        "class": " in the class report",
        "artefact": ", from the authors' programs or data",
        "second_hand": ", at second hand",
        "recalled": ", recalled: it never counts",
    }
    return said + marks.get(row["source"], "")


def verdict_words(row: Mapping[str, Any], side: str) -> str:
    """Return the verdict of one side of a row of `beside`, with its marks: settled, not counted, stale, not of the
    release."""
    verdict = row[f"{side}_verdict"]
    marks = [f", settled: {row['settled']}"] if verdict == "disagrees" and row["settled"] else []
    marks += [", not counted"] if not row[f"{side}_counts"] and verdict not in ("not measured", "not judged") else []
    marks += [", stale: measured by older code"] if row[f"{side}_stale"] else []
    marks += [", not of the release"] if not row[f"{side}_of_release"] else []
    return verdict + "".join(marks)


def _sign(row: Mapping[str, Any], side: str) -> str:
    from netrepro.claims.scorecard import look_of

    return SIGNS[look_of(row, f"{side}_")]


def sweep_lines(table: DataFrame, names: Sequence[str]) -> list[str]:
    """Write each measured claim of a sweep's table and, below it, a line for each combination of the parameters
    `names`: the value and the sign of the verdict."""
    lines: list[str] = []
    measured = table.dropna(subset=["value"])
    for (claim, unit), rows in measured.groupby(["claim", "unit"], sort=False):
        lines += folded(f"{claim} ({unit})" if unit else claim, "", "  ")
        for row in rows.to_dict("records"):
            given = ", ".join(f"{name} = {row[name]}" for name in names)
            lines += folded(f"{given}: {row['value']:.4g} {SIGNS[row['verdict']]}", "  ", "    ")
    used = [name for name in SIGNS if name in set(measured["verdict"])]
    return [*lines, *side_by_side([f"{SIGNS[name]} {name}" for name in used])]


def verdict_lines(table: DataFrame) -> list[str]:
    """Write each claim with the sign of its verdict, the verdict, value and reason."""
    lines: list[str] = []
    for row in table.to_dict("records"):
        value = "" if row["value"] is None or math.isnan(row["value"]) else f", {row['value']:.4g}"
        lines += folded(f"{SIGNS[row['verdict']]} {row['claim']}: {row['verdict']}{value}. {row['reason']}", "", "  ")
    return lines


def history_lines(table: DataFrame) -> list[str]:
    """Write each claim of a table from `history`, below its paper: what it says of its acceptance, what git says, and
    a line for each commit that fixed, ran or first measured it, oldest first; last what the words mean."""
    lines: list[str] = []
    for paper, rows in table.fillna("").groupby("paper", sort=False):
        lines += ["", str(paper)]
        for row in rows.to_dict("records"):
            shown = GIT_SHOWS[row["git"]]
            if row["git_evidence"] != row["git"]:
                shown += f"; control and deciding run {GIT_SHOWS[row['git_evidence']]}"
            lines += folded(f"{row['claim']}: acceptance written {row['fixed']}, as the claim says", "  ", "    ")
            lines += folded(f"git: acceptance {shown}", "    ", "      ")
            commits: dict[tuple[str, str], list[str]] = {}
            for name, what in CAME.items():
                if row[name]:
                    commits.setdefault((row[name], row[f"{name}_commit"]), []).append(what)
            for (date, commit), came in sorted(commits.items()):
                lines += folded(f"{date}  {commit}  {', '.join(came)}", "    ", " " * 31)
    return [*lines[1:], "", *folded(HISTORY_WORDS)] if lines else []


CAME = {
    "accepted": "acceptance",
    "code": "the paper's first code",
    "evidence": "control and deciding run",
    "measured": "first result",
}
GIT_SHOWS = {
    "before": "before any code",
    "before results": "before results",
    "with results": "with the first result",
    "after results": "after the first result",
    "not measured": "without a result yet",
    "not committed": "not committed yet",
}
HISTORY_WORDS = (
    "A date is of the commit since which a thing is as it is now. acceptance: what counts as agreement, and the number "
    "that is compared. control and deciding run: what is broken on purpose, and which tier and profile decide. Git "
    "proves only 'before any code'; else what the claim says has to be believed. What changed between releases, a "
    "line each: --since VERSION."
)


def change_lines(table: DataFrame, version: str) -> list[str]:
    """Write a sentence for each row of a table from `changes_since`, below its paper; last how many verdicts changed,
    and how. Texts that were reworded are not repeated."""
    lines: list[str] = []
    for paper, rows in table.groupby("paper", sort=False):
        lines.append(str(paper))
        for row in rows.to_dict("records"):
            told = _change_words(row["what"], row["before"], row["after"])
            lines += folded(f"{row['claim']}: {told}", "  ", "    ")
    verdicts = table[table["what"] == "verdict"]
    ways = (verdicts["before"] + ", now " + verdicts["after"]).value_counts()
    summary = "".join(f"; {count} were: {way}" for way, count in ways.items())
    lines += folded(f"since {version}: {len(verdicts)} verdicts have changed{summary}", "", "  ")
    return [*lines, "texts in full, before and after: --json"] if len(table) else lines


def _change_words(what: str, before: str, after: str) -> str:
    """Put a row of `changes_since` into words."""
    was_none, is_none = before in ("", "none"), after in ("", "none")
    if what == "claim":
        return "new" if was_none else "no claim any more" if is_none else "is worded otherwise"
    if what == "control":
        return "has a control now" if was_none else "has no control any more" if is_none else "has another control"
    names = {"published": "published number", "evidence": "deciding run", "run": "size of that run"}
    return f"{names.get(what, what)} was {before or 'none'}, is {after or 'none'}"


def difference_lines(table: DataFrame) -> list[str]:
    """Write a line for each claim of a table from `beside`, below its paper: verdict and value of both sides. Only
    claims that the user has run, with another verdict or count than the published one, have a line."""
    other = (table["mine_verdict"] != table["published_verdict"]) | (table["mine_counts"] != table["published_counts"])
    differing = table[(table["mine_date"] != "") & other]
    rows = [["mine is not what is published", "mine", "published"]]
    for slug, claims in differing.groupby("paper", sort=False):
        rows.append([str(slug), "", ""])
        for row in claims.to_dict("records"):
            rows.append([f"  {row['claim']}", _short_side(row, "mine"), _short_side(row, "published")])
    return [*columns_of(rows), "each in full, with profile and tier: netrepro scorecard SLUG"] if len(rows) > 1 else []


def _short_side(row: dict, side: str) -> str:
    """Return the sign and value of one side of a row of `beside`."""
    verdict, value = row[f"{side}_verdict"], row[f"{side}_value"]
    hollow = "" if row[f"{side}_counts"] or verdict in ("not measured", "not judged") else SIGNS["not_counted"]
    return f"{_sign(row, side)}{hollow}" + ("" if math.isnan(value) else f" {value:.4g}")


# Runs ---------------------------------------------------------------------------------------------


class _LivePerNotebook:
    """A handler of events that shows one line for each notebook: on a terminal live while it runs, in a log when it has
    ended."""

    def __init__(self, live: Live | None):
        self.live = live
        self.running: dict[str, RunEvent] = {}

    def __call__(self, event: RunEvent) -> None:
        if event.kind == "skipped":
            print_marked("skipped", f"{event.name}: {event.reason}")
        elif event.kind == "waiting":
            print_marked("waiting", event.reason)
        elif event.kind in ("kernel", "note"):
            is_warning = event.kind == "note" or event.reason.startswith("no virtual kernel")
            print_lines(folded(event.reason, "", "  "), "yellow" if is_warning else None)
        elif event.kind == "ended" and event.status is not None:
            self.running.pop(event.name, None)
            status = event.status
            colour = "green" if status.ok else "red"
            notes = [" (kept from an earlier run)"] if status.reused else []
            notes += [f", over its budget of {status.budget_s:.0f} s"] if status.over_budget else []
            used_s = status.used_s or status.seconds
            spent = f"{used_s:.0f} s of {status.budget_s:.0f} s"
            if status.seconds > 1.2 * used_s:  # other programs used the processors
                spent += f" in {status.seconds:.0f} s"
            if status.cpu_s:
                spent += f" (CPU {status.cpu_s:.0f} s, {status.peak_mb:.0f} MB)"
            line = f"{status.outcome:<12} {event.name:<26} {spent}{''.join(notes)}"
            first, *later = folded(line, "", " " * 13)
            coloured = Text(first)
            coloured.stylize(colour, 0, len(status.outcome))
            console.print(coloured, soft_wrap=True)
            print_lines(later)
        else:
            self.running[event.name] = event
        if self.live is not None:
            self.live.update(self._table())

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for _ in range(5):
            table.add_column(no_wrap=True, overflow="ellipsis")
        for event in self.running.values():
            progress = event.progress
            cells = f"{progress.cell}/{progress.cells}" if progress and progress.cells else ""
            spent = f"{event.elapsed_s:.0f} s of {event.budget_s:.0f} s"
            # As Text, since brackets in a str would be markup.
            name, heading = Text(event.name), Text(progress.heading if progress else "")
            table.add_row("[cyan]running[/cyan]", name, spent, cells, heading)
        return table


@contextmanager
def live_lines(silent: bool = False) -> Iterator[Callable[[RunEvent], None]]:
    """Show a line for each notebook while a run goes on, or nothing. Yields the `on_event` to give to the run."""
    if silent:
        yield lambda event: None
        return
    if not console.is_terminal:
        yield _LivePerNotebook(None)
        return
    with Live(console=console, refresh_per_second=5, transient=True) as live:
        yield _LivePerNotebook(live)


def outcomes_of(report: RunReport) -> list[str]:
    """List the outcomes of a run's notebooks, "ok" first, each once."""
    return sorted({status.outcome for status in report.statuses}, key=lambda outcome: (outcome != "ok", outcome))


def print_failures(report: RunReport) -> None:
    """Print where and why each failed notebook ended; of those that were stopped, how to go on."""
    stopped = [status for status in report.statuses if status.outcome == "interrupted"]
    not_begun = [status for status in stopped if status.cell is None]
    for status in report.statuses:
        if not status.ok and status not in not_begun:
            print_lines([status.explanation()], "red")
    if stopped:
        print_lines([f"{len(not_begun)} not begun; to go on: the same command with --resume"], "red")


def print_untrusted(report: RunReport) -> None:
    """Print the notebooks that ended well but failed their own checks: their numbers decide nothing."""
    from netrepro.workbench.running.run_folder import read_kept

    for status in report.statuses:
        result = read_kept(status.folder).result if status.ok and status.folder is not None else None
        if result is not None and (said := distrust(result)):
            print_lines([f"{status.name}, tier {result.tier}: {said}"], "yellow")


def print_places(report: RunReport) -> None:
    """Print where the executed notebooks are and, for a single one with changed settings, how to compare it with what
    is published."""
    from netrepro.claims import published_results

    kept = [(status, status.folder) for status in report.statuses if status.folder is not None]
    if len(kept) == 1:
        ((status, folder),) = kept
        print_lines([f"executed notebook: {short(folder)}/executed.ipynb"])
        if status.ok and "--" in status.name and published_results(status.slug) is not None:
            print_lines([f"beside what is published: netrepro compare {status.name} {status.slug}"])
    elif kept:
        print_lines([f"executed notebooks, figures and logs: {short(kept[0][1].parent)}/"])


def print_scorecard(slugs: list[str] | None = None, *, claims: bool = False, untrusted: bool = True) -> bool:
    """Print what is published and what the user's runs say of it, its summary last, where a terminal shows it. Returns
    whether papers are left out because their claims or results cannot be read.

    claims : show each claim. untrusted : also name the user's runs that fail their own checks.
    """
    from netrepro.claims.reproduction import reproduction, reproduction_text
    from netrepro.claims.scorecard import beside, problems_of, release_text, scorecard
    from netrepro.workbench.code import code_of
    from netrepro.workbench.running.run_folder import own_results

    mine, published = scorecard(slugs, results=own_results, code=code_of), scorecard(slugs, code=code_of)
    if claims:
        print_lines([*claim_lines(beside(mine, published)), ""])
    lines = untrusted_lines(mine if untrusted else mine[:0], published)
    lines += folded(text, "", "") if (text := release_text(published)) else []
    print_lines([*lines, ""] if lines else [])
    if mine["ran"].any() and not claims:
        table = reproduction(published, own_results)
        print_lines(reproduction_lines(table, published))
        print_lines(["", *folded(reproduction_text(table), "", "")])
        print_lines([f"  {line}" for line in columns_of([list(each) for each in NEXT])])
    else:
        print_lines(summary_lines(mine, published))
    problems = problems_of(mine, published)
    for slug, problem in problems.items():
        print_lines([f"{slug} is left out: {problem}"], "red")
    return bool(problems)


def records(table: DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows as values for JSON, where missing values are null."""
    return json.loads(table.to_json(orient="records"))


def print_json(content: Any) -> None:
    """Print JSON for programs."""
    print_lines(json.dumps(content, indent=1, ensure_ascii=False).splitlines())


def print_lines(lines: Iterable[str], style: str | None = None) -> None:
    """Print lines unchanged: no markup, no cutting."""
    for line in lines:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def print_marked(word: str, text: str) -> None:
    """Print a coloured word and, beside it, a text, folded and without markup."""
    first, *later = folded(f"{word}  {text}", "", " " * (len(word) + 2))
    line = Text(first)
    line.stylize("yellow", 0, len(word))
    console.print(line, soft_wrap=True)
    print_lines(later)


def short(path: Path) -> str:
    """Return a path relative to the working directory, or the whole path where it lies elsewhere."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
