"""Read the trials of a mechanism with and without canaries, and bound epsilon by the best attack on them.

Evaluate ran the mechanism of the release many times on a small part of its data (docs/dp-audit.md). Of each run it kept
one number for each part of the noisy statistics: how much that part speaks for the canary. The attacker may use any one
of them, their sum, or the weighted sum that separates best. Which canary, which sum and which threshold is chosen on
one part of the runs and judged on the rest, so that the bound needs no correction for the choice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import norm

from checks.canaries.privacy_loss import Answers, gaussian_epsilon, least_epsilon, least_mu
from tasks.errors import Refused
from tasks.store import read_json

CLAIMED, HALVED = "claimed", "halved"  # the noise of the release, and half of it
SHAPES = ("boundary", "enormous", "minimal", "new-item", "repeated", "saturating", "two-items")
FEWEST_TRIALS = 300  # of each canary, with it and without it: fewer cannot contradict a claim
LEARNING_SHARE = 0.4
THRESHOLDS = 60  # values tried as the threshold
CAUTION = 100  # the attack is chosen by bounds that err so much less often: it is the best of many
_REMEDY = "run the release anew; its evaluate step makes the trials"


@dataclass(frozen=True)
class Trials:
    """Hold the runs with one canary: a row each, a column per part of the statistics."""

    shape: str
    copies: int
    with_canary: np.ndarray
    without: np.ndarray


@dataclass(frozen=True)
class Evidence:
    """Hold what the runs claimed to keep, and the trials of each setting of the noise."""

    epsilon: float
    delta: float
    parts: tuple[str, ...]
    trials: dict[str, list[Trials]]

    @property
    def runs(self) -> int:
        """Number of trials in all."""
        return sum(len(t.with_canary) + len(t.without) for several in self.trials.values() for t in several)


@dataclass(frozen=True)
class Bound:
    """Hold the lower bound on epsilon, and by which canary and which combination of parts it was reached."""

    epsilon: float
    free: float  # without any assumption about the noise
    mu: float
    shape: str
    by: str
    answers: Answers

    def __str__(self) -> str:
        a = self.answers
        return (
            f"{self.epsilon:.2f} by {self.by} of the canary {self.shape} ({a.called_with:,} of {a.with_canary:,} "
            f"called present, {a.called_without:,} of {a.without:,} in its absence; "
            f"without assumptions {self.free:.2f})"
        )


def read_evidence(directory: Path) -> Evidence:
    """Read the trials; refuse what is not complete, because absent trials would show nothing."""
    try:
        stated = read_json(directory / "canaries.json")
        table = pq.read_table(directory / "trials.parquet")
        parts = tuple(sorted(name for name in table.column_names if name not in _KEYS))
        copies = {str(name): int(number) for name, number in stated["copies"].items()}
        evidence = Evidence(
            float(stated["epsilon"]), float(stated["delta"]), parts, _by_setting(table, parts, copies)
        )
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError):
        raise Refused(
            "the trials with canaries cannot be read", where=str(directory), remedy=_REMEDY
        ) from None
    _require_complete(evidence, directory)
    return evidence


_KEYS = ("shape", "setting", "canary")


def _by_setting(table: pa.Table, parts: tuple[str, ...], copies: dict[str, int]) -> dict[str, list[Trials]]:
    shape, setting = (np.array(table.column(name).to_pylist(), dtype=str) for name in _KEYS[:2])
    canary = table.column("canary").to_numpy().astype(bool)
    values = np.column_stack([table.column(name).to_numpy().astype(np.float64) for name in parts])
    found: dict[str, list[Trials]] = {}
    for kind in np.unique(setting).tolist():
        for name in np.unique(shape[setting == kind]).tolist():
            own = (setting == kind) & (shape == name)
            found.setdefault(kind, []).append(
                Trials(name, copies[name], values[own & canary], values[own & ~canary])
            )
    return found


def _require_complete(evidence: Evidence, directory: Path) -> None:
    for setting, shapes in ((CLAIMED, SHAPES), (HALVED, ())):
        several = evidence.trials.get(setting, [])
        missing = sorted(set(shapes) - {trials.shape for trials in several})
        few = [t for t in several if min(len(t.with_canary), len(t.without)) < FEWEST_TRIALS]
        if missing or few or not several or any(t.copies < 1 for t in several):
            raise Refused(
                f"trials with canaries are missing or fewer than {FEWEST_TRIALS}",
                where=str(directory),
                remedy=_REMEDY,
            )
        if not all(np.isfinite(side).all() for t in several for side in (t.with_canary, t.without)):
            raise Refused("trials with canaries have no finite figures", where=str(directory), remedy=_REMEDY)


def bound_epsilon(several: list[Trials], parts: tuple[str, ...], delta: float, error: float) -> Bound:
    """Return the lower bound on epsilon that the best attack on any of these canaries shows, except with this chance of
    error."""
    best: tuple[float, Bound] | None = None
    for trials in several:
        learn, test = _halves(trials)
        for by, weights in _sums(learn, parts):
            inside, outside = learn.with_canary @ weights, learn.without @ weights
            for answers, threshold in _promising(inside, outside, trials.copies, error / CAUTION):
                promise = _of(answers, trials, by, delta, error / CAUTION)
                if best is None or promise.epsilon > best[0]:
                    judged = _answers(test.with_canary @ weights, test.without @ weights, threshold)
                    best = promise.epsilon, _of(judged, trials, by, delta, error)
    if best is None:
        raise Refused("there are no trials with canaries", remedy=_REMEDY)
    return best[1]


def _of(answers: Answers, trials: Trials, by: str, delta: float, error: float) -> Bound:
    mu = least_mu(answers, trials.copies, error)
    free = least_epsilon(answers, trials.copies, delta, error)
    return Bound(max(free, gaussian_epsilon(mu, delta)), free, mu, trials.shape, by, answers)


def _halves(trials: Trials) -> tuple[Trials, Trials]:
    """Return the runs to choose the attack on, and those to judge it on; runs are independent, so in their order."""
    cuts = [int(LEARNING_SHARE * len(side)) for side in (trials.with_canary, trials.without)]
    sides = (trials.with_canary, trials.without)
    return (
        Trials(trials.shape, trials.copies, *(side[:cut] for side, cut in zip(sides, cuts, strict=True))),
        Trials(trials.shape, trials.copies, *(side[cut:] for side, cut in zip(sides, cuts, strict=True))),
    )


def _sums(learn: Trials, parts: tuple[str, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield weighted sums of the parts: the sum of the log-likelihood ratios, each part alone, and Fisher's direction.

    The sum is the best attack on a mechanism that does what it claims; the others find a part that is worse than
    claimed.
    """
    likelihood = np.array([float(name.startswith("likelihood ")) for name in parts])
    yield "the likelihood ratio", likelihood
    for number, name in enumerate(parts):
        alone = np.zeros(len(parts))
        alone[number] = 1.0
        yield name, alone
    inside, outside = learn.with_canary, learn.without
    spread = (np.cov(inside, rowvar=False) + np.cov(outside, rowvar=False)) / 2
    spread = np.atleast_2d(spread)
    ridge = 1e-9 * max(float(np.trace(spread)) / len(parts), 1e-12)
    away = inside.mean(axis=0) - outside.mean(axis=0)
    yield "the best weighted sum", np.linalg.lstsq(spread + ridge * np.eye(len(parts)), away, rcond=None)[0]


