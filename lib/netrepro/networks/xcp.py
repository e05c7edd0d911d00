"""The explicit control protocol (XCP): the parameters by which routers change the windows of flows."""

from __future__ import annotations

from dataclasses import dataclass

from netrepro.networks.description import NotNegative, check_numbers, described


@described
@dataclass(frozen=True)
class Xcp:
    """The computation by which every link changes the windows of flows with `congestion_control="xcp"`.

    Once in the mean round trip d that packets report, a link lets all windows together change by
    alpha d (C - y) - beta Q bytes: C the link's rate, y the traffic that came, Q the least queue of the last round trip
    without its own share of it. It gives more to all flows alike and takes in proportion to what each sends. `gamma` is
    the share of the traffic that is taken from flows and given to others, where the total changes by less, so that they
    become equal. Each packet carries its part of the change to its receiver, and the acknowledgement back (Katabi,
    Handley and Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks", SIGCOMM 2002, section 3.5, which
    has these defaults). Senders have no slow start. Like the authors' program for ns-2, a sender with less than a
    window of data asks for no more.

    A link tells a packet its part when the packet comes, not when it leaves. With all three 0, windows stay as they
    begin.
    """

    alpha: NotNegative = 0.4
    beta: NotNegative = 0.226
    gamma: NotNegative = 0.1

    def __post_init__(self) -> None:
        check_numbers(self)
