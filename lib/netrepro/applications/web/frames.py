"""Frames of a live source over SST, on a line that loses packets: as datagrams, or each as a stream of its own."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

import numpy as np
import pandas as pd

from netrepro.applications.web.run import ENDS, SymmetricLine
from netrepro.errors import NetreproError
from netrepro.networks.experiment import Experiment
from netrepro.protocols.machine import Event, Machine, Output
from netrepro.protocols.sst import wire
from netrepro.protocols.sst.channel import Manners
from netrepro.protocols.sst.peer import Peer
from netrepro.protocols.sst.streams import Stream
from netrepro.protocols.sst.web import SstServer
from netrepro.simulation import simulate_machines

MEANS = ("datagrams", "streams", "streams until late")
NUMBER_BYTES = 8  # a frame begins with its number
LOOKS_ON_S = 5.0  # after the last frame


class FrameSender:
    """A live source that sends a frame of `frame_bytes` every `every_s`, `count` in all; events: "sent" (a number).

    over : a member of MEANS. "streams until late" resets the stream of a frame that is not acknowledged `late_s` after
    it began, so that what is late is not sent again.
    """

    def __init__(
        self, to: Hashable, over: str, count: int, frame_bytes: int, every_s: float, late_s: float, manners: Manners
    ):
        self.over, self.frame_bytes, self.every_s, self.late_s = over, frame_bytes, every_s, late_s
        self.left = list(range(count))[::-1]
        self.peer = Peer(to, True, 1, manners)
        self.next_s = math.inf
        self._began_s: dict[Stream, float] = {}

    @property
    def wake_at_s(self) -> float:
        """The time at which it wants `wake` to be called."""
        late_s = min(self._began_s.values(), default=math.inf) + self.late_s
        return min(self.peer.wake_at_s, self.next_s, late_s if self.over == MEANS[2] else math.inf)

    def start(self, now_s: float) -> Iterable[Output]:
        """Ask for the channel."""
        return self._act(now_s, self.peer.start(now_s))

    def receive(self, now_s: float, sender: Hashable, message: bytes) -> Iterable[Output]:
        """Handle a packet."""
        return self._act(now_s, self.peer.receive(now_s, sender, message))

    def wake(self, now_s: float) -> Iterable[Output]:
        """Send a frame that is due, and reset streams that are late."""
        yield from self._act(now_s, self.peer.wake(now_s))
        self._began_s = {stream: began_s for stream, began_s in self._began_s.items() if not stream.is_sent}
        for stream in [each for each, began_s in self._began_s.items() if began_s + self.late_s <= now_s]:
            del self._began_s[stream]
            if self.over == MEANS[2]:
                self.peer.reset(stream)
        if self.next_s <= now_s and self.left:
            yield self._send(now_s, self.left.pop())
            self.next_s = now_s + self.every_s if self.left else math.inf
        yield from self.peer.flush(now_s)

    def _send(self, now_s: float, number: int) -> Event:
        frame = number.to_bytes(NUMBER_BYTES, "big").ljust(self.frame_bytes, b"\0")
        if self.over == MEANS[0]:
            self.peer.send_datagram(frame)
        else:
            stream = self.peer.open()
            stream.write(frame, close=True)
            self._began_s[stream] = now_s
        return Event("sent", number)

    def _act(self, now_s: float, outputs: Iterable[Output]) -> Iterable[Output]:
        for output in outputs:
            if not isinstance(output, Event):
                yield output
            elif output.kind == "up":
                self.next_s = now_s


class FrameReceiver(SstServer):
    """The other end; events: "arrived" (a frame's number) once the whole frame is there."""

    def _act(self, now_s: float, outputs: Iterable[Output]) -> Iterable[Output]:
        assert self.peer is not None
        for output in list(outputs):
            if not isinstance(output, Event):
                yield output
            elif output.kind == "datagram":
                yield _arrived(output.value[1])
            elif output.kind == "readable":
                self._requests[output.value] = self._requests.get(output.value, b"") + output.value.read()
            elif output.kind == "ended":
                yield _arrived(self._requests.pop(output.value))
                output.value.write(b"", close=True)
        yield from self.peer.flush(now_s)


def _arrived(frame: bytes) -> Event:
    return Event("arrived", int.from_bytes(frame[:NUMBER_BYTES], "big"))


def send_frames(
    line: SymmetricLine, over: str, packets: int, count: int, seed: int, *, late_s: float, share_of_line: float = 0.4
) -> pd.DataFrame:
    """Send `count` frames of so many full packets over SST in the simulator, which fill `share_of_line` of the line.

    Returns a row for each frame: sent_s, delay_s (NaN: it never arrived whole). Raises NetreproError for unknown means,
    and for datagrams beyond four packets.
    """
    if over not in MEANS:
        raise NetreproError(f"frames over {over!r}", f"choose from: {', '.join(MEANS)}")
    frame_bytes = packets * wire.MTU_BYTES
    every_s = line.seconds_for(frame_bytes) / share_of_line
    sender = FrameSender("server", over, count, frame_bytes, every_s, late_s, Manners())
    machines: dict[Hashable, Machine] = {"client": sender, "server": FrameReceiver(Manners())}
    asked = Experiment(line.topology, (), count * every_s + LOOKS_ON_S, seed)
    events, _ = simulate_machines(asked, machines, len, ENDS, most_events=100_000_000)
    times = {kind: np.full(count, np.nan) for kind in ("sent", "arrived")}
    for now_s, _, event in events:
        times[event.kind][event.value] = now_s
    return pd.DataFrame({"sent_s": times["sent"], "delay_s": times["arrived"] - times["sent"]})
