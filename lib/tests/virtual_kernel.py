"""What tests of the virtual kernel have in common."""

import pytest

from netrepro.emulation.tiers import probe_tiers

_VIRTUAL = probe_tiers().virtual
needs_virtual = pytest.mark.skipif(not _VIRTUAL.available, reason=f"no virtual kernel: {_VIRTUAL.why}")
