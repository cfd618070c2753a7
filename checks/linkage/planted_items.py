"""The second positive control: raw data in which every target has one item that nobody else has.

Where the raw data themselves resist an attack (everybody rated nearly everything, or rare items are gone), a low figure
on the release could come from the data or from a broken attack. One item of one's own is enough for any attack that
works: whoever does not find it finds nothing.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from checks.case import Case
from checks.linkage.knowledge import Model
from checks.raw import RawRelease
from checks.shadow import part_of, some_people

FOUND = 0.9  # share of the targets that must be found by an item of their own


def planted(raw: Case, targets: np.ndarray) -> tuple[Case, np.ndarray]:
    """The raw data (of some people, where there are very many) with an item more for each of the targets, rated as high
    as can be; and where the targets are there."""
    people = some_people(raw.truth, targets)
    rows = np.searchsorted(people, targets)
    truth = part_of(raw.truth, people, np.arange(len(people), dtype=np.int32))
    own = np.arange(len(targets))
    values = np.full(len(targets), raw.release.high, dtype=np.float32)
    items = sp.csr_array((values, (rows, own)), shape=(truth.users, len(targets)))
    ratings = sp.csr_array(sp.hstack([truth.ratings, items], format="csr"))
    ratings.sort_indices()
    raters = np.concatenate([truth.raters, np.ones(len(targets), dtype=truth.raters.dtype)])
    more = replace(truth, ratings=ratings, raters=raters, days=None)
    release = RawRelease(more, low=raw.release.low, high=raw.release.high, k=raw.release.k)
    return replace(raw, release=release, given_truth=more), rows


def knowing_it(control: Model) -> Model:
    """As much as the control knows, the planted item included: nothing is rarer."""
    return Model(max(1, control.size), "rare", control.error)
