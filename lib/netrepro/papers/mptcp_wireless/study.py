"""MPTCP over WiFi and 3G as a Study: its cases, claims and profiles."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pandas as pd

from netrepro.papers.mptcp_wireless.experiments import (
    BOTH,
    CLASS_KB,
    FIG7,
    KB,
    LARGE_KB,
    PLENTY_KB,
    RECEIVE_BUFFERS_KB,
    SMALL_KB,
    SWITCHES,
    WIFI_MBPS,
    Outage,
    Setting,
    answer,
    cannot,
    experiment,
    measure_one,
    measure_outage,
    settled_s,
    with_outage,
)
from netrepro.papers.mptcp_wireless.figures import draw_fig_7, draw_run, ways
from netrepro.study import VIRTUAL, Evidence, Gauge, Knob, Live, Part, Play, Scale, Study, swept
from netrepro.study import pictures as drawing
from netrepro.study.evidence import least_first, ratio
from netrepro.study.figures import Distribution, Level, Panel, Picture, Sweep, beside, plot

TOLD = "lost: mptcp that is told"
BLOCK, BLOCKS = "latency of a block (ms)", "blocks (share of all, in each 20 ms)"
MEAN = "mean latency of a block (ms)"
M: dict[str, Any] = {"retransmits": True, "penalises": True}
HOW: dict[str, dict[str, Any]] = {
    "mptcp": {},
    BOTH: M,
    "tcp over wifi": {"networks": ("wifi",)},
    "tcp over 3g": {"networks": ("3g",)},
}


def _all(start: str, changes: dict[str, Any], *names: str) -> dict[str, dict[str, Any]]:
    return {f"{start}: {name}": HOW[name] | changes for name in names}


CLASS = {"receive_buffer_kb": CLASS_KB}
SWEEP = {
    "receive_buffer_kb": swept(*RECEIVE_BUFFERS_KB),
    "send_buffer_kb": LARGE_KB,
    "mobile_jitter_ms": 0.0,
    "follows_blocks": False,
}
EQUAL = {
    "mobile_mbps": lambda setting: setting.wifi_mbps,
    "mobile_round_trip_ms": lambda setting: setting.wifi_round_trip_ms,
    "mobile_buffer_ms": lambda setting: setting.wifi_buffer_ms,
    "mobile_jitter_ms": 0.0,
}
OUTAGE = Part(setting=Outage(), experiment=with_outage, measure_one=measure_outage)
CASES: dict[str, dict[str, Any]] = {
    **HOW,
    **_all("class", CLASS, *FIG7),
    **_all("plenty", {"send_buffer_kb": PLENTY_KB, "receive_buffer_kb": PLENTY_KB}, "mptcp", BOTH),
    **_all("small send buffer", {"send_buffer_kb": SMALL_KB}, BOTH, "tcp over wifi"),
    **_all("large receive buffer", {"receive_buffer_kb": LARGE_KB}, "mptcp", BOTH),
    **_all("lost", {"part": OUTAGE}, "mptcp", BOTH, "tcp over wifi"),
    TOLD: {"part": OUTAGE, "told": True},
    **_all("fig 4", SWEEP, *FIG7),
    **_all("ratio", CLASS | {"wifi_mbps": swept(*WIFI_MBPS)}, *FIG7[:3]),
    **_all("equal paths", CLASS | {"wifi_mbps": swept(*WIFI_MBPS)} | EQUAL, BOTH),
}


def latest_first(share: pd.Series) -> list[str]:
    """Order the ratios of the rates by the share of late blocks, greatest first. Equal ones are in the reverse of the
    claim's order."""
    names = ("32", "16", "8", "4")
    return least_first(*names)(*(-late for late in share.iloc[::-1]))


