"""RepNet as a Study: which networks run with which schemes, and what is compared with the paper's claims.

A case's name is its network, its scheme, and what is broken in it: "1:1 repflow, same path".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netrepro.papers.repnet.figures import FIGURES, NAMES
from netrepro.papers.repnet.measuring import (
    AGAIN,
    FAT_TREE,
    GROUPS,
    INCAST,
    LOOPBACK,
    MORE_MICE,
    PARTS,
    PATHS,
    PERCENTILES,
    PROBES,
    RELEASED_SORTING,
    SORTING,
    Tables,
    measure_all,
    pooled,
    reduction,
)
from netrepro.papers.repnet.setting import (
    ELEPHANT_LOADS,
    INCAST_SENDERS,
    MESSAGE_MS,
    MOUSE_BYTES,
    OF_LINUX,
    REPLICATED,
    SCALED,
    SCHEMES,
    SOFTWARE_MS,
    SORTED,
    FatTree,
    Incast,
    Loopback,
    MoreMice,
    Paths,
    ReleasedSorting,
    Setting,
    Sorting,
)
from netrepro.study import REAL_TIME, SIMULATED, VIRTUAL, Evidence, Knob, Runs, Scale, Study, in_real_time, swept
from netrepro.study.evidence import greatest_first, jackknife, least_first

LOADS = {"1:1": (0.1, 0.2, 0.3, 0.4, 0.5), "2:1": (0.1, 0.2, 0.3, 0.5), "fat-tree": (0.1, 0.2, 0.4, 0.6, 0.8)}
BENEFIT_LOADS = (0.4, 0.6, 0.8)  # in the fat-tree
MOST_JOB_RATIO = 100 / 95  # up to this ratio the paper calls a job undisturbed
# What begins the names of cases -> what they have in common. In virtual time a kernel runs the testbed at its own rate.
# The simulator delays acknowledgements there as in other networks, since a kernel does not delay them at the start of a
# connection, as the simulator would with the kernel's delay.
FULL_RATE: dict[str, Any] = {"part": MORE_MICE, "initial_rto_ms": OF_LINUX["initial_rto_ms"]}
NETWORKS: dict[str, dict[str, Any]] = {
    "1:1": {},
    "2:1": {"oversubscription": 2},
    "fat-tree": {"part": FAT_TREE},
    "incast": {"part": INCAST},
    "scaled": SCALED | {"part": MORE_MICE, "repflow_extra_ms": 0.0, "repsyn_extra_ms": 0.0},
    "full-rate": FULL_RATE,
    "full-rate-2:1": FULL_RATE | {"oversubscription": 2, "lasts_s": lambda setting: 0.3 * setting.lasts_s},
    "probes": {"part": PROBES, "size_bytes": swept(1, MOUSE_BYTES)},
    "sort": {"part": SORTING},
    "kernel sort": SORTED | {"part": SORTING},
    "released sort": {"part": RELEASED_SORTING, "message_ms": swept(*MESSAGE_MS)},
}


def _cases() -> dict[str, dict[str, Any]]:
    """Return the cases that figures, claims and their controls need."""
    one_path: dict[str, Any] = {"same_path": True}
    large: dict[str, Any] = {"buffer_kb": lambda setting: 16 * setting.buffer_kb}  # so that hardly a packet is lost
    cases: dict[str, dict[str, Any]] = {"paths": {"part": PATHS}, "loopback": {"part": LOOPBACK}}

    def add(network: str, name: str, control: str = "", loads: Sequence[float] = (), **changes: Any) -> None:
        grid = {"load": swept(*loads)} if loads else {}
        cases[f"{network} {name}{control and ', '}{control}"] = NETWORKS[network] | {"scheme": name} | grid | changes

    for name in SCHEMES:
        for network, loads in LOADS.items():
            add(network, name, "", loads)
        add("incast", name, "", (0.2,))
        add("probes", name)
        add("scaled", name, "", (0.5,))
        add("kernel sort", name)
        add("released sort", name)
        add("full-rate", name, "", ELEPHANT_LOADS)
        add("full-rate-2:1", name, "", (0.5,))
        # On real kernels the control hashes differently, so that TCP must be compared under that hash as well.
        add("scaled", name, "same path", (0.5,), **one_path)
        add("kernel sort", name, "same path", **one_path)
        # Where schemes are mixed, TCP is measured among the copies of the same run.
        add("1:1", name, "same path", (0.5,), **one_path)
        add("fat-tree", name, "same path", BENEFIT_LOADS, **one_path)
    for name in REPLICATED:
        add("1:1", name, "large memory", (0.5,), **large)
        add("incast", name, "same path", (0.2,), **one_path)
        add("probes", name, "same path", **one_path)
        add("full-rate", name, "same path", (0.5,), **one_path)
        add("full-rate", name, "large memory", (0.5,), **large)
    add("probes", "tcp", "idle", long_flows=0)
    for name in ("tcp", "repflow"):
        add("1:1", name, "alone", ELEPHANT_LOADS, alone=True)
    add("1:1", "repflow", "all twice", ELEPHANT_LOADS, alone=True, replicate_below_bytes=10**9)
    add("full-rate", "repflow", "all twice", ELEPHANT_LOADS, replicate_below_bytes=10**9)
    add("2:1", "tcp", "alone", LOADS["2:1"], alone=True)
    add("2:1", "mptcp", "", LOADS["2:1"], alone=True)
    add("2:1", "mptcp", "one subflow", LOADS["2:1"], alone=True, subflows=1)
    add("sort", "tcp", more_jobs=2)  # its tail needs them
    add("sort", "tcp", "large memory", more_jobs=2, **large)
    for name in REPLICATED:
        add("sort", name)
        add("sort", name, "same path", **one_path)
    for name in ("tcp", "repsyn"):
        add("sort", name, "alone", one_master=True, more_jobs=2)
    return cases


CASES = _cases()


def of_network(*networks: str) -> list[str]:
    """Return the names of all cases of these networks."""
    return [name for name in CASES if name.startswith(tuple(f"{network} " for network in networks))]


# How readings become a claim's value.


def _gains(case: str, which: str, *loads: float, **how: Any) -> Evidence:
    """Make the evidence on the reduction against TCP. The control has both connections on one path, with the TCP of the
    same run where schemes are mixed; on real kernels this changes TCP's path too."""
    tcp = f"{case.split()[0]} tcp"
    broken = f"{case}, same path", f"{tcp}, same path" if f"{tcp}, same path" in CASES else tcp
    return Evidence("mice_times", (case, tcp), broken, reduction(which, *loads, **how), pooled=True)


