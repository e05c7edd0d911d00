"""The functions that a paper's notebook calls for its claims, figures, verdicts and results.

A headless run writes everything to its own folder. A notebook that a person opens writes to runs/interactive/<slug>/,
or beside that folder where its settings are not the committed ones. Published results are not changed.
"""

from __future__ import annotations

import ast
import base64
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import HTML, DisplayHandle, Image, display
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler
from tqdm.auto import tqdm

from netrepro.claims import (
    Claim,
    Measured,
    Results,
    Run,
    coverage_text,
    judge,
    load_claims,
    paper_level,
    published_results,
    write_results,
)
from netrepro.claims.models import readable
from netrepro.claims.scorecard import expected_of, scorecard
from netrepro.emulation.tiers import probe_tiers, resolve_tier
from netrepro.errors import NetreproError, nearest
from netrepro.paths import runs_dir, workbench_root
from netrepro.processes import in_processes
from netrepro.provenance import check_code, code_hash
from netrepro.study import OPEN_FIGURES, TABLES, Runs, Study, measure, vary
from netrepro.style import save_figure, use_style
from netrepro.tiers_and_profiles import check_profile
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.catalogue.parameters import check_parameters
from netrepro.workbench.catalogue.settings_cells import check_in_setting
from netrepro.workbench.code import code_of
from netrepro.workbench.notebook.looks import BADGES
from netrepro.workbench.notebook.sizes import sizes_table
from netrepro.workbench.notebook.tables import dress, interval_text, number_text, verdict_text
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.manifest import git_state
from netrepro.workbench.running.run_folder import folder_suffix
from netrepro.workbench.running.standard import changed_parameters, commit_name, made_by

Item = TypeVar("Item")
OPEN_LEVELS = ("undecided", "not measured")  # of a paper whose runs do not decide
FIRST_NUMBERS = 3  # of main claims, beside the first answer


class AnswerSlot:
    """A place at the top of a notebook that shows the published answer of the run that decides the paper's main claims,
    with the paper's level and the published numbers of its first main claims beside ours; then this run's answer."""

    def __init__(self, slug: str):
        results = published_results(slug)
        text = "not run yet: run all cells, or <code>netrepro run " + escape(slug) + "</code>"
        if results and results.runs:
            run = _deciding_run(slug, results)
            claims = scorecard([slug])
            level = paper_level(claims.itertuples())
            told = f"{BADGES[level]} {level}; published {run.date}, {run.key}{_main_numbers(claims)}"
            text = f"{escape(run.answer)} <small>({told})</small>"
        self._handle: DisplayHandle | None = display(self._html(text), display_id=True)

    def fill(self, answer: str) -> None:
        """Replace the shown answer by that of this run."""
        if self._handle is not None:
            self._handle.update(self._html(escape(answer)))

    @staticmethod
    def _html(text: str) -> HTML:
        style = "border-left: 4px solid #0072B2; padding: 0.4em 0.8em; margin: 0.4em 0"
        return HTML(f'<div style="{style}"><b>Answer.</b> {text}</div>')


def _main_numbers(claims: pd.DataFrame) -> str:
    """Put the paper's numbers of a scorecard's first main claims beside ours; "" where these are no numbers."""
    numbers = claims[(claims["role"] == "main") & ~claims["kind"].isin(["ordering", "curve"]) & claims["value"].notna()]
    told = []
    for row in numbers.head(FIRST_NUMBERS).to_dict("records"):
        ours = f"{number_text(row['value'])} {row['unit']}".strip()
        told.append(f"{row['claim'].replace('-', ' ')}: published {number_text(expected_of(row))}, ours {ours}")
    return "".join(f"; {escape(each)}" for each in told)


def _published_level(slug: str) -> str:
    """Say as HTML which level the published runs give a paper; "" where they give none."""
    results = published_results(slug)
    if results is None or not results.runs:
        return ""
    claims = scorecard([slug])
    level = paper_level(claims.itertuples())
    if level in OPEN_LEVELS:
        return ""
    said = f"This run alone decides no level. The published runs say: <b>{BADGES[level]} {level}</b>, "
    return f"<br>{said}{escape(coverage_text(claims.itertuples()))}."


def _deciding_run(slug: str, results: Results) -> Run:
    """Choose the published run that decides most of a paper's main claims; of equals, the newest."""
    main = [claim.decided_by.key for claim in load_claims(slug).claims if claim.decided_by and claim.role == "main"]
    return max(results.runs.values(), key=lambda run: (main.count(run.key), run.date))


