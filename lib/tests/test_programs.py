"""Programs of others, each taken away in turn: whoever starts it says so by its name, before anything has started."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from optional_programs import linked_programs

from netrepro.applications.bgp.run import find_bird
from netrepro.applications.etcd.real_time import EtcdCluster
from netrepro.emulation.overlay.network import (
    Cache,
    Overlay,
    OverlayNetwork,
    compiled_programs,
    missing_for_trials,
    traffic_program,
)
from netrepro.emulation.overlay.trials import run_trials
from netrepro.errors import NetreproError
from netrepro.git import git
from netrepro.papers import emulator_fidelity, misbehaving_receiver, mptcp_wireless
from netrepro.papers.mptcp_wireless.study import TOLD
from netrepro.papers.oncache import measuring
from netrepro.programs import PACKAGE_OF, find_program, need_program, why_missing
from netrepro.simulation.ns3 import build_ns3
from netrepro.study import VIRTUAL
from netrepro.workbench.cli import doctor


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> Path:
    """A PATH with all programs; those that this machine lacks are empty files there, and none of them is started."""
    folder = linked_programs(tmp_path_factory.mktemp("programs") / "bin")
    for name in PACKAGE_OF:
        if not (folder / name).exists():
            (folder / name).write_text("")
            (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def without(everything, monkeypatch) -> Iterator[Callable[[str], None]]:
    """Take a program out of that PATH until the test ends."""
    taken: list[Path] = []

    def take(name: str) -> None:
        taken.append((everything / name).rename(everything.with_name(name)))

    monkeypatch.setenv("PATH", str(everything))
    yield take
    for path in taken:
        path.rename(everything / path.name)


@pytest.mark.parametrize("name", PACKAGE_OF)
def test_a_program_that_is_taken_away_is_missing_by_its_name_and_its_package(name, without):
    without(name)
    assert find_program(name) is None and why_missing("sh", name) == f"not installed: {name}"
    with pytest.raises(NetreproError, match=f"{name.replace('+', '.')} is not installed") as refused:
        need_program(name)
    assert PACKAGE_OF[name] in refused.value.remedy
    assert why_missing(*(other for other in PACKAGE_OF if other != name)) == ""


def test_a_program_is_also_looked_for_in_the_folder_of_the_administrator(tmp_path, monkeypatch):
    for folder, name in (("bin", "one"), ("sbin", "other")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("")
        (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_program("one") == str(tmp_path / "bin/one") and find_program("other") == str(tmp_path / "sbin/other")
    assert why_missing("one", "other") == "" and why_missing("a", "one", "b") == "not installed: a, b"


def start_traffic_program() -> None:
    traffic_program.cache_clear()
    traffic_program()


def compile_caches() -> None:
    with compiled_programs(Cache()):
        pass


def try_a_refusal() -> None:
    run_trials(VIRTUAL, {}, {"deletes": True})


def start_in_a_host(name: str) -> None:
    OverlayNetwork(Overlay(), Path("programs.o")).inside("host", [name])


# Program -> whoever starts it.
STARTERS: list[tuple[str, Callable[[], object]]] = [
    ("git", lambda: git("status")),
    ("bird", find_bird),
    ("etcd", EtcdCluster),
    ("setpriv", lambda: EtcdCluster(1).__enter__()),
    ("clang", compile_caches),
    ("cc", start_traffic_program),
    *((name, try_a_refusal) for name in ("clang", "bpftool", "ip", "nsenter")),
    *((name, partial(start_in_a_host, name)) for name in ("nsenter", "tc", "ethtool")),
]


@pytest.mark.parametrize(("name", "start"), STARTERS, ids=lambda each: each if isinstance(each, str) else "")
def test_whoever_starts_a_program_that_is_missing_names_it_and_starts_nothing(name, start, without, monkeypatch):
    without(name)
    started = []
    monkeypatch.setattr(subprocess, "run", lambda *words, **_: started.append(words))
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **_: started.append(words))
    with pytest.raises(NetreproError, match=f"(?:{name} is not installed|not installed: .*{name})"):
        start()
    assert started == []


@pytest.mark.parametrize("name", ["clang", "bpftool", "ip", "tc", "iptables-restore"])
def test_the_tier_of_kernels_is_refused_before_it_starts_where_an_overlay_lacks_a_program(name, without):
    without(name)
    tried, played = measuring.Trials(measuring.PUBLISHED), measuring.Eviction()
    assert missing_for_trials() == measuring.cannot(tried, VIRTUAL) == f"not installed: {name}"
    assert measuring.cannot(played, VIRTUAL) == ""  # the model's


@pytest.mark.parametrize(
    ("paper", "tier", "case", "name"),
    [
        (emulator_fidelity, "rootless", emulator_fidelity.WITH_HTB, "tc"),
        (emulator_fidelity, "rootless", emulator_fidelity.OFFLOADED, "ip"),
        (misbehaving_receiver, VIRTUAL, "division", "ip"),
        (mptcp_wireless, VIRTUAL, TOLD, "ip"),
    ],
)
def test_a_paper_refuses_a_tier_whose_programs_are_missing(paper, tier, case, name, without):
    setting = paper.STUDY.case(case)
    without("clang")  # which none of these starts
    assert "not installed" not in paper.STUDY.cannot(setting, tier)
    without(name)
    assert paper.STUDY.cannot(setting, tier) == f"not installed: {name}"


def test_without_a_compiler_there_is_no_ns3(without, tmp_path):
    without("c++")
    assert build_ns3(tmp_path) is None


def test_the_doctor_lists_every_program_that_this_library_asks_for_and_misses(without):
    without("clang")
    table = doctor.find_tools().set_index("tool")
    assert not table.found["clang"] and table.package["clang"] == "clang"
