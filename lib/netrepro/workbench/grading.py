"""Grade students' notebooks: execute them, and compare their answers with the solutions.

A student's notebook runs from beginning to end in a sandbox; an error in an exercise's cell does not end it. It records
answers and has no access to solutions. Another process runs this checkout's own notebook with the same settings and
executes the solutions with its variables. This module compares both. The students' own checks do not count.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.paths import check_writable, runs_dir
from netrepro.workbench import run_folder
from netrepro.workbench.answers import ANSWERS
from netrepro.workbench.catalogue import Notebook, cell_source, find, read_notebook
from netrepro.workbench.class_formats import write_class_copies
from netrepro.workbench.exercises import (
    CHECK,
    Exercise,
    Parts,
    check_of,
    difference,
    exercises_of,
    is_list,
    names_of_the_notebook,
    parts_of,
    solution_of,
)
from netrepro.workbench.parameters import check_parameters, read_parameters
from netrepro.workbench.run_folder import Status
from netrepro.workbench.runner import Copy, Event, run_copies
from netrepro.workbench.sandbox import why_not

EXPECTED = "expected.json"
GRADED, STUDENTS = "grades.csv", "students.csv"
COLUMNS = ["file", "notebook", "exercise", "result", "answer", "why", "settings"]
RESULTS = ("right", "wrong", "missing", "error")
ANSWERING = "__import__('netrepro.workbench.answers', fromlist=['answers'])"  # defines no name in the notebook
LARGEST_ANSWERS = 10_000_000  # bytes of the file with a student's answers


def grade(
    folder: Path,
    *,
    jobs: int | None = None,
    patience: float = 3.0,
    trust: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
) -> pd.DataFrame:
    """Execute every notebook below a folder. Write <folder>/grades.csv, a row for each file and exercise, and
    <folder>/students.csv, a row for each student (see `by_student`).

    Parameters
    ----------
    folder : the folder of students' notebooks. A notebook's metadata say which notebook it is a copy of, so file names
        do not matter.
    trust : run the students' code with your own rights, and not in a sandbox.
    jobs, patience, on_event : as for run; events name the files.

    Returns the table of grades.csv: file, notebook, exercise, result ("right", "wrong", "missing" or "error"), answer,
    why, settings (those that differ from ours; our notebook ran with them, too). A file that is not a copy of a
    notebook, or whose cells before the exercises fail, gives an error in each exercise. Where a student's cell does not
    end, or ends the kernel, the answers before it count. Executed copies are in runs/grading/.

    Raises NetreproError for a folder that has no notebooks or cannot be written, for a machine without sandboxes, and
    after an interruption; the tables then stay as they were.
    """
    handed_in = [path for path in sorted(folder.rglob("*.ipynb")) if not _is_hidden(path.relative_to(folder))]
    if not handed_in:
        raise NetreproError(f"no notebooks in {folder}", "give the folder of what students handed in")
    check_writable(folder)
    for name in (GRADED, STUDENTS):
        if (folder / name).is_dir():
            raise NetreproError(f"{folder / name} is a folder", "move it away: the grades are written there")
    if not trust and (reason := why_not()):
        raise NetreproError(
            f"students' code cannot be shut in on this machine: {reason}",
            "allow user namespaces (see `netrepro doctor`), or run it with your own rights: --trust, in a container or "
            "an account that has nothing to lose",
        )
    with tempfile.TemporaryDirectory(prefix="netrepro-grading-") as made:
        grading = _Grading(Path(made), trust)
        for path in handed_in:
            grading.take(path, path.relative_to(folder).as_posix())
        report = run_copies(
            grading.copies(),
            into=runs_dir() / "grading",
            jobs=jobs,
            patience=patience,
            on_event=lambda event: on_event(replace(event, name=grading.name_of(event.name))),
        )
    if report.interrupted:
        done = sum(s.outcome != "interrupted" for s in report.statuses if _stem(s.name) in grading.files)
        raise NetreproError(
            f"interrupted after {done} of {len(grading.files)} files: nothing is written", "grade them again"
        )
    rows = grading.rows({_stem(status.name): status for status in report.statuses})
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values(["file", "notebook"], kind="stable", ignore_index=True)
    write_atomically(folder / GRADED, table.to_csv(index=False))
    write_atomically(folder / STUDENTS, by_student(table).to_csv(index=False))
    return table


def by_student(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each student: student, files, and how many exercises are right, wrong, missing and in error.

    table : the result of `grade`. A student is named by the folder directly below that of the class or, for a file
    without such a folder, by the file.
    """
    students = table["file"].map(lambda file: Path(file).parts[0].removesuffix(".ipynb")).rename("student")
    counts = pd.crosstab(students, table["result"]).reindex(columns=list(RESULTS), fill_value=0)
    counts.insert(0, "files", table.groupby(students)["file"].nunique())
    return counts.rename_axis(columns=None).reset_index()


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _stem(name: str) -> str:
    """Return the stem of the executed file, which begins the name of its run."""
    return name.split("--")[0]


