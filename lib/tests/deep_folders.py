"""Folders in folders, deeper than a path may be long or a function may recurse."""

from __future__ import annotations

import os
from pathlib import Path


def make_deep(top: Path, depth: int) -> None:
    """Make deep/deep/deep/… in a folder."""
    deepest = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deep", dir_fd=deepest)
        above, deepest = deepest, os.open("deep", os.O_RDONLY, dir_fd=deepest)
        os.close(above)
    os.close(deepest)
