"""Split the ratings: what the shadow run is made from, and what is held out of it.

10 % of the ratings are set aside before anything is fitted ([Chang2009], section 7): all ratings of some users, who are
absent from the shadow run, and single ratings of the others. Utility is measured on the single ratings. The absent
users are the only ones whom an attack on the shadow's release must not find (docs/leaks-and-bars.md).

A verdict must not hang on the luck of one draw: where the absent users of one shadow run are few, there are several
runs, each without other people, and the gate pools what they show.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from tasks.data.public_prior import copy_prior
from tasks.data.ratings import Ratings, write_attributes, write_ids, write_matrix

HELD_OUT_SHARE = 0.1
MOST_USERS = 50_000  # of a larger source a sample of users is enough
ABSENT_SHARE = 0.05  # of the users: about half of what is held out, the other half measures utility
MOST_ABSENT = 500
MOST_ABSENT_RATINGS = 0.075  # of all ratings; reached only where a few users gave most of them
# Absent people over all draws: with 200, an advantage of 0.25 is known to ± 0.07, and 1/k + 1/4 is allowed.
ENOUGH_ABSENT = 200
MOST_DRAWS = 4
# With fewer users, half of what is held out is too little to measure utility: no user is absent.
FEWEST_USERS = 500
RATINGS_PER_BLOCK = 1_000_000
# Purpose of a run that only measures utility: no user is absent, a paper's plain 90/10 split.
STUDY_PURPOSE = "study"

Rng = Callable[..., np.random.Generator]


@dataclass(frozen=True)
class Split:
    """Hold who is in the shadow run and who is absent, and the ratings held out of the former.

    `present` and `absent` are rows of the ingested ratings; `held_out` is (row in `present`, item, rating).
    """

    present: np.ndarray
    absent: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray]
    sampled: bool  # whether the source has more users than MOST_USERS


def number_of_draws(users: int, fewest_present: int) -> int:
    """Return how many shadow runs are needed for enough absent people; a further one is no use without any."""
    absent = _number_absent(users, fewest_present)
    return min(MOST_DRAWS, -(-ENOUGH_ABSENT // absent)) if absent > 0 and users <= MOST_USERS else 1


def split_ratings(
    ratings: Ratings, out: Path, rng: Rng, *, fewest_present: int, leave_users_out: bool, draw_number: int = 1
) -> Split:
    """Draw what is held out, and write the ratings of the shadow run to `out`; every draw leaves out other people."""
    rated = ratings.by_user.counts()
    present, absent, share = choose_users(
        rated, rng, fewest_present=fewest_present, leave_users_out=leave_users_out, draw_number=draw_number
    )
    block = np.cumsum(rated[present]) // RATINGS_PER_BLOCK
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(present)]
    draw = rng("held out") if draw_number == 1 else rng("held out", draw_number)
    kept, held_out = [], []
    for start, stop in pairwise(edges):
        some = ratings.by_user.take(present[start:stop])
        aside = draw.random(some.nnz) < share
        row = np.repeat(np.arange(start, stop), np.diff(some.indptr))
        kept_counts = np.bincount(row[~aside] - start, minlength=stop - start)
        kept.append((kept_counts, some.indices[~aside], some.data[~aside]))
        held_out.append((row[aside], some.indices[aside], some.data[aside]))
    lengths, indices, values = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    _write(out, ratings, present, sp.csr_array((values, indices, indptr), (len(present), ratings.n_items)))
    user, item, rating = (np.concatenate(parts) for parts in zip(*held_out, strict=True))
    return Split(present, absent, (user, item, rating), sampled=len(rated) > MOST_USERS)


def choose_users(
    rated: np.ndarray, rng: Rng, *, fewest_present: int, leave_users_out: bool, draw_number: int = 1
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return who is in the shadow run, who is absent, and the share of the former's ratings to hold out.

    `rated` is the number of ratings of each user. Fewer than `fewest_present` users could not form the groups.
    """
    users = len(rated)
    if users > MOST_USERS:  # users outside the sample are absent anyway
        order = rng("users").permutation(users)
        present, absent = order[:MOST_USERS], order[MOST_USERS : MOST_USERS + MOST_ABSENT]
        return np.sort(present), np.sort(absent), HELD_OUT_SHARE
    most = _number_absent(users, fewest_present)
    if most == 0 or not leave_users_out:
        return np.arange(users), np.empty(0, np.int64), HELD_OUT_SHARE
    total = int(rated.sum())
    chosen = rng("absent").permutation(users)[(draw_number - 1) * most : draw_number * most]
    # In the order of their ratings: if all together gave too many, the users with the most stay in.
    chosen = chosen[np.argsort(rated[chosen], kind="stable")]
    absent = np.sort(chosen[np.cumsum(rated[chosen]) <= MOST_ABSENT_RATINGS * total])
    gone = int(rated[absent].sum())
    present = np.delete(np.arange(users), absent)
    return present, absent, (HELD_OUT_SHARE * total - gone) / (total - gone)


def _number_absent(users: int, fewest_present: int) -> int:
    """Return how many users a shadow run of all of them is made without; 0 where nobody can be spared."""
    most = min(int(ABSENT_SHARE * users), MOST_ABSENT)
    return 0 if users < FEWEST_USERS or users - most < fewest_present else most


def _write(out: Path, ratings: Ratings, present: np.ndarray, kept: sp.csr_array) -> None:
    out.mkdir(parents=True)
    write_ids(out, "user", [str(number) for number in range(len(present))])  # source ids are not needed here
    write_ids(out, "item", ratings.item_ids())
    known = {name: values.take(pa.array(present)) for name, values in ratings.attributes().items()}
    if known:
        write_attributes(out, known)
    write_matrix(out, kept)
    copy_prior(ratings, out)
