"""Run the recovery attack (docs/leaks-and-bars.md): can real ratings be distinguished from padded ones, and be read?

A release of predictions is low rank; one true rating inside a group's mean is not. The attacker fits the release with a
robust low-rank model (and with plain item means) and examines the residuals: *links*, the cells with the largest
residual × group size (of all, of those in doubt, of rare items), should hold a real rating no more often than the
popularity of their items and the activity of their groups explain; *ratings* of cells with a single contributor,
recovered as fit + h · (value − fit), should be right no more often than the rest of the release predicts them. Both
gains are shares of the room above their baseline. (That a group rates much or little shows in its profile and is not
judged here: it is true of at least k people together. Without it in the baseline, a few busy groups would look like
recovered ratings.)

The positive control is the same attack on this very release with the observed ratings put back into the means, as in
[Chang2009], algorithm 1; where groups are so large that rounding hides even that, with them put in verbatim.

A dozen fits of a large release would take hours: there a sample of its groups is fitted
(checks/evidence/views/sample.py). Flags are a tail, and a leak in few groups would miss the sample: so every group of
the release is then compared with the items' factors, and the flags are the release's. Ratings are a share of all sole
ones, and the control is about the attack: for both the sample is enough.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from checks.evidence.case import Case
from checks.evidence.views.sample import sampled
from checks.recovery.cell_baseline import CERTAIN, CellBaseline
from checks.recovery.low_rank_fit import Fit, Table, Tables, robust_fit
from checks.recovery.outlying_cells import CellFilter, Fitted, largest_residuals
from checks.recovery.real_cells import RealCells, hold_real_ratings
from checks.recovery.whole_release_baseline import extend_to_all_groups
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk

RANKS = (0, 8, 20, 40, 80)
BASELINE_RANKS = (8, 20)
CONTROL_RANK = 20
HEADS = ((0.002, 500, 1_000), (0.01, 1_000, 50_000))  # flags: share of the cells, at least, at most
LARGEST_SHARE = 0.05
RARE_SHARE = 0.05
LINKS = ("links", "links in doubt", "rare links")
LEAST_ROOM = 30.0  # expected misses of the baseline below which a gain would be noise


@dataclass(frozen=True)
class Gain:
    """Hold a success rate of the attack beside the baseline's."""

    kind: str
    how: str
    risk: Risk

    def __str__(self) -> str:
        figures = f"{self.risk.rate:.3f} against {self.risk.baseline:.3f}, gain {self.risk.gain:+.3f}"
        return f"{self.kind} ({self.how}) {figures}"


@check("recovery", threshold=0.5, controlled=True)
def run(case: Case, threshold: float) -> Finding:
    """Measure the largest gain over the baselines, links and ratings, over all fits (upper bound)."""
    part = sampled(case, "recovery")
    cells = RealCells.of(part)
    chance = CellBaseline.fitted(part, cells)
    published = _held(_tables(part))
    whole = None
    if part is not case and chance.overall <= CERTAIN:
        whole = WholeRelease(case, extend_to_all_groups(case, chance))
    gains = attack(part, cells, published, chance, whole=whole)
    judged = _judged(gains, chance)
    if not judged:
        nothing = "the release has too few cells to attack: nothing is shown about it."
        return Finding(False, None, 0, nothing, outcomes=(Outcome("the release alone", Risk(0, 0)),))
    worst = max(judged, key=lambda gain: gain.risk.gain_interval[1])
    low, high = worst.risk.gain_interval
    control_succeeded, control_text = _control(part, cells, published, chance, threshold)
    kinds = (*LINKS, "ratings")
    best = [
        max((g for g in gains if g.kind == kind), key=lambda g: g.risk.gain, default=None) for kind in kinds
    ]
    gains_text = "; ".join(f"{gain}{'' if gain in judged else ' (not judged)'}" for gain in best if gain)
    if chance.overall > CERTAIN:
        gains_text += f". Links are not judged: {chance.overall:.1%} of the published cells are real anyway"
    return Finding(
        high <= threshold,
        worst.risk.gain,
        worst.risk.n,
        f"largest gain: {worst}. Best of each kind: {gains_text}. Control: {control_text}."
        f"{_sample_text(part, case, whole)}",
        ci_low=low,
        ci_high=high,
        control=control_succeeded,
        outcomes=tuple(Outcome(f"{gain.kind}, {gain.how}", gain.risk) for gain in best if gain),
    )


def _judged(gains: list[Gain], chance: CellBaseline) -> list[Gain]:
    """Return the gains that count; links count where a release hides them among others.

    Where nearly every published cell is real, link-existence judges what the items of a group reveal; the few added
    cells would be the whole room for a gain here.
    """
    return [gain for gain in gains if gain.kind == "ratings" or chance.overall <= CERTAIN]


