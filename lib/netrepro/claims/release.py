"""The release: which version of the results is published, and which code measured each paper."""

from __future__ import annotations

import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from netrepro.claims.results import Run
from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.paths import workbench_root


class Release(BaseModel):
    """A published set of results that one version of the code measured.

    version : its tag without the "v". code : paper (slug) -> tier -> hash of all that its numbers there come from
    (netrepro.workbench.code.code_of).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    date: datetime.date
    code: dict[str, dict[str, str]]

    def holds(self, paper: str, run: Run) -> bool:
        """Tell whether the release's code measured this run of a paper (slug)."""
        return self.code.get(paper, {}).get(run.tier) == run.code


def read_release() -> Release | None:
    """Read figures/release.json; None before the first release. Raises NetreproError where it is malformed."""
    path = _path()
    if not path.exists():
        return None
    try:
        return Release.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise NetreproError(
            f"{path.name}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}", "git checkout figures/release.json"
        ) from None


def write_release(release: Release) -> None:
    """Write figures/release.json, whole or not at all."""
    write_atomically(_path(), release.model_dump_json(indent=2) + "\n")


def _path() -> Path:
    return workbench_root() / "figures" / "release.json"
