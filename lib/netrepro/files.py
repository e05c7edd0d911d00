"""Files and folders that appear whole or not at all, whoever else writes beside them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def unique_word() -> str:
    """Make a word that no other process makes, of this machine or another: process ids are no such word."""
    return os.urandom(6).hex()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path to write to, which becomes `path` when the block ends well and is removed when it does not.

    A reader sees the old file or the new one, never half; of two writers at once the last one stays.
    """
    partial = path.with_name(f".{path.name}.{unique_word()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write a text file whole or not at all; see `whole_file`."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def replace_folder(new: Path, final: Path, aside: Path) -> None:
    """Give a folder its final name in place of the folder that has it, which lies at `aside` for a moment.

    Where others do the same at once, the last one stays.
    """
    while True:
        with suppress(FileNotFoundError):
            final.rename(aside)
        try:
            new.rename(final)
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                if aside.exists():
                    aside.rename(final)
                raise
            shutil.rmtree(aside, ignore_errors=True)  # another's folder came in between
    shutil.rmtree(aside, ignore_errors=True)
