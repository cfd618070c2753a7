"""Test schema and digests: the files are what the manifest states, and agree with each other.

Opening the release has already refused wrong columns, nulls, ratings that are not numbers and item positions that are
out of order; here the contents are compared. Everything that is wrong is counted, and the first kinds are named.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checks.about import About
from checks.evidence import manifest
from checks.evidence.case import Case
from checks.evidence.method_rules import rules_of
from checks.evidence.profiles import Profiles
from checks.evidence.release import DATA_FILES, Release, data_files
from checks.evidence.signature import SIGNATURE, signature_problems
from checks.history.history import erased_people, known_people, listed_before
from checks.history.ledgers import ledgers_of
from checks.history.places import own_place
from checks.privacy.k_anonymity import publishes_single_people
from checks.registry import ANY, check
from checks.result import Finding
from tasks.store import digest, digest_of, read_published_json

# Checks every release was judged by, whichever version made it.
NEVER_MISSING = ("diversity", "integrity", "k-anonymity", "recovery")
ELEMENT_NAMES = ("element", "item")  # of a list's values, by the Parquet writers there are

NOT_IN_DIGEST = (
    "created_at",
    "code_version",
)  # of the manifest: they differ when the same release is made again

FAR = 16  # noise of any kind here exceeds this once in more values than there are

Problem = manifest.Problem


@check(
    "integrity",
    threshold=0,
    offline=True,
    whole=True,
    units=ANY,
    about=About(
        title="Integrity",
        summary="Compare the files with the manifest and the source",
        knows="The check has all files of the release and the owner's membership.",
        tries="It compares digests, counts, schema and ratings with each other.",
        means="After one contradiction no other figure could be trusted. None is allowed.",
        measure="contradictions",
        unit="contradictions",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count contradictions inside the release, and between it and the private side; none is allowed."""
    release = case.release
    assert isinstance(release, Release), "integrity is about files, and a view has none"
    inspections = (_manifest, _files, _people, _profiles, _support, _counts, _verdict)
    problems = [problem for inspect in inspections for problem in inspect(release)]
    if not case.offline:
        problems += [*_private(case), *_ledger(case)]
    problems = [problem for problem in problems if problem[0]]
    total = sum(count for count, _ in problems)
    listed = len(case.release.manifest["files"])
    detail = "; ".join(f"{words}: {count:,}" for count, words in problems) or (
        f"{listed} files have the digests of the manifest; people, groups, items and codes agree"
        + (" (published files alone)." if case.offline else ", with the membership and the source too.")
    )
    return Finding(total <= threshold, total, listed, detail)


def _manifest(release: Release) -> Iterator[Problem]:
    """Yield keys and values that docs/release-format.md does not allow: free text could name a person."""
    yield from manifest.problems(release.manifest)


def _files(release: Release) -> Iterator[Problem]:
    """Compare the digest of every listed file; an unlisted file could carry anything."""
    listed = release.manifest["files"]
    found = [f for f in release.directory.rglob("*") if f.is_symlink() or not f.is_dir()]
    present = {str(f.relative_to(release.directory)) for f in found}
    yield sum(f.is_symlink() for f in found), "files that are links to somewhere else"
    yield (
        len([name for name in DATA_FILES if name not in listed]),
        "data files without a digest in the manifest",
    )
    yield len(set(listed) - present), "files of the manifest that are missing"
    yield len(present - set(listed) - {"manifest.json", SIGNATURE}), "files that the manifest does not list"
    if SIGNATURE in present:  # it is about the manifest, so the manifest cannot list it
        yield from signature_problems(release.directory)
    tampered = [
        name for name in sorted(set(listed) & present) if digest(release.directory / name) != listed[name]
    ]
    yield len(tampered), f"files that differ from their digest ({', '.join(tampered)})"
    noted = [
        name for name in data_files(release.directory) if _notes(pq.read_schema(release.directory / name))
    ]
    yield len(noted), f"files with notes beside their columns ({', '.join(noted)})"


def _notes(schema: pa.Schema) -> bool:
    """Test whether a file carries metadata beside its columns: on the file, on a column, or on the values of a list."""
    lists = [field.type.value_field for field in schema if pa.types.is_list(field.type)]
    noted = any(about.metadata for about in (schema, *schema, *lists))
    return noted or any(values.name not in ELEMENT_NAMES for values in lists)


