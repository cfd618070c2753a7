"""k-anonymity (paper definition 3.3), recomputed from the published files.

Everybody listed must share their published profile, items and ratings alike, with at least k − 1 others.
Profiles are compared by content; neither the group's `size` nor anything else the release says about itself
is believed. Group numbers are published too, so the people under one number must be at least k as well.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.case import Case
from checks.registry import check
from checks.release import Release
from checks.result import Finding


@check("k-anonymity", threshold=2, offline=True)
def run(case: Case, threshold: float) -> Finding:
    """Smallest set of people with one published profile; at least the manifest's k (and the threshold, if
    higher)."""
    release = case.release
    needed = max(release.k, threshold)
    profile = release.profile_of_group
    people = _distinct_people(release)
    rows = release.row_of_member[people]
    homeless = int((release.row_of_member < 0).sum())
    twice = len(release.pseudonyms) - len(people)
    ambiguous = len(release.groups) - len(np.unique(release.groups))

    per_profile = np.bincount(profile[rows[rows >= 0]], minlength=profile.max() + 1 if len(profile) else 0)
    per_group = np.bincount(rows[rows >= 0], minlength=release.n_groups)
    smallest = (
        int(min(per_profile.min(initial=2**31), per_group.min(initial=2**31))) if release.n_groups else 0
    )
    if homeless or ambiguous:
        smallest = 0
    elif twice:
        smallest = 1  # whoever is in two groups is in their intersection
    below = int(per_group[per_group < needed].sum())
    detail = (
        f"{len(np.unique(profile)):,} different profiles over {len(people):,} people; the "
        f"smallest is shared by "
        f"{smallest:,}, promised is {needed:g}."
    )
    for count, words in (
        (below, "people are in groups that are too small"),
        (homeless, "people are in no group"),
        (twice, "people are listed more than once"),
        (ambiguous, "group numbers have more than one profile"),
    ):
        if count:
            detail += f" {count:,} {words}."
    return Finding(
        smallest >= needed and release.n_groups > 0, smallest, len(people), detail, threshold=needed
    )


def _distinct_people(release: Release) -> np.ndarray:
    """Positions of the pseudonyms that are listed exactly once."""
    counts = pc.value_counts(release.pseudonyms)
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return np.flatnonzero(
        ~pc.is_in(release.pseudonyms, value_set=pa.array(twice)).to_numpy(zero_copy_only=False)
    )
