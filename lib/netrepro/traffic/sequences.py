"""The first packets of each flow as a sequence, for models that learn from packets and not from statistics."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError
from netrepro.traffic.packets import Packets, ends_of

PACKET_MEASURES = ("length", "gap", "direction")
_KEY = ["low", "high", "protocol"]  # the two ends of a conversation, in numerical order


def sequence_columns(first_packets: int) -> list[str]:
    """Name the columns of `packet_sequences`: length1, gap1, direction1, length2, ..."""
    return [f"{measure}{place + 1}" for place in range(first_packets) for measure in PACKET_MEASURES]


def packet_sequences(captures: Iterable[Packets], flows: pd.DataFrame, first_packets: int) -> pd.DataFrame:
    """Return the first packets of each flow: a row for each flow, three columns for each packet.

    length : IP length (bytes). gap : time since the flow's packet before (microseconds; 0 for the first). direction : 1
    forward, -1 backward. All three are 0 where the flow has fewer packets. captures : those in which `flows`, a table
    of `meter`, were found, in time order; IPv4 only. Raises NetreproError for fewer than one packet.
    """
    if first_packets < 1:
        raise NetreproError(f"first_packets is {first_packets}", "give 1 or more")
    seen = pd.concat([_packet_table(each) for each in captures], ignore_index=True)
    sides = ends_of(flows)
    known = pd.DataFrame(
        {
            "low": np.minimum(*sides),
            "high": np.maximum(*sides),
            "protocol": flows["protocol"].to_numpy(np.int64),
            "source": sides[0],
            "time_us": flows["start_us"].to_numpy(np.int64),
            "end_us": flows["end_us"].to_numpy(np.int64),
            "flow": np.arange(len(flows)),
        }
    )
    # Ports are used again: a packet belongs to the last flow of its ends that has begun, unless that has ended.
    seen = pd.merge_asof(
        seen.sort_values("time_us", kind="stable"), known.sort_values("time_us"), on="time_us", by=_KEY
    ).dropna(subset="flow")
    seen = seen[seen["time_us"] <= seen["end_us"]]
    flow = seen["flow"].astype(np.int64)
    place = flow.groupby(flow).cumcount()
    gap = seen["time_us"].groupby(flow).diff().fillna(0)
    direction = np.where(seen["sender"] == seen["source"], 1.0, -1.0)
    first = (place < first_packets).to_numpy()
    table = np.zeros((len(flows), first_packets, len(PACKET_MEASURES)))
    table[flow[first], place[first]] = np.stack([seen["length"], gap, direction], axis=1)[first]
    return pd.DataFrame(table.reshape(len(flows), -1), flows.index, sequence_columns(first_packets))


def _packet_table(packets: Packets) -> pd.DataFrame:
    """Return the time, the ends, the sender and the IP length of each packet."""
    sender, receiver = packets.ends()
    return pd.DataFrame(
        {
            "time_us": packets.times_us,
            "low": np.minimum(sender, receiver),
            "high": np.maximum(sender, receiver),
            "protocol": packets.protocols,
            "sender": sender,
            "length": packets.ip_lengths,
        }
    )
