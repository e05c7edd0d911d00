"""A field of a setting says once what a notebook's parameter is: its line, its range, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from netrepro.errors import NetreproError
from netrepro.study.setting import check_setting, parameter, parameter_fields, parameter_line, with_parameter_lines
from netrepro.workbench.catalogue.parameters import read_parameters
from netrepro.workbench.catalogue.ranges import read_range


@dataclass(frozen=True)
class Setting:
    rate_mbps: float = parameter(100.0, "of every link", "Mb/s", low=0.5, high=10_000)
    load: float = parameter(0.5, "of the bottleneck", "share", above=0, below=1)
    spread: float = parameter(0.0, "of round trips", low=0, below=1)
    shape: float = parameter(1.2, "of sizes", above=1)
    block_bytes: int = parameter(1_024_000, "of all servers", "bytes", low=1, high=1e9)
    control: str = parameter("reno", "of all hosts", one_of=("reno", "cubic"))
    trace: str = parameter("", "of your own", one_of=("empty", "a file"))
    paced: bool = parameter(False, "whether senders pace")
    queue: str = "drop tail"

    def __post_init__(self) -> None:
        check_setting(self)


LINES = [
    "rate_mbps: float = 100.0  # of every link (Mb/s) [0.5 to 10000]",
    "load: float = 0.5  # of the bottleneck (share) [0 < load < 1]",
    "spread: float = 0.0  # of round trips [0 ≤ spread < 1]",
    "shape: float = 1.2  # of sizes [shape > 1]",
    "block_bytes: int = 1_024_000  # of all servers (bytes) [1 to 1e9]",
    'control: str = "reno"  # of all hosts [one of reno, cubic]',
    'trace: str = ""  # of your own [one of empty, a file]',
    "paced: bool = False  # whether senders pace",
]


def test_a_field_writes_the_line_of_the_notebook():
    assert [parameter_line(each) for each in parameter_fields(Setting())] == LINES


def test_the_line_is_read_with_the_default_and_the_range_of_the_field():
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": "\n".join(LINES)}
    parameters = read_parameters({"cells": [cell]})
    assert {name: each.default for name, each in parameters.items()} == {
        each.name: each.default for each in parameter_fields(Setting)
    }
    for each in parameter_fields(Setting):
        assert read_range(parameters[each.name].help, each.name) == each.metadata["limits"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("rate_mbps", 0.4), ("rate_mbps", 10_001.0), ("rate_mbps", float("nan"))],
        *[("load", 0.0), ("load", 1.0), ("spread", 1.0), ("shape", 1.0)],
        *[("control", "renno"), ("trace", "no such file")],
    ],
)
def test_a_value_beyond_the_range_is_refused_by_name_value_and_range(name, value):
    with pytest.raises(NetreproError) as refused:
        replace(Setting(), **{name: value})
    limits = next(each for each in fields(Setting) if each.name == name).metadata["limits"]
    assert f"{name} = {value!r} must be {limits.text(name)}" in str(refused.value)


def test_a_word_that_is_none_names_the_nearest():
    with pytest.raises(NetreproError, match="did you mean 'reno'"):
        Setting(control="renno")


@pytest.mark.parametrize("changes", [{"rate_mbps": 0.5}, {"rate_mbps": 1e4}, {"spread": 0.0}, {"queue": "anything"}])
def test_the_ends_of_a_range_and_fields_without_one_are_taken(changes: dict[str, Any]):
    assert replace(Setting(), **changes)


def test_lines_of_every_paper_stay_and_those_of_a_field_that_is_gone_go_and_a_new_field_comes_last():
    kept = ["seed: int = 1  # of all random streams", "# a remark"]
    cell = "\n".join([kept[0], "load: float = 0.7  # old [0 to 1]", 'gone: str = ""  # of an older Setting', kept[1]])
    written = with_parameter_lines(cell, parameter_fields(Setting), ["seed"]).splitlines()
    assert written == [kept[0], LINES[1], kept[1], LINES[0], *LINES[2:]]
    assert with_parameter_lines("\n".join(written), parameter_fields(Setting), ["seed"]).splitlines() == written
    assert with_parameter_lines(cell, []) == cell, "a guide has no Setting"
