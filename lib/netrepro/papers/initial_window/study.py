"""The initial window as a Study: its cases, claims and profiles."""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.figure import Figure

from netrepro.papers.initial_window.clients import NEW, OLD, PANELS, WINDOWS, Setting, published
from netrepro.papers.initial_window.experiments import (
    CLASS,
    MAPS,
    answer,
    class_experiment,
    experiment,
    gain_ms,
    gain_over,
    gain_percent,
    loss_ms,
    paired_loss_ms,
    published_gains,
    published_losses,
    rank_windows,
    read,
    resent_ratio,
)
from netrepro.papers.initial_window.figures import (
    IDLE_TIMES,
    OF_TIMES,
    WINDOW,
    _draw_symmetric_logarithm,
    _gain_by_path,
    _on_every_tier,
    _percentiles,
    _resent,
    by_window,
    draw_run,
    gains_by_responses,
)
from netrepro.study import VIRTUAL, Evidence, Gauge, Knob, Play, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.figures import Picture, Published, Sweep, beside, plot
from netrepro.study.live import LiveRun


def draw_network(setting: Setting) -> Figure:
    """Draw the class project's clients, because these are few."""
    asked = class_experiment(STUDY.case("class", setting), 0.0, 1)
    return drawing.draw_network(asked, "Every client asks the server over a link of its own (here those of the class)")


