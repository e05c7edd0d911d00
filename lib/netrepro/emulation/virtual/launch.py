"""Start a kernel and end it with its owner: a program of its own, between `Instance` and the kernel.

It is the kernel's parent, because a kernel that asked to end with its parent would end with the thread that started it.
Nor is anything left to do between fork and exec in the owner, where other threads may hold locks.
"""

import ctypes
import os
import resource
import signal
import sys

_NO_RANDOM_ADDRESSES = 0x0040000
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_WAKES = (signal.SIGCHLD, signal.SIGUSR1)
LIBC = ctypes.CDLL(None)


def launch(owner: int, processor: int | None, command: list[str]) -> int:
    """Run the command on a processor (None: any) until it ends; return its status, as a shell would say it."""
    LIBC.personality(ctypes.c_ulong(_NO_RANDOM_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if processor is not None:
        os.sched_setaffinity(0, {processor})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_WAKES, signal.SIGINT))
    LIBC.prctl(_DIE_WITH_PARENT, signal.SIGUSR1)  # also when only the thread that started this ends
    launcher = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if os.getppid() == launcher:
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
    if os.getsid(0) == launcher:  # with the programs inside
        os.killpg(launcher, signal.SIGKILL)
    return 1


if __name__ == "__main__":
    sys.exit(launch(int(sys.argv[1]), int(sys.argv[2]) if sys.argv[2] else None, sys.argv[3:]))
