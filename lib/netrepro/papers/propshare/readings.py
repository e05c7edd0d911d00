"""What is read of a swarm, simulated or of real processes, and compared over the trials."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from netrepro.applications.swarm.run import run_real_swarms
from netrepro.claims.verdicts import student_interval
from netrepro.papers.propshare.setting import Setting, constants, make_choker, swarm, trial_seed
from netrepro.processes import in_processes
from netrepro.simulation.swarm import BLOCK_BYTES, run_swarm
from netrepro.study import SIMULATED, VIRTUAL, Check, OneRun, Progress, Reading, Runs, in_parallel, seed_of

IDENTITIES = 4  # of the Sybil
SIMULATED_DRAWS = 10  # of each swarm of processes
NO_CAP_KILOBYTES_PER_S = 8_000.0  # 64 Mb/s: about what the class's smallest cloud machines send
FIGURE_8, PERMUTED, PROCESSES = "figure 8", "permuted", "processes"
OURS = {FIGURE_8: "ours"}  # in what is compared with the class
CLASS_CASES = ("class, no cap", "class, with upload caps", FIGURE_8)


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Read swarms, simulated in processes of their own; or of real processes, which share a kernel in each trial."""
    if runs[0].tier == SIMULATED:
        at_a_time = max(1, min(20, len(runs) // 8))
        return in_processes(_simulated, [(each,) for each in runs], progress, at_a_time=at_a_time)
    trials: dict[tuple, list[OneRun]] = {}
    for each in runs:
        trials.setdefault(each.seed, []).append(each)
    found = in_parallel(_of_processes, [(trial,) for trial in trials.values()], progress=progress)
    readings = {run: reading for trial in found for run, reading in trial.items()}
    return [readings[each] for each in runs]


def _simulated(run: OneRun) -> Reading:
    setting, seed = run.setting, trial_seed(run.setting, *run.seed)
    if not setting.processes:
        found = simulate(setting, seed)
        return read(clients_of(found), setting, checks_of(found, setting), used_share(found))
    peers = swarm(setting, seed)
    draws = [
        clients_of(simulate(setting, seed_of(seed, draw), peers)).assign(draw=draw) for draw in range(SIMULATED_DRAWS)
    ]
    return read(pd.concat(draws, ignore_index=True), setting, [])


def _of_processes(trial: Sequence[OneRun]) -> dict[OneRun, Reading]:
    first = trial[0]
    own = trial_seed(first.setting, *first.seed)
    found = run_real_swarms(
        [swarm(each.setting, own) for each in trial], constants(first.setting), own, **_lengths(first.setting)
    )
    return {
        each: read(clients_of(of_one), each.setting, real_checks_of(of_one))
        for each, of_one in zip(trial, found, strict=True)
    }


def simulate(setting: Setting, seed: int, peers: Sequence | None = None) -> pd.DataFrame:
    """Simulate one swarm, and return a row for each peer."""
    peers = swarm(setting, seed) if peers is None else peers
    return run_swarm(peers, seed, **_lengths(setting), make_choker=partial(make_choker, setting))


def _lengths(setting: Setting) -> dict[str, int]:
    return {"pieces": setting.pieces, "blocks_per_piece": setting.blocks_per_piece}


def read(clients: pd.DataFrame, setting: Setting, checks: Sequence[Check], used: float = np.nan) -> Reading:
    """Read the mean times of both kinds (s) and their ratio, that of what they sent, the rank correlation of upload
    capacity and download rate, free riders' time over the contributors', the attacker's time (s); and the share of the
    upload that is used."""
    means = clients.groupby("kind")[["complete_s", "sent_bytes"]].mean()
    times, sent = means["complete_s"], means["sent_bytes"]
    givers = times.drop("free rider", errors="ignore")
    attacker = clients["complete_s"][clients.client == "attacker"]
    rates = clients["upload_kilobytes_per_s"]
    has_ranks = rates.nunique() > 1 and clients["complete_s"].nunique() > 1
    numbers = {
        "ours_s": times.get(setting.kind, np.nan),
        "bittorrent_s": times.get("bittorrent", np.nan),
        "ratio": times.get(setting.kind, np.nan) / times.get("bittorrent", np.nan),
        "sent_ratio": sent.get(setting.kind, np.nan) / sent.get("bittorrent", np.nan),
        "rank": stats.spearmanr(rates, 1 / clients["complete_s"]).statistic if has_ranks else np.nan,
        "rider_cost": times.get("free rider", np.nan) / givers.mean(),
        "attacker_s": float(attacker.iloc[0]) if len(attacker) else np.nan,
        "used": used,
    }
    is_needed = setting.processes or not (setting.identities or setting.paired)
    return Reading(numbers, {"clients": clients} if is_needed else {}, checks)


def checks_of(found: pd.DataFrame, setting: Setting) -> list[Check]:
    """Check that all are complete, what is sent arrives, no rate is exceeded, and rates bind: most of what could be
    sent is sent. The class's do not, which is what its case shows."""
    lost = float(found["received_bytes"].sum() - found["sent_bytes"].sum())
    checks = [*_checks_of_all(found, blocks=1.0), Check("bytes received less bytes sent", lost, at_most=0.0)]
    if setting.seed_kilobytes_per_s >= NO_CAP_KILOBYTES_PER_S:
        return checks
    return [*checks, Check("share of the upload that is used", used_share(found), at_least=0.5)]


def used_share(found: pd.DataFrame) -> float:
    """Compute the share that is sent of what could be sent."""
    return float(found["sent_bytes"].sum() / (1e3 * found["upload_kilobytes_per_s"] * found["present_s"]).sum())


def real_checks_of(found: pd.DataFrame) -> list[Check]:
    """Check processes likewise, and their files; two blocks that count as sent may still wait in a peer's sockets."""
    wrong = Check("files that are not right", float((~found["is_right"]).sum()), at_most=0.0)
    return [*_checks_of_all(found, blocks=2.0), wrong]


def _checks_of_all(found: pd.DataFrame, blocks: float) -> list[Check]:
    able = 1e3 * found["upload_kilobytes_per_s"] * found["present_s"]
    incomplete = float(found["complete_s"][~found.is_seed].isna().sum())
    beyond = float(((found["sent_bytes"] - able) / BLOCK_BYTES).max())
    return [
        Check("clients that did not complete", incomplete, at_most=0.0),
        Check("bytes beyond a peer's rate, in blocks", beyond, at_most=blocks),
    ]


def clients_of(found: pd.DataFrame) -> pd.DataFrame:
    """Return the leechers of a swarm, a row for each client."""
    clients = (
        found[~found.is_seed]
        .groupby("client", sort=False)
        .agg(
            kind=("kind", "first"),
            upload_kilobytes_per_s=("upload_kilobytes_per_s", "sum"),
            complete_s=("complete_s", "first"),
            sent_bytes=("sent_bytes", "sum"),
        )
    )
    return clients.reset_index()


# Readings of all trials.


def of_trials(runs: Runs, name: str, case: str = FIGURE_8) -> pd.Series:
    """Return a number by fraction and trial, where it was read."""
    rows = runs.numbers(case, SIMULATED).rename(columns={"repetition": "trial"})
    return rows.set_index(["fraction", "trial"])[name].sort_index().dropna()


def ratios(runs: Runs, case: str = FIGURE_8) -> pd.Series:
    """Return PropShare's mean time over BitTorrent's of the same swarm, by fraction and trial of mixed swarms."""
    return of_trials(runs, "ratio", case)


def sybil_gain(runs: Runs, fraction: float) -> pd.Series:
    """Divide the attacker's time as one peer by that as several, by trial; all others run one choker."""
    alone, several = (of_trials(runs, "attacker_s", f"sybil, {count}").loc[fraction] for count in (1, IDENTITIES))
    return alone / several


def comparison(runs: Runs, case: str = FIGURE_8) -> pd.DataFrame:
    """Compare every mixed fraction: trials, mean times (s), their ratio with its 95 % interval, the share of trials in
    which PropShare's are faster, and the probability of as clear a difference by chance (Wilcoxon's signed ranks)."""
    ours_s, theirs_s, rows = of_trials(runs, "ours_s", case), of_trials(runs, "bittorrent_s", case), []
    for fraction, values in ratios(runs, case).groupby("fraction"):
        low, high = student_interval(list(values))
        rows.append(
            {
                "fraction": fraction,
                "trials": len(values),
                "PropShare (s)": ours_s.loc[fraction].mean(),
                "BitTorrent (s)": theirs_s.loc[fraction].mean(),
                "ratio": values.mean(),
                "low": low,
                "high": high,
                "faster": (values < 1).mean(),
                "p": stats.wilcoxon(np.log(values)).pvalue,
            }
        )
    return pd.DataFrame(rows).set_index("fraction")


def class_table(runs: Runs, trials: int = 3) -> pd.DataFrame:
    """Summarise experiments of so many trials at a fraction of one half: mean times, the ratio and its interval over
    all trials, and the share of such experiments in which Welch's test of all clients' times finds a difference (5 %).
    """
    rows = []
    for name in CLASS_CASES:
        times = runs.table("clients", name, SIMULATED).query("fraction == 0.5")
        values = ratios(runs, name).loc[0.5]
        found = []
        for first in range(0, times["repetition"].max() + 2 - trials, trials):
            some = times[times["repetition"].between(first, first + trials - 1)]
            by_kind = {kind: each["complete_s"] for kind, each in some.groupby("kind")}
            found.append(stats.ttest_ind(by_kind["propshare"], by_kind["bittorrent"], equal_var=False).pvalue < 0.05)
        low, high = student_interval(list(values))
        means = times.groupby("kind")["complete_s"].mean()
        rows.append(
            (
                OURS.get(name, name),
                means["propshare"],
                means["bittorrent"],
                values.mean(),
                low,
                high,
                len(found),
                np.mean(found),
            )
        )
    columns = ["case", "PropShare (s)", "BitTorrent (s)", "ratio", "low", "high", "experiments", "find a difference"]
    return pd.DataFrame(rows, columns=columns).set_index("case")


def tier_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each fraction and kind: mean times (s) of the processes and of the simulated swarms with the
    same peers, their ratio; and the standard deviation of that ratio over draws of the simulation alone (one draw over
    their mean)."""
    rows, (drawn, real) = [], (runs.table("clients", PROCESSES, tier) for tier in (SIMULATED, VIRTUAL))
    for (fraction, kind), found in real.groupby(["fraction", "kind"]):
        theirs = drawn[(drawn.fraction == fraction) & (drawn.kind == kind)]
        ours_s, theirs_s = found["complete_s"].mean(), theirs["complete_s"].mean()
        spread = (theirs.groupby("draw")["complete_s"].mean() / theirs_s).std()
        rows.append((fraction, kind, found["repetition"].nunique(), ours_s, theirs_s, ours_s / theirs_s, spread))
    names = ["fraction", "kind", "swarms", "virtual_s", "simulated_s", "ratio", "by chance"]
    return pd.DataFrame(rows, columns=names).set_index(names[:2])


# Readings of knobs.


def over_both_places(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Average the ratios of a swarm and of the same with the kinds in each other's places: which of them had the faster
    peers by chance does not matter. By the knob's value and the repetition: ratio, sent_ratio, used."""
    both = table.groupby([by, "repetition"])
    logs = {name: np.exp(both[name].apply(lambda values: np.mean(np.log(values)))) for name in ("ratio", "sent_ratio")}
    return pd.DataFrame(logs | {"used": both["used"].mean()}).reset_index()


def lending_table(runs: Runs) -> pd.DataFrame:
    """Return a row a value of lends: time and sent, PropShare's means over BitTorrent's of the same swarm, each with
    the ends of its 95 % interval; used, the share of all upload rates."""
    rows = {}
    for lends, own in over_both_places(runs.knobs["lending"], "lends").groupby("lends", sort=False):
        rows[lends] = {"used": own["used"].mean()}
        for name, what in (("ratio", "time"), ("sent_ratio", "sent")):
            low, high = student_interval(list(own[name]))
            rows[lends] |= {what: own[name].mean(), f"{what}_low": low, f"{what}_high": high}
    return pd.DataFrame(rows).T.rename_axis("lends").sort_index(ascending=False)


def gains(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Divide the attacker's time as one peer by that as several, in each repetition: gain."""
    key = [*by, "repetition"]
    alone = table[table.identities == 1].set_index(key).attacker_s
    several = table.set_index(key)
    return several.assign(gain=alone.reindex(several.index) / several.attacker_s).reset_index()
