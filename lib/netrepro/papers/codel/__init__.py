"""CoDel: Nichols and Jacobson, "Controlling Queue Delay", ACM Queue 10(5) and CACM 55(7), 2012.

`experiments` has the links, their traffic and the readings, `study` the cases, claims and figures, `edge` the consumer
edge, `packmime` the sizes of web responses there.
"""

from netrepro.papers.codel.edge import table as edge_table
from netrepro.papers.codel.experiments import Setting
from netrepro.papers.codel.study import STUDY, answer, draw_idea, draw_network

__all__ = ["STUDY", "Setting", "answer", "draw_idea", "draw_network", "edge_table"]
