"""A qlog file holds what was measured of a flow, in the records and fields that qlog 0.3 names."""

from __future__ import annotations

import json

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import emulate
from netrepro.errors import NetreproError
from netrepro.networks import DropTail, Experiment, Flow, Link, Measure, dumbbell
from netrepro.simulation import simulate

NETWORK = dumbbell(1, Link(100, 1), Link(10, 10, DropTail(packets=20)))


def experiment(**measured) -> Experiment:
    flows = [Flow("h1", "h2", duration_s=2.0, label="bulk"), Flow("h2", "h1", size_bytes=30_000, start_s=0.5)]
    return Experiment(NETWORK, flows, 2.0, measure=Measure(**measured))


def records(path) -> list[dict]:
    text = path.read_text()
    assert text[0] == "\x1e" and text[-1] == "\n"

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return [json.loads(record, parse_constant=refuse) for record in text[1:].split("\x1e")]


@pytest.mark.parametrize(
    "run", [simulate, pytest.param(lambda each: emulate(each, "virtual"), marks=needs_virtual, id="virtual")]
)
def test_each_flow_has_a_file_with_its_windows_packets_and_losses_in_order_of_time(run, tmp_path):
    found = run(experiment(windows_interval_ms=20.0, packets=[("h1", "s1")]))
    first, second = found.write_qlog(tmp_path)
    assert [first.name, second.name] == ["0-h1-h2.sqlog", "1-h2-h1.sqlog"]
    header, *events = records(first)
    assert (header["qlog_version"], header["qlog_format"]) == ("0.3", "JSON-SEQ")
    assert header["trace"]["vantage_point"] == {"name": "h1", "type": "client"}
    times = [event["time"] for event in events]
    assert times == sorted(times) and {*event_names(events)} == {
        "simulation:scenario", "recovery:metrics_updated", "transport:packet_sent", "simulation:marker",
    }  # fmt: skip
    windows = found.windows[found.windows.flow == 0]
    metrics = [event["data"] for event in events if event["name"] == "recovery:metrics_updated"]
    assert [each["congestion_window"] for each in metrics] == list(windows.window_bytes)
    assert [each["bytes_in_flight"] for each in metrics] == list(windows.in_flight_bytes)
    # A sender that has all to send fills its window but for what it repairs.
    assert 0.8 < (windows.in_flight_bytes / windows.window_bytes).mean() < 1.1
    assert [each.get("smoothed_rtt", np.nan) for each in metrics] == pytest.approx(windows.round_trip_ms, nan_ok=True)
    packets = [event["data"] for event in events if event["name"] == "transport:packet_sent"]
    recorded = found.packets[found.packets.flow == 0]
    assert [each["raw"]["length"] for each in packets] == list(recorded.size_bytes)
    assert [each["header"]["packet_number"] for each in packets] == list(range(len(recorded)))
    lost = found.flows.retransmitted_packets[0]
    marker = next(event for event in events if event["name"] == "simulation:marker")
    assert lost > 0 and marker["data"]["message"].startswith(f"retransmitted_packets = {lost:.0f}")
    assert event_names(records(second)[1:]).count("transport:packet_sent") == 0  # its sender's port was not recorded


def event_names(events: list[dict]) -> list[str]:
    return [event["name"] for event in events]


def test_without_samples_or_a_folder_there_is_nothing_to_write(tmp_path):
    found = simulate(experiment())
    with pytest.raises(NetreproError, match=r"no flow was sampled\n.*windows_interval_ms"):
        found.write_qlog(tmp_path)
    with pytest.raises(NetreproError, match="no folder"):
        found.write_qlog(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_each_connection_of_a_flow_with_several_has_a_file(tmp_path):
    flow = Flow("h1", "h2", duration_s=1.0, subflows=2)
    found = simulate(Experiment(NETWORK, [flow], 1.0, measure=Measure(windows_interval_ms=50.0)))
    assert [path.name for path in found.write_qlog(tmp_path)] == ["0-h1-h2-0.sqlog", "0-h1-h2-1.sqlog"]
