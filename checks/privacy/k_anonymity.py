"""Test k-anonymity ([Chang2009], definition 3.3), recomputed from the published files.

Every person listed must share their published profile, items and ratings alike, with at least k − 1 others. Profiles
are compared by content; neither the group's `size` nor anything else the release states about itself is trusted. Group
numbers are published too, so the people under one number must be at least k as well. With the source at hand only
people who are in it count, or were in an earlier release of the store: invented members hide no one.

Methods that publish single people (perturbation, suppression, obfuscation) cannot hold k as such. The gate judges them
by the chance of naming a person instead (upper bound ≤ 1/k in every re-identification attack, docs/leaks-and-bars.md),
so this check does not apply; only where the release's method is of that kind, and every single record is. A grouping
method that ends in groups of one, or a release of both kinds, has broken its promise. Offline no attack can run, so
there k is *not verified*, which is no pass: `murmur verify` answers whether the files alone show k, and for such a
release they do not.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.method_rules import rules_of
from checks.evidence.release_view import ReleaseView
from checks.history.history import known_people
from checks.registry import check
from checks.result import Finding


@check(
    "k-anonymity",
    threshold=2,
    offline=True,
    larger_is_safer=True,
    whole=True,
    about=About(
        title="Group size (k)",
        summary="Count the people who share each published profile",
        knows="The attacker has the release alone.",
        tries="They look for a profile that few people share.",
        means=(
            "Every person shares their published profile with at least k − 1 others, so that nothing in the files "
            "distinguishes them."
        ),
        measure="people behind the smallest profile",
        unit="people",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Return the smallest set of people with one published profile; at least the manifest's k (and the threshold, if
    higher)."""
    release = case.release
    needed = max(release.k, threshold)
    people = _distinct_people(release)
    without_group = int((release.row_of_member < 0).sum())
    twice = len(release.pseudonyms) - len(people)
    ambiguous = len(release.groups) - len(np.unique(release.groups))
    per_group, per_profile = _counts(case, people)
    invented = 0 if case.offline else int(release.listed.sum() - _real_members(case).sum())
    smallest = int(min(per_profile.min(), per_group.min())) if release.n_groups else 0
    if without_group or ambiguous:
        smallest = 0
    elif twice:
        smallest = min(smallest, 1)  # a person in two groups is in their intersection
    elif publishes_single_people(release):
        return _not_applicable(case, smallest, needed)
    below = int(per_group[per_group < needed].sum())
    detail = (
        f"{len(per_profile):,} different profiles over {len(people):,} people; the smallest is shared by "
        f"{smallest:,}, promised is {needed:g}."
    )
    for count, words in (
        (below, "people are in groups that are too small"),
        (without_group, "people are in no group"),
        (twice, "people are listed more than once"),
        (ambiguous, "group numbers have more than one profile"),
        (invented, "people are listed who are not in the source"),
    ):
        if count:
            detail += f" {count:,} {words}."
    return Finding(
        smallest >= needed and release.n_groups > 0, smallest, len(people), detail, threshold=needed
    )


def publishes_single_people(release: ReleaseView) -> bool:
    """Test whether a method that promises no groups made the release, and every record is one person's."""
    sizes = np.concatenate([release.sizes, release.listed])
    allowed = rules_of(release.manifest["method"]).publishes_persons
    return allowed and release.n_groups > 0 and bool((sizes == 1).all())


def _not_applicable(case: Case, smallest: int, needed: float) -> Finding:
    release = case.release
    if case.offline:
        return Finding(
            False,
            smallest,
            release.n_groups,
            f"not verified: every record is one person's, so the published files cannot show k = {needed:g}; only "
            "`murmur audit`, with the source, measures how likely a person is to be found in them.",
            threshold=needed,
        )
    return Finding(
        True,
        smallest,
        release.n_groups,
        f"every record is one person's ({release.manifest['method']}) and is not shared with "
        f"{needed - 1:g} others; the re-identification attacks decide, each at a risk of at most 1/{needed:g}.",
        threshold=1,
        applicable=False,
    )


def _counts(case: Case, people: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count people per group and per different profile: those listed once and, where that can be checked, in the
    source."""
    release = case.release
    rows = release.row_of_member[people]
    per_group = np.bincount(rows[rows >= 0], minlength=release.n_groups)
    if not case.offline:
        per_group = np.minimum(per_group, _real_members(case))
    return per_group, np.bincount(release.profile_of_group, weights=per_group).astype(np.int64)


def _real_members(case: Case) -> np.ndarray:
    """Count per group the people of the source, and those of earlier releases who have left it since."""
    rows = case.truth.row_of_user[known_people(case)]
    return np.bincount(rows[rows >= 0], minlength=case.release.n_groups)


def _distinct_people(release: ReleaseView) -> np.ndarray:
    """Return the positions of the pseudonyms that are listed exactly once."""
    counts = pc.value_counts(release.pseudonyms)
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return np.flatnonzero(
        ~pc.is_in(release.pseudonyms, value_set=pa.array(twice)).to_numpy(zero_copy_only=False)
    )
