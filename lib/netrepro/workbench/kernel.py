"""Kernels reached over Unix sockets (IPC): no port is taken, no two runs race for one."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from jupyter_client.manager import AsyncKernelManager
from jupyter_core.paths import jupyter_runtime_dir
from traitlets import default

KERNEL_PID_FILE = "NETREPRO_KERNEL_PID_FILE"


class IPCKernelManager(AsyncKernelManager):
    """A kernel manager that speaks IPC and notes the kernel's process, so that nothing survives its run."""

    @default("transport")
    def _ipc(self) -> str:
        return "ipc"

    @default("connection_file")
    def _absolute_connection_file(self) -> str:
        # Left to itself jupyter_client names the sockets relative to the working directory, which the
        # kernel does not share.
        return str(Path(jupyter_runtime_dir()) / f"{uuid.uuid4().hex[:12]}.json")

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options) -> None:
        await super()._async_launch_kernel(kernel_cmd, **options)
        note = os.environ.get(KERNEL_PID_FILE)
        if note and self.provisioner is not None:
            Path(note).write_text(str(getattr(self.provisioner, "pid", "")))

    _launch_kernel = _async_launch_kernel