ONE_BUFFER = {"own_buffers": False}  # Linux's MPTCP has no send buffer that we could set
KNOB = {"quick": Scale(10.0), "paper": Scale(100.0), "test": Scale(6.0)}
PROJECT_LOSS = 0.0075  # of WiFi in another class's project (2014)
ON_3G = ("mptcp", BOTH, "tcp over 3g")
HOLDS = {"send_buffer_kb": swept(100, 125, 160, 200), "receive_buffer_kb": lambda setting: setting.send_buffer_kb}
LOSSES = (0.0, 0.0025, 0.005, PROJECT_LOSS, 0.01)
ORDER = (BOTH, "tcp over wifi", "mptcp", "tcp over 3g")
_DELIVERED = {"table": "deliveries", "column": "delivered_bytes", "reduce": "most"}
PLAYED_S = 10.0
_SETTLED_S = settled_s(PLAYED_S)
_SENT = {"table": "links", "column": "sent_packets", "reduce": "sum"}
_PORTS = [["s1", switch] for switch in SWITCHES.values()]
LIVE = Live(
    {
        "goodput_mbps": Gauge(
            "goodput",
            "Mb/s",
            _DELIVERED | {"less": _DELIVERED | {"until_s": _SETTLED_S}, "times": 8e-6 / (PLAYED_S - _SETTLED_S)},
        ),
        "mobile_share": Gauge(
            "packets sent on 3G", "share", _SENT | {"port": _PORTS[1], "over": _SENT | {"port": _PORTS}}
        ),
        "repeated_share": Gauge(
            "packets sent again",
            "share",
            {"table": "flows", "column": "retransmitted_packets", "reduce": "sum", "over": _SENT | {"port": _PORTS}},
        ),
    },
    {"table": "deliveries", "column": "delivered_bytes", "times": 1e-6},
    "delivered in order (MB)",
    {"receive_buffer_kb": (16, 40, 100, 200, 400), "send_buffer_kb": (16, 40, 100, 200, 400)}
    | {"wifi_mbps": WIFI_MBPS, "wifi_loss": (0.0, 0.005, 0.02)},
    lambda _: ("s1", "s3"),
    broken={BOTH: "mptcp"},
)
STUDY = Study(
    slug="mptcp_wireless",
    setting=Setting(),
    parts=(OUTAGE,),
    cases=CASES,
    experiment=experiment,
    measure_one=measure_one,
    cannot=cannot,
    answer=answer,
    repetitions=3,
    scales={
        "quick": Scale(15.0),
        "paper": Scale(100.0),
        "test": Scale(16.0, repetitions=2, only={"receive_buffer_kb": (50, 600), "wifi_mbps": WIFI_MBPS}),
        ("quick", VIRTUAL): Scale(20.0, repetitions=2, changes=ONE_BUFFER),
        ("paper", VIRTUAL): Scale(100.0, changes=ONE_BUFFER),
        ("test", VIRTUAL): Scale(16.0, repetitions=2, changes=ONE_BUFFER),
    },
    claims={
        "latency-order": Evidence(
            "mean_ms", ORDER, control=("mptcp", "tcp over wifi", "mptcp", "tcp over 3g"), how=least_first(*ORDER)
        ),
        "narrower-with-mechanisms": Evidence(
            "spread_ms",
            (BOTH, "mptcp"),
            control=(f"plenty: {BOTH}", "plenty: mptcp"),
            how=least_first(BOTH, "mptcp"),
        ),
        "send-buffer-slows-wifi": Evidence(
            "mean_ms",
            (BOTH, "tcp over wifi"),
            control=(f"small send buffer: {BOTH}", "small send buffer: tcp over wifi"),
            how=least_first(BOTH, "tcp over wifi"),
        ),
        "both-links-full": Evidence(
            "carried_share",
            f"fig 4: {BOTH}",
            control=Evidence("carried_share", f"fig 4: {BOTH}", how=itemgetter(50)),
            how=itemgetter(600),
        ),
        "never-below-wifi": Evidence(
            "goodput_mbps",
            (f"fig 4: {BOTH}", "fig 4: tcp over wifi"),
            control=("fig 4: mptcp", "fig 4: tcp over wifi"),
            how=lambda ours, wifi: (ours / wifi).min(),
        ),
        "ratio-32-as-wifi": Evidence(
            "mean_ms",
            (f"ratio: {BOTH}", "ratio: tcp over wifi"),
            control=("ratio: mptcp", "ratio: tcp over wifi"),
            how=lambda ours, wifi: ours.iloc[-1] / wifi.iloc[-1],
        ),
        "less-effective-with-ratio": Evidence(
            "late_share", f"ratio: {BOTH}", control=f"equal paths: {BOTH}", how=latest_first
        ),
        "trap-large-receive-buffer": Evidence(
            "mean_ms", (f"large receive buffer: {BOTH}", "large receive buffer: mptcp"), how=ratio
        ),
        "survives-loss-of-wifi": Evidence(
            "progress_share",
            "lost: mptcp",
            control="lost: tcp over wifi",
            checked_by=("lost: mptcp", "lost: tcp over wifi"),  # other cases' blocks do not matter here
        ),
    },
    knobs={
        "changes": Knob(
            {
                "mptcp": {},
                "M1 alone": {"retransmits": True},
                "M2 alone": {"penalises": True},
                "M1 and M2": M,
                "M1 and M2, one buffer": M | ONE_BUFFER,
                "M1 and M2, 125 KB": M | {"send_buffer_kb": 125, "receive_buffer_kb": 125},
                "plain, CoDel on 3G": {"mobile_queue": "codel"},
                "M1 and M2, CoDel on 3G": M | {"mobile_queue": "codel"},
            },
            KNOB,
        ),
        # The class put its other shape of TCP over 3G down to jitter and loss, which the paper does not give.
        "jitter": Knob({name: HOW[name] | {"mobile_jitter_ms": swept(0.0, 25.0, 50.0, 100.0)} for name in ON_3G}, KNOB),
        "mobile_loss": Knob({name: HOW[name] | {"mobile_loss": swept(0.0, 0.005, 0.01, 0.02)} for name in ON_3G}, KNOB),
        # Kernel memory of 200 KB holds fewer data: 125 KB by one reading (data/mptcp_wireless/SOURCES.md).
        "memory": Knob({name: HOW[name] | HOLDS for name in FIG7}, KNOB),
        "wifi_loss": Knob({name: HOW[name] | CLASS | {"wifi_loss": swept(*LOSSES)} for name in FIG7[:3]}, KNOB),
    },
    figures={
        "fig7_latency": Picture(
            "Latency of 8 KB blocks (Fig. 7)",
            Panel(BLOCK, BLOCKS, draw_fig_7, title="cut at 0.2 (TCP over WiFi goes on)", y_range=(0, 0.2)),
            Panel(BLOCK, BLOCKS, draw_fig_7, title="the whole, logarithmic", log="y"),
        ),
        "fig4_goodput": plot(
            "Goodput over the receive buffer (Fig. 4)",
            "receive buffer (KB)",
            "goodput (Mb/s)",
            Sweep("receive_buffer_kb", "goodput_mbps", ways("fig 4: "), tiers=True),
            Level(lambda runs: runs.setting.carried_mbps, "both links full"),
            log="x",
        ),
        "control_plenty": Picture(
            "Broken on purpose: hardly anything is blocked",
            *(
                Panel(BLOCK, "share of blocks up to it", Distribution("blocks", "latency_ms", cases), title=title)
                for cases, title in (
                    (ways("", FIG7[:2]), "buffers of 200 KB"),
                    (ways("plenty: ", FIG7[:2]), f"buffers of {PLENTY_KB // KB} MB"),
                )
            ),
        ),
        "knob_changes": lambda runs: drawing.changes_figure(
            "One change at a time (buffers of 200 KB)",
            runs.knobs["changes"].assign(mean_s=lambda table: table.mean_ms / 1e3),
            "mean_s",
            "mean latency of a block (s)",
        ),
        "knob_mobile": Picture(
            "What the paper does not say: 3G's jitter and loss, and how many data the buffers hold",
            *(
                Panel(label, MEAN, Sweep(field, "mean_ms", knob, looks=ways(names=names)), log="y")
                for field, knob, names, label in (
                    ("mobile_jitter_ms", "jitter", ON_3G, "deviation of 3G's delay (ms)"),
                    ("mobile_loss", "mobile_loss", ON_3G, "loss on 3G (share)"),
                    ("send_buffer_kb", "memory", FIG7, "data in either buffer (KB)"),
                )
            ),
        ),
        "knob_wifi_loss": beside(
            f"A WiFi that loses packets (receive buffer of {CLASS_KB} KB)",
            "loss on WiFi (share)",
            {"mean_ms": MEAN, "mobile_share": "packets sent over 3G (share of all)"},
            lambda reading: Sweep("wifi_loss", reading, "wifi_loss", looks=ways(names=FIG7[:3])),
        ),
    },
    play=Play(
        FIG7,
        {
            "receive_buffer_kb": (16, 400, 8),
            "send_buffer_kb": (16, 400, 8),
            "wifi_mbps": [*WIFI_MBPS],
            "wifi_loss": (0.0, 0.02, 0.0025),
            "mobile_queue": ["drop tail", "codel"],
        },
        draw_run,
        PLAYED_S,
        LIVE,
    ),
)
