"""A paper of several experiments, each with a setting of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, dumbbell
from netrepro.networks.experiment import Measurements
from netrepro.study import (
    Evidence,
    Knob,
    Part,
    Play,
    Reading,
    Scale,
    Study,
    load_runs,
    measure,
    points,
    run_once,
    swept,
    vary,
)
from netrepro.study.setting import parameter


@dataclass(frozen=True)
class Setting:
    load: float = parameter(0.5, "of the server", "share", above=0, below=1)
    servers: int = 1


@dataclass(frozen=True)
class Path:
    load: float = parameter(0.5, "of the server", "share", above=0, below=1)
    size_kb: int = 10


@dataclass(frozen=True)
class Unread(Path):
    """A part that nobody reads."""


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    return Reading({"wait": setting.load * setting.servers})


def experiment(setting: Path, seconds: float, seed: int) -> Experiment:
    network = dumbbell(1, Link(100, 1), Link(10, 5, DropTail(packets=50)))
    return Experiment(network, Flow("h1", "h2", setting.size_kb * 1000), seconds, seed)


def read(run: Measurements, setting: Path) -> Reading:
    return Reading({"ended_ms": run.flows.completion_ms[0], "load_there": setting.load})


A_PATH = Part(setting=Path(), experiment=experiment, read=read)
PATH = {"part": A_PATH}
STUDY = Study(
    slug="two_parts",
    setting=Setting(),
    parts=(A_PATH,),
    measure_one=measure_one,
    cases={"one": {}, "many": {"servers": swept(1, 2)}, "path": PATH | {"size_kb": swept(10, 100)}},
    scales={"quick": Scale(2.0, repetitions=2), "paper": Scale(2.0, changes={"size_kb": 50, "servers": 3})},
    claims={"wait": Evidence("wait", "one"), "ended": Evidence("ended_ms", "path", how=lambda ended: ended[100])},
    knobs={"size": Knob({"path": PATH | {"size_kb": swept(20, 40)}}, Scale(2.0))},
)


@pytest.fixture(scope="module")
def runs():
    return measure(STUDY, Setting(load=0.25))


def test_each_part_is_measured_by_its_own_functions(runs):
    assert runs.numbers("one").wait.tolist() == [0.25, 0.25]
    path = runs.numbers("path")
    assert path.ended_ms.groupby(path.size_kb).min().is_monotonic_increasing and path.wait.isna().all()
    assert {each.claim for each in runs.measured_claims()} == {"wait", "ended"}


def test_a_part_has_the_notebooks_parameters_and_no_other_parts_fields(runs):
    assert (runs.numbers("path").load_there == 0.25).all()
    assert runs.numbers("path").servers.isna().all() and runs.numbers("many").size_kb.isna().all()


def test_means_of_all_parts_are_in_one_table_which_survives_its_folder(runs, tmp_path):
    summary = runs.summary()
    assert list(summary.index.get_level_values("case")) == ["one", "many", "many", "path", "path"]
    assert np.isnan(summary.loc["one"].ended_ms).all() and (summary.loc["path"].ended_ms > 0).all()
    runs.save(tmp_path)
    assert load_runs(STUDY, tmp_path).reading("ended_ms", "path")[0][100] == runs.reading("ended_ms", "path")[0][100]


def test_a_scale_changes_the_fields_that_a_part_has():
    at = {point.case: point.setting for point in points(STUDY.cases, Setting(), STUDY.scale("paper"))}
    assert at["one"] == Setting(servers=3) and at["path"] == Path(size_kb=100)


def test_a_knob_and_a_single_run_know_the_part(runs):
    assert vary(runs, "size").size_kb.tolist() == [20, 40]
    assert run_once(STUDY, "path", 2.0, size_kb=30).flows.completion_ms.notna().all()
    with pytest.raises(NetreproError, match="load = 2"):
        run_once(STUDY, "path", 2.0, load=2.0)


def test_a_tier_that_cannot_run_a_part_is_asked_about_that_part():
    (point, _) = points({"path": STUDY.cases["path"]}, Setting())
    late = replace(point.setting, size_kb=0)
    assert STUDY.why_not(replace(point, setting=late), "virtual") != ""


def test_a_slider_is_for_the_cases_whose_part_has_its_field():
    pytest.importorskip("ipywidgets")
    from netrepro.workbench.notebook.playing import explore

    drawn = []

    def draw(run, case: str) -> str:
        drawn.append((case, None if isinstance(run, Reading) else run.experiment.traffic[0].size_bytes))
        return case

    sliders = {"load": (0.1, 0.9, 0.1), "servers": (1, 4, 1), "size_kb": (10, 100, 10)}
    controls, _ = explore(replace(STUDY, play=Play(("one", "path"), sliders, draw, seconds=2.0))).children
    case, _, servers, size_kb = controls.children
    assert (servers.disabled, size_kb.disabled, size_kb.value) == (False, True, 10)
    case.value = "path"
    assert (servers.disabled, size_kb.disabled) == (True, False)
    size_kb.value = 30
    assert drawn == [("one", None), ("path", 10_000), ("path", 30_000)]
    with pytest.raises(NetreproError, match="play has a slider 'size'"):
        replace(STUDY, play=Play(("one",), {"size": (1, 2, 1)}, draw))


def test_what_no_part_has_and_parts_that_cannot_be_told_apart_are_refused():
    with pytest.raises(NetreproError, match="case 'path' changes 'servers'"):
        replace(STUDY, cases=STUDY.cases | {"path": PATH | {"servers": 2}})
    with pytest.raises(NetreproError, match="profile 'quick' changes 'size_mb'"):
        replace(STUDY, scales={"quick": Scale(changes={"size_mb": 1})})
    with pytest.raises(NetreproError, match="two parts with a Path"):
        replace(STUDY, parts=(A_PATH, Part(setting=Path(size_kb=1), measure_one=measure_one)))
    with pytest.raises(NetreproError, match="give experiment and read, or measure_one"):
        replace(STUDY, parts=(A_PATH, Part(setting=Unread(), experiment=experiment)))
    with pytest.raises(NetreproError, match="case 'path' names a part that the study has not"):
        replace(STUDY, parts=())
