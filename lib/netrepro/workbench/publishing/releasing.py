"""A release: all runs that decide a claim and a quick run of every paper, measured by one code and published together.

The order: `deciding_runs` lists these runs, `runs_to_measure` those that today's code has not measured, with the time
that they take, `measure_release` executes them, `problems_of_release` says what forbids publishing, and
`publish_release` writes figures/, the README, the CHANGELOG's table and the version.

A run is reused where today's code of its paper on its tier (`workbench.code`) measured it. Such a run may lie in runs/,
as after an interruption, or in figures/, as after publication on another machine. Other code does not matter.
"""

from __future__ import annotations

import datetime
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from netrepro.claims import Measured, Results, Run, all_papers, load_claims, published_results, write_results
from netrepro.claims.history import release_commit
from netrepro.claims.release import Release, read_release, write_release
from netrepro.claims.scorecard import scorecard
from netrepro.emulation.tiers import probe_tiers
from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.git import git
from netrepro.paths import figures_dir, workbench_root
from netrepro.study.declaration import LEAST_REPETITIONS
from netrepro.tiers_and_profiles import TIERS
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.code import code_of
from netrepro.workbench.publishing.results import judged_text, publish, refresh_readme, write_scorecard
from netrepro.workbench.running import runner
from netrepro.workbench.running.events import RunEvent, RunReport
from netrepro.workbench.running.run_folder import Kept, standard_run, standard_runs

CHANGELOG, UNRELEASED = "CHANGELOG.md", "## Unreleased\n"
READY, OTHER_CODE = "ready", "other code"
_COMPARED = ["paper", "claim", "verdict", "value", "counts"]  # columns of a scorecard
_VERSIONS = {  # file -> the lines that hold the version and, in some, its date
    "lib/pyproject.toml": (r'^version = "(.+)"$', ""),
    "lib/kernel/pyproject.toml": (r'^version = "(.+)"$', ""),
    "CITATION.cff": (r"^version: (.+)$", r"^date-released: (.+)$"),
    "codemeta.json": (r'^  "version": "(.+)",$', r'^  "datePublished": "(.+)",$'),
    ".zenodo.json": (r'^  "version": "(.+)",$', r'^  "publication_date": "(.+)",$'),
}


@dataclass(frozen=True)
class DecidingRun:
    """A run that decides claims.

    claims, main : the number of claims that it decides, and of main claims among them. why_not : why this machine
    cannot run it, "" where it can.
    """

    slug: str
    profile: str
    tier: str
    claims: int
    main: int
    why_not: str

    @property
    def key(self) -> str:
        """The run's key in a results file, 'profile/tier'."""
        return f"{self.profile}/{self.tier}"

    def kept(self) -> Kept | None:
        """Return the newest such run in runs/, measured by any code; None where none ended well."""
        return standard_run(self.slug, self.key)

    def ready(self) -> Run | None:
        """Return the run that today's code measured, from runs/ or else from figures/; None where there is none."""
        return next((run for run in self._runs() if _is_of_today(self.slug, run)), None)

    def state(self) -> str:
        """Return READY where today's code measured this run, OTHER_CODE where only other code did, or else why there is
        no such run."""
        if self.ready():
            return READY
        return OTHER_CODE if self._runs() else self.why_not or "not run"

    def _runs(self) -> list[Run]:
        kept, published = self.kept(), published_results(self.slug)
        runs = [kept.result if kept else None, published.runs.get(self.key) if published else None]
        return [run for run in runs if run]


def _is_of_today(slug: str, run: Run) -> bool:
    """Tell whether today's code, and committed code, measured a run of a paper."""
    return run.code == code_of(slug, run.tier) and not run.commit.endswith("-dirty")


class RunToMeasure(NamedTuple):
    """A run that a release lacks. tier : "" for the one that the notebook takes by itself. cpu_s : the processor time
    (s) that it took last; where nobody knows, `is_guess` and the time that the notebook may take."""

    slug: str
    profile: str
    tier: str
    cpu_s: float
    is_guess: bool