def answer_slot(slug: str) -> AnswerSlot:
    """Show the last published one-sentence answer of a paper here; NotebookReport.finish replaces it by the new one."""
    use_style()
    return AnswerSlot(slug)


class NotebookReport:
    """One execution of a paper's notebook; made by open_report.

    Attributes
    ----------
    slug, profile, tier, why_tier, repetitions, seed : how it runs; `tier` is resolved, never "auto".
    setting : the paper's Setting with the values of the notebook's parameters.
    folder : the folder for figures and results.
    parameters : every parameter of the notebook with its value in this run.
    changed : the parameters whose values are not the committed notebook's defaults.
    made_by : a text with the command that makes the results again.
    """

    def __init__(
        self,
        slug: str,
        profile: str,
        tier: str,
        why_tier: str,
        repetitions: int,
        seed: int,
        setting: Any,
        parameters: dict[str, Any],
        changed: dict[str, Any],
        answer: AnswerSlot | None,
        folder: Path,
    ):
        self.slug, self.profile, self.tier, self.why_tier = slug, profile, tier, why_tier
        self.repetitions, self.seed, self.setting = repetitions, seed, setting
        self.parameters, self.changed = parameters, changed
        self.claims = load_claims(slug)
        self._code = code_of(slug, tier)  # before anything is measured
        self.folder = folder
        self.made_by = made_by(find(slug), profile, tier, changed)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._library = code_hash()
        self._seconds: float | None = None
        self._answer = answer
        self._open: set[str] = set()
        self._measured: list[Measured] | None = None
        self._level, self._decides = "not measured", False

    def progress(self, label: str) -> Callable[[Iterable[Item]], Iterable[Item]]:
        """Return a function that wraps items in a progress bar; paper modules take it as their `progress` argument."""
        return partial(tqdm, desc=label, leave=False)

    def measure(self, study: Study, setting: Any, **how: Any) -> Runs:
        """Measure every case and repetition of a study with this report's profile, tier and seed, with a progress bar;
        save the tables in the run's folder. how : further arguments of `study.measure` (beside).

        Raises NetreproError, before anything is measured, for a claim of the study that claims.yaml does not have; and
        where no run was checked, so that nothing says whether it is to be believed.
        """
        self._check_claims([*study.claims, *study.on_kernels])
        runs = measure(
            study,
            setting,
            profile=self.profile,
            tier=self.tier,
            repetitions=self.repetitions,
            seed=self.seed,
            progress=self.progress("cases and repetitions"),
            **how,
        )
        if self.tier in set(runs.values["tier"]) and self.tier not in set(runs.checks["tier"]):
            raise NetreproError(
                f"{self.slug}: no run on tier {self.tier} has a check, so nothing says whether to believe it",
                "give Reading(..., fidelity=run.fidelity), or a Check that would catch a bad run",
            )
        self.repetitions = runs.repetitions  # a profile may measure more, or fewer, than were asked for
        self._seconds = runs.seconds or None
        runs.save(self.folder / TABLES)
        return runs

    def vary(self, runs: Runs, knob: str) -> pd.DataFrame:
        """Measure a knob of the runs' study, with a progress bar; return its table and save it beside the others."""
        table = vary(runs, knob, self.progress(knob))
        runs.save(self.folder / TABLES)
        return table

    def explore(self, study: Study) -> Any:
        """Show a menu of cases and sliders, as the study's `play` declares.

        Raises NetreproError for a study without one.
        """
        from netrepro.workbench.notebook.playing import explore  # widgets take a while to import

        return explore(study)

    def draw(self, runs: Runs, name: str) -> None:
        """Draw, save and show a figure of the runs' study. It is folded where the study names only others as its best.

        Raises NetreproError for a figure that the study does not have.
        """
        figures = runs.study.figures
        if name not in figures:
            raise NetreproError(f"{self.slug} has no figure {name!r}", nearest(name, figures))
        best = runs.study.best
        self.show(figures[name](runs), name, folded=name not in best if best else None)

    def show(self, figure: Figure, name: str, folded: bool | None = None) -> None:
        """Save a figure as <name>.png and <name>.svg (the same bytes for the same data) and display it here. For a
        figure without any measured data, only a note is displayed.

        folded : whether the reader must click to see it. None: only from the sixth figure of the notebook on.
        Raises NetreproError for a name that is no plain file name.
        """
        self._check_name(name)
        saved = save_figure(figure, self.folder, name, self.made_by)
        self._display(figure, name, saved, folded)

    def show_all(self, figures: Mapping[str, Figure]) -> None:
        """Show several figures, name -> figure. This takes less time than calling `show` for each."""
        for name in figures:
            self._check_name(name)
        work = [(figure, self.folder, name, self.made_by) for name, figure in figures.items()]
        for (name, figure), saved in zip(figures.items(), in_processes(save_figure, work), strict=True):
            self._display(figure, name, saved)

    @staticmethod
    def _check_name(name: str) -> None:
        if Path(name).name != name or "." in name:
            raise NetreproError(f"a figure cannot be called {name!r}", "give a plain name such as fig5_short_mean")

    def _display(self, figure: Figure, name: str, saved: bool, folded: bool | None = None) -> None:
        if saved:
            picture = self.folder / f"{name}.png"  # the saved file: drawing it again would take time
            if folded is None:
                folded = len(self._open - {name}) >= OPEN_FIGURES
            if not folded:
                self._open.add(name)
            display(HTML(_folded(picture)) if folded else Image(filename=str(picture)))
        empty = "" if saved else f": nothing to show, for nothing of it was measured on the {self.tier} tier"
        caption = f"{name}, {self.made_by}{empty}"
        html = f"<small style='color: #777'>{escape(caption)}</small>"
        display({"text/html": html, "text/plain": caption}, raw=True)
        plt.close(figure)

    def _check_claims(self, names: Iterable[str]) -> None:
        known = [claim.id for claim in self.claims.claims]
        for name in names:
            if name not in known:
                raise NetreproError(f"{self.slug} has no claim {name!r}", nearest(name, known))

    def judge(self, measured: Sequence[Measured]) -> Styler:
        """Judge every claim of the paper: return a styled table, verdict first, then paper, class report and ours.

        Raises NetreproError for a measurement of a claim that claims.yaml does not have.
        """
        by_claim = {each.claim: each for each in measured}
        self._check_claims(by_claim)
        self._measured = list(measured)
        judgements = [judge(claim, by_claim.get(claim.id), self.tier) for claim in self.claims.claims]
        level = paper_level(judgements)
        self._level, self._decides = f"{level}, {coverage_text(judgements)}", level not in OPEN_LEVELS
        rows = [
            {
                "verdict": verdict_text(judgement.verdict, judgement.counts),
                "claim": claim.says,
                "where": claim.where,
                "unit": claim.unit,
                "paper": number_text(readable(claim.published)),
                "class report": number_text(readable(claim.class_report)),
                "ours": number_text(judgement.value),
                "95 % interval": interval_text(judgement.interval, judgement.repetitions),
                "reason": _with_blame(judgement.reason, judgement.verdict, claim) + self._who_decides(claim),
                "acceptance fixed": claim.fixed,
            }
            for claim, judgement in zip(self.claims.claims, judgements, strict=True)
        ]
        table = pd.DataFrame(rows, index=pd.Index([claim.id for claim in self.claims.claims], name="id"))
        empty = [name for name in ("class report", "unit") if not table[name].any()]
        return dress(table.drop(columns=empty), wide=["claim", "reason"])

    def _who_decides(self, claim: Claim) -> str:
        if claim.decided_by is None or claim.decided_by.key == f"{self.profile}/{self.tier}":
            return ""
        return f". Another run decides: {claim.decided_by.key}, because {claim.decided_by.because}"

    def finish(self, answer: str) -> HTML:
        """Write results.json, put the one-sentence answer at the top, and return the paper-level verdict to show. Where
        this run decides no level, the published level stands beside it.

        Raises NetreproError when nothing was judged before.
        """
        if self._measured is None:
            raise NetreproError("nothing was judged", "call report.judge([...]) before report.finish(...)")
        run = Run.model_validate(
            {
                "date": datetime.now(UTC).date(),
                "commit": self._commit(),
                "library": self._library,
                "seconds": self._seconds,
                "profile": self.profile,
                "tier": self.tier,
                "seed": self.seed,
                "repetitions": self.repetitions,
                "parameters": self.parameters,
                "answer": answer,
                "measured": self._measured,
                "changed": self.changed,
                "code": self._code,
            }
        )
        write_results(Results(paper=self.slug, runs={run.key: run}), self.folder / run_folder.RESULTS)
        if self._answer is not None:
            self._answer.fill(answer)
        settings = "".join(f", {name} = {value!r}" for name, value in self.changed.items())
        how = escape(f"{self.profile} profile, {self.tier}{settings}")
        published = "" if self._decides else _published_level(self.slug)
        return HTML(f"<b>{escape(self._level)}</b> ({how}): {escape(answer)}{published}")

    def _commit(self) -> str:
        return commit_name(git_state(workbench_root()).get("commit"), find(self.slug))


