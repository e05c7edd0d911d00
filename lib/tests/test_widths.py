"""Tables of verdicts are as wide as what they stand in, and the verdict is on the screen: seen in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from headless_browser import headless_browser, is_installed
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from netrepro.claims import published_results
from netrepro.claims.scorecard import scorecard
from netrepro.workbench import guide
from netrepro.workbench.catalogue.notebooks import catalogue, find
from netrepro.workbench.notebook.report import open_report
from netrepro.workbench.publishing.scorecard import scorecard_page

FOLDER = Path(__file__).parents[2] / "notebooks"
SLUGS = [notebook.slug for notebook in catalogue(FOLDER) if notebook.declaration.kind == "paper"]
WIDTH = 934  # of a notebook's output area on a screen of 1,200 px
# What JupyterLab says of tables in its outputs.
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ font: 13px sans-serif; line-height: 20px; margin: 0; }}
table {{ border-collapse: collapse; font-size: 12px; table-layout: auto; }}
td, th {{ padding: 0.5em; white-space: normal; text-align: right; }}
</style><div id="area" style="width: {width}px">{content}</div>"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not is_installed(), reason="needs chromium"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with headless_browser(tmp_path_factory.mktemp("chromium"), "--window-size=1200,900") as driver:
        yield driver


def show(browser: webdriver.Chrome, folder: Path, page: str) -> None:
    (folder / "page.html").write_text(page, encoding="utf-8")
    browser.get(f"file://{folder}/page.html")


def widest(browser: webdriver.Chrome) -> int:
    return browser.execute_script("return Math.max(...[...document.querySelectorAll('table')].map(t => t.scrollWidth))")


@pytest.mark.parametrize("slug", SLUGS)
def test_the_verdicts_of_a_paper_fit_and_come_first(browser, tmp_path, monkeypatch, slug):
    results = published_results(slug)
    if results is None:
        return  # not published yet: nothing to show
    run = next(iter(results.runs.values()))
    monkeypatch.setenv("NETREPRO_RUN_DIR", str(tmp_path))
    report = open_report(slug, {name: each.default for name, each in find(slug).parameters.items()})
    known = {claim.id for claim in report.claims.claims}  # published runs may still hold claims withdrawn since
    measured = [each for each in run.measured if each.claim in known]
    show(browser, tmp_path, PAGE.format(width=WIDTH, content=report.judge(measured).to_html()))
    assert widest(browser) <= WIDTH
    assert browser.execute_script("return document.querySelector('th').textContent") == "verdict"


def test_all_claims_fit_into_the_scorecards_notebook(browser, tmp_path):
    show(browser, tmp_path, PAGE.format(width=WIDTH, content=guide.claims_table().data))
    assert widest(browser) <= WIDTH
    show(browser, tmp_path, PAGE.format(width=WIDTH, content=guide.papers_table().to_html()))
    assert widest(browser) <= WIDTH


@pytest.mark.parametrize("mine", [False, True])
def test_the_page_of_the_scorecard_is_no_wider_than_a_screen_and_filters(browser, tmp_path, mine):
    table = scorecard()
    show(browser, tmp_path, scorecard_page(table, table if mine else None))
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    WebDriverWait(browser, 60).until(lambda _: browser.find_elements("css selector", "table.dataTable#claims td"))
    said = browser.find_element("css selector", ".claims .dt-info")
    assert f"of {len(table)} " in said.text
    browser.find_element("css selector", ".claims input").send_keys("hedera paper")
    assert f"of {(table['paper'] == 'hedera').sum()} " in said.text
    assert browser.find_elements("css selector", ".claims td")[0].rect["x"] < 100
