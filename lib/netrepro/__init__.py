"""netrepro: published network-systems results, run again."""

from typing import Any

from netrepro.errors import NetreproError

__all__ = ["NetreproError", "__version__"]


def __getattr__(name: str) -> Any:
    """Ask the installation for the version: in a file of the library, a release would change what measured it."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version(__name__)
