"""Grade what students hand in: their notebooks are executed, and what they answer is compared with the solutions.

A student's notebook runs whole. Before its first cell of exercises the solutions of this checkout are executed on what
its cells have made; an error in a cell of exercises does not end it. The students' own checks do not count. Their code
runs with the rights of who grades: in a container or an account of its own, where that matters.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.paths import runs_dir
from netrepro.workbench import run_folder
from netrepro.workbench.catalogue import Notebook, cell_source, find, read_notebook
from netrepro.workbench.exercises import (
    CHECK,
    Exercise,
    difference,
    exercises_of,
    is_list,
    read_exercises,
    solution_of,
)
from netrepro.workbench.parameters import read_parameters
from netrepro.workbench.run_folder import Status
from netrepro.workbench.runner import Event, run_copies

GRADES = "grades.json"
GRADED, STUDENTS = "grades.csv", "students.csv"
COLUMNS = ["file", "notebook", "exercise", "result", "answer", "why"]
RESULTS = ("right", "wrong", "missing", "error")
LONGEST_ANSWER = 200  # characters in the table


def grade(
    folder: Path,
    *,
    jobs: int | None = None,
    patience: float = 3.0,
    on_event: Callable[[Event], None] = lambda event: None,
) -> pd.DataFrame:
    """Execute every notebook below a folder and write <folder>/grades.csv, one row a file and exercise, and
    <folder>/students.csv, one a student (see `by_student`).

    Parameters
    ----------
    folder : of what was handed in; a notebook says in its metadata which one it is, so its name does not matter.
    jobs, patience, on_event : as for run; events name the files.

    Returns the table: file, notebook, exercise, result ("right", "wrong", "missing" or "error"), answer, why. A file
    that is no notebook of this workbench, or whose cells before the exercises fail, is an error in each exercise; where
    a student's cell does not end, or takes the kernel with it, what was answered before counts.
    Executed copies are in runs/grading/.

    Raises NetreproError for a folder without notebooks, and where it is interrupted: the tables are left as they were.
    """
    handed_in = [path for path in sorted(folder.rglob("*.ipynb")) if not _is_hidden(path.relative_to(folder))]
    if not handed_in:
        raise NetreproError(f"no notebooks in {folder}", "give the folder of what students handed in")
    rows: list[dict[str, Any]] = []
    asked: dict[str, list[Exercise]] = {}
    with tempfile.TemporaryDirectory(prefix="netrepro-grading-") as made:
        copies: dict[str, tuple[str, Notebook]] = {}
        for number, path in enumerate(handed_in):
            name = path.relative_to(folder).as_posix()
            try:
                notebook, content = _read(path, asked)
                parameters, cells = read_parameters(content), json.dumps(to_be_graded(content, notebook.slug))
            except Exception as error:  # whatever one file holds, the others are graded
                why = error.problem if isinstance(error, NetreproError) else f"no notebook: {error!r}"
                rows.append(dict(zip(COLUMNS, (name, "", "", "error", "", why), strict=True)))
                continue
            target = Path(made) / f"{number:03}_{notebook.slug}.ipynb"
            write_atomically(target, cells)
            copies[target.stem] = name, replace(notebook, path=target, parameters=parameters)

        def told(event: Event) -> None:
            name, _ = copies[event.name.split("--")[0]]
            on_event(replace(event, name=name))

        report = run_copies(
            [notebook for _, notebook in copies.values()],
            into=runs_dir() / "grading",
            jobs=jobs,
            patience=patience,
            on_event=told,
        )
    if report.interrupted:
        done = sum(status.outcome != "interrupted" for status in report.statuses)
        raise NetreproError(f"interrupted after {done} of {len(copies)} files: nothing is written", "grade them again")
    ended = {status.name.split("--")[0]: status for status in report.statuses}
    for stem, (name, notebook) in copies.items():
        whose = {"file": name, "notebook": notebook.slug}
        rows += [whose | row for row in _results(asked[notebook.slug], ended.get(stem))]
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values(["file", "notebook"], kind="stable", ignore_index=True)
    write_atomically(folder / GRADED, table.to_csv(index=False))
    write_atomically(folder / STUDENTS, by_student(table).to_csv(index=False))
    return table


def by_student(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each student: student, files, and how many exercises are right, wrong, missing and in error.

    table : of `grade`. A student is who a folder below that of the class, or else a file, is named after.
    """
    students = table["file"].map(lambda file: Path(file).parts[0].removesuffix(".ipynb")).rename("student")
    counts = pd.crosstab(students, table["result"]).reindex(columns=list(RESULTS), fill_value=0)
    counts.insert(0, "files", table.groupby(students)["file"].nunique())
    return counts.rename_axis(columns=None).reset_index()


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _read(path: Path, asked: dict[str, list[Exercise]]) -> tuple[Notebook, dict[str, Any]]:
    """Find the workbench's notebook that a student's file is a copy of, and the file's JSON.

    asked : the exercises with an answer of each notebook, which is read once.
    """
    content = read_notebook(path)
    slug = content.get("metadata", {}).get("netrepro", {}).get("slug")
    if not slug:
        raise NetreproError(f"{path.name} does not say which notebook it is")
    notebook = find(slug)
    if slug not in asked:
        asked[slug] = [exercise for exercise in exercises_of(notebook) if exercise.answer]
    if not asked[slug]:
        raise NetreproError(f"{slug} has no exercise with an answer to check")
    return notebook, content


