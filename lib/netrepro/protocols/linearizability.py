"""Whether what clients saw could have come from one copy of the data."""

from __future__ import annotations

import numpy as np
import pandas as pd


def violations(history: pd.DataFrame) -> pd.DataFrame:
    """Keys whose reads and writes no single copy explains: key, and why.

    history : one row a command that was answered: command (a number, each once), key, is_write, value (the command
    that wrote what was read, -1 for nothing; ignored for writes), sent_s, answered_s.

    Every write writes another value, so that it is known whom a read has read, and the test is exact and quick
    (Gibbons and Korach, "Testing Shared Memories", SIAM J. Comput. 26, 1997): with a write and its reads as a cluster,
    f its first answer and s its last sending, no read may end before its write was sent, no two clusters with f < s
    may overlap in (f, s), and none with s < f may lie, as (s, f), within such an interval.
    """
    rows = history[["command", "key", "is_write", "value", "sent_s", "answered_s"]]
    value = np.where(rows.is_write, rows.command, rows.value)
    rows = rows.assign(value=value)
    nothing = rows[rows.value == -1]
    written = rows[rows.is_write].set_index("command")
    found: list[tuple[int, str]] = []
    reads = rows[~rows.is_write & (rows.value != -1)]
    unknown = reads[~reads.value.isin(written.index)]
    found += [(key, "read what nobody has written") for key in unknown.key.unique()]
    reads = reads[reads.value.isin(written.index)]
    other_key = written.key.reindex(reads.value).to_numpy() != reads.key.to_numpy()
    found += [(key, "read what was written elsewhere") for key in reads.key[other_key].unique()]
    early = reads.answered_s.to_numpy() < written.sent_s.reindex(reads.value).to_numpy()
    found += [(key, "read before it was written") for key in reads.key[early].unique()]
    clusters = rows.groupby(["key", "value"]).agg(first=("answered_s", "min"), last=("sent_s", "max")).reset_index()
    # What nobody has written was there before everything.
    clusters.loc[clusters.value == -1, "first"] = -np.inf
    del nothing
    for key, each in clusters[clusters.groupby("key").value.transform("size") > 1].groupby("key"):
        forward = each[each["first"] < each["last"]].sort_values("first")
        begin, end = forward["first"].to_numpy(), forward["last"].to_numpy()
        if (begin[1:] < end[:-1]).any():
            found.append((key, "two values at once"))
            continue
        backward = each[each["first"] >= each["last"]]
        low, high = backward["last"].to_numpy(), backward["first"].to_numpy()
        place = np.searchsorted(begin, low, side="left") - 1  # the last that begins before
        if ((place >= 0) & (high < end[np.maximum(place, 0)])).any() if len(end) else False:
            found.append((key, "an older value after a newer one"))
    return pd.DataFrame(found, columns=["key", "why"])
