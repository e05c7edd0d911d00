"""What values a parameter may take, as the help of its declaration ends: `# offered load [0 < load < 1]`.

    [1 to 1000]                                             a number from 1 to 1000, both included; or each of a list
    [0 < load < 1]   [0 ≤ spread < 1]   [seed ≥ 0]          (≤ and ≥, because papermill cannot read = in a comment)
    [one of reno, cubic]                                    words
    [one of web_search, a file]   [one of empty, a folder]  words, or a path that exists, or no text at all

Read and checked before a kernel starts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netrepro.errors import NetreproError, nearest

BRACKET = re.compile(r"\[(?P<inside>[^\[\]]*)\]\s*$")
NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d+)?"
TO = re.compile(rf"(?P<low>{NUMBER}) to (?P<high>{NUMBER})")
CHAIN = re.compile(
    rf"(?:(?P<low>{NUMBER})\s*(?P<from>[<≤])\s*)?(?P<name>[^\W\d]\w*)(?:\s*(?P<to>[<≤])\s*(?P<high>{NUMBER}))?"
)
LEAST = re.compile(rf"(?P<name>\w+)\s*(?P<from>[>≥])\s*(?P<low>{NUMBER})")
PATHS = {"a file": Path.is_file, "a folder": Path.is_dir}
FORM = "write it as [1 to 9], [0 < name < 1], [name ≥ 0] or [one of a, b]"


@dataclass(frozen=True)
class Range:
    """What a parameter may be; numbers in a range, or one of some words (`empty`, `a file` and `a folder` too)."""

    text: str
    low: float = -math.inf
    high: float = math.inf
    low_itself: bool = True
    high_itself: bool = True
    words: tuple[str, ...] = ()

    def holds(self, value: Any) -> bool:
        """Is it in the range? Of a list: are all of its items?"""
        if isinstance(value, list):
            return all(self.holds(item) for item in value)
        if isinstance(value, str):
            return self._holds_word(value)
        return self.low <= value <= self.high and (
            (self.low_itself or value != self.low) and (self.high_itself or value != self.high)
        )

    def _holds_word(self, word: str) -> bool:
        if word in self.words and word not in (*PATHS, "empty"):
            return True
        if not word:
            return "empty" in self.words
        return self.is_path(word)

    def is_path(self, value: Any) -> bool:
        """Whether a value is no word of the range but names a file or folder that it allows."""
        if not isinstance(value, str) or not value or (value in self.words and value not in PATHS):
            return False
        return any(test(Path(value).expanduser()) for name, test in PATHS.items() if name in self.words)

    def advice(self, value: Any) -> str:
        """What to give instead; nothing where the range says it all."""
        return nearest(value, [word for word in self.words if word != "empty"]) if isinstance(value, str) else ""


def read_range(help: str, name: str) -> Range | None:
    """The range that a parameter's help ends with; None without one.

    Raises NetreproError for brackets that say something else, or name another parameter.
    """
    bracket = BRACKET.search(help)
    if bracket is None:
        return None
    inside = bracket["inside"].strip()
    if inside.startswith("one of "):
        return Range(inside, words=tuple(word.strip() for word in inside.removeprefix("one of ").split(",")))
    match = TO.fullmatch(inside) or CHAIN.fullmatch(inside) or LEAST.fullmatch(inside)
    found = match.groupdict() if match else {}
    if found.get("name", name) != name or (found.get("low") is None and found.get("high") is None):
        raise NetreproError(f"parameter {name}: cannot read the range [{inside}]", FORM)
    return Range(
        inside,
        low=float(found["low"]) if found.get("low") is not None else -math.inf,
        high=float(found["high"]) if found.get("high") is not None else math.inf,
        low_itself=found.get("from") not in ("<", ">"),
        high_itself=found.get("to") != "<",
    )


STANDARD = {  # of parameters that every paper has, where a declaration says nothing narrower
    "profile": "one of quick, paper",
    "repetitions": "2 to 10000",
    "seed": "0 to 4294967295",
    "jobs": "1 to 1024",
}


def range_of(name: str, help: str) -> Range | None:
    """The range in the help or, without one, the standard one of that name."""
    return read_range(help, name) or (read_range(f"[{STANDARD[name]}]", name) if name in STANDARD else None)
