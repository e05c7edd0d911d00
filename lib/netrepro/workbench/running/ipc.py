"""Kernels reached over Unix sockets (IPC), so that runs use no ports and never compete for one."""

from __future__ import annotations

import asyncio
import math
import os
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.paths import jupyter_runtime_dir
from traitlets import Type, default

KERNEL_PID_FILE = "NETREPRO_KERNEL_PID_FILE"
LOOK_EVERY_S = 0.5


class WatchfulChannel(AsyncZMQSocketChannel):
    """A channel that also polls for messages, and does not only wait to be notified of them.

    A ZMQ socket notifies once of an incoming message, and a send at that moment clears the notification. nbclient sends
    when a cell has drawn a widget, just as the cell's reply arrives: now and then a notebook waited until its time-out.
    """

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]  # as its parent
        now = asyncio.get_running_loop().time
        ends = math.inf if timeout is None else now() + timeout
        while True:
            left = ends - now()
            try:
                return await super().get_msg(min(max(left, 0.0), LOOK_EVERY_S))
            except Empty:
                if left <= LOOK_EVERY_S:
                    raise


class WatchfulClient(AsyncKernelClient):
    """A client that misses no reply."""

    shell_channel_class = Type(WatchfulChannel)


class IPCKernelManager(AsyncKernelManager):
    """A kernel manager that uses IPC and writes the kernel's process id to a file: no kernel survives its run."""

    @default("client_factory")
    def _watchful(self) -> type:
        return WatchfulClient

    @default("transport")
    def _ipc(self) -> str:
        return "ipc"

    @default("connection_file")
    def _absolute_connection_file(self) -> str:
        # By default jupyter_client names the sockets relative to the working directory, which the
        # kernel does not share.
        return str(Path(jupyter_runtime_dir()) / f"{uuid.uuid4().hex[:12]}.json")

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options) -> None:
        await super()._async_launch_kernel(kernel_cmd, **options)
        note = os.environ.get(KERNEL_PID_FILE)
        if note and self.provisioner is not None:
            Path(note).write_text(str(getattr(self.provisioner, "pid", "")))

    _launch_kernel = _async_launch_kernel
