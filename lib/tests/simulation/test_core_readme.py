"""The examples of lib/core/README.md are what the core takes; what its pages name is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core"
USES = {
    "CoinFlip": '#include "queues/queue_rule.hpp"\n#include "queues/queue_numbers.hpp"\n',
    "HalfAgain": "#include <memory>\n",
    "OnlyBackup": "#include <memory>\n",
}
CHECKS = {
    "CoinFlip": "",
    "HalfAgain": "std::unique_ptr<CongestionControl> make(const ControlContext& context) {\n"
    "  return std::make_unique<HalfAgain>(context);\n}\n",
    "OnlyBackup": "std::unique_ptr<SubflowScheduler> make() { return std::make_unique<OnlyBackup>(); }\n",
}


@pytest.mark.parametrize("name", USES)
def test_an_example_compiles(name, tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    found = re.findall(r"```cpp\n(.*?)```", (CORE / "README.md").read_text(), re.DOTALL)
    (example,) = (code for code in found if f"class {name}" in code)
    assert len(example.splitlines()) <= 40
    (tmp_path / "example.hpp").write_text(example)
    (tmp_path / "example.cpp").write_text(f'{USES[name]}#include "example.hpp"\n{CHECKS[name]}')
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{CORE}"]
    done = subprocess.run([compiler, *flags, tmp_path / "example.cpp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["README.md", "one_packet.md"])
def test_every_file_and_folder_that_a_page_names_exists(page):
    named = re.findall(r"`(\w+/(?:\w+\.[ch]pp)?)`", (CORE / page).read_text())
    assert len(named) > 5
    assert [name for name in named if not (CORE / name).exists()] == []


def test_every_function_on_the_way_of_a_packet_exists():
    headers = [path.read_text() for path in CORE.rglob("*.hpp")]
    named = re.findall(r"`(\w+)::(\w+)`", (CORE / "one_packet.md").read_text())
    assert len(named) > 30
    missing = [
        f"{owner}::{function}"
        for owner, function in named
        if not any(
            re.search(rf"^(class|struct) (alignas\(\d+\) )?{owner}\b", text, re.MULTILINE)
            and re.search(rf"\b{function}\(", text)
            for text in headers
        )
    ]
    assert missing == []
