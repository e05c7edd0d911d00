"""L4S beside classic senders: the authors' cells and numbers, how cells are compared, and flows that need no queue to
share. test_studies.py tests the rest."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from virtual_kernel import needs_virtual

from netrepro.claims import load_claims
from netrepro.emulation import emulate
from netrepro.networks.queues import DropTail, DualPi2
from netrepro.papers import l4s_adoption as paper
from netrepro.simulation import simulate
from netrepro.study import measure, read_once


def test_there_are_225_published_cells_of_ten_trials():
    table = paper.published()
    assert len(table) == 5 * 9 * 5 and table.index.is_unique and (table["trials"] == 10).all()
    assert {case for case, _, _ in table.index} == set(paper.PAIRS)
    assert (table["prague_mbps"] + table["classic_mbps"]).between(85, 97).all()  # 95.6 and what iperf3 rounds


def test_the_claims_have_the_numbers_of_the_cells():
    claims, cells = load_claims("l4s_adoption"), paper.published()
    numbers = {
        "prague-harms": ("CUBIC, ECN", "single_queue_FQ", "classic_mbps"),
        "prague-is-harmed": ("CUBIC", "single_queue_FQ", "prague_mbps"),
        "bbr3-does-not-solve": ("BBRv3, ECN", "DualPI2", "prague_mbps"),
        "l4s-queue-is-low-delay": ("CUBIC", "DualPI2", "prague_round_trip_ms"),
        "dualpi2-shares": ("CUBIC", "DualPI2", "prague_mbps"),
    }
    for name, (case, queue, column) in numbers.items():
        assert claims.claim(name).published == pytest.approx(cells.loc[(case, queue, 2.0), column], abs=0.06)
    for name, case in paper.MAPS.items():
        theirs = paper.as_map(cells.loc[case]["prague_mbps"])
        assert [x for x, _ in claims.claim(name).published] == [x for x, _ in theirs]
        assert [y for _, y in claims.claim(name).published] == pytest.approx([y for _, y in theirs], abs=0.06)


@pytest.mark.parametrize(("pipes", "packets"), [(0.5, 42), (1, 84), (2, 167), (4, 334), (8, 667)])
def test_buffers_are_the_authors(pipes, packets):
    setting = replace(paper.Setting(), buffer_pipes=pipes)
    assert paper.queue_of(setting) == DropTail(bytes=int(125_000 * pipes))
    held = {queue: paper.queue_of(replace(setting, queue=queue)).packets for queue in paper.QUEUES[1:-1]}
    assert set(held.values()) == {packets}
    assert paper.queue_of(replace(setting, queue="DualPI2")) == DualPi2(target_ms=5.0)


def test_cells_are_compared_with_the_authors_means_and_their_spread():
    only = {"queue": ("FQ_Codel", "pie_drop"), "buffer_pipes": (2.0,)}
    study = replace(
        paper.STUDY,
        cases={case: paper.STUDY.cases[case] for case in paper.PAIRS},
        scales={"quick": replace(paper.STUDY.scales["quick"], seconds=5.0, only=only)},
        claims={},
    )
    runs = measure(study, repetitions=1, seed=3)
    cells, shares = paper.cells(runs), paper.shares(runs)
    assert len(cells) == 10 and shares.loc["all", "cells"] == 10
    for (case, queue, pipes), row in cells.iterrows():
        theirs = paper.published().loc[(case, queue, pipes)]
        off = [row[f"{side}_mbps"] - theirs[f"{side}_mbps"] for side in ("prague", "classic")]
        allowed = [2 * theirs[f"{side}_mbps_sd"] for side in ("prague", "classic")]
        assert row.within_10 == all(abs(each) <= 10 for each in off)
        assert row.within_spread == all(abs(each) <= most for each, most in zip(off, allowed, strict=True))
    assert len(paper.misses(runs)) == (~cells.within_10).sum()


def test_in_a_fair_queue_flows_of_one_kind_on_each_side_share_by_flows():
    setting = replace(paper.Setting(), queue="FQ_Codel", prague_flows=2, classic_flows=3)
    reading = read_once(paper.STUDY, setting, 10.0)
    assert reading["prague_mbps"] == pytest.approx(setting.payload_mbps / 5, rel=0.1)
    assert reading["classic_mbps"] == pytest.approx(setting.payload_mbps / 5, rel=0.1)


def test_alone_prague_has_the_round_trip_of_the_path_in_the_l4s_queue():
    setting = replace(paper.Setting(), queue="DualPI2", classic_flows=0)
    assert read_once(paper.STUDY, setting, 10.0)["prague_round_trip_ms"] == pytest.approx(10.7, abs=0.6)


def test_cells_that_kernels_run_too_stand_beside_the_authors_on_each_tier():
    study = replace(
        paper.STUDY,
        cases={case: paper.STUDY.cases[case] for case in paper.OF_KERNELS},
        scales={"quick": replace(paper.STUDY.scales["quick"], seconds=5.0)},
        claims={},
    )
    table = paper.beside_kernels(measure(study, repetitions=1, seed=3))
    assert list(table.index.get_level_values(1)[:3]) == ["FIFO", "single_queue_FQ", "DualPI2"] and len(table) == 9
    assert table.loc[("BBRv1, single segments", "DualPI2"), ("prague_mbps", "authors")] == pytest.approx(12.6, abs=0.06)
    ours = table.xs("simulated", axis=1, level=1)
    # Flows of 5 s that start within one have 6 s of the link.
    assert (ours.sum(axis=1) <= paper.Setting().payload_mbps * 6 / 5).all() and (ours > 0).all().all()


@needs_virtual
def test_the_virtual_kernel_shares_dualpi2_between_prague_and_cubic_as_the_simulator_does():
    setting = replace(paper.Setting(), queue="DualPI2", bursts=False)
    numbers = [
        paper.read(run(paper.experiment(setting, 15.0, 1)), setting).numbers["prague_mbps"]
        for run in (simulate, partial(emulate, tier="virtual"))
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.15)
