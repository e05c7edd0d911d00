"""Choosing the next block to request: begun pieces first, then the rarest; at the end, a block from several peers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from random import Random

from netrepro.protocols.bittorrent.metainfo import Torrent

Block = tuple[int, int, int]  # piece, offset, bytes


class PiecePicker:
    """A record of our pieces, of the open requests, and of the number of neighbours that have each piece.

    From a seed, the picker continues only pieces that a seed began, as the first client did. So seeds bring new pieces
    instead of pieces that other peers have.
    """

    def __init__(self, torrent: Torrent, random: Random, has_everything: bool = False):
        self.torrent, self.random = torrent, random
        self.have = [has_everything] * len(torrent.hashes)
        self.copies = [0] * len(torrent.hashes)
        self._unasked: dict[int, list[Block]] = {}  # begun piece -> blocks that are not requested
        self._asked: dict[Block, set[Hashable]] = {}
        self._begun_by_seed: set[int] = set()

    @property
    def is_complete(self) -> bool:
        """True where we have every piece."""
        return all(self.have)

    def is_interesting(self, theirs: Sequence[bool]) -> bool:
        """Tell whether a peer with the pieces `theirs` has one that we miss."""
        return any(has and not mine for has, mine in zip(theirs, self.have, strict=True))

    def pick(self, peer: Hashable, theirs: Sequence[bool]) -> Block | None:
        """Choose the next block to request from `peer` and note the request; None where the peer has no such block."""
        is_seed = all(theirs)
        wanted = [p for p, has in enumerate(theirs) if has and not self.have[p] and self._unasked.get(p, True)]
        begun = [p for p in wanted if (p in self._begun_by_seed if is_seed else p in self._unasked)]
        if wanted:
            piece = self._rarest(begun or wanted)
            block = self._begin(piece).pop(0)
            if is_seed:
                self._begun_by_seed.add(piece)
        else:
            late = self._late(peer, theirs)
            if not late:
                return None
            block = self.random.choice(late)
        self._asked.setdefault(block, set()).add(peer)
        return block

    def arrived(self, block: Block) -> set[Hashable]:
        """Note that a block has arrived; return all peers from which it was requested, to cancel it there."""
        piece = block[0]
        if block in self._unasked.get(piece, ()):  # the request was given back meanwhile
            self._unasked[piece].remove(block)
        return self._asked.pop(block, set())

    def give_back(self, peer: Hashable, blocks: Iterable[Block]) -> None:
        """Release the blocks that `peer` will not send, so that they can be requested elsewhere."""
        for block in blocks:
            asked = self._asked.get(block)
            if asked is None:
                continue
            asked.discard(peer)
            if not asked:
                del self._asked[block]
                self._begin(block[0]).insert(0, block)

    def finished(self, piece: int, is_good: bool) -> None:
        """Note that all blocks of a piece have arrived. If its hash is wrong, the piece is downloaded again."""
        self.have[piece] = is_good
        self._asked = {block: peers for block, peers in self._asked.items() if block[0] != piece}
        self._unasked.pop(piece, None)
        self._begun_by_seed.discard(piece)

    def _begin(self, piece: int) -> list[Block]:
        return self._unasked.setdefault(piece, [(piece, at, size) for at, size in self.torrent.blocks(piece)])

    def _rarest(self, pieces: Sequence[int]) -> int:
        least = min(self.copies[piece] for piece in pieces)
        return self.random.choice([piece for piece in pieces if self.copies[piece] == least])

    def _late(self, peer: Hashable, theirs: Sequence[bool]) -> list[Block]:
        """Return the end game's blocks: once every missing block is requested, those requested only from others."""
        missing = [piece for piece, mine in enumerate(self.have) if not mine]
        if any(self._unasked.get(piece, True) for piece in missing):
            return []
        return [block for block, peers in self._asked.items() if theirs[block[0]] and peer not in peers]
