"""RED as a Study: its claims and profiles."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from netrepro.networks.queues import LINUX
from netrepro.papers.red.experiments import (
    A_BURSTY_NODE,
    BUFFERS,
    CASES,
    FOUR,
    RED,
    THRESHOLDS,
    Setting,
    experiment,
    four_experiment,
    port_of,
    read,
)
from netrepro.papers.red.figures import (
    BOTH,
    BROKEN,
    CARRIED,
    DROP_TAIL,
    MEAN_QUEUE,
    RED_2009,
    RED_LOOK,
    UTILISATION,
    _average,
    _beside_replica,
    _means,
    _senders,
    delay_ratio,
    draw_run,
    mean_from_5,
    of_replica,
)
from netrepro.study import (
    DROPPED_PACKETS,
    VIRTUAL,
    Evidence,
    Gauge,
    Knob,
    Live,
    Play,
    Runs,
    Scale,
    Study,
    greatest_first,
    least_first,
    swept,
)
from netrepro.study import pictures as drawing
from netrepro.study.figures import Bars, Level, Panel, Picture, Scatter, Sweep, beside, plot
from netrepro.study.live import QUEUE


def answer(runs: Runs) -> str:
    """Answer the question in one sentence, with this run's numbers."""
    ratio = float(np.mean(runs.values_of(STUDY.claims["delay-at-equal-utilisation"])))
    first = runs.numbers("fig3")
    few, many = (
        float(runs.numbers("drop tail").query(f"buffer_packets == {b}").carried_share.mean()) for b in (15, 140)
    )
    return (
        f"RED keeps its average below 15 packets for {100 * first.share_within.mean():.0f} % of the time while the "
        f"queue reaches {first.greatest_queue.mean():.0f}; where both carry about 75 % of the link, its delay is "
        f"{ratio:.2f} of drop tail's, which at 15 packets carries {100 * few:.0f} % and at 140 {100 * many:.0f} %."
    )


def draw_network(setting: Setting) -> Figure:
    """Draw Fig. 3's four senders and their gateway."""
    made = four_experiment(STUDY.case("fig3", setting), 1.0, 1)
    return drawing.draw_network(made, "Four senders, one gateway (Fig. 3)")


