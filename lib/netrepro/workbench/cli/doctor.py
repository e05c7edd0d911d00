"""What this machine can run, what it lacks, and which parts need what it lacks: tables, and lines for the terminal."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from packaging.requirements import Requirement

from netrepro.emulation.overlay.network import HEADER
from netrepro.emulation.tiers import TierProbe, kernel_features, probe_tiers, resolve_tier
from netrepro.errors import NetreproError
from netrepro.paths import workbench_root
from netrepro.programs import PACKAGE_OF, find_program
from netrepro.workbench.catalogue.notebooks import Declaration, Notebook, catalogue
from netrepro.workbench.cli.console import columns_of, folded

QUIET_LOAD_PER_CORE = 0.5  # under a higher load, packets of an emulated network wait for a core, not for the link


class Tool(NamedTuple):
    """A program or header that an experiment or test needs; all but the compiler are optional."""

    name: str
    version_argument: str
    needed_by: str

    @property
    def package(self) -> str:
        """The name of its package on Debian and Ubuntu."""
        return PACKAGE_OF.get(self.name, "libbpf-dev" if self.name == str(HEADER) else self.name)


TOOLS = (
    Tool("c++", "--version", "building the C++ core"),
    Tool("git", "--version", "the commit in each run's record"),
    Tool("ip", "-V", "looking into an emulated network by hand; second opinions in tests"),
    Tool("tc", "-V", "looking at an emulated link's queue by hand; second opinions in tests"),
    Tool("ping", "-V", "asking on an emulated host whether another answers (ping_all has its own)"),
    Tool("iperf3", "--version", "an unmodified program on emulated hosts"),
    Tool("tcpdump", "--version", "captures of an emulated link, to look at by hand"),
    Tool("ethtool", "--version", "looking at an interface's offloads by hand"),
    Tool("iptables", "--version", "connection tracking on the slow path of an overlay network"),
    Tool("clang", "--version", "compiling eBPF programs (privileged tier)"),
    Tool(str(HEADER), "", "compiling eBPF programs (privileged tier)"),
    Tool("bpftool", "version", "loading eBPF programs (privileged tier)"),
    Tool("etcd", "--version", "a second opinion on Raft's elections: real processes (raft)"),
    Tool("bird", "--version", "a second opinion on BGP routes"),
    Tool("gcc", "--version", "building the virtual kernel and its modules (what else it takes is fetched)"),
    Tool("make", "--version", "building the virtual kernel and its modules"),
    Tool("emcc", "--version", "live pages in the gallery (netrepro gallery --live, netrepro web)"),
    Tool("chromium", "--version", "tests that open a notebook in a browser"),
    Tool("chromedriver", "--version", "tests that open a notebook in a browser"),
)


# Name of an extra (an optional part of the library) -> its purpose.
EXTRAS = {
    "notebooks": "the papers' notebooks and figures (netrepro run)",
    "ml": "classifiers of traffic (netrepro.traffic)",
    "verification": "performance queries (netrepro.verification)",
    "neural": "neural models (gmm_traffic, gmm_diagnosis, packet_split_leak)",
    "capture": "making a labelled capture (netrepro capture; the data of gmm_traffic and gmm_diagnosis)",
    "gallery": "pages of the library's functions (netrepro gallery)",
}


@dataclass(frozen=True)
class Machine:
    """The machine, or the share of it that the container grants."""

    python: str
    kernel: str
    cpu_model: str
    cores: int
    memory_mb: int
    memory_available_mb: int
    disk_free_mb: int
    load_1min: float


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The findings as tidy tables, with these columns.

    machine : property, value
    tiers : tier, available, why
    kernel_features : feature, works, why, needed_by
    tools : tool, found, version, package, needed_by
    packages : package, required, installed, fine, note, needed_by
    notebooks : slug, lane, tier, why, quick_s, paper_s, quick_mb, paper_mb
    warnings : warning, remedy
    """

    machine: pd.DataFrame
    tiers: pd.DataFrame
    kernel_features: pd.DataFrame
    tools: pd.DataFrame
    packages: pd.DataFrame
    notebooks: pd.DataFrame
    warnings: pd.DataFrame

    def lines(self) -> list[str]:
        """Return lines of 80 columns: every table that has rows, then the warnings. Features, tools and packages that
        work share a line; each that is lacking has its own, which says what needs it."""
        lines: list[str] = []
        for title, table, columns in (
            ("Machine", self.machine, ["property", "value"]),
            ("Tiers", self.tiers, ["tier", "available", "why"]),
        ):
            lines += [title, *_table(table, columns), ""]
        for title, table, name, there, version, words in (
            ("Kernel features", self.kernel_features, "feature", "works", "", ["needed_by", "why"]),
            ("Tools", self.tools, "tool", "found", "version", ["package", "needed_by"]),
            ("Packages", self.packages, "package", "fine", "installed", ["required", "note", "needed_by"]),
        ):
            fine = table[table[there].astype(bool)]
            items = [f"{_cell(row[name])} {_cell(row.get(version))}".strip() for row in fine.to_dict("records")]
            lines += [title, *folded(f"{there}: {', '.join(dict.fromkeys(items)) or 'none'}", "  ", "    ")]
            lacking = table.drop(fine.index)
            lines += [*(_table(lacking, [name, there], words) if len(lacking) else []), ""]
        if len(self.notebooks):
            lines += ["Notebooks", *_table(self._costs(), ["slug", "lane", "tier", "quick", "paper"]), ""]
        for why, slugs in self.notebooks.groupby("why", sort=False)["slug"] if len(self.notebooks) else []:
            lines += folded(f"{why}: {', '.join(slugs)}", "  ", "    ")
        for row in self.warnings.itertuples():
            lines += [*folded(f"! {row.warning}", "", "  "), *folded(str(row.remedy), "    ")]
        return lines if len(self.warnings) else [*lines, "Nothing to warn about."]

    def _costs(self) -> pd.DataFrame:
        """Return the notebooks with two more columns, "quick" and "paper": time and memory of that profile."""
        costs = {
            profile: [
                f"{_cell(row[f'{profile}_s'])} s, {_cell(row[f'{profile}_mb'])} MB"
                for row in self.notebooks.to_dict("records")
            ]
            for profile in ("quick", "paper")
        }
        return self.notebooks.assign(**costs)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return every table by its name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def _table(table: pd.DataFrame, columns: list[str], words: Sequence[str] = ()) -> list[str]:
    """Write a line for each row: the cells of `columns`, then the cells of the columns `words` joined in one."""
    rows = [[head.replace("_", " ") for head in [*columns, *(["; ".join(words)] if words else [])]]]
    for row in table.to_dict("records"):
        said = "; ".join(cell for cell in (_cell(row[name]) for name in words) if cell not in ("", row[columns[0]]))
        rows.append([_cell(row[name]) for name in columns] + ([said] if words else []))
    return columns_of(rows, "  ")


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _first_value(file: str, key: str) -> str:
    """Return the value after `key` and a colon in a file such as /proc/meminfo; "" where the key is missing."""
    match = re.search(rf"^{key}\s*:\s*(.*)$", Path(file).read_text(), re.MULTILINE)
    return match[1].strip() if match else ""


