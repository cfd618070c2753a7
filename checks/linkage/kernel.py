"""Compute scores over posting lists and the target's rank among them, in numba: the inner loop of every attack."""

import math

import numpy as np
from numba import njit

KINDS = {"presence": 0, "within": 1, "decay": 2}
FIELDS = (
    "listed", "better", "tied", "better_people", "tied_people", "candidates", "people",
    "best_at", "best_people", "top", "eccentricity", "own_probability", "entropy_bits",
)  # fmt: skip
STRETCH = 128  # records processed together in the search for the best
FARTHEST, PER_LOG_2 = np.float32(-80), np.float32(1 / math.log(2))
BIAS, SHIFT = np.float32(127), np.float32(2**23)  # of the exponent in a float32
# 2^f on [0, 1], exact to the last digit but one of float32.
C0, C1, C2, C3, C4, C5, C6 = (
    np.polynomial.Chebyshev.interpolate(np.exp2, 6, domain=[0, 1])
    .convert(kind=np.polynomial.Polynomial)
    .coef.astype(np.float32)
)
SLACK = 1e-4  # published ratings are float32: a tolerance of exactly one level must hold


@njit(cache=True, nogil=True)
def _agreement(level, rating, weight, kind, width):
    """Return what a record's rating adds to its score when this rating is known."""
    apart = abs(level - rating)
    if kind == 1:
        return weight if apart <= width + SLACK else np.float32(0.0)
    return np.float32(weight * math.exp(-apart / width))


# The lists are walked by place, not sliced, and records are numbered unsigned: a slice costs numba a reference
# count, a signed index a test for negative ones, and most lists are short.


@njit(cache=True, nogil=True)
def _add_presence(score, rows, start, stop, dense, weight):
    if dense:
        for c in range(len(score)):
            score[c] += weight
    else:
        for p in range(start, stop):
            score[np.uint32(rows[p])] += weight


@njit(cache=True, nogil=True)
def _add_ratings(score, rows, codes, start, stop, dense, table):
    if dense:
        for c in range(len(score)):
            score[c] += table[codes[start + c]]
    else:
        for p in range(start, stop):
            score[np.uint32(rows[p])] += table[codes[p]]


@njit(cache=True, nogil=True)
def _add_many_levels(score, rows, codes, start, stop, dense, levels, rating, weight, kind, width):
    """Add the ratings of a list that is shorter than a table of all levels would be (continuous ratings)."""
    for p in range(start, stop):
        place = np.uint32(p - start if dense else rows[p])
        score[place] += _agreement(levels[codes[p]], rating, weight, kind, width)


@njit(cache=True, nogil=True)
def _add_days(score, rows, days, start, stop, dense, day, weight, day_width):
    for p in range(start, stop):
        place = np.uint32(p - start if dense else rows[p])
        score[place] += weight * math.exp(-abs(days[p] - day) / day_width)


@njit(cache=True, nogil=True)
def accumulate(score, items, ratings, known_days, postings, rule):
    """Add up the score of every record for one target's knowledge."""
    indptr, rows, codes, days, dense, levels, width_of_table = postings
    weights, kind, width, day_width = rule
    score[:] = 0
    table = np.zeros(width_of_table if kind else 0, dtype=np.float32)
    for q in range(len(items)):
        item = items[q]
        start, stop, weight = indptr[item], indptr[item + 1], np.float32(weights[item])
        if kind == 0:
            _add_presence(score, rows, start, stop, dense, weight)
        elif math.isnan(ratings[q]):
            pass
        elif stop - start < len(levels):
            rating = ratings[q]
            _add_many_levels(score, rows, codes, start, stop, dense, levels, rating, weight, kind, width)
        else:
            for code in range(len(levels)):
                table[code] = _agreement(levels[code], ratings[q], weight, kind, width)
            _add_ratings(score, rows, codes, start, stop, dense, table)
        if day_width > 0 and len(known_days) and not math.isnan(known_days[q]):
            _add_days(score, rows, days, start, stop, dense, known_days[q], weight, day_width)


@njit(cache=True, nogil=True)
def _exclude(score, lengths, leave_out, needed, most_items):
    """Set the scores of records that are no candidates to −∞."""
    minus = score.dtype.type(-np.inf)
    if needed >= 0:
        for c in range(len(score)):
            score[c] = score[c] if score[c] == needed else minus
    if most_items < np.inf:
        for c in range(len(score)):
            score[c] = minus if lengths[c] > most_items else score[c]
    if leave_out >= 0:
        score[leave_out] = minus


