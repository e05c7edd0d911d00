"""Runs one function of the compiled core: core_process.py CORE, with the path of the compiled module.

Standard input is JSON: {"function": name, "arguments": keyword arguments}. The function shares counters through file
descriptor 3. It runs in a separate process, so that a notebook's interpreter and threads do not delay packets.
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
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    def ready() -> None:
        os.write(1, b"ready")
        os.close(1)

    getattr(module, work["function"])(**work["arguments"], shared_descriptor=3, ready=ready)


if __name__ == "__main__":
    main(*sys.argv[1:])
