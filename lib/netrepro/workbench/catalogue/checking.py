"""Checks a paper that is being written, within half a minute: its files fit together, each case runs, figures draw.

A check says nothing about verdicts: its runs are short. The tests (`lib/tests/study`) check more, and longer.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from netrepro import backends
from netrepro.claims import load_claims
from netrepro.errors import NetreproError, nearest
from netrepro.paths import workbench_root
from netrepro.study import Runs, Study, measure, vary
from netrepro.study.declaration import Knob, Scale, several
from netrepro.study.setting import parameter_fields
from netrepro.study.trust import trust_table
from netrepro.style import use_style
from netrepro.workbench.catalogue.clean_notebook import clean_notebook
from netrepro.workbench.catalogue.notebooks import Notebook, cell_source, find, read_notebook
from netrepro.workbench.catalogue.settings_cells import (
    OF_EVERY_PAPER,
    PARAMETERS,
    declared_parameters,
    written_cell,
)

# Of a run, where the paper has no profile "test": a share of its quick seconds, so that what is read has begun.
SECONDS, SHARE = 2.0, 2 / 3
PROFILE, REPETITIONS, SEED = "check", 2, 1  # two, so that there are intervals to draw
TO_REPLACE = "TO REPLACE"
# A docstring that begins so is half a sentence: a function's begins with a verb, a property's or class's with a noun.
_HALF_A_SENTENCE = re.compile(r"(Of|What|That|Those|As|When|Who|Whose|Which|Whether|How|For)\b")
_A_NOUN = re.compile(r"(The|A|An)\b")


@dataclass(frozen=True)
class Checked:
    """One check: what was asked, and the problems that it shows, each with what to do; none where it holds."""

    name: str
    problems: list[str]


def check_paper(slug: str, on_check: Callable[[Checked], None] = lambda checked: None) -> list[Checked]:
    """Check a paper's files, run each case for a short time with two repetitions, and draw each figure.

    on_check : called with each check when it has ended. A check whose basis is broken is left out.

    Raises NetreproError for a slug without a notebook.
    """
    notebook = find(slug)
    slug = notebook.slug
    done: list[Checked] = []

    def add(name: str, problems: Iterator[str]) -> bool:
        try:
            listed = list(problems)
        except Exception as error:  # a paper's own code may raise anything, and the other checks go on
            listed = [_said(error, slug)]
        done.append(Checked(name, listed))
        on_check(done[-1])
        return not listed

    loaded: list[Study] = []
    measured: list[Runs] = []
    of_networks: set[str] = set()
    add("claims.yaml and SOURCES.md", _sources(slug))
    add("style (ruff, mypy)", _style(slug))
    add("docstrings", _docstrings(slug))
    if add("the module's Study", _study(slug, loaded)):
        (study,) = loaded
        add("the Study's claims are those of claims.yaml", _claims(study))
        add("the notebook's settings are the Setting's", _notebook(notebook))
        add("every parameter is read", _parameters(study))
        if add("every case runs, for a short time", _cases(study, measured, of_networks)):
            (runs,) = measured
            add("every claim has its reading", _readings(runs))
            add("the runs' own checks hold", _fidelity(runs, of_networks))
            add("every figure is drawn", _figures(runs))
    return done


def _files(slug: str) -> list[Path]:
    """List the paper's Python files: its module or package, and its tests."""
    library = workbench_root() / "lib"
    module, test = library / "netrepro/papers" / slug, library / f"tests/papers/test_{slug}.py"
    return [*sorted(module.rglob("*.py")), *filter(Path.is_file, [module.with_suffix(".py"), test])]


def _modules(slug: str) -> list[Path]:
    return [path for path in _files(slug) if not path.name.startswith("test_")]


def _shown(path: Path) -> str:
    return str(path.relative_to(workbench_root()))


