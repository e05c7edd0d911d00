"""Labelled flows and packets of other people's tools, as one kind of table."""

from netrepro.traffic.tables.labelled_packets import read_packets
from netrepro.traffic.tables.labelled_table import FLOW, IDENTIFIERS, PACKET, LabelledTable, make_table
from netrepro.traffic.tables.open_table import captures_in, load_labelled, table_of

__all__ = [
    "FLOW",
    "IDENTIFIERS",
    "PACKET",
    "LabelledTable",
    "captures_in",
    "load_labelled",
    "make_table",
    "read_packets",
    "table_of",
]
