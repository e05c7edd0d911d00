"""What every paper that is a Study keeps, in place of a copy of these tests in each paper's own file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import Field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from executed_code import ExecutedCode, not_hashed
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from smallest import REPETITIONS, SMALLEST, smallest

from netrepro import papers
from netrepro.allowed_values import EMPTY, PATHS
from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.study import Runs, Study, load_runs, measure, points, read_once, vary
from netrepro.study.declaration import LEAST_REPETITIONS, SIMULATED, several
from netrepro.study.measuring import _runs_of_knobs
from netrepro.study.setting import parameter_fields
from netrepro.style import use_style
from netrepro.workbench.catalogue.notebooks import cell_source, find, read_notebook
from netrepro.workbench.catalogue.settings_cells import OF_EVERY_PAPER, PARAMETERS, declared_parameters, written_cell

FOLDER = Path(papers.__file__).parent
SLUGS = sorted(
    path.relative_to(FOLDER).parts[0].removesuffix(".py")
    for path in [*FOLDER.glob("[a-z]*.py"), *FOLDER.glob("[a-z]*/*.py")]
    if re.search(r"^STUDY\b", path.read_text(encoding="utf-8"), re.MULTILINE)
)
# Papers that time this machine's processor in every case: two runs differ, and beside other work none is trusted.
TIMED = {"dummynet"}
UNITLESS = ("share of", "load", "Jain's index", "correlation coefficient")
COUNTS = ("servers", "flows", "hosts", "clients", "receivers", "nodes", "peers", "connections", "repetitions")

# The smallest size of a paper may be too small for others' libraries: an axis of one value, a class of two flows.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Attempting to set identical low and high:UserWarning", "ignore:The least populated class in y:UserWarning"
)


@pytest.fixture(scope="module", params=SLUGS)
def study(request: pytest.FixtureRequest) -> Study:
    return smallest(request.param)


@pytest.fixture(scope="module")
def executed(study: Study) -> ExecutedCode:
    """The library's functions that run while a study is measured."""
    return ExecutedCode()


@pytest.fixture(scope="module")
def runs(study: Study, executed: ExecutedCode) -> Runs:
    """The runs of every case, with few repetitions, and of every knob."""
    with executed:
        measured = measure(study, profile=SMALLEST, repetitions=REPETITIONS, seed=7)
        measured.measured_claims()
    for knob in study.knobs:
        vary(measured, knob)
    return measured


