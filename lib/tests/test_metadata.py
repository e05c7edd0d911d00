"""What a package index, an archive and an artifact evaluation read of the project says the same everywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import netrepro

ROOT = Path(__file__).resolve().parents[2]
RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", re.M)


def project(folder: str) -> dict:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
CODEMETA = json.loads((ROOT / "codemeta.json").read_text())
ZENODO = json.loads((ROOT / ".zenodo.json").read_text())


def test_version_and_date_are_those_of_the_newest_release_in_the_changelog():
    version, date = RELEASE.findall((ROOT / "CHANGELOG.md").read_text())[0]
    said = [project("lib")["version"], project("lib/kernel")["version"], netrepro.__version__, CITATION["version"]]
    assert set(said) == {version} == {CODEMETA["version"], ZENODO["version"]}
    assert {str(CITATION["date-released"]), CODEMETA["datePublished"], ZENODO["publication_date"]} == {date}


def test_a_tag_of_this_commit_is_the_version():
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD", "--list", "v[0-9]*"]
    tags = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert tags in ([], [f"v{netrepro.__version__}"])


def test_title_abstract_keywords_licence_and_repository_are_said_alike():
    assert CITATION["title"] == CODEMETA["name"] == ZENODO["title"]
    assert CITATION["abstract"] == CODEMETA["description"] == ZENODO["description"]
    assert CITATION["keywords"] == CODEMETA["keywords"] == ZENODO["keywords"]
    assert CITATION["license"] == project("lib")["license"] == ZENODO["license"] == CODEMETA["license"].split("/")[-1]
    assert {CITATION["repository-code"], CODEMETA["codeRepository"]} == {project("lib")["urls"]["Repository"]}


def test_both_packages_carry_their_licence():
    assert (ROOT / "lib/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert project("lib")["license-files"] == project("lib/kernel")["license-files"] == ["LICENSE"]
    assert "GNU GENERAL PUBLIC LICENSE" in (ROOT / "lib/kernel/LICENSE").read_text().upper()


def test_no_newer_python_is_refused_but_by_what_has_no_wheel_for_it():
    assert [clause.operator for clause in SpecifierSet(project("lib")["requires-python"])] == [">="]
    extras = project("lib")["optional-dependencies"]
    bound = {name for name, lines in extras.items() for line in map(Requirement, lines) if line.marker}
    assert bound == {"ml", "capture"}


def test_the_packages_readme_runs_as_it_stands():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "lib/README.md").read_text(), re.S)
    said = StringIO()
    with redirect_stdout(said):
        exec(code, {})
    assert "goodput_mbps" in said.getvalue()


def test_what_reproduces_everything_is_make():
    script = ROOT / "reproduce.sh"
    assert os.access(script, os.X_OK) and "make run" in script.read_text()
    said = subprocess.run([script, "--dry-run"], capture_output=True, text=True, check=True, cwd="/").stdout
    assert "netrepro run" in said
    *_, sets_up, builds = instructions("RUN")
    assert sets_up.startswith("make setup") and builds == ".venv/bin/netrepro kernel build --if-possible"
    assert "reproduce.sh" in instructions("CMD")[0]


def instructions(kind: str = "") -> list[str]:
    """The arguments of the Dockerfile's instructions of a kind, or all its lines."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    return [line.removeprefix(kind).strip() for line in lines if line.startswith(kind)]


def test_the_image_has_a_base_that_nobody_can_exchange_and_nothing_of_ours_runs_in_it_as_root():
    (base,) = instructions("FROM")
    assert re.fullmatch(r"docker\.io/library/python:3\.1[1-4]\.\d+-bookworm@sha256:[0-9a-f]{64}", base)
    (user,) = instructions("USER")
    assert user not in ("root", "0")
    assert instructions("COPY") == [f"--chown={user}:{user} . /netrepro"]
    first = [line.split()[0] for line in instructions()]
    made = next(place for place, line in enumerate(instructions()) if "useradd" in line)
    assert made < first.index("USER") < first.index("COPY") < first.index("CMD")
    assert [place for place, kind in enumerate(first) if kind == "RUN" and place < first.index("USER")] == [made]