def _little(name: str, which: str, network: str = "1:1") -> Evidence:
    """Make the evidence on the reduction at load .2, with the software's time included."""
    return replace(_gains(f"{network} {name}", which, 0.2, idle_ms=SOFTWARE_MS), control=None)


def _slow(case: str, broken: str) -> Evidence:
    """Make the evidence on the share of slow flows of 100 KB, over all repetitions."""
    return Evidence("probes", case, broken, lambda table: table["is_slow"][table["size_bytes"] == MOUSE_BYTES], True)


def _longer(name: str) -> Evidence:
    """Make the evidence on the order of medians at load .1. The control leaves out the software's extra time."""

    def order(tcp: pd.DataFrame, ours: pd.DataFrame, with_extra: bool = True) -> list[str]:
        median_ms, extra_ms = ours.loc[0.1]
        return least_first("tcp", name)(tcp.loc[0.1, "median_ms"], median_ms if with_extra else median_ms - extra_ms)

    whole = Evidence(("median_ms", "extra_ms"), ("1:1 tcp", f"1:1 {name}"), how=order)
    return replace(whole, control=replace(whole, how=partial(order, with_extra=False)))


def _ahead(which: str, network: str = "1:1") -> Evidence:
    """Make the evidence on the order of RepFlow and RepSYN at load .5. The control has so large memories that hardly a
    packet is lost."""
    both, order = tuple(f"{network} {name}" for name in REPLICATED), least_first(*REPLICATED)
    large = tuple(f"{case}, large memory" for case in both)
    return Evidence(f"{which}_ms", both, large, lambda repflow, repsyn: order(repflow[0.5], repsyn[0.5]))


