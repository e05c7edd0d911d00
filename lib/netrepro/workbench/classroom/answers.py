"""Record the answers of a student's notebook. This module runs in the notebook's process, which has no solutions.

The file holds only the answers that the student's code computed. Another process decides whether they are right, so a
student gains nothing by changing this module.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.workbench.classroom import exercises
from netrepro.workbench.classroom.exercises import Checked, parts_of
from netrepro.workbench.running import run_folder

ANSWERS = "answers.json"
MISSING, NOT_ENDED = {"error": "", "shown": ""}, {"error": "it did not end", "shown": ""}
LONGEST_SHOWN = 200  # characters of an answer
LONGEST_ANSWER = 10_000  # numbers and words
MOST_TEXT, MOST_PICTURES = 1_000_000, 20_000_000  # characters that a notebook may print, and bytes that it may show

_asked: list[int] = []
_errors: dict[int, str] = {}
_begun: set[int] = set()


def begin(asked: Sequence[int]) -> None:
    """Prepare the notebook before its first cell: limit its output, let `exit()` end a cell and not the notebook, and
    let checks say nothing yet.

    asked : the numbers of the exercises whose answers are recorded.
    """
    _asked[:] = asked
    names = exercises.names_of_the_notebook()
    names["exit"] = names["quit"] = sys.exit
    for stream in (sys.stdout, sys.stderr):
        stream.write = _limited(stream.write)  # type: ignore[method-assign]
    left = MOST_PICTURES

    def hook(message: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal left
        left -= sum(len(str(each)) for each in message["content"].get("data", {}).values())
        return message if left > 0 else None

    from IPython.core.getipython import get_ipython

    publisher: Any = getattr(get_ipython(), "display_pub", None)
    if hasattr(publisher, "register_hook"):
        publisher.register_hook(hook)
    exercises.check_answer = lambda *_, **__: Checked(None, "This is checked when it is graded.")


def _limited(write: Callable[[str], Any]) -> Callable[[str], int]:
    """Return a stream's `write` that drops all characters beyond MOST_TEXT."""
    left = MOST_TEXT

    def limited(text: str) -> int:
        nonlocal left
        if left > 0:
            cut = text[:left]
            write(cut if len(cut) == len(text) else f"{cut}\n[it printed more than {MOST_TEXT} characters]\n")
            left -= len(text)
        return len(text)

    return limited


async def attempt(number: int, code: str) -> None:
    """Execute a student's cell; an error is recorded and does not end the notebook."""
    from IPython.core.getipython import get_ipython

    shell, names = get_ipython(), exercises.names_of_the_notebook()
    assert shell is not None
    _write(_begun, {number: NOT_ENDED})  # stays in the file if this cell does not end
    _begun.add(number)
    try:
        compiled = compile(shell.transform_cell(code), f"<exercise {number}>", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
        waits_for = eval(compiled, names)
        if inspect.iscoroutine(waits_for):
            await waits_for
    except SystemExit as error:
        if error.code not in (None, 0):
            _errors.setdefault(number, f"SystemExit: {error}")
    except BaseException as error:
        _errors.setdefault(number, f"{type(error).__name__}: {error}")
    _write(_begun)


def finish() -> None:
    """Record all answers, after the last cell."""
    _write(_asked)


def _write(numbers: Sequence[int] | set[int], more: dict[int, Any] | None = None) -> None:
    answers = {number: _answer(number) for number in numbers if number in _asked} | (more or {})
    write_atomically(Path(os.environ[run_folder.RUN_DIR_VARIABLE]) / ANSWERS, json.dumps(answers))


def _answer(number: int) -> dict[str, Any]:
    given = exercises.names_of_the_notebook().get(f"answer_{number}")
    if given is None or given is Ellipsis:
        return MISSING | {"error": _errors.get(number, "")}
    try:
        shown = repr(given)[:LONGEST_SHOWN]
        if number in _errors:
            return {"shown": shown, "error": _errors[number]}
        numbers, words = parts_of(given)
        if len(numbers) + len(words) > LONGEST_ANSWER:
            return {"shown": shown, "error": f"an answer of more than {LONGEST_ANSWER} numbers and words"}
    except NetreproError as error:
        return {"shown": shown, "error": error.problem}
    except (Exception, SystemExit) as error:  # a class of the student's may raise anything
        return {"shown": "", "error": f"{type(error).__name__}: {error}"}
    return {"shown": shown, "numbers": numbers, "words": words, "error": ""}
