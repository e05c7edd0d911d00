"""The audit: every planted leak is found, and a clean table has no finding."""

from __future__ import annotations

import json
import struct

import numpy as np
import pandas as pd
import pytest
from flow_tables import CLASSES, START_S, clean_flows, of_groups
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from packet_builder import in_link, ipv4, pcap, tcp

from netrepro.errors import NetreproError
from netrepro.traffic import Audit, audit, draw_audit, load_standin
from netrepro.traffic.auditing import find_duplicates
from netrepro.traffic.auditing.scores import SESSION_GAP_S, draw_sample, sessions_of, split_by_group
from netrepro.traffic.tables import make_table, table_of


def by_class(*values):
    return dict(zip(CLASSES, values, strict=True))


TURNED = by_class(*CLASSES[1:], CLASSES[0])


def found(done: Audit) -> set[str]:
    return set(done.table.loc[done.table["finding"], "check"])


def says(done: Audit, check: str) -> str:
    return done.table.set_index("check").loc[check, "says"]


def value(done: Audit, check: str) -> float:
    return done.table.set_index("check").loc[check, "value"]


@pytest.fixture(scope="module")
def clean() -> Audit:
    return audit(clean_flows())


# A clean table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_clean_table_has_no_finding(seed):
    done = audit(clean_flows(seed=seed), seed=seed)
    assert done.findings == [] and done.passed
    assert value(done, "above chance") > 0.7


def test_every_split_and_every_identifier_of_a_clean_table_is_looked_at(clean):
    what = set(clean.scores["what"])
    assert {"by flow", "by host", "by time", "identifiers alone", "headers shuffled", "labels permuted"} <= what
    assert {"without addresses", "without source port", "without destination port", "without times"} <= what
    assert clean.scores["survives"].iloc[0] == 1 and clean.scores["survives"].iloc[-1] == 0


def test_the_same_seed_gives_the_same_audit(clean):
    again = audit(clean_flows())
    pd.testing.assert_frame_equal(again.scores, clean.scores)
    pd.testing.assert_frame_equal(again.table, clean.table)


def test_an_audit_is_there_as_json_and_as_a_picture(clean):
    content = json.loads(json.dumps(clean.content(), allow_nan=False))
    assert content["findings"] == [] and len(content["scores"]) == len(clean.scores)
    assert content["classes"] == clean.classes.to_dict()
    figure = draw_audit(clean)
    assert isinstance(figure, Figure) and [axis.get_xlabel() or axis.get_ylabel() for axis in figure.axes] == [
        "macro-F1 of a forest of 10 trees on 3,000 flows",
        "flows of a class",
        "test flows of a random split (%)",
    ]
    assert len(figure.axes[0].get_yticks()) == len(clean.scores)


# Duplicates ---------------------------------------------------------------------------------------


def test_copies_with_another_label_bound_every_classifier():
    frame = clean_flows()
    copies = frame.head(600).assign(label=frame["label"].head(600).map(TURNED))
    done = audit(pd.concat([frame, copies]))
    assert {"exact duplicates of another class", "exact duplicates in training"} <= found(done)
    exact = done.duplicates["exact"]
    assert exact.contradictory == pytest.approx(1200 / 3600)
    assert exact.best_accuracy == pytest.approx(3000 / 3600)  # of each pair one can be right
    assert exact.seen_otherwise == pytest.approx(0.7 * 1200 / 3600, abs=0.03)
    assert "more than 83.3% of all" in says(done, "exact duplicates of another class")


def test_rows_within_a_twentieth_are_near_duplicates_and_no_exact_ones():
    frame = clean_flows()
    sizes = [name for name in frame if name.startswith("size")]
    near = frame.head(600).assign(**{name: frame[name].head(600) * 1.001 for name in sizes})
    done = audit(pd.concat([frame, near]))
    assert found(done) == {"near duplicates in training"}
    assert done.duplicates["near"].repeated > 0.9 * 1200 / 3600 and done.duplicates["exact"].repeated == 0


def test_a_duplicate_is_one_with_other_addresses_and_times():
    frame = clean_flows(400)
    copies = frame.assign(src_ip="1.2.3.4", timestamp=frame["timestamp"] + 5)
    assert find_duplicates(make_table(pd.concat([frame, copies])), seed=0)["exact"].repeated == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, -0.0, 1.0, 2.0, np.nan]), st.sampled_from([1.0, 5.0]), st.sampled_from("ab")),
        min_size=2,
        max_size=25,
    ).filter(lambda rows: len({row[2] for row in rows}) == 2)
)
def test_duplicates_are_those_that_a_comparison_of_all_pairs_finds(rows):
    counted = find_duplicates(make_table(pd.DataFrame(rows, columns=["size", "count", "label"])), seed=0)["exact"]
    values = [(*(repr(v + 0.0) for v in row[:2]), row[2]) for row in rows]  # -0.0 + 0.0 is 0.0
    twice = [any(i != j and a[:2] == b[:2] for j, b in enumerate(values)) for i, a in enumerate(values)]
    other = [any(a[:2] == b[:2] and a[2] != b[2] for b in values) for a in values]
    assert counted.repeated == pytest.approx(np.mean(twice)) and counted.contradictory == pytest.approx(np.mean(other))


