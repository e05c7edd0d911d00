"""How a browser asks for pages: who may be under way, in which order, and when a page is there."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netrepro.errors import NetreproError
from netrepro.protocols.browser import Browser, Manner


def under_way(browser, asked):
    """Answer the oldest request of all until the page is there; yields how many are under way on each connection."""
    queue = [(connection, request) for connection, request, _ in asked]
    while queue:
        loads = {}
        for connection, _ in queue:
            loads[connection] = loads.get(connection, 0) + 1
        yield loads, [request for _, request in queue]
        connection, _ = queue.pop(0)
        queue += [(number, request) for number, request, _ in browser.answered(1.0, connection)]


@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_no_more_is_under_way_than_allowed_and_every_request_is_made_once(connections, depth, keeps, pages):
    depth = depth if keeps else 1
    browser = Browser([[100] * requests for requests in pages], Manner(connections, depth, keeps), 0.5)
    for page, requests in enumerate(pages):
        seen = set()
        for loads, asked in under_way(browser, browser.begin(0.0)):
            assert len(loads) <= connections and max(loads.values()) <= depth
            assert 0 not in asked or asked == [0]  # secondaries only when the primary is there
            seen |= set(asked)
        assert seen == set(range(requests))
        assert browser.loaded[page].requests == requests and browser.loaded[page].size_bytes == 100 * requests
        assert browser.begins_s == (math.inf if page == len(pages) - 1 else 1.5)
    assert browser.is_done


def test_two_kept_connections_of_four_take_eight_secondaries_at_once():
    browser = Browser([[1] * 12], Manner(2, 4, True), 0.0)
    assert [ask[:2] for ask in browser.begin(0.0)] == [(0, 0)]
    asked = browser.answered(0.1, 0)
    assert [connection for connection, _, _ in asked] == [0, 1] * 4
    assert [request for _, request, _ in asked] == list(range(1, 9))
    assert [ask[:2] for ask in browser.answered(0.2, 1)] == [(1, 9)]


def test_the_smallest_secondaries_are_asked_for_first_and_equals_in_their_order():
    browser = Browser([[1, 30, 10, 20, 10]], Manner(1, 4, True, smallest_first=True), 0.0)
    browser.begin(0.0)
    assert [request for _, request, _ in browser.answered(0.1, 0)] == [2, 4, 3, 1]


def test_a_request_goes_where_the_fewest_bytes_are_under_way():
    page = [1, 5000, 1000, 1000, 1000]
    for by_bytes, connections in ((True, [0, 1, 1, 1]), (False, [0, 1, 0, 1])):
        browser = Browser([page], Manner(2, 4, True, by_bytes=by_bytes), 0.0)
        browser.begin(0.0)
        assert [connection for connection, _, _ in browser.answered(0.1, 0)] == connections


def test_a_connection_takes_more_requests_while_the_next_is_small():
    for size_bytes, at_once in ((999, 4), (1000, 2)):
        browser = Browser([[1, *[size_bytes] * 9]], Manner(1, 2, True, more_small=2), 0.0)
        browser.begin(0.0)
        assert len(browser.answered(0.1, 0)) == at_once


def test_connections_that_are_not_kept_are_new_for_each_request():
    browser = Browser([[1] * 3, [1]], Manner(8), 0.0)
    numbers = [browser.begin(0.0)[0][0]]
    numbers += [connection for connection, _, _ in browser.answered(0.1, 0)]
    browser.answered(0.2, 1)
    browser.answered(0.3, 2)
    numbers.append(browser.begin(0.4)[0][0])
    assert numbers == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "given", [(0,), (1, 0, True), (2, 2, False), (1, 1, False, False, False, 2), (1, 1, True, False, False, -1)]
)
def test_a_manner_without_sense_is_refused(given):
    with pytest.raises(NetreproError):
        Manner(*given)
