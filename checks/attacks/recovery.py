"""Run the recovery attack (docs/leaks-and-bars.md): can real ratings be distinguished from padded ones, and be read?

A release of predictions is low rank; one true rating inside a group's mean is not. The attacker fits the release with a
robust low-rank model (and with plain item means) and examines the residuals: *links*, the cells with the largest
residual × group size (of all, of those in doubt, of rare items), should hold a real rating no more often than the
popularity of their items and the activity of their groups explain; *ratings* of cells with a single contributor,
recovered as fit + h · (value − fit), should be right no more often than the rest of the release predicts them. Both
gains are shares of the room above their baseline. (That a group rates much or little shows in its profile and is not
judged here: it is true of at least k people together. Without it in the baseline, a few busy groups would look like
recovered ratings.)

Averages over hundreds of flags hide a hundred verbatim ratings among millions of cells, and protect nobody in
particular. So the ratings read off the first 50 and 100 flags are judged too, at the lower bound, and every group and
every person (checks/recovery/small_heads.py).

The positive control is the same attack on this very release with the observed ratings put back into the means, as in
[Chang2009], algorithm 1; where groups are so large that rounding hides even that, with them put in verbatim.

A dozen fits of a large release would take hours: there a sample of its groups is fitted
(checks/evidence/views/sample.py). Flags are a tail, and a leak in few groups would miss the sample: so every group of
the release is then compared with the items' factors, and the flags are the release's. Ratings are a share of all sole
ones, and the control is about the attack: for both the sample is enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.views.sample import sampled
from checks.recovery.cell_baseline import CERTAIN, CellBaseline
from checks.recovery.flagged_ratings import KIND as FLAGGED_RATINGS
from checks.recovery.flagged_ratings import HiddenFits
from checks.recovery.gain import Gain
from checks.recovery.low_rank_fit import Fit, Table, Tables, hold_tables, read_tables, robust_fit
from checks.recovery.outlying_cells import CellFilter, LargestResiduals, compare_with_fits
from checks.recovery.real_cells import RealCells, hold_real_ratings
from checks.recovery.small_heads import SmallHeads
from checks.recovery.sole_ratings import LEAST_ROOM, SoleRatings
from checks.recovery.whole_release_baseline import extend_to_all_groups
from checks.registry import check
from checks.result import Finding, Outcome
from checks.stats import Risk

RANKS = (0, 8, 20, 40, 80)
CONTROL_RANK = 20
EVERYBODYS_RANKS = (
    0,
    8,
    20,
)  # for groups and people: directions beyond a release's own absorb what stands out
HEADS = ((0.002, 500, 1_000), (0.01, 1_000, 50_000))  # flags: share of the cells, at least, at most
LARGEST_SHARE = 0.05
RARE_SHARE = 0.05
LINKS = ("links", "links in doubt", "rare links")


@check(
    "recovery",
    threshold=0.5,
    controlled=True,
    about=About(
        title="Recovery",
        summary="Distinguish real ratings from predictions, read them",
        knows="The attacker has the release alone.",
        tries="They fit a model to the release, take the values that fit worst for real ratings, and compute these.",
        means=(
            "At the limit half of what guessing misses is recovered; above it the release holds more of the "
            "original ratings than it hides."
        ),
        measure="gain over guessing",
        guess=0.0,
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Measure the largest gain over the baselines, links and ratings, over all fits (upper bound; of small heads the
    lower one); nobody may be exposed."""
    part = sampled(case, "recovery")
    cells = RealCells.of(part)
    chance = CellBaseline.kept(case, part, cells)
    published = hold_tables(read_tables(part.release))
    whole = None
    if part is not case and chance.overall <= CERTAIN:
        whole = WholeRelease(case, extend_to_all_groups(case, chance))
    found = attack(part, cells, published, chance, whole=whole)
    judged = _judged(found.gains, chance)
    if not any(not gain.few for gain in judged):
        nothing = "the release has too few cells to attack: nothing is shown about it."
        return Finding(False, None, 0, nothing, outcomes=(Outcome("the release alone", Risk(0, 0)),))
    worst = max(judged, key=lambda gain: gain.decisive)
    low, high = worst.risk.gain_interval
    control_succeeded, control_text = _control(part, cells, published, chance, threshold)
    best = _best_of_each_kind(found.gains)
    gains_text = "; ".join(f"{gain}{'' if gain in judged else ' (not judged)'}" for gain in best)
    if chance.overall > CERTAIN:
        gains_text += f". Links are not judged: {chance.overall:.1%} of the published cells are real anyway"
    return Finding(
        worst.decisive <= threshold and not found.exposed_groups and not found.exposed_people,
        worst.risk.gain,
        worst.risk.n,
        f"largest gain: {worst}. Best of each kind: {gains_text}. Exposed: {found.exposed_groups:,} groups, "
        f"{found.exposed_people:,} people. Control: {control_text}.{_sample_text(part, case, whole)}",
        ci_low=low,
        ci_high=high,
        control=control_succeeded,
        outcomes=tuple(Outcome(f"{gain.kind}, {gain.how}", gain.risk) for gain in best),
    )


