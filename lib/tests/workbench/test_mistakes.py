"""Mistakes in a workbench: each is told where it is made, and stops only what stands on it."""

from __future__ import annotations

import re
import shutil
import warnings

import pytest
from command_line import command

from netrepro.claims.scorecard import scorecard
from netrepro.errors import NetreproError
from netrepro.networks import Datagrams, Experiment, Flow, Link, Measure, dumbbell
from netrepro.paths import check_writable
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.running.sweeping import cost_of


def test_a_mistyped_tier_names_file_and_tier(echo_paper, add_notebook):
    add_notebook("echo", 11, slug="mistyped", tiers=["simulated", "virtul"])
    problem = find("mistyped").problem
    assert "11_mistyped.ipynb" in problem and "did you mean 'virtual'?" in problem
    said = command("list").stdout
    assert "did you mean 'virtual'?" in said and "Fixture: echo" in said


def test_a_notebook_without_a_number_is_named(echo_paper):
    shutil.copy(echo_paper, echo_paper.with_name("my_paper.ipynb"))
    with pytest.raises(NetreproError, match=r"my_paper.ipynb has no number\n.*70_my_paper.ipynb"):
        find("my_paper")
    assert "! my_paper.ipynb is left out" in command("list").stdout
    assert command("run", "my_paper").returncode == 2


def test_a_bad_claims_file_stops_only_its_own_row(echo_paper, workbench, tmp_path):
    other = workbench / "data" / "other"
    shutil.copytree(workbench / "data" / "echo", other)  # its claims.yaml says that it is another paper's
    table = scorecard()
    assert set(table.paper) == {"echo"} and "paper is 'echo'" in table.attrs["problems"]["other"]
    done = command("scorecard")
    assert done.returncode == 1 and "echo" in done.stdout and "other is left out" in done.stdout
    refused = command("scorecard", "--into", str(tmp_path / "card"))
    assert refused.returncode == 2 and not (tmp_path / "card").exists()
    with pytest.raises(NetreproError, match="paper is 'echo'"):
        scorecard(["other"])
    (workbench / "figures" / "echo").mkdir()
    (workbench / "figures" / "echo" / "results.json").write_text("{")
    table = scorecard()
    assert set(table.attrs["problems"]) == {"echo", "other"} and set(table.verdict) == {"not measured"}
    done = command("scorecard")
    assert done.returncode == 1 and "echo is left out" in done.stdout and not done.stderr
    for words in (["--into", str(tmp_path / "card")], ["echo", "--into", str(tmp_path / "card")]):
        assert command("scorecard", *words).returncode == 2 and not (tmp_path / "card").exists()


def test_an_impossible_date_stops_only_its_own_row(echo_paper, workbench):
    other = workbench / "data" / "other"
    shutil.copytree(workbench / "data" / "echo", other)
    text = (other / "claims.yaml").read_text()
    (other / "claims.yaml").write_text(text.replace("title:", "published: 2026-13-45\ntitle:", 1))
    table = scorecard()
    assert set(table.paper) == {"echo"} and "impossible value '2026-13-45'" in table.attrs["problems"]["other"]


def test_a_sweep_says_what_it_costs(echo_paper):
    assert cost_of("echo", "load=0.1..0.9", points=5, jobs=2).endswith(
        "30 s each at most as declared, 2 at a time: 2 min"
    )
    assert cost_of("echo", ["load=0.1..0.9", "seed=1,2"], points=5, jobs=2).startswith("10 runs of echo")
    on_a_cluster = cost_of("echo", "load=0.1..0.9", points=5, scheduler="tcp://192.0.2.1:8786")
    assert on_a_cluster.endswith("as many at a time as the cluster takes: 2 min in all")
    with pytest.raises(NetreproError, match="did you mean 'load'"):
        cost_of("echo", "lod=0.1..0.9")


