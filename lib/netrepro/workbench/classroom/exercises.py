"""Exercises of the notebooks: a list of them, class copies without their solutions, and a check of an answer.

An exercise is a numbered line under "Try next". A cell tagged `solution` names it in its metadata, under `netrepro`:

    {"exercise": 2, "answer": "the threshold in packets", "within": 0}

`answer` describes the answer, and `within` is its tolerance (a share; 0: exact). Without these two, a person reads the
answer. The value of the cell's last expression is the right answer. A cell that solves several exercises has a list of
their numbers, a list or one common value for each other key, and a tuple as its last expression.
"""

from __future__ import annotations

import ast
import copy
import io
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from html import escape
from typing import Any

from netrepro.errors import NetreproError
from netrepro.workbench.catalogue.notebooks import Notebook, cell_source, find, read_notebook, select

HEADING = re.compile(r"## (12 )?Try next")
ITEM = re.compile(r"(\d+)\. (.+)")
Parts = tuple[list[float], list[str]]  # an answer's numbers and words
SOLUTION, OWN_WORK, CHECK = "solution", "answer", "check"  # tags of cells
# The last line of a notebook's list of exercises; a class copy has TO_DO in its place.
FOLDED = (
    "The solutions are folded below, and show nothing when they run: a click on the three dots of a cell opens it, and "
    "without its last semicolon it shows what it finds."
)
TO_DO = (
    "Work in the cells below, and put what you found in the place of the dots. The cell after each says whether it is "
    "right."
)


@dataclass(frozen=True)
class Exercise:
    """An exercise.

    slug, number, text : its notebook, its number there, and the task.
    code : its solution; empty where there is none.
    place : index of its answer in the tuple that the solution's last expression returns; None: the whole value.
    answer : a description of the answer that is asked for; empty where a person reads it.
    within : tolerance of a number, as a share of the solution's number.
    """

    slug: str
    number: int
    text: str
    code: str = ""
    place: int | None = None
    answer: str = ""
    within: float = 0.0

    @property
    def how_close(self) -> str:
        """The tolerance in words."""
        return f"within {100 * self.within:g} %" if self.within else "exactly"


@dataclass(frozen=True)
class Checked:
    """The result of a check; it counts as true where the answer is right. `right` is None without an answer."""

    right: bool | None
    text: str

    def __bool__(self) -> bool:
        return self.right is True

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        colour = {True: "#009E73", False: "#D55E00", None: "#777777"}[self.right]
        return f'<span style="color: {colour}">{escape(self.text)}</span>'


def exercises(slugs: Sequence[str] | None = None) -> list[Exercise]:
    """Return the exercises of the named notebooks, or of all.

    Raises NetreproError for an unknown name, and for a solution that does not say what it solves.
    """
    return [exercise for notebook in select(slugs) if not notebook.problem for exercise in exercises_of(notebook)]


def exercises_of(notebook: Notebook) -> list[Exercise]:
    """Return the exercises of a notebook. Raises NetreproError for a solution that does not say what it solves."""
    return read_exercises(read_notebook(notebook.path), notebook.slug)


def read_exercises(content: Mapping[str, Any], slug: str) -> list[Exercise]:
    """Return the exercises of a notebook, given its JSON; raises as `exercises_of` does."""
    texts: dict[int, str] = {}
    for cell in content["cells"]:
        if is_list(cell):
            texts |= {int(item[1]): item[2] for item in map(ITEM.fullmatch, cell_source(cell).splitlines()) if item}
    exercises = {number: Exercise(slug, number, text) for number, text in texts.items()}
    for cell in content["cells"]:
        if SOLUTION in cell.get("metadata", {}).get("tags", []):
            for exercise in _solved(cell, slug, texts):
                exercises[exercise.number] = exercise
    return list(exercises.values())


def is_list(cell: Mapping[str, Any]) -> bool:
    """Tell whether a cell is the one that lists the exercises."""
    return cell["cell_type"] == "markdown" and any(map(HEADING.fullmatch, cell_source(dict(cell)).splitlines()))


