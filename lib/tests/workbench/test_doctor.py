"""The doctor's tables against second sources, and its warnings at their thresholds."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from netrepro.emulation.tiers import TierProbe, TierStatus
from netrepro.workbench.catalogue.notebooks import Declaration
from netrepro.workbench.cli import doctor
from netrepro.workbench.cli.doctor import Diagnosis, Machine, Tool

ROOT = Path(__file__).resolve().parents[3]
NO_PACKAGES = pd.DataFrame(
    {"package": [], "required": [], "installed": [], "fine": [], "note": [], "needed_by": []}
).astype({"fine": bool})


def machine(**changed) -> Machine:
    """A machine that nothing is wrong with, but for what is changed."""
    facts = {
        "cores": 4,
        "memory_mb": 8000,
        "memory_available_mb": 4000,
        "disk_free_mb": 9000,
        "load_1min": 0.1,
    }
    return Machine(**{"python": "3.11.9", "kernel": "Linux 6.1", "cpu_model": "", **facts, **changed})


def probe(*available: str) -> TierProbe:
    tiers = ("privileged", "rootless", "simulated")
    return TierProbe(*(TierStatus(tier in available, f"reason {tier}") for tier in tiers))


def needs(slug="dctcp", tiers=("rootless", "simulated"), memory_mb=(500, 1000), lane="quiet") -> Declaration:
    memory = dict(zip(("quick", "paper"), memory_mb, strict=True))
    return Declaration(slug=slug, lane=lane, tiers=list(tiers), memory_mb=memory)


def warnings(*notebooks: Declaration, on: Machine, with_tiers=("rootless", "simulated")) -> pd.DataFrame:
    return doctor.find_warnings(on, doctor.assign_tiers(notebooks, probe(*with_tiers)), NO_PACKAGES)


# The machine


def test_the_machine_is_described_as_other_programs_see_it():
    seen = doctor.read_machine()
    assert seen.python == platform.python_version()
    assert seen.kernel == f"Linux {subprocess.check_output(['uname', '-r'], text=True).strip()}"
    assert 1 <= seen.cores <= len(os.sched_getaffinity(0))
    physical_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    assert 0 < seen.memory_available_mb <= seen.memory_mb <= physical_mb + 1
    free = os.statvfs(Path.cwd())
    assert seen.disk_free_mb == pytest.approx(free.f_bavail * free.f_frsize / 1e6, rel=0.1)


def test_a_share_of_the_machine_is_what_counts():
    """A container has such limits: here one core and 700 MB, by this process's own limits."""
    program = (
        "import os, resource; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "resource.setrlimit(resource.RLIMIT_RSS, (700_000_000, 700_000_000));"
        "from netrepro.workbench.cli.doctor import read_machine;"
        "seen = read_machine(); print(seen.cores, seen.memory_mb, seen.memory_available_mb)"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    cores, memory_mb, available_mb = map(int, output.split())
    assert (cores, memory_mb) == (1, 700)
    assert available_mb <= 700


# Tools


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_tools_are_found_with_the_version_they_give(tmp_path, monkeypatch):
    install(tmp_path, "on-stdout", "echo tool, version 1.22.3 of 2026")
    install(tmp_path, "on-stderr", "echo ' [: 12: warning' >&2; echo BIRD version 2.0.12 >&2")
    install(tmp_path, "one-number", "echo tool version 30; echo of 2026")
    install(tmp_path, "broken", "exit 3")
    (tmp_path / "no-program").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    names = ("on-stdout", "on-stderr", "one-number", "broken", "no-program")
    table = doctor.find_tools(Tool(name, "--version", "somebody") for name in names).set_index("tool")
    assert table.found.to_dict() == {
        "on-stdout": True,
        "on-stderr": True,
        "one-number": True,
        "broken": True,
        "no-program": False,
    }
    assert list(table.version) == ["1.22.3", "2.0.12", "30", "", ""]


def test_a_header_is_found_where_it_is(tmp_path):
    (tmp_path / "here.h").write_text("")
    tools = [Tool(str(tmp_path / name), "", "somebody") for name in ("here.h", "none.h")]
    assert list(doctor.find_tools(tools).found) == [True, False]


def test_tools_that_an_ordinary_path_leaves_out_are_found(monkeypatch):
    everywhere = doctor.find_tools().set_index("tool").found
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    here = [tool for tool in ("ip", "tc", "git") if everywhere[tool]]
    assert here
    assert doctor.find_tools().set_index("tool").found[here].all()


def test_git_gives_the_version_that_git_gives():
    table = doctor.find_tools().set_index("tool")
    assert table.version["git"] in subprocess.check_output(["git", "--version"], text=True)


def test_every_system_package_we_install_is_one_whose_use_the_doctor_tells():
    told = {tool.package for tool in doctor.TOOLS}
    for folder in ("binder", ".ci"):
        names = set((ROOT / folder / "apt.txt").read_text().split())
        assert {name for name in names if not name.startswith("fonts-") and not name.endswith("-dev")} <= told


# Packages


def test_this_environment_satisfies_the_library():
    table = doctor.find_packages().set_index("package")
    assert {"numpy", "pandas", "pyroute2", "torch", "netrepro._core"} <= set(table.index)
    assert "pytest" not in table.index, "tools of development are nobody's need"
    assert table.fine.drop("torch").all()


def test_what_is_absent_or_of_a_wrong_version_is_told(tmp_path, monkeypatch):
    information = tmp_path / "netrepro-9.dist-info"
    information.mkdir()
    lines = [
        "Metadata-Version: 2.1",
        "Name: netrepro",
        "Version: 9",
        "Requires-Dist: numpy<1",
        "Requires-Dist: pandas>=3",
    ]
    (information / "METADATA").write_text("\n".join([*lines, "Requires-Dist: no-such-package"]) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    table = doctor.find_packages()
    assert table.set_index("package").fine.drop("netrepro._core").to_dict() == {
        "numpy": False,
        "pandas": True,
        "no-such-package": False,
    }
    told = doctor.find_warnings(machine(), doctor.assign_tiers([], probe("simulated")), table).warning
    assert list(told.str.split(":").str[0]) == ["numpy", "no-such-package"]


def test_applications_of_the_capture_that_are_absent_are_told_in_one_line_with_what_they_are_for(tmp_path, monkeypatch):
    information = tmp_path / "netrepro-9.dist-info"
    information.mkdir()
    asked = [
        "no-such-peer; extra == 'capture'",
        "numpy; extra == 'capture'",
        "no-such-server; extra == 'capture'",
        "no-such-tool; extra == 'develop'",
        "no-such-wheel; python_version < '3' and extra == 'capture'",
    ]
    lines = ["Metadata-Version: 2.1", "Name: netrepro", "Version: 9", *(f"Requires-Dist: {each}" for each in asked)]
    (information / "METADATA").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    table = doctor.find_packages().set_index("package").drop("netrepro._core")
    assert table.fine.to_dict() == {"no-such-peer": False, "numpy": True, "no-such-server": False}
    assert table.needed_by.str.contains("gmm_traffic").all()
    told = doctor.find_warnings(machine(), doctor.assign_tiers([], probe("simulated")), table.reset_index())
    assert list(told.warning) == ["no no-such-peer, no-such-server: no labelled capture can be made"]
    assert "netrepro[capture]" in told.remedy[0]


def test_what_the_capture_needs_is_what_its_maker_asks_for():
    from netrepro.applications.labelled_traffic.generate import LIBRARIES

    table = doctor.find_packages()
    wanted = set(table.package[table.needed_by == doctor.EXTRAS["capture"]])
    assert wanted <= set(LIBRARIES) and len(wanted) >= len(LIBRARIES) - 1  # a wheel may lack for this Python


def test_the_build_of_torch_is_the_one_that_torch_tells():
    row = doctor.find_packages().set_index("package").loc["torch"]
    if row.note == "absent":
        pytest.skip("PyTorch is not installed")
    cuda = subprocess.check_output([sys.executable, "-c", "import torch; print(torch.version.cuda)"], text=True).strip()
    assert row.note == ("CPU build" if cuda == "None" else f"CUDA {cuda} build")


# Notebooks


def test_a_notebook_that_cannot_run_here_is_a_warning():
    told = warnings(needs("oncache", ["privileged"]), on=machine())
    assert told.warning.str.startswith("oncache cannot run").tolist() == [True]


# All of it


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return doctor.examine([needs("first"), needs("second", ["simulated"], memory_mb=(1, 10**9))])


def test_the_tables_have_the_columns_they_promise(diagnosis):
    promised = {
        name.strip(): [column.strip() for column in columns.split(",")]
        for name, columns in (line.split(":") for line in Diagnosis.__doc__.splitlines() if " : " in line)
    }
    assert len(promised) == 7
    assert {name: list(getattr(diagnosis, name).columns) for name in promised} == promised


def test_the_page_shows_every_row_of_every_table(diagnosis):
    text = "\n".join(diagnosis.lines())
    folded = "".join(text.split())
    for first_column, table in (
        ("property", diagnosis.machine),
        ("feature", diagnosis.kernel_features),
        ("tool", diagnosis.tools),
        ("package", diagnosis.packages),
        ("slug", diagnosis.notebooks),
        ("warning", diagnosis.warnings),
    ):
        assert all("".join(word.split()) in folded for word in table[first_column])
    assert max(map(len, text.splitlines())) <= 80
    assert "second (paper) needs 1e+09 MB" in text


def test_what_is_lacking_says_what_needs_it_and_what_is_there_takes_no_line_of_its_own(diagnosis):
    rows = [("there", True, "1.2", "there-package", "nobody"), ("absent", False, "", "absent-package", "everybody")]
    tools = pd.DataFrame(rows, columns=list(diagnosis.tools))
    lines = Diagnosis(**{**vars(diagnosis), "tools": tools}).lines()
    assert "  found: there 1.2" in lines and any("absent-package; everybody" in line for line in lines)
    assert not any("there-package" in line for line in lines)


def test_brackets_in_a_reason_are_shown_and_not_taken_for_colours(diagnosis):
    tiers = pd.DataFrame({"tier": ["rootless"], "available": [False], "why": ["[bold] refused [/x]"]})
    empty = diagnosis.warnings.iloc[:0]
    lines = Diagnosis(**{**vars(diagnosis), "tiers": tiers, "warnings": empty}).lines()
    assert any("[bold] refused [/x]" in line for line in lines)
    assert lines[-1] == "Nothing to warn about."


def test_examining_changes_nothing_here(diagnosis, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    doctor.examine([])
    assert dict(os.environ) == before
    assert list(tmp_path.iterdir()) == []
    assert json.dumps(diagnosis.notebooks.to_dict("list"))