def _oversubscribed(twice: str = "2:1", once: str = "1:1") -> Evidence:
    """Make the evidence on whether RepFlow and RepSYN gain more, on average at load .5, with an oversubscription of two
    or with none."""

    def order(*p99: pd.Series) -> list[str]:
        gains = [np.mean([(1 - ours[0.5] / tcp[0.5]) * 100 for ours in both]) for *both, tcp in (p99[:3], p99[3:])]
        return greatest_first("2:1", "1:1")(*gains)

    return Evidence("p99_ms", tuple(f"{at} {name}" for at in (twice, once) for name in (*REPLICATED, "tcp")), how=order)


def _elephants(network: str = "1:1", alone: str = ", alone") -> Evidence:
    """Make the evidence on the median throughput over TCP's, at the load where the ratio is lower, with one scheme for
    all mice of a run. The control sends flows of every size twice."""
    return Evidence(
        "elephant_mbps",
        (f"{network} repflow{alone}", f"{network} tcp{alone}"),
        (f"{network} repflow, all twice", f"{network} tcp{alone}"),
        lambda repflow, tcp: min(repflow[load] / tcp[load] for load in ELEPHANT_LOADS),
    )


def _spread_by_size(repflow: pd.DataFrame, tcp: pd.DataFrame) -> float:
    gains = (1 - repflow.loc[0.4] / tcp.loc[0.4]) * 100
    return float(np.nanmax(gains) - np.nanmin(gains))


def _incast_longer(repflow: Tables, tcp: Tables) -> np.ndarray:
    return jackknife(tcp, lambda out: pooled(repflow, "p99", 0.2, out) - pooled(tcp, "p99", 0.2, out))


def _least_increase(mptcp: Tables, tcp: Tables) -> np.ndarray:
    """Compute how much longer MPTCP's 99.9th percentile is than TCP's (%), at the load where the difference is
    least."""
    increases = [-reduction("p999", load)(mptcp, tcp) for load in sorted(set(tcp[0]["load"]))]
    return min(increases, key=lambda values: float(values.mean()))


def _sorts(case: str, which: str, broken_tcp: str) -> Evidence:
    """Make the evidence on a job's time: the ratio of the median to TCP's, or the reduction of a percentile, with one
    path as the control."""
    pair, share = (case, f"{case.rsplit(' ', 1)[0]} tcp"), PERCENTILES[which]
    if which == "median":
        return Evidence("jobs", pair, how=lambda ours, tcp: ours["took_ms"].median() / tcp["took_ms"].median())

    def reduction_of_one(ours: pd.DataFrame, tcp: pd.DataFrame) -> float:
        return (1 - ours["took_ms"].quantile(share) / tcp["took_ms"].quantile(share)) * 100

    return Evidence("jobs", pair, (f"{case}, same path", broken_tcp), reduction_of_one)


def _undisturbed(*cases: Tables) -> list[pd.Series]:
    """Mark the jobs that take at most MOST_JOB_RATIO times the 5th percentile of all jobs."""
    took_ms = pd.concat([jobs["took_ms"] for case in cases for jobs in case.values()])
    return [took_ms <= MOST_JOB_RATIO * took_ms.quantile(0.05)]


def _tail_over_median(tcp: Tables) -> np.ndarray:
    def at(left_out: int | None) -> float:
        took_ms = pd.concat([jobs["took_ms"] for repetition, jobs in tcp.items() if repetition != left_out])
        return float(took_ms.quantile(PERCENTILES["p999"]) / took_ms.median())

    return jackknife(tcp, at)


