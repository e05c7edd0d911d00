"""Starting programs of many hosts, each as a fork of this process, which has already imported their modules.

In virtual time an import costs as much as a thousand system calls, and a fork hardly anything. Standard input is one
line of JSON: `imports`, and `programs`, each with its `file`, the `namespace` of its host (a descriptor of the first
process), the files `output` and `errors`, and its `work`. This process writes the programs' process ids and ends; the
kernel's first process then adopts them.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

NEW_NETWORK = 0x40000000


def become(program: dict[str, Any]) -> None:
    """Turn this process into a program on its host."""
    os.setsid()
    namespace = os.open(f"/proc/1/fd/{program['namespace']}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)
    for place, name in ((1, "output"), (2, "errors")):
        file = os.open(program[name], os.O_WRONLY | os.O_APPEND)
        os.dup2(file, place)
        os.close(file)
    sys.stdin = io.StringIO(json.dumps(program["work"]) + "\n")


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    for module in asked["imports"]:
        importlib.import_module(module)
    processes = []
    for program in asked["programs"]:
        process = os.fork()
        if process == 0:
            become(program)
            runpy.run_path(str(Path(__file__).with_name(program["file"])), run_name="__main__")
            return
        processes.append(process)
    sys.stdout.write(json.dumps(processes) + "\n")


main()
