"""Names of the tiers (where an experiment runs) and of the profiles (at what scale)."""

from __future__ import annotations

from typing import Literal, get_args

from netrepro.errors import NetreproError, nearest

Tier = Literal["virtual", "privileged", "rootless", "simulated"]
TIERS: tuple[str, ...] = get_args(Tier)  # best first
REAL_TIME_TIERS = ("privileged", "rootless")
Profile = Literal["quick", "paper"]
PROFILES: tuple[str, ...] = get_args(Profile)


def check_tier(tier: str, *, or_auto: bool = False) -> None:
    """Raise NetreproError, with the nearest name, for an unknown tier. or_auto : allow "auto" too."""
    valid = ("auto", *TIERS) if or_auto else TIERS
    if tier not in valid:
        raise NetreproError(f"no tier {tier!r}", nearest(str(tier), valid))


def check_profile(profile: str) -> None:
    """Raise NetreproError, with the nearest name, for an unknown profile."""
    if profile not in PROFILES:
        raise NetreproError(f"no profile {profile!r}", nearest(str(profile), PROFILES))
