"""Names of the tiers, where an experiment runs, and of the profiles, at what scale."""

from __future__ import annotations

from typing import Literal, get_args

Tier = Literal["virtual", "privileged", "rootless", "simulated"]
TIERS: tuple[str, ...] = get_args(Tier)  # best first
Profile = Literal["quick", "paper"]
PROFILES: tuple[str, ...] = get_args(Profile)
