"""Of whom an attribute is known, and whom the attacker is asked about.

Everybody in the release with a known value is in one fold; the attacker knows the others' when he is asked about one.
Of very many people some are asked, drawn by what is published, like all targets (`Case.targets`); of a rare class more
than its share, so that something can be shown about it, and each then counts for less. The rest stay known to him
where that costs nothing (votes.py).
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from checks.case import Case

MOST_ASKED = 8_000
FEWEST = 10  # people of a class from whom anything can be learnt


@dataclass(frozen=True)
class Labelled:
    """People (rows of the truth) with the class of each (0, 1, …) and the fold in which they are asked; `asked` are
    places among them. Values have no names here: what is not known cannot be published."""

    attribute: str
    people: np.ndarray
    labels: np.ndarray
    classes: int
    folds: np.ndarray
    asked: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """People of each class."""
        return np.bincount(self.labels, minlength=self.classes)

    @property
    def questions(self) -> list[int]:
        """The classes to be told from all others; of two, one tells the other."""
        return [1] if self.classes == 2 else list(range(self.classes))

    @property
    def enough(self) -> bool:
        """Whether there are two classes and anything can be learnt of each."""
        return self.classes >= 2 and int(self.counts.min()) >= FEWEST

    def share(self, question: int) -> float:
        """Share of all labelled people who are of this class."""
        return float(self.counts[question] / len(self.people))

    @property
    def weights(self) -> np.ndarray:
        """How many people each person asked stands for."""
        asked = np.bincount(self.labels[self.asked], minlength=self.classes)
        return (self.counts / np.maximum(asked, 1))[self.labels[self.asked]]

    def shuffled(self, draw: np.random.Generator) -> "Labelled":
        """The same people with the values dealt out anew: nothing is left to be learnt."""
        return replace(self, labels=self.labels[draw.permutation(len(self.labels))])


def labelled(case: Case, attribute: str, folds: int) -> Labelled:
    """The people of a case of whom the source knows this attribute, in so many folds of equal composition."""
    truth = case.truth
    values = truth.attributes[attribute]
    known = ~values.is_null().to_numpy(zero_copy_only=False)
    known &= (truth.row_of_user >= 0) & (np.diff(truth.ratings.indptr) > 0)
    people = case.in_drawn_order(np.flatnonzero(known), "attributes", attribute)
    code = values.indices.to_numpy(zero_copy_only=False)[people].astype(np.int64)
    # By the values' order, not by who comes first.
    order = pc.rank(values.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
    _, labels = np.unique(order[code], return_inverse=True)
    classes = int(labels.max(initial=-1)) + 1
    place = np.zeros(len(people), np.int64)  # among the people of the class, in the drawn order
    for label in range(classes):
        own = labels == label
        place[own] = np.arange(own.sum())
    back = np.argsort(people, kind="stable")
    people, labels, place = people[back], labels[back], place[back]
    asked = np.flatnonzero(place < _most(np.bincount(labels, minlength=classes))[labels])
    return Labelled(attribute, people, labels, classes, place % folds, asked)


def _most(counts: np.ndarray) -> np.ndarray:
    """How many of each class are asked: in proportion, and of a rare one at least its half of an equal part."""
    total = max(1, int(counts.sum()))
    if total <= MOST_ASKED:
        return counts
    return np.maximum(counts * MOST_ASKED // total, np.minimum(counts, MOST_ASKED // (2 * len(counts))))
