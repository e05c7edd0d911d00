"""The trace of UCB Home-IP: its records, what counts as a page, and the stand-in."""

from __future__ import annotations

import gzip
import struct

import pytest

from netrepro.errors import NetreproError
from netrepro.traffic.home_ip import PageSizes, WebRequest, pages, read_trace, write_standin


def record(url: bytes, header: int = 200, data: int = 1000, client: int = 7, asked: int = 100) -> bytes:
    """Make a record, field by field as ns-2's converter describes it."""
    times = struct.pack(">6I", asked, 500_000, asked + 1, 0, asked + 2, 0)
    ends = struct.pack(">IHIH", client, 1025, 9, 80)
    rest = struct.pack(">BB", 0, 0) + b"\xff" * 12 + struct.pack(">IIH", header, data, len(url))
    assert len(times + ends + rest) == 60
    return times + ends + rest + url


def trace(tmp_path, *records: bytes):
    path = tmp_path / "part.tr.gz"
    path.write_bytes(gzip.compress(b"".join(records)))
    return path


def get(name: str, size: int, client: int = 1, asked: float = 0.0) -> WebRequest:
    return WebRequest(asked, client, f"GET {name} HTTP/1.0", 0, size)


def test_a_record_is_sixty_bytes_and_a_url(tmp_path):
    url = b"GET 9168504434183313441..gif HTTP/1.0"
    (found,) = read_trace(trace(tmp_path, record(url)))
    assert found == WebRequest(100.5, 7, url.decode(), 200, 1000)
    assert found.response_bytes == 1200 and not found.is_primary


@pytest.mark.parametrize(
    ("name", "is_primary"),
    [("12..html", True), ("12..htm", True), ("12", True), ("12.", True), ("12..HTML", True), ("12..gif", False),
     ("12..class", False), ("12..jpg", False)],
)  # fmt: skip
def test_a_primary_ends_in_html_or_in_nothing(name, is_primary):
    assert get(name, 1).is_primary == is_primary


def test_a_run_of_secondaries_belongs_to_the_primary_before_it_of_the_same_client():
    asked = [get("1..gif", 1), get("2", 10), get("3..gif", 20), get("4..html", 30, client=2), get("5..gif", 40)]
    asked += [get("6..gif", 50, client=2), get("7", 60), get("8..gif", 70, client=3)]
    assert pages(asked) == [(10, 20, 40), (60,), (30, 50)]


def test_within_a_client_the_order_is_the_files_or_that_of_time():
    asked = [get("1..gif", 1, asked=2.0), get("2", 10, asked=1.0), get("3..gif", 20, asked=3.0)]
    assert pages(asked) == [(10, 20)]
    assert pages(asked, by_time=True) == [(10, 1, 20)]


def test_what_was_aborted_or_posted_or_huge_is_left_out(tmp_path):
    unknown = record(b"GET 1..html HTTP/1.0", data=0xFFFFFFFF)
    empty = record(b"GET 2..html HTTP/1.0", header=0, data=0)
    posted = record(b"POST 3..html HTTP/1.0")
    huge = record(b"GET 4..html HTTP/1.0", data=10_000_000)
    good = record(b"GET 5..html HTTP/1.0", data=9_999_800)
    assert pages(read_trace(trace(tmp_path, unknown, empty, posted, huge, good))) == [(10_000_000,)]


def test_a_file_that_is_cut_or_no_trace_is_refused(tmp_path):
    for cut in (30, 65):
        with pytest.raises(NetreproError, match="ends inside"):
            list(read_trace(trace(tmp_path, record(b"GET 1..html HTTP/1.0")[:cut])))
    other = tmp_path / "other.tr.gz"
    other.write_text("no archive")
    for path in (other, tmp_path / "none.tr.gz"):
        with pytest.raises(NetreproError, match=r"no \.tr\.gz"):
            list(read_trace(path))


def test_the_stand_in_has_the_shares_that_it_states_and_is_the_same_each_time(tmp_path):
    first, again = tmp_path / "a.tr.gz", tmp_path / "b.tr.gz"
    write_standin(first, 3000, 5)
    write_standin(again, 3000, 5)
    assert first.read_bytes() == again.read_bytes()
    found, sizes = pages(read_trace(first)), PageSizes()
    assert len(found) == 3000
    counts = [len(page) for page in found]
    assert counts.count(1) / 3000 == pytest.approx(sizes.one, abs=0.03)
    assert counts.count(2) / 3000 == pytest.approx(sizes.two, abs=0.02)
    more = [count - 2 for count in counts if count > 2]
    assert sum(more) / len(more) == pytest.approx(sizes.more_mean, rel=0.1)
    lengths = [size for page in found for size in page]
    assert max(lengths) <= sizes.most_bytes and min(lengths) >= sizes.least_bytes
    headers = sum(size <= 250 for size in lengths) / len(lengths)
    assert sizes.unchanged <= headers <= sizes.unchanged + 0.2
