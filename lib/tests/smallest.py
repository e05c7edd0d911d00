"""Each paper's Study at the smallest size that still makes every number of it: the tests ask for shapes, not values."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from netrepro.papers import (
    buffer_sizing,
    gmm_diagnosis,
    gmm_traffic,
    hedera,
    raft,
    repnet,
    tcp_at_scale,
)
from netrepro.papers.cdn_routing import study as cdn_routing
from netrepro.papers.mptcp_wireless.experiments import WIFI_MBPS
from netrepro.study import Knob, Scale, Study

SMALLEST = "smallest"
FEW_NETWORKS = {"top": 3, "transit": 15, "stubs": 40, "calibration_worlds": 2}
FEW_BLOCKS, FEW_CLIENTS = Scale(changes={"blocks": 1}), Scale(changes={"clients": 40})
COARSE = {"resolution": 8.0, "authors_resolution": 8.0}
SHORT_FLOWS = {"model_kb": 40, "flow_kb": 120}
SOON = {"counted_from_s": 0.6, "starts_within_s": 0.2}
# Of cases, and of knobs. A study that is not here has a profile "test", or else "quick", that is small.
FEW_FLOWS = {"flows": 100, "fewer_flows": 100, "oversubscribed_flows": 80, "fat_tree_flows": 40}
FEW_FLOWS |= {"bursts": 20, "probes": 100}
SCALES = {
    "buffer_sizing": Scale(1.0, changes=COARSE, only={"flows": (1, 10, 100)}, without=buffer_sizing.MANY_CASES),
    "cdn_routing": Scale(changes=FEW_NETWORKS, fewer=cdn_routing.ONCE),
    "codel": Scale(
        60.0,
        changes={"static_s": 3.0, "edge_s": 30.0},
        only={"rate_mbps": (0.128, 0.512, 3.0, 45.0), "round_trip_ms": (100.0,)},
    ),
    "dcell": Scale(changes=SHORT_FLOWS),
    "flow_completion_time": Scale(5.0),
    "gmm_diagnosis": replace(
        gmm_diagnosis.STUDY.scales["test"],
        changes=gmm_diagnosis.STUDY.scales["test"].changes
        | {"flows": 300, "noise_flows": 400, "trees": 3, "noise": (0, 0.6, 0.95), "first_packets": (3, None)}
        | {"search_rows": 200, "selected_features": 2, "network_noise": (0.2, 0.5)},
    ),
    "gmm_traffic": replace(
        gmm_traffic.STUDY.scales["test"],
        changes=gmm_traffic.STUDY.scales["test"].changes | {"flows": 400, "folds": 2} | {"max_components": 4},
    ),
    "hedera": Scale(0.3, changes=SOON, without=(hedera.GIGABIT,)),
    "hull": Scale(0.2, changes={"large_requests": 6}),
    "incast": FEW_BLOCKS,
    "initial_window": FEW_CLIENTS,
    "l4s_adoption": Scale(2.2),
    "mptcp_wireless": Scale(5.0, only={"receive_buffer_kb": (50, 600), "wifi_mbps": WIFI_MBPS}),
    "outcast": Scale(0.2, only={"drops_in_a_row": (0, 5, 6), "far_flows": (1, 7)}),
    "raft": replace(raft.STUDY.scales["test"], changes={"trials": 200, "calibration_trials": 1000}),
    "red": Scale(2.0),
    "repnet": replace(repnet.STUDY.scales["test"], changes=repnet.STUDY.scales["test"].changes | FEW_FLOWS),
    "sst": Scale(20.0, changes={"pages": 80}),
    "tcp_at_scale": replace(tcp_at_scale.STUDY.scales["quick"], seconds=10.0, unjudged=(), without=()),
    "tcp_pacing": Scale(20.0, changes={"many_s": 12.0, "trips_s": 30.0}),
}
KNOBS = {
    "buffer_sizing": Scale(1.0, changes=COARSE),
    "cdn_routing": Scale(changes=FEW_NETWORKS | {"worlds": 1}),
    "codel": Scale(30.0, changes={"static_s": 3.0, "edge_s": 15.0}),
    "dcell": Scale(changes=SHORT_FLOWS),
    "flow_completion_time": Scale(1.0),
    "hedera": Scale(0.3, changes=SOON),
    "hull": Scale(0.1, changes={"large_requests": 6}),
    "incast": FEW_BLOCKS,
    "initial_window": FEW_CLIENTS,
    "mptcp_wireless": Scale(4.0),
    "outcast": Scale(0.1),
    "red": Scale(2.0),
    "repnet": Scale(changes=FEW_FLOWS, only={"buffer_kb": (1000, 4000), "buffer_alpha": (0.21, 1.0)}),
    "sst": Scale(changes={"pages": 25}),
    "tcp_at_scale": Scale(10.0, only={"rate_mbps": (100.0, 200.0)}),
}
REPETITIONS = 2  # the fewest that have an interval


def smallest(slug: str) -> Study:
    """Return a paper's Study with a profile SMALLEST, and knobs that are turned at it."""
    study = import_module(f"netrepro.papers.{slug}").STUDY
    scale = SCALES.get(slug, study.scales.get("test", study.scales["quick"]))
    knobs = {name: _small(knob, slug) if isinstance(knob, Knob) else knob for name, knob in study.knobs.items()}
    return replace(study, scales={**study.scales, SMALLEST: scale}, knobs=knobs)


def _small(knob: Knob, slug: str) -> Knob:
    own = knob.scale if isinstance(knob.scale, Scale) else knob.scale.get("test", knob.scale["quick"])
    return replace(knob, scale=KNOBS.get(slug, own), repetitions=min(REPETITIONS, knob.repetitions))
