"""The code that a paper's numbers come from, as a hash for each tier.

A result depends on what made it, and on nothing else. The hash covers what the notebook does for its measurement, the
definitions that it needs of the paper, of `study` and of the tier's backend, the files of the core that these reach,
the data that they read and, on tier virtual, the kernel. It leaves out comments and docstrings, what only draws or
tells (TELLS), and what only other tiers run (ELSEWHERE), each with its reason.

definitions : reads Python. compiled : reads C and C++.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import netrepro
from netrepro.paths import all_data, notebooks_dir
from netrepro.tiers_and_profiles import check_tier
from netrepro.workbench.code import compiled
from netrepro.workbench.code.definitions import (
    ALL_OF_IT,
    Library,
    Needs,
    Statement,
    Target,
    file_of,
    read_module,
    script,
)

PACKAGE = Path(netrepro.__file__).parent
LETTERS = 16  # of a hash
SAYS_ONLY = ("claims.yaml", "SOURCES.md", "README.md")  # files of a paper's data that no measurement reads
# Calls of a notebook by which it measures and judges; what they need is measured, too.
_MEASURES = ("report.measure", "report.judge")
# Keywords of a Study that decide no claim (pictures, texts, what a reader may play with); and calls that only refuse.
_NOT_MEASURED = {
    "Study": ("answer", "best", "figures", "knobs", "play"),
    **dict.fromkeys(("refuse_misfit", "refuse_no_baseline"), ALL_OF_IT),
}
# What a measurement needs by its names, and which makes no number of it: "module", "module.*" with all below,
# "module:name". The left side is without the package's name.
TELLS = {
    "style": "draws",
    "study.figures": "draws",
    "study.message_diagram": "draws",
    "study.pictures": "draws",
    "networks.html": "draws a network in a notebook",
    "networks.qlog": "writes files for viewers",
    "emulation.live": "shows packets to a viewer as they leave",
    "emulation.real_time.jupyter": "runs a kernel for a person",
    "emulation.virtual.jupyter": "runs a kernel for a person",
    "emulation.virtual.jupyter_guest": "runs a kernel for a person",
    "workbench.*": "hands a notebook's settings to study, and shows what comes back",
    "emulation.tiers": "says which tiers the machine has",
    "emulation.real_time.probe": "says which tiers the machine has",
    "emulation.virtual.probe": "says which tiers the machine has",
    "tiers_and_profiles:check_tier": "refuses an unknown name",
    "errors": "words of a refusal",
    "study.refusals": "refuses a declaration",
    "extras": "words of a refusal",
    "cluster": "chooses where runs are computed",
    "provenance": "names the code",
}
_SIMULATES = {
    "simulation.simulate:simulate": "the simulator",
    "simulation.hosts:simulate_machines": "the simulator",
    "simulation.hosts:Hosts": "the simulator",
    "simulation.replication:simulate_replication": "the simulator",
    "simulation.swarm:run_swarm": "the simulator",
}
_OF_A_KERNEL = {
    "emulation.emulate": "kernels",
    "emulation.overlay.*": "kernels",
    "emulation.reachability": "kernels",
}
_REAL_TIME = {"emulation.real_time.*": "this machine's own kernel"}
_VIRTUAL_TIME = {"emulation.virtual.*": "the virtual kernel"}
# What a tier does not run, although its measurements' code names it.
ELSEWHERE = {
    "simulated": _OF_A_KERNEL | _REAL_TIME | _VIRTUAL_TIME,
    "virtual": _SIMULATES | _REAL_TIME,
    "rootless": _SIMULATES | _VIRTUAL_TIME,
    "privileged": _SIMULATES | _VIRTUAL_TIME,
}
# Names of the core that only say which controls and schedulers there are, so that descriptions can be checked.
_NAMES_ONLY = {"congestion_controls", "subflow_schedulers", "build_stamp"}


@dataclass(frozen=True)
class Code:
    """The code of a paper's numbers on one tier: the definitions, and files by kind (core, kernel, data, beside)."""

    needs: Needs
    files: dict[str, list[Path]]
    notebook: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return a line for each definition and file: its kind, its name and the hash of what counts in it."""
        texts = [f"definition {line}" for line in self.needs.lines()]
        texts += [f"notebook {text}" for text in self.notebook]
        for kind, files in self.files.items():
            texts += [f"{kind} {'/'.join(path.parts[-2:])} {compiled.digest(path)}" for path in files]
        return sorted(texts)


@cache
def code_of(slug: str, tier: str, package: Path = PACKAGE) -> str:
    """Return a hash of all that a paper's numbers on a tier come from; "" for a paper that does not exist.

    Two hashes are equal where a run would measure with the same code. Installed packages, the machine and the
    parameters of a run are no part of it. package : the library's folder. Raises NetreproError for an unknown tier.
    """
    code = code_behind(slug, tier, package)
    if code is None:
        return ""
    return hashlib.sha256("\n".join(code.lines()).encode()).hexdigest()[:LETTERS]


@cache
def code_behind(slug: str, tier: str, package: Path = PACKAGE) -> Code | None:
    """Return the code that a paper's numbers on a tier come from; None for a paper that does not exist."""
    check_tier(tier)
    within = f"{package.name}.{{}}".format
    tells, elsewhere = [within(each) for each in TELLS], [within(each) for each in ELSEWHERE[tier]]
    door = within("backends"), "run"
    library = Library(package, tells, elsewhere, "applications", _NOT_MEASURED)
    paper = within(f"papers.{slug}")
    if library.module(paper) is None:
        return None
    notebook = _measuring_cells(slug)
    needs = library.needs([(paper, "STUDY")], notebook)
    if door not in needs.asked and not _has_experiment(needs):  # the paper measures without a network
        library = Library(package, [*tells, ":".join(door)], elsewhere, "applications", _NOT_MEASURED)
    library.needs([(within("study.measuring"), "measure"), (within("study.runs"), "Runs")], known=needs)
    core, kernel = package.parent / "core", package.parent / "kernel"
    names = needs.attributes | _called_by_programs(needs, core)
    files = {
        "beside": [path for path, program in needs.files.items() if program is None],
        "core": compiled.sources_of(names - _NAMES_ONLY, core),
        "kernel": _below(kernel) if tier == "virtual" else [],
        "data": _inputs(needs, all_data()),
    }
    return Code(needs, {kind: sorted(paths) for kind, paths in files.items()}, tuple(each.text for each in notebook))


