"""TCP pacing as a Study: its cases, claims, knobs and profiles."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from netrepro.papers.tcp_pacing.experiments import CORE, PAYLOAD, Setting, experiment, together_experiment
from netrepro.papers.tcp_pacing.figures import BOTH, PACED_LOOK, RENO, _course, _holds, _windows, answer, draw_run, gain
from netrepro.papers.tcp_pacing.readings import MANY, MIXED, SHARE, TWO, read
from netrepro.study import (
    DROPPED_PACKETS,
    GOODPUT_OF_FLOWS,
    VIRTUAL,
    Evidence,
    Gauge,
    Knob,
    Live,
    Play,
    Scale,
    Study,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first, least_first, ratio
from netrepro.study.figures import Bars, Level, Panel, Picture, Published, Sweep, beside, plot
from netrepro.style import scheme


def draw_network(setting: Setting) -> Figure:
    """Draw the dumbbell, with the fifty flows' rate and buffer."""
    made = together_experiment(STUDY.case("fifty reno", setting), 10.0, 1)
    return drawing.draw_network(made, "Fifty senders, one bottleneck (packets of 576 bytes)")


STAGGERED = {"color": scheme("control").colour, "label": "paced, start within 10 s"}
OF_FIFTY = {"fifty reno": RENO, "fifty paced": PACED_LOOK}
FIFTY: dict[str, Any] = {"part": MANY, "rate_mbps": 57.0, "buffer_packets": 312}
CLASS = {"part": MANY, "flows": 5, "rate_mbps": 5.0, "packet_bytes": 1514, "initial_window_segments": 10}
CLASS |= {"recovery": "linux", "delayed_ack_ms": 40.0}
TRIPS: dict[str, Any] = {"part": TWO, "rate_mbps": 20.0, "buffer_packets": 312}
SAME = {"far_round_trip_ms": lambda setting: setting.round_trip_ms}
MIX: dict[str, Any] = {"part": MIXED, "rate_mbps": 25.0, "buffer_packets": lambda setting: setting.buffer_of(0.25)}
SHORT = {"size_packets": 300, "transfers": 10, "every_s": 15.0}
ROUNDS_150 = {"seconds": 15.0}
INITIAL = {"seconds": 2.8}  # 28 round trips: twice the time of the collapse in Fig. 8
PACED, RED, DEEP = {"paced": True}, {"red": True}, {"buffer_packets": 108}
COURSE_S = swept(*(float(second) for second in range(1, 31)))
UNTIL_20_S = {"seconds": swept(*COURSE_S.values[:20])}


def _senders(changes: dict[str, Any], name: str = "{}") -> dict[str, dict[str, Any]]:
    """Make a case for Reno and one for paced senders; "{}" in the name stands for "reno" and "paced"."""
    return {name.format("reno"): changes, name.format("paced"): PACED | changes}


CASES: dict[str, dict[str, Any]] = {
    **_senders({}),
    **_senders(ROUNDS_150, "{}, 150 round trips"),
    **_senders(DEEP | ROUNDS_150, "{}, deep buffer, 150 round trips"),
    **_senders(FIFTY, "fifty {}"),
    **_senders(FIFTY | RED, "fifty {}, RED"),
    "fifty paced, random starts": FIFTY | PACED | {"starts_within_s": 10.0},
    **_senders(FIFTY | INITIAL, "fifty {}, at first"),
    **_senders(FIFTY | RED | INITIAL, "fifty {}, RED, at first"),
    **_senders(TRIPS, "two round trips {}"),
    **_senders(TRIPS | SAME, "one round trip {}"),
    "mixed, two paced": MIX | PACED,
    "mixed, none paced": MIX,
}


def _pair(name: str) -> tuple[str, str]:
    return name.format("reno"), name.format("paced")


TWO_TRIPS, ONE_TRIP = _pair("two round trips {}"), _pair("one round trip {}")
TRIPS_AND_CONTROLS = {
    name: dict(zip(pair, BOTH.values(), strict=True))
    for name, pair in (("100 and 280 ms", TWO_TRIPS), ("all 100 ms", ONE_TRIP))
}


def _knob(cases: dict[str, dict[str, Any]], seconds: float, repetitions: int = 3) -> Knob:
    return Knob(cases, Scale(seconds), repetitions, quick=Scale(seconds, repetitions=2))


