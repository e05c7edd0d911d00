"""ONCache's setting, its measurements in rounds and its trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from netrepro.emulation.overlay.network import (
    KINDS,
    Cache,
    Overlay,
    OverlayNetwork,
    Traffic,
    missing_for_kube_proxy,
    missing_for_overlays,
    missing_for_trials,
)
from netrepro.emulation.overlay.trials import AFTER, COLUMNS, WARM_UP, run_trials
from netrepro.protocols import oncache as model
from netrepro.study import SIMULATED, VIRTUAL, Check, OneRun, Progress, Reading, swept
from netrepro.study.setting import parameter

PRIVILEGED = "privileged"
BARE, AGAIN, OVERLAY, ONCACHE, UNMARKED = "bare", "bare again", "overlay", "ONCache", "no marks"
TITLES = {
    "tcp_stream": "TCP, throughput (Gbit/s)",
    "tcp_rr": "TCP, transactions (1000/s)",
    "udp_stream": "UDP, datagrams (1000/s)",
    "udp_rr": "UDP, transactions (1000/s)",
}
OF_CLASS = {"bare": "no overlay", "overlay": "Antrea", "oncache": "its ONCache", "cilium": "Cilium"}
UNITS = {"tcp_stream": 8e-9, "tcp_rr": 1e-3, "udp_stream": 1e-3, "udp_rr": 1e-3}
COSTS = {
    "tcp_stream": "TCP, processor time (s/GB)",
    "tcp_rr": "TCP, processor (µs a transaction)",
    "udp_stream": "UDP, processor time (s/GB)",
    "udp_rr": "UDP, processor (µs a transaction)",
}
COST_UNITS = {"tcp_stream": 1e3, "tcp_rr": 1.0, "udp_stream": 1e3 / 1400, "udp_rr": 1.0}
PARTS = ["client_us", "server_us", "processor_us"]
TOGETHER, MORE_RULES = "{}, one processor", "{}, more rules"
UNCUT, WHOLE, IN_FRAGMENTS = "{}, no segmentation", "{}, 8 KB whole", "{}, 8 KB in fragments"
FRESH, KUBE_PROXY = "bare, fresh hosts", "bare, kube-proxy"
EIGHT_KB, WITH_HEADERS = 8192, 8192 + 28
PORT = 49_152  # source port of all packets in a control
MANY = 32
LEAST_FAST = 0.95
LONG_CELL_S = 5.0
MOST_APART, MOST_APART_OF_LONG = 0.2, 0.06  # for cells that last LONG_CELL_S; as narrow as the narrowest acceptance
PUBLISHED, UNREVERSED, GENEVE = "as published", "no reverse check", "as published, GENEVE"
EVICTIONS = {PUBLISHED: {}, UNREVERSED: {"reverse_check": False}, "route checked too": {"route_check": True}}
DELETES, KEEPS = "deletes", "does not delete"
REFUSALS = {DELETES: True, KEEPS: False}
TRIALS = (*EVICTIONS, GENEVE, *REFUSALS)
PLAY = "one eviction"


@dataclass(frozen=True)
class Setting:
    """Traffic over the network of two hosts: the parameters that a reader may change, and the values that cases set.

    cached, marks, steering, segmentation, packet_bytes, netfilter : options of the overlay. is_bare : traffic between
    the hosts themselves. kind, flows, datagram_bytes : of the traffic. together : both ends of a flow run on one
    processor. again : the same measurement once more. fast_share : least and greatest share of packets on the fast path
    for which rates are believed.
    """

    tunnel: str = parameter("vxlan", "geneve only where the kernel has it", one_of=("vxlan", "geneve"))
    rules: int = parameter(0, "in the chain that forwarded packets pass, none of which matches", low=0, high=60_000)
    filter_entries: int = parameter(4096, "of the cache of the filter's answers", low=1, high=1_000_000)
    reverse_check: bool = parameter(True, "whether the way back must be on the fast path as well")
    constant_port: int = parameter(
        0, "UDP source port of all tunnelled packets, 0 for one from the flow's hash", low=0, high=65_535
    )
    prints: bool = parameter(False, "whether the programs print where they miss or learn, to the kernel's trace")
    cached: bool = False
    marks: bool = True
    steering: bool = False
    segmentation: bool = True
    packet_bytes: int = 1450
    netfilter: str = "overlay"
    is_bare: bool = False
    kind: str = "tcp_rr"
    flows: int = 1
    datagram_bytes: int = 1400
    together: bool = False
    again: bool = False
    fast_share: tuple[float, float] | None = None

    @property
    def overlay(self) -> Overlay:
        """The network of two hosts; the bare network is the hosts of the overlay."""
        names = ("filter_entries", "reverse_check", "constant_port", "prints")
        cache = Cache(**{name: getattr(self, name) for name in names})
        more = (self.rules, self.marks, self.steering, self.segmentation, self.packet_bytes, self.netfilter)
        return Overlay(self.tunnel, cache if self.cached else None, *more)


@dataclass(frozen=True)
class Trials:
    """All trials, packet by packet, of one variant of the programs or of the daemon: a name of TRIALS."""

    variant: str = PUBLISHED


@dataclass(frozen=True)
class Eviction:
    """One eviction in the model: of which host, and whether its connection tracking forgets, too."""

    reverse_check: bool = True
    route_check: bool = False
    evicts: str = "containers"
    of_host: str = "2"
    forgets: bool = True


# Cases.

CACHED: dict[str, Any] = {"cached": True}
ONE_TCP = {"kind": swept("tcp_rr"), "flows": swept(1)}
ONE_STREAM = {"kind": swept("tcp_stream"), "flows": swept(1)}
FRAGMENTS = {"kind": swept("udp_stream"), "flows": swept(1), "datagram_bytes": EIGHT_KB}
LARGE = FRAGMENTS | {"kind": swept("tcp_stream", "udp_stream"), "packet_bytes": WITH_HEADERS, "segmentation": False}
PAIR = {"kind": swept("tcp_rr", "udp_rr"), "flows": swept(1)}
CROWD = {"kind": swept("udp_rr"), "flows": swept(MANY)}
FIG5 = {"kind": swept(*KINDS), "flows": swept(1, 2, 4, 8, 16, MANY)}
NETWORKS: dict[str, dict[str, Any]] = {
    BARE: {"is_bare": True, **FIG5},
    AGAIN: {"is_bare": True, "again": True, **ONE_TCP},
    FRESH: {"is_bare": True, "netfilter": "nothing", **PAIR},
    KUBE_PROXY: {"is_bare": True, "netfilter": "kube-proxy", **PAIR},
    OVERLAY: FIG5,
    ONCACHE: CACHED | FIG5 | {"fast_share": (LEAST_FAST, 1.0)},
    UNMARKED: CACHED | FIG5 | {"marks": False, "flows": swept(1), "fast_share": (0.0, 0.0)},
    f"{UNMARKED}, many flows": CACHED | ONE_TCP | {"marks": False, "flows": swept(MANY)},
    f"{UNMARKED}, prints": CACHED | ONE_TCP | {"marks": False, "prints": True},
    "constant port": CACHED | CROWD | {"constant_port": PORT},
    "steered": CACHED | CROWD | {"steering": True},
    "steered, constant port": CACHED | CROWD | {"steering": True, "constant_port": PORT},
}
for _name, _changes in ((BARE, {"is_bare": True}), (OVERLAY, {}), (ONCACHE, CACHED)):
    NETWORKS[TOGETHER.format(_name)] = _changes | PAIR | {"together": True}
    if _name != BARE:
        NETWORKS[UNCUT.format(_name)] = _changes | ONE_STREAM | {"segmentation": False}
        NETWORKS[WHOLE.format(_name)] = _changes | LARGE
        NETWORKS[IN_FRAGMENTS.format(_name)] = _changes | FRAGMENTS
        NETWORKS[MORE_RULES.format(_name)] = _changes | ONE_TCP | {"rules": swept(10, 100, 1000)}


def cannot(setting: Setting | Trials | Eviction, tier: str) -> str:
    """Return why a tier cannot run a setting, or ""."""
    if isinstance(setting, Setting) and tier != PRIVILEGED:
        return f"costs are of a processor in real time, which tier {tier} has not; root's tier privileged has"
    if isinstance(setting, Setting) and setting.netfilter == "kube-proxy" and not missing_for_overlays():
        return missing_for_kube_proxy()
    if setting == Trials(GENEVE) and tier != VIRTUAL:
        return "many kernels of virtual machines lack GENEVE; the virtual one has it"
    if tier == VIRTUAL and not isinstance(setting, Eviction):
        return missing_for_trials()
    return missing_for_overlays() if tier == PRIVILEGED else ""


# Measuring.


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Run the trials, and meanwhile build all networks. Then measure all cells in rounds, each in its own random order,
    so that disturbances of the machine affect all alike."""
    timed = [run for run in runs if isinstance(run.setting, Setting)]
    tried = [run for run in runs if not isinstance(run.setting, Setting)]
    with ThreadPoolExecutor(1) as beside:
        trials = beside.submit(_read_trials, tried)  # they mostly wait
        with _built(dict.fromkeys(run.setting.overlay for run in timed)) as nets:
            readings = trials.result() | _read_rounds(timed, nets, progress)
    return [readings[run] for run in runs]


