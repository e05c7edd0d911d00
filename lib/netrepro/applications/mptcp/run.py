"""Running Linux's MPTCP in virtual time; the path manager is told when a network is lost, and when it is back.

guest.py is both ends of the stream, and `ip mptcp` on their hosts configures the path manager.

A phone does the same: it deletes the endpoint of the lost network, and adds it again later. The deletion ends the
endpoint's subflows at once, and the other subflows carry the data that these held.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from netrepro.applications.processes import lines_of, start_script
from netrepro.emulation.source_routes import connections
from netrepro.emulation.virtual.multipath import socket_kind_of_subflows, tell_path_managers
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks.experiment import Experiment
from netrepro.programs import need_program

GUEST = Path(__file__).with_name("guest.py")
PORT, ENDPOINT = 5000, "2"


def told_handover(experiment: Experiment) -> pd.DataFrame:
    """Run the experiment's only flow and return one row for each read of its receiver: time_s, delivered_bytes so far.

    At every link change of the experiment, the source's path manager is told at that moment that the first subflow's
    network is lost or back. Raises NetreproError as VirtualNetwork does, and if a program or `ip mptcp` fails.
    """
    (made,), (flow,) = connections(experiment), experiment.traffic
    tcp, seconds = experiment.tcp_of(flow), str(experiment.duration_s)
    control = experiment.flow_table["congestion_control"].iloc[0]
    buffer_bytes = socket_kind_of_subflows(tcp).receive_buffer_bytes // 2  # the kernel doubles the value
    with VirtualNetwork(
        experiment.topology,
        congestion_control="",
        seed=experiment.seed,
        tcp=experiment.tcp,
        paths=sorted(made.paths),
        syscall_cost_ns=0,
    ) as net:
        net.load_control(control)
        own, to = (str(net.plan.address_over(*end)) for end in ((made.back, made.opener), (made.there, made.accepter)))
        tell_path_managers(net.instance, net.plan, [made])
        source = net[made.opener]
        ip = need_program("ip")
        for host in (made.opener, made.accepter):
            net[host].run([ip, "mptcp", "limits", "set", "subflows", str(1 + len(made.further))])
        add = [ip, "mptcp", "endpoint", "add", own, "id", ENDPOINT, "subflow"]
        source.run(add)
        began_s = net.now_s
        receiver = start_script(net, made.accepter, GUEST, "receive", str(PORT), str(buffer_bytes), seconds)
        sender = start_script(net, made.opener, GUEST, "send", own, to, str(PORT), control, seconds)
        for change in experiment.changes:
            net.sleep(began_s + change.at_s - net.now_s)
            net.change_link(change.source, change.destination, up=change.up, both=change.both_directions)
            source.run(add if change.up else [ip, "mptcp", "endpoint", "delete", "id", ENDPOINT])
        (rows,) = lines_of(receiver, [sender])
    return pd.DataFrame(rows, columns=["time_s", "delivered_bytes"])