def runs_to_measure() -> list[RunToMeasure]:
    """List the runs that a release lacks and this machine can make: quick runs first, then deciding runs.

    These are a quick run of each paper, one on a tier of the other kind where the notebook declares both_kinds, and
    each run that decides claims, where today's code has made none.
    """
    missing = [each for each in deciding_runs() if not each.why_not and not each.ready()]
    deciding = {(each.slug, each.tier) for each in missing if each.profile == "quick"}
    slugs = [paper.paper for paper in all_papers()]
    own = {slug for slug, _ in deciding}  # their quick run decides
    wanted = [(slug, "") for slug in slugs if slug not in own and not _has_quick_run(slug)]
    pairs = [(slug, tier) for slug in slugs for tier in runner.second_tier(find(slug).declaration)]
    wanted += [pair for pair in pairs if pair not in deciding and not _has_quick_run(*pair)]
    quick = [_to_measure(slug, "quick", tier) for slug, tier in wanted]
    return quick + [_to_measure(each.slug, each.profile, each.tier) for each in missing]


def _to_measure(slug: str, profile: str, tier: str) -> RunToMeasure:
    """Say how long a run takes: the newest of any code in runs/ or, without one, in figures/ tells."""
    published = published_results(slug)
    runs = [kept.result for kept in standard_runs(slug) if kept.result]
    runs += published.runs.values() if published else ()
    times = [run.cpu_s for run in runs if run.profile == profile and tier in ("", run.tier) and run.cpu_s is not None]
    notebook = find(slug).declaration
    budget_s = notebook.budget_on(tier or notebook.tiers[0], profile)
    return RunToMeasure(slug, profile, tier, times[0] if times else budget_s, not times)


def deciding_runs() -> list[DecidingRun]:
    """List the runs that the claims of all papers name as their deciding evidence (`decided_by`)."""
    deciding = []
    for paper in all_papers():
        wanted = {claim.decided_by.key: claim.decided_by for claim in paper.claims if claim.decided_by}
        for key, where in sorted(wanted.items()):
            decided = [claim for claim in paper.claims if claim.decided_by and claim.decided_by.key == key]
            status = probe_tiers()[where.tier]
            main = sum(claim.role == "main" for claim in decided)
            why_not = "" if status.available else status.why
            deciding.append(DecidingRun(paper.paper, where.profile, where.tier, len(decided), main, why_not))
    return deciding


def to_measure_lines(runs: Sequence[RunToMeasure]) -> list[str]:
    """Say how many runs a release has to measure and how long they take, the longest ones first."""
    if not runs:
        return ["nothing to measure: today's code has made every run that this machine can make"]
    lines = [
        f"  {run.slug} {run.profile}{f' on {run.tier}' if run.tier else ''}: "
        f"{'at most ' if run.is_guess else ''}{run.cpu_s:.0f} s of a processor"
        for run in sorted(runs, key=lambda run: -run.cpu_s)
    ]
    total_s = sum(run.cpu_s for run in runs)
    guessed = sum(run.is_guess for run in runs)
    unknown = f"; {guessed} of them were never timed, and count with all that they may take" if guessed else ""
    hours = f"{total_s / 2 / 3600:.1f} hours" if total_s > 7200 else f"{math.ceil(total_s / 2 / 60)} minutes"
    last = f"{len(runs)} runs to measure: {total_s:.0f} s of a processor, {hours} on two idle ones{unknown}"
    return [*lines, last]