def _results(asked: list[Exercise], status: Status | None) -> Iterator[dict[str, Any]]:
    """Yield one row for each exercise of a student's file."""
    found: dict[str, Any] = {}
    why = "it was not executed"
    if status is not None:
        why = f"{status.outcome} in {status.heading!r}: {status.exception}" if not status.ok else "it left no grades"
        if status.folder and (status.folder / GRADES).exists():
            found = json.loads((status.folder / GRADES).read_text())
        for row in found.values():
            if row == NOT_ENDED and not status.ok:
                row["why"] += f": {status.outcome}, {status.exception}"
    none = {"result": "error", "answer": "", "why": why}
    for exercise in asked:
        yield {"exercise": exercise.number} | found.get(str(exercise.number), none)


def to_be_graded(content: Mapping[str, Any], slug: str) -> dict[str, Any]:
    """Return a student's notebook with our cells: the solutions before its exercises, its cells guarded, grades at the
    end."""
    cells: list[dict[str, Any]] = []
    number, began = 0, False
    for cell in content["cells"]:
        metadata = cell.get("metadata", {})
        its = metadata.get("netrepro", {}).get("exercise") if isinstance(metadata.get("netrepro"), dict) else None
        if not began and (its or is_list(cell)):
            began = True
            cells.append(_ours(f"grading.begin({slug!r})"))
        number = its if isinstance(its, int) else number
        if not began or cell["cell_type"] != "code":
            cells.append(cell)
        elif CHECK not in metadata.get("tags", []):
            cells.append(cell | {"source": f"grading.attempt({number}, {cell_source(cell)!r})"})
    cells += [] if began else [_ours(f"grading.begin({slug!r})")]
    return dict(content) | {"cells": [*cells, _ours("grading.finish()")]}


def _ours(call: str) -> dict[str, Any]:
    source = f"from netrepro.workbench import grading\n\n{call}"
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


# In the kernel of a student's notebook --------------------------------------------------------------


NOT_ENDED = {"result": "error", "answer": "", "why": "it did not end"}


class _Grader:
    """The solutions' answers, taken before the student's, and what went wrong in the student's cells."""

    def __init__(self, found: list[Exercise], names: dict[str, Any]):
        self.exercises, self.names = found, names
        self.expected: dict[int, Any] = {}
        self.errors: dict[int, str] = {}
        self.begun: set[int] = set()
        for exercise in found:
            try:
                self.expected[exercise.number] = solution_of(exercise, names)
            except NetreproError as error:
                self.errors[exercise.number] = error.problem

    def attempt(self, number: int, code: str) -> None:
        from IPython.core.inputtransformer2 import TransformerManager

        _write(self.grades(self.begun) | {number: NOT_ENDED})  # what stands should this cell not end
        self.begun.add(number)
        try:
            exec(compile(TransformerManager().transform_cell(code), f"<exercise {number}>", "exec"), self.names)
        except (Exception, SystemExit) as error:
            self.errors.setdefault(number, f"{type(error).__name__}: {error}")

    def grades(self, of: Collection[int] | None = None) -> dict[int, dict[str, str]]:
        """Grade the exercises with these numbers, by default all."""
        return {each.number: self._grade(each) for each in self.exercises if of is None or each.number in of}

    def _grade(self, exercise: Exercise) -> dict[str, str]:
        given = self.names.get(f"answer_{exercise.number}")
        shown = "" if given is None or given is Ellipsis else repr(given)[:LONGEST_ANSWER]
        if exercise.number in self.errors:
            return {"result": "error", "answer": shown, "why": self.errors[exercise.number]}
        if not shown:
            return {"result": "missing", "answer": "", "why": ""}
        try:
            problem = difference(given, self.expected[exercise.number], exercise.within)
        except NetreproError as error:
            return {"result": "error", "answer": shown, "why": error.problem}
        return {"result": "wrong" if problem else "right", "answer": shown, "why": problem}


_graders: list[_Grader] = []


def begin(slug: str, names: dict[str, Any] | None = None) -> None:
    """Take the answers of this checkout's solutions; `names`: what the cells have made (default: this notebook's)."""
    from netrepro.workbench.exercises import names_of_the_notebook

    found = read_exercises(read_notebook(find(slug).path), slug)
    _graders[:] = [
        _Grader([each for each in found if each.answer], names_of_the_notebook() if names is None else names)
    ]


def attempt(number: int, code: str) -> None:
    """Execute a student's cell; an error is noted and does not end the notebook."""
    _graders[0].attempt(number, code)


def finish() -> None:
    """Write the grades into the run's folder."""
    _write(_graders[0].grades())


def _write(grades: Mapping[int, Any]) -> None:
    write_atomically(Path(os.environ[run_folder.RUN_DIR_VARIABLE]) / GRADES, json.dumps(grades))
