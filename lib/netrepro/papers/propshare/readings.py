"""Readings of a swarm, simulated or of real processes, and comparisons over the trials."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from netrepro.applications.swarm.run import run_real_swarms
from netrepro.intervals import student_interval
from netrepro.papers.propshare.setting import Setting, constants, make_choker, swarm, trial_seed
from netrepro.processes import in_processes
from netrepro.simulation.swarm import BLOCK_BYTES, run_swarm
from netrepro.study import SIMULATED, Check, OneRun, Progress, Reading, Runs, in_parallel, seed_of

IDENTITIES = 4  # of the Sybil
SIMULATED_DRAWS = 10  # of each swarm of processes
NO_CAP_KILOBYTES_PER_S = 8_000.0  # 64 Mb/s: about what the class's smallest cloud machines send
FIGURE_8, PERMUTED, PROCESSES = "figure 8", "permuted", "processes"
RIDERS, RIDERS_PERMUTED = "free riders", "free riders, permuted"


def measure_all(runs: Sequence[OneRun], progress: Progress) -> list[Reading]:
    """Read swarms: simulated ones, in separate processes, or those of real processes, which share a kernel in each
    trial."""
    if runs[0].tier == SIMULATED:
        at_a_time = max(1, min(20, len(runs) // 8))
        return in_processes(_simulated, [(each,) for each in runs], progress, at_a_time=at_a_time)
    trials: dict[tuple, list[OneRun]] = {}
    for each in runs:
        trials.setdefault(each.seed, []).append(each)
    by_trial = in_parallel(_of_processes, [(trial,) for trial in trials.values()], progress=progress)
    readings = {run: reading for trial in by_trial for run, reading in trial.items()}
    return [readings[each] for each in runs]


def _simulated(run: OneRun) -> Reading:
    setting, seed = run.setting, trial_seed(run.setting, *run.seed)
    how: dict[str, Any] = {**_lengths(setting), "make_choker": partial(make_choker, setting)}
    members = swarm(setting, seed)
    if not setting.processes:
        peers = run_swarm(members, seed, **how)
        return read(clients_of(peers), setting, checks_of(peers, setting), used_share(peers))
    draws = [clients_of(run_swarm(members, seed_of(seed, draw), **how)) for draw in range(SIMULATED_DRAWS)]
    return read(pd.concat(draws, ignore_index=True), setting)


def _of_processes(trial: Sequence[OneRun]) -> dict[OneRun, Reading]:
    first = trial[0].setting
    seed = trial_seed(first, *trial[0].seed)
    swarms = [swarm(run.setting, seed) for run in trial]
    measured = run_real_swarms(swarms, constants(first), seed, **_lengths(first))
    return {
        run: read(clients_of(peers), run.setting, checks_of(peers, run.setting))
        for run, peers in zip(trial, measured, strict=True)
    }


def _lengths(setting: Setting) -> dict[str, int]:
    return {"pieces": setting.pieces, "blocks_per_piece": setting.blocks_per_piece}


def read(clients: pd.DataFrame, setting: Setting, checks: Sequence[Check] = (), used: float = np.nan) -> Reading:
    """Read the mean times of both kinds (s) and their ratio, the ratio of bytes sent, the rank correlation of upload
    capacity and download rate, free riders' time over the others', the attacker's time (s), and the share of the upload
    that is used."""
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
    return Reading(numbers, {} if setting.identities or setting.paired else {"clients": clients}, checks)


def checks_of(peers: pd.DataFrame, setting: Setting) -> list[Check]:
    """Check that all are complete and none sends more than its rate allows. For processes, also check that their files
    are right; two blocks that count as sent may wait in a peer's sockets. For others, check that all bytes received
    were sent, and that rates are the limit: most of the possible upload is used. The class's rates are no limit, as its
    case shows."""
    is_real = "is_right" in peers
    incomplete = float(peers["complete_s"][~peers.is_seed].isna().sum())
    beyond = float(((peers["sent_bytes"] - _able_bytes(peers)) / BLOCK_BYTES).max())
    checks = [
        Check("clients that did not complete", incomplete, at_most=0.0),
        Check("bytes beyond a peer's rate, in blocks", beyond, at_most=2.0 if is_real else 1.0),
    ]
    if is_real:
        return [*checks, Check("files that are not right", float((~peers["is_right"]).sum()), at_most=0.0)]
    lost = float(peers["received_bytes"].sum() - peers["sent_bytes"].sum())
    checks.append(Check("bytes received less bytes sent", lost, at_most=0.0))
    if setting.seed_kilobytes_per_s < NO_CAP_KILOBYTES_PER_S:
        checks.append(Check("share of the upload that is used", used_share(peers), at_least=0.5))
    return checks


def _able_bytes(peers: pd.DataFrame) -> pd.Series:
    return 1e3 * peers["upload_kilobytes_per_s"] * peers["present_s"]


def used_share(peers: pd.DataFrame) -> float:
    """Compute the bytes sent as a share of the bytes that could be sent."""
    return float(peers["sent_bytes"].sum() / _able_bytes(peers).sum())


def clients_of(peers: pd.DataFrame) -> pd.DataFrame:
    """Return the leechers of a swarm, a row for each client."""
    how = {"kind": "first", "upload_kilobytes_per_s": "sum", "complete_s": "first", "sent_bytes": "sum"}
    return peers[~peers.is_seed].groupby("client", sort=False).agg(how).reset_index()


# Readings of all trials, in the simulator.


def of_trials(runs: Runs, name: str, case: str = FIGURE_8) -> pd.Series:
    """Return a reading by fraction and trial, where it exists."""
    rows = runs.numbers(case, SIMULATED).rename(columns={"repetition": "trial"})
    return rows.set_index(["fraction", "trial"])[name].sort_index().dropna()


def sybil_gain(runs: Runs, fraction: float) -> pd.Series:
    """Divide the attacker's time as one peer by its time as several, for each trial; all others use one choker."""
    alone, several = (of_trials(runs, "attacker_s", f"sybil, {count}").loc[fraction] for count in (1, IDENTITIES))
    return alone / several


