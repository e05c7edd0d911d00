"""Which code a paper's numbers come from: a hash of the modules that it imports, of theirs, and of the core."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import netrepro
from netrepro.files import file_sha256

PACKAGE = Path(netrepro.__file__).parent


def code_of(slug: str, package: Path = PACKAGE) -> str:
    """Hash a paper's module or package, all of the library that it imports, and the core's sources.

    Equal where a run would measure with the same code; "" of a paper that is not there. package : the library's folder.
    """
    waiting, seen, found = [f"{package.name}.papers.{slug}"], set(), {}
    while waiting:
        name = waiting.pop()
        if name in seen or name.partition(".")[0] != package.name:
            continue
        seen.add(name)
        path = _file(name, package)
        if path is not None:
            found[name] = path
            waiting += _imports(name, path)
    own = [path for path in found.values() if slug in (path.stem, path.parent.name)]
    if not own:
        return ""
    core = sorted(each for each in (package.parent / "core").rglob("*") if each.suffix in (".cpp", ".hpp", ".h"))
    digest = hashlib.sha256()
    for name, path in [*sorted(found.items()), *((str(each.relative_to(package.parent)), each) for each in core)]:
        digest.update(f"{name} {_digest(path)}\n".encode())
    return digest.hexdigest()[:16]


def _file(name: str, package: Path) -> Path | None:
    """Find the file of a module's dotted name; None where it is not the library's."""
    place = package.parent / name.replace(".", "/")
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None)


@cache
def _imports(name: str, path: Path) -> tuple[str, ...]:
    """List everything that a module may import, inside functions too, as dotted names; the packages above them with
    them."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names: list[str] = []
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(part for each in names for part in _with_packages(each)))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement inside a node: no expression holds one, and most nodes are expressions."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, block, ()):
            yield each
            yield from _statements(each)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


_digest = cache(file_sha256)
