"""Finds the sources of the compiled core that the library's names reach, and reads C and C++ without comments."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

ENDINGS = (".cpp", ".hpp", ".c", ".h")  # of C and C++
ALWAYS = ("bindings/module.cpp",)  # what every name of the core needs
# A name that a file of bindings gives the Python module, as in module.def("name", …) or class_<Queue>(module, "Queue".
_BOUND = re.compile(r'(?:module\.(?:def|attr)\(|\(\s*module,)\s*"(\w+)"')
_INCLUDED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# A string or a character, which is kept; or a comment; or blanks before a line's end, an empty line.
_KEPT = (
    r"""(?P<kept>R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')|"""
)
_COMMENTS = re.compile(_KEPT + r"[ \t]*//(?:\\\n|[^\n])*|[ \t]*/\*.*?\*/", re.DOTALL)
_EMPTY = re.compile(_KEPT + r"[ \t]+$|\n(?=[ \t]*(?:\n|$))", re.DOTALL | re.MULTILINE)


def sources_of(names: Collection[str], core: Path) -> list[Path]:
    """List the sources that names of the Python module `_core` reach: the bindings that define them, the headers that
    these include, and the files that implement these headers.

    names : "" stands for all. core : the folder of the sources; where there is none, there are no sources.
    """
    if not names or not core.is_dir():
        return []
    bindings = names_of_bindings(core)
    wanted = {core / name for name in ALWAYS}
    wanted |= {path for path, own in bindings.items() if "" in names or not own.isdisjoint(names)}
    return reached(wanted, core)


def reached(files: Iterable[Path], core: Path) -> list[Path]:
    """List sources with the headers that they include, directly or not, and the files that implement these: for
    queue.hpp, queue.cpp and queue_*.cpp beside it."""
    waiting, seen = list(files), set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        waiting += [core / name for name in _INCLUDED.findall(text_of(path))]
        if path.suffix == ".hpp":
            waiting += [path.with_suffix(".cpp"), *path.parent.glob(f"{path.stem}_*.cpp")]
    return sorted(seen)


@cache
def names_of_bindings(core: Path) -> dict[Path, frozenset[str]]:
    """Return the names that each file of bindings gives the Python module."""
    return {path: frozenset(_BOUND.findall(text_of(path))) for path in sorted((core / "bindings").glob("*.cpp"))}


@cache
def text_of(path: Path) -> str:
    """Read a source."""
    return path.read_text(encoding="utf-8")


@cache
def digest(path: Path) -> str:
    """Hash a file; C and C++ without comments, blanks at ends of lines and empty lines."""
    if path.suffix not in ENDINGS:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return hashlib.sha256(without_comments(text_of(path)).encode()).hexdigest()


def without_comments(text: str) -> str:
    r"""Return C or C++ without comments, blanks at ends of lines and empty lines.

    >>> without_comments('int a;  // one\n\n/* two */ char b = \'"\';')
    'int a;\n char b = \'"\';'
    """
    for cut in (_COMMENTS, _EMPTY):  # the lines of comments are empty only when these are cut
        text = cut.sub(lambda part: part["kept"] or "", text)
    return text.strip("\n")
