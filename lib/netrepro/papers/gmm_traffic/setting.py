"""The parameters: the model, the sizes that a profile sets, and the trace."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netrepro.errors import NetreproError, nearest
from netrepro.study.setting import parameter
from netrepro.traffic import (
    BASELINES,
    CLASSES,
    CLASSIFIERS,
    NAMED_CLASSES,
    NEURAL,
    NORMALISATIONS,
    LabelledFlows,
    MixtureFeatureSelector,
    MixturePerClassClassifier,
    NeuralClassifier,
    Rows,
    feature_sets,
    find_unibs,
    flow_totals,
    load_standin,
    load_unibs,
    make_rows,
    random_split,
)
from netrepro.traffic.splits import Split
from netrepro.traffic.unibs import published_trace

SLUG = "gmm_traffic"
BEST_PACKETS = 9  # the paper's best number of first packets, which it calls RPC
VERIFIED_PACKETS = 6  # at which the paper's verification errs least
MODELS = ("GMM", *BASELINES)
# 0.5 % of the paper's 79,000 flows. What a mixture can learn depends on the count, not on the share.
FEW_FLOWS = 395
# The neural models of the paper profile.
LARGE_NETWORKS: dict[str, Any] = {"epochs": (60, 20), "widths": (256, 48), "neural_rows": 3000}
TRACES = ("auto", "unibs", "standin")


@dataclass(frozen=True)
class Setting:
    """The trace, our choices where the paper leaves them open, and the sizes that a profile sets.

    normalisation : learnt from training rows. regularisation : without it a feature with few values makes a mixture
    infinitely sure. max_components : initial number of components of each class's mixture. condition : what a run
    measures, a key of `measuring.CONDITIONS`. handshake : whether its packets count among the first. flows : number
    used from the trace (None for all). epochs, widths : of MLP and FT-Transformer; neural_rows : rows that train them.
    search_rows : rows on which each baseline searches its own features (0 for no search).
    """

    trace: str = parameter("auto", "auto is UNIBS-2009 where present", one_of=TRACES)
    feature_set: str = parameter("netmate59", "of data/gmm_traffic/feature_sets.yaml", one_of=tuple(feature_sets()))
    normalisation: str = parameter("log", "of features", one_of=tuple(NORMALISATIONS))
    regularisation: float = parameter(1e-2, "added to every variance of normalised features", above=0, high=1)
    prior: str = parameter("map", "with map classes weigh by their size", one_of=("map", "mle"))
    selected_features: int = parameter(10, "how many the forward search keeps", low=1, high=100)
    training_share: float = parameter(0.7, "of the flows; the rest tests", above=0, below=1)
    capture: str = parameter(
        "", "a capture of your own to classify, or UNIBS-2009's folder", one_of=("empty", "a file", "a folder")
    )
    max_components: int = 10
    folds: int = 3
    condition: str = "mixtures"
    first_packets: int = BEST_PACKETS
    handshake: bool = True
    flows: int | None = 3000
    epochs: tuple[int, int] = (30, 8)
    widths: tuple[int, int] = (64, 32)
    neural_rows: int = 1500
    search_rows: int = 0

    @property
    def which_trace(self) -> str:
        """The argument of `open_trace`: the folder `capture`, where that is one, else `trace`."""
        return self.capture if self.capture and Path(self.capture).is_dir() else self.trace

    def mixtures(self, seed: int) -> MixturePerClassClassifier:
        """Return the paper's classifier."""
        return MixturePerClassClassifier(
            prior=self.prior,
            reg_covar=self.regularisation,
            max_components=self.max_components,
            n_init=2,
            random_state=seed,
        )

    def model(self, name: str, seed: int) -> Any:
        """Make the named classifier, for rows that are already normalised."""
        if name == "GMM":
            return self.mixtures(seed)
        if name in NEURAL:
            transformer = name != "MLP"
            return NeuralClassifier(
                "ft-transformer" if transformer else "mlp",
                width=self.widths[transformer],
                max_epochs=self.epochs[transformer],
                random_state=seed,
            )
        model = CLASSIFIERS[name](seed)
        # Half of scikit-learn's rounds: all 100 take twice the time and classify no more flows rightly.
        return model.set_params(max_iter=50) if name == "GBT" else model

    def rows(
        self,
        flows: pd.DataFrame,
        seed: int,
        *,
        split: Split | None = None,
        normalisation: str = "",
    ) -> Rows:
        """Split flows at random (or as given by `split`) and normalise them."""
        parts = split or random_split(flows["class"], training_share=self.training_share, seed=seed)
        columns = feature_sets()[self.feature_set]
        return make_rows(flows, columns, parts, normalisation=normalisation or self.normalisation, seed=seed)

    def select(self, rows: Rows) -> pd.DataFrame:
        """Run the forward search for mixtures on the training rows: place (from 1), feature, score (macro-F1 in
        0..1)."""
        selector = rows.train(
            MixtureFeatureSelector(
                self.selected_features,
                n_components=3,
                prior=self.prior,
                cv=self.folds,
                scored_classes=NAMED_CLASSES,
                reg_covar=self.regularisation,
                n_jobs=2,
            )
        )
        names = rows.features.columns[selector.selected_]
        return pd.DataFrame({"place": range(1, len(names) + 1), "feature": names, "score": selector.scores_})

    def selected(self, rows: Rows) -> Rows:
        """Return the rows with only the features of the forward search."""
        return rows.only(self.select(rows)["feature"])