def release_plan(runs: Sequence[DecidingRun] | None = None) -> pd.DataFrame:
    """Tabulate the deciding runs: paper, profile, tier, claims, main, state, cpu_s.

    state : "ready" (in runs/ or published, measured by today's code), "other code", "not run", or why it cannot be run
    here. cpu_s : processor seconds that it took last, in runs/ or as published, measured by any code; NaN where nobody
    knows.
    """
    rows = []
    for each in deciding_runs() if runs is None else runs:
        last = _to_measure(each.slug, each.profile, each.tier)
        used_s = None if last.is_guess else last.cpu_s
        rows.append([each.slug, each.profile, each.tier, each.claims, each.main, each.state(), used_s])
    columns = ["paper", "profile", "tier", "claims", "main", "state", "cpu_s"]
    return pd.DataFrame(rows, columns=columns).astype({"cpu_s": float})


def measure_release(
    *,
    jobs: int | None = None,
    patience: float = 3.0,
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> RunReport:
    """Execute `runs_to_measure`, and nothing else."""
    missing = runs_to_measure()
    quick = [each.slug for each in missing if not each.tier]
    report = runner.run(quick, jobs=jobs, resume=True, patience=patience, on_event=on_event) if quick else RunReport()
    for profile in ("quick", "paper"):
        own = [each for each in missing if each.tier and each.profile == profile]
        wanted = [(each.slug, each.tier) for each in own]
        if wanted and not report.interrupted:
            more = runner.run_on_tiers(wanted, profile, jobs=jobs, resume=True, patience=patience, on_event=on_event)
            report.statuses += more.statuses
            report.interrupted = more.interrupted
    return report


def _has_quick_run(slug: str, tier: str = "") -> bool:
    """Tell whether runs/ or figures/ holds a quick run of a paper, on a tier or on any, that today's code measured."""
    published = published_results(slug)
    runs = [each.result for each in standard_runs(slug) if each.result]
    runs += published.runs.values() if published else ()
    return any(each.profile == "quick" and tier in ("", each.tier) and _is_of_today(slug, each) for each in runs)


def problems_of_release(version: str, since: str = "") -> list[str]:
    """List what forbids publishing a release, a line for each problem; empty where nothing does.

    Problems are those of `problems_of_checkout`, a deciding run that is missing or measured by other code, and a claim
    with fewer than five repetitions.
    """
    problems = problems_of_checkout(version, since)
    for each in deciding_runs():
        ready = each.ready()
        if not ready:
            state = each.state()
            problems.append(f"{each.slug} {each.key}: {f'measured by {state}' if state == OTHER_CODE else state}")
        elif few := _with_few_repetitions(each, ready.measured):
            repetitions = f"fewer than {LEAST_REPETITIONS} repetitions of {', '.join(few)}"
            problems.append(f"{each.slug} {each.key}: {repetitions}")
    return problems


def problems_of_checkout(version: str, since: str = "") -> list[str]:
    """List what forbids a release before anything is measured, a line for each problem.

    Problems are a malformed or old version, a CHANGELOG without its first section, changed files that are not
    committed, and a commit to compare with (`since`, as in `publish_release`) that has no scorecard. Raises
    NetreproError outside of a checkout.
    """
    root = workbench_root()
    if missing := [name for name in (CHANGELOG, *_VERSIONS) if not (root / name).is_file()]:
        raise NetreproError(f"{root} has no {missing[0]}", "release from a clone of the repository")
    problems = _problems_of_version(version)
    if (root / CHANGELOG).read_text(encoding="utf-8").count(UNRELEASED) != 1:
        problems.append(f"{CHANGELOG} has no line {UNRELEASED.strip()!r}")
    if edited := git("status", "--porcelain", "--untracked-files=no").splitlines():
        problems.append(f"{len(edited)} files differ from the commit: commit or undo them")
    if since := since or _previous_tag():
        try:
            _scorecard_at(since)
        except NetreproError as error:
            problems.append(f"{error.problem}: {error.remedy}")
    return problems


def _problems_of_version(version: str) -> list[str]:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return [f"{version!r} is no version: write such as 0.3.0"]
    old = _version()
    is_newer = [int(part) for part in version.split(".")] > [int(part) for part in old.split(".")]
    return [] if is_newer else [f"{version} is not newer than {old}"]


def _version() -> str:
    file, (line, _) = next(iter(_VERSIONS.items()))
    match = re.search(line, (workbench_root() / file).read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise NetreproError(f"{file} has no version", "write one")
    return match[1]


def _with_few_repetitions(where: DecidingRun, measured: Sequence[Measured]) -> list[str]:
    """List the claims that this run decides with fewer than LEAST_REPETITIONS values. Exact values and counts of trials
    need no repetitions."""
    by_claim = {each.claim: each for each in measured}
    few = []
    for claim in load_claims(where.slug).claims:
        own = by_claim.get(claim.id)
        if own is None or not claim.decided_by or claim.decided_by.key != where.key:
            continue
        is_exact = claim.exact or own.exact or own.trials is not None
        if not is_exact and own.values and len(own.values) < LEAST_REPETITIONS:
            few.append(claim.id)
    return few


def publish_release(version: str, today: datetime.date, since: str = "") -> pd.DataFrame:
    """Publish all runs that the release's code measured, and no others; return the verdicts that changed.

    This writes figures/, the scorecard, the README's counts, the CHANGELOG's section with the table, and the version.
    Published results of other code are removed. A quick run that `publish` refuses decides nothing: it is left out, and
    `attrs["left_out"]` holds why, a text for each.

    since : the commit or tag whose scorecard verdicts are compared with; default: the previous release's tag, since
    results may have been published in between. Before the first release, the default is what is published now.

    Raises NetreproError, before anything is written, where a problem of `problems_of_release` or a refused
    deciding run forbids the release, or where `since` has no scorecard.
    """
    since = since or _previous_tag()
    if problems := problems_of_release(version, since):
        raise NetreproError(f"no release {version}: {'; '.join(problems)}", "netrepro release --plan shows every run")
    before = _scorecard_at(since) if since else scorecard()
    today_code = {paper.paper: {tier: code_of(paper.paper, tier) for tier in TIERS} for paper in all_papers()}
    release = Release(version=version, date=today, code=today_code)
    deciding, quick = _folders()
    refusals = {folder: _refused(folder) for folder in (*deciding, *quick)}
    if forbidding := [refusals[folder] for folder in deciding if refusals[folder]]:
        raise NetreproError(f"no release {version}: {'; '.join(forbidding)}", "mend these runs and begin again")
    for folder, refusal in refusals.items():
        if not refusal:
            publish(run=folder, fewer=True)
    for paper in all_papers():
        results = published_results(paper.paper)
        if results is not None:
            own = {key: each for key, each in results.runs.items() if release.holds(paper.paper, each)}
            write_results(Results(paper=paper.paper, runs=own), figures_dir(paper.paper) / "results.json")
    write_release(release)
    after = scorecard(code=code_of)
    write_scorecard(after, workbench_root() / "figures")
    refresh_readme(after, workbench_root() / "README.md")
    changed = changed_verdicts(before, after)
    changed.attrs["left_out"] = [refusals[folder] for folder in quick if refusals[folder]]
    _write_version(version, today, changed, since)
    return changed


def tag_release(version: str) -> None:
    """Commit the files that `publish_release` wrote, and tag the commit v<version>. Raises NetreproError where git
    fails."""
    git("add", "figures", "README.md", CHANGELOG, *_VERSIONS)
    git("commit", "--quiet", "--message", f"Release {version}")
    git("tag", "--annotate", "--message", f"netrepro {version}", f"v{version}")


def _folders() -> tuple[list[Path], list[Path]]:
    """List the folders of the runs in runs/ to publish: the deciding runs, whose pictures are preferred, and the quick
    runs that decide nothing."""

    def of_release(runs: Iterable[tuple[str, Kept]]) -> list[Path]:
        return [kept.folder for slug, kept in runs if kept.result and _is_of_today(slug, kept.result)]

    deciding = of_release((each.slug, kept) for each in deciding_runs() if (kept := each.kept()))
    kept_runs = [(paper.paper, each) for paper in all_papers() for each in standard_runs(paper.paper)]
    quick = of_release((slug, each) for slug, each in kept_runs if each.result and each.result.profile == "quick")
    return deciding, [folder for folder in quick if folder not in deciding]


def _refused(folder: Path) -> str:
    """Return why a run is not published, "" where it is."""
    plan = publish(run=folder, fewer=True, dry_run=True)
    return "\n".join(item.text() for item in plan if item.refusals)


def _previous_tag() -> str:
    """Return the previous release's tag, "" before the first release."""
    previous = read_release()
    return f"v{previous.version}" if previous else ""


def _scorecard_at(commit: str) -> pd.DataFrame:
    """Return the scorecard that a commit or tag holds. A release's tag may be absent, as copies of a repository do not
    always have the tags: then its commit is found. Raises NetreproError where there is none that can be compared."""
    try:
        text = git("show", f"{_commit_of(commit)}:figures/scorecard.csv")
    except NetreproError:
        problem = f"there is no commit {commit}, or it has no figures/scorecard.csv"
        raise NetreproError(problem, "git fetch --tags, or name another: --since COMMIT") from None
    table = pd.read_csv(io.StringIO(text))
    if missing := sorted(set(_COMPARED) - set(table)):
        problem = f"{commit}: figures/scorecard.csv has no column {', '.join(missing)}"
        raise NetreproError(problem, "name a later commit: --since COMMIT")
    return table


def _commit_of(name: str) -> str:
    is_absent_tag = re.fullmatch(r"v\d+\.\d+\.\d+", name) and not git("tag", "--list", name)
    return release_commit(name) if is_absent_tag else name


def changed_verdicts(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Compare two scorecards: return a row for each claim whose verdict changed, or which began or ceased to count.

    Columns: paper, claim, role, before, after (verdict with value). Claims that only one scorecard has are left out.
    """
    both = before[_COMPARED].merge(after, on=["paper", "claim"], suffixes=("_before", "_after"))
    changed = (both["verdict_before"] != both["verdict_after"]) | (both["counts_before"] != both["counts_after"])
    rows = [
        [row["paper"], row["claim"], row["role"], *(_said(row, side) for side in ("before", "after"))]
        for row in both[changed].to_dict("records")
    ]
    return pd.DataFrame(rows, columns=["paper", "claim", "role", "before", "after"])


def _said(row: dict[str, Any], side: str) -> str:
    return judged_text(row[f"verdict_{side}"], row[f"value_{side}"], row[f"counts_{side}"])


def _write_version(version: str, today: datetime.date, changed: pd.DataFrame, since: str) -> None:
    """Write version and date into the files of _VERSIONS, and the verdicts that changed since a commit or tag into a
    section of the CHANGELOG."""
    root = workbench_root()
    for name, lines in _VERSIONS.items():
        text = (root / name).read_text(encoding="utf-8")
        for line, word in zip(lines, (version, today.isoformat()), strict=True):
            for match in re.finditer(line, text, re.MULTILINE) if line else ():
                text = text[: match.start(1)] + word + text[match.end(1) :]
        write_atomically(root / name, text)
    path = root / CHANGELOG
    text = path.read_text(encoding="utf-8")
    section = f"{UNRELEASED}\n## {version} - {today.isoformat()}\n\n{_table(changed, since)}"
    write_atomically(path, text.replace(UNRELEASED, section))


def _table(changed: pd.DataFrame, since: str) -> str:
    changes = f"changed since {since}" if since else "changed"
    if changed.empty:
        return f"No verdict {changes}.\n"
    lines = [f"### Verdicts that {changes}", "", "| paper | claim | role | before | now |", "| --- " * 5 + "|"]
    lines += [f"| {' | '.join(row)} |" for row in changed.itertuples(index=False, name=None)]
    return "\n".join(lines) + "\n"
