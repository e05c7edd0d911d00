"""The notebooks of a workbench: subject, cost and needs of each, read from the files without executing them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from netrepro.errors import NetreproError, nearest
from netrepro.paths import notebooks_dir, slug_of
from netrepro.tiers_and_profiles import TIERS
from netrepro.workbench.catalogue.parameters import Parameter, read_parameters

FILE_NAME = re.compile(r"(?P<number>\d\d)_(?P<slug>[a-z0-9_]+)\.ipynb")


QUICK_S = 60  # the quick profile may take so long on two idle cores; a notebook that takes longer says why


class Declaration(BaseModel):
    """The entry `netrepro` in a notebook's metadata."""

    model_config = ConfigDict(extra="forbid")

    slug: str
    kind: str = Field(default="paper", pattern="^(paper|guide)$")
    lane: str = Field(default="compute", pattern="^(compute|quiet)$")
    tiers: list[str] = ["simulated"]  # in the order in which "auto" tries them
    budget_s: dict[str, float] = {"quick": 60, "paper": 600}
    emulated_budget_s: dict[str, float] = {}  # on real kernels, where it differs from budget_s
    longer_because: str = ""  # why the quick profile takes more than QUICK_S
    memory_mb: dict[str, int] = {"quick": 500, "paper": 1000}
    figures_of: dict[str, list[str]] = {}  # tier -> figures that are published from the run on that tier
    both_kinds: bool = False  # with --both it runs in the simulator and on real kernels
    beside_kernel: bool = False  # shows or measures something on the virtual kernel, whatever its tier
    last: bool = False  # runs after all others (the scorecard)

    @field_validator("tiers")
    @classmethod
    def _check_tiers(cls, tiers: list[str]) -> list[str]:
        for tier in tiers:
            if tier not in TIERS:
                raise ValueError(f"no tier {tier!r}, {nearest(tier, TIERS)}")
        return tiers

    @model_validator(mode="after")
    def _check_figures(self) -> Declaration:
        for tier in set(self.figures_of) - set(self.tiers):
            raise ValueError(f"figures_of: no tier {tier!r} of this notebook, {nearest(tier, self.tiers)}")
        names = [name for names in self.figures_of.values() for name in names]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"figures_of: {name!r} is of more than one run")
        return self

    def figures_of_others(self, tier: str) -> set[str]:
        """Return the names of the figures that are published from a run on another tier."""
        return {name for other, names in self.figures_of.items() if other != tier for name in names}

    def budget_on(self, tier: str, profile: str) -> float:
        """Return the notebook's time budget on a tier, in seconds."""
        own = {} if tier == "simulated" else self.emulated_budget_s
        return own.get(profile, self.budget_s[profile])


@dataclass(frozen=True)
class Notebook:
    """One notebook of the catalogue.

    `problem` says why a file cannot be run (broken JSON, no parameters cell, …); the other fields are then defaults.
    """

    path: Path
    slug: str
    declaration: Declaration
    title: str = ""
    parameters: dict[str, Parameter] = field(default_factory=dict)
    problem: str = ""

    @property
    def name(self) -> str:
        """File name without its ending: NN_<slug>."""
        return self.path.stem


def read_notebook(path: Path) -> dict:
    """Read a notebook's JSON. Raises NetreproError when the file is missing, is unreadable or is not a notebook."""
    restore = f"restore it: git checkout {path.name}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NetreproError(f"no notebook at {path}", "see `netrepro list`") from None
    except OSError as error:
        raise NetreproError(f"{path.name} cannot be read: {error.strerror}", "put a notebook in its place") from None
    except (ValueError, RecursionError) as error:
        raise NetreproError(f"{path.name} is not valid JSON ({error})", restore) from None
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise NetreproError(f"{path.name} holds no cells", restore)
    if not isinstance(content.get("metadata", {}), dict):
        raise NetreproError(f"{path.name}: its metadata are none", restore)
    for number, cell in enumerate(content["cells"]):
        if not _is_cell(cell):
            raise NetreproError(f"{path.name}: cell {number} is none", restore)
    return content


