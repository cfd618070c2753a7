"""The recovery attack (SCIENCE P0): can real ratings be told from padded ones, and read off?

A release of predictions is low rank; one true rating inside a group's mean is not. The attacker fits the
release with a robust low-rank model (and with plain item means) and looks at what is left over: *links*,
the cells with the largest residual × group size (of all, of those in doubt, of rare items), should hold a
real rating no more often than the popularity of their items and the activity of their groups explain;
*ratings* of cells with a single contributor, recovered as fit + h · (value − fit), should be right no more
often than what the rest of the release tells about them. Both gains are shares of the room above their
baseline. (That a group rates much or little shows in its profile and is not judged here: it is true of at
least k people together. Without it in the baseline, a few busy groups would pass for recovered ratings.)

The positive control is the same attack on this very release with the observed ratings put back into the
means, as the paper's algorithm 1 has it; where groups are so large that rounding hides even that, with them
put in verbatim.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from checks.case import Case, cell_keys
from checks.chance import CERTAIN, Chance
from checks.lowrank import Fit, Table, Tables, robust_fit
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk

RANKS = (0, 8, 20, 40, 80)
BASELINE_RANKS = (8, 20)
CONTROL_RANK = 20
HEADS = ((0.002, 500, 1_000), (0.01, 1_000, 50_000))  # flags: share of the cells, at least, at most
LARGEST_SHARE = 0.05
RARE_SHARE = 0.05
LEAST_ROOM = 30.0  # expected misses of the baseline below which a gain would be noise
EDGE_SHARE = 0.075  # of the scale at each end, where clipping looks like a residual


@dataclass(frozen=True)
class Gain:
    """A success rate of the attack beside the baseline's."""

    kind: str
    how: str
    risk: Risk

    def __str__(self) -> str:
        figures = f"{self.risk.rate:.3f} against {self.risk.baseline:.3f}, gain {self.risk.gain:+.3f}"
        return f"{self.kind} ({self.how}) {figures}"


@check("recovery", threshold=0.5, controlled=True)
def run(case: Case, threshold: float) -> Finding:
    """Largest gain over the baselines, links and ratings, over all fits (upper bound)."""
    chance = Chance.fitted(case)
    gains = attack(case, _as_published(case), chance)
    judged = _judged(gains, chance)
    if not judged:
        nothing = "the release has too few cells to be attacked: nothing is shown about it."
        return Finding(False, None, 0, nothing, outcomes=(Outcome("the release alone", Risk(0, 0)),))
    worst = max(judged, key=lambda gain: gain.risk.gain_interval[1])
    low, high = worst.risk.gain_interval
    alive, control = _control(case, chance, threshold)
    kinds = ("links", "links in doubt", "rare links", "ratings")
    best = [
        max((g for g in gains if g.kind == kind), key=lambda g: g.risk.gain, default=None) for kind in kinds
    ]
    said = "; ".join(f"{gain}{'' if gain in judged else ' (not judged)'}" for gain in best if gain)
    if chance.overall > CERTAIN:
        said += f". Links are not judged: {chance.overall:.1%} of the published cells are real anyway"
    return Finding(
        high <= threshold,
        worst.risk.gain,
        worst.risk.n,
        f"largest gain: {worst}. Best of each kind: {said}. Control: {control}.",
        ci_low=low,
        ci_high=high,
        control=alive,
        outcomes=tuple(Outcome(f"{gain.kind}, {gain.how}", gain.risk) for gain in best if gain),
    )


def _judged(gains: list[Gain], chance: Chance) -> list[Gain]:
    """Links count where a release hides them among others.

    Where nearly every published cell is real, link-existence judges what the items of a group tell; the few
    added cells would be the whole room for a gain here.
    """
    return [gain for gain in gains if gain.kind == "ratings" or chance.overall <= CERTAIN]


def attack(case: Case, tables: Tables, chance: Chance, ranks: tuple[int, ...] = RANKS) -> list[Gain]:
    """All gains of the attack on a release given as tables."""
    shape = (case.release.n_groups, case.release.n_items)
    sole = _SoleRatings.of(case, tables)
    if len(sole.truth) == case.release.cells:
        ranks = (0,)  # every value is one person's: no fit tells more than reading it
    most = min(shape) // 2  # beyond it the fit has so many directions that nothing is left over
    gains = []
    for rank in sorted({min(rank, most) for rank in ranks}):
        fit = robust_fit(tables, shape, rank, case.release.step)
        name = f"by rank {rank}" if rank else "by item means"
        gains += _links(case, tables, fit, name, chance) + sole.gains(fit, name)
    return gains


