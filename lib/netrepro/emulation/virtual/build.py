"""Build the kernel in virtual time from one version of Debian's source, into the user's cache and without root.

It fetches what is missing: the source, and tools for the build (packages.py). The recipe is in lib/kernel.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from netrepro.emulation.virtual.kernel import cache, kernel_path, recipe, recipe_key
from netrepro.emulation.virtual.packages import can_fetch, fetch_package, fetch_programs
from netrepro.errors import NetreproError
from netrepro.files import file_sha256, remove

# The reference: the version with which the tier's published results and the tests are made.
REFERENCE = "6.12.117"
SERIES = "6.12"  # the series for which patches and sources are written
_PACKAGE, _PACKAGE_VERSION = "linux-source-6.12", "6.12.117-1~deb12u1"
_FILE = f"{_PACKAGE}_{_PACKAGE_VERSION}_all.deb"
_SHA256 = "e849faf31ca3555757f3a8877cb01af92122f744f75d1f3102734651c4e14703"
_URLS = (
    f"http://deb.debian.org/debian-security/pool/updates/main/l/linux-6.12/{_FILE}",
    "https://snapshot.debian.org/file/221d82478a259628d6016602b619a484e71e9424",  # permanent; named by the SHA-1
)
COMPILER = {"gcc": "gcc", "make": "make"}  # program -> package; must be installed
FETCHED = {"flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch", "xz": "xz-utils"}
# Parts of the source that no build of this kernel reads; two thirds of its bytes.
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
# Files that are not source, in a folder in which a kernel was built before.
_MADE = ("*.o", "*.a", "*.cmd", "*.ko", "*.mod", "*/.config", "*/.git", "*/include/config", "*/include/generated")
_NEEDED = ("UML_TIME_TRAVEL_SUPPORT", "HOSTFS", "NET_NS", "VETH", "NET_SCHED")
_DRIVERS = ("tty", "char", "base", "net", "netrepro")  # in Linux's order; make would visit a hundred empty folders
_EXPECTED_LINES = 1350  # lines of make's output, for the progress
_LEFT_BY_BUILDS = ("build-*", "apt-*", "sources/apt-*")  # folders in the cache, of builds that are killed
Tell = Callable[[str, float], None]


def build_kernel(progress: Tell | None = None, source: str | Path | None = None, *, jobs: int | None = None) -> Path:
    """Build the kernel and return its path.

    progress : called with the present step, in words, and the share of the work that is done (0 to 1). source : an
    archive, Debian package or folder of Linux 6.12 to build from; None to keep an existing kernel, or else build the
    reference. jobs : number of parallel compilers; by default one for each processor.

    Raises NetreproError for tools or sources that are missing and cannot be fetched, and, with its last lines of
    output, for a step that fails.
    """
    folder = recipe()
    if source is None:
        with suppress(NetreproError):
            return kernel_path()
    elif not Path(source).exists():
        raise NetreproError(f"no source of Linux: {source} is not there", "give a linux source archive or folder")
    tell = progress or (lambda what, share: None)
    cache().mkdir(parents=True, exist_ok=True)
    with _alone(cache() / "lock"), tempfile.TemporaryDirectory(prefix="build-", dir=cache()) as build:
        for left in (path for pattern in _LEFT_BY_BUILDS for path in cache().glob(pattern)):
            if left != Path(build):  # of a build that was killed: another one would hold the lock
                remove(left)
        if source is None:  # another process may have built it meanwhile
            with suppress(NetreproError):
                return kernel_path()
        environment = _with_tools(tell)
        tree = Path(build, "tree")
        _unpack(Path(source).absolute() if source else reference(tell), tree, environment, tell)
        _prepare(folder, tree, environment, tell)
        _compile(tree, environment, tell, jobs or len(os.sched_getaffinity(0)))
        made = cache() / f"{_release(tree)}-{recipe_key(folder)}"
        ready = Path(build, "ready")
        ready.mkdir()
        shutil.move(tree / "linux", ready / "linux")
        _keep_for_modules(tree, ready / "tree")
        shutil.rmtree(made, ignore_errors=True)
        ready.rename(made)
        tell("built", 1.0)
    return made / "linux"


def reference(progress: Tell | None = None) -> Path:
    """Return the path of the package with the reference's source; fetch it once, and compare its hash each time.

    Raises NetreproError where it cannot be fetched.
    """
    package = cache() / "sources" / _FILE
    if not package.exists() or file_sha256(package) != _SHA256:
        if not can_fetch():
            raise NetreproError(
                f"the source of Linux {REFERENCE} is missing, and there is no apt to fetch it",
                f"give a source of Linux {SERIES}: netrepro kernel build --source PATH",
            )
        if progress:
            progress(f"fetching {_PACKAGE}", 0.01)
        fetch_package(_PACKAGE, _PACKAGE_VERSION, _URLS, _SHA256, package)
    return package


def _with_tools(tell: Tell) -> dict[str, str]:
    """Return environment variables for a build, with all tools in PATH; fetch missing tools."""
    missing = [program for program in COMPILER if not shutil.which(program)]
    if missing:
        raise NetreproError(f"{' and '.join(missing)}, which builds it, is missing", "install a C compiler and make")
    tools = cache() / "tools"
    path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{tools / 'bin'}"
    lacking = {program: package for program, package in FETCHED.items() if not shutil.which(program, path=path)}
    if lacking:
        names = ", ".join(lacking)
        if not can_fetch():
            raise NetreproError(f"{names} is missing, and there is no apt to fetch it", f"install {names}")
        tell(f"fetching {names}", 0.0)
        known = {program: FETCHED[program] for program in FETCHED if (tools / "bin" / program).exists()}
        fetch_programs(known | lacking, tools)
    return os.environ | {"PATH": path}


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold the lock of all builds. Programs of a build hold it, too: they may outlive one that is killed."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.set_inheritable(file.fileno(), True)
        yield


def _unpack(archive: Path, tree: Path, environment: dict[str, str], tell: Tell) -> None:
    name, folder = archive.name, tree.parent
    tell(f"unpacking {name}", 0.02)
    tree.mkdir()
    cannot = f"{archive} cannot be unpacked"
    if archive.suffix == ".deb":
        _run(["dpkg-deb", "-x", str(archive), "package"], folder, environment, cannot)
        inside = folder.glob("package/usr/src/**/linux-source-*.tar.*")
        archive = max(inside, key=lambda path: path.stat().st_size, default=archive)
    left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    if archive.is_dir():
        left_out += [f"--exclude={pattern}" for pattern in _MADE]
        copied = folder / "copied.tar"
        _run(["tar", "-cf", str(copied), *left_out, "./"], archive, environment, cannot)
        _run(["tar", "-xf", str(copied)], tree, environment, cannot)
        copied.unlink()
    else:
        _run(["tar", "-xf", str(archive), "--strip-components=1", *left_out], tree, environment, cannot)
    shutil.rmtree(folder / "package", ignore_errors=True)
    if not (tree / "arch" / "um" / "Kconfig").is_file():
        raise NetreproError(f"{name} holds no source of Linux", "give a linux source archive or folder")
    if not _release(tree).startswith(f"{SERIES}."):
        raise NetreproError(f"{name} is Linux {_release(tree)}", f"give a source of Linux {SERIES}")


def _prepare(folder: Path, tree: Path, environment: dict[str, str], tell: Tell) -> None:
    tell("preparing", 0.06)
    for path in sorted((folder / "patches").glob("*.patch")):
        problem = f"{path.name} does not fit Linux {_release(tree)}"
        _run(["patch", "-p1", "--batch", "--forward", "-i", str(path)], tree, environment, problem)
    shutil.copytree(folder / "built_in", tree / "drivers" / "netrepro")
    (tree / "drivers" / "Makefile").write_text(f"obj-y := {' '.join(f'{name}/' for name in _DRIVERS)}\n")
    make = ["make", "-s", "ARCH=um"]
    _run([*make, "allnoconfig"], tree, environment, "the configuration cannot be made")
    with (tree / ".config").open("a") as file:
        file.write((folder / "config").read_text())
    _run([*make, "olddefconfig"], tree, environment, "the configuration cannot be made")
    chosen = (tree / ".config").read_text().splitlines()
    for name in _NEEDED:
        if f"CONFIG_{name}=y" not in chosen:
            raise NetreproError(f"Linux {_release(tree)} does not take CONFIG_{name}", "give another source")


def _release(tree: Path) -> str:
    text = (tree / "Makefile").read_text()
    matches = [re.search(rf"^{name} = (\d+)", text, re.M) for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    return ".".join(each[1] for each in matches if each)


def _compile(tree: Path, environment: dict[str, str], tell: Tell, jobs: int) -> None:
    # Fixed stamps, because they become part of the kernel: the same recipe should make the same kernel.
    stamps = {"KBUILD_BUILD_TIMESTAMP": "2001-09-09", "KBUILD_BUILD_USER": "netrepro", "KBUILD_BUILD_HOST": "netrepro"}
    command = ["make", "ARCH=um", f"-j{jobs}", "linux"]
    with subprocess.Popen(
        command,
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment | stamps,
        close_fds=False,  # keeps the lock
    ) as made:
        lines: list[str] = []
        assert made.stdout
        for line in made.stdout:
            lines.append(line)
            tell("compiling", 0.08 + 0.9 * min(len(lines) / _EXPECTED_LINES, 1.0))
    if made.returncode:
        wrong = [line for line in lines if "rror" in line][-5:] or lines[-5:]
        raise NetreproError("the virtual kernel does not compile:\n" + "".join(wrong), "report it, with these lines")
    _run(["make", "-s", "ARCH=um", "modules_prepare"], tree, environment, "modules cannot be prepared")
    _run(["strip", "--strip-debug", "linux"], tree, environment, "the kernel cannot be stripped")


# Parts of the source against which modules are compiled.
_KEPT = ("Makefile", "Kbuild", "Kconfig", ".config", "include", "scripts", "arch/um", "arch/x86")
_KEPT_OF = ("arch/um", "arch/x86")  # here only headers and files that make reads
_NOT_KEPT = ("scripts/dtc", "scripts/dummy-tools", "include/dt-bindings", "include/drm", "include/media")


def _keep_for_modules(tree: Path, kept: Path) -> None:
    for name in _KEPT:
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(tree / name, kept / name)
    shutil.move(tree / "vmlinux.symvers", kept / "Module.symvers")
    for name in _KEPT_OF:
        for path in (kept / name).rglob("*"):
            if path.suffix in (".c", ".o", ".S", ".cmd", ".a") and path.is_file():
                path.unlink()
    for name in _NOT_KEPT:
        shutil.rmtree(kept / name, ignore_errors=True)


def _run(command: list[str], folder: Path, environment: dict[str, str], problem: str) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        close_fds=False,  # keeps the lock
    )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise NetreproError(f"{problem}: {last}", f"the command was: {' '.join(command)}")