@pytest.fixture(scope="module")
def figures(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """Every figure, from tables that were saved and read again."""
    folder = tmp_path_factory.mktemp("tables")
    runs.save(folder)
    again = load_runs(runs.study, folder)
    use_style()
    return {name: draw(again) for name, draw in runs.study.figures.items()}


def test_the_notebook_has_the_settings_parameters_and_the_standard_ones(study):
    parameters = find(study.slug).parameters
    assert parameters["repetitions"].default == study.repetitions
    assert set(parameters) - set(OF_EVERY_PAPER) == {each.name for each in parameter_fields(study.setting)}
    for scale in study.scales.values():
        assert not set(scale.changes) & set(parameters), "what a profile changes, a parameter could not"


@pytest.mark.parametrize("slug", SLUGS)
def test_a_run_that_decides_makes_five_repetitions_of_what_it_decides(slug):
    """A release refuses fewer, but only after hours of measuring."""
    study = import_module(f"netrepro.papers.{slug}").STUDY
    for claim in load_claims(slug).claims:
        where = claim.decided_by
        if where is None:
            continue
        scale = study.scale(where.profile, where.tier)
        asked = max(study.repetitions, LEAST_REPETITIONS) if where.profile == "paper" else study.repetitions
        times = max(scale.least_repetitions, scale.at_most(asked))
        on_kernels = several(study.on_kernels.get(claim.id, ())) if where.tier != SIMULATED else ()
        for evidence in on_kernels or several(study.claims.get(claim.id, ())):
            if not (evidence.exact or evidence.counted or evidence.pooled):
                made = {case: min(times, scale.fewer.get(case, times)) for case in evidence.case_names}
                assert min(made.values()) >= LEAST_REPETITIONS, (claim.id, where.key, made)


def test_a_setting_out_of_its_range_is_not_measured(study):
    limited = [each for each in parameter_fields(study.setting) if each.metadata["limits"] is not None]
    bounded = [each for each in limited if each.metadata["limits"].high < math.inf]
    for each in bounded:
        with pytest.raises(NetreproError, match=f"{each.name} = "):
            measure(study, replace(study.setting, **{each.name: 2 * each.metadata["limits"].high}))


@pytest.mark.parametrize("slug", SLUGS)
def test_the_notebooks_lines_are_the_settings(slug):
    """`make strip` writes them."""
    cells = [cell for cell in read_notebook(find(slug).path)["cells"] if PARAMETERS in cell["metadata"].get("tags", [])]
    (source,) = map(cell_source, cells)
    shown = list(find(slug).parameters)
    assert declared_parameters(slug, shown) and source == written_cell(source, slug, shown)


# What a notebook's section 4 draws, and parameters that must be seen in it.
DRAWN: dict[str, tuple[str, dict[str, Any]]] = {
    "buffer_sizing": ("draw_network", {"rate_mbps": 31.0}),
    "dcell": ("draw_tree", {"room_packets": 77}),
    "dctcp": ("draw_network", {"threshold_packets": 40}),
    "flow_completion_time": ("draw_network", {"rate_mbps": 77.0}),
    "hedera": ("draw_network", {"buffer_packets": 77}),
    "red": ("draw_network", {"rate_mbps": 31.0}),
    "repflow_model": ("draw_network", {"burst_packets": 77.0}),
    "repnet": ("draw_network", {"buffer_kb": 77}),
}


@pytest.mark.parametrize("slug", DRAWN)
def test_the_network_is_drawn_with_the_parameters(slug):
    paper, (name, changes) = import_module(f"netrepro.papers.{slug}"), DRAWN[slug]
    standard, changed = (getattr(paper, name)(replace(paper.STUDY.setting, **each)) for each in ({}, changes))
    assert _shown_in(standard) != _shown_in(changed)


def _shown_in(figure: Figure) -> list[Any]:
    texts = [text.get_text() for text in figure.findobj(Text)]
    return texts + [line.get_xydata().tolist() for line in figure.findobj(Line2D)]


def test_all_that_runs_in_a_measurement_is_in_the_papers_hash(study, runs, executed):
    with ExecutedCode() as of_knobs:  # which decide no claim; the first measurement keeps their runs for them
        _runs_of_knobs(runs)
    not_in_it = set(not_hashed(executed, study.slug, runs.tier)) - set(not_hashed(of_knobs, study.slug, runs.tier))
    assert len(executed.functions) > 50 and not_in_it == set()


def test_every_claim_is_measured(study, runs):
    only_on_kernels = set(study.on_kernels) - set(study.claims)
    claims = load_claims(study.slug)
    known = {claim.id for claim in claims.claims}
    elsewhere = {name for name, each in study.claims.items() if each.where and not each.where(runs.setting)}
    assert all(claims.claim(name).needs for name in elsewhere)
    assert {each.claim for each in runs.measured_claims()} == known - only_on_kernels - elsewhere
    assert only_on_kernels <= known


# Claims whose control says nothing in runs of this size: orders of nearly equals, curves of too few clients.
TOO_SMALL_FOR_CONTROL = {"narrower-with-mechanisms", "send-buffer-slows-wifi", "gain-over-rate", "gain-over-size"}


def test_no_control_of_a_claim_that_counts_agrees(study, runs):
    claims = load_claims(study.slug)
    for measured in runs.measured_claims() if study.slug not in TIMED else ():
        claim = claims.claim(measured.claim)
        if claim.id in TOO_SMALL_FOR_CONTROL:
            continue
        if judge(claim, measured, runs.tier).counts and claim.control and measured.has_control():
            assert judge(claim, measured.broken(), runs.tier).verdict != "agrees", claim.id


def test_every_check_holds_and_a_run_that_fails_one_is_untrusted(runs):
    assert runs.trusted or runs.study.slug in TIMED, runs.trust_table()
    assert len(runs.checks)
    broken = replace(runs, checks=runs.checks.assign(holds=False))
    claims = load_claims(runs.study.slug)
    for measured in broken.measured_claims():
        assert judge(claims.claim(measured.claim), measured, runs.tier).verdict == "untrusted"


def test_saved_tables_give_the_same_claims_and_answer(study, runs, tmp_path):
    runs.save(tmp_path)
    again = load_runs(study, tmp_path)
    assert again.setting == runs.setting
    assert again.measured_claims() == runs.measured_claims()
    assert study.answer is None or study.answer(again) == study.answer(runs)


def test_every_axis_says_what_it_shows_and_in_which_unit(figures):
    for name, figure in figures.items():
        figure.canvas.draw()
        for axis in figure.axes:
            for which in (axis.xaxis, axis.yaxis) if axis.axison else ():
                label, ticks = which.get_label_text(), [tick.get_text() for tick in which.get_ticklabels()]
                has_names = any(re.search("[a-z]", tick.replace("mathdefault", ""), re.I) for tick in ticks)
                has_no_unit = " / " in label or label.startswith((*COUNTS, *UNITLESS))
                assert not ticks or has_names or "(" in label or has_no_unit, f"{name}: {label!r}"
                assert "(1)" not in label, f"{name}: {label!r}"
                assert not any(r"\times" in tick for tick in ticks), f"{name}: {ticks}"


def test_the_same_seed_gives_the_same_runs(study, runs):
    name, changes = next(iter(study.cases.items()))
    small = replace(study, cases={name: changes}, claims={}, on_kernels={}, knobs={}, figures={}, best=())
    again = measure(small, profile=SMALLEST, repetitions=1, seed=runs.seed).values
    first = runs.values[runs.values["case"].eq(name) & runs.values["repetition"].isin(again["repetition"])]
    columns = ["case", "repetition"] if study.slug in TIMED else list(again)
    pd.testing.assert_frame_equal(first[columns].reset_index(drop=True), again[columns], check_dtype=False)


def has_experiment(slug: str) -> bool:
    paper = import_module(f"netrepro.papers.{slug}")
    return paper.STUDY.experiment is not None or hasattr(paper, "experiment")


WITH_EXPERIMENT = [slug for slug in SLUGS if has_experiment(slug)]


@pytest.mark.parametrize("slug", WITH_EXPERIMENT)
def test_the_experiment_of_every_case_survives_json(slug):
    study = smallest(slug)
    scale = study.scale(SMALLEST)
    asked = {}
    for point in points(study.cases, study.setting, scale):
        part = study.part_of(point.setting)
        if type(point.setting) is type(study.setting) or part.experiment is not None:
            asked.setdefault(point.case, point.setting)
    for case, setting in asked.items():
        make = study.part_of(setting).experiment or import_module(f"netrepro.papers.{slug}").experiment
        experiment = make(setting, scale.seconds, 7)
        assert Experiment.from_json(experiment.to_json()) == experiment, case


def test_an_unknown_profile_is_refused_by_the_nearest_name(study):
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        measure(study, profile="papr")


# Both ends of every range that a paper declares.
NEARLY = 1e-6  # a bound that is no value itself is missed by so much
SECONDS = 0.5
LONGER_S = {"dctcp": 5.2, "misbehaving_receiver": 30.0}  # until what is read begins
CASE = {"repnet": "1:1 tcp", "gmm_diagnosis": "labels drawn anew"}  # in place of the first
# A run, and no search; fewer flows.
CHANGES = {"buffer_sizing": {"flows": 2, "buffer_packets": 20}, "gmm_traffic": {"flows": 300}}
# Billions of bytes or of packets, which no test can wait for.
TOO_LONG = {
    ("buffer_sizing", "rate_mbps"),
    ("buffer_sizing", "round_trip_ms"),
    ("dctcp", "rate_mbps"),
    ("flow_completion_time", "rate_mbps"),
    ("fperf_leaf_spine", "horizon"),
    ("hedera", "rate_mbps"),
    ("incast", "block_bytes"),
    ("propshare", "pieces"),
}


def ends(slug: str, parameter: Field[Any]) -> list[Any]:
    limits, kind = parameter.metadata["limits"], type(parameter.default)
    if limits is None:
        return []
    if limits.words:
        return [word for word in limits.words if word not in (*PATHS, EMPTY, parameter.default)]
    low = kind(limits.low) if limits.low_itself else limits.low + NEARLY
    high = kind(limits.high) if limits.high_itself else limits.high - NEARLY
    return [low] if (slug, parameter.name) in TOO_LONG else [low, high]


def all_ends() -> Iterator[tuple[str, str, Any]]:
    for slug in SLUGS:
        for parameter in parameter_fields(smallest(slug).setting):
            yield from ((slug, parameter.name, end) for end in ends(slug, parameter))


@pytest.mark.filterwarnings("default::RuntimeWarning")  # at an end of a range there may be nothing to average
@pytest.mark.parametrize(("slug", "name", "end"), list(all_ends()))
def test_the_end_of_a_range_runs_or_is_refused_by_name(slug, name, end):
    study = smallest(slug)
    scale = study.scale(SMALLEST)
    case = CASE.get(slug, next(iter(study.cases)))
    setting = replace(study.setting, **{name: end})
    point = next(points({case: {**study.cases[case], **CHANGES.get(slug, {})}}, setting, scale))
    try:
        read_once(study, point.setting, LONGER_S.get(slug, SECONDS))
    except NetreproError as refused:
        assert f"{name} = {end!r}" in str(refused)


def test_what_is_refused_names_the_parameters_that_are_not_at_their_defaults():
    study = smallest("jellyfish")
    with pytest.raises(NetreproError, match=r"with server_gain = 0\.01: a Jellyfish of"):
        read_once(study, replace(study.setting, server_gain=0.01), SECONDS)


def test_sliders_stay_in_the_ranges_of_their_parameters(study):
    sliders = study.play.sliders if study.play else {}
    ranges = {each.name: each.metadata["limits"] for each in parameter_fields(study.setting)}
    for name in sliders.keys() & {name for name, limits in ranges.items() if limits is not None}:
        ends = sliders[name] if isinstance(sliders[name], list) else list(sliders[name][:2])
        assert ranges[name].holds(ends), name
