"""The parameters cells of notebooks, which `make strip` writes from the papers' settings."""

from __future__ import annotations

from dataclasses import Field
from importlib import import_module
from typing import Any

from netrepro.files import write_atomically
from netrepro.study.setting import parameter_fields, with_parameter_lines
from netrepro.workbench.catalogue.clean_notebook import notebook_text
from netrepro.workbench.catalogue.notebooks import catalogue, cell_source, read_notebook

PARAMETERS = "parameters"  # the tag of the cell


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


def write_parameters() -> list[str]:
    """Write the parameters of every paper's Setting into its notebook, and return the names of changed notebooks."""
    changed = []
    for notebook in catalogue():
        declared = declared_parameters(notebook.slug, list(notebook.parameters))
        content = read_notebook(notebook.path)
        cells = [cell for cell in content["cells"] if PARAMETERS in cell["metadata"].get("tags", [])]
        for cell in cells:
            written = with_parameter_lines(cell_source(cell), declared)
            if written != cell_source(cell):
                cell["source"] = written.splitlines(keepends=True)
                write_atomically(notebook.path, notebook_text(content))
                changed.append(notebook.name)
    return changed


if __name__ == "__main__":
    write_parameters()
