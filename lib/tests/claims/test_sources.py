"""Each paper's SOURCES.md says what authors' artefacts and others' reproductions tell, and when they were sought."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
SLUGS = sorted(path.parent.name for path in (REPOSITORY / "data").glob("*/claims.yaml"))
HEADING = "\n## Artefacts\n"
SEARCHED = re.compile(
    r"\b[Ss]earched\b.*\b20\d\d\b|\b20\d\d\b.*\b[Ss]earched\b|\bread to the end in\b.*\b20\d\d\b", re.DOTALL
)
# What may be said of something only once it has been sought.
NOT_HAD = re.compile(r"which we do(?:es)? not have|we did not have|(?:was|were) not at hand|(?:is|are) not at hand")


def unfounded(sources: str, others: str) -> list[str]:
    """List what is wrong with a SOURCES.md: no section that says what was sought and when, although this text or
    others of the paper say that something could not be had."""
    section = sources.partition(HEADING)[2].split("\n## ")[0]
    if SEARCHED.search(section):
        return []
    lacking = [match.group() for match in NOT_HAD.finditer(re.sub(r"\s+", " ", f"{sources} {others}"))]
    return [*lacking, f"no section {HEADING.strip()!r} that says by which words and when one searched"]


def texts_of(slug: str) -> str:
    """Return the paper's other texts: its claims and its notebook."""
    (notebook,) = (REPOSITORY / "notebooks").glob(f"[0-9][0-9]_{slug}.ipynb")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    words = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return "\n".join([(REPOSITORY / f"data/{slug}/claims.yaml").read_text(encoding="utf-8"), *words])


@pytest.mark.parametrize("slug", SLUGS)
def test_artefacts_were_sought_before_it_is_said_that_there_are_none(slug):
    sources = (REPOSITORY / f"data/{slug}/SOURCES.md").read_text(encoding="utf-8")
    assert unfounded(sources, texts_of(slug)) == []


@pytest.mark.parametrize(
    ("sources", "others", "count"),
    [
        ("# A\n\n## Artefacts\n\nSearched in November 2026: a, b.\n", "their scripts, which we do not have", 0),
        ("# A\n\n## Artefacts\n\nSearched in November 2026: a, b.\n\n## More\n", "", 0),
        ("# A\n\n## Artefacts\n\nThere are none.\n", "", 1),
        ("# A\n\nThe paper was not\nat hand.\n", "their scripts, which we do not have", 3),
        ("# A\n\n## More\n\nSearched in November 2026.\n", "", 1),
    ],
)
def test_what_was_not_sought_is_noticed(sources, others, count):
    assert len(unfounded(sources, others)) == count
