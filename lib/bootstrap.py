"""Prepare .venv: the pinned lock, PyTorch if it is small, and the library with its C++ core.

Run by the Makefile with the machine's own Python, so it uses the standard library alone. Each step leaves a
stamp; a step whose inputs have not changed is not done again. A missing prerequisite is named in one line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from pathlib import Path

LIBRARY = Path(__file__).resolve().parent
VENV = LIBRARY.parent / ".venv"
PYTHON = VENV / "bin" / "python"
READY = VENV / "netrepro-ready"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
TORCH = "torch==2.13.0"
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 14)  # what every package of the lock has a wheel for


class SetUpError(Exception):
    """What is missing, in one line."""


def check_prerequisites() -> None:
    """Raise SetUpError naming the first prerequisite that the machine lacks."""
    if not OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        raise SetUpError(f"Python 3.11 to 3.14 is needed, this is {found}: make PYTHON=/path/to/python3.11")
    compilers = [os.environ.get("CXX", ""), "c++", "g++", "clang++"]
    if not any(name and shutil.which(name.split()[0]) for name in compilers):
        raise SetUpError("a C++20 compiler is needed: apt-get install g++ (or set CXX)")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise SetUpError("Python's venv module is needed: apt-get install python3-venv python3-dev") from None
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise SetUpError("Python's headers are needed: apt-get install python3-dev")


def fingerprint(paths: Iterable[Path], *words: str) -> str:
    digest = hashlib.sha256("\0".join(words).encode())
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def run(*command: str | Path, why: str) -> None:
    """Run a command, its output kept; raise SetUpError with its last lines when it fails."""
    result = subprocess.run([str(word) for word in command], text=True, capture_output=True)
    if result.returncode:
        tail = "\n".join((result.stdout + result.stderr).strip().splitlines()[-25:])
        raise SetUpError(f"{why} failed ({' '.join(str(word) for word in command)}):\n{tail}")


class Step:
    """One step of the set-up, done only when its fingerprint has changed; says what it does and how long."""

    def __init__(self, name: str, stamp: str, print_fingerprint: str):
        self.path = VENV / f"netrepro-{stamp}"
        self.name, self.fingerprint = name, print_fingerprint

    @property
    def done(self) -> bool:
        return self.path.exists() and self.path.read_text() == self.fingerprint

    def __enter__(self) -> Step:
        self.start = time.monotonic()
        print(f"  {self.name} ...", flush=True)
        return self

    def __exit__(self, kind, value, trace) -> None:
        if kind is None:
            self.path.write_text(self.fingerprint)
            print(f"  {self.name}: {time.monotonic() - self.start:.0f} s", flush=True)


def make_environment() -> None:
    """A virtual environment of this Python; one made by another Python is remade."""
    base = f"{sys.version} {os.path.realpath(sys.executable)}"
    step = Step(f"virtual environment (Python {sys.version_info.major}.{sys.version_info.minor})", "python", base)
    if step.done and PYTHON.exists():
        return
    with step:
        shutil.rmtree(VENV, ignore_errors=True)
        run(sys.executable, "-m", "venv", VENV, why="making .venv")


def install_lock() -> None:
    """The pinned lock."""
    lock = LIBRARY / "requirements.txt"
    step = Step(f"packages of lib/{lock.name}", "lock", fingerprint([lock]))
    if step.done:
        return
    with step:
        install_hashed(lock)
        keep_compiled(VENV)


def install_hashed(lock: Path) -> None:
    """Packages whose files have the lock's hashes, and no other files, whatever the package index hands out.

    By uv for its speed, by pip where uv cannot reach what pip is set up to reach.
    """
    pip = (*PIP, "--require-hashes", "--requirement")
    uv = VENV / "netrepro-uv.txt"
    try:
        uv.write_text(entry_of("uv", LIBRARY / "requirements.txt"))
        run(PYTHON, *pip, uv, why="installing uv")
        run(VENV / "bin" / "uv", "pip", "install", "--python", PYTHON, "--require-hashes", "-r", lock, why="uv")
    except SetUpError:
        run(PYTHON, *pip, lock, why="installing the packages")


def entry_of(package: str, lock: Path) -> str:
    """The lines of a lock about one package: its pin, and a hash for each of its files."""
    lines = lock.read_text().splitlines()
    first = last = next(place for place, line in enumerate(lines) if line.startswith(f"{package}=="))
    while lines[last].endswith("\\"):
        last += 1
    return "\n".join(lines[first : last + 1]) + "\n"


def keep_compiled(folder: Path) -> None:
    """Compile modules once where Python may not keep what it compiles, as in many containers.

    Otherwise each process that imports pandas and the rest would compile them anew, which takes two thirds of it.
    """
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        # A few packages ship files that no Python 3 compiles; nobody imports those.
        subprocess.run([str(PYTHON), "-m", "compileall", "-qq", "-j", "0", str(folder)], capture_output=True)


def install_torch(even_if_big: bool) -> None:
    """PyTorch by pip (whose find-links are honoured), but no CUDA build unless it is asked for.

    Without hashes: its small builds are other files than the CUDA build of the same version, and which of them there is
    depends on the index. A dry run tells what pip would fetch. Without PyTorch everything runs but the neural models,
    which say `not measured` and why.
    """
    step = Step(TORCH, "torch", f"{TORCH} {even_if_big}")
    if step.done:
        return
    pins = VENV / "netrepro-pins.txt"
    constraint = ("--constraint", pins, TORCH)
    report = VENV / "netrepro-torch-report.json"
    note = "go on without it; `make run NEURAL=1` tries again, big builds included"
    with step:
        # With the hashes too, pip would ask for one of PyTorch.
        lines = (LIBRARY / "requirements.txt").read_text().splitlines()
        pins.write_text("\n".join(line.rstrip(" \\") for line in lines if "--hash" not in line))
        try:
            run(PYTHON, *PIP, "--dry-run", "--report", report, *constraint, why="asking pip for PyTorch")
            names = [item["metadata"]["name"] for item in json.loads(report.read_text())["install"]]
            if any(name.startswith(("nvidia", "cuda", "triton")) for name in names) and not even_if_big:
                print(f"  only the CUDA build of {TORCH} (gigabytes) is to be had: {note}", flush=True)
            else:
                run(PYTHON, *PIP, *constraint, why="installing PyTorch")
        except SetUpError as error:
            if even_if_big:
                raise
            print(f"  {TORCH} cannot be installed: {note}\n    {str(error).splitlines()[-1]}", flush=True)


def install_what_a_figure_needs() -> None:
    """The few packages of the lock that a first figure takes."""
    lock = LIBRARY / "requirements-first.txt"
    step = Step("packages of a first figure", "first-lock", fingerprint([lock]))
    if step.done or (VENV / "netrepro-lock").exists():  # all of them
        return
    with step:
        install_hashed(lock)


def install_library(quickly: bool = False) -> None:
    """The library, editable, its C++ core compiled; only changed C++ files are compiled again.

    What is installed knows where each module is, so a module that has become a package is a change, too.

    quickly : compiled in half the time, for a core that is slower; the next set-up compiles it anew.
    """
    sources = [path for path in (LIBRARY / "core").rglob("*") if path.suffix in (".cpp", ".hpp")]
    inputs = [*sources, LIBRARY / "pyproject.toml", LIBRARY / "CMakeLists.txt"]
    packages = [str(path.parent.relative_to(LIBRARY)) for path in (LIBRARY / "netrepro").rglob("__init__.py")]
    whole = Step("netrepro and its C++ core", "library", fingerprint(inputs, str(LIBRARY), *sorted(packages)))
    step = Step("netrepro and a core for a first figure", "first-library", whole.fingerprint) if quickly else whole
    if whole.done or step.done:
        return
    os.environ["PATH"] = f"{VENV / 'bin'}:{os.environ.get('PATH', '')}"  # the lock's own cmake and ninja
    options = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    if quickly:
        options += ["--config-settings=build-dir=build/first", "--config-settings=cmake.define.NETREPRO_OPTIMIZE=1"]
        options += ["--config-settings=cmake.define.CMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF"]
    with step:
        for other in ("netrepro-library", "netrepro-first-library"):  # there is one core
            (VENV / other).unlink(missing_ok=True)
        run(PYTHON, "-m", "pip", "install", *options, "--editable", LIBRARY, why="building the library")
        if not quickly:
            keep_compiled(LIBRARY / "netrepro")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--neural", action="store_true", help="install PyTorch even where it is gigabytes")
    parser.add_argument("--first", action="store_true", help="install what a first figure needs, and no more")
    arguments = parser.parse_args()
    try:
        check_prerequisites()
        print("netrepro: setting up .venv", flush=True)
        make_environment()
        if arguments.first:
            install_what_a_figure_needs()
            install_library(quickly=True)
            return 0
        install_lock()
        install_torch(arguments.neural)
        install_library()
    except SetUpError as error:
        print(f"netrepro: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("netrepro: interrupted; the next call goes on from here", file=sys.stderr)
        return 130
    READY.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
