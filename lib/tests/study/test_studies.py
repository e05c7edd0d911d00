"""What every paper that is a Study keeps, in place of a copy of these tests in each paper's own file."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from netrepro import papers
from netrepro.claims import judge, load_claims
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.study import Runs, Study, load_runs, measure, points, vary
from netrepro.style import use_style
from netrepro.workbench.catalogue import find

FOLDER = Path(papers.__file__).parent
SLUGS = sorted(
    path.relative_to(FOLDER).parts[0].removesuffix(".py")
    for path in [*FOLDER.glob("[a-z]*.py"), *FOLDER.glob("[a-z]*/*.py")]
    if re.search(r"^STUDY\b", path.read_text(encoding="utf-8"), re.MULTILINE)
)
REPETITIONS = 4
NOT_OF_THE_SETTING = {"profile", "tier", "repetitions", "seed"}
COUNTS = ("servers", "flows", "hosts", "clients", "receivers", "nodes", "peers", "connections", "repetitions")


def study_named(slug: str) -> Study:
    return import_module(f"netrepro.papers.{slug}").STUDY


def smallest_profile(study: Study) -> str:
    return "test" if "test" in study.profiles else "quick"


@pytest.fixture(scope="module", params=SLUGS)
def study(request: pytest.FixtureRequest) -> Study:
    return study_named(request.param)


@pytest.fixture(scope="module")
def runs(study: Study) -> Runs:
    """The smallest profile with few repetitions, and every knob."""
    found = measure(study, profile=smallest_profile(study), repetitions=min(REPETITIONS, study.repetitions), seed=7)
    for knob in study.knobs:
        vary(found, knob)
    return found


@pytest.fixture(scope="module")
def figures(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """Every figure, from tables that were saved and read again."""
    folder = tmp_path_factory.mktemp("tables")
    runs.save(folder)
    again = load_runs(runs.study, folder)
    use_style()
    return {name: draw(again) for name, draw in runs.study.figures.items()}


def test_the_notebooks_defaults_are_the_settings(study):
    parameters = find(study.slug).parameters
    assert parameters["repetitions"].default == study.repetitions
    for name in set(parameters) - NOT_OF_THE_SETTING:
        assert parameters[name].default == getattr(study.setting, name), name
    for scale in [*study.profiles.values(), *study.on_virtual.values()]:
        assert not set(scale.changes) & set(parameters), "what a profile changes, a parameter could not"


# Papers with a Setting that are no Study, and the parameters of their notebooks that choose something else.
OTHER_SETTINGS: dict[str, set[str]] = {
    "cdn_routing": set(),
    "epaxos_revisited": set(),
    "gmm_diagnosis": {"pcaps"},
    "gmm_traffic": {"trace", "capture"},
    "oncache": set(),
    "propshare": set(),
    "repflow_model": {"load"},
}


def test_every_paper_with_a_setting_is_held_to_it():
    slugs = {path.stem for path in Path(papers.__file__).parent.glob("[a-z]*") if path.stem.isidentifier()}
    having = {slug for slug in slugs if hasattr(import_module(f"netrepro.papers.{slug}"), "Setting")}
    assert having - set(SLUGS) == set(OTHER_SETTINGS)


@pytest.mark.parametrize("slug", OTHER_SETTINGS)
def test_the_notebooks_defaults_are_those_of_a_setting_without_a_study(slug):
    setting = import_module(f"netrepro.papers.{slug}").Setting()
    parameters = find(slug).parameters
    for name in set(parameters) - NOT_OF_THE_SETTING - OTHER_SETTINGS[slug]:
        assert parameters[name].default == getattr(setting, name), name


# What a notebook's section 4 draws, and parameters that must be seen in it.
DRAWN: dict[str, tuple[str, dict[str, Any]]] = {
    "buffer_sizing": ("draw_network", {"rate_mbps": 31.0}),
    "dcell": ("draw_tree", {"room_packets": 77}),
    "dctcp": ("draw_network", {"threshold_packets": 40}),
    "flow_completion_time": ("draw_network", {"rate_mbps": 77.0}),
    "hedera": ("draw_network", {"buffer_packets": 77}),
    "red": ("draw_rule", {"max_probability": 0.5}),
    "repnet": ("draw_network", {"buffer_kb": 77}),
}


@pytest.mark.parametrize("slug", DRAWN)
def test_the_network_is_drawn_with_the_parameters(slug):
    paper, (name, changes) = import_module(f"netrepro.papers.{slug}"), DRAWN[slug]
    standard, changed = (getattr(paper, name)(replace(paper.Setting(), **each)) for each in ({}, changes))
    assert _shown_in(standard) != _shown_in(changed)


def _shown_in(figure: Figure) -> list[Any]:
    texts = [text.get_text() for text in figure.findobj(Text)]
    return texts + [line.get_xydata().tolist() for line in figure.findobj(Line2D)]


def test_every_claim_is_measured(study, runs):
    only_on_kernels = set(study.on_kernels) - set(study.claims)
    known = {claim.id for claim in load_claims(study.slug).claims}
    assert {each.claim for each in runs.measured_claims()} == known - only_on_kernels and only_on_kernels <= known


def test_no_control_of_a_claim_that_counts_agrees(study, runs):
    claims = load_claims(study.slug)
    for measured in runs.measured_claims():
        claim = claims.claim(measured.claim)
        if judge(claim, measured, runs.tier).counts and claim.control and measured.has_control():
            assert judge(claim, measured.broken(), runs.tier).verdict != "agrees", claim.id


def test_every_check_holds_and_a_run_that_fails_one_is_untrusted(runs):
    assert runs.trusted, runs.trust_table()
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
                assert has_names or "(" in label or label.startswith((*COUNTS, "share of")), f"{name}: {label!r}"
                assert not any(r"\times" in tick for tick in ticks), f"{name}: {ticks}"


def test_the_same_seed_gives_the_same_runs(study):
    name, changes = next(iter(study.cases.items()))
    small = replace(study, cases={name: changes}, claims={}, on_kernels={}, knobs={}, figures={})
    first, again = (measure(small, profile=smallest_profile(study), repetitions=1, seed=3).values for _ in range(2))
    pd.testing.assert_frame_equal(first, again)


WITH_EXPERIMENT = [slug for slug in SLUGS if hasattr(import_module(f"netrepro.papers.{slug}"), "experiment")]


@pytest.mark.parametrize("slug", WITH_EXPERIMENT)
def test_the_experiment_of_every_case_survives_json(slug):
    study = study_named(slug)
    make, scale = import_module(f"netrepro.papers.{slug}").experiment, study.scale(smallest_profile(study))
    asked = {}
    for point in points(study.cases, study.setting, scale):
        asked.setdefault(point.case, point.setting)
    for case, setting in asked.items():
        experiment = make(setting, scale.seconds, 7)
        assert Experiment.from_json(experiment.to_json()) == experiment, case


def test_an_unknown_profile_is_refused_by_the_nearest_name(study):
    with pytest.raises(NetreproError, match="did you mean 'paper'"):
        measure(study, profile="papr")