@njit(cache=True, nogil=True)
def _count(score, people, own_score):
    """Count candidates, better ones and tied ones, each with the people behind them.

    Without a branch, so that the compiler processes several records at once.
    """
    minus = score.dtype.type(-np.inf)
    counted, better, tied, counted_people, better_people, tied_people = 0, 0, 0, 0, 0, 0
    for c in range(len(score)):
        s = score[c]
        counted += s != minus
        better += s > own_score
        tied += s == own_score
        counted_people += people[c] if s != minus else 0
        better_people += people[c] if s > own_score else 0
        tied_people += people[c] if s == own_score else 0
    if own_score == minus:
        tied, tied_people = 0, 0
    return counted, counted_people, better, better_people, tied, tied_people


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _moments(score):
    """Return sum and sum of squares over the candidates, in whatever order is fastest on this kind of machine."""
    minus = score.dtype.type(-np.inf)
    total, squares = 0.0, 0.0
    for c in range(len(score)):
        s = np.float64(score[c]) if score[c] != minus else 0.0
        total += s
        squares += s * s
    return total, squares


@njit(cache=True, nogil=True)
def _two_best(score, people):
    """Return the best score, its first position, the people behind all who have it, and the second best."""
    minus = score.dtype.type(-np.inf)
    best, second, best_at, best_people = minus, minus, -1, 0
    for start in range(0, len(score), STRETCH):
        stop = min(start + STRETCH, len(score))
        reaching = 0
        for c in range(start, stop):
            reaching += score[c] >= second
        if reaching == 0:  # nearly always, and decided without a branch per record
            continue
        for c in range(start, stop):
            s = score[c]
            if s == minus:
                continue
            if s > best:
                second, best, best_at, best_people = best, s, c, people[c]
            elif s == best:
                second = s
                best_people += people[c]
            elif s > second:
                second = s
    return best, second, best_at, best_people


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _likelihoods(score, best, per_unit):
    """Return Σ e^z and Σ z·e^z over the records, z their distance to the best score in units.

    Without a branch or a call, so that the compiler processes several at once: e^z = 2^n · 2^f, n into the exponent's
    bits, 2^f by a polynomial. Records that are no candidates (z = −∞) count e^−80.
    """
    exponent = np.empty(STRETCH, np.int32)
    two_to_n = exponent.view(np.float32)
    two_to_f, z = np.empty(STRETCH, np.float32), np.empty(STRETCH, np.float32)
    weight, moment = 0.0, 0.0
    for start in range(0, len(score), STRETCH):
        size = min(STRETCH, len(score) - start)
        for c in range(size):
            away = (score[start + c] - best) * per_unit
            z[c] = away if away > FARTHEST else FARTHEST
            power = z[c] * PER_LOG_2
            n = np.floor(power)
            f = power - n
            exponent[c] = np.int32(
                (n + BIAS) * SHIFT
            )  # whole numbers below 2^31, which float32 holds exactly
            two_to_f[c] = C0 + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
        for c in range(size):
            likely = two_to_f[c] * two_to_n[c]
            weight += likely
            moment += likely * z[c]
    return weight, moment


@njit(cache=True, nogil=True)
def rank_target(score, inverse_norms, lengths, people, own, leave_out, needed, most_items, entropic, out):
    """Rank the own record among all; a tie is counted, never broken (kernel of `ranking.rank`)."""
    for c in range(len(inverse_norms)):
        score[c] *= inverse_norms[c]
    _exclude(score, lengths, leave_out, needed, most_items)
    minus = score.dtype.type(-np.inf)
    own_score = score[own] if own >= 0 else minus
    listed = own_score != minus
    candidates, all_people, better, better_people, tied, tied_people = _count(score, people, own_score)
    total, squares = _moments(score)
    best, second, best_at, best_people = _two_best(score, people)
    mean = total / max(1, candidates)
    spread = math.sqrt(max(0.0, squares / max(1, candidates) - mean * mean))
    out[0] = listed
    out[1], out[2], out[3], out[4] = better, tied, better_people, tied_people
    out[5], out[6], out[7], out[8] = candidates, all_people, best_at, best_people
    out[9] = listed and own_score == best
    # A single candidate has the largest eccentricity ([Narayanan2008]'s test needs two).
    out[10] = math.inf if candidates == 1 else ((best - second) / spread if spread > 1e-9 else 0.0)
    out[11], out[12] = 0.0, 0.0
    if entropic and candidates > 0:
        scale = spread if spread > 1e-9 else 1.0
        weight, moment = _likelihoods(score, best, np.float32(1 / scale))
        out[12] = (math.log(weight) - moment / weight) / math.log(2.0)
        if listed:
            out[11] = math.exp((np.float64(own_score) - best) / scale) / weight


@njit(cache=True, nogil=True)
def rank_block(
    starts, items, ratings, days, own, leave_out, postings, rule, crowd, all_needed, entropic, out
):
    """Score and rank a block of targets, one after the other, in one score array."""
    inverse_norms, lengths, people, most_items = crowd
    score = np.zeros(len(people), dtype=np.float32)
    for t in range(len(starts) - 1):
        part = slice(starts[t], starts[t + 1])
        known_days = days[part] if len(days) else days
        accumulate(score, items[part], ratings[part], known_days, postings, rule)
        needed = np.float32(starts[t + 1] - starts[t]) if all_needed else np.float32(-1)
        rank_target(
            score, inverse_norms, lengths, people, own[t], leave_out[t], needed, most_items, entropic, out[t]
        )
