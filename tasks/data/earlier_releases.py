"""Open a published release with earlier ones of its series, and put them into the order of publication.

Every release has all groups of those before it, unchanged, so the order follows from the groups; snapshot dates do not
show it, since past snapshots can be released later.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tasks.data.public_prior import PublishedRelease
from tasks.errors import UsageError
from tasks.store import read_published_json

PADDED = "predictive-padded"
FORM = ("unit", "rating_scale", "rating_step", "rating_encoding")


@dataclass(frozen=True)
class Opened:
    """Hold a release, the digests of its groups' profiles and item sets, and the different item sets.

    An item set is true where the groups hold an item of the newest release's catalogue, of which this release's is the
    beginning.
    """

    place: Path
    manifest: dict[str, Any]
    release: PublishedRelease
    digests: list[bytes]
    held: list[bytes]
    item_sets: dict[bytes, np.ndarray]
    n_items: int

    @classmethod
    def open(cls, place: Path, manifest: dict[str, Any], item_ids: Sequence[str]) -> "Opened":
        """Read the groups of a release; items are those of the newest one."""
        release = PublishedRelease.open(place, item_ids)
        digests: list[bytes] = []
        held: list[bytes] = []
        item_sets: dict[bytes, np.ndarray] = {}
        for block in release.parts():
            digests += release.digests_of(block)
            for row in ~np.isnan(release.table(block)):
                held.append(hashlib.sha256(np.packbits(row).tobytes()).digest())
                item_sets.setdefault(held[-1], row)
        n_items = pq.read_metadata(place / "items.parquet").num_rows
        return cls(place, manifest, release, digests, held, item_sets, n_items)

    @cached_property
    def groups(self) -> frozenset[bytes]:
        """Return the different profiles."""
        return frozenset(self.digests)


def open_series(earlier: Sequence[Path], newest: Path, item_ids: Sequence[str]) -> list[Opened]:
    """Return the earlier releases in the order of publication, then the newest; refuse what is not an earlier one."""
    manifests = {place: read_published_json(place / "manifest.json") for place in (*earlier, newest)}
    _require_padded(newest, manifests[newest])
    seen: list[Any] = []
    for place in earlier:
        manifest = manifests[place]
        if manifest["files"] == manifests[newest]["files"]:
            raise _not_earlier("this is the release that is to be written itself", place)
        if manifest["files"] in seen:
            raise _not_earlier("this release is given twice", place, "give every earlier release once")
        seen.append(manifest["files"])
        _require_padded(place, manifest)
        if differing := [key for key in FORM if manifest.get(key) != manifests[newest].get(key)]:
            raise _not_earlier(f"it is not of the same series: its {', '.join(differing)} differ", place)
    last = Opened.open(newest, manifests[newest], item_ids)
    opened = [Opened.open(place, manifests[place], item_ids) for place in earlier]
    for one in opened:
        _require_earlier(one, last)
    opened.sort(key=lambda one: len(one.groups))
    for older, newer in pairwise(opened):
        if not older.groups <= newer.groups:
            raise _not_earlier(
                f"it is not of the same series as {newer.place}, which has more groups but not all of its groups",
                older.place,
            )
    return [*opened, last]


def _require_padded(place: Path, manifest: dict[str, Any]) -> None:
    """Refuse a release whose values are means of ratings, not a model's."""
    if manifest.get("method") != PADDED:
        raise UsageError(
            f"only profiles of padded releases can be re-estimated; this one has method {manifest.get('method')}",
            where=str(place),
            remedy="leave --earlier out",
        )


def _require_earlier(one: Opened, newest: Opened) -> None:
    """Refuse a release with a group that the newest one does not have: groups are carried over."""
    missing = len(one.groups - newest.groups)
    if not missing:
        return
    name, other = one.manifest.get("release"), newest.manifest.get("release")
    if missing == len(one.groups):
        raise _not_earlier(
            f"it is of another series (release {name}; to be written: {other}): they have no group in common",
            one.place,
        )
    if newest.groups <= one.groups:
        raise _not_earlier(
            f"it is a later release than {newest.place}, or this one before people left: it has all its groups and "
            f"{missing:,} more",
            one.place,
        )
    raise _not_earlier(
        f"{missing:,} of its groups are not in {newest.place}: it is a later release, or people have left since",
        one.place,
        "use the releases that are offered now (<snapshot>-rN where one was repaired), and only earlier ones",
    )


def _not_earlier(
    what: str, place: Path, remedy: str = "name only earlier releases of the same series"
) -> UsageError:
    return UsageError(what, where=f"--earlier {place}", remedy=remedy)
