"""A notebook as the last commit has it: its standard settings, and files edited since.

A person may edit a notebook's settings and save them. This does not change the standard settings, which are those of
the last commit.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netrepro.errors import NetreproError
from netrepro.git import git
from netrepro.workbench.catalogue.notebooks import Notebook, cell_texts, read_notebook
from netrepro.workbench.catalogue.parameters import Parameter, read_parameters, written_value

CHOSEN_BY_THE_RUN = ("profile", "tier")  # parameters that `--profile` and `--tier` set


def committed_notebook(path: Path) -> dict[str, Any] | None:
    """Return a notebook's JSON as the last commit has it; None where it is not committed or git fails."""
    try:
        content = json.loads(git("show", f"HEAD:./{path.parent.name}/{path.name}"))
    except (NetreproError, json.JSONDecodeError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get("cells"), list) else None


def standard_parameters(notebook: Notebook) -> dict[str, Parameter]:
    """Return the committed notebook's parameters, or the file's where no readable notebook is committed."""
    committed = committed_notebook(notebook.path)
    try:
        return read_parameters(committed) if committed else notebook.parameters
    except NetreproError:
        return notebook.parameters


def changed_parameters(notebook: Notebook, values: Mapping[str, Any]) -> dict[str, Any]:
    """Select the `values` that differ from the standard ones; profile and tier do not count.

    The values have the right type, as `check_parameters` gives them. For a parameter that the last commit does not
    have, the standard is the file's.
    """
    standard = notebook.parameters | standard_parameters(notebook)
    return {
        name: value
        for name, value in values.items()
        if name in standard and name not in CHOSEN_BY_THE_RUN and value != standard[name].default
    }


def edited_inputs(notebook: Notebook) -> list[str] | None:
    """List the files that decide a result and differ from the last commit: the library, the paper's data, the
    notebook's cells.

    Returns None where git cannot tell. Saved outputs of a notebook do not count as an edit.
    """
    code = ["lib/netrepro", "lib/core", "lib/CMakeLists.txt"]
    places = [*code, f"data/{notebook.slug}", f"notebooks/{notebook.path.name}"]
    try:
        git("rev-parse", "HEAD")
        entries = git("status", "--porcelain", "--untracked-files=all", "-z", "--no-renames", "--", *places).split("\0")
    except NetreproError:
        return None
    edited = [entry[3:] for entry in entries if entry]
    committed = committed_notebook(notebook.path)
    if committed and cell_texts(committed) == cell_texts(read_notebook(notebook.path)):
        edited = [name for name in edited if not name.endswith(f"notebooks/{notebook.path.name}")]
    return edited


def commit_name(commit: str | None, notebook: Notebook) -> str:
    """Return the name of the code that measures the notebook: the commit, with "-dirty" where its inputs differ from
    the commit; "unknown" where git does not say both."""
    edited = edited_inputs(notebook)
    if commit is None or edited is None:
        return "unknown"
    return f"{commit}-dirty" if edited else commit


def run_command(slug: str, profile: str, tier: str, chosen: Mapping[str, Any], *, scheduler: str | None = None) -> str:
    """Return the command that runs a notebook with these settings; the profile quick and the tier auto are omitted.

    chosen : parameters, name -> value.
    """
    words = ["netrepro", "run", slug]
    words += [] if profile == "quick" else ["--profile", profile]
    words += [] if tier == "auto" else ["--tier", tier]
    words += [] if scheduler is None else ["--scheduler", scheduler]
    for name, value in chosen.items():
        words += ["-p", f"{name}={written_value(value)}"]
    return shlex.join(words)


def made_by(notebook: Notebook, profile: str, tier: str, changed: Mapping[str, Any]) -> str:
    """Return the text in a figure's metadata: the command that makes the figure again, with the tier where there is a
    choice of tiers."""
    choice = len(notebook.declaration.tiers) > 1
    return f"made by: {run_command(notebook.slug, profile, tier if choice else 'auto', changed)}"