def _best_of_each_kind(gains: list[Gain]) -> list[Gain]:
    """Return the largest gain of each kind; of small heads the one with the largest lower bound."""
    best = []
    for kind in (*LINKS, "ratings", FLAGGED_RATINGS):
        own = [gain for gain in gains if gain.kind == kind]
        best += sorted(own, key=lambda gain: -(gain.decisive if gain.few else gain.risk.gain))[:1]
    return best


def _judged(gains: list[Gain], chance: CellBaseline) -> list[Gain]:
    """Return the gains that count; links count where a release hides them among others.

    Where nearly every published cell is real, link-existence judges what the items of a group reveal; the few added
    cells would be the whole room for a gain here.
    """
    return [gain for gain in gains if gain.kind not in LINKS or chance.overall <= CERTAIN]


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


@dataclass(frozen=True)
class Found:
    """Hold what the attack gains, and how many groups and people it exposes."""

    gains: list[Gain]
    exposed_groups: int = 0
    exposed_people: int = 0


def attack(
    case: Case,
    cells: RealCells,
    tables: Tables,
    chance: CellBaseline,
    ranks: tuple[int, ...] = RANKS,
    whole: WholeRelease | None = None,
    *,
    small_heads: bool = True,
) -> Found:
    """Attack a release given as tables; flags are searched in the whole, where there is one. Small heads, groups and
    people are left out where only averages are wanted."""
    shape = (case.release.n_groups, case.release.n_items)
    sole = SoleRatings.of(case, cells, tables)
    if len(sole.truth) == case.release.cells:
        ranks = (0,)  # every value is one person's: no fit reveals more than reading it
    most = min(shape) // 2  # beyond it the fit has so many directions that nothing is left over
    ranks = tuple(sorted({min(rank, most) for rank in ranks}))
    fits = [robust_fit(tables, shape, rank, case.release.step) for rank in ranks]
    names = [f"by rank {rank}" if rank else "by item means" for rank in ranks]
    ratings = [gain for fit, name in zip(fits, names, strict=True) for gain in sole.gains(fit, name)]
    searched, baseline = (whole.case, whole.chance) if whole else (case, chance)
    filters, heads = _filters(searched, baseline)
    links = LargestResiduals(searched, baseline, list(filters.values()), len(fits))
    everybodys = {min(rank, ranks[-1]) for rank in EVERYBODYS_RANKS}
    of_everybody = [number for number, rank in enumerate(ranks) if rank in everybodys]
    fitted = _solved if whole else _as_fitted
    small = None
    if small_heads:
        hidden = HiddenFits(sole.baseline_fits, fitted)
        small = SmallHeads(searched, baseline, len(fits), of_everybody, hidden)
    compare_with_fits(
        partial(read_tables, searched.release) if whole else tables,
        fits,
        fitted,
        [links, *(small.collectors if small else [])],
    )
    gains = [
        gain
        for name, own in zip(names, links.keys(), strict=True)
        for gain in _precision(searched, own, heads, name, baseline)
    ]
    if not small:
        return Found([*gains, *ratings])
    return Found([*gains, *ratings, *small.gains(names)], *small.count_exposed())


def _as_fitted(fit: Fit, start: int, table: np.ndarray) -> np.ndarray:
    return fit.rows(start, len(table))


def _solved(fit: Fit, _: int, table: np.ndarray) -> np.ndarray:
    return fit.solved(table)


# Links


def _filters(case: Case, chance: CellBaseline) -> tuple[dict[str, CellFilter], list[list[int]]]:
    """Return which cells may be flagged for each kind of link, and the sizes of the heads."""
    some, rare = chance.share < 1, chance.share <= RARE_SHARE
    filters, heads = {}, []
    for kind, items, doubt in zip(LINKS, (some, some, rare), (False, True, True), strict=True):
        among = int(chance.open_cells[items].sum()) if doubt else case.release.cells
        heads.append(
            [int(min(max(share * among, least), most, LARGEST_SHARE * among)) for share, least, most in HEADS]
        )
        filters[kind] = CellFilter(items, -np.log1p(-CERTAIN) if doubt else np.inf, max(heads[-1]))
    return filters, heads


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


# Control


def _control(
    case: Case, cells: RealCells, published: Tables, chance: CellBaseline, threshold: float
) -> tuple[bool, str]:
    """Test whether the attack can find real ratings in data like these."""

    def best(rank: int, *, verbatim: bool) -> Gain | None:
        planted = hold_tables(_planted(case, cells, published, verbatim=verbatim))
        gains = _judged(attack(case, cells, planted, chance, (rank,), small_heads=False).gains, chance)
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