# Splits -------------------------------------------------------------------------------------------


def test_a_classifier_that_knows_hosts_loses_without_them():
    hosts = np.repeat(np.arange(60), 40)
    done = audit(of_groups(hosts).assign(src_ip=[f"10.0.0.{host}" for host in hosts]))
    assert "split by host" in found(done)
    scores = done.scores.set_index("what")["macro_f1"]
    assert scores["by flow"] > 0.9 and scores["by host"] < 0.6
    assert says(done, "split by host").startswith(f"Macro-F1 is {scores['by flow']:.2f} by flow")


def test_a_classifier_that_knows_sessions_loses_without_them():
    sessions = np.repeat(np.arange(300), 10)
    # Few clients, so that the host tells nothing; a session is a pair of hosts in one hour.
    frame = of_groups(sessions).assign(
        src_ip=[f"10.0.0.{session % 12}" for session in sessions],
        dst_ip=[f"10.0.1.{session % 5}" for session in sessions],
        timestamp=START_S + 3600.0 * sessions + np.tile(np.arange(10), 300),
    )
    done = audit(frame)
    assert "split by session" in found(done) and value(done, "split by session") > 0.3


def test_a_classifier_that_knows_files_loses_without_them():
    files = np.repeat(np.arange(30), 80)
    done = audit(of_groups(files).assign(file=[f"{file}.pcap" for file in files]))
    assert "split by file" in found(done) and "classes of one file" not in found(done)


def test_packets_that_know_their_flow_lose_without_it(tmp_path):
    """Zhao et al. (SIGCOMM 2025) show it: sequence numbers are near each other only within a flow."""
    random = np.random.default_rng(4)
    for place, name in enumerate(CLASSES):
        (tmp_path / name).mkdir()
        records = []
        for flow in range(40):
            begin = int(random.integers(2**32 - 10_000))
            for number in range(20):
                header = bytearray(tcp(20_000 + flow * 3 + place, 443, 24))
                header[4:8] = struct.pack("!I", begin + number)
                content = ipv4(bytes(header) + random.bytes(30), f"10.0.{flow}.1", "10.1.0.1")
                records.append((START_S * 1_000_000 + flow * 1_000_000_000 + number, in_link(content, 1)))
        (tmp_path / name / "all.pcap").write_bytes(pcap(records))
    done = audit(tmp_path)
    scores = done.scores.set_index("what")["macro_f1"]
    assert done.unit == "packet" and scores["by packet"] > scores["by flow"] + 0.2 and scores["by flow"] < 0.45
    assert scores["identifiers alone"] > 0.9
    assert {"split by flow", "sequence numbers alone", "identifiers alone", "without identifiers"} <= found(done)


def test_a_class_that_has_one_file_only_is_named():
    frame = clean_flows()
    done = audit(frame.assign(file=frame["label"] + ".pcap"))
    assert says(done, "classes of one file") == (
        "Classes from one file only, so that class and file cannot be told apart (3 of 3): chat, mail, video."
    )
    assert "classes of one file" in found(done)
    row = done.scores.set_index("what").loc["by file"]
    assert np.isnan(row["macro_f1"]) and "split by file" not in found(done)


def test_a_class_that_changes_with_time_loses_by_time():
    frame = clean_flows().sort_values("timestamp", ignore_index=True)
    late = np.arange(3000) >= 1800
    turned = frame["label"].map(TURNED)
    done = audit(frame.assign(label=frame["label"].where(~late, turned)))
    assert "split by time" in found(done)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), min_size=1, max_size=60), st.integers(0, 5))
def test_no_group_is_on_both_sides_of_a_split_by_group(rows, seed):
    groups, labels = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], object)
    training, testing = split_by_group(labels, groups, seed=seed)
    assert sorted([*training, *testing]) == list(range(len(rows)))
    assert not set(groups[training]) & set(groups[testing])
    assert len(training)


def test_a_session_ends_with_a_long_silence():
    starts = [0, 100, 100 + SESSION_GAP_S, 101 + 2 * SESSION_GAP_S, 50]
    ends = pd.DataFrame(
        {
            "source_address": pd.Categorical(["a", "b", "a", "a", "a"]),
            "destination_address": pd.Categorical(["b", "a", "b", "b", "c"]),
            "start_s": starts,
        }
    )
    numbers = sessions_of(ends)
    assert numbers[0] == numbers[1] == numbers[2] and len(set(numbers)) == 3


