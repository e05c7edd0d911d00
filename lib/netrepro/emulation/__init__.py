"""Floor 2: networks of real kernels, in real time and in virtual time."""

from netrepro.emulation.emulate import emulate
from netrepro.emulation.reachability import ping_all
from netrepro.emulation.real_time.guests import Call, Guest
from netrepro.emulation.real_time.network import Emulation, Node
from netrepro.emulation.virtual.network import Event, Program, run_programs

__all__ = [
    "Call",
    "Emulation",
    "Event",
    "Guest",
    "Node",
    "Program",
    "emulate",
    "ping_all",
    "run_programs",
]
