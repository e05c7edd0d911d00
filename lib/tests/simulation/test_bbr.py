"""BBR version 1 by small programs that give it acknowledgements whose losses and rates are known exactly.

Of its long-term bandwidth, as Linux's bbr_lt_bw_sampling has it: when a policer is noticed, and what follows. Of its
probes of the round trip: where the gain cycle begins after each, and which window is kept.
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
# Arguments of the policers' program: rounds; of each round, from round `begins` on: segments lost of a hundred, and
# segments a second; then what happens in one round: "limited" (by the application), "undo", or "none".
POLICERS = r"""
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
  Bbr control({settings, nullptr, 0, 11});  // with 11 the cycle after the policer begins with the probe
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


# After each of 60 probes of the round trip: the gain of pacing. Or, of a sender that the application limits, the window
# after one probe: of 50 segments at a loss, and of 30 when the probe begins.
PROBES = r"""
#include <cstdio>
#include "congestion/bbr.cpp"
int main(int arguments, char**) {
  const bool one_probe = arguments > 1;
  TcpSettings settings{};
  settings.segment_bytes = 1448;
  settings.initial_window = 10;
  Bbr control({settings, nullptr, 0, 0x9E3779B97F4A7C15u});
  CongestionWindow window{10, 1e18};
  Time now = 0;
  const Time round_trip = picoseconds_per_second / 25;
  control.on_connected(window, round_trip, now);
  if (one_probe) {
    window.segments = 50;
    control.ssthresh_after_loss(window);
    window.segments = 30;
  }
  double delivered = 0;
  for (int probes = 0; probes < (one_probe ? 1 : 60);) {
    const bool was_probing = window.segments <= 4;
    RateSample sample{};
    sample.now = sample.delivered_at = sample.next_departure = now += round_trip;
    sample.newly_delivered = sample.delivered = one_probe ? 1 : 40;
    sample.prior_delivered = delivered;
    sample.total_delivered = delivered += sample.delivered;
    sample.interval = sample.round_trip = round_trip;
    sample.in_flight = sample.in_flight_before = was_probing ? 4 : 40;
    sample.application_limited = one_probe;
    if (one_probe && !was_probing) window.segments = 30;
    control.on_rate_sample(window, sample);
    if (!was_probing || window.segments <= 4) continue;
    ++probes;
    std::printf("%.6f\n", one_probe ? window.segments : control.pacing_rate() / (1000 * 1448 * 0.99));
  }
}
"""


def built(folder: Path, program: str) -> Path:
    (folder / "main.cpp").write_text(program, encoding="utf-8")
    command = [COMPILER, "-std=c++20", "-O0", f"-I{CORE}", "-o", folder / "main", folder / "main.cpp"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:3000]
    return folder / "main"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("policers"), POLICERS)


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("probes"), PROBES)


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


def test_after_each_probe_of_the_round_trip_the_cycle_begins_at_any_gain_but_the_draining_one(probes):
    """One of seven phases begins with the probe (bbr_reset_probe_bw_mode), late in a long run as well as early."""
    text = subprocess.run([probes], capture_output=True, text=True, check=True).stdout
    found = [round(float(line), 2) for line in text.split()]
    assert set(found) == {1.0, 1.25}
    for part in (found[:30], found[30:]):
        assert 0 < part.count(1.25) < 12  # of thirty draws; 4.3 on average


def test_a_probe_of_the_round_trip_gives_back_a_larger_window_that_was_saved_before(probes):
    """bbr_update_min_rtt changes the mode before it calls bbr_save_cwnd, which then keeps the larger one."""
    text = subprocess.run([probes, "one"], capture_output=True, text=True, check=True).stdout
    assert 50 <= float(text) <= 51
