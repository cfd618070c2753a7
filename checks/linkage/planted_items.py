"""Build the second positive control: raw data in which every target has one item that no other person has.

Where the raw data themselves resist an attack (almost every person rated almost everything, or rare items are gone), a
low figure on the release could come from the data or from a broken attack. One item of one's own is enough for any
attack that works: an attack that does not find it finds nothing.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.views.raw import RawRelease
from checks.evidence.views.shadow import control_crowd, select_people
from checks.linkage.knowledge import Model

MIN_FOUND_SHARE = 0.9  # share of the targets that must be found by an item of their own


def with_planted_items(raw: Case, targets: np.ndarray) -> tuple[Case, np.ndarray]:
    """Return the raw data (of some people, where there are very many) with one further item for each target, rated as
    high as possible; and the rows of the targets in them."""
    people = control_crowd(raw.truth, targets)
    rows = np.searchsorted(people, targets)
    truth = select_people(raw.truth, people, np.arange(len(people), dtype=np.int32))
    own = np.arange(len(targets))
    values = np.full(len(targets), raw.release.high, dtype=np.float32)
    items = sp.csr_array((values, (rows, own)), shape=(truth.users, len(targets)))
    ratings = sp.csr_array(sp.hstack([truth.ratings, items], format="csr"))
    ratings.sort_indices()
    raters = np.concatenate([truth.raters, np.ones(len(targets), dtype=truth.raters.dtype)])
    more = replace(truth, ratings=ratings, raters=raters, days=None)
    release = RawRelease(more, low=raw.release.low, high=raw.release.high, k=raw.release.k)
    return raw.with_release(release, more), rows


def knowing_planted_item(control: Model) -> Model:
    """Return as much knowledge as the control has, the planted item included: no item is rarer."""
    return Model(max(1, control.size), "rare", control.error)