@dataclass(frozen=True)
class WholeRelease:
    """Hold the release of which the attacked one is a sample, and how often its cells are real anyway."""

    case: Case
    chance: CellBaseline


def _sample_text(part: Case, case: Case, whole: WholeRelease | None) -> str:
    """Return the part of a detail sentence that names the examined groups, where not all were examined for
    everything."""
    if part is case:
        return ""
    few, all_ = f"{part.release.n_groups:,}", f"{case.release.n_groups:,}"
    links = f"flags are of all {all_} groups" if whole else "so are the flags, which are not judged"
    return f" Fits, ratings and control: {few} of {all_} groups, drawn by the release's fingerprint; {links}."


def attack(
    case: Case,
    cells: RealCells,
    tables: Tables,
    chance: CellBaseline,
    ranks: tuple[int, ...] = RANKS,
    whole: WholeRelease | None = None,
) -> list[Gain]:
    """Return all gains of the attack on a release given as tables; links are searched in the whole, where
    there is one."""
    shape = (case.release.n_groups, case.release.n_items)
    sole = _SoleRatings.of(case, cells, tables)
    if len(sole.truth) == case.release.cells:
        ranks = (0,)  # every value is one person's: no fit reveals more than reading it
    most = min(shape) // 2  # beyond it the fit has so many directions that nothing is left over
    ranks = tuple(sorted({min(rank, most) for rank in ranks}))
    fits = [robust_fit(tables, shape, rank, case.release.step) for rank in ranks]
    names = [f"by rank {rank}" if rank else "by item means" for rank in ranks]
    if whole:
        everything = partial(_tables, whole.case)
        links = _links(whole.case, everything, fits, _solved, names, whole.chance)
    else:
        links = _links(case, tables, fits, _as_fitted, names, chance)
    return [
        gain
        for fit, name, found in zip(fits, names, links, strict=True)
        for gain in (*found, *sole.gains(fit, name))
    ]


def _as_fitted(fit: Fit, start: int, table: np.ndarray) -> np.ndarray:
    return fit.rows(start, len(table))


def _solved(fit: Fit, _: int, table: np.ndarray) -> np.ndarray:
    return fit.solved(table)


def _tables(case: Case) -> Iterator[Table]:
    return ((block.start, block.table()) for block in case.release.blocks())


def _held(tables: Iterable[Table]) -> Tables:
    """Decode once: every fit passes over the tables many times, and a sample is small enough."""
    blocks = list(tables)
    return lambda: blocks


# Links


def _links(
    case: Case, tables: Tables, fits: list[Fit], fitted: Fitted, names: list[str], chance: CellBaseline
) -> list[list[Gain]]:
    """Return per fit the precision of the cells with the largest residuals, against what item and group explain."""
    some, rare = chance.share < 1, chance.share <= RARE_SHARE
    kinds, heads = [], []
    for items, doubt in ((some, False), (some, True), (rare, True)):
        among = int(chance.open_cells[items].sum()) if doubt else case.release.cells
        heads.append(
            [int(min(max(share * among, least), most, LARGEST_SHARE * among)) for share, least, most in HEADS]
        )
        kinds.append(CellFilter(items, -np.log1p(-CERTAIN) if doubt else np.inf, max(heads[-1])))
    flags = largest_residuals(case, tables, fits, fitted, kinds, chance)
    return [_precision(case, own, heads, name, chance) for own, name in zip(flags, names, strict=True)]


def _precision(
    case: Case, flags: list[np.ndarray], heads: list[list[int]], name: str, chance: CellBaseline
) -> list[Gain]:
    gains = []
    for kind, found, sizes in zip(LINKS, flags, heads, strict=True):
        for keys in (found[:size] for size in sizes):
            expected = float(chance.of(keys).sum())
            if len(keys) - expected >= LEAST_ROOM:
                risk = Risk(int(hold_real_ratings(case, keys).sum()), len(keys), expected / len(keys))
                gains.append(Gain(kind, f"{name}, {len(keys):,} flags", risk))
    return gains


# Ratings


