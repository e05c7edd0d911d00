"""environment.yml (conda, Binder), the locks that `make` installs, and lib/pyproject.toml, against each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from rattler import MatchSpec
from rattler import Version as CondaVersion
from rattler.version import VersionSpec
from repo2docker.buildpacks.conda import CondaBuildPack

ROOT = Path(__file__).resolve().parents[3]
PYTHON = {"python_version": "3.12", "python_full_version": "3.12.9", "sys_platform": "linux"}
PYPI_NAMES = {
    "matplotlib-base": "matplotlib",
    "seaborn-base": "seaborn",
    "dask-core": "dask",
    "pytorch-cpu": "torch",
}
NOT_ON_PYPI = {"python", "pip", "cxx-compiler", "make"}


def read_environment() -> tuple[list[str], list[str]]:
    """The conda lines and the pip lines."""
    content = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [line for line in content["dependencies"] if isinstance(line, str)]
    (pip,) = [line["pip"] for line in content["dependencies"] if isinstance(line, dict)]
    return conda, pip


CONDA_LINES, PIP_LINES = read_environment()


def conda_spec(line: str) -> tuple[str, VersionSpec | None]:
    """PyPI's name of the package and the versions that the line allows (None: all)."""
    spec = MatchSpec(line, strict=True)
    name = spec.name.normalized
    return canonicalize_name(PYPI_NAMES.get(name, name)), VersionSpec(spec.version) if spec.version else None


def entries(lock: str) -> dict[str, list[str]]:
    """The lines with a pin in a lock, and the hashes below each."""
    content = (ROOT / "lib" / lock).read_text().replace("\\\n", " ")
    words = [line.split(" --hash=") for line in content.splitlines()]
    return {pin.strip(): [each.strip() for each in hashes] for pin, *hashes in words}


def locked_versions() -> dict[str, str]:
    """Map each package to the version that the lock installs with Python 3.12; PyTorch's is the bootstrap's."""
    locked = {}
    for line in entries("requirements.txt"):
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(PYTHON):
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            locked[canonicalize_name(requirement.name)] = specifier.version
    (torch,) = project()["optional-dependencies"]["neural"]
    return {**locked, "torch": torch.removeprefix("torch==")}


def project() -> dict:
    return tomllib.loads((ROOT / "lib" / "pyproject.toml").read_text())["project"]


def needed() -> list[Requirement]:
    """List the packages that the library needs to be built and to run every notebook, neural models included."""
    content = tomllib.loads((ROOT / "lib" / "pyproject.toml").read_text())
    extras = content["project"]["optional-dependencies"]
    lines = [*content["project"]["dependencies"], *content["build-system"]["requires"]]
    lines += [line for name in ("notebooks", "ml", "verification", "neural") for line in extras[name]]
    return list({line: Requirement(line) for line in lines}.values())


def allows(name: str, version: str) -> bool:
    """Tell whether environment.yml would accept this version of the package."""
    for line in PIP_LINES:
        if canonicalize_name(Requirement(line).name) == name:
            return Requirement(line).specifier.contains(version, prereleases=True)
    (spec,) = [spec for found, spec in map(conda_spec, CONDA_LINES) if found == name]
    return spec is None or spec.matches(CondaVersion(version))


def named() -> set[str]:
    return {conda_spec(line)[0] for line in CONDA_LINES} | {canonicalize_name(Requirement(p).name) for p in PIP_LINES}


@pytest.mark.parametrize(
    "lock", ["requirements.txt", "requirements-first.txt", "requirements-tidy.txt", "requirements-web.txt"]
)
def test_every_pin_of_a_lock_has_hashes(lock):
    assert entries(lock)
    for pin, hashes in entries(lock).items():
        assert Requirement(pin).specifier and hashes, pin
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes), pin


def test_a_first_figure_has_the_packages_of_the_whole_lock_and_all_that_the_library_needs():
    whole, first = entries("requirements.txt"), entries("requirements-first.txt")
    assert {pin: whole.get(pin) for pin in first} == first and len(first) < len(whole) / 4
    content = tomllib.loads((ROOT / "lib" / "pyproject.toml").read_text())
    asked = [*content["project"]["dependencies"], *content["build-system"]["requires"]]
    asked += content["dependency-groups"]["first"]
    names = {canonicalize_name(Requirement(pin).name) for pin in first}
    assert {canonicalize_name(Requirement(line).name) for line in asked} <= names


def test_the_file_has_one_channel_and_no_other_keys():
    content = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert set(content) == {"name", "channels", "dependencies"}
    assert content["channels"] == ["conda-forge", "nodefaults"]


def test_no_package_is_named_twice():
    names = [conda_spec(line)[0] for line in CONDA_LINES] + [Requirement(line).name for line in PIP_LINES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("line", CONDA_LINES)
def test_the_locked_version_lies_in_each_conda_range(line):
    name, _ = conda_spec(line)
    if name in NOT_ON_PYPI:
        return
    assert allows(name, locked_versions()[name])


@pytest.mark.parametrize("line", ["numpy>=>2", "foo=>1"])
def test_a_malformed_conda_line_would_be_noticed(line):
    with pytest.raises(Exception, match=r"."):
        conda_spec(line)


@pytest.mark.parametrize("line", PIP_LINES)
def test_each_pip_line_is_the_lock_s_pin(line):
    requirement = Requirement(line)
    assert str(requirement.specifier) == f"=={locked_versions()[canonicalize_name(requirement.name)]}"


def test_the_pip_list_names_nothing_local():
    """A local name would void Binder's cached environment at every commit: repo2docker's own judgement."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert CondaBuildPack("docker.io/library/buildpack-deps:24.04")._should_preassemble_env


def test_python_is_one_that_the_library_accepts_and_the_lock_is_for():
    assert "python=3.12" in CONDA_LINES
    assert "3.12" in SpecifierSet(project()["requires-python"])


@pytest.mark.parametrize("requirement", needed(), ids=lambda requirement: requirement.name)
def test_what_the_library_needs_is_named_and_not_allowed_where_the_library_refuses(requirement):
    name = canonicalize_name(requirement.name)
    assert name in named()
    for clause in requirement.specifier:
        bound = Version(clause.version)
        below = [*bound.release[:-1], bound.release[-1] - 1, 9999]
        refused = {"<": str(bound), ">=": ".".join(map(str, below)), "==": None}[clause.operator]
        if refused:
            assert not allows(name, refused), f"{clause} of pyproject.toml"


def test_nothing_is_named_that_the_library_does_not_need():
    build_tools = {"cmake", "ninja"}
    assert named() - NOT_ON_PYPI - build_tools == {canonicalize_name(item.name) for item in needed()}
