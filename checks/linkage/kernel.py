"""Scores over posting lists and the target's rank among them, in numba: the hot loop of every attack."""

import math

import numpy as np
from numba import njit

KINDS = {"presence": 0, "within": 1, "decay": 2}
FIELDS = (
    "listed", "better", "tied", "better_people", "tied_people", "candidates", "people",
    "best_at", "best_people", "top", "eccentricity", "own_probability", "entropy_bits",
)  # fmt: skip
SLACK = 1e-4  # published ratings are float32: a tolerance of exactly one level must hold


@njit(cache=True, nogil=True)
def _agreement(levels, rating, weight, kind, width, table):
    """What each rating level contributes when this rating is known."""
    for code in range(len(levels)):
        apart = abs(levels[code] - rating)
        if kind == 1:
            table[code] = weight if apart <= width + SLACK else 0.0
        else:
            table[code] = weight * math.exp(-apart / width)


@njit(cache=True, nogil=True)
def _add_presence(score, rows, count, dense, weight):
    if dense:
        for c in range(count):
            score[c] += weight
    else:
        for p in range(count):
            score[rows[p]] += weight


@njit(cache=True, nogil=True)
def _add_ratings(score, rows, codes, dense, table):
    if dense:
        for c in range(len(codes)):
            score[c] += table[codes[c]]
    else:
        for p in range(len(codes)):
            score[rows[p]] += table[codes[p]]


@njit(cache=True, nogil=True)
def _add_days(score, rows, days, dense, day, weight, day_width):
    for p in range(len(days)):
        place = p if dense else rows[p]
        score[place] += weight * math.exp(-abs(days[p] - day) / day_width)


@njit(cache=True, nogil=True)
def accumulate(score, items, ratings, known_days, postings, rule):
    """Add up the score of every record for one target's knowledge."""
    indptr, rows, codes, days, dense, levels, width_of_table = postings
    weights, kind, width, day_width = rule
    score[:] = 0
    table = np.zeros(width_of_table, dtype=np.float32)
    for q in range(len(items)):
        start, stop = indptr[items[q]], indptr[items[q] + 1]
        weight = np.float32(weights[items[q]])
        own_rows = rows[start:stop] if not dense else rows[:0]
        if kind == 0:
            _add_presence(score, own_rows, stop - start, dense, weight)
        elif not math.isnan(ratings[q]):
            _agreement(levels, ratings[q], weight, kind, width, table)
            _add_ratings(score, own_rows, codes[start:stop], dense, table)
        if day_width > 0 and len(known_days) and not math.isnan(known_days[q]):
            _add_days(score, own_rows, days[start:stop], dense, known_days[q], weight, day_width)


@njit(cache=True, nogil=True)
def rank_target(score, inverse_norms, lengths, people, own, leave_out, needed, most_items, entropic, out):
    """Where the own record stands among all; a tie is counted, never broken (kernel of `ranking.rank`)."""
    n = len(score)
    if len(inverse_norms):
        for c in range(n):
            score[c] *= inverse_norms[c]
    minus = np.float32(-np.inf)
    for c in range(n):
        if (needed >= 0 and score[c] != needed) or lengths[c] > most_items or c == leave_out:
            score[c] = minus
    own_score = score[own] if own >= 0 else minus
    listed = own_score != minus
    candidates, everybody, better, tied, better_people, tied_people = 0, 0, 0, 0, 0, 0
    best, second, best_at, best_people = minus, minus, -1, 0
    total, squares = 0.0, 0.0
    for c in range(n):
        s = score[c]
        if s == minus:
            continue
        candidates += 1
        everybody += people[c]
        total += s
        squares += np.float64(s) * s
        if s > own_score:
            better += 1
            better_people += people[c]
        elif s == own_score:
            tied += 1
            tied_people += people[c]
        if s > best:
            second, best, best_at, best_people = best, s, c, people[c]
        elif s == best:
            second = s
            best_people += people[c]
        elif s > second:
            second = s
    mean = total / max(1, candidates)
    spread = math.sqrt(max(0.0, squares / max(1, candidates) - mean * mean))
    out[0] = listed
    out[1], out[2], out[3], out[4] = better, tied, better_people, tied_people
    out[5], out[6], out[7], out[8] = candidates, everybody, best_at, best_people
    out[9] = listed and own_score == best
    # One candidate alone stands out as far as one can (Narayanan & Shmatikov's test needs two).
    out[10] = math.inf if candidates == 1 else ((best - second) / spread if spread > 1e-9 else 0.0)
    out[11], out[12] = 0.0, 0.0
    if entropic and candidates > 0:
        scale = spread if spread > 1e-9 else 1.0
        weight, moment = 0.0, 0.0
        for c in range(n):
            if score[c] != minus:
                z = (np.float64(score[c]) - best) / scale
                weight += math.exp(z)
                moment += math.exp(z) * z
        out[12] = (math.log(weight) - moment / weight) / math.log(2.0)
        if listed:
            out[11] = math.exp((np.float64(own_score) - best) / scale) / weight


@njit(cache=True, nogil=True)
def rank_block(
    starts, items, ratings, days, own, leave_out, postings, rule, crowd, all_needed, entropic, out
):
    """Scores and ranks of a block of targets, one after the other, in one score array."""
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
