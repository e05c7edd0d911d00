"""The identity of the code: hashes that results record, and that machines compare before they share work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import netrepro._core as _core
from netrepro.errors import NetreproError
from netrepro.files import file_sha256
from netrepro.paths import workbench_root

PACKAGE = Path(__file__).parent
LETTERS = 16  # of a hash, which is enough to tell code apart


def code_hash(package: Path = PACKAGE) -> str:
    """Hash the library's modules on disk together with the stamp of the core that this process has loaded."""
    words = f"{_hash_files(package, package.rglob('*.py'))} {core_stamp()}"
    return hashlib.sha256(words.encode()).hexdigest()[:LETTERS]


def core_stamp() -> str:
    """Return the hash of the sources that the core was built from; "" where it was built without a stamp."""
    return getattr(_core, "build_stamp", "")


def source_stamp(library: Path) -> str:
    """Hash the core's sources in a checkout's lib/, as core/build_stamp.cmake does when it is built."""
    sources = [path for path in (library / "core").rglob("*") if path.suffix in (".cpp", ".hpp")]
    return _hash_files(library, [library / "CMakeLists.txt", *sources])


def check_code() -> None:
    """Check that this process runs the code of the checkout which its results will name.

    Raises NetreproError where the checkout holds other modules than those imported, as with two clones and one
    environment, and where the core was built from other sources.
    """
    library = workbench_root() / "lib"
    modules = library / "netrepro"
    if (modules / "__init__.py").exists() and not modules.samefile(PACKAGE) and code_hash(modules) != code_hash():
        raise NetreproError(
            f"{library.parent} holds another library than the one that runs, {PACKAGE}",
            f"make setup in {library.parent}, then use its .venv/bin/netrepro",
        )
    built_from = next((each for each in (library, PACKAGE.parent) if (each / "core").is_dir()), None)
    if built_from is not None and source_stamp(built_from) != core_stamp():
        raise NetreproError(f"the core was built from other sources than {built_from / 'core'}", "make setup")


def _hash_files(folder: Path, paths: Iterable[Path]) -> str:
    names = sorted((path.relative_to(folder).as_posix(), path) for path in paths)
    lines = [f"{file_sha256(path)}  {name}\n" for name, path in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