@dataclass(frozen=True)
class _File:
    """A student's file that is executed: its name, notebook, changed settings, and the stem of the run of ours that its
    answers are compared with."""

    name: str
    slug: str
    settings: str
    reference: str


class _Grading:
    """The files of a class and, for each notebook and its settings, our own run that computes the right answers."""

    def __init__(self, made: Path, trust: bool):
        self.made, self.trust = made, trust
        self.files: dict[str, _File] = {}
        self._exercises: dict[str, list[Exercise]] = {}
        self._copies: dict[str, Copy] = {}
        self._references: dict[tuple[str, str], str] = {}
        self._refused: list[dict[str, Any]] = []
        self._notebooks = made / "notebooks"

    def take(self, path: Path, name: str) -> None:
        """Prepare a student's file for execution; any error in it becomes rows of errors, so the others are graded."""
        notebook: Notebook | None = None
        try:
            content = _read(path)
            notebook = self._found(content, path)
            own = read_parameters(content)
            changed = _changed(notebook, {each.name: each.default for each in own.values()})
            runs_as = self._as_executed(notebook)
            cells = to_be_graded(content, read_notebook(notebook.path), notebook.slug, self._asked(notebook))
            text = json.dumps(cells)
        except Exception as error:
            why = error.problem if isinstance(error, NetreproError) else f"no notebook: {error!r}"
            whose = {"file": name, "notebook": notebook.slug if notebook else "", "answer": "", "settings": ""}
            for number in self._asked(notebook) if notebook else [""]:
                self._refused.append(whose | {"exercise": number, "result": "error", "why": why})
            return
        shut_in_with = None if self.trust else self._class_copies()
        stem = self._add(Copy(replace(runs_as, parameters=own), shut_in_with=shut_in_with), text)
        said = ", ".join(f"{key}={value}" for key, value in changed.items())
        self.files[stem] = _File(name, notebook.slug, said, self._reference(runs_as, changed))

    def copies(self) -> list[Copy]:
        """List the notebooks to execute: the students' and our own."""
        return list(self._copies.values())

    def name_of(self, run: str) -> str:
        """Return the name under which a run is shown to the teacher."""
        stem = _stem(run)
        return self.files[stem].name if stem in self.files else f"ours, of {stem.partition('_')[2]}"

    def rows(self, ended: Mapping[str, Status]) -> list[dict[str, Any]]:
        """Compare all answers with the right ones; return a row for each file and exercise.

        ended : stem of an executed file -> status of its run.
        """
        rows = list(self._refused)
        right = {stem: _expected(stem, ended.get(stem)) for stem in self._references.values()}
        for stem, file in self.files.items():
            whose = {"file": file.name, "notebook": file.slug, "settings": file.settings}
            results = _results(self._exercises[file.slug], ended.get(stem), right[file.reference])
            rows += [whose | row for row in results]
        return rows

    def _found(self, content: Mapping[str, Any], path: Path) -> Notebook:
        """Find the workbench's notebook that a student's file is a copy of."""
        slug = content.get("metadata", {}).get("netrepro", {}).get("slug")
        if not slug:
            raise NetreproError(f"{path.name} does not say which notebook it is")
        notebook = find(slug)
        if not self._asked(notebook):
            raise NetreproError(f"{slug} has no exercise with an answer to check")
        return notebook

    def _asked(self, notebook: Notebook) -> list[int]:
        """List the numbers of the exercises that can be checked; a notebook is read only once."""
        if notebook.slug not in self._exercises:
            self._exercises[notebook.slug] = [each for each in exercises_of(notebook) if each.answer]
        return [each.number for each in self._exercises[notebook.slug]]

    def _as_executed(self, notebook: Notebook) -> Notebook:
        """Return the notebook as it is executed here: without a demand for results, on tiers that a sandbox has.

        Raises NetreproError where all its tiers need root.
        """
        declared = notebook.declaration
        tiers = [tier for tier in declared.tiers if self.trust or tier != "privileged"]
        if not tiers:
            raise NetreproError(f"{notebook.slug} needs root, which no sandbox gives: grade it with --trust")
        return replace(notebook, declaration=declared.model_copy(update={"tiers": tiers, "kind": "guide"}))

    def _class_copies(self) -> Path:
        """Return the folder that a sandbox shows as notebooks/; it holds class copies without solutions."""
        if not self._notebooks.exists():
            write_class_copies(self._notebooks)
            self._notebooks.chmod(0o755)
        return self._notebooks

    def _reference(self, notebook: Notebook, changed: dict[str, Any]) -> str:
        """Return the stem of our own run with a student's settings; students with the same settings share a run."""
        key = (notebook.slug, json.dumps(changed, sort_keys=True))
        if key not in self._references:
            content = read_notebook(notebook.path)
            self._references[key] = self._add(
                Copy(notebook, changed), json.dumps(with_solutions(content, notebook.slug))
            )
        return self._references[key]

    def _add(self, copy: Copy, text: str) -> str:
        path = self.made / f"{len(self._copies):03}_{copy.notebook.slug}.ipynb"
        write_atomically(path, text)
        self._copies[path.stem] = replace(copy, notebook=replace(copy.notebook, path=path))
        return path.stem


