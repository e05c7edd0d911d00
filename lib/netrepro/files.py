"""Files and folders that appear whole or not at all, even while other processes write the same ones."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def unique_word() -> str:
    """Make a random word that no other process makes, on any machine; process ids are not unique enough."""
    return os.urandom(6).hex()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. It becomes `path` when the block ends well; otherwise it is removed.

    A reader sees the old file or the new one, never a part. Of two simultaneous writers, the last one wins.
    """
    partial = path.with_name(f".{path.name}.{unique_word()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, a text in UTF-8; see `whole_file`."""
    with whole_file(path) as partial:
        partial.write_bytes(content if isinstance(content, bytes) else content.encode())


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all in it, however deep; what cannot be removed stays.

    A folder in the folder is first moved to its top. So the depth costs no stack, no descriptors and no long path.
    """
    with suppress(OSError):
        path.unlink()
        return
    try:
        top = _opened(path)
    except OSError:
        return
    try:
        stays: set[str] = set()
        while names := set(_names(top)) - stays:
            for name in names:
                if not _is_removed(top, name):
                    stays.add(name)
    finally:
        os.close(top)
    with suppress(OSError):
        path.rmdir()


def _is_removed(top: int, name: str) -> bool:
    """Remove an entry of the open folder `top`, and move the folders in it to `top`; return whether it has gone."""
    with suppress(OSError):
        os.unlink(name, dir_fd=top)
        return True
    try:
        inner = _opened(name, top)
    except OSError:
        return False
    try:
        for each in _names(inner):
            try:
                os.unlink(each, dir_fd=inner)
            except OSError:
                with suppress(OSError):
                    os.close(_opened(each, inner))  # may be closed to its owner, too
                    os.rename(each, f"{unique_word()}-removed", src_dir_fd=inner, dst_dir_fd=top)
        os.rmdir(name, dir_fd=top)
        return True
    except OSError:
        return False
    finally:
        os.close(inner)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _opened(folder: Path | str, above: int | None = None) -> int:
    """Open a folder, also one that is closed to its owner, and not through a link. Raises OSError."""
    seen = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        with suppress(OSError):
            Path(f"/proc/self/fd/{seen}").chmod(0o700)
        return os.open(f"/proc/self/fd/{seen}", os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(seen)


def is_own(path: Path) -> bool:
    """Tell whether a file or folder belongs to the user, and is no link."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)


def replace_folder(new: Path, final: Path, aside: Path) -> None:
    """Rename the folder `new` to `final`. What had that name is moved to `aside` and then removed.

    Where several processes do the same at once, the last one wins.
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
            remove(aside)  # another process put its folder there meanwhile
    remove(aside)


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Hold a lock file while the block runs. The lock ends with the block or the process, however that ends.

    A process id says nothing about a process on another machine or in another namespace; a lock does.
    """
    while True:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o644)
        with suppress(OSError):  # a file system without locks: `left_behind` then says False
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                break
        os.close(descriptor)  # another process removed the file as left behind: make it again
    try:
        os.write(descriptor, socket.gethostname().encode())
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def left_behind(lock: Path) -> Iterator[bool]:
    """Yield True where nobody holds a lock file. Then nobody can take it in the block, which removes it at its end.

    A lock file of another machine counts as held: on some file systems, other machines do not see a lock.
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
