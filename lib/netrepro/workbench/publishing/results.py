"""Publish: copy results and figures of good runs from runs/ to figures/<slug>/, where the README and clones read them.

Publishing is a separate command, so that a run never changes what others read. It shows what would change, and refuses
changes that would make the published results worse by accident.

The source of figures. Every figure is published from one run: on the tier that "auto" takes, unless the notebook names
another tier in its metadata (`figures_of`: {tier: [figure, ...]}). It does so for figures that the usual tier cannot
measure, and for figures that compare tiers, which only a run on a kernel measures. An empty figure
(`netrepro.style.is_empty`) is in no run's folder, so that it is never published.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from netrepro.claims import (
    PaperClaims,
    Results,
    Run,
    all_papers,
    committed_results,
    judge,
    load_claims,
    published_results,
    write_results,
)
from netrepro.claims.reproduction import reproduction
from netrepro.claims.scorecard import beside, regressions
from netrepro.errors import NetreproError
from netrepro.files import whole_file, write_atomically
from netrepro.paths import figures_dir, runs_dir
from netrepro.study.declaration import LEAST_REPETITIONS
from netrepro.style import save_figure, use_style
from netrepro.tiers_and_profiles import check_profile, check_tier
from netrepro.workbench.catalogue.notebooks import find, select
from netrepro.workbench.cli.console import folded
from netrepro.workbench.notebook.tables import number_text
from netrepro.workbench.publishing.scorecard import counts_by_level, draw_scorecard, scorecard_page, scorecard_text
from netrepro.workbench.running.run_folder import BY_HAND, Kept, kept_runs, own_results, read_kept
from netrepro.workbench.running.standard import changed_parameters

PICTURES = (".png",)  # SVG files stay in the folder of their run
README_BEGIN, README_END = "<!-- scorecard -->", "<!-- /scorecard -->"
SCORECARD_PAGE = "figures/scorecard.md"  # of a checkout


@dataclass
class Publication:
    """The changes that publishing one run would make.

    refusals : why the run must not be published; with any reason, nothing of the run is published.
    changes : what would change, a line for each change; empty where the run repeats the published one.
    pictures : names of the files in figures/<slug>/ to replace by those of this run, or to remove where it has none.
    """

    run: Kept
    refusals: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    pictures: set[str] = field(default_factory=set)

    def text(self) -> str:
        """Return lines for a person: the run, then each refusal or change."""
        what = f"{self.run.result.key}, {self.run.result.commit}" if self.run.result else self.run.outcome
        lines = [f"{self.run.slug}: {self.run.name} ({what})"]
        said = [f"refused: {line}" for line in self.refusals] or self.changes or ["repeats what is published"]
        for line in said:
            lines += folded(line, "  ", "    ")
        return "\n".join(lines)


def publish(
    names: Sequence[str] | None = None,
    *,
    run: Path | None = None,
    profile: str | None = None,
    tier: str | None = None,
    dirty: bool = False,
    fewer: bool = False,
    pictures: bool | None = None,
    dry_run: bool = False,
    agree: Callable[[list[Publication]], bool] = lambda plan: True,
) -> list[Publication]:
    """Publish runs from runs/ in figures/, where their measurements join those of other profiles and tiers.

    Parameters
    ----------
    names : slugs; for each profile and tier, the newest run with standard settings is published. None: all papers that
        were run.
    run : the folder of one run, to publish it instead of the newest.
    profile, tier : publish only runs of this profile or tier.
    dirty : also publish runs whose library, data or notebook differed from a commit; their results say "-dirty".
    fewer : let a run replace another that measured more claims or drew more figures, and let it decide a claim by a
        control of fewer than five repetitions.
    pictures : whether to publish figures too, except those that belong to another tier's run. None: all of these where
        the run's tier is the one that "auto" takes, else only those that belong to its own tier. None also keeps the
        published figures where a run of the paper profile on that tier, which has the better ones, is published.
    dry_run : only find out what would change.
    agree : called with the whole plan before anything is changed; nothing is published where it returns False.

    Returns
    -------
    A Publication for each run, with its changes or refusals. A refused run does not keep the others from being
    published.

    Raises
    ------
    NetreproError : for an unknown slug, profile or tier, a folder that does not exist, and a name without a run.
    """
    if profile is not None:
        check_profile(profile)
    if tier is not None:
        check_tier(tier)
    plan: list[Publication] = []
    results: dict[str, Results] = {}
    for kept in _chosen(names, run, profile, tier):
        before = results.get(kept.slug) or published_results(kept.slug) or Results(paper=kept.slug, runs={})
        item = _plan(kept, before, dirty=dirty, fewer=fewer, pictures=pictures)
        plan.append(item)
        if kept.result and not item.refusals:
            results[kept.slug] = before.with_run(kept.result)
    to_do = [item for item in plan if item.changes and not item.refusals]
    if dry_run or not to_do or not agree(plan):
        return plan
    for item in to_do:
        if item.pictures:
            _publish_pictures(item.run.folder, figures_dir(item.run.slug), item.pictures)
    for slug, result in results.items():
        write_results(result, figures_dir(slug) / "results.json")
    return plan


def _chosen(names: Sequence[str] | None, folder: Path | None, profile: str | None, tier: str | None) -> list[Kept]:
    """Choose the runs to publish, also failed ones. Runs of the paper profile come first, since their figures are
    preferred."""
    if folder is not None:
        if not folder.is_dir():
            raise NetreproError(f"there is no run in {folder}", f"runs lie in {runs_dir()}")
        return [read_kept(folder)]
    chosen: list[Kept] = []
    for notebook in select(names):
        if notebook.problem or notebook.declaration.kind != "paper":
            continue
        kept = [each for each in kept_runs(notebook.slug) if each.outcome != BY_HAND]
        fitting = [
            each
            for each in kept
            if each.result is None
            or (not each.result.changed and profile in (None, each.result.profile) and tier in (None, each.result.tier))
        ]
        newest = {each.result.key: each for each in reversed(fitting) if each.result}
        failed = [each for each in fitting if each.result is None and not each.manifest.get("changed")]
        if names and not newest and not failed:
            raise NetreproError(
                f"no run of {notebook.slug} with its standard settings lies in runs/", _advice(notebook.slug, kept)
            )
        chosen += sorted(newest.values(), key=lambda each: each.result.key if each.result else "")
        chosen += failed
    return chosen


def _advice(slug: str, kept: list[Kept]) -> str:
    others = [each for each in kept if each.result and each.result.changed]
    if not others:
        return f"run it first: netrepro run {slug}"
    return f"{others[0].name} has {_settings(others[0])}, which never stands for the standard one"


def _settings(kept: Kept) -> str:
    changed = kept.result.changed if kept.result else {}
    return ", ".join(f"{name} = {value!r}" for name, value in changed.items())


def _plan(kept: Kept, before: Results, *, dirty: bool, fewer: bool, pictures: bool | None) -> Publication:
    item = Publication(kept)
    if kept.result is None or not kept.good:
        item.refusals.append(kept.problem or "it was run by hand, cell by cell: nobody saw that all of it ran")
        return item
    run, paper = kept.result, load_claims(kept.slug)
    old = before.runs.get(run.key)
    item.refusals += _refusals_of_settings(kept, run, dirty)
    item.refusals += _refusals_of_claims(paper, run, old, fewer)
    made, there = _pictures(kept.folder), _pictures(figures_dir(kept.slug))
    belongs = _whose_pictures(kept, run, before, pictures)
    item.pictures = {name for name in made.keys() | there.keys() if belongs(name)}
    gone = sorted((there.keys() - made.keys()) & item.pictures)
    if gone and not fewer:
        item.refusals.append(f"it lacks published figures: {', '.join(gone)} (if the notebook dropped them: --fewer)")
    declared, drawn = find(kept.slug).declaration.figures_of.get(run.tier, []), {Path(name).stem for name in made}
    if never := [name for name in declared if name not in drawn]:
        item.refusals.append(f"it drew no {_some(never)}, which the notebook says is of this tier's run (figures_of)")
    item.changes += _changes_of_claims(paper, run, old)
    new = sorted((made.keys() - there.keys()) & item.pictures)
    other = sorted(name for name in made.keys() & there.keys() & item.pictures if made[name] != there[name])
    for words, names in (("new", new), ("changed", other), ("removed", gone)):
        item.changes += [f"figures {words}: {', '.join(names)}"] if names else []
    return item


def _refusals_of_settings(kept: Kept, run: Run, dirty: bool) -> list[str]:
    refusals = []
    notebook = find(kept.slug)
    changed = run.changed | changed_parameters(notebook, kept.manifest.get("parameters", {}))
    if changed:
        settings = ", ".join(f"{name} = {value!r}" for name, value in changed.items())
        refusals.append(f"it ran with {settings}, not with the committed notebook's settings")
    edited = kept.manifest.get("edited")
    if edited is None and not dirty:
        refusals.append("git does not say which commit it ran (if that may be: --dirty)")
    elif edited and not dirty:
        refusals.append(f"{_some(edited)} differed from the commit (if that may be: --dirty)")
    return refusals


def _refusals_of_claims(paper: PaperClaims, run: Run, old: Run | None, fewer: bool) -> list[str]:
    refusals = []
    known = {claim.id for claim in paper.claims}
    strange = [each.claim for each in run.measured if each.claim not in known]
    if strange:
        refusals.append(f"it measured claims that claims.yaml no longer has: {_some(strange)}")
    if not fewer and (few := _with_few_controls(paper, run)):
        refusals.append(
            f"it decides {_some(few)} with a control of fewer than {LEAST_REPETITIONS} repetitions: such a control may "
            "flip by chance (if its scale has a reason: --fewer)"
        )
    if old is None:
        return refusals
    lost, doubtful = [], []
    for claim in paper.claims:
        before, now = old.measurement(claim.id), run.measurement(claim.id)
        if before is not None and now is None:
            lost.append(claim.id)
        elif before is not None and now is not None and before.trusted and not now.trusted:
            doubtful.append(f"{claim.id} ({now.why})")
    if lost and not fewer:
        refusals.append(f"it did not measure {_some(lost)}, which is published (if that is meant: --fewer)")
    if doubtful:
        refusals.append(f"it is untrusted where what is published is trusted: {_some(doubtful)}")
    return refusals


def _with_few_controls(paper: PaperClaims, run: Run) -> list[str]:
    """List the claims that this run decides and whose control has fewer than LEAST_REPETITIONS values. Exact values and
    counts of trials need no repetitions."""
    few = []
    for claim in paper.claims:
        own = run.measurement(claim.id)
        if own is None or not claim.control or not claim.decided_by or claim.decided_by.key != run.key:
            continue
        control = own.broken()
        is_exact = claim.exact or control.exact or control.trials is not None
        if not is_exact and 0 < len(control.values) < LEAST_REPETITIONS:
            few.append(claim.id)
    return few


def _some(names: Sequence[str], most: int = 4) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _changes_of_claims(paper: PaperClaims, run: Run, old: Run | None) -> list[str]:
    if old is None:
        return [f"{run.key}: new, {len(run.measured)} claims measured"]
    if run.repeats(old):
        return []
    lines = [f"{run.key}: replaces that of {old.date}, {old.commit}"]
    for claim in paper.claims:
        before, now = (judge(claim, each.measurement(claim.id), each.tier) for each in (old, run))
        if (before.verdict, before.counts, before.value) != (now.verdict, now.counts, now.value):
            told = (judged_text(each.verdict, each.value, each.counts) for each in (before, now))
            lines.append(f"{claim.id}: {' -> '.join(told)}")
    return lines


def judged_text(verdict: str, value: float | None, counts: bool) -> str:
    """Return a verdict with its value, marked where it does not count."""
    counted = "" if counts or verdict == "not measured" else ", not counted"
    return f"{verdict} {number_text(value)}".strip() + counted


def _whose_pictures(kept: Kept, run: Run, before: Results, asked: bool | None) -> Callable[[str], bool]:
    """Return a function that tells whether a file of figures/ is published from this run.

    Figures come from the tier that "auto" takes, except those that belong to another tier. On each tier, figures of the
    paper profile are preferred.

    asked : the argument `pictures` of `publish`.
    """
    declared = find(kept.slug).declaration
    better = run.profile == "quick" and f"paper/{run.tier}" in before.runs
    published = not better if asked is None else asked
    all_of_them = kept.manifest.get("usual_tier") == run.tier if asked is None else asked
    own, of_others = set(declared.figures_of.get(run.tier, [])), declared.figures_of_others(run.tier)

    def belongs(name: str) -> bool:
        figure = Path(name).stem
        return published and (figure in own or (all_of_them and figure not in of_others))

    return belongs


def _pictures(folder: Path) -> dict[str, bytes]:
    files_there = sorted(folder.iterdir()) if folder.is_dir() else []
    return {path.name: path.read_bytes() for path in files_there if path.suffix in PICTURES}


def _publish_pictures(folder: Path, target: Path, names: set[str]) -> None:
    """Copy the pictures called `names` from `folder` to `target`, and remove there those that `folder` lacks.

    Files with the same bytes are not touched.
    """
    target.mkdir(parents=True, exist_ok=True)
    made, there = _pictures(folder), _pictures(target)
    for name in names & there.keys() - made.keys():
        (target / name).unlink()
    for name in [name for name in names & made.keys() if there.get(name) != made[name]]:
        with whole_file(target / name) as partial:
            shutil.copyfile(folder / name, partial)


def write_scorecard(table: pd.DataFrame, folder: Path, mine: pd.DataFrame | None = None) -> None:
    """Write the scorecard as scorecard.csv, .md (which GitHub shows), .html (sortable) and .png (the picture).

    table : the published scorecard. mine : the user's own scorecard, to show beside it. Raises NetreproError for a
    folder that cannot be written.
    """
    own = None if mine is None else reproduction(table, own_results)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        of_today = ["code_changed", "stale"]  # of the code that writes this, which may change with every commit
        csv = (table.drop(columns=of_today) if mine is None else beside(mine, table)).to_csv(index=False)
        write_atomically(folder / "scorecard.csv", csv)
        write_atomically(folder / "scorecard.md", scorecard_text(table))
        write_atomically(folder / "scorecard.html", scorecard_page(table, mine))
        use_style()
        save_figure(draw_scorecard(table, own), folder, "scorecard", endings=(".png",))
    except OSError as error:
        raise NetreproError(f"cannot write to {folder}: {error.strerror}", "choose another folder") from None


def readme_counts(table: pd.DataFrame) -> str:
    """Return a README's text about the scorecard: the number of papers of each level, and a link to all of them."""
    where = f"[The scorecard]({SCORECARD_PAGE}) has a line for each, and says what the words mean."
    return f"{counts_by_level(table)} {where}\n"


