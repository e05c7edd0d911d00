"""The library and its kernel as wheels: what they hold, how much the base brings, and that it works without extras."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from virtual_kernel import needs_virtual

import netrepro

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
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make wheels` fills; of the library only what has changed is compiled."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, str(LIBRARY / "wheels.py"), "--without-source", "--into", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("netrepro-*.whl")
    return found


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
    packages = importlib.metadata.distribution("numpy").locate_file("")
    arguments = [str(site), str(packages), json.dumps(others), json.dumps([*base])]
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
    assert {f"netrepro-{netrepro.__version__}.dist-info/licenses/LICENSE", "netrepro/py.typed"} <= names


def test_the_source_archive_holds_all_that_the_library_is_built_of(built):
    with tarfile.open(*built.glob("netrepro-*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder, parts in ((LIBRARY, ("netrepro", "core")), (LIBRARY.parent, ("data",))):
        for part in parts:
            there = {path.relative_to(folder) for path in (folder / part).rglob("*") if path.is_file()}
            made = {path for path in there if path.suffix in (".pyc", ".so")}
            assert there - made <= set(map(Path, names))
    assert {"pyproject.toml", "CMakeLists.txt", "build_with_data.py", "LICENSE"} <= names
    assert not any(name.startswith(("kernel/", "tests/", "build/")) for name in names), (
        "the kernel's licence is another"
    )
    assert not (LIBRARY / "data").exists()


def test_the_kernels_wheel_holds_its_recipe_and_licence(built):
    (found,) = built.glob("netrepro_kernel-*.whl")
    with zipfile.ZipFile(found) as archive:
        names = set(archive.namelist())
        (information,) = (name for name in names if name.endswith("/METADATA"))
        assert "License-Expression: GPL-2.0-only" in archive.read(information).decode()
    kernel = LIBRARY / "kernel"
    for part in ("built_in", "modules", "patches"):
        there = {path.relative_to(kernel) for path in (kernel / part).rglob("*") if path.is_file()}
        assert there and {f"netrepro_kernel/{path}" for path in there} <= names
    assert {"netrepro_kernel/config", "netrepro_kernel/LICENSE"} <= names


README_WITHOUT_PICTURE = [
    line
    for line in re.search(r"```python\n(.*?)```", (LIBRARY.parent / "README.md").read_text(), re.DOTALL)[1].splitlines()
    if ".plot(" not in line  # matplotlib is an extra's
]


@needs_virtual
def test_outside_of_a_checkout_the_installed_kernel_runs_the_readmes_network_and_a_module(built, tmp_path):
    (found,) = built.glob("netrepro_kernel-*.whl")
    assert found.name.endswith("-py3-none-linux_x86_64.whl")
    folder = tmp_path / "site"
    how = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--target", str(folder)]
    wheels = [found, *built.glob("netrepro-*.whl")]
    subprocess.run([sys.executable, "-m", "pip", "install", *how, *wheels], check=True, capture_output=True)
    code = f"""
import os
os.environ["XDG_CACHE_HOME"] = {str(tmp_path / "cache")!r}
exec({os.linesep.join(README_WITHOUT_PICTURE)!r})
from netrepro.emulation.virtual.kernel import kernel_path
assert kernel_path().is_relative_to(site), kernel_path()
flow = Flow("h1", "h3", duration_s=1, congestion_control="suss")
suss = emulate(Experiment(network, [flow], duration_s=1), tier="virtual")
print(json.dumps([run.tier, run.trusted, len(run.flows), float(suss.flows.goodput_mbps.iloc[0])]))
"""
    done = run_base(folder, tmp_path, code)
    assert done.returncode == 0, done.stderr
    tier, trusted, flows, goodput_mbps = json.loads(done.stdout)
    assert (tier, trusted, flows) == ("virtual", True, 2) and goodput_mbps > 5


@pytest.mark.skipif("NETREPRO_WHOLE" not in os.environ, reason="only in make test-all")
def test_an_empty_environment_gets_all_from_the_wheels_and_the_source_archive(built, tmp_path):
    """With what the base depends on from the package index, and a compiler for the archive."""
    for library in (*built.glob("netrepro-*.whl"), *built.glob("netrepro-*.tar.gz")):
        place = tmp_path / library.suffix
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        kernel = ["--find-links", built, f"netrepro[kernel] @ {library.as_uri()}"]
        quiet = ["--quiet", "--disable-pip-version-check"]
        done = subprocess.run([place / "bin" / "pip", "install", *quiet, *kernel], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        code = "\n".join([*README_WITHOUT_PICTURE, "print(run.tier, run.trusted, len(run.flows))"])
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NETREPRO_ROOT")}
        ran = subprocess.run(
            [place / "bin" / "python", "-c", code],
            cwd=tmp_path,
            env=environment | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
        )
        assert ran.stdout == "virtual True 2\n", ran.stderr


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
        code = f"sys.argv = ['netrepro', *{list(words)!r}]\nfrom netrepro.workbench.cli.commands import main\nmain()"
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
