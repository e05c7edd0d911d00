"""Every path of the workbench, in one place."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path

from netrepro.errors import NetreproError

INSTALLED_DATA = Path(__file__).parent / "data"  # only in a package that is not editable (lib/CMakeLists.txt)


def workbench_root() -> Path:
    """Find the folder that holds notebooks/, data/ and figures/.

    NETREPRO_ROOT if set, else the nearest such folder at or above the working directory, else the checkout
    that an editable installation points into.

    A workbench is code that runs. On a shared machine, another user may have put one above the working directory, for
    example into /tmp. So the user has to own it, unless NETREPRO_ROOT names it or this library runs from it.

    Raises NetreproError when there is none, and when the nearest one belongs to another user.
    """
    named, checkout = os.environ.get("NETREPRO_ROOT"), Path(__file__).parents[2]
    candidates = [Path(named)] if named else [Path.cwd(), *Path.cwd().parents, checkout]
    for folder in candidates:
        places = [folder, folder / "notebooks", folder / "data"]
        if all(place.is_dir() for place in places):
            if not named and not folder.samefile(checkout):
                _require_own(places)
            return folder.resolve()
    raise NetreproError(
        f"no workbench (a folder with notebooks/ and data/) at {candidates[0]} or above it",
        "change into a clone of netrepro, or set NETREPRO_ROOT to one",
    )


def _require_own(places: list[Path]) -> None:
    for place in places:
        if (owner := place.stat().st_uid) != os.geteuid():
            raise NetreproError(
                f"the workbench {places[0]} is another user's: {place} belongs to user {owner}",
                f"if you trust all who can write there, name it: NETREPRO_ROOT={shlex.quote(str(places[0]))}",
            )


def user_cache() -> Path:
    """Return the user's folder for caches: XDG_CACHE_HOME, else ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def notebooks_dir() -> Path:
    """Return the folder of the source notebooks, NN_<slug>.ipynb, without outputs."""
    return workbench_root() / "notebooks"


def all_data() -> Path:
    """Return the folder data/: the workbench's or, outside of one, that of the installed package."""
    try:
        return workbench_root() / "data"
    except NetreproError:
        if "NETREPRO_ROOT" in os.environ or not INSTALLED_DATA.is_dir():
            raise
        return INSTALLED_DATA


def slug_of(name: str) -> str:
    """Return the slug of a notebook that is named by its slug, its number and slug, or its file.

    >>> slug_of("14_dctcp"), slug_of("notebooks/14_dctcp.ipynb"), slug_of("dctcp")
    ('dctcp', 'dctcp', 'dctcp')
    """
    return re.sub(r"^\d\d_(?=.)", "", Path(name).stem if name.endswith(".ipynb") else name)


def data_dir(slug: str) -> Path:
    """Return the folder with a paper's claims.yaml, small inputs and SOURCES.md."""
    return all_data() / slug_of(slug)


def figures_dir(slug: str) -> Path:
    """Return the folder with a paper's published figures and results.json."""
    return workbench_root() / "figures" / slug_of(slug)


def runs_dir() -> Path:
    """Return the folder of executed notebooks, logs, manifests; git-ignored."""
    return workbench_root() / "runs"


def check_writable(folder: Path) -> None:
    """Check that files can be written in a folder or, if it does not exist yet, in the nearest one above it.

    The test file is removed. Raises NetreproError where files cannot be written.
    """
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    probe = nearest / f".writable-{os.urandom(6).hex()}"
    try:
        probe.write_text("netrepro")
    except OSError as error:
        raise NetreproError(f"cannot write to {folder}: {error.strerror}", "free it or choose another folder") from None
    finally:
        with suppress(OSError):  # on a full disk there is an empty one
            probe.unlink()
