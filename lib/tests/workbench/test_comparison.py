"""Two runs beside each other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from netrepro.errors import NetreproError
from netrepro.workbench import compare
from netrepro.workbench.running.runner import run_variants

NAMES = ["10_echo--load=0.5", "10_echo--load=0.7"]


@pytest.fixture(scope="module")
def both(tmp_path_factory, lay_out_echo) -> Path:
    root = tmp_path_factory.mktemp("both")
    lay_out_echo(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETREPRO_ROOT", str(root))
        report = run_variants("echo", [{"load": 0.5}, {"load": 0.7}], into=root / "runs", jobs=2)
    assert [status.name for status in report.statuses if status.ok] == NAMES
    return root / "runs"


@pytest.fixture
def two_runs(both, echo_paper, workbench) -> list[str]:
    """The names of two runs in the workbench."""
    shutil.copytree(both, workbench / "runs/quick")
    return NAMES


def test_two_runs_show_settings_values_verdicts_and_figures(two_runs, workbench):
    done = compare(*two_runs)
    assert done.settings.to_dict("records") == [{"setting": "load", "first": 0.5, "second": 0.7}]
    (row,) = done.table.to_dict("records")
    assert (row["mine_value"], row["mine_verdict"]) == (0.5, "agrees")
    assert (row["published_value"], row["published_verdict"]) == (0.7, "disagrees")
    lines = done.lines()
    assert "differs    load: first 0.5, second 0.7" in lines and max(map(len, lines)) <= 80
    page = done.write().read_text()
    assert page.count("data:image/png;base64,") == 2 and "disagrees" in page
    assert not re.search(r"https?://", page)
    assert done.write(workbench / "page.html").read_text() == page


def test_a_run_that_decides_no_claim_is_compared_by_its_numbers(two_runs, workbench):
    claims = workbench / "data/echo/claims.yaml"
    decided = "decided_by: {tier: simulated, profile: paper, because: scale}\n    note:"
    claims.write_text(claims.read_text().replace("note:", decided, 1))
    (row,) = compare(*two_runs).table.to_dict("records")
    assert (row["mine_value"], row["published_value"], row["decided_by"]) == (0.5, 0.7, "paper/simulated")


def test_a_run_is_named_by_number_and_slug_too_and_is_there_as_json(two_runs):
    assert compare("10_echo", two_runs[0]).first.slug == "echo"  # the newest
    said = compare(two_runs[1], two_runs[0]).content()
    assert said["settings"] == [{"setting": "load", "first": 0.7, "second": 0.5}]
    (claim,) = said["claims"]
    assert (claim["first_value"], claim["second_verdict"]) == (0.7, "agrees")


def test_a_figure_that_only_one_has_is_said_to_be_missing(two_runs, workbench):
    (workbench / "runs/quick" / two_runs[1] / "fig1_load.png").unlink()
    page = compare(f"runs/quick/{two_runs[0]}", workbench / "runs/quick" / two_runs[1]).page
    assert page.count("data:image/png") == 1 and "not drawn" in page


def test_what_is_no_run_or_another_papers_is_refused(two_runs, workbench, add_notebook):
    with pytest.raises(NetreproError, match="no run called 'ekko'"):
        compare("ekko", two_runs[0])
    with pytest.raises(NetreproError, match="nothing published"):
        compare("echo", "echo")
    results = workbench / "runs/quick" / two_runs[1] / "results.json"
    results.write_text("{")
    with pytest.raises(NetreproError, match="has no results"):
        compare(*two_runs)
