"""What programs on emulated hosts may write for the process that started them, and must not do to its user's files."""

from __future__ import annotations

import base64
import io
import json
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.call_values import outcome_from
from netrepro.emulation.tiers import probe_tiers
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.errors import NetreproError
from netrepro.networks import Link, star

NET = star(2, Link(10.0, 0.0))
IN_REAL_TIME = [
    pytest.param(tier, marks=pytest.mark.skipif(not getattr(probe_tiers(), tier).available, reason=f"needs {what}"))
    for tier, what in (("rootless", "user namespaces"), ("privileged", "root"))
]
TIERS = [pytest.param("virtual", marks=needs_virtual), *IN_REAL_TIME]


class Writes:
    """An object that writes a file when it is unpickled."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self):
        return Path.write_text, (self.file, "from inside")


def with_pickle(file: Path) -> str:
    """An array of objects in NumPy's file format, which holds a pickle."""
    written = io.BytesIO()
    np.lib.format.write_array(written, np.array([Writes(file)], dtype=object), allow_pickle=True)
    return base64.b64encode(written.getvalue()).decode()


def hostile_answers(file: Path) -> list[bytes]:
    told: list[object] = [
        {"returned": {"array": with_pickle(file)}},
        {"returned": {"PosixPath": {"array": with_pickle(file)}}},
        {"returned": {"Series": ["", ["object", [{"open": [str(file), "w"]}]], ["range", "", [0, 1, 1]]]}},
        {"returned": {"Index": ["values", "", ["Sparse[object]", [1]]]}},
        {"returned": {"Fraction": ["1e999999999", 1]}},
        {"raised": ["open", [str(file), "w"]], "said": "", "traceback": ""},
        {"raised": ["exec", [f"open({str(file)!r}, 'w')"]], "said": "", "traceback": ""},
        {"raised": ["NetreproError", [{"open": [str(file), "w"]}]], "said": "", "traceback": ""},
        {"raised": ["KeyError", []], "said": "", "traceback": {"bytes": ""}},
        {"returned": 1, "raised": 2},
        {"untold": [1]},
        ["returned"],
    ]
    deep = b'{"returned": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    pickles = [pickle.dumps((True, Writes(file))), pickle.dumps((False, (Writes(file), "")))]
    return [*pickles, *(json.dumps(each).encode() for each in told), deep, b'{"returned": ', b"\0"]


def answering(content: bytes) -> Callable[[], None]:
    """A function that writes an answer in the place of call_guest.py, and ends before that can."""

    def answer() -> None:
        import os
        import sys
        from pathlib import Path

        Path(sys.argv[1] if len(sys.argv) > 1 else "/proc/self/fd/3").write_bytes(content)
        os._exit(0)

    return answer


@pytest.mark.parametrize("tier", TIERS)
def test_no_answer_of_a_function_makes_its_caller_write_a_file(tier, tmp_path):
    with Emulation(NET, tier=tier) as net:
        for content in hostile_answers(tmp_path / "written")[:4]:
            with pytest.raises(NetreproError, match=r"what is written as a function's result is none"):
                net["h1"].python(answering(content))
        assert net["h1"].python(len, "abc") == 3
    assert not list(tmp_path.iterdir())


def test_what_is_no_answer_is_refused_whatever_it_is(tmp_path):
    for content in hostile_answers(tmp_path / "written"):
        with pytest.raises(NetreproError, match=r"what is written as a function's result is none"):
            outcome_from(content)
    assert not list(tmp_path.iterdir())


OVERWRITES = """
import glob, os, signal, sys
for result in glob.glob("*.result"):
    open(result, "wb").write(bytes.fromhex(sys.argv[1]))
for process in filter(str.isdigit, os.listdir("/proc")):
    if int(process) != os.getpid() and b"call_guest" in open(f"/proc/{process}/cmdline", "rb").read():
        os.kill(int(process), signal.SIGKILL)
"""


