"""SST (Ford, SIGCOMM 2007): packets, a channel with its own congestion control, and the streams of a channel."""

from netrepro.protocols.sst.channel import Channel, Manners
from netrepro.protocols.sst.peer import Peer
from netrepro.protocols.sst.streams import Stream
from netrepro.protocols.sst.wire import Segment, WireError

__all__ = ["Channel", "Manners", "Peer", "Segment", "Stream", "WireError"]
