"""Notebook parameters: read like papermill reads them, checked more strictly."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import papermill
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.workbench.catalogue.notebooks import Declaration, catalogue, describe, find, select
from netrepro.workbench.catalogue.parameters import Parameter, check_parameters, read_parameters, written_value

REPOSITORY = Path(__file__).parents[3]
NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))


def notebook_with(source: str) -> dict:
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": source}
    return {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_reads_the_same_with_papermill(path):
    theirs = papermill.inspect_notebook(path)
    ours = describe(path).parameters
    assert list(ours) == list(theirs)
    for name, parameter in ours.items():
        assert (parameter.type, parameter.help) == (theirs[name]["inferred_type_name"], theirs[name]["help"])


def test_a_line_gives_name_type_default_and_help():
    parameters = read_parameters(notebook_with("load: float = 0.5  # offered load (0 to 1)\nloads: list[int] = [1]"))
    assert parameters["load"] == Parameter("load", "float", 0.5, "offered load (0 to 1)")
    assert parameters["loads"].default == [1]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("load = 0.5", "holds `load = 0.5`"),
        ("load: flaot = 0.5", "did you mean 'float'"),
        ("load: float = half()", "not a literal"),
        ("load: float = 'a'", "not of type float"),
        ("load: float = ", "not Python"),
        ("import os", "holds `import os`"),
    ],
)
def test_a_line_of_another_form_is_refused_with_the_form(source, words):
    with pytest.raises(NetreproError, match=words):
        read_parameters(notebook_with(source))


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("float", "1", 1.0),
        ("float", "1e-3", 1e-3),
        ("int", "12", 12),
        ("bool", "True", True),
        ("bool", "false", False),
        ("str", "12", "12"),
        ("list[float]", "0.1,0.2", [0.1, 0.2]),
        ("list[int]", "[1, 2]", [1, 2]),
        ("list[str]", "a, b", ["a", "b"]),
        ("list[str]", '["a", "b"]', ["a", "b"]),
        ("list[str]", "'a', 1", ["a", "1"]),
        ("list[str]", '["a,b","c"]', ["a,b", "c"]),
        ("list[str]", "'a,b', c, it's", ["a,b", "c", "it's"]),
        ("list[str]", """'say "yes, sir"'""", ['say "yes, sir"']),
        ("list[str]", '["", "[a]"]', ["", "[a]"]),
        ("float", ".05", 0.05),
        ("float", "45.", 45.0),
        ("float", "+45", 45.0),
        ("int", "+45", 45),
        ("int", "1_024_000", 1_024_000),
        ("list[float]", "[.1, 1_000]", [0.1, 1000.0]),
    ],
)
def test_text_of_the_command_line_becomes_the_parameters_type(type_name, text, value):
    parsed = Parameter("x", type_name, None, "").parse(text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("type_name", "given"), [("int", "1.5"), ("int", True), ("float", "x"), ("bool", "1"), ("list[int]", "1,a")]
)
def test_a_value_of_another_type_is_refused(type_name, given):
    with pytest.raises(NetreproError, match=f"not of type {type_name.split('[')[0]}"):
        Parameter("x", type_name, None, "").parse(given)


@pytest.mark.parametrize(
    ("type_name", "given"),
    [("float", "inf"), ("float", float("nan")), ("list[float]", "0.1,inf"), ("list[float]", [0.1, float("nan")])],
)
def test_a_number_that_is_not_finite_is_refused_in_a_list_too(type_name, given):
    with pytest.raises(NetreproError, match="not finite"):
        Parameter("x", type_name, None, "").parse(given)


def test_an_unknown_parameter_is_refused_naming_the_nearest():
    known = read_parameters(notebook_with("load: float = 0.5  # load"))
    with pytest.raises(NetreproError, match="did you mean 'load'"):
        check_parameters(known, {"laod": 1}, "repflow_model")


def test_a_notebook_is_found_by_slug_number_and_file_name(add_notebook):
    path = add_notebook("well_behaved", 42)
    for name in ("well_behaved", "42_well_behaved", "42_well_behaved.ipynb", str(path)):
        assert find(name).path == path
    with pytest.raises(NetreproError, match="did you mean 'well_behaved'"):
        find("wel_behaved")


def test_the_catalogue_goes_by_number_and_the_scorecard_comes_last(add_notebook):
    add_notebook("well_behaved", 20)
    add_notebook("raised_exception", 10)
    add_notebook("echo", 5, last=True)
    assert [notebook.slug for notebook in catalogue()] == ["echo", "raised_exception", "well_behaved"]
    assert [notebook.slug for notebook in select(None)] == ["raised_exception", "well_behaved", "echo"]
    assert [notebook.slug for notebook in select(["echo", "05_echo", "well_behaved"])] == ["well_behaved", "echo"]


def test_a_declaration_with_an_unknown_key_becomes_the_notebooks_problem(add_notebook):
    path = add_notebook("well_behaved", budgets=3)
    notebook = describe(path)
    assert "budgets" in notebook.problem and notebook.declaration == Declaration(slug="well_behaved")


@pytest.mark.parametrize(
    ("type_name", "given", "value"),
    [
        ("int", np.int64(12), 12),
        ("float", np.float32(0.5), 0.5),
        ("bool", np.True_, True),
        ("list[float]", np.array([0.5, 1.0]), [0.5, 1.0]),
        ("list[int]", (np.int64(1), 2), [1, 2]),
        ("str", Path("a/b.csv"), "a/b.csv"),
    ],
)
def test_values_of_numpy_tuples_and_paths_are_those_that_they_stand_for(type_name, given, value):
    parsed = Parameter("x", type_name, None, "").parse(given)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "[" * 100_000,
        '{"cells": [1]}',
        '{"cells": [], "metadata": []}',
        '{"cells": [{"cell_type": "code", "metadata": []}]}',
        '{"cells": [{"cell_type": "code", "metadata": {}, "source": [1]}]}',
        '{"worksheets": []}',
    ],
)
def test_a_file_that_is_no_notebook_is_named_and_stops_no_other(add_notebook, workbench, content):
    add_notebook("well_behaved", 20)
    damaged = workbench / "notebooks/10_damaged.ipynb"
    damaged.write_text(content)
    assert [(each.slug, bool(each.problem)) for each in catalogue()] == [("damaged", True), ("well_behaved", False)]
    assert "10_damaged.ipynb" in find("damaged").problem


def test_a_folder_or_a_dead_link_named_like_a_notebook_is_named_and_stops_no_other(add_notebook, workbench):
    add_notebook("well_behaved", 20)
    (workbench / "notebooks/10_folder.ipynb").mkdir()
    (workbench / "notebooks/11_link.ipynb").symlink_to("nowhere")
    problems = {each.slug: each.problem for each in catalogue()}
    assert "10_folder.ipynb cannot be read: Is a directory" in problems["folder"]
    assert "no notebook" in problems["link"] and problems["well_behaved"] == ""


def test_a_copy_under_the_same_slug_never_stands_for_the_notebook(echo_paper, workbench):
    """A person may make a copy to play with: its results would be taken for those of the paper."""
    shutil.copy(echo_paper, workbench / "notebooks/70_echo.ipynb")
    assert [(each.name, bool(each.problem)) for each in select(None)] == [("10_echo", False), ("70_echo", True)]
    assert find("echo").name == "10_echo" and find("echo").problem == ""
    assert "has the slug of 10_echo.ipynb" in find("70_echo").problem


@pytest.mark.parametrize("text", ['"a,b', "a,'b", '["a,b","c]', '"'])
def test_a_quote_that_does_not_end_is_refused(text):
    with pytest.raises(NetreproError, match="is not of type list"):
        Parameter("names", "list[str]", [], "").parse(text)


@given(st.lists(st.text("ab ,[]'", min_size=0, max_size=6)))
def test_a_list_of_words_is_written_as_it_is_read(words):
    assert Parameter("names", "list[str]", [], "").parse(written_value(words)) == words
