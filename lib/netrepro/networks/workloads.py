"""Traffic: what is sent from which host to which, as plain descriptions that every tier understands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from netrepro import _core
from netrepro.errors import NetreproError, nearest
from netrepro.networks.description import (
    DOMAINS,
    Count,
    CountFromZero,
    NotNegative,
    Positive,
    PositiveShare,
    Share,
    as_tuple,
    check_count,
    check_numbers,
    check_one_of,
    described,
    whole,
)
from netrepro.networks.flow_sizes import FlowSizeDistribution
from netrepro.networks.receivers import Receiver

# The core's. "lia" (RFC 6356), "olia" (Khalili et al., CoNEXT 2012) and "balia" (Peng et al., ToN 2016) couple
# the subflows of a flow; for a single connection they are Reno.
CONGESTION_CONTROLS = tuple(_core.congestion_controls())
CONTROLS_OF_KERNELS = ("vegas", "westwood")  # that the core lacks
CONTROLS_OF_LINKS = ("rcp", "xcp")  # whose links tell senders what to do
CONTROLS_OF_THE_SIMULATOR = ("balia", "bbr3", "olia", *CONTROLS_OF_LINKS)  # that the virtual kernel lacks
OWN_CONTROL_PREFIX = (
    "my_"  # begins names of a user's own congestion controls; the tier that runs them checks that they are given
)
MOST_SUBFLOWS, MOST_POISSON_FLOWS = 64, 10_000_000  # the core keeps one bit for each subflow
MAX_RTO_MS = 120_000.0  # Linux's TCP_RTO_MAX
MOST_SEGMENT_BYTES, MOST_PACKET_BYTES = 65_495, 65_549  # of IPv4, without and with all headers
REPLICATIONS = ("", "repflow", "repsyn")
SCHEDULERS = tuple(_core.subflow_schedulers())
RECOVERIES = ("linux", "sack", "newreno", "reno", "tahoe")
RECOVERIES_WITH_SACK = RECOVERIES[:2]
COUNTS = ("segments", "bytes", "acknowledgements")
RECEIVERS_ECN = ("accurate", "classic", "none")


def check_congestion_control(name: str | None) -> None:
    """Raise NetreproError, with the nearest name, for a congestion control that no tier has.

    Names that start with "my_" are accepted: they are the user's own.
    """
    known = name in (None, *CONGESTION_CONTROLS, *CONTROLS_OF_KERNELS)
    if not known and not str(name).startswith(OWN_CONTROL_PREFIX):
        hint = nearest(str(name), CONGESTION_CONTROLS, with_all=True)
        raise NetreproError(f"no congestion control {name!r}", f"those of your own begin with my_; {hint}")


@described
@dataclass(frozen=True)
class Tcp:
    """The settings of TCP connections, of all in an experiment or of one flow; the defaults are Linux's.

    Sizes of segments are payload. The retransmission timeout is the smoothed round trip plus four times its variation,
    the latter at least `min_rto_ms`. The first SYN waits `initial_rto_ms`, and so do the next `syn_linear_timeouts` (0
    in kernels before 6.5 of 2023); after these, SYN timeouts double each time, as retransmission timeouts do, up to
    `max_rto_ms`. With `max_rto_ms` no longer than a first timeout, timeouts do not double.

    A receive window of 1 MiB or more begins with 64 KiB and grows as the reader takes data, unless
    `receive_window_grows` is False. With `send_buffer_bytes` a sender has no more payload under way than fits into so
    many bytes as whole segments; None sets no limit. Subflows share this buffer: their writer wakes when a third of it
    is free.

    With `delayed_ack_ms` every second segment is acknowledged, and a single one after that time. Acknowledged at once
    are the first 16, all that let the receive window grow, and the first three beyond a hole; further ones beyond it
    are acknowledged once a millisecond. With 0 every segment is acknowledged at once.

    `accurate_ecn`: senders ask for AccECN (RFC 9768, without its options), by which acknowledgements count the marked
    packets, modulo 8, so that a congestion control hears how many they are. With `ect_1` as well, their data carry
    ECT(1), by which queues know L4S (RFC 9331), and not ECT(0). `receiver_ecn` is what receivers know of ECN:
    "accurate" all that they are asked for, "classic" RFC 3168 alone, "none" nothing; so senders get what they ask for,
    or classic ECN, or none. SYNs and acknowledgements are never ECN-capable.

    `dctcp_alpha` is DCTCP's first estimate of the share of marked bytes (1 in Linux, 0 in the paper's model).
    `slow_start_exit_share`: the share of its window that Reno keeps when a loss ends slow start; other losses halve it.
    `slow_start_after_idle`: a connection that was silent for a retransmission timeout starts again from the initial
    window. `hystart`: CUBIC and SUSS may leave slow start by delay and acknowledgement trains.
    `hystart_rounds_from_start`: rounds begin with the first segments, not with the first acknowledgement that finds a
    window of 16, as they did by mistake in kernels between 2021 and 2025.

    `recovery`: how a sender detects and repairs losses. "linux" uses RACK, proportional rate reduction and F-RTO, and
    undoes window cuts that were unnecessary. The others are older senders, which cut the window at once: "sack" (three
    segments beyond a hole mean a loss, RFC 6675), and without SACK "newreno" (RFC 6582), "reno" (1990: fast recovery
    ends with the first new acknowledgement), "tahoe" (1988: no fast recovery; slow start, and all is sent again). The
    latter two are those of ns-2. `counts`: what lets the window grow: whole "segments" that are acknowledged (Linux),
    "bytes" (RFC 3465), or "acknowledgements", whatever they cover (RFC 2581, and senders before it).

    `receiver`: a receiver that sends acknowledgements that it should not (AckDivision, DuplicateSpoofing,
    OptimisticAck); None is honest. Flows with one have a single connection. `cumulative_nonce`: every segment carries a
    random number, and an acknowledgement must carry the sum of the numbers of all segments that it covers. Only a
    receiver that has them all knows this sum. The sender ignores other acknowledgements (the cure of Savage et al., CCR
    1999, for optimistic acknowledgements; RFC 3540 has such sums, of one bit, for ECN). The numbers themselves are not
    simulated, so that nobody ever guesses one.

    `boundary_spread_bytes`: a remedy that needs no help from receivers. Every segment ends at one of
    `boundary_spread_bytes` + 1 places, drawn from the experiment's seed, and is up to twice `boundary_spread_bytes`
    shorter than `segment_bytes`. The sender ignores an acknowledgement of any other byte, so that a guess is right once
    in `boundary_spread_bytes` + 1 times. It stays below a quarter of `segment_bytes`, and flows with it have a single
    connection.

    With `congestion_control="suss"` (Arghavani et al., SIGCOMM 2024) the window may grow fourfold in the first
    `suss_rounds` rounds after the initial window. `suss_guard` and `suss_pacing`: whether segments beyond a doubling
    wait for the guard interval, and whether they are paced.

    `congestion_control="prague"` (draft-briscoe-iccrg-prague-congestion-control) is an L4S sender: it asks for AccECN
    and sends ECT(1) by itself, paces, and starts from `dctcp_alpha` too. After `prague_rounds` rounds outside slow
    start, round trips below `prague_round_trip_ms` count as that (0: never), so that shorter ones do not get more.
    Where receivers know no AccECN it is Reno with pacing, with classic ECN if they know that. With
    `prague_heeds_marks=False`, which breaks it on purpose, it hears of marks and does nothing. On tier "virtual" it is
    a module whose receiver echoes marks as DCTCP's does, since that kernel has no AccECN.

    `congestion_control="bbr3"` is BBR version 3 (draft-ietf-ccwg-bbr-06), and "bbr" is version 1, as in Linux. Version
    3 is the simulator's alone. It asks for no ECN by itself; with `ecn` or `accurate_ecn` marks count as in Google's
    Linux code, which means marks from a low threshold on. That code heeds them where the least round trip has been 5 ms
    or less: `bbr3_ecn_round_trip_ms=5`. With 0 it heeds them at any.

    With `pacing`, segments leave evenly spaced, at the rate of window over smoothed round trip, times
    `pacing_slow_start_ratio` in slow start and `pacing_ratio` after it (Linux's tcp_pacing_ss_ratio and
    tcp_pacing_ca_ratio); the first `unpaced_segments` of a connection leave at once. Both versions of BBR and Prague
    always pace, at rates of their own.

    With `bursts`, segments leave in bursts as Linux's TCP builds them, whatever the interface's offloads are: what its
    rate sends in 1/1024 s (1/4096 s of Prague), two segments at least. Where the window has no room for so many, nor
    for a third of it, the sender waits for up to a millisecond. Only the simulator does this: the kernels of the other
    tiers are told to send single segments.

    For flows with subflows: `opportunistic_retransmission` sends again, on a faster subflow, data that block the shared
    receive window; `penalisation` halves the window of the slower one (Raiciu et al., NSDI 2012, section 4.2).
    `scheduler` chooses the subflow of the next segment: "lowest_rtt" fills the window of the fastest first,
    "round_robin" gives a segment in turn to each that has room, "redundant" gives all segments to each.
    """

    congestion_control: str = "cubic"
    initial_window_segments: Count = 10
    segment_bytes: Annotated[int, whole(most=MOST_SEGMENT_BYTES)] = 1448
    receive_window_bytes: Annotated[int, whole(but="`segment_bytes` or more")] = 6 * 2**20
    receive_window_grows: bool = True
    send_buffer_bytes: Annotated[int, whole(but="`segment_bytes` or more")] | None = None
    min_rto_ms: Positive = 200.0
    initial_rto_ms: Positive = 1000.0
    syn_linear_timeouts: CountFromZero = 4
    delayed_ack_ms: NotNegative = 40.0
    sack: bool = True
    tail_loss_probe: bool = True  # RFC 8985, needs SACK; Linux's net.ipv4.tcp_early_retrans = 3, and 0 without
    ecn: bool = False  # ask for ECN with every congestion control; DCTCP asks anyway
    accurate_ecn: bool = False
    ect_1: bool = False
    receiver_ecn: str = "accurate"
    dctcp_alpha: Share = 1.0
    slow_start_exit_share: PositiveShare = 0.5
    slow_start_after_idle: bool = True
    hystart: bool = True
    hystart_rounds_from_start: bool = True
    pacing: bool = False
    pacing_slow_start_ratio: Positive = 2.0
    pacing_ratio: Positive = 1.2
    unpaced_segments: CountFromZero = 10
    opportunistic_retransmission: bool = False
    penalisation: bool = False
    scheduler: str = "lowest_rtt"
    recovery: str = "linux"
    counts: str = "segments"
    receiver: Receiver | None = None
    cumulative_nonce: bool = False
    boundary_spread_bytes: Annotated[int, whole(least=0, but="below a quarter of `segment_bytes`")] = 0
    suss_rounds: CountFromZero = 3
    suss_guard: bool = True
    suss_pacing: bool = True
    prague_round_trip_ms: NotNegative = 25.0
    prague_rounds: CountFromZero = 500
    prague_heeds_marks: bool = True
    bbr3_ecn_round_trip_ms: NotNegative = 0.0
    bursts: bool = False
    max_rto_ms: Positive = MAX_RTO_MS

    def __post_init__(self) -> None:
        check_congestion_control(self.congestion_control)
        check_numbers(self)
        check_count(self, "receive_window_bytes", least=self.segment_bytes)
        if self.send_buffer_bytes is not None:
            check_count(self, "send_buffer_bytes", least=self.segment_bytes)
        check_count(self, "boundary_spread_bytes", least=0, most=(self.segment_bytes - 1) // 4)
        if not isinstance(self.receiver, Receiver | None):
            raise NetreproError(
                f"Tcp: receiver = {self.receiver!r}", "give AckDivision, DuplicateSpoofing or OptimisticAck"
            )
        check_one_of(self, "recovery", RECOVERIES)
        check_one_of(self, "counts", COUNTS)
        check_one_of(self, "scheduler", SCHEDULERS)
        check_one_of(self, "receiver_ecn", RECEIVERS_ECN)
        if self.ect_1 and not self.accurate_ecn:
            raise NetreproError("Tcp: ect_1 without accurate ECN", "give accurate_ecn=True with it (RFC 9331)")
        if self.recovery == "sack" and not self.sack:
            raise NetreproError("Tcp: recovery = 'sack' without SACK", "give sack=True, or recovery='newreno'")


@described
@dataclass(frozen=True)
class Flow:
    """One TCP connection that sends `size_bytes`, or sends for `duration_s`, from `start_s` on.

    Where `tcp` is None, the experiment's counts; where `congestion_control` is None, that of `tcp`. `label` names the
    flow's group in the results.

    `replication` (Xu and Li, INFOCOM 2014; Liu et al., "RepNet"), for a size of `replicate_below_bytes` at most:
    with "repflow" two connections carry all bytes, and the flow is complete when the first of them is; with "repsyn"
    both are opened, and the first to be established carries the bytes. Connections differ in their hash, so that
    they may take different paths; `replica_same_path` gives both the same one, as a control.

    `subflows`: number of connections over which one stream of bytes is spread (MPTCP, RFC 8684), with one receive
    window. Each has its own hash, or its own path from `subflow_paths`.

    `path`: the nodes that the flow's packets pass, from source to destination; packets that come back pass them in
    reverse (source routing). Without a path the experiment's routing decides.

    Raises NetreproError unless exactly one of size and duration is given, and for a flow that has two of
    replication, subflows and path.
    """

    source: str
    destination: str
    size_bytes: Count | None = None
    duration_s: Positive | None = None
    start_s: NotNegative = 0.0
    congestion_control: str | None = None
    label: str = ""
    replication: str = ""
    replicate_below_bytes: Count = 100_000
    replica_same_path: bool = False
    subflows: Annotated[int, whole(most=MOST_SUBFLOWS)] = 1
    path: tuple[str, ...] = ()
    subflow_paths: tuple[tuple[str, ...], ...] = ()
    tcp: Tcp | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _nodes_of_path(self.path))
        if isinstance(self.subflow_paths, str) or not isinstance(self.subflow_paths, Iterable):
            raise NetreproError(f"subflow_paths = {self.subflow_paths!r}", "give a list of paths, one for each subflow")
        object.__setattr__(self, "subflow_paths", tuple(_nodes_of_path(path) for path in self.subflow_paths))
        if (self.size_bytes is None) == (self.duration_s is None):
            raise NetreproError(
                f"a flow from {self.source} to {self.destination} with no end or two",
                "give size_bytes=... or duration_s=...",
            )
        check_numbers(self)
        _check_tcp(self)
        _check_connections(self)
        if self.path and (self.replication or self.subflows > 1):
            raise NetreproError("one path for a flow of several connections", "give it no path, or one connection")
        if self.subflow_paths and len(self.subflow_paths) != self.subflows:
            raise NetreproError(
                f"{len(self.subflow_paths)} paths for {self.subflows} subflows", "give a path for each subflow"
            )
        _check_apart(self.source, self.destination)


@described
@dataclass(frozen=True)
class Requests:
    """A client that asks `servers` for data, `count` times, over connections that are opened beforehand.

    Every server gets `request_bytes` and answers with `response_bytes`, after a time drawn evenly from 0 to
    `answer_within_ms`. The first `first_bytes` of an answer leave then, what is left of it `rest_after_ms` later, as
    where a back end makes the page whose headers a front end sends at once (0: all leaves at once). With `barrier` the
    next round begins `think_ms` after all servers have answered (a striped read); without, each server is asked again
    `think_ms` after its own answer.

    The connections are opened at `start_s`; the first requests leave when all are open. In the results a server's
    answers are one flow from the server to the client; `requests` has a row for each answer. `tcp` and
    `congestion_control` are as in Flow, and hold for requests and answers.

    Raises NetreproError for no servers, a server named twice, a client that is its own server, or a rest of answers
    whose first part is all of them.
    """

    client: str
    servers: tuple[str, ...]
    request_bytes: Count
    response_bytes: Count
    count: Count
    barrier: bool = True
    think_ms: NotNegative = 0.0
    start_s: NotNegative = 0.0
    congestion_control: str | None = None
    label: str = ""
    answer_within_ms: NotNegative = 0.0
    first_bytes: CountFromZero = 0
    rest_after_ms: NotNegative = 0.0
    tcp: Tcp | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "servers", _names_of_hosts(self, "servers"))
        if not self.servers or len(set(self.servers)) < len(self.servers):
            raise NetreproError(f"Requests: servers = {self.servers!r}", "give different hosts, one at least")
        check_numbers(self)
        if self.rest_after_ms and not self.first_bytes:
            raise NetreproError(
                f"Requests: rest_after_ms = {self.rest_after_ms} of an answer whose first part is all of it",
                "give first_bytes, too",
            )
        in_all = self.count * max(self.request_bytes, self.response_bytes)
        if in_all > DOMAINS["bytes"][1]:
            raise NetreproError(
                f"Requests: count = {self.count}, of {in_all} bytes in all", f"give no more than {DOMAINS['bytes'][1]}"
            )
        _check_tcp(self)
        for server in self.servers:
            _check_apart(self.client, server)


@described
@dataclass(frozen=True)
class Datagrams:
    """Packets that nobody acknowledges (UDP), of `packet_bytes` on the wire, at a mean rate.

    `spacing` is "constant", or "poisson" for exponential gaps. They are sent from `start_s` on, for `duration_s`.
    """

    source: str
    destination: str
    rate_mbps: Positive
    duration_s: Positive
    packet_bytes: Annotated[int, whole(least=42, most=MOST_PACKET_BYTES)] = 1514
    spacing: str = "constant"
    start_s: NotNegative = 0.0
    label: str = ""

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.spacing not in ("constant", "poisson"):
            raise NetreproError(
                f"Datagrams: spacing = {self.spacing!r}", nearest(str(self.spacing), ("constant", "poisson"))
            )
        _check_apart(self.source, self.destination)


@described
@dataclass(frozen=True)
class PoissonFlows:
    """`count` TCP flows that start as a Poisson process of `flows_per_s`, from `start_s` on.

    Sizes are drawn from `sizes`; every flow's source and destination are drawn evenly from `sources` and
    `destinations` (all hosts when empty), never the same host. The flows depend only on the experiment's seed and on
    the place of this entry in its traffic, so that all tiers see the same flows. Replication, subflows and tcp are as
    in Flow; flows larger than `replicate_below_bytes` are not replicated.
    """

    sizes: FlowSizeDistribution
    flows_per_s: Positive
    count: Annotated[int, whole(most=MOST_POISSON_FLOWS)]
    sources: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    start_s: NotNegative = 0.0
    congestion_control: str | None = None
    label: str = ""
    replication: str = ""
    replicate_below_bytes: Count = 100_000
    replica_same_path: bool = False
    subflows: Annotated[int, whole(most=MOST_SUBFLOWS)] = 1
    tcp: Tcp | None = None

    def __post_init__(self) -> None:
        _check_sizes(self.sizes)
        check_numbers(self)
        _check_tcp(self)
        for name in ("sources", "destinations"):
            object.__setattr__(self, name, _names_of_hosts(self, name))
        if len({*self.sources, *self.destinations}) == 1:
            raise NetreproError("PoissonFlows between one host and itself", "give two hosts or more")
        _check_connections(self)


Traffic = Flow | Datagrams | PoissonFlows | Requests


def flows_per_s_at_load(sizes: FlowSizeDistribution, load: float, capacity_mbps: float) -> float:
    """Compute how many flows a second offer `load` (0..1) times `capacity_mbps` of payload.

    Raises NetreproError unless `sizes` is a FlowSizeDistribution.
    """
    _check_sizes(sizes)
    return load * capacity_mbps * 1e6 / 8 / sizes.in_bytes().mean


def _names_of_hosts(entry: Requests | PoissonFlows, name: str) -> tuple[str, ...]:
    """Return the hosts of a field; a single name is a list of one. Raises NetreproError for other types."""
    given = getattr(entry, name)
    hosts = as_tuple(given)
    for host in hosts:
        if not isinstance(host, str):
            raise NetreproError(f"{type(entry).__name__}: {name} = {given!r}", f'give hosts: {name}=["h1", "h2"]')
    return hosts


def _nodes_of_path(path: Any) -> tuple[str, ...]:
    """Return a path's nodes as a tuple. Raises NetreproError unless they are a list."""
    if isinstance(path, str) or not isinstance(path, Iterable):
        raise NetreproError(f"a path {path!r}", 'give its nodes: ("h1", "s1", "h2")')
    return tuple(path)


