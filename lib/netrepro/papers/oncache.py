"""A cache beside an overlay network: Lin et al., "ONCache", NSDI 2025, Fig. 5.

Rates and processor times are measured on this machine's kernel (tier privileged), in rounds through all networks.
Trials test packet by packet what the caches must never do: there, in virtual time, and with a model (tier simulated).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
from netrepro.paths import data_dir
from netrepro.protocols import oncache as model
from netrepro.study import (
    SIMULATED,
    VIRTUAL,
    Check,
    Evidence,
    OneRun,
    Part,
    Play,
    Progress,
    Reading,
    Runs,
    Scale,
    Study,
    seed_and_repetition,
    swept,
)
from netrepro.study.figures import Mark, Panel, Picture, Sweep, plot
from netrepro.study.setting import parameter
from netrepro.style import PUBLISHED_GREY, new_figure, scheme

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


# What was measured.


def trial_table(runs: Runs) -> pd.DataFrame:
    """Return the share of trials that hold: a row for each case, a column for each tier."""
    tried = runs.values[runs.values["case"].isin(TRIALS)]
    return tried.pivot_table("holds", "case", "tier", sort=False).round(3)


def rates(runs: Runs) -> pd.DataFrame:
    """Return the rows of traffic; none where costs were not measured."""
    columns = ["repetition", "case", "kind", "flows", "rules", "rate", *PARTS]
    return runs.values.reindex(columns=columns).dropna(subset="rate").astype({"flows": int, "rules": int})


def rate(runs: Runs, case: str, kind: str, flows: int = 1, column: str = "rate") -> pd.Series:
    """Return one reading of one kind of traffic in a case, by repetition."""
    rows = rates(runs).query("case == @case and kind == @kind and flows == @flows")
    return rows.set_index("repetition")[column].sort_index()


def ratio(runs: Runs, ours: str, other: str, kind: str, flows: int = 1, column: str = "rate") -> pd.Series:
    """Compute the ratio of two networks in the same round."""
    return rate(runs, ours, kind, flows, column) / rate(runs, other, kind, flows, column)


def summary(runs: Runs) -> pd.DataFrame:
    """Return a row for each network, kind and number of flows: median rate and processor time, and the rate over that
    of the overlay with the same changes, or where there is none of the overlay."""
    table = rates(runs).groupby(["kind", "flows", "case", "rules"], sort=False)[["rate", "processor_us"]].median()
    rate_of = table["rate"].to_dict()

    def overlay(kind: str, flows: int, case: str, rules: int) -> float:
        changed = kind, flows, case.replace(ONCACHE, OVERLAY).replace(BARE, OVERLAY), rules
        return rate_of.get(changed) or rate_of[kind, flows, OVERLAY, 0]

    return table.assign(to_overlay=[own / overlay(*key) for key, own in rate_of.items()]).sort_index()


def processor_times(runs: Runs) -> pd.DataFrame:
    """Return the processor time of the client, the server and both (medians), and that of both over the overlay's, for
    each kind of traffic, network and number of flows: seconds a gigabyte of streams, microseconds a transaction."""
    rows = rates(runs).query("case in @LOOKS").groupby(["kind", "case", "flows"], sort=False)[PARTS].median()
    both = rows["processor_us"]
    overlay = both.xs(OVERLAY, level="case").reindex(both.index.droplevel("case")).to_numpy() if len(both) else both
    times = rows.mul(rows.index.get_level_values("kind").map(COST_UNITS).to_numpy(), axis=0) if len(both) else rows
    return times.set_axis(["client", "server", "both"], axis=1).assign(to_overlay=both / overlay).sort_index()


def bare_hosts(runs: Runs) -> pd.DataFrame:
    """Return the request-response rates of hosts without an overlay, over those of fresh hosts in the same round
    (medians): a row for what netfilter has, a column for each kind of traffic."""
    hosts = {FRESH: "nothing", BARE: "connection tracking", KUBE_PROXY: "connection tracking, kube-proxy's rules"}
    return pd.DataFrame(
        {
            kind: {what: ratio(runs, case, FRESH, kind).median() for case, what in hosts.items()}
            for kind in ("tcp_rr", "udp_rr")
        }
    )


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with this run's numbers."""
    where = runs.tier if runs.has(PUBLISHED) else SIMULATED
    back, whose = float(runs.numbers(PUBLISHED, where)["holds"].iloc[0]), "in the model " if where == SIMULATED else ""
    learns = f"{whose}a flow is learned again after {back:.0%} of the evictions"
    if why := runs.why_not(ONCACHE):
        return f"Costs were not measured here ({why}); {learns}."
    tcp, udp, stream = (ratio(runs, ONCACHE, OVERLAY, kind).median() for kind in ("tcp_rr", "udp_rr", "tcp_stream"))
    words = (
        f"The cache makes request and response {tcp:.2f} times as fast as this overlay with TCP (published 1.36) and "
        f"{udp:.2f} times with UDP (1.34), and TCP's throughput {stream:.2f} times (1.12); {learns}."
    )
    return words if runs.trusted else f"Untrusted (see section 6): {words}"


