"""The parameters cells of notebooks, which `make strip` writes from the papers' settings, and a check of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field
from importlib import import_module
from typing import Any

from netrepro.errors import NetreproError, nearest
from netrepro.files import write_atomically
from netrepro.study.setting import parameter_fields, with_parameter_lines
from netrepro.workbench.catalogue.clean_notebook import notebook_text
from netrepro.workbench.catalogue.notebooks import Notebook, catalogue, cell_source, read_notebook

PARAMETERS = "parameters"  # the tag of the cell
OF_EVERY_PAPER = ("profile", "tier", "repetitions", "seed")  # parameters that no Setting declares


def declared_parameters(slug: str, shown: list[str]) -> list[Field[Any]]:
    """Return the fields of a paper's Setting that its notebook offers as parameters; none without a Setting.

    shown : the notebook's parameters. Where the Setting is another paper's, only fields among these are returned.
    """
    name = f"netrepro.papers.{slug}"
    try:
        setting = getattr(import_module(name), "Setting", None)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return []  # a guide
    if setting is None:
        return []
    is_own = f"{setting.__module__}.".startswith(f"{name}.")
    return [each for each in parameter_fields(setting) if is_own or each.name in shown]


def check_in_setting(notebook: Notebook, names: Iterable[str]) -> None:
    """Raise NetreproError for a parameter (of those named) of the notebook that the paper's Setting does not have: a
    value of it would change nothing."""
    declared = [each.name for each in declared_parameters(notebook.slug, list(notebook.parameters))]
    for name in names:
        if declared and name not in (*declared, *OF_EVERY_PAPER):
            raise NetreproError(
                f"{notebook.slug}: the notebook has a parameter {name!r}, and the Setting has none",
                f"{nearest(name, declared)}; make strip removes its line from the notebook",
            )


def written_cell(source: str, slug: str, shown: list[str]) -> str:
    """Return a notebook's parameters cell as its paper's Setting declares it. shown : as in `declared_parameters`."""
    return with_parameter_lines(source, declared_parameters(slug, shown), OF_EVERY_PAPER)


def write_parameters() -> list[str]:
    """Write the parameters of every paper's Setting into its notebook, without lines of others, and return the names of
    changed notebooks."""
    changed = []
    for notebook in catalogue():
        content = read_notebook(notebook.path)
        cells = [cell for cell in content["cells"] if PARAMETERS in cell["metadata"].get("tags", [])]
        for cell in cells:
            written = written_cell(cell_source(cell), notebook.slug, list(notebook.parameters))
            if written != cell_source(cell):
                cell["source"] = written.splitlines(keepends=True)
                write_atomically(notebook.path, notebook_text(content))
                changed.append(notebook.name)
    return changed


if __name__ == "__main__":
    write_parameters()
