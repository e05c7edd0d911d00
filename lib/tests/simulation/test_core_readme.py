"""What the core's pages name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core"


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
