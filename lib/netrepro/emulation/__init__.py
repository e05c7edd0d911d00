"""Floor 2: networks of real kernels, in real time and in virtual time.

Start with emulate.py (chooses the kernel), network.py (the interface of a network on either kernel) and tiers.py (what
this machine supports). real_time/ uses the machine's own kernel, virtual/ a kernel in virtual time. Each has network.py
(programs), experiment.py (an Experiment's traffic) and recording.py (samples and packets of ports). Both share the
modules beside them: plan.py (from a topology to messages for a kernel), traffic.py, call.py (Python functions inside
nodes: call_guest.py tells their values, call_values.py reads them), check.py (whether a network does what it should),
live.py (packets for a viewer as they leave), fidelity.py (whether links behaved like links). overlay/ builds networks
of containers.
"""

from netrepro.emulation.call import Call
from netrepro.emulation.emulate import Emulation, emulate
from netrepro.emulation.network import Network, Node, Recording, RunningProgram
from netrepro.emulation.reachability import ping_all
from netrepro.emulation.virtual.programs import Program, run_programs

__all__ = [
    "Call",
    "Emulation",
    "Network",
    "Node",
    "Program",
    "Recording",
    "RunningProgram",
    "emulate",
    "ping_all",
    "run_programs",
]
