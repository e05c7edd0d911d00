"""Labels joined to flows: the right join passes its audit, each wrong one fails by the check that names it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import unibs_format
from hypothesis import given, settings
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.traffic import GroundTruth, audit_join, join_labels, meter
from netrepro.traffic.unibs import LABELS, RECORD_COLUMNS, read_ground_truth

CLOCK_AHEAD_S = 7200
MADE = unibs_format.connections()
TRUE_CLASS = {round(c.start_s * 1e6): c.name for c in MADE}


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return meter(unibs_format.write_captures(tmp_path_factory.mktemp("captures"), MADE), first_packets=9).flows


@pytest.fixture(scope="module")
def ground_truth(tmp_path_factory: pytest.TempPathFactory) -> GroundTruth:
    path = tmp_path_factory.mktemp("log") / "groundtruth.log"
    return read_ground_truth(unibs_format.write_log(path, MADE, clock_ahead_s=CLOCK_AHEAD_S))


def wrong_share(labelled: pd.DataFrame) -> float:
    return float((labelled["class"] != labelled["start_us"].map(TRUE_CLASS)).mean())


def test_the_right_join_labels_every_flow_rightly_and_passes(flows: pd.DataFrame, ground_truth: GroundTruth) -> None:
    join = join_labels(flows, ground_truth.records)
    audit = audit_join(join, trace="unibs-2009", first_packets=9)
    assert wrong_share(join.labelled) == 0
    assert audit.passed and audit.failed == [] and audit.why == ""
    assert audit.table()["passed"].all()
    assert len(join.labelled) == len(ground_truth.records)


def test_a_5_tuple_used_twice_takes_the_label_of_its_own_time(flows: pd.DataFrame, ground_truth: GroundTruth) -> None:
    join = join_labels(flows, ground_truth.records)
    starts = join.labelled["start_us"]
    twins = [c for c in MADE if c.name == "SKYPE" and c.other_port != 33033]
    again = join.labelled[starts.isin([round(c.start_s * 1e6) for c in twins])]
    before = join.labelled[starts.isin([round(c.start_s * 1e6) - 100_000_000 for c in twins])]
    assert len(again) >= 3 and set(again["class"]) == {"SKYPE"}
    assert len(before) >= 3 and set(before["class"]) == {"P2P"}


def test_the_delay_of_a_record_is_what_was_put_in(flows: pd.DataFrame, ground_truth: GroundTruth) -> None:
    labelled = join_labels(flows, ground_truth.records).labelled
    put_in = labelled["start_us"].map({round(c.start_s * 1e6): c.seconds_to_log for c in MADE})
    np.testing.assert_allclose(labelled["record_delay_s"], put_in, atol=2e-6)


@pytest.mark.parametrize("used_s", [0, 3600, -7200, CLOCK_AHEAD_S + 1200])
def test_a_wrong_time_zone_or_clock_offset_fails_by_the_clock_which_names_the_right_one(
    flows: pd.DataFrame, ground_truth: GroundTruth, used_s: float
) -> None:
    audit = audit_join(join_labels(flows, ground_truth.records, clock_offset_s=used_s))
    assert not audit.passed
    assert audit.failed[0] == "clock"
    assert f"of what does with {CLOCK_AHEAD_S} s" in audit.why


@pytest.mark.parametrize("ahead_s", [-10_800, -3600, 0, 37, 7200, 10_800])
def test_the_scan_finds_the_offset_of_the_clock_to_a_step(
    flows: pd.DataFrame, ground_truth: GroundTruth, ahead_s: int
) -> None:
    shifted = ground_truth.records.assign(time_us=ground_truth.records["time_us"] + (ahead_s - CLOCK_AHEAD_S) * 10**6)
    join = join_labels(flows, shifted)
    assert abs(join.clock_offset_s - ahead_s) <= 30
    assert wrong_share(join.labelled) == 0


def test_shuffled_labels_fail_by_ports_and_bytes_although_all_flows_match(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    order = np.random.default_rng(5).permutation(len(ground_truth.records))
    shuffled = ground_truth.records.copy()
    shuffled[LABELS] = ground_truth.records[LABELS].to_numpy()[order]
    audit = audit_join(join_labels(flows, shuffled), trace="unibs-2009")
    assert {"MAILS ports", "WEB ports", "port alone", "P2P bytes", "MAILS bytes"} <= set(audit.failed)
    assert audit.table().loc[["clock", "matched flows", "class shares"], "passed"].all()


@pytest.mark.parametrize("redrawn", [0.25, 0.4, 0.65])
def test_labels_redrawn_for_a_share_of_flows_fail_by_the_mail_ports(
    flows: pd.DataFrame, ground_truth: GroundTruth, redrawn: float
) -> None:
    random = np.random.default_rng(6)
    records = ground_truth.records.copy()
    hit = np.flatnonzero(random.uniform(size=len(records)) < redrawn)
    records.loc[hit, LABELS] = records[LABELS].to_numpy()[random.integers(len(records), size=len(hit))]
    join = join_labels(flows, records)
    assert wrong_share(join.labelled) > 0.1
    assert "MAILS ports" in audit_join(join).failed


def test_ports_at_the_wrong_addresses_match_nothing(flows: pd.DataFrame, ground_truth: GroundTruth) -> None:
    swapped = ground_truth.records.rename(
        columns={"source_port": "destination_port", "destination_port": "source_port"}
    )[RECORD_COLUMNS]
    for join in (join_labels(flows, ground_truth.records, by="swapped ports"), join_labels(flows, swapped)):
        audit = audit_join(join)
        assert "matched flows" in audit.failed
        assert audit.table().loc["matched flows", "value"] == 0
    undone = join_labels(flows, swapped, by="swapped ports", clock_offset_s=CLOCK_AHEAD_S)
    assert undone.labelled["class"].equals(join_labels(flows, ground_truth.records).labelled["class"])


def test_whole_ends_exchanged_in_the_log_change_nothing(flows: pd.DataFrame, ground_truth: GroundTruth) -> None:
    other = {"source": "destination", "destination": "source"}
    names = {f"{side}_{what}": f"{other[side]}_{what}" for side in other for what in ("address", "port")}
    exchanged = ground_truth.records.rename(columns=names)
    pd.testing.assert_frame_equal(join_labels(flows, exchanged).flows, join_labels(flows, ground_truth.records).flows)


@pytest.mark.parametrize("by", ["time", "order"])
def test_joins_that_ignore_the_endpoints_fail_by_the_ports(
    flows: pd.DataFrame, ground_truth: GroundTruth, by: str
) -> None:
    join = join_labels(flows, ground_truth.records, by=by)
    audit = audit_join(join)
    assert wrong_share(join.labelled) > 0.1
    assert {"MAILS ports", "WEB ports"} & set(audit.failed)


@pytest.mark.parametrize("by", ["ordered endpoints", "hosts", "workstation"])
def test_joins_that_keep_an_end_are_nearly_right_and_the_audit_agrees(
    flows: pd.DataFrame, ground_truth: GroundTruth, by: str
) -> None:
    join = join_labels(flows, ground_truth.records, by=by)
    assert wrong_share(join.labelled) < 0.05
    assert audit_join(join).passed


def test_an_ordered_join_loses_exactly_the_flows_that_the_other_end_opened(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    right, ordered = (
        join_labels(flows, ground_truth.records, by=by).labelled for by in ("endpoints", "ordered endpoints")
    )
    lost = set(right["start_us"]) - set(ordered["start_us"])
    assert lost == {t for t in right["start_us"] if t in {round(c.start_s * 1e6) for c in MADE if c.incoming}}


def test_features_of_whole_flows_fail_the_check_of_the_first_packets(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    join = join_labels(flows, ground_truth.records)
    assert audit_join(join, first_packets=8).failed == ["first packets"]


def test_flows_without_an_opening_and_an_unreadable_log_fail_by_their_checks(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    cut = flows.assign(starts_with_syn=np.arange(len(flows)) % 5 > 0)
    assert audit_join(join_labels(cut, ground_truth.records)).failed == ["begin of flows"]
    assert audit_join(join_labels(flows, ground_truth.records), unreadable_share=0.02).failed == ["log lines"]


def test_late_packets_of_ended_connections_do_not_count_as_begun_without_a_syn(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    late = flows.assign(start_us=flows["start_us"] + 20_000_000, valid=False, starts_with_syn=False)
    audit = audit_join(join_labels(pd.concat([flows, late], ignore_index=True), ground_truth.records))
    assert audit.passed, audit.why
    assert audit.table().loc["begin of flows", "value"] == 1


def test_flows_that_are_all_met_in_their_middle_fail_by_their_begin(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    headless = flows.assign(valid=False, starts_with_syn=False)
    audit = audit_join(join_labels(headless, ground_truth.records))
    assert "begin of flows" in audit.failed
    assert audit.table().loc["begin of flows", "value"] == 0


def test_what_a_trace_was_made_to_meet_is_marked_and_no_other_check_is(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    join = join_labels(flows, ground_truth.records)
    marked = audit_join(join, trace="standin", first_packets=9).table()
    published = audit_join(join, trace="unibs-2009", first_packets=9).table()
    assert set(marked.index[marked["by_design"]]) == {"class shares", "P2P bytes", "MAILS bytes"}
    assert not published["by_design"].any()
    published = published.drop(index="days of the log")  # a trace that was made has days of its own
    pd.testing.assert_frame_equal(marked.drop(columns="by_design"), published.drop(columns="by_design"))


def test_other_shares_of_the_classes_fail_only_where_the_trace_is_named(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    little_web = flows[~(flows["destination_port"].isin([80, 443, 8080]) & (flows.index % 4 > 0))]
    join = join_labels(little_web, ground_truth.records)
    assert audit_join(join).passed
    assert audit_join(join, trace="unibs-2009").failed == ["class shares"]


def test_an_unknown_way_or_trace_is_refused_with_the_nearest_name(
    flows: pd.DataFrame, ground_truth: GroundTruth
) -> None:
    with pytest.raises(NetreproError, match="did you mean 'endpoints'"):
        join_labels(flows, ground_truth.records, by="endpoint")
    with pytest.raises(NetreproError, match="did you mean 'unibs-2009'"):
        audit_join(join_labels(flows, ground_truth.records), trace="unibs-2008")
    with pytest.raises(NetreproError, match="0 flows"):
        join_labels(flows[:0], ground_truth.records)


def test_a_record_that_does_not_tell_its_protocol_fits_both() -> None:
    flows, records = small_tables([(0, 0, 6), (0, 1, 17)], [(0, 0, 0, "WEB"), (0, 1, 0, "P2P")])
    assert join_labels(flows, records).flows["class"].tolist() == ["WEB", "P2P"]


def small_tables(
    of_flows: list[tuple[int, int, int]], of_records: list[tuple[int, int, int, str]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Flows (second, other host, protocol) and records (second, other host, protocol, class) of one workstation."""

    def table(rows: list[tuple[int, int, int]], time: str) -> pd.DataFrame:
        return pd.DataFrame(
            {
                time: np.array([row[0] for row in rows], np.int64) * 1_000_000,
                "source_address": "10.0.0.1",
                "source_port": 40_000,
                "destination_address": [f"85.0.0.{row[1]}" for row in rows],
                "destination_port": 80,
                "protocol": [row[2] for row in rows],
            }
        )

    flows = table(of_flows, "start_us").assign(valid=True)
    records = table([row[:3] for row in of_records], "time_us")
    names = [row[3] for row in of_records]
    return flows, records.assign(**{"class": names, "application": names, "application_protocol": names})


