"""Read the owner's private membership: which source id has which pseudonym and is in which group."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import Refused

_COLUMNS = {"user": pa.string(), "pseudonym": pa.string(), "group": pa.int32()}


@dataclass(frozen=True)
class Membership:
    """Hold the owner's table of source ids, pseudonyms and group numbers. It is secret."""

    users: pa.StringArray
    pseudonyms: pa.StringArray
    groups: np.ndarray

    @classmethod
    def read(cls, private: Path) -> "Membership":
        """Read membership.parquet; refuse any other columns than docs/release-format.md names."""
        path = private / "membership.parquet"
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException):
            raise Refused(
                "there is no readable membership",
                where=str(path),
                remedy="name the private directory of this release",
            ) from None
        if {field.name: field.type for field in table.schema} != _COLUMNS:
            raise Refused(
                "the membership's columns are not user, pseudonym, group",
                where=str(path),
                remedy="publish the release anew",
            )
        if any(column.null_count for column in table.columns):
            raise Refused("the membership has nulls", where=str(path), remedy="publish the release anew")
        users, pseudonyms = (table.column(name).combine_chunks() for name in ("user", "pseudonym"))
        return cls(users, pseudonyms, table.column("group").to_numpy().astype(np.int32))
