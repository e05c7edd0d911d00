"""Kernels reached over Unix sockets (IPC), so that runs use no ports and never compete for one."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import uuid
from pathlib import Path
from queue import Empty
from typing import Any, ClassVar

from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner
from jupyter_core.paths import jupyter_runtime_dir
from traitlets import Type, default

from netrepro.workbench.running.forks import ForkedKernel
from netrepro.workbench.running.used_time import started_at

KERNEL_PID_FILE = "NETREPRO_KERNEL_PID_FILE"
LOOK_EVERY_S = 0.5
OF_OURS = [sys.executable, "-m", "ipykernel_launcher"]


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
    """A kernel manager that uses IPC and writes the kernel's process id to a file: no kernel survives its run.

    prepared : a process for the first kernel, where there is one.
    """

    prepared: ClassVar[ForkedKernel | None] = None

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
        kernel = self.prepared
        if kernel is not None and kernel_cmd[:3] == OF_OURS and isinstance(self.provisioner, LocalProvisioner):
            type(self).prepared = None
            # A kernel looks whether its parent is still there; it has read its environment before it was forked.
            watched = f"--IPKernelApp.parent_handle={os.getpid()}"
            kernel.begin([*kernel_cmd[2:], watched], options["env"], options["cwd"])
            self.provisioner.process = kernel  # type: ignore[assignment]  # it answers as a Popen does
            self.provisioner.pid = self.provisioner.pgid = kernel.pid
            self.provisioner.cwd = options["cwd"]
            self._reconcile_connection_info(self.provisioner.connection_info)
        else:
            await super()._async_launch_kernel(kernel_cmd, **options)
        note = os.environ.get(KERNEL_PID_FILE)
        if note and self.provisioner is not None:
            pid = getattr(self.provisioner, "pid", 0)
            Path(note).write_text(f"{pid} {started_at(pid)}")

    _launch_kernel = _async_launch_kernel