_TEN = ("ten, drop tail", "ten, red", "ten, red as drop tail")
OF_BURSTY = {
    "bursty, drop tail": DROP_TAIL,
    "bursty, red": RED_LOOK,
    "bursty, red, weight 1": BROKEN | {"label": "RED, weight 1"},
}
OF_CLASS_RED = {"class": "as the scripts ask", "class, as it ran": "as tc took them"}
OF_CLASS_DROP_TAIL = {"class, drop tail": "as the scripts ask", "class, drop tail as it ran": "as tc took them"}
AT_FLOWS = {"flows": swept(2, 4, 8, 16, 32, 64)}
POINTS = ("carried_share", "delay_ms")
# No kernel has Tahoe or RED of 1993; it takes the next power of two for the weight itself.
OF_KERNEL = {"sender": "linux", "variant": LINUX}
HALF = {  # every second buffer and threshold, and two of the bursty node's
    "buffer_packets": (*BUFFERS[::2], 10, 18),
    "min_threshold_packets": (*THRESHOLDS[1::2], 4, 10),
}
ONCE = [case for case in CASES if case.startswith("class") or case.endswith("cubic")]
TWICE = [  # orders, and controls that are the same in every repetition, or nearly so
    *("fig3, no drops", "red as drop tail", *_TEN),
    *(case for case in CASES if case.startswith("bursty")),
]
RARELY = dict.fromkeys(ONCE, 1) | dict.fromkeys(TWICE, 2)
_AT_PORT = {"table": "links", "column": "utilisation"}
LIVE = Live(
    {
        "utilisation": Gauge("utilisation of the bottleneck", "share", _AT_PORT),
        "mean_queue_packets": Gauge("mean queue", "packets", QUEUE),
        "dropped_share": DROPPED_PACKETS,
    },
    QUEUE,
    "queue (packets)",
    {"min_threshold_packets": (3.0, 5.0, 8.0, 12.0, 18.0, 25.0, 35.0, 45.0), "weight": (0.0005, 0.002, 0.02, 1.0)}
    | {"gentle": (False, True)},
    port_of,
    cases=("red", "drop tail", "ten, red"),
    broken={"red": "red, probability 1", "ten, red": "ten, red as drop tail"},
)
STUDY = Study(
    slug="red",
    setting=Setting(),
    parts=(FOUR, A_BURSTY_NODE),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=20,
    scales={
        "quick": Scale(5.0, repetitions=5),
        "paper": Scale(5.0),
        ("quick", VIRTUAL): Scale(5.0, repetitions=5, changes=OF_KERNEL, only=HALF, fewer=RARELY),
        ("paper", VIRTUAL): Scale(5.0, repetitions=10, changes=OF_KERNEL),
    },
    claims={
        "average-within-thresholds": Evidence("share_within", "fig3", control="fig3, no drops"),
        "bursts-allowed": Evidence(
            ("greatest_queue", "far_above_average"), "fig3", how=lambda pair: greatest_first("queue", "average")(*pair)
        ),
        "delay-at-equal-utilisation": Evidence(
            POINTS, ("red, ns-2 of 2009", "drop tail"), control=("red as drop tail", "drop tail"), how=delay_ratio
        ),
        "drop-tail-needs-queue": Evidence("carried_share", "drop tail"),
        "red-flat": Evidence(
            "carried_share", "red, ns-2 of 2009", control="red, ns-2 of 2009, probability 1", how=mean_from_5
        ),
        "no-bias-against-bursts": Evidence(
            "burst_share",
            ("bursty, red", "bursty, drop tail"),
            control=("bursty, red as drop tail", "bursty, drop tail"),
            how=_means(greatest_first("red", "drop tail")),
        ),
        "no-synchronisation": Evidence(
            "losing_share",
            ("ten, red", "ten, drop tail"),
            control=("ten, red as drop tail", "ten, drop tail"),
            how=least_first("red", "drop tail"),
        ),
    },
    knobs={
        "flows": Knob(
            {"drop tail": AT_FLOWS, "RED": AT_FLOWS | RED, "RED, gentle": AT_FLOWS | RED | {"gentle": True}},
            Scale(5.0),
            repetitions=5,
        )
    },
    figures={
        "fig3_queue_and_average": Picture("Four flows start one after the other (Fig. 3)", _average("fig3")),
        "fig5_delay_over_throughput": plot(
            "Delay that throughput costs (Fig. 5)",
            CARRIED,
            "mean delay in the queue (ms)",
            of_replica("drop tail", "delay_ms"),
            of_replica("red", "delay_ms"),
            Scatter("carried_share", "delay_ms", BOTH | {"red, ns-2 of 2009": RED_2009}),
        ),
        "fig5_throughput": Picture(
            "Throughput over what each gateway is given (Fig. 5)",
            _beside_replica("drop tail", {"drop tail": DROP_TAIL}),
            _beside_replica("red", {"red": RED_LOOK, "red, ns-2 of 2009": RED_2009}),
        ),
        "fig11_14_bursty_node": plot(
            "Who sends in bursts gets less from drop tail (Figs 11 to 14)",
            MEAN_QUEUE,
            "share of the bursty node's throughput",
            Scatter("mean_queue_packets", "burst_share", OF_BURSTY, joined=True),
            Level(8 / 36 / (8 / 36 + 4 * 12 / 6), "empty network"),
        ),
        "synchronisation": plot(
            "Who loses at the same time (ten flows)",
            "",
            "share of flows that lose together",
            Bars("losing_share", dict(zip(("drop tail", "RED", "RED as drop tail"), _TEN, strict=True))),
        ),
        "senders": Picture("The same gateways under later senders", *map(_senders, BOTH)),
        "tiers": Picture(
            "The same gateways and senders on every tier",
            *(
                Panel(UTILISATION, MEAN_QUEUE, Scatter("utilisation", "mean_queue_packets", {name: look}, tiers=True))
                for name, look in BOTH.items()
            ),
        ),
        "class_report": Picture(
            "The class project's gateways",
            Panel(
                "minimum threshold (thousands of bytes)",
                "throughput (Mb/s)",
                Sweep("min_threshold_packets", "throughput_mbps", OF_CLASS_RED),
                title="RED",
            ),
            Panel(
                "buffer (thousands of bytes)",
                "throughput (Mb/s)",
                Sweep("buffer_packets", "throughput_mbps", OF_CLASS_DROP_TAIL),
                Level(lambda runs: runs.setting.rate_mbps, "rate of the bottleneck"),
                title="drop tail",
            ),
            Panel(
                "throughput (Mb/s)",
                "mean delay in the queue (ms)",
                Scatter("throughput_mbps", "delay_ms", {"class": RED_LOOK, "class, drop tail": DROP_TAIL}),
                title="as the scripts ask",
            ),
        ),
        "control_broken": Picture(
            "Broken on purpose",
            _average("fig3, no drops", "Fig. 3: next to nothing is dropped"),
            _beside_replica(
                "red",
                {"red, ns-2 of 2009": RED_2009, "red, ns-2 of 2009, probability 1": BROKEN},
                "Fig. 5: probability 1",
            ),
        ),
        "knob_flows": beside(
            "How many flows does RED stand?",
            "flows",
            {"utilisation": UTILISATION, "mean_queue_packets": MEAN_QUEUE},
            lambda reading: Sweep("flows", reading, "flows"),
            log="x",
        ),
    },
    best=(
        "fig3_queue_and_average",
        "fig5_delay_over_throughput",
        "fig11_14_bursty_node",
        "synchronisation",
        "control_broken",
    ),
    play=Play(
        ("red", "drop tail", "ten, red", "fig3"),
        {"min_threshold_packets": (3.0, 45.0, 1.0), "weight": [0.002, 0.0005, 0.02, 1.0], "gentle": [False, True]},
        draw_run,
        seconds=5.0,
        live=LIVE,
    ),
)
