"""Measurements with their dates: results.json of a run, and figures/<slug>/results.json with all published runs.

Measured values are stored, verdicts are not: they follow from today's claims.yaml.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from netrepro.claims.models import invalid_file
from netrepro.claims.verdicts import Measured
from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.git import git
from netrepro.paths import figures_dir, workbench_root
from netrepro.tiers_and_profiles import Profile, Tier


class Run(BaseModel):
    """One run of a paper's notebook: when, of which commit, how, and every measured claim.

    commit : ends with "-dirty" where the library, the notebook or its data differed from it.
    changed : parameters that were not the committed notebook's defaults, with their values.
    code : hash of all that the paper's numbers on this tier come from (netrepro.workbench.code); "" for an older run,
        which did not record it.
    library : hash of the whole library and of the core that it had loaded (netrepro.provenance); "" likewise.
    cpu_s : processor time that the run took (s), where that is known. seconds : simulated or real seconds of each
        repetition, where the scale gives them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    date: datetime.date
    commit: str
    profile: Profile
    tier: Tier
    seed: int
    repetitions: int = Field(ge=1)
    parameters: dict[str, JsonValue]
    answer: str
    measured: list[Measured]
    changed: dict[str, JsonValue] = {}
    code: str = ""
    library: str = ""
    cpu_s: float | None = None
    seconds: float | None = None

    @property
    def key(self) -> str:
        """The key of the run in the results file, 'profile/tier'."""
        return f"{self.profile}/{self.tier}"

    def measurement(self, claim_id: str) -> Measured | None:
        """Return the measurement of a claim, or None where there is none."""
        return next((each for each in self.measured if each.claim == claim_id), None)

    def repeats(self, other: Run) -> bool:
        """Tell whether this run equals the other, apart from its date, commit, library hash and processor time."""
        own = {name: getattr(self, name) for name in ("date", "commit", "library", "cpu_s")}
        return self == other.model_copy(update=own)

    @model_validator(mode="after")
    def _each_claim_once(self) -> Run:
        names = [each.claim for each in self.measured]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"measured: {', '.join(map(repr, twice))} is measured more than once")
        return self


class Results(BaseModel):
    """Everything measured for a paper, its runs by 'profile/tier'."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    runs: dict[str, Run]

    @model_validator(mode="after")
    def _runs_under_their_keys(self) -> Results:
        for key, run in self.runs.items():
            if key != run.key:
                raise ValueError(f"runs: {key!r} holds a run of {run.key!r}")
        return self

    def with_run(self, run: Run) -> Results:
        """Return these results with the run of that profile and tier replaced; a mere repeat changes nothing."""
        if run.key in self.runs and run.repeats(self.runs[run.key]):
            return self
        return Results(paper=self.paper, runs=dict(sorted((self.runs | {run.key: run}).items())))

    def text(self) -> str:
        """Write the results as JSON. Each measured claim has one line, so a diff shows which claims changed."""
        content = self.model_dump(mode="json", exclude_defaults=True)
        lines: dict[str, str] = {}
        for key, run in content["runs"].items():
            for index, measured in enumerate(run["measured"]):
                mark = f"\0{key}/{index}"
                lines[json.dumps(mark)] = json.dumps(measured, ensure_ascii=False, allow_nan=False)
                run["measured"][index] = mark
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        for mark, line in lines.items():
            text = text.replace(mark, line)
        return text + "\n"


def read_results(path: Path) -> Results:
    """Read a results file. Raises NetreproError, naming file and key, when it is missing or malformed."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise NetreproError(f"{path} cannot be read: {error.strerror}", "run the notebook first") from None
    return _parse(text, _shown(path))


def write_results(results: Results, path: Path) -> bool:
    """Write a results file whole or not at all; return False, without writing, if it already has this text."""
    text = results.text()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    return True


def published_results(slug: str) -> Results | None:
    """Load figures/<slug>/results.json as it is on disk; None before the first publication."""
    path = figures_dir(slug) / "results.json"
    return read_results(path) if path.exists() else None


def publish_run(slug: str, run: Run) -> bool:
    """Merge one run into figures/<slug>/results.json; return False for a mere repeat, which changes nothing."""
    results = (published_results(slug) or Results(paper=slug, runs={})).with_run(run)
    return write_results(results, figures_dir(slug) / "results.json")


def committed_results(slug: str) -> tuple[Results | None, str]:
    """Return (figures/<slug>/results.json as the last commit has it, ""), or (None, why there is none).

    Raises NetreproError where git does not answer: it is missing, this is no clone, or nothing is committed.
    """
    name = f"figures/{slug}/results.json"
    if not git("ls-tree", "HEAD", "--", name):
        return None, f"{name} is not committed"
    return _parse(git("show", f"HEAD:./{name}"), f"committed {name}"), ""


def _shown(path: Path) -> str:
    root = workbench_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _parse(text: str, file: str) -> Results:
    content: Any = None
    try:
        content = json.loads(text)
        return Results.model_validate(content)
    except json.JSONDecodeError as error:
        raise NetreproError(f"{file} line {error.lineno}: {error.msg}", "run the notebook again") from None
    except ValidationError as error:
        raise invalid_file(file, content, error, Results) from None
    except NetreproError as error:  # a Measured that cannot be
        raise NetreproError(f"{file}: {error.problem}", error.remedy) from None
