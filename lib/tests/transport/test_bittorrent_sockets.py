"""Our client over sockets: with itself, and with libtorrent, which knows nothing of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from netrepro.errors import NetreproError
from netrepro.protocols.bittorrent.chokers import choker
from netrepro.protocols.bittorrent.client import Client
from netrepro.protocols.bittorrent.metainfo import BLOCK_BYTES, make_torrent, read_torrent
from netrepro.transport.bittorrent import BitTorrentPeer

HERE = "127.0.0.1"
CONTENT = Random(1).randbytes(64 * BLOCK_BYTES + 777)
TORRENT = make_torrent("file.bin", CONTENT, 4 * BLOCK_BYTES)


def client(number: int, *, torrent=TORRENT, kind: str = "propshare", **more) -> Client:
    random = Random(number)
    return Client(torrent, b"-NR0001-%012d" % number, choker(kind, random), choker("seed", random), random, **more)


async def until(holds, timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.05)


# With itself.


def test_two_leechers_get_the_file_from_a_seed_and_each_other():
    async def run() -> list[Client]:
        clients = [client(1, content=CONTENT), client(2), client(3, kind="bittorrent")]
        async with contextlib.AsyncExitStack() as stack:
            peers = []
            for each in clients:
                peers.append(await BitTorrentPeer.open(each, HERE))
                stack.push_async_callback(peers[-1].close)
            for peer in peers[1:]:
                await peer.connect(HERE, peers[0].port)
            await peers[2].connect(HERE, peers[1].port)
            for peer in peers:
                await peer.until_complete(30)
            assert [event.kind for _, event in peers[1].events].count("piece") == len(TORRENT.hashes)
        return clients

    assert all(each.content == CONTENT for each in asyncio.run(run()))


def test_the_upload_rate_binds():
    async def run() -> float:
        seed = await BitTorrentPeer.open(client(1, content=CONTENT, upload_bytes_per_s=1e6), HERE)
        leecher = await BitTorrentPeer.open(client(2), HERE)
        await leecher.connect(HERE, seed.port)
        await leecher.until_complete(30)
        times = [time_s for time_s, event in leecher.events if event.kind == "piece"]
        await leecher.close()
        await seed.close()
        return times[-1] - times[0]

    between = (len(TORRENT.hashes) - 1) * TORRENT.piece_bytes / 1e6
    assert asyncio.run(run()) > 0.8 * between  # a busy machine may only take longer


def test_what_speaks_another_protocol_is_disconnected():
    async def run() -> tuple[bytes, list]:
        peer = await BitTorrentPeer.open(client(1, content=CONTENT), HERE)
        reader, writer = await asyncio.open_connection(HERE, peer.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        events = [event.kind for _, event in peer.events]
        await peer.close()
        return answer, events

    answer, events = asyncio.run(run())
    assert answer[:20] in (b"", b"\x13BitTorrent protocol") and events == ["closed"]


def test_nobody_there_and_nothing_coming_are_said():
    async def run() -> None:
        peer = await BitTorrentPeer.open(client(1), HERE)
        try:
            with pytest.raises(NetreproError, match="0 of 17 pieces"):
                await peer.until_complete(0.05)
            with pytest.raises(NetreproError, match="listen"):
                await BitTorrentPeer.open(client(2), HERE, peer.port)
            other = await BitTorrentPeer.open(client(3), HERE)
            await other.close()
            with pytest.raises(NetreproError, match="no peer"):
                await peer.connect(HERE, other.port)
        finally:
            await peer.close()

    asyncio.run(run())


# With libtorrent.


@contextlib.contextmanager
def libtorrent_peer(
    folder: Path, torrent_file: bytes, *, content: bytes | None = None, address: str = HERE, **more
) -> Iterator:
    """A session of libtorrent on the loopback interface with one torrent: (session, handle). more : its settings."""
    libtorrent = pytest.importorskip("libtorrent")
    session = libtorrent.session(
        {
            "listen_interfaces": f"{address}:0",
            "outgoing_interfaces": address,
            "enable_dht": False,
            "enable_lsd": False,
            "enable_upnp": False,
            "enable_natpmp": False,
            "enable_outgoing_utp": False,
            "enable_incoming_utp": False,
            "allow_multiple_connections_per_ip": True,
            "in_enc_policy": int(libtorrent.enc_policy.pe_disabled),
            "out_enc_policy": int(libtorrent.enc_policy.pe_disabled),
            "unchoke_interval": 1,
        }
        | more
    )
    (folder / "file.torrent").write_bytes(torrent_file)
    if content is not None:
        (folder / "file.bin").write_bytes(content)
    wanted = libtorrent.add_torrent_params()
    wanted.ti = libtorrent.torrent_info(str(folder / "file.torrent"))
    wanted.save_path = str(folder)
    wanted.flags &= ~(libtorrent.torrent_flags.paused | libtorrent.torrent_flags.auto_managed)
    handle = session.add_torrent(wanted)
    try:
        yield session, handle
    finally:
        session.remove_torrent(handle)
        session.pause()


def test_libtorrent_reads_our_torrents_and_we_read_its(tmp_path):
    libtorrent = pytest.importorskip("libtorrent")
    (tmp_path / "file.torrent").write_bytes(TORRENT.file)
    assert libtorrent.torrent_info(str(tmp_path / "file.torrent")).info_hash().to_bytes() == TORRENT.info_hash
    (tmp_path / "file.bin").write_bytes(CONTENT)
    made = libtorrent.create_torrent(
        libtorrent.list_files(str(tmp_path / "file.bin")), TORRENT.piece_bytes, libtorrent.create_torrent.v1_only
    )
    libtorrent.set_piece_hashes(made, str(tmp_path))
    again = read_torrent(libtorrent.bencode(made.generate()))
    assert (again.hashes, again.size_bytes, again.name) == (TORRENT.hashes, TORRENT.size_bytes, "file.bin")


@pytest.mark.parametrize("we_connect", [True, False])
def test_we_download_from_libtorrent(tmp_path, we_connect):
    async def run() -> bytes:
        with libtorrent_peer(tmp_path, TORRENT.file, content=CONTENT) as (session, handle):
            await until(lambda: handle.status().is_seeding)
            peer = await BitTorrentPeer.open(client(1), HERE)
            if we_connect:
                await peer.connect(HERE, session.listen_port())
            else:
                handle.connect_peer((HERE, peer.port))
            try:
                await peer.until_complete(40)
            finally:
                await peer.close()
            return peer.client.content

    assert asyncio.run(run()) == CONTENT


def test_libtorrent_downloads_from_us(tmp_path):
    async def run() -> None:
        peer = await BitTorrentPeer.open(client(1, content=CONTENT), HERE)
        try:
            with libtorrent_peer(tmp_path, TORRENT.file) as (session, handle):
                await until(lambda: session.listen_port() and handle.is_valid())
                handle.connect_peer((HERE, peer.port))
                await until(lambda: handle.status().is_seeding, 40)
        finally:
            await peer.close()

    asyncio.run(run())
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_we_exchange_pieces_with_libtorrent_when_each_has_a_part(tmp_path):
    """Ours begins with the first half and libtorrent with the second: both must give to become complete."""
    half = len(TORRENT.hashes) // 2 * TORRENT.piece_bytes

    async def run() -> Client:
        ours = client(1)
        ours.picker.have = [piece < len(TORRENT.hashes) // 2 for piece in range(len(TORRENT.hashes))]
        ours._content[:half] = CONTENT[:half]
        with libtorrent_peer(tmp_path, TORRENT.file, content=bytes(half) + CONTENT[half:]) as (session, handle):
            await until(lambda: handle.status().state.name in ("downloading", "finished"))
            peer = await BitTorrentPeer.open(ours, HERE)
            try:
                await peer.connect(HERE, session.listen_port())
                await until(lambda: ours.is_complete and handle.status().is_seeding, 60)
            finally:
                await peer.close()
        return ours

    assert asyncio.run(run()).content == CONTENT
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


# libtorrent as a PropShare client: a class of peers for each, whose upload limit is the peer's share.

GIVES = {"127.0.0.2": 40_000, "127.0.0.3": 80_000, "127.0.0.4": 160_000}  # bytes/s to it
UPLOAD = 240_000
ROUND_S, EQUAL_ROUNDS, ROUNDS = 2.0, 3, 12
QUARTER = 4 * 2**20


def parts(number: int, content: bytes) -> bytes:
    """One quarter of it, zeros else."""
    return bytes(number * QUARTER) + content[number * QUARTER :][:QUARTER] + bytes((3 - number) * QUARTER)


def of_classes(libtorrent, session) -> dict[str, int]:
    """A class of peers for every address of GIVES; on loopback libtorrent limits none without being told."""
    classes, by_address = {each: session.create_peer_class(each) for each in GIVES}, libtorrent.ip_filter()
    by_address.add_rule("0.0.0.0", "255.255.255.255", 0)
    for each, number in classes.items():
        by_address.add_rule(each, each, 1 << number)
    session.set_peer_class_filter(by_address)
    return classes


def limit(session, number: int, bytes_per_s: float) -> None:
    of_class = session.get_peer_class(number)
    of_class["upload_limit"] = max(1, round(bytes_per_s))  # 0 would be no limit
    session.set_peer_class(number, of_class)


def test_libtorrent_gives_proportional_shares_by_classes_of_peers_and_equal_ones_without(tmp_path):
    """Three leechers give it different rates, and each lacks its quarter of the file."""
    libtorrent = pytest.importorskip("libtorrent")
    content = Random(2).randbytes(4 * QUARTER)
    torrent = make_torrent("file.bin", content, 4 * BLOCK_BYTES)
    everybody = libtorrent.ip_filter()
    everybody.add_rule("0.0.0.0", "255.255.255.255", 1 << libtorrent.session.global_peer_class_id)

    async def run() -> list[dict[str, tuple[int, int]]]:
        with contextlib.ExitStack() as stack:

            def peer(number: int, address: str, **more):
                (folder := tmp_path / address).mkdir()
                own = {"content": parts(number, content), "address": address, "unchoke_slots_limit": -1}
                return stack.enter_context(libtorrent_peer(folder, torrent.file, **own, **more))

            session, handle = peer(0, HERE)
            classes = of_classes(libtorrent, session)
            others = []
            for number, (address, rate) in enumerate(GIVES.items(), 1):
                others.append(peer(number, address, upload_rate_limit=rate))
                others[-1][0].set_peer_class_filter(everybody)
            every = [handle, *(other for _, other in others)]
            await until(lambda: all(each.status().state.name == "downloading" for each in every))
            for address, (other, _) in zip(GIVES, others, strict=True):
                handle.connect_peer((address, other.listen_port()))
            ours, totals = choker("propshare", Random(1), round_s=ROUND_S), [dict.fromkeys(GIVES, (0, 0))]
            for round_ in range(ROUNDS):
                seen = {each.ip[0]: (each.total_download, each.total_upload) for each in handle.get_peer_info()}
                totals.append(totals[-1] | seen)
                received = {address: float(got) for address, (got, _) in totals[-1].items()}
                weights = ours.decide(ROUND_S * round_, list(GIVES), received)
                shares = weights if round_ >= EQUAL_ROUNDS else dict.fromkeys(GIVES, 1 / len(GIVES))
                for address, number in classes.items():
                    limit(session, number, UPLOAD * shares.get(address, 0.0))
                await asyncio.sleep(ROUND_S)
            assert len(seen) == len(GIVES), "a leecher went away"
            return totals

    totals = asyncio.run(run())

    def shares(first: int, last: int, place: int) -> list[float]:
        moved = [totals[last][address][place] - totals[first][address][place] for address in GIVES]
        return [each / sum(moved) for each in moved]

    # What it sends in a round is by what came in the round before.
    settled = EQUAL_ROUNDS + 2
    assert shares(settled, ROUNDS, 1) == pytest.approx(shares(settled - 1, ROUNDS - 1, 0), rel=0.2)
    assert shares(1, settled - 1, 1) != pytest.approx(shares(1, settled - 1, 0), rel=0.2)