@contextmanager
def _built(overlays: Iterable[Overlay]) -> Iterator[dict[Overlay, OverlayNetwork]]:
    with ExitStack() as opened, ThreadPoolExecutor(2) as pool:
        nets = {each: OverlayNetwork(each) for each in overlays}
        for net in nets.values():
            opened.callback(net.close)
        list(pool.map(OverlayNetwork.__enter__, nets.values()))
        yield nets


def _read_rounds(
    runs: Sequence[OneRun], nets: Mapping[Overlay, OverlayNetwork], progress: Progress
) -> dict[OneRun, Reading]:
    """Read the rate (transactions, bytes or datagrams a second, all flows together), and for each of these the
    processor time: client_us, server_us and their sum processor_us."""
    if not runs:
        return {}
    for net in nets.values():  # work that is done only once (connections, neighbours) belongs to no round
        for kind in ("tcp_rr", "udp_rr"):
            net.run_traffic(kind, 0.02)
    random = np.random.default_rng(runs[0].seed[0])
    rounds = [[run for run in runs if run.seed == seed] for seed in dict.fromkeys(run.seed for run in runs)]
    traffic: dict[OneRun, Traffic] = {}
    for run in progress([cells[place] for cells in rounds for place in random.permutation(len(cells))]):
        own = run.setting
        how = (own.kind, run.seconds, own.flows, own.is_bare, own.together, own.datagram_bytes)
        traffic[run] = nets[own.overlay].run_traffic(*how)
    return {
        run: Reading({name: getattr(each, name) for name in ("rate", *PARTS)}, checks=list(_checks(run, traffic, nets)))
        for run, each in traffic.items()
    }


