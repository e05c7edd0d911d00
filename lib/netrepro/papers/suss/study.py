"""SUSS as a Study: its claims, knobs and profiles."""

from __future__ import annotations

from functools import partial

import numpy as np

from netrepro.papers.suss.closed_form import (
    _of_size,
    _saved_at_line_rate_ms,
    answer,
    improvement,
    improvements,
    least_improvement,
)
from netrepro.papers.suss.experiments import (
    CASES,
    CLASS_MS,
    EXAMPLE_MB,
    FAIR,
    NEAR_MS,
    PARTS,
    PORT,
    SIZES_MB,
    SUSS,
    FifthFlow,
    Setting,
    experiment,
    read,
)
from netrepro.papers.suss.figures import (
    BROKEN,
    CARRIED,
    CUBIC,
    PUBLISHED_PERCENT,
    PUBLISHED_SAVING_MS,
    SAVED,
    SINCE_ACK,
    SINCE_DATA,
    SIZE,
    WINDOW,
    WITH_BBR,
    WITH_SUSS,
    _against_cubic,
    _both,
    _closed_ms,
    _draw_jumps,
    _example,
    _mended,
    _saving,
    draw_run,
)
from netrepro.study import VIRTUAL, Evidence, Gauge, Knob, Live, Play, Scale, Study, least_first, swept
from netrepro.study.evidence import ratio
from netrepro.study.figures import Course, Level, Panel, Picture, Published, Sweep, plot

