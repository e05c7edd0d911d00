"""HULL's static flows: what the phantom queue and the pacer do, and what must not hold without them."""

from __future__ import annotations

import pytest

from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.papers import hull as paper


@pytest.fixture(scope="module")
def table():
    return paper.STUDY.measure(repetitions=2, seed=7).summary()


def test_the_phantom_queue_keeps_goodput_below_its_own_rate_and_near_it(table):
    most_mbps = 0.95 * 1000 * 1448 / FULL_PACKET_BYTES
    assert 0.85 * most_mbps <= table.loc["pq950, others count"].goodput_mbps <= most_mbps


def test_at_gamma_1_queue_and_throughput_come_back(table):
    ours, broken = table.loc["pq950, others count"], table.loc["others count, gamma 1"]
    assert broken.mean_us > 10 * ours.mean_us
    assert broken.goodput_mbps > 1.05 * ours.goodput_mbps


def test_without_the_pacer_bursts_wait_longer(table):
    assert table.loc["others count, no pacer"].p99_us > 1.5 * table.loc["pq950, others count"].p99_us


def test_a_threshold_below_a_full_packet_marks_everything_so_gamma_is_of_no_matter(table):
    assert table.loc["pq950"].goodput_mbps == pytest.approx(table.loc["pq950, gamma 1"].goodput_mbps)
    assert table.loc["pq950"].goodput_mbps < 0.5 * table.loc["pq950, others count"].goodput_mbps


def test_dctcp_waits_about_as_long_as_its_threshold_lasts(table):
    threshold_us = 20 * FULL_PACKET_BYTES * 8 / 1000
    assert 0.5 * threshold_us <= table.loc["30k"].mean_us <= 1.2 * threshold_us
