"""Whether names tell a class of the people who bear them, without any idea of how a name was made.

A sign at some place of a name, or the class itself somewhere in it, is counted in every class. Were names and classes
strangers, the counts would be draws without replacement; a cell that chance would fill so once in a thousand million
times tells the class of everybody in it.
"""

import numpy as np
import pyarrow as pa
from scipy.stats import hypergeom

PLACES = 64  # signs that are looked at, from either end of a name
SURE = 1e-9  # ten thousands of signs and classes are tried
WORTH_A_LOOK = 5.0  # standard deviations; nearer to what is expected no cell is so unlikely


def told_by_signs(names: list[str], classes: pa.DictionaryArray) -> int:
    """People whose class (null: not known) can be told from a sign of their name, beyond chance."""
    there = np.flatnonzero(classes.is_valid().to_numpy(zero_copy_only=False))
    label = classes.indices.take(pa.array(there)).to_numpy()
    known = [names[person] for person in there]
    told = np.zeros(len(there), bool)
    for sign in _signs(known, classes.dictionary.to_pylist()):
        told |= _tells(sign, label, len(classes.dictionary))
    return int(told.sum())


def _signs(names: list[str], classes: list[str]) -> list[np.ndarray]:
    """What is looked at in every name, as numbers: a column per place from either end, and one per class."""
    ways = [names] if len({len(name) for name in names}) < 2 else [names, [name[::-1] for name in names]]
    columns = [
        column
        for way in ways
        for column in np.array(way, f"U{PLACES}").view(np.uint32).reshape(len(way), PLACES).T
    ]
    small = [name.lower() for name in names]
    columns += [np.array([some.lower() in name for name in small]) for some in classes]
    return [column for column in columns if len(column) and (column != column[0]).any()]


def _tells(sign: np.ndarray, label: np.ndarray, classes: int) -> np.ndarray:
    """Who has a sign that goes with their class."""
    _, which = np.unique(sign, return_inverse=True)
    count = np.bincount(which * classes + label, minlength=(which.max() + 1) * classes).reshape(-1, classes)
    n, of_sign, of_class = len(label), count.sum(axis=1, keepdims=True), count.sum(axis=0, keepdims=True)
    expected = of_sign * of_class / n
    spread = np.sqrt(expected * (1 - of_sign / n) * (1 - of_class / n) * n / max(n - 1, 1))
    tells = np.zeros(count.shape, bool)
    for row, column in np.argwhere(count - expected > WORTH_A_LOOK * spread):
        unlikely = hypergeom.sf(count[row, column] - 1, n, of_sign[row, 0], of_class[0, column])
        tells[row, column] = unlikely < SURE
    return tells[which, label]
