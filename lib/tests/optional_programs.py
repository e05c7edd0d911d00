"""What tests have in common that start programs which a machine may lack."""

import os
from pathlib import Path

import pytest

from netrepro.programs import why_missing


def needs_programs(*names: str) -> pytest.MarkDecorator:
    """Skip a test where one of these programs is missing."""
    return pytest.mark.skipif(bool(why_missing(*names)), reason=why_missing(*names))


def linked_programs(folder: Path) -> Path:
    """Fill a new folder with links to all programs in PATH and in each `sbin` beside it: a PATH that can lack one."""
    folder.mkdir(parents=True)
    for directory in [each for path in os.get_exec_path() for each in (path, f"{path[:-3]}sbin")]:
        for program in Path(directory).glob("*"):
            if not os.path.lexists(folder / program.name):
                (folder / program.name).symlink_to(program)
    return folder