def read_machine() -> Machine:
    """Describe the machine as this process may use it, with a container's limits on cores and memory."""
    cores, granted_mb = _granted()
    free_mb = int(_first_value("/proc/meminfo", "MemAvailable").split()[0]) * 1024 // 10**6
    return Machine(
        python=platform.python_version(),
        kernel=f"{platform.system()} {platform.release()}",
        cpu_model=_first_value("/proc/cpuinfo", "model name") or platform.machine(),
        cores=cores,
        memory_mb=granted_mb,
        memory_available_mb=min(granted_mb, free_mb),
        disk_free_mb=shutil.disk_usage(Path.cwd()).free // 10**6,
        load_1min=round(os.getloadavg()[0], 2),
    )


def _granted() -> tuple[int, int]:
    """Return the cores and memory (MB) that this process may use, with a container's limits where Dask is installed."""
    try:
        from dask.system import cpu_count
        from distributed.system import memory_limit
    except ModuleNotFoundError:
        return len(os.sched_getaffinity(0)), int(_first_value("/proc/meminfo", "MemTotal").split()[0]) * 1024 // 10**6
    return cpu_count(), memory_limit() // 10**6


def find_tools(tools: Iterable[Tool] = TOOLS) -> pd.DataFrame:
    """Look for tools and ask each for its version. Columns as in Diagnosis.tools."""
    rows = []
    for tool in tools:
        program = find_program(tool.name)
        version = _version_of(program, tool.version_argument) if program else ""
        is_there = Path(tool.name).exists() if Path(tool.name).is_absolute() else program is not None
        rows.append((tool.name, is_there, version, tool.package, tool.needed_by))
    return pd.DataFrame(rows, columns=["tool", "found", "version", "package", "needed_by"])


