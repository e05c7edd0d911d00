"""A BitTorrent client without input or output: bytes and the time go in, bytes and events come out.

The protocol is BEP 3's peer wire protocol. Peers are known by the names that the driver gives to connections. A choker
of `chokers` decides which peers are served, with what share of the upload rate. A Client is a Machine, which `drive`
runs in virtual time; `netrepro.applications.swarm` runs it over sockets.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from random import Random

from netrepro.errors import NetreproError
from netrepro.protocols.bittorrent.chokers import Choker
from netrepro.protocols.bittorrent.metainfo import BLOCK_BYTES, Torrent
from netrepro.protocols.bittorrent.picker import Block, PiecePicker
from netrepro.protocols.bittorrent.wire import (
    ID_BYTES,
    Decoder,
    Message,
    ProtocolError,
    decode_bits,
    encode,
    encode_bits,
    handshake,
)
from netrepro.protocols.machine import Event, Output, Send

REQUESTS = 10  # our requests that may be open at a peer
MOST_REQUESTS = 500  # a peer's requests that are kept; further ones are dropped
SNUBBED_S = 60.0  # a peer's open requests are given up after this time without a block
KEEP_ALIVE_S = 110.0  # connections may be closed after two minutes of silence
ASK_AGAIN_S = 1.0  # least time until the choker is asked again while all interested peers are choked


@dataclass
class _Link:
    """The state of one connection, and the requests of both sides."""

    theirs: list[bool]
    decoder: Decoder = field(default_factory=Decoder)
    is_greeted: bool = False
    is_choked: bool = True  # we choke the peer
    is_interested: bool = False  # the peer is interested in our pieces
    chokes: bool = True  # the peer chokes us
    interests: bool = False  # we are interested in the peer's pieces
    wanted: list[Block] = field(default_factory=list)  # requests of the peer
    asked: dict[Block, float] = field(default_factory=dict)  # our open requests -> time of the request
    cancelled: set[Block] = field(default_factory=set)  # requests that we gave up, whose blocks may still arrive
    received_bytes: int = 0
    sent_bytes: int = 0
    last_block_s: float = 0.0
    last_sent_s: float = 0.0
    weight: float = 0.0
    tag: float = 0.0
    may_begin_s: float = 0.0  # when the next block may be sent, where shares are not lent


class Client:
    """A machine that shares one torrent.

    Parameters
    ----------
    choker, seed_choker : they decide which peers are served, during the download and after it.
    content : the whole file, for a seed; None for a client that has no piece.
    upload_bytes_per_s : average upload rate, never exceeded; infinite by default. Weights decide in which order the
        blocks for unchoked peers are sent (start-time fair queueing).
    lends : True gives the unused share of one peer to the others. False gives each peer a token bucket of its own, of
        two blocks; unused shares are then lost.
    peers : names of connections on which to send a handshake at `start`.

    Outputs are Send(name, bytes) and Event: "complete" (seconds), "piece" (number), "bad piece" (number), "closed"
    ((name, why): the driver must close that connection). Raises NetreproError for content that is not the torrent's,
    and for a rate that is not above 0.
    """

    def __init__(
        self,
        torrent: Torrent,
        peer_id: bytes,
        choker: Choker,
        seed_choker: Choker,
        random: Random,
        *,
        content: bytes | None = None,
        upload_bytes_per_s: float = math.inf,
        lends: bool = True,
        peers: Iterable[Hashable] = (),
    ):
        if len(peer_id) != ID_BYTES:
            raise NetreproError(f"a peer's name of {len(peer_id)} bytes", f"give {ID_BYTES}")
        if not upload_bytes_per_s > 0:
            raise NetreproError(
                f"an upload of {upload_bytes_per_s:g} bytes/s", "give more than 0, or the choker FreeRider"
            )
        if content is not None and not _is_whole(torrent, content):
            raise NetreproError(f"content that is not {torrent.name!r}", "give the file of which the torrent was made")
        self.torrent, self.peer_id, self.random = torrent, peer_id, random
        self.choker, self.seed_choker, self.rate = choker, seed_choker, upload_bytes_per_s
        self.lends = lends
        self.picker = PiecePicker(torrent, random, content is not None)
        self._content = bytearray(content or bytes(torrent.size_bytes))
        self._blocks_left: dict[int, set[Block]] = {}
        self._givers: dict[int, set[Hashable]] = {}  # incomplete piece -> peers that sent blocks of it
        self._peers = tuple(peers)
        self._links: dict[Hashable, _Link] = {}
        self._round_at_s = math.inf
        self._asked_choker_s = -math.inf
        self.free_at_s = 0.0  # when the next block may be sent; a driver with full sockets postpones this
        self._tag = 0.0
        self.sent_bytes = self.received_bytes = 0  # in blocks, over all connections

    # The interface for drivers.

    @property
    def is_complete(self) -> bool:
        """True where the client has every piece."""
        return self.picker.is_complete

    @property
    def content(self) -> bytes:
        """The file's bytes; missing blocks are zeros."""
        return bytes(self._content)

    @property
    def traffic(self) -> dict[Hashable, tuple[int, int]]:
        """Open connection -> (bytes received, bytes sent), counted in blocks only."""
        return {name: (link.received_bytes, link.sent_bytes) for name, link in self._links.items()}

    def missing_bytes(self, name: Hashable) -> int:
        """Count the missing bytes of the message that is arriving over a connection; 0 if none is."""
        return self._links[name].decoder.missing_bytes

    @property
    def wake_at_s(self) -> float:
        """The earliest time at which a round, a block, a keep-alive or an overdue request is due."""
        times = [self._round_at_s]
        if wanted := [link.may_begin_s for link in self._links.values() if link.wanted]:
            times.append(self.free_at_s if self.lends else max(self.free_at_s, min(wanted)))
        if self._serves_nobody():
            times.append(self._asked_choker_s + ASK_AGAIN_S)
        for link in self._links.values():
            times.append(link.last_sent_s + KEEP_ALIVE_S)
            times += [link.last_block_s + SNUBBED_S] if link.asked else []
        return min(times)

    def start(self, now_s: float) -> list[Output]:
        """Send a handshake to each of `peers`; the choker's rounds begin."""
        self._round_at_s = now_s + self.random.uniform(0, self._current_choker.round_s)
        return [output for name in self._peers for output in self.connect(now_s, name)]

    def connect(self, now_s: float, name: Hashable) -> list[Output]:
        """Send a handshake over a connection that we have opened. Raises NetreproError for a name that is in use."""
        if name in self._links:
            raise NetreproError(f"a second connection called {name!r}", "give it another name, or lose the first")
        link = _Link([False] * len(self.torrent.hashes), last_block_s=now_s, last_sent_s=now_s)
        self._links[name] = link
        return [Send(name, handshake(self.torrent.info_hash, self.peer_id))]

    def receive(self, now_s: float, sender: Hashable, message: bytes) -> list[Output]:
        """Take in any part of the bytes from `sender`. A new sender has opened a connection, and gets a handshake."""
        outputs = [] if sender in self._links else self.connect(now_s, sender)
        link = self._links[sender]
        try:
            for each in link.decoder.feed(message):
                outputs += self._take(now_s, sender, link, each)
                if sender not in self._links:
                    break
        except ProtocolError as error:
            return [*outputs, *self.lose(now_s, sender), Event("closed", (sender, str(error)))]
        return outputs + self._upload(now_s)

    def lose(self, now_s: float, name: Hashable) -> list[Output]:
        """Forget a closed connection; the blocks requested there are requested from other peers."""
        link = self._links.pop(name, None)
        if link is None:
            return []
        for piece, has in enumerate(link.theirs):
            self.picker.copies[piece] -= has
        self.picker.give_back(name, link.asked)
        return self._ask_all(now_s)

    def wake(self, now_s: float) -> list[Output]:
        """Ask the choker if a round is over, send blocks and keep-alives that are due, and give up overdue requests."""
        outputs: list[Output] = []
        if now_s >= self._round_at_s:
            self._round_at_s = now_s + self._current_choker.round_s
            outputs += self._choke(now_s)
        for name, link in self._links.items():
            if link.asked and now_s >= link.last_block_s + SNUBBED_S:
                self.picker.give_back(name, link.asked)
                link.cancelled |= link.asked.keys()
                link.asked.clear()
                link.last_block_s = now_s
            if now_s >= link.last_sent_s + KEEP_ALIVE_S:
                outputs.append(self._send(now_s, name, link, Message("keep alive")))
        return outputs + self._ask_all(now_s) + self._upload(now_s)

    # Messages.

    def _send(self, now_s: float, name: Hashable, link: _Link, message: Message) -> Send:
        link.last_sent_s = now_s
        return Send(name, encode(message))

    def _take(self, now_s: float, name: Hashable, link: _Link, message: Message) -> list[Output]:
        kind, outputs = message.kind, list[Output]()
        if kind == "handshake":
            if message.data[:ID_BYTES] != self.torrent.info_hash:
                raise ProtocolError("another torrent")
            if message.data[ID_BYTES:] == self.peer_id:
                raise ProtocolError("a connection to ourselves")
            link.is_greeted = True
            if any(self.picker.have):
                bits = encode_bits(self.picker.have)
                outputs.append(self._send(now_s, name, link, Message("bitfield", data=bits)))
        elif kind == "bitfield":
            if any(link.theirs):
                raise ProtocolError("a second bitfield")
            for piece, has in enumerate(decode_bits(message.data, len(link.theirs))):
                link.theirs[piece] = has
                self.picker.copies[piece] += has
            outputs += self._say_interest(now_s, name, link)
        elif kind == "have":
            if message.piece >= len(link.theirs):
                raise ProtocolError(f"there is no piece {message.piece}")
            self.picker.copies[message.piece] += not link.theirs[message.piece]
            link.theirs[message.piece] = True
            outputs += self._say_interest(now_s, name, link) + self._ask(now_s, name, link)
        elif kind in ("choke", "unchoke"):
            link.chokes = kind == "choke"
            if link.chokes:
                self.picker.give_back(name, link.asked)
                link.cancelled |= link.asked.keys()
                link.asked.clear()
                outputs += self._ask_all(now_s)
            else:
                link.last_block_s = now_s
                outputs += self._ask(now_s, name, link)
        elif kind in ("interested", "not interested"):
            link.is_interested = kind == "interested"
        elif kind == "request":
            outputs += self._take_request(link, (message.piece, message.offset, message.length))
        elif kind == "cancel":
            link.wanted = [b for b in link.wanted if b != (message.piece, message.offset, message.length)]
        elif kind == "piece":
            outputs += self._take_block(now_s, name, link, message)
        return outputs

    def _take_request(self, link: _Link, block: Block) -> list[Output]:
        piece, offset, size = block
        fits = piece < len(self.picker.have) and 0 < size <= 2 * BLOCK_BYTES
        if not fits or offset + size > self.torrent.piece_size(piece):
            raise ProtocolError(f"a request for {size} bytes at {offset} of piece {piece}")
        if not link.is_choked and self.picker.have[piece] and len(link.wanted) < MOST_REQUESTS:
            link.wanted.append(block)
        return []

    def _take_block(self, now_s: float, name: Hashable, link: _Link, message: Message) -> list[Output]:
        block = (message.piece, message.offset, len(message.data))
        if message.piece >= len(link.theirs) or block[1:] not in self.torrent.blocks(message.piece):
            raise ProtocolError(f"a block of {len(message.data)} bytes at {message.offset} of piece {message.piece}")
        was_asked = link.asked.pop(block, None) is not None or block in link.cancelled
        link.cancelled.discard(block)
        if was_asked or self._lacks(block):  # unwanted blocks do not count as received
            link.received_bytes += len(message.data)
            self.received_bytes += len(message.data)
        link.last_block_s = now_s
        outputs: list[Output] = []
        others = self.picker.arrived(block) - {name}
        for other, theirs in self._links.items():
            if other in others:
                theirs.asked.pop(block, None)
                theirs.cancelled.add(block)
                outputs.append(self._send(now_s, other, theirs, Message("cancel", *block)))
        piece = message.piece
        if not self.picker.have[piece]:
            every = {(piece, at, size) for at, size in self.torrent.blocks(piece)}
            left = self._blocks_left.setdefault(piece, every)
            if block in left:
                left.discard(block)
                self._givers.setdefault(piece, set()).add(name)
                at = piece * self.torrent.piece_bytes + message.offset
                self._content[at : at + len(message.data)] = message.data
            if not left:
                outputs += self._finish(now_s, piece)
        return outputs + (self._ask(now_s, name, link) if name in self._links else [])

    def _lacks(self, block: Block) -> bool:
        return not self.picker.have[block[0]] and block in self._blocks_left.get(block[0], [block])

    def _finish(self, now_s: float, piece: int) -> list[Output]:
        del self._blocks_left[piece]
        at = piece * self.torrent.piece_bytes
        digest = hashlib.sha1(self._content[at : at + self.torrent.piece_size(piece)]).digest()
        is_good = digest == self.torrent.hashes[piece]
        self.picker.finished(piece, is_good)
        outputs: list[Output] = [Event("piece" if is_good else "bad piece", piece)]
        givers = self._givers.pop(piece)
        if not is_good and len(givers) == 1:  # with several givers, the fault cannot be attributed
            (giver,) = givers
            outputs += [*self.lose(now_s, giver), Event("closed", (giver, f"piece {piece} was bad"))]
        if is_good:
            for name, link in self._links.items():
                if link.is_greeted:
                    outputs.append(self._send(now_s, name, link, Message("have", piece)))
                outputs += self._say_interest(now_s, name, link)
            if self.is_complete:
                outputs.append(Event("complete", now_s))
        return outputs

    # Download.

    def _say_interest(self, now_s: float, name: Hashable, link: _Link) -> list[Output]:
        interests = self.picker.is_interesting(link.theirs)
        if interests == link.interests:
            return []
        link.interests = interests
        return [self._send(now_s, name, link, Message("interested" if interests else "not interested"))]

    def _ask(self, now_s: float, name: Hashable, link: _Link) -> list[Output]:
        outputs: list[Output] = []
        while not link.chokes and len(link.asked) < REQUESTS:
            block = self.picker.pick(name, link.theirs)
            if block is None:
                break
            if not link.asked:
                link.last_block_s = now_s
            link.asked[block] = now_s
            outputs.append(self._send(now_s, name, link, Message("request", *block)))
        return outputs

    def _ask_all(self, now_s: float) -> list[Output]:
        return [output for name, link in self._links.items() for output in self._ask(now_s, name, link)]

    # Upload.

    @property
    def _current_choker(self) -> Choker:
        return self.seed_choker if self.is_complete else self.choker

    def _choke(self, now_s: float) -> list[Output]:
        self._asked_choker_s = now_s
        interested = [name for name, link in self._links.items() if link.is_interested]
        received = {name: float(link.received_bytes) for name, link in self._links.items()}
        weights = self._current_choker.decide(now_s, interested, received)
        outputs: list[Output] = []
        for name, link in self._links.items():
            link.weight = weights.get(name, 0.0)
            is_choked = not link.weight
            if is_choked == link.is_choked:
                continue
            link.is_choked = is_choked
            if is_choked:
                link.wanted.clear()
            else:
                place = self.random.random() * BLOCK_BYTES / link.weight
                link.tag, link.may_begin_s = self._tag + place, now_s + place / self.rate
            outputs.append(self._send(now_s, name, link, Message("choke" if is_choked else "unchoke")))
        return outputs

    def _serves_nobody(self) -> bool:
        """Tell whether some neighbours are interested and all these neighbours are choked."""
        interested = [link.is_choked for link in self._links.values() if link.is_interested]
        return bool(interested) and all(interested)

    def _upload(self, now_s: float) -> list[Output]:
        outputs: list[Output] = []
        if self._serves_nobody() and now_s >= self._asked_choker_s + ASK_AGAIN_S:
            outputs += self._choke(now_s)
        while now_s >= self.free_at_s:
            waiting = [
                name for name, link in self._links.items() if link.wanted and (self.lends or now_s >= link.may_begin_s)
            ]
            if not waiting:
                break
            name = min(waiting, key=lambda each: self._links[each].tag)
            link = self._links[name]
            piece, offset, size = link.wanted.pop(0)
            at = piece * self.torrent.piece_bytes + offset
            data = bytes(self._content[at : at + size])
            outputs.append(self._send(now_s, name, link, Message("piece", piece, offset, data=data)))
            link.sent_bytes += size
            self.sent_bytes += size
            self._tag = max(link.tag, self._tag)  # a peer that was idle cannot claim its unused share later
            link.tag = self._tag + size / link.weight
            earned_s = size / link.weight / self.rate
            link.may_begin_s = max(link.may_begin_s, now_s - earned_s) + earned_s
            self.free_at_s = max(now_s, self.free_at_s) + size / self.rate
        return outputs


def _is_whole(torrent: Torrent, content: bytes) -> bool:
    pieces = [content[at : at + torrent.piece_bytes] for at in range(0, len(content), torrent.piece_bytes)]
    return len(content) == torrent.size_bytes and [hashlib.sha1(each).digest() for each in pieces] == list(
        torrent.hashes
    )
