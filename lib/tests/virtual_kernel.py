"""What tests of the virtual kernel have in common."""

import os

import pytest

from netrepro.emulation.tiers import probe_tiers

_VIRTUAL = probe_tiers().virtual
# Programs inside load the core without what `make sanitize` preloads for one with sanitizers.
_WHY = "no virtual kernel: a core with sanitizers cannot be loaded in it" if "NETREPRO_CORE" in os.environ else ""
_WHY = _WHY or ("" if _VIRTUAL.available else f"no virtual kernel: {_VIRTUAL.why}")
needs_virtual = pytest.mark.skipif(bool(_WHY), reason=_WHY)
