"""Floor 2: experiments in virtual time, packet by packet."""

from netrepro.simulation.gaps import gap_shares
from netrepro.simulation.own_control import OwnCongestionControl
from netrepro.simulation.simulate import simulate, simulate_deliveries

__all__ = ["OwnCongestionControl", "gap_shares", "simulate", "simulate_deliveries"]
