"""JupyterLab in a real browser: a student opens the paper, runs all cells, sees the figures and the widget."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from headless_browser import headless_browser, is_installed
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

REPOSITORY = Path(__file__).parents[2]
OPTIONS = (
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1800",
)
# The notebook that is open; which widget is current depends on the focus, which a window that nobody sees may lack.
NOTEBOOK = "[...window.jupyterapp.shell.widgets('main')].find(widget => widget.sessionContext)"
RUN_ALL = (
    f"window.jupyterapp.shell.activateById({NOTEBOOK}.id);window.jupyterapp.commands.execute('notebook:run-all-cells')"
)
STATE = f"""
const panel = {NOTEBOOK};
const cells = [...panel.content.model.cells].filter(cell => cell.type === 'code');
return {{
  total: cells.length,
  run: cells.filter(cell => cell.executionCount !== null).length,
  errors: cells.flatMap(cell => cell.outputs.toJSON()).filter(output => output.output_type === 'error')
    .map(output => output.ename + ': ' + output.evalue),
  busy: panel.sessionContext.kernelDisplayStatus,
}};
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not is_installed(),
        reason="needs chromium and chromium-driver (apt-get install chromium chromium-driver)",
    ),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab over this checkout, as `make lab` starts it but without a token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path_factory.mktemp("jupyter")
    log = (home / "lab.log").open("w")
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="]
    command += ["--ServerApp.disable_check_xsrf=True", f"--notebook-dir={REPOSITORY}"]
    environment = os.environ | {f"JUPYTER_{kind}_DIR": str(home / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(home / "s"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "w")}
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=5)
                break
            except OSError:
                assert server.poll() is None, (home / "lab.log").read_text()
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(30)
        log.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with headless_browser(tmp_path_factory.mktemp("chromium"), *OPTIONS) as driver:
        yield driver


def _move_slider(driver: webdriver.Chrome) -> bool:
    """Three steps to the right; a notebook that is still drawing may replace the handle under the hand."""
    driver.find_element(By.CSS_SELECTOR, ".widget-slider .noUi-handle").send_keys("\ue014" * 3)  # arrow right
    return True


def test_a_student_runs_the_first_paper_and_sees_its_figures_and_plays_with_its_widget(lab, browser):
    browser.get(f"{lab}/lab/tree/notebooks/21_repflow_model.ipynb?reset")
    WebDriverWait(browser, 120).until(
        lambda driver: driver.execute_script(
            f"return !!(window.jupyterapp && {NOTEBOOK} && {NOTEBOOK}.content.model"
            f" && {NOTEBOOK}.sessionContext.kernelDisplayStatus === 'idle')"
        )
    )
    browser.execute_script(RUN_ALL)
    state: dict = {}
    for _ in range(1200):
        state = browser.execute_script(STATE)
        if state["errors"] or (state["run"] == state["total"] and state["busy"] == "idle"):
            break
        time.sleep(0.25)
    assert state["errors"] == []
    assert state["run"] == state["total"] > 10

    # A long notebook draws only what is in view: go to the cell with the sliders.
    index = browser.execute_script(
        f"return [...{NOTEBOOK}.content.model.cells].findIndex(cell => cell.sharedModel.source.includes('explore('))"
    )
    assert index > 0
    browser.execute_script(f"{NOTEBOOK}.content.activeCellIndex = {index};")
    browser.execute_script(f"return {NOTEBOOK}.content.scrollToItem({index}, 'center')")
    WebDriverWait(browser, 60).until(
        lambda driver: next(iter(driver.find_elements(By.CSS_SELECTOR, ".widget-slider .noUi-handle")), None)
    )
    drawn = WebDriverWait(browser, 60).until(
        lambda driver: next(iter(driver.find_elements(By.CSS_SELECTOR, ".widget-output img, .jp-OutputArea img")), None)
    )
    assert drawn.size["width"] > 300
    before = {image.get_attribute("src") for image in browser.find_elements(By.CSS_SELECTOR, ".widget-output img")}
    patient = WebDriverWait(browser, 60, ignored_exceptions=(StaleElementReferenceException,))
    patient.until(_move_slider)
    patient.until(
        lambda driver: (
            {image.get_attribute("src") for image in driver.find_elements(By.CSS_SELECTOR, ".widget-output img")}
            - before
        )
    )
    target = REPOSITORY / "runs" / "browser" / "21_repflow_model.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    assert browser.save_screenshot(str(target))
