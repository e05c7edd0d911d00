"""Floor 2: experiments in virtual time, packet by packet."""

from netrepro.networks.gaps import gap_shares
from netrepro.simulation.hosts import Connection, Hosts, simulate_machines
from netrepro.simulation.own_control import OwnCongestionControl
from netrepro.simulation.own_queue import OwnQueueDiscipline
from netrepro.simulation.replay import replay
from netrepro.simulation.simulate import simulate

__all__ = [
    "Connection",
    "Hosts",
    "OwnCongestionControl",
    "OwnQueueDiscipline",
    "gap_shares",
    "replay",
    "simulate",
    "simulate_machines",
]
