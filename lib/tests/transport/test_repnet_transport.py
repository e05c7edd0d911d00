"""RepNet's asyncio streams on real sockets: replicated and plain peers, lost and slow connections, taken ports."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import socket
import struct
import warnings
from collections.abc import Awaitable, Callable

import pytest

from netrepro.errors import NetreproError
from netrepro.transport import State, open_connection, start_server

HOST = "127.0.0.1"
MODES = ("repflow", "repsyn")


def run(test: Callable[[], Awaitable]) -> None:
    """Run a test in a loop of its own; fail on what asyncio would only log, and on sockets left open."""
    complaints = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await asyncio.wait_for(test(), 20)
        for _ in range(5):  # what is closed is gone some turns of the loop later
            await asyncio.sleep(0)
        gc.collect()

    gc.collect()  # what others have left
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(watched())
        gc.collect()
    assert complaints == []
    assert [str(each.message) for each in left] == []


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop a few milliseconds at a time until something holds; wait_for above ends it otherwise."""
    while not condition():
        await asyncio.sleep(0.002)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what came, once it has ended."""
    try:
        writer.write(await reader.read())
        writer.write_eof()
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()


class Collector:
    """A server's callback that keeps every stream it is given."""

    def __init__(self, first_words: bytes = b""):
        self.streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.first_words = first_words

    def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.streams.append((reader, writer))
        if self.first_words:
            writer.write(self.first_words)

    @property
    def states(self) -> list[State]:
        return [writer.transport.state for _, writer in self.streams]

    def close(self) -> None:
        for _, writer in self.streams:
            writer.close()


@contextlib.asynccontextmanager
async def serving(served: Collector, **options):
    """A server whose streams are closed at the end."""
    async with await start_server(served, HOST, **options) as server:
        try:
            yield server
        finally:
            served.close()


def plain_pair(port: int) -> list[socket.socket]:
    """Two ordinary sockets with one source port, for a client that is taken apart by hand."""
    found = [socket.socket() for _ in range(2)]
    found[0].bind((HOST, 0))
    for one in found:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.settimeout(5)
    found[1].bind(found[0].getsockname())
    return found


@contextlib.asynccontextmanager
async def first_connection(served, **options):
    """(server, two plain sockets with one source port), the first of which is connected."""
    async with serving(served, **options) as server:
        pair = plain_pair(server.port)
        pair[0].connect((HOST, server.port))
        yield server, pair


