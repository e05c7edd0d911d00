"""Grade students' notebooks: execute them, and compare their answers with the solutions.

A student's notebook runs from beginning to end in a sandbox; an error in an exercise's cell does not end it. It records
answers and has no access to solutions. Another process runs this checkout's own notebook with the same settings and
executes the solutions with its variables. This module compares both. The students' own checks do not count.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from netrepro.errors import NetreproError
from netrepro.files import file_sha256, write_atomically
from netrepro.paths import check_writable, runs_dir
from netrepro.tiers_and_profiles import REAL_TIME_TIERS
from netrepro.workbench.catalogue.notebooks import Notebook, cell_source, find, read_notebook
from netrepro.workbench.catalogue.parameters import check_parameters, read_parameters
from netrepro.workbench.classroom.answers import ANSWERS
from netrepro.workbench.classroom.class_formats import write_class_copies
from netrepro.workbench.classroom.exercises import (
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
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.run_folder import Status
from netrepro.workbench.running.runner import Copy, RunEvent, run_copies
from netrepro.workbench.running.sandbox import why_not

EXPECTED = "expected.json"
KEPT = "grading"  # folder of the executed copies in runs/
GRADED, STUDENTS = "grades.csv", "students.csv"
WRITTEN = "written.json"  # in KEPT: which tables were written
COLUMNS = ["file", "notebook", "exercise", "result", "answer", "why", "settings"]
RESULTS = ("right", "wrong", "missing", "error")
ANSWERING = (
    "__import__('netrepro.workbench.classroom.answers', fromlist=['answers'])"  # defines no name in the notebook
)
FORMULAS = ("=", "+", "-", "@")  # begin a formula, as do a tab and a line's end, which are not written as such
LARGEST_ANSWERS = 10_000_000  # bytes of the file with a student's answers
DEEPEST = 20  # folders below that of the class
LONGEST_TEXT = 1000  # characters of a cell of a table
LARGEST_NOTEBOOK = 100 << 20  # bytes of what is handed in


def grade(
    folder: Path,
    *,
    jobs: int | None = None,
    patience: float = 3.0,
    trust: bool = False,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    on_kept: Callable[[Path, Path], None] = lambda table, kept: None,
) -> pd.DataFrame:
    """Execute every notebook below a folder. Write <folder>/grades.csv, a row for each file and exercise, and
    <folder>/students.csv, a row for each student (see `by_student`).

    Parameters
    ----------
    folder : the folder of students' notebooks. A notebook's metadata say which notebook it is a copy of, so file names
        do not matter.
    trust : run the students' code with your own rights, and not in a sandbox.
    jobs, patience, on_event : as for run; events name the files.
    on_kept : called where a table of an earlier grading has been changed since, with its path and the one to which it
        was moved, such as grades-1.csv. Nothing there is ever written over.

    Returns the table of grades.csv: file, notebook, exercise, result ("right", "wrong", "missing" or "error"), answer,
    why, settings (those that differ from ours; our notebook ran with them, too). A file that is not a copy of a
    notebook, or whose cells before the exercises fail, gives an error in each exercise. Where a student's cell does not
    end, or ends the kernel, the answers before it count. Executed copies are in runs/grading/.

    Raises NetreproError for a folder that has no notebooks or cannot be written, for a machine without sandboxes, and
    after an interruption; the tables then stay as they were.
    """
    handed_in, closed = _handed_in(folder)
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
    kept = runs_dir() / KEPT
    try:
        kept.mkdir(parents=True, exist_ok=True)
        kept.chmod(0o700)  # it holds right answers, and what students' code wrote
    except OSError as error:
        raise NetreproError(f"{kept} cannot be closed to others: {error.strerror}", "move it away") from None
    with tempfile.TemporaryDirectory(prefix="netrepro-grading-") as made:
        grading = _Grading(Path(made), trust)
        for path in handed_in:
            grading.take(path, path.relative_to(folder).as_posix())
        for path, why in closed.items():
            grading.refuse(path.relative_to(folder).as_posix(), why)
        report = run_copies(
            grading.copies(),
            into=kept,
            jobs=jobs,
            patience=patience,
            on_event=lambda event: on_event(grading.as_shown(event)),
        )
    if report.interrupted:
        done = sum(s.outcome != "interrupted" for s in report.statuses if _stem(s.name) in grading.files)
        raise NetreproError(
            f"interrupted after {done} of {len(grading.files)} files: nothing is written", "grade them again"
        )
    rows = grading.rows({_stem(status.name): status for status in report.statuses})
    rows = [{key: in_one_line(value) for key, value in row.items()} for row in rows]
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values(["file", "notebook"], kind="stable", ignore_index=True)
    for name, made in ((GRADED, table), (STUDENTS, by_student(table))):
        moved = _write_table(folder / name, made.map(_no_formula).to_csv(index=False), kept / WRITTEN)
        if moved:
            on_kept(folder / name, moved)
    return table


def _write_table(path: Path, text: str, written: Path) -> Path | None:
    """Write a table. Move what is there aside first, unless it is what was written there last; return where it is now.

    written : file that tells the SHA-256 of the tables that were written, by their paths.
    """
    try:
        hashes = TypeAdapter(dict[str, str]).validate_json(written.read_bytes())
    except (OSError, ValidationError):
        hashes = {}
    place, content = str(path.resolve()), text.encode()
    moved = None if _is_file_of(path, {hashes.get(place), sha256(content).hexdigest()}) else _moved_aside(path)
    write_atomically(path, content)
    write_atomically(written, json.dumps(hashes | {place: sha256(content).hexdigest()}))
    return moved


def _is_file_of(path: Path, hashes: set[str | None]) -> bool:
    """Tell whether a path is a file with one of these SHA-256."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and file_sha256(path) in hashes
    except OSError:
        return False


