"""What a split of packets adds to a classifier's score: Zhao et al., SIGCOMM 2025, on the stand-in's headers.

`headers` reads headers and takes identifiers out of them, `encoder` is the representation (the only module that needs
PyTorch), `setting` has the profiles' sizes, `measuring` the experiments, `study` the claims, `figures` tables and
pictures. This package exports what a notebook needs.
"""

from netrepro.papers.packet_split_leak.figures import draw_idea, scores, summary
from netrepro.papers.packet_split_leak.headers import APPLICATIONS, LABELLED_DAY, load_headers
from netrepro.papers.packet_split_leak.setting import Setting
from netrepro.papers.packet_split_leak.study import STUDY, answer

__all__ = [
    "APPLICATIONS",
    "LABELLED_DAY",
    "STUDY",
    "Setting",
    "answer",
    "draw_idea",
    "load_headers",
    "scores",
    "summary",
]
