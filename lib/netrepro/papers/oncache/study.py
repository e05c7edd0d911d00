"""ONCache as a Study: what is compared with which claim, and profiles."""

from __future__ import annotations

from typing import Any

import pandas as pd

from netrepro.papers.oncache.figures import (
    LOOKS,
    _by_packet,
    _draw_class,
    _draw_symmetric_logarithm,
    _one_or_two,
    _over_flows,
    _to_overlay,
    answer,
    draw_packets,
    draw_trials,
    of_kind,
)
from netrepro.papers.oncache.measuring import (
    BARE,
    COSTS,
    DELETES,
    FRESH,
    IN_FRAGMENTS,
    KEEPS,
    KUBE_PROXY,
    LONG_CELL_S,
    MANY,
    MORE_RULES,
    NETWORKS,
    ONCACHE,
    OVERLAY,
    PLAY,
    PUBLISHED,
    TITLES,
    TOGETHER,
    TRIALS,
    UNCUT,
    UNMARKED,
    UNREVERSED,
    WHOLE,
    Eviction,
    Setting,
    Trials,
    _read_trials,
    cannot,
    measure_all,
)
from netrepro.protocols import oncache as model
from netrepro.study import Evidence, OneRun, Part, Play, Reading, Scale, Study, seed_and_repetition
from netrepro.study.figures import Picture, Sweep, plot


def _won_back(ours: pd.Series, overlay: pd.Series, bare: pd.Series) -> float:
    """Compute the share of the overlay's loss in TCP's request-response rate that ONCache regains."""
    return (ours["tcp_rr", 1] - overlay["tcp_rr", 1]) / (bare["tcp_rr", 1] - overlay["tcp_rr", 1])


def _tried(case: str, broken: str) -> Evidence:
    """Compare the shares of trials that hold; the checks of rates do not apply to them."""
    return Evidence("holds", case, control=broken, exact=True, checked_by=TRIALS)


def _measured_together(setting: Trials | Eviction, seconds: float, seed: Any, tier: str) -> Reading:
    """Read one run by itself, as `measure_all` does those of a study."""
    run = OneRun(setting, seconds, seed, tier)
    return _read_trials([run])[run]


OF_PROGRAMS = Part(setting=Trials(), measure_one=_measured_together)
OF_MODEL = Part(setting=Eviction(), measure_one=_measured_together)
ONCE = dict.fromkeys(TRIALS, 1)
ONLY_SHOWN = (TOGETHER, MORE_RULES, UNCUT, WHOLE, IN_FRAGMENTS)
TWICE = dict.fromkeys((FRESH, KUBE_PROXY, f"{UNMARKED}, prints"), 2) | {
    each.format(name): 2 for each in ONLY_SHOWN for name in (BARE, OVERLAY, ONCACHE)
}

STUDY = Study(
    slug="oncache",
    setting=Setting(),
    parts=(OF_PROGRAMS, OF_MODEL),
    cases={name: {"part": OF_PROGRAMS, "variant": name} for name in TRIALS} | {PLAY: {"part": OF_MODEL}} | NETWORKS,
    measure_all=measure_all,
    seeds=seed_and_repetition,
    cannot=cannot,
    answer=answer,
    scales={
        "quick": Scale(
            0.04,
            only={"flows": (1, MANY), "rules": (100, 1000)},
            where=lambda setting: not isinstance(setting, Setting) or setting.flows == 1 or setting.kind.endswith("rr"),
            without=(PLAY,),
            fewer=ONCE | TWICE,
        ),
        "paper": Scale(LONG_CELL_S, only={"flows": (1, 4, MANY)}, without=(PLAY,), fewer=ONCE | TWICE),
    },
    claims={"refused-stays-refused": _tried(DELETES, KEEPS), "learns-again": _tried(PUBLISHED, UNREVERSED)},
    on_kernels={
        "tcp-rr": _to_overlay("tcp_rr"),
        "udp-rr": _to_overlay("udp_rr"),
        "tcp-throughput": _to_overlay("tcp_stream"),
        "udp-throughput": _to_overlay("udp_stream"),
        "cpu-per-rr": _to_overlay("tcp_rr", reading="processor_us"),
        "tcp-rr-many-flows": _to_overlay("tcp_rr", MANY, broken=f"{UNMARKED}, many flows"),
        "gap-to-bare": Evidence("rate", (ONCACHE, OVERLAY, BARE), control=(UNMARKED, OVERLAY, BARE), how=_won_back),
        "source-port": Evidence(
            "rate", ("steered", "steered, constant port"), how=lambda port, constant: float((port / constant).iloc[0])
        ),
    },
    figures={
        "fig5_rates": Picture(
            "Rate of a flow (Fig. 5)",
            *(_over_flows(kind, "rate", label, _draw_class(kind)) for kind, label in TITLES.items()),
        ),
        "fig5_processor": Picture(
            "Processor time, client and server together (Fig. 5)",
            *(
                _over_flows(kind, "cost", label, *([_draw_class(kind, "cost")] if kind.endswith("stream") else []))
                for kind, label in COSTS.items()
            ),
        ),
        "evictions": draw_trials,
        "knob_rules": plot(
            "What the cache saves grows with the rules",
            "rules in the chain (number)",
            TITLES["tcp_rr"],
            _draw_symmetric_logarithm,
            Sweep(
                "rules",
                "rate",
                of_kind("tcp_rr"),
                "network",
                {name: LOOKS[name] for name in (OVERLAY, ONCACHE)},
                rows="flows == 1 and processors == 'one a host'",
            ),
        ),
        "knob_processors": Picture("One processor or two?", _one_or_two("tcp_rr"), _one_or_two("udp_rr")),
        "knob_packets": Picture(
            "What one packet holds", _by_packet("tcp_stream", "TCP"), _by_packet("udp_stream", "UDP")
        ),
    },
    play=Play(
        (PLAY,),
        {"evicts": list(model.CACHES), "of_host": ["1", "2"]}
        | {name: [True, False] for name in ("reverse_check", "route_check", "forgets")},
        draw_packets,
    ),
)
