"""The library as a wheel: what it holds, how much its base brings, and that the base works without any extra."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LIBRARY = Path(__file__).resolve().parents[2]
MOST_BYTES = 250 * 2**20


def requirements(name: str, extra: str = "") -> list[Requirement]:
    lines = map(Requirement, importlib.metadata.requires(name) or [])
    return [line for line in lines if line.marker is None or line.marker.evaluate({"extra": extra})]


def base_packages() -> set[str]:
    """Every distribution that the library's base brings, by its canonical name."""
    found: set[str] = set()
    waiting = requirements("netrepro")
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found:
            found.add(name)
            waiting += [other for extra in ("", *requirement.extras) for other in requirements(name, extra)]
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the checkout; only what has changed is compiled."""
    folder = tmp_path_factory.mktemp("wheel")
    how = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    scripts = sysconfig.get_path("scripts")
    command = [sys.executable, "-m", "pip", "wheel", *how, str(LIBRARY)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", scripts, prepend=":")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (built,) = folder.glob("netrepro-*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path) -> Path:
    """The wheel, unpacked."""
    folder = wheel.with_name("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


# Runs the base alone: modules of every other distribution are as if they were not installed.
BASE_ONLY = """
import importlib.metadata, json, sys
site, packages, others, base = sys.argv[1], sys.argv[2], *(set(json.loads(text)) for text in sys.argv[3:])
class NotInstalled:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in others:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
def version(name, version=importlib.metadata.version):
    if name.lower().replace("_", "-") not in base:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = version
sys.meta_path.insert(0, NotInstalled)
sys.path[:0] = [site, packages]
"""


def run_base(site: Path, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Execute code where nothing but the wheel and the base's packages are to be had, outside of a checkout."""
    base = base_packages() | {"netrepro"}
    theirs = importlib.metadata.packages_distributions()
    others = [module for module, names in theirs.items() if not base & {canonicalize_name(name) for name in names}]
    command = [sys.executable, "-I", "-S", "-B", "-c", BASE_ONLY + code]
    arguments = [str(site), sysconfig.get_path("purelib"), json.dumps(others), json.dumps([*base])]
    return subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_wheel_holds_the_library_its_core_and_its_data(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"netrepro/data/flow_sizes/web_search.csv", "netrepro/data/dctcp/claims.yaml"} <= names
    assert any(name.startswith("netrepro/_core.") and name.endswith(".so") for name in names)
    for ending in ("py", "html.j2", "schema.json"):
        there = {path.relative_to(LIBRARY).as_posix() for path in (LIBRARY / "netrepro").rglob(f"*.{ending}")}
        assert there and there <= names
    data = {path for path in (LIBRARY.parent / "data").rglob("*") if path.is_file()}
    assert {f"netrepro/data/{path.relative_to(LIBRARY.parent / 'data').as_posix()}" for path in data} <= names
    assert not any(name.startswith(("tests/", "core/", "kernel/", "benchmarks/")) for name in names)


def test_the_base_is_smaller_than_250_mb(site):
    sizes = {"netrepro": sum(path.stat().st_size for path in site.rglob("*") if path.is_file())}
    for name in base_packages():
        files = importlib.metadata.files(name) or []
        sizes[name] = sum(Path(file.locate()).stat().st_size for file in files if "__pycache__" not in file.parts)
    assert sum(sizes.values()) < MOST_BYTES, sizes


def test_the_base_simulates_judges_and_reads_its_data_without_extras(site, tmp_path):
    code = """
import netrepro.emulation, netrepro.protocols, netrepro.queueing
from netrepro.claims import Measured, all_papers, judge, load_claims
from netrepro.networks import DropTail, Experiment, Flow, Link, dumbbell, load_flow_sizes
from netrepro.simulation import simulate
assert netrepro.__file__.startswith(site)
network = dumbbell(1, access=Link(100, 1), bottleneck=Link(10, 10, DropTail(packets=50)))
found = simulate(Experiment(network, [Flow("h1", "h2", duration_s=1)], 1.0))
claim = load_claims("dctcp").claims[0]
judged = judge(claim, None, "simulated").verdict
print(json.dumps([len(found.flows), bool(load_flow_sizes("web_search").mean > 0), judged, len(all_papers())]))
"""
    done = run_base(site, tmp_path, code)
    assert done.returncode == 0, done.stderr
    flows, has_sizes, verdict, papers = json.loads(done.stdout)
    assert (flows, has_sizes, verdict) == (1, True, "not measured")
    assert papers == len(list((LIBRARY.parent / "data").glob("*/claims.yaml")))


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import netrepro.verification\nnetrepro.verification.Analysis", "verification"),
        ("from netrepro.verification import Analysis", "verification"),
        (
            "from netrepro.traffic import feature_sets\nassert feature_sets()\nfrom netrepro.traffic import evaluate",
            "ml",
        ),
    ],
)
def test_what_needs_an_extra_names_it(site, tmp_path, code, extra):
    done = run_base(site, tmp_path, code)
    assert done.returncode == 1 and f"pip install 'netrepro[{extra}]'" in done.stderr, done.stderr


def test_the_command_works_outside_of_a_checkout(site, tmp_path):
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        code = f"sys.argv = ['netrepro', *{list(words)!r}]\nfrom netrepro.workbench.cli import main\nmain()"
        return run_base(site, tmp_path, code)

    doctor = command("doctor")
    assert doctor.returncode == 0 and "netrepro._core" in doctor.stdout, doctor.stderr
    assert "pip install 'netrepro[notebooks]'" in " ".join(doctor.stdout.split())
    listed = command("list")
    assert listed.returncode == 2 and "no workbench" in listed.stdout
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "data").mkdir()
    run = command("run")
    assert run.returncode == 2 and "pip install 'netrepro[notebooks]'" in run.stdout, run.stdout + run.stderr
