"""CICFlowMeter's known faults, found in its numbers, and beside those of our meter."""

from __future__ import annotations

from pathlib import Path

import cicflowmeter_csv as cic
import pandas as pd
import pytest
from packet_builder import pcap

from netrepro.errors import NetreproError
from netrepro.traffic import audit
from netrepro.traffic.auditing import compare_with_meter, known_faults
from netrepro.traffic.tables import load_labelled, make_table


def folder(place: Path, *, faulty: bool) -> Path:
    """A folder with a capture and the CSV of it."""
    made = cic.connections()
    (place / "day.pcap").write_bytes(pcap(cic.records(made)))
    cic.rows(made, faulty=faulty).to_csv(place / "day.csv", index=False)
    return place


def faults(place: Path) -> dict[str, float]:
    return {fault.name: fault.share for fault in known_faults(load_labelled(place / "day.csv"))}


def test_a_csv_that_counts_right_has_none_of_the_faults(tmp_path: Path) -> None:
    shares = faults(folder(tmp_path, faulty=False))
    assert len(shares) == 8 and set(shares.values()) == {0}


def test_every_fault_of_cicflowmeter_is_found(tmp_path: Path) -> None:
    shares = faults(folder(tmp_path, faulty=True))
    assert shares["flags of the first packet"] == 1
    assert shares["PSH by direction"] == pytest.approx(0.5)  # remnants have no PSH
    assert shares["remnants of TCP flows"] == pytest.approx(0.5)  # a flow and what is left of it
    assert shares["ratio cut"] == 1
    assert shares["whole minutes"] == 1
    assert shares["first packet twice"] == 1
    assert shares["protocol 0"] == 0


def test_a_clock_of_twelve_hours_is_found() -> None:
    """CIC-IDS2017 has such a clock: from nine to five without AM and PM."""
    frame = cic.rows(cic.connections(40), faulty=True)
    hours = [9, 10, 11, 12, 1, 2, 3, 4]
    twelve = [f"7/7/2017 {hours[place % 8]}:{place % 60:02}" for place in range(len(frame))]
    shares = {f.name: f.share for f in known_faults(make_table(frame.assign(Timestamp=twelve)))}
    assert shares["12-hour clock"] == 1
    whole = [f"7/7/2017 {hours[place % 8] + 12 * (place % 8 > 3)}:{place % 60:02}" for place in range(len(frame))]
    shares = {f.name: f.share for f in known_faults(make_table(frame.assign(Timestamp=whole)))}
    assert shares["12-hour clock"] == 0


def test_a_right_csv_equals_our_meter(tmp_path: Path) -> None:
    place = folder(tmp_path, faulty=False)
    compared = compare_with_meter(load_labelled(place / "day.csv"), [place / "day.pcap"]).set_index("quantity")
    assert compared["equal"].eq(1).all()
    assert compared.loc["forward bytes", "counted_as"] == "payload bytes"
    assert compared.loc["duration", "counted_as"] == "microseconds"
    assert {"forward packets", "backward packets", "backward bytes", "forward PSH flags"} <= set(compared.index)


def test_a_clock_of_another_zone_changes_nothing(tmp_path: Path) -> None:
    place = folder(tmp_path, faulty=False)
    frame = pd.read_csv(place / "day.csv")
    there = pd.to_datetime(frame["Timestamp"]) - pd.Timedelta(hours=3)
    table = make_table(frame.assign(Timestamp=there.dt.strftime("%Y-%m-%d %H:%M:%S")))
    assert compare_with_meter(table, [place / "day.pcap"])["equal"].eq(1).all()


def test_what_a_csv_has_otherwise_than_our_meter_is_named(tmp_path: Path) -> None:
    place = folder(tmp_path, faulty=False)
    frame = pd.read_csv(place / "day.csv")
    turned = frame.assign(
        **{"Src IP": frame["Dst IP"], "Dst IP": frame["Src IP"], "Src Port": frame["Dst Port"],
           "Dst Port": frame["Src Port"], "Total Fwd Packet": frame["Total Bwd packets"],
           "Total Bwd packets": frame["Total Fwd Packet"], "Flow Duration": frame["Flow Duration"] * 2}
    ).iloc[:50]  # fmt: skip
    compared = compare_with_meter(make_table(turned), [place / "day.pcap"]).set_index("quantity")["equal"]
    assert compared["direction"] == 0 and compared["duration"] == 0
    assert compared["forward packets"] == compared["backward packets"] == 1  # counted from the same end
    assert compared["rows with a flow"] == 1 and compared["flows with a row"] == pytest.approx(50 / 60)


def test_an_audit_of_a_folder_compares_the_csv_with_the_capture_beside_it(tmp_path: Path) -> None:
    done = audit(folder(tmp_path, faulty=True), sample=100)
    found = set(done.table.loc[done.table["finding"], "check"])
    assert {f"CICFlowMeter: {name}" for name in ("flags of the first packet", "remnants of TCP flows")} <= found
    assert {"meter: rows with a flow", "meter: duration", "meter: forward PSH flags"} <= found
    assert "50% of the table's TCP and UDP rows have no flow in the captures." in done.findings


def test_a_table_without_ports_cannot_be_compared(tmp_path: Path) -> None:
    place = folder(tmp_path, faulty=False)
    frame = pd.read_csv(place / "day.csv").drop(columns="Src Port")
    with pytest.raises(NetreproError, match="no source_port"):
        compare_with_meter(make_table(frame), [place / "day.pcap"])