def _said(error: Exception, slug: str) -> str:
    """Return an error's text; where it is not one of ours, with the last line of the paper's code that it came from."""
    if isinstance(error, NetreproError):
        return str(error)
    # Read from the text, in which that of another process stands, too.
    text = "".join(traceback.format_exception(error))
    own = re.findall(r'papers/(?:\S+/)?(\S+)", line (\d+)', text) if f"papers/{slug}" in text else []
    where = f" ({own[-1][0]}, line {own[-1][1]})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


def _sources(slug: str) -> Iterator[str]:
    claims = load_claims(slug)
    folder = workbench_root() / "data" / slug
    sources = folder / "SOURCES.md"
    if not sources.is_file():
        yield f"{_shown(sources)} is missing: say there where each number is from"
    elif "## Artefacts" not in sources.read_text(encoding="utf-8"):
        yield f"{_shown(sources)} has no section Artefacts: say what the authors' programs tell of the set-up"
    for path in filter(Path.is_file, [folder / "claims.yaml", sources, *_files(slug)]):
        if places := path.read_text(encoding="utf-8").count(TO_REPLACE):
            yield f"{_shown(path)} has {places} times {TO_REPLACE!r}: write what stands in the paper"
    if not claims.claims:
        yield "no claim: what would the paper's experiment refute?"


def _style(slug: str) -> Iterator[str]:
    """Yield what ruff and mypy say of the paper's files; nothing of a tool that is not installed."""
    library = workbench_root() / "lib"
    for words, paths in (
        (["ruff", "check", "--quiet", "--output-format", "concise"], _files(slug)),
        (["ruff", "format", "--check"], _files(slug)),
        (["mypy", "--no-error-summary", "--follow-imports=silent"], _modules(slug)),
    ):
        command = [sys.executable, "-m", *words, *map(str, paths)]
        done = subprocess.run(command, cwd=library, capture_output=True, text=True, errors="replace")
        if done.returncode and f"No module named {words[0]}" not in done.stderr:
            yield from (done.stdout + done.stderr).strip().splitlines()


def _docstrings(slug: str) -> Iterator[str]:
    for path in _modules(slug):
        for problem in puzzling_docstrings(path.read_text(encoding="utf-8")):
            yield f"{path.name}, {problem}: begin with a verb, or that of a class or property with a noun"


def puzzling_docstrings(source: str) -> list[str]:
    """List the docstrings that begin with half a sentence, and those of functions that begin with a noun."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    documented = {
        node: ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (*functions, ast.ClassDef))
    }
    return [
        f"line {node.lineno}: {node.name}: {begins.group()} …"
        for node, text in documented.items()
        if (begins := _HALF_A_SENTENCE.match(text))
        or (isinstance(node, functions) and not is_property(node) and (begins := _A_NOUN.match(text)))
    ]


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a method is read like a field."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def _study(slug: str, loaded: list[Study]) -> Iterator[str]:
    study = getattr(import_module(f"netrepro.papers.{slug}"), "STUDY", None)
    if not isinstance(study, Study):
        yield f"netrepro.papers.{slug} has no STUDY: see lib/netrepro/study/how_a_paper_is_written.md"
        return
    loaded.append(study)
    if study.slug != slug:
        yield f"its STUDY has the slug {study.slug!r}: write {slug!r}"


def _claims(study: Study) -> Iterator[str]:
    known = {claim.id for claim in load_claims(study.slug).claims}
    judged = {*study.claims, *study.on_kernels}
    for name in sorted(judged - known):
        yield f"the Study judges {name!r}, which claims.yaml has not: {nearest(name, known)}"
    for name in sorted(known - judged):
        yield f"claims.yaml has {name!r}, for which the Study has no Evidence"


def _notebook(notebook: Notebook) -> Iterator[str]:
    if notebook.problem:
        yield notebook.problem
        return
    text = notebook.path.read_text(encoding="utf-8")
    for cell in read_notebook(notebook.path)["cells"]:
        if PARAMETERS in cell["metadata"].get("tags", []):
            shown = list(notebook.parameters)
            declared = {field.name for field in declared_parameters(notebook.slug, shown)}
            for name in sorted(set(shown) - declared - set(OF_EVERY_PAPER)):
                yield f"the cell of parameters has {name}, which the Setting has not: make strip removes its line"
            if cell_source(cell) != written_cell(cell_source(cell), notebook.slug, shown):
                yield "the cell of parameters is not what the Setting declares: make strip"
    if json.loads(clean_notebook(text)) != json.loads(text):
        yield "the notebook has outputs or metadata of a run: make strip"


def _parameters(study: Study) -> Iterator[str]:
    """Yield the parameters whose name stands nowhere in the paper's code but in their declaration."""
    names = set[str]()
    for path in _modules(study.slug):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    for each in parameter_fields(study.setting):
        if each.name not in names:
            yield f"nothing reads {each.name}: a person who changes it changes nothing; use it, or remove it"