def _solved(cell: dict[str, Any], slug: str, texts: Mapping[int, str]) -> list[Exercise]:
    """List the exercises that a cell tagged `solution` solves."""
    said = cell["metadata"].get("netrepro", {})
    numbers = said.get("exercise")
    several = isinstance(numbers, list)
    numbers = numbers if several else [numbers]
    answers, withins = (_each(said.get(key), len(numbers)) for key in ("answer", "within"))
    if not all(number in texts for number in numbers) or None in (answers, withins):
        raise NetreproError(
            f"{slug}: a cell tagged `{SOLUTION}` does not say which exercise it solves: {said or 'no metadata'}",
            'write {"netrepro": {"exercise": 1, "answer": "what to give", "within": 0.05}} into its metadata',
        )
    return [
        Exercise(
            slug, number, texts[number], cell_source(cell), place if several else None, answer or "", within or 0.0
        )
        for place, (number, answer, within) in enumerate(zip(numbers, answers or [], withins or [], strict=True))
    ]


def _each(value: Any, count: int) -> list[Any] | None:
    """Return a list of `count` values, one for each exercise; None where `value` is a list of another length."""
    values = value if isinstance(value, list) else [value] * count
    return values if len(values) == count else None


# A class copy --------------------------------------------------------------------------------------


def what_to_give(exercise: Exercise) -> str:
    """Return a sentence that says which answer an exercise asks for."""
    wanted = f"What to give: {exercise.answer} ({exercise.how_close})." if exercise.answer else "A person reads it."
    return f"Exercise {exercise.number}. {wanted}"


def cells_to_work_in(exercise: Exercise) -> list[dict[str, Any]]:
    """Return the cells of an exercise in a class copy."""
    number = exercise.number
    work = f"# {what_to_give(exercise)}\nanswer_{number} = ..."
    cells = [code_cell(f"exercise-{number}", work, OWN_WORK, number)]
    if exercise.answer:
        cells.append(code_cell(f"check-{number}", check_of(exercise.slug, number), CHECK, number))
    return cells


def check_of(slug: str, number: int) -> str:
    """Return the code of the cell that checks an answer."""
    return f'from netrepro.workbench import guide\n\nguide.check_answer("{slug}", {number}, answer_{number})'