FLOWS = st.lists(st.tuples(st.integers(0, 900), st.integers(1, 3), st.sampled_from([6, 17])), min_size=1, max_size=12)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 900), st.integers(1, 3), st.sampled_from([6, 17]), st.sampled_from(["WEB", "P2P", "SKYPE"])
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=80)
@given(FLOWS, RECORDS, st.integers(-100, 100))
def test_each_flow_takes_the_nearest_record_of_its_window_by_exhaustive_search(
    of_flows: list, of_records: list, ahead_s: int
) -> None:
    join = join_labels(*small_tables(of_flows, of_records), clock_offset_s=ahead_s, scan_s=0)
    for (start, host, protocol), row in zip(of_flows, join.flows.itertuples(), strict=True):
        delays = [
            time - start - ahead_s
            for time, other, number, _ in of_records
            if (other, number) == (host, protocol) and -300 <= time - start - ahead_s <= 60
        ]
        if not delays:
            assert pd.isna(row.application)
            continue
        nearest = min(map(abs, delays))
        assert abs(row.record_delay_s) == pytest.approx(nearest)
        assert row.application in {
            name for time, other, number, name in of_records
            if (other, number) == (host, protocol) and abs(time - start - ahead_s) == nearest
        }  # fmt: skip


@pytest.mark.parametrize("times", [(450, 550), (550, 450)])
def test_of_two_records_as_near_a_flow_takes_the_earlier(times: tuple[int, int]) -> None:
    names = {450: "WEB", 550: "P2P"}
    flows, records = small_tables([(500, 1, 6)], [(time, 1, 6, names[time]) for time in times])
    (row,) = join_labels(flows, records, clock_offset_s=0, scan_s=0).flows.itertuples()
    assert row.application == "WEB" and row.record_delay_s == -50