BOTH = {"initial_window_segments": swept(OLD, NEW)}
SLOW: dict[str, Any] = BOTH | {"centre": "slow"}
SHORT, DEEP, HELD = {"most_segments": 3}, {"buffer_kb": 1e6}, {"receive_window_segments": OLD}
THREE = swept(OLD, NEW, 42)
OF_MAPS: dict[str, Any] = BOTH | {"part": MAPS, "clients": lambda setting: max(1, setting.clients // 2)}
CASES: dict[str, dict[str, Any]] = {
    "average": {"initial_window_segments": swept(*WINDOWS)},
    "average, 3 segments": SHORT | {"initial_window_segments": swept(3, 6, 10, 16)},
    "average, held": BOTH | HELD,
    "average, deep buffers": BOTH | DEEP,
    "slow": SLOW,
    "slow, held": SLOW | HELD,
    "slow, deep buffers": SLOW | DEEP,
    "maps": OF_MAPS,
    "maps, one connection": OF_MAPS | {"connections": 1},
    "class": BOTH | {"part": CLASS},
    "nothing lost": DEEP
    | {
        "loss_scale": 0.0,
        "back_end_ms": 0.0,
        "initial_window_segments": THREE,
        "clients": lambda setting: max(1, setting.clients // 4),
    },
}
FEW = Scale(changes={"clients": 300})
NEED_MANY_CLIENTS = ("gain-over-size",)  # of few, a repetition may have no response of 31 to 50 segments
UP_TO_16_AND_42 = {"initial_window_segments": (3, 6, 10, 16, 42)}
OF_KERNEL = {"initial_rto_ms": 1000.0, "evenly": True}  # kernels have no other first timeout; few clients must do
_WAITS = {"table": "requests", "column": "completion_ms"}
LIVE = LiveRun(
    {
        "mean_ms": Gauge("mean latency", "ms", _WAITS),
        "p50": Gauge("median", "ms", _WAITS | {"reduce": "p50"}),
        "p95": Gauge("95th percentile", "ms", _WAITS | {"reduce": "p95"}),
        "timeouts": Gauge("timeouts", "a connection", {"table": "flows", "column": "timeouts"}),
    },
    _WAITS | {"distribution": True},
    "latency of a response (ms)",
    {"pacing": (False, True), "initial_window_segments": (3, 6, 10, 16, 42)}
    | {"buffer_kb": (16.0, 64.0, 256.0), "back_end_ms": (0.0, 200.0)},
    lambda _: ("s1", "h2"),
    cases=("average", "slow", "class"),
    changes={"clients": 60, "evenly": True},  # a page with more would be too large
)
STUDY = Study(
    slug="initial_window",
    setting=Setting(),
    parts=(MAPS, CLASS),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    until_complete=True,
    scales={
        "quick": Scale(changes={"clients": 500}, unjudged=NEED_MANY_CLIENTS),
        "paper": Scale(changes={"clients": 5_000}),
        "test": Scale(changes={"clients": 300}, unjudged=NEED_MANY_CLIENTS),
        ("quick", VIRTUAL): Scale(
            changes={"clients": 90} | OF_KERNEL, repetitions=4, only=UP_TO_16_AND_42, unjudged=NEED_MANY_CLIENTS
        ),
        ("paper", VIRTUAL): Scale(changes={"clients": 300} | OF_KERNEL, unjudged=NEED_MANY_CLIENTS),
        ("test", VIRTUAL): Scale(changes={"clients": 70} | OF_KERNEL, unjudged=NEED_MANY_CLIENTS),
    },
    claims={
        "average-gain": Evidence("mean_ms", "average", control="average, held", how=gain_percent),
        "slow-gain": Evidence("mean_ms", "slow", control="slow, held", how=gain_percent),
        "average-gain-ms": Evidence("mean_ms", "average", control="average, held", how=gain_ms),
        "slow-gain-ms": Evidence("mean_ms", "slow", control="slow, held", how=gain_ms),
        **{
            claim: Evidence("buckets", "average", control="average, held", how=partial(gain_over, panel))
            for claim, panel in (
                ("gain-over-round-trip", "round_trip_ms"),
                ("gain-over-rate", "rate_kbps"),
                ("gain-over-size", "size_segments"),
            )
        },
        "optimum": Evidence("mean_ms", "average", how=rank_windows),
        "retransmissions-average": Evidence(
            "resent_percent",
            "average",
            control="average, deep buffers",
            how=resent_ratio,
        ),
        "retransmissions-slow": Evidence("resent_percent", "slow", control="slow, deep buffers", how=resent_ratio),
        "parallel-connections-lose": Evidence(
            "responses", "maps", control="maps, one connection", how=paired_loss_ms, pooled=True
        ),
    },
    knobs={
        "buffer": Knob(
            {
                name: {"centre": "slow", "loss_scale": 0.0, "pacing": paced, "initial_window_segments": THREE}
                | {"buffer_kb": swept(8.0, 16.0, 32.0, 64.0, 128.0)}
                for name, paced in (("at once", False), ("paced", True))
            },
            FEW,
        ),
        "reuse": Knob({"average": BOTH | {"responses": swept(1, 2, 4, 8)}}, FEW),
    },
    figures={
        "fig2_latency_over_window": plot(
            "Mean latency over the initial window (Fig. 2)",
            WINDOW,
            "mean latency (ms)",
            Published(lambda _: published("windows").set_index("initial_window_segments").mean_ms, joined=True),
            Sweep("initial_window_segments", "mean_ms", {"average": OF_TIMES["mean_ms"]}),
            Sweep("initial_window_segments", "model_ms", {"average": OF_TIMES["model_ms"]}),
            Sweep("initial_window_segments", "pipelined_ms", {"average": IDLE_TIMES}),
            log="x",
        ),
        "table3_gain_by_percentile": Picture(
            "Gain of 10 over 3 segments (Table 3)",
            *(
                _percentiles(f"{centre} clients", centre, "gain (%)", gain_percent, partial(published_gains, centre))
                for centre in ("average", "slow")
            ),
        ),
        "fig5_gain_by_path": Picture(
            "Gain by path and size, average clients (Figs 5 and 7)",
            *(_gain_by_path(*panel) for panel in PANELS.items()),
        ),
        "table7_sent_again": Picture("Segments sent again (Table 7)", _resent("average"), _resent("slow")),
        "table8_parallel_connections": Picture(
            "Slow clients, 10 against 3 segments (Table 8)",
            *(
                _percentiles(title, case, "longer by (ms)", loss_ms, published_losses, _draw_symmetric_logarithm)
                for title, case in (
                    ("ten connections at once", "maps"),
                    ("one connection (published: ten)", "maps, one connection"),
                )
            ),
        ),
        "control_three_segments": plot(
            "Broken on purpose: responses of 3 segments at most",
            WINDOW,
            "mean latency (ms)",
            Sweep("initial_window_segments", "mean_ms", {case: case for case in ("average", "average, 3 segments")}),
            log="x",
        ),
        "closed_form_simulator_kernel": Picture(
            "Closed form, simulator, kernel", *map(_on_every_tier, ("nothing lost", "average"))
        ),
        "knob_buffer": beside(
            "Small buffers, nothing lost on the wire (slow clients)",
            "median buffer (kB)",
            {"mean_ms": "mean latency (ms)", "resent_percent": "segments sent again (%)"},
            lambda reading: Sweep("buffer_kb", reading, by_window, "curve"),
            log="x",
        ),
        "knob_reuse": plot(
            "Several responses over one connection",
            "responses over a connection (count)",
            "gain of 10 over 3 segments (%)",
            Sweep("responses", "gain", gains_by_responses),
        ),
    },
    best=(
        "fig2_latency_over_window",
        "table3_gain_by_percentile",
        "fig5_gain_by_path",
        "table7_sent_again",
        "control_three_segments",
    ),
    play=Play(
        ("average", "slow", "maps", "class"),
        {
            "initial_window_segments": (1, 64, 1),
            "buffer_kb": (4.0, 256.0, 4.0),
            "size_scale": (0.1, 10.0, 0.1),
            "back_end_ms": (0.0, 500.0, 10.0),
            "pacing": [False, True],
        },
        draw_run,
        live=LIVE,
    ),
)
