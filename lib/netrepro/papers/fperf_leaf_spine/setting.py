"""The parameters, and the sizes of networks."""

from __future__ import annotations

from dataclasses import dataclass

from netrepro.study.setting import parameter

Size = tuple[int, int, int]  # spines, leaves, hosts
SIZES = ("S2-L2-H4", "S2-L3-H6", "S2-L4-H8", "S2-L5-H10", "S2-L6-H12", "S3-L4-H12", "S4-L4-H16")


@dataclass(frozen=True)
class Setting:
    """The report's query, and what a run does.

    task : a key of `study.TASKS`. subject : a case study, or a question. size : of the network, as in Figure 7c.
    at_most_packets : that the victim receives; None for fewer than half of its line rate. timed_horizon : steps of the
    timed questions. searched_hosts : hosts of the largest network on which the search is timed. queue_packets : length
    of a host's queue, which "larger queues" increases.
    """

    horizon: int = parameter(10, "steps of the report's query", low=1, high=100)
    packet_networks: int = parameter(
        32, "packet networks, which differ in how they hash flows to spines", low=1, high=1024
    )
    timeout_s: float = parameter(1800.0, "limit of one question", "s", above=0, high=86_400)
    task: str = "find the plainest example"
    subject: str = ""
    size: str = "S2-L3-H6"
    at_most_packets: int | None = None
    timed_horizon: int = 8
    searched_hosts: int = 6
    queue_packets: int = 40


def size_of(name: str) -> Size:
    """Parse a size's name, Si-Lj-Hk."""
    spines, leaves, hosts = (int(part[1:]) for part in name.split("-"))
    return spines, leaves, hosts


def size_name(size: Size) -> str:
    """Name a size as Si-Lj-Hk, as in Figure 7c."""
    return f"S{size[0]}-L{size[1]}-H{size[2]}"
