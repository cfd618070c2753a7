"""Read the people behind synthetic rows: nobody is listed in such a release, so the source is read for everybody.

The shadows of a release (tasks/shadow/synthetic.py) are rows of the same mechanism made without some people. `present`
and `absent` hold what an attacker may know of people on either side: ratings that went into the shadow's data, and of
absent people as large a share of theirs, so that nobody is recognised by the length of a record.
"""

from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from checks.evidence.case import Case
from checks.evidence.release import DATA_FILES, Release
from checks.evidence.release_view import ReleaseView
from checks.evidence.source_matrix import IdArrays, IdFiles, read_matrix
from checks.evidence.working_files import working_files
from tasks.errors import MurmurError, Refused, is_full
from tasks.store import digest

_SAME = ("method", "privacy", "rating_scale", "rating_step", "rating_encoding", "unit")
_REMEDY = "run the release anew; its evaluate step makes the shadow"


@dataclass(frozen=True)
class People:
    """Hold ratings of people of the source, on the items of a release and of its shadows."""

    users: pa.StringArray
    items: pa.StringArray
    ratings: sp.csr_array

    def on(self, items: pa.StringArray) -> sp.csr_array:
        """Return the ratings on these items, in their order."""
        columns = _places(items, self.items)
        found = sp.csr_array(self.ratings[:, columns])
        found.sort_indices()
        return found


@dataclass(frozen=True)
class ShadowRows:
    """Hold the rows of a shadow, and people who were in its data and who were not, on the items of the rows."""

    rows: sp.csr_array
    present: sp.csr_array
    absent: sp.csr_array
    number_of_present: np.ndarray  # which of the people of the source each of the present is


def rows_of(release: ReleaseView) -> sp.csr_array:
    """Return the published rows as a matrix of ratings."""
    blocks = [block.matrix() for block in release.blocks()]
    rows = sp.csr_array(sp.vstack(blocks, format="csr")) if blocks else sp.csr_array((0, release.n_items))
    rows.sort_indices()
    return rows


def people_of(case: Case) -> People:
    """Return the people whom evaluate listed for the first shadow: everybody, of large sources a sample."""
    return case.cached("people of the source", lambda: _read_people(case))


def shadows_of(case: Case) -> list[ShadowRows]:
    """Return the shadows of a release of synthetic rows; refuse where there is none."""
    return case.cached(
        "shadows of synthetic rows", lambda: [_read(case, place) for place in _shadow_places(case)]
    )


def _shadow_places(case: Case) -> list[Path]:
    if case.private is None:
        raise Refused("there is no private directory with the shadow release", remedy="run `murmur audit`")
    utility = case.private / "utility"
    further = takewhile(Path.exists, (utility / f"shadow-release-{number}" for number in count(2)))
    return [utility / "shadow-release", *further]


def _read_people(case: Case) -> People:
    if case.source is None or case.snapshot is None:
        raise Refused("this check needs the source", remedy="run `murmur audit`")
    places = _shadow_places(case)
    users = _table(places[0] / "people.parquet").column("user").combine_chunks()
    lists = [
        case.release.items,
        *(_table(place / "items.parquet").column("item").combine_chunks() for place in places),
    ]
    items = pc.unique(pa.concat_arrays([one.cast(pa.string()) for one in lists]))
    with working_files(case.private) as name:
        # Workers read the ids from files of the owner's own, as for a release with members.
        place = Path(name)
        pq.write_table(pa.table({"user": users}), place / "membership.parquet")
        pq.write_table(pa.table({"item": items}), place / "items.parquet")
        ids, files = IdArrays(users, items), IdFiles(place, place)
        found = read_matrix(case.source, case.snapshot, ids, files, place, case.engine).ratings
        # The matrix is mapped from files that are removed here.
        ratings = sp.csr_array(
            (found.data.copy(), found.indices.copy(), found.indptr.copy()), shape=found.shape
        )
    ratings.sort_indices()
    return People(users, items, ratings)


def _table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException):
        raise Refused("the shadow release cannot be read", where=path.name, remedy=_REMEDY) from None


def _read(case: Case, place: Path) -> ShadowRows:
    try:
        return _opened(case, place)
    except MurmurError:
        raise
    except Exception as problem:
        if is_full(problem):
            raise
        # Damaged files raise whatever their reader meets first, and it may quote a source id.
        raise Refused(
            f"the shadow release cannot be used: it cannot be read ({type(problem).__name__})",
            where=place.name,
            remedy=_REMEDY,
        ) from None


def _opened(case: Case, place: Path) -> ShadowRows:
    release = Release(place, case.private)
    if any(release.manifest["files"].get(name) != digest(place / name) for name in DATA_FILES):
        raise Refused(
            "the files of the shadow are not those its manifest names", where=place.name, remedy=_REMEDY
        )
    if any(release.manifest[key] != case.release.manifest[key] for key in _SAME):
        raise Refused(
            "the shadow was not made with the settings of the release", where=place.name, remedy=_REMEDY
        )
    people, listed = people_of(case), _table(place / "people.parquet")
    number = _places(listed.column("user").combine_chunks(), people.users)
    if (number < 0).any() or len(np.unique(number)) != len(number):
        raise Refused("the shadow's people are not those of the release", where=place.name, remedy=_REMEDY)
    is_present = listed.column("present").to_numpy().astype(bool)
    ratings = people.on(release.items)
    kept = _without(ratings, _held_out(place, people, release))
    present, absent = number[is_present], number[~is_present]
    share = kept[present].nnz / max(1, ratings[present].nnz)
    draw = case.draw("absent ratings", place.name)
    thinned = _thinned(sp.csr_array(ratings[absent]), share, draw)
    return ShadowRows(rows_of(release), sp.csr_array(kept[present]), thinned, present)


def _held_out(place: Path, people: People, release: Release) -> np.ndarray:
    """Return the cells held out of the shadow, as person · items + item; those on other items are left out."""
    table = _table(place / "held_out.parquet")
    user = _places(table.column("user").combine_chunks(), people.users)
    item = _places(table.column("item").combine_chunks(), release.items)
    some = (user >= 0) & (item >= 0)
    return user[some] * np.int64(release.n_items) + item[some]


def _without(ratings: sp.csr_array, cells: np.ndarray) -> sp.csr_array:
    owner = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
    return _only(ratings, owner, ~np.isin(owner * np.int64(ratings.shape[1]) + ratings.indices, cells))


def _thinned(ratings: sp.csr_array, share: float, draw: np.random.Generator) -> sp.csr_array:
    owner = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
    return _only(ratings, owner, draw.random(ratings.nnz) < share)


def _only(ratings: sp.csr_array, owner: np.ndarray, keep: np.ndarray) -> sp.csr_array:
    counts = np.bincount(owner[keep], minlength=ratings.shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sp.csr_array((ratings.data[keep], ratings.indices[keep], indptr), shape=ratings.shape)


def _places(wanted: pa.StringArray, among: pa.StringArray) -> np.ndarray:
    """Return the position of each string; −1: not found."""
    found = pc.index_in(wanted.cast(pa.string()), value_set=among.cast(pa.string()))
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
