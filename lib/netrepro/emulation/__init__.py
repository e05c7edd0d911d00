"""Floor 2: networks of real kernels."""

from netrepro.emulation.emulate import BACKENDS, emulate
from netrepro.emulation.fabric import Fabric, GivenPath
from netrepro.emulation.guests import Call, Guest
from netrepro.emulation.network import Emulation, Node

__all__ = ["BACKENDS", "Call", "Emulation", "Fabric", "GivenPath", "Guest", "Node", "emulate"]
