"""What others check of a paper: an artifact's appendix, a codecheck, an RO-Crate."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from netrepro.claims import load_claims
from netrepro.errors import NetreproError
from netrepro.files import file_sha256
from netrepro.workbench import export
from netrepro.workbench.catalogue.notebooks import catalogue, find
from netrepro.workbench.publishing.exporting import artifact_lines

REPOSITORY = Path(__file__).parents[3]
PAPERS = [each.slug for each in catalogue(REPOSITORY / "notebooks") if each.declaration.kind == "paper"]


@pytest.mark.parametrize("slug", PAPERS)
def test_every_claim_has_a_number_and_the_experiment_that_decides_it(slug):
    text = "\n".join(artifact_lines(find(slug)))
    claims = load_claims(slug).main_first()
    assert re.findall(r"^- \*\*(C\d+)\*\*", text, re.M) == [f"C{number}" for number in range(1, len(claims) + 1)]
    titles = re.findall(
        r"^### (E\d+): .* \[\d+ human-minutes \+ \d+ compute-minutes \+ \d+ MB of memory\]$", text, re.M
    )
    assert titles == [f"E{number}" for number in range(1, len(titles) + 1)] and titles
    for number, claim in enumerate(claims, 1):
        assert claim.says in text
        rows = re.findall(rf"^\| C{number} \|", text, re.M)
        assert len(rows) == (claim.decided_by is not None)
    assert "Results Replicated" in text and f"netrepro run {slug} " in text


@pytest.mark.parametrize("slug", PAPERS)
def test_an_appendix_says_which_experiments_need_root(slug):
    lines = artifact_lines(find(slug))
    (needs,) = [line for line in lines if line.startswith("Linux, Python")]
    privileged = [line[4:].split(":")[0] for line in lines if re.match(r"### E\d+: .* tier privileged ", line)]
    assert ("; no root;" in needs) is not bool(privileged)
    assert not privileged or f"; root for {' and '.join(privileged)};" in needs


def test_a_paper_that_a_real_kernel_decides_asks_for_root():
    text = "\n".join(artifact_lines(find("oncache")))
    assert "; root for E1;" in text and "no root" not in text


def test_a_codecheck_names_files_that_lie_beside_it(good_echo, workbench):
    folder = export("10_echo", "codecheck")
    said = yaml.safe_load((folder / "codecheck.yml").read_text())
    assert folder == workbench / "runs/export/echo-codecheck"
    assert said["paper"]["title"] and said["paper"]["authors"] and "netrepro run echo" in said["summary"]
    named = {each["file"] for each in said["manifest"]}
    assert {"results.json", "fig1_load.png"} <= named
    for name in named:
        assert file_sha256(folder / name) == file_sha256(good_echo / name)


def test_a_crate_describes_every_file_that_it_holds_and_the_run_that_made_them(good_echo, tmp_path):
    folder = export("echo", "ro-crate", tmp_path / "crate", good_echo)
    graph = {each["@id"]: each for each in json.loads((folder / "ro-crate-metadata.json").read_text())["@graph"]}
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    files -= {"ro-crate-metadata.json"}
    assert files == {name for name, each in graph.items() if each["@type"] == "File"}
    assert files == {each["@id"] for each in graph["./"]["hasPart"]} and "executed.ipynb" in files
    assert all(graph[name]["sha256"] == file_sha256(folder / name) for name in files)
    made = graph["#run"]
    assert made["name"].startswith("netrepro run echo") and made["startTime"] <= made["endTime"]
    referred = [each["@id"] for key in ("object", "result") for each in made[key]]
    assert set(referred) <= set(graph) and graph["#load"]["value"] == 0.5


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(echo_paper, add_notebook, tmp_path):
    add_notebook("well_behaved", 12)
    with pytest.raises(NetreproError, match="did you mean 'ro-crate'"):
        export("echo", "rocrate")
    with pytest.raises(NetreproError, match=r"ended well\n  run it: netrepro run echo"):
        export("echo", "codecheck", tmp_path / "new")
    with pytest.raises(NetreproError, match="is no paper"):
        export("well_behaved", "artifact")
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob(".*new*"))
    with pytest.raises(NetreproError, match="is not empty"):
        export("echo", "artifact", tmp_path)


def test_a_place_that_cannot_be_written_is_named(good_echo, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for kind in ("artifact", "codecheck", "ro-crate"):
        with pytest.raises(NetreproError, match=r"cannot write .*/file/below: .*\n  choose another folder"):
            export("echo", kind, tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "in the way"
