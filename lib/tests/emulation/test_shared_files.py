"""Files that programs in virtual time share with the caller: each sees what the other has changed."""

from __future__ import annotations

import signal
import sys

import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks import Link, star

pytestmark = needs_virtual
NET = star(2, Link(10.0, 5.0))


@pytest.mark.parametrize("inside", [True, False])
def test_a_program_sees_what_the_caller_changes_in_a_file_that_another_has_open(inside, tmp_path):
    with VirtualNetwork(NET) as net:
        file = (net.folder if inside else tmp_path) / "conf"
        file.write_text("4\n")
        net["h2"].popen(["sh", "-c", 'exec 3< "$0"; sleep 50', str(file)])
        net.sleep(0.1)

        def seen() -> tuple[str, int]:
            said = net["h1"].run(["sh", "-c", 'cat "$0"; stat -c %s "$0"', str(file)]).stdout
            content, _, size = said.rstrip("\n").rpartition("\n")
            return content, int(size)

        for content in ("five", "six", "five", "a longer line\n" * 1000 + "and its end", "short"):
            file.write_text(f"{content}\n")
            assert seen() == (content, len(content) + 1)
        other = file.with_name("other")
        other.write_text("seven\n")
        other.replace(file)
        assert seen() == ("seven", 6)
        file.unlink()
        assert net["h1"].run(["cat", str(file)], check=False).returncode == 1


FOLLOWS = """
import sys, time
with open(sys.argv[1]) as file:
    while (line := file.readline()) != "end\\n":
        print(line, end="", flush=True) if line else time.sleep(0.1)
"""


def test_a_program_reads_on_in_a_file_to_which_the_caller_appends():
    with VirtualNetwork(NET) as net:
        control = net.folder / "control"
        control.write_text("one\n")
        follows = net["h1"].popen([sys.executable, "-c", FOLLOWS, str(control)])
        for line in ("two\n", "three\n", "end\n"):
            net.sleep(0.5)
            with control.open("a") as file:
                file.write(line)
        assert follows.wait() == 0 and follows.output == "one\ntwo\nthree\n"


WRITES = """
import os, signal, sys
log = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
for line in (b"program 1\\n", b"program 2\\n"):
    os.write(log, line)
    os.kill(os.getpid(), signal.SIGSTOP)
print(os.pread(log, 1000, 0).decode(), os.lseek(log, 0, 2), os.fstat(log).st_size)
"""


def test_a_program_and_the_caller_append_to_one_file():
    with VirtualNetwork(NET) as net:
        log = net.folder / "log"
        log.touch()
        writes = net["h1"].popen([sys.executable, "-c", WRITES, str(log)])
        for number in (1, 2):
            net.sleep(0.5)  # the program stops itself after each line
            with log.open("a") as file:
                file.write(f"caller {number}\n")
            writes.send_signal(signal.SIGCONT)
        whole = "program 1\ncaller 1\nprogram 2\ncaller 2\n"
        assert writes.wait() == 0 and writes.output == f"{whole} {len(whole)} {len(whole)}\n"
        assert log.read_text() == whole
