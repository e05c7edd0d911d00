"""DCell as a Study: its cases, claims and profiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from netrepro.papers.dcell.experiments import (
    FIG_12,
    LIMITED,
    PROCESSOR,
    TREE,
    Lengths,
    Lossless,
    Setting,
    answer,
    experiment,
    measure_lengths,
    measure_lossless,
    read,
)
from netrepro.papers.dcell.figures import draw_diagonal, draw_run, goodput_panel, throughput_panel
from netrepro.study import VIRTUAL, Evidence, Knob, Part, Play, Scale, Study, ratio, swept
from netrepro.study.figures import Bars, Panel, Picture, Sweep, beside, plot
from netrepro.style import scheme


def _ratio_of_means(outages: Any) -> float:
    return float(np.mean(outages["node_outage_s"]) / np.mean(outages["link_outage_s"]))


PAUSE = Part(setting=Lossless(), measure_one=measure_lossless)
PATHS = Part(setting=Lengths(), measure_one=measure_lengths)
FLOWS, MODEL = {"part": FIG_12}, {"part": PAUSE}
SHORT = {"timeline_s": (2.0, 4.0, 6.0, 26.0)}
EARLY = {"timeline_s": (2.0, 5.0, 6.0, 14.0), "rate_mbps": 50.0}  # a faster run: outages do not depend on the rate
PHASES = (0.1, 0.3, 0.5, 0.7, 0.9)
CASES: dict[str, dict[str, Any]] = {
    "fig 11": {},
    "phases": EARLY | {"hello_phase": swept(*PHASES)},
    "rerouting off": {"reroutes": False},
    "noticed at once": EARLY | {"hello_s": 0.01, "timeout_s": 0.01},
    "dcell": FLOWS,
    "dcell, processor": FLOWS | PROCESSOR,
    "tree": FLOWS | TREE,
    "tree, 4 x uplinks": FLOWS | TREE | {"uplink_share": 4.0},
    "dcell, pause": MODEL,
    "dcell, pause, processor": MODEL | PROCESSOR,
    "tree, pause": MODEL | TREE,
    "tree, pause, past the head": MODEL | TREE | {"looks_past_head": True},
    "lengths": {"part": PATHS, "n": swept(4, 5, 6)},
}
# A window of 64 KiB is a quarter of a flow in a quick run, so that much of it is over before processors are busy.
NEED_LONG_FLOWS = ("dcell-peak", "one-hop-flows")
FAILURES = ("fig 11", "phases", "rerouting off", "noticed at once")
# Fig. 11's without its last 42 s, when nothing changes: a port records at most ten million packets.
PUBLISHED_TIMELINE = {"timeline_s": (34.0, 42.0, 104.0, 118.0)}

STUDY = Study(
    slug="dcell",
    setting=Setting(),
    parts=(FIG_12, PAUSE, PATHS),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    repetitions=3,
    scales={
        "quick": Scale(changes={"flow_kb": 2000, "model_kb": 250}, unjudged=NEED_LONG_FLOWS),
        "paper": Scale(changes=PUBLISHED_TIMELINE | {"rate_mbps": 1000.0, "flow_kb": 20_000, "model_kb": 4000}),
        ("quick", VIRTUAL): Scale(
            repetitions=2,
            changes={"timeline_s": (2.0, 10.0, 11.0, 19.5), "flow_kb": 120, "model_kb": 200},
            only={"hello_phase": PHASES[::2]},
            unjudged=NEED_LONG_FLOWS,
        ),
        ("paper", VIRTUAL): Scale(
            changes=PUBLISHED_TIMELINE | {"rate_mbps": 1000.0, "flow_kb": 4000, "model_kb": 4000},
            fewer=dict.fromkeys([case for case in CASES if case not in FAILURES], 2),  # these decide nothing here
        ),
    },
    claims={
        "link-outage": Evidence(
            "link_outage_s", "phases", control="rerouting off", how=lambda outages: float(np.mean(outages))
        ),
        "node-outage": Evidence("node_outage_s", "fig 11", control="rerouting off"),
        "node-against-link": Evidence(
            ("node_outage_s", "link_outage_s"), "phases", control="noticed at once", how=_ratio_of_means
        ),
        "new-path": Evidence("new_path_share", "fig 11", control="rerouting off"),
        "finish-ratio": Evidence("finish", ("tree", "dcell"), control=("tree, 4 x uplinks", "dcell"), how=ratio),
        "finish-ratio-limited": Evidence(
            "finish",
            ("tree, pause", LIMITED),
            control=("tree, pause, past the head", LIMITED),
            how=ratio,
        ),
        "tree-finish": Evidence("finish", "tree, pause", control="tree, pause, past the head"),
        "dcell-peak": Evidence("peak_rates", LIMITED, control="dcell, pause"),
        "tree-peak": Evidence("peak_rates", "tree, pause", control="tree, pause, past the head"),
        "one-hop-flows": Evidence("one_hop_share", LIMITED, control="tree, pause"),
        "routing-path-length": Evidence(
            "routed_hops", "lengths", control=Evidence("shortest_hops", "lengths", exact=True), exact=True
        ),
        "shortest-path-length": Evidence(
            "shortest_hops", "lengths", control=Evidence("routed_hops", "lengths", exact=True), exact=True
        ),
    },
    knobs={
        "timeout": Knob(
            {"fig 11": SHORT | {"timeout_s": swept(1.0, 2.0, 3.0, 5.0, 8.0, 12.0)}},
            Scale(),
            repetitions=3,
            quick=Scale(repetitions=1),
        ),
        "server queue": Knob(
            {"dcell, processor": FLOWS | PROCESSOR | {"server_packets": swept(10, 30, 100, 1000)}},
            Scale(changes={"flow_kb": 2000}),
            quick=Scale(changes={"flow_kb": 1000}),
        ),
    },
    figures={
        "fig11_failures": Picture("A link and a server fail (Fig. 11)", goodput_panel({"fig 11": "tcp"}, tiers=True)),
        "fig12_throughput": Picture(
            "380 flows together (Fig. 12)",
            throughput_panel("machines that cost nothing", "dcell", "tree"),
            throughput_panel("processors of 1.07 links, switches that pause", LIMITED, "tree, pause"),
        ),
        "control": Picture(
            "Broken on purpose",
            goodput_panel(
                {
                    "rerouting off": {"label": "rerouting off", "color": scheme("control").colour},
                    "fig 11": {"label": "as published", "color": scheme("tcp").colour, "linewidth": 0.8},
                },
                title="no rerouting",
            ),
            Panel(
                "",
                "last flow ends (times of a flow's bytes)",
                Bars("finish", {case: case for case in ("tree, 4 x uplinks", "tree", "dcell")}),
                title="uplinks of four links' rate",
            ),
        ),
        "knob_timeout": plot(
            "How soon may silence count as death?",
            "time-out of link state (s)",
            "nothing arrives (s)",
            Sweep("timeout_s", "node_outage_s", "timeout", label="Fig. 11"),
            draw_diagonal,
        ),
        "knob_server_queue": beside(
            "How long must the queue in front of a processor be? (published: 9.6, 0.154 and 56.75)",
            "queue in a server (packets)",
            {
                "peak_rates": "greatest goodput (rates of a link)",
                "one_hop_share": "one-hop flows end (share of the finish)",
                "finish": "last flow ends (times of a flow's bytes)",
            },
            lambda reading: Sweep("server_packets", reading, "server queue"),
            log="x",
        ),
    },
    play=Play(
        ("fig 11", "rerouting off", "dcell", "dcell, processor", "tree"),
        {
            "timeout_s": (0.5, 12.0, 0.5),
            "hello_s": (0.1, 3.0, 0.1),
            "uplink_share": (0.5, 8.0, 0.5),
            "flow_kb": (100, 4000, 100),
        },
        draw_run,
    ),
)