def _read(path: Path) -> dict[str, Any]:
    """Read a student's file. Raises NetreproError for a link or a pipe."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise NetreproError(f"{path.name} is no file of its own", "hand in the notebook itself")
    return read_notebook(path)


def _changed(notebook: Notebook, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in which a student's notebook differs from ours. Raises NetreproError for a value out of
    range."""
    differ = {
        name: own[name]
        for name, item in notebook.parameters.items()
        if name in own and own[name] != item.default and name not in ("profile", "tier")
    }
    return check_parameters(notebook.parameters, differ, notebook.slug)


class _Answer(BaseModel):
    """An answer as a student's process recorded it. That process is not trusted, so every field is checked."""

    model_config = ConfigDict(extra="forbid", strict=True)

    shown: str
    error: str
    numbers: list[float] | None = None
    words: list[str] = []


def _expected(stem: str, status: Status | None) -> dict[int, Parts] | str:
    """Read the right answers that our run computed, by number of the exercise, or say why there are none."""
    if status is None or status.folder is None or not status.ok:
        return f"our own notebook gives nothing to compare with: {_how_it_ended(status)}"
    content = json.loads((status.folder / EXPECTED).read_text())
    return {int(number): (parts[0], parts[1]) for number, parts in content.items()}


def _how_it_ended(status: Status | None) -> str:
    """Say why a run left no answers."""
    if status is None:
        return "it was not executed"
    return "it left no answers" if status.ok else f"{status.outcome} in {status.heading!r}: {status.exception}"


