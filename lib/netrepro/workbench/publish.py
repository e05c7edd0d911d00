"""Copy what a whole run made to figures/<slug>/, where the scorecard and the README look."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd

from netrepro.claims import all_papers, committed_results, publish_run, published_results, read_results
from netrepro.claims.scorecard import draw_scorecard, regressions, to_html, to_markdown
from netrepro.errors import NetreproError
from netrepro.paths import figures_dir
from netrepro.style import save_figure, use_style
from netrepro.workbench import job as files
from netrepro.workbench.job import write_atomically

PICTURES = (".png", ".svg")
README_BEGIN, README_END = "<!-- scorecard -->", "<!-- /scorecard -->"


def publish(folder: Path, slug: str, *, pictures: bool = True) -> None:
    """Publish the figures of one run, unless without `pictures`, and merge its results with those of other profiles and
    tiers.

    A file whose bytes (figures) or measured values (results) have not changed is left untouched.
    """
    if pictures:
        _publish_pictures(folder, figures_dir(slug))
    for run in read_results(folder / files.RESULTS).runs.values():
        publish_run(slug, run)


def _publish_pictures(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    made = {path.name for path in folder.iterdir() if path.suffix in PICTURES}
    for stale in [path for path in target.iterdir() if path.suffix in PICTURES and path.name not in made]:
        stale.unlink()  # the notebook no longer draws it
    for picture in [folder / name for name in sorted(made)]:
        published = target / picture.name
        if published.exists() and published.read_bytes() == picture.read_bytes():
            continue
        partial = published.with_name(f".{picture.name}.partial")
        shutil.copyfile(picture, partial)
        partial.replace(published)


def write_scorecard(table: pd.DataFrame, folder: Path) -> None:
    """The scorecard as scorecard.csv, .md (the README's excerpt), .html (sortable) and .png and .svg (the picture)."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "scorecard.csv", table.to_csv(index=False))
    write_atomically(folder / "scorecard.md", to_markdown(table))
    write_atomically(folder / "scorecard.html", to_html(table))
    use_style()
    save_figure(draw_scorecard(table), folder, "scorecard")


def refresh_readme(table: pd.DataFrame, readme: Path) -> None:
    """Put the scorecard's excerpt between the two scorecard marks of a README. Raises NetreproError without marks."""
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(README_BEGIN)
    _, end, after = rest.partition(README_END)
    if not begin or not end:
        raise NetreproError(f"{readme.name} has no {README_BEGIN} … {README_END}", "put both marks where it belongs")
    write_atomically(readme, f"{before}{begin}\n{to_markdown(table)}{end}{after}")


def lost_verdicts() -> tuple[list[str], list[str]]:
    """(verdicts that held at the committed results and no longer do at the same tier and profile, notes)."""
    lost, notes = [], []
    for paper in all_papers():
        committed, why = committed_results(paper.paper)
        now = published_results(paper.paper)
        if committed is None or now is None:
            notes.append(f"{paper.paper}: nothing to compare: {why or 'not run yet'}")
        else:
            lost += regressions(committed, now)
    return lost, notes
