"""What a measurement has really run and read, beside the code that its hash covers."""

from __future__ import annotations

import ast
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from netrepro.paths import all_data
from netrepro.workbench import code
from netrepro.workbench.code.definitions import SHOWN

_listening: set[ExecutedCode] = set()


class ExecutedCode:
    """Records the library's functions that run in a `with` block, on all its threads, and the files that are opened.

    Functions that run while a module is imported do not count: importing is not measuring.
    """

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.opened: set[Path] = set()
        self._others: set[CodeType] = set()
        self._imports = threading.local()
        self._folder = f"{code.PACKAGE}{os.sep}"

    def __enter__(self) -> ExecutedCode:
        """Look at calls alone: setprofile would also tell of returns and of calls of C, four times as many."""
        _listening.add(self)
        self._before = threading.gettrace(), sys.gettrace()  # of coverage
        threading.settrace(self._look)
        sys.settrace(self._look)
        return self

    def __exit__(self, *exception: object) -> None:
        of_threads, own = self._before
        sys.settrace(own)
        threading.settrace(of_threads)
        _listening.discard(self)

    def _look(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        own = frame.f_code
        if own in self.functions or own in self._others:
            return None
        if not own.co_filename.startswith(self._folder):
            self._others.add(own)
        elif own.co_name == "<module>":
            self._imports.depth = getattr(self._imports, "depth", 0) + 1
            frame.f_trace_lines = False
            return self._end_of_import
        elif not getattr(self._imports, "depth", 0):
            self.functions.add(own)
        return None

    def _end_of_import(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "return":
            self._imports.depth -= 1
        return self._end_of_import


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
