"""An experiment as text that runs without Python: in a page, in node, or by `_core.DescribedRun`.

The text is JSON: the experiment itself, the calls that set up its simulator, and the names of links and flows. The same
text gives the same bytes everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment, Measurements, check_is_experiment
from netrepro.simulation.simulate import build, measurements, start_flows_after

VERSION = 1
FLOW_NAMES = ("transport", "source", "destination", "label", "congestion_control")
Columns = Mapping[str, np.ndarray]


def describe(experiment: Experiment, *, start_after: Mapping[int, int] = MappingProxyType({})) -> dict[str, Any]:
    """Describe an experiment so that it runs without Python; `json.dumps` writes it.

    Keys: "version"; "experiment", what `Experiment.from_json` reads; "set_up", the methods that set up a simulator with
    their arguments; "start_after", pairs of flows; "ports", (from, to) of each link; "flows", the columns FLOW_NAMES,
    start_s and duration_s.

    start_after : as in `simulate`. Raises NetreproError as `simulate` does, and for a congestion control in Python.
    """
    check_is_experiment(experiment)
    recorder = _Recorder()
    build(experiment, core=recorder.core)
    start_flows_after(experiment, recorder, start_after)
    table = experiment.flow_table
    flows: dict[str, Any] = {name: table[name].tolist() for name in FLOW_NAMES}
    flows |= {name: [None if np.isnan(each) else each for each in table[name]] for name in ("start_s", "duration_s")}
    return {
        "version": VERSION,
        "experiment": json.loads(experiment.to_json()),
        "start_after": [list(pair) for pair in start_after.items()],
        "ports": [list(port) for port in experiment.topology.ports],
        "flows": flows,
        "set_up": recorder.calls,
    }


def read_described(text: str) -> tuple[Experiment, dict[int, int]]:
    """Read the experiment and the start_after of `json.dumps(describe(...))`, or of a page.

    Raises NetreproError for another text, and for a description of another version.
    """
    try:
        given = json.loads(text)
        version, experiment = given["version"], json.dumps(given["experiment"])
        start_after = {int(flow): int(earlier) for flow, earlier in given["start_after"]}
    except (ValueError, TypeError, KeyError) as error:
        raise NetreproError(f"no described experiment: {error!r}", "give what describe() returned, as JSON") from error
    if version != VERSION:
        raise NetreproError(
            f"a description of version {version}", f"this netrepro reads version {VERSION}: make it again by describe()"
        )
    return Experiment.from_json(experiment), start_after


def described_measurements(
    experiment: Experiment, columns: Columns, start_after: Mapping[int, int] = MappingProxyType({})
) -> Measurements:
    """Return the measurements of an experiment that ran without Python: equal to those of `simulate`.

    columns : name -> numbers, as `_core.DescribedRun.columns()` and netrepro-web give them.
    """
    return measurements(experiment, _Ran(columns), start_after)


class _Recorder:
    """Stands in for the core, and keeps the calls that set up a simulator as plain data."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.core = SimpleNamespace(Simulator=self._begin, LinkSettings=dict, TcpSettings=dict)

    def _begin(self, **settings: Any) -> _Recorder:
        self.calls.append(["Simulator", _plain(settings)])
        return self

    def add_link(self, settings: Mapping[str, Any], rule: str, numbers: Sequence[float]) -> None:
        """Keep a link; a flag among its queue's numbers is 0 or 1."""
        self.calls.append(["add_link", _plain(settings), rule, [float(each) for each in numbers]])

    def __getattr__(self, method: str) -> Callable[..., None]:
        def keep(*arguments: Any, **named: Any) -> None:
            self.calls.append([method, *map(_plain, arguments), *([_plain(named)] if named else [])])

        return keep


def _plain(value: Any) -> Any:
    """Return arrays, tuples and NumPy's numbers as JSON has them."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


class _Ran:
    """A simulator that has run elsewhere, with what `measurements` asks of it."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def _table(self, name: str) -> dict[str, np.ndarray]:
        start = f"{name}."
        return {key.removeprefix(start): column for key, column in self._columns.items() if key.startswith(start)}

    def flows(self) -> Columns:
        return self._table("flows")

    def links(self) -> Columns:
        return self._table("links")

    def counted_before(self) -> tuple[Columns, Columns]:
        return self._table("before.flows"), self._table("before.links")

    def queue_samples(self) -> Columns:
        return self._table("queues")

    def window_samples(self) -> Columns:
        return self._table("windows")

    def deliveries(self) -> Columns:
        return self._table("deliveries")

    def requests(self) -> Columns:
        return self._table("requests")

    def departures(self, link: int) -> Columns:
        return self._table(f"departures.{link}")

    @property
    def account(self) -> dict[str, int]:
        return {name: int(column[0]) for name, column in self._table("account").items()}
