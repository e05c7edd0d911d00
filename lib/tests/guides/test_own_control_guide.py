"""The notebook about a congestion control of one's own: what its text says of each step is true."""

from __future__ import annotations

import pytest
from notebook_examples import examples_of

from netrepro.errors import NetreproError
from netrepro.guides import own_control as own

STACKS = {"timer-of-a-second", "restart-window-after-one-timeout"}  # Linux's TCP, whatever the control


@pytest.fixture(scope="module")
def examples() -> dict[str, str]:
    """The programs in the notebook's examples: name of the variable -> text."""
    return examples_of("07_own_control")


def test_each_step_mends_what_the_text_says(examples):
    halves = examples["grows"].replace(
        'do("threshold", event["window"])', 'do("threshold", max(event["window"] / 2, 2))'
    )
    steps = {
        name: own.run(source, "rfc", ["one_loss", "flight_below_window", "slow_start", "blackout", "short_pause"])
        for name, source in {**examples, "halves": halves}.items()
    }
    assert "slow-start-grows" in own.failed(steps["empty"]) and "slow-start-grows" not in own.failed(steps["grows"])
    assert "halves-after-a-loss" in own.failed(steps["grows"])
    assert own.failed(steps["halves"]) == ["threshold-from-flight-size"]
    assert own.failed(steps["control"]) == []
    assert set(own.look(steps["control"], own.DEPARTS)["id"]) == STACKS
    table = own.compare(steps).set_index("sentence")
    assert list(table.loc["threshold-from-flight-size"]) == ["fail", "fail", "pass", "fail"]


def test_the_control_shares_and_the_greedy_one_does_not(examples):
    control = examples["control"]
    greedy = control.replace('event["window"]) / 2, 2)', 'event["window"]) * 0.95, 2)')
    fair, harm = (own.run(source, "fairness", ["beside_reno"]) for source in (control, greedy))
    assert own.failed(fair) == [] and own.failed(harm) == ["leaves-reno-its-share"]
    assert own.measured(harm, "leaves-reno-its-share") > 4 * own.measured(fair, "leaves-reno-its-share")
    figure = own.draw_scenario(fair, "beside_reno")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["reference: reno", "my_program, flow 1", "reno, flow 2"]


def test_a_picture_of_what_has_not_run_and_a_text_that_is_no_python_are_refused(examples):
    report = own.run(examples["control"], "rfc", ["lost_syn"])
    with pytest.raises(NetreproError, match="one_loss has not run"):
        own.draw_scenario(report, "one_loss")
    with pytest.raises(NetreproError, match="line 1"):
        own.run("for")
