"""The place of the kernel in virtual time, and the modules that are built for it (build.py builds the kernel itself).

Its recipe is lib/kernel (GPL-2.0-only): a configuration, patches, and sources that are built in.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from netrepro.errors import NetreproError
from netrepro.paths import user_cache, workbench_root

BUILD_HINT = "run `netrepro kernel build` once (about four minutes)"


def recipe() -> Path:
    """Return the folder with configuration, patches and sources, of a checkout or of the package netrepro-kernel.

    Raises NetreproError where there is no such folder.
    """
    places = [Path(__file__).parents[3] / "kernel", *_packaged()]
    with suppress(NetreproError):
        places.insert(0, workbench_root() / "lib" / "kernel")
    for folder in places:
        if (folder / "config").is_file():
            return folder
    raise NetreproError("what the virtual kernel is made of is not here", "install netrepro-kernel, or work in a clone")


def _packaged() -> list[Path]:
    """Return the folders of the package netrepro-kernel: none if it is not installed."""
    package = importlib.util.find_spec("netrepro_kernel")
    return [Path(folder) for folder in package.submodule_search_locations or []] if package else []


def congestion_controls() -> set[str]:
    """Return the names of the congestion controls that are built in, and of those in lib/kernel/modules."""
    config = (recipe() / "config").read_text()
    built_in = {name.lower() for name in re.findall(r"^CONFIG_TCP_CONG_(\w+)=y", config, re.M)} - {"advanced"}
    return {"reno", *built_in, *_own_sources("tcp")}


# First word of a module's file -> how its source names what it registers: congestion controls, queues.
_REGISTERS = {"tcp": re.compile(r'(?:\.name = |CUBIC\()"(\w+)"'), "sch": re.compile(r'\.id = "(\w+)"')}


def _own_sources(*kinds: str) -> dict[str, Path]:
    """Map congestion control (kind "tcp") or queue ("sch") -> the file in lib/kernel/modules that registers it."""
    return {
        name: path
        for kind in kinds
        for path in sorted((recipe() / "modules").glob(f"{kind}_*.c"))
        for name in _REGISTERS[kind].findall(path.read_text())
    }


@functools.cache
def recipe_key(folder: Path) -> str:
    """Return a hash of the recipe (configuration, patches, built-in sources), which names kernels built from it."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.relative_to(folder).parts[0] in ("config", "patches", "built_in"):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def cache() -> Path:
    """Return the folder of built kernels: netrepro/kernel in the user's cache."""
    return user_cache() / "netrepro" / "kernel"


def kernel_path() -> Path:
    """Return the path of the newest kernel that is built from the present recipe.

    Raises NetreproError where there is none.
    """
    ending = f"-{recipe_key(recipe())}"
    homes = [cache(), *(folder / "built" for folder in _packaged())]
    try:
        built = [path for home in homes for path in home.glob(f"*{ending}/linux") if os.access(path, os.X_OK)]
    except OSError as error:  # the folder belongs to another user
        raise NetreproError(f"no virtual kernel: {error}", "set XDG_CACHE_HOME to a folder of your own") from error
    if not built:
        raise NetreproError("the virtual kernel is not built", BUILD_HINT)
    return max(built, key=lambda path: _version(path.parent.name.removesuffix(ending)))


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def build_module(source: str | Path) -> Path:
    """Build a module of the virtual kernel and return its path; it stays in the cache for reuse.

    source : one file of C, or its text. Raises NetreproError with the compiler's messages where it does not compile,
    and where the kernel, its headers, gcc or make are missing.
    """
    text = source.read_text() if isinstance(source, Path) else source
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    name = source.stem if isinstance(source, Path) else f"own_{key}"  # modules need different names in the kernel
    home = kernel_path().parent
    made = cache() / home.name / "modules" / key / f"{name}.ko"
    if made.exists():
        return made
    if not (home / "tree").is_dir():
        raise NetreproError("this virtual kernel was kept without what modules are compiled against", BUILD_HINT)
    if missing := [program for program in ("gcc", "make") if not shutil.which(program)]:
        raise NetreproError(f"{name} is to be compiled, and {' and '.join(missing)} is missing", "install them")
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
    """Build the modules that `names` need; return their paths.

    given : name -> source, used before the sources in lib/kernel/modules. Names without a source need no module.
    """
    sources = {**_own_sources(*_REGISTERS), **given}
    wanted = dict.fromkeys(sources[name] for name in sorted(set(names)) if name in sources)
    return [build_module(source) for source in wanted]
