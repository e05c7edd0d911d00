"""Live pages: a paper's play in the reader's browser, by the simulator as WebAssembly (study's `Live`).

The page holds a described experiment for each of its settings, and computes its numbers itself. It is written only
where these equal what the paper's own Python reads from the same run.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

from netrepro.claims import load_claims
from netrepro.claims.scorecard import scorecard
from netrepro.errors import NetreproError
from netrepro.simulation.described import describe
from netrepro.study import Evidence, Live, Study, between_real_hosts, read_once, setting_of
from netrepro.study.live import LiveRun
from netrepro.workbench.publishing.own_network import ACCESS_MS, ACCESS_TIMES, APART_S, OWN_PAGE, page_data
from netrepro.workbench.publishing.templating import Markup, render
from netrepro.workbench.publishing.webassembly import SCRIPT, SOURCES, drawing_files, need_tool, web_script

SEED = 1
MOST_DIFFERENCE = 1e-9  # between a page's number and Python's, relative: sums are added in another order
CHECKED = 3  # settings of each case that are run, beside the one that the page shows first
Path_ = tuple[str | int, ...]
Patch = list[list[Any]]


@dataclass(frozen=True)
class LivePage:
    """A live page: its data, and how many settings were compared with Python."""

    slug: str
    data: dict[str, Any]
    compared: int


def live_page(study: Study) -> LivePage | None:
    """Describe the experiments of a study's live page and check its numbers; None where the study has no such page.

    Raises NetreproError for a number that differs from Python's, and where node is missing.
    """
    play = study.play
    if play is None or play.live is None:
        return None
    live = _as_run(play.live)
    cases = list(live.cases or play.cases)
    shown = [*cases, *(each for each in live.broken.values() if each not in cases)]
    data = {
        "slug": study.slug,
        "seconds": play.seconds,
        "changes": dict(live.changes),
        "knobs": [_knob(study, name, values) for name, values in live.values.items()],
        "gauges": [{"name": name, "label": each.label, "unit": each.unit} for name, each in live.gauges.items()],
        "axis": live.axis,
        "tabs": cases,
        "broken": dict(live.broken),
        "cases": {case: _case(study, live, case) for case in shown},
        "claims": _claims(study, live, shown),
    }
    return LivePage(study.slug, data, _compare(study, live, data))


def write_live_pages(pages: Sequence[LivePage], notebooks: Mapping[str, str], into: Path) -> list[Path]:
    """Write a page for each paper into a folder, one for a network of the reader's own (OWN_PAGE), and the scripts that
    they share; return the papers' pages.

    notebooks : slug -> the address of its notebook's page.
    """
    into.mkdir(parents=True, exist_ok=True)
    shared = (
        {name: _source(name) for name in ("page.js", "live.js", "own.js")} | {SCRIPT: web_script()} | drawing_files()
    )
    for name, text in shared.items():
        (into / name).write_text(text, encoding="utf-8")
    access = f"their own links are {ACCESS_TIMES} times as fast as the others and take {ACCESS_MS:g} ms"
    built = render("own", inside=None, data=packed(page_data()), apart=APART_S, access=access)
    (into / OWN_PAGE).write_text(built, encoding="utf-8")
    written, table = [], scorecard()
    for page in pages:
        decided = [_decided(row) for row in table[table["paper"] == page.slug].to_dict("records")]
        title = load_claims(page.slug).title
        told = {"title": title, "notebook": notebooks[page.slug], "decided": decided}
        text = render("live", inside=None, changes=_changes(page), data=packed(page.data), **told)
        written.append(into / f"{page.slug}.html")
        written[-1].write_text(text, encoding="utf-8")
    return written


def play_inside(page: LivePage) -> tuple[str, list[str]]:
    """Return the play of a paper as HTML for another page, with all that it needs in it, and the texts of its scripts,
    which that page has to allow."""
    drawing = drawing_files()
    scripts = [drawing["uplot.js"], web_script(), _source("page.js"), _source("live.js")]
    inside = {"style": Markup(drawing["uplot.css"]), "scripts": [Markup(script) for script in scripts]}
    told = {"title": load_claims(page.slug).title, "changes": _changes(page), "data": packed(page.data)}
    # A frame, so that its names and styles are not those of the page around it.
    text = render("live", inside=inside, **told)
    frame = f'<iframe title="play" style="width: 100%; height: 60em; border: 0" srcdoc="{escape(text)}"></iframe>'
    return frame, scripts


def _changes(page: LivePage) -> str:
    return ", ".join(f"{name} = {value}" for name, value in page.data["changes"].items())


def _source(name: str) -> str:
    return (SOURCES / name).read_text(encoding="utf-8")


def packed(data: Any) -> str:
    """Compress what a page holds: JSON, by gzip, as base64. Experiments of many settings repeat each other."""
    return base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode()


def _decided(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a claim's line for the template: what it says, its verdict, and the run that decided."""
    by = f"tier {row['tier']}, {row['profile']} profile" if row["tier"] else ""
    return {"says": str(row["says"]), "where": str(row["where"]), "verdict": str(row["verdict"]), "by": by}


