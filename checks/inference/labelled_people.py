"""Select the people whose attribute is known, and those on whom the attacker is tested.

Every person in the release with a known value is in one fold; the attacker knows the other folds' values when
tested on one. Where there are very many people some are tested, drawn by the release's fingerprint, like all targets
(`Case.targets`); of a rare class more than its share, so that something can be shown about it, and each then counts for
less. The rest stay known to the attacker where that costs nothing (member_votes.py).
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from checks.evidence.case import Case

MOST_TESTED = 8_000
MIN_CLASS_SIZE = 10  # people of a class, so that an inferrer can learn from them


@dataclass(frozen=True)
class LabelledPeople:
    """Hold people (rows of the truth) with the class of each (0, 1, …) and the fold in which they are tested.

    `tested` are positions among them. Values have no names here: what is not known cannot be published.
    """

    attribute: str
    people: np.ndarray
    labels: np.ndarray
    classes: int
    folds: np.ndarray
    tested: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """Number of people of each class."""
        return np.bincount(self.labels, minlength=self.classes)

    @property
    def questions(self) -> list[int]:
        """The classes to distinguish from all others; of two, one determines the other."""
        return [1] if self.classes == 2 else list(range(self.classes))

    @property
    def enough(self) -> bool:
        """Whether there are two classes with enough people each to learn from."""
        return self.classes >= 2 and int(self.counts.min()) >= MIN_CLASS_SIZE

    def share(self, question: int) -> float:
        """Return the share of all labelled people who are of this class."""
        return float(self.counts[question] / len(self.people))

    @property
    def weights(self) -> np.ndarray:
        """How many people each person tested stands for."""
        tested = np.bincount(self.labels[self.tested], minlength=self.classes)
        return (self.counts / np.maximum(tested, 1))[self.labels[self.tested]]

    def shuffled(self, draw: np.random.Generator) -> "LabelledPeople":
        """Return the same people with the values shuffled: nothing is left to learn."""
        return replace(self, labels=self.labels[draw.permutation(len(self.labels))])


def label_people(case: Case, attribute: str, folds: int) -> LabelledPeople:
    """Return the people of a case whose attribute the source knows, in this many folds of equal composition."""
    truth = case.truth
    values = truth.attributes[attribute]
    known = ~values.is_null().to_numpy(zero_copy_only=False)
    known &= (truth.row_of_user >= 0) & (np.diff(truth.ratings.indptr) > 0)
    people = case.in_drawn_order(np.flatnonzero(known), "attributes", attribute)
    code = values.indices.to_numpy(zero_copy_only=False)[people].astype(np.int64)
    # By the order of the values, not of the people.
    order = pc.rank(values.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
    _, labels = np.unique(order[code], return_inverse=True)
    classes = int(labels.max(initial=-1)) + 1
    place = np.zeros(len(people), np.int64)  # among the people of the class, in the drawn order
    for label in range(classes):
        own = labels == label
        place[own] = np.arange(own.sum())
    back = np.argsort(people, kind="stable")
    people, labels, place = people[back], labels[back], place[back]
    tested = np.flatnonzero(place < _sample_sizes(np.bincount(labels, minlength=classes))[labels])
    return LabelledPeople(attribute, people, labels, classes, place % folds, tested)


def _sample_sizes(counts: np.ndarray) -> np.ndarray:
    """Return how many of each class are tested: in proportion, and of a rare one at least half of an equal part."""
    total = max(1, int(counts.sum()))
    if total <= MOST_TESTED:
        return counts
    return np.maximum(counts * MOST_TESTED // total, np.minimum(counts, MOST_TESTED // (2 * len(counts))))
