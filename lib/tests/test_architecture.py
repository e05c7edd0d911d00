"""The floors, folders and habits that every module keeps, read from the sources."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import networkx as nx
import pytest

from netrepro.claims import load_claims, published_results
from netrepro.workbench.catalogue.checking import puzzling_docstrings

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "lib" / "netrepro"

FLOORS = {
    0: {
        "netrepro",
        "allowed_values",
        "cluster",
        "errors",
        "extras",
        "files",
        "git",
        "intervals",
        "paths",
        "processes",
        "programs",
        "provenance",
        "style",
        "tiers_and_profiles",
        "_core",
    },
    1: {"networks", "protocols", "queueing", "traffic", "verification", "dummynet"},
    2: {"emulation", "simulation", "backends", "transport", "claims", "applications", "conformance"},
    3: {"study"},
    4: {"papers", "guides"},
    5: {"workbench"},
}
FLOOR_OF = {name: floor for floor, names in FLOORS.items() for name in names}
# Parts that stand on others of their floor.
STANDS_ON = {
    "dummynet": {"networks", "traffic"},
    "applications": {"emulation", "simulation", "transport"},
    "backends": {"emulation", "simulation"},
    "conformance": {"applications", "emulation", "simulation"},
}
# Parts below them that others do not import: they ask `backends`.
BEHIND_A_DOOR = {"study": {"emulation", "simulation", "applications", "transport"}}
BACKENDS = {"real_time", "virtual"}  # of emulation/
TOP_LEVEL = {
    "README.md",
    "SECURITY.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "codemeta.json",
    "environment.yml",
    "Dockerfile",
    "Makefile",
    "reproduce.sh",
} | {
    "binder",
    "notebooks",
    "lib",
    "data",
    "figures",
}
CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
SEEDED = {"Generator", "SeedSequence", "PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937", "BitGenerator"}
# A question to a solver may take for ever: a limit ends it. PyTorch has one global random state, of which a lock makes
# one thread's.
ALLOWED = {
    "traffic/neural.py": ("threading",),
    "verification/backends.py": ("threading", "time"),
}
# Names that could stand for anything: a run, a table, a match. What a thing is makes its name.
VAGUE_NAMES = {"found"}
# They look elsewhere than in this process's PATH: in a guest's, and in the folder of fetched build tools.
LOOK_ELSEWHERE = ("programs.py", "emulation/real_time/guests.py", "emulation/virtual")
# The compiled core, and the base of the queues, from which the example in lib/core/README.md derives.
MAY_BE_IMPORTED = {"netrepro._core", "netrepro.networks.queue_base._Queue"}
METHODS = (FunctionType, classmethod, staticmethod, property, cached_property)
NOT_IN_PURE_MODELS = {"socket", "asyncio", "subprocess", "threading", "multiprocessing", "time", "requests"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part(path: Path) -> str:
    """Name the part that a module belongs to: 'claims' for claims/models.py, 'errors' for errors.py."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "netrepro" if first == "__init__" else first


