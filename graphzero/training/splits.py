"""Evaluation and predictions of all splits of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphzero.graph.ids import IdArray
from graphzero.training.evaluate import Scores, evaluate, predict_scores
from graphzero.training.graphsage import GraphSAGE
from graphzero.training.interrupts import Interrupts
from graphzero.training.labels import SPLIT_NAMES, labels_of, nodes_of_splits
from graphzero.training.loaders import Loaders
from graphzero.training.predictions import Predictions
from graphzero.training.reports import SplitReport

__all__ = ["Evaluated", "evaluate_splits"]


@dataclass(frozen=True)
class Evaluated:
    """Result of `evaluate_splits`.

    Attributes
    ----------
    reports : dict of str to SplitReport
        Of the splits that were evaluated to their end.
    predictions : Predictions or None
        For every node of every split; None if not requested, or if the work was interrupted.
    interrupted : bool
    """

    reports: dict[str, SplitReport]
    predictions: Predictions | None
    interrupted: bool


def evaluate_splits(
    model: GraphSAGE,
    loaders: Loaders,
    splits: dict[str, IdArray],
    interrupts: Interrupts,
    *,
    predict: bool,
) -> Evaluated:
    """Evaluates a model on labelled splits. Ctrl-C ends this; the result has the finished splits.

    Parameters
    ----------
    model : GraphSAGE
    loaders : Loaders
    splits : dict of str to (n,) int64
        Labelled nodes, as from `labelled_splits`.
    interrupts : Interrupts
    predict : bool
        Predict all nodes of all splits as well, those without a known label included.
    """
    reports: dict[str, SplitReport] = {}
    scores: dict[str, Scores] = {}
    predictions, interrupted = None, False
    device = loaders.options.device
    try:
        for name, nodes in splits.items():
            loader = loaders.for_evaluation(nodes)
            reports[name], scores[name] = evaluate(model, loader, device, interrupts.check)
        if predict:
            predictions = _predictions(model, loaders, splits, scores, interrupts)
    except KeyboardInterrupt:
        interrupted = True
    return Evaluated(reports, predictions, interrupted)


def _predictions(
    model: GraphSAGE,
    loaders: Loaders,
    splits: dict[str, IdArray],
    scores: dict[str, Scores],
    interrupts: Interrupts,
) -> Predictions:
    """Predictions for all nodes; those that were evaluated get the scores of the evaluation."""
    nodes = nodes_of_splits(loaders.dataset)
    all_scores: dict[str, Scores] = {}
    for name, ids in nodes.items():
        all_scores[name] = np.empty((len(ids), model.arguments["num_classes"]), np.float32)
        has_scores = labels_of(loaders.dataset, ids) >= 0
        evaluated = SPLIT_NAMES.get(name)
        if evaluated in scores and np.array_equal(ids[has_scores], splits[evaluated]):
            all_scores[name][has_scores] = scores[evaluated]
        else:  # not a split that is evaluated
            has_scores[:] = False
        rest = ids[~has_scores]
        if rest.size:
            loader = loaders.for_evaluation(rest)
            found = predict_scores(model, loader, loaders.options.device, interrupts.check)
            all_scores[name][~has_scores] = found
    return Predictions.of_splits(nodes, all_scores)