OF_FAT_TREE = ("fat-tree repsyn", "fat-tree repflow")
SORTS = ("sort tcp", "sort repsyn")
CLAIMS = {
    "slow-flows-tcp": _slow("probes tcp", "probes tcp, idle"),
    "slow-flows-repflow": _slow("probes repflow", "probes repflow, same path"),
    "paths-uncorrelated": Evidence("apart", "paths", Evidence("together", "paths")),
    "mptcp-p999": Evidence(
        "mice_times",
        ("2:1 mptcp", "2:1 tcp, alone"),
        ("2:1 mptcp, one subflow", "2:1 tcp, alone"),
        _least_increase,
        pooled=True,
    ),
    **{f"{name}-{which}": _gains(f"1:1 {name}", which, 0.5) for name in REPLICATED for which in PERCENTILES},
    "little-at-low-load": _little("repflow", "p99"),
    "little-at-low-load-repflow-median": _little("repflow", "median"),
    "little-at-low-load-repsyn-median": _little("repsyn", "median"),
    "little-at-low-load-repsyn-p99": _little("repsyn", "p99"),
    **{f"longer-median-at-0.1-{name}": _longer(name) for name in REPLICATED},
    **{f"repflow-ahead-{which}": _ahead(which) for which in ("p99", "p999")},
    "more-when-oversubscribed": _oversubscribed(),
    "equal-by-size": Evidence(GROUPS, ("1:1 repflow", "1:1 tcp"), how=_spread_by_size),
    "incast-repflow-p99": Evidence("mice_times", ("incast repflow", "incast tcp"), how=_incast_longer, pooled=True),
    "incast-repflow-p999": _gains("incast repflow", "p999", 0.2),
    "incast-repsyn-p99": _gains("incast repsyn", "p99", 0.2),
    "incast-repsyn-p999": _gains("incast repsyn", "p999", 0.2),
    "elephants-unaffected": _elephants(),
    **{
        f"overhead-{name}-ms": Evidence(f"{name}_more_ms", "loopback", control=Evidence(f"{AGAIN}_more_ms", "loopback"))
        for name in REPLICATED
    },
    **{
        f"sort-{name}-{which}": _sorts(f"sort {name}", which, "sort tcp")
        for name in REPLICATED
        for which in PERCENTILES
    },
    # The paper's statements on single jobs, at its rate: judged on the jobs of all repetitions together.
    "sort-most-in-5-ms": Evidence(
        "jobs", SORTS, tuple(f"{case}, alone" for case in SORTS), _undisturbed, counted=True, pooled=True
    ),
    "sort-tcp-tail": Evidence("jobs", "sort tcp", "sort tcp, large memory", _tail_over_median, pooled=True),
    "fat-tree-mean-at-0.8": _gains("fat-tree repflow", "mean", 0.8),
    "fat-tree-p99-at-0.8": _gains("fat-tree repflow", "p99", 0.8),
    "fat-tree-worse-at-0.1": replace(_gains("fat-tree repflow", "mean", 0.1), control=None),
    **{f"fat-tree-from-0.4-{name}": _gains(f"fat-tree {name}", "p99", *BENEFIT_LOADS) for name in REPLICATED},
    "fat-tree-repsyn-at-least-equal": Evidence(
        "mean_ms",
        OF_FAT_TREE,
        ("fat-tree repsyn, same path", "fat-tree repflow"),
        lambda repsyn, repflow: repsyn[0.8] / repflow[0.8],
    ),
}
# The reductions of Fig. 11 on the scaled testbed, and bucket sort itself; in virtual time both at their own rate.
ON_KERNELS: dict[str, Evidence | Sequence[Evidence]] = {
    **{
        f"{name}-{at}": [_gains(f"{network} {name}", at, 0.5) for network in ("scaled", "full-rate")]
        for name in REPLICATED
        for at in PERCENTILES
    },
    **{
        f"sort-{name}-{at}": [
            _sorts(f"kernel sort {name}", at, "kernel sort tcp, same path"),
            _sorts(f"sort {name}", at, "sort tcp"),
        ]
        for name in REPLICATED
        for at in PERCENTILES
    },
    "little-at-low-load": _little("repflow", "p99", "full-rate"),
    "little-at-low-load-repflow-median": _little("repflow", "median", "full-rate"),
    "little-at-low-load-repsyn-median": _little("repsyn", "median", "full-rate"),
    "little-at-low-load-repsyn-p99": _little("repsyn", "p99", "full-rate"),
    **{f"repflow-ahead-{which}": _ahead(which, "full-rate") for which in ("p99", "p999")},
    "more-when-oversubscribed": _oversubscribed("full-rate-2:1", "full-rate"),
    "elephants-unaffected": _elephants("full-rate", ""),
}

