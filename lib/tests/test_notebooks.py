"""Every notebook: the template's headings, typed and explained parameters, no outputs, no logic; and it runs."""

from __future__ import annotations

import ast
import builtins
import json
import re
import tokenize
from importlib import import_module
from io import StringIO
from itertools import takewhile
from pathlib import Path

import nbformat
import pytest

from netrepro.paths import runs_dir
from netrepro.study import OPEN_FIGURES
from netrepro.workbench.catalogue.notebooks import QUICK_S, Notebook, catalogue, describe
from netrepro.workbench.catalogue.ranges import range_of
from netrepro.workbench.classroom.exercises import FOLDED, SOLUTION, class_copy, read_exercises
from netrepro.workbench.running.runner import RunReport, run

FOLDER = Path(__file__).parents[2] / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
SLUGS = [notebook.slug for notebook in catalogue(FOLDER)]
HEADINGS = [
    "1 The idea in one picture",
    "2 What the paper claims",
    "3 Settings",
    "4 Build the network",
    "5 Measure",
    "6 Can we trust this run?",
    "7 Look",
    "8 Paper, class report and ours",
    "9 Break it on purpose",
    "10 What matters",
    "11 Verdict and differences",
    "12 Try next",
]
# What a notebook's tiers are, which papers there are, and a file, which its reader refuses.
CHECKED_OTHERWISE = ("tier", "paper", "shown_paper", "internet")
STANDARD_PARAMETERS = ["profile", "tier", "repetitions", "seed"]
CELL_LINES = 5
PAGE_WORDS = 500
# Processor time, wall time and memory; a size has "of" or "above" before it.
COST = re.compile(
    r"\b(?:minutes?|hours?|memory|megabytes?|CPU|processor time)\b"
    r"|\b(?:of|on) (?:an?|one|two)(?: quiet)? (?:cores?|processors?)\b"
    r"|\btakes?\b[^.;]*?(?:\d s|\bseconds)\b"
    r"|(?<!of )(?<!above )\b\d[\d.,]* [MG]B\b"
)
FORBIDDEN = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.Try, ast.Lambda)


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def notebook(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def is_paper(path: Path) -> bool:
    return describe(path).declaration.kind == "paper"


def test_it_is_valid_and_declares_itself_without_problem(path, notebook):
    nbformat.validate(notebook)
    assert describe(path).problem == ""


def test_a_quick_profile_of_more_than_a_minute_says_why(path):
    declared = describe(path).declaration
    assert (declared.budget_s["quick"] > QUICK_S) is bool(declared.longer_because)


def test_its_title_is_a_question(path, notebook):
    title = describe(path).title
    assert notebook.cells[0].cell_type == "markdown" and title
    assert title.endswith("?") or path.stem == "_template"


def test_a_paper_has_the_templates_headings_in_their_order(path, notebook):
    if is_paper(path):
        lines = [line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
        assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == HEADINGS


def test_a_paper_has_twenty_to_forty_five_cells_and_the_standard_parameters_first(path, notebook):
    if is_paper(path):
        assert 20 <= len(notebook.cells) <= 45
        assert list(describe(path).parameters)[:4] == STANDARD_PARAMETERS


def test_a_paper_shows_five_figures_at_most_and_folds_the_rest(path, notebook):
    if path.stem == "_template" or not is_paper(path):
        return
    study = import_module(f"netrepro.papers.{describe(path).slug}").STUDY
    calls = [
        node
        for cell in notebook.cells
        if cell.cell_type == "code"
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("report.draw", "report.show")
    ]
    drawn = [ast.literal_eval(call.args[1]) for call in calls if ast.unparse(call.func) == "report.draw"]
    assert set(study.best) <= set(drawn)
    if study.best:  # else the report counts
        assert len(study.best) + len(calls) - len(drawn) <= OPEN_FIGURES


def test_every_published_figure_is_one_that_it_draws(path, notebook):
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    published = [figure.stem for figure in (FOLDER.parent / "figures" / describe(path).slug).glob("*.png")]
    assert [name for name in published if f'"{name}"' not in code] == []


def test_what_differs_from_the_paper_is_a_page_at_most_and_the_rest_is_folded(path, notebook):
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## 11"):
            words = re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL).split()
            assert len(words) <= PAGE_WORDS, f"{len(words)} words: fold what matters least"


def test_the_settings_tell_no_cost_which_the_table_below_them_has(path, notebook):
    if is_paper(path):
        (text,) = (c.source for c in notebook.cells if c.cell_type == "markdown" and c.source.startswith("## 3 "))
        assert [said.group() for said in COST.finditer(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "it takes half a minute",
        "some 35 s of processor time",
        "20 s of one core",
        "on two quiet cores",
        "takes some 20 s",
        "takes twenty seconds",
        "real processes take six seconds more",
        "a second of CPU",
        "quick has 300 MB",
        "five swarms and 1.5 GB",
        "the memory of both profiles",
    ],
)
def test_a_cost_is_found(text):
    assert COST.search(text)


@pytest.mark.parametrize(
    "text", ["runs last 0.5 s", "flows of 20 MB", "kernels take real time", "the core carries 300 Mb/s"]
)
def test_what_is_measured_is_no_cost(text):
    assert not COST.search(text)


def test_every_parameter_is_explained(path):
    for parameter in describe(path).parameters.values():
        assert len(parameter.help) > 3, f"{parameter.name} has no help"


def test_every_number_and_word_says_what_it_may_be(path):
    for parameter in describe(path).parameters.values():
        if parameter.type != "bool" and parameter.name not in CHECKED_OTHERWISE:
            assert range_of(parameter.name, parameter.help), f"{parameter.name}: end its help with a range, [1 to 9]"


def test_it_is_committed_without_outputs(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


def test_no_cell_holds_logic(notebook):
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type != "code" or "parameters" in tags or "example" in tags:
            continue  # an example shows what a reader may write, such as a module of one's own
        tree = ast.parse(cell.source)
        assert not any(isinstance(node, FORBIDDEN) for node in ast.walk(tree)), cell.source
        statements = sum((node.end_lineno or 0) - node.lineno + 1 for node in tree.body)
        assert statements <= CELL_LINES, f"{statements} lines belong into the library:\n{cell.source}"


def test_nothing_is_drawn_or_measured_before_the_parameters_but_the_idea_which_has_none(notebook):
    """A person's settings must be seen in what is drawn: papermill sets them in the cell after the parameters'."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    before = takewhile(lambda cell: "parameters" not in cell.metadata.get("tags", []), cells)
    for node in ast.walk(ast.parse("\n".join(cell.source for cell in before))):
        if isinstance(node, ast.Call):
            said = ast.unparse(node)
            assert said == "paper.draw_idea()" or said.startswith(("guide.", "answer_slot(")), said


def solutions(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if SOLUTION in cell.metadata.get("tags", [])]


def test_solutions_are_folded_and_the_reader_is_told(notebook):
    for cell in solutions(notebook):
        assert cell.metadata.get("jupyter") == {"source_hidden": True, "outputs_hidden": True}
        # JupyterLab shows the first line of a folded cell, and unfolds what a cell shows when it runs.
        assert cell.source.startswith("# The solution of exercise")
        assert ends_with_a_semicolon(cell.source), cell.source
    told = any(FOLDED in cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert told is bool(solutions(notebook))


def ends_with_a_semicolon(source: str) -> bool:
    """Tell whether the last of a cell's tokens that is no comment keeps what it finds from being shown."""
    tokens = [token for token in tokenize.generate_tokens(StringIO(source).readline) if token.string.strip()]
    return [token.string for token in tokens if token.type != tokenize.COMMENT][-1] == ";"


def test_each_solution_says_what_it_solves_and_a_class_copy_holds_none(path, notebook):
    found = read_exercises(notebook, describe(path).slug)
    assert {each.code for each in found} - {""} == {cell.source for cell in solutions(notebook)}
    copy = nbformat.from_dict(class_copy(notebook, describe(path).slug))
    nbformat.validate(copy)
    for cell in solutions(notebook):
        assert all(line not in other.source for other in copy.cells for line in cell.source.splitlines() if line)


def test_a_solution_stands_on_nothing_that_another_solution_makes(notebook):
    """A check executes it alone, after the cells above it."""
    above = {cell.source for cell in notebook.cells if cell.cell_type == "code"} - {
        c.source for c in solutions(notebook)
    }
    made = {name for source in above for name in names_in(source, ast.Store)} | set(dir(builtins))
    for cell in solutions(notebook):
        assert names_in(cell.source, ast.Load) <= made | names_in(cell.source, ast.Store), cell.source


def names_in(source: str, context: type[ast.expr_context]) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    found = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)}
    imports = [alias for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
    return found | {alias.asname or alias.name for alias in imports} if context is ast.Store else found


@pytest.fixture(scope="module")
def executed() -> RunReport:
    """The whole set in the quick profile: what `make run` has executed with the same notebook, data and library is
    looked at; what is not there is executed."""
    return run(resume="same library")


@pytest.mark.timeout(0)  # the runner limits each notebook
@pytest.mark.parametrize("slug", SLUGS)
def test_it_runs_in_the_quick_profile(executed, slug):
    for status in [each for each in executed.statuses if each.slug == slug]:
        assert status.ok, status.explanation()


@pytest.mark.parametrize("slug", SLUGS)
def test_its_executed_copy_shows_figures_and_no_path_of_the_machine(executed, slug):
    entry: Notebook = next(entry for entry in catalogue(FOLDER) if entry.slug == slug)
    text = (runs_dir() / "quick" / entry.name / "executed.ipynb").read_text()
    content = json.loads(text)
    outputs = [output for cell in content["cells"] for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    drawn = [cell.get("outputs", []) for cell in content["cells"] if "report.draw(" in "".join(cell["source"])]
    assert sum("image/png" in output.get("data", {}) for each in drawn for output in each) <= OPEN_FIGURES
    assert not any(output["output_type"] == "error" for output in outputs)
    shown = json.dumps(
        [output for output in outputs if output["output_type"] != "stream" or output["name"] == "stdout"]
    )
    assert str(FOLDER.parent) not in shown
