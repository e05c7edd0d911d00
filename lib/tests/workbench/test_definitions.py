"""What a name needs, read from the sources."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from netrepro.workbench import code
from netrepro.workbench.code.definitions import Library, Needs, read_text


@pytest.fixture
def library(tmp_path: Path):
    """Write modules of a package, and return a function that says what `main.root` needs of them."""

    def needs_of(**modules: str) -> Needs:
        code.forget()
        package = tmp_path / "package"
        for name, text in {"__init__": "", **modules}.items():
            path = package / f"{name.replace('__init__', '').replace('_in_', '/') or '__init__'}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(text)
        return Library(package).needs([("package.main", "root")])

    return needs_of


def names(needs: Needs) -> set[str]:
    """Names of definitions with a text, without the package's own."""
    return {name for (_, name), statements in needs.definitions.items() if statements}


@pytest.mark.parametrize(
    ("root", "needed"),
    [
        ("def root():\n    return a()", {"a"}),
        ("def root(x=a()):\n    return x", {"a"}),
        ("@a\ndef root(): ...", {"a"}),
        ("class root(A):\n    b: B = 1", {"A", "B"}),
        ("def root(a: A) -> B: ...", set()),  # annotations of functions are not run
        ("def root(a):\n    return a()", set()),  # its own
        ("def root():\n    a = 1\n    return a", set()),
        ("def root():\n    global a\n    a = 1", {"a"}),
        ("def root():\n    return [a for a in b()]", {"b"}),
        ("def root():\n    return [a for a in a()]", {"a"}),  # the inner one, and the function
        ("def root():\n    return a(), [a for a in b()]", {"a", "b"}),
        ("def root():\n    for a in b():\n        print(a)", {"b"}),
        ("def root():\n    try:\n        b()\n    except ValueError as a:\n        print(a)", {"b"}),
        ("def root():\n    return lambda a: a + b()", {"b"}),
        ("def root():\n    def inner(b):\n        return a(b)\n    return inner", {"a"}),
        ("root = {a: b}", {"a", "b"}),
        ("root = 1\nroot += a()", {"a"}),
        ("root = {}\nroot['x'] = a", {"a"}),
        ("root = 1\nif root:\n    root = a", {"a"}),
        ("root = 1\nother.attribute = a", {"a", ""}),  # what importing the module does
        ("root = 1\nprint(a())", {"a", ""}),
        ("root = 1\nother = a", set()),
    ],
)
def test_a_definition_needs_what_its_names_stand_for(library, root, needed):
    others = "def a(): ...\ndef b(): ...\nclass A: ...\nclass B: ...\n"
    assert names(library(main=others + root)) - {"root"} == needed


@pytest.mark.parametrize(
    "text",
    [
        "from package.below import a\ndef root():\n    return a()",
        "from package import below\ndef root():\n    return below.a()",
        "import package.below\ndef root():\n    return package.below.a()",
        "import package.below as under\ndef root():\n    return under.a()",
        "from .below import a as other\nroot = other",
        "def root():\n    from package.below import a\n    return a",
        "from package.exports import a\nroot = a",
        "try:\n    from package.below import a\nexcept ImportError:\n    a = None\nroot = a",
    ],
)
def test_a_name_is_followed_to_its_definition_however_it_was_imported(library, text):
    below = "def a():\n    return b\nb = 1\nunused = 2"
    needs = library(main=text, below=below, exports="from package.below import a, unused")
    assert {"a", "b"} <= names(needs) and "unused" not in names(needs)


def test_a_module_that_is_passed_on_or_named_is_needed_whole(library):
    for text in ("from package import below\nroot = print(below)", 'root = load("package.below")'):
        assert {"a", "b"} <= names(library(main=text, below="a = 1\nb = 2"))


def test_of_other_libraries_a_name_says_which(library):
    needs = library(main="import numpy as np\nfrom math import inf as most\nroot = np.mean(most)")
    assert needs.outside == {"np is numpy", "most is math.inf"}


def test_what_has_no_source_is_the_compiled_core(library):
    assert library(main="from package import _core\nroot = _core.Simulator()").attributes == {"Simulator"}
    assert library(main="from package._core import Queue\nroot = Queue").attributes == {"Queue"}


class _NoWords(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, field, None), list):
                kept = [each for each in statements if not _is_left_out(each)]
                setattr(node, field, kept or ([ast.Pass()] if field == "body" else []))
        return node


def _is_left_out(node: ast.AST) -> bool:
    is_words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    shown = isinstance(node, ast.FunctionDef) and node.name.startswith("_repr_")
    return is_words or isinstance(node, ast.Import | ast.ImportFrom) or shown


def test_a_statement_without_its_words_does_what_it_did():
    """Bodies of nothing but words are empty in the text, so they are compared line by line elsewhere."""
    compared = 0
    for path in sorted(code.PACKAGE.rglob("*.py"))[::5]:  # the rest is like them
        text = path.read_text()
        module = read_text(".".join(path.relative_to(code.PACKAGE.parent).with_suffix("").parts), path, text, ())
        whole = {getattr(node, "name", ""): node for node in ast.parse(text).body if hasattr(node, "name")}
        for name, node in whole.items():
            (statement, *more) = module.bound[name]
            try:
                kept = ast.parse(statement.text)
            except SyntaxError:  # a body of only words
                continue
            if not more:
                compared += 1
                expected = _NoWords().visit(ast.Module([node], []))
                assert ast.dump(_NoWords().visit(kept)) == ast.dump(expected), (path, name)
    assert compared > 300


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a = 'it is # no comment'  # one", "a = 'it is # no comment'"),
        ('a = """two\n\n# lines  \n"""\n\n\n# the end', 'a = """two\n\n# lines  \n"""'),
        ("def a():\n    'Return.'\n\n    return \"it's\"  # don't", 'def a():\n    return "it\'s"'),
        ("def a():\n    # why\n    return b'#' b'#'", "def a():\n    return b'#' b'#'"),
        ("a = f'{1}#{2!r:>{3}}'", "a = f'{1}#{2!r:>{3}}'"),
        ("class A:\n    x = 1\n    '''Of x.'''\n\n    def _repr_html_(self): ...", "class A:\n    x = 1"),
        ("def é(ü='ß'):\n    'Ä.'; return ü", "def é(ü='ß'):\n    ; return ü"),
    ],
)
def test_words_go_and_strings_stay(text, kept):
    module = read_text("m", Path("m.py"), text, ())
    assert [statement.text for some in module.bound.values() for statement in some] == [kept]


def test_a_statement_that_only_refuses_is_no_part_of_a_text_and_needs_nothing():
    cut = (("refuse", ("*",)),)
    plain, guarded, used = (
        read_text("m", Path("m.py"), text, cut).bound["f"][0]
        for text in (
            "def f(x):\n    return x\n",
            "def f(x):\n    refuse(x, other)\n    return x\n",
            "def f(x):\n    x = refuse(x)\n    return x\n",
        )
    )
    assert (plain.text, plain.uses) == (guarded.text, guarded.uses)
    assert used.text != plain.text and "refuse" in used.uses
