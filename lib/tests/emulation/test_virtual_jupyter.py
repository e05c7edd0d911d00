"""A Jupyter kernel at a host in virtual time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.virtual.jupyter import VirtualJupyterKernel
from netrepro.errors import NetreproError
from netrepro.networks.links import Link
from netrepro.networks.topology import star

pytestmark = needs_virtual
SERVE = """
import socket, threading
listener = socket.create_server(("", 5000))
def serve():
    while True:
        connection, _ = listener.accept()
        connection.sendall(b"hello")
        connection.close()
threading.Thread(target=serve, daemon=True).start()
"""
ASK = """
import socket, time
begun = time.monotonic()
with socket.create_connection(("10.0.0.2", 5000)) as connection:
    took_s = time.monotonic() - begun
    print("asking")
    said = connection.recv(100)
took_s, said
"""


def run(kernel: VirtualJupyterKernel, code: str, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    reply = kernel.execute_interactive(code, output_hook=told.append, **more)
    return reply["content"], [message["content"] | {"kind": message["msg_type"]} for message in told]


def test_cells_of_two_hosts_talk_and_time_passes_while_they_run_alone():
    """A connection over two links of 5 ms takes 20 ms, and the bits of a SYN and its answer on both."""
    with (
        Emulation(star(2, Link(10.0, 5.0)), tier="virtual") as net,
        net["h1"].jupyter_kernel() as here,
        net["h2"].jupyter_kernel() as there,
    ):
        assert run(there, SERVE) == ({"status": "ok", "execution_count": 1, "user_expressions": {}, "payload": []}, [])
        reply, told = run(here, ASK)  # the thread at h2 goes on meanwhile
        assert reply["status"] == "ok"
        assert told[0]["kind"], told[0]["text"] == ("stream", "asking\n")
        took_s, said = eval(told[1]["data"]["text/plain"])
        assert took_s == pytest.approx(0.0202, abs=0.0002) and said == b"hello"

        before_s = net.now_s
        time.sleep(0.3)
        assert net.now_s - before_s < 1e-6
        reply, told = run(here, "import asyncio\nawait asyncio.sleep(30)\nprint(took_s)\n1 / 0")
        assert (reply["status"], reply["ename"]) == ("error", "ZeroDivisionError")
        assert [each["kind"] for each in told] == ["stream", "error"] and float(told[0]["text"]) == took_s
        assert net.now_s - before_s == pytest.approx(30, abs=0.1)


def test_a_cell_that_takes_too_long_is_interrupted_and_a_kernel_that_ends_is_named():
    with Emulation(star(2, Link(10.0, 5.0)), tier="virtual") as net, net["h1"].jupyter_kernel() as kernel:
        run(kernel, "import os, time\nkept = 5")
        before_s = net.now_s
        with pytest.raises(TimeoutError, match="after 5 s of virtual time"):
            run(kernel, "time.sleep(1000)", timeout=5.0)
        assert 5 <= net.now_s - before_s < 6
        reply, told = run(kernel, "kept")
        assert reply["status"] == "ok" and told[0]["data"]["text/plain"] == "5"
        found = kernel.request("complete_request", {"code": "time.mono", "cursor_pos": 9})
        assert "monotonic" in str(found["content"]["matches"])
        with pytest.raises(NetreproError, match="the Jupyter kernel on h1 ended with status 7"):
            run(kernel, "os._exit(7)")
        with pytest.raises(NetreproError, match="ended"):
            run(kernel, "1")


def test_a_kernel_that_cannot_start_says_why(tmp_path, monkeypatch):
    (tmp_path / "ipykernel_launcher.py").write_text("raise SystemExit('no kernel today')")
    with Emulation(star(2, Link(10.0, 5.0)), tier="virtual") as net:
        monkeypatch.setattr("netrepro.emulation.virtual.jupyter.ENVIRONMENT", {"PYTHONPATH": str(tmp_path)})
        with pytest.raises(NetreproError, match=r"on h1 ended with status 1, and said: no kernel today"):
            net["h1"].jupyter_kernel()


def test_an_interrupt_ends_the_network_and_the_next_order_says_so():
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with Emulation(star(2, Link(10.0, 5.0)), tier="virtual") as net:
        with pytest.raises(KeyboardInterrupt), net["h1"].jupyter_kernel() as kernel:
            kernel.execute_interactive("print(1)", output_hook=interrupt)
        with pytest.raises(NetreproError, match=r"interrupted\n.*again"):
            net["h1"].run(["true"])