def _knob(study: Study, name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return a slider's label, unit and values, and the place of the value that is shown first."""
    start = getattr(study.setting, name)
    place = min(range(len(values)), key=lambda each: _distance(values[each], start))
    units = {} if "_per_" in name else _UNITS  # flows_per_100_mbps has no unit
    end, unit = next(((end, unit) for end, unit in units.items() if name.endswith(end)), ("", ""))
    label = name.removesuffix(end).replace("_", " ")
    return {"name": name, "label": label, "unit": unit, "values": list(values), "first": place}


_UNITS = {"_ms": "ms", "_mbps": "Mb/s", "_packets": "packets", "_segments": "segments", "_bytes": "bytes", "_kb": "kB"}
_UNITS |= {"_mb": "MB", "_pipes": "bandwidth-delay products", "_round_trips": "round trips"}


def _distance(value: Any, start: Any) -> float:
    if value == start:
        return -1.0
    is_number = isinstance(start, int | float) and not isinstance(start, bool)
    return abs(math.log(value / start)) if is_number and value > 0 and start > 0 else math.inf


def _asked(study: Study, live: LiveRun, case: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the experiment of a case with these fields, as `run_once` runs it, and how its gauges read it."""
    setting = _setting(study, live, case, values)
    make = live.experiment or study.part_of(setting).experiment
    if make is None or study.play is None:
        raise NetreproError(f"{study.slug}: case {case!r} is no experiment", "leave it out of the live page")
    experiment = between_real_hosts(make(setting, study.play.seconds, SEED))
    watching = replace(experiment, measure=replace(experiment.measure, **live.watched))
    port = list(live.port(setting))
    gauges = {}
    for name, each in live.gauges.items():
        own = live.of_setting[name](setting) if name in live.of_setting else {}
        gauges[name] = _at({**each.of, **own}, port)
    return {"described": describe(watching), "gauges": gauges}


def _as_run(live: Live) -> LiveRun:
    return live if isinstance(live, LiveRun) else LiveRun(**vars(live))


def _setting(study: Study, live: LiveRun, case: str, values: Mapping[str, Any]) -> Any:
    own = {name: value for name, value in {**live.changes, **values}.items() if hasattr(study.case(case), name)}
    return setting_of(study, case, **own)


def _case(study: Study, live: LiveRun, case: str) -> dict[str, Any]:
    """Describe a case at each value of the first slider, which alone may change the network; the case's fields that the
    page sets; and which sliders it depends on."""
    setting, (name, *others) = study.case(case), live.values
    takes = [each for each in (*live.changes, *live.values) if hasattr(setting, each)]
    at = [_rest(study, live, case, {name: value}, others) for value in live.values[name]]
    moved = [any(any(one["alone"][place]) for one in at) for place in range(len(others))]
    course = _at(live.course, list(live.port(setting)))
    return {"at": at, "takes": takes, "moves": [any(one != at[0] for one in at), *moved], "course": course}


def _rest(study: Study, live: LiveRun, case: str, start: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Describe a case from a start on: its experiment at the first values of the sliders `names`, what each of their
    values changes in it, and what combinations change beside that."""
    values = [live.values[name] for name in names]
    first = dict(start) | {name: each[0] for name, each in zip(names, values, strict=True)}
    base = _asked(study, live, case, first)
    alone = [
        [difference(base, _asked(study, live, case, first | {name: value})) for value in each]
        for name, each in zip(names, values, strict=True)
    ]
    more: dict[str, Patch] = {}
    for places in product(*(range(len(each)) for each in values)):
        if sum(place > 0 for place in places) < 2:
            continue
        chosen = {name: each[at] for name, each, at in zip(names, values, places, strict=True)}
        wanted = _asked(study, live, case, first | chosen)
        together = base
        for patches, place in zip(alone, places, strict=True):
            together = patched(together, patches[place])
        if rest := difference(together, wanted):
            more[",".join(map(str, places))] = rest
    return {"base": base, "alone": alone, "more": more}


def _at(reading: Mapping[str, Any], port: list[str]) -> dict[str, Any]:
    """Add the port to a reading, and to those that it names, where they have none and need one."""
    inner = {name: _at(reading[name], port) for name in ("less", "over") if name in reading}
    of_ports = reading["table"] in ("links", "queues", "packets", "pings")
    return ({"port": port} if of_ports else {}) | dict(reading) | inner


def difference(base: Any, other: Any, at: Path_ = ()) -> Patch:
    """List [path, value] of what differs in two JSON values; a list of another length is one difference."""
    if isinstance(base, dict) and isinstance(other, dict) and list(base) == list(other):
        return [each for name in base for each in difference(base[name], other[name], (*at, name))]
    if isinstance(base, list) and isinstance(other, list) and len(base) == len(other):
        pairs = zip(base, other, strict=True)
        return [each for place, pair in enumerate(pairs) for each in difference(*pair, (*at, place))]
    # As texts: 1, 1.0 and true are equal for Python, and so are names in another order.
    return [] if json.dumps(base) == json.dumps(other) else [[list(at), other]]


def patched(base: Any, patch: Patch) -> Any:
    """Return a JSON value with differences put in; `base` stays as it is."""
    changed = json.loads(json.dumps(base)) if patch else base
    for path, value in patch:
        place = changed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    return changed


def _claims(study: Study, live: Live, cases: Sequence[str]) -> list[dict[str, Any]]:
    """List the claims about a number that a gauge shows, of a case that the page has: published value, accepted band,
    and what the run that decided found."""
    known = {claim.id: claim for claim in load_claims(study.slug).claims}
    rows = scorecard()
    rows = rows[rows["paper"] == study.slug].set_index("claim")
    listed = []
    for name, evidence in study.claims.items():
        claim = known.get(name)
        if claim is None or not _is_plain(evidence, live, cases) or not isinstance(claim.published, int | float):
            continue
        row = rows.loc[name]
        ends = [each if math.isfinite(each) else None for each in claim.accepted_band()]
        decided = None
        if isinstance(row["value"], int | float) and math.isfinite(row["value"]):
            decided = float(row["value"])
        listed.append(
            {
                "case": evidence.case_names[0],
                "gauge": evidence.reading,
                "says": claim.says,
                "where": claim.where,
                "published": float(claim.published),
                "band": ends,
                "decided": decided,
                "verdict": str(row["verdict"]),
                "by": f"{row['tier']}, {row['profile']} profile",
            }
        )
    return listed


def _is_plain(evidence: Evidence, live: Live, cases: Sequence[str]) -> bool:
    """Tell whether a claim's value is a gauge's number itself."""
    one = len(evidence.case_names) == 1 and evidence.case_names[0] in cases
    return one and evidence.how is None and not evidence.pooled and evidence.reading in live.gauges


def _compare(study: Study, live: LiveRun, data: dict[str, Any]) -> int:
    """Run a few settings of each case by the page's own script, and compare each number with Python's."""
    knobs = data["knobs"]
    counts = [len(knob["values"]) for knob in knobs]
    wanted = []
    for turn, case in enumerate(data["cases"]):
        wanted.append((case, [knob["first"] for knob in knobs]))
        for number in range(CHECKED):
            wanted.append((case, [(turn + 1 + 3 * number * (at + 1)) % count for at, count in enumerate(counts)]))
    by_page = _run_by_node(data, wanted)
    for (case, places), ran in zip(wanted, by_page, strict=True):
        values = {knob["name"]: knob["values"][place] for knob, place in zip(knobs, places, strict=True)}
        assert study.play is not None
        numbers = read_once(study, _setting(study, live, case, values), study.play.seconds, SEED).numbers
        for name in live.gauges:
            ours, python = ran[name], float(numbers[name])
            same = ours is None if math.isnan(python) else math.isclose(ours or 0, python, rel_tol=MOST_DIFFERENCE)
            if not same:
                raise NetreproError(
                    f"{study.slug}, {case}, {values}: the page's {name} is {ours}, and Python's is {python}",
                    "change the gauge, or leave it out",
                )
    return len(wanted)


def _run_by_node(data: dict[str, Any], wanted: Sequence[tuple[str, Sequence[int]]]) -> list[dict[str, float | None]]:
    node = need_tool("node")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {
            SCRIPT: web_script(),
            "live.js": _source("live.js"),
            "data.json": json.dumps(data),
            "wanted.json": json.dumps(wanted),
        }.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [node, "-e", _RUN, folder], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=1800
        )
    if done.returncode:
        raise NetreproError(f"{data['slug']}: node cannot run the page: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


_RUN = """
const [folder] = process.argv.slice(1);
const read = (name) => JSON.parse(require("fs").readFileSync(`${folder}/${name}`, "utf8"));
const { run } = require(`${folder}/netrepro-web.js`);
const { asked, numbersOf } = require(`${folder}/live.js`);
(async () => {
  const data = read("data.json");
  const all = [];
  for (const [name, places] of read("wanted.json"))
  {
    const { described, gauges } = asked(data.cases[name], places);
    all.push(numbersOf(gauges, await run(described)));
  }
  console.log(JSON.stringify(all));
})();
"""
