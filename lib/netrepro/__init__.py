"""netrepro: published network-systems results, run again."""

from netrepro.errors import NetreproError

__version__ = "0.1.0"
__all__ = ["NetreproError", "__version__"]
