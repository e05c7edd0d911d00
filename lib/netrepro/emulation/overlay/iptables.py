"""The iptables program that works on this kernel, and its input."""

from __future__ import annotations

import functools
import subprocess

from netrepro.programs import need_program


@functools.cache
def iptables_program(ending: str = "") -> str:
    """Return the iptables program that works on this kernel: "iptables", or without nftables "iptables-legacy".

    ending : added to the name, such as "-restore".
    """
    done = subprocess.run([need_program("iptables"), "-S"], capture_output=True)
    return f"iptables{ending}" if not done.returncode else f"iptables-legacy{ending}"


def restore_input(**lines: list[str]) -> str:
    """Make the input of iptables-restore: table -> its lines, chains before rules."""
    ordered = {name: sorted(own, key=lambda line: line[0] != ":") for name, own in lines.items()}
    return "".join("\n".join([f"*{name}", *own, "COMMIT", ""]) for name, own in ordered.items())
