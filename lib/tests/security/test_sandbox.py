"""What students' code may try in the sandbox that grades it, and what it must not get there."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from virtual_kernel import needs_virtual

from netrepro.workbench.running import shut_in
from netrepro.workbench.running.memory_group import MemoryGroup
from netrepro.workbench.running.sandbox import NUMBERS, REFUSED, Sandbox, Started, library_paths
from netrepro.workbench.running.used_time import tree_of

pytestmark = pytest.mark.usefixtures("sandbox")
FOLDER = "/run/mine"
INTERPRETER = {path: path for path in {sys.prefix, sys.base_prefix} if not path.startswith("/usr")}
# Prints, as JSON, what came of each thing tried: "it worked", or the name of the error.
TRY = """import ctypes, errno, json, os, socket, struct, sys
libc, results = ctypes.CDLL(None, use_errno=True), {}
def attempt(name, action):
    try:
        action()
        results[name] = "it worked"
    except OSError as error:
        results[name] = errno.errorcode[error.errno]
def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *[a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]) < 0:
        raise OSError(ctypes.get_errno(), "")
os.chdir("/run/mine")
"""


def tell(words: str, **limits: Any) -> tuple[str, Started]:
    """Run a program in a sandbox to its end; return what it printed, and its folder."""
    started = Sandbox(FOLDER, INTERPRETER, **limits).start([sys.executable, "-c", TRY + words], {})
    return started.process.communicate(timeout=60)[0].decode(), started


def results(words: str, **limits: Any) -> tuple[dict[str, str], Started]:
    """Run a program that tries things; return what came of each, and its folder."""
    said, started = tell(words + "\nprint(json.dumps(results))", **limits)
    return json.loads(said.splitlines()[-1]), started


SETUID_BITS = """
open("plain", "w").close()
file = os.open("plain", os.O_RDWR)
for bits in (0o4755, 0o2755, 0o6755):
    attempt(f"chmod {bits:o}", lambda: os.chmod("plain", bits))
    attempt(f"fchmod {bits:o}", lambda: os.fchmod(file, bits))
    attempt(f"fchmodat {bits:o}", lambda: os.chmod("plain", bits, dir_fd=os.open(".", os.O_RDONLY)))
    attempt(f"fchmodat2 {bits:o}", lambda: call(452, -100, b"plain", bits, 0))
    attempt(f"open {bits:o}", lambda: os.open("new", os.O_CREAT | os.O_WRONLY, bits))
    attempt(f"mknod {bits:o}", lambda: os.mknod("node", 0o100000 | bits))
    attempt(f"creat {bits:o}", lambda: call(OTHERS["creat"], b"made", bits))
    attempt(f"openat2 {bits:o}", lambda: call(437, -100, b"second", struct.pack("QQQ", 0o101, bits, 0), 24))
attempt("io_uring", lambda: call(425, 8, bytes(120)))
attempt("the log", lambda: os.fchmod(1, 0o6755))
attempt("the log by its name", lambda: os.chmod("/proc/self/fd/1", 0o6755))
"""


def test_no_file_gets_a_setuid_bit_by_any_call():
    ours = NUMBERS[platform.machine()][1]
    others = {"creat": ours.get("creat", ours["openat2"])}
    came, started = results(f"OTHERS = {others}\n" + SETUID_BITS)
    assert len(came) == 27 and set(came.values()) <= {"EPERM", "ENOSYS"}, came
    names = [each.name for each in os.scandir(started.folder)]
    modes = [os.stat(name, dir_fd=started.folder).st_mode for name in names]
    assert "plain" in names and not any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in modes)
    started.close()


def test_what_it_makes_has_no_name_outside_and_its_bits_count_nowhere(tmp_path):
    """Its folder and its other files are in file systems of their own, without setuid bits and devices."""
    said, started = tell("open('sh', 'wb').write(open('/bin/sh', 'rb').read()); os.chmod('sh', 0o755); print('made')")
    assert said == "made\n" and [each.name for each in os.scandir(started.folder)] == ["sh"]
    for folder in (started.folder, started.root):
        assert os.fstatvfs(folder).f_flag & os.ST_NOSUID
    assert os.fstat(started.folder).st_dev not in {Path(each).stat().st_dev for each in ("/", "/tmp", tmp_path)}
    assert not Path(FOLDER, "sh").exists()
    started.close()


def test_its_output_is_a_pipe_and_no_file_of_ours():
    said, started = tell(
        "import stat\nprint([stat.S_ISFIFO(os.fstat(each).st_mode) for each in (1, 2)], os.listdir('/proc/self/fd'))"
    )
    streams, _, descriptors = said.strip().partition("] ")
    assert streams == "[True, True" and set(json.loads(descriptors.replace("'", '"'))) == {"0", "1", "2", "3"}
    started.close()


HIDDEN_MEMORY = """
attempt("memfd_create", lambda: os.memfd_create("hidden"))
attempt("memfd_secret", lambda: call(447, 0))
attempt("shmget", lambda: call(OTHERS["shmget"], 0, 1 << 20, 0o1600))
attempt("msgget", lambda: call(OTHERS["msgget"], 0, 0o1600))
for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("network", 0x40000000), ("process", 0x20000000)):
    attempt(f"unshare {name}", lambda: call(OTHERS["unshare"], flag))
    attempt(f"clone {name}", lambda: call(OTHERS["clone"], flag | 17, 0, 0, 0, 0))
