"""Which sources of the core a name reaches, beside what the compiler and the linker say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pybind11
import pytest

from netrepro import _core
from netrepro.workbench import code
from netrepro.workbench.code import compiled

CORE = code.PACKAGE.parent / "core"
BINDINGS = sorted((CORE / "bindings").glob("*.cpp"))
OBJECTS = next(iter(sorted((CORE.parent / "build").glob("cp*/CMakeFiles/_core.dir"))), None)


def of_the_core(paths) -> set[str]:
    return {path.relative_to(CORE).as_posix() for path in paths}


def test_every_name_of_the_core_has_its_bindings():
    bound = [name for names in compiled.names_of_bindings(CORE).values() for name in names]
    assert sorted(bound) == sorted(name for name in dir(_core) if not name.startswith("__"))


def test_every_source_is_reached_from_some_name():
    """So every file that the shared object is linked from is in a hash, where its names are used."""
    reached = of_the_core(compiled.sources_of({""}, CORE))
    sources = of_the_core(path for path in CORE.rglob("*") if path.suffix in (".cpp", ".hpp"))
    assert reached == sources - {"web/exports.cpp"}  # of WebAssembly alone


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("bindings", BINDINGS, ids=lambda path: path.stem)
def test_headers_are_those_that_the_compiler_reads(bindings):
    """So are the headers of the files that implement them."""
    reached = compiled.reached([bindings], CORE)
    includes = [f"-I{CORE}", f"-I{pybind11.get_include()}", f"-I{sysconfig.get_path('include')}"]
    read: set[str] = set()
    for source in (path for path in reached if path.suffix == ".cpp"):
        command = ["c++", "-std=c++20", "-MM", *includes, source]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        files = (Path(word) for word in told.replace("\\\n", " ").split()[1:])
        read |= {path.resolve().relative_to(CORE).as_posix() for path in files if path.resolve().is_relative_to(CORE)}
    assert read == of_the_core(reached)


def symbols(objects: list[Path], kind: str) -> dict[Path, set[str]]:
    """Return the symbols that objects define (kind "U": that they need)."""
    options = ["--undefined-only"] if kind == "U" else ["--defined-only", "--extern-only"]
    found: dict[Path, set[str]] = {}
    for path in objects:
        lines = subprocess.run(["nm", *options, path], capture_output=True, text=True, check=True).stdout.splitlines()
        # Weak symbols (V, W, u) are inline: each object that needs one has it.
        found[path] = {line.split()[-1] for line in lines if line.split()[-2] not in ("V", "W", "u", "v", "w")}
    return found


@pytest.mark.skipif(OBJECTS is None or shutil.which("nm") is None, reason="needs the core's objects and nm")
def test_no_object_needs_another_that_its_sources_do_not_reach():
    assert OBJECTS is not None
    files = sorted((OBJECTS / "core").rglob("*.cpp.o"))
    defined, needed = symbols(files, "D"), symbols(files, "U")
    place = {name: path for path, names in defined.items() for name in names}
    compared = 0
    for path in files:
        reached = compiled.reached([CORE / path.relative_to(OBJECTS / "core").with_suffix("")], CORE)
        for name in needed[path] & place.keys():
            source = CORE / place[name].relative_to(OBJECTS / "core").with_suffix("")
            compared += 1
            assert source in reached, f"{path.name} needs {name}, which {source.name} defines"
    assert compared > 50


@pytest.mark.skipif(OBJECTS is None or shutil.which("nm") is None, reason="needs the core's objects and nm")
def test_no_bindings_need_an_object_that_they_do_not_reach():
    """Bindings are compiled together, several files at a time."""
    assert OBJECTS is not None
    files = sorted((OBJECTS / "core").rglob("*.cpp.o"))
    place = {name: path for path, names in symbols(files, "D").items() for name in names}
    together = sorted((OBJECTS / "Unity").glob("*.cxx.o"))
    for path, names in symbols(together, "U").items():
        own = re.findall(r'#include ".*/(bindings/\w+\.cpp)"', path.with_suffix("").read_text())
        assert own
        reached = compiled.reached([CORE / each for each in own], CORE)
        sources = {CORE / place[name].relative_to(OBJECTS / "core").with_suffix("") for name in names & place.keys()}
        assert sources and sources <= set(reached)
    assert together


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("int a;  // one\n\n\nint b;", "int a;\nint b;"),
        ("/* two\n lines */ int a;", " int a;"),
        ('auto a = "// no comment";', 'auto a = "// no comment";'),
        ('auto a = R"(\n/* no\n\n comment */)";', 'auto a = R"(\n/* no\n\n comment */)";'),
        ("auto a = '\"'; // \"", "auto a = '\"';"),
        ("auto a = 1'000'000; // million", "auto a = 1'000'000;"),
        ("auto a = '\\''; /* ' */ int b;", "auto a = '\\''; int b;"),
        ("int a = b / c; // / d", "int a = b / c;"),
        ("// one \\\n goes on\nint a;", "int a;"),
        ("int a;\n// one\n  // two\n\nint b;", "int a;\nint b;"),
        ("int a;\n/* one\n\n two */\n  int b;  /* three */\n// four\n", "int a;\n  int b;"),
    ],
)
def test_comments_go_and_strings_stay(text, kept):
    assert compiled.without_comments(text) == kept


def test_the_core_without_comments_is_compiled_to_the_same(tmp_path):
    """By its text without blanks: the preprocessor leaves comments out, too."""
    for path in sorted(CORE.rglob("*.?pp"))[::4]:
        without = tmp_path / path.name
        without.write_text(compiled.without_comments(path.read_text(encoding="utf-8")))
        assert preprocessed(without) == preprocessed(path), path


def preprocessed(path: Path) -> str:
    command = ["c++", "-std=c++20", "-fpreprocessed", "-dD", "-E", "-P", "-w", path]
    return "".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
