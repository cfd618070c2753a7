"""Infer by gradient boosting of small trees: what no plane can separate, such as "many items, and none of these".

Trees look at one number at a time, so they get a compact description of each record: its components, the items that
separate the classes best (chosen among the people it learns from), how many items, mean and deviation of the values,
the share of values that no person gives, and how many people are listed with it.
"""

import numpy as np

from checks.inference.records import Records
from checks.inference.training_data import Scorer, TrainingSet, dense_columns, distinguishing_items

DISTINGUISHING_ITEMS = 200
TREES = 150
LEAF = 20  # records in a leaf, fewer where there are few
BINS = 32  # per value; finer ones separate no better and take four times as long
# Cut here, over all records and without weights: the library would weigh every edge by itself, which takes longer than
# the trees do.


def on_features(records: Records, training: TrainingSet) -> Scorer:
    """Learn boosted trees on the compact description."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    items = distinguishing_items(records, training, DISTINGUISHING_ITEMS)

    def features(some: Records) -> np.ndarray:
        return np.hstack(
            [records.components.of(some.matrix), some.summaries, dense_columns(some.matrix, items)]
        )

    known = features(records)
    edges = [_edges(column) for column in known.T]
    model = HistGradientBoostingClassifier(
        max_iter=TREES,
        max_bins=BINS,
        max_leaf_nodes=15,
        min_samples_leaf=max(2, min(LEAF, len(training.rows) // 10)),
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    model.fit(_binned(known[training.rows], edges), training.inside, sample_weight=training.weights)
    return lambda some: model.decision_function(_binned(features(some), edges))


def _edges(column: np.ndarray) -> np.ndarray | None:
    """Return where a column is cut so that every part has as many records; None where it has few values anyway."""
    values = np.unique(column)
    return np.quantile(column, np.arange(1, BINS) / BINS) if len(values) > BINS else None


def _binned(features: np.ndarray, edges: list[np.ndarray | None]) -> np.ndarray:
    """Return for every value the number of edges of its column below it."""
    cut = [
        column if edge is None else np.searchsorted(edge, column)
        for column, edge in zip(features.T, edges, strict=True)
    ]
    return np.column_stack(cut).astype(np.float32)
