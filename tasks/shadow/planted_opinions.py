"""Choose opinions to attack with sybils, and plant the accounts: each opinion's item is left with one real rater.

An attacker who wants to know what the one rater of an item thought of it makes up the other accounts that an item needs
to enter the model. Here one real rating of each chosen item is kept and all others are hidden, in this run only, so
that the attack can be measured on any data. The rarest items come first: they are the ones attacked, and hiding their
ratings changes the data least. Where that does not give enough opinions, single ratings of other items are moved to
columns of their own.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

# An area of 0.60 must be shown to be below 0.65 (docs/threat-model.md): its standard error is 0.023 with 600 opinions,
# half of them likes.
FEWEST_OPINIONS, MOST_OPINIONS = 600, 1_000
# Data with fewer ratings or items are not attacked: the opinions would be more than a twentieth of all ratings.
FEWEST_RATINGS = 20 * FEWEST_OPINIONS
FEWEST_ITEMS = 60
MOST_OPINIONS_SHARE = 0.05  # of all ratings
MOST_HIDDEN_SHARE = 0.02
ITEMS_PER_TEAM = 200  # rated by one team of accounts, so that no account is an unusually heavy rater
MOST_CAMOUFLAGE = 50  # popular items that an account rates to look like other users
SAME = 1e-6  # ratings nearer than this to the person's mean are neither a like nor a dislike


@dataclass(frozen=True)
class Entries:
    """Hold the ratings of a matrix as parallel arrays, with the mean of the other ratings of whoever gave each."""

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    usual: np.ndarray

    @classmethod
    def of(cls, matrix: sp.csr_array) -> "Entries":
        """List the ratings of users (rows) for items."""
        counts = np.diff(matrix.indptr)
        user = np.repeat(np.arange(matrix.shape[0]), counts)
        sums = np.bincount(user, weights=matrix.data, minlength=len(counts))
        usual = (sums[user] - matrix.data) / np.maximum(counts[user] - 1, 1)
        return cls(
            user,
            matrix.indices,
            matrix.data,
            np.where(counts[user] > 1, usual, matrix.data.mean(dtype=float)),
        )

    @property
    def liked(self) -> np.ndarray:
        """Return which ratings are above the mean of the person's other ratings."""
        return self.rating > self.usual

    @property
    def clear(self) -> np.ndarray:
        """Return which ratings are a like or a dislike."""
        return np.abs(self.rating - self.usual) > SAME


@dataclass(frozen=True)
class Chosen:
    """Hold the chosen ratings (places among the entries) and their columns; columns from n_items on are added."""

    place: np.ndarray
    column: np.ndarray
    n_columns: int


def is_attackable(n_items: int, n_ratings: int) -> bool:
    """Test whether enough opinions can be planted; smaller data are not judged, and the check says so."""
    return n_items >= FEWEST_ITEMS and n_ratings >= FEWEST_RATINGS


def choose_opinions(entries: Entries, n_items: int, draw: np.random.Generator) -> Chosen:
    """Choose one rating of each of the rarest items, then single ratings of others; likes and dislikes in balance."""
    total, raters = len(entries.item), np.bincount(entries.item, minlength=n_items)
    order = np.lexsort((draw.random(n_items), raters))
    order = order[raters[order] > 0]
    hidden = np.cumsum(raters[order] - 1)
    most = min(MOST_OPINIONS, int(MOST_OPINIONS_SHARE * total))
    rare = order[: min(most, int(np.searchsorted(hidden, MOST_HIDDEN_SHARE * total, side="right")))]
    kept = _one_of_each(entries, rare, n_items, draw)
    moved = _others(entries, kept, rare, max(0, FEWEST_OPINIONS - len(kept)), draw)
    column = np.concatenate([entries.item[kept], n_items + np.arange(len(moved))])
    return Chosen(np.concatenate([kept, moved]), column, n_items + len(moved))


def _one_of_each(entries: Entries, items: np.ndarray, n_items: int, draw: np.random.Generator) -> np.ndarray:
    """Return one clear rating of each of these items, a like for half of them where they have both."""
    wanted = np.zeros(n_items, dtype=bool)
    wanted[items] = True
    place = np.flatnonzero(wanted[entries.item] & entries.clear)
    preferred = draw.random(n_items) < 0.5
    other = entries.liked[place] != preferred[entries.item[place]]
    place = place[np.lexsort((draw.random(len(place)), other, entries.item[place]))]
    return place[np.append(True, np.diff(entries.item[place]) > 0)] if len(place) else place


def _others(
    entries: Entries, kept: np.ndarray, rare: np.ndarray, count: int, draw: np.random.Generator
) -> np.ndarray:
    """Return further clear ratings, of items that are not rare, so many of each kind that likes are about half."""
    free = entries.clear & ~np.isin(entries.item, rare)
    likes = int(np.clip((len(kept) + count) // 2 - entries.liked[kept].sum(), 0, count))
    chosen = []
    for kind, number in ((entries.liked, likes), (~entries.liked, count - likes)):
        place = np.flatnonzero(free & kind)
        chosen.append(draw.choice(place, min(number, len(place)), replace=False))
    return np.sort(np.concatenate(chosen))


def plant_accounts(
    entries: Entries, chosen: Chosen, n_users: int, accounts: int, middle: float, draw: np.random.Generator
) -> sp.csr_array:
    """Return the ratings with only the chosen ones left in the chosen columns, and teams of `accounts` accounts that
    rate these columns with the middle of the scale and popular items with their means."""
    planted_column = np.zeros(chosen.n_columns, dtype=bool)
    planted_column[chosen.column] = True
    column = entries.item.astype(np.int64)
    column[chosen.place] = chosen.column
    stays = ~planted_column[column]
    stays[chosen.place] = True
    real = (entries.user[stays], column[stays], entries.rating[stays])
    teams = -(-len(chosen.column) // ITEMS_PER_TEAM)
    team = draw.permutation(len(chosen.column)) % teams
    popular, means = _popular(entries, column, ~planted_column, n_users)
    made_up = [
        np.concatenate([np.repeat(team, accounts), np.repeat(np.arange(teams), len(popular) * accounts)]),
        np.concatenate([np.repeat(chosen.column, accounts), np.tile(np.repeat(popular, accounts), teams)]),
        np.concatenate([np.full(len(team) * accounts, middle), np.tile(np.repeat(means, accounts), teams)]),
    ]
    member = np.tile(np.arange(accounts), len(made_up[0]) // max(accounts, 1))
    made_up[0] = n_users + made_up[0] * accounts + member
    user, item, rating = (np.concatenate([one, other]) for one, other in zip(real, made_up, strict=True))
    shape = (n_users + teams * accounts, chosen.n_columns)
    matrix = sp.csr_array((rating.astype(np.float32), (user, item)), shape=shape)
    matrix.sort_indices()
    return matrix


def _popular(
    entries: Entries, column: np.ndarray, allowed: np.ndarray, n_users: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the most rated items, as many as a usual person rated, and their mean ratings."""
    usual = int(np.median(np.bincount(entries.user, minlength=n_users)))
    count = np.where(allowed, np.bincount(column, minlength=len(allowed)), 0)
    total = np.bincount(column, weights=entries.rating, minlength=len(allowed))
    popular = np.argsort(-count, kind="stable")[: min(MOST_CAMOUFLAGE, max(usual, 1), int((count > 0).sum()))]
    return popular, total[popular] / count[popular]
