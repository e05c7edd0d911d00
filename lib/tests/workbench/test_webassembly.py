"""The simulator in a page: the same bytes as in Python under node and in Chromium, and live pages that are moved."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headless_browser import complaints, headless_browser, is_installed, of_width
from hypothesis import example, given
from hypothesis import strategies as st
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from smallest import SMALLEST, smallest

from netrepro import _core
from netrepro.claims import all_papers
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, dumbbell
from netrepro.papers import dctcp
from netrepro.programs import need_program
from netrepro.simulation.described import describe, described_measurements, read_described
from netrepro.study import between_real_hosts, points, run_experiment, run_once
from netrepro.workbench.catalogue.notebooks import catalogue
from netrepro.workbench.publishing import pages, webassembly
from netrepro.workbench.publishing.live import difference, live_page, patched, write_live_pages
from netrepro.workbench.publishing.webassembly import (
    SCRIPT,
    get_tools,
    web_script,
    why_no_webassembly,
    write_web_package,
)

CASES_A_PAPER = 3
MOST_FLOWS = 400  # of an experiment here: larger ones differ in nothing but time
needs_emscripten = pytest.mark.skipif(bool(why_no_webassembly()), reason=why_no_webassembly())

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(json_values, json_values)
@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
def test_a_difference_makes_one_description_of_another(base, other):
    wrapped, wanted = {"all": base}, {"all": other}
    before = json.dumps(wrapped)
    again = patched(wrapped, difference(wrapped, wanted))
    assert json.dumps(again) == json.dumps(wanted) and json.dumps(wrapped) == before
    assert difference(wanted, wanted) == []


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web")
    write_web_package(folder)
    return folder


def experiments_of_papers() -> Iterator[tuple[str, Experiment]]:
    """A few cases of each paper whose experiments are described, at the smallest size."""
    for slug in (paper.paper for paper in all_papers()):
        study = smallest(slug)
        scale = study.scale(SMALLEST)
        settings: dict[str, Any] = {}
        for point in points(study.cases, study.setting, scale):
            settings.setdefault(point.case, point.setting)
        own = getattr(import_module(f"netrepro.papers.{slug}"), "experiment", None)
        makers = ((case, study.part_of(setting).experiment or own, setting) for case, setting in settings.items())
        made = (
            (f"{slug}, {case}", between_real_hosts(make(setting, scale.seconds or 1.0, 7)))
            for case, make, setting in makers
            if make is not None and type(setting) is type(study.setting)
        )
        small = ((name, each) for name, each in made if len(each.flow_table) <= MOST_FLOWS)
        yield from islice(small, CASES_A_PAPER)


def columns_of(text: str) -> dict[str, np.ndarray]:
    run = _core.DescribedRun(text)
    while not run.run(1 << 17):
        pass
    return run.columns()


def digest(columns: dict[str, np.ndarray]) -> str:
    both = hashlib.sha256()
    for name in sorted(columns):
        both.update(name.encode() + columns[name].tobytes())
    return both.hexdigest()


BY_NODE = """
const [script, folder] = process.argv.slice(1);
const { run } = require(script);
const { createHash } = require("crypto");
const { readFileSync, readdirSync } = require("fs");
(async () => {
  const hashes = {};
  for (const name of readdirSync(folder)) {
    const { columns } = await run(readFileSync(`${folder}/${name}`, "utf8"));
    const both = createHash("sha256");
    for (const each of Object.keys(columns).sort()) both.update(each).update(new Uint8Array(columns[each].buffer));
    hashes[name] = both.digest("hex");
  }
  console.log(JSON.stringify(hashes));
})();
"""


def by_node(script: str, *arguments: str | Path) -> Any:
    command = [need_program("node"), "-e", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_emscripten
def test_papers_experiments_give_the_same_bytes_under_node_as_in_python(package, tmp_path):
    names, hashes = [], {}
    for place, (name, experiment) in enumerate(experiments_of_papers()):
        text = json.dumps(describe(experiment))
        columns = columns_of(text)
        run, again = run_experiment(experiment), described_measurements(experiment, columns)
        assert again.flows.equals(run.flows) and again.queues.equals(run.queues) and again.links.equals(run.links), name
        (tmp_path / f"{place:03}.json").write_text(text)
        hashes[f"{place:03}.json"] = digest(columns)
        names.append(name)
    assert len({name.partition(",")[0] for name in names}) >= 12, names
    by_web = by_node(BY_NODE, package / SCRIPT, tmp_path)
    assert by_web == hashes, [names[int(each[:3])] for each in hashes if by_web.get(each) != hashes[each]]


def a_line(seconds: float = 2.0) -> Experiment:
    network = dumbbell(1, access=Link(100, 1), bottleneck=Link(10, 10, DropTail(packets=50)))
    measure = Measure(queues=("s1", "s2"), windows_interval_ms=100, packets=("s1", "s2"), since_s=0.5)
    flows = [Flow("h1", "h2", duration_s=seconds), Flow("h2", "h1", size_bytes=50_000, start_s=1, label="short")]
    return Experiment(network, flows, seconds, measure=measure)


@needs_emscripten
def test_tables_in_javascript_are_those_of_python(package, tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(describe(a_line())))
    script = """
      const [script, file] = process.argv.slice(1);
      const { run } = require(script);
      run(require("fs").readFileSync(file, "utf8")).then((result) => {
        const tables = { packets: result.packets(["s1", "s2"]) };
        for (const name of ["flows", "links", "queues", "windows"]) tables[name] = result[name];
        for (const table of Object.values(tables))
          for (const name of Object.keys(table)) table[name] = table[name] && Array.from(table[name]);
        const read = (reading) => result.read({ table: "packets", port: ["s1", "s2"], column: "wait_ms", ...reading });
        const numbers = ["p50", "p95", "mean", "deviation", "least", "most", "count"].map((reduce) => read({ reduce }));
        const short = result.read({ table: "flows", column: "goodput_mbps", label: "short" });
        console.log(JSON.stringify({ tables, numbers, short }));
      });
    """
    given = by_node(script, package / SCRIPT, tmp_path / "one.json")
    run = run_experiment(replace(a_line(), host_delay_packets=0))
    for name, table in given["tables"].items():
        python = getattr(run, name)
        shared = [column for column in python if table.get(column) is not None]
        assert len(shared) >= 3, name
        for column in shared:
            ours = [np.nan if value is None else value for value in table[column]]
            if python[column].dtype.kind in "if":
                np.testing.assert_allclose(ours, python[column], rtol=1e-12, err_msg=f"{name}.{column}")
            else:
                assert ours == python[column].tolist(), column
    waits = run.packets.wait_ms
    expected = [waits.median(), waits.quantile(0.95), waits.mean(), waits.std(ddof=0), waits.min(), waits.max()]
    assert given["numbers"] == pytest.approx([*expected, len(waits)], rel=1e-12)
    assert given["short"] == pytest.approx(run.flows.goodput_mbps[1], rel=1e-12)


@needs_emscripten
def test_what_is_wrong_is_said_and_a_run_can_be_cancelled(package, tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(describe(a_line(60.0))))
    script = """
      const [script, file] = process.argv.slice(1);
      const { run } = require(script);
      const text = require("fs").readFileSync(file, "utf8");
      (async () => {
        const said = [];
        for (const wrong of ['{"version": 2, "set_up": []}', '{"version": 1, "set_up": []}'])
          await run(wrong).catch((error) => said.push(error.message));
        const stop = new AbortController();
        const shares = [];
        const progress = (share) => { shares.push(share); stop.abort(); };
        await run(text, { progress, signal: stop.signal }).catch((error) => said.push(error.name));
        const { seconds } = await run(text);
        console.log(JSON.stringify({ said, shares, seconds }));
      })();
    """
    told = by_node(script, package / SCRIPT, tmp_path / "one.json")
    assert "version 2" in told["said"][0] and "without a simulator" in told["said"][1]
    assert told["said"][2] == "AbortError" and 0 < told["shares"][0] < 1 and told["seconds"] == 60


needs_browser = pytest.mark.skipif(
    not is_installed(), reason="needs chromium and chromium-driver (apt-get install chromium chromium-driver)"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with headless_browser(tmp_path_factory.mktemp("chromium"), "--window-size=1280,1100") as driver:
        driver.set_script_timeout(60)
        yield driver


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = live_page(dctcp.STUDY)
    assert made is not None and made.compared >= 8
    folder = tmp_path_factory.mktemp("site")
    (written,) = write_live_pages([made], {"dctcp": "../14_dctcp.html"}, folder)
    weight = sum(path.stat().st_size for path in folder.iterdir())
    assert weight < 500_000
    return written.as_uri()


def settled(browser: webdriver.Chrome) -> dict[str, str]:
    """Wait until the page has run what its link says; return the link's settings."""
    ran = "return location.hash !== '' && document.body.dataset.ran === location.hash"
    WebDriverWait(browser, 60, poll_frequency=0.05).until(lambda driver: driver.execute_script(ran))
    pairs = browser.execute_script("return [...new URLSearchParams(location.hash.slice(1))]")
    return dict(pairs)


