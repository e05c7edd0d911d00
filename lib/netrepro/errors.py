"""The one exception family: every error that a user can cause says what was given, expected, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NetreproError(Exception):
    """An error with its remedy.

    Parameters
    ----------
    problem : what was given and why it cannot be used.
    remedy : what to do next; shown after the problem.
    """

    def __init__(self, problem: str, remedy: str = ""):
        super().__init__(problem if not remedy else f"{problem}\n  {remedy}")
        self.problem, self.remedy = problem, remedy


def nearest(given: str, valid: Iterable[str], *, with_all: bool = False) -> str:
    """Return a hint that names the valid word nearest to `given`, or lists all words when none is near.

    with_all : also list all words after the nearest. Capital and small letters count as the same.

    >>> nearest("dctpc", ["dctcp", "red"])
    "did you mean 'dctcp'?"
    >>> nearest("dctpc", ["dctcp", "red"], with_all=True)
    "did you mean 'dctcp', of dctcp, red?"
    >>> nearest("RED", ["dctcp", "red"])
    "did you mean 'red'?"
    """
    words = list(valid)
    by_small_letters = {word.casefold(): word for word in words}
    close = difflib.get_close_matches(str(given).casefold(), by_small_letters, n=1, cutoff=0.5)
    if close:
        of_all = f", of {', '.join(words)}" if with_all else ""
        return f"did you mean {by_small_letters[close[0]]!r}{of_all}?"
    return f"valid: {', '.join(words)}" if words else "none are valid here"