class LabelledTrace:
    """A labelled trace, metered once for each set of metering options.

    name : in words. published : whether it is the paper's own trace, so that its numbers can be compared.
    """

    def __init__(self, name: str, load: Callable[..., LabelledFlows], *, published: bool):
        self.name, self.published = name, published
        self._load = load
        self._known: dict[tuple, LabelledFlows] = {}

    def at(self, first_packets: int | None = BEST_PACKETS, **metering: Any) -> LabelledFlows:
        """Return the trace's flows with features of their first packets; other keyword arguments go to `meter`."""
        key = (first_packets, *sorted(metering.items()))
        if key not in self._known:
            self._known[key] = self._load(first_packets=first_packets, **metering)
        return self._known[key]

    def overview(self) -> pd.DataFrame:
        """Return a row for each class: number of flows, shares of flows and of bytes (0..1), and share of flows in
        UNIBS-2009."""
        flows = self.at().flows
        counts, sizes = flows["class"].value_counts(), flow_totals(flows)["byte"].groupby(flows["class"]).sum()
        published = pd.Series(published_trace("unibs-2009")["flows"])
        columns = {
            "flows": counts,
            "share of flows": counts / counts.sum(),
            "share of bytes": sizes / sizes.sum(),
            "share of flows in UNIBS-2009": published / published.sum(),
        }
        return pd.DataFrame(columns, index=pd.Index(CLASSES, name="class")).fillna(0).astype({"flows": int})


@cache
def open_trace(which: str = "auto") -> LabelledTrace:
    """Open a trace by its name in TRACES, or UNIBS-2009 in the folder of this path. Raises NetreproError for another
    name, or if UNIBS-2009 is asked for and missing."""
    if which not in TRACES and Path(which).is_dir():
        find_unibs(which)
        return LabelledTrace("UNIBS-2009", partial(load_unibs, which), published=True)
    if which not in TRACES:
        raise NetreproError(f"no trace {which!r}", nearest(which, TRACES))
    if which != "standin":
        try:
            find_unibs()
            return LabelledTrace("UNIBS-2009", load_unibs, published=True)
        except NetreproError:
            if which == "unibs":
                raise
    return LabelledTrace("the stand-in", load_standin, published=False)


def neural_models() -> tuple[str, ...]:
    """Return the neural models available here: all, or none without PyTorch."""
    return NEURAL if importlib.util.find_spec("torch") else ()


def derived_seed(*parts: int) -> int:
    """Derive a seed from `parts`, a different one for each repetition."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0] % 2**31)
