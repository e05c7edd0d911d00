"""Class copies of the notebooks: without solutions, or in the formats of nbgrader and Otter.

nbgrader and Otter read the instructor's notebook, with solutions and hidden tests. They make the students' version of
it and grade what students hand in.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netrepro.errors import NetreproError, nearest
from netrepro.files import write_atomically
from netrepro.workbench.catalogue.notebooks import read_notebook, select
from netrepro.workbench.classroom.exercises import (
    CHECK,
    OWN_WORK,
    Exercise,
    cells_to_work_in,
    check_of,
    class_copy,
    code_cell,
    exercises_of,
    what_to_give,
)

Cell = dict[str, Any]
POINTS = 1  # for each exercise
NBGRADER_SCHEMA = 3


def filled_in(exercise: Exercise) -> str:
    """Return the solution as a student would write it: its last expression is assigned to `answer_N`.

    Raises NetreproError for a solution whose last statement is not an expression.
    """
    last = ast.parse(exercise.code).body[-1]
    if not isinstance(last, ast.Expr):
        raise NetreproError(f"{exercise.slug}, exercise {exercise.number}: its solution does not end with its answer")
    before = exercise.code.splitlines()[: last.lineno - 1]
    value = ast.get_source_segment(exercise.code, last.value)
    place = "" if exercise.place is None else f"[{exercise.place}]"
    return "\n".join([*before, f"answer_{exercise.number} = ({value}){place}"])


def hidden_test(exercise: Exercise) -> str:
    """Return code that fails with a reason where an answer is wrong.

    It loads the check's module anew: the student's code, which ran before in the same process, may have changed the one
    that is loaded.
    """
    number = exercise.number
    return "\n".join(
        [
            "from importlib.util import find_spec, module_from_spec",
            "",
            'where = find_spec("netrepro.workbench.classroom.exercises")',
            "anew = module_from_spec(where)",
            "where.loader.exec_module(anew)",
            f'checked = anew.check_answer("{exercise.slug}", {number}, answer_{number})',
            "assert checked.right is True, checked.text",
        ]
    )


def nbgrader_cells(exercise: Exercise) -> list[Cell]:
    """Return the cells of an exercise with nbgrader's metadata (version 3 of its format)."""

    def told(cell: Cell, *, grade: bool, solution: bool) -> Cell:
        said = {"grade": grade, "solution": solution, "locked": not solution, "task": False}
        said |= {"grade_id": cell["id"], "schema_version": NBGRADER_SCHEMA} | ({"points": POINTS} if grade else {})
        cell["metadata"]["nbgrader"] = said
        return cell

    number = exercise.number
    solution = f"### BEGIN SOLUTION\n{filled_in(exercise)}\n### END SOLUTION"
    work = code_cell(f"exercise-{number}", f"# {what_to_give(exercise)}\n{solution}", OWN_WORK, number)
    if not exercise.answer:
        return [told(work, grade=True, solution=True)]  # a person gives the points
    test = f"### BEGIN HIDDEN TESTS\n{hidden_test(exercise)}\n### END HIDDEN TESTS"
    return [
        told(work, grade=False, solution=True),
        code_cell(f"check-{number}", check_of(exercise.slug, number), CHECK, number),
        told(code_cell(f"test-{number}", test, CHECK, number), grade=True, solution=False),
    ]


def otter_cells(exercise: Exercise) -> list[Cell]:
    """Return the cells of an exercise between Otter's raw cells (Otter Assign, format of version 1)."""
    number = exercise.number

    def raw(*lines: str) -> Cell:
        name = f"otter-{number}-{lines[0].strip('# ').lower().replace(' ', '-')}"
        return {"cell_type": "raw", "id": name, "metadata": {}, "source": "\n".join(lines)}

    solution = f"# BEGIN SOLUTION NO PROMPT\n{filled_in(exercise)}\n# END SOLUTION"
    prompt = f'""" # BEGIN PROMPT\nanswer_{number} = ...\n""" # END PROMPT'
    work = code_cell(f"exercise-{number}", f"# {what_to_give(exercise)}\n{solution}\n{prompt}", OWN_WORK, number)
    question = ("# BEGIN QUESTION", f"name: exercise_{number}", f"points: {POINTS}")
    answer = [raw("# BEGIN SOLUTION"), work, raw("# END SOLUTION")]
    if not exercise.answer:
        return [raw(*question, "manual: true"), *answer, raw("# END QUESTION")]
    test = f'""" # BEGIN TEST CONFIG\nhidden: true\n""" # END TEST CONFIG\n{hidden_test(exercise)}'
    return [
        raw(*question),
        *answer,
        raw("# BEGIN TESTS"),
        code_cell(f"test-{number}", test, CHECK, number),
        raw("# END TESTS"),
        raw("# END QUESTION"),
    ]


def otter_first(slug: str) -> list[Cell]:
    """Return the raw cell by which Otter Assign recognises an assignment."""
    source = f"# ASSIGNMENT CONFIG\nname: {slug}\nrequirements: []\ngenerate: true\nruns_on: default"
    return [{"cell_type": "raw", "id": "otter-config", "metadata": {}, "source": source}]


FORMATS: dict[str, tuple[Callable[[str], list[Cell]], Callable[[Exercise], list[Cell]]]] = {
    "netrepro": (lambda slug: [], cells_to_work_in),
    "nbgrader": (lambda slug: [], nbgrader_cells),
    "otter": (otter_first, otter_cells),
}


def write_class_copies(into: Path, slugs: Sequence[str] | None = None, form: str = "netrepro") -> list[Path]:
    """Write class copies of the named notebooks, or of all that have solutions, into a folder; return the files.

    form : "netrepro", which `netrepro exercises --grade` grades, or "nbgrader" or "otter". The copies for these two are
        the instructor's: they hold solutions and hidden tests, and the tool makes the students' version from them.

    Raises NetreproError, before anything is written, for an unknown name or a file that exists already; and for a
    folder that cannot be written.
    """
    if form not in FORMATS:
        raise NetreproError(f"no format {form!r}", nearest(form, FORMATS))
    first, cells_of = FORMATS[form]
    chosen = [each for each in select(slugs) if not each.problem]
    chosen = [each for each in chosen if slugs or any(exercise.code for exercise in exercises_of(each))]
    copies = {into / each.path.name: class_copy(read_notebook(each.path), each.slug, cells_of) for each in chosen}
    for each in chosen:
        copies[into / each.path.name]["cells"][:0] = first(each.slug)
    there = [path.name for path in copies if path.exists()]
    if there:
        raise NetreproError(
            f"{into} holds {there[0]} already", "choose an empty folder: a student may have worked there"
        )
    try:
        into.mkdir(parents=True, exist_ok=True)
        for path, content in copies.items():
            write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise NetreproError(f"cannot write to {into}: {error.strerror}", "choose another folder") from None
    return list(copies)