def own_tcp(entry: Traffic) -> Tcp | None:
    """Return the TCP settings that an entry gives its connections, or None where it gives none."""
    return None if isinstance(entry, Datagrams) else entry.tcp


def _check_tcp(entry: Flow | PoissonFlows | Requests) -> None:
    check_congestion_control(entry.congestion_control)
    if not isinstance(entry.tcp, Tcp | None):
        raise NetreproError(f"{type(entry).__name__}: tcp = {entry.tcp!r}", "give a Tcp, or None for the experiment's")


def _check_sizes(sizes: Any) -> None:
    if not isinstance(sizes, FlowSizeDistribution):
        raise NetreproError(f"sizes of flows {sizes!r}", 'give a FlowSizeDistribution: load_flow_sizes("web_search")')


def _check_apart(source: str, destination: str) -> None:
    if source == destination:
        raise NetreproError(f"traffic from {source} to itself", "give two different hosts")


def _check_connections(flows: Flow | PoissonFlows) -> None:
    if flows.replication not in REPLICATIONS:
        raise NetreproError(f"replication = {flows.replication!r}", nearest(str(flows.replication), REPLICATIONS[1:]))
    if flows.replication and flows.subflows > 1:
        raise NetreproError(f"{flows.replication} of flows with {flows.subflows} subflows", "give one of the two")
