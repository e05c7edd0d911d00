"""Starts an IPython kernel at a host in virtual time and is its client: jupyter_guest.py DESCRIPTOR (of a socket).

Each line that it reads is a request of the Jupyter protocol, {"msg_type": ..., "content": ...}. Lines that it writes
begin with M for a message of the IOPub channel (output, status) and with R for the reply, the last line of a request.
The IPython kernel is an ordinary one. Its sockets are files inside the virtual kernel, which no process outside can
connect to. SIGINT interrupts the running cell.
"""

from __future__ import annotations

import json
import queue
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.session import json_default

STARTS_WITHIN_S, LOOKS_EVERY_S = 20.0, 5.0  # virtual time, in which computing takes none


class Client(BlockingKernelClient):
    """A client of a Jupyter kernel that is a child process."""

    process: subprocess.Popen

    def is_alive(self) -> bool:
        return self.process.poll() is None

    async def _async_is_alive(self) -> bool:
        return self.is_alive()


def main(descriptor: str) -> int:
    channel = socket.socket(fileno=int(descriptor))
    channel.set_inheritable(False)
    with tempfile.TemporaryDirectory() as folder:
        client = Client(connection_file=str(Path(folder, "kernel.json")), transport="ipc")
        client.write_connection_file()
        client.start_channels(hb=False)
        client.process = subprocess.Popen([sys.executable, "-m", "ipykernel_launcher", "-f", client.connection_file])
        signal.signal(signal.SIGINT, lambda *_: client.process.send_signal(signal.SIGINT))
        try:
            client.wait_for_ready(STARTS_WITHIN_S)
            with channel.makefile("rb") as lines:
                for line in lines:
                    answer(client, json.loads(line), channel)
        except (ChildProcessError, RuntimeError):
            if client.is_alive():
                raise
            return client.process.returncode
        finally:
            client.process.kill()
            client.stop_channels()
    return 0


def answer(client: Client, asked: dict[str, Any], channel: socket.socket) -> None:
    """Send a request to the kernel and write its messages and its reply to the channel.

    Raises ChildProcessError where the kernel ends before the reply.
    """

    def say(kind: bytes, message: dict[str, Any]) -> None:
        spoken = {name: part for name, part in message.items() if name != "buffers"}
        channel.sendall(kind + json.dumps(spoken, default=json_default).encode() + b"\n")

    def next_from(receive: Any) -> dict[str, Any]:
        while True:
            try:
                message = receive(timeout=LOOKS_EVERY_S)
            except queue.Empty:
                if not client.is_alive():
                    raise ChildProcessError from None
                continue
            if message["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                return message

    request = client.session.msg(asked["msg_type"], asked["content"])
    client.shell_channel.send(request)
    idle = False
    while not idle:
        message = next_from(client.get_iopub_msg)
        say(b"M", message)
        idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
    say(b"R", next_from(client.get_shell_msg))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
