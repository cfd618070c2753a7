"""Keep the shadow's release for the gate, with who is in it, who is absent, and which ratings were held out."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.data.candidate import Candidate, Contents, Declaration, Membership, write_release
from tasks.data.ratings import Ratings, places
from tasks.shadow.placement import Placement
from tasks.shadow.split import Split


@dataclass(frozen=True)
class ReleasedRatings:
    """Hold the ratings that surround a shadow's release."""

    ingested: Ratings  # of the release
    released: Ratings  # of the release, as changed by a step
    shadow: Ratings  # of the shadow, as changed by a step


def keep_release(  # noqa: PLR0913 - what a release is made of
    out: Path,
    declared: Declaration,
    snapshot: datetime.date,
    ratings: ReleasedRatings,
    groups: Path,
    split: Split,
    placement: Placement,
    pseudonyms: Callable[[pa.Array], pa.Array],
    support: Path | None = None,
) -> None:
    """Write the shadow's release, its membership and held_out.parquet; only users and items of the release itself.

    `support` is the file with its numbers of raters, where the release has one.
    """
    users = np.concatenate([split.present, split.absent])
    ids = ratings.ingested.user_ids().take(pa.array(users))
    names = pseudonyms(ids)
    labels = np.concatenate([placement.record_of_user, np.full(len(split.absent), -1)])
    in_release = places(ids, ratings.released.user_ids()) >= 0
    some = pa.array(in_release)
    members = Membership(ids.filter(some), names.filter(some), labels[in_release])
    contents = replace(Contents.of(ratings.shadow, groups), support=support)
    write_release(Candidate(out, out), declared, snapshot, contents, members)
    user, item, _ = split.held_out
    column = placement.column_of_item[item]
    user, column = user[column >= 0], column[column >= 0]
    pseudonym = pa.DictionaryArray.from_arrays(pa.array(user, pa.int32()), names)
    held_out = pa.table({"pseudonym": pseudonym.cast(pa.string()), "item": pa.array(column, pa.int32())})
    pq.write_table(held_out, out / "held_out.parquet", compression="zstd")
