"""Test that no published figure depends on people who are not released.

People who wait for a cohort, or were left out, are in no group; an exact count of them changes by one when one of them
appears. So counts are of released people, the number of people withheld is a multiple of k, and no number of withheld
items is given at all (an item is withheld because one or two people rated it). Other figures of the manifest, those in
the lines of the checks included, may not be the exact number of people in the source or of those who wait. A number
below 100 is not looked for: it occurs by chance.

Nothing measured on the data may be beside synthetic rows, whose every figure is paid for from a privacy budget: the
exact numbers of people, items and ratings (of the released items) in the source are looked for in the manifest. Its
counts are left out: they are of rows and drawn items, may equal an exact number by chance, and to refuse them for it
would disclose that they do.

One figure is about time: `as_of`, the newest snapshot whose ratings are behind a profile, where that is later than the
release's own. It is recomputed from the first publication of every group.
"""

import re
from collections.abc import Iterator
from typing import Any

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.method_rules import rules_of
from checks.history.history import FIRST, History
from checks.registry import ANY, check
from checks.result import Finding

SMALLEST_SOUGHT = 100
_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.,])\d+(?![\w.]*\w)")
_FIXED = (
    "files",
    "code_version",
    "created_at",
    "snapshot",
    "as_of",
    "schema_version",
    "privacy",
    "rating_scale",
)


@check(
    "public-figures",
    threshold=0,
    as_published=True,
    whole=True,
    units=ANY,
    about=About(
        title="Public figures",
        summary="Look for published figures that one person changes",
        knows="The attacker reads the counts and figures of every manifest.",
        tries="They look for an exact count of people or items that one more person would change.",
        means=(
            "A figure about people who wait, or were left out, would betray one of them when it changes. None is "
            "allowed."
        ),
        measure="figures that depend on people who are not released",
        unit="figures",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count the figures of the manifest that depend on people who are not released; none is allowed."""
    if rules_of(case.release.manifest["method"]).is_synthetic:
        return _of_synthetic_rows(case, threshold)
    history = History.of(case)
    release, manifest = history.own.release, history.own.manifest
    if not history.related and manifest.get("series") != "checked":
        return Finding(True, None, 0, FIRST, applicable=False)
    counts, withheld = manifest.get("counts") or {}, manifest.get("withheld") or {}
    waiting, source = case.truth.unlisted_users, case.truth.source_users
    released = {
        "users": int(history.in_own.sum()),
        "items": release.n_items,
        "groups": release.n_groups,
        "ratings": int((release.lengths * release.listed).sum()),
    }
    wrong = [name for name, number in released.items() if counts.get(name) != number]
    users, items = withheld.get("users"), withheld.get("items")
    harmless = {*released.values(), int(users) if type(users) is int else 0}
    secret = {n for n in (waiting, source) if n >= SMALLEST_SOUGHT and n % release.k} - harmless
    rest = {key: value for key, value in manifest.items() if key not in _FIXED}
    figures = list(_numbers(rest))
    exact = sum(number in secret for number in figures)
    problems = [
        (len(wrong), f"counts are not those of the released people ({', '.join(wrong)})"),
        (
            int(type(users) is not int or users % release.k != 0),
            "number of people withheld is no multiple of k",
        ),
        (int(items != 0), "number of withheld items is given"),
        (
            int(manifest.get("as_of") != history.as_of),
            "date as_of is not that of the newest ratings behind a profile, where these are newer than the snapshot",
        ),
        (exact, "figures are the exact number of people in the source or of those who wait"),
    ]
    total = sum(count for count, _ in problems)
    detail = (
        " ".join(f"{count:,} {words}." for count, words in problems if count)
        or "Counts are of released people; the number of people withheld is a multiple of k."
    )
    return Finding(total <= threshold, total, len(figures), detail)


def _of_synthetic_rows(case: Case, threshold: float) -> Finding:
    """Count figures of the manifest that are exact numbers of people, items or ratings of the source."""
    raters, items = case.truth.raters, case.truth.unlisted_items
    exact = {case.truth.source_users, int((raters > 0).sum()) + items, int(raters.sum())}
    secret = {number for number in exact if number >= SMALLEST_SOUGHT}
    rest = {key: value for key, value in case.release.manifest.items() if key not in (*_FIXED, "counts")}
    figures = list(_numbers(rest))
    found = sum(number in secret for number in figures)
    detail = f"{found:,} figures of the manifest are exact numbers of people, items or ratings of the source."
    return Finding(found <= threshold, found, len(figures), detail)


def _numbers(value: Any) -> Iterator[int]:
    """Yield the whole numbers in a part of the manifest, those inside sentences included."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, str):
        yield from (int(found.replace(",", "")) for found in _NUMBER.findall(value))
    elif isinstance(value, int | float) and not isinstance(value, bool) and value == int(value):
        yield int(value)
