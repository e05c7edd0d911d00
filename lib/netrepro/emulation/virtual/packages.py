"""Programs and files of Debian packages for a user without root: apt fetches them into a folder.

Only the system's list of package sources is used; apt's state on the system is neither read nor changed.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from netrepro.errors import NetreproError
from netrepro.files import file_sha256

_HELPER = Path("/usr/lib/apt/apt-helper")
_SETTINGS = """\
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Debug::NoLocking "1";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "1";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""
_SYSTEM = ("libc6_", "libgcc-s1_", "libc-bin_")  # never fetched: these must be the machine's own, to fit its loader


def can_fetch() -> bool:
    """Tell whether this machine has apt and dpkg."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg-deb") and _HELPER.exists())


def fetch_programs(
    packages: Mapping[str, str], folder: Path, scripts: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Fetch programs and their dependencies into `folder`/files; put a command for each program into `folder`/bin.

    packages : program -> package. scripts : program -> the file that its command runs, below `folder`/files, where it
    is not the one in usr/bin, as that one names another file of the system. Raises NetreproError where apt cannot fetch
    them.
    """
    names = sorted(set(packages.values()))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _apt(folder.parent) as (apt, home):
        # Install as on an empty system, so that the real system's state does not matter.
        options = ["--yes", "--no-install-recommends", "--download-only"]
        _run([*apt, "install", *options, *names], f"apt cannot fetch {', '.join(names)}")
        made = home / "made"
        (made / "files").mkdir(parents=True)
        for package in (home / "cache" / "archives").glob("*.deb"):
            if not package.name.startswith(_SYSTEM):
                subprocess.run(["dpkg-deb", "-x", package, made / "files"], check=True, stdin=subprocess.DEVNULL)
        files = folder / "files"
        libraries = [*made.glob("files/usr/lib/*-linux-gnu*"), *made.glob("files/lib/*-linux-gnu*")]
        variables = {
            "LD_LIBRARY_PATH": ":".join(str(folder / path.relative_to(made)) for path in libraries),
            "M4": files / "usr" / "bin" / "m4",
            "BISON_PKGDATADIR": files / "usr" / "share" / "bison",
        }
        settings = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())
        (made / "bin").mkdir()
        for program in packages:
            command = made / "bin" / program
            target = shlex.quote(str(files / scripts.get(program, f"usr/bin/{program}")))
            command.write_text(f'#!/bin/sh\n{settings} exec {target} "$@"\n')
            command.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def fetch_package(name: str, version: str, urls: Sequence[str], sha256: str, to: Path) -> None:
    """Fetch one package to the path `to`, from the first of `urls` that works, else from the system's sources.

    Raises NetreproError where no source has it, or where its hash is not `sha256`.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    problem = NetreproError(f"{name} {version} cannot be fetched")
    with _apt(to.parent, update=False) as (apt, home):
        part = home / to.name
        helper = [str(_HELPER), *apt[1:3], "download-file"]
        for url in urls:
            try:
                _run([*helper, url, str(part), f"SHA256:{sha256}"], str(problem))
            except NetreproError as error:
                problem = error
            else:
                part.rename(to)
                return
    with _apt(to.parent) as (apt, home):
        _run([*apt, "download", f"{name}={version}"], problem.problem, home)
        for part in home.glob("*.deb"):
            if file_sha256(part) != sha256:
                raise NetreproError(f"{name} {version} has not the hash that is recorded", "see lib/kernel/README.md")
            part.rename(to)


@contextmanager
def _apt(parent: Path, update: bool = True) -> Iterator[tuple[list[str], Path]]:
    """Yield an apt-get command with its own state, and its folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="apt-", dir=parent) as folder:
        home = Path(folder)
        for name in ("state/lists/partial", "cache/archives/partial"):
            (home / name).mkdir(parents=True)
        (home / "status").touch()
        settings = home / "apt.conf"
        settings.write_text(_SETTINGS.format(folder=folder))
        apt = ["apt-get", "-c", str(settings), "-qq"]
        if update:  # one of several sources may fail; a missing package is reported later
            subprocess.run([*apt, "update"], capture_output=True, stdin=subprocess.DEVNULL)
        yield apt, home


def _run(command: list[str], problem: str, folder: Path | None = None) -> None:
    """Run a command of apt. Raises NetreproError, with apt's first error, where it fails."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
    )
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("E: ")]
        raise NetreproError(f"{problem} ({said[0][3:]})" if said else problem, "connect this machine to the network")