def _results(
    asked: list[Exercise], status: Status | None, expected: dict[int, Parts] | str
) -> Iterator[dict[str, Any]]:
    """Yield one row for each exercise of a student's file."""
    answers: dict[str, _Answer] = {}
    why = _how_it_ended(status)
    try:
        answers = _answers(status.folder / ANSWERS) if status and status.folder else {}
    except FileNotFoundError:
        pass
    except (OSError, ValueError, ValidationError):
        why = f"its answers cannot be read; {why}"
    for exercise in asked:
        given = answers.get(str(exercise.number))
        row: dict[str, Any] = {"exercise": exercise.number, "answer": given.shown if given else "", "why": ""}
        if isinstance(expected, str):
            yield row | {"result": "error", "why": expected}
        elif given is None:
            yield row | {"result": "error", "why": why}
        elif given.error:
            ended = f": {status.outcome}, {status.exception}" if status and not status.ok else ""
            yield row | {"result": "error", "why": given.error + (ended if given.error == "it did not end" else "")}
        elif given.numbers is None:
            yield row | {"result": "missing"}
        else:
            problem = difference((given.numbers, given.words), expected[exercise.number], exercise.within)
            yield row | {"result": "wrong" if problem else "right", "why": problem}


def _answers(path: Path) -> dict[str, _Answer]:
    """Read the answers that a student's process wrote. Raises ValueError for a file that holds anything else."""
    if path.stat().st_size > LARGEST_ANSWERS:
        raise ValueError("too large")
    content = json.loads(path.read_text())
    if not isinstance(content, dict):
        raise ValueError("no answers")
    return {number: _Answer.model_validate(each) for number, each in content.items()}


# What is executed ------------------------------------------------------------------------------------


def to_be_graded(
    content: Mapping[str, Any], original: Mapping[str, Any], slug: str, asked: list[int]
) -> dict[str, Any]:
    """Return a student's notebook with our cells added, which catch errors in the exercises and record the answers.

    content, original : the student's and our notebook, as JSON. asked : the numbers of the exercises to record.
    """
    cells: list[dict[str, Any]] = [_ours(f"{ANSWERING}.begin({asked})")]
    number, began = 0, False
    for cell in content["cells"]:
        metadata = cell.get("metadata", {})
        its = metadata.get("netrepro", {}).get("exercise") if isinstance(metadata.get("netrepro"), dict) else None
        began = began or bool(its) or is_list(cell)
        number = its if isinstance(its, int) else number
        if not began or cell["cell_type"] != "code":
            cells.append(cell)
        elif CHECK not in metadata.get("tags", []) or cell_source(cell).strip() != check_of(slug, number):
            cells.append(cell | {"source": f"await {ANSWERING}.attempt({number}, {cell_source(cell)!r})"})
    kernel = original.get("metadata", {}).get("kernelspec")
    metadata = content["metadata"] | ({"kernelspec": kernel} if kernel else {})
    return dict(content) | {"metadata": metadata, "cells": [*cells, _ours(f"{ANSWERING}.finish()")]}


def with_solutions(content: Mapping[str, Any], slug: str) -> dict[str, Any]:
    """Return our notebook up to its exercises, with a last cell that writes the right answers."""
    cells = content["cells"]
    first = next((place for place, cell in enumerate(cells) if is_list(cell)), len(cells))
    return dict(content) | {
        "cells": [*cells[:first], _ours(f"from netrepro.workbench import grading\n\ngrading.write_expected({slug!r})")]
    }


def _ours(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def write_expected(slug: str) -> None:
    """Execute the solutions with the variables of this notebook, and write their answers into the run's folder."""
    names = names_of_the_notebook()
    expected = {each.number: parts_of(solution_of(each, names)) for each in exercises_of(find(slug)) if each.answer}
    write_atomically(Path(os.environ[run_folder.RUN_DIR_VARIABLE]) / EXPECTED, json.dumps(expected))
