"""The values that a parameter may take, from brackets at the end of its help: `# offered load [0 < load < 1]`.

    [1 to 1000]                                             a number from 1 to 1000, both included, or a list of them
    [0 < load < 1]   [0 ≤ spread < 1]   [seed ≥ 0]          (≤ and ≥, because papermill cannot read = in a comment)
    [one of reno, cubic]                                    words
    [one of web_search, a file]   [one of empty, a folder]  words, or a path that exists, or no text at all

Ranges are read and checked before a kernel starts.
"""

from __future__ import annotations

import math
import re

from netrepro.allowed_values import Range
from netrepro.errors import NetreproError

BRACKET = re.compile(r"\[(?P<inside>[^\[\]]*)\]\s*$")
NUMBER = r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?"
TO = re.compile(rf"(?P<low>{NUMBER}) to (?P<high>{NUMBER})")
CHAIN = re.compile(
    rf"(?:(?P<low>{NUMBER})\s*(?P<from>[<≤])\s*)?(?P<name>[^\W\d]\w*)(?:\s*(?P<to>[<≤])\s*(?P<high>{NUMBER}))?"
)
LEAST = re.compile(rf"(?P<name>\w+)\s*(?P<from>[>≥])\s*(?P<low>{NUMBER})")
FORM = "write it as [1 to 9], [0 < name < 1], [name ≥ 0] or [one of a, b]"


def read_range(help: str, name: str) -> Range | None:
    """Read the range at the end of a parameter's help; None where there are no brackets.

    Raises NetreproError for brackets that hold no range, or the name of another parameter.
    """
    bracket = BRACKET.search(help)
    if bracket is None:
        return None
    inside = bracket["inside"].strip()
    if inside.startswith("one of "):
        return Range(words=tuple(word.strip() for word in inside.removeprefix("one of ").split(",")))
    match = TO.fullmatch(inside) or CHAIN.fullmatch(inside) or LEAST.fullmatch(inside)
    parts = match.groupdict() if match else {}
    if parts.get("name", name) != name or (parts.get("low") is None and parts.get("high") is None):
        raise NetreproError(f"parameter {name}: cannot read the range [{inside}]", FORM)
    return Range(
        low=float(parts["low"]) if parts.get("low") is not None else -math.inf,
        high=float(parts["high"]) if parts.get("high") is not None else math.inf,
        low_itself=parts.get("from") not in ("<", ">"),
        high_itself=parts.get("to") != "<",
    )


STANDARD = {  # ranges of parameters that every paper has, where a parameter's help has no range
    "profile": "one of quick, paper",
    "repetitions": "2 to 10000",
    "seed": "0 to 4294967295",
    "jobs": "1 to 1024",
}


def range_of(name: str, help: str) -> Range | None:
    """Return the range in the help or, without one, the standard range for that name; None where there is neither."""
    return read_range(help, name) or (read_range(f"[{STANDARD[name]}]", name) if name in STANDARD else None)
