"""The same small programs give the same output and status in virtual time as on the machine's own kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from optional_programs import needs_programs
from virtual_kernel import needs_virtual

from netrepro.emulation import Emulation, Network
from netrepro.emulation.tiers import probe_tiers
from netrepro.emulation.virtual.network import VirtualNetwork
from netrepro.networks import Link, star

pytestmark = [needs_virtual, pytest.mark.skipif(not probe_tiers().privileged.available, reason="needs root")]

# What programs inherit differs between the tiers by design, so each program begins with these variables alone.
PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
VARIABLES = {
    "PATH": PATH,
    "HOME": "/run",
    "TMPDIR": "/run",
    "LANG": "C.UTF-8",
    "WHO": "me",
    "PYTHONDONTWRITEBYTECODE": "1",
}

# name -> a script for bash. Scripts print no process id, which differs, and no size that depends on the file system.
SHELL = {
    "pipelines": "seq 1000 | grep 7 | sort -rn | head -3 | wc -c; echo ${PIPESTATUS[*]}; echo 'a b' | xargs -n1 echo",
    "closed pipes": "set -o pipefail; yes | head -2; echo $?; (sleep .1; echo x) | true; echo $?",
    "exit codes": """(exit 7); echo $?; (exec 2> /dev/null; sh -c 'kill -9 $$'; echo $?); missing 2>&1; echo $?
        /etc/passwd 2>&1; echo $?; ! true; echo $?; false || exit 42""",
    "a fatal signal": "kill -TERM $$",
    "traps": """trap 'echo term' TERM; trap 'echo end' EXIT; kill -TERM $$; trap 'echo int' INT; kill -INT $$
        trap '' HUP; kill -HUP $$; kill -USR1 $$; echo never""",
    "jobs in the background": """sleep 5 & kill $!; wait $!; echo $?; (sleep .1; exit 3) & wait $!; echo $?
        setsid sh -c 'echo session'; (sh -c 'sleep .1; echo orphan' &); sleep .3; echo end""",
    "process substitution": """diff <(seq 3) <(seq 4); echo $?; read -t .1 x < <(sleep .3); echo $?
        echo y | tee /dev/stderr""",
    "closed standard input": """exec <&-; cat 2>&1; echo $?; read x 2> /dev/null; echo $?
        python3 -c 'import sys; print(sys.stdin)'""",
    "no standard input": "cat < /dev/null; echo $?; read x < /dev/null; echo $?; cat; [ -t 0 ] || tty",
    "closed standard output": "(echo x) >&- 2> /dev/null; echo $?; python3 -c 'print(1)' >&- ; echo $?",
    "devices": """head -c 3 /dev/zero | od -c; echo x > /dev/null; echo x > /dev/full; echo $?
        echo z >> /dev/stdout; ls /dev/fd/""",
    "environment": """env -u PATH | sort | grep -v -e ^_ -e ^PWD; env -i A=1 env; WHO=2 sh -c 'echo $WHO'; unset WHO
        echo ${WHO-unset} $# $SHLVL; printenv NOPE; echo $?""",
    "umask": "umask; touch a; umask 077; touch b; mkdir c; umask 0; touch d; mkdir e; stat -c '%n %a' a b c d e",
    "limits": """ulimit -n 20; python3 -c 'import os; [os.open("/dev/null", 0) for _ in range(20)]' 2>&1 | tail -1
        (exec 2> /dev/null; ulimit -f 1; head -c 5000 /dev/zero > big; echo $?); stat -c %s big; ulimit -Sc
        ulimit -s; ulimit -v 300000
        python3 -c 'bytearray(10**9)' 2>&1 | tail -1""",
    "faults": """exec 2> /dev/null
        for what in 'ctypes.string_at(0)' 'os.abort()' 'sys.exit(5)' '1 / 0' 'sys.exit("said")'
        do python3 -c "import ctypes, os, sys; $what"; echo $?; done""",
    "itself in proc": """cat /proc/self/comm; tr '\\0' ' ' < /proc/self/cmdline; basename $(readlink /proc/self/exe)
        basename $(readlink /proc/self/cwd); ls /proc/self/fd
        cat /proc/self/oom_score_adj /proc/sys/net/ipv4/ip_forward
        grep -E 'Sig(Ign|Blk|Cgt)|Threads|Uid|Gid|Umask|TracerPid|NoNewPrivs' /proc/self/status""",
    "who runs": """id -un; id -u; id -gn; echo $UID $EUID; [ $PPID -gt 0 ]; echo $?
        su -s /bin/sh nobody -c 'id -un; touch x' 2>&1""",
    "times of files": """touch a; sleep .05; touch b; find . -newer a -type f | sort; find . -mmin -5 -name a
        touch -d '2019-05-06 07:08:09.123456789 UTC' c; stat -c '%y' c; find . -mtime +30; touch -r c b
        [ b -nt c ]; echo $?; [ a -nt c ]; echo $?; ls -t1
        [ $(($(date +%s) - $(stat -c %Y a))) -lt 5 ]; echo $?; mkdir d; [ d -nt a ]; echo $?""",
    "timeout": """exec 2> /dev/null; timeout .1 sleep 5; echo $?; timeout -s KILL .1 sleep 5; echo $?
        timeout 5 true; echo $?; timeout -k .1 .1 sh -c 'trap "" TERM; sleep 5; sleep 5'; echo $?
        timeout .02 cat < /dev/zero > /dev/null; echo $?""",
    "sleep and date": """TIMEFORMAT=%1R; time sleep .2; date -u -d @0; TZ=America/New_York date -d @1577836800
        date +%Z; [ $(date +%Y) -ge 2020 ]; echo $?""",
    "large outputs": """for i in $(seq 500); do echo out $i; echo err $i >&2; done; seq 100000; seq 20000 >&2
        echo last""",
    "outputs in order": "exec 2>&1; for i in 1 2 3; do echo o$i; echo e$i >&2; sh -c 'echo a; echo b >&2'; done",
    "working directories": """mkdir -p a/b; cd a/b; basename $PWD; cd ..; basename $PWD; cd - > /dev/null
        basename $PWD; cd nowhere 2>&1; echo $?; pushd / > /dev/null; pwd; popd > /dev/null; cd; pwd""",
    "symbolic links": """echo 1 > f; ln -s f l; ln -s nowhere d; ln -s loop loop; cat l; cat d 2>&1; cat loop 2>&1
        basename $(readlink -f l); mkdir x; ln -s x y; cd y; basename $(pwd); basename $(pwd -P); echo up > ../y/z
        ls ../x; mv ../d ../e; ls ..; ln -s 2 ../e 2>&1; rm ../f; cat ../l 2>&1; echo $?""",
    "locale": """echo 'äöü€' | wc -m; touch 'ü b' B a; ls; LC_ALL=C ls; printf '%d\\n' "'é"; echo ÀB | sed 's/.*/\\L&/'
        python3 -c 'import sys; print(sys.stdout.encoding, sys.getfilesystemencoding(), "é€")'
        python3 -c 'import locale; print(locale.getlocale(), locale.getpreferredencoding())'""",
    "sort and text": """seq 20000 | shuf --random-source=/dev/zero | sort -n --parallel=2 -S 100K -T . | md5sum
        printf 'b\\nA\\na\\nB\\n' | sort; seq 20 | awk '{s += $1} END {print s, NR}'; echo abc | sed s/b/X/
        seq 5 | tac; comm -12 <(seq 3) <(seq 2 4); split -l 2 <(seq 5) p; ls p*; dd if=paa bs=2 count=1 status=none
        cksum paa""",
    "scripts": """printf '#!/bin/sh\\necho script $1\\n' > s; chmod +x s; ./s a; printf 'echo plain\\n' > t
        chmod +x t; ./t; printf '#!/usr/bin/env python3\\nprint(3)' > u; chmod +x u; ./u
        printf '#!/nowhere\\n' > v; chmod +x v; ./v 2>&1; echo $?; chmod -x s; ./s 2>&1; echo $?
        bash -s <<< 'echo here; exit 3'; echo $?""",
}
TOOLS = {
    ("make",): """printf 'all: b c\\nb: a\\n\\tcp a b\\nc: b\\n\\tcp b c\\n' > Makefile; echo 1 > a; make; make
        sleep .05; echo 2 > a; make -j2; cat c; make missing 2>&1; echo $?""",
    ("gcc",): """echo 'int puts(const char *); int main(void) { puts("compiled"); return 3; }' > m.c; gcc m.c -o m
        ./m; echo $?""",
    ("tar", "gzip", "xz"): """mkdir d; for i in 1 2 3; do echo $i > d/$i; done; ln -s 1 d/l; ln d/1 d/h; chmod 640 d/2
        touch -d '2019-05-06 UTC' d/3; tar czf d.tgz d 2>&1; rm -r d; tar xzf d.tgz 2>&1; ls d; cat d/*
        stat -c '%a %h %F' d/*; stat -c %Y d/3; seq 50000 > s; gzip -9n s; md5sum < s.gz; gzip -dc s.gz | md5sum
        xz -c s.gz | xz -d | cmp - s.gz; echo $?""",
    ("openssl",): """exec 2> /dev/null; new='-x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256'
        openssl req $new -keyout k.pem -out c.pem -days 3 -subj /CN=h1 -addext subjectAltName=DNS:localhost
        openssl x509 -in c.pem -noout -checkend 0 -subject; openssl verify -CAfile c.pem c.pem; echo secret > f.txt
        openssl s_server -key k.pem -cert c.pem -accept 4433 -WWW -quiet & sleep .5
        python3 -c 'import ssl, urllib.request as u
print(u.urlopen("https://localhost:4433/f.txt", context=ssl.create_default_context(cafile="c.pem")).read())
u.urlopen("https://localhost:4433/f.txt")' 2>&1 | grep -o -e "secret" -e "CERTIFICATE_VERIFY_FAILED" | uniq
        kill $!; wait $!; echo $?""",
    ("git",): """export GIT_AUTHOR_DATE=2021-01-01T00:00:00Z GIT_COMMITTER_DATE=2021-01-01T00:00:00Z
        git init -q -b main .; git config user.name a; git config user.email a@example.invalid; echo 1 > f; git add f
        git commit -qm one; git rev-parse HEAD; git status --short; echo 2 > f; git diff --stat
        git log --format=%ad""",
    ("ping",): """ping -c 2 -i .2 -q 10.0.0.2 | grep -o '.*loss'; ping -c 1 -W .2 10.0.0.9 | grep -o '.*loss'
        ping -c 1 -q h2 | head -1""",
}  # fmt: skip
PYTHON = {
    "signals": """
import os, signal, subprocess, time
heard = []
for which in (signal.SIGCHLD, signal.SIGALRM):
    signal.signal(which, lambda number, frame: heard.append(signal.Signals(number).name))
subprocess.run(["true"])
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
while heard.count("SIGALRM") < 3:
    signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0)
print(heard)
blocked = [signal.SIGRTMIN, signal.SIGUSR1]
signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
for _ in range(2):
    os.kill(os.getpid(), signal.SIGRTMIN)
    os.kill(os.getpid(), signal.SIGUSR1)
got = [signal.sigtimedwait(blocked, 0.01) for _ in range(4)]
print([each and (each.si_signo, each.si_code, each.si_pid == os.getpid(), each.si_uid) for each in got])
""",
    "forks and waits": """
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
program = "sh", "sh", "-c", "exit 4"
for end in (lambda: os._exit(3), lambda: os.kill(os.getpid(), 9), os.abort, lambda: os.execlp(*program)):
    if not os.fork():
        end()
    print(os.waitstatus_to_exitcode(os.wait()[1]))
hears, tells = os.pipe()
child = os.fork()
if not child:
    os.kill(os.getpid(), signal.SIGSTOP)
    os.read(hears, 1)  # else it may have ended before it was seen to go on
    os._exit(5)
stopped = os.waitpid(child, os.WUNTRACED)[1]
os.kill(child, signal.SIGCONT)
print(os.WSTOPSIG(stopped), os.WIFCONTINUED(os.waitpid(child, os.WCONTINUED)[1]))
os.write(tells, b"x")
print(os.waitpid(child, 0)[1])
try:
    os.wait()
except ChildProcessError as error:
    print(error)
""",
    "threads": """
import queue, threading
asked, squares = queue.Queue(), []
def work():
    while (number := asked.get()) is not None:
        squares.append(number**2)
threads = [threading.Thread(target=work) for _ in range(4)]
for each in threads:
    each.start()
for number in [*range(100), *[None] * 4]:
    asked.put(number)
for each in threads:
    each.join()
told = threading.Event()
threading.Timer(0.05, told.set).start()
print(sum(squares), threading.active_count(), told.wait(5), threading.Event().wait(0.05))
""",
    "processes and shared memory": """
import multiprocessing
from multiprocessing import shared_memory
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, range(-5, 0)))
counted, heard = multiprocessing.Value("i", 0), multiprocessing.Queue()
def count():
    with counted.get_lock():
        counted.value += 1
    heard.put("done")
processes = [multiprocessing.Process(target=count) for _ in range(3)]
for each in processes:
    each.start()
print([heard.get() for _ in processes], [each.join() for each in processes], counted.value)
memory = shared_memory.SharedMemory(create=True, size=10)
memory.buf[0] = 7
same = shared_memory.SharedMemory(memory.name)
print(same.buf[0], same.close(), memory.close(), memory.unlink())
""",
    "TCP": """
import socket, struct, threading
def refused(call):
    try:
        return call()
    except OSError as error:
        return type(error).__name__, str(error)
with socket.create_server(("", 5000)) as server:
    def serve():
        connection, (address, _) = server.accept()
        print(address, connection.recv(100))
        connection.sendall(bytes(100_000))
        connection.shutdown(socket.SHUT_WR)
        print(connection.recv(10))
    thread = threading.Thread(target=serve)
    thread.start()
    client = socket.create_connection(("h1", 5000))
    client.sendall(b"hello")
    print(sum(len(part) for part in iter(lambda: client.recv(65536), b"")))
    client.close()
    thread.join()
    print(refused(lambda: socket.create_server(("", 5000))))
for address in (("10.0.0.1", 1), ("10.0.0.2", 1), ("127.0.0.1", 1)):
    print(refused(lambda: socket.create_connection(address)))
print(refused(lambda: socket.create_connection(("192.0.2.1", 80), 0.1)))
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
client.settimeout(0.05)
print(refused(lambda: client.recv(1)))
accepted, _ = server.accept()
accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
accepted.close()
print(refused(lambda: client.recv(1)), socket.gethostbyname("h2"), socket.gethostname(), socket.getfqdn())
""",
    "UDP": """
import socket
one, other, refused = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
one.bind(("", 6000))
other.connect(("10.0.0.1", 6000))
for content in (b"hi", b"", b"12345"):
    print(other.send(content), one.recvfrom(2)[0])
refused.connect(("127.0.0.1", 9))
refused.send(b"x")
for call in (lambda: one.recv(1, socket.MSG_DONTWAIT), lambda: refused.recv(1), lambda: other.send(bytes(70_000))):
    try:
        call()
    except OSError as error:
        print(error)
""",
    "Unix sockets": """
import os, socket
for name in ("sock", "\\0abstract"):
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind(name)
    server.listen()
    client.connect(name)
    client.send(b"x")
    print(server.accept()[0].recv(3))
print(os.stat("sock").st_mode >> 12, os.unlink("sock"), os.path.exists("sock"))
one, other = socket.socketpair()
reader, writer = os.pipe()
socket.send_fds(one, [b"fd"], [writer])
content, (passed,), _, _ = socket.recv_fds(other, 10, 1)
os.write(passed, b"through")
print(content, os.read(reader, 10))
""",
    "select, poll and epoll": """
import os, select, time
reader, writer = os.pipe()
def timed(call):
    began = time.monotonic()
    return call(), round(time.monotonic() - began, 1)
polled, edges = select.poll(), select.epoll()
polled.register(reader, select.POLLIN)
edges.register(reader, select.EPOLLIN | select.EPOLLET)
print(timed(lambda: select.select([reader], [writer], [], 0.2)), timed(lambda: select.select([reader], [], [], 0.2)))
print(timed(lambda: polled.poll(200)), timed(lambda: edges.poll(0.2)), polled.poll(0))
os.write(writer, b"x")
print(len(polled.poll()), len(edges.poll()), edges.poll(0.01))
os.close(writer)
print(os.read(reader, 1), polled.poll(0)[0][1] == select.POLLHUP)
""",
    "asyncio and descriptors of events": """
import asyncio, ctypes, os, struct
libc, event = ctypes.CDLL(None), os.eventfd(3)
timer, watch = libc.timerfd_create(1, 0), libc.inotify_init()
libc.timerfd_settime(timer, 0, struct.pack("4q", 0, 50_000_000, 0, 50_000_000), None)
libc.inotify_add_watch(watch, b".", 0x100)
open("new", "w").close()
print(os.eventfd_read(event), struct.unpack("Q", os.read(timer, 8)), os.read(watch, 100)[16:].strip(b"\\0"))
async def main():
    async def shout(reader, writer):
        writer.write((await reader.readline()).upper())
        writer.close()
    await asyncio.start_server(shout, "127.0.0.1", 8000)
    reader, writer = await asyncio.open_connection("127.0.0.1", 8000)
    writer.write(b"abc\\n")
    cat = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    print(await reader.read(), await cat.communicate(b"in"))
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.1)
    except TimeoutError:
        print("timeout")
asyncio.run(main())
""",
    "files": """
import errno, fcntl, mmap, os, tempfile
def outcome(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]
with open("f", "w+b", 0) as file:
    file.write(b"0123456789" * 1000)
    with mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:3] = b"abc"
    print(open("f", "rb").read(5), os.ftruncate(file.fileno(), 20_000), os.fstat(file.fileno()).st_size)
    print(os.pread(file.fileno(), 4, 15_000), os.pwrite(file.fileno(), b"zz", 1), os.lseek(file.fileno(), -5, 2))
    os.unlink("f")
    print(file.read(), os.fstat(file.fileno()).st_nlink)
for call in (
    lambda: os.open("none", 0), lambda: os.mkdir("/proc/x"), lambda: os.open(".", os.O_WRONLY),
    lambda: os.rmdir("none"), lambda: os.open("a" * 300, os.O_CREAT),
    lambda: os.open("/etc/passwd/x", 0), lambda: os.rename("none", "x"),
):
    print(outcome(call))
held = open("lock", "w")
fcntl.flock(held, fcntl.LOCK_EX)
print(outcome(lambda: fcntl.flock(open("lock"), fcntl.LOCK_EX | fcntl.LOCK_NB)))
one, other = (os.open("log", os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o644) for _ in range(2))
print(os.write(one, b"1"), os.write(other, b"2"), os.write(one, b"3"), os.pread(one, 9, 0))
print(outcome(lambda: os.open("log", os.O_EXCL | os.O_CREAT)), os.link("log", "hard"), os.stat("log").st_nlink)
os.utime("log", ns=(123456789, 987654321))
print(os.stat("log").st_mtime_ns, os.chmod("log", 0o4751), oct(os.stat("log").st_mode), os.access("log", os.X_OK))
sparse = os.open("sparse", os.O_CREAT | os.O_RDWR)
print(os.pwrite(sparse, b"x", 10**6), os.fstat(sparse).st_blocks < 100, outcome(lambda: os.sendfile(sparse, one, 0, 3)))
os.mkfifo("fifo")
if not os.fork():
    open("fifo", "w").write("through a fifo")
    os._exit(0)
os.mkdir("many")
for number in range(200):
    open(f"many/{number}", "w").close()
print(open("fifo").read(), [os.unlink(each.path) for each in os.scandir("many")].count(None), os.listdir("many"))
with tempfile.NamedTemporaryFile(dir=".") as named, tempfile.TemporaryFile() as unnamed:
    print(os.path.exists(named.name), unnamed.write(b"x"))
print(os.path.exists(named.name))
""",
    "a terminal": """
import os, pty
ours, theirs = pty.openpty()
os.write(ours, b"line\\n")
print(os.read(theirs, 100), os.isatty(theirs))
child, terminal = pty.fork()
if not child:
    os.execvp("sh", ["sh", "-c", "tty > /dev/null && stty size"])
said = b""
try:
    while part := os.read(terminal, 100):
        said += part
except OSError:
    print(said, os.waitpid(child, 0)[1])
""",
    "a database": """
import sqlite3
base = sqlite3.connect("base")
base.execute("pragma journal_mode=wal")
base.execute("create table t(a)")
base.executemany("insert into t values(?)", [(number,) for number in range(1000)])
base.commit()
print(sqlite3.connect("base").execute("select sum(a) from t").fetchone())
""",
    "memory and numbers": """
import hashlib, math, mmap, os, random, sys
shared = mmap.mmap(-1, 10_000_000)
if not os.fork():
    shared[6] = 2
    os._exit(0)
os.wait()
try:
    bytearray(10**15)
except MemoryError:
    print("MemoryError", shared[6])
def deep(levels):
    return 0 if levels == 0 else 1 + deep(levels - 1)
sys.setrecursionlimit(20_000)
print(deep(5000), random.Random(1).random(), math.sin(1e22), math.exp(1.5), hashlib.sha256(bytes(10**6)).hexdigest())
print(len(os.urandom(5)), os.getpriority(os.PRIO_PROCESS, os.getpid()) - os.nice(0), os.sched_getscheduler(0))
""",
}  # fmt: skip
WORDS = ["a b", "", "*", "é", "$HOME", "'\"", "x" * 5000, "two\nlines"]
COMMANDS = {
    **{name: ["bash", "-c", script] for name, script in SHELL.items()},
    **{" and ".join(names): ["bash", "-c", script] for names, script in TOOLS.items()},
    **{name: ["python3", "-c", script] for name, script in PYTHON.items()},
    "words of a command": ["python3", "-c", "import sys; print(sys.argv[1:])", *WORDS],
}
MARKS = {" and ".join(names): [needs_programs(*names)] for names in TOOLS}


@pytest.fixture(scope="module")
def real() -> Iterator[Network]:
    with Emulation(star(2, Link(100.0, 0.0)), tier="privileged") as net:
        yield net


@pytest.fixture(scope="module")
def virtual() -> Iterator[VirtualNetwork]:
    with VirtualNetwork(star(2, Link(100.0, 0.0))) as net:
        yield net


def outcome(net: Network, command: list[str], folder: Path) -> subprocess.CompletedProcess:
    folder.mkdir()
    variables = [f"{name}={value}" for name, value in VARIABLES.items()]
    return net["h1"].run(["env", "-i", *variables, *command], check=False, folder=folder, input="", timeout=60)


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, [])) for name in COMMANDS])
def test_a_program_says_the_same_in_virtual_time_as_on_the_machine(name, real, virtual, tmp_path):
    folder = name.replace(" ", "-").replace(",", "")
    expected = outcome(real, COMMANDS[name], tmp_path / folder)
    came = outcome(virtual, COMMANDS[name], virtual.folder / folder)
    assert came.stdout == expected.stdout
    assert came.stderr == expected.stderr
    assert came.returncode == expected.returncode
    assert expected.stdout or expected.returncode, "a program that says nothing compares nothing"
