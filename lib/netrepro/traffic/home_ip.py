"""UCB Home-IP: the web requests of Berkeley's modem users in November 1996 (Gribble and Brewer, USITS 1997).

The Internet Traffic Archive has the trace (`UCB-home-IP-*.tr.gz`). We cannot ship it; a stand-in in the same format is
generated here from stated distributions. Of each record we use the client, the URL, the time of the request, and the
length of the response.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netrepro.errors import NetreproError

# Times of the request and of the response's first and last byte (s, µs), the client's and the server's address and
# port, cache flags of both, three dates, lengths of the response's header and data, and the length of the URL.
RECORD = struct.Struct(">7IHIHBB5IH")
UNKNOWN = 0xFFFFFFFF
MOST_BYTES = 10_000_000
PRIMARY_ENDINGS = ("", "html", "htm")


@dataclass(frozen=True)
class WebRequest:
    """A request of the trace; `asked_s` is its time in seconds since 1970. An unknown length is None."""

    asked_s: float
    client: int
    url: str
    header_bytes: int | None
    data_bytes: int | None

    @property
    def response_bytes(self) -> int | None:
        """The bytes of header and data; None where one is unknown."""
        return None if self.header_bytes is None or self.data_bytes is None else self.header_bytes + self.data_bytes

    @property
    def is_primary(self) -> bool:
        """True where the URL ends in .html, .htm or without an extension."""
        path = self.url.split(" ")[1] if " " in self.url else self.url
        name = path.rsplit("/", 1)[-1]
        return name.partition(".")[2].strip(".").lower() in PRIMARY_ENDINGS


def read_trace(path: Path) -> Iterator[WebRequest]:
    """Yield every record, in the file's order (by time of completion).

    Raises NetreproError for a file that is not a trace.
    """
    try:
        with gzip.open(path) as file:
            while block := file.read(RECORD.size):
                if len(block) < RECORD.size:
                    raise NetreproError(f"{path.name} ends inside a record", "get the file again")
                fields = RECORD.unpack(block)
                url = file.read(fields[-1])
                if len(url) < fields[-1]:
                    raise NetreproError(f"{path.name} ends inside a URL", "get the file again")
                lengths = [None if length == UNKNOWN else length for length in fields[-3:-1]]
                yield WebRequest(fields[0] + fields[1] / 1e6, fields[6], url.decode("latin-1"), *lengths)
    except (OSError, EOFError) as error:
        raise NetreproError(f"{path} is no .tr.gz: {error}", "give a file of the UCB Home-IP trace") from error


def pages(requests: Iterable[WebRequest], *, by_time: bool = False) -> list[tuple[int, ...]]:
    """List the response sizes in bytes of each page, the primary response first; pages are ordered by client.

    Each secondary response belongs to the client's last primary response before it. Left out are secondaries without
    such a primary, aborted responses (of zero or unknown length), responses above 10 MB, and requests other than GET.
    by_time : True orders a client's requests by the time of the request, False by completion, as in the trace.
    """
    kept = [each for each in requests if each.url.startswith("GET ") and 0 < (each.response_bytes or 0) <= MOST_BYTES]
    kept.sort(key=lambda each: (each.client, each.asked_s if by_time else 0.0))
    sizes: list[list[int]] = []
    client = None
    for each in kept:
        size = each.response_bytes
        assert size is not None
        if each.is_primary:
            sizes.append([size])
            client = each.client
        elif client == each.client:
            sizes[-1].append(size)
    return [tuple(page) for page in sizes]


@dataclass(frozen=True)
class PageSizes:
    """The distributions from which the stand-in is drawn.

    one, two : shares of pages with one and with two requests. more_mean : all other pages have two requests and a
    geometric number more, of this mean. unchanged : share of responses that are only a header (not modified).
    primary_median, secondary_median : medians, in bytes, of the lengths of all other responses, which are log-normal.
    spread : standard deviation of the logarithm of these lengths.
    """

    one: float = 0.40
    two: float = 0.15
    more_mean: float = 6.0
    most_requests: int = 60
    unchanged: float = 0.3
    primary_median: float = 1800.0
    secondary_median: float = 1200.0
    spread: float = 1.6
    least_bytes: int = 64
    most_bytes: int = 200_000


def write_standin(path: Path, pages: int, seed: int = 1, sizes: PageSizes | None = None) -> None:
    """Write a trace of `pages` pages of 40 clients, in the format of the real trace."""
    sizes, random = sizes or PageSizes(), np.random.Generator(np.random.PCG64(seed))
    records, now_s = [], 847_000_000.0
    for page in range(pages):
        draw = random.random()
        many = 2 + min(random.geometric(1 / sizes.more_mean), sizes.most_requests - 2)
        requests = 1 if draw < sizes.one else 2 if draw < sizes.one + sizes.two else int(many)
        client = 0x0A000001 + int(random.integers(40))
        now_s += random.exponential(2.0)
        for place in range(requests):
            median = sizes.secondary_median if place else sizes.primary_median
            header = int(random.integers(150, 251))
            total = float(np.clip(random.lognormal(np.log(median), sizes.spread), sizes.least_bytes, sizes.most_bytes))
            total = header if random.random() < sizes.unchanged else total
            data = max(int(total) - header, 0)
            ending = random.choice(["gif", "gif", "gif", "jpg", "class"]) if place else random.choice(["html", ""])
            url = f"GET {random.integers(1 << 40)}.{'.' + ending if ending else ''} HTTP/1.0".encode()
            asked, ended = now_s + 0.01 * place, now_s + 0.01 * place + 0.005
            times = [part for at in (asked, ended, ended) for part in (int(at), int(at % 1 * 1e6))]
            header = min(header, int(total))
            fields = [*times, client, 1024 + page % 60_000, 0x0B000001, 80, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN]
            records.append(RECORD.pack(*fields, header, data, len(url)) + url)
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        file.write(b"".join(records))