def _as_published(case: Case) -> Tables:
    return lambda: ((block.start, block.table()) for block in case.release.blocks())


# Links


def _links(case: Case, tables: Tables, fit: Fit, name: str, chance: Chance) -> list[Gain]:
    """Precision of the cells with the largest residuals, against what item and group explain."""
    gains = []
    some, rare = chance.share < 1, chance.share <= RARE_SHARE
    for kind, wanted, doubt in (
        ("links", some, False),
        ("links in doubt", some, True),
        ("rare links", rare, True),
    ):
        among = int(chance.open_cells[wanted].sum()) if doubt else case.release.cells
        sizes = [
            int(min(max(share * among, least), most, LARGEST_SHARE * among)) for share, least, most in HEADS
        ]
        flags = _largest(case, tables, fit, max(sizes), wanted, chance if doubt else None)
        for keys in (flags[:size] for size in sizes):
            expected = float(chance.of(keys).sum())
            if len(keys) - expected >= LEAST_ROOM:
                risk = Risk(int(_is_real(case, keys).sum()), len(keys), expected / len(keys))
                gains.append(Gain(kind, f"{name}, {len(keys):,} flags", risk))
    return gains


def _largest(
    case: Case, tables: Tables, fit: Fit, size: int, wanted: np.ndarray, doubt: Chance | None
) -> np.ndarray:
    """Keys (group · items + item) of the `size` cells with the largest residual × group size.

    Of the wanted items only, and with `doubt` only where a real rating is not nearly certain anyway.
    """
    low, high = case.release.low, case.release.high
    edge = EDGE_SHARE * (high - low)
    keys, scores = np.empty(0, np.int64), np.empty(0, np.float32)
    if size == 0:
        return keys
    for start, table in tables():
        fitted = fit.rows(start, len(table))
        score = np.abs(table - fitted) * case.members[start : start + len(table), None].astype(np.float32)
        inside = (np.abs(table - (low + high) / 2) <= (high - low) / 2 - edge) & wanted  # NaN is outside
        if doubt:
            inside &= doubt.in_doubt(start, len(table))
        inside &= np.abs(fitted - (low + high) / 2) <= (high - low) / 2 - edge * 2 / 3
        place = np.flatnonzero(inside)
        score = score.ravel()[place]
        if len(place) > size:
            best = np.argpartition(-score, size - 1)[:size]
            place, score = place[best], score[best]
        keys = np.concatenate([keys, place + start * case.release.n_items])
        scores = np.concatenate([scores, score])
        order = np.lexsort((keys, -scores))[:size]
        keys, scores = keys[order], scores[order]
    return keys


def _is_real(case: Case, keys: np.ndarray) -> np.ndarray:
    known = cell_keys(case.contributors)
    place = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
    return known[place] == keys if len(known) else np.zeros(len(keys), dtype=bool)


# Ratings


