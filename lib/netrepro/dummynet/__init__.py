"""Floor 1: Dummynet in user space (Carbone and Rizzo, "Dummynet revisited", CCR 40(2), 2010).

language.py reads rules as ipfw writes them, rules.py and pipes.py hold their meaning, headers.py has the packets,
engine.py sends packets through rules and pipes, timing.py measures the time that this takes.
"""

from netrepro.dummynet.engine import Dummynet, Passage
from netrepro.dummynet.headers import HEADER_COLUMNS, headers_of_capture, synthetic_headers
from netrepro.dummynet.language import parse_rules
from netrepro.dummynet.pipes import Pipe, PipeQueue
from netrepro.dummynet.rules import Rule, RuleSet
from netrepro.dummynet.timing import Timing, time_packets

__all__ = [
    "HEADER_COLUMNS",
    "Dummynet",
    "Passage",
    "Pipe",
    "PipeQueue",
    "Rule",
    "RuleSet",
    "Timing",
    "headers_of_capture",
    "parse_rules",
    "synthetic_headers",
    "time_packets",
]