def _is_cell(cell: Any) -> bool:
    """Tell whether an entry of a notebook's `cells` has the fields of a cell (nbformat 4)."""
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return False
    metadata, source = cell.get("metadata", {}), cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    return isinstance(metadata, dict) and all(isinstance(line, str) for line in lines)


def cell_source(cell: dict) -> str:
    """Return a cell's text; nbformat allows a string or a list of lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def cell_texts(content: dict) -> list[tuple[str, str]]:
    """Return the type and the text of each cell of a notebook, without saved outputs."""
    return [(cell["cell_type"], cell_source(cell)) for cell in content["cells"]]


def describe(path: Path) -> Notebook:
    """Read one notebook's declaration, title and parameters; an error in the file becomes its `problem`."""
    match = FILE_NAME.fullmatch(path.name)
    slug = match["slug"] if match else path.stem
    try:
        content = read_notebook(path)
        declared = content.get("metadata", {}).get("netrepro")
        if declared is None:
            raise NetreproError(f"{path.name} has no `netrepro` entry in its metadata", "copy _template.ipynb")
        declaration = Declaration.model_validate(declared)
        if declaration.slug != slug:
            raise NetreproError(f"{path.name} declares the slug {declaration.slug!r}", f"name it {slug!r}")
        parameters = read_parameters(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return Notebook(
            path, slug, Declaration(slug=slug), problem=f"{path.name}, metadata netrepro.{where}: {first['msg']}"
        )
    except NetreproError as error:
        return Notebook(path, slug, Declaration(slug=slug), problem=str(error))
    titles = [line for cell in content["cells"] for line in cell_source(cell).splitlines() if line[:2] == "# "]
    return Notebook(path, slug, declaration, titles[0][2:].strip() if titles else slug, parameters)


def catalogue(folder: Path | None = None) -> list[Notebook]:
    """List every NN_<slug>.ipynb of the folder (default: the workbench's notebooks/), in the order of NN.

    Where several notebooks have the same slug, all but the first have a `problem`.
    """
    files = _files(folder)
    return [_described(path, files) for path in files]


def _described(path: Path, files: Sequence[Path]) -> Notebook:
    notebook, first = describe(path), next(each for each in files if slug_of(each.name) == slug_of(path.name))
    if first == path:
        return notebook
    problem = f"{path.name} has the slug of {first.name}: give it another, in its name and its metadata"
    return replace(notebook, problem=notebook.problem or problem)


def _files(folder: Path | None) -> list[Path]:
    return [path for path in sorted((folder or notebooks_dir()).glob("*.ipynb")) if FILE_NAME.fullmatch(path.name)]


def strays(folder: Path | None = None) -> list[str]:
    """List the notebooks whose names keep them out of the catalogue, except those whose names begin with _."""
    folder = folder or notebooks_dir()
    return [path.name for path in sorted(folder.glob("[!_]*.ipynb")) if not FILE_NAME.fullmatch(path.name)]


def find(name: str, folder: Path | None = None) -> Notebook:
    """Find a notebook by slug, NN_slug or file name. Raises NetreproError naming the nearest slug."""
    stem = Path(name).stem if name.endswith(".ipynb") else name
    files = _files(folder)
    for path in files:
        if stem in (path.stem, slug_of(path.name)):
            return _described(path, files)
    if f"{stem}.ipynb" in strays(folder):
        raise NetreproError(f"{stem}.ipynb has no number", f"name it NN_<slug>.ipynb, such as 70_{stem}.ipynb")
    raise NetreproError(f"no notebook called {name!r}", nearest(stem, (slug_of(path.name) for path in files)))


def select(names: Sequence[str] | None, folder: Path | None = None) -> list[Notebook]:
    """Select the named notebooks, each once, or all of them; notebooks marked `last` come last."""
    chosen = [find(name, folder) for name in names] if names else catalogue(folder)
    unique = {notebook.path: notebook for notebook in chosen}
    return sorted(unique.values(), key=lambda notebook: (notebook.declaration.last, notebook.name))
