"""Runs one function of the compiled core: core_process.py CORE; what to run as JSON on standard input.

{"function": its name, "arguments": its keywords, "real_time": whether to ask for a priority above programs,
"processor": the one to stay on, or null}. The function shares counters through descriptor 3. A process of its own, so
that neither a notebook's interpreter nor its other threads delay packets.
"""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import json
import os
import resource
import sys


def main(core: str) -> None:
    loader = importlib.machinery.ExtensionFileLoader("netrepro._core", core)
    spec = importlib.util.spec_from_file_location("netrepro._core", core, loader=loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    work = json.load(sys.stdin)
    gc.disable()
    priority = "ordinary"
    if work["real_time"]:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
            priority = "real-time"
        except OSError:
            pass
    if work["processor"] is not None:
        os.sched_setaffinity(0, {work["processor"]})
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    def ready() -> None:
        os.write(1, priority.encode())
        os.close(1)

    getattr(module, work["function"])(**work["arguments"], shared_descriptor=3, ready=ready)


if __name__ == "__main__":
    main(*sys.argv[1:])