attempt("clone3", lambda: call(435, struct.pack("Q", 0x10000000) + bytes(80), 88))
attempt("setns", lambda: call(OTHERS["setns"], os.open("/proc/self/ns/user", os.O_RDONLY), 0))
"""


def test_no_memory_hides_in_further_namespaces_or_in_what_belongs_to_no_process():
    came, started = results(f"OTHERS = {NUMBERS[platform.machine()][1]}\n" + HIDDEN_MEMORY)
    assert len(came) == 14 and set(came.values()) <= {"EPERM", "ENOSYS"}, came
    started.close()


def test_the_filter_names_every_refused_call_by_this_machines_own_number():
    """A call of a wrong number would be refused in the place of ours: what programs need works beside it."""
    said, started = tell(
        "import subprocess, threading, tempfile, multiprocessing\n"
        "subprocess.run(['/bin/true'], check=True)\n"
        "thread = threading.Thread(target=print, args=('a thread',)); thread.start(); thread.join()\n"
        "open('a', 'w').write('text'); os.chmod('a', 0o600); os.mkdir('b', 0o755); os.mkfifo('c')\n"
        "a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))"
    )
    assert said.splitlines() == ["a thread", "b'x'"]
    for _, numbers in NUMBERS.values():
        assert set(numbers) <= set(REFUSED) and len(set(numbers.values())) == len(numbers)
    started.close()


FILES = """
def fill():
    for number in range(20_000):
        open(f"{number}", "w").close()
attempt("many files", fill)
"""
UNLINKED = """
def fill():
    kept = []
    for number in range(100):
        kept.append(open("a", "wb")); os.unlink("a"); kept[-1].write(bytes(1 << 20)); kept[-1].flush()
attempt("files without a name", fill)
"""
ELSEWHERE = UNLINKED.replace('"a"', '"/dev/shm/a"')


@pytest.mark.parametrize(
    ("program", "limits"),
    [(FILES, {"folder_files": 1000}), (UNLINKED, {"folder_mb": 40}), (ELSEWHERE, {"memory_mb": 60})],
)
def test_many_files_and_files_without_a_name_come_up_against_a_limit(program, limits):
    came, started = results(program, **limits)
    assert list(came.values()) == ["ENOSPC"]
    assert started.full() == ("folder_files" in limits)  # what had no name ended with the program
    started.close()


def test_a_sparse_file_is_read_only_as_far_as_asked():
    _, started = tell("open('a', 'w').close(); os.truncate('a', 1 << 30)")
    assert started.read("a", 10) == bytes(10) and not started.full()
    started.close()


@pytest.mark.parametrize("made", ["os.symlink('/etc/passwd', 'a')", "os.mkfifo('a')", "os.mkdir('a')", "pass"])
def test_no_link_pipe_or_folder_is_read(made):
    _, started = tell(made)
    assert started.read("a", 10) is None
    started.close()


CROWD = """
for number in range(6):
    if os.fork() == 0:
        kept = bytearray(60 << 20); import time; time.sleep(20); os._exit(0)
for number in range(6):
    print(os.wait()[1])
"""
BUFFERS = """
kept = []
for number in range(400):
    pair = socket.socketpair(); kept.append(pair)
    for each in pair:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20); each.setblocking(False)
        try:
            while True:
                each.send(bytes(100_000))
        except BlockingIOError:
            pass
"""


@pytest.mark.parametrize("program", [CROWD, BUFFERS])
def test_a_control_group_limits_the_memory_of_all_together(program):
    """Each process stays below its own limit, or the kernel holds the memory for it."""
    group = MemoryGroup(120)
    if group.folder is None:
        pytest.skip("needs a control group: none can be made here")
    assert not group.was_full()
    _, started = tell(program, group=str(group.folder))
    assert group.was_full()
    started.close()
    group.remove()
    assert not group.folder.exists()


HOLDS = """
shared = open("/dev/shm/a", "wb+"); os.unlink("/dev/shm/a"); shared.write(bytes(50 << 20)); shared.flush()
import mmap, time
mapped, anonymous, own = mmap.mmap(shared.fileno(), 50 << 20), mmap.mmap(-1, 30 << 20), bytearray(40 << 20)
sum(mapped[::4096]); anonymous.write(bytes(30 << 20)); own[::4096] = b"x" * len(own[::4096])
print("ready", flush=True)
time.sleep(60)"""


def test_without_a_control_group_files_in_memory_count_once_and_without_a_name():
    started = Sandbox(FOLDER, INTERPRETER).start([sys.executable, "-c", TRY + HOLDS], {})
    assert started.process.stdout is not None and started.process.stdout.readline() == b"ready\n"
    used_mb = shut_in._memory_mb(tree_of(started.process.pid), started)
    started.process.terminate()
    started.process.communicate()
    assert 50 + 40 < used_mb < 50 + 40 + 30 + 50  # what is mapped is also in a file: the larger of both counts
    started.close()


VIRTUAL = """from netrepro.emulation.virtual.instance import Instance
with Instance(1) as instance:
    print(instance.kernel)"""


@needs_virtual
def test_a_virtual_kernel_runs_in_it_as_a_notebook_on_that_tier_needs():
    root = Path(__file__).parents[3]
    around = Sandbox(str(root / "runs/job"), library_paths(root))
    started = around.start([sys.executable, "-c", VIRTUAL], {"NETREPRO_ROOT": str(root)})
    said = started.process.communicate(timeout=120)[0].decode()
    started.close()
    assert said.strip().endswith("netrepro"), said


def test_a_trial_of_the_attacks_would_notice_them(tmp_path):
    """Outside of the sandbox, the same calls work: the tests above can fail."""
    file = tmp_path / "plain"
    file.touch()
    file.chmod(0o4755)
    assert file.stat().st_mode & stat.S_ISUID
    assert ctypes.CDLL(None).memfd_create(b"seen", 0) > 0