@needs_virtual
def test_a_program_on_another_host_cannot_answer_with_code_in_the_place_of_a_function(tmp_path):
    hostile = pickle.dumps((True, Writes(tmp_path / "written")))
    with Emulation(NET, tier="virtual") as net:
        call = net["h1"].start(time.sleep, 100)
        net.sleep(1.0)
        net["h2"].run([sys.executable, "-c", OVERWRITES, hostile.hex()])
        with pytest.raises(NetreproError, match=r"what is written as a function's result is none"):
            call.result(10.0)
    assert not list(tmp_path.iterdir())


# Takes the launcher's connection to the caller, and writes to it as the launcher would.
TAKES_THE_CONNECTION = """
import ctypes, os, socket, struct, sys
libc, answer = ctypes.CDLL(None, use_errno=True), bytes.fromhex(sys.argv[1])
launcher = os.pidfd_open(1)
for number in os.listdir("/proc/1/fd"):
    if os.readlink(f"/proc/1/fd/{number}").startswith("socket:"):
        taken = libc.syscall(438, launcher, int(number), 0)  # pidfd_getfd
        if taken < 0:
            sys.exit(os.strerror(ctypes.get_errno()))
        os.write(taken, struct.pack("=I", len(answer)) + answer)
"""


@pytest.mark.parametrize("tier", IN_REAL_TIME)
def test_a_program_that_answers_for_the_launcher_makes_its_caller_write_no_file(tier, tmp_path):
    hostile = pickle.dumps(Writes(tmp_path / "written"))
    with Emulation(NET, tier=tier) as net:
        program = net["h1"].popen([sys.executable, "-c", TAKES_THE_CONNECTION, hostile.hex()])
        refused = program.communicate(timeout=60)[1].strip()
        if refused in ("Operation not permitted", "Function not implemented"):
            assert net["h1"].run(["true"]).returncode == 0  # this machine gives a guest no such connection
            return
        assert not refused
        with pytest.raises(NetreproError, match="answers in a way that it has not"):
            net["h1"].run(["true"])
    assert not list(tmp_path.iterdir())


def links(file: Path, net: VirtualNetwork) -> str:
    """Plant links under the names that the network's next files may have."""
    names = "$n-cat.in $n-cat.out $n-cat.err $n-call.result"
    return f"for n in $(seq 1 20); do for name in {names}; do ln -s {file} $name; done; done"


def another_folder(file: Path, net: VirtualNetwork) -> str:
    """Put a link in the place of the folder where the network's files are."""
    return (
        f"mkdir -p /run/m && mount -t hostfs -o {net.folder.parent} none /run/m && mv /run/m/programs /run/m/aside "
        f"&& ln -s {file.parent} /run/m/programs"
    )


@needs_virtual
@pytest.mark.parametrize("plant", [links, another_folder])
def test_no_link_of_a_program_leads_what_the_network_writes_out_of_its_folder(plant: Callable, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("as it was")
    with Emulation(NET, tier="virtual") as net:
        net["h1"].popen(["sh", "-c", plant(mine, net)]).wait()
        assert (net.folder / "2-cat.in").is_symlink() or net.folder.is_symlink()
        with pytest.raises(NetreproError):
            net["h1"].run(["cat"], input="from outside")
        with pytest.raises(NetreproError):
            net["h1"].python(len, "abc")
    assert mine.read_text() == "as it was" and list(tmp_path.iterdir()) == [mine]


@needs_virtual
@pytest.mark.parametrize("instead", ["mkfifo $f", "ln -s /etc/hostname $f", "mkdir $f"])
def test_output_that_a_program_has_replaced_is_neither_waited_for_nor_followed(instead):
    with Emulation(NET, tier="virtual") as net:
        program = net["h1"].popen(["sh", "-c", f"f=$(ls *-sh.out); rm $f; {instead}"])
        assert program.wait() == 0
        with pytest.raises(NetreproError, match=r"1-sh.out of a program inside cannot be read"):
            _ = program.output


@needs_virtual
def test_folders_of_a_program_nested_deeply_end_with_the_network(tmp_path):
    deep = "import os\nfor _ in range(1500):\n    os.mkdir('d'); os.chdir('d')"
    with Emulation(NET, tier="virtual") as net:
        net["h1"].run([sys.executable, "-c", deep])
        folder = net.folder.parent
    assert not folder.exists()
