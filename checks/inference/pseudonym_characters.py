"""Test whether pseudonym characters correlate with an attribute, without any assumption on how pseudonyms were made.

A character at some position of a pseudonym, or the class's own name somewhere in it, is counted in every class. If
pseudonyms and classes were independent, the counts would be draws without replacement; a cell that chance would fill so
once in a thousand million times reveals the class of every person in it.
"""

import numpy as np
import pyarrow as pa
from scipy.stats import hypergeom

PLACES = 64  # characters that are examined, from either end of a pseudonym
MOST_CHANCE = 1e-9  # tens of thousands of characters and classes are tested
MIN_DEVIATIONS = 5.0  # standard deviations; nearer to the expected count no cell is so unlikely


def count_revealed_classes(names: list[str], classes: pa.DictionaryArray) -> int:
    """Count the people whose class (null: not known) is revealed by a character of their pseudonym, beyond chance."""
    there = np.flatnonzero(classes.is_valid().to_numpy(zero_copy_only=False))
    label = classes.indices.take(pa.array(there)).to_numpy()
    known = [names[person] for person in there]
    revealed = np.zeros(len(there), bool)
    for character in _character_columns(known, classes.dictionary.to_pylist()):
        revealed |= _correlates(character, label, len(classes.dictionary))
    return int(revealed.sum())


def _character_columns(names: list[str], classes: list[str]) -> list[np.ndarray]:
    """Return what is examined in every pseudonym, as numbers: a column per position from either end, and one per class
    name."""
    ways = [names] if len({len(name) for name in names}) < 2 else [names, [name[::-1] for name in names]]
    columns = [
        column
        for way in ways
        for column in np.array(way, f"U{PLACES}").view(np.uint32).reshape(len(way), PLACES).T
    ]
    small = [name.lower() for name in names]
    columns += [np.array([some.lower() in name for name in small]) for some in classes]
    return [column for column in columns if len(column) and (column != column[0]).any()]


def _correlates(character: np.ndarray, label: np.ndarray, classes: int) -> np.ndarray:
    """Mark the people who have a character that correlates with their class."""
    _, which = np.unique(character, return_inverse=True)
    count = np.bincount(which * classes + label, minlength=(which.max() + 1) * classes).reshape(-1, classes)
    n, of_character, of_class = len(label), count.sum(axis=1, keepdims=True), count.sum(axis=0, keepdims=True)
    expected = of_character * of_class / n
    spread = np.sqrt(expected * (1 - of_character / n) * (1 - of_class / n) * n / max(n - 1, 1))
    correlates = np.zeros(count.shape, bool)
    for row, column in np.argwhere(count - expected > MIN_DEVIATIONS * spread):
        unlikely = hypergeom.sf(count[row, column] - 1, n, of_character[row, 0], of_class[0, column])
        correlates[row, column] = unlikely < MOST_CHANCE
    return correlates[which, label]