# Figures.


def published() -> pd.DataFrame:
    """Read the class project's tables: rows by transport, network and flows; gbps, processors and rr of one flow."""
    table = pd.read_csv(data_dir("oncache") / "class_rates.csv", comment="#")
    return table.set_index(["transport", "network", "flows"]).sort_index()


def draw_idea() -> Figure:
    """Draw where the four programs run, and the path past the overlay."""
    figure, axis = new_figure("One host: the overlay's way, and the way past it", "", "")
    figure.set_size_inches(9, 3.2)
    axis.axis("off")
    for x, name in enumerate(("container", "bridge", "routing, filter,\nconnections", "tunnel", "network card")):
        box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": scheme("overlay").colour}
        axis.text(2 * x, 0, name, ha="center", va="center", bbox=box)
        if x:
            axis.annotate("", (2 * x - 0.62, 0), (2 * x - 1.38, 0), arrowprops={"arrowstyle": "<->"})
    for at, above, below in ((0.95, "egress", "ingress-init"), (7.1, "ingress", "egress-init")):
        axis.text(at, 0.72, above, ha="center", color=scheme("ONCache").colour)
        axis.text(at, -0.72, below, ha="center", color=PUBLISHED_GREY)
    fast = {"arrowstyle": "<->", "color": scheme("ONCache").colour, "connectionstyle": "arc3,rad=-0.15", "lw": 2}
    axis.annotate("", (7.0, 1.0), (1.05, 1.0), arrowprops=fast)
    axis.text(4, 1.68, "hit: cached headers, straight across", ha="center", color=scheme("ONCache").colour)
    axis.text(4, -1.2, "miss: marked, through the overlay; what comes out with both marks teaches", ha="center")
    axis.set(xlim=(-1, 9), ylim=(-1.5, 2.0))
    return figure


def of_kind(kind: str) -> Callable[[Runs], pd.DataFrame]:
    """Make the function that returns one kind of traffic with four new columns: rate (for each flow), cost (seconds a
    gigabyte of streams, microseconds a transaction), network (the case without its other changes) and processors
    (whether both ends of a flow share one)."""

    def rows(runs: Runs) -> pd.DataFrame:
        table = rates(runs).query("kind == @kind")
        network = table["case"].str.replace(", one processor|, more rules", "", regex=True)
        together = np.where(table["case"].str.endswith(", one processor"), "one for both", "one a host")
        new = {"network": network, "processors": together, "cost": table["processor_us"] * COST_UNITS[kind]}
        return table.assign(rate=table["rate"] / table["flows"] * UNITS[kind], **new)

    return rows


def _draw_class(kind: str, reading: str = "rate") -> Mark:
    """Draw the class's rates, or a stream's costs, in grey, scaled so that its overlay with one flow coincides with
    ours."""

    def draw(axis: Axes, runs: Runs) -> None:
        if not runs.has(OVERLAY):
            return
        table = published().loc[kind[:3]]
        column = table["rr" if kind.endswith("rr") else "gbps"]
        if reading == "cost":
            column = table["processors"] / column
        ours = of_kind(kind)(runs).query("case == @OVERLAY and flows == 1")[reading]
        scale = ours.median() / column["overlay", 1]
        for (name, label), marker in zip(OF_CLASS.items(), "osv^", strict=True):
            axis.plot(scale * column[name], f"{marker}:", color=PUBLISHED_GREY, lw=1, label=f"class: {label}", zorder=1)

    return draw


def _over_flows(kind: str, reading: str, label: str, *marks: Mark) -> Panel:
    return Panel(
        "flows", label, *marks, Sweep("flows", reading, of_kind(kind), looks=LOOKS), log="x", y_range=(0, None)
    )


def _one_or_two(kind: str) -> Panel:
    cases = [*LOOKS, *map(TOGETHER.format, LOOKS)]
    ours = Sweep("processors", "rate", of_kind(kind), "network", LOOKS, rows=f"flows == 1 and case in {cases}")
    return Panel("processors for both ends of a flow (count)", TITLES[kind], ours)