def test_a_sample_has_whole_sessions_and_every_class():
    groups = np.repeat(np.arange(4000), 5)
    labels = np.where(groups < 3990, "large", "small").astype(object)
    rows = draw_sample(labels, groups, 1000, seed=1)
    assert 1000 <= len(rows) <= 1060 and (labels[rows] == "small").sum() == 50
    sizes = np.bincount(groups[rows])
    assert (sizes[sizes > 0] == 5).mean() > 0.98


# Identifiers --------------------------------------------------------------------------------------


def test_a_port_that_tells_the_class_is_found_alone_without_and_shuffled():
    frame = clean_flows()
    noise = {name: np.random.default_rng(1).permutation(frame[name]) for name in frame if name.startswith("size")}
    done = audit(frame.assign(dst_port=frame["label"].map({"chat": 5222, "mail": 993, "video": 443}), **noise))
    assert {"destination port alone", "identifiers alone", "without destination port", "headers shuffled"} <= found(
        done
    )
    assert "without source port" not in found(done) and "addresses alone" not in found(done)
    assert "Macro-F1 is 1.00 with everything, 0." in says(done, "without destination port")


@pytest.mark.parametrize(
    ("check", "columns"),
    [
        ("addresses alone", lambda frame: {"dst_ip": frame["label"].map(by_class("1.1.1.1", "2.2.2.2", "3.3.3.3"))}),
        ("times alone", lambda frame: {"timestamp": START_S + 1e4 * frame["label"].map(by_class(0, 1, 2))
                                       + np.arange(len(frame))}),
        ("TTL alone", lambda frame: {"ip_ttl": frame["label"].map(by_class(64, 128, 255))}),
        ("sequence numbers alone", lambda frame: {"tcp_seq": frame["label"].map(by_class(1e6, 2e8, 3e9))}),
        ("checksums alone", lambda frame: {"ip_checksum": frame["label"].map(by_class(1, 2, 3))}),
        ("names alone", lambda frame: {"tls_sni": frame["label"] + ".example"}),
        ("row numbers alone", lambda frame: {"Unnamed: 0": frame["label"].map(by_class(0, 1e4, 2e4))
                                             + np.arange(len(frame))}),
    ],
)  # fmt: skip
def test_an_identifier_that_tells_the_class_is_found(check, columns):
    frame = clean_flows()
    assert check in found(audit(frame.assign(**columns(frame))))


def test_labels_that_nothing_tells_are_found_and_nothing_is_lost():
    frame = clean_flows()
    done = audit(frame.assign(label=np.random.default_rng(3).permutation(frame["label"])))
    assert found(done) == {"above chance"}


# Classes and columns ------------------------------------------------------------------------------


def test_one_large_class_and_a_tiny_one_are_found():
    frame = clean_flows()
    few = pd.concat([frame[frame["label"] == "chat"], frame[frame["label"] == "mail"].head(100), frame[
        frame["label"] == "video"].head(20)])  # fmt: skip
    done = audit(few)
    assert {"largest class", "classes of few rows"} <= found(done)
    assert "fewer than 30 flows (1 of 3): video 20" in says(done, "classes of few rows")


def test_constant_copied_impossible_and_telling_columns_are_named():
    frame = clean_flows()
    done = audit(
        frame.assign(
            always=3,
            again=frame["size_4"],
            encoded=frame["label"].map(by_class(7, 3, 5)),
            comment="of " + frame["label"],
            duration=np.where(np.arange(3000) % 10, 1.0, -1.0),
            rate=np.where(np.arange(3000) % 4, frame["dst_port"], np.inf),
        )
    )
    assert says(done, "constant columns") == "Columns with one value only: always."
    assert says(done, "copies") == "Columns that are copies: again is size_4."
    assert says(done, "columns that tell the label").endswith("known before it): encoded, comment.")
    assert "duration (10.0% of it)" in says(done, "negative values")
    assert "rate (25.0% of it)" in says(done, "infinite values")
    assert {"constant columns", "copies", "columns that tell the label", "negative values", "infinite values"} <= found(
        done
    )


# What is given ------------------------------------------------------------------------------------


def test_a_trace_brings_the_audit_of_its_labels():
    trace = load_standin()
    done = audit(trace)
    assert done.labels is trace.audit and not {check for check in found(done) if check.startswith("labels")}
    assert {"destination port alone", "identifiers alone"} <= found(done)
    assert value(done, "labels: matched flows") == trace.audit.table().loc["matched flows", "value"]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame(), "no rows"),
        (clean_flows(50).drop(columns="label"), "no column holds labels"),
        (clean_flows(50).assign(label="chat"), "fewer than two classes: chat"),
        (3, "a table int"),
    ],
)
def test_what_is_no_labelled_table_is_refused(frame, words):
    with pytest.raises(NetreproError, match=words):
        table_of(frame)


def test_a_tiny_sample_is_refused():
    with pytest.raises(NetreproError, match="100 or more"):
        audit(clean_flows(50), sample=5)
