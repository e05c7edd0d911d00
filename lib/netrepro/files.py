"""Files and folders that appear whole or not at all, whoever else writes beside them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def unique_word() -> str:
    """Make a word that no other process makes, of this machine or another: process ids are no such word."""
    return os.urandom(6).hex()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all in it; what cannot be removed stays."""
    try:
        path.unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def replace_folder(new: Path, final: Path, aside: Path) -> None:
    """Give a folder its final name in place of the folder or file that has it, which lies at `aside` for a moment.

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
            remove(aside)  # another's folder came in between
    remove(aside)


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Hold a lock file while the block runs; it goes with the block, or with its process, however that ends.

    Process ids tell nothing of a process on another machine or in another namespace; a lock does.
    """
    while True:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o644)
        with suppress(OSError):  # a file system without locks: nobody then takes us for dead
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                break
        os.close(descriptor)  # who removed it took it for left behind
    try:
        os.write(descriptor, socket.gethostname().encode())
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def left_behind(lock: Path) -> Iterator[bool]:
    """Say whether nobody holds a lock file; if so nobody can while the block runs, and it is removed after it.

    One of another machine counts as held: some file systems keep locks to the machine that took them.
    """
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        yield True
        return
    try:
        ours = lock.read_text() == socket.gethostname()
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        ours = False
    try:
        yield ours
        if ours:
            lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
