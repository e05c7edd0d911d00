"""A congestion control in any language: Reno in a program is Reno in the core, and what is wrong is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from netrepro.applications import own_control
from netrepro.applications.own_control import simulate_controls
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, EcnThreshold, Experiment, Flow, Link, Measure, Tcp, dumbbell
from netrepro.simulation import simulate

RENO = """
import json, sys

credit = 0


def do(what, segments):
    print(json.dumps({"do": what, "segments": segments}))


for line in sys.stdin:
    event = json.loads(line)
    if event["event"] in ("loss", "mark"):
        credit = 0
        do("threshold", max(event["window"] // 2, 2))
    elif event["event"] == "grow" and event["window_limited"]:
        window, left = event["window"], event["segments"]
        threshold = event["threshold"] or 1e9
        if window < threshold:
            grown = min(window + left, threshold)
            window, left = grown, left - (grown - window)
        if left > 0:
            if credit >= window:
                window, credit, left_from = window + 1, 0, window
            else:
                left_from = window
            credit += left
            window += credit // left_from
            credit %= left_from
        do("window", window)
    print('{"do": "done"}', flush=True)
"""


@pytest.fixture
def command(tmp_path: Path):
    def command(source: str) -> list[str]:
        path = tmp_path / "control.py"
        path.write_text(source)
        return [sys.executable, "-S", "-B", str(path)]

    return command


def experiment(control: str, queue=None, **tcp) -> Experiment:
    net = dumbbell(2, Link(1000, 1, DropTail(packets=1000)), Link(20, 10, queue or DropTail(packets=30), loss=0.001))
    flows = (Flow("h1", "h3", duration_s=3), Flow("h2", "h4", 500_000, start_s=1))
    look = Measure(queues=(("s1", "s2"),), windows_interval_ms=10, packets=(("s1", "s2"),))
    return Experiment(net, flows, 3, measure=look, tcp=Tcp(control, **tcp))


@pytest.mark.parametrize("queue", [None, EcnThreshold(60, 15)])
def test_reno_in_a_program_gives_the_same_bytes_as_reno_in_the_core(command, queue):
    core = simulate(experiment("reno", queue, ecn=queue is not None))
    own = simulate_controls(experiment("my_reno", queue, ecn=queue is not None), {"my_reno": command(RENO)})
    for name in ("queues", "links", "windows", "packets"):
        assert getattr(core, name).to_csv() == getattr(own, name).to_csv()
    links = core.links_by_port.loc[("s1", "s2")]
    assert links.marked_packets > 10 if queue else links.dropped_packets > 10


def test_a_window_that_never_changes_is_what_the_sender_has(command):
    shell = """
        while read -r line; do
            echo '{"do": "window", "segments": 20}'
            echo '{"do": "threshold", "segments": 20}'
            echo '{"do": "done"}'
        done
    """
    windows = simulate_controls(experiment("my_own"), {"my_own": ["sh", "-c", shell]}).windows
    assert windows.query("time_s > 0.2 and flow == 0")["window_bytes"].median() == 20 * 1448


LOOP = "import sys\nfor line in sys.stdin:\n    print('{}')\n    print('{{\"do\": \"done\"}}', flush=True)\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise SystemExit('lost')", r"my_own of connection 0 .* ended with status 1\n(.*\n)*.*lost"),
        (LOOP.format("hello"), "its line 1 is no JSON: hello"),
        (LOOP.format('{"do": "window", "segments": -1}'), "has segments -1"),
        (LOOP.format('{"do": "window"}'), "has no 'segments'"),
        (LOOP.format('{"do": "send"}'), "is no action: 'send'"),
        (LOOP.format('{"do": "window", "segments": 100}'), "no threshold"),
    ],
)
def test_what_is_wrong_is_said(command, source, message):
    with pytest.raises(NetreproError, match=message) as error:
        simulate_controls(experiment("my_own"), {"my_own": command(source)})
    assert error.value.remedy


def test_too_many_connections_are_refused_and_a_control_that_is_not_given_is_said(command, monkeypatch):
    monkeypatch.setattr(own_control, "MOST_CONNECTIONS", 1)
    with pytest.raises(NetreproError, match="more than 1 connections"):
        simulate_controls(experiment("my_reno"), {"my_reno": command(RENO)})
    with pytest.raises(NetreproError, match="give its class"):
        simulate_controls(experiment("my_reno"), {})
