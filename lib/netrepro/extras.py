"""The extras of the installation: `pip install netrepro` brings the base, `pip install 'netrepro[ml]'` adds one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from netrepro.errors import NetreproError

EXTRA_OF = {
    "sklearn": "ml",
    "nfstream": "ml",
    "z3": "verification",
    "pysat": "verification",
    "torch": "neural",
    **dict.fromkeys(("dask", "distributed", "ipykernel", "ipywidgets", "IPython", "itables", "joblib"), "notebooks"),
    **dict.fromkeys(("jinja2", "jupyter_client", "jupyterlab", "matplotlib", "nbclient", "nbformat"), "notebooks"),
    **dict.fromkeys(("papermill", "scapy", "seaborn", "tqdm"), "notebooks"),
}


def what_is_missing(error: ModuleNotFoundError) -> NetreproError | None:
    """Return the error that names the extra to install; None where no extra has the module."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(package)
    if extra is None:
        return None
    return NetreproError(f"{package} is not installed", f"pip install 'netrepro[{extra}]'")


def absent(error: ModuleNotFoundError, package: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package whose names need an extra that is not installed.

    For a name in `__all__`, it raises the error that names the extra. Raises `error` again where no extra has the
    missing module.
    """
    missing = what_is_missing(error)
    if missing is None:
        raise error

    def refuse(name: str) -> Any:
        if name in sys.modules[package].__all__:
            raise missing
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return refuse
