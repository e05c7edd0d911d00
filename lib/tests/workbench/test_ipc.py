"""The connection to a kernel."""

from __future__ import annotations

import asyncio
import time
from queue import Empty

import pytest
import zmq
import zmq.asyncio
from jupyter_client.session import Session

from netrepro.workbench.running.ipc import IPCKernelManager, WatchfulChannel


def test_a_reply_that_comes_while_something_is_sent_is_not_missed(tmp_path):
    """A widget at the end of a cell is such a case: sending takes away the socket's only sign of the reply."""

    async def exchange() -> dict:
        session, address = Session(key=b""), f"ipc://{tmp_path}/shell"
        with (
            zmq.Context() as plain,
            zmq.asyncio.Context() as context,
            plain.socket(zmq.DEALER) as kernel,
            context.socket(zmq.DEALER) as ours,
        ):
            kernel.bind(address)
            ours.connect(address)
            channel = WatchfulChannel(ours, session)
            channel.send(session.msg("kernel_info_request"))
            kernel.recv_multipart()
            waiting = asyncio.create_task(channel.get_msg(timeout=600))
            await asyncio.sleep(0.2)
            session.send(kernel, "execute_reply")
            time.sleep(0.2)  # the loop stands still, so that nobody is told of it
            channel.send(session.msg("comm_msg"))
            return await asyncio.wait_for(waiting, 60)

    assert asyncio.run(exchange())["header"]["msg_type"] == "execute_reply"


def test_a_channel_without_a_message_gives_up_in_time(tmp_path):
    async def ask() -> None:
        with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.bind(f"ipc://{tmp_path}/shell")
            await asyncio.wait_for(WatchfulChannel(socket, Session(key=b"")).get_msg(timeout=0.7), 60)

    with pytest.raises(Empty):
        asyncio.run(ask())


def test_notebooks_are_run_over_such_a_channel():
    client = IPCKernelManager().client()
    assert client.shell_channel_class is WatchfulChannel
