"""Does the attack work at all, and does it look where it must not?

Positive: on the raw data it must tell the attribute, at the lower bound. Where the raw data themselves do not tell it,
everybody's raw record gets one further item by class, of the right class for four in five, and the attack must find
that.

Negative: with the values dealt out anew among people there is nothing to be told. If the attack tells it all the same,
more than chance explains once in a million times, it has seen the answers.
"""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

from checks.case import Case
from checks.inference.attack import Told, answered, mixed, naive, retrained, told
from checks.inference.inferrers import CONTROL, named, suited
from checks.inference.measure import GUESS
from checks.inference.people import Labelled, labelled
from checks.inference.records import Records, write

CLEARLY = 0.55  # what the lower bound on raw data must exceed
MARKERS = 3  # planted items per class
RIGHT = 0.8
ONCE_IN_A_MILLION = float(norm.isf(0.5e-6))
FOLDS = 2


def positive(case: Case, who: Labelled) -> tuple[bool, str]:
    """Whether the attack tells the attribute in the raw data, or in raw data where it was planted."""
    raw = case.raw.records(who.people[who.asked])
    best = _best(case.raw, raw, who)
    said = f"raw data {best.risk.rate:.3f} (at least {best.risk.interval[0]:.3f})"
    if best.risk.interval[0] > CLEARLY:
        return True, said
    number = list(case.truth.attributes).index(who.attribute)  # its name may be no file's
    place = Path(case.scratch.name) / f"planted-{number}-{int(who.folds.max()) + 1}"
    found = _best(case.raw, _planted(case.raw, raw, who, place), who)
    low = found.risk.interval[0]
    said += f"; as these hardly tell it, planted items {found.risk.rate:.3f} (at least {low:.3f})"
    return low > CLEARLY, said


def _best(raw: Case, records: Records, who: Labelled) -> Told:
    """The class told best."""
    scores = retrained(records, who, [named(CONTROL, records)], raw.engine)
    found = told(raw, who, answered(scores, who), "raw")
    return max(found, key=lambda one: one.risk.interval[0])


def _planted(raw: Case, records: Records, who: Labelled, place: Path) -> Records:
    draw = raw.draw("planted", who.attribute)
    labels = who.labels[who.asked]
    other = (labels + draw.integers(1, max(2, who.classes), len(labels))) % who.classes
    told_by = np.where(draw.random(len(labels)) < RIGHT, labels, other)
    marker = told_by * MARKERS + draw.integers(0, MARKERS, len(labels))
    # A row per person: two people are two records of the raw data, whatever they rated.
    own = sp.csr_array(sp.csr_array(records.matrix)[records.record_of])
    values = np.full(len(labels), raw.release.high, np.float32)
    rows = np.arange(len(labels))
    added = sp.csr_array((values, (rows, marker)), shape=(len(labels), who.classes * MARKERS))
    matrix = sp.csr_array(sp.hstack([own, added], format="csr"))
    place.mkdir(exist_ok=True)
    return write(matrix, place, rows, np.ones(len(labels)))


def negative(case: Case, who: Labelled) -> tuple[bool, str]:
    """Whether the whole attack tells nothing once the values have been dealt out anew."""
    dealt = labelled(case, who.attribute, FOLDS).shuffled(case.draw("dealt out anew", who.attribute))
    records = case.records(dealt.people[dealt.asked])
    scores = retrained(records, dealt, suited(records), case.engine)
    found = told(
        case, dealt, answered(scores, dealt) | mixed(case, dealt, scores, naive(case, dealt)[1]), "retrained"
    )
    if not found:
        return True, "with the values dealt out anew nothing is told"
    # All of them are tried: each may err as often as all together may.
    z = float(norm.isf(norm.sf(ONCE_IN_A_MILLION) / max(1, len(found))))
    worst = max(found, key=lambda one: abs(one.risk.rate - GUESS))
    quiet = all(low <= GUESS <= high for low, high in (one.risk.at(z) for one in found))
    return quiet, f"with the values dealt out anew {worst.risk.rate:.3f}"