def _version_of(program: str, argument: str) -> str:
    try:
        result = subprocess.run(
            [program, argument], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = f"{result.stdout}\n{result.stderr}"
    match = re.search(r"\d+(\.\d+)+", said) or re.search(r"(?<=version )\d+", said)
    return match[0] if match else ""


def find_packages() -> pd.DataFrame:
    """Compare what the library and its EXTRAS require with what is installed, the C++ core included.

    Columns as in Diagnosis.packages.
    """
    rows: list[tuple[str, str, str | None, bool, str, str]] = []
    for line in importlib.metadata.requires("netrepro") or []:
        requirement = Requirement(line)
        name, required = requirement.name, f"{requirement.name}{requirement.specifier}"
        needed_by = _who_needs(requirement)
        if needed_by is None:
            continue
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            rows.append((name, required, None, False, "absent", needed_by))
            continue
        if name == "torch":  # only the lock needs that version; conda's build of another release serves as well
            rows.append((name, required, installed, True, _torch_build(), needed_by))
        else:
            fine = requirement.specifier.contains(installed, prereleases=True)
            rows.append((name, required, installed, fine, "", needed_by))
    built = importlib.util.find_spec("netrepro._core") is not None
    note = "C++ core" if built else "the C++ core is not built"
    rows.append(("netrepro._core", "", None, built, note, "every notebook"))
    return pd.DataFrame(rows, columns=["package", "required", "installed", "fine", "note", "needed_by"])


def _who_needs(requirement: Requirement) -> str | None:
    """Return what needs a required package; None where nothing here does (development tools, other platforms)."""
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        return "the library"
    return next((use for extra, use in EXTRAS.items() if requirement.marker.evaluate({"extra": extra})), None)


def _torch_build() -> str:
    """Return whether PyTorch is a CPU or CUDA build, read from its version file: importing it would take seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "its files are gone"
    record = Path(spec.origin).with_name("version.py")
    match = re.search(r"^cuda\b.*=\s*(.+)$", record.read_text(), re.MULTILINE) if record.exists() else None
    if match is None:
        return "build unknown"
    return "CPU build" if match[1] == "None" else f"CUDA {match[1].strip(chr(39))} build"


def assign_tiers(notebooks: Iterable[Declaration], probe: TierProbe) -> pd.DataFrame:
    """Find the tier that each notebook would use here: "none" where it cannot run. Columns: Diagnosis.notebooks."""
    rows = []
    for needs in notebooks:
        try:
            tier, why = resolve_tier("auto", needs.tiers, probe)
        except NetreproError as error:
            tier, why = "none", error.problem
        costs = [
            cost.get(profile, float("nan"))
            for cost in (needs.budget_s, needs.memory_mb)
            for profile in ("quick", "paper")
        ]
        rows.append((needs.slug, needs.lane, tier, why, *costs))
    columns = ["slug", "lane", "tier", "why", "quick_s", "paper_s", "quick_mb", "paper_mb"]
    return pd.DataFrame(rows, columns=columns)


def find_warnings(machine: Machine, notebooks: pd.DataFrame, packages: pd.DataFrame) -> pd.DataFrame:
    """List what would prevent or spoil runs on this machine. Columns: warning, remedy.

    notebooks : a table of assign_tiers. packages : a table of find_packages.
    """
    rows: list[tuple[str, str]] = []
    for row in notebooks[notebooks.tier == "none"].itertuples():
        rows.append((f"{row.slug} cannot run: {row.why}", "run it on another machine, or as root"))
    quiet = notebooks[(notebooks.lane == "quiet") & notebooks.tier.isin(["privileged", "rootless"])]
    names = ", ".join(quiet.slug)
    if len(quiet) and machine.cores < 2:
        problem = f"one core, on which emulated hosts and links take turns: {names} may be untrusted"
        rows.append((problem, "use a machine with two cores, or tier='simulated'"))
    if len(quiet) and machine.load_1min > QUIET_LOAD_PER_CORE * machine.cores:
        problem = f"the load is {machine.load_1min:g} on {machine.cores} cores: {names} may be untrusted"
        rows.append((problem, "wait until other work is done, or use tier='simulated'"))
    for row in notebooks.itertuples():
        for profile, needed_mb in (("quick", row.quick_mb), ("paper", row.paper_mb)):
            if needed_mb > machine.memory_mb:
                remedy = f"use a machine with more than {machine.memory_mb} MB"
            elif needed_mb > machine.memory_available_mb:
                remedy = "close other programs first"
            else:
                continue
            problem = f"{row.slug} ({profile}) needs {needed_mb:g} MB of memory"
            rows.append((f"{problem}, {machine.memory_available_mb} MB are free", remedy))
    return pd.DataFrame([*rows, *_package_warnings(packages)], columns=["warning", "remedy"])


def _package_warnings(packages: pd.DataFrame) -> list[tuple[str, str]]:
    """List warnings for absent and wrong packages; absent packages of most extras share one line."""
    rows = []
    for_captures = (packages.needed_by == EXTRAS["capture"]) & (packages.note == "absent")
    in_extras = pd.Series(False, packages.index)
    for extra in ("notebooks", "ml", "verification"):
        absent = (packages.needed_by == EXTRAS[extra]) & (packages.note == "absent")
        in_extras |= absent
        if absent.any():
            names = ", ".join(packages.package[absent])
            rows.append((f"no {names}, for {EXTRAS[extra]}", f"pip install 'netrepro[{extra}]', or make setup"))
    for row in packages[~packages.fine & ~for_captures & ~in_extras].itertuples():
        if row.package == "torch" and row.note == "absent":
            rows.append(("no PyTorch: neural models will not be measured", "make run NEURAL=1"))
        else:
            what = row.note or f"{row.installed} is installed, {row.required} is needed"
            rows.append((f"{row.package}: {what}", "make setup"))
    if for_captures.any():
        names = ", ".join(packages.package[for_captures])
        rows.append((f"no {names}: no labelled capture can be made", "pip install 'netrepro[capture]'"))
    return rows


def _notebooks_here() -> list[Notebook]:
    """List the notebooks; none where the library is installed without a workbench."""
    try:
        workbench_root()
    except NetreproError:
        return []
    return catalogue()


def examine(notebooks: Iterable[Declaration] | None = None) -> Diagnosis:
    """Examine the machine, the kernel, tools and packages, and find what the notebooks (default: all) would use here.

    This takes some seconds, because features are tried and tools are started for their versions. It changes nothing.
    """
    machine, probe, packages = read_machine(), probe_tiers(), find_packages()
    if notebooks is None:
        notebooks = [notebook.declaration for notebook in _notebooks_here()]
    assigned = assign_tiers(notebooks, probe)
    return Diagnosis(
        machine=pd.DataFrame(asdict(machine).items(), columns=["property", "value"]),
        tiers=probe.table(),
        kernel_features=kernel_features(),
        tools=find_tools(),
        packages=packages,
        notebooks=assigned,
        warnings=find_warnings(machine, assigned, packages),
    )
