"""What is set: the model, what a profile affords, and the trace."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError, nearest
from netrepro.study import of_profile
from netrepro.study.setting import check_setting, setting
from netrepro.traffic import (
    BASELINES,
    CLASSES,
    NEURAL,
    NORMALISATIONS,
    LabelledFlows,
    MixturePerClassClassifier,
    feature_sets,
    find_unibs,
    flow_totals,
    load_standin,
    load_unibs,
)

SLUG = "gmm_traffic"
BEST_PACKETS = 9  # the paper's best number of first packets, which it calls RPC
VERIFIED_PACKETS = 6  # at which verification errs least in the paper
MODELS = ("GMM", *BASELINES)
# 0.5 % of the paper's 79,000 flows; what a mixture can learn depends on the count, not on the share.
FEW_FLOWS = 395
TRACES = {"auto": "UNIBS-2009 where present", "unibs": "UNIBS-2009", "standin": "the stand-in"}
Step = Callable[..., dict[str, pd.DataFrame]]  # a part of the measurement, and its tables


@dataclass(frozen=True)
class Setting:
    """The choices that the paper leaves open, as we made them.

    normalisation : learnt from training rows. regularisation : without it a feature with few values makes a mixture
    infinitely sure. max_components : each class's mixture begins with so many.
    """

    feature_set: str = setting("netmate59", "of data/gmm_traffic/feature_sets.yaml", one_of=tuple(feature_sets()))
    normalisation: str = setting("log", "of features", one_of=tuple(NORMALISATIONS))
    regularisation: float = setting(1e-2, "added to every variance of normalised features", above=0, high=1)
    prior: str = setting("map", "with map classes weigh by their size", one_of=("map", "mle"))
    selected_features: int = setting(10, "how many the forward search keeps", low=1, high=100)
    max_components: int = 10
    training_share: float = setting(0.7, "of the flows; the rest tests", above=0, below=1)
    folds: int = 3

    def __post_init__(self) -> None:
        check_setting(self)
        for name, least in (("max_components", 1), ("folds", 2)):
            if getattr(self, name) < least:
                raise NetreproError(f"{name} is {getattr(self, name)}", f"it must be {least} or more")

    def mixtures(self, seed: int, **changed: Any) -> MixturePerClassClassifier:
        """Return the paper's classifier."""
        settings: dict[str, Any] = {
            "prior": self.prior,
            "reg_covar": self.regularisation,
            "max_components": self.max_components,
            "n_init": 2,
        }
        return MixturePerClassClassifier(**(settings | changed), random_state=seed)


@dataclass(frozen=True)
class Scale:
    """The amount of work in a profile.

    flows : used of the trace (None: all). first_packets : the numbers of packets that are swept. epochs, widths : of
    MLP and FT-Transformer. neural_rows : the rows that train them (in the first repetition).
    search_rows : the rows on which each baseline searches features of its own at nine packets (0: none does).
    sweeps_once : the baselines are swept in the first repetition only; at nine packets they are in all.
    """

    flows: int | None
    first_packets: tuple[int, ...]
    epochs: tuple[int, int]
    widths: tuple[int, int]
    neural_rows: int
    search_rows: int
    sweeps_once: bool


SCALES = {
    "quick": Scale(3000, (3, 4, 6, 9), (30, 8), (64, 32), 1500, 0, True),
    "paper": Scale(None, (3, 4, 5, 6, 7, 8, 9, 10), (60, 20), (256, 48), 3000, 1000, False),
}


def scale_of(profile: str) -> Scale:
    """Return the scale of a profile. Raises NetreproError for another profile than quick and paper."""
    return of_profile(profile, SCALES)


class Trace:
    """A labelled trace, metered once for every way of metering that is asked for.

    name : in words. published : whether it is the paper's own, so that its numbers can be compared.
    """

    def __init__(self, name: str, load: Callable[..., LabelledFlows], *, published: bool):
        self.name, self.published = name, published
        self._load = load
        self._known: dict[tuple, LabelledFlows] = {}

    def at(self, first_packets: int | None = BEST_PACKETS, **metering: Any) -> LabelledFlows:
        """Return the trace's flows with the features of their first packets; keywords go to `meter`."""
        key = (first_packets, *sorted(metering.items()))
        if key not in self._known:
            self._known[key] = self._load(first_packets=first_packets, **metering)
        return self._known[key]

    def overview(self) -> pd.DataFrame:
        """Return a row for each class: flows, share of flows, of bytes (0..1), and of flows in UNIBS-2009."""
        flows = self.at().flows
        sizes = flow_totals(flows).groupby(flows["class"].to_numpy(str)).sum().reindex(list(CLASSES)).fillna(0)
        count = flows["class"].value_counts().reindex(list(CLASSES)).fillna(0).astype(int)
        published = pd.Series({"MAILS": 4503, "P2P": 21883, "SKYPE": 1106, "WEB": 48347, "OTHERS": 158})
        return pd.DataFrame(
            {
                "flows": count,
                "share of flows": count / count.sum(),
                "share of bytes": sizes["byte"] / sizes["byte"].sum(),
                "share of flows in UNIBS-2009": published / published.sum(),
            }
        ).rename_axis("class")


def open_trace(which: str = "auto") -> Trace:
    """Open the trace of a name of TRACES. Raises NetreproError for another, or where UNIBS-2009 is asked for and
    absent."""
    if which not in TRACES:
        raise NetreproError(f"no trace {which!r}", nearest(which, TRACES))
    if which != "standin":
        try:
            find_unibs()
            return Trace("UNIBS-2009", load_unibs, published=True)
        except NetreproError:
            if which == "unibs":
                raise
    return Trace("the stand-in", load_standin, published=False)


def neural_models() -> tuple[str, ...]:
    """Return the neural models that this installation has: all or, without PyTorch, none."""
    return NEURAL if importlib.util.find_spec("torch") else ()


def derived_seed(*parts: int) -> int:
    """Return a seed of its own for each repetition."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0] % 2**31)
