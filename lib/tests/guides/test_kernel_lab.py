"""The kernel lab: the notebook's own modules do what its text says, mistakes are shown, and no kernel is no crash."""

import pytest
from notebook_examples import examples_of
from virtual_kernel import needs_virtual

from netrepro.errors import NetreproError
from netrepro.guides import kernel_lab as lab
from netrepro.networks import Experiment, Flow, Link, OwnQueue, star
from netrepro.simulation import simulate

PATH = lab.SharedPath(seconds=15.0)


@pytest.fixture(scope="module")
def modules() -> dict[str, str]:
    """The C in the notebook's examples: name of the variable -> text."""
    return examples_of("04_kernel_lab")


@needs_virtual
def test_who_gives_back_an_eighth_takes_more_than_cubic_and_bbr_more_than_both(modules):
    found = lab.race({"my_control": modules["control"]}, ["cubic", "bbr"], PATH)
    share = found.totals.set_index(["race", "control"])["share"]
    assert share["my_control against cubic", "my_control"] > 2 * share["my_control against cubic", "cubic"]
    assert share["my_control against bbr", "bbr"] > share["my_control against bbr", "my_control"]
    assert found.totals.groupby("race")["share"].sum().between(0.85, 1.05).all()
    assert len(lab.draw_race(found).axes) == len(lab.draw_windows(found).axes) == 3


@needs_virtual
def test_a_queue_of_ones_own_keeps_the_wait_short_and_the_link_busy(modules):
    found = lab.compare_queues({"my_queue": modules["queue"]}, PATH)
    waited = found.totals.groupby("race")["mean_queue_ms"].first()
    assert waited["my_queue"] < 10 < 50 < waited["drop-tail"]
    assert found.totals.groupby("race")["share"].sum()["my_queue"] > 0.85
    assert len(lab.draw_queues(found).axes) == 2


@needs_virtual
def test_a_queue_of_ones_own_holds_as_many_packets_as_it_is_told(modules):
    """Never more than `packets` wait at a port that a burst overruns."""
    path = lab.SharedPath(buffer_share=0.05, seconds=5.0)
    found = lab.compare_queues({"my_queue": modules["queue"]}, path)
    assert found.queues["my_queue"]["queue_packets"].max() <= 4 * path.buffer_packets


@needs_virtual
def test_the_compiler_names_the_line_in_the_cell(modules):
    lines = modules["control"].splitlines()
    line = 1 + next(place for place, text in enumerate(lines) if "7 / 8" in text)
    with pytest.raises(NetreproError, match=rf"\.c:{line}:.*undeclared"):
        lab.compile_module(modules["control"].replace("2U", "nothing"))


def test_a_queue_without_its_source_is_refused_and_so_is_a_tier_that_has_no_modules():
    experiment = Experiment(star(2, Link(10.0, 1.0, OwnQueue("my_queue"))), (Flow("h1", "h2", duration_s=1.0),), 1.0)
    with pytest.raises(NetreproError, match="tier 'virtual'"):
        simulate(experiment)
    with pytest.raises(NetreproError, match="modules="):
        lab.emulate_virtually(experiment)
    with pytest.raises(NetreproError, match="my_ and up to 12"):
        OwnQueue("fq_codel")


def test_without_a_kernel_the_pictures_say_so(monkeypatch):
    monkeypatch.setattr(lab, "why_no_processes", lambda: "no virtual kernel: not built")
    found = lab.race({"my_control": ""}, ["cubic"], PATH)
    assert lab.compile_module("") == found.why == "no virtual kernel: not built" and found.totals.empty
    for figure in (lab.draw_race(found), lab.draw_windows(found), lab.draw_queues(found)):
        assert any("not measured" in text.get_text() for axis in figure.axes for text in axis.texts)
