"""The notebook about a protocol of one's own: its node is correct, and what its text says of broken ones is true."""

import pytest
from notebook_examples import examples_of

from netrepro.errors import NetreproError
from netrepro.guides import own_protocol as own
from netrepro.protocols import judge as rules
from netrepro.protocols.message_log import LOST

NOTEBOOK = "06_own_protocol"
SCENARIO = own.Scenario(5, 5.0, 1, loss=0.02, faults=(own.Crash("leader", 1.0, 1.6),))


@pytest.fixture(scope="module")
def node() -> str:
    return examples_of(NOTEBOOK)["node"]


@pytest.fixture(scope="module")
def trial(node):
    return own.run_python(node, SCENARIO)


def test_the_notebooks_node_breaks_no_rule_and_neither_does_the_librarys(trial):
    table = own.side_by_side({"yours": trial, "the library's": own.run_raft(SCENARIO)})
    assert (table == rules.HOLDS).all(axis=None) and list(table.index) == list(rules.RULES)
    assert own.broken_rules(trial) == []


def test_a_crash_leaves_no_leader_for_a_timeout_or_a_few_and_loss_is_the_scenarios(trial):
    assert 100 < own.leaderless_ms(trial, 1.0) < 1000
    lossy = own.run_raft(own.Scenario(5, 20.0, 1, loss=0.1))
    assert own.lost_share(lossy, 19.0) == pytest.approx(0.1, abs=0.02)
    assert own.lost_share(own.run_raft(own.Scenario(5, 2.0, 1)), 1.9) == 0.0


def test_a_node_that_forgets_its_vote_is_found_and_drawn(node):
    forgetful = node.replace("is_free = self.vote in (None, sender)", "is_free = True")
    assert forgetful != node and own.broken_rules(own.first_broken(node, SCENARIO, [1])) == []
    broken = own.first_broken(forgetful, SCENARIO, range(1, 30))
    assert own.broken_rules(broken)[0] == rules.ONE_LEADER
    (axis,) = own.draw_around(broken, rules.ONE_LEADER).axes
    term = broken.verdict.counterexample[0].split(":")[0]
    assert sum(text.get_text() == f"leads {term}" for text in axis.texts) == 2


def test_pictures_have_clients_if_asked_and_say_whether_a_rule_was_broken(trial):
    few, more = own.draw(trial, 1.0, 1.3), own.draw(trial, 1.0, 1.3, clients=True)
    assert len(more.axes[0].patches) > len(few.axes[0].patches) > 10
    shown = trial.messages[trial.messages.sent_s.between(1.0, 1.3)]
    assert len(more.axes[0].patches) == len(shown) and (shown.fate == LOST).any()
    assert own.draw_around(trial, rules.ANSWERS).get_suptitle() == f"Not broken in this run: {rules.ANSWERS}"
    with pytest.raises(NetreproError, match="no seed"):
        own.first_broken("", SCENARIO, [])


def test_epaxos_needs_accept_where_writes_meet_and_tcp_loses_what_overruns_its_queue():
    (axis,) = own.draw_epaxos().axes
    assert {"PreAccept", "Accept", "Commit"} <= {text.get_text() for text in axis.get_legend().get_texts()}
    messages, sequence = own.draw_segments()
    assert len(messages.axes[0].patches) > 50
    assert "lost" in {text.get_text() for text in sequence.axes[0].get_legend().get_texts()}


def test_what_is_not_python_is_said_with_its_line():
    with pytest.raises(NetreproError, match=r"program.py line 2: "):
        own.run_python("import json\nfor line in\n", SCENARIO)


def test_a_control_that_listens_to_delay_yields_to_cubic_and_shares_with_itself_without_losses():
    found = own.race_python(examples_of(NOTEBOOK)["control"], ["cubic", own.OWN_CONTROL], seconds=8.0)
    against, itself = (measured.flows.goodput_mbps for measured in found.values())
    assert against[1] > 2 * against[0]
    assert max(itself) < 2 * min(itself) and sum(itself) > 8.5
    assert found["my_control and my_control"].links.dropped_packets.sum() == 0
    assert [len(axis.lines) for axis in own.draw_windows(found).axes] == [2, 2]
