"""Outcast as a Study: its cases, claims and profiles."""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.figure import Figure

from netrepro.networks.links import FULL_PACKET_BYTES
from netrepro.papers.outcast.experiments import (
    FAR,
    LONGEST_S,
    MIDDLE,
    NEAR,
    PORT,
    OnAndOff,
    OneSwitch,
    ParkingLot,
    Setting,
    Tree,
    experiment,
    lot_experiment,
    on_and_off_experiment,
    switch_experiment,
    tree_experiment,
)
from netrepro.papers.outcast.figures import (
    SHARES,
    _rows,
    draw_fat_tree,
    draw_run,
    draw_shares,
    draw_timeline,
    draw_timing,
)
from netrepro.papers.outcast.readings import read, read_flows
from netrepro.study import GOODPUT_OF_FLOWS, VIRTUAL, Evidence, Gauge, Knob, Live, Part, Play, Runs, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.evidence import greatest_first
from netrepro.study.figures import Picture
from netrepro.study.live import WAIT


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    table = runs.summary().groupby("case").mean()
    tail, sentence = table.loc["13 flows"], ""
    if "red" in table.index:
        red = table.loc["red"]
        sentence = f"; with RED {red.near_mbps:.0f} and {red.far_mbps:.0f} (146 and 71)"
    return (
        f"At a drop-tail port a flow that comes in alone gets {tail.near_mbps:.0f} Mb/s, each of twelve from afar at "
        f"the other port {tail.far_mbps:.0f} (published: 13 and 78){sentence}."
    )


def draw_network(setting: Setting) -> Figure:
    """Draw the two ports: the near host on the receiver's switch, the far ones behind another switch."""
    return drawing.draw_network(experiment(setting, 1.0, 1), "One near flow and twelve from afar meet at one port")


A_TREE = Part(setting=Tree(), experiment=tree_experiment, read=read_flows)
TREE: dict[str, Any] = {"part": A_TREE}
THIRTEEN = TREE | {"middle": False}
NS2: dict[str, Any] = {"of_ns2": True}
SWITCH = Part(setting=OneSwitch(), experiment=switch_experiment, read=read_flows)
CLASS = {"part": SWITCH, "rate_mbps": 100.0, "host_delay_ms": 1.0}
OF_RENO: dict[str, Any] = {"rate_mbps": 100.0, "host_delay_ms": 1.0, "hop_delay_ms": 0.25}
OF_RENO |= {"buffer_bytes": 200 * FULL_PACKET_BYTES, "congestion_control": "reno", "min_rto_ms": 200.0}
CLASS_RENO = OF_RENO | {"far_flows": 5}
A_LOT = Part(setting=ParkingLot(), experiment=lot_experiment, read=read_flows)
LOT: dict[str, Any] = {"part": A_LOT}
ON_AND_OFF = Part(setting=OnAndOff(), experiment=on_and_off_experiment, read=read_flows)
ROW = {"part": ON_AND_OFF, "far_flows": swept(1, 3, 5, 7), "drops_in_a_row": swept(0, 1, 2, 3, 5, 6, 8)}
OF_1990 = {"congestion_control": "reno", "recovery": "reno"}
NOT_IN_ROWS = {"drops_in_a_row": ()}  # simulated only, as in the paper
CASES: dict[str, dict[str, Any]] = {
    "drop tail": {},
    "near moved": {"near_moved": True},
    "drop tail, ns-2": NS2,
    "red": NS2 | {"queue": "red"},
    "sfq": NS2 | {"queue": "sfq"},
    "paced": NS2 | {"pacing": True},
    "13 flows": THIRTEEN,
    "13 flows, near moved": THIRTEEN | {"near_moved": True},
    "2 far": THIRTEEN | {"far_flows": 2},
    "6 far": THIRTEEN | {"far_flows": 6},
    "fat-tree": TREE,
    "fat-tree, red": TREE | {"queue": "red"},
    "fat-tree, hashed": TREE | {"routes": "hashed"},
    "equal length": THIRTEEN | {"routes": "equal length"},
    "class, 16 kB": CLASS,
    "class, 128 kB": CLASS | {"buffer_bytes": 131_072},
    "class, reno": CLASS_RENO,
    "parking lot, 3": LOT | {"senders": 3},
    "parking lot, 6": LOT,
    "parking lot, 6, near moved": LOT | {"near_moved": True},
    "parking lot, 6, reno": LOT | OF_RENO,
    "rows": ROW,
    "rows, reno": ROW | OF_1990,
    "rows, reno, 200 ms": ROW | OF_1990 | {"min_rto_ms": 200.0},
    "rows, apart": ROW | {"far_flows": 1, "drops_in_a_row": swept(6), "drops_apart": True},
}


