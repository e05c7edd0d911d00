"""Floor 2: real applications in an emulated network, captured at its border and labelled on the workstations.

The programs that run inside the network are in guests/. They need the libraries of the extra `capture`.
"""

from netrepro.applications.labelled_traffic.generate import Day, Mix, record_day
from netrepro.applications.labelled_traffic.make import check_capture, make_capture
from netrepro.applications.labelled_traffic.shorten import shorten_day, write_standin

__all__ = ["Day", "Mix", "check_capture", "make_capture", "record_day", "shorten_day", "write_standin"]