@dataclass(frozen=True)
class _SoleRatings:
    """Hold published cells with a single contributor: their values, the true ratings, and how well these can be
    guessed."""

    case: Case
    groups: np.ndarray
    items: np.ndarray
    values: np.ndarray
    truth: np.ndarray
    baseline: float

    @classmethod
    def of(cls, case: Case, cells: RealCells, tables: Tables) -> "_SoleRatings":
        """Collect the cells; the baseline is the better of item means and a fit from which they were hidden."""
        sole = np.flatnonzero((cells.number == 1) & cells.is_published)
        groups, items, truth = cells.groups[sole], cells.items[sole], cells.total[sole]
        found = cls(case, groups, items, _values_at(tables, groups, items), truth, 0.0)
        if not len(sole):
            return found
        shape = (case.release.n_groups, case.release.n_items)
        rates = [found._count_right(guess) for guess in _guesses(case, cells, sole)]
        if len(sole) < case.release.cells:  # is there a rest to fit?
            rest = _held(_hidden(tables, groups, items))
            for rank in BASELINE_RANKS:
                fit = robust_fit(rest, shape, min(rank, min(shape) // 2), case.release.step)
                rates.append(found._count_right(fit.cells(groups, items)))
        return replace(found, baseline=max(rates) / len(sole))

    def gains(self, fit: Fit, name: str) -> list[Gain]:
        """Return the best of three estimates: the value as it is, averaged with one prediction, averaged over the
        group."""
        if len(self.truth) * (1 - self.baseline) < LEAST_ROOM:
            return []
        fitted = fit.cells(self.groups, self.items)
        rest = self.values - fitted
        hits = max(self._count_right(fitted + h * rest) for h in (1, 2, self.case.members[self.groups]))
        return [
            Gain(
                "ratings",
                f"{name}, {len(self.truth):,} sole ones",
                Risk(hits, len(self.truth), self.baseline),
            )
        ]

    def _count_right(self, guess: np.ndarray) -> int:
        inside = np.clip(guess, self.case.release.low, self.case.release.high)
        return int((np.abs(inside - self.truth) <= self.case.truth.half_level + 1e-4).sum())


def _values_at(tables: Tables, groups: np.ndarray, items: np.ndarray) -> np.ndarray:
    values = np.empty(len(groups), dtype=np.float32)
    for start, table in tables():
        part = slice(*np.searchsorted(groups, [start, start + len(table)]))
        values[part] = table[groups[part] - start, items[part]]
    return values


def _hidden(tables: Tables, groups: np.ndarray, items: np.ndarray) -> Iterator[Table]:
    """Yield the release without these cells: the rest shows what could be guessed about them anyway."""
    for start, table in tables():
        part = slice(*np.searchsorted(groups, [start, start + len(table)]))
        table = table.copy()
        table[groups[part] - start, items[part]] = np.nan
        yield start, table


def _guesses(case: Case, cells: RealCells, sole: np.ndarray) -> list[np.ndarray]:
    """Predict each of these cells from all other people's ratings, and from the contributor's other ratings."""
    users, items, own = cells.rater[sole], cells.items[sole], cells.total[sole]
    count, total = case.truth.item_totals
    overall = float(total.sum() / count.sum())
    item = _mean_without(count[items], total[items], own, overall)
    user = _mean_without(cells.rated[users], cells.rating_sums[users], own, overall)
    return [overall + item, overall + item + user]


def _mean_without(count: np.ndarray, total: np.ndarray, own: np.ndarray, overall: float) -> np.ndarray:
    """Return means without one of their ratings, less the overall mean; 0 where nothing else is left."""
    return np.where(count > 1, (total - own) / np.maximum(count - 1, 1) - overall, 0.0)


# Control


def _control(
    case: Case, cells: RealCells, published: Tables, chance: CellBaseline, threshold: float
) -> tuple[bool, str]:
    """Test whether the attack can find real ratings in data like these."""

    def best(rank: int, *, verbatim: bool) -> Gain | None:
        planted = _held(_planted(case, cells, published, verbatim=verbatim))
        gains = _judged(attack(case, cells, planted, chance, (rank,)), chance)
        return max(gains, key=lambda gain: gain.risk.gain_interval[0], default=None)

    kept = best(CONTROL_RANK, verbatim=False)
    if kept and kept.risk.gain_interval[0] > threshold:
        return True, f"with observed ratings kept in the means it succeeds: {kept}"
    plain = best(0, verbatim=True)
    hidden = f"observed ratings kept in the means cannot be distinguished here ({kept or 'no cells'})"
    if plain and plain.risk.gain_interval[0] > threshold:
        return True, f"{hidden}, ratings published as they are can: {plain}"
    return False, f"{hidden}, nor can ratings published as they are ({plain or 'no cells'})"


def _planted(case: Case, cells: RealCells, published: Tables, *, verbatim: bool) -> Iterator[Table]:
    """Yield this release with the members' real ratings put into its cells: into the group's mean, or verbatim."""
    release = case.release
    for start, table in published():
        part = cells.rows(start, len(table))
        rows, items = cells.groups[part] - start, cells.items[part]
        number, total = cells.number[part], cells.total[part]
        before = table[rows, items]
        share = number if verbatim else case.members[start + rows]
        after = before + (total - number * before) / np.maximum(share, 1)
        if release.step:
            after = release.low + np.rint((after - release.low) / release.step) * np.float32(release.step)
        table = table.copy()
        table[rows, items] = after
        yield start, table
