"""The build of wheels and source archives: scikit-build-core's, with the checkout's data in the archive.

It lies beside this folder, where a source archive cannot reach; it gets a copy.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403

HERE = Path(__file__).parent
BESIDE = ("data",)


def build_sdist(directory: str, settings: dict[str, list[str] | str] | None = None) -> str:
    """Build a source archive from which the whole library can be built."""
    copied = [name for name in BESIDE if not (HERE / name).exists()]
    try:
        for name in copied:
            source = HERE.parent / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, HERE / name)
        return build.build_sdist(directory, settings)
    finally:
        for name in copied:
            path = HERE / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