def _people(release: Release) -> Iterator[Problem]:
    """Inspect pseudonyms and group numbers: every person in exactly one group, every group with its people."""
    ids = release.pseudonyms
    yield len(ids) - len(pc.unique(ids)), "pseudonyms listed more than once"
    yield int((release.row_of_member < 0).sum()), "members of a group that has no profile"
    yield release.n_groups - len(np.unique(release.groups)), "group numbers with more than one profile"
    if rules_of(release.manifest["method"]).is_synthetic:
        yield len(ids), "people listed in a release of synthetic rows"
        yield int((release.sizes != 1).sum()), "synthetic rows that claim to stand for several people"
        yield int(not release.n_groups), "releases without a row"
    else:
        yield int((release.listed == 0).sum()), "groups without members"
        yield (
            int(((release.listed != release.sizes) & (release.listed > 0)).sum()),
            "groups whose size is not their members",
        )
    if len(ids) > 1:
        yield int(pc.sum(pc.greater(ids[:-1], ids[1:])).as_py()), "members out of pseudonym order"
    yield release.n_items - len(pc.unique(release.items)), "items listed more than once"


def _profiles(release: Release) -> Iterator[Problem]:
    """Inspect codes: on the scale; numbers no further off than they can be."""
    off_scale = empty = 0
    if release.levels:
        violation, beyond = "ratings off the scale", lambda block: block.codes >= release.levels
    else:
        violation, beyond = _too_far(release)
    for block in release.blocks():
        empty += int((np.diff(block.indptr) == 0).sum())
        off_scale += int(beyond(block).sum())
    yield off_scale, violation
    yield empty, "groups without items"


def _support(release: Release) -> Iterator[Problem]:
    """Inspect the counts of raters: of groups and items that are there, each once, in order, and positive."""
    if (support := release.support) is None:
        return
    known = (support.row >= 0) & (support.item >= 0) & (support.item < release.n_items)
    yield int((~known).sum()), "counts of raters of no group or no item"
    yield int((support.raters <= 0).sum()), "counts of raters that are not positive"
    numbers, items = support.group.astype(np.int64), support.item.astype(np.int64)
    step, same = np.diff(numbers), np.diff(items)
    yield int(((step < 0) | ((step == 0) & (same <= 0))).sum()), "counts of raters out of order or twice"


def _too_far(release: Release) -> tuple[str, Callable[[Profiles], np.ndarray]]:
    """Return the words and the test for numbers that are impossible.

    Ratings are off the scale by its width at most, and none of n z-scores is beyond √n. Where single people's values
    have noise, both limits grow by FAR times the root mean square distance of the values from the centre.
    """
    width, scores = release.high - release.low, release.unit == "z-score"
    centre = 0.0 if scores else (release.low + release.high) / 2
    limit = math.sqrt(release.n_items) if scores else 1.5 * width
    if publishes_single_people(release):
        squares = sum(
            float(((block.values.astype(np.float64) - centre) ** 2).sum()) for block in release.blocks()
        )
        limit += FAR * math.sqrt(squares / max(1, release.cells))
    violation = (
        "z-scores that no noise explains" if scores else "ratings off the scale by more than its width"
    )
    return violation, lambda block: np.abs(block.values - centre) > limit


def _counts(release: Release) -> Iterator[Problem]:
    """Compare the manifest's counts."""
    counts = release.manifest["counts"]
    cells = np.concatenate([np.diff(block.indptr) for block in release.blocks()] or [np.empty(0, int)])
    synthetic = rules_of(release.manifest["method"]).is_synthetic
    found = {
        "users": len(release.pseudonyms),
        "items": release.n_items,
        "groups": release.n_groups,
        "ratings": int((cells * (1 if synthetic else release.listed)).sum()),
    }
    wrong = [name for name, number in found.items() if counts.get(name) != number]
    yield len(wrong), f"counts of the manifest that are wrong ({', '.join(wrong)})"


