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
  - id: bbr-takes-more
    says: "TO REPLACE: beside a CUBIC flow, a BBR flow gets nearly twice what a CUBIC flow gets in its place"
    where: "Fig. 1"
    kind: effect  # or absolute, proportion, ordering, curve
    fixed: before  # or "after a first look"
    published: 1.8
    source: paper  # or artefact, second_hand, class, recalled
    role: main  # said in the abstract or key result; else detail
    accept: {factor: 1.4}  # or relative, band, kendall_at_least, curve_distance
    decided_by: {tier: simulated, profile: quick, because: "TO REPLACE: why this evidence is nearest to the paper"}
    control: "a fair queue at the bottleneck; the lead must vanish"
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
from netrepro.networks.links import DropTail, Fq, Link, bandwidth_delay_packets
from netrepro.networks.topology import dumbbell
from netrepro.networks.workloads import Flow
from netrepro.study import Check, Evidence, Knob, Play, Reading, Runs, Scale, Study, ratio, swept
from netrepro.study import pictures as drawing
from netrepro.study.figures import Bars, Level, plot
from netrepro.study.setting import parameter
from netrepro.style import new_figure

ACCESS_MS = 1.0
DEEP = 10  # a fair queue with less room drops what comes last, whoever sends it
PORT = ("s1", "s2")


@dataclass(frozen=True)
class Setting:
    """The experiment of the paper's section; say of each value whether it is the paper's or a choice.

    `make strip` writes the notebook's line of each that is a `parameter`, which a person may change.
    """

    bottleneck_mbps: float = parameter(10.0, "rate of the bottleneck", "Mb/s", low=0.1, high=10_000)
    delay_ms: float = 10.0
    buffer_share: float = 1.0  # of what the path holds
    scheme: str = "bbr"  # of the first flow; the second one is CUBIC
    is_fair: bool = False


def experiment(setting: Setting, seconds: float, seed: int) -> Experiment:
    """Make the experiment: a flow of the scheme beside a CUBIC flow, through one bottleneck."""
    round_trip_ms = 2 * (setting.delay_ms + 2 * ACCESS_MS)  # both ends of a dumbbell have an access link
    path = bandwidth_delay_packets(setting.bottleneck_mbps, round_trip_ms)
    packets = max(2, round(setting.buffer_share * path))
    queue = Fq(packets=DEEP * packets, flow_packets=packets) if setting.is_fair else DropTail(packets=packets)
    bottleneck = Link(setting.bottleneck_mbps, setting.delay_ms, queue)
    network = dumbbell(2, access=Link(10 * setting.bottleneck_mbps, ACCESS_MS), bottleneck=bottleneck)
    first = Flow("h1", "h3", duration_s=seconds, congestion_control=setting.scheme)
    second = Flow("h2", "h4", duration_s=seconds, congestion_control="cubic")
    return Experiment(network, (first, second), seconds, seed, Measure(queues=(PORT,), queue_interval_ms=10.0))


def read(run: Measurements, setting: Setting) -> Reading:
    """Read the first flow's share of the payload that arrives, and the queue (packets)."""
    arrived = run.flows["delivered_bytes"]
    share = float(arrived.iloc[0] / arrived.sum())
    used = float(arrived.sum()) * 8e-6 / run.experiment.duration_s / setting.bottleneck_mbps
    queue = run.queues[["time_s", "queue_packets"]]
    return Reading({"share": share}, {"queue": queue}, [Check("payload of the link at most", used, at_most=1.0)])


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    shares = runs.summary().share
    fair = f"behind a fair queue {shares['fair queue']:.0%}"
    return f"Beside a CUBIC flow, a BBR flow gets {shares['bbr']:.0%} of what arrives; {fair}."


def draw_idea() -> Figure:
    """Draw the idea, without any parameter."""
    figure, axis = new_figure("One halves its window, the other does not", "time (round trips)", "window (share)")
    time = np.linspace(0, 4, 400)
    axis.plot(time, 0.5 + 0.5 * (time % 1), label="CUBIC")
    axis.plot(time, np.ones_like(time), label="BBR")
    axis.set_ylim(0, 1.05)
    axis.legend()
    return figure


def draw_network(setting: Setting) -> Figure:
    """Draw the network with its rates, delays and buffers."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "Two flows through a bottleneck")


def draw_queue(runs: Runs, cases: tuple[str, ...] = ("bbr", "cubic")) -> Figure:
    """Draw the queue over time, of the first repetition."""
    figure, axis = new_figure("Queue at the bottleneck", "time (s)", "queue (packets)")
    for case in cases:
        rows = runs.table("queue", case).query("repetition == 0")
        axis.plot(rows.time_s, rows.queue_packets, label=case, linewidth=1)
    axis.legend()
    return figure


draw_control = plot(
    "Who gets the bottleneck, and behind a fair queue?",
    "first flow",
    "share of what arrives",
    Bars("share", {"BBR": "bbr", "CUBIC": "cubic", "BBR, fair queue": "fair queue"}),
    Level(0.5, "half", published=False),
)


def draw_knob(runs: Runs) -> Figure:
    """Draw the share over the buffer."""
    x, y = ("buffer_share", "buffer (bandwidth-delay products)"), {"share": "share of what arrives"}
    return drawing.sweep_figure("Does a deeper buffer help CUBIC?", runs.knobs["knob"], x, y)


def draw_run(run: Measurements, case: str) -> Figure:
    """Draw one run's queue over time."""
    figure, axis = new_figure(case, "time (s)", "queue (packets)")
    axis.plot(run.queues.time_s, run.queues.queue_packets, linewidth=1)
    return figure


STUDY = Study(
    slug="PAPER_SLUG",
    setting=Setting(),
    cases={"bbr": {}, "cubic": {"scheme": "cubic"}, "fair queue": {"is_fair": True}},
    experiment=experiment,
    read=read,
    answer=answer,
    scales={"quick": Scale(20.0), "paper": Scale(60.0)},
    claims={"bbr-takes-more": Evidence("share", ("bbr", "cubic"), control=("fair queue", "cubic"), how=ratio)},
    knobs={"knob": Knob({"bbr": {"buffer_share": swept(0.25, 0.5, 1.0, 2.0, 4.0, 8.0)}}, Scale(10.0))},
    figures={"fig1": draw_queue, "control": draw_control, "knob": draw_knob},
    play=Play(("bbr", "cubic", "fair queue"), {"buffer_share": (0.25, 8.0, 0.25)}, draw_run),
)
'''

_TEST = '''\
"""PAPER_SLUG: closed forms, published tables, and the control that must flip.

test_studies.py tests the rest.
"""

from __future__ import annotations

import pytest

from netrepro.papers import PAPER_SLUG as paper
from netrepro.study import run_once


@pytest.mark.parametrize("rate_mbps", [5.0, 20.0])
def test_a_fair_queue_gives_both_flows_half_at_any_rate(rate_mbps):
    """TO REPLACE: who has data waiting gets the same share of turns, whatever it sends (Nagle, RFC 970)."""
    setting = paper.Setting(bottleneck_mbps=rate_mbps)
    run = run_once(paper.STUDY, "fair queue", 10.0, seed=1, bottleneck_mbps=rate_mbps)
    assert paper.read(run, setting)["share"] == pytest.approx(0.5, abs=0.02)
'''