def _cases(study: Study, measured: list[Runs], of_networks: set[str]) -> Iterator[str]:
    with backends.watched_runs(lambda run: of_networks.update(run.fidelity["check"])):
        runs = measure(_short(study), profile=PROFILE, repetitions=REPETITIONS, seed=SEED)
    for name in runs.study.knobs:
        try:
            vary(runs, name)
        except Exception as error:
            yield f"knob {name}: {_said(error, study.slug)}"
    measured.append(runs)
    for case, why in runs.skipped.items():
        if case.partition(": ")[2] not in runs.study.scales[PROFILE].without:
            yield f"{case} was not run: {why}"


def _short(study: Study) -> Study:
    """Return the study with a profile PROFILE: its profile "test", or else its quick one, cut."""
    own = study.scales.get("test")
    scale = own if own is not None else _cut(study.scales["quick"])
    knobs = {name: _short_knob(knob) if isinstance(knob, Knob) else knob for name, knob in study.knobs.items()}
    return replace(study, scales={**study.scales, PROFILE: scale}, knobs=knobs)


def _short_knob(knob: Knob) -> Knob:
    own = knob.scale if isinstance(knob.scale, Scale) else knob.scale.get("test", knob.scale.get("quick", Scale()))
    return replace(knob, scale=replace(own, repetitions=1), quick=None)


def _cut(scale: Scale) -> Scale:
    seconds = min(scale.seconds, max(SECONDS, SHARE * scale.seconds))
    return replace(scale, seconds=seconds, repetitions=REPETITIONS, least_repetitions=1)


def _readings(runs: Runs) -> Iterator[str]:
    have = {each.claim for each in runs.measured_claims()}
    for name, evidence in runs.study.claims.items():
        is_elsewhere = any(each.where and not each.where(runs.setting) for each in several(evidence))
        if name not in have and not is_elsewhere:
            yield f"{name} is not judged: its cases or its reading are missing"


def _fidelity(runs: Runs, of_networks: set[str]) -> Iterator[str]:
    if runs.checks.empty:
        yield "no run has a Check: give Reading(numbers, tables, [Check(...)]) one that would catch a bad run"
        return
    for name in sorted(of_networks - set(runs.checks["check"])):
        yield f"the network's own check, {name!r}, is lost: give Reading(..., fidelity=run.fidelity)"
    table = trust_table(runs.checks)
    for (_, name), row in table[table["failed"] > 0].iterrows():
        bounds = f"{row['at least']:g} to {row['at most']:g}".replace("nan to", "at most").replace("to nan", "at least")
        yield f"{name}: {row['worst']:.6g}, and {bounds} was asked, in {row['failed']} of {row['runs']} runs"


def _figures(runs: Runs) -> Iterator[str]:
    use_style()
    for name, draw in runs.study.figures.items():
        try:
            figure: Any = draw(runs)
            figure.canvas.draw()
        except Exception as error:
            yield f"{name}: {_said(error, runs.study.slug)}"
            continue
        for axis in figure.axes:
            for label in (axis.get_xlabel(), axis.get_ylabel()) if axis.axison else ():
                if "(1)" in label:
                    yield f"{name}: the label {label!r} names no unit"