# A claim on a percentile is not judged where fewer than five mice (or jobs) lie beyond it: of a run, or of all
# repetitions where the claim is on them together. A claim on a median or mean is not judged where that is true of the
# 99th percentile: mice that meet the same elephants take similar times.
NO_SORT_CONTROLS = [name for name in of_network("sort", "kernel sort") if name.endswith(("same path", "large memory"))]
LESS_OFTEN = [name for name in of_network("1:1") if name.endswith(("alone", "all twice"))]
# Only larger runs judge the claims whose controls these are.
NO_SMALL_CONTROLS = [name for name in of_network("1:1") if name.endswith("large memory")] + [
    "incast repflow, same path"
]
SORT_TAILS = ["sort-repsyn-p99", "sort-repflow-p99", "sort-tcp-tail"]
AT_FULL_RATE = of_network("full-rate", "full-rate-2:1")
RELEASED = of_network("released sort")  # of virtual time alone


def _at_loads(
    once: Sequence[float],
    twice: Sequence[float],
    fat_tree: Sequence[float],
    more_mice: Sequence[float] = ELEPHANT_LOADS,
) -> Callable[[Any], bool]:
    """Make the `where` of a scale that runs these loads: with 1:1, with 2:1, in the fat-tree, with more mice."""

    def is_run(setting: Any) -> bool:
        if isinstance(setting, Setting):
            return setting.load in (once if setting.oversubscription == 1 else twice)
        loads = {FatTree: fat_tree, MoreMice: more_mice}.get(type(setting))
        return loads is None or setting.load in loads

    return is_run


# With five repetitions, at least five mice (or bursts) lie beyond a 99th percentile. Bucket sort: in its first jobs all
# masters begin together, so there is a second one. Of the rest medians, means and shares are read.
QUICK_LOADS = (0.1, 0.2, 0.5), (0.2, 0.5), (0.1, 0.8)
QUICK = Scale(
    changes={"flows": 250, "fewer_flows": 150, "oversubscribed_flows": 200, "flows_alone": 150, "fat_tree_flows": 120}
    | {"bursts": 110, "probes": 300, "loopback_flows": 80, "jobs": 2, "watched_s": 6.0, "lasts_s": 5.0, "sort_s": 5.0},
    where=_at_loads(*QUICK_LOADS),
    without=[*NO_SORT_CONTROLS, *NO_SMALL_CONTROLS, *AT_FULL_RATE, *RELEASED],
    fewer={
        **dict.fromkeys(of_network("2:1", "fat-tree", "scaled"), 2),  # only drawn
        **dict.fromkeys((*of_network("sort"), *LESS_OFTEN), 3),
    },
    unjudged=[
        *(claim for claim in CLAIMS if "p999" in claim or claim.startswith(("fat-tree", "longer"))),
        "repflow-ahead-p99",
        "more-when-oversubscribed",
        "equal-by-size",
        *SORT_TAILS,
    ],
)
# With five repetitions, 200,000 flows a scheme with 1:1, like the authors.
PAPER = Scale(
    changes={"flows": 16_000, "fewer_flows": 2700, "oversubscribed_flows": 9000, "fat_tree_flows": 1500}
    | {"bursts": 20_000, "probes": 2000, "loopback_flows": 1000, "jobs": 42}
    | {"watched_s": 200.0, "lasts_s": 40.0, "sort_s": 40.0},
    where=_at_loads(LOADS["1:1"], (0.1, 0.3, 0.5), LOADS["fat-tree"]),
    without=[*AT_FULL_RATE, *RELEASED],
    unjudged=["sort-repsyn-p999", "sort-repflow-p999"],
)
# Every load of every claim, for tests.
TEST = replace(
    PAPER,
    repetitions=2,
    changes={"flows": 400, "fewer_flows": 400, "oversubscribed_flows": 200, "fat_tree_flows": 120}
    | {"bursts": 50, "probes": 300, "loopback_flows": 10, "jobs": 1, "watched_s": 6.0, "lasts_s": 4.0, "sort_s": 1.0},
    where=_at_loads((0.1, 0.2, 0.4, 0.5), (0.2, 0.5), (0.1, 0.4, 0.6, 0.8)),
    unjudged=(),
)
# A packet costs a kernel a hundred times as much as the simulator. A minute on two cores gives enough mice, but only
# some thirty elephants a run, which determine the mice's times. So reductions are known only to tens of percentage
# points, and are only drawn.
VIRTUAL_QUICK = replace(
    QUICK,
    repetitions=3,
    changes={**QUICK.changes, "probes": 400, "lasts_s": 0.4, "left_to_simulator": True},
    where=_at_loads(*QUICK_LOADS, more_mice=(0.5,)),
    without=[
        *NO_SORT_CONTROLS,
        *NO_SMALL_CONTROLS,
        *of_network("scaled"),
        *RELEASED,
        *(name for name in AT_FULL_RATE if name.endswith(("large memory", "all twice")) or "2:1" in name),
    ],
    unjudged=list(ON_KERNELS),
)
ONLY_DRAWN = ("flows", "fewer_flows", "oversubscribed_flows", "fat_tree_flows", "watched_s")
VIRTUAL_PAPER = replace(
    PAPER,
    # Beside the kernel the simulator's flows are only drawn.
    changes={**PAPER.changes, **{name: QUICK.changes[name] for name in ONLY_DRAWN}}
    | {"bursts": 1000, "jobs": 4, "lasts_s": 5.0, "released_jobs": 4},
    fewer=dict.fromkeys(RELEASED, 2),  # a job of every master takes a kernel half a minute
    # A job of every master takes a kernel a quarter of a minute, so only the simulator measures bucket sort's tails.
    without=[*(name for name in NO_SORT_CONTROLS if name.startswith("sort")), *of_network("scaled")],
    unjudged=[*SORT_TAILS, "sort-repsyn-p999", "sort-repflow-p999", "incast-repflow-p999", "incast-repsyn-p999"],
)


