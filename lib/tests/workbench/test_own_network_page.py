"""A network of the reader's own: the page's description and its Python script are one experiment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from headless_browser import complaints, headless_browser, is_installed, of_width
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from netrepro.programs import find_program, need_program
from netrepro.simulation.described import describe
from netrepro.workbench.publishing.live import write_live_pages
from netrepro.workbench.publishing.own_network import OWN_PAGE, page_data
from netrepro.workbench.publishing.webassembly import SOURCES, why_no_webassembly

needs_node = pytest.mark.skipif(find_program("node") is None, reason="nodejs is not installed")
needs_emscripten = pytest.mark.skipif(bool(why_no_webassembly()), reason=why_no_webassembly())
needs_browser = pytest.mark.skipif(
    not is_installed(), reason="needs chromium and chromium-driver (apt-get install chromium chromium-driver)"
)
BY_NODE = """
const [own, folder] = process.argv.slice(1);
const { ownExperiment, ownScript } = require(own);
const read = (name) => JSON.parse(require("fs").readFileSync(`${folder}/${name}`, "utf8"));
const data = read("data.json");
console.log(JSON.stringify(read("chosen.json").map((one) => [ownExperiment(data, one), ownScript(data, one)])));
"""


def choices(values: dict[str, list[Any]], count: int) -> list[dict[str, Any]]:
    """The first value of all, the last value of all, and random ones."""
    random = Random(7)
    ends = [{name: offered[place] for name, offered in values.items()} for place in (0, -1)]
    return ends + [{name: random.choice(offered) for name, offered in values.items()} for _ in range(count)]


def run_script(text: str, *, runs: bool) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text if runs else text.partition("run = ")[0], names)
    return names


@needs_node
def test_the_pages_experiment_is_that_of_its_python_script(tmp_path):
    data = page_data()
    chosen = choices(data["values"], 120)
    (tmp_path / "data.json").write_text(json.dumps(data))
    (tmp_path / "chosen.json").write_text(json.dumps(chosen))
    command = [need_program("node"), "-e", BY_NODE, str(SOURCES / "own.js"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert {one["topology"] for one in chosen} == set(data["shapes"])
    for one, (described, script) in zip(chosen, json.loads(done.stdout), strict=True):
        python = json.loads(json.dumps(describe(run_script(script, runs=False)["experiment"])))
        assert described == python, one


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with headless_browser(tmp_path_factory.mktemp("chromium"), "--window-size=1280,1100") as driver:
        driver.set_script_timeout(60)
        yield driver


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("site")
    assert write_live_pages([], {}, folder) == []
    scripts = [path for path in folder.iterdir() if path.name != "live.js"]
    assert sum(path.stat().st_size for path in scripts) < 500_000
    return Path(folder, OWN_PAGE).as_uri()


def settled(browser: webdriver.Chrome) -> None:
    ran = "return location.hash !== '' && document.body.dataset.ran === location.hash"
    WebDriverWait(browser, 60, poll_frequency=0.05).until(lambda driver: driver.execute_script(ran))


def shown(browser: webdriver.Chrome, column: int) -> list[float]:
    script = (
        f"return [...document.querySelectorAll('#results tr')].slice(1).map((row) => row.cells[{column}].dataset.value)"
    )
    return [float(each) for each in browser.execute_script(script)]


@needs_emscripten
@needs_browser
@pytest.mark.browser
def test_a_reader_builds_a_network_and_its_script_gives_the_same_numbers(browser, page):
    browser.get(page)
    settled(browser)
    for name, value in {
        "topology": "parking lot",
        "flows": "4",
        "queue": "CoDel",
        "other_control": "bbr",
        "flow_kb": "500",
    }.items():
        Select(browser.find_element(By.ID, f"choose-{name}")).select_by_visible_text(value)
    browser.find_element(By.ID, "run").click()
    settled(browser)
    assert "other_control=bbr" in browser.current_url
    # What the download holds is the text that is shown.
    run = run_script(browser.find_element(By.ID, "python").get_attribute("textContent"), runs=True)["run"]
    assert shown(browser, 2) == pytest.approx(run.flows.goodput_mbps.tolist(), rel=1e-9)
    assert shown(browser, 3) == pytest.approx(run.flows.completion_ms.tolist(), rel=1e-9, nan_ok=True)
    assert run.flows.completion_ms.notna().all() and run.flows.goodput_mbps.min() > 0
    assert len(browser.find_elements(By.CSS_SELECTOR, "#throughput canvas, #queue canvas, #completion canvas")) == 3
    # A link holds the choices.
    link, numbers = browser.current_url, shown(browser, 3)
    browser.get("about:blank")
    browser.get(link)
    settled(browser)
    assert shown(browser, 3) == numbers
    assert complaints(browser) == []


@needs_emscripten
@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_network_of_ones_own_fits_a_telephone_and_a_desk(browser, page, width):
    with of_width(browser, width):
        browser.get(page)
        settled(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
