"""The gallery: pages of executed notebooks with the scorecard as their index, seen in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from headless_browser import complaints, headless_browser, is_installed
from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.color import Color
from selenium.webdriver.support.ui import WebDriverWait

from netrepro import __version__
from netrepro.claims import claims_schema
from netrepro.errors import NetreproError
from netrepro.workbench import gallery
from netrepro.workbench.catalogue.notebooks import find
from netrepro.workbench.notebook.looks import BINDER, VERDICT_LOOKS
from netrepro.workbench.publishing import pages as module
from netrepro.workbench.running.run_folder import newest_executed
from netrepro.workbench.running.runner import run

FIXTURES = Path(__file__).parents[1] / "notebooks"
DATA = Path(__file__).parents[3] / "data"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A gallery of a paper that was run, of another that was not, and of what the library has."""
    root = tmp_path_factory.mktemp("workbench")
    (root / "notebooks").mkdir()
    for number, slug in ((10, "echo"), (11, "silent")):
        notebook = nbformat.read(FIXTURES / "echo.ipynb", as_version=4)
        notebook.metadata["netrepro"]["slug"] = slug
        notebook.cells[2].source = (
            r"## 8 Paper, class report and ours" + "\n\n" + r"where $E[W]=\rho/(1-\rho)$, `$HOME`"
        )
        notebook.cells[0].source += "\n\nas [silence](11_silent.ipynb#8-Paper,-class-report-and-ours) is"
        nbformat.write(notebook, root / f"notebooks/{number}_{slug}.ipynb")
        shutil.copytree(FIXTURES / "echo_data", root / "data" / slug)
        claims = root / "data" / slug / "claims.yaml"
        claims.write_text(claims.read_text().replace("paper: echo", f"paper: {slug}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETREPRO_ROOT", str(root))
        assert run(["echo"]).ok
        pages = gallery(root / "site", functions=False)
        assert [(page.file, page.run is not None) for page in pages] == [
            ("10_echo.html", True),
            ("11_silent.html", False),
        ]
        yield root / "site"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if not is_installed():
        pytest.skip("needs chromium")
    with headless_browser(tmp_path_factory.mktemp("chromium"), "--window-size=1200,700") as driver:
        yield driver


@pytest.mark.browser
def test_a_click_on_a_cell_leads_to_its_claim_and_nothing_comes_from_elsewhere(site, browser):
    browser.get(f"file://{site}/index.html")
    cells = browser.find_elements("css selector", ".papers a.cell")
    assert [cell.text for cell in cells] == ["·", "·"]  # nothing is published
    dots = [
        dot.value_of_css_property("background-color") for dot in browser.find_elements("css selector", ".cell .dot")
    ]
    assert dots == [Color.from_string(VERDICT_LOOKS["agrees"][0]).rgba]
    rows = [row.text for row in browser.find_elements("css selector", ".papers tr")]
    assert "your runs judge 1/1" in rows[0] and "otherwise" not in rows[0] and "your runs" not in rows[1]
    top = browser.find_element("css selector", "body").text.partition("One row a paper")[0]
    assert "2 papers: · 2 not measured." in top and f"netrepro {__version__}. Please cite" in top
    assert browser.find_elements("link text", "Binder")[0].get_attribute("href") == BINDER
    WebDriverWait(browser, 60).until(lambda _: browser.find_elements("css selector", "table.dataTable#claims td"))
    shown = "return [...document.querySelectorAll('#claims tbody tr')].map(row => row.cells[1].textContent)"
    assert browser.execute_script(shown) == ["echo", "silent"]
    heading = browser.find_element("css selector", "table.dataTable#claims th:nth-child(2)")
    for direction in ("ascending", "descending"):
        heading.find_element("css selector", ".dt-column-title").click()
        WebDriverWait(browser, 60).until(lambda _, wanted=direction: heading.get_attribute("aria-sort") == wanted)
    assert browser.execute_script(shown) == ["silent", "echo"]
    browser.find_element("css selector", ".claims input").send_keys("silent")
    assert browser.execute_script(shown) == ["silent"]
    legend = browser.find_elements("css selector", "span.cell")
    assert len(legend) == len(VERDICT_LOOKS) and all(sign.size["height"] for sign in legend)
    cells[0].click()
    row = browser.find_element("css selector", "tr:target")
    assert browser.current_url.endswith("10_echo.html#claim-load-is-half") and "agrees" in row.text
    deadline = time.monotonic() + 10  # it scrolls once all is laid out
    while not browser.execute_script(
        "const r = arguments[0].getBoundingClientRect(); return r.y >= 0 && r.y < 700", row
    ):
        assert time.monotonic() < deadline, "the claim is not on the screen"
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in fetched if not name.startswith(("file:", "data:", "blob:"))] == []
    assert complaints(browser) == []
    widths = "return [...document.images].map(image => image.naturalWidth)"
    assert all(browser.execute_script(widths)) and len(browser.execute_script(widths)) == 2  # formula and figure


@pytest.mark.browser
def test_a_paper_that_nobody_has_run_says_so(site, browser):
    browser.get(f"file://{site}/index.html")
    browser.find_elements("css selector", ".papers a.cell")[1].click()
    assert "Nobody has run this notebook here" in browser.find_element("css selector", "body").text
    assert browser.find_element("css selector", "a#claim-load-is-half")


def test_every_link_leads_to_a_page_and_an_anchor_that_exist(site):
    followed = set()
    for page in site.rglob("*.html"):
        for target in re.findall(r'<a [^>]*href="([^":]*)"', page.read_text()):
            file, _, anchor = target.partition("#")
            other = page.parent / file if file else page
            assert other.exists(), f"{page.name} links to {target}"
            assert not anchor or f'id="{anchor}"' in other.read_text(), f"{page.name} links to {target}"
            followed.add(target)
    assert "11_silent.html#8-Paper,-class-report-and-ours" in followed and "10_echo.html" in followed