def cannot(setting: Any, tier: str) -> str:
    """Return why a tier cannot run a setting, or "". Real kernels carry only the scaled testbed; the simulator has the
    application's traffic, but not the application."""
    if isinstance(setting, ReleasedSorting):
        return "" if tier == VIRTUAL else "twenty-four programs of one thread each need a kernel in virtual time"
    is_scaled = isinstance(setting, MoreMice | Sorting) and setting.is_scaled
    if in_real_time(tier):
        able = is_scaled or isinstance(setting, Loopback)
        return "" if able else "real kernels carry a fiftieth of the rate: see the scaled testbed"
    if tier == SIMULATED:
        able = not is_scaled or isinstance(setting, MoreMice)
        return "" if able else "the application needs real kernels; its traffic is simulated"
    if is_scaled:
        return "in virtual time a kernel runs the testbed, and bucket sort, at their own rate"
    if isinstance(setting, Incast | Sorting):
        return "left to the paper profile: it takes a kernel minutes" if setting.left_to_simulator else ""
    return NOT_VIRTUALLY.get(type(setting), "")


NOT_VIRTUALLY = {
    Setting: "a mouse in a hundred packets; a kernel in virtual time runs full-rate, with more mice",
    FatTree: "54 hosts for so long would take a kernel hours",
    Paths: "54 hosts for so long would take a kernel hours",
    Loopback: "programs take no time in virtual time",
}


def _is_one_printed(setting: Setting) -> bool:
    return setting.buffer_kb == 4000 or setting.buffer_alpha == 0.21


def _each_scheme(**changes: Any) -> dict[str, dict[str, Any]]:
    return {name: {"scheme": name} | changes for name in SCHEMES}


OF_MIX = {profile: Scale(changes=of.changes) for profile, of in (("quick", QUICK), ("paper", PAPER), ("test", TEST))}
OF_KNOBS = OF_MIX | {"paper": Scale(changes={**PAPER.changes, "flows": 5000, "bursts": 3000})}


