"""Packets on both sides of a split: splits against sets, identifiers against a second reading of the options, and the
leak on headers in which it was planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from netrepro.claims import load_claims
from netrepro.papers import packet_split_leak as paper
from netrepro.papers.gmm_traffic.threads import one_thread
from netrepro.papers.packet_split_leak import measuring
from netrepro.papers.packet_split_leak.headers import (
    APPLICATIONS,
    AS_CAPTURED,
    DRAWN,
    HEADER_BYTES,
    REMOVED,
    WITHOUT,
    Headers,
    draw_packets,
    identifiers,
    time_stamps,
)
from netrepro.papers.packet_split_leak.measuring import BY_FLOW, BY_PACKET, END_TO_END, FROZEN, TREES
from netrepro.papers.packet_split_leak.setting import DEALT, ENCODER, FOREST
from netrepro.papers.packet_split_leak.study import FOREST_CASE, LEAD
from netrepro.study import OneRun, read_once

needs_torch = pytest.mark.skipif(bool(measuring.why_no_encoder()), reason="needs PyTorch, for the encoder")
SMALL = paper.Setting(flows_per_application=70, epochs=15, pretraining_epochs=2, width=192, trees=15)
SEEDS = measuring.seeds_of((1, 0))


def planted(seed: int, flows: int = 420, packets: int = 12) -> Headers:
    """Headers that tell nothing of their application but the upper halves of both sequence numbers, which are a
    flow's own."""
    random = np.random.default_rng(seed)
    count = flows * packets
    flow = np.repeat(np.arange(flows), packets)
    content = np.zeros((count, HEADER_BYTES), np.uint8)
    content[:, 0], content[:, 32] = 0x45, 5 << 4
    content[:, [3, 35]] = random.integers(0, 256, (count, 2))
    content[:, 24:32] = random.integers(0, 256, (count, 8))
    content[:, [24, 25, 28, 29]] = random.integers(0, 256, (flows, 4))[flow]
    application = random.permutation(np.array(APPLICATIONS * (flows // len(APPLICATIONS))))[flow]
    return Headers(content, flow, np.tile(np.arange(packets), flows), application)


def measured(monkeypatch: pytest.MonkeyPatch, **changes) -> dict[str, float]:
    """The numbers of one run on planted headers."""
    days = [planted(1), planted(2)]
    monkeypatch.setattr(measuring, "load_headers", lambda day: days[day])
    run = OneRun(replace(SMALL, **changes), 0.0, (3, 0), "simulated")
    (reading,) = measuring.measure_all([run], iter)
    assert not [check for check in reading.checks if not check.holds]
    return dict(reading.numbers)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(30, 90), st.integers(2, 12))
def test_splits_by_flow_never_share_a_flow_and_splits_by_packet_test_known_flows(seed, flows, packets):
    setting = replace(SMALL, packets_per_flow=packets)
    task = measuring.make_task(planted(seed, flows=6 * (flows // 6)), setting, measuring.seeds_of((seed, 0)))
    for trains, tests in task.splits.values():
        assert sorted([*trains, *tests]) == list(range(len(task.headers)))
    flow = task.headers.flow
    trains, tests = task.splits[BY_FLOW]
    assert not set(flow[trains]) & set(flow[tests])
    trains, tests = task.splits[BY_PACKET]
    assert set(flow[trains]) & set(flow[tests])


def test_labels_are_dealt_to_whole_flows_and_classes_keep_their_number_of_flows():
    headers = planted(4, flows=60, packets=5)
    labels = np.unique(headers.application, return_inverse=True)[1]
    dealt = measuring.deal(labels, headers.flow, seed=1)
    table = pd.DataFrame({"flow": headers.flow, "dealt": dealt, "right": labels})
    assert (table.groupby("flow")["dealt"].nunique() == 1).all()
    assert (np.bincount(dealt) == np.bincount(labels)).all()
    assert (dealt != labels).any()


def stamps_by_the_rfc(header: bytes) -> list[int]:
    """The places of time stamps, walking the options one by one (RFC 9293, section 3.1; RFC 7323, section 3)."""
    found, place, end = [], 40, 20 + 4 * (header[32] >> 4)
    while place < end and header[place] != 0:
        if header[place] == 1:
            place += 1
            continue
        if place + 1 >= end or header[place + 1] < 2:
            break
        if header[place] == 8 and header[place + 1] == 10 and place + 10 <= HEADER_BYTES:
            found += range(place + 2, place + 10)
        place += header[place + 1]
    return found


_OPTION = st.one_of(
    st.just(b"\x01"),
    st.just(b"\x04\x02"),
    st.binary(min_size=2, max_size=2).map(lambda size: b"\x02\x04" + size),
    st.binary(min_size=8, max_size=8).map(lambda stamps: b"\x08\x0a" + stamps),
    st.binary(max_size=6),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_OPTION, max_size=8))
def test_time_stamps_are_found_as_a_walk_through_the_options_finds_them(options):
    text = b"".join(options)[:20]
    text += bytes(-len(text) % 4)
    header = bytes(32) + bytes([(5 + len(text) // 4) << 4]) + bytes(7) + text
    content = np.frombuffer(header.ljust(HEADER_BYTES, b"\0"), np.uint8)[None]
    assert list(np.flatnonzero(time_stamps(content)[0])) == stamps_by_the_rfc(header)


def test_the_standins_headers_are_read_with_flows_labels_and_no_address_or_port():
    headers = paper.load_headers(paper.LABELLED_DAY)
    assert not headers.content[:, 12:24].any()
    assert (headers.content[:, 0] == 0x45).all()
    flows = pd.DataFrame({"flow": headers.flow, "application": headers.application, "place": headers.place})
    assert (flows.groupby("flow")["application"].nunique() == 1).all()
    assert (flows.groupby("flow")["place"].max() < 12).all()
    named = flows.groupby("flow")["application"].first().value_counts()
    assert all(named[name] >= 60 for name in APPLICATIONS)
    # A flow's first packet is its SYN, without acknowledgement number.
    first = headers.only(headers.place == 0)
    assert (first.fields()["tcp_flags"] & 0x12 == 2).mean() > 0.99


def test_fields_are_those_of_the_header():
    """The first SYN of the stand-in's second day, read by hand from its bytes."""
    fields = paper.load_headers(paper.LABELLED_DAY).only(np.array([0])).fields().iloc[0]
    assert fields["length"] == 0x3C
    assert fields["identification"] == 0x3BAF
    assert fields["time_to_live"] == 63
    assert fields["sequence"] == 0x99C17B15
    assert fields["acknowledgement"] == 0
    assert fields["data_offset"] == 10
    assert fields["window"] == 0xFAF0
    assert (fields["time_stamp"], fields["echoed_time_stamp"]) == (0x9BBE8357, 0)


@pytest.mark.parametrize("treatment", [REMOVED, DRAWN, *WITHOUT])
def test_a_treatment_changes_identifiers_and_nothing_else(treatment):
    headers = paper.load_headers(paper.LABELLED_DAY).only(np.arange(3000))
    treated = headers.treated(treatment, np.random.default_rng(1))
    kinds = (WITHOUT[treatment],) if treatment in WITHOUT else tuple(WITHOUT.values())
    where = identifiers(headers.content, kinds)
    assert (treated.content[~where] == headers.content[~where]).all()
    if treatment == DRAWN:
        assert treated.content[where].mean() == pytest.approx(127.5, abs=1)
    else:
        assert not treated.content[where].any()
    assert headers.treated(AS_CAPTURED, np.random.default_rng(1)) is headers


def test_packets_are_drawn_by_whole_flows():
    drawn = draw_packets(paper.load_headers(paper.LABELLED_DAY), 20, 5, seed=3)
    counts = pd.DataFrame({"flow": drawn.flow, "name": drawn.application}).groupby("name")["flow"].nunique()
    assert dict(counts) == dict.fromkeys(APPLICATIONS, 20)
    assert drawn.place.max() == 4


@needs_torch
def test_a_planted_identifier_leaks_through_the_split_by_packet_alone(monkeypatch):
    """Nothing but a flow's own numbers tells its application: known flows are named, others by chance."""
    leaks = measured(monkeypatch, model=ENCODER)
    assert leaks[f"{END_TO_END}, {BY_PACKET}, accuracy"] > 0.45
    assert leaks[f"{END_TO_END}, {BY_FLOW}, accuracy"] < 0.3
    assert leaks[f"{FROZEN}, {BY_FLOW}, accuracy"] < 0.3


@needs_torch
@pytest.mark.parametrize("headers", [REMOVED, DRAWN])
def test_without_the_planted_identifier_nothing_leaks(monkeypatch, headers):
    numbers = measured(monkeypatch, model=ENCODER, headers=headers)
    for model in (END_TO_END, FROZEN):
        assert numbers[f"{model}, {BY_PACKET}"] - numbers[f"{model}, {BY_FLOW}"] < LEAD
        assert numbers[f"{model}, {BY_PACKET}, accuracy"] < 0.3


@pytest.mark.parametrize(("headers", "leaks"), [(AS_CAPTURED, True), (REMOVED, False), (DRAWN, False)])
def test_a_forest_finds_the_planted_identifier(monkeypatch, headers, leaks):
    numbers = measured(monkeypatch, model=FOREST, headers=headers)
    assert (numbers[f"{TREES}, {BY_PACKET}"] > 0.5) is leaks
    assert numbers[f"{TREES}, {BY_FLOW}, accuracy"] < 0.3


def test_a_forest_knows_the_dealt_labels_of_known_flows_only():
    setting = replace(SMALL, model=FOREST, labels=DEALT)
    numbers = read_once(paper.STUDY, setting, seed=2)
    assert numbers[f"{TREES}, {BY_PACKET}"] > numbers[f"{TREES}, {BY_FLOW}"] + LEAD
    assert numbers[f"{TREES}, {BY_FLOW}, accuracy"] < 0.35


@needs_torch
def test_an_encoder_is_the_same_with_the_same_seed_and_another_with_another():
    import torch

    from netrepro.papers.packet_split_leak import encoder as encoders

    bits = planted(5, flows=60).bits()
    labels = np.arange(len(bits)) % 3
    before = torch.random.get_rng_state()

    def trained(seed: int) -> tuple[NDArray, NDArray]:
        first = encoders.make_encoder(bits.shape[1], 16, 8, seed)
        encoder = encoders.pretrain(first, bits, corrupted_share=0.15, epochs=1, seed=seed)
        frozen = encoders.represent(encoder, bits)
        named = encoders.classify(encoder, (bits, labels), bits, frozen=False, epochs=2, seed=seed)
        assert (encoders.represent(encoder, bits) == frozen).all()  # training end to end changes a copy
        return frozen, named

    with one_thread():
        (one, names), (again, same_names), (other, _) = trained(1), trained(1), trained(2)
    assert (one == again).all()
    assert (names == same_names).all()
    assert (one != other).any()
    assert torch.equal(before, torch.random.get_rng_state())


@needs_torch
def test_a_frozen_representation_keeps_what_a_header_says_plainly():
    from netrepro.papers.packet_split_leak import encoder as encoders

    headers = paper.load_headers(0).only(np.arange(6000))
    bits, labels = headers.bits(), headers.fields()["time_stamp"].gt(0).to_numpy(np.int64)
    with one_thread():
        encoder = encoders.make_encoder(bits.shape[1], 64, 32, 1)
        encoder = encoders.pretrain(encoder, bits, corrupted_share=0.15, epochs=4, seed=1)
        named = encoders.classify(encoder, (bits, labels), bits, frozen=True, epochs=4, seed=1)
    assert (named == labels).mean() > 0.95


def test_without_pytorch_only_forests_are_measured(monkeypatch):
    monkeypatch.setattr(measuring.importlib.util, "find_spec", lambda name: None)
    assert paper.STUDY.cannot(paper.Setting(), "simulated") == "PyTorch is not installed"
    assert not paper.STUDY.cannot(paper.STUDY.case(FOREST_CASE), "simulated")


def test_the_lead_that_counts_is_that_of_the_claims():
    orders = [claim for claim in load_claims("packet_split_leak").claims if claim.kind == "ordering"]
    assert len(orders) == 5
    assert all(f"A lead of {LEAD} counts" in claim.note for claim in orders)
