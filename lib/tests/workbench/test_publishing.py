"""What is published: the README's counts, the scorecard's files, verdicts that CI guards."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from command_line import command

from netrepro.claims import published_results
from netrepro.claims.scorecard import scorecard
from netrepro.errors import NetreproError
from netrepro.workbench.catalogue.notebooks import catalogue, find
from netrepro.workbench.publishing.results import (
    README_BEGIN,
    README_END,
    SCORECARD_PAGE,
    lost_verdicts,
    publish,
    readme_counts,
    refresh_readme,
    write_scorecard,
)
from netrepro.workbench.publishing.scorecard import counts_by_level, scorecard_text
from netrepro.workbench.running.run_folder import own_results
from netrepro.workbench.running.runner import run
from netrepro.workbench.running.standard import edited_inputs

FIXTURES = Path(__file__).parents[1] / "notebooks"
README = Path(__file__).parents[3] / "README.md"


def test_the_readme_counts_the_published_scorecard_and_leads_to_it():
    counts = README.read_text().partition(README_BEGIN)[2].partition(README_END)[0]
    assert counts.strip() == readme_counts(scorecard()).strip(), "run: netrepro scorecard --readme"
    page = README.parent / SCORECARD_PAGE
    assert f"]({SCORECARD_PAGE})" in counts and page.read_text() == scorecard_text(scorecard())


def test_a_readme_counts_every_paper_once():
    table = scorecard()
    total, *levels = map(int, re.findall(r"\d+", counts_by_level(table)))
    assert total == sum(levels) == table["paper"].nunique() and len(levels) > 1


def test_refreshing_a_readme_changes_nothing_but_the_counts(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{README_BEGIN}\nold\n{README_END}\nafter\n")
    refresh_readme(scorecard(), readme)
    text = readme.read_text()
    assert text.startswith(f"before\n{README_BEGIN}\n{counts_by_level(scorecard())}") and text.endswith(
        f"{README_END}\nafter\n"
    )
    assert "old" not in text
    refresh_readme(scorecard(), readme)
    assert readme.read_text() == text


def test_a_readme_without_marks_is_refused_and_left_alone(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no marks")
    with pytest.raises(NetreproError, match="no <!-- scorecard -->"):
        refresh_readme(scorecard(), readme)
    assert readme.read_text() == "no marks"


def test_the_scorecard_is_written_in_every_form_and_the_same_twice(tmp_path):
    write_scorecard(scorecard(), tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(first) == {f"scorecard.{ending}" for ending in ("csv", "md", "html", "png")}
    write_scorecard(scorecard(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


@pytest.fixture(scope="module")
def run_once(tmp_path_factory, commit_all) -> Path:
    """A workbench with a committed paper and a good run of it."""
    root = tmp_path_factory.mktemp("once")
    (root / "notebooks").mkdir()
    shutil.copy(FIXTURES / "echo.ipynb", root / "notebooks/10_echo.ipynb")
    shutil.copytree(FIXTURES / "echo_data", root / "data/echo")
    commit_all(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETREPRO_ROOT", str(root))
        assert run(["echo"]).ok
    return root


@pytest.fixture
def ran(run_once, workbench) -> Path:
    """The folder of that run, in a copy of that workbench."""
    shutil.copytree(run_once, workbench, dirs_exist_ok=True)
    return workbench / "runs/quick/10_echo"


@pytest.fixture
def echo_paper(workbench) -> Path:
    return workbench / "notebooks/10_echo.ipynb"


@pytest.fixture
def figures(workbench) -> Path:
    return workbench / "figures/echo"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def rewrite(folder: Path, **changes: object) -> None:
    """Let a run have measured something else."""
    path = folder / "results.json"
    results = json.loads(path.read_text())
    (result,) = results["runs"].values()
    (measured,) = result["measured"]
    measured.update({name: value for name, value in changes.items() if name in ("values", "control", "trusted", "why")})
    of_run = ("profile", "tier", "measured", "changed")
    result.update({name: value for name, value in changes.items() if name in of_run})
    path.write_text(json.dumps(results | {"runs": {f"{result['profile']}/{result['tier']}": result}}))


def refusals(**options: object) -> str:
    (item,) = publish(["echo"], **options)
    return " ".join(item.refusals)


def test_a_good_run_is_published_with_its_figures_and_twice_changes_no_byte(ran, figures):
    (item,) = publish(["echo"])
    assert not item.refusals and item.changes[0] == "quick/simulated: new, 1 claims measured"
    assert set(content(figures)) == {"fig1_load.png", "results.json"}
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(figures.iterdir())]
    (again,) = publish(["echo"])
    assert again.changes == [] and "repeats what is published" in again.text()
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(figures.iterdir())] == before


def test_what_would_change_is_said_before_it_does(ran, figures):
    publish(["echo"])
    before = content(figures)
    rewrite(ran, values=[0.9, 0.9])
    (item,) = publish(["echo"], dry_run=True)
    assert item.changes[1] == "load-is-half: agrees 0.5 -> disagrees 0.9"
    publish(["echo"], agree=lambda plan: False)
    assert content(figures) == before
    publish(["echo"], agree=lambda plan: plan[0].changes == item.changes)
    assert content(figures) != before


def test_a_failed_run_is_never_published(ran, echo_paper, commit_all, figures, workbench):
    """It ends badly only after report.finish, so that its folder has results and figures."""
    echo_paper.write_text(echo_paper.read_text().replace("the last cell ran", "{").replace('print(\\"{', 'int(\\"{'))
    commit_all(workbench)
    (status,) = run(["echo"]).statuses
    assert status.outcome == "failed" and (status.folder / "results.json").exists()
    good, failed = publish(["echo"], dry_run=True)
    assert not good.refusals and "it failed: ValueError" in failed.refusals[0]
    shutil.rmtree(ran)
    for options in ({}, {"run": status.folder, "dirty": True, "fewer": True}):
        (item,) = publish(None if "run" in options else ["echo"], **options)
        assert "it failed: ValueError" in item.refusals[0]
    assert content(figures) == {} and own_results("echo") is None


def test_a_run_by_hand_is_never_published(ran, figures, workbench):
    by_hand = workbench / "runs/interactive/echo"
    shutil.copytree(ran, by_hand)
    (by_hand / "status.json").unlink()
    (item,) = publish(run=by_hand)
    assert "by hand" in item.refusals[0] and content(figures) == {}


def test_untrusted_results_do_not_replace_trusted_ones(ran, figures):
    publish(["echo"])
    before = content(figures)
    rewrite(ran, trusted=False, why="too busy")
    assert "untrusted where what is published is trusted: load-is-half (too busy)" in refusals(fewer=True, dirty=True)
    assert content(figures) == before


def test_untrusted_results_may_be_published_where_nothing_is(ran, figures):
    rewrite(ran, trusted=False, why="too busy")
    assert refusals() == "" and "results.json" in content(figures)


def test_a_part_does_not_replace_the_whole_unless_that_is_meant(ran, figures):
    publish(["echo"])
    before = content(figures)
    rewrite(ran, measured=[])
    (ran / "fig1_load.png").unlink()
    said = refusals()
    assert "did not measure load-is-half" in said and "lacks published figures: fig1_load.png" in said
    assert content(figures) == before
    assert refusals(fewer=True) == ""
    assert set(content(figures)) == {"results.json"}


def test_a_claim_is_not_decided_by_a_control_of_few_repetitions_unless_that_is_meant(ran, figures, workbench):
    claims = workbench / "data/echo/claims.yaml"
    decided = 'decided_by: {tier: simulated, profile: quick, because: "it is as large"}'
    claims.write_text(claims.read_text().replace("comparable_on: [simulated]", decided))
    rewrite(ran, values=[0.5] * 5, control=[1.0, 1.01])
    assert "it decides load-is-half with a control of fewer than 5 repetitions" in refusals()
    assert content(figures) == {}
    rewrite(ran, values=[0.5] * 5, control=[1.0, 1.01, 1.0, 1.02, 1.0])
    assert refusals(dry_run=True) == ""
    rewrite(ran, control=[1.0, 1.01])
    assert refusals(fewer=True) == "" and "results.json" in content(figures)


@pytest.mark.parametrize("edited", [False, True])
def test_other_settings_are_never_published_as_the_standard_ones(ran, echo_paper, figures, workbench, edited):
    shutil.rmtree(ran)
    if edited:
        echo_paper.write_text(echo_paper.read_text().replace("load: float = 0.5", "load: float = 0.7"))
    assert run(["echo"], parameters=None if edited else {"load": 0.7}).ok
    folder = workbench / "runs/quick/10_echo--load=0.7"
    with pytest.raises(NetreproError, match="no run of echo with its standard settings"):
        publish(["echo"])
    (item,) = publish(run=folder, dirty=True, fewer=True)
    assert "it ran with load = 0.7" in item.refusals[0]
    assert publish() == [] and content(figures) == {}


def test_what_the_results_say_was_changed_is_believed(ran, figures):
    rewrite(ran, changed={"load": 0.7})
    (item,) = publish(run=ran)
    assert any("it ran with load = 0.7" in each for each in item.refusals)
    assert content(figures) == {}


def test_code_that_no_commit_has_is_refused_unless_asked_for(ran, workbench, figures):
    module = workbench / "lib/netrepro/module.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    (workbench / "README.md").write_text("no code")
    said: list[str] = []
    assert run(["echo"], on_event=lambda event: said.append(event.reason) if event.kind == "note" else None).ok
    assert said and said[0].startswith("not yet committed: lib/netrepro/module.py; netrepro publish refuses")
    assert refusals() == "lib/netrepro/module.py differed from the commit (if that may be: --dirty)"
    assert content(figures) == {}
    assert refusals(dirty=True) == ""
    assert published_results("echo").runs["quick/simulated"].commit.endswith("-dirty")


def test_saved_outputs_are_no_edit_but_another_cell_is(ran, echo_paper):
    notebook = nbformat.read(echo_paper, as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="ran")]
    nbformat.write(notebook, echo_paper)
    assert edited_inputs(find("echo")) == []
    notebook.cells[-1].source += "\nprint(2)"
    nbformat.write(notebook, echo_paper)
    assert edited_inputs(find("echo")) == ["notebooks/10_echo.ipynb"]


def test_without_git_nobody_knows_the_commit(ran, figures, workbench):
    shutil.rmtree(workbench / ".git")
    assert run(["echo"]).ok
    assert "git does not say which commit" in refusals()
    assert content(figures) == {}


def test_a_figure_that_the_notebook_no_longer_draws_is_removed_when_that_is_meant(ran, figures):
    figures.mkdir()
    (figures / "fig0_old.png").write_bytes(b"")
    assert "lacks published figures: fig0_old.png" in refusals()
    assert refusals(fewer=True) == ""
    assert not (figures / "fig0_old.png").exists() and (figures / "fig1_load.png").exists()


def test_figures_are_those_of_the_tier_that_auto_takes_and_there_of_the_paper_profile(ran, figures, workbench):
    other = workbench / "runs/quick/10_echo--tier=rootless"
    shutil.copytree(ran, other)
    rewrite(other, tier="rootless")
    paper = workbench / "runs/paper/10_echo"
    shutil.copytree(ran, paper)
    rewrite(paper, profile="paper")
    (paper / "fig1_load.png").write_bytes(b"the paper profile's")
    plan = publish(["echo"])
    assert [(item.run.result.key, bool(item.pictures)) for item in plan] == [
        ("paper/simulated", True),
        ("quick/rootless", False),
        ("quick/simulated", False),
    ]
    assert (figures / "fig1_load.png").read_bytes() == b"the paper profile's"
    assert set(published_results("echo").runs) == {"paper/simulated", "quick/rootless", "quick/simulated"}
    publish(["echo"], profile="quick", tier="simulated", pictures=True)
    assert (figures / "fig1_load.png").read_bytes() == (ran / "fig1_load.png").read_bytes()


def declare(notebook: Path, **declared: object) -> None:
    content = json.loads(notebook.read_text())
    content["metadata"]["netrepro"] |= declared
    notebook.write_text(json.dumps(content))


@pytest.fixture
def on_kernel(ran, echo_paper, workbench, commit_all) -> Path:
    """A virtual run of the paper beside the simulated one; `tiers` is published from it."""
    declare(echo_paper, tiers=["simulated", "virtual"], figures_of={"virtual": ["tiers"]})
    commit_all(workbench)
    other = workbench / "runs/quick/10_echo--tier=virtual"
    shutil.copytree(ran, other)
    rewrite(other, tier="virtual")
    (ran / "tiers.png").write_bytes(b"one tier")
    (other / "tiers.png").write_bytes(b"two tiers")
    (other / "fig1_load.png").write_bytes(b"the kernel's")
    return other


def test_a_figure_that_belongs_to_another_tier_is_published_from_its_run_alone(on_kernel, ran, figures):
    usual = (ran / "fig1_load.png").read_bytes()
    publish(["echo"], tier="simulated")
    assert set(content(figures)) == {"fig1_load.png", "results.json"}
    (item,) = publish(["echo"], tier="virtual")
    assert "figures new: tiers.png" in item.changes
    expected = {"fig1_load.png": usual, "tiers.png": b"two tiers"}
    for options in ({"tier": "simulated"}, {"tier": "simulated", "pictures": True}, {}):
        publish(["echo"], **options)
        assert {name: bytes_ for name, bytes_ in content(figures).items() if name != "results.json"} == expected
    (ran / "tiers.png").unlink()
    assert refusals(tier="simulated") == "" and "tiers.png" in content(figures)


def test_of_a_tier_too_the_paper_profile_has_the_better_figures(on_kernel, figures, workbench):
    paper = workbench / "runs/paper/10_echo--tier=virtual"
    shutil.copytree(on_kernel, paper)
    rewrite(paper, profile="paper")
    (paper / "tiers.png").write_bytes(b"two tiers, longer")
    publish(["echo"])
    publish(["echo"], profile="quick")
    assert content(figures)["tiers.png"] == b"two tiers, longer"


def test_a_run_without_the_figures_that_are_its_own_is_refused(on_kernel, figures):
    (on_kernel / "tiers.png").unlink()
    assert "it drew no tiers, which the notebook says is of this tier's run" in refusals(tier="virtual", fewer=True)
    assert content(figures) == {}


def test_what_a_notebook_says_of_its_figures_names_its_own_tiers_and_each_figure_once(ran, echo_paper):
    for figures_of, problem in (
        ({"virtual": ["tiers"]}, "no tier 'virtual' of this notebook"),
        ({"simulated": ["tiers", "tiers"]}, "'tiers' is of more than one run"),
    ):
        declare(echo_paper, figures_of=figures_of)
        assert problem in find("echo").problem


def test_an_empty_figure_is_never_published(ran, echo_paper, figures, workbench, commit_all):
    """Neither is one that is published left standing in silence, when a run finds nothing to draw in it."""
    publish(["echo"])
    drawn = '"axis.plot([0, 1], [0, load])\\n",'
    empty = '"axis.plot([], [])\\n",'
    assert drawn in echo_paper.read_text()
    echo_paper.write_text(echo_paper.read_text().replace(drawn, empty))
    commit_all(workbench)
    assert run(["echo"]).ok
    assert not list(ran.glob("*.png")) and not list(ran.glob("*.svg"))
    said = (ran / "executed.ipynb").read_text()
    assert "nothing to show, for nothing of it was measured on the simulated tier" in said
    assert "lacks published figures: fig1_load.png" in refusals()
    assert refusals(fewer=True) == "" and set(content(figures)) == {"results.json"}


def test_every_notebook_says_of_figures_that_it_draws_whose_they_are():
    for notebook in catalogue():
        text = notebook.path.read_text()
        for figure in (name for names in notebook.declaration.figures_of.values() for name in names):
            assert f'\\"{figure}\\"' in text, f"{notebook.name} draws no {figure}"


def test_the_command_shows_the_change_and_asks_for_yes(ran, figures):
    asked = command("publish", "echo")
    assert asked.returncode == 1 and "new, 1 claims measured" in asked.stdout and "--yes" in asked.stdout
    assert command("publish", "echo", "--dry-run").returncode == 0
    assert content(figures) == {}
    assert command("publish", "--all", "--yes").returncode == 0
    assert "results.json" in content(figures)
    assert command("publish").returncode == 2


def test_a_users_scorecard_stands_beside_the_published_one(ran, workbench, commit_all):
    only_mine = command("scorecard").stdout
    assert re.search("echo +· not measured +1/1$", only_mine, re.MULTILINE)
    publish(["echo"])
    shutil.copytree(ran, workbench / "runs/quick/10_echo--load=0.9")  # settings of one's own are no standard
    rewrite(ran, values=[0.9, 0.9])
    said = command("scorecard").stdout
    differs = "load-is-half: ✗ disagrees 0.9, published ✓ agrees 0.5: not what the published quick/simulated says"
    assert differs in " ".join(said.split())
    (told,) = [row for row in json.loads(command("scorecard", "--json").stdout) if row["claim"] == "load-is-half"]
    assert (told["judged_by"], told["judged"], told["as_published"]) == ("quick/simulated", "disagrees", False)
    assert "Your runs judged 1 of 1 claims: 0 as published; 1 otherwise than those, too" in " ".join(said.split())
    assert said.index("load-is-half") < said.index("Your runs judged") < said.index("make paper")
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "✗ disagrees, 0.9" in command("scorecard", "echo").stdout
    own_settings = command("run", "echo", "-p", "load=0.7").stdout
    assert "netrepro compare 10_echo--load=0.7 echo" in own_settings
    assert command("compare", "10_echo--load=0.7", "echo").returncode == 0
    assert "written: " in command("scorecard", "--into", str(workbench / "card")).stdout
    shutil.rmtree(workbench / "runs")
    assert "not run: published only" in command("scorecard", "echo").stdout


def test_a_verdict_that_no_longer_holds_is_named_against_the_last_commit(ran, workbench, commit_all):
    with pytest.raises(NetreproError, match=r"nothing was compared: .*is not committed"):
        lost_verdicts()
    publish(["echo"])
    commit_all(workbench)
    assert lost_verdicts() == ([], [])
    rewrite(ran, values=[0.7, 0.7])
    (lost,) = lost_verdicts()[0]
    assert "your run: echo: load-is-half at quick/simulated was 'agrees'" in lost and "'disagrees" in lost
    publish(["echo"])
    assert [line.partition(":")[0] for line in lost_verdicts()[0]] == ["published", "your run"]


@pytest.mark.parametrize(("asked", "words"), [({"profile": "papr"}, "'paper'"), ({"tier": "virtul"}, "'virtual'")])
def test_a_mistyped_profile_or_tier_is_named_and_does_not_mean_none(good_echo, asked, words):
    with pytest.raises(NetreproError, match=f"did you mean {words}"):
        publish(["echo"], **asked)
