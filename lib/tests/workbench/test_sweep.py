"""A sweep: the same notebook over values of one parameter, one tidy table."""

from __future__ import annotations

import pytest
from command_line import command
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.workbench.catalogue.parameters import Parameter
from netrepro.workbench.cli.console import COLUMNS, sweep_lines
from netrepro.workbench.running.sweeping import cost_of, parse_range, sweep

LOAD = Parameter("load", "float", 0.5, "")
COUNT = Parameter("count", "int", 4, "")


def test_a_range_is_evenly_spaced_with_both_ends():
    assert parse_range("0.1..0.9", LOAD, 5) == [0.1, 0.3, 0.5, 0.7, 0.9]


@given(low=st.integers(-50, 50), span=st.integers(1, 100), points=st.integers(2, 20))
def test_a_range_of_whole_numbers_has_each_once_and_both_ends(low, span, points):
    values = parse_range(f"{low}..{low + span}", COUNT, points)
    assert values == sorted(set(values)) and all(type(value) is int for value in values)
    assert (values[0], values[-1]) == (low, low + span) and len(values) == min(points, span + 1)


@pytest.mark.parametrize(
    ("text", "low", "high"), [(".01..0.1", 0.01, 0.1), ("1...3.", 1.0, 3.0), ("-1..+1e1", -1.0, 10.0)]
)
def test_the_ends_of_a_range_are_numbers_as_python_reads_them(text, low, high):
    assert parse_range(text, LOAD, 2) == [low, high]


def test_a_path_with_dots_is_no_range():
    paths = ["../mine.pcap", "a/../b.pcap"]
    assert parse_range(",".join(paths), Parameter("capture", "str", "", ""), 9) == paths


def test_a_list_keeps_its_order_and_each_value_once():
    assert parse_range("3,1,3", COUNT, 9) == [3, 1]


@pytest.mark.parametrize("text", ["a..b", "0.1..", "1,x"])
def test_a_malformed_range_is_refused(text):
    with pytest.raises(NetreproError):
        parse_range(text, LOAD, 5)


def test_a_sweep_judges_every_value_and_leaves_a_table_and_a_figure(echo_paper, workbench):
    done = sweep("echo", "load=0.5,0.7", jobs=2)
    assert list(done.table["load"]) == [0.5, 0.7]
    assert list(done.table["value"]) == [0.5, 0.7]
    assert list(done.table["verdict"]) == ["agrees", "disagrees"]
    assert {path.name for path in done.folder.glob("sweep.*")} == {"sweep.csv", "sweep.png", "sweep.svg"}
    assert not list((workbench / "figures").iterdir())


def test_several_parameters_are_swept_over_every_combination_and_printed_in_80_columns(echo_paper):
    done = sweep("echo", ["load=0.5,0.7", "seed=1,2"], jobs=2)
    rows = [[load, seed, load] for load in (0.5, 0.7) for seed in (1, 2)]
    assert done.table[["load", "seed", "value"]].to_numpy().tolist() == rows
    legend = [text.get_text() for text in done.figure.legends[0].get_texts()]
    assert legend[-2:] == ["seed = 1", "seed = 2"] and len(done.figure.axes[0].lines) == 2
    lines = sweep_lines(done.table, ["load", "seed"])
    assert lines[0].startswith("load-is-half") and "  load = 0.7, seed = 2: 0.7 ✗" in lines
    assert lines[-1] == "✓ agrees  ✗ disagrees" and max(map(len, lines)) <= COLUMNS


def test_sweeps_with_other_settings_do_not_overwrite_each_other(echo_paper, pretended_runs):
    first = sweep("echo", "load=0.5")
    table = (first.folder / "sweep.csv").read_bytes()
    others = [sweep("echo", "load=0.5", parameters={"seed": 2}), sweep("echo", "load=0.7")]
    assert (first.folder / "sweep.csv").read_bytes() == table
    assert len({first.folder, *(other.folder for other in others)}) == 3


def test_no_runs_at_a_time_are_refused_in_words(echo_paper):
    with pytest.raises(NetreproError, match="1 or more"):
        cost_of("echo", "load=0.5", jobs=0)


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        ("laod=0..1", "did you mean 'load'"),
        ("load", "name=a..b"),
        ("profile=a..b", "list its values"),
        ("load=", "has no value"),
        (["load=0.1", "load=0.2"], "varied twice"),
        ("tier=simulated", "tier cannot be varied\n  sweep once for each, with --tier"),
    ],
)
def test_a_mistyped_sweep_is_refused_at_once(echo_paper, vary, words):
    with pytest.raises(NetreproError, match=words):
        sweep("echo", vary)


def test_a_sweep_is_refused_before_it_says_what_it_costs(echo_paper):
    for words in (["-p", "load=0.5"], ["-p", "laod=0.5"]):
        refused = command("sweep", "echo", "--vary", "load=0.1,0.2", *words)
        assert refused.returncode == 2 and "runs of echo" not in refused.stdout


def test_a_range_of_one_point_is_refused(echo_paper):
    with pytest.raises(NetreproError, match="seed is of type int and points = 1"):
        cost_of("echo", "seed=1..9", points=1)


@pytest.mark.parametrize(
    ("vary", "points", "words"), [("load=0..1", 10**12, "points = 1000000000000"), (["load=0..1"] * 2, 2, "twice")]
)
def test_a_sweep_that_no_machine_ends_is_refused_at_once(echo_paper, vary, points, words):
    with pytest.raises(NetreproError, match=words):
        cost_of("echo", vary, points=points)
    with pytest.raises(NetreproError, match=r"250000 runs, one for each combination\n  vary less"):
        cost_of("echo", ["load=0..1", "seed=1..500"], points=500)