OF_LATER = {
    "later, none": {"label": "no HyStart", "color": "#444444"},
    "later, hystart": CUBIC | {"label": "HyStart, mended"},
    "later, suss": WITH_SUSS | {"label": "SUSS, mended"},
    "later, not mended": {"label": "SUSS, not mended", "color": BROKEN["color"], "linestyle": "--"},
}
LARGE = "size_mb >= 16 and time_s <= 0.8"
NONE_SAVED = partial(improvements, case="none fourfold")
OF_100_MS = "round_trip_ms == 100 and buffer_bdp == 1"
_FINE_MB = tuple(float(size) for size in np.round(np.arange(0.02, 2.0, 0.02), 3))
_KNOB_SIZES = {"size_mb": swept(*SIZES_MB), "round_trip_ms": swept(75.0, 250.0), "mended": swept(False, True)}
LIVE = Live(
    {
        "completion_ms": Gauge("completion", "ms", {"table": "flows", "column": "completion_ms"}),
        "dropped_packets": Gauge(
            "packets dropped", "packets", {"table": "links", "column": "dropped_packets", "reduce": "sum"}
        ),
    },
    {"table": "windows", "column": "window_segments"},
    "window (segments)",
    {"round_trip_ms": (10.0, 25.0, 50.0, 100.0, 200.0, 300.0), "rate_mbps": (5.0, 20.0, 50.0, 100.0)}
    | {"size_mb": (0.5, 1.0, 2.0, 5.0), "suss_rounds": (0, 1, 2, 3)},
    lambda _: PORT,
    cases=("example, suss", "example, cubic"),
    broken={"example, suss": "example, none fourfold"},
)
STUDY = Study(
    slug="suss",
    setting=Setting(),
    parts=PARTS,
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    scales={
        "quick": Scale(repetitions=3, only={"round_trip_ms": (*NEAR_MS, 25.0, 75.0, 100.0, 250.0, *CLASS_MS)}),
        "paper": Scale(),
        "test": Scale(repetitions=2, only={"round_trip_ms": (1.0, 75.0, 100.0, *CLASS_MS), "buffer_bdp": (1.0,)}),
        ("quick", VIRTUAL): Scale(
            repetitions=2,
            changes={"module_cubic": True},
            only={
                "size_mb": (0.1, 0.5, 1.0, 2.0, 4.0, *EXAMPLE_MB, 5.0, 20.0),
                "round_trip_ms": (9.0, 100.0, 250.0, *CLASS_MS),
                "buffer_bdp": (1.0,),
            },
            without=[f"fifth, {name}" for name in ("cubic", "suss", "none fourfold")],
        ),
        ("paper", VIRTUAL): Scale(changes={"module_cubic": True}),
    },
    claims={
        "a-fifth-below-5-mb": Evidence("completion_s", *_against_cubic("fig12"), least_improvement),
        "fig10-two-seconds": Evidence("delivered_mb", *_against_cubic("fig10"), ratio),
        "example-saving": Evidence("completion_ms", *_against_cubic("example"), _saved_at_line_rate_ms),
        "example-improvement": Evidence("completion_s", *_against_cubic("example"), improvement),
        "example-exit": Evidence("exit_segments", "example, suss", "example, mended", _of_size(16.0)),
        "later-test-suss-time": Evidence("completion_s", "later, suss", "later, none fourfold", _of_size(5.0)),
        "later-test-hystart-time": Evidence("completion_s", "later, hystart", "later, none", _of_size(5.0)),
        "later-test-suss-losses": Evidence("dropped_packets", "later, suss", "later, not mended", _of_size(20.0)),
        "later-test-none-losses": Evidence("dropped_packets", "later, none", "later, hystart", _of_size(20.0)),
        "fifth-flow-joins-sooner": Evidence("fair_after_s", *_against_cubic("fifth"), least_first("suss", "cubic")),
    },
    knobs={
        "mended": Knob({"cubic": _KNOB_SIZES, "suss": _KNOB_SIZES | SUSS}, Scale()),
        "sizes": Knob({"cubic": {"size_mb": swept(*_FINE_MB)}, "suss": {"size_mb": swept(*_FINE_MB)} | SUSS}, Scale()),
    },
    figures={
        "fig10_two_seconds": plot(
            "Data carried over time (Fig. 10)",
            SINCE_DATA,
            CARRIED,
            Course("carried", "carried_mb", _both("fig10"), rows="time_s <= 2"),
            Published({2: 2}, "published, at 2 s"),
            Published({2: 7}, "published, at 2 s"),
        ),
        "fig12_improvement": Picture("Completion time saved (Fig. 12)", *map(_saving, ("min", "max"))),
        "example_constant_saving": Picture(
            "A constant saving, divided by a completion time that grows",
            _example(
                "saved (ms)",
                "saved_ms",
                PUBLISHED_SAVING_MS,
                Level(lambda runs: _closed_ms(runs.study.case("example, suss")), "closed form, {} ms", published=False),
            ),
            _example(SAVED, "percent", PUBLISHED_PERCENT),
        ),
        "later_test_windows": plot(
            "The authors' test of 2025: 50 Mb/s, 100 ms",
            SINCE_ACK,
            WINDOW,
            Course("windows", "window_segments", OF_LATER, rows="size_mb == 20 and time_s <= 2"),
            Published({0.55: 530, 0.35: 540}, "published exits"),
        ),
        "class_two_pictures": Picture(
            "What the class project saw: 12 MB",
            *(
                Panel(
                    SINCE_DATA,
                    CARRIED,
                    Course("carried", "carried_mb", _both("class"), rows=f"round_trip_ms == {round_trip_ms}"),
                    title=f"round trip {round_trip_ms:g} ms",
                )
                for round_trip_ms in CLASS_MS
            ),
        ),
        "class_completion": Picture(
            "The class's Figure 11: completion over size, from the same downloads",
            *(
                Panel(
                    SIZE,
                    "completion since the first data (s)",
                    Course(
                        "carried",
                        "time_s",
                        _both("class") | {"class, bbr": WITH_BBR},
                        "carried_mb",
                        f"round_trip_ms == {round_trip_ms}",
                    ),
                    title=f"round trip {round_trip_ms:g} ms",
                    y_range=(0, None),
                )
                for round_trip_ms in CLASS_MS
            ),
        ),
        "tiers_windows": Picture(
            "Windows, tier by tier",
            *(
                Panel(
                    SINCE_ACK, WINDOW, Course("windows", "window_segments", looks, rows=LARGE, tiers=True), title=title
                )
                for title, looks in (
                    ("the authors' example: HyStart with its fault", _both("example")),
                    ("the authors' test of 2025: mended", {"later, hystart": CUBIC, "later, suss": WITH_SUSS}),
                )
            ),
        ),
        "fairness_fifth_flow": Picture(
            "A fifth flow joins",
            *(
                Panel(
                    "time (s)",
                    "Jain's index",
                    Course("fairness", "jain", {case: look}, rows="time_s >= 70", every=True),
                    Level(FAIR, "{}: fair", published=False),
                    Level(FifthFlow().joins_s, "the fifth begins", published=False, upright=True),
                    y_range=(0.5, 1.01),
                )
                for case, look in _both("fifth").items()
            ),
        ),
        "control_no_fourfold_round": plot(
            "Broken on purpose (round trip of 100 ms)",
            SIZE,
            "saved (ms)",
            Sweep("size_mb", "saved_ms", improvements, looks={"suss": WITH_SUSS}, rows=OF_100_MS),
            Sweep("size_mb", "saved_ms", NONE_SAVED, looks={"none fourfold": BROKEN}, rows=OF_100_MS),
            Sweep("size_mb", "saved_ms", partial(improvements, name="near"), label="SUSS, round trips up to 9 ms"),
            log="x",
            y_range=(None, None),
        ),
        "knob_mended_hystart": Picture(
            "Both with the fault of HyStart, and both without", *map(_mended, _KNOB_SIZES["round_trip_ms"].values)
        ),
        "jumps_and_slopes": plot("Why the curve slopes down after each jump", SIZE, SAVED, _draw_jumps),
    },
    best=(
        "fig10_two_seconds",
        "fig12_improvement",
        "fairness_fifth_flow",
        "tiers_windows",
        "control_no_fourfold_round",
    ),
    play=Play(
        ("example, suss", "example, cubic", "later, suss", "later, not mended"),
        {
            "round_trip_ms": (10.0, 300.0, 5.0),
            "rate_mbps": (5.0, 200.0, 5.0),
            "size_mb": (0.1, 20.0, 0.1),
            "suss_rounds": (0, 3, 1),
        },
        draw_run,
        live=LIVE,
    ),
)
