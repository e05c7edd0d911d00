"""What a notebook that somebody handed over may hold, and must not do in the browser of who looks at its page."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from headless_browser import headless_browser, is_installed
from selenium import webdriver

from netrepro.workbench import gallery
from netrepro.workbench.running import run_folder

MARK = "document.documentElement.dataset.attacked = '1'"
ATTACKS = {
    "script": f"<script>{MARK}</script>",
    "handler": f'<img src="x" onerror="{MARK}">',
    "vector": f'<svg onload="{MARK}"><script>{MARK}</script></svg>',
    "address": f'<a id="click" href="javascript:void({MARK})">here</a>',
    "frame": f'<iframe srcdoc="<script>parent.{MARK}</script>"></iframe>',
    "redirection": '<META http-equiv="refresh" content="0; url=http://127.0.0.1:PORT/redirected">',
    "policy": '</body></html><html><head><meta http-equiv="Content-Security-Policy" content="script-src *">'
    f"<script>{MARK}</script>",
    "picture": '<img src="http://127.0.0.1:PORT/picture">',
    "style": '<style>body { background: url("http://127.0.0.1:PORT/style") }</style>',
    "form": '<form action="http://127.0.0.1:PORT/form"><input type="submit" id="click"></form>',
}


@pytest.fixture
def server() -> Iterator[tuple[int, list[str]]]:
    """A server of somebody else, and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield listening.server_port, asked
        listening.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if not is_installed():
        pytest.skip("needs chromium")
    with headless_browser(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


def hand_over(run: Path, attack: str) -> None:
    """Put an attack into an output, a text, an error and the title of the notebook in a run's folder."""
    path = run / run_folder.EXECUTED
    notebook = nbformat.read(path, as_version=4)
    code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    data = {"text/html": attack, "text/plain": "shown"}
    code.outputs = [
        nbformat.v4.new_output("display_data", data),
        nbformat.v4.new_output("display_data", {"text/markdown": attack}),
        nbformat.v4.new_output(
            "display_data", {"image/svg+xml": f"<svg xmlns='http://www.w3.org/2000/svg'>{attack}</svg>"}
        ),
        nbformat.v4.new_output("stream", name="stdout", text=attack),
    ]
    notebook.cells.append(nbformat.v4.new_markdown_cell(attack))
    notebook.metadata["title"] = f"</title>{attack}"
    nbformat.write(notebook, path)


@pytest.mark.browser
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_page_of_a_notebook_runs_and_loads_nothing_of_it(attack, good_echo, workbench, browser, server):
    port, asked = server
    hand_over(good_echo, attack.replace("PORT", str(port)))
    gallery(workbench / "site", functions=False)
    address = f"file://{workbench}/site/10_echo.html"
    browser.get(address)
    for element in browser.find_elements("css selector", "#click"):
        browser.execute_script("arguments[0].click()", element)
    browser.execute_async_script("setTimeout(arguments[0], 500)")
    assert browser.current_url.partition("#")[0] == address
    assert browser.execute_script("return document.documentElement.dataset.attacked") is None
    assert asked == []


@pytest.mark.browser
def test_the_same_attacks_work_on_a_page_without_protection(workbench, browser, server):
    """Else the test above would prove nothing."""
    port, asked = server
    page = workbench / "bare.html"
    for name, attack in ATTACKS.items():
        asked.clear()
        page.write_text(f"<!DOCTYPE html><html><body>{attack.replace('PORT', str(port))}</body></html>")
        browser.get(f"file://{page}")
        for element in browser.find_elements("css selector", "#click"):
            browser.execute_script("arguments[0].click()", element)
        browser.execute_async_script("setTimeout(arguments[0], 500)")
        attacked = browser.execute_script("return document.documentElement.dataset.attacked || ''")
        assert attacked or asked, name


def test_what_needs_a_script_says_where_it_can_be_seen(good_echo, workbench):
    hand_over(good_echo, "<script>1</script><b>bold</b>")
    gallery(workbench / "site", functions=False)
    page = (workbench / "site/10_echo.html").read_text()
    assert "<b>bold</b>" not in re.sub(
        r'<div class="jp-RenderedHTMLCommon jp-RenderedMark.*?</div>', "", page, flags=re.S
    )
    assert "to play with this, open the notebook in JupyterLab" in page