@settings(max_examples=40)
@given(FLOWS, RECORDS)
def test_the_scan_counts_what_a_join_with_each_offset_matches(of_flows: list, of_records: list) -> None:
    flows, records = small_tables(of_flows, of_records)
    scan = join_labels(flows, records, clock_offset_s=0, scan_s=900, scan_step_s=300).scan
    assert scan["offset_s"].tolist() == [-900, -600, -300, 0, 300, 600, 900]
    for row in scan.itertuples():
        delays = join_labels(flows, records, clock_offset_s=row.offset_s, scan_s=0).flows["record_delay_s"].dropna()
        assert row.matched == len(delays) / len(flows)
        assert row.distance_s == pytest.approx(delays.abs().median(), nan_ok=True)


@settings(max_examples=25)
@given(FLOWS, RECORDS, st.data())
def test_the_join_depends_neither_on_the_order_of_the_log_nor_of_the_flows(
    of_flows: list, of_records: list, data: st.DataObject
) -> None:
    flows, records = small_tables(of_flows, of_records)
    log_order = data.draw(st.permutations(range(len(records))))
    flow_order = data.draw(st.permutations(range(len(flows))))
    one = join_labels(flows, records, scan_s=600)
    other = join_labels(flows.iloc[flow_order], records.iloc[log_order], scan_s=600)
    assert one.clock_offset_s == other.clock_offset_s
    pd.testing.assert_frame_equal(one.flows, other.flows.sort_index())


@settings(max_examples=25)
@given(FLOWS, RECORDS, st.integers(-60, 60))
def test_clocks_that_go_wrong_together_change_no_label(of_flows: list, of_records: list, minutes: int) -> None:
    flows, records = small_tables(of_flows, of_records)
    shift = minutes * 60_000_000
    one = join_labels(flows, records, clock_offset_s=0, scan_s=0)
    other = join_labels(
        flows.assign(start_us=flows["start_us"] + shift),
        records.assign(time_us=records["time_us"] + shift),
        clock_offset_s=0,
        scan_s=0,
    )
    assert one.flows["class"].equals(other.flows["class"])
