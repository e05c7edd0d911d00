"""Two runs beside each other: settings, values, verdicts and figures."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from netrepro.claims import Results, Run, published_results
from netrepro.claims.scorecard import beside, scorecard
from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.paths import figures_dir, runs_dir, slug_of, workbench_root
from netrepro.workbench.cli.console import claim_lines, folded, records
from netrepro.workbench.publishing.scorecard import claim_cells
from netrepro.workbench.publishing.templating import render
from netrepro.workbench.running.run_folder import kept_runs, read_kept, shown_path


@dataclass(frozen=True)
class Comparison:
    """The results of two runs of a paper.

    first, second : name, slug, folder and result of each run.
    settings : the settings that differ; columns setting, first, second.
    table : a row for each claim, as `netrepro.claims.scorecard.beside` returns it. The columns `mine_` are those of the
        first run, `published_` those of the second.
    page : the comparison as HTML.
    """

    first: Side
    second: Side
    settings: pd.DataFrame
    table: pd.DataFrame
    page: str

    def lines(self) -> list[str]:
        """Return lines of 80 columns for a terminal: the settings that differ, then every claim."""
        lines = [
            *folded(self.first.words, "first      ", " " * 11),
            *folded(self.second.words, "second     ", " " * 11),
        ]
        for row in self.settings.to_dict("records"):
            lines += folded(f"{row['setting']}: first {row['first']}, second {row['second']}", "differs    ", " " * 11)
        return [*lines, "", *claim_lines(self.table, ("first", "second"))]

    def content(self) -> dict[str, Any]:
        """Return the settings that differ and every claim as values for JSON."""
        sides = {"first": self.first, "second": self.second}
        claims = self.table.rename(
            columns=lambda name: name.replace("mine_", "first_").replace("published_", "second_")
        )
        return {
            **{
                name: {"name": side.name, "folder": str(side.folder), "run": side.run.key}
                for name, side in sides.items()
            },
            "settings": records(self.settings),
            "claims": records(claims),
        }

    def write(self, path: Path | None = None) -> Path:
        """Write the page, by default into runs/compare/, and return its path.

        Raises NetreproError where it cannot be written.
        """
        name = f"{self.first.name}-and-{self.second.name}".replace("/", "_")
        path = path or runs_dir() / "compare" / f"{name}.html"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, self.page)
        except OSError as error:
            raise NetreproError(f"cannot write {path}: {error.strerror}", "choose another with --into") from None
        return path


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name, slug, folder (where its figures are) and result."""

    name: str
    slug: str
    folder: Path
    run: Run

    @property
    def words(self) -> str:
        """The run in words: its name, profile, tier, date, commit and changed parameters."""
        changed = "".join(f", {name} = {value!r}" for name, value in self.run.changed.items())
        return f"{self.name} ({self.run.profile}, {self.run.tier}, {self.run.date}, {self.run.commit}{changed})"


def compare(first: str | Path, second: str | Path) -> Comparison:
    """Compare two runs of a paper.

    Each run is given by its folder, by its name below runs/ (`quick/14_dctcp`, or `14_dctcp` in the quick profile), or
    by a slug. A slug as `first` means the newest of the user's own runs. As `second` it means the published run with
    the profile and tier of the first run or, where there is none, another published run.

    Raises
    ------
    NetreproError : for a run that does not exist, a run without results, or runs of different papers.
    """
    one = _kept(first) or _newest(str(first))
    other = _kept(second, one.run.key) or _published(str(second), one.run.key)
    if one.slug != other.slug:
        raise NetreproError(
            f"{one.name} is a run of {one.slug}, {other.name} of {other.slug}", "compare runs of one paper"
        )
    sheets = [_sheet(side) for side in (one, other)]
    table = beside(*sheets)
    settings = _differences(one.run, other.run)
    return Comparison(one, other, settings, table, _page(one, other, settings, sheets))


def _sheet(side: Side) -> pd.DataFrame:
    alone = Results(paper=side.slug, runs={side.run.key: side.run})
    return scorecard([side.slug], results=lambda slug: alone, as_declared=False)


def _kept(given: str | Path, key: str = "") -> Side | None:
    """Read the run in a folder; for a folder of figures/ the published run with `key` ("profile/tier") or another.

    Returns None where there is no such folder.
    """
    for folder in (Path(given), workbench_root() / given, runs_dir() / given, runs_dir() / "quick" / given):
        if (folder / "status.json").exists() or (folder.is_dir() and (folder / "results.json").exists()):
            if folder.resolve().parent == figures_dir("any").parent:
                return _published(folder.name, key)
            kept = read_kept(folder)
            if kept.result is None:
                raise NetreproError(f"{kept.name} has no results: {kept.problem}", "run it again")
            return Side(shown_path(kept.folder).removeprefix("runs/"), kept.slug, kept.folder, kept.result)
    return None


def _newest(slug: str) -> Side:
    for kept in kept_runs(slug_of(slug)):
        if kept.result is not None:
            return Side(kept.name.removeprefix("runs/"), kept.slug, kept.folder, kept.result)
    raise NetreproError(
        f"no run called {slug!r} in runs/",
        f"run it first: netrepro run {slug}; or give a folder, such as runs/quick/14_dctcp",
    )


def _published(slug: str, key: str) -> Side:
    results = published_results(slug)
    if results is None or not results.runs:
        raise NetreproError(f"no run called {slug!r} in runs/, and nothing published", "give a folder of runs/")
    run = results.runs.get(key) or next(iter(results.runs.values()))
    return Side(f"figures/{slug_of(slug)}", slug_of(slug), figures_dir(slug), run)


def _differences(first: Run, second: Run) -> pd.DataFrame:
    """List the settings that differ. Columns: setting, first, second."""
    both = [_settings(run) for run in (first, second)]
    names = list(dict.fromkeys([*both[0], *both[1]]))
    rows = [(name, *(settings.get(name) for settings in both)) for name in names]
    return pd.DataFrame([row for row in rows if row[1] != row[2]], columns=["setting", "first", "second"], dtype=object)


def _settings(run: Run) -> dict[str, Any]:
    own = {name: getattr(run, name) for name in ("profile", "tier", "commit", "repetitions", "seed")}
    return own | run.parameters | run.changed


def _page(one: Side, other: Side, settings: pd.DataFrame, sheets: list[pd.DataFrame]) -> str:
    names = sorted({path.name for side in (one, other) for path in side.folder.glob("*.png")})
    return render(
        "comparison",
        slug=one.slug,
        first=one.words,
        second=other.words,
        settings=settings,
        claims=claim_cells(sheets[1], sheets[0], names=("first", "second")).drop(columns=["verdict", "paper"]),
        pictures=[(name, [_picture(side.folder / name) for side in (one, other)]) for name in names],
    )


def _picture(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode() if path.exists() else ""
