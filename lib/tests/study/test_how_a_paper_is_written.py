"""The page "How a paper is written": its examples run in order, and `netrepro new` writes what it says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import netrepro.study
from netrepro.workbench.catalogue.skeleton import new_paper
from netrepro.workbench.publishing import pages

PAGE = (Path(netrepro.study.__file__).parent / "how_a_paper_is_written.md").read_text(encoding="utf-8")
TEMPLATE = Path(__file__).parents[3] / "notebooks/_template.ipynb"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(CLAIMS,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def files(workbench) -> list[Path]:
    """The files that `netrepro new two_flows` writes."""
    shutil.copy(TEMPLATE, workbench / "notebooks")
    return new_paper("two_flows")


def test_its_examples_lead_from_a_claim_to_a_verdict_that_its_control_makes_flip(workbench):
    folder = workbench / "data/two_flows"
    folder.mkdir(parents=True)
    (folder / "claims.yaml").write_text(CLAIMS)
    names: dict = {}
    for example in EXAMPLES:
        exec(example, names)  # the page's own text
    (verdict,) = names["verdicts"]
    assert (verdict.claim, verdict.verdict, verdict.counts) == ("bbr-takes-more", "agrees", True)
    assert names["figure"].axes and len(names["runs"].knobs["knob"]) == 6


def test_a_new_paper_has_every_line_of_it(files):
    claims, _, module, *_ = (path.read_text() for path in files)
    assert claims == CLAIMS
    of_the_module = EXAMPLES[: next(i for i, code in enumerate(EXAMPLES) if "STUDY = Study(" in code) + 1]
    written = set(module.splitlines())
    for line in "".join(of_the_module).splitlines():
        if not line.startswith("from netrepro.study import"):  # the module needs more of it
            assert line in written


def test_it_names_only_what_the_notebook_template_and_the_frame_have():
    cells = TEMPLATE.read_text(encoding="utf-8")
    table = PAGE.partition("## 11 The notebook")[2].partition("## 12")[0]
    calls = re.findall(r"`(?:\w+ = )?((?:report|runs)\.\w+\()", table)
    assert len(calls) >= 8 and [call for call in calls if call not in cells] == []
    named = re.findall(r"how=(\w+)|`(\w+)` for its spread", PAGE)
    assert {first or second for first, second in named} - {"lambda"} <= set(netrepro.study.__all__)


def test_the_pages_of_the_librarys_functions_show_it(tmp_path, monkeypatch):
    assert {"netrepro.study", "netrepro.study.declaration", "netrepro.study.evidence"} <= set(pages._module_names())
    monkeypatch.setattr(pages, "_module_names", lambda: ["netrepro.study"])
    pages._describe_functions(tmp_path)
    shown = (tmp_path / "netrepro/study.html").read_text()
    assert "How a paper is written" in shown
    assert 'id="Reading"' in shown and 'id="measure"' in shown
