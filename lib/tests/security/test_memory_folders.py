"""What other users may plant among the folders of the virtual kernel's memory, and must not stop or cost anybody."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from deep_folders import make_deep

from netrepro.emulation.virtual import instance

ANOTHER = 12345
NOBODY = 2**22 + 1  # above every process's number


@pytest.fixture
def home(monkeypatch) -> Iterator[Path]:
    """A folder for memory of this test alone."""
    with tempfile.TemporaryDirectory(dir=instance.folder_for_memory()) as folder:
        monkeypatch.setattr(instance, "folder_for_memory", lambda: folder)
        yield Path(folder)


def sweep() -> None:
    folder, descriptor = instance._own_folder()
    os.close(descriptor)
    Path(folder).rmdir()


def test_only_a_folder_is_swept(home):
    """A pipe would keep whoever opens it, a link leads elsewhere."""
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.txt").write_text("work of years")
    pipe, link, file, own = (home / f"netrepro-virtual-{NOBODY}-{name}" for name in ("pipe", "link", "file", "own"))
    os.mkfifo(pipe)
    link.symlink_to(elsewhere)
    file.write_text("")
    own.mkdir()
    sweep()
    assert not own.exists() and pipe.exists() and link.is_symlink() and file.exists()
    assert (elsewhere / "kept.txt").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_deep_folder_of_another_user_stops_nobody_and_stays(home):
    planted = home / f"netrepro-virtual-{NOBODY}-deep"
    planted.mkdir()
    os.chown(planted, ANOTHER, ANOTHER)
    make_deep(planted, 3000)
    try:
        sweep()
        assert (planted / "deep/deep").is_dir()
    finally:
        subprocess.run(["rm", "-r", planted], check=True)