def _checks(run: OneRun, traffic: Mapping[OneRun, Traffic], nets: Mapping[Overlay, OverlayNetwork]) -> Iterator[Check]:
    """Check, once for all rounds, that ONCache's packets use the fast path, that none does without marks, and that the
    bare network gives about the same rate twice in a round."""
    own = run.setting
    if run.seed[1] or (own.kind, own.flows) != ("tcp_rr", 1):
        return
    if own.fast_share is not None:
        name = f"packets on the fast path, {'ONCache' if own.marks else 'no marks'}"
        yield Check(name, _share_of_fast(nets[own.overlay]), *own.fast_share)
    if own.again:
        once = {each: each._replace(setting=replace(own, again=False)) for each in traffic if each.setting == own}
        apart = float(np.median([traffic[each].rate / traffic[other].rate for each, other in once.items()]))
        most = 1 + (MOST_APART_OF_LONG if run.seconds >= LONG_CELL_S else MOST_APART)
        yield Check("no overlay, twice in a round", apart, 1 / most, most)


def _share_of_fast(net: OverlayNetwork) -> float:
    counted = [net.counters(number) for number in (1, 2)]
    hits, misses = (sum(each[f"egress_{name}"] for each in counted) for name in ("hit", "miss"))
    return hits / (hits + misses) if hits + misses else 0.0


