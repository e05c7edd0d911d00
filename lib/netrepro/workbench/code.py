"""The code that a paper's numbers come from, as a hash: of its notebook's code, its data, the modules that it imports
directly or indirectly, the files that these start or compile, the core and the virtual kernel."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import netrepro
from netrepro.files import file_sha256
from netrepro.paths import all_data, notebooks_dir

_DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)  # nodes that may have a docstring
PACKAGE = Path(netrepro.__file__).parent
# A quoted file name in a module: a guest's program or a compiler's input, beside the module or in a folder beside it.
_FILE_NAME = re.compile(r'"(\w[\w.]*\.\w+)"')
# A string, which is kept; or text that Python does not run: a comment, blanks before a line's end, an empty line.
_WORDS = re.compile(
    r"""(?P<string>("{3}|'{3})(?:\\.|.)*?\2|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"|[ \t]*#[^\n]*|[ \t]+$|\n(?=[ \t]*(?:#[^\n]*)?$)",
    re.DOTALL | re.MULTILINE,
)
_SAYS_ONLY = ("claims.yaml", "SOURCES.md", "README.md")  # files of a paper's data that no measurement reads


def code_of(slug: str, package: Path = PACKAGE) -> str:
    """Return a hash of all that a paper's numbers come from; "" for a paper that does not exist.

    It covers the code in the paper's notebook, its data, its module or package, all modules of the library that these
    import, and the sources of the core and of the virtual kernel. It leaves out installed packages, the machine, the
    parameters of a run, comments, docstrings and empty lines. Two hashes are equal where a run would measure with the
    same code. package : the library's folder.
    """
    waiting, seen, modules = [f"{package.name}.papers.{slug}"], set(), {}
    while waiting:
        name = waiting.pop()
        if name in seen or name.partition(".")[0] != package.name:
            continue
        seen.add(name)
        path = _file(name, package)
        if path is not None:
            modules[name] = path
            waiting += _imports(name, path)
            for beside in _files_beside(path):
                modules[str(beside.relative_to(package.parent))] = beside
                waiting += _imports(name, beside) if beside.suffix == ".py" else ()
    own = [path for path in modules.values() if slug in (path.stem, path.parent.name)]
    if not own:
        return ""
    compiled = [*_below(package.parent / "core"), *_below(package.parent / "kernel")]
    named = {str(path.relative_to(package.parent)): path for path in compiled}
    data = all_data()
    named |= {f"data {path.relative_to(data)}": path for path in _inputs(slug, data)}
    digest = hashlib.sha256(_notebook_code(slug).encode())
    for name, path in sorted((modules | named).items()):
        digest.update(f"{name} {_digest(path)}\n".encode())
    return digest.hexdigest()[:16]


def _below(sources: Path) -> list[Path]:
    """List the sources, headers, patches and build files below a folder."""
    endings = (".cpp", ".hpp", ".h", ".c", ".patch")
    return [each for each in sources.rglob("*") if each.suffix in endings or each.name in ("config", "Makefile")]


def _inputs(slug: str, data: Path) -> list[Path]:
    """List the files of data/ that a paper may read: its own, and those in folders that belong to no paper."""
    folders = [each for each in data.iterdir() if each.name == slug or not (each / "claims.yaml").exists()]
    files = (each for folder in folders for each in folder.rglob("*") if each.is_file())
    return [each for each in files if each.name not in _SAYS_ONLY]


def _notebook_code(slug: str) -> str:
    """Return the code cells of a paper's notebook as one text; "" where there is no notebook."""
    cells = []
    for path in sorted(notebooks_dir().glob(f"[0-9][0-9]_{slug}.ipynb")):
        cells += [each for each in json.loads(path.read_text(encoding="utf-8"))["cells"] if each["cell_type"] == "code"]
    return "\n\n".join("".join(each["source"]) for each in cells)


def _file(name: str, package: Path) -> Path | None:
    """Find the file of a module by its dotted name; None where the library has no such module."""
    place = package.parent / name.replace(".", "/")
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None)


class _Module(NamedTuple):
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    quoted: tuple[str, ...]  # what may be names of files
    digest: str


@cache
def _read(path: Path) -> _Module:
    """Read and parse a module, once for all that is asked about it."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    return _Module(
        tuple(each for each in _statements(tree) if isinstance(each, ast.Import | ast.ImportFrom)),
        tuple(_FILE_NAME.findall(text)),
        hashlib.sha256(without_words(text, tree).encode()).hexdigest(),
    )


@cache
def _files_beside(path: Path) -> tuple[Path, ...]:
    """List the files that a module names and that lie beside it, or in a folder beside it."""
    names = set(_read(path).quoted) - {path.name, "__init__.py"}
    folders = [path.parent, *(each for each in path.parent.iterdir() if each.is_dir())] if names else []
    return tuple(folder / name for name in sorted(names) for folder in folders if (folder / name).is_file())


@cache
def _imports(name: str, path: Path) -> tuple[str, ...]:
    """List the dotted names that a module may import, also inside functions, with the packages that contain them."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names: list[str] = []
    for node in _read(path).imports:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        else:
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(part for each in names for part in _with_packages(each)))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and every statement inside it. Expressions, which most nodes are, hold none and are skipped."""
    yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, block, ()):
            yield from _statements(each)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@cache
def _digest(path: Path) -> str:
    return _read(path).digest if path.suffix == ".py" else file_sha256(path)


def without_words(python: str, tree: ast.Module) -> str:
    r"""Return a module's text without comments, docstrings and empty lines; a body of only a docstring becomes "".

    tree : the text, parsed.

    >>> text = "def f():  # of one\n    'Return 1.'\n\n    return 1"
    >>> without_words(text, ast.parse(text))
    'def f():\n    return 1'
    """
    lines = python.split("\n")
    for node in _statements(tree):
        if not isinstance(node, _DESCRIBED) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            start, end = first.lineno - 1, first.end_lineno or first.lineno
            indent, behind = lines[start][: first.col_offset], lines[end - 1].encode()[first.end_col_offset :].strip()
            if not indent.strip() and not behind.strip():  # else there is other code on these lines
                lines[start:end] = ["" if len(node.body) > 1 else f'{indent}""'] + [""] * (end - start - 1)
    return _WORDS.sub(lambda part: part["string"] or "", "\n".join(lines)).strip("\n")
