"""Floor 2: published numbers, verdicts, scorecard."""

from netrepro.claims.models import KINDS, TIERS, Accept, Claim, PaperClaims, all_papers, load_claims
from netrepro.claims.verdicts import LEVELS, VERDICTS, Interval, Judgement, Measured, judge, paper_level

__all__ = [
    "KINDS",
    "LEVELS",
    "TIERS",
    "VERDICTS",
    "Accept",
    "Claim",
    "Interval",
    "Judgement",
    "Measured",
    "PaperClaims",
    "all_papers",
    "judge",
    "load_claims",
    "paper_level",
]