def refresh_readme(table: pd.DataFrame, readme: Path) -> None:
    """Put the scorecard's counts between the two scorecard marks of a README. Raises NetreproError without marks."""
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(README_BEGIN)
    _, end, after = rest.partition(README_END)
    if not begin or not end:
        raise NetreproError(f"{readme.name} has no {README_BEGIN} … {README_END}", "put both marks where it belongs")
    write_atomically(readme, f"{before}{begin}\n{readme_counts(table)}{end}{after}")


def lost_verdicts() -> tuple[list[str], list[str]]:
    """Return two lists: verdicts that held in the committed results and no longer hold at the same tier and profile,
    and notes on papers without anything to compare.

    The committed results are compared with the present ones in figures/ and with the user's own runs.

    Raises NetreproError where git does not answer, and where no paper has anything to compare: then nothing is known.
    """
    lost: list[str] = []
    notes: list[str] = []
    compared = 0
    for paper in all_papers():
        committed, why = committed_results(paper.paper)
        published, own = published_results(paper.paper), own_results(paper.paper)
        if committed is None or (published is None and own is None):
            notes.append(f"{paper.paper}: nothing to compare: {why or 'not run yet'}")
            continue
        compared += 1
        for where, now in (("published", published), ("your run", own)):
            lost += [f"{where}: {line}" for line in regressions(committed, now)] if now else []
    if not compared:
        why = "; ".join(notes[:3]) or "there is no paper"
        raise NetreproError(f"nothing was compared: {why}", "publish a run first, and commit it")
    return lost, notes
