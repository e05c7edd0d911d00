"""The pages about conformance say what happens: their programs and examples run, and their tables are complete."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import netrepro.conformance
from netrepro.applications import own_control
from netrepro.conformance import PASS, conform, load_controls
from netrepro.paths import all_data

HOME = Path(netrepro.conformance.__file__).parent
INTERFACE = (HOME / "a_control_as_a_program.md").read_text(encoding="utf-8")
CONFORMANCE = (HOME / "conformance.md").read_text(encoding="utf-8")
EXAMPLES = all_data() / "conformance" / "examples"


def verdicts(command: str) -> dict[str, str]:
    return {each.sentence.id: each.verdict for each in conform(command, ["rfc"]).judged}


def test_the_programs_in_c_and_python_follow_rfc_5681_and_are_as_long_as_is_said(tmp_path):
    lengths = [len((EXAMPLES / name).read_text().splitlines()) for name in ("control.py", "control.c")]
    assert f"in {lengths[0]} and {lengths[1]} lines" in INTERFACE and max(lengths) < 80
    program = tmp_path / "control"
    subprocess.run(["/usr/bin/env", "cc", "-Wall", "-Werror", "-O2", "-o", program, EXAMPLES / "control.c"], check=True)
    in_c, in_python = verdicts(str(program)), verdicts(str(EXAMPLES / "control.py"))
    assert in_c == in_python and list(in_c.values()).count(PASS) >= 30
    assert "fail" not in in_c.values()


def test_the_interfaces_page_has_its_version_and_every_event_key_and_action():
    assert f"version {own_control.INTERFACE_VERSION} of the interface" in INTERFACE
    described = set(re.findall(r"`(\w+)`", INTERFACE)) | set(re.findall(r'"do": "(\w+)"', INTERFACE))
    module = own_control.__doc__ or ""
    used = set(re.findall(r'"(?:event|do)": "(\w+)"', module)) | set(re.findall(r'"(\w+)":', module)) - {"event", "do"}
    assert used <= described


def test_the_example_in_python_runs():
    (example,) = re.findall(r"```python\n(.*?)```", CONFORMANCE, re.DOTALL)
    exec(compile(example, "conformance.md", "exec"), {"print": lambda *_: None})


def test_the_page_names_every_known_control():
    assert all(f"`{name}`" in CONFORMANCE for name in load_controls().controls)
