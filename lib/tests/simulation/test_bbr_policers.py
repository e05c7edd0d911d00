"""BBR's long-term bandwidth, as Linux's bbr_lt_bw_sampling has it: when a policer is noticed, and what follows.

A small program gives the congestion control acknowledgements whose losses and rates are known exactly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import groupby
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core"
COMPILER = next(filter(None, map(shutil.which, (os.environ.get("CXX") or "c++", "g++", "clang++"))), "c++")
SEGMENT_BYTES, PACING_MARGIN = 1448, 0.99
# Arguments: rounds; of each round, from round `begins` on: segments lost of a hundred, and segments a second; then what
# happens in one round: "limited" (by the application), "undo", or "none".
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "congestion/bbr.cpp"
int main(int, char** words) {
  const int rounds = std::atoi(words[1]), begins = std::atoi(words[2]), event_round = std::atoi(words[6]);
  const double lost_of_hundred = std::atof(words[3]), rate = std::atof(words[4]);
  TcpSettings settings{};
  settings.segment_bytes = 1448;
  settings.initial_window = 10;
  Bbr control({settings, nullptr, 0, 3});
  CongestionWindow window{10, 1e18};
  Time now = 0;
  const Time round_trip = picoseconds_per_second / 25;
  control.on_connected(window, round_trip, now);
  double delivered = 0, lost = 0;
  for (int round = 0; round < rounds; ++round) {
    const double before = delivered, segments_a_second = round < begins ? 1000 : rate;
    const double in_round = segments_a_second / 25;
    const bool at_event = round == event_round;
    if (at_event && !std::strcmp(words[5], "undo")) control.on_undo();
    for (int answer = 0; answer < 10; ++answer) {
      RateSample sample{};
      sample.now = sample.delivered_at = sample.next_departure = now += round_trip / 10;
      sample.newly_delivered = in_round / 10;
      sample.newly_lost = round < begins ? 0 : in_round / 10 * lost_of_hundred / 100;
      sample.total_delivered = delivered += sample.newly_delivered;
      sample.total_lost = lost += sample.newly_lost;
      sample.delivered = in_round;
      sample.interval = round_trip;
      sample.prior_delivered = answer == 0 ? before : before - 1;
      sample.round_trip = round_trip;
      sample.application_limited = at_event && !std::strcmp(words[5], "limited");
      control.on_rate_sample(window, sample);
    }
    std::printf("%.6f\n", control.pacing_rate());
  }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bbr")
    (folder / "main.cpp").write_text(PROGRAM, encoding="utf-8")
    command = [COMPILER, "-std=c++20", "-O0", f"-I{CORE}", "-o", folder / "main", folder / "main.cpp"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:3000]
    return folder / "main"


def gains(program: Path, rounds: int, lost: float, rate: float = 800, event: str = "none", at: int = -1) -> list[float]:
    """The pacing rate at the end of each round after the first twenty, over the rate of delivery."""
    words = [program, str(rounds), "20", str(lost), str(rate), event, str(at)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [float(line) / (SEGMENT_BYTES * PACING_MARGIN * rate) for line in text.split()[20:]]


def steady(of: list[float]) -> list[tuple[int, int]]:
    """(First round, number of rounds) of each run at gain 1 that is longer than a cycle of gains, of eight rounds."""
    runs, first = [], 0
    for value, rounds in groupby(round(gain, 3) for gain in of):
        count = len(list(rounds))
        if value == 1 and count > 8:
            runs.append((first, count))
        first += count
    return runs


def test_two_lossy_intervals_alike_show_a_policer_whose_rate_is_kept_for_48_rounds(program):
    found = gains(program, 90, lost=25)
    # Sampling begins with the first loss; four rounds are an interval, and four more another one.
    ((first, count),) = steady(found)
    assert first == 7 and count == 48
    assert max(found[first + count : first + count + 9]) > 1.2, "it probes again"


@pytest.mark.parametrize("lost", [5, 19])
def test_fewer_losses_than_a_fifth_show_none(program, lost):
    # 50/256 of what is delivered, to be exact: 19.5 of a hundred. From round 10 on the old rate is forgotten.
    assert not steady(gains(program, 90, lost)[12:])
    assert steady(gains(program, 90, 20)[7:])


def test_a_pause_of_the_application_starts_the_search_anew(program):
    ((first, _),) = steady(gains(program, 40, lost=25))
    ((later, _),) = steady(gains(program, 40, lost=25, event="limited", at=26))
    assert later >= first + 3


def test_an_undone_recovery_ends_the_use_of_the_policers_rate(program):
    found = gains(program, 56, lost=25, event="undo", at=40)
    first, count = steady(found)[0]
    # It may be at gain 1 in the cycle that it resumes.
    assert 20 <= first + count <= 26 and max(found[20:28]) > 1.2
