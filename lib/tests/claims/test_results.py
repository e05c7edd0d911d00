"""results.json keeps what was measured: whole, readable, and unchanged by a mere repeat."""

from __future__ import annotations

import json
import subprocess

import pytest

from netrepro.claims import (
    Measured,
    Results,
    Run,
    committed_results,
    publish_run,
    published_results,
    read_results,
    write_results,
)
from netrepro.errors import NetreproError


def a_run(gain=0.5, **changes) -> Run:
    measured = [
        Measured(claim="mean-gain", values=[gain, gain + 0.001], control=[1.0, 1.01]),
        Measured(claim="best-first", values=[["a", "b", "c"]], exact=True),
    ]
    given = {
        "date": "2026-11-21",
        "commit": "abc1234",
        "profile": "quick",
        "tier": "simulated",
        "seed": 1,
        "repetitions": 2,
        "parameters": {"load": [0.1, 0.2], "note": 'a "quoted" ≤ word'},
        "answer": "it does",
        "measured": measured,
    }
    return Run(**(given | changes))


def stored(workbench) -> str:
    return (workbench / "figures" / "constructed" / "results.json").read_text()


def test_a_run_comes_back_as_it_was_written(workbench):
    assert published_results("constructed") is None
    assert publish_run("constructed", a_run())
    assert published_results("constructed") == Results(paper="constructed", runs={"quick/simulated": a_run()})


def test_each_measured_claim_is_one_line_of_the_file(workbench):
    publish_run("constructed", a_run())
    lines = [line.strip().rstrip(",") for line in stored(workbench).splitlines() if '"claim"' in line]
    assert [json.loads(line)["claim"] for line in lines] == ["mean-gain", "best-first"]


def test_runs_of_other_profiles_and_tiers_are_kept(workbench):
    publish_run("constructed", a_run())
    publish_run("constructed", a_run(tier="privileged"))
    publish_run("constructed", a_run(profile="paper"))
    publish_run("constructed", a_run(gain=0.6))
    runs = published_results("constructed").runs
    assert sorted(runs) == ["paper/simulated", "quick/privileged", "quick/simulated"]
    assert runs["quick/simulated"] == a_run(gain=0.6) and runs["paper/simulated"] == a_run(profile="paper")


def test_a_repeat_with_another_date_and_commit_leaves_the_file_untouched(workbench):
    publish_run("constructed", a_run())
    before = stored(workbench)
    assert not publish_run("constructed", a_run(date="2027-01-01", commit="fffffff"))
    assert stored(workbench) == before
    assert publish_run("constructed", a_run(date="2027-01-01", seed=2))
    assert '"2027-01-01"' in stored(workbench)


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(workbench, monkeypatch):
    publish_run("constructed", a_run())
    before = stored(workbench)

    def interrupt(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        publish_run("constructed", a_run(gain=0.6))
    assert stored(workbench) == before
    assert [path.name for path in (workbench / "figures" / "constructed").iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: text.replace('"seed"', '"sed"'), r"unknown key 'sed' \(did you mean 'seed'\?\)"),
        (lambda text: text.replace('"seed": 1,', ""), r"quick/simulated: key 'seed' is missing"),
        (lambda text: text.replace('"values"', '"value"'), r"'mean-gain': unknown key 'value'"),
        (lambda text: text.replace("[0.5,", "[NaN,"), r"'mean-gain': values\[0\] is nan"),
        (lambda text: text.replace("quick/simulated", "quick/rootless"), r"'quick/rootless' holds a run of"),
        (lambda text: text.replace('"best-first"', '"mean-gain"'), r"'mean-gain' is measured more than once"),
        (
            lambda text: text.replace('"quick",', '"quik",'),
            r"unknown value 'quik' \(did you mean 'quick'\?\)",
        ),
        (lambda text: text[:-20], r"results.json line \d+: "),
    ],
)
def test_a_malformed_file_is_refused_with_its_name_and_key(workbench, change, expected):
    publish_run("constructed", a_run())
    path = workbench / "figures" / "constructed" / "results.json"
    path.write_text(change(stored(workbench)))
    with pytest.raises(NetreproError, match=expected) as caught:
        published_results("constructed")
    assert str(caught.value).startswith("figures/constructed/results.json")


def test_a_missing_file_says_to_run_the_notebook(tmp_path, workbench):
    with pytest.raises(NetreproError, match="run the notebook first"):
        read_results(tmp_path / "none.json")


def test_a_results_file_can_be_written_anywhere(tmp_path, workbench):
    results = Results(paper="constructed", runs={}).with_run(a_run())
    path = tmp_path / "runs" / "one" / "results.json"
    assert write_results(results, path) and not write_results(results, path)
    assert read_results(path) == results


def test_committed_results_are_those_of_the_last_commit(workbench):
    def git(*arguments):
        identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        subprocess.run(["git", "-C", workbench, *identity, *arguments], check=True, capture_output=True)

    git("init")
    with pytest.raises(NetreproError, match="git ls-tree"):  # without a commit
        committed_results("constructed")
    git("add", ".")
    git("commit", "-m", "claims")
    results, why = committed_results("constructed")
    assert results is None and "figures/constructed/results.json is not committed" in why
    publish_run("constructed", a_run())
    git("add", ".")
    git("commit", "-m", "first")
    publish_run("constructed", a_run(gain=0.9))
    git("add", ".")  # staged is not committed
    results, why = committed_results("constructed")
    assert why == "" and results.runs["quick/simulated"] == a_run()


def test_without_git_there_are_no_committed_results(workbench, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NetreproError, match="git is not installed"):
        committed_results("constructed")