@pytest.mark.parametrize("ports", ["s1", ["s1"], 5, [("s1", "s2", "h1")]])
@pytest.mark.parametrize("name", ["queues", "packets"])
def test_a_port_is_a_pair(name, ports):
    with pytest.raises(NetreproError, match=rf"Measure: {name} = .*\n.*give pairs of nodes"):
        Measure(**{name: ports})
    assert Measure(**{name: [["s1", "s2"]]}) == Measure(**{name: (("s1", "s2"),)}) == Measure(**{name: ("s1", "s2")})


def test_traffic_after_the_end_is_refused():
    network = dumbbell(1, Link(100, 1), Link(10, 10))
    with pytest.raises(NetreproError, match="starts at 5 s in an experiment of 5 s"):
        Experiment(network, [Flow("h1", "h2", start_s=5, duration_s=1)], 5.0)


def test_traffic_that_lasts_beyond_the_end_is_told_by_name():
    network = dumbbell(1, Link(100, 1), Link(10, 10))
    for entry in (Flow("h1", "h2", start_s=1, duration_s=50), Datagrams("h1", "h2", 1, 50, start_s=1)):
        with pytest.warns(UserWarning, match=r"from h1 to h2 lasts until 51 s .* of 5 s.* duration_s=4") as told:
            Experiment(network, [entry], 5.0)
        assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="the first of 3 such entries") as told:
        Experiment(network, [Flow("h1", "h2", start_s=1, duration_s=50)] * 3, 5.0)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(1, 50):  # sums of shares of the whole are beyond it by rounding
            Experiment(network, [Flow("h1", "h2", start_s=i / 49, duration_s=3 - i / 49), Flow("h1", "h2", 10**9)], 3.0)


def test_a_capture_that_could_not_be_written_is_not_made(echo_paper):
    said = command("capture", "--into", "/proc/none")
    assert said.returncode == 2 and "cannot write to /proc/none" in said.stdout and not said.stderr
    assert command("capture", "--into", "/proc/none", "--seed", "-1").returncode == 2


def test_trying_whether_a_folder_can_be_written_leaves_nothing(tmp_path):
    check_writable(tmp_path / "not" / "made")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NetreproError, match=r"cannot write to .*: Not a directory"):
            check_writable(folder)


def test_a_run_of_some_notebooks_ends_with_what_it_ran(echo_paper, add_notebook, workbench, pretended_runs):
    add_notebook("echo", 11, slug="other")
    add_notebook("well_behaved", 12)
    shutil.copytree(workbench / "data/echo", workbench / "data/other")
    claims = workbench / "data/other/claims.yaml"
    claims.write_text(claims.read_text().replace("paper: echo", "paper: other"))
    said = command("run", "echo", "well_behaved").stdout
    assert re.search("^echo +· not measured +1/1$", said, re.M) and not re.search("^other", said, re.M)
    assert "replicated" not in command("run", "well_behaved").stdout  # a guide has no verdicts
    whole = command("run", "--resume").stdout
    assert re.search("^echo +·", whole, re.M) and re.search("^other +·", whole, re.M)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("publish echo --all", "papers and --all\n  give one of them"),
        ("publish --all --run here", "--all and --run\n  give one of them"),
        ("publish", "what is to be published?"),
        ("exercises --format nbgrader", "--format nbgrader without --into"),
        ("exercises --format nbgrader --grade here", "--format nbgrader without --into"),
        ("compare echo echo", "no run called 'echo' in runs/\n  run it first"),
    ],
)
def test_options_that_do_not_go_together_are_named(echo_paper, words, said):
    refused = command(*words.split())
    assert refused.returncode == 2 and said in refused.stdout


@pytest.mark.parametrize("words", ["--days 0", "--seconds 0", "--scale -1"])
def test_a_capture_of_nothing_is_refused_before_it_says_what_it_costs(workbench, tmp_path, words):
    refused = command("capture", "--into", str(tmp_path / "made"), *words.split())
    assert refused.returncode == 2 and words.split()[0].strip("-") in refused.stdout
    assert "of traffic" not in refused.stdout
