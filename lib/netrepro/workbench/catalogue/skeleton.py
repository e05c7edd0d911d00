"""The files of a new paper: module, claims, notebook and test, which run with one invented claim to replace."""

from __future__ import annotations

import keyword
import re
from contextlib import suppress
from pathlib import Path

from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.paths import notebooks_dir, workbench_root
from netrepro.workbench.catalogue.clean_notebook import notebook_text
from netrepro.workbench.catalogue.notebooks import catalogue, read_notebook

SLUG = re.compile(r"[a-z][a-z0-9_]{1,39}")


def new_paper(slug: str, number: int | None = None) -> list[Path]:
    """Write the four files of a paper and its SOURCES.md. They run, and mark the places to replace.

    number : number of the notebook's file, NN; default: the first free one from 70 on.

    Returns the files. Raises NetreproError, before anything is written, for a slug or number that is taken or invalid;
    and for a folder that cannot be written, after removing the files already written.
    """
    if not SLUG.fullmatch(slug) or keyword.iskeyword(slug):
        raise NetreproError(
            f"{slug!r} cannot be a slug",
            "small letters, digits and _, a letter first, and no word of Python's own, such as red_queue",
        )
    taken = {notebook.name[:2] for notebook in catalogue()}
    free = (f"{n}" for n in range(70, 99) if f"{n}" not in taken)
    chosen = next(free, "70") if number is None else f"{number:02}"
    if not re.fullmatch(r"\d\d", chosen) or chosen in taken:
        raise NetreproError(
            f"a notebook cannot have the number {chosen}", f"it has two digits; taken: {', '.join(sorted(taken))}"
        )
    root = workbench_root()
    contents = {
        root / f"data/{slug}/claims.yaml": _CLAIMS,
        root / f"data/{slug}/SOURCES.md": _SOURCES,
        root / f"lib/netrepro/papers/{slug}.py": _MODULE,
        root / f"lib/tests/papers/test_{slug}.py": _TEST,
        root / f"notebooks/{chosen}_{slug}.ipynb": _notebook(slug),
    }
    places = [*contents, root / f"data/{slug}", root / f"lib/netrepro/papers/{slug}"]
    others = [*notebooks_dir().glob(f"[0-9][0-9]_{slug}.ipynb"), *(path for path in places if path.exists())]
    if others:
        raise NetreproError(f"{slug} is there already: {others[0].relative_to(root)}", "choose another slug")
    try:
        for path, text in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.replace("PAPER_SLUG", slug))
    except OSError as error:
        for made in contents:
            with suppress(OSError):
                made.unlink()
            with suppress(OSError):
                made.parent.rmdir()
        raise NetreproError(f"cannot write {path}: {error.strerror}", "work in a clone of your own") from None
    return list(contents)


def _notebook(slug: str) -> str:
    """Return the text of the template notebook with the slug of the new paper."""
    content = read_notebook(notebooks_dir() / "_template.ipynb")
    content["metadata"]["netrepro"]["slug"] = slug
    return notebook_text(content).replace(
        "The question of the paper, in one line that a student understands", "What does PAPER_SLUG ask?"
    )


_CLAIMS = """\
# yaml-language-server: $schema=../../lib/netrepro/claims/claims.schema.json
# Every published number with its place and the agreement that you would accept, before anything is measured.
paper: PAPER_SLUG
title: "Title (Authors, Venue Year)"
claims:
  - id: one-flow-fills-the-link
    says: "TO REPLACE: one flow uses nearly all of the bottleneck"
    where: "Fig. 1"
    kind: absolute  # or effect, proportion, ordering, curve
    fixed: before  # or "after a first look"
    unit: "goodput / rate"
    published: 0.95
    role: main  # said in the abstract or key result; else detail
    accept: {relative: 0.05}  # or factor, band, kendall_at_least, curve_distance
    decided_by: {tier: simulated, profile: quick, because: "TO REPLACE: why this evidence is nearest to the paper"}
    control: "a buffer of one packet; the flow must lose its share"
    note: "An invented claim, so that everything runs. Write where the number stands and why this much is accepted."
"""

_SOURCES = """\
# Sources of PAPER_SLUG

- The paper: authors, title, venue, year, DOI.
- Where each number of claims.yaml stands, and what is second-hand.

## Artefacts

TO REPLACE: the authors' programs, data and talks, and others' reproductions: look for them before you choose a set-up.
Say when and by which words you searched, then what there is (repository, commit, licence), what it says on set-up and
reading, and what ours does otherwise.
"""