def imported(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of every import, those inside functions too; `package` resolves relative ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def upward_imports(source: str, of: str, package: tuple[str, ...] = ("netrepro",)) -> list[str]:
    """Imports of the part `of` that go up, or sideways to a part of its floor on which it does not stand."""
    wrong = []
    for name, line in imported(ast.parse(source), package):
        names = name.split(".")
        if names[0] != "netrepro":
            continue
        target = names[1] if len(names) > 1 and names[1] in FLOOR_OF else "netrepro"
        if target == "netrepro" and len(names) > 2:
            wrong.append(f"line {line}: {names[1]} is on no floor")
        elif target in BEHIND_A_DOOR.get(of, ()):
            wrong.append(f"line {line}: {of} imports {target}, and netrepro.backends is the door to it")
        elif target != of and FLOOR_OF[target] >= max(FLOOR_OF[of], 1) and target not in STANDS_ON.get(of, ()):
            wrong.append(f"line {line}: {of} (floor {FLOOR_OF[of]}) imports {target} ({FLOOR_OF[target]})")
    return wrong


def private_imports(source: str, package: tuple[str, ...] = ("netrepro",)) -> list[str]:
    """List the private names of other modules that a module of `package` imports. A paper's modules are one whole, cut
    into files for their length: they share theirs."""
    shared = ".".join(package[:3]) + "." if package[1:2] == ("papers",) and len(package) > 2 else "netrepro._core."
    return [
        f"line {line}: {name}"
        for name, line in imported(ast.parse(source), package)
        if name.startswith("netrepro.") and re.match("_(?!_)", name.rpartition(".")[2])
        if name not in MAY_BE_IMPORTED and not name.startswith(shared)
    ]


def calls(source: str) -> Iterator[tuple[str, ast.Call]]:
    """(dotted name as written in full, call) of every call to a plain name or attribute chain."""
    tree = ast.parse(source)
    full = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            full |= {alias.asname: alias.name for alias in node.names if alias.asname}
            full |= {alias.name: alias.name for alias in node.names if not alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            full |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, *rest = ast.unparse(node.func).split(".")
            yield ".".join([full.get(first, f"<local>{first}" if rest else first), *rest]), node


def prints(source: str) -> list[str]:
    return [f"line {call.lineno}: print" for name, call in calls(source) if name == "print"]


def clock_reads(source: str) -> list[str]:
    return [
        f"line {call.lineno}: {name}"
        for name, call in calls(source)
        if any(name == clock or name.endswith(f".{clock}") for clock in CLOCKS)
    ]


def global_randomness(source: str) -> list[str]:
    """Calls to numpy's or Python's global generator, and generators made without a seed."""
    wrong = []
    for name, call in calls(source):
        library, _, function = name.rpartition(".")
        unseeded = not call.args and not call.keywords
        if library == "numpy.random" and function not in SEEDED:
            is_wrong = unseeded or function != "default_rng"
        elif library == "random":
            is_wrong = unseeded or function != "Random"
        else:
            is_wrong = False
        if is_wrong:
            wrong.append(f"line {call.lineno}: {name}")
    return wrong


def programs_not_asked_for(source: str) -> list[str]:
    """List where a program is looked for, or started by its bare name, without asking `netrepro.programs` for it."""
    wrong = []
    for name, call in calls(source):
        words = call.args[0] if call.args else None
        if isinstance(words, ast.List) and words.elts:
            words = words.elts[0]
        bare = isinstance(words, ast.Constant) and not str(words.value).startswith("/")
        starts = name.startswith("subprocess.") and name != "subprocess.TimeoutExpired" and bare
        if starts or name == "shutil.which":
            wrong.append(f"line {call.lineno}: {name}")
    return wrong


def offenders(check, paths: list[Path]) -> list[str]:
    return [f"{path.relative_to(ROOT)} {found}" for path in paths for found in check(path.read_text(encoding="utf-8"))]


def tracked_files() -> list[Path]:
    """List the files of the repository; skip the test where this is no clone."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git clone")
    return [Path(name) for name in listed.stdout.split("\0") if name]


# The floors ----------------------------------------------------------------------------------------


def test_every_part_of_the_package_is_on_a_floor():
    assert {part(path) for path in modules()} <= FLOOR_OF.keys()


def test_imports_point_downwards_only():
    wrong = []
    for path in modules():
        package = ("netrepro", *path.relative_to(PACKAGE).parent.parts)
        found = upward_imports(path.read_text(encoding="utf-8"), part(path), package)
        wrong += [f"{path.relative_to(ROOT)} {each}" for each in found]
    assert wrong == []


@pytest.mark.parametrize(
    ("of", "source", "is_wrong"),
    [
        ("claims", "from netrepro.workbench.cli.commands import main", True),
        ("claims", "import netrepro.papers", True),
        ("claims", "def later():\n    from netrepro import papers", True),
        ("claims", "from netrepro.simulation import run", True),
        ("claims", "from ..workbench import cli", True),
        ("claims", "from netrepro.attic.old import thing", True),
        ("errors", "from netrepro.claims import judge", True),
        ("queueing", "from netrepro.networks import flow_sizes", True),
        ("emulation", "from netrepro.applications.raft import run", True),
        ("applications", "from netrepro.study import trust", True),
        ("study", "from netrepro.simulation import simulate", True),
        ("study", "from netrepro import backends", False),
        ("applications", "from netrepro.emulation import emulate", False),
        ("claims", "from .models import Claim", False),
        ("claims", "from netrepro.queueing import mg1\nimport netrepro._core as _core", False),
        ("claims", "from netrepro import NetreproError, __version__", False),
        ("style", "from netrepro.errors import NetreproError", False),
        ("workbench", "from netrepro.papers import raft", False),
        ("queueing", "import numpy, simulation", False),
    ],
)
def test_an_import_that_goes_up_is_noticed(of, source, is_wrong):
    assert bool(upward_imports(source, of, ("netrepro", of))) is is_wrong


def backends_of(source: str, package: tuple[str, ...]) -> set[str]:
    """The backends of emulation/ from which a source imports."""
    names = [name.split(".") for name, _ in imported(ast.parse(source), package)]
    return {name[2] for name in names if name[:2] == ["netrepro", "emulation"] and name[2:3]} & BACKENDS


def test_the_backends_need_nothing_of_each_other_and_what_they_share_nothing_of_either():
    chooses = {"__init__.py", "emulate.py", "tiers.py"}
    wrong = []
    for path in (PACKAGE / "emulation").rglob("*.py"):
        folders = path.relative_to(PACKAGE / "emulation").parent.parts
        if (not folders and path.name not in chooses) or (folders and folders[0] in BACKENDS):
            found = backends_of(path.read_text(encoding="utf-8"), ("netrepro", "emulation", *folders))
            wrong += [f"{path.relative_to(PACKAGE)}: {name}" for name in found - set(folders)]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from netrepro.emulation.real_time.network import Node", {"real_time"}),
        ("def later():\n    from netrepro.emulation import real_time", {"real_time"}),
        ("from ..real_time import network", {"real_time"}),
        ("from netrepro.emulation.virtual.plan import PortLine\nimport real_time", {"virtual"}),
        ("from netrepro.emulation.plan import Plan", set()),
    ],
)
def test_an_import_from_a_backend_is_noticed(source, found):
    assert backends_of(source, ("netrepro", "emulation", "virtual")) == found


def circles(arrows: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> list[list[str]]:
    """Names that reach each other, of arrows (from, to)."""
    return [sorted(found) for found in nx.strongly_connected_components(nx.DiGraph(arrows)) if len(found) > 1]


def module_arrows(sources: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(module, module that it imports), imports for types and inside functions too; sources : dotted name -> text.

    A package (a name above others) is its `__init__`.
    """
    for name, source in sources.items():
        is_package = any(other.startswith(f"{name}.") for other in sources)
        package = tuple(name.split(".")) if is_package else tuple(name.split(".")[:-1])
        for target, _ in imported(ast.parse(source), package):
            target = target if target in sources else target.rpartition(".")[0]
            if target in sources and target != name:
                yield name, target


def test_no_two_modules_import_each_other_in_a_circle():
    sources = {}
    for path in modules():
        names = ("netrepro", *path.relative_to(PACKAGE).with_suffix("").parts)
        sources[".".join(names).removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    assert circles(module_arrows(sources)) == []


CORE = ROOT / "lib/core"


def core_arrows(pattern: str) -> list[tuple[str, str]]:
    """(file, file that it includes) of the core, named by their folder."""
    return [
        (path.relative_to(CORE).as_posix(), target)
        for path in CORE.rglob(pattern)
        for target in re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8"))
    ]


def test_no_two_headers_of_the_core_include_each_other_in_a_circle():
    arrows = core_arrows("*.hpp")
    assert len(arrows) > 50 and circles(arrows) == []


def test_folders_of_the_core_include_only_those_above_them_in_its_readme():
    order = re.findall(r"^\| `(\w+)/` \|", (CORE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(order) == sorted(path.name for path in CORE.iterdir() if path.is_dir())
    wrong = [
        arrow
        for arrow in core_arrows("*.?pp")
        if order.index(arrow[1].split("/")[0]) > order.index(arrow[0].split("/")[0])
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("first", "second", "is_wrong"),
    [
        ("import n.b", "from n import a", True),
        ("from n.b import thing", "from .a import other", True),
        ("def later():\n    import n.b", "from n.a import other", True),
        ("if TYPE_CHECKING:\n    from n.b import thing", "import n.a", True),
        ("import n.b", "import os", False),
    ],
)
def test_a_circle_is_noticed(first, second, is_wrong):
    assert bool(circles(module_arrows({"n": "", "n.a": first, "n.b": second}))) is is_wrong


def test_no_module_imports_another_ones_private_name():
    wrong = []
    for path in modules():
        package = ("netrepro", *path.relative_to(PACKAGE).parent.parts)
        found = private_imports(path.read_text(encoding="utf-8"), package)
        wrong += [f"{path.relative_to(ROOT)} {each}" for each in found]
    assert wrong == []


@pytest.mark.parametrize(
    ("package", "source", "is_wrong"),
    [
        ("netrepro.emulation", "from netrepro.emulation.refusals import check_rate, _check_link", True),
        ("netrepro.emulation", "def later():\n    from .refusals import _check_link as check_link", True),
        ("netrepro.emulation", "from netrepro import __version__\nfrom netrepro import _core", False),
        ("netrepro.emulation", "from concurrent.futures import _base", False),
        ("netrepro.papers.red", "from netrepro.papers.red.figures import _means", False),
        ("netrepro.papers.red", "from netrepro.papers.codel.figures import _means", True),
        ("netrepro.papers", "from netrepro.papers.red.figures import _means", True),
    ],
)
def test_a_private_name_of_another_module_is_noticed(package, source, is_wrong):
    assert bool(private_imports(source, tuple(package.split(".")))) is is_wrong


def test_pure_models_import_no_clock_socket_or_process():
    wrong = [
        f"{path.relative_to(ROOT)} line {line}: {name}"
        for path in modules()
        if FLOOR_OF[part(path)] == 1
        for name, line in imported(ast.parse(path.read_text(encoding="utf-8")), ())
        if name.split(".")[0] in NOT_IN_PURE_MODELS
        and name.split(".")[0] not in ALLOWED.get(path.relative_to(PACKAGE).as_posix(), ())
    ]
    assert wrong == []


# Habits --------------------------------------------------------------------------------------------


def vague_names(source: str) -> list[str]:
    """List the variables and parameters of VAGUE_NAMES."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [(node.id, node.lineno) for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [(node.arg, node.lineno) for node in nodes if isinstance(node, ast.arg)]
    return [f"line {line}: {name}" for name, line in sorted(names) if name in VAGUE_NAMES]


def borrowed_names(source: str) -> list[str]:
    """List the variables and parameters that bear the name of something that the module imports."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    there = {alias.asname or alias.name.split(".")[0] for node in imports for alias in node.names}
    # A field of a class is asked of its object: it hides nothing.
    fields = {id(field.target) for field in ast.walk(tree) if isinstance(field, ast.AnnAssign)}
    names = [
        (node.id, node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields
    ]
    names += [(node.arg, node.lineno) for node in ast.walk(tree) if isinstance(node, ast.arg)]
    return [f"line {line}: {name}" for name, line in sorted(names) if name in there]


def without_docstrings(module: ModuleType) -> Iterator[str]:
    """Yield the classes and functions in a module's `__all__` that have no docstring, and the public methods of these
    classes for which no base has one either. What another library's base has is not ours to describe."""
    ours = module.__name__.partition(".")[0]
    for name in module.__all__:
        thing = getattr(module, name)
        if not inspect.isclass(thing) and not inspect.isroutine(thing):
            continue
        if (thing.__doc__ or f"{name}(").startswith(f"{name}("):  # a dataclass has its signature instead
            yield f"{module.__name__}.{name}"
        bases = inspect.getmro(thing) if inspect.isclass(thing) else ()
        own = {each for base in bases if base.__module__.partition(".")[0] == ours for each in vars(base)}
        for method in sorted(each for each in own if not each.startswith("_")):
            versions = [vars(base)[method] for base in bases if method in vars(base)]
            if isinstance(versions[0], METHODS) and not any(version.__doc__ for version in versions):
                yield f"{module.__name__}.{name}.{method}"


def below_the_workbench() -> list[Path]:
    return [path for path in modules() if part(path) != "workbench"]


def test_the_library_never_prints():
    assert offenders(prints, below_the_workbench()) == []


def test_the_library_never_reads_the_clock():
    assert offenders(clock_reads, below_the_workbench()) == []


def test_the_library_uses_no_global_or_unseeded_randomness():
    # A forked kernel would draw what all its siblings draw in cells that use NumPy's own generator.
    assert offenders(global_randomness, [path for path in modules() if path.name != "forks.py"]) == []


def test_whoever_starts_a_program_asks_for_it_in_one_place():
    here = [path for path in modules() if not path.relative_to(PACKAGE).as_posix().startswith(LOOK_ELSEWHERE)]
    assert offenders(programs_not_asked_for, here) == []


def test_docstrings_begin_with_a_verb_or_a_noun():
    assert offenders(puzzling_docstrings, modules()) == []


def test_all_that_a_module_exports_has_a_docstring():
    names = [
        ".".join(("netrepro", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for path in modules()
        if re.search("^__all__ =", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(names) > 30 and [each for name in names for each in without_docstrings(import_module(name))] == []


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("def f(): ...", ["m.f"]),
        ("class f: ...", ["m.f"]),
        ("from dataclasses import dataclass\n@dataclass\nclass f:\n    size: int", ["m.f"]),
        ("class f:\n    'A queue.'\n    def add(self): ...\n    def _clear(self): ...", ["m.f.add"]),
        ("class f:\n    'A queue.'\n    @property\n    def size(self): ...", ["m.f.size"]),
        ("class f:\n    'A queue.'\n    @classmethod\n    def new(cls): ...", ["m.f.new"]),
        ("class q:\n    def add(self):\n        'Add.'\nclass f(q):\n    'A queue.'\n    def add(self): ...", []),
        ("class q:\n    'A queue.'\nclass f(q): ...", ["m.f"]),
        ("def f():\n    'Add a packet.'\ndef g(): ...", []),
        ("f = 3", []),
    ],
)
def test_a_missing_docstring_is_noticed(source, missing, monkeypatch):
    module = ModuleType("m")
    monkeypatch.setitem(sys.modules, "m", module)  # a dataclass looks its module up
    exec(source, module.__dict__)
    module.__all__ = ["f"]
    assert list(without_docstrings(module)) == missing


def test_names_say_what_a_thing_is():
    assert offenders(vague_names, modules()) == []


def test_no_variable_bears_the_name_of_something_imported():
    assert offenders(borrowed_names, modules()) == []


@pytest.mark.parametrize(
    ("check", "source", "is_wrong"),
    [
        (prints, "print(1)", True),
        (prints, "console.print(1)", False),
        (clock_reads, "import time\ntime.time()", True),
        (clock_reads, "from time import time as now\nnow()", True),
        (clock_reads, "from datetime import datetime\ndatetime.now()", True),
        (clock_reads, "import datetime as d\nd.datetime.now(d.UTC)", True),
        (clock_reads, "from datetime import date\ndate.today()", True),
        (programs_not_asked_for, "import shutil\nshutil.which('clang')", True),
        (programs_not_asked_for, "from subprocess import run\nrun(['ip', 'link'], check=True)", True),
        (programs_not_asked_for, "import subprocess\nsubprocess.Popen([need_program('ip'), 'link'])", False),
        (programs_not_asked_for, "import subprocess\nsubprocess.run([sys.executable, '-V'])", False),
        (clock_reads, "import time\ntime.monotonic()", False),  # a duration, not the time of day
        (global_randomness, "import numpy as np\nnp.random.normal(0, 1)", True),
        (global_randomness, "import numpy as np\nnp.random.seed(1)", True),
        (global_randomness, "from numpy.random import default_rng\ndefault_rng()", True),
        (global_randomness, "import random\nrandom.random()", True),
        (global_randomness, "from random import shuffle\nshuffle(deck)", True),
        (global_randomness, "import random\nrandom.Random()", True),
        (global_randomness, "import random\nrandom.Random(seed)", False),
        (global_randomness, "import numpy as np\nnp.random.default_rng(seed)", False),
        (global_randomness, "def draw(random):\n    return random.normal(0, 1)", False),
        (borrowed_names, "from study import each\n[each for each in them]", True),
        (borrowed_names, "import os\ndef read(os): ...", True),
        (borrowed_names, "from pages import pages\nclass Setting:\n    pages: int = 4", False),
        (vague_names, "found = []", True),
        (vague_names, "[found for found in them]", True),
        (vague_names, "while found := next(them):\n    pass", True),
        (vague_names, "def read(found): ...", True),
        (vague_names, "lambda found: 1", True),
        (vague_names, "network.found_paths = finder.found", False),
        (puzzling_docstrings, 'def exponent():\n    """Of n, by which the buffer falls."""', True),
        (puzzling_docstrings, 'async def read():\n    """What has arrived."""', True),
        (puzzling_docstrings, 'class Queue:\n    """How packets wait."""', True),
        (puzzling_docstrings, 'class Queue:\n    @property\n    def full(self):\n        """Whether it is."""', True),
        (puzzling_docstrings, 'def outer():\n    def inner():\n        """As outer."""', True),
        (puzzling_docstrings, 'def answer():\n    """The answer in one sentence."""', True),
        (puzzling_docstrings, 'class Queue:\n    @property\n    def full(self):\n        """The share."""', False),
        (puzzling_docstrings, 'def exponent():\n    """Fit n. What is left is noise."""', False),
        (puzzling_docstrings, 'class Asynchronous:\n    """Asynchronous calls."""', False),
        (puzzling_docstrings, '"""What this module holds."""\nwhat = "Of n"', False),
    ],
)
def test_a_broken_habit_is_noticed(check, source, is_wrong):
    assert bool(check(source)) is is_wrong


HOME = re.compile(r"(?<![\w.])(/home/(?!jovyan\b)\w|/Users/\w|/root/\w|[A-Z]:\\\\?Users)")


def test_no_file_names_anybodys_home():
    wrong = []
    for name in tracked_files():
        path = ROOT / name
        if name == Path("lib/tests/test_architecture.py") or not path.is_file():
            continue
        text = path.read_bytes()
        if b"\0" in text:
            continue
        found = HOME.search(text.decode("utf-8", errors="replace"))
        wrong += [f"{name}: {found.group()}"] if found else []
    assert wrong == []


def test_a_home_is_noticed():
    assert HOME.search("open('/home/someone/data')") and HOME.search('"/root/data"')
    assert not HOME.search("https://example.org/home/page /home/jovyan ./root/data")


def test_the_top_level_holds_only_what_the_design_names():
    names = {name.parts[0] for name in tracked_files()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


# Papers --------------------------------------------------------------------------------------------


def papers() -> list[str]:
    return sorted(path.parent.name for path in (ROOT / "data").glob("*/claims.yaml"))


def paper_modules() -> set[str]:
    """Modules and packages of papers/ that are a paper's own: what begins with an underscore is several papers'."""
    paths = (PACKAGE / "papers").iterdir()
    names = {path.stem for path in paths if path.suffix == ".py" or (path / "__init__.py").is_file()}
    return {name for name in names if not name.startswith("_")}


def test_every_paper_has_its_notebook_module_and_test():
    missing = []
    for slug in papers():
        if not list((ROOT / "notebooks").glob(f"[0-9][0-9]_{slug}.ipynb")):
            missing.append(f"notebooks/NN_{slug}.ipynb")
        if slug not in paper_modules():
            missing.append(f"lib/netrepro/papers/{slug}.py, or a package {slug}/")
        if not (ROOT / "lib/tests/papers" / f"test_{slug}.py").is_file():
            missing.append(f"lib/tests/papers/test_{slug}.py")
    assert missing == []


def test_every_paper_module_has_its_claims():
    assert paper_modules() <= set(papers())


def test_every_claims_file_is_sound_and_every_results_file_is_readable(monkeypatch):
    if not papers():
        pytest.skip("no papers yet")
    monkeypatch.setenv("NETREPRO_ROOT", str(ROOT))
    for slug in papers():
        paper, results = load_claims(slug), published_results(slug)
        known = {claim.id for claim in paper.claims}
        # Values of claims that were withdrawn since stay until the next release, of some runs all.
        measured = {each.claim for run in results.runs.values() for each in run.measured} if results else set()
        assert not measured or known & measured, slug
