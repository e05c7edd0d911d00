"""What a notebook calls: claims, figures, verdicts, results."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from IPython.display import HTML, Image
from matplotlib.figure import Figure

from netrepro.claims import Measured, Results, load_claims, published_results, read_results, write_results
from netrepro.errors import NetreproError
from netrepro.papers import dctcp
from netrepro.workbench.notebook import report as report_module
from netrepro.workbench.notebook.report import NotebookReport, open_report
from netrepro.workbench.notebook.sizes import sizes_table

SETTINGS = {"profile": "quick", "tier": "auto", "repetitions": 2, "seed": 1, "load": 0.5}


@pytest.fixture
def report(echo_paper) -> NotebookReport:
    return open_report("echo", SETTINGS)


def test_a_person_at_the_notebook_writes_to_the_interactive_folder_and_publishes_nothing(report, workbench):
    report.judge([Measured(claim="load-is-half", values=[0.5, 0.5], control=[1, 1])])
    html = report.finish("The load is 0.5.")
    assert "replicated" in html.data
    assert report.folder == workbench / "runs/interactive/echo"
    run = read_results(report.folder / "results.json").runs["quick/simulated"]
    assert (run.answer, run.parameters) == ("The load is 0.5.", {"load": 0.5})
    assert not list((workbench / "figures").iterdir())


def test_the_first_answer_is_of_the_run_that_decides_with_the_papers_level(report, workbench, monkeypatch):
    claims = workbench / "data/echo/claims.yaml"
    decided = 'role: main\n    decided_by: {tier: simulated, profile: paper, because: "the published scale"}'
    claims.write_text(claims.read_text().replace("comparable_on: [simulated]", decided))
    report.judge([Measured(claim="load-is-half", values=[0.5, 0.501], control=[1, 1.001])])
    report.finish("Of the quick run.")
    quick = read_results(report.folder / "results.json").runs["quick/simulated"]
    told = {"profile": "paper", "date": quick.date - datetime.timedelta(days=1), "answer": "Of the longer run."}
    paper = quick.model_copy(update=told)
    runs = {run.key: run for run in (quick, paper)}
    write_results(Results(paper="echo", runs=runs), workbench / "figures/echo/results.json")
    pages: list[str] = []
    monkeypatch.setattr(report_module, "display", lambda html, display_id: pages.append(html.data))
    report_module.AnswerSlot("echo")
    assert "Of the longer run. <small>(● replicated; published" in pages[0]
    assert "published 0.5, ours 0.5005" in pages[0]
    assert "published" not in report.finish("Again.").data
    report.judge([Measured(claim="load-is-half", values=[0.4, 0.6], control=[1, 1.001])])
    assert "The published runs say: <b>● replicated</b>, 1 of 1 main claims." in report.finish("Undecided.").data


def test_the_same_figure_is_saved_with_the_same_bytes(report):
    saved = []
    for _ in range(2):
        figure, axis = plt.subplots()
        axis.plot([1, 2, 3])
        report.show(figure, "line")
        saved.append([(report.folder / f"line.{ending}").read_bytes() for ending in ("png", "svg")])
    assert saved[0] == saved[1]


def draw_line(runs: object = None) -> Figure:
    figure, axis = plt.subplots()
    axis.plot([1, 2, 3])
    return figure


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    """The pictures that the notebook shows, in order: open, or the summary under which one is folded."""
    pictures: list[str] = []

    def note(what: object, **how: object) -> None:
        if isinstance(what, Image):
            pictures.append("open")
        elif isinstance(what, HTML):
            assert "data:image/png;base64," in what.data
            pictures.append(what.data.split("<summary>")[1].split("</summary>")[0])

    monkeypatch.setattr(report_module, "display", note)
    return pictures


def test_the_sixth_figure_is_folded_and_one_that_is_drawn_again_is_not(report, shown):
    for name in "abcdefa":
        report.show(draw_line(), name)
    assert shown == ["open"] * 5 + ["f", "open"]


def test_the_figures_that_a_study_calls_its_best_are_open_and_the_others_folded(report, shown):
    runs = SimpleNamespace(study=SimpleNamespace(figures={"a": draw_line, "b": draw_line}, best=("b",)))
    for name in "ab":
        report.draw(runs, name)
    report.show(draw_line(), "network")
    assert shown == ["a", "open", "open"]


def test_every_figure_says_what_makes_it_again(echo_paper):
    import PIL.Image

    report = open_report("echo", SETTINGS | {"profile": "paper", "seed": 3, "load": 0.7})
    assert report.made_by == "made by: netrepro run echo --profile paper -p load=0.7 -p seed=3"
    report.show(plt.figure(), "line")
    assert PIL.Image.open(report.folder / "line.png").text["Description"] == report.made_by
    assert report.made_by in (report.folder / "line.svg").read_text()


def test_a_person_with_settings_of_their_own_writes_beside_the_standard_ones_and_names_them(echo_paper, workbench):
    report = open_report("echo", SETTINGS | {"load": 0.7})
    report.judge([Measured(claim="load-is-half", values=[0.7, 0.7])])
    assert "load = 0.7" in report.finish("The load is 0.7.").data
    assert report.folder == workbench / "runs/interactive/echo--load=0.7"
    assert read_results(report.folder / "results.json").runs["quick/simulated"].changed == {"load": 0.7}


def test_two_that_ask_otherwise_do_not_meet(echo_paper):
    asked = [{}, {"load": 0.7}, {"profile": "paper"}, {"tier": "simulated"}, {"profile": "paper", "load": 0.7}]
    assert len({open_report("echo", SETTINGS | each).folder for each in asked}) == len(asked)


def papermill(*words: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", *words]
    return subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True)


def test_papermill_alone_runs_a_notebook_beside_another_and_refuses_a_mistyped_name(echo_paper, workbench):
    """The README says so."""
    out, notebook = workbench / "out", str(echo_paper)
    out.mkdir()
    mine, others, mistyped = (
        papermill(notebook, str(out / "mine.ipynb"), "-p", "load", "0.7", NETREPRO_RUN_DIR=str(out / "mine")),
        papermill(notebook, str(out / "others.ipynb"), "-p", "load", "0.6"),
        papermill(notebook, str(out / "mistyped.ipynb"), "-p", "laod", "0.7"),
    )
    said = [process.communicate(timeout=600)[1] for process in (mine, others, mistyped)]
    assert [process.returncode for process in (mine, others, mistyped)] == [0, 0, 1], said
    assert "echo has no parameter 'laod'" in said[2] and "did you mean 'load'" in said[2]
    for folder, load in ((out / "mine", 0.7), (workbench / "runs/interactive/echo--load=0.6", 0.6)):
        run = read_results(folder / "results.json").runs["quick/simulated"]
        assert run.parameters == {"load": load} and (folder / "fig1_load.png").exists()


def test_a_tier_that_the_run_chose_by_itself_is_not_said_to_be_asked_for(echo_paper, tmp_path, monkeypatch):
    """A run hands its notebook the tier that "auto" has found, which by itself looks like a tier that is asked for."""
    given = SETTINGS | {"tier": "simulated"}
    assert open_report("echo", given).why_tier.startswith("asked for")
    monkeypatch.setenv("NETREPRO_RUN_DIR", str(tmp_path))
    manifest = {"tier": "simulated", "why_tier": "all that this machine has"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert open_report("echo", given).why_tier == "all that this machine has"
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"tier": "privileged"}))
    assert open_report("echo", given).why_tier.startswith("asked for")


@pytest.mark.parametrize("name", ["../escape", "a/b", "fig.png"])
def test_a_figure_name_that_is_no_plain_name_is_refused(report, name):
    with pytest.raises(NetreproError, match="cannot be called"):
        report.show(plt.figure(), name)


def test_a_claim_that_the_paper_does_not_make_is_refused(report):
    with pytest.raises(NetreproError, match="did you mean 'load-is-half'"):
        report.judge([Measured(claim="load-is-halved", values=[1, 2])])


def test_finishing_without_a_verdict_is_refused(report):
    with pytest.raises(NetreproError, match=r"report\.judge"):
        report.finish("nothing")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"profile": "papr"}, "did you mean 'paper'"),
        ({"tier": "rootles"}, "did you mean 'rootless'"),
        ({"repetitions": 1}, "at least 2"),
        ({"In": ["load = 0.5", "# Parameters\nlaod = 0.7\n"]}, "did you mean 'load'"),  # papermill's own cell
    ],
)
def test_a_mistyped_setting_is_refused(echo_paper, changed, words):
    with pytest.raises(NetreproError, match=words):
        open_report("echo", SETTINGS | changed)


def test_a_notebook_whose_parameters_were_not_executed_says_which_cell_to_run(echo_paper):
    with pytest.raises(NetreproError, match=r"load has no value\n  run the cell of section 3"):
        open_report("echo", {name: value for name, value in SETTINGS.items() if name != "load"})


@dataclass(frozen=True)
class Setting:
    load: float = 0.5
    queue: str = "red"


def test_the_reports_setting_is_the_papers_with_the_notebooks_parameters_and_no_other_name(echo_paper):
    report = open_report("echo", SETTINGS | {"load": 0.7, "queue": "of the notebook's own"}, Setting())
    assert report.setting == Setting(load=0.7)


def test_the_verdict_table_puts_paper_and_ours_side_by_side_and_says_what_does_not_count(report):
    table = report.judge([Measured(claim="load-is-half", values=[0.5, 0.5], control=[0.5, 0.5])]).data
    row = table.loc["load-is-half"]
    assert (row["paper"], row["ours"]) == ("0.5", "0.5")
    assert "does not count" in row["verdict"]


def test_runs_that_nothing_has_checked_are_refused(report, monkeypatch):
    values, checks = ({"tier": ["simulated"]}, {"tier": []})
    runs = SimpleNamespace(values=pd.DataFrame(values), checks=pd.DataFrame(checks))
    monkeypatch.setattr(report_module, "measure", lambda *given, **how: runs)
    with pytest.raises(NetreproError, match=r"no run on tier simulated has a check.*\n.*fidelity=run.fidelity"):
        report.measure(SimpleNamespace(claims={}, on_kernels={}), None)


def test_a_study_with_a_claim_that_is_none_is_refused_before_anything_is_measured(report, monkeypatch):
    monkeypatch.setattr(report_module, "measure", lambda *given, **how: pytest.fail("it was measured"))
    study = SimpleNamespace(claims={"load-is-haf": None}, on_kernels={})
    with pytest.raises(NetreproError, match=r"echo has no claim 'load-is-haf'\n.*'load-is-half'"):
        report.measure(study, None)


def test_section_3_shows_what_each_profile_and_tier_runs_and_which_one_this_is():
    table = sizes_table(dctcp.STUDY, "paper", "virtual").set_index(["profile", "tier"])
    assert list(table.index) == [(one, tier) for one in ("quick", "paper") for tier in ("simulated", "virtual")]
    assert list(table[""]) == ["", "", "", "◂ this run"]
    assert table.loc[("quick", "virtual"), "one run"] == f"{dctcp.STUDY.scale('quick', 'virtual').seconds:g} s"
    claims = load_claims("dctcp").claims
    there = sum(claim.decided_by is not None and claim.decided_by.key == "paper/virtual" for claim in claims)
    assert table.loc[("paper", "virtual"), "decides"] == f"{there} claims"
    timed = published_results("dctcp").runs["quick/simulated"].cpu_s
    assert table.loc[("quick", "simulated"), "processor time"] == f"{timed:.0f} s"
