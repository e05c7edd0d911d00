"""Floor 2: experiments in virtual time, packet by packet."""

from netrepro.simulation.gaps import gap_shares
from netrepro.simulation.simulate import SIMULATED_CONGESTION_CONTROLS, simulate

__all__ = ["SIMULATED_CONGESTION_CONTROLS", "gap_shares", "simulate"]