def _moved_aside(path: Path) -> Path | None:
    """Give a file the first free name with a number, and no other file's; return it. None where there is no file."""
    for number in itertools.count(1):
        aside = path.with_stem(f"{path.stem}-{number}")
        try:
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL))  # from here on the name is ours
        except FileExistsError:
            continue
        try:
            path.replace(aside)
            return aside
        except FileNotFoundError:
            aside.unlink()
            return None
    raise AssertionError


def in_one_line(value: Any) -> Any:
    r"""Return a text of at most LONGEST_TEXT characters, each that is not printed written as in Python's `repr`; other
    values unchanged.

    File names, errors and answers come from students. A terminal would obey their control characters, and UTF-8 cannot
    hold all of them.

    >>> in_one_line("a\x1b[2J")
    'a\\x1b[2J'
    """
    if not isinstance(value, str):
        return value
    cut = value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}…"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)


def _no_formula(value: Any) -> Any:
    """Return a text that a spreadsheet shows and does not compute: one that begins like a formula, and is no number,
    gets an apostrophe (OWASP, CSV injection)."""
    if not isinstance(value, str) or not value.startswith(FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def by_student(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each student: student, files, and how many exercises are right, wrong, missing and in error.

    table : the result of `grade`. A student is named by the folder directly below that of the class or, for a file
    without such a folder, by the file.
    """
    students = table["file"].map(lambda file: Path(file).parts[0].removesuffix(".ipynb")).rename("student")
    counts = pd.crosstab(students, table["result"]).reindex(columns=list(RESULTS), fill_value=0)
    counts.insert(0, "files", table.groupby(students)["file"].nunique())
    return counts.rename_axis(columns=None).reset_index()


def _handed_in(folder: Path) -> tuple[list[Path], dict[Path, str]]:
    """List the notebooks below a folder, sorted, and the folders that were not looked into, with the reason.

    Hidden ones and links to folders are left out.
    """
    notebooks, closed, left = [], {}, [(folder, 0)]
    while left:
        where, depth = left.pop()
        try:
            entries = sorted(os.scandir(where), key=lambda entry: entry.name)
        except OSError as error:
            closed[where] = f"it cannot be read: {error.strerror}"
            continue
        for entry in entries:
            path = Path(entry.path)
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST:
                    left.append((path, depth + 1))
                else:
                    closed[path] = f"it is more than {DEEPEST} folders deep: not looked into"
            elif entry.name.endswith(".ipynb"):
                notebooks.append(path)
    return sorted(notebooks), dict(sorted(closed.items()))


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
            own = read_parameters(content, helps=False)
            changed = _changed(notebook, {each.name: each.default for each in own.values()})
            runs_as = self._as_executed(notebook)
            cells = to_be_graded(content, read_notebook(notebook.path), notebook.slug, self._asked(notebook))
            text = json.dumps(cells)
        except Exception as error:
            why = error.problem if isinstance(error, NetreproError) else f"no notebook: {error!r}"
            self.refuse(name, why, notebook)
            return
        shut_in_with = None if self.trust else self._class_copies()
        stem = self._add(Copy(replace(runs_as, parameters=own), shut_in_with=shut_in_with), text)
        said = ", ".join(f"{key}={value}" for key, value in changed.items())
        self.files[stem] = _File(name, notebook.slug, said, self._reference(runs_as, changed))

    def refuse(self, name: str, why: str, notebook: Notebook | None = None) -> None:
        """Note that a file or folder is not graded: rows of errors."""
        whose = {"file": name, "notebook": notebook.slug if notebook else "", "answer": "", "settings": ""}
        for number in self._asked(notebook) if notebook else [""]:
            self._refused.append(whose | {"exercise": number, "result": "error", "why": why})

    def copies(self) -> list[Copy]:
        """List the notebooks to execute: the students' and our own."""
        return list(self._copies.values())

    def as_shown(self, event: RunEvent) -> RunEvent:
        """Return an event as the teacher sees it: with the file's name, and no text of the student's that a terminal
        would obey."""
        stem, progress = _stem(event.name), event.progress
        name = self.files[stem].name if stem in self.files else f"ours, of {stem.partition('_')[2]}"
        if progress is not None:
            progress = progress.model_copy(update={"heading": in_one_line(progress.heading)})
        return replace(event, name=in_one_line(name), progress=progress)

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

        Raises NetreproError where all its tiers need root, or namespaces of their own.
        """
        declared = notebook.declaration
        tiers = [tier for tier in declared.tiers if self.trust or tier not in REAL_TIME_TIERS]
        if not tiers:
            raise NetreproError(f"{notebook.slug} needs namespaces, which no sandbox gives: grade it with --trust")
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
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise NetreproError(f"{path.name} is no file of its own", "hand in the notebook itself")
    if status.st_size > LARGEST_NOTEBOOK:
        raise NetreproError(f"{path.name} has more than {LARGEST_NOTEBOOK >> 20} MB", "hand it in without its outputs")
    return read_notebook(path)


def _changed(notebook: Notebook, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in which a student's notebook differs from ours.

    Raises NetreproError for a value out of range, and for a path: our own run, which is in no sandbox, would read it.
    """
    differ = {
        name: own[name]
        for name, item in notebook.parameters.items()
        if name in own and own[name] != item.default and name not in ("profile", "tier")
    }
    for name, value in differ.items():
        if notebook.parameters[name].may_name_path(value):
            raise NetreproError(f"its setting {name} names a file or folder, which is not read here")
    return check_parameters(notebook.parameters, differ, notebook.slug)


class _Answer(BaseModel):
    """An answer as a student's process recorded it. That process is not trusted, so every field is checked."""

    model_config = ConfigDict(extra="forbid", strict=True)

    shown: str
    error: str
    numbers: list[float] | None = None
    words: list[str] = []


_ANSWERS = TypeAdapter(dict[str, _Answer])


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
    return _ANSWERS.validate_json(path.read_bytes())


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
        "cells": [
            *cells[:first],
            _ours(f"from netrepro.workbench.classroom import grading\n\ngrading.write_expected({slug!r})"),
        ]
    }


def _ours(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def write_expected(slug: str) -> None:
    """Execute the solutions with the variables of this notebook, and write their answers into the run's folder."""
    names = names_of_the_notebook()
    expected = {each.number: parts_of(solution_of(each, names)) for each in exercises_of(find(slug)) if each.answer}
    write_atomically(Path(os.environ[run_folder.RUN_DIR_VARIABLE]) / EXPECTED, json.dumps(expected))
