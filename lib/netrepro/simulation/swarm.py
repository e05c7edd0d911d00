"""A swarm of BitTorrent peers, simulated block by block: uploads are the bottleneck; any choker may be used."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import pandas as pd

from netrepro import _core
from netrepro.errors import NetreproError
from netrepro.protocols.bittorrent.chokers import CHOKERS, Choker, choker

BLOCK_BYTES = 16384  # BEP 3: size of a request


@dataclass(frozen=True)
class SwarmPeer:
    """One identity in a swarm.

    kind : its choker while it downloads, a key of CHOKERS. upload_kilobytes_per_s : its rate, which it never exceeds;
    0 for a peer that gives nothing. client : identities of the same client share their pieces and are complete
    together; None for a client of its own. is_seed : it has everything from the beginning, and stays. stays_s : time
    for which it serves after its download. lends : rate that one served peer cannot use goes to the others; if False,
    each has a token bucket of its own, and unused rate is lost.
    """

    kind: str
    upload_kilobytes_per_s: float
    client: str | None = None
    is_seed: bool = False
    stays_s: float = 0.0
    lends: bool = True


def run_swarm(
    peers: Sequence[SwarmPeer],
    seed: int,
    *,
    pieces: int,
    blocks_per_piece: int = 16,
    limit_s: float = 36_000.0,
    make_choker: Callable[[str, Random], Choker] = choker,
) -> pd.DataFrame:
    """Simulate the download of a file in a swarm; return one row for each identity, in their order.

    All are there at 0 s, with everybody as neighbour, and their first choking rounds begin at random times. A peer that
    has nobody to send to chooses again at once. Blocks take time at the sender alone: there is no delay, no limit on
    downloads and no waiting request. A peer that is complete serves as a seed ("seed" of `make_choker`) for
    its `stays_s`.

    Returns peer, kind, client, is_seed, upload_kilobytes_per_s, complete_s (NaN where `limit_s` came first), present_s
    (seconds that it was there), sent_bytes, received_bytes.
    Raises NetreproError for an unknown kind, a swarm without seed or without anybody who downloads, and bad numbers.
    """
    _check(peers, pieces, blocks_per_piece)
    random = Random(seed)
    clients = [peer.client if peer.client is not None else i for i, peer in enumerate(peers)]
    owners = {client: number for number, client in enumerate(dict.fromkeys(clients))}
    chokers = [make_choker("seed" if peer.is_seed else peer.kind, Random(random.getrandbits(64))) for peer in peers]
    as_seeds = [make_choker("seed", Random(random.getrandbits(64))) for _ in peers]
    swarm = _core.PeerSwarm(
        [
            _core.SwarmPeer(
                upload_bytes_per_s=1e3 * peer.upload_kilobytes_per_s,
                owner=owners[clients[i]],
                is_seed=peer.is_seed,
                first_round_s=random.uniform(0, chokers[i].round_s),
                round_s=chokers[i].round_s,
                stays_s=peer.stays_s,
                lends=peer.lends,
            )
            for i, peer in enumerate(peers)
        ],
        pieces,
        blocks_per_piece,
        BLOCK_BYTES,
        random.getrandbits(63),
    )

    def decide(now_s: float, peer: int, is_complete: bool, interested: list[int], received: list[float]) -> dict:
        asked = as_seeds[peer] if is_complete and not peers[peer].is_seed else chokers[peer]
        return asked.decide(now_s, interested, dict(enumerate(received)))

    swarm.run(limit_s, decide)
    rows = []
    for i, peer in enumerate(peers):
        complete_s = swarm.complete_s(i)
        stays_s = math.inf if peer.is_seed else peer.stays_s
        rows.append(
            {
                "peer": i,
                "kind": peer.kind,
                "client": str(clients[i]),
                "is_seed": peer.is_seed,
                "upload_kilobytes_per_s": peer.upload_kilobytes_per_s,
                "complete_s": complete_s if math.isfinite(complete_s) else math.nan,
                "present_s": min(swarm.now_s, complete_s + stays_s),
                "sent_bytes": swarm.sent_bytes(i),
                "received_bytes": sum(swarm.received_bytes(i)),
            }
        )
    return pd.DataFrame(rows)


def _check(peers: Sequence[SwarmPeer], pieces: int, blocks_per_piece: int) -> None:
    if pieces < 1 or blocks_per_piece < 1:
        raise NetreproError(f"{pieces} pieces of {blocks_per_piece} blocks", "give at least 1 of each")
    for peer in peers:
        if not peer.is_seed and peer.kind not in CHOKERS:
            choker(peer.kind, Random(0))  # raises
        if not 0 <= peer.upload_kilobytes_per_s < math.inf or not peer.stays_s >= 0:
            raise NetreproError(
                f"a peer with {peer.upload_kilobytes_per_s:g} kB/s that stays {peer.stays_s:g} s",
                "give a finite rate and a time, each at least 0",
            )
    if not any(peer.is_seed and peer.upload_kilobytes_per_s > 0 for peer in peers):
        raise NetreproError("a swarm without a seed that uploads", "nobody could ever be complete")
    if all(peer.is_seed for peer in peers):
        raise NetreproError("a swarm of seeds alone", "add somebody who downloads")
    by_client: dict[str, set[bool]] = {}
    for peer in peers:
        if peer.client is not None:
            by_client.setdefault(peer.client, set()).add(peer.is_seed)
    if any(len(kinds) > 1 for kinds in by_client.values()):
        raise NetreproError("identities of one client of which only some are seeds", "they share what they have")
