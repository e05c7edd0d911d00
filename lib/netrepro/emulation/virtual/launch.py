"""Start a kernel and end it with its owner: a separate program between `Instance` and the kernel.

The launcher is the kernel's parent, for two reasons. A kernel that asked to end with its parent would end with the
owner's thread that started it. And the owner needs no code between fork and exec, where its other threads may hold
locks.

Root inside, and kernel modules, could use all rights that the user has on this machine. So Landlock confines the kernel
to its own folder: elsewhere it can create, write, truncate and remove nothing, and it opens no TCP connection of the
machine. It can still read what the user may read, and change rights and times of the user's files.
"""

import ctypes
import os
import resource
import signal
import struct
import sys

_NO_RANDOM_ADDRESSES = 0x0040000
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_WAKES = (signal.SIGCHLD, signal.SIGUSR1)
LIBC = ctypes.CDLL(None)
# Landlock's system calls, the same on every processor, and its constants (linux/landlock.h).
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _ASK_VERSION, _PATH_BENEATH = 444, 445, 446, 1, 1
_NO_NEW_PRIVILEGES = 38
# Rights on files that are taken away, by the first Landlock version that knows them: writing, creating and removing of
# each kind; moving between folders; truncating.
_WRITES = {1: 1 << 1 | 0b1_1111_1111 << 4, 2: 1 << 13, 3: 1 << 14}
_TCP, _OTHERS = {4: 0b11}, {6: 0b11}  # bind and connect; abstract sockets of, and signals to, processes outside


def landlock_version() -> int:
    """Return the version of the machine's Landlock; 0 where it has none."""
    return max(LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION), 0)


def hold_to(folder: str) -> None:
    """Let this process and its children write only to this folder; without Landlock, do nothing.

    Raises OSError where Landlock refuses.
    """
    version = landlock_version()
    if not version:
        return
    writes, tcp, others = (
        sum(words for first, words in kind.items() if first <= version) for kind in (_WRITES, _TCP, _OTHERS)
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    asked = struct.pack("=3Q", writes, tcp, others)[:size]
    rules = LIBC.syscall(_CREATE_RULESET, asked, ctypes.c_size_t(size), 0)
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    failed = LIBC.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", writes, at), 0)
    if rules < 0 or failed or LIBC.syscall(_RESTRICT_SELF, rules, 0):
        raise OSError(0, f"it cannot be held to {folder}")
    os.close(at)
    os.close(rules)


def launch(owner: int, processor: int | None, folder: str, command: list[str]) -> int:
    """Run the command until it or the owner ends; return its exit status as a shell does (128 + signal).

    owner : process id. processor : number of the processor, None for any. folder : the only folder that the command may
    write to.
    """
    LIBC.personality(ctypes.c_ulong(_NO_RANDOM_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0)  # programs inside have their own
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # a program inside needs three
    if processor is not None:
        os.sched_setaffinity(0, {processor})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_WAKES, signal.SIGINT))
    LIBC.prctl(_DIE_WITH_PARENT, signal.SIGUSR1)  # also sent when only the owner's thread that started this ends
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if os.getppid() == launcher:
                hold_to(folder)
                os.execv(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    while os.getppid() == owner:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        signal.sigwait(_WAKES)
    os.kill(child, signal.SIGKILL)
    if os.getsid(0) == launcher:  # ends the programs inside, too
        os.killpg(launcher, signal.SIGKILL)
    return 1


if __name__ == "__main__":
    sys.exit(launch(int(sys.argv[1]), int(sys.argv[2]) if sys.argv[2] else None, sys.argv[3], sys.argv[4:]))
