"""Nodes in any language: correct ones are judged correct, each broken one is found, and no process outlives a run."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from notebook_examples import examples_of

from netrepro.applications.own_node import program
from netrepro.applications.own_node.program import Board, NodeProgram
from netrepro.applications.own_node.raft import run_raft
from netrepro.applications.own_node.run import Crash, Cut, Scenario, Trial, repeat, run_programs
from netrepro.errors import NetreproError
from netrepro.networks import Link, LinkChange, dumbbell
from netrepro.protocols import judge as rules
from netrepro.protocols.judge import BROKEN, HOLDS
from netrepro.protocols.message_log import ARRIVED, LOST
from netrepro.protocols.registers import Request

FAULTS = (Crash("leader", 0.8, 1.5), Cut(("leader", "client1"), 2.0, 2.6))


@pytest.fixture(scope="module")
def node() -> str:
    """The notebook's node."""
    return examples_of("06_own_protocol")["node"]


@pytest.fixture
def run(tmp_path):
    """Run a node, a text of Python, as every node of a scenario."""

    def run(source: str, scenario: Scenario, **how) -> Trial:
        return run_programs(command_of(tmp_path, source), scenario, **how)

    return run


def command_of(folder: Path, source: str) -> list[str]:
    path = folder / "node.py"
    path.write_text(source)
    return [sys.executable, "-S", "-B", str(path)]


def broken(trial: Trial) -> set[str]:
    return set(trial.verdict.rule[trial.verdict.verdict == BROKEN])


# Correct nodes.


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_correct_node_is_judged_correct_under_loss_crashes_and_cuts(run, node, seed):
    trial = run(node, Scenario(nodes=5, seconds=5.0, loss=0.05, faults=FAULTS, seed=seed))
    assert set(trial.verdict.verdict) == {HOLDS}, trial.verdict.to_string()
    assert trial.history.answered_s.notna().sum() > 60 and len(trial.lives) == 6
    assert len(trial.announced[trial.announced.kind == "leader"]) >= 3


@pytest.mark.parametrize("seed", range(4))
def test_the_librarys_raft_is_judged_correct_by_the_same_judge(seed):
    trial = run_raft(Scenario(nodes=5, seconds=20.0, loss=0.05, faults=FAULTS, seed=seed, keys=("x",)))
    assert set(trial.verdict.verdict) == {HOLDS}, trial.verdict.to_string()