_OF_HOPS = {"table": "flows", "column": "goodput_mbps"}
_NEAR, _FAR = _OF_HOPS | {"label": NEAR}, _OF_HOPS | {"label": FAR}
LIVE = Live(
    {
        "near_share": Gauge("near flow, of a far one", "share", _NEAR | {"over": _FAR}),
        "near_mbps": Gauge("near flow", "Mb/s", _NEAR),
        "far_mbps": Gauge("a far flow", "Mb/s", _FAR),
        "total_mbps": Gauge("goodput of all flows", "Mb/s", GOODPUT_OF_FLOWS),
    },
    WAIT,
    "wait of a packet (ms)",
    {"far_flows": (1, 2, 4, 6, 8, 10, 12), "min_rto_ms": (2.0, 20.0, 200.0)} | {"host_delay_packets": (0.0, 1.0, 4.0)},
    lambda _: PORT,
    cases=("13 flows", "fat-tree", "equal length", "red", "sfq", "paced"),
    broken={
        "13 flows": "13 flows, near moved",
        "fat-tree": "fat-tree, red",
        "equal length": "13 flows",
        **dict.fromkeys(("red", "sfq", "paced"), "drop tail, ns-2"),
    },
)


STUDY = Study(
    slug="outcast",
    setting=Setting(),
    parts=(A_TREE, SWITCH, A_LOT, ON_AND_OFF),
    cases=CASES,
    experiment=experiment,
    read=read,
    answer=answer,
    scales={
        "quick": Scale(
            LONGEST_S,
            repetitions=8,
            only={"drops_in_a_row": (0, 1, 5, 6), "far_flows": (1, 5, 7)},
            fewer={name: 3 for name in CASES if name.startswith("rows")},
        ),
        "paper": Scale(LONGEST_S),
        ("quick", VIRTUAL): Scale(LONGEST_S, repetitions=3, only=NOT_IN_ROWS),
        ("paper", VIRTUAL): Scale(LONGEST_S, only=NOT_IN_ROWS),
    },
    repetitions=20,
    claims={
        "near-flow-outcast": Evidence("near_share", "13 flows", control="13 flows, near moved"),
        "fat-tree-2-hops": Evidence("near_share", "fat-tree", control="fat-tree, red"),
        "fat-tree-4-hops": Evidence("middle_share", "fat-tree", control="fat-tree, red"),
        "fewer-hops-less": Evidence(
            ("far_mbps", "middle_mbps", "near_mbps"),
            "fat-tree",
            control="fat-tree, red",
            how=lambda mbps: greatest_first(FAR, MIDDLE, NEAR)(*mbps),
        ),
        "red-turns-it": Evidence("near_share", "red", control="drop tail, ns-2"),
        "red-single-drops": Evidence("single_share", "red", control="drop tail, ns-2"),
        "sfq-fair": Evidence("near_share", "sfq", control="drop tail, ns-2"),
        "pacing-partial": Evidence("near_share", "paced", control="drop tail, ns-2"),
        "equal-length-routing": Evidence("near_share", "equal length", control="13 flows"),
        "one-flow-collapses": Evidence(
            "total_mbps",
            "rows",
            control=Evidence("total_mbps", ("rows, apart", "rows"), how=lambda apart, rows: apart[6] / rows[1, 0]),
            how=lambda rows: rows[1, 6] / rows[1, 0],
        ),
        "many-flows-survive": Evidence("total_mbps", "rows", how=lambda rows: rows[7, 6]),
    },
    knobs={
        "phases": Knob(
            {
                "clock_skew_ppm": TREE | {"clock_skew_ppm": swept(0.0, 10.0, 100.0, 1000.0)},
                "host_delay_packets": TREE | {"host_delay_packets": swept(0.0, 0.25, 1.0, 4.0)},
                "buffer_bytes": TREE | {"buffer_bytes": swept(8_192, 16_384, 32_768, 65_536, 131_072)},
                "min_rto_ms": TREE | {"min_rto_ms": swept(2.0, 10.0, 50.0, 200.0)},
            },
            {"quick": Scale(LONGEST_S, repetitions=3), "paper": Scale(LONGEST_S)},
            repetitions=5,
        ),
    },
    figures={
        "fig2a_fat_tree": draw_fat_tree,
        "fig9_drops": draw_timeline,
        "rows_of_drops": Picture(
            "A port that is on and off (section 4, simulated)",
            _rows("BIC with SACK, as elsewhere here", "rows"),
            _rows("Reno of 1990", "rows, reno"),
            _rows("Reno of 1990, least timeout 200 ms", "rows, reno, 200 ms"),
        ),
        **{name: partial(draw_shares, name=name) for name in SHARES},
        "knob_timing": draw_timing,
    },
    best=("fig2a_fat_tree", "near_and_far", "fig9_drops", "remedies", "control_port"),
    play=Play(
        ("drop tail", "red", "sfq", "paced", "near moved", "fat-tree", "13 flows", "equal length"),
        {
            "far_flows": (1, 20, 1),
            "host_delay_packets": (0.0, 4.0, 0.1),
            "buffer_bytes": (4_096, 131_072, 4_096),
            "min_rto_ms": (2.0, 200.0, 1.0),
        },
        draw_run,
        seconds=1.0,
        live=LIVE,
    ),
)