def test_progress_bars_are_left_out_and_what_one_can_play_with_says_where(site):
    shown = nbformat.v4.new_output("display_data", {module.WIDGET: {}, "text/plain": "cases:   0%|   | 0/3 [00:00<?]"})
    played = nbformat.v4.new_output("display_data", {module.WIDGET: {}, "text/plain": "VBox(children=(HBox(...)))"})
    assert module._is_progress_bar(shown) and not module._is_progress_bar(played)


def test_the_index_introduces_shows_a_figure_of_each_paper_that_has_one_and_names_the_repository(site):
    index = (site / "index.html").read_text()
    assert re.findall(r'<img src="([^"]+)"', index) == ["thumbnails/echo.png"]
    with Image.open(site / "thumbnails/echo.png") as picture:
        assert max(picture.size) <= max(module.THUMBNAIL_PIXELS)
    assert f'href="{module.REPOSITORY}"' in index and "Results Replicated" in index


@pytest.mark.parametrize(("sizes", "shown"), [([(90, 20), (50, 40), (40, 40)], 1), ([(90, 20), (80, 20)], 0)])
def test_a_thumbnail_is_the_first_figure_of_one_panel_or_the_first(tmp_path, sizes, shown):
    for number, size in enumerate(sizes):
        Image.new("RGB", size, (number, 0, 0)).save(tmp_path / f"{number}.png")
    paper = SimpleNamespace(slug="echo", declaration=SimpleNamespace(kind="paper"))
    made = module._thumbnails([SimpleNamespace(run=tmp_path, notebook=paper)], tmp_path)
    with Image.open(tmp_path / made["echo"]) as picture:
        assert picture.getpixel((0, 0)) == (shown, 0, 0)


def test_a_page_shows_the_run_that_decides(site, tmp_path, monkeypatch):
    shutil.copytree(site.parent, tmp_path / "copy")
    monkeypatch.setenv("NETREPRO_ROOT", str(tmp_path / "copy"))
    quick, paper = (tmp_path / "copy/runs" / name / "10_echo" for name in ("quick", "paper"))
    shutil.copytree(quick, paper)
    results = (paper / "results.json").read_text()
    (paper / "results.json").write_text(results.replace('"quick', '"paper'))
    claims = tmp_path / "copy/data/echo/claims.yaml"
    line = "    decided_by: {tier: simulated, profile: PROFILE, because: it is as good}\n"
    for profile, folder in (("paper", paper), ("quick", quick)):
        claims.write_text(claims.read_text().partition("    decided_by")[0] + line.replace("PROFILE", profile))
        assert module._run_shown(find("echo")) == folder


def test_formulas_are_pictures_and_code_is_not(site):
    page = (site / "10_echo.html").read_text()
    assert r'alt="E[W]=\rho/(1-\rho)"' in page and "<code>$HOME</code>" in page


@pytest.mark.parametrize("path", sorted(DATA.with_name("notebooks").glob("??_*.ipynb")), ids=lambda path: path.stem)
def test_every_formula_of_every_notebook_can_be_drawn(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            assert "$" not in module.FORMULA.sub(module._drawn, re.sub("`[^`]*`", "", cell.source))


def test_the_schema_takes_every_claims_file_and_names_a_mistyped_key(site):
    jsonschema = pytest.importorskip("jsonschema")  # nbformat brings it
    schema = json.loads((site / "claims.schema.json").read_text())
    assert schema == json.loads(claims_schema())
    for path in DATA.glob("*/claims.yaml"):
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"paper": "x", "title": "y", "claims": [], "titel": "z"}, schema)


def test_functions_are_described_module_by_module(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_module_names", lambda: ["netrepro.errors", "netrepro.claims.models", "netrepro.none"])
    module._describe_functions(tmp_path)
    assert "the valid word nearest to" in (tmp_path / "netrepro/errors.html").read_text()
    assert "The distance to the published value" in (tmp_path / "netrepro/claims/models.html").read_text()
    index = (tmp_path / "index.html").read_text()
    assert re.findall(r'href="(netrepro[^"]*)"', index) == ["netrepro/errors.html", "netrepro/claims/models.html"]
    assert "The one exception family" in index
    models = (tmp_path / "netrepro/claims/models.html").read_text()
    named = set(re.findall(r'href="#([^"]+)"', models))
    assert "Claim" in named and named <= set(re.findall(r'id="([^"]+)"', models))
    assert "_Strict" in models  # whose description is not there: its name is no link


def test_what_cannot_be_made_is_refused_in_two_lines(echo_paper, monkeypatch):
    command = [
        sys.executable,
        "-m",
        "netrepro.workbench.cli.commands",
        "gallery",
        "--no-functions",
        "--into",
        "/proc/none",
    ]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 2 and "cannot write to /proc/none" in said.stdout
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NetreproError, match="pdoc is not installed"):
        gallery(Path("/proc/none"))


def test_a_run_on_another_tier_is_shown_where_there_is_no_usual_one(site, tmp_path, monkeypatch):
    shutil.copytree(site.parent, tmp_path / "copy")
    monkeypatch.setenv("NETREPRO_ROOT", str(tmp_path / "copy"))
    folder = tmp_path / "copy/runs/quick/10_echo"
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"usual_tier": "virtual"}))
    assert newest_executed("echo") == folder
    (folder / "manifest.json").write_text(json.dumps(manifest | {"changed": {"load": 0.7}}))
    assert newest_executed("echo") is None
