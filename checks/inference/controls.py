"""Test that the attack on attributes works, and that it does not see the answers.

Positive control: on the raw data it must infer the attribute, at the lower bound. Where the raw data themselves do not
reveal it, every person's raw record gets one further item by class, of the right class for four in five, and the attack
must find that.

Negative control: with the values shuffled among people there is nothing to infer. If the attack infers it nevertheless,
more often than chance explains once in a million times, it has seen the answers.
"""

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

from checks.evidence.case import Case
from checks.evidence.views.raw import raw_view
from checks.inference.attack import ClassResult, answer, combine, evaluate, naive_scores, retrained_scores
from checks.inference.balanced_precision import GUESS
from checks.inference.inferrers import CONTROL, inferrer_named, suitable
from checks.inference.labelled_people import LabelledPeople, label_people
from checks.inference.records import Records, records_of, write_records

MIN_RAW_PRECISION = 0.55  # what the lower bound on raw data must exceed
MARKERS = 3  # planted items per class
RIGHT_CLASS_SHARE = 0.8
ONCE_IN_A_MILLION = float(norm.isf(0.5e-6))
FOLDS = 2


def positive_control(case: Case, who: LabelledPeople) -> tuple[bool, str]:
    """Test whether the attack infers the attribute from the raw data, or from raw data in which it was planted."""
    raw = raw_view(case)
    records = records_of(raw, who.people[who.tested])
    best = _best(raw, records, who)
    control_text = f"raw data {best.risk.rate:.3f} (at least {best.risk.interval[0]:.3f})"
    if best.risk.interval[0] > MIN_RAW_PRECISION:
        return True, control_text
    number = list(case.truth.attributes).index(who.attribute)  # its name may not be a valid file name
    place = Path(case.scratch.name) / f"planted-{number}-{int(who.folds.max()) + 1}"
    found = _best(raw, _planted(raw, records, who, place), who)
    low = found.risk.interval[0]
    control_text += (
        f"; these hardly reveal it, so with planted items {found.risk.rate:.3f} (at least {low:.3f})"
    )
    return low > MIN_RAW_PRECISION, control_text


def _best(raw: Case, records: Records, who: LabelledPeople) -> ClassResult:
    """Return the class that is inferred best."""
    scores = retrained_scores(records, who, [inferrer_named(CONTROL, records)], raw.engine)
    found = evaluate(raw, who, answer(scores, who), "raw")
    return max(found, key=lambda one: one.risk.interval[0])


def _planted(raw: Case, records: Records, who: LabelledPeople, place: Path) -> Records:
    draw = raw.draw("planted", who.attribute)
    labels = who.labels[who.tested]
    other = (labels + draw.integers(1, max(2, who.classes), len(labels))) % who.classes
    marked_class = np.where(draw.random(len(labels)) < RIGHT_CLASS_SHARE, labels, other)
    marker = marked_class * MARKERS + draw.integers(0, MARKERS, len(labels))
    # A row per person: two people are two records of the raw data, whatever they rated.
    own = sp.csr_array(sp.csr_array(records.matrix)[records.record_of])
    values = np.full(len(labels), raw.release.high, np.float32)
    rows = np.arange(len(labels))
    added = sp.csr_array((values, (rows, marker)), shape=(len(labels), who.classes * MARKERS))
    matrix = sp.csr_array(sp.hstack([own, added], format="csr"))
    place.mkdir(exist_ok=True)
    return write_records(matrix, place, rows, np.ones(len(labels)))


def negative_control(case: Case, who: LabelledPeople) -> tuple[bool, str]:
    """Test whether the whole attack infers nothing once the values have been shuffled."""
    shuffled_people = label_people(case, who.attribute, FOLDS).shuffled(
        case.draw("dealt out anew", who.attribute)
    )
    records = records_of(case, shuffled_people.people[shuffled_people.tested])
    scores = retrained_scores(records, shuffled_people, suitable(records), case.engine)
    found = evaluate(
        case,
        shuffled_people,
        answer(scores, shuffled_people)
        | combine(case, shuffled_people, scores, naive_scores(case, shuffled_people)[1]),
        "retrained",
    )
    if not found:
        return True, "with shuffled values nothing is inferred"
    # All are tested: the error of all together is divided among them.
    z = float(norm.isf(norm.sf(ONCE_IN_A_MILLION) / max(1, len(found))))
    worst = max(found, key=lambda one: abs(one.risk.rate - GUESS))
    infers_nothing = all(low <= GUESS <= high for low, high in (one.risk.at(z) for one in found))
    return infers_nothing, f"with shuffled values {worst.risk.rate:.3f}"
