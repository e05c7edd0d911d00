"""A check whether a single copy of the data could have given all answers that clients got."""

from __future__ import annotations

import numpy as np
import pandas as pd

_LONG_AGO_S = -1e300


def violations(history: pd.DataFrame) -> pd.DataFrame:
    """Find the keys whose reads and writes no single copy explains; returns the columns key and why.

    history : one row for each answered command: command (a unique number), key, is_write, value (the command whose
    write was read, -1 for none; ignored for writes), sent_s, answered_s.

    Every write writes a different value, so it is known which write a read has seen, and the test is exact and fast
    (Gibbons and Korach, "Testing Shared Memories", SIAM J. Comput. 26, 1997). A write and its reads are a cluster; f is
    its first answer and s its last sending. Three rules must hold: no read may end before its write was sent; the
    intervals (f, s) of two clusters with f < s may not overlap; no (s, f) of a cluster with s < f may lie within one.
    """
    rows = history[["command", "key", "is_write", "value", "sent_s", "answered_s"]]
    value = np.where(rows.is_write, rows.command, rows.value)
    rows = rows.assign(value=value)
    written = rows[rows.is_write].set_index("command")
    keys_and_reasons: list[tuple[int, str]] = []
    reads = rows[~rows.is_write & (rows.value != -1)]
    unknown = reads[~reads.value.isin(written.index)]
    keys_and_reasons += [(key, "read what nobody has written") for key in unknown.key.unique()]
    reads = reads[reads.value.isin(written.index)]
    other_key = written.key.reindex(reads.value).to_numpy() != reads.key.to_numpy()
    keys_and_reasons += [(key, "read what was written elsewhere") for key in reads.key[other_key].unique()]
    early = reads.answered_s.to_numpy() < written.sent_s.reindex(reads.value).to_numpy()
    keys_and_reasons += [(key, "read before it was written") for key in reads.key[early].unique()]
    clusters = rows.groupby(["key", "value"], as_index=False).agg(first=("answered_s", "min"), last=("sent_s", "max"))
    clusters.loc[clusters.value == -1, "first"] = _LONG_AGO_S  # the initial value was there before everything
    forward = clusters[clusters["first"] < clusters["last"]].sort_values(["key", "first"])
    same_key = forward.key.to_numpy()[1:] == forward.key.to_numpy()[:-1]
    overlap = same_key & (forward["first"].to_numpy()[1:] < forward["last"].to_numpy()[:-1])
    keys_and_reasons += [(key, "two values at once") for key in forward.key.to_numpy()[1:][overlap]]
    backward = clusters[clusters["first"] >= clusters["last"]]
    within = pd.merge_asof(
        backward.sort_values("last"),
        forward.sort_values("first"),
        left_on="last",
        right_on="first",
        by="key",
        suffixes=("", "_around"),
        allow_exact_matches=False,
    )
    lies_within = within["first"] < within["last_around"]
    keys_and_reasons += [(key, "an older value after a newer one") for key in within.key[lies_within]]
    return pd.DataFrame(keys_and_reasons, columns=["key", "why"]).drop_duplicates(ignore_index=True)
