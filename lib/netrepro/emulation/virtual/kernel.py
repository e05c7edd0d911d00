"""The kernel in virtual time: found, or built from the distribution's source package into the user's cache.

What it is made of lies in lib/kernel (GPL-2.0-only): a configuration, patches, and sources that are built in.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from netrepro.errors import NetreproError
from netrepro.paths import workbench_root

OLDEST, NEWEST = (6, 1), (6, 17)  # of the sources that the patches are written for
_RANGE = "Linux 6.1 to 6.17"
TOOLS = {  # program -> the package that has it
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
    "tar": "tar",
    "xz": "xz-utils",
}
# Of the source, what no build of this kernel looks at; two thirds of its bytes.
_LEFT_OUT = (
    "*/Documentation/*/*",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/drivers/staging/*.[ch]",
    "*/drivers/infiniband/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/perf/*",
    "*/tools/testing/*",
)
# Of a folder in which somebody has built something, what is not source.
_MADE = ("*.o", "*.a", "*.cmd", "*.ko", "*.mod", "*/.config", "*/.git", "*/include/config", "*/include/generated")
_NEEDED = ("UML_TIME_TRAVEL_SUPPORT", "HOSTFS", "NET_NS", "VETH", "NET_SCHED")
_EXPECTED_LINES = 1350  # of make's output, for the progress
BUILD_HINT = "run `netrepro kernel build` once (about four minutes)"


@dataclass(frozen=True)
class Source:
    """A source package: its version, and its archive if it is on this machine; or its folder, unpacked."""

    version: tuple[int, ...]
    package: str
    archive: Path | None = None

    @classmethod
    def at(cls, path: str | Path) -> Source:
        """Make the Source of a source archive of Linux, or of an unpacked folder. Raises NetreproError if absent."""
        found = Path(path)
        if not found.exists():
            raise NetreproError(f"no source of Linux: {path} is not there", "give a linux source archive or folder")
        return cls(_version(found.name.partition(".tar")[0]), found.name, found)

    @property
    def name(self) -> str:
        """Its version, in words."""
        return ".".join(map(str, self.version))


def recipe() -> Path:
    """Find the folder with configuration, patches and sources. Raises NetreproError where there is none."""
    with suppress(NetreproError):
        found = workbench_root() / "lib" / "kernel"
        if found.is_dir():
            return found
    found = Path(__file__).parents[3] / "kernel"
    if not found.is_dir():
        raise NetreproError("no folder lib/kernel, of which the virtual kernel is made", "work in a clone of netrepro")
    return found


def congestion_controls() -> set[str]:
    """Name the congestion controls that are built in, and those of lib/kernel/modules."""
    config = (recipe() / "config").read_text()
    built_in = {name.lower() for name in re.findall(r"^CONFIG_TCP_CONG_(\w+)=y", config, re.M)} - {"advanced"}
    return {"reno", *built_in, *_own_sources()}


def _own_sources() -> dict[str, Path]:
    """Map congestion control -> the file in lib/kernel/modules that registers it."""
    return {
        name: path
        for path in sorted((recipe() / "modules").glob("tcp_*.c"))
        for name in re.findall(r'(?:\.name = |CUBIC\()"(\w+)"', path.read_text())
    }


@functools.cache
def _recipe_key(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.relative_to(folder).parts[0] in ("config", "patches", "built_in"):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def cache() -> Path:
    """Return the folder where kernels are kept: netrepro/kernel in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "netrepro" / "kernel"


def kernel_path() -> Path:
    """Find the newest kernel that is built from the present recipe. Raises NetreproError where there is none."""
    ending = f"-{_recipe_key(recipe())}"
    try:
        built = [path for path in cache().glob(f"*{ending}/linux") if os.access(path, os.X_OK)]
    except OSError as error:  # a home that is another's
        raise NetreproError(f"no virtual kernel: {error}", "set XDG_CACHE_HOME to a folder of your own") from error
    if not built:
        raise NetreproError("the virtual kernel is not built", missing_for_build() or BUILD_HINT)
    return max(built, key=lambda path: _version(path.parent.name.removesuffix(ending)))


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def missing_for_build() -> str:
    """Name what a build lacks on this machine and how to get it, in one line; "" where nothing is missing."""
    if missing := _missing_tools():
        return missing
    if not sources():
        return f"no linux-source package of {_RANGE} is here or to be had by apt-get (sudo apt update)"
    return ""


def _missing_tools() -> str:
    packages = [package for program, package in TOOLS.items() if not shutil.which(program)]
    return f"install {', '.join(packages)} (sudo apt install {' '.join(packages)})" if packages else ""


