"""UNIBS-2009: finding its files, reading its log, and the whole way from archives to labelled flows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import unibs_format
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.paths import data_dir
from netrepro.traffic import LabelledFlows, audit_join, classify_label, find_unibs, load_labelled_flows, load_unibs
from netrepro.traffic.unibs import LABELS, RECORD_COLUMNS, read_ground_truth

HEADER = "time:src:dst:sport:dport:transport:application:protocol\n"


@pytest.fixture(scope="module")
def trace_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unibs")
    made = unibs_format.connections()
    unibs_format.write_captures(folder, made)
    unibs_format.write_log(folder / "groundtruth.log", made, clock_ahead_s=7200)
    return folder


@pytest.fixture(scope="module")
def trace(trace_folder: Path) -> LabelledFlows:
    return load_unibs(trace_folder, first_packets=9)


def true_classes(starts_us: pd.Series) -> pd.Series:
    return starts_us.map({round(c.start_s * 1e6): c.name for c in unibs_format.connections()})


def test_three_archives_and_a_log_become_flows_with_the_right_labels(trace: LabelledFlows) -> None:
    pd.testing.assert_series_equal(
        trace.flows["class"].astype(str), true_classes(trace.flows["start_us"]).astype(str), check_names=False
    )
    assert len(trace.flows) > 0.9 * len(unibs_format.connections())
    assert trace.audit.passed, trace.audit.why


def test_a_log_in_local_time_is_found_two_hours_ahead(trace: LabelledFlows) -> None:
    assert trace.join.clock_offset_s == 7200


def test_records_are_counted_that_are_of_the_published_days_and_within_a_second(trace: LabelledFlows) -> None:
    table = trace.audit.table()
    assert table.loc["days of the log", "value"] == 1
    share = (trace.flows["record_delay_s"].abs() <= 1).mean()
    assert 0 < share < 1 and table.loc["within a second", "value"] == pytest.approx(share)
    assert table.loc["within a second", ["needed", "passed"]].tolist() == ["any", True]


def test_a_log_of_other_days_fails_the_audit(trace: LabelledFlows) -> None:
    flows = trace.join.flows
    later = replace(trace.join, flows=flows.assign(record_time_us=flows["record_time_us"] + 4 * 86_400e6))
    assert audit_join(later, trace="unibs-2009").failed == ["days of the log"]


def test_each_archive_is_a_day(trace: LabelledFlows) -> None:
    days = (trace.flows["start_us"] / 1e6 - unibs_format.DAY_ONE_S) // 86_400
    assert trace.flows["day"].tolist() == days.tolist()


def test_a_day_begins_at_local_midnight(trace_folder: Path) -> None:
    files = find_unibs(trace_folder)
    # The flows begin 8:00 to 8:12 UTC; with local time 15.9 hours ahead midnight falls into them.
    loaded = load_labelled_flows(files.captures, files.log, local_time_ahead_of_utc_h=15.9)
    after = (loaded.flows["start_us"] / 1e6 - unibs_format.DAY_ONE_S) % 86_400 >= 360
    days = (loaded.flows["start_us"] / 1e6 - unibs_format.DAY_ONE_S) // 86_400
    assert loaded.flows["day"].tolist() == (days + after).tolist()


def test_features_are_those_of_the_labelled_flows_and_see_nine_packets(trace: LabelledFlows) -> None:
    features = trace.features("netmate59")
    assert features.shape == (len(trace.flows), 59)
    seen = features["total_fpackets"] + features["total_bpackets"]
    whole = trace.flows["flow_fpackets"] + trace.flows["flow_bpackets"]
    assert (seen == whole.clip(upper=9)).all()
    assert (whole > 9).any()


def test_lengths_are_those_of_the_ip_header_although_the_payload_is_gone(trace: LabelledFlows) -> None:
    web = trace.flows[trace.flows["class"] == "WEB"]
    assert (web["flow_bbytes"] == 3 * 1040 + 2 * 40).all()


@pytest.mark.parametrize("lost", [*unibs_format.NAMES, "groundtruth.log"])
def test_a_missing_file_is_named_with_the_way_to_get_it(tmp_path: Path, lost: str) -> None:
    for name in [*unibs_format.NAMES, "groundtruth.log"]:
        if name != lost:
            (tmp_path / f"{name}.tar.bz2" if "pcap" in name else tmp_path / name).write_bytes(b"")
    with pytest.raises(NetreproError, match=lost) as error:
        load_unibs(tmp_path)
    assert "data/gmm_traffic/README.md" in error.value.remedy


def test_without_a_folder_the_place_that_the_readme_names_is_searched(workbench: Path) -> None:
    assert data_dir("gmm_traffic").is_relative_to(workbench)
    source = Path(__file__).parents[3] / "data" / "gmm_traffic"
    place = workbench / "data" / "gmm_traffic"
    place.mkdir(parents=True)
    (place / "labels.yaml").write_text((source / "labels.yaml").read_text())
    with pytest.raises(NetreproError, match=r"not complete in .*unibs-2009"):
        find_unibs()
    (place / "unibs-2009").mkdir()
    for name in [*unibs_format.NAMES, "groundtruth.log"]:
        assert name in (source / "README.md").read_text()
        (place / "unibs-2009" / name).write_bytes(b"")
    assert [path.name for path in find_unibs().captures] == unibs_format.NAMES


@pytest.mark.parametrize(
    ("application", "protocol", "expected"),
    [
        ("firefox.exe", "http", "WEB"),
        ("amule", "eDonkey", "P2P"),
        ("transmission", "bittorrent", "P2P"),
        ("thunderbird", "imap", "MAILS"),
        ("Thunderbird-bin", "ssl", "MAILS"),
        ("firefox", "SSL", "WEB"),
        ("skype", " skype ", "SKYPE"),
        ("sshd", "ssh", "OTHERS"),
        ("anything", "", "OTHERS"),
    ],
)
def test_a_label_is_classified_by_protocol_and_where_encrypted_by_application(
    application: str, protocol: str, expected: str
) -> None:
    assert classify_label(application, protocol) == expected


def write_log(folder: Path, *lines: str) -> Path:
    path = folder / "groundtruth.log"
    path.write_text(HEADER + "\n".join(lines))
    return path


def test_a_line_is_read_field_by_field(tmp_path: Path) -> None:
    path = write_log(tmp_path, "1254300000.25:10.0.0.1:85.1.2.3:40000:443:TCP:thunderbird:ssl")
    (record,) = read_ground_truth(path).records[RECORD_COLUMNS].itertuples(index=False, name=None)
    assert record == (1_254_300_000_250_000, "10.0.0.1", 40000, "85.1.2.3", 443, 6, "MAILS", "thunderbird", "ssl")


def test_ports_may_stand_straight_after_their_addresses_and_colons_in_the_last_field(tmp_path: Path) -> None:
    path = write_log(
        tmp_path, "1254300000:10.0.0.1:40000:85.1.2.3:53:17:c:\\host:dns:extra", "2:1.1.1.1:2.2.2.2:3:4:?:a:b"
    )
    first, second = read_ground_truth(path).records[RECORD_COLUMNS].itertuples(index=False, name=None)
    assert first[1:6] == ("10.0.0.1", 40000, "85.1.2.3", 53, 17)
    assert first[-1] == "\\host:dns:extra"
    assert second[5] == 0


def test_lines_that_cannot_be_read_are_kept_apart_with_their_numbers(tmp_path: Path) -> None:
    good = "1:10.0.0.1:85.1.2.3:40000:443:TCP:a:http"
    bad = [
        "x:10.0.0.1:85.1.2.3:1:2:TCP:a:http",
        "1:10.0.0.1:85.1.2.3:1:70000:TCP:a:http",
        "inf:1.1.1.1:2.2.2.2:1:2:6:a:b",
        "short:line",
    ]
    truth = read_ground_truth(write_log(tmp_path, good, bad[0], "", *bad[1:], good))
    assert truth.unreadable["line"].tolist() == [3, 5, 6, 7]
    assert truth.unreadable["text"].tolist() == bad
    assert truth.unreadable_share == pytest.approx(4 / 6)
    assert truth.table().to_dict("records") == [
        {"class": "WEB", "application": "a", "application_protocol": "http", "records": 2}
    ]


def test_a_file_that_is_no_log_is_refused_and_a_missing_one_too(tmp_path: Path) -> None:
    with pytest.raises(NetreproError, match="no log of labels"):
        read_ground_truth(write_log(tmp_path, "this is", "something else"))
    with pytest.raises(NetreproError, match="cannot be read"):
        read_ground_truth(tmp_path / "absent.log")


@settings(max_examples=40)
@given(st.lists(st.text(alphabet=":0123456789.abcTP- ", max_size=60), max_size=12))
def test_every_line_is_either_read_or_kept_apart(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    good = "1:10.0.0.1:85.1.2.3:40000:443:TCP:a:http"
    truth = read_ground_truth(write_log(tmp_path_factory.mktemp("log"), good, *lines))
    assert len(truth.records) + len(truth.unreadable) == 1 + sum(bool(line.strip()) for line in lines)
    assert truth.records[LABELS].notna().all().all()


def test_semicolons_are_no_part_of_a_field_and_a_verdict_is_no_protocol(tmp_path: Path) -> None:
    log = tmp_path / "groundtruth.log"
    log.write_text(HEADER + "1254297600;:10.0.0.1:85.1.1.9:40000:80:verdict:firefox;:http;\n")
    record = read_ground_truth(log).records.iloc[0]
    assert record["class"] == "WEB" and record["application"] == "firefox" and record["application_protocol"] == "http"
    assert record["time_us"] == 1_254_297_600_000_000 and record["protocol"] == 0