def _has_experiment(needs: Needs) -> bool:
    """Tell whether the paper's Study gives an experiment, which `measure` then runs."""
    studies = [each for (_, name), some in needs.definitions.items() if name == "STUDY" for each in some]
    return any(re.search(r"\bexperiment=", study.text) for study in studies)


def _called_by_programs(needs: Needs, core: Path) -> set[str]:
    """Collect the names of the core that programs beside definitions call; they load it by its file."""
    bound = frozenset[str]().union(*compiled.names_of_bindings(core).values()) if core.is_dir() else frozenset()
    return {name for program in needs.files.values() if program for name in program.attributes & bound}


def _below(sources: Path) -> list[Path]:
    """List the sources, headers, patches and build files below a folder."""
    endings = (*compiled.ENDINGS, ".patch")
    return [each for each in sources.rglob("*") if each.suffix in endings or each.name in ("config", "Makefile")]


def _inputs(needs: Needs, data: Path) -> list[Path]:
    """List the files of data/ that definitions read.

    A definition that calls `data_dir` or `all_data` names a folder, itself or by a constant. Of the folder's files
    those count whose name, or that of a folder above them, is named anywhere, and those with an ending that this
    definition names (f"{name}.csv"); all where that gives none.
    """
    words, files = needs.strings(), list[Path]()
    if not data.is_dir():
        return []
    folders = {each.name: each for each in data.iterdir() if each.is_dir()}
    for (module, _), statements in needs.definitions.items():
        for statement in statements:
            if not any(chain.rpartition(".")[2] in ("data_dir", "all_data") for chain in statement.uses):
                continue
            near = set(statement.strings)
            near |= {
                word
                for (place, name), others in needs.definitions.items()
                if name in statement.uses and (place == module or name in statement.imports or name.isupper())
                for other in others
                for word in other.strings
            }
            for folder in (folders[name] for name in near & folders.keys()):
                inside = [each for each in folder.rglob("*") if each.is_file() and each.name not in SAYS_ONLY]
                files += [each for each in inside if _is_named(each, folder, words, statement.strings)] or inside
    return list(dict.fromkeys(files))


def _is_named(path: Path, folder: Path, words: set[str], near: frozenset[str]) -> bool:
    parts = {*path.relative_to(folder).parts, path.stem}
    return not parts.isdisjoint(words) or path.suffix in near


def _measuring_cells(slug: str) -> list[Statement]:
    """List the statements of a paper's notebook that its measurement needs, in their order: those that call
    `report.measure` and `report.judge`, and those that bind what these use. None where there is no notebook."""
    parts, wanted = [], []
    for text, is_settings in _code_cells(slug):
        for bound, statement in script(text):
            parts.append((bound, statement))
            wanted.append(is_settings or not statement.uses.isdisjoint(_MEASURES))
    module: dict[str, frozenset[Target]] = {}
    for _, statement in parts:
        for name, targets in statement.imports.items():
            module[name] = module.get(name, frozenset()) | targets
    names: set[str] = set()
    while True:
        chosen = [statement for (_, statement), is_in in zip(parts, wanted, strict=True) if is_in]
        used = {chain.partition(".")[0] for statement in chosen for chain in statement.uses}
        if used == names:
            break
        names = used
        wanted = [is_in or not bound.isdisjoint(names) for (bound, _), is_in in zip(parts, wanted, strict=True)]
    return [replace(each, imports={**module, **each.imports}) for each in chosen]


def _code_cells(slug: str) -> Iterator[tuple[str, bool]]:
    """Yield the code cells of a paper's notebook, without those of solutions: text, and whether it has the settings."""
    for path in sorted(notebooks_dir().glob(f"[0-9][0-9]_{slug}.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            tags = cell["metadata"].get("tags", [])
            if cell["cell_type"] == "code" and "solution" not in tags:
                yield "".join(cell["source"]), "parameters" in tags


def forget() -> None:
    """Forget what was read, so that edited files are read anew."""
    of_sources = (compiled.names_of_bindings, compiled.text_of, compiled.digest)
    for function in (code_of, code_behind, file_of, read_module, *of_sources):
        function.cache_clear()