RENO_FIRST, PACED_FIRST = greatest_first("reno", "paced"), greatest_first("paced", "reno")
LIVE = Live(
    {
        "goodput_mbps": Gauge("goodput", "Mb/s", GOODPUT_OF_FLOWS),
        "dropped_share": DROPPED_PACKETS,
    },
    {"table": "windows", "column": "window_bytes", "times": 1e-3},
    "window of a flow (kB)",
    {"buffer_packets": (5, 10, 25, 50, 100, 250, 500, 1000), "slow_start_ratio": (1.0, 1.5, 2.0, 3.0, 4.0)}
    | {"recovery": ("reno", "newreno", "sack", "linux")},
    lambda _: CORE,
    cases=("reno", "paced"),
    broken={"paced": "reno"},
)
STUDY = Study(
    slug="tcp_pacing",
    setting=Setting(),
    parts=(SHARE, MANY, TWO, MIXED),
    repetitions=10,
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    scales={
        "quick": Scale(30.0, repetitions=5, changes={"many_s": 20.0}),
        "paper": Scale(120.0),
        # Linux's senders; in the simulator beside them, too
        ("quick", VIRTUAL): Scale(
            20.0,
            repetitions=2,
            changes={"recovery": "linux", "many_s": 12.0, "trips_s": 30.0},
            without=("fifty paced, random starts",),
        ),
        ("paper", VIRTUAL): Scale(60.0, changes={"recovery": "linux"}),
    },
    claims={
        "reno-leaves-slow-start": Evidence("exit_packets", "reno", control="paced"),
        "paced-leaves-slow-start": Evidence("exit_packets", "paced", control="reno"),
        "sawtooth-top": Evidence("top_packets", ("reno", "paced"), how=lambda *tops: sum(tops) / 2),
        "single-flow-gain": Evidence(
            "carried_mbit",
            _pair("{}, 150 round trips")[::-1],
            control=_pair("{}, deep buffer, 150 round trips")[::-1],
            how=PACED_FIRST,
        ),
        "paced-peak-of-fifty": Evidence("peak_packets", "fifty paced", control="fifty reno"),
        "paced-collapse-of-fifty": Evidence("least_packets", "fifty paced", control="fifty paced, random starts"),
        "reno-peak-of-fifty": Evidence("peak_packets", "fifty reno", control="fifty paced"),
        "reno-better-at-first": Evidence(
            "carried_mbit",
            _pair("fifty {}, at first"),
            control=_pair("fifty {}, RED, at first"),
            how=RENO_FIRST,
        ),
        "paced-flows-lose-together": Evidence(
            "first_loss_share", _pair("fifty {}")[::-1], ("fifty paced, RED", "fifty reno"), PACED_FIRST
        ),
        "paced-flows-lose-apart-later": Evidence(
            "later_loss_share", _pair("fifty {}"), ("fifty reno, RED", "fifty paced"), RENO_FIRST
        ),
        "paced-among-reno": Evidence("latency_ratio", "mixed, two paced", control="mixed, none paced"),
        "mixed-round-trips-fairness": Evidence("fairness", TWO_TRIPS, control=ONE_TRIP, how=RENO_FIRST),
        "mixed-round-trips-drops": Evidence(
            "dropped_share", TWO_TRIPS[::-1], control=ONE_TRIP[::-1], how=least_first("paced", "reno")
        ),
        "mixed-round-trips-throughput": Evidence("goodput_mbps", TWO_TRIPS[::-1], how=ratio),
    },
    knobs={
        "course": Knob(
            {
                **_senders({"seconds": COURSE_S}),
                **_senders(FIFTY | UNTIL_20_S, "fifty {}"),
                **_senders(CLASS | UNTIL_20_S | {"buffer_packets": 1000}, "class {}"),
                **_senders(CLASS | UNTIL_20_S | {"buffer_packets": 10}, "class {}, small buffer"),
            },
            Scale(40.0),
            quick=Scale(40.0, only={"seconds": COURSE_S.values[1::2]}),
        ),
        "buffer": Knob(
            _senders(
                {"part": SHARE, "rate_mbps": swept(2.0, 5.0, 20.0), "buffer_share": swept(0.1, 0.25, 0.5, 1.0, 2.0)}
                | {"buffer_packets": lambda setting: setting.buffer_of(setting.buffer_share)}
            ),
            Scale(15.0),
        ),
        "recovery": _knob(_senders(FIFTY | {"recovery": swept("tahoe", "reno", "newreno", "sack", "linux")}), 4.0),
        "hosts": _knob(_senders(FIFTY | {"host_delay_packets": swept(0.0, 1.0, 4.0, 12.0)}), 20.0),
        "hosts_of_one": _knob(_senders({"host_delay_packets": swept(0.0, 0.05, 0.25, 0.5, 1.0)}), 15.0, 5),
        "mix": _knob(
            {
                name: changes | PACED | {"paced_share": swept(0.1, 0.3, 0.5, 0.7, 0.9)}
                for name, changes in (("5000 packets", MIX), ("300 packets", MIX | SHORT))
            },
            120.0,
        ),
        "ratio": _knob({"paced": FIFTY | PACED | {"slow_start_ratio": swept(1.0, 1.25, 1.5, 2.0, 3.0, 4.0)}}, 4.0),
    },
    figures={
        "fig3_throughput": Picture(
            "A single flow, 5 Mb/s, buffer of 25 packets (Fig. 3)",
            _course("cumulative, as published", "so_far_mbps", "{}"),
            _course("in each second, as iperf3 shows it", "second_mbps", "{}"),
        ),
        "fig4_window": Picture(
            "Window of a single flow (Fig. 4)",
            _windows(
                BOTH,
                250,
                Published({5: 62, 15: 213}, "published ends of slow start (62, 213; their times are not known)"),
                Level(135, "published top ({})"),
                Level(67, "published bottom ({})"),
            ),
        ),
        "fig5_gain": plot(
            "What pacing adds in 150 round trips (Fig. 5)",
            "buffer (of the path's own packets)",
            "gain (%)",
            Sweep("buffer_share", "gain_percent", gain, by="path_packets", label="path of {} packets"),
            Level(0, published=False),
            Level(0.5, "published: no gain from here on", upright=True),
            log="x",
            y_range=(None, None),
        ),
        "fig6_throughput_of_fifty": Picture(
            "Fifty flows, 57 Mb/s, buffer of 312 packets (Fig. 6)",
            _course("cumulative, as published", "so_far_mbps", "fifty {}"),
            _course("in each second, as iperf3 shows it", "second_mbps", "fifty {}"),
        ),
        "fig8_windows_of_fifty": Picture(
            "All windows of fifty flows (Fig. 8)",
            _windows(
                OF_FIFTY,
                80,
                Published({8: 3300, 14: 200}, "published, paced (3300 and 200)"),
                Level(2400, "published peak of Reno (2400)"),
                Level(_holds, "path and buffer hold {}", published=False),
            ),
        ),
        "fig9_11_two_round_trips": beside(
            "Fifty flows, 20 Mb/s, buffer of 312 packets (Figs 9 to 11)",
            "",
            {
                "fairness": "Jain's index (1: all alike)",
                "dropped_share": "dropped packets (share)",
                "goodput_mbps": PAYLOAD,
            },
            lambda reading: Bars(reading, TRIPS_AND_CONTROLS),
        ),
        "fig14_15_mix": plot(
            "Paced among Reno flows (Figs 14, 15)",
            "share of flows that are paced",
            "latency of Reno (of that of paced)",
            Sweep("paced_share", "latency_ratio", "mix", label="flows of {}"),
            Level(1, published=False),
            Published({0.1: 0.27}, "published, 5000 packets"),
        ),
        "class_throughput": Picture(
            "The class's five flows, in each second",
            _course("buffer of 1000 packets", "second_mbps", "class {}"),
            _course("buffer of a quarter of the path (10 packets)", "second_mbps", "class {}, small buffer"),
        ),
        "tiers_windows": Picture(
            "The kernel and the simulator",
            _windows(BOTH, 250, title="one flow", tiers=True),
            _windows(OF_FIFTY, 80, title="fifty flows", tiers=True),
        ),
        "control": Picture(
            "Broken on purpose",
            _windows({"fifty paced": PACED_LOOK, "fifty paced, random starts": STAGGERED}, 150, title="random starts"),
            _windows({"fifty reno, RED": RENO, "fifty paced, RED": PACED_LOOK}, 150, title="with RED"),
        ),
        "knob_hosts": Picture(
            "Hosts that do not keep step (of fifty flows a packet takes 0.08 ms, of one 0.92 ms)",
            *(
                Panel("time of hosts (packets' times)", said, Sweep("host_delay_packets", reading, knob, looks=BOTH))
                for knob, reading, said in (
                    ("hosts", "first_loss_share", "share of flows that lose together, at first"),
                    ("hosts", "later_loss_share", "share of flows that lose together, later"),
                    ("hosts_of_one", "carried_mbit", "carried by a single flow (Mbit)"),
                )
            ),
        ),
        "knob_recovery": Picture(
            "Fifty flows, the first 40 round trips",
            Panel("sender's recovery", PAYLOAD, Bars("goodput_mbps", "recovery", "recovery", looks=BOTH)),
            Panel(
                "pacing ratio in slow start (of window per round trip)",
                PAYLOAD,
                Sweep("slow_start_ratio", "goodput_mbps", "ratio", looks=BOTH),
            ),
        ),
    },
    best=("fig3_throughput", "fig4_window", "fig6_throughput_of_fifty", "fig14_15_mix", "control"),
    play=Play(
        ("reno", "paced", "fifty reno", "fifty paced"),
        {
            "buffer_packets": (5, 1000, 5),
            "slow_start_ratio": (1.0, 4.0, 0.25),
            "recovery": ["reno", "newreno", "sack", "linux"],
        },
        draw_run,
        seconds=20.0,
        live=LIVE,
    ),
)