def gauge(browser: webdriver.Chrome, name: str) -> float:
    return float(browser.execute_script(f"return document.getElementById('gauge-{name}').parentElement.dataset.value"))


def python_number(case: str, told: Mapping[str, Any], name: str) -> float:
    changed = {"threshold_packets": int(told["threshold_packets"]), "host_delay_ms": float(told["host_delay_ms"])}
    return float(dctcp.read(run_once(dctcp.STUDY, case, 10.0, **changed), dctcp.STUDY.setting)[name])


@needs_emscripten
@needs_browser
@pytest.mark.browser
def test_a_reader_moves_every_slider_and_sees_what_python_computes(browser, page):
    browser.get(page)
    told = settled(browser)
    assert told["case"] == "dctcp" and gauge(browser, "mean_packets") == pytest.approx(
        python_number("dctcp", told, "mean_packets"), rel=1e-9
    )
    for slider in browser.find_elements(By.CSS_SELECTOR, "#knobs input"):
        before = settled(browser)
        slider.send_keys(Keys.ARROW_RIGHT)
        told = settled(browser)
        assert told[slider.get_attribute("id")] != before[slider.get_attribute("id")]
        for name in dctcp.LIVE.gauges:
            assert gauge(browser, name) == pytest.approx(python_number("dctcp", told, name), rel=1e-9)
    # The published value and the accepted band stay while the mechanism is broken.
    browser.find_element(By.ID, "broken").click()
    told = settled(browser)
    broken = python_number(dctcp.NO_MARKS, told, "mean_packets")
    assert told["broken"] == "1" and gauge(browser, "mean_packets") == pytest.approx(broken, rel=1e-9) and broken > 100
    assert "accepted 17 to 21" in browser.find_element(By.ID, "gauges").text
    # A link holds the settings.
    link = browser.current_url
    browser.get("about:blank")
    browser.get(link)
    assert settled(browser) == told and gauge(browser, "mean_packets") == pytest.approx(broken, rel=1e-9)
    assert browser.find_elements(By.CSS_SELECTOR, "#course canvas")
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(re.match("file:|blob:", name) for name in loaded)
    assert complaints(browser) == []


