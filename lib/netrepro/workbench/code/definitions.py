"""Finds the definitions of a library that a name needs, read from the sources, without running them.

A definition is a statement of a module's top level: a function, a class, a constant. What it needs follows from the
names in it. Where a definition stands, and how it was imported, makes no difference.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

# A string, which is kept; or text that Python does not run: a comment, blanks before a line's end, an empty line.
_WORDS = re.compile(
    r"""(?P<string>("{3}|'{3})(?:\\.|.)*?\2|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"|[ \t]*#[^\n]*|[ \t]+$|\n(?=[ \t]*(?:#[^\n]*)?$)",
    re.DOTALL | re.MULTILINE,
)
_FILE_NAME = re.compile(r"\w[\w.]*\.\w+")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SHOWN = re.compile(r"_repr_\w+_|_ipython_display_")  # methods by which a notebook shows an object
_CUT = b"\0"  # in place of what is left out of a text
WHOLE = ""  # in place of a name: all of a module
ALL_OF_IT = ("*",)  # in place of keywords: a statement that is only this call is left out

Target = tuple[str, str | None]  # (module, name in it), or (module, None) for the module itself


@dataclass(frozen=True)
class Statement:
    """A statement of a module's top level: its text without comments, docstrings and imports, and what is named in it.

    uses : names and chains of attributes, such as "np.mean". imports : local name -> targets, of imports inside of it.
    attributes : the last names of all attributes.
    """

    text: str
    uses: frozenset[str]
    strings: frozenset[str]
    imports: Mapping[str, frozenset[Target]]
    attributes: frozenset[str]
    is_function: bool = False


@dataclass(frozen=True)
class Module:
    """A module, as its statements.

    bound : name -> the statements that give it a value. effects : statements that bind no name. imports : as in
    Statement, of the top level.
    """

    name: str
    path: Path
    bound: Mapping[str, tuple[Statement, ...]]
    effects: tuple[Statement, ...]
    imports: Mapping[str, frozenset[Target]]

    def __contains__(self, name: str) -> bool:
        return name in self.bound or name in self.imports


@dataclass
class Needs:
    """All that names need.

    definitions : (module, name) -> its statements; the name "" has the statements that bind none. files : those that
    definitions name and that lie beside them, a guest's program or a compiler's input. attributes : name -> attributes
    of a module of the library that has no source, the compiled core. left_out : definitions that were needed and left
    out. outside : names of other libraries, such as "np is numpy". asked : definitions that were asked for.
    """

    definitions: dict[tuple[str, str], tuple[Statement, ...]] = field(default_factory=dict)
    files: dict[Path, Statement | None] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    asked: set[tuple[str, str]] = field(default_factory=set)

    def statements(self) -> Iterator[Statement]:
        """Yield every statement that is needed, those of programs beside definitions too."""
        for statements in self.definitions.values():
            yield from statements
        yield from (each for each in self.files.values() if each is not None)

    def strings(self) -> set[str]:
        """Collect the strings of all statements."""
        return {word for statement in self.statements() for word in statement.strings}

    def lines(self) -> list[str]:
        """Return a sorted line for each definition: its name and the hash of its text, wherever it stands."""
        lines = {
            f"{name} {_sha(statement.text)}"
            for (_, name), statements in self.definitions.items()
            for statement in statements
        }
        lines |= {f"{path.name} {_sha(program.text)}" for path, program in self.files.items() if program is not None}
        return sorted(lines | self.outside)


class Library:
    """The sources of a package, of which definitions are asked for.

    folder : the package's. left_out : what is not followed, as "module", "module.*" (with all below) or "module:name".
    elsewhere : likewise; and functions of `programs` that name any of it are left out, too: they run what it has.
    programs : the name of a part of the package. cut : calls of this name lose the keywords in the tuple; with
    ALL_OF_IT, a statement that is only this call is left out.
    """

    def __init__(
        self,
        folder: Path,
        left_out: Collection[str] = (),
        elsewhere: Collection[str] = (),
        programs: str = "",
        cut: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.folder, self.package = folder, folder.name
        self._elsewhere, self._programs = set(elsewhere), f"{self.package}.{programs}."
        self._left_out = self._elsewhere | set(left_out)
        self._cut = tuple(sorted((name, tuple(keywords)) for name, keywords in (cut or {}).items()))

    def module(self, name: str) -> Module | None:
        """Return a module by its dotted name, None where the library has no such source."""
        path = file_of(self.folder.parent, name)
        return None if path is None else read_module(name, path, self._cut)

    def needs(
        self, roots: Iterable[tuple[str, str]], also: Iterable[Statement] = (), known: Needs | None = None
    ) -> Needs:
        """Return all that definitions need, given as (module, name), and statements of a script, whose imports they
        have themselves. Names that the library lacks need nothing. known : needs to which these are added."""
        needs, waiting = known or Needs(), list(roots)
        for statement in also:
            waiting += self._follow(statement, None, needs)
        while waiting:
            module_name, name = waiting.pop()
            if (module_name, name) in needs.asked:
                continue
            needs.asked.add((module_name, name))
            if _is_in(self._left_out, module_name, name) or self._runs_elsewhere(module_name, name):
                needs.left_out.add(f"{module_name}:{name}")
                continue
            module = self.module(module_name)
            if module is None:
                continue
            if name in module.imports and name not in module.bound:
                waiting += [each for target in module.imports[name] for each in self._resolve(name, target, [], needs)]
                continue
            names = list(module.bound) if name == WHOLE else [name]
            for each in names:
                needs.definitions[module_name, each] = module.bound.get(each, ())
            if (module_name, WHOLE) not in needs.definitions:  # what importing it does
                needs.definitions[module_name, WHOLE] = module.effects
                for statement in module.effects:
                    waiting += self._follow(statement, module, needs)
                waiting += [(parent, "__doc__") for parent in _parents(module_name)]
            for each in names:
                for statement in module.bound.get(each, ()):
                    waiting += self._follow(statement, module, needs)
        return needs

    def _runs_elsewhere(self, module_name: str, name: str) -> bool:
        """Tell whether this is a function that starts programs by means that are left out."""
        module = self.module(module_name) if module_name.startswith(self._programs) else None
        statements = module.bound.get(name, ()) if module is not None else ()
        return any(
            _is_in(self._elsewhere, *target)
            for statement in statements
            if statement.is_function
            for target in self._follow(statement, module, Needs())
        )

    def _follow(self, statement: Statement, module: Module | None, needs: Needs) -> Iterator[tuple[str, str]]:
        """Yield what a statement needs, and note the files and foreign names in it."""
        for chain in statement.uses:
            root, *rest = chain.split(".")
            if module is not None and root in module.bound:
                yield module.name, root
            targets = set(statement.imports.get(root, ()))
            if module is not None and root not in statement.imports:
                targets |= module.imports.get(root, frozenset())
            for target in targets:
                yield from self._resolve(root, target, rest, needs)
        for word in statement.strings:  # a module that is imported by its name
            if word.startswith(f"{self.package}.") and self.module(word) is not None:
                yield word, WHOLE
        if module is not None:
            for path in _files_beside(module.path, statement):
                yield from self._program(path, needs)

    def _program(self, path: Path, needs: Needs) -> Iterator[tuple[str, str]]:
        """Note a file beside a definition; yield what a program in Python needs."""
        if path in needs.files:
            return
        name = ".".join(path.relative_to(self.folder.parent).with_suffix("").parts)
        if path.suffix == ".py" and _is_in(self._left_out, name, WHOLE):
            needs.left_out.add(f"{name}:{WHOLE}")
            return
        needs.files[path] = None
        if path.suffix == ".py":
            module = read_module(name, path, self._cut)
            program = needs.files[path] = _joined(module)
            yield from self._follow(program, module, needs)

    def _resolve(self, root: str, target: Target, rest: list[str], needs: Needs) -> Iterator[tuple[str, str]]:
        """Yield the definition that an imported name stands for, with the attributes behind it."""
        name, attribute = target
        path = [*([attribute] if attribute else []), *rest]
        if name.partition(".")[0] != self.package:
            needs.outside.add(f"{root} is {'.'.join([name, *path[: 1 if attribute else 0]])}")
            return
        seen: set[tuple[str, str]] = set()
        while True:
            module = self.module(name)
            if module is None:  # compiled, or absent
                needs.attributes |= {path[0]} if path else {WHOLE}
                return
            if not path:
                yield name, WHOLE
                return
            first = path[0]
            if first in module.bound:
                yield name, first
                return
            below = f"{name}.{first}"
            again = [each for each in module.imports.get(first, ()) if each != (name, first)]
            if again and (name, first) not in seen:
                seen.add((name, first))
                for each in again:
                    yield from self._resolve(root, each, path[1:], needs)
                return
            if self.module(below) is None and first.startswith("__"):
                return  # __file__, __name__
            name, path = below, path[1:]


def _is_in(places: Collection[str], module: str, name: str) -> bool:
    parts = module.split(".")
    above = (".".join([*parts[:count], "*"]) for count in range(1, len(parts) + 1))
    return module in places or f"{module}:{name}" in places or any(place in places for place in above)


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _joined(module: Module) -> Statement:
    """Return a whole program as one statement."""
    parts = [*(each for statements in module.bound.values() for each in statements), *module.effects]
    imports: dict[str, frozenset[Target]] = dict(module.imports)
    for part in parts:
        for name, targets in part.imports.items():
            imports[name] = imports.get(name, frozenset()) | targets
    return Statement(
        "\n".join(dict.fromkeys(part.text for part in parts)),
        frozenset[str]().union(*(part.uses for part in parts)),
        frozenset[str]().union(*(part.strings for part in parts)),
        imports,
        frozenset[str]().union(*(part.attributes for part in parts)),
    )


def _files_beside(path: Path, statement: Statement) -> Iterator[Path]:
    """Yield the files that a statement names and that lie beside its module, or in a folder beside it."""
    names = {word for word in statement.strings if _FILE_NAME.fullmatch(word)} - {path.name, "__init__.py"}
    if not names:
        return
    for folder in [path.parent, *sorted(each for each in path.parent.iterdir() if each.is_dir())]:
        yield from (folder / name for name in sorted(names) if (folder / name).is_file())


def script(text: str) -> list[tuple[frozenset[str], Statement]]:
    """Read a script's statements, each with the names that it binds; imports of the script belong to every one."""
    tree = ast.parse(text)
    top = _imports_at_top(tree, "")
    return [
        (frozenset(bound), replace(statement, imports={**top, **statement.imports}))
        for bound, statement in _all_statements(text, tree, "", ())
    ]


@cache
def file_of(folder: Path, name: str) -> Path | None:
    """Find the file of a module by its dotted name, below a folder; None where there is none."""
    place = folder / name.replace(".", "/")
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((each for each in files if each.is_file()), None)


@cache
def read_module(name: str, path: Path, cut: tuple[tuple[str, tuple[str, ...]], ...]) -> Module:
    """Read a module's file, once for all that is asked about it."""
    return read_text(name, path, path.read_text(encoding="utf-8"), cut)


def read_text(name: str, path: Path, text: str, cut: tuple[tuple[str, tuple[str, ...]], ...]) -> Module:
    """Read a module from its text."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(text)
    bound: dict[str, list[Statement]] = {}
    effects = []
    own = {each for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom) for each in _stored(node)}
    for names, statement in _all_statements(text, tree, package, cut):
        for each in own.intersection(names):
            bound.setdefault(each, []).append(statement)
        if not own.issuperset(names) or not names:  # it changes what is not the module's own
            effects.append(statement)
    return Module(
        name,
        path,
        {each: tuple(some) for each, some in bound.items()},
        tuple(effects),
        _imports_at_top(tree, package),
    )


def _imports_at_top(tree: ast.Module, package: str) -> dict[str, frozenset[Target]]:
    imports: dict[str, frozenset[Target]] = {}
    for node in _at_top(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for local, target in _imported(node, package):
                imports[local] = imports.get(local, frozenset()) | {target}
    return imports


def _at_top(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported, those inside of `if` and `try` too."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            for block in ("body", "orelse", "finalbody", "handlers"):
                waiting += getattr(node, block, ())


def _all_statements(
    text: str, tree: ast.Module, package: str, cut: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[tuple[list[str], Statement]]:
    """Yield (names that it binds, statement) for each statement of the top level that is no import."""
    lines = text.split("\n")
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_words(node) or _is_for_types(node):
            continue
        names = [node.name] if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) else [*_stored(node), *_changed(node)]
        only_imports = isinstance(node, ast.Try) and all(
            isinstance(each, ast.Import | ast.ImportFrom) for each in node.body
        )
        if only_imports and not names:
            continue
        yield names, _statement(lines, node, package, cut)


def _is_words(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _stored(node: ast.AST) -> list[str]:
    """List the names that a statement gives a value."""
    names, waiting = [], [node]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, (*_FUNCTIONS, ast.ClassDef)):
            names.append(each.name)
        elif isinstance(each, ast.Name):
            names += [each.id] if isinstance(each.ctx, ast.Store) else []
        else:
            waiting += ast.iter_child_nodes(each)
    return list(dict.fromkeys(names))


def _changed(node: ast.AST) -> list[str]:
    """List the names of which a statement changes attributes or elements."""
    changed = [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store)
    ]
    return [root.id for value in changed for root in ast.walk(value) if isinstance(root, ast.Name)]


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Target]]:
    """Yield (local name, target) for each name of an import."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.name if alias.asname else alias.name.partition(".")[0]  # `import a.b` binds a
            yield alias.asname or bound, (bound, None)
        return
    parts = package.split(".")
    above = parts[: len(parts) + 1 - node.level] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    for alias in node.names:
        yield alias.asname or alias.name, (base, alias.name)


def _statement(
    lines: list[str], node: ast.stmt, package: str, cut: tuple[tuple[str, tuple[str, ...]], ...]
) -> Statement:
    names = _Names(package, dict(cut))
    names.visit(node, frozenset(), in_class=False)
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    text = _blank(lines, first, node.end_lineno or first, names.spans)
    imports = {name: frozenset(targets) for name, targets in names.imports.items()}
    attributes = frozenset(chain.rpartition(".")[2] for chain in names.uses) | frozenset(names.attributes)
    return Statement(
        _without_comments(text),
        frozenset(names.uses),
        frozenset(names.strings),
        imports,
        frozenset(attributes),
        isinstance(node, _FUNCTIONS),
    )


def _blank(lines: list[str], first: int, last: int, spans: Iterable[ast.AST]) -> str:
    """Return the lines first to last, from 1, without the nodes in `spans`."""
    parts = {number: bytearray(lines[number - 1].encode()) for number in range(first, last + 1)}
    for node in spans:
        start, end = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        for number in range(start, end + 1):
            line = parts[number]
            begin = node.col_offset if number == start else 0  # type: ignore[attr-defined]
            stop = node.end_col_offset if number == end else len(line)  # type: ignore[attr-defined]
            line[begin:stop] = _CUT * (stop - begin)
    return "\n".join(line.replace(_CUT, b"").decode() for line in parts.values())  # however wide it was


class _Names:
    """Collects what a statement names, and the nodes that are not part of its text."""

    def __init__(self, package: str, cut: Mapping[str, Collection[str]]):
        self._package, self._cut = package, cut
        self.uses: set[str] = set()
        self.strings: set[str] = set()
        self.attributes: set[str] = set()
        self.imports: dict[str, set[Target]] = {}
        self.spans: list[ast.AST] = []

    def visit(self, node: ast.AST, local: frozenset[str], *, in_class: bool) -> None:
        """Collect from a node; `local` are the names of the function around it."""
        if isinstance(node, _FUNCTIONS):
            self._visit_function(node, local)
        elif isinstance(node, ast.ClassDef):
            for part in [*node.decorator_list, *node.bases, *node.keywords]:
                self.visit(part, local, in_class=False)
            for part in node.body:
                if isinstance(part, _FUNCTIONS) and SHOWN.fullmatch(part.name):
                    self.spans += [*part.decorator_list, part]
                elif _is_words(part):
                    self.spans.append(part)
                else:
                    self.visit(part, local, in_class=True)
        elif isinstance(node, ast.Lambda):
            self._visit_arguments(node.args, local)
            self.visit(node.body, local | _names_of(node.args), in_class=False)
        elif isinstance(node, _COMPREHENSIONS):
            own, outermost = local.union(*(_stored(part.target) for part in node.generators)), node.generators[0].iter
            self.visit(outermost, local, in_class=False)  # before the comprehension's own names
            inner = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.comprehension)]
            inner += [each for part in node.generators for each in (part.iter, *part.ifs) if each is not outermost]
            for each in inner:
                self.visit(each, own, in_class=False)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.spans.append(node)
            for name, target in _imported(node, self._package):
                self.imports.setdefault(name, set()).add(target)
        elif isinstance(node, ast.AnnAssign):
            for field_of in (node.target, node.value, node.annotation if in_class else None):
                if field_of is not None:
                    self.visit(field_of, local, in_class=False)
        elif self._is_cut(node):
            self.spans.append(node)
        elif isinstance(node, ast.Attribute):
            self._visit_chain(node, local)
        elif isinstance(node, ast.Name):
            if node.id not in local and not isinstance(node.ctx, ast.Store):
                self.uses.add(node.id)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.strings.add(node.value)
        elif isinstance(node, ast.Call):
            self._visit_call(node, local)
        else:
            for part in ast.iter_child_nodes(node):
                self.visit(part, local, in_class=False)

    def _is_cut(self, node: ast.AST) -> bool:
        """Tell whether this is a statement that is only a call which is left out."""
        call = node.value if isinstance(node, ast.Expr) else None
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        return self._cut.get(name) == ALL_OF_IT

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, local: frozenset[str]) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator, local, in_class=False)
        self._visit_arguments(node.args, local)
        globals_of = _global_names(node)
        self.uses |= globals_of
        own = (local | _names_of(node.args) | _local_names(node)) - globals_of
        for part in node.body:
            if _is_words(part):
                self.spans.append(part)
            else:
                self.visit(part, own, in_class=False)

    def _visit_arguments(self, arguments: ast.arguments, local: frozenset[str]) -> None:
        """Visit defaults; annotations of functions are not run."""
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.visit(default, local, in_class=False)

    def _visit_chain(self, node: ast.Attribute, local: frozenset[str]) -> None:
        names: list[str] = [node.attr]
        value = node.value
        while isinstance(value, ast.Attribute):
            names.append(value.attr)
            value = value.value
        self.attributes |= set(names)
        if not isinstance(value, ast.Name):
            self.visit(value, local, in_class=False)
        elif value.id not in local:
            self.uses.add(".".join([value.id, *reversed(names)]))

    def _visit_call(self, node: ast.Call, local: frozenset[str]) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        for part in [node.func, *node.args, *node.keywords]:
            if isinstance(part, ast.keyword) and part.arg in self._cut.get(name, ()):
                self.spans.append(part)
            else:
                self.visit(part, local, in_class=False)


def _names_of(arguments: ast.arguments) -> frozenset[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return frozenset(each.arg for each in every if each is not None)


def _local_names(function: ast.AST) -> frozenset[str]:
    """Return the names that a function's body gives a value, without those of functions and comprehensions in it."""
    names: set[str] = set()
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, _COMPREHENSIONS):
            names |= {each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr)}
        elif not isinstance(node, ast.Lambda):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                names.add(node.name)
            waiting += ast.iter_child_nodes(node)
    return frozenset(names)


def _global_names(function: ast.AST) -> frozenset[str]:
    return frozenset(name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names)


def _without_comments(text: str) -> str:
    return _WORDS.sub(lambda part: part["string"] or "", text).strip("\n")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
