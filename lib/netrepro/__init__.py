"""netrepro: published network-systems results, run again."""

from typing import Any

from netrepro.errors import NetreproError

__all__ = ["NetreproError", "__version__"]


def __getattr__(name: str) -> Any:
    """Return the version from the installed metadata. In a library file, it would change the code hash."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version(__name__)
