"""What a datagram costs on its way out of a Linux host, by what its interface does with it.

The interface is an IFB without a partner, which frees what it is given: nothing but the sender works, and its
processor time is the whole cost. A packet can end before the classifier (queue `blackhole`), in a class that the
first, or the last of many, u32 rules leads to, or behind a queue without and with a rate (pfifo, TBF).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from netrepro.emulation import messages
from netrepro.emulation.network import Emulation
from netrepro.errors import NetreproError
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import Cable, Topology

ROOT, CLASS, LEAF, ROOT_PARENT = 0x10000, 0x10001, 0x20000, 0xFFFFFFFF
PAYLOAD_BYTES = 18  # with IPv4 and UDP headers 46 bytes, as the engine's datagrams
SINK, OWN_ADDRESS, FAR_ADDRESS, OWN_PORT, FAR_PORT = "sink0", "198.51.100.1", "198.51.100.2", 4000, 5000
CASES = ("A", "B", "B100", "99 rules behind", "C0", "Cr")


def time_kernel(
    tier: str, batches: int, batch_packets: int = 1000, *, cases: Sequence[str] = CASES, repetitions: int = 1
) -> pd.DataFrame:
    """Send batches of smallest datagrams through each case, in a host of its own; each repetition begins with another.

    Returns case, repetition, batch, wall_ns and processor_ns a packet (of the sending thread, softirqs it runs
    included).
    Raises NetreproError for the simulated tier, and where the kernel lacks a queue, u32 or IFB.
    """
    work = [
        (repetition, cases[(repetition + place) % len(cases)])
        for repetition in range(repetitions)
        for place in range(len(cases))
    ]
    with Emulation(Topology((Cable("h1", "h2", Link(100.0, 0.0)),)), tier=tier) as net:
        found = net["h1"].python(_time_cases, [case for _, case in work], batches, batch_packets)
    parts = [
        _tidy(case, times, batch_packets).assign(repetition=repetition)
        for (repetition, case), times in zip(work, found, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def time_relay(
    tier: str,
    delay_ms: float,
    batches: int,
    batch_packets: int = 1000,
    packets_per_ms: int = 50,
    *,
    repetitions: int = 1,
) -> pd.DataFrame:
    """Send paced datagrams over an emulated link with a delay, and charge sender and relay.

    The link's queue and the far host's receiving run in the relay's time; the far socket drops what it gets.
    Returns case "Cd", repetition, batch, wall_ns (NaN: pacing), processor_ns a packet of both together. Raises
    NetreproError for the simulated tier, without a delay, where the kernel keeps no times of processes, and where
    packets were lost.
    """
    if delay_ms <= 0:
        raise NetreproError(f"delay_ms = {delay_ms}", "a relay serves links with a delay above 0")
    if not Path("/proc/self/schedstat").exists():
        raise NetreproError("this kernel keeps no times of processes (schedstat)", "use tier 'simulated'")
    link = Link(2000.0, delay_ms, DropTail(packets=10_000))
    with Emulation(Topology((Cable("h1", "h2", link),)), tier=tier) as net:
        assert net.relay
        with net["h2"].socket(kind=socket.SOCK_DGRAM) as receiver:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            receiver.bind(("0.0.0.0", FAR_PORT))
            pace, sent = (packets_per_ms, delay_ms * 1e-3), (1 + repetitions * batches) * batch_packets
            costs = net["h1"].python(
                _time_relay, net["h2"].address, net.relay.process, 1 + repetitions * batches, batch_packets, *pace
            )
        passed = net.relay.counters().set_index(["source", "destination"]).loc[("h1", "h2"), "forwarded_packets"]
    if passed < sent:
        raise NetreproError(f"of {sent} packets the relay passed on {passed}", "take fewer packets a millisecond")
    repetition, batch = np.divmod(np.arange(repetitions * batches), batches)
    costs_ns = {"wall_ns": np.nan, "processor_ns": costs[1:] / batch_packets}
    return pd.DataFrame({"case": "Cd", "repetition": repetition, "batch": batch, **costs_ns})


def _time_relay(
    address: str, relay: int, batches: int, packets: int, packets_per_ms: int, delay_s: float
) -> np.ndarray:
    """Processor nanoseconds of sender and relay, a batch each; in a node."""
    from netrepro import _core

    spent = Path(f"/proc/{relay}/schedstat")
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((address, FAR_PORT))
        for _ in range(batches):
            before, own = int(spent.read_text().split()[0]), 0
            for _ in range(0, packets, packets_per_ms):
                own += _core.send_datagrams(sender.fileno(), 1, packets_per_ms, PAYLOAD_BYTES)[0][1]
                time.sleep(1e-3)
            time.sleep(delay_s + 0.02)  # until the last has left
            found.append(own + int(spent.read_text().split()[0]) - before)
    return np.array(found)


def _tidy(case: str, times: np.ndarray, batch_packets: int) -> pd.DataFrame:
    table = pd.DataFrame(times[:, :2] / batch_packets, columns=["wall_ns", "processor_ns"])
    return table.rename_axis("batch").reset_index().assign(case=case)


def _time_cases(cases: Sequence[str], batches: int, batch_packets: int) -> list[np.ndarray]:
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    from netrepro import _core

    found = []
    with IPRoute() as kernel, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            kernel.link("add", ifname=SINK, kind="ifb")
            index = kernel.link_lookup(ifname=SINK)[0]
            kernel.link("set", index=index, state="up", arp=False)
            kernel.addr("add", index=index, address=OWN_ADDRESS, prefixlen=24)
            sender.bind((OWN_ADDRESS, OWN_PORT))
            sender.connect((FAR_ADDRESS, FAR_PORT))
            for case in cases:
                _make_queue(kernel, index, case)
                _core.send_datagrams(sender.fileno(), 5, batch_packets, PAYLOAD_BYTES)
                found.append(np.array(_core.send_datagrams(sender.fileno(), batches, batch_packets, PAYLOAD_BYTES)))
                kernel.tc("del", index=index, handle=0, parent=ROOT_PARENT)
        except (NetlinkError, OSError) as error:
            raise NetreproError(
                f"this kernel cannot measure its packets: {error}", "needs ifb, htb, tbf, pfifo, blackhole and u32"
            ) from None
    return found


def _make_queue(kernel, index: int, case: str) -> None:
    if case == "A":
        kernel.tc("add", "blackhole", index, ROOT)
    elif case == "C0":
        kernel.tc("add", "pfifo", index, ROOT, limit=1000)
    elif case == "Cr":
        # Never reached, so that no packet waits for a timer whose work the sender would not be charged.
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


def _ask(request: messages.Request) -> None:
    """Send one message and wait for the kernel's answer. Raises OSError when it refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.bind((0, 0))
        ((buffer, _),) = messages.batches([request])
        netlink.send(buffer)
        number = struct.unpack_from("=i", netlink.recv(1 << 16), 16)[0]
        if number:
            raise OSError(-number, request.purpose)
