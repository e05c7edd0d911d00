"""Floor 2: networks of real kernels, in real time and in virtual time.

Open emulate.py for how a kernel is chosen, network.py for what can be done in a network on each of them, tiers.py for
what this machine has. real_time/ is the machine's own kernel and virtual/ the one in virtual time; each has network.py
(programs), experiment.py (an Experiment's traffic) and recording.py (ports under observation). What both share stands
beside them: plan.py (from a topology to messages for a kernel), traffic.py, call.py (Python functions inside nodes),
check.py (whether a network does what it should), live.py (packets for a viewer as they leave), fidelity.py (whether
links behaved like links). overlay/ is networks of containers.
"""

from netrepro.emulation.call import Call
from netrepro.emulation.emulate import Emulation, emulate
from netrepro.emulation.network import Network, Node, Recording, RunningProgram
from netrepro.emulation.reachability import ping_all
from netrepro.emulation.virtual.programs import Event, Program, run_programs

__all__ = [
    "Call",
    "Emulation",
    "Event",
    "Network",
    "Node",
    "Program",
    "Recording",
    "RunningProgram",
    "emulate",
    "ping_all",
    "run_programs",
]