_MODULE = '''\
"""What the paper asks: Authors, "Title", Venue Year. TO REPLACE: an invented experiment stands here so that it runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from netrepro.networks.experiment import Experiment, Measure, Measurements
from netrepro.networks.links import DropTail, Link
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow
from netrepro.study import Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.setting import parameter
from netrepro.style import new_figure

PORT = ("s1", "s2")


@dataclass(frozen=True)
class Setting:
    """The experiment of the paper's section; say of each value whether it is the paper's or a choice.

    `make strip` writes the notebook's line of each that is a `parameter`, which a person may change.
    """

    bottleneck_mbps: float = parameter(10.0, "rate of the bottleneck", "Mb/s", low=0.1, high=10_000)
    delay_ms: float = 10.0
    buffer_packets: int = 50


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: one long flow through a bottleneck."""
    bottleneck = Link(setting.bottleneck_mbps, setting.delay_ms, DropTail(packets=setting.buffer_packets))
    network = dumbbell(1, access=Link(10 * setting.bottleneck_mbps, 1.0), bottleneck=bottleneck)
    flow = Flow("h1", "h2", duration_s=seconds)
    return Experiment(network, (flow,), seconds, seed, Measure(queues=(PORT,), queue_interval_ms=10.0))


def read(run: Measurements, setting: Setting) -> Reading:
    """Read the share of the bottleneck's rate that arrives as payload, and the queue (packets)."""
    seconds = run.experiment.duration_s
    share = float(run.flows["delivered_bytes"].sum()) * 8e-6 / seconds / setting.bottleneck_mbps
    queue = run.queues[["time_s", "queue_packets"]]
    return Reading({"share": share}, {"queue": queue}, [Check("payload of the link at most", share, at_most=1.0)])


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    return f"One flow uses {runs.summary().loc['paper'].share:.0%} of the bottleneck."


def draw_idea() -> Figure:
    """Draw the idea, without any parameter."""
    figure, axis = new_figure("A window that is halved and grows", "time (round trips)", "window (share)")
    time = np.linspace(0, 4, 400)
    axis.plot(time, 0.5 + 0.5 * (time % 1))
    axis.set_ylim(0, 1.05)
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network with its rates, delays and buffers."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "One flow through a bottleneck")


def draw_queue(runs: Runs, cases: tuple[str, ...] = ("paper",)) -> Figure:
    """Draw the queue over time, of the first repetition."""
    figure, axis = new_figure("Queue at the bottleneck", "time (s)", "queue (packets)")
    for case in cases:
        rows = runs.table("queue", case).query("repetition == 0")
        axis.plot(rows.time_s, rows.queue_packets, label=case, linewidth=1)
    axis.legend()
    return figure


def draw_control(runs: Runs) -> Figure:
    """Draw the queue beside that of the control."""
    return draw_queue(runs, ("paper", "tiny buffer"))


def draw_knob(runs: Runs) -> Figure:
    """Draw the share over the buffer."""
    x, y = ("buffer_packets", "buffer (packets)"), {"share": "share of the bottleneck"}
    return drawing.sweep_figure("How much buffer does one flow need?", runs.knobs["knob"], x, y)


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run's queue over time."""
    figure, axis = new_figure(case, "time (s)", "queue (packets)")
    axis.plot(run.queues.time_s, run.queues.queue_packets, linewidth=1)
    return figure


STUDY = Study(
    slug="PAPER_SLUG",
    setting=Setting(),
    cases={"paper": {}, "tiny buffer": {"buffer_packets": 1}},
    experiment=experiment,
    read=read,
    answer=answer,
    profiles={"quick": Scale(10.0), "paper": Scale(60.0)},
    claims={"one-flow-fills-the-link": Evidence("share", "paper", control="tiny buffer")},
    knobs={"knob": Knob({"paper": {"buffer_packets": swept(1, 2, 5, 10, 20, 50)}}, Scale(10.0))},
    figures={"fig1": draw_queue, "control": draw_control, "knob": draw_knob},
    play=Play(("paper", "tiny buffer"), {"buffer_packets": (1, 100, 1)}, draw_run),
)
'''

_TEST = '''\
"""PAPER_SLUG: closed forms, published tables, and the control that must flip.

test_studies.py tests the rest.
"""

from __future__ import annotations

import pytest

from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.papers import PAPER_SLUG as paper
from netrepro.study import run_once


@pytest.mark.parametrize("rate_mbps", [5.0, 20.0])
def test_a_flow_with_a_buffer_of_a_round_trip_fills_links_of_any_rate(rate_mbps):
    """TO REPLACE: a buffer of one bandwidth-delay product keeps the link busy when Reno halves its window."""
    setting = paper.Setting(bottleneck_mbps=rate_mbps)
    run = run_once(paper.STUDY, "paper", 20.0, seed=1, bottleneck_mbps=rate_mbps)
    assert 0.9 < paper.read(run, setting)["share"] <= 1448 / FULL_PACKET_BYTES
'''
