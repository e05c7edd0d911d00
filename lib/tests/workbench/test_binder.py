"""What Binder would build: repo2docker renders it here, without Docker, from a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repo2docker.buildpacks import CondaBuildPack

ROOT = Path(__file__).resolve().parents[3]
IMAGE = "docker.io/library/buildpack-deps:24.04"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder with the files of a clone: tracked and new ones, links kept, nothing that git ignores."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    folder = tmp_path_factory.mktemp("clone")
    for name in filter(None, listing.stdout.split("\0")):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture(scope="module")
def dockerfile(checkout):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(checkout)
        buildpack = CondaBuildPack(IMAGE)
        buildpack.platform = "linux/amd64"
        assert buildpack.detect()
        assert buildpack.binder_dir == "binder"
        assert buildpack.python_version == "3.12"
        return buildpack.render(build_args={})


def package_names(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def place(dockerfile: str, pattern: str) -> int:
    """Where the pattern first matches a line; fails when it does not."""
    found = re.search(pattern, dockerfile, re.MULTILINE)
    assert found, f"no line like {pattern}"
    return found.start()


def test_every_package_of_apt_txt_is_installed(checkout, dockerfile):
    names = package_names(checkout / "binder" / "apt.txt")
    start = place(dockerfile, rf"apt-get install --yes --no-install-recommends {names[0]} ")
    assert set(names) < set(dockerfile[start:].splitlines()[0].split())


def test_the_environment_is_solved_before_the_repository_is_copied(dockerfile):
    """Else every commit would solve it again, which is most of a build."""
    copied_alone = place(dockerfile, r"^COPY .*src/binder/environment\.yml")
    solved = place(dockerfile, r'env update .*--file "binder/environment\.yml')
    repository = place(dockerfile, r"^COPY --chown=\S+ src/ \$\{REPO_DIR\}/\s*$")
    library = place(dockerfile, r"^RUN \./binder/postBuild")
    assert copied_alone < solved < repository < library


def test_jupyter_is_started_through_our_start(dockerfile):
    place(dockerfile, r'^ENV R2D_ENTRYPOINT="\$\{REPO_DIR\}/binder/start"')


def render_as_binder_does(folder: Path) -> subprocess.CompletedProcess:
    """The command line, with the setting under which a repository without an environment is refused."""
    options = ["--no-build", "--debug", "--user-id", "1000", "--user-name", "jovyan"]
    command = [
        sys.executable,
        "-m",
        "repo2docker",
        *options,
        "--Repo2Docker.default_buildpack=None",
        str(folder),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_command_line_accepts_the_checkout(checkout):
    result = render_as_binder_does(checkout)
    assert result.returncode == 0, result.stderr[-2000:]
    assert "./binder/postBuild" in result.stdout + result.stderr


def test_without_the_link_binder_would_refuse_the_checkout(checkout, tmp_path):
    """The environment.yml at the top is not read where a binder folder exists."""
    shutil.copytree(checkout, tmp_path / "clone", symlinks=True)
    (tmp_path / "clone" / "binder" / "environment.yml").unlink()
    result = render_as_binder_does(tmp_path / "clone")
    assert result.returncode == 1
    assert "No environment specification found" in result.stdout + result.stderr


def test_the_environment_in_binder_is_a_link_to_the_one_at_the_top():
    link = ROOT / "binder" / "environment.yml"
    assert link.is_symlink()
    assert link.readlink() == Path("../environment.yml")


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_the_scripts_can_be_run_and_parsed(name):
    script = ROOT / "binder" / name
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/bash")
    assert subprocess.run(["bash", "-n", script]).returncode == 0


def test_post_build_installs_the_library_alone_in_an_activated_environment():
    lines = (ROOT / "binder" / "postBuild").read_text().splitlines()
    assert lines[0] == "#!/bin/bash -l"  # repo2docker activates the environment in login shells only
    assert "set -euo pipefail" in lines
    (install,) = [line for line in lines if "pip install" in line]
    assert {"--no-deps", "--no-build-isolation", "./lib"} <= set(install.split())


def test_start_names_the_root_and_becomes_the_command(tmp_path):
    environment = {"PATH": os.environ["PATH"], "REPO_DIR": str(tmp_path)}
    command = ["sh", "-c", 'echo "$NETREPRO_ROOT" "$OMP_NUM_THREADS" $$; exit 7']
    started = subprocess.Popen(
        [ROOT / "binder" / "start", *command], env=environment, stdout=subprocess.PIPE, text=True
    )
    output, _ = started.communicate(timeout=60)
    assert output.split() == [str(tmp_path), "1", str(started.pid)]
    assert started.returncode == 7


def test_start_keeps_what_is_already_set(tmp_path):
    environment = {"PATH": os.environ["PATH"], "NETREPRO_ROOT": "/elsewhere", "OMP_NUM_THREADS": "3"}
    command = [ROOT / "binder" / "start", "sh", "-c", 'echo "$NETREPRO_ROOT" "$OMP_NUM_THREADS"']
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert result.stdout.split() == ["/elsewhere", "3"]


def test_system_packages_are_named_once_and_in_order():
    for_all, for_tests = (package_names(ROOT / folder / "apt.txt") for folder in ("binder", ".ci"))
    for names in (for_all, for_tests):
        assert names == sorted(set(names))
        assert all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name) for name in names)
    assert not set(for_all) & set(for_tests)