@dataclass(frozen=True)
class _SoleRatings:
    """Published cells with a single contributor: their values, the true ratings, and how well these can be
    guessed."""

    case: Case
    groups: np.ndarray
    items: np.ndarray
    values: np.ndarray
    truth: np.ndarray
    baseline: float

    @classmethod
    def of(cls, case: Case, tables: Tables) -> "_SoleRatings":
        """Collect the cells; the baseline is the better of item means and a fit from which they were
        hidden."""
        cells = _sole_cells(case)
        groups = np.repeat(np.arange(case.release.n_groups), np.diff(case.contributors.indptr))[cells]
        items, truth = case.contributors.indices[cells], case.rating_sums.data[cells]
        sole = cls(case, groups, items, _values_at(tables, groups, items), truth, 0.0)
        if not len(cells):
            return sole
        shape = (case.release.n_groups, case.release.n_items)
        rates = [sole._right(guess) for guess in _guesses(case, cells)]
        for rank in BASELINE_RANKS if len(cells) < case.release.cells else ():  # is there a rest to fit?
            fit = robust_fit(
                _hidden(tables, groups, items), shape, min(rank, min(shape) // 2), case.release.step
            )
            rates.append(sole._right(fit.cells(groups, items)))
        return replace(sole, baseline=max(rates) / len(cells))

    def gains(self, fit: Fit, name: str) -> list[Gain]:
        """The best of three readings: the value as it is, averaged with one prediction, averaged over the
        group."""
        if len(self.truth) * (1 - self.baseline) < LEAST_ROOM:
            return []
        fitted = fit.cells(self.groups, self.items)
        rest = self.values - fitted
        hits = max(self._right(fitted + h * rest) for h in (1, 2, self.case.members[self.groups]))
        return [
            Gain(
                "ratings",
                f"{name}, {len(self.truth):,} sole ones",
                Risk(hits, len(self.truth), self.baseline),
            )
        ]

    def _right(self, guess: np.ndarray) -> int:
        inside = np.clip(guess, self.case.release.low, self.case.release.high)
        return int((np.abs(inside - self.truth) <= self.case.truth.half_level + 1e-4).sum())


def _sole_cells(case: Case) -> np.ndarray:
    return np.flatnonzero((case.contributors.data == 1) & ~np.isnan(case.published))


def _values_at(tables: Tables, groups: np.ndarray, items: np.ndarray) -> np.ndarray:
    values = np.empty(len(groups), dtype=np.float32)
    for start, table in tables():
        part = slice(*np.searchsorted(groups, [start, start + len(table)]))
        values[part] = table[groups[part] - start, items[part]]
    return values


def _hidden(tables: Tables, groups: np.ndarray, items: np.ndarray) -> Tables:
    """The release without these cells: what is left tells what could be guessed about them anyway."""

    def without() -> Iterator[Table]:
        for start, table in tables():
            part = slice(*np.searchsorted(groups, [start, start + len(table)]))
            table = table.copy()
            table[groups[part] - start, items[part]] = np.nan
            yield start, table

    return without


def _guesses(case: Case, cells: np.ndarray) -> list[np.ndarray]:
    """What everybody else's ratings, and the contributor's other ratings, tell about each of these cells."""
    ratings = case.truth.ratings
    who = np.empty(case.contributors.nnz, dtype=np.int64)
    who[case.cell_of_rating] = case.rating_rows[
        case.listed_ratings
    ]  # one contributor: no doubt about whose it is
    users, items, truth = who[cells], case.contributors.indices[cells], case.rating_sums.data[cells]
    overall = float(ratings.data.mean())
    item = _mean_without(
        ratings.indices, ratings.data - overall, items, truth - overall, case.release.n_items
    )
    user = _mean_without(case.rating_rows, ratings.data - overall, users, truth - overall, case.truth.users)
    return [overall + item, overall + item + user]


def _mean_without(
    owner: np.ndarray, values: np.ndarray, wanted: np.ndarray, own: np.ndarray, size: int
) -> np.ndarray:
    """Mean of each wanted owner's values without one of them; 0 where nothing else is left."""
    count = np.bincount(owner, minlength=size)[wanted] - 1
    total = np.bincount(owner, weights=values, minlength=size)[wanted] - own
    return np.where(count > 0, total / np.maximum(count, 1), 0.0)


# Control


def _control(case: Case, chance: Chance, threshold: float) -> tuple[bool, str]:
    """Is the attack able to find real ratings in data like these?"""
    gains = _judged(attack(case, _planted(case, verbatim=False), chance, (CONTROL_RANK,)), chance)
    best = max(gains, key=lambda gain: gain.risk.gain_interval[0], default=None)
    if best and best.risk.gain_interval[0] > threshold:
        return True, f"with observed ratings kept in the means it succeeds: {best}"
    gains = _judged(attack(case, _planted(case, verbatim=True), chance, (0,)), chance)
    plain = max(gains, key=lambda gain: gain.risk.gain_interval[0], default=None)
    hidden = f"observed ratings kept in the means cannot be told here ({best or 'no cells'})"
    if plain and plain.risk.gain_interval[0] > threshold:
        return True, f"{hidden}, ratings published as they are can: {plain}"
    return False, f"{hidden}, nor can ratings published as they are ({plain or 'no cells'})"


def _planted(case: Case, *, verbatim: bool) -> Tables:
    """This release with the members' real ratings put into its cells: into the group's mean, or as they
    are."""
    release, counts, sums = case.release, case.contributors, case.rating_sums

    def tables() -> Iterator[Table]:
        for block in release.blocks():
            table = block.table().copy()
            part = slice(counts.indptr[block.start], counts.indptr[block.start + block.rows])
            lengths = np.diff(counts.indptr[block.start : block.start + block.rows + 1])
            rows, items = np.repeat(np.arange(block.rows), lengths), counts.indices[part]
            number, total = counts.data[part], sums.data[part]
            before = table[rows, items]
            share = number if verbatim else case.members[block.start + rows]
            table[rows, items] = before + (total - number * before) / np.maximum(share, 1)
            if release.step:
                table = release.low + np.rint((table - release.low) / release.step) * np.float32(release.step)
            yield block.start, table.astype(np.float32)

    return tables
