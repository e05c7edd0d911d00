"""Live pages: a paper's play in the reader's browser, by the simulator as WebAssembly (study's `Live`).

The page holds a described experiment for each of its settings, and computes its numbers itself. It is written only
where these equal what the paper's own Python reads from the same run.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from netrepro.claims import load_claims
from netrepro.claims.scorecard import scorecard
from netrepro.errors import NetreproError
from netrepro.programs import need_program
from netrepro.simulation.described import describe
from netrepro.study import Evidence, Live, Study, between_real_hosts, run_experiment, setting_of
from netrepro.workbench.templating import Markup, render
from netrepro.workbench.webassembly import SCRIPT, SOURCES, drawing_files, web_script

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
    live = play.live
    cases = list(live.cases or play.cases)
    shown = [*cases, *(each for each in live.broken.values() if each not in cases)]
    data = {
        "slug": study.slug,
        "seconds": play.seconds,
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
    """Write a page for each paper into a folder, and the scripts that they share.

    notebooks : slug -> the address of its notebook's page.
    """
    into.mkdir(parents=True, exist_ok=True)
    shared = {SCRIPT: web_script(), "live.js": (SOURCES / "live.js").read_text(encoding="utf-8")} | drawing_files()
    for name, text in shared.items():
        (into / name).write_text(text, encoding="utf-8")
    written, table = [], scorecard()
    for page in pages:
        data = json.dumps(page.data, separators=(",", ":")).replace("<", "\\u003c")
        decided = [_decided(row) for row in table[table["paper"] == page.slug].to_dict("records")]
        title = load_claims(page.slug).title
        text = render("live", title=title, notebook=notebooks[page.slug], decided=decided, data=Markup(data))
        written.append(into / f"{page.slug}.html")
        written[-1].write_text(text, encoding="utf-8")
    return written


def _decided(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a claim's line for the template: what it says, its verdict, and the run that decided."""
    by = f"tier {row['tier']}, {row['profile']} profile" if row["tier"] else ""
    return {"says": str(row["says"]), "where": str(row["where"]), "verdict": str(row["verdict"]), "by": by}


def _knob(study: Study, name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return a slider's label, unit and values, and the place of the value that is shown first."""
    start = getattr(study.setting, name)
    place = min(range(len(values)), key=lambda each: _distance(values[each], start))
    end, unit = next(((end, unit) for end, unit in _UNITS.items() if name.endswith(end)), ("", ""))
    label = name.removesuffix(end).replace("_", " ")
    return {"name": name, "label": label, "unit": unit, "values": list(values), "first": place}


_UNITS = {"_ms": "ms", "_mbps": "Mb/s", "_packets": "packets", "_mb": "MB"}


def _distance(value: Any, start: Any) -> float:
    if value == start:
        return -1.0
    is_number = isinstance(start, int | float) and not isinstance(start, bool)
    return abs(math.log(value / start)) if is_number and value > 0 and start > 0 else math.inf


def _described(study: Study, case: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the experiment of a case with these fields, as `run_once` runs it."""
    setting = _setting(study, case, values)
    experiment = study.part_of(setting).experiment
    if experiment is None or study.play is None:
        raise NetreproError(f"{study.slug}: case {case!r} is no experiment", "leave it out of the live page")
    return describe(between_real_hosts(experiment(setting, study.play.seconds, SEED)))


def _setting(study: Study, case: str, values: Mapping[str, Any]) -> Any:
    own = {name: value for name, value in values.items() if hasattr(study.case(case), name)}
    return setting_of(study, case, **own)


def _case(study: Study, live: Live, case: str) -> dict[str, Any]:
    """Describe a case: its first experiment, what each value of each slider changes in it, and what combinations change
    beside that."""
    names, values = list(live.values), list(live.values.values())
    first = [values_[0] for values_ in values]
    base = _described(study, case, dict(zip(names, first, strict=True)))
    alone: list[list[Patch]] = []
    for place, name in enumerate(names):
        others = dict(zip(names, first, strict=True))
        alone.append([difference(base, _described(study, case, others | {name: value})) for value in values[place]])
    more: dict[str, Patch] = {}
    for places in product(*(range(len(each)) for each in values)):
        if sum(place > 0 for place in places) < 2:
            continue
        wanted = _described(study, case, {name: each[at] for name, each, at in zip(names, values, places, strict=True)})
        together = base
        for patches, place in zip(alone, places, strict=True):
            together = patched(together, patches[place])
        if rest := difference(together, wanted):
            more[",".join(map(str, places))] = rest
    port = list(live.port(study.case(case)))
    gauges = {name: _at(each.of, port) for name, each in live.gauges.items()}
    return {"base": base, "alone": alone, "more": more, "gauges": gauges, "course": _at(live.course, port)}


def _at(reading: Mapping[str, Any], port: list[str]) -> dict[str, Any]:
    of_ports = reading["table"] in ("links", "queues", "packets")
    return dict(reading) | ({"port": port} if of_ports else {})


def difference(base: Any, other: Any, at: Path_ = ()) -> Patch:
    """List [path, value] of what differs in two JSON values; a list of another length is one difference."""
    if isinstance(base, dict) and isinstance(other, dict) and base.keys() == other.keys():
        return [each for name in base for each in difference(base[name], other[name], (*at, name))]
    if isinstance(base, list) and isinstance(other, list) and len(base) == len(other):
        pairs = zip(base, other, strict=True)
        return [each for place, pair in enumerate(pairs) for each in difference(*pair, (*at, place))]
    return [] if base == other and type(base) is type(other) else [[list(at), other]]


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


def _compare(study: Study, live: Live, data: dict[str, Any]) -> int:
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
        setting = _setting(study, case, values)
        part = study.part_of(setting)
        assert part.experiment is not None and part.read is not None and study.play is not None
        numbers = part.read(run_experiment(part.experiment(setting, study.play.seconds, SEED)), setting).numbers
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
    node = need_program("node")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {
            SCRIPT: web_script(),
            "live.js": (SOURCES / "live.js").read_text(encoding="utf-8"),
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
const { described, numbersOf } = require(`${folder}/live.js`);
(async () => {
  const data = read("data.json");
  const all = [];
  for (const [name, places] of read("wanted.json"))
    all.push(numbersOf(data.cases[name], await run(described(data.cases[name], places))));
  console.log(JSON.stringify(all));
})();
"""