def packets(kind: str) -> Callable[[Runs], pd.DataFrame]:
    """Make the function that returns streams of one kind and flow in ONCache and overlay, with three new columns:
    network, packet (what one holds, in words) and gbps."""
    sizes = {
        "tcp_stream": {UNCUT: 1, WHOLE: 1, "{}": 1},
        "udp_stream": {"{}": 1400, WHOLE: EIGHT_KB, IN_FRAGMENTS: EIGHT_KB},
    }
    words = {UNCUT: "1.4 KB", WHOLE: "8 KB", IN_FRAGMENTS: "8 KB,\nin fragments"}
    words["{}"] = "64 KB" if kind == "tcp_stream" else "1.4 KB"

    def rows(runs: Runs) -> pd.DataFrame:
        table = rates(runs).query("kind == @kind and flows == 1")
        parts = [
            table[table["case"] == case.format(name)].assign(network=name, packet=words[case], counted=size)
            for case, size in sizes[kind].items()
            for name in (OVERLAY, ONCACHE)
        ]
        return pd.concat(parts).eval("gbps = rate * counted * 8e-9")

    return rows


def _by_packet(kind: str, name: str) -> Panel:
    ours = Sweep("packet", "gbps", packets(kind), "network", {each: LOOKS[each] for each in (OVERLAY, ONCACHE)})
    return Panel("what a packet holds (bytes)", f"{name}, throughput (Gbit/s)", ours, y_range=(0, None))


def _draw_symmetric_logarithm(axis: Axes, _: Runs) -> None:
    axis.set_xscale("symlog", linthresh=10)


LOOKS = dict(zip((BARE, OVERLAY, ONCACHE), ("bare", "overlay", "ONCache"), strict=True))  # their schemes


def draw_trials(runs: Runs) -> Figure:
    """Draw after which evictions a flow returns to the fast path, with the programs and with the model."""
    rows = runs.tables["trials"].query("what == 'evict'")
    tiers = list(dict.fromkeys(rows["tier"]))
    figure, axes = new_figure("Back on the fast path after an eviction?", "", "", columns=len(tiers))
    figure.set_size_inches(1.5 + 4.5 * len(tiers), 4.2)
    for place, (axis, tier) in enumerate(zip(np.atleast_1d(axes), tiers, strict=True)):
        wide = rows[rows["tier"] == tier].pivot_table("holds", "trial", "case", aggfunc="first", sort=False)
        axis.imshow(wide.astype(float), cmap="RdYlGn", vmin=-0.3, vmax=1.3, aspect="auto")
        for (y, x), holds in np.ndenumerate(wide.to_numpy()):
            axis.text(x, y, "yes" if holds else "no", ha="center", va="center")
        axis.set_xticks(range(len(wide.columns)), [str(name).replace(" ", "\n") for name in wide.columns])
        axis.set_yticks(range(len(wide)), list(wide.index) if not place else [""] * len(wide))
        axis.set_title(f"tier {tier}" + (" (the model)" if tier == SIMULATED else ""), fontsize=10)
        axis.grid(visible=False)
    return figure


def draw_packets(reading: Reading, case: str) -> Figure:
    """Draw which packets of a conversation took the fast path, out of the sender's host and into the receiver's."""
    figure, axis = new_figure("Packets before and after", "packet (odd: a to b, even: b to a)", "")
    figure.set_size_inches(9, 2.2)
    packets = reading["packets"]
    for y, way in enumerate(("fast_out", "fast_in")):
        for x, (is_fast, arrived) in enumerate(zip(packets[way], packets["arrived"], strict=True), 1):
            colour = scheme("ONCache" if is_fast else "overlay").colour
            axis.plot([x], [y], "s" if arrived else "x", color=colour, ms=9)
    axis.axvline(packets["is_before"].sum() + 0.5, color="black", linewidth=0.8)
    axis.set_yticks([0, 1], ["leaving", "arriving"])
    axis.set(ylim=(-0.6, 1.6), title="fast path (orange) or overlay (blue); the line is the eviction")
    return figure


# The study.


def _to_overlay(kind: str, flows: int = 1, reading: str = "rate", broken: str = UNMARKED) -> Evidence:
    """Compare ONCache with the overlay in the same round. In the control nothing is marked, so nothing may be
    learned."""

    def how(ours: pd.Series, overlay: pd.Series) -> float:
        return ours[kind, flows] / overlay[kind, flows]

    return Evidence(reading, (ONCACHE, OVERLAY), control=(broken, OVERLAY), how=how)


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
TWICE = {FRESH: 2, KUBE_PROXY: 2} | {
    each.format(name): 2 for each in (WHOLE, IN_FRAGMENTS) for name in (OVERLAY, ONCACHE)
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
    profiles={
        "quick": Scale(
            0.08,
            only={"flows": (1, 8, MANY), "rules": (100, 1000)},
            where=lambda setting: not isinstance(setting, Setting) or setting.flows == 1 or setting.kind.endswith("rr"),
            without=(PLAY,),
            fewer=ONCE | TWICE,
        ),
        "paper": Scale(LONG_CELL_S, without=(PLAY,), fewer=ONCE),
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