def answer(runs: Runs) -> str:
    """Answer the paper's question in one sentence, with the highest percentile that this run's number of flows
    supports."""
    shares = {
        case: runs.numbers(case, SIMULATED).query("size_bytes == 1")["slow_share"].mean()
        for case in ("probes tcp", "probes repflow")
    }
    which = "p99" if "repflow-p999" in runs.study.scale(runs.profile).unjudged else "p999"

    def gain(network: str, name: str, which: str, load: float) -> float:
        ours, tcp = (runs.reading("mice_times", f"{network} {each}", SIMULATED) for each in (name, "tcp"))
        return float(reduction(which, load)(ours, tcp).mean())

    return (
        f"Where one of three paths is congested, {shares['probes tcp']:.0%} of single connections meet it, and "
        f"{shares['probes repflow']:.0%} of pairs; at load .5 RepFlow takes "
        f"{gain('1:1', 'repflow', which, 0.5):.0f} % and RepSYN {gain('1:1', 'repsyn', which, 0.5):.0f} % off the "
        f"{NAMES[which]} of short flows; under incast RepFlow changes the 99th by "
        f"{-gain('incast', 'repflow', 'p99', 0.2):+.0f} %."
    )


STUDY = Study(
    slug="repnet",
    setting=Setting(),
    parts=PARTS[1:],
    cases=CASES,
    measure_all=measure_all,
    scales={
        "quick": QUICK,
        "paper": PAPER,
        "test": TEST,
        ("quick", VIRTUAL): VIRTUAL_QUICK,
        ("paper", VIRTUAL): VIRTUAL_PAPER,
        ("test", VIRTUAL): replace(
            TEST,
            changes={**TEST.changes, "bursts": 4, "probes": 40, "lasts_s": 0.03},
            without=[*VIRTUAL_PAPER.without, *RELEASED],
        ),
        # Real kernels run in real time, with fewer mice and jobs.
        ("quick", REAL_TIME): replace(
            QUICK,
            fewer={**QUICK.fewer, **dict.fromkeys(of_network("scaled", "kernel sort"), 2)},
            unjudged=[claim for claim in ON_KERNELS if claim not in ("sort-repflow-median", "sort-repsyn-median")],
        ),
        ("paper", REAL_TIME): replace(PAPER, unjudged=[claim for claim in ON_KERNELS if "p999" in claim]),
    },
    on_kernels=ON_KERNELS,
    cannot=cannot,
    in_turn=lambda setting: isinstance(setting, Loopback),
    claims=CLAIMS,
    knobs={
        # One port may hold at most alpha / (1 + alpha) of the memory.
        "memory": Knob(
            _each_scheme(
                buffer_kb=swept(1000, 2000, 4000),
                buffer_alpha=swept(0.21, 0.5, 1.0, 8.0),
                min_rto_ms=swept(10.0, 200.0),
            ),
            {profile: replace(scale, where=_is_one_printed) for profile, scale in OF_KNOBS.items()},
            quick=replace(
                OF_MIX["quick"], only={"buffer_kb": (1000, 4000), "buffer_alpha": (0.21, 1.0)}, where=_is_one_printed
            ),
        ),
        # The paper's text has Poisson arrivals, the authors' script even gaps.
        "gaps": Knob(
            _each_scheme(gaps=swept("uniform", "poisson")),
            OF_MIX,
            repetitions=3,
            quick=replace(OF_MIX["quick"], repetitions=1),
        ),
        # What the paper says would combine, and what it put its losses at low load down to.
        "dctcp": Knob(_each_scheme(congestion_control=swept("cubic", "dctcp")), OF_KNOBS),
        "senders": Knob(
            _each_scheme(part=INCAST, load=0.2, incast_senders=swept(1, 3, 6, INCAST_SENDERS)),
            OF_KNOBS,
            quick=replace(OF_MIX["quick"], only={"incast_senders": (3, INCAST_SENDERS)}),
        ),
        "controller": Knob(
            _each_scheme(part=FAT_TREE, load=0.1, controller_ms=swept(0.0, 1.0)),
            OF_MIX,
            repetitions=5,
            quick=replace(OF_MIX["quick"], repetitions=2),
        ),
    },
    figures=FIGURES,
    best=("fig11_mice", "fig12_mice_oversubscribed", "fig14_incast", "fig18_fat_tree", "control_same_path"),
    answer=answer,
)
