"""Floor 2: experiments in virtual time, packet by packet."""

from netrepro.simulation.gaps import gap_shares
from netrepro.simulation.own_control import OwnCongestionControl
from netrepro.simulation.simulate import SIMULATED_CONGESTION_CONTROLS, simulate

__all__ = ["SIMULATED_CONGESTION_CONTROLS", "OwnCongestionControl", "gap_shares", "simulate"]
