"""Where files can be written, and what the question leaves behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import pathlib, sys
from netrepro.errors import NetreproError
from netrepro.paths import check_writable
place = pathlib.Path(sys.argv[1])
(place / "full").write_bytes(bytes(2**20))
try:
    check_writable(place / "runs/quick")
except NetreproError as error:
    print(error.problem)
print(sorted(path.name for path in place.iterdir()))
"""


def test_a_full_disk_is_noticed_and_gets_no_empty_file(tmp_path):
    """On a real file system of 1 MB, mounted in a mount namespace of its own."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    tried = subprocess.run([*unshare, "true"], capture_output=True)
    if tried.returncode:
        pytest.skip(f"needs user namespaces: {tried.stderr.decode().strip()}")
    script = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3" "$1"'
    command = [*unshare, "sh", "-c", script, "sh", str(tmp_path), sys.executable, ASK]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "No space left on device" in done.stdout.splitlines()[0], done.stderr
    assert done.stdout.splitlines()[1] == "['full']"