def sources() -> list[Source]:
    """List the kernel sources that are here or that apt can fetch, newest first."""
    found = {}
    with suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(
            ["apt-cache", "pkgnames", "linux-source-"], capture_output=True, text=True, timeout=60, check=True
        )
        for package in listed.stdout.split():
            if re.fullmatch(r"linux-source-\d+\.\d+(\.\d+)?", package) and shutil.which("apt-get"):
                version = _version(package.removeprefix("linux-source-"))
                found[version[:2]] = Source(version, package)
    for archive in _archives():
        version = _version(archive.name.removeprefix("linux-source-").partition(".tar")[0])
        found[version[:2]] = Source(version, archive.name.partition(".tar")[0], archive)
    fits = [source for source in found.values() if OLDEST <= source.version[:2] <= NEWEST]
    return sorted(fits, key=lambda source: source.version, reverse=True)


def _archives() -> list[Path]:
    return [*Path("/usr/src").glob("linux-source-*.tar.*"), *Path("/usr/src").glob("*/linux-source-*.tar.*")]


def kernel_archive() -> Path:
    """Return the newest source archive on this machine, or where one would be."""
    return max(_archives(), key=lambda path: _version(path.name), default=Path("/usr/src/linux-source.tar.xz"))


def build_kernel(
    progress: Callable[[str, float], None] | None = None, source: Source | None = None, *, jobs: int | None = None
) -> Path:
    """Build the kernel if it is not there yet, and return its path.

    progress : called with what is done and the share of it that is over. source : which one to take; by default the
    kernel that is there, or the newest source. jobs : compilers at a time, one a processor by default.

    Raises NetreproError for what is missing, and with the last lines of what failed.
    """
    folder = recipe()
    if source is None:
        with suppress(NetreproError):
            return kernel_path()
    missing = _missing_tools() if source else missing_for_build()
    if missing:
        raise NetreproError("the virtual kernel cannot be built", missing)
    chosen = source or sources()[0]
    tell = progress or (lambda what, share: None)
    cache().mkdir(parents=True, exist_ok=True)
    with _alone(cache() / "lock"), tempfile.TemporaryDirectory(prefix="build-", dir=cache()) as build:
        if source is None:  # somebody else may have built it meanwhile
            with suppress(NetreproError):
                return kernel_path()
        tree = Path(build, "tree")
        _unpack(chosen, tree, tell)
        _prepare(folder, tree, tell)
        _compile(tree, tell, jobs or len(os.sched_getaffinity(0)))
        made = cache() / f"{_release(tree)}-{_recipe_key(folder)}"
        ready = Path(build, "ready")
        ready.mkdir()
        shutil.move(tree / "linux", ready / "linux")
        _keep_for_modules(tree, ready / "tree")
        shutil.rmtree(made, ignore_errors=True)
        ready.rename(made)
        tell("built", 1.0)
    return made / "linux"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unpack(source: Source, tree: Path, tell: Callable[[str, float], None]) -> None:
    archive = source.archive
    tree.mkdir()
    if archive is None:
        tell(f"fetching {source.package}", 0.0)
        folder = tree.parent / "package"
        folder.mkdir()
        folder.chmod(0o755)
        options = ["-o", "APT::Sandbox::User=root"] if os.getuid() == 0 else []
        _run(["apt-get", "download", "-qq", *options, source.package], folder, f"{source.package} cannot be fetched")
        (package,) = folder.glob("*.deb")
        _run(["dpkg-deb", "-x", str(package), "."], folder, f"{package.name} cannot be unpacked")
        package.unlink()
        archive = max(folder.rglob("linux-source-*.tar.*"), key=lambda path: path.stat().st_size)
    left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    if archive.is_dir():
        tell(f"copying {archive.name}", 0.02)
        left_out += [f"--exclude={pattern}" for pattern in _MADE]
        copied = tree.parent / "copied.tar"
        _run(["tar", "-cf", str(copied), *left_out, "./"], archive, f"{archive} cannot be copied")
        _run(["tar", "-xf", str(copied)], tree, f"{archive} cannot be copied")
        copied.unlink()
    else:
        tell(f"unpacking {archive.name}", 0.02)
        _run(["tar", "-xf", str(archive), "--strip-components=1", *left_out], tree, f"{archive} cannot be unpacked")
    if not (tree / "arch" / "um" / "Kconfig").is_file():
        raise NetreproError(f"{archive} holds no source of Linux", "give a linux source archive or folder")
    if not OLDEST <= _version(_release(tree))[:2] <= NEWEST:
        raise NetreproError(f"{archive} is Linux {_release(tree)}", f"give a source of {_RANGE}")


