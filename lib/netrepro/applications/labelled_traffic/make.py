"""All steps of making a labelled capture: some days are recorded, shortened and written."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from netrepro.applications.labelled_traffic.generate import Mix, Progress, record_day
from netrepro.applications.labelled_traffic.shorten import shorten_day, write_standin
from netrepro.errors import NetreproError
from netrepro.paths import check_writable


def check_capture(seconds: float, scale: float, days: int) -> None:
    """Raise NetreproError for a capture without days, with days shorter than 5 s, or without flows."""
    if not seconds >= 5 or days < 1 or not scale > 0:
        raise NetreproError(
            f"days = {days}, seconds = {seconds}, scale = {scale}",
            "give a day or more of 5 s or more, and a scale above 0",
        )


def make_capture(
    folder: Path,
    *,
    seconds: float = 240.0,
    scale: float = 1.0,
    days: int = 2,
    seed: int = 1,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Make a labelled capture like the stand-in: `days` runs of `seconds`, written by `write_standin`.

    scale : factor of the numbers of flows in `Mix`; each day, these also vary at random by up to 10 %. Returns one row
    for each day and class: flows, bytes. Raises NetreproError for a folder that cannot be written, before the first
    run, and as `record_day` does, before anything is written.
    """
    check_capture(seconds, scale, days)
    check_writable(folder)
    shortened = []
    for day in range(days):
        lean = np.random.default_rng([seed, day, 3]).uniform(0.9, 1.1, 5)
        whole = Mix().scaled(scale)
        counts = (whole.web, whole.p2p, whole.mails, whole.skype, whole.others)
        mix = Mix(*(max(5, round(count * by)) for count, by in zip(counts, lean, strict=True)))
        with tempfile.TemporaryDirectory(prefix="netrepro-") as scratch:
            recorded = record_day(Path(scratch), seconds=seconds, mix=mix, seed=seed, day=day, progress=progress)
            shortened.append(shorten_day(recorded, day))
    return write_standin(folder, shortened)
