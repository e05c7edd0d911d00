"""A workbench of constructed papers, in a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest

CLAIMS = """\
paper: constructed
title: "A constructed paper (Nobody, NOWHERE 1999)"
claims:
  - id: mean-gain
    says: "the mechanism halves the mean"
    where: "Fig. 1"
    kind: effect
    fixed: before
    published: 0.5
    class_report: 0.6
    accept: {relative: 0.1}
    comparable_on: [privileged, rootless, simulated]
    control: "mechanism off: the ratio must return to 1"
  - id: best-first
    says: "a beats b beats c"
    where: "Table 2"
    kind: ordering
    fixed: before
    published: [a, b, c]
    accept: {kendall_at_least: 0.8}
    comparable_on: [simulated]
    control: "without the mechanism c must come first"
    note: "no emulation of c"
"""


@pytest.fixture
def workbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workbench with one sound paper, 'constructed'."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setenv("NETREPRO_ROOT", str(tmp_path))
    write_claims(tmp_path, CLAIMS)
    return tmp_path


def write_claims(root: Path, text: str, slug: str = "constructed") -> None:
    folder = root / "data" / slug
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "claims.yaml").write_text(text, encoding="utf-8")