def _prepare(folder: Path, tree: Path, tell: Callable[[str, float], None]) -> None:
    tell("preparing", 0.06)
    version = _version(_release(tree))
    for path in sorted((folder / "patches").glob("*.patch")):
        before = re.search(r"\.before-([\d.]+)\.patch$", path.name)
        if before is None or version < _version(before[1]):
            _run(
                ["patch", "-p1", "--batch", "--forward", "-i", str(path)],
                tree,
                f"{path.name} does not fit Linux {_release(tree)}",
            )
    own = tree / "drivers" / "netrepro"
    shutil.copytree(folder / "built_in", own)
    with (tree / "drivers" / "Makefile").open("a") as file:
        file.write("\nobj-y += netrepro/\n")
    make = ["make", "-s", "ARCH=um"]
    _run([*make, "allnoconfig"], tree, "the configuration cannot be made")
    with (tree / ".config").open("a") as file:
        file.write((folder / "config").read_text())
    _run([*make, "olddefconfig"], tree, "the configuration cannot be made")
    chosen = (tree / ".config").read_text().splitlines()
    for name in _NEEDED:
        if f"CONFIG_{name}=y" not in chosen:
            raise NetreproError(f"Linux {_release(tree)} does not take CONFIG_{name}", "give another source")


def _release(tree: Path) -> str:
    text = (tree / "Makefile").read_text()
    found = [re.search(rf"^{name} = (\d+)", text, re.M) for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    return ".".join(each[1] for each in found if each)


def _compile(tree: Path, tell: Callable[[str, float], None], jobs: int) -> None:
    # The time of the build is part of the kernel's name; the same recipe should make the same kernel.
    stamps = {"KBUILD_BUILD_TIMESTAMP": "2001-09-09", "KBUILD_BUILD_USER": "netrepro", "KBUILD_BUILD_HOST": "netrepro"}
    command = ["make", "ARCH=um", f"-j{jobs}", "linux"]
    with subprocess.Popen(
        command,
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | stamps,
    ) as made:
        lines: list[str] = []
        assert made.stdout
        for line in made.stdout:
            lines.append(line)
            tell("compiling", 0.08 + 0.9 * min(len(lines) / _EXPECTED_LINES, 1.0))
    if made.returncode:
        wrong = [line for line in lines if "rror" in line][-5:] or lines[-5:]
        raise NetreproError("the virtual kernel does not compile:\n" + "".join(wrong), "report it, with these lines")
    _run(["make", "-s", "ARCH=um", "modules_prepare"], tree, "modules cannot be prepared")
    _run(["strip", "--strip-debug", "linux"], tree, "the kernel cannot be stripped")


# Of the source, what a module is compiled against.
_KEPT = ("Makefile", "Kbuild", "Kconfig", ".config", "include", "scripts", "arch/um", "arch/x86")
_KEPT_OF = ("arch/um", "arch/x86")  # headers, and what make itself reads


def _keep_for_modules(tree: Path, kept: Path) -> None:
    for name in _KEPT:
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(tree / name, kept / name)
    shutil.move(tree / "vmlinux.symvers", kept / "Module.symvers")
    for name in _KEPT_OF:
        for path in (kept / name).rglob("*"):
            if path.suffix in (".c", ".o", ".S", ".cmd", ".a") and path.is_file():
                path.unlink()


def build_module(source: str | Path) -> Path:
    """Build a module of the virtual kernel from one file of C or its text; it is kept beside the kernel for reuse.

    Raises NetreproError with the compiler's complaints and their lines, and where there is no kernel.
    """
    text = source.read_text() if isinstance(source, Path) else source
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    name = source.stem if isinstance(source, Path) else f"own_{key}"  # the kernel knows modules by their names
    home = kernel_path().parent
    made = home / "modules" / key / f"{name}.ko"
    if made.exists():
        return made
    if not (home / "tree").is_dir():
        raise NetreproError("this virtual kernel was kept without what modules are compiled against", BUILD_HINT)
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="netrepro-module-") as folder:
        Path(folder, f"{name}.c").write_text(text)
        Path(folder, "Makefile").write_text(f"obj-m += {name}.o\n")
        done = subprocess.run(
            ["make", "-s", "-C", str(home / "tree"), "ARCH=um", f"M={folder}", "modules"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            said = [line.replace(f"{folder}/", "") for line in done.stderr.splitlines()]
            wrong = [line for line in said if re.match(rf"{re.escape(name)}\.c:\d+", line)] or said[-5:]
            raise NetreproError(f"{name}.c does not compile:\n" + "\n".join(wrong), "mend these lines")
        part = made.with_name(f"{name}-{os.getpid()}.part")
        shutil.move(Path(folder, made.name), part)
        part.rename(made)
    return made


def modules_for(names: Iterable[str], given: Mapping[str, str | Path]) -> list[Path]:
    """Build the modules of congestion controls that are not built in: `given` (name -> source), else our own."""
    sources = {**_own_sources(), **given}
    wanted = dict.fromkeys(sources[name] for name in sorted(set(names)) if name in sources)
    return [build_module(source) for source in wanted]


def _run(command: list[str], folder: Path, problem: str) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
    )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise NetreproError(f"{problem}: {last}", f"the command was: {' '.join(command)}")