def reset(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


async def receive(one: socket.socket, count: int) -> bytes:
    """Exactly that many bytes from an ordinary socket."""
    one.setblocking(False)
    got = b""
    while len(got) < count:
        got += await asyncio.get_running_loop().sock_recv(one, count - len(got)) or b"EOF"
    return got


async def exchange(port: int, data: bytes, mode: str = "repflow", **options) -> bytes:
    reader, writer = await open_connection(HOST, port, mode=mode, **options)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


# Replicated at both ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [0, 1, 1000, 100_000, 100_001, 3_000_000])
def test_what_is_sent_comes_back_whole(mode, size):
    async def test():
        data = bytes(range(251)) * (size // 251 + 1)
        async with await start_server(echo, HOST) as server:
            assert await exchange(server.port, data[:size], mode) == data[:size]

    run(test)


@pytest.mark.parametrize("mode", MODES)
def test_both_ends_can_send_much_at_once(mode):
    async def test():
        sizes = []

        async def serve(reader, writer):
            async def pour():
                for _ in range(64):
                    writer.write(bytes(50_000))
                    await writer.drain()
                writer.write_eof()

            pouring = asyncio.ensure_future(pour())
            sizes.append(len(await reader.read()))
            await pouring
            writer.close()

        async with await start_server(serve, HOST) as server:
            reader, writer = await open_connection(HOST, server.port, mode=mode)
            reading = asyncio.ensure_future(reader.read())
            for _ in range(64):
                writer.write(bytes(50_000))
                await writer.drain()
            writer.write_eof()
            assert len(await reading) == 3_200_000
            writer.close()
            await until(lambda: sizes == [3_200_000])

    run(test)


def test_repflow_reaches_dup_conn_at_both_ends_and_one_stream_is_one_callback():
    async def test():
        served = Collector()
        async with serving(served) as server:
            _, writer = await open_connection(HOST, server.port)
            await until(lambda: served.states == [State.DUP_CONN])
            assert writer.transport.state is State.DUP_CONN and server.waiting == 0
            writer.close()
            await until(lambda: served.streams[0][0].at_eof())

    run(test)


def test_repsyn_takes_the_server_to_chosen():
    async def test():
        served = Collector()
        async with serving(served, waiting_s=5) as server:
            _, writer = await open_connection(HOST, server.port, mode="repsyn")
            assert writer.transport.state is State.CHOSEN
            await until(lambda: served.states == [State.CHOSEN])  # by the client's reset: nobody waits 5 s here
            writer.write(b"still here")
            assert await served.streams[0][0].readexactly(10) == b"still here"
            writer.close()

    run(test)


def test_beyond_the_threshold_one_connection_is_left_at_both_ends():
    async def test():
        served = Collector()
        async with serving(served, threshold_bytes=1000) as server:
            reader, writer = await open_connection(HOST, server.port, threshold_bytes=1000)
            await until(lambda: served.states == [State.DUP_CONN])
            writer.write(bytes(1001))
            assert writer.transport.state is State.CHOSEN
            await until(lambda: served.states == [State.CHOSEN])
            assert await served.streams[0][0].readexactly(1001) == bytes(1001)
            served.streams[0][1].write(b"answer")
            assert await reader.readexactly(6) == b"answer"
            writer.close()

    run(test)


def test_a_client_may_half_close_and_still_receive():
    async def test():
        served = Collector()
        async with serving(served) as server:
            reader, writer = await open_connection(HOST, server.port)
            writer.write(b"question")
            writer.write_eof()
            with pytest.raises(RuntimeError):
                writer.write(b"more")
            await until(lambda: bool(served.streams))
            assert await served.streams[0][0].read() == b"question"
            served.streams[0][1].write(b"answer")
            served.streams[0][1].close()
            assert await reader.read() == b"answer"
            writer.close()

    run(test)


def test_many_clients_at_once_are_told_apart_by_their_ports():
    async def test():
        async with await start_server(echo, HOST) as server:
            questions = [str(i).encode() * 50 for i in range(60)]
            answers = await asyncio.gather(*(exchange(server.port, q, MODES[i % 2]) for i, q in enumerate(questions)))
            assert answers == questions
            await until(lambda: server.waiting == 0)

    run(test)


# Plain peers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("size", [10, 500_000])
def test_a_plain_client_of_either_port_is_served(offset, size):
    async def test():
        async with await start_server(echo, HOST, waiting_s=0.02) as server:
            reader, writer = await asyncio.open_connection(HOST, server.port + offset)
            writer.write(bytes(size))
            writer.write_eof()
            assert await reader.read() == bytes(size)
            writer.close()

    run(test)


def test_a_plain_client_is_known_as_such_when_the_waiting_time_is_over():
    async def test():
        served = Collector()
        async with serving(served, waiting_s=0.02) as server:
            _, writer = await asyncio.open_connection(HOST, server.port)
            await until(lambda: served.states == [State.ONE_CONN])
            assert server.waiting == 1
            await until(lambda: served.states == [State.CHOSEN])
            assert server.waiting == 0
            writer.close()

    run(test)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("offset", [0, 1])
def test_a_client_reaches_a_plain_server_at_either_port(mode, offset):
    async def test():
        plain = await asyncio.start_server(echo, HOST, 0)
        port = plain.sockets[0].getsockname()[1] - offset
        assert await exchange(port, b"hello", mode) == b"hello"
        plain.close()

    run(test)


def test_a_client_without_any_server_is_refused_as_by_asyncio():
    async def test():
        with socket.socket() as taken:
            taken.bind((HOST, 0))  # bound, not listening
            with pytest.raises(ConnectionRefusedError):
                await open_connection(HOST, taken.getsockname()[1])

    run(test)


# Connections that fail or come late ----------------------------------------------------------------


@pytest.mark.parametrize("lost", [0, 1])
def test_a_server_survives_the_reset_of_either_connection_in_dup_conn(lost):
    async def test():
        served = Collector()
        async with serving(served) as server:
            pair = plain_pair(server.port)
            for number, one in enumerate(pair):
                one.connect((HOST, server.port + number))
            await until(lambda: served.states == [State.DUP_CONN])
            reset(pair[lost])
            await until(lambda: served.states == [State.CHOSEN])
            served.streams[0][1].write(b"on")
            assert await receive(pair[1 - lost], 2) == b"on"
            pair[1 - lost].close()

    run(test)


@pytest.mark.parametrize("first", [0, 1])
def test_a_slow_second_syn_gets_what_was_written_before(first):
    async def test():
        served = Collector(b"greeting")
        async with serving(served) as server:
            pair = plain_pair(server.port)
            pair[first].connect((HOST, server.port + first))
            await until(lambda: served.states == [State.ONE_CONN])
            await asyncio.sleep(0.02)
            pair[1 - first].connect((HOST, server.port + 1 - first))
            await until(lambda: served.states == [State.DUP_CONN])
            assert await receive(pair[1 - first], 8) == await receive(pair[first], 8) == b"greeting"
            assert len(served.streams) == 1
            for one in pair:
                one.close()

    run(test)


def test_a_server_survives_the_reset_of_its_only_connection_while_it_waits():
    async def test():
        served = Collector(b"greeting")
        async with first_connection(served, waiting_s=5) as (server, pair):
            await until(lambda: served.states == [State.ONE_CONN])
            reset(pair[0])
            await asyncio.sleep(0.01)
            served.streams[0][1].write(b"!")
            pair[1].connect((HOST, server.port + 1))
            assert await receive(pair[1], 9) == b"greeting!"
            assert served.states == [State.CHOSEN] and len(served.streams) == 1
            pair[1].close()

    run(test)


def test_a_server_whose_only_connection_is_reset_tells_the_application_when_no_other_comes():
    async def test():
        served = Collector()
        async with first_connection(served, waiting_s=0.02) as (_, pair):
            await until(lambda: bool(served.streams))
            reset(pair[0])
            with pytest.raises(ConnectionResetError):
                await served.streams[0][0].read()
            assert served.states == [State.ENDED]
            pair[1].close()

    run(test)


def test_a_second_syn_after_the_waiting_time_is_no_new_stream():
    async def test():
        served = Collector()
        async with first_connection(served, waiting_s=0.01) as (server, pair):
            await until(lambda: served.states == [State.CHOSEN])
            pair[1].connect((HOST, server.port + 1))
            pair[1].setblocking(False)
            with pytest.raises(ConnectionResetError):
                await asyncio.get_running_loop().sock_recv(pair[1], 1)
            pair[0].sendall(b"fine")
            assert await served.streams[0][0].readexactly(4) == b"fine"
            assert len(served.streams) == 1
            for one in pair:
                one.close()

    run(test)


def test_a_server_that_has_written_much_is_chosen_and_still_serves_the_other_connection_if_the_client_wants_it():
    async def test():
        served = Collector(bytes(5000))
        async with first_connection(served, threshold_bytes=1000) as (server, pair):
            await until(lambda: served.states == [State.CHOSEN])
            assert server.waiting == 1
            pair[1].connect((HOST, server.port + 1))
            await until(lambda: server.waiting == 0)
            reset(pair[0])
            assert await receive(pair[1], 5000) == bytes(5000)
            pair[1].close()

    run(test)


async def two_plain_listeners() -> tuple[list[socket.socket], int]:
    """Ordinary listeners at p and p + 1, whose connections a test takes apart."""
    while True:
        found = [socket.socket() for _ in range(2)]
        found[0].bind((HOST, 0))
        port = found[0].getsockname()[1]
        try:
            found[1].bind((HOST, port + 1))
        except (OSError, OverflowError):
            continue
        for one in found:
            one.listen(8)
            one.setblocking(False)
        return found, port


async def accept_both(listeners: list[socket.socket]) -> list[socket.socket]:
    return [(await asyncio.get_running_loop().sock_accept(one))[0] for one in listeners]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_client_survives_the_reset_of_either_connection(lost):
    async def test():
        listeners, port = await two_plain_listeners()
        reader, writer = await open_connection(HOST, port)
        accepted = await accept_both(listeners)
        writer.write(b"one ")
        reset(accepted[lost])
        await until(lambda: writer.transport.state is State.CHOSEN)
        writer.write(b"two")
        assert await receive(accepted[1 - lost], 7) == b"one two"
        accepted[1 - lost].sendall(b"thanks")
        assert await reader.readexactly(6) == b"thanks"
        writer.close()
        for one in (*listeners, *accepted):
            one.close()

    run(test)


def test_a_client_whose_two_connections_are_reset_gets_the_error():
    async def test():
        listeners, port = await two_plain_listeners()
        reader, writer = await open_connection(HOST, port)
        accepted = await accept_both(listeners)
        for one in accepted:
            reset(one)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert writer.transport.state is State.ENDED
        for one in listeners:
            one.close()

    run(test)


def test_both_connections_of_a_client_come_from_one_port():
    async def test():
        listeners, port = await two_plain_listeners()
        _, writer = await open_connection(HOST, port)
        accepted = await accept_both(listeners)
        assert accepted[0].getpeername() == accepted[1].getpeername() == writer.get_extra_info("sockname")
        writer.close()
        for one in (*listeners, *accepted):
            one.close()

    run(test)


def test_a_client_reads_on_from_the_other_connection_where_one_stopped():
    async def test():
        listeners, port = await two_plain_listeners()
        reader, writer = await open_connection(HOST, port)
        accepted = await accept_both(listeners)
        accepted[1].sendall(b"abc")
        assert await reader.readexactly(3) == b"abc"
        reset(accepted[1])
        accepted[0].sendall(b"abcdef")
        assert await reader.readexactly(3) == b"def"
        writer.close()
        for one in (*listeners, *accepted):
            one.close()

    run(test)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stuck", [0, 1])
def test_a_client_works_over_one_connection_while_the_other_never_opens(mode, stuck):
    """A listener whose backlog is full drops SYNs, as a congested path does."""

    async def test():
        listeners, port = await two_plain_listeners()
        listeners[stuck].listen(0)
        filler = socket.create_connection((HOST, port + stuck))
        reader, writer = await open_connection(HOST, port, mode=mode)
        accepted, _ = await asyncio.get_running_loop().sock_accept(listeners[1 - stuck])
        expected = State.DUP_CONN if mode == "repflow" else State.CHOSEN
        assert writer.transport.state is expected
        writer.write(b"hello")
        assert await receive(accepted, 5) == b"hello"
        accepted.sendall(b"bye")
        accepted.close()
        assert await reader.read() == b"bye"
        writer.close()
        await writer.wait_closed()
        assert writer.transport.state is State.ENDED
        for one in (*listeners, filler):
            one.close()

    run(test)


def test_a_reset_while_much_is_on_its_way_loses_nothing():
    async def test():
        listeners, port = await two_plain_listeners()
        _, writer = await open_connection(HOST, port, threshold_bytes=10_000_000)
        accepted = await accept_both(listeners)
        data = bytes(range(256)) * 8000
        writer.write(data)
        await receive(accepted[0], 100_000)
        reset(accepted[0])
        assert await receive(accepted[1], len(data)) == data
        writer.close()
        for one in (*listeners, accepted[1]):
            one.close()

    run(test)


# Servers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1])
def test_a_server_takes_both_ports_or_none(offset):
    async def test():
        listeners, port = await two_plain_listeners()
        listeners[1 - offset].close()
        with pytest.raises(OSError, match=f"port {port + offset}") as raised:
            await start_server(echo, HOST, port)
        assert raised.value.errno == errno.EADDRINUSE
        free = socket.socket()
        free.bind((HOST, port + 1 - offset))
        free.close()
        listeners[offset].close()

    run(test)


def test_a_closed_server_frees_its_ports_and_leaves_open_streams_alone():
    async def test():
        served = Collector()
        server = await start_server(served, HOST)
        _, writer = await open_connection(HOST, server.port)
        await until(lambda: served.states == [State.DUP_CONN])
        port = server.port
        server.close()
        again = await start_server(served, HOST, port, reuse_address=True)
        assert again.is_serving() and not server.is_serving()
        writer.write(b"still here")
        assert await served.streams[0][0].readexactly(10) == b"still here"
        writer.close()
        again.close()
        served.close()

    run(test)


def test_a_slow_reader_makes_the_writer_wait_and_then_gets_everything():
    async def test():
        served = Collector()
        async with serving(served, limit=1000) as server:
            _, writer = await open_connection(HOST, server.port)
            writer.transport.set_write_buffer_limits(high=10_000)
            writer.write(bytes(20_000_000))
            drained = asyncio.ensure_future(writer.drain())
            await asyncio.sleep(0.02)
            assert not drained.done()
            assert await served.streams[0][0].readexactly(20_000_000) == bytes(20_000_000)
            await drained
            writer.close()

    run(test)


def test_a_port_used_by_one_stream_after_another_makes_two_streams():
    async def test():
        served = Collector()
        async with serving(served, waiting_s=5) as server:
            first = socket.socket()
            first.connect((HOST, server.port))
            address = first.getsockname()
            await until(lambda: len(served.streams) == 1)
            reset(first)
            again = socket.socket()
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(address)
            again.connect((HOST, server.port))
            await until(lambda: len(served.streams) == 2)
            assert served.states == [State.ENDED, State.ONE_CONN] and server.waiting == 1
            again.close()

    run(test)


def test_what_cannot_be_is_refused_before_anything_is_opened():
    async def test():
        for wrong in ({"mode": "repsin"}, {"ssl": True}, {"threshold_bytes": -1}):
            with pytest.raises(NetreproError):
                await open_connection(HOST, 5000, **wrong)
        for port in (65535, 0, "http"):
            with pytest.raises(NetreproError, match="port"):
                await open_connection(HOST, port)
        for wrong in ({"port": 65535}, {"ssl": True}, {"waiting_s": 0}):
            with pytest.raises(NetreproError):
                await start_server(echo, HOST, **wrong)

    run(test)


def test_ipv6_and_host_names_work_too():
    async def test():
        async with await start_server(echo, "localhost") as server:
            reader, writer = await open_connection("localhost", server.port)
            writer.write(b"hello")
            writer.write_eof()
            assert await reader.read() == b"hello"
            writer.close()

    run(test)