def test_the_same_seed_gives_the_same_trial_and_another_one_another(run, node):
    one, same, other = (run(node, Scenario(seconds=2.0, loss=0.05, seed=seed)) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(one.messages, same.messages)
    pd.testing.assert_frame_equal(one.history, same.history)
    assert not one.messages.equals(other.messages)


def test_a_node_in_another_language():
    """A shell's: it refuses whatever it is asked."""
    shell = r"""
        while read -r line; do
            case "$line" in *'"event": "request"'*)
                id=${line#*'"id": "'}
                printf '{"do": "refuse", "id": "%s"}\n' "${id%%\"*}" ;;
            esac
            printf '{"do": "done"}\n'
        done
    """
    trial = run_programs(["sh", "-c", shell], Scenario(seconds=1.0))
    assert set(trial.messages.kind) == {"Request", "Refusal"} and trial.history.answered_s.isna().all()
    assert trial.messages.kind.value_counts()["Refusal"] > 20
    assert trial.verdict.set_index("rule").verdict[rules.ANSWERS] == rules.NOT_JUDGED


def test_a_node_that_never_answers_clients_is_found(run):
    silent = 'import sys\nfor line in sys.stdin:\n    print(\'{"do": "done"}\', flush=True)\n'
    assert broken(run(silent, Scenario(seconds=3.0))) == {rules.ANSWERS}


# Broken nodes.

LOCAL_READ = """            return do("refuse", id=event["id"], leader=self.leader)
        if event["op"] == "read":
            return do("reply", id=event["id"], value=self.registers.get(event["key"]))
"""
COUNTED = "held = sorted([len(self.log), *self.matches.values()])[len(self.peers) // 2]"
BROKEN_NODES = {
    "votes for whoever asks": (
        "is_free = self.vote in (None, sender)",
        "is_free = True",
        rules.ONE_LEADER,
    ),
    "commits what it alone has": (COUNTED, "held = len(self.log)", rules.SAME_ENTRY),
    "votes for those whose log is behind": (
        'and is_free and message["last"] >= self.last()',
        "and is_free",
        rules.SAME_ENTRY,
    ),
    "reads from its own registers": (
        '            return do("refuse", id=event["id"], leader=self.leader)\n',
        LOCAL_READ,
        rules.LINEARIZABLE,
    ),
    "sets without comparing": (
        'command["op"] == "cas" and answer == command["expected"]',
        'command["op"] == "cas"',
        rules.LINEARIZABLE,
    ),
    "commits twice": (
        'do("commit", index=self.committed, entry=entry)',
        'do("commit", index=self.committed, entry=entry)\n            do("commit", index=self.committed, entry=entry)',
        rules.IN_ORDER,
    ),
}


@pytest.mark.parametrize("name", BROKEN_NODES)
def test_each_broken_node_is_found(run, node, name):
    line, instead, rule = BROKEN_NODES[name]
    assert node.count(line) == 1
    scenario = Scenario(nodes=5, seconds=4.0, loss=0.02, faults=FAULTS)
    for seed in range(1, 31):
        trial = run(node.replace(line, instead), replace(scenario, seed=seed))
        if rule in broken(trial):
            row = trial.verdict.set_index("rule").loc[rule]
            assert row.counterexample and 0 < row.evident_s <= scenario.seconds
            return
    pytest.fail(f"{rule} held in all runs")


def test_a_vote_that_is_not_saved_is_given_twice_after_a_crash(tmp_path):
    """A voter crashes between two candidates of one term; with the vote saved the second one is refused."""
    voter = """
        import json, sys
        saved = None
        for line in sys.stdin:
            event = json.loads(line)
            if event["event"] == "start":
                vote, name = event["saved"], event["name"]
                if name != "n3":
                    after_s = 0.1 if name == "n1" else 0.5
                    print(json.dumps({"do": "timer", "name": "stand", "after_s": after_s}))
            elif event["event"] == "timer":
                print(json.dumps({"do": "send", "to": "n3", "message": {"kind": "ask"}}))
            elif event["message"]["kind"] == "ask":
                if vote in (None, event["from"]):
                    vote = event["from"]
                    SAVE
                    print(json.dumps({"do": "send", "to": vote, "message": {"kind": "yes"}}))
            else:
                print(json.dumps({"do": "leader", "term": 1}))
            print('{"do": "done"}', flush=True)
    """
    scenario = Scenario(seconds=1.0, clients=0, faults=(Crash("n3", 0.2, 0.3),))
    for save, verdict in (("print(json.dumps({'do': 'save', 'state': vote}))", HOLDS), ("pass", BROKEN)):
        source = textwrap.dedent(voter).replace("SAVE", save)
        trial = run_programs(command_of(tmp_path, source), scenario)
        assert trial.verdict.set_index("rule").verdict[rules.ONE_LEADER] == verdict


# What happens to nodes.


def test_a_crashed_node_gets_nothing_and_knows_afterwards_what_it_has_saved(run):
    counts = """
import json, sys
for line in sys.stdin:
    event = json.loads(line)
    if event["event"] == "start":
        count = event["saved"] or 0
        print(json.dumps({"do": "note", "text": f"has {count}"}))
    else:
        count += 1
        print(json.dumps({"do": "save", "state": count}))
    print(json.dumps({"do": "timer", "name": "tick", "after_s": 0.1}))
    print('{"do": "done"}', flush=True)
"""
    trial = run(counts, Scenario(seconds=1.0, clients=0, faults=(Crash("n2", 0.45, 0.85), Crash("n3", 0.25))))
    notes = trial.announced[trial.announced.node == "n2"]
    assert list(notes.entry) == ["has 0", "has 4"] and list(notes.life) == [1, 2]
    assert trial.lives[trial.lives.node == "n2"][["up_s", "down_s"]].to_numpy().tolist() == [[0.0, 0.45], [0.85, 1.0]]
    assert trial.lives[trial.lives.node == "n3"].down_s.tolist() == [0.25]
    assert trial.faults.to_numpy().tolist() == [["crash", "n2", 0.45, 0.85], ["crash", "n3", 0.25, 1.0]]


def test_faults_name_whom_they_befell_and_those_that_befell_nobody_are_left_out(run):
    faults = (Crash("leader", 0.01), Cut(("n1", "client2"), 0.1, 0.2), Crash("n3", 0.3, 0.6), Crash("n3", 0.4, 0.5))
    found = run(CALLS, Scenario(seconds=0.8, faults=faults)).faults
    assert found.to_numpy().tolist() == [["cut", "n1, client2", 0.1, 0.2], ["crash", "n3", 0.3, 0.6]]
    trial = run_raft(Scenario(seconds=2.0, faults=(Crash("leader", 1.0), Cut(("leader", "client1"), 1.6))))
    leads = trial.announced[trial.announced.kind == "leader"].node.tolist()
    assert trial.faults.names.tolist() == [leads[0], f"{leads[1]}, client1"] and leads[0] != leads[1]


def test_timers_of_one_time_run_out_in_the_order_in_which_they_were_set(run):
    sets = """
import json, sys
for line in sys.stdin:
    event = json.loads(line)
    if event["event"] == "start":
        for name, after_s in (("a", 0.2), ("b", 0.2), ("c", 0.1), ("d", 0.3), ("a", 0.2), ("d", None)):
            print(json.dumps({"do": "timer", "name": name, "after_s": after_s}))
    else:
        print(json.dumps({"do": "note", "text": event["name"]}))
    print('{"do": "done"}', flush=True)
"""
    trial = run(sets, Scenario(nodes=1, seconds=1.0, clients=0))
    assert list(zip(trial.announced.time_s, trial.announced.entry, strict=True)) == [(0.1, "c"), (0.2, "b"), (0.2, "a")]


CALLS = """
import json, sys
for line in sys.stdin:
    event = json.loads(line)
    if event["event"] in ("start", "timer"):
        print(json.dumps({"do": "timer", "name": "call", "after_s": 0.05}))
        for peer in event.get("peers", []) or peers:
            print(json.dumps({"do": "send", "to": peer, "message": {"kind": "call"}}))
        peers = event.get("peers", []) or peers
    print('{"do": "done"}', flush=True)
"""


def test_loss_is_that_of_messages_and_a_way_takes_what_it_should(run):
    table = run(CALLS, Scenario(nodes=3, seconds=40.0, clients=0, loss=0.2, delay_ms=8.0, jitter_ms=0.0)).messages
    assert (table.fate == LOST).mean() == pytest.approx(0.2, abs=0.02)  # of 4800: four deviations are .023
    ways_ms = (table.received_s - table.sent_s)[table.fate == ARRIVED] * 1e3
    assert ways_ms.min() == pytest.approx(8.0, abs=0.01) and ways_ms.max() < 8.01


def test_a_cut_stops_what_crosses_it_and_nothing_else_and_links_of_ones_own_may_break(run):
    table = run(CALLS, Scenario(nodes=4, seconds=2.0, clients=0, faults=(Cut(("n1", "n2"), 0.5, 1.5),))).messages
    crosses = table.sender.isin(["n1", "n2"]) != table.receiver.isin(["n1", "n2"])
    during = table.sent_s.between(0.5, 1.49)
    assert set(table.fate[crosses & during]) == {LOST}
    assert LOST not in set(table.fate[~crosses]) | set(table.fate[~table.sent_s.between(0.49, 1.5)])
    # A network of one's own, whose link breaks: h1 and h2 at one end, h3 and h4 at the other.
    down = (LinkChange(0.5, "s1", "s2", up=False),)
    net = dumbbell(2, Link(100, 1), Link(100, 1))
    table = run(CALLS, Scenario(nodes=4, seconds=2.0, clients=0, network=net, changes=down)).messages
    crosses = table.sender.isin(["n1", "n2"]) != table.receiver.isin(["n1", "n2"])
    assert set(table.fate[crosses & table.sent_s.between(0.5, 1.9)]) == {LOST} and LOST not in set(table.fate[~crosses])


def test_several_seeds_are_a_row_each(tmp_path, node):
    found = repeat(command_of(tmp_path, node), Scenario(seconds=1.5), [4, 7])
    assert list(found.index) == [4, 7] and list(found.columns) == list(rules.RULES)
    assert (found[rules.ONE_LEADER] == HOLDS).all()


# What goes wrong.

LOOP = 'import sys, json, os, time\nfor line in sys.stdin:\n    {}\n    print(\'{{"do": "done"}}\', flush=True)\n'
WRONG = {
    "hangs": (LOOP.format("time.sleep(600)"), r"no answer within 1 s .*\n.*\"event\": \"start\""),
    "forgets to flush": (
        "import sys\nout = open(1, 'w')\nfor line in sys.stdin:\n    out.write('{\"do\": \"done\"}\\n')\n",
        "flush standard output",
    ),
    "ends": ("import sys\nsys.exit('all is lost')", r"ended with status 1\n(.*\n)*.*all is lost"),
    "is killed": (LOOP.format("os.kill(os.getpid(), 9)"), "ended by signal 9"),
    "garbage": (LOOP.format("print('hello')"), r"its line 1 is no JSON: hello"),
    "bytes": (LOOP.format("os.write(1, bytes([255, 10]))"), "is no JSON"),
    "not a number": (LOOP.format("""print('{"do": "save", "state": NaN}')"""), "is no JSON"),
    "a list": (LOOP.format("print([1])"), r"is no action: \[1\]"),
    "a mistake": (LOOP.format("""print('{"do": "sent"}')"""), "did you mean 'send'"),
    "a lack": (LOOP.format("""print('{"do": "send", "to": "n2"}')"""), "has no 'message'"),
    "nobody": (LOOP.format("""print('{"do": "send", "to": "n7", "message": 1}')"""), "message to 'n7'"),
    "itself": (LOOP.format("""print('{"do": "send", "to": "n1", "message": 1}')"""), "message to 'n1'"),
    "too much": (
        LOOP.format("""print(json.dumps({"do": "send", "to": "n2", "message": "x" * 70000}))""").replace("{{", "{"),
        "a datagram holds 65,507",
    ),
    "backwards": (LOOP.format("""print('{"do": "timer", "name": "t", "after_s": -1}')"""), "sets a timer after -1"),
    "no request": (LOOP.format("""print('{"do": "reply", "id": "x", "value": 1}')"""), "answers 'x'"),
    "a term": (LOOP.format("""print('{"do": "leader", "term": "one"}')"""), "term 'one'"),
    "floods": (LOOP.format("""[print('{"do": "note", "text": "x"}') for _ in range(20000)]"""), "and no end"),
    "a long line": (LOOP.format("sys.stdout.write('x' * 3000000)"), "a line of more than"),
    "stands still": (
        LOOP.format("""print('{"do": "timer", "name": "t", "after_s": 0}')"""),
        r"events at 0 s",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_the_node_and_the_line_and_what_to_do(run, name):
    source, message = WRONG[name]
    begun_s = time.monotonic()
    with pytest.raises(NetreproError, match=message) as error:
        run(source, Scenario(seconds=1.0), patience_s=1.0 if name in ("hangs", "forgets to flush") else 30.0)
    assert "node n1" in error.value.problem and error.value.remedy
    assert name != "hangs" or time.monotonic() - begun_s < 60


def test_a_program_that_is_not_there_is_said():
    with pytest.raises(NetreproError, match="cannot be started"):
        run_programs(["there-is-no-such-program"], Scenario())
    with pytest.raises(NetreproError, match="cannot be started"):
        run_programs([], Scenario())


def test_answers_must_be_values(tmp_path):
    for op, value, message in (("read", "true", "a read"), ("read", "[1]", "a read"), ("cas", "3", "a cas")):
        line = f'{{"do": "reply", "id": "r", "value": {value}}}'
        source = (
            f"import sys\nfor line in sys.stdin:\n    print('{line}')\n    print('{{\"do\": \"done\"}}', flush=True)\n"
        )
        node = NodeProgram("n1", command_of(tmp_path, source), ["n2"], 1, Board())
        with pytest.raises(NetreproError, match=f"answers {message}"):
            node.receive(0.0, "client1", Request("r", op, "x", 1, None))


@pytest.mark.parametrize("ending", ["well", "error"])
def test_no_process_outlives_a_run_nor_what_it_has_started(run, tmp_path, ending):
    last = "" if ending == "well" else "\n    if event['time_s'] > 0.05: print('garbage')"
    source = f"""
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "1000"])
with open({str(tmp_path / "pids")!r}, "a") as file:
    print(os.getpid(), child.pid, file=file)
for line in sys.stdin:
    event = json.loads(line){last}
    print('{{"do": "timer", "name": "t", "after_s": 0.1}}')
    print('{{"do": "done"}}', flush=True)
"""
    scenario = Scenario(seconds=0.5, clients=0, faults=(Crash("n2", 0.01),))
    if ending == "well":
        run(source, scenario)
    else:
        with pytest.raises(NetreproError, match="no JSON"):
            run(source, scenario)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    ends_s = time.monotonic() + 60  # a busy machine may take its time to end what was killed
    while any(is_alive(pid) for pid in pids) and time.monotonic() < ends_s:
        time.sleep(0.01)
    assert len(pids) == 6 and not any(is_alive(pid) for pid in pids)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_no_process_outlives_one_that_is_killed(tmp_path):
    """Nobody ends the nodes of a process that is killed; they end by themselves, though they read nothing."""
    node = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n"
    parent = textwrap.dedent(f"""
        from netrepro.applications.line_process import LineProcess
        process = LineProcess("a node", {command_of(tmp_path, node)!r}, patience_s=1000)
        process.tell({{}}, {{}})
    """)
    running = subprocess.Popen([sys.executable, "-c", parent])
    path, ends_s = tmp_path / "pid", time.monotonic() + 60
    while not (path.exists() and path.read_text()) and time.monotonic() < ends_s:
        time.sleep(0.01)
    pid = int(path.read_text())
    assert is_alive(pid)
    running.kill()
    running.wait()
    while is_alive(pid) and time.monotonic() < ends_s:
        time.sleep(0.01)
    assert not is_alive(pid)


def test_what_a_node_says_to_standard_error_is_kept(run):
    trial = run(LOOP.format("print(line[:12], file=sys.stderr)"), Scenario(nodes=2, seconds=0.1, clients=0))
    assert trial.errors == {"n1": '{"time_s": 0\n', "n2": '{"time_s": 0\n'}


def test_events_without_end_are_said(monkeypatch, run):
    monkeypatch.setattr(program, "MOST_EVENTS", 50)
    with pytest.raises(NetreproError, match="more than 50 events"):
        run(CALLS, Scenario(seconds=5.0, clients=0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(nodes=0), "nodes = 0"),
        (dict(loss=1.0), "loss = 1.0"),
        (dict(nodes=2.5), "nodes = 2.5"),
        (dict(jitter_ms=-1.0), "jitter_ms"),
        (dict(seconds=0.0), "seconds = 0.0"),
        (dict(faults=(Crash("n9", 1.0),)), "no node 'n9'"),
        (dict(faults=(Crash("client1", 1.0),)), "no node 'client1'"),
        (dict(faults=(Crash("n1", 9.0),)), "let it begin"),
        (dict(faults=(Cut(("n1",), 2.0, 1.0),)), "let it begin"),
        (dict(network=dumbbell(1, Link(1, 1), Link(1, 1))), "2 hosts for 3 nodes"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(NetreproError, match=message):
        Scenario(**wrong)


def test_all_is_calm_when_the_last_fault_has_ended_and_never_without_a_majority():
    assert Scenario(faults=FAULTS).calm_s == 2.6 and Scenario().calm_s == 0.0
    assert Scenario(faults=(Crash("n1", 1.0),)).calm_s == 1.0
    assert Scenario(faults=(Crash("n1", 1.0), Crash("n2", 2.0))).calm_s == float("inf")
    assert Scenario(faults=(Cut(("n1",), 1.0),)).calm_s == float("inf")
