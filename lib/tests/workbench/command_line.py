"""The command line in this process: what `netrepro WORDS` prints and how it ends, without a start of Python."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from netrepro.workbench.cli import commands as cli


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Execute the command as if its output went to a pipe and nothing could be typed."""
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["netrepro", *words])
        patch.setattr(sys, "stdin", io.StringIO())
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    said, complained = (stream.buffer.getvalue().decode() for stream in (output, errors))
    return subprocess.CompletedProcess(words, code, said, complained)
