"""What a datagram costs on its way out of a Linux host, depending on what its interface does with it.

The interface is an IFB without a partner, which frees every packet it gets. So only the sender works, and its processor
time is the whole cost. A packet can end before the classifier (queue `blackhole`), in a class, or behind a queue
without or with a rate (pfifo, TBF). The first or the last of many u32 rules leads to the class. A delay is not among
the cases: packets held back by netem leave in a timer, and its work is not charged to any sender.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import pandas as pd

from netrepro.emulation import messages
from netrepro.emulation.real_time.network import RealTimeNetwork
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.topology import Cable, Topology

ROOT, CLASS, LEAF, ROOT_PARENT = 0x10000, 0x10001, 0x20000, 0xFFFFFFFF
PAYLOAD_BYTES = 18  # 46 bytes with IPv4 and UDP headers, like the engine's datagrams
NETWORK, OWN_PORT, FAR_PORT = "198.51.100", 4000, 5000
CASES = ("A", "B", "B100", "99 rules behind", "C0", "Cr")


def time_kernel(
    tier: str, batches: int, batch_packets: int = 1000, *, cases: Sequence[str] = CASES, repetitions: int = 1
) -> pd.DataFrame:
    """Send batches of smallest datagrams through the cases in turn. Each case has its own interface in one host.

    After a batch comes one of the next case, so that a longer disturbance of the machine affects all cases alike. Each
    round begins with another case.

    Returns case, repetition, batch, wall_ns and processor_ns in the order of sending. The times are per packet;
    processor_ns is the sending thread's, including the softirqs that it runs. Raises NetreproError for the simulated
    tier, and where the kernel lacks a queue, u32 or IFB.
    """
    work = [
        (repetition, batch, (repetition * batches + batch + place) % len(cases))
        for repetition in range(repetitions)
        for batch in range(batches)
        for place in range(len(cases))
    ]
    with RealTimeNetwork(Topology((Cable("h1", "h2", Link(100.0, 0.0)),)), tier=tier) as net:
        times = net["h1"].python(_time_cases, tuple(cases), [place for *_, place in work], batch_packets)
    table = pd.DataFrame([(cases[place], repetition, batch) for repetition, batch, place in work])
    table.columns = ["case", "repetition", "batch"]
    return table.join(pd.DataFrame(times[:, :2] / batch_packets, columns=["wall_ns", "processor_ns"]))


def _time_cases(cases: Sequence[str], order: Sequence[int], batch_packets: int) -> np.ndarray:
    """Time a batch of each case in `order` (indices into `cases`). Runs in a node."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    from netrepro import _core

    with IPRoute() as kernel, ExitStack() as opened:
        try:
            senders = [opened.enter_context(_open_sender(kernel, place, case)) for place, case in enumerate(cases)]
            for sender in senders:
                _core.send_datagrams(sender.fileno(), 5, batch_packets, PAYLOAD_BYTES)
            times = [
                _core.send_datagrams(senders[place].fileno(), 1, batch_packets, PAYLOAD_BYTES)[0] for place in order
            ]
        except (NetlinkError, OSError) as error:
            raise NetreproError(
                f"this kernel cannot measure its packets: {error}", "needs ifb, htb, tbf, pfifo, blackhole and u32"
            ) from None
    return np.array(times)


def _open_sender(kernel, place: int, case: str) -> socket.socket:
    """Open a socket whose datagrams leave by their own interface (sink0 for place 0), set up for the case."""
    own, far = (f"{NETWORK}.{16 * place + host}" for host in (1, 2))
    kernel.link("add", ifname=f"sink{place}", kind="ifb")
    index = kernel.link_lookup(ifname=f"sink{place}")[0]
    kernel.link("set", index=index, state="up", arp=False)
    kernel.addr("add", index=index, address=own, prefixlen=28)
    _make_queue(kernel, index, case)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((own, OWN_PORT))
    sender.connect((far, FAR_PORT))
    return sender


def _make_queue(kernel, index: int, case: str) -> None:
    if case == "A":
        kernel.tc("add", "blackhole", index, ROOT)
    elif case == "C0":
        kernel.tc("add", "pfifo", index, ROOT, limit=1000)
    elif case == "Cr":
        # Never reached, so that no packet waits for a timer, whose work the sender would not be charged for.
        kernel.tc("add", "tbf", index, ROOT, rate="20gbit", burst=1 << 20, limit=1 << 20)
    else:
        kernel.tc("add", "htb", index, ROOT)
        kernel.tc("add-class", "htb", index, CLASS, parent=ROOT, rate="10gbit")
        _ask(messages.new_queue(index, LEAF, CLASS, "blackhole"))  # pyroute2 would make it the root
        others, own = [6000 + number for number in range(99)], [FAR_PORT]
        ports = {"B": own, "B100": others + own, "99 rules behind": own + others}[case]
        for port in ports:
            key = f"0x{OWN_PORT:04x}{port:04x}/0xffffffff+20"
            kernel.tc("add-filter", "u32", index, parent=ROOT, prio=1, protocol=0x0800, target=CLASS, keys=[key])


def _ask(request: messages.NetlinkRequest) -> None:
    """Send one message and wait for the kernel's answer. Raises OSError when it refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.bind((0, 0))
        ((buffer, _),) = messages.batches([request])
        netlink.send(buffer)
        number = struct.unpack_from("=i", netlink.recv(1 << 16), 16)[0]
        if number:
            raise OSError(-number, request.purpose)
