"""Floor 2: networks of real kernels."""

from netrepro.emulation.emulate import check_backend, emulate
from netrepro.emulation.fabric import Fabric, GivenPath
from netrepro.emulation.guests import Call, Guest
from netrepro.emulation.network import Emulation, Node

__all__ = ["Call", "Emulation", "Fabric", "GivenPath", "Guest", "Node", "check_backend", "emulate"]