def _thresholds(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Return values between which the runs of the two worlds lie; midway between neighbours, so that equal values of
    new runs fall on the same side."""
    values = np.unique(np.concatenate([inside, outside]))
    if len(values) < 2:
        return values
    between = (values[1:] + values[:-1]) / 2
    return between[np.unique(np.linspace(0, len(between) - 1, THRESHOLDS).astype(int))]


def _promising(
    inside: np.ndarray, outside: np.ndarray, copies: int, error: float
) -> Iterator[tuple[Answers, float]]:
    """Yield the thresholds with the largest bounds of either kind on the runs to learn from.

    The bounds of the few runs to learn from, not shares: a share that is high by luck must not be chosen for it.
    """
    thresholds = _thresholds(inside, outside)
    if not len(thresholds):
        return
    answers = [_answers(inside, outside, float(t)) for t in thresholds]
    rates = np.array([a.rates(error) for a in answers])
    true, false = np.clip(rates.T, 1e-12, 1 - 1e-12)
    mu = (norm.ppf(true) - norm.ppf(false)) / copies
    free = np.maximum(np.log(true / false), np.log((1 - false) / (1 - true))) / copies
    for place in {int(mu.argmax()), int(free.argmax())}:
        yield answers[place], float(thresholds[place])


def _answers(inside: np.ndarray, outside: np.ndarray, threshold: float) -> Answers:
    return Answers(
        len(inside), int((inside >= threshold).sum()), len(outside), int((outside >= threshold).sum())
    )
