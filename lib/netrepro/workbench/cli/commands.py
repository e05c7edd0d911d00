"""The command line: each command calls a function that a notebook can call too."""

from __future__ import annotations

import io
import re
import signal
import sys
from pathlib import Path

from netrepro.errors import NetreproError

# Each registers its commands, and their order is that of the help.
from netrepro.workbench.cli import run_commands, tool_commands, verdict_commands, writing_commands  # noqa: F401
from netrepro.workbench.cli.console import print_lines
from netrepro.workbench.cli.options import app


def _has_folder() -> bool:
    """Tell whether the working directory is still there."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def main() -> None:
    """Run the command line. A NetreproError or a missing extra is printed and gives exit code 2, Ctrl-C gives 130."""
    # A shell starts background jobs with this signal ignored; a person who sends it wants to stop them, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs shows question marks
    try:
        if not _has_folder():
            raise NetreproError("the working directory is gone", "change into another")
        if empty := [word for word in sys.argv[1:] if not word or re.fullmatch(r"--[\w-]+=", word)]:
            raise NetreproError(f"an empty value ({empty[0]!r})", "give one; is a variable of the shell not set?")
        app()
    except (NetreproError, ModuleNotFoundError) as error:
        from netrepro.extras import what_is_missing

        told = what_is_missing(error) if isinstance(error, ModuleNotFoundError) else error
        if told is None:
            raise
        print_lines([f"netrepro: {told}"], "red")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