def ends(rows: Any, name: str) -> pd.DataFrame:
    """Return a column's mean in each group of rows, and the low and high end of its 95 % interval."""
    table = rows[name].apply(lambda values: pd.Series(student_interval(list(values)), ["low", "high"])).unstack()
    return table.assign(mean=rows[name].mean())


def comparison(runs: Runs, case: str = FIGURE_8) -> pd.DataFrame:
    """Compare the kinds for every mixed fraction: trials, mean times (s), their ratio with its 95 % interval, the share
    of trials in which PropShare is faster, and the p-value of the difference (Wilcoxon's signed ranks)."""
    mixed = runs.numbers(case, SIMULATED).dropna(subset="ratio").groupby("fraction")
    interval = ends(mixed, "ratio")
    return pd.DataFrame(
        {
            "trials": mixed.size(),
            "PropShare (s)": mixed["ours_s"].mean(),
            "BitTorrent (s)": mixed["bittorrent_s"].mean(),
            "ratio": interval["mean"],
            "low": interval["low"],
            "high": interval["high"],
            "faster": mixed["ratio"].agg(lambda ratio: (ratio < 1).mean()),
            "p": mixed["ratio"].agg(lambda ratio: stats.wilcoxon(np.log(ratio)).pvalue),
        }
    )


# Readings of knobs.


def over_both_places(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Average the ratios of a swarm and of the same swarm with the kinds exchanged, so that it does not matter which
    kind had the faster peers by chance. Returns, by the knob's value and the repetition: ratio, sent_ratio, used."""
    both = table.groupby([by, "repetition"])
    logs = {name: np.exp(both[name].apply(lambda values: np.mean(np.log(values)))) for name in ("ratio", "sent_ratio")}
    return pd.DataFrame(logs | {"used": both["used"].mean()}).reset_index()


def lending_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each value of lends: PropShare's times and bytes sent over BitTorrent's of the same swarm, and
    the share of the upload that is used; means with the ends of their 95 % intervals."""
    both = over_both_places(runs.knobs["lending"], "lends").groupby("lends")
    parts = {"time": ends(both, "ratio"), "sent": ends(both, "sent_ratio"), "used": ends(both, "used")}
    return pd.concat(parts, axis=1).sort_index(ascending=False)


def serving_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each rule of serving, by shares and by chance: PropShare's time over BitTorrent's of the same
    swarm (with the ends of its 95 % interval), and the share of the upload that is used."""
    both = over_both_places(runs.knobs["serving"], "kind").groupby("kind")
    return pd.concat({"time": ends(both, "ratio"), "used": ends(both, "used")}, axis=1)


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """Divide the attacker's time as one peer by its time as several (gain), for each repetition, case and kind of
    seeds."""
    key = ["case", "seeds_know_clients", "repetition"]
    several, alone = table.set_index(key), table[table.identities == 1].set_index(key)
    return several.assign(gain=alone["attacker_s"].reindex(several.index) / several["attacker_s"]).reset_index()
