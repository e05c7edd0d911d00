"""Delay, jitter, loss and reordering of links in real time: by the kernel's netem, where it has one.

Here netem acts as a wire, not as a buffer. It runs in the hub, between the two ends of a cable and behind the shaper,
so that it neither counts nor drops packets that wait in a queue. A packet from one end is redirected to the interface
that leads to the other end. There netem holds it for its delay and for its transmission time. With reordering netem
gets no rate, because it keeps the order of packets when it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from statistics import NormalDist

from netrepro.emulation import messages
from netrepro.emulation.messages import NetlinkRequest
from netrepro.errors import NetreproError
from netrepro.networks.links import Link

# From sch_netem.c: a table has 16384 numbers at most, in units of 1/8192 of the spread, and the spread is kept in 31
# bits of nanoseconds.
ONE, LONGEST_TABLE, MOST_SPREAD_MS = 8192, 16_384, 2000.0
BELL_PLACES = 4096  # as in the table that tc has for the same curve
INSTEAD = "use tier 'virtual', whose links are exact"


def check_netem(what: str, link: Link) -> None:
    """Raise NetreproError for settings of `link` that netem cannot reproduce; `what` names the link in errors."""
    if link.jitter_ms and link.reordering:
        problem = "jitter that keeps the order beside reordering, and netem does one of both"
    elif max(link.jitter_ms, link.reordering_ms if link.reordering else 0.0) > MOST_SPREAD_MS:
        problem = f"delays that vary by more than {MOST_SPREAD_MS:g} ms, and netem's cannot"
    elif link.reordering and not _share(link.reordering):
        problem = f"a reordering of {link.reordering:g}, and netem's least is 1 in {LONGEST_TABLE}"
    else:
        return
    raise NetreproError(f"{what}: {problem}", INSTEAD)


def redirection(from_index: int, to_index: int) -> list[NetlinkRequest]:
    """Make the messages that send every packet arriving at one interface out of the other."""
    return [
        messages.new_queue(from_index, 0xFFFF0000, 0xFFFFFFF1, "clsact"),
        messages.new_redirection(from_index, to_index),
    ]


def wire(index: int, link: Link, seed: int) -> NetlinkRequest:
    """Make the message that sets the link's rate, delay, jitter, loss and reordering.

    index : the hub's interface that leads to the link's end. seed : seed of netem's random numbers, which kernels
    before 6.6 choose themselves.
    """
    spread_ms, places = (link.reordering_ms, _held_back(link.reordering)) if link.reordering else (link.jitter_ms, ())
    return messages.new_netem(
        index,
        delay_ns=round(link.delay_ms * 1e6),
        loss=link.loss,
        spread_ns=round(spread_ms * 1e6),
        places=places or (_bell() if link.jitter_ms else ()),
        bytes_per_s=0 if link.reordering else round(link.rate_mbps * 1e6 / 8),
        seed=seed,
    )


@cache
def _bell() -> tuple[int, ...]:
    """Compute quantiles of the normal distribution; netem draws one for each packet."""
    normal = NormalDist()
    return tuple(round(ONE * normal.inv_cdf((place + 0.5) / BELL_PLACES)) for place in range(BELL_PLACES))


def _share(reordering: float) -> Fraction:
    """Return the nearest fraction whose denominator fits a table (LONGEST_TABLE)."""
    return Fraction(reordering).limit_denominator(LONGEST_TABLE)


def _held_back(reordering: float) -> Sequence[int]:
    """Make a table: the whole spread for the share of packets that are held back, and 0 for all others."""
    share = _share(reordering)
    return (ONE,) * share.numerator + (0,) * (share.denominator - share.numerator)