@needs_emscripten
@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_a_telephone_and_a_desk(browser, page, width):
    with of_width(browser, width):
        browser.get(page)
        settled(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        canvas = browser.find_element(By.CSS_SELECTOR, "#course canvas")
        assert canvas.size["width"] > 0.8 * min(width, 1100) - 40


@needs_emscripten
@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_notebooks_page_holds_its_play_and_needs_no_other_file(browser, tmp_path, width):
    (notebook,) = (each for each in catalogue() if each.slug == "dctcp")
    still = pages.write_page(notebook, tmp_path)
    weight = (tmp_path / still.file).stat().st_size
    made = live_page(dctcp.STUDY)
    written = pages.write_page(notebook, tmp_path, made)
    assert (tmp_path / written.file).stat().st_size - weight < 500_000
    assert [path.name for path in tmp_path.iterdir()] == [written.file]
    with of_width(browser, width):
        browser.get((tmp_path / written.file).as_uri())
        browser.switch_to.frame(browser.find_element(By.CSS_SELECTOR, "iframe[title=play]"))
        ran = "return document.body.dataset.ran !== undefined"
        WebDriverWait(browser, 60, poll_frequency=0.05).until(lambda driver: driver.execute_script(ran))
        assert made is not None
        first = {knob["name"]: knob["values"][knob["first"]] for knob in made.data["knobs"]}
        expected = python_number("dctcp", first, "mean_packets")
        assert gauge(browser, "mean_packets") == pytest.approx(expected, rel=1e-9)
        browser.find_element(By.ID, "broken").click()
        broken = python_number(dctcp.NO_MARKS, first, "mean_packets")
        WebDriverWait(browser, 60).until(lambda driver: abs(gauge(driver, "mean_packets") / broken - 1) < 1e-9)
        fits = "const { scrollHeight, scrollWidth } = document.documentElement;"
        assert browser.execute_script(f"{fits} return scrollHeight <= innerHeight && scrollWidth <= innerWidth")
        assert complaints(browser) == []


@needs_emscripten
@needs_browser
@pytest.mark.browser
def test_chromium_gives_the_same_bytes_and_its_experiment_reads_back_in_python(browser, page):
    browser.get(page)
    settled(browser)
    experiment = replace(a_line(), seed=2**63 + 1)
    text = json.dumps(describe(experiment))
    script = """
      const [text, done] = arguments;
      netreproWeb.run(text).then(({ columns }) => done(Object.fromEntries(Object.entries(columns).map(
        ([name, column]) => [name, btoa(String.fromCharCode(...new Uint8Array(column.buffer)))]))));
    """
    given = browser.execute_async_script(script, text)
    columns = {name: np.frombuffer(base64.b64decode(each)) for name, each in given.items()}
    assert digest(columns) == digest(columns_of(text))
    script = """
      const [done] = arguments;
      pageData().then((data) => done(JSON.stringify(asked(data.cases.dctcp, [6, 1]).described)));
    """
    shown = browser.execute_async_script(script)
    told, _ = read_described(shown)
    setting = dctcp.STUDY.case("dctcp")
    assert told == dctcp.experiment(setting, 10.0, 1)


def test_what_is_missing_is_said_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(webassembly, "LIBRARY", tmp_path)  # no lock, so that pip fetches nothing
    why = get_tools()
    assert why.startswith("emscripten is not installed") and "pip cannot fetch node" in why and "\n" not in why
    assert list((tmp_path / "cache" / "netrepro" / "web" / "tools").iterdir()) == [], "nothing half-made is left"
    assert why_no_webassembly() == "emscripten is not installed: apt-get install emscripten nodejs npm"
    web_script.cache_clear()
    with pytest.raises(NetreproError, match="emscripten is not installed"):
        web_script()


LIVE_PAPERS = [
    slug
    for slug in (paper.paper for paper in all_papers())
    if (play := getattr(getattr(import_module(f"netrepro.papers.{slug}"), "STUDY", None), "play", None)) and play.live
]


def test_most_simulated_papers_have_a_live_page():
    assert len(LIVE_PAPERS) >= 16


@needs_emscripten
@pytest.mark.parametrize("slug", LIVE_PAPERS)
def test_a_papers_page_gives_the_numbers_of_its_reading(slug):
    study = import_module(f"netrepro.papers.{slug}").STUDY
    live = study.play.live
    # The ends of each slider: describing all combinations is what takes time.
    few = {name: tuple(values[:: max(1, len(values) - 1)])[:2] for name, values in live.values.items()}
    made = live_page(replace(study, play=replace(study.play, live=replace(live, values=few))))
    assert made is not None and made.compared >= 4 * len(made.data["tabs"])
    one = made.data["cases"][made.data["tabs"][0]]
    assert set(one["at"][0]["base"]["gauges"]) == set(live.gauges)
    assert any(one["moves"]), "no slider changes the first case"


@needs_emscripten
def test_a_number_that_differs_from_python_is_no_page():
    live = dctcp.LIVE
    wrong = replace(live.gauges["mean_packets"], of=live.gauges["mean_packets"].of | {"reduce": "p50"})
    play = dctcp.STUDY.play
    assert play is not None
    broken = replace(live, gauges=live.gauges | {"mean_packets": wrong}, values={"threshold_packets": (10, 20)})
    with pytest.raises(NetreproError, match="the page's mean_packets"):
        live_page(replace(dctcp.STUDY, play=replace(play, live=broken)))
