"""From packets to flows and their features: netmate-flowcalc's 39 numbers of each flow, by the compiled meter."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from os import PathLike

import numpy as np
import pandas as pd
import yaml

import netrepro._core as _core
from netrepro.errors import NetreproError, nearest
from netrepro.paths import data_dir
from netrepro.traffic.captures import capture_files, link_name

FLOW_FEATURES: tuple[str, ...] = tuple(_core.flow_features)
FLOW_ENDS = ("closed", "timeout", "end of capture")
FORWARD = {
    "first packet": "the direction of the flow's first packet, as netmate-flowcalc has it",
    "opener": "the same, but where a SYN-ACK comes first, that of the end which it answers",
}
NEVER_US = 2**60  # longer than any capture
MOST_PACKETS, MOST_LENGTHS = 2**31 - 1, 100_000

# name in the core -> (kind, what it means)
MEANINGS = {
    "packets": ("total", "packet records found"),
    "metered": ("total", "packets that belong to a flow"),
    "not_ip": ("left out", "not IP, of the six kinds that follow"),
    "arp": ("note", "not IP: ARP and RARP"),
    "llc": ("note", "not IP: IEEE 802.2 frames (spanning tree, CDP, ...)"),
    "ppp_control": ("note", "not IP: PPPoE discovery and PPP's own protocols (LCP, IPCP, ...)"),
    "mpls_other": ("note", "not IP: behind MPLS labels, and no Ethernet pseudowire with a control word"),
    "other_encapsulation": (
        "note",
        "not IP: in an encapsulation that is not decoded (E-tag, VN-tag, MACsec, 802.1ah, TRILL, FabricPath, NSH)",
    ),
    "other_link_protocols": ("note", "not IP: LLDP, EAPOL and all else"),
    "unsupported_link": ("left out", "captured on a link type that is not decoded"),
    "cut_in_headers": ("left out", "the captured bytes end before ports, flags and lengths"),
    "bad_ip_header": ("left out", "an IP header whose version or lengths contradict each other"),
    "later_fragments": ("left out", "second and later fragments, which carry no ports"),
    "empty_records": ("left out", "records without a captured byte"),
    "ipv6": ("metered", "IPv6 (length is payload length + 40)"),
    "vlan_tagged": ("note", "with one or more VLAN tags"),
    "mpls_labelled": ("note", "with one or more MPLS labels"),
    "pppoe_sessions": ("note", "in a PPPoE session"),
    "first_fragments": ("metered", "first fragments, metered with their own length"),
    "zero_ip_length": ("metered", "IP length 0 (segmentation offload): the length on the wire is used"),
    "length_beyond_wire": ("metered", "IP length larger than what was on the wire"),
    "bad_transport_header": ("metered", "TCP data offset below 5 or UDP length below 8"),
    "after_close": (
        "metered",
        "after the close of their TCP connection: in its flow_* and end_us, not in its features",
    ),
    "without_time": (
        "note",
        "without a time stamp, or with one out of range (a fraction of 1 s or more): that of the packet before is used",
    ),
    "backwards_in_capture": ("note", "earlier than the packet before it in the capture"),
    "backwards_in_flow": (
        "metered",
        "earlier than the packet before it in its flow: with quirks only in the whole-flow totals, "
        "else counted with a gap of 0",
    ),
    "shortened_records": ("note", "fewer bytes captured than were on the wire"),
    "other_blocks": ("file", "pcapng blocks that hold no packet"),
    "unknown_blocks": ("file", "pcapng blocks of unknown type, skipped"),
    "corrupt_records": ("file", "records or blocks whose lengths contradict each other"),
    "truncated_records": ("file", "files that end within a record"),
    "unread_bytes": ("file", "bytes of corrupt or truncated records and of what follows a lost track"),
    "damaged_archives": ("file", "compressed or archived streams that break off"),
    "skipped_members": ("file", "archive members that are no capture"),
    "captures": ("total", "captures read"),
}


@dataclass(frozen=True)
class MeterResult:
    """Flows, and counts of packets that were left out or unusual.

    flows : one row for each flow, in order of the first packets. `source_*` is the end that sends in the forward
        direction. `flow_*` count every packet of the flow (bytes by IP length), also those after its close. The
        39 features and `fpl1`..., `bpl1`... (IP lengths in bytes of the i-th forward and backward packet, 0 when
        absent) cover only packets up to the close, as selected by `first_packets` and `handshake`.
        Times are in microseconds, `start_us` and `end_us` since 1970. `valid`: netmate-flowcalc would export the
        flow (TCP: handshake, then data; UDP: data). `end`: what ended the flow, one of FLOW_ENDS.
    report : one row for each count: count, kind (total, left out, metered, note, file), meaning.
    """

    flows: pd.DataFrame
    report: pd.DataFrame

    def features(self, feature_set: str = "netmate59", *, only_valid: bool = True) -> pd.DataFrame:
        """Return the columns of a named feature set (see `feature_sets`); by default of the valid flows only."""
        names = feature_sets()
        if feature_set not in names:
            raise NetreproError(f"no feature set {feature_set!r}", nearest(feature_set, names))
        missing = [name for name in names[feature_set] if name not in self.flows]
        if missing:
            raise NetreproError(
                f"{feature_set} needs {missing[0]}, which was not metered",
                "meter with first_lengths=10 or more",
            )
        rows = self.flows[self.flows["valid"]] if only_valid else self.flows
        return rows[names[feature_set]]


@cache
def feature_sets() -> dict[str, list[str]]:
    """Load the feature sets of data/gmm_traffic/feature_sets.yaml: name -> column names."""
    described = yaml.safe_load((data_dir("gmm_traffic") / "feature_sets.yaml").read_text())
    expanded: dict[str, list[str]] = {}
    for name, parts in described["sets"].items():
        columns: list[str] = []
        for part in parts:
            columns += expanded.get(part) or described["groups"].get(part) or [part]
        expanded[name] = columns
    return expanded


def meter(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    first_packets: int | None = None,
    handshake: bool = True,
    idle_threshold_s: float = 1.0,
    timeout_s: float | None = 600.0,
    quirks: bool = True,
    end_on_close: bool = True,
    forward: str = "first packet",
    first_lengths: int = 10,
    cores: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> MeterResult:
    """Meter the bidirectional 5-tuple flows of one or more captures, which are read in turn like a single capture.

    Reads pcap and pcapng (micro- and nanoseconds, both byte orders; Ethernet, Linux cooked v1 and v2, raw IP, null
    and loopback; in VLAN tags, SNAP, PPPoE sessions and MPLS labels), plain or as gzip, bzip2, xz, alone or in
    tar archives. Memory grows with the flows, not with the packets. The features are those of netmate-flowcalc's
    netai_flowstats 1.0DArev2.

    Parameters
    ----------
    first_packets : the features cover this many first packets of a flow, both directions together (None: all).
    handshake : whether the packets of the TCP handshake are among these packets.
    idle_threshold_s : a longer gap ends an active period (1 s in netmate-flowcalc's rules file).
    timeout_s : a longer gap ends the flow (None: no gap does).
    quirks : True computes as netmate-flowcalc does: a minimum of 0 is replaced by the next value; means, deviations
        and sub-flow shares are cut to whole numbers; packets with an earlier time than the one before are
        ignored; UDP headers count only until the flow is valid. False does none of this.
    end_on_close : True ends a flow's features when both sides have closed the TCP connection, or one has reset it.
        Later packets count in `flow_*` and `end_us` (report: after_close), until a SYN opens a new connection, or
        no packet comes for 240 s (twice the segment lifetime: TIME-WAIT of RFC 9293) or for timeout_s.
    forward : which direction is forward, a name of FORWARD; `source_*` is the end that sends forward.
    first_lengths : number of fpl columns and of bpl columns.
    cores : 1, or 2: packets are then read on one and sorted into flows on the other. The result is the same.
    progress : called with (bytes read, bytes in all) of the files on disk, about once a megabyte.

    Raises NetreproError where a file is missing or is not a capture. The report counts all other irregularities.
    """
    files = capture_files(paths)
    if first_packets is not None:
        _check_number("first_packets", first_packets, 1, MOST_PACKETS, whole=True)
    if timeout_s is not None:
        _check_number("timeout_s", timeout_s, 1e-6, NEVER_US / 1e6, instead=", or None for a flow that no gap ends")
    _check_number("idle_threshold_s", idle_threshold_s, 0, NEVER_US / 1e6)
    _check_number("first_lengths", first_lengths, 0, MOST_LENGTHS, whole=True)
    _check_number("cores", cores, 1, 2, whole=True)
    if forward not in FORWARD:
        raise NetreproError(f"no forward direction {forward!r}", nearest(forward, FORWARD))
    core = _core.FlowMeter(
        timeout_us=NEVER_US if timeout_s is None else round(timeout_s * 1e6),
        idle_threshold_us=round(idle_threshold_s * 1e6),
        first_packets=first_packets or 0,
        handshake=handshake,
        netmate_quirks=quirks,
        end_on_close=end_on_close,
        forward_is_opener=forward == "opener",
        first_lengths=first_lengths,
        two_cores=cores == 2,
    )
    captures = 0
    all_bytes = sum(file.size_bytes for file in files)
    for file in files:
        for chunks in file.captures():
            captures += 1
            for chunk in chunks:
                core.feed(chunk)
                if progress:
                    progress(sum(other.bytes_read for other in files), all_bytes)
            core.end_file()
    core.end_capture()
    counts = core.counts() | {
        "damaged_archives": sum(file.damage for file in files),
        "skipped_members": sum(file.skipped_members for file in files),
        "captures": captures,
    }
    return MeterResult(_flow_table(core.columns(), first_lengths), _report(counts, core.unsupported_links()))


def _check_number(
    name: str, value: object, least: float, most: float, *, whole: bool = False, instead: str = ""
) -> None:
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        what = "a whole number" if whole else "a number"
        raise NetreproError(f"{name} is {value!r}", f"give {what} from {least:g} to {most:g}{instead}")


def _report(counts: dict[str, int], unsupported_links: Iterable[int]) -> pd.DataFrame:
    rows = [(name, counts[name], *MEANINGS[name]) for name in MEANINGS]
    links = ", ".join(map(link_name, sorted(unsupported_links)))
    rows = [(*row[:-1], f"{row[-1]}: {links}") if row[0] == "unsupported_link" and links else row for row in rows]
    return pd.DataFrame(rows, columns=["item", "count", "kind", "meaning"]).set_index("item")


def _flow_table(columns: dict[str, np.ndarray], first_lengths: int) -> pd.DataFrame:
    versions = columns["ip_version"]
    whole_flow = {
        "source_address": address_texts(columns["source_address"], versions),
        "source_port": columns["source_port"],
        "destination_address": address_texts(columns["destination_address"], versions),
        "destination_port": columns["destination_port"],
        "protocol": columns["protocol"],
        "start_us": columns["start_us"],
        "end_us": columns["end_us"],
        "valid": columns["valid"],
        "starts_with_syn": columns["starts_with_syn"],
        "end": pd.Categorical.from_codes(columns["end"], categories=list(FLOW_ENDS)),
        "flow_fpackets": columns["forward_packets"],
        "flow_fbytes": columns["forward_bytes"],
        "flow_bpackets": columns["backward_packets"],
        "flow_bbytes": columns["backward_bytes"],
    }
    names = [f"{side}pl{i + 1}" for side in "fb" for i in range(first_lengths)]
    parts = [
        pd.DataFrame(whole_flow),
        pd.DataFrame(columns["features"].T, columns=list(FLOW_FEATURES)),
        pd.DataFrame(columns["first_lengths"].T, columns=names),
    ]
    return pd.concat(parts, axis=1)


def address_texts(words: np.ndarray, versions: np.ndarray) -> np.ndarray:
    """Write addresses as text; each distinct one is formatted once."""
    high, low = (pd.factorize(words[:, side]) for side in (0, 1))
    pairs = (high[0] * len(low[1]) + low[0]) * 2 + (versions == 6)
    place, distinct = pd.factorize(pairs)
    texts = np.empty(len(distinct), dtype=object)
    for i, pair in enumerate(distinct.tolist()):
        high_place, low_place = divmod(pair // 2, len(low[1]))
        number = int(high[1][high_place]) << 64 | int(low[1][low_place])
        texts[i] = str(ipaddress.IPv6Address(number)) if pair % 2 else ".".join(map(str, number.to_bytes(4)))
    return texts[place]
