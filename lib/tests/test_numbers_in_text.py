"""Numbers in the text of notebooks: what looks like a measured value must be one that is published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean

import nbformat
import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]

NUMBER = re.compile(r"(?<![\w.\-])(?P<number>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?|\.\d+)\s?(?P<unit>%|[a-zA-Zµ]+(?:/s)?)?")
WORDS = re.compile(r"[\wµ]+(?:/s)?")
# What is asked (claims), set, built and left to the reader is no result.
NO_RESULTS = re.compile(r"## (2|3|4|12) ")
NEAR = 0.08

# Numbers near a claim's which are of something else: where they stand, and what they are.
OF_SOMETHING_ELSE = {
    "suss": ["584 segments"],  # a fault that is mended
    "initial_window": ["Linux 6.12"],  # a version
    "red": [".93 to .94 of the link", "carries .93 of the link", "carries .94 at 26"],  # the link's load
    "codel": [
        ".500, .563 and .488",
        ".707, .577 and .500",
        "163 and 137 ms",
        "98 and 114 ms",
        "94 ms",
    ],  # intervals, old runs
    "incast": [
        ".73 to .85",
        ".80 to .94",
        "99 % of them",
        "99 % within 1 %",
    ],  # ranges over 32 to 64 servers; gaps of a link
    "gmm_traffic": ["macro-F1 91 %"],  # labels dealt out anew
    "hedera": ["95 % intervals"],
    "hull": ["95 % of the link's rate"],  # the phantom queue's rate, a setting
    "jellyfish": [
        "1.23 with 8 ports, 1.14 with 6",
        "means .767 and .756; 8 paths: .828",
        "83 % over 8 shortest",
        "84 % in the fat-tree",
    ],  # other networks than the claim's
    "dcell": ["3 and 6.2 s", "6.3 from beginning to end", "3.3 passes"],  # TCP's time-outs; a processor's work
    "raft": ["182 ms, ours has 164 ms", "166 ms"],  # seventy crashes of etcd and ours beside it, and thirty
    "sst": ["1.9 s"],  # one page in a thousand
    "cdn_routing": ["2.6 and 13 s", "6.5 s with daemons and 6.6 s"],  # single Internets; an early run
    "propshare": ["0.91 to 1.04"],  # real processes against the swarm, six swarms
    "repnet": [
        "some 2.2 ms before its connection is open",  # of the controller knob
        "has Linux 6.12, not 2.6.38",
    ],
}


def precision(number: str) -> float:
    """Give half a unit of the last digit that is said: 0.05 for 1.2, 50 for 3,600."""
    if "." in number:
        return 0.5 * 10.0 ** -len(number.split(".")[1])
    digits = number.replace(",", "")
    return 0.5 * 10.0 ** (len(digits) - len(digits.rstrip("0")))


def measured_values(results: dict) -> list[tuple[str, list[float]]]:
    """List each claim's values of each published run: those with the mechanism and those without it."""
    return [
        (measured["claim"], values)
        for run in results["runs"].values()
        for measured in run["measured"]
        for values in (measured.get("values"), measured.get("control"))
        if values and all(isinstance(value, int | float) for value in values)
    ]


def stale_numbers(text: str, claims: list[dict], sources: str, results: dict) -> list[str]:
    """List the numbers in a text that are near a measured value, in its unit, and equal none, nor the paper's."""
    units = {claim["id"]: claim.get("unit", "") for claim in claims}
    papers = {float(number) for number in re.findall(r"\d*\.?\d+", json.dumps(claims) + sources)}
    stale = []
    for said in NUMBER.finditer(text):
        number, unit = said["number"], said["unit"]
        value, scale = float(number.replace(",", "")), 100 if unit == "%" else 1
        half = precision(number) * 1.01
        if len(number.replace(",", "").replace(".", "").strip("0")) < 2:
            continue  # one digit is near something too often
        if any(abs(scale * paper - value) <= (half if scale > 1 else 0) for paper in papers) or value in papers:
            continue
        same_unit = [
            (claim, [scale * one for one in values])
            for claim, values in measured_values(results)
            if unit == "%" or "." in number or unit in {*WORDS.findall(units.get(claim, ""))} - {"of", "to", "in", "a"}
        ]
        near = {claim for claim, values in same_unit if abs(fmean(values) - value) <= NEAR * abs(fmean(values))}
        published = any(abs(one - value) <= half for _, values in same_unit for one in (fmean(values), *values))
        if near and not published:
            context = text[max(0, said.start() - 40) : said.end() + 20].replace("\n", " ")
            stale.append(f"...{context}... {', '.join(sorted(near))}")
    return stale


def papers_with_results() -> list[str]:
    """List the slugs of papers that have published results."""
    return sorted(path.parent.name for path in REPOSITORY.glob("figures/*/results.json"))


@pytest.mark.parametrize("slug", papers_with_results())
def test_a_number_near_a_measured_one_is_the_papers_or_what_is_published(slug):
    notebook = nbformat.read(next((REPOSITORY / "notebooks").glob(f"*_{slug}.ipynb")), as_version=4)
    claims = yaml.safe_load((REPOSITORY / f"data/{slug}/claims.yaml").read_text())["claims"]
    results = json.loads((REPOSITORY / f"figures/{slug}/results.json").read_text())
    sources = (REPOSITORY / f"data/{slug}/SOURCES.md").read_text()
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    text = "\n\n".join(text for text in texts if not NO_RESULTS.match(text))
    for other in OF_SOMETHING_ELSE.get(slug, []):
        assert other in text, f"no longer said: {other}"
        text = text.replace(other, "")
    assert stale_numbers(text, claims, sources, results) == []


def test_a_stale_number_is_found():
    results = {"runs": {"quick/simulated": {"measured": [{"claim": "queue", "values": [18.7, 18.7]}]}}}
    claims = [{"id": "queue", "unit": "packets", "published": 19.0}]
    assert stale_numbers("It keeps 18.2 packets.", claims, "", results)
    assert not stale_numbers("It keeps 18.7 packets, of 19, or 19.0 packets.", claims, "", results)
    assert not stale_numbers("It keeps 42.5 packets.", claims, "", results)
