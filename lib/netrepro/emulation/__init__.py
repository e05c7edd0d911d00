"""Floor 2: networks of real kernels."""

from netrepro.emulation.emulate import emulate
from netrepro.emulation.guests import Call, Guest
from netrepro.emulation.network import Emulation, Node

__all__ = ["Call", "Emulation", "Guest", "Node", "emulate"]
