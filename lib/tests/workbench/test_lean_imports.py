"""What executing a notebook need not import."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

import netrepro

PACKAGE = Path(netrepro.__file__).parent


def test_a_process_that_executes_notebooks_parses_no_grammar_of_addresses():
    code = "import sys, netrepro.workbench.running.execute; print('jsonschema' in sys.modules, 'lark' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["True", "False"]


def test_what_lists_notebooks_loads_no_tables_and_no_figures():
    code = "import sys, netrepro.workbench.catalogue.notebooks; print({'pandas', 'matplotlib'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_no_schema_of_a_notebook_has_the_format_that_is_gone_without():
    schemas = [path.read_text() for path in Path(nbformat.__file__).parent.rglob("*.schema.json")]
    assert len(schemas) >= 6 and not any('"iri' in schema for schema in schemas)


def test_only_a_process_of_our_own_goes_without_a_format():
    """The executing one, which imports nothing of a person's: what a notebook imports keeps all that it has."""
    files = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    assert [path.name for path, text in files.items() if "workbench.running.lean_imports" in text] == ["execute.py"]
    imports = re.compile(r"(import|from) netrepro\.workbench(\.execute| import.*\bexecute\b)")
    assert not [path for path, text in files.items() if imports.search(text)]


def test_a_first_figure_is_drawn_without_what_notebooks_need(workbench):
    """`make first` installs none of these."""
    shutil.copytree(PACKAGE.parents[1] / "data" / "dctcp", workbench / "data" / "dctcp")
    absent = ("IPython", "ipywidgets", "nbformat", "papermill", "sklearn", "torch", "typer", "z3")
    program = f"""import sys
class Absent:
    def find_spec(name, path=None, target=None):
        if name in {absent!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent)
from netrepro.workbench.notebook.first_figure import draw_first_figure
print(draw_first_figure().stat().st_size)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10_000
