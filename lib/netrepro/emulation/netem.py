"""Delay, jitter, loss and reordering of links in real time: by the kernel's netem, where it has one.

Here netem is a wire and no buffer: it stands in the hub, between the two ends of a cable and behind the shaper, so
that it neither counts nor drops what waits in a queue. What arrives from one end is redirected to the interface that
leads to the other, and held there for its delay and until it has been sent as a whole. Where packets are reordered it
does without the latter, for netem's packets keep their order behind a rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from statistics import NormalDist

from netrepro.emulation import messages
from netrepro.emulation.messages import Request
from netrepro.errors import NetreproError
from netrepro.networks.links import Link

# Of sch_netem.c: a table's numbers are in 8192ths of the spread, there are 16384 at most, and the spread is kept in 31
# bits of nanoseconds.
ONE, LONGEST_TABLE, MOST_SPREAD_MS = 8192, 16_384, 2000.0
BELL_PLACES = 4096  # as in the table that tc has for the same curve
INSTEAD = "use tier 'virtual', whose links are exact"


def check_netem(what: str, link: Link) -> None:
    """Raise NetreproError for what netem does not do as `Link` describes it; `what` names the link."""
    if link.jitter_ms and link.reordering:
        problem = "jitter that keeps the order beside reordering, and netem does one of both"
    elif max(link.jitter_ms, link.reordering_ms if link.reordering else 0.0) > MOST_SPREAD_MS:
        problem = f"delays that vary by more than {MOST_SPREAD_MS:g} ms, and netem's cannot"
    elif link.reordering and not _share(link.reordering):
        problem = f"a reordering of {link.reordering:g}, and netem's least is 1 in {LONGEST_TABLE}"
    else:
        return
    raise NetreproError(f"{what}: {problem}", INSTEAD)


def redirection(from_index: int, to_index: int) -> list[Request]:
    """Make the messages by which all that arrives at one interface leaves by the other."""
    return [
        messages.new_queue(from_index, 0xFFFF0000, 0xFFFFFFF1, "clsact"),
        messages.new_redirection(from_index, to_index),
    ]


def wire(index: int, link: Link, seed: int) -> Request:
    """Set the link's rate, delay, jitter, loss and reordering, at the interface of the hub that leads to its end.

    seed : of what is random, on kernels from 6.6 on; older ones choose their own.
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
    """Compute quantiles of the normal distribution; each packet takes one."""
    normal = NormalDist()
    return tuple(round(ONE * normal.inv_cdf((place + 0.5) / BELL_PLACES)) for place in range(BELL_PLACES))


def _share(reordering: float) -> Fraction:
    """Find the nearest share that a table can be filled to."""
    return Fraction(reordering).limit_denominator(LONGEST_TABLE)


def _held_back(reordering: float) -> Sequence[int]:
    """Make a table with the whole spread for the share that those behind overtake, and nothing for all others."""
    share = _share(reordering)
    return (ONE,) * share.numerator + (0,) * (share.denominator - share.numerator)
