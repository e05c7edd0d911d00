"""Congestion controls that this kernel lacks, compiled here and loaded into it as eBPF for as long as a network lives.

The kernel shares them among all namespaces and keeps them when their owner dies, so each has the process id of its
network's launcher in its name. That removes it when it ends; whoever loads one first removes those of launchers that
were killed.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from netrepro.emulation.guests import LauncherConnection
from netrepro.emulation.tiers import missing_feature
from netrepro.emulation.virtual.kernel import congestion_controls
from netrepro.errors import NetreproError

_SOURCES = Path(__file__).with_name("bpf")
_PREFIX = "nr"  # nr, scheme, process id: at most 15 letters
HEADER = Path("/usr/include/bpf/bpf_tracing.h")  # of libbpf
_TARGETS = {"x86_64": "x86", "aarch64": "arm64"}


def bpf_schemes() -> list[str]:
    """Congestion controls that can be loaded."""
    return sorted(path.name.split(".")[0] for path in _SOURCES.glob("*.bpf.c"))


def missing_for_bpf() -> str:
    """What this machine lacks to load one, or ""; the kernel is tried once."""
    return _missing_tools() or missing_feature("eBPF congestion control", "privileged")


def _missing_tools() -> str:
    for tool in ("clang", "bpftool"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    return "" if HEADER.exists() else f"libbpf's headers are not installed (no {HEADER})"


def has_congestion_control(scheme: str, tier: str) -> bool:
    """Whether hosts of an emulated network can have it: the kernel does, as a module too, or root can load it."""
    if tier == "virtual":
        return scheme in congestion_controls()
    if not missing_feature(f"TCP {scheme}", tier):
        return True
    return tier == "privileged" and scheme in bpf_schemes() and not missing_for_bpf()


class BpfControls:
    """Congestion controls of one network: loaded by name, removed by its launcher."""

    def __init__(self) -> None:
        self._loaded: dict[str, str] = {}

    @property
    def loaded(self) -> bool:
        """Whether there are any."""
        return bool(self._loaded)

    def load(self, scheme: str, launcher: LauncherConnection) -> str:
        """The name under which sockets can ask for `scheme` from now on.

        Raises NetreproError for a scheme that is not there, missing tools, or a kernel that refuses.
        """
        if scheme in self._loaded:
            return self._loaded[scheme]
        missing = _missing_tools()
        if missing:
            raise NetreproError(f"{scheme} cannot be loaded into this kernel: {missing}", "see `netrepro doctor`")
        remove_orphans()
        name = f"{_PREFIX}{scheme}{launcher.process}"
        launcher.remove_at_end([name])
        with tempfile.TemporaryDirectory() as folder:
            compiled = str(Path(folder) / "control.o")
            machine = platform.machine()
            command = ["clang", "-O2", "-g", "-target", "bpf", f"-I/usr/include/{machine}-linux-gnu"]
            command += [f"-D__TARGET_ARCH_{_TARGETS.get(machine, machine)}", f"-DNAME={name}"]
            _run([*command, "-c", str(_SOURCES / f"{scheme}.bpf.c"), "-o", compiled], f"{scheme} does not compile")
            _run(["bpftool", "struct_ops", "register", compiled], f"the kernel refuses {scheme}")
        self._loaded[scheme] = name
        return name


def remove_orphans() -> None:
    """Remove what networks have loaded whose launcher has ended without removing it."""
    for name in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split():
        for scheme in bpf_schemes():
            owner = name.removeprefix(_PREFIX + scheme)
            if owner != name and owner.isdigit() and not Path("/proc", owner).exists():
                subprocess.run(["bpftool", "struct_ops", "unregister", "name", name], capture_output=True)


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        why = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
        raise NetreproError(f"{what}: {why.strip()}", "use tier 'simulated'")