def code_cell(name: str, source: str, tag: str, number: int) -> dict[str, Any]:
    """Return a code cell of an exercise."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": {"tags": [tag], "netrepro": {"exercise": number}},
        "outputs": [],
        "source": source,
    }


def class_copy(
    content: Mapping[str, Any], slug: str, cells_of: Callable[[Exercise], list[dict[str, Any]]] = cells_to_work_in
) -> dict[str, Any]:
    """Return a notebook's JSON with each solution replaced by the cells that `cells_of` makes. By default these are a
    cell to work in and a cell that checks the answer."""
    made = copy.deepcopy(dict(content))
    cells: list[dict[str, Any]] = []
    texts = {exercise.number: exercise.text for exercise in read_exercises(content, slug)}
    for cell in made["cells"]:
        if is_list(cell):
            cell["source"] = cell_source(cell).replace(FOLDED, TO_DO)
        if SOLUTION not in cell.get("metadata", {}).get("tags", []):
            cells.append(cell)
            continue
        for exercise in _solved(cell, slug, texts):
            cells += cells_of(exercise)
    return made | {"cells": cells}


# A check -------------------------------------------------------------------------------------------


def check_answer(slug: str, number: int, given: Any, names: Mapping[str, Any] | None = None) -> Checked:
    """Check whether an answer is right, without showing the solution.

    The solution is executed with the variables that the cells above have made. So the answer is compared with a value
    of the same run.

    Parameters
    ----------
    given : the answer: a number, a text, a table or several of these. Order and labels do not count.
    names : the variables, name -> value; default: those of this notebook.

    Raises
    ------
    NetreproError : for an unknown notebook or exercise, for an exercise whose answer a person reads, and where the
        cells above have not been run.
    """
    exercise = checkable(slug, number)
    if given is None or given is Ellipsis:
        return Checked(None, f"Exercise {number}: no answer yet. What to give: {exercise.answer}.")
    expected = solution_of(exercise, names_of_the_notebook() if names is None else names)
    problem = difference(parts_of(given), parts_of(expected), exercise.within)
    text = f"right, {exercise.how_close}" if not problem else f"not yet: {problem}. Asked for: {exercise.answer}"
    return Checked(not problem, f"Exercise {number}: {text}.")


def solution(slug: str, number: int) -> Any:
    """Return the answer that an exercise's solution computes in this notebook, as plain numbers and words.

    Raises NetreproError as check_answer does.
    """
    answer = solution_of(checkable(slug, number), names_of_the_notebook())
    answer = answer.to_numpy() if hasattr(answer, "to_numpy") else answer
    return answer.tolist() if hasattr(answer, "tolist") else answer


def checkable(slug: str, number: int) -> Exercise:
    """Return an exercise whose answer can be checked. Raises NetreproError for any other number."""
    notebook = find(slug)
    exercises = exercises_of(notebook)
    fitting = [exercise for exercise in exercises if exercise.answer]
    for exercise in fitting:
        if exercise.number == number:
            return exercise
    is_there = any(exercise.number == number for exercise in exercises)
    problem = "is read by a person" if is_there else f"is not in {notebook.path.name}"
    checked = ", ".join(str(exercise.number) for exercise in fitting)
    raise NetreproError(f"exercise {number} {problem}", f"checked are: {checked or 'none of its exercises'}")


def solution_of(exercise: Exercise, names: Mapping[str, Any]) -> Any:
    """Compute the right answer of an exercise from `names`, the variables that a notebook's cells have made.

    `names` is not changed. Raises NetreproError where the solution cannot be executed.
    """
    tree = ast.parse(exercise.code)
    last = tree.body.pop()
    if not isinstance(last, ast.Expr):
        raise NetreproError(f"{exercise.slug}, exercise {exercise.number}: its solution does not end with its answer")
    space, where = dict(names), f"<solution of exercise {exercise.number}>"
    try:
        with redirect_stdout(io.StringIO()):
            exec(compile(tree, where, "exec"), space)
            value = eval(compile(ast.Expression(last.value), where, "eval"), space)
    except Exception as error:
        raise NetreproError(
            f"exercise {exercise.number} cannot be checked here: {type(error).__name__}: {error}",
            "run all cells above first; they must not be changed but for the settings",
        ) from None
    return value if exercise.place is None else value[exercise.place]


def names_of_the_notebook() -> dict[str, Any]:
    """Return the variables that the cells of this notebook have made. Raises NetreproError outside of a notebook."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise NetreproError("this is no notebook", "give check_answer the names that the notebook's cells have made")
    return shell.user_ns


def difference(given: Parts, expected: Parts, within: float) -> str:
    """Say why an answer is wrong, without naming the expected one; "" where it is right.

    within : tolerance of numbers, as a share of the expected number.
    """
    (numbers, words), (right_numbers, right_words) = given, expected
    for what, ours, theirs in (("number", numbers, right_numbers), ("word", words, right_words)):
        if len(ours) != len(theirs):
            return f"{len(theirs)} {what}{'s' * (len(theirs) != 1)} would be right, {len(ours)} {what}s were given"
    pairs = zip(sorted(numbers), sorted(right_numbers), strict=True)
    if sorted(words) == sorted(right_words) and all(_close(one, other, within) for one, other in pairs):
        return ""
    return "it is another" if len(numbers) + len(words) == 1 else "not all of them are right"


def _close(one: float, other: float, within: float) -> bool:
    return abs(one - other) <= within * abs(other) + 1e-9 * max(1.0, abs(other)) or one == other


def parts_of(value: Any) -> Parts:
    """Split an answer into its numbers and its words. NaN counts as a word, so that it equals itself.

    Raises NetreproError for a value that is neither a number, a text nor a collection of them.
    """
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = [parts_of(each) for each in value]
        return [number for numbers, _ in parts for number in numbers], [word for _, words in parts for word in words]
    if isinstance(value, bool) or value is None:
        return [], [str(value).lower()]
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return [], [value.strip().lower()]
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise NetreproError("an answer of more than 300 digits", "give a number that a float can hold")
    if isinstance(value, (int, float)):
        return ([], ["nan"]) if math.isnan(value) else ([float(value)], [])
    raise NetreproError(
        f"an answer cannot be of type {type(value).__name__}", "give a number, a text, a table or a list of them"
    )
