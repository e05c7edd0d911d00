"""The examples of lib/core/README.md run as they stand, each with the line that the page says it takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from netrepro.networks import queues

CORE = Path(__file__).parents[1] / "core"
README = (CORE / "README.md").read_text(encoding="utf-8")
EXAMPLES = {text.split(":")[0].removeprefix("// "): text for text in re.findall(r"```cpp\n(.*?)```", README, re.S)}
COMPILER = next(filter(None, map(shutil.which, (os.environ.get("CXX") or "c++", "g++", "clang++"))), "c++")

# Files with a list of all parts of one kind: after what the line of a new part comes, and that line.
LINES = {
    "queues/queue_rules.hpp": ("queues/coin_flip.hpp", "std::variant<DropTail", ", CoinFlip"),
    "congestion/congestion_controls.cpp": ("congestion/half_again.hpp", "} registry[] = {", None),
    "multipath/subflow_schedulers.cpp": ("multipath/only_backup.hpp", "} registry[] = {", None),
}


def with_its_line(name: str) -> str:
    """The core's list with the example in it."""
    example, place, line = LINES[name]
    line = line or next(text for text in re.findall(r"`(\{[^`]*\},)`", README) if Path(example).stem in text)
    text = (CORE / name).read_text(encoding="utf-8")
    assert text.count(place) == 1
    text = text.replace(place, place + line)
    first = text.index("#include")
    return f'{text[:first]}#include "{example}"\n{text[first:]}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page adds to the core, in a folder that the compiler looks into first."""
    made = tmp_path_factory.mktemp("core")
    for name, text in {**EXAMPLES, **{name: with_its_line(name) for name in LINES}}.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text, encoding="utf-8")
    return made


def run(folder: Path, program: str) -> str:
    (folder / "main.cpp").write_text(program)
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Wno-missing-field-initializers"]
    command = [COMPILER, "-std=c++20", "-O0", *warnings, "-Werror", f"-I{folder}", f"-I{CORE}"]
    built = subprocess.run([*command, "-o", folder / "main", folder / "main.cpp"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:3000]
    return subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout


def test_there_is_a_short_example_of_each_kind():
    assert {"queues/coin_flip.hpp", "congestion/half_again.hpp", "multipath/only_backup.hpp"} == set(EXAMPLES)
    assert all(len(example.splitlines()) <= 41 for example in EXAMPLES.values()), "too long to read at once"


def test_the_queue_drops_every_other_packet_and_what_is_beyond_its_limit(folder):
    program = r"""
#include <cstdio>
#include "queues/ruled_fifo.hpp"
int main() {
  RuledFifo queue(queue_rule_named("coin_flip", {3}, QueuePlace{}));
  std::vector<QueuedPacket> dropped;
  for (std::uint32_t name = 0; name < 8; ++name) queue.join({.name = name, .bytes = 1514}, 0, dropped);
  for (const auto& packet : dropped) std::printf("%u ", packet.name);
}
"""
    assert run(folder, program).split() == ["1", "3", "5", "6", "7"]


def test_the_congestion_control_grows_by_half_a_segment_a_round_trip_and_falls_by_a_tenth(folder):
    program = r"""
#include <cstdio>
#include "congestion/bbr.cpp"
#include "congestion/bbr3.cpp"
#include "congestion/cubic.cpp"
#include "congestion/prague.cpp"
#include "congestion/suss.cpp"
#include "congestion/congestion_controls.cpp"
int main() {
  TcpSettings settings{};
  settings.initial_window = 10;
  const auto control = control_named("half_again")({settings, nullptr, 0, 0});
  CongestionWindow window{20, 10};
  Delivery delivery{};
  delivery.window_limited = true, delivery.segments = 20;
  control->grow(window, delivery);
  std::printf("%g %g", window.segments, control->ssthresh_after_loss({30, 10}));
}
"""
    assert run(folder, program) == "20.5 27"


def test_the_backup_carries_only_what_another_subflow_is_silent_about(folder):
    program = r"""
#include <cstdio>
#include "multipath/subflow_schedulers.cpp"
int main() {
  const auto scheduler = scheduler_named("only_backup")();
  const SubflowScheduler::Stream fine{3, 8, true, std::nullopt}, silent{3, 8, true, 5};
  const auto of_first = scheduler->segment_for(0, fine), of_backup = scheduler->segment_for(1, fine);
  std::printf("%d %d %d", static_cast<int>(*of_first), of_backup.has_value(),
              static_cast<int>(*scheduler->segment_for(1, silent)));
}
"""
    assert run(folder, program) == "8 0 5"


def test_the_queue_in_python_is_a_description_like_the_others():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    names = dict(vars(queues))
    exec(code, names)
    assert names["CoinFlip"](50).rule() == ("coin_flip", (50,))
    with pytest.raises(queues.NetreproError, match="packets"):
        names["CoinFlip"](0)