def _folded(picture: Path) -> str:
    """Return HTML that shows a picture after a click. It needs no script, so it works in JupyterLab and on a page."""
    data = base64.b64encode(picture.read_bytes()).decode()
    name = escape(picture.stem)
    return f'<details><summary>{name}</summary><img alt="{name}" src="data:image/png;base64,{data}"></details>'


def _with_blame(reason: str, verdict: str, claim: Claim) -> str:
    if verdict != "disagrees" or claim.blame is None:
        return reason
    settled = f"Settled: {claim.settled}" if claim.settled else f"It would be settled by: {claim.settles}"
    return f"{reason}. Whose fault: {claim.blame}. {settled}"


def open_report(paper: Study | str, namespace: Mapping[str, Any], setting: Any = None) -> NotebookReport:
    """Begin one execution of a paper's notebook; for a Study, show what each profile and tier runs and costs.

    Parameters
    ----------
    paper : the paper's Study or, for a paper without one, its slug.
    namespace : the notebook's `globals()`, with its parameters and the AnswerSlot `answer`, which
        NotebookReport.finish fills.
    setting : for a paper without a Study, its Setting, whose fields the parameters replace.

    Raises
    ------
    NetreproError : for an unknown slug or profile, fewer than two repetitions, a parameter that is missing, unknown to
        the notebook or to the Setting, or out of its range, a tier that this machine or notebook does not have, and
        code that is not this checkout's.
    """
    use_style()
    check_code()
    slug, setting = (paper, setting) if isinstance(paper, str) else (paper.slug, paper.setting)
    notebook = find(slug)
    slug = notebook.slug
    for name in (*_injected(namespace), *notebook.parameters):
        if name not in notebook.parameters:
            raise NetreproError(f"{slug} has no parameter {name!r}", nearest(name, notebook.parameters))
        if name not in namespace:
            raise NetreproError(f"{slug}: {name} has no value", "run the cell of section 3 that gives it")
    check_in_setting(notebook, notebook.parameters)
    given = {name: namespace[name] for name in notebook.parameters}
    profile, tier, repetitions, seed = (given.pop(name) for name in ("profile", "tier", "repetitions", "seed"))
    check_profile(profile)
    if isinstance(repetitions, int) and repetitions < 2:
        raise NetreproError(f"repetitions = {repetitions}", "at least 2: a verdict compares intervals, not single runs")
    checked = check_parameters(notebook.parameters, given | {"repetitions": repetitions, "seed": seed}, slug)
    changed = changed_parameters(notebook, checked)
    repetitions, seed = checked.pop("repetitions"), checked.pop("seed")
    if setting is not None:
        own = {each.name for each in fields(setting)}
        setting = replace(setting, **{name: value for name, value in checked.items() if name in own})
    said = _what_the_run_says()
    if tier == said.get("tier"):
        resolved, why = tier, str(said["why_tier"])  # a run has probed the machine already
    else:
        resolved, why = resolve_tier(tier, notebook.declaration.tiers, probe_tiers())
    changed = said.get("changed", {}) | changed
    answer = namespace.get("answer")
    folder = _folder(slug, profile, tier, changed)
    if isinstance(paper, Study):
        display(dress(sizes_table(paper, profile, resolved)))
    return NotebookReport(slug, profile, resolved, why, repetitions, seed, setting, checked, changed, answer, folder)


def _folder(slug: str, profile: str, tier: str, changed: Mapping[str, Any]) -> Path:
    """Return the folder of the run or, without a run, one in runs/interactive/ with a name for these settings, so that
    notebooks with different settings write to different folders."""
    named = os.environ.get(run_folder.RUN_DIR_VARIABLE)
    asked = {name: value for name, value in (("profile", profile), ("tier", tier)) if value not in ("quick", "auto")}
    return Path(named) if named else runs_dir() / "interactive" / (slug + folder_suffix(dict(changed) | asked))


def _injected(namespace: Mapping[str, Any]) -> list[str]:
    """List the names that papermill sets in its own cell, whether the notebook declares them or not."""
    cells = [cell for cell in namespace.get("In", []) if cell.startswith("# Parameters\n")]
    targets = [target for cell in cells for line in ast.parse(cell).body for target in getattr(line, "targets", [])]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _what_the_run_says() -> dict[str, Any]:
    """Return the manifest of the run that executes this notebook, with the tier that it chose; empty without a run."""
    folder = os.environ.get(run_folder.RUN_DIR_VARIABLE)
    if not folder or not Path(folder, run_folder.MANIFEST).is_file():
        return {}
    return json.loads(Path(folder, run_folder.MANIFEST).read_text())
