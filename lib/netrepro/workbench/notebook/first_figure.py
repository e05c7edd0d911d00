"""A first figure, which `make first` draws minutes before everything else is installed.

It needs the library's own requirements and matplotlib, but no notebook, no kernel and no neural network.
"""

from __future__ import annotations

from pathlib import Path

from netrepro.papers.dctcp import STUDY
from netrepro.paths import runs_dir
from netrepro.study import measure
from netrepro.style import save_figure, use_style

FIGURE = "fig6ab_queue_over_time"
REPETITIONS, SEED = 2, 1


def draw_first_figure() -> Path:
    """Measure DCTCP's queue beside TCP's in the simulator, draw both, and return the path of the picture."""
    use_style()
    runs = measure(STUDY, repetitions=REPETITIONS, seed=SEED)
    folder = runs_dir() / "first"
    folder.mkdir(parents=True, exist_ok=True)
    save_figure(STUDY.figures[FIGURE](runs), folder, FIGURE, "made by: make first")
    return folder / f"{FIGURE}.png"


if __name__ == "__main__":
    print(f"the queue of DCTCP beside that of TCP, in simulated packets: {draw_first_figure()}")
