"""What a program in the virtual kernel, root there, and a module of it may do to the machine's files."""

from __future__ import annotations

from pathlib import Path

import pytest
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation
from netrepro.emulation.tiers import probe_tiers
from netrepro.emulation.virtual.kernel import build_module
from netrepro.emulation.virtual.launch import landlock_version
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.errors import NetreproError
from netrepro.networks import Link, star

needs_landlock = pytest.mark.skipif(not landlock_version(), reason="needs Landlock")
pytestmark = needs_virtual
NET = star(2, Link(10.0, 1.0))

# Tries everything that root inside can: its root for writing, and the machine's files once more.
TRIES = """
cat {file}
mount -o remount,rw / && echo changed > {file}
mkdir -p /run/machine && mount -t hostfs -o {folder} none /run/machine
echo changed > /run/machine/mine; rm -f /run/machine/mine; mv /run/machine/mine /run/machine/yours
mkdir /run/machine/new; ln -s x /run/machine/link; truncate -s 0 /run/machine/mine; touch /run/machine/new-file
echo done > {written}
"""

# Asks the machine itself, past all that the kernel inside allows.
MODULE = """
#include <linux/fcntl.h>
#include <linux/init.h>
#include <linux/module.h>
static int __init ask(void)
{
    long found;

    asm volatile("syscall" : "=a"(found) : "a"(2L), "D"("%s"), "S"((long)(O_CREAT | O_WRONLY)), "d"(0600L)
        : "rcx", "r11", "memory");
    return found < 0 ? found : 0;
}
module_init(ask);
MODULE_LICENSE("GPL");
"""


@needs_landlock
def test_root_inside_reads_the_machines_files_and_writes_to_its_networks_folder_only(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("as it was")
    with Emulation(NET, tier="virtual") as net:
        assert isinstance(net, VirtualNetwork)
        written = net.folder / "written"
        script = TRIES.format(file=mine, folder=tmp_path, written=written)
        assert net["h1"].run(["sh", "-c", script]).stdout == "as it was"
        assert written.read_text() == "done\n"
    assert mine.read_text() == "as it was" and list(tmp_path.iterdir()) == [mine]


@needs_landlock
def test_a_module_of_the_kernels_writes_to_its_networks_folder_only(tmp_path):
    with Emulation(NET, tier="virtual") as net:
        assert isinstance(net, VirtualNetwork)

        def load(file: Path) -> None:
            net.instance.load([build_module(MODULE % file)])

        load(net.folder / "there")  # the module works
        assert (net.folder / "there").exists()
        with pytest.raises(NetreproError, match="Permission denied"):
            load(tmp_path / "elsewhere")
    assert not list(tmp_path.iterdir())


def test_the_probe_says_what_root_inside_may_do_to_the_machines_files():
    said = probe_tiers().virtual.why
    assert "reads files with your rights" in said and ("Landlock" in said)
