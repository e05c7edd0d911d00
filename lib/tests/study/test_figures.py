"""Figures as values: what they show of the runs, and that they say what was not measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg

from netrepro.errors import NetreproError
from netrepro.study import Knob, Reading, Runs, Scale, Study, measure, swept, vary
from netrepro.study.figures import Bars, Course, Level, Panel, Picture, Published, Sweep, not_measured
from netrepro.study.pictures import draw_bars, name_ticks, panels
from netrepro.style import new_figure, scheme


@dataclass(frozen=True)
class Setting:
    load: float = 0.5


def measure_one(setting: Setting, seconds: float, seed: int, tier: str) -> Reading:
    noise = np.random.default_rng(seed).random()
    course = pd.DataFrame({"time_s": [0.0, 1.0], "delay_ms": [setting.load, noise]})
    return Reading({"delay_ms": 10 * setting.load + noise, "wait_ms": setting.load}, {"course": course})


STUDY = Study(
    slug="two_cases",
    setting=Setting(),
    cases={"tcp": {}, "busy": {"load": 0.9}},
    measure_one=measure_one,
    scales={"quick": Scale()},
    knobs={"loads": Knob({"tcp": {"load": swept(0.1, 0.9)}}, Scale(), repetitions=3)},
)


@pytest.fixture(scope="module")
def runs() -> Runs:
    found = measure(STUDY, repetitions=3)
    vary(found, "loads")
    return found


def drawn(runs: Runs, *marks) -> Axes:
    return Picture("title", Panel("x", "y (ms)", *marks))(runs).axes[0]


def legend(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.figure.legends[0].get_texts()]


def test_a_scheme_has_its_own_colour_and_other_curves_one_by_their_place(runs):
    axis = drawn(runs, Course("course", "delay_ms", {"tcp": "tcp", "busy": "a busy path"}))
    assert legend(axis) == ["TCP", "a busy path"]
    assert axis.lines[0].get_color() == scheme("tcp").colour != axis.lines[1].get_color()


def test_a_sweep_shows_the_means_and_names_its_places(runs):
    axis = drawn(runs, Sweep("load", "delay_ms", "loads"))
    means = runs.knobs["loads"].groupby("load").delay_ms.mean()
    assert axis.lines[0].get_ydata() == pytest.approx(means)
    assert [text.get_text() for text in axis.get_xticklabels()] == ["0.1", "0.9"]
    not_there = [float("nan") for _ in range(20)]  # no places that have ticks, however many
    axis = drawn(runs, Sweep("load", "delay_ms", "loads"), lambda *_: not_there)
    assert [text.get_text() for text in axis.get_xticklabels()] == ["0.1", "0.9"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("x", "y (ms)")


@pytest.mark.parametrize("columns", [1, 4])
def test_names_of_places_do_not_touch_and_as_many_as_fit_are_there(columns):
    figure, axes = panels("title", "x", "y (ms)", [""] * columns)
    places = (0.012, 0.03, 0.25, 0.375, 0.4, 0.5, 0.75, 1.25)
    for axis in axes:
        name_ticks(axis, "x", places)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axis in axes:
        assert axis.get_xticks() == pytest.approx(places)
        labels = [text for text in axis.get_xticklabels() if text.get_text()]
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in labels]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
        assert labels[0].get_text() == "0.012" and 3 <= len(labels) < len(places)
    name_ticks(axes[0], "x", (0.1, 0.9, np.nan))
    name_ticks(axes[0], "x", [np.nan])  # a reading that this tier does not have
    assert [text.get_text() for text in axes[0].get_xticklabels()] == ["0.1", "0.9"]


def test_means_on_a_logarithmic_axis_are_of_the_values_and_not_of_their_logarithms(runs):
    picture = Picture("title", Panel("x", "y (ms)", Sweep("load", "delay_ms", "loads"), log="y"))
    assert picture(runs).axes[0].lines[0].get_ydata() == pytest.approx(
        runs.knobs["loads"].groupby("load").delay_ms.mean()
    )
    picture = Picture("title", Panel("x", "y (ms)", Bars("delay_ms", {"idle": "tcp", "busy": "busy"}), log="y"))
    heights = [bar.get_height() for bar in picture(runs).axes[0].patches if bar.get_height()]
    assert heights == pytest.approx(list(runs.summary().delay_ms[["tcp", "busy"]]))


def test_published_bars_stand_beside_ours_where_there_are_any(runs):
    axis = drawn(runs, Bars("delay_ms", {"idle": "tcp", "busy": "busy"}, published={"busy": 8.0}))
    heights = [bar.get_height() for bar in axis.patches if bar.get_height()]
    assert heights == pytest.approx([*runs.summary().delay_ms[["tcp", "busy"]], 8.0])
    assert legend(axis) == ["ours", "published"]
    assert [text.get_text() for text in axis.get_xticklabels()] == ["idle", "busy"]


def test_two_readings_of_a_case_stand_side_by_side(runs):
    both = {"delay_ms": "delay", "wait_ms": {"label": "wait", "color": "black"}}
    axis = drawn(runs, Bars(both, {"idle": "tcp", "busy": "busy"}))
    means = runs.summary().loc[["tcp", "busy"]]
    heights = [bar.get_height() for bar in axis.patches if bar.get_height()]
    assert heights == pytest.approx([*means.delay_ms, *means.wait_ms])
    assert legend(axis) == ["delay", "wait"]
    with pytest.raises(NetreproError, match="several readings"):
        drawn(runs, Bars(both, {"paths": {"tcp": "tcp", "busy": "busy"}}))


def test_a_legend_names_published_bars_only_where_there_are_any(runs):
    _, axis = new_figure("title", "", "y (ms)")
    draw_bars(axis, {"idle": [1.0, 2.0]})
    assert axis.get_legend_handles_labels()[1] == []
    draw_bars(axis, {"idle": [1.0, 2.0]}, {"idle": 3.0})
    assert axis.get_legend_handles_labels()[1] == ["published"]


def test_a_case_that_was_not_measured_is_named(runs):
    without = replace(runs, values=runs.values[runs.values["case"] == "tcp"])
    axis = drawn(without, Bars("delay_ms", {"paths": {"tcp": "tcp", "busy": "a busy path"}}))
    assert [text.get_text() for text in axis.texts] == ["a busy path: not measured on the simulated tier"]


def test_a_tier_that_was_not_measured_is_named_where_a_panel_waits_for_it(runs):
    axis = drawn(runs, Course("course", "delay_ms", {"tcp": "tcp"}), not_measured("virtual"))
    assert [text.get_text() for text in axis.texts] == ["not measured on the virtual tier"]
    assert not drawn(runs, Course("course", "delay_ms", {"tcp": "tcp"}), not_measured("simulated")).texts


def test_a_panel_with_nothing_of_ours_says_so(runs):
    runs = replace(runs, study=replace(runs.study, cases={**runs.study.cases, "other": {}}))
    axis = drawn(runs, Course("course", "delay_ms", {"other": "other"}), Published({0: 1}), Level(2, "published: {}"))
    assert [text.get_text() for text in axis.texts] == ["not measured on the simulated tier"]
    assert legend(axis) == ["published", "published: 2"]


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        (Course("course", "delay_ms", {"tpc": "tcp"}), "no case 'tpc' to draw\n.*'tcp'"),
        (Course("course", "delay_ms", "tcp"), "'tcp' in place of cases with their looks\n.*give a dict"),
        (Course("course", "dellay_ms", {"tcp": "tcp"}), "'dellay_ms' was read to draw\n.*'delay_ms'"),
        (Bars("delay", {"a": "tcp"}), "'delay' was read to draw\n.*'delay_ms'"),
        (Bars("delay_ms", {"a": "bussy"}), "no case 'bussy'"),
        (Sweep("load", "delay_ms", "load"), "no knob 'load'\n.*'loads'"),
        (Sweep("lod", "delay_ms", "loads"), "'lod' was read to draw\n.*'load'"),
    ],
)
def test_a_figure_of_what_is_not_there_names_the_nearest_that_is(runs, mark, words):
    with pytest.raises(NetreproError, match=words):
        drawn(runs, mark)


def test_a_knob_that_was_not_turned_says_so(runs):
    with pytest.raises(NetreproError, match=r"the knob 'loads' was not turned\n.*report.vary"):
        drawn(replace(runs, knobs={}), Sweep("load", "delay_ms", "loads"))