def _verdict(release: Release) -> Iterator[Problem]:
    """Inspect the verdict of a published release; a candidate has none yet."""
    if "created_at" in release.manifest:
        answered = {c.get("name") for c in release.manifest.get("checks", [])}
        missing = [name for name in NEVER_MISSING if name not in answered]
        yield len(missing), f"checks without a verdict ({', '.join(missing)})"
        unlisted = [name for name in manifest.FILES if name not in release.manifest["files"]]
        yield len(unlisted), f"files a release must have ({', '.join(unlisted)})"
    if "checks" not in release.manifest:
        return
    path = release.directory / "checks.json"
    checks = release.manifest["checks"]
    yield int(not _holds(path, checks)), "verdicts that differ between manifest and checks.json"
    failed = [
        str(c.get("name")) for c in checks if c.get("severity") != "advisory" and c.get("passed") is not True
    ]
    yield len(failed), f"checks that failed and should have stopped the release ({', '.join(failed)})"


def _holds(path: Path, value: object) -> bool:
    """Return whether a file of the release holds this JSON value; one that cannot be read does not."""
    try:
        return bool(read_published_json(path) == value)
    except (OSError, ValueError):
        return False


def _ledger(case: Case) -> Iterator[Problem]:
    """Compare the manifest of a published release with what the store's ledger recorded when it was published.

    All digests of a release can be mended by whoever edits it; the ledger's entry cannot without its chain.
    """
    stated, place = case.release.manifest, own_place(case.private)
    if place is None or "created_at" not in stated:
        return
    for ledger in ledgers_of(place.parents[1]):
        entered = ledger.manifests().get((place.parent.name, place.name))
        if entered is not None:
            manifest_digest, code = entered
            compared = {key: value for key, value in stated.items() if key not in NOT_IN_DIGEST}
            yield (
                int(digest_of(compared) != manifest_digest),
                "manifests that differ from the ledger's digest",
            )
            yield (
                int(stated.get("code_version") != code),
                "versions of the program that differ from the ledger",
            )


def _private(case: Case) -> Iterator[Problem]:
    """Compare membership and members; every person in the source is released or declared as withheld."""
    release, truth, withheld = case.release, case.truth, case.release.manifest["withheld"]
    membership = truth.membership
    yield len(membership.users) - len(pc.unique(membership.users)), "people who are in the membership twice"
    yield (
        len(membership.pseudonyms) - len(pc.unique(membership.pseudonyms)),
        "pseudonyms in the membership twice",
    )
    place = pc.index_in(release.pseudonyms, value_set=membership.pseudonyms)
    yield place.null_count, "members who are not in the membership"
    yield (
        _missing(membership.pseudonyms, release.pseudonyms),
        "people of the membership who are not published",
    )
    known = np.flatnonzero(pc.is_valid(place).to_numpy(zero_copy_only=False))
    if len(known):
        claimed = membership.groups[place.to_numpy(zero_copy_only=False)[known].astype(np.int64)]
        yield (
            int((claimed != release.member_group[known]).sum()),
            "people whose group differs from the membership",
        )
    # Invented people would hide real ones on paper only. Those of earlier releases stay when they leave the source.
    yield int((~known_people(case)).sum()), "members without a rating in the source"
    yield from _withheld(case)
    yield (
        int(((truth.raters == 0) & ~listed_before(case)).sum()),
        "items without a rater in the source",
    )
    why = str(withheld.get("why", ""))[: manifest.LONGEST_REASON]
    yield (
        manifest.ids_in(why, membership.users),
        "source ids among the words of withheld.why (write it without them)",
    )


def _withheld(case: Case) -> Iterator[Problem]:
    """Compare who and what is withheld. In a series an exact number would change by one with one person, so there it is
    the number of people rounded down to a multiple of k, and items are not counted (checks/series/public_figures.py).
    Erased people who are still in the source do not wait; of them only the largest possible number is known.
    """
    release, truth = case.release, case.truth
    withheld = release.manifest["withheld"]
    users, items = truth.unlisted_users, truth.unlisted_items
    if rules_of(release.manifest["method"]).is_synthetic:
        users, items = 0, 0  # how many people and items there are is protected, too
    if release.manifest["series"] == "checked":
        fewest = max(0, users - erased_people(case)) // release.k * release.k
        users, items = max(fewest, min(users // release.k * release.k, _count(withheld.get("users")))), 0
    yield abs(users - _count(withheld.get("users"))), "people of the source neither released nor withheld"
    yield abs(items - _count(withheld.get("items"))), "items of the source neither released nor withheld"


def _missing(wanted: pa.StringArray, among: pa.StringArray) -> int:
    return pc.index_in(wanted, value_set=among).null_count


def _count(value: object) -> int:
    """Return a number of people or items; a list of them would name them, and counts as 0."""
    return value if type(value) is int else 0
