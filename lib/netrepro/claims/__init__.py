"""Floor 2: published numbers and verdicts; netrepro.claims.scorecard makes the table of all of them."""

from netrepro.claims.models import (
    KINDS,
    Accept,
    Claim,
    DecidedBy,
    PaperClaims,
    all_papers,
    claims_schema,
    load_claims,
)
from netrepro.claims.results import (
    Results,
    Run,
    committed_results,
    publish_run,
    published_results,
    read_results,
    write_results,
)
from netrepro.claims.verdicts import (
    DECIDED,
    LEVELS,
    VERDICTS,
    Interval,
    Judgement,
    Measured,
    coverage_text,
    judge,
    paper_level,
)
from netrepro.tiers_and_profiles import PROFILES, TIERS

__all__ = [
    "DECIDED",
    "KINDS",
    "LEVELS",
    "PROFILES",
    "TIERS",
    "VERDICTS",
    "Accept",
    "Claim",
    "DecidedBy",
    "Interval",
    "Judgement",
    "Measured",
    "PaperClaims",
    "Results",
    "Run",
    "all_papers",
    "claims_schema",
    "committed_results",
    "coverage_text",
    "judge",
    "load_claims",
    "paper_level",
    "publish_run",
    "published_results",
    "read_results",
    "write_results",
]