# Trials.


def _read_trials(runs: Sequence[OneRun]) -> dict[OneRun, Reading]:
    """Read the share of trials that hold, and single evictions of the model."""
    if not runs:
        return {}
    tier, by_model = runs[0].tier, model_trials()
    table = by_model if tier == SIMULATED else kernel_trials(tier)
    return {
        run: evict_once(run.setting)
        if isinstance(run.setting, Eviction)
        else read_trials(run.setting.variant, table, by_model)
        for run in runs
    }


def read_trials(variant: str, table: pd.DataFrame, by_model: pd.DataFrame) -> Reading:
    """Read the share of trials that hold. Check that they began on the fast path and end as in the model."""
    rows = table[table["case"] == variant]
    both = rows.merge(by_model, on=["what", "case", "trial"])  # empty where the model has no such trial
    differing = float((both["holds_x"] != both["holds_y"]).sum())
    checks = [
        Check("trials that began on the fast path", float(rows["fast_before"].mean()), at_least=1.0),
        Check("trials in which programs and model differ", differing, at_most=0.0),
    ]
    return Reading({"holds": float(rows["holds"].mean())}, {"trials": rows}, checks)


def kernel_trials(tier: str) -> pd.DataFrame:
    """Run all trials with the real programs; in virtual time also with GENEVE."""
    evicted = {case: Overlay(cache=Cache(**changes)) for case, changes in EVICTIONS.items()}
    if tier == VIRTUAL:
        evicted[GENEVE] = Overlay(tunnel="geneve", cache=Cache())
    return run_trials(tier, evicted, REFUSALS)


def model_trials() -> pd.DataFrame:
    """Run the same trials with the model."""
    rows: list[tuple[Any, ...]] = []
    for case, changes in EVICTIONS.items():
        for cache in model.CACHES:
            for number in ("1", "2"):
                hosts, request = model.two_hosts(**changes), model.Packet("a", "b", 1, 2)
                fast = _is_fast(hosts, request)
                for host in hosts.values():
                    host.tracked.clear()
                model.evict(hosts[number], cache)
                arrived = _arrived(model.exchange(hosts, request, AFTER))
                again = arrived == 2 * AFTER and _is_fast(hosts, request, 0)
                rows.append(("evict", case, f"{cache} of host {number}", fast, arrived, 2 * AFTER, again))
    for case, delete in REFUSALS.items():
        hosts, request = model.two_hosts(), model.Packet("a", "b", 1, 2)
        fast = _is_fast(hosts, request)
        model.refuse(hosts, "2", lambda packet: packet.destination_port == 2, delete)
        arrived = _arrived(model.exchange(hosts, request, AFTER))
        rows.append(("refuse", case, "port 2", fast, arrived, 2 * AFTER, arrived == 0))
    return pd.DataFrame(rows, columns=COLUMNS)


def _is_fast(hosts: dict[str, model.Host], request: model.Packet, warm_up: int = WARM_UP) -> bool:
    model.exchange(hosts, request, warm_up)
    return all(passed.fast_out and passed.fast_in for passed in model.exchange(hosts, request, 3))


def _arrived(passed: Sequence[model.Passed]) -> int:
    return sum(each.arrived for each in passed)


def evict_once(setting: Eviction) -> Reading:
    """Evict one of the model's caches, and read which packets before and after the eviction took the fast path."""
    hosts = model.two_hosts(reverse_check=setting.reverse_check, route_check=setting.route_check)
    request = model.Packet("a", "b", 1, 2)
    before = model.exchange(hosts, request, 4)
    for host in hosts.values() if setting.forgets else ():
        host.tracked.clear()
    model.evict(hosts[setting.of_host], setting.evicts)
    packets = [*before, *model.exchange(hosts, request, 6)]
    table = pd.DataFrame([asdict(packet) for packet in packets])
    return Reading(tables={"packets": table.assign(is_before=table.index < len(before))})
