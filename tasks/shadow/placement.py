"""Relate the users and items of the shadow's ratings to the records and columns of its release.

They differ where a step left items out of the release, and users with them. What a release leaves out, its shadow
leaves out, too, whatever the method would choose for the shadow's ratings: the gate compares the two item by item.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.data.item_removal import write_without
from tasks.data.ratings import Ratings, places


@dataclass(frozen=True)
class Placement:
    """Hold the record of each user and the column of each item in the shadow's release; −1: left out of it."""

    record_of_user: np.ndarray
    column_of_item: np.ndarray

    @classmethod
    def find(cls, ratings: Ratings, released: Ratings, labels: np.ndarray) -> "Placement":
        """Match users and items by their ids; `labels` are the records of the users of the released ratings."""
        user = places(ratings.user_ids(), released.user_ids())
        record = np.where(user >= 0, labels[user], -1)
        return cls(record, places(_item_ids(ratings), _item_ids(released)))

    @property
    def published_items(self) -> np.ndarray | None:
        """Return which items are published; None: all of them."""
        column = self.column_of_item
        return np.flatnonzero(column >= 0) if (column < 0).any() else None


def withhold_same_items(ratings: Ratings, released: Ratings, out: Path) -> None:
    """Write ratings without the items that are missing in the released ratings."""
    out.mkdir()
    write_without(ratings, places(_item_ids(ratings), _item_ids(released)) >= 0, out)


def _item_ids(ratings: Ratings) -> pa.Array:
    return pa.array(ratings.item_ids(), pa.string())
