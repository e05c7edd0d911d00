"""What a measurement has really run and read, beside the code that its hash covers."""

from __future__ import annotations

import ast
import cProfile
import os
import sys
import threading
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from netrepro.paths import all_data
from netrepro.workbench import code
from netrepro.workbench.code.definitions import SHOWN

_listening: set[ExecutedCode] = set()


class ExecutedCode:
    """Records the library's functions that run in a `with` block, on all its threads, and the files that are opened.

    Functions that run while a module is imported do not count: importing is not measuring. A profile in C counts the
    calls: a trace in Python would take three times as long as what it looks at.
    """

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.opened: set[Path] = set()
        self._profiles: list[cProfile.Profile] = []

    def __enter__(self) -> ExecutedCode:
        _listening.add(self)
        self._before = threading.getprofile()
        threading.setprofile(self._begin)  # of threads that start now
        self._begin()
        return self

    def __exit__(self, *exception: object) -> None:
        for profile in self._profiles:  # one that is not, ends that of another thread when it is deleted
            profile.disable()
        threading.setprofile(self._before)
        _listening.discard(self)
        for profile in self._profiles:
            self.functions |= {
                each for each in _called(profile) if each.co_filename.startswith(f"{code.PACKAGE}{os.sep}")
            }

    def _begin(self, *event: object) -> None:
        """Profile this thread, in the place of this function where that was its profile."""
        self._profiles.append(cProfile.Profile(builtins=False))
        self._profiles[-1].enable()


def _called(profile: cProfile.Profile) -> set[CodeType]:
    """Return what was called, but for what only imports have called."""
    entries = {entry.code: entry for entry in profile.getstats() if isinstance(entry.code, CodeType)}
    by_others: Counter[CodeType] = Counter()
    for entry in entries.values():
        for callee in entry.calls or ():
            by_others[callee.code] += callee.callcount
    newest = {code for code, entry in entries.items() if entry.callcount > by_others[code]}
    called: set[CodeType] = set()
    while newest := {code for code in newest - called if code.co_name != "<module>"}:
        called |= newest
        newest = {callee.code for code in newest for callee in entries[code].calls or () if callee.code in entries}
    return called


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _listening and isinstance(arguments[0], str):
        for each in _listening:
            each.opened.add(Path(arguments[0]))


sys.addaudithook(_note_opened)  # cannot be removed; without a listener it does nothing


def not_hashed(executed: ExecutedCode, slug: str, tier: str) -> list[str]:
    """List the functions that ran, and the files of data/ that were read, that a paper's hash on a tier leaves out
    without a reason."""
    behind = code.code_behind(slug, tier)
    assert behind is not None
    programs = set(behind.needs.files)
    missing = set()
    for function in executed.functions:
        path = Path(function.co_filename)
        module = ".".join(path.relative_to(code.PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        names = _names_at(path, function.co_firstlineno)
        if path in programs or any(_tells(module, name) for name in names) or SHOWN.fullmatch(function.co_name):
            continue
        if not any(behind.needs.definitions.get((module, name)) for name in names):
            missing.add(f"{module}:{'/'.join(names)} ({function.co_qualname}) ran")
    read = {path for path in executed.opened if path.is_relative_to(all_data()) and path.name not in code.SAYS_ONLY}
    missing |= {f"{path.relative_to(all_data())} was read" for path in read - set(behind.files["data"])}
    return sorted(missing)


def _tells(module: str, name: str) -> bool:
    place = module.removeprefix("netrepro.")
    return not code.TELLS.keys().isdisjoint({place, f"{place}:{name}", *(f"{part}.*" for part in _above(place))})


def _above(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _names_at(path: Path, line: int) -> list[str]:
    """List the names that the statement of the top level at a line binds."""
    for node in _tree(path).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        if first <= line <= (node.end_lineno or node.lineno):
            return (
                [node.name]
                if hasattr(node, "name")
                else [
                    each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
                ]
            )
    return []
