"""List the inferrers by name. To add one, add a function (records, training) → a score for every record, and a line
here.

Folds, cut-offs, intervals, controls, the combinations of all and `murmur attack attribute-inference` follow.
"""

from collections.abc import Callable
from dataclasses import dataclass

from checks.inference import boosting, regression
from checks.inference.records import Records
from checks.inference.training_data import Scorer, TrainingSet


def _always(records: Records) -> bool:
    return True


def _sparse(records: Records) -> bool:
    return not records.dense


def _dense(records: Records) -> bool:
    return records.dense


def _marked(records: Records) -> bool:
    return records.marked


@dataclass(frozen=True)
class Inferrer:
    """Describe an inferrer.

    `suits` states for which records it is; `quick`: it also examines attributes that are not protected; `papers`: it is
    also tried as in the papers, learning from raw records.
    """

    name: str
    learn: Callable[[Records, TrainingSet], Scorer]
    suits: Callable[[Records], bool] = _always
    quick: bool = False
    papers: bool = False


INFERRERS = (
    Inferrer(
        "gradient boosting", boosting.on_features, papers=True
    ),  # the longest first: workers end together
    Inferrer("logistic regression", regression.on_ratings, _sparse, papers=True),
    Inferrer("logistic regression", regression.on_components, _dense, quick=True),
    Inferrer("logistic regression, standardised", regression.on_standardised, _dense, quick=True),
    Inferrer("logistic regression, equal lengths", regression.on_equal_lengths, _sparse, quick=True),
    Inferrer(
        "logistic regression, equal lengths, strong ridge",
        regression.on_equal_lengths_strongly,
        _sparse,
        quick=True,
    ),
    Inferrer("logistic regression on items", regression.on_items, _sparse),
    Inferrer("logistic regression on items, strong ridge", regression.on_items_strongly, _sparse, quick=True),
    Inferrer("logistic regression without foreign values", regression.on_unmarked_values, _marked),
    Inferrer("logistic regression on foreign values", regression.on_marked_values, _marked),
)
CONTROL = "logistic regression, equal lengths"


def suitable(records: Records, *, quick: bool = False) -> list[Inferrer]:
    """Return the inferrers for these records."""
    return [one for one in INFERRERS if one.suits(records) and (one.quick or not quick)]


def inferrer_named(name: str, records: Records) -> Inferrer:
    """Return the inferrer of this name for these records."""
    return next(one for one in INFERRERS if one.name == name and one.suits(records))
